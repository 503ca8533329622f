//! The blob of slog's formats: `nonce ‖ AES-256-GCM ‖ tag` under the plain SHA-256 of a password, on the
//! wire (`logs::envelope`) and in its files.

use crate::error::{Error, Result};
use crate::format::tree::sha256;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

/// Nonce of AES-GCM, in front.
pub const NONCE_LEN: usize = 12;
/// Tag of AES-GCM, at the end.
pub const TAG_LEN: usize = 16;

fn cipher(password: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, &sha256(password)).ok().map(LessSafeKey::new)
}

/// Opens nonce, ciphertext and tag with a password.
#[must_use]
pub fn open(blob: &[u8], password: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = blob.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = sealed.to_vec();
    let len = cipher(password)?.open_in_place(nonce, Aad::empty(), &mut text).ok()?.len();
    text.truncate(len);
    Some(text)
}

/// Nonce, ciphertext and tag under a password.
pub fn seal(text: &[u8], password: &[u8]) -> Result<Vec<u8>> {
    let nonce: Zeroizing<[u8; NONCE_LEN]> = crate::format::epoch::random()?;
    let mut sealed = text.to_vec();
    cipher(password)
        .and_then(|c| {
            let nonce = Nonce::assume_unique_for_key(*nonce);
            c.seal_in_place_append_tag(nonce, Aad::empty(), &mut sealed).ok()
        })
        .ok_or(Error::Crypto("AES-GCM"))?;
    let mut out = nonce.to_vec();
    out.extend_from_slice(&sealed);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::hex::{from_hex, to_hex};

    #[test]
    fn the_seed_texts_open() {
        // Blobs and passwords that slog's author published: the one of the benchmark notes under the hex
        // text of a hash, the one of slog's unit test under the password itself.
        let password = "56b4fbe06471a2a378bb654e94925c39ed04bf70846b7632441500f8c3c4fa5e";
        assert_eq!(to_hex(&sha256(b"my-fancy-password")), password);
        for (blob, password) in [
            (
                "9a959a392810308a4df45613e82548a375042c6c1d8bacc76b1f89e4fb168d7611eadd7c7ed210e32123",
                password,
            ),
            (
                "f38d3b88846d6a392ae897eb736dcc0cb10c7c377bf1e13980a2fd13445d3b7c4399e417a65969596fde",
                "my-fancy-password",
            ),
        ] {
            let blob = from_hex(blob.as_bytes()).unwrap();
            assert_eq!(open(&blob, password.as_bytes()).as_deref(), Some(&b"This is a test"[..]));
        }
        let blob = seal(b"text", b"pass").unwrap();
        assert_eq!(open(&blob, b"pass").as_deref(), Some(&b"text"[..]));
        assert_eq!(open(&blob, b"word"), None);
    }
}

//! The envelope on the wire: `hex(nonce ‖ ciphertext ‖ tag),base64(RSA(password))`, and inside it
//! `timestamp,host,file,checksum,line`.

use crate::error::{Error, Result};
use crate::limits::SLOG_LINE_MAX;
use crate::recipient::{SecretKey, encrypt_oaep_sha512};
use crate::text::{base64, hex, unbase64, unhex};
use crate::tree::sha256;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use zeroize::Zeroizing;

const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;

macro_rules! reasons {
    ($($name:ident, $text:literal, $meaning:literal;)+) => {
        /// Why an envelope is suspicious.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Suspicious { $(#[doc = $meaning] $name,)+ }

        impl Suspicious {
            /// All of them.
            pub const ALL: &'static [Suspicious] = &[$(Suspicious::$name,)+];

            /// As it stands in output.
            #[must_use]
            pub const fn name(self) -> &'static str { match self { $(Suspicious::$name => $text,)+ } }
        }
    };
}

// The one table: name, name in output, meaning.
reasons! {
    TooLong, "too-long", "longer than any envelope";
    OuterFields, "outer-fields", "not two fields";
    Hex, "hex", "the first field is not hex";
    Nonce, "short-nonce", "the first field is shorter than a nonce";
    Base64, "base64", "the second field is not base64";
    Wrap, "wrap", "the password does not open with this key";
    Cipher, "cipher", "the text does not open with the password";
    InnerFields, "inner-fields", "not five fields inside";
    Timestamp, "empty-timestamp", "no timestamp inside";
    Host, "empty-host", "no host inside";
    File, "empty-file", "no file name inside";
    Checksum, "checksum", "the line differs from its checksum";
}

/// An envelope that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// When the client made it, in its own form.
    pub timestamp: Vec<u8>,
    /// Host it says it is from.
    pub host: Vec<u8>,
    /// File the line was read from.
    pub file: Vec<u8>,
    /// The line.
    pub line: Vec<u8>,
    /// All of the inner text.
    pub inner: Vec<u8>,
    /// Nonce and tag: the same again is a replay.
    pub identity: [u8; NONCE_LEN + TAG_LEN],
}

impl Envelope {
    /// Opens what came over the wire.
    pub fn open(wire: &[u8], key: &SecretKey) -> std::result::Result<Envelope, Suspicious> {
        let (blob, wrapped) = split(wire)?;
        let identity = identity(&blob);
        let password = key.decrypt_oaep_sha512(&wrapped).ok_or(Suspicious::Wrap)?;
        let inner = open_blob(&blob, &password).ok_or(Suspicious::Cipher)?;
        let mut parts = inner.splitn(5, |c| *c == b',');
        let mut part = || parts.next().map(<[u8]>::to_vec).ok_or(Suspicious::InnerFields);
        let (timestamp, host, file, checksum, line) = (part()?, part()?, part()?, part()?, part()?);
        for (field, reason) in [
            (&timestamp, Suspicious::Timestamp),
            (&host, Suspicious::Host),
            (&file, Suspicious::File),
        ] {
            if field.is_empty() {
                return Err(reason);
            }
        }
        if checksum != hex(&sha256(&line)).as_bytes() {
            return Err(Suspicious::Checksum);
        }
        Ok(Envelope { timestamp, host, file, line, identity, inner })
    }

    /// Makes what a client sends, under a random password. `spki` is the receiver's key in DER.
    pub fn seal(
        timestamp: &str,
        host: &str,
        file: &str,
        line: &[u8],
        spki: &[u8],
    ) -> Result<Vec<u8>> {
        let random: Zeroizing<[u8; 16]> = crate::epoch::random()?;
        let password = Zeroizing::new(hex(random.as_ref()));
        let mut inner = format!("{timestamp},{host},{file},{},", hex(&sha256(line))).into_bytes();
        inner.extend_from_slice(line);
        let blob = seal_blob(&inner, password.as_bytes())?;
        let wrapped = encrypt_oaep_sha512(spki, password.as_bytes())?;
        Ok(format!("{},{}", hex(&blob), base64(&wrapped)).into_bytes())
    }
}

/// The two fields of an envelope, decoded: blob and wrapped password.
fn split(wire: &[u8]) -> std::result::Result<(Vec<u8>, Vec<u8>), Suspicious> {
    if wire.len() > SLOG_LINE_MAX {
        return Err(Suspicious::TooLong);
    }
    // As slog does: white space around it, spaces and tabs anywhere.
    let packed: Vec<u8> =
        wire.trim_ascii().iter().copied().filter(|c| *c != b' ' && *c != b'\t').collect();
    let mut fields = packed.split(|c| *c == b',');
    let (Some(blob), Some(wrapped), None) = (fields.next(), fields.next(), fields.next()) else {
        return Err(Suspicious::OuterFields);
    };
    let blob = unhex(blob).ok_or(Suspicious::Hex)?;
    if blob.len() < NONCE_LEN {
        return Err(Suspicious::Nonce);
    }
    let wrapped = unbase64(wrapped).ok_or(Suspicious::Base64)?;
    Ok((blob, wrapped))
}

fn identity(blob: &[u8]) -> [u8; NONCE_LEN + TAG_LEN] {
    let mut identity = [0; NONCE_LEN + TAG_LEN];
    if let (Some(nonce), Some(tag)) =
        (blob.first_chunk::<NONCE_LEN>(), blob.last_chunk::<TAG_LEN>())
    {
        identity[..NONCE_LEN].copy_from_slice(nonce);
        identity[NONCE_LEN..].copy_from_slice(tag);
    }
    identity
}

fn cipher(password: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, &sha256(password)).ok().map(LessSafeKey::new)
}

/// Opens nonce, ciphertext and tag with a password.
#[must_use]
pub fn open_blob(blob: &[u8], password: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = blob.split_at_checked(NONCE_LEN)?;
    let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
    let mut text = sealed.to_vec();
    let len = cipher(password)?.open_in_place(nonce, Aad::empty(), &mut text).ok()?.len();
    text.truncate(len);
    Some(text)
}

/// Nonce, ciphertext and tag under a password.
pub fn seal_blob(text: &[u8], password: &[u8]) -> Result<Vec<u8>> {
    let nonce: Zeroizing<[u8; NONCE_LEN]> = crate::epoch::random()?;
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

    #[test]
    fn the_seed_texts_open() {
        // Blobs and passwords that slog's author published: the one of the benchmark notes under the hex
        // text of a hash, the one of slog's unit test under the password itself.
        let password = "56b4fbe06471a2a378bb654e94925c39ed04bf70846b7632441500f8c3c4fa5e";
        assert_eq!(hex(&sha256(b"my-fancy-password")), password);
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
            let blob = unhex(blob.as_bytes()).unwrap();
            assert_eq!(
                open_blob(&blob, password.as_bytes()).as_deref(),
                Some(&b"This is a test"[..])
            );
        }
        let blob = seal_blob(b"text", b"pass").unwrap();
        assert_eq!(open_blob(&blob, b"pass").as_deref(), Some(&b"text"[..]));
        assert_eq!(open_blob(&blob, b"word"), None);
    }
}

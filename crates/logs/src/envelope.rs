//! slog's wire envelope: `hex(nonce ‖ AES-256-GCM ‖ tag) , base64(RSA-OAEP-SHA-512(password))`, its
//! inside `timestamp,host,file,sha256(line),line`.
//!
//! A sender is anybody with the public key, so every byte is hostile. What can't be opened is no error
//! but a [`Suspicion`]: the message is kept as it came, with the reason. Two things differ from slog on
//! purpose: a blob shorter than its nonce is refused (slog's server dies of it), and the inside is cut
//! at its first four commas only, so that a line with commas opens.
//!
//! The key of the AES is the plain SHA-256 of the password, as slog has it; the password is random and
//! used once, so that is no weakness on the wire.

use crate::limits::ENVELOPE_BYTES_MAX;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rsa::{OAEP_SHA512_MGF1SHA512, OaepPrivateDecryptingKey, OaepPublicEncryptingKey};
use aws_lc_rs::rsa::{PrivateDecryptingKey, PublicEncryptingKey};
use std::fmt;

macro_rules! suspicions {
    ($($name:ident, $text:literal, $meaning:literal;)+) => {
        /// Why an envelope was not opened. The numbers are part of the log's format and stay.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Suspicion { $(#[doc = $meaning] $name,)+ }

        impl Suspicion {
            /// All in the order of their numbers.
            pub const ALL: &'static [Suspicion] = &[$(Suspicion::$name,)+];

            /// The word in outputs, behind `suspicious:`.
            pub const fn name(self) -> &'static str {
                match self { $(Suspicion::$name => $text,)+ }
            }
        }
    };
}

suspicions! {
    Fields, "fields", "Not two fields: no comma, or more than one.";
    TooLong, "too-long", "Longer than an envelope may be.";
    Hex, "hex", "The blob is no hex.";
    ShortBlob, "short-blob", "The blob is shorter than nonce and tag.";
    Base64, "base64", "The wrapped password is no base64.";
    Unwrap, "unwrap", "The password was not wrapped for this key.";
    Open, "open", "The password does not open the blob, or the blob was altered.";
    InnerFields, "inner-fields", "The inside has fewer than five fields, or an empty one.";
    Checksum, "checksum", "The line's checksum differs.";
    KeyMissing, "key-missing", "There is no key to open envelopes with.";
}

impl fmt::Display for Suspicion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an opened envelope says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The whole inside.
    pub inner: Vec<u8>,
    /// Nonce and tag: what tells this envelope from every other.
    pub id: EnvelopeId,
}

/// The fields of an inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner<'a> {
    /// As the client wrote it: `2006-01-02T15:04:05.000-07`.
    pub timestamp: &'a [u8],
    /// The client's name for itself.
    pub host: &'a [u8],
    /// The file the line stood in.
    pub file: &'a [u8],
    /// SHA-256 of the line, lower-case hex.
    pub checksum: &'a [u8],
    /// The line.
    pub line: &'a [u8],
}

/// Nonce and tag of an envelope.
pub type EnvelopeId = [u8; 28];

/// Nonce of AES-GCM.
const NONCE: usize = 12;
/// Tag of AES-GCM.
const TAG: usize = 16;

/// A private key that opens envelopes.
pub struct EnvelopeKey(OaepPrivateDecryptingKey);

impl fmt::Debug for EnvelopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EnvelopeKey({} bits)", self.0.key_size_bits())
    }
}

impl EnvelopeKey {
    /// Reads a PEM file: PKCS#8, or PKCS#1 under either label, as slog writes it.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn from_pem(pem: &[u8]) -> Result<EnvelopeKey, &'static str> {
        let der = pem_body(pem).ok_or("no PEM")?;
        let key = PrivateDecryptingKey::from_pkcs8(&der)
            .or_else(|_| PrivateDecryptingKey::from_pkcs8(&pkcs8_of_pkcs1(&der)))
            .map_err(|_| "no RSA private key of 2,048 to 8,192 bits in PKCS#8 or PKCS#1")?;
        OaepPrivateDecryptingKey::new(key)
            .map(EnvelopeKey)
            .map_err(|_| "an RSA key that can't be used")
    }

    /// Length of the wrapped password in base64, so that the end of an envelope is known.
    pub fn wrapped_len(&self) -> usize {
        self.0.key_size_bytes().div_ceil(3) * 4
    }

    /// Opens an envelope as it came over the wire.
    ///
    /// # Errors
    /// Why it stays closed.
    pub fn open(&self, wire: &[u8]) -> Result<Opened, Suspicion> {
        let (blob, wrapped) = split(wire)?;
        // Before the dear part: what can't be opened costs no RSA.
        if blob.len() < NONCE + TAG {
            return Err(Suspicion::ShortBlob);
        }
        let wrapped = base64(&wrapped).ok_or(Suspicion::Base64)?;
        let mut plain = vec![0; self.0.min_output_size()];
        let password = self
            .0
            .decrypt(&OAEP_SHA512_MGF1SHA512, &wrapped, &mut plain, None)
            .map_err(|_| Suspicion::Unwrap)?;
        let opened = open_blob(password, blob)?;
        inner(&opened.inner)?;
        Ok(opened)
    }
}

/// Cuts an envelope into blob and wrapped password, spaces and tabs removed, as slog does.
fn split(wire: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Suspicion> {
    if wire.len() > ENVELOPE_BYTES_MAX {
        return Err(Suspicion::TooLong);
    }
    let text: Vec<u8> =
        wire.trim_ascii().iter().copied().filter(|b| !matches!(b, b' ' | b'\t')).collect();
    let mut fields = text.split(|b| *b == b',');
    match (fields.next(), fields.next(), fields.next()) {
        (Some(blob), Some(wrapped), None) => {
            Ok((hex(blob).ok_or(Suspicion::Hex)?, wrapped.to_vec()))
        }
        _ => Err(Suspicion::Fields),
    }
}

/// Opens a blob with the password itself.
///
/// # Errors
/// Why it stays closed.
pub fn open_blob(password: &[u8], mut blob: Vec<u8>) -> Result<Opened, Suspicion> {
    if blob.len() < NONCE + TAG {
        return Err(Suspicion::ShortBlob);
    }
    let mut id = [0; NONCE + TAG];
    id[..NONCE].copy_from_slice(&blob[..NONCE]);
    id[NONCE..].copy_from_slice(&blob[blob.len() - TAG..]);
    let nonce =
        Nonce::try_assume_unique_for_key(&blob[..NONCE]).map_err(|_| Suspicion::ShortBlob)?;
    let len = aes_key(password)
        .open_in_place(nonce, Aad::empty(), &mut blob[NONCE..])
        .map_err(|_| Suspicion::Open)?
        .len();
    blob.copy_within(NONCE..NONCE + len, 0);
    blob.truncate(len);
    Ok(Opened { inner: blob, id })
}

/// Cuts the inside into its fields and checks them.
///
/// # Errors
/// What does not hold.
pub fn inner(inside: &[u8]) -> Result<Inner<'_>, Suspicion> {
    let mut fields = inside.splitn(5, |b| *b == b',');
    let (Some(timestamp), Some(host), Some(file), Some(checksum), Some(line)) =
        (fields.next(), fields.next(), fields.next(), fields.next(), fields.next())
    else {
        return Err(Suspicion::InnerFields);
    };
    if timestamp.is_empty() || host.is_empty() || file.is_empty() {
        return Err(Suspicion::InnerFields);
    }
    if checksum != to_hex(digest(&SHA256, line).as_ref()).as_bytes() {
        return Err(Suspicion::Checksum);
    }
    Ok(Inner { timestamp, host, file, checksum, line })
}

/// A public key that makes envelopes.
pub struct EnvelopeSealer(OaepPublicEncryptingKey);

impl fmt::Debug for EnvelopeSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvelopeSealer")
    }
}

impl EnvelopeSealer {
    /// Reads a PEM file with a public key (SPKI).
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn from_pem(pem: &[u8]) -> Result<EnvelopeSealer, &'static str> {
        let der = pem_body(pem).ok_or("no PEM")?;
        let key = PublicEncryptingKey::from_der(&der).map_err(|_| "no RSA public key")?;
        OaepPublicEncryptingKey::new(key)
            .map(EnvelopeSealer)
            .map_err(|_| "an RSA key that can't be used")
    }

    /// Makes an envelope as slog's client does: a fresh password, a fresh nonce.
    ///
    /// # Errors
    /// When the key can't be used.
    pub fn seal(
        &self,
        timestamp: &str,
        host: &str,
        file: &str,
        line: &[u8],
    ) -> Result<Vec<u8>, &'static str> {
        let mut random = [0u8; 16 + NONCE];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| "no randomness")?;
        let password = to_hex(&random[..16]);
        let mut blob = format!("{timestamp},{host},{file},").into_bytes();
        blob.extend_from_slice(to_hex(digest(&SHA256, line).as_ref()).as_bytes());
        blob.push(b',');
        blob.extend_from_slice(line);
        let nonce = Nonce::try_assume_unique_for_key(&random[16..]).map_err(|_| "no nonce")?;
        aes_key(password.as_bytes())
            .seal_in_place_append_tag(nonce, Aad::empty(), &mut blob)
            .map_err(|_| "too long")?;
        let mut wrapped = vec![0; self.0.ciphertext_size()];
        let wrapped = self
            .0
            .encrypt(&OAEP_SHA512_MGF1SHA512, password.as_bytes(), &mut wrapped, None)
            .map_err(|_| "the key can't wrap")?;
        let mut envelope = to_hex(&random[16..]).into_bytes();
        envelope.extend_from_slice(to_hex(&blob).as_bytes());
        envelope.push(b',');
        envelope.extend_from_slice(to_base64(wrapped).as_bytes());
        Ok(envelope)
    }
}

fn aes_key(password: &[u8]) -> LessSafeKey {
    let key = digest(&SHA256, password);
    LessSafeKey::new(
        UnboundKey::new(&AES_256_GCM, key.as_ref()).expect("invariant: SHA-256 gives 32 bytes"),
    )
}

/// The base64 between a PEM file's lines, whatever its label.
fn pem_body(pem: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(pem).ok()?;
    let body = text.split_once("-----BEGIN ")?.1.split_once("-----")?.1.split_once("-----END ")?.0;
    base64(body.as_bytes())
}

/// Wraps a PKCS#1 key in PKCS#8's header, for a reader that knows only that.
fn pkcs8_of_pkcs1(der: &[u8]) -> Vec<u8> {
    // version 0, rsaEncryption with NULL parameters
    const HEAD: &[u8] =
        &[2, 1, 0, 0x30, 13, 6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1, 5, 0];
    let mut octets = tagged(4, der);
    let mut inside = HEAD.to_vec();
    inside.append(&mut octets);
    tagged(0x30, &inside)
}

fn tagged(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let len = body.len() as u64;
    if len < 128 {
        out.push(len as u8);
    } else {
        let bytes = len.to_be_bytes();
        let skip = (len.leading_zeros() / 8) as usize;
        out.push(0x80 | (8 - skip) as u8);
        out.extend_from_slice(&bytes[skip..]);
    }
    out.extend_from_slice(body);
    out
}

/// Hex of either case.
pub fn hex(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    text.chunks_exact(2).map(|p| Some((digit(p[0])? << 4 | digit(p[1])?) as u8)).collect()
}

/// Lower-case hex.
pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        out.push(char::from(DIGITS[usize::from(b >> 4)]));
        out.push(char::from(DIGITS[usize::from(b & 15)]));
    }
    out
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Standard base64 with padding; line ends within are skipped, as Go does.
pub fn base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut group = [0u8; 4];
    let (mut filled, mut padding) = (0, 0);
    for &b in text {
        let value = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'\r' | b'\n' => continue,
            b'=' if filled >= 2 => {
                padding += 1;
                0
            }
            _ => return None,
        };
        if padding > 0 && b != b'=' || out.len() % 3 != 0 {
            return None;
        }
        group[filled] = value;
        filled += 1;
        if filled == 4 {
            let bits = group.iter().fold(0u32, |n, v| n << 6 | u32::from(*v));
            out.extend_from_slice(&bits.to_be_bytes()[1..4 - padding]);
            filled = 0;
        }
    }
    (filled == 0).then_some(out)
}

/// Standard base64 with padding.
pub fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                out.push(char::from(ALPHABET[(bits >> (18 - 6 * i) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn base64_is_strict() {
        assert_eq!(base64(b"aGk=").as_deref(), Some(&b"hi"[..]));
        assert_eq!(base64(b"aG\nkh").as_deref(), Some(&b"hi!"[..]));
        for bad in [&b"aGk"[..], b"a===", b"aGk=aGkh", b"aG k", b"=aGk", b"aG=k"] {
            assert_eq!(base64(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    proptest! {
        #[test]
        fn codings_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..70)) {
            prop_assert_eq!(base64(to_base64(&bytes).as_bytes()), Some(bytes.clone()));
            prop_assert_eq!(hex(to_hex(&bytes).as_bytes()), Some(bytes));
        }

        #[test]
        fn no_inside_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = inner(&bytes);
            let _ = open_blob(b"x", bytes.clone());
            let _ = split(&bytes);
        }
    }
}

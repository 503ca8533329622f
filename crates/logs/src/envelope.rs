//! slog's wire envelope: `hex(nonce ‖ AES-256-GCM ‖ tag) , base64(RSA-OAEP-SHA-512(password))`, its
//! inside `timestamp,host,file,sha256(line),line`.
//!
//! A sender is anybody with the public key, so every byte is hostile. What can't be opened is no error
//! but a [`Suspicion`]: the message is kept as it came, with the reason. Two things differ from slog on
//! purpose: a blob shorter than its nonce is refused (slog's server dies of it), and the inside is cut
//! at its first four commas only, so that a line with commas opens.
//!
//! The blob's own cipher is slog's storage cipher too and stands in `seal::slog::blob`. Its key is the
//! plain SHA-256 of the password; the password is random and used once, so that is no weakness here.

use crate::limits::ENVELOPE_BYTES_MAX;
use aws_lc_rs::rsa::{OAEP_SHA512_MGF1SHA512, OaepPublicEncryptingKey, PublicEncryptingKey};
use gabion_record::base64::{from_base64, to_base64};
use gabion_record::hex::{from_hex, to_hex};
use gabion_seal::sha256;
use gabion_seal::slog::{NONCE_LEN, TAG_LEN, open_blob, seal_blob};
use gabion_seal::{Recipient, SecretKey};
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

            /// The word in outputs, after `suspicious:`.
            pub const fn name(self) -> &'static str {
                match self { $(Suspicion::$name => $text,)+ }
            }
        }
    };
}

suspicions! {
    Fields, "fields", "Not two fields: no comma, or more than one.";
    TooLong, "too-long", "Longer than an envelope may be.";
    Hex, "hex", "The blob is not hexadecimal.";
    ShortBlob, "short-blob", "The blob is shorter than nonce and tag.";
    Base64, "base64", "The wrapped password is not base64.";
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

/// Why a key can't be read, or an envelope not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The file is not text.
    #[error("not PEM")]
    NoPem,
    /// It holds no private key that opens envelopes.
    #[error("not an RSA private key of 2,048 to 8,192 bits in PKCS#8 or PKCS#1")]
    NoPrivateKey,
    /// It holds no public key that makes envelopes.
    #[error("not an RSA public key of 2,048 to 8,192 bits")]
    NoPublicKey,
    /// The system gives no randomness.
    #[error("the system gives no random bytes")]
    NoRandomness,
    /// A line is longer than an envelope may hold.
    #[error("too long")]
    TooLong,
    /// The key does not wrap a password.
    #[error("the key can't encrypt")]
    CannotWrap,
}

/// What an opened envelope says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The whole inside.
    pub inner: Vec<u8>,
    /// Nonce and tag, which no two envelopes share.
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
pub type EnvelopeId = [u8; NONCE_LEN + TAG_LEN];

/// A private RSA key that opens envelopes.
pub struct EnvelopeKey {
    key: SecretKey,
    wrapped_len: usize,
}

impl fmt::Debug for EnvelopeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EnvelopeKey")
    }
}

impl EnvelopeKey {
    /// Reads a PEM file: PKCS#8, or PKCS#1 under either label, as slog writes it.
    ///
    /// # Errors
    /// What is wrong, for people.
    pub fn from_pem(pem: &[u8]) -> Result<EnvelopeKey, KeyError> {
        const WRONG: KeyError = KeyError::NoPrivateKey;
        let text = std::str::from_utf8(pem).map_err(|_| KeyError::NoPem)?;
        let key = SecretKey::parse_file(text).map_err(|_| WRONG)?;
        let SecretKey::Rsa(rsa, _) = &key else { return Err(WRONG) };
        let wrapped_len = rsa.key_size_bytes().div_ceil(3) * 4;
        Ok(EnvelopeKey { key, wrapped_len })
    }

    /// Length of the wrapped password in base64, so that the end of an envelope is known.
    pub const fn wrapped_len(&self) -> usize {
        self.wrapped_len
    }

    /// Opens an envelope as it came over the wire.
    ///
    /// # Errors
    /// Why it stays closed.
    pub fn open(&self, wire: &[u8]) -> Result<Opened, Suspicion> {
        let (blob, wrapped) = split(wire)?;
        // Before the dear part: what can't be opened costs no RSA.
        let id = id(&blob).ok_or(Suspicion::ShortBlob)?;
        let password = self.key.decrypt_oaep_sha512(&wrapped).ok_or(Suspicion::Unwrap)?;
        let inside = open_blob(&blob, &password).ok_or(Suspicion::Open)?;
        inner(&inside)?;
        Ok(Opened { inner: inside, id })
    }
}

/// Cuts an envelope into blob and wrapped password, spaces and tabs removed, as slog does; line ends
/// within the password's base64 too, as Go does.
fn split(wire: &[u8]) -> Result<(Vec<u8>, Vec<u8>), Suspicion> {
    if wire.len() > ENVELOPE_BYTES_MAX {
        return Err(Suspicion::TooLong);
    }
    let mut text = wire.trim_ascii().to_vec();
    text.retain(|b| !matches!(b, b' ' | b'\t'));
    let mut fields = text.split(|b| *b == b',');
    let (Some(blob), Some(wrapped), None) = (fields.next(), fields.next(), fields.next()) else {
        return Err(Suspicion::Fields);
    };
    let blob = from_hex(blob).ok_or(Suspicion::Hex)?;
    if blob.len() < NONCE_LEN + TAG_LEN {
        return Err(Suspicion::ShortBlob);
    }
    let mut wrapped = wrapped.to_vec();
    wrapped.retain(|b| !matches!(b, b'\r' | b'\n'));
    clear_spare_bits(&mut wrapped);
    Ok((blob, from_base64(&wrapped).ok_or(Suspicion::Base64)?))
}

/// The bits after the last byte say nothing: Go passes over them, and so does this.
fn clear_spare_bits(text: &mut [u8]) {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mask = match text {
        [.., b'=', b'='] => 0b11_0000,
        [.., b'='] => 0b11_1100,
        _ => return,
    };
    if let Some(last) = text.iter_mut().rev().find(|b| **b != b'=')
        && let Some(value) = DIGITS.iter().position(|d| d == last)
    {
        *last = DIGITS[value & mask];
    }
}

fn id(blob: &[u8]) -> Option<EnvelopeId> {
    let mut id = [0; NONCE_LEN + TAG_LEN];
    id[..NONCE_LEN].copy_from_slice(blob.first_chunk::<NONCE_LEN>()?);
    id[NONCE_LEN..].copy_from_slice(blob.last_chunk::<TAG_LEN>()?);
    (blob.len() >= id.len()).then_some(id)
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
    if checksum != to_hex(&sha256(line)).as_bytes() {
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
    pub fn from_pem(pem: &[u8]) -> Result<EnvelopeSealer, KeyError> {
        const WRONG: KeyError = KeyError::NoPublicKey;
        let text = std::str::from_utf8(pem).map_err(|_| KeyError::NoPem)?;
        let found = Recipient::parse_file(text).map_err(|_| WRONG)?;
        let Some(Recipient::Rsa(spki)) = found.first() else { return Err(WRONG) };
        let key = PublicEncryptingKey::from_der(spki).map_err(|_| WRONG)?;
        OaepPublicEncryptingKey::new(key).map(EnvelopeSealer).map_err(|_| WRONG)
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
    ) -> Result<Vec<u8>, KeyError> {
        let mut random = [0u8; 16];
        aws_lc_rs::rand::fill(&mut random).map_err(|_| KeyError::NoRandomness)?;
        let password = to_hex(&random);
        let mut inside =
            format!("{timestamp},{host},{file},{},", to_hex(&sha256(line))).into_bytes();
        inside.extend_from_slice(line);
        let blob = seal_blob(&inside, password.as_bytes()).map_err(|_| KeyError::TooLong)?;
        let mut wrapped = vec![0; self.0.ciphertext_size()];
        let wrapped = self
            .0
            .encrypt(&OAEP_SHA512_MGF1SHA512, password.as_bytes(), &mut wrapped, None)
            .map_err(|_| KeyError::CannotWrap)?;
        Ok(format!("{},{}", to_hex(&blob), to_base64(wrapped)).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_inside_panics(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = inner(&bytes);
            let _ = split(&bytes);
            prop_assert_eq!(id(&bytes).is_some(), bytes.len() >= NONCE_LEN + TAG_LEN);
        }
    }
}

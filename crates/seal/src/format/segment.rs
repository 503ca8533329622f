//! The head of a segment file: which log, which place in it, and which data key opens its chunks.
//!
//! ```text
//!   0  8  "GABSEAL1"
//!   8  2  major version (1)                     10  2  minor version
//!  12  4  flags: 1 zstd, 2 padded, 4 times rounded
//!  16 16  log id
//!  32  8  segment number    40  8  first chunk  48  8  first record    56  8  created, ns
//!  64 32  root of the chunk tree at `first chunk` leaves
//!  96  1  AEAD   97  1  KDF   98  1  compression   99  5  zero
//! 104 32  salt
//! 136 32  commitment to the data key of class 0
//! 168 32  SHA-256 of all before
//! ```

use crate::error::{Error, Result};
use crate::format::tree::{Hash, sha256, sha256_parts};
use crate::format::wire::Take;

/// First bytes of a segment.
pub const MAGIC: &[u8; 8] = b"GABSEAL1";
/// Bytes of the header.
pub const HEADER_LEN: usize = 200;
/// Bytes of it to which recipients' stanzas are bound: all before the commitment.
pub const BOUND_LEN: usize = 136;
/// Format version that this program writes and the only one it reads.
pub const MAJOR: u16 = 1;

/// Chunks are compressed with zstd.
pub const FLAG_ZSTD: u32 = 1;
/// Compressed bytes are padded before they are encrypted.
pub const FLAG_PADDED: u32 = 2;
/// Times in chunk headers are rounded to the second.
pub const FLAG_TIMES_ROUNDED: u32 = 4;
const FLAGS_KNOWN: u32 = 7;

/// How chunks are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aead {
    /// AES-256-GCM.
    #[default]
    Aes256Gcm,
    /// ChaCha20-Poly1305, for machines without AES instructions.
    ChaCha20Poly1305,
}

impl Aead {
    const fn byte(self) -> u8 {
        match self {
            Aead::Aes256Gcm => 1,
            Aead::ChaCha20Poly1305 => 2,
        }
    }
}

/// A segment's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Minor version: newer ones are read.
    pub minor: u16,
    /// `FLAG_…`.
    pub flags: u32,
    /// Of the log.
    pub log_id: [u8; 16],
    /// Segments are numbered from 0 without gap.
    pub number: u64,
    /// Index of its first chunk.
    pub first_chunk: u64,
    /// Number of its first record.
    pub first_record: u64,
    /// When it was made, nanoseconds since 1970.
    pub created_ns: u64,
    /// Root over all chunks before it.
    pub root: Hash,
    /// Encryption of its chunks.
    pub aead: Aead,
    /// Random, for the derivation of keys.
    pub salt: [u8; 32],
    /// To the data key of class 0.
    pub commitment: [u8; 32],
}

/// What a header's bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// A header this program knows.
    Known(Header),
    /// In order by its own hash, but of a version or with a flag that is not known.
    Unsupported(String),
}

impl Header {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&MAJOR.to_be_bytes());
        out.extend_from_slice(&self.minor.to_be_bytes());
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.extend_from_slice(&self.log_id);
        for n in [self.number, self.first_chunk, self.first_record, self.created_ns] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        out.extend_from_slice(&self.root);
        out.extend_from_slice(&[
            self.aead.byte(),
            1,
            u8::from(self.flags & FLAG_ZSTD != 0),
            0,
            0,
            0,
            0,
            0,
        ]);
        out.extend_from_slice(&self.salt);
        out.extend_from_slice(&self.commitment);
        let own = sha256(&out);
        out.extend_from_slice(&own);
        let mut bytes = [0; HEADER_LEN];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Reads a header: first its own hash, then what it says.
    pub fn parse(bytes: &[u8]) -> Result<Parsed> {
        let wrong = || Error::format("segment header differs from its own hash");
        let bytes =
            bytes.get(..HEADER_LEN).ok_or_else(|| Error::format("segment header is cut short"))?;
        let (body, own) = bytes.split_at(HEADER_LEN - 32);
        if sha256(body) != own {
            return Err(wrong());
        }
        let mut take = Take::new(body);
        if take.array() != Some(*MAGIC) {
            return Err(Error::format("not a segment: other magic"));
        }
        Header::fields(&mut take).ok_or_else(wrong)
    }

    fn fields(take: &mut Take<'_>) -> Option<Parsed> {
        let (major, minor, flags) = (take.u16()?, take.u16()?, take.u32()?);
        if major != MAJOR {
            return Some(Parsed::Unsupported(format!("format version {major}")));
        }
        if flags & !FLAGS_KNOWN != 0 {
            return Some(Parsed::Unsupported(format!("segment flags {flags:#x}")));
        }
        let log_id = take.array()?;
        let (number, first_chunk, first_record, created_ns) =
            (take.u64()?, take.u64()?, take.u64()?, take.u64()?);
        let root = take.array()?;
        let choices: [u8; 8] = take.array()?;
        let aead = match choices[0] {
            1 => Aead::Aes256Gcm,
            2 => Aead::ChaCha20Poly1305,
            other => return Some(Parsed::Unsupported(format!("encryption {other}"))),
        };
        if choices[1] != 1
            || choices[2] != u8::from(flags & FLAG_ZSTD != 0)
            || choices[3..] != [0; 5]
        {
            return Some(Parsed::Unsupported("choices of the segment header".into()));
        }
        let (salt, commitment) = (take.array()?, take.array()?);
        Some(Parsed::Known(Header {
            minor,
            flags,
            log_id,
            number,
            first_chunk,
            first_record,
            created_ns,
            root,
            aead,
            salt,
            commitment,
        }))
    }

    /// Name of the segment's file.
    #[must_use]
    pub fn file_name(&self) -> String {
        file_name(self.first_chunk, "gsl")
    }
}

/// `seg-` with the first chunk in 20 digits.
#[must_use]
pub fn file_name(first_chunk: u64, ending: &str) -> String {
    format!("seg-{first_chunk:020}.{ending}")
}

/// First chunk and ending of a segment's file name.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<(u64, &str)> {
    let (number, ending) = name.strip_prefix("seg-")?.split_once('.')?;
    (number.len() == 20 && number.bytes().all(|b| b.is_ascii_digit())).then_some(())?;
    Some((number.parse().ok()?, ending))
}

/// What a log is called by in every header: a hash over its origin and first key.
#[must_use]
pub fn log_id(origin: &str, public: &[u8; 32]) -> [u8; 16] {
    let hash = sha256_parts(&[b"gabion/log/v1\n", origin.as_bytes(), b"\n", public]);
    let mut id = [0; 16];
    id.copy_from_slice(&hash[..16]);
    id
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Header {
        Header {
            minor: 0,
            flags: FLAG_ZSTD,
            log_id: [9; 16],
            number: 3,
            first_chunk: 77,
            first_record: 1234,
            created_ns: 1_700_000_000_000_000_000,
            root: [5; 32],
            aead: Aead::Aes256Gcm,
            salt: [6; 32],
            commitment: [7; 32],
        }
    }

    #[test]
    fn a_header_comes_back_and_every_flipped_bit_is_seen() {
        let bytes = sample().encode();
        assert_eq!(Header::parse(&bytes).unwrap(), Parsed::Known(sample()));
        for bit in 0..HEADER_LEN * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::parse(&bytes).is_err(), "bit {bit}");
        }
        assert!(Header::parse(&bytes[..199]).is_err());
    }

    #[test]
    fn other_versions_with_a_corrected_hash_are_refused_by_name() {
        for (at, value) in [(9, 2), (12, 0x80), (96, 3), (97, 2), (99, 1)] {
            let mut bytes = sample().encode();
            bytes[at] = value;
            let own = sha256(&bytes[..168]);
            bytes[168..].copy_from_slice(&own);
            assert!(matches!(Header::parse(&bytes).unwrap(), Parsed::Unsupported(_)), "byte {at}");
        }
    }

    #[test]
    fn names_of_files_come_back() {
        assert_eq!(file_name(12, "gsl"), "seg-00000000000000000012.gsl");
        assert_eq!(parse_file_name("seg-00000000000000000012.gsl"), Some((12, "gsl")));
        for wrong in
            ["seg-12.gsl", "seg-0000000000000000001x.gsl", "log.id", "seg-99999999999999999999.gsl"]
        {
            assert_eq!(parse_file_name(wrong), None, "{wrong}");
        }
    }
}

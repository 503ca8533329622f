//! Chunks: whole records, compressed and encrypted together; and commit marks between them.
//!
//! ```text
//!   0  4  "GCHK"              4  4  body length        8  8  chunk index    16  8  first record
//!  24  4  records            28  4  plain length      32  8  earliest, 40 8 latest time, ns
//!  48  2  epoch, low bits    50  1  class             51  1  flags          52  4  CRC-32C of 0..96, this field 0
//!  56 32  root over its records                       88  8  size of the last checkpoint the writer knew
//!  96 32  SHA-256 of the body
//! 128     body: nonce (12), ciphertext, tag (16); of a clear chunk the plain bytes
//! ```
//! The leaf of a chunk is made of these 128 bytes and the hash of its segment's header: what a chunk is,
//! where it stands and under which key. So the tree over a log can be computed from the heads alone,
//! and whether a body is the one its head names is a question for each chunk by itself.

use crate::error::{Error, Result};
use crate::format::data_key::{ClassKeys, salt_list};
use crate::format::index::Sources;
use crate::format::tree::{Hash, empty_root, leaf_hash, root_of, sha256};
use crate::format::wire::{Take, crc32c};
use crate::limits::{CHUNK_BODY_MAX, CHUNK_PLAIN_MAX, CHUNK_RECORDS_MAX};
use crate::record::{Builder, Decoded, source_table};

/// First bytes of a chunk.
pub const MAGIC: &[u8; 4] = b"GCHK";
/// Bytes of a chunk's head.
pub const HEADER_LEN: usize = 128;
/// Bytes of it that are bound into nonce and encryption: all before the body's hash.
pub const BOUND_LEN: usize = 96;
/// Bytes of a nonce.
pub const NONCE_LEN: usize = 12;
/// Bytes of a tag.
pub const TAG_LEN: usize = 16;

/// The body is compressed.
pub const FLAG_COMPRESSED: u8 = 1;
/// Nothing of the log follows in this segment.
pub const FLAG_LAST: u8 = 2;
/// First after a recovery.
pub const FLAG_RECOVERED: u8 = 4;
/// The body is in clear: the log's own statements, for everybody to read.
pub const FLAG_CLEAR: u8 = 8;
const FLAGS_KNOWN: u8 = 15;

/// First bytes of a commit mark.
pub const MARK_MAGIC: &[u8; 4] = b"GCMT";
/// Bytes of a commit mark.
pub const MARK_LEN: usize = 124;

/// A chunk's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the body.
    pub body_len: u32,
    /// Place in the tree.
    pub index: u64,
    /// Number of its first record.
    pub first_record: u64,
    /// Records in it; none in an idle mark.
    pub records: u32,
    /// Bytes after decompression.
    pub plain_len: u32,
    /// Earliest receive time, ns.
    pub earliest_ns: u64,
    /// Latest receive time, ns.
    pub latest_ns: u64,
    /// Low bits of the epoch that signs it.
    pub epoch: u16,
    /// Class of records, each under a data key of its own.
    pub class: u8,
    /// `FLAG_…`.
    pub flags: u8,
    /// Root over its records' leaves.
    pub root: Hash,
    /// Size of the last checkpoint its writer knew.
    pub checkpoint: u64,
    /// SHA-256 of the body.
    pub body_hash: Hash,
}

impl Header {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            out[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(MAGIC);
        put(&self.body_len.to_be_bytes());
        put(&self.index.to_be_bytes());
        put(&self.first_record.to_be_bytes());
        put(&self.records.to_be_bytes());
        put(&self.plain_len.to_be_bytes());
        put(&self.earliest_ns.to_be_bytes());
        put(&self.latest_ns.to_be_bytes());
        put(&self.epoch.to_be_bytes());
        put(&[self.class, self.flags]);
        put(&[0; 4]);
        put(&self.root);
        put(&self.checkpoint.to_be_bytes());
        put(&self.body_hash);
        let crc = crc32c(&[&out[..BOUND_LEN]]);
        out[52..56].copy_from_slice(&crc.to_be_bytes());
        out
    }

    /// Reads a head and checks everything that it says of itself.
    pub fn parse(bytes: &[u8]) -> Result<Header> {
        let head =
            bytes.get(..HEADER_LEN).ok_or_else(|| Error::format("chunk head is cut short"))?;
        let wrong = || Error::format("chunk head says what can't be");
        if !head.starts_with(MAGIC) {
            return Err(Error::format("no chunk where one should begin"));
        }
        if !crc_is_right(head) {
            return Err(Error::format(match flipped_field(head) {
                Some(field) => format!("chunk head is altered in its {field}"),
                None => "chunk head is altered".to_owned(),
            }));
        }
        let header = Header::fields(&mut Take::new(head)).ok_or_else(wrong)?;
        if header.flags & !FLAGS_KNOWN != 0 {
            return Err(Error::Unsupported { what: format!("chunk flags {:#x}", header.flags) });
        }
        let body = header.body_len as usize;
        let least = if header.is_clear() { 0 } else { NONCE_LEN + TAG_LEN };
        let plain_fits = !header.is_clear() || header.plain_len == header.body_len;
        if !(least..=CHUNK_BODY_MAX).contains(&body)
            || header.plain_len as usize > CHUNK_PLAIN_MAX
            || header.records as usize > CHUNK_RECORDS_MAX
            || !plain_fits
            || (header.is_clear() && header.flags & FLAG_COMPRESSED != 0)
        {
            return Err(wrong());
        }
        Ok(header)
    }

    fn fields(take: &mut Take<'_>) -> Option<Header> {
        take.u32()?;
        let (body_len, index, first_record) = (take.u32()?, take.u64()?, take.u64()?);
        let (records, plain_len) = (take.u32()?, take.u32()?);
        let (earliest_ns, latest_ns, epoch) = (take.u64()?, take.u64()?, take.u16()?);
        let (class, flags) = (take.u8()?, take.u8()?);
        take.u32()?;
        let (root, checkpoint, body_hash) = (take.array()?, take.u64()?, take.array()?);
        Some(Header {
            body_len,
            index,
            first_record,
            records,
            plain_len,
            earliest_ns,
            latest_ns,
            epoch,
            class,
            flags,
            root,
            checkpoint,
            body_hash,
        })
    }

    /// Whether anybody can read the body.
    #[must_use]
    pub const fn is_clear(&self) -> bool {
        self.flags & FLAG_CLEAR != 0
    }

    /// Number of the record after its last.
    #[must_use]
    pub const fn next_record(&self) -> u64 {
        self.first_record.wrapping_add(self.records as u64)
    }

    /// Leaf of the chunk in a segment whose header has this hash.
    #[must_use]
    pub fn leaf(&self, segment_hash: &Hash) -> Hash {
        leaf(&self.encode(), segment_hash)
    }
}

/// Leaf of a chunk by the bytes of its head.
#[must_use]
pub fn leaf(head: &[u8; HEADER_LEN], segment_hash: &Hash) -> Hash {
    let mut data = [0; HEADER_LEN + 32];
    data[..HEADER_LEN].copy_from_slice(head);
    data[HEADER_LEN..].copy_from_slice(segment_hash);
    leaf_hash(&data)
}

fn crc_is_right(head: &[u8]) -> bool {
    let Some(bound) = head.get(..BOUND_LEN) else { return false };
    let stored = bound[52..56].try_into().map_or(0, u32::from_be_bytes);
    crc32c(&[&bound[..52], &[0; 4], &bound[56..]]) == stored
}

/// The fields of a head, by where they end.
const FIELDS: &[(usize, &str)] = &[
    (4, "magic"),
    (8, "body length"),
    (16, "index"),
    (24, "first record"),
    (28, "number of records"),
    (32, "plain length"),
    (40, "earliest time"),
    (48, "latest time"),
    (50, "epoch"),
    (51, "class"),
    (52, "flags"),
    (56, "check value"),
    (88, "root of records"),
    (96, "last checkpoint"),
];

/// Which field a single flipped bit is in; its check value finds it.
#[must_use]
pub fn flipped_field(head: &[u8]) -> Option<&'static str> {
    let corrected = correct_bit(head)?;
    let at = head.iter().zip(&corrected).position(|(a, b)| a != b)?;
    FIELDS.iter().find(|(end, _)| at < *end).map(|(_, name)| *name)
}

/// The head with the one bit turned back that makes its check value right.
#[must_use]
pub fn correct_bit(head: &[u8]) -> Option<[u8; HEADER_LEN]> {
    let mut head: [u8; HEADER_LEN] = head.get(..HEADER_LEN)?.try_into().ok()?;
    for bit in 0..BOUND_LEN * 8 {
        head[bit / 8] ^= 1 << (bit % 8);
        if crc_is_right(&head) {
            return Some(head);
        }
        head[bit / 8] ^= 1 << (bit % 8);
    }
    None
}

/// What a commit mark says: the log's id, chunks and root, signed by the epoch's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Of the log.
    pub log_id: [u8; 16],
    /// Chunks in the tree.
    pub size: u64,
    /// Root of the tree.
    pub root: Hash,
    /// By the key of the epoch that holds `size`.
    pub signature: [u8; 64],
}

impl Mark {
    /// The bytes of the file.
    #[must_use]
    pub fn encode(&self) -> [u8; MARK_LEN] {
        let mut out = [0; MARK_LEN];
        out[..4].copy_from_slice(MARK_MAGIC);
        out[4..20].copy_from_slice(&self.log_id);
        out[20..28].copy_from_slice(&self.size.to_be_bytes());
        out[28..60].copy_from_slice(&self.root);
        out[60..].copy_from_slice(&self.signature);
        out
    }

    /// Reads a mark; its signature is not checked.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Mark> {
        let mut take = Take::new(bytes.get(..MARK_LEN)?);
        (take.array() == Some(*MARK_MAGIC)).then_some(())?;
        Some(Mark {
            log_id: take.array()?,
            size: take.u64()?,
            root: take.array()?,
            signature: take.array()?,
        })
    }
}

/// How many bytes a padded chunk of this length takes: at most 12 % more, and a length that reveals only
/// a few bits (Padmé).
#[must_use]
pub fn padded_len(len: usize) -> usize {
    if len < 2 {
        return len;
    }
    let exponent = len.ilog2();
    let kept = exponent.ilog2() + 1;
    let mask = (1usize << exponent.saturating_sub(kept)) - 1;
    len.saturating_add(mask) & !mask
}

/// Where a chunk stands, given by the writer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Place {
    /// Index in the tree.
    pub index: u64,
    /// Number of its first record.
    pub first_record: u64,
    /// Epoch that signs it.
    pub epoch: u64,
    /// Size of the last checkpoint.
    pub checkpoint: u64,
    /// Its class; 0 for a chunk in clear.
    pub class: u8,
    /// Further flags: `FLAG_LAST`, `FLAG_RECOVERED`.
    pub flags: u8,
    /// Time of a chunk without records, ns.
    pub now_ns: u64,
}

/// How chunks of a segment are made.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    /// zstd level; `None` for none.
    pub level: Option<i32>,
    /// Pad what is encrypted.
    pub is_padded: bool,
    /// Round the times in heads to the second.
    pub is_rounded: bool,
}

/// Turns records into chunks; holds the room and contexts that are used again for each.
pub struct Sealer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    manner: Manner,
    plain: Vec<u8>,
    packed: Vec<u8>,
    salts: Vec<u8>,
    leaves: Vec<Hash>,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("manner", &self.manner).finish_non_exhaustive()
    }
}

impl Sealer {
    /// With contexts for this manner.
    pub fn new(manner: Manner) -> Result<Sealer> {
        let compressor = match manner.level {
            Some(level) => {
                Some(zstd::bulk::Compressor::new(level).map_err(|_| Error::Crypto("zstd"))?)
            }
            None => None,
        };
        Ok(Sealer {
            compressor,
            manner,
            plain: Vec::new(),
            packed: Vec::new(),
            salts: Vec::new(),
            leaves: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Appends an encrypted chunk to `out`; gives its head.
    pub fn seal(
        &mut self,
        records: &Builder,
        place: &Place,
        keys: &ClassKeys,
        segment_hash: &Hash,
        out: &mut Vec<u8>,
    ) -> Result<Header> {
        keys.salts(place.first_record, records.len(), &mut self.salts)?;
        let mut header = self.head(records, place, true);
        self.pack(&mut header)?;
        header.body_len = (self.packed.len() + NONCE_LEN + TAG_LEN) as u32;
        let head = header.encode();
        let bound = &head[..BOUND_LEN];
        let nonce = keys.nonce(bound, &sha256(&self.packed));
        let mut aad = [0; BOUND_LEN + 32];
        aad[..BOUND_LEN].copy_from_slice(bound);
        aad[BOUND_LEN..].copy_from_slice(segment_hash);
        let start = out.len() + HEADER_LEN;
        out.extend_from_slice(&head);
        out.extend_from_slice(&nonce);
        out.extend_from_slice(&self.packed);
        let tag = keys.seal(nonce, &aad, &mut out[start + NONCE_LEN..])?;
        out.extend_from_slice(&tag);
        header.body_hash = sha256(&out[start..]);
        out[start - 32..start].copy_from_slice(&header.body_hash);
        Ok(header)
    }

    /// Appends a chunk in clear to `out`; gives its head.
    pub fn seal_clear(&mut self, records: &Builder, place: &Place, out: &mut Vec<u8>) -> Header {
        self.salts.clear();
        self.salts.resize(records.len() * 16, 0);
        let mut header = self.head(records, place, false);
        if records.is_empty() {
            self.plain.clear();
        }
        header.flags |= FLAG_CLEAR;
        header.plain_len = self.plain.len() as u32;
        header.body_len = header.plain_len;
        header.body_hash = sha256(&self.plain);
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&self.plain);
        header
    }

    /// Writes the plain bytes and computes the root over the records, whose salts are there.
    fn head(&mut self, records: &Builder, place: &Place, can_round: bool) -> Header {
        let (mut earliest_ns, mut latest_ns) = records.times();
        if records.is_empty() {
            (earliest_ns, latest_ns) = (place.now_ns, place.now_ns);
        }
        if can_round && self.manner.is_rounded {
            let second = 1_000_000_000;
            earliest_ns -= earliest_ns % second;
            latest_ns = (latest_ns / second).saturating_add(1).saturating_mul(second);
        }
        self.plain.clear();
        records.write_plain(earliest_ns, &mut self.plain);
        self.leaves.clear();
        records.leaves(
            place.first_record,
            salt_list(&self.salts),
            &mut self.scratch,
            &mut self.leaves,
        );
        let root = if self.leaves.is_empty() { empty_root() } else { root_of(&mut self.leaves) };
        Header {
            index: place.index,
            first_record: place.first_record,
            records: records.len() as u32,
            plain_len: self.plain.len() as u32,
            earliest_ns,
            latest_ns,
            epoch: place.epoch as u16,
            class: place.class,
            flags: place.flags,
            root,
            checkpoint: place.checkpoint,
            ..Header::default()
        }
    }

    /// Compresses and pads the plain bytes into `packed`.
    fn pack(&mut self, header: &mut Header) -> Result<()> {
        self.packed.clear();
        match &mut self.compressor {
            Some(compressor) => {
                self.packed.reserve(zstd::zstd_safe::compress_bound(self.plain.len()));
                compressor
                    .compress_to_buffer(&self.plain, &mut self.packed)
                    .map_err(|_| Error::Crypto("zstd"))?;
                header.flags |= FLAG_COMPRESSED;
            }
            None => self.packed.extend_from_slice(&self.plain),
        }
        if self.manner.is_padded {
            // Four bytes say what is padding, as neither zstd nor plain records end by themselves.
            let inner = self.packed.len() as u32;
            self.packed.resize(padded_len(self.packed.len() + 4) - 4, 0);
            self.packed.extend_from_slice(&inner.to_be_bytes());
        }
        Ok(())
    }
}

/// Turns chunks back into records; holds the room and contexts that are used again for each.
pub struct Opener {
    decompressor: zstd::bulk::Decompressor<'static>,
    body: Vec<u8>,
    plain: Vec<u8>,
    salts: Vec<u8>,
    leaves: Vec<Hash>,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opener").finish_non_exhaustive()
    }
}

impl Opener {
    /// With its contexts.
    pub fn new() -> Result<Opener> {
        let decompressor = zstd::bulk::Decompressor::new().map_err(|_| Error::Crypto("zstd"))?;
        Ok(Opener {
            decompressor,
            body: Vec::new(),
            plain: Vec::new(),
            salts: Vec::new(),
            leaves: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Decrypts and unpacks a chunk; `records` and `check_root` then speak of it. `keys` are those of its
    /// class, of no use for a clear one; `is_padded` as the segment's header says. What does not agree
    /// with the head is an error: the body, the nonce, the length.
    pub fn open(
        &mut self,
        header: &Header,
        body: &[u8],
        keys: Option<&ClassKeys>,
        segment_hash: &Hash,
        is_padded: bool,
    ) -> Result<()> {
        if header.is_clear() {
            self.plain.clear();
            self.plain.extend_from_slice(body);
            return Ok(());
        }
        let keys = keys.ok_or_else(|| Error::key("no key opens this chunk"))?;
        let head = header.encode();
        let mut aad = [0; BOUND_LEN + 32];
        aad[..BOUND_LEN].copy_from_slice(&head[..BOUND_LEN]);
        aad[BOUND_LEN..].copy_from_slice(segment_hash);
        self.body.clear();
        self.body.extend_from_slice(body);
        let packed = keys
            .open(&head[..BOUND_LEN], &aad, &mut self.body)
            .ok_or_else(|| Error::format("the encrypted records are not authentic"))?;
        let packed = if is_padded { unpad(packed)? } else { packed };
        self.plain.clear();
        let plain_len = header.plain_len as usize;
        if header.flags & FLAG_COMPRESSED != 0 {
            self.plain.reserve(plain_len);
            let written = self
                .decompressor
                .decompress_to_buffer(packed, &mut self.plain)
                .map_err(|_| Error::format("the records do not decompress"))?;
            debug_assert_eq!(written, self.plain.len());
        } else {
            self.plain.extend_from_slice(packed);
        }
        if self.plain.len() != plain_len {
            return Err(Error::format("the records are not as long as their chunk's head says"));
        }
        Ok(())
    }

    /// Whether the records of the chunk opened last have the root that its head names.
    pub fn check_root(&mut self, header: &Header, keys: Option<&ClassKeys>) -> Result<bool> {
        let leaves = self.record_leaves(header, keys)?;
        let root = if leaves.is_empty() { empty_root() } else { root_of(&mut self.leaves) };
        Ok(root == header.root)
    }

    /// Leaves of the records of the chunk opened last.
    pub fn record_leaves(&mut self, header: &Header, keys: Option<&ClassKeys>) -> Result<&[Hash]> {
        match keys.filter(|_| !header.is_clear()) {
            Some(keys) => {
                keys.salts(header.first_record, header.records as usize, &mut self.salts)?
            }
            None => {
                self.salts.clear();
                self.salts.resize(header.records as usize * 16, 0);
            }
        }
        self.leaves.clear();
        if header.records > 0 {
            let decoded = Decoded::from_plain(&self.plain, header.records, header.earliest_ns)?;
            decoded.leaves(
                header.first_record,
                salt_list(&self.salts),
                &mut self.scratch,
                &mut self.leaves,
            );
        }
        Ok(&self.leaves)
    }

    /// Salt of a record of the chunk whose leaves were computed last.
    #[must_use]
    pub fn salt(&self, index: usize) -> Option<[u8; 16]> {
        salt_list(&self.salts).get(index).copied()
    }

    /// What the index says of the sources of the chunk opened last.
    #[must_use]
    pub fn sources(&self, header: &Header) -> Sources {
        let mut sources = Sources::default();
        if header.records > 0 && !header.is_clear() {
            let table = source_table(&mut Take::new(&self.plain)).unwrap_or_default();
            table.iter().for_each(|s| sources.add(s));
        }
        sources
    }

    /// The records of the chunk opened last.
    pub fn records(&self, header: &Header) -> Result<Decoded<'_>> {
        if header.records == 0 {
            return Ok(Decoded::default());
        }
        Decoded::from_plain(&self.plain, header.records, header.earliest_ns)
    }
}

fn unpad(packed: &[u8]) -> Result<&[u8]> {
    let wrong = || Error::format("the padding is invalid");
    let (rest, len) = packed.split_last_chunk::<4>().ok_or_else(wrong)?;
    let inner = rest.get(..u32::from_be_bytes(*len) as usize).ok_or_else(wrong)?;
    if rest[inner.len()..].iter().any(|b| *b != 0) {
        return Err(wrong());
    }
    Ok(inner)
}

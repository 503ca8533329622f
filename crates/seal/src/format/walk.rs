//! Going through a segment file, item by item: chunks, commit marks, the index at its end, and the first
//! place that is none of them.

use crate::error::{Error, Result};
use crate::format::chunk::{self, Header, Mark};
use crate::format::segment;
use crate::limits::INDEX_MAX;
use crate::storage::Storage;

/// First bytes of the index at the end of a segment; its whole length follows in four bytes.
pub const INDEX_MAGIC: &[u8; 4] = b"GFTR";

/// What stands somewhere in a segment.
#[derive(Debug)]
pub enum Item {
    /// A chunk; its body follows the head.
    Chunk(Header),
    /// A commit mark.
    Mark(Mark),
    /// The index, of this whole length.
    Index(u64),
    /// Nothing that belongs there; the walk ends.
    Damage(Error),
}

impl Item {
    /// Bytes it takes; none for damage.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Item::Chunk(header) => chunk::HEADER_LEN as u64 + u64::from(header.body_len),
            Item::Mark(_) => chunk::MARK_LEN as u64,
            Item::Index(len) => *len,
            Item::Damage(_) => 0,
        }
    }

    /// Whether it takes no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What these bytes begin with, where `left` bytes are left in the file. Of a chunk and a mark the bytes
    /// given must hold the head.
    #[must_use]
    pub fn parse(bytes: &[u8], left: u64) -> Item {
        let item = match bytes.first_chunk::<4>() {
            Some(chunk::MAGIC) => match Header::parse(bytes) {
                Ok(header) => Item::Chunk(header),
                Err(e) => return Item::Damage(e),
            },
            Some(chunk::MARK_MAGIC) => match Mark::parse(bytes) {
                Some(mark) => Item::Mark(mark),
                None => return Item::Damage(Error::format("commit mark is cut short")),
            },
            Some(INDEX_MAGIC) => match bytes.get(4..8).and_then(|b| b.try_into().ok()) {
                Some(len) if u64::from(u32::from_be_bytes(len)) > INDEX_MAX => {
                    return Item::Damage(Error::format("an index longer than any is"));
                }
                Some(len) => Item::Index(u64::from(u32::from_be_bytes(len)).max(8)),
                None => return Item::Damage(Error::format("index is cut short")),
            },
            Some(_) if bytes.iter().all(|b| *b == 0) => {
                return Item::Damage(Error::format("zeros where a chunk should begin"));
            }
            Some(_) => return Item::Damage(Error::format("no chunk where one should begin")),
            None => return Item::Damage(Error::format("chunk head is cut short")),
        };
        if item.len() > left { Item::Damage(Error::format("cut short")) } else { item }
    }
}

/// Walks over the heads of a segment's items.
pub struct Walk<'a> {
    storage: &'a dyn Storage,
    name: &'a str,
    len: u64,
    at: u64,
}

impl<'a> Walk<'a> {
    /// After the segment's header.
    pub fn new(storage: &'a dyn Storage, name: &'a str) -> Result<Walk<'a>> {
        let len = storage.len(name).map_err(|e| Error::storage(name, e))?.unwrap_or(0);
        Ok(Walk { storage, name, len, at: segment::HEADER_LEN as u64 })
    }

    /// Begins at this offset instead.
    #[must_use]
    pub fn from(mut self, at: u64) -> Walk<'a> {
        self.at = at;
        self
    }

    /// The next item and where it begins; `None` at the end and after damage.
    pub fn step(&mut self) -> Result<Option<(u64, Item)>> {
        if self.at >= self.len {
            return Ok(None);
        }
        let mut bytes = [0; chunk::HEADER_LEN];
        let read = self
            .storage
            .read_at(self.name, self.at, &mut bytes)
            .map_err(|e| Error::storage(self.name, e))?;
        let at = self.at;
        let item = Item::parse(&bytes[..read], self.len - at);
        self.at =
            if matches!(item, Item::Damage(_)) { self.len } else { at.saturating_add(item.len()) };
        Ok(Some((at, item)))
    }
}

/// Body of the chunk that begins at this offset.
pub fn read_body(
    storage: &dyn Storage,
    name: &str,
    at: u64,
    header: &Header,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.resize(header.body_len as usize, 0);
    let read = storage
        .read_at(name, at.saturating_add(chunk::HEADER_LEN as u64), out)
        .map_err(|e| Error::storage(name, e))?;
    if read < out.len() { Err(Error::format("chunk is cut short")) } else { Ok(()) }
}

/// Header of a segment and its hash.
pub fn read_header(
    storage: &dyn Storage,
    name: &str,
) -> Result<(segment::Parsed, crate::format::tree::Hash)> {
    let mut bytes = [0; segment::HEADER_LEN];
    let read = storage.read_at(name, 0, &mut bytes).map_err(|e| Error::storage(name, e))?;
    let parsed = segment::Header::parse(&bytes[..read])?;
    Ok((parsed, crate::format::tree::sha256(&bytes)))
}

/// Offsets after `from` at which this log's commit marks may stand, in order.
pub fn marks_behind(
    storage: &dyn Storage,
    name: &str,
    log_id: &[u8; 16],
    from: u64,
) -> Result<Vec<Mark>> {
    const WINDOW: usize = 1 << 20;
    let mut needle = chunk::MARK_MAGIC.to_vec();
    needle.extend_from_slice(log_id);
    let finder = memchr::memmem::Finder::new(&needle);
    let mut found = Vec::new();
    let mut buffer = vec![0; WINDOW];
    let mut at = from;
    loop {
        let read = storage.read_at(name, at, &mut buffer).map_err(|e| Error::storage(name, e))?;
        let window = &buffer[..read];
        for hit in finder.find_iter(window) {
            found.extend(window.get(hit..).and_then(Mark::parse));
        }
        if read < WINDOW {
            return Ok(found);
        }
        at = at.saturating_add((WINDOW - chunk::MARK_LEN) as u64);
    }
}

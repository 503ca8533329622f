//! The index at the end of a segment: where its chunks begin, their records and times, and which sources
//! may be in each.
//!
//! A help for readers with a key, encrypted and authentic under a key of the segment, so that neither
//! the sources show nor a forged one hides records. Nothing rests on it: without it, or when it does
//! not open, a reader goes through the chunks' heads.
//!
//! ```text
//! "GFTR"  whole length (4)  nonce (12)  ciphertext, tag (16)  offset of the index (8)  "GSEAEND1"
//! inside: chunks (4), for each: offset (8) first record (8) earliest (8) latest (8) sources (32)
//! ```

use crate::error::{Error, Result};
use crate::format::chunk::{self, TAG_LEN};
use crate::format::data_key::ClassKeys;
use crate::format::tree::{Hash, sha256};
use crate::format::walk::INDEX_MAGIC;
use crate::format::wire::Take;
use crate::limits::INDEX_MAX;
use crate::record::SourceView;
use crate::storage::Storage;

/// Last bytes of a segment that has an index.
const END_MAGIC: &[u8; 8] = b"GSEAEND1";
/// Bytes after the ciphertext.
const END_LEN: usize = 16;
const HEAD_LEN: usize = 20;
const ENTRY_LEN: usize = 64;

/// 256 bits in which each source sets four: a source none of whose bits is missing may be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sources([u8; 32]);

impl Sources {
    /// Adds the texts by which a source can be asked for.
    pub fn add(&mut self, source: &SourceView<'_>) {
        for text in names(source) {
            self.set(text);
        }
    }

    fn set(&mut self, text: &[u8]) {
        for bit in bits(text) {
            self.0[bit / 8] |= 1 << (bit % 8);
        }
    }

    /// Whether a source of this name may be there.
    #[must_use]
    pub fn may_have(&self, text: &[u8]) -> bool {
        bits(text).iter().all(|bit| self.0[bit / 8] & 1 << (bit % 8) != 0)
    }
}

/// What a source can be asked for by: its peer, its peer without the port, its identity.
pub fn names<'a>(source: &SourceView<'a>) -> impl Iterator<Item = &'a [u8]> {
    let peer = source.peer;
    let host = peer.iter().rposition(|c| *c == b':').map(|i| &peer[..i]);
    let host = host.map(|h| h.strip_prefix(b"[").and_then(|h| h.strip_suffix(b"]")).unwrap_or(h));
    [Some(peer), host, Some(source.identity)].into_iter().flatten().filter(|t| !t.is_empty())
}

fn bits(text: &[u8]) -> [usize; 4] {
    let hash = sha256(text);
    [hash[0], hash[1], hash[2], hash[3]].map(usize::from)
}

/// A chunk in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where its head begins.
    pub offset: u64,
    /// Its first record.
    pub first_record: u64,
    /// Earliest time in it, ns.
    pub earliest_ns: u64,
    /// Latest time in it, ns.
    pub latest_ns: u64,
    /// What may be in it.
    pub sources: Sources,
}

impl Entry {
    /// Of a chunk that begins at this offset.
    #[must_use]
    pub fn new(offset: u64, header: &chunk::Header, sources: Sources) -> Entry {
        Entry {
            offset,
            first_record: header.first_record,
            earliest_ns: header.earliest_ns,
            latest_ns: header.latest_ns,
            sources,
        }
    }
}

/// The bytes of an index that begins at this offset.
pub fn encode(
    entries: &[Entry],
    at: u64,
    keys: &ClassKeys,
    segment_hash: &Hash,
) -> Result<Vec<u8>> {
    let mut plain = Vec::with_capacity(4 + entries.len() * ENTRY_LEN);
    plain.extend_from_slice(&(entries.len() as u32).to_be_bytes());
    for entry in entries {
        for n in [entry.offset, entry.first_record, entry.earliest_ns, entry.latest_ns] {
            plain.extend_from_slice(&n.to_be_bytes());
        }
        plain.extend_from_slice(&entry.sources.0);
    }
    let (nonce, tag) = keys.seal_index(segment_hash, &mut plain)?;
    let len = HEAD_LEN + plain.len() + TAG_LEN + END_LEN;
    let mut out = Vec::with_capacity(len);
    out.extend_from_slice(INDEX_MAGIC);
    out.extend_from_slice(&(len as u32).to_be_bytes());
    out.extend_from_slice(&nonce);
    out.extend_from_slice(&plain);
    out.extend_from_slice(&tag);
    out.extend_from_slice(&at.to_be_bytes());
    out.extend_from_slice(END_MAGIC);
    Ok(out)
}

/// Whether bytes that stand at this offset have the form of an index. Its content can be checked with a key only.
#[must_use]
pub fn is_formed(bytes: &[u8], at: u64) -> bool {
    let end = bytes.len().checked_sub(END_LEN).and_then(|n| bytes.get(n..)).map(Take::new);
    end.is_some_and(|mut end| end.u64() == Some(at) && end.rest() == END_MAGIC)
}

/// Bytes of an index of this many chunks.
#[must_use]
pub const fn len(chunks: usize) -> u64 {
    (HEAD_LEN + 4 + chunks * ENTRY_LEN + TAG_LEN + END_LEN) as u64
}

/// Reads bytes that an index should be.
#[must_use]
pub fn decode(bytes: &[u8], keys: &ClassKeys, segment_hash: &Hash) -> Option<Vec<Entry>> {
    let mut take = Take::new(bytes);
    (take.array() == Some(*INDEX_MAGIC)).then_some(())?;
    (take.u32()? as usize == bytes.len()).then_some(())?;
    let nonce = take.array()?;
    let sealed = take.bytes(bytes.len().checked_sub(HEAD_LEN + END_LEN)?)?;
    let plain = keys.open_index(nonce, segment_hash, sealed)?;
    let mut take = Take::new(&plain);
    let count = take.u32()? as usize;
    (take.rest().len() == count.checked_mul(ENTRY_LEN)?).then_some(())?;
    (0..count)
        .map(|_| {
            Some(Entry {
                offset: take.u64()?,
                first_record: take.u64()?,
                earliest_ns: take.u64()?,
                latest_ns: take.u64()?,
                sources: Sources(take.array()?),
            })
        })
        .collect()
}

/// The index of a segment, when it has one that opens.
pub fn read_index(
    storage: &dyn Storage,
    name: &str,
    keys: &ClassKeys,
    segment_hash: &Hash,
) -> Result<Option<Vec<Entry>>> {
    let failed = |e| Error::storage(name, e);
    let Some(len) = storage.len(name).map_err(failed)? else { return Ok(None) };
    let Some(end_at) = len.checked_sub(END_LEN as u64) else { return Ok(None) };
    let mut end = [0; END_LEN];
    storage.read_at(name, end_at, &mut end).map_err(failed)?;
    let mut take = Take::new(&end);
    let Some(at) = take.u64().filter(|at| take.rest() == END_MAGIC && *at < end_at) else {
        return Ok(None);
    };
    if len - at > INDEX_MAX {
        return Ok(None);
    }
    let mut bytes = vec![0; (len - at) as usize];
    storage.read_at(name, at, &mut bytes).map_err(failed)?;
    Ok(decode(&bytes, keys, segment_hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::segment::Aead;
    use crate::record::{Source, Transport};

    #[test]
    fn an_index_opens_as_it_was_written_and_no_altered_one_does() {
        let keys = ClassKeys::derive(&[1; 32], &[2; 32], &[3; 16], 4, 0, Aead::Aes256Gcm).unwrap();
        let mut sources = Sources::default();
        let source = Source::new(Transport::Tls, 1, "[2001:db8::1]:6514", "client.example");
        sources.add(&SourceView::decode(&mut Take::new(source.entry())).unwrap());
        for name in ["[2001:db8::1]:6514", "2001:db8::1", "client.example"] {
            assert!(sources.may_have(name.as_bytes()), "{name}");
        }
        assert!(!sources.may_have(b"192.0.2.1"));
        let entry = Entry { offset: 200, first_record: 5, earliest_ns: 6, latest_ns: 7, sources };
        let bytes = encode(&[entry, entry], 999, &keys, &[5; 32]).unwrap();
        assert_eq!(decode(&bytes, &keys, &[5; 32]).unwrap(), [entry, entry]);
        assert_eq!(bytes.len() as u64, len(2));
        assert!(is_formed(&bytes, 999) && !is_formed(&bytes, 998) && !is_formed(&bytes[..9], 999));
        for at in 0..bytes.len() - END_LEN {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert_eq!(decode(&bytes, &keys, &[5; 32]), None, "byte {at}");
        }
        assert_eq!(decode(&bytes, &keys, &[6; 32]), None);
        assert_eq!(decode(&[], &keys, &[5; 32]), None);
    }
}

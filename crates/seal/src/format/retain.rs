//! Retention: what stands in the place of a pruned segment.
//!
//! ```text
//! "GABPRUN1"  segment header (200)  chunks (8)  records (8)  earliest (8)  latest (8)
//! leaf hash of every chunk (32 each)   the clear chunks, whole   SHA-256 of all before
//! ```
//! With the leaf hashes every size in the pruned part can still be compared with a checkpoint or an
//! anchor. The log's own statements stay readable, because epochs are announced in them; each is bound
//! by its leaf.

use crate::error::{Error, Result};
use crate::format::chunk::{HEADER_LEN, Header};
use crate::format::segment::{self, Parsed};
use crate::format::tree::{Hash, root_of, sha256};
use crate::format::walk::{Item, Walk, read_body, read_header};
use crate::format::wire::Take;
use crate::limits::STUB_MAX;
use crate::record::Decoded;
use crate::statement::Statement;
use crate::storage::Storage;
use std::collections::BTreeMap;

const MAGIC: &[u8; 8] = b"GABPRUN1";

/// A clear chunk's head and its statements by record number.
pub type Kept = (Header, Vec<(u64, Statement)>);

/// Head and body of a clear chunk, and the hash of its segment's header.
pub type KeptChunk = ([u8; HEADER_LEN], Vec<u8>, Hash);

/// A pruned segment.
#[derive(Clone, Debug)]
pub struct Stub {
    /// Header of the segment.
    pub header: segment::Header,
    /// Leaf of every chunk.
    pub leaves: Vec<Hash>,
    /// Records there were.
    pub records: u64,
    /// Earliest time in it, ns.
    pub earliest_ns: u64,
    /// Latest time in it, ns.
    pub latest_ns: u64,
    /// Statements in clear, by chunk.
    pub clear: BTreeMap<u64, Kept>,
}

impl Stub {
    /// Reads a stub and checks all that it says of itself.
    pub fn parse(bytes: &[u8]) -> Result<Stub> {
        let wrong = || Error::format("not a stub of a pruned segment");
        let (body, own) = bytes.split_last_chunk::<32>().ok_or_else(wrong)?;
        if sha256(body) != *own || !body.starts_with(MAGIC) {
            return Err(wrong());
        }
        let mut take = Take::new(&body[MAGIC.len()..]);
        let head = take.bytes(segment::HEADER_LEN).ok_or_else(wrong)?;
        let Parsed::Known(header) = segment::Header::parse(head)? else { return Err(wrong()) };
        let segment_hash = sha256(head);
        let mut number = || take.u64().ok_or_else(wrong);
        let (chunks, records, earliest_ns, latest_ns) =
            (number()?, number()?, number()?, number()?);
        if take.rest().len() as u64 / 32 < chunks {
            return Err(wrong());
        }
        let mut leaves = Vec::with_capacity(chunks as usize);
        for _ in 0..chunks {
            leaves.push(take.array().ok_or_else(wrong)?);
        }
        let mut clear = BTreeMap::new();
        while !take.rest().is_empty() {
            let chunk = Header::parse(take.bytes(HEADER_LEN).ok_or_else(wrong)?)?;
            let body = take.bytes(chunk.body_len as usize).ok_or_else(wrong)?;
            let at =
                chunk.index.checked_sub(header.first_chunk).and_then(|i| usize::try_from(i).ok());
            let leaf = at.and_then(|i| leaves.get(i)).ok_or_else(wrong)?;
            if !chunk.is_clear()
                || chunk.leaf(&segment_hash) != *leaf
                || sha256(body) != chunk.body_hash
            {
                return Err(Error::format("a statement in a stub differs from its leaf"));
            }
            let statements = statements(&chunk, body)?;
            clear.insert(chunk.index, (chunk, statements));
        }
        Ok(Stub { header, leaves, records, earliest_ns, latest_ns, clear })
    }

    /// The stub of a segment as it lies there. Fails where the segment is damaged: what can't be read to
    /// its end must not be thrown away as if it were whole.
    pub fn of_segment(storage: &dyn Storage, name: &str) -> Result<Vec<u8>> {
        let (parsed, hash) = read_header(storage, name)?;
        let Parsed::Known(header) = parsed else {
            return Err(Error::Unsupported { what: format!("{name}: unknown version") });
        };
        let mut leaves = Vec::new();
        let mut kept = Vec::new();
        let (mut next_record, mut earliest_ns, mut latest_ns) = (header.first_record, u64::MAX, 0);
        let mut body = Vec::new();
        let mut walk = Walk::new(storage, name)?;
        while let Some((at, item)) = walk.step()? {
            match item {
                Item::Chunk(chunk) => {
                    if chunk.index != header.first_chunk + leaves.len() as u64
                        || chunk.first_record != next_record
                    {
                        return Err(Error::format(format!("{name} at {at}: chunks are missing")));
                    }
                    next_record = chunk.next_record();
                    earliest_ns = earliest_ns.min(chunk.earliest_ns);
                    latest_ns = latest_ns.max(chunk.latest_ns);
                    leaves.push(chunk.leaf(&hash));
                    if chunk.is_clear() && chunk.records > 0 {
                        read_body(storage, name, at, &chunk, &mut body)?;
                        kept.extend_from_slice(&chunk.encode());
                        kept.extend_from_slice(&body);
                    }
                }
                Item::Damage(e) => return Err(Error::format(format!("{name} at {at}: {e}"))),
                Item::Mark(_) | Item::Index(_) => {}
            }
        }
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&header.encode());
        for n in [leaves.len() as u64, next_record - header.first_record, earliest_ns, latest_ns] {
            out.extend_from_slice(&n.to_be_bytes());
        }
        leaves.iter().for_each(|l| out.extend_from_slice(l));
        out.extend_from_slice(&kept);
        let own = sha256(&out);
        out.extend_from_slice(&own);
        Ok(out)
    }
}

/// A clear chunk that a stub keeps: head, body and the hash of the segment's header.
pub fn kept_chunk(storage: &dyn Storage, first: u64, chunk: u64) -> Result<Option<KeptChunk>> {
    let name = segment::file_name(first, "pruned");
    let bytes = storage
        .read_file(&name, STUB_MAX)
        .map_err(|e| Error::storage(&name, e))?
        .unwrap_or_default();
    let stub = Stub::parse(&bytes)?;
    let kept = MAGIC.len() + segment::HEADER_LEN + 32 + stub.leaves.len() * 32;
    let mut take = Take::new(bytes.get(kept..bytes.len().saturating_sub(32)).unwrap_or_default());
    while let Some(head) = take.array::<HEADER_LEN>() {
        let header = Header::parse(&head)?;
        let Some(body) = take.bytes(header.body_len as usize) else { break };
        if header.index == chunk {
            return Ok(Some((head, body.to_vec(), sha256(&stub.header.encode()))));
        }
    }
    Ok(None)
}

/// Statements of a clear chunk by record number; its records' root must be right.
pub fn statements(chunk: &Header, body: &[u8]) -> Result<Vec<(u64, Statement)>> {
    if chunk.records == 0 {
        return Ok(Vec::new());
    }
    let decoded = Decoded::from_plain(body, chunk.records, chunk.earliest_ns)?;
    let salts = vec![[0; 16]; chunk.records as usize];
    let mut leaves = Vec::new();
    decoded.leaves(chunk.first_record, &salts, &mut Vec::new(), &mut leaves);
    if root_of(&mut leaves) != chunk.root {
        return Err(Error::format("statements differ from the root in their chunk's head"));
    }
    let numbered = decoded.records.iter().enumerate();
    Ok(numbered
        .filter_map(|(i, (r, _))| Some((chunk.first_record + i as u64, Statement::parse(r.bytes)?)))
        .collect())
}

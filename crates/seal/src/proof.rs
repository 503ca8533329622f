//! Proofs about one record that anybody can check with the log's public key: C2SP tlog-proof files.
//!
//! The proof's leaf is the record's chunk. Its `extra` line holds, as JSON, the record with its salt and
//! path to the root in the chunk's head, the head, and for every epoch between the log's first key
//! and the one that signed the checkpoint: the announcement, with its path to the checkpoint that the
//! epoch before closed with. So one public key, kept since the log began, checks a proof of any year.
//! One record is disclosed, and nothing of its neighbours: their leaves are salted.

use crate::error::{Error, Result};
use crate::format::chunk::{HEADER_LEN, Header, leaf};
use crate::format::retain::{KeptChunk, statements};
use crate::format::tree::{inclusion_proof, root_from_inclusion, sha256, verify_inclusion};
use crate::format::walk::{Item, Walk, read_body, read_header};
use crate::format::wire::Take;
use crate::leaves::checkpoints_where;
use crate::limits::{PROOF_EPOCHS_MAX, PROOF_FILE_MAX, PROOF_HASHES_MAX};
use crate::note::{Checkpoint, Note, Vkey};
use crate::reader::Located;
use crate::record::{Flags, Kind, Record, SourceView};
use crate::statement::Statement;
use crate::storage::Storage;
use crate::text::unbase64_hash;
use gabion_record::base64::{from_base64, to_base64};
use gabion_record::json::Json;
use serde_json::Value;

pub use crate::format::tree::{Hash, consistency_proof, root};
pub use crate::leaves::leaves;

const FIRST_LINE: &str = "c2sp.org/tlog-proof@v1";
/// What a proof is to show.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Leave out the bytes: existence and place alone are proven.
    pub is_redacted: bool,
}

/// Makes the proof for a record.
pub fn prove(
    log: &dyn Storage,
    found: &mut Located<'_>,
    origin: &str,
    wanted: Wanted,
) -> Result<String> {
    let chunk = found.header.index;
    let behind = checkpoints_where(log, |c| c.size > chunk)?;
    let (note, checkpoint) = behind.into_iter().next().ok_or_else(|| {
        Error::format("the record is after the last checkpoint: try again in some seconds")
    })?;
    let all = leaves(log, checkpoint.size)?;
    if root(&all) != checkpoint.root {
        return Err(Error::format("the log differs from its checkpoint: verify it"));
    }
    let index = usize::try_from(chunk).map_err(|_| Error::format("too large"))?;
    let path = inclusion_proof(&all, index).ok_or_else(|| Error::format("no such chunk"))?;
    let epochs = epoch_chain(log, &all, chunk, checkpoint.size)?;
    let extra = extra(found, &epochs, wanted)?;
    let mut out = format!("{FIRST_LINE}\nextra {}\nindex {chunk}\n", to_base64(&extra));
    for hash in path {
        out.push_str(&to_base64(&hash));
        out.push('\n');
    }
    debug_assert_eq!(checkpoint.origin, origin);
    out.push('\n');
    out.push_str(&note.to_string());
    if out.len() > PROOF_FILE_MAX {
        return Err(Error::format("the proof is longer than 4 MiB"));
    }
    Ok(out)
}

/// An epoch's announcement and the checkpoint that the epoch before closed with.
struct Hop {
    note: Note,
    head: [u8; HEADER_LEN],
    body: Vec<u8>,
    segment_hash: Hash,
    path: Vec<Hash>,
}

/// Announcements of all epochs up to the one that signs `size`.
fn epoch_chain(log: &dyn Storage, all: &[Hash], _chunk: u64, size: u64) -> Result<Vec<Hop>> {
    // Checkpoints at which an epoch closed carry the signatures of two keys.
    let closing = checkpoints_where(log, |c| c.size < size)?;
    let mut hops: Vec<Hop> = Vec::new();
    for (note, checkpoint) in closing {
        if note.signatures.len() < 4 || checkpoint.size == 0 {
            continue;
        }
        if hops.len() == PROOF_EPOCHS_MAX {
            return Ok(Vec::new());
        }
        let Some((head, body, segment_hash)) = announcement(log, checkpoint.size - 1)? else {
            continue;
        };
        let Some(part) = all.get(..usize::try_from(checkpoint.size).unwrap_or(usize::MAX)) else {
            continue;
        };
        let path = inclusion_proof(part, part.len() - 1).unwrap_or_default();
        hops.push(Hop { note, head, body, segment_hash, path });
    }
    Ok(hops)
}

/// The clear chunk with this index, with head and body.
fn announcement(log: &dyn Storage, chunk: u64) -> Result<Option<KeptChunk>> {
    let names = log.list().map_err(|e| Error::storage("log", e))?;
    let first = names
        .iter()
        .filter_map(|n| crate::format::segment::parse_file_name(n))
        .filter(|(first, ending)| (*ending == "gsl" || *ending == "pruned") && *first <= chunk)
        .map(|(first, _)| first)
        .max();
    let Some(first) = first else { return Ok(None) };
    let name = crate::format::segment::file_name(first, "gsl");
    if log.len(&name).map_err(|e| Error::storage(&name, e))?.is_none() {
        return crate::format::retain::kept_chunk(log, first, chunk);
    }
    let (_, hash) = read_header(log, &name)?;
    let mut walk = Walk::new(log, &name)?;
    while let Some((at, item)) = walk.step()? {
        if let Item::Chunk(header) = item
            && header.index == chunk
        {
            let mut body = Vec::new();
            read_body(log, &name, at, &header, &mut body)?;
            return Ok(header.is_clear().then(|| (header.encode(), body, hash)));
        }
    }
    Ok(None)
}

fn extra(found: &mut Located<'_>, epochs: &[Hop], wanted: Wanted) -> Result<Vec<u8>> {
    let leaves = found.opener.record_leaves(&found.header, found.keys)?.to_vec();
    let index = (found.number - found.header.first_record) as usize;
    let path = inclusion_proof(&leaves, index).ok_or_else(|| Error::format("no such record"))?;
    let mut json = Json::new();
    json.open();
    json.number("record", found.number);
    if wanted.is_redacted {
        json.field(
            "leaf",
            to_base64(leaves.get(index).ok_or_else(|| Error::format("no such record"))?),
        );
    } else {
        let salt = found.opener.salt(index).ok_or_else(|| Error::format("no such record"))?;
        let decoded = found.opener.records(&found.header)?;
        let (record, source) =
            decoded.records.get(index).ok_or_else(|| Error::format("no such record"))?;
        json.number("time_ns", record.time_ns);
        json.number("kind", record.kind as u8);
        json.number("flags", record.flags.0);
        json.field("source", to_base64(decoded.source(*source).map_or(&[][..], |s| s.entry)));
        json.field("bytes", to_base64(record.bytes));
        json.field("salt", to_base64(&salt));
    }
    hashes(&mut json, "path", &path);
    json.field("chunk", to_base64(&found.header.encode()));
    json.field("segment_hash", to_base64(&found.segment_hash));
    json.open_array_key("epochs");
    for hop in epochs {
        json.open();
        json.field("checkpoint", to_base64(hop.note.to_string().as_bytes()));
        json.field("chunk", to_base64(&hop.head));
        json.field("body", to_base64(&hop.body));
        json.field("segment_hash", to_base64(&hop.segment_hash));
        hashes(&mut json, "path", &hop.path);
        json.close();
    }
    json.close_array();
    json.close();
    Ok(json.take_bytes())
}

fn hashes(json: &mut Json, key: &str, list: &[Hash]) {
    json.open_array_key(key);
    list.iter().for_each(|h| json.item(to_base64(h)));
    json.close_array();
}

/// A proof file as read.
#[derive(Clone, Debug)]
pub struct Proof {
    extra: Value,
    /// The chunk.
    pub index: u64,
    path: Vec<Hash>,
    note: Note,
    /// What the checkpoint says.
    pub checkpoint: Checkpoint,
}

/// What a proof that holds shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// Number of the record.
    pub record: u64,
    /// Chunk it is in.
    pub chunk: u64,
    /// Size of the tree it was proven in.
    pub size: u64,
    /// Origin of the log.
    pub origin: String,
    /// When the checkpoint was signed, seconds since 1970, by its signer's word.
    pub signed_time: Option<u64>,
    /// What the record is, unless it was left out.
    pub content: Option<Content>,
}

/// A record out of a proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// When it was received, ns.
    pub time_ns: u64,
    /// What it is.
    pub kind: Kind,
    /// What is to be known of it.
    pub flags: Flags,
    /// Transport, peer and identity.
    pub source: (&'static str, String, String),
    /// The bytes.
    pub bytes: Vec<u8>,
}

impl Proof {
    /// Whether a file is a proof at all, whole or damaged: it begins as one.
    #[must_use]
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.strip_prefix(FIRST_LINE.as_bytes()).is_some_and(|behind| behind.starts_with(b"\n"))
    }

    /// Reads a proof file.
    pub fn parse(bytes: &[u8]) -> Result<Proof> {
        let wrong = |what: &str| Error::format(format!("proof: {what}"));
        if bytes.len() > PROOF_FILE_MAX {
            return Err(wrong("too long"));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| wrong("not UTF-8"))?;
        let (head, note) =
            text.split_once("\n\n").ok_or_else(|| wrong("no empty line before the checkpoint"))?;
        let mut lines = head.split('\n');
        if lines.next() != Some(FIRST_LINE) {
            return Err(wrong("not a tlog-proof of version 1"));
        }
        let mut line = lines.next().unwrap_or_default();
        let mut extra = Value::Null;
        if let Some(coded) = line.strip_prefix("extra ") {
            let json = from_base64(coded.as_bytes())
                .ok_or_else(|| wrong("the proof is damaged: extra is not base64"))?;
            extra = serde_json::from_slice(&json)
                .map_err(|_| wrong("the proof is damaged: extra is not JSON"))?;
            line = lines.next().unwrap_or_default();
        }
        let number = line.strip_prefix("index ").ok_or_else(|| wrong("no index"))?;
        if number.len() > 1 && number.starts_with('0')
            || !number.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(wrong("the proof is damaged: index is not a decimal number"));
        }
        let index = number
            .parse()
            .map_err(|_| wrong("the proof is damaged: index is not a decimal number"))?;
        let mut path = Vec::new();
        for line in lines {
            if path.len() == PROOF_HASHES_MAX {
                return Err(wrong("path is too long"));
            }
            path.push(
                unbase64_hash(line).ok_or_else(|| wrong("a hash is not 32 bytes in base64"))?,
            );
        }
        let note = Note::parse(note.as_bytes())?;
        let checkpoint = Checkpoint::parse(&note.text)?;
        Ok(Proof { extra, index, path, note, checkpoint })
    }

    /// Whether this leaf's data is at the proof's place, under a checkpoint signed by one of these keys.
    /// This much holds for any C2SP log.
    pub fn check_leaf(&self, leaf_hash: &Hash, keys: &[Vkey]) -> Result<Option<u64>> {
        if !verify_inclusion(
            self.index,
            self.checkpoint.size,
            leaf_hash,
            &self.path,
            &self.checkpoint.root,
        ) {
            return Err(Error::format("the chunk is not in the checkpoint's tree"));
        }
        let verified = self.note.verify(keys)?;
        Ok(verified.iter().find_map(|v| v.time))
    }

    /// Checks everything against the log's public key: of its first epoch, or of the one that signed the
    /// checkpoint. The error names the step that failed.
    pub fn check(&self, vkey: &Vkey) -> Result<Checked> {
        let wrong = |what: &str| Error::format(format!("proof: {what}"));
        if self.checkpoint.origin != vkey.name {
            return Err(wrong("the checkpoint is of another log"));
        }
        let extra = &self.extra;
        let head = bytes_at(extra, "chunk").ok_or_else(|| wrong("no chunk"))?;
        let head: [u8; HEADER_LEN] =
            head.try_into().map_err(|_| wrong("chunk head of another length"))?;
        let header = Header::parse(&head)?;
        if header.index != self.index {
            return Err(wrong("the chunk's head has another index"));
        }
        let record =
            extra.get("record").and_then(Value::as_u64).ok_or_else(|| wrong("no record number"))?;
        let place =
            record.checked_sub(header.first_record).filter(|p| *p < u64::from(header.records));
        let place = place.ok_or_else(|| wrong("the record is not of this chunk"))?;
        let (leaf_hash, content) = self.record_leaf(record).ok_or_else(|| wrong("no record"))?;
        let path = hashes_at(extra, "path").ok_or_else(|| wrong("no path of the record"))?;
        if root_from_inclusion(place, u64::from(header.records), &leaf_hash, &path)
            != Some(header.root)
        {
            return Err(wrong("the record is not in its chunk"));
        }
        let segment_hash = hash_at(extra, "segment_hash")
            .ok_or_else(|| wrong("no hash of the segment's header"))?;
        let keys = self.keys(vkey)?;
        let signed_time = self.check_leaf(&leaf(&head, &segment_hash), &keys)?;
        Ok(Checked {
            record,
            chunk: self.index,
            size: self.checkpoint.size,
            origin: self.checkpoint.origin.clone(),
            signed_time,
            content,
        })
    }

    fn record_leaf(&self, number: u64) -> Option<(Hash, Option<Content>)> {
        let extra = &self.extra;
        if let Some(leaf) = hash_at(extra, "leaf") {
            return Some((leaf, None));
        }
        let small = |key: &str| extra.get(key).and_then(Value::as_u64);
        let (bytes, source) = (bytes_at(extra, "bytes")?, bytes_at(extra, "source")?);
        let salt: [u8; 16] = bytes_at(extra, "salt")?.try_into().ok()?;
        let kind = Kind::from_byte(u8::try_from(small("kind")?).ok()?)?;
        let flags = Flags(u16::try_from(small("flags")?).ok()?);
        let time_ns = small("time_ns")?;
        let record = Record { time_ns, kind, flags, bytes: &bytes };
        let hash = record.leaf(number, &salt, &source, &mut Vec::new());
        let view = SourceView::decode(&mut Take::new(&source)).filter(|v| v.entry == source)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let source = (view.transport_name(), text(view.peer), text(view.identity));
        Some((hash, Some(Content { time_ns, kind, flags, source, bytes })))
    }

    /// The keys that may have signed the checkpoint: the given one, or the one that the chain of epochs
    /// leads to from it.
    fn keys(&self, vkey: &Vkey) -> Result<Vec<Vkey>> {
        let both =
            |key: &Vkey| vec![key.clone(), key.of_kind(crate::note::SignatureKind::Cosignature)];
        let signs =
            |key: &Vkey| self.note.signatures.iter().any(|s| s.id == key.id && s.name == key.name);
        let mut key = vkey.clone();
        if signs(&key) {
            return Ok(both(&key));
        }
        for hop in self.extra.get("epochs").and_then(Value::as_array).into_iter().flatten() {
            key = next_key(hop, &key, &self.checkpoint)?;
            if signs(&key) {
                return Ok(both(&key));
            }
        }
        Err(Error::format(
            "proof: the checkpoint is not signed by the given key, nor by one that follows from it",
        ))
    }
}

/// The key that an epoch's key announced, in the checkpoint it closed with.
fn next_key(hop: &Value, key: &Vkey, last: &Checkpoint) -> Result<Vkey> {
    let wrong = |what: &str| Error::format(format!("proof: chain of epochs: {what}"));
    let part = |name: &str| bytes_at(hop, name).ok_or_else(|| wrong("incomplete"));
    let note = Note::parse(&part("checkpoint")?)?;
    let checkpoint = Checkpoint::parse(&note.text)?;
    note.verify(std::slice::from_ref(key))?;
    if checkpoint.origin != last.origin || checkpoint.size > last.size {
        return Err(wrong("a checkpoint of another log or a later size"));
    }
    let head: [u8; HEADER_LEN] =
        part("chunk")?.try_into().map_err(|_| wrong("chunk head of another length"))?;
    let header = Header::parse(&head)?;
    let body = part("body")?;
    let segment_hash = hash_at(hop, "segment_hash").ok_or_else(|| wrong("incomplete"))?;
    let path = hashes_at(hop, "path").ok_or_else(|| wrong("incomplete"))?;
    let is_last = header.index.checked_add(1) == Some(checkpoint.size);
    let leaf_hash = leaf(&head, &segment_hash);
    if !is_last
        || !verify_inclusion(header.index, checkpoint.size, &leaf_hash, &path, &checkpoint.root)
    {
        return Err(wrong("the announcement is not in the tree"));
    }
    if !header.is_clear() || sha256(&body) != header.body_hash {
        return Err(wrong("the announcement differs from its chunk"));
    }
    let announced = statements(&header, &body)?.into_iter().find_map(|(_, s)| {
        let Statement::Epoch { key, end, .. } = s else { return None };
        (end == checkpoint.size).then_some(key)
    });
    let announced = announced.ok_or_else(|| wrong("no announcement"))?;
    Ok(Vkey::new(&key.name, crate::note::SignatureKind::Ed25519, announced))
}

fn bytes_at(json: &Value, key: &str) -> Option<Vec<u8>> {
    from_base64(json.get(key)?.as_str()?.as_bytes())
}

fn hash_at(json: &Value, key: &str) -> Option<Hash> {
    unbase64_hash(json.get(key)?.as_str()?)
}

fn hashes_at(json: &Value, key: &str) -> Option<Vec<Hash>> {
    let list = json.get(key)?.as_array()?;
    (list.len() <= PROOF_HASHES_MAX).then_some(())?;
    list.iter().map(|h| unbase64_hash(h.as_str()?)).collect()
}

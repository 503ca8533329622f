//! What a log says of itself: system records, JSON objects with a `type`.
//!
//! Those that matter to verifiers without a key stand in clear chunks. `loss` and `shed` name
//! sources and are encrypted as messages are.

use crate::format::tree::Hash;
use gabion_record::base64::from_base64;
use gabion_record::hex::{from_hex, to_hex};
use gabion_record::json::Json;
use serde_json::Value;

/// A prune statement's segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrunedSegment {
    /// First chunk of the segment.
    pub first_chunk: u64,
    /// Chunks in it.
    pub chunks: u64,
    /// Its first record.
    pub first_record: u64,
    /// Records in it.
    pub records: u64,
    /// SHA-256 of the stub that stands in its place.
    pub stub: Hash,
}

/// A system record that verification looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// The key of the next epoch, which begins after `end` chunks.
    Epoch {
        /// Number of the next epoch.
        epoch: u64,
        /// Its public key.
        key: [u8; 32],
        /// Size at which the old epoch ends.
        end: u64,
    },
    /// Segments that were removed.
    Prune(Vec<PrunedSegment>),
    /// Segments (by first chunk) whose keys for a class were destroyed.
    Shred {
        /// First chunks of the segments.
        segments: Vec<u64>,
        /// The class, or all of them.
        class: Option<u8>,
    },
    /// The readers of a segment.
    Recipients {
        /// First chunk of the segment.
        segment: u64,
        /// SHA-256 of its `.keys` file.
        keys: Hash,
        /// Ids of the recipients.
        ids: Vec<[u8; 8]>,
        /// Commitments of classes above 0.
        classes: Vec<(u8, [u8; 32])>,
    },
    /// What was cut off after a crash, or shed.
    Recovery {
        /// Bytes cut off.
        bytes: u64,
    },
    /// The clock was set.
    Clock,
    /// A writer began.
    Start,
    /// A writer ended.
    Stop,
    /// The segment ended.
    Rotate,
    /// Any other.
    Other(String),
}

impl Statement {
    /// Reads one; `None` when it is no statement or lacks what its type needs.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Statement> {
        let json: Value = serde_json::from_slice(bytes).ok()?;
        let number = |key: &str| json.get(key).and_then(Value::as_u64);
        let kind = json.get("type")?.as_str()?;
        Some(match kind {
            "epoch" => Statement::Epoch {
                epoch: number("epoch")?,
                key: from_base64(json.get("key")?.as_str()?.as_bytes())?.try_into().ok()?,
                end: number("end")?,
            },
            "prune" => {
                let list = json.get("segments")?.as_array()?;
                Statement::Prune(list.iter().map(pruned).collect::<Option<_>>()?)
            }
            "shred" => Statement::Shred {
                segments: json
                    .get("segments")?
                    .as_array()?
                    .iter()
                    .map(Value::as_u64)
                    .collect::<Option<_>>()?,
                class: match json.get("class") {
                    Some(class) => Some(u8::try_from(class.as_u64()?).ok()?),
                    None => None,
                },
            },
            "recipients" => Statement::Recipients {
                segment: number("segment")?,
                keys: hash(&json, "keys")?,
                ids: json.get("ids")?.as_array()?.iter().map(bytes_of).collect::<Option<_>>()?,
                classes: json
                    .get("classes")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten()
                    .map(|c| {
                        Some((
                            u8::try_from(c.get("class")?.as_u64()?).ok()?,
                            hash(c, "commitment")?,
                        ))
                    })
                    .collect::<Option<_>>()?,
            },
            "recovery" => Statement::Recovery { bytes: number("bytes")? },
            "clock" => Statement::Clock,
            "start" => Statement::Start,
            "stop" => Statement::Stop,
            "rotate" => Statement::Rotate,
            other => Statement::Other(other.to_owned()),
        })
    }
}

fn pruned(json: &Value) -> Option<PrunedSegment> {
    let number = |key: &str| json.get(key).and_then(Value::as_u64);
    Some(PrunedSegment {
        first_chunk: number("segment")?,
        chunks: number("chunks")?,
        first_record: number("first_record")?,
        records: number("records")?,
        stub: hash(json, "stub")?,
    })
}

fn hash(json: &Value, key: &str) -> Option<Hash> {
    bytes_of(json.get(key)?)
}

fn bytes_of<const N: usize>(json: &Value) -> Option<[u8; N]> {
    from_hex(json.as_str()?.as_bytes())?.try_into().ok()
}

/// A text member of a statement of this type; `None` when the bytes are another statement, or lack it.
#[must_use]
pub fn text_member(statement: &[u8], kind: &str, member: &str) -> Option<String> {
    let json: Value = serde_json::from_slice(statement).ok()?;
    if json.get("type")?.as_str()? != kind {
        return None;
    }
    Some(json.get(member)?.as_str()?.to_owned())
}

/// The number of a class of records by its name, out of the statement of a segment's readers.
#[must_use]
pub fn class_number(statement: &[u8], name: &str) -> Option<u8> {
    let json: Value = serde_json::from_slice(statement).ok()?;
    let classes = json.get("classes")?.as_array()?;
    let named = |class: &&Value| class.get("name").and_then(Value::as_str) == Some(name);
    let numbers = classes.iter().filter(named).filter_map(|class| class.get("class")?.as_u64());
    numbers.filter_map(|number| u8::try_from(number).ok()).next_back()
}

/// Writes a statement: its type, then what `fields` adds.
#[must_use]
pub fn statement(kind: &str, fields: impl FnOnce(&mut Json)) -> Vec<u8> {
    let mut json = Json::new();
    json.open();
    json.field("type", kind);
    fields(&mut json);
    json.close();
    json.take_bytes()
}

/// The recipients of a segment.
#[must_use]
pub(crate) fn recipients(
    segment: u64,
    keys: &Hash,
    ids: &[[u8; 8]],
    classes: &[(u8, String, [u8; 32])],
) -> Vec<u8> {
    statement("recipients", |json| {
        json.number("segment", segment);
        json.field("keys", to_hex(keys));
        json.open_array_key("ids");
        ids.iter().for_each(|id| json.item(to_hex(id)));
        json.close_array();
        if !classes.is_empty() {
            json.open_array_key("classes");
            for (class, name, commitment) in classes {
                json.open();
                json.number("class", *class);
                json.field("name", name);
                json.field("commitment", to_hex(commitment));
                json.close();
            }
            json.close_array();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_come_back() {
        let named = [(1, "hr".into(), [4; 32]), (2, "it".into(), [5; 32])];
        let bytes = recipients(9, &[1; 32], &[[2; 8], [3; 8]], &named);
        assert_eq!(
            Statement::parse(&bytes),
            Some(Statement::Recipients {
                segment: 9,
                keys: [1; 32],
                ids: vec![[2; 8], [3; 8]],
                classes: vec![(1, [4; 32]), (2, [5; 32])],
            })
        );
        let stop = statement("stop", |json| json.number("records", 3u64));
        assert_eq!(Statement::parse(&stop), Some(Statement::Stop));
        let other = statement("loss", |_| {});
        assert_eq!(Statement::parse(&other), Some(Statement::Other("loss".into())));
        for wrong in ["", "{}", "[]", r#"{"type":"epoch"}"#, r#"{"type":"recovery","bytes":-1}"#] {
            assert_eq!(Statement::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}

//! What a writer holds that is not synced, returned when its storage refused it: chunks that were sealed
//! and not written are opened again with the keys that the writer still has.

use super::Writer;
use crate::error::{Error, Result};
use crate::format::chunk::{HEADER_LEN, Header, MARK_LEN, MARK_MAGIC, Opener};
use crate::format::segment::FLAG_PADDED;
use crate::record::{Flags, Kind, Record, Source};
use crate::storage::Storage;

/// A record without its bytes, which end at `end`.
#[derive(Clone, Copy, Debug)]
struct Head {
    time_ns: u64,
    kind: Kind,
    flags: Flags,
    source: u32,
    end: usize,
}

/// Records that were appended and are not durable, in the order of appending.
#[derive(Debug, Default)]
pub struct Unsynced {
    bytes: Vec<u8>,
    heads: Vec<Head>,
    sources: Vec<Source>,
}

impl Unsynced {
    /// Adds a record after those that are there.
    pub fn push(&mut self, record: &Record<'_>, source: &Source) {
        self.push_entry(record, source.entry());
    }

    fn push_entry(&mut self, record: &Record<'_>, entry: &[u8]) {
        // Records come in runs of few sources.
        let recent = self.sources.iter().rev().take(8).position(|s| s.entry() == entry);
        let at = match recent {
            Some(back) => self.sources.len() - 1 - back,
            None => {
                self.sources.push(Source::from_entry(entry));
                self.sources.len() - 1
            }
        };
        self.bytes.extend_from_slice(record.bytes);
        self.heads.push(Head {
            time_ns: record.time_ns,
            kind: record.kind,
            flags: record.flags,
            source: at as u32,
            end: self.bytes.len(),
        });
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Each record with its source.
    pub fn iter(&self) -> impl Iterator<Item = (Record<'_>, &Source)> {
        let mut start = 0;
        self.heads.iter().filter_map(move |head| {
            let bytes = self.bytes.get(start..head.end)?;
            start = head.end;
            let source = self.sources.get(head.source as usize)?;
            let Head { time_ns, kind, flags, .. } = *head;
            Some((Record { time_ns, kind, flags, bytes }, source))
        })
    }
}

impl<S: Storage> Writer<S> {
    /// Ends the writer without a word in the log, and returns the records that are not durable. The log's own
    /// statements are not among them: a writer that is opened again makes its own.
    ///
    /// # Errors
    /// When what was sealed can't be opened again, which no storage can cause.
    pub fn into_unsynced(self) -> Result<Unsynced> {
        let mut unsynced = Unsynced::default();
        let mut opener = Opener::new()?;
        let mut rest = self.pending.as_slice();
        while !rest.is_empty() {
            if rest.starts_with(MARK_MAGIC) {
                rest = rest.get(MARK_LEN..).unwrap_or_default();
                continue;
            }
            let header = Header::parse(rest)?;
            let len = HEADER_LEN + header.body_len as usize;
            let (chunk, behind) = rest
                .split_at_checked(len)
                .ok_or_else(|| Error::format("a chunk that was sealed is cut short"))?;
            rest = behind;
            if header.is_clear() {
                continue;
            }
            let current = self.current.as_ref().ok_or(Error::Stopped)?;
            let keys = current.keys.get(usize::from(header.class));
            let is_padded = current.header.flags & FLAG_PADDED != 0;
            let body = chunk.get(HEADER_LEN..).unwrap_or_default();
            opener.open(&header, body, keys, &current.hash, is_padded)?;
            let decoded = opener.records(&header)?;
            for (record, source) in &decoded.records {
                let source = decoded.sources.get(usize::from(*source));
                unsynced.push_entry(record, source.map_or(&[], |s| s.entry));
            }
        }
        for waiting in &self.waiting {
            waiting.builder.for_each(|record, entry| unsynced.push_entry(&record, entry));
        }
        Ok(unsynced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::chunk::Manner;
    use crate::recipient::SecretKey;
    use crate::record::Transport;
    use crate::storage::Memory;
    use crate::writer::{Init, Policy};

    /// Whatever was appended since the last commit comes back, in order, be it sealed already or not.
    #[test]
    fn all_that_is_not_durable_comes_back_in_order() {
        for is_padded in [false, true] {
            let (mut log, state) = (Memory::new(), Memory::new());
            Init::new("log.example/x", 1).create(&mut log, state.clone()).unwrap();
            let policy = Policy {
                // Chunks of a few records, and nothing is written before a commit.
                chunk_plain: 100,
                commit_bytes: usize::MAX,
                manner: Manner { level: Some(1), is_padded, is_rounded: true },
                ..Policy::default()
            };
            let reader = SecretKey::generate().unwrap();
            let (mut writer, _) =
                Writer::open(log, state, vec![reader.recipient().clone()], policy, 1).unwrap();
            let sources = ["192.0.2.1", "192.0.2.2"].map(|p| Source::new(Transport::Udp, 1, p, ""));
            let texts: Vec<String> = (0..50).map(|n| format!("message {n}")).collect();
            let record = |n: usize| Record {
                time_ns: 7_000_000_001 + n as u64,
                kind: Kind::Message,
                flags: Flags::default(),
                bytes: texts[n].as_bytes(),
            };
            for n in 0..50 {
                writer.append(&record(n), &sources[n % 2]).unwrap();
                if n == 9 {
                    writer.commit(8_000_000_000).unwrap();
                    // A statement is none of the caller's records.
                    writer.state(&[b"{}".to_vec()], 0).unwrap();
                }
            }
            let unsynced = writer.into_unsynced().unwrap();
            let got: Vec<_> = unsynced.iter().collect();
            let wanted: Vec<_> = (10..50).map(|n| (record(n), &sources[n % 2])).collect();
            assert_eq!(got, wanted);
            assert_eq!((unsynced.len(), unsynced.is_empty()), (40, false));
        }
    }
}

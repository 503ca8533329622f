//! What only several records together show: messages of a sender that are missing between two records,
//! and the record that first held an envelope that came again. It sees the shown records, in their order.

use crate::evidence;
use crate::limits::REPLAY_ENVELOPES_MAX;
use crate::sequence::Sequences;
use crate::syslog::{self, Received};
use gabion_seal::reader::Found;
use gabion_seal::{Flags, Kind, Transport};
use memchr::memmem::Finder;
use std::collections::HashMap;

/// Hex digits of an envelope's nonce, and of its tag: together they identify it.
const NONCE_DIGITS: usize = 24;
const TAG_DIGITS: usize = 32;

/// What was shown so far.
#[derive(Default)]
pub(super) struct CrossRecords {
    sequences: Sequences,
    /// The text that marks a numbered message.
    mark: Option<Finder<'static>>,
    envelopes: HashMap<Vec<u8>, u64>,
}

impl CrossRecords {
    /// Messages that the sender of this one numbered and that did not come before it.
    pub(super) fn missing(&mut self, found: &Found<'_>) -> u32 {
        let record = found.record;
        // Entries of the journal are numbered by their cursors alone.
        if record.kind != Kind::Message || found.source.transport == Some(Transport::Journal) {
            return 0;
        }
        let mark = self.mark.get_or_insert_with(|| Finder::new(b"sequenceId="));
        if mark.find(record.bytes).is_none() {
            return 0;
        }
        let received = Received { time_ns: record.time_ns, zone_seconds: 0 };
        let message = syslog::parse(record.bytes, &received);
        let Some(number) = message.sequence_id() else { return 0 };
        // A sender over a new connection is the same one: its port is left out.
        let peer = found.source.peer;
        let host = memchr::memrchr(b':', peer).map_or(peer, |at| &peer[..at]);
        let originator =
            [host, message.host.unwrap_or_default(), message.app.unwrap_or_default()].join(&0);
        self.sequences.missing(&originator, number)
    }

    /// Records could not be read: what is not seen of a sender now is not missing.
    pub(super) fn interrupted(&mut self) {
        self.sequences = Sequences::default();
    }

    /// The record that first held an envelope that came again, when that record was shown.
    pub(super) fn first(&mut self, found: &Found<'_>) -> Option<u64> {
        if !found.record.flags.has(Flags::OPENED) {
            return None;
        }
        let (_, wire) = evidence::opened(found.record.bytes);
        let blob = wire?.trim_ascii().split(|b| *b == b',').next()?;
        let blob: Vec<u8> = blob.iter().filter(|b| !matches!(b, b' ' | b'\t')).copied().collect();
        let tag = blob.get(blob.len().checked_sub(TAG_DIGITS)?..)?;
        let mark = [blob.get(..NONCE_DIGITS)?, tag].concat().to_ascii_lowercase();
        if let Some(first) = self.envelopes.get(&mark) {
            return Some(*first);
        }
        if self.envelopes.len() < REPLAY_ENVELOPES_MAX {
            self.envelopes.insert(mark, found.number);
        }
        None
    }
}

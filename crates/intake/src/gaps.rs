//! What senders lost before it came here: those that number their messages (RFC 5424's `meta sequenceId`)
//! let gaps be counted, which nothing on this machine can see otherwise. A message that was overtaken on
//! its way counts as missing too: its number came late, and by then it was reported.

use crate::losses::Losses;
use gabion_logs::sequence::Sequences;
use gabion_logs::syslog::{Received, parse};
use gabion_runtime::metrics::{Counter, Metrics};
use gabion_seal::format::wire::Take;
use gabion_seal::{Source, SourceView};
use std::sync::Arc;

/// The reason in loss records.
const REASON: &str = "sequence_gap";

/// Follows the numbers of all senders.
pub(crate) struct Gaps {
    sequences: Sequences,
    /// Names of listeners by their number.
    listeners: Vec<Arc<str>>,
    lost: Counter,
}

impl Gaps {
    pub(crate) fn new(listeners: Vec<Arc<str>>, metrics: &Metrics) -> Gaps {
        let help = "Messages that numbered senders lost on the way";
        let lost = metrics.counter("gabion_listen_sequence_gap_total", help, &[]);
        Gaps { sequences: Sequences::default(), listeners, lost }
    }

    /// Counts what is missing before a message, if it has a number.
    pub(crate) fn count_missing(
        &mut self,
        source: &Source,
        time_ns: u64,
        bytes: &[u8],
        losses: &Losses,
    ) {
        if !may_be_numbered(bytes) {
            return;
        }
        let message = parse(bytes, &Received { time_ns, zone_seconds: 0 });
        let Some(number) = message.sequence_id() else { return };
        let Some(view) = SourceView::decode(&mut Take::new(source.entry())) else { return };
        let mut originator = view.peer.to_vec();
        originator.push(0);
        originator.extend_from_slice(message.host.unwrap_or_default());
        let missing = self.sequences.missing(&originator, number);
        if missing > 0 {
            self.lost.add(u64::from(missing));
            let name = self.listeners.get(usize::from(view.listener)).cloned().unwrap_or_default();
            let peer = String::from_utf8_lossy(view.peer);
            losses.add(time_ns, &name, &peer, REASON, u64::from(missing));
        }
    }
}

/// Few senders number: the rest is recognized by a look at the head and one search.
fn may_be_numbered(bytes: &[u8]) -> bool {
    let head = bytes.get(..5).unwrap_or(bytes);
    let Some(end) = head.iter().position(|b| *b == b'>') else { return false };
    bytes.get(end + 1..).is_some_and(|rest| rest.starts_with(b"1 "))
        && memchr::memmem::find(bytes, b"sequenceId=\"").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_rfc_5424_is_looked_into() {
        for (message, expected) in [
            (&b"<34>1 - h a - - [meta sequenceId=\"7\"] x"[..], true),
            (b"<34>1 - h a - - - x", false),
            (b"<34>Oct 11 22:14:15 h a: sequenceId=\"7\"", false),
            (b"sequenceId=\"7\"", false),
            (b"<34>", false),
            (b"", false),
        ] {
            assert_eq!(may_be_numbered(message), expected, "{}", String::from_utf8_lossy(message));
        }
    }
}

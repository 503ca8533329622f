//! What the configuration says: `app-layer.protocols.nfs`.

use super::limits::*;
use crate::chunks::QueueLimits;
use gabion_record::{Direction, Tree};

/// Settings of NFS. A size of 0 sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Open transactions of a flow.
    pub txs_max: u64,
    /// What may wait of files that are written, and of those that are read.
    pub(super) queues: [QueueLimits; 2],
    /// Bytes that a WRITE may carry, and the reply to a READ.
    pub(super) transfers_max: [u32; 2],
    /// Calls that wait for their replies.
    pub(super) calls_max: usize,
    /// Names of handles.
    pub(super) names_max: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        let queue = QueueLimits { bytes_max: QUEUE_BYTES_MAX, chunks_max: QUEUE_CHUNKS_MAX };
        Settings {
            txs_max: OPEN_TXS_MAX,
            queues: [queue; 2],
            transfers_max: [TRANSFER_BYTES_MAX; 2],
            calls_max: CALLS_MAX,
            names_max: NAMES_MAX,
        }
    }
}

impl Settings {
    /// Reads `app-layer.protocols.nfs`; what is missing or wrong keeps Suricata's default.
    pub fn from_config(config: Option<&Tree>) -> Settings {
        let mut s = Settings::default();
        let Some(c) = config else { return s };
        s.txs_max = c.number("max-tx").unwrap_or(s.txs_max);
        for (key, slot) in [("max-requests", &mut s.calls_max), ("max-names", &mut s.names_max)] {
            if let Some(n) = c.number(key).filter(|n| *n > 0) {
                *slot = usize::try_from(n).unwrap_or(usize::MAX);
            }
        }
        let [written, read] = &mut s.queues;
        let [write_max, read_max] = &mut s.transfers_max;
        for (key, slot) in [
            ("max-read-queue-size", &mut read.bytes_max),
            ("max-read-queue-cnt", &mut read.chunks_max),
            ("max-write-queue-size", &mut written.bytes_max),
            ("max-write-queue-cnt", &mut written.chunks_max),
            ("max-write-size", write_max),
            ("max-read-size", read_max),
        ] {
            if let Some(n) = c.size(key) {
                *slot = u32::try_from(n).unwrap_or(u32::MAX);
            }
        }
        s
    }

    /// Whether a message carries more of a file that goes in a direction than it may.
    pub(super) fn is_too_large(&self, direction: Direction, len: usize) -> bool {
        let max = self.transfers_max[direction.index()];
        max > 0 && len as u64 > u64::from(max)
    }

    /// What may wait of files that go in a direction.
    pub(super) fn queue(&self, direction: Direction) -> QueueLimits {
        self.queues[direction.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_wrong_ones_left() {
        let mut t = Tree::default();
        t.set("max-tx", "7");
        t.set("max-write-queue-cnt", "5");
        t.set("max-read-queue-size", "1 MiB");
        t.set("max-read-queue-cnt", "many");
        t.set("max-names", "9");
        t.set("max-requests", "0");
        t.set("max-write-size", "1 KiB");
        let s = Settings::from_config(Some(&t));
        assert_eq!((s.txs_max, s.queue(Direction::ToServer).chunks_max), (7, 5));
        let read = QueueLimits { bytes_max: 1 << 20, chunks_max: QUEUE_CHUNKS_MAX };
        assert_eq!(s.queue(Direction::ToClient), read);
        assert_eq!((s.names_max, s.calls_max), (9, CALLS_MAX));
        assert!(
            s.is_too_large(Direction::ToServer, 1025) && !s.is_too_large(Direction::ToClient, 1025)
        );
        assert_eq!(Settings::from_config(None), Settings::default());
    }
}

//! How many records of its transactions a flow may have, and how much of them is inspected again, by the bytes it has
//! sent.

use crate::limits::{
    BYTES_OF_RECORD, FLOW_RECORDS_MAX, INSPECTED_AGAIN_BYTES_MAX, INSPECTED_AGAIN_FROM_ONE,
};

/// How many records of its transactions a flow has had.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordAllowance {
    written: u64,
    /// Those refused that are not counted yet.
    refused: u64,
}

impl RecordAllowance {
    /// How many more records may be written for a flow whose packets have `sent` bytes. Records that are
    /// not written do not count against later ones.
    pub(crate) fn left(&self, sent: u64) -> u64 {
        (FLOW_RECORDS_MAX + sent / BYTES_OF_RECORD).saturating_sub(self.written)
    }

    /// Counts records that are not written.
    pub(crate) fn refuse(&mut self, records: u64) {
        self.refused += records;
    }

    /// Records refused since this was last asked.
    pub(crate) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// Whether one more record may be written for a flow whose packets have `sent` bytes; a refusal is
    /// counted.
    pub(crate) fn takes(&mut self, sent: u64) -> bool {
        let may = self.left(sent) > 0;
        if may {
            self.written += 1
        } else {
            self.refuse(1)
        }
        may
    }
}

/// How much of a flow's transactions was inspected again in the same state.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookAllowance {
    bytes: u64,
}

impl LookAllowance {
    /// Whether a transaction may be inspected again of a flow whose packets have `sent` bytes.
    #[inline]
    pub(crate) fn has_room(&self, sent: u64) -> bool {
        let earned = sent.saturating_mul(INSPECTED_AGAIN_FROM_ONE);
        self.bytes < earned.saturating_add(INSPECTED_AGAIN_BYTES_MAX)
    }

    /// Counts what was inspected again.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inspected_again_is_bounded_by_what_was_sent() {
        let mut looks = LookAllowance::default();
        let mut total = 0;
        for packet in 1..=1_000_u64 {
            let sent = packet * 1_460;
            // As long as it may, with looks of ten KiB each.
            while looks.has_room(sent) {
                looks.add(10 << 10);
                total += 10 << 10;
            }
            let most = INSPECTED_AGAIN_BYTES_MAX + sent * INSPECTED_AGAIN_FROM_ONE;
            assert!((most..most + (10 << 10)).contains(&total), "{total} of {sent}");
        }
    }
}

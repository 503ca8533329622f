//! How many records of its transactions a flow may have, by the bytes it has sent.

use crate::limits::{BYTES_OF_RECORD, FLOW_RECORDS_MAX};

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

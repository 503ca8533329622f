//! What of a side's fields is put together when a rule asks.

use std::cell::OnceCell;

/// What is put together when a rule asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Views {
    pub(crate) text: OnceCell<Vec<u8>>,
    pub(crate) raw: OnceCell<Vec<u8>>,
    pub(crate) names: OnceCell<Vec<u8>>,
    pub(crate) line: OnceCell<Vec<u8>>,
    pub(crate) host: OnceCell<Vec<u8>>,
    pub(crate) each: OnceCell<Vec<Vec<u8>>>,
    /// Values of fields that came more than once, by their buffer.
    pub(crate) joined: [OnceCell<Vec<u8>>; 12],
}

impl Views {
    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        let cells = [&self.text, &self.raw, &self.names, &self.line, &self.host];
        let held = |c: &OnceCell<Vec<u8>>| c.get().map_or(0, Vec::capacity);
        let each = self.each.get().map_or(0, |l| l.iter().map(|v| v.capacity() + 24).sum());
        cells.into_iter().chain(&self.joined).map(held).sum::<usize>() + each
    }
}

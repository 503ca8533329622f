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
    /// See [`Views::joined`].
    joined: OnceCell<Box<[OnceCell<Vec<u8>>; JOINED]>>,
}

/// Buffers of fields.
const JOINED: usize = 11;

impl Views {
    /// Values of a field that came more than once, by the place of its buffer: most fields come once.
    pub(crate) fn joined(&self, at: usize) -> Option<&OnceCell<Vec<u8>>> {
        self.joined.get_or_init(Box::default).get(at)
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        let cells = [&self.text, &self.raw, &self.names, &self.line, &self.host];
        let held = |c: &OnceCell<Vec<u8>>| c.get().map_or(0, Vec::capacity);
        let each = self.each.get().map_or(0, |l| l.iter().map(|v| v.capacity() + 24).sum());
        let joined = self
            .joined
            .get()
            .map_or(0, |all| size_of_val(&**all) + all.iter().map(held).sum::<usize>());
        size_of::<Views>() + cells.into_iter().map(held).sum::<usize>() + each + joined
    }
}

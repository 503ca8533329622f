//! Texts of a rule set: one arena, spans into it.
//!
//! A large rule set is mostly text (raw rules, messages, metadata). Each rule's line is kept once;
//! whatever is needed later (message, metadata, references) is a span of eight bytes into it, and
//! only texts that differ from what is written (escapes resolved, lines joined) are appended.

use std::fmt;

/// A span of the rule set's text arena, see [`TextArena::get`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Text {
    pub(crate) start: u32,
    pub(crate) len: u32,
}

impl Text {
    /// Whether the text is empty.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Bytes of the text.
    pub fn len(self) -> usize {
        self.len as usize
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.start, self.len)
    }
}

/// The arena. At most 4 GiB: what does not fit is refused by [`TextArena::push`].
#[derive(Clone, Debug, Default)]
pub struct TextArena {
    text: String,
}

impl TextArena {
    /// The text of a span; empty for a span of another arena.
    #[inline]
    pub fn get(&self, t: Text) -> &str {
        let start = t.start as usize;
        self.text.get(start..start + t.len as usize).unwrap_or("")
    }

    /// Appends a text; `None` when the arena is full.
    pub fn push(&mut self, text: &str) -> Option<Text> {
        let start = u32::try_from(self.text.len()).ok()?;
        let len = u32::try_from(text.len()).ok()?;
        start.checked_add(len)?;
        self.text.push_str(text);
        Some(Text { start, len })
    }

    /// Reserves space for texts of this many bytes in all, so that they are not moved as more come.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.text.reserve_exact(bytes);
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.text.capacity()
    }

    /// Takes back everything from that length on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.text.truncate(len);
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
    }
}

//! Texts of a rule set: one arena, spans into it.
//!
//! A large rule set is mostly text (raw rules, messages, metadata). Each rule's line is kept once;
//! whatever is needed later (message, metadata, references) is a span of eight bytes into it, and
//! only texts that differ from what is written (escapes resolved, lines joined) are appended.
//!
//! Few of these texts are ever asked for: those of rules that alert. So they are packed, block by
//! block, as they come, and a block is unpacked when one of its texts is first asked for; it stays
//! unpacked from then on, so that a text can be borrowed. 19 MB of Emerging Threats take 4 MB.

use std::fmt;
use std::sync::OnceLock;

/// Bytes from which on a block of texts is packed: a small one unpacks in some ten microseconds, a
/// larger one packs hardly better.
const BLOCK_BYTES: usize = 16 << 10;

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

/// Texts that are packed together.
#[derive(Clone, Debug)]
struct Block {
    /// Where they begin in the arena.
    start: u32,
    packed: Box<[u8]>,
    /// Bytes unpacked.
    len: u32,
    unpacked: OnceLock<Box<str>>,
}

impl Block {
    fn new(start: u32, text: &str) -> Block {
        let packed = lz4_flex::block::compress(text.as_bytes()).into_boxed_slice();
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Block { start, packed, len, unpacked: OnceLock::new() }
    }

    /// Nothing where the bytes are not those that were packed, which can't be.
    fn unpack(&self) -> String {
        let bytes = lz4_flex::block::decompress(&self.packed, self.len as usize);
        bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
    }

    fn text(&self) -> &str {
        self.unpacked.get_or_init(|| self.unpack().into_boxed_str())
    }
}

/// A span of a text that begins there; empty for a span of another text.
fn part(text: &str, start: u32, t: Text) -> &str {
    let from = t.start.wrapping_sub(start) as usize;
    text.get(from..from.saturating_add(t.len as usize)).unwrap_or("")
}

/// The arena. At most 4 GiB: what does not fit is refused by [`TextArena::push`].
#[derive(Clone, Debug, Default)]
pub struct TextArena {
    /// In the order of their places.
    blocks: Vec<Block>,
    /// Where the last block begins, the only one that grows.
    start: u32,
    last: String,
}

impl TextArena {
    /// The text of a span; empty for a span of another arena.
    #[inline]
    pub fn get(&self, t: Text) -> &str {
        if t.start >= self.start {
            return part(&self.last, self.start, t);
        }
        self.block(t).map_or("", |block| part(block.text(), block.start, t))
    }

    fn block(&self, t: Text) -> Option<&Block> {
        let after = self.blocks.partition_point(|block| block.start <= t.start);
        self.blocks.get(after.checked_sub(1)?)
    }

    /// Reads many texts, of which none stays unpacked.
    pub fn reader(&self) -> TextReader<'_> {
        TextReader { arena: self, block: None, text: String::new() }
    }

    /// Appends a text; `None` when the arena is full.
    pub fn push(&mut self, text: &str) -> Option<Text> {
        let start = u32::try_from(self.len()).ok()?;
        let len = u32::try_from(text.len()).ok()?;
        start.checked_add(len)?;
        self.last.push_str(text);
        Some(Text { start, len })
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let one =
            |block: &Block| block.packed.len() + block.unpacked.get().map_or(0, |text| text.len());
        self.last.capacity()
            + self.blocks.capacity() * size_of::<Block>()
            + self.blocks.iter().map(one).sum::<usize>()
    }

    /// Takes back everything from that length on, which is not packed yet.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.last.truncate(len.saturating_sub(self.start as usize));
    }

    pub(crate) fn len(&self) -> usize {
        self.start as usize + self.last.len()
    }

    /// Packs what was appended, once it is enough for a block. It is called between two rules: no text
    /// is in two blocks.
    pub(crate) fn pack_full(&mut self) {
        if self.last.len() >= BLOCK_BYTES {
            self.pack();
        }
    }

    fn pack(&mut self) {
        let Ok(next) = u32::try_from(self.len()) else { return };
        if !self.last.is_empty() {
            self.blocks.push(Block::new(self.start, &self.last));
            self.last.clear();
            self.start = next;
        }
    }

    /// Packs all there is.
    pub(crate) fn shrink(&mut self) {
        self.pack();
        self.last = String::new();
        self.blocks.shrink_to_fit();
    }
}

/// Reads texts of an arena. Each block is unpacked once, if they are read in the order of their places.
#[derive(Debug)]
pub struct TextReader<'a> {
    arena: &'a TextArena,
    /// Where the block begins that is unpacked.
    block: Option<u32>,
    text: String,
}

impl TextReader<'_> {
    /// The text of a span, as [`TextArena::get`] has it.
    pub fn get(&mut self, t: Text) -> &str {
        if t.start >= self.arena.start {
            return part(&self.arena.last, self.arena.start, t);
        }
        let Some(block) = self.arena.block(t) else { return "" };
        if self.block != Some(block.start) {
            self.block = Some(block.start);
            self.text = block.unpack();
        }
        part(&self.text, block.start, t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was appended is read as it was, packed or not, and packed texts take a part of their bytes
    /// until they are asked for.
    #[test]
    fn texts_are_read_as_they_were_appended() {
        let mut arena = TextArena::default();
        let text =
            |n: u32| format!("alert tcp any any -> any any (msg:\"rule {n} \u{e9}\"; sid:{n};)");
        let mut spans = Vec::new();
        for n in 0..5_000 {
            arena.pack_full();
            // one that is refused leaves nothing
            let before = arena.len();
            arena.push("refused").unwrap();
            arena.truncate(before);
            spans.push(arena.push(&text(n)).unwrap());
        }
        let whole: usize = spans.iter().map(|t| t.len()).sum();
        assert_eq!(arena.len(), whole);
        let check = |arena: &TextArena| {
            let mut reader = arena.reader();
            for (n, span) in (0..).zip(&spans) {
                assert_eq!(reader.get(*span), text(n));
            }
        };
        check(&arena);
        arena.shrink();
        check(&arena);
        let packed = arena.bytes();
        assert!(packed * 3 < whole, "{packed} of {whole}");
        let more = arena.push("more").unwrap();
        assert_eq!((arena.get(more), arena.reader().get(more)), ("more", "more"));
        assert_eq!(arena.get(spans[7]), text(7));
        let one = arena.bytes() - packed;
        assert!((BLOCK_BYTES..2 * BLOCK_BYTES).contains(&one), "{one}");
        for (n, span) in spans.iter().enumerate().rev() {
            assert_eq!(arena.get(*span), text(u32::try_from(n).unwrap()));
        }
        let copy = arena.clone();
        assert_eq!(copy.get(spans[4_999]), text(4_999));
    }

    /// A span of another arena is empty.
    #[test]
    fn spans_of_another_arena_are_empty() {
        let mut arena = TextArena::default();
        arena.push("abc").unwrap();
        let other = Text { start: 2, len: 7 };
        assert_eq!((arena.get(other), arena.reader().get(other)), ("", ""));
        arena.shrink();
        assert_eq!((arena.get(other), arena.reader().get(other)), ("", ""));
        let beyond = Text { start: 9, len: 1 };
        assert_eq!((arena.get(beyond), TextArena::default().get(other)), ("", ""));
    }
}

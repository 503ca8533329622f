//! Frames: parts of a protocol's stream as it lies on the wire (a record, a request, a command
//! line), which rules inspect and EVE logs.
//!
//! A parser reports where frames begin and end, in offsets of the stream; the engine keeps them until
//! they are inspected and logged. App-layer frames that no rule or output wants cost a test of a bit.

use gabion_record::Direction;

/// What a parser found out about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameNote {
    /// A frame begins.
    Begin {
        /// Direction of its bytes.
        direction: Direction,
        /// Position in the protocol's list of frames.
        kind: u8,
        /// Stream offset of its first byte.
        start: u64,
        /// Its length, when it is known already.
        len: Option<u64>,
        /// The transaction it belongs to.
        tx: Option<u64>,
    },
    /// The last frame of that kind ends.
    End {
        /// Direction of its bytes.
        direction: Direction,
        /// Position in the protocol's list of frames.
        kind: u8,
        /// Stream offset after its last byte.
        end: u64,
    },
}

/// Where a parser leaves its notes on frames.
#[derive(Clone, Debug, Default)]
pub struct FrameNotes {
    /// Kinds that a rule or output wants, one bit each.
    pub wanted: u32,
    /// Stream offsets of the first byte that was not consumed, by direction: where the input begins.
    pub at: [u64; 2],
    /// The notes, in the order of the bytes.
    pub notes: Vec<FrameNote>,
}

impl FrameNotes {
    /// Whether frames of that kind are wanted.
    #[inline]
    pub fn wants(&self, kind: u8) -> bool {
        self.wanted.checked_shr(u32::from(kind)).unwrap_or(0) & 1 != 0
    }

    /// Notes a frame `at` bytes after the start of the input.
    #[inline]
    pub fn add(&mut self, direction: Direction, kind: u8, at: usize, len: u64, tx: Option<u64>) {
        if self.wants(kind) {
            let start = self.at[direction.index()].saturating_add(at as u64);
            self.notes.push(FrameNote::Begin { direction, kind, start, len: Some(len), tx });
        }
    }

    /// Notes the beginning of a frame at a stream offset.
    #[inline]
    pub fn begin(&mut self, direction: Direction, kind: u8, start: u64, tx: Option<u64>) {
        if self.wants(kind) {
            self.notes.push(FrameNote::Begin { direction, kind, start, len: None, tx });
        }
    }

    /// Notes the end of the last frame of that kind at a stream offset.
    #[inline]
    pub fn end(&mut self, direction: Direction, kind: u8, end: u64) {
        if self.wants(kind) {
            self.notes.push(FrameNote::End { direction, kind, end });
        }
    }
}

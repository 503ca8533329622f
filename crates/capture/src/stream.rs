//! Captures from streams: standard input, pipes, and files inside zstd or gzip.
//!
//! The bytes of a stream fill blocks; complete records of a block become frames, and the beginning
//! of an incomplete record is copied to the next block. Blocks are reused once nothing refers to
//! them, so a stream of any length needs a few blocks of memory.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::sync::Arc;

use crate::bytes::{CaptureBytes, FrameRef};
use crate::cursor::{Cursor, Next, Stop, Torn};
use crate::error::Error;
use crate::limits;
use crate::source::Event;

/// A capture that is read in order and only once.
pub(crate) struct Streamed {
    reader: Box<dyn Read + Send>,
    cursor: Cursor,
    block: Arc<CaptureBytes>,
    /// Blocks that consumers may still hold, oldest first, for reuse.
    lent: VecDeque<Arc<CaptureBytes>>,
    /// Offset of the block in the stream.
    base: u64,
    /// Whether nothing comes after the block: the stream ended, or it `broke`.
    has_all: bool,
    broke: Option<io::Error>,
    /// Whether a block is returned as soon as it has data, not only when it is full.
    is_live: bool,
    block_len: usize,
}

impl Streamed {
    pub(crate) fn new(
        mut reader: Box<dyn Read + Send>,
        is_live: bool,
        block_len: usize,
    ) -> Result<Streamed, Error> {
        let block_len = block_len.max(64);
        let mut buffer = vec![0; block_len];
        // A file header has at most 24 bytes; more may be read.
        let mut filled = Filled { len: 0, at_end: false };
        let broke = filled.fill_buffer(&mut *reader, &mut buffer, 24, is_live).err();
        let cursor = Cursor::new(buffer.get(..filled.len).unwrap_or_default());
        let (cursor, broke) = match (cursor, broke) {
            (Err(_), Some(error)) => return Err(Error::Unreadable(error)),
            (cursor, broke) => (cursor?, broke),
        };
        Ok(Streamed {
            reader,
            cursor,
            block: Arc::new(CaptureBytes::block(buffer, filled.len)),
            lent: VecDeque::new(),
            base: 0,
            has_all: filled.at_end || broke.is_some(),
            broke,
            is_live,
            block_len,
        })
    }

    pub(crate) fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    /// Whether the next record is complete in the block, without a read.
    pub(crate) fn has_more_at_hand(&self) -> bool {
        let mut one = Vec::with_capacity(1);
        !matches!(self.cursor.clone().fill(&self.block, 1, &mut one), Stop::Need(_))
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    /// Appends up to `frames_max` frames, all of one block.
    pub(crate) fn next_block(
        &mut self,
        frames_max: usize,
        frames: &mut Vec<FrameRef>,
    ) -> (Arc<CaptureBytes>, Event) {
        let before = frames.len();
        loop {
            let left = frames_max.saturating_sub(frames.len() - before);
            let stop = self.cursor.fill(&self.block, left, frames);
            let event = match stop {
                Stop::Full => Event::More,
                Stop::Bad(mut bad) => {
                    bad.offset = bad.offset.saturating_add(self.base);
                    Event::Bad(bad)
                }
                Stop::Ended => Event::End,
                // Frames of this block are returned first: references of two blocks do not mix.
                Stop::Need(_) if frames.len() > before => Event::More,
                Stop::Need(_) if self.has_all => self.end(),
                Stop::Need(need) => {
                    self.refill(need);
                    continue;
                }
            };
            return (Arc::clone(&self.block), event);
        }
    }

    /// What the end means at the cursor's position.
    fn end(&mut self) -> Event {
        let at = self.cursor.position();
        let offset = self.base.saturating_add(at as u64);
        let torn = Torn { offset, present: self.block.len().saturating_sub(at) as u64 };
        let next = self.cursor.end(&self.block);
        match (self.broke.take(), next) {
            (Some(error), _) => Event::Broken(torn, error),
            (None, Next::Torn(_)) => Event::Torn(torn),
            (None, Next::End | Next::Frame(_) | Next::Bad(_)) => Event::End,
        }
    }

    /// Fills a new block with the unread tail of the old one, then with bytes of the stream.
    fn refill(&mut self, need: usize) {
        let consumed = self.cursor.position();
        let old = Arc::clone(&self.block);
        let tail = old.get(consumed..).unwrap_or_default();
        let mut buffer = self.spare_buffer();
        if buffer.len() < tail.len() {
            buffer.resize(tail.len(), 0);
        }
        if let Some(start) = buffer.get_mut(..tail.len()) {
            start.copy_from_slice(tail);
        }
        let mut filled = Filled { len: tail.len(), at_end: false };
        self.broke = filled.fill_buffer(&mut *self.reader, &mut buffer, need, self.is_live).err();
        self.has_all = filled.at_end || self.broke.is_some();
        self.base = self.base.saturating_add(consumed as u64);
        self.cursor.rebase(consumed);
        let block = Arc::new(CaptureBytes::block(buffer, filled.len));
        let lent = std::mem::replace(&mut self.block, block);
        if self.lent.len() < limits::STREAM_BLOCKS_KEPT {
            self.lent.push_back(lent);
        }
    }

    /// A buffer that consumers no longer refer to, or a new one. A buffer that grew for a large
    /// record is not kept.
    fn spare_buffer(&mut self) -> Vec<u8> {
        let free = self.lent.iter().position(|lent| Arc::strong_count(lent) == 1);
        free.and_then(|at| self.lent.remove(at))
            .and_then(|lent| Arc::try_unwrap(lent).ok())
            .and_then(CaptureBytes::into_buffer)
            .filter(|buffer| buffer.len() <= self.block_len)
            .unwrap_or_else(|| vec![0; self.block_len])
    }
}

/// The filled part of a buffer.
struct Filled {
    len: usize,
    at_end: bool,
}

impl Filled {
    /// Reads until the buffer has at least `need` bytes (or the stream ends), and until it is full
    /// unless the stream is live. A buffer that is too small doubles while bytes arrive, so that a
    /// false large length costs nothing.
    fn fill_buffer(
        &mut self,
        reader: &mut dyn Read,
        buffer: &mut Vec<u8>,
        need: usize,
        is_live: bool,
    ) -> io::Result<()> {
        let enough = if is_live { need } else { need.max(buffer.len()) };
        while self.len < enough {
            if self.len >= buffer.len() {
                buffer.resize(buffer.len().saturating_mul(2).clamp(64, enough.max(64)), 0);
            }
            match reader.read(buffer.get_mut(self.len..).unwrap_or_default()) {
                Ok(0) => {
                    self.at_end = true;
                    return Ok(());
                }
                Ok(n) => self.len = self.len.saturating_add(n).min(buffer.len()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

//! A pool of buffers: streams that hold no data return theirs, streams that receive data take one.
//!
//! Most streams keep bytes only for a moment: until they are acknowledged and inspected. If each
//! kept its buffer, thousands of idle connections would hold megabytes of unused memory. So a store
//! returns its buffers to the pool when it is empty and takes them from the pool when data arrives;
//! the few in use stay in the processor's caches.
//!
//! Many streams keep little for long, such as a request without its answer. So there are buffers of several sizes, each twice
//! the one before: a stream gets one that is just large enough, and a larger one when more comes.

use super::store::Segment;
use crate::limits::{
    BUFFER_CAPACITY_KEPT, KEPT_BUFFERS, SEGMENT_CAPACITY_KEPT, SMALL_BUFFER_BYTES,
};
use std::collections::VecDeque;

/// How many sizes there are.
const SIZES: usize = (BUFFER_CAPACITY_KEPT / SMALL_BUFFER_BYTES).trailing_zeros() as usize + 1;

/// The buffers of one store. In the pool they are empty and only their capacity matters.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) run: Vec<u8>,
    pub(super) segments: VecDeque<Segment>,
}

impl Buffers {
    fn new(room: usize) -> Buffers {
        Buffers { run: Vec::with_capacity(room), segments: VecDeque::new() }
    }
}

/// Free buffers, and working space that stores share.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    /// By size, the smallest first.
    free: [Vec<Buffers>; SIZES],
    /// Working space for overlaps.
    pub(super) overlaps: Vec<u8>,
    /// Segments and islands that stores have examined so far.
    pub(super) steps: u64,
}

/// The smallest size with room for that many bytes: its number and its bytes; nothing where none is that large.
#[inline]
fn size_for(bytes: usize) -> Option<(usize, usize)> {
    let room = bytes.max(SMALL_BUFFER_BYTES).checked_next_power_of_two()?;
    let number = (room / SMALL_BUFFER_BYTES).trailing_zeros() as usize;
    (number < SIZES).then_some((number, room))
}

impl BufferPool {
    /// Segments and islands that stores have examined so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Buffers for a store whose first bytes are that many.
    #[inline]
    pub(super) fn acquire(&mut self, bytes: usize) -> Buffers {
        let (number, room) = size_for(bytes).unwrap_or((SIZES - 1, bytes));
        self.free[number].pop().unwrap_or_else(|| Buffers::new(room))
    }

    /// Moves what a buffer holds to a larger one with room for that many bytes. None is larger than those that are kept: then
    /// the buffer grows by itself.
    pub(super) fn enlarge(&mut self, run: &mut Vec<u8>, bytes: usize) {
        let Some((number, room)) = size_for(bytes) else { return };
        let mut other = self.free[number].pop().unwrap_or_else(|| Buffers::new(room));
        other.run.extend_from_slice(run);
        std::mem::swap(run, &mut other.run);
        other.run.clear();
        self.release(other);
    }

    /// Keeps the buffers, unless there are enough or they are large.
    #[inline]
    pub(super) fn release(&mut self, buffers: Buffers) {
        let room = buffers.run.capacity();
        if room < SMALL_BUFFER_BYTES || buffers.segments.capacity() > SEGMENT_CAPACITY_KEPT {
            return;
        }
        // One that grew by itself counts as one of the size below its own.
        let number = (room / SMALL_BUFFER_BYTES).ilog2() as usize;
        if room <= BUFFER_CAPACITY_KEPT
            && let Some(kept) = self.free.get_mut(number)
            && kept.len() < KEPT_BUFFERS
        {
            kept.push(buffers);
        }
    }
}

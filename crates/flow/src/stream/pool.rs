//! A pool of buffers: streams that hold no data return theirs, streams that receive data take one.
//!
//! Most streams keep bytes only for a moment: until they are acknowledged and inspected. If each
//! kept its buffer, thousands of idle connections would hold megabytes of unused memory. So a store
//! returns its buffers to the pool when it is empty and takes them from the pool when data arrives;
//! the few in use stay in the processor's caches.
//!
//! Many streams keep little for long, such as a request without its answer. They get small buffers, and a larger one when
//! more comes; else large buffers with little in them would stay with such streams.

use super::store::Segment;
use crate::limits::{
    BUFFER_CAPACITY_KEPT, KEPT_BUFFERS, SEGMENT_CAPACITY_KEPT, SMALL_BUFFER_BYTES,
};
use std::collections::VecDeque;

/// The buffers of one store. In the pool they are empty and only their capacity matters.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    pub(super) run: Vec<u8>,
    pub(super) segments: VecDeque<Segment>,
}

impl Buffers {
    fn small() -> Buffers {
        Buffers { run: Vec::with_capacity(SMALL_BUFFER_BYTES), segments: VecDeque::new() }
    }
}

/// Free buffers, and working space that stores share.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    /// Those of at most [`SMALL_BUFFER_BYTES`].
    small: Vec<Buffers>,
    /// Larger ones.
    large: Vec<Buffers>,
    /// Working space for overlaps.
    pub(super) overlaps: Vec<u8>,
    /// Segments and islands that stores have examined so far.
    pub(super) steps: u64,
}

impl BufferPool {
    /// Segments and islands that stores have examined so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Buffers for a store whose first bytes are that many.
    #[inline]
    pub(super) fn acquire(&mut self, bytes: usize) -> Buffers {
        if bytes <= SMALL_BUFFER_BYTES {
            return self.small.pop().unwrap_or_else(Buffers::small);
        }
        self.large.pop().unwrap_or_default()
    }

    /// Moves what a buffer holds to a larger one, if there is one with that much room.
    pub(super) fn enlarge(&mut self, run: &mut Vec<u8>, bytes: usize) {
        if self.large.last().is_some_and(|large| large.run.capacity() >= bytes)
            && let Some(mut other) = self.large.pop()
        {
            other.run.extend_from_slice(run);
            std::mem::swap(run, &mut other.run);
            other.run.clear();
            self.release(other);
        }
    }

    /// Keeps the buffers, unless there are enough or they are large.
    #[inline]
    pub(super) fn release(&mut self, buffers: Buffers) {
        let room = buffers.run.capacity();
        if room == 0
            || room > BUFFER_CAPACITY_KEPT
            || buffers.segments.capacity() > SEGMENT_CAPACITY_KEPT
        {
            return;
        }
        let is_small = room <= SMALL_BUFFER_BYTES;
        let kept = if is_small { &mut self.small } else { &mut self.large };
        if kept.len() < KEPT_BUFFERS {
            kept.push(buffers);
        }
    }
}

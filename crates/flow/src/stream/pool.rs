//! A pool of buffers: streams that hold no data return theirs, streams that receive data take one.
//!
//! Most streams keep bytes only for a moment: until they are acknowledged and inspected. If each
//! kept its buffer, thousands of idle connections would hold megabytes of unused memory. So a store
//! returns its buffers to the pool when it is empty and takes them from the pool when data arrives;
//! the few in use stay in the processor's caches.

use super::store::Segment;
use crate::limits::{BUFFER_CAPACITY_KEPT, KEPT_BUFFERS, SEGMENT_CAPACITY_KEPT};
use std::collections::VecDeque;

/// The buffers of one store. In the pool they are empty and only their capacity matters.
#[derive(Debug)]
pub(super) struct Buffers {
    pub(super) run: Vec<u8>,
    pub(super) segments: VecDeque<Segment>,
}

/// Free buffers, and working space that stores share.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    free: Vec<Buffers>,
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
}

impl BufferPool {
    #[inline]
    pub(super) fn acquire(&mut self) -> Option<Buffers> {
        self.free.pop()
    }

    /// Keeps the buffers, unless there are enough or they are large.
    #[inline]
    pub(super) fn release(&mut self, buffers: Buffers) {
        let is_usual = buffers.run.capacity() <= BUFFER_CAPACITY_KEPT
            && buffers.run.capacity() > 0
            && buffers.segments.capacity() <= SEGMENT_CAPACITY_KEPT;
        if is_usual && self.free.len() < KEPT_BUFFERS {
            self.free.push(buffers);
        }
    }
}

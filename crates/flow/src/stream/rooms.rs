//! Buffers of streams that keep nothing at the moment, for those that get something to keep.
//!
//! Most streams keep bytes for a moment only: until they are acknowledged and inspected. Were each
//! to hold on to its buffer, thousands of idle connections would hold megabytes of nothing. So a
//! store gives its buffers here when it is empty and takes them from here when data comes; the few
//! in use stay in the processor's caches.

use super::store::Segment;
use crate::limits::{KEPT_BUFFER, KEPT_ROOMS, KEPT_SEGMENTS};
use std::collections::VecDeque;

/// What a store needs to keep data: empty, its capacity is what counts.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) run: Vec<u8>,
    pub(super) segments: VecDeque<Segment>,
}

/// Rooms to be had, and working space that stores share.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    free: Vec<Room>,
    /// For overlaps.
    pub(super) overlaps: Vec<u8>,
    /// Segments and islands that stores have looked at so far.
    pub(super) steps: u64,
}

impl Rooms {
    /// Segments and islands that stores have looked at so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }
}

impl Rooms {
    #[inline]
    pub(super) fn take(&mut self) -> Option<Room> {
        self.free.pop()
    }

    /// Keeps a room, unless there are enough or it is large.
    #[inline]
    pub(super) fn give(&mut self, room: Room) {
        let is_usual = room.run.capacity() <= KEPT_BUFFER
            && room.run.capacity() > 0
            && room.segments.capacity() <= KEPT_SEGMENTS;
        if is_usual && self.free.len() < KEPT_ROOMS {
            self.free.push(room);
        }
    }
}

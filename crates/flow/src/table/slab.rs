//! Where the flows of a table are: parts of the same size, which are never moved. A vector that doubles would copy all flows,
//! and hold them twice for that moment, when there are most of them.

use super::Flow;
use crate::prefetch;

/// Flows of a part: a power of two, some 200 KiB.
const PART: usize = 256;

/// A part: free positions hold nothing.
type Part<T> = Box<[Option<Flow<T>>; PART]>;

/// Flows by their positions.
#[derive(Debug)]
pub(super) struct Slab<T> {
    parts: Vec<Part<T>>,
    /// Positions given so far.
    len: usize,
}

impl<T> Slab<T> {
    pub(super) fn new() -> Slab<T> {
        Slab { parts: Vec::new(), len: 0 }
    }

    /// Positions given so far, free ones counted.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The flow at a position.
    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&Flow<T>> {
        let at = at as usize;
        self.parts.get(at / PART)?[at % PART].as_ref()
    }

    /// The flow at a position.
    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Flow<T>> {
        let at = at as usize;
        self.parts.get_mut(at / PART)?[at % PART].as_mut()
    }

    /// Asks for the memory of the flow at a position.
    #[inline]
    pub(super) fn prefetch(&self, at: u32) {
        let at = at as usize;
        if let Some(part) = self.parts.get(at / PART) {
            prefetch::lines(&part[at % PART]);
        }
    }

    /// Puts a flow at a position that is free.
    pub(super) fn put(&mut self, at: u32, flow: Flow<T>) {
        let at = at as usize;
        if let Some(part) = self.parts.get_mut(at / PART) {
            part[at % PART] = Some(flow);
        }
    }

    /// Puts a flow at a new position.
    pub(super) fn push(&mut self, flow: Flow<T>) -> u32 {
        if self.len == self.parts.len() * PART {
            let part: Box<[Option<Flow<T>>]> = (0..PART).map(|_| None).collect();
            if let Ok(part) = part.try_into() {
                self.parts.push(part);
            }
        }
        let at = self.len as u32;
        self.len += 1;
        self.put(at, flow);
        at
    }

    /// Takes the flow out of a position.
    pub(super) fn take_flow(&mut self, at: u32) -> Option<Flow<T>> {
        let at = at as usize;
        self.parts.get_mut(at / PART)?[at % PART].take()
    }

    /// All flows with their positions.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Flow<T>)> {
        let all = self.parts.iter().flat_map(|part| part.iter());
        all.enumerate().filter_map(|(at, flow)| flow.as_ref().map(|flow| (at as u32, flow)))
    }
}

//! The reader of a ring of the kernel (`BPF_MAP_TYPE_RINGBUF`).
//!
//! A program in the kernel reads the reader's position each time it reserves space. The loader's own reader stores it
//! after each record, so that this line of the cache moves between the CPUs with each call of a busy program. Here it is
//! stored once for many records.
//!
//! Layout (the kernel's documentation, "BPF ring buffer"): a page with the reader's position, a page with the writers',
//! then the data, mapped twice one after the other, so that no record is torn. A record has a head of 8 bytes: its
//! length with two flags, and a word for the kernel; it begins at a multiple of 8.

use crate::Error;
use crate::limits::RING_SHARE_BYTES;
use crate::refusal;
use aya::maps::MapData;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

const HEAD_BYTES: usize = 8;
/// The record is being written.
const BUSY: u32 = 1 << 31;
/// The writer discarded the record.
const DISCARDED: u32 = 1 << 30;

/// What one reading of a ring found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The ring has no further record that is complete.
    Empty,
    /// The receiver refused further records of this reading.
    Stopped,
}

/// A mapped region of a ring.
struct Region {
    memory: *mut c_void,
    bytes: usize,
}

impl Region {
    fn new(map: &MapData, at: usize, bytes: usize, access: ProtFlags) -> Result<Self, Error> {
        let fd = map.fd().as_fd();
        // SAFETY: a new shared map at an address of the kernel's choice touches no memory that Rust knows.
        let memory =
            unsafe { mmap(std::ptr::null_mut(), bytes, access, MapFlags::SHARED, fd, at as u64) };
        let memory = memory.map_err(|e| refusal::io_error("ring", &e.into()))?;
        Ok(Self { memory, bytes })
    }

    /// The position at the beginning of the region.
    fn position(&self) -> &AtomicUsize {
        // SAFETY: the region begins with a page whose first word is a position; it is aligned, lives as long as `self`,
        // and is only accessed as an atomic word, here and by the kernel.
        unsafe { self.memory.cast::<AtomicUsize>().as_ref_unchecked() }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: `new` made the map with this address and size, and no reference to it outlives `self`.
        let _ = unsafe { munmap(self.memory, self.bytes) };
    }
}

/// A ring and how far it was read.
pub(crate) struct Ring {
    own: Region,
    /// The writers' position, then the data.
    data: Region,
    page: usize,
    size: usize,
    /// The next record.
    next: usize,
    /// The position that the kernel knows.
    stored: usize,
    /// Kept for as long as the regions are mapped.
    _map: MapData,
}

// SAFETY: positions are atomic words, and data is read only below the writers' position; one thread reads at a time, since
// reading takes `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of `size` bytes, a power of two.
    ///
    /// # Errors
    /// The kernel's answer.
    pub(crate) fn new(map: MapData, size: usize) -> Result<Self, Error> {
        let page = rustix::param::page_size();
        let own = Region::new(&map, 0, page, ProtFlags::READ | ProtFlags::WRITE)?;
        let data = Region::new(&map, page, page + 2 * size, ProtFlags::READ)?;
        let next = own.position().load(Ordering::Acquire);
        Ok(Self { own, data, page, size, next, stored: next, _map: map })
    }

    /// Gives the complete records to `sink`, the oldest first, until there are no more or `sink` answers that it wants no
    /// further one. Their space is free again at the end, and meanwhile in shares of an eighth of the ring at most.
    pub(crate) fn read_records(&mut self, sink: &mut dyn FnMut(&[u8]) -> bool) -> Reading {
        let share = (self.size / 8).min(RING_SHARE_BYTES);
        let end = self.data.position().load(Ordering::Acquire);
        let mut reading = Reading::Empty;
        while self.next != end {
            let head = self.head();
            if head & BUSY != 0 {
                break;
            }
            let length = (head & !(BUSY | DISCARDED)) as usize;
            let wants_more = head & DISCARDED != 0 || sink(self.record(length));
            self.next = self.next.wrapping_add((HEAD_BYTES + length).next_multiple_of(8));
            if self.next.wrapping_sub(self.stored) >= share {
                self.store_position();
            }
            if !wants_more {
                reading = Reading::Stopped;
                break;
            }
        }
        if self.next != self.stored {
            self.store_position();
        }
        reading
    }

    /// Has the kernel know that everything before the next record was read.
    fn store_position(&mut self) {
        self.stored = self.next;
        self.own.position().store(self.next, Ordering::Release);
    }

    /// The first word of the next record's head.
    fn head(&self) -> u32 {
        let at = self.page + (self.next & (self.size - 1));
        // SAFETY: the region has a page and twice `size` bytes; the head begins within the first `size` of them, at a
        // multiple of 8. The kernel writes it as a whole word.
        let word = unsafe { self.data.memory.byte_add(at).cast::<AtomicU32>().as_ref_unchecked() };
        // The kernel clears the flag after the record is written.
        word.load(Ordering::Acquire)
    }

    /// The bytes of the next record; no more than the ring can have.
    fn record(&self, length: usize) -> &[u8] {
        let at = self.page + (self.next & (self.size - 1)) + HEAD_BYTES;
        let length = length.min(self.size - HEAD_BYTES);
        // SAFETY: the record begins within the first `size` bytes of data and is shorter than `size`, so that it ends in
        // the second map of them. The kernel does not write it before `store_position` has passed it.
        unsafe { std::slice::from_raw_parts(self.data.memory.byte_add(at).cast::<u8>(), length) }
    }
}

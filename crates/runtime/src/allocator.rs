//! The default allocator, mimalloc: when it gives memory back to the system. For tests, one that counts.
#![allow(
    unsafe_code,
    reason = "options of mimalloc are set by its C functions, and an allocator is unsafe to implement"
)]

use crate::limits::FREE_PAGES_KEPT_MS;
use libmimalloc_sys::{mi_collect, mi_option_set, mi_option_t};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// `mi_option_purge_delay` of mimalloc 3 (`mimalloc.h`), which the crate has no name for.
const PURGE_DELAY: mi_option_t = 15;

/// Memory that is free goes back to the system within a twentieth of a second, not after a second, mimalloc's own
/// delay. Where several threads take and free memory, each keeps what was free of it in the last second: with four
/// workers over flows that was some 50 MiB more, for no gain in speed. To be called before those threads are started;
/// another allocator is not changed by it.
pub fn give_back_soon() {
    // SAFETY: the function stores a number in a table of mimalloc's own, whose length it checks; it may be called at
    // any time, from any thread.
    unsafe { mi_option_set(PURGE_DELAY, FREE_PAGES_KEPT_MS) }
}

/// Returns free memory of this thread, and of threads that have ended, to the system. It is called at the end of work that
/// took much memory for a while, such as a load of rules, and takes some milliseconds. It changes no other allocator.
pub fn return_free_memory() {
    // SAFETY: the function may be called at any time, from any thread.
    unsafe { mi_collect(true) }
}

/// The system's allocator, which counts what each thread asks for: for tests that a warm loop asks for nothing.
#[derive(Debug)]
pub struct CountingAllocator;

thread_local! {
    static ASKED: Cell<u64> = const { Cell::new(0) };
}

impl CountingAllocator {
    /// How often this thread asked for memory.
    #[must_use]
    pub fn count() -> u64 {
        ASKED.with(Cell::get)
    }

    fn add() {
        // While a thread ends its counter may be gone.
        let _ = ASKED.try_with(|asked| asked.set(asked.get() + 1));
    }
}

// SAFETY: all calls go to the system's allocator with the same arguments; the counter allocates nothing.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CountingAllocator::add();
        // SAFETY: the caller keeps the conditions of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the conditions of `dealloc`; the memory came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CountingAllocator::add();
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number is that of the option: it has mimalloc's default first, and what was set afterwards.
    #[test]
    fn the_option_is_the_delay() {
        // SAFETY: as above; it reads that number.
        let get = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(get(), 1000);
        give_back_soon();
        assert_eq!(get(), FREE_PAGES_KEPT_MS);
    }
}

//! The default allocator, mimalloc: when it gives memory back to the system.
#![allow(unsafe_code, reason = "options of mimalloc are set by its C functions")]

use crate::limits::FREE_PAGES_KEPT_MS;
use libmimalloc_sys::{mi_option_set, mi_option_t};

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

//! The signing seed's memory, which the system is asked to keep out of swap.
//!
//! Locking all memory of a process needs a limit (`RLIMIT_MEMLOCK`) that few have. Locking one page does not:
//! so the seed has a place of its own that does not move. The key that the cryptographic library derives
//! from it lies in that library's memory and can't be locked from here; it is of one epoch, the seed of all
//! that follow.

use std::sync::atomic::{AtomicBool, Ordering};
use zeroize::Zeroizing;

/// Whether the system refused to lock a seed since the process began.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// A seed at a fixed, locked place; wiped when it is dropped.
#[derive(Debug)]
pub(crate) struct Seed(Box<Zeroizing<[u8; 32]>>);

impl Seed {
    /// Takes a seed. When its page can't be locked it is kept all the same, and `is_refused` says so.
    #[must_use]
    pub(crate) fn new(bytes: Zeroizing<[u8; 32]>) -> Seed {
        let seed = Seed(Box::new(bytes));
        if !lock(seed.0.as_slice()) {
            IS_REFUSED.store(true, Ordering::Relaxed);
        }
        seed
    }

    /// Its bytes.
    #[must_use]
    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// Whether the system would lock a seed's page, and refused none so far.
#[must_use]
pub(crate) fn is_lockable() -> bool {
    drop(Seed::new(Zeroizing::new([0; 32])));
    !IS_REFUSED.load(Ordering::Relaxed)
}

/// Locks the pages of these bytes. They stay locked when the bytes are gone: the allocator may have put
/// another seed next to them.
#[allow(unsafe_code, reason = "named in ARCHITECTURE.md")]
fn lock(bytes: &[u8]) -> bool {
    // SAFETY: the range is a live borrowed slice, and locking changes no byte of it.
    unsafe { rustix::mm::mlock(bytes.as_ptr().cast_mut().cast(), bytes.len()) }.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_keeps_its_bytes_and_its_place_when_it_is_moved() {
        let seed = Seed::new(Zeroizing::new([7; 32]));
        let place = seed.bytes().as_ptr();
        let moved = [seed];
        assert_eq!((moved[0].bytes(), moved[0].bytes().as_ptr()), (&[7; 32], place));
    }
}

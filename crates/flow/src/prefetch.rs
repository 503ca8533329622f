//! Memory that the next steps need, asked for at once: what a packet's flow keeps is spread over some 25 lines of the cache,
//! and where many flows are open none of them is near the processor.
#![allow(unsafe_code, reason = "the processor's hint to load a line is an intrinsic")]

/// Bytes of a line of the cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Asks for all lines of a value, without waiting for them.
#[inline]
pub(crate) fn lines<T>(of: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(of).cast::<i8>();
        for at in (0..size_of::<T>()).step_by(LINE) {
            // SAFETY: the place is inside the value; a prefetch reads nothing that the program could see.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(at)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = of;
}

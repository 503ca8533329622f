//! The bytes of a capture, shared between threads, and the frames in them.
//!
//! The bytes of files and streams are kept in blocks, those of an interface are in blocks of its ring. All have one
//! type, so that a list of [`FrameRef`]s works with any. A file is not mapped: if another program shortened it, the
//! process would get SIGBUS.
//!
//! `unsafe` stands here for cache prefetching.

use std::ops::Deref;

use crate::live::RingBlock;

/// One frame as it was on the link, borrowed from the capture's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Nanoseconds since the epoch; 0 if the format has no time (pcapng's simple packets).
    pub ts_ns: u64,
    /// Length of the frame on the wire; more than `data` has if a snap length cut it.
    pub wire_len: u32,
    /// LINKTYPE number (tcpdump.org's registry).
    pub link: u16,
    /// Interface number within its pcapng section; 0 in pcap.
    pub interface: u16,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// A frame by its position in a [`CaptureBytes`]: 32 plain bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRef {
    /// Nanoseconds since the epoch.
    pub ts_ns: u64,
    /// Offset of its captured bytes in the [`CaptureBytes`].
    pub offset: u64,
    /// Captured bytes.
    pub len: u32,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// LINKTYPE number.
    pub link: u16,
    /// Interface number.
    pub interface: u16,
    /// Its checksums are not filled in yet: a sender on this host leaves that to the interface.
    pub has_no_checksums: bool,
}

impl FrameRef {
    /// The frame itself. A reference that does not belong to these bytes returns an empty frame.
    #[inline]
    pub fn frame<'a>(&self, bytes: &'a [u8]) -> Frame<'a> {
        let start = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(self.len as usize);
        Frame {
            ts_ns: self.ts_ns,
            wire_len: self.wire_len,
            link: self.link,
            interface: self.interface,
            data: bytes.get(start..end).unwrap_or_default(),
        }
    }

    /// Number of bytes of this frame that are not in the capture.
    #[inline]
    pub const fn cut(&self) -> u32 {
        self.wire_len.saturating_sub(self.len)
    }
}

/// The bytes of a whole capture, or of a block of one. Share it with `Arc`.
#[derive(Debug)]
pub struct CaptureBytes(Kind);

#[derive(Debug)]
enum Kind {
    /// The buffer keeps its full length between uses, so that reuse need not clear it.
    Block {
        buffer: Vec<u8>,
        len: usize,
    },
    Ring(RingBlock),
}

impl CaptureBytes {
    /// Bytes in memory.
    pub fn from_vec(buffer: Vec<u8>) -> CaptureBytes {
        let len = buffer.len();
        CaptureBytes(Kind::Block { buffer, len })
    }

    /// A block of a ring, which returns to the kernel when this is dropped.
    pub(crate) fn from_ring(block: RingBlock) -> CaptureBytes {
        CaptureBytes(Kind::Ring(block))
    }

    /// A block whose first `len` bytes are valid.
    pub(crate) fn block(buffer: Vec<u8>, len: usize) -> CaptureBytes {
        let len = len.min(buffer.len());
        CaptureBytes(Kind::Block { buffer, len })
    }

    /// The buffer of a block, for reuse; `None` if this is a block of a ring.
    pub(crate) fn into_buffer(self) -> Option<Vec<u8>> {
        match self.0 {
            Kind::Ring(_) => None,
            Kind::Block { buffer, .. } => Some(buffer),
        }
    }
}

impl Deref for CaptureBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Block { buffer, len } => buffer.get(..*len).unwrap_or_default(),
            Kind::Ring(block) => block.bytes(),
        }
    }
}

/// Prefetches the cache line at `at`.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint; the processor ignores it for any address that is not
        // mapped, so `at` may lie anywhere.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at).cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_small_and_bounded() {
        assert_eq!(std::mem::size_of::<FrameRef>(), 32);
        let bytes = CaptureBytes::from_vec(vec![1, 2, 3, 4]);
        let r = FrameRef { offset: 1, len: 2, wire_len: 9, ..FrameRef::default() };
        assert_eq!(r.frame(&bytes).data, [2, 3]);
        assert_eq!(r.cut(), 7);
        for (offset, len) in [(3, 2), (u64::MAX, 1), (4, 1), (u64::MAX, u32::MAX)] {
            let r = FrameRef { offset, len, ..FrameRef::default() };
            assert_eq!(r.frame(&bytes).data, []);
        }
    }

    #[test]
    fn a_block_shows_only_what_was_filled() {
        assert_eq!(&*CaptureBytes::block(vec![7; 8], 3), [7, 7, 7]);
        assert_eq!(CaptureBytes::block(vec![7; 8], 9).len(), 8);
    }
}

//! The bytes of a capture, shared between threads, and the frames in them.
//!
//! A file is mapped; what comes from a stream is kept in blocks. Both are one type, so that a
//! list of [`FrameRef`]s means the same over either.
//!
//! All `unsafe` of this crate is here: mapping, advice about the map, and cache prefetching. The
//! risk of mapping is known: if another program truncates the file
//! while it is read, the process gets SIGBUS. Sources that may shrink are to be opened with
//! [`OpenOptions::map`](crate::OpenOptions) off.

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};

use memmap2::{Advice, Mmap, UncheckedAdvice};

/// One frame as on the link, borrowed from the capture's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Nanoseconds since the epoch; 0 where the format holds no time (pcapng's simple packets).
    pub ts_ns: u64,
    /// Bytes the frame had on the wire; more than `data` holds when a snap length cut it.
    pub wire_len: u32,
    /// LINKTYPE number (tcpdump.org's registry).
    pub link: u16,
    /// Interface number within its pcapng section; 0 in pcap.
    pub interface: u16,
    /// The captured bytes.
    pub data: &'a [u8],
}

/// A frame by its place in a [`CaptureBytes`]: 32 plain bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRef {
    /// Nanoseconds since the epoch.
    pub ts_ns: u64,
    /// Where its captured bytes begin in the bytes that it belongs to.
    pub offset: u64,
    /// Captured bytes.
    pub len: u32,
    /// Bytes on the wire.
    pub wire_len: u32,
    /// LINKTYPE number.
    pub link: u16,
    /// Interface number.
    pub interface: u16,
}

impl FrameRef {
    /// The frame itself. A reference that does not belong to these bytes gives an empty frame.
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

    /// Bytes that the capture does not hold of this frame.
    #[inline]
    pub const fn cut(&self) -> u32 {
        self.wire_len.saturating_sub(self.len)
    }
}

/// The bytes of a whole mapped file, or of a block of a stream. Made to be shared by `Arc`.
#[derive(Debug)]
pub struct CaptureBytes(Kind);

#[derive(Debug)]
enum Kind {
    Map(Mmap),
    /// The buffer keeps its full length between uses, so that reuse need not clear it.
    Block {
        buffer: Vec<u8>,
        len: usize,
    },
}

impl CaptureBytes {
    /// Maps a regular file. Advice is given to read ahead.
    ///
    /// # Errors
    /// What the system says.
    pub fn map(file: &File) -> io::Result<CaptureBytes> {
        // SAFETY: the map is read-only and private to this type; bytes that another program
        // changes beneath it are only ever read as plain integers with bounds checked each time.
        // Truncation by another program raises SIGBUS, which the opening of this file states.
        let map = unsafe { Mmap::map(file)? };
        // Advice may be refused by the file system; reading works without it.
        let _ = map.advise(Advice::Sequential);
        Ok(CaptureBytes(Kind::Map(map)))
    }

    /// Bytes in memory.
    pub fn from_vec(buffer: Vec<u8>) -> CaptureBytes {
        let len = buffer.len();
        CaptureBytes(Kind::Block { buffer, len })
    }

    /// A block whose first `len` bytes count.
    pub(crate) fn block(buffer: Vec<u8>, len: usize) -> CaptureBytes {
        let len = len.min(buffer.len());
        CaptureBytes(Kind::Block { buffer, len })
    }

    /// The buffer of a block, for reuse; nothing if this is a map.
    pub(crate) fn into_buffer(self) -> Option<Vec<u8>> {
        match self.0 {
            Kind::Map(_) => None,
            Kind::Block { buffer, .. } => Some(buffer),
        }
    }

    /// Tells the kernel that a range of a map is done with, so that a large capture does not
    /// count as memory of this process. Whoever reads the range again gets the same bytes, later.
    pub fn release(&self, range: Range<usize>) {
        if let Kind::Map(map) = &self.0 {
            let end = range.end.min(map.len());
            let Some(len) = end.checked_sub(range.start).filter(|len| *len > 0) else { return };
            // SAFETY: the map is a shared read-only one of a file: pages given up are read from
            // the file again at the next touch, so no reference into the map changes its value.
            let _ =
                unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, len) };
        }
    }
}

impl Deref for CaptureBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Map(map) => map,
            Kind::Block { buffer, len } => buffer.get(..*len).unwrap_or_default(),
        }
    }
}

/// Asks the cache for the line at `at`, if there is one.
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

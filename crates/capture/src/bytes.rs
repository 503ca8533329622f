//! The bytes of a capture, shared between threads, and the frames in them.
//!
//! The bytes of files and streams are kept in blocks; a file can be mapped instead. Both have one type, so that a list
//! of [`FrameRef`]s works with either.
//!
//! `unsafe` stands here for mapping, advice about the map, and cache prefetching. The
//! risk of mapping is known: if another program truncates the file while it is read, the process
//! gets SIGBUS. Nothing of this project maps a capture; who embeds the crate can ([`OpenOptions::map`](crate::OpenOptions)).

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits;
use crate::live::RingBlock;
use memmap2::{Advice, Mmap, UncheckedAdvice};

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

/// The bytes of a whole mapped file, or of a block of a stream. Share it with `Arc`.
#[derive(Debug)]
pub struct CaptureBytes(Kind);

#[derive(Debug)]
enum Kind {
    Map {
        map: Mmap,
        /// Offset up to which those who read the frames have released pages.
        released: AtomicUsize,
    },
    /// The buffer keeps its full length between uses, so that reuse need not clear it.
    Block {
        buffer: Vec<u8>,
        len: usize,
    },
    Ring(RingBlock),
}

impl CaptureBytes {
    /// Maps a regular file and advises the kernel to read ahead.
    ///
    /// # Errors
    /// The error of the system call.
    pub fn map(file: &File) -> io::Result<CaptureBytes> {
        // SAFETY: the map is read-only and private to this type; bytes that another program changes
        // beneath it are only ever read as plain integers with bounds checked each time. Truncation
        // by another program raises SIGBUS, as the documentation of this module warns.
        let map = unsafe { Mmap::map(file)? };
        // Advice may be refused by the file system; reading works without it.
        let _ = map.advise(Advice::Sequential);
        Ok(CaptureBytes(Kind::Map { map, released: AtomicUsize::new(0) }))
    }

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

    /// The buffer of a block, for reuse; `None` if this is a map.
    pub(crate) fn into_buffer(self) -> Option<Vec<u8>> {
        match self.0 {
            Kind::Map { .. } | Kind::Ring(_) => None,
            Kind::Block { buffer, .. } => Some(buffer),
        }
    }

    /// Releases the pages of a range of a map, so that a large capture does not count as memory of
    /// this process. A later read of the range returns the same bytes, but more slowly.
    pub fn release(&self, range: Range<usize>) {
        if let Kind::Map { map, .. } = &self.0 {
            let end = range.end.min(map.len());
            let Some(len) = end.checked_sub(range.start).filter(|len| *len > 0) else { return };
            // SAFETY: the map is a shared read-only one of a file: released pages are read from the
            // file again at the next access, so no reference into the map changes its value.
            let _ =
                unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, len) };
        }
    }

    /// Releases the pages before `end`, which no thread reads any more, once they are a step
    /// ([`limits::MAP_RELEASE_STEP`]) or more. A program that shares frames between threads calls it when the last
    /// thread is done with them; its reader then releases nothing ([`Source::keep_pages`](crate::Source::keep_pages)).
    pub fn release_until(&self, end: usize) {
        let Kind::Map { released, .. } = &self.0 else { return };
        let from = released.load(Ordering::Relaxed);
        // If another thread releases pages at this moment, the next call releases what is left.
        let is_step = end >= from.saturating_add(limits::MAP_RELEASE_STEP);
        if is_step
            && released.compare_exchange(from, end, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.release(from..end);
        }
    }
}

impl Deref for CaptureBytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Kind::Map { map, .. } => map,
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

    /// Kibibytes of the map at this address that are resident.
    #[cfg(target_os = "linux")]
    fn resident_kib(bytes: &[u8]) -> usize {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let begins = format!("{:x}-", bytes.as_ptr() as usize);
        let map = smaps.lines().skip_while(|line| !line.starts_with(&begins));
        let rss = map.skip(1).find_map(|line| line.strip_prefix("Rss:")).unwrap();
        rss.trim().trim_end_matches(" kB").trim().parse().unwrap()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pages_that_are_no_longer_used_are_released_in_steps() {
        const MIB: usize = 1 << 20;
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &vec![7; 8 * MIB]).unwrap();
        let bytes = CaptureBytes::map(&file).unwrap();
        assert_eq!(bytes.iter().map(|b| u64::from(*b)).sum::<u64>(), 7 * 8 * MIB as u64);
        assert_eq!(resident_kib(&bytes), 8 * 1024);
        bytes.release_until(limits::MAP_RELEASE_STEP - 1);
        assert_eq!(resident_kib(&bytes), 8 * 1024, "less than a step");
        // A large page that is released in part is no longer mapped at all.
        bytes.release_until(5 * MIB);
        let later = resident_kib(&bytes);
        assert!((1024..=3 * 1024).contains(&later), "{later}");
        // What is read after its release has the same bytes, and stays.
        assert_eq!(bytes[MIB], 7);
        bytes.release_until(5 * MIB);
        let read_again = resident_kib(&bytes);
        assert!(read_again > later);
        bytes.release_until(8 * MIB);
        assert!(resident_kib(&bytes) < read_again);
    }

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

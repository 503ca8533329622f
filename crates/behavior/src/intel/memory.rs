//! Memory that is read at unpredictable places: on huge pages where the system has them.
//!
//! With pages of 4 KiB most of such reads first wait for the page table, which is as far away as the
//! memory itself. One page of 2 MiB stands for 512 of them, so that the processor knows them all.

#[cfg(feature = "huge-pages")]
use memmap2::MmapMut;

/// Bytes of one cache line, the unit that memory is had in.
pub(crate) const LINE: usize = 64;
/// Bytes from which on it is worth a map of its own: a few huge pages.
#[cfg(feature = "huge-pages")]
const MAP_MIN: usize = 4 << 20;

/// Cache lines, all zero at first, as many as they were made for.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Anonymous memory that huge pages were asked for before its first touch
    #[cfg(feature = "huge-pages")]
    Map(MmapMut),
    /// What the allocator gave: for little memory, and where a map is refused
    Kept(Vec<u8>),
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::Kept(Vec::new())
    }
}

impl Memory {
    /// This many cache lines of zeros.
    pub(crate) fn new(lines: usize) -> Memory {
        let len = lines.saturating_mul(LINE);
        #[cfg(feature = "huge-pages")]
        if len >= MAP_MIN
            && let Ok(map) = MmapMut::map_anon(len)
        {
            // Refused where the system has no huge pages: then it is memory as any other.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            return Memory::Map(map);
        }
        Memory::Kept(vec![0; len])
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        match self {
            #[cfg(feature = "huge-pages")]
            Memory::Map(map) => map,
            Memory::Kept(bytes) => bytes,
        }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            #[cfg(feature = "huge-pages")]
            Memory::Map(map) => map,
            Memory::Kept(bytes) => bytes,
        }
    }

    /// All of it, in pieces of N bytes.
    #[inline]
    pub(crate) fn pieces<const N: usize>(&self) -> &[[u8; N]] {
        self.bytes().as_chunks().0
    }

    /// All of it to be written, in pieces of N bytes.
    #[inline]
    pub(crate) fn pieces_mut<const N: usize>(&mut self) -> &mut [[u8; N]] {
        self.bytes_mut().as_chunks_mut().0
    }

    /// Bytes it takes.
    pub(crate) fn len(&self) -> usize {
        self.bytes().len()
    }
}

#[cfg(all(test, feature = "huge-pages"))]
mod tests {
    use super::*;

    #[test]
    fn little_and_much_memory_is_zero_and_keeps_what_is_written() {
        for lines in [0, 1, 100, MAP_MIN / LINE, MAP_MIN / LINE + 77] {
            let mut memory = Memory::new(lines);
            assert_eq!(memory.len(), lines * LINE);
            assert_eq!(matches!(memory, Memory::Map(_)), lines * LINE >= MAP_MIN);
            assert!(memory.pieces::<LINE>().iter().all(|line| *line == [0; LINE]));
            for (n, word) in memory.pieces_mut::<8>().iter_mut().enumerate() {
                *word = (n as u64).to_le_bytes();
            }
            let mut words = memory.pieces::<8>().iter().zip(0u64..);
            assert!(words.all(|(word, n)| u64::from_le_bytes(*word) == n));
            assert_eq!(memory.pieces::<LINE>().len(), lines);
        }
    }
}

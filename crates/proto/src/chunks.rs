//! The content of a file as its chunks come: in order, out of order, twice, or not at all. SMB and NFS send files
//! in this way.

use crate::files::{File, FileState};
use std::collections::BTreeMap;

/// What the configuration lets wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimits {
    /// Bytes; 0: any number.
    pub(crate) bytes_max: u32,
    /// Chunks; 0: any number.
    pub(crate) chunks_max: u32,
}

/// What is irregular about a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Irregular {
    /// It repeats what came before it.
    pub(crate) is_overlap: bool,
    /// With it too many bytes would wait.
    pub(crate) has_too_many_bytes: bool,
    /// With it too many chunks would wait.
    pub(crate) has_too_many_chunks: bool,
}

/// Where the bytes of the chunk at hand go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Target {
    /// Nowhere.
    #[default]
    Dropped,
    /// To the end of the file, after that many that are there already.
    Next { repeated: u64 },
    /// To those that wait.
    Waiting { offset: u64 },
}

/// A chunk that waits.
#[derive(Clone, Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Bytes that were lost: how many of those that are there come before them, and their number.
    losses: Vec<(usize, u64)>,
}

impl Waiting {
    fn bytes_held(&self) -> u64 {
        (self.bytes.len() + self.losses.len() * size_of::<(usize, u64)>()) as u64
    }

    /// Notes lost bytes after those that are there. Returns the bytes that it holds in addition.
    fn lose_bytes(&mut self, len: u64) -> u64 {
        let at = self.bytes.len();
        match self.losses.last_mut() {
            Some((place, lost)) if *place == at => {
                *lost = lost.saturating_add(len);
                0
            }
            _ => {
                self.losses.push((at, len));
                size_of::<(usize, u64)>() as u64
            }
        }
    }
}

/// The order of a file's chunks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chunks {
    /// Place of the first byte that has not come.
    next: u64,
    /// Chunks that wait for others before them, by place.
    waiting: BTreeMap<u64, Waiting>,
    waiting_bytes: u64,
    target: Target,
}

impl Chunks {
    /// Place of the first byte that has not come.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// A chunk of `len` bytes begins at that place of the file.
    pub(crate) fn begin_chunk(&mut self, offset: u64, len: u64, limits: QueueLimits) -> Irregular {
        let mut irregular = Irregular::default();
        self.target = if offset <= self.next {
            irregular.is_overlap = offset < self.next && len > 0;
            Target::Next { repeated: self.next - offset }
        } else {
            let bytes = self.waiting_bytes.saturating_add(len);
            let chunks = self.waiting.len() as u64 + 1;
            irregular.has_too_many_bytes =
                limits.bytes_max > 0 && bytes > u64::from(limits.bytes_max);
            irregular.has_too_many_chunks =
                limits.chunks_max > 0 && chunks > u64::from(limits.chunks_max);
            if irregular.has_too_many_bytes || irregular.has_too_many_chunks {
                Target::Dropped
            } else {
                Target::Waiting { offset }
            }
        };
        irregular
    }

    /// The next bytes of the chunk.
    pub(crate) fn add_bytes(&mut self, bytes: &[u8], file: &mut File) {
        match self.target {
            Target::Dropped => {}
            Target::Next { mut repeated } => {
                self.append(&mut repeated, bytes, file);
                self.target = Target::Next { repeated };
            }
            Target::Waiting { offset } => {
                self.waiting_bytes += bytes.len() as u64;
                self.waiting.entry(offset).or_default().bytes.extend_from_slice(bytes);
            }
        }
    }

    /// That many bytes of the chunk are lost.
    pub(crate) fn lose_bytes(&mut self, len: u64, file: &mut File) {
        match self.target {
            Target::Dropped => {}
            Target::Next { mut repeated } => {
                self.leave_gap(&mut repeated, len, file);
                self.target = Target::Next { repeated };
            }
            Target::Waiting { offset } => {
                self.waiting_bytes += self.waiting.entry(offset).or_default().lose_bytes(len);
            }
        }
    }

    /// The chunk is over: those that waited for it follow.
    pub(crate) fn end_chunk(&mut self, file: &mut File) {
        self.target = Target::Dropped;
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= self.next
        {
            let (offset, chunk) = entry.remove_entry();
            self.waiting_bytes = self.waiting_bytes.saturating_sub(chunk.bytes_held());
            let mut repeated = self.next - offset;
            let mut from = 0;
            for (at, lost) in chunk.losses {
                let before = chunk.bytes.get(from..at).unwrap_or_default();
                self.append(&mut repeated, before, file);
                self.leave_gap(&mut repeated, lost, file);
                from = at;
            }
            self.append(&mut repeated, chunk.bytes.get(from..).unwrap_or_default(), file);
        }
    }

    /// Adds bytes to the file, but those that are there already.
    fn append(&mut self, repeated: &mut u64, bytes: &[u8], file: &mut File) {
        let skip = usize::try_from(*repeated).unwrap_or(usize::MAX).min(bytes.len());
        *repeated -= skip as u64;
        let news = bytes.get(skip..).unwrap_or_default();
        file.append(news);
        self.next = self.next.saturating_add(news.len() as u64);
    }

    /// Leaves a gap in the file for lost bytes, but those that are there already.
    fn leave_gap(&mut self, repeated: &mut u64, len: u64, file: &mut File) {
        let skip = (*repeated).min(len);
        *repeated -= skip;
        if len > skip {
            file.gap(len - skip);
            self.next = self.next.saturating_add(len - skip);
        }
    }

    /// The file ends in that state, or cut if bytes of it were lost. What waits for bytes that did not come is
    /// dropped.
    pub(crate) fn close(&mut self, state: FileState, file: &mut File) {
        let has_hole = !self.waiting.is_empty();
        self.waiting = BTreeMap::new();
        self.waiting_bytes = 0;
        file.close(if file.has_gaps { FileState::Truncated } else { state });
        if has_hole {
            // What was there before the hole is not the file.
            file.forget_hashes();
        }
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        let waiting = usize::try_from(self.waiting_bytes).unwrap_or(usize::MAX);
        waiting.saturating_add(self.waiting.len() * size_of::<(u64, Waiting)>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::FileWants;
    use gabion_record::Direction;

    const LIMITS: QueueLimits = QueueLimits { bytes_max: 0, chunks_max: 0 };

    fn open() -> (Chunks, File) {
        let wants = FileWants { md5: true, sha256: true, content: true, ..FileWants::default() };
        (Chunks::default(), File::open(1, b"f", Direction::ToServer, wants))
    }

    /// Bytes that are lost in a chunk that waits leave a gap as those of any other chunk do (SMB and NFS in
    /// Suricata 8.0.7: 100 bytes after a chunk of 5,000 of which 400 were lost give 5,100 bytes, `TRUNCATED`,
    /// `gaps`, without MD5).
    #[test]
    fn bytes_lost_in_a_waiting_chunk_leave_a_gap() {
        for losses in [&[400][..], &[100, 300]] {
            let (mut chunks, mut file) = open();
            chunks.begin_chunk(100, 5000, LIMITS);
            chunks.add_bytes(&[b'b'; 4200], &mut file);
            losses.iter().for_each(|len| chunks.lose_bytes(*len, &mut file));
            chunks.add_bytes(&[b'c'; 400], &mut file);
            chunks.end_chunk(&mut file);
            assert_eq!((file.size, file.has_gaps), (0, false));
            chunks.begin_chunk(0, 100, LIMITS);
            chunks.add_bytes(&[b'a'; 100], &mut file);
            chunks.end_chunk(&mut file);
            assert_eq!(chunks.bytes_held(), 0);
            chunks.close(FileState::Closed, &mut file);
            assert_eq!((file.size, file.has_gaps), (5100, true));
            assert_eq!((file.state, file.digests().md5), (FileState::Truncated, None));
            let content = [vec![b'a'; 100], vec![b'b'; 4200], vec![b'c'; 400]].concat();
            assert_eq!(file.content(), (&content[..], 0));
        }
    }

    /// Only what lies behind the bytes that are there counts as lost.
    #[test]
    fn losses_of_what_is_there_are_none() {
        let (mut chunks, mut file) = open();
        chunks.begin_chunk(2, 6, LIMITS);
        chunks.lose_bytes(2, &mut file);
        chunks.add_bytes(b"efgh", &mut file);
        chunks.end_chunk(&mut file);
        chunks.begin_chunk(0, 4, LIMITS);
        chunks.add_bytes(b"abcd", &mut file);
        chunks.end_chunk(&mut file);
        chunks.close(FileState::Closed, &mut file);
        assert_eq!((file.size, file.has_gaps, file.state), (8, false, FileState::Closed));
        assert_eq!(file.content().0, b"abcdefgh");
    }

    /// A file that ends while a chunk waits has no hashes, however it ends.
    #[test]
    fn a_file_with_a_hole_has_no_hashes() {
        for state in [FileState::Closed, FileState::Truncated] {
            let (mut chunks, mut file) = open();
            for offset in [0, 8] {
                chunks.begin_chunk(offset, 4, LIMITS);
                chunks.add_bytes(b"abcd", &mut file);
                chunks.end_chunk(&mut file);
            }
            chunks.close(state, &mut file);
            let digests = file.digests();
            assert_eq!((file.size, file.state), (4, state));
            assert_eq!((digests.md5, digests.sha256), (None, None));
        }
    }
}

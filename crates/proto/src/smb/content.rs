//! The content of a file as its chunks come: in order, out of order, twice, or not at all.

use crate::files::{File, FileState};
use std::collections::BTreeMap;

/// What the configuration lets wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    /// Bytes; 0: any number.
    pub(super) bytes_max: u32,
    /// Chunks; 0: any number.
    pub(super) chunks_max: u32,
}

/// What is irregular about a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Irregular {
    /// It repeats what came before it.
    pub(super) is_overlap: bool,
    /// With it too many bytes would wait.
    pub(super) has_too_many_bytes: bool,
    /// With it too many chunks would wait.
    pub(super) has_too_many_chunks: bool,
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

/// The order of a file's chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Transfer {
    /// Place of the first byte that has not come.
    next: u64,
    /// Chunks that wait for others before them, by place.
    waiting: BTreeMap<u64, Vec<u8>>,
    waiting_bytes: u64,
    target: Target,
}

impl Transfer {
    /// A chunk of `len` bytes begins at that place of the file.
    pub(super) fn begin_chunk(&mut self, offset: u64, len: u64, limits: QueueLimits) -> Irregular {
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
    pub(super) fn add_bytes(&mut self, bytes: &[u8], file: &mut File) {
        match &mut self.target {
            Target::Dropped => {}
            Target::Next { repeated } => {
                let skip = usize::try_from(*repeated).unwrap_or(usize::MAX).min(bytes.len());
                *repeated -= skip as u64;
                let news = bytes.get(skip..).unwrap_or_default();
                file.append(news);
                self.next += news.len() as u64;
            }
            Target::Waiting { offset } => {
                self.waiting_bytes += bytes.len() as u64;
                self.waiting.entry(*offset).or_default().extend_from_slice(bytes);
            }
        }
    }

    /// That many bytes of the chunk are lost.
    pub(super) fn lose_bytes(&mut self, len: u64, file: &mut File) {
        if let Target::Next { repeated } = &mut self.target {
            let skip = (*repeated).min(len);
            *repeated -= skip;
            if len > skip {
                file.gap(len - skip);
                self.next = self.next.saturating_add(len - skip);
            }
        }
    }

    /// The chunk is over: those that waited for it follow.
    pub(super) fn end_chunk(&mut self, file: &mut File) {
        self.target = Target::Dropped;
        while let Some(entry) = self.waiting.first_entry()
            && *entry.key() <= self.next
        {
            let (offset, bytes) = entry.remove_entry();
            self.waiting_bytes = self.waiting_bytes.saturating_sub(bytes.len() as u64);
            let skip = usize::try_from(self.next - offset).unwrap_or(usize::MAX);
            let news = bytes.get(skip..).unwrap_or_default();
            file.append(news);
            self.next += news.len() as u64;
        }
    }

    /// The file is over. What waits for bytes that did not come is dropped.
    pub(super) fn close(&mut self, file: &mut File) {
        let has_hole = !self.waiting.is_empty();
        self.waiting = BTreeMap::new();
        self.waiting_bytes = 0;
        file.close(if file.has_gaps { FileState::Truncated } else { FileState::Closed });
        if has_hole {
            // What was there before the hole is not the file.
            file.forget_hashes();
        }
    }

    /// Bytes held.
    pub(super) fn bytes_held(&self) -> usize {
        let waiting = usize::try_from(self.waiting_bytes).unwrap_or(usize::MAX);
        waiting.saturating_add(self.waiting.len() * size_of::<(u64, Vec<u8>)>())
    }
}

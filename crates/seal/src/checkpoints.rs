//! Checkpoints: the signed notes of a log, and the file of them. In the file they follow each other, each after its
//! length in eight hex digits and a space.

use crate::error::{Error, Result};
use crate::limits::NOTE_MAX;
use crate::storage::Storage;

pub use crate::note::{Checkpoint, Note, Signature, SignatureKind, Verified, Vkey, is_origin};

/// Name of the file.
pub const FILE: &str = "checkpoints";
/// Bytes before a note.
const FRAME: usize = 9;

/// A note as it stands in the file.
#[must_use]
pub fn frame(note: &str) -> Vec<u8> {
    format!("{:08x} {note}", note.len()).into_bytes()
}

/// A note of the file.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Counts notes from 0.
    pub number: u64,
    /// Where its frame begins.
    pub offset: u64,
    /// The note.
    pub note: Note,
    /// What it says.
    pub checkpoint: Checkpoint,
}

/// What comes next in the file.
#[derive(Debug)]
pub enum Next {
    /// A note.
    Entry(Box<Entry>),
    /// Nothing: the file ends here.
    End,
    /// The file ends inside a note, or in zeros: what a crash leaves.
    Torn {
        /// Where the good part ends.
        offset: u64,
    },
    /// A note that is none; what follows can be read on.
    Damaged {
        /// Counts notes from 0.
        number: u64,
        /// What is wrong.
        error: Error,
    },
}

/// Reads the file in order, in bounded memory.
pub struct Reader<'a> {
    storage: &'a dyn Storage,
    len: u64,
    at: u64,
    number: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl<'a> Reader<'a> {
    /// From the beginning of the file; `None` when there is none.
    pub fn new(storage: &'a dyn Storage) -> Result<Option<Reader<'a>>> {
        let len = storage.len(FILE).map_err(|e| Error::storage(FILE, e))?;
        Ok(len.map(|len| Reader {
            storage,
            len,
            at: 0,
            number: 0,
            window: Vec::new(),
            window_at: 0,
        }))
    }

    /// The next note.
    pub fn step(&mut self) -> Result<Next> {
        let offset = self.at;
        if offset >= self.len {
            return Ok(Next::End);
        }
        let head: Option<[u8; FRAME]> = self.get(FRAME)?.try_into().ok();
        let Some(head) = head else { return Ok(self.torn(offset)) };
        let digits = head.get(..8).and_then(|d| std::str::from_utf8(d).ok());
        let len = digits.and_then(|d| u32::from_str_radix(d, 16).ok()).filter(|_| head[8] == b' ');
        let Some(len) = len.map(|l| l as usize).filter(|l| *l <= NOTE_MAX) else {
            // Pages that did not arrive read as zeros, which no note holds.
            let left = self.len - offset;
            let rest = self.get(left.min(1 << 20) as usize)?;
            let is_last = left <= (FRAME + NOTE_MAX) as u64 && rest.contains(&0);
            if is_last || rest.iter().all(|b| *b == 0) {
                return Ok(self.torn(offset));
            }
            // Without a length nothing after it can be found.
            self.at = self.len;
            return Ok(Next::Damaged {
                number: self.number,
                error: Error::format("no length before a note"),
            });
        };
        let whole = self.get(FRAME + len)?;
        let Some(bytes) = whole.get(FRAME..FRAME + len) else { return Ok(self.torn(offset)) };
        let is_zeros = bytes.contains(&0);
        let read =
            Note::parse(bytes).and_then(|note| Checkpoint::parse(&note.text).map(|c| (note, c)));
        let number = self.number;
        if is_zeros && offset + (FRAME + len) as u64 >= self.len {
            return Ok(self.torn(offset));
        }
        self.at = offset + (FRAME + len) as u64;
        self.number += 1;
        Ok(match read {
            Ok((note, checkpoint)) => {
                Next::Entry(Box::new(Entry { number, offset, note, checkpoint }))
            }
            Err(error) => Next::Damaged { number, error },
        })
    }

    fn torn(&mut self, offset: u64) -> Next {
        self.at = self.len;
        Next::Torn { offset }
    }

    /// Up to `n` bytes from the current place.
    fn get(&mut self, n: usize) -> Result<&[u8]> {
        let want = n.min(usize::try_from(self.len - self.at).unwrap_or(usize::MAX));
        let start = self.at.wrapping_sub(self.window_at) as usize;
        if self.at < self.window_at || self.window.len() < start.saturating_add(want) {
            self.window.resize(want.max(256 << 10), 0);
            let read = self
                .storage
                .read_at(FILE, self.at, &mut self.window)
                .map_err(|e| Error::storage(FILE, e))?;
            self.window.truncate(read);
            self.window_at = self.at;
        }
        let start = (self.at - self.window_at) as usize;
        let end = start.saturating_add(want).min(self.window.len());
        Ok(self.window.get(start..end).unwrap_or_default())
    }
}

/// What the end of the file says.
#[derive(Debug, Default)]
pub struct Tail {
    /// The last note that can be read.
    pub last: Option<Entry>,
    /// Where the good part ends, when the end is torn.
    pub torn: Option<u64>,
    /// Notes in it.
    pub count: u64,
}

/// Goes through the file to its end; `None` when there is none.
pub fn tail(storage: &dyn Storage) -> Result<Option<Tail>> {
    let Some(mut reader) = Reader::new(storage)? else { return Ok(None) };
    let mut tail = Tail::default();
    loop {
        match reader.step()? {
            Next::Entry(entry) => {
                tail.count += 1;
                tail.last = Some(*entry);
            }
            Next::End => return Ok(Some(tail)),
            Next::Torn { offset } => {
                tail.torn = Some(offset);
                return Ok(Some(tail));
            }
            Next::Damaged { .. } => tail.count += 1,
        }
    }
}

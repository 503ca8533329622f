//! Files carried by a transaction: state, hashes and the content still wanted.
//!
//! A protocol opens a file, appends what passes and closes it; the engine reads what is due for
//! inspection or storage and marks what it has logged. Content is kept only while an output or rule needs it
//! ([`File::keep_content`]); size and hashes cover all of it either way.

use crate::buffer::{Buffer, Inspect};
use crate::magic;
use crate::requirements::Requirements;
use gabion_record::Direction;
use gabion_record::applayer::{BufferDef, BufferNeed, Hook};
use md5::Digest;

/// `file.name` of a protocol that carries files.
pub const fn name_buffer(hooks: &'static [Hook]) -> BufferDef {
    BufferDef {
        name: "file.name",
        internal: "files",
        description: "files",
        aliases: &["file_name"],
        need: BufferNeed::Bodies,
        multi: true,
        hooks,
        ..BufferDef::PLAIN
    }
}

/// `file.magic`: due when enough of a file has come.
pub const fn magic_buffer(hooks: &'static [Hook]) -> BufferDef {
    BufferDef {
        name: "file.magic",
        internal: "file.magic",
        description: "file magic",
        aliases: &["file_magic"],
        need: BufferNeed::FileMagic,
        multi: true,
        streaming: true,
        hooks,
        ..BufferDef::PLAIN
    }
}

/// `file.data`.
pub const fn data_buffer(hooks: &'static [Hook]) -> BufferDef {
    BufferDef {
        name: "file.data",
        internal: "file_data",
        description: "data from tracked files",
        aliases: &["file_data"],
        need: BufferNeed::FileData,
        // A transaction may carry several files.
        multi: true,
        streaming: true,
        hooks,
        ..BufferDef::PLAIN
    }
}

/// Where a file stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// Data is still coming: EVE `UNKNOWN`.
    Open,
    /// Ended as announced.
    Closed,
    /// Ended early: limit, gap at the end, or the flow ended.
    Truncated,
    /// The protocol failed in mid-file.
    Error,
}

impl FileState {
    /// As EVE writes it.
    pub const fn name(self) -> &'static str {
        match self {
            FileState::Open => "UNKNOWN",
            FileState::Closed => "CLOSED",
            FileState::Truncated => "TRUNCATED",
            FileState::Error => "ERROR",
        }
    }
}

/// Which hashes to compute and what to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileWants {
    /// MD5.
    pub md5: bool,
    /// SHA-1.
    pub sha1: bool,
    /// SHA-256.
    pub sha256: bool,
    /// Content is kept for inspection.
    pub content: bool,
    /// Content goes to the file store.
    pub store: bool,
    /// What it is by its first bytes.
    pub magic: bool,
}

impl From<Requirements> for FileWants {
    fn from(r: Requirements) -> FileWants {
        FileWants {
            md5: r.md5,
            sha1: r.sha1,
            sha256: r.sha256,
            content: r.file_data || r.store_files,
            store: r.store_files,
            magic: r.magic,
        }
    }
}

/// One file.
#[derive(Clone, Debug)]
pub struct File {
    /// Number within its flow, from 1.
    pub id: u32,
    /// Name as the protocol gave it (bytes of the wire), may be empty.
    pub name: Vec<u8>,
    /// Direction it travels in.
    pub direction: Direction,
    /// State.
    pub state: FileState,
    /// Bytes seen.
    pub size: u64,
    /// Part of it was lost.
    pub has_gaps: bool,
    /// First byte of a range (RFC 9110 Content-Range) and last, when it is a part of a larger file.
    pub range: Option<(u64, u64)>,
    /// EVE has its record.
    pub is_logged: bool,
    /// Its content goes to the file store.
    pub store: bool,
    /// Its content is there already.
    pub is_stored: bool,
    /// Rules that asked for it.
    pub sids: Vec<u32>,
    /// First bytes while it is not known what it is, then what it is.
    magic: Magic,
    /// Content from [`File::content_start`] on, without what was lost.
    content: Vec<u8>,
    /// Position of the first byte still kept, among the bytes that came.
    content_start: u64,
    /// Bytes that came.
    present: u64,
    /// Content is kept.
    keep: bool,
    md5: Option<md5::Md5>,
    sha1: Option<sha1::Sha1>,
    sha256: Option<sha2::Sha256>,
    digests: Digests,
}

/// What a file is by its first bytes.
#[derive(Clone, Debug)]
enum Magic {
    NotWanted,
    Head(Vec<u8>),
    Known(std::borrow::Cow<'static, str>),
}

/// Finished hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digests {
    /// MD5.
    pub md5: Option<[u8; 16]>,
    /// SHA-1.
    pub sha1: Option<[u8; 20]>,
    /// SHA-256.
    pub sha256: Option<[u8; 32]>,
}

impl File {
    /// A file that begins.
    pub fn open(id: u32, name: &[u8], direction: Direction, wants: FileWants) -> File {
        File {
            id,
            name: name.to_vec(),
            direction,
            state: FileState::Open,
            size: 0,
            has_gaps: false,
            range: None,
            is_logged: false,
            store: wants.store,
            is_stored: false,
            sids: Vec::new(),
            magic: if wants.magic { Magic::Head(Vec::new()) } else { Magic::NotWanted },
            content: Vec::new(),
            content_start: 0,
            present: 0,
            keep: wants.content,
            md5: wants.md5.then(md5::Md5::new),
            sha1: wants.sha1.then(sha1::Sha1::new),
            sha256: wants.sha256.then(sha2::Sha256::new),
            digests: Digests::default(),
        }
    }

    /// Appends content.
    pub fn append(&mut self, bytes: &[u8]) {
        if self.state != FileState::Open {
            return;
        }
        self.size += bytes.len() as u64;
        self.present += bytes.len() as u64;
        self.look_at_head(bytes);
        if let Some(h) = &mut self.md5 {
            h.update(bytes);
        }
        if let Some(h) = &mut self.sha1 {
            h.update(bytes);
        }
        if let Some(h) = &mut self.sha256 {
            h.update(bytes);
        }
        if self.keep {
            self.content.extend_from_slice(bytes);
        }
    }

    /// Notes lost bytes: they count into the size; hashes and content continue without them (Suricata names a
    /// stored file by the SHA-256 of what was there, and rules see what came before the hole next to what came after it).
    pub fn gap(&mut self, len: u64) {
        if self.state == FileState::Open {
            self.has_gaps = true;
            self.size += len;
        }
    }

    /// Ends the file. MD5 and SHA-1 exist only for files that ended as announced, SHA-256 also for
    /// those that were cut (Suricata's rule: stored files are named by it).
    pub fn close(&mut self, state: FileState) {
        if self.state != FileState::Open {
            return;
        }
        self.state = state;
        if let Magic::Head(head) = &self.magic {
            self.magic = Magic::Known(magic::describe(head, self.size <= head.len() as u64));
        }
        let (md5, sha1, sha256) = (self.md5.take(), self.sha1.take(), self.sha256.take());
        if matches!(state, FileState::Closed | FileState::Truncated) {
            self.digests.sha256 = sha256.map(|h| h.finalize().into());
        }
        if state == FileState::Closed && !self.has_gaps {
            self.digests.md5 = md5.map(|h| h.finalize().into());
            self.digests.sha1 = sha1.map(|h| h.finalize().into());
        }
    }

    /// Takes back the hashes of a file of which more was seen than they are of.
    pub fn forget_hashes(&mut self) {
        self.digests = Digests::default();
    }

    /// Takes first bytes until there are enough to say what it is.
    fn look_at_head(&mut self, bytes: &[u8]) {
        let Magic::Head(head) = &mut self.magic else { return };
        let room = magic::HEAD_BYTES.saturating_sub(head.len());
        head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        if self.size >= magic::MIN_BYTES {
            self.magic = Magic::Known(magic::describe(head, false));
        }
    }

    /// What it is by its first bytes, in libmagic's words; nothing while too few have come, or when
    /// it is not wanted.
    pub fn magic(&self) -> Option<&str> {
        match &self.magic {
            Magic::Known(what) => Some(what),
            Magic::Head(_) | Magic::NotWanted => None,
        }
    }

    /// The same as a buffer, given once.
    pub fn magic_window(&self, how: Inspect) -> Option<Buffer<'_>> {
        self.magic().filter(|_| how.inspected == 0).map(|what| Buffer::whole(what.as_bytes()))
    }

    /// Finished hashes.
    pub fn digests(&self) -> Digests {
        self.digests
    }

    /// Content still kept, and the position of its first byte; what was lost has none.
    pub fn content(&self) -> (&[u8], u64) {
        (&self.content, self.content_start)
    }

    /// Releases the content before that position.
    pub fn release_before(&mut self, position: u64) {
        let n = position.saturating_sub(self.content_start);
        let n = usize::try_from(n).unwrap_or(usize::MAX).min(self.content.len());
        self.content.drain(..n);
        self.content_start += n as u64;
    }

    /// Keeps or stops keeping content from now on.
    pub fn keep_content(&mut self, keep: bool) {
        if self.keep && !keep {
            self.content = Vec::new();
        }
        if !self.keep {
            self.content_start = self.present;
        }
        self.keep = keep;
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        self.content.capacity() + self.name.capacity() + size_of::<File>()
    }
}

/// When data of an open file is due for inspection (`inspected-tracker` and the like).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Windows {
    /// From that size on data is due whenever there is new one; 0: never for this reason.
    pub content_limit: u64,
    /// Least size at which an open file is examined.
    pub min_size: u64,
    /// Bytes already inspected that are given again, for what lies across the seam.
    pub window: u64,
}

impl File {
    /// The window that is due, if any: what came since `inspected` and a little before it.
    pub fn window(&self, inspected: u64, at_end: bool, when: Windows) -> Option<(&[u8], u64)> {
        let is_over = at_end || self.state != FileState::Open;
        let is_small = (when.content_limit == 0 || self.size < when.content_limit)
            && self.size < when.min_size;
        if self.present <= inspected || (is_small && !is_over) {
            return None;
        }
        let from = match inspected {
            0 => 0,
            n => n.saturating_sub(when.window),
        };
        let from = from.max(self.content_start);
        let skip = usize::try_from(from - self.content_start).unwrap_or(usize::MAX);
        let bytes = self.content.get(skip..).filter(|b| !b.is_empty())?;
        Some((bytes, from))
    }
}

/// Files of one direction of a transaction, oldest first.
#[derive(Clone, Debug, Default)]
pub struct FileList {
    /// The files.
    pub files: Vec<File>,
}

impl FileList {
    /// The file that is open, if any.
    pub fn current(&mut self) -> Option<&mut File> {
        self.files.last_mut().filter(|f| f.state == FileState::Open)
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        self.files.iter().map(File::bytes_held).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MD5 and SHA-1 are of whole files only; SHA-256, by which stored files are named, is of what was there.
    #[test]
    fn a_file_with_a_hole_is_not_hashed_as_whole() {
        let wants = FileWants { md5: true, sha1: true, sha256: true, ..FileWants::default() };
        for has_hole in [false, true] {
            let mut file = File::open(1, b"f", Direction::ToClient, wants);
            file.append(b"ab");
            if has_hole {
                file.gap(10);
            }
            file.append(b"cd");
            file.close(FileState::Closed);
            let of = file.digests();
            assert_eq!((of.md5.is_none(), of.sha1.is_none()), (has_hole, has_hole));
            let known = "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589";
            let hex: String = of.sha256.unwrap().iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(hex, known);
            assert_eq!((file.has_gaps, file.size), (has_hole, if has_hole { 14 } else { 4 }));
        }
    }
}

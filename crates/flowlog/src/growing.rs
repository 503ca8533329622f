//! One followed log: where it was read up to, and whole lines from there on.
//!
//! What was read is known by its [`Place`]: an offset after a whole line, and a hash of that line. Before
//! more is read, that line is looked at first: if it is no longer there, the log was truncated and begun
//! again, however long it is by now. Between two looks nothing is held of a log but its place, so that very
//! many can be followed; half a line is read again when the log has grown.

use crate::formats::Format;
use crate::limits::{CHUNK, LINE_MAX};
use crate::reader::{Line, Reader};
use crate::source::{LineRead, Lines};
use gabion_record::{fnv, saved};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A line without its end.
fn trimmed(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Up to where a log was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// Bytes from the beginning; of a compressed log, bytes after decompression.
    pub(crate) offset: u64,
    /// Bytes of the last line with its end; 0 at the beginning of the log.
    len: u32,
    /// Hash of that line without its end.
    hash: u64,
}

saved! { Place { offset, len, hash } }

impl Place {
    /// Behind a line, given with its end.
    fn behind(offset: u64, line: &[u8]) -> Place {
        let len = u32::try_from(line.len()).unwrap_or(u32::MAX);
        Place { offset, len, hash: fnv::add_all(fnv::BASIS, trimmed(line)) }
    }

    /// Whether the line before it is still in a file.
    pub(crate) fn stands_in(&self, file: &File) -> bool {
        if self.len == 0 {
            // Nothing was read yet.
            return true;
        }
        let mut line = vec![0; self.len as usize];
        let Some(at) = self.offset.checked_sub(u64::from(self.len)) else { return false };
        file.read_exact_at(&mut line, at).is_ok()
            && fnv::add_all(fnv::BASIS, trimmed(&line)) == self.hash
    }
}

/// What a log begins with up to its first record, as a hash: by it a copy of a log is known, compressed or not.
/// None where there is no record yet.
fn head_of(lines: impl IntoIterator<Item = impl AsRef<[u8]>>, mut reader: Reader) -> Option<u64> {
    let mut hash = fnv::BASIS;
    for line in lines {
        let line = trimmed(line.as_ref());
        hash = fnv::add_all(fnv::add_all(hash, line), b"\n");
        if let Line::Record(..) = reader.line(line) {
            return Some(hash);
        }
    }
    None
}

/// Lines of a followed log, from its place on.
pub(crate) enum Content {
    Plain(Plain),
    Packed(Box<Packed>),
}

/// A log that is not compressed.
#[derive(Default)]
pub(crate) struct Plain {
    file: Option<File>,
    place: Place,
    /// Bytes from `place` on.
    chunk: Vec<u8>,
    /// Of these, up to where lines were given out; and the end of the line that was given last.
    done: usize,
    current: usize,
    /// Bytes passed over of a line that is longer than the limit.
    skipped: u64,
    /// It was cut off while it was read: nothing more is to be had here.
    is_cut: bool,
}

/// A compressed log.
pub(crate) struct Packed {
    lines: Lines,
    place: Place,
    /// The line that was given last, and the bytes up to its end.
    current: (usize, usize),
    behind: u64,
}

/// What comes next of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// A line: [`Content::line`].
    Line,
    /// One of this many bytes, which was too long; it is skipped.
    TooLong(u64),
    /// Nothing at the moment.
    None,
}

/// A file that may grow: where it ends there is nothing yet.
struct Growing(File);

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into) {
            Ok(0) => Err(io::ErrorKind::WouldBlock.into()),
            other => other,
        }
    }
}

impl Content {
    /// Of a file that is at its beginning.
    pub(crate) fn open(file: File, is_packed: bool) -> Content {
        if is_packed {
            Content::Packed(Box::new(Packed {
                lines: Lines::unpacked(Box::new(Growing(file))),
                place: Place::default(),
                current: (0, 0),
                behind: 0,
            }))
        } else {
            Content::Plain(Plain { file: Some(file), ..Plain::default() })
        }
    }

    /// Of a log that was read up to there, and is not open.
    pub(crate) fn at(place: Place, skipped: u64) -> Content {
        Content::Plain(Plain { place, skipped, ..Plain::default() })
    }

    /// What it begins with, read up to `visible` bytes.
    pub(crate) fn head(
        file: File,
        is_packed: bool,
        path: &Path,
        format: Option<Format>,
        visible: u64,
    ) -> Option<u64> {
        let reader = Reader::new(&path.to_string_lossy(), format);
        if is_packed {
            let mut lines = Lines::unpacked(Box::new(Growing(file)));
            let each = std::iter::from_fn(|| match lines.next_line() {
                LineRead::Line(a, b) => (lines.bytes() <= CHUNK as u64)
                    .then(|| lines.text().get(a..b).map(<[u8]>::to_vec))?,
                LineRead::TooLong(_) | LineRead::Pending | LineRead::End => None,
            });
            return head_of(each, reader);
        }
        let mut bytes = vec![0; usize::try_from(visible).unwrap_or(CHUNK).min(CHUNK)];
        let len = read_at(&file, &mut bytes, 0);
        bytes.truncate(len);
        let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
        head_of(bytes.get(..whole)?.split_inclusive(|b| *b == b'\n'), reader)
    }

    /// Up to where lines were given out and done with.
    pub(crate) fn place(&self) -> Place {
        match self {
            Content::Plain(plain) => plain.place(),
            Content::Packed(packed) => packed.place,
        }
    }

    /// The next line of a log that has this many bytes.
    pub(crate) fn next(&mut self, visible: u64) -> Next {
        match self {
            Content::Plain(plain) => plain.next(visible),
            Content::Packed(packed) => packed.next(),
        }
    }

    /// The line that [`Content::next`] found, without its end.
    pub(crate) fn line(&self) -> &[u8] {
        match self {
            Content::Plain(p) => trimmed(p.chunk.get(p.done..p.current).unwrap_or_default()),
            Content::Packed(p) => p.lines.text().get(p.current.0..p.current.1).unwrap_or_default(),
        }
    }

    /// That line is done with.
    pub(crate) fn pass(&mut self) {
        match self {
            Content::Plain(plain) => plain.done = plain.current,
            Content::Packed(packed) => packed.pass(),
        }
    }

    /// Nothing comes at the moment: only the place is kept, and the file where it may stay open. A packed
    /// log, which hardly ever grows, is unpacked again when it does.
    pub(crate) fn rest(&mut self, is_crowded: bool) {
        match self {
            Content::Plain(plain) => {
                plain.place = plain.place();
                plain.chunk = Vec::new();
                (plain.done, plain.current) = (0, 0);
                if is_crowded {
                    plain.file = None;
                }
            }
            Content::Packed(packed) => {
                let place = packed.place;
                *self = Content::at(place, 0);
            }
        }
    }

    /// Whether its file is open.
    pub(crate) fn is_open(&self) -> bool {
        match self {
            Content::Plain(plain) => plain.file.is_some(),
            Content::Packed(_) => true,
        }
    }

    /// Continues in that file, which is not compressed.
    pub(crate) fn reopen(&mut self, file: File) {
        if let Content::Plain(plain) = self {
            plain.file = Some(file);
        }
    }

    /// Whether the line before its place is still there, and is not beyond the end.
    pub(crate) fn stands(&self) -> bool {
        match self {
            Content::Plain(plain) => {
                plain.file.as_ref().is_some_and(|file| plain.place().stands_in(file))
            }
            Content::Packed(_) => true,
        }
    }

    /// Whether it was cut off while it was read.
    pub(crate) fn is_cut(&self) -> bool {
        matches!(self, Content::Plain(plain) if plain.is_cut)
    }

    /// Bytes passed over of a line that is too long.
    pub(crate) fn skipped(&self) -> u64 {
        match self {
            Content::Plain(plain) => plain.skipped,
            Content::Packed(_) => 0,
        }
    }

    /// Goes to a place that a copy of this log was read up to; each line before it goes to `each`. False when
    /// that place is not there: the log is another one, or not yet so long (then `None`).
    pub(crate) fn go_to(
        &mut self,
        to: Place,
        visible: u64,
        each: &mut dyn FnMut(&[u8]),
    ) -> Option<bool> {
        loop {
            match self.next(visible) {
                Next::Line => {
                    each(self.line());
                    self.pass();
                }
                Next::TooLong(_) => {}
                Next::None => return None,
            }
            // Of a plain log the place costs a look back, which only the last line is worth.
            if matches!(&*self, Content::Plain(plain) if plain.base() < to.offset) {
                continue;
            }
            let place = self.place();
            if place.offset >= to.offset {
                return Some(place.offset == to.offset && place.hash == to.hash);
            }
        }
    }
}

impl Plain {
    /// Offset of what was given out last.
    fn base(&self) -> u64 {
        self.place.offset + self.done as u64
    }

    fn place(&self) -> Place {
        let Some(before) = self.done.checked_sub(1) else { return self.place };
        let given = self.chunk.get(..before).unwrap_or_default();
        let start = memchr::memrchr(b'\n', given).map_or(0, |at| at + 1);
        Place::behind(self.base(), self.chunk.get(start..self.done).unwrap_or_default())
    }

    fn next(&mut self, visible: u64) -> Next {
        loop {
            let rest = self.chunk.get(self.done..).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', rest) {
                self.current = self.done + at + 1;
                let before = std::mem::take(&mut self.skipped);
                if before > 0 {
                    self.done = self.current;
                    return Next::TooLong(before + at as u64);
                }
                return Next::Line;
            }
            if self.is_cut || !self.fill(visible) {
                return Next::None;
            }
        }
    }

    /// Reads on after what is held of a line; false when there is no more.
    fn fill(&mut self, visible: u64) -> bool {
        let held = self.chunk.len() - self.done;
        if held > LINE_MAX {
            // Its beginning is of no use without its end.
            self.skipped += held as u64;
            self.done = self.chunk.len();
        }
        self.place = self.place();
        self.chunk.drain(..self.done);
        (self.done, self.current) = (0, 0);
        let held = self.chunk.len();
        let from = self.place.offset + held as u64;
        let most = visible.saturating_sub(from).min(CHUNK as u64) as usize;
        let Some(file) = self.file.as_ref().filter(|_| most > 0) else { return false };
        self.chunk.resize(held + most, 0);
        let fresh = self.chunk.get_mut(held..).unwrap_or_default();
        let len = read_at(file, fresh, from);
        self.chunk.truncate(held + len);
        if !self.place.stands_in(file) {
            // It was cut off meanwhile. What was read is of the log as it was, unless it is there now.
            self.is_cut = true;
            let mut again = vec![0; len];
            let now = read_at(file, &mut again, from);
            if self.chunk.get(held..) == again.get(..now) {
                self.chunk.truncate(held);
                return false;
            }
        }
        len > 0
    }
}

impl Packed {
    fn next(&mut self) -> Next {
        match self.lines.next_line() {
            LineRead::Line(start, end) => {
                self.current = (start, end);
                self.behind = self.lines.bytes();
                Next::Line
            }
            LineRead::TooLong(bytes) => {
                self.place = Place { offset: self.lines.bytes(), ..Place::default() };
                Next::TooLong(bytes)
            }
            LineRead::Pending | LineRead::End => Next::None,
        }
    }

    fn pass(&mut self) {
        let line = self.lines.text().get(self.current.0..self.current.1).unwrap_or_default();
        let len = u32::try_from(self.behind - self.place.offset).unwrap_or(u32::MAX);
        self.place = Place { offset: self.behind, len, hash: fnv::add_all(fnv::BASIS, line) };
    }
}

/// Reads as many bytes as there are from an offset on.
fn read_at(file: &File, into: &mut [u8], at: u64) -> usize {
    let mut len = 0;
    while let Some(room) = into.get_mut(len..).filter(|r| !r.is_empty()) {
        match file.read_at(room, at + len as u64) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => break,
        }
    }
    len
}

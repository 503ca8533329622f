//! The parser's state over a capture's bytes, without I/O. It can be cloned and sent, so that
//! several threads can walk one capture in memory independently.
//!
//! Hot path: [`Cursor::next`] and [`Cursor::fill`] neither allocate nor copy (an interface
//! description of pcapng grows a table; there are a few per file). An incomplete record is never
//! parsed in part: the cursor stays before it and returns how many bytes it needs, so that any
//! split of the input returns the same frames.

use crate::bytes::{Frame, FrameRef, prefetch};
use crate::error::Error;
use crate::limits;
use crate::pcap::Pcap;
use crate::pcapng::Pcapng;
use crate::step::{Format, Step};

/// The capture ends inside a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where the record begins.
    pub offset: u64,
    /// How many of its bytes are present.
    pub present: u64,
}

/// A record that contradicts its format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bad {
    /// Where the record begins.
    pub offset: u64,
    /// Number of bytes skipped because of it; 0 if it ends the reading.
    pub skipped: u64,
    /// What is wrong with it.
    pub why: &'static str,
    /// Whether nothing after it can be read.
    pub ends: bool,
}

/// The result of [`Cursor::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<'a> {
    /// A frame.
    Frame(Frame<'a>),
    /// The capture ended where a record may end.
    End,
    /// The capture ended inside a record; `End` from now on.
    Torn(Torn),
    /// A bad record; reading continues unless it `ends`.
    Bad(Bad),
}

/// Why [`Cursor::fill`] stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// As many frames as wanted.
    Full,
    /// The bytes end; the record at the cursor needs at least this many from its beginning. With 0
    /// bytes left, and no more to come, this is the end of the capture.
    Need(usize),
    /// A bad record.
    Bad(Bad),
    /// A bad record ended the reading before.
    Ended,
}

#[derive(Clone, Debug)]
enum State {
    Pcap(Pcap),
    Pcapng(Pcapng),
}

/// Position and parser state of a reader in a capture.
#[derive(Clone, Debug)]
pub struct Cursor {
    pos: usize,
    /// Offset up to which cache lines were prefetched.
    fetched: usize,
    has_ended: bool,
    state: State,
}

impl Cursor {
    /// Reads the header of a capture.
    ///
    /// # Errors
    /// If the bytes are not a capture, have an unsupported variant, or end inside the header.
    pub fn new(bytes: &[u8]) -> Result<Cursor, Error> {
        let Some(magic) = bytes.first_chunk::<4>() else {
            return Err(if bytes.is_empty() {
                Error::Empty
            } else {
                Error::NotACapture(format!("only {} bytes", bytes.len()))
            });
        };
        if let Some((pcap, pos)) = Pcap::open(*magic, bytes)? {
            return Ok(Cursor { pos, fetched: 0, has_ended: false, state: State::Pcap(pcap) });
        }
        if let Some(pcapng) = Pcapng::open(*magic, bytes)? {
            return Ok(Cursor {
                pos: 0,
                fetched: 0,
                has_ended: false,
                state: State::Pcapng(pcapng),
            });
        }
        Err(Error::NotACapture(foreign(bytes)))
    }

    /// The format.
    pub fn format(&self) -> Format {
        match &self.state {
            State::Pcap(p) => p.format(),
            State::Pcapng(_) => Format::Pcapng,
        }
    }

    /// The link type of the file (pcap) or of the interfaces seen so far in this section; `None`
    /// for a pcapng file whose first interface has not been read yet.
    pub fn link(&self) -> Option<u16> {
        match &self.state {
            State::Pcap(p) => Some(p.link()),
            State::Pcapng(p) => p.first_link(),
        }
    }

    /// Frames that were dropped while capturing, by the capture's own statistics (pcapng).
    pub fn reported_drops(&self) -> u64 {
        match &self.state {
            State::Pcap(_) => 0,
            State::Pcapng(p) => p.reported_drops(),
        }
    }

    /// Where the next record begins.
    pub fn position(&self) -> usize {
        self.pos
    }

    /// Whether a bad record or a torn end ended the reading.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The next frame of a capture that is completely in memory (`bytes` are always the same).
    #[inline]
    pub fn next<'a>(&mut self, bytes: &'a [u8]) -> Next<'a> {
        if self.has_ended {
            return Next::End;
        }
        loop {
            self.fetch_ahead(bytes);
            match self.step(bytes) {
                Step::Frame(frame, next) => {
                    self.pos = next;
                    return Next::Frame(frame.frame(bytes));
                }
                Step::Skip(next) => self.pos = next,
                Step::Need(_) => return self.end(bytes),
                Step::BadSkip(next, why) => return Next::Bad(self.bad_skip(next, why)),
                Step::BadEnd(why) => return Next::Bad(self.bad_end(why)),
            }
        }
    }

    /// Appends up to `frames_max` frames. The bytes may be a part of the capture, see [`Stop`]
    /// and [`Cursor::rebase`].
    pub fn fill(&mut self, bytes: &[u8], frames_max: usize, frames: &mut Vec<FrameRef>) -> Stop {
        if self.has_ended {
            return Stop::Ended;
        }
        for _ in 0..frames_max {
            loop {
                self.fetch_ahead(bytes);
                match self.step(bytes) {
                    Step::Frame(frame, next) => {
                        self.pos = next;
                        frames.push(frame);
                        break;
                    }
                    Step::Skip(next) => self.pos = next,
                    Step::Need(bytes) => return Stop::Need(bytes),
                    Step::BadSkip(next, why) => return Stop::Bad(self.bad_skip(next, why)),
                    Step::BadEnd(why) => return Stop::Bad(self.bad_end(why)),
                }
            }
        }
        Stop::Full
    }

    /// What the end of the bytes means at the cursor's position.
    pub(crate) fn end<'a>(&mut self, bytes: &[u8]) -> Next<'a> {
        self.has_ended = true;
        let present = bytes.len().saturating_sub(self.pos);
        if present == 0 {
            Next::End
        } else {
            Next::Torn(Torn { offset: self.pos as u64, present: present as u64 })
        }
    }

    /// The first `consumed` bytes, at most up to the cursor, were removed: the bytes after them are
    /// now at the beginning.
    pub fn rebase(&mut self, consumed: usize) {
        self.pos = self.pos.saturating_sub(consumed);
        self.fetched = 0;
    }

    #[inline]
    fn fetch_ahead(&mut self, bytes: &[u8]) {
        let wanted = self.pos.saturating_add(limits::PREFETCH_AHEAD).min(bytes.len());
        let mut at = self.fetched.max(self.pos);
        while at < wanted {
            if at & 4095 < 64 {
                // A prefetch never maps a page, but a read does: without this read the lines after
                // each page fault would not be prefetched.
                std::hint::black_box(bytes.get(at).copied());
            }
            prefetch(bytes, at);
            at += 64;
        }
        self.fetched = at;
    }

    #[inline]
    fn step(&mut self, bytes: &[u8]) -> Step {
        match &mut self.state {
            State::Pcap(p) => p.step(bytes, self.pos),
            State::Pcapng(p) => p.step(bytes, self.pos),
        }
    }

    fn bad_skip(&mut self, next: usize, why: &'static str) -> Bad {
        let offset = self.pos;
        self.pos = next.max(offset);
        Bad { offset: offset as u64, skipped: (self.pos - offset) as u64, why, ends: false }
    }

    fn bad_end(&mut self, why: &'static str) -> Bad {
        self.has_ended = true;
        Bad { offset: self.pos as u64, skipped: 0, why, ends: true }
    }
}

/// Describes a file that is not a capture by its first bytes.
fn foreign(bytes: &[u8]) -> String {
    const KNOWN: &[(&[u8], &str)] = &[
        (
            b"snoop\0\0\0",
            "a snoop capture, which is not supported: convert it with editcap -F pcap",
        ),
        (
            b"GMBU",
            "a Network Monitor capture, which is not supported: convert it with editcap -F pcap",
        ),
        (
            b"\x1c\x00\x01\xac",
            "an IXIA capture, which is not supported: convert it with editcap -F pcap",
        ),
        (
            b"\x1c\x00\x01\xab",
            "an IXIA capture, which is not supported: convert it with editcap -F pcap",
        ),
        (b"\xfd7zXZ\0", "an xz file: unpack it first"),
        (b"BZh", "a bzip2 file: unpack it first"),
        (b"PK\x03\x04", "a zip file: unpack it first"),
        (b"\x7fELF", "a program"),
    ];
    if let Some((_, what)) = KNOWN.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return (*what).to_owned();
    }
    let head = bytes.get(..bytes.len().min(64)).unwrap_or_default();
    if head.iter().all(|b| matches!(b, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)) {
        return "it looks like text".to_owned();
    }
    let first =
        gabion_record::hex::to_hex_pairs(bytes.get(..bytes.len().min(4)).unwrap_or_default(), ' ');
    format!("it begins with {first}, which is neither pcap nor pcapng")
}

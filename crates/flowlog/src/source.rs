//! Files and streams of bytes, plain or packed, to lines.

use crate::limits::{CHUNK, EXPANSION_MAX, LINE_MAX};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// Bytes in, lines out; one buffer, used again.
pub struct Lines {
    from: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The part of the buffer that holds bytes not given out.
    start: usize,
    end: usize,
    /// Offset up to which no line end was found.
    searched: usize,
    is_at_end: bool,
    /// A line of more than the limit is being passed over.
    is_skipping: bool,
    number: u64,
    bytes: u64,
    error: Option<String>,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRead {
    /// It stands at these offsets of [`Lines::text`].
    Line(usize, usize),
    /// Too long; passed over.
    TooLong,
    /// No more yet: the file may grow (its reader said that it would block).
    Pending,
    /// No more.
    End,
}

impl Lines {
    /// Opens a file, by its first bytes gzip or zstd or plain; `-` is standard input.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Lines> {
        if path == Path::new("-") {
            return Ok(Lines::new(Box::new(io::stdin())));
        }
        let mut file = File::open(path)?;
        let mut magic = [0; 4];
        let len = read_full(&mut file, &mut magic)?;
        let size = file.metadata().map_or(0, |m| m.len());
        let head = io::Cursor::new(magic.get(..len).unwrap_or_default().to_vec());
        let whole = head.chain(file);
        let most = size.saturating_mul(EXPANSION_MAX).saturating_add(1 << 20);
        let from: Box<dyn Read + Send> = match magic {
            [0x1f, 0x8b, ..] => {
                Box::new(Bounded { from: flate2::read::MultiGzDecoder::new(whole), left: most })
            }
            [0x28, 0xb5, 0x2f, 0xfd] => {
                Box::new(Bounded { from: zstd::stream::read::Decoder::new(whole)?, left: most })
            }
            _ => Box::new(whole),
        };
        Ok(Lines::new(from))
    }

    /// From any stream of bytes.
    pub fn new(from: Box<dyn Read + Send>) -> Lines {
        Lines {
            from,
            buffer: vec![0; CHUNK],
            start: 0,
            end: 0,
            searched: 0,
            is_at_end: false,
            is_skipping: false,
            number: 0,
            bytes: 0,
            error: None,
        }
    }

    /// The buffer that offsets of the last line point into.
    #[inline]
    pub fn text(&self) -> &[u8] {
        &self.buffer
    }

    /// Number of the last line, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Bytes given out and passed over, with line ends.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Why reading ended before the end of the file, if it did.
    pub fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// The next line, without its end.
    #[inline]
    pub fn next_line(&mut self) -> LineRead {
        loop {
            let window = self.buffer.get(self.searched..self.end).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', window) {
                let line = self.take_to(self.searched + at);
                if std::mem::take(&mut self.is_skipping) {
                    return LineRead::TooLong;
                }
                return LineRead::Line(line.0, line.1);
            }
            self.searched = self.end;
            if self.is_at_end {
                return self.last_line();
            }
            if !self.fill() {
                return LineRead::Pending;
            }
        }
    }

    /// The next line when it stands in the buffer already: what was given out before stays where it
    /// is.
    #[inline]
    pub fn line_at_hand(&mut self) -> Option<(usize, usize)> {
        if self.is_skipping {
            return None;
        }
        let window = self.buffer.get(self.searched..self.end)?;
        let Some(at) = memchr::memchr(b'\n', window) else {
            self.searched = self.end;
            return None;
        };
        Some(self.take_to(self.searched + at))
    }

    /// Gives out what stands before the line end at an offset.
    #[inline]
    fn take_to(&mut self, line_end: usize) -> (usize, usize) {
        let line = (self.start, trim_return(&self.buffer, self.start, line_end));
        self.bytes += (line_end + 1 - self.start) as u64;
        self.start = line_end + 1;
        self.searched = self.start;
        self.number += 1;
        line
    }

    fn last_line(&mut self) -> LineRead {
        if self.start == self.end && !self.is_skipping {
            return LineRead::End;
        }
        let line = (self.start, trim_return(&self.buffer, self.start, self.end));
        self.bytes += (self.end - self.start) as u64;
        self.start = self.end;
        self.number += 1;
        if std::mem::take(&mut self.is_skipping) {
            return LineRead::TooLong;
        }
        LineRead::Line(line.0, line.1)
    }

    /// Reads further bytes behind those kept; false when there are none yet.
    fn fill(&mut self) -> bool {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.searched -= self.start;
            self.start = 0;
        }
        if self.end > LINE_MAX {
            // Its beginning is of no use without its end.
            self.bytes += self.end as u64;
            self.is_skipping = true;
            (self.end, self.searched) = (0, 0);
        }
        if self.end == self.buffer.len() {
            self.buffer.resize((self.buffer.len() * 2).min(LINE_MAX + 2 * CHUNK), 0);
        }
        let room = self.buffer.get_mut(self.end..).unwrap_or_default();
        match self.from.read(room) {
            Ok(0) => self.is_at_end = true,
            Ok(n) => self.end = (self.end + n).min(self.buffer.len()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
            Err(e) => {
                self.error = Some(e.to_string());
                self.is_at_end = true;
            }
        }
        true
    }
}

/// The first four bytes of what is in a file, unpacked; `None` when there are not so many.
pub fn magic(path: &Path) -> Option<[u8; 4]> {
    let mut lines = Lines::open(path).ok()?;
    while lines.end < 4 && !lines.is_at_end && lines.fill() {}
    lines.buffer.get(..lines.end)?.first_chunk().copied()
}

/// Whether a file begins as packed ones do; it stands at its beginning again.
pub(crate) fn is_packed(file: &mut File) -> io::Result<bool> {
    let mut magic = [0; 4];
    let len = read_full(file, &mut magic)?;
    file.rewind()?;
    Ok(matches!(magic.get(..len), Some([0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd])))
}

fn trim_return(buffer: &[u8], start: usize, end: usize) -> usize {
    if end > start && buffer.get(end - 1) == Some(&b'\r') { end - 1 } else { end }
}

fn read_full(file: &mut File, into: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while let Some(room) = into.get_mut(len..).filter(|r| !r.is_empty()) {
        match file.read(room)? {
            0 => break,
            n => len += n,
        }
    }
    Ok(len)
}

/// A packed file that becomes far larger than packed logs do is refused.
struct Bounded<R> {
    from: R,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(into)?;
        self.left = self
            .left
            .checked_sub(n as u64)
            .ok_or_else(|| io::Error::other("unpacks to more than any log"))?;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes in pieces of one size.
    struct Pieces(Vec<u8>, usize, usize);

    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.2.min(into.len()).min(self.0.len() - self.1);
            into[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }

    fn lines(text: &[u8], piece: usize) -> Vec<String> {
        let mut lines = Lines::new(Box::new(Pieces(text.to_vec(), 0, piece)));
        let mut all = Vec::new();
        loop {
            match lines.next_line() {
                LineRead::Line(a, b) => {
                    all.push(String::from_utf8_lossy(&lines.text()[a..b]).into_owned());
                }
                LineRead::TooLong => all.push("<too long>".into()),
                LineRead::End | LineRead::Pending => break,
            }
        }
        assert_eq!(lines.bytes(), text.len() as u64);
        assert_eq!(lines.number(), all.len() as u64);
        all
    }

    #[test]
    fn any_split_gives_the_same_lines() {
        let text = b"one\r\n\ntwo\nthree without end";
        let whole = lines(text, 1000);
        assert_eq!(whole, ["one", "", "two", "three without end"]);
        for piece in 1..text.len() {
            assert_eq!(lines(text, piece), whole, "{piece}");
        }
    }

    #[test]
    fn a_line_without_end_is_passed_over() {
        let mut text = vec![b'x'; 3 * LINE_MAX];
        text.extend_from_slice(b"\nafter\n");
        assert_eq!(lines(&text, 1 << 16), ["<too long>", "after"]);
    }
}

//! Files and streams of bytes, plain or compressed, to lines.

use crate::error::InputError;
use crate::limits::{CHUNK, EXPANSION_MAX, LINE_MAX};
use crate::nfcapd;
use gabion_record::files::FileOpener;
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
    /// Bytes passed over of a line that is longer than the limit.
    skipped: u64,
    number: u64,
    bytes: u64,
    error: Option<InputError>,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineRead {
    /// It is at these offsets of [`Lines::text`].
    Line(usize, usize),
    /// One of this many bytes, which is too long; it is skipped.
    TooLong(u64),
    /// No more yet: the file may grow (its reader said that it would block).
    Pending,
    /// No more.
    End,
}

/// Whether what is named can be read only once: standard input (`-`), a pipe, a socket, a device. Such an
/// input is opened once and nobody looks into it before; files and folders may be opened again.
pub fn is_read_once(path: &Path) -> bool {
    path == Path::new("-") || path.metadata().is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Opens what can be read only once through `files`, and waits for its writer.
pub(crate) fn open_once(files: &FileOpener, path: &Path) -> io::Result<Box<dyn Read + Send>> {
    if path == Path::new("-") {
        Ok(Box::new(io::stdin()))
    } else {
        Ok(Box::new(files.open_to_read(path)?))
    }
}

impl Lines {
    /// Of a file that was opened, by its first bytes gzip, zstd, a binary file of nfdump, or plain.
    pub fn from_file(file: File) -> Lines {
        Lines::new(Box::new(Unpacked::new(file)))
    }

    /// Of what can be read only once, by its first bytes gzip, zstd, a binary file of nfdump, or plain. Nothing is
    /// read before the first line is asked for. A capture is refused ([`InputError::Capture`]).
    pub fn once(from: Box<dyn Read + Send>) -> Lines {
        let from = Unpacked::new(from);
        Lines::new(Box::new(NoCapture { from, first: [0; 4], seen: 0 }))
    }

    /// From any stream of bytes, by its first ones gzip, zstd, a binary file of nfdump, or plain.
    pub fn unpacked(from: Box<dyn Read + Send>) -> Lines {
        Lines::new(Box::new(Unpacked::new(from)))
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
            skipped: 0,
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
    pub fn error(&self) -> Option<&InputError> {
        self.error.as_ref()
    }

    /// The next line, without its end.
    #[inline]
    pub fn next_line(&mut self) -> LineRead {
        loop {
            let window = self.buffer.get(self.searched..self.end).unwrap_or_default();
            if let Some(at) = memchr::memchr(b'\n', window) {
                let line = self.take_to(self.searched + at);
                let before = std::mem::take(&mut self.skipped);
                if before > 0 {
                    return LineRead::TooLong(before + (line.1 - line.0) as u64);
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

    /// The next line if it is in the buffer already: what was returned before stays where it
    /// is.
    #[inline]
    pub fn line_at_hand(&mut self) -> Option<(usize, usize)> {
        if self.skipped > 0 {
            return None;
        }
        let window = self.buffer.get(self.searched..self.end)?;
        let Some(at) = memchr::memchr(b'\n', window) else {
            self.searched = self.end;
            return None;
        };
        Some(self.take_to(self.searched + at))
    }

    /// Returns the text before the line end at an offset.
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
        if self.start == self.end && self.skipped == 0 {
            return LineRead::End;
        }
        let line = (self.start, trim_return(&self.buffer, self.start, self.end));
        self.bytes += (self.end - self.start) as u64;
        self.start = self.end;
        self.number += 1;
        let before = std::mem::take(&mut self.skipped);
        if before > 0 {
            return LineRead::TooLong(before + (line.1 - line.0) as u64);
        }
        LineRead::Line(line.0, line.1)
    }

    /// Reads further bytes after those kept; false when there are none yet.
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
            self.skipped += self.end as u64;
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
                self.error = Some(e.into());
                self.is_at_end = true;
            }
        }
        true
    }
}

/// The first four bytes of what is in a file, decompressed; `None` when there are fewer.
pub fn magic(file: File) -> Option<[u8; 4]> {
    let mut lines = Lines::from_file(file);
    while lines.end < 4 && !lines.is_at_end && lines.fill() {}
    lines.buffer.get(..lines.end)?.first_chunk().copied()
}

/// Whether captures begin so: pcap in both byte orders and resolutions, pcapng.
pub fn is_capture(first: [u8; 4]) -> bool {
    matches!(
        first,
        [0xa1, 0xb2, 0xc3, 0xd4]
            | [0xd4, 0xc3, 0xb2, 0xa1]
            | [0xa1, 0xb2, 0x3c, 0x4d]
            | [0x4d, 0x3c, 0xb2, 0xa1]
            | [0x34, 0xcd, 0xb2, 0xa1]
            | [0xa1, 0xb2, 0xcd, 0x34]
            | [0x0a, 0x0d, 0x0d, 0x0a]
    )
}

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
    /// A binary file of nfdump, whose blocks are.
    Nfcapd,
}

/// By the first bytes.
fn packing(first: &[u8]) -> Option<Packing> {
    match first {
        [0x1f, 0x8b, ..] => Some(Packing::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd] => Some(Packing::Zstd),
        _ if nfcapd::is_binary(first) => Some(Packing::Nfcapd),
        _ => None,
    }
}

/// Whether a file begins as compressed ones do; it is at its beginning again.
pub(crate) fn is_packed(file: &mut File) -> io::Result<bool> {
    let mut whole = Whole::new(&mut *file);
    whole.read_first_bytes()?;
    let is_packed = packing(whole.first()).is_some();
    file.rewind()?;
    Ok(is_packed)
}

fn trim_return(buffer: &[u8], start: usize, end: usize) -> usize {
    if end > start && buffer.get(end - 1) == Some(&b'\r') { end - 1 } else { end }
}

/// A stream whose first bytes can be looked at before it is read.
struct Whole<R> {
    from: R,
    first: [u8; 4],
    /// How many of them are there.
    len: usize,
    /// How many of them were given out.
    given: usize,
    /// Bytes that came from the stream.
    read: u64,
}

impl<R: Read> Whole<R> {
    fn new(from: R) -> Whole<R> {
        Whole { from, first: [0; 4], len: 0, given: 0, read: 0 }
    }

    /// Reads the first bytes. After an error, such as that nothing has come yet, it may be asked again.
    fn read_first_bytes(&mut self) -> io::Result<()> {
        while let Some(room) = self.first.get_mut(self.len..).filter(|r| !r.is_empty()) {
            match self.from.read(room) {
                Ok(0) => break,
                Ok(n) => {
                    self.len = (self.len + n).min(self.first.len());
                    self.read += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn first(&self) -> &[u8] {
        self.first.get(..self.len).unwrap_or_default()
    }
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut kept = self.first.get(self.given..self.len).unwrap_or_default();
        if !kept.is_empty() {
            let n = kept.read(into)?;
            self.given += n;
            return Ok(n);
        }
        let n = self.from.read(into)?;
        self.read += n as u64;
        Ok(n)
    }
}

/// A stream, decompressed if it is compressed. Nothing is read before it is asked for, so that a stream of which
/// nothing has come yet can say so at any time. A stream that expands far more than compressed logs do is refused.
struct Unpacked<R: Read> {
    /// The stream until its first bytes are known.
    fresh: Option<Whole<R>>,
    /// The stream from then on.
    body: Option<Body<R>>,
    /// Bytes given out.
    given: u64,
}

enum Body<R: Read> {
    Plain(Whole<R>),
    Gzip(Box<flate2::read::MultiGzDecoder<Whole<R>>>),
    Zstd(Box<zstd::stream::read::Decoder<'static, io::BufReader<Whole<R>>>>),
    Nfcapd(Box<nfcapd::Rows<Whole<R>>>),
}

impl<R: Read> Body<R> {
    fn new(whole: Whole<R>) -> io::Result<Body<R>> {
        Ok(match packing(whole.first()) {
            None => Body::Plain(whole),
            Some(Packing::Gzip) => Body::Gzip(Box::new(flate2::read::MultiGzDecoder::new(whole))),
            Some(Packing::Zstd) => Body::Zstd(Box::new(zstd::stream::read::Decoder::new(whole)?)),
            Some(Packing::Nfcapd) => Body::Nfcapd(Box::new(nfcapd::Rows::new(whole))),
        })
    }

    /// Bytes that came from the stream, if it is compressed.
    fn packed(&self) -> Option<u64> {
        match self {
            Body::Plain(_) => None,
            Body::Gzip(from) => Some(from.get_ref().read),
            Body::Zstd(from) => Some(from.get_ref().get_ref().read),
            Body::Nfcapd(from) => Some(from.get_ref().read),
        }
    }
}

impl<R: Read> Unpacked<R> {
    fn new(from: R) -> Unpacked<R> {
        Unpacked { fresh: Some(Whole::new(from)), body: None, given: 0 }
    }
}

impl<R: Read> Read for Unpacked<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(fresh) = &mut self.fresh {
            fresh.read_first_bytes()?;
        }
        if let Some(fresh) = self.fresh.take() {
            self.body = Some(Body::new(fresh)?);
        }
        let Some(body) = &mut self.body else { return Ok(0) };
        let n = match body {
            Body::Plain(from) => return from.read(into),
            Body::Gzip(from) => from.read(into)?,
            Body::Zstd(from) => from.read(into)?,
            Body::Nfcapd(from) => from.read(into)?,
        };
        self.given += n as u64;
        let most = |packed: u64| packed.saturating_mul(EXPANSION_MAX).saturating_add(1 << 20);
        if body.packed().is_some_and(|packed| self.given > most(packed)) {
            return Err(io::Error::other("unpacks to more than any log"));
        }
        Ok(n)
    }
}

/// A stream that is no capture: nobody could look at its first bytes before, and begin again.
struct NoCapture<R> {
    from: R,
    first: [u8; 4],
    /// How many of the first bytes have come.
    seen: usize,
}

impl<R: Read> Read for NoCapture<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(into)?;
        let room = self.first.get_mut(self.seen..).unwrap_or_default();
        if !room.is_empty() {
            let fresh = into.get(..n).unwrap_or_default();
            let count = fresh.len().min(room.len());
            room.iter_mut().zip(fresh).for_each(|(to, from)| *to = *from);
            self.seen += count;
            if self.seen == self.first.len() && is_capture(self.first) {
                return Err(InputError::Capture.into());
            }
        }
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
                LineRead::TooLong(bytes) => all.push(format!("<{bytes} bytes>")),
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
        assert_eq!(lines(&text, 1 << 16), [format!("<{} bytes>", 3 * LINE_MAX).as_str(), "after"]);
    }

    /// Gives one byte, then says that nothing has come yet, and so on.
    struct Halting(io::Cursor<Vec<u8>>, bool);

    impl Read for Halting {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.0.read(into.get_mut(..1).unwrap_or_default())
        }
    }

    /// All lines of what can be read only once, and why there were no more.
    fn once(from: impl Read + Send + 'static) -> (Vec<String>, Option<InputError>) {
        let mut lines = Lines::once(Box::new(from));
        let mut all = Vec::new();
        loop {
            match lines.next_line() {
                LineRead::Line(a, b) => {
                    all.push(String::from_utf8_lossy(&lines.text()[a..b]).into_owned());
                }
                LineRead::Pending | LineRead::TooLong(_) => {}
                LineRead::End => return (all, lines.error().cloned()),
            }
        }
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        flate2::read::GzEncoder::new(text, flate2::Compression::fast())
            .read_to_end(&mut packed)
            .unwrap();
        packed
    }

    #[test]
    fn streams_are_unpacked_however_they_come() {
        let text = b"one\ntwo\nthree\n".to_vec();
        let zstd = zstd::encode_all(text.as_slice(), 1).unwrap();
        // Parts put together, as rotated logs are.
        let parts = [gzip(b"one\ntw"), gzip(b"o\nthree\n")].concat();
        for bytes in [text.clone(), gzip(&text), parts, zstd] {
            let expected = (vec!["one".to_owned(), "two".into(), "three".into()], None);
            assert_eq!(once(io::Cursor::new(bytes.clone())), expected);
            assert_eq!(once(Halting(io::Cursor::new(bytes.clone()), false)), expected);
            // One that is cut is read as far as it goes.
            let cut = bytes[..bytes.len() - 5].to_vec();
            assert_eq!(once(io::Cursor::new(cut)).1.is_some(), bytes != text);
        }
        for short in [&b""[..], b"a", b"a\nb"] {
            let expected: Vec<&str> = std::str::from_utf8(short).unwrap().lines().collect();
            assert_eq!(once(io::Cursor::new(short)).0, expected);
        }
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let nothing = io::repeat(0).take(64 << 20);
        let bomb = zstd::encode_all(nothing, 1).unwrap();
        let (lines, error) = once(io::Cursor::new(bomb));
        assert!(
            lines.is_empty() && error.is_some_and(|e| e.to_string().contains("more than any log"))
        );
    }

    #[test]
    fn a_capture_is_refused_packed_or_not() {
        let mut capture = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0];
        capture.resize(4000, 7);
        let packed = gzip(&capture);
        for bytes in [capture, packed] {
            assert_eq!(once(io::Cursor::new(bytes.clone())).1, Some(InputError::Capture));
            let halting = Halting(io::Cursor::new(bytes), false);
            assert_eq!(once(halting).1, Some(InputError::Capture));
        }
    }

    #[test]
    fn files_and_folders_may_be_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("conn.log");
        std::fs::write(&file, "x").unwrap();
        for path in [&file, folder.path(), &folder.path().join("absent")] {
            assert!(!is_read_once(path), "{}", path.display());
        }
        assert!(is_read_once(Path::new("-")) && is_read_once(Path::new("/dev/null")));
    }
}

//! Bodies in parts: `multipart/form-data` (RFC 7578, RFC 2046 5.1), the files in them.
//!
//! Incremental: bytes may come in any pieces. Parts whose `Content-Disposition` names a file are
//! handed out as files; the others are skipped. A boundary that might begin at the end of a piece
//! is held back until it is decided.

use super::limits::{FILE_NAME_BYTES_MAX, PART_HEADER_BYTES_MAX, reached};
use super::text::{split_prefix, starts_with_nocase, trim};

/// What the parser finds, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// A file of that name begins.
    Open(&'a [u8]),
    /// Content of the file.
    Data(&'a [u8]),
    /// The file ends.
    Close,
    /// A header block that can't be read.
    InvalidHeader,
    /// A file part without content.
    NoData,
}

/// The state of the parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first boundary.
    Preamble,
    /// Behind a boundary, before its line end.
    BoundaryEnd,
    /// In a part's header block.
    Header,
    /// In a part's content.
    Content,
    /// Behind the last boundary.
    Epilogue,
}

/// Parser of one body.
#[derive(Debug)]
pub(crate) struct Multipart {
    /// CR LF, two hyphens and the boundary.
    delimiter: Vec<u8>,
    state: State,
    /// What can't be decided yet.
    held: Vec<u8>,
    name: Vec<u8>,
    is_file: bool,
    has_data: bool,
}

impl Multipart {
    /// A parser for a body of that content type, if it is one in parts.
    pub(crate) fn new(content_type: &[u8]) -> Option<Multipart> {
        let (kind, _) = split_prefix(content_type, |b| b != b';');
        if !starts_with_nocase(trim(kind), b"multipart/form-data") {
            return None;
        }
        let boundary = parameter(content_type, b"boundary")?;
        if boundary.is_empty() || !reached::BOUNDARY_BYTES_MAX.holds(boundary.len()) {
            return None;
        }
        let mut delimiter = b"\r\n--".to_vec();
        delimiter.extend_from_slice(&boundary);
        Some(Multipart {
            delimiter,
            state: State::Preamble,
            // The first boundary may be at the very beginning.
            held: b"\r\n".to_vec(),
            name: Vec::new(),
            is_file: false,
            has_data: false,
        })
    }

    /// Takes a further piece.
    pub(crate) fn feed(&mut self, bytes: &[u8], out: &mut dyn FnMut(Part<'_>)) {
        let mut held = std::mem::take(&mut self.held);
        if held.is_empty() {
            let used = self.run(bytes, out);
            self.held.extend_from_slice(bytes.get(used..).unwrap_or_default());
        } else {
            held.extend_from_slice(bytes);
            let used = self.run(&held, out);
            held.drain(..used);
            self.held = held;
        }
    }

    /// The body is over.
    pub(crate) fn finish(&mut self, out: &mut dyn FnMut(Part<'_>)) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_slice();
        if self.state == State::Header
            && let Some((block, len)) = header_end(rest)
        {
            self.read_header(block, out);
            rest = &rest[len..];
            self.state = State::Content;
        }
        if self.state == State::Content {
            self.content(rest, out);
            self.end_part(out);
        }
        self.state = State::Epilogue;
    }

    /// Works through `data` and returns how much of it is done.
    fn run(&mut self, data: &[u8], out: &mut dyn FnMut(Part<'_>)) -> usize {
        let mut at = 0;
        loop {
            let rest = data.get(at..).unwrap_or_default();
            match self.state {
                State::Preamble | State::Content => {
                    let found = memchr::memmem::find(rest, &self.delimiter);
                    let end = found.unwrap_or_else(|| rest.len() - self.partial(rest));
                    if self.state == State::Content {
                        self.content(rest.get(..end).unwrap_or_default(), out);
                    }
                    at += end;
                    if found.is_none() {
                        return at;
                    }
                    at += self.delimiter.len();
                    if self.state == State::Content {
                        self.end_part(out);
                    }
                    self.state = State::BoundaryEnd;
                }
                State::BoundaryEnd => {
                    if rest.len() < 2 {
                        return at;
                    }
                    if rest.starts_with(b"--") {
                        self.state = State::Epilogue;
                        continue;
                    }
                    // White space may precede the line end.
                    let Some(lf) = memchr::memchr(b'\n', rest) else {
                        return at + rest.len().saturating_sub(1);
                    };
                    at += lf + 1;
                    self.begin_part();
                }
                State::Header => match header_end(rest) {
                    Some((block, len)) => {
                        // A part without content ends at its header block: the line end of the
                        // delimiter is the empty line.
                        let tail = &rest[block.len()..];
                        if tail.len() < self.delimiter.len() && self.delimiter.starts_with(tail) {
                            return at;
                        }
                        at += if tail.starts_with(&self.delimiter) { block.len() } else { len };
                        self.read_header(block, out);
                        self.state = State::Content;
                    }
                    None if rest.len() > PART_HEADER_BYTES_MAX => {
                        out(Part::InvalidHeader);
                        self.state = State::Content;
                    }
                    None => return at,
                },
                State::Epilogue => return data.len(),
            }
        }
    }

    fn begin_part(&mut self) {
        self.state = State::Header;
        self.name.clear();
        self.is_file = false;
        self.has_data = false;
    }

    /// Bytes at the end of `text` that may be the beginning of a delimiter.
    fn partial(&self, text: &[u8]) -> usize {
        let longest = text.len().min(self.delimiter.len() - 1);
        (1..=longest).rev().find(|n| text.ends_with(&self.delimiter[..*n])).unwrap_or(0)
    }

    fn content(&mut self, bytes: &[u8], out: &mut dyn FnMut(Part<'_>)) {
        if self.is_file && !bytes.is_empty() {
            self.has_data = true;
            out(Part::Data(bytes));
        }
    }

    fn end_part(&mut self, out: &mut dyn FnMut(Part<'_>)) {
        if self.is_file {
            if !self.has_data {
                out(Part::NoData);
            }
            out(Part::Close);
            self.is_file = false;
        }
    }

    fn read_header(&mut self, block: &[u8], out: &mut dyn FnMut(Part<'_>)) {
        let mut has_disposition = false;
        for line in unfold(block) {
            let Some(colon) = memchr::memchr(b':', &line) else {
                out(Part::InvalidHeader);
                continue;
            };
            if !trim(&line[..colon]).eq_ignore_ascii_case(b"content-disposition") {
                continue;
            }
            has_disposition = true;
            if let Some(mut name) = file_name(&line[colon + 1..])
                && !name.is_empty()
            {
                name.truncate(FILE_NAME_BYTES_MAX);
                self.name = name;
                self.is_file = true;
            }
        }
        if !has_disposition {
            return;
        }
        if self.is_file {
            out(Part::Open(&self.name));
        }
    }
}

/// The header block at the head of `text` and its length with the empty line.
fn header_end(text: &[u8]) -> Option<(&[u8], usize)> {
    // A part may have no header at all.
    if text.starts_with(b"\r\n") {
        return Some((&[], 2));
    }
    if text.starts_with(b"\n") {
        return Some((&[], 1));
    }
    let mut from = 0;
    while let Some(lf) = memchr::memchr(b'\n', &text[from..]) {
        from += lf + 1;
        match &text[from..] {
            [b'\r', b'\n', ..] => return Some((&text[..from], from + 2)),
            [b'\n', ..] => return Some((&text[..from], from + 1)),
            _ => {}
        }
    }
    None
}

/// The lines of a header block, folded ones joined.
fn unfold(block: &[u8]) -> Vec<Vec<u8>> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for line in block.split(|b| *b == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        match lines.last_mut() {
            Some(last) if matches!(line[0], b' ' | b'\t') => last.extend_from_slice(line),
            _ => lines.push(line.to_vec()),
        }
    }
    lines
}

/// The name of a file in a `Content-Disposition` value: `filename*` (RFC 5987) before `filename`,
/// continuations (`filename*0`, RFC 2231) joined.
pub(crate) fn file_name(disposition: &[u8]) -> Option<Vec<u8>> {
    if let Some(extended) = parameter(disposition, b"filename*") {
        let mut parts = extended.splitn(3, |b| *b == b'\'');
        if let (Some(_), Some(_), Some(text)) = (parts.next(), parts.next(), parts.next()) {
            return Some(percent_decode(text));
        }
        return Some(extended);
    }
    if let Some(name) = parameter(disposition, b"filename") {
        return Some(name);
    }
    let mut joined = Vec::new();
    for n in 0..10u8 {
        let key = [&b"filename*"[..], &[b'0' + n]].concat();
        match parameter(disposition, &key) {
            Some(part) => joined.extend_from_slice(&part),
            None => break,
        }
    }
    (!joined.is_empty()).then_some(joined)
}

/// The value of a parameter (`; name=value`), quotes and escapes taken off.
pub(crate) fn parameter(text: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    let mut rest = text;
    loop {
        let semicolon = next_parameter(rest)?;
        rest = &rest[semicolon + 1..];
        let (key, after) = split_prefix(rest, |b| b != b'=' && b != b';');
        if after.first() != Some(&b'=') || !trim(key).eq_ignore_ascii_case(name) {
            continue;
        }
        let value = &after[1..];
        let (_, value) = split_prefix(value, |b| b == b' ' || b == b'\t');
        if value.first() != Some(&b'"') {
            let (value, _) = split_prefix(value, |b| b != b';');
            return Some(trim(value).to_vec());
        }
        let mut out = Vec::new();
        let mut bytes = value[1..].iter();
        while let Some(&b) = bytes.next() {
            match b {
                b'"' => break,
                // Windows paths come with single backslashes: only quotes and backslashes are
                // escaped.
                b'\\' => match bytes.as_slice().first() {
                    Some(c @ (b'"' | b'\\')) => {
                        out.push(*c);
                        bytes.next();
                    }
                    _ => out.push(b'\\'),
                },
                _ => out.push(b),
            }
        }
        return Some(out);
    }
}

/// Position of the next `;` outside of quotes.
fn next_parameter(text: &[u8]) -> Option<usize> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    for (i, b) in text.iter().enumerate() {
        match b {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b';' if !is_quoted => return Some(i),
            _ => {}
        }
    }
    None
}

fn percent_decode(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&b) = text.get(at) {
        let digit = |i: usize| text.get(i).and_then(|c| (*c as char).to_digit(16));
        match (b, digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(b);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_parts(body: &[u8], piece: usize) -> String {
        let mut m = Multipart::new(b"multipart/form-data; boundary=\"AaB03x\"").unwrap();
        let mut out = String::new();
        let mut last_was_data = false;
        let mut note = |p: Part<'_>| {
            let data = matches!(p, Part::Data(_));
            match p {
                Part::Open(name) => out += &format!("[{}:", name.escape_ascii()),
                Part::Data(d) => out += &d.escape_ascii().to_string(),
                Part::Close => out += "]",
                Part::InvalidHeader => out += "!",
                Part::NoData => out += "0",
            }
            last_was_data = data;
        };
        for p in body.chunks(piece) {
            m.feed(p, &mut note);
        }
        m.finish(&mut note);
        out
    }

    /// The example of RFC 2388 section 1 style forms, cut into pieces of every size.
    #[test]
    fn files_are_found_in_any_pieces() {
        let body = b"pre\r\n--AaB03x\r\ncontent-disposition: form-data; name=\"field1\"\r\n\r\n\
            Joe\r\n--AaB03x\r\nContent-Disposition: form-data; name=\"pics\";\r\n \
            filename=\"file1.txt\"\r\nContent-Type: text/plain\r\n\r\n... a\r\n--AaB0\r\n\
            \r\n--AaB03x\r\nContent-Disposition: form-data; filename=b\r\n\r\n\r\n--AaB03x--\r\nend";
        for piece in 1..=body.len() {
            assert_eq!(
                parse_parts(body, piece),
                "[file1.txt:... a\\r\\n--AaB0\\r\\n][b:0]",
                "{piece}"
            );
        }
    }

    #[test]
    fn a_body_cut_short_gives_what_is_there() {
        let body = b"--AaB03x\r\nContent-Disposition: form-data; filename=a\r\n\r\nabc\r\n--Aa";
        for piece in 1..=body.len() {
            assert_eq!(parse_parts(body, piece), "[a:abc\\r\\n--Aa]", "{piece}");
        }
    }

    #[test]
    fn names_of_files() {
        for (value, name) in [
            ("attachment; filename=\"eicar.txt\"", Some("eicar.txt")),
            ("attachment; filename=eicar.txt ; x=y", Some("eicar.txt")),
            ("attachment; FileName*=UTF-8''e%20x.txt; filename=plain", Some("e x.txt")),
            ("form-data; name=\"a;filename=b\"; filename=\"c\\\"d\\e\"", Some("c\"d\\e")),
            ("inline; filename*0=\"ab\"; filename*1=\"cd\"", Some("abcd")),
            ("attachment", None),
        ] {
            let got = file_name(value.as_bytes());
            assert_eq!(got.as_deref(), name.map(str::as_bytes), "{value}");
        }
    }
}

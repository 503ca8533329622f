//! Messages of SIP (RFC 3261 7): start line and headers.
//!
//! A message owns its bytes; what was read from them are places in them.

use super::limits::reached;
use memchr::memmem;

/// A place in a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub from: u32,
    /// Behind the last one.
    pub to: u32,
}

impl Span {
    fn new(from: usize, to: usize) -> Span {
        let place = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { from: place(from), to: place(to) }
    }

    /// Bytes in it.
    pub fn len(self) -> usize {
        self.to.saturating_sub(self.from) as usize
    }

    /// None.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The first line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartLine {
    /// Of a request.
    Request {
        /// Method.
        method: Span,
        /// Where to.
        uri: Span,
        /// Version.
        version: Span,
    },
    /// Of a response.
    Response {
        /// Version.
        version: Span,
        /// Three bytes, digits usually.
        code: Span,
        /// What it means.
        reason: Span,
    },
}

/// Headers that rules ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderKind {
    /// `From`, `f`.
    From,
    /// `To`, `t`.
    To,
    /// `Via`, `v`.
    Via,
    /// `User-Agent`.
    UserAgent,
    /// `Content-Type`, `c`.
    ContentType,
    /// `Content-Length`, `l`.
    ContentLength,
}

impl HeaderKind {
    /// By full name or compact form (RFC 3261 7.3.3), in any case.
    fn find(name: &[u8]) -> Option<HeaderKind> {
        let names: [(&[u8], &[u8], HeaderKind); 6] = [
            (b"from", b"f", HeaderKind::From),
            (b"to", b"t", HeaderKind::To),
            (b"via", b"v", HeaderKind::Via),
            (b"user-agent", b"", HeaderKind::UserAgent),
            (b"content-type", b"c", HeaderKind::ContentType),
            (b"content-length", b"l", HeaderKind::ContentLength),
        ];
        let is_it = |n: &[u8]| name.eq_ignore_ascii_case(n);
        names.into_iter().find(|(full, short, _)| is_it(full) || is_it(short)).map(|(.., k)| k)
    }
}

/// A message.
#[derive(Debug)]
pub struct Message {
    bytes: Box<[u8]>,
    /// The first line.
    pub start: StartLine,
    /// The first line as a whole, without its end.
    pub line: Span,
    /// Bytes of the first line with its end.
    pub line_len: usize,
    /// Bytes up to and with the empty line.
    pub head_len: usize,
    /// Values of headers, as they came, in order.
    headers: Vec<(HeaderKind, Span)>,
}

/// What is at the beginning of some bytes.
#[derive(Debug)]
pub enum Found {
    /// A message's head.
    Message(Message),
    /// A beginning of one.
    More,
    /// Something else.
    Wrong,
}

impl Message {
    /// Reads a request or, to the client, a response.
    pub fn read_message(bytes: &[u8], is_response: bool) -> Found {
        let Some(line_end) = memmem::find(bytes, b"\r\n") else {
            return Found::More;
        };
        let line = bytes.get(..line_end).unwrap_or_default();
        let start = if is_response { response_line(line) } else { request_line(line) };
        let Some(start) = start else { return Found::Wrong };
        let Some(empty) = memmem::find(bytes.get(line_end..).unwrap_or_default(), b"\r\n\r\n")
        else {
            return Found::More;
        };
        let (line_len, head_len) = (line_end + 2, line_end + empty + 4);
        let head = bytes.get(..head_len).unwrap_or_default();
        let Some(headers) = headers(head, line_len) else { return Found::Wrong };
        Found::Message(Message {
            bytes: head.into(),
            start,
            line: Span::new(0, line_end),
            line_len,
            head_len,
            headers,
        })
    }

    /// The bytes of a place.
    pub fn bytes(&self, span: Span) -> &[u8] {
        self.bytes.get(span.from as usize..span.to as usize).unwrap_or_default()
    }

    /// Value `index` of a header.
    pub fn header(&self, kind: HeaderKind, index: usize) -> Option<&[u8]> {
        let mut all = self.headers.iter().filter(|(k, _)| *k == kind);
        all.nth(index).map(|(_, span)| self.bytes(*span))
    }

    /// Bytes of the body, as the first `Content-Length` has it.
    pub fn body_len(&self) -> Option<u64> {
        let text = self.header(HeaderKind::ContentLength, 0)?;
        std::str::from_utf8(text).ok()?.parse().ok()
    }

    /// The version.
    pub fn version(&self) -> &[u8] {
        let (StartLine::Request { version, .. } | StartLine::Response { version, .. }) = self.start;
        self.bytes(version)
    }

    /// Bytes held in addition to the message itself.
    pub fn bytes_held(&self) -> usize {
        self.bytes.len() + self.headers.capacity() * size_of::<(HeaderKind, Span)>()
    }
}

/// `METHOD URI SIP/2.0` (RFC 3261 7.1).
fn request_line(line: &[u8]) -> Option<StartLine> {
    let method_end = line.iter().position(|b| *b == b' ')?;
    let rest = line.get(method_end + 1..)?;
    let uri_end = method_end + 1 + rest.iter().position(|b| *b == b' ')?;
    let method = line.get(..method_end).filter(|m| !m.is_empty())?;
    let uri = line.get(method_end + 1..uri_end).filter(|u| !u.is_empty())?;
    let is_good = method.iter().all(u8::is_ascii_alphabetic)
        && uri.iter().all(|b| b.is_ascii_graphic())
        && is_version(line.get(uri_end + 1..)?);
    is_good.then(|| StartLine::Request {
        method: Span::new(0, method_end),
        uri: Span::new(method_end + 1, uri_end),
        version: Span::new(uri_end + 1, line.len()),
    })
}

/// `SIP/2.0 200 OK` (RFC 3261 7.2).
fn response_line(line: &[u8]) -> Option<StartLine> {
    let version_end = line.iter().position(|b| *b == b' ')?;
    let code_end = version_end + 4;
    let is_good = is_version(line.get(..version_end)?)
        && line.get(code_end) == Some(&b' ')
        && line.iter().all(|b| !b.is_ascii_control());
    is_good.then(|| StartLine::Response {
        version: Span::new(0, version_end),
        code: Span::new(version_end + 1, code_end),
        reason: Span::new(code_end + 1, line.len()),
    })
}

fn is_version(text: &[u8]) -> bool {
    let number = text.strip_prefix(b"SIP/").unwrap_or_default();
    !number.is_empty() && number.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

/// Values of known headers of a head that ends with an empty line. `None` when a line is no header.
fn headers(head: &[u8], from: usize) -> Option<Vec<(HeaderKind, Span)>> {
    let mut all = Vec::new();
    let mut at = from;
    while let Some(rest) = head.get(at..).filter(|rest| *rest != b"\r\n") {
        let len = line_len(rest)?;
        let line = rest.get(..len)?;
        let colon = line.iter().position(|b| *b == b':')?;
        let name = line.get(..colon)?.trim_ascii_end();
        if !name.iter().all(|b| b.is_ascii_graphic()) {
            return None;
        }
        let value = line.get(colon + 1..)?;
        // Line ends within are those of folded lines.
        if value.iter().any(|b| b.is_ascii_control() && !matches!(b, b'\t' | b'\r' | b'\n')) {
            return None;
        }
        if let Some(kind) =
            HeaderKind::find(name).filter(|_| reached::HEADERS_KEPT_MAX.has_room(all.len()))
        {
            let start = at + colon + 1 + (value.len() - value.trim_ascii_start().len());
            let end = start + value.trim_ascii().len();
            all.push((kind, Span::new(start, end)));
        }
        at += len + 2;
    }
    Some(all)
}

/// Bytes of a header line without its end, with the lines folded after it.
fn line_len(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let end = at + memmem::find(bytes.get(at..)?, b"\r\n")?;
        match bytes.get(end + 2) {
            Some(b' ' | b'\t') => at = end + 2,
            _ => return Some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_message(bytes: &[u8], is_response: bool) -> Option<Message> {
        match Message::read_message(bytes, is_response) {
            Found::Message(m) => Some(m),
            Found::More | Found::Wrong => None,
        }
    }

    #[test]
    fn start_lines() {
        // As Suricata 8.0.7 took or refused each.
        for (line, is_response, is_good) in [
            (&b"INVITE sip:a SIP/2.0"[..], false, true),
            (b"INVITE sip:a SIP/3.0", false, true),
            (b"INVITE sip:a SIP/2.0 ", false, false),
            (b"INVITE sip:a HTTP/1.1", false, false),
            (b"INVITE  sip:a SIP/2.0", false, false),
            (b"INVITE sip:a b SIP/2.0", false, false),
            (b"INVITE  SIP/2.0", false, false),
            (b"IN-VITE sip:a SIP/2.0", false, false),
            (b"SIP/2.0 200 OK", true, true),
            (b"SIP/2.0 200 ", true, true),
            (b"SIP/2.0 200", true, false),
            (b"SIP/2.0 2000 OK", true, false),
            (b"SIP/2.0  200 OK", true, false),
            (b"SIP/2.0 200 OK", false, false),
        ] {
            let message = [line, b"\r\n\r\n"].concat();
            assert_eq!(parse_message(&message, is_response).is_some(), is_good, "{line:?}");
        }
    }

    #[test]
    fn values_of_headers() {
        // Lengths as Suricata's bsize had them, but names are found in any case.
        for (text, kind, expected) in [
            ("Via:   a \t", HeaderKind::Via, &["a"][..]),
            ("v: bb\r\nVia : a, b", HeaderKind::Via, &["bb", "a, b"]),
            ("Via: a  \r\n\tbb", HeaderKind::Via, &["a  \r\n\tbb"]),
            ("Via:", HeaderKind::Via, &[""]),
            ("VIA: a:b", HeaderKind::Via, &["a:b"]),
            ("t: x\r\nTo: y", HeaderKind::To, &["x", "y"]),
            ("User-Agent: z", HeaderKind::UserAgent, &["z"]),
            ("l: 5", HeaderKind::ContentLength, &["5"]),
        ] {
            let message = format!("ACK sip:a SIP/2.0\r\n{text}\r\n\r\n");
            let m = parse_message(message.as_bytes(), false).unwrap();
            let all: Vec<&[u8]> = (0..).map_while(|i| m.header(kind, i)).collect();
            assert_eq!(all, expected.iter().map(|v| v.as_bytes()).collect::<Vec<_>>(), "{text}");
        }
        assert!(parse_message(b"ACK sip:a SIP/2.0\r\nbroken\r\n\r\n", false).is_none());
    }
}

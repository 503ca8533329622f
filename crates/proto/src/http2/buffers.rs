//! What rules can ask of a stream: HTTP's buffers over its fields, and those of HTTP/2 alone.
//!
//! Definitions that HTTP/1 has too are its own: here they only get more hooks.

use super::hpack::HeaderList;
use super::side::Side;
use super::tx::{Http2Tx, state};
use crate::files::{FileState, Windows};
use crate::{Buffer, Inspect};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{BufferDef, BufferNeed, Hook};

/// When data of a body is due (Suricata has no settings for it).
const WINDOWS: Windows = Windows { content_limit: 100_000, min_size: 32_768, window: 4_096 };

macro_rules! locals {
    ($($name:ident,)*) => {
        /// Numbers of the buffers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u16)]
        pub(crate) enum Local { $($name,)* }

        impl Local {
            const ALL: &[Local] = &[$(Local::$name,)*];
            /// The buffer of a number.
            pub(crate) fn from_number(n: u16) -> Option<Local> {
                Local::ALL.get(usize::from(n)).copied()
            }
        }
    };
}

locals! {
    FileName, FileData, FileMagic, Body, HostRaw, Host, UserAgent, StatCode, StatMsg, Cookie, HeaderRaw, Protocol, Location,
    Server, ContentType, ContentLen, Connection, Referer, AcceptLang, AcceptEnc, Accept, HeaderNames, Each, Header,
    ResponseLine, RequestLine, Uri, Method, HeaderName,
}

const fn request(local: Local) -> [Hook; 1] {
    [Hook::new(ToServer, state::OPEN, local as u16)]
}

const fn response(local: Local) -> [Hook; 1] {
    [Hook::new(ToClient, state::DATA_SERVER, local as u16)]
}

const fn both(local: Local) -> [Hook; 2] {
    [
        Hook::new(ToServer, state::OPEN, local as u16),
        Hook::new(ToClient, state::DATA_SERVER, local as u16),
    ]
}

const fn body(local: Local) -> [Hook; 2] {
    [
        Hook::new(ToServer, state::DATA_CLIENT, local as u16),
        Hook::new(ToClient, state::DATA_SERVER, local as u16),
    ]
}

const fn more(name: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, hooks, ..BufferDef::PLAIN }
}

/// The buffers.
pub(crate) const BUFFERS: [BufferDef; 32] = [
    BufferDef {
        multi: true,
        ..more("file.name", &body(Local::FileName)).needing(BufferNeed::Bodies)
    },
    BufferDef {
        multi: true,
        streaming: true,
        ..more("file.data", &body(Local::FileData)).needing(BufferNeed::FileData)
    },
    BufferDef {
        multi: true,
        streaming: true,
        ..more("file.magic", &body(Local::FileMagic)).needing(BufferNeed::FileMagic)
    },
    BufferDef {
        streaming: true,
        ..more("http.request_body", &[Hook::new(ToServer, state::DATA_CLIENT, Local::Body as u16)])
            .needing(BufferNeed::FileData)
    },
    BufferDef {
        streaming: true,
        ..more("http.response_body", &response(Local::Body)).needing(BufferNeed::FileData)
    },
    more("http.host.raw", &request(Local::HostRaw)),
    more("http.host", &request(Local::Host)),
    more("http.user_agent", &request(Local::UserAgent)),
    more("http.stat_code", &response(Local::StatCode)),
    more("http.stat_msg", &response(Local::StatMsg)),
    more("http.cookie", &both(Local::Cookie)),
    more("http.header.raw", &both(Local::HeaderRaw)),
    // They are there before a stream is opened, too.
    more(
        "http.protocol",
        &[
            Hook::new(ToServer, state::IDLE, Local::Protocol as u16),
            Hook::new(ToClient, state::DATA_SERVER, Local::Protocol as u16),
        ],
    ),
    more("http.location", &response(Local::Location)),
    more("http.server", &response(Local::Server)),
    more("http.content_type", &both(Local::ContentType)),
    more("http.content_len", &both(Local::ContentLen)),
    more("http.connection", &both(Local::Connection)),
    more("http.referer", &request(Local::Referer)),
    more("http.accept_lang", &request(Local::AcceptLang)),
    more("http.accept_enc", &request(Local::AcceptEnc)),
    more("http.accept", &request(Local::Accept)),
    more("http.header_names", &both(Local::HeaderNames)),
    BufferDef {
        multi: true,
        ..more("http.response_header", &[Hook::new(ToClient, state::OPEN, Local::Each as u16)])
    },
    BufferDef { multi: true, ..more("http.request_header", &request(Local::Each)) },
    more("http.header", &both(Local::Header)),
    more("http.response_line", &response(Local::ResponseLine)),
    more("http.request_line", &[Hook::new(ToServer, state::IDLE, Local::RequestLine as u16)]),
    BufferDef {
        name: "http2.header_name",
        internal: "http2_header_name",
        description: "HTTP2 header name",
        multi: true,
        hooks: &[
            Hook::new(ToServer, state::OPEN, Local::HeaderName as u16),
            Hook::new(ToClient, state::OPEN, Local::HeaderName as u16),
        ],
        ..BufferDef::PLAIN
    },
    more("http.uri.raw", &request(Local::Uri)),
    more("http.uri", &request(Local::Uri)),
    BufferDef { priority: 4, ..more("http.method", &request(Local::Method)) },
];

/// An instance of a buffer of a transaction.
pub(crate) fn buffer(
    tx: &Http2Tx,
    local: Local,
    direction: Direction,
    index: usize,
    how: Inspect,
) -> Option<Buffer<'_>> {
    let side = tx.side(direction);
    if local == Local::FileMagic {
        return side.files.files.get(index)?.magic_window(how);
    }
    if local == Local::FileData || (local == Local::Body && index == 0) {
        return file_window(side, index, how);
    }
    if local == Local::Each {
        let list = side.headers.as_ref()?;
        let all = side.views().each.get_or_init(|| each_field(list));
        return all.get(index).map(|field| Buffer::whole(field));
    }
    if local == Local::HeaderName {
        return Some(Buffer::whole(side.headers.as_ref()?.nth(index)?.1));
    }
    if index > 0 {
        return None;
    }
    let data: &[u8] = match local {
        // Every stream has both, and so has a frame of the connection.
        Local::Protocol => b"HTTP/2",
        Local::StatMsg => return Some(Buffer::whole(b"")),
        Local::RequestLine => side.views().line.get_or_init(|| request_line(side)),
        Local::ResponseLine => side.views().line.get_or_init(|| response_line(side)),
        Local::Method => side.header(b":method")?,
        Local::Uri => side.header(b":path")?,
        Local::StatCode => side.header(b":status")?,
        Local::HostRaw => host(side)?,
        Local::Host => {
            let raw = host(side)?;
            side.views().host.get_or_init(|| normalized_host(raw))
        }
        Local::HeaderRaw => {
            let list = side.headers.as_ref()?;
            side.views().raw.get_or_init(|| fields_text(list, true))
        }
        Local::Header => {
            let list = side.headers.as_ref()?;
            side.views().text.get_or_init(|| fields_text(list, false))
        }
        Local::HeaderNames => {
            let list = side.headers.as_ref().filter(|l| !l.is_empty())?;
            side.views().names.get_or_init(|| header_names(list))
        }
        Local::UserAgent
        | Local::Cookie
        | Local::Location
        | Local::Server
        | Local::ContentType
        | Local::ContentLen
        | Local::Connection
        | Local::Referer
        | Local::AcceptLang
        | Local::AcceptEnc
        | Local::Accept => joined(side, local, direction)?,
        // Suricata names no file of HTTP/2. The others have been given.
        Local::FileName
        | Local::FileData
        | Local::FileMagic
        | Local::Body
        | Local::Each
        | Local::HeaderName => return None,
    };
    (!data.is_empty()).then(|| Buffer::whole(data))
}

/// The fields that have buffers of their own.
const FIELDS: [(Local, &[u8]); 11] = [
    (Local::UserAgent, b"user-agent"),
    (Local::Cookie, b"cookie"),
    (Local::Location, b"location"),
    (Local::Server, b"server"),
    (Local::ContentType, b"content-type"),
    (Local::ContentLen, b"content-length"),
    (Local::Connection, b"connection"),
    (Local::Referer, b"referer"),
    (Local::AcceptLang, b"accept-language"),
    (Local::AcceptEnc, b"accept-encoding"),
    (Local::Accept, b"accept"),
];

/// The value of a field, or all of them joined.
fn joined(side: &Side, local: Local, direction: Direction) -> Option<&[u8]> {
    let at = FIELDS.iter().position(|(l, _)| *l == local)?;
    let is_set_cookie = local == Local::Cookie && direction == ToClient;
    let name = if is_set_cookie { b"set-cookie" } else { FIELDS.get(at)?.1 };
    let list = side.headers.as_ref()?;
    let mut values = list.values(name);
    let first = values.next()?;
    if values.next().is_none() {
        return Some(first);
    }
    let cell = side.views().joined(at)?;
    Some(cell.get_or_init(|| {
        let mut out = Vec::new();
        for (n, value) in list.values(name).enumerate() {
            if n > 0 {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(value);
        }
        out
    }))
}

/// The host as sent.
pub(crate) fn host(side: &Side) -> Option<&[u8]> {
    side.header(b":authority").or_else(|| side.header(b"host"))
}

/// A host without user and port, in lower case.
pub(crate) fn normalized_host(raw: &[u8]) -> Vec<u8> {
    let host = raw.rsplit(|b| *b == b'@').next().unwrap_or_default();
    // The colons of an IPv6 address are in brackets.
    let end = match host.iter().position(|b| *b == b']') {
        Some(bracket) => bracket + 1,
        None => host.iter().position(|b| *b == b':').unwrap_or(host.len()),
    };
    host.get(..end).unwrap_or(host).to_ascii_lowercase()
}

/// Window of a body.
fn file_window(side: &Side, index: usize, how: Inspect) -> Option<Buffer<'_>> {
    let file = side.files.files.get(index)?;
    let (data, start) = file.window(how.inspected, how.at_end || how.inline, WINDOWS)?;
    let is_complete = file.state != FileState::Open || how.at_end;
    Some(Buffer { data, start, is_complete })
}

/// Names and values: Suricata shows size updates and errors as fields without either.
fn shown(list: &HeaderList) -> impl Iterator<Item = (&[u8], &[u8])> {
    list.iter().map(|f| (f.1, f.2))
}

fn is_cookie(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"cookie") || name.eq_ignore_ascii_case(b"set-cookie")
}

/// Bytes between the name and the value of a field.
const BETWEEN: usize = b": ".len();

/// Bytes at the end of a line.
const LINE_END: usize = b"\r\n".len();

fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
}

fn each_field(list: &HeaderList) -> Vec<Vec<u8>> {
    let field = |(name, value): (&[u8], &[u8])| {
        let mut out = Vec::with_capacity(name.len() + value.len() + BETWEEN);
        put_field(&mut out, name, value);
        out
    };
    shown(list).map(field).collect()
}

/// All fields, each on a line; without cookies, which have a buffer of their own, unless they are wanted.
fn fields_text(list: &HeaderList, with_cookies: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(list.text_len() + list.len() * (BETWEEN + LINE_END));
    for (name, value) in shown(list) {
        if with_cookies || !is_cookie(name) {
            put_field(&mut out, name, value);
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}

fn header_names(list: &HeaderList) -> Vec<u8> {
    let names: usize = shown(list).map(|(name, _)| name.len() + LINE_END).sum();
    let mut out = Vec::with_capacity(names + 2 * LINE_END);
    out.extend_from_slice(b"\r\n");
    for (name, _) in shown(list) {
        out.extend_from_slice(name);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

fn request_line(side: &Side) -> Vec<u8> {
    let method = side.header(b":method").unwrap_or_default();
    let path = side.header(b":path").unwrap_or_default();
    [method, b" ", path, b" HTTP/2\r\n"].concat()
}

fn response_line(side: &Side) -> Vec<u8> {
    let status = side.header(b":status").unwrap_or_default();
    [b"HTTP/2 ", status, b"\r\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::super::hpack::FieldKind;
    use super::*;

    /// As Suricata 8.0.7 shows them to rules.
    #[test]
    fn hosts_are_normalized() {
        for (raw, expected) in [
            ("User@Foo.COM:81", "foo.com"),
            ("U:P@Foo.COM:81", "foo.com"),
            ("[::1]:80", "[::1]"),
            ("ex.com", "ex.com"),
        ] {
            assert_eq!(normalized_host(raw.as_bytes()), expected.as_bytes());
        }
    }

    /// The same fields as in a run of Suricata 8.0.7.
    #[test]
    fn fields_are_put_together() {
        let mut tx = Http2Tx::new(2, 1);
        let mut list = HeaderList::default();
        list.push(FieldKind::SizeUpdate(4096), b"", b"");
        for (name, value) in [
            (":method", "GET"),
            (":path", "/a%41?x"),
            ("host", "User@Foo.COM:81"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
            ("accept", "x"),
            ("referer", ""),
        ] {
            list.push(FieldKind::Named, name.as_bytes(), value.as_bytes());
        }
        tx.sides[0].headers = Some(Box::new(list));
        let get = |local, index| {
            let b = buffer(&tx, local, ToServer, index, Inspect::default())?;
            Some(String::from_utf8_lossy(b.data).into_owned())
        };
        let header = ": \r\n:method: GET\r\n:path: /a%41?x\r\nhost: User@Foo.COM:81\r\naccept: x\r\nreferer: \r\n";
        for (local, expected) in [
            (Local::Header, Some(header)),
            (Local::Cookie, Some("a=1, b=2")),
            (Local::Host, Some("foo.com")),
            (Local::HostRaw, Some("User@Foo.COM:81")),
            (Local::RequestLine, Some("GET /a%41?x HTTP/2\r\n")),
            (Local::Accept, Some("x")),
            (Local::Referer, None),
            (Local::UserAgent, None),
            (Local::Each, Some(": ")),
            (Local::HeaderName, Some("")),
        ] {
            assert_eq!(get(local, 0).as_deref(), expected, "{local:?}");
        }
        let names =
            "\r\n\r\n:method\r\n:path\r\nhost\r\ncookie\r\ncookie\r\naccept\r\nreferer\r\n\r\n";
        assert_eq!(get(Local::HeaderNames, 0).as_deref(), Some(names));
        assert_eq!(get(Local::Each, 1).as_deref(), Some(":method: GET"));
        assert_eq!((get(Local::Each, 8), get(Local::Accept, 1)), (None, None));
    }
}

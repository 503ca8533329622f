//! What rules can ask of a transaction: the table of buffers, and the buffers.
//!
//! The definitions are in the order in which Suricata registers its keywords, because rules
//! whose best patterns are equally good prefer the buffer registered last.

use super::message::{Message, Tx, progress};
use crate::buffer::local_buffers;
use crate::{Buffer, Inspect, files};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{BufferDef, BufferNeed, Hook};
use std::ops::Range;

/// Frames, in the order of their numbers.
pub(crate) mod frame {
    /// A request with its body.
    pub(crate) const REQUEST: u8 = 0;
    /// A response with its body.
    pub(crate) const RESPONSE: u8 = 1;
}

/// Names of the frames.
pub(super) const FRAMES: &[&str] = &["request", "response"];

/// Name of the protocol in the registry.
pub(crate) const NAME: &str = "http1";

local_buffers! {
    FileName, FileMagic, FileData, ResponseBody, HostRaw, Host, UserAgent, StatCode, StatMsg, Cookie, HeaderRaw,
    Start, Protocol, Location, Server, ContentType, ContentLen, Connection, Referer, AcceptLang,
    AcceptEnc, Accept, HeaderNames, ResponseHeader, RequestHeader, Header, RequestBody,
    ResponseLine, RequestLine, UriRaw, Uri, Method,
}

/// Hook to the server.
const fn ts(progress: u8, local: Local) -> Hook {
    Hook::new(ToServer, progress, local as u16)
}

/// Hook to the client.
const fn tc(progress: u8, local: Local) -> Hook {
    Hook::new(ToClient, progress, local as u16)
}

use progress::{BODY, HEADERS, LINE};

/// A header's value, in requests, responses or both.
macro_rules! field {
    ($name:literal, $alias:literal, $what:literal, [$($hook:expr),+]) => {
        BufferDef {
            name: $name,
            internal: $alias,
            description: $what,
            aliases: &[$alias],
            hooks: &[$($hook),+],
            ..BufferDef::PLAIN
        }
    };
}

/// All buffers.
pub(crate) const BUFFERS: &[BufferDef] = &[
    files::name_buffer(&[ts(BODY, Local::FileName), tc(BODY, Local::FileName)]),
    files::magic_buffer(&[ts(BODY, Local::FileMagic), tc(BODY, Local::FileMagic)]),
    // The modifiers of response bodies are those of files to Suricata 8.0.7: they match requests' files, too.
    BufferDef {
        modifier: Some("http_server_body"),
        pcre_flag: Some(b'Q'),
        ..files::data_buffer(&[ts(BODY, Local::FileData), tc(BODY, Local::FileData)])
    },
    BufferDef {
        name: "http.response_body",
        internal: "http_server_body",
        description: "http response body",
        sets_flow: Some(Direction::ToClient),
        streaming: true,
        need: BufferNeed::Bodies,
        hooks: &[tc(BODY, Local::ResponseBody)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.host.raw",
        internal: "http_raw_host",
        description: "http raw host header",
        modifier: Some("http_raw_host"),
        pcre_flag: Some(b'Z'),
        hooks: &[ts(HEADERS, Local::HostRaw)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.host",
        internal: "http_host",
        description: "http host",
        modifier: Some("http_host"),
        pcre_flag: Some(b'W'),
        lower_case: true,
        hooks: &[ts(HEADERS, Local::Host)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.user_agent",
        internal: "http_user_agent",
        description: "http user agent",
        modifier: Some("http_user_agent"),
        pcre_flag: Some(b'V'),
        hooks: &[ts(HEADERS, Local::UserAgent)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.stat_code",
        internal: "http_stat_code",
        description: "http response status code",
        modifier: Some("http_stat_code"),
        pcre_flag: Some(b'S'),
        priority: 4,
        hooks: &[tc(LINE, Local::StatCode)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        // Listed with priority 3 by Suricata, but it behaves as 2 (measured).
        name: "http.stat_msg",
        internal: "http_stat_msg",
        description: "http response status message",
        modifier: Some("http_stat_msg"),
        pcre_flag: Some(b'Y'),
        hooks: &[tc(LINE, Local::StatMsg)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.cookie",
        internal: "http_cookie",
        description: "http cookie header",
        modifier: Some("http_cookie"),
        pcre_flag: Some(b'C'),
        hooks: &[ts(HEADERS, Local::Cookie), tc(HEADERS, Local::Cookie)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.header.raw",
        internal: "http_raw_header",
        description: "raw http headers",
        modifier: Some("http_raw_header"),
        pcre_flag: Some(b'D'),
        hooks: &[ts(HEADERS, Local::HeaderRaw), tc(HEADERS, Local::HeaderRaw)],
        ..BufferDef::PLAIN
    },
    field!(
        "http.start",
        "http_start",
        "http start: request/response line + headers",
        [ts(HEADERS, Local::Start), tc(HEADERS, Local::Start)]
    ),
    field!(
        "http.protocol",
        "http_protocol",
        "http protocol",
        [ts(LINE, Local::Protocol), tc(LINE, Local::Protocol)]
    ),
    field!(
        "http.location",
        "http_location",
        "http location header",
        [tc(HEADERS, Local::Location)]
    ),
    field!("http.server", "http_server", "http server header", [tc(HEADERS, Local::Server)]),
    field!(
        "http.content_type",
        "http_content_type",
        "http content type header",
        [ts(HEADERS, Local::ContentType), tc(HEADERS, Local::ContentType)]
    ),
    field!(
        "http.content_len",
        "http_content_len",
        "http content length header",
        [ts(HEADERS, Local::ContentLen), tc(HEADERS, Local::ContentLen)]
    ),
    field!(
        "http.connection",
        "http_connection",
        "http connection header",
        [ts(HEADERS, Local::Connection), tc(HEADERS, Local::Connection)]
    ),
    field!("http.referer", "http_referer", "http referer header", [ts(HEADERS, Local::Referer)]),
    field!(
        "http.accept_lang",
        "http_accept_lang",
        "http accept language header",
        [ts(HEADERS, Local::AcceptLang)]
    ),
    field!(
        "http.accept_enc",
        "http_accept_enc",
        "http accept encoding header",
        [ts(HEADERS, Local::AcceptEnc)]
    ),
    field!("http.accept", "http_accept", "http accept header", [ts(HEADERS, Local::Accept)]),
    field!(
        "http.header_names",
        "http_header_names",
        "http header names",
        [ts(HEADERS, Local::HeaderNames), tc(HEADERS, Local::HeaderNames)]
    ),
    BufferDef {
        name: "http.response_header",
        internal: "http_response_header",
        description: "HTTP header name and value",
        multi: true,
        hooks: &[tc(HEADERS, Local::ResponseHeader)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.request_header",
        internal: "http_request_header",
        description: "HTTP header name and value",
        multi: true,
        hooks: &[ts(HEADERS, Local::RequestHeader)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.header",
        internal: "http_header",
        description: "http headers",
        modifier: Some("http_header"),
        pcre_flag: Some(b'H'),
        hooks: &[ts(HEADERS, Local::Header), tc(HEADERS, Local::Header)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.request_body",
        internal: "http_client_body",
        description: "http request body",
        modifier: Some("http_client_body"),
        pcre_flag: Some(b'P'),
        streaming: true,
        need: BufferNeed::Bodies,
        hooks: &[ts(BODY, Local::RequestBody)],
        ..BufferDef::PLAIN
    },
    field!(
        "http.response_line",
        "http_response_line",
        "http response line",
        [tc(LINE, Local::ResponseLine)]
    ),
    field!(
        "http.request_line",
        "http_request_line",
        "http request line",
        [ts(LINE, Local::RequestLine)]
    ),
    BufferDef {
        name: "http.uri.raw",
        internal: "http_raw_uri",
        description: "raw http uri",
        modifier: Some("http_raw_uri"),
        pcre_flag: Some(b'I'),
        hooks: &[ts(LINE, Local::UriRaw)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.uri",
        internal: "http_uri",
        description: "http request uri",
        modifier: Some("http_uri"),
        pcre_flag: Some(b'U'),
        hooks: &[ts(LINE, Local::Uri)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "http.method",
        internal: "http_method",
        description: "http request method",
        modifier: Some("http_method"),
        pcre_flag: Some(b'M'),
        priority: 4,
        hooks: &[ts(LINE, Local::Method)],
        ..BufferDef::PLAIN
    },
];

/// Readers of a body, see [`super::body::Body`].
const READER_BODY: usize = 0;
const READER_FILE: usize = 1;

/// Whether what follows the headers has begun: of a CONNECT that is the server's answer. Of a CONNECT that is
/// accepted, and of a 101 that changes the protocol, it never does.
fn is_past_headers(tx: &Tx, direction: Direction) -> bool {
    let m = tx.message(direction);
    let is_upgrade = direction == Direction::ToClient
        && tx.status == Some(101)
        && ["content-length", "transfer-encoding"]
            .iter()
            .all(|name| m.headers.get(name.as_bytes()).is_none());
    let is_tunnel = is_connect(tx, direction) && matches!(tx.status, Some(200..=299));
    m.progress > HEADERS && !is_upgrade && !is_tunnel
}

fn is_connect(tx: &Tx, direction: Direction) -> bool {
    direction == Direction::ToServer && tx.is_method(b"CONNECT")
}

/// An instance of a buffer of a transaction.
pub(crate) fn buffer(
    tx: &Tx,
    local: Local,
    direction: Direction,
    index: usize,
    how: Inspect,
) -> Option<Buffer<'_>> {
    let m = tx.message(direction);
    match local {
        Local::FileName => {
            let file = m.file_list().get(index)?;
            return (!file.name.is_empty()).then(|| Buffer::whole(&file.name));
        }
        Local::FileMagic => return m.file_list().get(index)?.magic_window(how),
        Local::FileData if direction == ToServer || index > 0 => {
            return file_window(tx, direction, index, how);
        }
        Local::ResponseHeader | Local::RequestHeader => {
            let (text, list) = m.views().each.get_or_init(|| each_header(m));
            return Some(Buffer::whole(text.get(list.get(index)?.clone())?));
        }
        _ => {}
    }
    if index > 0 {
        return None;
    }
    let field = |name: &[u8]| m.headers.get(name).filter(|v| !v.is_empty());
    let data = match local {
        Local::FileData => return response_window(tx, READER_FILE, how),
        Local::ResponseBody => return response_window(tx, READER_BODY, how),
        Local::RequestBody => {
            let is_over = m.progress > BODY;
            return m.body.window(READER_BODY, how, is_over, tx.limits(direction));
        }
        Local::HostRaw => tx.uri_host.as_deref().or_else(|| field(b"host"))?,
        Local::Host => tx.host.as_deref()?,
        Local::UserAgent => field(b"user-agent")?,
        Local::StatCode => m.in_line(tx.status_text)?,
        Local::StatMsg => m.in_line(tx.status_message)?,
        Local::Cookie if direction == ToServer => field(b"cookie")?,
        Local::Cookie => field(b"set-cookie")?,
        Local::HeaderRaw if is_connect(tx, direction) && !is_past_headers(tx, direction) => {
            return None;
        }
        Local::HeaderRaw if !m.is_head_whole && m.progress <= HEADERS => return None,
        Local::HeaderRaw => m.headers.raw().get(..m.scanned())?,
        Local::Start | Local::Header | Local::HeaderNames if !is_past_headers(tx, direction) => {
            return None;
        }
        Local::Start if m.line.is_empty() => return None,
        Local::Start => m.views().start.get_or_init(|| start(m)),
        Local::Protocol => m.in_line(m.protocol)?,
        Local::Location => field(b"location")?,
        Local::Server => field(b"server")?,
        Local::ContentType => field(b"content-type")?,
        Local::ContentLen => field(b"content-length")?,
        Local::Connection => field(b"connection")?,
        Local::Referer => field(b"referer")?,
        Local::AcceptLang => field(b"accept-language")?,
        Local::AcceptEnc => field(b"accept-encoding")?,
        Local::Accept => field(b"accept")?,
        Local::HeaderNames => m.views().names.get_or_init(|| header_names(m)),
        Local::Header => m.views().headers.get_or_init(|| headers(m)),
        Local::ResponseLine | Local::RequestLine => &m.line,
        Local::UriRaw => tx.target()?,
        // Rules see the name that stands for a request which was not seen in the raw buffer only.
        Local::Uri if tx.is_request_unseen => return None,
        Local::Uri => tx.uri.as_deref()?,
        Local::Method => tx.method()?,
        Local::FileName | Local::FileMagic | Local::ResponseHeader | Local::RequestHeader => {
            return None;
        }
    };
    (!data.is_empty()).then(|| Buffer::whole(data))
}

/// Window of a file that travels to the server.
fn file_window(tx: &Tx, direction: Direction, index: usize, how: Inspect) -> Option<Buffer<'_>> {
    let limits = tx.limits(direction);
    let file = tx.message(direction).file_list().get(index)?;
    let inspected = how.inspected;
    let (data, start) = file.content();
    let end = start + data.len() as u64;
    let is_over = file.state != crate::files::FileState::Open || how.at_end;
    let inline = limits.inline.unwrap_or(how.inline);
    let due = is_over || inline || file.size >= limits.inspect_min;
    if !due || end == 0 || (inspected >= end && !is_over) {
        return None;
    }
    let from = super::body::window_start(inspected, end, limits).max(start);
    let skip = usize::try_from(from - start).unwrap_or(usize::MAX);
    Some(Buffer { data: data.get(skip..).unwrap_or_default(), start: from, is_complete: is_over })
}

/// Window of a response body, Flash files unpacked when that is wanted.
fn response_window(tx: &Tx, reader: usize, how: Inspect) -> Option<Buffer<'_>> {
    let m = &tx.response;
    let window = m.body.window(reader, how, m.progress > BODY, tx.limits(ToClient))?;
    if let Some(depths) = &tx.config.swf
        && reader == READER_FILE
        && window.start == 0
        && window.is_complete
        && let Some(flash) =
            m.views().flash.get_or_init(|| super::flash::unpack(window.data, depths))
    {
        return Some(Buffer { data: flash, ..window });
    }
    Some(window)
}

/// `Name: value` of every field in turn.
fn each_header(m: &Message) -> (Vec<u8>, Vec<Range<usize>>) {
    let mut text = Vec::with_capacity(m.scanned());
    let mut list = Vec::with_capacity(m.headers.len());
    for (name, value) in m.headers.iter() {
        let from = text.len();
        text.extend_from_slice(name);
        text.extend_from_slice(b": ");
        text.extend_from_slice(value);
        list.push(from..text.len());
    }
    (text, list)
}

fn put_headers<'a>(out: &mut Vec<u8>, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
    for (name, value) in fields {
        for part in [name, b": ", value, b"\r\n"] {
            out.extend_from_slice(part);
        }
    }
}

/// The fields normalized, cookies left out (they have a buffer of their own).
fn headers(m: &Message) -> Vec<u8> {
    let is_cookie = |name: &[u8]| {
        name.eq_ignore_ascii_case(b"cookie") || name.eq_ignore_ascii_case(b"set-cookie")
    };
    let mut out = Vec::with_capacity(m.scanned());
    put_headers(&mut out, m.headers.iter().filter(|(name, _)| !is_cookie(name)));
    out
}

/// The names alone, each on a line, between empty lines.
fn header_names(m: &Message) -> Vec<u8> {
    if m.headers.len() == 0 {
        return Vec::new();
    }
    let mut out = b"\r\n".to_vec();
    for (name, _) in m.headers.iter() {
        out.extend_from_slice(name);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// First line and fields. A response's line has its own line end as well.
fn start(m: &Message) -> Vec<u8> {
    let mut out = Vec::with_capacity(m.line.len() + m.scanned() + 4);
    out.extend_from_slice(&m.line);
    out.extend_from_slice(b"\r\n");
    put_headers(&mut out, m.headers.iter());
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_definitions_agree() {
        for (i, def) in BUFFERS.iter().enumerate() {
            for hook in def.hooks {
                assert_eq!(usize::from(hook.local), i, "{}", def.name);
                assert_eq!(Local::from_number(hook.local).map(|l| l as u16), Some(hook.local));
            }
        }
        assert_eq!(Local::from_number(BUFFERS.len() as u16), None);
    }
}

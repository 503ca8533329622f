//! The client's direction: request line, header block, body, one step at a time.
//!
//! Read as servers read: leniently. A step takes what it can from the cursor; when it needs more it
//! has kept what was there, so that pieces of any size lead to the same requests.

use super::entity::decode_entity;
use super::events::Event;
use super::head::{HeadStep, content_encodings, read_head};
use super::headers::Side;
use super::message::{Coding, Span, Tx, Version, progress};
use super::parser::{Cursor, Halt, Http1, State};
use super::text::{
    ChunkSize, chomp, chunk_size, contains_nocase, content_length, is_bad_chunk_start,
    is_chunk_control, is_empty_line, is_space, prefix, split_prefix, starts_with_nocase, trim,
};
use super::uri::{self, host_port};
use super::{limits, settings::Personality};
use crate::ParseContext;
use gabion_record::Direction::ToServer;

/// Methods a request line is recognized by.
pub(crate) const METHODS: [&[u8]; 28] = [
    b"GET",
    b"PUT",
    b"POST",
    b"DELETE",
    b"CONNECT",
    b"OPTIONS",
    b"TRACE",
    b"PATCH",
    b"PROPFIND",
    b"PROPPATCH",
    b"MKCOL",
    b"COPY",
    b"MOVE",
    b"LOCK",
    b"UNLOCK",
    b"VERSION-CONTROL",
    b"CHECKOUT",
    b"UNCHECKOUT",
    b"CHECKIN",
    b"UPDATE",
    b"LABEL",
    b"REPORT",
    b"MKWORKSPACE",
    b"MKACTIVITY",
    b"BASELINE-CONTROL",
    b"MERGE",
    b"INVALID",
    b"HEAD",
];

fn is_known_method(method: &[u8]) -> bool {
    METHODS.contains(&method)
}

impl Http1 {
    /// Does what can be done next with the client's bytes.
    pub(super) fn request_step(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        match self.request.state {
            State::Idle => self.request_idle(cx, input),
            State::Line => self.request_line(cx, input),
            State::Version => self.request_version(input),
            State::Headers => self.request_headers(cx, input),
            State::ConnectWait => self.connect_wait(input),
            State::ConnectProbe => self.connect_probe(cx, input),
            State::BodyLength => self.request_body_length(cx, input),
            State::ChunkSize => self.request_chunk_size(input),
            State::ChunkData => self.request_chunk_data(cx, input),
            State::ChunkEnd => self.request_chunk_end(input),
            State::Finalize => self.request_finalize(cx, input),
            State::Ignore => {
                input.take_bytes(usize::MAX);
                Err(Halt::More)
            }
            // States of responses.
            State::BodyDetermine | State::BodyClose => Err(Halt::Fail),
        }
    }

    /// A line is complete in the cursor, or kept until it is. `None`: more bytes are needed.
    fn request_take_line(&mut self, input: &mut Cursor<'_>) -> Result<Option<Vec<u8>>, Halt> {
        let rest = input.rest();
        let lf = memchr::memchr(b'\n', rest);
        if lf.is_none() && !self.request.is_closed {
            let taken = input.take_bytes(usize::MAX);
            return self.request_keep(taken).map(|()| None);
        }
        let taken = input.take_bytes(lf.map_or(usize::MAX, |n| n + 1));
        self.request_keep(taken)?;
        Ok(Some(std::mem::take(&mut self.request.line)))
    }

    /// Keeps the beginning of a line.
    fn request_keep(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        let limit = self.current(ToServer).map_or(18000, |t| t.config.field_limit);
        if !bytes.is_empty() && self.request.line.len() + bytes.len() > limit {
            self.warn(ToServer, Event::RequestFieldTooLong);
            return Err(Halt::Fail);
        }
        self.request.line.extend_from_slice(bytes);
        Ok(())
    }

    fn request_idle(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        if input.is_empty() && self.request.line.is_empty() {
            return Err(Halt::More);
        }
        let config = self.config(cx.endpoints);
        self.begin(ToServer, &config)?;
        self.tx_at(ToServer)?.request.progress = progress::LINE;
        self.request.left = 0;
        self.request.state = State::Line;
        Ok(())
    }

    fn request_line(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        // The usual case needs no copy: the whole line is in the cursor.
        let rest = input.rest();
        let lf = memchr::memchr(b'\n', rest);
        let limit = self.tx_at(ToServer)?.config.field_limit;
        if self.request.line.is_empty()
            && let Some(n) = lf
            && n < limit
        {
            let line = input.take_bytes(n + 1);
            self.request_line_complete(cx, line)?;
            self.hide_line(ToServer, input.is_empty());
            return Ok(());
        }
        let Some(line) = self.request_take_line(input)? else { return Err(Halt::More) };
        if line.is_empty() {
            return Err(Halt::More);
        }
        self.request_line_complete(cx, &line)?;
        self.hide_line(ToServer, input.is_empty());
        Ok(())
    }

    fn request_line_complete(
        &mut self,
        cx: &mut ParseContext<'_>,
        line: &[u8],
    ) -> Result<(), Halt> {
        if is_empty_line(line) {
            return Ok(());
        }
        self.parse_request_line(chomp(line))?;
        let config = self.config(cx.endpoints);
        let tx = self.tx_at(ToServer)?;
        let target = tx.target().map(<[u8]>::to_vec);
        let mut is_double_encoded = false;
        let mut is_host_invalid = false;
        if let Some(target) = target {
            if tx.is_method(b"CONNECT") {
                // An authority, not a URI.
                if let Some(hp) = host_port(&target) {
                    tx.uri_host = Some(hp.host.to_ascii_lowercase().into());
                    tx.port = hp.port;
                    is_host_invalid = !hp.is_valid;
                }
            } else {
                let n = uri::normalize(&uri::split(&target), &config.uri);
                tx.uri = n.text.map(Vec::into_boxed_slice);
                tx.path = n.path.map(Vec::into_boxed_slice);
                tx.uri_host = n.host.map(Vec::into_boxed_slice);
                tx.port = n.port;
                is_double_encoded = n.is_double_encoded;
                is_host_invalid = n.is_host_invalid;
            }
        }
        if is_host_invalid {
            // Suricata 8.0.7 checks the host twice here, and once more with the end of the request.
            self.tx_at(ToServer)?.is_uri_host_invalid = true;
            self.warn(ToServer, Event::UriHostInvalid);
            self.warn(ToServer, Event::UriHostInvalid);
        }
        if is_double_encoded {
            self.warn(ToServer, Event::DoubleEncodedUri);
        }
        let tx = self.tx_at(ToServer)?;
        tx.request.progress = progress::HEADERS;
        self.request.state = if tx.is_http09 { State::Version } else { State::Headers };
        Ok(())
    }

    /// Takes a request line apart: method, target (which may hold spaces), protocol.
    fn parse_request_line(&mut self, line: &[u8]) -> Result<(), Halt> {
        let tx = self.tx_at(ToServer)?;
        let apache = tx.config.personality == Personality::Apache2;
        tx.request.line.clear();
        tx.request.line.extend_from_slice(line);
        let text = if apache { split_prefix(line, |b| b != 0).0 } else { line };
        let (space, rest) = split_prefix(text, is_space);
        let (method, rest) = split_prefix(rest, |b| !is_space(b));
        let (delimiter, rest) = split_prefix(rest, is_space);
        let method_from = if apache { 0 } else { space.len() };
        tx.method = Span::new(method_from..space.len() + method.len());
        let known = is_known_method(tx.method().unwrap_or_default());
        let mut warnings = Vec::new();
        if !space.is_empty() {
            warnings.push(Event::RequestLineLeadingWhitespace);
        }
        if delimiter.iter().any(|b| *b != b' ') {
            warnings.push(Event::MethodDelimNonCompliant);
        }
        let rest = trim(rest);
        let (mut target, mut protocol) = uri::split_target(rest, |b| b == b' ');
        if target.iter().any(|b| is_space(*b) && *b != b' ') {
            warnings.push(Event::UriDelimNonCompliant);
            if target.len() == rest.len() {
                (target, protocol) = uri::split_target(rest, is_space);
            }
        }
        if rest.is_empty() {
            tx.is_http09 = true;
            tx.request.version = Version::V09;
            if !known {
                warnings.push(Event::RequestLineUnknownMethod);
            }
        } else {
            tx.target = span_in(line, target);
            if protocol.is_empty() {
                tx.is_http09 = true;
                tx.request.version = Version::V09;
                if !known {
                    warnings.push(Event::RequestLineUnknownMethodNoProtocol);
                }
            } else {
                tx.request.protocol = span_in(line, protocol);
                let (version, extra) = parse_version(protocol);
                tx.request.version = version;
                if extra {
                    warnings.push(Event::ProtocolContainsExtraData);
                }
                if !known && version == Version::Invalid {
                    warnings.push(Event::RequestLineUnknownMethodInvalidProtocol);
                }
            }
        }
        for w in warnings {
            self.warn(ToServer, w);
        }
        Ok(())
    }

    /// A line without protocol is HTTP/0.9 when nothing but a little white space follows.
    fn request_version(&mut self, input: &mut Cursor<'_>) -> Result<(), Halt> {
        if !input.is_empty() {
            self.head_grows(ToServer);
        }
        let rest = input.rest();
        let spaces = prefix(rest, is_space);
        let seen = self.request.line.len() + spaces;
        if spaces == rest.len() && seen <= limits::HTTP09_SPACE_MAX && !self.request.is_closed {
            let taken = input.take_bytes(usize::MAX);
            self.request_keep(taken)?;
            return Err(Halt::More);
        }
        if spaces == rest.len() && seen <= limits::HTTP09_SPACE_MAX {
            self.request_is_http09();
            return Ok(());
        }
        // The white space belongs to the header block.
        let kept = std::mem::take(&mut self.request.line);
        let tx = self.tx_at(ToServer)?;
        tx.is_http09 = false;
        tx.request.headers.raw_mut().extend_from_slice(&kept);
        self.request.state = State::Headers;
        self.warn(ToServer, Event::RequestLineMissingProtocol);
        Ok(())
    }

    /// The server answers a line without protocol: so it was HTTP/0.9.
    pub(super) fn request_is_http09(&mut self) {
        self.request.line.clear();
        self.request.state = State::Finalize;
    }

    fn request_headers(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        if !input.is_empty() {
            self.head_grows(ToServer);
        }
        match read_head(self, Side::Request, input)? {
            HeadStep::More => Err(Halt::More),
            HeadStep::End => self.request_head_complete(cx),
            HeadStep::Cut => {
                self.tx_at(ToServer)?.request.progress = progress::TRAILER;
                self.request.state = State::Finalize;
                Ok(())
            }
        }
    }

    fn request_head_complete(&mut self, cx: &mut ParseContext<'_>) -> Result<(), Halt> {
        let tx = self.tx_at(ToServer)?;
        tx.request.forget_views();
        if tx.request.progress > progress::HEADERS {
            self.request.state = State::Finalize;
            return Ok(());
        }
        tx.request.is_head_whole = true;
        for event in request_framing(self)? {
            self.warn(ToServer, event);
        }
        let tx = self.tx_at(ToServer)?;
        request_host(tx);
        let is_connect = tx.is_method(b"CONNECT");
        let authorization = tx.request.headers.get(b"authorization");
        let unrecognized = authorization.is_some_and(|a| {
            ![&b"basic"[..], b"digest", b"bearer"].iter().any(|k| starts_with_nocase(a, k))
        });
        if unrecognized {
            tx.raise_at_end(Event::AuthUnrecognized);
        }
        content_encodings(self, Side::Request)?;
        if is_connect {
            self.request.state = State::ConnectWait;
            return Ok(());
        }
        self.request_body_determine(cx)
    }

    fn request_body_determine(&mut self, _cx: &mut ParseContext<'_>) -> Result<(), Halt> {
        let tx = self.tx_at(ToServer)?;
        let length = tx.request.content_length.unwrap_or(0);
        let state = match tx.request.coding {
            Coding::Chunked => {
                tx.request.progress = progress::BODY;
                State::ChunkSize
            }
            Coding::Identity if length > 0 => {
                tx.request.progress = progress::BODY;
                self.request.left = length;
                State::BodyLength
            }
            Coding::Identity | Coding::None => State::Finalize,
            // What delimits the body can't be known, so neither can the next request be found.
            Coding::Unknown | Coding::Invalid => return Err(Halt::Fail),
        };
        self.request.state = state;
        Ok(())
    }

    fn connect_wait(&mut self, _input: &mut Cursor<'_>) -> Result<(), Halt> {
        let tx = self.tx_at(ToServer)?;
        if tx.response.progress <= progress::LINE {
            return Err(Halt::Wait);
        }
        self.request.state = match tx.status {
            Some(200..=299) => State::ConnectProbe,
            _ => State::Finalize,
        };
        Ok(())
    }

    /// In an accepted tunnel: plain HTTP is followed, anything else left alone.
    fn connect_probe(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        let rest = input.rest();
        let Some(n) = rest.iter().position(|b| matches!(b, b'\n' | 0)) else {
            if input.is_empty() {
                return Err(Halt::More);
            }
            let taken = input.take_bytes(usize::MAX);
            self.request_keep(taken)?;
            return Err(Halt::More);
        };
        let mut line = self.request.line.clone();
        line.extend_from_slice(&rest[..=n]);
        let (method, _) = split_prefix(split_prefix(&line, is_space).1, |b| !is_space(b));
        if is_known_method(method) {
            return self.request_complete(cx);
        }
        self.response.is_tunnel = true;
        Err(Halt::Tunnel)
    }

    fn request_body_length(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        let n = usize::try_from(self.request.left).unwrap_or(usize::MAX);
        let data = input.take_bytes(n);
        if data.is_empty() {
            return Err(Halt::More);
        }
        self.request.left -= data.len() as u64;
        decode_entity(self, cx, ToServer, Some(data))?;
        if self.request.left > 0 {
            return Err(Halt::More);
        }
        self.request.state = State::Finalize;
        decode_entity(self, cx, ToServer, None)
    }

    fn request_chunk_size(&mut self, input: &mut Cursor<'_>) -> Result<(), Halt> {
        let rest = input.rest();
        if self.request.line.iter().all(|b| is_chunk_control(*b)) && is_bad_chunk_start(rest) {
            return Err(Halt::Fail);
        }
        if memchr::memchr(b'\n', rest).is_none() {
            let taken = input.take_bytes(usize::MAX);
            self.request_keep(taken)?;
            return Err(Halt::More);
        }
        let Some(line) = self.request_take_line(input)? else { return Err(Halt::More) };
        let tx = self.tx_at(ToServer)?;
        tx.request.message_len = tx.request.message_len.saturating_add(line.len() as u64);
        match chunk_size(&line) {
            ChunkSize::Blank => {}
            ChunkSize::Size(size, has_extension) => {
                if has_extension && tx.first_time(oddity::REQUEST_CHUNK_EXTENSION) {
                    self.warn(ToServer, Event::RequestChunkExtension);
                }
                self.request.left = size;
                self.request.state = if size == 0 {
                    self.tx_at(ToServer)?.request.progress = progress::TRAILER;
                    State::Headers
                } else {
                    State::ChunkData
                };
            }
            // Suricata raises the event for a number that is too large, not for what is none.
            ChunkSize::TooLarge => {
                self.warn(ToServer, Event::InvalidRequestChunkLen);
                return Err(Halt::Fail);
            }
            ChunkSize::Invalid => return Err(Halt::Fail),
        }
        Ok(())
    }

    fn request_chunk_data(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        let data = input.take_bytes(usize::try_from(self.request.left).unwrap_or(usize::MAX));
        if data.is_empty() {
            return Err(Halt::More);
        }
        self.request.left -= data.len() as u64;
        decode_entity(self, cx, ToServer, Some(data))?;
        if self.request.left == 0 {
            self.request.state = State::ChunkEnd;
        }
        Ok(())
    }

    fn request_chunk_end(&mut self, input: &mut Cursor<'_>) -> Result<(), Halt> {
        let lf = memchr::memchr(b'\n', input.rest());
        let n = input.take_bytes(lf.map_or(usize::MAX, |n| n + 1)).len();
        let tx = self.tx_at(ToServer)?;
        tx.request.message_len = tx.request.message_len.saturating_add(n as u64);
        if lf.is_none() {
            return Err(Halt::More);
        }
        self.request.state = State::ChunkSize;
        Ok(())
    }

    /// What follows a request in the same piece: the next one, or more of this one's body.
    fn request_finalize(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        if input.is_empty() && self.request.line.is_empty() {
            return self.request_complete(cx);
        }
        let from = input.at;
        let kept = self.request.line.len();
        let Some(line) = self.request_take_line(input)? else { return Err(Halt::More) };
        let has_body =
            matches!(self.tx_at(ToServer)?.request.coding, Coding::Identity | Coding::Chunked);
        if is_empty_line(&line) && !has_body {
            // A line end too many (RFC 9112 2.2). Behind a body Suricata takes it for a part of it.
            return Ok(());
        }
        let (method, _) = split_prefix(split_prefix(&line, is_space).1, |b| !is_space(b));
        if !is_known_method(method) {
            if !method.is_empty() {
                self.warn(ToServer, Event::RequestBodyUnexpected);
            }
            return decode_entity(self, cx, ToServer, Some(&line));
        }
        self.request.line = line[..kept].to_vec();
        input.at = from;
        self.request_complete(cx)
    }

    /// The request is over.
    fn request_complete(&mut self, cx: &mut ParseContext<'_>) -> Result<(), Halt> {
        let tx = self.tx_at(ToServer)?;
        let http09 = tx.is_http09;
        if tx.request.progress < progress::COMPLETE {
            if matches!(tx.request.coding, Coding::Identity | Coding::Chunked) {
                decode_entity(self, cx, ToServer, None)?;
            }
            super::entity::close_entity(self, ToServer);
            let tx = self.tx_at(ToServer)?;
            tx.request.progress = progress::COMPLETE;
            // Suricata reports these when the request is over: never of a CONNECT that is accepted.
            for event in std::mem::take(&mut tx.at_end).into_iter().flatten() {
                self.warn(ToServer, event);
            }
            cx.trigger_raw[0] = true;
        }
        self.request.state = if http09 { State::Ignore } else { State::Idle };
        self.request.id += 1;
        Ok(())
    }

    /// Bytes of the client are lost. Whether that is where none may be missing, which the end of a body is too.
    pub(super) fn request_gap(&mut self, cx: &mut ParseContext<'_>, len: u64) -> bool {
        if self.request.state == State::BodyLength {
            let n = len.min(self.request.left);
            super::entity::gap_entity(self, ToServer, n);
            self.request.left -= n;
            if self.request.left > 0 {
                return false;
            }
            self.request.state = State::Finalize;
            let _ = decode_entity(self, cx, ToServer, None);
        }
        if self.request.state == State::Ignore {
            return false;
        }
        if self.request.state == State::Finalize {
            let _ = self.request_complete(cx);
        }
        true
    }
}

/// Kinds of oddities that are reported once a transaction.
pub(crate) mod oddity {
    pub(crate) const REQUEST_CHUNK_EXTENSION: u16 = 1;
    pub(crate) const RESPONSE_CHUNK_EXTENSION: u16 = 2;
    pub(crate) const FIELD_INVALID: u16 = 4;
    pub(crate) const INVALID_FOLDING: u16 = 8;
    pub(crate) const FIELD_UNPARSEABLE: u16 = 16;
    pub(crate) const CONTINUE_SEEN: u16 = 32;
}

/// How the body is delimited, by RFC 9112 6 and what servers do with what breaks it.
fn request_framing(http: &mut Http1) -> Result<Vec<Event>, Halt> {
    let mut events = Vec::new();
    let tx = http.tx_at(ToServer)?;
    let headers = &tx.request.headers;
    let length = headers.get(b"content-length").map(content_length);
    let coding = match headers.get(b"transfer-encoding") {
        Some(te) if contains_nocase(te, b"chunked", true) => {
            if tx.request.version < Version::V11 {
                events.push(Event::InvalidTransferEncodingInRequest);
            }
            Coding::Chunked
        }
        Some(_) => {
            events.push(Event::InvalidTransferEncodingInRequest);
            Coding::Invalid
        }
        None => match length {
            None => Coding::None,
            Some(None) => {
                events.push(Event::InvalidContentLengthInRequest);
                Coding::Invalid
            }
            Some(Some((_, before, after))) => {
                if before {
                    events.push(Event::ContentLengthExtraDataStart);
                }
                if after {
                    events.push(Event::ContentLengthExtraDataEnd);
                }
                Coding::Identity
            }
        },
    };
    if coding == Coding::Identity {
        tx.request.content_length = length.flatten().map(|l| l.0);
    }
    tx.request.coding = coding;
    Ok(events)
}

/// Host and port the request is for: the target's before the Host field's.
fn request_host(tx: &mut Tx) {
    if tx.is_uri_host_invalid {
        tx.raise_at_end(Event::UriHostInvalid);
    }
    tx.host = tx.uri_host.clone();
    let Some(field) = tx.request.headers.get(b"host").map(<[u8]>::to_vec) else {
        if tx.request.version >= Version::V11 {
            tx.raise_at_end(Event::MissingHostHeader);
        }
        return;
    };
    match host_port(&field) {
        Some(hp) => {
            if !hp.is_valid {
                tx.raise_at_end(Event::HeaderHostInvalid);
            }
            match &tx.host {
                None => {
                    tx.host = Some(hp.host.to_ascii_lowercase().into());
                    if hp.has_port {
                        tx.port = hp.port;
                    }
                }
                Some(host) => {
                    let other_host = !host.eq_ignore_ascii_case(hp.host);
                    let other_port = hp.has_port && tx.port.is_some() && tx.port != hp.port;
                    if other_host || other_port {
                        tx.raise_at_end(Event::HostHeaderAmbiguous);
                    }
                }
            }
        }
        None if tx.host.is_some() => tx.raise_at_end(Event::HostHeaderAmbiguous),
        None => {}
    }
}

/// Where a part of `line` is in it.
fn span_in(line: &[u8], part: &[u8]) -> Option<Span> {
    let from = (part.as_ptr() as usize).checked_sub(line.as_ptr() as usize)?;
    let is_in_it = from + part.len() <= line.len();
    Span::new(from..from + part.len()).filter(|_| is_in_it)
}

/// Reads `HTTP/1.1` and the like, white space and zeros around the slash allowed; the second part
/// of the answer says that there were some.
pub(crate) fn parse_version(text: &[u8]) -> (Version, bool) {
    let space = |b: u8| b.is_ascii_whitespace();
    let (_, rest) = split_prefix(text, space);
    if !starts_with_nocase(rest, b"http") {
        return (Version::Invalid, false);
    }
    let (before, rest) = split_prefix(&rest[4..], space);
    let Some(rest) = rest.strip_prefix(b"/") else { return (Version::Invalid, false) };
    let (after, rest) = split_prefix(rest, |b| space(b) || b == b'0');
    let version = match rest.get(..3) {
        Some(b"1.0") => (Version::V10, 3),
        Some(b"1.1") => (Version::V11, 3),
        _ if rest.starts_with(b".9") => (Version::V09, 2),
        _ => return (Version::Invalid, false),
    };
    let (_, rest) = split_prefix(&rest[version.1..], space);
    if !rest.is_empty() {
        return (Version::Invalid, false);
    }
    // Suricata takes the zero of "0.9" for a leading one too.
    (version.0, !before.is_empty() || !after.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_leniently() {
        for (text, version, extra) in [
            ("HTTP/1.1", Version::V11, false),
            ("http/1.0", Version::V10, false),
            ("HTTP/0.9", Version::V09, true),
            ("HTTP / 01.1", Version::V11, true),
            ("HTTP/1.2", Version::Invalid, false),
            ("HTTP/1.1x", Version::Invalid, false),
            ("HTTX/1.1", Version::Invalid, false),
        ] {
            assert_eq!(parse_version(text.as_bytes()), (version, extra), "{text}");
        }
    }
}

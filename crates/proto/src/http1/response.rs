//! The server's direction: status line, header block, body, one step at a time.
//!
//! Read as browsers read, which is more lenient than servers: what doesn't look like a status line
//! is a body, a body of broken chunks continues as it is, a length that lies is made up for.

use super::entity::{close_entity, decode_entity, gap_entity};
use super::events::Event;
use super::handover::Handover;
use super::head::{HeadStep, content_encodings, read_head};
use super::headers::Side;
use super::message::{Coding, Packing, Span, Version, progress};
use super::parser::{Cursor, Halt, Http1, State};
use super::request::{oddity, parse_version};
use super::text::{
    ChunkSize, chomp, chunk_size, contains_nocase, content_length, decimal, find_digits,
    is_bad_chunk_start, is_chunk_control, is_empty_line, is_space, prefix, split_prefix,
    starts_with_nocase,
};
use crate::{ParseContext, ProtocolChange};
use gabion_record::Direction::ToClient;
use std::borrow::Cow;

impl Http1 {
    /// Does what can be done next with the server's bytes.
    pub(super) fn response_step(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        if self.response.skips_cr && !input.is_empty() {
            self.response.skips_cr = false;
            if input.rest().starts_with(b"\r") {
                input.take_bytes(1);
            }
        }
        match self.response.state {
            State::Idle => self.response_idle(cx, input),
            State::Line => self.response_line(cx, input),
            State::Headers => self.response_headers(input),
            State::BodyDetermine => self.response_body_determine(cx),
            State::BodyLength => self.response_body_length(cx, input),
            State::BodyClose => self.response_body_close(cx, input),
            State::ChunkSize => self.response_chunk_size(input),
            State::ChunkData => self.response_chunk_data(cx, input),
            State::ChunkEnd => self.response_chunk_end(input),
            State::Finalize => self.response_finalize(cx, input),
            // States of requests.
            State::Version | State::ConnectWait | State::ConnectProbe | State::Ignore => {
                Err(Halt::Fail)
            }
        }
    }

    fn response_keep(&mut self, bytes: &[u8]) -> Result<(), Halt> {
        let limit = self.current(ToClient).map_or(18000, |t| t.config.field_limit);
        if !bytes.is_empty() && self.response.line.len() + bytes.len() > limit {
            self.warn(ToClient, Event::ResponseFieldTooLong);
            return Err(Halt::Fail);
        }
        self.response.line.extend_from_slice(bytes);
        Ok(())
    }

    /// The next line up to LF, or all that is left once the server has closed.
    fn response_take_line(&mut self, input: &mut Cursor<'_>) -> Result<Option<Vec<u8>>, Halt> {
        let lf = memchr::memchr(b'\n', input.rest());
        let taken = input.take_bytes(lf.map_or(usize::MAX, |n| n + 1));
        self.response_keep(taken)?;
        if lf.is_none() && !self.response.is_closed {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.response.line)))
    }

    fn response_idle(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        if input.is_empty() && self.response.line.is_empty() {
            return Err(Halt::More);
        }
        if self.request.id == self.response.id && self.request.state == State::Version {
            self.request_is_http09();
            self.request_resume(cx);
        }
        let is_unseen = self.current(ToClient).is_none();
        if is_unseen && self.response.line.is_empty() {
            // Line ends after the last response are no response.
            let blank = prefix(input.rest(), |b| matches!(b, b'\r' | b'\n'));
            if blank > 0 {
                input.take_bytes(blank);
                return Ok(());
            }
        }
        let config = self.config(cx.endpoints);
        self.begin(ToClient, &config)?;
        if is_unseen {
            self.warn(ToClient, Event::UnableToMatchResponse);
            if self.request.id == self.response.id {
                self.request.id += 1;
            }
            let tx = self.tx_at(ToClient)?;
            tx.is_request_unseen = true;
            tx.request.progress = progress::COMPLETE;
        }
        self.response.left = 0;
        let tx = self.tx_at(ToClient)?;
        if tx.is_http09 && tx.request.is_complete() {
            // No status line, no header block.
            tx.response.coding = Coding::Identity;
            tx.response.progress = progress::BODY;
            self.response.state = State::BodyClose;
        } else {
            tx.response.progress = progress::LINE;
            let incomplete = !is_unseen && tx.method.is_none() && tx.target.is_none();
            self.response.state = State::Line;
            if incomplete && self.request.state == State::Line {
                self.warn(ToClient, Event::RequestLineIncomplete);
            }
        }
        Ok(())
    }

    fn response_line(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        // A line ends with LF, CR LF or CR: a CR at the end of what is there is undecided.
        let closed = self.response.is_closed;
        let rest = input.take_bytes(usize::MAX);
        let all: Cow<'_, [u8]> = if self.response.line.is_empty() {
            Cow::Borrowed(rest)
        } else {
            let mut kept = std::mem::take(&mut self.response.line);
            kept.extend_from_slice(rest);
            Cow::Owned(kept)
        };
        let end = match memchr::memchr2(b'\n', b'\r', &all) {
            Some(at) if all[at] == b'\n' => Some(at + 1),
            Some(at) if all.get(at + 1) == Some(&b'\n') => Some(at + 2),
            Some(at) if all.len() > at + 1 || closed => Some(at + 1),
            _ => None,
        };
        let end = match end {
            Some(end) => end,
            None if closed => all.len(),
            None => {
                self.response_keep(&all)?;
                return Err(Halt::More);
            }
        };
        if end == 0 {
            return Err(Halt::More);
        }
        let (line, behind) = all.split_at(end);
        // What is no status line is a body that ends with the segment: Suricata does not wait for
        // what follows, so here a split changes the result. One byte after it decides nothing.
        let is_status = is_empty_line(line) || !is_body_line(line);
        if !is_status && behind.len() == 1 && !closed {
            self.response_keep(&all)?;
            return Err(Halt::More);
        }
        // Return what follows the line: it is in the cursor, or was kept before it.
        let from_input = behind.len().min(rest.len());
        input.at -= from_input;
        if behind.len() > from_input {
            self.response.carry = behind[..behind.len() - from_input].to_vec();
        }
        let limit = self.tx_at(ToClient)?.config.field_limit;
        if line.len() > limit {
            self.warn(ToClient, Event::ResponseFieldTooLong);
            return Err(Halt::Fail);
        }
        self.response_line_complete(cx, line, behind)?;
        self.hide_line(ToClient, behind.is_empty());
        Ok(())
    }

    fn response_line_complete(
        &mut self,
        cx: &mut ParseContext<'_>,
        line: &[u8],
        behind: &[u8],
    ) -> Result<(), Halt> {
        let closed = self.response.is_closed;
        if is_empty_line(line) {
            if closed && behind.is_empty() {
                self.response.state = State::Finalize;
            }
            return Ok(());
        }
        let tx = self.tx_at(ToClient)?;
        if is_body_line(line) {
            // Junk before a status line is skipped, anything else is what browsers show.
            if behind.len() > 1 && (behind[0] == b'H' || chomp(line).len() <= 2) {
                return Ok(());
            }
            tx.response.decoder = None;
            tx.response.packing = Packing::None;
            decode_entity(self, cx, ToClient, Some(line))?;
            if behind.is_empty() {
                let tx = self.tx_at(ToClient)?;
                tx.response.coding = Coding::Identity;
                tx.response.progress = progress::BODY;
                self.response.state = State::Finalize;
            }
            return Ok(());
        }
        let is_continue = self.parse_response_line(line)?;
        self.response.state = State::Headers;
        // After a 100 Continue comes another status line: progress never goes back.
        if !is_continue {
            self.tx_at(ToClient)?.response.progress = progress::HEADERS;
        }
        Ok(())
    }

    /// Takes a status line apart; true for a 100.
    fn parse_response_line(&mut self, line: &[u8]) -> Result<bool, Halt> {
        let tx = self.tx_at(ToClient)?;
        tx.response.line.clear();
        tx.response.line.extend_from_slice(line);
        tx.response.version = Version::Invalid;
        tx.response.protocol = None;
        (tx.status_text, tx.status, tx.status_message) = (None, None, None);
        let space_or_nul = |b: u8| is_space(b) || b == 0;
        let from = prefix(line, space_or_nul);
        let protocol_end = from + prefix(&line[from..], |b| !is_space(b));
        let code_from = protocol_end + prefix(&line[protocol_end..], is_space);
        let code_end = code_from + prefix(&line[code_from..], |b| !is_space(b));
        let message_from = code_end + prefix(&line[code_end..], |b: u8| b.is_ascii_whitespace());
        let mut extra = false;
        if protocol_end > from {
            tx.response.protocol = Span::new(from..protocol_end);
            (tx.response.version, extra) = parse_version(&line[from..protocol_end]);
            if code_from > protocol_end && code_end > code_from {
                tx.status_text = Span::new(code_from..code_end);
                tx.status = status_number(&line[code_from..code_end]);
                if message_from > code_end {
                    let end = message_from + chomp(&line[message_from..]).len();
                    tx.status_message = Span::new(message_from..end);
                }
            }
        }
        let (version, status) = (tx.response.version, tx.status);
        if extra {
            self.warn(ToClient, Event::ProtocolContainsExtraData);
        }
        if version == Version::Invalid {
            self.warn(ToClient, Event::ResponseLineInvalidProtocol);
        }
        if status.is_none() {
            self.warn(ToClient, Event::ResponseLineInvalidResponseStatus);
        }
        Ok(status == Some(100))
    }

    fn response_headers(&mut self, input: &mut Cursor<'_>) -> Result<(), Halt> {
        if !input.is_empty() {
            self.head_grows(ToClient);
        }
        match read_head(self, Side::Response, input)? {
            HeadStep::More => Err(Halt::More),
            HeadStep::End => {
                let tx = self.tx_at(ToClient)?;
                tx.response.forget_views();
                let in_head = tx.response.progress <= progress::HEADERS;
                tx.response.is_head_whole = true;
                self.response.state = if in_head { State::BodyDetermine } else { State::Finalize };
                Ok(())
            }
            HeadStep::Cut => {
                self.response.state = State::Finalize;
                Ok(())
            }
        }
    }

    /// Whether there is a body and how it is delimited: RFC 9112 6.3, and what browsers do with
    /// what breaks it.
    fn response_body_determine(&mut self, cx: &mut ParseContext<'_>) -> Result<(), Halt> {
        let tx = self.tx_at(ToClient)?;
        let status = tx.status.unwrap_or(0);
        let headers = &tx.response.headers;
        let has_length = headers.get(b"content-length").is_some();
        let has_coding = headers.get(b"transfer-encoding").is_some();
        if tx.is_method(b"CONNECT") {
            if (200..=299).contains(&status) {
                self.response.state = State::Finalize;
                return content_encodings(self, Side::Response);
            }
        } else if status == 101 && !has_length && !has_coding {
            return self.response_upgrade(cx);
        }
        let tx = self.tx_at(ToClient)?;
        let headers = &tx.response.headers;
        if status == 101 {
            self.warn(ToClient, Event::SwitchingProtoWithContentLength);
        } else if status == 100 && !has_coding {
            let length = headers.get(b"content-length").and_then(content_length);
            if length.is_none_or(|l| l.0 == 0) {
                return self.response_continue();
            }
        } else if (400..=499).contains(&status)
            && self.request.state == State::BodyLength
            && self.request.id == self.response.id
        {
            // The client asked before sending its body, and the answer is no.
            let left = self.request.left;
            let tx = self.tx_at(ToClient)?;
            let asked = tx.request.headers.get(b"expect") == Some(b"100-continue");
            if asked && tx.request.content_length == Some(left) {
                self.request.state = State::Finalize;
                self.request_resume(cx);
            }
        }
        self.response_framing(status, has_length, has_coding)?;
        content_encodings(self, Side::Response)
    }

    fn response_framing(
        &mut self,
        status: u16,
        has_length: bool,
        has_coding: bool,
    ) -> Result<(), Halt> {
        let tx = self.tx_at(ToClient)?;
        if tx.is_method(b"HEAD") {
            tx.response.coding = Coding::None;
            self.response.state = State::Finalize;
            return Ok(());
        }
        let bodiless = (100..=199).contains(&status) || status == 204 || status == 304;
        if bodiless && !has_length && !has_coding {
            tx.response.coding = Coding::None;
            self.response.state = State::Finalize;
            return Ok(());
        }
        if bodiless {
            self.warn(ToClient, Event::ResponseBodyUnexpected);
        }
        let tx = self.tx_at(ToClient)?;
        let headers = &tx.response.headers;
        let chunked = headers
            .get(b"transfer-encoding")
            .filter(|te| contains_nocase(te, b"chunked", true))
            .map(|te| te.eq_ignore_ascii_case(b"chunked"));
        if let Some(is_plain) = chunked {
            let is_old = tx.response.version < Version::V11;
            tx.response.coding = Coding::Chunked;
            tx.response.progress = progress::BODY;
            self.response.state = State::ChunkSize;
            if !is_plain {
                self.warn(ToClient, Event::ResponseAbnormalTransferEncoding);
            }
            if is_old {
                self.warn(ToClient, Event::ResponseChunkedOldProto);
            }
            return Ok(());
        }
        if let Some(value) = headers.get(b"content-length") {
            let Some((length, before, after)) = content_length(value) else {
                self.warn(ToClient, Event::InvalidContentLengthInResponse);
                return Err(Halt::Fail);
            };
            tx.response.coding = Coding::Identity;
            tx.response.content_length = Some(length);
            if length > 0 {
                tx.response.progress = progress::BODY;
                self.response.state = State::BodyLength;
            } else {
                self.response.state = State::Finalize;
            }
            self.response.left = length;
            if before {
                self.warn(ToClient, Event::ContentLengthExtraDataStart);
            }
            if after {
                self.warn(ToClient, Event::ContentLengthExtraDataEnd);
            }
            return Ok(());
        }
        let kind = headers.get(b"content-type").unwrap_or_default();
        if contains_nocase(split_prefix(kind, |b| b != b';').0, b"multipart/byteranges", false) {
            self.warn(ToClient, Event::ResponseMultipartByteranges);
            return Err(Halt::Fail);
        }
        tx.response.coding = Coding::Identity;
        tx.response.progress = progress::BODY;
        self.response.state = State::BodyClose;
        Ok(())
    }

    /// A 100 Continue: the real response follows.
    fn response_continue(&mut self) -> Result<(), Halt> {
        let tx = self.tx_at(ToClient)?;
        let again = tx.seen_continue && tx.first_time(oddity::CONTINUE_SEEN);
        tx.seen_continue = true;
        tx.response.headers.clear();
        (tx.response.scanned, tx.response.looked) = (0, 0);
        tx.response.is_head_whole = false;
        self.response.state = State::Line;
        if again {
            self.warn(ToClient, Event::ContinueAlreadySeen);
        }
        Ok(())
    }

    /// A 101: what follows is another protocol.
    fn response_upgrade(&mut self, cx: &mut ParseContext<'_>) -> Result<(), Halt> {
        let (id, before) = self.events_before();
        let kept = if id == self.response.id { before } else { 0 };
        let tx = self.tx_at(ToClient)?;
        let port = tx.port;
        let upgrade = tx.response.headers.get(b"upgrade").unwrap_or_default();
        let expected = if upgrade == b"h2c" {
            Some("http2")
        } else if upgrade.eq_ignore_ascii_case(b"websocket") {
            Some("websocket")
        } else {
            None
        };
        // Suricata keeps to HTTP/1 where the configuration switches the other protocol off.
        let expected = expected.filter(|name| cx.is_parsed(name));
        if expected.is_some() && cx.is_changing {
            self.warn(ToClient, Event::FailedProtocolChange);
        } else if expected.is_some() {
            cx.handover = Handover::encode(tx);
            cx.change = Some(ProtocolChange { expected, port });
            tx.request.progress = progress::COMPLETE;
            // Suricata 8.0.7 shows the headers as what was reached.
            tx.response.ended_at = Some(progress::HEADERS);
            tx.response.progress = progress::COMPLETE;
            // Suricata 8.0.7 forgets the events that came with the piece that grants the change.
            tx.events.keep_oldest(kept);
        }
        self.request.is_tunnel = true;
        Err(Halt::Tunnel)
    }

    fn response_body_length(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        let data = input.take_bytes(usize::try_from(self.response.left).unwrap_or(usize::MAX));
        if data.is_empty() {
            return self.response_cut(cx);
        }
        self.response.left -= data.len() as u64;
        decode_entity(self, cx, ToClient, Some(data))?;
        if self.response.left > 0 {
            return Ok(());
        }
        self.response.state = State::Finalize;
        decode_entity(self, cx, ToClient, None)
    }

    /// No more bytes in a body: the end of it, if the server has closed.
    fn response_cut(&mut self, cx: &mut ParseContext<'_>) -> Result<(), Halt> {
        if !self.response.is_closed {
            return Err(Halt::More);
        }
        self.response.state = State::Finalize;
        decode_entity(self, cx, ToClient, None)
    }

    fn response_body_close(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        let data = input.take_bytes(usize::MAX);
        if data.is_empty() {
            return self.response_cut(cx);
        }
        if let Some(seen) = self.response.counts_twice {
            let lf = memchr::memchr(b'\n', data);
            let seen = seen.saturating_add(lf.map_or(data.len(), |n| n + 1) as u64);
            self.response.counts_twice = if lf.is_none() { Some(seen) } else { None };
            if lf.is_some() {
                let m = &mut self.tx_at(ToClient)?.response;
                m.message_len = m.message_len.saturating_add(seen);
            }
        }
        decode_entity(self, cx, ToClient, Some(data))
    }

    fn response_chunk_size(&mut self, input: &mut Cursor<'_>) -> Result<(), Halt> {
        let rest = input.rest();
        let is_blank = self.response.line.iter().all(|b| is_chunk_control(*b));
        if is_blank && memchr::memchr(b'\n', rest).is_none() && is_bad_chunk_start(rest) {
            self.not_chunked(&[])?;
            return Ok(());
        }
        // A size without line end is none, not even at the end of the stream.
        if self.response.is_closed && memchr::memchr(b'\n', rest).is_none() {
            return Err(Halt::More);
        }
        let Some(line) = self.response_take_line(input)? else { return Err(Halt::More) };
        let size = chunk_size(&line);
        let tx = self.tx_at(ToClient)?;
        if size != ChunkSize::Invalid {
            tx.response.message_len = tx.response.message_len.saturating_add(line.len() as u64);
        }
        match size {
            ChunkSize::Blank | ChunkSize::TooLarge => {}
            ChunkSize::Size(size, has_extension) => {
                if has_extension && tx.first_time(oddity::RESPONSE_CHUNK_EXTENSION) {
                    self.warn(ToClient, Event::ResponseChunkExtension);
                }
                self.response.left = size;
                self.response.state = if size == 0 {
                    self.tx_at(ToClient)?.response.progress = progress::TRAILER;
                    State::Headers
                } else {
                    State::ChunkData
                };
            }
            ChunkSize::Invalid => self.not_chunked(&line)?,
        }
        Ok(())
    }

    /// What should be a chunk is none: from `line` on the body is taken as it comes.
    fn not_chunked(&mut self, line: &[u8]) -> Result<(), Halt> {
        let mut back = std::mem::take(&mut self.response.line);
        back.extend_from_slice(line);
        self.response.carry = back;
        self.response.counts_twice = Some(0);
        self.tx_at(ToClient)?.response.coding = Coding::Identity;
        self.response.state = State::BodyClose;
        self.warn(ToClient, Event::InvalidResponseChunkLen);
        Ok(())
    }

    fn response_chunk_data(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        let data = input.take_bytes(usize::try_from(self.response.left).unwrap_or(usize::MAX));
        if data.is_empty() {
            return self.response_cut(cx);
        }
        self.response.left -= data.len() as u64;
        decode_entity(self, cx, ToClient, Some(data))?;
        if self.response.left == 0 {
            self.response.state = State::ChunkEnd;
        }
        Ok(())
    }

    fn response_chunk_end(&mut self, input: &mut Cursor<'_>) -> Result<(), Halt> {
        let lf = memchr::memchr(b'\n', input.rest());
        let n = input.take_bytes(lf.map_or(usize::MAX, |n| n + 1)).len();
        let tx = self.tx_at(ToClient)?;
        tx.response.message_len = tx.response.message_len.saturating_add(n as u64);
        if lf.is_none() {
            return Err(Halt::More);
        }
        self.response.state = State::ChunkSize;
        Ok(())
    }

    /// What follows a response in the same piece: the next one, or more of this one's body.
    fn response_finalize(
        &mut self,
        cx: &mut ParseContext<'_>,
        input: &mut Cursor<'_>,
    ) -> Result<(), Halt> {
        if input.is_empty() && self.response.line.is_empty() {
            return self.response_complete(cx);
        }
        let from = input.at;
        let kept = self.response.line.len();
        if kept == 0 && input.rest().starts_with(b"\n") && is_body_line(input.rest()) {
            let junk = input.take_bytes(usize::MAX);
            self.warn(ToClient, Event::ResponseBodyUnexpected);
            return decode_entity(self, cx, ToClient, Some(junk));
        }
        let Some(line) = self.response_take_line(input)? else { return Err(Halt::More) };
        if is_body_line(&line) {
            self.warn(ToClient, Event::ResponseBodyUnexpected);
            return decode_entity(self, cx, ToClient, Some(&line));
        }
        self.response.line = line[..kept].to_vec();
        input.at = from;
        self.response_complete(cx)
    }

    /// The response is over.
    fn response_complete(&mut self, cx: &mut ParseContext<'_>) -> Result<(), Halt> {
        let tx = self.tx_at(ToClient)?;
        if tx.response.progress < progress::COMPLETE {
            if tx.response.coding != Coding::None {
                decode_entity(self, cx, ToClient, None)?;
            }
            close_entity(self, ToClient);
            self.tx_at(ToClient)?.response.progress = progress::COMPLETE;
            self.responses += 1;
            cx.trigger_raw[1] = true;
            self.connect_accepted(cx)?;
        }
        self.response.id += 1;
        self.response.state = State::Idle;
        self.request_resume(cx);
        Ok(())
    }

    /// A successful answer to the flow's first request, a CONNECT, makes it a tunnel for whatever
    /// comes (RFC 9110 9.3.6).
    fn connect_accepted(&mut self, cx: &mut ParseContext<'_>) -> Result<(), Halt> {
        let is_first = self.responses == 1;
        let tx = self.tx_at(ToClient)?;
        if is_first && tx.is_method(b"CONNECT") && matches!(tx.status, Some(200..=299)) {
            tx.request.ended_at = Some(progress::HEADERS);
            tx.request.progress = progress::COMPLETE;
            if cx.is_changing {
                self.warn(ToClient, Event::FailedProtocolChange);
            } else {
                cx.handover = Handover::encode(tx);
                cx.change = Some(ProtocolChange { expected: None, port: tx.port });
            }
        }
        Ok(())
    }

    /// Lets the request direction continue when it only waited for this one.
    fn request_resume(&mut self, cx: &mut ParseContext<'_>) {
        // A CONNECT that is refused is over with the client's next data, as in Suricata.
        let waits = self.request.state == State::Finalize;
        if waits && self.request.carry.is_empty() && self.request.line.is_empty() {
            let mut nothing = Cursor::empty();
            let _ = self.request_step(cx, &mut nothing);
        }
    }

    /// Bytes of the server are lost. Whether that is where none may be missing, which the end of a body is too.
    pub(super) fn response_gap(&mut self, cx: &mut ParseContext<'_>, len: u64) -> bool {
        match self.response.state {
            State::BodyClose => {
                // How long such a body is nobody said: Suricata does not count what is missing.
                gap_entity(self, ToClient, 0);
                return false;
            }
            State::BodyLength => {
                let n = len.min(self.response.left);
                gap_entity(self, ToClient, n);
                self.response.left -= n;
                if self.response.left > 0 {
                    return false;
                }
                self.response.state = State::Finalize;
                let _ = decode_entity(self, cx, ToClient, None);
            }
            State::Idle
            | State::Line
            | State::Version
            | State::Headers
            | State::ConnectWait
            | State::ConnectProbe
            | State::BodyDetermine
            | State::ChunkSize
            | State::ChunkData
            | State::ChunkEnd
            | State::Finalize
            | State::Ignore => {}
        }
        if self.response.state == State::Finalize {
            let _ = self.response_complete(cx);
        }
        true
    }
}

/// Whether a line can't be a status line even to a browser: those look for `http` only.
pub(crate) fn is_body_line(line: &[u8]) -> bool {
    let (_, text) = split_prefix(line, |b| is_space(b) || b == 0);
    !starts_with_nocase(text, b"http")
}

/// The number of a status, 100 to 999.
fn status_number(text: &[u8]) -> Option<u16> {
    let (before, digits, after) = find_digits(text)?;
    if !before.is_empty() || !after.is_empty() {
        return None;
    }
    u16::try_from(decimal(digits)?).ok().filter(|n| (100..=999).contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Suricata's HTTP library's own vectors.
    #[test]
    fn what_a_browser_takes_for_a_status_line() {
        for (line, is_body) in [
            ("   http 1.1", false),
            ("\0 http 1.1", false),
            ("HTTP", false),
            ("test", true),
            ("", true),
            ("kfgjl  hTtp ", true),
        ] {
            assert_eq!(is_body_line(line.as_bytes()), is_body, "{line}");
        }
        for (text, number) in
            [("200", Some(200)), ("99", None), ("1000", None), ("2XX", None), ("x200", None)]
        {
            assert_eq!(status_number(text.as_bytes()), number, "{text}");
        }
    }
}

//! The parser of a connection: frames of both directions, their streams, and what concerns all of them.
//!
//! A stream is a transaction while it is there; each frame that concerns the whole connection is one of its own,
//! but for settings that say nothing (measured with Suricata 8.0.7, as is what follows). Frames are taken
//! when they are whole, unless they are longer than anybody waits for.

use super::body::{BodyContext, BodyFault, is_wrong_range, part_of, take_data};
use super::buffers::{host, normalized_host};
use super::dns::{DnsExchange, MEDIA_TYPE, decode_base64url};
use super::frame::{self, FrameHeader, HEADER_BYTES, PREFACE, flag, kind};
use super::hpack::{CutBlock, FieldKind, HeaderList, HpackDecoder};
use super::limits::{BYTES_OF_STREAM, SHORT_STREAMS_MAX, WHOLE_FRAME_BYTES_MAX, reached};
use super::settings::Settings;
use super::tables::{event, frame as frames};
use super::tx::{Http2Tx, next_state, state};
use crate::files::{File, FileState};
use crate::http1::handover::Handover;
use crate::tx_list::{TxList, TxTable};
use crate::{FilePiece, Input, Outcome, ParseContext, Parser};
use foldhash::fast::RandomState;
use gabion_record::Direction::{self, ToClient, ToServer};
use std::collections::HashMap;

/// A header block that is not whole yet.
#[derive(Debug)]
struct OpenBlock {
    stream: u32,
    bytes: Vec<u8>,
    /// It became too long.
    is_cut: bool,
}

/// A frame that is taken as it comes.
#[derive(Clone, Copy, Debug)]
struct LongFrame {
    header: FrameHeader,
    left: usize,
    tx: Option<u64>,
}

/// A direction.
#[derive(Debug)]
struct Sender {
    hpack: HpackDecoder,
    /// The client's first bytes have been seen, or are not expected.
    is_begun: bool,
    block: Option<OpenBlock>,
    long: Option<LongFrame>,
}

impl Sender {
    fn new(settings: &Settings, is_begun: bool) -> Sender {
        let hpack = HpackDecoder::new(settings.table_bytes_max);
        Sender { hpack, is_begun, block: None, long: None }
    }
}

/// Parser of an HTTP/2 connection.
#[derive(Debug)]
pub struct Http2Parser {
    settings: Settings,
    txs: TxList<Http2Tx>,
    /// The last transaction of each stream, some of which may be gone.
    streams: HashMap<u32, u64, RandomState>,
    senders: [Sender; 2],
    bodies: BodyContext,
    is_dns: bool,
    /// Transactions whose fields came with the piece at hand, by direction.
    decoded: Vec<(u64, Direction)>,
    /// Transactions so far.
    opened: u64,
    /// Bytes of all frames so far.
    bytes: u64,
    refused: Refused,
}

/// Streams that were refused as the connection has too many short ones.
#[derive(Debug, Default)]
struct Refused {
    /// The first and the last of them; the first is 0 before there is one.
    first: u32,
    last: u32,
    /// A transaction has the event.
    is_raised: bool,
}

impl Refused {
    fn note(&mut self, stream: u32) {
        if stream != 0 {
            self.first = if self.first == 0 { stream } else { self.first.min(stream) };
            self.last = self.last.max(stream);
        }
    }

    /// Whether a stream that is not known may be one of them.
    fn may_have(&self, stream: u32) -> bool {
        self.first != 0 && (self.first..=self.last).contains(&stream)
    }
}

/// The connection can't be followed any more.
struct Broken;

impl Http2Parser {
    /// A parser with these settings.
    pub fn new(settings: Settings) -> Http2Parser {
        Http2Parser {
            settings,
            txs: TxList::default(),
            streams: HashMap::default(),
            senders: [Sender::new(&settings, false), Sender::new(&settings, true)],
            bodies: BodyContext::default(),
            is_dns: false,
            decoded: Vec::new(),
            opened: 0,
            bytes: 0,
            refused: Refused::default(),
        }
    }

    /// Frees what rules had made of the fields of the pieces before, with which they were inspected: a client may open
    /// thousands of streams. What asks once more has it made again.
    fn release_views(&mut self) {
        for (id, d) in self.decoded.drain(..) {
            if let Some(tx) = self.txs.get_unnoted(id) {
                tx.side_mut(d).forget_views();
            }
        }
    }

    fn data(&mut self, cx: &mut ParseContext<'_>, bytes: &[u8]) -> Outcome {
        let d = cx.direction;
        let mut at = 0;
        if !self.senders[d.index()].is_begun {
            let seen = bytes.get(..PREFACE.len().min(bytes.len())).unwrap_or_default();
            if !PREFACE.starts_with(seen) {
                // Picked up in the middle.
                self.senders[d.index()].is_begun = true;
            } else if seen.len() < PREFACE.len() {
                return Outcome::Incomplete { consumed: 0, needed: PREFACE.len() };
            } else {
                self.senders[d.index()].is_begun = true;
                at = PREFACE.len();
            }
        }
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.is_empty() {
                return Outcome::Done;
            }
            if let Some(long) = self.senders[d.index()].long {
                at += self.take_long(cx, long, rest);
                continue;
            }
            let Some(header) = FrameHeader::parse(rest) else {
                return Outcome::Incomplete { consumed: at, needed: HEADER_BYTES };
            };
            let whole = HEADER_BYTES + header.len;
            if whole <= WHOLE_FRAME_BYTES_MAX {
                let Some(payload) = rest.get(HEADER_BYTES..whole) else {
                    return Outcome::Incomplete { consumed: at, needed: whole };
                };
                if self.take_frame(cx, header, payload, at).is_err() {
                    return Outcome::Error;
                }
                at += whole;
                continue;
            }
            let Ok(tx) = self.begin_long(cx, header, at) else { return Outcome::Error };
            self.senders[d.index()].long = Some(LongFrame { header, left: header.len, tx });
            at += HEADER_BYTES;
        }
    }

    /// A frame begins that is too long to wait for.
    fn begin_long(
        &mut self,
        cx: &mut ParseContext<'_>,
        header: FrameHeader,
        at: usize,
    ) -> Result<Option<u64>, Broken> {
        let d = cx.direction;
        self.bytes += (HEADER_BYTES + header.len) as u64;
        let id = self.tx_of(d, header.stream, header)?;
        note_frames(cx, header, at, id);
        if let Some(tx) = id.and_then(|id| self.txs.get_mut(id)) {
            tx.events.set(event::LONG_FRAME_DATA);
            tx.side_mut(d).note_kind(header.kind);
            if header.kind == kind::DATA {
                tx.state = tx.state.max(next_state(tx.state, d, kind::DATA, false));
            }
        }
        reached::WHOLE_FRAME_BYTES_MAX.count();
        Ok(id)
    }

    /// Takes what is there of a long frame; returns how much that is.
    fn take_long(&mut self, cx: &mut ParseContext<'_>, long: LongFrame, rest: &[u8]) -> usize {
        let d = cx.direction;
        let piece = rest.get(..long.left.min(rest.len())).unwrap_or(rest);
        let left = long.left - piece.len();
        let is_end = left == 0 && long.header.has(flag::END_STREAM);
        self.senders[d.index()].long = (left > 0).then_some(LongFrame { left, ..long });
        if long.header.kind == kind::DATA
            && long.header.stream != 0
            && let Some(id) = long.tx
        {
            self.take_body(cx, id, piece, is_end);
            if let Some(tx) = self.txs.get_mut(id) {
                tx.state = next_state(tx.state, d, kind::DATA, is_end);
            }
        }
        piece.len()
    }

    /// The transaction of a stream, which is made if it is not there. `None`: the frame is short, and the connection has
    /// more streams than its bytes allow.
    fn tx_of(
        &mut self,
        d: Direction,
        stream: u32,
        header: FrameHeader,
    ) -> Result<Option<u64>, Broken> {
        if stream != 0
            && let Some(id) = self.streams.get(&stream).copied()
            && let Some(tx) = self.txs.get(id)
        {
            // These may come for a while after the end.
            let is_late =
                matches!(header.kind, kind::RST_STREAM | kind::WINDOW_UPDATE | kind::PRIORITY);
            if tx.state == state::CLOSED
                && !is_late
                && let Some(last) = self.last_tx()
            {
                last.events.add(event::STREAM_ID_REUSE);
            }
            return Ok(Some(id));
        }
        let is_short = ((HEADER_BYTES + header.len) as u64) < BYTES_OF_STREAM;
        // What follows on a refused stream, and its answer, make no transaction without a request.
        let is_request = d == ToServer && header.kind == kind::HEADERS;
        let is_refused = is_short
            && self.opened >= SHORT_STREAMS_MAX + self.bytes / BYTES_OF_STREAM
            || !is_request && self.refused.may_have(stream);
        if is_refused {
            reached::SHORT_STREAMS_MAX.count();
            self.refused.note(stream);
            self.raise_refusal();
            return Ok(None);
        }
        let id = self.new_tx(stream)?;
        if self.refused.first != 0 {
            self.raise_refusal();
        }
        Ok(Some(id))
    }

    /// Raises the event of too many streams, once for a connection, on the last transaction that there is.
    fn raise_refusal(&mut self) {
        if self.refused.is_raised {
            return;
        }
        if let Some(tx) = self.last_tx() {
            tx.events.set(event::TOO_MANY_STREAMS);
            self.refused.is_raised = true;
        }
    }

    /// The youngest transaction that there is.
    fn last_tx(&mut self) -> Option<&mut Http2Tx> {
        let last = self.txs.iter().next_back().map(|tx| tx.id)?;
        self.txs.get_mut(last)
    }

    /// A new transaction of a stream.
    fn new_tx(&mut self, stream: u32) -> Result<u64, Broken> {
        if self.txs.len() as u64 >= self.settings.streams_max {
            reached::STREAMS_MAX.count();
            for tx in self.txs.iter_mut() {
                tx.events.set(event::TOO_MANY_STREAMS);
                tx.state = state::CLOSED;
            }
            return Err(Broken);
        }
        let id = self.txs.next_id();
        self.opened += 1;
        self.txs.push(None, |id| Http2Tx::new(id, stream));
        if stream != 0 {
            self.streams.insert(stream, id);
            // Those that are gone are forgotten now and then.
            if self.streams.len() > 2 * self.txs.len() + 64 {
                let txs = &self.txs;
                self.streams.retain(|_, id| txs.get(*id).is_some());
            }
        }
        Ok(id)
    }

    fn take_frame(
        &mut self,
        cx: &mut ParseContext<'_>,
        header: FrameHeader,
        payload: &[u8],
        at: usize,
    ) -> Result<(), Broken> {
        let d = cx.direction;
        self.bytes += (HEADER_BYTES + header.len) as u64;
        if header.kind == kind::SETTINGS && payload.is_empty() {
            note_frames(cx, header, at, None);
            return Ok(());
        }
        let promise = match header.kind {
            kind::PUSH_PROMISE => frame::parse_promise(header, payload),
            _ => None,
        };
        let stream = promise.map_or(header.stream, |(stream, _)| stream);
        let Some(id) = self.tx_of(d, stream, header)? else {
            note_frames(cx, header, at, None);
            self.skip_block(d, header, payload);
            return Ok(());
        };
        note_frames(cx, header, at, Some(id));
        let Some(tx) = self.txs.get_mut(id) else { return Ok(()) };
        let side = tx.side_mut(d);
        side.frames += 1;
        if side.frames > self.settings.frames_max {
            reached::FRAMES_MAX.count();
            tx.events.add(event::TOO_MANY_FRAMES);
        } else {
            side.note_kind(header.kind);
        }
        match header.kind {
            kind::DATA => self.take_data_frame(cx, id, header, payload),
            kind::HEADERS => match frame::parse_headers(header, payload) {
                Some((priority, block)) => {
                    if let Some(weight) = priority {
                        tx.side_mut(d).note_priority(weight);
                    }
                    self.take_block(cx, id, header, block);
                }
                None => tx.events.add(event::INVALID_FRAME_DATA),
            },
            kind::PUSH_PROMISE => match promise {
                Some((_, block)) => self.take_block(cx, id, header, block),
                None => tx.events.add(event::INVALID_FRAME_DATA),
            },
            kind::CONTINUATION => self.take_block(cx, id, header, payload),
            kind::SETTINGS => {
                tx.side_mut(d).note_settings(frame::parse_settings(payload));
                self.allow_tables(d, payload);
            }
            kind::PRIORITY => match payload {
                [_, _, _, _, weight] => tx.side_mut(d).note_priority(*weight),
                _ => tx.events.add(event::INVALID_FRAME_LENGTH),
            },
            kind::RST_STREAM | kind::WINDOW_UPDATE => match frame::parse_u32(payload) {
                Some(n) if payload.len() == 4 && header.kind == kind::RST_STREAM => {
                    tx.side_mut(d).note_error(n, kind::RST_STREAM);
                }
                Some(n) if payload.len() == 4 => tx.side_mut(d).note_window(n & 0x7fff_ffff),
                _ => tx.events.add(event::INVALID_FRAME_LENGTH),
            },
            kind::GOAWAY => match payload.get(4..).and_then(frame::parse_u32) {
                Some(code) => tx.side_mut(d).note_error(code, kind::GOAWAY),
                None => tx.events.add(event::INVALID_FRAME_LENGTH),
            },
            _ => {}
        }
        if let Some(tx) = self.txs.get_mut(id) {
            advance_stream(tx, d, header);
        }
        cx.trigger_raw[d.index()] = true;
        Ok(())
    }

    fn take_data_frame(
        &mut self,
        cx: &mut ParseContext<'_>,
        id: u64,
        header: FrameHeader,
        payload: &[u8],
    ) {
        let Some(tx) = self.txs.get_mut(id) else { return };
        if header.stream == 0 {
            tx.events.set(event::DATA_STREAM_ZERO);
            return;
        }
        // Wrong padding is taken for data.
        let data = frame::without_padding(header, payload).unwrap_or(payload);
        self.take_body(cx, id, data, header.has(flag::END_STREAM));
    }

    fn take_body(&mut self, cx: &mut ParseContext<'_>, id: u64, data: &[u8], is_end: bool) {
        let d = cx.direction;
        let Some(tx) = self.txs.get_mut(id) else { return };
        if tx.side_mut(d).begin_body()
            && d == ToClient
            && tx.side(d).header(b"content-range").is_some_and(is_wrong_range)
        {
            tx.events.add(event::INVALID_RANGE);
        }
        let context = (&mut self.bodies, &self.settings);
        match take_data(tx.side_mut(d), d, data, is_end, context) {
            Some(BodyFault::Failed) => tx.events.set(event::FAILED_DECOMPRESSION),
            Some(BodyFault::Bomb) => {
                reached::BOMB_BYTES_MAX.count();
                tx.events.set(event::COMPRESSION_BOMB);
            }
            None => {}
        }
        let mut is_dns = false;
        if let Some(dns) = &mut tx.dns {
            if !dns.add_body(d, data) {
                tx.events.set(match d {
                    ToServer => event::DNS_REQUEST_TOO_LONG,
                    ToClient => event::DNS_RESPONSE_TOO_LONG,
                });
            }
            is_dns = is_end && dns.finish(d);
        }
        if is_dns {
            self.become_dns(cx);
        }
        if is_end
            && d == ToClient
            && let Some(piece) = self.txs.get(id).and_then(range_of)
        {
            cx.pieces.push(piece);
        }
    }

    /// DNS was found: the connection is one of DNS from now on.
    fn become_dns(&mut self, cx: &mut ParseContext<'_>) {
        if !self.is_dns {
            self.is_dns = true;
            cx.renamed = Some("doh2");
        }
    }

    /// Takes a header block, or a part of one.
    fn take_block(
        &mut self,
        cx: &mut ParseContext<'_>,
        id: u64,
        header: FrameHeader,
        block: &[u8],
    ) {
        let d = cx.direction;
        let Some(tx) = self.txs.get_mut(id) else { return };
        let sender = &mut self.senders[d.index()];
        let is_last = header.has(flag::END_HEADERS);
        let stream = tx.stream;
        let open = match header.kind {
            kind::CONTINUATION => sender.block.take().filter(|b| b.stream == stream),
            _ => None,
        };
        let Some(mut open) = open else {
            if is_last {
                self.decode_block(cx, id, block);
                return;
            }
            tx.side_mut(d).headers.get_or_insert_default();
            let mut open = OpenBlock { stream, bytes: Vec::new(), is_cut: false };
            if add_part(&mut open, block, &self.settings) {
                tx.events.set(event::BLOCK_TOO_LONG);
            }
            sender.block = Some(open);
            return;
        };
        if add_part(&mut open, block, &self.settings) {
            tx.events.set(event::BLOCK_TOO_LONG);
        }
        if !is_last {
            sender.block = Some(open);
        } else if open.is_cut {
            tx.events.add(event::INVALID_FRAME_DATA);
        } else {
            self.decode_block(cx, id, &open.bytes);
        }
    }

    fn decode_block(&mut self, cx: &mut ParseContext<'_>, id: u64, block: &[u8]) {
        let d = cx.direction;
        let Some(tx) = self.txs.get_mut(id) else { return };
        let side = tx.side_mut(d);
        let had_fields = side.headers.is_some();
        let list = side.headers.get_or_insert_default();
        let before = list.len();
        let hpack = &mut self.senders[d.index()].hpack;
        hpack.allow_for(self.bytes);
        let decoded = hpack.decode_block(block, list);
        side.forget_views();
        // Blocks of one stream follow one another mostly.
        if self.decoded.last() != Some(&(id, d)) {
            self.decoded.push((id, d));
        }
        match decoded {
            Ok(faults) => {
                for _ in 0..faults.bad_indices {
                    tx.events.add(event::INVALID_HEADER);
                }
                if faults.has_overflowed {
                    tx.events.set(event::HEADER_TABLE_OVERFLOW);
                }
            }
            Err(CutBlock) => {
                if !had_fields {
                    side.headers = None;
                }
                tx.events.add(event::INVALID_FRAME_DATA);
                return;
            }
        }
        // A stream may send as many blocks as it likes: what was asked of its fields is not asked again.
        let is_new = |tx: &Http2Tx, names: &[&[u8]]| {
            tx.side(d).headers.as_ref().is_some_and(|list| list.has_first_from(before, names))
        };
        compare_hosts(tx, d, before);
        if is_new(tx, &[b":path", b"accept", b"content-type"])
            && names_dns(tx, d)
            && cx.is_parsed("doh2")
            && look_for_dns(tx, d)
        {
            self.become_dns(cx);
        }
    }

    /// Takes from a side's settings how large a table the other side may use.
    fn allow_tables(&mut self, d: Direction, payload: &[u8]) {
        let hpack = &mut self.senders[d.opposite().index()].hpack;
        let sizes =
            frame::parse_settings(payload).filter(|(id, _)| *id == frame::HEADER_TABLE_SIZE);
        sizes.for_each(|(_, size)| hpack.set_capacity(size.into()));
    }

    /// Decodes a header block of a stream that is no transaction, whole or not: later blocks name what it adds to the table.
    /// Settings say how large the table is.
    fn skip_block(&mut self, d: Direction, header: FrameHeader, payload: &[u8]) {
        if header.kind == kind::SETTINGS {
            self.allow_tables(d, payload);
        }
        let block = match header.kind {
            kind::HEADERS => frame::parse_headers(header, payload).map(|(_, block)| block),
            kind::PUSH_PROMISE => frame::parse_promise(header, payload).map(|(_, block)| block),
            kind::CONTINUATION => Some(payload),
            _ => None,
        };
        let Some(block) = block else { return };
        let sender = &mut self.senders[d.index()];
        let is_last = header.has(flag::END_HEADERS);
        let open = match header.kind {
            kind::CONTINUATION => sender.block.take().filter(|b| b.stream == header.stream),
            _ => None,
        };
        let mut open = match open {
            Some(open) => open,
            None if is_last => {
                sender.hpack.pass_over(block);
                return;
            }
            None => OpenBlock { stream: header.stream, bytes: Vec::new(), is_cut: false },
        };
        add_part(&mut open, block, &self.settings);
        if !is_last {
            sender.block = Some(open);
        } else if !open.is_cut {
            sender.hpack.pass_over(&open.bytes);
        }
    }

    /// The request of HTTP/1 that led here is the first stream's, and its settings a transaction of
    /// their own.
    fn continue_http1(&mut self, handover: &Handover<'_>) {
        let mut list = HeaderList::default();
        list.push(FieldKind::Named, b":method", handover.method);
        list.push(FieldKind::Named, b":path", handover.target);
        let mut settings = None;
        for (name, value) in handover.fields() {
            if name.eq_ignore_ascii_case(b"host") {
                list.push(FieldKind::Named, b":authority", value);
            } else if name.eq_ignore_ascii_case(b"http2-settings") {
                settings = Some(decode_base64url(value));
            } else {
                list.push(FieldKind::Named, name, value);
            }
        }
        let Ok(id) = self.new_tx(1) else { return };
        if let Some(tx) = self.txs.get_mut(id) {
            tx.sides[0].headers = Some(Box::new(list));
            tx.sides[0].note_kind(kind::HEADERS);
            tx.state = state::HALF_CLOSED_CLIENT;
        }
        match settings {
            Some(Some(settings)) => {
                let Ok(id) = self.new_tx(0) else { return };
                if let Some(tx) = self.txs.get_mut(id) {
                    tx.sides[0].note_kind(kind::SETTINGS);
                    tx.sides[0].note_settings(frame::parse_settings(&settings));
                }
            }
            Some(None) => {
                if let Some(tx) = self.txs.get_mut(id) {
                    tx.events.set(event::INVALID_HTTP1_SETTINGS);
                }
            }
            None => {}
        }
    }
}

/// The range of a file that a response is, when all of it came.
fn range_of(tx: &Http2Tx) -> Option<FilePiece> {
    let side = tx.side(ToClient);
    let (start, last, whole) = part_of(side)?;
    let file = side.files.files.first().filter(|f| f.state == FileState::Closed)?;
    let (bytes, at) = file.content();
    let is_all = at == 0 && last.checked_sub(start) == (bytes.len() as u64).checked_sub(1);
    let name = tx.request_header(b":path").filter(|_| is_all)?;
    let host = normalized_host(host(tx.side(ToServer))?);
    Some(FilePiece {
        tx: tx.id,
        // HTTP/1 may carry other ranges of the same file.
        key: [&host, name].concat(),
        name: name.to_vec(),
        start,
        whole,
        bytes: bytes.to_vec(),
    })
}

/// Adds a part of a block. True: it became too long with it.
fn add_part(open: &mut OpenBlock, part: &[u8], settings: &Settings) -> bool {
    if open.is_cut {
        return false;
    }
    if (open.bytes.len() + part.len()) as u64 > settings.reassembly_bytes_max {
        reached::REASSEMBLY_BYTES_MAX.count();
        open.is_cut = true;
        open.bytes = Vec::new();
        return true;
    }
    open.bytes.extend_from_slice(part);
    false
}

/// The frame of a stream leads to its next state.
fn advance_stream(tx: &mut Http2Tx, direction: Direction, header: FrameHeader) {
    if tx.stream == 0 {
        return;
    }
    match header.kind {
        kind::DATA | kind::HEADERS | kind::PUSH_PROMISE | kind::CONTINUATION => {
            let can_end = matches!(header.kind, kind::DATA | kind::HEADERS);
            let is_end = can_end && header.has(flag::END_STREAM);
            tx.state = next_state(tx.state, direction, header.kind, is_end);
            // Suricata does not close a body that ends with trailers.
            if is_end
                && header.kind == kind::HEADERS
                && let Some(file) = tx.side_mut(direction).files.current()
            {
                file.close(FileState::Truncated);
            }
        }
        kind::GOAWAY => tx.state = state::CLOSED,
        _ => {}
    }
}

/// Raises events about the hosts that a block's fields name, those from this place on: of each name the last counts.
fn compare_hosts(tx: &mut Http2Tx, direction: Direction, from: usize) {
    let Some(list) = &tx.side(direction).headers else { return };
    let (mut authority, mut host, mut with_user) = (None, None, 0);
    for (_, name, value) in list.iter_from(from) {
        match name {
            b":authority" => {
                with_user += usize::from(value.contains(&b'@'));
                authority = Some(value);
            }
            b"host" => host = Some(value),
            _ => {}
        }
    }
    let differs = authority.zip(host).is_some_and(|(a, h)| !h.eq_ignore_ascii_case(a));
    for _ in 0..with_user {
        tx.events.add(event::USERINFO_IN_URI);
    }
    if differs {
        tx.events.add(event::AUTHORITY_HOST_MISMATCH);
    }
}

/// Whether fields of a direction name a DNS message.
fn names_dns(tx: &Http2Tx, direction: Direction) -> bool {
    let side = tx.side(direction);
    let names = |name: &[u8]| side.header(name) == Some(MEDIA_TYPE);
    names(b"content-type") || (direction == ToServer && names(b"accept"))
}

/// Prepares for the message that fields name. True: there is one in the target.
fn look_for_dns(tx: &mut Http2Tx, direction: Direction) -> bool {
    let side = tx.side(direction);
    let names = |name: &[u8]| side.header(name) == Some(MEDIA_TYPE);
    let in_body = names(b"content-type");
    let asks = direction == ToServer && names(b"accept");
    if in_body {
        tx.dns.get_or_insert_default().announce(direction);
    }
    if !asks {
        return false;
    }
    let Some(target) = tx.side(ToServer).header(b":path").map(<[u8]>::to_vec) else { return false };
    let mut dns = DnsExchange::default();
    if !dns.read_target(&target) {
        return false;
    }
    if in_body {
        dns.announce(direction);
    }
    tx.dns = Some(Box::new(dns));
    true
}

/// Notes the frames of an HTTP/2 frame: its header, its payload and all of it. Suricata counts transactions
/// from 1 there.
fn note_frames(cx: &mut ParseContext<'_>, header: FrameHeader, at: usize, tx: Option<u64>) {
    let (d, tx) = (cx.direction, tx.map(|id| id + 1));
    let len = header.len as u64;
    cx.frames.add(d, frames::HEADER, at, HEADER_BYTES as u64, tx);
    cx.frames.add(d, frames::DATA, at + HEADER_BYTES, len, tx);
    cx.frames.add(d, frames::PDU, at, len + HEADER_BYTES as u64, tx);
}

impl Parser for Http2Parser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        self.bodies.wants = cx.requirements.into();
        self.bodies.is_unseen = cx.requirements.bodies_unseen;
        self.release_views();
        match input {
            Input::Gap { .. } => Outcome::Error,
            Input::Data { bytes, .. } => self.data(cx, bytes),
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn finish(&mut self, direction: Direction) {
        for tx in self.txs.iter_mut() {
            if let Some(file) = tx.side_mut(direction).files.current() {
                file.close(FileState::Truncated);
            }
        }
    }

    fn bytes_held(&self) -> usize {
        let sender =
            |s: &Sender| s.hpack.bytes_held() + s.block.as_ref().map_or(0, |b| b.bytes.capacity());
        size_of::<Http2Parser>()
            + self.txs.iter().map(Http2Tx::bytes_held).sum::<usize>()
            + self.senders.iter().map(sender).sum::<usize>()
            + self.streams.capacity() * size_of::<(u32, u64)>()
            + self.decoded.capacity() * size_of::<(u64, Direction)>()
    }

    fn bytes_made(&self) -> u64 {
        self.bodies.unpacking.bytes_made()
    }

    fn add_whole(&mut self, piece: &FilePiece, content: &[u8]) {
        let bodies = &mut self.bodies;
        if let Some(tx) = self.txs.get_mut(piece.tx) {
            bodies.last_file = bodies.last_file.wrapping_add(1);
            let mut file = File::open(bodies.last_file, &piece.name, ToClient, bodies.wants);
            file.append(content);
            file.close(FileState::Closed);
            tx.side_mut(ToClient).files.files.push(file);
        }
    }

    fn expect(&mut self, payload: &[u8]) {
        if let Some(handover) = Handover::decode(payload) {
            self.continue_http1(&handover);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::buffers::{Local, buffer};
    use super::*;
    use crate::{Endpoints, Inspect};

    /// A client's streams keep what rules had made of their fields until the next piece, and make it again.
    #[test]
    fn streams_give_back_what_rules_had_made_of_them() {
        let parsers = [(); 2].map(|()| Http2Parser::new(Settings::default()));
        let [mut asked, mut bare] = parsers;
        let header = |parser: &Http2Parser, id: u64| {
            let tx = parser.txs.get(id)?;
            let made = buffer(tx, Local::Header, ToServer, 0, Inspect::default())?;
            Some(made.data.to_vec())
        };
        let text = b":method: GET\r\n:path: /\r\n";
        for id in 0..100_u64 {
            for parser in [&mut asked, &mut bare] {
                let ends = Endpoints::default();
                let mut cx = ParseContext::new(0, ToServer, &ends);
                let bytes = [
                    0,
                    0,
                    2,
                    kind::HEADERS,
                    flag::END_HEADERS,
                    0,
                    0,
                    0,
                    2 * id as u8 + 1,
                    0x82,
                    0x84,
                ];
                assert_eq!(
                    parser.parse(&mut cx, Input::Data { bytes: &bytes, eof: false }),
                    Outcome::Done
                );
            }
            assert_eq!(header(&asked, id).as_deref(), Some(&text[..]));
        }
        let more = asked.bytes_held() - bare.bytes_held();
        assert!((20..1_000).contains(&more), "{more}");
        assert_eq!(header(&asked, 7).as_deref(), Some(&text[..]));
    }

    fn frame_of(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// A flow has as many streams that begin with a few bytes as its bytes allow; others it always has, with all that came
    /// into the header table.
    #[test]
    fn short_streams_are_bounded_by_bytes() {
        let mut parser = Http2Parser::new(Settings::default());
        let mut say = |d: Direction, bytes: &[u8]| {
            let ends = Endpoints::default();
            let mut cx = ParseContext::new(0, d, &ends);
            assert_eq!(parser.parse(&mut cx, Input::Data { bytes, eof: false }), Outcome::Done);
            let fields = |tx: &Http2Tx| tx.side(ToServer).headers.as_ref().map_or(0, |h| h.len());
            (parser.txs.len() as u64, parser.txs.iter().next_back().map_or(0, fields))
        };
        let request = |n: u32| frame_of(kind::HEADERS, 5, 2 * n + 1, b"\x82\x86\x84");
        // What the bytes allow, and no more.
        let (all, len) = (400, request(0).len() as u64);
        let (mut allowed, mut refused) = (0, 0);
        for n in 0..all {
            if allowed < SHORT_STREAMS_MAX + (u64::from(n) + 1) * len / BYTES_OF_STREAM {
                allowed += 1;
            } else {
                refused = 2 * n + 1;
            }
            assert_eq!(say(ToServer, &request(n)), (allowed, 3));
        }
        assert!(refused > 0);
        // Two of them come into the table nevertheless, one in parts.
        let adds = frame_of(kind::HEADERS, 5, 1001, b"\x40\x01a\x01b");
        let begins = frame_of(kind::HEADERS, 1, 1003, b"\x40\x01c");
        let ends = frame_of(kind::CONTINUATION, 4, 1003, b"\x01d");
        let short = [&adds[..], &begins, &ends, &frame_of(kind::DATA, 1, 1003, b"x")].concat();
        assert_eq!(say(ToServer, &short).0, allowed);
        // A request that is as long as that is seen, with the table's fields.
        let long = [&b"\xbe\xbf\x82\x84"[..], b"\x00\x01e\x44", &[b'f'; 68]].concat();
        let shown = say(ToServer, &frame_of(kind::HEADERS, 5, 1005, &long));
        assert_eq!(shown, (allowed + 1, 5));
        // An answer to one that was refused makes no transaction without a request, however long it is.
        let answer = [&b"\x88\x00\x01g\x44"[..], &[b'g'; 68]].concat();
        for stream in [refused, 1] {
            assert_eq!(say(ToClient, &frame_of(kind::HEADERS, 5, stream, &answer)).0, allowed + 1);
        }
        let tx = parser.txs.iter().next_back().unwrap();
        let list = tx.side(ToServer).headers.as_ref().unwrap();
        assert_eq!((list.first(b"a"), list.first(b"c")), (Some(&b"b"[..]), Some(&b"d"[..])));
        let counts = gabion_record::limits::take_reached();
        let before = u64::from(all) - allowed + 4;
        assert_eq!(counts.times_reached(&reached::SHORT_STREAMS_MAX), before + 1);
        let raised =
            parser.txs.iter().filter(|tx| tx.events.codes().contains(&event::TOO_MANY_STREAMS));
        assert_eq!(raised.count(), 1);
    }
}

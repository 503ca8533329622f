//! One TLS flow: records, handshake messages over records, and the state of both sides.
//!
//! Records of handshake, alerts and cipher changes are taken whole; application data is passed over
//! as it comes. What ends a direction and what is only an event follows Suricata 8.0.7, measured
//! with crafted sessions (the unit tests name them). Once a cipher change was seen, handshake
//! records are encrypted and passed over, except for the second client hello of TLS 1.3.

use super::certificate;
use super::conditions::state;
use super::hello::{Found, Reading};
use super::limits::{CERT_BYTES_MAX, HANDSHAKE_BYTES_MAX, RECORD_BYTES_MAX, reached};
use super::settings::{Encryption, TlsSettings};
use super::tables::{client, event, frame, server};
use super::tx::TlsTx;
use super::version;
use crate::tx_list::TxTable;
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;
use std::sync::Arc;

/// Reading position of one direction.
#[derive(Debug, Default)]
struct Half {
    /// Bytes of application data still to pass over.
    skip: usize,
    /// Handshake message that is not whole yet, its header included.
    message: Vec<u8>,
    /// Bytes of a handshake message too long to be kept that are still to come.
    message_skip: usize,
    /// A record has begun and is not whole.
    is_waiting: bool,
    /// Stream offset up to which records were noted as frames.
    framed_to: u64,
    is_ended: bool,
}

/// Heartbeats (RFC 6520): whose request is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Heartbeat {
    #[default]
    None,
    /// A request went that way; its record had `len` bytes, 0 when it was not encrypted.
    Request { direction: Direction, len: usize },
}

/// Parser of a TLS flow.
#[derive(Debug)]
pub struct TlsParser {
    // Boxed, as it is taken out and put back at every call.
    tx: Option<Box<TlsTx>>,
    halves: [Half; 2],
    has_cipher_change: bool,
    wants_client_cert: bool,
    heartbeat: Heartbeat,
}

/// The direction can't be followed any more.
struct Dead;

/// Record types.
mod record {
    pub(super) const CHANGE_CIPHER_SPEC: u8 = 20;
    pub(super) const ALERT: u8 = 21;
    pub(super) const HANDSHAKE: u8 = 22;
    pub(super) const APPLICATION: u8 = 23;
    pub(super) const HEARTBEAT: u8 = 24;
}

/// Bytes of a record's header.
const HEADER_LEN: usize = 5;

/// The outcome of one record.
enum Step {
    Used(usize),
    Wait(usize),
}

impl TlsParser {
    /// A parser with these settings.
    pub fn new(settings: Arc<TlsSettings>) -> TlsParser {
        TlsParser {
            tx: Some(Box::new(TlsTx::new(settings))),
            halves: [Half::default(), Half::default()],
            has_cipher_change: false,
            wants_client_cert: false,
            heartbeat: Heartbeat::None,
        }
    }

    fn data(&mut self, cx: &mut ParseContext<'_>, tx: &mut TlsTx, bytes: &[u8]) -> Outcome {
        let mut at = 0;
        self.halves[cx.direction.index()].is_waiting = false;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let skip = &mut self.halves[cx.direction.index()].skip;
            if *skip > 0 {
                let n = rest.len().min(*skip);
                *skip -= n;
                at += n;
                cx.trigger_raw[cx.direction.index()] |= *skip == 0;
                continue;
            }
            // Either high bit set: no record type of SSL 3.0 and later.
            let is_old = rest.first().is_some_and(|b| b & 0xc0 != 0);
            self.frames(cx, rest, at, is_old);
            let step = if is_old {
                self.old_record(cx.direction, tx, rest)
            } else {
                self.record(cx, tx, rest)
            };
            match step {
                Ok(Step::Used(n)) => {
                    at += n;
                    let d = cx.direction.index();
                    // Suricata asks for the inspection of streams at the end of newer records only.
                    cx.trigger_raw[d] |= self.halves[d].skip == 0 && !is_old;
                }
                Ok(Step::Wait(needed)) => {
                    self.halves[cx.direction.index()].is_waiting = needed > HEADER_LEN;
                    return Outcome::Incomplete { consumed: at, needed };
                }
                Err(Dead) => return Outcome::Error,
            }
        }
        Outcome::Done
    }

    /// Notes the frames of the record that begins at `rest`, once.
    #[inline]
    fn frames(&mut self, cx: &mut ParseContext<'_>, rest: &[u8], at: usize, is_old: bool) {
        if cx.frames.wanted == 0 {
            return;
        }
        let Some(header) = rest.get(..HEADER_LEN) else { return };
        let (d, at_offset) = (cx.direction, cx.frames.at[cx.direction.index()] + at as u64);
        let half = &mut self.halves[d.index()];
        if half.framed_to > at_offset {
            return;
        }
        half.framed_to = at_offset + 1;
        if is_old {
            let len = (u64::from(header[0] & 0x7f) << 8) + u64::from(header[1]);
            cx.frames.add(d, frame::SSL2_HDR, at, HEADER_LEN as u64, None);
            cx.frames.add(d, frame::SSL2_PDU, at, len + 2, None);
            return;
        }
        let len = u64::from(u16::from_be_bytes([header[3], header[4]]));
        cx.frames.add(d, frame::HDR, at, HEADER_LEN as u64, None);
        cx.frames.add(d, frame::PDU, at, len + HEADER_LEN as u64, None);
        cx.frames.add(d, frame::DATA, at + HEADER_LEN, len, None);
        match header[0] {
            record::ALERT => cx.frames.add(d, frame::ALERT, at + HEADER_LEN, len, None),
            record::HEARTBEAT => cx.frames.add(d, frame::HEARTBEAT, at + HEADER_LEN, len, None),
            _ => {}
        }
    }

    /// One record of SSL 3.0 or later at the start of `rest`.
    fn record(
        &mut self,
        cx: &mut ParseContext<'_>,
        tx: &mut TlsTx,
        rest: &[u8],
    ) -> Result<Step, Dead> {
        let Some(header) = rest.get(..HEADER_LEN) else { return Ok(Step::Wait(HEADER_LEN)) };
        let kind = header[0];
        let own = u16::from_be_bytes([header[1], header[2]]);
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let side = &mut tx.sides[cx.direction.index()];
        if !side.has_hello || side.version == version::SSL2 {
            side.version = own;
        }
        let broken = if !(record::CHANGE_CIPHER_SPEC..=record::HEARTBEAT).contains(&kind) {
            Some(event::INVALID_RECORD_TYPE)
        } else if len == 0 || len > RECORD_BYTES_MAX {
            Some(event::INVALID_RECORD_LENGTH)
        } else if !version::is_in_records(side.version) {
            Some(event::INVALID_RECORD_VERSION)
        } else {
            None
        };
        if let Some(code) = broken {
            tx.events.set(code);
            return Err(Dead);
        }
        if kind == record::APPLICATION {
            if rest.len() == HEADER_LEN {
                return Ok(Step::Wait(HEADER_LEN + 1));
            }
            self.application_data(cx, tx);
            self.halves[cx.direction.index()].skip = len;
            return Ok(Step::Used(HEADER_LEN));
        }
        let Some(body) = rest.get(HEADER_LEN..HEADER_LEN + len) else {
            return Ok(Step::Wait(HEADER_LEN + len));
        };
        match kind {
            record::CHANGE_CIPHER_SPEC => {
                self.has_cipher_change = true;
                if cx.direction == Direction::ToServer {
                    tx.advance(Direction::ToServer, client::HANDSHAKE_DONE);
                }
            }
            record::ALERT => self.alert(tx, body)?,
            record::HANDSHAKE => self.handshake_record(cx, tx, body)?,
            _ => self.heartbeat(cx.direction, tx, body)?,
        }
        Ok(Step::Used(HEADER_LEN + len))
    }

    fn application_data(&mut self, cx: &mut ParseContext<'_>, tx: &mut TlsTx) {
        match cx.direction {
            Direction::ToServer => tx.advance(cx.direction, client::HANDSHAKE_DONE),
            Direction::ToClient => tx.advance(cx.direction, server::HANDSHAKE_DONE),
        }
        let mode = tx.settings.encryption;
        // The server's first encrypted record of TLS 1.3 is enough.
        cx.stop_raw |= mode == Encryption::TrackOnly;
        cx.stop_payload_inspection |= mode == Encryption::TrackOnly;
        if tx.is_handshake_done() {
            cx.stop_payload_inspection |= mode != Encryption::Full;
            cx.stop_reassembly |= mode == Encryption::Bypass;
            cx.flush |= mode == Encryption::Bypass;
        }
    }

    /// A fatal alert in the clear ends the session.
    fn alert(&mut self, tx: &mut TlsTx, body: &[u8]) -> Result<(), Dead> {
        if self.has_cipher_change {
            return Ok(());
        }
        match body {
            [_] => {
                tx.events.set(event::INVALID_ALERT_MESSAGE);
                Err(Dead)
            }
            [2, _] => {
                tx.both_finished();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn handshake_record(
        &mut self,
        cx: &mut ParseContext<'_>,
        tx: &mut TlsTx,
        mut body: &[u8],
    ) -> Result<(), Dead> {
        if self.has_cipher_change {
            let (client, server) = (tx.client(), tx.server());
            let is_second_hello =
                client.version > version::TLS12 && client.has_hello && !server.has_hello;
            if !is_second_hello {
                return Ok(());
            }
        }
        let at = cx.direction.index();
        if body.len() < 4 && self.halves[at].message.is_empty() {
            tx.events.set(event::INVALID_SSL_RECORD);
            return Err(Dead);
        }
        let skipped = body.len().min(self.halves[at].message_skip);
        self.halves[at].message_skip -= skipped;
        body = body.get(skipped..).unwrap_or_default();
        if self.halves[at].message.is_empty() {
            let used = self.messages(cx, tx, body);
            self.keep_rest(at, body.get(used..).unwrap_or_default());
        } else {
            let mut whole = std::mem::take(&mut self.halves[at].message);
            whole.extend_from_slice(body);
            let used = self.messages(cx, tx, &whole);
            whole.drain(..used);
            if self.is_too_long(at, &whole) {
                whole.clear();
            }
            self.halves[at].message = whole;
        }
        Ok(())
    }

    fn keep_rest(&mut self, at: usize, rest: &[u8]) {
        if !rest.is_empty() && !self.is_too_long(at, rest) {
            self.halves[at].message.extend_from_slice(rest);
        }
    }

    /// A message that begins in `rest` and is longer than is kept: its remainder will be skipped.
    fn is_too_long(&mut self, at: usize, rest: &[u8]) -> bool {
        let Some([_, a, b, c]) = rest.first_chunk::<4>() else { return false };
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize + 4;
        let is_too_long = len > HANDSHAKE_BYTES_MAX;
        if is_too_long {
            reached::HANDSHAKE_BYTES_MAX.count();
            self.halves[at].message_skip = len.saturating_sub(rest.len());
        }
        is_too_long
    }

    /// Handles the messages that are whole; returns how many bytes they took. Of a message that is not known
    /// nothing is kept: the next record begins another (Suricata 8.0.7).
    fn messages(&mut self, cx: &mut ParseContext<'_>, tx: &mut TlsTx, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some([kind, a, b, c]) = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if !is_known_message(*kind) {
                tx.events.set(event::INVALID_HANDSHAKE_MESSAGE);
                at = bytes.len().min(at + 4 + len);
                continue;
            }
            let Some(body) = bytes.get(at + 4..at + 4 + len) else { break };
            self.message(cx, tx, *kind, body);
            at += 4 + len;
        }
        at
    }

    fn message(&mut self, cx: &mut ParseContext<'_>, tx: &mut TlsTx, kind: u8, body: &[u8]) {
        let d = cx.direction;
        match kind {
            1 | 2 => self.hello(cx, tx, kind == 1, body),
            11 => {
                self.certificates(d, tx, body);
                let progress = match d {
                    Direction::ToServer => client::CERT_DONE,
                    Direction::ToClient => server::CERT_DONE,
                };
                tx.advance(d, progress);
            }
            12 => tx.current = state::SERVER_KEYX,
            13 => self.wants_client_cert = true,
            14 if d == Direction::ToClient => tx.advance(d, server::HELLO_DONE),
            16 => tx.current = state::CLIENT_KEYX,
            _ => {}
        }
    }

    fn hello(&mut self, cx: &mut ParseContext<'_>, tx: &mut TlsTx, is_client: bool, body: &[u8]) {
        let d = cx.direction;
        tx.current = if is_client { state::CLIENT_HELLO } else { state::SERVER_HELLO };
        let wants_ja3 = cx.requirements.ja3 || tx.settings.ja3.unwrap_or(cx.requirements.logs_ja3);
        let mut reading = Reading {
            side: &mut tx.sides[d.index()],
            events: &mut tx.events,
            wants_ja3,
            is_client,
            client_names_versions: tx.client_names_versions,
            found: Found::default(),
        };
        reading.read_body(body);
        let found = reading.found;
        tx.is_resumed |= found.has_ticket;
        tx.client_names_versions |= found.names_versions;
        tx.hides_certificate |= found.hides_certificate;
        tx.sides[d.index()].has_hello = true;
        match d {
            Direction::ToServer => {
                tx.ja4 = Some(tx.client().hello.ja4(b't'));
                tx.advance(d, client::HELLO_DONE);
            }
            Direction::ToClient => {
                let offered = &tx.client().session_id;
                tx.is_resumed |= !offered.is_empty() && *offered == tx.server().session_id;
                tx.advance(d, server::HELLO);
            }
        }
    }

    /// A chain: three bytes of length, then each certificate after three bytes of its own.
    fn certificates(&mut self, d: Direction, tx: &mut TlsTx, body: &[u8]) {
        let Some((mut rest, _)) = split_24(body) else { return };
        let side = &mut tx.sides[d.index()];
        while !rest.is_empty() {
            let Some((der, tail)) = split_24(rest) else {
                tx.events.set(event::INVALID_CERTIFICATE);
                return;
            };
            rest = tail;
            if der.is_empty() {
                if side.certificate.is_none() {
                    tx.events.set(event::CERTIFICATE_INVALID_LENGTH);
                }
                continue;
            }
            if side.certificate.is_none() {
                if der.len() > CERT_BYTES_MAX {
                    tx.events.set(event::INVALID_CERTIFICATE);
                    continue;
                }
                match certificate::parse(der) {
                    Ok(c) => {
                        if c.has_too_many_names {
                            tx.events.set(event::TOO_MANY_SUBJECT_ALTERNATIVE_NAMES);
                        }
                        side.certificate = Some(c);
                    }
                    Err(code) => {
                        tx.events.set(code);
                        continue;
                    }
                }
            }
            if reached::CHAIN_CERTS_MAX.has_room(side.chain.len()) {
                side.chain.push(der.to_vec());
            }
        }
    }

    /// A heartbeat, and the signs of Heartbleed (CVE-2014-0160).
    fn heartbeat(&mut self, d: Direction, tx: &mut TlsTx, body: &[u8]) -> Result<(), Dead> {
        let Some(&[kind, a, b]) = body.first_chunk::<3>() else { return Ok(()) };
        let is_encrypted = self.has_cipher_change;
        let broken = match self.heartbeat {
            _ if !is_encrypted && !matches!(kind, 1 | 2) => Some(event::INVALID_HEARTBEAT_MESSAGE),
            Heartbeat::None => {
                let len = if is_encrypted { body.len() } else { 0 };
                self.heartbeat = Heartbeat::Request { direction: d, len };
                let payload = usize::from(u16::from_be_bytes([a, b]));
                match body.len().checked_sub(payload + 3) {
                    _ if is_encrypted => None,
                    None => Some(event::OVERFLOW_HEARTBEAT_MESSAGE),
                    // RFC 6520 4: at least sixteen bytes of padding.
                    Some(..16) => Some(event::INVALID_HEARTBEAT_MESSAGE),
                    Some(_) => None,
                }
            }
            Heartbeat::Request { direction, .. } if direction == d => {
                Some(event::INVALID_HEARTBEAT_MESSAGE)
            }
            Heartbeat::Request { len, .. } => {
                self.heartbeat = Heartbeat::None;
                let is_longer = is_encrypted && len > 0 && len < body.len();
                is_longer.then_some(event::DATALEAK_HEARTBEAT_MISMATCH)
            }
        };
        match broken {
            Some(code) => {
                tx.events.set(code);
                Err(Dead)
            }
            None => Ok(()),
        }
    }

    /// One record of SSL 2.0.
    fn old_record(&mut self, d: Direction, tx: &mut TlsTx, rest: &[u8]) -> Result<Step, Dead> {
        let is_short = rest.first().is_some_and(|b| b & 0x80 != 0);
        let header_len = if is_short { 2 } else { 3 };
        let Some(header) = rest.get(..header_len) else { return Ok(Step::Wait(header_len)) };
        let side = &mut tx.sides[d.index()];
        if !side.has_hello {
            side.version = version::SSL2;
        }
        let mask = if is_short { 0x7f } else { 0x3f };
        let len = usize::from(u16::from_be_bytes([header[0] & mask, header[1]]));
        if len == 0 {
            tx.events.set(event::INVALID_SSLV2_HEADER);
            tx.events.set(event::INVALID_SSL_RECORD);
            return Err(Dead);
        }
        let Some(body) = rest.get(header_len..header_len + len) else {
            return Ok(Step::Wait(header_len + len));
        };
        if matches!(body, [1, rest @ ..] if (1..6).contains(&rest.len())) {
            tx.events.set(event::INVALID_SSL_RECORD);
            return Err(Dead);
        }
        self.old_message(d, tx, body);
        Ok(Step::Used(header_len + len))
    }

    /// A message of SSL 2.0 (Hickman 1995; RFC 5246 E.2 for the hello of newer clients).
    fn old_message(&mut self, d: Direction, tx: &mut TlsTx, body: &[u8]) {
        let Some((kind, body)) = body.split_first() else { return };
        match kind {
            0 => tx.events.set(event::ERROR_MESSAGE_ENCOUNTERED),
            1 if d == Direction::ToServer => {
                let side = &mut tx.sides[d.index()];
                if let Some(own) = body.first_chunk::<2>() {
                    side.version = u16::from_be_bytes(*own);
                }
                side.has_hello = true;
                tx.current = state::CLIENT_HELLO;
                tx.advance(d, client::HELLO_DONE);
            }
            2 => tx.current = state::CLIENT_KEYX,
            4 if d == Direction::ToClient => {
                let side = &mut tx.sides[d.index()];
                side.version = version::SSL2;
                side.has_hello = true;
                tx.current = state::SERVER_HELLO;
                tx.advance(d, server::HELLO);
            }
            _ => {}
        }
    }

    /// The end of a direction counts unless it cuts a record off.
    fn end(&mut self, direction: Direction, eof: bool) {
        let half = &mut self.halves[direction.index()];
        half.is_ended |= eof && !half.is_waiting;
    }

    /// What the end of every call settles: a certificate where one is awaited ends the handshake
    /// for both sides (TLS up to 1.2); the end of a direction ends all in it.
    fn settle(&mut self, tx: &mut TlsTx) {
        let awaited = if self.wants_client_cert { tx.client() } else { tx.server() };
        if awaited.certificate.is_some() {
            tx.both_done();
        }
        for (d, last) in
            [(Direction::ToServer, client::FINISHED), (Direction::ToClient, server::FINISHED)]
        {
            if self.halves[d.index()].is_ended {
                tx.advance(d, last);
            }
        }
    }
}

/// Whether Suricata knows a handshake message of this type (RFC 5246 7.4, RFC 8446 4, RFC 6066).
fn is_known_message(kind: u8) -> bool {
    matches!(kind, 0..=2 | 4 | 11..=16 | 20..=22)
}

/// Bytes after a length of three bytes, and what follows them.
fn split_24(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<3>()?;
    let [a, b, c] = *head;
    rest.split_at_checked(u32::from_be_bytes([0, a, b, c]) as usize)
}

impl Parser for TlsParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, eof } = input else { return Outcome::Error };
        let Some(mut tx) = self.tx.take() else { return Outcome::Done };
        tx.ts_ns = cx.ts_ns;
        tx.from_proto = cx.changed_from;
        let outcome = self.data(cx, &mut tx, bytes);
        self.end(cx.direction, eof);
        self.settle(&mut tx);
        self.tx = Some(tx);
        outcome
    }

    fn txs(&self) -> &dyn TxTable {
        &self.tx
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.tx
    }

    fn finish(&mut self, direction: Direction) {
        self.end(direction, true);
        if let Some(mut tx) = self.tx.take() {
            self.settle(&mut tx);
            self.tx = Some(tx);
        }
    }

    fn bytes_held(&self) -> usize {
        let messages: usize = self.halves.iter().map(|h| h.message.capacity()).sum();
        size_of::<TlsParser>() + messages + self.tx.as_deref().map_or(0, TlsTx::bytes_held)
    }
}

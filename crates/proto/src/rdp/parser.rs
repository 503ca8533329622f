//! The parser of a session, until it is encrypted.

use super::client::Client;
use super::handshake::Handshake;
use super::limits::reached;
use super::message::{self, Answer, HEADER_BYTES, Message, VERSION};
use crate::tx_list::{TxList, TxTable};
use crate::{Buffer, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Transaction};
use gabion_record::Direction;
use gabion_record::json::Json;
use std::any::Any;

/// A message.
#[derive(Debug)]
pub struct RdpTx {
    id: u64,
    direction: Direction,
    message: Message,
}

impl RdpTx {
    fn bytes_held(&self) -> usize {
        let held = match &self.message {
            Message::Request(request) => request.cookie.as_ref().map_or(0, Vec::capacity),
            Message::ConnectRequest { client, channels } => {
                let client = client.as_ref().map_or(0, |_| size_of::<Client>() + 128);
                client + channels.len() * 32
            }
            Message::Certificates(numbers) => numbers.len() * 64,
            Message::Answer(_) | Message::ConnectResponse => 0,
        };
        size_of::<RdpTx>() + held
    }
}

/// Flags of a request (MS-RDPBCGR 2.2.1.1.1), as Suricata 8.0.7 names them.
const REQUEST_FLAGS: [(u8, &str); 3] = [
    (1, "restricted_admin_mode_required"),
    (2, "redirected_authentication_mode_required"),
    (8, "correlation_info_present"),
];

/// Flags of an answer (MS-RDPBCGR 2.2.1.2.1), as Suricata 8.0.7 names them.
const ANSWER_FLAGS: [(u8, &str); 4] = [
    (1, "extended_client_data"),
    (2, "dynvc_gfx"),
    (8, "restricted_admin"),
    (16, "redirected_authentication"),
];

fn write_flags(json: &mut Json, key: &str, flags: u8, names: &[(u8, &str)]) {
    if flags == 0 {
        return;
    }
    json.open_array_key(key);
    for (_, name) in names.iter().filter(|(bit, _)| flags & bit != 0) {
        json.item(name);
    }
    json.close_array();
}

impl Transaction for RdpTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, _: Direction) -> u8 {
        1
    }

    fn only(&self) -> Option<Direction> {
        Some(self.direction)
    }

    fn buffer(&self, _: u16, _: Direction, _: usize, _: Inspect) -> Option<Buffer<'_>> {
        None
    }

    fn events(&self) -> &[u16] {
        &[]
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        // Suricata counts from 1 there.
        json.number("tx_id", self.id + 1);
        match &self.message {
            Message::Request(request) => {
                json.field_plain("event_type", "initial_request");
                if let Some(cookie) = &request.cookie {
                    json.field("cookie", cookie);
                }
                write_flags(json, "flags", request.flags.unwrap_or(0), &REQUEST_FLAGS);
            }
            Message::Answer(answer) => {
                json.field_plain("event_type", "initial_response");
                match answer {
                    Answer::Plain => {}
                    Answer::Chosen { flags, protocol } => {
                        write_flags(json, "server_supports", *flags, &ANSWER_FLAGS);
                        let name = message::protocol_name(*protocol).unwrap_or_default();
                        json.field_plain("protocol", name);
                    }
                    Answer::Refused(code) => {
                        json.number("error_code", *code);
                        let reason = message::failure_reason(*code).unwrap_or_default();
                        json.field_plain("reason", reason);
                    }
                }
            }
            Message::ConnectRequest { client, channels } => {
                json.field_plain("event_type", "connect_request");
                if let Some(client) = client {
                    json.open_key("client");
                    client.write(json);
                    json.close();
                }
                if !channels.is_empty() {
                    json.open_array_key("channels");
                    channels.iter().for_each(|name| json.item(name));
                    json.close_array();
                }
            }
            Message::ConnectResponse => json.field_plain("event_type", "connect_response"),
            Message::Certificates(numbers) => {
                json.field_plain("event_type", "tls_handshake");
                json.open_array_key("x509_serials");
                numbers.iter().for_each(|number| json.item(number));
                json.close_array();
            }
        }
        true
    }

    fn is_logged_as_packet(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Parser of an RDP session.
#[derive(Debug, Default)]
pub struct RdpParser {
    txs: TxList<RdpTx>,
    /// What follows is TLS.
    is_tls: bool,
    /// A direction continues with other messages, which nobody logs: it is over, however its bytes are cut.
    is_over: [bool; 2],
    handshakes: [Handshake; 2],
}

impl RdpParser {
    fn add(&mut self, direction: Direction, message: Message) {
        self.txs.push(Some(&reached::TXS_MAX), |id| RdpTx { id, direction, message });
    }

    /// Takes records of TLS.
    fn records(&mut self, direction: Direction, bytes: &[u8]) -> Outcome {
        let handshake = &mut self.handshakes[direction.index()];
        let taken = handshake.take_records(bytes);
        let is_over = handshake.is_over;
        if let Some(numbers) = taken.serials {
            self.add(direction, Message::Certificates(numbers));
        }
        if is_over || taken.used == bytes.len() {
            return Outcome::Done;
        }
        let rest = bytes.get(taken.used..).unwrap_or_default();
        let len = rest.get(3..5).map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])));
        let needed = if rest.len() < 5 { 5 } else { 5 + len };
        Outcome::Incomplete { consumed: taken.used, needed }
    }

    fn data(&mut self, direction: Direction, bytes: &[u8]) -> Outcome {
        if self.is_over[direction.index()] {
            return Outcome::Done;
        }
        let mut at = 0;
        while !self.is_tls {
            let rest = bytes.get(at..).unwrap_or_default();
            match rest.first() {
                Some(&VERSION) => {}
                Some(_) => {
                    self.is_over[direction.index()] = true;
                    return Outcome::Done;
                }
                None => return Outcome::Done,
            }
            let Some(len) = message::packet_len(rest) else {
                return Outcome::Incomplete { consumed: at, needed: HEADER_BYTES };
            };
            let len = len.max(HEADER_BYTES);
            let Some(packet) = rest.get(..len) else {
                return Outcome::Incomplete { consumed: at, needed: len };
            };
            at += len;
            if let Some(message) = message::parse_packet(packet) {
                if let Message::Answer(Answer::Chosen { protocol: 1.., .. }) = message {
                    self.is_tls = true;
                }
                self.add(direction, message);
            }
        }
        match self.records(direction, bytes.get(at..).unwrap_or_default()) {
            Outcome::Incomplete { consumed, needed } => {
                Outcome::Incomplete { consumed: consumed + at, needed }
            }
            other => other,
        }
    }
}

impl Parser for RdpParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        match input {
            Input::Gap { .. } => Outcome::Error,
            Input::Data { bytes, .. } => self.data(cx.direction, bytes),
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        size_of::<RdpParser>() + self.txs.iter().map(RdpTx::bytes_held).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;

    /// Messages of other kinds end a direction, and no cut makes a difference.
    #[test]
    fn cuts_make_no_difference() {
        // A connection request (X.224), then a byte of another kind, then the request again.
        let request = b"\x03\0\0\x0b\x06\xe0\0\0\0\0\0";
        let all = [&request[..], b"\x44\x04", request].concat();
        for cut in 0..all.len() {
            let mut parser = RdpParser::default();
            let (first, second) = all.split_at(cut);
            let mut kept = first.to_vec();
            for more in [&[][..], second] {
                kept.extend_from_slice(more);
                let ends = Endpoints::default();
                let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
                let used = match parser.parse(&mut cx, Input::Data { bytes: &kept, eof: false }) {
                    Outcome::Incomplete { consumed, .. } => consumed,
                    _ => kept.len(),
                };
                kept.drain(..used);
            }
            assert_eq!(parser.txs.len(), 1, "cut at {cut}");
        }
    }

    /// Requests without end are bounded, and a cookie as long as a packet is one.
    #[test]
    fn requests_are_bounded() {
        let ends = Endpoints::default();
        let mut parser = RdpParser::default();
        let request = b"\x03\0\0\x0b\x06\xe0\0\0\0\0\0".repeat(1000);
        let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
        parser.parse(&mut cx, Input::Data { bytes: &request, eof: false });
        let max = super::super::limits::TXS_MAX;
        assert_eq!((parser.txs.len(), parser.next_tx_id()), (max, 1000));
        let lost = gabion_record::limits::take_reached().times_reached(&reached::TXS_MAX);
        assert_eq!(lost, 1000 - max as u64);
        let long = [&b"\x03\0\xff\xff\xfe\xe0\0\0\0\0\0Cookie: mstshash="[..], &[b'a'; 65_507]];
        let long = [&long.concat()[..], b"\r\n"].concat();
        let mut parser = RdpParser::default();
        for end in [4, 100, 40_000] {
            let piece = Input::Data { bytes: &long[..end], eof: false };
            let wait = Outcome::Incomplete { consumed: 0, needed: 0xffff };
            assert_eq!(parser.parse(&mut cx, piece), wait);
        }
    }
}

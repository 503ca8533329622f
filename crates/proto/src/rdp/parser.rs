//! The parser of a session, until it is encrypted.

use super::client::Client;
use super::handshake::{self, Handshake};
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
    /// What follows in a direction is TLS.
    is_tls: [bool; 2],
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

    /// Takes packets, and TLS from its first record on, whatever was negotiated (as Suricata does). Anything else ends
    /// both sides.
    fn data(&mut self, direction: Direction, bytes: &[u8]) -> Outcome {
        let mut at = 0;
        while !self.is_tls[direction.index()] {
            let rest = bytes.get(at..).unwrap_or_default();
            match rest.first() {
                None => return Outcome::Done,
                Some(&VERSION) => {}
                Some(kind) if handshake::may_begin_with(*kind) => {
                    self.is_tls[direction.index()] = true;
                    break;
                }
                Some(_) => return Outcome::Error,
            }
            let Some(len) = message::packet_len(rest) else {
                return Outcome::Incomplete { consumed: at, needed: HEADER_BYTES };
            };
            if len < HEADER_BYTES {
                return Outcome::Error;
            }
            let Some(packet) = rest.get(..len) else {
                return Outcome::Incomplete { consumed: at, needed: len };
            };
            at += len;
            if let Some(message) = message::parse_packet(packet, direction) {
                self.add(direction, message);
            }
        }
        // Certificates of the client are not logged.
        if direction == Direction::ToServer {
            return Outcome::Done;
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

    /// Bytes of either side, in their order.
    type Pieces<'a> = &'a [(Direction, &'a [u8])];

    /// Kinds of the transactions after these pieces, `error` where they end the session. Each also comes
    /// in single bytes.
    fn session(pieces: Pieces<'_>) -> String {
        let play = |size: usize| {
            let mut parser = RdpParser::default();
            let mut pending = [Vec::new(), Vec::new()];
            let chunks = pieces.iter().flat_map(|(d, bytes)| bytes.chunks(size).map(|b| (*d, b)));
            let mut end = "";
            for (d, bytes) in chunks {
                let kept: &mut Vec<u8> = &mut pending[d.index()];
                kept.extend_from_slice(bytes);
                let ends = Endpoints::default();
                let mut cx = ParseContext::new(0, d, &ends);
                match parser.parse(&mut cx, Input::Data { bytes: kept, eof: false }) {
                    Outcome::Incomplete { consumed, .. } => drop(kept.drain(..consumed)),
                    Outcome::Done => kept.clear(),
                    Outcome::Error => {
                        end = " error";
                        break;
                    }
                }
            }
            let name = |tx: &RdpTx| match &tx.message {
                Message::Request(_) => " request",
                Message::Answer(_) => " answer",
                Message::ConnectRequest { .. } => " connect",
                Message::ConnectResponse => " response",
                Message::Certificates(_) => " certificates",
            };
            parser.txs.iter().map(name).collect::<String>() + end
        };
        assert_eq!(play(1), play(usize::MAX));
        play(1)
    }

    /// What Suricata 8.0.7 logs of these sessions.
    #[test]
    fn sessions_are_as_in_suricata() {
        use Direction::{ToClient, ToServer};
        const REQUEST: &[u8] = b"\x03\0\0\x0b\x06\xe0\0\0\0\0\0";
        const ANSWER: &[u8] = b"\x03\0\0\x0b\x06\xd0\0\0\x12\x34\0";
        const TLS: &[u8] = b"\x03\0\0\x13\x0e\xd0\0\0\x12\x34\0\x02\0\x08\0\x01\0\0\0";
        const REFUSED: &[u8] = b"\x03\0\0\x13\x0e\xd0\0\0\x12\x34\0\x03\0\x08\0\x05\0\0\0";
        const RESPONSE: &[u8] = b"\x03\0\0\x0c\x02\xf0\x80\x7f\x66\x03\x01\x02";
        const CERTIFICATES: &[u8] = b"\x16\x03\x03\0\x07\x0b\0\0\x03\0\0\0";
        const OTHER: &[u8] = b"\x44\x04";
        let (c, s) = (ToServer, ToClient);
        let cases: &[(Pieces<'_>, &str)] = &[
            (&[(c, REQUEST), (s, ANSWER), (s, RESPONSE)], " request answer response"),
            // Neither a packet nor TLS.
            (&[(c, REQUEST), (c, OTHER), (s, ANSWER)], " request error"),
            (&[(c, REQUEST), (s, ANSWER), (s, OTHER), (c, REQUEST)], " request answer error"),
            (&[(c, REQUEST), (c, b"\x03\0\0\x03"), (s, ANSWER)], " request error"),
            (&[(c, REQUEST), (c, b"\x03\0\0\x04"), (s, ANSWER)], " request answer"),
            (&[(c, REQUEST), (s, TLS), (c, OTHER), (s, CERTIFICATES)], " request answer error"),
            (
                &[(c, REQUEST), (s, TLS), (c, b"\x17\x03\x03\0\x01x"), (s, CERTIFICATES)],
                " request answer error",
            ),
            // Messages that the other side sends are none.
            (&[(c, REQUEST), (c, ANSWER), (c, REQUEST)], " request request"),
            (&[(c, REQUEST), (s, ANSWER), (s, REQUEST), (s, ANSWER)], " request answer answer"),
            (
                &[(c, REQUEST), (s, ANSWER), (c, RESPONSE), (s, RESPONSE)],
                " request answer response",
            ),
            // Packets after TLS was chosen, certificates without that.
            (
                &[(c, REQUEST), (s, TLS), (c, REQUEST), (s, CERTIFICATES)],
                " request answer request certificates",
            ),
            (
                &[(c, REQUEST), (s, TLS), (s, ANSWER), (s, CERTIFICATES)],
                " request answer answer certificates",
            ),
            (&[(c, REQUEST), (s, REFUSED), (s, CERTIFICATES)], " request answer certificates"),
            (&[(c, REQUEST), (s, ANSWER), (s, CERTIFICATES)], " request answer certificates"),
            (&[(c, REQUEST), (s, TLS), (c, CERTIFICATES)], " request answer"),
        ];
        for (pieces, expected) in cases {
            assert_eq!(session(pieces), *expected, "{pieces:x?}");
        }
        assert_eq!(super::super::probe_connection(b"\x03", ToClient), crate::detect::Probe::Yes);
        assert_eq!(super::super::probe_connection(b"\x04\0", ToServer), crate::detect::Probe::No);
    }

    /// Other bytes end a session, and no cut makes a difference.
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
                match parser.parse(&mut cx, Input::Data { bytes: &kept, eof: false }) {
                    Outcome::Incomplete { consumed, .. } => drop(kept.drain(..consumed)),
                    Outcome::Done => kept.clear(),
                    Outcome::Error => break,
                }
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

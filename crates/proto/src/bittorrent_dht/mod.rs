//! The distributed hash table of BitTorrent over UDP (BEP 5, 32): each message is a transaction.
//!
//! `bencode` reads the encoding, `message` the messages in it.

mod bencode;
pub mod limits;
mod log;
mod message;

use crate::datagrams::one_datagram;
use crate::detect::ProbePattern;
use crate::limits::reached::DATAGRAM_TXS_MAX;
use crate::protocol::Protocol;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Buffer, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::{EventDef, ProtoTable, Transport};
use gabion_record::json::Json;
use message::{Content, Message, STARTS, read_message};

/// The event of a message that could not be read.
const MALFORMED_PACKET: u16 = 0;

/// A message.
#[derive(Debug)]
struct DhtTx {
    id: u64,
    direction: Direction,
    message: Message,
    events: EventList,
}

impl DhtTx {
    fn bytes_held(&self) -> usize {
        let message = &self.message;
        let of_bytes = |b: &Option<Box<[u8]>>| b.as_ref().map_or(0, |b| b.len());
        let content = match &message.content {
            None => 0,
            Some(Content::Query { kind, query }) => {
                let parts = [&query.target, &query.info_hash, &query.token];
                kind.len() + query.id.len() + parts.into_iter().map(of_bytes).sum::<usize>()
            }
            Some(Content::Response(r)) => {
                let values = r.values.iter().map(|v| v.len() + size_of_val(v)).sum::<usize>();
                r.id.len() + r.nodes.len() + r.nodes6.len() + values + of_bytes(&r.token)
            }
            Some(Content::Error { text, .. }) => text.len(),
        };
        let id = message.transaction_id.len() + of_bytes(&message.client_version);
        size_of::<DhtTx>() + id + content
    }
}

impl Transaction for DhtTx {
    one_datagram!();

    fn buffer(&self, _: u16, _: Direction, _: usize, _: Inspect) -> Option<Buffer<'_>> {
        None
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write_record(&self.message, json);
        true
    }
}

/// Parser of a flow.
#[derive(Debug, Default)]
struct DhtParser {
    txs: TxList<DhtTx>,
}

impl Parser for DhtParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        // Other messages share the port: they are none of these (as in Suricata).
        if !STARTS.iter().any(|start| bytes.starts_with(start.as_slice())) {
            return Outcome::Done;
        }
        let (mut message, mut events) = (Message::default(), EventList::default());
        let read = read_message(bytes, &mut message);
        if read.is_err() {
            events.set(MALFORMED_PACKET);
        }
        let direction = cx.direction;
        self.txs.push(Some(&DATAGRAM_TXS_MAX), |id| DhtTx { id, direction, message, events });
        if read.is_ok() { Outcome::Done } else { Outcome::Error }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        size_of::<DhtParser>() + self.txs.iter().map(DhtTx::bytes_held).sum::<usize>()
    }
}

/// How the first query of a flow begins, in either direction.
const QUERY: &[u8] = b"d1:ad2:id20:";

/// The BitTorrent DHT in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[
        ProbePattern::at_start(Direction::ToServer, QUERY),
        ProbePattern::at_start(Direction::ToClient, QUERY),
    ],
    accepts_gaps: true,
    event_type: "bittorrent_dht",
    open: |_, _| Box::new(DhtParser::default()),
    ..Protocol::plain(ProtoTable {
        rule_names: &["bittorrent-dht"],
        events: &[EventDef { name: "malformed_packet", code: MALFORMED_PACKET }],
        ..ProtoTable::of_requests("bittorrent-dht", &[Transport::Udp])
    })
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;
    use gabion_record::json::Json;

    fn give(parser: &mut DhtParser, bytes: &[u8]) -> (String, usize, Outcome) {
        let ends = Endpoints::default();
        let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
        let outcome = parser.parse(&mut cx, Input::Data { bytes, eof: false });
        let Some(tx) = parser.txs.last_mut() else { return (String::new(), 0, outcome) };
        let mut json = Json::new();
        json.open();
        tx.log(&mut json, LogOptions::default());
        json.close();
        let out = (String::from_utf8(json.take_bytes()).unwrap(), tx.events.codes().len(), outcome);
        let id = tx.id;
        parser.txs.free(id);
        out
    }

    const ID: &str = "2:id20:abcdefghij0123456789";
    const ID_HEX: &str = "6162636465666768696a30313233343536373839";

    /// Records are Suricata's (8.0.7) for the same messages.
    #[test]
    fn messages_are_logged() {
        let mut parser = DhtParser::default();
        for (message, record) in [
            (
                format!("d1:ad{ID}e1:q4:ping1:t2:aa1:y1:qe"),
                format!("\"request_type\":\"ping\",\"request\":{{\"id\":\"{ID_HEX}\"}}"),
            ),
            (
                format!(
                    "d1:ad{ID}12:implied_porti1e9:info_hash2:mn4:porti6881e5:token1:ae1:q13:announce_peer1:t2:aa1:y1:qe"
                ),
                format!(
                    "\"request_type\":\"announce_peer\",\"request\":{{\"id\":\"{ID_HEX}\",\"info_hash\":\"6d6e\",\"token\":\"61\",\"implied_port\":1,\"port\":6881}}"
                ),
            ),
            (
                format!(
                    "d1:rd{ID}5:nodes27:AAAAAAAAAAAAAAAAAAAA\n\0\0\u{1}\u{1a}\u{1}x5:token2:ao6:valuesl6:axje.uee1:t2:aa1:y1:re"
                ),
                format!(
                    "\"response\":{{\"id\":\"{ID_HEX}\",\"nodes\":[{{\"id\":\"4141414141414141414141414141414141414141\",\"ip\":\"10.0.0.1\",\"port\":6657}}],\"values\":[{{\"ip\":\"97.120.106.101\",\"port\":11893}}],\"token\":\"616f\"}}"
                ),
            ),
            (
                "d1:eli201e5:helloe1:t2:aa1:y1:ee".to_string(),
                "\"error\":{\"num\":201,\"msg\":\"hello\"}".to_string(),
            ),
        ] {
            let expected = format!("{{\"transaction_id\":\"6161\",{record}}}");
            assert_eq!(give(&mut parser, message.as_bytes()), (expected, 0, Outcome::Done));
        }
        let without_id = format!("d1:ad{ID}e1:q4:ping1:y1:qe");
        let expected = format!(
            "{{\"transaction_id\":\"\",\"request_type\":\"ping\",\"request\":{{\"id\":\"{ID_HEX}\"}}}}"
        );
        assert_eq!(give(&mut parser, without_id.as_bytes()), (expected, 1, Outcome::Error));
    }

    #[test]
    fn what_is_malformed_is_an_event_and_what_is_something_else_is_none() {
        let mut parser = DhtParser::default();
        for message in [
            "d1:ade1:q4:ping1:t2:aa1:y1:qe".to_string(),
            format!("d1:ad{ID}e1:q4:ping1:t2:aa1:y1:x"),
            format!("d1:ad{ID}e1:t2:aa1:q4:ping1:y1:qe"),
            format!("d1:ad{ID}4:porti70000ee1:q4:ping1:t2:aa1:y1:qe"),
            format!(
                "d1:ad{ID}1:z{}{}e1:q4:ping1:t2:aa1:y1:qe",
                "l".repeat(20_000),
                "e".repeat(20_000)
            ),
            "d1:eli201ee1:t2:aa1:y1:ee".to_string(),
            "d1:el".to_string(),
            format!("d1:rd{ID}6:valuesl6:axje.u3:abcee1:t2:aa1:y1:re"),
            format!("d1:rd{ID}6:valuesl5:axje.ee1:t2:aa1:y1:re"),
            format!("d1:rd{ID}6:valuesl0:ee1:t2:aa1:y1:re"),
        ] {
            let expected = ("{\"transaction_id\":\"\"}".to_string(), 1, Outcome::Error);
            assert_eq!(give(&mut parser, message.as_bytes()), expected);
        }
        for message in ["d1:t2:aa1:y1:re", "hello", "", "de"] {
            assert_eq!(give(&mut parser, message.as_bytes()), (String::new(), 0, Outcome::Done));
        }
    }
}

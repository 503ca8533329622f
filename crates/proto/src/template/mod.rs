//! The example protocol of Suricata: messages of a length, a colon and as many bytes. A response belongs to
//! the oldest request without one. It is off unless the configuration turns it on.

pub mod limits;

use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use crate::tx_list::{TxList, TxTable};
use crate::{Buffer, Input, Inspect, LogOptions, Outcome, ParseContext, Parser, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, ProtoTable, Transport};
use gabion_record::json::Json;
use limits::{LENGTH_DIGITS, reached};
use std::any::Any;

const TABLE: ProtoTable = ProtoTable {
    rule_names: &["template"],
    buffers: &[BufferDef {
        name: "template.buffer",
        internal: "template.buffer",
        description: "template.buffer",
        hooks: &[Hook::new(ToServer, 0, 0), Hook::new(ToClient, 0, 0)],
        ..BufferDef::PLAIN
    }],
    // Suricata 8.0.7 has it, and ends the flow before a rule can see it.
    events: &[EventDef { name: "too_many_transactions", code: 0 }],
    ..ProtoTable::of_requests("template", &[Transport::Tcp])
};

/// The protocol in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    is_default_on: false,
    is_logged: false,
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "7000",
        min_bytes: 2,
        max_bytes: 0,
        probe,
    }],
    accepts_gaps: true,
    open: |_, _| Box::<TemplateParser>::default(),
    ..Protocol::plain(TABLE)
};

/// What bytes begin with.
enum Parsed<'a> {
    Message {
        text: &'a [u8],
        len: usize,
    },
    /// This many bytes are needed.
    More(usize),
    Wrong,
}

/// Suricata 8.0.7 waits for the colon, whatever is before it.
fn parse_message(bytes: &[u8]) -> Parsed<'_> {
    let Some(colon) = bytes.iter().take(LENGTH_DIGITS + 1).position(|b| *b == b':') else {
        return if bytes.len() > LENGTH_DIGITS {
            Parsed::Wrong
        } else {
            Parsed::More(bytes.len() + 1)
        };
    };
    let digits = bytes.get(..colon).unwrap_or_default();
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Parsed::Wrong;
    }
    let size = digits.iter().fold(0, |n, b| n * 10 + usize::from(b - b'0'));
    let len = colon + 1 + size;
    match bytes.get(colon + 1..len) {
        Some(text) => Parsed::Message { text, len },
        None => Parsed::More(len),
    }
}

fn probe(bytes: &[u8], _: Direction) -> Probe {
    if !bytes.first().is_some_and(u8::is_ascii_digit) {
        return Probe::No;
    }
    match parse_message(bytes) {
        Parsed::Message { .. } => Probe::Yes,
        Parsed::More(_) => Probe::More,
        Parsed::Wrong => Probe::No,
    }
}

/// A request with its response.
#[derive(Debug)]
pub struct TemplateTx {
    id: u64,
    /// Its messages, to the server and to the client.
    messages: [Option<Vec<u8>>; 2],
}

impl Transaction for TemplateTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        u8::from(self.messages[direction.index()].is_some())
    }

    fn buffer(&self, _: u16, d: Direction, index: usize, _: Inspect) -> Option<Buffer<'_>> {
        let message = self.messages[d.index()].as_ref().filter(|_| index == 0)?;
        Some(Buffer::whole(message))
    }

    fn events(&self) -> &[u16] {
        &[]
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        for (key, message) in ["request", "response"].into_iter().zip(&self.messages) {
            if let Some(message) = message {
                json.field(key, message);
            }
        }
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Parser of a flow.
#[derive(Debug, Default)]
pub struct TemplateParser {
    txs: TxList<TemplateTx>,
    /// The oldest transaction that may have no response.
    unanswered: u64,
    /// Bytes of a direction were lost: a piece that does not begin with a message is passed over.
    has_gap: [bool; 2],
}

impl TemplateParser {
    fn take_message(&mut self, direction: Direction, text: &[u8]) -> Outcome {
        match direction {
            ToServer => {
                let message = Some(text.to_vec());
                self.txs.push(None, |id| TemplateTx { id, messages: [message, None] });
                if self.txs.len() >= limits::TXS_MAX {
                    reached::TXS_MAX.count();
                    return Outcome::Error;
                }
            }
            ToClient => {
                self.unanswered = self.unanswered.max(self.txs.first_id());
                if let Some(tx) = self.txs.get_mut(self.unanswered) {
                    tx.messages[1] = Some(text.to_vec());
                    self.unanswered += 1;
                }
            }
        }
        Outcome::Done
    }
}

impl Parser for TemplateParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let has_gap = &mut self.has_gap[cx.direction.index()];
        let Input::Data { bytes, .. } = input else {
            *has_gap = true;
            return Outcome::Done;
        };
        if *has_gap && !matches!(parse_message(bytes), Parsed::Message { .. }) {
            return Outcome::Done;
        }
        *has_gap = false;
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            if rest.is_empty() {
                return Outcome::Done;
            }
            match parse_message(rest) {
                Parsed::Message { text, len } => {
                    at += len;
                    if self.take_message(cx.direction, text) == Outcome::Error {
                        return Outcome::Error;
                    }
                }
                Parsed::More(needed) => return Outcome::Incomplete { consumed: at, needed },
                Parsed::Wrong => return Outcome::Error,
            }
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        let tx = |tx: &TemplateTx| {
            let messages = tx.messages.iter().flatten().map(Vec::capacity);
            size_of::<TemplateTx>() + messages.sum::<usize>()
        };
        size_of::<TemplateParser>() + self.txs.iter().map(tx).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Endpoints;

    #[test]
    fn messages_are_paired_and_bounded() {
        let ends = Endpoints::default();
        let mut parser = TemplateParser::default();
        let mut parse = |d, bytes: &[u8]| {
            let mut cx = ParseContext::new(0, d, &ends);
            parser.parse(&mut cx, Input::Data { bytes, eof: false })
        };
        assert_eq!(parse(ToServer, b"12:Hello World!2:ab"), Outcome::Done);
        assert_eq!(parse(ToClient, b"3:Bye"), Outcome::Done);
        let wait = Outcome::Incomplete { consumed: 0, needed: 99_999 + 6 };
        assert_eq!(parse(ToServer, b"99999:x"), wait);
        assert_eq!(parse(ToServer, b"999999:x"), Outcome::Error);
        // The 256th request without an answer ends the flow, as in Suricata 8.0.7.
        assert_eq!(parse(ToServer, &b"1:x".repeat(limits::TXS_MAX - 3)), Outcome::Done);
        assert_eq!(parse(ToServer, b"1:x"), Outcome::Error);
        assert_eq!(parser.txs.len(), limits::TXS_MAX);
        assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::TXS_MAX), 1);
    }

    /// What Suricata 8.0.7 logs of these pieces of requests; `None` is lost bytes.
    #[test]
    fn what_is_no_message_is_awaited_or_passed_over() {
        type Pieces<'a> = &'a [Option<&'a [u8]>];
        let cases: [(Pieces<'_>, &[&[u8]], bool); 6] = [
            (&[Some(b"1:a\n")], &[b"a"], true),
            (&[Some(b"1:a\nx")], &[b"a"], true),
            (&[Some(b"1:a\n1:b")], &[b"a"], false),
            (&[Some(b"1:a"), Some(b"x:a")], &[b"a"], false),
            (&[Some(b"5:ab"), None, Some(b"1:c")], &[b"c"], true),
            (&[Some(b"1:a"), None, Some(b"junk"), Some(b"1:c")], &[b"a", b"c"], true),
        ];
        for (pieces, expected, is_alive) in cases {
            let ends = Endpoints::default();
            let mut parser = TemplateParser::default();
            let (mut pending, mut outcome) = (Vec::new(), Outcome::Done);
            for piece in pieces {
                let mut cx = ParseContext::new(0, ToServer, &ends);
                match piece {
                    Some(bytes) => pending.extend_from_slice(bytes),
                    None => {
                        pending.clear();
                        parser.parse(&mut cx, Input::Gap { len: 3 });
                        continue;
                    }
                }
                outcome = parser.parse(&mut cx, Input::Data { bytes: &pending, eof: false });
                match outcome {
                    Outcome::Incomplete { consumed, .. } => drop(pending.drain(..consumed)),
                    Outcome::Done | Outcome::Error => pending.clear(),
                }
            }
            let found: Vec<_> = parser.txs.iter().filter_map(|t| t.messages[0].clone()).collect();
            assert_eq!(
                (found, outcome != Outcome::Error),
                (expected.iter().map(|e| e.to_vec()).collect(), is_alive)
            );
        }
        assert_eq!(probe(b"x:", ToServer), Probe::No);
    }

    /// The record of Suricata 8.0.7.
    #[test]
    fn a_pair_is_logged() {
        let messages = [b"Hello World!".to_vec(), b"Bye".to_vec()].map(Some);
        let mut json = Json::new();
        json.open();
        assert!(TemplateTx { id: 0, messages }.log(&mut json, LogOptions::default()));
        json.close();
        let expected = r#"{"request":"Hello World!","response":"Bye"}"#;
        assert_eq!(json.into_line().trim(), expected);
    }
}

//! IKE 1 and 2 over UDP (RFC 2408, 2409, 7296): each message is a transaction.
//!
//! `message` reads headers and chains of payloads, `v1` and `v2` what payloads say, `names` has the names of all that.

mod conditions;
pub mod limits;
mod log;
mod message;
mod names;
mod tables;
mod tx;
mod v1;
mod v2;

use crate::detect::{PortProbe, Probe};
use crate::limits::reached::DATAGRAM_TXS_MAX;
use crate::protocol::Protocol;
use crate::tls::fingerprint::write_hex;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};
use message::{Header, read_header};
use tx::{IkeTx, Part, Part1, Part2, SideKeys};
use v1::{Transform, Value};
use v2::Choice;

/// Payloads are encrypted (RFC 2408 3.1).
const ENCRYPTED: u8 = 1;

/// Parser of a flow.
#[derive(Debug, Default)]
struct IkeParser {
    txs: TxList<IkeTx>,
    doi: Option<u32>,
    chosen: Transform,
    sides: [SideKeys; 2],
    choice: Choice,
}

/// What is made of a message.
struct Parts {
    kinds: Vec<u8>,
    own: SideKeys,
    part: Part,
    chosen: Vec<(&'static str, u32)>,
}

fn hex_text(bytes: &[u8]) -> Box<[u8]> {
    let mut text = vec![0; bytes.len() * 2];
    write_hex(bytes, &mut text);
    text.into()
}

impl IkeParser {
    fn take_version_1(
        &mut self,
        header: &Header,
        body: &[u8],
        direction: Direction,
    ) -> Option<Parts> {
        let mut part = Box::new(Part1::default());
        let mut chosen = Vec::new();
        if header.flags & ENCRYPTED != 0 {
            part.is_encrypted = true;
            part.doi = self.doi;
            part.chosen.clone_from(&self.chosen);
            let kinds = vec![header.first_payload];
            return Some(Parts { kinds, own: SideKeys::default(), part: Part::One(part), chosen });
        }
        let found = v1::read_payloads(header.first_payload, body)?;
        self.doi = found.doi.or(self.doi);
        if direction == Direction::ToClient
            && let Some(first) = found.transforms.first()
        {
            self.chosen.clone_from(first);
            chosen.extend(first.iter().filter_map(|attribute| match &attribute.value {
                Value::Number(n) => Some((names::attribute_key(attribute.kind), *n)),
                Value::Bytes(_) => None,
            }));
        }
        let own = SideKeys { key_exchange: found.key_exchange, nonce: found.nonce };
        let side = &mut self.sides[direction.index()];
        if !own.key_exchange.is_empty() {
            side.key_exchange.clone_from(&own.key_exchange);
        }
        if !own.nonce.is_empty() {
            side.nonce.clone_from(&own.nonce);
        }
        part.doi = self.doi;
        part.chosen.clone_from(&self.chosen);
        part.transforms = found.transforms;
        part.sides.clone_from(&self.sides);
        part.vendor_texts = found.vendors.iter().map(|vendor| hex_text(vendor)).collect();
        part.vendors = found.vendors;
        Some(Parts { kinds: found.kinds, own, part: Part::One(part), chosen })
    }

    fn take_version_2(
        &mut self,
        header: &Header,
        body: &[u8],
        direction: Direction,
        events: &mut EventList,
    ) -> Parts {
        let found = v2::read_payloads(header.first_payload, body, events);
        let mut chosen = Vec::new();
        // A responder that has not chosen yet has no SPI.
        if direction == Direction::ToClient
            && header.responder != [0; 8]
            && let Some(choice) = found.choice
        {
            self.choice = choice;
            chosen.extend([
                ("alg_enc", choice.encryption.into()),
                ("alg_auth", choice.integrity.into()),
                ("alg_prf", choice.prf.into()),
                ("alg_dh", choice.group.into()),
            ]);
        }
        let part = Part2 { choice: self.choice, notifications: found.notifications };
        Parts { kinds: found.kinds, own: SideKeys::default(), part: Part::Two(part), chosen }
    }

    fn take_message(&mut self, bytes: &[u8], direction: Direction) -> Option<()> {
        let (header, _, body) = read_header(bytes).filter(|(_, len, _)| *len == bytes.len())?;
        let mut events = EventList::default();
        let parts = match header.version >> 4 {
            1 => self.take_version_1(&header, body, direction)?,
            2 => self.take_version_2(&header, body, direction, &mut events),
            _ => return None,
        };
        let (mut init_spi, mut resp_spi) = ([0; 16], [0; 16]);
        write_hex(&header.initiator, &mut init_spi);
        write_hex(&header.responder, &mut resp_spi);
        let Parts { kinds, own, part, chosen } = parts;
        self.txs.push(Some(&DATAGRAM_TXS_MAX), |id| IkeTx {
            id,
            direction,
            header,
            init_spi,
            resp_spi,
            kinds,
            own,
            part,
            chosen,
            events,
        });
        Some(())
    }
}

impl Parser for IkeParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        match input {
            Input::Data { bytes: [], .. } => Outcome::Done,
            Input::Data { bytes, .. } => match self.take_message(bytes, cx.direction) {
                Some(()) => Outcome::Done,
                None => Outcome::Error,
            },
            Input::Gap { .. } => Outcome::Error,
        }
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        let sides = self.sides.iter().map(|side| side.key_exchange.len() + side.nonce.len());
        let txs = self.txs.iter().map(IkeTx::bytes_held);
        size_of::<IkeParser>() + sides.chain(txs).sum::<usize>()
    }
}

/// IKE in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[PortProbe {
        transport: Transport::Udp,
        ports: "500",
        min_bytes: 4,
        max_bytes: 0,
        probe,
    }],
    accepts_gaps: true,
    open: |_, _| Box::new(IkeParser::default()),
    ..Protocol::plain(ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE })
};

/// A header of a known version. Of version 2 the length must be that of the datagram (as in Suricata 8.0.7).
fn probe(bytes: &[u8], _: Direction) -> Probe {
    let Some((header, len, _)) = read_header(bytes) else { return Probe::No };
    let is_known = match (header.version >> 4, header.version & 15) {
        (1, _) => true,
        (2, 0) => matches!(header.exchange, 34..=37) && len == bytes.len(),
        _ => false,
    };
    if is_known { Probe::Yes } else { Probe::No }
}

#[cfg(test)]
mod tests;

//! Kerberos 5 over UDP and TCP (RFC 4120): requests, replies and errors of a key distribution center.
//!
//! Each message is a transaction. Over TCP it follows its length of four bytes (RFC 4120 7.2.2).

mod conditions;
pub mod limits;
mod message;
mod names;
mod tables;
mod tx;

use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use crate::transaction::EventList;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser};
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};
use limits::{RECORD_BYTES_MAX, reached};
use message::{kind, kind_of_message, read_message};
use tables::event;
use tx::KrbTx;

/// Bytes of a record's length.
const MARK_LEN: usize = 4;

/// Parser of a flow.
#[derive(Debug, Default)]
struct KrbParser {
    is_tcp: bool,
    txs: TxList<KrbTx>,
    /// The last request that was not answered.
    request: Option<u8>,
    /// Bytes of a record that is too long, which are still to come.
    skipped: [usize; 2],
}

impl KrbParser {
    fn take_message(&mut self, bytes: &[u8], direction: Direction) {
        let Some(kind) = kind_of_message(bytes) else { return };
        // What a request asks is known though it can't be read (as in Suricata).
        match kind {
            kind::AS_REQ | kind::TGS_REQ | kind::AP_REQ => self.request = Some(kind),
            kind::AP_REP => self.request = None,
            _ => {}
        }
        let Some(message) = read_message(bytes) else { return };
        let is_answer = matches!(kind, kind::AS_REP | kind::TGS_REP | kind::ERROR);
        let request = if is_answer { self.request.take() } else { None };
        let mut events = EventList::default();
        if message.encryption.is_some_and(names::is_weak) {
            events.set(event::WEAK_ENCRYPTION);
        }
        let limit = Some(&reached::TXS_MAX);
        self.txs.push(limit, |id| KrbTx { id, direction, message, request, events });
    }

    /// Takes records of a stream; what is left of one comes again with more.
    fn take_records(&mut self, bytes: &[u8], direction: Direction) -> Outcome {
        let skipped = &mut self.skipped[direction.index()];
        let skip = (*skipped).min(bytes.len());
        *skipped -= skip;
        let mut rest = bytes.get(skip..).unwrap_or_default();
        while let Some((mark, tail)) = rest.split_first_chunk::<MARK_LEN>() {
            let len = usize::try_from(u32::from_be_bytes(*mark)).unwrap_or(usize::MAX);
            if len > RECORD_BYTES_MAX {
                reached::RECORD_BYTES_MAX.count();
                let skip = len.min(tail.len());
                self.skipped[direction.index()] = len - skip;
                rest = tail.get(skip..).unwrap_or_default();
                continue;
            }
            let Some((record, tail)) = tail.split_at_checked(len) else {
                let consumed = bytes.len() - rest.len();
                return Outcome::Incomplete { consumed, needed: MARK_LEN + len };
            };
            self.take_message(record, direction);
            rest = tail;
        }
        if rest.is_empty() {
            Outcome::Done
        } else {
            Outcome::Incomplete { consumed: bytes.len() - rest.len(), needed: MARK_LEN }
        }
    }
}

impl Parser for KrbParser {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        if self.is_tcp {
            return self.take_records(bytes, cx.direction);
        }
        self.take_message(bytes, cx.direction);
        Outcome::Done
    }

    fn txs(&self) -> &dyn TxTable {
        &self.txs
    }

    fn txs_mut(&mut self) -> &mut dyn TxTable {
        &mut self.txs
    }

    fn bytes_held(&self) -> usize {
        size_of::<KrbParser>() + self.txs.iter().map(KrbTx::bytes_held).sum::<usize>()
    }
}

/// Kerberos in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[
        PortProbe {
            transport: Transport::Tcp,
            ports: "88",
            min_bytes: 0,
            max_bytes: 0,
            probe: probe_record,
        },
        PortProbe {
            transport: Transport::Udp,
            ports: "88",
            min_bytes: 0,
            max_bytes: 0,
            probe: probe_message,
        },
    ],
    open: |_, transport| {
        Box::new(KrbParser { is_tcp: transport == Transport::Tcp, ..KrbParser::default() })
    },
    ..Protocol::plain(ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE })
};

/// A message whose first field is the number 5, whatever its length says.
fn probe_message(bytes: &[u8], _: Direction) -> Probe {
    if starts_message(bytes).is_some() { Probe::Yes } else { Probe::No }
}

/// The same after a record's length.
fn probe_record(bytes: &[u8], _: Direction) -> Probe {
    let Some((mark, message)) = bytes.split_first_chunk::<MARK_LEN>() else { return Probe::No };
    let is_long = u32::from_be_bytes(*mark) as usize > RECORD_BYTES_MAX;
    if is_long || starts_message(message).is_none() { Probe::No } else { Probe::Yes }
}

fn starts_message(bytes: &[u8]) -> Option<()> {
    kind_of_message(bytes).filter(|kind| *kind != 0x1f)?;
    let sequence = skip_head(bytes)?;
    let field = Some(sequence).filter(|s| s.first() == Some(&0x30)).and_then(skip_head)?;
    let is_field = field.first().is_some_and(|tag| tag & 0xe0 == 0xa0);
    let number = Some(field).filter(|_| is_field).and_then(skip_head)?;
    (number.starts_with(&[2, 1, 5]) && number.len() > 3).then_some(())
}

/// What follows a tag and its length.
fn skip_head(bytes: &[u8]) -> Option<&[u8]> {
    match bytes.get(1)? {
        0..=0x7f => bytes.get(2..),
        long @ 0x81..=0x84 => bytes.get(2 + usize::from(long & 0x7f)..),
        _ => None,
    }
}

#[cfg(test)]
mod tests;

//! Parser of protocols whose every datagram is a transaction of its own.
//!
//! Such a protocol says how a datagram becomes a transaction; this is all the rest.

use crate::detect::PortProbe;
use crate::limits::reached;
use crate::protocol::Protocol;
use crate::tx_list::{TxList, TxTable};
use crate::{Input, Outcome, ParseContext, Parser, Transaction};
use gabion_record::Direction;
use gabion_record::applayer::ProtoTable;

/// A datagram that became no transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It is not the protocol's.
    Wrong,
    /// It carries nothing that is examined.
    Ignored,
}

/// A transaction made of one datagram.
pub trait Message: Transaction + Sized {
    /// Number of the frame that a datagram is, when the protocol has such frames.
    const PDU_FRAME: Option<u8> = None;

    /// Reads it. `id` is the number it will have.
    fn parse_datagram(id: u64, direction: Direction, bytes: &[u8]) -> Result<Self, Refused>;

    /// Takes note of what the flow's messages have in common: a number, 0 before the first.
    fn compare(&mut self, common: &mut u32) {
        let _ = common;
    }

    /// An event for the youngest transaction when a datagram is refused.
    fn refuse(&mut self) {}

    /// Bytes held.
    fn bytes_held(&self) -> usize;
}

/// Such a protocol in the registry: found by its ports' probes, without settings of its own.
pub const fn protocol<T: Message + 'static>(
    table: ProtoTable,
    probes: &'static [PortProbe],
) -> Protocol {
    Protocol {
        probes,
        accepts_gaps: true,
        open: |_, _| Box::new(Datagrams::<T>::default()),
        ..Protocol::plain(table)
    }
}

/// What all transactions of one datagram have in common, for a type with fields `id`, `direction` and
/// `events`.
macro_rules! one_datagram {
    () => {
        fn id(&self) -> u64 {
            self.id
        }

        fn progress(&self, _: gabion_record::Direction) -> u8 {
            1
        }

        fn only(&self) -> Option<gabion_record::Direction> {
            Some(self.direction)
        }

        fn events(&self) -> &[u16] {
            self.events.codes()
        }

        fn as_any(&self) -> &dyn std::any::Any {
            self
        }
    };
}
pub(crate) use one_datagram;

/// Parser of a flow of such datagrams.
#[derive(Debug)]
pub struct Datagrams<T> {
    txs: TxList<T>,
    common: u32,
}

impl<T> Default for Datagrams<T> {
    fn default() -> Datagrams<T> {
        Datagrams { txs: TxList::default(), common: 0 }
    }
}

impl<T: Message> Parser for Datagrams<T> {
    fn parse(&mut self, cx: &mut ParseContext<'_>, input: Input<'_>) -> Outcome {
        let Input::Data { bytes, .. } = input else { return Outcome::Error };
        if bytes.is_empty() {
            return Outcome::Done;
        }
        match T::parse_datagram(self.txs.next_id(), cx.direction, bytes) {
            Ok(mut tx) => {
                tx.compare(&mut self.common);
                if let Some(kind) = T::PDU_FRAME {
                    cx.frames.add(cx.direction, kind, 0, bytes.len() as u64, Some(tx.id()));
                }
                self.txs.push(Some(&reached::DATAGRAM_TXS_MAX), |_| tx);
                Outcome::Done
            }
            Err(Refused::Ignored) => Outcome::Done,
            Err(Refused::Wrong) => {
                if let Some(tx) = self.txs.last_mut() {
                    tx.refuse();
                }
                Outcome::Error
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
        size_of::<Datagrams<T>>() + self.txs.iter().map(T::bytes_held).sum::<usize>()
    }
}

//! A transaction: a message of the client and the server's answer.

use super::limits::reached;
use super::pdu::{Interface, kind};
use super::tables::buffer;
use super::uuid::Uuid;
use super::{Call, log};
use crate::{Buffer, Inspect, LogOptions, Transaction};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::json::Json;
use std::any::Any;

/// What a side of a transaction sent.
#[derive(Clone, Debug, Default)]
pub struct Side {
    /// Type of its message, see [`kind`]; `None` while it is not done.
    pub kind: Option<u8>,
    /// Stub data of all fragments, as far as it is kept.
    pub stub: Vec<u8>,
    /// Fragments.
    pub fragments: u16,
    /// The connection or the wait has ended.
    pub(super) has_ended: bool,
}

impl Side {
    /// Adds the stub data of a fragment, at most up to `max` bytes in all.
    pub(super) fn add_stub(&mut self, stub: &[u8], max: u64) {
        self.fragments = self.fragments.saturating_add(1);
        let room = max.saturating_sub(self.stub.len() as u64);
        let n = usize::try_from(room).unwrap_or(usize::MAX).min(stub.len());
        if n < stub.len() {
            reached::STUB_BYTES_MAX.count();
        }
        self.stub.extend_from_slice(stub.get(..n).unwrap_or_default());
    }
}

/// Which call it is: numbers of the protocol that carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallNumber {
    /// Of the connection-oriented protocol.
    Association {
        /// Number of the call.
        call_id: u32,
        /// Minor version of the protocol.
        minor: u8,
    },
    /// Of the connectionless protocol.
    Activity {
        /// Activity.
        activity: Uuid,
        /// Number of the call in it.
        sequence: u32,
    },
}

/// A message of the client and the server's answer.
#[derive(Debug)]
pub struct DcerpcTx {
    /// Number in its flow.
    pub id: u64,
    /// Which call it is.
    pub number: CallNumber,
    /// Context and number of the operation, once the call came (in associations only: Suricata 8.0.7
    /// has neither of datagrams).
    pub call: Option<(u16, u16)>,
    /// Interfaces that a bind offers, or the one that a call is for.
    pub interfaces: Vec<Interface>,
    /// What each side sent.
    pub sides: [Side; 2],
    pub(super) is_little: bool,
}

impl DcerpcTx {
    pub(super) fn new(id: u64, number: CallNumber, is_little: bool) -> DcerpcTx {
        DcerpcTx {
            id,
            number,
            call: None,
            interfaces: Vec::new(),
            sides: Default::default(),
            is_little,
        }
    }

    /// What one side sent.
    pub fn side(&self, direction: Direction) -> &Side {
        &self.sides[direction.index()]
    }

    pub(super) fn side_mut(&mut self, direction: Direction) -> &mut Side {
        &mut self.sides[direction.index()]
    }

    /// Nothing is missing.
    pub fn is_done(&self) -> bool {
        self.sides.iter().all(|side| side.kind.is_some())
    }

    /// What is missing is not waited for any more: it counts as a call, or as an answer to one (as
    /// Suricata 8.0.7 logs transactions beyond `max-tx`).
    pub(super) fn complete(&mut self) {
        self.side_mut(ToServer).kind.get_or_insert(kind::REQUEST);
        self.side_mut(ToClient).kind.get_or_insert(kind::RESPONSE);
    }

    /// Bytes held.
    pub fn bytes_held(&self) -> usize {
        let stubs = self.sides.iter().map(|s| s.stub.capacity()).sum::<usize>();
        size_of::<DcerpcTx>() + stubs + self.interfaces.capacity() * size_of::<Interface>()
    }
}

/// The call of a transaction, see [`super::conditions`].
pub(super) fn call_in(tx: &dyn Any) -> Option<Call<'_>> {
    let tx = tx.downcast_ref::<DcerpcTx>()?;
    let (_, opnum) = tx.call?;
    Some(Call { opnum, interface: tx.interfaces.first() })
}

impl Transaction for DcerpcTx {
    fn id(&self) -> u64 {
        self.id
    }

    fn progress(&self, direction: Direction) -> u8 {
        let side = self.side(direction);
        u8::from(side.kind.is_some() || side.has_ended)
    }

    fn buffer(
        &self,
        local: u16,
        direction: Direction,
        index: usize,
        _: Inspect,
    ) -> Option<Buffer<'_>> {
        let side = self.side(direction);
        let is_there = local == buffer::STUB_DATA && index == 0 && !side.stub.is_empty();
        is_there.then(|| Buffer::whole(&side.stub))
    }

    fn events(&self) -> &[u16] {
        &[]
    }

    fn log(&self, json: &mut Json, _: LogOptions<'_>) -> bool {
        log::write(self, json);
        true
    }

    fn is_little_endian(&self) -> bool {
        self.is_little
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

//! What protocols report of a transaction for the behaviour engine.

use crate::Ip;
use crate::logs::Body;

/// A transaction as the behaviour engine takes it. The ends of its flow and its time come from the common part of the
/// record, unless the protocol itself knows them better.
#[derive(Clone, Copy, Debug)]
pub struct TxReport<'a> {
    /// What the record says.
    pub body: Body<'a>,
    /// The server sent it.
    pub is_response: bool,
    /// Addresses of the client by the message itself, the best one first. One that is `0.0.0.0` counts as none.
    pub client: [Option<Ip>; 2],
    /// Source and destination, of a protocol without a flow.
    pub ends: Option<(Ip, Ip)>,
}

impl<'a> TxReport<'a> {
    /// A report whose ends are those of the flow, client first.
    pub fn from_body(body: Body<'a>) -> TxReport<'a> {
        TxReport { body, is_response: false, client: [None; 2], ends: None }
    }
}

/// Takes the report of a transaction.
pub type TakeReport<'t> = &'t mut dyn FnMut(&TxReport<'_>);

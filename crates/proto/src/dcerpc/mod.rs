//! DCE/RPC (C706, MS-RPCE): over TCP, over UDP, and inside the pipes of SMB.
//!
//! [`pdu`] and [`datagram`] read the messages of the two protocols, [`contexts`] knows the interfaces of
//! an association, [`tcp`] and [`udp`] join messages into transactions, [`conditions`] are the keywords on
//! calls, whichever protocol carries them.

pub mod conditions;
pub mod contexts;
pub mod datagram;
pub mod limits;
mod log;
pub mod pdu;
mod settings;
pub mod tables;
pub mod tcp;
mod tx;
pub mod udp;
pub mod uuid;
mod waiting;

pub use settings::Settings;
pub use tx::{CallNumber, DcerpcTx, Side};

use crate::detect::{Probe, ProbePattern};
use crate::protocol::Protocol;
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

/// What rules ask of a call.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Number of the operation.
    pub opnum: u16,
    /// The interface that its context stands for, if it stands for one.
    pub interface: Option<&'a pdu::Interface>,
}

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// DCE/RPC in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[
        // Version 5.0 of the connection-oriented protocol (C706 12.6.3.1).
        ProbePattern { check: Some(probe), ..ProbePattern::at_start(ToServer, b"\x05\x00") },
        ProbePattern { check: Some(probe), ..ProbePattern::at_start(ToClient, b"\x05\x00") },
    ],
    datagram_patterns: Some(&[
        // Version 4 of the connectionless protocol (C706 12.5.2.1).
        ProbePattern {
            check: Some(datagram::probe),
            ..ProbePattern::at_start(ToServer, b"\x04\x00")
        },
    ]),
    accepts_gaps: true,
    auto_trigger_raw: false,
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, transport| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        match transport {
            Transport::Tcp => Box::new(tcp::Association::new(settings)),
            Transport::Udp => Box::new(udp::Datagrams::new(settings)),
        }
    },
    ..Protocol::plain(TABLE)
};

/// Bytes of the header that all messages have (C706 12.6.3.1).
const HEADER_LEN: usize = 16;

/// A whole header with an order of bytes and a set of characters that there are (C706 14.1). Suricata waits for it
/// even where it can't come any more.
fn probe(bytes: &[u8], _: Direction) -> Probe {
    match bytes.get(4) {
        Some(order) if bytes.len() >= HEADER_LEN && order & 0xee == 0 => Probe::Yes,
        _ => Probe::More,
    }
}

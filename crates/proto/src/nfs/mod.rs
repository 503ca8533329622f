//! NFS over TCP and UDP: versions 2, 3 and 4 (RFC 1094, 1813, 7530), in remote procedure calls (RFC 5531).
//!
//! [`rpc`] reads calls and replies, `arguments` and `compound` what they say of files, `session` joins them
//! into transactions, [`parser`] takes streams and datagrams apart.

mod arguments;
mod compound;
mod conditions;
mod frames;
pub mod limits;
mod log;
pub mod parser;
mod procedure;
mod resume;
pub mod rpc;
mod session;
mod settings;
mod tables;
mod tx;
mod xdr;

pub use settings::Settings;
pub use tx::{NfsTx, Transfer};

use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};
use rpc::{MARK_BYTES, Message, NFS_PROGRAM};
use std::sync::Arc;

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// NFS in the registry. The transaction's object is `nfs`, followed by `rpc`.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[
        PortProbe {
            transport: Transport::Tcp,
            ports: "2049",
            min_bytes: 0,
            max_bytes: 0,
            probe: probe_stream,
        },
        PortProbe {
            transport: Transport::Udp,
            ports: "2049",
            min_bytes: 0,
            max_bytes: 0,
            probe: probe_datagram,
        },
    ],
    accepts_gaps: true,
    auto_trigger_raw: false,
    event_type: "nfs",
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, transport| {
        let settings = settings.downcast_ref::<Settings>().copied();
        let settings = settings.unwrap_or_default();
        match transport {
            Transport::Tcp => Box::new(parser::Stream::new(settings)),
            Transport::Udp => Box::new(parser::Datagrams::new(settings)),
        }
    },
    ..Protocol::plain(TABLE)
};

/// A record with a call of NFS's version 3 or 4, or with a reply (Suricata 8.0.7 takes no others).
fn probe_stream(bytes: &[u8], direction: Direction) -> Probe {
    let Some((is_last, len)) = rpc::parse_mark(bytes) else { return Probe::More };
    let record = bytes.get(MARK_BYTES..).unwrap_or_default();
    let Some(message) = rpc::parse_message(record) else {
        return if record.len() < len.min(28) { Probe::More } else { Probe::No };
    };
    let is_ours = match message {
        Message::Call(call) => {
            direction == Direction::ToServer
                && call.program == NFS_PROGRAM
                && matches!(call.version, 3 | 4)
        }
        Message::Reply(_) => direction == Direction::ToClient,
    };
    if is_ours && is_last { Probe::Yes } else { Probe::No }
}

/// A call of NFS's version 2 or 3 that is longer than one without arguments and credentials.
fn probe_datagram(bytes: &[u8], _: Direction) -> Probe {
    let Some(Message::Call(call)) = rpc::parse_message(bytes) else { return Probe::No };
    let is_ours = call.program == NFS_PROGRAM && matches!(call.version, 2 | 3);
    if is_ours && bytes.len() >= 48 { Probe::Yes } else { Probe::No }
}

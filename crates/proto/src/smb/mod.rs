//! SMB 1, 2 and 3 over NetBIOS sessions (MS-CIFS, MS-SMB, MS-SMB2, RFC 1002 4.3).
//!
//! A request with its response is a transaction; so is a file, whatever number of requests reads or writes it,
//! and a call of DCE/RPC in a pipe. `parser` takes the stream apart, `session` knows what messages name,
//! `smb1` and `smb2` read the messages of each family, `rpc` follows calls; `crate::chunks` puts files in order.

mod body1;
mod body2;
mod conditions;
mod framing;
mod header;
mod ids;
pub mod limits;
mod log;
mod names;
mod ntlmssp;
mod parser;
mod rpc;
mod security;
mod session;
mod settings;
mod smb1;
mod smb2;
mod status;
mod tables;
#[cfg(test)]
mod tests;
mod tx;
mod wire;

pub use ids::{CallKey, FileId, Ids};
pub use parser::SmbParser;
pub use settings::Settings;
pub use tables::event;
pub use tx::SmbTx;
pub(crate) use tx::call_in;

use crate::detect::{PortProbe, ProbePattern};
use crate::protocol::Protocol;
use framing::HEADER_LEN;
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

/// What the first message of a direction begins with.
const fn first_message(direction: Direction, bytes: &'static [u8]) -> ProbePattern {
    ProbePattern {
        check: Some(framing::probe_message),
        ..ProbePattern::at(direction, HEADER_LEN as u16, bytes)
    }
}

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// SMB in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[
        first_message(ToServer, b"\xffSMB"),
        first_message(ToServer, b"\xfeSMB"),
        first_message(ToServer, b"\xfdSMB"),
        first_message(ToClient, b"\xffSMB"),
        first_message(ToClient, b"\xfeSMB"),
        first_message(ToClient, b"\xfdSMB"),
    ],
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "[139,445]",
        min_bytes: 0,
        max_bytes: 0,
        probe: framing::probe_session,
    }],
    accepts_gaps: true,
    // Suricata 8.0.7 does so for 445, not for 139.
    home_port: Some(445),
    stream_depth: Some(0),
    auto_trigger_raw: false,
    tx_id_on_top: true,
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(SmbParser::new(settings))
    },
    ..Protocol::plain(TABLE)
};

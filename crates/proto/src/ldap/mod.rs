//! LDAP over TCP and UDP (RFC 4511, and RFC 1798 for datagrams), up to TLS where it is asked for.
//!
//! A request with its responses is one transaction, found by the number that both carry. [`message`] reads messages,
//! [`parser`] joins them, [`tx`] is the transaction, [`tables`] says what rules may ask for, [`log`] writes EVE.

pub mod limits;
mod log;
pub mod message;
pub mod parser;
mod settings;
mod tables;
pub mod tx;

pub use message::Message;
pub use parser::LdapParser;
pub use settings::Settings;
pub use tx::LdapTx;

use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use std::sync::Arc;

const fn port_probe(transport: Transport) -> PortProbe {
    PortProbe { transport, ports: "[389,3268]", min_bytes: 0, max_bytes: 0, probe }
}

/// LDAP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[port_probe(Transport::Tcp), port_probe(Transport::Udp)],
    accepts_gaps: true,
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, transport| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(LdapParser::new(settings, transport == Transport::Tcp))
    },
    ..Protocol::plain(tables::TABLE)
};

/// A message that can be read.
fn probe(bytes: &[u8], _: Direction) -> Probe {
    let whole = match message::message_len(bytes) {
        Ok(Some(len)) => bytes.get(..len),
        Ok(None) => None,
        Err(_) => return Probe::No,
    };
    match whole.map(Message::parse) {
        Some(Ok(_)) => Probe::Yes,
        None | Some(Err(message::Fault::Missing)) => Probe::More,
        Some(Err(message::Fault::Wrong)) => Probe::No,
    }
}

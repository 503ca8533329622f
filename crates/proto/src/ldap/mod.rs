//! LDAP over TCP and UDP (RFC 4511, and RFC 1798 for datagrams), up to TLS where it is asked for.
//!
//! A request with its responses is one transaction, found by the number that both carry. `message` reads messages,
//! `parser` joins them, `tx` is the transaction, `tables` says what rules may ask for, `log` writes EVE.

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

const fn port_probe(transport: Transport, probe: fn(&[u8], Direction) -> Probe) -> PortProbe {
    PortProbe { transport, ports: "[389,3268]", min_bytes: 0, max_bytes: 0, probe }
}

/// LDAP in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[
        port_probe(Transport::Tcp, probe_stream),
        port_probe(Transport::Udp, |bytes, _| probe(bytes).0),
    ],
    accepts_gaps: true,
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, transport| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(LdapParser::new(settings, transport == Transport::Tcp))
    },
    ..Protocol::plain(tables::TABLE)
};

/// A message that can be read. One of a server shows that its sender is the server, where the beginning was not seen.
fn probe_stream(bytes: &[u8], direction: Direction) -> Probe {
    match probe(bytes) {
        (Probe::Yes, false) if direction == Direction::ToServer => Probe::YesReversed,
        (answer, _) => answer,
    }
}

/// Whether it is a message, and whether one of a client.
fn probe(bytes: &[u8]) -> (Probe, bool) {
    let whole = match message::message_len(bytes) {
        Ok(Some(len)) => bytes.get(..len),
        Ok(None) => None,
        Err(_) => return (Probe::No, false),
    };
    match whole.map(Message::parse) {
        Some(Ok(message)) => (Probe::Yes, message.is_request()),
        None | Some(Err(message::Fault::Missing)) => (Probe::More, false),
        Some(Err(message::Fault::Wrong)) => (Probe::No, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::Direction::{ToClient, ToServer};

    /// Measured with Suricata 8.0.7, a session seen from its middle on.
    #[test]
    fn a_message_of_a_server_shows_the_server() {
        let bind = b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0";
        let answer = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0";
        assert_eq!(probe_stream(answer, ToServer), Probe::YesReversed);
        assert_eq!(probe_stream(answer, ToClient), Probe::Yes);
        assert_eq!(probe_stream(bind, ToServer), Probe::Yes);
        assert_eq!(probe(answer).0, Probe::Yes);
    }
}

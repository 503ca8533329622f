//! QUIC over UDP (RFC 9000, 9001, 9369, drafts, and Google's versions before): what hellos show.
//!
//! `header` and `frames` read packets, `keys` opens Initial ones, `crypto` puts the pieces of a hello together, `hello`
//! reads those of TLS and `google` Google's. Each packet with a long header is a transaction (`tx`) until its side's
//! hello has been seen.

mod crypto;
mod frames;
mod google;
mod header;
mod hello;
mod keys;
pub mod limits;
mod log;
mod names;
mod parser;
mod tables;
#[cfg(test)]
mod tests;
mod tx;

pub use tx::QuicTx;

use crate::detect::{PortProbe, Probe};
use crate::protocol::Protocol;
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use header::{NoHeader, read_header};

/// QUIC in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[PortProbe {
        transport: Transport::Udp,
        ports: "[443,80]",
        min_bytes: 1,
        max_bytes: 0,
        probe,
    }],
    accepts_gaps: true,
    open: |_, _| Box::new(parser::QuicParser::default()),
    ..Protocol::plain(tables::TABLE)
};

/// Whatever has a header of QUIC, a short one too.
fn probe(bytes: &[u8], _: Direction) -> Probe {
    match read_header(bytes) {
        Ok(_) | Err(NoHeader::Short) => Probe::Yes,
        Err(NoHeader::Broken) => Probe::No,
    }
}

//! TLS over TCP, from SSL 2.0 to TLS 1.3: what can be seen of a session without its keys.
//!
//! A flow is one transaction, `tx`. `parser` follows records and handshake messages, `hello` and
//! `certificate` read what they carry, `fingerprint` computes JA3 and JA4 (QUIC uses it too),
//! `tables` and `conditions` say what rules may ask for, `log` writes EVE.

pub mod certificate;
pub mod conditions;
pub mod fingerprint;
mod hello;
pub mod limits;
pub mod log;
pub mod parser;
mod settings;
pub mod tables;
mod tx;
pub mod version;

pub use parser::TlsParser;
pub use settings::{Encryption, TlsSettings};
pub use tx::{Side, TlsTx};

use crate::detect::{PortProbe, Probe, ProbePattern};
use crate::protocol::{Protocol, Settings};
use gabion_record::Direction;
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

/// The hello of SSL 2.0, whichever version it asks for (Suricata's probe).
fn probe(bytes: &[u8], direction: Direction) -> Probe {
    match bytes {
        [0x80, _, 0x01, ..] if direction == Direction::ToServer => Probe::Yes,
        [_, _, _, ..] => Probe::No,
        _ => Probe::More,
    }
}

/// Its name in the registry, for protocols whose sessions change to it.
pub(crate) const NAME: &str = TABLE.name;

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// TLS in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    features: &[("ja3", "ja3-fingerprints"), ("ja4", "ja4-fingerprints")],
    patterns: &[
        ProbePattern {
            direction: Direction::ToServer,
            bytes: b"\x01\x00\x02",
            nocase: false,
            offset: 2,
            depth: 5,
            check: Some(probe),
        },
        ProbePattern::at_start(Direction::ToServer, b"\x01\x03\x00"),
        ProbePattern::at_start(Direction::ToServer, b"\x16\x03\x00"),
        ProbePattern::at_start(Direction::ToServer, b"\x01\x03\x01"),
        ProbePattern::at_start(Direction::ToServer, b"\x16\x03\x01"),
        ProbePattern::at_start(Direction::ToServer, b"\x01\x03\x02"),
        ProbePattern::at_start(Direction::ToServer, b"\x16\x03\x02"),
        ProbePattern::at_start(Direction::ToServer, b"\x01\x03\x03"),
        ProbePattern::at_start(Direction::ToServer, b"\x16\x03\x03"),
        ProbePattern::at_start(Direction::ToClient, b"\x15\x03\x00"),
        ProbePattern::at_start(Direction::ToClient, b"\x16\x03\x00"),
        ProbePattern::at_start(Direction::ToClient, b"\x17\x03\x00"),
        ProbePattern::at_start(Direction::ToClient, b"\x15\x03\x01"),
        ProbePattern::at_start(Direction::ToClient, b"\x16\x03\x01"),
        ProbePattern::at_start(Direction::ToClient, b"\x17\x03\x01"),
        ProbePattern::at_start(Direction::ToClient, b"\x15\x03\x02"),
        ProbePattern::at_start(Direction::ToClient, b"\x16\x03\x02"),
        ProbePattern::at_start(Direction::ToClient, b"\x17\x03\x02"),
        ProbePattern::at_start(Direction::ToClient, b"\x15\x03\x03"),
        ProbePattern::at_start(Direction::ToClient, b"\x16\x03\x03"),
        ProbePattern::at_start(Direction::ToClient, b"\x17\x03\x03"),
    ],
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "443",
        min_bytes: 0,
        max_bytes: 3,
        probe,
    }],
    first_direction: Some(Direction::ToServer),
    eve_defaults: &[("extended", "yes")],
    is_encryption: true,
    eve_logger: "output-json-tls",
    check_eve_options: log::check_options,
    configure: |config| Ok(Arc::new(TlsSettings::from_config(config)?) as Settings),
    open: |settings, _| {
        let settings = Arc::clone(settings).downcast::<TlsSettings>().unwrap_or_default();
        Box::new(TlsParser::new(settings))
    },
    auto_trigger_raw: false,
    ..Protocol::plain(TABLE)
};

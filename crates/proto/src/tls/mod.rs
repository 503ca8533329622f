//! TLS over TCP, from SSL 2.0 to TLS 1.3: what can be seen of a session without its keys.
//!
//! A flow is one transaction. `parser` follows records and handshake messages, `hello` and
//! `certificate` read what they carry, `fingerprint` computes JA3 and JA4 (QUIC uses it too),
//! `tables` and `conditions` say what rules may ask for, `log` writes EVE.

pub mod certificate;
pub mod conditions;
pub mod fingerprint;
mod hello;
pub mod limits;
pub mod log;
pub mod parser;
pub mod tables;
pub mod version;

pub use parser::{Side, TlsParser, TlsTx};

use crate::detect::{PortProbe, Probe, ProbePattern};
use crate::registry::{Protocol, Settings};
use gabion_record::applayer::Transport;
use gabion_record::{Direction, Tree};
use std::sync::Arc;

/// What becomes of a flow once it is encrypted (`encryption-handling`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// Go on, but without payload inspection: `track-only`.
    #[default]
    TrackOnly,
    /// Leave the flow alone: `bypass`.
    Bypass,
    /// Inspect as ever: `full`.
    Full,
}

impl Encryption {
    /// The value of `encryption-handling`.
    pub fn read(config: &Tree) -> Result<Encryption, String> {
        match config.text("encryption-handling") {
            None | Some("track-only" | "default") => Ok(Encryption::TrackOnly),
            Some("bypass") => Ok(Encryption::Bypass),
            Some("full") => Ok(Encryption::Full),
            Some(other) => Err(format!("encryption-handling: '{other}' is not known")),
        }
    }
}

/// Settings below `app-layer.protocols.tls`.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// See [`Encryption`].
    pub encryption: Encryption,
    /// JA3 is computed whether or not a rule asks for it (`ja3-fingerprints: yes`).
    pub ja3: bool,
    /// JA4 is logged (`ja4-fingerprints`, not `no`).
    pub ja4: bool,
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings { encryption: Encryption::TrackOnly, ja3: false, ja4: true }
    }
}

impl TlsSettings {
    /// Reads them.
    pub fn read(config: Option<&Tree>) -> Result<TlsSettings, String> {
        let mut settings = TlsSettings::default();
        let Some(config) = config else { return Ok(settings) };
        settings.encryption = Encryption::read(config)?;
        let is_unset = config.child("encryption-handling").is_none();
        if is_unset && config.flag("no-reassemble") == Some(true) {
            settings.encryption = Encryption::Bypass;
        }
        settings.ja3 = config.flag("ja3-fingerprints") == Some(true);
        settings.ja4 = config.flag("ja4-fingerprints") != Some(false);
        Ok(settings)
    }
}

const fn start(direction: Direction, bytes: &'static [u8]) -> ProbePattern {
    ProbePattern { direction, bytes, nocase: false, offset: 0, depth: 3, check: None }
}

/// The hello of SSL 2.0, whichever version it asks for (the peer's probe).
fn probe(bytes: &[u8], direction: Direction) -> Probe {
    match bytes {
        [0x80, _, 0x01, ..] if direction == Direction::ToServer => Probe::Yes,
        [_, _, _, ..] => Probe::No,
        _ => Probe::More,
    }
}

/// TLS in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    table: tables::TABLE,
    config_name: "tls",
    is_default_on: true,
    patterns: &[
        ProbePattern {
            direction: Direction::ToServer,
            bytes: b"\x01\x00\x02",
            nocase: false,
            offset: 2,
            depth: 5,
            check: Some(probe),
        },
        start(Direction::ToServer, b"\x01\x03\x00"),
        start(Direction::ToServer, b"\x16\x03\x00"),
        start(Direction::ToServer, b"\x01\x03\x01"),
        start(Direction::ToServer, b"\x16\x03\x01"),
        start(Direction::ToServer, b"\x01\x03\x02"),
        start(Direction::ToServer, b"\x16\x03\x02"),
        start(Direction::ToServer, b"\x01\x03\x03"),
        start(Direction::ToServer, b"\x16\x03\x03"),
        start(Direction::ToClient, b"\x15\x03\x00"),
        start(Direction::ToClient, b"\x16\x03\x00"),
        start(Direction::ToClient, b"\x17\x03\x00"),
        start(Direction::ToClient, b"\x15\x03\x01"),
        start(Direction::ToClient, b"\x16\x03\x01"),
        start(Direction::ToClient, b"\x17\x03\x01"),
        start(Direction::ToClient, b"\x15\x03\x02"),
        start(Direction::ToClient, b"\x16\x03\x02"),
        start(Direction::ToClient, b"\x17\x03\x02"),
        start(Direction::ToClient, b"\x15\x03\x03"),
        start(Direction::ToClient, b"\x16\x03\x03"),
        start(Direction::ToClient, b"\x17\x03\x03"),
    ],
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "443",
        min_bytes: 0,
        max_bytes: 3,
        probe,
    }],
    first_direction: Some(Direction::ToServer),
    accepts_gaps: false,
    stream_depth: None,
    auto_trigger_raw: true,
    event_type: "tls",
    is_logged: true,
    configure: |config| Ok(Arc::new(TlsSettings::read(config)?) as Settings),
    open: |settings, _| {
        let settings = Arc::clone(settings).downcast::<TlsSettings>().unwrap_or_default();
        Box::new(TlsParser::new(settings))
    },
};

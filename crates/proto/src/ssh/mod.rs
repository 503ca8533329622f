//! SSH over TCP (RFC 4253) up to the point where it is encrypted.
//!
//! A flow is one transaction. [`parser`] reads identification lines and records, [`kex`] makes
//! hassh of key exchanges, [`tables`] says what rules may ask for, [`log`] writes EVE.

pub mod kex;
pub mod limits;
pub mod log;
pub mod parser;
pub mod tables;

pub use parser::{Side, SshParser, SshTx};

use crate::detect::ProbePattern;
use crate::registry::{Protocol, Settings};
use crate::tls::Encryption;
use gabion_record::{Direction, Tree};
use std::sync::Arc;

/// Settings below `app-layer.protocols.ssh`.
#[derive(Clone, Debug, Default)]
pub struct SshSettings {
    /// What becomes of a flow once it is encrypted.
    pub encryption: Encryption,
    /// Hassh is computed whether or not a rule asks for it.
    pub hassh: bool,
}

impl SshSettings {
    /// Reads them.
    pub fn read(config: Option<&Tree>) -> Result<SshSettings, String> {
        let Some(config) = config else { return Ok(SshSettings::default()) };
        Ok(SshSettings {
            encryption: Encryption::read(config)?,
            hassh: config.flag("hassh") == Some(true),
        })
    }
}

const fn start(direction: Direction) -> ProbePattern {
    ProbePattern { direction, bytes: b"SSH-", nocase: true, offset: 0, depth: 4, check: None }
}

/// SSH in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    table: tables::TABLE,
    config_name: "ssh",
    is_default_on: true,
    patterns: &[start(Direction::ToServer), start(Direction::ToClient)],
    probes: &[],
    accepts_gaps: false,
    stream_depth: None,
    first_direction: None,
    auto_trigger_raw: true,
    event_type: "ssh",
    is_logged: true,
    configure: |config| Ok(Arc::new(SshSettings::read(config)?) as Settings),
    open: |settings, _| {
        let settings = Arc::clone(settings).downcast::<SshSettings>().unwrap_or_default();
        Box::new(SshParser::new(settings))
    },
};

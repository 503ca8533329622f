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
use crate::protocol::{Protocol, Settings};
use crate::settings_error::SettingsError;
use crate::tls::Encryption;
use gabion_record::{Direction, Tree};
use std::sync::Arc;

/// Settings below `app-layer.protocols.ssh`.
#[derive(Clone, Debug, Default)]
pub struct SshSettings {
    /// What happens to a flow once it is encrypted.
    pub encryption: Encryption,
    /// Hassh is computed whether or not a rule asks for it.
    pub hassh: bool,
}

impl SshSettings {
    /// Reads them.
    pub fn from_config(config: Option<&Tree>) -> Result<SshSettings, SettingsError> {
        let Some(config) = config else { return Ok(SshSettings::default()) };
        Ok(SshSettings {
            encryption: Encryption::from_config(config)?,
            hassh: config.flag("hassh") == Some(true),
        })
    }
}

const fn start(direction: Direction) -> ProbePattern {
    ProbePattern::at_start(direction, b"SSH-").in_any_case()
}

/// SSH in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    patterns: &[start(Direction::ToServer), start(Direction::ToClient)],
    configure: |config| Ok(Arc::new(SshSettings::from_config(config)?) as Settings),
    open: |settings, _| {
        let settings = Arc::clone(settings).downcast::<SshSettings>().unwrap_or_default();
        Box::new(SshParser::new(settings))
    },
    auto_trigger_raw: false,
    ..Protocol::plain(tables::TABLE)
};

//! What the configuration says: `app-layer.protocols.tls`.

use crate::settings_error::SettingsError;
use gabion_record::Tree;

/// What happens to a flow once it is encrypted (`encryption-handling`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// Continue, but without payload inspection: `track-only`.
    #[default]
    TrackOnly,
    /// Leave the flow alone: `bypass`.
    Bypass,
    /// Inspect as ever: `full`.
    Full,
}

impl Encryption {
    /// The value of `encryption-handling`.
    pub fn from_config(config: &Tree) -> Result<Encryption, SettingsError> {
        match config.text("encryption-handling") {
            None | Some("track-only" | "default") => Ok(Encryption::TrackOnly),
            Some("bypass") => Ok(Encryption::Bypass),
            Some("full") => Ok(Encryption::Full),
            Some(other) => Err(SettingsError::Encryption { value: other.to_owned() }),
        }
    }
}

/// Settings below `app-layer.protocols.tls`.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// See [`Encryption`].
    pub encryption: Encryption,
    /// JA3 is computed whether or not anything asks for it (`ja3-fingerprints: yes`), or only for rules (`no`).
    pub ja3: Option<bool>,
    /// JA4 is logged (`ja4-fingerprints`, not `no`).
    pub ja4: bool,
}

impl Default for TlsSettings {
    fn default() -> TlsSettings {
        TlsSettings { encryption: Encryption::TrackOnly, ja3: None, ja4: true }
    }
}

impl TlsSettings {
    /// Reads them.
    pub fn from_config(config: Option<&Tree>) -> Result<TlsSettings, SettingsError> {
        let mut settings = TlsSettings::default();
        let Some(config) = config else { return Ok(settings) };
        settings.encryption = Encryption::from_config(config)?;
        let is_unset = config.child("encryption-handling").is_none();
        if is_unset && config.flag("no-reassemble") == Some(true) {
            settings.encryption = Encryption::Bypass;
        }
        settings.ja3 = config.flag("ja3-fingerprints");
        settings.ja4 = config.flag("ja4-fingerprints") != Some(false);
        Ok(settings)
    }
}

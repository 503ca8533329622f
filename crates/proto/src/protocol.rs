//! What the engine knows of a protocol: one constant of this type in each protocol's folder, which
//! the [registry](mod@crate::registry) lists. It is separate from the list, so that a protocol
//! needs to know only what a protocol is, not which there are.

use crate::Parser;
use crate::detect::{PortProbe, ProbePattern};
use crate::recognized::Recognized;
use crate::settings_error::SettingsError;
use gabion_record::Tree;
use gabion_record::applayer::{ProtoTable, Transport};
use std::any::Any;
use std::sync::Arc;

/// A protocol's settings after it has read its part of the configuration.
pub type Settings = Arc<dyn Any + Send + Sync>;

/// Takes a message.
type Report<'r> = &'r mut dyn FnMut(&str);

/// Everything the engine knows of a protocol.
#[derive(Debug)]
pub struct Protocol {
    /// What it offers to rules, and its names.
    pub table: ProtoTable,
    /// Path below `app-layer.protocols` of its configuration (`http`, `dns`).
    pub config_name: &'static str,
    /// Parsed unless the configuration says otherwise.
    pub is_default_on: bool,
    /// Literals that give it away.
    pub patterns: &'static [ProbePattern],
    /// The same over UDP, of a protocol over both transports that looks another way there.
    pub datagram_patterns: Option<&'static [ProbePattern]>,
    /// Probes by port.
    pub probes: &'static [PortProbe],
    /// The parser continues after a gap.
    pub accepts_gaps: bool,
    /// Bytes a direction is reassembled at most, when it is not the stream's default (0: no limit).
    pub stream_depth: Option<u64>,
    /// Direction whose bytes must come first (`None`: either).
    pub first_direction: Option<gabion_record::Direction>,
    /// The server's port: where the beginning of a flow was not seen, a message from it that either side may send
    /// is the server's.
    pub home_port: Option<u16>,
    /// Raw stream inspection is triggered at the end of each of its messages by the engine itself.
    pub auto_trigger_raw: bool,
    /// EVE `event_type` of its transactions, and the key of their object.
    pub event_type: &'static str,
    /// The built-in configuration logs its transactions.
    pub is_logged: bool,
    /// Its type below `outputs.eve-log.types`, which turns its records on (empty: none of its own).
    pub eve_type: &'static str,
    /// What the built-in configuration sets for that type.
    pub eve_defaults: &'static [(&'static str, &'static str)],
    /// Each of its records has members, whatever the settings of its type.
    pub is_never_empty: bool,
    /// EVE writes a transaction's number at the top of its record, else inside its object.
    pub tx_id_on_top: bool,
    /// Records of its transactions and files name the client that a proxy forwards for, where `xff` is set.
    pub names_forwarded_client: bool,
    /// It is the protocol with which a session continues after it asked for encryption (STARTTLS).
    pub is_encryption: bool,
    /// What a rule may require (`requires: feature NAME`), each with the key of its configuration that switches it off.
    pub features: &'static [(&'static str, &'static str)],
    /// Part of its configuration whose keys are names that users choose.
    pub free_key: Option<&'static str>,
    /// Sizes of its part of the configuration, each with the default that Suricata names where the value is no size.
    pub sizes: &'static [(&'static str, u64)],
    /// What Suricata's messages call the part that writes its records (`output-json-dns`).
    pub eve_logger: &'static str,
    /// Sizes of its EVE type: a value that is no size ends the run, as in Suricata.
    pub eve_sizes: &'static [&'static str],
    /// Says what is wrong with other options of its EVE type, in Suricata's words; the run continues.
    pub check_eve_options: fn(&Tree, Report<'_>),
    /// The variable of the environment that sets the version of its records, as in Suricata.
    pub eve_version_variable: Option<&'static str>,
    /// Reads its settings out of its own part of the configuration (`None`: all defaults).
    pub configure: fn(Option<&Tree>) -> Result<Settings, SettingsError>,
    /// Makes a parser for a flow.
    pub open: fn(&Settings, Transport) -> Box<dyn Parser>,
}

impl Protocol {
    /// A protocol of that table to be refined with struct update syntax: its names in the
    /// configuration and in EVE are its own, it is on and logged by default, nothing identifies it,
    /// it has no settings, and its flows are recognized without being parsed.
    pub const fn plain(table: ProtoTable) -> Protocol {
        Protocol {
            table,
            config_name: table.eve_name,
            is_default_on: true,
            patterns: &[],
            datagram_patterns: None,
            probes: &[],
            accepts_gaps: false,
            stream_depth: None,
            first_direction: None,
            home_port: None,
            auto_trigger_raw: true,
            event_type: table.eve_name,
            is_logged: true,
            eve_type: table.eve_name,
            eve_defaults: &[],
            is_never_empty: false,
            tx_id_on_top: false,
            names_forwarded_client: false,
            is_encryption: false,
            features: &[],
            free_key: None,
            sizes: &[],
            eve_logger: "",
            eve_sizes: &[],
            check_eve_options: |_, _| {},
            eve_version_variable: None,
            configure: |_| Ok(Arc::new(())),
            open: |_, _| Box::new(Recognized::default()),
        }
    }
}

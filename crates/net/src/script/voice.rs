//! What scripts log, and what their host reports to them about itself.

use super::output_script::OutputScript;
use super::sandbox::ScriptLimits;
use std::sync::Arc;

/// The severity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// A notice.
    Notice,
    /// Information.
    Info,
    /// Information for debugging.
    Debug,
    /// Not a message: what the script prints.
    Print,
}

/// Receives severity, sender and text.
type Ear = dyn Fn(Severity, &str, &str) + Send + Sync;

/// The receiver of messages.
#[derive(Clone)]
pub struct Voice(Arc<Ear>);

impl Voice {
    /// A voice whose messages go to `hear`.
    pub fn new(hear: impl Fn(Severity, &str, &str) + Send + Sync + 'static) -> Voice {
        Voice(Arc::new(hear))
    }

    /// Sends a message.
    pub fn send_message(&self, severity: Severity, who: &str, text: &str) {
        (self.0)(severity, who, text);
    }
}

impl Default for Voice {
    fn default() -> Voice {
        Voice::new(|_, _, _| {})
    }
}

impl std::fmt::Debug for Voice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Voice")
    }
}

/// What scripts need from their host.
#[derive(Clone, Debug)]
pub struct ScriptSetup {
    /// Limits.
    pub limits: ScriptLimits,
    /// Receives their messages.
    pub voice: Voice,
    /// Folder of the outputs (`config.log_path()`).
    pub log_folder: String,
    /// Scripts that are outputs.
    pub outputs: Vec<OutputScript>,
    /// Where output scripts look for modules (`path`).
    pub module_path: String,
    /// Writes an event time (nanoseconds since 1970) in local time: as EVE does, or as Suricata's
    /// older logs do.
    pub stamp: fn(u64, bool) -> String,
}

impl Default for ScriptSetup {
    fn default() -> ScriptSetup {
        ScriptSetup {
            limits: ScriptLimits::default(),
            voice: Voice::default(),
            log_folder: String::new(),
            outputs: Vec::new(),
            module_path: String::new(),
            stamp: |_, _| String::new(),
        }
    }
}

//! What scripts log, and what their host reports to them about itself.

use super::{OutputScript, ScriptLimits};
use std::sync::Arc;

/// How grave a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// An error.
    Error,
    /// A warning.
    Warning,
    /// A notice.
    Notice,
    /// For those who want to know.
    Info,
    /// For those who look for faults.
    Debug,
    /// Not a message: what the script prints.
    Print,
}

/// Hears severity, who says it, text.
type Ear = dyn Fn(Severity, &str, &str) + Send + Sync;

/// Where messages go.
#[derive(Clone)]
pub struct Voice(Arc<Ear>);

impl Voice {
    /// A voice that is heard by `hear`.
    pub fn new(hear: impl Fn(Severity, &str, &str) + Send + Sync + 'static) -> Voice {
        Voice(Arc::new(hear))
    }

    /// Says something.
    pub fn say(&self, severity: Severity, who: &str, text: &str) {
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

/// What scripts need of their host.
#[derive(Clone, Debug)]
pub struct ScriptSetup {
    /// Limits.
    pub limits: ScriptLimits,
    /// Hears what they say.
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

//! Falco's configuration: `falco.yaml` with the files it names and the options of the command line over it, as plain
//! settings of a run.

mod overrides;
mod read;
mod schema;
mod without_effect;

pub use overrides::{BadOverride, apply_override};
pub use read::{ConfigFault, FalcoConfiguration, load_falco_configuration, read_falco_settings};
pub use schema::{configuration_schema, rule_schema};

use gabion_condition::rules::{AppendOutput, Matching, Priority, Selection};
use std::path::PathBuf;

/// Where events come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineKind {
    /// The kernel, by BPF programs. Falco's kinds `modern_ebpf` and `kmod` both mean it.
    Live,
    /// A scap file.
    Replay(PathBuf),
    /// Nowhere: rules are loaded and the program waits.
    None,
}

/// A file that alerts go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOutput {
    /// Its path.
    pub path: PathBuf,
    /// Whether it stays open between alerts.
    pub keep_alive: bool,
}

/// A program that alerts go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramOutput {
    /// What the shell runs.
    pub command: String,
    /// Whether it is started once for all alerts.
    pub keep_alive: bool,
}

/// A receiver that alerts are posted to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpOutput {
    /// Its address: `http://` or `https://`.
    pub url: String,
    /// The name by which the sensor introduces itself.
    pub user_agent: String,
    /// Authorities that its certificate must come from, PEM; the system's if none are named.
    pub authorities: Option<PathBuf>,
    /// The certificate that is shown to it, and its key, PEM.
    pub shown: Option<(PathBuf, PathBuf)>,
}

/// What is done when events were dropped.
#[derive(Clone, Debug, PartialEq)]
pub struct DropSettings {
    /// The share of dropped events from which on something is done.
    pub threshold: f64,
    /// What is done.
    pub actions: Vec<DropAction>,
    /// Actions a second, on average.
    pub rate: f64,
    /// Actions in a row.
    pub max_burst: f64,
    /// Every second counts as one with drops, for tests.
    pub simulate: bool,
}

/// One thing that is done when events were dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropAction {
    /// Nothing.
    Ignore,
    /// A line in the log.
    Log,
    /// An alert.
    Alert,
    /// The end of the program.
    Exit,
}

/// The listener for health and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebSettings {
    /// The address that it listens on.
    pub address: String,
    /// The port.
    pub port: u16,
    /// The path that answers whether the program is well.
    pub health_path: String,
    /// Whether metrics are served.
    pub has_metrics: bool,
    /// The file with certificate and key, PEM, where the listener uses TLS.
    pub certificate: Option<PathBuf>,
}

/// Metrics as alerts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSettings {
    /// Seconds between two of them.
    pub interval_s: u64,
    /// As an alert.
    pub as_rule: bool,
    /// Into a file.
    pub file: Option<PathBuf>,
    /// With what the program and its host use.
    pub has_host: bool,
    /// Memory in MiB, not in KiB.
    pub is_memory_in_mb: bool,
    /// With the events of each CPU.
    pub has_cpus: bool,
    /// With what is known of threads and descriptors.
    pub has_state: bool,
}

/// Which calls are recorded besides those of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BaseCalls {
    /// In the place of those that the state of threads needs; empty for these.
    pub added: Vec<String>,
    /// Removed from all.
    pub removed: Vec<String>,
    /// The least that the state of threads needs for the calls of the rules.
    pub repair: bool,
    /// Also reads and writes of data, which are left out otherwise.
    pub all: bool,
}

/// The memory of a live source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveBuffers {
    /// CPUs that share a ring; 0 for one ring.
    pub cpus_per_ring: usize,
    /// Bytes of a ring.
    pub ring_bytes: usize,
    /// Bytes of data that are kept of a read or write.
    pub snaplen: u32,
}

/// Captures that alerts start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureSettings {
    /// The beginning of the files' paths.
    pub path_prefix: PathBuf,
    /// All alerts start one, not only those of rules with `capture`.
    pub all_rules: bool,
    /// How long one lasts after its alert, in milliseconds of event time.
    pub duration_ms: u64,
}

/// Everything that a run of the rules over system calls takes from the configuration.
#[derive(Clone, Debug)]
pub struct FalcoSettings {
    /// Files and folders of rules.
    pub rules_files: Vec<String>,
    /// Rules to switch on or off, in order.
    pub selections: Vec<Selection>,
    /// Where events come from.
    pub engine: EngineKind,
    /// Times as ISO 8601 in UTC.
    pub is_iso_8601: bool,
    /// Rules that are less urgent are not loaded.
    pub priority: Priority,
    /// Alerts, and answers such as those of `--version`, as JSON.
    pub is_json: bool,
    /// JSON has `output`.
    pub has_output: bool,
    /// JSON has `message`.
    pub has_message: bool,
    /// JSON has `output_fields`.
    pub has_fields: bool,
    /// JSON has `tags`.
    pub has_tags: bool,
    /// Which of the matching rules give an alert.
    pub matching: Matching,
    /// Additions to the outputs of rules.
    pub append_output: Vec<AppendOutput>,
    /// Alerts go to standard output.
    pub to_stdout: bool,
    /// Alerts go to syslog.
    pub to_syslog: bool,
    /// Alerts go to a file.
    pub file: Option<FileOutput>,
    /// Alerts go to a program.
    pub program: Option<ProgramOutput>,
    /// Alerts are posted to a receiver.
    pub http: Option<HttpOutput>,
    /// The listener for health and metrics, if it is on.
    pub web: Option<WebSettings>,
    /// Metrics as alerts, if they are on.
    pub metrics: Option<MetricSettings>,
    /// Log lines go to standard error.
    pub log_to_stderr: bool,
    /// Captures that alerts start, if they are on.
    pub capture: Option<CaptureSettings>,
    /// Drops of events.
    pub drops: DropSettings,
    /// Files are watched, and read again when they change.
    pub watches_files: bool,
    /// Most threads in the table of threads.
    pub thread_table_size: usize,
    /// Calls that are recorded besides those of the rules.
    pub base_calls: BaseCalls,
    /// The memory of a live source.
    pub live: LiveBuffers,
    /// Keys of the configuration that ask for something that does not exist here, each with what it asks for.
    pub unsupported: Vec<String>,
}

impl FalcoSettings {
    /// Whether alerts go anywhere.
    #[must_use]
    pub const fn writes_alerts(&self) -> bool {
        self.to_stdout
            || self.to_syslog
            || self.file.is_some()
            || self.program.is_some()
            || self.http.is_some()
    }

    /// Adds to the outputs of all rules, as `-p` does: the fields of containers or of pods by their short names, else the
    /// text itself.
    pub fn add_output(&mut self, text: &str) {
        const CONTAINER: &str = "container_id=%container.id container_name=%container.name";
        let extra_output = match text {
            "c" | "container" => CONTAINER.to_string(),
            "k" | "kubernetes" => format!("{CONTAINER} k8s_ns=%k8s.ns.name k8s_pod=%k8s.pod.name"),
            text => text.to_string(),
        };
        self.append_output.push(AppendOutput { extra_output, ..AppendOutput::default() });
    }
}

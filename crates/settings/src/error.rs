//! Why a configuration, or what it names, can't be used.

use crate::limits::INTERFACES_MAX;
use std::io;
use std::path::{Path, PathBuf};

/// Why a configuration, or what it names, can't be used. The texts are Suricata's where it has one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A configuration file can't be read.
    #[error("failed to open file: {}: {source}{}", .path.display(), included(*.included_bytes))]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
        /// Bytes that were included before.
        included_bytes: u64,
    },
    /// The list of pinned rules is none.
    #[error("pinned-rules: {text}: write ids and ranges of ids, such as 2000001, 2100000-2100099")]
    PinnedRules {
        /// What it says.
        text: String,
    },
    /// The entry of an interface asks for its frames to be passed on.
    #[error("af-packet: {name}: copy-mode: {mode}: frames are read and not passed on: take it out")]
    CopyMode {
        /// The interface.
        name: String,
        /// How they should be passed on.
        mode: String,
    },
    /// The entry of an interface has a choice of checksums that there is not.
    #[error("af-packet: {name}: checksum-checks: write kernel, yes, no or auto")]
    ChecksumChecks {
        /// The interface.
        name: String,
    },
    /// More interfaces are named than a run reads.
    #[error("af-packet: {name}: {INTERFACES_MAX} interfaces are read by one run at most")]
    TooManyInterfaces {
        /// The first that is too many.
        name: String,
    },
    /// Files include each other further down than is allowed.
    #[error("{}: includes are nested too deeply", .path.display())]
    IncludesTooDeep {
        /// The file.
        path: PathBuf,
    },
    /// A configuration includes more files than is allowed.
    #[error(
        "{}: a configuration of more than {most} files, each include counted: files include each other \
         again and again",
        .path.display()
    )]
    TooManyFiles {
        /// The file.
        path: PathBuf,
        /// How many are allowed.
        most: u32,
    },
    /// A configuration does not begin with the version of YAML.
    #[error(
        "{}: Invalid configuration file. The configuration file must begin with the following two \
         lines: %YAML 1.1 and ---",
        .path.display()
    )]
    NoHeader {
        /// The file.
        path: PathBuf,
    },
    /// A configuration is not YAML.
    #[error("{file}:{line}:{column}: Failed to parse configuration file: {why}")]
    Syntax {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The error of the parser.
        why: String,
    },
    /// Mappings and lists are nested further than is allowed.
    #[error("{file}: nested too deeply")]
    TooDeep {
        /// The file.
        file: String,
    },
    /// A setting of the form `NAME=VALUE` without a value.
    #[error("{setting}: has no value: write NAME=VALUE")]
    NoValue {
        /// The setting.
        setting: String,
    },
    /// A value that the flow table, streams or the defragmenter refuse.
    #[error("{0}")]
    Flow(#[from] gabion_flow::ConfigError),
    /// A value that a protocol or the firewall refuses.
    #[error("{0}")]
    Net(#[from] gabion_net::ConfigError),
    /// An exception policy that there is not.
    #[error("{key}: \"{value}\" is not an exception policy")]
    NoPolicy {
        /// The key of the configuration.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A policy for sessions that are picked up in the middle, which concerns packets.
    #[error("stream.midstream-policy: \"{policy}\" is not valid here: it concerns flows")]
    PacketPolicy {
        /// Its name.
        policy: &'static str,
    },
    /// A policy that ends sessions that are picked up in the middle, where they are to be picked up.
    #[error("stream.midstream-policy: \"{policy}\" is not valid here: stream.midstream is enabled")]
    MidstreamPolicy {
        /// Its name.
        policy: &'static str,
    },
    /// A file of a dataset can't be read.
    #[error("{}: {source}", .path.display())]
    Dataset {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A dataset does not fit into its memory.
    #[error("the dataset is too large for its memcap")]
    LargeDataset,
    /// A dataset has too many rows.
    #[error("the dataset has more rows than the configuration allows")]
    DatasetRows,
    /// A value with which a run of Suricata ends too.
    #[error("configuration: {what}")]
    RefusedValue {
        /// The key, its value and what is allowed.
        what: String,
    },
    /// A user or group to run as has no name.
    #[error(
        "no {kind} name was provided - ensure it is specified either in the configuration file (run-as.{kind}) or in \
         command-line arguments (--{kind})"
    )]
    NoRunAsName {
        /// `user` or `group`.
        kind: &'static str,
    },
    /// A user or group to run as is not there.
    #[error("{0}")]
    RunAs(#[from] gabion_runtime::daemon::run_as::RunAsError),
    /// A run mode that there is not.
    #[error(
        "The custom type \"{name}\" doesn't exist for this runmode type \"PCAP_FILE\". Please use \
         --list-runmodes to see available custom types for this runmode"
    )]
    RunMode {
        /// Its name.
        name: String,
    },
    /// The database of countries can't be read.
    #[error("Failed to open GeoIP2 database: {path}. Error was: {why}.  {}", COUNTRIES_DISABLED)]
    Countries {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// A file of reputations can't be read.
    #[error("{}: {source}", .path.display())]
    Reputation {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A rule file can't be opened or read.
    #[error("opening rule file {}: {source}", .path.display())]
    RuleFile {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A packed rule file can't be unpacked.
    #[error("{}: can't be unpacked: {source}", .path.display())]
    PackedRuleFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// A rule file is larger than any.
    #[error("{}: is larger than {most_mib} MiB{}, which no rule file is", .path.display(), unpacked(*.is_packed))]
    LargeRuleFile {
        /// The file.
        path: PathBuf,
        /// The bound.
        most_mib: u64,
        /// The bound is that of its unpacked text.
        is_packed: bool,
    },
    /// A rule file is no text.
    #[error("{}: not a rule file: it holds binary data", .path.display())]
    BinaryRuleFile {
        /// The file.
        path: PathBuf,
    },
    /// A rule file that is named by itself can't be read.
    #[error("{source}: name a text file of rules, plain or packed as .zst")]
    NamedRuleFile {
        /// Why not.
        source: Box<Error>,
    },
    /// A variable of rules has no value that they could use.
    #[error(
        "configuration: {key}: \"{value}\": {why}: give it another value in the configuration or with --set"
    )]
    RuleVariable {
        /// The key of the configuration.
        key: String,
        /// Its value.
        value: String,
        /// Why it can't be used.
        why: String,
    },
    /// No rule is left of named files: all were skipped.
    #[error(
        "rules: {files}: {skipped} skipped for what they require, none is left: see gabion rules check"
    )]
    NoRuleLeft {
        /// The files.
        files: String,
        /// How many rules were skipped.
        skipped: u32,
    },
    /// No rule is left of named files: all were refused.
    #[error("rules: {}{}: gabion rules check lists each", all_refused(*.refused), first_fault(.first))]
    AllRulesRefused {
        /// How many.
        refused: u32,
        /// The first fault, with its place.
        first: Option<String>,
    },
    /// A file of `--disable-conf`, `--enable-conf` or `--modify-conf` can't be read.
    #[error("--{kind} {}: {source}: name a file in the format of suricata-update's {}", .path.display(), .kind.replace('-', "."))]
    Selection {
        /// The option.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// What follows from a database of countries that is not there.
pub(crate) const COUNTRIES_DISABLED: &str = "GeoIP rule matching is disabled.";

/// What could be read.
pub(crate) type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A rule file that can't be read.
    pub(crate) fn rule_file(path: &Path, source: io::Error) -> Error {
        Error::RuleFile { path: path.to_owned(), source }
    }
}

fn all_refused(rules: u32) -> String {
    match rules {
        1 => "the only rule was refused".to_owned(),
        n => format!("all {n} rules were refused"),
    }
}

fn first_fault(fault: &Option<String>) -> String {
    fault.as_ref().map_or_else(String::new, |fault| format!(", first {fault}"))
}

fn included(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        read => format!(" ({read} bytes were included before)"),
    }
}

fn unpacked(is_packed: bool) -> &'static str {
    if is_packed { " unpacked" } else { "" }
}

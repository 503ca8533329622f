//! The program's own command line. `gabion suricata` and `gabion falco` read their own, as those programs do.

use crate::values;
use clap::{Args, Parser, Subcommand, ValueEnum};
use gabion_record::budget::ByteSize;
use gabion_settings::{Checksums, SelectionFiles};
use std::ffi::OsString;
use std::path::PathBuf;

/// The text below the help: what to try first.
const EXAMPLES: &str = "\
Examples:
  gabion read capture.pcap --rules my.rules -l out     what is in it, which rules alert; records in out/
  gabion rules check my.rules                          what is wrong with rules, and where
  gabion rules cost capture.pcap --rules my.rules      what each rule costs
  gabion suricata -r capture.pcap -S my.rules -c suricata.yaml -l out

Exit codes: gabion help exit-codes";

/// The version, and the commit that it was built from where that is known.
pub(crate) const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), env!("GABION_BUILT_FROM"));

/// A security sensor for networks, hosts and logs that accounts for everything it receives
#[derive(Debug, Parser)]
#[command(name = "gabion", version = VERSION, propagate_version = true, max_term_width = 100)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

/// What to do.
#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "there is one in a run")]
pub(crate) enum Verb {
    /// Read captures: print what is in them and which rules alert, and account for every packet
    Read(ReadOptions),
    /// Check, list, explain, measure and test rules
    Rules {
        #[command(subcommand)]
        verb: RulesVerb,
    },
    /// Show, list and mute what a run with --behavior found about hosts
    Behavior {
        #[command(subcommand)]
        verb: BehaviorVerb,
    },
    /// Show softirq and RCU starvation with its cause, and throttle the source
    Guard {
        #[command(subcommand)]
        verb: crate::guard::GuardVerb,
    },
    /// Print the events of a capture of system calls (scap), as sysdig does
    Events(crate::commands::scap::EventsOptions),
    /// Rewrite an old capture of system calls (scap) with exit events only
    Convert(crate::commands::scap::ConvertOptions),
    /// Check memory limits, kills and losses of a sensor, and advise what to change; exit code 1 when there
    /// is something to change
    Doctor(crate::commands::doctor::DoctorOptions),
    /// Receive logs (syslog, RELP, slog) and seal them, until SIGTERM
    Listen(Box<crate::listen::ListenOptions>),
    /// Write, show, verify and prove a sealed log
    Log {
        #[command(subcommand)]
        verb: crate::log::options::LogVerb,
    },
    /// Check what this kernel permits, and record the system calls of this host
    Probe {
        #[command(subcommand)]
        verb: crate::commands::probe::ProbeVerb,
    },
    /// Send messages to a log server and count those sent and, over RELP, acknowledged: a load generator
    Send(Box<crate::send::SendOptions>),
    /// Run with Suricata's options, configuration and exit codes
    #[command(disable_help_flag = true)]
    Suricata {
        /// See `gabion suricata --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Run Falco's rules over system calls, with Falco's options, configuration and exit codes
    #[command(disable_help_flag = true)]
    Falco {
        /// See `gabion falco --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// What to do with profiles of hosts.
#[derive(Debug, Subcommand)]
pub(crate) enum BehaviorVerb {
    /// Show an address: its windows, its evidence in order of time, its repeated connections
    Show(crate::behavior::show::ShowOptions),
    /// List what was found: hosts that call out, hosts by risk, and findings, filtered and sorted
    List(crate::behavior::list::ListOptions),
    /// Keep a host, a type of findings or a pair of hosts out of findings for a time: writes a whitelist
    Mute(crate::behavior::mute::MuteOptions),
}

/// What to do with rules.
#[derive(Debug, Subcommand)]
pub(crate) enum RulesVerb {
    /// Load rules and print what is wrong with them; exit code 1 when one is refused
    Check(CheckOptions),
    /// List the rules with the result of compiling each
    List(ListOptions),
    /// Explain how a rule is inspected
    Why(WhyOptions),
    /// Read captures and print what each rule cost
    Cost(CostOptions),
    /// Read captures, each with fresh state, and print how often each rule alerted in each capture
    Test(TestOptions),
}

/// `--disable-conf`, `--enable-conf` and `--modify-conf`: which rules of the files are on, in suricata-update's formats.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SelectionOptions {
    /// Turn off the rules that this file names, in the format of suricata-update's disable.conf
    #[arg(long, value_name = "FILE")]
    pub(crate) disable_conf: Option<PathBuf>,
    /// Turn on the rules that this file names, also those that --disable-conf turns off (enable.conf)
    #[arg(long, value_name = "FILE")]
    pub(crate) enable_conf: Option<PathBuf>,
    /// Change rules as this file says, in the format of suricata-update's modify.conf
    #[arg(long, value_name = "FILE")]
    pub(crate) modify_conf: Option<PathBuf>,
}

impl SelectionOptions {
    /// The files that they name.
    pub(crate) fn files(&self) -> SelectionFiles {
        SelectionFiles {
            disable_conf: self.disable_conf.clone(),
            enable_conf: self.enable_conf.clone(),
            modify_conf: self.modify_conf.clone(),
        }
    }
}

/// Rule files and the configuration they are read with.
#[derive(Debug, Args)]
pub(crate) struct RuleOptions {
    /// A configuration in Suricata's YAML, instead of the built-in one
    #[arg(short = 'c', long = "config", value_name = "YAML")]
    pub(crate) config: Option<PathBuf>,
    /// Set a value of the configuration (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = values::setting)]
    pub(crate) sets: Vec<String>,
    /// The rules are firewall rules
    #[arg(long)]
    pub(crate) firewall: bool,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
}

/// Options of `rules check`.
#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    #[command(flatten)]
    pub(crate) rules: RuleOptions,
    /// Rule files, plain or .zst
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Only errors, no advice
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// List all costly and all inert rules
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Options of `rules list`.
#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    #[command(flatten)]
    pub(crate) rules: RuleOptions,
    /// Rule files, plain or .zst
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Only costly rules: those with neither a pattern nor a prefilter, except IP-only rules
    #[arg(long)]
    pub(crate) costly: bool,
    /// Only rules that can never match here
    #[arg(long)]
    pub(crate) inert: bool,
    /// Print a JSON array instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `rules why`.
#[derive(Debug, Args)]
pub(crate) struct WhyOptions {
    #[command(flatten)]
    pub(crate) rules: RuleOptions,
    /// Signature id, GID:SID, or the name of a rule of Falco
    #[arg(value_name = "RULE", value_parser = values::text())]
    pub(crate) rule: String,
    /// A capture of system calls (scap), for a rule of Falco
    #[arg(value_name = "CAPTURE", requires = "event")]
    pub(crate) capture: Option<PathBuf>,
    /// The number (evt.num) of the event in CAPTURE for which a rule of Falco is explained
    #[arg(long, value_name = "NUMBER", requires = "capture", value_parser = values::rows)]
    pub(crate) event: Option<usize>,
    /// Rule files, plain or .zst
    #[arg(short = 'S', long = "rules", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Print Suricata's JSON of the rule instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// Options of `rules cost`.
#[derive(Debug, Args)]
pub(crate) struct CostOptions {
    #[command(flatten)]
    pub(crate) engine: EngineOptions,
    /// Captures, or folders of captures (with all folders below)
    #[arg(value_name = "CAPTURE", required = true)]
    pub(crate) captures: Vec<PathBuf>,
    /// Rules shown
    #[arg(long, value_name = "N", default_value_t = gabion_reports::COSTLY_RULES_SHOWN, value_parser = values::rows)]
    pub(crate) rows: usize,
    /// Time one packet in 64 instead of all, as a sensor does all the time
    #[arg(long)]
    pub(crate) sampled: bool,
    /// Print a JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a run with rules over captures is made of.
#[derive(Debug, Args)]
pub(crate) struct EngineOptions {
    /// A rule file, plain or .zst (repeatable)
    #[arg(short = 'S', long = "rules", value_name = "FILE")]
    pub(crate) rules: Vec<PathBuf>,
    /// A configuration in Suricata's YAML, instead of the built-in one
    #[arg(short = 'c', long = "config", value_name = "YAML")]
    pub(crate) config: Option<PathBuf>,
    /// Set a value of the configuration (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = values::setting)]
    pub(crate) sets: Vec<String>,
    /// Verify checksums of TCP: all or none. [default: as configured; built in: until more than
    /// 100 of the first 999 packets have wrong ones, as Suricata does]
    #[arg(short = 'k', long = "checksums", value_name = "HOW")]
    pub(crate) checksums: Option<ChecksumChoice>,
    /// Let rules drop, as an inline sensor would
    #[arg(long)]
    pub(crate) simulate_ips: bool,
    #[command(flatten)]
    pub(crate) selection: SelectionOptions,
}

/// How checksums are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChecksumChoice {
    /// Packets with wrong ones are not inspected further
    All,
    /// Checksums are not verified
    None,
}

impl EngineOptions {
    /// The choice as the engine takes it.
    pub(crate) fn checksums(&self) -> Checksums {
        match self.checksums {
            Some(ChecksumChoice::All) => Checksums::All,
            Some(ChecksumChoice::None) => Checksums::None,
            None => Checksums::Configured,
        }
    }
}

impl ReadOptions {
    /// What is read: captures and logs, or interfaces by their names.
    pub(crate) fn sources(&self) -> Vec<PathBuf> {
        if self.interfaces.is_empty() {
            self.inputs.clone()
        } else {
            self.interfaces.iter().map(PathBuf::from).collect()
        }
    }
}

/// Options of `read`.
#[derive(Debug, Args)]
pub(crate) struct ReadOptions {
    #[command(flatten)]
    pub(crate) engine: EngineOptions,
    /// Captures (pcap or pcapng, plain or compressed with zstd or gzip), folders of captures, pipes, or - for
    /// standard input. With --behavior also flow logs; a compressed capture is then not read from a pipe. Captures of
    /// system calls (scap) cannot be mixed with others
    #[arg(value_name = "INPUT", required_unless_present_any = ["netflow", "interfaces"])]
    pub(crate) inputs: Vec<PathBuf>,
    /// Read packets off this interface until SIGINT or SIGTERM (repeatable); its settings are those below
    /// `af-packet` in the configuration
    #[arg(short = 'i', long = "interface", value_name = "NAME", conflicts_with_all = ["inputs", "netflow", "follow"], value_parser = values::text())]
    pub(crate) interfaces: Vec<String>,
    /// Analyse host behaviour, from flow logs (Zeek, EVE, Argus, nfdump) or from the flows of captures
    #[arg(long)]
    pub(crate) behavior: bool,
    /// Force the input format [default: detected]
    #[arg(long, value_name = "KIND", requires = "behavior", value_parser = values::log_format())]
    pub(crate) kind: Option<gabion_flowlog::Format>,
    /// Threat-intelligence lists: files or folders of CSV, plain and hosts lists, STIX 2.1 bundles
    /// (repeatable); read again when they change and at SIGUSR2
    #[arg(long, value_name = "PATH", requires = "behavior")]
    pub(crate) intel: Vec<PathBuf>,
    /// Allow-list: lines of type,value,direction,ignore (see docs/whitelist.md and `behavior mute`)
    #[arg(long, value_name = "FILE", requires = "behavior")]
    pub(crate) whitelist: Option<PathBuf>,
    /// Continue to read logs as they grow and are rotated, until SIGINT or SIGTERM; pipes until they are closed
    #[arg(long, requires = "behavior")]
    pub(crate) follow: bool,
    /// Receive NetFlow (version 5, version 9) and IPFIX on this UDP address, such as 0.0.0.0:2055, until
    /// SIGINT or SIGTERM
    #[arg(long, value_name = "ADDR:PORT", requires = "behavior", value_parser = values::place)]
    pub(crate) netflow: Option<std::net::SocketAddr>,
    /// Seconds of event time that lines of growing logs wait for earlier ones [default: 0]
    #[arg(long, value_name = "SECONDS", requires = "follow", value_parser = values::number::<u32>(0, crate::limits::SECONDS_MAX))]
    pub(crate) reorder: Option<u32>,
    /// Write EVE records and other outputs into this folder [default: nothing is written]; one that
    /// holds what an earlier run wrote is refused without --append or --overwrite, and added to by a run over
    /// interfaces
    #[arg(short = 'l', long = "log-dir", value_name = "DIR")]
    pub(crate) log_dir: Option<PathBuf>,
    /// Add to what an earlier run wrote into the folder
    #[arg(long, requires = "log_dir", conflicts_with = "overwrite")]
    pub(crate) append: bool,
    /// Replace what an earlier run wrote into the folder
    #[arg(long, requires = "log_dir")]
    pub(crate) overwrite: bool,
    /// Write a report of the run to this file: an HTML page with charts that loads nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Seal every alert, and all evidence about hosts, into this log, which `gabion log init` made
    #[arg(long, value_name = "LOG")]
    pub(crate) seal: Option<PathBuf>,
    /// Write the packets of flows with alerts into this capture, also those from before the alert
    #[arg(long, value_name = "FILE")]
    pub(crate) alert_pcap: Option<PathBuf>,
    /// Memory of each worker for packets that are kept in case an alert follows, such as 64MiB
    #[arg(long, value_name = "BYTES", requires = "alert_pcap", value_parser = values::size)]
    pub(crate) alert_pcap_ring: Option<ByteSize>,
    /// Packets of a flow written after its last alert [default: 100]
    #[arg(long, value_name = "N", requires = "alert_pcap", value_parser = values::number::<u32>(0, u64::from(u32::MAX)))]
    pub(crate) alert_pcap_after: Option<u32>,
    /// Read only frames that pass this filter, in the language of pcap-filter
    #[arg(long, value_name = "EXPRESSION", value_parser = values::filter)]
    pub(crate) filter: Option<String>,
    /// Memory for tables of flows, streams and fragments, such as 512MiB [default: a quarter of
    /// what the process may use]
    #[arg(long, value_name = "BYTES", value_parser = values::size)]
    pub(crate) budget: Option<ByteSize>,
    /// Threads that inspect packets; the findings are the same with any number [default: 1; for interfaces, as
    /// configured]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub(crate) workers: Option<usize>,
    /// Exit code 1 when a rule of this priority or a more severe one (1 is the most severe) alerts; with
    /// --behavior also at an alert about a host and at evidence of this level: 1 high, 2 medium, 3 low
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) fail_on: Option<u32>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more on standard error
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Print what each rule cost; with -l write it to rule_perf.log too
    #[arg(long)]
    pub(crate) profile_rules: bool,
    /// Serve metrics for Prometheus on this address of the machine itself, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::place)]
    pub(crate) metrics: Option<std::net::SocketAddr>,
    /// Print what the budgets were used for
    #[arg(long)]
    pub(crate) profile_memory: bool,
}

/// A level of `--fail-on`.
fn level(text: &str) -> Result<u32, String> {
    let level = text.parse().ok().filter(|level| (1..=255).contains(level));
    level.ok_or_else(|| {
        "write a number from 1 to 255: a priority of rules, or of hosts 1 (high), 2 (medium) or 3 (low)"
            .to_owned()
    })
}

/// Options of `rules test`.
#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    #[command(flatten)]
    pub(crate) engine: EngineOptions,
    /// Captures, or folders of captures (with all folders below)
    #[arg(value_name = "CAPTURE", required = true)]
    pub(crate) captures: Vec<PathBuf>,
    /// Print lines of file, signature id and count, separated by tabs
    #[arg(long)]
    pub(crate) tsv: bool,
    /// Compare with the lines of this file, in the format of --tsv; exit code 1 when there is a difference
    #[arg(long, value_name = "TSV")]
    pub(crate) expect: Option<PathBuf>,
    /// Captures read at the same time [default: number of processors]
    #[arg(long, value_name = "N", value_parser = values::threads)]
    pub(crate) jobs: Option<usize>,
    /// Print more about rules and files that were refused
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_grammar_is_sound() {
        CommandLine::command().debug_assert();
    }
}

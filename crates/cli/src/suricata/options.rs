//! The peer's command line.

use crate::assemble::{Checksums, Simulate};

/// What the command line asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) config: Option<String>,
    pub(crate) includes: Vec<String>,
    pub(crate) sets: Vec<(String, String)>,
    pub(crate) log_dir: Option<String>,
    pub(crate) captures: Vec<String>,
    pub(crate) recursive: bool,
    pub(crate) rules_also: Vec<String>,
    pub(crate) rules_only: Option<String>,
    pub(crate) firewall_rules: Option<String>,
    pub(crate) firewall: bool,
    pub(crate) no_detection: bool,
    pub(crate) test: bool,
    pub(crate) engine_analysis: bool,
    pub(crate) init_errors_fatal: bool,
    pub(crate) verbose: u32,
    pub(crate) strict_keywords: Vec<String>,
    pub(crate) simulate_ips: bool,
    pub(crate) checksums: Checksums,
    pub(crate) runmode: Option<String>,
    pub(crate) pid_file: Option<String>,
    pub(crate) filter_file: Option<String>,
    /// Captures that were read whole are deleted.
    pub(crate) delete: bool,
    /// A folder is looked into for further captures until the run is told to stop.
    pub(crate) continuous: bool,
    /// The run goes on in the background.
    pub(crate) daemon: bool,
    /// Name or number of the user and of the group to run as.
    pub(crate) user: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) show: Option<Show>,
    pub(crate) profile_rules: bool,
    pub(crate) simulate: Simulate,
    /// Words of a capture filter.
    pub(crate) filter: Vec<String>,
    pub(crate) unknown: Vec<String>,
}

/// Information instead of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Show {
    Version,
    BuildInfo,
    Help,
    DumpConfig,
    DumpFeatures,
    Keywords(Option<String>),
    RunModes,
    Protocols,
    Hooks,
    Frames,
}

/// Reads the arguments behind the program's name.
pub(crate) fn parse(args: &[String]) -> Result<Options, String> {
    let mut o = Options::default();
    let mut it = args.iter().peekable();
    while let Some(arg) = it.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((n, v)) if n.starts_with("--") => (n, Some(v.to_string())),
            _ => (arg.as_str(), None),
        };
        let mut value = |what: &str| -> Result<String, String> {
            if let Some(v) = &inline {
                return Ok(v.clone());
            }
            it.next().cloned().ok_or_else(|| format!("option {what} needs a value"))
        };
        match name {
            "-c" => o.config = Some(value("-c")?),
            "--include" => o.includes.push(value("--include")?),
            "--set" => {
                let v = value("--set")?;
                let (k, v) =
                    v.split_once('=').ok_or_else(|| format!("--set {v}: must be name=value"))?;
                o.sets.push((k.trim().to_string(), v.trim().to_string()));
            }
            "--data-dir" => o.sets.push(("default-data-dir".to_string(), value(name)?)),
            "-l" => o.log_dir = Some(value("-l")?),
            "-r" => o.captures.push(value("-r")?),
            "--pcap-file-recursive" => o.recursive = true,
            "-s" => o.rules_also.push(value("-s")?),
            "-S" => o.rules_only = Some(value("-S")?),
            "--firewall-rules-exclusive" => o.firewall_rules = Some(value(name)?),
            "--firewall" => o.firewall = true,
            "--disable-detection" => o.no_detection = true,
            "-T" => o.test = true,
            "--engine-analysis" => o.engine_analysis = true,
            "--init-errors-fatal" => o.init_errors_fatal = true,
            "--strict-rule-keywords" => {
                let list = inline.as_deref().unwrap_or("all");
                o.strict_keywords.extend(list.split(',').map(|k| k.trim().to_string()));
            }
            "--simulate-ips" => o.simulate_ips = true,
            "--runmode" => o.runmode = Some(value("--runmode")?),
            "-k" => {
                o.checksums = match value("-k")?.as_str() {
                    "all" => Checksums::Validated,
                    "none" => Checksums::None,
                    other => return Err(format!("-k {other}: must be all or none")),
                }
            }
            "-V" => o.show = Some(Show::Version),
            "-h" | "--help" => o.show = Some(Show::Help),
            "--build-info" => o.show = Some(Show::BuildInfo),
            "--dump-config" => o.show = Some(Show::DumpConfig),
            "--dump-features" => o.show = Some(Show::DumpFeatures),
            "--list-keywords" => o.show = Some(Show::Keywords(inline.clone())),
            "--list-runmodes" => o.show = Some(Show::RunModes),
            "--list-app-layer-protos" => o.show = Some(Show::Protocols),
            "--list-app-layer-hooks" => o.show = Some(Show::Hooks),
            "--list-app-layer-frames" => o.show = Some(Show::Frames),
            "--profile-rules" => o.profile_rules = true,
            "--simulate-applayer-error-at-offset-ts" => {
                o.simulate.app_error[0] = value(name)?.parse().ok();
            }
            "--simulate-applayer-error-at-offset-tc" => {
                o.simulate.app_error[1] = value(name)?.parse().ok();
            }
            "--simulate-packet-loss" => o.simulate.packet_loss = value(name)?.parse().ok(),
            "--simulate-packet-tcp-reassembly-memcap" => {
                o.simulate.reassembly_memcap = value(name)?.parse().ok();
            }
            "--simulate-packet-tcp-ssn-memcap" => {
                o.simulate.session_memcap = value(name)?.parse().ok();
            }
            "--simulate-packet-flow-memcap" => {
                o.simulate.flow_memcap = value(name)?.parse().ok();
            }
            "--simulate-packet-defrag-memcap" => {
                o.simulate.defrag_memcap = value(name)?.parse().ok();
            }
            "--pidfile" => o.pid_file = Some(value(name)?),
            "-F" => o.filter_file = Some(value(name)?),
            "--pcap-file-delete" => o.delete = true,
            "--pcap-file-continuous" => o.continuous = true,
            "-D" => o.daemon = true,
            "--user" => o.user = Some(value(name)?),
            "--group" => o.group = Some(value(name)?),
            "--reject-dev" | "--pcap-file-buffer-size" | "--pcap-buffer-size" => {
                let v = value(name)?;
                o.unknown.push(format!("{name} {v}"));
            }
            "-i" | "--pcap" | "-q" | "--af-packet" | "--af-xdp" | "--dpdk" | "--erf-in"
            | "--unix-socket" => {
                return Err(format!("{name} is not supported: captures are read with -r"));
            }
            _ if name.starts_with("-v") && name.chars().skip(1).all(|c| c == 'v') => {
                o.verbose += name.len() as u32 - 1;
            }
            _ if name.starts_with('-') => o.unknown.push(arg.clone()),
            _ => o.filter.push(arg.clone()),
        }
    }
    Ok(o)
}

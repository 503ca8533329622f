//! Suricata's command line.

use gabion_settings::{Checksums, SelectionFiles, SimulatedFaults};
use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What the command line asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    pub(crate) config: Option<PathBuf>,
    pub(crate) includes: Vec<PathBuf>,
    pub(crate) sets: Vec<(String, String)>,
    pub(crate) log_dir: Option<PathBuf>,
    pub(crate) captures: Vec<PathBuf>,
    /// Names of interfaces to read from.
    pub(crate) interfaces: Vec<String>,
    /// The interfaces that the configuration names are read from.
    pub(crate) configured_interfaces: bool,
    pub(crate) recursive: bool,
    pub(crate) rules_also: Vec<PathBuf>,
    pub(crate) rules_only: Option<PathBuf>,
    pub(crate) firewall_rules: Option<PathBuf>,
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
    pub(crate) pid_file: Option<PathBuf>,
    pub(crate) filter_file: Option<PathBuf>,
    /// Captures that were read whole are deleted.
    pub(crate) delete: bool,
    /// A folder is looked into for further captures until the run is asked to stop.
    pub(crate) continuous: bool,
    /// The run continues in the background.
    pub(crate) daemon: bool,
    /// Name or number of the user and of the group to run as.
    pub(crate) user: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) show: Option<Show>,
    pub(crate) profile_rules: bool,
    /// Where metrics for Prometheus are served.
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) simulate: SimulatedFaults,
    /// Which rules are on.
    pub(crate) selection: SelectionFiles,
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

impl Options {
    /// The same, with files that are found wherever the process goes.
    pub(crate) fn with_absolute_paths(mut self) -> Options {
        let files = [&mut self.config, &mut self.rules_only, &mut self.firewall_rules];
        let more = self.includes.iter_mut().chain(&mut self.rules_also);
        for path in files.into_iter().flatten().chain(more) {
            // Where the folder of the process is gone, the name stays as it is.
            *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
        }
        self
    }
}

/// Options as they are written, for those that are written nearly so.
pub(super) const KNOWN: &[&str] = &[
    "--af-packet",
    "--include",
    "--set",
    "--data-dir",
    "--pcap-file-recursive",
    "--pcap-file-delete",
    "--pcap-file-continuous",
    "--firewall",
    "--firewall-rules-exclusive",
    "--disable-detection",
    "--engine-analysis",
    "--init-errors-fatal",
    "--strict-rule-keywords",
    "--simulate-ips",
    "--runmode",
    "--help",
    "--build-info",
    "--dump-config",
    "--dump-features",
    "--list-keywords",
    "--list-runmodes",
    "--list-app-layer-protos",
    "--list-app-layer-hooks",
    "--list-app-layer-frames",
    "--profile-rules",
    "--metrics",
    "--pidfile",
    "--user",
    "--group",
];

/// Reads the arguments after the program's name. Names of files may hold any bytes.
pub(crate) fn parse(args: &[OsString]) -> Result<Options, String> {
    let mut o = Options::default();
    let mut it = args.iter().peekable();
    while let Some(arg) = it.next() {
        let bytes = arg.as_bytes();
        let (name, inline) = match bytes.iter().position(|b| *b == b'=') {
            Some(at) if bytes.starts_with(b"--") => {
                let (name, value) = bytes.split_at(at);
                (name, Some(OsStr::from_bytes(value.get(1..).unwrap_or_default()).to_owned()))
            }
            _ => (bytes, None),
        };
        let (name, arg) = (&*String::from_utf8_lossy(name), arg.to_string_lossy());
        let mut path = |what: &str| -> Result<OsString, String> {
            if let Some(v) = &inline {
                return Ok(v.clone());
            }
            it.next()
                .cloned()
                .ok_or_else(|| format!("option {what} needs a value: see gabion suricata --help"))
        };
        match name {
            "-c" => o.config = Some(path("-c")?.into()),
            "--include" => o.includes.push(path("--include")?.into()),
            "--set" => {
                let v = text("--set", path("--set")?)?;
                let (k, v) = v.split_once('=').ok_or_else(|| {
                    format!("--set {v}: must be name=value, such as stream.memcap=64mb")
                })?;
                o.sets.push((k.trim().to_string(), v.trim().to_string()));
            }
            "--data-dir" => {
                let folder = text(name, path(name)?)?;
                if !std::path::Path::new(&folder).is_dir() {
                    return Err(format!(
                        "--data-dir {folder}: no such folder: make it, or name another"
                    ));
                }
                o.sets.push(("default-data-dir".to_string(), folder));
            }
            "-l" => o.log_dir = Some(path("-l")?.into()),
            "-r" => o.captures.push(path("-r")?.into()),
            "-i" => o.interfaces.push(text("-i", path("-i")?)?),
            "--af-packet" => match &inline {
                Some(name) if name.is_empty() => return Err(format!("{arg}: name an interface")),
                Some(name) => o.interfaces.push(text("--af-packet", name.clone())?),
                None => o.configured_interfaces = true,
            },
            "--pcap-file-recursive" => o.recursive = true,
            "-s" => o.rules_also.push(path("-s")?.into()),
            "-S" => o.rules_only = Some(path("-S")?.into()),
            "--firewall-rules-exclusive" => o.firewall_rules = Some(path(name)?.into()),
            "--firewall" => o.firewall = true,
            "--disable-detection" => o.no_detection = true,
            "-T" => o.test = true,
            "--disable-conf" => o.selection.disable_conf = Some(path(name)?.into()),
            "--enable-conf" => o.selection.enable_conf = Some(path(name)?.into()),
            "--modify-conf" => o.selection.modify_conf = Some(path(name)?.into()),
            "--engine-analysis" => o.engine_analysis = true,
            "--init-errors-fatal" => o.init_errors_fatal = true,
            "--strict-rule-keywords" => {
                let list = &*inline.as_deref().map_or("all".into(), OsStr::to_string_lossy);
                o.strict_keywords.extend(list.split(',').map(|k| k.trim().to_string()));
            }
            "--simulate-ips" => o.simulate_ips = true,
            "--runmode" => o.runmode = Some(text("--runmode", path("--runmode")?)?),
            "-k" => {
                o.checksums = match text("-k", path("-k")?)?.as_str() {
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
            "--list-keywords" => {
                o.show =
                    Some(Show::Keywords(inline.map(|form| form.to_string_lossy().into_owned())))
            }
            "--list-runmodes" => o.show = Some(Show::RunModes),
            "--list-app-layer-protos" => o.show = Some(Show::Protocols),
            "--list-app-layer-hooks" => o.show = Some(Show::Hooks),
            "--list-app-layer-frames" => o.show = Some(Show::Frames),
            "--profile-rules" => o.profile_rules = true,
            "--simulate-applayer-error-at-offset-ts" => {
                o.simulate.app_error[0] = number(name, path(name)?)?;
            }
            "--simulate-applayer-error-at-offset-tc" => {
                o.simulate.app_error[1] = number(name, path(name)?)?;
            }
            "--simulate-packet-loss" => {
                o.simulate.packet_loss = number(name, path(name)?)?;
            }
            "--simulate-packet-tcp-reassembly-memcap" => {
                o.simulate.reassembly_memcap = number(name, path(name)?)?;
            }
            "--simulate-packet-tcp-ssn-memcap" => {
                o.simulate.session_memcap = number(name, path(name)?)?;
            }
            "--simulate-packet-flow-memcap" => {
                o.simulate.flow_memcap = number(name, path(name)?)?;
            }
            "--simulate-packet-defrag-memcap" => {
                o.simulate.defrag_memcap = number(name, path(name)?)?;
            }
            "--metrics" => o.metrics = Some(own_address(name, path(name)?)?),
            "--pidfile" => o.pid_file = Some(path(name)?.into()),
            "-F" => o.filter_file = Some(path(name)?.into()),
            "--pcap-file-delete" => o.delete = true,
            "--pcap-file-continuous" => o.continuous = true,
            "-D" => o.daemon = true,
            "--user" => o.user = Some(text(name, path(name)?)?),
            "--group" => o.group = Some(text(name, path(name)?)?),
            "--reject-dev" | "--pcap-file-buffer-size" | "--pcap-buffer-size" => {
                let v = text(name, path(name)?)?;
                o.unknown.push(format!("{name} {v}"));
            }
            "--pcap" | "-q" | "--af-xdp" | "--dpdk" | "--erf-in" | "--unix-socket" => {
                let instead = "captures are read with -r, interfaces with --af-packet=INTERFACE";
                return Err(format!("{name} is not supported: {instead}"));
            }
            _ if name.starts_with("-v") && name.chars().skip(1).all(|c| c == 'v') => {
                o.verbose += name.len() as u32 - 1;
            }
            _ if name.starts_with('-') => o.unknown.push(arg.into_owned()),
            _ => o.filter.push(arg.into_owned()),
        }
    }
    Ok(o)
}

/// A value that must be a number.
fn number<T: std::str::FromStr>(option: &str, value: OsString) -> Result<Option<T>, String> {
    let value = text(option, value)?;
    let number = value.parse().map_err(|_| format!("{option} {value}: must be a number"))?;
    Ok(Some(number))
}

/// A value that must be an address of this machine itself, with a port.
fn own_address(option: &str, value: OsString) -> Result<SocketAddr, String> {
    let value = text(option, value)?;
    let address = crate::values::place(&value).map_err(|e| format!("{option} {value}: {e}"))?;
    if address.ip().is_loopback() {
        Ok(address)
    } else {
        Err(format!("{option} {value}: is not the machine's own address: use 127.0.0.1"))
    }
}

/// A value that must be text.
fn text(option: &str, value: OsString) -> Result<String, String> {
    value.into_string().map_err(|v| format!("{option} {}: must be text in UTF-8", v.display()))
}

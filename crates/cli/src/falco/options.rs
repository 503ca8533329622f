//! Falco's command line: short options with their values attached or after a blank, long ones with `=` or a blank.

use gabion_sensor::falco::ListFormat;
use std::ffi::OsString;
use std::path::PathBuf;

/// What the command line asks for.
#[derive(Debug, Default)]
pub(super) struct Options {
    pub(super) help: bool,
    pub(super) config: Option<PathBuf>,
    pub(super) config_schema: bool,
    pub(super) rule_schema: bool,
    pub(super) disabled_sources: Vec<String>,
    pub(super) enabled_sources: Vec<String>,
    pub(super) dry_run: bool,
    pub(super) ignored_events: bool,
    pub(super) describe_all: bool,
    pub(super) describe_rule: Option<String>,
    pub(super) list: Option<String>,
    pub(super) list_events: bool,
    pub(super) list_plugins: bool,
    pub(super) seconds: Option<u64>,
    pub(super) format: ListFormat,
    pub(super) names_only: bool,
    pub(super) overrides: Vec<String>,
    pub(super) plugin_info: Option<String>,
    pub(super) print: Option<String>,
    pub(super) pid_file: Option<PathBuf>,
    pub(super) rules: Vec<String>,
    pub(super) statistics: bool,
    pub(super) support: bool,
    pub(super) validate: Vec<PathBuf>,
    pub(super) verbose: bool,
    pub(super) version: bool,
    pub(super) page_size: bool,
    pub(super) recording: Option<PathBuf>,
    /// Options that Falco had once, or that have no effect here: what to use instead.
    pub(super) notes: Vec<String>,
}

/// Options that Falco has removed, and what took their place.
const REMOVED: &[(&str, &str)] = &[
    ("-A", "-o base_syscalls.all=true"),
    ("-D", "-o rules[].disable.rule=NAME"),
    ("-t", "-o rules[].disable.tag=TAG"),
    ("-T", "-o rules[].enable.tag=TAG"),
    ("-e", "-o engine.kind=replay -o engine.replay.capture_file=FILE"),
    ("-u", "nothing: userspace drivers no longer exist"),
    ("-k", "nothing: the Kubernetes API is not asked"),
    ("-m", "nothing: the Mesos API is not asked"),
    ("--cri", "nothing: names of containers come from control groups"),
];

/// Reads the arguments after the program's name.
///
/// # Errors
/// What is wrong with them.
pub(super) fn parse(args: &[OsString]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = args.iter().map(|arg| arg.to_string_lossy().into_owned()).peekable();
    while let Some(arg) = args.next() {
        let (name, attached) = split(&arg);
        if let Some((removed, instead)) = REMOVED.iter().find(|(removed, _)| name == *removed) {
            return Err(format!("option {removed} was removed from Falco: use {instead}"));
        }
        let mut value = || {
            let value = attached.clone().or_else(|| args.next());
            value.ok_or_else(|| format!("Option '{name}' is missing an argument"))
        };
        match name.as_str() {
            "-h" | "--help" => options.help = true,
            "-c" => options.config = Some(value()?.into()),
            "--config-schema" => options.config_schema = true,
            "--rule-schema" => options.rule_schema = true,
            "--disable-source" => options.disabled_sources.push(value()?),
            "--enable-source" => options.enabled_sources.push(value()?),
            "--dry-run" => options.dry_run = true,
            "-i" => options.ignored_events = true,
            "-L" => options.describe_all = true,
            "-l" => options.describe_rule = Some(value()?),
            "--list" => options.list = Some(attached.unwrap_or_default()),
            "--list-events" => options.list_events = true,
            "--list-plugins" => options.list_plugins = true,
            "-M" => {
                let text = value()?;
                let seconds =
                    text.parse().map_err(|_| format!("-M: '{text}' is not a number of seconds"))?;
                options.seconds = Some(seconds);
            }
            "--markdown" => options.format = ListFormat::Markdown,
            "--format" => {
                options.format = match value()?.as_str() {
                    "text" => ListFormat::Text,
                    "markdown" => ListFormat::Markdown,
                    "json" => ListFormat::Json,
                    other => {
                        return Err(format!("--format: '{other}': write text, markdown or json"));
                    }
                };
            }
            "-N" => options.names_only = true,
            "-o" | "--option" => options.overrides.push(value()?),
            "--plugin-info" => options.plugin_info = Some(value()?),
            "-p" | "--print" => options.print = Some(value()?),
            "-P" | "--pidfile" => options.pid_file = Some(value()?.into()),
            "-r" => options.rules.push(value()?),
            "--stats" => options.statistics = true,
            "--support" => options.support = true,
            "-U" | "--unbuffered" => options
                .notes
                .push("-U has no effect: alerts are written as soon as they are found".to_string()),
            "-V" | "--validate" => options.validate.push(value()?.into()),
            "-v" => options.verbose = true,
            "-w" => options.recording = Some(value()?.into()),
            "--version" => options.version = true,
            "--page-size" => options.page_size = true,
            _ => return Err(format!("Option '{arg}' does not exist")),
        }
    }
    options.check_sources()?;
    if options.print.is_some() {
        options.notes.push("-p is deprecated: use append_output in the configuration".to_string());
    }
    Ok(options)
}

impl Options {
    /// Events come from one source, which can't be switched off.
    fn check_sources(&self) -> Result<(), String> {
        let known = |names: &[String]| match names.iter().find(|name| *name != "syscall") {
            Some(name) => {
                Err(format!("Attempted to select unknown event source '{name}': there is syscall"))
            }
            None => Ok(()),
        };
        known(&self.enabled_sources)?;
        known(&self.disabled_sources)?;
        match (self.enabled_sources.is_empty(), self.disabled_sources.is_empty()) {
            (false, false) => Err("Can not mix enabling and disabling event sources".to_string()),
            (_, false) => {
                Err("Must enable at least one event source: there is syscall alone".to_string())
            }
            (_, true) => Ok(()),
        }
    }
}

/// Splits `--name=value` and `-nvalue`.
fn split(arg: &str) -> (String, Option<String>) {
    if let Some((name, value)) = arg.split_once('=').filter(|_| arg.starts_with("--")) {
        return (name.to_string(), Some(value.to_string()));
    }
    let is_short = arg.starts_with('-') && !arg.starts_with("--") && arg.len() > 2;
    match (is_short, arg.get(..2), arg.get(2..)) {
        (true, Some(name), Some(value)) => (name.to_string(), Some(value.to_string())),
        _ => (arg.to_string(), None),
    }
}

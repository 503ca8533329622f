//! The front door for people who come from Falco: its command line, its configuration, its exit codes (0 good, 1 bad).

mod options;

use crate::{existing, input_opener, standard_output};
use gabion_runtime::Signals;
use gabion_runtime::files::NamedFiles;
use gabion_sensor::falco::{
    FalcoEnd, FalcoPlan, FalcoRun, LoadedFalcoRules, NO_RULES, event_list, explain_event,
    field_list, help_text, ignored_calls, load_falco_rules, migrate_rule_file, page_size_text,
    rule_paths, support_json, validate_rule_files, version_json, version_text,
};
use gabion_settings::falco::{
    EngineKind, FalcoSettings, apply_override, configuration_schema, load_falco_configuration,
    read_falco_settings, rule_schema,
};
use options::Options;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The configuration that Falco reads when none is named.
const INSTALLED: &str = "/etc/falco/falco.yaml";

/// What plugins are: their fields are a part of the program.
const CONTAINER_PLUGIN: &str = "Name: container\nDescription: the fields of containers and pods, built in\n\
                                Contact: part of this program\nVersion: 0.7.1\nCapabilities:\n  - Field Extraction\n";

/// Runs with these arguments (without the program's name) and gives the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    match try_run(args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("Error: {error}");
            1
        }
    }
}

fn try_run(args: &[OsString]) -> Result<i32, String> {
    if args.first().is_some_and(|arg| arg == "migrate-rules") {
        return migrate(&args[1..]);
    }
    if args.first().is_some_and(|arg| arg == "why") {
        return why(&args[1..]);
    }
    let options = options::parse(args)?;
    if options.help {
        standard_output::text(help_text());
        return Ok(0);
    }
    let (settings, files) = settings_of(&options)?;
    if let Some(code) = show(&options, &settings, args) {
        return Ok(code);
    }
    for note in options.notes.iter().chain(&settings.unsupported) {
        eprintln!("Warning: {note}");
    }
    if !options.validate.is_empty() {
        return validate(&options, &settings);
    }
    let loaded = load(&options, &settings)?;
    if options.describe_all || options.describe_rule.is_some() {
        return describe(&options, &settings, &loaded);
    }
    check_places(&options, &settings, &files)?;
    let signals = Signals::install().map_err(|error| error.to_string())?;
    if let Some(path) = &options.pid_file {
        let text = format!("{}\n", std::process::id());
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(one_run(&options, (settings, files), &loaded, &signals))
}

/// Explains a rule for an event: `why RULE NUMBER CAPTURE`, then Falco's options.
fn why(args: &[OsString]) -> Result<i32, String> {
    let [rule, number, capture, rest @ ..] = args else {
        return Err(
            "why: name a rule, the number of an event and a capture, then -r and rule files"
                .to_string(),
        );
    };
    let number = number.to_str().and_then(|text| text.parse().ok());
    let number = number.ok_or("why: the second argument is the number of an event (evt.num)")?;
    let options = options::parse(rest)?;
    let (settings, _) = settings_of(&options)?;
    let loaded = load(&options, &settings)?;
    let (opener, rule) = (input_opener(), rule.to_string_lossy());
    let text = explain_event(&loaded.rules, &rule, (&opener, Path::new(capture)), number);
    standard_output::text(text.map_err(|fault| fault.to_string())?);
    Ok(0)
}

/// Rewrites rules that name enter events.
fn migrate(files: &[OsString]) -> Result<i32, String> {
    if files.is_empty() {
        return Err("migrate-rules: name rule files".to_string());
    }
    let mut is_done = true;
    for file in files {
        let path = Path::new(file);
        let fault = |error| format!("{}: {error}", path.display());
        let (report, is_whole) = migrate_rule_file(path).map_err(fault)?;
        standard_output::text(report);
        is_done &= is_whole;
    }
    Ok(if is_done { 0 } else { 1 })
}

/// The settings, and the files and folders of the configuration that they come from.
fn settings_of(options: &Options) -> Result<(FalcoSettings, Vec<PathBuf>), String> {
    let installed = Path::new(INSTALLED);
    let path = match &options.config {
        Some(path) => Some(path.as_path()),
        None => installed.is_file().then_some(installed),
    };
    let config = load_falco_configuration(path).map_err(|fault| fault.to_string())?;
    let (mut config, files) = (config.tree, config.files);
    for option in &options.overrides {
        apply_override(&mut config, option).map_err(|fault| fault.to_string())?;
    }
    let mut settings = read_falco_settings(&config).map_err(|fault| fault.to_string())?;
    if !options.rules.is_empty() {
        settings.rules_files.clone_from(&options.rules);
    }
    // Without a configuration file nobody has said where alerts go.
    if path.is_none() && config.flag("stdout_output.enabled").is_none() && !settings.writes_alerts()
    {
        settings.to_stdout = true;
    }
    if let Some(text) = &options.print {
        settings.add_output(text);
    }
    Ok((settings, files))
}

/// Options that print something and end.
fn show(options: &Options, settings: &FalcoSettings, args: &[OsString]) -> Option<i32> {
    let text = if options.version {
        if settings.is_json { version_json() + "\n" } else { version_text() }
    } else if options.page_size {
        page_size_text()
    } else if options.support {
        let line: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        support_json(settings, &line.join(" ")) + "\n"
    } else if options.ignored_events {
        ignored_calls()
    } else if options.list.is_some() {
        field_list(options.format, options.names_only)
    } else if options.list_events {
        event_list(options.format)
    } else if options.list_plugins {
        format!("1 Plugins Loaded:\n\n{CONTAINER_PLUGIN}\n")
    } else if let Some(name) = &options.plugin_info {
        if name != "container" {
            eprintln!(
                "Error: no plugin named {name}: plugins are not loaded; the fields of container are built in"
            );
            return Some(1);
        }
        CONTAINER_PLUGIN.to_string()
    } else if options.config_schema {
        configuration_schema()
    } else if options.rule_schema {
        rule_schema()
    } else {
        return None;
    };
    standard_output::text(text);
    Some(0)
}

fn validate(options: &Options, settings: &FalcoSettings) -> Result<i32, String> {
    let loaded = validate_rule_files(&options.validate).map_err(unreadable)?;
    standard_output::text(loaded.report(settings.is_json, options.verbose));
    Ok(if loaded.is_successful() { 0 } else { 1 })
}

fn unreadable((path, error): (PathBuf, std::io::Error)) -> String {
    format!("{}: {error}", path.display())
}

/// Loads the rules, with a line for each file that is wrong or has warnings.
fn load(options: &Options, settings: &FalcoSettings) -> Result<LoadedFalcoRules, String> {
    if settings.rules_files.is_empty() {
        return Err(NO_RULES.to_string());
    }
    let paths = rule_paths(&settings.rules_files).map_err(unreadable)?;
    if paths.is_empty() {
        return Err(NO_RULES.to_string());
    }
    let loaded = load_falco_rules(&paths, settings).map_err(unreadable)?;
    if let Some(fault) = loaded.fault() {
        return Err(fault);
    }
    for line in loaded.warnings(options.verbose) {
        log(settings, &line);
    }
    Ok(loaded)
}

fn describe(
    options: &Options,
    settings: &FalcoSettings,
    loaded: &LoadedFalcoRules,
) -> Result<i32, String> {
    let name = options.describe_rule.as_deref();
    let text = loaded.describe(name, settings.is_json);
    standard_output::line(
        text.ok_or_else(|| format!("no rule named {}", name.unwrap_or_default()))?,
    );
    Ok(0)
}

/// Refuses outputs that would destroy what the run reads, or one another.
fn check_places(
    options: &Options,
    settings: &FalcoSettings,
    files: &[PathBuf],
) -> Result<(), String> {
    let mut named = NamedFiles::default();
    if let EngineKind::Replay(capture) = &settings.engine {
        named.keep("is read by this run", [capture]);
    }
    named.keep("is read by this run", files_of(files.to_vec(), settings));
    let alerts = settings.file.iter().map(|file| &file.path);
    existing::refuse_destroyers(named, alerts.chain(&options.recording).chain(&options.pid_file))
}

fn one_run(
    options: &Options,
    (settings, files): (FalcoSettings, Vec<PathBuf>),
    loaded: &LoadedFalcoRules,
    signals: &Signals,
) -> i32 {
    let logs = settings.log_to_stderr;
    log(&settings, &format!("Loaded {} rules", loaded.rules.enabled()));
    if options.dry_run {
        return 0;
    }
    let hostname = std::env::var("FALCO_HOSTNAME")
        .unwrap_or_else(|_| rustix::system::uname().nodename().to_string_lossy().into_owned());
    let files = files_of(files, &settings);
    let has_events = settings.engine != EngineKind::None;
    // A file that has become wrong leaves the rules as they are.
    let mut reload = || {
        let loaded = settings_of(options).and_then(|new| Ok((load(options, &new.0)?, new)));
        match loaded {
            Ok((loaded, (settings, files))) => {
                log(&settings, &format!("Loaded {} rules", loaded.rules.enabled()));
                let files = files_of(files, &settings);
                Some((FalcoPlan { settings, rules: loaded.rules }, files))
            }
            Err(error) => {
                if logs {
                    eprintln!("the new files are not used: {error}");
                }
                None
            }
        }
    };
    let run = FalcoRun {
        opener: &input_opener(),
        listen: &|address, port| TcpListener::bind((address, port)),
        plan: Arc::new(FalcoPlan { settings, rules: Arc::clone(&loaded.rules) }),
        files,
        hostname,
        seconds: options.seconds,
        recording: options.recording.clone(),
        wants_statistics: options.statistics,
        container_stand_in: false,
        signals,
        reload: &mut reload,
        log: &|line| {
            if logs {
                eprintln!("{line}");
            }
        },
    };
    let done = run.run();
    for line in done.faults.iter().chain(&done.notes) {
        eprintln!("Warning: {line}");
    }
    if let Some(account) = done.account.as_ref().filter(|_| logs) {
        eprintln!("{account}");
    }
    match &done.end {
        FalcoEnd::Failed(why) => {
            // A run that never began has nothing to count.
            if done.events > 0 {
                standard_output::text(&done.statistics);
            }
            eprint_text(&done.drops);
            eprintln!("Error: {why}");
            1
        }
        FalcoEnd::Done => {
            if has_events || done.events > 0 {
                standard_output::text(&done.statistics);
            }
            standard_output::text(&done.live_statistics);
            eprint_text(&done.drops);
            // Alerts that nobody has are no success, whatever else was written.
            i32::from(!done.faults.is_empty())
        }
    }
}

/// The files that a run is made from: those of the configuration, files of rules, and the folders that hold them.
fn files_of(mut files: Vec<PathBuf>, settings: &FalcoSettings) -> Vec<PathBuf> {
    let named = settings.rules_files.iter().map(PathBuf::from);
    files.extend(named.filter(|path| path.is_dir()));
    files.extend(rule_paths(&settings.rules_files).unwrap_or_default());
    files
}

fn eprint_text(text: &str) {
    if !text.is_empty() {
        eprintln!("{}", text.trim_end());
    }
}

/// A line of the program's log.
fn log(settings: &FalcoSettings, line: &str) {
    if settings.log_to_stderr {
        eprintln!("{line}");
    }
}

//! The front door for people who come from Suricata: its command line, its configuration, its exit
//! codes (0 good, 1 bad), but an empty capture is a success.

mod background;
mod options;
mod show;

use crate::exit::Fault;
use crate::limits::FILTER_BYTES_MAX;
use crate::{direct_opener, existing, input_opener, operator_file, standard_output};
use gabion_capture::filter::Filter;
use gabion_outputs::{Outputs, kinds};
use gabion_record::Tree;
use gabion_record::ledger::ShedReason;
use gabion_reports::{write_rule_costs, wrong_checksums_line};
use gabion_runtime::daemon::pid_file::PidFile;
use gabion_runtime::files::NamedFiles;
use gabion_runtime::{Signals, StopFlag};
use gabion_sensor::commands::{CommandContext, serve_configured};
use gabion_sensor::packets::{
    Arrivals, Incident, Input, InputDone, LoadRequest, LoadedEngine, PacketLogCounts,
    PacketMetrics, PacketRun, RuleLoader, RunHandles, RunningEngine, Unwritten, Watch,
};
use gabion_settings::yaml::{include_yaml_file, read_yaml_file, set_eve_versions};
use gabion_settings::{
    ConsoleLine, EngineLog, EngineMode, InterfaceSettings, Messages, RuleRequest, WorkerPlan,
    build_engine, built_in_configuration, check_configuration, check_outputs, check_rule_variables,
    find_run_as, load_output_scripts, load_rules, plan_workers, script_setup, unknown_keys_line,
    write_rule_analysis, write_rule_groups,
};
use options::{Options, Show};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Runs with these arguments (without the program's name) and gives the exit code.
pub(crate) fn run(args: &[OsString]) -> i32 {
    let options = match options::parse(args) {
        Ok(o) => o,
        Err(e) => {
            eprintln!("gabion: suricata: {e}");
            return 1;
        }
    };
    match &options.show {
        Some(Show::DumpConfig) | None => {}
        Some(what) => return show::show(what),
    }
    if options.daemon && !options.test {
        return background::start().unwrap_or_else(|e| {
            eprintln!("E: suricata: {e}");
            1
        });
    }
    if background::is_there() {
        background::leave_session();
    }
    let config = match configuration(&options) {
        Ok(c) => c,
        Err(e) => {
            eprintln!("E: conf-yaml-loader: {e}");
            return 1;
        }
    };
    if options.show == Some(Show::DumpConfig) {
        show::dump_config(&config);
        return 0;
    }
    // Before anything is written and before threads are started.
    if let Err(e) = run_as(&options, &config) {
        eprintln!("E: privs: {e}");
        return 1;
    }
    let (folder, source) = folder(&options, &config);
    if (!options.test || options.log_dir.is_some())
        && let Err(e) = check_folder(&folder, source)
    {
        // Unknown options are reported too, though no log can be opened.
        for name in &options.unknown {
            standard_output::line(format_args!("W: suricata: {}", unknown(name)));
        }
        eprintln!("E: suricata: {e}");
        return 1;
    }
    let mut log =
        EngineLog::open(direct_opener(), &config, &folder, options.verbose, |line| match line {
            ConsoleLine::Output(line) => standard_output::line(line),
            ConsoleLine::Error(line) => eprintln!("{line}"),
        });
    with_config(&options, &config, &folder, &mut log)
}

/// The warning about an option that is not supported.
fn unknown(name: &str) -> String {
    let near = match gabion_record::near::nearest(name, options::KNOWN.iter().copied()) {
        Some(near) => format!(": did you mean {near}?"),
        None => String::new(),
    };
    format!("option {name} is not known here and has no effect{near}")
}

/// The configuration that Suricata reads when none is named.
const INSTALLED: &str = "/etc/suricata/suricata.yaml";

/// The configuration named, else the installed one, else the built-in one.
fn configuration(o: &Options) -> Result<Tree, gabion_settings::Error> {
    let installed = Path::new(INSTALLED);
    let mut warn = |said: &str| eprintln!("W: conf-yaml-loader: {said}");
    let mut config = match &o.config {
        Some(path) => read_yaml_file(path, &mut warn)?,
        None if installed.is_file() => read_yaml_file(installed, &mut warn)?,
        None => built_in_configuration(),
    };
    for path in &o.includes {
        include_yaml_file(&mut config, Path::new(path))?;
    }
    for (k, v) in &o.sets {
        config.set(k, v);
    }
    for (asked, key) in [
        (o.recursive, "pcap-file.recursive"),
        (o.continuous, "pcap-file.continuous"),
        (o.delete, "pcap-file.delete-when-done"),
    ] {
        if asked {
            config.set(key, "yes");
        }
    }
    set_eve_versions(&mut config, &|name| std::env::var(name).ok());
    Ok(config)
}

/// Goes over to the user that the command line or the configuration names.
fn run_as(o: &Options, config: &Tree) -> Result<(), String> {
    let (user, group) = (o.user.as_deref(), o.group.as_deref());
    let found = find_run_as(config, user, group).map_err(|e| e.to_string())?;
    found.begin(o.configured_interfaces || !o.interfaces.is_empty()).map_err(|e| e.to_string())
}

/// The folder of the outputs, and what named it.
fn folder(o: &Options, config: &Tree) -> (PathBuf, &'static str) {
    match (&o.log_dir, config.text("default-log-dir")) {
        (Some(dir), _) => (dir.into(), " supplied at the command-line (-l)"),
        (None, Some(dir)) => (dir.into(), " supplied by the configuration (default-log-dir)"),
        (None, None) => ("/var/log/suricata".into(), ""),
    }
}

fn check_folder(folder: &Path, source: &str) -> Result<(), String> {
    if folder.is_dir() {
        return Ok(());
    }
    let folder = folder.display();
    Err(format!(
        "The logging directory \"{folder}\"{source} doesn't exist. Shutting down the engine."
    ))
}

fn with_config(o: &Options, config: &Tree, folder: &Path, log: &mut EngineLog) -> i32 {
    for name in &o.unknown {
        log.warning("suricata", &unknown(name));
    }
    if let Some(said) = unknown_keys_line(config) {
        log.warning("conf", &said);
    }
    let firewall = match firewall_mode(o, config) {
        Ok(on) => on,
        Err(e) => {
            log.error("suricata", &e);
            return 1;
        }
    };
    let is_strict = o.test || o.init_errors_fatal;
    let file = o.config.as_deref().unwrap_or(Path::new("the configuration"));
    let mut report = |severity, module: &str, text: &str| log.report(severity, module, text);
    let mut messages = Messages::new(&mut report);
    let inline = o.simulate_ips || firewall;
    if !check_configuration(config, inline, &mut messages)
        || !check_rule_variables(config, &file.display().to_string(), &mut messages)
        || !check_outputs(config, is_strict, &mut messages)
    {
        return 1;
    }
    let catalog = gabion_proto::registry::catalog();
    let mut scripts = script_setup(config, log.voice());
    let mut report = |severity, module: &str, text: &str| log.report(severity, module, text);
    let mut messages = Messages::new(&mut report);
    let mut loaded = if o.no_detection {
        None
    } else {
        let request = rule_request(o, firewall);
        match load_rules(config, &request, &catalog, &scripts, None, &mut messages) {
            Some(loaded) => Some(loaded),
            None => return 1,
        }
    };
    if let Some(l) = &loaded {
        write_rule_groups(&l.set, &catalog, config, folder, &mut messages);
    }
    if o.engine_analysis {
        let is_written = loaded
            .as_ref()
            .is_none_or(|l| write_rule_analysis(l, &catalog, config, folder, &mut messages));
        return i32::from(!is_written);
    }
    let logged: Arc<PacketLogCounts> = Arc::default();
    let outputs = if o.test {
        Ok(None)
    } else {
        let open = || logged.open_outputs(&direct_opener(), config, folder, None);
        check_places(o, config, folder).and_then(|()| open().map(Some).map_err(|e| e.to_string()))
    };
    let mut outputs = match outputs {
        Ok(out) => out,
        Err(e) => {
            log.error("output", &e);
            return 1;
        }
    };
    let mut wants = outputs.as_ref().map(Outputs::wants).unwrap_or_default();
    if !o.test {
        scripts = load_output_scripts(scripts, config, folder);
    }
    wants.join(gabion_net::script::OutputScripts::records(&scripts.outputs));
    log.report_file_store(config, loaded.as_ref().map(|l| &l.set));
    let mode = EngineMode {
        inline,
        firewall,
        checksums: o.checksums,
        // Metrics show what rules cost, of one packet in 64.
        profile: o.profile_rules.then_some(true).or(o.metrics.map(|_| false)),
        simulate: o.simulate,
    };
    let counts = loaded.as_ref().map(|l| l.counts).unwrap_or_default();
    let failed = loaded.as_mut().map(|l| std::mem::take(&mut l.failed)).unwrap_or_default();
    let engine = match build_engine(
        config,
        (loaded.map(|l| (l.set, l.datasets)), None),
        catalog,
        wants,
        mode,
        scripts,
    ) {
        Ok(engine) => RunningEngine::begin(LoadedEngine { engine, counts, failed }),
        Err(e) => {
            log.error("conf", &e.to_string());
            return 1;
        }
    };
    let named = match named_filter(o) {
        Ok(named) => named,
        Err(e) => {
            log.error("pcap", &e);
            return 1;
        }
    };
    let (names, named) = (&o.interfaces, named.as_deref());
    let live = InterfaceSettings::select(config, names, o.configured_interfaces, named);
    // A wrong filter is found before an interface is opened.
    let wanted = named.or(config.text("bpf-filter"));
    let compiled = wanted.map(Filter::compile).transpose();
    let (live, filter) = match (live, compiled) {
        (Ok(live), Ok(filter)) => (live, filter),
        (Err(e), _) => {
            log.error("af-packet", &e.to_string());
            return 1;
        }
        (_, Err(e)) => {
            log.error("pcap", &format!("bpf compilation error: {e}"));
            return 1;
        }
    };
    // Interfaces have theirs in their settings.
    let filter = filter.filter(|_| live.is_empty());
    if o.test {
        log.notice("suricata", "Configuration provided was successfully loaded. Exiting.");
        return 0;
    }
    let Some(outputs) = outputs.as_mut() else { return 0 };
    let pid_file = match o.pid_file.as_deref().map(|p| PidFile::create(Path::new(p))) {
        Some(Err(e)) => {
            log.error("pidfile", &e.to_string());
            return 1;
        }
        Some(Ok(file)) => {
            if let Some(note) = &file.note {
                log.warning("pidfile", note);
            }
            Some(file)
        }
        None => None,
    };
    if background::is_there()
        && let Err(e) = background::ready(config.text("daemon-directory"))
    {
        log.error("suricata", &e);
        return 1;
    }
    let whole = o.clone().with_absolute_paths();
    let again = RuleLoader {
        request: rule_request(&whole, firewall),
        configuration: Box::new(move || configuration(&whole)),
        wants,
        mode,
        log: log.clone(),
    };
    let run =
        RunOf { engine: &engine, again, config, folder, logged: &logged, filter, live: &live };
    let code = captures(o, run, outputs, log);
    drop(pid_file);
    code
}

/// Refuses outputs that would destroy what the run reads.
fn check_places(o: &Options, config: &Tree, folder: &Path) -> Result<(), String> {
    let mut named = NamedFiles::default();
    let is_deep = config.flag("pcap-file.recursive").unwrap_or(false);
    // A file of a folder is read where its name promises a capture; a log of an earlier run may lie next to it.
    let listed = Input::list_captures(&o.captures, is_deep).unwrap_or_default().into_iter();
    let captures = listed.map(|input| input.path).filter(|path| Input::has_capture_name(path));
    let files = o.captures.iter().chain(&o.config).chain(&o.rules_only).chain(&o.rules_also);
    named.keep("is read by this run", captures.chain(files.cloned()));
    // Two outputs of the configuration may add to one file.
    let outputs: BTreeSet<PathBuf> =
        kinds::configured_file_paths(config, folder).into_iter().collect();
    existing::refuse_destroyers(named, &outputs)
}

/// The rules that the command line asks for.
fn rule_request(o: &Options, is_firewall: bool) -> RuleRequest {
    RuleRequest {
        only: o.rules_only.clone(),
        also: o.rules_also.clone(),
        firewall_only: o.firewall_rules.clone(),
        is_firewall,
        is_strict: o.init_errors_fatal,
        is_test: o.test,
        strict_keywords: o.strict_keywords.clone(),
        selection: o.selection.clone(),
        is_verbose: o.verbose > 0,
        ..RuleRequest::default()
    }
}

/// Whether firewall mode is on: by the command line or the configuration.
fn firewall_mode(o: &Options, config: &Tree) -> Result<bool, String> {
    let asked = o.firewall || o.firewall_rules.is_some();
    let exclusive = o.rules_only.is_some() || o.firewall_rules.is_some();
    if o.no_detection && exclusive {
        let said = "can't use -s/-S or --firewall-rules-exclusive when detection is disabled";
        return Err(said.to_string());
    }
    match config.flag("firewall.enabled") {
        Some(false) if asked => {
            Err("firewall mode enabled through commandline, but disabled in config".to_string())
        }
        configured => Ok(asked || configured == Some(true)),
    }
}

/// What a run over captures works with.
struct RunOf<'a> {
    engine: &'a Arc<RunningEngine>,
    again: RuleLoader,
    config: &'a Tree,
    folder: &'a Path,
    logged: &'a Arc<PacketLogCounts>,
    filter: Option<Filter>,
    live: &'a [InterfaceSettings],
}

/// The capture filter of the command line: words that are no options, or a file.
fn named_filter(o: &Options) -> Result<Option<String>, String> {
    match (o.filter.is_empty(), &o.filter_file) {
        (false, Some(_)) => Err("BPF filter given twice: in words and by -F".to_string()),
        (false, None) => Ok(Some(o.filter.join(" "))),
        (true, Some(path)) => filter_file(Path::new(path)).map(Some),
        (true, None) => Ok(None),
    }
}

/// A filter in a file, where what follows `#` in a line is a remark.
fn filter_file(path: &Path) -> Result<String, String> {
    let fault = |e: String| format!("Failed to open BPF file {}: {e}", path.display());
    let text = operator_file::text(path, FILTER_BYTES_MAX).map_err(|e| fault(e.to_string()))?;
    let lines = text.lines().map(|l| l.split('#').next().unwrap_or(l).trim());
    Ok(lines.filter(|l| !l.is_empty()).collect::<Vec<_>>().join(" "))
}

/// Writes incidents of workers and requests from outside into the engine's log.
struct Spoken<'a> {
    log: &'a mut EngineLog,
    /// Interfaces whose frames are awaited.
    awaited: Vec<String>,
}

impl Watch for Spoken<'_> {
    fn position(&mut self, _: usize, _: u64, _: Option<u64>) {
        for name in self.awaited.drain(..) {
            self.log.notice("af-packet", &format!("{name}: engine started"));
        }
    }

    fn note(&mut self, note: &str) {
        self.log.warning("af-packet", note);
    }

    fn incident(&mut self, incident: &Incident) {
        if incident.kind.is_loss() {
            self.log.error("threads", &incident.line())
        } else {
            self.log.warning("threads", &incident.line())
        }
    }

    fn reopen(&mut self) {
        self.log.reopen();
    }

    fn reload(&mut self, request: Option<LoadRequest>) {
        match request.map(LoadRequest::note) {
            Some(note) => note.into_iter().for_each(|said| self.log.notice("detect", said)),
            None => self.log.warning("detect", Incident::NOT_RELOADED),
        }
    }
}

/// How many workers there are; a reason against several is logged.
fn plan(
    o: &Options,
    config: &Tree,
    (engine, live): (&gabion_net::Engine, &[InterfaceSettings]),
    log: &mut EngineLog,
) -> Result<WorkerPlan, gabion_settings::Error> {
    let mut plan = plan_workers(o.runmode.as_deref(), config)?;
    let is_single = o.runmode.as_deref().or_else(|| config.text("runmode")) == Some("single");
    if let (Some(threads), false) = (InterfaceSettings::threads_of(live), is_single) {
        plan.workers = threads;
    }
    if let (Some(why), true) = (PacketRun::needs_one_worker(engine), plan.workers > 1) {
        log.warning("threads", &format!("{why}: one worker is used"));
        plan.workers = 1;
    }
    Ok(plan)
}

/// Logs what is wrong with a capture; false when the run failed for it.
fn log_input(input: &InputDone, log: &mut EngineLog) -> bool {
    let shown = input.path.display();
    for note in &input.notes {
        log.warning("pcap", &format!("{shown}: {note}"));
    }
    let Some(e) = &input.error else { return true };
    log.error("pcap", &format!("{shown}: {e}: {}", input.advice));
    // What else lies in a folder is passed over.
    if !input.is_named {
        log.warning("pcap", &format!("Failed to init pcap file {shown}, skipping"));
    }
    !input.is_named
}

/// Whether captures that were read are deleted.
fn is_deleting(config: &Tree) -> bool {
    config.flag("pcap-file.delete-when-done").unwrap_or(false)
}

/// Deletes a capture that was read to its end.
fn delete(input: &InputDone, log: &mut EngineLog) {
    if input.error.is_some() || input.path.as_os_str() == "-" {
        return;
    }
    if let Err(e) = std::fs::remove_file(&input.path) {
        log.warning("pcap", &format!("Failed to delete {}: {e}", input.path.display()));
    }
}

/// How long a capture must not have changed, and the time between two looks, in seconds, unless
/// configured: Suricata's defaults.
const ARRIVAL_DELAY: u64 = 30;
const ARRIVAL_INTERVAL: u64 = 5;
/// A folder is not looked into all the time.
const ARRIVAL_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// The folder that is looked into again and again, if that is asked for.
fn arrivals(o: &Options, config: &Tree, log: &EngineLog) -> Result<Option<Arrivals>, String> {
    if config.flag("pcap-file.continuous") != Some(true) {
        return Ok(None);
    }
    let folder = match o.captures.as_slice() {
        [one] if Path::new(one).is_dir() => PathBuf::from(one),
        // As in Suricata, captures that are named are read once.
        [_] => return Ok(None),
        _ => return Err("--pcap-file-continuous takes one folder (-r FOLDER)".to_string()),
    };
    let seconds = |key: &str, usual| Duration::from_secs(config.number(key).unwrap_or(usual));
    let (is_deleting, log) = (is_deleting(config), log.clone());
    Ok(Some(Arrivals {
        folder,
        recursive: config.flag("pcap-file.recursive").unwrap_or(false),
        every: seconds("pcap-file.poll-interval", ARRIVAL_INTERVAL).max(ARRIVAL_INTERVAL_MIN),
        delay: seconds("pcap-file.delay", ARRIVAL_DELAY),
        on_read: Arc::new(move |input| {
            let mut log = log.clone();
            log_input(input, &mut log);
            if is_deleting {
                delete(input, &mut log);
            }
        }),
    }))
}

fn captures(o: &Options, of: RunOf<'_>, outputs: &mut Outputs, log: &mut EngineLog) -> i32 {
    let RunOf { engine, again, config, folder, logged, filter, live } = of;
    let is_live = o.configured_interfaces || !o.interfaces.is_empty();
    if is_live && !o.captures.is_empty() {
        log.error(
            "suricata",
            "captures and interfaces are named: give -r FILE or --af-packet=INTERFACE",
        );
        return 1;
    }
    if o.captures.is_empty() && live.is_empty() {
        let said = if is_live {
            "af-packet names no interface: name one with --af-packet=INTERFACE"
        } else {
            "no capture is named: give one with -r FILE, or --af-packet=INTERFACE"
        };
        log.error("suricata", said);
        return 1;
    }
    let arrivals = match arrivals(o, config, log) {
        Ok(arrivals) => arrivals,
        Err(e) => {
            log.error("pcap", &e);
            return 1;
        }
    };
    // What lies in a folder that is looked into comes by itself.
    let is_deep = config.flag("pcap-file.recursive").unwrap_or(false);
    let named = if arrivals.is_some() { &[][..] } else { &o.captures };
    let listed = Input::list_captures(named, is_deep);
    let inputs = match listed {
        Ok(mut list) => {
            list.extend(Input::interfaces(live));
            list
        }
        Err(e) => {
            log.error("pcap", &format!("failed to get first packet timestamp: {e}"));
            return 1;
        }
    };
    let plan = match plan(o, config, (&engine.now(), live), log) {
        Ok(plan) => plan,
        Err(e) => {
            log.error("runmodes", &e.to_string());
            return 1;
        }
    };
    let socket = o.metrics.map(gabion_intake::bind_metrics).transpose().map_err(|e| e.to_string());
    let opened = socket
        .and_then(|socket| socket.map(PacketMetrics::open).transpose().map_err(|e| e.to_string()));
    let metrics = match opened {
        Ok(metrics) => metrics,
        Err(e) => {
            log.error("metrics", &e);
            return 1;
        }
    };
    // Without signals the run can be ended, only not so gently.
    let signals = Signals::install().ok();
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let budget = gabion_runtime::memory::process_budget(None);
    let mut run = PacketRun::new(engine, &budget, &stop, input_opener());
    let reloads = again.into_reloads(engine, plan.workers);
    let handles = RunHandles::new(engine, plan.workers, Some(reloads), &budget);
    run.attach(&handles);
    let context = signals.as_ref().map(|signals| CommandContext {
        config: Arc::new(config.clone()),
        handles: handles.clone(),
        signals: signals.clone(),
        is_live,
        running_mode: o.runmode.clone().or_else(|| config.text("runmode").map(str::to_owned)),
        started: gabion_runtime::clock::now(),
    });
    let serve = |context| serve_configured(context, o.init_errors_fatal, log);
    let Ok(server) = context.map(serve).transpose() else { return 1 };
    let metrics = metrics.map(|metrics| metrics.begin(handles)).transpose();
    let metrics = match metrics {
        Ok(metrics) => metrics,
        Err(e) => {
            log.error("metrics", &e.to_string());
            return 1;
        }
    };
    run.metrics = metrics.as_ref().map(PacketMetrics::registry);
    run.plan = plan;
    run.filter = filter.map(Arc::new);
    run.arrivals = arrivals;
    run.signals = signals;
    run.logged = Some(Arc::clone(logged));
    run.lost_code = 1;
    if !live.is_empty() {
        outputs.never_wait();
    }
    run.stats_every = (!live.is_empty()).then(|| InterfaceSettings::statistics_interval(config));
    let awaited = live.iter().map(|interface| interface.name.clone()).collect();
    let mut done = match run.read_inputs(&inputs, outputs, &mut Spoken { log, awaited }) {
        Ok(done) => done,
        Err(e) => {
            log.error("threads", &format!("threads cannot be started: {e}"));
            return 1;
        }
    };
    drop((server, metrics));
    let engine = &engine.now();
    let mut code = i32::from(done.has_lost_threads());
    for input in &done.inputs {
        code |= i32::from(!log_input(input, log));
    }
    if done.is_stopped {
        log.notice("suricata", "Signal Received.  Stopping engine.");
    } else if is_deleting(config) && !done.has_lost_threads() {
        done.inputs.iter().for_each(|input| delete(input, log));
    }
    if o.profile_rules
        && let Err(e) = write_rule_costs(&done.costs, engine, folder)
    {
        log.error("profiling", &e.to_string());
        code = 1;
    }
    for e in done.finish(outputs, engine, config, logged) {
        let is_dataset = matches!(e, Unwritten::Dataset { .. });
        log.error(if is_dataset { "datasets" } else { "output" }, &e.to_string());
        code |= i32::from(!is_dataset);
    }
    for (path, ledger) in outputs.files() {
        // A receiver that was too slow, also where it has caught up.
        if ledger.shed_for(ShedReason::RingFull).items > 0 {
            log.warning("output", &format!("{}: {ledger}", path.display()));
        }
    }
    if let Some(said) = wrong_checksums_line(&done, "-k none or pcap-file.checksum-checks: no") {
        log.warning("pcap", &said);
    }
    if let Err(fault) = done.check_balance() {
        log.error("ledger", &Fault::from(fault).to_string());
        code = 1;
    }
    let c = &done.counters;
    let said = format!("read {} packets, {} bytes; {} alerts", c.packets, c.bytes, c.alerts);
    log.notice("suricata", &format!("{said}; ledger: {}", done.ledger_in_short()));
    code
}

//! `gabion read`: captures in, findings and the ledger out.

use super::with_rules::{self, EngineUse};
use crate::behavior::{self, NetworkReport, Started};
use crate::command_line::ReadOptions;
use crate::exit::{Exit, Fault};
use crate::listen::by_kind;
use crate::log::seal_findings::SealedFindings;
use crate::progress::Progress;
use crate::{
    configuration, direct_opener, existing, input_opener, standard_error, standard_output, terminal,
};
use gabion_capture::filter::Filter;
use gabion_net::Engine;
use gabion_outputs::kinds::configured_file_paths;
use gabion_outputs::packet_log::PacketLogSettings;
use gabion_outputs::table::thousands;
use gabion_outputs::{EventCounts, Outputs};
use gabion_record::Tree;
use gabion_reports::{LoadDetail, PacketReport, RUN_FILE, packet_page, write_rule_costs};
use gabion_runtime::clock;
use gabion_runtime::output::Existing;
use gabion_runtime::{Signals, StopFlag};
use gabion_sensor::commands::{CommandContext, CommandServer, serve_configured};
use gabion_sensor::flows::{AddressBook, FlowInputs};
use gabion_sensor::packets::{
    Incident, Input, InputOpener, LoadRequest, PacketLogCounts, PacketMetrics, PacketRun,
    PacketsDone, RunHandles, Watch,
};
use gabion_settings::{InterfaceSettings, WorkerPlan, check_eve_options, check_settings};
use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;

/// Reads folders of logs of flows as what they are, as if `--behavior` had been given: they hold no capture.
pub(crate) fn take_as_what_it_is(o: &mut ReadOptions) {
    if !o.behavior && FlowInputs::are_logs(&direct_opener(), &o.inputs) {
        o.behavior = true;
        if !o.quiet {
            let paths: Vec<String> = o.inputs.iter().map(|p| p.display().to_string()).collect();
            let paths = paths.join(", ");
            eprintln!("gabion: {paths}: logs of flows and no captures: read as with --behavior");
        }
    }
}

/// Runs the verb.
pub(crate) fn run(o: &ReadOptions) -> Result<Exit, Fault> {
    if o.fail_on.is_some() && o.engine.rules.is_empty() && !o.behavior {
        let said = "nothing can alert without rules: add --rules FILE, or --behavior to find what hosts do";
        return Err(Fault::usage(format!("--fail-on: {said}")));
    }
    if !o.interfaces.is_empty() {
        return run_captures(o, input_opener(), None);
    }
    if super::read_scap::are_inputs(o)? {
        return super::read_scap::read_scap_files(o, &input_opener(), None);
    }
    if o.behavior {
        return match behavior::run(o)? {
            Started::Flows(exit) => Ok(exit),
            Started::Captures(opener, signals) => run_captures(o, opener, signals),
        };
    }
    let Some(pipe) = super::read_scap::unnamed_pipe(o) else {
        return run_captures(o, input_opener(), None);
    };
    let signals = Signals::preparing().ok();
    // Its reader reports what can't be opened. Without rules little is left to prepare: signals stay taken over.
    let opener = InputOpener::look_into(direct_opener(), pipe, signals.as_ref());
    let opener = opener.map_or_else(|_| input_opener(), Arc::new);
    if opener.is_scap() {
        return super::read_scap::read_scap_files(o, &opener, signals);
    }
    run_captures(o, opener, signals)
}

/// Reads captures; with `--behavior` what they hold goes to the behaviour engine too. `opener` may hold a pipe
/// that was looked into; `signals`: where they are taken over already.
fn run_captures(
    o: &ReadOptions,
    opener: Arc<InputOpener>,
    signals: Option<Signals>,
) -> Result<Exit, Fault> {
    let started = clock::now();
    // Without signals the run can be ended, only not so gently.
    let signals = signals.or_else(|| Signals::preparing().ok());
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let config = configuration::load(o.engine.config.as_deref(), &o.engine.sets)?;
    let mut say = |said: &str| {
        if !o.quiet {
            eprintln!("gabion: configuration: {said}");
        }
    };
    check_settings(&config, &mut say)
        .map_err(|e| Fault::input(format!("configuration: {e}: fix it")))?;
    let mut say = |_, said: &str| say(said);
    if let Err(fatal) = check_eve_options(&config, &mut say) {
        let said = fatal.iter().find(|(m, _)| m.starts_with("output")).map_or("", |(_, said)| said);
        return Err(Fault::input(format!("configuration: {said}: fix it")));
    }
    let live = InterfaceSettings::select(&config, &o.interfaces, false, o.filter.as_deref())
        .map_err(|e| Fault::input(&e))?;
    let inputs = match Input::interfaces(&live) {
        Some(all) => vec![all],
        None => Input::list(&o.inputs)?,
    };
    let logged: Arc<PacketLogCounts> = Arc::default();
    let existing = existing(o, &config)?;
    let mut known = AddressBook::default();
    if let Some(path) = &o.report {
        existing::check_report(path)?;
        if !o.behavior {
            known = AddressBook::from_config(&config)?;
        }
    }
    let mut outputs = open(&config, o, existing, &logged)?;
    let sealed = o.seal.as_deref().map(SealedFindings::open).transpose()?;
    if let Some(sealed) = &sealed {
        sealed.log.seal_alerts(&mut outputs);
    }
    if inputs.len() > 1 {
        // An analyst needs to know from which capture an alert came.
        outputs.name_captures();
    }
    let filter = if live.is_empty() { capture_filter(o, &config)? } else { None };
    if !o.quiet && !outputs.unsupported().is_empty() {
        let names = outputs.unsupported().join(", ");
        eprintln!("gabion: outputs: not supported, nothing is written for them: {names}");
    }
    let attach = || behavior::attach(o, &mut outputs, existing, sealed.as_ref());
    let tap = o.behavior.then(attach).transpose()?;
    let socket = o.metrics.map(gabion_intake::bind_metrics).transpose().map_err(|e| by_kind(&e))?;
    let metrics = socket.map(PacketMetrics::open).transpose()?;
    let for_use = EngineUse {
        wants: outputs.wants(),
        detail: LoadDetail::from_flags(o.quiet, o.verbose),
        // One packet in 64 is timed anyway.
        profile: Some(o.profile_rules),
        log_dir: o.log_dir.as_deref(),
    };
    let running = with_rules::engine(&o.engine, &config, for_use)?;
    let engine = running.now();
    let loaded = started.elapsed();
    let budget = gabion_runtime::memory::process_budget(o.budget.map(|b| b.0));
    let mut run = PacketRun::new(&running, &budget, &stop, opener);
    run.filter = filter.map(Arc::new);
    run.signals = signals;
    run.logged = Some(Arc::clone(&logged));
    run.plan = plan(&engine, o, InterfaceSettings::threads_of(&live));
    if !live.is_empty() {
        // A receiver that is slow must not hold the rings up.
        outputs.never_wait();
    }
    run.stats_every = (!live.is_empty()).then(|| InterfaceSettings::statistics_interval(&config));
    let workers = run.plan.workers;
    let how = (Some(o.profile_rules), o.quiet);
    let reloads = with_rules::reloads(&o.engine, outputs.wants(), how, (&running, workers));
    let handles = RunHandles::new(&running, workers, reloads, &budget);
    run.attach(&handles);
    run.metrics = metrics.as_ref().map(PacketMetrics::registry);
    let metrics = metrics.map(|metrics| metrics.begin(handles.clone())).transpose()?;
    let commands = if live.is_empty() { None } else { serve_commands(&run, o, &config, handles) };
    if let Some(signals) = &run.signals {
        signals.begin();
    }
    let mut done = read_inputs(&run, o, &inputs, &mut outputs)?;
    drop((commands, metrics));
    // The last one that was loaded.
    let engine = running.now();
    let mut exit = say_inputs(&done, o);
    for e in done.finish(&mut outputs, &engine, &config, &logged) {
        eprintln!("{}", Fault::environment(&e));
        exit = exit.max(Exit::Environment);
    }
    if outputs.wants().wire {
        say_packet_log(&outputs.sum(), &logged, o);
    }
    if let (true, Some(folder)) = (o.profile_rules, &o.log_dir)
        && let Err(e) = write_rule_costs(&done.costs, &engine, folder)
    {
        eprintln!("{}", Fault::from(e));
        exit = exit.max(Exit::Environment);
    }
    exit = exit.max(judge(&done, &outputs, o));
    if o.verbose {
        let all = started.elapsed();
        let reading = (all - loaded).as_secs_f64();
        eprintln!(
            "gabion: {:.2} s to load, {reading:.2} s to read, {:.0} packets a second",
            loaded.as_secs_f64(),
            done.counters.packets as f64 / reading.max(1e-9)
        );
    }
    let report = PacketReport {
        done: &done,
        outputs: &outputs,
        engine: &engine,
        memory: o.profile_memory,
        costs: o.profile_rules,
        exit: exit.code(),
    };
    // What doctor looks at: budgets too, whether asked for or not.
    let run_json = PacketReport { memory: true, ..report }.json();
    if let (Some(folder), None) = (&o.log_dir, &tap) {
        exit = exit.max(existing::leave(&folder.join(RUN_FILE), &run_json));
    }
    let mut page = packet_page(&done, &outputs, &o.sources());
    let is_one_object = o.json && tap.is_some();
    if !is_one_object {
        write_report(&report, o);
    }
    if let Some(tap) = tap {
        let network = NetworkReport { page, json: Some(run_json) };
        exit = exit.max(behavior::finish(tap, o, done.is_stopped, network));
    } else if let Some(path) = &o.report {
        known.name(&mut page);
        exit = exit.max(existing::leave(path, &page.html()));
    }
    // Only now: evidence about hosts is sealed at the very end.
    if let Some(Err(e)) = sealed.map(|s| s.finish(o.quiet)) {
        eprintln!("{e}");
        exit = exit.max(e.exit);
    }
    Ok(exit)
}

/// The socket for commands of a run over interfaces, where the configuration asks for one.
fn serve_commands(
    run: &PacketRun<'_>,
    o: &ReadOptions,
    config: &Tree,
    handles: RunHandles,
) -> Option<CommandServer> {
    let context = CommandContext {
        config: Arc::new(config.clone()),
        handles,
        signals: run.signals.clone()?,
        is_live: true,
        running_mode: None,
        started: clock::now(),
    };
    // Without it the run continues, and the log says why.
    serve_configured(context, false, &mut with_rules::engine_log(o.quiet)).ok()?
}

/// What is done with what an earlier run left in the folder.
fn existing(o: &ReadOptions, config: &Tree) -> Result<Existing, Fault> {
    let mut files = Vec::new();
    if let Some(folder) = &o.log_dir {
        files = configured_file_paths(config, folder);
        if o.behavior {
            files.extend(existing::of_behavior(folder));
        }
    }
    existing::outputs(o, &files)
}

/// Opens outputs in the folder, or counts what would be written.
fn open(
    config: &Tree,
    o: &ReadOptions,
    existing: Existing,
    logged: &Arc<PacketLogCounts>,
) -> Result<Outputs, Fault> {
    let mut outputs = open_configured(config, o.log_dir.as_deref(), existing, logged)?;
    if let Some(path) = &o.alert_pcap {
        let mut node = Tree::default();
        if let Some(after) = o.alert_pcap_after {
            node.set("after", &after.to_string());
        }
        if let Some(ring) = o.alert_pcap_ring {
            node.set("ring", &ring.0.to_string());
        }
        let to = logged.open_alert_log(&direct_opener(), path, &node).map_err(|e| {
            Fault::environment(format!("{e}: choose another place with --alert-pcap"))
        })?;
        let settings = PacketLogSettings::alert_pcap(&node);
        outputs.add(gabion_outputs::packet_log::output(settings, to));
    }
    Ok(outputs)
}

/// The outputs of the configuration.
fn open_configured(
    config: &Tree,
    folder: Option<&Path>,
    existing: Existing,
    logged: &Arc<PacketLogCounts>,
) -> Result<Outputs, Fault> {
    let Some(folder) = folder else { return Ok(Outputs::counting(config)) };
    let found = Outputs::survey(config);
    if found.supported == 0 && !found.unsupported.is_empty() {
        let names = found.unsupported.join(", ");
        return Err(Fault::input(format!(
            "configuration: outputs: not supported: {names}: nothing would be written: configure \
             another, such as eve-log with filetype: regular"
        )));
    }
    let refuse = |e: String| Fault::environment(format!("{e}: choose another folder with -l"));
    gabion_runtime::output::make_folder(folder)
        .map_err(|e| refuse(format!("{}: {e}", folder.display())))?;
    let opened = logged.open_outputs(&direct_opener(), config, folder, Some(existing));
    opened.map_err(|e| refuse(e.to_string()))
}

/// The filter of the command line, or the configuration's.
fn capture_filter(o: &ReadOptions, config: &Tree) -> Result<Option<Filter>, Fault> {
    let Some(text) = o.filter.as_deref().or_else(|| config.text("bpf-filter")) else {
        return Ok(None);
    };
    let filter = Filter::compile(text)
        .map_err(|e| Fault::usage(format!("filter: {e}: see pcap-filter(7)")))?;
    Ok(Some(filter))
}

/// What a person should know of the packet log.
fn say_packet_log(sum: &EventCounts, logged: &PacketLogCounts, o: &ReadOptions) {
    if logged.left_out() > 0 && !o.quiet {
        let n = logged.left_out();
        eprintln!("gabion: packet log: {n} frames left out: the file has reached its limit");
    }
    if sum.packet_log_missing > 0 && !o.quiet {
        eprintln!(
            "gabion: packet log: {} frames of flows with alerts had left the ring before: give \
             --alert-pcap-ring more",
            sum.packet_log_missing
        );
    }
}

/// How many threads inspect: as many as were asked for, else what the configuration says of interfaces (`threads` of
/// `af-packet`), else one.
fn plan(engine: &Engine, o: &ReadOptions, threads: Option<usize>) -> WorkerPlan {
    let wanted = o.workers.or(threads).unwrap_or(1);
    let alone = PacketRun::needs_one_worker(engine);
    if let (Some(why), true) = (alone, wanted > 1 && !o.quiet) {
        eprintln!("gabion: workers: {why}: one worker is used");
    }
    WorkerPlan::for_workers(if alone.is_some() { 1 } else { wanted })
}

fn read_inputs(
    run: &PacketRun<'_>,
    o: &ReadOptions,
    inputs: &[Input],
    outputs: &mut Outputs,
) -> Result<PacketsDone, Fault> {
    let mut bar = None;
    let awaited = if o.quiet { Vec::new() } else { o.interfaces.clone() };
    let is_plain = o.quiet || !o.interfaces.is_empty() || !std::io::stderr().is_terminal();
    let mut nobody = standard_error::Incidents { awaited };
    let watch: &mut dyn Watch = if is_plain { &mut nobody } else { bar.insert(Bar::new(inputs)) };
    let done = run
        .read_inputs(inputs, outputs, watch)
        .map_err(|e| Fault::environment(format!("workers: {e}: use fewer with --workers")))?;
    if let Some(bar) = bar {
        bar.bar.end();
    }
    Ok(done)
}

/// Says what was wrong with inputs.
fn say_inputs(done: &PacketsDone, o: &ReadOptions) -> Exit {
    let mut exit = Exit::Done;
    let mut others = 0;
    let mut said = std::collections::BTreeSet::new();
    for input in &done.inputs {
        let path = input.path.display();
        match &input.error {
            Some(e) if input.is_named || Input::has_capture_name(&input.path) => {
                // Of the files of a folder, each reason is printed once.
                let more = if input.is_named || said.insert(e) {
                    done.inputs
                        .iter()
                        .filter(|i| !i.is_named && !input.is_named && i.error.as_ref() == Some(e))
                        .count()
                } else {
                    continue;
                };
                let more = match more.saturating_sub(1) {
                    0 => String::new(),
                    n => {
                        format!(" ({} more files of the folders are the same)", thousands(n as u64))
                    }
                };
                let also = if input.is_no_capture() {
                    ", or add --behavior to read a log of flows"
                } else {
                    ""
                };
                let said = format!("{path}: {e}{more}: {}{also}", input.advice);
                let fault = if input.is_of_environment {
                    Fault::environment(said)
                } else {
                    Fault::input(said)
                };
                exit = exit.max(fault.exit);
                eprintln!("{fault}");
            }
            Some(_) => others += 1,
            None => {}
        }
        if !o.quiet {
            input.notes.iter().for_each(|note| eprintln!("gabion: {path}: {note}"));
        }
    }
    if others > 0 && (!o.quiet || others == done.inputs.len()) {
        let no_captures = Fault::no_captures(others, done.inputs.len());
        exit = exit.max(no_captures.exit);
        eprintln!("{no_captures}");
    }
    exit
}

/// The exit code that the ledger and the findings call for.
fn judge(done: &PacketsDone, outputs: &Outputs, o: &ReadOptions) -> Exit {
    let mut exit = Exit::Done;
    if let Some(most) = o.fail_on
        && outputs.tally().alerts.iter().any(|a| a.severity <= most)
    {
        exit = Exit::No;
    }
    if done.is_stopped && !done.is_terminated {
        exit = Exit::Interrupted;
    }
    if done.has_lost_threads() {
        exit = Exit::Internal;
    }
    if let Err(fault) = done.check_balance() {
        eprintln!("{}", Fault::from(fault));
        exit = Exit::Internal;
    }
    exit
}

fn write_report(report: &PacketReport<'_>, o: &ReadOptions) {
    let text = match (o.json, o.quiet) {
        (true, _) => report.json(),
        (false, true) => return,
        // Their errors were printed; an empty report would add nothing.
        (false, false) if is_all_refused(report.done) => return,
        (false, false) => report.text(terminal::width()),
    };
    standard_output::text(&text);
}

/// Whether there were inputs and none could be read.
fn is_all_refused(done: &PacketsDone) -> bool {
    !done.inputs.is_empty() && done.inputs.iter().all(|i| i.error.is_some())
}

/// Progress on a terminal.
struct Bar {
    bar: Progress,
    /// Bytes of the inputs before each.
    before: Vec<u64>,
}

impl Bar {
    fn new(inputs: &[Input]) -> Bar {
        let mut total = 0;
        let mut before = Vec::with_capacity(inputs.len());
        for input in inputs {
            before.push(total);
            total += std::fs::metadata(&input.path).map_or(0, |m| m.len());
        }
        Bar { bar: Progress::new(Some(total)), before }
    }
}

impl Watch for Bar {
    fn incident(&mut self, incident: &Incident) {
        standard_error::report_incident(incident);
    }

    fn reload(&mut self, request: Option<LoadRequest>) {
        standard_error::report_reload(request);
    }

    fn position(&mut self, input: usize, position: u64, len: Option<u64>) {
        // Of packed captures only the place in what comes out is known.
        if len.is_some() {
            self.bar.at(self.before.get(input).copied().unwrap_or(0) + position, None);
        } else {
            self.bar.tick();
        }
    }
}

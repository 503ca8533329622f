//! `gabion read INPUT… --behavior`: logs of flows or captures in, evidence and alerts about hosts out.
//!
//! The runs themselves are those of `gabion_sensor`; here are their options, what is reported of them, and
//! the exit code.

pub(crate) mod list;
pub(crate) mod mute;
pub(crate) mod show;

use crate::command_line::ReadOptions;
use crate::exit::{Exit, Fault};
use crate::log::seal_findings::SealedFindings;
use crate::standard_error::notices;
use crate::{configuration, direct_opener, existing, input_opener, standard_output, terminal};
use gabion_behavior::Settings;
use gabion_behavior::catalog::not_used;
use gabion_flowlog::InputReport;
use gabion_flowlog::limits::FOLLOWED_MAX;
use gabion_flowlog::source::is_read_once;
use gabion_outputs::Outputs;
use gabion_outputs::page::Page;
use gabion_outputs::table::thousands;
use gabion_record::Tree;
use gabion_record::evidence::ThreatLevel;
use gabion_record::ledger::Ledger;
use gabion_record::logs::SECOND;
use gabion_reports::{
    FlowFault, FlowReport, FlowRequest, RUN_FILE, add_flows_to_page, flow_faults,
};
use gabion_runtime::output::{Existing, write_whole};
use gabion_runtime::{Signals, StopFlag, clock};
use gabion_sensor::Notices;
use gabion_sensor::flows::{
    AddressBook, CaptureTap, FindingOutputs, FindingsDone, FlowInputs, FlowRun, FlowsDone, Found,
    GatheredPage, ListFiles, Lists, Ran, Resumed, Sink,
};
use gabion_sensor::limits::DEFAULT_BUDGET_MAX;
use gabion_sensor::packets::InputOpener;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What the network engine reports of a run that was both engines'.
#[derive(Default)]
pub(crate) struct NetworkReport {
    pub(crate) page: Page,
    /// A JSON object.
    pub(crate) json: Option<String>,
}

/// A run of `read --behavior`, by what its inputs are.
pub(crate) enum Started {
    /// Logs of flows, which were read.
    Flows(Exit),
    /// Captures, which the network engine has to read. A pipe was looked into, and signals are taken over.
    Captures(Arc<InputOpener>, Option<Signals>),
}

/// Reads logs of flows, unless the inputs are captures.
pub(crate) fn run(o: &ReadOptions) -> Result<Started, Fault> {
    let started = clock::now();
    // Without signals the run can be ended, only not so gently.
    let signals = Signals::preparing().ok();
    let opener = look_into_pipe(o, signals.as_ref())?;
    let is_finite = o.kind.is_none() && !o.follow;
    if opener.is_capture() || (is_finite && FlowInputs::are_captures(opener.files(), &o.inputs)?) {
        return Ok(Started::Captures(opener, signals));
    }
    refuse_unused(o)?;
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let Configured { settings, lists, known } = settings(o)?;
    let lists = Lists::watch(lists, signals.clone(), notices());
    let paths = FlowInputs::list_logs(&o.inputs)?;
    let files = o.log_dir.as_deref().map(existing::of_behavior).unwrap_or_default();
    let existing = existing::outputs(o, &files)?;
    // Up to here a request to stop ended the process at once.
    if let Some(signals) = &signals {
        signals.begin();
    }
    let folder = o.log_dir.as_deref().filter(|_| o.follow);
    let mut settle = |log| folder.map_or(Ok(()), |folder| Resumed::settle_sealed_ids(folder, log));
    let sealed =
        o.seal.as_deref().map(|log| SealedFindings::open_with(log, &mut settle)).transpose()?;
    let resumed = folder.map(|folder| Resumed::prepare(folder, o.overwrite)).transpose()?;
    let mut sink = sink(o, existing, sealed.as_ref())?;
    sink.set_address_book(known);
    let mut earlier = None;
    if let Some(resumed) = resumed {
        let log = sealed.as_ref().map(|sealed| sealed.log.opened());
        earlier = resumed.attach(&mut sink, log, &notices())?;
    }
    sink.set_signals(signals);
    let ended = inputs(o, paths, opener).and_then(|inputs| {
        let run = FlowRun {
            inputs,
            format: o.kind,
            settings,
            lists,
            stop,
            workers: o.workers.unwrap_or(1),
            budget: budget(o),
            earlier,
            notices: notices(),
            news: notices_unless(o.quiet),
        };
        run_logs(o, started, run, &mut sink)
    });
    // The sink has given its last finding, or the run its last breath: what was sealed is signed.
    let closed = sealed.map_or(Ok(()), |sealed| sealed.finish(o.quiet));
    let ended = match (ended, closed) {
        (Ok(exit), Err(e)) => {
            eprintln!("{e}");
            Ok(exit.max(e.exit))
        }
        (ended, _) => ended,
    };
    ended.map(Started::Flows)
}

/// Notices on standard error, none of them in a quiet run.
fn notices_unless(is_quiet: bool) -> Notices {
    if is_quiet { Notices::default() } else { notices() }
}

/// The inputs of the run: logs that have an end, or live inputs.
fn inputs(
    o: &ReadOptions,
    paths: Vec<PathBuf>,
    opener: Arc<InputOpener>,
) -> Result<FlowInputs, Fault> {
    if !o.follow && o.netflow.is_none() {
        return Ok(FlowInputs::Files { paths, opener });
    }
    let listen = |address| {
        UdpSocket::bind(address).map_err(|e| {
            Fault::environment(format!("netflow: {address}: {e}: choose another address"))
        })
    };
    let netflow = o.netflow.map(listen).transpose()?;
    let horizon_ns = i64::from(o.reorder.unwrap_or(0)) * SECOND;
    Ok(FlowInputs::Live { paths: o.inputs.clone(), files: direct_opener(), netflow, horizon_ns })
}

/// A pipe that is all there is to read is looked into: a capture or a log may come through it.
fn look_into_pipe(o: &ReadOptions, signals: Option<&Signals>) -> Result<Arc<InputOpener>, Fault> {
    let is_alone = o.kind.is_none() && !o.follow && o.netflow.is_none();
    let ([path], true) = (o.inputs.as_slice(), is_alone) else { return Ok(input_opener()) };
    if !is_read_once(path) {
        return Ok(input_opener());
    }
    let opener = InputOpener::look_into(direct_opener(), path, signals);
    signals.into_iter().for_each(Signals::prepare_on);
    let refuse = |e| Fault::input(format!("{}: {e}: name a capture or a log", path.display()));
    opener.map(Arc::new).map_err(refuse)
}

/// Refuses options about packets when the inputs are flow logs: silently ignored, they would look as if
/// nothing had been found.
fn refuse_unused(o: &ReadOptions) -> Result<(), Fault> {
    let unused = [
        ("--rules", !o.engine.rules.is_empty()),
        ("--alert-pcap", o.alert_pcap.is_some()),
        ("--filter", o.filter.is_some()),
        ("--profile-rules", o.profile_rules),
        ("--metrics", o.metrics.is_some()),
    ];
    if let Some((name, _)) = unused.iter().find(|(_, is_given)| *is_given) {
        let said = "is for captures, and logs of flows hold no packets: leave it out";
        return Err(Fault::usage(format!("{name}: {said}, or name a capture")));
    }
    if let Some(level) = o.fail_on.filter(|level| *level > 3) {
        let said = "evidence has the levels 1 (high), 2 (medium) and 3 (low)";
        return Err(Fault::usage(format!("--fail-on {level}: {said}")));
    }
    Ok(())
}

/// Reads logs of flows to their end, or as long as they grow.
fn run_logs(
    o: &ReadOptions,
    started: std::time::Instant,
    run: FlowRun,
    sink: &mut Sink,
) -> Result<Exit, Fault> {
    let is_live = matches!(run.inputs, FlowInputs::Live { .. });
    let done = run.read_logs(sink)?;
    // A service manager stops the run by SIGTERM: that is a regular end.
    let is_interrupted = done.is_stopped && !done.is_terminated;
    let mut exit = if is_interrupted { Exit::Interrupted } else { Exit::Done };
    if done.ran.lost() > 0 {
        exit = exit.max(Exit::Internal);
    }
    report_live(&done, o);
    let is_cut = done.is_stopped || done.ran.is_cut(o.workers.unwrap_or(1));
    let network = NetworkReport::default();
    exit = exit.max(end(&done.reports(), &done.ran, o, sink, is_cut, network));
    if o.verbose && !is_live {
        let seconds = started.elapsed().as_secs_f64();
        let rate = done.ran.counts.records as f64 / seconds.max(1e-9);
        eprintln!("gabion: {seconds:.2} s, {rate:.0} records a second");
    }
    Ok(exit)
}

/// Reports what happened to the files and datagrams of a run over live inputs.
fn report_live(done: &FlowsDone, o: &ReadOptions) {
    let beyond = done.files_beyond();
    if beyond > 0 {
        eprintln!(
            "gabion: {beyond} files were not followed: there are more than {FOLLOWED_MAX}: name fewer"
        );
    }
    if let (Some((d, dropped)), false) = (done.datagrams(), o.quiet) {
        eprintln!(
            "gabion: netflow: {} datagrams, {} dropped by the kernel, {} flows, {} missing by sequence \
             number, {} sets without template, {} malformed, {} templates and {} domains let go",
            thousands(d.datagrams),
            thousands(dropped),
            thousands(d.flows),
            thousands(d.lost),
            thousands(d.without_template),
            thousands(d.malformed),
            thousands(d.templates_dropped),
            thousands(d.domains_dropped)
        );
    }
}

/// Where findings of a run go.
fn sink(
    o: &ReadOptions,
    existing: Existing,
    sealed: Option<&SealedFindings>,
) -> Result<Sink, Fault> {
    if let Some(path) = &o.report {
        existing::check_report(path)?;
    }
    let outputs = FindingOutputs {
        files: &direct_opener(),
        folder: o.log_dir.as_deref(),
        existing,
        keeps_lines: o.json,
        keeps_page: o.report.is_some(),
    };
    let sealer = sealed.map(|sealed| sealed.log.sealer("behavior"));
    Ok(Sink::open(&outputs, sealer, notices())?)
}

/// Has the behaviour engine take what the network engine writes into its outputs.
pub(crate) fn attach(
    o: &ReadOptions,
    outputs: &mut Outputs,
    existing: Existing,
    sealed: Option<&SealedFindings>,
) -> Result<CaptureTap, Fault> {
    let Configured { settings, known, .. } = settings(o)?;
    let name = o.sources().into_iter().next().unwrap_or_default();
    let mut sink = sink(o, existing, sealed)?;
    sink.set_address_book(known);
    Ok(CaptureTap::attach(outputs, settings, &name, budget(o), sink))
}

/// Ends a run over captures; `network` holds what the network engine reports of it.
pub(crate) fn finish(
    tap: CaptureTap,
    o: &ReadOptions,
    is_stopped: bool,
    network: NetworkReport,
) -> Exit {
    let mut done = tap.finish();
    end(&[&done.report], &done.ran, o, &mut done.sink, is_stopped, network)
}

/// What every run does when all is read: writes what is buffered, reports what was wrong and what was
/// found.
fn end(
    reports: &[&InputReport],
    ran: &Ran,
    o: &ReadOptions,
    sink: &mut Sink,
    is_cut: bool,
    network: NetworkReport,
) -> Exit {
    let FindingsDone { found, flushed, stored, is_unsaved, page: gathered, limits } = sink.finish();
    let mut exit = judged(&found, o);
    if let Err(e) = flushed {
        eprintln!("{}", Fault::from(e));
        exit = exit.max(Exit::Environment);
    }
    if is_unsaved {
        exit = exit.max(Exit::Environment);
    }
    let stored = match stored {
        Some(Ok(written)) => Some(written),
        Some(Err(e)) => {
            eprintln!("{}", Fault::from(e));
            exit = exit.max(Exit::Environment);
            None
        }
        None => None,
    };
    let mut ledger = Ledger::new();
    for report in reports {
        ledger.merge(&report.ledger);
    }
    let NetworkReport { page, json: network } = network;
    let ended = FlowReport { inputs: reports, ran, found: &found, ledger, network, stored, limits };
    exit = exit.max(report_faults(&ended, o, is_cut));
    if let Err(e) = leave(&ended, o, gathered, page) {
        eprintln!("{e}");
        exit = exit.max(e.exit);
    }
    match (o.json, o.quiet) {
        (true, _) => standard_output::text(ended.json()),
        (false, true) => {}
        // The errors were printed; an empty report would add nothing.
        (false, false) if ended.ledger.passed().items == 0 => {}
        (false, false) => standard_output::text(ended.text(terminal::width())),
    }
    exit
}

/// Prints what was wrong in a run, and returns the exit code that follows.
fn report_faults(ended: &FlowReport<'_>, o: &ReadOptions, is_cut: bool) -> Exit {
    let request = FlowRequest {
        files: &direct_opener(),
        named: &o.inputs,
        is_live: o.follow || o.netflow.is_some(),
        has_format: o.kind.is_some(),
        is_quiet: o.quiet,
        is_cut,
    };
    let mut exit = Exit::Done;
    for fault in flow_faults(ended, &request) {
        let fault = match fault {
            FlowFault::Note(line) => {
                eprintln!("gabion: {line}");
                continue;
            }
            FlowFault::Input(fault) => Fault::input(&fault),
            FlowFault::Internal(fault) => Fault::internal(&fault),
        };
        eprintln!("{fault}");
        exit = exit.max(fault.exit);
    }
    exit
}

/// Bytes for seeds and profiles.
fn budget(o: &ReadOptions) -> usize {
    let stated = o.budget.map(|b| b.0);
    let budget = gabion_runtime::memory::process_budget(stated).limit();
    let budget = usize::try_from(budget).unwrap_or(usize::MAX);
    if stated.is_some() { budget } else { budget.min(DEFAULT_BUDGET_MAX) }
}

/// Whether what was found is what `--fail-on` asks about. An alert about a host is evidence enough that
/// adds up, so it is as much as the highest level.
fn judged(found: &Found, o: &ReadOptions) -> Exit {
    let least = match o.fail_on {
        None => return Exit::Done,
        Some(1) => ThreatLevel::High,
        Some(2) => ThreatLevel::Medium,
        Some(_) => ThreatLevel::Low,
    };
    let is_reached = found.evidence.each().any(|(_, level, _)| level >= least);
    if is_reached || !found.alerts.is_empty() { Exit::No } else { Exit::Done }
}

fn refuse(path: &Path, e: std::io::Error) -> Fault {
    Fault::environment(format!("{}: {e}: choose another place", path.display()))
}

/// Leaves `run.json` in the folder, and the page about the run.
fn leave(
    ended: &FlowReport<'_>,
    o: &ReadOptions,
    gathered: Option<GatheredPage>,
    mut page: Page,
) -> Result<(), Fault> {
    if let Some(folder) = &o.log_dir {
        let path = folder.join(RUN_FILE);
        write_whole(&path, ended.json().as_bytes()).map_err(|e| refuse(&path, e))?;
    }
    let (Some(path), Some(gathered)) = (&o.report, gathered) else { return Ok(()) };
    add_flows_to_page(ended, &o.inputs, &mut page);
    gathered.fill(ended.found, &mut page);
    write_whole(path, page.html().as_bytes()).map_err(|e| refuse(path, e))
}

/// What the configuration and the command line ask for.
struct Configured {
    settings: Settings,
    lists: ListFiles,
    /// For the page, where one is wanted.
    known: AddressBook,
}

/// Thresholds of Slips' YAML, with `--set`, and the lists it and `--intel` name.
fn settings(o: &ReadOptions) -> Result<Configured, Fault> {
    let mut tree = match &o.engine.config {
        Some(path) => configuration::read_tree(path)?,
        None => Tree::default(),
    };
    for set in &o.engine.sets {
        let Some((name, value)) = set.split_once('=') else {
            return Err(Fault::usage(format!("--set {set}: has no value: write NAME=VALUE")));
        };
        tree.set(name.trim(), value.trim());
    }
    if !o.quiet {
        say_unused(&tree);
    }
    let (mut settings, wrong) = Settings::from_tree(&tree);
    if let Some(what) = wrong.first() {
        return Err(Fault::input(format!("configuration: {what}: fix it")));
    }
    settings.whitelist = Arc::new(ListFiles::load_whitelist(
        &tree,
        o.whitelist.as_deref(),
        &notices_unless(o.quiet),
    )?);
    let lists = ListFiles::from_config(&tree, &o.intel);
    if !lists.is_empty() {
        let started = clock::now();
        let (intel, notes) = lists.load()?;
        if !o.quiet {
            notes.iter().for_each(|note| eprintln!("gabion: lists: {note}"));
        }
        if o.verbose {
            let (count, mb, s) =
                (intel.len(), intel.bytes() >> 20, started.elapsed().as_secs_f64());
            eprintln!("gabion: lists: {count} indicators in {mb} MiB, {s:.2} s to load");
        }
        settings.intel = Arc::new(intel);
    }
    let known = match o.report {
        Some(_) => AddressBook::with(Arc::clone(&settings.intel), &tree)?,
        None => AddressBook::default(),
    };
    Ok(Configured { settings, lists, known })
}

/// Names what of a configuration is not used.
fn say_unused(tree: &Tree) {
    let (unused, unknown) = not_used(tree);
    if !unused.is_empty() {
        let n = unused.len();
        eprintln!("gabion: configuration: {n} keys are not used: docs/slips-yaml.md says why");
    }
    for key in unknown {
        eprintln!("gabion: configuration: unknown key {key}");
    }
}

#[cfg(test)]
mod tests;

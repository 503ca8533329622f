//! `gabion read INPUT… --behavior`: logs of flows or captures in, evidence and alerts about hosts out.
//!
//! Logs are read by `flowlog` and go through the engine on one thread ([`alone`]) or several ([`team`]); of
//! captures the network engine tells flows and protocols ([`capture`]); logs that grow and exporters of
//! NetFlow have no end ([`live`]).

mod alone;
pub(crate) mod capture;
mod checkpoint;
mod exporters;
mod findings;
mod intel;
pub(crate) mod known;
pub(crate) mod list;
mod live;
pub(crate) mod mute;
mod paged;
mod ranked;
mod run_tables;
mod sealed_ids;
pub(crate) mod show;
pub(crate) mod sink;
mod summary;
mod team;
mod troubles;
mod whitelist;

use self::checkpoint::{Checkpoint, Tag};
use self::intel::{Places, Reload};
use crate::command_line::ReadOptions;
use crate::existing::{self, RUN};
use crate::exit::{Exit, Fault};
use crate::limits::DEFAULT_BUDGET_MAX;
use crate::log::seal_findings::FindingLog;
use crate::opened_once::OpenedOnce;
use crate::operator_file;
use crate::standard_output;
use gabion_behavior::catalog::not_used;
use gabion_behavior::intel::Intel;
use gabion_behavior::stages::{Back, Front, Section, Shards};
use gabion_behavior::whitelist::Entry;
use gabion_behavior::{Counts, Engine, Profile, RestoreError, Settings};
use gabion_flowlog::OpenOnce;
use gabion_flowlog::limits::{FOLDER_DEPTH_MAX, FOLLOWED_MAX, reached};
use gabion_flowlog::source::is_read_once;
use gabion_flowlog::{Feed, Format, InputReport, Options};
use gabion_outputs::already_written::AlreadyWritten;
use gabion_outputs::idmef::AlertFiles;
use gabion_outputs::page::Page;
use gabion_outputs::profile_store::{ProfileWriter, Written};
use gabion_record::Tree;
use gabion_record::evidence::ThreatLevel;
use gabion_record::ledger::Ledger;
use gabion_record::limits::Reached;
use gabion_record::logs::{SECOND, TimeNs};
use gabion_runtime::input::{Stoppable, open_once};
use gabion_runtime::output::{Existing, clear, refuse_link, write_whole};
use gabion_runtime::{Signals, StopFlag, clock, jobs};
use gabion_settings::limits::CONFIGURATION_BYTES_MAX;
use gabion_settings::read_yaml_text;
use known::Known;
use paged::Paged;
use sealed_ids::SealedIds;
use sink::{Before, Found, Lines, Sink};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use team::{Failure, Plan, Seen, Source, TeamEnd};

/// A run that came to its end.
struct Ended<'a> {
    reports: &'a [&'a InputReport],
    ran: &'a Ran,
    found: &'a Found,
    /// All inputs together.
    ledger: Ledger,
    /// The network engine's own summary, a JSON object.
    network: Option<String>,
    /// Profiles in the folder's database.
    stored: Option<Written>,
    /// Fixed limits that were reached.
    limits: Reached,
}

/// What the network engine has to say of a run that was both engines'.
#[derive(Default)]
pub(crate) struct Beside {
    pub(crate) page: Page,
    pub(crate) network: Option<String>,
}

/// Runs the verb.
pub(crate) fn run(o: &ReadOptions) -> Result<Exit, Fault> {
    let started = clock::now();
    // Without signals the run can be ended, only not so gently.
    let signals = Signals::preparing().ok();
    let opened = look_into_pipe(o, signals.as_ref())?;
    let is_finite = o.kind.is_none() && !o.follow;
    if opened.is_capture() || (is_finite && capture::are_captures(&o.inputs)?) {
        return crate::commands::read::run_captures(o, opened, signals);
    }
    refuse_unused(o)?;
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let Configured { settings, places, known } = settings(o)?;
    let lists = Lists { signals, reload: Reload::watch(places) };
    let paths = paths(&o.inputs)?;
    let existing = match &o.log_dir {
        Some(folder) => {
            let files = existing::of_behavior(folder);
            existing::outputs(o, &files.iter().map(PathBuf::as_path).collect::<Vec<_>>())?
        }
        None => Existing::Truncate,
    };
    // Up to here a request to stop ended the process at once.
    if let Some(signals) = &lists.signals {
        signals.begin();
    }
    let folder = o.log_dir.as_deref().filter(|_| o.follow);
    let mut settle = |log| folder.map_or(Ok(()), |folder| sealed_ids::settle(folder, log));
    let sealed =
        o.seal.as_deref().map(|log| FindingLog::open_telling(log, &mut settle)).transpose()?;
    let earlier = earlier(o)?;
    let before = before(o, earlier.as_ref())?;
    let goes_on = earlier.is_some();
    // One that was killed before it had read anything begins anew.
    let earlier = earlier.filter(|e| e.sections().next().is_some());
    let mut sink = sink(o, existing, sealed.as_ref())?;
    sink.known = known;
    sink.files = sink.files.map(|files| files.going_on(before.told));
    if let (Some(folder), Some(log)) = (o.log_dir.as_deref().filter(|_| o.follow), &sealed) {
        let ids = SealedIds::open(folder, log.opened, before.sealed, goes_on);
        sink.sealed_ids = Some(ids.map_err(Fault::environment)?);
    }
    sink.signals.clone_from(&lists.signals);
    let ended = run_logs(o, started, stop, lists, settings, &paths, &mut sink, earlier, opened);
    // The sink has given its last finding, or the run its last breath: what was sealed is signed.
    let closed = sealed.map_or(Ok(()), |sealed| sealed.finish(o.quiet));
    match (ended, closed) {
        (Ok(exit), Err(e)) => {
            eprintln!("{e}");
            Ok(exit.max(e.exit))
        }
        (ended, _) => ended,
    }
}

/// A pipe that is all there is to read is looked into: a capture or a log may come through it.
fn look_into_pipe(o: &ReadOptions, signals: Option<&Signals>) -> Result<Arc<OpenedOnce>, Fault> {
    let is_alone = o.kind.is_none() && !o.follow && o.netflow.is_none();
    let ([path], true) = (o.inputs.as_slice(), is_alone) else { return Ok(Arc::default()) };
    if !is_read_once(path) {
        return Ok(Arc::default());
    }
    let stop = signals.map_or_else(StopFlag::new, |s| s.stop().clone());
    signals.into_iter().for_each(Signals::begin);
    let opened = OpenedOnce::look(path, stop);
    signals.into_iter().for_each(Signals::prepare_on);
    let refuse = |e| Fault::input(format!("{}: {e}: name a capture or a log", path.display()));
    opened.map(Arc::new).map_err(refuse)
}

/// Whether a checkpoint of `--follow` lies in a folder, from which a run goes on.
pub(crate) fn has_checkpoint(folder: &Path) -> bool {
    std::fs::symlink_metadata(checkpoint::path_in(folder)).is_ok()
}

/// The checkpoint that a run goes on from; of one that begins anew the one before is taken away.
fn earlier(o: &ReadOptions) -> Result<Option<Checkpoint>, Fault> {
    let Some(folder) = o.log_dir.as_deref().filter(|_| o.follow) else { return Ok(None) };
    let path = checkpoint::path_in(folder);
    let said = |e: String| Fault::input(format!("{}: {e}", path.display()));
    let refuse = |path: &Path, e: io::Error| {
        Fault::environment(format!("{}: {e}: choose another folder with -l", path.display()))
    };
    if !folder.is_dir() {
        return Ok(None);
    }
    for path in [&path, &folder.join(sealed_ids::NAME)] {
        refuse_link(path).map_err(|e| refuse(path, e))?;
    }
    if !o.overwrite {
        return Checkpoint::read(folder).map_err(said);
    }
    clear(&path).map(|()| None).map_err(|e| refuse(&path, e))
}

/// Leaves a checkpoint that holds nothing before anything is written, so that a run that is killed at once is
/// gone on with too.
fn leave_checkpoint(folder: &Path) -> Result<(), Fault> {
    let refuse = |e: String| Fault::environment(format!("{e}: choose another folder with -l"));
    crate::commands::make_folder(folder).map_err(refuse)?;
    let written = checkpoint::Writing::begin(folder).and_then(checkpoint::Writing::finish);
    let path = checkpoint::path_in(folder);
    written.map(|_| ()).map_err(|e| refuse(format!("{}: {e}", path.display())))
}

/// Refuses what concerns packets, of which logs of flows have none: without a word it would look as if
/// nothing had been found.
fn refuse_unused(o: &ReadOptions) -> Result<(), Fault> {
    let unused = [
        ("--rules", !o.engine.rules.is_empty()),
        ("--alert-pcap", o.alert_pcap.is_some()),
        ("--filter", o.filter.is_some()),
        ("--profile-rules", o.profile_rules),
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

/// What a run that was cut off had written and sealed; where there is no checkpoint, one is left.
fn before(o: &ReadOptions, earlier: Option<&Checkpoint>) -> Result<Before, Fault> {
    let Some(earlier) = earlier else {
        if let Some(folder) = o.log_dir.as_deref().filter(|_| o.follow) {
            leave_checkpoint(folder)?;
        }
        return Ok(Before::default());
    };
    let saved = match earlier.section(Tag::Sink) {
        Some(saved) => sink::before(saved),
        None => Some(Before::default()),
    };
    let (Some(folder), Some(before)) = (&o.log_dir, saved) else { return Ok(Before::default()) };
    let mut told = AlreadyWritten::read(folder, before.marks).map_err(Fault::environment)?;
    told.join(before.told);
    Ok(Before { told, ..before })
}

/// Reads logs of flows to their end, or as long as they grow.
#[allow(clippy::too_many_arguments, reason = "all that was made ready before")]
fn run_logs(
    o: &ReadOptions,
    started: std::time::Instant,
    stop: StopFlag,
    lists: Lists,
    settings: Settings,
    paths: &[PathBuf],
    sink: &mut Sink,
    earlier: Option<Checkpoint>,
    opened: Arc<OpenedOnce>,
) -> Result<Exit, Fault> {
    let format = o.kind;
    if o.follow || o.netflow.is_some() {
        return follow(o, format, stop, lists, settings, sink, earlier);
    }
    let feed = Feed::survey(
        paths,
        Options { format, parts: o.workers, run: jobs::run_at_once, ..Options::default() },
    )
    .opening_once(streams(&stop, opened));
    let source = LogSource { feed, stop, lists, is_stopped: false };
    let state = source.feed.surveyed().completeness().to_string();
    let begun = Begun { start: source.feed.start(), state, is_finite: true, earlier: None };
    let (source, ran) = detect(source, begun, settings, o, sink)?;
    // Whoever manages services asked by SIGTERM: then the end is as it should be.
    let is_interrupted = source.is_stopped && !source.lists.is_terminated();
    let mut exit = if is_interrupted { Exit::Interrupted } else { Exit::Done };
    if ran.lost() > 0 {
        exit = exit.max(Exit::Internal);
    }
    let reports: Vec<&InputReport> = source.feed.reports().collect();
    let is_cut = source.is_stopped || ran.is_cut(o.workers);
    exit = exit.max(end(&reports, &ran, o, sink, is_cut, Beside::default()));
    if o.verbose {
        let seconds = started.elapsed().as_secs_f64();
        let rate = ran.counts.records as f64 / seconds.max(1e-9);
        eprintln!("gabion: {seconds:.2} s, {rate:.0} records a second");
    }
    Ok(exit)
}

/// Lists of what is bad, read again while a run goes on.
pub(crate) struct Lists {
    signals: Option<Signals>,
    reload: Reload,
}

impl Lists {
    /// Whether the run was asked to end by SIGTERM.
    fn is_terminated(&self) -> bool {
        self.signals.as_ref().is_some_and(Signals::is_terminated)
    }

    /// Lists that were read anew, by themselves or because somebody asked (SIGUSR2).
    pub(crate) fn take(&self) -> Option<Arc<Intel>> {
        if self.signals.as_ref().is_some_and(Signals::take_reload) {
            self.reload.ask();
        }
        self.reload.take()
    }
}

/// Logs as they are.
struct LogSource {
    feed: Feed,
    stop: StopFlag,
    lists: Lists,
    is_stopped: bool,
}

impl Source for LogSource {
    fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>) {
        let mut records = 0u64;
        let (stop, lists, is_stopped) = (&self.stop, &self.lists, &mut self.is_stopped);
        self.feed.run(&mut |together| {
            let before = records;
            records += together.len() as u64;
            // Looking at a flag is cheap, but not needed for each record.
            if records >> 10 != before >> 10 {
                if let Some(intel) = lists.take() {
                    each(Seen::Lists(intel))?;
                }
                if stop.is_set() {
                    *is_stopped = true;
                    return ControlFlow::Break(());
                }
            }
            each(Seen::Records(together))
        });
        // Nobody looked at the flag while a stream was waited for: it was cut off.
        self.is_stopped |= self.stop.is_set() && self.feed.reads_once();
    }
}

/// Opens what can be read only once so that a request to stop is heard while nothing comes.
fn streams(stop: &StopFlag, opened: Arc<OpenedOnce>) -> OpenOnce {
    let stop = stop.clone();
    Box::new(move |path| {
        let from = match opened.take(path, &stop) {
            Some(from) => from,
            None => Box::new(Stoppable::new(open_once(path)?, stop.clone())),
        };
        Ok(Box::new(Cut { from, stop: stop.clone() }))
    })
}

/// A stream that ends early when it is asked to stop. That is no end of what it holds: half a line is no
/// line then, and half a packed block no error.
struct Cut {
    from: Box<dyn Read + Send>,
    stop: StopFlag,
}

impl Read for Cut {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.from.read(into) {
            Ok(0) if self.stop.is_set() => Err(io::ErrorKind::WouldBlock.into()),
            done => done,
        }
    }
}

/// What the engine did.
pub(crate) struct Ran {
    pub(crate) counts: Counts,
    /// Sources: come, gone, folded, held.
    pub(crate) sources: Ledger,
    /// Of the workers, where there are several.
    pub(crate) team: Option<TeamEnd>,
    /// Why the engine failed before the end.
    pub(crate) failed: Option<String>,
    /// Bytes for seeds and profiles, and what profiles take at the end.
    pub(crate) budget: usize,
    pub(crate) used: usize,
    pub(crate) whitelisted: Vec<Whitelisted>,
}

/// An entry of the whitelist that hid something.
pub(crate) struct Whitelisted {
    pub(crate) line: u32,
    pub(crate) text: String,
    pub(crate) records: u64,
    pub(crate) evidence: u64,
}

impl Whitelisted {
    fn all(entries: Vec<(&Entry, u64, u64)>) -> Vec<Whitelisted> {
        let one = |(entry, records, evidence): (&Entry, u64, u64)| Whitelisted {
            line: entry.line,
            text: entry.text.clone(),
            records,
            evidence,
        };
        entries.into_iter().map(one).collect()
    }
}

/// What is known before the first record.
struct Begun {
    start: Option<TimeNs>,
    /// What evidence says of the input.
    state: String,
    is_finite: bool,
    /// What the run goes on from.
    earlier: Option<Checkpoint>,
}

/// Reads what has no end, until somebody asks to stop.
fn follow(
    o: &ReadOptions,
    format: Option<Format>,
    stop: StopFlag,
    lists: Lists,
    settings: Settings,
    sink: &mut Sink,
    earlier: Option<Checkpoint>,
) -> Result<Exit, Fault> {
    let horizon_ns = i64::from(o.reorder.unwrap_or(0)) * SECOND;
    let mut source =
        live::LiveSource::new(o.inputs.clone(), o.netflow, format, horizon_ns, stop, Some(lists))
            .map_err(|e| {
            let address = o.netflow.map(|a| a.to_string()).unwrap_or_default();
            Fault::environment(format!("netflow: {address}: {e}: choose another address"))
        })?;
    if let (Some(address), false) = (source.address(), o.quiet) {
        eprintln!("gabion: netflow: listening on {address}");
    }
    if o.follow && o.log_dir.is_some() {
        let window_ns = if settings.is_one_window { i64::MAX } else { settings.window_ns };
        source.save_windows(window_ns, Arc::clone(&sink.is_asked));
        sink.folder.clone_from(&o.log_dir);
    }
    if let Some(earlier) = &earlier {
        let other = || unfit(o, RestoreError::OtherVersion);
        source.restore(earlier.section(Tag::Source).ok_or_else(other)?).ok_or_else(other)?;
        sink.restore(earlier.section(Tag::Sink).ok_or_else(other)?).ok_or_else(other)?;
        if !o.quiet {
            let folder = o.log_dir.as_deref().unwrap_or(Path::new("")).display();
            eprintln!("gabion: {folder}: goes on from its checkpoint");
        }
    }
    let begun = Begun { start: None, state: "live".to_owned(), is_finite: false, earlier };
    let (source, ran) = detect(source, begun, settings, o, sink)?;
    let beyond = source.beyond();
    if beyond > 0 {
        eprintln!(
            "gabion: {beyond} files were not followed: there are more than {FOLLOWED_MAX}: name fewer"
        );
    }
    if let (Some((d, dropped)), false) = (source.datagrams(), o.quiet) {
        eprintln!(
            "gabion: netflow: {} datagrams, {dropped} dropped by the kernel, {} flows, {} missing by sequence \
             number, {} sets without template, {} malformed, {} templates and {} domains let go",
            d.datagrams,
            d.flows,
            d.lost,
            d.without_template,
            d.malformed,
            d.templates_dropped,
            d.domains_dropped
        );
    }
    let lost = if ran.lost() > 0 { Exit::Internal } else { Exit::Done };
    Ok(lost.max(end(&source.reports(), &ran, o, sink, ran.is_cut(o.workers), Beside::default())))
}

fn unfit(o: &ReadOptions, why: RestoreError) -> Fault {
    let path = checkpoint::path_in(o.log_dir.as_deref().unwrap_or(Path::new("")));
    Fault::input(format!("{}: {why}", path.display()))
}

/// Runs the engine over a source, on one thread or several.
fn detect<S: Source + 'static>(
    source: S,
    begun: Begun,
    settings: Settings,
    o: &ReadOptions,
    sink: &mut Sink,
) -> Result<(S, Ran), Fault> {
    let budget = budget(o);
    // Limits that were reached while the run was prepared are no part of what a checkpoint holds: who goes on from it
    // is prepared again.
    gabion_record::limits::publish();
    let Begun { start, state, is_finite, earlier } = begun;
    let parts = || earlier.iter().flat_map(Checkpoint::sections);
    let engine_parts = || {
        parts().filter_map(|(tag, bytes)| match tag {
            Tag::Engine(section) => Some((section, bytes)),
            _ => None,
        })
    };
    let unfit = |why| unfit(o, why);
    let mut say = |said: String| eprintln!("gabion: {said}");
    if o.workers <= 1 {
        let mut engine = Engine::with_budget(settings, start, budget);
        for (section, bytes) in engine_parts() {
            engine.restore(section, bytes).map_err(unfit)?;
        }
        return alone::run(source, engine, state, budget, sink, &mut say);
    }
    let settings = Arc::new(settings);
    let mut front = Front::new(Arc::clone(&settings), start);
    let mut back = Back::new(Arc::clone(&settings));
    let mut shards = earlier.as_ref().map(|_| Shards::new(Arc::clone(&settings), budget));
    for (section, bytes) in engine_parts() {
        match (section, &mut shards) {
            (Section::Front, _) => front.restore(bytes),
            (Section::Back, _) => back.restore(bytes),
            (Section::Shard(number), Some(shards)) => {
                shards.restore(number, bytes).ok_or(RestoreError::OtherVersion)
            }
            (Section::Shard(_), None) => Ok(()),
        }
        .map_err(unfit)?;
    }
    back.set_input_state(state);
    let plan = Plan {
        workers: o.workers,
        budget,
        is_finite,
        keeps_windows: sink.keeps_windows(),
        shards,
        #[cfg(test)]
        changes: Vec::new(),
        #[cfg(test)]
        fault: None,
    };
    let done =
        team::run(source, front, back, &settings, plan, sink, &mut say).map_err(|failure| {
            match failure {
                Failure::Threads(e) => {
                    Fault::environment(format!("workers: {e}: use fewer with --workers"))
                }
                Failure::Reader(why) => {
                    Fault::internal(format!("reader: failed: {why}: report it"))
                }
            }
        })?;
    let ran = Ran {
        counts: done.counts,
        sources: done.sources,
        team: Some(done.team),
        failed: None,
        budget,
        used: done.used,
        whitelisted: done.whitelisted,
    };
    Ok((done.source, ran))
}

impl Ran {
    pub(crate) fn of(engine: &Engine, budget: usize) -> Ran {
        let (counts, sources) = (engine.counts(), engine.ledger());
        let whitelisted = Whitelisted::all(engine.whitelisted());
        let used = engine.profiles().map(Profile::bytes).sum();
        Ran { counts, sources, team: None, failed: None, budget, used, whitelisted }
    }

    fn lost(&self) -> usize {
        self.team.as_ref().map_or(0, |t| t.lost)
    }

    /// Whether nobody was left to go on.
    fn is_cut(&self, workers: usize) -> bool {
        self.failed.is_some() || (self.lost() > 0 && self.lost() >= workers)
    }
}

/// Bytes for seeds and profiles.
pub(crate) fn budget(o: &ReadOptions) -> usize {
    let stated = o.budget.map(|b| b.0);
    let budget = gabion_runtime::memory::process_budget(stated).limit();
    let budget = usize::try_from(budget).unwrap_or(usize::MAX);
    if stated.is_some() { budget } else { budget.min(DEFAULT_BUDGET_MAX) }
}

/// What every run does when all is read: writes what is buffered, says what was wrong and what was
/// found.
pub(crate) fn end(
    reports: &[&InputReport],
    ran: &Ran,
    o: &ReadOptions,
    sink: &mut Sink,
    is_cut: bool,
    beside: Beside,
) -> Exit {
    let mut exit = judged(&sink.found, o);
    sink.reopen_if_asked();
    if let Some(files) = &mut sink.files
        && let Err(e) = files.flush()
    {
        eprintln!("{}", Fault::environment(e));
        exit = exit.max(Exit::Environment);
    }
    if sink.unsaved.is_some() {
        exit = exit.max(Exit::Environment);
    }
    let mut stored = None;
    match sink.profiles.take().map(ProfileWriter::finish) {
        Some(Ok(written)) => stored = Some(written),
        Some(Err(e)) => {
            eprintln!("{}", Fault::environment(e));
            exit = exit.max(Exit::Environment);
        }
        None => {}
    }
    let mut ledger = Ledger::new();
    for report in reports {
        ledger.merge(&report.ledger);
    }
    let paged = sink.paged.take().map(|paged| (paged, std::mem::take(&mut sink.known)));
    let Beside { page, network } = beside;
    let mut limits = gabion_record::limits::take_all();
    limits.merge(&sink.limits);
    let ended = Ended { reports, ran, found: &sink.found, ledger, network, stored, limits };
    exit = exit.max(troubles::say(&ended, o, is_cut));
    if let Err(e) = leave(&ended, o, paged, page) {
        eprintln!("{e}");
        exit = exit.max(e.exit);
    }
    match (o.json, o.quiet) {
        (true, _) => standard_output::text(summary::json(&ended)),
        (false, true) => {}
        // What is wrong was said; a report of nothing would say nothing more.
        (false, false) if ended.ledger.passed().items == 0 => {}
        (false, false) => standard_output::text(summary::text(&ended)),
    }
    exit
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

/// The database of past windows of a run's folder.
fn keep_profiles(folder: &Path, existing: Existing) -> Result<ProfileWriter, Fault> {
    ProfileWriter::create(folder, existing)
        .map_err(|e| Fault::environment(format!("{e}: choose another folder with -l")))
}

/// Where findings of a run go.
pub(crate) fn sink(
    o: &ReadOptions,
    existing: Existing,
    sealed: Option<&FindingLog>,
) -> Result<Sink, Fault> {
    if let Some(path) = &o.report {
        crate::commands::read::check_report(path)?;
    }
    let folder = o.log_dir.as_deref();
    Ok(Sink {
        files: folder.map(|folder| open(folder, existing)).transpose()?,
        paged: o.report.as_ref().map(|_| Paged::default()),
        profiles: folder.map(|folder| keep_profiles(folder, existing)).transpose()?,
        sealed: sealed.map(|log| log.sealer("behavior")),
        found: Found { lines: o.json.then(Lines::default), ..Found::default() },
        ..Sink::default()
    })
}

fn refuse(path: &Path, e: std::io::Error) -> Fault {
    Fault::environment(format!("{}: {e}: choose another place", path.display()))
}

/// Leaves `run.json` in the folder, and the page about the run.
fn leave(
    ended: &Ended<'_>,
    o: &ReadOptions,
    paged: Option<(Paged, Known)>,
    mut page: Page,
) -> Result<(), Fault> {
    if let Some(folder) = &o.log_dir {
        let path = folder.join(RUN);
        let text = summary::json(ended);
        write_whole(&path, text.as_bytes()).map_err(|e| refuse(&path, e))?;
    }
    let (Some(path), Some((paged, known))) = (&o.report, paged) else { return Ok(()) };
    let c = &ended.ran.counts;
    for (name, n) in [
        ("flows", c.flows),
        ("sources", c.sources),
        ("windows", c.windows),
        ("evidence", c.evidence),
        ("findings", c.findings),
        ("alerts of hosts", c.alerts),
    ] {
        page.counts.push((name.to_owned(), n));
    }
    for report in ended.reports {
        let (path, ledger) = (report.path.display().to_string(), report.ledger.to_string());
        let error = report.error.as_ref().map_or_else(String::new, |e| format!(": {e}"));
        page.inputs.push((path, format!("{ledger}{error}")));
    }
    page.named = o.inputs.iter().map(|path| path.display().to_string()).collect();
    page.ledger.push(("records".to_owned(), ended.ledger.to_string()));
    page.ledger.push(("sources".to_owned(), ended.ran.sources.to_string()));
    page.findings_total = c.findings;
    let span = (c.records > 0).then_some((c.first, c.last));
    page.span = page.span.or(span);
    paged.page(ended.found, &known, &mut page);
    write_whole(path, page.html().as_bytes()).map_err(|e| refuse(path, e))
}

/// What the configuration and the command line ask for.
struct Configured {
    settings: Settings,
    places: Places,
    /// For the page, where one is wanted.
    known: Known,
}

/// The configuration in a file.
fn tree(path: &Path) -> Result<Tree, Fault> {
    let shown = path.display();
    let text = operator_file::text(path, CONFIGURATION_BYTES_MAX)
        .map_err(|e| Fault::input(format!("{shown}: {e}: name a configuration with -c")))?;
    read_yaml_text(&shown.to_string(), &text)
        .map_err(|e| Fault::input(format!("{e}: mend the configuration or leave out -c")))
}

/// Thresholds of the peer's YAML, with `--set`, and the lists it and `--intel` name.
fn settings(o: &ReadOptions) -> Result<Configured, Fault> {
    let mut tree = match &o.engine.config {
        Some(path) => tree(path)?,
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
        return Err(Fault::input(format!("configuration: {what}: mend it")));
    }
    settings.whitelist = Arc::new(whitelist::load(&tree, o.whitelist.as_deref(), o.quiet)?);
    let places = Places::of(&tree, &o.intel);
    if !places.is_empty() {
        let started = clock::now();
        let (intel, notes) = places.load()?;
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
        Some(_) => Known::with(Arc::clone(&settings.intel), &tree)?,
        None => Known::default(),
    };
    Ok(Configured { settings, places, known })
}

/// Names what of a configuration is not used.
fn say_unused(tree: &Tree) {
    let (unused, unknown) = not_used(tree);
    if !unused.is_empty() {
        let n = unused.len();
        eprintln!("gabion: configuration: {n} keys are not used: docs/slips-yaml.md says why");
    }
    for key in unknown {
        eprintln!("gabion: configuration: nothing is called {key}");
    }
}

/// The files that paths stand for: folders all files below them, in order of their names. Pipes and the
/// like are read where they are named themselves.
fn paths(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, Fault> {
    let mut all = Vec::new();
    for path in inputs {
        if is_read_once(path) && all.contains(path) {
            let path = path.display();
            let said = format!("{path}: is named twice but can be read only once: name it once");
            return Err(Fault::usage(said));
        }
        if !is_read_once(path) && path.is_dir() {
            below(path, &mut all, 0)
                .map_err(|e| Fault::input(format!("{}: {e}: name logs", path.display())))?;
        } else {
            all.push(path.clone());
        }
    }
    Ok(all)
}

fn below(folder: &Path, all: &mut Vec<PathBuf>, depth: usize) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?
        .collect::<Result<Vec<_>, _>>()?
        .iter()
        .map(|e| e.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if depth < FOLDER_DEPTH_MAX {
                below(&path, all, depth + 1)?;
            } else {
                reached::FOLDER_DEPTH_MAX.count();
            }
        } else if !is_read_once(&path) {
            // What nobody named is not waited for.
            all.push(path);
        }
    }
    Ok(())
}

fn open(folder: &Path, existing: Existing) -> Result<AlertFiles, Fault> {
    let refuse = |e: String| Fault::environment(format!("{e}: choose another folder with -l"));
    crate::commands::make_folder(folder).map_err(refuse)?;
    AlertFiles::create(folder, existing).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every key of the peer's own configuration is honoured or named with a reason.
    #[test]
    fn the_peers_configuration_is_known_whole() {
        let corpus = std::env::var("GABION_CORPUS").map_or_else(
            |_| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
            Into::into,
        );
        let path = corpus.join("flows/slips-data/slips.yaml");
        let Ok(text) = std::fs::read_to_string(&path) else {
            eprintln!("skipped: {} is not there", path.display());
            return;
        };
        let tree = read_yaml_text("slips.yaml", &text).unwrap();
        let (unused, unknown) = not_used(&tree);
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(unused.len() > 50);
        let (settings, wrong) = Settings::from_tree(&tree);
        assert!(wrong.is_empty() && settings.upload_mb == 500, "{wrong:?}");
    }
}

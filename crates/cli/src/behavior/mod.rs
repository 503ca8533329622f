//! `gabion read INPUT… --behavior`: logs of flows in, evidence and alerts about hosts out.

mod intel;
mod summary;
mod whitelist;

use self::intel::{Places, Reload};
use crate::command_line::{LogFormat, ReadOptions};
use crate::exit::{Exit, Fault};
use crate::suricata::yaml;
use gabion_behavior::{Counts, Engine, Finding, Settings};
use gabion_flowlog::{Feed, Format, InputReport, Options};
use gabion_outputs::idmef::AlertFiles;
use gabion_record::evidence::{Alert, Evidence, ThreatLevel};
use gabion_record::ledger::Ledger;
use gabion_record::logs::TimeNs;
use gabion_record::{Ip, Tree};
use gabion_runtime::{Signals, StopFlag, clock};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a run found, for the summary.
#[derive(Default)]
struct Found {
    /// Evidence by type and level.
    evidence: BTreeMap<(&'static str, ThreatLevel), u64>,
    /// Alerts by profile and window.
    alerts: Vec<(Ip, i64, f64)>,
    /// Sum of threat levels by profile.
    scores: BTreeMap<Ip, f64>,
}

impl Found {
    /// Addresses of which scores are kept; the summary shows a few.
    const SCORES_MAX: usize = 1 << 16;

    fn evidence(&mut self, e: &Evidence) {
        *self.evidence.entry((e.kind.name, e.level)).or_default() += 1;
        let score = e.level.weight() * e.confidence;
        if let Some(sum) = self.scores.get_mut(&e.profile) {
            *sum += score;
        } else if self.scores.len() < Self::SCORES_MAX && score > 0.0 {
            self.scores.insert(e.profile, score);
        }
    }

    fn alert(&mut self, a: &Alert) {
        self.alerts.push((a.profile, a.window, a.accumulated));
    }
}

/// A run that came to its end.
struct Ended<'a> {
    reports: Vec<&'a InputReport>,
    counts: Counts,
    found: &'a Found,
    /// All inputs together.
    ledger: Ledger,
    /// Sources: come, gone, folded, held.
    sources: Ledger,
    /// Entries of the whitelist that hid something: line, text, records, evidence.
    whitelisted: Vec<(u32, String, u64, u64)>,
}

/// Runs the verb.
pub(crate) fn run(o: &ReadOptions) -> Result<Exit, Fault> {
    let started = clock::now();
    // Without signals the run can be ended, only not so gently.
    let signals = Signals::install().ok();
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let (settings, places) = settings(o)?;
    let lists = Reload::watch(places);
    let paths = paths(&o.inputs)?;
    let mut files = match &o.log_dir {
        Some(folder) => Some(open(folder)?),
        None => None,
    };
    let format = o.kind.map(|kind| match kind {
        LogFormat::Zeek => Format::Zeek,
        LogFormat::Eve => Format::Eve,
        LogFormat::Argus => Format::Argus,
        LogFormat::Nfdump => Format::Nfdump,
    });
    let mut feed = Feed::survey(&paths, Options { format, ..Options::default() });
    let budget = gabion_runtime::memory::process_budget(o.budget.map(|b| b.0)).limit();
    let budget = usize::try_from(budget).unwrap_or(usize::MAX).min(BUDGET_MAX);
    let mut engine = Engine::with_budget(settings, feed.start(), budget);
    engine.set_input_state(feed.surveyed().completeness().to_string());
    let mut found = Found::default();
    let mut sink = |finding: Finding<'_>| match finding {
        Finding::Evidence(e, sum) => {
            found.evidence(e);
            if let Some(files) = &mut files {
                files.evidence(e, sum, created());
            }
        }
        Finding::Alert(a) => {
            found.alert(a);
            if let Some(files) = &mut files {
                files.alert(a, created());
            }
        }
    };
    let mut records = 0u64;
    let mut is_stopped = false;
    feed.run(&mut |record| {
        engine.record(record, &mut sink);
        records += 1;
        // Looking at a flag is cheap, but not needed for each record.
        if records & 1023 == 0 {
            if signals.as_ref().is_some_and(Signals::take_reload) {
                lists.ask();
            }
            if let Some(intel) = lists.take() {
                engine.set_intel(intel);
            }
            if stop.is_set() {
                is_stopped = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    engine.finish(&mut sink);
    let mut exit = if is_stopped { Exit::Interrupted } else { Exit::Done };
    if let Some(files) = &mut files
        && let Err(e) = files.flush()
    {
        eprintln!("{}", Fault::environment(e));
        exit = Exit::Environment;
    }
    let reports: Vec<&InputReport> = feed.reports().collect();
    let mut ledger = Ledger::new();
    for report in &reports {
        ledger.merge(&report.ledger);
    }
    let sources = engine.ledger();
    let entries = engine.whitelisted();
    let whitelisted = entries.into_iter().map(|(e, r, n)| (e.line, e.text.clone(), r, n)).collect();
    let counts = engine.counts();
    let ended = Ended { reports, counts, found: &found, ledger, sources, whitelisted };
    exit = exit.max(say(&ended, o, is_stopped));
    if o.verbose {
        let seconds = started.elapsed().as_secs_f64();
        let rate = ended.counts.records as f64 / seconds.max(1e-9);
        eprintln!("gabion: {seconds:.2} s, {rate:.0} records a second");
    }
    match (o.json, o.quiet) {
        (true, _) => crate::commands::answer(&summary::json(&ended)),
        (false, true) => {}
        (false, false) => crate::commands::answer(&summary::text(&ended)),
    }
    Ok(exit)
}

fn created() -> Option<TimeNs> {
    i64::try_from(crate::stats::now_ns()).ok().map(TimeNs)
}

/// Thresholds of the peer's YAML, with `--set`, and the lists it and `--intel` name.
fn settings(o: &ReadOptions) -> Result<(Settings, Places), Fault> {
    let mut tree = Tree::default();
    if let Some(path) = &o.engine.config {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Fault::input(format!("{shown}: {e}: name a configuration with -c")))?;
        tree = yaml::read_text(&shown.to_string(), &text)
            .map_err(|e| Fault::input(format!("{e}: mend the configuration or leave out -c")))?;
    }
    for set in &o.engine.sets {
        let Some((name, value)) = set.split_once('=') else {
            return Err(Fault::usage(format!("--set {set}: has no value: write NAME=VALUE")));
        };
        tree.set(name.trim(), value.trim());
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
    Ok((settings, places))
}

/// The files that paths stand for: folders all files below them, in order of their names.
fn paths(inputs: &[PathBuf]) -> Result<Vec<PathBuf>, Fault> {
    let mut all = Vec::new();
    for path in inputs {
        if path != Path::new("-") && path.is_dir() {
            below(path, &mut all, 0)
                .map_err(|e| Fault::input(format!("{}: {e}: name logs", path.display())))?;
        } else {
            all.push(path.clone());
        }
    }
    Ok(all)
}

/// Most that seeds and profiles take without being told: what a busy site of a hundred thousand hosts
/// needs.
const BUDGET_MAX: usize = 1 << 30;

/// Deepest folders looked into.
const DEPTH_MAX: usize = 16;

fn below(folder: &Path, all: &mut Vec<PathBuf>, depth: usize) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?
        .collect::<Result<Vec<_>, _>>()?
        .iter()
        .map(|e| e.path())
        .collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if depth < DEPTH_MAX {
                below(&path, all, depth + 1)?;
            }
        } else {
            all.push(path);
        }
    }
    Ok(())
}

fn open(folder: &Path) -> Result<AlertFiles, Fault> {
    let refuse = |e: String| Fault::environment(format!("{e}: choose another folder with -l"));
    crate::commands::make_folder(folder).map_err(refuse)?;
    AlertFiles::create(folder).map_err(refuse)
}

/// Says what was wrong, and judges the run.
fn say(ended: &Ended<'_>, o: &ReadOptions, is_stopped: bool) -> Exit {
    let mut exit = Exit::Done;
    let mut used = 0;
    for report in &ended.reports {
        let path = report.path.display();
        used += usize::from(report.ledger.passed().items > 0);
        if let Some(e) = &report.error {
            eprintln!("{}", Fault::input(format!("{path}: {e}: name a log of flows")));
            exit = Exit::Input;
        }
        if !o.quiet && report.ledger.passed().items > 0 {
            for (skip, count, lines) in report.skips.iter() {
                let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
                let (name, lines) = (skip.description(), shown.join(", "));
                eprintln!("gabion: {path}: {count} lines skipped: {name} (line {lines})");
            }
        }
        // What was in a buffer when the run was stopped is in no column.
        if !is_stopped && let Err(e) = report.ledger.balance() {
            eprintln!("{}", Fault::internal(format!("ledger: {path}: {e}: report it")));
            exit = Exit::Internal;
        }
    }
    if let Err(e) = ended.sources.balance() {
        eprintln!("{}", Fault::internal(format!("ledger: sources: {e}: report it")));
        exit = Exit::Internal;
    }
    if used == 0 && exit == Exit::Done {
        let e = "no record of a flow in any input: name logs of Zeek, EVE, Argus or nfdump";
        eprintln!("{}", Fault::input(e));
        exit = Exit::Input;
    }
    exit
}

//! What was wrong in a run of the behaviour engine: inputs that could not be read, lines that were skipped and where,
//! ledgers out of balance, workers lost.

use crate::flow_run::FlowReport;
use crate::limits::UNUSED_NAMED_MAX;
use gabion_flowlog::{Format, InputError, InputReport, Skip};
use gabion_record::files::FileOpener;
use gabion_record::ledger::{Imbalance, Ledger, ShedReason};
use gabion_runtime::Panicked;
use gabion_sensor::packets::Input;
use std::path::PathBuf;

/// Something that was wrong in a run, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowFault {
    /// Worth knowing, and no fault of the run.
    Note(String),
    /// An input could not be read, or there was nothing in it.
    Input(FlowInputFault),
    /// The program has a fault.
    Internal(FlowDefect),
}

/// What was wrong with an input.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowInputFault {
    /// A capture came through a pipe where logs are read.
    #[error(
        "{}: {}, which --behavior reads from a pipe only alone, not packed and without --kind: unpack it on the way, or \
         write it into a file and name that",
        .path.display(),
        InputError::Capture
    )]
    CaptureInPipe {
        /// The pipe.
        path: PathBuf,
    },
    /// It could not be read.
    #[error("{}: {source}: name a log of flows", .path.display())]
    Unreadable {
        /// The input.
        path: PathBuf,
        /// Why not.
        source: InputError,
    },
    /// A capture was named among logs.
    #[error("{}: is a capture: {}", .path.display(), capture_advice(*.has_format))]
    Capture {
        /// The capture.
        path: PathBuf,
        /// A format of logs was named.
        has_format: bool,
    },
    /// No file is in what was named.
    #[error("{}: no file in it: {}", listed(.named), formats_advice())]
    NoFile {
        /// What was named.
        named: Vec<PathBuf>,
    },
    /// No record is in the files.
    #[error(
        "{}{}: no flow record{}: {}",
        listed(.first),
        if *.has_more { ", …" } else { "" },
        skipped_because(.skipped, *.is_empty),
        formats_advice()
    )]
    NoRecord {
        /// The first files.
        first: Vec<PathBuf>,
        /// There are more.
        has_more: bool,
        /// Why lines were skipped first, and how many for it.
        skipped: Option<(Skip, u64)>,
        /// The files are empty.
        is_empty: bool,
    },
}

/// What went wrong in the program itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowDefect {
    /// A ledger does not balance.
    #[error("ledger: {stage}: {source}: report it")]
    Ledger {
        /// The stage or the input.
        stage: String,
        /// How it does not balance.
        source: Imbalance,
    },
    /// The engine panicked.
    #[error("engine: failed: {0}: what was found before is written, report this")]
    Engine(Panicked),
    /// Workers were lost.
    #[error(
        "{lost} workers lost: {held} records in hand and {waited} that waited are shed, {forgotten} sources forgotten, \
         {restarted} shards started again: report it"
    )]
    Workers {
        /// How many.
        lost: usize,
        /// Records that they had.
        held: u64,
        /// Records that waited for them.
        waited: u64,
        /// Sources whose state they had.
        forgotten: u64,
        /// Shards that were started again.
        restarted: u64,
    },
}

fn listed(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|p| p.display().to_string()).collect();
    names.join(", ")
}

fn formats_advice() -> String {
    format!("name logs of {}, or captures", Format::titles())
}

fn capture_advice(has_format: bool) -> &'static str {
    if has_format { "leave out --kind, and its flows are read" } else { "read it by itself" }
}

fn skipped_because(skipped: &Option<(Skip, u64)>, is_empty: bool) -> String {
    match skipped {
        Some((skip, 1)) => format!(" (one line: {})", skip.description()),
        Some((skip, n)) => format!(" ({n} lines: {})", skip.description()),
        None if is_empty => " (empty)".to_owned(),
        None => String::new(),
    }
}

/// What was asked of the run, as far as it decides what counts as wrong.
#[derive(Clone, Copy, Debug)]
pub struct FlowRequest<'a> {
    /// What opens inputs, to see why nothing could be read of them.
    pub files: &'a FileOpener,
    /// The inputs as they were named.
    pub named: &'a [PathBuf],
    /// Inputs that may bring nothing for a while: logs that grow, exporters.
    pub is_live: bool,
    /// The format of the logs was named.
    pub has_format: bool,
    /// Only errors are wanted.
    pub is_quiet: bool,
    /// The run was ended before its inputs were.
    pub is_cut: bool,
}

/// What was wrong in a run, in the order in which it is reported.
pub fn flow_faults(ended: &FlowReport<'_>, request: &FlowRequest<'_>) -> Vec<FlowFault> {
    let mut faults = Vec::new();
    let is_used = |r: &InputReport| r.ledger.passed().items > 0;
    let any = ended.inputs.iter().any(|r| is_used(r));
    for report in ended.inputs {
        let path = report.path.display();
        if let Some(e) = &report.error {
            let path = report.path.clone();
            faults.push(FlowFault::Input(match e {
                InputError::Capture => FlowInputFault::CaptureInPipe { path },
                InputError::Unreadable(_) => FlowInputFault::Unreadable { path, source: e.clone() },
            }));
        }
        if !request.is_quiet && is_used(report) {
            let note = |what: String| FlowFault::Note(format!("{path}: {what}"));
            faults.extend(skipped(report).into_iter().map(note));
        }
        if report.restarts > 0 && !request.is_quiet {
            let times = if report.restarts == 1 {
                "once".to_owned()
            } else {
                format!("{} times", report.restarts)
            };
            faults.push(FlowFault::Note(format!(
                "{path}: was truncated and written again {times}: lines written between the last read and \
                 the truncation are lost, unless a copy of the file is followed too"
            )));
        }
        if report.lost_ends > 0 && !request.is_quiet {
            faults.push(FlowFault::Note(format!(
                "{path}: was removed or moved away while it was not open: what was written to it last is \
                 not known"
            )));
        }
        // What was in a buffer when the run was cut off is in no column.
        if !request.is_cut
            && let Err(source) = report.ledger.balance()
        {
            let stage = path.to_string();
            faults.push(FlowFault::Internal(FlowDefect::Ledger { stage, source }));
        }
    }
    if any && !request.is_quiet {
        faults.extend(unused(ended.inputs, request.files).into_iter().map(FlowFault::Note));
    }
    faults.extend(ledgers(ended));
    if any || faults.iter().any(|fault| !matches!(fault, FlowFault::Note(_))) {
        return faults;
    }
    if request.is_live {
        // Who listens may hear nothing.
        faults.push(FlowFault::Note("no flow record was received".to_owned()));
    } else if !request.is_cut {
        faults.push(FlowFault::Input(nothing(ended.inputs, request)));
    }
    faults
}

/// What of a file was skipped, a line a reason.
fn skipped(report: &InputReport) -> Vec<String> {
    let line = |(skip, count, lines): (Skip, u64, &[u64])| {
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        let shown: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let (name, shown) = (skip.description(), shown.join(", "));
        let (what, at) = match count {
            1 => ("line", "line"),
            n if n > lines.len() as u64 => ("lines", "first lines"),
            _ => ("lines", "lines"),
        };
        format!("{count} {what} skipped: {name} ({at} {shown})")
    };
    report.skips.iter().map(line).collect()
}

/// Files of which nothing was used, when others were: those of types without detectors in one line, those
/// that should have been read one by one.
fn unused(reports: &[&InputReport], files: &FileOpener) -> Vec<String> {
    let mut lines = Vec::new();
    let is_other = |r: &InputReport| r.skips.iter().all(|s| s.0 == Skip::UnusedEvent);
    let (mut others, mut broken) = (Vec::new(), Vec::new());
    for report in reports.iter().filter(|r| r.error.is_none() && r.ledger.passed().items == 0) {
        match (report.skips.total(), is_other(report)) {
            (0, _) => {}
            (_, true) => others.push(report),
            (_, false) => broken.push(report),
        }
    }
    for report in broken.iter().take(UNUSED_NAMED_MAX) {
        let path = report.path.display();
        let what = if Input::is_capture(files, &report.path) {
            "it is a capture among logs: read it by itself".to_owned()
        } else {
            skipped(report).into_iter().next().unwrap_or_default()
        };
        lines.push(format!("{path}: nothing of it was used: {what}"));
    }
    if broken.len() > UNUSED_NAMED_MAX {
        let more = broken.len() - UNUSED_NAMED_MAX;
        lines.push(format!(
            "{more} more files of which nothing could be used: run.json has them all"
        ));
    }
    if !others.is_empty() {
        // `stats.00:00:00-01:00:00.log.gz` is one of stats.
        let stem = |r: &&&InputReport| {
            let name = r.path.file_name()?.to_string_lossy();
            Some(name.split('.').next().unwrap_or_default().to_owned())
        };
        let mut kinds: Vec<String> = others.iter().filter_map(stem).collect();
        kinds.sort();
        kinds.dedup();
        let (n, more) = (others.len(), kinds.len().saturating_sub(UNUSED_NAMED_MAX));
        kinds.truncate(UNUSED_NAMED_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (kinds, logs) = (kinds.join(", "), if n == 1 { "log" } else { "logs" });
        lines.push(format!("{n} {logs} of types without detectors, skipped: {kinds}{more}"));
    }
    lines
}

/// Ledgers that do not balance, and workers lost.
fn ledgers(ended: &FlowReport<'_>) -> Vec<FlowFault> {
    let mut faults = Vec::new();
    let ran = ended.ran;
    let parcels = ran.team.as_ref().map(|t| &t.parcels);
    for (stage, ledger) in [("sources", Some(&ran.sources)), ("parcels", parcels)] {
        if let Some(Err(source)) = ledger.map(Ledger::balance) {
            let stage = stage.to_owned();
            faults.push(FlowFault::Internal(FlowDefect::Ledger { stage, source }));
        }
    }
    if let Some(why) = &ran.failed {
        faults.push(FlowFault::Internal(FlowDefect::Engine(why.clone())));
    }
    if let Some(team) = ran.team.as_ref().filter(|t| t.lost > 0) {
        faults.push(FlowFault::Internal(FlowDefect::Workers {
            lost: team.lost,
            held: team.lost_records,
            waited: team.parcels.shed_total().items,
            forgotten: ran.sources.shed_for(ShedReason::WorkerLost).items,
            restarted: team.restarted,
        }));
    }
    faults
}

/// That there was nothing to be read in what was named, and why.
fn nothing(reports: &[&InputReport], request: &FlowRequest<'_>) -> FlowInputFault {
    if let Some(capture) = reports.iter().find(|r| Input::is_capture(request.files, &r.path)) {
        let (path, has_format) = (capture.path.clone(), request.has_format);
        return FlowInputFault::Capture { path, has_format };
    }
    if reports.is_empty() {
        return FlowInputFault::NoFile { named: request.named.to_vec() };
    }
    let first: Vec<PathBuf> = reports.iter().take(3).map(|r| r.path.clone()).collect();
    FlowInputFault::NoRecord {
        has_more: reports.len() > first.len(),
        first,
        skipped: reports.iter().find_map(|r| r.skips.iter().next().map(|s| (s.0, s.1))),
        is_empty: reports.iter().all(|r| r.ledger.received().items == 0),
    }
}

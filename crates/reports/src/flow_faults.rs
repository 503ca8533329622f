//! What was wrong in a run of the behaviour engine: inputs that could not be read, lines that were skipped and where,
//! ledgers out of balance, workers lost.

use crate::flow_run::FlowReport;
use crate::limits::UNUSED_NAMED_MAX;
use gabion_flowlog::{Format, InputError, InputReport, Skip};
use gabion_record::files::FileOpener;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_sensor::packets::Input;
use std::path::PathBuf;

/// Something that was wrong in a run, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowFault {
    /// Worth knowing, and no fault of the run.
    Note(String),
    /// An input could not be read, or there was nothing in it.
    Input(String),
    /// The program has a fault.
    Internal(String),
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
            let (more, hint) = match e {
                InputError::Capture => (
                    ", which --behavior reads from a pipe only alone, not packed and without --kind",
                    "unpack it on the way, or write it into a file and name that",
                ),
                InputError::Unreadable(_) => ("", "name a log of flows"),
            };
            faults.push(FlowFault::Input(format!("{path}: {e}{more}: {hint}")));
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
            && let Err(e) = report.ledger.balance()
        {
            faults.push(FlowFault::Internal(format!("ledger: {path}: {e}: report it")));
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
        if let Some(Err(e)) = ledger.map(Ledger::balance) {
            faults.push(FlowFault::Internal(format!("ledger: {stage}: {e}: report it")));
        }
    }
    if let Some(why) = &ran.failed {
        let said = format!("engine: failed: {why}: what was found before is written, report this");
        faults.push(FlowFault::Internal(said));
    }
    if let Some(team) = ran.team.as_ref().filter(|t| t.lost > 0) {
        let shed = team.parcels.shed_total().items;
        let forgotten = ran.sources.shed_for(ShedReason::WorkerLost).items;
        let (lost, held, restarted) = (team.lost, team.lost_records, team.restarted);
        let said = format!(
            "{lost} workers lost: {held} records in hand and {shed} that waited are shed, {forgotten} sources \
             forgotten, {restarted} shards started again: report it"
        );
        faults.push(FlowFault::Internal(said));
    }
    faults
}

/// That there was nothing to be read in what was named, and why.
fn nothing(reports: &[&InputReport], request: &FlowRequest<'_>) -> String {
    let e = format!("name logs of {}, or captures", Format::titles());
    if let Some(capture) = reports.iter().find(|r| Input::is_capture(request.files, &r.path)) {
        let what = if request.has_format {
            "leave out --kind, and its flows are read"
        } else {
            "read it by itself"
        };
        return format!("{}: is a capture: {what}", capture.path.display());
    }
    if reports.is_empty() {
        let named: Vec<String> = request.named.iter().map(|p| p.display().to_string()).collect();
        return format!("{}: no file in it: {e}", named.join(", "));
    }
    let named: Vec<String> = reports.iter().take(3).map(|r| r.path.display().to_string()).collect();
    let more = if reports.len() > named.len() { ", …" } else { "" };
    let why = reports.iter().find_map(|r| r.skips.iter().next().map(|s| (s.0, s.1)));
    let why = match why {
        Some((skip, 1)) => format!(" (one line: {})", skip.description()),
        Some((skip, n)) => format!(" ({n} lines: {})", skip.description()),
        None if reports.iter().all(|r| r.ledger.received().items == 0) => " (empty)".to_owned(),
        None => String::new(),
    };
    format!("{}{more}: no flow record{why}: {e}", named.join(", "))
}

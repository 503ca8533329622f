//! `gabion read` of captures of system calls (scap), with and without rules of Falco.

use super::scap::{judge, report_notes};
use super::with_falco_rules::{self, is_falco_rules};
use crate::command_line::ReadOptions;
use crate::exit::{Exit, Fault};
use crate::log::seal_findings::SealedFindings;
use crate::{direct_opener, existing, standard_output, terminal};
use gabion_flowlog::source::is_read_once;
use gabion_outputs::falco;
use gabion_reports::{RUN_FILE, ScapReport, SyscallReport, syscall_severity};
use gabion_runtime::{Signals, StopFlag};
use gabion_sensor::falco::{CaptureRun, CapturesDone};
use gabion_sensor::packets::InputOpener;
use gabion_sensor::syscalls::{check_balance, summarize};
use std::path::{Path, PathBuf};

/// The pipe that is all there is to read, where no rules and no other options say what comes through it.
pub(crate) fn unnamed_pipe(o: &ReadOptions) -> Option<&Path> {
    let [path] = o.inputs.as_slice() else { return None };
    let is_open = o.engine.rules.is_empty() && refuse_what_is_for_packets(o).is_ok();
    (is_open && is_read_once(path)).then_some(path.as_path())
}

/// Whether `read` is given captures of system calls. Standard input and pipes are not looked into here: they hold one
/// where the rules are Falco's.
///
/// # Errors
/// Inputs or rules of two kinds are named together, or rules that the inputs are not for.
pub(crate) fn are_inputs(o: &ReadOptions) -> Result<bool, Fault> {
    let are_scap = gabion_sensor::syscalls::are_scap(&direct_opener(), &o.inputs)?;
    let (falco, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        o.engine.rules.iter().partition(|path| is_falco_rules(path));
    match (falco.first(), others.first()) {
        (Some(falco), Some(other)) => Err(Fault::usage(format!(
            "--rules: {} is for system calls and {} for packets: read the captures of each apart",
            falco.display(),
            other.display()
        ))),
        (None, Some(other)) if are_scap => Err(Fault::usage(format!(
            "--rules: {}: is for packets and has no effect on captures of system calls: name rules of Falco (.yaml)",
            other.display()
        ))),
        (Some(falco), None) if !are_scap => {
            match o.inputs.iter().find(|path| !is_read_once(path)) {
                Some(path) => Err(Fault::input(format!(
                    "{}: is not a capture of system calls, which {} is for: name a capture of system calls (scap)",
                    path.display(),
                    falco.display()
                ))),
                None => Ok(!o.inputs.is_empty()),
            }
        }
        _ => Ok(are_scap),
    }
}

/// Runs `read` over captures of system calls: what is in them, the account of every event, and with rules the alerts.
/// `opener` and `signals` are those of a pipe that was looked into.
pub(crate) fn read_scap_files(
    o: &ReadOptions,
    opener: &InputOpener,
    signals: Option<Signals>,
) -> Result<Exit, Fault> {
    refuse_what_is_for_packets(o)?;
    let signals = signals.or_else(|| Signals::install().ok());
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let is_plain =
        o.engine.rules.is_empty() && o.log_dir.is_none() && o.report.is_none() && o.seal.is_none();
    if !is_plain {
        return read_with_rules(o, opener, &stop);
    }
    let mut exit = Exit::Done;
    for path in &o.inputs {
        let summary = summarize(path, opener, &stop)?;
        report_notes(path, &summary.account);
        let report = ScapReport::of_summary(&summary);
        match (o.json, o.quiet) {
            (true, _) => standard_output::text(report.json()),
            (false, false) => standard_output::text(report.text()),
            (false, true) => {}
        }
        exit = exit.max(judge(&summary.account, &stop)?);
    }
    Ok(exit)
}

/// Rules over captures, with all that a run leaves: alerts in files, the sealed log, summary and page.
fn read_with_rules(o: &ReadOptions, opener: &InputOpener, stop: &StopFlag) -> Result<Exit, Fault> {
    let loaded = with_falco_rules::load(&o.engine.rules, o.verbose)?;
    let files = o.log_dir.as_deref().map(falco::paths_in).unwrap_or_default();
    let existing = existing::outputs(o, &files)?;
    if let Some(path) = &o.report {
        existing::check_report(path)?;
    }
    let sealed = o.seal.as_deref().map(SealedFindings::open).transpose()?;
    let log = sealed.as_ref().map(|sealed| &sealed.log);
    let done = CaptureRun::new(loaded.rules, opener.files(), o.log_dir.as_deref(), existing, log)?
        .read_captures(&o.inputs, opener, stop);
    let mut exit = outcome(&done, o);
    let report = SyscallReport { done: &done, exit: exit.code() };
    if let Some(folder) = &o.log_dir {
        exit = exit.max(existing::leave(&folder.join(RUN_FILE), &report.json()));
    }
    if let Some(path) = &o.report {
        exit = exit.max(existing::leave(path, &report.page(&o.inputs).html()));
    }
    match (o.json, o.quiet) {
        (true, _) => standard_output::text(report.json()),
        (false, true) => {}
        (false, false) if done.captures.is_empty() => {}
        (false, false) => standard_output::text(report.text(terminal::width())),
    }
    if let Some(Err(e)) = sealed.map(|sealed| sealed.finish(o.quiet)) {
        eprintln!("{e}");
        exit = exit.max(e.exit);
    }
    Ok(exit)
}

/// Prints what went wrong; the exit code that it and the findings call for.
fn outcome(done: &CapturesDone, o: &ReadOptions) -> Exit {
    let mut exit = Exit::Done;
    for capture in &done.captures {
        report_notes(&capture.path, &capture.account);
        if let Err(fault) = check_balance(&capture.account) {
            eprintln!("{}", Fault::from(fault));
            exit = Exit::Internal;
        }
    }
    if let Some(most) = o.fail_on
        && done.found.iter().any(|rule| syscall_severity(&rule.priority) <= most)
    {
        exit = exit.max(Exit::No);
    }
    for (_, error) in &done.failed {
        eprintln!("{}", Fault::input(error));
        exit = exit.max(Exit::Input);
    }
    for fault in &done.faults {
        eprintln!("{}", Fault::environment(fault));
        exit = exit.max(Exit::Environment);
    }
    if done.is_stopped { exit.max(Exit::Interrupted) } else { exit }
}

/// Options that would have no effect on system calls are refused: a run without what was asked for would look like one
/// that found nothing.
fn refuse_what_is_for_packets(o: &ReadOptions) -> Result<(), Fault> {
    let given = [
        ("--alert-pcap", o.alert_pcap.is_some()),
        ("--behavior", o.behavior),
        ("--filter", o.filter.is_some()),
        ("--profile-rules", o.profile_rules),
        ("--metrics", o.metrics.is_some()),
        ("--profile-memory", o.profile_memory),
        ("--config", o.engine.config.is_some()),
        ("--set", !o.engine.sets.is_empty()),
        ("--checksums", o.engine.checksums.is_some()),
        ("--simulate-ips", o.engine.simulate_ips),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => Err(Fault::usage(format!(
            "{name}: has no effect on captures of system calls: leave it out"
        ))),
        None => Ok(()),
    }
}

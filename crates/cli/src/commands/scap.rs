//! `gabion events`, `gabion convert`, and `gabion read` of captures of system calls (scap).

use crate::command_line::ReadOptions;
use crate::exit::{Exit, Fault};
use crate::standard_output::{self, StandardOutput};
use crate::values;
use clap::Args;
use gabion_reports::ScapReport;
use gabion_runtime::Signals;
use gabion_runtime::StopFlag;
use gabion_sensor::syscalls::{
    EventPrinter, EventStyle, ScapAccount, check_balance, rewrite, summarize,
};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Options of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsOptions {
    /// A capture of system calls, plain or packed by gzip; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only events for which this condition of Falco's rules holds, such as proc.name=cat and evt.type=openat
    #[arg(value_name = "FILTER", value_parser = values::text())]
    filter: Vec<String>,
    /// What to print of each event, as in outputs of Falco's rules, such as '%proc.name %fd.name'
    #[arg(short = 'p', long, value_name = "FORMAT", value_parser = values::text())]
    format: Option<String>,
    /// One JSON object a line
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Events as they are in the file, enter events included, and numbered as they are there
    #[arg(long, conflicts_with_all = ["format", "filter"])]
    raw: bool,
    /// No account at the end
    #[arg(short, long)]
    quiet: bool,
}

/// Options of `convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertOptions {
    /// A capture of system calls, plain or packed by gzip; - for standard input
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The file to write
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Write NEW even if there is a file already
    #[arg(long)]
    overwrite: bool,
    /// Print the account as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `events`.
pub(crate) fn events(o: &EventsOptions) -> Result<Exit, Fault> {
    let signals = Signals::install().ok();
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let style = match o.raw {
        true => EventStyle::raw(o.json),
        false => EventStyle::merged(o.json, &o.filter.join(" "), o.format.as_deref())?,
    };
    let account = EventPrinter::new(BufWriter::new(StandardOutput), style).print(&o.file, &stop)?;
    report_notes(&o.file, &account);
    if !o.quiet {
        ScapReport::of_events(&account).text().lines().for_each(|line| eprintln!("gabion: {line}"));
    }
    judge(&account, &stop)
}

/// Runs `convert`.
pub(crate) fn convert(o: &ConvertOptions) -> Result<Exit, Fault> {
    let signals = Signals::install().ok();
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let done = rewrite(&o.old, &o.new, o.overwrite, &stop)?;
    report_notes(&o.old, &done.account);
    let report = ScapReport::of_rewriting(&done);
    standard_output::text(if o.json { report.json() } else { report.text() });
    judge(&done.account, &stop)
}

/// Whether `read` is given captures of system calls.
///
/// # Errors
/// Other inputs are named with them.
pub(crate) fn are_inputs(inputs: &[PathBuf]) -> Result<bool, Fault> {
    Ok(gabion_sensor::syscalls::are_scap(inputs)?)
}

/// Runs `read` over captures of system calls: what is in them, and the account of every event.
pub(crate) fn read(o: &ReadOptions) -> Result<Exit, Fault> {
    refuse_what_is_for_packets(o)?;
    let signals = Signals::install().ok();
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let mut exit = Exit::Done;
    for path in &o.inputs {
        let summary = summarize(path, &stop)?;
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

/// Options that would have no effect on system calls are refused: a run without the rules that were named would look
/// like one that found nothing.
fn refuse_what_is_for_packets(o: &ReadOptions) -> Result<(), Fault> {
    let falco = "run gabion falco -r RULES -o engine.kind=replay -o engine.replay.capture_file=FILE for rules";
    let given = [
        ("--rules", !o.engine.rules.is_empty(), falco),
        ("--log-dir", o.log_dir.is_some(), falco),
        ("--report", o.report.is_some(), "leave it out"),
        ("--seal", o.seal.is_some(), "leave it out"),
        ("--alert-pcap", o.alert_pcap.is_some(), "leave it out"),
        ("--behavior", o.behavior, "leave it out"),
    ];
    match given.iter().find(|(_, is_given, _)| *is_given) {
        Some((name, _, what)) => {
            Err(Fault::usage(format!("{name}: has no effect on captures of system calls: {what}")))
        }
        None => Ok(()),
    }
}

fn report_notes(path: &Path, account: &ScapAccount) {
    account.notes().iter().for_each(|note| eprintln!("gabion: {}: {note}", path.display()));
}

fn judge(account: &ScapAccount, stop: &StopFlag) -> Result<Exit, Fault> {
    check_balance(account)?;
    Ok(if stop.is_set() { Exit::Interrupted } else { Exit::Done })
}

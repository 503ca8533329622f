//! `gabion events` and `gabion convert`: captures of system calls (scap), printed and rewritten.

use crate::exit::{Exit, Fault};
use crate::standard_output::{self, StandardOutput};
use crate::{input_opener, values};
use clap::Args;
use gabion_reports::ScapReport;
use gabion_runtime::{Signals, StopFlag};
use gabion_sensor::syscalls::{EventPrinter, EventStyle, ScapAccount, check_balance, rewrite};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Options of `events`.
#[derive(Debug, Args)]
pub(crate) struct EventsOptions {
    /// A capture of system calls, plain or compressed with gzip; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Only events for which this condition of Falco's rules holds, such as proc.name=cat and evt.type=openat
    #[arg(value_name = "FILTER", value_parser = values::text())]
    filter: Vec<String>,
    /// What to print of each event, as in outputs of Falco's rules, such as '%proc.name %fd.name'
    #[arg(short = 'p', long, value_name = "FORMAT", value_parser = values::text())]
    format: Option<String>,
    /// Print one JSON object per line
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Events as they are in the file, enter events included, and numbered as they are there
    #[arg(long, conflicts_with_all = ["format", "filter"])]
    raw: bool,
    /// Print no summary at the end
    #[arg(short, long)]
    quiet: bool,
}

/// Options of `convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertOptions {
    /// A capture of system calls, plain or compressed with gzip; - for standard input
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The file to write
    #[arg(value_name = "NEW")]
    new: PathBuf,
    /// Write NEW even if there is a file already
    #[arg(long)]
    overwrite: bool,
    /// Print the summary as one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `events`.
pub(crate) fn events(o: &EventsOptions) -> Result<Exit, Fault> {
    let signals = Signals::install().ok();
    let stop = signals.as_ref().map_or_else(StopFlag::new, |s| s.stop().clone());
    let style = if o.raw {
        EventStyle::raw(o.json)
    } else {
        EventStyle::merged(o.json, &o.filter.join(" "), o.format.as_deref())?
    };
    let mut printer = EventPrinter::new(BufWriter::new(StandardOutput), style);
    let account = printer.print(&o.file, &input_opener(), &stop)?;
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
    let done = rewrite(&o.old, &o.new, o.overwrite, &input_opener(), &stop)?;
    report_notes(&o.old, &done.account);
    let report = ScapReport::of_rewriting(&done);
    standard_output::text(if o.json { report.json() } else { report.text() });
    judge(&done.account, &stop)
}

/// Prints what is wrong with an input.
pub(super) fn report_notes(path: &Path, account: &ScapAccount) {
    account.notes().iter().for_each(|note| eprintln!("gabion: {}: {note}", path.display()));
}

/// The exit code that the account calls for.
pub(super) fn judge(account: &ScapAccount, stop: &StopFlag) -> Result<Exit, Fault> {
    check_balance(account)?;
    Ok(if stop.is_set() { Exit::Interrupted } else { Exit::Done })
}

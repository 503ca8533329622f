//! `gabion guard report`: the incidents of a recording, as lines, as `guard.json` and as a page.

use crate::exit::{Exit, Fault};
use crate::{direct_opener, existing, standard_output, values};
use clap::Args;
use gabion_runtime::files::NamedFiles;
use gabion_sensor::guard::GuardReport;
use std::path::PathBuf;

/// Options of `guard report`.
#[derive(Debug, Args)]
pub(crate) struct ReportOptions {
    /// A recording (.csv or .csv.zst); its counters of XDP (.xdp.csv.zst) are read with it
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// Folder for report.html and guard.json
    #[arg(short = 'l', long = "log-dir", value_name = "OUTDIR")]
    log_dir: PathBuf,
    /// Share of a CPU that packet work may use, percent, if the recording does not state it
    #[arg(long, value_name = "PERCENT", value_parser = values::number::<u8>(5, 90))]
    budget: Option<u8>,
    /// Replace the report that is in the folder
    #[arg(long)]
    overwrite: bool,
}

/// Runs the verb.
pub(super) fn run(o: &ReportOptions) -> Result<Exit, Fault> {
    let there = GuardReport::files(&o.log_dir).into_iter().find(|path| path.exists());
    if !o.overwrite
        && let Some(path) = there
    {
        return Err(Fault::usage(format!(
            "{}: is there already: add --overwrite to replace it, or choose another folder with -l",
            path.display()
        )));
    }
    let mut named = NamedFiles::default();
    named.keep("is the recording", [&o.recording]);
    existing::refuse_destroyers(named, &GuardReport::files(&o.log_dir)).map_err(Fault::usage)?;
    let report = GuardReport {
        recording: o.recording.clone(),
        folder: o.log_dir.clone(),
        budget_percent: o.budget,
    };
    let reported = report.write(&direct_opener())?;
    for line in &reported.lines {
        standard_output::line(line);
    }
    for warning in &reported.warnings {
        eprintln!("gabion: {}: {warning}", o.recording.display());
    }
    standard_output::line(format_args!("page: {}", reported.page.display()));
    standard_output::line(format_args!("events: {}", reported.events.display()));
    Ok(Exit::Done)
}

//! `records`: runs a program over captures and tests, and compares its EVE records with Suricata's, whole record by
//! whole record.
//!
//! Exit codes: 0 done (and no suite below its floor), 1 a suite fell below its floor, 2 usage, 3 the corpus, a
//! program or a file can't be read or written.
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use gabion_conformance::captures::floors;
use gabion_conformance::captures::pairs::Sums;
use gabion_conformance::records::compare::Comparison;
use gabion_conformance::records::eve::read_records;
use gabion_conformance::records::outputs::{
    How, Suite, input_names, is_recorded, run_suite, unpack_recorded,
};
use gabion_conformance::records::report;
use serde_json::Value;

/// Compares EVE records with Suricata's, whole record by whole record
#[derive(Parser)]
#[command(name = "records")]
struct Options {
    /// The program; it is run under the name `suricata`
    #[arg(long, value_name = "PATH", required_unless_present_any = ["ours", "compare"])]
    binary: Option<PathBuf>,
    /// Suricata, which is run too; without it tests are compared with its recorded outputs
    #[arg(long, value_name = "PATH")]
    suricata: Option<PathBuf>,
    /// Inputs: tests, tests-more, captures, bench [default: tests and tests-more, with --suricata all]
    #[arg(long, value_name = "NAME")]
    suite: Vec<String>,
    /// Compare two EVE files, Suricata's first, and run nothing
    #[arg(long, num_args = 2, value_names = ["FILE", "FILE"], conflicts_with_all = ["binary", "suite"])]
    compare: Vec<PathBuf>,
    /// Only inputs whose name contains this text
    #[arg(long, value_name = "PART")]
    filter: Option<String>,
    /// Configuration for captures instead of Suricata's own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Folder with the program's outputs of an earlier run, by suite; nothing is run then
    #[arg(long, value_name = "DIR", conflicts_with = "binary")]
    ours: Option<PathBuf>,
    /// Keep the program's outputs below this folder, by suite
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Keep Suricata's outputs below this folder, by suite, and use those that are there
    #[arg(long, value_name = "DIR")]
    keep_suricata: Option<PathBuf>,
    /// Only records of these types (repeatable)
    #[arg(long = "type", value_name = "TYPE")]
    kinds: Vec<String>,
    /// A further argument for each call of the programs (repeatable)
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// Kinds of differences that are listed
    #[arg(long, value_name = "N", default_value_t = 40)]
    rows: usize,
    /// Print an example of each kind of difference
    #[arg(long)]
    examples: bool,
    /// Print JSON instead
    #[arg(long)]
    json: bool,
    /// Print only the line of each suite, for README files
    #[arg(long, conflicts_with = "json")]
    lines: bool,
    /// File with the fewest same and the most extra records of each suite
    #[arg(long, value_name = "FILE")]
    floors: Option<PathBuf>,
    /// Raise the floors to the results of this run
    #[arg(long, requires = "floors", conflicts_with = "filter")]
    raise: bool,
    /// Parallel runs [default: number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Time limit of one run in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    timeout: u64,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("records: {fault:#}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> Result<ExitCode> {
    if let [wanted, ours] = &options.compare[..] {
        let mut comparison = Comparison::default();
        add_files(options, &mut comparison, "files", wanted, ours)?;
        print_comparison(options, "files", &comparison)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut floors = match &options.floors {
        Some(path) => floors::read(path)?,
        None => floors::Floors::new(),
    };
    let mut has_fallen = false;
    for suite in chosen(options)? {
        let Some(comparison) = compare_suite(options, suite)? else { continue };
        print_comparison(options, suite.name(), &comparison)?;
        let total = comparison.total();
        let sums = Sums { right: total.same, extra: total.extra, ..Sums::default() };
        if let Some(floor) = floors.get(suite.name())
            && !floor.holds(sums)
            && options.filter.is_none()
        {
            has_fallen = true;
            println!(
                "{}: below its floor of {} same and {} extra records",
                suite.name(),
                floor.right_min,
                floor.extra_max
            );
        }
        if let (true, Some(path)) = (options.raise, &options.floors) {
            floors::raise(path, &mut floors, suite.name(), sums)?;
        }
    }
    Ok(ExitCode::from(u8::from(has_fallen)))
}

fn chosen(options: &Options) -> Result<Vec<Suite>> {
    if options.suite.is_empty() {
        let has_both = options.suricata.is_some();
        let all = Suite::ALL.into_iter();
        return Ok(all.filter(|suite| has_both || suite.recorded().is_some()).collect());
    }
    let named = options.suite.iter();
    named.map(|n| Suite::from_name(n).with_context(|| format!("no suite `{n}`"))).collect()
}

/// A folder that is kept, or one that goes with the guard.
fn folder_for(kept: Option<&Path>, suite: Suite) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    match kept {
        Some(folder) => Ok((std::path::absolute(folder)?.join(suite.name()), None)),
        None => {
            let guard = tempfile::Builder::new().prefix("records-").tempdir()?;
            Ok((guard.path().to_owned(), Some(guard)))
        }
    }
}

/// `None`: Suricata's outputs are not known, which is printed.
fn compare_suite(options: &Options, suite: Suite) -> Result<Option<Comparison>> {
    let jobs = match options.jobs {
        Some(jobs) => jobs,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let how = How {
        corpus: std::path::absolute(gabion_conformance::corpus())?,
        filter: options.filter.clone(),
        config: options.config.as_deref().map(std::path::absolute).transpose()?,
        arguments: options.arguments.clone(),
        jobs,
        limit: Duration::from_secs(options.timeout),
    };
    let names = input_names(suite, &how)?;
    let (theirs, _theirs_guard) = folder_for(options.keep_suricata.as_deref(), suite)?;
    let is_known = match &options.suricata {
        Some(program) => {
            report_faults("Suricata", &run_suite(suite, program, &how, &theirs, true)?);
            true
        }
        None => {
            theirs.exists() && options.keep_suricata.is_some()
                || unpack_recorded(suite, &how, &theirs)?
        }
    };
    if !is_known {
        println!("{}: skipped, there are no recorded outputs: give --suricata", suite.name());
        return Ok(None);
    }
    let (ours, _ours_guard) = match (&options.ours, &options.binary) {
        (Some(folder), _) => (std::path::absolute(folder)?.join(suite.name()), None),
        (None, Some(binary)) => {
            let (folder, guard) = folder_for(options.keep.as_deref(), suite)?;
            report_faults("this program", &run_suite(suite, binary, &how, &folder, false)?);
            (folder, guard)
        }
        (None, None) => bail!("no program given"),
    };
    let mut comparison = Comparison::default();
    for name in &names {
        let [theirs, ours] = [&theirs, &ours].map(|folder| folder.join(name));
        if is_recorded(&theirs) {
            let [theirs, ours] = [theirs, ours].map(|folder| folder.join("eve.json"));
            add_files(options, &mut comparison, name, &theirs, &ours)?;
        }
    }
    Ok(Some(comparison))
}

fn report_faults(side: &str, faults: &[String]) {
    for fault in faults {
        println!("did not end well: {side}: {fault}");
    }
}

fn add_files(
    options: &Options,
    comparison: &mut Comparison,
    name: &str,
    wanted: &Path,
    ours: &Path,
) -> Result<()> {
    let selected = |path: &Path| -> Result<Vec<_>> {
        let mut records = read_records(path)?;
        records.retain(|r| options.kinds.is_empty() || options.kinds.contains(&r.kind));
        Ok(records)
    };
    comparison.add_input(name, selected(wanted)?, selected(ours)?);
    Ok(())
}

fn print_comparison(options: &Options, suite: &str, comparison: &Comparison) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if options.json {
        let json: Value = report::as_json(suite, comparison);
        writeln!(out, "{json}")?;
        return Ok(());
    }
    if !options.lines {
        writeln!(out, "{}", report::table_by_kind(comparison))?;
        let listed = report::list_differences(comparison, options.rows, options.examples);
        writeln!(out, "{listed}")?;
    }
    writeln!(out, "{}", report::summary_line(suite, comparison))?;
    Ok(())
}

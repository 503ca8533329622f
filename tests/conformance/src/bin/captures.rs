//! `captures`: runs a sensor over captures with rules and compares the alerts of each rule with
//! Suricata's.
//!
//! Exit codes: 0 done (and no suite below its floor), 1 a suite fell below its floor, 2 usage,
//! 3 captures, rules, the program or a file can't be read or written.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use gabion_conformance::captures::pairs::{self, Counts, Sums};
use gabion_conformance::captures::sensor::{Found, Sensor, observe};
use gabion_conformance::captures::suites::{self, Suite};
use gabion_conformance::captures::{floors, names, report};

/// Compares the alerts of rules on captures with Suricata's
#[derive(Parser)]
#[command(name = "captures")]
struct Options {
    /// The sensor: a program that supports `rules test -S RULES -k none CAPTURES --tsv`
    #[arg(long, value_name = "PATH", required_unless_present_any = ["suricata", "observed"])]
    binary: Option<PathBuf>,
    /// Run this suricata instead, once for each capture
    #[arg(long, alias = "peer", value_name = "PATH", conflicts_with = "binary")]
    suricata: Option<PathBuf>,
    /// Run nothing; read lines of file, signature id and count from this file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["binary", "suricata"])]
    observed: Option<PathBuf>,
    /// Comparisons to run: demo, alerts, events, tests-alerts, bench [default: all but bench]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["rules", "captures"])]
    suite: Vec<String>,
    /// Rules of a comparison of your own: a file, or a folder with *.rules
    #[arg(long, value_name = "PATH", requires = "captures")]
    rules: Option<PathBuf>,
    /// Captures of a comparison of your own: a folder or a file
    #[arg(long, value_name = "PATH", requires = "rules")]
    captures: Option<PathBuf>,
    /// Expected counts of a comparison of your own
    #[arg(long, value_name = "FILE", requires = "rules")]
    expected: Option<PathBuf>,
    /// A further argument for the sensor, before the captures (repeatable)
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    arguments: Vec<String>,
    /// One run for each capture: slower, but a crash costs only one file
    #[arg(long)]
    per_file: bool,
    /// Parallel runs if each capture is a run [default: number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Time limit of one run in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    timeout: u64,
    /// File with the fewest right and the most extra pairs of each suite
    #[arg(long, value_name = "FILE")]
    floors: Option<PathBuf>,
    /// Raise the floors to the results of this run
    #[arg(long, requires = "floors")]
    raise: bool,
    /// Write the alerts as lines of file, signature id and count
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// List every wrong pair
    #[arg(long)]
    list: bool,
    /// Rows of the table by signature
    #[arg(long, value_name = "N", default_value_t = 40)]
    rows: usize,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("captures: {fault:#}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> Result<ExitCode> {
    let corpus = std::path::absolute(gabion_conformance::corpus())?;
    let suites = chosen(options, &corpus)?;
    if suites.len() > 1 && (options.observed.is_some() || options.output.is_some()) {
        bail!("--observed and --output need one --suite");
    }
    let mut floors = match &options.floors {
        Some(path) => floors::read(path)?,
        None => floors::Floors::new(),
    };
    let mut out = std::io::stdout().lock();
    let mut has_fallen = false;
    for suite in &suites {
        let sums = one_suite(options, suite, &corpus, &mut out)?;
        if let Some(floor) = floors.get(&suite.name)
            && !floor.holds(sums)
        {
            has_fallen = true;
            writeln!(
                out,
                "{}: below its floor of {} right and {} extra pairs",
                suite.name, floor.right_min, floor.extra_max
            )?;
        }
        if let (true, Some(path)) = (options.raise, &options.floors) {
            floors::raise(path, &mut floors, &suite.name, sums)?;
        }
    }
    Ok(ExitCode::from(u8::from(has_fallen)))
}

fn chosen(options: &Options, corpus: &Path) -> Result<Vec<Suite>> {
    if let (Some(rules), Some(captures)) = (&options.rules, &options.captures) {
        return Ok(vec![Suite {
            name: "own".to_owned(),
            rules: std::path::absolute(rules)?,
            captures: std::path::absolute(captures)?,
            expected: std::path::absolute(options.expected.as_deref().unwrap_or(Path::new("")))
                .unwrap_or_default(),
            unknown: None,
        }]);
    }
    if options.suite.is_empty() {
        return ["demo", "alerts", "events", "tests-alerts"]
            .into_iter()
            .map(|name| suites::kept(name, corpus))
            .collect();
    }
    options.suite.iter().map(|name| suites::kept(name, corpus)).collect()
}

fn sensor(options: &Options, corpus: &Path) -> Result<Sensor> {
    if let Some(suricata) = &options.suricata {
        return Ok(Sensor::Suricata {
            program: std::path::absolute(suricata)?,
            config: corpus.join("suricata-verify/suricata.yaml"),
            etc: corpus.join("rules"),
        });
    }
    let program = options.binary.as_deref().context("no program given")?;
    Ok(Sensor::Gabion {
        program: std::path::absolute(program)?,
        arguments: options.arguments.clone(),
        is_per_file: options.per_file,
    })
}

fn found(options: &Options, suite: &Suite, rules: &str, corpus: &Path) -> Result<Found> {
    if let Some(path) = &options.observed {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let counts = pairs::read(&text)?;
        let counts = if suite.is_single() { pairs::without_files(&counts) } else { counts };
        return Ok(Found { counts, faults: Vec::new() });
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(format!("{}.rules", suite.name));
    std::fs::write(&path, rules)?;
    let jobs = match options.jobs {
        Some(jobs) => jobs,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    observe(&sensor(options, corpus)?, suite, &path, jobs, Duration::from_secs(options.timeout))
}

fn one_suite(
    options: &Options,
    suite: &Suite,
    corpus: &Path,
    out: &mut impl Write,
) -> Result<Sums> {
    let rules = suite.rules_text()?;
    let found = found(options, suite, &rules, corpus)?;
    for (file, fault) in &found.faults {
        let file = if file.is_empty() { &suite.name } else { file };
        writeln!(out, "did not end well: {file}: {fault}")?;
    }
    if let Some(path) = &options.output {
        write_counts(path, &found.counts)?;
    }
    if suite.name == "own" && options.expected.is_none() {
        let total: u64 = found.counts.values().sum();
        writeln!(out, "{} pairs, {total} alerts", found.counts.len())?;
        return Ok(Sums::default());
    }
    let names = names::of_rules(&rules);
    let mut seen = found.counts;
    if !suite.is_single() {
        // Files without the name of a capture have no expected result either.
        seen.retain(|(file, _), _| suites::is_capture(Path::new(file)));
    }
    let comparison = pairs::compare(&suite.expected()?, &seen, &suite.unknown()?);
    if options.list {
        writeln!(out, "{}", report::wrong_pairs(&comparison, &names))?;
    }
    if !suite.is_single() {
        writeln!(out, "{}", report::by_folder(&comparison))?;
    }
    let kinds = report::by_kind(&comparison);
    if !kinds.is_empty() {
        writeln!(out, "{kinds}")?;
    }
    writeln!(out, "{}", report::by_signature(&comparison, &names, options.rows))?;
    writeln!(out, "{}\n", report::line(&suite.name, &comparison))?;
    Ok(Sums::of(&comparison.pairs))
}

fn write_counts(path: &Path, counts: &Counts) -> Result<()> {
    let has_files = counts.keys().any(|(file, _)| !file.is_empty());
    let mut text = if has_files { "# file\tsid\tcount\n" } else { "# sid\tcount\n" }.to_owned();
    for ((file, sid), count) in counts {
        if !file.is_empty() {
            text.push_str(file);
            text.push('\t');
        }
        text.push_str(&format!("{sid}\t{count}\n"));
    }
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

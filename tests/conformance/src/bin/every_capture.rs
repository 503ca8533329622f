//! `every-capture`: reads every capture to its end, or it is refused with one line.
//!
//! First each capture by itself, without rules. Then, with `--rules`, many in a run, by one worker
//! and by `--workers`, which must have the same findings.
//!
//! Exit codes: 0 all passed, 1 some failed, 2 usage, 3 the program or a folder can't be read.
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use gabion_conformance::whole::{How, Run, captures_below, read};

/// Captures of one run with rules: loading rules costs more than reading captures.
const TOGETHER: usize = 400;

/// Reads every capture and checks that each run ends as it should
#[derive(Parser)]
#[command(name = "every-capture")]
struct Options {
    /// The program: it supports `read --json`
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,
    /// Read all again with these rules, with one worker and with several
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Workers of the last run with rules
    #[arg(long, value_name = "N", default_value_t = 2)]
    workers: u32,
    /// Captures in one run without rules
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    together: u32,
    /// Parallel runs [default: number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Time limit of one capture in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Folders of captures [default: captures and suricata-verify of the corpus]
    folders: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(fault) => {
            eprintln!("every-capture: {fault:#}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    let mut folders = options.folders.clone();
    if folders.is_empty() {
        let corpus = std::path::absolute(gabion_conformance::corpus())?;
        folders = ["captures", "suricata-verify"].map(|part| corpus.join(part)).to_vec();
    }
    let captures = captures_below(&folders).context("cannot list the captures")?;
    if captures.is_empty() {
        bail!("no captures in {}", folders[0].display());
    }
    let how = |rules: Option<&PathBuf>, workers, files: u64| How {
        program: options.binary.clone(),
        rules: rules.cloned(),
        workers,
        limit: Duration::from_secs(options.timeout * files),
    };
    let together = options.together as usize;
    let alone = all(options, &how(None, 1, together as u64), &captures, together)?;
    let mut is_good = print_summary("without rules", &alone, captures.len());
    if let Some(rules) = &options.rules {
        let one = all(options, &how(Some(rules), 1, 20), &captures, TOGETHER)?;
        is_good &= print_summary("with rules, one worker", &one, captures.len());
        let several = all(options, &how(Some(rules), options.workers, 20), &captures, TOGETHER)?;
        let name = format!("with rules, {} workers", options.workers);
        is_good &= print_summary(&name, &several, captures.len());
        for (at, (a, b)) in one.iter().zip(&several).enumerate() {
            if (a.packets, a.alerts, &a.findings) != (b.packets, b.alerts, &b.findings) {
                let first = captures.get(at * TOGETHER).map(|p| p.display().to_string());
                println!("{}…: not the same findings", first.unwrap_or_default());
                is_good = false;
            }
        }
    }
    Ok(is_good)
}

/// Reads all captures, `together` of them in each run, with parallel runs; the results are in
/// order.
fn all(options: &Options, how: &How, captures: &[PathBuf], together: usize) -> Result<Vec<Run>> {
    let parts: Vec<&[PathBuf]> = captures.chunks(together.max(1)).collect();
    let jobs =
        options.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(parts.len())));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(part) = parts.get(at) else { return };
                    let run = read(how, part);
                    done.lock().expect("no run panics").push((at, run));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no run panics");
    done.sort_by_key(|(at, _)| *at);
    let mut runs = Vec::with_capacity(done.len());
    for (at, run) in done {
        let mut run = run.with_context(|| format!("cannot run {}", how.program.display()))?;
        let first = parts.get(at).and_then(|part| part.first());
        let first = first.map(|path| path.display().to_string()).unwrap_or_default();
        let more = if together > 1 { "…" } else { "" };
        run.faults.iter_mut().for_each(|fault| *fault = format!("{first}{more}: {fault}"));
        runs.push(run);
    }
    Ok(runs)
}

/// Prints the faults and the sums. Returns whether there were no faults.
fn print_summary(name: &str, runs: &[Run], captures: usize) -> bool {
    let faults: Vec<_> = runs.iter().flat_map(|run| &run.faults).collect();
    faults.iter().for_each(|fault| println!("{fault}"));
    let refused: usize = runs.iter().map(|run| run.refused).sum();
    let (packets, alerts) = runs.iter().fold((0, 0), |(p, a), r| (p + r.packets, a + r.alerts));
    println!(
        "{name}: {} of {captures} captures read to their end, {refused} refused with one line, \
         {packets} packets, {alerts} alerts, {} faults",
        captures - refused,
        faults.len()
    );
    faults.is_empty()
}

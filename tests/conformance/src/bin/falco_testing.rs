//! `falco-testing`: runs Falco's regression tests against a program that answers to Falco's command line.
//!
//! Exit codes: 0 done (and not below the floor), 1 below the floor, 2 usage, 3 a file or the program can't be read.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use gabion_conformance::falco;

/// Runs Falco's regression tests
#[derive(Parser)]
#[command(name = "falco-testing")]
struct Options {
    /// The program: Gabion, or Falco itself
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,
    /// Only tests whose name contains this
    #[arg(long, value_name = "PART", default_value = "")]
    filter: String,
    /// Also tests that need a plugin from a file
    #[arg(long)]
    with_plugins: bool,
    /// Print what does not hold
    #[arg(long)]
    list_failures: bool,
    /// File with the number of tests that must pass
    #[arg(long, value_name = "FILE")]
    floor: Option<PathBuf>,
    /// Raise the floor to the result of this run
    #[arg(long, requires = "floor")]
    raise: bool,
    /// Time limit of one test in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "falco-testing: {error:#}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    let corpus = gabion_conformance::corpus();
    let folder =
        corpus.join("falco-testing").canonicalize().context("no falco-testing in the corpus")?;
    let captures = corpus.join("scap/captures").canonicalize()?;
    let tests = falco::tests(&folder.join("tests.yaml"))?;
    let (mut passed, mut failed) = (0, 0);
    let mut out = std::io::stdout().lock();
    for test in tests.iter().filter(|test| test.name.contains(&options.filter)) {
        let limit = Duration::from_secs(options.timeout);
        let finished = falco::run(test, &options.binary, &folder, &captures, limit)?;
        let mut faults = Vec::new();
        for entry in &test.expect {
            faults.extend(falco::check(entry, &finished, &folder)?);
        }
        if faults.is_empty() {
            passed += 1;
        } else if !test.needs_plugin || options.with_plugins {
            failed += 1;
            if options.list_failures {
                writeln!(out, "{}:", test.name)?;
                for fault in &faults {
                    writeln!(out, "    {fault}")?;
                }
                writeln!(out, "    exit code {:?}", finished.exit_code)?;
                for line in finished.stderr.lines().take(5) {
                    writeln!(out, "    | {line}")?;
                }
            }
        }
    }
    writeln!(out, "{passed} passed, {failed} failed of {}", tests.len())?;
    let Some(path) = &options.floor else { return Ok(true) };
    let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
    let floor: usize = text.lines().find_map(|line| line.trim().parse().ok()).unwrap_or(0);
    if passed < floor {
        writeln!(out, "below the floor: {floor} passed before")?;
        return Ok(false);
    }
    if options.raise && passed > floor {
        fs::write(path, format!("# tests of Falco that pass, at least\n{passed}\n"))?;
    }
    Ok(true)
}

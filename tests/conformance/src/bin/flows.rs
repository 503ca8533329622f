//! `flows`: runs a program over flow logs and compares its findings with the expected ones.
//!
//! Exit codes: 0 done (and not below the floor), 1 below the floor, 2 usage, 3 something cannot be
//! read or run.
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use anyhow::{Context, Result};
use clap::Parser;
use gabion_conformance::flows::{self, Verdict};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares the findings in flow logs with the expected ones
#[derive(Parser)]
#[command(name = "flows")]
struct Options {
    /// The program: it supports `read --behavior --json -q -l FOLDER INPUT --intel LIST`
    #[arg(long, value_name = "PATH")]
    binary: PathBuf,
    /// Folder of inputs with their expected.tsv
    #[arg(long, value_name = "FOLDER")]
    inputs: Option<PathBuf>,
    /// File with the fewest matching rows, by source of rows
    #[arg(long, value_name = "FILE")]
    floors: Option<PathBuf>,
    /// Raise the floors to the results of this run
    #[arg(long, requires = "floors")]
    raise: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("flows: {e:#}");
            ExitCode::from(3)
        }
    }
}

fn run(o: &Options) -> Result<bool> {
    let folder = o.inputs.clone().unwrap_or_else(|| gabion_conformance::corpus().join("flows"));
    let rows = flows::rows(&folder.join("expected.tsv"))?;
    let lists = flows::lists(&folder);
    let mut sums: BTreeMap<String, (usize, usize, usize)> = BTreeMap::new();
    for (input, rows) in flows::by_input(rows) {
        let Some(place) = flows::place(&folder, &input) else {
            println!("{input}\tis missing");
            continue;
        };
        let scratch = tempfile::tempdir().context("cannot create a folder for outputs")?;
        let output = flows::run(&o.binary, &place, scratch.path(), &lists)?;
        for row in rows {
            let (verdict, there) = flows::judge(&row, &output);
            let sum = sums.entry(row.source.clone()).or_default();
            match verdict {
                Verdict::Met => sum.0 += 1,
                Verdict::Missed => sum.1 += 1,
                Verdict::NotAsked => sum.2 += 1,
            }
            if verdict != Verdict::Met {
                let what = if verdict == Verdict::Missed { "missed" } else { "not asked" };
                println!(
                    "{what}\t{input}\t{}\t{}\t{}\t{}\tthere: {there}",
                    row.source, row.key, row.value, row.count
                );
            }
        }
    }
    println!("# source\tmet\tmissed\tnot asked");
    for (source, (met, missed, not_asked)) in &sums {
        println!("{source}\t{met}\t{missed}\t{not_asked}");
    }
    let Some(path) = &o.floors else { return Ok(true) };
    let mut floors = read_floors(path)?;
    let mut holds = true;
    for (source, floor) in &floors {
        let met = sums.get(source).map_or(0, |s| s.0);
        if met < *floor {
            println!("below the floor: {source}: {met} met, {floor} before");
            holds = false;
        }
    }
    if o.raise && holds {
        for (source, sum) in &sums {
            let floor = floors.entry(source.clone()).or_default();
            *floor = (*floor).max(sum.0);
        }
        let lines: String = floors.iter().map(|(s, n)| format!("{s}\t{n}\n")).collect();
        fs::write(path, format!("# source\trows met, at least\n{lines}"))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(holds)
}

fn read_floors(path: &PathBuf) -> Result<BTreeMap<String, usize>> {
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    text.lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(|line| {
            let (source, n) = line.split_once('\t').context("a floor has two columns")?;
            Ok((source.to_owned(), n.trim().parse()?))
        })
        .collect()
}

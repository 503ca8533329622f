//! `eve-schema`: validates EVE files against Suricata's JSON schema.
//!
//! Exit codes: 0 all records are valid, 1 some are not, 2 usage, 3 a file can't be read.
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use gabion_conformance::schema::{Findings, Schema};

/// Validates EVE files against Suricata's JSON schema
#[derive(Parser)]
#[command(name = "eve-schema")]
struct Options {
    /// The schema [default: suricata-verify/schema.json of the corpus]
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
    /// The table of Gabion's own members: path and reason, by a tab
    #[arg(long, value_name = "FILE")]
    own: Option<PathBuf>,
    /// The program, which is asked for its protocols: of those that the schema lacks, their objects
    /// and counters are valid
    #[arg(long, value_name = "PROGRAM")]
    binary: Option<PathBuf>,
    /// EVE files, or folders whose files named eve*.json are looked at
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(fault) => {
            eprintln!("eve-schema: {fault:#}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> Result<bool> {
    let schema = match &options.schema {
        Some(path) => path.clone(),
        None => gabion_conformance::corpus().join("suricata-verify/schema.json"),
    };
    let own = options.own.as_deref().map(own_members).transpose()?.unwrap_or_default();
    let protocols = options.binary.as_deref().map(protocols).transpose()?.unwrap_or_default();
    let schema = Schema::read(&schema, &own, &protocols)?;
    let mut findings = Findings::default();
    for path in &options.paths {
        if path.is_dir() {
            folder(path, &schema, &mut findings)?;
        } else {
            schema.file(path, &mut findings)?;
        }
    }
    for (kind, (times, path, line)) in &findings.kinds {
        println!("{times:8}  {kind}  (first: {}:{line})", path.display());
    }
    let Findings { files, records, broken, .. } = findings;
    println!("{files} files, {records} records, {broken} not valid");
    Ok(broken == 0)
}

/// The paths of the table of own members.
fn own_members(path: &Path) -> Result<Vec<String>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    Ok(rows.filter_map(|row| row.split_once('\t')).map(|(path, _)| path.to_owned()).collect())
}

/// The protocols that the program has.
fn protocols(binary: &Path) -> Result<Vec<String>> {
    let ran = std::process::Command::new(binary)
        .args(["suricata", "--list-app-layer-protos"])
        .output()
        .with_context(|| format!("cannot run {}", binary.display()))?;
    let names = String::from_utf8_lossy(&ran.stdout);
    Ok(names.lines().skip(1).map(str::to_owned).collect())
}

fn folder(path: &Path, schema: &Schema, findings: &mut Findings) -> Result<()> {
    let cannot = || format!("cannot read the folder {}", path.display());
    let mut entries: Vec<_> =
        std::fs::read_dir(path).with_context(cannot)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            folder(&path, schema, findings)?;
        } else if name.starts_with("eve") && name.ends_with(".json") {
            schema.file(&path, findings)?;
        }
    }
    Ok(())
}

//! `gabion probe`: what this kernel permits of the programs that live sources need, and recordings of system calls.

use crate::exit::{Exit, Fault, about};
use crate::{direct_opener, standard_output, values};
use clap::{Args, Subcommand};
use gabion_probe::features::{self, Feature};
use gabion_probe::syscalls::{Interest, Settings};
use gabion_record::json::Json;
use gabion_runtime::Signals;
use gabion_sensor::syscalls::{Recorded, Recording};
use std::path::PathBuf;
use std::time::Duration;

/// What to do with the probe.
#[derive(Debug, Subcommand)]
pub(crate) enum ProbeVerb {
    /// Try each thing that live sources need of this kernel; exit code 4 when one of them is missing
    Check(CheckOptions),
    /// Record the system calls of this host into a scap file, until SIGTERM
    Record(RecordOptions),
}

/// Options of `probe check`.
#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Options of `probe record`.
#[derive(Debug, Args)]
pub(crate) struct RecordOptions {
    /// The file to write; it must not exist
    #[arg(value_name = "FILE", required_unless_present = "write", conflicts_with = "write")]
    file: Option<PathBuf>,
    /// The file to write, as sysdig's option names it
    #[arg(short = 'w', value_name = "FILE")]
    write: Option<PathBuf>,
    /// Only these calls, instead of those that Falco records by default
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    calls: Vec<String>,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    seconds: Option<u64>,
    /// End after this many events
    #[arg(long, value_name = "NUMBER", value_parser = values::rows)]
    events: Option<usize>,
    /// Print at the end what was counted: in the kernel, by its programs, in user space, by call
    #[arg(long)]
    stats: bool,
}

/// Runs the verb.
pub(crate) fn run(verb: &ProbeVerb) -> Result<Exit, Fault> {
    match verb {
        ProbeVerb::Check(o) => Ok(check(o)),
        ProbeVerb::Record(o) => record(o),
    }
}

fn check(o: &CheckOptions) -> Exit {
    let list = features::all();
    if o.json {
        standard_output::text(features_json(&list));
    } else {
        for feature in &list {
            let (mark, text) = match &feature.result {
                Ok(remark) if remark.is_empty() => ("yes", feature.purpose.to_owned()),
                Ok(remark) => ("yes", format!("{} ({remark})", feature.purpose)),
                Err(error) => ("no", format!("{}: {error}", feature.purpose)),
            };
            standard_output::line(format_args!("{mark:<4}{:<11}{text}", feature.name));
        }
    }
    let is_good = list.iter().all(|f| f.is_here() || f.needed_by.is_empty());
    if is_good { Exit::Done } else { Exit::Environment }
}

fn features_json(list: &[Feature]) -> String {
    let mut json = Json::new();
    json.open();
    for feature in list {
        json.open_key(feature.name);
        json.boolean("works", feature.is_here());
        if let Err(error) = &feature.result {
            json.field("error", error.to_string());
        }
        json.close();
    }
    json.close();
    json.into_line()
}

fn record(o: &RecordOptions) -> Result<Exit, Fault> {
    let Some(file) = o.file.as_ref().or(o.write.as_ref()) else {
        return Err(Fault::usage("probe record: name the file to write"));
    };
    let interest = interest(&o.calls)?;
    let signals = Signals::install().map_err(|e| Fault::environment(about("signals", &e)))?;
    let recording = Recording {
        settings: Settings { counts_runs: o.stats, ..Settings::new(interest) },
        root: PathBuf::from("/"),
        lasting: o.seconds.map(Duration::from_secs),
        events: o.events.and_then(|n| u64::try_from(n).ok()),
        stop: signals.stop().clone(),
    };
    let done = recording.write_file(&direct_opener(), file)?;
    for line in done.absent.iter().map(String::as_str).chain(done.unseen) {
        eprintln!("gabion: probe: {line}");
    }
    summary(&done);
    if o.stats {
        standard_output::text(done.statistics.text());
    }
    done.balance()?;
    Ok(Exit::Done)
}

/// The calls that are recorded.
fn interest(calls: &[String]) -> Result<Interest, Fault> {
    if calls.is_empty() {
        return Ok(Interest::simple());
    }
    let mut set = Interest::none();
    for name in calls {
        if !set.add(name) && name != "procexit" {
            return Err(Fault::usage(format!(
                "probe record: --calls {name}: no such call: name calls as the kernel does, such as openat"
            )));
        }
    }
    Ok(set)
}

fn summary(done: &Recorded) {
    let total = done.counts.total();
    standard_output::line(format_args!(
        "{} events of {} calls, {} shed, {} bytes for each record; before the first: {} threads, {} descriptors",
        done.events,
        total.received,
        total.shed_ring + total.shed_size,
        done.counts.bytes.checked_div(total.passed).unwrap_or(0),
        done.before.threads,
        done.before.fds
    ));
    for (what, count) in done.statistics.account.faults() {
        eprintln!("gabion: probe: {what}: {count}");
    }
}

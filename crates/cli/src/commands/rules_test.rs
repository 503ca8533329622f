//! `gabion rules test`: which rule alerts how often in which capture.
//!
//! The rules are compiled once and shared; every capture is read by a worker of its own, so no
//! state of one capture (flows, thresholds, bits) changes the result of another. Captures are read
//! by several threads; the answer is sorted and does not depend on how many.

use super::rule_files;
use crate::command_line::TestOptions;
use crate::exit::{Exit, Fault};
use crate::operator_file;
use crate::standard_output;
use crate::{configuration, standard_error};
use gabion_net::Engine;
use gabion_record::eve::*;
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_sensor::{Input, format_rule_id, has_capture_name, list_captures, read_capture};
use gabion_settings::{EngineMode, build_engine};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Stack of a reading thread: as much as a program's first thread has.
const STACK_BYTES: usize = 8 << 20;

/// Alerts by generator and signature.
type Counts = BTreeMap<(u32, u32), u64>;
/// The same by file.
type FileCounts = BTreeMap<(String, u32, u32), u64>;

/// A capture to read.
struct Capture {
    /// As it is named in the answer: relative to the folder it was found in.
    name: String,
    path: PathBuf,
    /// Named by the user, rather than found in a folder.
    is_named: bool,
}

/// The outcome of one capture.
enum Outcome {
    Read(Counts),
    Unreadable(String),
    Crashed,
}

/// Runs the verb.
pub(crate) fn run(o: &TestOptions) -> Result<Exit, Fault> {
    if o.engine.rules.is_empty() {
        return Err(Fault::usage("rules test: no rules: name a rule file with -S"));
    }
    let config = configuration::load(o.engine.config.as_deref(), &o.engine.sets)?;
    let catalog = gabion_proto::registry::catalog();
    let compiled = rule_files::compile(
        &o.engine.rules,
        &config,
        &catalog,
        false,
        &o.engine.selection.files(),
    )?;
    rule_files::say(&compiled, rule_files::Say::of(false, o.verbose));
    rule_files::is_any_left(&compiled)?;
    let mode = EngineMode {
        inline: o.engine.simulate_ips,
        checksums: o.engine.checksums(),
        ..EngineMode::default()
    };
    let wants = Wants::default();
    let rules = Some((compiled.set, compiled.datasets));
    let engine =
        build_engine(&config, rules, catalog, wants, mode, standard_error::script_setup(&config))
            .map_err(|e| Fault::input(format!("configuration: {e}: fix it")))?;
    let captures = captures(&o.captures)?;
    let outcomes = read_all(&Arc::new(engine), &captures, o.jobs);
    let (counts, exit) = gather(&captures, outcomes);
    match &o.expect {
        Some(path) => compare(path, &counts, exit),
        None => {
            print(&counts, o.tsv);
            Ok(exit)
        }
    }
}

/// All captures that are meant, sorted by name.
fn captures(inputs: &[PathBuf]) -> Result<Vec<Capture>, Fault> {
    let mut all = Vec::new();
    for given in inputs {
        for input in list_captures(std::slice::from_ref(given))? {
            let inside = (!input.is_named).then(|| input.path.strip_prefix(given).ok()).flatten();
            let name = inside.unwrap_or(&input.path).display().to_string();
            all.push(Capture { name, path: input.path, is_named: input.is_named });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

fn read_all(engine: &Arc<Engine>, captures: &[Capture], jobs: Option<usize>) -> Vec<Outcome> {
    let jobs = jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .clamp(1, captures.len().max(1));
    let next = AtomicUsize::new(0);
    let outcomes: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
    let work = || {
        while let Some((at, capture)) = take(&next, captures) {
            let outcome = read_one(engine, &capture.path);
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push((at, outcome));
        }
    };
    std::thread::scope(|scope| {
        let started = (0..jobs).filter_map(|n| {
            let thread = std::thread::Builder::new().name(format!("test {n}"));
            thread.stack_size(STACK_BYTES).spawn_scoped(scope, work).ok()
        });
        if started.count() == 0 {
            work();
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn take<'c>(next: &AtomicUsize, captures: &'c [Capture]) -> Option<(usize, &'c Capture)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, captures.get(at)?))
}

fn read_one(engine: &Arc<Engine>, path: &Path) -> Outcome {
    // A fault of the engine costs this capture and is reported; the others are still read.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut sink = AlertCounts::default();
        let input = Input { path: path.to_path_buf(), is_named: true };
        let done = read_capture(engine, &input, &mut sink);
        match done.error {
            None => Outcome::Read(sink.counts),
            Some(e) => Outcome::Unreadable(e),
        }
    }));
    outcome.unwrap_or(Outcome::Crashed)
}

/// Adds up the findings and reports what could not be read.
fn gather(captures: &[Capture], outcomes: Vec<Outcome>) -> (FileCounts, Exit) {
    let mut all = FileCounts::new();
    let mut exit = Exit::Done;
    let mut others = 0;
    for (capture, outcome) in captures.iter().zip(outcomes) {
        match outcome {
            Outcome::Read(counts) => {
                for ((gid, sid), n) in counts {
                    *all.entry((capture.name.clone(), gid, sid)).or_default() += n;
                }
            }
            Outcome::Unreadable(e) if capture.is_named || has_capture_name(&capture.path) => {
                eprintln!(
                    "{}",
                    Fault::input(format!(
                        "{}: {e}: left out: name a capture",
                        capture.path.display()
                    ))
                );
                if capture.is_named {
                    exit = exit.max(Exit::Input);
                }
            }
            Outcome::Unreadable(_) => others += 1,
            Outcome::Crashed => {
                let path = capture.path.display();
                eprintln!("{}", Fault::internal(format!("{path}: the engine failed: left out")));
                exit = Exit::Internal;
            }
        }
    }
    if others > 0 {
        eprintln!("gabion: {others} files in the folders are no captures by name or content");
    }
    (all, exit)
}

fn print(counts: &FileCounts, as_lines: bool) {
    let mut text = String::new();
    if !as_lines {
        let alerts: u64 = counts.values().sum();
        let _ = writeln!(text, "{alerts} alerts, {} pairs of capture and rule", counts.len());
    }
    for ((file, gid, sid), n) in counts {
        let _ = writeln!(text, "{file}\t{}\t{n}", format_rule_id(*gid, *sid));
    }
    standard_output::text(&text);
}

/// Compares with expected lines; of two fields (id and count) when all files are counted together.
fn compare(path: &Path, counts: &FileCounts, exit: Exit) -> Result<Exit, Fault> {
    let text = operator_file::text(path, NAMED_FILE_BYTES_MAX).map_err(|e| {
        Fault::input(format!("{}: unreadable: {e}: name a file with --expect", path.display()))
    })?;
    let (expected, has_files) = expectations(&text)
        .map_err(|e| Fault::input(format!("{}: {e}: write FILE, SID, COUNT", path.display())))?;
    let mut found: BTreeMap<(String, String), u64> = BTreeMap::new();
    for ((file, gid, sid), n) in counts {
        let file = if has_files { file.clone() } else { String::new() };
        *found.entry((file, format_rule_id(*gid, *sid))).or_default() += n;
    }
    let mut text = String::new();
    let mut different = 0;
    let keys: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let total = keys.len();
    for key in keys {
        let (e, f) = (expected.get(key).copied(), found.get(key).copied());
        if e != f {
            different += 1;
            let (e, f) = (e.unwrap_or(0), f.unwrap_or(0));
            let _ = writeln!(text, "{}\t{}\texpected {e}\tfound {f}", key.0, key.1);
        }
    }
    let _ = writeln!(text, "{} of {total} pairs as expected", total - different);
    standard_output::text(&text);
    Ok(if different > 0 && exit == Exit::Done { Exit::No } else { exit })
}

type Expectations = (BTreeMap<(String, String), u64>, bool);

fn expectations(text: &str) -> Result<Expectations, String> {
    let mut map = BTreeMap::new();
    let mut has_files = false;
    for (at, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let fields: Vec<&str> = line.split('\t').collect();
        let (file, sid, n) = match fields.as_slice() {
            [sid, n] => ("", *sid, *n),
            [file, sid, n, ..] => (*file, *sid, *n),
            _ => return Err(format!("line {}: too few fields", at + 1)),
        };
        has_files |= !file.is_empty();
        let n: u64 = n.trim().parse().map_err(|_| format!("line {}: no count", at + 1))?;
        *map.entry((file.to_string(), sid.trim().to_string())).or_default() += n;
    }
    Ok((map, has_files))
}

/// A sink that only counts alerts.
#[derive(Default)]
struct AlertCounts {
    counts: Counts,
}

impl NetSink for AlertCounts {
    fn alert(&mut self, r: &AlertRecord<'_>) {
        *self.counts.entry((r.signature.gid, r.signature.sid)).or_default() += 1;
    }
    fn app(&mut self, _: &AppRecord<'_>) {}
    fn file(&mut self, _: &FileRecord<'_>) {}
    fn file_chunk(&mut self, _: &FileChunk<'_>) {}
    fn flow(&mut self, _: &FlowRecord<'_>) {}
    fn anomaly(&mut self, _: &AnomalyRecord<'_>) {}
    fn dropped(&mut self, _: &DropRecord<'_>) {}
    fn packet(&mut self, _: &PacketRecord<'_>) {}
    fn arp(&mut self, _: &Header<'_>, _: &dyn WriteObject) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_two_and_three_fields_are_understood() {
        let (map, has_files) = expectations("# sid\tcount\n5\t2\n3:7\t1\n").unwrap();
        assert!(!has_files);
        assert_eq!(map[&(String::new(), "3:7".into())], 1);
        let (map, has_files) = expectations("a/b.pcap\t5\t2\na/b.pcap\t5\t1\n").unwrap();
        assert!(has_files);
        assert_eq!(map[&("a/b.pcap".into(), "5".into())], 3);
        assert!(expectations("a\n").is_err());
        assert!(expectations("a\t1\tx\n").is_err());
    }
}

//! `gabion rules test`: which rule alerts how often in which capture.

use super::with_rules::{self, EngineUse};
use crate::command_line::TestOptions;
use crate::exit::{Exit, Fault};
use crate::{configuration, input_opener, operator_file, standard_output};
use gabion_record::eve::Wants;
use gabion_reports::LoadDetail;
use gabion_rules::format_rule_id;
use gabion_runtime::limits::NAMED_FILE_BYTES_MAX;
use gabion_sensor::packets::{AlertCounts, Input};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Alerts by file, generator and signature.
type FileCounts = BTreeMap<(String, u32, u32), u64>;

/// A capture to read.
struct Capture {
    /// As it is named in the answer: relative to the folder it was found in.
    name: String,
    path: PathBuf,
    /// Named by the user, rather than found in a folder.
    is_named: bool,
}

/// Runs the verb.
pub(crate) fn run(o: &TestOptions) -> Result<Exit, Fault> {
    if o.engine.rules.is_empty() {
        return Err(Fault::usage("rules test: no rules: name a rule file with -S"));
    }
    let config = configuration::load(o.engine.config.as_deref(), &o.engine.sets)?;
    let for_use = EngineUse {
        wants: Wants::default(),
        detail: LoadDetail::from_flags(false, o.verbose),
        profile: None,
        log_dir: None,
    };
    let engine = with_rules::engine(&o.engine, &config, for_use)?;
    let captures = captures(&o.captures)?;
    let paths: Vec<&Path> = captures.iter().map(|capture| capture.path.as_path()).collect();
    let outcomes = AlertCounts::of_captures(&engine.now(), &input_opener(), &paths, o.jobs);
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
        for input in Input::list(std::slice::from_ref(given))? {
            let inside = (!input.is_named).then(|| input.path.strip_prefix(given).ok()).flatten();
            let name = inside.unwrap_or(&input.path).display().to_string();
            all.push(Capture { name, path: input.path, is_named: input.is_named });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// Adds up the findings and reports what could not be read.
fn gather(captures: &[Capture], outcomes: Vec<AlertCounts>) -> (FileCounts, Exit) {
    let mut all = FileCounts::new();
    let mut exit = Exit::Done;
    let mut others = 0;
    for (capture, outcome) in captures.iter().zip(outcomes) {
        match outcome {
            AlertCounts::Counted(counts) => {
                for ((gid, sid), n) in counts {
                    *all.entry((capture.name.clone(), gid, sid)).or_default() += n;
                }
            }
            AlertCounts::Unreadable(e)
                if capture.is_named || Input::has_capture_name(&capture.path) =>
            {
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
            AlertCounts::Unreadable(_) => others += 1,
            AlertCounts::Failed => {
                let path = capture.path.display();
                eprintln!("{}", Fault::internal(format!("{path}: the engine failed: left out")));
                exit = Exit::Internal;
            }
        }
    }
    if others > 0 {
        let no_captures = Fault::no_captures(others, captures.len());
        exit = exit.max(no_captures.exit);
        eprintln!("{no_captures}");
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

//! Checks that a program reads any capture to its end, or refuses it with one line: no crash, no
//! hang, a balanced ledger, and the matching exit code.
//!
//! The sums of the ledger are computed here again from the JSON of `read --json`, and do not rely
//! on the program's own check.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::verify::process::{Ending, run};

/// Exit code of `read` if something could not be read.
const UNREADABLE: i32 = 3;

/// How captures are read.
#[derive(Clone, Debug)]
pub struct How {
    /// The program.
    pub program: PathBuf,
    /// Rules to load, if any.
    pub rules: Option<PathBuf>,
    /// `--workers`.
    pub workers: u32,
    /// Time limit of one run.
    pub limit: Duration,
}

/// The result of one run.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Captures that were refused.
    pub refused: usize,
    /// Frames read.
    pub packets: u64,
    /// Alerts.
    pub alerts: u64,
    /// The findings in the program's JSON.
    pub findings: String,
    /// The faults, one line each.
    pub faults: Vec<String>,
}

/// Reads these captures in one run.
///
/// # Errors
/// The program can't be started, or its output can't be stored.
pub fn read(how: &How, captures: &[PathBuf]) -> io::Result<Run> {
    let (mut out, mut err): (File, File) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let mut command = Command::new(&how.program);
    command.args(["read", "-q", "--json", "--workers", &how.workers.to_string()]);
    if let Some(rules) = &how.rules {
        command.arg("-S").arg(rules);
    }
    command.args(captures).stdout(Stdio::from(out.try_clone()?)).stderr(err.try_clone()?);
    let ending = run(&mut command, how.limit)?;
    let mut texts = [String::new(), String::new()];
    for (file, text) in [&mut out, &mut err].into_iter().zip(&mut texts) {
        file.rewind()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        *text = String::from_utf8_lossy(&bytes).into_owned();
    }
    let [output, errors] = &texts;
    Ok(judge(ending, output, errors, captures))
}

/// Judges a run by its ending, its JSON and its messages.
#[must_use]
pub fn judge(ending: Ending, output: &str, errors: &str, captures: &[PathBuf]) -> Run {
    let mut run = Run::default();
    let Ok(json) = serde_json::from_str::<Value>(output) else {
        let first = errors.lines().next().unwrap_or("no message");
        run.faults.push(format!("{ending}, no JSON: {first}"));
        return run;
    };
    let inputs = json["inputs"].as_array().map_or(&[][..], Vec::as_slice);
    run.refused = inputs.iter().filter(|input| input["error"].is_string()).count();
    run.packets = json["packets"].as_u64().unwrap_or(0);
    run.alerts = json["alerts"].as_u64().unwrap_or(0);
    run.findings = json["findings"].to_string();
    let due = if run.refused > 0 { UNREADABLE } else { 0 };
    if ending != Ending::Exit(due) {
        run.faults.push(format!("{ending}, {due} was expected"));
    }
    if inputs.len() != captures.len() {
        run.faults.push(format!("{} captures reported, {} given", inputs.len(), captures.len()));
    }
    for line in errors.lines().filter(|line| !line.starts_with("gabion: ")) {
        run.faults.push(format!("output other than messages: {line}"));
    }
    for input in inputs.iter().filter(|input| input["error"].is_string()) {
        let path = input["path"].as_str().unwrap_or_default();
        let lines = errors.lines().filter(|line| line.contains(path)).count();
        if lines != 1 {
            run.faults.push(format!("{path}: refused with {lines} lines"));
        }
    }
    run.faults.extend(unbalanced(&json["ledger"]));
    run
}

/// Stages whose sums do not hold: received = passed + shed + in flight, and nothing in flight at
/// the end.
fn unbalanced(ledger: &Value) -> Vec<String> {
    let Some(stages) = ledger.as_array().filter(|stages| !stages.is_empty()) else {
        return vec!["no ledger".to_owned()];
    };
    let mut faults = Vec::new();
    for stage in stages {
        for unit in ["items", "bytes"] {
            let of = |tally: &Value| tally[unit].as_u64().unwrap_or(0);
            let shed: u64 =
                stage["shed"].as_object().map_or(0, |reasons| reasons.values().map(of).sum());
            let (received, passed) = (of(&stage["received"]), of(&stage["passed"]));
            let in_flight = of(&stage["in_flight"]);
            if received != passed + shed + in_flight || in_flight != 0 {
                faults.push(format!(
                    "{}: {received} {unit} received, {passed} passed, {shed} shed, {in_flight} in flight",
                    stage["stage"]
                ));
            }
        }
    }
    faults
}

/// Every capture below these folders, by name or by the first bytes of a file.
///
/// # Errors
/// A folder can't be read.
pub fn captures_below(folders: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = folders.to_vec();
    while let Some(folder) = left.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                left.push(path);
            } else if crate::captures::suites::is_capture(&path) || begins_as_capture(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn begins_as_capture(path: &Path) -> bool {
    const MAGICS: &[[u8; 4]] = &[
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    let mut first = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && MAGICS.contains(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"inputs":[{"path":"a.pcap"}],"packets":2,"alerts":1,"findings":[],
        "ledger":[{"stage":"reader","received":{"items":2,"bytes":9},"passed":{"items":1,"bytes":5},
        "in_flight":{"items":0,"bytes":0},"shed":{"torn":{"items":1,"bytes":4}}}]}"#;

    fn faults(ending: Ending, output: &str, errors: &str) -> Vec<String> {
        judge(ending, output, errors, &[PathBuf::from("a.pcap")]).faults
    }

    #[test]
    fn a_run_passes_if_all_checks_hold() {
        assert_eq!(faults(Ending::Exit(0), GOOD, ""), Vec::<String>::new());
        let refused = GOOD.replace(r#""a.pcap""#, r#""a.pcap","error":"no capture""#);
        let line = "gabion: a.pcap: no capture: name one\n";
        assert_eq!(faults(Ending::Exit(3), &refused, line), Vec::<String>::new());
    }

    #[test]
    fn faults_are_named() {
        assert_eq!(faults(Ending::Signal(6), "", "boom").len(), 1);
        assert_eq!(faults(Ending::TimedOut, GOOD, ""), ["timeout, 0 was expected"]);
        assert_eq!(faults(Ending::Exit(3), GOOD, ""), ["exit code 3, 0 was expected"]);
        assert_eq!(
            faults(Ending::Exit(0), GOOD, "thread panicked"),
            ["output other than messages: thread panicked"]
        );
        let refused = GOOD.replace(r#""a.pcap""#, r#""a.pcap","error":"no capture""#);
        assert_eq!(faults(Ending::Exit(3), &refused, ""), ["a.pcap: refused with 0 lines"]);
        let lost = GOOD.replace(r#""items":1,"bytes":4"#, r#""items":0,"bytes":4"#);
        assert_eq!(faults(Ending::Exit(0), &lost, "").len(), 1);
    }
}

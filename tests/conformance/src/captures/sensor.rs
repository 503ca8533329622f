//! Runs a sensor over captures and returns its alerts: Gabion with `rules test`, or Suricata, once
//! for each capture so that no state is carried over.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::pairs::{self, Counts};
use super::suites::Suite;
use crate::verify::process::{Ending, run};

/// The program to run, and its command line.
#[derive(Clone, Debug)]
pub enum Sensor {
    /// `PROGRAM rules test -S RULES -k none CAPTURES --tsv`.
    Gabion {
        /// The program.
        program: PathBuf,
        /// Arguments before the captures.
        arguments: Vec<String>,
        /// One run for each capture instead of one for the folder: a crash costs one file.
        is_per_file: bool,
    },
    /// `PROGRAM -r CAPTURE -S RULES -k none --runmode single`, alerts taken from `eve.json`.
    Suricata {
        /// The program.
        program: PathBuf,
        /// Its configuration.
        config: PathBuf,
        /// The folder with `classification.config` and `reference.config`.
        etc: PathBuf,
    },
}

/// The result of a sensor.
#[derive(Debug, Default)]
pub struct Found {
    /// Alerts by file and signature.
    pub counts: Counts,
    /// Runs that failed: the file (empty for the whole folder) and how the run ended.
    pub faults: Vec<(String, String)>,
}

/// Runs `sensor` with the rules in `rules` over the captures of `suite`.
///
/// # Errors
/// A program can't be started, or its output can't be parsed.
pub fn observe(
    sensor: &Sensor,
    suite: &Suite,
    rules: &Path,
    jobs: usize,
    limit: Duration,
) -> Result<Found> {
    let mut found = match sensor {
        Sensor::Gabion { program, arguments, is_per_file: false } => {
            let mut found = Found::default();
            let (text, fault) = gabion(program, arguments, rules, &suite.captures, limit)?;
            found.counts = pairs::read(&text)?;
            found.faults.extend(fault.map(|fault| (String::new(), fault)));
            found
        }
        _ => each_file(sensor, suite, rules, jobs, limit)?,
    };
    if suite.is_single() {
        found.counts = pairs::without_files(&found.counts);
    }
    Ok(found)
}

fn each_file(
    sensor: &Sensor,
    suite: &Suite,
    rules: &Path,
    jobs: usize,
    limit: Duration,
) -> Result<Found> {
    let mut files = suite.capture_files()?;
    if matches!(sensor, Sensor::Suricata { .. }) {
        // Suricata has no result for these and would run for a minute on each.
        let unknown = suite.unknown()?;
        files.retain(|(name, _)| !unknown.contains(name));
    }
    let next = AtomicUsize::new(0);
    let all = Mutex::new(Found::default());
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some((name, path)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
                let (counts, fault) = one_file(sensor, rules, path, limit)?;
                let mut all = all.lock().unwrap_or_else(|lost| lost.into_inner());
                for (sid, count) in counts {
                    all.counts.insert((name.clone(), sid), count);
                }
                all.faults.extend(fault.map(|fault| (name.clone(), fault)));
            }
            Ok(())
        };
        let workers: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    let mut found = all.into_inner().unwrap_or_else(|lost| lost.into_inner());
    found.faults.sort();
    Ok(found)
}

type BySid = BTreeMap<u64, u64>;

fn one_file(
    sensor: &Sensor,
    rules: &Path,
    capture: &Path,
    limit: Duration,
) -> Result<(BySid, Option<String>)> {
    match sensor {
        Sensor::Gabion { program, arguments, .. } => {
            let (text, fault) = gabion(program, arguments, rules, capture, limit)?;
            let counts = pairs::without_files(&pairs::read(&text)?);
            Ok((counts.into_iter().map(|((_, sid), count)| (sid, count)).collect(), fault))
        }
        Sensor::Suricata { program, config, etc } => {
            suricata(program, config, etc, rules, capture, limit)
        }
    }
}

fn gabion(
    program: &Path,
    arguments: &[String],
    rules: &Path,
    captures: &Path,
    limit: Duration,
) -> Result<(String, Option<String>)> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(program);
    command.args(["rules", "test", "-S"]).arg(rules).args(["-k", "none"]);
    command.args(arguments).arg(captures).arg("--tsv");
    let (ending, text) = run_in(command, folder.path(), limit)?;
    Ok((text, fault(ending, folder.path())))
}

fn suricata(
    program: &Path,
    config: &Path,
    etc: &Path,
    rules: &Path,
    capture: &Path,
    limit: Duration,
) -> Result<(BySid, Option<String>)> {
    let folder = tempfile::tempdir()?;
    let set = |key: &str, file: &str| format!("{key}={}", etc.join(file).display());
    let mut command = Command::new(program);
    command.arg("-c").arg(config).arg("-r").arg(capture).arg("-S").arg(rules);
    command.args(["-k", "none", "--runmode", "single", "-l"]).arg(folder.path());
    command.args(["--set", &set("classification-file", "classification.config")]);
    command.args(["--set", &set("reference-config-file", "reference.config")]);
    let (ending, _) = run_in(command, folder.path(), limit)?;
    let mut counts = BySid::new();
    if let Ok(text) = fs::read_to_string(folder.path().join("eve.json")) {
        for line in text.lines().filter(|line| line.contains("\"event_type\":\"alert\"")) {
            let record: Value = serde_json::from_str(line).context("eve.json")?;
            let sid = record.pointer("/alert/signature_id").and_then(Value::as_u64);
            *counts.entry(sid.context("an alert without signature_id")?).or_default() += 1;
        }
    }
    Ok((counts, fault(ending, folder.path())))
}

/// Runs the command with its output in files of `folder`.
fn run_in(mut command: Command, folder: &Path, limit: Duration) -> Result<(Ending, String)> {
    let [stdout, stderr] = ["stdout", "stderr"].map(|name| folder.join(name));
    command.stdout(File::create(&stdout)?).stderr(File::create(&stderr)?);
    let program = command.get_program().to_owned();
    let ending =
        run(&mut command, limit).with_context(|| format!("cannot run {}", display(&program)))?;
    Ok((ending, String::from_utf8_lossy(&fs::read(stdout)?).into_owned()))
}

fn display(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}

fn fault(ending: Ending, folder: &Path) -> Option<String> {
    if ending == Ending::Exit(0) {
        return None;
    }
    let errors = fs::read(folder.join("stderr")).unwrap_or_default();
    let errors = String::from_utf8_lossy(&errors);
    let said = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("");
    Some(format!("{ending}: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A program with the output of `gabion rules test`: one line for each capture.
    fn fake(folder: &Path) -> PathBuf {
        let path = folder.join("gabion");
        let script = "#!/bin/sh\n[ \"$1 $2 $3 $5 $6\" = 'rules test -S -k none' ] || exit 2\n\
                      cd \"$7\" 2>/dev/null && for f in *.pcap; do printf '%s\\t5\\t2\\n' $f; done\n\
                      [ -f \"$7\" ] && printf '%s\\t5\\t2\\n' \"$7\"\n\
                      case $7 in *bad.pcap) echo torn >&2; exit 3;; esac\nexit 0\n";
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    #[test]
    fn folders_and_single_files_are_observed() {
        let folder = tempfile::tempdir().unwrap();
        let captures = folder.path().join("captures");
        fs::create_dir(&captures).unwrap();
        for name in ["a.pcap", "bad.pcap"] {
            fs::write(captures.join(name), "").unwrap();
        }
        let rules = folder.path().join("x.rules");
        fs::write(&rules, "").unwrap();
        let suite = Suite {
            name: "x".to_owned(),
            rules: rules.clone(),
            captures: captures.clone(),
            expected: rules.clone(),
            unknown: None,
        };
        let sensor = |is_per_file| Sensor::Gabion {
            program: fake(folder.path()),
            arguments: Vec::new(),
            is_per_file,
        };
        let limit = Duration::from_secs(20);
        let wanted = pairs::read("a.pcap\t5\t2\nbad.pcap\t5\t2\n").unwrap();
        let whole = observe(&sensor(false), &suite, &rules, 1, limit).unwrap();
        assert_eq!((&whole.counts, whole.faults.len()), (&wanted, 0));
        let each = observe(&sensor(true), &suite, &rules, 2, limit).unwrap();
        assert_eq!(each.counts, wanted);
        assert_eq!(each.faults, [("bad.pcap".to_owned(), "exit code 3: torn".to_owned())]);
        let single = Suite { captures: captures.join("a.pcap"), ..suite };
        let one = observe(&sensor(false), &single, &rules, 1, limit).unwrap();
        assert_eq!(one.counts, pairs::read("5\t2\n").unwrap());
    }
}

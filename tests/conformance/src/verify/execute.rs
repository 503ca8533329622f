//! Runs tests: one from its conditions to its checks, and all of them over several threads.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::case::Case;
use super::checks::{Cause, Scene, Tally, generalize, judge};
use super::process::{Ending, run, shell};
use super::requires;
use super::results::{Outcome, TestResult};
use super::subject::Subject;
use super::yaml::Node;

/// How tests are run.
pub struct Plan<'a> {
    /// The program under test.
    pub subject: &'a Subject,
    /// The time one command may take.
    pub limit: Duration,
    /// Where outputs are kept; `None` if they are removed after each test.
    pub keep: Option<PathBuf>,
    /// Number of parallel tests.
    pub jobs: usize,
}

/// Runs `tests` (name and folder) and gives their results in the same order. `each` is called with
/// every result when it is ready.
pub fn run_all(
    tests: &[(String, PathBuf)],
    plan: &Plan<'_>,
    each: &(dyn Fn(&TestResult) + Sync),
) -> Vec<TestResult> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(tests.len()));
    std::thread::scope(|scope| {
        for _ in 0..plan.jobs.max(1) {
            scope.spawn(|| {
                while let Some((name, folder)) = tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = run_one(name, folder, plan);
                    each(&result);
                    done.lock().unwrap_or_else(|lost| lost.into_inner()).push(result);
                }
            });
        }
    });
    let mut results = done.into_inner().unwrap_or_else(|lost| lost.into_inner());
    results.sort_by(|a, b| a.name.cmp(&b.name));
    results
}

/// Runs one test. Any error is a failure of that test.
#[must_use]
pub fn run_one(name: &str, folder: &Path, plan: &Plan<'_>) -> TestResult {
    let start = Instant::now();
    let (outcome, tally) = attempt_all(name, folder, plan).unwrap_or_else(|fault| {
        (Outcome::Failed(Cause::plain(format!("{fault:#}"))), Tally::default())
    });
    TestResult {
        name: name.to_owned(),
        outcome,
        checks_held: tally.held,
        checks_failed: tally.failed,
        took: start.elapsed(),
    }
}

fn attempt_all(name: &str, folder: &Path, plan: &Plan<'_>) -> Result<(Outcome, Tally)> {
    let case = Case::read(name, folder)?;
    let conditions = case.description.get("requires").cloned().unwrap_or(Node::Null);
    let unmet = requires::unmet(&conditions, plan.subject, folder)?;
    let skip = match unmet {
        Some(reason) => Some(reason),
        None => requires::skipped(&case.description, plan.subject)?,
    };
    if let Some(reason) = skip {
        return Ok((Outcome::Skipped(reason), Tally::default()));
    }
    let (runs, tries) = (case.number("count", 1)?, case.number("retry", 1)?);
    let mut last = (Outcome::Skipped("runs zero times".to_owned()), Tally::default());
    for _ in 0..tries.max(1) {
        for _ in 0..runs.max(1) {
            last = attempt(&case, plan)?;
            if matches!(last.0, Outcome::Failed(_)) {
                break;
            }
        }
        if !matches!(last.0, Outcome::Failed(_)) {
            break;
        }
    }
    Ok(last)
}

/// The empty output folder of a test; the guard removes it unless it is kept.
fn output_folder(case: &Case, plan: &Plan<'_>) -> Result<(PathBuf, Option<tempfile::TempDir>)> {
    match &plan.keep {
        Some(keep) => {
            let folder = keep.join(&case.name);
            if folder.exists() {
                fs::remove_dir_all(&folder)?;
            }
            fs::create_dir_all(&folder)?;
            Ok((fs::canonicalize(folder)?, None))
        }
        None => {
            let guard = tempfile::Builder::new().prefix("suricata-verify-out-").tempdir()?;
            Ok((guard.path().to_owned(), Some(guard)))
        }
    }
}

fn attempt(case: &Case, plan: &Plan<'_>) -> Result<(Outcome, Tally)> {
    let (output, _guard) = output_folder(case, plan)?;
    let env = case.env(plan.subject, &output);
    for step in case.description.get("setup").map_or(&[][..], Node::items) {
        let Some(script) = step.get("script") else { bail!("setup: unknown step") };
        let (ending, text) = shell(&script.python_str(), &output, &env, plan.limit, true)?;
        if ending != Ending::Exit(0) {
            bail!("setup {ending}: {}", last_line(&String::from_utf8_lossy(&text)));
        }
    }
    if let Some(cause) = run_program(case, plan, &output, &env)? {
        return Ok((Outcome::Failed(cause), Tally::default()));
    }
    if let Some(lines) = case.description.get("pre-check") {
        let (ending, text) = shell(&lines.python_str(), &output, &env, plan.limit, true)?;
        if ending != Ending::Exit(0) {
            bail!("pre-check {ending}: {}", last_line(&String::from_utf8_lossy(&text)));
        }
    }
    let scene = Scene {
        subject: plan.subject,
        folder: &case.folder,
        output: &output,
        env: &env,
        limit: plan.limit,
    };
    let checks = match case.description.get("checks") {
        None | Some(Node::Null) => Node::List(Vec::new()),
        Some(checks) => checks.clone(),
    };
    let tally = judge(&checks, &scene)?;
    let outcome = match &tally.first {
        Some(cause) => Outcome::Failed(cause.clone()),
        None if tally.skipped > 0 && tally.held == 0 => {
            Outcome::Skipped("all checks were skipped".to_owned())
        }
        None => Outcome::Passed,
    };
    Ok((outcome, tally))
}

/// Runs the program under test; returns a cause if it does not end as the test requires.
fn run_program(
    case: &Case,
    plan: &Plan<'_>,
    output: &Path,
    env: &[(String, String)],
) -> Result<Option<Cause>> {
    let mut command = match case.command(env) {
        Some(line) => {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(line);
            command
        }
        None => {
            let mut command = Command::new(plan.subject.program());
            command.args(case.arguments(plan.subject, output, env)?);
            command
        }
    };
    let wanted = case.number("exit-code", 0)?;
    command.current_dir(&case.folder);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.stdout(File::create(output.join("stdout"))?);
    command.stderr(File::create(output.join("stderr"))?);
    let ending = run(&mut command, plan.limit).context("cannot start the program")?;
    let stdout = fs::read(output.join("stdout"))?;
    let stderr = fs::read(output.join("stderr"))?;
    // Python represents the end by a signal as a negative exit code.
    let code = match ending {
        Ending::Exit(code) => i64::from(code),
        Ending::Signal(signal) => -i64::from(signal),
        Ending::TimedOut => return Ok(Some(Cause::plain("timeout"))),
    };
    if code != wanted {
        let said = main_error_line(&String::from_utf8_lossy(&stderr));
        let said =
            if said.is_empty() { last_line(&String::from_utf8_lossy(&stdout)) } else { said };
        let mut cause = Cause::plain(format!("{ending} != {wanted}: {said}"));
        // There are few exit codes, so they stay in the name of the group.
        cause.cluster = format!("{ending} != {wanted}: {}", generalize(&said));
        return Ok(Some(cause));
    }
    for (name, bytes) in [("stdout", stdout), ("stderr", stderr)] {
        if String::from_utf8(bytes).is_err() {
            return Ok(Some(Cause::plain(format!("{name} is not UTF-8"))));
        }
    }
    Ok(None)
}

fn last_line(text: &str) -> String {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_owned()
}

/// The most informative line of standard error: a panic, else the first error, else the last line.
fn main_error_line(text: &str) -> String {
    let is_panic = |line: &&str| line.contains("panicked at");
    if let Some(at) = text.lines().position(|line| is_panic(&line)) {
        let lines: Vec<_> = text.lines().skip(at).take(2).map(str::trim).collect();
        return lines.join(" ");
    }
    let error = text.lines().find(|line| line.starts_with("E: ") || line.starts_with("error: "));
    error.map_or_else(|| last_line(text), |line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_main_error_line_is_found() {
        let table = [
            ("i: start\nE: detect: first\nE: suricata: last\n\n", "E: detect: first"),
            ("a\nb\n\n", "b"),
            (
                "E: x\nthread 'main' panicked at a.rs:1:2:\nout of range\nnote: y",
                "thread 'main' panicked at a.rs:1:2: out of range",
            ),
            ("", ""),
        ];
        for (text, expected) in table {
            assert_eq!(main_error_line(text), expected);
        }
    }
}

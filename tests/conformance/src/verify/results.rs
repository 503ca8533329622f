//! Results of tests: the file they are kept in, their sums by family and by cause, and the baseline
//! that may only grow.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::checks::Cause;
use super::family::family;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All checks that apply hold.
    Passed,
    /// A check does not hold.
    Failed(Cause),
    /// The test does not apply here, for this reason.
    Skipped(String),
}

/// The result of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestResult {
    /// The test's name.
    pub name: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Checks that hold.
    pub checks_held: usize,
    /// Checks that do not.
    pub checks_failed: usize,
    /// Time from start to end.
    pub took: Duration,
}

/// Numbers of tests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Tests passed.
    pub passed: usize,
    /// Tests failed.
    pub failed: usize,
    /// Tests skipped.
    pub skipped: usize,
}

impl Sums {
    /// The sums of `results`.
    #[must_use]
    pub fn of<'a>(results: impl IntoIterator<Item = &'a TestResult>) -> Self {
        let mut sums = Self::default();
        for result in results {
            match result.outcome {
                Outcome::Passed => sums.passed += 1,
                Outcome::Failed(_) => sums.failed += 1,
                Outcome::Skipped(_) => sums.skipped += 1,
            }
        }
        sums
    }

    /// Percentage of the run tests that passed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of tests are small")]
    pub fn percent(self) -> f64 {
        let ran = self.passed + self.failed;
        if ran == 0 { 100.0 } else { 100.0 * self.passed as f64 / ran as f64 }
    }
}

/// The sums of each family, largest family first.
#[must_use]
pub fn by_family(results: &[TestResult]) -> Vec<(&str, Sums)> {
    let mut groups: BTreeMap<&str, Vec<&TestResult>> = BTreeMap::new();
    for result in results {
        groups.entry(family(&result.name)).or_default().push(result);
    }
    let mut sums: Vec<_> = groups.iter().map(|(name, group)| (group.len(), *name, group)).collect();
    sums.sort_by_key(|(len, name, _)| (*name == "other", std::cmp::Reverse(*len), *name));
    sums.into_iter().map(|(_, name, group)| (name, Sums::of(group.iter().copied()))).collect()
}

/// Failed tests by cause, most frequent cause first.
#[must_use]
pub fn by_cause(results: &[TestResult]) -> Vec<(&str, Vec<&str>)> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for result in results {
        if let Outcome::Failed(cause) = &result.outcome {
            groups.entry(&cause.cluster).or_default().push(&result.name);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(cause, tests)| (std::cmp::Reverse(tests.len()), *cause));
    groups
}

/// The head of the results file.
const HEAD: &str = "# test\tresult\tcause\tchecks held\tchecks failed\tms\tcluster\n";

/// Writes the results as tab-separated lines.
///
/// # Errors
/// The file can't be written.
pub fn write(path: &Path, results: &[TestResult]) -> Result<()> {
    let mut text = HEAD.to_owned();
    for result in results {
        let (word, cause, cluster) = match &result.outcome {
            Outcome::Passed => ("pass", "", ""),
            Outcome::Failed(cause) => ("fail", cause.line.as_str(), cause.cluster.as_str()),
            Outcome::Skipped(reason) => ("skip", reason.as_str(), ""),
        };
        let _ = writeln!(
            text,
            "{}\t{word}\t{cause}\t{}\t{}\t{}\t{cluster}",
            result.name,
            result.checks_held,
            result.checks_failed,
            result.took.as_millis()
        );
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Reads results that [`write()`] wrote.
///
/// # Errors
/// The file can't be read or a line is not a result.
pub fn read(path: &Path) -> Result<Vec<TestResult>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| parse(line).with_context(|| format!("not a result: {line}"))).collect()
}

fn parse(line: &str) -> Result<TestResult> {
    let fields: Vec<_> = line.split('\t').collect();
    let [name, word, cause, held, failed, ms, cluster] = fields.as_slice() else {
        bail!("not seven fields");
    };
    let outcome = match *word {
        "pass" => Outcome::Passed,
        "skip" => Outcome::Skipped((*cause).to_owned()),
        "fail" => {
            Outcome::Failed(Cause { line: (*cause).to_owned(), cluster: (*cluster).to_owned() })
        }
        other => bail!("unknown result {other}"),
    };
    Ok(TestResult {
        name: (*name).to_owned(),
        outcome,
        checks_held: held.parse()?,
        checks_failed: failed.parse()?,
        took: Duration::from_millis(ms.parse()?),
    })
}

/// The tests that must pass: one name per line, `#` begins a comment.
///
/// # Errors
/// The file can't be read.
pub fn read_baseline(path: &Path) -> Result<BTreeSet<String>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let names =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(names.map(str::to_owned).collect())
}

/// The tests of the baseline that failed; tests that were not run or skipped are not included.
#[must_use]
pub fn below_baseline<'a>(
    results: &'a [TestResult],
    baseline: &BTreeSet<String>,
) -> Vec<&'a TestResult> {
    let failed = |result: &&TestResult| matches!(result.outcome, Outcome::Failed(_));
    results.iter().filter(failed).filter(|result| baseline.contains(&result.name)).collect()
}

/// Adds the tests that pass now; none is ever removed. Returns the number of new tests.
///
/// # Errors
/// The file can't be written.
pub fn raise_baseline(path: &Path, results: &[TestResult]) -> Result<usize> {
    let mut names = if path.exists() { read_baseline(path)? } else { BTreeSet::new() };
    let before = names.len();
    let passed = results.iter().filter(|result| result.outcome == Outcome::Passed);
    names.extend(passed.map(|result| result.name.clone()));
    let mut text = "# Tests of suricata-verify that pass and must continue to pass.\n".to_owned();
    for name in &names {
        text.push_str(name);
        text.push('\n');
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(names.len() - before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, outcome: Outcome) -> TestResult {
        TestResult {
            name: name.to_owned(),
            outcome,
            checks_held: 1,
            checks_failed: 2,
            took: Duration::from_millis(7),
        }
    }

    fn sample() -> Vec<TestResult> {
        vec![
            result("dns-a", Outcome::Passed),
            result("dns-b", Outcome::Failed(Cause::plain("exit code 1 != 0: line 3"))),
            result("dns-c", Outcome::Failed(Cause::plain("exit code 1 != 0: line 44"))),
            result("tls-a", Outcome::Skipped("requires feature ASAN".to_owned())),
        ]
    }

    #[test]
    fn results_are_read_as_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.tsv");
        write(&path, &sample()).unwrap();
        assert_eq!(read(&path).unwrap(), sample());
    }

    #[test]
    fn sums_by_family_and_cause() {
        let results = sample();
        let families = by_family(&results);
        assert_eq!(families[0], ("dns", Sums { passed: 1, failed: 2, skipped: 0 }));
        assert_eq!(families[1].1.percent(), 100.0);
        assert_eq!(by_cause(&results), [("exit code N != N: line N", vec!["dns-b", "dns-c"])]);
    }

    #[test]
    fn the_baseline_only_grows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passing.txt");
        let mut results = sample();
        assert_eq!(raise_baseline(&path, &results).unwrap(), 1);
        results[0].outcome = Outcome::Failed(Cause::plain("timeout"));
        results[1].outcome = Outcome::Passed;
        assert_eq!(raise_baseline(&path, &results).unwrap(), 1);
        let baseline = read_baseline(&path).unwrap();
        assert_eq!(baseline.len(), 2);
        let fallen: Vec<_> =
            below_baseline(&results, &baseline).iter().map(|r| r.name.as_str()).collect();
        assert_eq!(fallen, ["dns-a"]);
    }
}

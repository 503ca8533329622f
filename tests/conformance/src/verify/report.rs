//! Prints a run: the table by family on the terminal, the groups of causes, and the page
//! `docs/conformance.md`.

use std::fmt::Write as _;

use super::family::family;
use super::results::{Outcome, Sums, TestResult, by_cause, by_family};

/// Names of tests shown for a cause.
const EXAMPLES_MAX: usize = 4;

/// The table by family, with the totals as its last lines.
#[must_use]
pub fn table(results: &[TestResult]) -> String {
    let mut text = format!("{:<26} {:>7} {:>7} {:>7}\n", "family", "passed", "failed", "skipped");
    for (name, sums) in by_family(results) {
        let _ = writeln!(
            text,
            "{name:<26} {:>7} {:>7} {:>7}  {:>5.1} %",
            sums.passed,
            sums.failed,
            sums.skipped,
            sums.percent()
        );
    }
    let sums = Sums::of(results);
    let _ = writeln!(
        text,
        "\n{} tests: {} passed, {} failed, {} skipped ({:.1} % of those run)",
        results.len(),
        sums.passed,
        sums.failed,
        sums.skipped,
        sums.percent()
    );
    text
}

/// The causes of failures with counts and a few examples, most frequent first.
#[must_use]
pub fn causes(results: &[TestResult]) -> String {
    let mut text = String::new();
    for (cause, tests) in by_cause(results) {
        let _ = writeln!(text, "{:>5}  {cause}\n         {}", tests.len(), examples(&tests));
    }
    text
}

fn examples(tests: &[&str]) -> String {
    let mut text = tests.iter().take(EXAMPLES_MAX).copied().collect::<Vec<_>>().join(" ");
    if tests.len() > EXAMPLES_MAX {
        text.push_str(" …");
    }
    text
}

/// The failed tests with their causes.
#[must_use]
pub fn failures(results: &[TestResult]) -> String {
    let mut text = String::new();
    for result in results {
        if let Outcome::Failed(cause) = &result.outcome {
            let checks = match (result.checks_held, result.checks_failed) {
                (_, 0) => String::new(),
                (held, failed) => format!(" ({held} of {} checks hold)", held + failed),
            };
            let _ = writeln!(text, "{}{checks}\n    {}", result.name, cause.line);
        }
    }
    text
}

/// The page: the tests that were run, the table by family, the causes of failures, skipped tests, and the
/// same of `further` tests.
#[must_use]
pub fn page(results: &[TestResult], further: Option<&[TestResult]>, version: &str) -> String {
    let mut text = format!(
        "# Conformance\n\n\
         Written by `suricata-verify --report`; do not edit by hand.\n\n\
         Gabion is tried with the public tests of Suricata (suricata-verify): each runs the program \
         over a capture with rules and a configuration and checks what it wrote. The program says \
         it behaves like version {version}; tests that do not apply to it are skipped by their own \
         conditions.\n\n\
         {}\n## By family\n\n\
         | family | passed | failed | skipped |\n|---|---:|---:|---:|\n",
        sums_line(results, "tests"),
    );
    for (name, sums) in by_family(results) {
        let _ = writeln!(text, "| {name} | {} | {} | {} |", sums.passed, sums.failed, sums.skipped);
    }
    add_failures(&mut text, results);
    text.push_str("\n## Skipped\n\n");
    let mut reasons = std::collections::BTreeMap::<&str, usize>::new();
    for result in results {
        if let Outcome::Skipped(reason) = &result.outcome {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    for (reason, count) in reasons {
        let _ = writeln!(text, "- {count}: {reason}");
    }
    if let Some(further) = further {
        text.push_str("\n# Further tests\n\n");
        text.push_str(
            "Tests of the same kind that were not looked at while most of Gabion was written.\n\n",
        );
        text.push_str(&sums_line(further, "further tests"));
        add_failures(&mut text, further);
    }
    text.push_str(&falco_section());
    text
}

/// What the runner of Falco's tests keeps: the number of tests that must pass, which only rises.
fn falco_section() -> String {
    let floor = include_str!("../../floors/falco.txt");
    let passed = floor.lines().find(|line| !line.starts_with('#')).unwrap_or_default();
    format!(
        "\n# Falco's tests\n\n\
         `falco-testing` runs Falco's regression tests: command lines over captures of system calls, with the exit \
         code, output and files that Falco leaves. **{passed} of 111 pass**; the other two want a plugin from a file. \
         The 59 tests of Falco's rule loader run with the tests of the crate `condition` and all pass.\n"
    )
}

/// The sentence with the sums of tests.
fn sums_line(results: &[TestResult], what: &str) -> String {
    let sums = Sums::of(results);
    format!(
        "**{} of {} {what} that apply pass ({:.1} %), {} fail, {} are skipped.**\n",
        sums.passed,
        sums.passed + sums.failed,
        sums.percent(),
        sums.failed,
        sums.skipped
    )
}

fn add_failures(text: &mut String, results: &[TestResult]) {
    text.push_str("\n## Causes of failures\n\n");
    if Sums::of(results).failed == 0 {
        text.push_str("None.\n");
        return;
    }
    text.push_str("The first check that fails names the cause.\n\n");
    text.push_str("| tests | cause | for example |\n|---:|---|---|\n");
    for (cause, tests) in by_cause(results) {
        let _ = writeln!(text, "| {} | {} | {} |", tests.len(), cell(cause), examples(&tests));
    }
    text.push_str("\n## Tests that fail\n\n");
    let mut failed: Vec<_> = results
        .iter()
        .filter_map(|result| match &result.outcome {
            Outcome::Failed(_) => Some((family(&result.name), result.name.as_str())),
            Outcome::Passed | Outcome::Skipped(_) => None,
        })
        .collect();
    failed.sort_unstable();
    for group in failed.chunk_by(|a, b| a.0 == b.0) {
        let names: Vec<_> = group.iter().map(|(_, name)| *name).collect();
        let _ = writeln!(text, "- {}: {}", group[0].0, names.join(", "));
    }
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|").replace('`', "'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::checks::Cause;
    use std::time::Duration;

    #[test]
    fn the_page_names_figures_and_causes() {
        let result = |name: &str, outcome| TestResult {
            name: name.to_owned(),
            outcome,
            checks_held: 0,
            checks_failed: 1,
            took: Duration::ZERO,
        };
        let results = [
            result("dns-a", Outcome::Passed),
            result("dns-b", Outcome::Failed(Cause::plain("shell a | b"))),
            result("tls-a", Outcome::Skipped("requires feature ASAN".to_owned())),
        ];
        let page = page(&results, Some(&results[..1]), "8.0.7");
        for part in [
            "**1 of 2 tests that apply pass (50.0 %), 1 fail, 1 are skipped.**",
            "| dns | 1 | 1 | 0 |",
            "| 1 | `shell a \\| b` | dns-b |",
            "- 1: requires feature ASAN",
            "**1 of 1 further tests that apply pass (100.0 %), 0 fail, 0 are skipped.**",
        ] {
            assert!(page.contains(part), "{part}\n{page}");
        }
        assert!(causes(&results).contains("1  shell a | b"));
        assert!(table(&results).contains("3 tests: 1 passed, 1 failed, 1 skipped"));
    }
}

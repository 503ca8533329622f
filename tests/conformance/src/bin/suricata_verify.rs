//! `suricata-verify`: runs the tests of suricata-verify against a program and reports which pass.
//!
//! Exit codes: 0 the tests ran (and none of the baseline failed), 1 a test of the baseline failed,
//! 2 usage, 3 the tests, the program or a file can't be read or written.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Parser;
use gabion_conformance::verify::case::find_all;
use gabion_conformance::verify::execute::{Plan, run_all};
use gabion_conformance::verify::family::family;
use gabion_conformance::verify::subject::Subject;
use gabion_conformance::verify::{report, results};

/// Runs the tests of suricata-verify against a program and reports which pass
#[derive(Parser)]
#[command(name = "suricata-verify")]
struct Options {
    /// The program under test; it is run under the name `suricata`
    #[arg(long, value_name = "PATH", required_unless_present = "from")]
    binary: Option<PathBuf>,
    /// Folder of the tests, next to Suricata's configuration files or in a folder next to `suricata-verify`,
    /// whose files it then takes [default: $GABION_CORPUS/suricata-verify/tests, ../shared/corpus without the variable]
    #[arg(long, value_name = "DIR")]
    tests: Option<PathBuf>,
    /// A further argument for every call of the program, after those of the test (repeatable)
    #[arg(long = "arg", value_name = "ARG", allow_hyphen_values = true)]
    args: Vec<String>,
    /// Parallel tests [default: number of processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Only tests whose name contains this text
    #[arg(long, value_name = "SUBSTR")]
    filter: Option<String>,
    /// Only tests of this family
    #[arg(long, value_name = "F")]
    family: Option<String>,
    /// Time limit of one command in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    timeout: u64,
    /// Write test, result and cause as tab-separated lines
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Run nothing; use the results of an earlier run
    #[arg(long, value_name = "FILE", conflicts_with = "binary")]
    from: Option<PathBuf>,
    /// Names of tests that must pass
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Add the tests that pass now to the baseline
    #[arg(long, requires = "baseline")]
    raise: bool,
    /// Keep what each test wrote below this folder
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// List failed tests with their causes
    #[arg(long)]
    list_failures: bool,
    /// List the causes of failures with counts
    #[arg(long)]
    causes: bool,
    /// Write the page with families and causes
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Results of further tests, which the page adds as a section of their own
    #[arg(long, value_name = "FILE", requires = "report")]
    further: Option<PathBuf>,
    /// Version named on the page when results come from a file
    #[arg(long, value_name = "V", default_value = "8.0.7")]
    report_version: String,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(fault) => {
            eprintln!("suricata-verify: {fault:#}");
            ExitCode::from(3)
        }
    }
}

fn run(options: &Options) -> Result<ExitCode> {
    let (mut results, version) = match &options.from {
        Some(path) => (results::read(path)?, options.report_version.clone()),
        None => execute(options)?,
    };
    results.retain(|result| selected(options, &result.name));
    if let Some(path) = &options.results {
        results::write(path, &results)?;
    }
    if let Some(path) = &options.report {
        let further = options.further.as_deref().map(results::read).transpose()?;
        let page = report::page(&results, further.as_deref(), &version);
        std::fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = std::io::stdout().lock();
    if options.list_failures {
        writeln!(out, "{}", report::failures(&results))?;
    }
    if options.causes {
        writeln!(out, "{}", report::causes(&results))?;
    }
    write!(out, "{}", report::table(&results))?;
    match &options.baseline {
        Some(path) => against_baseline(path, options.raise, &results, &mut out),
        None => Ok(ExitCode::SUCCESS),
    }
}

fn against_baseline(
    path: &Path,
    raise: bool,
    results: &[results::TestResult],
    out: &mut impl Write,
) -> Result<ExitCode> {
    let baseline = if raise && !path.exists() {
        std::collections::BTreeSet::new()
    } else {
        results::read_baseline(path)?
    };
    let fallen = results::below_baseline(results, &baseline);
    for result in &fallen {
        if let results::Outcome::Failed(cause) = &result.outcome {
            writeln!(out, "below the baseline: {}: {}", result.name, cause.line)?;
        }
    }
    if raise {
        let added = results::raise_baseline(path, results)?;
        writeln!(out, "{added} tests added to {}", path.display())?;
    }
    Ok(ExitCode::from(u8::from(!fallen.is_empty())))
}

fn selected(options: &Options, name: &str) -> bool {
    options.filter.as_ref().is_none_or(|part| name.contains(part))
        && options.family.as_ref().is_none_or(|wanted| family(name) == wanted)
}

/// The folder with the configuration files that belong to `tests`: its parent, or `suricata-verify` next to that.
fn configuration_folder(tests: &Path) -> Result<PathBuf> {
    let parent = tests.parent().context("the folder of the tests has no parent")?;
    if parent.join("suricata.yaml").exists() {
        return Ok(parent.to_owned());
    }
    let shared = parent.with_file_name("suricata-verify");
    if !shared.join("suricata.yaml").exists() {
        bail!("neither {} nor {} holds a suricata.yaml", parent.display(), shared.display());
    }
    Ok(shared)
}

fn execute(options: &Options) -> Result<(Vec<results::TestResult>, String)> {
    let tests = match &options.tests {
        Some(folder) => folder.clone(),
        None => gabion_conformance::corpus().join("suricata-verify/tests"),
    };
    let tests = std::fs::canonicalize(&tests)
        .with_context(|| format!("cannot find the tests {}", tests.display()))?;
    let corpus = configuration_folder(&tests)?;
    let binary = options.binary.as_deref().context("no program given")?;
    let subject = Subject::new(binary, &corpus, &options.args)?;
    let mut found = find_all(&tests)?;
    found.retain(|(name, _)| selected(options, name));
    let jobs = match options.jobs {
        Some(jobs) => jobs,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let plan = Plan {
        subject: &subject,
        limit: Duration::from_secs(options.timeout),
        keep: options.keep.clone(),
        jobs,
    };
    let done = AtomicUsize::new(0);
    let progress = std::io::stderr().is_terminal();
    let results = run_all(&found, &plan, &|result| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        if progress {
            eprint!("\r\x1b[K{done}/{} {}", found.len(), result.name);
        }
    });
    if progress {
        eprintln!("\r\x1b[K");
    }
    Ok((results, subject.version.to_string()))
}

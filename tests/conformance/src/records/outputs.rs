//! Gets the EVE files that are compared: those of a program that is run here, and Suricata's, run here too or
//! recorded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::archive::unpack_archive;
use crate::verify::case::find_all;
use crate::verify::execute::{Plan, run_all};
use crate::verify::process::{Ending, run};
use crate::verify::subject::Subject;

/// Inputs with the same way to run them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// The tests of suricata-verify, each with its own configuration and rules.
    Tests,
    /// Further tests of suricata-verify.
    TestsMore,
    /// The captures of public projects, without rules, each a run.
    Captures,
    /// The capture for measurements.
    Bench,
}

impl Suite {
    /// All of them.
    pub const ALL: [Suite; 4] = [Suite::Tests, Suite::TestsMore, Suite::Captures, Suite::Bench];

    /// Its name on the command line and in the file of floors.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Suite::Tests => "tests",
            Suite::TestsMore => "tests-more",
            Suite::Captures => "captures",
            Suite::Bench => "bench",
        }
    }

    /// The suite of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Suite> {
        Suite::ALL.into_iter().find(|suite| suite.name() == name)
    }

    /// The folder of its tests below the corpus, if it has tests.
    #[must_use]
    pub fn tests_folder(self) -> Option<&'static str> {
        match self {
            Suite::Tests => Some("suricata-verify/tests"),
            Suite::TestsMore => Some("suricata-verify-more/tests"),
            Suite::Captures | Suite::Bench => None,
        }
    }

    /// The archive with what Suricata wrote for its tests, below the corpus.
    #[must_use]
    pub fn recorded(self) -> Option<&'static str> {
        match self {
            Suite::Tests => Some("suricata-verify/peer/output-of-tests.tar.zst"),
            Suite::TestsMore => Some("suricata-verify-more/output-of-tests.tar.zst"),
            Suite::Captures | Suite::Bench => None,
        }
    }
}

/// How programs are run.
#[derive(Clone, Debug)]
pub struct How {
    /// The shared corpus.
    pub corpus: PathBuf,
    /// Only inputs whose name contains this.
    pub filter: Option<String>,
    /// A configuration instead of Suricata's own, for captures.
    pub config: Option<PathBuf>,
    /// Further arguments for each call.
    pub arguments: Vec<String>,
    /// Runs at a time.
    pub jobs: usize,
    /// Time limit of one run.
    pub limit: Duration,
}

impl How {
    fn selects(&self, name: &str) -> bool {
        self.filter.as_ref().is_none_or(|part| name.contains(part))
    }
}

/// Names of the inputs of a suite that are compared, sorted.
///
/// # Errors
/// The corpus can't be read.
pub fn input_names(suite: Suite, how: &How) -> Result<Vec<String>> {
    let mut names: Vec<String> = match suite.tests_folder() {
        Some(folder) => {
            let tests = find_all(&how.corpus.join(folder))?;
            tests.into_iter().map(|(name, _)| name).collect()
        }
        None => captures_of(suite, how)?.into_iter().map(|(name, _)| name).collect(),
    };
    names.retain(|name| how.selects(name));
    names.sort();
    Ok(names)
}

fn captures_of(suite: Suite, how: &How) -> Result<Vec<(String, PathBuf)>> {
    let (folder, paths) = match suite {
        Suite::Bench => {
            let folder = how.corpus.join("bench");
            let path = folder.join("mixed.pcap.zst");
            (folder, vec![path])
        }
        _ => {
            let folder = how.corpus.join("captures");
            let paths = crate::whole::captures_below(std::slice::from_ref(&folder))?;
            (folder, paths)
        }
    };
    let unread = fs::read_to_string(how.corpus.join("captures/not-read-by-peer.tsv"));
    let unread = unread.unwrap_or_default();
    let unread: Vec<&str> = unread.lines().filter_map(|line| line.split('\t').next()).collect();
    let named = |path: PathBuf| {
        let name = path.strip_prefix(&folder).unwrap_or(&path).display().to_string();
        (name, path)
    };
    let all = paths.into_iter().map(named);
    // Suricata runs for a minute on each of these, and writes nothing.
    Ok(all.filter(|(name, _)| how.selects(name) && !unread.contains(&name.as_str())).collect())
}

/// Runs a program over the suite's inputs; the folder then has `NAME/eve.json` of each. Inputs whose file is there
/// already are left out if `keeps` says so. Returns what did not end well.
///
/// # Errors
/// A program or folder is missing, or a file can't be written.
pub fn run_suite(
    suite: Suite,
    program: &Path,
    how: &How,
    to: &Path,
    keeps: bool,
) -> Result<Vec<String>> {
    match suite.tests_folder() {
        Some(folder) => run_tests(&how.corpus.join(folder), program, how, to, keeps),
        None => run_captures(suite, program, how, to, keeps),
    }
}

fn run_tests(
    folder: &Path,
    program: &Path,
    how: &How,
    to: &Path,
    keeps: bool,
) -> Result<Vec<String>> {
    let corpus = how.corpus.join("suricata-verify");
    let subject = Subject::new(program, &corpus, &how.arguments)?;
    let mut tests = find_all(folder)?;
    tests.retain(|(name, _)| how.selects(name) && !(keeps && to.join(name).exists()));
    let plan =
        Plan { subject: &subject, limit: how.limit, keep: Some(to.to_owned()), jobs: how.jobs };
    run_all(&tests, &plan, &|_| {});
    // A test may fail and write the right records nevertheless: what it wrote is compared.
    Ok(Vec::new())
}

fn run_captures(
    suite: Suite,
    program: &Path,
    how: &How,
    to: &Path,
    keeps: bool,
) -> Result<Vec<String>> {
    let program = std::path::absolute(program)?;
    let mut inputs = captures_of(suite, how)?;
    inputs.retain(|(name, _)| !(keeps && to.join(name).join("eve.json").exists()));
    let next = AtomicUsize::new(0);
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while let Some((name, path)) = inputs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let ending = run_capture(&program, path, how, &to.join(name))?;
                if ending != Ending::Exit(0) {
                    let mut faults = faults.lock().unwrap_or_else(|lost| lost.into_inner());
                    faults.push(format!("{name}: {ending}"));
                }
            }
            Ok(())
        };
        let workers: Vec<_> = (0..how.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(result) => result,
            Err(_) => bail!("a worker panicked"),
        })
    })?;
    Ok(faults.into_inner().unwrap_or_else(|lost| lost.into_inner()))
}

/// Both programs take Suricata's command line when they are called by its name.
fn run_capture(program: &Path, capture: &Path, how: &How, folder: &Path) -> Result<Ending> {
    fs::create_dir_all(folder)?;
    let plain = plain_capture(capture)?;
    let capture = plain.as_ref().map_or(capture, tempfile::NamedTempFile::path);
    let tests = how.corpus.join("suricata-verify");
    let config = how.config.clone().unwrap_or_else(|| tests.join("suricata.yaml"));
    let link = tempfile::tempdir()?;
    let named = link.path().join("suricata");
    std::os::unix::fs::symlink(program, &named)?;
    let mut command = Command::new(&named);
    command.args(["-k", "none", "--runmode=single", "--disable-detection", "-r"]).arg(capture);
    command.arg("-c").arg(config).arg("-l").arg(folder);
    for file in ["classification", "reference"] {
        let path = tests.join(format!("{file}.config"));
        command.arg("--set").arg(format!("{file}-file={}", path.display()));
    }
    command.args(&how.arguments).stdout(Stdio::null()).stderr(Stdio::null());
    run(&mut command, how.limit).with_context(|| format!("cannot run {}", program.display()))
}

/// A compressed capture as a plain file, which Suricata needs.
fn plain_capture(capture: &Path) -> Result<Option<tempfile::NamedTempFile>> {
    if capture.extension().is_none_or(|ending| ending != "zst") {
        return Ok(None);
    }
    let mut plain = tempfile::NamedTempFile::new()?;
    zstd::stream::copy_decode(fs::File::open(capture)?, &mut plain)?;
    Ok(Some(plain))
}

/// Unpacks what Suricata wrote for the suite's tests. False: there is no record of it.
///
/// # Errors
/// The archive can't be unpacked.
pub fn unpack_recorded(suite: Suite, how: &How, to: &Path) -> Result<bool> {
    let Some(archive) = suite.recorded().map(|path| how.corpus.join(path)) else {
        return Ok(false);
    };
    if !archive.exists() {
        return Ok(false);
    }
    unpack_archive(&archive, to)?;
    Ok(true)
}

/// Whether Suricata's output of an input is known: recorded outputs lack large files.
#[must_use]
pub fn is_recorded(folder: &Path) -> bool {
    folder.join("eve.json").exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_names() {
        for suite in Suite::ALL {
            assert_eq!(Suite::from_name(suite.name()), Some(suite));
            assert_eq!(suite.tests_folder().is_some(), suite.recorded().is_some());
        }
        assert_eq!(Suite::from_name("other"), None);
    }
}

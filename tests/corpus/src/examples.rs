//! Runs the examples of the crate whose tests ask: a page's example that no longer works fails a test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What an example printed.
#[derive(Debug)]
pub struct Printed {
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

/// Runs an example with these arguments. Cargo builds examples with all tests of a crate; with a single test it does
/// not, and then the name of the example is printed as skipped.
///
/// # Panics
/// If the example fails.
#[must_use]
pub fn run<A: AsRef<OsStr>>(name: &str, arguments: &[A]) -> Option<Printed> {
    let test = std::env::current_exe().expect("the test has a path");
    let example = test.parent()?.parent()?.join("examples").join(name);
    if !example.is_file() {
        eprintln!("skipped: {} is not built: run all tests of the crate", example.display());
        return None;
    }
    let done = Command::new(&example).args(arguments).output();
    let done = done.unwrap_or_else(|e| panic!("{}: {e}", example.display()));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = Printed { out: text(&done.stdout), err: text(&done.stderr) };
    assert!(done.status.success(), "{name}: {}: {printed:?}", done.status);
    Some(printed)
}

/// A file of `demo/`, which is a part of the repository.
///
/// # Panics
/// If there is no such file.
#[must_use]
pub fn demo(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo").join(name);
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

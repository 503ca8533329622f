//! What the tests of BPF programs share: they need root, BTF and clang at build time, and are skipped by name where one of
//! them is missing.
//!
//! Attached programs see the whole machine, so tests of one process run one after the other.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why features are absent, tried once, as loading programs takes time.
static FEATURES: Mutex<BTreeMap<&str, Option<String>>> = Mutex::new(BTreeMap::new());
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other test has programs attached. `None`, after a line that names the test and the reason, if this
/// machine can't run it.
#[must_use]
pub fn live(test: &str, needed: &[&'static str]) -> Option<MutexGuard<'static, ()>> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in needed {
        let mut known = FEATURES.lock().unwrap_or_else(PoisonError::into_inner);
        let absent = known.entry(*name).or_insert_with(|| {
            gabion_probe::features::one(name).and_then(|f| f.result.err()).map(|e| e.to_string())
        });
        if let Some(reason) = absent {
            eprintln!("skipped: {test}: {reason}");
            return None;
        }
    }
    Some(guard)
}

/// The program of `programs/calls.c`, which makes calls that tests count.
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Compiles it. `None`, after a line that names the test and the reason, if there is no C compiler.
    #[must_use]
    pub fn built(test: &str) -> Option<Self> {
        let root = env!("CARGO_MANIFEST_DIR");
        let path = std::env::temp_dir().join(format!("gabion-calls-{}-{test}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-o"]).arg(&path).arg(format!("{root}/programs/calls.c"));
        match cc.status() {
            Ok(status) if status.success() => Some(Self { path }),
            other => {
                eprintln!("skipped: {test}: cc can't compile programs/calls.c: {other:?}");
                None
            }
        }
    }

    /// A command of the program.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(name);
        command
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

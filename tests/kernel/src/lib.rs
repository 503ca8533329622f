//! What the tests of BPF programs share: they need root, BTF and clang at build time, and are skipped by name where one of
//! them is missing.
//!
//! Attached programs see the whole machine, so tests of one process run one after the other.

#![forbid(unsafe_code)]

use gabion_probe::syscalls::{Call, Session};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Why features are absent, tried once, as loading programs takes time.
static FEATURES: Mutex<BTreeMap<&str, Option<String>>> = Mutex::new(BTreeMap::new());
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Waits until no other test has programs attached. `None`, after a line that names the test and the reason, if this
/// machine can't run it.
///
/// # Panics
/// If the kernel's verifier refuses a program.
#[must_use]
pub fn live(test: &str, needed: &[&'static str]) -> Option<MutexGuard<'static, ()>> {
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for name in needed {
        let mut known = FEATURES.lock().unwrap_or_else(PoisonError::into_inner);
        let absent = known.entry(*name).or_insert_with(|| {
            gabion_probe::features::one(name).and_then(|f| f.result.err()).map(|e| e.to_string())
        });
        if let Some(reason) = absent {
            // That is no want of the machine, but a mistake in our program.
            assert!(!reason.contains("verifier"), "{test}: {reason}");
            eprintln!("skipped: {test}: {reason}");
            return None;
        }
    }
    Some(guard)
}

/// A program of `programs/`, whose calls the tests look for.
pub struct Program {
    path: PathBuf,
}

impl Program {
    /// Compiles `programs/calls.c`. `None`, after a line that names the test and the reason, if there is no C compiler.
    #[must_use]
    pub fn built(test: &str) -> Option<Self> {
        Self::built_of("calls", test)
    }

    /// Compiles `programs/NAME.c`.
    #[must_use]
    pub fn built_of(name: &str, test: &str) -> Option<Self> {
        Self::built_with(name, test, &[])
    }

    /// Compiles `programs/NAME.c` without shared libraries, for places that have none.
    #[must_use]
    pub fn built_static(name: &str, test: &str) -> Option<Self> {
        Self::built_with(name, test, &["-static"])
    }

    fn built_with(name: &str, test: &str, options: &[&str]) -> Option<Self> {
        let root = env!("CARGO_MANIFEST_DIR");
        let path = std::env::temp_dir().join(format!("gabion-calls-{}-{test}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(options)
            .args(["-O1", "-pthread", "-o"])
            .arg(&path)
            .arg(format!("{root}/programs/{name}.c"));
        match cc.status() {
            Ok(status) if status.success() => Some(Self { path }),
            other => {
                eprintln!("skipped: {test}: cc can't compile programs/{name}.c: {other:?}");
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

/// Runs a command and gives each of its records to `sink`. Returns what it printed.
///
/// # Panics
/// If the program can't be started or fails.
pub fn record(
    session: &mut Session,
    command: &mut Command,
    sink: &mut dyn FnMut(&Call<'_>),
) -> String {
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut out = child.stdout.take().expect("it has an output");
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        out.read_to_string(&mut text).map(|_| text)
    });
    let tid = i64::from(child.id());
    let mut filter = |call: &Call<'_>| {
        if call.event.tid == tid {
            sink(call);
        }
    };
    let status = loop {
        if session.poll(&mut filter) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if let Some(status) = child.try_wait().expect("it is our child") {
            break status;
        }
    };
    while session.poll(&mut filter) > 0 {}
    assert!(status.success(), "{status}");
    reader.join().expect("the reader ends").expect("the output is text")
}

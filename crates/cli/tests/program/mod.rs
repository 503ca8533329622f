//! Runs the built program and looks at its output, its files and its exit code.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod packets;
pub mod wire;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The results of a run.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// `gabion` with these arguments.
pub fn gabion(args: &[&str]) -> Ran {
    ran(command(args).output().unwrap())
}

/// The command, to be changed before it is run.
pub fn command(args: &[&str]) -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_gabion"));
    c.args(args).env("TZ", "UTC").env_remove("COLUMNS");
    c
}

pub fn ran(o: Output) -> Ran {
    Ran {
        code: o.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&o.stdout).into_owned(),
        err: String::from_utf8_lossy(&o.stderr).into_owned(),
    }
}

impl Ran {
    /// The exit code is that, and standard error is one line with all of these in it.
    #[track_caller]
    pub fn refuses(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, code, "{}", self.err);
        let lines: Vec<&str> =
            self.err.lines().filter(|l| !l.contains("see gabion rules")).collect();
        assert_eq!(lines.len(), 1, "{}", self.err);
        assert!(lines[0].starts_with("gabion: "), "{}", self.err);
        for word in words {
            assert!(lines[0].contains(word), "{word} is not in {}", self.err);
        }
    }
}

/// Copies a program that is then run. Another process does it: one that a test in another thread starts at that moment
/// would inherit the copy while it is open for writing, and the kernel then refuses to run it.
pub fn copy_program(from: &str, to: &Path) {
    let done = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(done.success(), "{from}: cannot be copied to {}", to.display());
}

/// Compares what a test made with the part of a page of the repository that follows its comment; with UPDATE=1 it is
/// written there.
pub fn compare_page(name: &str, made: &str) {
    let path = repository(name);
    let kept = std::fs::read_to_string(&path).unwrap();
    let at = kept.find("-->\n").map(|at| at + "-->\n".len()).unwrap();
    let (written_by_hand, table) = kept.split_at(at);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{written_by_hand}{made}")).unwrap();
        return;
    }
    assert!(table == made, "{name} is not what the tables say: run with UPDATE=1");
}

/// A file of the repository.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The demonstration's capture.
pub fn demo() -> String {
    repository("demo/demo.pcap").display().to_string()
}

/// Every line of the file is a JSON object; how many there are.
pub fn json_lines(path: &Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{} ends in half a line", path.display());
    text.lines()
        .map(|l| {
            serde_json::from_str::<serde_json::Value>(l).unwrap_or_else(|e| panic!("{l}: {e}"))
        })
        .filter(serde_json::Value::is_object)
        .count()
}

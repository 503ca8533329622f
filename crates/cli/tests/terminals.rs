//! On a terminal tables fit into its columns, from 60 up, and the line of progress is never longer than it is wide.
//! Passes by name only where `script` (of util-linux), which makes a terminal, is not installed.
#![allow(clippy::print_stdout, reason = "a test prints what it found on standard output")]

mod program;

use program::{demo, gabion, repository};
use std::process::Command;

/// What a command shows on a terminal of `columns` columns, line by line, without what moves the cursor.
fn shown(columns: usize, line: &str) -> Option<Vec<String>> {
    let command = format!("stty cols {columns} rows 24; {} {line}", env!("CARGO_BIN_EXE_gabion"));
    let run = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm")
        .env_remove("COLUMNS")
        .stdin(std::process::Stdio::null())
        .output();
    let Ok(run) = run else {
        println!("skipped: script is not installed");
        return None;
    };
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    Some(text.split(['\r', '\n']).map(plain).collect())
}

/// Without escape sequences (ECMA-48).
fn plain(line: &str) -> String {
    let mut out = String::new();
    let mut letters = line.chars();
    while let Some(c) = letters.next() {
        match c {
            '\u{1b}' => {
                let _ = letters.find(|c| c.is_ascii_alphabetic());
            }
            c => out.push(c),
        }
    }
    out
}

#[test]
fn tables_and_progress_fit_into_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run").display().to_string();
    let (demo, rules) = (demo(), repository("demo/gabion.rules").display().to_string());
    let done = gabion(&["read", &demo, "--behavior", "-q", "-l", &run]);
    assert_eq!(done.code, 0, "{}", done.err);
    for line in [
        format!("read {demo} -S {rules} --profile-rules --profile-memory"),
        format!("read {demo} --behavior"),
        format!("behavior list {run}"),
        format!("behavior show {run} --profile 10.20.0.50"),
        format!("doctor {run}"),
        format!("rules check -v {rules}"),
        format!("rules list {rules}"),
        format!("rules cost {demo} -S {rules}"),
    ] {
        for columns in [60, 72, 80, 120] {
            let Some(shown) = shown(columns, &line) else { return };
            let mut tables = 0;
            for row in shown {
                // Rows stand behind two spaces; sentences are wrapped by the terminal.
                let is_row =
                    row.starts_with("  ") && !row.trim().is_empty() && !row.contains(" received ");
                let is_progress = row.contains(" %, ");
                tables += usize::from(is_row);
                let length = row.chars().count();
                assert!(
                    !(is_row || is_progress) || length <= columns,
                    "{line}: {length} > {columns}: {row}"
                );
            }
            assert!(tables > 3, "{line}: no table was shown");
        }
    }
}

/// However few columns there are, the line of progress is cut to them.
#[test]
fn the_line_of_progress_never_wraps() {
    for columns in [10, 20, 40, 79] {
        let Some(shown) = shown(columns, &format!("read {}", demo())) else { return };
        let lines: Vec<&String> = shown.iter().filter(|row| row.contains(" %")).collect();
        assert!(!lines.is_empty(), "no progress is shown: {shown:?}");
        for row in lines {
            assert!(row.chars().count() <= columns, "{columns}: {row}");
        }
    }
}

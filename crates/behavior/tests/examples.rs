//! The example runs: a log in, what was found on standard output.

use std::path::PathBuf;
use std::process::Command;

/// Where cargo puts a built example; none when only one test was built.
fn example(name: &str) -> Option<PathBuf> {
    let deps = std::env::current_exe().ok()?;
    let path = deps.parent()?.parent()?.join("examples").join(name);
    if !path.is_file() {
        eprintln!("skipped: {} is not built: run all tests of the crate", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn the_example_finds_a_scan_in_a_log() {
    let Some(example) = example("evidence") else { return };
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("conn.log");
    let mut text = String::from(
        "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tconn_state\n",
    );
    for n in 0..40 {
        text += &format!("17000000{n:02}.5\tC{n}\t10.0.0.1\t40000\t192.0.2.{n}\t23\ttcp\tS0\n");
    }
    std::fs::write(&log, text).unwrap();
    let ran = Command::new(example).arg(&log).output().unwrap();
    let found = String::from_utf8_lossy(&ran.stdout).into_owned();
    assert!(ran.status.success() && found.contains("HORIZONTAL_PORT_SCAN"), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("40 records"), "{ran:?}");
}

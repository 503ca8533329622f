//! The toy format from end to end: found by its header, named by `--kind`, listed in `--help` and in messages.

use std::path::Path;
use std::process::{Command, Output};

fn gabion(args: &[&str], path: &Path) -> Output {
    let gabion = env!("CARGO_BIN_EXE_gabion");
    Command::new(gabion).arg("read").args(args).arg(path).output().unwrap()
}

#[test]
fn a_format_of_flow_logs_works_from_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.csv");
    let mut log = String::from("begin,seconds,from,to,port,protocol,sent,received\n");
    for n in 0..40 {
        log.push_str(&format!("17000000{n:02},0.1,10.0.0.1,192.0.2.{n},23,tcp,40,0\n"));
    }
    std::fs::write(&path, log).unwrap();
    for more in [&["--behavior", "--json"][..], &["--behavior", "--json", "--kind", "brief"]] {
        let ran = gabion(more, &path);
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        assert!(ran.status.success() && text.contains("HORIZONTAL_PORT_SCAN"), "{ran:?}");
    }
    let other = gabion(&["--behavior", "--kind", "zeek"], &path);
    assert!(!other.status.success());
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(said.contains("brief CSV"), "{said}");
    let help = Command::new(env!("CARGO_BIN_EXE_gabion")).args(["read", "--help"]).output();
    assert!(String::from_utf8_lossy(&help.unwrap().stdout).contains("- brief:"));
}

//! The toy format from end to end: found by its header, named by `--kind`, listed in `--help` and in messages.

use std::path::Path;
use std::process::{Command, Output};

fn gabion(args: &[&str], path: &Path) -> Output {
    let gabion = env!("CARGO_BIN_EXE_gabion");
    Command::new(gabion).args(["read", "--behavior"]).args(args).arg(path).output().unwrap()
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
    let out = folder.path().join("out");
    let shown = out.display().to_string();
    for more in
        [&["--overwrite", "-l", &shown][..], &["--overwrite", "-l", &shown, "--kind", "brief"]]
    {
        let ran = gabion(more, &path);
        assert!(ran.status.success(), "{ran:?}");
        let alerts = std::fs::read_to_string(out.join("alerts.json")).unwrap();
        assert!(alerts.contains("HORIZONTAL_PORT_SCAN"), "{alerts}");
        std::fs::remove_dir_all(&out).unwrap();
    }
    let other = gabion(&["--kind", "zeek"], &path);
    assert!(!other.status.success());
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(said.contains("brief CSV"), "{said}");
    let help = Command::new(env!("CARGO_BIN_EXE_gabion")).args(["read", "--help"]).output();
    assert!(String::from_utf8_lossy(&help.unwrap().stdout).contains("brief"));
}

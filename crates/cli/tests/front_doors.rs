//! The two doors over the same capture and rules: without a configuration named, both use the
//! built-in one and find the same. Passes by name only where Suricata's own configuration is
//! installed, which the second door then reads.
#![allow(clippy::print_stdout, reason = "a test prints what it found on standard output")]

use std::path::Path;
use std::process::Command;

#[test]
fn both_doors_find_the_same_without_a_configuration() {
    if Path::new("/etc/suricata/suricata.yaml").exists() {
        println!("skipped: a configuration of Suricata is installed");
        return;
    }
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    let (capture, rules) = (demo.join("demo.pcap"), demo.join("gabion.rules"));
    let alerts = |verb: &[&str]| {
        let out = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_gabion"));
        let done = command
            .args(verb)
            .arg(&capture)
            .arg("-S")
            .arg(&rules)
            .arg("-l")
            .arg(out.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::read_to_string(out.path().join("fast.log")).unwrap()
    };
    let read = alerts(&["read"]);
    assert!(!read.is_empty());
    assert_eq!(read, alerts(&["suricata", "-r"]));
}

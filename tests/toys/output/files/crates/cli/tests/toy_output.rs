//! The toy output from end to end: named in the configuration, its lines the same with any number of workers.

use std::path::Path;
use std::process::Command;

/// The networks of the demo rules, and the output.
const CONFIG: &str = "%YAML 1.1\n---\nvars:\n  address-groups:\n    \
    HOME_NET: \"[192.168.0.0/16,10.0.0.0/8,172.16.0.0/12]\"\n    EXTERNAL_NET: \"!$HOME_NET\"\n\
    outputs:\n  - fast:\n      enabled: yes\n  - alerts-csv:\n      enabled: yes\n";

fn read(folder: &Path, workers: &str) -> String {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = folder.join(workers);
    let config = folder.join("config.yaml");
    std::fs::write(&config, CONFIG).unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_gabion"))
        .args(["read", "--workers", workers, "-c"])
        .arg(&config)
        .arg("-l")
        .arg(&out)
        .arg("--rules")
        .arg(repository.join("demo/gabion.rules"))
        .arg(repository.join("demo/demo.pcap"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(!errors.contains("not supported"), "{errors}");
    std::fs::read_to_string(out.join("alerts.csv")).unwrap_or_default()
}

#[test]
fn an_output_works_from_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let alone = read(folder.path(), "1");
    let fast = std::fs::read_to_string(folder.path().join("1/fast.log")).unwrap();
    assert!(fast.lines().count() > 40, "{fast}");
    assert_eq!(alone.lines().count(), fast.lines().count(), "{alone}");
    assert!(alone.lines().all(|line| line.split(',').count() == 4), "{alone}");
    for workers in ["2", "4"] {
        assert_eq!(read(folder.path(), workers), alone, "{workers} workers");
    }
}

//! The toy detector from end to end: a log in, its evidence in `alerts.json`, its setting by `--set`.

use std::path::Path;
use std::process::Command;

/// 2023-11-14T02:13:20Z: an upload of 20 MB.
const LOG: &str = "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\t\
    proto\tduration\torig_bytes\tresp_bytes\tconn_state\n\
    1699928000.000000\tC1\t10.0.0.1\t40000\t1.2.3.4\t443\ttcp\t5.0\t20000000\t100\tSF\n";

fn read(folder: &Path, more: &[&str]) -> (String, String) {
    let log = folder.join("conn.log");
    std::fs::write(&log, LOG).unwrap();
    let out = folder.join("out");
    let ran = Command::new(env!("CARGO_BIN_EXE_gabion"))
        .args(["read", "--behavior", "--overwrite", "-l"])
        .arg(&out)
        .arg(&log)
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    (std::fs::read_to_string(out.join("alerts.json")).unwrap_or_default(), said)
}

#[test]
fn a_detector_and_its_setting_work_from_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let (alerts, _) = read(folder.path(), &[]);
    assert!(!alerts.contains("ODD_HOUR_UPLOAD"), "{alerts}");
    let (alerts, said) = read(folder.path(), &["--set", "gabion.odd_hour_upload_mb=13"]);
    assert!(alerts.contains("ODD_HOUR_UPLOAD"), "{alerts}");
    assert!(!said.contains("odd_hour_upload_mb"), "{said}");
}

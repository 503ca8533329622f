//! The example runs: a log in, what was found on standard output.

use gabion_corpus::examples;

#[test]
fn the_example_finds_a_scan_in_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("conn.log");
    let mut text = String::from(
        "#separator \\x09\n#path\tconn\n#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tconn_state\n",
    );
    for n in 0..40 {
        text += &format!("17000000{n:02}.5\tC{n}\t10.0.0.1\t40000\t192.0.2.{n}\t23\ttcp\tS0\n");
    }
    std::fs::write(&log, text).unwrap();
    let Some(printed) = examples::run("evidence", &[&log]) else { return };
    assert!(printed.out.contains("HORIZONTAL_PORT_SCAN"), "{printed:?}");
    assert!(printed.err.contains("40 records"), "{printed:?}");
}

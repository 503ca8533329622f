//! The examples run, and their answers do not depend on the number of workers.

#[allow(dead_code, reason = "its main reads the arguments of the test")]
#[path = "../examples/flows.rs"]
mod flows;
#[path = "../examples/packets.rs"]
mod packets;

#[test]
fn the_demo_capture_alerts_with_any_number_of_workers() {
    packets::main().unwrap();
    let one = packets::alerts_of_demo(1).unwrap();
    assert!(!one.is_empty());
    assert_eq!(packets::alerts_of_demo(3).unwrap(), one);
}

#[test]
fn a_port_scan_is_found_with_any_number_of_workers() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("conn.log");
    std::fs::write(&log, flows::scan()).unwrap();
    let one = flows::evidence_of(vec![log.clone()], 1).unwrap();
    assert!(one.iter().any(|(kind, _)| kind.contains("PORT_SCAN")), "{one:?}");
    assert_eq!(flows::evidence_of(vec![log], 3).unwrap(), one);
}

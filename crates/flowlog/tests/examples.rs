//! The example runs: it prints the records of two logs in order of time, and what was skipped.

use gabion_corpus::examples;

#[test]
fn records_of_two_logs_come_in_order_of_time_and_a_bad_line_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (early, late) = (folder.path().join("a.log"), folder.path().join("b.log"));
    let line = |ts: u32, uid: &str| {
        format!(
            "{{\"ts\":{ts}.0,\"uid\":\"{uid}\",\"id.orig_h\":\"10.0.0.1\",\"id.orig_p\":{ts},\
             \"id.resp_h\":\"192.0.2.1\",\"id.resp_p\":443,\"proto\":\"tcp\",\"conn_state\":\"SF\"}}\n"
        )
    };
    std::fs::write(&late, line(2, "C2") + &line(4, "C4")).unwrap();
    std::fs::write(&early, line(1, "C1") + "{\"ts\":\n" + &line(3, "C3")).unwrap();
    let Some(printed) = examples::run("records", &[&late, &early]) else { return };
    let lines: Vec<String> =
        (1..=4).map(|n| format!("{n} conn 10.0.0.1:{n} -> 192.0.2.1:443")).collect();
    assert_eq!(printed.out.lines().collect::<Vec<_>>(), lines);
    assert!(printed.err.contains("1 lines skipped"), "{printed:?}");
}

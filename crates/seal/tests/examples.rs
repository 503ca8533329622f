//! The example runs: three messages are sealed, and the log is good without a key and with one.

use gabion_corpus::examples;

#[test]
fn a_sealed_log_is_verified_without_a_key_and_with_one() {
    let Some(printed) = examples::run("seal_and_verify", &[""; 0]) else { return };
    let verdicts: Vec<&str> = printed.out.lines().collect();
    assert_eq!(verdicts.len(), 2, "{printed:?}");
    assert!(verdicts[0].starts_with("OK with 0 keys: "), "{printed:?}");
    assert!(verdicts[1].starts_with("OK with 1 keys: "), "{printed:?}");
    let opened = |line: &str| line.split(' ').nth(4).and_then(|n| n.parse::<u64>().ok());
    // A key opens the three messages in addition to the log's own statements.
    assert_eq!(opened(verdicts[0]).map(|n| n + 3), opened(verdicts[1]), "{printed:?}");
}

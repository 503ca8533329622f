//! The example runs: it prints what is reported of each rule file, and the rules.

use gabion_corpus::examples;

#[test]
fn rules_of_good_files_and_faults_of_bad_ones_are_printed() {
    let bad = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bad.yaml");
    std::fs::write(
        &bad,
        "- rule: one\n  desc: d\n  condition: no.such.field = 1\n  output: o\n  priority: INFO\n",
    )
    .unwrap();
    let files = [examples::demo("syscalls.yaml"), bad];
    let Some(printed) = examples::run("check_falco_rules", &files) else { return };
    assert!(printed.out.contains("5 rules, 5 of them enabled"), "{printed:?}");
    assert!(printed.out.contains("no.such.field"), "{printed:?}");
}

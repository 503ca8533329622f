//! The example runs: it prints what is wrong with rule files, and how many rules loaded.

use gabion_corpus::examples;

#[test]
fn a_rule_with_a_fault_is_printed_with_its_place() {
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("local.rules");
    let text = "alert tcp any any -> any 80 (msg:\"good\"; content:\"x\"; sid:1;)\n\
                alert tcp any any -> any 80 (msg:\"bad\"; contend:\"x\"; sid:2;)\n";
    std::fs::write(&file, text).unwrap();
    let Some(printed) = examples::run("check_rules", &[&file]) else { return };
    assert!(printed.out.ends_with("1 rules loaded, 1 refused\n"), "{printed:?}");
    assert!(
        printed.out.contains("contend") && printed.out.contains("local.rules:2"),
        "{printed:?}"
    );
}

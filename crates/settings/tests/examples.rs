//! The example runs.

#[allow(dead_code, reason = "its main reads the arguments of the test")]
#[path = "../examples/rules.rs"]
mod rules;

#[test]
fn the_demo_rules_are_compiled() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/gabion.rules");
    let counts = rules::compile(&[demo.into()]).unwrap();
    assert!(counts.loaded > 0 && counts.failed == 0);
}

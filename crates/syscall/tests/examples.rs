//! The examples run: opened files with their processes, and the events for which a condition or a rule holds.

use gabion_corpus::examples;

#[test]
fn opened_files_conditions_and_rules_of_the_demo_are_found() {
    let demo = examples::demo("demo.scap");
    let Some(opens) = examples::run("opens", &[&demo]) else { return };
    assert!(opens.out.contains("visitor > cat: /tmp/demo.rec/site/notes SUCCESS"), "{opens:?}");
    let by_condition = [demo.as_os_str(), "evt.type = openat".as_ref()];
    let Some(found) = examples::run("filter", &by_condition) else { return };
    assert!(found.out.ends_with("247 events, 55 matches\n"), "{found:?}");
    let rules = examples::demo("syscalls.yaml");
    let Some(alerts) = examples::run("filter", &[demo.as_os_str(), rules.as_os_str()]) else {
        return;
    };
    assert!(alerts.out.ends_with("247 events, 7 matches\n"), "{alerts:?}");
}

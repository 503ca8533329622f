//! The big rule set loads, but for the four rules that Suricata refuses too.
//!
//! Needs the corpus (`GABION_CORPUS`); skips by name without it.

mod support;

use gabion_rules::{RuleSource, Ruleset, Severity};

#[test]
fn the_emerging_threats_set_loads_but_for_four_rules() {
    let test = "the_emerging_threats_set_loads_but_for_four_rules";
    let Some(text) = gabion_corpus::read_text(test, "rules/emerging-all.rules.zst") else { return };
    let source = RuleSource { name: "emerging-all.rules", text: &text, is_firewall: false };
    let (set, said) =
        Ruleset::load(&[source], support::catalog(), &support::vars(), &support::options());
    let errors: Vec<String> = said
        .iter()
        .filter(|d| d.severity == Severity::Error)
        .map(|d| format!("{d}\n    {}", d.rule))
        .collect();
    // corpus/rules/README.md names the four
    assert_eq!(set.counts.failed, 4, "{}", errors.join("\n"));
    assert_eq!(set.counts.loaded, 31_928);
    assert_eq!(set.counts.inert, 0);
}

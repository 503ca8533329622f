//! Falco's shipped rules, for the tests that try all of them.

use gabion_condition::rules::{Loader, RuleSet, Selection, Settings};

/// The three shipped rule files with all of their rules; `folder` is that of the scap files.
pub(crate) fn load(folder: &std::path::Path) -> RuleSet {
    let mut loader = Loader::new(Settings::default());
    for name in ["falco_rules.yaml", "falco-incubating_rules.yaml", "falco-sandbox_rules.yaml"] {
        let text = std::fs::read_to_string(folder.join("../falco-rules").join(name)).unwrap();
        assert!(loader.load(name, &text).is_successful(), "{name}");
    }
    let mut rules = loader.into_rules();
    rules.select(&[Selection::Rule("*".to_owned(), true)]);
    assert_eq!(rules.enabled(), 93);
    rules
}

//! Falco's shipped rules, for the tests that need all of them.

use gabion_condition::rules::{Loader, RuleSet, Settings};

/// The three shipped rule files.
pub(crate) fn load(folder: &std::path::Path) -> RuleSet {
    let mut loader = Loader::new(Settings::default());
    for name in ["falco_rules.yaml", "falco-incubating_rules.yaml", "falco-sandbox_rules.yaml"] {
        let text = std::fs::read_to_string(folder.join(name)).expect("the file is there");
        assert!(loader.load(name, &text).is_successful(), "{name}");
    }
    loader.into_rules()
}

//! An engine for tests: the built-in configuration with some rules.

use gabion_net::Engine;
use gabion_record::eve::Wants;
use gabion_settings::{EngineMode, RuleFile};

/// An engine without detection.
pub(super) fn without_rules() -> Engine {
    let config = gabion_settings::built_in_configuration();
    let catalog = gabion_proto::registry::catalog();
    let scripts = gabion_settings::script_setup(&config, Default::default());
    let (wants, mode) = (Wants::default(), EngineMode::default());
    gabion_settings::build_engine(&config, (None, None), catalog, wants, mode, scripts).unwrap()
}

/// The engine of these rules, for outputs that want this.
pub(super) fn engine(rules: &str, wants: Wants) -> Engine {
    let config = gabion_settings::built_in_configuration();
    let catalog = gabion_proto::registry::catalog();
    let file = RuleFile {
        name: "test.rules".to_owned(),
        parts: vec![rules.to_owned()],
        is_firewall: false,
    };
    let scripts = gabion_settings::script_setup(&config, Default::default());
    let compiled =
        gabion_settings::compile_rules(&config, vec![file], &catalog, Default::default(), &scripts);
    let rules = Some((compiled.set, compiled.datasets));
    let mode = EngineMode::default();
    gabion_settings::build_engine(&config, (rules, None), catalog, wants, mode, scripts).unwrap()
}

//! The configuration that runs take.

use super::*;
use gabion_settings::yaml::read_yaml_text;

/// Every key of Slips' own configuration is honoured or named with a reason.
#[test]
fn the_configuration_of_slips_is_known_whole() {
    let test = "the_configuration_of_slips_is_known_whole";
    let path = "flows/slips-data/slips.yaml";
    let Some(text) = gabion_corpus::read_text(test, path) else { return };
    let tree = read_yaml_text("slips.yaml", &text).unwrap();
    let (unused, unknown) = not_used(&tree);
    assert!(unknown.is_empty(), "{unknown:?}");
    assert!(unused.len() > 50);
    let (settings, wrong) = Settings::from_tree(&tree);
    assert!(wrong.is_empty() && settings.upload_mb == 500, "{wrong:?}");
}

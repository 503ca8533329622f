//! Compiles rule files with the built-in configuration and prints what is wrong with them.
//!
//!     cargo run -p gabion-settings --example rules -- demo/gabion.rules

use gabion_settings::{
    Demands, built_in_configuration, compile_rules, fold_faults, read_rule_file, script_setup,
};
use std::path::Path;

fn main() -> Result<(), gabion_settings::Error> {
    let config = built_in_configuration();
    let catalog = gabion_proto::registry::catalog();
    let scripts = script_setup(&config, gabion_net::Voice::new(|_, _, _| ()));
    let mut files = Vec::new();
    for path in std::env::args().skip(1) {
        files.push(read_rule_file(Path::new(&path), false)?);
    }
    let compiled = compile_rules(&config, &files, &catalog, Demands::default(), &scripts);
    let faults = fold_faults(&compiled.rules);
    for fault in &faults.said {
        eprintln!("{fault}");
    }
    for (fault, rules) in &faults.more {
        eprintln!("{fault}: {rules} more rules are refused for it");
    }
    let counts = compiled.set.counts;
    eprintln!(
        "{} rules loaded, {} refused, {} skipped",
        counts.loaded, counts.failed, counts.skipped
    );
    Ok(())
}

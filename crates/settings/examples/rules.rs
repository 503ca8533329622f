//! Compiles rule files with the built-in configuration and prints what is wrong with them.
//!
//!     cargo run -p gabion-settings --example rules -- demo/gabion.rules

use gabion_rules::Counts;
use gabion_settings::{
    Demands, Error, built_in_configuration, compile_rules, fold_faults, read_rule_file,
    script_setup,
};
use std::path::PathBuf;

fn main() -> Result<(), Error> {
    let files: Vec<PathBuf> = std::env::args().skip(1).map(PathBuf::from).collect();
    let counts = compile(&files)?;
    eprintln!(
        "{} rules loaded, {} refused, {} skipped",
        counts.loaded, counts.failed, counts.skipped
    );
    Ok(())
}

/// Compiles the files; how many rules were loaded, refused and skipped.
pub(crate) fn compile(paths: &[PathBuf]) -> Result<Counts, Error> {
    let config = built_in_configuration();
    let catalog = gabion_proto::registry::catalog();
    let scripts = script_setup(&config, gabion_net::script::Voice::default());
    let mut files = Vec::new();
    for path in paths {
        files.push(read_rule_file(path, false)?);
    }
    let compiled = compile_rules(&config, files, &catalog, Demands::default(), &scripts);
    let faults = fold_faults(&compiled.rules);
    for fault in &faults.said {
        eprintln!("{fault}");
    }
    for (fault, rules) in &faults.more {
        eprintln!("{fault}: {rules} more rules are refused for it");
    }
    Ok(compiled.set.counts)
}

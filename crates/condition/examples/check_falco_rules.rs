//! Loads rule files together and prints what is reported of each: `check_falco_rules falco_rules.yaml my_rules.yaml`.

#![allow(clippy::print_stdout, reason = "the results are printed to a terminal")]

use gabion_condition::rules::{Loader, Settings};

fn main() -> std::io::Result<()> {
    let mut loader = Loader::new(Settings::default());
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path)?;
        println!("{}", loader.load(&path, &text).text(true));
    }
    let rules = loader.into_rules();
    println!("{} rules, {} of them enabled", rules.rules().len(), rules.enabled());
    for rule in rules.rules() {
        println!(
            "{:<60} {:<13} {} types of events",
            rule.name,
            rule.priority.name(),
            rule.types.len()
        );
    }
    Ok(())
}

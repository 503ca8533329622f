//! Reads rule files and prints what is wrong with them, and how many rules loaded:
//! `cargo run -p gabion-rules --example check_rules -- local.rules`.
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use gabion_record::applayer::Catalog;
use gabion_rules::{LoadOptions, RuleSource, RuleVars, Ruleset};

fn main() -> std::io::Result<()> {
    let mut files = Vec::new();
    for name in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&name)?;
        files.push((name, text));
    }
    let sources: Vec<RuleSource<'_>> =
        files.iter().map(|(name, text)| RuleSource { name, text, is_firewall: false }).collect();
    // Protocols describe themselves in a catalog; without one, rules on protocols load and never match.
    let any = |name: &str| (name.to_owned(), "any".to_owned());
    let vars = RuleVars {
        addresses: ["HOME_NET", "EXTERNAL_NET"].map(any).to_vec(),
        ports: ["HTTP_PORTS"].map(any).to_vec(),
    };
    let (set, faults) =
        Ruleset::load(&sources, &Catalog::default(), &vars, &LoadOptions::default());
    for fault in &faults {
        println!("{}", fault.render(false));
    }
    println!("{} rules loaded, {} refused", set.counts.loaded, set.counts.failed);
    Ok(())
}

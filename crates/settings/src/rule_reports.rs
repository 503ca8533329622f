//! Reports on rules in files: what each looks for, its patterns, and the groups of rules by port.

use crate::messages::Messages;
use crate::rules::{LoadedRules, stores};
use gabion_net::FirewallPolicies;
use gabion_record::Tree;
use gabion_record::applayer::Catalog;
use gabion_rules::analysis::{
    Flowbits, PolicyTexts, Report, fast_pattern_report, firewall_json, patterns_json, rule_json,
    rule_report,
};
use gabion_rules::{Ruleset, Signature, SignatureFlags};
use gabion_runtime::output::write_whole;
use std::path::Path;

/// Writes the reports on the rules into a folder (`--engine-analysis`); false, and a message, when one
/// can't be written.
pub fn write_rule_analysis(
    l: &LoadedRules,
    catalog: &Catalog,
    config: &Tree,
    folder: &Path,
    log: &mut Messages<'_>,
) -> bool {
    let flowbits = Flowbits::from_ruleset(&l.set);
    let report = Report { set: &l.set, catalog, flowbits: &flowbits };
    let stores = stores(config);
    let (mut rules, mut texts, mut patterns) = (Vec::new(), String::new(), String::new());
    for s in &l.set.signatures {
        rules.extend_from_slice(&rule_json(&report, s));
        rules.push(b'\n');
        texts.push_str(&rule_report(&report, s, stores));
        patterns.push_str(&fast_pattern_report(&report, s));
    }
    let counted = patterns_json(&report);
    let mut files: Vec<(&str, &[u8])> = vec![
        ("rules.json", &rules),
        ("patterns.json", &counted),
        ("rules_analysis.txt", texts.as_bytes()),
        ("rules_fast_pattern.txt", patterns.as_bytes()),
    ];
    let firewall = firewall_tables(&report, config);
    if let Some(firewall) = &firewall {
        files.push(("firewall.json", firewall));
    }
    for (name, bytes) in files {
        let path = folder.join(name);
        if let Err(e) = write_whole(&path, bytes) {
            log.error("analyzer", &format!("{}: cannot be written: {e}", path.display()));
            return false;
        }
    }
    true
}

/// The report on the tables of the firewall, where there are rules of it.
fn firewall_tables(report: &Report<'_>, config: &Tree) -> Option<Vec<u8>> {
    let is_of_firewall = |s: &Signature| s.flags.has(SignatureFlags::FIREWALL);
    if !report.set.signatures.iter().any(is_of_firewall) {
        return None;
    }
    // A configuration with wrong policies has been refused before.
    let policies = FirewallPolicies::from_tree(config, report.catalog).ok()?;
    let texts = PolicyTexts {
        packet: policies.packet_text(),
        state: &|proto, direction, state| policies.state_text(proto, direction, state),
    };
    Some(firewall_json(report, &texts))
}

/// Writes which rules are looked at for which ports, when the configuration asks for it.
pub fn write_rule_groups(
    set: &Ruleset,
    catalog: &Catalog,
    config: &Tree,
    folder: &Path,
    log: &mut Messages<'_>,
) {
    use gabion_rules::analysis::{GroupOptions, rule_groups};
    const SHOWN: &str = "detect.profiling.grouping";
    if config.flag(&format!("{SHOWN}.dump-to-disk")) != Some(true) {
        return;
    }
    let ports = |key: &str| -> Option<Vec<u16>> {
        let text = config.text(&format!("detect.grouping.{key}"))?;
        text.split(',').map(|p| p.trim().parse().ok()).collect()
    };
    let default = GroupOptions::default();
    let number = |key: &str, otherwise: usize| {
        let n = config.number(&format!("detect.custom-values.{key}"));
        n.and_then(|n| usize::try_from(n).ok()).unwrap_or(otherwise)
    };
    let most = match config.text("detect.profile") {
        Some("low") => [15, 2],
        Some("high") => [75, 15],
        Some("custom") => {
            [number("toserver-groups", default.most[0]), number("toclient-groups", default.most[1])]
        }
        _ => default.most,
    };
    let options = GroupOptions {
        tcp_ports: ports("tcp-priority-ports").unwrap_or(default.tcp_ports),
        udp_ports: ports("udp-priority-ports").unwrap_or(default.udp_ports),
        most,
        include_rules: config.flag(&format!("{SHOWN}.include-rules")) == Some(true),
    };
    let flowbits = Flowbits::from_ruleset(set);
    let report = Report { set, catalog, flowbits: &flowbits };
    let path = folder.join("rule_group.json");
    if let Err(e) = write_whole(&path, rule_groups(&report, &options).as_ref()) {
        log.error("detect", &format!("{}: cannot be written: {e}", path.display()));
    }
}

//! Values of options and headers that are taken and refused as by Suricata.

use gabion_rules::{LoadOptions, RuleSource, RuleVars, Ruleset, Severity};

/// Loads the rules of a table, each of which Suricata 8.0.7 was asked about, and compares what is refused.
fn compare(table: &str, disabled: &[&str]) {
    let table = table.lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<(bool, String)> = table
        .enumerate()
        .map(|(n, line)| {
            let mut columns = line.split('\t');
            let mut column = || columns.next().unwrap_or_default();
            let (verdict, protocol, options) = (column(), column(), column());
            let rule = format!("alert {protocol} any any -> any any ({options} sid:{};)", n + 1);
            (verdict == "+", rule)
        })
        .collect();
    let text: String = rows.iter().map(|(_, rule)| format!("{rule}\n")).collect();
    let options = LoadOptions {
        reputation_categories: vec!["Good".to_owned()],
        disabled_protocols: disabled.iter().map(|name| (*name).to_owned()).collect(),
        ..LoadOptions::default()
    };
    let catalog = gabion_proto::registry::catalog();
    let source = RuleSource { name: "values.rules", text: &text, is_firewall: false };
    let (_, said) = Ruleset::load(&[source], &catalog, &RuleVars::default(), &options);
    let refused = |line: usize| {
        said.iter().find(|d| d.severity == Severity::Error && d.line as usize == line)
    };
    let mut wrong = Vec::new();
    for (n, (is_good, rule)) in rows.iter().enumerate() {
        let found = refused(n + 1);
        if found.is_none() != *is_good {
            wrong.push(format!("{rule}\n    {}", found.map_or("loaded", |d| d.message.as_str())));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

#[test]
fn values_are_taken_and_refused_as_by_suricata() {
    compare(include_str!("rule_values.tsv"), &[]);
}

/// Rules for protocols that the configuration switches off.
#[test]
fn rules_without_their_protocol_are_refused_as_by_suricata() {
    let off = ["tls", "http1", "pgsql", "smb", "quic", "ftp", "ftp-data", "krb5", "dnp3"];
    compare(include_str!("rules_without_protocols.tsv"), &off);
}

/// Every event of `app-layer-event` that Suricata 8.0.7 knows has its name here, whether or not a rule that comes with it
/// uses it.
#[test]
fn events_have_the_names_of_suricata() {
    let names = include_str!("event_names.tsv").lines().filter(|line| !line.starts_with('#'));
    let events: Vec<(&str, &str)> = names.filter_map(|line| line.split_once('\t')).collect();
    let rule = |(n, (protocol, event)): (usize, &(&str, &str))| {
        let sid = n + 1;
        format!(
            "alert {protocol} any any -> any any (app-layer-event:{protocol}.{event}; sid:{sid};)\n"
        )
    };
    let text: String = events.iter().enumerate().map(rule).collect();
    let catalog = gabion_proto::registry::catalog();
    let source = RuleSource { name: "events.rules", text: &text, is_firewall: false };
    let (rules, said) =
        Ruleset::load(&[source], &catalog, &RuleVars::default(), &LoadOptions::default());
    let said: Vec<&str> = said.iter().map(|d| d.message.as_str()).collect();
    assert_eq!((rules.signatures.len(), said), (331, Vec::new()));
}

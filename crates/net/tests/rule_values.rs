//! Values of options and headers that are taken and refused as by Suricata.

use gabion_rules::{LoadOptions, RuleSource, RuleVars, Ruleset, Severity};

/// Each line of the table is a rule that Suricata 8.0.7 was asked about.
#[test]
fn values_are_taken_and_refused_as_by_suricata() {
    let table = include_str!("rule_values.tsv").lines().filter(|line| !line.starts_with('#'));
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
    let options =
        LoadOptions { reputation_categories: vec!["Good".to_owned()], ..LoadOptions::default() };
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

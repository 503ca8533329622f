//! Reports through the crate's door: of findings in a folder, of rules, and of what can't be reported.

use gabion_behavior::whitelist::Whitelist;
use gabion_record::evidence::ThreatLevel;
use gabion_reports::{
    CheckStyle, Error, FindingFilter, FindingList, FindingOrder, MutePreview, RuleCheck, RuleList,
};
use gabion_settings::{NamedRuleFiles, NamedRules, built_in_configuration, script_setup};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;

/// A finding as a run writes it.
fn finding(id: &str, kind: &str, level: &str, source: &str) -> String {
    format!(
        "{{\"Status\":\"Event\",\"ID\":\"{id}\",\"StartTime\":\"2026-11-23T04:00:00Z\",\"Confidence\":0.9,\
         \"Description\":\"=calls, often\",\"Source\":[{{\"IP\":\"{source}\"}}],\
         \"Target\":[{{\"IP\":\"198.51.100.3\",\"Port\":[443]}}],\
         \"_gabion\":{{\"type\":\"{kind}\",\"detected\":\"2026-11-23T05:00:00Z\",\"finding\":\"{id}\",\"threat\":0.8,\
         \"count\":40,\"src\":\"{source}\",\"dst\":\"198.51.100.3\"}},\
         \"Note\":\"{{\\\"threat_level\\\":\\\"{level}\\\",\\\"timewindow\\\":1,\\\"uids\\\":[\\\"C1\\\"]}}\"}}\n"
    )
}

fn folder(lines: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("alerts.json"), lines).unwrap();
    folder
}

fn list(folder: &Path, filter: &FindingFilter) -> FindingList {
    FindingList::read_folder(folder, filter, FindingOrder::Rank).unwrap()
}

#[test]
fn findings_are_listed_as_text_values_and_json() {
    let lines = finding("f1", "BEACON", "high", "10.0.0.5")
        + &finding("f2", "LONG_CONNECTION", "low", "10.0.0.6");
    let folder = folder(&lines);
    let all = list(folder.path(), &FindingFilter::default());
    assert!(!all.is_empty() && all.warning().is_none());
    let json: Value = serde_json::from_str(&all.json()).unwrap();
    assert_eq!(json["findings"].as_array().unwrap().len(), 2);
    // The worse one comes first, and the pair that calls is ranked.
    assert_eq!(json["findings"][0]["finding"], "f1");
    assert_eq!(json["findings"][0]["uids"][0], "C1");
    assert_eq!(json["calls_out"][0]["src"], "10.0.0.5");
    let csv = all.csv();
    let row = csv.lines().nth(1).unwrap();
    assert!(row.starts_with("f1,2026-11-23T05:00:00Z,BEACON,high,0.9,10.0.0.5"), "{row}");
    assert!(row.ends_with("\"'=calls, often\""), "no cell is a formula: {row}");
    let text = all.text(1, None);
    assert!(
        text.contains("Findings (2)") && text.contains("1 more: --rows N shows them"),
        "{text}"
    );
}

#[test]
fn a_filter_leaves_what_it_asks_for() {
    let lines = finding("f1", "BEACON", "high", "10.0.0.5")
        + &finding("f2", "LONG_CONNECTION", "low", "10.0.0.6");
    let folder = folder(&lines);
    let kept = |filter: FindingFilter| {
        let json: Value = serde_json::from_str(&list(folder.path(), &filter).json()).unwrap();
        let ids = json["findings"].as_array().unwrap().iter().map(|f| f["finding"].to_string());
        ids.collect::<Vec<_>>().join(" ")
    };
    let filter = FindingFilter::default;
    assert_eq!(kept(FindingFilter { kinds: vec!["beacon".into()], ..filter() }), "\"f1\"");
    assert_eq!(kept(FindingFilter { level: Some(ThreatLevel::Medium), ..filter() }), "\"f1\"");
    assert_eq!(kept(FindingFilter { host: Some("10.0.0.6".into()), ..filter() }), "\"f2\"");
    assert_eq!(kept(FindingFilter { since: Some(4_000_000_000), ..filter() }), "");
    let none = FindingFilter { kinds: vec!["SSH".into()], ..filter() };
    assert_eq!(list(folder.path(), &none).text(9, None), "No findings match.\n");
}

#[test]
fn a_line_that_no_run_writes_is_left_out_with_a_warning() {
    let mut lines = "x".repeat(gabion_reports::limits::FINDING_BYTES_MAX + 1);
    lines.push('\n');
    lines.push_str(&finding("f1", "BEACON", "high", "10.0.0.5"));
    let folder = folder(&lines);
    let list = list(folder.path(), &FindingFilter::default());
    assert!(list.csv().contains("f1"));
    assert!(list.warning().unwrap().contains("1 lines of more than"));
}

#[test]
fn a_folder_without_findings_is_named_with_a_remedy() {
    let empty = tempfile::tempdir().unwrap();
    let e = FindingList::read_folder(empty.path(), &FindingFilter::default(), FindingOrder::Time);
    let e = e.unwrap_err();
    assert!(matches!(e, Error::Findings { .. }));
    assert!(
        e.to_string().contains("alerts.json") && e.to_string().contains("name a folder"),
        "{e}"
    );
}

#[test]
fn a_preview_counts_what_an_entry_would_have_kept_back() {
    let lines = finding("f1", "BEACON", "high", "10.0.0.5")
        + &finding("f2", "LONG_CONNECTION", "low", "10.0.0.6");
    let folder = folder(&lines);
    let preview = |entry: &str| {
        let (whitelist, wrong) = Whitelist::parse(entry, &|_| None);
        assert!(wrong.is_empty());
        MutePreview::read_folder(folder.path(), entry, whitelist).unwrap()
    };
    let hidden = preview("ip,10.0.0.5,both,alerts");
    assert!(!hidden.is_empty());
    let json: Value = serde_json::from_str(&hidden.json()).unwrap();
    assert_eq!((&json["findings"], &json["kept_back"]), (&2.into(), &1.into()));
    assert_eq!(json["hosts_without_findings"][0], "10.0.0.5");
    assert!(hidden.text(None).contains("suppressed 1 of 2 findings"));
    assert!(preview("ip,192.0.2.1,both,alerts").is_empty());
}

fn compiled(rules: &str) -> NamedRules {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my.rules");
    std::fs::write(&path, rules).unwrap();
    let config = built_in_configuration();
    let scripts = script_setup(&config, gabion_net::script::Voice::new(|_, _, _| ()));
    let files = NamedRuleFiles { paths: vec![path], ..NamedRuleFiles::default() };
    files.compile(&config, &gabion_proto::registry::catalog(), &scripts).unwrap()
}

#[test]
fn rules_are_checked_and_listed() {
    let mut rules = String::new();
    let _ = writeln!(rules, "alert tcp any any -> any any (msg:\"costly\"; dsize:7; sid:2;)");
    let _ = writeln!(
        rules,
        "alert http any any -> any any (msg:\"a\"; http.uri; content:\"x\"; sid:1;)"
    );
    let set = compiled(&rules);
    let sids = |only_costly| {
        let json = RuleList::from_rules(&set.set, only_costly, false).json();
        let json: Value = serde_json::from_str(&json).unwrap();
        json.as_array().unwrap().iter().map(|r| r["sid"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(sids(false), [1, 2], "in the order of their ids");
    assert_eq!(sids(true), [2]);
    let check = RuleCheck::from_rules(set);
    assert!(check.is_good());
    let text = check.text(CheckStyle::default());
    assert!(text.starts_with("2 rules loaded from 1 files, 0 refused"), "{text}");
    let quiet = check.text(CheckStyle { is_quiet: true, ..CheckStyle::default() });
    assert_eq!(quiet.lines().count(), 1, "no advice: {quiet}");
    let refused = compiled("alert tcp any any -> any any (msg:\"no id\"; content:\"x\";)\n");
    let e = refused.refuse_none_left().unwrap_err().to_string();
    assert!(e.starts_with("rules: the only rule was refused, first"), "{e}");
    assert!(!RuleCheck::from_rules(refused).is_good());
}

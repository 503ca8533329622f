//! A rule more or less changes no other rule's alerts: rules share patterns, prefilters and the buffers they look at, and
//! none of that may show.

mod program;

use program::{demo, gabion, repository};
use std::collections::BTreeMap;

/// Alerts of a run with these rules: by signature, the packets.
fn alerts(rules: &[&str], more: &[&str]) -> BTreeMap<u64, Vec<u64>> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(dir.path().join("r.rules"), rules.join("\n")).unwrap();
    let (rules, out, capture) = (path("r.rules"), path("out"), demo());
    let mut args = vec!["read", "-q", "-k", "none", "-S", &rules, "-l", &out, &capture];
    args.extend_from_slice(more);
    let ran = gabion(&args);
    assert!(matches!(ran.code, 0 | 10), "{}", ran.err);
    let mut all = BTreeMap::<u64, Vec<u64>>::new();
    for line in std::fs::read_to_string(dir.path().join("out/eve.json")).unwrap().lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        if record["event_type"] == "alert" {
            let sid = record["alert"]["signature_id"].as_u64().unwrap();
            all.entry(sid).or_default().push(record["pcap_cnt"].as_u64().unwrap_or(0));
        }
    }
    all
}

/// Rules whose only effect is to alert: they set nothing that another rule asks for, and end no inspection.
fn only_alerts(rule: &str) -> bool {
    let effects = ["flowbits", "xbits", "hostbits", "flowint", "dataset", "filestore", "tag:"];
    rule.starts_with("alert ") && !effects.iter().any(|word| rule.contains(word))
}

fn sid_of(rule: &str) -> u64 {
    let (_, after) = rule.split_once("sid:").unwrap();
    after.split(';').next().unwrap().trim().parse().unwrap()
}

#[test]
fn a_rule_less_changes_no_other_rules_alerts() {
    let text = std::fs::read_to_string(repository("demo/gabion.rules")).unwrap();
    let rules: Vec<&str> = text.lines().filter(|line| line.starts_with("alert ")).collect();
    let all = alerts(&rules, &[]);
    assert!(all.len() > 30, "{}", all.len());
    let candidates: Vec<&&str> = rules.iter().filter(|rule| only_alerts(rule)).collect();
    assert!(candidates.len() > 20, "{}", candidates.len());
    for left_out in candidates.into_iter().step_by(2) {
        let others: Vec<&str> = rules.iter().copied().filter(|rule| rule != left_out).collect();
        let mut wanted = all.clone();
        wanted.remove(&sid_of(left_out));
        assert_eq!(alerts(&others, &[]), wanted, "without {left_out}");
    }
}

/// A set that shares a pattern, a prefix of it and its negation, in the same buffer and in others, on the payload and on
/// streams: each rule alone answers as it does among the others.
#[test]
fn rules_that_share_patterns_answer_as_alone() {
    let conditions = [
        r#"http.uri; content:"/";"#,
        r#"http.uri; content:"/docs";"#,
        r#"http.uri; content:!"/docs";"#,
        r#"http.uri; content:"DOCS"; nocase;"#,
        r#"http.uri; content:"/docs/"; startswith; content:"html"; distance:0;"#,
        r#"http.uri; to_uppercase; content:"/DOCS";"#,
        r#"http.user_agent; content:"curl";"#,
        r#"http.user_agent; content:"curl/"; startswith;"#,
        r#"http.host; content:"intranet"; fast_pattern; content:!"docs";"#,
        r#"http.method; content:"GET";"#,
        r#"content:"GET /docs";"#,
        r#"content:"GET /docs"; depth:9;"#,
        r#"content:!"GET /docs"; dsize:>0;"#,
        r#"content:"200 OK"; pcre:"/HTTP.1\.[01] 200/";"#,
    ];
    let rules: Vec<String> = (1u64..)
        .zip(conditions)
        .map(|(sid, c)| {
            let proto = if c.starts_with("http") { "http" } else { "tcp" };
            format!("alert {proto} any any -> any any (msg:\"r\"; {c} sid:{sid};)")
        })
        .collect();
    // More alerts on a packet than the limit would hide others.
    let limit = ["--set", "packet-alert-max=255"];
    // A rule on streams makes packets that release data count as such for all rules (docs/semantics.md).
    let company = "alert tcp-stream any any -> any any (msg:\"never\"; content:\"|00 01 fe|never seen\"; sid:900;)";
    let mut set: Vec<&str> = rules.iter().map(String::as_str).collect();
    set.push(company);
    let together = alerts(&set, &limit);
    assert!(together.len() >= 12, "{together:?}");
    for (sid, rule) in (1u64..).zip(&rules) {
        let alone = alerts(&[rule, company], &limit);
        assert_eq!(alone.get(&sid), together.get(&sid), "{rule}");
    }
}

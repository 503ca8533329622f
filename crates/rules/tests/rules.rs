//! Rules through the public surface alone: what loads, what is refused and where, what other files change.

mod support;

use gabion_rules::compiled::actions::PostMatch;
use gabion_rules::{
    Action, EntryKind, RuleSource, RuleVars, Ruleset, Selection, SelectionKind, Severity,
    all_keywords, describe_keyword, parse_classification, parse_rule_id, parse_thresholds,
    read_references, rule_texts,
};

fn load(text: &str) -> (Ruleset, Vec<gabion_rules::Diagnostic>) {
    let source = RuleSource { name: "a.rules", text, is_firewall: false };
    Ruleset::load(&[source], support::catalog(), &support::vars(), &support::options())
}

#[test]
fn a_rule_has_what_its_text_says() {
    let (set, faults) = load(
        "drop tcp $HOME_NET any -> 192.0.2.0/24 [80,8080] (msg:\"two\\; words\"; content:\"abc\"; \
         flowbits:set,seen; sid:7; rev:3;)\n",
    );
    assert!(faults.is_empty(), "{faults:?}");
    let signature = &set.signatures[0];
    assert_eq!((signature.sid, signature.rev, signature.action), (7, 3, Action::Drop));
    assert_eq!(set.msg(signature), "two; words");
    assert!(signature.post_match.iter().any(|p| matches!(p, PostMatch::Flowbits { .. })));
}

/// The column is that of the option's value in the rule, in bytes from 1.
#[test]
fn a_refused_rule_is_named_with_line_and_column_and_the_others_load() {
    let wrong = "alert tcp any any -> any any (msg:\"b\"; nosuchkeyword:1; sid:2;)";
    let (set, faults) = load(&format!(
        "alert tcp any any -> any any (msg:\"a\"; sid:1;)\n{wrong}\n\
         alert tcp any any -> any any (msg:\"c\"; sid:3;)\n"
    ));
    assert_eq!((set.counts.loaded, set.counts.failed), (2, 1));
    let fault = faults.iter().find(|f| f.severity == Severity::Error).expect("the wrong rule");
    assert_eq!((fault.file.as_str(), fault.line), ("a.rules", 2));
    assert_eq!(fault.column as usize, wrong.find("nosuchkeyword").expect("it is there") + 1);
    assert_eq!(fault.rule, wrong);
}

#[test]
fn lines_that_end_in_a_backslash_are_one_rule() {
    let text = "# a comment\nalert tcp any any -> any any ( \\\n msg:\"a\"; sid:1;)\n\nalert x\n";
    let found: Vec<u32> = rule_texts(text).map(|rule| rule.line).collect();
    assert_eq!(found, [2, 5]);
}

#[test]
fn rules_are_turned_off_by_a_selection() {
    let mut selection = Selection::default();
    assert_eq!(selection.add(SelectionKind::Disable, "1:1\n", "disable.conf"), []);
    let mut text =
        "alert tcp any any -> any any (sid:1;)\nalert tcp any any -> any any (sid:2;)\n".to_owned();
    let done = selection.apply(&mut [("a.rules", &mut text)]);
    assert_eq!((done.disabled, done.enabled), (1, 0));
    let (set, _) = load(&text);
    assert_eq!(set.signatures.iter().map(|s| s.sid).collect::<Vec<_>>(), [2]);
}

/// Suricata's documents on `threshold.config` have both lines.
#[test]
fn thresholds_and_suppressions_are_read() {
    let text = "suppress gen_id 1, sig_id 2002087, track by_src, ip 209.132.180.67\n\
                threshold gen_id 1, sig_id 1002000, type threshold, track by_src, count 5, seconds 60\n\
                threshold gen_id 1\n";
    let (entries, faults) = parse_thresholds(text, "threshold.config", &RuleVars::default());
    assert_eq!(entries.iter().map(|e| e.sid).collect::<Vec<_>>(), [2_002_087, 1_002_000]);
    assert!(matches!(entries[0].kind, EntryKind::Suppress(Some(_))));
    assert_eq!(faults.iter().map(|f| f.line).collect::<Vec<_>>(), [3]);
}

#[test]
fn classes_and_references_are_read_and_wrong_lines_named() {
    let (classes, faults) =
        parse_classification("config classification: bad, Something bad, 1\nno class\n", "c");
    assert_eq!((classes.len(), faults.len()), (1, 1));
    let (references, faults) = read_references("config reference: cve https://cve.example/\n", "r");
    assert_eq!(references, [("cve".to_owned(), "https://cve.example/".to_owned())]);
    assert!(faults.is_empty());
}

#[test]
fn keywords_are_listed_with_those_of_protocols() {
    let catalog = support::catalog();
    let all = all_keywords(catalog);
    assert!(all.len() > 300, "{}", all.len());
    assert!(all.iter().any(|k| k.name == "content") && all.iter().any(|k| k.name == "http.uri"));
    assert!(describe_keyword("content", catalog, "8.0.7").is_some());
    assert!(describe_keyword("nosuchkeyword", catalog, "8.0.7").is_none());
    assert_eq!((parse_rule_id("3:17"), parse_rule_id("17")), (Some((3, 17)), Some((1, 17))));
}

/// The greatest `bsize` and `dsize` that Suricata 8.0.7 refuses; none: it refuses no size.
#[test]
fn sizes_are_compared_with_what_the_contents_need() {
    for (contents, most) in [
        ("content:\"boom\"; content:\"cd\"; distance:10; content:\"ee\"; distance:-8;", Some(9)),
        ("content:\"boom\"; content:\"loom\"; distance:-5;", Some(2)),
        ("content:\"boom\"; content:!\"c\"; within:3; content:\"ab\"; distance:2;", Some(7)),
        (
            "content:\"boom\"; content:!\"c\"; distance:5; within:20; content:\"ab\"; distance:0;",
            Some(28),
        ),
        ("content:\"boom\"; content:!\"cd\"; distance:-3; within:20;", Some(20)),
        (
            "content:\"boom\"; content:\"cd\"; distance:0; content:\"eeeeeeeeee\"; content:\"f\"; distance:1;",
            Some(7),
        ),
        ("content:\"boom\"; content:\"loom\"; distance:-8;", None),
        ("content:\"abc\"; offset:13; content:!\"defgh\"; distance:1; within:30;", Some(33)),
        ("content:\"abc\"; offset:13; content:!\"defgh\"; within:9;", Some(15)),
        (
            "content:\"abc\"; offset:7; content:!\"xy\"; distance:3; within:10; content:\"defgh\"; distance:2;",
            Some(16),
        ),
    ] {
        let refused = |size: &str| {
            (0..40)
                .filter(|n| {
                    let rule =
                        format!("alert tcp any any -> any any ({size}{n}; {contents} sid:1;)");
                    load(&rule).0.counts.failed == 1
                })
                .max()
        };
        assert_eq!(refused("dsize:"), most, "{contents}");
        assert_eq!(refused("http.uri; bsize:"), most, "{contents}");
    }
    // Below 0 no `dsize` is refused, and each `bsize`.
    let below = "content:\"boom\"; content:\"loom\"; distance:-10; sid:1;)";
    let failed =
        |size| load(&format!("alert tcp any any -> any any ({size} {below}")).0.counts.failed;
    assert_eq!((failed("dsize:3;"), failed("http.uri; bsize:3000;")), (0, 1));
}

#[test]
fn a_rule_whose_requirements_are_not_met_is_skipped_with_the_reason() {
    for (requires, unmet) in [
        ("version >= 9", "Suricata version less than required"),
        ("version < 8", "Suricata version greater than required"),
        ("feature nope, version >= 9", "Suricata version less than required"),
        ("keyword nope, feature nope", "Suricata missing a required feature"),
        ("keyword nope", "Suricata missing a required keyword"),
        ("version >= 9, nope nope", "Unknown requirements"),
    ] {
        let rule = format!("alert ip any any -> any any (requires: {requires}; sid:1;)");
        let (set, faults) = load(&rule);
        assert!(faults.is_empty() && set.signatures.is_empty());
        assert_eq!(set.counts.skipped, 1);
        let skipped = &set.skipped[0];
        assert_eq!((skipped.line, skipped.text.as_str()), (1, rule.as_str()));
        assert_eq!(skipped.unmet, format!("{unmet}: {requires}"));
    }
}

/// What is captured in a payload orders rules, what is captured elsewhere does not.
#[test]
fn captures_in_payloads_come_first() {
    let order = |buffer: &str| {
        let rules: String = ["priority:1;", "pcre:\"/(a)/, flow:x\";", "pcre:\"/(a)/, alert:x\";"]
            .iter()
            .zip(1..)
            .map(|(more, sid)| {
                format!(
                    "alert http any any -> any any ({buffer} content:\"a\"; {more} sid:{sid};)\n"
                )
            })
            .collect();
        load(&rules).0.signatures.iter().map(|s| s.sid).collect::<Vec<u32>>()
    };
    assert_eq!(order(""), [2, 1, 3]);
    assert_eq!(order("http.uri;"), [1, 2, 3]);
}

/// Suricata 8.0.7 loads and refuses the same rules (`docs/semantics.md`, "Rules that are refused").
#[test]
fn flow_may_follow_one_without_a_state_and_its_direction() {
    let is_loaded = |conditions: &str| {
        let (set, _) = load(&format!("alert tcp any any -> any any ({conditions} sid:1;)"));
        set.counts.loaded == 1
    };
    for (conditions, loads) in [
        ("flow:to_server; flow:established;", true),
        ("flow:to_server; flow:only_stream; flow:to_server;", true),
        ("flow:no_stream; flow:stateless;", true),
        ("flow:established; flow:to_server;", false),
        ("flow:no_frag; flow:to_server;", false),
        ("flow:to_server; flow:to_client;", false),
        ("flow:only_stream; flow:to_server;", false),
        ("flow:only_stream; flow:no_stream;", false),
        ("app-layer-protocol:http,to_server;", true),
        ("app-layer-protocol:http,toserver;", false),
        ("app-layer-protocol:unknown;", true),
        ("app-layer-protocol:!unknown;", false),
        ("http.uri; gunzip:max-size 10k; content:\"a\";", true),
        ("http.uri; gunzip:max-size 1kb; content:\"a\";", true),
        ("http.uri; gunzip:max-size k; content:\"a\";", false),
    ] {
        assert_eq!(is_loaded(conditions), loads, "{conditions}");
    }
}

/// Suricata 8.0.7 loads and refuses the same rules (`docs/semantics.md`, "Rules that are refused").
#[test]
fn options_of_base64_have_an_order() {
    let is_loaded = |conditions: &str| {
        let (set, _) = load(&format!("alert http any any -> any any ({conditions} sid:1;)"));
        set.counts.loaded == 1
    };
    for (options, loads) in [
        ("bytes 4, offset 1, relative", true),
        ("bytes 4 offset 1", true),
        ("bytes 4, relative, offset 1", true),
        ("bytes 4 , offset 1", true),
        ("bytes 4 relative", true),
        ("relative, bytes 4", true),
        ("relative 1", true),
        ("bytes 0", true),
        ("bytes 65535", true),
        ("offset 65536", true),
        ("offset 1, bytes 4", false),
        ("bytes 4, bytes 5", false),
        ("offset 1,offset 2", false),
        ("bytes 65536", false),
        ("bytes -1", false),
        ("bytes 0x4", false),
        ("bytes", false),
        ("bytes,4", false),
        ("BYTES 4", false),
    ] {
        let rule = format!("base64_decode:{options}; base64_data; content:\"a\";");
        assert_eq!(is_loaded(&rule), loads, "{options}");
    }
    for (options, loads) in [
        ("bytes 4, offset 1", true),
        ("offset 1, bytes 4, mode strict", true),
        ("bytes 0", true),
        ("bytes 4, bytes 5", false),
        ("offset 1,offset 2", false),
        ("bytes 65536", false),
        ("relative", false),
    ] {
        let rule = format!("http.uri; from_base64:{options}; content:\"a\";");
        assert_eq!(is_loaded(&rule), loads, "{options}");
    }
}

/// Suricata 8.0.7 loads and refuses the same ones.
#[test]
fn rules_that_only_seem_to_be_wrong_load() {
    let http = [
        ("http.uri; content:\"/x\"; to_lowercase;", true),
        ("http.uri; content:\"/x\"; to_lowercase; dotprefix;", true),
        ("http.uri; bsize:4; to_lowercase;", true),
        ("http.uri; content:\"/x\"; to_lowercase; flow:to_server;", true),
        ("http.uri; content:\"/x\"; to_lowercase; nocase;", true),
        ("http.uri; content:\"a\"; http.method; content:\"b\"; http.uri; to_lowercase;", true),
        ("file.data; content:\"a\"; to_lowercase;", true),
        ("http.uri; to_lowercase;", false),
        ("http.uri; content:\"/x\"; to_lowercase; http.method; content:\"GET\";", false),
        ("http.uri; content:\"/x\"; http.method; to_lowercase;", false),
        ("http.uri; to_lowercase; content:\"a\"; http.uri; to_lowercase;", false),
        ("file.data; content:\"a\"; file.data; to_lowercase;", false),
    ];
    let udp = [
        ("threshold:type limit, track by_src, count 1, seconds 0;", true),
        ("threshold:type both, track by_src, count 0, seconds 0;", true),
        ("detection_filter:track by_src, count 0, seconds 1;", false),
        ("entropy:bytes 65536, value > 1.5;", true),
        ("entropy:value > 1.5, bytes -1;", true),
        ("entropy:offset 65535, value > 1.5;", true),
        ("entropy:offset 65536, value > 1.5;", false),
        ("entropy:value > 1.5, relative;", false),
        ("entropy:bytes 1, bytes 2, value > 1;", false),
        ("entropy:value -1-2;", true),
        ("entropy:value 2-1;", false),
        ("entropy:value !1;", false),
        ("entropy:value 1.;", false),
        ("entropy:bytes 4, value > 1,;", true),
    ];
    let tcp = [
        ("flowbits:unset,a|b;", true),
        ("flowbits:set,a |b;", true),
        ("flowbits:isset,a|;", true),
        ("flowbits:isnotset,a||b;", true),
        ("flowbits:set,a b;", false),
        ("flowbits:set;", false),
    ];
    for (proto, cases) in [("http", &http[..]), ("udp", &udp), ("tcp", &tcp)] {
        for (options, loads) in cases {
            let rule = format!("alert {proto} any any -> any any (msg:\"x\"; {options} sid:1;)");
            let (set, said) = load(&rule);
            assert_eq!(set.signatures.len() == 1, *loads, "{options}: {said:?}");
        }
    }
}

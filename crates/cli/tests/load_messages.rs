//! What a load reports once: rules and variables that can't be read, outputs that
//! are not written. What ends a run of `gabion suricata` is what ends one of Suricata 8.0.7.

mod program;

use program::{Ran, demo, gabion};
use std::path::Path;

fn file(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// All that `gabion suricata` prints, by its exit code.
fn suricata(folder: &Path, args: &[&str]) -> Ran {
    let out = folder.display().to_string();
    let mut ran = gabion(&[&["suricata", "-l", &out], args].concat());
    ran.out.push_str(&ran.err);
    ran
}

const RULES: &str = r#"
alert tcp any any -> any any (msg:"one"; sid:1;)
alert tcp any any -> any any (msg:"two"; content:"two"; sid:2;)
alert tcp any any -> any any (msg:"three"; content:"three"; sid:3;)
alert tcp any any -> any any (msg:"four"; nosuchword; sid:4;)
"#;

#[test]
fn rules_that_are_refused_are_counted_once_by_every_run() {
    let dir = tempfile::tempdir().unwrap();
    let rules = file(dir.path(), "test.rules", RULES);
    for more in [&[][..], &["-q"]] {
        let ran = gabion(&[&["read", "-S", &rules, &demo()], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        let lines: Vec<&str> = ran.err.lines().filter(|l| l.contains("1 refused")).collect();
        assert_eq!(lines.len(), 1, "{more:?}: {}", ran.err);
        assert!(lines[0].contains("gabion rules check"), "{}", lines[0]);
        assert!(!ran.err.contains("can never match"), "{}", ran.err);
    }
}

#[test]
fn a_run_of_read_without_a_rule_left_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo();
    for (text, code, words) in [
        ("", 0, "there is no rule in"),
        ("# nothing\n", 0, "name a file that holds rules"),
        ("alert tcp any any -> any any (requires: version >= 99; sid:1;)\n", 3, "1 skipped"),
        ("alert foo any any -> any any (sid:1;)\n", 3, "the only rule was refused"),
    ] {
        let rules = file(dir.path(), "test.rules", text);
        let ran = gabion(&["read", "-S", &rules, &demo]);
        assert_eq!((ran.code, ran.err.matches(words).count()), (code, 1), "{}", ran.err);
        // Suricata continues, and reports that there are no rules.
        let ran = suricata(dir.path(), &["-r", &demo, "-S", &rules]);
        assert_eq!(ran.code, 0, "{}", ran.out);
        assert!(ran.out.contains("no rules were loaded!"), "{}", ran.out);
    }
}

#[test]
fn a_variable_that_cannot_be_read_ends_every_run_and_is_reported_once() {
    let dir = tempfile::tempdir().unwrap();
    let rule = |n: u32| format!("alert tcp $HOME_NET any -> $NOSUCH any (msg:\"x\"; sid:{n};)\n");
    let all: String = (1..=50).map(rule).chain([RULES.replace("sid:", "sid:9")]).collect();
    let rules = file(dir.path(), "test.rules", &all);
    let demo = demo();
    let bad = ["--set", "vars.address-groups.HOME_NET=banana"];
    let words = ["vars.address-groups.HOME_NET", "banana", "--set"];
    gabion(&[&["read", "-S", &rules, &demo], &bad[..]].concat()).refuses(3, &words);
    gabion(&[&["rules", "check", &rules], &bad[..]].concat()).refuses(3, &words);
    for args in [&["-T"][..], &["-r", &demo], &["-T", "--disable-detection"]] {
        let rules: &[&str] = if args.len() == 2 && args[0] == "-T" { &[] } else { &["-S", &rules] };
        let ran = suricata(dir.path(), &[args, rules, &bad[..]].concat());
        assert_eq!((ran.code, ran.out.matches("banana").count()), (1, 2), "{}", ran.out);
        assert!(ran.out.contains("basic address vars test failed"), "{}", ran.out);
    }
    // One that is not there refuses the rules that name it, and is named with the first.
    let ran = gabion(&["read", "-v", "-S", &rules, &demo]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(ran.err.matches("\"NOSUCH\" is not defined").count(), 2, "{}", ran.err);
    assert!(ran.err.contains("49 rules more are refused for it"), "{}", ran.err);
    let ran = suricata(dir.path(), &["-r", &demo, "-S", &rules]);
    assert_eq!(ran.out.matches("\"NOSUCH\" is not defined").count(), 2, "{}", ran.out);
    assert!(ran.out.contains("49 rules more are refused for it"), "{}", ran.out);
}

#[test]
fn outputs_are_tested_and_a_run_that_would_write_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, out) = (demo(), dir.path().display().to_string());
    let rules = file(dir.path(), "test.rules", "alert tcp any any -> any any (sid:1;)\n");
    let fast = "{fast: {enabled: yes, filename: fast.log}}";
    let eve = |more: &str| format!("{{eve-log: {{enabled: yes, filename: e.json, {more}}}}}");
    // Outputs, exit codes of `-T` and of a run, and words that both say.
    let cases = [
        (eve("types: [htpp]"), [1, 0], "No output module named eve-log.htpp"),
        (format!("{{krb5: {{enabled: yes}}}}, {fast}"), [1, 0], "krb5"),
        (eve("filetype: nonsense"), [1, 1], "Invalid JSON output option: nonsense"),
        ("{syslog: {enabled: yes}}".to_owned(), [1, 1], "not supported: syslog: no output is left"),
        (format!("{{syslog: {{enabled: yes}}}}, {fast}"), [0, 0], "nothing is written: syslog"),
        ("{redis: {enabled: no}}".to_owned(), [0, 0], ""),
    ];
    for (outputs, codes, words) in cases {
        let text = format!("%YAML 1.1\n---\noutputs: [{outputs}]\n");
        let yaml = file(dir.path(), "test.yaml", &text);
        for (code, how) in codes.into_iter().zip([&["-T"][..], &["-r", &demo]]) {
            let ran = suricata(dir.path(), &[&["-c", &yaml, "-S", &rules], how].concat());
            assert_eq!(ran.code, code, "{outputs} {how:?}: {}", ran.out);
            assert!(ran.out.contains(words), "{outputs} {how:?}: {}", ran.out);
        }
        let read = ["read", "-c", &yaml, "-S", &rules, "-l", &out, "--overwrite", &demo];
        if codes == [1, 1] {
            gabion(&read).refuses(3, &["configuration: "]);
        }
    }
}

//! The output of `gabion rules` and the tables of `gabion read`.

mod program;

use program::{demo, gabion, repository};
use serde_json::Value;
use std::path::Path;

const RULES: &str = r#"alert tcp any any -> any any (msg:"fine"; content:"a|00|b"; offset:3; depth:10; sid:1;)
alert tcp any any -> any any (msg:"refused"; contet:"a"; sid:2;)
alert tcp any any -> any any (msg:"costly"; ack:1; sid:3; rev:7;)
alert http any any -> any any (msg:"bits"; flowbits:isset,x; http.uri; to_lowercase; content:"abc"; endswith; sid:4;)
alert tcp any any -> any any (msg:"plain"; content:"plain"; sid:5;)
"#;

fn rules_file() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some.rules");
    std::fs::write(&path, RULES).unwrap();
    let path = path.display().to_string();
    (dir, path)
}

#[test]
fn check_marks_faults_and_gives_advice() {
    let (_dir, rules) = rules_file();
    let r = gabion(&["rules", "check", &rules]);
    assert_eq!(r.code, 1);
    for words in [
        "unknown rule keyword 'contet'.",
        "some.rules:2:46",
        "^^^^^^",
        "1 refused",
        "flowbit",
        "costly",
    ] {
        assert!(r.out.contains(words), "{words} is not in\n{}", r.out);
    }
    let r = gabion(&["rules", "check", &rules, "--json"]);
    let v: Value = serde_json::from_str(&r.out).unwrap();
    assert_eq!((r.code, &v["refused"]), (1, &1.into()));
    assert_eq!(v["diagnostics"][0]["line"], 2);
    assert_eq!(v["inert"], serde_json::json!([]));
    assert_eq!(v["flowbits_never_set"][0]["flowbit"], "x");
    assert_eq!(v["costly"]["rules"][0], "3");
    let (_dir, good) = part_of_demo(&["http"]);
    assert_eq!(gabion(&["rules", "check", "-q", &good]).code, 0);
}

#[test]
fn list_shows_what_was_made_of_each() {
    let (_dir, rules) = rules_file();
    let v: Value = serde_json::from_str(&gabion(&["rules", "list", &rules, "--json"]).out).unwrap();
    let sids: Vec<u64> = v.as_array().unwrap().iter().map(|s| s["sid"].as_u64().unwrap()).collect();
    assert_eq!(sids, [1, 3, 4, 5]);
    assert_eq!(v[2]["type"], "app_tx");
    let r = gabion(&["rules", "list", &rules, "--costly"]);
    assert_eq!(r.out.lines().count(), 2, "{}", r.out);
    assert!(r.out.contains("costly"));
}

#[test]
fn why_explains_a_rule_or_says_that_it_is_not_there() {
    let (_dir, rules) = rules_file();
    let why = |sid: &str| gabion(&["rules", "why", sid, "-S", &rules]);
    let r = why("4");
    assert_eq!(r.code, 0);
    for words in ["no rule sets the flowbit x", "http.uri | to_lowercase", "fast pattern \"abc\""] {
        assert!(r.out.contains(words), "{words} is not in\n{}", r.out);
    }
    assert!(why("5").out.contains("fast pattern \"plain\""), "{}", why("5").out);
    let r = why("2");
    assert_eq!(r.code, 1);
    assert!(r.out.contains("contet") && r.out.contains("no such rule"), "{}", r.out);
    assert_eq!(why("77").code, 1);
    assert_eq!(why("x").code, 2);
    // A program that reads JSON finds no text of another kind.
    let r = gabion(&["rules", "why", "77", "-S", &rules, "--json"]);
    assert_eq!((r.code, r.out.as_str()), (1, ""), "{}", r.err);
    assert!(r.err.contains("no such rule"), "{}", r.err);
}

/// A folder in which no file is a capture is a fault of the input, as an empty one is; one capture is enough.
#[test]
fn a_folder_without_a_capture_is_refused() {
    let (_dir, rules) = rules_file();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    std::fs::write(folder.path().join("notes.txt"), "nothing").unwrap();
    for args in
        [&["read", &path, "--rules", &rules, "-q"][..], &["rules", "test", &path, "-S", &rules]]
    {
        let r = gabion(args);
        assert_eq!(r.code, 3, "{args:?}: {}", r.err);
        assert!(r.err.contains("no file of the folders is a capture"), "{args:?}: {}", r.err);
    }
    std::fs::copy(demo(), folder.path().join("demo.pcap")).unwrap();
    let r = gabion(&["read", &path, "--rules", &rules]);
    assert_eq!(r.code, 0, "{}", r.err);
    assert!(r.err.contains("content: 1\n"), "{}", r.err);
}

#[test]
fn cost_counts_every_check() {
    let (_dir, rules) = rules_file();
    let r = gabion(&["rules", "cost", &demo(), "-S", &rules, "--json"]);
    assert_eq!(r.code, 0, "{}", r.err);
    let v: Value = serde_json::from_str(&r.out).unwrap();
    let all = v["costs"]["rules"].as_array().unwrap();
    let costly = all.iter().find(|c| c["sid"] == 3).unwrap();
    assert!(costly["checks"].as_u64().unwrap() > 100, "{costly}");
    let r = gabion(&["rules", "cost", &demo(), "-S", &rules]);
    assert!(r.out.contains("avg no match") && r.out.contains("parser: http"), "{}", r.out);
}

/// The HTTP rules of the demonstration against Suricata's results for them.
#[test]
fn test_compares_with_expected_counts() {
    let (dir, rules) = part_of_demo(&["http"]);
    let expected = std::fs::read_to_string(repository("demo/expected-alerts.tsv")).unwrap();
    let wanted = std::fs::read_to_string(&rules).unwrap();
    let is_wanted = |line: &&str| {
        line.split('\t').next().is_some_and(|sid| wanted.contains(&format!("sid:{sid};")))
    };
    let lines: Vec<&str> = expected.lines().filter(is_wanted).collect();
    assert!(lines.len() > 10);
    let expect = dir.path().join("expected.tsv");
    std::fs::write(&expect, lines.join("\n")).unwrap();
    let expect = expect.display().to_string();
    let r = gabion(&["rules", "test", "-S", &rules, &demo(), "--expect", &expect]);
    assert_eq!(r.code, 0, "{}", r.out);
    let r = gabion(&["rules", "test", "-S", &rules, &demo(), "--tsv"]);
    assert_eq!(r.out.lines().count(), lines.len());
    std::fs::write(&expect, "9000004\t7\n").unwrap();
    let r = gabion(&["rules", "test", "-S", &rules, &demo(), "--expect", &expect]);
    assert_eq!(r.code, 1);
    assert!(r.out.contains("9000004\texpected 7\tfound 1"), "{}", r.out);
}

/// Rules of the demonstration that are written for these protocols; without the one that also
/// looks at HTTP/2.
fn part_of_demo(protocols: &[&str]) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("part.rules");
    let text = std::fs::read_to_string(repository("demo/gabion.rules")).unwrap();
    let of = |l: &&str| l.split_whitespace().nth(1).is_some_and(|p| protocols.contains(&p));
    let lines = text.lines().filter(|l| l.starts_with("alert")).filter(of);
    let lines: Vec<&str> = lines.filter(|l| !l.contains("sid:9000036;")).collect();
    std::fs::write(&path, lines.join("\n") + "\n").unwrap();
    let path = path.display().to_string();
    (dir, path)
}

/// The tables as people see them. `UPDATE=1` writes the file again; counts are those of Suricata
/// (`demo/expected-alerts.tsv`).
#[test]
fn findings_of_the_demonstration_look_like_this() {
    let (_dir, rules) = part_of_demo(&["http", "tcp", "icmp"]);
    let r = gabion(&["read", &demo(), "-S", &rules]);
    assert_eq!(r.code, 0, "{}", r.err);
    let from = r.out.find("Findings").unwrap();
    let to = r.out.find("\nRecords").unwrap();
    let found = &r.out[from..to];
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/demo-findings.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(&golden, found).unwrap();
    }
    let wanted = std::fs::read_to_string(&golden).unwrap();
    assert_eq!(found, wanted, "UPDATE=1 writes {} again", golden.display());
}

/// What a slip of the pen is answered with, by `rules check` and by the two doors that load rules.
#[test]
fn typos_are_answered_with_what_was_meant() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("typos.rules").display().to_string();
    let run = dir.path().join("run").display().to_string();
    std::fs::create_dir(&run).unwrap();
    for (rule, wanted) in [
        (
            "alert tcp any any -> any any (msg:\"a\"; contnet:\"x\"; sid:1;)",
            "did you mean `content`?",
        ),
        (
            "alert http any any -> any any (http.urii; content:\"x\"; sid:1;)",
            "did you mean `http.uri`?",
        ),
        ("alert htpp any any -> any any (sid:1;)", "no such protocol: did you mean `http`?"),
        ("alret tcp any any -> any any (sid:1;)", "did you mean `alert`?"),
        ("alert tcp any any -> any any (msg:\u{201c}a\u{201d}; sid:1;)", "typographic quotes"),
        ("alert tcp any any -> any any (msg:'a'; sid:1;)", "single quotes"),
        ("alert tcp any any -> any any (window:x; sid:1;)", "`tcp.window:N`"),
        ("alert tcp any any -> any any (fragbits:x; sid:1;)", "letters of M, D, R"),
        ("alert tcp any any -> any any (dsize:x; sid:1;)", "payload-keywords.html#dsize"),
        ("alert tcp any any -> any any (flow:establishd; sid:1;)", "flow-keywords.html"),
    ] {
        std::fs::write(&path, format!("{rule}\n")).unwrap();
        for args in [
            &["rules", "check", &path][..],
            &["read", &demo(), "-v", "-S", &path],
            &["suricata", "-T", "-S", &path, "-l", &run],
        ] {
            let r = gabion(args);
            let said = format!("{}{}", r.out, r.err);
            assert!(said.contains(wanted), "{args:?}: {rule}: {said}");
            assert_ne!(r.code, 0, "{args:?}: {rule}");
        }
    }
    let rule = "alert tcp any any -> any any (classtype:foo-bar; sid:9;)\n";
    std::fs::write(&path, rule).unwrap();
    let said = gabion(&["rules", "check", &path]).out;
    assert!(said.contains("signature sid:9 uses unknown classtype"), "{said}");
}

/// What is counted where nothing is written is what would be written.
#[test]
fn records_are_the_same_with_and_without_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out").display().to_string();
    let records = |args: &[&str]| -> Vec<String> {
        let text = gabion(args).out;
        let table = text.lines().skip_while(|line| *line != "Records").skip(2);
        let rows = table
            .take_while(|line| !line.is_empty())
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        // Statistics are written at the end only where there is a file of them.
        rows.filter(|row| !row.starts_with("stats ")).collect()
    };
    let counted = records(&["read", &demo()]);
    assert!(
        counted.len() > 10 && counted.iter().any(|row| row.starts_with("dhcp ")),
        "{counted:?}"
    );
    assert_eq!(counted, records(&["read", &demo(), "-l", &out]));
}

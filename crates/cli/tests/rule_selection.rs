//! `--disable-conf`, `--enable-conf`, `--modify-conf`: the same rules as suricata-update writes, and its recipe.

mod program;

use gabion_rules::{Selection, SelectionKind};
use program::{demo, gabion, repository};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that is compared with.
const PINNED: &str = "suricata-update==1.3.3";

/// A folder that holds suricata-update, fetched once by pip; none where it can't be had.
fn updater() -> Option<PathBuf> {
    static FOUND: std::sync::OnceLock<Option<PathBuf>> = std::sync::OnceLock::new();
    let fetch = || {
        let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("suricata-update-1.3.3");
        if to.join("bin/suricata-update").exists() {
            return Some(to);
        }
        let pip = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--no-input", "--retries", "1", "--target"])
            .arg(&to)
            .arg(PINNED)
            .output();
        let is_there = pip.is_ok_and(|o| o.status.success());
        if !is_there {
            eprintln!("skipped: {PINNED} can't be had by pip: not compared with it");
        }
        is_there.then_some(to)
    };
    FOUND.get_or_init(fetch).clone()
}

/// `suricata-update` as a command that needs no path of Python's.
fn command_of(updater: &Path, bin: &Path) {
    std::fs::create_dir_all(bin).unwrap();
    let text = format!(
        "#!/bin/sh\nPYTHONPATH={} exec python3 {} \"$@\"\n",
        updater.display(),
        updater.join("bin/suricata-update").display()
    );
    script(&bin.join("suricata-update"), &text);
}

fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The three files for a set of rules, written into a folder.
fn selection(folder: &Path, files: [&str; 3]) -> [String; 3] {
    let names = ["disable.conf", "enable.conf", "modify.conf"];
    std::array::from_fn(|n| {
        let path = folder.join(names[n]);
        std::fs::write(&path, files[n]).unwrap();
        path.display().to_string()
    })
}

/// What suricata-update writes, rule by rule: those that are on.
fn by_updater(
    updater: &Path,
    folder: &Path,
    rules: &Path,
    [off, on, change]: &[String; 3],
) -> (PathBuf, BTreeSet<String>) {
    let out = folder.join("rules");
    let ran = Command::new("python3")
        .arg(updater.join("bin/suricata-update"))
        .env("PYTHONPATH", updater)
        .args(["--no-test", "--no-reload", "--suricata-version", "8.0.0"])
        .args(["--disable-conf", off, "--enable-conf", on, "--modify-conf", change])
        .arg("-D")
        .arg(folder.join("data"))
        .arg("-o")
        .arg(&out)
        .arg("--url")
        .arg(format!("file://{}", rules.display()))
        .output()
        .unwrap();
    let file = out.join("suricata.rules");
    let said = String::from_utf8_lossy(&ran.stderr);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{e}: {said}"));
    (file, rules_of(&text))
}

fn rules_of(text: &str) -> BTreeSet<String> {
    // Rules over several lines have other blanks where they are joined.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    gabion_rules::rule_texts(text).map(|rule| words(&rule.text)).collect()
}

/// Ids of the rules that load, with what distinguishes versions of one rule.
fn listed(args: &[&str]) -> BTreeSet<String> {
    let ran = gabion(&[&["rules", "list", "--json"], args].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let all: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let rules = all.as_array().unwrap().iter().map(|rule| {
        let mut rule = rule.clone();
        // Its position differs.
        for key in ["file", "line"] {
            rule.as_object_mut().unwrap().remove(key);
        }
        rule.to_string()
    });
    rules.collect()
}

fn compare(updater: &Path, rules: &str, name: &str, files: [&str; 3]) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, rules).unwrap();
    let files = selection(dir.path(), files);
    let (written, theirs) = by_updater(updater, dir.path(), &path, &files);
    let mut ours = Selection::default();
    for (kind, file) in [SelectionKind::Disable, SelectionKind::Enable, SelectionKind::Modify]
        .into_iter()
        .zip(&files)
    {
        let text = std::fs::read_to_string(file).unwrap();
        assert_eq!(ours.add(kind, &text, file), []);
    }
    let mut text = rules.to_owned();
    ours.apply(&mut [(&path.display().to_string(), &mut text)]);
    let found = rules_of(&text);
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
        a.difference(b).take(3).cloned().collect::<Vec<_>>()
    };
    assert!(
        found == theirs,
        "only here: {:#?}\nonly there: {:#?}",
        only(&found, &theirs),
        only(&theirs, &found)
    );
    assert_ne!(found, rules_of(rules), "the files changed nothing");

    let [off, on, change] = &files;
    let path = path.display().to_string();
    let args = ["--disable-conf", off, "--enable-conf", on, "--modify-conf", change, &path];
    let listed_here = listed(&args);
    assert_eq!(listed_here, listed(&[&written.display().to_string()]));
    theirs.len()
}

#[test]
fn the_demonstrations_rules_are_selected_as_suricata_update_does() {
    let Some(updater) = updater() else { return };
    let rules = std::fs::read_to_string(repository("demo/gabion.rules")).unwrap();
    // Some of them off, and a flowbit that only one that is off sets.
    let mut all = String::new();
    for (n, line) in rules.lines().enumerate() {
        let sign = if line.starts_with("alert") && n % 7 == 0 { "# " } else { "" };
        all.push_str(&format!("{sign}{line}\n"));
    }
    all.push_str(
        "alert tcp any any -> any any (msg:\"asks\"; flowbits:isset,doors.seen; sid:1; rev:1;)\n\
         #alert tcp any any -> any any (msg:\"sets\"; flowbits:set,doors.seen; sid:2; rev:2;)\n\
         alert tcp any any -> any any (msg:\"continued\"; \\\n  content:\"a\\;b\"; \\\n  sid:3; rev:1;)\n",
    );
    for files in [
        ["9000002\n1:9000008,9000011 # two\n", "re:SCAN\n", "9000019 \"alert\" \"drop\"\n"],
        ["group:doors.rules\n", "9000002,3\n", "* \"GABION\" \"OURS\"\n"],
        [
            "re:^alert http\n# none\n",
            "*\n",
            "re:doors 'flow:(\\w+)' 'flow:\\1'\nmetadata-add * seen yes\n",
        ],
        ["2\n", "1:9000025\n", "modifysid * \"rev:(\\d+)\" | \"rev:7${1}\"\n"],
        ["filename:*doors.rules\n", "doors*.rules\n", "# nothing\n"],
    ] {
        let left = compare(&updater, &all, "doors.rules", files);
        assert!(left > 1, "{files:?}");
    }
}

#[test]
fn a_large_rule_set_is_selected_as_suricata_update_does() {
    let Some(updater) = updater() else { return };
    let test = "a_large_rule_set_is_selected_as_suricata_update_does";
    let Some(rules) = gabion_corpus::read_text(test, "rules/emerging-all.rules.zst") else {
        return;
    };
    let files = [
        "group:emerging-all\nmetadata:signature_severity Informational\n2019401\n",
        "re:ET (MALWARE|PHISHING)\n1:2100366,2100368\nmetadata: attack_target Server\n",
        "\"re:ET MALWARE\" '^alert (tcp|http)' 'drop \\1'\n2019401 \"alert\" \"drop\"\nmetadata-add re:PHISHING ours yes\n",
    ];
    let left = compare(&updater, &rules, "emerging-all.rules", files);
    assert!(left > 4000, "{left}");
}

/// Printed messages, and the exit code of a run.
#[test]
fn counts_and_lines_without_effect_are_printed() {
    let dir = tempfile::tempdir().unwrap();
    let rules = repository("demo/gabion.rules").display().to_string();
    let [off, on, change] = selection(
        dir.path(),
        [
            "9000002\nclasstype:x\n777\n",
            "# none\n",
            "9000008 \"alert\" \"drop\"\n9000008 \"(\" \"x\"\n",
        ],
    );
    let conf = ["--disable-conf", &off, "--enable-conf", &on, "--modify-conf", &change];
    let out = dir.path().join("out").display().to_string();
    let ran = gabion(&[&["read", "-S", &rules, "-l", &out, &demo()], &conf[..]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    for wanted in [
        "gabion: rules: 1 disabled, 0 enabled, 1 modified".to_owned(),
        format!("{off}:2:1: classtype:x: names no rules: say SID"),
        format!("{off}:3:1: 777: means no rule"),
        format!("{change}:2:1: 9000008 \"(\" \"x\": the expression ( can't be read"),
    ] {
        assert!(ran.err.contains(&wanted), "{wanted}: {}", ran.err);
    }
    let fast = std::fs::read_to_string(dir.path().join("out/fast.log")).unwrap();
    assert!(!fast.contains("[1:9000002:") && fast.contains("[1:9000008:"), "{fast}");
    // A quiet run still prints a line that should have an effect and has none.
    let out = dir.path().join("quiet").display().to_string();
    let ran = gabion(&[&["read", "-q", "-S", &rules, "-l", &out, &demo()], &conf[..]].concat());
    assert!(ran.err.contains("classtype:x") && !ran.err.contains("777"), "{}", ran.err);

    let ran = gabion(&[&["rules", "check", &rules], &conf[..]].concat());
    assert_eq!(ran.code, 1, "{}", ran.out);
    for wanted in ["1 disabled, 0 enabled, 1 modified", "classtype:x", "means no rule"] {
        assert!(ran.out.contains(wanted), "{wanted}: {}", ran.out);
    }
    let ran = gabion(&[&["rules", "check", "--json", &rules], &conf[..]].concat());
    let json: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&json["disabled"], &json["modified"]), (&1.into(), &1.into()));

    let folder = dir.path().join("suricata");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.display().to_string();
    let front = ["suricata", "-S", &rules, "-l", &folder];
    let ran = gabion(&[&front[..], &["-r", &demo(), "-v"], &conf[..]].concat());
    let said = format!("{}{}", ran.out, ran.err);
    assert_eq!(ran.code, 0, "{said}");
    assert!(
        said.contains("rules: 1 disabled, 0 enabled, 1 modified") && said.contains("classtype:x"),
        "{said}"
    );
    let ran = gabion(&[&front[..], &["-T"], &conf[..]].concat());
    assert_eq!(ran.code, 1, "{}{}", ran.out, ran.err);

    let missing = dir.path().join("none.conf").display().to_string();
    let ran = gabion(&["rules", "check", &rules, "--enable-conf", &missing]);
    ran.refuses(3, &["--enable-conf", "none.conf", "No such file"]);
}

/// The commands of the recipe, as the document has them, over a local file of rules.
#[test]
fn the_recipe_works_as_it_stands() {
    let Some(updater) = updater() else { return };
    let document = std::fs::read_to_string(repository("docs/operations.md")).unwrap();
    let (_, recipe) = document.split_once("## Rules by suricata-update").unwrap();
    let recipe = recipe.split("\n## ").next().unwrap();
    let commands: Vec<&str> =
        recipe.split("```sh\n").skip(1).filter_map(|t| t.split("```").next()).collect();
    assert!(commands.len() >= 2, "{}", commands.len());
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().display().to_string();
    for folder in ["usr/local/bin", "etc/suricata", "var/lib/suricata"] {
        std::fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    let bin = dir.path().join("usr/local/bin");
    command_of(&updater, &bin);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_gabion"), bin.join("gabion")).unwrap();
    std::fs::copy(repository("demo/gabion.rules"), dir.path().join("local.rules")).unwrap();
    std::fs::copy(demo(), dir.path().join("capture.pcap")).unwrap();
    std::fs::write(dir.path().join("etc/suricata/disable.conf"), "9000002\n").unwrap();
    let yaml = format!(
        "%YAML 1.1\n---\ndefault-rule-path: {root}/var/lib/suricata/rules\nrule-files: [suricata.rules]\n\
         vars:\n  address-groups:\n    HOME_NET: \"[10.0.0.0/8]\"\n    EXTERNAL_NET: \"!$HOME_NET\"\n\
         outputs:\n  - fast: {{ enabled: yes }}\n"
    );
    std::fs::write(dir.path().join("etc/suricata/suricata.yaml"), yaml).unwrap();
    let mut all = String::from("set -e\n");
    for block in commands {
        for line in block.lines() {
            // The rules come from a file here, and folders stand below one.
            let line = match line.strip_prefix("RULES=") {
                Some(_) => format!("RULES=file://{root}/local.rules"),
                None => ["/usr/local/bin", "/etc/suricata", "/var/lib/suricata"]
                    .iter()
                    .fold(line.to_owned(), |line, path| {
                        line.replace(path, &format!("{root}{path}"))
                    }),
            };
            all.push_str(&line);
            all.push('\n');
        }
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("sh")
        .arg("-c")
        .arg(&all)
        .current_dir(dir.path())
        .env("PATH", path)
        .output()
        .unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{all}\n{said}");
    let rules =
        std::fs::read_to_string(dir.path().join("var/lib/suricata/rules/suricata.rules")).unwrap();
    assert!(
        rules.lines().any(|l| l.starts_with("# alert") && l.contains("sid:9000002;")),
        "{said}"
    );
    assert!(said.contains("Testing with suricata -T"), "{said}");
    let fast = std::fs::read_to_string(dir.path().join("out/fast.log")).unwrap();
    assert!(fast.lines().count() > 3 && !fast.contains("[1:9000002:"), "{fast}");
}

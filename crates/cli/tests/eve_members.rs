//! Members of EVE records: each is Suricata's, or is in the table of our own
//! (`crates/outputs/src/eve/own_members.tsv`), of which a part of `docs/outputs.md` is made.
//!
//! Which members Suricata has is known by its schema where the corpus is (`make test`). Without it, the
//! records of the demonstration are compared with `eve_members.txt`: the members they had when the
//! schema last judged them. `UPDATE=1` writes both.

mod program;

use gabion_outputs::eve::own_members;
use program::{demo, gabion, repository};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const BEGIN: &str = "cargo test -p gabion --test eve_members` -->\n";
const END: &str = "<!-- end of own members -->";

#[test]
fn the_page_says_every_member_of_ours() {
    let path = repository("docs/outputs.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_at(page.find(BEGIN).unwrap() + BEGIN.len());
    let (kept, after) = rest.split_at(rest.find(END).unwrap());
    let mut table = String::from("| member | what it is |\n|---|---|\n");
    for member in own_members() {
        let _ = writeln!(table, "| `{}` | {} |", member.path, member.reason);
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{table}{after}")).unwrap();
        return;
    }
    assert!(kept == table, "docs/outputs.md is not what own_members.tsv says: run with UPDATE=1");
}

#[test]
fn every_member_is_suricatas_or_has_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out").display().to_string();
    let rules = repository("demo/gabion.rules").display().to_string();
    let ran = gabion(&["read", "-q", "-S", &rules, "-l", &out, &demo()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut found = BTreeSet::new();
    for line in std::fs::read_to_string(dir.path().join("out/eve.json")).unwrap().lines() {
        members("", &serde_json::from_str(line).unwrap(), &mut found);
    }
    let own: Vec<&str> = own_members().map(|member| member.path).collect();
    let is_own = |path: &str| {
        own.iter()
            .any(|own| path.strip_prefix(own).is_some_and(|r| r.is_empty() || r.starts_with('.')))
    };
    // Counters of protocols are named by what runs.
    found.retain(|path| !is_own(path) && !path.starts_with("stats.app_layer."));
    let path = repository("crates/cli/tests/eve_members.txt");
    if std::env::var_os("UPDATE").is_some() {
        let text: String = found.iter().map(|path| format!("{path}\n")).collect();
        std::fs::write(&path, text).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap();
    let kept: BTreeSet<&str> = kept.lines().collect();
    let more: Vec<&String> = found.iter().filter(|path| !kept.contains(path.as_str())).collect();
    assert!(
        more.is_empty(),
        "{more:?}: a member of ours needs its row in crates/outputs/src/eve/own_members.tsv; for one \
         that Suricata has run this test with UPDATE=1, and eve-schema over records with it"
    );
}

/// Paths of all members, lists as `[]`. Objects keyed by what traffic holds count as one.
fn members(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(all) => {
            for (name, below) in all {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                members(&path, below, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|i| members(&format!("{path}.[]"), i, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

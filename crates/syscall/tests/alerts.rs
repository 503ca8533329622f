//! The shipped rules give the alerts on the corpus's captures that Falco's engine gives (0.63.0), with the same texts.

mod replay;
mod shipped_rules;

use std::collections::{BTreeMap, BTreeSet};

use gabion_condition::rules::{Matching, RuleMatcher};
use gabion_record::budget::Budget;
use gabion_record::fields::Scratch;
use gabion_syscall::{Options, State};

/// Alerts that are expected and found, of 161. It only rises.
const FOUND_FLOOR: usize = 161;

#[test]
fn alerts_are_those_of_falcos_engine() {
    let Some(folder) = replay::corpus("alerts_are_those_of_falcos_engine") else { return };
    let rules = shipped_rules::load(&folder);
    let text = std::fs::read_to_string(folder.join("expected-alerts.tsv")).unwrap();
    let mut expected: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut count = 0;
    for line in text.lines().skip(1) {
        let (capture, alert) = line.split_once('\t').unwrap();
        count += usize::from(expected.entry(capture).or_default().insert(alert.to_owned()));
    }
    assert_eq!(count, 161);
    let options = Options { container_stand_in: true, ..Options::default() };
    let (mut found, mut wrong) = (0, Vec::new());
    let mut captures: Vec<_> =
        std::fs::read_dir(folder.join("expected-fields")).unwrap().map(|e| e.unwrap()).collect();
    captures.sort_by_key(|entry| entry.file_name());
    for entry in captures {
        let name = entry.file_name().into_string().unwrap();
        let name = name.trim_end_matches(".tsv.zst");
        let mut left = expected.remove(name).unwrap_or_default();
        let mut state = State::new(options, Budget::standalone("threads", 256 << 20));
        let (mut matcher, mut matched) = (RuleMatcher::new(&rules), Vec::new());
        let (mut scratch, mut out) = (Scratch::new(), Vec::new());
        let path = folder.join("captures").join(format!("{name}.scap"));
        replay::run(&path, &mut state, |state, event| {
            if !state.is_for_rules() {
                return;
            }
            let view = state.view(event);
            matcher.matches(&rules, &view, Matching::All, &mut matched);
            for rule in matched.iter().filter_map(|number| rules.rules().get(*number as usize)) {
                out.clear();
                rule.output.write(&view, &mut scratch, &mut out);
                let output = String::from_utf8_lossy(&out);
                let alert =
                    format!("{}\t{}\t{}\t{output}", event.number, rule.name, rule.priority.name());
                if left.remove(&alert) {
                    found += 1;
                } else {
                    wrong.push(format!("{name} found    {alert}"));
                }
            }
        });
        wrong.extend(left.into_iter().map(|alert| format!("{name} expected {alert}")));
    }
    for line in wrong.iter().take(60) {
        eprintln!("{line}");
    }
    eprintln!("{found} of {count} alerts found, {} lines differ", wrong.len());
    assert!(expected.is_empty(), "{:?}", expected.keys());
    assert!(found >= FOUND_FLOOR, "{found} of {count} alerts are found");
    assert!(wrong.is_empty(), "{} lines differ", wrong.len());
}

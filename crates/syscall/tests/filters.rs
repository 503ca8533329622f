//! All filters of the corpus match the events that Falco's engine matches (0.63.0), in the same order.

mod replay;

use std::collections::BTreeMap;

use gabion_condition::compile::Filter;
use gabion_record::budget::Budget;
use gabion_syscall::{Options, State};

/// Filters that match the same events of a capture, of 174 filters on 25 captures. It only rises; the rest are two
/// filters with a list of addresses (`docs/syscall-differences.md`).
const EQUAL_FLOOR: usize = 4_340;

struct Expected {
    filter: Filter,
    text: String,
    count: u64,
    hash: u64,
    /// What our run gave.
    got: (u64, u64),
}

#[test]
fn filters_match_the_events_that_falcos_engine_matches() {
    let test = "filters_match_the_events_that_falcos_engine_matches";
    let Some(folder) = replay::corpus(test) else { return };
    let text = std::fs::read_to_string(folder.join("expected-filters.tsv")).unwrap();
    let mut captures: BTreeMap<&str, Vec<Expected>> = BTreeMap::new();
    for line in text.lines() {
        if let [capture, count, hash, filter] = line.split('\t').collect::<Vec<_>>()[..] {
            captures.entry(capture).or_default().push(Expected {
                filter: Filter::new(filter).unwrap(),
                text: filter.to_owned(),
                count: count.parse().unwrap(),
                hash: u64::from_str_radix(hash, 16).unwrap(),
                got: (0, 0),
            });
        }
    }
    let options = Options { as_falco: true, ..Options::default() };
    let (mut equal, mut all) = (0, 0);
    let mut wrong: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (capture, mut filters) in captures {
        let mut state = State::new(options, Budget::standalone("threads", 256 << 20));
        let path = folder.join("captures").join(format!("{capture}.scap"));
        replay::run(&path, &mut state, |state, event| {
            if !state.is_for_rules() {
                return;
            }
            let view = state.view(event);
            for expected in &mut filters {
                if expected.filter.matches(&view) {
                    let (count, hash) = expected.got;
                    let hash = hash.wrapping_mul(1_000_003).wrapping_add(event.number);
                    expected.got = (count + 1, hash);
                }
            }
        });
        for f in filters {
            all += 1;
            if f.got == (f.count, f.hash) {
                equal += 1;
            } else {
                let line = format!("{capture} {} of {}", f.got.0, f.count);
                wrong.entry(f.text).or_default().push(line);
            }
        }
    }
    for (filter, captures) in &wrong {
        eprintln!("{filter}: {}", captures.join(", "));
    }
    eprintln!("{equal} of {all} equal");
    assert_eq!(all, 4_350);
    assert!(equal >= EQUAL_FLOOR, "{equal} of {all} are equal");
}

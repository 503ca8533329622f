//! The demonstration is consistent: every rule has its own sid, in order, and an expected count,
//! and the capture is complete.

use std::collections::BTreeSet;
use std::path::Path;

use gabion_conformance::captures::{names, suites};

#[test]
fn every_rule_of_the_demonstration_is_expected() {
    let suite = suites::kept("demo", Path::new("")).unwrap();
    let rules = suite.rules_text().unwrap();
    let sids: BTreeSet<u64> = names::of_rules(&rules).into_keys().collect();
    assert!(sids.iter().copied().eq(9_000_001..=9_000_040), "{sids:?}");
    let expected: BTreeSet<u64> =
        suite.expected().unwrap().into_keys().map(|(_, sid)| sid).collect();
    let silent: Vec<_> = sids.difference(&expected).collect();
    assert_eq!(silent, [&9_000_017], "only the rule with noalert is silent");
    assert!(expected.is_subset(&sids));
    for line in rules.lines().filter(|line| line.starts_with("alert ")) {
        assert!(line.contains("classtype:") && line.contains("msg:\"GABION "), "{line}");
    }
}

#[test]
fn the_capture_of_the_demonstration_is_whole() {
    let suite = suites::kept("demo", Path::new("")).unwrap();
    let bytes = std::fs::read(&suite.captures).unwrap();
    assert!(bytes.len() <= 600 << 10, "{} bytes", bytes.len());
    assert_eq!(bytes.get(..4), Some(&[0xd4, 0xc3, 0xb2, 0xa1][..]), "microseconds, little endian");
    let mut rest = bytes.get(24..).unwrap();
    let mut packets = 0;
    while let Some(head) = rest.get(..16) {
        let field =
            |at: usize| u32::from_le_bytes(head.get(at..at + 4).unwrap().try_into().unwrap());
        assert_eq!(field(8), field(12), "packet {packets} is cut off");
        rest = rest.get(16 + field(8) as usize..).expect("a packet ends after the file");
        packets += 1;
    }
    assert!(rest.is_empty());
    assert!(packets > 1000, "{packets}");
}

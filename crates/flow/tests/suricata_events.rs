//! Stream and fragment events over the captures of the corpus, compared with the alerts of
//! Suricata's own event rules, one by one.

mod replay;

use gabion_flow::{StreamConfig, StreamEvent};
use replay::{Seen, replay};
use std::collections::BTreeMap;

/// Captures whose events depend on what a parser has consumed: how much of a stream is still kept
/// for comparison when data arrives again. No parser runs in this test.
const NEEDS_PARSER: [&str; 4] = [
    "arkime/dcerpc_synthetic.pcap",
    "ndpi/ajp.pcap",
    "zeek/pppoe-over-qinq.pcap",
    "zeek/tcp__qi_internet_SYNACK_curl_jsonip.pcap",
];

/// One of Suricata's rules: its event, sid, and the hits in a flow that alert (all, or 1, m, m²,
/// …).
struct Rule {
    event: StreamEvent,
    sid: u32,
    backoff: Option<u64>,
}

fn rules(text: &str) -> Vec<Rule> {
    let after = |line: &str, key: &str| -> Option<String> {
        let rest = &line[line.find(key)? + key.len()..];
        Some(rest.split([';', ',', ' ']).next()?.to_string())
    };
    text.lines()
        .filter(|l| !l.trim_start().starts_with('#') && !l.contains("noalert"))
        .filter_map(|l| {
            Some(Rule {
                event: StreamEvent::from_name(&after(l, "stream-event:")?)?,
                sid: after(l, "sid:")?.parse().ok()?,
                backoff: after(l, "multiplier ").and_then(|m| m.parse().ok()),
            })
        })
        .collect()
}

/// Number of alerts for this many hits in one flow.
fn alerts(hits: u64, backoff: Option<u64>) -> u64 {
    let Some(m) = backoff else { return hits };
    let mut at = 1;
    let mut n = 0;
    while at <= hits {
        n += 1;
        at *= m;
    }
    n
}

#[test]
fn stream_events_are_those_of_suricata() {
    let test = "stream_events_are_those_of_suricata";
    let Some(expected) = gabion_corpus::read_text(test, "captures/expected-events.tsv") else {
        return;
    };
    let corpus = gabion_corpus::root();
    let text =
        std::fs::read_to_string(corpus.join("rules/peer-events/stream-events.rules")).unwrap();
    let rules = rules(&text);
    assert!(rules.len() > 50);
    let mut want: BTreeMap<(String, u32), u64> = BTreeMap::new();
    let mut files: Vec<&str> = Vec::new();
    for line in expected.lines().filter(|l| !l.starts_with('#')) {
        let mut parts = line.split('\t');
        let (Some(file), Some(sid), Some(count)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let sid: u32 = sid.parse().unwrap();
        if rules.iter().any(|r| r.sid == sid) {
            want.insert((file.to_string(), sid), count.parse().unwrap());
        }
        if files.last() != Some(&file) {
            files.push(file);
        }
    }
    // Every capture for which Suricata has any event, of streams or not.
    let cfg = StreamConfig { checksum_validation: false, ..StreamConfig::default() };
    let (mut right, mut wrong) = (0, Vec::new());
    for file in files.into_iter().filter(|f| !NEEDS_PARSER.contains(f)) {
        let mut seen = Seen::default();
        if !replay(&corpus.join("captures").join(file), &cfg, &mut seen) {
            continue;
        }
        for rule in &rules {
            let mut hits: BTreeMap<Option<u64>, u64> = BTreeMap::new();
            for (_, event, flow) in &seen.events {
                if *event == rule.event {
                    *hits.entry(*flow).or_default() += 1;
                }
            }
            let got: u64 = hits.values().map(|n| alerts(*n, rule.backoff)).sum();
            let expected = want.remove(&(file.to_string(), rule.sid)).unwrap_or(0);
            if got == expected {
                right += expected;
            } else {
                wrong.push(format!("{file}: {}: {got}, not {expected}", rule.event.name()));
            }
        }
    }
    eprintln!("{right} alerts right, {} differences", wrong.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

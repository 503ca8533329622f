//! The decoders compared with Suricata: the rules on decoder events and checksums over every
//! capture of the corpus, compared with Suricata's alerts for the same rules.
//!
//! Fragments are reassembled in the simplest way (the first bytes stay), so that the packets inside
//! are decoded too; the events of reassembly are tested in the crate `flow`. The threshold of one
//! rule (one alert a minute) is ignored: Suricata does not apply it to packets without addresses.
//! Without the corpus the test skips.
#![allow(clippy::print_stdout, reason = "a test prints its counts")]

use crate::replay;
use gabion_packet::{DecodeConfig, DecodeCounters, Decoded, DecoderEvent, Network, checksum};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Pairs of capture and rule where Gabion and Suricata agree on a count above zero, of those where
/// either has one. Raise the floor when the count rises.
const FLOOR: (usize, usize) = (909, 910);

/// The condition of a rule.
enum Condition {
    Event(DecoderEvent),
    BadChecksum(fn(&Decoded, &[u8]) -> Option<bool>, Option<Network>),
}

struct Rule {
    sid: u32,
    only_ipv6: bool,
    condition: Condition,
}

fn value<'a>(rule: &'a str, key: &str) -> Option<&'a str> {
    let from = rule.find(key)? + key.len();
    rule.get(from..)?.split(';').next()
}

fn rules(text: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("alert ")) {
        let sid = value(line, "sid:").and_then(|sid| sid.parse().ok()).expect("a rule has a sid");
        let condition = if let Some(name) = value(line, "decode-event:") {
            if name.contains("frag_") {
                continue;
            }
            Condition::Event(
                DecoderEvent::from_name(name).unwrap_or_else(|| panic!("{name} is new")),
            )
        } else {
            let (v4, v6) = (Some(Network::Ipv4), Some(Network::Ipv6));
            match value(line, "csum:invalid").and_then(|_| line.split("\"; ").nth(1)) {
                Some(text) if text.starts_with("ipv4") => {
                    Condition::BadChecksum(checksum::ipv4_ok, v4)
                }
                Some(text) if text.starts_with("tcpv4") => {
                    Condition::BadChecksum(checksum::tcp_ok, v4)
                }
                Some(text) if text.starts_with("tcpv6") => {
                    Condition::BadChecksum(checksum::tcp_ok, v6)
                }
                Some(text) if text.starts_with("udpv4") => {
                    Condition::BadChecksum(checksum::udp_ok, v4)
                }
                Some(text) if text.starts_with("udpv6") => {
                    Condition::BadChecksum(checksum::udp_ok, v6)
                }
                Some(text) if text.starts_with("icmpv4") => {
                    Condition::BadChecksum(checksum::icmpv4_ok, v4)
                }
                Some(text) if text.starts_with("icmpv6") => {
                    Condition::BadChecksum(checksum::icmpv6_ok, v6)
                }
                other => panic!("sid {sid} has another condition: {other:?}"),
            }
        };
        let only_ipv6 = line.starts_with("alert ipv6 ");
        rules.push(Rule { sid, only_ipv6, condition });
    }
    rules
}

impl Rule {
    fn matches(&self, p: &Decoded, bytes: &[u8]) -> bool {
        match &self.condition {
            Condition::Event(event) => {
                p.events.contains(*event) && (!self.only_ipv6 || p.network == Network::Ipv6)
            }
            Condition::BadChecksum(ok, network) => {
                network.is_none_or(|network| network == p.network) && ok(p, bytes) == Some(false)
            }
        }
    }
}

/// Alerts per rule of one capture.
#[derive(Default)]
struct Alerts {
    counts: BTreeMap<u32, u64>,
}

impl Alerts {
    fn count(&mut self, rules: &[Rule], p: &Decoded, bytes: &[u8]) {
        if p.events.is_empty() && !p.is_ip() {
            return;
        }
        for rule in rules.iter().filter(|rule| rule.matches(p, bytes)) {
            *self.counts.entry(rule.sid).or_default() += 1;
        }
    }
}

/// Expected counts: capture, then sid, then count.
fn expected(folder: &Path, sids: &BTreeSet<u32>) -> BTreeMap<String, BTreeMap<u32, u64>> {
    let text = std::fs::read_to_string(folder.join("expected-events.tsv")).expect("readable");
    let mut all: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
    for line in text.lines().skip(1) {
        let mut columns = line.split('\t');
        let (Some(file), Some(sid), Some(count)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let sid: u32 = sid.parse().expect("a sid");
        if sids.contains(&sid) {
            let count = count.parse().expect("a count");
            all.entry(file.to_string()).or_default().insert(sid, count);
        }
    }
    all
}

#[test]
fn decoder_events_and_checksums_are_those_of_suricata() {
    let test = "decoder_events_and_checksums_are_those_of_suricata";
    let Some(corpus) = gabion_corpus::find(test, "") else { return };
    let text = std::fs::read_to_string(corpus.join("rules/peer-events/decoder-events.rules"))
        .expect("the rules of decoder events");
    let rules = rules(&text);
    let sids: BTreeSet<u32> = rules.iter().map(|rule| rule.sid).collect();
    let folder = corpus.join("captures");
    let expected = expected(&folder, &sids);
    let unread = std::fs::read_to_string(folder.join("not-read-by-peer.tsv")).expect("readable");
    let unread: BTreeSet<&str> =
        unread.lines().filter_map(|line| line.split('\t').next()).collect();
    let (mut agreed, mut total) = (0, 0);
    let (mut missing, mut extra) = (0u64, 0u64);
    for path in gabion_capture::list_recursive(&folder).expect("a folder of captures") {
        let name = path.strip_prefix(&folder).expect("inside").to_string_lossy().into_owned();
        if unread.contains(name.as_str()) {
            continue;
        }
        let mut alerts = Alerts::default();
        let mut counters = DecodeCounters::new();
        let config = DecodeConfig::DEFAULT;
        let look = |p: &Decoded, bytes: &[u8]| alerts.count(&rules, p, bytes);
        if !replay::replay(&path, &config, &mut counters, look) {
            continue;
        }
        let none = BTreeMap::new();
        let expected = expected.get(&name).unwrap_or(&none);
        let either: BTreeSet<u32> = expected.keys().chain(alerts.counts.keys()).copied().collect();
        for sid in either {
            let ours = alerts.counts.get(&sid).copied().unwrap_or(0);
            let theirs = expected.get(&sid).copied().unwrap_or(0);
            total += 1;
            if ours == theirs {
                agreed += 1;
            } else {
                println!("{name}\t{sid}\tours {ours}\tSuricata {theirs}");
                missing += theirs.saturating_sub(ours);
                extra += ours.saturating_sub(theirs);
            }
        }
    }
    println!("agreed on {agreed} of {total}; alerts missing {missing}, extra {extra}");
    assert!(agreed >= FLOOR.0 && total - agreed <= FLOOR.1 - FLOOR.0, "{agreed} of {total}");
}

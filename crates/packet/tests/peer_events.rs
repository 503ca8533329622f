//! The decoders against the peer: the rules on decoder events and checksums over every capture of
//! the corpus, compared with the alerts that the peer gave for the same rules.
//!
//! Fragments are put together in the plainest way (what came first stays), so that the packets
//! inside are decoded too; the events of reassembly itself are another crate's. The threshold of one
//! rule (one alert a minute) is left out: the peer does not apply it to packets without addresses.
//! Without the corpus the test skips.

mod defrag;

use defrag::Defrag;
use gabion_capture::Source;
use gabion_packet::{
    DecodeConfig, DecodeCounters, Decoded, DecoderEvent, Link, Network, PacketSet, checksum,
    decode, decode_ip_reassembled,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Pairs of capture and rule where we and the peer agree on a count above zero, of those where
/// either has one. Raise it when it rises.
const FLOOR: (usize, usize) = (0, 0);

/// What a rule asks of a packet.
enum Ask {
    Event(DecoderEvent),
    BadChecksum(fn(&Decoded, &[u8]) -> Option<bool>, Option<Network>),
}

struct Rule {
    sid: u32,
    only_ipv6: bool,
    ask: Ask,
}

fn corpus() -> Option<PathBuf> {
    let folder = std::env::var_os("GABION_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
        PathBuf::from,
    );
    folder.join("captures/expected-events.tsv").is_file().then_some(folder)
}

fn value<'a>(rule: &'a str, key: &str) -> Option<&'a str> {
    let from = rule.find(key)? + key.len();
    rule.get(from..)?.split(';').next()
}

fn rules(text: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("alert ")) {
        let sid = value(line, "sid:").and_then(|sid| sid.parse().ok()).expect("a rule has a sid");
        let ask = if let Some(name) = value(line, "decode-event:") {
            if name.contains("frag_") {
                continue;
            }
            Ask::Event(DecoderEvent::from_name(name).unwrap_or_else(|| panic!("{name} is new")))
        } else {
            let (v4, v6) = (Some(Network::Ipv4), Some(Network::Ipv6));
            match value(line, "csum:invalid").and_then(|_| line.split("\"; ").nth(1)) {
                Some(text) if text.starts_with("ipv4") => Ask::BadChecksum(checksum::ipv4_ok, v4),
                Some(text) if text.starts_with("tcpv4") => Ask::BadChecksum(checksum::tcp_ok, v4),
                Some(text) if text.starts_with("tcpv6") => Ask::BadChecksum(checksum::tcp_ok, v6),
                Some(text) if text.starts_with("udpv4") => Ask::BadChecksum(checksum::udp_ok, v4),
                Some(text) if text.starts_with("udpv6") => Ask::BadChecksum(checksum::udp_ok, v6),
                Some(text) if text.starts_with("icmpv4") => {
                    Ask::BadChecksum(checksum::icmpv4_ok, v4)
                }
                Some(text) if text.starts_with("icmpv6") => {
                    Ask::BadChecksum(checksum::icmpv6_ok, v6)
                }
                other => panic!("sid {sid} asks something else: {other:?}"),
            }
        };
        let only_ipv6 = line.starts_with("alert ipv6 ");
        rules.push(Rule { sid, only_ipv6, ask });
    }
    rules
}

impl Rule {
    fn asks_for(&self, p: &Decoded, bytes: &[u8]) -> bool {
        match &self.ask {
            Ask::Event(event) => {
                p.events.contains(*event) && (!self.only_ipv6 || p.network == Network::Ipv6)
            }
            Ask::BadChecksum(ok, network) => {
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
    fn look(&mut self, rules: &[Rule], p: &Decoded, bytes: &[u8]) {
        if p.events.is_empty() && !p.is_ip() {
            return;
        }
        for rule in rules.iter().filter(|rule| rule.asks_for(p, bytes)) {
            *self.counts.entry(rule.sid).or_default() += 1;
        }
    }
}

fn run(path: &Path, rules: &[Rule], counters: &mut DecodeCounters) -> Option<Alerts> {
    let mut source = Source::open(path).ok()?;
    let config = DecodeConfig::DEFAULT;
    let (mut set, mut inside) = (PacketSet::new(), PacketSet::new());
    let mut alerts = Alerts::default();
    let mut defrag = Defrag::default();
    let mut refs = Vec::new();
    let mut link_first = None;
    while let Some(block) = source.next_block(256, &mut refs) {
        for frame in &refs {
            let frame = frame.frame(&block.bytes);
            // The peer's reader ends at a second kind of link.
            if *link_first.get_or_insert(frame.link) != frame.link {
                return Some(alerts);
            }
            let link = Link::from_linktype(u32::from(frame.link))?;
            decode(&mut set, counters, &config, link, frame.data);
            let mut whole = Vec::new();
            for p in set.iter() {
                alerts.look(rules, p, frame.data);
                whole.extend(defrag.add(p, frame.data));
            }
            // A reassembled packet may hold a fragment itself.
            while let Some((fragment, bytes)) = whole.pop() {
                if !decode_ip_reassembled(&mut inside, counters, &config, &fragment, &bytes) {
                    continue;
                }
                for p in inside.iter() {
                    alerts.look(rules, p, &bytes);
                    whole.extend(defrag.add(p, &bytes));
                }
            }
        }
        refs.clear();
    }
    Some(alerts)
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
fn decoder_events_and_checksums_are_the_peers() {
    let Some(corpus) = corpus() else {
        eprintln!("skipped: no corpus");
        return;
    };
    let text = std::fs::read_to_string(corpus.join("rules/peer-events/decoder-events.rules"))
        .expect("the rules of decoder events");
    let rules = rules(&text);
    let sids: BTreeSet<u32> = rules.iter().map(|rule| rule.sid).collect();
    let folder = corpus.join("captures");
    let expected = expected(&folder, &sids);
    let unread = std::fs::read_to_string(folder.join("not-read-by-peer.tsv")).expect("readable");
    let unread: BTreeSet<&str> =
        unread.lines().filter_map(|line| line.split('\t').next()).collect();
    let mut counters = DecodeCounters::new();
    let (mut agreed, mut total) = (0, 0);
    let (mut missing, mut extra) = (0u64, 0u64);
    for path in gabion_capture::list_recursive(&folder).expect("a folder of captures") {
        let name = path.strip_prefix(&folder).expect("inside").to_string_lossy().into_owned();
        if unread.contains(name.as_str()) {
            continue;
        }
        let Some(alerts) = run(&path, &rules, &mut counters) else {
            continue;
        };
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
                println!("{name}\t{sid}\tours {ours}\tpeer {theirs}");
                missing += theirs.saturating_sub(ours);
                extra += ours.saturating_sub(theirs);
            }
        }
    }
    println!("agreed on {agreed} of {total}; alerts missing {missing}, extra {extra}");
    assert!(agreed >= FLOOR.0 && total - agreed <= FLOOR.1 - FLOOR.0, "{agreed} of {total}");
}

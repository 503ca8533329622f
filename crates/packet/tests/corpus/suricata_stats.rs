//! Gabion's decoder counters compared with Suricata's: `stats.decoder` of every test of the corpus
//! for which Suricata wrote a statistics record.
//!
//! Tests that change what is decoded (filters, other tunnel ports, limits) and the counters of
//! events that reassembly raises are left out. Without the corpus the test skips.
#![allow(clippy::print_stdout, reason = "a test prints its counts")]

use crate::replay;
use gabion_packet::{Counter, DecodeConfig, DecodeCounters, DecoderEvent};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Tests whose counters all agree, and tests compared. Two differ: one drops a packet before its
/// events count, the other has fragments that only Suricata's policy refuses.
const FLOOR: (usize, usize) = (1046, 1048);

/// The last statistics of each test: folder of the test to `stats.decoder`.
fn suricata_stats(archive: &Path) -> BTreeMap<String, Value> {
    let tar = gabion_corpus::unpack(archive, u64::MAX);
    let mut stats = BTreeMap::new();
    let mut rest = tar.as_slice();
    let mut long_name = None;
    // A tar archive: blocks of 512 bytes, a header before each member.
    while let Some((header, after)) = rest.split_first_chunk::<512>() {
        let text = |range: std::ops::Range<usize>| {
            let bytes = header[range].split(|byte| *byte == 0).next().unwrap_or(&[]);
            String::from_utf8_lossy(bytes).trim().to_string()
        };
        let len = usize::from_str_radix(&text(124..136), 8).unwrap_or(0);
        let body = after.get(..len).unwrap_or(&[]);
        let name = long_name.take().unwrap_or_else(|| text(0..100));
        if header[156] == b'L' {
            long_name = Some(String::from_utf8_lossy(body).trim_end_matches('\0').to_string());
        } else if let Some(test) = name.strip_suffix("/eve.json") {
            let last = body.split(|byte| *byte == b'\n').filter_map(decoder_stats).next_back();
            if let Some(last) = last {
                stats.insert(test.trim_start_matches("./").to_string(), last);
            }
        }
        rest = after.get(len.next_multiple_of(512)..).unwrap_or(&[]);
    }
    stats
}

fn decoder_stats(line: &[u8]) -> Option<Value> {
    let record: Value = serde_json::from_slice(line).ok()?;
    (record.get("event_type")? == "stats").then_some(())?;
    record.get("stats")?.get("decoder").cloned()
}

/// The capture of a test; `None` where it has none, several, or reads it with special options.
fn capture_of(folder: &Path) -> Option<PathBuf> {
    let yaml = std::fs::read_to_string(folder.join("test.yaml")).ok()?;
    if yaml.contains("command:")
        || yaml.contains("simulate-packet")
        || folder.ends_with("bpf-command-line")
    {
        return None;
    }
    let named = yaml.lines().find_map(|line| line.strip_prefix("pcap:"));
    if let Some(named) = named {
        return Some(folder.join(named.trim().trim_matches(['"', '\''])));
    }
    let mut captures = std::fs::read_dir(folder)
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|kind| kind == "pcap" || kind == "pcapng"));
    captures.next().filter(|_| captures.next().is_none())
}

fn number(stats: &Value, path: &str) -> Option<u64> {
    path.split('.').try_fold(stats, |at, key| at.get(key))?.as_u64()
}

/// Counters that differ, as text.
fn differences(stats: &Value, ours: &DecodeCounters) -> Vec<String> {
    let counters = Counter::ALL
        .iter()
        .filter(|counter| !matches!(counter, Counter::MaxMacAddrsSrc | Counter::MaxMacAddrsDst))
        .map(|counter| (counter.name().to_string(), ours.get(*counter)));
    let events = DecoderEvent::ALL
        .iter()
        .filter(|event| !event.name().contains("frag_"))
        .map(|event| (event.counter_name(), ours.event(*event)));
    counters
        .chain(events)
        .filter_map(|(name, ours)| {
            let theirs = number(stats, &name)?;
            (ours != theirs).then(|| format!("{name} ours {ours} Suricata {theirs}"))
        })
        .collect()
}

#[test]
fn decoder_counters_are_those_of_suricata() {
    let test = "decoder_counters_are_those_of_suricata";
    let Some(corpus) = gabion_corpus::find(test, "") else { return };
    let corpus = corpus.join("suricata-verify");
    let stats = suricata_stats(&corpus.join("peer/output-of-tests.tar.zst"));
    let (mut agreed, mut total) = (0, 0);
    for (test, stats) in &stats {
        let Some(capture) = capture_of(&corpus.join("tests").join(test)) else {
            continue;
        };
        let mut counters = DecodeCounters::new();
        if !replay::replay(&capture, &DecodeConfig::DEFAULT, &mut counters, |_, _| {}) {
            println!("{test}: not read");
            continue;
        }
        total += 1;
        let differ = differences(stats, &counters);
        if differ.is_empty() {
            agreed += 1;
        } else {
            println!("{test}: {}", differ.join(", "));
        }
    }
    println!("agreed on {agreed} of {total}");
    assert!(agreed >= FLOOR.0 && total - agreed <= FLOOR.1 - FLOOR.0, "{agreed} of {total}");
}

//! Scap files of system calls: any bytes read whole and in pieces, merged, and rewritten twice; one event of any type
//! with any parameters.

use crate::seeds::Seeds;
use gabion_scap::table::{Action, event_type, event_types};
use gabion_scap::{Event, Merger, Values, Writer};

/// Bytes of a real capture that are used: its lists are cut, its first events are reached by the other seeds.
const SEED_LEN: usize = 1 << 13;

fn is_packed(data: &[u8]) -> bool {
    // Packed data may expand to 1,000 times its size, which would only test the decompressor.
    data.starts_with(&[0x1f, 0x8b])
}

/// Reads whole and in pieces: both give the same items and counts, and the ledgers balance.
pub fn read(data: &[u8]) {
    if !is_packed(data) {
        let _ = gabion_scap::fuzz_read(data);
    }
}

/// Merges and rewrites twice: raw = passed + merged + shed, and the second file is the first one.
pub fn rewrite(data: &[u8]) {
    if !is_packed(data) {
        let _ = gabion_scap::fuzz_rewrite(data);
    }
}

/// A script of events of three threads: of each two bytes of type, one of thread and number of parameters, then a byte
/// of length for each parameter, taken from the bytes after it.
pub fn events(data: &[u8]) {
    let mut rest = data;
    let mut merger = Merger::new();
    let mut passed = 0;
    let mut raw = 0;
    while let Some((head, after)) = rest.split_first_chunk::<3>() {
        rest = after;
        let number = u16::from_le_bytes([head[0], head[1]]) % event_types().len() as u16;
        let Some(kind) = event_type(number) else { continue };
        let count = usize::from(head[2] & 0x3f);
        let (mut lengths, mut bytes) = (Vec::new(), Vec::new());
        for place in 0..count {
            let Some((len, after)) = rest.split_first() else { break };
            let size = kind.parameters.get(place).and_then(|p| p.kind.size());
            let len = if *len > 200 { size.unwrap_or(0) } else { usize::from(len % 32) };
            let value = after.get(..len).unwrap_or(after);
            rest = after.get(len..).unwrap_or_default();
            if kind.is_large() {
                lengths.extend_from_slice(&(value.len() as u32).to_le_bytes())
            } else {
                lengths.extend_from_slice(&(value.len() as u16).to_le_bytes())
            }
            bytes.extend_from_slice(value);
        }
        raw += 1;
        let values = Values::new(kind, &lengths, &bytes);
        let tid = i64::from(head[2] >> 6);
        let event = Event {
            number: raw,
            raw_number: raw,
            ts_ns: raw,
            tid,
            cpu: 0,
            flags: 0,
            values,
            enter: None,
            live: gabion_scap::LiveValues::default(),
        };
        if let Some(event) = merger.merge(&event) {
            passed += 1;
            assert!(event.number <= event.raw_number, "an event has no number above its place");
            let newest = event.kind();
            let waits = newest.conversion(event.values.len()).map(|c| c.action);
            assert!(
                waits.is_none_or(|a| a == Action::Pass || newest.is_exit()),
                "an enter event left"
            );
            let mut text = Vec::new();
            for place in 0..event.values.len() {
                event.param(place).map(|param| param.write_text(&mut text));
            }
        }
        assert_eq!(merger.counts().ledger.balance(), Ok(()), "the ledger of events balances");
    }
    merger.finish();
    let counts = merger.counts();
    assert_eq!(counts.ledger.balance(), Ok(()));
    assert_eq!(counts.ledger.received().items, raw);
    assert_eq!(counts.ledger.passed().items, passed + counts.merged);
}

/// A made file with an event of each type, and the beginnings of the corpus's captures and hostile files.
pub fn files(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all = vec![made()];
    let Some(corpus) = &seeds.corpus else { return all };
    for folder in ["scap/hostile", "scap/captures"] {
        let Ok(entries) = std::fs::read_dir(corpus.join(folder)) else { continue };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths.iter().filter(|path| path.extension().is_some_and(|e| e == "scap")) {
            let Ok(bytes) = std::fs::read(path) else { continue };
            if !is_packed(&bytes) {
                all.push(bytes.get(..SEED_LEN).unwrap_or(&bytes).to_vec());
            }
        }
    }
    all
}

/// A file with an event of each type that has as many parameters as the table says, all of them unknown.
fn made() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    let mut is_written = writer.section().is_ok();
    for kind in event_types() {
        let width = if kind.is_large() { 4 } else { 2 };
        let lengths = vec![0; kind.parameters.len() * width];
        let values = Values::new(kind, &lengths, &[]);
        let event = Event {
            number: 0,
            raw_number: 0,
            ts_ns: 1,
            tid: 7,
            cpu: 0,
            flags: 0,
            values,
            enter: None,
            live: gabion_scap::LiveValues::default(),
        };
        is_written &= writer.event(&event).is_ok();
    }
    assert!(is_written, "memory takes everything");
    writer.finish().unwrap_or_default()
}

/// Scripts of a few events: the calls whose enter events are kept.
pub fn scripts(_: &Seeds) -> Vec<Vec<u8>> {
    let pair = |enter: u16, exit: u16, counts: (u8, u8)| {
        let mut script = enter.to_le_bytes().to_vec();
        script.push(0x40 | counts.0);
        script.extend((0..counts.0).flat_map(|_| [4, b'a', b'b', b'c', 0]));
        script.extend(exit.to_le_bytes());
        script.push(0x40 | counts.1);
        script.extend((0..counts.1).flat_map(|_| [255, 1, 2, 3, 4, 5, 6, 7, 8]));
        script
    };
    let all = event_types().iter().filter(|kind| !kind.is_exit() && !kind.conversions.is_empty());
    all.map(|kind| {
        let exit = event_type(kind.number + 1).unwrap_or(kind);
        let count = |n: usize| u8::try_from(n).unwrap_or(0) & 0x3f;
        let counts = (count(kind.parameters.len()), count(exit.parameters.len().saturating_sub(1)));
        pair(kind.number, exit.number, counts)
    })
    .collect()
}

//! The cost of an event of a scap file: read, read and merged, rewritten; compared with the least possible cost, a pass
//! over the heads of all blocks.
//!
//! `cargo bench -p gabion-scap`. The events are those of a capture of the corpus (`GABION_CORPUS`) with 35,860 events,
//! forty times, or made ones if it is absent. Items are raw events.

use divan::{Bencher, counter::ItemsCount};
use gabion_scap::{Decoder, Event, Item, Merger, Values, Writer, table, types};

/// How often the events of the capture are repeated.
const TIMES: usize = 40;

fn main() {
    divan::main();
}

/// A file, and the number of its events.
fn file() -> (Vec<u8>, u64) {
    let path = gabion_corpus::root().join("scap/captures/sysflow-mpm-event-full_capture.scap");
    let once = std::fs::read(path).unwrap_or_else(|_| made());
    // The lists, then the events many times.
    let mut at = 0;
    while let Some(head) = once.get(at..at + 8) {
        let word = |from: usize| {
            u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]])
        };
        if (0x216..0x218).contains(&word(0)) {
            break;
        }
        at += word(4) as usize;
    }
    let (lists, events) = once.split_at(at);
    let mut all = lists.to_vec();
    (0..TIMES).for_each(|_| all.extend_from_slice(events));
    let count = each_event(&all, |_| {});
    (all, count)
}

/// A file with reads of one thread.
fn made() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let enter = table::event_type(types::READ_E).unwrap();
    let exit = table::event_type(types::READ_X).unwrap();
    for n in 0..30_000 {
        let values = match n % 2 {
            0 => Values::new(enter, &[8, 0, 4, 0], &[1; 12]),
            _ => Values::new(exit, &[8, 0, 8, 0], &[1; 16]),
        };
        let event = Event {
            number: 0,
            raw_number: 0,
            ts_ns: n,
            tid: 7,
            cpu: 0,
            flags: 0,
            values,
            enter: None,
            live: gabion_scap::LiveValues::default(),
        };
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap()
}

/// Reads a file in pieces as the reader does, and returns the number of its events.
fn each_event(file: &[u8], mut then: impl FnMut(Event<'_>)) -> u64 {
    let mut decoder = Decoder::new();
    for piece in file.chunks(128 << 10) {
        decoder.push(piece);
        while let Some(item) = decoder.next_item().unwrap() {
            if let Item::Event(event) = item {
                then(event);
            }
        }
    }
    decoder.finish();
    assert!(decoder.next_item().unwrap().is_none());
    decoder.counts().events.received().items
}

#[divan::bench(sample_count = 20)]
fn touch(bencher: Bencher<'_, '_>) {
    let (file, count) = file();
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        let (mut at, mut sum) = (0, 0_u64);
        while let Some(head) = file.get(at..at + 8) {
            sum = sum.wrapping_add(u64::from(head[0]));
            at += u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        }
        sum
    });
}

#[divan::bench(sample_count = 20)]
fn read(bencher: Bencher<'_, '_>) {
    let (file, count) = file();
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        let mut sum = 0_u64;
        each_event(&file, |event| sum = sum.wrapping_add(event.tid as u64));
        sum
    });
}

#[divan::bench(sample_count = 20)]
fn read_and_merge(bencher: Bencher<'_, '_>) {
    let (file, count) = file();
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        let mut merger = Merger::new();
        let mut sum = 0_u64;
        each_event(&file, |event| {
            if let Some(event) = merger.merge(&event) {
                sum = sum.wrapping_add(event.number);
            }
        });
        sum
    });
}

#[divan::bench(sample_count = 20)]
fn rewrite(bencher: Bencher<'_, '_>) {
    let (file, count) = file();
    bencher.counter(ItemsCount::new(count)).bench_local(|| {
        let mut merger = Merger::new();
        let mut writer = Writer::new(std::io::sink());
        writer.section().unwrap();
        each_event(&file, |event| {
            if let Some(event) = merger.merge(&event) {
                writer.event(&event).unwrap();
            }
        });
        writer.blocks()
    });
}

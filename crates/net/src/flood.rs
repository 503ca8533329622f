//! Floods of new keys against every table of bounded room, at a sixteenth, a quarter and all of the
//! room that the flood would need, shared by one, two and four workers: what is refused or given up
//! costs at most twice the work of what is kept. Work is counted in steps (keys looked for, entries
//! looked at, filed, taken out), so that the answer does not depend on the machine.

use crate::lapsing::Lapsing;
use crate::ranges::{RangeOptions, Ranges};
use crate::state::tests::set_bits;
use crate::threshold::{Subject, Thresholds};
use gabion_flow::{
    DefragConfig, Defragmenter, FlowConfig, FlowTable, Fragment, PacketFacts, PacketKey,
};
use gabion_proto::FilePiece;
use gabion_record::Addr;
use gabion_record::budget::{Budget, BudgetPool};
use gabion_rules::post::{Threshold, ThresholdKind, ThresholdTrack};

const SECOND: u64 = 1_000_000_000;

/// The address of item `n` of a flood.
fn stranger(n: u64) -> Addr {
    Addr::v4((0x0b00_0000 + n as u32).to_be_bytes())
}

/// Steps of `items` that go by turns to tables whose budgets share this room.
fn spread<T>(
    (items, room, workers): (u64, u64, usize),
    new: impl Fn(Budget) -> T,
    mut put: impl FnMut(&mut T, u64),
    steps: impl Fn(&T) -> u64,
) -> u64 {
    let pool = BudgetPool::root("process", room);
    let engine = pool.child("engine", None);
    let mut tables: Vec<T> = (0..workers).map(|_| new(engine.leaf("worker", None))).collect();
    for n in 0..items {
        put(&mut tables[n as usize % workers], n);
    }
    tables.iter().map(steps).sum()
}

/// The work at each share of the room, by each number of workers, against that with room for all.
#[track_caller]
fn compare(name: &str, full: u64, run: impl Fn(u64, usize) -> u64) {
    let plain = run(full, 1);
    assert!(plain > 0, "{name}: nothing is counted");
    for share in [1, 4, 16, 64] {
        for workers in [1, 2, 4] {
            let steps = run(full / share, workers);
            assert!(
                steps <= 2 * plain,
                "{name}: 1/{share} of the room, {workers} workers: {steps} steps, {plain} with room"
            );
        }
    }
}

#[test]
fn flows() {
    const FLOWS: u64 = 20_000;
    for pause_ns in [1_000, 10_000_000] {
        compare("flow table", 16 << 20, |room, workers| {
            let new = |budget| FlowTable::<u32>::new(FlowConfig::default(), budget, 7, false);
            let put = |table: &mut FlowTable<u32>, n: u64| {
                let ts_ns = 1_000 * SECOND + n * pause_ns;
                let facts = PacketFacts { ts_ns, clock_ns: ts_ns, number: n, ..Default::default() };
                let key = PacketKey {
                    src: stranger(n),
                    dst: Addr::v4([192, 0, 2, 1]),
                    proto: 17,
                    ip_version: 4,
                    ..PacketKey::default()
                };
                while table.pop_ended(ts_ns).is_some() {}
                table.packet(&key, &facts);
                while table.pop_displaced().is_some() {}
            };
            spread((FLOWS, room, workers), new, put, FlowTable::steps)
        });
    }
}

#[test]
fn fragments() {
    const DATAGRAMS: u64 = 20_000;
    for pause_ns in [1_000, 10_000_000] {
        compare("defragmentation", 16 << 20, |room, workers| {
            let new = |budget| Defragmenter::new(DefragConfig::default(), budget);
            let put = |table: &mut Defragmenter, n: u64| {
                table.fragment(&Fragment {
                    src: stranger(n),
                    dst: Addr::v4([192, 0, 2, 1]),
                    ip_version: 4,
                    proto: 17,
                    id: n as u32,
                    vlan: [0; 3],
                    recursion: 0,
                    offset: 0,
                    more: true,
                    header: &[0x45; 20],
                    next_header_at: 0,
                    payload: &[0; 64],
                    ts_ns: 1_000 * SECOND + n * pause_ns,
                    number: n,
                });
            };
            spread((DATAGRAMS, room, workers), new, put, Defragmenter::steps)
        });
    }
}

/// The table of everything that lapses, with entries that live for so many keys.
#[test]
fn what_lapses() {
    const KEYS: u64 = 20_000;
    for life in [KEYS, 1_000, 10] {
        compare("lapsing", KEYS * 3, |room, _| {
            let mut table: Lapsing<u64, u64> = Lapsing::default();
            for now in 0..KEYS {
                let _ = table.entry(now, room as usize, |until| *until < now, || now + life);
            }
            table.steps()
        });
    }
}

/// Tables of a fixed number of entries: a flood four times as large as they are, against one of half
/// their size, by item.
#[track_caller]
fn compare_fixed(name: &str, max: u64, run: impl Fn(u64) -> u64) {
    let (half, more) = (max / 2, max * 2);
    let (plain, flood) = (run(half), run(more));
    assert!(plain > 0, "{name}: nothing is counted");
    let (plain, flood) = (plain as f64 / half as f64, flood as f64 / more as f64);
    assert!(flood <= 2.0 * plain, "{name}: {flood} steps an item, {plain} with room");
}

#[test]
fn thresholds() {
    let t = Threshold {
        kind: ThresholdKind::Limit,
        track: ThresholdTrack::Source,
        count: 1,
        seconds: 60,
    };
    compare_fixed("thresholds", 1 << 20, |items| {
        let mut table = Thresholds::default();
        for n in 0..items {
            let s = Subject {
                src: stranger(n),
                dst: Addr::default(),
                version: 4,
                flow: None,
                ts_ns: SECOND,
            };
            table.decide(1, 0, &t, &s);
        }
        table.steps()
    });
}

#[test]
fn bits_of_hosts() {
    compare_fixed("xbits and hostbits", 1 << 20, |items| set_bits((0..items).map(stranger)));
}

#[test]
fn ranges_of_files() {
    const FILES: u64 = 5_000;
    compare("ranges", FILES * 1_000, |room, _| {
        let options = RangeOptions { memcap: room, timeout_ns: 10_000_000 };
        let mut table = Ranges::default();
        for n in 0..FILES {
            let key = n.to_be_bytes().to_vec();
            let bytes = vec![0; 100];
            let piece = FilePiece { tx: 0, key, name: Vec::new(), start: 0, whole: 200, bytes };
            table.add(&piece, n * 10_000, &options);
        }
        table.steps()
    });
}

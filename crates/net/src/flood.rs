//! Floods of new keys against every table of bounded capacity. The capacity is a sixteenth, a quarter and
//! all of what the flood needs, shared by one, two and four workers: an entry that is refused or shed
//! costs at most twice the work of one that is kept. Work is counted in steps (keys looked for, entries
//! looked at, inserted, removed), so that the answer does not depend on the machine.

use crate::app::{AppCounters, AppInput, AppLayer, Effects, Protocols};
use crate::lapsing::Lapsing;
use crate::ranges::{RangeOptions, Ranges};
use crate::state::tests::set_bits;
use crate::threshold::{RuleSlot, Subject, Thresholds};
use gabion_flow::{
    DefragConfig, Defragmenter, FlowConfig, FlowTable, Fragment, PacketFacts, PacketKey,
    StreamConfig, TcpSegment, TcpSession, TcpTracker,
};
use gabion_proto::{Endpoints, FilePiece, Requirements};
use gabion_record::applayer::Transport;
use gabion_record::budget::{Budget, BudgetPool};
use gabion_record::{Addr, Direction, IpProto, Tree};
use gabion_rules::compiled::actions::{Threshold, ThresholdKind, ThresholdTrack};

const SECOND: u64 = 1_000_000_000;

/// The address of item `n` of a flood.
fn stranger(n: u64) -> Addr {
    Addr::v4((0x0b00_0000 + n as u32).to_be_bytes())
}

/// Steps of `items` that go by turns to tables with budgets that share this capacity.
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

/// The work at each share of the capacity, by each number of workers, against the work with capacity for all.
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
                    proto: IpProto::UDP,
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
                    proto: IpProto::UDP,
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

/// The table of everything that lapses; each entry lives for `life` further keys.
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
            table.decide(RuleSlot::default(), &t, &s);
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

/// TCP connections of one worker, by their number.
struct Connections {
    tracker: TcpTracker,
    sessions: Vec<Option<Box<TcpSession>>>,
}

impl Connections {
    fn new(sessions: Budget, data: Budget) -> Connections {
        let tracker = TcpTracker::new(StreamConfig::default(), sessions, data);
        Connections { tracker, sessions: Vec::new() }
    }

    /// A segment of one of them; what comes from the server is empty.
    fn segment(
        &mut self,
        of: usize,
        d: Direction,
        flags: u8,
        [seq, ack]: [u32; 2],
        payload: &[u8],
    ) {
        if self.sessions.len() <= of {
            self.sessions.resize_with(of + 1, || None);
        }
        let segment = TcpSegment {
            seq,
            ack,
            flags,
            window: u16::MAX,
            payload,
            ts_ns: SECOND,
            checksum_ok: true,
            src: stranger(of as u64),
            dst: Addr::v4([192, 0, 2, 1]),
            ip_version: 4,
            ..TcpSegment::default()
        };
        let Some(slot) = self.sessions.get_mut(of) else { return };
        self.tracker.handle(slot, &segment, d);
        if let Some(session) = slot.as_deref_mut() {
            self.tracker.trim(session, d);
        }
    }

    fn open(&mut self, of: usize) {
        self.segment(of, Direction::ToServer, 2, [0, 0], &[]);
        self.segment(of, Direction::ToClient, 0x12, [0, 1], &[]);
        self.segment(of, Direction::ToServer, 0x10, [1, 1], &[]);
    }

    fn steps(&self) -> u64 {
        self.tracker.steps()
    }
}

#[test]
fn sessions() {
    const SESSIONS: u64 = 20_000;
    compare("TCP sessions", SESSIONS * size_of::<TcpSession>() as u64 * 2, |room, workers| {
        let new = |budget| Connections::new(budget, Budget::standalone("data", u64::MAX));
        let put = |table: &mut Connections, n: u64| {
            let of = n as usize / workers;
            table.open(of);
            table.segment(of, Direction::ToServer, 0x18, [1, 1], b"hello");
            table.segment(of, Direction::ToClient, 0x10, [1, 6], &[]);
        };
        spread((SESSIONS, room, workers), new, put, Connections::steps)
    });
}

/// Segments after holes, in some connections, never acknowledged: first every second one, then those
/// between, in any order.
#[test]
fn reassembly() {
    const SEGMENTS: u64 = 40_000;
    const CONNECTIONS: u64 = 20;
    compare("reassembly", SEGMENTS * 200, |room, workers| {
        let new = |budget| {
            let mut all = Connections::new(Budget::standalone("sessions", u64::MAX), budget);
            (0..CONNECTIONS as usize).for_each(|of| all.open(of));
            all
        };
        let put = |table: &mut Connections, n: u64| {
            let (of, n) = ((n / workers as u64) % CONNECTIONS, n / CONNECTIONS);
            let each = SEGMENTS / CONNECTIONS;
            let place =
                if n < each / 2 { 2 * (n * 7_919 % (each / 2)) + 1 } else { 2 * (each - n) };
            let seq = 1 + place as u32 * 100;
            table.segment(of as usize, Direction::ToServer, 0x18, [seq, 1], &[7; 100]);
        };
        spread((SEGMENTS, room, workers), new, put, Connections::steps)
    });
}

/// Segments of one stream beyond those whose boundaries it remembers: islands, and bytes that each
/// lengthen the last of many.
#[test]
fn segments_of_a_stream() {
    let stream = |data: Budget| {
        let mut one = Connections::new(Budget::standalone("sessions", u64::MAX), data);
        one.open(0);
        one
    };
    type Place = (&'static str, fn(u32) -> u32);
    let places: [Place; 3] = [
        ("islands", |n| 2 * n),
        ("islands from the end", |n| 60_000 - 2 * n),
        ("islands, and the last grows", |n| if n < 8_000 { 2 * n } else { 8_000 + n }),
    ];
    for (name, place) in places {
        compare_fixed(name, 8_192, |items| {
            let mut one = stream(Budget::standalone("data", u64::MAX));
            for n in 0..items as u32 {
                one.segment(0, Direction::ToServer, 0x18, [10 + place(n), 1], b"x");
            }
            one.steps()
        });
    }
}

/// Flows of MQTT whose messages wait for answers that never come: the work to account for them.
#[test]
fn what_protocols_hold() {
    const MESSAGES: u64 = 20_000;
    const FLOWS: u64 = 40;
    let protocols = Protocols::new(&Tree::default(), Requirements::default()).unwrap();
    let ends = Endpoints { server_port: 1_883, is_tcp: true, ..Endpoints::default() };
    struct Flows {
        flows: Vec<AppLayer>,
        budget: Budget,
        counters: AppCounters,
        steps: u64,
    }
    compare("application layer", 8 << 20, |room, workers| {
        let new = |budget| Flows {
            flows: (0..FLOWS).map(|_| AppLayer::default()).collect(),
            budget,
            counters: AppCounters::default(),
            steps: 0,
        };
        let put = |all: &mut Flows, n: u64| {
            let app = &mut all.flows[(n / workers as u64 % FLOWS) as usize];
            let [high, low] = (n as u16).to_be_bytes();
            let message = [0x32, 6, 0, 1, b'a', high, low, b'b'];
            let (d, transport) = (Direction::ToServer, Transport::Tcp);
            let (effects, counters) = (&mut Effects::default(), &mut all.counters);
            let (protocols, endpoints) = (&protocols, &ends);
            let mut input =
                AppInput { protocols, endpoints, ts_ns: 0, transport, effects, counters };
            all.steps += 1;
            app.stream(&mut input, d, &message, false);
            app.charge(message.len(), &all.budget, counters, transport);
            if app.is_to_give_up() {
                app.give_up(&all.budget);
            }
        };
        let steps = |all: &Flows| {
            let held: u64 = all.flows.iter().map(AppLayer::charged).sum();
            assert_eq!(all.budget.used(), held, "what is held is what was charged for");
            let refused = all.flows.iter().filter(|app| app.parser.is_none()).count();
            assert!(room >= 8 << 20 || refused > 0, "{room}: none was refused");
            all.steps + all.counters.weighed
        };
        spread((MESSAGES, room, workers), new, put, steps)
    });
}

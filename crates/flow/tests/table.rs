//! The flow table compared with a plain list of flows, and the ways in which flows end.

use gabion_flow::tcp::flags::{ACK, FIN, SYN};
use gabion_flow::*;
use gabion_record::budget::Budget;
use gabion_record::{Addr, Direction, IpProto};

const SECOND: u64 = 1_000_000_000;

fn table(cfg: FlowConfig, bytes: u64) -> FlowTable<u32> {
    FlowTable::new(cfg, Budget::standalone("flow", bytes), 42, false)
}

fn udp(client: u8, sport: u16) -> PacketKey {
    PacketKey {
        src: Addr::v4([10, 0, 0, client]),
        dst: Addr::v4([192, 0, 2, 1]),
        sport,
        dport: 53,
        proto: IpProto::UDP,
        ip_version: 4,
        ..PacketKey::default()
    }
}

fn back(key: &PacketKey) -> PacketKey {
    PacketKey { src: key.dst, dst: key.src, sport: key.dport, dport: key.sport, ..*key }
}

fn at(ts_ns: u64) -> PacketFacts {
    PacketFacts {
        ts_ns,
        clock_ns: ts_ns,
        bytes: 100,
        ttl: 64,
        number: ts_ns,
        ..PacketFacts::default()
    }
}

/// The expected content of the table, as a plain list.
#[derive(Clone)]
struct Expected {
    key: PacketKey,
    start: u64,
    last: u64,
    pkts: [u64; 2],
}

#[test]
fn behaves_as_a_list_of_flows() {
    let mut table = table(FlowConfig::default(), 64 << 20);
    let mut model: Vec<Expected> = Vec::new();
    let mut seed = 11_u64;
    let mut now = 1_000 * SECOND;
    let (mut made, mut ended) = (0, 0);
    for _ in 0..30_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let r = seed >> 33;
        now += r % 3 * SECOND / 4;
        let key = udp((r >> 3) as u8 % 20, (r >> 9) as u16 % 10);
        let answers = r >> 20 & 1 == 1;
        let packet = if answers { back(&key) } else { key };

        // Established UDP flows live 300 s, others 30 s. For a flow's own packet the timeout is
        // exact to the nanosecond; other flows are removed by whole seconds.
        let alive = |k: &Expected| {
            let timeout = if k.pkts[0] > 0 && k.pkts[1] > 0 { 300 } else { 30 };
            let due = k.last + timeout * SECOND;
            let own = k.key == key || k.key == back(&key);
            if own { due >= now } else { due / SECOND >= now / SECOND }
        };
        ended += model.iter().filter(|k| !alive(k)).count();
        model.retain(alive);
        let Lookup::Flow { idx, dir, is_new } = table.packet(&packet, &at(now)) else {
            panic!("the budget is not used up")
        };
        while let Some((flow, reason)) = table.pop_ended(now) {
            assert_eq!(reason, EndReason::Timeout);
            ended -= 1;
            assert!(flow.last_ns + 30 * SECOND < now);
        }
        let of = |k: &&mut Expected| k.key == key || k.key == back(&key);
        match model.iter_mut().find(of) {
            Some(known) => {
                assert!(!is_new);
                let want =
                    if known.key == packet { Direction::ToServer } else { Direction::ToClient };
                assert_eq!(dir, want);
                known.last = now;
                known.pkts[dir.index()] += 1;
            }
            None => {
                assert!(is_new && dir == Direction::ToServer);
                made += 1;
                model.push(Expected { key: packet, start: now, last: now, pkts: [1, 0] });
            }
        }
        let known = model.iter().find(|k| k.key == key || k.key == back(&key)).unwrap();
        let flow = table.get(idx).unwrap();
        assert_eq!((flow.start_ns, flow.last_ns), (known.start, known.last));
        assert_eq!(flow.seen.map(|s| s.pkts), known.pkts);
        assert_eq!(flow.client.addr, known.key.src);
        assert_eq!(ended, 0, "flows past their timeout have been removed");
        assert_eq!(table.len(), model.len());
    }
    assert!(made > 1000, "the test must end flows");
    let mut left = Vec::new();
    table.drain(&mut |flow, reason| {
        assert_eq!(reason, EndReason::Shutdown);
        left.push((flow.start_ns, flow.id));
    });
    assert_eq!(left.len(), model.len());
    assert!(left.is_sorted(), "by start, then id");
    assert_eq!(table.counters().memuse, 0);
}

#[test]
fn ids_are_functions_of_content() {
    let ids = |seed| {
        let budget = Budget::standalone("flow", 1 << 20);
        let mut t: FlowTable<u32> = FlowTable::new(FlowConfig::default(), budget, seed, false);
        (0..5).for_each(|n| {
            t.packet(&udp(n, 9), &at(SECOND));
        });
        let mut ids = Vec::new();
        t.drain(&mut |flow, _| ids.push(flow.id));
        ids
    };
    assert_eq!(ids(1), ids(99), "whatever the seed of the process");
    assert!(ids(1).iter().all(|id| *id < 1 << 53));
}

#[test]
fn a_new_connection_replaces_one_that_has_ended() {
    let mut table = table(FlowConfig::default(), 1 << 20);
    let budget = || Budget::standalone("tcp", 1 << 20);
    let mut tracker = TcpTracker::new(StreamConfig::default(), budget(), budget());
    let key = PacketKey { proto: IpProto::TCP, ..udp(1, 4000) };
    let (mut seq, mut ts) = ([1000_u32, 9000], SECOND);
    let mut send = |table: &mut FlowTable<u32>, from_client: bool, flags: u8| {
        ts += 1_000_000;
        let n = usize::from(!from_client);
        let packet = if from_client { key } else { back(&key) };
        let facts = PacketFacts { tcp: Some((flags, seq[n])), ..at(ts) };
        let Lookup::Flow { idx, dir, is_new } = table.packet(&packet, &facts) else { panic!() };
        let flow = table.get_mut(idx).unwrap();
        let seg = TcpSegment {
            seq: seq[n],
            ack: if flags & ACK != 0 { seq[1 - n] } else { 0 },
            flags,
            window: 8192,
            ts_ns: ts,
            checksum_ok: true,
            ..TcpSegment::default()
        };
        seq[n] += u32::from(flags & (SYN | FIN) != 0);
        if let Some(state) = tracker.handle(&mut flow.tcp, &seg, dir).flow_state {
            table.set_state(idx, state);
        }
        is_new
    };
    for (from_client, flags) in
        [(true, SYN), (false, SYN | ACK), (true, ACK), (true, FIN | ACK), (false, FIN | ACK)]
    {
        send(&mut table, from_client, flags);
    }
    send(&mut table, true, ACK);
    assert_eq!(table.iter().next().unwrap().state, FlowState::Closed);
    assert!(send(&mut table, true, SYN), "another connection");
    let (old, reason) = table.pop_displaced().unwrap();
    assert_eq!((reason, old.tcp.unwrap().state()), (EndReason::TcpReuse, TcpState::Closed));
    assert_eq!(table.len(), 1);
    assert_eq!(table.counters().tcp_reuse, 1);
}

#[test]
fn icmp_errors_join_the_flow_they_quote() {
    let mut table = table(FlowConfig::default(), 1 << 20);
    let key = udp(1, 4000);
    let error =
        PacketKey { proto: IpProto::ICMP, src: key.dst, dst: key.src, ..key }.with_icmp(3, 3);
    let facts = PacketFacts { quoted: Some(key), ..at(SECOND) };
    assert_eq!(table.packet(&error, &facts), Lookup::None, "no flow of its own");
    table.packet(&key, &at(SECOND));
    let Lookup::Flow { idx, dir, is_new } = table.packet(&error, &facts) else { panic!() };
    assert_eq!((dir, is_new), (Direction::ToClient, false));
    let flow = table.get(idx).unwrap();
    assert_eq!(flow.seen[1].pkts, 1);
    assert_eq!(flow.state, FlowState::New, "an error does not show that the host is active");
    let echo = PacketKey { proto: IpProto::ICMP, ..key }.with_icmp(8, 0);
    let reply =
        PacketKey { proto: IpProto::ICMP, src: key.dst, dst: key.src, ..key }.with_icmp(0, 0);
    table.packet(&echo, &at(SECOND));
    let Lookup::Flow { idx, .. } = table.packet(&reply, &at(SECOND)) else { panic!() };
    let flow = table.get(idx).unwrap();
    assert_eq!(flow.icmp_request.map(|k| k.icmp_type), Some(8));
    assert_eq!(flow.icmp_response.map(|k| k.icmp_type), Some(0));
    assert_eq!(flow.state, FlowState::Established);
}

#[test]
fn protocols_without_ports_have_one_direction_and_esp_two_flows() {
    let mut table = table(FlowConfig::default(), 1 << 20);
    let gre = PacketKey { proto: IpProto::GRE, sport: 0, dport: 0, ..udp(1, 0) };
    for key in [gre, back(&gre)] {
        let Lookup::Flow { dir, .. } = table.packet(&key, &at(SECOND)) else { panic!() };
        assert_eq!(dir, Direction::ToServer);
    }
    assert_eq!(table.len(), 1);
    let esp = PacketKey { proto: IpProto::ESP, ..gre };
    table.packet(&esp.with_spi(0x1234_5678), &at(SECOND));
    table.packet(&back(&esp).with_spi(0x9abc_def0), &at(SECOND));
    assert_eq!(table.len(), 3);
}

#[test]
fn a_full_table_evicts_the_flows_that_end_soonest() {
    let mut table = table(FlowConfig::default(), 40_000);
    let mut forced = 0;
    for n in 0..400_u16 {
        let key = PacketKey { sport: n, ..udp(1, 0) };
        let looked = table.packet(&key, &at(SECOND + u64::from(n) * SECOND / 100));
        assert!(matches!(looked, Lookup::Flow { is_new: true, .. }));
        while let Some((flow, reason)) = table.pop_displaced() {
            assert_eq!(reason, EndReason::Forced);
            assert!(flow.client.port < n);
            forced += 1;
        }
    }
    assert!(table.is_in_emergency());
    assert_eq!(table.len() + forced, 400);
    assert!(table.counters().memuse <= 40_000);
    assert_eq!(table.counters().emerg_mode_entered, 1);
    // Half an hour later all these flows have ended, and so has emergency mode.
    while table.pop_ended(2_000 * SECOND).is_some() {}
    assert!(table.is_empty() && !table.is_in_emergency());
}

#[test]
fn a_table_without_any_budget_refuses() {
    let mut table = table(FlowConfig::default(), 10);
    let refused = Lookup::Refused(ExceptionTrigger::FlowMemcap);
    assert_eq!(table.packet(&udp(1, 1), &at(SECOND)), refused);
    assert_eq!(table.counters().memcap, 1);
    let cfg = FlowConfig { simulate_memcap_at: 7, ..FlowConfig::default() };
    let mut table = self::table(cfg, 1 << 20);
    let facts = PacketFacts { number: 7, ..at(SECOND) };
    assert_eq!(table.packet(&udp(1, 1), &facts), refused);
}

/// A flow whose packets still arrive is not evicted, however old its entry in the wheel is.
#[test]
fn an_active_flow_is_not_evicted_for_new_ones() {
    let mut table = table(FlowConfig::default(), 40_000);
    let old = udp(2, 1);
    table.packet(&old, &at(SECOND));
    table.packet(&back(&old), &at(SECOND));
    // It is due for a check after 30 s; at 29 s it is still busy, and a flood arrives.
    let now = 29 * SECOND;
    table.packet(&old, &at(now));
    for n in 0..2_000_u16 {
        table.packet(&PacketKey { sport: n, ..udp(1, 0) }, &at(now + u64::from(n)));
        while let Some((flow, _)) = table.pop_ended(now + u64::from(n)) {
            assert_ne!(flow.client.addr, old.src, "after {n} flows");
        }
    }
    assert!(table.is_in_emergency());
}

/// A flood of new keys, spread over tables that share a budget. Returns the work per flow.
fn flood(flows: u64, bytes: u64, workers: usize) -> (u64, u64) {
    let pool = gabion_record::budget::BudgetPool::root("process", bytes);
    let shared = pool.child("flow", None);
    let mut tables: Vec<FlowTable<u32>> = (0..workers)
        .map(|_| FlowTable::new(FlowConfig::default(), shared.leaf("worker", None), 7, false))
        .collect();
    let mut over = 0;
    for n in 0..flows {
        let now = SECOND + n * 1_000;
        let (a, b) = ((n >> 16) as u8, n as u16);
        tables.iter_mut().for_each(|t| while t.pop_ended(now).is_some() {});
        let table = &mut tables[n as usize % workers];
        table.packet(&udp(a, b), &at(now));
        while table.pop_displaced().is_some() {}
    }
    let mut steps = 0;
    for mut table in tables {
        over += table.counters().emerg_mode_over;
        table.drain(&mut |_, _| ());
        steps += table.steps();
    }
    (steps, over)
}

#[test]
fn the_cost_per_flow_of_a_flood_does_not_depend_on_the_budget() {
    const FLOWS: u64 = 30_000;
    /// A budget for all of them.
    const FULL: u64 = 16 << 20;
    let (plain, _) = flood(FLOWS, u64::MAX, 1);
    for share in [1, 4, 16] {
        for workers in [1, 2, 4] {
            let (steps, over) = flood(FLOWS, FULL / share, workers);
            assert!(steps <= 2 * plain, "1/{share}, {workers} workers: {steps} against {plain}");
            assert_eq!(over, 0, "emergency ends when the budget is free, not at the next packet");
        }
    }
}

/// A packet with a wrong time neither ends its own flow nor keeps it forever.
#[test]
fn timeouts_follow_the_clock_and_not_the_times_of_packets() {
    let mut table = table(FlowConfig::default(), 1 << 20);
    let key = udp(1, 1);
    for (seconds, clock, is_new) in [
        (100, 100, true),
        // Years ahead, and long ago, but the clock has hardly moved.
        (100_000_000, 101, false),
        (1, 110, false),
        (130, 139, false),
        (100, 200, true),
    ] {
        let facts = PacketFacts { clock_ns: clock * SECOND, ..at(seconds * SECOND) };
        while table.pop_ended(clock * SECOND).is_some() {}
        let Lookup::Flow { is_new: found, .. } = table.packet(&key, &facts) else { panic!() };
        assert_eq!(found, is_new, "{seconds} {clock}");
    }
}

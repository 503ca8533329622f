//! What is left out while a ring runs full, and what is not.

use super::*;
use gabion_record::Pressure;

/// An engine with these rules, these of them pinned, and streams of 100 bytes.
fn engine_with(rules: &str, pinned: &[(u32, u32)]) -> Engine {
    let config = Tree::default();
    let mut streams = Tree::default();
    streams.set("stream.reassembly.depth", "100");
    let mut made = Arc::into_inner(engine(rules)).unwrap();
    let options = EngineOptions::from_tree(&streams).unwrap();
    let stream = options.stream;
    let options = EngineOptions::from_tree(&config).unwrap();
    let wants = Wants { alerts: true, app: true, flows: true, ..Wants::default() };
    made.options = Arc::new(EngineOptions { wants, stream, pinned: pinned.to_vec(), ..options });
    made
}

/// Reads the packets, those from `from` on under this pressure. Returns what the worker wrote, and the packets that it left
/// out because of the pressure.
fn read_under(
    engine: Engine,
    packets: &[Vec<u8>],
    (pressure, from): (Pressure, usize),
) -> (Lines, u64) {
    let engine = Arc::new(engine);
    let mut worker = Worker::new(Arc::clone(&engine), WorkerBudgets::standalone(&engine));
    let mut lines = Lines::default();
    for (n, packet) in packets.iter().enumerate() {
        if n == from {
            worker.set_pressure(pressure);
        }
        assert!(worker.frame(&frame(n as u64 + 1, packet), &mut lines));
    }
    worker.finish(&mut lines);
    let mut shed = 0;
    worker.ledgers().each(&mut |_, ledger| {
        shed += ledger.shed_for(ShedReason::PressureBypass).items;
        ledger.balance().unwrap();
    });
    (lines, shed)
}

const DATA: &[u8] = &[b'x'; 80];

/// A download beyond the depth of the server's stream, while which the client sends a second request.
fn download() -> Vec<Vec<u8>> {
    let mut rest: Vec<(bool, u8, &[u8])> = vec![(true, ACK, b"first")];
    let parts = [(false, ACK, DATA), (true, ACK, &b""[..])];
    rest.extend((0..8).flat_map(|_| parts));
    rest.push((true, ACK, b"needle"));
    rest.extend((0..8).flat_map(|_| parts));
    rest.extend([(true, FIN_ACK, &b""[..]), (false, FIN_ACK, b""), (true, ACK, b"")]);
    session(9999, &rest)
}

/// Under pressure only the packets of the download are left out: the client's direction is not at its depth.
#[test]
fn requests_during_a_download_beyond_the_depth_are_inspected() {
    let rule = "alert tcp any any -> any 9999 (content:\"needle\"; sid:1;)\n";
    let (calm, none) = read_under(engine_with(rule, &[]), &download(), (Pressure::None, 0));
    let (lines, shed) = read_under(engine_with(rule, &[]), &download(), (Pressure::Bypass, 10));
    assert_eq!((alerts_of(&calm, 1).len(), none), (1, 0));
    assert_eq!(alerts_of(&lines, 1), alerts_of(&calm, 1));
    // One of the packets shows the second request, the last ones the end.
    assert!((8..=14).contains(&shed), "{shed}");
    assert_eq!(lines.of("flow"), calm.of("flow"), "the flow is followed");
}

/// Both directions are beyond it: nothing is left that rules on streams could match on.
#[test]
fn a_flow_beyond_the_depth_both_ways_is_bypassed() {
    let rule = "alert tcp any any -> any 9999 (content:\"needle\"; sid:1;)\n";
    let both = [(false, ACK, DATA), (true, ACK, DATA)];
    let mut rest: Vec<(bool, u8, &[u8])> = (0..8).flat_map(|_| both).collect();
    rest.push((true, ACK, b""));
    rest.push((true, ACK, b"needle"));
    rest.extend((0..4).flat_map(|_| both));
    let packets = session(9999, &rest);
    let (_, shed) = read_under(engine_with(rule, &[]), &packets, (Pressure::Bypass, 15));
    assert_eq!(shed, packets.len() as u64 - 15);
}

/// A flow that a pinned rule asks for is bypassed at no pressure: the rule goes last.
#[test]
fn what_a_pinned_rule_asks_for_is_not_bypassed() {
    let rules = "alert tcp any 9999 -> any any (dsize:80; sid:1;)\n\
                 alert tcp any any -> any 1 (sid:2;)\n";
    let under = (Pressure::Detection, 10);
    let (calm, _) = read_under(engine_with(rules, &[]), &download(), (Pressure::None, 0));
    let (lines, shed) = read_under(engine_with(rules, &[(1, 1)]), &download(), under);
    assert_eq!((alerts_of(&lines, 1), shed), (alerts_of(&calm, 1), 0));
    let (lines, shed) = read_under(engine_with(rules, &[(2, 2)]), &download(), under);
    assert!(alerts_of(&lines, 1).len() < 16 && shed > 0, "{shed}");
}

/// Other rules have other places: those that are pinned are looked up again.
#[test]
fn pinned_rules_are_those_of_the_rules_in_use() {
    let pinned = "alert udp any any -> any 53 (content:\"needle\"; sid:5;)\n";
    let other = "alert udp any any -> any 54 (content:\"needle\"; sid:4;)\n";
    let first = Arc::new(engine_with(pinned, &[(5, 5)]));
    let mut second = engine_with(&[other, pinned].concat(), &[(5, 5)]);
    second.follow(&first);
    let mut worker = Worker::new(Arc::clone(&first), WorkerBudgets::standalone(&first));
    worker.adopt(Arc::new(second));
    worker.set_pressure(Pressure::Detection);
    let mut lines = Lines::default();
    for (n, port) in [53, 54].into_iter().enumerate() {
        let packet = udp((1, 200), (4000, port), b"needle");
        assert!(worker.frame(&frame(n as u64 + 1, &packet), &mut lines));
    }
    assert_eq!((alerts_of(&lines, 5).len(), alerts_of(&lines, 4).len()), (1, 0));
}

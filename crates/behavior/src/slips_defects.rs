//! Defects of Slips that belong to no single detector: each test is named in
//! `docs/slips-defects.md`.

use crate::detect::{horizontal_scan, vertical_scan};
use crate::trial::{Flow, Trial, at, conn, has_values};
use gabion_record::evidence::Evidence;

fn ports(trial: &mut Trial, src: &str, from: u16, to: u16) {
    for port in from..to {
        trial.give(&conn(i64::from(port - from) / 20, src, "1.2.3.4", port).refused());
    }
}

/// D11: the counter that a flow touches is looked at, not all of them: a scan of every port is reported at
/// powers of ten, and the profile is no larger for it.
#[test]
fn a_scan_of_all_ports_costs_no_more_by_port() {
    let mut trial = Trial::new();
    ports(&mut trial, "10.0.0.1", 1, 2000);
    let small = trial.profile_bytes("10.0.0.1");
    ports(&mut trial, "10.0.0.1", 2000, 65_535);
    let found = trial.evidence_of(&vertical_scan::TYPE);
    assert_eq!(found.len(), 4);
    let large = trial.profile_bytes("10.0.0.1");
    assert!(large <= small + (24 << 10), "{small} {large}");
}

fn numbers(text: &str) -> Vec<u64> {
    text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

/// D34: both kinds of scans count the packets of the one that scans.
#[test]
fn both_scans_count_the_same_packets() {
    let mut trial = Trial::new();
    for n in 0..10u16 {
        trial.give(&conn(i64::from(n), "10.0.0.1", "1.2.3.4", 1000 + n).refused());
        trial.give(&conn(i64::from(n), "10.0.0.2", &format!("1.2.3.{n}"), 23).refused());
    }
    // Ten flows of two packets each.
    for kind in [&vertical_scan::TYPE, &horizontal_scan::TYPE] {
        let found = trial.evidence_of(kind);
        assert_eq!(found.len(), 1);
        assert!(numbers(&found[0].description()).contains(&20), "{}", found[0].description());
    }
}

/// D35: one host's windows end without touching those of a host whose address begins alike.
#[test]
fn a_window_of_another_host_stays() {
    let mut trial = Trial::new();
    for n in 0..9u16 {
        trial.give(&conn(i64::from(n), "10.0.0.10", "1.2.3.4", 1000 + n).refused());
    }
    for window in 0..2 {
        trial.give(&conn(window * 3600, "10.0.0.1", "1.2.3.4", 443));
    }
    let mut last = conn(3599, "10.0.0.10", "1.2.3.4", 1009).refused();
    last.is_late = true;
    trial.give(&last);
    assert_eq!(trial.evidence_of(&vertical_scan::TYPE).len(), 1);
}

/// D38: counters of refusals are not rewritten whole for each flow: their number is bounded.
#[test]
fn refusals_of_many_hosts_are_counted_in_bounded_room() {
    let mut trial = Trial::new();
    for n in 0..20_000u32 {
        let dst = format!("9.{}.{}.{}", n / 40_000, n / 200 % 200, n % 200);
        let mut flow = conn(i64::from(n / 10), "10.0.0.1", &dst, 23).refused();
        flow.state = "REJ";
        trial.give(&flow);
    }
    assert!(trial.profile_bytes("10.0.0.1") < 96 << 10);
}

/// D41: what a window said is not forgotten when it is over: flows that come late do not make the
/// same scan again.
#[test]
fn late_flows_do_not_report_a_scan_again() {
    let mut trial = Trial::new();
    let sweep = |trial: &mut Trial, is_late: bool| {
        for n in 0..13u16 {
            let mut flow = conn(i64::from(n), "10.0.0.1", &format!("1.2.3.{n}"), 23).refused();
            flow.is_late = is_late;
            trial.give(&flow);
        }
    };
    sweep(&mut trial, false);
    trial.give(&conn(3700, "10.0.0.1", "5.6.7.8", 443));
    sweep(&mut trial, true);
    assert_eq!(trial.evidence_of(&horizontal_scan::TYPE).len(), 1);
}

/// D42: the numbers are those of the moment that crossed the threshold, however fast flows come.
#[test]
fn numbers_are_those_of_the_crossing() {
    let mut trial = Trial::new();
    for n in 0..13u16 {
        trial.give(&conn(0, "10.0.0.1", &format!("1.2.3.{n}"), 23).refused());
    }
    let found = trial.evidence_of(&horizontal_scan::TYPE);
    assert!(has_values(&found[0], &["10"]));
}

/// D16 and D30: two runs, and a run whose records of one moment come in another order of sources,
/// say the same.
#[test]
fn who_comes_first_at_one_moment_changes_nothing() {
    let flows: Vec<Flow> = (0..400u16)
        .map(|n| {
            let src = format!("10.0.0.{}", n % 5);
            conn(i64::from(n / 10), &src, &format!("1.2.{}.{}", n % 3, n % 50), 20 + n % 40)
                .refused()
        })
        .collect();
    let run = |flows: &mut dyn Iterator<Item = &Flow>| -> Vec<Evidence> {
        let mut trial = Trial::new();
        flows.for_each(|f| trial.give(f));
        trial.end();
        trial.said.sort_by_key(|e| e.report_id);
        trial.said
    };
    let once = run(&mut flows.iter());
    let mut turned = flows.clone();
    turned.sort_by_key(|f| (f.ts, f.src == at("10.0.0.3"), f.src));
    let ids = |said: &[Evidence]| said.iter().map(|e| (e.report_id, e.window)).collect::<Vec<_>>();
    assert_eq!(ids(&once), ids(&run(&mut flows.iter())));
    assert_eq!(ids(&once), ids(&run(&mut turned.iter())));
}

/// D31 and D32: a budget is in bytes, and a flood drops no record unseen: each is in a column.
#[test]
fn a_flood_is_bounded_and_accounted_for() {
    let mut trial = Trial::with_budget(256 << 10);
    for n in 0..30_000u32 {
        let mut flow = conn(i64::from(n / 100), "10.0.0.1", "5.5.5.5", 80).refused();
        flow.src = gabion_record::Ip::v4(0x2000_0000 + n.wrapping_mul(2_654_435_761) % (1 << 28));
        trial.give(&flow);
    }
    assert_eq!(trial.engine.counts().records, 30_000);
    trial.engine.ledger().balance().unwrap();
}

/// D45: what waits, waits in event time: at the end of two flows nothing is left to wait for.
#[test]
fn nothing_waits_behind_the_end() {
    let mut trial = Trial::new();
    trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 443));
    trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 443).lasting(2000.0));
    trial.end();
    let said = trial.said.len();
    trial.end();
    assert!(said > 0 && trial.said.len() == said);
}

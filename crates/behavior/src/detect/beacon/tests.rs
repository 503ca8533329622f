//! Tests of what is a beacon and what is none, of what is reported of it, and of what does not fit into its tables.

use super::*;
use crate::limits::REGULAR_MAX;
use crate::trial::{Flow, Trial, conn, has_values, log};
use gabion_record::evidence::ReportReason;
use gabion_record::logs::{Dns, Http, Ssl};

fn visits(every: impl Fn(i64) -> i64, count: i64) -> Trial {
    let mut trial = Trial::new();
    for n in 0..count {
        trial.give(&conn(every(n), "10.0.0.1", "1.2.3.4", 443));
    }
    trial.end();
    trial
}

/// D9 of Slips: a regular channel is seen whatever the words of its flows' states.
#[test]
fn a_day_of_regular_visits_is_a_beacon() {
    let trial = visits(|n| n * 300, 280);
    let found = trial.reported_of(&TYPE);
    // When it crossed, when it had doubled, and at the end of the input.
    assert_eq!(found.iter().map(|e| e.measures.count).collect::<Vec<_>>(), [84, 168, 280]);
    assert!(found.iter().all(|e| e.id == found[0].id));
    assert_eq!(found[0].level, ThreatLevel::High);
    assert!(found[0].confidence > 0.95);
}

/// A host that calls for days is reported once a day, each time with the number of that day, and at the end of the
/// input with that of the last 24 hours.
#[test]
fn each_day_of_a_beacon_is_a_finding_with_its_last_number() {
    let trial = visits(|n| n * 300, 5 * 288);
    let found = trial.reported_of(&TYPE);
    let ids: Vec<_> = found.iter().map(|e| e.id).collect();
    let is_last = |at: &usize| ids.get(at + 1) != ids.get(*at);
    let days: Vec<_> = (0..found.len()).filter(is_last).map(|at| &found[at]).collect();
    let counts: Vec<_> = days.iter().map(|e| e.measures.count).collect();
    assert!(
        (5..=6).contains(&counts.len()) && counts.iter().all(|n| (285..=301).contains(n)),
        "{counts:?}"
    );
    assert_eq!(trial.evidence_of(&TYPE).len(), counts.len());
    let ends = found.iter().filter(|e| e.why == ReportReason::Ended).count();
    assert!(ends <= counts.len(), "{ends}");
    for (at, e) in found.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &found[at]).filter(|b| b.id == e.id);
        assert!(before.is_none_or(|b| b.measures.count < e.measures.count), "{found:?}");
        assert!(e.why != ReportReason::Ended || is_last(&at), "an end in the middle: {found:?}");
    }
}

/// The source uses the calling program for that server only, in addition to a browser; using the browser for both
/// takes that away.
#[test]
fn what_requests_say_is_in_the_threat() {
    let threat = |agent: &str| {
        let mut trial = Trial::new();
        for n in 0..100 {
            trial.give(&conn(n * 300, "10.0.0.1", "1.2.3.4", 80));
            let elsewhere = format!("5.6.7.{}", n % 5);
            for (dst, user_agent) in [("1.2.3.4", agent), (elsewhere.as_str(), "Firefox")] {
                let user_agent = user_agent.as_bytes();
                let h = Http { host: b"a", user_agent, ..Http::default() };
                trial.record(&log(n * 300 + 1, "10.0.0.1", dst, Body::Http(h)));
            }
        }
        trial.end();
        trial.evidence_of(&TYPE)[0].description().clone()
    };
    let said = threat("Modzilla/0.0001");
    assert!(said.contains(", signature for this end only +0.15)"), "{said}");
    assert!(!threat("Firefox").contains("signature"));
}

#[test]
fn irregular_or_few_visits_are_none() {
    let steps = |n: i64| (n * n * 7919) % 80_000;
    let mut order: Vec<i64> = (0..200).map(steps).collect();
    order.sort_unstable();
    let trial = visits(|n| order.get(n as usize).copied().unwrap_or(0), 200);
    assert!(trial.evidence_of(&TYPE).iter().all(|e| e.level < ThreatLevel::High));
    assert!(visits(|n| n * 3600, 15).evidence_of(&TYPE).is_empty());
}

/// Ten thousand destinations and a flood to one: memory is bounded, and what is left out is counted.
#[test]
fn room_is_bounded() {
    let mut trial = Trial::new();
    for n in 0..40_000i64 {
        let dst = format!("9.9.{}.{}", n / 250 % 200, n % 250);
        trial.give(&conn(n / 10, "10.0.0.1", &dst, 443));
        trial.give(&conn(n / 10, "10.0.0.1", "1.2.3.4", 443));
    }
    assert!(trial.profile_bytes("10.0.0.1") < 96 << 10);
    trial.end();
}

/// However fast a beacon is, more flows than are kept hide neither it nor when it ended, and all are counted.
#[test]
fn a_beacon_of_more_flows_than_are_kept_is_reported() {
    for (every, count) in [(2, 20_000), (5, 10_000), (10, 8_640), (20, 3_000), (25, 3_400)] {
        let trial = visits(|n| n * every, count);
        let last = trial.reported.iter().rfind(|e| e.kind.name == TYPE.name);
        let last = last.unwrap_or_else(|| panic!("{count} flows, one every {every} s"));
        let (m, end) = (&last.measures, (count - 1) * every);
        assert!((m.count as i64 - count).abs() <= 3, "{every} s: {} of {count}", m.count);
        assert!(
            end - last.ts.seconds() <= every.max(i64::from(LATER)),
            "{every} s: {}",
            last.ts.seconds()
        );
        assert!(last.description().contains(" of them."), "{}", last.description());
        assert!(m.score > 0.9, "{every} s: {}", m.score);
    }
}

/// A flow of the year 2020 in 1970 is waited for, not asked about in each hour of the fifty years.
#[test]
fn one_flow_of_the_future_wakes_once() {
    const AGE: i64 = 50 * 365 * DAY;
    let mut trial = Trial::new();
    (0..4).for_each(|n| trial.give(&conn(n, "10.0.0.1", "1.2.3.4", 443)));
    trial.give(&conn(AGE, "10.0.0.1", "1.2.3.4", 443));
    // Two hours later another host's flow makes the waiting pairs due.
    trial.give(&conn(2 * HOUR, "10.0.0.2", "9.9.9.9", 443));
    let profile = trial.engine.profile(crate::trial::at("10.0.0.1")).unwrap();
    assert!(profile.timer().seconds() >= AGE, "{}", profile.timer().seconds());
}

/// A table full of beacons: the one that has to go says its last number.
#[test]
fn a_beacon_without_room_says_its_last_number() {
    let mut trial = Trial::new();
    let mut call =
        |n: i64, dst: i64| trial.give(&conn(n, "10.0.0.1", &format!("9.9.9.{dst}"), 443));
    // The first ends after eight hours, the others continue, and another one comes.
    for n in 0..200 {
        (0..REGULAR_MAX as i64)
            .filter(|dst| *dst > 0 || n < 100)
            .for_each(|dst| call(n * 300 + dst, dst));
    }
    (0..4).for_each(|n| call(60_100 + n, 200));
    let found = trial.reported_of(&TYPE);
    let first = found.iter().filter(|e| has_values(e, &["9.9.9.0"]));
    let counts: Vec<_> = first.map(|e| (e.measures.count, e.why == ReportReason::Ended)).collect();
    // Three come before it is worth a pair; those may be counted for another of the same hash.
    assert!(matches!(counts.last(), Some((97..=100, true))), "{counts:?}");
}

/// What a request says, in the connection of that second.
fn ask(trial: &mut Trial, second: i64, dst: &str, body: Body<'_>) {
    let flow = conn(second, "10.0.0.1", dst, 443);
    trial.give(&flow);
    let mut r = log(second, "10.0.0.1", dst, body);
    (r.uid, r.dst_port) = (flow.uid.as_bytes(), 443);
    trial.record(&r);
}

/// A name with a different address of a content network each time: no address is called often, the name is.
#[test]
fn a_name_is_a_pair_whatever_its_addresses() {
    let mut trial = Trial::new();
    for n in 0..100 {
        let ssl = Ssl { server_name: b"Calls.Example", ..Ssl::default() };
        ask(&mut trial, n * 300, &format!("1.2.3.{n}"), Body::Ssl(ssl));
    }
    trial.end();
    let found = trial.reported_of(&TYPE);
    let last = found.last().unwrap();
    assert!(has_values(last, &["calls.example", "1.2.3.99", "100"]), "{last:?}");
    let victim = last.victim.as_ref().map(|v| v.what.to_string());
    assert_eq!((victim.as_deref(), last.uids.len()), (Some("calls.example"), UIDS_MAX / 2));
    assert!(found.iter().all(|e| has_values(e, &["calls.example"])), "{found:?}");
}

/// A beacon to a host through a proxy that is also used for browsing: the host is named, and the proxy as such; the
/// address of the proxy is no beacon, since its connections are those of names.
#[test]
fn the_host_behind_a_proxy_is_named() {
    let mut trial = Trial::new();
    for n in 0..397 {
        let h = Http { method: b"CONNECT", uri: b"calls.example:8443", ..Http::default() };
        ask(&mut trial, n * 200, "10.0.0.250", Body::Http(h));
        // The handshake inside of the tunnel is no other call.
        let mut r = log(n * 200, "10.0.0.1", "10.0.0.250", Body::Ssl(Ssl::default()));
        let uid = format!("C{}10.0.0.1443", n * 200);
        r.uid = uid.as_bytes();
        r.body = Body::Ssl(Ssl { server_name: b"calls.example", ..Ssl::default() });
        trial.record(&r);
        let uri = format!("page{}.example:443", n * n % 89);
        let h = Http { method: b"CONNECT", uri: uri.as_bytes(), ..Http::default() };
        ask(&mut trial, n * 200 + n * n % 190, "10.0.0.250", Body::Http(h));
    }
    trial.end();
    let found = trial.reported_of(&TYPE);
    let last = found.last().unwrap();
    let values = ["calls.example", "10.0.0.250", "397"];
    assert!(has_values(last, &values), "{}", last.description());
    // The port at the destination, not the proxy's.
    assert_eq!(last.dst_port, Some(8443));
    assert!(found.iter().all(|e| has_values(e, &["calls.example"])), "{found:?}");
}

/// Queries of many names to a resolver are no beacon; to an address that answers for one domain only they are
/// one, and so is what calls port 53 and is no DNS.
#[test]
fn dns_to_a_resolver_is_none() {
    let run = |domains: i64, service: &'static str| {
        let mut trial = Trial::new();
        for n in 0..100 {
            let query = format!("a{n}.of{}.example", n % domains);
            let query =
                Body::Dns(Dns { query: query.as_bytes(), rcode: b"NOERROR", ..Dns::default() });
            trial.record(&log(n * 300, "10.0.0.1", "9.9.9.9", query));
            let mut flow = conn(n * 300, "10.0.0.1", "9.9.9.9", 53).udp();
            flow.service = service;
            trial.give(&flow);
        }
        trial.end();
        trial.evidence_of(&TYPE).len()
    };
    assert_eq!((run(50, "dns"), run(50, "")), (0, 0));
    assert!(run(1, "dns") > 0 && run(50, "ssl") > 0);
}

/// Polls of a clock by three hosts are what the protocol makes them; by two, or without being NTP, they are reported.
#[test]
fn polls_of_a_clock_are_none() {
    let run = |hosts: i64, service: &'static str| {
        let mut trial = Trial::new();
        for n in 0..300 {
            let src = format!("10.0.0.{}", n % hosts);
            let mut flow = conn(n / hosts * 1024, &src, "9.9.9.9", 123).udp();
            flow.service = service;
            trial.give(&flow);
        }
        trial.end();
        trial.evidence_of(&TYPE).len()
    };
    assert_eq!(run(3, "ntp"), 0);
    assert!(run(2, "ntp") > 0 && run(3, "") > 0);
}

/// Somebody who tries one port after the other is a scanner, however regular; calls to one port that is closed, or
/// to ever other ones that answer, are a beacon. Messages about packets call nobody.
#[test]
fn regular_probes_of_ever_other_ports_are_no_beacon() {
    let run = |port: fn(u16) -> u16, change: fn(Flow) -> Flow| {
        let mut trial = Trial::new();
        for n in 0..100u16 {
            let flow = conn(i64::from(n) * 300, "10.0.0.1", "1.2.3.4", port(n));
            trial.give(&change(flow));
        }
        trial.end();
        trial.evidence_of(&TYPE).len()
    };
    assert_eq!(run(|n| 2_000 + n * 7 % 500, Flow::refused), 0);
    assert!(run(|_| 443, Flow::refused) > 0);
    assert!(run(|n| 2_000 + n * 7 % 500, |flow| flow) > 0);
    let unreachable = |mut flow: Flow| {
        (flow.proto, flow.src_port) = (Proto::Icmp, 3);
        flow
    };
    assert_eq!(run(|_| 3, unreachable), 0);
    let echo = |mut flow: Flow| {
        (flow.proto, flow.src_port) = (Proto::Icmp, 8);
        flow
    };
    assert!(run(|_| 0, echo) > 0);
}

/// One host's polls of a clock, with NTP's own sizes; with others they may be anything.
#[test]
fn polls_without_extensions_are_none() {
    let run = |bytes: u64| {
        let mut trial = Trial::new();
        for n in 0..100 {
            let mut flow = conn(n * 1024, "10.0.0.1", "9.9.9.9", 123).udp();
            (flow.service, flow.bytes, flow.reply_bytes) = ("ntp", bytes, 48);
            trial.give(&flow);
        }
        trial.end();
        trial.evidence_of(&TYPE).len()
    };
    assert_eq!((run(48), run(96)), (0, 0));
    assert!(run(100) > 0);
}

/// Twenty-two calls of three seconds each way round, the whole of an input: reported, and all counted.
#[test]
fn a_short_input_is_reported_at_its_end() {
    let trial = visits(|n| n * 3, 22);
    let found = trial.evidence_of(&TYPE);
    assert_eq!(found.len(), 1);
    assert!(has_values(&found[0], &["22"]), "{}", found[0].description());
}

/// A call an hour outlives the pages that come between.
#[test]
fn who_comes_again_and_again_stays_among_many() {
    let mut trial = Trial::new();
    for n in 0..24 * 60 {
        let dst = format!("9.{}.{}.1", n / 200, n % 200);
        trial.give(&conn(n * 60, "10.0.0.1", &dst, 443));
        if n % 60 == 30 {
            trial.give(&conn(n * 60 + n / 60 % 5, "10.0.0.1", "1.2.3.4", 443));
        }
    }
    trial.end();
    let found = trial.reported_of(&TYPE);
    assert!(found.iter().any(|e| has_values(e, &["1.2.3.4"])), "{found:?}");
}

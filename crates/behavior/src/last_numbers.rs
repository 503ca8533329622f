//! Every type whose findings grow: however far one grows beyond its thresholds, its last report has its true total.

use crate::detect::{
    beacon, command_control, data_upload, dga, dhcp_scan, dns_tunnel, horizontal_scan,
    http_traffic, multiple_ports, pair_totals, rare_destination, rare_signature, reconnection,
    slow_scan, ssh, tls, vertical_scan,
};
use crate::room::is_lasting;
use crate::trial::{Trial, at, conn, log};
use gabion_record::evidence::{Evidence, EvidenceType};
use gabion_record::logs::{Body, Dhcp, Dns, Http, SECOND, Ssh, Ssl};

const HOST: &str = "10.0.0.1";

/// A type: the records that make it grow to `n` (and what it then comes to), and the number that it measures.
struct Growth {
    kind: &'static EvidenceType,
    /// Least and most that it is grown to.
    range: (u64, u64),
    grow: fn(&mut Trial, u64) -> u64,
    measure: fn(&Evidence) -> u64,
}

fn http(trial: &mut Trial, second: i64, dst: &str, agent: &str) {
    let h =
        Http { uri: b"/x", host: b"a.example", user_agent: agent.as_bytes(), ..Http::default() };
    trial.record(&log(second, HOST, dst, Body::Http(h)));
}

const GROWTHS: &[Growth] = &[
    Growth {
        kind: &vertical_scan::TYPE,
        range: (10, 900),
        grow: |trial, n| {
            for port in 0..n {
                trial.give(&conn(port as i64, HOST, "1.2.3.4", 2000 + port as u16).refused());
            }
            n
        },
        measure: |e| e.measures.ports,
    },
    Growth {
        kind: &horizontal_scan::TYPE,
        range: (10, 60),
        grow: |trial, n| {
            for host in 0..n {
                trial.give(&conn(host as i64, HOST, &format!("1.2.3.{host}"), 23).refused());
            }
            n
        },
        measure: |e| e.measures.hosts,
    },
    Growth {
        kind: &slow_scan::VERTICAL,
        range: (10, 180),
        grow: |trial, n| {
            for port in 0..n {
                trial.give(&conn(port as i64 * 450, HOST, "1.2.3.4", 2000 + port as u16).refused());
            }
            n
        },
        measure: |e| e.measures.ports,
    },
    Growth {
        kind: &slow_scan::HORIZONTAL,
        range: (10, 60),
        grow: |trial, n| {
            for host in 0..n {
                trial.give(&conn(host as i64 * 450, HOST, &format!("1.2.3.{host}"), 23).refused());
            }
            n
        },
        measure: |e| e.measures.hosts,
    },
    Growth {
        kind: &dns_tunnel::TYPE,
        range: (500, 4000),
        grow: |trial, n| {
            for name in 0..n {
                let query = format!("{name:x}.data.tunnel.example");
                let d = Dns { query: query.as_bytes(), ..Dns::default() };
                trial.record(&log(name as i64 * 20, HOST, "8.8.8.8", Body::Dns(d)));
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &dga::TYPE,
        range: (10, 60),
        grow: |trial, n| {
            for name in 0..n {
                let query = format!("x{name}.example");
                let d = Dns { query: query.as_bytes(), rcode: b"NXDOMAIN", ..Dns::default() };
                trial.record(&log(name as i64, HOST, "8.8.8.8", Body::Dns(d)));
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &dhcp_scan::TYPE,
        range: (4, 60),
        grow: |trial, n| {
            for ip in 0..n {
                let d =
                    Dhcp { requested: Some(at(&format!("10.0.0.{}", ip + 9))), ..Dhcp::default() };
                trial.record(&log(ip as i64, HOST, "10.0.0.2", Body::Dhcp(d)));
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &pair_totals::LONG,
        range: (5, 23),
        grow: |trial, n| {
            for hour in 0..n as i64 {
                trial.give(&conn(hour * 3600, HOST, "1.2.3.4", 443).lasting(3500.0));
            }
            n * 3500
        },
        measure: |e| (e.measures.duration_ns / SECOND) as u64,
    },
    Growth {
        kind: &pair_totals::STROBE,
        range: (87_000, 130_000),
        grow: |trial, n| {
            for call in 0..n as i64 {
                let mut flow = conn(0, HOST, "1.2.3.4", 443).lasting(61.0);
                flow.ts = call * SECOND * 6 / 10;
                trial.give(&flow);
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &command_control::TYPE,
        range: (12, 24),
        grow: |trial, n| {
            for call in 0..n as i64 {
                let second = call / 2 * 290 + call % 2 * 4;
                trial.give(&conn(second, HOST, "1.2.3.4", 443).sending(600).lasting(0.5));
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &beacon::TYPE,
        range: (90, 280),
        grow: |trial, n| {
            for call in 0..n as i64 {
                trial.give(&conn(call * 300, HOST, "1.2.3.4", 443));
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &rare_destination::RARE,
        range: (11, 200),
        grow: |trial, n| {
            for host in 0..60 {
                trial.give(&conn(host, &format!("10.0.1.{host}"), "1.2.3.4", 443));
            }
            for call in 0..n as i64 {
                trial.give(&conn(1000 + call * 400, HOST, "9.9.9.9", 443));
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &rare_signature::TYPE,
        range: (11, 200),
        grow: |trial, n| {
            http(trial, 0, "1.1.1.1", "Firefox");
            http(trial, 1, "2.2.2.2", "Firefox");
            for call in 0..n as i64 {
                http(trial, 2 + call * 400, "9.9.9.9", "Own/1.0");
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &reconnection::TYPE,
        range: (5, 60),
        grow: |trial, n| {
            for call in 0..n as i64 {
                let mut flow = conn(call, HOST, "1.2.3.4", 443).refused();
                (flow.state, flow.history) = ("REJ", "Sr");
                trial.give(&flow);
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &multiple_ports::TYPE,
        range: (2, 60),
        grow: |trial, n| {
            for port in 0..n {
                trial.give(&conn(port as i64, HOST, "10.0.0.9", 41_000 + port as u16));
            }
            n
        },
        measure: |e| e.measures.ports,
    },
    Growth {
        kind: &ssh::GUESSING,
        range: (20, 300),
        grow: |trial, n| {
            for call in 0..n as i64 {
                let body = Body::Ssh(Ssh { auth_attempts: 1, ..Ssh::default() });
                let mut r = log(call, HOST, "1.2.3.4", body);
                r.dst_port = 22;
                trial.record(&r);
            }
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &data_upload::TYPE,
        range: (2, 40),
        grow: |trial, n| {
            for call in 0..n as i64 {
                trial.give(&conn(call, HOST, "1.2.3.4", 443).sending(200_000_000));
            }
            n * 200_000_000
        },
        measure: |e| e.measures.bytes,
    },
    Growth {
        kind: &http_traffic::TRAFFIC,
        range: (1, 300),
        grow: |trial, n| {
            (0..n as i64).for_each(|call| http(trial, call, "1.2.3.4", "a"));
            n
        },
        measure: |e| e.measures.count,
    },
    Growth {
        kind: &tls::SELF_SIGNED,
        range: (1, 300),
        grow: |trial, n| {
            for call in 0..n as i64 {
                let s = Ssl { validation_status: b"self signed certificate", ..Ssl::default() };
                trial.record(&log(call, HOST, "1.2.3.4", Body::Ssl(s)));
            }
            n
        },
        measure: |e| e.times,
    },
];

/// Numbers without a pattern.
struct Random(u64);

impl Random {
    fn within(&mut self, (least, most): (u64, u64)) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        least + (self.0 >> 33) % (most - least + 1)
    }
}

/// The last report of a type, for each profile.
fn last<'a>(trial: &'a Trial, kind: &'a EvidenceType) -> Vec<&'a Evidence> {
    let mut last: Vec<&Evidence> = Vec::new();
    for e in trial.reported.iter().filter(|e| e.kind == kind) {
        last.retain(|held| held.profile != e.profile);
        last.push(e);
    }
    last
}

#[test]
fn the_last_report_has_the_true_total() {
    let mut random = Random(20);
    for growth in GROWTHS {
        let runs = if growth.range.1 > 10_000 { 2 } else { 8 };
        for run in 0..runs {
            let n = random.within(growth.range);
            let mut trial = Trial::new();
            let total = (growth.grow)(&mut trial, n);
            match run % 2 {
                0 => {}
                // Others continue for hours, and the profile is evicted.
                _ => {
                    let end = trial.engine.counts().last.seconds();
                    for hour in 1..=6 {
                        trial.give(&conn(end + hour * 3600, "10.0.9.9", "5.6.7.8", 443));
                    }
                }
            }
            trial.end();
            let last = last(&trial, growth.kind);
            let reported: Vec<u64> = trial
                .reported
                .iter()
                .filter(|e| e.kind == growth.kind)
                .map(|e| (growth.measure)(e))
                .collect();
            assert!(!last.is_empty(), "{} of {n}: not reported", growth.kind.name);
            for e in last {
                let (name, measured) = (growth.kind.name, (growth.measure)(e));
                // Many names are counted by a sketch, whose error is below 2 %.
                let is_close =
                    growth.kind == &dns_tunnel::TYPE && measured.abs_diff(total) * 50 < total;
                assert!(
                    is_close || measured == total,
                    "{name} of {n}, run {run}: reported {reported:?}"
                );
            }
        }
    }
}

/// What is counted day by day reports its last numbers before it begins again.
#[test]
fn a_day_that_is_over_says_its_last_numbers() {
    const DAY: i64 = 86_400;
    let mut trial = Trial::new();
    // Seen in each window, so that its profile stays.
    for n in 0..27i64 {
        let second = n * 3500;
        trial.give(&conn(second, HOST, "9.9.9.9", 443));
        if n < 13 || second > DAY {
            trial.give(&conn(second, HOST, "1.2.3.4", 2000 + n as u16).refused());
            trial.give(&conn(second, HOST, "5.6.7.8", 443).lasting(3400.0));
        }
    }
    let reported = |kind: &EvidenceType| last(&trial, kind).first().map(|e| e.measures);
    assert_eq!(reported(&slow_scan::VERTICAL).map(|m| m.ports), Some(13));
    assert_eq!(reported(&pair_totals::LONG).map(|m| m.duration_ns / SECOND), Some(13 * 3400));
}

/// A beacon that stops is reported with its total when it is silent, not when the input ends.
#[test]
fn a_beacon_that_stops_says_what_it_came_to() {
    let mut trial = Trial::new();
    for n in 0..100 {
        trial.give(&conn(n * 300, HOST, "1.2.3.4", 443));
    }
    for n in 100..180 {
        trial.give(&conn(n * 300, "10.0.0.2", &format!("5.6.{}.{}", n / 7, n), 443));
    }
    let reported = last(&trial, &beacon::TYPE);
    assert_eq!(reported.first().map(|e| e.measures.count), Some(100), "{reported:?}");
    assert!(reported.iter().all(|e| !e.uids.is_empty()));
}

/// Types that continue to grow in later windows are all among those above.
#[test]
fn every_lasting_type_is_grown() {
    for (_, about) in crate::detect::ALL {
        for kind in about.types.iter().filter(|kind| is_lasting(kind)) {
            assert!(GROWTHS.iter().any(|g| g.kind == *kind), "{}", kind.name);
        }
    }
}

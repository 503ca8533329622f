//! Each limit that loses something is reached here, and counted; each table stays within its budget of work.

use super::*;
use crate::accumulate::Accumulator;
use crate::asked::Asked;
use crate::crowd::Crowd;
use crate::hostile;
use crate::room::Rooms;
use crate::settings::Settings;
use crate::site::Site;
use crate::steps;
use crate::trial::{Flow, Trial, conn, log};
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, FindingId};
use gabion_record::limits::Limit;
use gabion_record::logs::{Body, Conn, Dns, Http, List, Mac, OpenConn, Proto, Ssl, TimeNs};

const WHO: &str = "10.0.0.1";

/// How often a limit was reached while one host did something.
fn times(limit: &'static Limit, does: impl Fn(&mut Trial)) -> u64 {
    let mut trial = Trial::with(hostile::settings());
    gabion_record::limits::take_reached();
    does(&mut trial);
    gabion_record::limits::take_reached().times_reached(limit)
}

/// A flow of the host with the n-th of many addresses outside.
fn nth(second: i64, n: usize, port: u16) -> Flow {
    conn(second, WHO, &format!("9.9.{}.{}", n / 200, n % 200 + 1), port)
}

/// `count` flows, each made by `flow`.
fn flows(count: usize, flow: impl Fn(usize) -> Flow) -> impl Fn(&mut Trial) {
    move |trial| (0..count).for_each(|n| trial.give(&flow(n)))
}

fn ssl<'a>(server_name: &'a [u8]) -> Body<'a> {
    Body::Ssl(Ssl { server_name, ..Ssl::default() })
}

fn dns<'a>(query: &'a [u8], answers: &'a [u8]) -> Body<'a> {
    let answers = List { raw: answers, is_json: false };
    Body::Dns(Dns { query, qtype: b"A", rcode: b"NOERROR", answers, ..Dns::default() })
}

/// `count` addresses, as a log has them.
fn addresses(from: usize, count: usize) -> String {
    (from..from + count).map(|n| format!("9.8.7.{n}")).collect::<Vec<_>>().join(",")
}

/// Evidence that a test changes.
fn evidence() -> Evidence {
    let mut trial = Trial::new();
    (0..20).for_each(|n| trial.give(&nth(i64::from(n), n as usize, 23).refused()));
    trial.said.first().cloned().unwrap()
}

fn id(n: usize) -> FindingId {
    let mut id = FindingId::default();
    id.0[..8].copy_from_slice(&(n as u64).to_le_bytes());
    id
}

#[test]
fn tables_of_scans_count_what_has_no_room() {
    let sweep = flows(TARGETS_MAX + 9, |n| nth(0, n, 23).refused());
    assert!(times(&reached::TARGETS_MAX, &sweep) >= 9);
    assert!(times(&reached::SLOW_THINGS_MAX, &sweep) >= 1);
    let ports = flows(PORTS_MAX + 9, |n| conn(0, WHO, "9.9.9.9", 2_000 + n as u16).refused());
    assert!(times(&reached::PORTS_MAX, ports) >= 9);
    let refusals = flows(PAIRS_MAX + 9, |n| {
        let mut flow = nth(0, n, 80).refused();
        flow.state = "REJ";
        flow
    });
    assert_eq!(times(&reached::PAIRS_MAX, refusals), 9);
    let open = flows(VICTIMS_MAX + 9, |n| nth(0, n, 7_777));
    assert_eq!(times(&reached::VICTIMS_MAX, open), 9);
    // An input within the limits gets the report that nothing was lost.
    assert_eq!(times(&reached::TARGETS_MAX, flows(9, |n| nth(0, n, 23).refused())), 0);
}

#[test]
fn tables_of_pairs_count_what_has_no_room() {
    let calls =
        |count: usize| flows(4 * count, move |n| nth(n as i64, n % count, 443).lasting(100.0));
    assert!(times(&reached::REGULAR_MAX, calls(REGULAR_MAX + 5)) >= 5);
    assert_eq!(times(&reached::REGULAR_MAX, calls(REGULAR_MAX)), 0);
    let one = |count: usize| flows(count, |n| nth(n as i64, 0, 443));
    // The first three are not kept.
    assert_eq!(times(&reached::FLOWS_MAX, one(FLOWS_MAX + 8)), 5);
    assert_eq!(times(&reached::FLOWS_MAX, one(FLOWS_MAX)), 0);
    assert!(times(&reached::LETTERED_PAIRS_MAX, calls(LETTERED_PAIRS_MAX + 1)) >= 1);
    assert!(times(&reached::SUMMED_PAIRS_MAX, calls(SUMMED_PAIRS_MAX + 1)) >= 1);
    let named = |trial: &mut Trial| {
        for n in 0..KNOWN_SERVERS_MAX + 5 {
            let name = format!("host{n}.example");
            let to = format!("9.9.9.{}", n % 250 + 1);
            let mut r = log(n as i64, WHO, &to, ssl(name.as_bytes()));
            r.uid = name.as_bytes();
            trial.record(&r);
        }
    };
    assert!(times(&reached::NAMES_MAX, named) >= 5);
    assert_eq!(times(&reached::KNOWN_SERVERS_MAX, named), 5);
    assert!(times(&reached::KNOWN_ADDRESSES_MAX, named) >= 5);
    let open = |trial: &mut Trial| {
        for n in 0..OPEN_FLOWS_MAX + 2 {
            let (uid, so_far) = (format!("C{n}"), Conn { duration_ns: 1 << 40, ..Conn::default() });
            let mut r = log(0, WHO, "9.9.9.9", Body::OpenConn(OpenConn { so_far }));
            r.uid = uid.as_bytes();
            trial.record(&r);
        }
    };
    assert_eq!(times(&reached::OPEN_FLOWS_MAX, open), 2);
    let sent = flows(UPLOADS_MAX + 3, |n| nth(0, n, 443).sending(20_000_000 - n as u64));
    assert_eq!(times(&reached::UPLOADS_MAX, sent), 3);
    let small = |trial: &mut Trial| {
        flows(UPLOADS_MAX, |n| nth(0, n, 443).sending(20_000_000))(trial);
        trial.give(&nth(0, UPLOADS_MAX, 443).sending(60_000));
    };
    assert_eq!(times(&reached::UPLOADS_MAX, small), 1);
}

#[test]
fn tables_of_names_count_what_has_no_room() {
    let ask = |query: &'static str, answers: String| {
        move |trial: &mut Trial| {
            let mut r = log(0, WHO, "10.0.0.53", dns(query.as_bytes(), answers.as_bytes()));
            (r.dst_port, r.proto) = (53, Proto::Udp);
            trial.record(&r);
        }
    };
    let many = ask("many.example", addresses(1, NAME_ANSWERS_MAX + 1));
    assert_eq!(times(&reached::NAME_ANSWERS_MAX, &many), 1);
    let lists = ask("many.example", addresses(1, LISTED_ANSWERS_MAX + 1));
    assert_eq!(times(&reached::LISTED_ANSWERS_MAX, lists), 1);
    let again = |trial: &mut Trial| {
        (0..3).for_each(|n| ask("many.example", addresses(1 + 8 * n, 8))(trial));
    };
    assert!(times(&reached::NAME_ADDRESSES_MAX, again) >= 1);
    let visits = |trial: &mut Trial| {
        ask("one.example", "9.8.7.6".to_owned())(trial);
        flows(VISITED_MAX + 9, |n| nth(60, n, 443))(trial);
        // What was visited long ago is no loss.
        trial.give(&nth(9_000, 1_000, 443));
    };
    assert_eq!(times(&reached::VISITED_MAX, visits), 9);
    assert!(times(&reached::WAITING_MAX, visits) >= 9);
    let below = |trial: &mut Trial| {
        for n in 0..TUNNEL_DOMAINS_MAX + 2 {
            let query = format!("www.site{n}.com");
            trial.record(&log(0, WHO, "10.0.0.53", dns(query.as_bytes(), b"")));
        }
    };
    assert_eq!(times(&reached::TUNNEL_DOMAINS_MAX, below), 2);
    let resolvers = |trial: &mut Trial| {
        trial.give(&conn(0, WHO, "10.0.0.2", 443));
        for n in 0..LOCAL_RESOLVERS_MAX + 2 {
            let to = format!("192.168.1.{}", n + 1);
            let mut r = log(0, WHO, &to, dns(b"a.example", b"9.8.7.6"));
            (r.dst_port, r.proto) = (53, Proto::Udp);
            trial.record(&r);
        }
    };
    assert_eq!(times(&reached::LOCAL_RESOLVERS_MAX, resolvers), 2);
}

#[test]
fn tables_of_programs_count_what_has_no_room() {
    let agents = |trial: &mut Trial| {
        for n in 0..SIGNATURES_MAX + 2 {
            let agent = format!("agent/{n}");
            let h = Http { user_agent: agent.as_bytes(), ..Http::default() };
            trial.record(&log(n as i64, WHO, "9.9.9.9", Body::Http(h)));
        }
    };
    assert_eq!(times(&reached::SIGNATURES_MAX, agents), 2);
    let chain = |trial: &mut Trial| {
        let prints = ["ab"; CHAIN_MAX + 1].join(",");
        let cert_fps = List { raw: prints.as_bytes(), is_json: false };
        trial.record(&log(0, WHO, "9.9.9.9", Body::Ssl(Ssl { cert_fps, ..Ssl::default() })));
    };
    assert_eq!(times(&reached::CHAIN_MAX, chain), 1);
    let pastes = |trial: &mut Trial| {
        for n in 0..PASTE_SERVERS_MAX + 2 {
            let to = format!("9.9.9.{}", n + 1);
            trial.record(&log(0, WHO, &to, ssl(b"pastebin.com")));
        }
    };
    assert_eq!(times(&reached::PASTE_SERVERS_MAX, pastes), 2);
    let recognized = flows(RECOGNIZED_MAX + 2, |n| {
        let mut flow = nth(0, n, 443);
        flow.service = "ssl";
        flow
    });
    assert_eq!(times(&reached::RECOGNIZED_MAX, recognized), 2);
    let logins = flows(SSH_JOINS_MAX + 2, |n| nth(0, n, 22));
    assert_eq!(times(&reached::SSH_JOINS_MAX, logins), 0, "of one flow id");
    let logins = flows(SSH_JOINS_MAX + 2, |n| {
        let mut flow = nth(0, n, 22);
        flow.uid = format!("C{n}");
        flow
    });
    assert_eq!(times(&reached::SSH_JOINS_MAX, logins), 2);
    let at_once = |trial: &mut Trial| {
        trial.record(&log(0, WHO, "9.9.9.9", ssl(b"a.example")));
        flows(RECENT_MAX + 2, |n| {
            let mut flow = nth(1, n, 443);
            flow.uid = format!("C{n}");
            flow
        })(trial);
    };
    assert!(times(&reached::RECENT_MAX, at_once) >= 1);
    let rare = |trial: &mut Trial| {
        (0..60).for_each(|h| trial.give(&conn(0, &format!("10.0.1.{h}"), "8.8.8.8", 443)));
        flows(RARE_MAX + 2, |n| nth(1, n, 443))(trial);
    };
    assert_eq!(times(&reached::RARE_MAX, rare), 2);
    let things = flows(REPEATS_MAX + 2, |n| conn(0, WHO, "9.9.9.9", 20_000 + n as u16));
    assert_eq!(times(&reached::REPEATS_MAX, things), 2);
    assert_eq!(times(&reached::TEXT_MAX, |_| drop(crate::text::text(&[b'x'; TEXT_MAX + 1]))), 1);
}

/// Of the site: a host of it does something with a new address each time.
#[test]
fn tables_of_the_site_count_what_has_no_room() {
    let settings = Settings::default();
    let seen = |limit: &'static Limit, count: usize, see: &dyn Fn(&mut Site, Ip)| {
        gabion_record::limits::take_reached();
        let mut site = Site::new(None, &settings);
        (0..count).for_each(|n| see(&mut site, Ip::v4(0x0900_0000 + n as u32)));
        gabion_record::limits::take_reached().times_reached(limit)
    };
    let resolvers = |site: &mut Site, ip: Ip| {
        let mut r = log(0, WHO, WHO, dns(b"www.example.com", b"9.9.9.9"));
        r.dst = ip;
        site.see(&r, &settings);
    };
    assert_eq!(seen(&reached::RESOLVERS_MAX, RESOLVERS_MAX + 3, &resolvers), 3);
    let proxies = |site: &mut Site, ip: Ip| {
        let uri: &[u8] = b"there.example:443";
        let h = Http { method: b"CONNECT", uri, status: 200, ..Http::default() };
        let mut r = log(0, WHO, WHO, Body::Http(h));
        r.dst = ip;
        site.see(&r, &settings);
        site.see(&r, &settings);
    };
    assert_eq!(seen(&reached::PROXIES_MAX, PROXIES_MAX + 3, &proxies), 6);
    let owners = |site: &mut Site, ip: Ip| {
        let n = u64::from(ip.as_v4().unwrap_or(0)).to_be_bytes();
        let mut flow = conn(0, WHO, "10.0.0.2", 80);
        flow.src_mac = Some(Mac([2, n[3], n[4], n[5], n[6], n[7]]));
        site.see(&flow.record(), &settings);
    };
    assert_eq!(seen(&reached::SITE_ENTRIES_MAX, SITE_ENTRIES_MAX + 3, &owners), 3);
    let outsides = |site: &mut Site, ip: Ip| {
        let mut flow = conn(0, WHO, "10.0.0.2", 80);
        flow.dst = ip;
        site.see(&flow.record(), &settings);
    };
    assert_eq!(seen(&reached::OUTSIDE_MAX, OUTSIDE_MAX + 3, &outsides), 3);
}

#[test]
fn what_is_added_up_counts_what_has_no_room() {
    let settings = Settings { alert_threshold: 1e9, ..Settings::default() };
    let first = evidence();
    let of = |limit: &'static Limit| gabion_record::limits::take_reached().times_reached(limit);
    let mut all = Accumulator::default();
    (0..CORRELATED_MAX + 3).for_each(|n| drop(all.add(&first, id(n), TimeNs(0), &settings)));
    assert_eq!(of(&reached::CORRELATED_MAX), 3);
    let mut e = first.clone();
    for n in 0..IDS_MAX + 3 {
        e.report_id = id(n);
        assert!(!all.is_repeat(&e));
    }
    assert_eq!(of(&reached::IDS_MAX), 3);
    let mut all = Accumulator::default();
    e.level = gabion_record::evidence::ThreatLevel::Low;
    for n in 0..SUMS_MAX + 3 {
        e.profile = Ip::v4(n as u32);
        all.add(&e, id(n), TimeNs(0), &settings);
    }
    // Those that had gathered least, a quarter of all.
    assert_eq!(of(&reached::SUMS_MAX), SUMS_MAX as u64 / 4);
    let mut crowd = Crowd::default();
    for n in 0..CROWD_MAX + 3 {
        e.dst_port = Some(n as u16);
        let _ = crowd.said(&e);
    }
    assert_eq!(of(&reached::CROWD_MAX), 3);
}

#[test]
fn findings_that_last_are_bounded_and_counted() {
    let settings = Settings::default();
    let mut trial = Trial::new();
    (0..6).for_each(|n| trial.give(&conn(n * 3600, WHO, "9.9.9.9", 443).lasting(45_000.0)));
    let long = trial.said.iter().find(|e| e.kind.name == "LONG_TOTAL_CONNECTION").cloned().unwrap();
    gabion_record::limits::take_reached();
    let mut rooms = Rooms::default();
    let windows = (LASTING_MAX / SINGLE_MAX) as i64 + 3;
    for window in 0..windows {
        for n in 0..SINGLE_MAX {
            let mut e = long.clone();
            e.window = window;
            e.measures.last = TimeNs(window);
            e.id = id(window as usize * SINGLE_MAX + n);
            e.profile = Ip::v4(0x0a00_0000 + n as u32);
            e.attacker.what = gabion_record::evidence::Indicator::Ip(e.profile);
            e.victim =
                Some(gabion_record::evidence::Party::destination(Ip::v4(0x0900_0000 + n as u32)));
            rooms.admit_evidence(&mut e, &settings);
        }
        rooms.close(window + 1, &mut |_| {});
    }
    rooms.close(windows + 5, &mut |_| {});
    let lost = gabion_record::limits::take_reached().times_reached(&reached::LASTING_MAX);
    assert!(lost >= SINGLE_MAX as u64, "{lost}");
    assert!(rooms.lasting.len() <= LASTING_MAX);
    // Those that were reported last are reported again, those that were reported first are not.
    let newest = (windows - 1) as usize * SINGLE_MAX;
    assert!((0..SINGLE_MAX).all(|n| rooms.lasting.contains_key(&id(newest + n))));
    assert!(!rooms.lasting.contains_key(&id(0)));
    assert_eq!(rooms.lasting.len() as u64 + lost, windows as u64 * SINGLE_MAX as u64);
}

#[test]
fn quiet_profiles_that_are_not_kept_are_counted() {
    let mut trial = Trial::with_budget(1 << 20);
    trial.engine.keep_windows();
    gabion_record::limits::take_reached();
    for n in 0..400i64 {
        let src = format!("8.8.{}.{}", n / 200, n % 200);
        (0..30).for_each(|_| trial.give(&conn(n, &src, "1.2.3.4", 123).udp()));
    }
    for n in 0..4_000 {
        trial.give(&conn(4_000 + n / 100, "8.8.9.9", "1.2.3.4", 53).udp());
        trial.engine.take_kept();
    }
    assert!(gabion_record::limits::take_reached().times_reached(&reached::QUIET_KEPT_BYTES) > 100);
}

#[test]
fn questions_that_could_still_be_answered_are_counted() {
    let mut asked = Asked::default();
    for n in 0..8 * ASKED_SETS as u32 {
        let mut flow = conn(1_000, WHO, "9.9.9.9", 1_900).udp().refused();
        flow.src = Ip::v4(0x0a00_0000 + n);
        let r = flow.record();
        let Body::Conn(c) = &r.body else { return };
        asked.see(&r, c);
    }
    let counted = gabion_record::limits::take_reached().times_reached(&reached::ASKED_SETS);
    assert!(counted > 0 && counted == asked.forgotten, "{counted}");
}

/// Floods of new keys over each table of the site and of profiles, at a sixteenth, a quarter and all of the
/// budget: entries that are looked at to make room are at most two a record.
#[test]
fn a_flood_of_new_keys_costs_no_more_steps_than_records() {
    type Moment = fn(usize) -> i64;
    const RECORDS: usize = 300_000;
    let settings = Settings::default();
    let moments: [(&str, Moment); 3] =
        [("at once", |_| 0), ("a minute each", |n| n as i64 * 60), ("a second each", |n| n as i64)];
    for (name, moment) in moments {
        let mut site = Site::new(None, &settings);
        steps::take_count();
        for n in 0..RECORDS {
            let there = Ip::v4(0x0900_0000 + n as u32);
            let answer = there.to_string();
            let answered = dns(b"www.example.com", answer.as_bytes());
            site.see(&log(moment(n), WHO, "10.0.0.53", answered), &settings);
            // Two hosts each, so that no address is one that a single host passed by.
            for host in [1, 2] {
                let mut flow = conn(moment(n), WHO, WHO, 443);
                (flow.src, flow.dst) = (Ip::v4(0x0a00_0000 + host), there);
                site.see(&flow.record(), &settings);
            }
        }
        let (looks, records) = (steps::take_count(), 3 * RECORDS as u64);
        assert!(looks <= 2 * records, "{name}: {looks} looks for {records} records");
    }
    for part in [16, 4, 1] {
        let mut shards = Trial::with_budget((8 << 20) / part);
        for n in 0..RECORDS / 4 {
            let mut flow = nth((n / 100) as i64, n % 7, 443);
            flow.src = Ip::v4(0x2000_0000 + (n as u32).wrapping_mul(2_654_435_761) % (1 << 24));
            // Those of a second flow are worth a profile.
            shards.give(&flow);
            flow.dst_port = 80;
            shards.give(&flow);
        }
        let counts = shards.engine.counts();
        let records = 2 * (RECORDS / 4) as u64;
        assert!(counts.folded > 0, "{part}: {counts:?}");
        assert!(counts.fold_looks <= 2 * records, "{part}: {} looks", counts.fold_looks);
    }
}

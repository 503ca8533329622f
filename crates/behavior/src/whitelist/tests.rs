//! Tests of whitelists.

use super::read::second_of;
use super::*;
use crate::detect::{http_traffic, long_connection};
use crate::intel::Purpose;
use crate::intel::tests::intel;
use crate::settings::Settings;
use crate::trial::{Flow, Trial, conn, log};
use gabion_record::logs::{Body, Dns, Http, List};
use std::sync::Arc;

fn trial(text: &str) -> Trial {
    let lists = |name: &str| match name {
        "google_ip_ranges" => Some("8.8.8.0/24\n".to_owned()),
        "google_domains" => Some("gstatic.example\n".to_owned()),
        _ => None,
    };
    let (whitelist, wrong) = Whitelist::parse(text, &lists);
    assert!(wrong.is_empty(), "{wrong:?}");
    let table = intel(&[("t", Purpose::Systems, "6.6.0.0/16,64500,TEAM apple")], 9);
    Trial::with(Settings {
        whitelist: Arc::new(whitelist),
        intel: Arc::new(table),
        ..Settings::default()
    })
}

fn long(src: &str, dst: &str) -> Flow {
    conn(0, src, dst, 443).lasting(5000.0)
}

fn reported(text: &str, flows: &[Flow]) -> usize {
    let mut trial = trial(text);
    flows.iter().for_each(|f| trial.give(f));
    trial.evidence_of(&long_connection::TYPE).len()
}

#[test]
fn addresses_ranges_systems_and_hardware_are_ignored() {
    let flow = [long("10.0.0.1", "6.6.6.6")];
    for (text, count) in [
        ("", 1),
        ("ip,6.6.6.6,both,alerts", 0),
        ("ip,6.6.6.6,dst,flows", 0),
        ("ip,6.6.6.6,src,both", 1),
        ("ip,10.0.0.1,src,alerts", 0),
        ("ip,10.0.0.1,dst,both", 1),
        ("ip,6.6.0.0/16,dst,alerts", 0),
        ("ip,6.7.0.0/16,dst,alerts", 1),
        ("asn,AS64500,both,both", 0),
        ("asn,64501,both,both", 1),
        // D23 of Slips: a system's name that has an organization's in it means nothing.
        ("organization,apple,both,both", 1),
        (
            "#ip,6.6.6.6,both,both\n; a comment\n\"IoCType\",\"IoCValue\",\"Direction\",\"IgnoreType\"",
            1,
        ),
        // The last line of a value counts.
        ("ip,6.6.6.6,both,both\nip,6.6.6.6,src,alerts", 1),
    ] {
        assert_eq!(reported(text, &flow), count, "{text}");
    }
    let mut by_mac = long("10.0.0.1", "6.6.6.6");
    by_mac.src_mac = Mac::parse(b"b1:b1:b1:c1:c2:c3");
    assert_eq!(reported("mac,b1:b1:b1:c1:c2:c3,both,alerts", &[by_mac.clone()]), 0);
    assert_eq!(reported("mac,b1:b1:b1:c1:c2:c4,both,alerts", &[by_mac]), 1);
}

/// D24 of Slips: label by label, and a name below says nothing of the one above.
#[test]
fn names_are_compared_by_label() {
    let visit = |host: &str, text: &str| {
        let mut trial = trial(text);
        let h = Http { host: host.as_bytes(), ..Http::default() };
        trial.record(&log(0, "10.0.0.1", "6.6.6.6", Body::Http(h)));
        trial.evidence_of(&http_traffic::TRAFFIC).len()
    };
    for (host, text, count) in [
        ("example.com", "domain,example.com,both,both", 0),
        ("a.b.EXAMPLE.com", "domain,example.com,dst,flows", 0),
        ("a.example.com", "domain,sub.example.com,both,both", 1),
        ("example.com", "domain,sub.example.com,both,both", 1),
        ("notexample.com", "domain,example.com,both,both", 1),
        ("mail.google.com", "organization,google,both,both", 0),
        ("evilgoogle.com", "organization,google,both,both", 1),
        ("x.gstatic.example", "organization,google,both,both", 0),
        ("example.com", "domain,example.com,src,both", 1),
    ] {
        assert_eq!(visit(host, text), count, "{host} {text}");
    }
}

#[test]
fn an_address_is_known_by_the_name_it_was_answered_for() {
    let mut trial = trial("domain,example.com,both,alerts");
    let answers = List { raw: b"6.6.6.6", is_json: false };
    let d = Dns { query: b"www.example.com", answers, ..Dns::default() };
    trial.record(&log(0, "10.0.0.1", "10.0.0.2", Body::Dns(d)));
    trial.give(&long("10.0.0.1", "6.6.6.6"));
    trial.give(&long("10.0.0.1", "6.6.6.7"));
    assert_eq!(trial.evidence_of(&long_connection::TYPE).len(), 1);
    let why = trial.engine.whitelisted();
    assert_eq!(why.len(), 1);
    assert_eq!(
        (why[0].entry.line, why[0].entry.text.as_str()),
        (1, "domain,example.com,both,alerts")
    );
    assert!(why[0].evidence >= 1);
}

/// Types and pairs are Gabion's own; an entry narrowed to a type or a time leaves the rest to those before it.
#[test]
fn types_pairs_and_ends_narrow_an_entry() {
    let flow = [long("10.0.0.1", "6.6.6.6")];
    // The flow is of 1970-01-01; it is reported when it is over.
    for (text, count) in [
        ("evidence,long_connection,both,alerts", 0),
        ("evidence,BEACON,both,alerts", 1),
        ("pair,10.0.0.1 6.6.6.6,both,alerts", 0),
        ("pair,10.0.0.1 6.6.6.6,both,flows", 0),
        ("pair,6.6.6.6 10.0.0.1,both,alerts", 0),
        ("pair,6.6.6.6 10.0.0.1,dst,alerts", 0),
        ("pair,6.6.6.6 10.0.0.1,src,alerts", 1),
        ("pair,10.0.0.1 6.6.6.6,src,flows", 0),
        ("pair,10.0.0.1 6.6.6.6,dst,flows", 1),
        ("pair,10.0.0.1 6.6.6.7,both,alerts", 1),
        ("ip,6.6.6.6,both,alerts,type=LONG_CONNECTION", 0),
        ("ip,6.6.6.6,both,alerts,type=BEACON", 1),
        ("ip,6.6.6.6,both,alerts,until=2200-01-01T00:00:00Z", 0),
        ("ip,6.6.6.6,both,alerts,until=1970-01-01T00:00:00Z,because=it, ended", 1),
        ("ip,6.6.6.6,both,alerts,because=a backup, until=never", 0),
        ("ip,6.6.0.0/16,dst,alerts,type=LONG_CONNECTION", 0),
        ("ip,6.6.0.0/16,src,alerts,type=LONG_CONNECTION", 1),
        // A narrowed entry does not override the one before it, another entry does.
        ("ip,6.6.6.6,both,alerts\nip,6.6.6.6,both,alerts,type=BEACON", 0),
        ("ip,6.6.6.6,both,alerts\nip,6.6.6.6,src,alerts", 1),
        ("ip,6.6.6.6,both,alerts,type=LONG_CONNECTION\nip,6.6.6.6,both,alerts,type=BEACON", 0),
    ] {
        assert_eq!(reported(text, &flow), count, "{text}");
    }
    let (list, _) = Whitelist::parse("pair,10.0.0.1 evil.example,both,alerts", &|_| None);
    for (target, hidden) in [
        ("evil.example", true),
        ("a.evil.example", true),
        ("a.evil.example/x", true),
        ("example", false),
    ] {
        assert_eq!(list.ignores("BEACON", "10.0.0.1", target, TimeNs(0)), hidden, "{target}");
        assert!(!list.ignores("BEACON", "10.0.0.2", target, TimeNs(0)), "{target}");
    }
}

#[test]
fn moments_are_read() {
    for (text, second) in [
        ("1970-01-01", Some(0)),
        ("2026-11-30T12:00:05Z", Some(1_796_040_005)),
        ("2024-02-29T00:00:00Z", Some(1_709_164_800)),
        ("2023-02-29T00:00:00Z", None),
        ("2026-11-30T12:00:05", None),
        ("2026-11-30 12:00:05Z", None),
        ("2026-13-01", None),
        ("20260-1-1", None),
        ("2026--1-01", None),
        ("", None),
    ] {
        assert_eq!(second_of(text), second, "{text}");
    }
}

#[test]
fn a_line_that_is_no_entry_is_reported() {
    let text = "ip,1.2.3,both,both\nip,1.2.3.4,up,both\nip,1.2.3.4,both\nmac,zz,both,both\n\
        organization,nobody,both,both\nthing,x,both,both\nasn,AS,src,flows\n\
        evidence,NOTHING,both,alerts\nevidence,BEACON,both,flows\npair,10.0.0.1,both,alerts\n\
        ip,1.2.3.4,both,alerts,until=soon\nip,1.2.3.4,both,alerts,type=NOTHING\nip,1.2.3.4,both,alerts,x";
    let (list, wrong) = Whitelist::parse(text, &|_| None);
    assert_eq!((wrong.len(), list.entries().len()), (13, 1), "{wrong:?}");
    assert!(wrong[0].to_string().starts_with("line 1: "));
}

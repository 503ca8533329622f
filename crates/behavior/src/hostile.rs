//! Every detector of the registry against time and input that lie.
//!
//! Of each detector there is a script: records that make it say its evidence. The script is then given
//! out of order, with every record twice, after one early record, before one of the future, again after
//! fifty years, and amid a flood of spoofed sources in little memory; each time the ledgers have to
//! balance, and the evidence is compared with that of the plain script. A detector without a script
//! fails the test, as does a script that says nothing.

use crate::engine::Counts;
use crate::intel::Purpose;
use crate::intel::tests::intel;
use crate::parcel::{self, Parcel};
use crate::settings::Settings;
use crate::shards::Ends;
use crate::site::Facts;
use crate::trial::{Flow, Trial, conn, has_values, log};
use gabion_record::Ip;
use gabion_record::evidence::Evidence;
use gabion_record::logs::{
    Arp, Body, Dhcp, Dns, Files, Http, List, Login, Mac, Notice, Record, RuleAlert, SECOND, Smtp,
    Software, Ssh, Ssl, TimeNs, Tunnel, Weird,
};
use std::sync::Arc;

/// Who does it.
const WHO: &str = "10.0.0.1";
const THERE: &str = "1.2.3.4";
const HOUR: i64 = 3600;
/// Fifty years, in whole windows.
const AGE: i64 = 50 * 365 * 24 * HOUR;

/// Records, kept as parcels.
#[derive(Default)]
pub(crate) struct Script(pub(crate) Vec<Vec<u8>>);

impl Script {
    fn add(&mut self, r: &Record<'_>) {
        self.0.push(parcel_of(r));
    }

    fn flow(&mut self, flow: &Flow) {
        self.add(&flow.record());
    }

    fn log(&mut self, second: i64, body: Body<'_>) {
        let mut r = log(second, WHO, THERE, body);
        r.dst_port = 443;
        self.add(&r);
    }

    fn dns(&mut self, second: i64, query: &str, answers: &str, rcode: &str) {
        let answers = List { raw: answers.as_bytes(), is_json: false };
        let (query, rcode) = (query.as_bytes(), rcode.as_bytes());
        self.log(second, Body::Dns(Dns { query, qtype: b"A", rcode, answers, ..Dns::default() }));
    }

    fn http(&mut self, second: i64, h: Http<'_>) {
        self.log(second, Body::Http(h));
    }

    fn ssl(&mut self, second: i64, s: Ssl<'_>) {
        self.log(second, Body::Ssl(s));
    }
}

/// A record as bytes, to be read by [`record`].
pub(crate) fn parcel_of(r: &Record<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    parcel::put_record(0, Ends::Source, r, &Facts::default(), &mut bytes);
    bytes
}

pub(crate) fn record(bytes: &[u8]) -> Record<'_> {
    match parcel::take_parcel(bytes) {
        Some((Parcel::Record(_, _, r, _), _)) => r,
        _ => panic!("no record"),
    }
}

pub(crate) type Write = fn(&mut Script);

/// A script by module of the detector, and what it is to say.
pub(crate) const SCRIPTS: &[(&str, &str, Write)] = &[
    ("vertical_scan", "VERTICAL_PORT_SCAN", |s| {
        (0..12).for_each(|n| s.flow(&conn(n, WHO, THERE, 1000 + n as u16).refused()));
    }),
    ("horizontal_scan", "HORIZONTAL_PORT_SCAN", |s| {
        (0..12).for_each(|n| s.flow(&conn(n, WHO, &format!("1.2.3.{n}"), 23).refused()));
    }),
    ("slow_scan", "SLOW_VERTICAL_PORT_SCAN", |s| {
        (0..30).for_each(|n| s.flow(&conn(n * 1000, WHO, THERE, 1000 + n as u16).refused()));
    }),
    ("slow_scan", "SLOW_HORIZONTAL_PORT_SCAN", |s| {
        (0..30).for_each(|n| s.flow(&conn(n * 1000, WHO, &format!("1.2.3.{n}"), 23).refused()));
    }),
    ("long_connection", "LONG_CONNECTION", |s| {
        (0..3).for_each(|n| s.flow(&conn(n, WHO, THERE, 443).lasting(2000.0)));
    }),
    ("pair_totals", "LONG_TOTAL_CONNECTION", |s| {
        (0..6).for_each(|n| s.flow(&conn(n * HOUR, WHO, THERE, 443).lasting(3500.0)));
    }),
    ("unknown_port", "UNKNOWN_PORT", |s| {
        (0..3).for_each(|n| s.flow(&conn(n, WHO, THERE, 4444)));
    }),
    ("reconnection", "MULTIPLE_RECONNECTION_ATTEMPTS", |s| {
        for n in 0..7 {
            let mut flow = conn(n, WHO, THERE, 80).refused();
            flow.state = "REJ";
            s.flow(&flow);
        }
    }),
    ("port_zero", "PORT_0_CONNECTION", |s| (0..3).for_each(|n| s.flow(&conn(n, WHO, THERE, 0)))),
    ("private_ip", "CONNECTION_TO_PRIVATE_IP", |s| {
        (0..3).for_each(|n| s.flow(&conn(n, WHO, "10.0.0.9", 443)));
    }),
    ("different_localnet", "DIFFERENT_LOCALNET", |s| {
        (0..3).for_each(|n| s.flow(&conn(n, WHO, "192.168.7.9", 443)));
    }),
    ("multiple_ports", "CONNECTION_TO_MULTIPLE_PORTS", |s| {
        (0..4).for_each(|n| s.flow(&conn(n, WHO, THERE, 4444 + n as u16)));
    }),
    ("data_upload", "DATA_UPLOAD", |s| {
        (0..3).for_each(|n| s.flow(&conn(n, WHO, THERE, 443).sending(200_000_000)));
    }),
    ("beacon", "BEACON", |s| (0..280).for_each(|n| s.flow(&conn(n * 300, WHO, THERE, 443)))),
    ("command_control", "COMMAND_AND_CONTROL_CHANNEL", |s| {
        for n in 0..24 {
            let second = n / 2 * 290 + n % 2 * 4;
            s.flow(&conn(second, WHO, THERE, 443).sending(600).lasting(0.5));
        }
    }),
    ("rare_destination", "RARE_DESTINATION", |s| {
        for n in 0..60 {
            s.flow(&conn(n, &format!("10.0.1.{n}"), "5.6.7.8", 443));
        }
        (0..15).for_each(|n| s.flow(&conn(100 + n * 400, WHO, THERE, 443)));
    }),
    ("device_changing_ip", "DEVICE_CHANGING_IP", |s| {
        for (n, who) in [(0, "10.0.0.7"), (1, WHO), (2, WHO)] {
            let mut flow = conn(n, who, THERE, 80);
            flow.src_mac = Some(Mac([2, 0, 0, 0, 0, 1]));
            s.flow(&flow);
        }
    }),
    ("dga", "DGA_NXDOMAINS", |s| {
        (0..12).for_each(|n| s.dns(n, &format!("q{n}x.example"), "", "NXDOMAIN"));
    }),
    ("dns_tunnel", "DNS_TUNNEL", |s| {
        (0..520).for_each(|n| s.dns(n, &format!("d{n}.tunnel.example"), "", "NOERROR"));
    }),
    ("young_domain", "YOUNG_DOMAIN", |s| {
        // One is young now, the other after fifty years.
        for (n, name) in [(0, &b"www.new.co.uk"[..]), (1, b"www.late.co.uk")] {
            s.ssl(n, Ssl { server_name: name, ..Ssl::default() });
        }
    }),
    ("high_entropy_dns", "HIGH_ENTROPY_DNS_ANSWER", |s| {
        let text = "TXT 43 aB3dE5gH7jK9mN1pQrS2tU4vW6xY8zA0cFiLoZbT5wE";
        (0..3).for_each(|n| s.dns(n, "t.example", text, "NOERROR"));
    }),
    ("invalid_dns", "INVALID_DNS_RESOLUTION", |s| {
        (0..3).for_each(|n| s.dns(n, "a.example", "192.168.1.1", "NOERROR"));
    }),
    ("arpa_scan", "DNS_ARPA_SCAN", |s| {
        for n in 0..15i64 {
            let query = format!("{n}.2.0.192.in-addr.arpa");
            let body = Body::Dns(Dns { query: query.as_bytes(), ..Dns::default() });
            let mut r = log(0, WHO, "8.8.8.8", body);
            r.ts = TimeNs(n * SECOND / 20);
            s.add(&r);
        }
    }),
    ("dns_without_connection", "DNS_WITHOUT_CONNECTION", |s| {
        s.dns(0, "a.example", "1.2.3.9", "NOERROR");
        s.flow(&conn(2000, WHO, "5.6.7.8", 443));
    }),
    ("connection_without_dns", "CONNECTION_WITHOUT_DNS", |s| {
        s.dns(0, "a.example", "1.2.3.9", "NOERROR");
        s.flow(&conn(1, WHO, "1.2.3.9", 443));
        s.flow(&conn(2, WHO, "5.6.7.8", 443));
        s.flow(&conn(100, WHO, "1.2.3.9", 443));
    }),
    ("plain_port", "NON_SSL_PORT_443_CONNECTION", |s| {
        (0..3).for_each(|n| s.flow(&conn(n, WHO, THERE, 443)));
    }),
    ("plain_port", "NON_HTTP_PORT_80_CONNECTION", |s| {
        (0..3).for_each(|n| s.flow(&conn(n, WHO, THERE, 80)));
    }),
    ("http_traffic", "EMPTY_CONNECTIONS", |s| {
        let h = Http { host: b"www.google.com", uri: b"/", ..Http::default() };
        (0..5).for_each(|n| s.http(n, h));
    }),
    ("http_traffic", "MULTIPLE_USER_AGENT", |s| {
        for (n, agent) in [(0, &b"x (Windows NT 10.0)"[..]), (1, b"x (Android 9)")] {
            s.http(n, Http { user_agent: agent, ..Http::default() });
        }
    }),
    ("http_traffic", "EXECUTABLE_MIME_TYPE", |s| {
        let types = List { raw: b"application/x-dosexec", is_json: false };
        s.http(0, Http { resp_mime_types: types, ..Http::default() });
    }),
    ("user_agent_maker", "INCOMPATIBLE_USER_AGENT", |s| {
        let mut flow = conn(0, WHO, THERE, 80);
        flow.src_mac = Mac::parse(b"00:1b:63:00:00:01");
        s.flow(&flow);
        let agent = &b"Mozilla/5.0 (Windows NT 10.0) Firefox/120"[..];
        (1..4).for_each(|n| s.http(n, Http { user_agent: agent, ..Http::default() }));
    }),
    ("paste_site", "PASTEBIN_DOWNLOAD", |s| {
        let h =
            Http { method: b"GET", host: b"pastebin.com", response_len: 900, ..Http::default() };
        (0..3).for_each(|n| s.http(n, h));
    }),
    ("tls", "SELF_SIGNED_CERTIFICATE", |s| {
        let validation_status = &b"self signed certificate"[..];
        (0..3).for_each(|n| s.ssl(n, Ssl { validation_status, ..Ssl::default() }));
    }),
    ("tls", "INCOMPATIBLE_CN", |s| {
        let (subject, server_name) = (&b"CN=google.com"[..], &b"evil.example"[..]);
        (0..3).for_each(|n| s.ssl(n, Ssl { subject, server_name, ..Ssl::default() }));
    }),
    ("tls", "DOH_USE", |s| (0..3).for_each(|n| s.ssl(n, Ssl { is_doh: true, ..Ssl::default() }))),
    ("certificate_name", "CN_URL_MISMATCH", |s| {
        let (subject, server_name) = (&b"CN=*.microsoft.com"[..], &b"www.google.com"[..]);
        (0..3).for_each(|n| s.ssl(n, Ssl { subject, server_name, ..Ssl::default() }));
    }),
    ("rare_signature", "RARE_SIGNATURE", |s| {
        for n in 0..15 {
            let common = Http { user_agent: b"Firefox", ..Http::default() };
            s.add(&log(n * 400, WHO, &format!("5.6.7.{n}"), Body::Http(common)));
            s.http(n * 400, Http { user_agent: b"Modzilla/0.0001", ..Http::default() });
        }
    }),
    ("https_anomaly", "MALICIOUS_FLOW", |s| {
        for hour in 0..12 {
            for n in 0..if hour == 10 { 320 } else { 20 } {
                let name = format!("s{}x{n}.example", if n < 20 { 0 } else { hour });
                let second = hour * HOUR + n;
                s.ssl(second, Ssl { server_name: name.as_bytes(), ja3: b"x", ..Ssl::default() });
            }
        }
    }),
    ("ssh", "PASSWORD_GUESSING", |s| {
        let failed = Ssh { auth_success: Some(false), auth_attempts: 1, ..Ssh::default() };
        for n in 0..14 {
            let mut r = log(n, WHO, THERE, Body::Ssh(failed));
            (r.dst_port, r.uid) = (22, b"Cs");
            s.add(&r);
        }
    }),
    ("ssh", "SSH_SUCCESSFUL", |s| {
        s.log(0, Body::Ssh(Ssh { auth_success: Some(true), ..Ssh::default() }));
    }),
    ("ssh_versions", "MULTIPLE_SSH_VERSIONS", |s| {
        for (n, major) in [(0, &b"8"[..]), (1, b"9"), (2, b"9")] {
            let software_type = &b"SSH::CLIENT"[..];
            let body = Software { software_type, major, minor: b"1", ..Software::default() };
            s.log(n, Body::Software(body));
        }
    }),
    ("smtp", "SMTP_LOGIN_BRUTEFORCE", |s| {
        (0..4).for_each(|n| s.log(n, Body::Smtp(Smtp { last_reply: b"535 bad smtp-auth user" })));
    }),
    ("gre", "GRE_TUNNEL", |s| {
        let body = Tunnel { tunnel_type: b"Tunnel::GRE", action: b"Tunnel::EXPIRE" };
        (0..3).for_each(|n| s.log(n, Body::Tunnel(body)));
    }),
    ("gre", "GRE_SCAN", |s| {
        let body = Tunnel { tunnel_type: b"Tunnel::GRE", action: b"Tunnel::DISCOVER" };
        (0..3).for_each(|n| s.log(n, Body::Tunnel(body)));
    }),
    ("login", "LOGIN", |s| {
        (0..3).for_each(|n| s.log(n, Body::Login(Login { user: b"root", ..Login::default() })));
    }),
    ("dhcp_scan", "DHCP_SCAN", |s| {
        for n in 0..5u32 {
            let requested = Some(Ip::v4(0x0a00_0064 + n));
            s.log(i64::from(n), Body::Dhcp(Dhcp { requested, ..Dhcp::default() }));
        }
    }),
    ("arp", "ARP_SCAN", |s| {
        for n in 0..7 {
            let body = Arp { operation: b"request", dst_hw: Some(Mac::ZERO), ..Arp::default() };
            s.add(&log(n, WHO, &format!("10.0.0.{}", 100 + n), Body::Arp(body)));
        }
    }),
    ("zeek_notice", "HORIZONTAL_PORT_SCAN", |s| {
        let msg = &b"10.0.0.1 scanned at least 25 unique hosts on port 23/tcp in 1m14s"[..];
        s.log(0, Body::Notice(Notice { note: b"Scan::Address_Scan", msg, sub: b"" }));
    }),
    ("zeek_notice", "WEIRD_HTTP_METHOD", |s| {
        s.log(0, Body::Weird(Weird { name: b"unknown_HTTP_method", addl: b"FOO" }));
    }),
    ("rule_alert", "RULE_ALERT", |s| {
        let signature = &b"ET MALWARE a call home"[..];
        s.log(
            0,
            Body::RuleAlert(RuleAlert {
                signature,
                sid: 2_019_401,
                severity: 1,
                ..RuleAlert::default()
            }),
        );
    }),
    ("threat_intelligence", "THREAT_INTELLIGENCE_TO_BLACKLISTED_IP", |s| {
        (0..3).for_each(|n| s.flow(&conn(n, WHO, "23.253.126.58", 80)));
    }),
    ("listed_fingerprints", "MALICIOUS_SSL_CERT", |s| {
        let sha1 = &b"0123456789abcdef0123456789abcdef01234567"[..];
        let body = Files { source: b"SSL", sha1, ..Files::default() };
        s.add(&log(0, THERE, WHO, Body::Files(body)));
    }),
];

pub(crate) fn settings() -> Settings {
    let files = [
        (
            "own",
            Purpose::Indicators,
            "23.253.126.58,high,x\n0123456789abcdef0123456789abcdef01234567,high,y\n",
        ),
        ("ages", Purpose::Ages, "new.co.uk,1970-01-01\nlate.co.uk,2019-12-20\n"),
        ("vendors", Purpose::Makers, "00:1B:63,Apple\n"),
    ];
    Settings { intel: Arc::new(intel(&files, 17)), ..Settings::default() }
}

/// Runs records and checks the ledgers; returns evidence of one type.
struct Run {
    trial: Trial,
    latest: Option<TimeNs>,
}

impl Run {
    fn new(bytes: usize) -> Run {
        Run { trial: Trial::of_settings(settings(), None, bytes), latest: None }
    }

    /// With windows that begin where the least moment is, as of a file.
    fn of_file(script: &Script) -> Run {
        let start = script.0.iter().map(|bytes| record(bytes).ts).min();
        Run { trial: Trial::of_settings(settings(), start, ROOM), latest: None }
    }

    /// Gives a record as a reader does, which marks what comes late.
    fn give(&mut self, mut r: Record<'_>) {
        r.is_late = self.latest.is_some_and(|t| r.ts < t);
        if !r.is_late {
            self.latest = Some(r.ts);
        }
        self.trial.record(&r);
    }

    fn end(mut self, kind: &str) -> (Vec<Evidence>, Counts) {
        self.trial.end();
        self.trial.engine.ledger().balance().unwrap();
        let counts = self.trial.engine.counts();
        self.trial.said.retain(|e| e.kind.name == kind);
        (self.trial.said, counts)
    }
}

const ROOM: usize = 16 << 20;

fn plain(script: &Script, kind: &str) -> Vec<Evidence> {
    let mut run = Run::new(ROOM);
    script.0.iter().for_each(|bytes| run.give(record(bytes)));
    run.end(kind).0
}

fn ids(said: &[Evidence]) -> Vec<String> {
    said.iter().map(|e| e.report_id.to_string()).collect()
}

/// Each case for each script.
fn each(case: impl Fn(&str, &str, &Script, &[Evidence])) {
    for (module, kind, write) in SCRIPTS {
        let mut script = Script::default();
        write(&mut script);
        let said = plain(&script, kind);
        assert!(!said.is_empty(), "{module}: the script says no {kind}");
        case(module, kind, &script, &said);
    }
}

#[test]
fn every_detector_has_a_script() {
    for (module, about) in crate::detect::ALL {
        let has = SCRIPTS
            .iter()
            .any(|(m, kind, _)| m == module && about.types.iter().any(|t| t.name == *kind));
        assert!(has, "{module} has no hostile case");
    }
    each(|_, _, _, _| {});
}

/// Within a minute records come in any order: what is late enters no sequence, invents nothing, and the
/// same disorder says the same.
#[test]
fn out_of_order() {
    each(|module, kind, script, said| {
        let mixed = || {
            let mut records: Vec<Record<'_>> = script.0.iter().map(|b| record(b)).collect();
            let mut seed = 12_345u64;
            records.sort_by_cached_key(|r| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                r.ts.plus((seed >> 33) as i64 % 60 * SECOND)
            });
            let mut run = Run::of_file(script);
            records.into_iter().for_each(|r| run.give(r));
            run.end(kind)
        };
        let (found, counts) = mixed();
        assert_eq!(ids(&found), ids(&mixed().0), "{module}: {kind}");
        assert!(found.len() <= said.len() + 1, "{module}: {kind}: {} {}", found.len(), said.len());
        assert_eq!(counts.records, script.0.len() as u64);
    });
}

/// Every record twice: it is reported, and not twice as often as before.
#[test]
fn repeated() {
    each(|module, kind, script, said| {
        let mut run = Run::new(ROOM);
        for bytes in &script.0 {
            run.give(record(bytes));
            run.give(record(bytes));
        }
        let (found, _) = run.end(kind);
        assert!(!found.is_empty(), "{module}: {kind} is not reported");
        assert!(found.len() <= 2 * said.len(), "{module}: {kind}: {}", found.len());
        let mut unique = ids(&found);
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), found.len(), "{module}: {kind} is reported twice");
    });
}

/// One record of the same source a year before: it hides nothing of what comes after.
#[test]
fn one_early_record() {
    each(|module, kind, script, said| {
        let mut run = Run::new(ROOM);
        run.give(conn(-24 * HOUR * 365, WHO, "5.5.5.5", 443).record());
        script.0.iter().for_each(|bytes| run.give(record(bytes)));
        let found = run.end(kind).0;
        assert!(found.len() >= said.len(), "{module}: {kind}: {} {}", found.len(), said.len());
    });
}

/// One record of the future in the middle: after it everything is late. Each record is still looked at,
/// at most once, and one at the end takes nothing away.
#[test]
fn one_record_of_the_future() {
    let far = conn(2 * AGE, WHO, "5.5.5.5", 443);
    let count = |found: Vec<Evidence>| {
        found.iter().filter(|e| !has_values(e, &["5.5.5.5"]) && e.ts.0 < far.ts).count()
    };
    each(|module, kind, script, said| {
        let half = script.0.len() / 2;
        let mut run = Run::new(ROOM);
        for (at, bytes) in script.0.iter().enumerate() {
            if at == half {
                run.give(far.record());
            }
            run.give(record(bytes));
        }
        let (found, counts) = run.end(kind);
        assert_eq!(counts.records, script.0.len() as u64 + 1);
        let (found, most) = (count(found), said.len() + 2 * (script.0.len() - half));
        assert!(found <= most, "{module}: {kind}: {found} of {most}");
        let mut run = Run::new(ROOM);
        script.0.iter().for_each(|bytes| run.give(record(bytes)));
        run.give(far.record());
        let found = count(run.end(kind).0);
        assert!(found > 0, "{module}: {kind} is not reported");
    });
}

/// The same again fifty years later: it is reported again, unless once is enough for ever.
#[test]
fn time_that_jumps_by_fifty_years() {
    each(|module, kind, script, said| {
        let mut run = Run::new(ROOM);
        for shift in [0, AGE] {
            for bytes in &script.0 {
                let mut r = record(bytes);
                r.ts = r.ts.plus(shift * SECOND);
                run.give(r);
            }
        }
        let found = run.end(kind).0;
        let later = found.iter().filter(|e| e.ts.seconds() >= AGE).count();
        let early = found.len() - later;
        // What is decided at the end of the input has only one end.
        assert!(early > 0 && early <= said.len(), "{module}: {kind}: {early} of {}", said.len());
        assert!(later > 0, "{module}: {kind} is not said after fifty years");
    });
}

/// A flood of spoofed sources that has filled little memory and continues between all records: evidence of what
/// happens in it is still reported.
#[test]
fn a_flood_of_spoofed_sources() {
    each(|module, kind, script, said| {
        let mut run = Run::new(2 << 20);
        let mut spoofed = 0u32;
        let mut flood = |run: &mut Run, ts: TimeNs, count: u32| {
            for _ in 0..count {
                let mut flow = conn(0, WHO, "5.5.5.5", 443).refused();
                flow.src = Ip::v4(0x2000_0000 + spoofed.wrapping_mul(2_654_435_761) % (1 << 28));
                flow.ts = ts.0;
                spoofed += 1;
                run.give(flow.record());
            }
        };
        let first = script.0.first().map_or(TimeNs(0), |bytes| record(bytes).ts);
        flood(&mut run, first, 30_000);
        for bytes in &script.0 {
            let r = record(bytes);
            flood(&mut run, r.ts, 30);
            run.give(r);
        }
        let (found, counts) = run.end(kind);
        assert!(counts.folded > 5_000, "{module}: no flood");
        assert!(found.len() >= said.len(), "{module}: {kind}: {} of {}", found.len(), said.len());
    });
}

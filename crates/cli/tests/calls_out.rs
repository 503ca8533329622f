//! *Calls out*: a host that calls home is in its first three rows, in inputs of the corpus and in logs made here.

mod program;

use gabion_flowlog::json::members;
use program::gabion;
use std::fmt::Write as _;
use std::path::Path;

/// Rows of *calls out* (source, destination), by `behavior list` over what a run wrote.
fn calls(input: &Path, more: &[&str]) -> Vec<(String, String)> {
    let out = tempfile::tempdir().unwrap();
    let (folder, input) = (out.path().display().to_string(), input.display().to_string());
    let mut args = vec!["read", input.as_str(), "--behavior", "-q", "-l", &folder];
    args.extend(more);
    let ran = gabion(&args);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let listed = gabion(&["behavior", "list", &folder, "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.err);
    let mut rows = Vec::new();
    members(listed.out.as_bytes(), |key, value| {
        if key == b"calls_out" {
            let text = String::from_utf8_lossy(value.raw()).into_owned();
            for row in text.split("{\"src\":\"").skip(1) {
                let mut parts = row.split('"');
                let (src, dst) =
                    (parts.next().unwrap_or_default(), parts.nth(3).unwrap_or_default());
                rows.push((src.to_owned(), dst.to_owned()));
            }
        }
    })
    .unwrap();
    rows
}

fn is_among_first(rows: &[(String, String)], src: &str, dst: &[&str]) -> bool {
    rows.iter().take(3).any(|row| row.0 == src && dst.contains(&row.1.as_str()))
}

#[test]
fn channels_of_the_corpus_stand_first() {
    let Some(corpus) = gabion_corpus::find("channels_of_the_corpus_stand_first", "") else {
        return;
    };
    for (input, src, dst) in [
        (
            "captures/slips/test-cc__test-cc-capture-1.pcap",
            "147.32.80.37",
            ["141.193.213.21"].as_slice(),
        ),
        ("captures/slips/test-cc__test-cc-capture-2.pcap", "147.32.80.37", &["141.193.213.20"]),
        ("flows/slips/test5-mixed.binetflow", "10.0.2.15", &["23.253.126.58"]),
        (
            "flows/netflowlabeler/test5.tabs.binetflow.zst",
            "10.0.2.15",
            &[
                "23.89.102.68",
                "23.253.126.58",
                "67.55.121.97",
                "72.5.65.113",
                "74.119.239.234",
                "74.206.232.234",
                "185.53.178.6",
            ],
        ),
    ] {
        let rows = calls(&corpus.join(input), &[]);
        assert!(is_among_first(&rows, src, dst), "{input}: {:?}", rows.get(..5.min(rows.len())));
    }
    let rows = calls(&corpus.join("flows/slips/test18-malicious-ctu-sme-11-win/zeek-labeled"), &[]);
    assert_eq!(rows.first().map(|r| r.0.as_str()), Some("192.168.1.107"), "{rows:?}");
}

#[test]
fn the_beacon_of_missing_host_stands_first() {
    let Some(corpus) = gabion_corpus::find("the_beacon_of_missing_host_stands_first", "") else {
        return;
    };
    let rows = calls(&corpus.join("flows/rita/missing_host"), &[]);
    let first: Vec<_> = rows.iter().take(5).collect();
    assert!(is_among_first(&rows, "73.54.23.243", &["64.225.56.201"]), "{first:?}");
}

/// Numbers that are the same each time (splitmix64).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// About 1, now and then half or double.
    fn noise(&mut self, width: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.share()).sum::<f64>() - 6.0;
        (sum * width).exp()
    }
}

const DAY: f64 = 86_400.0;
const BEGIN: f64 = 1_700_000_000.0;
const HOSTS: u64 = 200;
const FLOWS: usize = 100_000;

const HOME: &str = "45.67.89.10";

/// Lines of a conn.log of Zeek, with their moments.
#[derive(Default)]
struct Day(Vec<(f64, String)>);

impl Day {
    fn add(&mut self, at: f64, host: u64, dst: &str, (port, service): (u16, &str), sent: f64) {
        let at = at.clamp(0.0, DAY - 1.0);
        let proto = if port == 123 { "udp" } else { "tcp" };
        let (n, sent) = (self.0.len(), sent as u64 + 40);
        let (ts, src_port, got) = (BEGIN + at, 40_000 + n % 20_000, sent * 3);
        let src = address(host);
        let line = format!(
            "{ts:.6}\tC{n}\t{src}\t{src_port}\t{dst}\t{port}\t{proto}\t{service}\t0.2\t{sent}\t{got}\tSF\t\
             ShADadFf\t5\t{}\t4\t{}\n",
            sent + 200,
            got + 160,
        );
        self.0.push((at, line));
    }

    fn text(mut self) -> String {
        self.0.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut text = String::from(
            "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n#fields\tts\t\
             uid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\tduration\torig_bytes\tresp_bytes\t\
             conn_state\thistory\torig_pkts\torig_ip_bytes\tresp_pkts\tresp_ip_bytes\n",
        );
        self.0.iter().for_each(|line| text.push_str(&line.1));
        text
    }
}

fn address(host: u64) -> String {
    format!("10.0.{}.{}", host / 100, host % 100 + 1)
}

/// A day of a site: 200 hosts browse, ask for updates and poll clocks; one of them calls home. Gives the log and who
/// calls.
fn day_of(seed: u64, calls: usize, jitter: f64) -> (String, String) {
    let (mut chance, mut day) = (Chance(seed), Day::default());
    // Clocks: every host polls one of four every 1,024 s.
    for host in 0..HOSTS {
        let (mut at, clock) = (chance.share() * 1024.0, format!("192.0.2.{}", host % 4 + 1));
        while at < DAY {
            day.add(at, host, &clock, (123, "ntp"), 48.0);
            at += 1024.0 * (0.99 + 0.02 * chance.share());
        }
    }
    // Updates: every four hours or so, of five servers.
    for host in 0..HOSTS {
        for which in 1..=5 {
            let (mut at, server) = (chance.share() * 14_400.0, format!("198.51.100.{which}"));
            while at < DAY {
                day.add(at, host, &server, (443, "ssl"), 700.0 * chance.noise(0.2));
                at += 14_400.0 * (0.7 + 0.6 * chance.share());
            }
        }
    }
    // Home, all day long.
    let caller = chance.next() % HOSTS;
    let (every, size) = (DAY * 0.96 / calls as f64, 400.0 + 2000.0 * chance.share());
    let begin = DAY * 0.02 * chance.share();
    for n in 0..calls {
        let late = every * jitter * (2.0 * chance.share() - 1.0);
        let at = begin + every * n as f64 + late;
        day.add(at, caller, HOME, (443, "ssl"), size * chance.noise(0.3));
    }
    // Browsing: pages of a few well-known sites and many others, some flows each.
    while day.0.len() < FLOWS {
        let host = chance.next() % HOSTS;
        let site = (3000.0_f64.powf(chance.share()) - 1.0) as u64;
        let site = format!("151.{}.{}.7", site / 200, site % 200);
        let mut at = DAY * chance.share();
        for _ in 0..=chance.next() % 12 {
            day.add(at, host, &site, (443, "ssl"), 500.0 * chance.noise(0.9));
            at += 20.0 * chance.share();
        }
    }
    (day.text(), address(caller))
}

/// Ten made logs, their seeds fixed before anything was tuned: 20 to 400 calls, jitter of 0 to 40 % of the interval,
/// noisy sizes.
#[test]
fn callers_of_made_logs_stand_first() {
    let folder = tempfile::tempdir().unwrap();
    let mut missed = String::new();
    for (seed, calls_made, jitter) in [
        (1, 20, 0.0),
        (2, 20, 0.4),
        (3, 40, 0.2),
        (4, 40, 0.4),
        (5, 80, 0.3),
        (6, 100, 0.1),
        (7, 150, 0.4),
        (8, 200, 0.2),
        (9, 300, 0.3),
        (10, 400, 0.4),
    ] {
        let (text, caller) = day_of(seed, calls_made, jitter);
        let path = folder.path().join("conn.log");
        std::fs::write(&path, text).unwrap();
        let rows = calls(&path, &[]);
        if !is_among_first(&rows, &caller, &[HOME]) {
            let at = rows.iter().position(|row| row.0 == caller && row.1 == HOME);
            let _ = writeln!(
                missed,
                "{seed}: {calls_made} calls, jitter {jitter}: {at:?} of {}",
                rows.len()
            );
        }
    }
    assert!(missed.is_empty(), "{missed}");
}

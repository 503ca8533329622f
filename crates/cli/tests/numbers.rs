//! Numbers that people and programs read: counts have their thousands apart, floats have no digits of rounding.

mod program;

use program::packets::{CLIENT, SERVER, capture, ipv4, udp};
use program::{Ran, command, demo, gabion, ran, repository};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Stdio;

/// Enough that every count of records, flows and sources has five digits.
const FLOWS: usize = 12_000;

/// A log of flows in Zeek's JSON: each of a source of its own, to two ports, some of many bytes, with a beacon of odd
/// intervals among them.
fn log(folder: &Path) -> String {
    let mut text = String::new();
    for n in 0..FLOWS {
        let (at, port) = (1_700_000_000 + n, [443, 31_337][n % 2]);
        let mut flow = |at: usize, source: &str, port: usize, sent: usize| {
            let _ = writeln!(
                text,
                "{{\"ts\":{at}.25,\"uid\":\"C{n}x{port}\",\"id.orig_h\":\"{source}\",\"id.orig_p\":40000,\
                 \"id.resp_h\":\"203.0.113.9\",\"id.resp_p\":{port},\"proto\":\"tcp\",\"duration\":0.57,\
                 \"orig_bytes\":{sent},\"resp_bytes\":500,\"conn_state\":\"SF\",\"orig_pkts\":2,\"resp_pkts\":2}}"
            );
        };
        let source = format!("10.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
        flow(at, &source, port, 1_000 + n % 7);
        if n % 37 == 0 {
            flow(at, "10.200.0.1", 8_443, 300 + n % 3);
        }
    }
    let path = folder.join("conn.log");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// The program with something on its standard input.
fn fed(args: &[&str], input: &str) -> Ran {
    let mut child = command(args);
    let child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    ran(child.wait_with_output().unwrap())
}

/// A word of five digits or more and nothing else: a count that nobody can read.
#[track_caller]
fn is_readable(what: &str, text: &str) {
    let trimmed = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_owned();
    let long = |word: &String| word.len() > 4 && word.bytes().all(|b| b.is_ascii_digit());
    let found: Vec<String> = text.split_whitespace().map(trimmed).filter(long).collect();
    assert!(found.is_empty(), "{what}: {found:?} in\n{text}");
    assert!(text.contains(','), "{what} has no count of thousands:\n{text}");
}

#[test]
fn counts_for_people_have_their_thousands_apart() {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let at = |name: &str| dir.path().join(name).display().to_string();
    let whitelist = at("whitelist");
    std::fs::write(&whitelist, "ip,10.0.0.0/16,both,alerts\n").unwrap();
    let output = |what: &str, args: &[&str]| {
        let r = gabion(args);
        assert!(r.code < 2, "{what}: {}", r.err);
        is_readable(what, &r.out);
        r.out
    };
    for workers in ["1", "2"] {
        let out = at(workers);
        let run = ["read", &log, "--behavior", "-l", &out, "--workers", workers];
        output("read --behavior", &run);
        let table = output(
            "whitelisted",
            &[&run[..], &["--overwrite", "--whitelist", &whitelist]].concat(),
        );
        assert!(table.contains("12,325 records of 1 log: 12,325 flows"), "{table}");
        assert!(table.contains("logs     received 12,325 ("), "{table}");
    }
    output("behavior show", &["behavior", "show", &at("1"), "--profile", "203.0.113.9"]);
    // A sealed log.
    let (keys, sealed) = (at("keys"), at("sealed"));
    assert_eq!(gabion(&["log", "keygen", "--out", &keys]).code, 0);
    let (public, private) = (at("keys/recipient.pub"), at("keys/recipient.key"));
    let made = ["log", "init", &sealed, "--origin", "x.example/log", "--recipient", &public];
    assert_eq!(gabion(&made).code, 0);
    let lines: String = (0..FLOWS).map(|n| format!("line {n:x} of a log\n")).collect();
    let append = fed(&["log", "append", &sealed], &lines);
    assert_eq!(append.code, 0, "{}", append.err);
    is_readable("log append", &append.out);
    output("log stat", &["log", "stat", &sealed]);
    let verified = gabion(&["log", "verify", &sealed, "--key", &private, "--allow-unanchored"]);
    is_readable("log verify", &verified.out);
    // A sender.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = socket.local_addr().unwrap().to_string();
    output("send", &["send", "--udp", &to, "--count", "12000"]);
}

/// Numbers with more digits after the point than a millionth has.
fn rounding(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_digit() || c == '.' || c == 'e' || c == '-' || c == '+';
    let mut found = Vec::new();
    for word in text.split(|c: char| !is_part(c)) {
        // Addresses, versions and times have other forms.
        let number = word.parse::<f64>().is_ok() && word.matches('.').count() == 1;
        let digits = word.split_once('.').map_or("", |(_, behind)| behind);
        if number && (digits.len() > 6 || digits.contains('e')) {
            found.push(word.to_owned());
        }
    }
    found
}

#[test]
fn no_number_in_json_has_digits_of_rounding() {
    assert_eq!(rounding("{\"a\":0.5700000000000001,\"b\":[14.999999999999977,0.57,1]}").len(), 2);
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (out, net) = (at("out"), at("net"));
    let rules = repository("demo/gabion.rules").display().to_string();
    let (keys, sealed) = (at("keys"), at("sealed"));
    assert_eq!(gabion(&["log", "keygen", "--out", &keys]).code, 0);
    let public = at("keys/recipient.pub");
    let made = ["log", "init", &sealed, "--origin", "x.example/log", "--recipient", &public];
    assert_eq!(gabion(&made).code, 0);
    for (what, args) in [
        ("read --behavior", &["read", &log, "--behavior", "-l", &out, "--json"][..]),
        ("behavior list", &["behavior", "list", &out, "--json"]),
        ("behavior show", &["behavior", "show", &out, "--profile", "10.200.0.1", "--json"]),
        ("read", &["read", &demo(), "--behavior", "-S", &rules, "-l", &net, "--json"]),
        ("demo list", &["behavior", "list", &net, "--json"]),
        ("demo show", &["behavior", "show", &net, "--profile", "198.51.100.23", "--json"]),
        ("log verify", &["log", "verify", &sealed, "--json", "--allow-unanchored"]),
        ("doctor", &["doctor", &out, "--json"]),
    ] {
        let r = gabion(args);
        assert!(r.code < 2, "{what}: {}", r.err);
        assert!(r.out.starts_with('{'), "{what}: {}", r.out);
        assert_eq!(rounding(&r.out), [""; 0], "{what}");
    }
    for file in [&out, &net].map(|folder| format!("{folder}/alerts.json")) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("Confidence"), "{file}");
        assert_eq!(rounding(&text), [""; 0], "{file}");
    }
    let text = std::fs::read_to_string(at("net/eve.json")).unwrap();
    let times = |line: &str| !line.contains("\"event_type\":\"stats\"");
    let text: Vec<&str> = text.lines().filter(|line| times(line)).collect();
    assert_eq!(rounding(&text.join("\n")), [""; 0]);
}

/// A packet that contradicts itself is the traffic's: nothing can be changed, so nothing is advised.
#[test]
fn doctor_has_no_advice_against_what_can_not_be_changed() {
    let dir = tempfile::tempdir().unwrap();
    let mut broken = ipv4(17, 1, 0, [CLIENT, SERVER], &udp([5_000, 53], b"x"));
    // A header of less than 20 bytes.
    broken[0] = 0x41;
    let path = capture(dir.path(), "broken.pcap", &[broken]);
    let out = dir.path().join("out").display().to_string();
    let run = gabion(&["read", &path, "-l", &out, "--json"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("\"decode_invalid\":{\"items\":1"), "{}", run.out);
    // A machine without anything to report.
    let root = dir.path().join("root");
    std::fs::create_dir_all(root.join("proc")).unwrap();
    std::fs::create_dir_all(root.join("sys/fs/cgroup")).unwrap();
    std::fs::write(root.join("proc/meminfo"), "MemTotal: 8000000 kB\nMemAvailable: 7000000 kB\n")
        .unwrap();
    let said = gabion(&["doctor", &out, "--root", &root.display().to_string()]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(said.out.contains("Nothing to change."), "{}", said.out);
    // All that it names is in the page that it names.
    let page = std::fs::read_to_string(repository("docs/outputs.md")).unwrap();
    for reason in gabion_record::ledger::ShedReason::ALL {
        let name = format!("`{}`", reason.name());
        assert!(page.contains(&name), "docs/outputs.md has no {name}");
    }
}

//! Records of DNS, TLS and SSH against those Suricata wrote for the same captures.
#![allow(clippy::print_stdout, reason = "a test prints on standard output what it found")]

mod drive;

use drive::{How, drive};
use gabion_proto::Requirements;
use gabion_record::Tree;
use std::collections::BTreeMap;
use std::path::Path;

/// The text of the object under `key` of a line of EVE.
fn object_of(line: &str, key: &str) -> Option<String> {
    let from = line.find(&format!("\"{key}\":{{"))? + key.len() + 3;
    let (mut depth, mut in_text, mut is_escaped) = (0, false, false);
    for (i, c) in line[from..].char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if in_text => is_escaped = true,
            '"' => in_text = !in_text,
            '{' if !in_text => depth += 1,
            '}' if !in_text => {
                depth -= 1;
                if depth == 0 {
                    return Some(line[from..from + i + 1].to_string());
                }
            }
            _ => {}
        }
    }
    None
}

/// `grouped` is in the order of a hash table in Suricata: sorted for comparing.
fn in_order(object: &str) -> String {
    let Some(from) = object.find("\"grouped\":{") else { return object.to_string() };
    let Some(grouped) = object_of(&object[from..], "grouped") else { return object.to_string() };
    let sorted: BTreeMap<String, serde_json::Value> = serde_json::from_str(&grouped).expect("JSON");
    object.replace(&grouped, &serde_json::to_string(&sorted).expect("JSON"))
}

fn count(items: impl Iterator<Item = String>) -> BTreeMap<String, i64> {
    let mut out = BTreeMap::new();
    for item in items {
        *out.entry(item).or_default() += 1;
    }
    out
}

/// Lines of one kind: what Suricata wrote and what we wrote, as multisets of objects.
fn differences(ours: &drive::Run, eve: &str, kind: &str) -> (usize, Vec<String>) {
    let is_kind = format!("\"event_type\":\"{kind}\"");
    let lines = eve.lines().filter(|l| l.contains(&is_kind));
    let theirs = count(lines.filter_map(|l| object_of(l, kind)).map(|o| in_order(&o)));
    let mine = ours.records.iter().filter(|r| r.kind == kind);
    let mine = count(mine.map(|r| in_order(&r.object)));
    let (mut same, mut out) = (0, Vec::new());
    for (object, n) in &theirs {
        let m = mine.get(object).copied().unwrap_or(0);
        same += usize::try_from(m.min(*n)).unwrap_or(0);
        if m < *n {
            out.push(format!("- {object}"));
        }
        if m > *n {
            out.push(format!("+ {object}"));
        }
    }
    out.extend(mine.keys().filter(|o| !theirs.contains_key(*o)).map(|o| format!("+ {o}")));
    (same, out)
}

fn list(key: &str, values: &[&str]) -> Tree {
    let mut t = Tree::default();
    for (i, v) in values.iter().enumerate() {
        t.set(&format!("{key}.{i}"), v);
    }
    t
}

/// Tests whose records differ for a reason that lies outside the parsers: what this driver does not
/// do (tunnels, fragments, changes of protocol, waiting for acknowledgements), or options of the
/// test that its output does not show.
const NOT_COMPARED: &[(&str, &str)] = &[
    ("bug-2430", "TLS behind HTTP CONNECT"),
    ("ldap-starttls", "TLS behind LDAP"),
    ("dns-over-http2-progress", "DNS in HTTP/2"),
    ("http2-doh2-tx-log", "DNS in HTTP/2"),
    ("dns-udp-junkrequest-first", "detection that begins again"),
    ("dns-reversed-udp-1", "probing by source port under midstream pick-up"),
    ("dns/dns-incomplete", "detection port set by an option"),
    ("dns/dns-query/dns-detect-query-03", "detection port set by an option"),
    ("firewall/ruletype-firewall-109-dns-lte", "flow dropped by a rule"),
    ("firewall/ruletype-firewall-110-dns-lte", "flow dropped by a rule"),
];

/// Options of record types that tests set (and that their records don't show): `test: type: path=value`.
const OPTIONS: &[(&str, &str, &[&str])] = &[
    ("dns/dns-udp-eve-log-aaaa-only", "dns", &["types.0=aaaa"]),
    ("dns/dns-udp-eve-log-mx-only", "dns", &["types.0=mx"]),
    ("dns/dns-udp-eve-log-answer-only", "dns", &["requests=no"]),
    ("dns/dns-udp-eve-log-query-only", "dns", &["responses=no"]),
    ("dns/v2/dns-udp-eve-log-aaaa-only", "dns", &["version=2", "types.0=aaaa"]),
    ("dns/v2/dns-udp-eve-log-mx-only", "dns", &["version=2", "types.0=mx"]),
    ("dns/v2/dns-udp-eve-log-answer-only", "dns", &["version=2", "requests=no"]),
    ("dns/v2/dns-udp-eve-log-query-only", "dns", &["version=2", "responses=no"]),
    ("ja4-cl-handshake", "tls", &["custom.0=client_handshake"]),
    ("ja4-sv-handshake", "tls", &["custom.0=server_handshake"]),
    (
        "tls/bug-7286-tls-metadata-01",
        "tls",
        &[
            "custom.0=subject",
            "custom.1=issuer",
            "custom.2=session_resumed",
            "custom.3=serial",
            "custom.4=fingerprint",
            "custom.5=sni",
            "custom.6=version",
            "custom.7=not_before",
            "custom.8=not_after",
            "custom.9=ja3",
            "custom.10=ja3s",
            "custom.11=ja4",
        ],
    ),
    (
        "tls/tls-eve-custom-fields",
        "tls",
        &[
            "custom.0=subject",
            "custom.1=issuer",
            "custom.2=session_resumed",
            "custom.3=serial",
            "custom.4=fingerprint",
            "custom.5=sni",
            "custom.6=version",
            "custom.7=not_before",
            "custom.8=not_after",
            "custom.9=certificate",
            "custom.10=chain",
            "custom.11=subjectaltname",
            "custom.12=client",
            "custom.13=client_certificate",
            "custom.14=client_chain",
        ],
    ),
];

/// Records of all tests of Suricata's suite that have any of DNS, TLS or SSH.
#[test]
fn output_of_suricata_tests() {
    let archive = "suricata-verify/peer/output-of-tests.tar.zst";
    let Some(tar) = gabion_corpus::read("output_of_suricata_tests", archive) else { return };
    let root = gabion_corpus::root().join("suricata-verify");
    let (mut same_total, mut tests, mut differ) = (0, 0, Vec::new());
    for (name, content) in files_of(&tar) {
        let Some(test) = name.strip_suffix("/eve.json") else { continue };
        let test = test.trim_start_matches("./");
        let eve = String::from_utf8_lossy(content);
        let Some(capture) = capture_of(&root.join("tests").join(test)) else { continue };
        let kinds = ["dns", "tls", "ssh"].map(|k| (k, format!("\"event_type\":\"{k}\"")));
        if !kinds.iter().any(|(_, k)| eve.contains(k)) {
            continue;
        }
        if NOT_COMPARED.iter().any(|(name, _)| *name == test) {
            continue;
        }
        let bytes = std::fs::read(capture).expect("capture");
        let mut config = Vec::new();
        let run = drive(&bytes, guess(test, &eve, &mut config));
        tests += 1;
        for (kind, _) in kinds.iter().filter(|(_, k)| eve.contains(k)) {
            let (same, different) = differences(&run, &eve, kind);
            same_total += same;
            if !different.is_empty() {
                differ.push((test.to_string(), different));
            }
        }
    }
    println!("{tests} tests, {same_total} records the same");
    for (test, different) in &differ {
        for d in different {
            println!("{test} {d}");
        }
    }
    assert!(differ.is_empty(), "{} tests differ", differ.len());
    assert!(same_total > 0, "no record was compared");
}

/// Options under which the records were written: listed, or inferred from the records.
fn guess<'a>(test: &str, eve: &str, config: &'a mut Config) -> How<'a> {
    let listed = |kind: &str| {
        let (.., options) = OPTIONS.iter().find(|(t, k, _)| *t == test && *k == kind)?;
        let mut tree = Tree::default();
        for (path, value) in options.iter().filter_map(|o| o.split_once('=')) {
            tree.set(path, value);
        }
        Some(tree)
    };
    let mut dns = Tree::default();
    if eve.contains("\"dns\":{\"version\":2") {
        dns.set("version", "2");
    }
    let tls_records: Vec<&str> =
        eve.lines().filter(|l| l.contains("\"event_type\":\"tls\"")).collect();
    let mut tls = Tree::default();
    tls.set("extended", "yes");
    config.push(("dns", listed("dns").unwrap_or(dns)));
    // Without JA4 it was not even a node with options.
    if let Some(listed) = listed("tls") {
        config.push(("tls", listed));
    } else if tls_records.iter().any(|l| l.contains("\"ja4\":")) {
        config.push(("tls", tls));
    }
    let requirements = Requirements {
        ja3: tls_records.iter().any(|l| l.contains("\"ja3\":{")),
        hassh: eve.contains("\"hassh\":{"),
        ..Requirements::default()
    };
    How { config, requirements, ..How::default() }
}

type Config = Vec<(&'static str, Tree)>;

/// Regular files of a tar archive (ustar names are enough here).
fn files_of(mut tar: &[u8]) -> Vec<(String, &[u8])> {
    let text = |field: &[u8]| {
        let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).trim().to_string()
    };
    let mut out = Vec::new();
    while let Some((header, rest)) = tar.split_at_checked(512) {
        let size = usize::from_str_radix(&text(&header[124..136]), 8).unwrap_or(0);
        let (name, prefix) = (text(&header[..100]), text(&header[345..500]));
        let Some(content) = rest.get(..size) else { break };
        if matches!(header[156], b'0' | 0) && !name.is_empty() {
            let is_long = &header[257..262] == b"ustar" && !prefix.is_empty();
            out.push((if is_long { format!("{prefix}/{name}") } else { name }, content));
        }
        tar = rest.get(size.div_ceil(512) * 512..).unwrap_or_default();
    }
    out
}

/// The capture of a test: named in its description, or the only one of its folder.
fn capture_of(folder: &Path) -> Option<std::path::PathBuf> {
    let description = std::fs::read_to_string(folder.join("test.yaml")).unwrap_or_default();
    if let Some(line) = description.lines().find_map(|l| l.strip_prefix("pcap:")) {
        let path = folder.join(line.trim().trim_matches(['"', '\'']));
        return path.is_file().then_some(path);
    }
    let entries = std::fs::read_dir(folder).ok()?.filter_map(Result::ok).map(|e| e.path());
    let mut captures =
        entries.filter(|p| p.extension().is_some_and(|e| e == "pcap" || e == "pcapng"));
    let first = captures.next()?;
    captures.next().is_none().then_some(first)
}

/// Compares captures listed by the environment: lines of `capture TAB folder`, the folder holding
/// `eve.json` (default records, all fingerprints computed) and `custom.json` (DNS format 2, all TLS
/// members). A tool for looking at differences; without the list it does nothing.
#[test]
fn listed_captures() {
    let Some(list_path) = std::env::var_os("GABION_SURICATA_PAIRS") else { return };
    let only = std::env::var("GABION_SURICATA_KIND").unwrap_or_default();
    let text = std::fs::read_to_string(list_path).expect("list");
    let requirements = Requirements { ja3: true, hassh: true, ..Requirements::default() };
    let mut custom_dns = Tree::default();
    custom_dns.set("version", "2");
    let tls_members: Vec<&str> = gabion_proto::tls::log::custom_members().collect();
    let mut custom_tls = list("custom", &tls_members);
    custom_tls.set("session-resumption", "yes");
    let custom = [("dns", custom_dns), ("tls", custom_tls)];
    let mut extended = Tree::default();
    extended.set("extended", "yes");
    let extended = [("tls", extended)];
    let mut totals: BTreeMap<(&str, &str), (usize, usize, usize)> = BTreeMap::new();
    for line in text.lines() {
        let Some((capture, folder)) = line.split_once('\t') else { continue };
        let Ok(bytes) = std::fs::read(capture) else { continue };
        for (file, config) in [("eve.json", &extended[..]), ("custom.json", &custom)] {
            let Ok(eve) = std::fs::read_to_string(Path::new(folder).join(file)) else { continue };
            let run = drive(&bytes, How { config, requirements, ..How::default() });
            for kind in ["dns", "tls", "ssh"] {
                if !only.is_empty() && only != kind {
                    continue;
                }
                let (same, different) = differences(&run, &eve, kind);
                let total = totals.entry((file, kind)).or_default();
                total.0 += same;
                total.1 += different.len();
                total.2 += usize::from(!different.is_empty());
                for d in &different {
                    println!("{capture} {file} {d}");
                }
            }
            if let Ok(alerts) = std::fs::read_to_string(Path::new(folder).join("alerts.json"))
                && file == "eve.json"
            {
                compare_alerts(capture, &alerts, &run);
            }
            if file == "eve.json" {
                for (proto, eve_case) in [("dns", false), ("tls", true), ("ssh", false)] {
                    if !only.is_empty() && only != proto {
                        continue;
                    }
                    let key =
                        format!("\"app_proto\":\"{proto}\",\"type\":\"applayer\",\"event\":\"");
                    let theirs = count(eve.lines().filter_map(|l| {
                        let from = l.find(&key)? + key.len();
                        let name = l[from..].split('"').next()?.to_string();
                        l.contains("proto_parser").then_some(name)
                    }));
                    let mine = run.events.iter().filter(|(p, ..)| *p == proto);
                    let mine =
                        count(mine.map(
                            |(_, e, _)| {
                                if eve_case { e.to_uppercase() } else { (*e).to_string() }
                            },
                        ));
                    if theirs != mine {
                        println!("{capture} events {proto}: Suricata {theirs:?}, ours {mine:?}");
                    }
                }
            }
        }
    }
    for ((file, kind), (same, different, captures)) in totals {
        println!("TOTAL {file} {kind}: {same} the same, {different} differ in {captures} captures");
    }
}

/// Compares with alerts of rules named `EV protocol.event` and `HK protocol direction state`.
fn compare_alerts(capture: &str, alerts: &str, run: &drive::Run) {
    let mut theirs: BTreeMap<(String, u64), i64> = BTreeMap::new();
    for line in alerts.lines() {
        let Ok(v) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        let port = v["flow"]["src_port"].as_u64().unwrap_or(0);
        let name = v["alert"]["signature"].as_str().unwrap_or("").to_string();
        theirs.insert((name, port), 1);
    }
    let mut mine: BTreeMap<(String, u64), i64> = BTreeMap::new();
    for (proto, event, port) in &run.events {
        mine.insert((format!("EV {proto}.{event}"), u64::from(*port)), 1);
    }
    for (proto, port, states) in &run.progress {
        for (d, reached) in states.iter().enumerate() {
            for state in 0..=*reached {
                mine.insert((format!("HK {proto} {d} {state}"), u64::from(*port)), 1);
            }
        }
    }
    let only = |a: &BTreeMap<(String, u64), i64>, b: &BTreeMap<(String, u64), i64>| {
        let rest = a.keys().filter(|k| !b.contains_key(*k) && !k.0.ends_with(" 0"));
        rest.cloned().collect::<Vec<_>>()
    };
    for (sign, name, port) in only(&theirs, &mine)
        .into_iter()
        .map(|(n, p)| ('-', n, p))
        .chain(only(&mine, &theirs).into_iter().map(|(n, p)| ('+', n, p)))
    {
        println!("ALERT {capture} {port} {sign} {name}");
    }
}

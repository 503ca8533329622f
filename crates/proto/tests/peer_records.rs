//! Records of DNS, TLS and SSH against those the peer wrote for the same captures.

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

/// `grouped` stands in the order of a hash table in the peer: sorted for comparing.
fn in_order(object: &str) -> String {
    let Some(from) = object.find("\"grouped\":{") else { return object.to_string() };
    let Some(grouped) = object_of(&object[from..], "grouped") else { return object.to_string() };
    let sorted: serde_json::Value = serde_json::from_str(&grouped).expect("JSON");
    object.replace(&grouped, &sorted.to_string())
}

fn count(items: impl Iterator<Item = String>) -> BTreeMap<String, i64> {
    let mut out = BTreeMap::new();
    for item in items {
        *out.entry(item).or_default() += 1;
    }
    out
}

/// Lines of one kind: what the peer wrote and what we wrote, as multisets of objects.
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

/// Compares captures listed by the environment: lines of `capture TAB folder`, the folder holding
/// `eve.json` (default records, all fingerprints computed) and `custom.json` (DNS format 2, all TLS
/// members). A tool for looking at differences; without the list it does nothing.
#[test]
fn listed_captures() {
    let Some(list_path) = std::env::var_os("GABION_PEER_PAIRS") else { return };
    let only = std::env::var("GABION_PEER_KIND").unwrap_or_default();
    let text = std::fs::read_to_string(list_path).expect("list");
    let requirements =
        Requirements { ja3: true, ja4: true, hassh: true, ..Requirements::default() };
    let mut custom_dns = Tree::default();
    custom_dns.set("version", "2");
    let mut custom_tls = list("custom", TLS_MEMBERS);
    custom_tls.set("session-resumption", "yes");
    let custom = [("dns", custom_dns), ("tls", custom_tls)];
    let mut totals: BTreeMap<(&str, &str), (usize, usize, usize)> = BTreeMap::new();
    for line in text.lines() {
        let Some((capture, folder)) = line.split_once('\t') else { continue };
        let Ok(bytes) = std::fs::read(capture) else { continue };
        for (file, config) in [("eve.json", &[][..]), ("custom.json", &custom)] {
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
                        println!("{capture} events {proto}: peer {theirs:?}, ours {mine:?}");
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

const TLS_MEMBERS: &[&str] = &[
    "subject",
    "issuer",
    "session_resumed",
    "serial",
    "fingerprint",
    "sni",
    "version",
    "not_before",
    "not_after",
    "certificate",
    "chain",
    "ja3",
    "ja3s",
    "ja4",
    "subjectaltname",
    "client",
    "client_certificate",
    "client_chain",
    "client_alpns",
    "server_alpns",
    "client_handshake",
    "server_handshake",
];

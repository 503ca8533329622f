//! The 258 messages of the corpus compared with what rsyslog and syslog-ng agree on. Every difference is listed in
//! a table here with its reason, and no other may be; at least 97 % of the fields agree. Without the
//! corpus it is skipped by name.
#![allow(clippy::print_stdout, reason = "a test prints what it found on standard output")]

use gabion_logs::syslog::{Received, parse, unpacked};
use gabion_record::base64::from_base64;
use serde_json::Value;

/// 2026-11-20T22:00:00Z, when rsyslog and syslog-ng received them.
const RECEIVED: Received = Received { time_ns: 1_795_212_000_000_000_000, zone_seconds: 0 };

/// Message, field, why we differ.
const DIFFERENCES: &[(u64, &str, &str)] = &[
    (
        135,
        "host",
        "the message names `localhost`; the recorded output can't distinguish that from the sender's own name",
    ),
    (332, "host", "an IPv6 address in brackets is a host"),
    (332, "program", "the word behind that host is the program, as behind any host"),
    (
        332,
        "msg",
        "rsyslog and syslog-ng cut the address at its first colon and keep the rest as text",
    ),
];

fn seconds(time: &str) -> i64 {
    let message = format!("<13>1 {time} - - - - -");
    parse(message.as_bytes(), &RECEIVED).time.expect("the corpus has RFC 3339").seconds
}

/// Bytes that are no text stand in the corpus as halves of surrogates, which are no JSON.
fn whole(line: &str) -> String {
    let mut out = line.to_owned();
    while let Some(at) = out.find("\\udc") {
        out.replace_range(at..at + 6, "\\ufffd");
    }
    out
}

#[test]
fn consensus_of_rsyslog_and_syslog_ng() {
    let test = "consensus_of_rsyslog_and_syslog_ng";
    let Some(text) = gabion_corpus::read_text(test, "sealed/messages/messages.jsonl") else {
        return;
    };
    let (mut fields, mut agree) = (0, 0);
    let mut unlisted = Vec::new();
    let mut met = Vec::new();
    for line in text.lines() {
        let case: Value = serde_json::from_str(&whole(line)).expect("the corpus is JSON");
        let id = case["id"].as_u64().expect("an id");
        let raw = from_base64(case["raw_b64"].as_str().expect("bytes").as_bytes()).expect("base64");
        let raw = unpacked(&raw);
        let m = parse(&raw, &RECEIVED);
        let text = |f: Option<&[u8]>| f.map(|b| String::from_utf8_lossy(b).into_owned());
        for (field, expected) in case["consensus"].as_object().expect("an object") {
            let ours = match field.as_str() {
                "pri" => Some(m.pri.to_string()),
                "host" => text(m.host),
                "program" => text(m.app),
                "pid" => text(m.pid),
                "msg" => text(Some(m.msg)),
                "format" => Some(m.format.name().to_owned()),
                "time" => m.time.map(|t| t.seconds.to_string()),
                other => panic!("a field we don't know: {other}"),
            };
            let theirs = match (field.as_str(), expected.as_str()) {
                ("time", Some("RECEIVED")) => None,
                ("time", Some(time)) => Some(seconds(time).to_string()),
                (_, text) => text.map(str::to_owned),
            };
            fields += 1;
            if ours == theirs {
                agree += 1;
            } else if DIFFERENCES.iter().any(|(n, f, _)| *n == id && f == field) {
                met.push((id, field.clone()));
            } else {
                unlisted.push(format!(
                    "{id} {field}: ours {ours:?}, theirs {theirs:?}: {}",
                    String::from_utf8_lossy(&raw).chars().take(120).collect::<String>()
                ));
            }
        }
    }
    let share = f64::from(agree) / f64::from(fields);
    println!("{agree} of {fields} consensus fields: {:.2} %", 100.0 * share);
    assert!(
        unlisted.is_empty(),
        "{} differences not listed:\n{}",
        unlisted.len(),
        unlisted.join("\n")
    );
    assert_eq!(met.len(), DIFFERENCES.len(), "differences that are none any more: {met:?}");
    assert!(share >= 0.97, "{share}");
}

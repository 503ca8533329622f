//! The cases of the corpus for what comes over a wire: TCP framing, RELP sessions. Without the corpus
//! they are skipped by name.

use gabion_logs::framing::{Framer, Framing};
use gabion_logs::relp::RelpServer;
use serde_json::Value;
use std::path::PathBuf;

fn corpus(test: &str, file: &str) -> Option<Value> {
    let root = std::env::var_os("GABION_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
        PathBuf::from,
    );
    match std::fs::read_to_string(root.join("sealed").join(file)) {
        Ok(text) => Some(serde_json::from_str(&text).expect("the corpus is JSON")),
        Err(_) => {
            eprintln!("{test}: skipped: no corpus");
            None
        }
    }
}

fn base64(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut bits, mut n) = (0u32, 0);
    for b in text.bytes() {
        let v = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(v);
        n += 6;
        if n >= 8 {
            n -= 8;
            out.push((bits >> n) as u8);
        }
    }
    out
}

fn strings(value: &Value) -> Vec<Vec<u8>> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(base64).collect()
}

#[test]
fn framing_cases() {
    let Some(cases) = corpus("framing_cases", "framing/tcp-framing.json") else { return };
    let cases = cases.as_array().expect("an array");
    assert!(cases.len() >= 20);
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let bytes = base64(case["bytes_b64"].as_str().expect("bytes"));
        let framing = Framing { nul_ends_line: name == "nul", ..Framing::default() };
        for step in [bytes.len().max(1), 1, 7] {
            let mut framer = Framer::new(framing);
            let mut frames = Vec::new();
            let mut take = |f: gabion_logs::framing::Frame<'_>| frames.push(f.text().to_vec());
            for piece in bytes.chunks(step) {
                framer.feed(piece, &mut take);
            }
            framer.finish(&mut take);
            if name == "utf16" {
                // Not syslog: lines, kept raw.
                assert_eq!(frames.iter().map(Vec::len).sum::<usize>() + 1, bytes.len());
                continue;
            }
            assert_eq!(frames, strings(&case["frames"]), "{name}, {step} bytes at a time");
        }
    }
}

#[test]
fn relp_cases() {
    let Some(cases) = corpus("relp_cases", "framing/relp.json") else { return };
    for case in cases.as_array().expect("an array") {
        let name = case["name"].as_str().expect("a name");
        let client = strings(&case["client"]);
        let mut server = RelpServer::new();
        let mut messages = 0u64;
        let mut said = Vec::new();
        let mut ended = None;
        for piece in &client {
            let mut here = 0;
            if let Err(e) = server.feed(piece, &mut |_| here += 1) {
                ended = Some(e);
                break;
            }
            messages += here;
            server.durable(here);
            said.append(server.replies());
        }
        match name {
            "session" => {
                assert_eq!(said, strings(&case["server"]).concat(), "{name}");
                assert_eq!((messages, ended), (2, None));
            }
            "unknown-command" => {
                assert!(said.ends_with(b"2 rsp 21 500 command not known\n"), "{name}");
            }
            "half-frame" => {
                assert_eq!((messages, ended, server.is_within_frame()), (0, None, true))
            }
            "resend" => assert_eq!((messages, ended), (1, None)),
            _ => {
                assert!(ended.is_some(), "{name} is a violation");
                assert_eq!(messages, 0, "{name}");
            }
        }
    }
}

#[test]
fn a_real_relp_session() {
    let Some(steps) = corpus("a_real_relp_session", "framing/relp-real-session.json") else {
        return;
    };
    let mut server = RelpServer::new();
    let mut expected = Vec::new();
    let mut said = Vec::new();
    for step in steps.as_array().expect("an array") {
        let bytes = base64(step["bytes_b64"].as_str().expect("bytes"));
        if step["dir"] == "client" {
            let mut messages = 0;
            server.feed(&bytes, &mut |_| messages += 1).expect("librelp speaks RELP");
            server.durable(messages);
            said.append(server.replies());
        } else {
            expected.extend(bytes);
        }
    }
    assert_eq!(String::from_utf8_lossy(&said), String::from_utf8_lossy(&expected));
    assert!(server.is_closed());
}

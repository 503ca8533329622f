//! The cases of the corpus for what comes over a wire: TCP framing, RELP sessions,
//! slog's envelopes. Without the corpus
//! they are skipped by name.

use gabion_logs::envelope::{self, EnvelopeKey, EnvelopeSealer, Suspicion};
use gabion_logs::framing::{Framer, Framing};
use gabion_logs::relp::RelpServer;
use gabion_record::base64::from_base64;
use serde_json::Value;

fn read(test: &str, file: &str) -> Option<Vec<u8>> {
    gabion_corpus::read(test, &format!("sealed/{file}"))
}

fn corpus(test: &str, file: &str) -> Option<Value> {
    read(test, file).map(|text| serde_json::from_slice(&text).expect("the corpus is JSON"))
}

fn base64(text: &str) -> Vec<u8> {
    from_base64(text.as_bytes()).expect("the corpus is base64")
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

#[test]
fn envelopes_open_or_say_why_not() {
    let test = "envelopes_open_or_say_why_not";
    let Some(cases) = corpus(test, "slog/envelopes.json") else { return };
    let cases = cases.as_array().expect("an array");
    assert_eq!(cases.len(), 26);
    // Both forms in which the key lies there: PKCS#1 under the label of PKCS#8, as slog writes, and PKCS#8.
    for file in ["slog/comms_rsa.slogpem", "slog/comms_rsa.pkcs8.pem"] {
        let pem = read(test, file).expect("next to the envelopes");
        envelopes_by(&EnvelopeKey::from_pem(&pem).expect("a private key"), cases);
    }
}

fn envelopes_by(key: &EnvelopeKey, cases: &[Value]) {
    let mut reasons = Vec::new();
    for case in cases {
        let name = case["name"].as_str().expect("a name");
        let opened = key.open(&base64(case["wire_b64"].as_str().expect("bytes")));
        match (case["expect"].as_str().expect("a verdict"), &opened) {
            ("open", Ok(opened)) => {
                let inner = envelope::inner(&opened.inner).expect("checked when it was opened");
                assert_eq!(
                    inner.line,
                    case["logline"].as_str().expect("a line").as_bytes(),
                    "{name}"
                );
                if let Some(plain) = case["plaintext"].as_str() {
                    assert_eq!(opened.inner, plain.as_bytes(), "{name}");
                }
            }
            ("suspicious", Err(why)) => reasons.push((name, why.name())),
            _ => panic!("{name}: {opened:?}"),
        }
    }
    // slog's own verdicts, in our words.
    for (name, why) in [
        ("bad-checksum", "checksum"),
        ("empty-host", "inner-fields"),
        ("flip-ciphertext", "open"),
        ("flip-wrapped", "unwrap"),
        ("swap-keys", "open"),
        ("no-comma", "fields"),
        ("three-fields", "fields"),
        ("short-blob", "short-blob"),
        ("nonce-only", "short-blob"),
        ("odd-hex", "hex"),
        ("bad-base64", "base64"),
        ("empty", "fields"),
    ] {
        assert!(reasons.contains(&(name, why)), "{name}: {reasons:?}");
    }
}

#[test]
fn what_we_seal_opens() {
    let test = "what_we_seal_opens";
    let Some(public) = read(test, "slog/comms_rsa.pub") else { return };
    let private = read(test, "slog/comms_rsa.pkcs8.pem").expect("next to the public key");
    let sealer = EnvelopeSealer::from_pem(&public).expect("a public key");
    let key = EnvelopeKey::from_pem(&private).expect("a private key");
    let line = b"a line, with commas";
    let wire = sealer.seal("2021-01-15T20:22:07.538+01", "h", "/f", line).expect("sealed");
    let opened = key.open(&wire).expect("opened");
    assert_eq!(envelope::inner(&opened.inner).expect("fields").line, line);
    let text = String::from_utf8(wire).expect("hex and base64");
    let (blob, wrapped) = text.split_once(',').expect("two fields");
    assert_eq!(wrapped.len(), key.wrapped_len());
    let (head, tail) = wrapped.split_at(64);
    assert!(key.open(format!("{blob},\r\n{head}\r\n{tail}\n").as_bytes()).is_ok(), "line ends");
    // A key of 2,048 bits leaves four spare bits in the last digit.
    let (digits, padding) = wrapped.split_at(wrapped.len() - 2);
    assert_eq!(padding, "==");
    let (rest, last) = digits.split_at(digits.len() - 1);
    let other = char::from(last.as_bytes()[0] + 1);
    assert!(key.open(format!("{blob},{rest}{other}==").as_bytes()).is_ok(), "{last} and {other}");
    // A nonce is random: another first byte than it has.
    let other = if blob.starts_with("00") { "01" } else { "00" };
    for (wire, reason) in [
        (blob.to_owned(), Suspicion::Fields),
        (format!("x{blob},{wrapped}"), Suspicion::Hex),
        (format!("0011,{wrapped}"), Suspicion::ShortBlob),
        (format!("{blob},{wrapped}="), Suspicion::Base64),
        (format!("{blob},AAAA"), Suspicion::Unwrap),
        (format!("{other}{},{wrapped}", &blob[2..]), Suspicion::Open),
    ] {
        assert_eq!(key.open(wire.as_bytes()), Err(reason));
    }
}

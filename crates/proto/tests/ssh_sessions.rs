//! SSH sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::ssh::PROTOCOL;
use play::{c, play, play_all, s};

const CLIENT: &[u8] = b"SSH-2.0-OpenSSH_8.0 comment here\r\n";
const SERVER: &[u8] = b"SSH-2.0-libssh_0.9\r\n";

fn record(code: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32 + 6).to_be_bytes();
    [&len[..], &[4, code], body, &[0; 4]].concat()
}

fn kex(lists: [&str; 10]) -> Vec<u8> {
    let mut body = vec![b'k'; 16];
    for list in lists {
        body.extend((list.len() as u32).to_be_bytes());
        body.extend(list.bytes());
    }
    body.extend([0; 5]);
    record(20, &body)
}

const LISTS: [&str; 10] = [
    "kex1,kex2",
    "hk",
    "enc-c2s",
    "enc-s2c,x",
    "mac-c2s",
    "mac-s2c",
    "comp-c2s",
    "comp-s2c",
    "",
    "",
];

#[test]
fn a_whole_session() {
    let keys = record(21, b"");
    let secret = [200u8; 300];
    let session = [
        s(SERVER),
        c(CLIENT),
        c(&kex(LISTS)),
        s(&kex(LISTS)),
        c(&record(30, &[b'x'; 32])),
        s(&record(31, &[b'y'; 200])),
        s(&[&keys[..], &secret].concat()),
        c(&[&keys[..], &secret].concat()),
        s(&secret),
    ];
    let out = play_all(PROTOCOL, None, &session);
    let expected = "{\"client\":{\"proto_version\":\"2.0\",\"software_version\":\"OpenSSH_8.0\",\
        \"hassh\":{\"hash\":\"dea653a10197542c2341a499315aa340\",\
        \"string\":\"kex1,kex2;enc-c2s;mac-c2s;comp-c2s\"}},\
        \"server\":{\"proto_version\":\"2.0\",\"software_version\":\"libssh_0.9\",\
        \"hassh\":{\"hash\":\"4a99e00abcd121e55dd9dd577e1f0d97\",\
        \"string\":\"kex1,kex2;enc-s2c,x;mac-s2c;comp-s2c\"}}}";
    assert_eq!(out.record, expected);
    assert_eq!((out.progress, out.is_payload_over, out.is_error), ([3, 3], true, false));
}

#[test]
fn identification_lines() {
    // Line, version and software, or the event that ends the session.
    type Expected = Result<(&'static str, &'static str), &'static str>;
    let cases: &[(&[u8], Expected)] = &[
        (b"SSH-2.0-x\n", Ok(("2.0", "x"))),
        (b"SSH-2.0- abc\r\n", Ok(("2.0", " abc"))),
        (b"SSH-1.99-a-b-c d e\r\n", Ok(("1.99", "a-b-c"))),
        (b"SSH-2.0-a\tb\r\n", Ok(("2.0", "a\\tb"))),
        (b"SSH-abc-x\r\n", Ok(("abc", "x"))),
        (b"SSH-2.0\r\n", Err("invalid_banner")),
        (b"SSH--abc\r\n", Err("invalid_banner")),
        (b"hello\r\nSSH-2.0-x\r\n", Err("invalid_banner")),
        (b"ssh-2.0-x\r\n", Err("invalid_banner")),
    ];
    for (line, expected) in cases {
        let out = play_all(PROTOCOL, None, &[s(SERVER), c(line)]);
        match expected {
            Ok((proto, software)) => {
                let text = format!(
                    "{{\"client\":{{\"proto_version\":\"{proto}\",\"software_version\":\"{software}\"}}"
                );
                assert!(out.record.starts_with(&text), "{}", out.record);
                assert_eq!((out.progress, out.is_error), ([2, 2], false));
            }
            Err(event) => assert_eq!((out.events, out.is_error), (vec![*event], true)),
        }
    }
    let out = play_all(PROTOCOL, None, &[s(SERVER), c(b"SSH-2.0-\r\n")]);
    assert!(out.record.starts_with("{\"client\":{\"proto_version\":\"2.0\"},"), "{}", out.record);
}

#[test]
fn long_lines() {
    let line = |n: usize| [b"SSH-2.0-".to_vec(), vec![b'a'; n - 8], b"\n".to_vec()].concat();
    for (n, is_long) in [(255, false), (256, true), (300, true)] {
        let out = play(PROTOCOL, None, &[s(SERVER), c(&line(n))], 0);
        assert_eq!(out.events.contains(&"long_banner"), is_long, "{n}");
        assert!(!out.is_error);
        assert_eq!(out.record.contains("[truncated 36 additional bytes]"), n == 300);
    }
    // Without an end in sight it is read as far as it came, and the rest of it passed over.
    let rest = [&b"bbb\n"[..], &kex(LISTS)].concat();
    let session = [s(SERVER), c(&line(300)[..300]), c(&rest)];
    let out = play(PROTOCOL, None, &session, 0);
    assert_eq!(out.events, ["long_banner"]);
    assert!(out.record.contains("dea653a10197542c2341a499315aa340"));
}

#[test]
fn records() {
    let after = |bytes: &[u8]| [s(SERVER), c(&[CLIENT, bytes].concat())];
    for len in [0u8, 1] {
        let out = play_all(PROTOCOL, None, &after(&[0, 0, 0, len, 4, 20]));
        assert_eq!((out.events, out.is_error), (vec!["invalid_record"], true));
    }
    let out = play_all(PROTOCOL, None, &after(b"\0\0\0\x02\0\x15"));
    assert_eq!((out.events, out.is_error), (vec![], false));
    let out = play_all(PROTOCOL, None, &after(b"\xff\xff\xff\xff\x04\x1ezzzzzzzzz"));
    assert_eq!((out.events, out.is_error), (vec![], false));
    for (len, is_long) in [(65_536u32, false), (65_537, true)] {
        let mut body = kex(LISTS)[6..].to_vec();
        body.resize(len as usize - 2, b'z');
        let record = [&len.to_be_bytes()[..], &[4, 20], &body].concat();
        let out = play(PROTOCOL, None, &after(&record), 1400);
        assert_eq!(out.events.contains(&"long_kex_record"), is_long, "{len}");
        assert_eq!(out.record.contains("hassh"), !is_long, "{len}");
    }
    // A second exchange adds to the text, and its hash covers all of it.
    let other = kex(["other", "hk", "e", "f", "m", "n", "c", "d", "", ""]);
    let out = play_all(PROTOCOL, None, &after(&[kex(LISTS), other].concat()));
    let hash = "dea653a10197542c2341a499315aa34039215e0f30b67d9bac010f65ebf949bf";
    assert!(out.record.contains(hash), "{}", out.record);
}

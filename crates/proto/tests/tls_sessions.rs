//! TLS sessions made by hand, most of them broken. What each comes to was measured with Suricata
//! 8.0.7: its events, its record, and how far both sides get.

mod play;

use gabion_proto::tls::PROTOCOL;
use gabion_proto::{Endpoints, Input, Outcome, ParseContext};
use gabion_record::applayer::Transport;
use gabion_record::{Direction, Tree};
use play::{Outcomes, c, play, play_all, s};

type Session = Vec<(Direction, Vec<u8>)>;

fn record(kind: u8, version: u16, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u16).to_be_bytes();
    [&[kind], &version.to_be_bytes()[..], &len, body].concat()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = (body.len() as u32).to_be_bytes();
    [&[kind], &len[1..], body].concat()
}

fn extension(kind: u16, body: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), body].concat()
}

fn sni(name: &[u8], kind: u8) -> Vec<u8> {
    let n = name.len() as u16;
    let list = [&(n + 3).to_be_bytes()[..], &[kind], &n.to_be_bytes(), name].concat();
    extension(0, &list)
}

const RANDOM: [u8; 32] = [7; 32];

fn client_hello(version: u16, extensions: &[Vec<u8>]) -> Vec<u8> {
    let all = extensions.concat();
    let fixed = b"\0\0\x04\xc0\x2f\x13\x01\x01\0";
    let len = (all.len() as u16).to_be_bytes();
    let body = [&version.to_be_bytes()[..], &RANDOM, fixed, &len, &all].concat();
    record(22, 0x0301, &message(1, &body))
}

fn server_hello(version: u16, extensions: &[Vec<u8>]) -> Vec<u8> {
    let all = extensions.concat();
    let len = (all.len() as u16).to_be_bytes();
    let body = [&version.to_be_bytes()[..], &RANDOM, b"\0\xc0\x2f\0", &len, &all].concat();
    record(22, 0x0303, &message(2, &body))
}

/// A self-signed certificate of CN=localhost with one alternative name.
fn certificate() -> Vec<u8> {
    const HEX: &str = "\
3082012d3081d5a003020102020101300a06082a8648ce3d04030230143112301006035504030c096c6f63616c68\
6f7374301e170d3230303130323033303430355a170d3439313233313233353935395a3014311230100603550403\
0c096c6f63616c686f73743059301306072a8648ce3d020106082a8648ce3d0301070342000477f4bdda93e29e81\
3e656406833bb570018bca029f64d647b3a0facad33f630f2c610f09c6c3ee55995222cd1615d1aed75d62de22ca\
822f0f3eaa390117ec45a318301630140603551d11040d300b82096c6f63616c686f7374300a06082a8648ce3d04\
03020347003044021f13dd0dc1efafc4807d986ac5a5d09bef2ae1a65d8467554ba47b23238d6f72022100d884b5\
0195cbebcc9ce19b8011d6281399456e3728cbdbd53cf762d9434fd780";
    let digit = |b: u8| char::from(b).to_digit(16).expect("hex") as u8;
    HEX.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn length_24(n: usize) -> [u8; 3] {
    let [_, a, b, c] = (n as u32).to_be_bytes();
    [a, b, c]
}

fn chain(certificates: &[&[u8]]) -> Vec<u8> {
    let mut all = Vec::new();
    for der in certificates {
        all.extend(length_24(der.len()));
        all.extend_from_slice(der);
    }
    let body = [&length_24(all.len())[..], &all].concat();
    record(22, 0x0303, &message(11, &body))
}

fn server_flight() -> Vec<u8> {
    let done = record(22, 0x0303, &message(14, b""));
    [server_hello(0x0303, &[]), chain(&[&certificate()]), done].concat()
}

fn application() -> Vec<u8> {
    record(23, 0x0303, &[b'x'; 50])
}

fn hello() -> Vec<u8> {
    client_hello(0x0303, &[sni(b"good.x", 0)])
}

/// A good session with `bytes` of the client in its midst.
fn after_hello(bytes: &[u8]) -> Session {
    vec![c(&[&hello()[..], bytes].concat()), s(&server_flight()), c(&application())]
}

/// A good session with `bytes` of the client after the server's flight.
fn after_flight(bytes: &[u8]) -> Session {
    vec![c(&hello()), s(&server_flight()), c(bytes)]
}

fn run(session: &Session) -> Outcomes {
    play_all(PROTOCOL, None, session)
}

#[test]
fn a_whole_session() {
    let extensions = [
        sni(b"example.com", 0),
        extension(10, b"\0\x04\0\x1d\0\x17"),
        extension(11, b"\x01\0"),
        extension(13, b"\0\x04\x04\x03\x08\x04"),
        extension(16, b"\0\x0c\x02h2\x08http/1.1"),
    ];
    let session =
        vec![c(&client_hello(0x0303, &extensions)), s(&server_flight()), c(&application())];
    let out = run(&session);
    let expected = "{\"subject\":\"CN=localhost\",\"issuerdn\":\"CN=localhost\",\
        \"subjectaltname\":[\"localhost\"],\"serial\":\"01\",\
        \"fingerprint\":\"7e:59:ed:77:a3:45:20:4d:e3:ed:69:83:76:4b:db:69:f9:de:dc:63\",\
        \"sni\":\"example.com\",\"version\":\"TLS 1.2\",\"notbefore\":\"2020-01-02T03:04:05\",\
        \"notafter\":\"2049-12-31T23:59:59\",\
        \"ja3\":{\"hash\":\"cdfafdda683ea68be09d1698f3074683\",\
        \"string\":\"771,49199-4865,0-10-11-13-16,29-23,0\"},\
        \"ja3s\":{\"hash\":\"174e7e4992a63f6d419626d97363adb8\",\"string\":\"771,49199,\"},\
        \"ja4\":\"t12d0205h2_c1929292aa6b_876bcc86782c\",\"client_alpns\":[\"h2\",\"http/1.1\"]}";
    assert_eq!(out.record, expected);
    assert_eq!((out.events, out.progress), (vec![], [4, 5]));
    assert!(out.is_payload_over && !out.is_stream_over && !out.is_error);
    let mut bypass = Tree::default();
    bypass.set("encryption-handling", "bypass");
    assert!(play(PROTOCOL, Some(&bypass), &session, 0).is_stream_over);
    bypass.set("encryption-handling", "full");
    assert!(!play(PROTOCOL, Some(&bypass), &session, 0).is_payload_over);
}

#[test]
fn hellos_that_are_broken() {
    // Extensions, event, JA3 text, extensions counted by JA4.
    let cases: &[(&[Vec<u8>], &str, &str, &str)] = &[
        (&[], "", "771,49199-4865,,,", "00"),
        (
            &[sni(b"a.b", 0), sni(b"c.d", 0)],
            "multiple_sni_extensions",
            "771,49199-4865,0-0,,",
            "02",
        ),
        (&[sni(b"a.b", 1)], "invalid_sni_type", "771,49199-4865,,,", "00"),
        (&[sni(b"", 0)], "invalid_sni_length", "771,49199-4865,,,", "00"),
        (&[extension(0, b"\0\x06\0\0\x09abc")], "invalid_sni_length", "771,49199-4865,,,", "00"),
        (&[extension(0, b"")], "", "771,49199-4865,0,,", "01"),
        (&[extension(10, b"\0\x07\0\x01")], "handshake_invalid_length", "771,49199-4865", "00"),
        (&[extension(10, b"\0\x03\0\x01\x02")], "handshake_invalid_length", "771,49199-4865", "00"),
        (&[extension(11, b"\x07\0")], "handshake_invalid_length", "771,49199-4865", "00"),
        (&[extension(13, b"\0\x07\0\x01")], "handshake_invalid_length", "771,49199-4865,,,", "00"),
        (&[extension(16, b"\0\x20\x02h2")], "handshake_invalid_length", "771,49199-4865,,,", "00"),
        (&[extension(43, b"\x07\x03\x04")], "handshake_invalid_length", "771,49199-4865,,,", "00"),
        (&[b"\0\x0d\0\x20ab".to_vec()], "handshake_invalid_length", "771,49199-4865", "00"),
    ];
    for (extensions, event, ja3, count) in cases {
        let out = run(&vec![c(&client_hello(0x0303, extensions)), s(&server_flight())]);
        let expected: &[&str] = if event.is_empty() { &[] } else { &[event] };
        assert_eq!(out.events, expected, "{extensions:?}");
        assert!(out.record.contains(&format!("\"string\":\"{ja3}\"}},\"ja3s\"")), "{}", out.record);
        let ja4 = out.record.split("\"ja4\":\"t12").nth(1).expect("JA4");
        assert_eq!(&ja4[3..5], *count, "{extensions:?}");
        // The session continues all the same.
        assert_eq!((out.progress, out.is_error), ([4, 5], false));
    }
}

#[test]
fn records_that_end_a_session() {
    let cases: &[(Session, &str)] = &[
        (after_hello(&record(22, 0x0303, b"")), "invalid_record_length"),
        (after_hello(&record(20, 0x0303, b"")), "invalid_record_length"),
        (after_hello(&record(25, 0x0303, b"abc")), "invalid_record_type"),
        (after_hello(&record(22, 0x0303, b"\x01\0\0")), "invalid_ssl_record"),
        (after_hello(&record(21, 0x0303, b"\x02")), "invalid_alert_message"),
        (after_hello(b"\x80\0\x01"), "invalid_sslv2_header invalid_ssl_record"),
        (after_flight(&record(23, 0x0303, &[0; 16384 + 1025])), "invalid_record_length"),
        (vec![c(&hello()), s(&record(22, 0x0305, b"\x02\0\0\0"))], "invalid_record_version"),
        (
            vec![c(&hello()), s(&[server_hello(0x0305, &[]), chain(&[])].concat())],
            "invalid_record_version",
        ),
        (after_flight(&record(24, 0x0303, b"\x01\x40\0")), "overflow_heartbeat_message"),
        (
            after_flight(&record(24, 0x0303, &[&b"\x01\0\x14"[..], &[b'p'; 35]].concat())),
            "invalid_heartbeat_message",
        ),
        (
            after_flight(&record(24, 0x0303, &[&b"\x03\0\x14"[..], &[b'p'; 36]].concat())),
            "invalid_heartbeat_message",
        ),
    ];
    for (session, events) in cases {
        let out = run(session);
        assert_eq!(out.events.join(" "), *events);
        assert!(out.is_error, "{events}");
        assert_ne!(out.progress, [4, 5], "{events}");
    }
}

#[test]
fn messages_that_are_only_an_event() {
    for kind in 0..=255u8 {
        let known = matches!(kind, 0 | 4 | 12..=16 | 20..=22);
        if matches!(kind, 1 | 2 | 11) {
            continue;
        }
        let odd = record(22, 0x0303, &message(kind, b"abc"));
        let out = run(&vec![c(&hello()), s(&[odd, server_flight()].concat())]);
        let expected: &[&str] = if known { &[] } else { &["invalid_handshake_message"] };
        assert_eq!((&out.events[..], out.is_error), (expected, false), "{kind}");
    }
    let heartbeat = record(24, 0x0303, &[&b"\x01\0\x14"[..], &[b'p'; 36]].concat());
    let answer = record(24, 0x0303, &[&b"\x02\0\x14"[..], &[b'p'; 36]].concat());
    let mut session = after_flight(&heartbeat);
    session.push(s(&answer));
    assert_eq!(run(&session).events, [""; 0]);
    // Encrypted, and the answer is longer than the question: Heartbleed.
    let change = record(20, 0x0303, b"\x01");
    let mut session = after_flight(&[&change[..], &record(24, 0x0303, &[9; 40])].concat());
    session.push(s(&[&change[..], &record(24, 0x0303, &[9; 400])].concat()));
    assert_eq!(run(&session).events, ["dataleak_heartbeat_mismatch"]);
}

#[test]
fn certificates_that_are_broken() {
    let der = certificate();
    let with = |body: &[u8]| record(22, 0x0303, &message(11, body));
    let cases: &[(Vec<u8>, &str, bool)] = &[
        (chain(&[&der, b"junk"]), "", true),
        (chain(&[b"hello", &der]), "invalid_certificate", true),
        (chain(&[b"hello world"]), "invalid_certificate", false),
        (chain(&[&der[..100]]), "invalid_certificate", false),
        (chain(&[b"\x30\0"]), "certificate_invalid_length", false),
        (chain(&[b"", &der]), "certificate_invalid_length", true),
        (chain(&[&[&[0x25], &der[1..]].concat()]), "certificate_invalid_der", false),
        (chain(&[&[&der, &b"zz"[..]].concat()]), "", true),
        (with(b""), "", false),
        (with(b"\0\0\0"), "", false),
        (with(b"\0\xff\0\0\0\x02ab"), "", false),
        (with(b"\0\0\x05\0\0\x09ab"), "invalid_certificate", false),
    ];
    for (certificates, event, is_logged) in cases {
        let flight = [&server_hello(0x0303, &[])[..], certificates].concat();
        let out = run(&vec![c(&hello()), s(&flight), c(&application())]);
        let expected: &[&str] = if event.is_empty() { &[] } else { &[event] };
        assert_eq!((&out.events[..], !out.record.is_empty()), (expected, *is_logged));
    }
}

/// The certificate with more names, each of them `x`.
fn certificate_of_names(count: usize) -> Vec<u8> {
    fn der(kind: u8, body: &[u8]) -> Vec<u8> {
        let len = (body.len() as u32).to_be_bytes();
        [&[kind, 0x83], &len[1..], body].concat()
    }
    let names = der(0x30, &b"\x82\x01x".repeat(count));
    let of_names = der(0x30, &[b"\x06\x03\x55\x1d\x11", &der(4, &names)[..]].concat());
    let old = certificate();
    // What is before the extensions, and what follows them.
    let before = old.windows(2).position(|w| w == b"\xa3\x18").expect("extensions");
    let to_sign = [&old[7..before], &der(0xa3, &der(0x30, &of_names))].concat();
    let after = &old[before + 2 + 0x18..];
    der(0x30, &[&der(0x30, &to_sign), after].concat())
}

/// 4,096 names of a certificate are kept, and as many are an event already (measured with Suricata 8.0.7).
#[test]
fn certificates_with_many_names() {
    for (count, expected) in [(2, 2), (4095, 4095), (4096, 4096), (100_000, 4096)] {
        let der = certificate_of_names(count);
        let body = [&length_24(der.len() + 3)[..], &length_24(der.len()), &der].concat();
        let message = message(11, &body);
        let records: Vec<u8> =
            message.chunks(16_000).flat_map(|part| record(22, 0x0303, part)).collect();
        let flight = [server_hello(0x0303, &[]), records].concat();
        let out = run(&vec![c(&hello()), s(&flight), c(&application())]);
        let events: &[&str] =
            if count < 4096 { &[] } else { &["too_many_subject_alternative_names"] };
        assert_eq!(out.events, events, "{count}");
        assert_eq!(out.record.matches("\"x\"").count(), expected);
    }
}

#[test]
fn how_far_both_sides_get() {
    let change = record(20, 0x0303, b"\x01");
    let names_13 = extension(43, b"\x02\x03\x04");
    let hello_13 = client_hello(0x0303, &[names_13]);
    let server_13 = server_hello(0x0303, &[extension(43, b"\x03\x04")]);
    // A waiting record keeps the end of its direction from counting.
    let open = record(21, 0x0303, b"\x01\0")[..6].to_vec();
    let cut = |bytes: &[u8]| [bytes, &open].concat();
    let cases: &[(Session, [u8; 2])] = &[
        (vec![c(&cut(&hello())), s(&open)], [1, 0]),
        (vec![c(&cut(&hello())), s(&cut(&server_hello(0x0303, &[])))], [1, 1]),
        (vec![c(&hello()), s(&cut(&server_hello(0x0303, &[]))), c(&cut(&change))], [3, 1]),
        (vec![c(&cut(&hello())), s(&cut(&server_flight()))], [3, 4]),
        (vec![c(&cut(&hello_13)), s(&cut(&[server_13, application()].concat()))], [1, 4]),
        (vec![c(&cut(&[hello(), record(21, 0x0303, b"\x02\x28")].concat()))], [4, 5]),
        // The end of one direction is that direction's alone (Suricata's rules on states).
        (vec![c(&hello()), s(&cut(&server_hello(0x0303, &[])))], [4, 1]),
    ];
    for (session, progress) in cases {
        assert_eq!(run(session).progress, *progress, "{session:?}");
    }
}

#[test]
fn ssl_2_hellos() {
    let hello = b"\x80\x2e\x01\x03\x01\0\x15\0\0\0\x10abcdefghijklmnopqrstu0123456789abcdef";
    let out = run(&vec![c(hello), s(&server_flight()), c(&application())]);
    assert!(out.record.contains("\"ja4\":\"t00i000000_e3b0c44298fc_d2e2adf7177b\""));
    assert_eq!((out.progress, out.is_error), ([4, 5], false));
    let out = run(&vec![c(b"\x80\x03\x01\x03\x01"), s(&server_flight())]);
    assert_eq!((out.events, out.is_error), (vec!["invalid_ssl_record"], true));
}

/// Every byte of a session in turn takes every value that is special somewhere.
#[test]
fn flipped_bytes_do_no_harm() {
    let client = [hello(), application()].concat();
    let server = server_flight();
    for at in 0..client.len() + server.len() {
        for value in [0, 1, 2, 0x10, 0x16, 0x17, 0x40, 0x80, 0xff] {
            let (mut a, mut b) = (client.clone(), server.clone());
            match a.get_mut(at) {
                Some(byte) => *byte = value,
                None => b[at - client.len()] = value,
            }
            play(PROTOCOL, None, &[c(&a), s(&b)], 0);
        }
    }
}

#[test]
fn records_of_ssl_2_ask_for_no_inspection_of_streams() {
    // Suricata 8.0.7: `content:!"zz"; flow:only_stream` alerts after each newer record, after older ones at FIN.
    let hello = b"\x80\x1c\x01\x03\x01\0\x03\0\0\0\x10\x01\0\x80aaaaaaaaaaaaaaaa";
    for (bytes, is_asked) in [
        (&hello[..], false),
        (b"\x80\x03\x02ab", false),
        (&client_hello(0x0303, &[]), true),
        (&[&hello[..], &client_hello(0x0303, &[])].concat(), true),
    ] {
        let settings = (PROTOCOL.configure)(None).expect("settings");
        let mut parser = (PROTOCOL.open)(&settings, Transport::Tcp);
        let ends = Endpoints { is_tcp: true, ..Endpoints::default() };
        let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
        let outcome = parser.parse(&mut cx, Input::Data { bytes, eof: false });
        assert!(matches!(outcome, Outcome::Done), "{bytes:?}");
        assert_eq!(cx.trigger_raw, [is_asked, false], "{bytes:?}");
    }
}

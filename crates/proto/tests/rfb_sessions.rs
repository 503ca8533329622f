//! RFB sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::rfb::PROTOCOL;
use gabion_proto::rfb::limits::TEXT_BYTES_MAX;
use gabion_record::Direction;
use gabion_record::Tree;
use play::{Outcomes, c, play_all, s};

type Session = Vec<(Direction, Vec<u8>)>;

const CHALLENGE: &[u8] = &[1; 16];
const RESPONSE: &[u8] = &[2; 16];

fn screen(name: &[u8]) -> Vec<u8> {
    let head = b"\x02\x80\x01\xe0\x20\x18\0\x01\0\xff\0\xff\0\xff\x10\x08\0\0\0\0";
    [head, &(name.len() as u32).to_be_bytes()[..], name].concat()
}

/// A session that begins with these versions.
fn session(server: &[u8; 3], client: &[u8; 3], rest: &[(Direction, Vec<u8>)]) -> Outcomes {
    let version = |minor: &[u8; 3]| [b"RFB 003.", &minor[..], b"\n"].concat();
    let mut all: Session = vec![s(&version(server)), c(&version(client))];
    all.extend_from_slice(rest);
    play_all(PROTOCOL, None, &all)
}

/// What follows the versions in a record.
fn record(out: &Outcomes) -> &str {
    out.record.split_once("\"authentication\":").map_or("", |(_, rest)| rest)
}

const SCREEN: &str = "\"framebuffer\":{\"width\":640,\"height\":480,\"name\":\"desk\",\"pixel_format\":{\
    \"bits_per_pixel\":32,\"depth\":24,\"big_endian\":false,\"true_color\":true,\"red_max\":255,\
    \"green_max\":255,\"blue_max\":255,\"red_shift\":16,\"green_shift\":8,\"blue_shift\":0}}}";

#[test]
fn handshakes() {
    let vnc = format!(
        "{{\"security_type\":2,\"vnc\":{{\"challenge\":\"{}\",\"response\":\"{}\"}},\
         \"security_result\":\"OK\"}},\"screen_shared\":false,{SCREEN}",
        "01".repeat(16),
        "02".repeat(16)
    );
    let answers = [
        s(CHALLENGE),
        c(RESPONSE),
        s(b"\0\0\0\0"),
        c(b"\0"),
        s(&screen(b"desk")),
        c(b"anything"),
        s(b"else"),
    ];
    for minor in [b"007", b"008", b"005"] {
        let rest = [&[s(b"\x02\x01\x02"), c(b"\x02")], &answers[..]].concat();
        assert_eq!(record(&session(b"008", minor, &rest)), vnc);
    }
    let rest = [&[s(b"\0\0\0\x02")], &answers[..]].concat();
    assert_eq!(record(&session(b"008", b"003", &rest)), vnc);
    let rest = [s(b"\x01\x01"), c(b"\x01\x05"), s(&screen(b"desk"))];
    let out = session(b"007", b"007", &rest);
    assert_eq!(
        (record(&out), out.progress, out.events.len()),
        (&*format!("{{\"security_type\":1}},\"screen_shared\":true,{SCREEN}"), [1, 1], 0)
    );
    assert!(out.record.starts_with(
        "{\"server_protocol_version\":{\"major\":\"003\",\"minor\":\"007\"},\
         \"client_protocol_version\":{\"major\":\"003\",\"minor\":\"007\"},"
    ));
}

#[test]
fn handshakes_that_fail() {
    let cases: [(&[u8; 3], Session, &[&str], &str); 8] = [
        (
            b"008",
            vec![s(b"\0\0\0\0\x06reason")],
            &[],
            "{},\"server_security_failure_reason\":\"reason\"}",
        ),
        (
            b"003",
            vec![s(b"\0\0\0\0\0\0\0\x06reason")],
            &[],
            "{\"security_type\":0},\"server_security_failure_reason\":\"reason\"}",
        ),
        (b"003", vec![s(b"\0\0\0\x09"), c(b"x")], &["unimplemented_security_type"], "{}}"),
        (
            b"008",
            vec![s(b"\x01\x10"), c(b"\x10"), s(b"more")],
            &["unimplemented_security_type"],
            "{\"security_type\":16}}",
        ),
        // Suricata waits for the client here.
        (
            b"008",
            vec![s(b"\x01\x01"), c(b"\x01"), s(b"\0\0\0\0")],
            &["confused_state"],
            "{\"security_type\":1}}",
        ),
        (b"008", vec![c(b"\x01"), s(b"\x01\x01")], &["confused_state"], "{}}"),
        (
            b"008",
            vec![s(b"\x01\x02"), c(b"\x02\0"), s(CHALLENGE)],
            &["confused_state"],
            "{\"security_type\":2,\"vnc\":{}}}",
        ),
        (b"008", vec![s(b"\x02\x01")], &[], "{}}"),
    ];
    for (client, rest, events, text) in cases {
        let out = session(b"008", client, &rest);
        assert_eq!((record(&out), out.events.as_slice()), (text, events), "{rest:?}");
    }
    for (result, event, reason) in [
        (1, None, ",\"server_security_failure_reason\":\"no\""),
        (2, Some("unknown_security_result"), ""),
    ] {
        let rest = [s(b"\x01\x02"), c(b"\x02"), s(CHALLENGE), c(RESPONSE), s(&[0, 0, 0, result])];
        let out = session(b"008", b"008", &[&rest[..], &[s(b"\0\0\0\x02no")]].concat());
        assert_eq!(out.events.first().copied(), event);
        assert!(out.record.ends_with(&format!("\"{}\"}}}}{reason}}}", "02".repeat(16))));
    }
    let out = play_all(PROTOCOL, None, &[s(b"RFB 003.008\n"), c(b"RFB 003.008x")]);
    assert!(out.is_error && record(&out) == "{}}");
}

/// Lists of types and texts are bounded, whatever lengths they claim.
#[test]
fn bad_input_is_bounded() {
    let types: Vec<u8> = [&[255][..], &[9; 255]].concat();
    assert_eq!(
        record(&session(b"008", b"008", &[s(&types), c(b"\x01")])),
        "{\"security_type\":1}}"
    );
    for len in [5_000, u32::MAX] {
        let mut long = screen(b"")[..20].to_vec();
        long.extend(len.to_be_bytes());
        long.extend([b'n'; 5_000]);
        let out = session(b"007", b"007", &[s(b"\x01\x01"), c(b"\x01\x01"), s(&long), s(&long)]);
        assert_eq!(out.events, ["too_long_string"]);
        assert_eq!(out.record.matches('n').count() - screen_n(), TEXT_BYTES_MAX);
        let reason = [b"\0".as_slice(), &len.to_be_bytes(), &[b'r'; 5_000]].concat();
        assert_eq!(session(b"008", b"008", &[s(&reason)]).events, ["too_long_string"]);
    }
}

/// Texts are as long as the configuration allows.
#[test]
fn texts_are_cut_where_the_configuration_says() {
    let name = [b'n'; 5_000];
    let server_init = [&screen(b"")[..20], &5_000_u32.to_be_bytes(), &name].concat();
    for (max, kept, has_event) in [("100", 100, true), ("4999", 4999, true), ("5000", 5000, false)]
    {
        let mut settings = Tree::default();
        settings.set("max-string-length", max);
        let talk = [
            s(b"RFB 003.007\n"),
            c(b"RFB 003.007\n"),
            s(b"\x01\x01"),
            c(b"\x01\x01"),
            s(&server_init),
        ];
        let out = play_all(PROTOCOL, Some(&settings), &talk);
        assert_eq!(out.events.contains(&"too_long_string"), has_event, "{max}");
        assert_eq!(out.record.matches("n").count() - screen_n(), kept, "{max}");
    }
}

/// How often the letter is in a record without a name.
fn screen_n() -> usize {
    let rest = [s(b"\x01\x01"), c(b"\x01\x01"), s(&screen(b""))];
    session(b"007", b"007", &rest).record.matches('n').count()
}

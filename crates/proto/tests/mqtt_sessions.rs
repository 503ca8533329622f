//! MQTT sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::mqtt::PROTOCOL;
use gabion_record::Tree;
use play::{c, play_all, s};

const CONNECT: &[u8] = b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd";
const CONNECT_5: &[u8] = b"\x10\x11\0\x04MQTT\x05\x02\0\x3c\0\0\x04abcd";
const CONNACK: &[u8] = b"\x20\x02\0\0";
const CONNACK_5: &[u8] = b"\x20\x03\0\0\0";

/// Events and records, without what most records have in common.
fn outcomes(
    settings: Option<&Tree>,
    session: &[(gabion_record::Direction, Vec<u8>)],
) -> Vec<String> {
    let out = play_all(PROTOCOL, settings, session);
    let short = |record: &str| record.replace("\"qos\":0,\"retain\":false,\"dup\":false", "-");
    let line = |(events, record): &(Vec<&str>, String)| match events.as_slice() {
        [] => short(record),
        events => format!("{} {}", events.join(" "), short(record)),
    };
    let mut all: Vec<String> = out.all.iter().map(line).collect();
    if out.is_error {
        all.push("error".to_string());
    }
    all
}

const CONNECTED: &str = "{\"connect\":{-,\"protocol_string\":\"MQTT\",\"protocol_version\":4,\
    \"client_id\":\"abcd\",\"flags\":{\"username\":false,\"password\":false,\"will_retain\":false,\
    \"will\":false,\"clean_session\":true}},\"connack\":{-,\"session_present\":false,\
    \"return_code\":0}}";

#[test]
fn answers_join_their_requests() {
    let session = [
        c(CONNECT),
        s(CONNACK),
        c(b"\x30\x05\0\x01abc\x3d\x07\0\x01a\0\x01bc"),
        s(b"\x50\x02\0\x01"),
        c(b"\x62\x02\0\x01\x82\x06\0\x02\0\x01a\x01"),
        s(b"\x70\x02\0\x01\x90\x03\0\x02\0"),
        c(b"\xc0\0"),
        s(b"\xd0\0"),
        c(b"\xe0\0"),
    ];
    assert_eq!(
        outcomes(None, &session),
        [
            CONNECTED,
            "{\"publish\":{-,\"topic\":\"a\",\"message\":\"bc\"}}",
            "{\"publish\":{\"qos\":2,\"retain\":true,\"dup\":true,\"topic\":\"a\",\"message_id\":1,\
             \"message\":\"bc\"},\"pubrec\":{-,\"message_id\":1},\"pubrel\":{\"qos\":1,\
             \"retain\":false,\"dup\":false,\"message_id\":1},\"pubcomp\":{-,\"message_id\":1}}",
            "{\"subscribe\":{\"qos\":1,\"retain\":false,\"dup\":false,\"message_id\":2,\
             \"topics\":[{\"topic\":\"a\",\"qos\":1}]},\"suback\":{-,\"message_id\":2,\
             \"qos_granted\":[0]}}",
            "{\"pingreq\":{-}}",
            "{\"pingresp\":{-}}",
            "{\"disconnect\":{-}}",
        ]
    );
}

#[test]
fn events() {
    type Case<'a> = (&'a [(gabion_record::Direction, Vec<u8>)], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        (
            &[s(CONNACK)],
            &["missing_connect {\"connack\":{-,\"session_present\":false,\"return_code\":0}}"],
        ),
        (
            &[s(b"\x50\x02\0\x01"), s(b"\xb0\x02\0\x01")],
            &[
                "missing_publish unintroduced_message {\"pubrec\":{-,\"message_id\":1}}",
                "missing_unsubscribe unintroduced_message {\"unsuback\":{-,\"message_id\":1}}",
            ],
        ),
        (
            &[c(CONNECT), s(CONNACK), c(b"\x36\x07\0\x01a\0\x01bc")],
            &[
                CONNECTED,
                "invalid_qos_level {\"publish\":{\"qos\":3,\"retain\":false,\"dup\":false,\
                 \"topic\":\"a\",\"message_id\":1,\"message\":\"bc\"}}",
            ],
        ),
        (
            &[c(CONNECT), s(CONNACK), c(b"\0\0"), c(b"\xf0\0")],
            &[CONNECTED, "unassigned_msg_type {}", "malformed_traffic {}", "error"],
        ),
    ];
    for (session, expected) in cases {
        assert_eq!(outcomes(None, session), *expected);
    }
}

#[test]
fn limits() {
    let mut t = Tree::default();
    for (key, value) in [("max-tx", "2"), ("max-messages", "2"), ("max-msg-length", "20")] {
        t.set(key, value);
    }
    let publish = |id: u8| c(&[0x32, 7, 0, 1, b'a', 0, id, b'b', b'c']);
    let too_long = [&b"\x30\x15\0\x01a"[..], &[b'x'; 18]].concat();
    let published = |id: u8| {
        format!(
            "{{\"publish\":{{\"qos\":1,\"retain\":false,\"dup\":false,\"topic\":\"a\",\
             \"message_id\":{id},\"message\":\"bc\"}}}}"
        )
    };
    let session = [c(CONNECT), s(CONNACK), publish(1), publish(2), publish(3), c(&too_long)];
    assert_eq!(
        outcomes(Some(&t), &session),
        [
            CONNECTED.to_string(),
            format!("too_many_transactions {}", published(1)),
            format!("too_many_transactions {}", published(2)),
            published(3),
            "{\"publish\":{-,\"truncated\":true,\"skipped_length\":23}}".to_string(),
        ]
    );
    let again = s(b"\x50\x02\0\x01");
    let session = [publish(1), again.clone(), again.clone(), again, s(b"\x70\x02\0\x01")];
    let published = published(1).replace("}}", "}");
    assert_eq!(
        outcomes(Some(&t), &session),
        [format!(
            "unintroduced_message too_many_messages too_many_messages {published},\
             \"pubrec\":{{-,\"message_id\":1}},\"pubcomp\":{{-,\"message_id\":1}}}}"
        )]
    );
}

/// 256 properties of a list are kept; all are read, and what can't be is malformed wherever it is.
#[test]
fn lists_of_properties_are_bounded() {
    let list = |n: usize, rest: &[u8]| {
        let all = [&b"\x26\0\x01a\0\x01b".repeat(n), rest].concat();
        [&[(all.len() & 0x7f) as u8 | 0x80, (all.len() >> 7) as u8], &all[..]].concat()
    };
    let message = |kind: u8, contents: &[u8]| {
        let len = [(contents.len() & 0x7f) as u8 | 0x80, (contents.len() >> 7) as u8];
        [&[kind][..], &len, contents].concat()
    };
    let publish =
        |n, rest: &[u8]| c(&message(0x30, &[b"\0\x01t", &list(n, rest)[..], b"x"].concat()));
    for (n, rest, expected) in [
        (256, &b""[..], "{\"publish\""),
        (257, b"", "too_many_properties {\"publish\""),
        (300, b"\x01\x07", "too_many_properties {\"publish\""),
        // A number that stands for nothing is no property.
        (256, b"\x77\x77\x77", "{\"publish\""),
        (300, b"\x26\xff\xff", "malformed_traffic "),
    ] {
        let all = outcomes(None, &[c(CONNECT_5), s(CONNACK_5), publish(n, rest)]);
        assert!(all[1].starts_with(expected), "{n} {}", all[1]);
        if !expected.starts_with("malformed") {
            assert_eq!(all[1].matches("\"a\":\"b\"").count(), 256);
            assert!(all[1].contains("\"message\":\"x\""), "{}", all[1]);
        }
    }
    // Each list counts by itself, and an answer's event is that of the transaction.
    let connect = |n, will: usize| {
        let lists = [&list(n, b"")[..], b"\0\x01x", &list(will, b"")].concat();
        let start = b"\0\x04MQTT\x05\x06\0\x3c";
        c(&message(0x10, &[&start[..], &lists, b"\0\x01t\0\x01m"].concat()))
    };
    let answer = |n| s(&message(0x20, &[b"\0\0", &list(n, b"")[..]].concat()));
    for (own, will, answered, has_event) in
        [(200, 200, 200, false), (1, 257, 1, true), (257, 1, 1, true), (1, 1, 257, true)]
    {
        let all = outcomes(None, &[connect(own, will), answer(answered)]);
        assert_eq!(all[0].starts_with("too_many_properties {"), has_event, "{}", all[0]);
    }
}

#[test]
fn properties_and_codes_of_mqtt_5() {
    let session = [
        c(CONNECT_5),
        s(CONNACK_5),
        c(b"\x30\x0c\0\x01t\x07\x01\x02\x23\0\x05\x7f\x1ax"),
        c(b"\x32\x07\0\x01t\0\x01\0x"),
        s(b"\x40\x03\0\x01\x10"),
        s(b"\x40\x02\0\x09"),
        c(b"\xe0\0"),
    ];
    let all = outcomes(None, &session);
    assert_eq!(
        all[1..],
        ["malformed_traffic {}", "error",],
        "a property that ends behind the properties"
    );
    let mut session = session.to_vec();
    session[2] = c(b"\x30\x0b\0\x01t\x06\x01\x02\x23\0\x05\x7fx");
    assert_eq!(
        outcomes(None, &session)[1..],
        [
            "{\"publish\":{-,\"topic\":\"t\",\"message\":\"x\",\"properties\":{\
             \"payload_format_indicator\":2,\"topic_alias\":5}}}",
            "{\"publish\":{\"qos\":1,\"retain\":false,\"dup\":false,\"topic\":\"t\",\"message_id\":1,\
             \"message\":\"x\"},\"puback\":{-,\"message_id\":1,\"reason_code\":16}}",
            "missing_publish {\"puback\":{-,\"message_id\":9,\"reason_code\":0}}",
            "{\"disconnect\":{-,\"reason_code\":0}}",
        ]
    );
}

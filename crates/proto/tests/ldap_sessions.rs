//! LDAP sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::ldap::PROTOCOL;
use gabion_proto::{Endpoints, Input, Outcome, ParseContext};
use gabion_record::applayer::Transport;
use gabion_record::{Direction, Tree};
use play::{c, play_all, s};

type Segment = (Direction, Vec<u8>);

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let value = parts.concat();
    let mut e = vec![tag];
    match value.len() {
        len @ 0..=0x7f => e.push(len as u8),
        len => {
            e.push(0x84);
            e.extend_from_slice(&(len as u32).to_be_bytes());
        }
    }
    e.extend_from_slice(&value);
    e
}

fn message(id: u8, operation: &[u8]) -> Vec<u8> {
    element(0x30, &[&[2, 1, id], operation])
}

fn result(tag: u8, code: u8) -> Vec<u8> {
    element(tag, &[&[10, 1, code, 4, 0, 4, 0]])
}

fn search(filter: &[u8]) -> Vec<u8> {
    let fixed = b"\x0a\x01\x02\x0a\x01\0\x02\x01\0\x02\x01\0\x01\x01\0";
    element(0x63, &[b"\x04\x04dc=x", fixed, filter, b"\x30\x03\x04\x01a"])
}

fn entry() -> Vec<u8> {
    element(0x64, &[b"\x04\x04dc=x", b"\x30\x0a\x30\x08\x04\x01a\x31\x03\x04\x01v"])
}

const PRESENT: &[u8] = b"\x87\x02oc";

fn outcomes(settings: Option<&Tree>, session: &[Segment]) -> Vec<String> {
    let out = play_all(PROTOCOL, settings, session);
    let line = |(events, record): &(Vec<&str>, String)| match events.as_slice() {
        [] => record.clone(),
        events => format!("{} {record}", events.join(" ")),
    };
    let mut lines: Vec<String> = out.all.iter().map(line).collect();
    if out.is_error {
        lines.push("error".to_owned());
    }
    lines
}

const SEARCH: &str = "{\"request\":{\"message_id\":2,\"operation\":\"search_request\",\
    \"search_request\":{\"base_object\":\"dc=x\",\"scope\":2,\"deref_alias\":0,\"size_limit\":0,\
    \"time_limit\":0,\"types_only\":false,\"filter\":{\"type\":\"present\",\"value\":\"oc\"},\
    \"attributes\":[\"a\"]}}";
const ENTRY: &str = "{\"operation\":\"search_result_entry\",\
    \"search_result_entry\":{\"base_object\":\"dc=x\",\"attributes\":[{\"type\":\"a\",\"values\":[\"v\"]}]}}";
const DONE: &str = "{\"operation\":\"search_result_done\",\
    \"search_result_done\":{\"result_code\":\"success\",\"matched_dn\":\"\",\"message\":\"\"}}";

#[test]
fn responses_join_their_request() {
    let answers = [message(2, &entry()), message(2, &entry()), message(2, &result(0x65, 0))];
    let session = [
        c(&message(2, &search(PRESENT))),
        s(&answers.concat()),
        s(&message(2, &result(0x65, 0))),
        c(&message(3, b"\x42\0")),
    ];
    assert_eq!(
        outcomes(None, &session),
        [
            format!("{SEARCH},\"responses\":[{ENTRY},{ENTRY},{DONE}]}}"),
            "request_not_found {\"responses\":[{\"message_id\":2,\"operation\":\"search_result_done\",\
             \"search_result_done\":{\"result_code\":\"success\",\"matched_dn\":\"\",\"message\":\"\"}}]}"
                .to_owned(),
            "{\"request\":{\"message_id\":3,\"operation\":\"unbind_request\"}}".to_owned(),
        ]
    );
}

#[test]
fn operations() {
    let requests: [(Vec<u8>, &str); 8] = [
        (
            element(0x60, &[b"\x02\x01\x03\x04\x01a", b"\xa3\x09\x04\x05PLAIN\x04\x00"]),
            "\"bind_request\",\"bind_request\":{\"version\":3,\"name\":\"a\",\
             \"sasl\":{\"mechanism\":\"PLAIN\",\"credentials\":\"\"}}",
        ),
        (
            element(0x68, &[b"\x04\x01e", b"\x30\x0a\x30\x08\x04\x01a\x31\x03\x04\x01v"]),
            "\"add_request\",\"add_request\":{\"entry\":\"e\",\
             \"attributes\":[{\"name\":\"a\",\"values\":[\"v\"]}]}",
        ),
        (
            element(
                0x66,
                &[b"\x04\x01e", b"\x30\x0c\x30\x0a\x0a\x01\x07\x30\x05\x04\x01a\x31\x00"],
            ),
            "\"modify_request\",\"modify_request\":{\"object\":\"e\",\
             \"changes\":[{\"operation\":\"7\",\"modification\":{\"attribute_type\":\"a\"}}]}",
        ),
        (b"\x4a\x01e".to_vec(), "\"del_request\",\"del_request\":{\"dn\":\"e\"}"),
        (
            element(0x6c, &[b"\x04\x01e\x04\x01n\x01\x01\xff\x80\x01s"]),
            "\"mod_dn_request\",\"mod_dn_request\":{\"entry\":\"e\",\"new_rdn\":\"n\",\
             \"delete_old_rdn\":true,\"new_superior\":\"s\"}",
        ),
        (
            element(0x6e, &[b"\x04\x01e\x30\x06\x04\x01d\x04\x01v"]),
            "\"compare_request\",\"compare_request\":{\"entry\":\"e\",\
             \"attribute_value_assertion\":{\"description\":\"d\",\"value\":\"v\"}}",
        ),
        (b"\x50\x01\x02".to_vec(), "\"abandon_request\""),
        (
            element(0x77, &[b"\x80\x03\x31.2\x81\x01v"]),
            "\"extended_request\",\"extended_request\":{\"name\":\"1.2\",\"value\":\"v\"}",
        ),
    ];
    for (operation, expected) in requests {
        let record = format!("{{\"request\":{{\"message_id\":5,\"operation\":{expected}}}}}");
        assert_eq!(outcomes(None, &[c(&message(5, &operation))]), [record]);
    }
    // Of a message from the wrong side only the operation is logged.
    assert_eq!(
        outcomes(None, &[c(&message(5, &result(0x65, 0)))]),
        ["{\"request\":{\"message_id\":5,\"operation\":\"search_result_done\"}}"]
    );
}

fn nested(depth: usize) -> Vec<u8> {
    (0..depth).fold(PRESENT.to_vec(), |inner, _| element(0xa2, &[&inner]))
}

#[test]
fn filters_are_read_to_a_depth() {
    let count = |filter: &[u8]| {
        let all = outcomes(None, &[c(&message(2, &search(filter)))]);
        (all.len(), all.last().is_some_and(|line| line == "error"))
    };
    assert_eq!(count(&nested(31)), (1, false));
    assert_eq!(count(&nested(32)), (1, true));
    assert_eq!(count(&nested(10_000)), (1, true));
    // A negation without its filter lacks an element; lists of none and other tags are wrong.
    assert_eq!(count(b"\xa2\0"), (0, false));
    assert_eq!(count(b"\xa3\x03\x04\x01a"), (0, false));
    for wrong in [&b"\xa0\0"[..], b"\xa1\0", b"\x8f\x01a", b"\xa4\x05\x04\x01a\x30\0"] {
        assert_eq!(count(wrong), (1, true), "{wrong:x?}");
    }
}

#[test]
fn endless_responses_are_bounded() {
    let mut answers: Vec<u8> = (0..1030).flat_map(|_| message(2, &entry())).collect();
    answers.extend(message(2, &result(0x65, 0)));
    let session = [c(&message(2, &search(PRESENT))), s(&answers)];
    let all = outcomes(None, &session);
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].matches("too_many_responses").count(), 7);
    assert_eq!(all[0].matches("search_result_entry\",").count(), 1024);
    let mut settings = Tree::default();
    settings.set("max-responses", "2");
    let all = outcomes(Some(&settings), &session);
    assert_eq!(all[0].matches("search_result_entry\",").count(), 2);
}

/// The 258th transaction closes all others and the flow is not followed any more.
#[test]
fn too_many_requests_end_the_flow() {
    let requests: Vec<u8> = (0..300).flat_map(|_| message(2, &search(PRESENT))).collect();
    let all = outcomes(None, &[c(&requests)]);
    assert_eq!(all.len(), 258);
    assert!(all[..257].iter().all(|line| line.starts_with("too_many_transactions ")));
}

#[test]
fn tls_follows_where_it_is_granted() {
    let request = element(0x77, &[b"\x80\x161.3.6.1.4.1.1466.20037"]);
    let session = [c(&message(1, &request)), s(&message(1, &result(0x78, 0)))];
    let all = outcomes(None, &session);
    assert_eq!(all.len(), 1);
    for part in ["\"operation\":\"extended_request\"", "1.3.6.1.4.1.1466.20037", "\"success\""] {
        assert!(all[0].contains(part), "{}", all[0]);
    }
}

#[test]
fn what_follows_lost_bytes_is_left_out_unless_it_is_a_message() {
    // A request, 50 lost bytes, these segments; the requests that are known then.
    let request = message(3, &search(PRESENT));
    let sealed = b"\0\0\0\x10\x05\x04\x04\xff\0\x0c\0\x0c\0\0\0\0\0\0\0\0".to_vec();
    let joined = [sealed.clone(), request.clone()].concat();
    for (segments, count, is_error) in [
        (vec![&request], 2, false),
        (vec![&sealed, &request], 2, false),
        (vec![&joined], 1, false),
        (vec![&message(3, b""), &request], 2, false),
        (vec![&request, &sealed], 2, true),
    ] {
        let settings = (PROTOCOL.configure)(None).expect("settings");
        let mut parser = (PROTOCOL.open)(&settings, Transport::Tcp);
        let ends = Endpoints { is_tcp: true, ..Endpoints::default() };
        let mut give = |input| {
            let mut cx = ParseContext::new(0, Direction::ToServer, &ends);
            parser.parse(&mut cx, input)
        };
        let first = message(2, &search(PRESENT));
        assert_eq!(give(Input::Data { bytes: &first, eof: false }), Outcome::Done);
        assert_eq!(give(Input::Gap { len: 50 }), Outcome::Done);
        let all = segments.iter().map(|bytes| give(Input::Data { bytes, eof: false }));
        let outcomes: Vec<Outcome> = all.collect();
        assert_eq!(outcomes.contains(&Outcome::Error), is_error, "{segments:?}");
        assert_eq!(parser.next_tx_id(), count, "{segments:?}");
    }
}

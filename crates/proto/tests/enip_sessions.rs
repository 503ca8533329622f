//! ENIP sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::enip::PROTOCOL;
use gabion_record::{Direction, Tree};
use play::{Outcomes, c, play_all, s};

type Session = Vec<(Direction, Vec<u8>)>;

const LIST_SERVICES: u16 = 0x04;
const LIST_IDENTITY: u16 = 0x63;
const REGISTER: u16 = 0x65;
const SEND_RR_DATA: u16 = 0x6f;
const SEND_UNIT_DATA: u16 = 0x70;

fn message(command: u16, data: &[u8]) -> Vec<u8> {
    let mut all = command.to_le_bytes().to_vec();
    all.extend((data.len() as u16).to_le_bytes());
    all.extend([1, 0, 0, 0]);
    all.extend([0; 16]);
    all.extend_from_slice(data);
    all
}

fn items(items: &[(u16, &[u8])]) -> Vec<u8> {
    let mut all = (items.len() as u16).to_le_bytes().to_vec();
    for (kind, data) in items {
        all.extend(kind.to_le_bytes());
        all.extend((data.len() as u16).to_le_bytes());
        all.extend_from_slice(data);
    }
    all
}

fn sent(command: u16, list: &[(u16, &[u8])]) -> Vec<u8> {
    message(command, &[&[0; 6], &items(list)[..]].concat())
}

/// A message of CIP without a connection.
fn cip(bytes: &[u8]) -> Vec<u8> {
    sent(SEND_RR_DATA, &[(0, b""), (0xb2, bytes)])
}

/// A message of CIP in a connection.
fn connected(sequence: u8, bytes: &[u8]) -> Vec<u8> {
    sent(SEND_UNIT_DATA, &[(0xa1, b"\x01\x02\x03\x04"), (0xb1, &[&[sequence, 0], bytes].concat())])
}

fn identity() -> Vec<u8> {
    let device = b"\x01\0\0\x02\xaf\x12\x0a\0\0\x01\0\0\0\0\0\0\0\0\x01\0\x0c\0\x3a\0\x04\x03\x30\0\x4d\0\0\0\x02AB\x03";
    items(&[(0x0c, device)])
}

fn session(all: &[(Direction, Vec<u8>)]) -> Outcomes {
    play_all(PROTOCOL, None, all)
}

const GET_ALL: &[u8] = b"\x01\x02\x20\x01\x24\x01";
const GOT_ALL: &[u8] = b"\x81\0\0\0";

#[test]
fn records() {
    let rr = "\"command\":\"send_r_r_data\",\"status\":\"success\"";
    let get_all = format!(
        "{{\"request\":{{{rr},\"cip\":{{\"service\":\"Get Attributes All\",\"path\":[\
         {{\"segment_type\":\"class\",\"value\":1}},{{\"segment_type\":\"instance\",\"value\":1}}],\
         \"class_name\":\"Identity\"}}}},"
    );
    let cases: [(Session, String); 5] = [
        (
            vec![c(&message(LIST_IDENTITY, b"")), s(&message(LIST_IDENTITY, &identity()))],
            "{\"request\":{\"command\":\"list_identity\",\"status\":\"success\"},\
             \"response\":{\"command\":\"list_identity\",\"status\":\"success\",\"identity\":{\
             \"protocol_version\":1,\"revision\":\"4.3\",\
             \"vendor_id\":\"Rockwell Automation/Allen-Bradley\",\
             \"device_type\":\"Communications Adapter\",\"product_code\":58,\"status\":48,\
             \"serial\":77,\"product_name\":\"AB\",\"state\":3}}}"
                .to_owned(),
        ),
        (
            vec![
                c(&message(LIST_SERVICES, b"")),
                s(&message(
                    LIST_SERVICES,
                    &items(&[(0x100, b"\x01\0\x20\x01Communications\0\0abcd")]),
                )),
            ],
            "{\"request\":{\"command\":\"list_services\",\"status\":\"success\"},\
             \"response\":{\"command\":\"list_services\",\"status\":\"success\",\
             \"list_services\":{\"protocol_version\":1,\"capabilities\":288,\
             \"service_name\":\"Communications\\u0000\\u0000\"}}}"
                .to_owned(),
        ),
        (
            vec![c(&message(REGISTER, b"\x01\0\x07\0")), s(&message(REGISTER, b"\x01\0\x07\0"))],
            ["request", "response"]
                .map(|side| {
                    format!(
                        "\"{side}\":{{\"command\":\"register_session\",\"status\":\"success\",\
                         \"register_session\":{{\"protocol_version\":1,\"options\":7}}}}"
                    )
                })
                .join(",")
                .replace("\"request\"", "{\"request\"")
                + "}",
        ),
        (
            vec![c(&cip(GET_ALL)), s(&cip(b"\x81\0\x01\x02\x07\x01"))],
            format!(
                "{get_all}\"response\":{{{rr},\"cip\":{{\"service\":\"Get Attributes All\",\
                 \"status\":\"Connection Failure\",\"status_extended\":\"0701\",\
                 \"status_extended_meaning\":\"Target connection not found\"}}}}}}"
            ),
        ),
        (
            vec![
                c(&cip(&[b"\x0a\x01\x20\x02\x01\0\x04\0", GET_ALL].concat())),
                s(&cip(&[b"\x8a\0\0\0\x01\0\x04\0", GOT_ALL].concat())),
            ],
            format!(
                "{{\"request\":{{{rr},\"cip\":{{\"service\":\"Multiple Service Packet\",\"path\":[\
                 {{\"segment_type\":\"class\",\"value\":2}}],\"class_name\":\"Message Router\",\
                 \"multiple\":[{{\"service\":\"Get Attributes All\",\"path\":[\
                 {{\"segment_type\":\"class\",\"value\":1}},\
                 {{\"segment_type\":\"instance\",\"value\":1}}],\"class_name\":\"Identity\"}}]}}}},\
                 \"response\":{{{rr},\"cip\":{{\"service\":\"Multiple Service Packet\",\
                 \"status\":\"Success\",\"multiple\":[{{\"service\":\"Get Attributes All\",\
                 \"status\":\"Success\"}}]}}}}}}"
            ),
        ),
    ];
    for (all, record) in cases {
        let out = session(&all);
        assert_eq!((out.record, out.progress, out.events.len()), (record, [1, 1], 0));
    }
}

/// Which response belongs to which request, and what can't be read.
#[test]
fn transactions() {
    let invalid = &["invalid_pdu"][..];
    let cases: [(Session, &[&[&str]]); 9] = [
        (vec![c(&connected(1, GET_ALL)), s(&connected(1, GOT_ALL))], &[&[]]),
        (vec![c(&connected(1, GET_ALL)), s(&connected(2, GOT_ALL))], &[&[], &[]]),
        (
            vec![
                c(&connected(1, GET_ALL)),
                c(&connected(2, GET_ALL)),
                s(&connected(2, GOT_ALL)),
                s(&connected(1, GOT_ALL)),
            ],
            &[&[], &[], &[]],
        ),
        (vec![c(&cip(b"\x01\x05\x20")), s(&cip(GOT_ALL))], &[invalid, &[]]),
        (vec![c(&cip(GET_ALL)), s(&cip(b"\x81\0"))], &[&[], invalid]),
        (
            vec![c(&message(SEND_RR_DATA, b"")), s(&message(SEND_RR_DATA, b""))],
            &[&["invalid_pdu", "invalid_pdu"]],
        ),
        (vec![c(&message(LIST_IDENTITY, b"x")), s(&message(LIST_IDENTITY, b""))], &[invalid]),
        (
            vec![c(&message(REGISTER, b"\x01\0")), s(&message(REGISTER, b""))],
            &[&["invalid_pdu", "invalid_pdu"]],
        ),
        (vec![c(&message(0x1234, b"abc")), s(&message(0x1234, b""))], &[&[]]),
    ];
    for (all, expected) in cases {
        let out = session(&all);
        let events: Vec<&[&str]> = out.all.iter().map(|(events, _)| &events[..]).collect();
        assert_eq!(events, expected, "{all:?}");
    }
}

/// At `max-tx` all transactions are ended, and the message that was one too many is left out.
#[test]
fn too_many_transactions() {
    let mut settings = Tree::default();
    settings.set("max-tx", "5");
    let all: Session = (0..7).map(|_| c(&cip(GET_ALL))).collect();
    let out = play_all(PROTOCOL, Some(&settings), &all);
    let events: Vec<usize> = out.all.iter().map(|(events, _)| events.len()).collect();
    assert_eq!((events, out.progress), (vec![2, 0, 0, 0, 0], [1, 1]));
    assert!(out.all.iter().all(|(_, record)| record.contains("\"request\"")));
}

/// Packets of several services within each other are read to the first level, and what a message holds is bounded by
/// its bytes.
#[test]
fn nests_are_bounded() {
    let nest = |inner: Vec<u8>| [b"\x0a\0\x01\0\x04\0", &inner[..]].concat();
    let deep = (0..10_000).fold(GET_ALL.to_vec(), |inner, _| nest(inner));
    let out = session(&[c(&cip(&deep)), s(&cip(GOT_ALL))]);
    assert_eq!(out.record.matches("Multiple Service Packet").count(), 2);
    let count = 10_000_u16;
    let mut wide = [&b"\x0a\0"[..], &count.to_le_bytes()].concat();
    for n in 0..count {
        wide.extend((2 + 2 * count + 2 * n).to_le_bytes());
    }
    wide.extend([1, 0].repeat(count.into()));
    let out = session(&[c(&cip(&wide)), s(&cip(GOT_ALL))]);
    assert_eq!(out.record.matches("Get Attributes All").count(), usize::from(count) + 1);
    for count in [1_u16, 1000, u16::MAX] {
        let out = session(&[c(&cip(&[b"\x0a\0", &count.to_le_bytes()[..]].concat()))]);
        assert_eq!(out.events, ["invalid_pdu"]);
    }
}

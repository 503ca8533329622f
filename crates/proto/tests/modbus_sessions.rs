//! Modbus sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::modbus::PROTOCOL;
use gabion_proto::modbus::limits::OPEN_TXS_MAX;
use gabion_record::{Direction, Tree};
use play::{c, play_all, s};

type Session = Vec<(Direction, Vec<u8>)>;

/// A message of unit 10.
fn message(transaction: u16, function: u8, data: &[u8]) -> Vec<u8> {
    let len = (2 + data.len()) as u16;
    let head = [transaction.to_be_bytes(), [0; 2], len.to_be_bytes()].concat();
    [&head[..], &[10, function], data].concat()
}

/// Events, and the messages' members after the function's code.
fn outcomes(session: &[(Direction, Vec<u8>)]) -> Vec<String> {
    let out = play_all(PROTOCOL, None, session);
    let mut all = Vec::new();
    for (events, record) in &out.all {
        let mut text = events.join(" ");
        for (side, sign) in [("\"request\":{", " >"), ("\"response\":{", " <")] {
            if let Some((_, rest)) = record.split_once(side) {
                let rest = rest.split_once(",\"response\":").map_or(rest, |(own, _)| own);
                let rest = rest.split_once("\"function_code\":").map_or(rest, |(_, rest)| rest);
                text.push_str(sign);
                text.push_str(rest.trim_end_matches('}'));
            }
        }
        all.push(text);
    }
    if out.is_error {
        all.push("error".to_owned());
    }
    all
}

const READ: &[u8] = b"\0\x01\0\x02";

#[test]
fn records() {
    let out = play_all(PROTOCOL, None, &[c(&message(1, 1, READ)), s(&message(1, 1, b"\x01\0"))]);
    assert_eq!(
        out.record,
        "{\"id\":1,\"request\":{\"transaction_id\":1,\"protocol_id\":0,\"unit_id\":10,\
         \"function_raw\":1,\"function_code\":\"RdCoils\",\"access_type\":\"READ | COILS\",\
         \"category\":\"PUBLIC_ASSIGNED\",\"error_flags\":\"NONE\",\"read\":{\"address\":1,\
         \"quantity\":2}},\"response\":{\"transaction_id\":1,\"protocol_id\":0,\"unit_id\":10,\
         \"function_raw\":1,\"function_code\":\"RdCoils\",\"access_type\":\"READ | COILS\",\
         \"category\":\"PUBLIC_ASSIGNED\",\"error_flags\":\"NONE\",\"read\":{\"data\":\"\\u0000\"}}}"
    );
    assert_eq!((out.progress, out.events.len()), ([1, 1], 0));
}

/// One request of each kind with its answer.
#[test]
fn functions() {
    let cases: [(u8, &[u8], &[u8], &str); 12] = [
        (
            3,
            READ,
            b"\x04\0\x09\0\x18",
            "value_mismatch >\"RdHoldRegs\",\"access_type\":\"READ | HOLDING\",\
            \"category\":\"PUBLIC_ASSIGNED\",\"error_flags\":\"NONE\",\"read\":{\"address\":1,\"quantity\":2 \
            <\"RdHoldRegs\",\"access_type\":\"READ | HOLDING\",\"category\":\"PUBLIC_ASSIGNED\",\
            \"error_flags\":\"DATA_VALUE\",\"read\":{\"data\":\"\\u0000\\t\\u0000\\u0018\"",
        ),
        (
            5,
            b"\0\x02\xff\0",
            b"\0\x02\xff\0",
            " >W \"error_flags\":\"NONE\",\"write\":{\"address\":2,\"data\":65280 \
            <W \"error_flags\":\"NONE\",\"write\":{\"address\":2,\"data\":65280",
        ),
        (
            5,
            READ,
            READ,
            "invalid_value >W \"error_flags\":\"DATA_VALUE\",\"write\":{\"address\":1,\"data\":2 \
            <W \"error_flags\":\"NONE\",\"write\":{\"address\":1,\"data\":2",
        ),
        (
            7,
            b"",
            b"\x01",
            " >\"RdExcStatus\",P\"NONE\",\"data\":\"\" <\"RdExcStatus\",P\"NONE\",\"data\":\"\\u0001\"",
        ),
        (
            7,
            b"x",
            b"",
            "invalid_length invalid_length >\"RdExcStatus\",P\"DATA_LENGTH\",\"data\":\"x\" \
            <\"RdExcStatus\",P\"DATA_LENGTH\",\"data\":\"\"",
        ),
        (
            8,
            b"\0\x04\0\0",
            b"\0\x04\0\0",
            " >\"Diagnostic\",P\"NONE\",\"diagnostic\":{\"raw\":4,\
            \"code\":\"ForceListenOnlyMode\",\"data\":\"\\u0000\\u0000\" \
            <\"Diagnostic\",P\"NONE\",\"diagnostic\":{\"raw\":4,\
            \"code\":\"ForceListenOnlyMode\",\"data\":\"\\u0000\\u0000\"",
        ),
        (
            8,
            b"\0\x02\0\x05",
            b"\0\x02\0\0",
            "invalid_value >\"Diagnostic\",P\"DATA_VALUE\",\"diagnostic\":{\"raw\":2,\
            \"code\":\"RetDiagReg\",\"data\":\"\\u0000\\u0005\" \
            <\"Diagnostic\",P\"NONE\",\"diagnostic\":{\"raw\":2,\
            \"code\":\"RetDiagReg\",\"data\":\"\\u0000\\u0000\"",
        ),
        (
            16,
            b"\0\x03\0\x02\x04\x01\x02\x03\x04",
            b"\0\x03\0\x02",
            " >M \"error_flags\":\"NONE\",\"write\":{\
            \"address\":3,\"quantity\":2,\"data\":\"\\u0001\\u0002\\u0003\\u0004\" \
            <M \"error_flags\":\"NONE\",\"write\":{\"address\":3,\"data\":2",
        ),
        (
            16,
            b"\0\x03\0\x02\x03\x01\x02",
            b"\0\x04\0\x02",
            "invalid_value invalid_length value_mismatch \
            >M \"error_flags\":\"DATA_VALUE | DATA_LENGTH\",\"write\":{\
            \"address\":3,\"quantity\":2,\"data\":\"\\u0001\\u0002\" \
            <M \"error_flags\":\"DATA_VALUE\",\"write\":{\"address\":4,\"data\":2",
        ),
        (
            22,
            b"\0\x04\0\x02\0\x25",
            b"\0\x04\0\x02\0\x24",
            "value_mismatch >\"MaskWrReg\",\
            \"access_type\":\"WRITE | HOLDING\",\"category\":\"PUBLIC_ASSIGNED\",\"error_flags\":\"NONE\",\
            \"write\":{\"address\":4,\"and_mask\":2,\"or_mask\":37 <\"MaskWrReg\",\
            \"access_type\":\"WRITE | HOLDING\",\"category\":\"PUBLIC_ASSIGNED\",\"error_flags\":\"DATA_VALUE\",\
            \"write\":{\"address\":4,\"and_mask\":2,\"or_mask\":36",
        ),
        (
            23,
            b"\0\x03\0\x01\0\x0e\0\x01\x02\0\x07",
            b"\x02\0\x09",
            " >B \"error_flags\":\"NONE\",\
            \"read\":{\"address\":3,\"quantity\":1},\"write\":{\"address\":14,\"quantity\":1,\
            \"data\":\"\\u0000\\u0007\" <B \"error_flags\":\"NONE\",\"read\":{\"data\":\"\\u0000\\t\"",
        ),
        (
            43,
            b"\x0e\x01\0",
            b"\x0e\x01",
            " >\"MEI\",P\"NONE\",\"mei\":{\"raw\":14,\"code\":\"RdDevId\",\
            \"data\":\"\\u0001\\u0000\" <\"MEI\",P\"NONE\",\"mei\":{\"raw\":14,\"code\":\"RdDevId\",\
            \"data\":\"\\u0001\"",
        ),
    ];
    for (function, request, response, expected) in cases {
        let expected = expected
            .replace(
                "P\"",
                "\"access_type\":\"NONE\",\"category\":\"PUBLIC_ASSIGNED\",\"error_flags\":\"",
            )
            .replace(
                "W \"",
                "\"WrSingleCoil\",\"access_type\":\"WRITE | COILS | SINGLE | WRITE_SINGLE\",\
                 \"category\":\"PUBLIC_ASSIGNED\",\"",
            )
            .replace(
                "M \"",
                "\"WrMultRegs\",\"access_type\":\"WRITE | HOLDING | MULTIPLE | WRITE_MULTIPLE\",\
                 \"category\":\"PUBLIC_ASSIGNED\",\"",
            )
            .replace(
                "B \"",
                "\"RdWrMultRegs\",\
                 \"access_type\":\"READ | WRITE | HOLDING | MULTIPLE | WRITE_MULTIPLE\",\
                 \"category\":\"PUBLIC_ASSIGNED\",\"",
            );
        let session = [c(&message(1, function, request)), s(&message(1, function, response))];
        assert_eq!(outcomes(&session), [expected.trim_end_matches('}')], "{function}");
    }
}

/// Events alone.
fn events(session: &[(Direction, Vec<u8>)]) -> Vec<String> {
    let out = play_all(PROTOCOL, None, session);
    out.all.iter().map(|(events, _)| events.join(" ")).collect()
}

/// Exceptions, codes that there are not, and headers.
#[test]
fn faults() {
    let cases: [(Session, &[&str]); 12] = [
        (vec![c(&message(1, 3, READ)), s(&message(1, 0x83, b"\x02"))], &[""]),
        (vec![c(&message(1, 3, READ)), s(&message(1, 0x83, b"\x08"))], &["invalid_exception_code"]),
        (vec![c(&message(1, 20, b"x")), s(&message(1, 0x94, b"\x08"))], &[""]),
        (vec![c(&message(1, 3, READ)), s(&message(1, 0x83, b""))], &["value_mismatch"]),
        (vec![c(&message(1, 7, b"")), s(&message(1, 0x87, b"\x02\x02"))], &["invalid_length"]),
        (vec![c(&message(1, 0, b"")), s(&message(1, 0, b""))], &["invalid_function_code"]),
        (vec![c(&message(1, 0x83, READ))], &["invalid_function_code"]),
        (vec![c(&message(1, 0x87, b"x"))], &["invalid_length"]),
        (vec![c(&message(1, 0x88, b"\0\0\0\0"))], &[""]),
        (vec![c(&message(1, 99, b"x")), s(&message(1, 99, b""))], &[""]),
        (vec![c(b"\0\x01\0\x02\0\x06\x0a\x03\0\x01\0\x02")], &["invalid_protocol_id"]),
        (
            vec![c(&[&b"\0\x01\0\0\0\x01x"[..], &message(2, 3, READ)].concat())],
            &["invalid_length", ""],
        ),
    ];
    for (session, expected) in cases {
        assert_eq!(events(&session), expected, "{session:x?}");
    }
    // A message that is too long is passed over, and what follows it is read.
    let mut long = message(1, 3, &[0; 300]);
    long.extend(message(2, 3, READ));
    assert_eq!(events(&[c(&long)]), ["invalid_length", ""]);
    for more in [248, 249] {
        let bytes = message(1, 3, &[READ, &vec![0; more]].concat());
        assert_eq!(events(&[c(&bytes)]), ["invalid_length"]);
    }
}

/// Which messages are of one transaction.
#[test]
fn transactions() {
    let (ask, answer) = (|n: u16| c(&message(n, 1, READ)), |n: u16| s(&message(n, 1, b"\x01\x03")));
    let unsolicited = "unsolicited_response";
    let cases: [(Session, &[&str]); 9] = [
        (vec![ask(1), ask(2), answer(2), answer(1)], &["", ""]),
        (vec![ask(1), ask(1), answer(1), answer(1)], &["", ""]),
        (vec![ask(1), answer(2), answer(1)], &["", unsolicited]),
        (vec![ask(1), answer(1), answer(1)], &["", unsolicited]),
        (vec![answer(1), ask(1)], &[unsolicited]),
        (vec![ask(1), s(&message(1, 2, b"\x01\x03"))], &["", unsolicited]),
        (vec![ask(1), s(b"\0\x01\0\0\0\x04\x0b\x01\x01\x03")], &["", unsolicited]),
        (vec![c(&message(1, 8, b"\0\0ab")), s(&message(1, 8, b"\0\x01ab"))], &["", unsolicited]),
        (vec![c(&message(1, 43, b"\x0e")), s(&message(1, 43, b"\x0d"))], &["", unsolicited]),
    ];
    for (session, expected) in cases {
        assert_eq!(events(&session), expected, "{session:x?}");
    }
    let session = [s(&message(1, 3, b"\x04\0"))];
    assert_eq!(events(&session), ["value_mismatch unsolicited_response"]);
}

/// The transaction after 500 that wait has the event; with the one after it the flow is left.
#[test]
fn floods_end_the_flow() {
    let requests: Vec<u8> = (0..600).flat_map(|n| message(n, 3, READ)).collect();
    let out = play_all(PROTOCOL, None, &[c(&requests)]);
    assert!(out.is_error && out.all.len() as u64 == OPEN_TXS_MAX + 1);
    assert_eq!(out.all.last().unwrap().0, ["flooded"]);
    assert!(out.all[..OPEN_TXS_MAX as usize].iter().all(|(events, _)| events.is_empty()));
    let mut settings = Tree::default();
    settings.set("request-flood", "3");
    assert_eq!(play_all(PROTOCOL, Some(&settings), &[c(&requests)]).all.len(), 4);
}

//! PostgreSQL sessions made by hand. What each comes to was measured with Suricata 8.0.7; members that it writes
//! twice are written once here, with the last value.

mod play;

use gabion_proto::pgsql::PROTOCOL;
use gabion_record::Direction;
use play::{c, play_all, s};

type Segment = (Direction, Vec<u8>);

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut m = vec![kind];
    m.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    m.extend_from_slice(body);
    m
}

fn startup() -> Segment {
    let body = b"\0\x03\0\0user\0u\0database\0d\0TimeZone\0UTC\0\0";
    let mut m = (body.len() as u32 + 4).to_be_bytes().to_vec();
    m.extend_from_slice(body);
    c(&m)
}

fn from_client(kind: u8, body: &[u8]) -> Segment {
    c(&message(kind, body))
}

fn from_server(messages: &[(u8, &[u8])]) -> Segment {
    s(&messages.iter().flat_map(|(kind, body)| message(*kind, body)).collect::<Vec<_>>())
}

const READY: (u8, &[u8]) = (b'Z', b"I");
const DONE: (u8, &[u8]) = (b'C', b"X\0");
const ROWS: (u8, &[u8]) =
    (b'T', b"\0\x01a\0\0\0\0\x01\0\x01\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0");
const ROW: (u8, &[u8]) = (b'D', b"\0\x01\0\0\0\x02xy");

fn accepted() -> Segment {
    from_server(&[
        (b'R', b"\0\0\0\0"),
        (b'S', b"DateStyle\0ISO\0"),
        (b'K', b"\0\0\0\x07\0\0\0\x09"),
        READY,
    ])
}

/// Events and records but for those of the startup.
fn outcomes(session: &[Segment]) -> Vec<String> {
    let mut all = vec![startup(), accepted()];
    all.extend_from_slice(session);
    let out = play_all(PROTOCOL, None, &all);
    let line = |(events, record): &(Vec<&str>, String)| match events.as_slice() {
        [] => record.clone(),
        events => format!("{} {record}", events.join(" ")),
    };
    let mut lines: Vec<String> = out.all.iter().skip(1).map(line).collect();
    if out.is_error {
        lines.push("error".to_owned());
    }
    lines
}

#[test]
fn a_startup_with_its_answers_is_one_transaction() {
    let out = play_all(PROTOCOL, None, &[startup(), accepted()]);
    assert_eq!(
        out.record,
        "{\"tx_id\":1,\"request\":{\"protocol_version\":\"3.0\",\"startup_parameters\":{\"user\":\"u\",\
         \"optional_parameters\":[{\"database\":\"d\"},{\"time_zone\":\"UTC\"}]}},\
         \"response\":{\"message\":\"authentication_ok\",\"parameter_status\":[{\"date_style\":\"ISO\"}],\
         \"process_id\":7,\"secret_key\":9}}"
    );
    assert_eq!(out.progress, [1, 1]);
}

#[test]
fn queries() {
    let select = from_server(&[ROWS, ROW, ROW, DONE, READY]);
    assert_eq!(
        outcomes(&[from_client(b'Q', b"select 1\0"), select, from_client(b'X', b"")]),
        [
            "{\"tx_id\":2,\"request\":{\"simple_query\":\"select 1\"},\
             \"response\":{\"row_description_malformed\":false,\"field_count\":1,\"data_rows\":2,\
             \"data_size\":4,\"command_completed\":\"X\"}}",
            "{\"tx_id\":3,\"request\":{\"message\":\"termination_message\"}}",
        ]
    );
    let error = from_server(&[(b'E', b"SERROR\0VERROR\0C42601\0Mno\0P5\0\0"), READY]);
    assert_eq!(
        outcomes(&[from_client(b'Q', b"q\0"), error]),
        ["{\"tx_id\":2,\"request\":{\"simple_query\":\"q\"},\
          \"response\":{\"severity_localizable\":\"ERROR\",\"severity_non_localizable\":\"ERROR\",\
          \"code\":\"42601\",\"position\":\"5\",\"message\":\"no\"}}"]
    );
    // Extended queries are not logged; a notice before the answer takes the answer away from its query.
    let extended = [
        from_client(b'P', b"\0select 1\0\0\0"),
        from_client(b'S', b""),
        from_server(&[(b'1', b""), READY]),
        from_client(b'Q', b"q\0"),
        from_server(&[(b'N', b"SNOTICE\0Mhello\0\0"), DONE, READY]),
    ];
    // Nothing frees the first transaction here: it takes what is not logged of the extended query.
    assert_eq!(
        outcomes(&extended),
        [
            "{\"tx_id\":2,\"request\":{\"simple_query\":\"q\"}}",
            "{\"tx_id\":3,\"response\":{\"command_completed\":\"X\"}}",
        ]
    );
}

#[test]
fn copies() {
    let session = [
        from_client(b'Q', b"copy\0"),
        from_server(&[(b'G', b"\0\0\x02\0\0\0\0")]),
        from_client(b'd', b"a\tb\n"),
        from_client(b'd', b"ccc"),
        from_client(b'c', b""),
        from_server(&[DONE, READY]),
        from_client(b'Q', b"copy\0"),
        from_server(&[(b'H', b"\0\0\0"), (b'd', b"abc"), (b'c', b""), DONE, READY]),
    ];
    assert_eq!(
        outcomes(&session),
        [
            "{\"tx_id\":2,\"request\":{\"simple_query\":\"copy\"},\
             \"response\":{\"copy_in_response\":{\"malformed\":false,\"columns\":2}}}",
            "{\"tx_id\":3,\"request\":{\"copy_data_in\":{\"msg_count\":2,\"data_size\":7},\
             \"message\":\"copy_done\"},\"response\":{\"data_rows\":2,\"data_size\":7,\
             \"command_completed\":\"X\"}}",
            "{\"tx_id\":4,\"request\":{\"simple_query\":\"copy\"},\
             \"response\":{\"message\":\"copy_done\",\"copy_out_response\":{\"malformed\":false,\
             \"columns\":0},\"copy_data_out\":{\"row_count\":1,\"data_size\":3},\
             \"command_completed\":\"X\"}}",
        ]
    );
}

#[test]
fn passwords_and_mechanisms() {
    let record = |segments: &[Segment]| {
        let mut all = vec![startup()];
        all.extend_from_slice(segments);
        play_all(PROTOCOL, None, &all).all.last().map(|(_, r)| r.clone()).unwrap_or_default()
    };
    let md5 = [from_server(&[(b'R', b"\0\0\0\x05abcd")]), from_client(b'p', b"md5xyz\0")];
    assert_eq!(record(&md5), "{\"tx_id\":2,\"request\":{\"password_redacted\":true}}");
    let sasl = [
        from_server(&[(b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0")]),
        from_client(b'p', b"SCRAM-SHA-256\0\0\0\0\x03n,,"),
        from_server(&[(b'R', b"\0\0\0\x0br=1")]),
        from_client(b'p', b"c=biws"),
        from_server(&[(b'R', b"\0\0\0\x0cv=2"), (b'R', b"\0\0\0\0"), READY]),
    ];
    assert_eq!(
        record(&sasl),
        "{\"tx_id\":3,\"request\":{\"sasl_response\":\"c=biws\"},\
         \"response\":{\"authentication_sasl_final\":\"v=2\",\"message\":\"authentication_ok\"}}"
    );
}

#[test]
fn encryption_and_cancellation() {
    let ssl = c(b"\0\0\0\x08\x04\xd2\x16\x2f");
    let out = play_all(PROTOCOL, None, &[ssl.clone(), s(b"N"), startup(), accepted()]);
    assert_eq!(
        out.record,
        "{\"tx_id\":1,\"request\":{\"message\":\"SSL Request\"},\"response\":{\"ssl_accepted\":false}}"
    );
    assert_eq!(out.all.len(), 2);
    let cancel = c(b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x05\0\0\0\x06");
    assert_eq!(
        play_all(PROTOCOL, None, &[cancel]).record,
        "{\"tx_id\":1,\"request\":{\"message\":\"cancel_request\",\"process_id\":5,\"secret_key\":6}}"
    );
}

/// Lengths that can't be end the flow with their event, the largest is waited for, and a text without its end stops
/// its direction only.
#[test]
fn bad_lengths_and_texts() {
    for length in [0, 3] {
        let mut bad = vec![b'Q'];
        bad.extend_from_slice(&u32::to_be_bytes(length));
        assert_eq!(outcomes(&[c(&bad)]), ["invalid_length {\"tx_id\":2}", "error"]);
        bad[0] = b'C';
        let session = [from_client(b'Q', b"q\0"), s(&bad)];
        let query = "{\"tx_id\":2,\"request\":{\"simple_query\":\"q\"}}";
        assert_eq!(outcomes(&session), [query, "invalid_length {\"tx_id\":3}", "error"]);
    }
    assert_eq!(outcomes(&[c(b"Q\xff\xff\xff\xffabc")]), [""; 0]);
    let stuck = [from_client(b'Q', b"abc"), from_client(b'Q', b"q\0")];
    assert_eq!(outcomes(&stuck), [""; 0]);
    let malformed = [
        from_client(b'Q', b"q\0"),
        from_server(&[(b'T', b"\0\x03a\0"), (b'D', b"\0\x01\0\0\0\x64abc"), DONE, READY]),
    ];
    assert_eq!(
        outcomes(&malformed),
        [
            "malformed_response malformed_response {\"tx_id\":2,\"request\":{\"simple_query\":\"q\"},\
          \"response\":{\"row_description_malformed\":true,\"field_count\":3,\"data_rows\":1,\
          \"data_size\":0,\"command_completed\":\"X\"}}"
        ]
    );
}

/// The oldest open query is closed for the next one, and endless messages of a response are dropped.
#[test]
fn floods_are_bounded() {
    let queries: Vec<u8> = (0..2000).flat_map(|_| message(b'Q', b"q\0")).collect();
    let all = outcomes(&[c(&queries)]);
    let crowded = all.iter().filter(|line| line.starts_with("too_many_transactions")).count();
    // As many as Suricata closes of as many: the first transaction is still there here.
    assert_eq!((all.len(), crowded), (2000, 2000 - 1024));
    let parameters: Vec<u8> = (0..5000).flat_map(|_| message(b'S', b"a\0b\0")).collect();
    let all = outcomes(&[from_client(b'Q', b"q\0"), s(&parameters)]);
    assert!(all[0].starts_with("too_many_responses "), "{}", all[0]);
    assert_eq!(all[0].matches("{\"a\":\"b\"}").count(), 64);
}

/// 64 messages of a response are kept; the sum of rows takes a place too, and waits until there is one for both.
#[test]
fn messages_of_a_response_are_bounded() {
    let parameters = |n| vec![(b'S', &b"a\0b\0"[..]); n];
    let copy: [(u8, &[u8]); 4] = [(b'H', b"\0\0\x01\0\0"), (b'd', b"abc"), (b'c', b""), READY];
    let error: (u8, &[u8]) = (b'E', b"SERROR\0C42601\0Mhi\0\0");
    for (n, rest, has_event, expected) in [
        (62, vec![DONE, READY], false, "\"command_completed\":\"X\""),
        (62, vec![DONE, DONE, READY], true, "\"command_completed\":\"X\""),
        (
            61,
            vec![ROW, DONE, READY],
            false,
            "\"data_rows\":1,\"data_size\":2,\"command_completed\":\"X\"",
        ),
        (63, vec![ROW, DONE, DONE], true, "]"),
        (63, vec![ROW, DONE, error, READY], true, "\"message\":\"hi\""),
        (60, copy.to_vec(), false, "\"copy_data_out\":{\"row_count\":1,\"data_size\":3}"),
        (62, copy.to_vec(), true, "\"copy_out_response\":{\"malformed\":false,\"columns\":1}"),
    ] {
        let answer = from_server(&[parameters(n), rest].concat());
        let all = outcomes(&[from_client(b'Q', b"q\0"), answer, from_client(b'Q', b"r\0")]);
        let first = all.first().unwrap();
        assert_eq!(first.starts_with("too_many_responses {"), has_event, "{n} {first}");
        assert!(first.contains(expected), "{n} {expected} {first}");
        assert_eq!(first.matches("{\"a\":\"b\"}").count(), n);
        assert_eq!(first.contains("command_completed"), expected.contains("command_completed"));
        assert_eq!(first.contains("copy_data_out"), expected.contains("copy_data_out"));
    }
    let malformed = [parameters(64), vec![(b'T', &b"\0\x05co"[..])]].concat();
    let all = outcomes(&[from_client(b'Q', b"q\0"), from_server(&malformed)]);
    assert!(all[0].starts_with("malformed_response too_many_responses {"), "{}", all[0]);
}

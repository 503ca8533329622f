//! POP3 sessions made by hand. What each comes to was measured with Suricata 8.0.7, unless a comment says
//! otherwise.

mod play;

use gabion_proto::pop3::PROTOCOL;
use gabion_proto::pop3::limits::{self, LISTED_BYTES_MAX, REQUEST_BYTES_MAX};
use gabion_record::Direction;
use play::{c, play, play_all, s};

const GREETING: &[u8] = b"+OK hello\r\n";

/// Events and records after the greeting, in few words.
fn outcomes(session: &[(Direction, &[u8])]) -> Vec<String> {
    let mut all = vec![s(GREETING)];
    all.extend(session.iter().map(|(d, bytes)| (*d, bytes.to_vec())));
    let out = play_all(PROTOCOL, None, &all);
    let short = |record: &str| {
        record
            .replace("\"request\":{\"command\":", "")
            .replace("\"response\":{\"success\":true,\"status\":\"OK\",\"header\":", "+")
            .replace("\"response\":{\"success\":false,\"status\":\"ERR\",\"header\":", "-")
    };
    let line = |(events, record): &(Vec<&str>, String)| match events.as_slice() {
        [] => short(record),
        events => format!("{} {}", events.join(" "), short(record)),
    };
    let mut lines: Vec<String> = out.all.iter().skip(1).map(line).collect();
    if out.is_error {
        lines.push("error".to_owned());
    }
    lines
}

fn cl(bytes: &[u8]) -> (Direction, &[u8]) {
    (Direction::ToServer, bytes)
}

fn se(bytes: &[u8]) -> (Direction, &[u8]) {
    (Direction::ToClient, bytes)
}

#[test]
fn commands_and_responses() {
    let session = [
        cl(b"USER bob\r\n"),
        se(b"+OK pw?\r\n"),
        cl(b"PASS x y\r\n"),
        se(b"-ERR no\r\n"),
        cl(b"quit\r\n"),
        se(b"+OK\r\n"),
        se(b"+OK again\r\n"),
        cl(b"USER a\r\nSTAT\r\n"),
        se(b"+OK\r\n+OK 1 2\r\n"),
    ];
    assert_eq!(
        outcomes(&session),
        [
            "{\"USER\",\"args\":[\"bob\"]},+\"pw?\",\"data\":[]}}",
            "incorrect_argument_count {\"PASS\",\"args\":[\"x\",\"y\"]},-\"no\",\"data\":[]}}",
            "unknown_command {\"quit\",\"args\":[]},+\"\",\"data\":[]}}",
            "{+\"again\",\"data\":[]}}",
            "{\"USER\",\"args\":[\"a\"]},+\"\",\"data\":[]}}",
            "{\"STAT\",\"args\":[]},+\"1 2\",\"data\":[]}}",
        ]
    );
}

#[test]
fn responses_of_several_lines() {
    let session = [
        cl(b"LIST\r\n"),
        se(b"+OK 2\r\n1 10\r\n+OK 20\r\n.\r\n"),
        cl(b"LIST 1\r\n"),
        se(b"+OK 1 10\r\n"),
        cl(b"TOP 1 0\r\n"),
        se(b"+OK\r\n..h\r\n\r\nlast\r\n.\r\n"),
        // Messages are not kept.
        cl(b"RETR 1\r\n"),
        se(b"+OK x\r\nbody\r\n.\r\n"),
        cl(b"RETR 2\r\n"),
        se(b"-ERR x\r\n"),
        cl(b"UIDL\r\n"),
        se(b"+OK\r\n1 a"),
    ];
    assert_eq!(
        outcomes(&session),
        [
            "{\"LIST\",\"args\":[]},+\"2\",\"data\":[\"1 10\",\"+OK 20\"]}}",
            "{\"LIST\",\"args\":[\"1\"]},+\"1 10\",\"data\":[]}}",
            "{\"TOP\",\"args\":[\"1\",\"0\"]},+\"\",\"data\":[\".h\",\"\",\"last\"]}}",
            "{\"RETR\",\"args\":[\"1\"]}}",
            "{\"RETR\",\"args\":[\"2\"]},-\"x\",\"data\":[]}}",
            "{\"UIDL\",\"args\":[]}}",
        ]
    );
    // Of an unknown command the end decides that came with the first line.
    let all = [s(GREETING), c(b"FOO\r\n"), s(b"+OK\r\na\r\n.\r\n")];
    assert!(play(PROTOCOL, None, &all, 0).all[1].1.ends_with("\"data\":[\"a\"]}}"));
}

#[test]
fn authentications() {
    let session = [
        cl(b"AUTH PLAIN\r\n"),
        se(b"+ \r\n"),
        cl(b"AGJvYgBwdw==\r\n"),
        se(b"+OK in\r\n"),
        cl(b"STAT\r\n"),
        se(b"+OK 0 0\r\n"),
    ];
    assert_eq!(
        outcomes(&session),
        [
            "{\"AUTH\",\"args\":[\"PLAIN\"]},+\"\",\"data\":[]}}",
            "{\"<SASL DATA>\",\"args\":[]},+\"in\",\"data\":[]}}",
            "{\"STAT\",\"args\":[]},+\"0 0\",\"data\":[]}}",
        ]
    );
    let refused = [cl(b"AUTH PLAIN\r\n"), se(b"-ERR\r\n"), cl(b"STAT\r\n"), se(b"+OK\r\n")];
    assert_eq!(outcomes(&refused)[1], "{\"STAT\",\"args\":[]},+\"\",\"data\":[]}}");
    assert_eq!(
        outcomes(&[cl(b"AUTH LOGIN\r\n"), se(b"+ VXNlcm5hbWU6\r\n")]),
        ["{\"AUTH\",\"args\":[\"LOGIN\"]}}", "error"]
    );
    let other = [cl(b"AUTH PLAIN\r\n"), se(b"+ \r\n"), cl(b"not base 64\r\n")];
    assert_eq!(outcomes(&other)[1], "error");
}

#[test]
fn lines_that_are_none() {
    for (line, count) in [(&b"hello\r\n"[..], 2), (b"+OKAY\r\n", 2), (b"+ x\r\n", 2)] {
        let all = outcomes(&[cl(b"STAT\r\n"), se(line), cl(b"STAT\r\n")]);
        assert_eq!((all.len(), all.last().map(String::as_str)), (count, Some("error")));
    }
    let all = outcomes(&[cl(b"STAT\r\n"), se(b"+OK\r\n"), cl(b"\r\n"), se(b"+OK\r\n")]);
    assert_eq!((all.len(), all.last().map(String::as_str)), (2, Some("error")));
    // The first line of a client that speaks something else leaves the server's.
    assert_eq!(outcomes(&[cl(b"US-ER a\r\n"), se(b"+OK\r\n")]), ["{+\"\",\"data\":[]}}"]);
}

/// Lines, lists and requests that nobody answers are bounded.
#[test]
fn bad_input_is_bounded() {
    let request = |len: usize| [b"USER ".as_slice(), &vec![b'x'; len - 7], b"\r\n"].concat();
    for (len, count) in [(REQUEST_BYTES_MAX, 0), (REQUEST_BYTES_MAX + 1, 1)] {
        let out = play(PROTOCOL, None, &[c(&request(len))], 0);
        assert_eq!(out.events.len(), count);
    }
    let response = |len: usize| [b"+OK ".as_slice(), &vec![b'x'; len - 6], b"\r\n"].concat();
    let events = |len| play(PROTOCOL, None, &[s(&response(len))], 0).events;
    let longest = limits::RESPONSE_BYTES_MAX;
    assert_eq!((events(longest).len(), events(longest + 1)), (0, vec!["response_too_long"]));
    // A line without an end, each byte a segment.
    let out = play(PROTOCOL, None, &[s(&vec![b'+'; limits::LINE_BYTES_MAX + 2])], 1);
    assert!(out.is_error);
    let list = [b"+OK\r\n".as_slice(), &b"1 2\r\n".repeat(40_000), b".\r\n"].concat();
    let out = play(PROTOCOL, None, &[c(b"LIST\r\n"), s(&list)], 0);
    let kept = out.record.matches("\"1 2\"").count();
    assert_eq!(kept, LISTED_BYTES_MAX / (3 + size_of::<Vec<u8>>()));
    assert_eq!(limits::reached::LISTED_BYTES_MAX.full_name(), "proto.pop3.listed_bytes_max");
    let out = play(PROTOCOL, None, &[c(&b"STAT\r\n".repeat(limits::TXS_PER_FLOW_MAX + 1))], 0);
    const OPEN: usize = limits::OPEN_TXS_MAX as usize;
    let flooded = out.all.iter().filter(|(e, _)| e == &["too_many_transactions"]).count();
    assert_eq!(
        (out.all.len(), flooded),
        (limits::TXS_PER_FLOW_MAX, limits::TXS_PER_FLOW_MAX - OPEN)
    );
    let limit = &limits::reached::TXS_PER_FLOW_MAX;
    let lost = gabion_record::limits::take_reached().times_reached(limit);
    assert_eq!((limit.full_name().as_str(), lost), ("proto.pop3.txs_per_flow_max", 1));
}

//! HTTP/2 sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::files::FileState;
use gabion_proto::http2::PROTOCOL;
use gabion_proto::http2::limits::{
    FRAMES_MAX, REASSEMBLY_BYTES_MAX, SHORT_STREAMS_MAX, STREAMS_MAX, reached,
};
use gabion_proto::{Endpoints, Input, Outcome, ParseContext};
use gabion_record::applayer::Transport;
use gabion_record::{Direction, Tree};
use play::{c, play, play_all, s};

type Segment = (Direction, Vec<u8>);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Kinds and flags of frames (RFC 9113 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A header block of literals without indexing (RFC 7541 6.2.2).
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in fields {
        out.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

const REQUEST: [(&str, &str); 3] = [(":method", "GET"), (":path", "/p"), (":authority", "ex.com")];
const RESPONSE: [(&str, &str); 2] = [(":status", "200"), ("server", "srv")];

fn request(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block(&REQUEST))
}

const FIELDS: &str = "\"request_headers\":[{\"name\":\":method\",\"value\":\"GET\"},\
    {\"name\":\":path\",\"value\":\"/p\"},{\"name\":\":authority\",\"value\":\"ex.com\"}]";
const ANSWERED: &str = "\"response_headers\":[{\"name\":\":status\",\"value\":\"200\"},\
    {\"name\":\"server\",\"value\":\"srv\"}]";
const BASIC: &str = "\"http_method\":\"GET\",\"hostname\":\"ex.com\"";

#[test]
fn a_session_has_streams_and_frames_of_the_connection() {
    let response = frame(HEADERS, END_HEADERS, 1, &block(&RESPONSE));
    let session = [
        c(&[PREFACE, &frame(SETTINGS, 0, 0, b"\0\x03\0\0\0\x64"), &request(1)].concat()),
        s(&[frame(SETTINGS, 0, 0, b""), frame(SETTINGS, 1, 0, b""), response].concat()),
        s(&frame(DATA, END_STREAM, 1, b"hello")),
        c(&frame(GOAWAY, 0, 0, b"\0\0\0\x01\0\0\0\x02")),
    ];
    let out = play_all(PROTOCOL, None, &session);
    let records: Vec<&str> = out.all.iter().map(|(_, record)| record.as_str()).collect();
    let stream = format!(
        "{{\"version\":\"2\",{FIELDS},{ANSWERED},\"url\":\"/p\",\"status\":200,{BASIC},\
         \"http2\":{{\"stream_id\":1}}}}"
    );
    let settings = "{\"version\":\"2\",\"http2\":{\"stream_id\":0,\"request\":{\"settings\":\
        [{\"settings_id\":\"SETTINGSMAXCONCURRENTSTREAMS\",\"settings_value\":100}]}}}";
    let away = "{\"version\":\"2\",\"http2\":{\"stream_id\":0,\"request\":\
        {\"error_code\":\"INTERNALERROR\"}}}";
    assert_eq!(records, [settings, &stream, away]);
}

/// A block in several frames is one, and a session is followed from its middle.
#[test]
fn blocks_continue() {
    let fields = block(&REQUEST);
    let (a, b) = fields.split_at(17);
    let session = [
        c(&frame(HEADERS, END_STREAM, 5, a)),
        c(&frame(CONTINUATION, 0, 5, &b[..3])),
        c(&frame(CONTINUATION, END_HEADERS, 5, &b[3..])),
    ];
    let record = play_all(PROTOCOL, None, &session).record;
    assert!(record.contains(FIELDS), "{record}");
    // One that belongs to nothing is read by itself.
    let alone = play_all(PROTOCOL, None, &[c(&frame(CONTINUATION, END_HEADERS, 7, &fields))]);
    assert!(alone.record.contains(FIELDS));
}

/// Fields that come to the table, and indices that ask for them.
fn kept(count: usize) -> Vec<u8> {
    let field = |n| [format!("\x40\x05{n:05}\x7f\x24").as_bytes(), &[b'v'; 163]].concat();
    (0..count).flat_map(field).collect()
}

/// Settings of a side say how large the table of the other is; of one that is larger than what is kept the first entries
/// stay, and it is an event of the block with which it became so (measured with Suricata 8.0.7).
#[test]
fn tables_are_as_large_as_their_receiver_says() {
    let table = |size: u32| frame(SETTINGS, 0, 0, &[b"\0\x01", &size.to_be_bytes()[..]].concat());
    let block = |stream, fields: &[u8]| {
        let block = [b"\x82\x84\x86", fields].concat();
        let mut parts = block.chunks(16_000).enumerate();
        let (_, first) = parts.next().expect("a part");
        let is_whole = block.len() <= 16_000;
        let mut all = frame(HEADERS, if is_whole { END_HEADERS } else { 0 }, stream, first);
        for (n, part) in parts {
            let is_last = (n + 1) * 16_000 >= block.len();
            let flags = if is_last { END_HEADERS } else { 0 };
            all.extend(frame(CONTINUATION, flags, stream, part));
        }
        all
    };
    // Index 62 is that of the newest entry, 72 that of the eleventh, and so on.
    let asked = b"\xbe\xc8\xff\xc7\x01";
    type Case<'a> = (Option<u32>, Option<u32>, usize, bool, &'a [&'a str]);
    let cases: [Case<'_>; 8] = [
        (None, None, 100, false, &["00099", "00089"]),
        (Some(65_536), None, 100, false, &["00099", "00089"]),
        (None, Some(65_536), 300, false, &["00299", "00289", "00035"]),
        (None, Some(1024), 100, false, &["00099"]),
        (None, Some(1 << 20), 300, false, &["00299", "00289", "00035"]),
        (None, Some(1 << 20), 327, false, &["00326", "00316", "00062"]),
        (None, Some(1 << 20), 328, true, &["00326", "00316", "00062"]),
        (None, Some(66_000), 400, true, &["00326", "00316"]),
    ];
    for (own, of_server, count, has_event, names) in cases {
        let first = [PREFACE.to_vec(), own.map(table).unwrap_or_default()].concat();
        let session = [
            c(&first),
            s(&of_server.map(table).unwrap_or_default()),
            c(&block(1, &kept(count))),
            c(&block(3, asked)),
        ];
        let session: Vec<Segment> = session.into_iter().filter(|(_, b)| !b.is_empty()).collect();
        let mut large = Tree::default();
        large.set("max-reassembly-size", "1 MiB");
        let out = play_all(PROTOCOL, Some(&large), &session);
        let requests: Vec<_> = out.all.iter().filter(|(_, r)| r.contains(":method")).collect();
        let [(events, _), (_, record)] = requests[..] else {
            panic!("{} requests", requests.len())
        };
        assert_eq!(events.contains(&"header_table_overflow"), has_event, "{of_server:?} {count}");
        let found: Vec<&str> =
            record.split("\"name\":\"").filter(|n| n.starts_with('0')).map(|n| &n[..5]).collect();
        assert_eq!(found, names, "{own:?} {of_server:?} {count}");
    }
}

/// State and size of the files of all transactions, those of the client first.
fn files(session: &[Segment], piece: usize) -> Vec<(FileState, u64)> {
    let settings = (PROTOCOL.configure)(None).unwrap();
    let mut parser = (PROTOCOL.open)(&settings, Transport::Tcp);
    let ends = Endpoints { is_tcp: true, ..Endpoints::default() };
    for (d, segment) in session {
        let mut held = Vec::new();
        for bytes in segment.chunks(if piece == 0 { segment.len() } else { piece }) {
            held.extend_from_slice(bytes);
            let mut cx = ParseContext::new(0, *d, &ends);
            match parser.parse(&mut cx, Input::Data { bytes: &held, eof: false }) {
                Outcome::Done => held.clear(),
                Outcome::Incomplete { consumed, .. } => drop(held.drain(..consumed)),
                Outcome::Error => panic!("{session:?}"),
            }
        }
    }
    let txs = (0..parser.next_tx_id()).filter_map(|id| parser.tx(id));
    let lists = txs.flat_map(|tx| Direction::BOTH.map(|d| tx.files(d)));
    lists.flatten().flat_map(|list| &list.files).map(|f| (f.state, f.size)).collect()
}

/// A body with trailers is not closed by them, and one without data is a file, too.
#[test]
fn bodies_end_with_data_or_trailers() {
    use FileState::{Closed, Open, Truncated};
    let open = |stream| frame(HEADERS, END_HEADERS, stream, &block(&REQUEST));
    let answer = frame(HEADERS, END_HEADERS, 1, &block(&RESPONSE));
    let trailers = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&[("x-trailer", "t")]));
    let more = frame(HEADERS, END_HEADERS, 1, &block(&[("x-trailer", "t")]));
    let body = frame(DATA, 0, 1, b"hello");
    let (last, none) = (frame(DATA, END_STREAM, 1, b"more"), frame(DATA, END_STREAM, 1, b""));
    type Case<'a> = (&'a [&'a [u8]], &'a [&'a [u8]], &'a [(FileState, u64)]);
    let cases: [Case<'_>; 8] = [
        (&[&request(1)], &[&answer, &body, &trailers], &[(Truncated, 5)]),
        (&[&open(1), &body, &trailers], &[&answer, &last], &[(Truncated, 5), (Closed, 4)]),
        (&[&open(1), &body, &trailers], &[&trailers], &[(Truncated, 5)]),
        (&[&open(1), &body], &[&answer, &body, &trailers], &[(Open, 5), (Truncated, 5)]),
        (&[&request(1)], &[&answer, &body, &more, &none], &[(Closed, 5)]),
        (&[&request(1)], &[&answer, &none], &[(Closed, 0)]),
        (
            &[&open(1), &none],
            &[&answer, &frame(DATA, 0, 1, b""), &trailers],
            &[(Closed, 0), (Truncated, 0)],
        ),
        (&[&request(1)], &[&trailers], &[]),
    ];
    for (client, server, expected) in cases {
        let apart = [client.iter().map(|f| c(f)).collect(), server.iter().map(|f| s(f)).collect()];
        let apart: Vec<Segment> = apart.into_iter().flat_map(|all: Vec<Segment>| all).collect();
        for session in [vec![c(&client.concat()), s(&server.concat())], apart] {
            for piece in [0, 1, 7] {
                assert_eq!(files(&session, piece), expected, "{session:?}");
            }
        }
    }
}

/// Names of the events of all transactions.
fn events(session: &[Segment], settings: Option<&Tree>) -> Vec<&'static str> {
    let out = play_all(PROTOCOL, settings, session);
    out.all.into_iter().flat_map(|(events, _)| events).collect()
}

#[test]
fn irregular_frames_are_events() {
    let padded = [&b"\xff"[..], &block(&REQUEST)].concat();
    let mismatch = [&REQUEST[..], &[("host", "U@other.com")]].concat();
    let user = block(&[(":authority", "u:p@ex.com")]);
    let cases: [(Vec<u8>, &[&str]); 10] = [
        (frame(HEADERS, END_HEADERS | 8, 1, &padded), &["invalid_frame_data"]),
        (frame(HEADERS, END_HEADERS, 1, b"\x80"), &["invalid_header"]),
        (frame(HEADERS, END_HEADERS, 1, b"\0\x05ab"), &["invalid_frame_data"]),
        (frame(RST_STREAM, 0, 1, b"\0\0\x02"), &["invalid_frame_length"]),
        (frame(GOAWAY, 0, 0, b"\0\0\0\0\0\0\0"), &["invalid_frame_length"]),
        (frame(DATA, 0, 0, b"x"), &["data_stream_zero"]),
        (frame(HEADERS, END_HEADERS, 1, &block(&mismatch)), &["authority_host_mismatch"]),
        (frame(HEADERS, END_HEADERS, 1, &user), &["userinfo_in_uri"]),
        (frame(DATA, END_STREAM, 1, &[b'd'; 66_000]), &["long_frame_data"]),
        (request(1), &[]),
    ];
    for (bytes, expected) in cases {
        assert_eq!(events(&[c(&bytes)], None), expected);
    }
    let end = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&RESPONSE));
    let again = [c(&request(1)), s(&[end.clone(), end].concat())];
    assert_eq!(events(&again, None), ["stream_id_reuse"]);
}

/// Runs of Suricata 8.0.7 over connections in which an event has its reason several times.
#[test]
fn events_are_raised_each_time() {
    let headers = |pairs: &[(&str, &str)]| frame(HEADERS, END_HEADERS, 1, &block(pairs));
    let twice = |bytes: Vec<u8>| bytes.repeat(2);
    let cases: [(Vec<u8>, &[&str]); 12] = [
        (twice(frame(RST_STREAM, 0, 1, b"\0\0\x02")), &["invalid_frame_length"; 2]),
        (frame(HEADERS, END_HEADERS, 1, b"\x80\xff\x01\x80"), &["invalid_header"; 3]),
        (twice(frame(HEADERS, END_HEADERS, 1, b"\0\x09a")), &["invalid_frame_data"; 2]),
        (headers(&[(":authority", "a@b"), (":authority", "a@b")]), &["userinfo_in_uri"; 2]),
        (twice(headers(&[(":authority", "a@b")])), &["userinfo_in_uri"; 2]),
        // Each block is looked at alone, and the last field counts.
        (twice(headers(&[(":authority", "a"), ("host", "b")])), &["authority_host_mismatch"; 2]),
        ([headers(&[(":authority", "a")]), headers(&[("host", "b")])].concat(), &[]),
        (headers(&[(":authority", "a"), ("host", "b"), ("host", "a")]), &[]),
        (
            headers(&[(":authority", "a"), ("host", "a"), ("host", "b")]),
            &["authority_host_mismatch"],
        ),
        (headers(&[(":authority", "c"), (":authority", "a"), ("host", "a")]), &[]),
        (
            headers(&[(":authority", "a"), (":authority", "c"), ("host", "a")]),
            &["authority_host_mismatch"],
        ),
        (headers(&[(":authority", "a"), ("host", "A")]), &[]),
    ];
    for (bytes, expected) in cases {
        assert_eq!(events(&[c(&bytes)], None), expected, "{bytes:?}");
    }
    let hosts = block(&[(":authority", "a@b"), ("host", "c")]);
    let expected = ["userinfo_in_uri", "authority_host_mismatch"];
    assert_eq!(
        events(&[c(&request(1)), s(&frame(HEADERS, END_HEADERS, 1, &hosts))], None),
        expected
    );
    let end = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&RESPONSE));
    let late = [frame(RST_STREAM, 0, 1, b"\0\0\0\x01"), frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\x01")]
        .concat();
    let frames = [end.repeat(4), late, frame(20, 0, 1, b"aa")].concat();
    assert_eq!(events(&[c(&request(1)), s(&frames)], None), ["stream_id_reuse"; 4]);
    let range = |value: &str, data: &[u8]| {
        let fields = block(&[(":status", "200"), ("content-range", value)]);
        let answer = [&frame(HEADERS, END_HEADERS, 1, &fields), data].concat();
        events(&[c(&request(1)), s(&answer)], None)
    };
    let data = frame(DATA, 0, 1, b"ab").repeat(2);
    assert_eq!(range("x", &data), ["invalid_range"]);
    assert_eq!(range("x", b""), [""; 0]);
    assert_eq!(range("bytes 1-2/3", &data), [""; 0]);
}

/// Streams that are opened and reset end the connection at the limit.
#[test]
fn a_rapid_reset_is_bounded() {
    let mut bytes = PREFACE.to_vec();
    for n in 0..STREAMS_MAX as u32 + 100 {
        bytes.extend(request(2 * n + 1));
        bytes.extend(frame(RST_STREAM, 0, 2 * n + 1, b"\0\0\0\x08"));
    }
    let mut small = Tree::default();
    small.set("max-streams", "50");
    let out = play(PROTOCOL, Some(&small), &[c(&bytes)], 0);
    assert!(out.is_error && out.all.len() == 50);
    assert!(out.all.iter().all(|(events, _)| events == &["too_many_streams"]));
    assert_eq!(out.progress, [7, 7]);
    assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::STREAMS_MAX), 1);
}

/// Header blocks without end, and frames of a stream without end, take no more than their limits.
#[test]
fn floods_are_bounded() {
    let piece = [b'x'; 16_000];
    let mut bytes = frame(HEADERS, 0, 1, &piece);
    for _ in 0..40 {
        bytes.extend(frame(CONTINUATION, 0, 1, &piece));
    }
    bytes.extend(frame(CONTINUATION, END_HEADERS, 1, b""));
    assert_eq!(events(&[c(&bytes)], None), ["reassembly_limit_reached", "invalid_frame_data"]);
    assert!(
        gabion_record::limits::take_reached().times_reached(&reached::REASSEMBLY_BYTES_MAX) > 0
    );
    const { assert!(REASSEMBLY_BYTES_MAX < 40 * 16_000) };
    let mut few = Tree::default();
    few.set("max-frames", "5");
    let frames = frame(SETTINGS, 0, 3, b"\0\x03\0\0\0\x64").repeat(8);
    assert_eq!(events(&[c(&frames)], Some(&few)), ["too_many_frames"; 3]);
}

/// Settings without end are as many transactions as their bytes allow, and frames of a stream as many as the default says.
#[test]
fn floods_of_settings_are_bounded() {
    let value = b"\0\x03\0\0\0\x64";
    let count = 3_000;
    let frames = frame(SETTINGS, 0, 0, value).repeat(count);
    let out = play(PROTOCOL, None, &[c(&frames)], 0);
    let allowed = SHORT_STREAMS_MAX + frames.len() as u64 / 80;
    assert_eq!((out.all.len() as u64, out.is_error), (allowed, false));
    let raised = out.all.iter().filter(|(events, _)| events == &["too_many_streams"]);
    assert_eq!(raised.count(), 1);
    let counts = gabion_record::limits::take_reached();
    assert_eq!(counts.times_reached(&reached::SHORT_STREAMS_MAX), count as u64 - allowed);
    let frames = frame(SETTINGS, 0, 3, value).repeat(FRAMES_MAX as usize + 10);
    let out = play(PROTOCOL, None, &[c(&frames)], 0);
    assert_eq!(out.events, ["too_many_frames"; 10]);
    let counts = gabion_record::limits::take_reached();
    assert_eq!(counts.times_reached(&reached::FRAMES_MAX), 10);
}

/// Bodies that unpack to too much are dropped, several of them in a flow too.
#[test]
fn bombs_are_dropped() {
    let packed = |bytes: &[u8]| {
        let mut out = Vec::new();
        let level = flate2::Compression::best();
        let mut packer = flate2::read::GzEncoder::new(bytes, level);
        std::io::Read::read_to_end(&mut packer, &mut out).unwrap();
        out
    };
    let bomb = packed(&vec![0; 3_000_000]);
    let fields = block(&[(":status", "200"), ("content-encoding", "gzip")]);
    let mut bytes = Vec::new();
    for stream in [1, 3, 5] {
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &fields));
        bytes.extend(frame(DATA, END_STREAM, stream, &bomb));
    }
    let out = play(PROTOCOL, None, &[s(&bytes)], 0);
    assert!(out.all.iter().all(|(events, _)| events == &["compression_bomb"]));
    let mut plain = frame(HEADERS, END_HEADERS, 1, &fields);
    plain.extend(frame(DATA, END_STREAM, 1, b"not packed"));
    assert_eq!(events(&[s(&plain)], None), ["failed_decompression"]);
    let mut good = frame(HEADERS, END_HEADERS, 1, &fields);
    good.extend(frame(DATA, END_STREAM, 1, &packed(b"packed")));
    assert!(events(&[s(&good)], None).is_empty());
}

/// A question and its answer (RFC 8484 4): the record is one of DNS, with the request it came in.
#[test]
fn dns_is_found() {
    let target = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
    let fields = [(":method", "GET"), (":path", target), ("accept", "application/dns-message")];
    let answer = b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01\
        \xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x01\x02\x03\x04";
    let kind = block(&[(":status", "200"), ("content-type", "application/dns-message")]);
    let session = [
        c(&[PREFACE, &frame(HEADERS, END_STREAM | END_HEADERS, 1, &block(&fields))].concat()),
        s(&frame(HEADERS, END_HEADERS, 1, &kind)),
        s(&frame(DATA, END_STREAM, 1, answer)),
    ];
    let record = play_all(PROTOCOL, None, &session).record;
    let expected = "{\"version\":3,\"type\":\"response\",\"tx_id\":0,\"id\":0,\
        \"flags\":\"8180\",\"qr\":true,\"rd\":true,\"ra\":true,\"opcode\":0,\"rcode\":\"NOERROR\",\
        \"queries\":[{\"rrname\":\"www.example.com\",\"rrtype\":\"A\"}],\"answers\":[{\"rrname\":\
        \"www.example.com\",\"rrtype\":\"A\",\"ttl\":60,\"rdata\":\"1.2.3.4\"}],\
        \"grouped\":{\"A\":[\"1.2.3.4\"]}}";
    assert_eq!(record, expected);
    let long = frame(DATA, 0, 1, &[0; 40_000]);
    let post = block(&[(":method", "POST"), ("content-type", "application/dns-message")]);
    let session = [c(&frame(HEADERS, END_HEADERS, 1, &post)), c(&long), c(&long)];
    assert_eq!(events(&session, None), ["dns_request_too_long"]);
}

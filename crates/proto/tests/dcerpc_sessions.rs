//! DCE/RPC sessions made by hand. What each comes to was measured with Suricata 8.0.7.

mod play;

use gabion_proto::dcerpc::PROTOCOL;
use gabion_proto::dcerpc::limits::TXS_PER_FLOW_MAX;
use gabion_proto::{Endpoints, Input, LogOptions, Outcome, ParseContext, Parser};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use gabion_record::{Direction, Tree};
use play::{c, play_all, s};

/// 367abb81-9844-35f1-ad32-98f038001003 in little-endian order.
const SERVICES: &[u8] = b"\x81\xbb\x7a\x36\x44\x98\xf1\x35\xad\x32\x98\xf0\x38\0\x10\x03";
const IS_SERVICES: &str = "\"uuid\":\"367abb81-9844-35f1-ad32-98f038001003\",\"version\":\"2.0\"";

/// A message by C706 12.6.3.1, its numbers in little-endian order.
fn message(kind: u8, call_id: u32, body: &[u8]) -> Vec<u8> {
    let len = (16 + body.len()) as u16;
    let mut m = vec![5, 0, kind, 3, 0x10, 0, 0, 0];
    m.extend_from_slice(&len.to_le_bytes());
    m.extend_from_slice(&[0, 0]);
    m.extend_from_slice(&call_id.to_le_bytes());
    m.extend_from_slice(body);
    m
}

/// A bind or alter_context that offers one interface as context 0.
fn bind(kind: u8, call_id: u32) -> Vec<u8> {
    let head = [&[0; 8][..], b"\x01\0\0\0", b"\0\0\x01\0"].concat();
    message(kind, call_id, &[&head, SERVICES, b"\x02\0\0\0", &[7; 20]].concat())
}

/// The answer to it.
fn ack(kind: u8, call_id: u32, result: u8) -> Vec<u8> {
    let head = [&[0; 8][..], b"\x04\x00135\0\0\0\x01\0\0\0"].concat();
    message(kind, call_id, &[&head, &[result, 0, 0, 0][..], &[7; 20]].concat())
}

fn request(call_id: u32, opnum: u8, stub: &[u8]) -> Vec<u8> {
    message(0, call_id, &[&[0; 6][..], &[opnum, 0], stub].concat())
}

fn response(call_id: u32, stub: &[u8]) -> Vec<u8> {
    message(2, call_id, &[&[0; 8][..], stub].concat())
}

/// Records, without what most have in common, and whether the parser stopped.
fn outcomes(session: &[(Direction, Vec<u8>)]) -> Vec<String> {
    let out = play_all(PROTOCOL, None, session);
    let short = |record: &str| {
        let record = record.replace(IS_SERVICES, "-").replace(",\"rpc_version\":\"5.0\"", "");
        record.replace("\"frag_cnt\":1,\"stub_data_size\"", "stub")
    };
    let mut all: Vec<String> = out.all.iter().map(|(_, record)| short(record)).collect();
    if out.is_error {
        all.push("error".to_owned());
    }
    all
}

const BOUND: &str = "{\"request\":\"BIND\",\"interfaces\":[{-,\"ack_result\":0}],\
    \"response\":\"BINDACK\",\"call_id\":1}";

#[test]
fn a_bind_and_calls() {
    let session = [
        c(&bind(11, 1)),
        s(&ack(12, 1, 0)),
        c(&request(2, 15, b"abcdefgh")),
        s(&response(2, b"wxyz")),
        c(&bind(14, 3)),
        s(&ack(15, 3, 2)),
        c(&request(4, 3, b"ab")),
        // Faults and what is no type are passed over.
        s(&message(3, 4, &[0; 16])),
        c(&message(99, 4, &[0; 16])),
    ];
    let expected = [
        BOUND,
        "{\"request\":\"REQUEST\",\"req\":{\"opnum\":15,stub:8},\
         \"interfaces\":[{-,\"ack_result\":0}],\"response\":\"RESPONSE\",\"res\":{stub:12},\
         \"call_id\":2}",
        "{\"request\":\"ALTER_CONTEXT\",\"response\":\"ALTER_CONTEXT_RESP\",\"call_id\":3}",
        "{\"request\":\"REQUEST\",\"req\":{\"opnum\":3,stub:2},\
         \"interfaces\":[{-,\"ack_result\":2}],\"response\":\"UNREPLIED\",\"call_id\":4}",
    ];
    assert_eq!(outcomes(&session), expected);
}

/// The first message may be an alter_context, with several interfaces.
#[test]
fn an_alter_context_may_be_first() {
    let mut offers = [&[0; 8][..], b"\x02\0\0\0"].concat();
    for id in 0..2 {
        offers.extend_from_slice(&[&[id, 0, 1, 0][..], SERVICES, b"\x02\0\0\0", &[7; 20]].concat());
    }
    let session = [
        c(&message(14, 1, &offers)),
        s(&ack(15, 1, 0)),
        c(&message(0, 2, b"\0\0\0\0\x01\0\x0f\0abcdefgh")),
        s(&response(2, b"wxyz")),
        c(&request(3, 16, b"abcdefgh")),
        s(&response(3, b"wxyz")),
    ];
    let call = |opnum: u8, ack: &str, id: u8| {
        format!(
            "{{\"request\":\"REQUEST\",\"req\":{{\"opnum\":{opnum},stub:8}},\"interfaces\":[{{-{ack}}}],\
             \"response\":\"RESPONSE\",\"res\":{{stub:12}},\"call_id\":{id}}}"
        )
    };
    let first = "{\"request\":\"ALTER_CONTEXT\",\"response\":\"ALTER_CONTEXT_RESP\",\"call_id\":1}";
    // The answer decided about the first of two.
    let expected = [first.to_owned(), call(15, "", 2), call(16, ",\"ack_result\":0", 3)];
    assert_eq!(outcomes(&session), expected);
}

/// A message whose numbers are in big-endian order (C706 14.1).
fn big(kind: u8, call_id: u32, body: &[u8]) -> Vec<u8> {
    let len = ((16 + body.len()) as u16).to_be_bytes();
    [&[5, 0, kind, 3, 0, 0, 0, 0][..], &len, &[0, 0], &call_id.to_be_bytes(), body].concat()
}

/// Messages in big-endian order. Suricata 8.0.7 has the same transactions with a bind_ack in little-endian order, in
/// which it reads all: it ends the flow at one in big-endian order, which here is read as it says.
#[test]
fn numbers_may_be_in_big_endian_order() {
    let uuid = b"\x36\x7a\xbb\x81\x98\x44\x35\xf1\xad\x32\x98\xf0\x38\0\x10\x03";
    let head = [&[0; 8][..], b"\x01\0\0\0", b"\0\0\x01\0"].concat();
    let offer = [&head, &uuid[..], b"\0\x01\0\x02", &[7; 20]].concat();
    let address = [&[0; 8][..], b"\0\x04135\0\0\0\x01\0\0\0"].concat();
    let taken = [&address, &[0, 0, 0, 0][..], &[7; 20]].concat();
    for ack in [ack(12, 1, 0), big(12, 1, &taken)] {
        let session = [
            c(&big(11, 1, &offer)),
            s(&ack),
            c(&big(0, 3, b"\0\0\0\x08\0\0\0\x0fabcdefgh")),
            s(&big(2, 3, b"\0\0\0\x04\0\0\0\0stub")),
        ];
        let of = "{\"uuid\":\"367abb81-9844-35f1-ad32-98f038001003\",\"version\":\"1.2\",\"ack_result\":0}";
        let expected = [
            format!(
                "{{\"request\":\"BIND\",\"interfaces\":[{of}],\"response\":\"BINDACK\",\"call_id\":1}}"
            ),
            format!(
                "{{\"request\":\"REQUEST\",\"req\":{{\"opnum\":15,stub:8}},\"interfaces\":[{of}],\
                 \"response\":\"RESPONSE\",\"res\":{{stub:12}},\"call_id\":3}}"
            ),
        ];
        assert_eq!(outcomes(&session), expected);
    }
}

#[test]
fn answers_find_the_oldest_call_of_their_number() {
    let session = [
        c(&request(3, 3, b"ab")),
        c(&request(3, 4, b"abc")),
        s(&response(3, b"w")),
        s(&response(3, b"ww")),
        s(&response(3, b"www")),
        // A call without stub data waits for more of it.
        c(&request(5, 6, b"")),
        s(&response(5, b"w")),
        s(&ack(12, 9, 0)),
    ];
    let expected = [
        "{\"request\":\"REQUEST\",\"req\":{\"opnum\":3,stub:2},\"response\":\"RESPONSE\",\
         \"res\":{stub:9},\"call_id\":3}",
        "{\"request\":\"REQUEST\",\"req\":{\"opnum\":4,stub:3},\"response\":\"RESPONSE\",\
         \"res\":{stub:10},\"call_id\":3}",
        "{\"request\":\"REQUEST_LOST\",\"response\":\"RESPONSE\",\"res\":{stub:11},\"call_id\":3}",
        "{\"request\":\"REQUEST_LOST\",\"response\":\"RESPONSE\",\"res\":{stub:9},\"call_id\":5}",
        "{\"request\":\"REQUEST_LOST\",\"response\":\"BINDACK\",\"call_id\":9}",
    ];
    assert_eq!(outcomes(&session), expected);
}

#[test]
fn messages_that_cannot_be_read_end_the_flow() {
    let cut = |mut m: Vec<u8>, len: u16| {
        m[8..10].copy_from_slice(&len.to_le_bytes());
        m
    };
    let mut version = request(2, 3, b"x");
    version[0] = 4;
    let mut offers = bind(11, 2);
    offers[24] = 3;
    for wrong in [
        cut(request(2, 3, b"x"), 0),
        cut(request(2, 3, b"x"), 15),
        version,
        offers,
        message(0, 2, b"abcd"),
        message(11, 2, b"abcd"),
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
    ] {
        let session = [c(&bind(11, 1)), s(&ack(12, 1, 0)), c(&wrong), c(&request(3, 3, b"x"))];
        assert_eq!(outcomes(&session), [BOUND, "error"], "{wrong:?}");
    }
}

/// A parser, and the last input's outcome.
struct Flow {
    parser: Box<dyn Parser>,
    transport: Transport,
    last: Outcome,
}

impl Flow {
    fn open(transport: Transport, settings: &[(&str, &str)]) -> Flow {
        let mut config = Tree::default();
        settings.iter().for_each(|(key, value)| config.set(key, value));
        let settings = (PROTOCOL.configure)(Some(&config)).expect("settings");
        let parser = (PROTOCOL.open)(&settings, transport);
        Flow { parser, transport, last: Outcome::Done }
    }

    fn give(&mut self, direction: Direction, input: Input<'_>) -> &mut Flow {
        let ends = Endpoints { is_tcp: self.transport == Transport::Tcp, ..Endpoints::default() };
        let mut cx = ParseContext::new(0, direction, &ends);
        self.last = self.parser.parse(&mut cx, input);
        self
    }

    fn client(&mut self, bytes: &[u8]) -> &mut Flow {
        self.give(Direction::ToServer, Input::Data { bytes, eof: false })
    }

    fn server(&mut self, bytes: &[u8]) -> &mut Flow {
        self.give(Direction::ToClient, Input::Data { bytes, eof: false })
    }

    fn records(&self) -> Vec<String> {
        let ids = self.parser.first_tx_id()..self.parser.next_tx_id();
        ids.filter_map(|id| self.parser.tx(id))
            .map(|tx| {
                let mut json = Json::new();
                json.open();
                tx.log(&mut json, LogOptions::default());
                json.close();
                String::from_utf8(json.take_bytes()).expect("text")
            })
            .collect()
    }
}

/// The side that lost bytes is not followed any more; until it sends more, the other one is.
#[test]
fn behind_a_gap_answers_have_no_request() {
    let mut flow = Flow::open(Transport::Tcp, &[]);
    flow.client(&bind(11, 1)).server(&ack(12, 1, 0));
    flow.give(Direction::ToServer, Input::Gap { len: 93 });
    flow.server(&ack(15, 1, 0));
    assert_eq!(flow.last, Outcome::Done);
    let lost = "{\"request\":\"REQUEST_LOST\",\"response\":\"ALTER_CONTEXT_RESP\",\"call_id\":1,\
                \"rpc_version\":\"5.0\"}";
    assert_eq!(flow.records().last().map(String::as_str), Some(lost));
    flow.client(&request(2, 3, b"x"));
    assert_eq!((flow.last, flow.records().len()), (Outcome::Error, 2));
}

/// A datagram by C706 12.5.2.1: call 1 of an activity, in little-endian order.
fn datagram(kind: u8, flags: u8, fragment: u8, stub: &[u8]) -> Vec<u8> {
    let mut d = vec![4, kind, flags, 0, 0x10, 0, 0, 0];
    d.extend_from_slice(&[0; 16]);
    d.extend_from_slice(SERVICES);
    d.extend_from_slice(b"\x04\x03\x02\x01\x06\x05\x08\x07\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
    d.extend_from_slice(b"\0\0\0\0\x01\0\0\0\x01\0\0\0\x05\0\xff\xff\xff\xff");
    d.extend_from_slice(&(stub.len() as u16).to_le_bytes());
    d.extend_from_slice(&[fragment, 0, 0, 0]);
    d.extend_from_slice(stub);
    d
}

#[test]
fn datagrams_are_joined_by_activity() {
    let mut flow = Flow::open(Transport::Udp, &[]);
    flow.client(&datagram(0, 4, 0, b"abc")).client(&datagram(0, 4, 1, b"def"));
    flow.client(&datagram(0, 6, 2, b"g")).server(&datagram(2, 4, 0, b"wx"));
    flow.server(&datagram(2, 6, 1, b"yz")).client(&datagram(0, 0, 0, b""));
    let number = "\"activityuuid\":\"01020304-0506-0708-090a-0b0c0d0e0f10\",\"seqnum\":1,\
                  \"rpc_version\":\"4.0\"}";
    let expected = [
        "{\"request\":\"REQUEST\",\"req\":{\"opnum\":0,\"frag_cnt\":3,\"stub_data_size\":7},\
         \"response\":\"RESPONSE\",\"res\":{\"frag_cnt\":2,\"stub_data_size\":4},",
        "{\"request\":\"REQUEST\",\"req\":{\"opnum\":0,\"frag_cnt\":1,\"stub_data_size\":0},\
         \"response\":\"UNREPLIED\",",
    ];
    assert_eq!(flow.records(), expected.map(|text| format!("{text}{number}")));
    for wrong in [&datagram(3, 0, 0, b"")[..], &datagram(0, 0, 0, b"xyz")[..82], b"\x04"] {
        assert_eq!(flow.client(wrong).last, Outcome::Error);
    }
}

/// How often the limit of that name was reached.
fn times(counts: &gabion_record::limits::Reached, name: &str) -> u64 {
    let all = gabion_proto::limits::tables().into_iter().flatten();
    all.filter(|limit| limit.full_name() == name).map(|limit| counts.times_reached(limit)).sum()
}

/// Calls without answers, each beyond the configured number ends the wait of the oldest.
#[test]
fn open_transactions_are_bounded() {
    let mut flow = Flow::open(Transport::Tcp, &[("max-tx", "4"), ("max-stub-size", "10")]);
    for n in 0..7 {
        flow.client(&request(n, n as u8, &[b'x'; 20]));
    }
    let closed = "{\"request\":\"REQUEST\",\"req\":{\"opnum\":1,\"frag_cnt\":1,\
        \"stub_data_size\":10},\"response\":\"RESPONSE\",\"res\":{\"frag_cnt\":0,\
        \"stub_data_size\":0},\"call_id\":1,\"rpc_version\":\"5.0\"}";
    let records = flow.records();
    assert_eq!(records[1], closed);
    assert!(records[2].contains("UNREPLIED"));
    let counts = gabion_record::limits::take_reached();
    assert_eq!(times(&counts, "proto.dcerpc.open_txs_max"), 2);
    assert_eq!(times(&counts, "proto.dcerpc.stub_bytes_max"), 7);
}

/// Fragments without end, answers to nothing and binds again and again: what is held is bounded, in each
/// transport.
#[test]
fn floods_hold_no_more_than_the_limits() {
    let calls = (0..TXS_PER_FLOW_MAX as u32 + 9).flat_map(|n| request(n, 1, b"x"));
    let calls: Vec<u8> = calls.collect();
    let mut flow = Flow::open(Transport::Tcp, &[]);
    flow.client(&calls);
    assert_eq!(flow.last, Outcome::Done);
    assert!(flow.parser.bytes_held() < 8 << 20, "{}", flow.parser.bytes_held());
    let counts = gabion_record::limits::take_reached();
    assert_eq!(times(&counts, "proto.dcerpc.txs_per_flow_max"), 9);
    let mut flow = Flow::open(Transport::Udp, &[]);
    for _ in 0..2_000 {
        flow.client(&datagram(0, 4, 0, &[b'x'; 1000]));
    }
    assert!(flow.parser.bytes_held() < 3 << 20, "{}", flow.parser.bytes_held());
    let counts = gabion_record::limits::take_reached();
    assert_eq!(times(&counts, "proto.dcerpc.stub_bytes_max"), 952);
}

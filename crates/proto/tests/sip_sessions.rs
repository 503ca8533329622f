//! SIP sessions made by hand. Records and refusals of datagrams are Suricata's (8.0.7); on streams
//! bodies end where their `Content-Length` says (RFC 3261 18.3), which Suricata does only for bodies
//! it can read.

mod play;

use gabion_proto::sip::PROTOCOL;
use gabion_proto::{Endpoints, Input, LogOptions, Outcome, ParseContext};
use gabion_record::Direction;
use gabion_record::applayer::Transport;
use gabion_record::json::Json;
use play::{c, play_all, s};

const INVITE: &[u8] = b"INVITE sip:a@b SIP/2.0\r\nVia: SIP/2.0/UDP h\r\nTo: <sip:c@d>\r\n";
const INVITED: &str = "{\"method\":\"INVITE\",\"uri\":\"sip:a@b\",\"version\":\"SIP/2.0\",\
    \"request_line\":\"INVITE sip:a@b SIP/2.0\"}";

fn message(head: &[u8], more: &str) -> Vec<u8> {
    [head, more.as_bytes()].concat()
}

/// Records of datagrams, one after the other; `error` where one is refused.
fn datagrams(all: &[(Direction, Vec<u8>)]) -> Vec<String> {
    let settings = (PROTOCOL.configure)(None).expect("settings");
    let mut parser = (PROTOCOL.open)(&settings, Transport::Udp);
    let ends = Endpoints::default();
    let mut records = Vec::new();
    for (d, bytes) in all {
        let mut cx = ParseContext::new(0, *d, &ends);
        if parser.parse(&mut cx, Input::Data { bytes, eof: false }) == Outcome::Error {
            records.push("error".to_string());
            continue;
        }
        let tx = parser.tx(parser.next_tx_id() - 1).expect("a transaction");
        let mut json = Json::new();
        json.open();
        tx.log(&mut json, LogOptions::default());
        json.close();
        records.push(String::from_utf8(json.take_bytes()).expect("text"));
    }
    records
}

#[test]
fn each_datagram_is_a_message() {
    let sdp = "Content-Length: 9\r\n\r\nv=0\r\no=me 1 1 IN IP4 1.1.1.1\r\ns=x\r\nt=0 0\r\n\
               m=audio 1 RTP/AVP 0\r\na=m1\r\n";
    let described = "{\"method\":\"INVITE\",\"uri\":\"sip:a@b\",\"version\":\"SIP/2.0\",\"sdp\":{\
        \"origin\":\"me 1 1 IN IP4 1.1.1.1\",\"session_name\":\"x\",\"time_descriptions\":[{\
        \"time\":\"0 0\"}],\"media_descriptions\":[{\"media\":\"audio 1 RTP/AVP 0\",\"attributes\":[\
        \"m1\"]}]},\"request_line\":\"INVITE sip:a@b SIP/2.0\"}";
    let all = [
        c(&message(INVITE, "\r\n")),
        s(b"SIP/2.0 100 Trying\r\n\r\n"),
        c(b"junk"),
        c(&message(INVITE, sdp)),
        c(INVITE),
        s(&message(INVITE, "\r\n")),
        c(b"SIP/2.0 200 OK\r\n\r\n"),
        c(b"\r\n\r\n"),
    ];
    assert_eq!(
        datagrams(&all),
        [
            INVITED,
            "{\"version\":\"SIP/2.0\",\"code\":\"100\",\"reason\":\"Trying\",\
             \"response_line\":\"SIP/2.0 100 Trying\"}",
            "error",
            described,
            "error",
            "error",
            "error",
            "error",
        ]
    );
}

#[test]
fn streams_are_cut_by_content_length() {
    let session = [
        c(&message(INVITE, "l: 5\r\n\r\nhello\r\n\r\nBYE sip:a@b SIP/2.0\r\n\r\n")),
        s(b"SIP/2.0 200 OK\r\nContent-Length: 3\r\n\r\nabcSIP/2.0 180 \r\n\r\n\r\n"),
    ];
    let out = play_all(PROTOCOL, None, &session);
    let records: Vec<&str> = out.all.iter().map(|(_, record)| record.as_str()).collect();
    assert_eq!(
        records,
        [
            INVITED,
            "{\"method\":\"BYE\",\"uri\":\"sip:a@b\",\"version\":\"SIP/2.0\",\
             \"request_line\":\"BYE sip:a@b SIP/2.0\"}",
            "{\"version\":\"SIP/2.0\",\"code\":\"200\",\"reason\":\"OK\",\
             \"response_line\":\"SIP/2.0 200 OK\"}",
            "{\"version\":\"SIP/2.0\",\"code\":\"180\",\"reason\":\"\",\
             \"response_line\":\"SIP/2.0 180 \"}",
        ]
    );
    assert!(!out.is_error);
}

#[test]
fn what_is_no_message_ends_a_stream() {
    let session = [c(&message(INVITE, "\r\njunk\r\n")), c(&message(INVITE, "\r\n"))];
    let out = play_all(PROTOCOL, None, &session);
    assert_eq!((out.all.len(), out.is_error), (1, true));
    assert_eq!(out.events, ["invalid_data"]);
}

#[test]
fn a_body_that_is_cut_off_is_read_as_far_as_it_goes() {
    let body = "l: 1000000\r\n\r\nv=0\r\no=x\r\ns=y\r\n";
    let out = play_all(PROTOCOL, None, &[c(&message(INVITE, body))]);
    assert!(
        out.record.contains("\"sdp\":{\"origin\":\"x\",\"session_name\":\"y\"}"),
        "{}",
        out.record
    );
}

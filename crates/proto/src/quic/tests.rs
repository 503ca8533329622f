//! Flows of QUIC made by hand. Records and events are Suricata's (8.0.7) for the same datagrams.

use super::PROTOCOL;
use super::keys::Keys;
use super::limits::{CRYPTO_PIECES_MAX, FAILED_DECRYPTIONS_MAX, reached};
use crate::{Endpoints, Input, LogOptions, Outcome, ParseContext, Parser};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::Transport;
use gabion_record::json::Json;

const CLIENT: &[u8] = b"\x01\x02\x03\x04\x05\x06\x07\x08";
const SERVER: &[u8] = b"\xa1\xa2\xa3\xa4";

/// A client's hello with a server name, and a server's answer.
const CLIENT_HELLO: &[u8] =
    b"\x01\0\0\x41\x03\x03RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR\0\0\x04\x13\x01\x13\x02\
    \x01\0\0\x14\0\0\0\x07\0\x05\0\0\x02ab\0\x2b\0\x05\x04\x03\x04\x0a\x0a";
const SERVER_HELLO: &[u8] =
    b"\x02\0\0\x2e\x03\x03RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR\0\x13\x01\0\0\x06\0\x2b\0\x02\x03\x04";

const CLIENT_RECORD: &str = "{\"version\":\"1\",\"sni\":\"ab\",\"ja3\":{\"hash\":\"c1ef87234d1f4958b95c016a1a7100df\",\"string\":\"771,4865-4866,0-43,,\"}";
const BARE: &str = "{\"version\":\"1\"}";

fn varint(n: usize) -> [u8; 2] {
    (n as u16 | 0x4000).to_be_bytes()
}

fn crypto(offset: usize, data: &[u8]) -> Vec<u8> {
    [&[6][..], &varint(offset), &varint(data.len()), data].concat()
}

/// An Initial packet under the keys of an id.
fn initial(direction: Direction, id: &[u8], key_id: &[u8], number: u8, frames: &[u8]) -> Vec<u8> {
    let mut payload = frames.to_vec();
    payload.resize(frames.len().max(40), 0);
    let mut packet =
        [&[0xc0, 0, 0, 0, 1, id.len() as u8][..], id, &[0, 0], &varint(payload.len() + 17)]
            .concat();
    let number_at = packet.len();
    packet.push(number);
    Keys::derive(1, key_id).unwrap().seal(direction, packet, number_at, &payload)
}

fn from_client(number: u8, frames: &[u8]) -> (Direction, Vec<u8>) {
    (ToServer, initial(ToServer, CLIENT, CLIENT, number, frames))
}

fn from_server(number: u8, frames: &[u8]) -> (Direction, Vec<u8>) {
    (ToClient, initial(ToClient, SERVER, CLIENT, number, frames))
}

struct Flow(Box<dyn Parser>);

impl Flow {
    fn open() -> Flow {
        let settings = (PROTOCOL.configure)(None).unwrap();
        Flow((PROTOCOL.open)(&settings, Transport::Udp))
    }

    /// Records and events of what a datagram brings, `error` at the end where it is refused.
    fn give(&mut self, (direction, bytes): &(Direction, Vec<u8>)) -> Vec<String> {
        let ends = Endpoints::default();
        let mut cx = ParseContext::new(0, *direction, &ends);
        let first = self.0.next_tx_id();
        let outcome = self.0.parse(&mut cx, Input::Data { bytes, eof: false });
        let mut out = Vec::new();
        for id in first..self.0.next_tx_id() {
            let tx = self.0.tx(id).unwrap();
            let mut json = Json::new();
            json.open();
            tx.log(&mut json, LogOptions::default());
            json.close();
            out.push(String::from_utf8(json.take_bytes()).unwrap());
            out.extend(
                tx.events()
                    .iter()
                    .map(|code| PROTOCOL.table.events[usize::from(*code)].name.to_string()),
            );
            self.0.free(id);
        }
        if outcome == Outcome::Error {
            out.push("error".to_string());
        }
        out
    }
}

fn give_all(datagrams: &[(Direction, Vec<u8>)]) -> Vec<Vec<String>> {
    let mut flow = Flow::open();
    datagrams.iter().map(|datagram| flow.give(datagram)).collect()
}

fn is_hello(records: &[String], name: &str) -> bool {
    records.len() == 1 && records[0].contains(&format!("\"{name}\":{{\"hash\""))
}

#[test]
fn hellos_of_both_sides_end_what_is_looked_into() {
    let mut flow = Flow::open();
    let records = flow.give(&from_client(0, &crypto(0, CLIENT_HELLO)));
    assert!(records[0].starts_with(CLIENT_RECORD), "{records:?}");
    assert!(records[0].ends_with(
        ",\"ja4\":\"q13d020200_62ed6f6ca7ad_9b00d4eb1ff0\",\"extensions\":[\
         {\"name\":\"server_name\",\"type\":0,\"values\":[\"ab\"]},{\"name\":\"supported_versions\",\"type\":43,\
         \"values\":[\"Tls13\",\"TlsVersion(2570 / 0xa0a)\"]}]}"
    ));
    assert!(flow.give(&from_client(1, &crypto(0, CLIENT_HELLO))).is_empty());
    // The server's packet without a hello is one more record, and forgets nothing.
    assert_eq!(flow.give(&from_server(0, b"\x02\0\0\0\0")), [BARE]);
    assert!(is_hello(&flow.give(&from_server(1, &crypto(0, SERVER_HELLO))), "ja3s"));
    for datagram in
        [from_client(2, b"\x01"), from_server(2, b"\x01"), (ToClient, b"\x40abc".to_vec())]
    {
        assert!(flow.give(&datagram).is_empty());
    }
}

#[test]
fn any_pieces_in_any_order_give_the_hello() {
    for size in [1, 5, 30, CLIENT_HELLO.len() / 2 + 1] {
        let mut pieces: Vec<(usize, &[u8])> =
            CLIENT_HELLO.chunks(size).enumerate().map(|(i, piece)| (i * size, piece)).collect();
        for _ in 0..2 {
            let mut flow = Flow::open();
            let mut records = Vec::new();
            for (n, (at, piece)) in pieces.iter().enumerate() {
                records.push(flow.give(&from_client(n as u8, &crypto(*at, piece))));
            }
            let last = records.pop().unwrap();
            assert!(is_hello(&last, "ja3"), "{last:?}");
            assert!(records.iter().all(|r| r.as_slice() == [BARE]));
            // All pieces in one packet.
            let frames: Vec<u8> =
                pieces.iter().flat_map(|(at, piece)| crypto(*at, piece)).collect();
            assert!(is_hello(&Flow::open().give(&from_client(0, &frames)), "ja3"));
            pieces.reverse();
        }
    }
}

/// The keys are those of the client's first id, whatever ids follow, until the server asks for another one.
#[test]
fn keys_follow_the_clients_first_id() {
    let retry = (ToClient, [&b"\xf0\0\0\0\x01\x04\xa1\xa2\xa3\xa4\0"[..], &[7; 40]].concat());
    let other = (ToServer, initial(ToServer, b"OTHER", CLIENT, 1, &crypto(0, CLIENT_HELLO)));
    assert!(is_hello(&give_all(&[from_client(0, b"\x01"), other])[1], "ja3"));
    let forged = (ToServer, initial(ToServer, b"OTHER", b"OTHER", 1, b"\x01"));
    let records =
        give_all(&[from_client(0, b"\x01"), forged, from_server(0, &crypto(0, SERVER_HELLO))]);
    assert_eq!(records[1], [BARE, "failed_decrypt", "error"]);
    assert!(is_hello(&records[2], "ja3s"));
    let again = (ToServer, initial(ToServer, b"NEWID", b"NEWID", 1, &crypto(0, CLIENT_HELLO)));
    let answer = (ToClient, initial(ToClient, SERVER, b"NEWID", 0, &crypto(0, SERVER_HELLO)));
    let hello = from_client(0, &crypto(0, CLIENT_HELLO));
    let records =
        give_all(&[hello.clone(), retry.clone(), retry.clone(), again, retry.clone(), answer]);
    assert!(
        is_hello(&records[0], "ja3")
            && is_hello(&records[3], "ja3")
            && is_hello(&records[5], "ja3s")
    );
    assert!([1, 2, 4].iter().all(|n| records[*n] == [BARE]));
    let late = from_server(0, &crypto(0, SERVER_HELLO));
    assert_eq!(give_all(&[hello, retry, late])[2], [BARE, "failed_decrypt", "error"]);
}

#[test]
fn each_packet_of_a_datagram_counts_until_one_without_a_length() {
    let handshake = b"\xe0\0\0\0\x01\0\0\x40\x05abcde".to_vec();
    let datagram = |parts: &[&[u8]]| (ToServer, parts.concat());
    let (_, one) = from_client(0, b"\x01");
    let (_, two) = from_client(1, b"\x01");
    let (_, hello) = from_client(2, &crypto(0, CLIENT_HELLO));
    let records = give_all(&[
        datagram(&[&one, &two, &handshake, &hello]),
        datagram(&[&one, b"\x40abc", &two]),
        datagram(&[&one, b"\xc0\0\0"]),
        datagram(&[&handshake[..7]]),
        datagram(&[&one, &hello]),
    ]);
    assert_eq!(records[0], [BARE, BARE, BARE]);
    assert_eq!(records[1], [BARE]);
    assert_eq!(records[2], [BARE, "error"]);
    assert_eq!(records[3], [BARE]);
    assert_eq!(records[4].len(), 2);
}

#[test]
fn what_is_no_hello_is_an_event() {
    for wrong in [
        &b"\x08\0\0\x02\0\0"[..],
        b"\x14\0\0\0",
        b"\x02\0\0\x22\x7f\x12RRRRRRRRRRRRRRRRRRRRRRRRRRRRRRRR",
    ] {
        let records = give_all(&[
            from_client(0, &crypto(0, wrong)),
            from_client(1, &crypto(0, CLIENT_HELLO)),
        ]);
        assert_eq!(records[0], [BARE, "error_on_data", "error"], "{wrong:?}");
        assert!(is_hello(&records[1], "ja3"));
    }
    let cut = from_client(0, &[&b"\x01".repeat(60)[..], b"\x02\0\0"].concat());
    assert_eq!(give_all(&[cut])[0], [BARE, "error_on_data", "error"]);
    let far = [&b"\x06\x80\x01\0\0\x01x"[..], &crypto(0, CLIENT_HELLO)].concat();
    let records = Flow::open().give(&from_client(0, &far));
    assert!(records[0].contains("ja3") && records[1] == "crypto_frag_too_long", "{records:?}");
}

#[test]
fn other_versions_are_only_named() {
    for (version, text) in [
        (0, "0"),
        (2, "2"),
        (0xff00_0010u32, "ff000010"),
        (0x0a0a_0a0a, "a0a0a0a"),
        (u32::from_be_bytes(*b"T051"), "54303531"),
    ] {
        let packet = [&[0xc0][..], &version.to_be_bytes(), b"\x02ab\0\0\x05hello"].concat();
        assert_eq!(Flow::open().give(&(ToServer, packet)), [format!("{{\"version\":\"{text}\"}}")]);
    }
    let google = [b"\x09CCCCCCCCQ043\x01hhhhhhhhhhhh\xa0\x01\0\x1cCHLO\x02\0\0\0PAD\0\x01\0\0\0SNI\0\x04\0\0\0-abc".to_vec(),
        b"\xc3Q046\x50CCCCCCCC\0\0\0\x01hhhhhhhhhhhh\xa0\x01\0\x1cCHLO\x02\0\0\0PAD\0\x01\0\0\0SNI\0\x04\0\0\0-abc".to_vec()];
    for (packet, number) in google.into_iter().zip(["43", "46"]) {
        let records = Flow::open().give(&(ToServer, packet));
        assert!(records[0].starts_with(&format!(
            "{{\"version\":\"Q0{number}\",\"sni\":\"abc\",\"cyu\":[{{\"hash\":\""
        )));
        assert!(records[0].ends_with(&format!("\"string\":\"{number},PAD-SNI\"}}]}}")));
    }
}

/// A thousand ids, forged packets and single bytes far ahead: the work and memory of a flow are bounded.
#[test]
fn hostile_flows_are_bounded() {
    let mut flow = Flow::open();
    assert_eq!(flow.give(&from_client(0, &crypto(0, &CLIENT_HELLO[..20]))), [BARE]);
    for n in 0..1000u16 {
        let forged = (ToServer, initial(ToServer, &n.to_be_bytes(), &n.to_be_bytes(), 0, b"\x01"));
        assert_eq!(flow.give(&forged), [BARE, "failed_decrypt", "error"]);
    }
    let counts = gabion_record::limits::take_reached();
    assert_eq!(
        counts.times_reached(&reached::FAILED_DECRYPTIONS_MAX),
        1000 - FAILED_DECRYPTIONS_MAX as u64
    );
    let mut flow = Flow::open();
    let mut number = 0;
    for start in (100..16_000).step_by(200) {
        let frames: Vec<u8> = (0..100).flat_map(|n| crypto(start + n * 2, b"x")).collect();
        flow.give(&from_client(number, &frames));
        number = number.wrapping_add(1);
    }
    assert!(flow.0.bytes_held() < 100 * CRYPTO_PIECES_MAX, "{}", flow.0.bytes_held());
    assert!(gabion_record::limits::take_reached().times_reached(&reached::CRYPTO_PIECES_MAX) > 0);
    assert!(is_hello(&flow.give(&from_client(number, &crypto(0, CLIENT_HELLO))), "ja3"));
}

//! MQTT, SIP, SNMP, NTP, TFTP, DHCP and multicast DNS: floods of messages without answers, false
//! lengths, endless lists.

use gabion_adversarial::Connection;
use gabion_proto::{dns, mqtt, sip};
use gabion_record::Direction;
use gabion_record::applayer::Transport;

/// Live transactions of a flow of datagrams.
const DATAGRAM_TXS_MAX: u64 = 1_024;
/// Bytes a flow's parser may hold in the worst of these cases.
const HELD_MAX: usize = 16 << 20;

fn udp(name: &str) -> Connection {
    Connection::with_protocol(name, Transport::Udp)
}

/// A message with its length in the form of MQTT (seven bits a byte).
fn mqtt_message(first: u8, contents: &[u8]) -> Vec<u8> {
    let mut out = vec![first];
    let mut len = contents.len();
    loop {
        let more = len > 127;
        out.push((len & 127) as u8 | if more { 128 } else { 0 });
        len >>= 7;
        if !more {
            break;
        }
    }
    out.extend_from_slice(contents);
    out
}

/// A session after CONNECT.
fn mqtt_session() -> Connection {
    let mut talk = Connection::with_protocol("mqtt", Transport::Tcp);
    talk.client(&mqtt_message(0x10, b"\0\x04MQTT\x04\x02\0\x3c\0\x01a"));
    talk.server(&mqtt_message(0x20, &[0, 0]));
    talk
}

/// Many messages for one transaction, in a thousand transactions: each keeps 1,024, and a flow no
/// more than its own limit.
#[test]
fn mqtt_messages_of_transactions_are_limited() {
    let mut talk = mqtt_session();
    let mut begun = Vec::new();
    for id in 1..=512u16 {
        let [hi, lo] = id.to_be_bytes();
        begun.extend(mqtt_message(0x34, &[0, 1, b't', hi, lo]));
    }
    talk.client(&begun);
    let received: Vec<u8> =
        (1..=512u16).flat_map(|id| mqtt_message(0x50, &id.to_be_bytes())).collect();
    // 1,100 for each transaction: half a million messages in 2.2 MB.
    for _ in 0..22 {
        talk.server(&received.repeat(50));
    }
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
    assert!(talk.account.events.contains("too_many_messages"), "{:?}", talk.account.events);
    assert_eq!(talk.account.errors, 0);
}

/// Messages whose answer never arrives: the oldest is closed, and no more transactions than the
/// limit are alive even if none is freed.
#[test]
fn mqtt_without_answers_is_limited() {
    let mut talk = mqtt_session().freeing();
    for part in 0..20u16 {
        let said: Vec<u8> = (0..3_000u16)
            .flat_map(|n| {
                let [hi, lo] = (part * 3_000 + n + 1).to_be_bytes();
                mqtt_message(0x32, &[0, 1, b't', hi, lo])
            })
            .collect();
        talk.client(&said);
    }
    assert!(talk.account.alive_max <= mqtt::limits::TXS_PER_FLOW_MAX as u64);
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
    assert!(talk.account.events.contains("too_many_transactions"), "{:?}", talk.account.events);
}

/// A long session with answers is not a flood: completed transactions take no memory.
#[test]
fn long_mqtt_sessions_are_not_floods() {
    let mut talk = mqtt_session().freeing();
    for id in 1..=400u16 {
        let [hi, lo] = id.to_be_bytes();
        let contents = [&[0, 1, b't', hi, lo][..], &[b'x'; 40_000]].concat();
        talk.client(&mqtt_message(0x32, &contents));
        talk.server(&mqtt_message(0x40, &[hi, lo]));
    }
    assert!(talk.account.said > 2 * mqtt::limits::HELD_BYTES_MAX as u64 - (1 << 20));
    assert!(talk.account.events.is_empty(), "{:?}", talk.account.events);
}

/// A message with a length of 256 MiB is skipped as it arrives; one with an impossible length ends
/// the session; one of a megabyte is passed to the parser once, however it is cut.
#[test]
fn mqtt_with_false_lengths() {
    let mut talk = mqtt_session();
    talk.client(&[0x30, 0xff, 0xff, 0xff, 0x7f]);
    talk.in_pieces(Direction::ToServer, &[0x10; 1 << 20], 1_400);
    assert!(talk.account.waiting_max < 4_096, "{}", talk.account.waiting_max);
    assert_eq!((talk.account.made, talk.account.errors), (2, 0));
    let mut talk = mqtt_session();
    talk.client(&[0x30, 0xff, 0xff, 0xff, 0xff, 0x01]);
    assert_eq!(talk.account.errors, 1);
    let mut talk = mqtt_session();
    let long = mqtt_message(0x30, &[&b"\0\x01t"[..], &vec![b'x'; 1_000_000]].concat());
    talk.in_pieces(Direction::ToServer, &long, 100);
    assert!(talk.account.offered < 2 * talk.account.said, "{:?}", talk.account);
}

/// A third of a million topics in a message, of which some are kept.
#[test]
fn mqtt_with_endless_topics() {
    let mut talk = mqtt_session();
    let contents = [&b"\0\x01"[..], &b"\0\0\0".repeat(340_000)].concat();
    talk.client(&mqtt_message(0x82, &contents));
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
    talk.transactions().for_each(|tx| assert!(Connection::record(tx).len() < 4 << 20));
}

fn sip_message(length: usize) -> Vec<u8> {
    format!("MESSAGE sip:a@b SIP/2.0\r\nVia: x\r\nContent-Length: {length}\r\n\r\n").into_bytes()
}

/// A body of more than 65,535 bytes, whose length cut to 16 bits would be 5: the message after it
/// is found at the correct offset.
#[test]
fn sip_after_a_long_body_is_parsed() {
    let mut said = sip_message(65_541);
    said.extend_from_slice(&[b'x'; 65_541]);
    said.extend(sip_message(0));
    for piece in [1_400, said.len()] {
        let mut talk = Connection::with_protocol("sip", Transport::Tcp);
        talk.in_pieces(Direction::ToServer, &said, piece);
        assert_eq!((talk.account.made, talk.account.errors), (2, 0), "pieces of {piece}");
    }
    let mut talk = Connection::with_protocol("sip", Transport::Tcp);
    talk.client(&sip_message(usize::MAX));
    talk.in_pieces(Direction::ToServer, &[b'x'; 4 << 20], 1_400);
    assert!(talk.account.waiting_max <= sip::limits::BODY_BYTES_MAX + (4 << 10));
}

/// An endless header ends the direction; of ten thousand headers some are kept; messages without
/// answers are limited.
#[test]
fn sip_heads_and_floods_are_limited() {
    let mut talk = Connection::with_protocol("sip", Transport::Tcp);
    talk.client(b"MESSAGE sip:a@b SIP/2.0\r\n");
    talk.in_pieces(Direction::ToServer, &b"A: b\r\n".repeat(60_000), 1_400);
    assert_eq!(talk.account.errors, 1);
    assert!(talk.account.waiting_max <= sip::limits::HEAD_BYTES_MAX + 2_800);
    let mut talk = udp("sip");
    let many = [b"MESSAGE sip:a@b SIP/2.0\r\n", &b"v:x\r\n".repeat(12_000)[..], b"\r\n"].concat();
    talk.client(&many);
    assert!(talk.account.held_max < 256 << 10, "{}", talk.account.held_max);
    let mut talk = Connection::with_protocol("sip", Transport::Tcp);
    for _ in 0..100 {
        talk.client(&sip_message(0).repeat(200));
    }
    assert!(talk.account.alive_max <= sip::limits::TXS_PER_FLOW_MAX as u64);
    let lines: Vec<u8> = (0..9_000).flat_map(|_| *b"a=b\r\nm=\r\n").collect();
    let mut talk = udp("sip");
    talk.client(&[&sip_message(lines.len())[..], b"v=0\r\no=a\r\ns=b\r\n", &lines].concat());
    talk.transactions().for_each(|tx| assert!(Connection::record(tx).len() < 1 << 20));
    assert!(talk.account.held_max < 1 << 20, "{}", talk.account.held_max);
}

/// The header of a DHCP message up to its options.
fn dhcp_header() -> Vec<u8> {
    let mut m = vec![0; 236];
    m[..4].copy_from_slice(&[1, 1, 6, 0]);
    m.extend([0x63, 0x82, 0x53, 0x63]);
    m
}

/// Requests without answers, and options that fill the largest datagram: no request stays, and
/// options take a few times the size of the datagram.
#[test]
fn dhcp_one_way_is_limited() {
    let request = [&dhcp_header()[..], &[53, 1, 1, 255]].concat();
    let mut talk = udp("dhcp").freeing();
    (0..20_000).for_each(|_| talk.client(&request));
    assert_eq!((talk.account.made, talk.account.alive_max), (20_000, 1));
    let mut talk = udp("dhcp");
    (0..20_000).for_each(|_| talk.client(&request));
    assert!(talk.account.alive_max <= DATAGRAM_TXS_MAX);
    let mut talk = udp("dhcp");
    talk.client(&[&dhcp_header()[..], &[12, 0].repeat(32_000)].concat());
    talk.client(&[&dhcp_header()[..], &[12, 200, 0]].concat());
    assert!(talk.account.held_max < 256 << 10, "{}", talk.account.held_max);
    assert!(talk.account.events.contains("truncated_options"), "{:?}", talk.account.events);
    talk.transactions().for_each(|tx| assert!(Connection::record(tx).len() < 64 << 10));
}

/// An element of BER.
fn ber(tag: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![tag, 0x82];
    out.extend_from_slice(&(value.len() as u16).to_be_bytes());
    out.extend_from_slice(value);
    out
}

/// Lengths beyond the datagram, an identifier that fills one, thousands of variables.
#[test]
fn snmp_lengths_and_lists_are_limited() {
    let message = |variables: &[u8]| {
        let request = [&[2, 1, 1, 2, 1, 0, 2, 1, 0][..], &ber(0x30, variables)].concat();
        ber(0x30, &[&[2, 1, 1, 4, 1, b'p'][..], &ber(0xa0, &request)].concat())
    };
    let one = ber(0x30, &[&ber(6, &[0x2b; 60_000])[..], &[5, 0]].concat());
    let small = ber(0x30, &[6, 1, 0x2b, 5, 0]).repeat(6_000);
    let mut talk = udp("snmp");
    for said in [
        message(&one),
        message(&small),
        vec![0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 2, 1, 1],
        [0x30, 0x82, 0xff, 0xff].repeat(10_000),
    ] {
        talk.client(&said);
        talk.server(&said);
    }
    assert!(talk.account.held_max < 1 << 20, "{}", talk.account.held_max);
    talk.transactions().for_each(|tx| assert!(Connection::record(tx).len() < 1 << 20));
    let mut talk = udp("snmp");
    (0..20_000).for_each(|_| talk.client(&message(&ber(0x30, &[6, 1, 0x2b, 5, 0]))));
    assert!(talk.account.alive_max <= DATAGRAM_TXS_MAX && talk.account.made > 0);
}

/// Requests without answers, and names that fill a datagram.
#[test]
fn ntp_and_tftp_floods_are_limited() {
    let ntp = [&[0x23][..], &[0; 47]].concat();
    let tftp = [&b"\0\x01"[..], &[b'a'; 60_000], b"\0octet\0"].concat();
    for (name, said, bytes) in [("ntp", ntp, 1 << 20), ("tftp", tftp, 80 << 20)] {
        let mut talk = udp(name).freeing();
        (0..2_000).for_each(|_| talk.client(&said));
        assert_eq!((talk.account.made, talk.account.alive_max), (2_000, 1), "{name}");
        let mut talk = udp(name);
        (0..1_200).for_each(|_| talk.client(&said));
        assert!(talk.account.alive_max <= DATAGRAM_TXS_MAX, "{name}");
        assert!(talk.account.held_max < bytes, "{name}: {}", talk.account.held_max);
        talk.transactions().take(3).for_each(|tx| assert!(Connection::record(tx).len() < 1 << 20));
    }
}

/// Names in circles and names that expand, as with DNS.
#[test]
fn mdns_names_that_point_in_circles_or_expand() {
    let head =
        |answers: u16| [&[0, 0, 0x84, 0, 0, 0][..], &answers.to_be_bytes(), &[0, 0, 0, 0]].concat();
    let circle = [&head(1)[..], &[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 0]].concat();
    let mut blown = head(5_000);
    for _ in 0..4 {
        blown.push(60);
        blown.extend_from_slice(&[b'a'; 60]);
    }
    blown.extend_from_slice(&[0, 0, 12, 0, 1, 0, 0, 0, 9, 0, 2, 0xc0, 12]);
    for _ in 0..4_000 {
        blown.extend_from_slice(&[0xc0, 12, 0, 12, 0, 1, 0, 0, 0, 9, 0, 2, 0xc0, 12]);
    }
    for message in [circle, blown] {
        let mut talk = udp("mdns");
        talk.client(&message);
        talk.end();
        let bound = 2 * dns::limits::ARENA_BYTES_MAX + (1 << 20);
        assert!(talk.account.held_max < bound, "{}", talk.account.held_max);
        talk.transactions().for_each(|tx| assert!(Connection::record(tx).len() < 4 << 20));
    }
    let mut talk = udp("mdns");
    let question = [&[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x01a\0\0\x0c\0\x01"].concat();
    (0..20_000).for_each(|_| talk.client(&question));
    assert!(talk.account.alive_max <= DATAGRAM_TXS_MAX && talk.account.made > 0);
}

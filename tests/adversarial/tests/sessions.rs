//! DNS, TLS, SSH, SMTP and FTP: floods of small messages, false lengths, names that expand, and
//! tricks to hide the rest of a session.

use gabion_adversarial::Connection;
use gabion_proto::{dns, ftp, smtp, ssh, tls};
use gabion_record::Direction;
use gabion_record::applayer::Transport;

/// Bytes a flow's parser may hold in the worst of these cases.
const HELD_MAX: usize = 8 << 20;

fn tcp(name: &str) -> Connection {
    Connection::with_protocol(name, Transport::Tcp)
}

fn dns_message(flags: u16, counts: [u16; 4], body: &[u8]) -> Vec<u8> {
    let mut m = vec![0, 1];
    m.extend_from_slice(&flags.to_be_bytes());
    counts.iter().for_each(|c| m.extend_from_slice(&c.to_be_bytes()));
    m.extend_from_slice(body);
    m
}

/// Names that point at themselves, at each other, and at names of the maximum length: the steps of
/// a name are limited, and so are the bytes of a message's names.
#[test]
fn dns_names_that_point_in_circles_or_expand() {
    let circle = dns_message(0x0100, [1, 0, 0, 0], &[0xc0, 12, 0, 1, 0, 1]);
    let pair = dns_message(0x0100, [2, 0, 0, 0], &[0xc0, 18, 0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1]);
    // One name of 255 bytes, and 5,000 answers whose names are that name, which takes 60 KiB of
    // message and would take 1.3 MB of names.
    let mut name = Vec::new();
    for _ in 0..4 {
        name.push(60);
        name.extend_from_slice(&[b'a'; 60]);
    }
    name.push(0);
    name.extend_from_slice(&[0, 1, 0, 1]);
    for _ in 0..5_000 {
        name.extend_from_slice(&[0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 2, 0xc0, 12]);
    }
    let blown = dns_message(0x8180, [1, 5_000, 0, 0], &name);
    for message in [circle, pair, blown] {
        let mut talk = Connection::with_protocol("dns", Transport::Udp);
        talk.client(&message);
        talk.server(&message);
        talk.end();
        let bound = 2 * dns::limits::ARENA_BYTES_MAX + (1 << 20);
        assert!(talk.account.held_max < bound, "{}", talk.account.held_max);
        talk.transactions().for_each(|tx| assert!(Connection::record(tx).len() < 4 << 20));
    }
}

/// Small messages over TCP in tiny pieces: each byte is read at most twice, and the number is
/// limited.
#[test]
fn dns_over_tcp_in_tiny_pieces() {
    let message = dns_message(0x0100, [1, 0, 0, 0], &[1, b'a', 0, 0, 1, 0, 1]);
    let mut framed = (message.len() as u16).to_be_bytes().to_vec();
    framed.extend_from_slice(&message);
    let mut talk = tcp("dns").freeing();
    talk.in_pieces(Direction::ToServer, &framed.repeat(2_000), 1);
    assert!(talk.account.offered <= 3 * talk.account.said, "{:?}", talk.account);
    let mut talk = tcp("dns");
    for _ in 0..20 {
        talk.client(&framed.repeat(2_000));
    }
    assert!(talk.account.alive_max <= dns::limits::TXS_PER_FLOW_MAX as u64);
    assert!(talk.account.held_max < 64 << 20, "{}", talk.account.held_max);
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut r = vec![kind, 3, 3];
    r.extend_from_slice(&(body.len() as u16).to_be_bytes());
    r.extend_from_slice(body);
    r
}

fn handshake(kind: u8, len: u32, body: &[u8]) -> Vec<u8> {
    let mut h = vec![kind];
    h.extend_from_slice(&len.to_be_bytes()[1..]);
    h.extend_from_slice(body);
    h
}

/// A handshake message in records of one byte each, and one that claims 16 MiB: reassembled up to
/// the limit, then skipped.
#[test]
fn tls_handshakes_in_tiny_pieces_and_of_any_length() {
    let hello = handshake(1, 60_000, &[3; 60_000]);
    let crumbs: Vec<u8> = hello.iter().flat_map(|b| record(22, &[*b])).collect();
    let mut talk = tcp("tls");
    talk.in_pieces(Direction::ToServer, &crumbs, 1);
    talk.end();
    assert!(talk.account.offered <= 8 * talk.account.said, "{:?}", talk.account);
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);

    let mut talk = tcp("tls");
    talk.client(&record(22, &handshake(1, 0xff_ffff, &[0; 1_000])));
    for _ in 0..2_000 {
        talk.client(&record(22, &[0; 16_000]));
    }
    let bound = 4 * tls::limits::HANDSHAKE_BYTES_MAX + (1 << 20);
    assert!(talk.account.held_max < bound, "{}", talk.account.held_max);
}

/// Repeated hellos, each with the longest lists that fit a record: the kept bytes have a limit.
#[test]
fn endless_tls_hellos() {
    let mut body = vec![3, 3];
    body.extend_from_slice(&[7; 32]);
    body.push(0);
    body.extend_from_slice(&16_000u16.to_be_bytes());
    body.extend_from_slice(&[0xaa; 16_000]);
    body.extend_from_slice(&[1, 0, 0, 0]);
    let hello = record(22, &handshake(1, body.len() as u32, &body));
    let mut talk = tcp("tls");
    for _ in 0..300 {
        talk.client(&hello);
    }
    talk.end();
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
}

/// An endless banner in tiny pieces, and repeated key exchanges.
#[test]
fn endless_ssh_banners_and_key_exchanges() {
    let mut talk = tcp("ssh");
    talk.in_pieces(Direction::ToServer, b"SSH-2.0-", 1);
    talk.in_pieces(Direction::ToServer, &[b'x'; 100_000], 1);
    talk.end();
    let banner = ssh::limits::LONG_BANNER_BYTES_MAX as u64;
    // With each byte of a banner the parser sees it again from its start; beyond the limit nothing
    // waits.
    assert!(talk.account.offered <= banner * (banner + 1) / 2 + talk.account.said);
    assert!(talk.account.waiting_max <= ssh::limits::LONG_BANNER_BYTES_MAX);
    assert!(talk.account.events.contains("long_banner"), "{:?}", talk.account.events);

    let mut kex = vec![20];
    kex.extend_from_slice(&[0; 16]);
    for _ in 0..10 {
        kex.extend_from_slice(&3_000u32.to_be_bytes());
        kex.extend_from_slice(&[b'k'; 3_000]);
    }
    kex.extend_from_slice(&[0; 5]);
    let mut packet = ((kex.len() + 1) as u32).to_be_bytes().to_vec();
    packet.push(0);
    packet.extend_from_slice(&kex);
    let mut talk = tcp("ssh");
    talk.client(b"SSH-2.0-a\r\n");
    for _ in 0..500 {
        talk.in_pieces(Direction::ToServer, &packet, 1_400);
    }
    let bound = 4 * ssh::limits::HASSH_BYTES_MAX;
    assert!(talk.account.held_max < bound, "{}", talk.account.held_max);
    assert!(talk.account.offered <= 2 * talk.account.said, "{:?}", talk.account);
}

fn mail(talk: &mut Connection) {
    talk.server(b"220 mx\r\n");
    talk.client(b"EHLO a\r\n");
    talk.server(b"250 mx\r\n");
    talk.client(b"MAIL FROM:<a@b>\r\n");
    talk.server(b"250 ok\r\n");
    talk.client(b"RCPT TO:<c@d>\r\n");
    talk.server(b"250 ok\r\n");
    talk.client(b"DATA\r\n");
    talk.server(b"354 go\r\n");
}

/// Endless URLs, boundaries, parameters and header lines: each has its limit.
#[test]
fn mail_of_urls_boundaries_and_headers() {
    let parts: [Vec<u8>; 5] = [
        [b"\r\n".to_vec(), b"http://http:http://a.b/".repeat(40_000), b"\r\n".to_vec()].concat(),
        b"X: y\r\n".repeat(40_000),
        [b"Subject: a\r\n".to_vec(), b" fold\r\n".repeat(40_000)].concat(),
        [
            b"Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\n".to_vec(),
            b"--b\r\nContent-Type: multipart/mixed; boundary=\"b\"\r\n\r\n".repeat(5_000),
        ]
        .concat(),
        [b"Content-Disposition: attachment".to_vec(), b"; filename*0=\"a\"".repeat(30_000)]
            .concat(),
    ];
    for (at, part) in parts.iter().enumerate() {
        let mut talk = tcp("smtp");
        mail(&mut talk);
        talk.in_pieces(Direction::ToServer, part, 997);
        talk.client(b"\r\n.\r\n");
        talk.end();
        // An incomplete line is seen again with each piece, up to the limit of a line.
        let again = (smtp::limits::LINE_BYTES_MAX / 997 + 2) as u64;
        assert!(talk.account.offered <= again * talk.account.said, "{at}: {:?}", talk.account);
        assert!(talk.account.held_max < HELD_MAX, "{at}: {}", talk.account.held_max);
    }
}

/// Commands without answers.
#[test]
fn commands_without_answers_are_limited() {
    let mut talk = tcp("smtp");
    for _ in 0..100 {
        talk.client(&b"RSET\r\n".repeat(1_000));
    }
    assert!(talk.account.alive_max <= smtp::limits::TXS_PER_FLOW_MAX as u64);
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);

    let mut talk = tcp("ftp");
    for _ in 0..100 {
        talk.client(&b"NOOP\r\n".repeat(1_000));
    }
    assert!(talk.account.alive_max <= ftp::limits::TXS_PER_FLOW_MAX + 1);
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);

    let mut talk = tcp("ftp");
    talk.client(b"NOOP\r\n");
    for _ in 0..500 {
        talk.server(&b"150-wait\r\n".repeat(100));
    }
    assert!(talk.account.held_max < HELD_MAX, "{}", talk.account.held_max);
}

/// The rest of one mail, or of one that RSET aborted, must not hide the next one.
#[test]
fn a_mail_after_a_reset_is_parsed() {
    let mut talk = tcp("smtp");
    mail(&mut talk);
    talk.client(b"Content-Transfer-Encoding: base64\r\n\r\nAAAA\r\n.\r\n");
    talk.server(b"250 ok\r\n");
    talk.client(b"RSET\r\n");
    talk.server(b"250 ok\r\n");
    for line in ["MAIL FROM:<x@y>", "RCPT TO:<second@mail>", "DATA"] {
        talk.client(format!("{line}\r\n").as_bytes());
        talk.server(if line == "DATA" { b"354 go\r\n" } else { b"250 ok\r\n" });
    }
    talk.client(b"Subject: s\r\n\r\nhttp://second.example/\r\n.\r\n");
    talk.server(b"250 ok\r\n");
    talk.end();
    let records: Vec<String> = talk.transactions().map(Connection::record).collect();
    assert!(records.iter().any(|r| r.contains("second@mail")), "{records:?}");
}

/// A transfer without PORT or PASV before it is unusual, but parsing continues.
#[test]
fn a_transfer_without_a_port_hides_nothing() {
    let mut talk = tcp("ftp");
    talk.server(b"220 hi\r\n");
    talk.client(b"RETR a\r\n");
    talk.server(b"425 no\r\n");
    talk.client(b"USER root\r\n");
    talk.server(b"331 more\r\n");
    talk.end();
    assert_eq!(talk.account.errors, 0);
    let records: Vec<String> = talk.transactions().map(Connection::record).collect();
    assert!(records.iter().any(|r| r.contains("USER")), "{records:?}");
}

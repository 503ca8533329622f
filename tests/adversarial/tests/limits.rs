//! Every limit of a protocol that loses something has an input that reaches it here, and is
//! counted.
//!
//! The rule about limits in `tests/tidy` searches the strings of this file for the names of limits.

use gabion_adversarial::Connection;
use gabion_proto::limits::tables;
use gabion_record::applayer::Transport;
use gabion_record::limits::take_reached;

fn tcp(name: &str) -> Connection {
    Connection::with_protocol(name, Transport::Tcp)
}

fn udp(name: &str) -> Connection {
    Connection::with_protocol(name, Transport::Udp)
}

/// Asserts that the limit with this name was reached since the last call.
#[track_caller]
fn assert_reached(name: &str) {
    let limit = tables().into_iter().flatten().find(|l| l.full_name() == name);
    let limit = limit.unwrap_or_else(|| panic!("there is no limit {name}"));
    let counts = take_reached();
    let all: Vec<_> = counts.iter().map(|(l, n)| (l.full_name(), n)).collect();
    assert!(counts.times_reached(limit) > 0, "{name} was not reached, only {all:?}");
}

fn framed(message: &[u8]) -> Vec<u8> {
    [&(message.len() as u16).to_be_bytes(), message].concat()
}

#[test]
fn of_dns() {
    let mut name = Vec::new();
    for _ in 0..4 {
        name.push(60);
        name.extend_from_slice(&[b'a'; 60]);
    }
    name.push(0);
    name.extend_from_slice(&[0, 1, 0, 1]);
    // Two further names in each of 3,500 answers, each a letter before that name.
    for _ in 0..3_500 {
        let answer = [1, b'x', 0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 9, 0, 4, 1, b'y', 0xc0, 12];
        name.extend_from_slice(&answer);
    }
    let head = [0, 1, 0x81, 0x80, 0, 1, 0x0d, 0xac, 0, 0, 0, 0];
    let mut talk = udp("dns");
    talk.server(&[&head[..], &name].concat());
    assert_reached("proto.dns.arena_bytes_max");
    let question = [&[0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], &[1, b'a', 0, 0, 1, 0, 1]].concat();
    let mut talk = tcp("dns");
    talk.client(&framed(&question).repeat(8_193));
    assert_reached("proto.dns.txs_per_flow_max");
}

#[test]
fn of_datagrams() {
    let mut talk = udp("ntp");
    for _ in 0..1_025 {
        talk.client(&[&[0x23][..], &[0; 47]].concat());
    }
    assert_reached("proto.datagram_txs_max");
}

#[test]
fn of_ftp() {
    for (line, limit) in
        [("a", "proto.ftp.replies_max"), (&*"b".repeat(4_000), "proto.ftp.reply_bytes_max")]
    {
        let mut talk = tcp("ftp");
        talk.server(b"220 hello\r\n");
        talk.client(b"HELP\r\n");
        let lines = (6_000_000 / (line.len() + 60)).min(66_000);
        for _ in 0..lines {
            talk.server(format!("211-{line}\r\n").as_bytes());
        }
        assert_reached(limit);
    }
}

#[test]
fn of_mqtt() {
    let connect = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 5, 2, 0, 60, 0, 0, 0];
    let mut talk = tcp("mqtt");
    talk.client(&connect);
    talk.client(&[0xc0, 0].repeat(32 * 1024 + 1));
    assert_reached("proto.mqtt.txs_per_flow_max");
    // A PUBLISH with 65,537 user properties without a letter.
    let properties = [0x26, 0, 0, 0, 0].repeat(64 * 1024 + 1);
    let varied = |mut n: usize| {
        let mut out = Vec::new();
        loop {
            let more = n >= 128;
            out.push((n % 128) as u8 | if more { 128 } else { 0 });
            n /= 128;
            if !more {
                return out;
            }
        }
    };
    let body = [&[0, 1, b't'][..], &varied(properties.len()), &properties, b"x"].concat();
    let mut talk = tcp("mqtt");
    talk.client(&connect);
    talk.client(&[&[0x30][..], &varied(body.len()), &body].concat());
    assert_reached("proto.mqtt.properties_kept_max");
    let topics = [&[0, 1][..], &[0, 0, 0].repeat(16 * 1024 + 1)].concat();
    let mut talk = tcp("mqtt");
    talk.client(b"\x10\x0d\0\x04MQTT\x04\x02\0\x3c\0\x01a");
    talk.client(&[&[0x82][..], &varied(topics.len()), &topics].concat());
    assert_reached("proto.mqtt.topics_kept_max");
}

#[test]
fn of_sip() {
    let head = "INVITE sip:a@b SIP/2.0\r\nCall-ID: 1\r\n";
    let mut talk = tcp("sip");
    talk.client(&[head.as_bytes(), &b"X-A: b\r\n".repeat(10_000)].concat());
    assert_reached("proto.sip.head_bytes_max");
    let mut talk = tcp("sip");
    talk.client(format!("{head}Content-Length: 300000\r\n\r\n").as_bytes());
    talk.client(&[b'x'; 300_000]);
    assert_reached("proto.sip.body_bytes_max");
    let media =
        format!("v=0\r\no=- 1 1 IN IP4 a\r\ns=-\r\n{}", "m=audio 1 RTP/AVP 0\r\n".repeat(10_000));
    let more = "m=a\r\n".repeat(8_000);
    let body = format!("{media}{more}");
    let mut talk = tcp("sip");
    let said = format!(
        "{head}Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    talk.client(said.as_bytes());
    assert_reached("proto.sip.media_kept_max");
    let mut talk = tcp("sip");
    talk.client(&b"ACK sip:a SIP/2.0\r\n\r\n".repeat(4_097));
    assert_reached("proto.sip.txs_per_flow_max");
}

/// A session up to its mail.
fn mail() -> Connection {
    let mut talk = tcp("smtp");
    talk.server(b"220 x ESMTP\r\n");
    for (said, answer) in [("EHLO a", "250 ok"), ("MAIL FROM:<a@b>", "250 ok")] {
        talk.client(format!("{said}\r\n").as_bytes());
        talk.server(format!("{answer}\r\n").as_bytes());
    }
    talk
}

fn data(mut talk: Connection, lines: &[u8]) -> Connection {
    talk.client(b"DATA\r\n");
    talk.server(b"354 continue\r\n");
    talk.client(lines);
    talk
}

#[test]
fn of_smtp_commands() {
    let mut talk = tcp("smtp");
    talk.server(b"220 x ESMTP\r\n");
    for _ in 0..1_030 {
        talk.client(b"MAIL FROM:<a@b>\r\n");
        talk.server(b"250 ok\r\n");
        talk.client(b"RSET\r\n");
        talk.server(b"250 ok\r\n");
    }
    assert_reached("proto.smtp.txs_per_flow_max");
    let mut talk = mail();
    talk.client(&b"NOOP\r\n".repeat(66_000));
    assert_reached("proto.smtp.commands_waiting_max");
    let mut talk = mail();
    for _ in 0..65_537 {
        talk.client(b"RCPT TO:<a@b>\r\n");
        talk.server(b"250 ok\r\n");
    }
    assert_reached("proto.smtp.recipients_max");
}

#[test]
fn of_smtp_headers() {
    data(mail(), &[&b"a: b\r\n".repeat(65_600)[..], b"\r\nx\r\n"].concat());
    assert_reached("proto.smtp.headers_max");
    let folded =
        format!("Subject: x\r\n{}\r\nx\r\n", format!(" {}\r\n", "y".repeat(900)).repeat(80));
    data(mail(), folded.as_bytes());
    assert_reached("proto.smtp.header_value_bytes_max");
    let many = format!(" {}\r\n", "a=b;".repeat(200)).repeat(30);
    let said = format!("Content-Type: multipart/mixed;\r\n{many} boundary=x\r\n\r\nx\r\n");
    data(mail(), said.as_bytes());
    assert_reached("proto.smtp.parameters_max");
    let mut nested = String::from("Content-Type: multipart/mixed; boundary=b\r\n\r\n");
    for n in 0..300 {
        let above = if n == 0 { "b".to_owned() } else { format!("b{}", n - 1) };
        nested += &format!("--{above}\r\nContent-Type: multipart/mixed; boundary=b{n}\r\n\r\n");
    }
    data(mail(), nested.as_bytes());
    assert_reached("proto.smtp.nesting_max");
}

#[test]
fn of_smtp_bodies() {
    let part = "--b\r\nContent-Disposition: attachment; filename=a\r\n\r\nx\r\n";
    let files = format!("Content-Type: multipart/mixed; boundary=b\r\n\r\n{}", part.repeat(65_540));
    data(mail(), files.as_bytes());
    let counts = take_reached();
    let reached = |name: &str| counts.iter().any(|(l, n)| l.full_name() == name && n > 0);
    assert!(reached("proto.files_per_flow_max") && reached("proto.smtp.attachments_max"));
    data(mail(), &[b"Subject: x\r\n\r\n", &b"http://a.b/c d\r\n".repeat(65_600)[..]].concat());
    assert_reached("proto.smtp.urls_max");
    let long = format!(
        "Subject: x\r\n\r\n{}",
        format!("http://a.b/{} d\r\n", "c".repeat(900)).repeat(4_800)
    );
    data(mail(), long.as_bytes());
    assert_reached("proto.smtp.url_bytes_max");
}

#[test]
fn of_ssh() {
    let list = |bytes: usize| [&(bytes as u32).to_be_bytes()[..], &vec![b'k'; bytes]].concat();
    let mut body = vec![20];
    body.extend_from_slice(&[7; 16]);
    body.extend_from_slice(&list(30_000));
    body.extend_from_slice(&[0, 0, 0, 1, b'h'].repeat(9));
    body.extend_from_slice(&[0; 5]);
    let record = [&(body.len() as u32 + 1 + 4).to_be_bytes()[..], &[4], &body, &[0; 4]].concat();
    let mut talk = tcp("ssh");
    talk.client(b"SSH-2.0-x\r\n");
    talk.server(b"SSH-2.0-y\r\n");
    for _ in 0..5 {
        talk.client(&record);
    }
    assert_reached("proto.ssh.hassh_bytes_max");
}

#[test]
fn of_tls() {
    let message = [&[11, 17, 0, 0][..], &[0; 600]].concat();
    let record = [&[22, 3, 3][..], &framed(&message)].concat();
    let mut talk = tcp("tls");
    talk.server(&record);
    assert_reached("proto.tls.handshake_bytes_max");
}

#[test]
fn of_http() {
    let mut talk = tcp("http1");
    let repeated = "A: b\r\n".repeat(80);
    talk.client(format!("GET / HTTP/1.1\r\nHost: a\r\n{repeated}\r\n").as_bytes());
    assert_reached("proto.http1.repetitions_max");
    let mut talk = tcp("http1");
    let boundary = "b".repeat(80);
    let said = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary={boundary}\r\n\
         Content-Length: 5\r\n\r\nhello"
    );
    talk.client(said.as_bytes());
    assert_reached("proto.http1.boundary_bytes_max");
    let mut talk = tcp("http1");
    let said = [&b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"[..], &[b'x'; 70_000]].concat();
    talk.client(&said);
    assert_reached("proto.pending_bytes_max");
}

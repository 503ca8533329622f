//! The packets on which rules alert, as in Suricata 8.0.7 (`docs/semantics.md`).

use super::*;

/// The `alert.action` of Suricata 8.0.7 as a sensor, for these rules, this line and four packets.
#[test]
fn the_action_of_a_rate_filter_is_shown_as_blocked() {
    let rate = "rate_filter gen_id 1, sig_id 7, track by_rule, count 2, seconds 60, ";
    for action in ["alert", "drop"] {
        let rule = format!(r#"{action} udp any any -> any 9 (msg:"w"; content:"H"; sid:7;)"#);
        for (line, blocked) in [
            ("", &[false; 4][..]),
            ("new_action drop, timeout 10", &[false, false, true, true]),
            ("new_action reject, timeout 10", &[false, false, true, true]),
            ("new_action alert, timeout 10", &[false; 4]),
        ] {
            let file = if line.is_empty() { String::new() } else { format!("{rate}{line}") };
            let engine = engine_with_thresholds(&rule, &file);
            let packets: Vec<_> = (1..5).map(|n| udp((n, 9), (1000, 9), b"H")).collect();
            let (lines, _) = read(&engine, &packets);
            assert_eq!(lines.blocked, blocked, "{action} {line}");
        }
    }
}

/// Suricata 8.0.7 alerts on these packets (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn a_fin_makes_stream_data_due_if_the_client_sends_it_first() {
    let engine = engine(concat!(
        r#"alert tcp any any -> any any (msg:"s"; flow:only_stream; content:!"zz"; sid:1; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"d"; dsize:0; sid:2; rev:1;)"#,
    ));
    let (client, server) = (true, false);
    let data: [(bool, u8, &[u8]); 4] =
        [(client, ACK, b"abc"), (server, ACK, b""), (server, ACK, b"yy"), (client, ACK, b"")];
    let close = |first: bool| {
        let mut rest = data.to_vec();
        rest.push((first, FIN_ACK, b""));
        rest.push((!first, ACK, b""));
        rest.push((!first, FIN_ACK, b""));
        rest.push((first, ACK, b""));
        let (lines, _) = read(&engine, &session(9999, &rest));
        (alerts_of(&lines, 1), alerts_of(&lines, 2))
    };
    assert_eq!(close(client), (vec![8, 9], vec![1, 2, 3, 5, 7, 10, 11]));
    assert_eq!(close(server), (vec![11, 0], vec![1, 2, 3, 5, 7, 8, 9, 10]));
}

/// Suricata 8.0.7 alerts on the same packets (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn data_without_ack_counts_once_inspection_is_due() {
    let engine = engine(concat!(
        r#"alert tcp any any -> any any (msg:"s"; flow:only_stream; content:!"zz"; sid:1; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"p"; content:!"zz"; sid:2; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"d"; dsize:0; sid:3; rev:1;)"#,
    ));
    let (client, server, long) = (true, false, [b'a'; 1500]);
    let rest: [(bool, u8, &[u8]); 11] = [
        (client, ACK, &long),
        (server, ACK, b""),
        (client, ACK, &long),
        (server, ACK, b""),
        (client, ACK, b""),
        (client, ACK, b""),
        (client, ACK, b"defg"),
        (client, FIN_ACK, b""),
        (server, ACK, b""),
        (server, FIN_ACK, b""),
        (client, ACK, b""),
    ];
    let (lines, _) = read(&engine, &session(9999, &rest));
    assert_eq!(alerts_of(&lines, 1), [8, 14]);
    assert_eq!(alerts_of(&lines, 2), [8, 11, 14]);
    assert_eq!(alerts_of(&lines, 3), [1, 2, 3, 5, 7, 9, 12, 13]);
}

/// Suricata 8.0.7 alerts on these packets (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn each_line_of_a_reply_of_smtp_makes_stream_data_due() {
    let engine = engine(
        r#"alert tcp any any -> any any (msg:"s"; flow:to_client,only_stream; content:!"QQ"; sid:1; rev:1;)"#,
    );
    let (client, server) = (true, false);
    let says: [(bool, &[u8]); 7] = [
        (server, b"220 foo\r\n"),
        (client, b"EHLO a\r\n"),
        (server, b"250-a\r\n"),
        (server, b"250-b\r\n"),
        (server, b"250 ok\r\n"),
        (client, b"NOOP\r\n"),
        (server, b"250 x\r\n"),
    ];
    let mut rest: Vec<(bool, u8, &[u8])> =
        says.iter().flat_map(|(side, text)| [(*side, ACK, *text), (!side, ACK, b"")]).collect();
    rest.extend([(client, FIN_ACK, &b""[..]), (server, FIN_ACK, b""), (client, ACK, b"")]);
    let (lines, _) = read(&engine, &session(25, &rest));
    assert_eq!(alerts_of(&lines, 1), [10, 12, 15, 19]);
}

/// Suricata 8.0.7 alerts on these packets (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn demands_for_data_and_mails_of_pop3_make_no_stream_data_due() {
    let engine = engine(
        r#"alert tcp any any -> any any (msg:"s"; flow:to_client,only_stream; content:!"QQ"; sid:1; rev:1;)"#,
    );
    let (client, server) = (true, false);
    let login: &[(bool, &[u8])] = &[
        (client, b"AUTH PLAIN\r\n"),
        (server, b"+ \r\n"),
        (client, b"AGRpZw==\r\n"),
        (server, b"+OK x\r\n"),
    ];
    let mail: &[(bool, &[u8])] = &[
        (client, b"USER a\r\n"),
        (server, b"+OK x\r\n"),
        (client, b"RETR 1\r\n"),
        (server, b"+OK\r\n"),
        (server, b"abc\r\ndef\r\n.\r\n"),
    ];
    for (says, expected) in [(login, [7, 15, 19].as_slice()), (mail, &[7, 11, 21])] {
        let greeting: &[(bool, &[u8])] = &[(server, b"+OK hi\r\n")];
        let end: &[(bool, &[u8])] = &[(client, b"STAT\r\n"), (server, b"+OK 1 2\r\n")];
        let all = [greeting, says, end].concat();
        let mut rest: Vec<(bool, u8, &[u8])> =
            all.iter().flat_map(|(side, text)| [(*side, ACK, *text), (!side, ACK, b"")]).collect();
        rest.extend([(client, FIN_ACK, &b""[..]), (server, FIN_ACK, b""), (client, ACK, b"")]);
        let (lines, _) = read(&engine, &session(110, &rest));
        assert_eq!(alerts_of(&lines, 1), expected);
    }
}

/// Suricata 8.0.7 alerts on these packets (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn each_frame_of_http2_makes_stream_data_due() {
    let (client, server) = (true, false);
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), settings].concat();
    let says: [(bool, &[u8]); 8] = [
        (client, &hello),
        (server, settings),
        (client, b"\0\0\x06\x01\x05\0\0\0\x01\x82\x86\x84\x41\x01a"),
        (server, b"\0\0\x01\x01\x04\0\0\0\x01\x88"),
        (server, b"\0\0\x03\0\0\0\0\0\x01abc"),
        (server, b"\0\0\x03\0\0\0\0\0\x01d"),
        (server, b"ef"),
        (server, b"\0\0\x03\0\x01\0\0\0\x01xyz"),
    ];
    let mut rest: Vec<(bool, u8, &[u8])> =
        says.iter().flat_map(|(side, text)| [(*side, ACK, *text), (!side, ACK, b"")]).collect();
    rest.extend([(server, ACK, &b""[..]), (client, ACK, b""), (server, ACK, b"")]);
    let expected: &[(&str, &[u64])] = &[
        ("tcp-stream content:!\"zzz\"; flow:to_server;", &[11]),
        ("tcp-stream content:!\"zzz\"; flow:to_client;", &[12, 14, 18, 20]),
    ];
    assert_alerts(&session(80, &rest), expected);
}

/// A literal field of HTTP/2 without Huffman codes (RFC 7541 6.2.2).
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |t: &str| [&[t.len() as u8], t.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// A frame of HTTP/2 of its stream 1.
fn http2_frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// Suricata 8.0.7 alerts on the same packets, but that it alerts on questions again with later packets.
#[test]
fn rules_of_dns_are_asked_of_questions_and_answers_in_http2() {
    let (client, server) = (true, false);
    let question = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01";
    let answer = [
        b"\0\0\x81\x80\0\x01\0\x01\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01".as_slice(),
        b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x01\x02\x03\x04",
    ]
    .concat();
    let settings = b"\0\0\0\x04\0\0\0\0\0";
    let hello = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), settings].concat();
    let kind = field("content-type", "application/dns-message");
    let target = [field(":path", "/dns-query"), field(":authority", "a.example")].concat();
    let post = [b"\x83\x87".as_slice(), &target, &kind].concat();
    let found = [b"\x88".as_slice(), &kind].concat();
    let says: [(bool, &[u8]); 6] = [
        (client, &hello),
        (server, settings),
        (client, &http2_frame(1, 4, &post)),
        (client, &http2_frame(0, 1, question)),
        (server, &http2_frame(1, 4, &found)),
        (server, &http2_frame(0, 1, &answer)),
    ];
    let mut rest: Vec<(bool, u8, &[u8])> =
        says.iter().flat_map(|(side, text)| [(*side, ACK, *text), (!side, ACK, b"")]).collect();
    rest.extend([(client, FIN_ACK, &b""[..]), (server, FIN_ACK, b""), (client, ACK, b"")]);
    let expected: &[(&str, &[u64])] = &[
        ("dns dns.query; content:\"www\";", &[13]),
        ("dns dns.rrtype:1; flow:to_server;", &[13]),
        ("dns dns.rrtype:1; flow:to_client;", &[17]),
        ("dns dns.opcode:0;", &[13, 17]),
        ("dns dns.answers.rrname; content:\"www\";", &[17]),
        ("dns dns.response.rrname; content:\"www\";", &[17]),
    ];
    assert_alerts(&session(80, &rest), expected);
}

/// Suricata 8.0.7 alerts as often (`docs/semantics.md`, "The end of a flow").
#[test]
fn thresholds_count_at_a_flow_s_end_with_the_time_of_the_end() {
    let engine = engine(
        r#"alert http any any -> any any (msg:"l"; flow:to_client; threshold:type limit, track by_src, count 1, seconds 60; sid:1; rev:1;)"#,
    );
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let packets = session(80, &[(true, ACK, request), (false, ACK, b"")]);
    let other = udp((1, 2), (1, 9), b"x");
    for (seconds, expected) in [(30, vec![5]), (4_000, vec![5, 0])] {
        let mut worker = Worker::new(Arc::clone(&engine), WorkerBudgets::standalone(&engine));
        let mut lines = Lines::default();
        for (n, packet) in packets.iter().enumerate() {
            worker.frame(&frame(n as u64 + 1, packet), &mut lines);
        }
        let at = frame(packets.len() as u64 + 1, &other);
        let late = seconds * SECOND;
        let at = FrameIn { ts_ns: at.ts_ns + late, clock_ns: at.clock_ns + late, ..at };
        worker.frame(&at, &mut lines);
        worker.finish(&mut lines);
        assert_eq!(alerts_of(&lines, 1), expected, "{seconds} s later");
    }
}

/// Suricata 8.0.7 alerts on the same packets (`docs/semantics.md`, "Rules on the protocol only").
#[test]
fn rules_on_the_protocol_only_are_asked_once_it_is_decided() {
    let engine = engine(concat!(
        r#"alert ip any any -> any any (msg:"o"; app-layer-protocol:dns,to_server; sid:1; rev:1;)"#,
        "\n",
        r#"alert ip any any -> any any (msg:"n"; flow:no_stream; app-layer-protocol:dns,to_server; sid:2; rev:1;)"#,
        "\n",
        r#"alert ip any any -> any any (msg:"c"; app-layer-protocol:unknown,to_client; sid:3; rev:1;)"#,
    ));
    let name = b"\x03www\x01a\x03com\0\0\x01\0\x01";
    let query = [b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0".as_slice(), name].concat();
    let answer = [b"\x12\x34\x81\x80\0\x01\0\0\0\0\0\0".as_slice(), name].concat();
    let asks = || udp((1, 2), (4000, 53), &query);
    let answers = || udp((2, 1), (53, 4000), &answer);
    let packets = [asks(), asks(), asks(), asks(), answers(), asks(), answers(), answers()];
    let (lines, _) = read(&engine, &packets);
    assert_eq!(alerts_of(&lines, 1), [1, 2, 5, 6, 7]);
    assert_eq!(alerts_of(&lines, 2), alerts_of(&lines, 1), "a stream or none makes no difference");
    assert_eq!(alerts_of(&lines, 3), [1, 2]);
}

/// Suricata 8.0.7 alerts, or does not, in the same way (`docs/semantics.md`, "Contents").
#[test]
fn negated_contents_leave_room_and_end_where_they_stand_first() {
    let matches = |conditions: &str, text: &[u8]| {
        let engine =
            engine(&format!(r#"alert udp any any -> any 9 (msg:"c"; {conditions} sid:1; rev:1;)"#));
        let (lines, _) = read(&engine, &[udp((1, 2), (4000, 9), text)]);
        !lines.of("alert").is_empty()
    };
    let digits = b"0123456789abcdef";
    for (conditions, is_match) in [
        (r#"content:!"ZZ"; content:"12"; distance:0;"#, false),
        (r#"content:!"ZZ"; content:"23"; distance:0;"#, true),
        (r#"content:!"ZZ"; content:"12"; within:10;"#, true),
        (r#"content:!"ZZ"; offset:3; content:"12"; distance:0;"#, true),
        (r#"content:!"ZZ"; depth:10; content:"12"; distance:0;"#, true),
        (r#"content:!"ZZ"; endswith; content:"12"; distance:0;"#, false),
        (r#"content:!"ZZ"; distance:0; content:"01"; distance:0;"#, true),
        (r#"content:!"ZZZZ"; pcre:"/1/R"; content:"23"; distance:0;"#, false),
        (r#"content:!"ZZZZ"; isdataat:1,relative; content:"23"; distance:0;"#, true),
    ] {
        assert_eq!(matches(conditions, digits), is_match, "{conditions}");
    }
    for (conditions, text, is_match) in [
        (r#"content:!"e"; endswith;"#, "/mmzzqqe", false),
        (r#"content:!"e"; endswith;"#, "/mzezqze", true),
        (r#"content:!"qze"; endswith;"#, "/mzezqze", false),
        (r#"content:!"e"; offset:4; endswith;"#, "/mmzzqqe", true),
        (r#"content:"q"; content:!"ze"; distance:0; endswith;"#, "/mzezqze", true),
    ] {
        assert_eq!(matches(conditions, text.as_bytes()), is_match, "{conditions} {text}");
    }
}

/// Suricata 8.0.7 alerts on these datagrams (`docs/semantics.md`, "Contents").
#[test]
fn base64_decode_ends_the_conditions_of_its_buffer() {
    let texts = [
        "x YWJj y",
        "x!YWJj",
        "x *z YWJj",
        "x *x YWJj",
        "YWJj",
        "*",
        "xx*xYWJj",
        "x YWJjZZx *",
        "x YWJkx YWJj",
    ];
    let relative = r#"content:"x"; base64_decode:offset 1,relative; base64_data; "#;
    let cases: [(String, &[usize]); 10] = [
        (r#"content:"x "; base64_decode:relative; base64_data; content:"abc";"#.into(), &[0, 7]),
        (r#"content:"x "; base64_decode:relative;"#.into(), &[]),
        ("base64_decode;".into(), &[]),
        (format!(r#"{relative} content:"abc";"#), &[0, 1, 7]),
        (r#"pcre:"/x/"; base64_decode:offset 1,relative; base64_data; content:"abc";"#.into(), &[0, 1, 7]),
        (
            r#"content:"x"; base64_decode:offset 1,relative; content:"y"; base64_data; content:"abc";"#.into(),
            &[0, 1, 7],
        ),
        ("base64_decode; base64_data; content:\"abc\";".into(), &[4]),
        (format!("{relative} isdataat:3;"), &[7]),
        (format!("{relative} isdataat:!3;"), &[0, 1]),
        (r#"content:!"nn"; base64_decode; base64_data; content:"abc";"#.into(), &[4]),
    ];
    for (conditions, found) in cases {
        let engine =
            engine(&format!(r#"alert udp any any -> any 9 (msg:"c"; {conditions} sid:1; rev:1;)"#));
        let matches = |text: &&str| {
            let (lines, _) = read(&engine, &[udp((1, 2), (4000, 9), text.as_bytes())]);
            !lines.of("alert").is_empty()
        };
        let those: Vec<usize> = (0..texts.len()).filter(|n| matches(&texts[*n])).collect();
        assert_eq!(those, found, "{conditions}");
    }
}

/// A rule on one protocol other than TCP, UDP and ICMP is asked, with its ports.
#[test]
fn rules_on_sctp_alert() {
    let rules = "alert sctp any 7 -> any 9 (sid:1;)\n\
                 alert sctp any any -> any 8 (sid:2;)\n\
                 alert sctp any any -> any any (sid:3;)\n\
                 alert udp any any -> any any (sid:4;)\n";
    let mut header = [7u16.to_be_bytes(), 9u16.to_be_bytes()].concat();
    header.extend([0; 8]);
    let (lines, _) = read(&engine(rules), &[ipv4(132, (1, 2), &header)]);
    let mut sids: Vec<&str> = lines.of("alert").iter().map(|l| &l[..1]).collect();
    sids.sort_unstable();
    assert_eq!(sids, ["1", "3"]);
}

/// A rule without a pattern that asks something of the packet is asked again while its transaction lasts: the answer's
/// second half comes when enough was sent.
#[test]
fn what_a_packet_must_meet_may_be_met_later() {
    let rules = "alert http any any -> any any (http.stat_code; content:!\"404\"; \
                 stream_size:server,>,60; sid:1;)\n";
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\n";
    let (there, back, to, from) = ((1, 200), (200, 1), (5000, 80), (80, 5000));
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let asked = 1 + request.len() as u32;
    let answered = 501 + head.len() as u32;
    let packets = [
        tcp(there, to, (0, 0), SYN, b""),
        tcp(back, from, (500, 1), SYN | ACK, b""),
        tcp(there, to, (1, 501), ACK, b""),
        tcp(there, to, (1, 501), ACK, request),
        tcp(back, from, (501, asked), ACK, head),
        tcp(there, to, (asked, answered), ACK, b""),
        tcp(back, from, (answered, asked), ACK, &[b'a'; 30]),
        tcp(there, to, (asked, answered + 30), ACK, b""),
        tcp(back, from, (answered + 30, asked), ACK, &[b'b'; 30]),
        tcp(there, to, (asked, answered + 60), ACK, b""),
    ];
    let (lines, _) = read(&engine(rules), &packets);
    let alerts = lines.of("alert");
    assert_eq!(alerts.len(), 1, "{alerts:?}");
    assert!(alerts[0].starts_with("1 Some(7)"), "{alerts:?}");
}

/// Both sides of a transaction may ask for the same buffer.
#[test]
fn a_buffer_of_both_sides_is_asked_for_on_each() {
    let rules = "alert http any any => any any (http.connection: to_client; content:\"eep\"; \
                 http.connection: to_server; content:\"eep\"; sid:1;)\n";
    let asked = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    let answer = b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
    let (lines, _) = read(&engine(rules), &connection(1, 5000, asked, answer));
    assert_eq!(lines.of("alert").len(), 1);
    let close = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    let (lines, _) = read(&engine(rules), &connection(1, 5000, asked, close));
    assert!(lines.of("alert").is_empty());
}

/// The first datagram of each side may show which one is the client: observed with Suricata 8.0.7.
#[test]
fn a_query_to_the_client_reverses_the_sides() {
    let message = |id: u8, flags: u8| {
        [&[0, id, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0], &b"\x01a\x03com\0\0\x01\0\x01"[..]].concat()
    };
    let packets = [
        udp((1, 2), (5000, 53), &message(1, 1)),
        udp((2, 1), (53, 5000), &message(2, 1)),
        udp((1, 2), (5000, 53), &message(2, 0x81)),
    ];
    let rules = "alert dns any any -> any any (dns.query; content:\"a.com\"; sid:1;)\n";
    let (lines, _) = read(&engine(rules), &packets);
    let flows = lines.of("flow");
    assert!(flows.len() == 1 && flows[0].starts_with("Some((53, 5000)) 1+2"), "{flows:?}");
}

/// Rules of which each alerts on what its name says, and the packets on which Suricata 8.0.7 alerts; 0: none of the wire.
fn assert_alerts(packets: &[Vec<u8>], rules: &[(&str, &[u64])]) {
    let number = |(at, (rule, _)): (usize, &(&str, &[u64]))| {
        let (head, options) = rule.split_once(' ').unwrap();
        format!("alert {head} any any -> any any ({options} sid:{}; rev:1;)", at + 1)
    };
    let text: Vec<String> = rules.iter().enumerate().map(number).collect();
    let (lines, _) = read(&engine(&text.join("\n")), packets);
    for (at, (rule, expected)) in rules.iter().enumerate() {
        assert_eq!(alerts_of(&lines, at as u32 + 1), *expected, "{rule}");
    }
}

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: foo\r\n\r\n";
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// As in Suricata 8.0.7 (`docs/semantics.md`, "Which rules are asked on a packet").
#[test]
fn with_a_packet_that_its_session_refuses_only_the_packet_is_inspected() {
    let (client, server) = (true, false);
    let rest: [(bool, u8, &[u8]); 4] =
        [(client, ACK, REQUEST), (server, ACK, b""), (client, SYN, b""), (client, ACK, b"")];
    assert_alerts(
        &session(80, &rest),
        &[
            ("http flow:stateless;", &[5, 7]),
            ("tcp-stream content:!\"zzz\";", &[7]),
            ("http http.uri; content:\"a\";", &[7]),
            ("tcp dsize:0;", &[1, 2, 3, 5, 6]),
            ("tcp app-layer-protocol:http;", &[6]),
        ],
    );
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "Which rules are asked on a packet").
#[test]
fn what_is_due_is_inspected_with_a_packet_out_of_place() {
    let (client, server) = (true, false);
    let rest: [(bool, u8, &[u8]); 6] = [
        (client, ACK, REQUEST),
        (server, ACK, b""),
        (server, ACK, ANSWER),
        (client, ACK, b""),
        (client, ACK, b""),
        (server, ACK, b""),
    ];
    let ends = (501, 1 + REQUEST.len() as u32);
    let (old, ahead) = ((ends.0, &ANSWER[..20]), (ends.0 + 100_000, &b"y"[..]));
    for (seq, data) in [old, ahead, (ends.0, b"")] {
        let mut packets = session(80, &rest);
        packets.insert(7, tcp((200, 1), (80, 4000), (seq, ends.1), ACK, data));
        assert_alerts(
            &packets,
            &[
                ("http ttl:64;", &[5, 6, 7, 8, 9, 10]),
                ("tcp-stream content:\"200 OK\";", &[8]),
                ("http http.stat_code; content:\"200\";", &[8]),
            ],
        );
    }
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "When stream data is inspected"): what is inspected of a server's stream with
/// holes, some of which are acknowledged in part.
#[test]
fn data_after_a_hole_is_due_with_what_was_acknowledged_before_it() {
    let piece = |n: u8, len: usize| {
        let (first, last) = (format!("begin{n}"), format!("end{n}"));
        [first.as_bytes(), &vec![b'-'; len - first.len() - last.len()], last.as_bytes()].concat()
    };
    let ack = |to: u32| tcp((1, 200), (4000, 9999), (1, 501 + to), ACK, b"");
    let data = |at: u32, bytes: &[u8]| tcp((200, 1), (9999, 4000), (501 + at, 1), ACK, bytes);
    let mut packets = session(9999, &[]);
    packets.extend([
        data(0, &piece(1, 4_000)),
        ack(4_000),
        ack(4_388),
        data(5_460, &piece(2, 4_000)),
        ack(9_460),
        data(9_460, &piece(3, 1_460)),
        ack(10_920),
        data(10_920, &piece(4, 50)),
    ]);
    let rule = |content: &str| format!("tcp content:\"{content}\"; flow:to_client;");
    let rules = ["begin1", "end1", "begin2", "end2", "begin3", "end3"].map(rule);
    let places: [&[u64]; 6] = [&[7], &[7], &[7, 9, 11], &[9, 11], &[9, 11], &[9, 11]];
    let expected: Vec<_> = rules.iter().map(String::as_str).zip(places).collect();
    assert_alerts(&packets, &expected);
}

/// What follows a hole that is acknowledged in part is inspected with each packet, but not without end, as it costs the square
/// of what follows: Suricata 8.0.7 alerts with all 40 packets, and at the end.
#[test]
fn what_follows_a_hole_is_inspected_a_bounded_number_of_times() {
    let ack = tcp((1, 200), (4000, 9999), (1, 501 + 4_000), ACK, b"");
    let mut packets = session(9999, &[]);
    packets.push(ack);
    for n in 0..40 {
        let data = format!("begin{n}-----");
        packets.push(tcp((200, 1), (9999, 4000), (501 + 6_000 + 12 * n, 1), ACK, data.as_bytes()));
    }
    let rules = r#"alert tcp any any -> any any (content:"begin0"; flow:to_client; sid:1; rev:1;)"#;
    let (lines, _) = read(&engine(rules), &packets);
    let alerts = alerts_of(&lines, 1);
    assert_eq!(alerts[..17], (5..22).collect::<Vec<u64>>(), "{alerts:?}");
    assert!(alerts.len() <= 18, "{alerts:?}");
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "When stream data is inspected"): a pattern is looked for in a segment that comes
/// again, or after it was acknowledged, unless stream data is inspected with its packet.
#[test]
fn a_late_segment_is_searched_where_no_stream_data_is() {
    let ack = |to: u32| tcp((1, 200), (4000, 9999), (1, 501 + to), ACK, b"");
    let data = |at: u32, bytes: &[u8]| tcp((200, 1), (9999, 4000), (501 + at, 1), ACK, bytes);
    for (len, searched) in [(300, &[6u64][..]), (4_000, &[])] {
        let mut packets = session(9999, &[]);
        packets.extend([data(50, &vec![b'-'; len]), ack(50 + len as u32), data(0, &[b'a'; 50])]);
        assert_alerts(
            &packets,
            &[
                ("tcp content:\"aaaa\"; flow:to_client;", searched),
                ("tcp pcre:\"/aaaa/\"; flow:to_client;", &[6]),
                ("tcp content:\"aaaa\"; flow:no_stream;", &[6]),
            ],
        );
    }
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "When stream data is inspected"): the packet with which TLS ends the inspection of
/// payloads is inspected, at a flow's end too.
#[test]
fn sealed_data_that_was_not_acknowledged_is_inspected_at_the_end() {
    let (client, server) = (true, false);
    let answer = [TLS_ANSWER, TLS_SEALED].concat();
    let rest: [(bool, u8, &[u8]); 3] =
        [(client, ACK, TLS_HELLO), (server, ACK, b""), (server, ACK, &answer)];
    assert_alerts(&session(443, &rest), &[("tcp content:\"seal\";", &[0])]);
    let acknowledged = [&rest[..], &[(client, ACK, b"")]].concat();
    assert_alerts(&session(443, &acknowledged), &[("tcp content:\"seal\";", &[])]);
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn after_the_clients_fin_the_servers_data_is_due_with_each_packet() {
    let (client, server) = (true, false);
    let rest: [(bool, u8, &[u8]); 15] = [
        (client, ACK, b"abcdefghabcdefgh\r\nxx"),
        (server, ACK, b""),
        (server, ACK, b"defdefdefdefdefdef\r\nxx"),
        (client, ACK, b""),
        (client, FIN_ACK, b""),
        (server, ACK, b""),
        (server, ACK, b""),
        (server, ACK, b"QQQQ"),
        (client, ACK, b""),
        (server, ACK, b"RRRR"),
        (client, ACK, b""),
        (server, ACK, b"RRRR"),
        (client, ACK, b""),
        (server, ACK, b"TTTT"),
        (server, ACK, b""),
    ];
    assert_alerts(
        &session(9999, &rest),
        &[
            ("tcp-stream content:!\"zzz\"; flow:to_server;", &[8]),
            ("tcp-stream content:!\"zzz\"; flow:to_client;", &[9, 13, 15, 17, 18, 0]),
            ("tcp dsize:0;", &[1, 2, 3, 5, 7, 10, 12, 14, 16]),
        ],
    );
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "The end of a flow").
#[test]
fn a_session_that_has_not_ended_is_looked_at_both_ways() {
    let (client, server) = (true, false);
    let answered: [(bool, u8, &[u8]); 6] = [
        (client, ACK, REQUEST),
        (server, ACK, b""),
        (server, ACK, ANSWER),
        (client, ACK, b""),
        (server, ACK, b""),
        (client, ACK, b""),
    ];
    let ends: [(bool, u8, &[u8]); 3] =
        [(client, FIN_ACK, b""), (server, FIN_ACK, b""), (client, ACK, b"")];
    let with_ends = |rest: &[(bool, u8, &'static [u8])]| session(80, &[rest, &ends].concat());
    let (to_server, to_client) = ("http flow:to_server;", "http flow:to_client;");
    assert_alerts(&session(80, &answered), &[(to_server, &[7, 9, 0]), (to_client, &[5, 6, 8, 0])]);
    assert_alerts(
        &with_ends(&answered),
        &[(to_server, &[7, 9, 10, 12]), (to_client, &[5, 6, 8, 11])],
    );
    let unanswered = [answered[0], answered[1], (client, ACK, b"".as_slice())];
    assert_alerts(&with_ends(&unanswered), &[(to_server, &[6, 7, 9, 0]), (to_client, &[5, 8, 0])]);
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn messages_of_protocols_make_stream_data_due() {
    let (client, server) = (true, false);
    let (there, back) = (
        "tcp-stream content:!\"zzz\"; flow:to_server;",
        "tcp-stream content:!\"zzz\"; flow:to_client;",
    );
    let bind = b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0";
    let bound = b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0";
    let words = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
    let call = words(&[0x8000_0028, 7, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
    let reply = words(&[0x8000_0018, 7, 1, 0, 0, 0, 0]);
    let version = b"RFB 003.008\n".as_slice();
    let by_server: [(u16, [&[u8]; 3]); 2] = [
        (5900, [version, version, b"\x01\x01"]),
        (110, [b"+OK hi\r\n", b"STAT\r\n", b"+OK 1 2\r\n"]),
    ];
    for (port, [hello, asked, answer]) in by_server {
        let rest: [(bool, u8, &[u8]); 7] = [
            (server, ACK, hello),
            (client, ACK, b""),
            (client, ACK, asked),
            (server, ACK, b""),
            (server, ACK, answer),
            (client, ACK, b""),
            (server, ACK, b""),
        ];
        assert_alerts(&session(port, &rest), &[(there, &[9]), (back, &[7, 10])]);
    }
    // Port, question, answer, and the rules that see the question.
    type Exchange<'a> = (u16, &'a [u8], &'a [u8], &'a [u64]);
    let by_client: [Exchange<'_>; 2] = [(389, bind, bound, &[7]), (2049, &call, &reply, &[0])];
    for (port, asked, answer, to_server) in by_client {
        let rest: [(bool, u8, &[u8]); 6] = [
            (client, ACK, asked),
            (server, ACK, b""),
            (server, ACK, answer),
            (client, ACK, b""),
            (server, ACK, b""),
            (client, ACK, b""),
        ];
        assert_alerts(&session(port, &rest), &[(there, to_server), (back, &[8])]);
    }
    // Bytes of the client are lost, and FTP can't continue: one packet of these is not there.
    let rest: [(bool, u8, &[u8]); 11] = [
        (server, ACK, b"220 x.y\r\n"),
        (client, ACK, b""),
        (client, ACK, b"USER a\r\n"),
        (server, ACK, b""),
        (server, ACK, b"331 ok\r\n"),
        (client, ACK, b""),
        (client, ACK, b"01234567890123456789"),
        (client, ACK, b"PASS b\r\n"),
        (server, ACK, b""),
        (client, ACK, b""),
        (server, ACK, b""),
    ];
    let mut packets = session(21, &rest);
    packets.remove(9);
    assert_alerts(&packets, &[(there, &[0]), (back, &[11])]);
    // A body that is long enough to be inspected: 32 KiB, where the configuration says nothing.
    let (kib, head) = ([b'y'; 1024], b"HTTP/1.1 200 OK\r\nContent-Length: 150000\r\n\r\n");
    let mut rest: Vec<(bool, u8, &[u8])> = vec![(client, ACK, REQUEST), (server, ACK, b"")];
    let pieces =
        [head.as_slice()].into_iter().chain([kib.as_slice(); 40]).chain([b"a".as_slice(); 5]);
    rest.extend(pieces.flat_map(|piece| [(server, ACK, piece), (client, ACK, b"".as_slice())]));
    let by_amount = (14..69).step_by(6);
    let expected: Vec<u64> = by_amount.chain((72..97).step_by(2)).chain([0]).collect();
    assert_alerts(&session(80, &rest), &[(back, &expected)]);
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "A protocol that changes" and "HTTP/1").
#[test]
fn headers_of_a_connect_and_the_port_it_names() {
    let (client, server) = (true, false);
    let connect = b"CONNECT foo:25 HTTP/1.1\r\nHost: foo\r\n\r\n";
    let refused = b"HTTP/1.1 407 NO\r\nContent-Length: 0\r\n\r\n";
    let rest: [(bool, u8, &[u8]); 8] = [
        (client, ACK, connect),
        (server, ACK, b""),
        (server, ACK, refused),
        (client, ACK, b""),
        (client, ACK, b""),
        (client, ACK, REQUEST),
        (server, ACK, b""),
        (client, ACK, b""),
    ];
    let headers = "http http.header; content:\"foo\"; flow:to_server;";
    let raw = "http http.header.raw; content:\"foo\"; flow:to_server;";
    let method = "http http.method; content:\"CONN\";";
    assert_alerts(&session(8240, &rest), &[(headers, &[11, 11]), (raw, &[11, 11]), (method, &[7])]);
    let greeting = |port: &str| {
        let connect = format!("CONNECT foo:{port} HTTP/1.0\r\n\r\n");
        let rest: [(bool, u8, &[u8]); 10] = [
            (client, ACK, connect.as_bytes()),
            (server, ACK, b""),
            (server, ACK, b"HTTP/1.0 200 OK\r\n\r\n"),
            (client, ACK, b""),
            (server, ACK, b"220 foo.bar hi\r\n"),
            (client, ACK, b""),
            (client, ACK, b"HELO abcd\r\n"),
            (server, ACK, b""),
            (server, ACK, b"250 ok\r\n"),
            (client, ACK, b""),
        ];
        session(8240, &rest)
    };
    let start = "http http.start; content:\"foo\";";
    let smtp = "smtp stream_size:server,>,0;";
    assert_alerts(&greeting("25"), &[(smtp, &[9, 10, 11, 12, 13]), (start, &[]), (method, &[0])]);
    assert_alerts(&greeting("9999"), &[(smtp, &[11, 12, 13])]);
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "HTTP/1").
#[test]
fn events_of_http_are_asked_to_the_client_once_it_is_answered() {
    let (client, server) = (true, false);
    let event = "http app-layer-event:http.request_field_missing_colon;";
    let begin: &[u8] = b"GET / HTTP/1.1\r\nfoo\r\n";
    let mut rest = vec![(client, ACK, begin), (server, ACK, b"")];
    let more: [(bool, u8, &[u8]); 2] = [(client, ACK, b"bar\r\n"), (server, ACK, b"")];
    assert_alerts(&session(80, &[rest.as_slice(), &more].concat()), &[(event, &[0, 0])]);
    rest.extend([(server, ACK, ANSWER), (client, ACK, b"")]);
    assert_alerts(&session(80, &[rest.as_slice(), &more].concat()), &[(event, &[9, 0])]);
}

/// `tos` is a field of IPv4: it never matches the traffic class of IPv6, as in Suricata 8.0.7.
#[test]
fn tos_is_of_ipv4() {
    let mut packet = vec![0x60, 0, 0, 0, 0, 12, 17, 64];
    packet.extend([0xfd; 32]);
    packet.extend([0x0f, 0xa0, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
    let packets = [packet, udp((1, 2), (4000, 9), b"abcd")];
    assert_alerts(&packets, &[("ip tos:0;", &[2]), ("ip tos:!3;", &[2]), ("ip ttl:64;", &[1, 2])]);
}

/// An error message of ICMP belongs to the flow that it is about, and rules on ICMP are asked about it.
#[test]
fn rules_on_icmp_see_errors_about_other_flows() {
    let asked = udp((1, 2), (4000, 9), b"abcd");
    let error = [&[3, 1, 0, 0, 0, 0, 0, 0], asked.as_slice()].concat();
    let packets = [asked.clone(), asked, ipv4(1, (9, 1), &error)];
    assert_alerts(&packets, &[("icmp itype:3;", &[3]), ("udp ttl:64;", &[1, 2])]);
}

/// As in Suricata 8.0.7 (`docs/semantics.md`, "Members of records").
#[test]
fn ports_that_can_t_be_read_are_0() {
    let engine = engine(r#"alert ip any any -> any any (msg:"a"; sid:1; rev:1;)"#);
    let (cut, ping) = (b"\0\x01\0\x02", b"\x08\0\0\0\0\x01\0\x01");
    let packets = [udp((1, 2), (4000, 9), b"x"), ipv4(17, (1, 2), cut), ipv4(1, (1, 2), ping)];
    let (lines, _) = read(&engine, &packets);
    assert_eq!(lines.ports, [Some((4000, 9)), Some((0, 0)), None]);
}

/// Suricata 8.0.7 alerts, or does not, in the same way (`docs/semantics.md`, "Contents").
#[test]
fn what_is_a_public_suffix_alone_leaves_nothing_to_compare() {
    let asked = |conditions: &str, host: &str| {
        let rule = format!(
            r#"alert http any any -> any any (msg:"t"; http.uri.raw; {conditions} sid:1; rev:1;)"#
        );
        let request = format!("GET {host} HTTP/1.1\r\nHost: h\r\n\r\n");
        let rest: [(bool, u8, &[u8]); 3] =
            [(true, ACK, request.as_bytes()), (false, ACK, b""), (true, ACK, b"")];
        let (lines, _) = read(&engine(&rule), &session(80, &rest));
        !lines.of("alert").is_empty()
    };
    for (conditions, host, is_match) in [
        ("domain; bsize:11;", "www.example.com", true),
        ("tld; bsize:3;", "www.example.com", true),
        ("domain; bsize:0;", "/path", true),
        ("tld; bsize:0;", "co.uk", true),
        ("tld; bsize:5;", "co.uk", false),
        ("domain; dotprefix; bsize:0;", "com", true),
        ("domain; to_md5; bsize:16;", "com", false),
        ("domain; to_md5; bsize:16;", "a.com", true),
    ] {
        assert_eq!(asked(conditions, host), is_match, "{conditions} {host}");
    }
}

/// Suricata 8.0.7 alerts on the same packets (`docs/semantics.md`, "Which rules are asked on a packet").
#[test]
fn a_state_ends_the_uses_of_flow_and_two_states_never_hold() {
    let rules = concat!(
        r#"alert tcp any any -> any any (msg:"a"; flow:to_server; flow:established; dsize:0; sid:1; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"b"; flow:not_established,stateless; sid:2; rev:1;)"#,
    );
    let rest: [(bool, u8, &[u8]); 2] = [(true, ACK, b"abc"), (false, ACK, b"")];
    let (lines, _) = read(&engine(rules), &session(9999, &rest));
    let one = r#"alert tcp any any -> any any (msg:"a"; flow:to_server,established; dsize:0; sid:1; rev:1;)"#;
    let (same, _) = read(&engine(one), &session(9999, &rest));
    assert_eq!(alerts_of(&lines, 1), alerts_of(&same, 1));
    assert_eq!(alerts_of(&lines, 2), [0; 0]);
}

/// Suricata 8.0.7 alerts on the same packets (`docs/semantics.md`, "TCP").
#[test]
fn data_ends_the_handshake_if_it_comes_next() {
    let rules = r#"alert tcp any any -> any any (msg:"e"; flow:established; sid:1; rev:1;)"#;
    let established = |hole: u32, flags: u8| {
        let (there, back, to, from) = ((1, 200), (200, 1), (4000, 9999), (9999, 4000));
        let packets = [
            tcp(there, to, (0, 0), SYN, b""),
            tcp(back, from, (500, 1), SYN | ACK, b""),
            tcp(there, to, (1 + hole, 501), flags, b"abc"),
            tcp(back, from, (501, 1), ACK, b""),
        ];
        let (lines, _) = read(&engine(rules), &packets);
        alerts_of(&lines, 1)
    };
    assert_eq!(established(0, ACK), [3, 4]);
    assert_eq!(established(1, ACK), [4]);
    assert_eq!(established(0, FIN_ACK), [4]);
}

/// Suricata 8.0.7 alerts on the same packets (`docs/semantics.md`, "What an action does to a flow where nothing is dropped").
#[test]
fn past_its_limit_a_rule_passes_nothing() {
    let rules = concat!(
        r#"pass tcp any any -> any any (msg:"p"; flow:to_server; dsize:>0; "#,
        r#"threshold:type limit,track by_src,count 1,seconds 60; sid:1; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"a"; dsize:>0; sid:2; rev:1;)"#,
    );
    let one = [(true, ACK, b"abc".as_slice()), (false, ACK, b"")];
    let (lines, _) = read(&engine(rules), &session(9999, &[one, one, one].concat()));
    assert_eq!(alerts_of(&lines, 2), [6, 8]);
}

/// Suricata 8.0.7 alerts, or does not, in the same way (`docs/semantics.md`, "Which rules are asked on a packet").
#[test]
fn rules_on_ip_see_events_of_packets_without_a_header() {
    let rules = concat!(
        r#"alert ip any any -> any any (msg:"i"; decode-event:ipv4.pkt_too_small; sid:1; rev:1;)"#,
        "\n",
        r#"alert ip 1.2.3.4 any -> any any (msg:"a"; decode-event:ipv4.pkt_too_small; sid:2; rev:1;)"#,
        "\n",
        r#"alert ip any any -> any 80 (msg:"p"; decode-event:ipv4.pkt_too_small; sid:3; rev:1;)"#,
        "\n",
        r#"alert tcp any any -> any any (msg:"t"; decode-event:ipv4.pkt_too_small; sid:4; rev:1;)"#,
    );
    let (lines, _) = read(&engine(rules), &[vec![0x45, 0, 0]]);
    let fired = [1, 2, 3, 4].map(|sid| alerts_of(&lines, sid).len());
    assert_eq!(fired, [1, 1, 0, 0]);
}

/// Suricata 8.0.7 alerts on these packets (`docs/semantics.md`, "How a protocol is found").
#[test]
fn a_search_for_a_protocol_that_is_abandoned_is_an_event() {
    let engine = engine(
        "alert ip any any -> any any (app-layer-event:applayer_proto_detection_skipped; sid:1; rev:1;)\n",
    );
    let bytes: Vec<u8> = (128..228).cycle().take(105_000).collect();
    let alerts = |before: &[(bool, u8, &[u8])], by: bool, len: usize, after: &[u8]| {
        let mut rest = before.to_vec();
        let pieces = bytes[..len].chunks(1400).chain((!after.is_empty()).then_some(after));
        for piece in pieces {
            rest.push((by, ACK, piece));
            rest.push((!by, ACK, b""));
        }
        let (lines, _) = read(&engine, &session(9999, &rest));
        alerts_of(&lines, 1)
    };
    let (client, server) = (true, false);
    assert_eq!(alerts(&[], client, 105_000, b""), [147]);
    assert_eq!(alerts(&[], client, 100_000, b""), [0; 0]);
    assert_eq!(alerts(&[], client, 100_001, b""), [147]);
    assert_eq!(alerts(&[], client, 100_000, b"a"), [149]);
    let two: [(bool, u8, &[u8]); 2] = [(client, ACK, b"ab"), (server, ACK, b"")];
    assert_eq!(alerts(&two, server, 100_001, b""), [149]);
}

//! What keywords match, as in Suricata 8.0.7.

use super::*;

/// The rules of these conditions, with a number each.
fn rules(header: &str, conditions: &[&str]) -> String {
    let rule =
        |(n, c): (usize, &&str)| format!("alert {header} (msg:\"x\"; {c} sid:{}; rev:1;)", n + 1);
    conditions.iter().enumerate().map(rule).collect::<Vec<String>>().join("\n")
}

/// The datagrams of these, by their place, with which a rule of each condition alerts.
fn alerts_on(datagrams: &[Vec<u8>], conditions: &[&str]) -> Vec<Vec<usize>> {
    let packets: Vec<Vec<u8>> = datagrams.iter().map(|d| udp((1, 200), (4000, 9999), d)).collect();
    let engine = engine(&rules("udp any any -> any any", conditions));
    let (lines, _) = read(&engine, &packets);
    let places = |sid| alerts_of(&lines, sid).into_iter().map(|n| n as usize - 1).collect();
    (1..=conditions.len() as u32).map(places).collect()
}

/// Suricata 8.0.7 alerts on the same first bytes, of 14 in all.
#[test]
fn depths_and_withins_by_a_variable_may_be_zero_or_below() {
    const FIRST: [u8; 14] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 200, 255];
    let datagrams: Vec<Vec<u8>> =
        FIRST.iter().map(|b| [std::slice::from_ref(b), b"HabcHxyHzzH"].concat()).collect();
    let extract = "byte_extract:1,0,d;";
    let minus = "byte_math:bytes 1, offset 0, oper -, rvalue 5, result d;";
    let cases: [(&str, &str, &[u8]); 13] = [
        (extract, "content:\"H\"; depth:d;", &[2, 3, 4, 5, 6, 7, 8, 9, 10, 14, 200, 255]),
        (extract, "content:!\"H\"; depth:d;", &[0, 1]),
        (extract, "content:\"H\"; offset:d; depth:d;", &[1, 3, 4, 5, 6, 7, 8, 9, 10]),
        (
            extract,
            "content:\"a\"; content:\"H\"; distance:-1; within:d;",
            &[4, 5, 6, 7, 8, 9, 10, 14, 200, 255],
        ),
        (minus, "content:\"H\"; depth:d;", &[0, 1, 2, 3, 4, 7, 8, 9, 10, 14, 200, 255]),
        (minus, "content:!\"H\"; depth:d;", &[5, 6]),
        (minus, "content:\"H\"; offset:1; depth:d;", &[0, 1, 2, 3, 6, 7, 8, 9, 10, 14, 200, 255]),
        (minus, "content:\"H\"; offset:d;", &[5, 6, 7, 8, 9, 10, 14]),
        (
            minus,
            "content:\"a\"; content:\"H\"; distance:0; within:d;",
            &[0, 1, 8, 9, 10, 14, 200, 255],
        ),
        (
            minus,
            "content:\"a\"; content:\"H\"; distance:d; within:3;",
            &[1, 2, 3, 5, 6, 7, 8, 9, 10],
        ),
        (minus, "content:\"a\"; content:\"H\"; distance:d; within:d;", &[0, 1, 2, 3, 7, 8, 9, 10]),
        (
            minus,
            "content:\"a\"; content:\"H\"; distance:-1; within:d;",
            &[0, 1, 2, 9, 10, 14, 200, 255],
        ),
        (extract, "content:\"a\"; content:\"H\"; distance:d; within:d;", &[2, 3, 4, 5, 6, 7, 8]),
    ];
    for (variable, contents, expected) in cases {
        let places = alerts_on(&datagrams, &[&format!("{variable} {contents}")]);
        let bytes: Vec<u8> = places[0].iter().map(|at| FIRST[*at]).collect();
        assert_eq!(bytes, expected, "{variable} {contents}");
    }
}

/// Suricata 8.0.7 alerts on the same datagrams.
#[test]
fn entropy_needs_as_many_bytes_as_it_names() {
    let texts = ["abcdefghij", "aaaaaaaaaa", "abababababab", "a", "abcdefghijklmnopqrst", "ab"];
    let datagrams = texts.map(|t| t.as_bytes().to_vec());
    let cases: [(&str, &[usize]); 10] = [
        ("entropy:bytes 20, value < 1.5;", &[]),
        ("entropy:bytes 20, value != 9.0;", &[4]),
        ("entropy:bytes 10, value < 1.5;", &[1, 2]),
        ("entropy:bytes 11, value < 1.5;", &[2]),
        ("entropy:bytes 10, value >= 0.0;", &[0, 1, 2, 4]),
        ("entropy:offset 5, bytes 6, value < 1.5;", &[2]),
        ("entropy:offset 5, bytes 6, value >= 0.0;", &[2, 4]),
        ("entropy:offset 10, bytes 1, value < 1.5;", &[2, 4]),
        ("content:\"ab\"; entropy:offset -1, bytes 3, value >= 0.0;", &[0, 2, 4]),
        ("content:\"ab\"; entropy:offset -1, bytes 3, value < 1.5;", &[2]),
    ];
    let found = alerts_on(&datagrams, &cases.map(|(condition, _)| condition));
    for ((condition, expected), found) in cases.iter().zip(found) {
        assert_eq!(found, *expected, "{condition}");
    }
}

/// Suricata 8.0.7 alerts on the same messages.
#[test]
fn dns_rrtype_asks_questions_of_queries_and_answers_of_responses() {
    let name = b"\x01a\x01b\0";
    let question = |kind: u8| [&name[..], &[0, kind, 0, 1]].concat();
    let record = |kind: u8, data: &[u8]| {
        [&name[..], &[0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8], data].concat()
    };
    let message = |flags: u16, counts: [u8; 4], parts: &[Vec<u8>]| {
        let mut m = vec![0, 7];
        m.extend(flags.to_be_bytes());
        m.extend(counts.iter().flat_map(|n| [0, *n]));
        m.extend(parts.concat());
        m
    };
    let (a, aaaa) = (record(1, &[1, 2, 3, 4]), record(28, &[1; 16]));
    let query = message(0x100, [1, 0, 0, 0], &[question(28)]);
    let response = |counts, parts: &[Vec<u8>]| message(0x8180, counts, parts);
    let messages = [
        (true, query.clone()),
        (false, response([1, 0, 0, 0], &[question(28)])),
        (true, query.clone()),
        (false, response([1, 1, 0, 0], &[question(28), a.clone()])),
        (true, query.clone()),
        (false, response([1, 2, 0, 0], &[question(1), a, aaaa.clone()])),
        (true, query),
        (false, response([1, 0, 1, 0], &[question(1), aaaa])),
    ];
    let packets: Vec<Vec<u8>> = messages
        .iter()
        .map(|(is_query, m)| {
            let (ends, ports) =
                if *is_query { ((1, 200), (4000, 53)) } else { ((200, 1), (53, 4000)) };
            udp(ends, ports, m)
        })
        .collect();
    let conditions =
        ["dns.rrtype:28;", "dns.rrtype:1;", "dns.rrtype:!28;", "flow:to_client; dns.rrtype:!99;"];
    let (lines, _) = read(&engine(&rules("dns any any -> any any", &conditions)), &packets);
    assert_eq!(alerts_of(&lines, 1), [1, 3, 5, 6, 7]);
    assert_eq!(alerts_of(&lines, 2), [4, 6]);
    assert_eq!(alerts_of(&lines, 3), [4, 6]);
    assert_eq!(alerts_of(&lines, 4), [4, 6]);
}

/// Suricata 8.0.7 alerts on these packets (`docs/semantics.md`, "When stream data is inspected").
#[test]
fn messages_of_dcerpc_make_stream_data_due_by_their_type() {
    let pdu = |kind: u8, flags: u8, call: u8, body: &[u8]| {
        let len = 16 + body.len() as u8;
        [&[5, 0, kind, flags, 0x10, 0, 0, 0, len, 0, 0, 0, call, 0, 0, 0][..], body].concat()
    };
    let sizes = [0xb8, 0x10, 0xb8, 0x10];
    let transfer = b"\x04\x5d\x88\x8a\xeb\x1c\xc9\x11\x9f\xe8\x08\x00\x2b\x10\x48\x60\x02\0\0\0";
    let interface = b"\x81\xbb\x7a\x36\x44\x98\xf1\x35\xad\x32\x98\xf0\x38\x00\x10\x03\x02\0\0\0";
    let bind = |kind, call| {
        let contexts = [&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0][..], interface, transfer].concat();
        pdu(kind, 3, call, &[&sizes[..], &contexts].concat())
    };
    let ack = |kind, call| {
        let address = b"\x07\0\0\0\x04\x00135\0\0\0\x01\0\0\0\0\0\0\0";
        pdu(kind, 3, call, &[&sizes[..], address, transfer].concat())
    };
    let stub = |n: usize| [&[n as u8, 0, 0, 0, 0, 0, 15, 0][..], &b"A".repeat(n)].concat();
    let request = |n, call| pdu(0, 3, call, &stub(n));
    let response = |n, call| pdu(2, 3, call, &stub(n));
    let (client, server) = (true, false);
    type Case<'a> = (&'a [(bool, Vec<u8>)], &'a [u64], &'a [u64]);
    let cases: [Case<'_>; 5] = [
        (
            &[
                (client, bind(11, 1)),
                (server, ack(12, 1)),
                (client, bind(14, 2)),
                (server, ack(15, 2)),
                (client, request(8, 3)),
                (server, response(8, 3)),
            ],
            &[7, 11, 15],
            &[9, 13, 17],
        ),
        (
            &[
                (client, bind(11, 1)),
                (server, ack(12, 1)),
                (client, request(0, 2)),
                (server, response(0, 2)),
                (client, request(8, 3)),
                (server, response(8, 3)),
            ],
            &[7, 15],
            &[9, 13, 17],
        ),
        (
            &[
                (client, bind(11, 1)),
                (server, ack(12, 1)),
                (client, request(0, 2)),
                (client, request(8, 2)),
                (server, response(8, 2)),
            ],
            &[7, 13],
            &[9, 15],
        ),
        (
            &[
                (client, bind(11, 1)),
                (server, ack(12, 1)),
                (server, response(8, 2)),
                (client, request(8, 2)),
                (client, request(8, 3)),
                (server, response(8, 3)),
            ],
            &[7, 12, 15],
            &[8, 11, 17],
        ),
        (
            &[
                (client, bind(11, 1)),
                (server, pdu(13, 3, 1, &[1, 0, 0])),
                (client, bind(11, 2)),
                (server, ack(12, 2)),
            ],
            &[7, 11],
            &[13],
        ),
    ];
    let engine = engine(&rules(
        "tcp any any -> any any",
        &[
            "flow:to_server,only_stream; content:!\"QQ\";",
            "flow:to_client,only_stream; content:!\"QQ\";",
        ],
    ));
    for (n, (messages, to_server, to_client)) in cases.into_iter().enumerate() {
        let mut rest: Vec<(bool, u8, &[u8])> = messages
            .iter()
            .flat_map(|(side, m)| [(*side, ACK, &m[..]), (!side, ACK, b"")])
            .collect();
        rest.extend([(client, FIN_ACK, &b""[..]), (server, FIN_ACK, b""), (client, ACK, b"")]);
        let (lines, _) = read(&engine, &session(135, &rest));
        assert_eq!(
            (&alerts_of(&lines, 1)[..], &alerts_of(&lines, 2)[..]),
            (to_server, to_client),
            "{n}"
        );
    }
}

/// Suricata 8.0.7 alerts on the same lists.
#[test]
fn one_of_several_flowbits_is_enough() {
    let (client, server) = (true, false);
    let rest: [(bool, u8, &[u8]); 4] =
        [(client, ACK, b"first"), (server, ACK, b""), (client, ACK, b"third"), (server, ACK, b"")];
    let conditions = [
        "content:\"first\"; dsize:5; flowbits:set,b; flowbits:noalert;",
        "content:\"first\"; dsize:5; flowbits:set,c|d; flowbits:noalert;",
        "content:\"third\"; dsize:5; flowbits:isset,a|b;",
        "content:\"third\"; dsize:5; flowbits:isnotset,a|b;",
        "content:\"third\"; dsize:5; flowbits:isset,a||b;",
        "content:\"third\"; dsize:5; flowbits:isset,a|;",
        "content:\"third\"; dsize:5; flowbits:isset,c|d;",
        "content:\"third\"; dsize:5; flowbits:isnotset,c;",
        "content:\"third\"; dsize:5; flowbits:isnotset,b;",
    ];
    let engine = engine(&rules("tcp any any -> any any", &conditions));
    let (lines, _) = read(&engine, &session(9999, &rest));
    let alerts: Vec<u32> = (1..=9).filter(|sid| !alerts_of(&lines, *sid).is_empty()).collect();
    assert_eq!(alerts, [3, 4, 5, 8]);
}

/// Suricata 8.0.7 alerts on the same addresses.
#[test]
fn an_address_that_is_listed_has_a_score_in_each_category() {
    let tests = ["isset", "isnotset", "<,95", "=,0", ">,10", ">=,0", "!=,7"];
    let alerts = |src: u8, dst: u8, side: &str| {
        let conditions = tests.map(|t| format!("content:\"x\"; iprep:{side},{t};"));
        let text = rules("udp any any -> any any", &conditions.each_ref().map(String::as_str));
        let engine = with_reputation(&text);
        let (lines, _) = read(&engine, &[udp((src, dst), (4000, 9999), b"x")]);
        let holds = |n: &usize| !alerts_of(&lines, (n + 1) as u32).is_empty();
        (0..tests.len()).filter(holds).map(|n| tests[n]).collect::<Vec<&str>>()
    };
    let zero = ["isset", "isnotset", "<,95", "=,0", ">=,0", "!=,7"];
    let high = ["isset", "<,95", ">,10", ">=,0", "!=,7"];
    assert_eq!(alerts(1, 9, "src,A"), high);
    assert_eq!(alerts(1, 9, "src,B"), zero);
    assert_eq!(alerts(2, 9, "src,A"), zero);
    assert_eq!(alerts(3, 9, "src,A"), high);
    assert_eq!(alerts(3, 9, "src,B"), ["isnotset"]);
    assert_eq!(alerts(4, 9, "src,A"), zero);
    assert_eq!(alerts(5, 9, "src,B"), high);
    assert_eq!(alerts(5, 9, "src,C"), ["isnotset"]);
    assert_eq!(alerts(6, 9, "src,A"), zero, "in a category that no file names");
    let known = ["isset", "<,95", "=,0", ">=,0", "!=,7"];
    assert_eq!(alerts(1, 2, "any,C"), known);
    assert_eq!(alerts(1, 2, "both,C"), known);
    assert_eq!(alerts(1, 9, "both,C"), ["isnotset"; 0]);
    assert_eq!(alerts(9, 8, "both,C"), ["isnotset"]);
    assert_eq!(alerts(4, 1, "any,A"), [&known[..2], &["=,0", ">,10"], &known[3..]].concat());
}

/// An engine with these rules, three categories and six entries of reputation.
fn with_reputation(text: &str) -> Arc<Engine> {
    let categories = ["A", "B", "C"].map(str::to_owned).to_vec();
    let options = LoadOptions { reputation_categories: categories, ..LoadOptions::default() };
    let catalog = gabion_proto::registry::catalog();
    let source = RuleSource { name: "test.rules", text, is_firewall: false };
    let (set, report) = Ruleset::load(&[source], &catalog, &RuleVars::default(), &options);
    assert_eq!(set.signatures.len(), text.lines().count(), "{report:?}");
    let mut reputation = gabion_net::Reputation::default();
    let id = |name: &str| set.categories.find(name).expect("rules load all categories");
    let address = |n: u8| gabion_record::Addr::v4([10, 0, 0, n]);
    for (n, prefix, category, score) in [
        (1, None, "A", 50),
        (2, Some(31), "A", 60),
        (2, None, "B", 70),
        (4, None, "A", 0),
        (5, Some(32), "B", 20),
    ] {
        match prefix {
            None => reputation.set_address(address(n), Some(id(category)), score),
            Some(prefix) => reputation.set_network(address(n), 4, prefix, id(category), score),
        }
    }
    reputation.set_address(address(6), None, 90);
    let config = Tree::default();
    let protocols = Protocols::new(&config, Requirements::default()).expect("good defaults");
    let defaults = EngineOptions::from_tree(&config).expect("good defaults");
    let options = EngineOptions { wants: Wants { alerts: true, ..Wants::default() }, ..defaults };
    let engine = Engine::with_rules((set, Datasets::default()), catalog, protocols, options);
    Arc::new(Engine { reputation: Arc::new(reputation), ..engine })
}

/// Suricata 8.0.7 alerts on the same packets, 0 being the end of the flow.
#[test]
fn a_buffer_is_absent_behind_its_progress_only() {
    let (client, server) = (true, false);
    let answer: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx";
    let conditions = [
        "http.referer; absent;",
        "http.cookie; absent;",
        "file.data; absent;",
        "http.server; absent;",
        "http.user_agent; absent;",
        "http.stat_msg; absent;",
    ];
    let engine = engine(&rules("http any any -> any any", &conditions));
    let asked: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let connect: &[u8] = b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n";
    let granted: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
    let parts: [&[u8]; 2] = [b"GET / HTTP/1.1\r\nHost: a\r\n", b"X: b\r\n"];
    type Case<'a> = (&'a [(bool, &'a [u8])], [&'a [u64]; 6]);
    let cases: [Case<'_>; 3] = [
        (&[(client, asked), (server, answer)], [&[7], &[7, 9], &[7], &[9], &[7], &[]]),
        (&[(client, connect), (server, granted)], [&[], &[0], &[0], &[0], &[], &[]]),
        (&[(client, parts[0]), (client, parts[1])], [&[10], &[10], &[10], &[], &[10], &[]]),
    ];
    for (n, (messages, expected)) in cases.into_iter().enumerate() {
        let mut rest: Vec<(bool, u8, &[u8])> =
            messages.iter().flat_map(|(side, m)| [(*side, ACK, *m), (!side, ACK, b"")]).collect();
        rest.extend([(client, FIN_ACK, &b""[..]), (server, FIN_ACK, b""), (client, ACK, b"")]);
        let (lines, _) = read(&engine, &session(80, &rest));
        let found = [1, 2, 3, 4, 5, 6].map(|sid| alerts_of(&lines, sid));
        assert_eq!(found.each_ref().map(|f| &f[..]), expected, "{n}");
    }
}

/// A packet of IPv6 without link layer, whose payload belongs to this header.
fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16).to_be_bytes();
    let address = |end: u8| [&[0x20, 0x01][..], &[0; 13], &[end]].concat();
    [&[0x60, 0, 0, 0][..], &len, &[next, 64], &address(1), &address(2), payload].concat()
}

/// As in Suricata 8.0.7, which compares units of eight bytes in IPv4 and bytes in IPv6, and finds no offset in a packet of
/// IPv6 without a header of fragments.
#[test]
fn offsets_of_fragments_differ_by_version() {
    const FRAGMENT: u8 = 44;
    let part = |field: u16, number: u8| {
        let [high, low] = field.to_be_bytes();
        [&[17, 0, high, low, 0, 0, 0, number][..], &[number; 16]].concat()
    };
    let mut second = udp((1, 200), (4000, 9999), b"the second part");
    second[6..8].copy_from_slice(&0x2001_u16.to_be_bytes());
    let packets = [
        ipv6(17, &[0x0f, 0xa0, 0x27, 0x0f, 0, 16, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ipv6(FRAGMENT, &part(1, 1)),
        ipv6(FRAGMENT, &part(8 | 1, 2)),
        second,
        udp((1, 200), (4000, 9999), b"whole"),
    ];
    let conditions = ["fragoffset:0;", "fragoffset:<100;", "fragoffset:8;", "fragoffset:1;"];
    let engine = engine(&rules("ip any any -> any any", &conditions));
    let (lines, _) = read(&engine, &packets);
    let found: Vec<Vec<u64>> = (1..=4).map(|sid| alerts_of(&lines, sid)).collect();
    assert_eq!(found, [vec![2, 5], vec![2, 3, 4, 5], vec![3], vec![4]]);
}

//! FTP sessions; all expected values are what Suricata 8.0.7 wrote for the same session, unless a
//! comment says otherwise.

use super::Says::{C, S, Wait};
use super::{Heard, Says, in_any_split};
use gabion_proto::ftp::PROTOCOL;
use proptest::prelude::*;

fn session(says: &[Says<'_>]) -> Heard {
    in_any_split(PROTOCOL, None, says)
}

fn events(heard: &Heard) -> Vec<&str> {
    heard.events.iter().map(|(_, name)| *name).collect()
}

#[test]
fn commands_and_replies() {
    let heard = session(&[
        S(b"220 welcome\r\n"),
        C(b"USER bob\r\n"),
        S(b"331 pw\r\n"),
        C(b"PASS x y \r\n"),
        S(b"230 ok \t\r\n"),
        Wait,
        C(b"XYZZY foo\r\n"),
        S(b"500 no\r\n"),
        Wait,
        C(b"LIST\r\n"),
        S(b"150 a\r\n226 b\r\n"),
        C(b"  NOOP\r\n"),
        S(b"215-a\r\n b\r\n215 c\r\n"),
        C(b"NOOP\r\n"),
    ]);
    assert_eq!(
        heard.records,
        [
            r#"{"completion_code":["220"],"reply":["welcome"],"reply_received":"yes","reply_truncated":false}"#,
            r#"{"command":"USER","command_data":"bob","command_truncated":false,"completion_code":["331"],"reply":["pw"],"reply_received":"yes","reply_truncated":false}"#,
            r#"{"command":"PASS","command_data":"x y","command_truncated":false,"completion_code":["230"],"reply":["ok"],"reply_received":"yes","reply_truncated":false}"#,
            r#"{"completion_code":["500"],"reply":["no"],"reply_received":"yes","reply_truncated":false}"#,
            r#"{"command":"LIST","completion_code":["150","226"],"reply":["a","b"],"reply_received":"yes","reply_truncated":false}"#,
            r#"{"command":"NOOP","command_data":"P","command_truncated":false,"completion_code":["215"],"reply":["215-a"," b","c"],"reply_received":"yes","reply_truncated":false}"#,
            r#"{"command":"NOOP","reply_received":"no","reply_truncated":false}"#,
        ]
    );
    assert_eq!(heard.events, [(4, "file_before_port")]);
}

#[test]
fn forms_of_replies() {
    for (reply, record) in [
        ("20 ok", r#""reply":["20 ok"],"#),
        ("200", r#""reply":["200"],"#),
        ("200x", r#""reply":["200x"],"#),
        ("2000 y", r#""reply":["2000 y"],"#),
        (" 200 ok", r#""reply":[" 200 ok"],"#),
        ("200-ok", r#""reply":["200-ok"],"#),
        ("200  two", r#""completion_code":["200"],"reply":[" two"],"#),
        ("", ""),
    ] {
        let line = format!("{reply}\r\n");
        let heard = session(&[S(b"220 x\r\n"), C(b"NOOP\r\n"), S(line.as_bytes())]);
        let object = format!(
            r#"{{"command":"NOOP",{record}"reply_received":"yes","reply_truncated":false}}"#
        );
        assert_eq!(heard.records[1], object);
    }
}

#[test]
fn ports_and_what_they_are_for() {
    for (command, reply, record, expectations) in [
        (
            "PORT 10,0,0,1,4,1",
            "200 ok",
            r#""completion_code":["200"],"reply":["ok"],"dynamic_port":1025,"mode":"active","#,
            1,
        ),
        ("PORT 10,0,0,1,4", "200 ok", r#""mode":"passive","#, 0),
        (
            "EPRT |1|10.0.0.1|1025|",
            "200 ok",
            r#""completion_code":["200"],"reply":["ok"],"dynamic_port":1025,"mode":"active","#,
            1,
        ),
        (
            "PASV",
            "227 (10,0,0,2,4,1).",
            r#""completion_code":["227"],"reply":["(10,0,0,2,4,1)."],"dynamic_port":1025,"mode":"passive","#,
            1,
        ),
        (
            "PASV",
            "500 (10,0,0,2,4,1)",
            r#""completion_code":["500"],"reply":["(10,0,0,2,4,1)"],"mode":"passive","#,
            0,
        ),
        (
            "EPSV ALL",
            "229 (|||1025|)",
            r#""completion_code":["229"],"reply":["(|||1025|)"],"dynamic_port":1025,"mode":"passive","#,
            1,
        ),
    ] {
        let (line, answer) = (format!("{command}\r\n"), format!("{reply}\r\n"));
        let heard = session(&[
            S(b"220 x\r\n"),
            C(line.as_bytes()),
            S(answer.as_bytes()),
            C(b"RETR f.txt\r\n"),
            S(b"150 go\r\n"),
            S(b"226 done\r\n"),
            C(b"RETR f.txt\r\n"),
        ]);
        assert!(heard.records[1].contains(record), "{} {record}", heard.records[1]);
        assert_eq!(heard.expectations, expectations, "{command}");
        assert_eq!(events(&heard).len(), 2 - expectations);
    }
}

#[test]
fn transfers_without_a_name() {
    for (command, names) in [
        ("RETR", &["file_without_name"][..]),
        ("STOR ", &["file_without_name"]),
        ("STOU", &[]),
        ("LIST", &[]),
    ] {
        let line = format!("{command}\r\n");
        let heard = session(&[
            S(b"220 x\r\n"),
            C(b"PASV\r\n"),
            S(b"227 (10,0,0,2,4,1)\r\n"),
            C(line.as_bytes()),
        ]);
        assert_eq!(events(&heard), names, "{command}");
    }
}

#[test]
fn long_lines() {
    // Line with its end, bytes of `command_data`, cut.
    for (total, data, is_cut) in
        [(4095, 4088, false), (4096, 4089, true), (4098, 4091, true), (5007, 4091, true)]
    {
        let line = [b"NOOP ", vec![b'x'; total - 7].as_slice(), b"\r\n"].concat();
        let heard = session(&[S(b"220 x\r\n"), C(&line), S(b"200 ok\r\n"), C(b"SYST\r\n")]);
        let object = format!(
            r#"{{"command":"NOOP","command_data":"{}","command_truncated":{is_cut},"#,
            "x".repeat(data)
        );
        assert!(heard.records[1].starts_with(&object), "{total}");
        assert!(heard.records[2].starts_with(r#"{"command":"SYST""#));
        assert_eq!(events(&heard), if is_cut { vec!["request_command_too_long"] } else { vec![] });
    }
    let line = [b"200 ", vec![b'y'; 5000].as_slice(), b"\r\n"].concat();
    let heard = session(&[S(b"220 x\r\n"), C(b"NOOP\r\n"), S(&line)]);
    assert!(heard.records[1].contains(&format!(r#""reply":["{}"]"#, "y".repeat(4092))));
    assert!(heard.records[1].ends_with(r#""reply_truncated":true}"#));
    assert_eq!(events(&heard), ["response_command_too_long"]);
}

#[test]
fn too_many_commands() {
    // The command beyond the limit raises the event in the oldest that waits, and ends the flow: Suricata 8.0.7
    // writes a record of each command before it with the packet.
    let heard = session(&[S(b"220 x\r\n"), C(&b"NOOP\r\n".repeat(1100)), C(b"SYST\r\n")]);
    assert_eq!((events(&heard), heard.records.len()), (vec!["too_many_transactions"], 1025));
    assert!(heard.has_failed && heard.progress.iter().all(|p| *p == [1, 1]));
}

#[test]
fn endless_preliminary_replies_are_bounded() {
    let replies = b"150 more to come\r\n".repeat(20_000);
    let heard = session(&[S(b"220 x\r\n"), C(b"LIST\r\n"), S(&replies)]);
    assert!(heard.records[1].len() < 20_000);
}

#[test]
fn tls_follows() {
    // Suricata does not know AUTH and reads on.
    for (command, reply, expected) in [
        ("AUTH TLS", "234 ok", vec![Some("tls")]),
        ("auth ssl", "234 ok", vec![Some("tls")]),
        ("NOOP\r\nAUTH TLS", "200 x\r\n234 ok", vec![Some("tls")]),
        ("AUTH TLS", "500 no", vec![]),
        ("AUTH TLS", "500 no\r\n234 x", vec![]),
        ("AUTH GSSAPI", "234 ok", vec![]),
    ] {
        let (line, answer) = (format!("{command}\r\n"), format!("{reply}\r\n"));
        let heard = session(&[S(b"220 x\r\n"), C(line.as_bytes()), S(answer.as_bytes())]);
        assert_eq!(heard.changes, expected, "{command} {reply}");
    }
}

#[test]
fn commands_that_are_not_known_have_no_transaction() {
    let texts = |heard: &Heard| -> Vec<String> {
        let part = |r: &String| r.split(r#","reply_received"#).next().map(str::to_owned);
        heard.records.iter().filter_map(part).collect()
    };
    let long = [b"CWD b\r\n".as_slice(), &[b'N'; 5000], b"\r\n"].concat();
    let (user, cwd) = (
        r#"{"command":"USER","command_data":"a","command_truncated":false,"completion_code":["331"],"reply":["a"]"#,
        r#"{"command":"CWD","command_data":"c","command_truncated":false,"completion_code":["332"],"reply":["b"]"#,
    );
    let (a, b, c) = (
        r#"{"completion_code":["331"],"reply":["a"]"#,
        r#"{"completion_code":["332"],"reply":["b"]"#,
        r#"{"completion_code":["331","332"],"reply":["a","b"]"#,
    );
    for (commands, records) in [
        (&b"USER a\r\nCWD c\r\n"[..], &[user, cwd][..]),
        (b"USER a\r\nNICK b\r\n", &[c]),
        (b"USER a\r\nCWD b\r\nNICK c\r\n", &[a, b]),
        (b"USER a\r\nNICK b\r\nNACK b\r\nCWD c\r\n", &[user, cwd]),
        (&long, &[c]),
    ] {
        let heard = session(&[S(b"220 x\r\n"), C(commands), S(b"331 a\r\n332 b\r\n")]);
        let got = texts(&heard);
        assert_eq!(got[1..], *records, "{}", String::from_utf8_lossy(commands));
        assert!(heard.events.is_empty());
    }
    // A preliminary reply that comes then is enough.
    let heard = session(&[
        S(b"220 x\r\n"),
        C(b"CWD b\r\nNICK\r\n"),
        S(b"150 b\r\n"),
        C(b"NOOP\r\n"),
        S(b"200 b\r\n"),
    ]);
    assert_eq!(
        texts(&heard)[1..],
        [r#"{"completion_code":["150","200"],"reply":["b","b"]"#, r#"{"command":"NOOP""#]
    );
    let heard = session(&[S(b"220 x\r\n"), C(&b"N\r\n".repeat(1100)), C(b"SYST\r\n")]);
    assert_eq!((heard.events.len(), heard.records.len()), (0, 2));
}

#[test]
fn replies_are_understood_by_the_last_command() {
    // Commands at once, then `dynamic_port` and `mode` of the records of their replies.
    for (commands, replies, members) in [
        ("CWD b|PORT 1,2,3,4,5,6", "200 x|201 x", [Some((1286, "")), Some((1286, "active"))]),
        ("PORT 1,2,3,4,5,7|PORT 1,2,3,4,5,6", "200 x|201 x", [Some((1286, "active")); 2]),
        ("PORT x|PORT 1,2,3,4,5,6", "200 x|201 x", [Some((1286, "active")); 2]),
        ("PORT 1,2,3,4,5,6|CWD x", "200 x|201 x", [None; 2]),
        ("PASV|NICK", "227 (1,2,3,4,5,6)|500 x", [None; 2]),
        (
            "CWD b|PASV",
            "227 (1,2,3,4,5,6)|227 (1,2,3,4,5,7)",
            [Some((1286, "")), Some((1287, "passive"))],
        ),
    ] {
        let bytes = |lines: &str| format!("{}\r\n", lines.replace('|', "\r\n")).into_bytes();
        let heard = session(&[S(b"220 x\r\n"), C(&bytes(commands)), S(&bytes(replies))]);
        for (record, member) in heard.records[1..].iter().zip(members) {
            let Some((port, mode)) = member else {
                assert!(!record.contains("dynamic_port"), "{commands} {record}");
                continue;
            };
            assert!(record.contains(&format!(r#""dynamic_port":{port}"#)), "{commands} {record}");
            let written = format!(r#""mode":"{mode}""#);
            assert_eq!(record.contains(r#""mode":"#), !mode.is_empty(), "{commands} {record}");
            assert!(mode.is_empty() || record.contains(&written), "{commands} {record}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing panics and nothing depends on the cut.
    #[test]
    fn any_bytes_in_any_split(client: Vec<u8>, server: Vec<u8>) {
        session(&[C(&client), S(&server), C(&client), S(&server)]);
    }

    /// The same with lines that mean something.
    #[test]
    fn any_lines_in_any_split(client in lines(), server in lines()) {
        session(&[C(client.as_bytes()), S(server.as_bytes()), C(client.as_bytes())]);
    }
}

fn lines() -> impl Strategy<Value = String> {
    let line = prop::sample::select(vec![
        "USER a\r\n",
        "RETR f\r\n",
        "PORT 1,2,3,4,5,6\n",
        "EPSV\r\n",
        "PASV\r\n",
        "\r\n",
        "\r",
        "STOR x",
        "150 a\r\n",
        "227 (1,2,3,4,5,6)\r\n",
        "229 (|||99|)\r\n",
        "200-a\r\n",
        "200 b\r\n",
        "234 x\r\n",
    ]);
    prop::collection::vec(line, 0..40).prop_map(|l| l.concat())
}

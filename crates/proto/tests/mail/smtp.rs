//! SMTP sessions; all expected values are what Suricata 8.0.7 wrote for the same session, unless a
//! comment says otherwise.

use super::Says::{C, S};
use super::{Heard, Says, in_any_split};
use gabion_proto::smtp::PROTOCOL;
use gabion_record::Tree;
use proptest::prelude::*;

const START: [Says<'_>; 7] = [
    S(b"220 hi\r\n"),
    C(b"EHLO a.b\r\n"),
    S(b"250-x\r\n250 SIZE\r\n"),
    C(b"MAIL FROM:<a@b> SIZE=3\r\n"),
    S(b"250 ok\r\n"),
    C(b"RCPT TO:<c@d>\r\n"),
    S(b"250 ok\r\n"),
];

const ENVELOPE: &str = r#"{"helo":"a.b","mail_from":"<a@b>","rcpt_to":["<c@d>"]}"#;

/// The session after an envelope.
fn session(more: &[Says<'_>]) -> Heard {
    configured(None, more)
}

fn configured(config: Option<&Tree>, more: &[Says<'_>]) -> Heard {
    let all: Vec<Says<'_>> = START.iter().chain(more).copied().collect();
    in_any_split(PROTOCOL, config, &all)
}

/// The session of one mail.
fn mail(text: &str) -> Heard {
    let text = text.replace('\n', "\r\n");
    session(&[
        C(b"DATA\r\n"),
        S(b"354 go\r\n"),
        C(text.as_bytes()),
        C(b".\r\n"),
        S(b"250 ok\r\n"),
        C(b"QUIT\r\n"),
        S(b"221 bye\r\n"),
    ])
}

/// The `email` object of a mail.
fn email(text: &str) -> String {
    let heard = mail(text);
    assert_eq!(heard.records.len(), 1, "{text}");
    heard.records[0].strip_prefix(ENVELOPE).expect("envelope").to_string()
}

#[test]
fn a_mail_and_its_envelope() {
    let heard = mail("From: A <a@b>\nTo: x, y\nSubject: s\nCc: c1, c2\n\nhttp://abc.de/x \n");
    let object = concat!(
        r#"{"from":"A <a@b>","to":["x","y"],"cc":["c1","c2"],"status":"PARSE_DONE","#,
        r#""url":["abc.de/x"]}"#
    );
    assert_eq!(heard.records, [format!("{ENVELOPE}{object}")]);
    assert_eq!((heard.events, heard.progress), (Vec::new(), vec![[2, 2]]));
}

#[test]
fn headers() {
    for (text, object) in [
        ("", r#"{"status":"PARSE_DONE"}"#),
        ("hello\n", r#"{"status":"PARSE_DONE"}"#),
        // Headers without an end are none.
        ("From: a\n", r#"{"status":"PARSE_DONE"}"#),
        ("From: a\n\n", r#"{"from":"a","status":"PARSE_DONE"}"#),
        (" x\nFrom: a\n\n", r#"{"from":"a","status":"PARSE_DONE"}"#),
        ("From : a\nTo:   c  \n\n", r#"{"to":["c  "],"status":"PARSE_DONE"}"#),
        ("From:\n\n", r#"{"from":"","status":"PARSE_DONE"}"#),
        ("From: a\nFrom: b\nTo: x\nTo: y\n\n", r#"{"from":"a","to":["x"],"status":"PARSE_DONE"}"#),
        ("From: a\njunk\n fold\nTo: b\n\n", r#"{"from":"afold","to":["b"],"status":"PARSE_DONE"}"#),
        (
            "From:\ta\nTo:\t \tb\nCc: \n c\n\n",
            r#"{"from":"a","to":["b"],"cc":["c"],"status":"PARSE_DONE"}"#,
        ),
        ("To:  \n\n", r#"{"status":"PARSE_DONE"}"#),
        ("Content-Type: message/rfc822\n\nFrom: inner\n\nx\n", r#"{"status":"PARSE_DONE"}"#),
    ] {
        assert_eq!(email(text), object, "{text}");
    }
}

#[test]
fn urls_by_type_of_content() {
    for (content_type, is_found) in [
        ("text/plain", true),
        ("text/html; charset=x", true),
        ("TEXT/PLAIN", false),
        ("text/xml", false),
        ("multipart/mixed", false),
        ("application/octet-stream", false),
        // A file is looked through whatever it is.
        ("application/octet-stream; name=a.b", true),
    ] {
        let object = email(&format!("Content-Type: {content_type}\n\nhttp://o.p/q \n"));
        assert_eq!(object.contains(r#""url":["o.p/q"]"#), is_found, "{content_type}");
    }
    let part = "Content-Type: multipart/mixed; boundary=B\n\nhttp://pre/ \n--B\nX: y\n\nhttp://in/ \n--B--\n";
    assert!(email(part).contains(r#""url":["in/"]"#));
}

fn files(text: &str) -> Vec<(String, Vec<u8>, &'static str)> {
    mail(text).files
}

fn file(name: &str, content: &[u8]) -> (String, Vec<u8>, &'static str) {
    (name.to_string(), content.to_vec(), "CLOSED")
}

#[test]
fn attachments_by_boundaries() {
    let part = |boundary: &str, first: &str, body: &str, end: &str| {
        format!(
            "From: a\nContent-Type: {boundary}\n\n{first}Content-Disposition: a; filename=f.f\n\n{body}{end}"
        )
    };
    let mixed = "multipart/mixed; boundary=B";
    for (text, list) in [
        (part(mixed, "--B\n", "x\n", "--B--\n"), vec![file("f.f", b"x")]),
        (part("multipart/mixed; boundary=\"B\"", "--B\n", "x\n", "--B--\n"), vec![file("f.f", b"x")]),
        (part("Multipart/Mixed; BOUNDARY=B", "--B\n", "x\n", "--B--\n"), vec![]),
        (part("text/plain; boundary=B", "--B\n", "x\n", "--B--\n"), vec![file("f.f", b"x")]),
        (part(mixed, "--Bxyz\n", "x\n", "--B--xyz\n"), vec![file("f.f", b"x")]),
        (part(mixed, "---B\n", "x\n", "--B--\n"), vec![]),
        (part(mixed, "--B\n", "x\n", ""), vec![file("f.f", b"x")]),
        (part(mixed, "--B\n", "--A\n--\n-B\nx --B\n", "--B--\n"), vec![file("f.f", b"--A\r\n--\r\n-B\r\nx --B")]),
        (part(mixed, "--B\n", "x", "--B--\n"), vec![file("f.f", b"x--B--")]),
        (part(mixed, "--B\n", "\n\nx\n\n\n", "--B--\n"), vec![file("f.f", b"\r\n\r\nx\r\n\r\n")]),
        (part(mixed, "--B\n", "", "--B--\n"), vec![file("f.f", b"")]),
        (part("multipart/mixed; boundary=", "--\n", "x\n", "----\n"), vec![file("f.f", b"x")]),
        (part("multipart/mixed; boundary=B; boundary=C", "--B\n", "x\n", "--B--\n"), vec![]),
        // What follows the last boundary is a header again, and its boundary is forgotten.
        (
            part(mixed, "--B\n", "x\n", "--B--\n--B\nContent-Disposition: a; filename=g.g\n\ng\n--B--\n"),
            vec![file("f.f", b"x"), file("g.g", b"g\r\n--B--")],
        ),
        // Only the innermost boundary counts.
        (
            part(mixed, "--B\n", "x\n--B\nContent-Type: m; boundary=C\n\n--C\nContent-Disposition: a; filename=g.g\n\ng\n", "--B--\n"),
            vec![file("f.f", b"x"), file("g.g", b"g\r\n--B--")],
        ),
        (
            "From: a\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Disposition: a; filename=g.g\n--B\nContent-Disposition: a; filename=h.h\n\nh\n--B--\n".into(),
            vec![file("g.g", b"h")],
        ),
        // An embedded message is no file; its own attachments are.
        (
            part(mixed, "--B\nContent-Type: message/rfc822\n", "Content-Disposition: a; filename=q.q\n\nzz\n", "--B--\n"),
            vec![file("q.q", b"zz")],
        ),
    ] {
        assert_eq!(files(&text), list, "{text}");
    }
}

#[test]
fn attachments_by_encoding() {
    let encoded = |encoding: &str, body: &str| {
        files(&format!(
            "From: a\nContent-Disposition: inline; filename=f\nContent-Transfer-Encoding: {encoding}\n\n{body}"
        ))
    };
    for (encoding, body, content) in [
        ("BASE64", "aGVsbG8=\n", &b"hello"[..]),
        ("base64 ", "aGVsbG8=\n", b"aGVsbG8="),
        ("base64\nContent-Transfer-Encoding: 7bit", "aGVsbG8=\n", b"hello"),
        ("base64", "aG\nVsb\n\nG8=\n", b"hello"),
        ("quoted-printable", "a=41b\n", b"aAb\r\n"),
        ("quoted-printable", "a=\nb\n", b"ab\r\n"),
        ("quoted-printable", "a\n\nb\n", b"a\r\n\r\nb\r\n"),
        ("quoted-printable", "a\nb=\n", b"a\r\nb"),
        ("x-uuencode", "begin 644 u\n", b"begin 644 u"),
        ("7bit", "..dot\n...two\nx\n", b"..dot\r\n...two\r\nx"),
    ] {
        assert_eq!(encoded(encoding, body), [file("f", content)], "{encoding} {body}");
    }
    let multi = |body: &str| {
        files(&format!(
            "Content-Type: m; boundary=B\n\n--B\nContent-Disposition: a; filename=f\nContent-Transfer-Encoding: quoted-printable\n\n{body}\n--B--\n"
        ))
    };
    assert_eq!(multi("x\n"), [file("f", b"x\r\n")]);
    assert_eq!(multi("x\n\n\n"), [file("f", b"x\r\n\r\n\r\n")]);
}

#[test]
fn events_of_mails() {
    let line = |n: usize| "a".repeat(n);
    let head = "Content-Disposition: a; filename=f\nContent-Transfer-Encoding:";
    for (text, events) in [
        (format!("X: y\n\n{}\n", line(998)), &[][..]),
        (format!("X: y\n\n{}\n", line(999)), &["mime_long_line"]),
        // Raised once a line; Suricata raises it for each segment of a line.
        (format!("X: y\n\n{}\n", line(9000)), &["mime_long_line"]),
        (format!("{head} base64\n\n{}\n", line(76)), &[]),
        (format!("{head} base64\n\n{}\n", line(80)), &["mime_long_enc_line"]),
        (format!("{head} quoted-printable\n\n{}\n", line(77)), &["mime_long_enc_line"]),
        (format!("{head} quoted-printable\n\n=zz\n=4\n"), &["mime_invalid_qp", "mime_invalid_qp"]),
        (format!("{head} base64\n\n====\n"), &["mime_invalid_base64"]),
        (format!("{}: a\n\n", line(75)), &[]),
        (format!("{}: a\n\n", line(76)), &["mime_long_header_name"]),
        (format!("X: {}\n\n", line(2000)), &["mime_long_line"]),
        (format!("X: {}\n\n", line(2001)), &["mime_long_line", "mime_long_header_value"]),
        (format!("Content-Type: m; boundary={}\n\n", line(254)), &[]),
        (format!("Content-Type: m; boundary={}\n\n", line(255)), &["mime_long_boundary"]),
        (format!("Content-Disposition: a; filename={}\n\n", line(255)), &[]),
        (format!("Content-Disposition: a; filename={}\n\n", line(256)), &["mime_long_filename"]),
        (
            format!("X: {}\nTo: x\n\n", line(5000)),
            &["truncated_line", "mime_long_line", "mime_long_header_value"],
        ),
    ] {
        let got: Vec<&str> = mail(&text).events.into_iter().map(|(_, name)| name).collect();
        assert_eq!(got, events, "{}", &text[..text.len().min(60)]);
    }
}

const END: [Says<'_>; 2] = [C(b"QUIT\r\n"), S(b"221 bye\r\n")];

#[test]
fn what_ends_a_transaction() {
    let [quit, bye] = END;
    // A mail, refused or not; RSET; a new greeting; QUIT.
    let heard = session(&[C(b"RSET\r\n"), S(b"250 ok\r\n"), C(b"RSET\r\n"), S(b"250 ok\r\n")]);
    assert_eq!((heard.records, heard.progress), (vec![ENVELOPE.to_string()], vec![[2, 2]]));
    let heard =
        session(&[C(b"EHLO x\r\n"), S(b"250 ok\r\n"), C(b"MAIL FROM:<q>\r\n"), S(b"250 ok\r\n")]);
    assert_eq!(heard.records, [ENVELOPE, r#"{"helo":"a.b","mail_from":"<q>"}"#]);
    assert_eq!(heard.events, [(0, "duplicate_fields")]);
    let heard =
        session(&[C(b"EHLO x\r\n"), S(b"500 no\r\n"), C(b"RCPT TO:<q>\r\n"), S(b"250 ok\r\n")]);
    assert_eq!(heard.records.len(), 1);
    let heard = session(&[quit, bye, C(b"NOOP\r\n"), S(b"250 ok\r\n")]);
    assert_eq!(heard.records, [ENVELOPE, r#"{"helo":"a.b"}"#]);
    let heard = session(&[C(b"BDAT 10\r\n0123\r\n6789BDAT 5 LAST\r\n01234MAIL FROM:<q>\r\n")]);
    assert_eq!(heard.records, [ENVELOPE, r#"{"helo":"a.b","mail_from":"<q>"}"#]);
    let heard = session(&[
        C(b"DATA\r\n"),
        S(b"354 go\r\n"),
        C(b"X: y\r\n.\r\nMAIL FROM:<q>\r\n"),
        S(b"550 no\r\n250 ok\r\n"),
    ]);
    let records = [
        format!("{ENVELOPE}{{\"status\":\"PARSE_DONE\"}}"),
        r#"{"helo":"a.b","mail_from":"<q>"}"#.into(),
    ];
    assert_eq!(heard.records, records);
}

#[test]
fn events_of_sessions() {
    for (more, events) in [
        (&[C(b"MAIL FROM:<x>\r\n"), S(b"250 ok\r\n")][..], &["duplicate_fields"][..]),
        (&[C(b"DATA\r\n"), S(b"550 no\r\n")], &["data_command_rejected"]),
        (&[C(b"STARTTLS\r\n"), S(b"454 no\r\n")], &["tls_rejected"]),
        (&[C(b"NOOP\r\n"), S(b"999 hm\r\n")], &["invalid_reply"]),
        (&[C(b"NOOP\r\n"), S(b"25\r\n")], &["invalid_reply"]),
        (&[C(b"NOOP\r\n"), S(b"\r\n")], &["invalid_reply"]),
        (&[C(b"NOOP\r\n"), S(b"\n250\r\n")], &[]),
        (&[S(b"250 nobody asked\r\n")], &[]),
        (&[C(b"BDAT x\r\n")], &["invalid_bdat"]),
        (&[C(b"BDAT 5 LASTx\r\n")], &["invalid_bdat"]),
        (&[C(b"BDAT 4294967296\r\n")], &["invalid_bdat"]),
        (&[C(b"BDAT +5 last\r\n12345")], &[]),
        (&[C(b"DATA\r\nNOOP\r\n")], &["invalid_pipelined_sequence"]),
        (&[C(b"DATA\r\n"), C(b"DATA\r\n")], &["unparsable_content"]),
    ] {
        let heard = session(more);
        let got: Vec<&str> = heard.events.iter().map(|(_, name)| *name).collect();
        assert_eq!(got, events);
        assert_eq!(heard.has_failed, events == ["invalid_reply"]);
        assert!(heard.progress.iter().all(|p| *p == [2, 2]));
    }
    let heard = in_any_split(PROTOCOL, None, &[C(b"EHLO a\r\nNOOP\r\n"), S(b"554 no\r\n")]);
    let none = (0, "no_server_welcome_message");
    assert_eq!(heard.events, [none, none]);
    let heard = in_any_split(PROTOCOL, None, &[S(b"220 a\r\n"), C(b"EHLO a\r\n"), S(b"250 a\r\n")]);
    assert_eq!(heard.events, []);
    // A session without a greeting: what comes after a mail has ended belongs to it only if it can't begin another.
    let start = [C(b"EHLO a\r\n"), S(b"250 a\r\n"), C(b"MAIL FROM:<a>\r\n"), S(b"250 b\r\n")];
    let reset = [C(b"RSET\r\n"), S(b"250 b\r\n")];
    for (command, more) in [("QUIT\r\n", None), ("RSET\r\n", None), ("NOOP\r\n", Some((1, none.1)))]
    {
        let last = [C(command.as_bytes()), S(b"221 b\r\n")];
        let heard = in_any_split(PROTOCOL, None, &[&start[..], &reset, &last].concat());
        let expected: Vec<_> = [none; 3].into_iter().chain(more).collect();
        assert_eq!(heard.events, expected, "{command}");
    }
}

#[test]
fn long_lines_are_cut() {
    let long = [b"NOOP ", &[b'x'; 5000][..], b"\r\nRCPT TO:<q>\r\n"].concat();
    let reply = [b"250 ", &[b'x'; 5000][..], b"\r\n250 ok\r\n"].concat();
    let heard = session(&[C(&long), S(&reply)]);
    // Suricata stops after a long reply.
    assert_eq!(heard.events, [(0, "truncated_line"), (0, "truncated_line")]);
    assert_eq!(heard.records, [r#"{"helo":"a.b","mail_from":"<a@b>","rcpt_to":["<c@d>","<q>"]}"#]);
}

#[test]
fn pipelining() {
    let heard = in_any_split(
        PROTOCOL,
        None,
        &[
            S(b"220 hi\r\n"),
            C(b"EHLO a.b\r\n"),
            S(b"250-x\r\n250-PIPELINING\r\n250 SIZE\r\n"),
            C(b"MAIL FROM:<q@q>\r\nRCPT TO:<w@w>\r\nDATA\r\n"),
            S(b"250 ok\r\n550 no\r\n554 no\r\n"),
            C(b"RSET\r\n"),
            S(b"250 ok\r\n"),
            C(b"MAIL FROM:<a@b>\r\nRCPT TO:<c@d>\r\nDATA\r\n"),
            S(b"250 ok\r\n250 ok\r\n354 go\r\n"),
            C(b"From: x\r\n\r\n.\r\n"),
            S(b"250 ok\r\n"),
        ],
    );
    assert_eq!(heard.events, [(0, "data_command_rejected")]);
    assert_eq!(
        heard.records,
        [
            r#"{"helo":"a.b","mail_from":"<q@q>","rcpt_to":["<w@w>"]}{"status":"PARSE_DONE"}"#,
            &format!("{ENVELOPE}{{\"from\":\"x\",\"status\":\"PARSE_DONE\"}}"),
        ]
    );
}

/// A greeting ends a mail only if that had begun before the greeting.
#[test]
fn greetings_with_mails_behind_them_end_none() {
    let mail = |first: &str, replies: &str| {
        let rest = [
            S(replies.as_bytes()),
            C(b"RCPT TO:<b>\r\n"),
            S(b"250 c\r\n"),
            C(b"QUIT\r\n"),
            S(b"221 b\r\n"),
        ];
        let start = [S(b"220 a\r\n"), C(first.as_bytes())];
        let heard = in_any_split(PROTOCOL, None, &[&start[..], &rest[..]].concat());
        (heard.records, heard.events)
    };
    let whole = r#"{"helo":"a","mail_from":"<a>","rcpt_to":["<b>"]}"#.to_string();
    let twice = vec![(0, "duplicate_fields")];
    let greeting = "EHLO a\r\nMAIL FROM:<a>\r\n";
    assert_eq!(mail(greeting, "250 a\r\n250 b\r\n"), (vec![whole.clone()], vec![]));
    let two = format!("EHLO a\r\n{greeting}");
    assert_eq!(mail(&two, "250 a\r\n250 b\r\n250 c\r\n"), (vec![whole], twice.clone()));
    let again = format!("{greeting}EHLO a\r\n");
    let parts = [r#"{"helo":"a","mail_from":"<a>"}"#, r#"{"helo":"a","rcpt_to":["<b>"]}"#];
    let parts = parts.map(String::from).to_vec();
    assert_eq!(mail(&again, "250 a\r\n250 b\r\n250 c\r\n"), (parts, twice));
}

#[test]
fn tls_follows() {
    let heard = session(&[C(b"STARTTLS\r\n"), S(b"220 go\r\n")]);
    assert_eq!((heard.changes, heard.progress), (vec![Some("tls")], vec![[2, 2]]));
}

#[test]
fn dots_between_any_line_ends_end_the_mail() {
    for end in ["\r\n.\r\n", "\n.\n", "\r.\r", "\r\n.\n"] {
        let text = format!("X: y\r\n\r\nbody{end}RCPT TO:<q>\r\n");
        let heard = session(&[C(b"DATA\r\n"), S(b"354 go\r\n"), C(text.as_bytes())]);
        assert_eq!(heard.records.len(), 2, "{end:?}");
    }
}

#[test]
fn raw_text_as_a_file() {
    let mut config = Tree::default();
    config.set("raw-extraction", "yes");
    config.set("mime.decode-mime", "no");
    let text = b"From: a\r\n\r\nbody\n..x\r\n.\r\n";
    let heard =
        configured(Some(&config), &[C(b"DATA\r\n"), S(b"354 go\r\n"), C(text), S(b"250 ok\r\n")]);
    assert_eq!(heard.files, [file("rawmsg", b"From: a\r\n\r\nbody\n..x\r\n")]);
    assert_eq!(heard.records, [ENVELOPE]);
}

#[test]
fn bounded_whatever_is_sent() {
    let deep: String =
        (0..2000).map(|i| format!("Content-Type: m; boundary=N{i}\n\n--N{i}\n")).collect();
    let names = "Content-Disposition: a; filename=f\n\nx\n--B\n".repeat(3000);
    let many = format!("Content-Type: m; boundary=B\n\n--B\n{names}");
    let urls = format!("X: y\n\n{}", "http://a http://b\n".repeat(3000));
    let folds = format!("To: x\n{}\n", " ,y\n".repeat(50_000));
    let one_line = format!("X: y\n\n{}", "http://".repeat(30_000));
    let fields = format!("{}\n", "A: b\n".repeat(30_000));
    for text in [deep, many, urls, folds, one_line, fields] {
        let text = text.replace('\n', "\r\n");
        let session =
            [C(b"EHLO a\r\nDATA\r\n"), S(b"220 x\r\n250 a\r\n354 b\r\n"), C(text.as_bytes())];
        let heard = super::play(PROTOCOL, None, &session, 0);
        assert!(heard.records[0].len() < 600_000 && heard.files.len() <= 1024);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Lines put together at random, cut anywhere, give the same records, events and files.
    #[test]
    fn any_text_in_any_split(lines in prop::collection::vec(prop::sample::select(vec![
        "From: a\r\n", "Content-Type: multipart/mixed; boundary=B\r\n", "\r\n", "--B\r\n", "--B--\r\n",
        "Content-Disposition: a; filename=f\r\n", "Content-Transfer-Encoding: base64\r\n",
        "Content-Transfer-Encoding: quoted-printable\r\n", "aGVsbG8=\r\n", "a=41=\r\n", "=\r", "\n", ".",
        ".\r\n", "Content-Type: message/rfc822\r\n", " folded\r\n", "http://a.b/c d\r\n", "\r", "DATA\r\n",
        "MAIL FROM:<x>\r\n", "BDAT 7 LAST\r\n", "QUIT\r\n", "x",
    ]), 0..60)) {
        let text = lines.concat();
        let session = [
            S(b"220 x\r\n"), C(b"EHLO a\r\nDATA\r\n"), S(b"250 a\r\n354 b\r\n"), C(text.as_bytes()),
            S(b"250 a\r\n354 b\r\n250 c\r\n"), C(text.as_bytes()),
        ];
        in_any_split(PROTOCOL, None, &session);
    }

    /// What decoders of mails make is never more than what was sent, whatever encodings and boundaries are put inside
    /// one another: no mail costs more than its own bytes.
    #[test]
    fn decoders_make_no_more_than_was_sent(lines in prop::collection::vec(prop::sample::select(vec![
        "Content-Type: multipart/mixed; boundary=B\r\n", "Content-Type: multipart/mixed; boundary=C\r\n", "\r\n",
        "\r\n", "--B\r\n", "--C\r\n", "--B--\r\n", "--C--\r\n", "Content-Disposition: a; filename=f\r\n",
        "Content-Disposition: a; filename=g\r\n", "Content-Transfer-Encoding: base64\r\n",
        "Content-Transfer-Encoding: quoted-printable\r\n", "Content-Type: message/rfc822\r\n",
        "aGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8gaGVsbG8=\r\n", "AAAA\r\n", "=41=41=41=\r\n",
        "=\r\n", "begin 644 u\r\n", "plain text of a line\r\n",
    ]), 0..200)) {
        let head = "Content-Disposition: a; filename=e\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\n";
        let text = format!("{head}{}\r\n.\r\n", lines.concat());
        let session = [
            S(b"220 x\r\n"), C(b"EHLO a\r\nDATA\r\n"), S(b"250 a\r\n354 b\r\n"), C(text.as_bytes()),
        ];
        for piece in [0, 7] {
            let heard = super::play(PROTOCOL, None, &session, piece);
            let made: usize = heard.files.iter().map(|f| f.1.len()).sum();
            prop_assert!(made <= text.len(), "{made} of {}", text.len());
            let records: usize = heard.records.iter().map(String::len).sum();
            prop_assert!(records <= 8 * text.len() + 1024, "{records} of {}", text.len());
        }
    }

    /// Nothing panics and nothing depends on the cut.
    #[test]
    fn any_bytes_in_any_split(client: Vec<u8>, server: Vec<u8>) {
        in_any_split(PROTOCOL, None, &[C(&client), S(&server), C(&client)]);
    }
}

//! `gabion listen` as whole processes: every message sent is sealed or counted, acknowledged ones are
//! there.
#![allow(
    clippy::disallowed_methods,
    reason = "sockets live by the clock; this is the program's edge"
)]

mod intake;

use gabion_seal::{Flags, Kind};
use intake::{Certificates, GABION, OPEN, Server};
use intake::{keys, last_count, messages, records, start_again, statements};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn every_transport_ends_in_the_log() {
    let server =
        Server::start(&["--udp", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--relp", "127.0.0.1:0"]);
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    udp.send_to(b"<13>Oct 11 22:14:15 h a: udp", server.address("udp")).expect("sent");
    udp.send_to(b"\n\0", server.address("udp")).expect("sent");
    server
        .tcp("tcp")
        .write_all(b"<13>a: one\n29 <13>Oct 11 22:14:15 h a: two\nand half")
        .expect("sent");
    let mut relp = server.tcp("relp");
    relp.write_all(OPEN).expect("sent");
    relp.write_all(b"2 syslog 10 <13>a: rel\n3 close 0\n").expect("sent");
    let mut answers = String::new();
    relp.read_to_string(&mut answers).expect("answers");
    assert!(answers.ends_with("2 rsp 6 200 OK\n3 rsp 0\n0 serverclose 0\n"), "{answers}");
    let (said, folder) = server.stop();
    let mut got: Vec<String> =
        messages(folder.path()).iter().map(|m| String::from_utf8_lossy(m).into_owned()).collect();
    got.sort();
    assert_eq!(
        got,
        [
            "<13>Oct 11 22:14:15 h a: two\n",
            "<13>Oct 11 22:14:15 h a: udp",
            "<13>a: one",
            "<13>a: rel",
            "and half"
        ]
    );
    assert_eq!(last_count(&said, "seal", "passed"), 5, "{said}");
    let statements = statements(folder.path());
    assert!(
        statements.iter().any(|s| s.contains("\"intake\"") && s.contains("empty_message")),
        "{statements:?}"
    );
    assert!(statements.iter().any(|s| s.contains("\"stop\"")), "{statements:?}");
}

/// Also where there is none, a message is asked for by what it says.
#[test]
fn a_message_without_a_priority_says_when_where_and_who() {
    let server = Server::start(&["--tcp", "127.0.0.1:0"]);
    let text = "Oct 11 22:14:15 gate sshd[24200]: without\n<>Oct 11 22:14:15 gate sshd[24200]: empty\n\
                <999>Oct 11 22:14:15 gate sshd[24200]: none\n";
    server.tcp("tcp").write_all(text.as_bytes()).expect("sent");
    let (_, folder) = server.stop();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let ask = ["log", "show", &at("log"), "--key", &at("reader"), "--host", "gate", "-t", "sshd"];
    let out = Command::new(GABION).args(ask).output().expect("run");
    let rows: Vec<serde_json::Value> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    for (row, msg, severity, note) in
        [(&rows[0], "without", 5, "no-pri"), (&rows[1], "empty", 0, "empty-pri")]
    {
        assert_eq!(row["msg"], msg);
        assert_eq!((&row["host"], &row["app"]), (&"gate".into(), &"sshd".into()), "{row}");
        assert_eq!((&row["pid"], &row["severity"]), (&"24200".into(), &severity.into()), "{row}");
        assert!(row["stated"].as_str().is_some_and(|t| t.contains("-10-11T22:14:15")), "{row}");
        assert_eq!(row["notes"], serde_json::json!([note]));
    }
}

#[test]
fn sent_is_stored_plus_counted() {
    // A small buffer, so that the kernel drops: what it drops is counted, to the last one.
    let server = Server::start(&[
        "--udp",
        "127.0.0.1:0",
        "--tcp",
        "127.0.0.1:0",
        "--receive-buffer",
        "20000",
    ]);
    let (udp, tcp) = (server.places["udp"].clone(), server.places["tcp"].clone());
    let sent = Command::new(GABION)
        .args(["send", "--udp", &udp, "--tcp", &tcp, "--count", "100000"])
        .output()
        .expect("the sender");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stdout));
    let (said, folder) = server.stop();
    let stored = messages(folder.path()).len() as u64;
    let dropped = last_count(&said, "udp.0", "kernel_drop");
    assert_eq!(stored + dropped, 200_000, "{said}");
    assert_eq!(last_count(&said, "tcp.1", "passed"), 100_000, "{said}");
    assert_eq!(last_count(&said, "seal", "passed"), stored);
    let losses: u64 = statements(folder.path())
        .into_iter()
        .filter(|s| s.contains("\"loss\""))
        .filter_map(|s| {
            s.split("\"messages\":").nth(1)?.split(['}', ',']).next()?.parse::<u64>().ok()
        })
        .sum();
    assert_eq!(losses, dropped, "losses stand in the log itself");
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let server = Server::start(&["--relp", "127.0.0.1:0", "--commit-after", "5000"]);
    let mut relp = server.tcp("relp");
    relp.write_all(OPEN).expect("sent");
    for n in 2..40 {
        relp.write_all(format!("{n} syslog 3 m{n:02}\n").as_bytes()).expect("sent");
    }
    let mut answers = Vec::new();
    let mut piece = [0; 4096];
    while answers.windows(6).filter(|w| w == b"200 OK").count() < 39 {
        let n = relp.read(&mut piece).expect("answers");
        assert!(n > 0);
        answers.extend_from_slice(&piece[..n]);
    }
    let folder = server.kill();
    start_again(folder.path());
    assert_eq!(messages(folder.path()).len(), 38);
}

#[test]
fn more_connections_with_an_envelope_each_than_there_is_room_for_wait_for_it() {
    let test = "more_connections_with_an_envelope_each_than_there_is_room_for_wait_for_it";
    let Some((private, public)) = keys(test) else { return };
    const COUNT: usize = 600;
    let server = Server::start(&[
        "--slog-tcp",
        "127.0.0.1:0",
        "--slog-key",
        &private,
        "--slog-workers",
        "1",
        "--connections",
        "8",
    ]);
    let pem = std::fs::read(&public).expect("the public key");
    let sealer = gabion_logs::envelope::EnvelopeSealer::from_pem(&pem).expect("a key");
    // Nobody waits for an answer, as slog's own test did: only what is accepted before the end is taken in.
    let place = server.folder.as_ref().expect("running").path().to_path_buf();
    for n in 0..COUNT {
        let text = format!("line {n}");
        let envelope = sealer.seal("2021-01-15T20:22:07.538+01", "h", "/f", text.as_bytes());
        server.tcp("slog-tcp").write_all(&envelope.expect("sealed")).expect("sent");
    }
    let until = std::time::Instant::now() + Duration::from_secs(60);
    let mut got = Vec::new();
    while got.len() < COUNT && std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(50));
        got = messages(&place);
        got.sort_unstable();
        got.dedup();
    }
    let (said, _folder) = server.stop();
    assert_eq!(got.len(), COUNT, "{said}");
}

#[test]
fn envelopes_are_opened_kept_and_reported_when_they_come_again() {
    let test = "envelopes_are_opened_kept_and_reported_when_they_come_again";
    let Some((private, public)) = keys(test) else { return };
    let server = Server::start(&[
        "--slog-udp",
        "127.0.0.1:0",
        "--slog-tcp",
        "127.0.0.1:0",
        "--slog-key",
        &private,
    ]);
    let pem = std::fs::read(&public).expect("the public key");
    let sealer = gabion_logs::envelope::EnvelopeSealer::from_pem(&pem).expect("a key");
    let envelope =
        sealer.seal("2021-01-15T20:22:07.538+01", "h", "/f", b"a, line").expect("sealed");
    for _ in 0..2 {
        let mut slog = server.tcp("slog-tcp");
        slog.write_all(&envelope).expect("sent");
        let mut answer = String::new();
        slog.read_to_string(&mut answer).expect("answered");
        assert_eq!(answer, "OK");
    }
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    udp.send_to(b"0011,AAAA", server.address("slog-udp")).expect("sent");
    std::thread::sleep(Duration::from_millis(500));
    let (_, folder) = server.stop();
    let got: Vec<(u16, Vec<u8>)> = records(folder.path())
        .into_iter()
        .filter(|r| r.kind == Kind::Message)
        .map(|r| (r.flags.0, r.bytes))
        .collect();
    assert_eq!(got.len(), 3);
    let has = |at: usize, flag: Flags| Flags(got[at].0).has(flag);
    assert!(has(0, Flags::OPENED) && !has(0, Flags::REPLAYED));
    assert!(has(1, Flags::OPENED) && has(1, Flags::REPLAYED));
    assert!(has(2, Flags::SUSPICIOUS));
    let why = gabion_logs::evidence::suspicion(got[2].0).expect("a reason");
    assert_eq!((why.name(), got[2].1.as_slice()), ("short-blob", &b"0011,AAAA"[..]));
    let (inner, wire) = gabion_logs::evidence::opened(&got[0].1);
    assert!(inner.ends_with(b",a, line"));
    assert_eq!(wire, Some(envelope.as_slice()));
}

#[test]
fn local_senders_are_named_by_the_kernel() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let server = Server::start(&["--unix", &path.display().to_string()]);
    let socket = UnixDatagram::unbound().expect("a socket");
    socket.send_to(b"<13>Oct 11 22:14:15 a[1]: local", &path).expect("sent");
    std::thread::sleep(Duration::from_millis(300));
    let (_, folder) = server.stop();
    assert_eq!(messages(folder.path()).len(), 1);
}

#[test]
fn tls_is_spoken_and_garbage_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(all) = Certificates::new(folder.path()) else {
        eprintln!("tls_is_spoken_and_garbage_is_not: skipped: no openssl");
        return;
    };
    let (cert, key) = &all.server;
    let server = Server::start(&["--tls", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key]);
    let mut garbage = server.tcp("tls");
    garbage.write_all(b"<13>not a handshake at all, and long enough to be one\n").expect("sent");
    let _silent = server.tcp("tls");
    let to = server.places["tls"].clone();
    let ca = &all.authority;
    let sent = Command::new(GABION)
        .args(["send", "--tls", &to, "--tls-ca", ca, "--count", "2000", "--octet-counting"])
        .output()
        .expect("the sender");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let (said, folder) = server.stop();
    assert_eq!(messages(folder.path()).len(), 2000, "{said}");
}

/// The key of another certificate is reported as such, and nothing is made.
#[test]
fn a_key_of_another_certificate_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(known) = Certificates::new(folder.path()) else {
        eprintln!("a_key_of_another_certificate_is_named: skipped: no openssl");
        return;
    };
    let at = |name: &str| folder.path().join(name).display().to_string();
    let key = gabion_seal::SecretKey::generate().expect("a key");
    std::fs::write(at("public"), key.recipient().to_text()).expect("written");
    let out = Command::new(GABION)
        .args(["listen", "--tls", "127.0.0.1:0", "--log", &at("made/log")])
        .args(["--recipient", &at("public"), "--tls-cert", &known.server.0])
        .args(["--tls-key", &known.client.1])
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{said}");
    assert!(said.lines().count() == 1 && said.contains("another certificate"), "{said}");
    assert!(!folder.path().join("made").exists());
}

fn sent_over_tls(to: &str, count: &str, options: &[&str]) -> (i32, String) {
    let sent = Command::new(GABION)
        .args(["send", "--tls", to, "--count", count])
        .args(options)
        .output()
        .expect("the sender");
    let said = [sent.stdout, sent.stderr].concat();
    (sent.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_name_in_a_clients_certificate_is_kept_with_each_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(all) = Certificates::new(folder.path()) else {
        eprintln!(
            "the_name_in_a_clients_certificate_is_kept_with_each_message: skipped: no openssl"
        );
        return;
    };
    let ca = all.authority.as_str();
    let (cert, key) = (all.client.0.as_str(), all.client.1.as_str());
    let as_client = ["--tls-ca", ca, "--tls-cert", cert, "--tls-key", key];
    let common = ["--tls", "127.0.0.1:0", "--tls-cert", &all.server.0, "--tls-key", &all.server.1];
    let optional = [&common[..], &["--tls-client-ca", ca]].concat();
    let server = Server::start(&optional);
    let to = server.places["tls"].clone();
    let (code, said) = sent_over_tls(&to, "3", &as_client);
    assert_eq!(code, 0, "{said}");
    let (code, said) = sent_over_tls(&to, "2", &["--tls-ca", ca]);
    assert_eq!(code, 0, "{said}");
    let (_, log) = server.stop();
    let of = |name: &str| {
        let all = records(log.path()).into_iter();
        all.filter(|r| r.kind == Kind::Message && r.identity == name).collect::<Vec<_>>()
    };
    let (named, nameless) = (of("sensor7.example"), of(""));
    assert_eq!((named.len(), nameless.len()), (3, 2));
    assert!(named.iter().all(|r| r.flags.has(Flags::AUTHENTICATED) && r.peer == "127.0.0.1"));
    assert!(nameless.iter().all(|r| !r.flags.has(Flags::AUTHENTICATED)));

    // Where one is asked for: none, and one of another authority, are turned away, and the sender says so.
    let strict = [&optional[..], &["--tls-require-client"]].concat();
    let server = Server::start(&strict);
    let to = server.places["tls"].clone();
    Certificates::authority(folder.path(), "other").expect("as before");
    let other = Certificates::signed(folder.path(), "other", "stranger", "sensor7.example");
    let (cert, key) = other.expect("as before");
    let as_stranger = ["--tls-ca", ca, "--tls-cert", &cert, "--tls-key", &key];
    for options in [&["--tls-ca", ca][..], &as_stranger] {
        let (code, said) = sent_over_tls(&to, "5", options);
        assert!(code == 4 || code == 1, "{code}: {said}");
    }
    let (code, said) = sent_over_tls(&to, "4", &as_client);
    assert_eq!(code, 0, "{said}");
    let (said, log) = server.stop();
    assert_eq!(messages(log.path()).len(), 4, "{said}");
}

#[test]
fn acknowledged_on_several_connections_is_durable() {
    // Senders at full speed, each on a connection of its own; the server is killed among them.
    let server = Server::start(&["--relp", "127.0.0.1:0"]);
    let senders: Vec<_> = (0..6)
        .map(|c| {
            let mut relp = server.tcp("relp");
            std::thread::spawn(move || acknowledged(&mut relp, c))
        })
        .collect();
    std::thread::sleep(Duration::from_millis(400));
    let folder = server.kill();
    start_again(folder.path());
    let stored: std::collections::HashSet<Vec<u8>> = messages(folder.path()).into_iter().collect();
    for (c, sender) in senders.into_iter().enumerate() {
        let acknowledged = sender.join().expect("a sender");
        assert!(acknowledged > 0, "connection {c} was served");
        for n in 0..acknowledged {
            let message = format!("<13>c{c} n{n:07}");
            assert!(stored.contains(message.as_bytes()), "{message} of {acknowledged} is missing");
        }
    }
}

/// Sends with a window of 128 until the server is gone; how many messages it answered.
fn acknowledged(relp: &mut TcpStream, c: usize) -> u64 {
    if relp.write_all(OPEN).is_err() {
        return 0;
    }
    let (mut sent, mut answers, mut piece) = (0u64, 0u64, vec![0; 64 << 10]);
    let mut held = Vec::new();
    loop {
        let mut out = Vec::new();
        // The answer to the opening counts as one.
        while sent + 1 - answers < 128 {
            let message = format!("<13>c{c} n{sent:07}");
            out.extend_from_slice(
                format!("{} syslog {} {message}\n", sent + 2, message.len()).as_bytes(),
            );
            sent += 1;
        }
        if !out.is_empty() && relp.write_all(&out).is_err() {
            break;
        }
        let Ok(n) = relp.read(&mut piece) else { break };
        if n == 0 {
            break;
        }
        held.extend_from_slice(&piece[..n]);
        // Answers come in order, so their number identifies their messages.
        while let Some(at) = held.windows(7).position(|w| w == b"200 OK\n" || w == b"200 OK\x00") {
            answers += 1;
            held.drain(..at + 7);
        }
    }
    answers.saturating_sub(1)
}

#[test]
fn sockets_of_the_service_manager_are_taken_over() {
    let test = "sockets_of_the_service_manager_are_taken_over";
    if Command::new("systemd-socket-activate").arg("--version").output().is_err() {
        eprintln!("{test}: skipped: no systemd-socket-activate");
        return;
    }
    // Two free ports: the tool needs their numbers.
    let port = || {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
        socket.local_addr().expect("an address")
    };
    let (tcp, relp) = (port(), port());
    let folder = tempfile::tempdir().expect("a folder");
    let key = gabion_seal::SecretKey::generate().expect("a key");
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("reader"), key.to_text().expect("X25519").as_bytes()).expect("written");
    std::fs::write(at("recipient"), key.recipient().to_text()).expect("written");
    let mut manager = Command::new("systemd-socket-activate")
        .args(["-l", &tcp.to_string(), "-l", &relp.to_string(), "--fdname=tcp:relp", GABION])
        .args(["listen", "--log", &at("log").display().to_string()])
        .args(["--recipient", &at("recipient").display().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the service manager's tool");
    let stderr = BufReader::new(manager.stderr.take().expect("piped"));
    let mut said = stderr.lines().map_while(Result::ok);
    assert!(said.by_ref().take(2).all(|l| l.contains("Listening on")), "it holds the sockets");
    // The program is started by the first connection, and this waits for it.
    TcpStream::connect(tcp).expect("listens").write_all(b"<13>a: inherited\n").expect("sent");
    let mut stream = TcpStream::connect(relp).expect("listens");
    stream.write_all(OPEN).expect("sent");
    stream.write_all(b"2 syslog 11 <13>a: relp\n3 close 0\n").expect("sent");
    let mut answers = String::new();
    stream.read_to_string(&mut answers).expect("answers");
    assert!(answers.contains("2 rsp 6 200 OK\n"), "{answers}");
    Command::new("kill").args(["-TERM", &manager.id().to_string()]).status().expect("kill");
    let rest: Vec<String> = said.collect();
    assert!(manager.wait().expect("ended").success(), "{rest:?}");
    let mut got = messages(folder.path());
    got.sort();
    assert_eq!(got, [b"<13>a: inherited".to_vec(), b"<13>a: relp".to_vec()], "{rest:?}");
}

#[test]
fn the_units_are_what_systemd_takes_and_leave_little_open() {
    let test = "the_units_are_what_systemd_takes_and_leave_little_open";
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        eprintln!("{test}: skipped: no systemd-analyze");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let units = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd");
    let mut names = Vec::new();
    for name in [
        "gabion-listen.service",
        "gabion-follow-journal.service",
        "gabion-listen.socket",
        "gabion-listen-relp.socket",
        "gabion-guard-watch.service",
        "gabion-guard-enforce@.service",
    ] {
        let text = std::fs::read_to_string(format!("{units}/{name}")).expect("a unit");
        let path = folder.path().join(name);
        std::fs::write(&path, text.replace("/usr/bin/gabion", GABION)).expect("written");
        names.push(path.display().to_string());
    }
    let said = |arguments: &[&str]| {
        let done = Command::new("systemd-analyze").args(arguments).output().expect("run");
        let text = [done.stdout, done.stderr].concat();
        (done.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let all: Vec<&str> = ["verify"].into_iter().chain(names.iter().map(String::as_str)).collect();
    let (is_good, text) = said(&all);
    // It looks for other units of the machine too, and may complain of those.
    let ours: Vec<&str> = text.lines().filter(|l| l.contains("gabion")).collect();
    assert!(ours.is_empty(), "{is_good}: {ours:?}");
    // Tenths: 10.0 is all of the machine, 2.0 what systemd itself calls OK.
    let services = [names[0].as_str(), names[1].as_str()];
    let (is_good, text) =
        said(&[&["security", "--offline=true", "--threshold=20"], &services[..]].concat());
    if text.contains("unrecognized option") {
        eprintln!("{test}: not asked how much is open: this systemd can't say it offline");
        return;
    }
    assert!(is_good, "{text}");
}

#[test]
fn silent_and_slow_senders_are_let_go_and_counted() {
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let place = metrics.local_addr().expect("an address").to_string();
    drop(metrics);
    let options = ["--idle", "1", "--frame-timeout", "1", "--metrics", &place];
    let server = Server::start(&[&["--tcp", "127.0.0.1:0"][..], &options].concat());
    let mut silent = server.tcp("tcp");
    let mut slow = server.tcp("tcp");
    let mut busy = server.tcp("tcp");
    // One byte now and then never ends a frame; whole messages now and then are a sender's right.
    for n in 0..12 {
        let _ = slow.write_all(b"x");
        busy.write_all(format!("<13>busy {n}\n").as_bytes()).expect("a good sender stays");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(silent.read(&mut [0; 8]).ok(), Some(0), "the silent one was closed");
    assert!(matches!(slow.read(&mut [0; 8]), Ok(0) | Err(_)), "so was the slow one");
    let mut scrape = TcpStream::connect(&place).expect("metrics");
    scrape.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("asked");
    let mut page = String::new();
    scrape.read_to_string(&mut page).expect("an answer");
    for line in [
        "gabion_listen_closed_total{reason=\"idle\"} 1",
        "gabion_listen_closed_total{reason=\"slow\"} 1",
        "gabion_listen_connections 1",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    drop(busy);
    let (_, folder) = server.stop();
    let got = messages(folder.path());
    assert_eq!(got.iter().filter(|m| m.starts_with(b"<13>busy")).count(), 12);
    // What the slow one had sent is kept, and marked as cut.
    let cut = records(folder.path()).into_iter().find(|r| r.bytes.starts_with(b"x")).expect("kept");
    assert!(cut.flags.has(Flags::INCOMPLETE));
}

/// What is written into a folder that was deleted is nowhere once the program ends: nothing of it is
/// acknowledged, and the loss is reported.
#[test]
fn nothing_is_acknowledged_into_a_folder_that_is_gone() {
    for gone in ["log", "log.state"] {
        let mut server = Server::start(&["--relp", "127.0.0.1:0"]);
        let mut relp = server.tcp("relp");
        relp.write_all(OPEN).expect("sent");
        relp.write_all(b"2 syslog 9 <13>first\n").expect("sent");
        let mut answers = Vec::new();
        let mut piece = [0; 4096];
        while !answers.ends_with(b"2 rsp 6 200 OK\n") {
            let n = relp.read(&mut piece).expect("an answer");
            assert!(n > 0, "{}", String::from_utf8_lossy(&answers));
            answers.extend_from_slice(&piece[..n]);
        }
        let folder = server.folder.take().expect("its folder");
        std::fs::remove_dir_all(folder.path().join(gone)).expect("removed");
        let _ = relp.write_all(b"3 syslog 10 <13>second\n");
        let mut child = server.child.take().expect("the server");
        assert_eq!(child.wait().expect("its end").code(), Some(4), "{gone}");
        let said = server.said.take().expect("its words").join().expect("text");
        assert!(said.contains("was deleted while it was written"), "{said}");
        assert!(said.contains("nothing more is acknowledged"), "{said}");
        assert!(!said.contains("out of balance"), "{said}");
        let mut rest = Vec::new();
        let _ = relp.read_to_end(&mut rest);
        assert!(!String::from_utf8_lossy(&rest).contains("3 rsp"), "{gone}");
    }
}

/// The listener ends by itself because its log is gone. A request to stop that comes meanwhile is the first one: it
/// takes nothing from the exit code.
#[test]
fn a_request_to_stop_does_not_hide_that_the_log_is_gone() {
    let scratch = tempfile::tempdir().expect("a folder");
    let place = scratch.path().join("manager");
    let manager = UnixDatagram::bind(&place).expect("a socket");
    let mut command = Command::new(GABION);
    command.env("NOTIFY_SOCKET", &place);
    let mut server = Server::start_by(command, &["--relp", "127.0.0.1:0"]);
    let mut relp = server.tcp("relp");
    relp.write_all(OPEN).expect("sent");
    let folder = server.folder.take().expect("its folder");
    std::fs::remove_dir_all(folder.path().join("log")).expect("removed");
    relp.write_all(b"2 syslog 9 <13>first\n").expect("sent");
    let mut state = [0; 64];
    loop {
        let n = manager.recv(&mut state).expect("word of its state");
        if &state[..n] == b"STOPPING=1" {
            break;
        }
    }
    let mut child = server.child.take().expect("the server");
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status().expect("kill");
    assert_eq!(child.wait().expect("its end").code(), Some(4));
    let said = server.said.take().expect("its words").join().expect("text");
    assert!(said.contains("was deleted while it was written"), "{said}");
}

/// Moved on its disk it is the same folder: what comes is kept, and the log is whole.
#[test]
fn a_folder_that_is_moved_is_written_on() {
    let server = Server::start(&["--relp", "127.0.0.1:0"]);
    let place = server.folder.as_ref().expect("a folder").path().to_owned();
    std::fs::rename(place.join("log"), place.join("moved")).expect("moved");
    let mut relp = server.tcp("relp");
    relp.write_all(OPEN).expect("sent");
    relp.write_all(b"2 syslog 9 <13>first\n").expect("sent");
    let (mut answers, mut piece) = (Vec::new(), [0; 4096]);
    while !answers.ends_with(b"2 rsp 6 200 OK\n") {
        let n = relp.read(&mut piece).expect("an answer");
        assert!(n > 0, "{}", String::from_utf8_lossy(&answers));
        answers.extend_from_slice(&piece[..n]);
    }
    let (_, folder) = server.stop();
    std::fs::rename(place.join("moved"), place.join("log")).expect("moved back");
    assert_eq!(messages(folder.path()), [b"<13>first"]);
}

/// Whatever the umask, nobody but its owner writes to a file of the log or of its signer's state.
#[test]
fn no_file_of_a_log_is_open_to_others_whatever_the_umask() {
    use std::os::unix::fs::PermissionsExt;
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000; exec \"$0\" \"$@\"", GABION]);
    let server = Server::start_by(command, &["--tcp", "127.0.0.1:0"]);
    let (_, folder) = server.stop();
    let mut seen = 0;
    for part in ["log", "log.state"] {
        let at = folder.path().join(part);
        let mode = |p: &std::path::Path| std::fs::metadata(p).expect("there").permissions().mode();
        assert_eq!(mode(&at) & 0o077, 0, "{part}");
        for entry in std::fs::read_dir(&at).expect("a folder") {
            let path = entry.expect("an entry").path();
            assert_eq!(mode(&path) & 0o137, 0, "{}: {:o}", path.display(), mode(&path));
            seen += 1;
        }
    }
    assert!(seen >= 6, "{seen}");
}

/// A flood that does not end by itself does not keep the listener: it ends before its senders do, and all that it took in is
/// sealed or counted.
#[test]
fn a_flood_does_not_keep_a_listener_that_is_asked_to_end() {
    let server =
        Server::start(&["--tcp", "127.0.0.1:0", "--udp", "127.0.0.1:0", "--relp", "127.0.0.1:0"]);
    let flood = |kind: &str| {
        Command::new(GABION)
            .args(["send", &format!("--{kind}"), &server.places[kind], "--seconds", "9"])
            .args(["--connections", "4"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("a sender")
    };
    let mut senders = ["tcp", "udp", "relp"].map(flood);
    // It is in full flow when all have something in the log.
    let folder = server.folder.as_ref().expect("running").path().to_path_buf();
    let size = || -> u64 {
        let files = std::fs::read_dir(folder.join("log")).expect("a folder");
        files.filter_map(|f| f.ok()?.metadata().ok()).map(|m| m.len()).sum()
    };
    let begun = size();
    while size() < begun + (1 << 20) {
        std::thread::yield_now();
    }
    let (said, folder) = server.stop();
    // That over UDP can't notice.
    assert!(senders[1].try_wait().expect("a child").is_none(), "the flood ended first: {said}");
    for sender in &mut senders {
        let _ = sender.kill();
        let _ = sender.wait();
    }
    let stored = messages(folder.path()).len() as u64;
    assert_eq!(stored, last_count(&said, "seal", "passed"), "{said}");
    let taken =
        ["udp.0", "tcp.1", "relp.2"].iter().map(|j| last_count(&said, j, "passed")).sum::<u64>();
    assert_eq!(taken, stored, "{said}");
}

#[test]
fn what_can_not_be_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log").display().to_string();
    let nowhere = folder.path().join("none").display().to_string();
    let none_such = folder.path().join("text").display().to_string();
    std::fs::write(&none_such, "root:x:0\na=1\n").expect("written");
    for (options, code) in [
        (vec!["--udp", "127.0.0.1:0"], 2),
        (vec!["--udp", "127.0.0.1:0", "--log", &log], 2),
        (vec!["--udp", "127.0.0.1:0", "--log", &log, "--recipient", &nowhere], 3),
        (
            vec![
                "--udp",
                "127.0.0.1:0",
                "--log",
                &log,
                "--recipient",
                &nowhere,
                "--metrics",
                "0.0.0.0:1",
            ],
            2,
        ),
        (vec!["--slog-udp", "127.0.0.1:0", "--log", &log, "--recipient", &nowhere], 2),
        (vec!["--slog-config", &none_such, "--log", &log, "--recipient", &nowhere], 3),
    ] {
        let out = Command::new(GABION).arg("listen").args(&options).output().expect("run");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{options:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(!folder.path().join("log").exists(), "nothing is made for what can't be");
    }
}

#[test]
fn a_log_that_a_listener_made_is_served_by_the_verbs_that_write() {
    let server = Server::start(&["--tcp", "127.0.0.1:0"]);
    let mut stream = server.tcp("tcp");
    stream.write_all(b"<13>Nov 14 22:13:20 host app: by the wire\n").expect("sent");
    drop(stream);
    let (_, folder) = server.stop();
    let log = folder.path().join("log");
    let mut child = Command::new(GABION)
        .args(["log", "append", "-q"])
        .arg(&log)
        .stdin(Stdio::piped())
        .spawn()
        .expect("gabion log append");
    child.stdin.take().expect("piped").write_all(b"by hand\n").expect("written");
    assert!(child.wait().expect("ended").success());
    let all = messages(folder.path());
    assert_eq!(all.last().map(Vec::as_slice), Some(&b"by hand"[..]));
    assert!(all.iter().any(|m| m.ends_with(b"by the wire")), "{all:?}");
}

/// A listener that can't begin leaves nothing behind, whatever it is that it can't have, and adds nothing to a log that
/// is there.
#[test]
fn a_listener_that_can_not_begin_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, state) = (folder.path().join("a/b/log"), folder.path().join("a/b/state"));
    let mut keygen = Command::new(GABION);
    keygen.args(["log", "keygen", "--out"]).arg(folder.path().join("keys"));
    assert!(keygen.output().expect("a run").status.success());
    let recipient = folder.path().join("keys/recipient.pub");
    let taken = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let taken = taken.local_addr().expect("an address").to_string();
    let heard = std::net::TcpListener::bind("127.0.0.1:0").expect("a socket");
    let heard = heard.local_addr().expect("an address").to_string();
    let socket = folder.path().join("here.sock");
    let socket = socket.to_str().expect("text");
    let names = || {
        let all = std::fs::read_dir(folder.path()).expect("a folder");
        let mut all: Vec<_> = all.map(|e| e.expect("a file").file_name()).collect();
        all.sort();
        all
    };
    let before = names();
    let good = ["--udp", "127.0.0.1:0"];
    for wrong in [
        &["--udp", "192.0.2.1:5"][..],
        &["--tcp", "192.0.2.1:5"],
        &["--relp", "192.0.2.1:5"],
        &["--udp", &taken],
        &["--tcp", &heard],
        &["--tcp", "127.0.0.1:45871", "--relp", "127.0.0.1:45871"],
        &["--unix", "/proc/x/y"],
        &["--unix", socket, "--udp", &taken],
        &["--udp", "127.0.0.1:0", "--metrics", &heard],
        &["--udp", "127.0.0.1:0", "--spill", "/proc/x"],
        &[],
    ] {
        let arguments = |log: &std::path::Path| {
            let mut command = Command::new(GABION);
            command.args(["listen", "--log"]).arg(log).arg("--state").arg(&state);
            command.arg("--recipient").arg(&recipient).args(wrong);
            command.output().expect("a run")
        };
        let ran = arguments(&log);
        assert!(matches!(ran.status.code(), Some(2 | 4)), "{wrong:?}: {ran:?}");
        assert_eq!(names(), before, "{wrong:?}");
    }
    // One that begins, and then those again over what it left.
    let made = Command::new(GABION)
        .args(["log", "init"])
        .arg(&log)
        .arg("--state")
        .arg(&state)
        .arg("--recipient")
        .arg(&recipient)
        .args(["--origin", "h/l"])
        .output()
        .expect("a run");
    assert!(made.status.success(), "{made:?}");
    let files = || {
        let all = std::fs::read_dir(&log).expect("a folder").map(|e| e.expect("a file"));
        let mut all: Vec<_> =
            all.map(|e| (e.file_name(), e.metadata().expect("it").len())).collect();
        all.sort();
        all
    };
    let before = files();
    for wrong in [&["--unix", "/proc/x/y"][..], &["--udp", &taken], &["--spill", "/proc/x"]] {
        let mut command = Command::new(GABION);
        command.args(["listen", "--log"]).arg(&log).arg("--state").arg(&state).args(good);
        let ran = command.arg("--recipient").arg(&recipient).args(wrong).output().expect("a run");
        assert_eq!(ran.status.code(), Some(4), "{wrong:?}: {ran:?}");
        assert_eq!(files(), before, "{wrong:?}");
    }
}

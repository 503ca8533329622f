//! A hostile wire neither ends `gabion listen` nor keeps it from serving others, and what it did is counted.
//! How fast others are served meanwhile is measured by `make lab-log`; here a machine may be busy, so
//! times are only bounded far above what they are.
#![allow(clippy::print_stdout, reason = "a test prints what it found on standard output")]
#![allow(
    clippy::disallowed_methods,
    reason = "sockets live by the clock; this is the program's edge"
)]

mod intake;

use gabion_seal::Flags;
use intake::{Certificates, GABION, OPEN, Server, keys, messages, records, served, statements};
use intake::{free_place, metric, reaches};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// No sender waits longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn ten_thousand_idle_connections_hinder_nobody() {
    // Each costs a descriptor here and one in the server.
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(u64::MAX);
    let raised = Rlimit { current: Some(most.min(20_000)), maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
    let wanted = 10_000.min(most.saturating_sub(1_000)) as usize;
    if wanted < 10_000 {
        eprintln!("ten_thousand_idle_connections_hinder_nobody: only {wanted}: few descriptors");
    }
    let place = free_place();
    let options = ["--tcp", "127.0.0.1:0", "--relp", "127.0.0.1:0", "--metrics", &place];
    let server = Server::start(&[&options[..], &["--connections", "11000"]].concat());
    let mut idle = Vec::new();
    let mut longest = Duration::ZERO;
    while idle.len() < wanted {
        let batch = 1_000.min(wanted - idle.len());
        idle.extend((0..batch).map(|_| server.tcp("tcp")));
        longest = longest.max(served(&server));
    }
    assert!(reaches(&place, "gabion_listen_connections", wanted as u64), "all are held");
    for _ in 0..20 {
        longest = longest.max(served(&server));
    }
    // They are connections like others: the first and the last may speak.
    let last = wanted - 1;
    idle[0].write_all(b"<13>a: first\n").expect("sent");
    idle[last].write_all(b"<13>a: last\n").expect("sent");
    drop(idle);
    let (said, folder) = server.stop();
    let all = messages(folder.path());
    for wanted in [&b"<13>a: first"[..], b"<13>a: last", b"<13>a: behaved"] {
        assert!(all.iter().any(|m| m == wanted), "{said}");
    }
    println!("{wanted} idle connections: served within {longest:?}");
    assert!(longest < PATIENCE, "{longest:?}");
}

#[test]
fn a_line_of_a_gigabyte_is_cut_and_reported() {
    let server = Server::start(&["--tcp", "127.0.0.1:0", "--relp", "127.0.0.1:0"]);
    let mut line = server.tcp("tcp");
    let flood = std::thread::spawn(move || {
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..1024 {
            line.write_all(&piece).expect("a sender of an endless line is not cut off");
        }
        line.write_all(b"\n<13>a: behind it\n").expect("sent");
    });
    let mut longest = Duration::ZERO;
    while !flood.is_finished() {
        longest = longest.max(served(&server));
    }
    flood.join().expect("all sent");
    let (said, folder) = server.stop();
    let all = records(folder.path());
    let cut = all.iter().find(|r| r.bytes.starts_with(b"xxx")).expect("its beginning is kept");
    assert_eq!(cut.bytes.len(), 64 * 1024, "{said}");
    assert!(cut.flags.has(Flags::TRUNCATED));
    assert!(all.iter().any(|r| r.bytes == b"<13>a: behind it"), "the stream continues after it");
    let stated = statements(folder.path());
    assert!(stated.iter().any(|s| s.contains("\"sent\":1073741824")), "{stated:?}");
    assert!(longest < PATIENCE, "{longest:?}");
}

/// Whole handshakes, and first flights without an end, each on a new connection that sends nothing more: there are
/// never more connections than allowed, each is counted, and a sender with messages is served.
#[test]
fn floods_of_handshakes_are_bounded_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(all) = Certificates::new(folder.path()) else {
        eprintln!("floods_of_handshakes_are_bounded_and_counted: skipped: no openssl");
        return;
    };
    let (cert, key) = &all.server;
    let place = free_place();
    let tls = ["--tls", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", key];
    let bounds = ["--tcp", "127.0.0.1:0", "--metrics", &place, "--connections", "40"];
    let relp = ["--relp", "127.0.0.1:0"];
    let server = Server::start(&[&tls[..], &bounds, &relp].concat());
    let config = tls_client(&all.authority);
    let (mut flood, mut shaken) = (Vec::new(), 0);
    for n in 0..400 {
        let name = rustls::pki_types::ServerName::try_from("localhost").expect("a name");
        let mut session = rustls::ClientConnection::new(config.clone(), name).expect("a session");
        let mut stream = server.tcp("tls");
        if n % 2 == 0 {
            let _ = session.write_tls(&mut stream);
        } else {
            while session.is_handshaking() && session.complete_io(&mut stream).is_ok() {}
            shaken += usize::from(!session.is_handshaking());
        }
        flood.push((stream, session));
        if n % 100 == 99 {
            served(&server);
        }
    }
    assert_eq!(shaken, 200, "who shakes hands while others only begin to is served");
    let accepted = 400 + 4;
    assert!(reaches(&place, "gabion_listen_accepted_total", accepted));
    let open = metric(&place, "gabion_listen_connections");
    assert!(open <= 40, "{open}");
    let closed =
        |why: &str| metric(&place, &format!("gabion_listen_closed_total{{reason=\"{why}\"}}"));
    assert!(closed("displaced") >= 400 - 40, "{}", closed("displaced"));
    drop(flood);
    let (said, folder) = server.stop();
    let behaved = messages(folder.path()).iter().filter(|m| m.ends_with(b"behaved")).count();
    assert_eq!(behaved, 4, "{said}");
}

/// What a client needs that trusts an authority.
fn tls_client(authority: &str) -> std::sync::Arc<rustls::ClientConfig> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority).expect("a file") {
        roots.add(certificate.expect("a certificate")).expect("an authority");
    }
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions");
    std::sync::Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
}

#[test]
fn few_descriptors_are_enough() {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\"", GABION]);
    let server = Server::start_by(limited, &["--tcp", "127.0.0.1:0", "--relp", "127.0.0.1:0"]);
    let mut idle: Vec<TcpStream> = (0..400).map(|_| server.tcp("tcp")).collect();
    let took = served(&server);
    // One line on each: those who were displaced learn of it, those who are there are stored.
    for (n, stream) in idle.iter_mut().enumerate() {
        let _ = stream.write_all(format!("<13>a: line {n}\n").as_bytes());
    }
    std::thread::sleep(Duration::from_millis(300));
    drop(idle);
    let after = served(&server);
    let (said, folder) = server.stop();
    assert!(said.contains("192 connections at most"), "{said}");
    let all = messages(folder.path());
    assert_eq!(all.iter().filter(|m| *m == b"<13>a: behaved").count(), 2);
    let lines = all.iter().filter(|m| m.starts_with(b"<13>a: line ")).count();
    // The two well-behaved ones displaced one idle connection each, at most.
    assert!((190..=192).contains(&lines), "{lines}: {said}");
    assert!(took < PATIENCE && after < PATIENCE, "{took:?} {after:?}");
}

#[test]
fn nonsense_on_every_port_hinders_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let slog = keys("nonsense_on_every_port_hinders_nobody");
    let tls = Certificates::new(folder.path());
    let place = free_place();
    let mut options = vec!["--udp", "127.0.0.1:0", "--tcp", "127.0.0.1:0", "--relp", "127.0.0.1:0"];
    options.extend(["--connections", "300", "--metrics", &place]);
    if let Some((private, _)) = &slog {
        options.extend(["--slog-udp", "127.0.0.1:0", "--slog-tcp", "127.0.0.1:0"]);
        options.extend(["--slog-key", private]);
    }
    if let Some(all) = &tls {
        options.extend(["--tls", "127.0.0.1:0", "--tls-cert", &all.server.0]);
        options.extend(["--tls-key", &all.server.1]);
    }
    let server = Server::start(&options);
    // Frame lengths without end, a count that never comes, NULs.
    let mut open = Vec::new();
    for bytes in
        [&b"999999999999999999999999999999"[..], b"1048576 <13>", b"4294967296 <13>", &[0; 9000]]
    {
        let mut stream = server.tcp("tcp");
        stream.write_all(bytes).expect("sent");
        open.push(stream);
    }
    // RELP half open, half a frame, none at all, and lengths that can't be.
    open.push(server.tcp("relp"));
    for bytes in [&b"1 open 86 relp"[..], &[0xff; 4096], b"1 open 999999999 x", b"1 syslog 3 abc\n"]
    {
        let mut stream = server.tcp("relp");
        stream.write_all(bytes).expect("sent");
        open.push(stream);
    }
    // Opened as it should be, and then a message before its number.
    let mut stream = server.tcp("relp");
    stream.write_all(OPEN).expect("sent");
    stream.write_all(b"7 syslog 3 abc\n").expect("sent");
    open.push(stream);
    if tls.is_some() {
        for bytes in [
            &b"GET / HTTP/1.0\r\n\r\n"[..],
            b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc",
            &[0x80; 3000],
            b"",
        ] {
            for _ in 0..20 {
                let mut stream = server.tcp("tls");
                let _ = stream.write_all(bytes);
                open.push(stream);
            }
        }
    }
    if slog.is_some() {
        for envelope in
            [&b"00,AA=="[..], b"no comma", b",", b"", b"0011,AAAA", &[b'a'; 4000], &[b','; 9000]]
        {
            let mut stream = server.tcp("slog-tcp");
            stream.write_all(envelope).expect("sent");
            stream.shutdown(std::net::Shutdown::Write).expect("an end");
            let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            udp.send_to(envelope, server.address("slog-udp")).expect("sent");
        }
    }
    // More idle connections than there may be.
    open.extend((0..600).map(|_| server.tcp("tcp")));
    let took = served(&server);
    assert!(reaches(&place, "gabion_listen_closed_total{reason=\"displaced\"}", 300));
    assert!(metric(&place, "gabion_listen_closed_total{reason=\"relp_violation\"}") >= 4);
    if tls.is_some() {
        assert!(metric(&place, "gabion_listen_closed_total{reason=\"tls_failure\"}") >= 20);
    }
    if slog.is_some() {
        for (reason, count) in [("fields", 4), ("short-blob", 4), ("too-long", 0)] {
            let name = format!("gabion_listen_envelopes_total{{result=\"{reason}\"}}");
            assert!(metric(&place, &name) >= count, "{name}");
        }
    }
    drop(open);
    let again = served(&server);
    let (said, folder) = server.stop();
    let all = records(folder.path());
    assert!(all.iter().filter(|r| r.bytes == b"<13>a: behaved").count() == 2, "{said}");
    assert!(all.iter().all(|r| r.bytes.len() <= 64 * 1024));
    if slog.is_some() {
        // Every envelope that came is kept with its reason; the empty ones were none.
        let suspicious = all.iter().filter(|r| r.flags.has(Flags::SUSPICIOUS)).count();
        assert!(suspicious >= 12, "{suspicious}: {said}");
    }
    assert!(took < PATIENCE && again < PATIENCE, "{took:?} {again:?}");
}

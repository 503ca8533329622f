//! `gabion listen` as whole processes: every message sent is sealed or counted, acknowledged ones are
//! there, and a hostile wire neither ends the server nor keeps it from serving others.
#![allow(
    clippy::disallowed_methods,
    reason = "sockets live by the clock; this is the program's edge"
)]

use gabion_seal::recipient::SecretKey;
use gabion_seal::record::Kind;
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const GABION: &str = env!("CARGO_BIN_EXE_gabion");

const OPEN: &[u8] =
    b"1 open 86 relp_version=0\nrelp_software=librelp,1.11.0,http://librelp.adiscon.com\ncommands=syslog\n";

/// A server with a log of its own.
struct Server {
    child: Option<Child>,
    folder: tempfile::TempDir,
    places: HashMap<String, String>,
    said: std::thread::JoinHandle<String>,
}

impl Server {
    fn start(options: &[&str]) -> Server {
        Server::start_by(Command::new(GABION), options)
    }

    /// `command` is the program, or one that runs it with less.
    fn start_by(mut command: Command, options: &[&str]) -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        let key = SecretKey::generate().expect("a key");
        let reader = folder.path().join("reader");
        std::fs::write(&reader, key.to_text().expect("an X25519 key").as_bytes()).expect("written");
        let recipient = folder.path().join("recipient");
        std::fs::write(&recipient, key.recipient().to_text()).expect("written");
        command.arg("listen").arg("--log").arg(folder.path().join("log"));
        command.arg("--recipient").arg(&recipient).args(options);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the server");
        let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
        let mut all = String::new();
        let mut places = HashMap::new();
        loop {
            let mut line = String::new();
            if stderr.read_line(&mut line).expect("text") == 0 {
                panic!("the server did not start: {all}");
            }
            all.push_str(&line);
            if let Some(list) = line.trim_end().strip_prefix("gabion: listening: ") {
                for entry in list.split(", ") {
                    let (kind, place) = entry.split_once(' ').expect("kind and place");
                    places.insert(kind.to_owned(), place.to_owned());
                }
                break;
            }
        }
        let said = std::thread::spawn(move || {
            let _ = stderr.read_to_string(&mut all);
            all
        });
        Server { child: Some(child), folder, places, said }
    }

    fn address(&self, kind: &str) -> SocketAddr {
        self.places[kind].parse().expect("an address")
    }

    fn tcp(&self, kind: &str) -> TcpStream {
        let stream = TcpStream::connect(self.address(kind)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream
    }

    /// Asks it to stop, waits, and gives what it said and the folder.
    fn stop(mut self) -> (String, tempfile::TempDir) {
        let mut child = self.child.take().expect("running");
        let pid = child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("kill");
        let status = child.wait().expect("ended");
        let said = self.said.join().expect("read");
        assert!(status.success(), "{status}: {said}");
        (said, self.folder)
    }
}

/// Everything in a log: kind, flags, transport, text.
fn records(folder: &Path) -> Vec<(Kind, u16, u8, Vec<u8>)> {
    use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
    struct All(Vec<(Kind, u16, u8, Vec<u8>)>);
    impl Sink for All {
        fn record(&mut self, found: &Found<'_>) -> bool {
            let transport = found.source.transport.map_or(255, |t| t as u8);
            let record = found.record;
            self.0.push((record.kind, record.flags.0, transport, record.bytes.to_vec()));
            true
        }
        fn unreadable(&mut self, what: &str) {
            panic!("{what}");
        }
    }
    let text = std::fs::read_to_string(folder.join("reader")).expect("the reader's key");
    let keys = [SecretKey::parse_file(&text).expect("a key")];
    let log = gabion_seal::storage::Files::open(&folder.join("log")).expect("the log");
    let mut all = All(Vec::new());
    let mut reader = Reader::open(&log, &keys).expect("a log");
    reader.scan(Cursor::default(), &Selection::default(), &mut all).expect("read");
    all.0
}

fn messages(folder: &Path) -> Vec<Vec<u8>> {
    records(folder).into_iter().filter(|r| r.0 == Kind::Message).map(|r| r.3).collect()
}

/// A number behind a word in what the server said last, as `udp.0: 12 received`.
fn told(said: &str, joint: &str, word: &str) -> u64 {
    let last = said.lines().rev().find(|l| l.contains("received")).unwrap_or_default();
    let part = last.split("; ").find(|p| p.contains(&format!("{joint}: "))).unwrap_or_default();
    let part = part.split_once(&format!("{joint}: ")).map_or("", |p| p.1);
    let row = part.split(", ").find(|p| p.ends_with(word)).unwrap_or_default();
    row.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

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
    assert_eq!(told(&said, "seal", "passed"), 5, "{said}");
    let closing = records(folder.path());
    let statements: Vec<String> = closing
        .iter()
        .filter(|r| r.0 == Kind::System)
        .map(|r| String::from_utf8_lossy(&r.3).into_owned())
        .collect();
    assert!(
        statements.iter().any(|s| s.contains("\"intake\"") && s.contains("empty_message")),
        "{statements:?}"
    );
    assert!(statements.iter().any(|s| s.contains("\"stop\"")), "{statements:?}");
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
    let dropped = told(&said, "udp.0", "kernel_drop");
    assert_eq!(stored + dropped, 200_000, "{said}");
    assert_eq!(told(&said, "tcp.1", "passed"), 100_000, "{said}");
    assert_eq!(told(&said, "seal", "passed"), stored);
    let losses: u64 = records(folder.path())
        .iter()
        .filter(|r| r.0 == Kind::System)
        .map(|r| String::from_utf8_lossy(&r.3).into_owned())
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
    let mut server = server;
    let mut child = server.child.take().expect("running");
    child.kill().expect("killed");
    child.wait().expect("ended");
    let folder = server.folder;
    // A start mends what the end left, and goes on.
    let again = Command::new(GABION)
        .args(["listen", "--udp", "127.0.0.1:0", "--recipient"])
        .arg(folder.path().join("recipient"))
        .arg("--log")
        .arg(folder.path().join("log"))
        .stderr(Stdio::piped())
        .spawn();
    let mut again = again.expect("the server");
    std::thread::sleep(Duration::from_millis(800));
    Command::new("kill").args(["-TERM", &again.id().to_string()]).status().expect("kill");
    assert!(again.wait().expect("ended").success());
    assert_eq!(messages(folder.path()).len(), 38);
}

/// How long a well-behaved sender waits for its answer.
fn served(server: &Server) -> Duration {
    let began = Instant::now();
    let mut relp = server.tcp("relp");
    relp.write_all(OPEN).expect("sent");
    relp.write_all(b"2 syslog 14 <13>a: behaved\n").expect("sent");
    let mut answers = Vec::new();
    let mut piece = [0; 4096];
    while !answers.ends_with(b"2 rsp 6 200 OK\n") {
        let n = relp.read(&mut piece).expect("an answer");
        assert!(n > 0, "closed: {}", String::from_utf8_lossy(&answers));
        answers.extend_from_slice(&piece[..n]);
    }
    began.elapsed()
}

#[test]
fn a_hostile_wire_hinders_nobody() {
    let with_corpus = keys();
    let mut options = vec![
        "--udp",
        "127.0.0.1:0",
        "--tcp",
        "127.0.0.1:0",
        "--relp",
        "127.0.0.1:0",
        "--connections",
        "300",
    ];
    if let Some((private, _)) = &with_corpus {
        options.extend([
            "--slog-udp",
            "127.0.0.1:0",
            "--slog-tcp",
            "127.0.0.1:0",
            "--slog-key",
            private,
        ]);
    }
    let server = Server::start(&options);
    // A frame length without end, counts that are none, NULs, a line that does not end.
    let mut endless = server.tcp("tcp");
    endless.write_all(b"999999999999999999999999999999").expect("sent");
    let mut counted = server.tcp("tcp");
    counted.write_all(b"1048576 <13>").expect("sent");
    let line = server.tcp("tcp");
    let flood = std::thread::spawn(move || {
        let mut line = line;
        let piece = vec![b'x'; 1 << 20];
        // 64 MiB without an end; what is behind the limit is counted, not kept.
        for _ in 0..64 {
            if line.write_all(&piece).is_err() {
                return;
            }
        }
    });
    // Half-open RELP, and RELP that is none.
    let half = server.tcp("relp");
    let mut half_frame = server.tcp("relp");
    half_frame.write_all(b"1 open 86 relp").expect("sent");
    server.tcp("relp").write_all(&[0xff; 4096]).expect("sent");
    server.tcp("relp").write_all(b"1 open 999999999 x").expect("sent");
    // More idle connections than there may be.
    let idle: Vec<TcpStream> =
        (0..600).filter_map(|_| TcpStream::connect(server.address("tcp")).ok()).collect();
    assert!(idle.len() > 300);
    if with_corpus.is_some() {
        for envelope in [&b"00,AA=="[..], b"no comma", b",", b"", b"0011,AAAA", &[b'a'; 4000]] {
            let mut slog = server.tcp("slog-tcp");
            slog.write_all(envelope).expect("sent");
            slog.shutdown(std::net::Shutdown::Write).expect("an end");
            let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
            udp.send_to(envelope, server.address("slog-udp")).expect("sent");
        }
    }
    let took = served(&server);
    drop((half, half_frame, idle, counted, endless));
    flood.join().expect("sent or refused");
    let again = served(&server);
    let (said, folder) = server.stop();
    let all = messages(folder.path());
    assert!(all.iter().any(|m| m == b"<13>a: behaved"), "{said}");
    assert!(all.iter().all(|m| m.len() <= 64 * 1024));
    println!("served within {took:?} and {again:?}");
    // Far above the 100 ms that a quiet machine keeps: this one may be busy.
    assert!(took < Duration::from_secs(10) && again < Duration::from_secs(10));
}

#[test]
fn few_descriptors_are_enough() {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 256; exec \"$0\" \"$@\"", GABION]);
    let server = Server::start_by(limited, &["--tcp", "127.0.0.1:0", "--relp", "127.0.0.1:0"]);
    let idle: Vec<TcpStream> =
        (0..400).filter_map(|_| TcpStream::connect(server.address("tcp")).ok()).collect();
    let took = served(&server);
    drop(idle);
    let (said, folder) = server.stop();
    assert!(said.contains("192 connections at most"), "{said}");
    assert!(messages(folder.path()).iter().any(|m| m == b"<13>a: behaved"), "{took:?}");
}

#[test]
fn envelopes_are_opened_kept_and_told_when_they_come_again() {
    let Some((private, public)) = keys() else {
        eprintln!("envelopes_are_opened_kept_and_told_when_they_come_again: skipped: no corpus");
        return;
    };
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
    use gabion_seal::Flags;
    let got: Vec<(u16, Vec<u8>)> = records(folder.path())
        .into_iter()
        .filter(|r| r.0 == Kind::Message)
        .map(|r| (r.1, r.3))
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
    let Some((ca, cert, key)) = certificates(folder.path()) else {
        eprintln!("tls_is_spoken_and_garbage_is_not: skipped: no openssl");
        return;
    };
    let server = Server::start(&["--tls", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key]);
    let mut garbage = server.tcp("tls");
    garbage.write_all(b"<13>not a handshake at all, and long enough to be one\n").expect("sent");
    let _silent = server.tcp("tls");
    let to = server.places["tls"].clone();
    let sent = Command::new(GABION)
        .args(["send", "--tls", &to, "--tls-ca", &ca, "--count", "2000", "--octet-counting"])
        .output()
        .expect("the sender");
    assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
    let (said, folder) = server.stop();
    assert_eq!(messages(folder.path()).len(), 2000, "{said}");
}

#[test]
fn what_can_not_be_is_refused_in_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log").display().to_string();
    let nowhere = folder.path().join("none").display().to_string();
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
    ] {
        let out = Command::new(GABION).arg("listen").args(&options).output().expect("run");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{options:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// The corpus's keys for envelopes: private, public.
fn keys() -> Option<(String, String)> {
    let root = std::env::var_os("GABION_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
        PathBuf::from,
    );
    let at = |name: &str| root.join("sealed/slog").join(name);
    at("comms_rsa.slogpem").exists().then(|| {
        (at("comms_rsa.slogpem").display().to_string(), at("comms_rsa.pub").display().to_string())
    })
}

/// An authority, a server's certificate of it, and its key.
fn certificates(folder: &Path) -> Option<(String, String, String)> {
    let at = |name: &str| folder.join(name).display().to_string();
    let run = |args: &[&str]| {
        Command::new("openssl").args(args).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    };
    std::fs::write(folder.join("ext"), "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
        .ok()?;
    let done = run(&[
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=authority",
        "-keyout",
        &at("ca.key"),
        "-out",
        &at("ca.pem"),
    ]) && run(&[
        "req",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-subj",
        "/CN=localhost",
        "-keyout",
        &at("key.pem"),
        "-out",
        &at("csr.pem"),
    ]) && run(&[
        "x509",
        "-req",
        "-in",
        &at("csr.pem"),
        "-CA",
        &at("ca.pem"),
        "-CAkey",
        &at("ca.key"),
        "-days",
        "2",
        "-CAcreateserial",
        "-extfile",
        &at("ext"),
        "-out",
        &at("cert.pem"),
    ]);
    done.then(|| (at("ca.pem"), at("cert.pem"), at("key.pem")))
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

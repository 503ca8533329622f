//! A server with a log of its own, and what its log holds: for tests of `gabion listen` as whole processes.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(clippy::disallowed_methods, reason = "sockets live by the clock")]

use gabion_seal::SecretKey;
use gabion_seal::{Flags, Kind};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub const GABION: &str = env!("CARGO_BIN_EXE_gabion");

pub const OPEN: &[u8] =
    b"1 open 86 relp_version=0\nrelp_software=librelp,1.11.0,http://librelp.adiscon.com\ncommands=syslog\n";

/// A server with a log of its own.
pub struct Server {
    pub child: Option<Child>,
    pub folder: Option<tempfile::TempDir>,
    pub places: HashMap<String, String>,
    pub said: Option<std::thread::JoinHandle<String>>,
}

impl Server {
    pub fn start(options: &[&str]) -> Server {
        Server::start_by(Command::new(GABION), options)
    }

    /// `command` is the program, or one that runs it with less.
    pub fn start_by(mut command: Command, options: &[&str]) -> Server {
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
        Server { child: Some(child), folder: Some(folder), places, said: Some(said) }
    }

    pub fn address(&self, kind: &str) -> SocketAddr {
        self.places[kind].parse().expect("an address")
    }

    pub fn tcp(&self, kind: &str) -> TcpStream {
        let stream = TcpStream::connect(self.address(kind)).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        stream
    }

    /// Asks it to stop, waits, and returns its messages and the folder.
    pub fn stop(mut self) -> (String, tempfile::TempDir) {
        let mut child = self.child.take().expect("running");
        let pid = child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().expect("kill");
        let status = child.wait().expect("ended");
        let said = self.said.take().expect("not yet read").join().expect("read");
        assert!(status.success(), "{status}: {said}");
        (said, self.folder.take().expect("its own"))
    }

    /// Ends it without a word, and gives the folder.
    pub fn kill(mut self) -> tempfile::TempDir {
        let mut child = self.child.take().expect("running");
        child.kill().expect("killed");
        child.wait().expect("ended");
        self.folder.take().expect("its own")
    }
}

/// A failed test leaves no server running.
impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A record as it was read.
#[derive(Clone, Debug)]
pub struct Stored {
    pub kind: Kind,
    pub flags: Flags,
    pub peer: String,
    pub identity: String,
    pub bytes: Vec<u8>,
}

/// Everything in a log.
pub fn records(folder: &Path) -> Vec<Stored> {
    use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
    struct All(Vec<Stored>);
    impl Sink for All {
        fn record(&mut self, found: &Found<'_>) -> bool {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.0.push(Stored {
                kind: found.record.kind,
                flags: found.record.flags,
                peer: text(found.source.peer),
                identity: text(found.source.identity),
                bytes: found.record.bytes.to_vec(),
            });
            true
        }
        fn unreadable(&mut self, what: &str) {
            panic!("{what}");
        }
    }
    let text = std::fs::read_to_string(folder.join("reader")).expect("the reader's key");
    let keys = [SecretKey::parse_file(&text).expect("a key")];
    let log = gabion_seal::storage::Files::open(
        &gabion_runtime::files::direct_opener(),
        &folder.join("log"),
    )
    .expect("the log");
    let mut all = All(Vec::new());
    let mut reader = Reader::open(&log, &keys).expect("a log");
    reader.scan(Cursor::default(), &Selection::default(), &mut all).expect("read");
    all.0
}

/// The log's own statements, as text.
pub fn statements(folder: &Path) -> Vec<String> {
    let own = records(folder).into_iter().filter(|r| r.kind == Kind::System);
    own.map(|r| String::from_utf8_lossy(&r.bytes).into_owned()).collect()
}

/// Starts a server on the log of another one, so that it repairs the end of the log, and stops it.
pub fn start_again(folder: &Path) {
    let again = Command::new(GABION)
        .args(["listen", "--udp", "127.0.0.1:0", "--recipient"])
        .arg(folder.join("recipient"))
        .arg("--log")
        .arg(folder.join("log"))
        .stderr(Stdio::piped())
        .spawn();
    let mut again = again.expect("the server");
    let mut said = BufReader::new(again.stderr.take().expect("piped")).lines();
    assert!(said.any(|l| l.is_ok_and(|l| l.contains("listening:"))), "it starts again");
    Command::new("kill").args(["-TERM", &again.id().to_string()]).status().expect("kill");
    for _ in said {}
    assert!(again.wait().expect("ended").success());
}

pub fn messages(folder: &Path) -> Vec<Vec<u8>> {
    records(folder).into_iter().filter(|r| r.kind == Kind::Message).map(|r| r.bytes).collect()
}

/// The number before a word in the last counts that the server printed, such as `udp.0: 12 received`.
pub fn last_count(said: &str, stage: &str, word: &str) -> u64 {
    let last = said.lines().rev().find(|l| l.contains("received")).unwrap_or_default();
    let part = last.split("; ").find(|p| p.contains(&format!("{stage}: "))).unwrap_or_default();
    let part = part.split_once(&format!("{stage}: ")).map_or("", |p| p.1);
    let row = part.split(", ").find(|p| p.ends_with(word)).unwrap_or_default();
    row.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// How long a well-behaved sender waits for its answer.
pub fn served(server: &Server) -> Duration {
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

/// The corpus's keys for envelopes: private, public.
pub fn keys(test: &str) -> Option<(String, String)> {
    let folder = gabion_corpus::find(test, "sealed/slog")?;
    let name = |name: &str| folder.join(name).display().to_string();
    Some((name("comms_rsa.slogpem"), name("comms_rsa.pub")))
}

/// Certificates of one authority, by openssl.
pub struct Certificates {
    pub authority: String,
    /// The server's, for localhost, and its key.
    pub server: (String, String),
    /// A client's, for `sensor7.example`, and its key.
    pub client: (String, String),
}

impl Certificates {
    /// Makes them; `None` without openssl.
    pub fn new(folder: &Path) -> Option<Certificates> {
        let authority = Certificates::authority(folder, "ca")?;
        let server = Certificates::signed(folder, "ca", "server", "localhost")?;
        let client = Certificates::signed(folder, "ca", "client", "sensor7.example")?;
        Some(Certificates { authority, server, client })
    }

    /// An authority of its own.
    pub fn authority(folder: &Path, name: &str) -> Option<String> {
        let at = |end: &str| folder.join(format!("{name}.{end}")).display().to_string();
        let (key, pem) = (at("key"), at("pem"));
        openssl(
            &["req", "-x509", "-days", "2", "-subj", "/CN=authority"],
            &["-keyout", &key, "-out", &pem],
        )
        .then_some(pem)
    }

    /// A certificate of that authority, and its key.
    pub fn signed(folder: &Path, by: &str, name: &str, host: &str) -> Option<(String, String)> {
        let at = |name: &str, end: &str| folder.join(format!("{name}.{end}")).display().to_string();
        let (key, request, pem) = (at(name, "key"), at(name, "csr"), at(name, "pem"));
        let extensions = format!("subjectAltName=DNS:{host}\nbasicConstraints=CA:FALSE\n");
        std::fs::write(at(name, "ext"), extensions).ok()?;
        let subject = format!("/CN={host}");
        if !openssl(&["req", "-subj", &subject], &["-keyout", &key, "-out", &request]) {
            return None;
        }
        let (ca, ca_key, extensions) = (at(by, "pem"), at(by, "key"), at(name, "ext"));
        let sign = ["x509", "-req", "-days", "2", "-CAcreateserial", "-in", &request, "-out", &pem];
        let sign = [&sign[..], &["-CA", &ca, "-CAkey", &ca_key, "-extfile", &extensions]].concat();
        let done = Command::new("openssl").args(sign).stderr(Stdio::null()).status();
        done.is_ok_and(|s| s.success()).then_some((pem, key))
    }
}

fn openssl(first: &[&str], last: &[&str]) -> bool {
    const EC: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
    let mut command = Command::new("openssl");
    command.args(first).args(EC).args(last).stderr(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

/// A free port for metrics.
pub fn free_place() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    socket.local_addr().expect("an address").to_string()
}

/// One of the program's numbers for Prometheus.
pub fn metric(place: &str, name: &str) -> u64 {
    let mut scrape = TcpStream::connect(place).expect("metrics");
    scrape.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("asked");
    let mut page = String::new();
    scrape.read_to_string(&mut page).expect("an answer");
    let line = page.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

/// Waits until a number is reached: counts are published four times a second.
pub fn reaches(place: &str, name: &str, wanted: u64) -> bool {
    (0..100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        metric(place, name) >= wanted
    })
}

//! The log server with its threads: any bytes from senders over TCP, RELP, UDP and a local socket, in any pieces. The log
//! verifies, holds each message that was accepted, and the account of every stage balances.

use crate::seeds::Seeds;
use gabion_intake::{
    Endpoint, ListenSocket, Place, Report, SealedLog, Server, ServerSettings, bind,
};
use gabion_logs::dialect::Dialect;
use gabion_logs::framing::Framing;
use gabion_logs::session::{Finish, SessionSettings};
use gabion_runtime::files::direct_opener;
use gabion_runtime::{StopFlag, clock};
use gabion_seal::durable::{LogFolder, OnFull};
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::storage::Files;
use gabion_seal::verify::{Anchor, Options, Verdict, verify};
use gabion_seal::{Init, Kind, Policy, SecretKey, Statement, checkpoints};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Longest time that something is waited for that happens at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most pieces of an input.
const PIECES_MAX: usize = 200;

/// What is spoken, in the order in which the sockets are numbered. Each has two senders.
const DIALECTS: [&str; 4] = ["udp", "unix", "tcp", "relp"];

/// The pieces of an input: who sends, and what. A connection that sends an empty piece has sent all.
///
/// A piece begins with a byte of its sender (three bits) and of how its length counts, and with its length.
struct Pieces<'a>(&'a [u8]);

impl<'a> Iterator for Pieces<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<(usize, &'a [u8])> {
        let [how, len, rest @ ..] = self.0 else { return None };
        let len = usize::from(*len) << (how >> 6);
        let (piece, rest) = rest.split_at(len.min(rest.len()));
        self.0 = rest;
        Some((usize::from(how & 7), piece))
    }
}

/// Counts by what is counted.
type Times = BTreeMap<Vec<u8>, u64>;

/// What a log holds.
#[derive(Default)]
struct Kept {
    /// Messages by listener.
    messages: [Times; DIALECTS.len()],
    /// The account of all stages, of the last record.
    account: Option<Value>,
}

impl Sink for Kept {
    fn record(&mut self, found: &Found<'_>) -> bool {
        let bytes = found.record.bytes;
        match found.record.kind {
            Kind::Message => {
                let listener = self.messages.get_mut(usize::from(found.source.listener));
                *listener.expect("a listener that exists").entry(bytes.to_vec()).or_default() += 1;
            }
            Kind::System => {
                let statement: Value = serde_json::from_slice(bytes).expect("a statement is JSON");
                let _ = Statement::parse(bytes);
                if statement["type"] == "intake" {
                    self.account = Some(statement["stages"].clone());
                }
            }
            Kind::Finding => panic!("nothing finds anything here"),
        }
        true
    }

    fn unreadable(&mut self, what: &str) {
        panic!("{what}");
    }
}

/// What a sender sent, and the socket by which it did.
enum Sender {
    Datagrams(Datagrams),
    Connection(Connection),
}

struct Datagrams {
    socket: Local,
    sent: Vec<Vec<u8>>,
}

enum Local {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

struct Connection {
    stream: TcpStream,
    sent: Vec<u8>,
    has_sent_all: bool,
    replies: Vec<u8>,
}

impl Sender {
    fn open(to: &ListenSocket) -> Sender {
        let place = to.place.as_str();
        let datagrams = |socket| Sender::Datagrams(Datagrams { socket, sent: Vec::new() });
        match to.dialect.name() {
            "udp" => {
                let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
                socket.connect(place).expect("the server's socket is bound");
                datagrams(Local::Udp(socket))
            }
            "unix" => {
                let socket = UnixDatagram::unbound().expect("a socket");
                socket.connect(place).expect("the server's socket is bound");
                // Few datagrams wait in such a socket before the server reads it.
                socket.set_nonblocking(true).expect("a socket that does not block");
                datagrams(Local::Unix(socket))
            }
            _ => {
                let stream = TcpStream::connect(place).expect("the server's socket listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a time limit");
                stream.set_write_timeout(Some(PATIENCE)).expect("a time limit");
                let (sent, replies) = (Vec::new(), Vec::new());
                Sender::Connection(Connection { stream, sent, has_sent_all: false, replies })
            }
        }
    }

    fn send(&mut self, piece: &[u8]) {
        match self {
            Sender::Datagrams(datagrams) => {
                let sent = match &datagrams.socket {
                    Local::Udp(socket) => socket.send(piece),
                    Local::Unix(socket) => socket.send(piece),
                };
                match sent {
                    Ok(_) => datagrams.sent.push(piece.to_vec()),
                    Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock, "{e}"),
                }
            }
            Sender::Connection(connection) if connection.has_sent_all => {}
            Sender::Connection(connection) if piece.is_empty() => {
                connection.has_sent_all = true;
                let _ = connection.stream.shutdown(Shutdown::Write);
            }
            Sender::Connection(connection) => {
                // A server that has closed the connection of a sender that broke a rule takes no more.
                if connection.stream.write_all(piece).is_ok() {
                    connection.sent.extend_from_slice(piece);
                }
            }
        }
    }

    /// Reads what the server answers until it closes the connection.
    fn read_replies(&mut self) {
        if let Sender::Connection(connection) = self {
            let _ = connection.stream.read_to_end(&mut connection.replies);
        }
    }

    /// Whether the server closes the connection by itself.
    fn has_sent_all(&self) -> bool {
        matches!(self, Sender::Connection(connection) if connection.has_sent_all)
    }
}

/// The messages in what a sender sent.
fn messages(sender: &Sender, dialect: &Dialect, framing: Framing) -> Vec<Vec<u8>> {
    let connection = match sender {
        Sender::Datagrams(datagrams) => return datagrams.sent.clone(),
        Sender::Connection(connection) => connection,
    };
    let settings = SessionSettings { framing, wrapped_len: None };
    let mut session = dialect.begin(&settings).expect("spoken over connections");
    let mut all = Vec::new();
    let fed = session.feed(&connection.sent, &mut |message| all.push(message.bytes.to_vec()));
    if fed.is_ok() {
        let how = if connection.has_sent_all { Finish::EndOfStream } else { Finish::Abandoned };
        session.finish(how, &mut |message| all.push(message.bytes.to_vec()));
    }
    check_answers(&connection.replies, all.len());
    all
}

/// No more messages are acknowledged than came.
fn check_answers(replies: &[u8], messages: usize) {
    const ACKNOWLEDGED: &[u8] = b" rsp 6 200 OK\n";
    let answers = replies.windows(ACKNOWLEDGED.len());
    let acknowledged = answers.filter(|bytes| *bytes == ACKNOWLEDGED).count();
    assert!(acknowledged <= messages, "{acknowledged} of {messages} are acknowledged");
}

fn key() -> &'static SecretKey {
    static KEY: OnceLock<SecretKey> = OnceLock::new();
    KEY.get_or_init(|| SecretKey::generate().expect("a key"))
}

/// A folder in memory where there is one: no input is to wait for a disk.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder")
}

fn new_log(folder: &Path) -> LogFolder {
    let (log, state) = (folder.join("log"), folder.join("log.state"));
    let opener = direct_opener();
    let mut files = Files::create_folder(&opener, &log).expect("a folder for the log");
    let signer = Files::create_folder(&opener, &state).expect("a folder for its state");
    Init::new("fuzz/log", clock::epoch_ns()).create(&mut files, signer).expect("a new log");
    let recipients = vec![key().recipient().clone()];
    LogFolder { log, state, recipients, policy: Policy::default(), files: opener }
}

fn sockets(folder: &Path) -> Vec<ListenSocket> {
    let endpoints = DIALECTS.map(|name| Endpoint {
        dialect: Dialect::named(name).expect("a row of the table"),
        place: match name {
            "unix" => Place::Path(folder.join("socket")),
            _ => Place::Address((Ipv4Addr::LOCALHOST, 0).into()),
        },
    });
    let sockets = bind(&endpoints).expect("sockets of this machine");
    assert!(sockets.iter().map(|s| s.dialect.name()).eq(DIALECTS), "sockets keep their order");
    sockets
}

/// Runs a log server over the pieces of an input. Its first byte says whether the server works while they are sent, so that it
/// reads them one by one, or finds all of them when it is asked to stop, and how lines are cut.
pub fn server(data: &[u8]) {
    let Some((&how, script)) = data.split_first() else { return };
    let is_working = how & 1 == 1;
    let framing = Framing {
        message_bytes_max: if how & 2 == 0 { Framing::default().message_bytes_max } else { 64 },
        nul_ends_line: how & 4 == 4,
    };
    let folder = folder();
    let log = new_log(folder.path());
    let log_folder = log.log.clone();
    let sockets = sockets(folder.path());
    let mut senders: Vec<Sender> = sockets.iter().chain(&sockets).map(Sender::open).collect();
    let dialects: Vec<&Dialect> = sockets.iter().map(|socket| socket.dialect).collect();
    let report: Report = Arc::new(|_| {});
    let stop = StopFlag::new();
    let sink = SealedLog::open(log, None, OnFull::Block, stop.clone(), &report).expect("a new log");
    // The end is not cut short on a slow machine.
    let settings = ServerSettings { framing, drain: PATIENCE * 4, ..ServerSettings::default() };
    let server = Server::new(settings, sockets, None, sink, report).expect("a server");
    let send = |senders: &mut Vec<Sender>| {
        for (sender, piece) in Pieces(script).take(PIECES_MAX) {
            senders[sender].send(piece);
        }
    };
    let ended = if is_working {
        let flag = stop.clone();
        let working = thread::spawn(move || server.run(&flag));
        send(&mut senders);
        senders.iter_mut().filter(|s| s.has_sent_all()).for_each(Sender::read_replies);
        stop.set();
        working.join().expect("the server's thread")
    } else {
        send(&mut senders);
        stop.set();
        server.run(&stop)
    };
    ended.expect("the server ends well, and its account balances");
    senders.iter_mut().for_each(Sender::read_replies);
    let kept = read_log(&log_folder);
    let stages = check_account(&kept);
    for (listener, dialect) in dialects.into_iter().enumerate() {
        let stage = &stages[&format!("listen.{}.{listener}", dialect.name())];
        let senders = senders.iter().skip(listener).step_by(DIALECTS.len());
        let sent = senders.flat_map(|sender| messages(sender, dialect, framing)).collect();
        check_messages(sent, &kept.messages[listener], stage);
    }
}

/// The log verifies; what it holds.
fn read_log(folder: &Path) -> Kept {
    let log = Files::open(&direct_opener(), folder).expect("the log is there");
    let tail = checkpoints::tail(&log).expect("checkpoints can be read");
    let last = tail.and_then(|tail| tail.last).expect("a log has a checkpoint");
    let anchors = Anchor::parse_file("anchor", last.note.to_string().as_bytes());
    let keys = std::slice::from_ref(key());
    let anchors = anchors.expect("its own checkpoint");
    let options = Options { keys, anchors, is_deep: true, jobs: 1, ..Options::default() };
    let verified = verify(&log, &options, &mut |_, _| {}).expect("the log can be read");
    assert_eq!(verified.verdict(), Verdict::Ok, "{:?}", verified.places);
    let mut kept = Kept::default();
    let mut reader = Reader::open(&log, keys).expect("its reader");
    reader.scan(Cursor::default(), &Selection::default(), &mut kept).expect("the log can be read");
    kept
}

/// What a stage received, passed, and shed by reason.
type Stage = BTreeMap<String, u64>;

/// Every stage balances, and what the last one passed stands in the log.
fn check_account(kept: &Kept) -> BTreeMap<String, Stage> {
    let account =
        kept.account.as_ref().and_then(Value::as_array).expect("a log ends with the account");
    let mut stages = BTreeMap::new();
    for stage in account {
        let members = stage.as_object().expect("a stage is an object");
        let name = stage["stage"].as_str().expect("a stage has a name").to_owned();
        let numbers =
            members.iter().filter_map(|(key, value)| Some((key.clone(), value.as_u64()?)));
        let stage: Stage = numbers.collect();
        let out: u64 = stage.iter().filter(|(key, _)| *key != "received").map(|(_, n)| n).sum();
        assert_eq!(stage["received"], out, "{name} balances with nothing in flight: {stage:?}");
        stages.insert(name, stage);
    }
    let in_log: u64 = kept.messages.iter().flat_map(BTreeMap::values).sum();
    assert_eq!(stages["seal"]["passed"], in_log, "{stages:?}");
    stages
}

/// The log holds each message that the listener accepted, and no other.
fn check_messages(sent: Vec<Vec<u8>>, kept: &Times, stage: &Stage) {
    let count = |reason: &str| stage.get(reason).copied().unwrap_or(0);
    assert_eq!(count("passed"), kept.values().sum::<u64>(), "what was passed is in the log");
    let shed = count("empty_message") + count("kernel_drop");
    assert_eq!(sent.len() as u64, count("passed") + shed, "what was sent came: {stage:?}");
    let mut left = kept.clone();
    let mut missing = 0;
    for message in sent {
        match left.get_mut(&message).filter(|times| **times > 0) {
            Some(times) => *times -= 1,
            None => missing += 1,
        }
    }
    assert_eq!(missing, shed, "each message is in the log but those that were shed");
    assert!(left.values().all(|times| *times == 0), "the log holds what nobody sent: {left:?}");
}

/// Senders of each kind, whole and in pieces.
pub fn server_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    const OPEN: &[u8] = b"1 open 53 relp_version=0\nrelp_software=librelp\ncommands=syslog,x\n";
    let script = |how: u8, pieces: &[(u8, &[u8])]| {
        let mut all = vec![how];
        for (sender, piece) in pieces {
            for piece in piece.chunks(255) {
                all.extend([*sender, piece.len() as u8]);
                all.extend_from_slice(piece);
            }
            if piece.is_empty() {
                all.extend([*sender, 0]);
            }
        }
        all
    };
    let mut all = Vec::new();
    for how in [0, 1, 2, 7] {
        all.push(script(
            how,
            &[(2, b"<13>one\n<13>t"), (6, b"9 <13>three"), (2, b"wo\n"), (2, b"")],
        ));
        all.push(script(how, &[(0, b"<13>a"), (4, b"\n"), (0, b""), (1, b"<13>b"), (5, b"\0")]));
        let relp = [&b"2 syslog 3 one\n3 syslog 4 two\n\n"[..], b"4 close 0\n"].concat();
        all.push(script(
            how,
            &[(3, OPEN), (3, &relp), (3, b""), (7, OPEN), (7, b"5 syslog 3 gap\n")],
        ));
        let long = [b"<13>".as_slice(), &[b'x'; 300], b"\n<13>\xff\0c\n"].concat();
        all.push(script(how, &[(2, &long), (0, &long), (3, OPEN), (3, b"2 syslog 9 cut")]));
    }
    let messages = crate::logs::syslog_seeds(seeds);
    for messages in messages.chunks(4).take(20) {
        let pieces: Vec<(u8, &[u8])> = (0..).zip(messages.iter().map(Vec::as_slice)).collect();
        all.push(script(0, &pieces));
    }
    all
}

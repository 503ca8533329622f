//! The whole server with a sink that is slow, stuck or broken: which sender loses messages, and which is answered.
//!
//! On one machine, sources are distinguished by the loopback's other addresses (127.0.0.2, 127.0.0.3).

use super::*;
use crate::error::ErrorKind;
use crate::sockets::{Endpoint, Place, bind};
use gabion_logs::dialect::Dialect;
use gabion_seal::{Kind, Record, Source};
use std::collections::BTreeMap;
use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// What was kept.
#[derive(Debug, Default)]
struct Kept {
    /// Messages by peer.
    messages: BTreeMap<String, u64>,
    statements: Vec<String>,
}

/// A sink that keeps counts. While it is stuck, nothing is taken.
#[derive(Clone, Default)]
struct Slow {
    kept: Arc<Mutex<Kept>>,
    is_stuck: Arc<AtomicBool>,
    /// Messages after which it is broken.
    breaks_after: Option<u64>,
}

impl Sink for Slow {
    fn append(&mut self, source: &Source, record: &Record<'_>) -> Result<()> {
        while self.is_stuck.load(Relaxed) {
            thread::sleep(Duration::from_millis(2));
        }
        let mut kept = self.kept.lock().unwrap();
        if record.kind == Kind::System {
            kept.statements.push(String::from_utf8_lossy(record.bytes).into_owned());
            return Ok(());
        }
        let all: u64 = kept.messages.values().sum();
        if self.breaks_after.is_some_and(|n| all >= n) {
            return Err(Error::Sink("the disk is gone".to_owned()));
        }
        let entry = source.entry();
        let peer = String::from_utf8_lossy(&entry[4..4 + usize::from(entry[3])]).into_owned();
        *kept.messages.entry(peer).or_default() += 1;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        Ok(())
    }

    fn tick(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

struct Running {
    stop: StopFlag,
    thread: JoinHandle<Result<()>>,
    port: u16,
}

/// Listens with that sink over UDP and TCP on a port of its own.
fn listen(sink: Slow) -> Running {
    listen_over("tcp", sink, ServerSettings::default())
}

/// The same with that kind of connections.
fn listen_over(kind: &str, sink: Slow, settings: ServerSettings) -> Running {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    // Every address of the loopback reaches it.
    let place = Place::Address(([0, 0, 0, 0], port).into());
    let endpoints = ["udp", kind]
        .map(|name| Endpoint { dialect: Dialect::named(name).unwrap(), place: place.clone() });
    let sockets = bind(&endpoints).unwrap();
    let stop = StopFlag::default();
    let flag = stop.clone();
    let thread = thread::spawn(move || {
        Server::new(settings, sockets, None, sink, Arc::new(|_| {}))?.run(&flag)
    });
    Running { stop, thread, port }
}

fn field(statement: &str, name: &str) -> String {
    let rest = statement.split(&format!("\"{name}\":")).nth(1).unwrap_or_default();
    rest.split([',', '}']).next().unwrap_or_default().trim_matches('"').to_owned()
}

#[test]
fn a_flood_loses_its_own_messages_and_the_log_says_whose() {
    let sink = Slow::default();
    sink.is_stuck.store(true, Relaxed);
    let kept = Arc::clone(&sink.kept);
    let stuck = Arc::clone(&sink.is_stuck);
    let running = listen(sink);
    let quiet = UdpSocket::bind("127.0.0.3:0").unwrap();
    let flood = UdpSocket::bind("127.0.0.2:0").unwrap();
    let to = ("127.0.0.1", running.port);
    // More than the queue and the waiting room of datagrams hold together, in large messages; the
    // kernel's own buffer must not be what loses.
    let message = vec![b'f'; 8000];
    let (mut floods, mut quiets) = (0u64, 0u64);
    for n in 0..4_000 {
        flood.send_to(&message, to).unwrap();
        floods += 1;
        if n % 50 == 0 {
            quiet.send_to(b"<13>quiet", to).unwrap();
            quiets += 1;
            thread::sleep(Duration::from_millis(4));
        }
    }
    thread::sleep(Duration::from_millis(300));
    stuck.store(false, Relaxed);
    running.stop.set();
    assert!(matches!(running.thread.join().unwrap(), Ok(())));
    let kept = kept.lock().unwrap();
    let losses: Vec<&String> = kept.statements.iter().filter(|s| s.contains("\"loss\"")).collect();
    let lost: u64 = losses.iter().map(|s| field(s, "messages").parse::<u64>().unwrap()).sum();
    let stored = |peer: &str| kept.messages.get(peer).copied().unwrap_or(0);
    assert_eq!(stored("127.0.0.3"), quiets, "the quiet one lost nothing: {losses:?}");
    assert_eq!(
        stored("127.0.0.2") + lost,
        floods,
        "sent is stored or reported as lost: {losses:?}"
    );
    assert!(lost > 0, "the flood was more than there is room for");
    for loss in &losses {
        let reason = field(loss, "reason");
        // The kernel does not say whose messages it dropped.
        let peer = if reason == "kernel_drop" { "" } else { "127.0.0.2" };
        assert_eq!(field(loss, "peer"), peer, "{loss}");
        assert!(field(loss, "second").parse::<u64>().unwrap() > 1_600_000_000, "{loss}");
    }
    assert!(losses.iter().any(|s| field(s, "reason") == "ring_full"), "{losses:?}");
}

#[test]
fn senders_that_can_wait_are_slowed_and_lose_nothing() {
    use std::io::Write;
    let sink = Slow::default();
    sink.is_stuck.store(true, Relaxed);
    let (kept, stuck) = (Arc::clone(&sink.kept), Arc::clone(&sink.is_stuck));
    let running = listen(sink);
    let port = running.port;
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let sender = thread::spawn(move || {
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let line = [vec![b'w'; 999], vec![b'\n']].concat().repeat(100);
        for _ in 0..400 {
            stream.write_all(&line).unwrap();
        }
        done.store(true, Relaxed);
    });
    thread::sleep(Duration::from_millis(600));
    assert!(!is_done.load(Relaxed), "40 MB were taken by a sink that takes nothing");
    stuck.store(false, Relaxed);
    sender.join().unwrap();
    thread::sleep(Duration::from_millis(200));
    running.stop.set();
    assert!(matches!(running.thread.join().unwrap(), Ok(())));
    assert_eq!(kept.lock().unwrap().messages.get("127.0.0.1"), Some(&40_000));
}

#[test]
fn a_broken_sink_ends_it_and_what_was_taken_is_counted_as_lost() {
    let sink = Slow { breaks_after: Some(10), ..Slow::default() };
    let running = listen(sink);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..50 {
        socket.send_to(b"<13>x", ("127.0.0.1", running.port)).unwrap();
    }
    // It ends by itself: nothing may be taken in that can't be kept.
    let fault = running.thread.join().unwrap().expect_err("the disk is gone");
    assert!(fault.to_string().contains("the disk is gone"), "{fault}");
}

/// A client of RELP that waits for an answer gets none when the log can't be written any more. It is not waited for:
/// here the end would take a day.
#[test]
fn a_broken_sink_ends_it_though_answers_are_owed() {
    use std::io::{Read, Write};
    let sink = Slow { breaks_after: Some(2), ..Slow::default() };
    let drain = Duration::from_secs(86_400);
    let settings = ServerSettings { drain, ..ServerSettings::default() };
    let running = listen_over("relp", sink, settings);
    let mut relp = std::net::TcpStream::connect(("127.0.0.1", running.port)).unwrap();
    relp.write_all(b"1 open 30 relp_version=0\ncommands=syslog\n").unwrap();
    for number in 2..10 {
        let _ = writeln!(relp, "{number} syslog 9 <13>first");
    }
    let fault = running.thread.join().unwrap().expect_err("the disk is gone");
    assert_eq!(fault.kind(), ErrorKind::Environment);
    let mut heard = Vec::new();
    let _ = relp.read_to_end(&mut heard);
    assert!(!String::from_utf8_lossy(&heard).contains("9 rsp"));
}

#[test]
fn gaps_in_a_senders_numbers_are_reported() {
    use std::io::Write;
    let sink = Slow::default();
    let kept = Arc::clone(&sink.kept);
    let running = listen(sink);
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", running.port)).unwrap();
    for number in [1, 2, 5, 6, 9, 1, 2] {
        let head = "<13>1 2003-10-11T22:14:15.003Z router1 app - -";
        writeln!(stream, "{head} [meta sequenceId=\"{number}\"] text").unwrap();
    }
    drop(stream);
    thread::sleep(Duration::from_millis(200));
    running.stop.set();
    assert!(matches!(running.thread.join().unwrap(), Ok(())));
    let kept = kept.lock().unwrap();
    let gaps = kept.statements.iter().filter(|s| field(s, "reason") == "sequence_gap");
    let missing: Vec<String> =
        gaps.map(|s| field(s, "peer") + " " + &field(s, "messages")).collect();
    // One record if all came within a second, else two; a number that goes back is a new start.
    assert!(missing == ["127.0.0.1 4"] || missing == ["127.0.0.1 2"; 2], "{missing:?}");
}

/// What a client of RELP sent before it broke a rule is kept, and stays in the account of both sides.
#[test]
fn what_came_before_a_broken_rule_is_kept_and_counted() {
    use std::io::{Read, Write};
    let sink = Slow::default();
    let kept = Arc::clone(&sink.kept);
    let running = listen_over("relp", sink, ServerSettings::default());
    let mut relp = std::net::TcpStream::connect(("127.0.0.1", running.port)).unwrap();
    relp.write_all(b"1 open 30 relp_version=0\ncommands=syslog\n2 syslog 3 abc\n9 syslog 3 gap\n")
        .unwrap();
    let _ = relp.read_to_end(&mut Vec::new());
    running.stop.set();
    let ended = running.thread.join().unwrap();
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(kept.lock().unwrap().messages.get("127.0.0.1"), Some(&1));
}

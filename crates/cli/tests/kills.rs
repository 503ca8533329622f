//! A listener under load is killed at moments that nobody chose, twenty times on the same log. After
//! each: no verdict is worse than a torn end, recovery repairs it, the log verifies to its last record with
//! a reader's key, and every message that had been acknowledged is there.
//!
//! Four kills by default; `GABION_KILLS=200` for as many as it takes to believe it (`make lab-log` does), and
//! `GABION_KILLS_SEED` for other moments.
#![allow(
    clippy::disallowed_methods,
    reason = "sockets live by the clock; this is the program's edge"
)]

#[path = "threats/host.rs"]
#[allow(dead_code, reason = "this file uses a part of it")]
mod host;

use gabion_seal::SecretKey;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::storage::Files;
use host::{GABION, Host, OPEN};
use serde_json::Value;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Connections, and unanswered messages on each.
const CONNECTIONS: u64 = 3;
const WINDOW: usize = 128;
/// Kills that one log goes through; then another is begun, so that looking at it stays quick.
const ON_ONE_LOG: u64 = 20;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// Sends numbered messages with a full window until the other side is gone; what was acknowledged.
fn load(mut stream: TcpStream, name: &str) -> Vec<String> {
    let (mut sent, mut acknowledged): (Vec<String>, usize) = (Vec::new(), 0);
    let mut heard: Vec<u8> = Vec::new();
    let mut piece = [0; 16 << 10];
    if stream.write_all(OPEN).is_err() {
        return Vec::new();
    }
    let mut is_open = false;
    loop {
        let mut frames = Vec::new();
        while is_open && sent.len() - acknowledged < WINDOW {
            let text = format!(
                "<13>Nov 14 22:13:20 host app: {name} {} {}",
                sent.len(),
                "x".repeat(sent.len() % 97)
            );
            let frame = format!("{} syslog {} {text}\n", sent.len() + 2, text.len());
            frames.extend_from_slice(frame.as_bytes());
            sent.push(text);
        }
        if stream.write_all(&frames).is_err() {
            break;
        }
        match stream.read(&mut piece) {
            Ok(n) if n > 0 => heard.extend_from_slice(&piece[..n]),
            _ => break,
        }
        // Answers come in order; a cut one is none.
        let end = heard.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let whole: Vec<u8> = heard.drain(..end).collect();
        if !is_open {
            is_open = memchr::memmem::find(&whole, b"1 rsp ").is_some();
        }
        acknowledged += memchr::memmem::find_iter(&whole, b" rsp 6 200 OK\n").count();
    }
    sent.truncate(acknowledged);
    sent
}

fn verified(folder: &Path, with: &[&str]) -> Value {
    let done = Command::new(GABION)
        .args(["log", "verify", "log", "--json"])
        .args(with)
        .current_dir(folder)
        .output()
        .expect("run");
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// All messages from a record on.
fn messages(folder: &Path, from: u64) -> HashSet<String> {
    struct Texts(HashSet<String>);
    impl Sink for Texts {
        fn record(&mut self, found: &Found<'_>) -> bool {
            self.0.insert(String::from_utf8_lossy(found.record.bytes).into_owned());
            true
        }
        fn unreadable(&mut self, what: &str) {
            panic!("{what}");
        }
    }
    let key = std::fs::read_to_string(folder.join("reader")).expect("the key");
    let keys = [SecretKey::parse_file(&key).expect("a key")];
    let log =
        Files::open(&gabion_runtime::files::direct_opener(), &folder.join("log")).expect("the log");
    let mut texts = Texts(HashSet::new());
    let mut reader = Reader::open(&log, &keys).expect("a log");
    let selection = Selection { records: Some((from, u64::MAX)), ..Selection::default() };
    reader.scan(Cursor::default(), &selection, &mut texts).expect("read");
    texts.0
}

#[test]
fn what_was_acknowledged_is_there_after_every_kill() {
    let mut scratch = tempfile::tempdir().expect("a folder");
    let kills = number("GABION_KILLS", 4);
    let mut moment = number("GABION_KILLS_SEED", 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let (mut records, mut total, mut all, mut torn) = (0, 0, 0, 0);
    for kill in 0..kills {
        if kill % ON_ONE_LOG == 0 && kill > 0 {
            scratch = tempfile::tempdir().expect("a folder");
            (total, records) = (total + records, 0);
        }
        let folder = scratch.path();
        let mut host = Host::at(folder, "log", &["--relp", "127.0.0.1:0", "--commit-after", "20"]);
        let loads: Vec<_> = (0..CONNECTIONS)
            .map(|n| {
                let stream = host.tcp("relp");
                std::thread::spawn(move || load(stream, &format!("kill {kill} connection {n}")))
            })
            .collect();
        moment ^= moment << 13;
        moment ^= moment >> 7;
        moment ^= moment << 17;
        // From the first bytes to the middle of many commits.
        std::thread::sleep(Duration::from_micros(moment % 400_000));
        host.kill();
        let acknowledged: Vec<String> =
            loads.into_iter().flat_map(|l| l.join().expect("a client")).collect();
        let before = verified(folder, &[]);
        let exit = before["exit"].as_u64();
        assert!(matches!(exit, Some(10 | 12)), "kill {kill}: {before}");
        torn += u64::from(exit == Some(12));
        let recovered = Command::new(GABION)
            .args(["log", "recover", "log", "--state", "state"])
            .current_dir(folder)
            .output()
            .expect("run");
        assert!(
            recovered.status.success(),
            "kill {kill}: {}",
            String::from_utf8_lossy(&recovered.stderr)
        );
        let after = verified(folder, &["--key", "reader", "--deep"]);
        assert_eq!(after["exit"], 10, "kill {kill}: {after}");
        let there = messages(folder, records);
        let missing: Vec<&String> = acknowledged.iter().filter(|m| !there.contains(*m)).collect();
        assert!(missing.is_empty(), "kill {kill}: acknowledged and gone: {missing:?}");
        let now = after["records"].as_u64().expect("a number");
        assert!(now >= records, "kill {kill}: {now} of {records}");
        records = now;
        all += acknowledged.len();
    }
    assert!(all > 0, "nothing was acknowledged: no load");
    eprintln!(
        "{kills} kills, {torn} torn ends, {all} messages acknowledged and all there, {} records",
        total + records
    );
}

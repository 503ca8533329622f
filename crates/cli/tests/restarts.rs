//! `gabion read --follow` that is killed and stopped while its log grows, and started again each time, with
//! any number of workers: in the end it has written and sealed what one run does that nobody disturbed, once
//! each.
//!
//! Five kills (SIGKILL) and five stops (SIGTERM) by default; `GABION_KILLS=50` for as many of each, and
//! `GABION_KILLS_SEED` for other moments. Nothing here measures time: a run is disturbed after a number of bytes of
//! findings, whenever these come.

mod program;

use program::command;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// The address of the last record: once it is reported, all records before it were read.
const LAST: &str = "10.9.9.9";

/// Four hours: hosts that scan, one that calls every five minutes, uploads, and a new source each time.
fn log() -> Vec<String> {
    let mut lines = Vec::new();
    for n in 0..14_400u32 {
        let (src, dst, port, state, bytes) = match n % 12 {
            0 => ("10.0.0.1".to_owned(), format!("1.2.{}.{}", n >> 8 & 255, n & 255), 23, "S0", 0),
            1 => ("10.0.0.2".to_owned(), "9.9.9.9".to_owned(), 1000 + n / 12, "REJ", 0),
            2 if n % 300 == 2 => ("10.0.0.3".to_owned(), "5.6.7.8".to_owned(), 443, "SF", 600),
            3 if n % 120 == 3 => {
                ("10.0.0.4".to_owned(), "5.6.7.9".to_owned(), 443, "SF", 60_000_000)
            }
            4 => {
                (format!("8.{}.{}.1", n >> 8 & 255, n & 255), "10.0.0.9".to_owned(), 4444, "S0", 0)
            }
            5 if n % 24 == 5 => {
                ("10.0.0.6".to_owned(), format!("7.7.7.{}", n % 7), 5000 + n % 9, "SF", 90)
            }
            _ => continue,
        };
        lines.push(line(n, &src, &dst, port, state, bytes));
    }
    lines.push(line(14_401, LAST, "4.4.4.4", 4444, "SF", 50));
    lines
}

fn line(n: u32, src: &str, dst: &str, port: u32, state: &str, bytes: u32) -> String {
    let mut line = String::new();
    let _ = writeln!(
        line,
        "{{\"ts\":{}.25,\"uid\":\"C{n}\",\"id.orig_h\":\"{src}\",\"id.orig_p\":40000,\"id.resp_h\":\"{dst}\",\
         \"id.resp_p\":{port},\"proto\":\"tcp\",\"duration\":0.5,\"orig_bytes\":{bytes},\"resp_bytes\":{bytes},\
         \"conn_state\":\"{state}\"}}",
        1_700_000_000 + n
    );
    line
}

fn start(folder: &Path, workers: u64) -> Child {
    let out = folder.join("out");
    let (log, out) = (folder.join("conn.log"), out.to_str().unwrap().to_owned());
    let workers = workers.to_string();
    let sealed = folder.join("sealed").to_str().unwrap().to_owned();
    let args = ["read", "--behavior", log.to_str().unwrap(), "--follow", "-q", "-l", &out];
    let seal: &[&str] = if Path::new(&sealed).exists() { &["--seal", &sealed] } else { &[] };
    command(&[&args[..], &["--workers", &workers], seal].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn grow(folder: &Path, text: &str) {
    let path = folder.join("conn.log");
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// Waits until a file holds what is asked for, as long as the program lives.
fn until(child: &mut Child, path: &Path, is_enough: impl Fn(&str) -> bool) {
    while !fs::read_to_string(path).is_ok_and(|text| is_enough(&text)) {
        if let Some(status) = child.try_wait().unwrap() {
            let mut said = String::new();
            if let Some(stderr) = &mut child.stderr {
                let _ = std::io::Read::read_to_string(stderr, &mut said);
            }
            panic!("ended by itself: {status}: {said}");
        }
        std::thread::yield_now();
    }
}

fn stop(child: Child) {
    let status = terminate(child);
    assert!(status.success(), "{status}");
}

fn terminate(mut child: Child) -> ExitStatus {
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    child.wait().unwrap()
}

/// What was written, without what hangs on the clock and on what was read by when.
fn written(folder: &Path) -> (Vec<Value>, String) {
    let out = folder.join("out");
    let text = fs::read_to_string(out.join("alerts.json")).unwrap();
    let events = text.lines().map(|line| {
        let mut event: Value = serde_json::from_str(line).unwrap();
        let fields = event.as_object_mut().unwrap();
        fields.remove("CreateTime");
        if let Some(own) = fields.get_mut("_gabion").and_then(Value::as_object_mut) {
            own.remove("input");
        }
        event
    });
    (events.collect(), fs::read_to_string(out.join("alerts.log")).unwrap())
}

/// Makes a log that the runs of a folder seal their findings into.
fn make_log(folder: &Path) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (key, recipient) = (path("key"), path("key/recipient.pub"));
    for args in [
        &["log", "keygen", "--out", &key][..],
        &["log", "init", &path("sealed"), "--origin", "host/log", "--recipient", &recipient],
    ] {
        let done = command(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    }
}

/// IDs of what was sealed and of what was written, sorted.
fn ids(folder: &Path) -> [Vec<String>; 2] {
    let (log, key) = (folder.join("sealed"), folder.join("key/recipient.key"));
    let args = ["log", "show", log.to_str().unwrap(), "--key", key.to_str().unwrap()];
    let shown = command(&[&args[..], &["--kind", "finding"]].concat()).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let written = fs::read_to_string(alerts(folder)).unwrap();
    [String::from_utf8(shown.stdout).unwrap(), written].map(|text| {
        let id = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            // A record of the log has the finding inside it.
            event.get("data").unwrap_or(&event)["ID"].as_str().unwrap().to_owned()
        };
        let mut ids: Vec<String> = text.lines().map(id).collect();
        ids.sort_unstable();
        ids
    })
}

fn counts(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("out/run.json")).unwrap();
    let run: Value = serde_json::from_str(&text).unwrap();
    run.get("counts").unwrap().clone()
}

/// Limits that were reached, with how often.
fn limits(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("out/run.json")).unwrap();
    let run: Value = serde_json::from_str(&text).unwrap();
    run.get("limits").unwrap().clone()
}

fn alerts(folder: &Path) -> PathBuf {
    folder.join("out/alerts.json")
}

#[test]
fn a_follower_that_is_killed_and_stopped_writes_what_one_that_is_not_does() {
    let lines = log();
    let whole = tempfile::tempdir().unwrap();
    grow(whole.path(), &lines[..10].concat());
    let mut child = start(whole.path(), 1);
    lines[10..].chunks(50).for_each(|some| grow(whole.path(), &some.concat()));
    until(&mut child, &alerts(whole.path()), |text| text.contains(LAST));
    stop(child);
    let expected = written(whole.path());
    assert!(expected.0.len() > 200, "{}", expected.0.len());

    let folder = tempfile::tempdir().unwrap();
    make_log(folder.path());
    let kills = number("GABION_KILLS", 5);
    let mut state = number("GABION_KILLS_SEED", 1);
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below.max(1)
    };
    let (mut at, rounds) = (0, 2 * kills as usize);
    for round in 0..=rounds {
        let mut child = start(folder.path(), 1 + (round as u64 * 2) % 5 % 4);
        // Grows while it runs, and before it is looked at what was written of it.
        let upto =
            if round == rounds { lines.len() } else { at + next(2 * lines.len() / (rounds + 1)) };
        // The last line is left for the run that is not disturbed.
        let upto = upto.min(lines.len() - usize::from(round < rounds));
        lines[at..upto].chunks(1 + next(40)).for_each(|some| grow(folder.path(), &some.concat()));
        // Half a line waits for the other half, also after a kill.
        at = upto;
        if round == rounds {
            until(&mut child, &alerts(folder.path()), |text| text.contains(LAST));
            stop(child);
            break;
        }
        let before = fs::metadata(alerts(folder.path())).map_or(0, |m| m.len() as usize);
        let more = next(3) * 2_000;
        if more > 0 && upto + 1 < lines.len() {
            grow(folder.path(), &lines[at][..20]);
            let rest = &lines[at][20..];
            if next(2) == 0 {
                until(&mut child, &alerts(folder.path()), |_| true);
            }
            grow(folder.path(), rest);
            at += 1;
        }
        // Wait for `more` further bytes of findings, if there are any.
        for _ in 0..more {
            let len = fs::metadata(alerts(folder.path())).map_or(0, |m| m.len() as usize);
            if len > before + more {
                break;
            }
            std::thread::yield_now();
        }
        match round % 2 {
            0 => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            _ => {
                // One that has hardly begun may not have heard of signals yet, and ends by it.
                let status = terminate(child);
                assert!(status.success() || status.code().is_none_or(|c| c >= 128), "{status}");
            }
        }
    }
    let found = written(folder.path());
    for (n, (a, b)) in found.0.iter().zip(&expected.0).enumerate() {
        assert_eq!(a, b, "line {n}");
    }
    assert_eq!(found.0.len(), expected.0.len());
    assert_eq!(found.1, expected.1);
    assert_eq!(counts(folder.path()), counts(whole.path()));
    // Limits that were reached before a kill or a stop are known after it.
    let reached = limits(whole.path());
    assert!(reached.to_string().contains("behavior.pairs_max"), "{reached}");
    assert_eq!(limits(folder.path()), reached);
    let [sealed, written] = ids(folder.path());
    assert_eq!(sealed, written);
}

/// `truncated.sh`: all lines are read, and the truncation of the log is reported.
#[test]
fn a_log_that_is_truncated_between_two_reads_loses_nothing_silently() {
    let folder = tempfile::tempdir().unwrap();
    let lines: Vec<String> =
        (1..=500).map(|n| line(n, "192.168.1.7", "10.9.0.1", 10_000 + n, "S0", 0)).collect();
    grow(folder.path(), &lines[..100].concat());
    let mut child = start(folder.path(), 1);
    until(&mut child, &alerts(folder.path()), |text| !text.is_empty());
    stop(child);
    fs::write(folder.path().join("conn.log"), lines[100..].concat()).unwrap();
    grow(folder.path(), &line(501, LAST, "4.4.4.4", 4444, "SF", 50));
    let mut child = start(folder.path(), 1);
    until(&mut child, &alerts(folder.path()), |text| text.contains(LAST));
    stop(child);
    assert_eq!(counts(folder.path())["records"], 501);
}

/// A damaged checkpoint is refused with its path and the remedy; an option starts a new one.
#[test]
fn a_damaged_checkpoint_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    grow(folder.path(), &log().concat());
    let mut child = start(folder.path(), 1);
    until(&mut child, &alerts(folder.path()), |text| text.contains(LAST));
    stop(child);
    let path = folder.path().join("out/follow.checkpoint");
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).unwrap();
    let mut child = start(folder.path(), 1);
    let status = child.wait().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(status.code(), Some(3), "{said}");
    assert!(said.contains("follow.checkpoint") && said.contains("--overwrite"), "{said}");
}

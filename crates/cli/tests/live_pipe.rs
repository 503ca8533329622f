//! A capture that comes through a pipe while it is made, as from `tcpdump -U -w -`: what the packets so far
//! show is in the files before anything more comes.

mod program;

use program::{demo, json_lines, repository};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};

/// Waits until a file holds what is asked for, as long as the program lives.
fn until(child: &mut Child, path: &Path, is_enough: impl Fn(&str) -> bool) {
    while !std::fs::read_to_string(path).is_ok_and(|text| is_enough(&text)) {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("ended by itself: {status}");
        }
        std::thread::yield_now();
    }
}

/// The demonstration's capture up to the end of this packet, and the rest.
fn cut(packets: usize) -> (Vec<u8>, Vec<u8>) {
    let all = std::fs::read(demo()).unwrap();
    let mut at = 24;
    for _ in 0..packets {
        let len: [u8; 4] = all[at + 8..at + 12].try_into().unwrap();
        at += 16 + u32::from_le_bytes(len) as usize;
    }
    (all[..at].to_vec(), all[at..].to_vec())
}

/// Lines of `fast.log` and `eve.json` of a run that ended.
fn whole(more: &[&str]) -> [usize; 2] {
    let dir = tempfile::tempdir().unwrap();
    let (out, rules) = (dir.path().join("out"), repository("demo/gabion.rules"));
    let (shown, rules) = (out.display().to_string(), rules.display().to_string());
    let ran = program::gabion(&[&["read", &demo(), "-S", &rules, "-l", &shown], more].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let fast = std::fs::read_to_string(out.join("fast.log")).unwrap();
    [fast.lines().count(), json_lines(&out.join("eve.json"))]
}

/// The number of packets is one that fills the reader's blocks too.
#[test]
fn an_alert_is_in_the_file_while_the_pipe_is_still_open() {
    for more in [&[][..], &["--workers", "2"], &["--behavior"], &["--behavior", "--workers", "3"]] {
        let expected = whole(more);
        for packets in [640, 700] {
            let dir = tempfile::tempdir().unwrap();
            let (out, rules) = (dir.path().join("out"), repository("demo/gabion.rules"));
            let (shown, rules) = (out.display().to_string(), rules.display().to_string());
            let (first, rest) = cut(packets);
            let mut command = program::command(
                &[&["read", "-q", "-", "-S", &rules, "-l", &shown], more].concat(),
            );
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            let mut child = command.spawn().unwrap();
            let mut pipe = child.stdin.take().unwrap();
            pipe.write_all(&first).unwrap();
            // Alerts of a capture that holds these packets alone, but those of flows that end with it.
            let alone = dir.path().join("alone.pcap");
            std::fs::write(&alone, &first).unwrap();
            let seen = alerts_of(&alone, &rules);
            assert!(seen.len() > 2, "{}", seen.len());
            until(&mut child, &out.join("fast.log"), |text| {
                seen.iter().all(|line| text.contains(line.as_str()))
            });
            pipe.write_all(&rest).unwrap();
            drop(pipe);
            assert!(child.wait().unwrap().success());
            let fast = std::fs::read_to_string(out.join("fast.log")).unwrap();
            assert_eq!(
                [fast.lines().count(), json_lines(&out.join("eve.json"))],
                expected,
                "{more:?}"
            );
        }
    }
}

/// Lines of `fast.log` for a capture, but those with the time of its last packets: they may be of the
/// flows' ends.
fn alerts_of(capture: &Path, rules: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let (out, capture) = (dir.path().display().to_string(), capture.display().to_string());
    let ran = program::gabion(&["read", "-q", &capture, "-S", rules, "-l", &out]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let events = std::fs::read_to_string(dir.path().join("eve.json")).unwrap();
    let fast = std::fs::read_to_string(dir.path().join("fast.log")).unwrap();
    let alerts = events.lines().filter(|l| l.contains("\"event_type\":\"alert\""));
    fast.lines()
        .zip(alerts)
        .filter(|(_, event)| !event.contains("stream (flow timeout)"))
        .map(|(line, _)| line.to_owned())
        .collect()
}

/// What hosts do is found in a capture from a pipe as in a file.
#[test]
fn behaviour_of_a_capture_from_a_pipe_is_that_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let outs = ["file", "pipe"].map(|name| dir.path().join(name));
    for out in &outs {
        let shown = out.display().to_string();
        let is_file = out.ends_with("file");
        let input = if is_file { demo() } else { "-".to_owned() };
        let mut command = program::command(&["read", "-q", "--behavior", &input, "-l", &shown]);
        command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        if !is_file {
            pipe.write_all(&std::fs::read(demo()).unwrap()).unwrap();
        }
        drop(pipe);
        assert!(child.wait().unwrap().success());
    }
    let [file, pipe] = outs.map(|out| std::fs::read_to_string(out.join("alerts.json")).unwrap());
    assert!(file.lines().count() > 3);
    let ids = |text: &str| {
        let lines = text.lines().map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap());
        lines.map(|l| (l["Description"].clone(), l["StartTime"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(ids(&file), ids(&pipe));
}

/// Packets that come one by one, so that nobody ever waits for long: what they show is seen all the same.
#[test]
fn an_alert_is_in_the_file_while_packets_keep_coming() {
    for workers in ["1", "2", "3"] {
        let dir = tempfile::tempdir().unwrap();
        let (out, rules) = (dir.path().join("out"), repository("demo/gabion.rules"));
        let (shown, rules) = (out.display().to_string(), rules.display().to_string());
        let args = ["read", "-q", "-", "-S", &rules, "-l", &shown, "--workers", workers];
        let mut command = program::command(&args);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let (first, _) = cut(700);
        let one_more = first[cut(699).0.len()..].to_vec();
        pipe.write_all(&first).unwrap();
        // Many times what a pipe holds: a program that has read it has read all of the first packets.
        let mut written = 0;
        while std::fs::metadata(out.join("fast.log")).map_or(0, |m| m.len()) == 0 {
            assert!(written < 4 << 20, "no alert after {written} bytes, {workers} workers");
            pipe.write_all(&one_more).unwrap();
            written += one_more.len();
        }
        drop(pipe);
        assert!(child.wait().unwrap().success());
    }
}

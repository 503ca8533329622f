//! The toy call from end to end: listed, in rules, written and read again, and recorded on this host with its values.

use gabion_scap::{Event, Values, Writer, table, types};
use std::path::Path;
use std::process::{Command, Output};

fn gabion(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_gabion")).args(args).output().unwrap()
}

fn out(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// A capture with one call that ran on CPU 1 of node 3.
fn capture(folder: &Path) -> String {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let kind = table::event_type(types::GETCPU_X).unwrap();
    let values = [&0_i64.to_le_bytes()[..], &1_u32.to_le_bytes(), &3_u32.to_le_bytes()].concat();
    let event = Event {
        number: 1,
        raw_number: 1,
        ts_ns: 9,
        tid: 7,
        cpu: 1,
        flags: 0,
        values: Values::new(kind, &[8, 0, 4, 0, 4, 0], &values),
        enter: None,
        live: gabion_scap::LiveValues::default(),
    };
    writer.event(&event).unwrap();
    let path = folder.join("getcpu.scap");
    std::fs::write(&path, writer.finish().unwrap()).unwrap();
    path.display().to_string()
}

#[test]
fn it_is_listed_tried_by_rules_and_converted() {
    let folder = tempfile::tempdir().unwrap();
    let list = out(&gabion(&["falco", "--list-events"]));
    assert!(list.contains("< getcpu(Errno res, Uint32 cpu, Uint32 node)"), "{list}");
    let old = capture(folder.path());
    let rules = folder.path().join("rules.yaml").display().to_string();
    let rule = "- rule: r\n  desc: d\n  condition: evt.type=getcpu and evt.arg.cpu=1\n  output: node %evt.arg.node\n  priority: INFO\n";
    std::fs::write(&rules, rule).unwrap();
    let report = out(&gabion(&["read", &old, "--rules", &rules, "--json"]));
    assert!(report.contains("\"alerts\":1"), "{report}");
    let new = folder.path().join("new.scap").display().to_string();
    assert!(gabion(&["convert", &old, &new]).status.success());
    let events = out(&gabion(&["events", &new, "-q", "-p", "%evt.type %evt.args"]));
    assert_eq!(events, "getcpu res=0 cpu=1 node=3\n");
}

#[test]
fn it_is_recorded_with_its_values() {
    let test = "it_is_recorded_with_its_values";
    if !gabion(&["probe", "check"]).status.success() {
        eprintln!("skipped: {test}: nothing live works here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calls.scap").display().to_string();
    let record = ["probe", "record", &file, "--calls", "getcpu", "--seconds", "4"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_gabion")).args(record).spawn().unwrap();
    let call = "my ($c, $n) = (pack('L', 99), pack('L', 99)); syscall(309, $c, $n, 0); print unpack('L', $c), \"\\n\"";
    let mut seen = Vec::new();
    while child.try_wait().unwrap().is_none() {
        let Ok(ran) = Command::new("perl").args(["-e", call]).output() else {
            eprintln!("skipped: {test}: no perl, which makes the call");
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        };
        seen.push(out(&ran).trim().to_owned());
    }
    let events = out(&gabion(&["events", &file, "evt.type=getcpu", "-q", "-p", "%evt.arg.cpu"]));
    let found: Vec<&str> = events.lines().collect();
    assert!(
        !found.is_empty() && found.iter().all(|cpu| seen.iter().any(|s| s == cpu)),
        "{found:?} of {seen:?}"
    );
}

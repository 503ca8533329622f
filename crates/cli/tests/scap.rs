//! Captures of system calls by the built program: read as what they are, printed, rewritten, refused.

mod program;

use gabion_scap::{Event, Item, Values, Writer, host, table, types};
use program::gabion;
use std::path::Path;

/// Old events of two threads: a read whose enter event comes first, an open whose enter event says another path, and a
/// read whose call never returned.
fn old_capture() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let machine = host::Machine { cpus: 2, hostname: b"example".to_vec(), ..Default::default() };
    writer.write(&Item::Machine(machine)).unwrap();
    let process = host::ProcessEntry {
        tid: 7,
        pid: 7,
        ptid: 1,
        comm: b"cat".to_vec(),
        exe: b"cat".to_vec(),
        ..Default::default()
    };
    writer.write(&Item::Process(Box::new(process))).unwrap();
    let fd = 3_i64.to_le_bytes();
    let number = 8_u32.to_le_bytes();
    let long = 9_u64.to_le_bytes();
    let zero = 0_i64.to_le_bytes();
    let events: [(u16, i64, &[&[u8]]); 5] = [
        (types::READ_E, 7, &[&fd, &number]),
        (types::READ_X, 7, &[&zero, b"data"]),
        (types::OPEN_E, 7, &[b"/etc/shadow\0", &number, &number]),
        (types::OPEN_X, 7, &[&fd, b"/tmp/x\0", &number, &number, &number, &long]),
        (types::READ_E, 8, &[&fd, &number]),
    ];
    for (n, (kind, tid, values)) in events.into_iter().enumerate() {
        let lengths: Vec<u8> =
            values.iter().flat_map(|v| u16::try_from(v.len()).unwrap().to_le_bytes()).collect();
        let bytes = values.concat();
        let values = Values::new(table::event_type(kind).unwrap(), &lengths, &bytes);
        let ts_ns = 1_700_000_000_000_000_000 + n as u64;
        let event = Event {
            number: 0,
            raw_number: 0,
            ts_ns,
            tid,
            cpu: 1,
            flags: 0,
            values,
            enter: None,
            live: Default::default(),
        };
        writer.event(&event).unwrap();
    }
    writer.finish().unwrap()
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    path.display().to_string()
}

#[test]
fn read_knows_a_capture_of_system_calls_and_accounts_for_every_event() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let ran = gabion(&["read", &old]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in ["system calls", "5 events", "passed 2, merged 2", "shed 1: no_exit 1", "1  open"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(!ran.out.contains("packets"), "{}", ran.out);
    let json = gabion(&["read", &old, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert!(report["merged"] == 2 && report["calls"]["open"] == 1, "{report}");
    // Packets and system calls have no common report.
    gabion(&["read", &old, &program::demo()]).refuses(3, &["old.scap", "read it alone"]);
}

#[test]
fn options_that_do_nothing_for_system_calls_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let rules = program::repository("demo/gabion.rules").display().to_string();
    let out = folder.path().join("out").display().to_string();
    gabion(&["read", &old, "--rules", &rules]).refuses(2, &["--rules", "gabion falco"]);
    gabion(&["read", &old, "-l", &out]).refuses(2, &["--log-dir", "gabion falco"]);
    gabion(&["read", &old, "--seal", &out]).refuses(2, &["--seal", "leave it out"]);
    assert!(!folder.path().join("out").exists());
}

#[test]
fn a_capture_of_packets_is_read_as_before() {
    let ran = gabion(&["read", &program::demo()]);
    assert!(ran.code == 0 && ran.out.contains("packets"), "{}", ran.out);
}

#[test]
fn events_prints_merged_events_and_raw_ones() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let ran = gabion(&["events", &old]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2, "{}", ran.out);
    assert!(
        lines[0].starts_with("1 2023-11-14T22:13:20.000000001+0000 1 cat (7) < read "),
        "{}",
        ran.out
    );
    // Numbers are Falco's, which counts the enter event of an open.
    assert!(lines[1].starts_with("3 ") && lines[1].contains("< open "), "{}", ran.out);
    assert!(ran.err.contains("merged 2 into their exit events"), "{}", ran.err);
    let raw = gabion(&["events", &old, "--raw", "-q"]);
    assert_eq!(raw.out.lines().count(), 5);
    assert!(
        raw.out.contains("3 2023-11-14T22:13:20.000000002Z 1 (7) > open name=/etc/shadow"),
        "{}",
        raw.out
    );
    assert_eq!(raw.err, "");
    let filtered = gabion(&[
        "events",
        &old,
        "evt.type=open",
        "and",
        "proc.name=cat",
        "-p",
        "%evt.num %fd.name",
        "-q",
    ]);
    assert_eq!((filtered.out.as_str(), filtered.code), ("3 /etc/shadow\n", 0), "{}", filtered.err);
    gabion(&["events", &old, "proc.nme=cat"]).refuses(2, &["proc.nme", "such as"]);
    gabion(&["events", &old, "-p", "%proc.nme"]).refuses(2, &["proc.nme", "such as"]);
    let json = gabion(&["events", &old, "--raw", "--json", "-q"]);
    let first: serde_json::Value = serde_json::from_str(json.out.lines().next().unwrap()).unwrap();
    assert!(first["evt.type"] == "read" && first["evt.arg"]["fd"] == 3, "{first}");
}

#[test]
fn convert_writes_exit_events_alone_and_a_second_time_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let at = |name: &str| folder.path().join(name).display().to_string();
    let ran = gabion(&["convert", &old, &at("new.scap")]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for part in
        ["merged 2", "no_exit 1", "wrote 2 events", "1 events have values of their enter event"]
    {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    let again = gabion(&["convert", &at("new.scap"), &at("again.scap"), "--json"]);
    let report: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert!(report["written"] == 2 && report["merged"] == 0, "{report}");
    assert_eq!(std::fs::read(at("new.scap")).unwrap(), std::fs::read(at("again.scap")).unwrap());
    let raw = gabion(&["events", &at("new.scap"), "--raw", "-q"]);
    assert!(raw.out.contains("name=/etc/shadow") && !raw.out.contains(" > "), "{}", raw.out);
    // A file that is there stays, unless it may be replaced.
    gabion(&["convert", &old, &at("new.scap")]).refuses(4, &["new.scap", "name another"]);
    assert_eq!(gabion(&["convert", &old, &at("new.scap"), "--overwrite"]).code, 0);
    gabion(&["convert", &old, &old, "--overwrite"]).refuses(4, &["old.scap", "name another file"]);
}

#[test]
fn what_is_no_capture_of_system_calls_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("new.scap");
    let to = to.display().to_string();
    let mut newer = old_capture();
    newer[12] = 2;
    let cases: [(&str, &[u8], &str); 3] = [
        ("text", b"no capture at all, but long enough to be read", "invalid magic number"),
        ("newer", &newer, "cannot correctly parse the capture. Upgrade your version."),
        ("empty", b"", "empty file"),
    ];
    for (name, bytes, words) in cases {
        let path = written(folder.path(), name, bytes);
        gabion(&["convert", &path, &to]).refuses(3, &[name, words]);
        gabion(&["events", &path]).refuses(3, &[name, words]);
    }
    assert!(!Path::new(&to).exists());
}

#[test]
fn a_torn_capture_is_read_to_its_end_with_a_note() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = old_capture();
    let torn = written(folder.path(), "torn.scap", &bytes[..bytes.len() - 5]);
    let ran = gabion(&["read", &torn]);
    assert_eq!(ran.code, 0);
    assert!(
        ran.err.contains("torn.scap: at byte") && ran.err.contains("ends inside of a block"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("torn_file 1"), "{}", ran.out);
}

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
    let falco = written(folder.path(), "falco.yaml", RULES.as_bytes());
    gabion(&["read", &old, "--rules", &rules]).refuses(2, &["--rules", "for packets", ".yaml"]);
    gabion(&["read", &old, "--rules", &rules, "--rules", &falco]).refuses(2, &["apart"]);
    gabion(&["read", &old, "--filter", "tcp"]).refuses(2, &["--filter", "leave it out"]);
    let pcap = program::demo();
    gabion(&["read", &pcap, "--rules", &falco]).refuses(3, &["demo.pcap", "falco.yaml"]);
    let wrong = written(folder.path(), "wrong.yaml", b"- rule: x\n");
    gabion(&["read", &old, "--rules", &wrong]).refuses(3, &["wrong.yaml", "gabion rules check"]);
}

/// Rules for [`old_capture`].
const RULES: &str = "- rule: Read of shadow\n  desc: d\n  condition: evt.type=open and fd.name=/etc/shadow\n  output: \
                     opened %fd.name by %proc.name (%proc.pname)\n  priority: WARNING\n  tags: [T1003]\n";

/// All files of a run with rules.
fn read_with_rules(folder: &Path, input: &[&str], more: &[&str]) -> (program::Ran, String) {
    let rules = written(folder, "falco.yaml", RULES.as_bytes());
    let out = folder.join("out").display().to_string();
    let mut args = vec!["read"];
    args.extend(input);
    args.extend(["--rules", &rules, "-l", &out]);
    args.extend(more);
    (gabion(&args), out)
}

#[test]
fn rules_of_falco_leave_alerts_summary_and_page() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let page = folder.path().join("page.html").display().to_string();
    let (ran, out) = read_with_rules(folder.path(), &[&old], &["--report", &page]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("1 alerts of 1 rules") && ran.out.contains("Read of shadow"));
    let file = |name: &str| std::fs::read_to_string(Path::new(&out).join(name)).unwrap();
    let alert: serde_json::Value = serde_json::from_str(file("falco.json").trim_end()).unwrap();
    assert_eq!(alert["rule"], "Read of shadow");
    assert_eq!(alert["output_fields"]["fd.name"], "/etc/shadow");
    // The host is that of the capture, and the process is the one of its list.
    assert_eq!((&alert["hostname"], &alert["event"]), (&"example".into(), &3.into()));
    assert_eq!(alert["processes"][0]["pid"], 7);
    let log = file("falco.log");
    assert!(
        log.starts_with("2023-11-14T22:13:20.000000003+0000: Warning opened /etc/shadow by cat"),
        "{log}"
    );
    let run: serde_json::Value = serde_json::from_str(&file("run.json")).unwrap();
    assert_eq!((&run["alerts"], &run["findings"][0]["count"]), (&1.into(), &1.into()));
    let stages: Vec<&str> =
        run["ledger"].as_array().unwrap().iter().filter_map(|s| s["stage"].as_str()).collect();
    assert_eq!(stages, ["lists", "events", "events>merger"]);
    let html = std::fs::read_to_string(&page).unwrap();
    for part in
        ["Read of shadow", ">Warning<", "opened /etc/shadow by cat", "class=\"tree\"", "T1003"]
    {
        assert!(html.contains(part), "{part}");
    }
    let doctor = gabion(&["doctor", &out]);
    assert!(doctor.out.contains("no_exit"), "{}", doctor.out);
    // What is there is not replaced unless it is asked for.
    let (again, _) = read_with_rules(folder.path(), &[&old], &[]);
    again.refuses(2, &["falco.json", "--overwrite"]);
    let (found, _) = read_with_rules(folder.path(), &[&old], &["--overwrite", "--fail-on", "2"]);
    assert_eq!(found.code, 1, "{}", found.err);
}

#[test]
fn costs_and_explanations_take_rules_of_falco() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let rules = written(folder.path(), "falco.yaml", RULES.as_bytes());
    let ran = gabion(&["rules", "cost", &old, "-S", &rules, "--json"]);
    let costs: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let cost = &costs["costs"]["rules"][0];
    assert_eq!((&cost["checks"], &cost["matches"]), (&1.into(), &1.into()), "{costs}");
    assert_eq!(costs["events"], 2);
    let ran = gabion(&["rules", "cost", &old, "-S", &rules]);
    assert!(ran.code == 0 && ran.out.contains("Read of shadow"), "{}", ran.err);
    let why = |rule, number| gabion(&["rules", "why", rule, &old, "--event", number, "-S", &rules]);
    let ran = why("Read of shadow", "3");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("fd.name = /etc/shadow    [/etc/shadow]"), "{}", ran.out);
    let falco = gabion(&["falco", "why", "Read of shadow", "3", &old, "-r", &rules]);
    assert_eq!(ran.out, falco.out);
    assert_eq!(why("No such rule", "3").code, 1);
    why("Read of shadow", "99").refuses(3, &["no event has the number 99"]);
    gabion(&["rules", "why", "Read of shadow", "-S", &rules]).refuses(2, &["--event"]);
}

#[test]
fn a_full_disk_leaves_no_empty_capture() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let to = folder.path().join("new.scap");
    // A file that may have no byte is a full disk.
    let script = format!(
        "ulimit -f 0; exec {} convert {old} {}",
        env!("CARGO_BIN_EXE_gabion"),
        to.display()
    );
    let ran =
        program::ran(std::process::Command::new("sh").args(["-c", &script]).output().unwrap());
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(!to.exists());
}

#[test]
fn the_demonstration_has_its_alerts() {
    let capture = program::repository("demo/demo.scap").display().to_string();
    let rules = program::repository("demo/syscalls.yaml").display().to_string();
    let ran = gabion(&["read", &capture, "--rules", &rules, "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let found = report["findings"].as_array().unwrap().iter();
    let mut found: Vec<(&str, u64)> =
        found.map(|f| (f["rule"].as_str().unwrap(), f["count"].as_u64().unwrap())).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ("Password file read", 2),
            ("Program started from a folder that everybody may write", 3),
            ("Setuid bit set", 1),
            ("Shell connects to a network", 1),
            ("Shell started by a web server", 1),
        ],
        "{}",
        ran.err
    );
    assert!(std::fs::metadata(&capture).unwrap().len() <= 100 << 10);
}

#[test]
fn rules_of_falco_read_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let rules = written(folder.path(), "falco.yaml", RULES.as_bytes());
    let mut command = program::command(&["read", "-", "--rules", &rules, "--json"]);
    command.stdin(std::fs::File::open(&old).unwrap());
    let ran = program::ran(command.output().unwrap());
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert!(ran.code == 0 && report["alerts"] == 1, "{} {}", ran.out, ran.err);
}

/// Without rules nothing says what comes through a pipe: it is looked into, also where it is compressed.
#[test]
fn standard_input_is_described_as_a_file_is() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut packed, &old_capture()).unwrap();
    let gzip = written(folder.path(), "old.scap.gz", &packed.finish().unwrap());
    let of_file = gabion(&["read", &old]);
    for path in [&old, &gzip] {
        let mut command = program::command(&["read", "-"]);
        command.stdin(std::fs::File::open(path).unwrap());
        let ran = program::ran(command.output().unwrap());
        assert_eq!(
            (ran.code, ran.out.replace('-', "")),
            (0, of_file.out.replace(&old, "").replace('-', "")),
            "{}",
            ran.err
        );
    }
    // Packets are what they were.
    let mut command = program::command(&["read", "-", "--json"]);
    command.stdin(std::fs::File::open(program::demo()).unwrap());
    let ran = program::ran(command.output().unwrap());
    assert!(ran.code == 0 && ran.out.contains("\"frames\""), "{}", ran.err);
}

#[test]
fn an_alert_is_sealed_and_proved_by_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let old = written(folder.path(), "old.scap", &old_capture());
    let done = |args: &[&str]| {
        let ran = gabion(args);
        assert_eq!(ran.code, 0, "{args:?}: {}", ran.err);
        ran.out
    };
    done(&["log", "keygen", "--out", &at("reader")]);
    let (key, public) = (at("reader/recipient.key"), at("reader/recipient.pub"));
    let origin = "host.example/log";
    done(&["log", "init", &at("log"), "--origin", origin, "--recipient", &public]);
    let (ran, _) = read_with_rules(folder.path(), &[&old], &["--seal", &at("log"), "-q"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let list = done(&["log", "show", &at("log"), "--key", &key, "--kind", "finding"]);
    assert!(list.contains("syscall") && list.contains("Read of shadow"), "{list}");
    let record: serde_json::Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let id = record["id"].as_str().unwrap_or_default();
    let proof = at("proof");
    done(&["log", "prove", &at("log"), "--key", &key, "--finding", id, "-o", &proof]);
    let stat: serde_json::Value =
        serde_json::from_str(&done(&["log", "stat", &at("log"), "--json"])).unwrap();
    let vkey = stat["vkey"].as_str().unwrap();
    done(&["log", "check-proof", &proof, "--vkey", vkey]);
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

#[test]
fn rules_that_are_no_text_and_inputs_of_two_kinds_are_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let binary = written(folder.path(), "binary.yaml", &[0, 159, 146, 150, 255, 0]);
    gabion(&["read", &old, "--rules", &binary]).refuses(3, &["binary.yaml"]);
    let words = ["old.scap", "is a capture of system calls: read it alone"];
    gabion(&["read", &old, &program::demo()]).refuses(3, &words);
    gabion(&["read", &program::demo(), &old]).refuses(3, &words);
}

/// A pcapng file begins as a scap file does; the second block is another one.
#[test]
fn a_capture_of_packets_is_no_capture_of_calls() {
    let folder = tempfile::tempdir().unwrap();
    let word = |n: u32| n.to_le_bytes();
    let section = [
        word(0x0a0d_0d0a),
        word(28),
        word(0x1a2b_3c4d),
        word(1),
        word(u32::MAX),
        word(u32::MAX),
        word(28),
    ];
    let interface = [word(1), word(20), word(1), word(65_535), word(20)];
    let bytes = [section.concat(), interface.concat()].concat();
    let packets = written(folder.path(), "packets.pcapng", &bytes);
    assert_eq!(gabion(&["read", &packets]).code, 0);
    let to = folder.path().join("new.scap").display().to_string();
    let words = ["packets.pcapng", "a capture of packets (pcapng)"];
    gabion(&["events", &packets]).refuses(3, &words);
    gabion(&["convert", &packets, &to]).refuses(3, &words);
    assert!(!Path::new(&to).exists());
}

/// Alerts that find no space are reported in a line, and what was written stays whole.
#[test]
fn a_full_disk_under_alerts_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let old = written(folder.path(), "old.scap", &old_capture());
    let rules = written(folder.path(), "falco.yaml", RULES.as_bytes());
    let out = folder.path().join("out").display().to_string();
    // A file that may have no byte is a full disk.
    let binary = env!("CARGO_BIN_EXE_gabion");
    let script = format!("ulimit -f 0; exec {binary} read {old} --rules {rules} -l {out}");
    let ran =
        program::ran(std::process::Command::new("sh").args(["-c", &script]).output().unwrap());
    assert_eq!(ran.code, 4, "{}", ran.err);
    for name in ["falco.json", "falco.log"] {
        assert_eq!(ran.err.lines().filter(|l| l.contains(name)).count(), 1, "{}", ran.err);
        assert_eq!(std::fs::read(Path::new(&out).join(name)).unwrap(), b"");
    }
}

/// Events of a type that the table does not have are passed over and counted by their number.
#[test]
fn unknown_types_are_counted_by_number() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = old_capture();
    let (place, length) = (bytes.len() - 4, bytes.last_chunk::<4>().copied().unwrap());
    // The last block: its head, then CPU, time, thread, length and type of the event.
    let kind = place + 4 - u32::from_le_bytes(length) as usize + 8 + 2 + 8 + 8 + 4;
    bytes.splice(kind..kind + 2, 32_767_u16.to_le_bytes());
    let newer = written(folder.path(), "newer.scap", &bytes);
    let json = gabion(&["read", &newer, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert!(json.code == 0 && report["unknown_types"]["32767"] == 1, "{report}");
    let to = folder.path().join("new.scap").display().to_string();
    let ran = gabion(&["convert", &newer, &to]);
    assert!(ran.code == 0 && ran.out.contains("unknown_event 1"), "{} {}", ran.out, ran.err);
    assert!(ran.err.contains("does not have: 32767 (1)"), "{}", ran.err);
}

#[test]
fn rule_files_of_falco_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let good = written(folder.path(), "good.yaml", RULES.as_bytes());
    let ran = gabion(&["rules", "check", &good]);
    assert!(ran.code == 0 && ran.out.contains("good.yaml: Ok"), "{} {}", ran.out, ran.err);
    let wrong = RULES.replace("fd.name=", "fd.nme=");
    let bad = written(folder.path(), "bad.yaml", wrong.as_bytes());
    let ran = gabion(&["rules", "check", &bad]);
    assert_eq!(ran.code, 1, "{}", ran.err);
    for part in ["bad.yaml", "LOAD_ERR_COMPILE_CONDITION", "fd.nme", "^"] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
}

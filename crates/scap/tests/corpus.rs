//! The captures of the shared corpus give the events and lists that Falco's own reader gives for them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gabion_scap::host::{FdEntry, FdTarget, ProcessEntry};
use gabion_scap::{Event, Item, Merger, Reader};

/// The folder with scap files, or none after a line that names the test.
fn corpus(test: &str) -> Option<PathBuf> {
    gabion_corpus::find(test, "scap")
}

/// Each expected file of a folder: the name of its capture, the capture, the lines.
fn each_expected(
    folder: &Path,
    kind: &str,
    mut check: impl FnMut(&str, &Path, Vec<String>),
) -> usize {
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join(kind)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in &files {
        let name = file.file_name().unwrap().to_str().unwrap().trim_end_matches(".tsv.zst");
        let bytes = zstd::decode_all(std::fs::File::open(file).unwrap()).unwrap();
        let lines = String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect();
        check(name, &folder.join("captures").join(format!("{name}.scap")), lines);
    }
    files.len()
}

fn reader(path: &Path) -> Reader {
    Reader::new(std::fs::File::open(path).unwrap()).unwrap()
}

fn crc(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn event_line(e: &Event<'_>) -> String {
    let kind = e.kind();
    let direction = if kind.is_exit() { '<' } else { '>' };
    let mut line = format!(
        "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{direction}\t{}\t",
        e.raw_number,
        e.ts_ns,
        e.cpu,
        e.flags,
        e.tid,
        kind.number,
        kind.name,
        e.values.len()
    );
    for (place, raw) in e.values.iter().enumerate() {
        let blank = if place == 0 { "" } else { " " };
        write!(line, "{blank}{}:{:08x}", raw.len(), crc(raw)).unwrap();
    }
    line
}

/// Compares lines and returns the first difference.
fn difference(got: &[String], expected: &[String]) -> Option<String> {
    for (n, (got, expected)) in got.iter().zip(expected).enumerate() {
        if got != expected {
            return Some(format!("line {}:\n  got      {got}\n  expected {expected}", n + 1));
        }
    }
    let count = (got.len(), expected.len());
    (count.0 != count.1).then(|| format!("{} lines, expected {}", count.0, count.1))
}

#[test]
fn all_events_are_those_of_falcos_reader() {
    let Some(folder) = corpus("all_events_are_those_of_falcos_reader") else { return };
    let mut wrong = Vec::new();
    let files = each_expected(&folder, "expected-raw", |name, path, mut expected| {
        expected.retain(|line| !line.starts_with('#'));
        let mut reader = reader(path);
        let mut got = Vec::new();
        while let Some(item) = reader.next_item().unwrap() {
            if let Item::Event(event) = item {
                got.push(event_line(&event));
            }
        }
        let counts = reader.counts();
        counts.events.balance().unwrap();
        counts.lists.balance().unwrap();
        assert_eq!(counts.events.received().items, got.len() as u64, "{name}: nothing is shed");
        let is_whole = counts.lists.is_complete() && counts.notes.first().is_empty();
        assert!(is_whole, "{name}: {:?}", counts.notes);
        let bytes = std::fs::read(path).unwrap();
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            let counted = counts.events.received().bytes + counts.lists.received().bytes;
            assert_eq!(counted, bytes.len() as u64, "{name}: every byte is counted");
        }
        wrong.extend(difference(&got, &expected).map(|d| format!("{name}: {d}")));
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(files, 27);
}

/// Bytes as the expected files show them.
fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        match byte {
            0x20..=0x7e => text.push(char::from(*byte)),
            other => write!(text, "\\x{other:02x}").unwrap(),
        }
    }
    text
}

fn sum(bytes: &[u8]) -> String {
    format!("{}:{:08x}", bytes.len(), crc(bytes))
}

fn process_line(p: &ProcessEntry) -> String {
    let cells = [
        "T".to_owned(),
        p.tid.to_string(),
        p.pid.to_string(),
        p.ptid.to_string(),
        p.sid.to_string(),
        p.vpgid.to_string(),
        p.pgid.to_string(),
        shown(&p.comm),
        shown(&p.exe),
        shown(&p.exepath),
        sum(&p.args),
        shown(&p.cwd),
        p.fd_limit.to_string(),
        p.flags.to_string(),
        p.uid.to_string(),
        p.gid.to_string(),
        p.vm_size_kb.to_string(),
        p.vm_rss_kb.to_string(),
        p.vm_swap_kb.to_string(),
        p.faults_major.to_string(),
        p.faults_minor.to_string(),
        sum(&p.env),
        p.vtid.to_string(),
        p.vpid.to_string(),
        sum(&p.cgroups),
        shown(&p.root),
        p.pidns_start_ts_ns.to_string(),
        p.tty.to_string(),
        p.loginuid.to_string(),
        u8::from(p.is_exe_writable).to_string(),
        format!("{:x}", p.cap_inheritable),
        format!("{:x}", p.cap_permitted),
        format!("{:x}", p.cap_effective),
        u8::from(p.is_exe_upper_layer).to_string(),
        p.exe_ino.to_string(),
        p.exe_ino_ctime_ns.to_string(),
        p.exe_ino_mtime_ns.to_string(),
        u8::from(p.is_exe_from_memfd).to_string(),
        u8::from(p.is_exe_lower_layer).to_string(),
    ];
    cells.join("\t")
}

fn fd_line(e: &FdEntry) -> String {
    let v4 = |ip: &[u8; 4]| format!("{:08x}", u32::from_le_bytes(*ip));
    let v6 = |ip: &[u8; 16]| format!("{:08x}", crc(ip));
    let target = match &e.target {
        FdTarget::V4(s, d, l4) => format!("{} {} {} {} {}", v4(&s.0), v4(&d.0), s.1, d.1, l4.0),
        FdTarget::V6(s, d, l4) => format!("{} {} {} {} {}", v6(&s.0), v6(&d.0), s.1, d.1, l4.0),
        FdTarget::V4Server(s, l4) => format!("{} {} {}", v4(&s.0), s.1, l4.0),
        FdTarget::V6Server(s, l4) => format!("{} {} {}", v6(&s.0), s.1, l4.0),
        FdTarget::Unix(s, d, path) => format!("{s:x} {d:x} {}", shown(path)),
        FdTarget::File { open_flags, name, .. } => format!("{open_flags} {}", shown(name)),
        FdTarget::Named(name) => shown(name),
    };
    format!("F\t{}\t{}\t{}\t{}\t{target}", e.tid, e.fd, e.ino, e.kind)
}

#[test]
fn lists_of_processes_and_descriptors_are_those_of_falcos_reader() {
    let Some(folder) = corpus("lists_of_processes_and_descriptors_are_those_of_falcos_reader")
    else {
        return;
    };
    let mut wrong = Vec::new();
    let files = each_expected(&folder, "expected-proclist", |name, path, mut expected| {
        expected.retain(|line| !line.starts_with('#'));
        let mut reader = reader(path);
        let mut got = Vec::new();
        while let Some(item) = reader.next_item().unwrap() {
            match item {
                Item::Process(entry) => got.push(process_line(&entry)),
                Item::Fd(entry) => got.push(fd_line(&entry)),
                _ => {}
            }
        }
        wrong.extend(difference(&got, &expected).map(|d| format!("{name}: {d}")));
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(files, 25);
}

#[test]
fn merged_events_are_those_of_falcos_converter_without_its_enter_events() {
    let test = "merged_events_are_those_of_falcos_converter_without_its_enter_events";
    let Some(folder) = corpus(test) else { return };
    let (mut wrong, mut attached) = (Vec::new(), 0);
    let files = each_expected(&folder, "expected-conversion", |name, path, mut expected| {
        expected.retain(|line| !line.starts_with('#'));
        let type_of = |line: &str| line.split('\t').nth(5).unwrap().parse::<u16>().unwrap();
        let passed_by_falco = expected.len();
        // Falco numbers events by their place in this list.
        let mut numbers = Vec::new();
        let mut lines = Vec::new();
        for (n, line) in expected.iter().enumerate() {
            if !gabion_scap::is_enter_of_falco(type_of(line)) {
                numbers.push(n as u64 + 1);
                lines.push(line.clone());
            }
        }
        let (mut reader, mut merger) = (reader(path), Merger::new());
        let (mut got, mut got_numbers, mut raw) = (Vec::new(), Vec::new(), 0);
        while let Some(item) = reader.next_item().unwrap() {
            let Item::Event(event) = item else { continue };
            raw += 1;
            if let Some(event) = merger.merge(&event) {
                got.push(event_line(&event));
                got_numbers.push(event.number);
                attached += u64::from(event.enter.is_some());
            }
            merger.counts().ledger.balance().unwrap();
        }
        merger.finish();
        let counts = merger.counts();
        counts.ledger.balance().unwrap();
        let passed = counts.ledger.passed().items - counts.merged;
        assert_eq!((counts.ledger.received().items, passed), (raw, got.len() as u64), "{name}");
        println!(
            "{name}: raw {raw} = passed {passed} + merged {} + shed {:?}; Falco passes {passed_by_falco}",
            counts.merged,
            counts.ledger.sheds().map(|(reason, n)| (reason, n.items)).collect::<Vec<_>>()
        );
        wrong.extend(difference(&got, &lines).map(|d| format!("{name}: {d}")));
        assert!(!wrong.is_empty() || got_numbers == numbers, "{name}: numbers are Falco's");
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(files, 27);
    assert!(attached > 1000, "{attached} exit events have values of their enter event");
}

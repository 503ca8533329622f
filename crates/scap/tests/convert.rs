//! Rewritten files hold exit events alone, say the same as before, and stay the same when they are rewritten again.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use gabion_scap::{Converted, Item, Merger, Reader, Writer, convert};

/// The captures of the corpus, or none after a line that names the test.
fn captures(test: &str) -> Vec<PathBuf> {
    let Some(folder) = gabion_corpus::find(test, "scap/captures") else { return Vec::new() };
    let folder = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = folder.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 27);
    files
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn converted(input: Vec<u8>) -> (Vec<u8>, Converted, Merger) {
    let mut reader = Reader::new(Cursor::new(input)).unwrap();
    let mut merger = Merger::new();
    let mut writer = Writer::new(Vec::new());
    let done = convert(&mut reader, &mut merger, &mut writer).unwrap();
    assert_eq!(reader.counts().notes.first(), &[]);
    merger.counts().ledger.balance().unwrap();
    (writer.finish().unwrap(), done, merger)
}

/// Everything that a file holds, as text.
fn items(bytes: &[u8]) -> (Vec<String>, Vec<String>, u64) {
    let mut reader = Reader::new(Cursor::new(bytes.to_vec())).unwrap();
    let (mut lists, mut events, mut exits) = (Vec::new(), Vec::new(), 0);
    while let Some(item) = reader.next_item().unwrap() {
        match item {
            Item::Event(e) => {
                // Types from dup on are younger than sysdig 0.29.3, which passes over them.
                let is_seen = e.kind().is_exit() && e.kind().number < gabion_scap::types::DUP_1_E;
                exits += u64::from(is_seen);
                events.push(format!("{} {} {} {} {:?}", e.ts_ns, e.tid, e.cpu, e.flags, e.values));
            }
            // The version of the format is the newest one afterwards.
            Item::Section { .. } => lists.push("section".to_owned()),
            item => lists.push(format!("{item:?}")),
        }
    }
    (lists, events, exits)
}

#[test]
fn a_second_rewriting_changes_no_byte_and_the_first_no_list() {
    let (mut events, mut differing, mut completed) = (0, 0, 0);
    for path in captures("a_second_rewriting_changes_no_byte_and_the_first_no_list") {
        let original = std::fs::read(&path).unwrap();
        let (first, done, _) = converted(original.clone());
        let (second, again, merger) = converted(first.clone());
        assert!(first == second, "{}: the second rewriting changes bytes", name(&path));
        assert_eq!((again.differing, again.completed, merger.counts().merged), (0, 0, 0));
        assert_eq!(done.events, again.events);
        let (before, after) = (items(&original), items(&first));
        assert_eq!(before.0, after.0, "{}: lists", name(&path));
        assert_eq!(after.1.len() as u64, done.events);
        events += done.events;
        differing += done.differing;
        completed += done.completed;
        println!("{}: {done:?}, {} bytes, then {}", name(&path), original.len(), first.len());
    }
    if events > 0 {
        assert!(completed > 0 && differing > 0, "{completed} {differing}");
    }
}

/// Events that sysdig sees, without the enter events that files of today lack.
fn seen_by_sysdig(path: &Path) -> Option<(bool, Vec<String>)> {
    let out = Command::new("sysdig")
        .args(["-r", &path.to_string_lossy(), "-p", "%evt.rawtime %evt.cpu %thread.tid %evt.type"])
        .arg("evt.dir=<")
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&out.stdout).lines().map(str::to_owned).collect();
    Some((out.status.success(), text))
}

#[test]
fn sysdig_reads_rewritten_files() {
    let test = "sysdig_reads_rewritten_files";
    if Command::new("sysdig").arg("--version").output().is_err() {
        eprintln!("skipped: {test}: no sysdig");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut read, mut refused) = (0, Vec::new());
    for path in captures(test) {
        let (bytes, done, _) = converted(std::fs::read(&path).unwrap());
        let to = folder.path().join("converted.scap");
        std::fs::write(&to, bytes).unwrap();
        let (is_read, events) = seen_by_sysdig(&to).unwrap();
        println!("{}: {is_read}, {} of {} events", name(&path), events.len(), done.events);
        let exits = items(&std::fs::read(&to).unwrap()).2;
        if is_read {
            assert_eq!(events.len() as u64, exits, "{}", name(&path));
            read += 1;
        } else {
            refused.push(name(&path));
        }
    }
    // The descriptor of a process (kind 21) is younger than sysdig 0.29.3, and the synthetic captures have random values.
    let known =
        ["stratoshark-docker-curl-https", "synthetic-conversion-1", "synthetic-conversion-2"];
    assert!(
        refused.iter().all(|name| known.contains(&name.as_str())),
        "{read} read, refused {refused:?}"
    );
}

/// Events of lists, of which sysdig shows some.
const LISTED: [&str; 6] =
    ["procinfo", "container", "useradded", "groupadded", "userdeleted", "groupdeleted"];

/// Captures of the corpus that Debian's sysdig 0.29.3 reads.
const SYSDIG_READS: usize = 23;

/// A second opinion on the captures as they are: time, CPU, thread and direction of each event are those that sysdig reads,
/// of the raw events as of those that are left after merging.
#[test]
fn events_of_the_captures_are_those_that_sysdig_reads() {
    let test = "events_of_the_captures_are_those_that_sysdig_reads";
    if Command::new("sysdig").arg("--version").output().is_err() {
        eprintln!("skipped: {test}: no sysdig");
        return;
    }
    let paths = captures(test);
    let (mut read, mut rows) = (0, 0);
    for path in &paths {
        let file = path.to_string_lossy();
        let format = "%evt.type %evt.rawtime %evt.cpu %thread.tid %evt.dir";
        let out = Command::new("sysdig").args(["-r", &file, "-p", format]).output().unwrap();
        if !out.status.success() {
            println!("{}: sysdig can't read it", name(path));
            continue;
        }
        read += 1;
        let theirs = String::from_utf8_lossy(&out.stdout).into_owned();
        let theirs: Vec<&str> = theirs
            .lines()
            .filter_map(|line| line.split_once(' '))
            .filter(|(kind, _)| !LISTED.contains(kind))
            .map(|(_, row)| row)
            .collect();
        let mut reader = Reader::new(std::fs::File::open(path).unwrap()).unwrap();
        let (mut merger, mut raw, mut merged) = (Merger::new(), Vec::new(), Vec::new());
        let row = |event: &gabion_scap::Event<'_>| {
            let direction = if event.kind().is_exit() { '<' } else { '>' };
            format!("{} {} {} {direction}", event.ts_ns, event.cpu, event.tid)
        };
        while let Some(item) = reader.next_item().unwrap() {
            let Item::Event(event) = item else { continue };
            if !LISTED.contains(&event.kind().name) {
                raw.push(row(&event));
            }
            if let Some(event) = merger.merge(&event).filter(|event| event.kind().is_exit()) {
                merged.push(row(&event));
            }
        }
        assert_eq!(raw, theirs, "{}", name(path));
        let exits: Vec<&str> = theirs.iter().copied().filter(|row| row.ends_with('<')).collect();
        assert_eq!(merged, exits, "{}: merged", name(path));
        rows += raw.len();
    }
    println!("{read} captures, {rows} events");
    if !paths.is_empty() {
        assert!(read >= SYSDIG_READS && rows > 90_000, "{read} captures, {rows} events");
    }
}

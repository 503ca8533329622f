//! Broken and odd files end bounded and counted: a fault inside of an event sheds that event alone.

use std::io::Cursor;
use std::path::PathBuf;

use gabion_record::ledger::ShedReason;
use gabion_scap::{Error, Item, Merger, Reader, Writer};

fn folder(test: &str) -> Option<PathBuf> {
    gabion_corpus::find(test, "scap/hostile")
}

/// The outcome of a file: events that passed, raw events, what was shed, the first note.
type End = Result<(u64, u64, Vec<(&'static str, u64)>, String), Error>;

fn read(bytes: Vec<u8>) -> End {
    let mut reader = Reader::new(Cursor::new(bytes))?;
    let mut merger = Merger::new();
    let mut passed = 0;
    while let Some(item) = reader.next_item()? {
        if let Item::Event(event) = item {
            passed += u64::from(merger.merge(&event).is_some());
        }
    }
    merger.finish();
    let (counts, merged) = (reader.counts(), merger.counts());
    counts.events.balance().unwrap();
    counts.lists.balance().unwrap();
    merged.ledger.balance().unwrap();
    let all = counts.events.sheds().chain(counts.lists.sheds()).chain(merged.ledger.sheds());
    let sheds = all.map(|(reason, tally)| (reason.name(), tally.items)).collect();
    let note = counts.notes.first().first().map_or(String::new(), |note| note.what.clone());
    Ok((passed, counts.events.received().items, sheds, note))
}

/// The end of each file. Where Falco's reader stops at a fault of one event, here the events after it are read.
#[test]
fn each_hostile_file_ends_as_is_written_here() {
    let Some(folder) = folder("each_hostile_file_ends_as_is_written_here") else { return };
    let (unreadable, torn) = (ShedReason::UnreadableRecord.name(), ShedReason::TornFile.name());
    let (no_conversion, no_exit) = (ShedReason::NoConversion.name(), ShedReason::NoExit.name());
    let wrong_enter = ShedReason::WrongEnter.name();
    // The file, events that pass, raw events, what is shed, a part of the note.
    type Row<'a> = (&'a str, u64, u64, Vec<(&'a str, u64)>, &'a str);
    let rows: Vec<Row<'_>> = vec![
        ("good", 1, 2, vec![], ""),
        ("minor-9", 1, 2, vec![], ""),
        ("no-events", 0, 0, vec![], ""),
        ("only-header", 0, 0, vec![], ""),
        ("unknown-block-before-events", 1, 1, vec![], ""),
        ("wrong-event-trailer", 1, 2, vec![], ""),
        ("v1-blocks", 2, 2, vec![], ""),
        ("unknown-type-skipped", 1, 2, vec![("unknown_event", 1)], ""),
        ("second-section", 2, 2, vec![], ""),
        ("unknown-block-between-events", 2, 2, vec![(unreadable, 0)], "unexpected block type 2457"),
        ("truncated-event", 0, 2, vec![(torn, 1), (no_exit, 1)], "ends inside of a block"),
        ("truncated-trailer", 0, 2, vec![(torn, 1), (no_exit, 1)], "ends inside of a block"),
        (
            "nparams-huge",
            1,
            2,
            vec![(unreadable, 1)],
            "nparams 4294967295 does not fit in event len 36",
        ),
        (
            "nparams-too-many",
            1,
            2,
            vec![(unreadable, 1)],
            "nparams 40 does not fit in event len 36",
        ),
        ("len-too-big", 1, 2, vec![(unreadable, 1)], "len 60000 is larger than the 42 bytes"),
        (
            "len-too-small",
            1,
            2,
            vec![(unreadable, 1)],
            "len 10 is smaller than the event header size 26",
        ),
        ("param-len-past-end", 1, 2, vec![(unreadable, 1)], "param 1 len 600 exceeds event len 41"),
        ("managed-exit-unknown-nparams", 1, 2, vec![(no_conversion, 1)], ""),
        ("managed-enter-unknown-nparams", 1, 2, vec![(no_conversion, 1)], ""),
        ("enter-fewer-params", 1, 2, vec![(no_conversion, 1)], ""),
        ("v1-too-few-params", 0, 1, vec![(no_conversion, 1)], ""),
        ("wrong-enter", 1, 2, vec![(wrong_enter, 1)], ""),
        ("mi-block-too-short", 0, 0, vec![(unreadable, 0)], "wrong block total length, header=12"),
        ("proclist-sublen-huge", 1, 1, vec![(unreadable, 1)], "(in a list of processes)"),
        ("proclist-comm-too-long", 1, 1, vec![(unreadable, 1)], "invalid commlen 5000"),
        ("iflist-bad-type", 1, 1, vec![(unreadable, 1)], "unknown interface type 9"),
        ("fdlist-bad-fd-type", 1, 1, vec![(unreadable, 1)], "(in a list of descriptors)"),
    ];
    let refused = [
        ("empty", Error::Empty),
        ("bad-magic", Error::NotScap),
        ("big-endian-magic", Error::NotScap),
        ("major-2", Error::Newer { major: 2 }),
    ];
    let bytes = |name: &str| std::fs::read(folder.join(format!("{name}.scap"))).unwrap();
    let mut wrong = Vec::new();
    for (name, passed, raw, sheds, part) in &rows {
        let end = read(bytes(name));
        let is_right = end.as_ref().is_ok_and(|(p, r, s, note)| {
            (p, r) == (passed, raw)
                && s == sheds
                && note.contains(part)
                && (part.is_empty() == note.is_empty())
        });
        if !is_right {
            wrong.push(format!("{name}: {end:?}\n  expected {passed} {raw} {sheds:?} {part:?}"));
        }
    }
    for (name, error) in &refused {
        assert_eq!(read(bytes(name)).as_ref(), Err(error), "{name}");
    }
    assert_eq!(
        Error::Newer { major: 2 }.to_string(),
        "cannot correctly parse the capture. Upgrade your version."
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let files = std::fs::read_dir(&folder).unwrap().count() - 1;
    assert_eq!(rows.len() + refused.len(), files, "every file has a row");
}

#[test]
fn hostile_files_give_the_same_in_any_split_and_when_rewritten() {
    let test = "hostile_files_give_the_same_in_any_split_and_when_rewritten";
    let Some(folder) = folder(test) else { return };
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let read = gabion_scap::fuzz_read(&bytes);
        let rewritten = gabion_scap::fuzz_rewrite(&bytes);
        assert_eq!(read.is_err(), rewritten.is_err(), "{}", path.display());
        // Every beginning of the file, and every byte of it changed.
        for len in 0..bytes.len().min(600) {
            let _ = gabion_scap::fuzz_read(&bytes[..len]);
        }
        for at in 0..bytes.len().min(600) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x55;
            let _ = gabion_scap::fuzz_read(&changed);
            let _ = gabion_scap::fuzz_rewrite(&changed);
        }
    }
}

/// A file with a machine, a process, a descriptor and an event is the same in any split; made here, so that the test
/// needs no corpus.
#[test]
fn a_made_file_is_the_same_in_any_split() {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let machine =
        gabion_scap::host::Machine { cpus: 4, hostname: b"host".to_vec(), ..Default::default() };
    writer.write(&Item::Machine(machine)).unwrap();
    let process = gabion_scap::host::ProcessEntry {
        tid: 7,
        comm: b"cat".to_vec(),
        args: b"-n\0file\0".to_vec(),
        ..Default::default()
    };
    writer.write(&Item::Process(Box::new(process))).unwrap();
    let kind = gabion_scap::table::event_type(gabion_scap::types::CLOSE_X).unwrap();
    let values = gabion_scap::Values::new(
        kind,
        &[8, 0, 8, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0],
    );
    let event = gabion_scap::Event {
        number: 1,
        raw_number: 1,
        ts_ns: 9,
        tid: 7,
        cpu: 1,
        flags: 2,
        values,
        enter: None,
        live: gabion_scap::LiveValues::default(),
    };
    writer.event(&event).unwrap();
    let bytes = writer.finish().unwrap();
    assert_eq!(gabion_scap::fuzz_read(&bytes), Ok(4));
    assert_eq!(gabion_scap::fuzz_rewrite(&bytes), Ok(1));
    assert!(gabion_scap::is_scap(&bytes) && !gabion_scap::is_scap(&bytes[..30]));
    let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
    let mut seen = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Event(e) = item {
            seen.push(format!("{} {} {} {} {:?}", e.ts_ns, e.tid, e.cpu, e.flags, e.param(1)));
        }
    }
    assert_eq!(seen, ["9 7 1 2 Some(Fd(3))"]);
}

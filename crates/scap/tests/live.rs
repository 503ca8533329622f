//! What a live source knows of a call survives its file, and the file stays one that others read.

use std::io::Cursor;

use gabion_scap::table::event_type;
use gabion_scap::{
    Cause, Event, Item, LiveValues, Merger, Reader, Toctou, Values, Writer, convert, types,
};

/// Parameters with their lengths.
fn parts(parameters: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let lengths = parameters.iter().flat_map(|p| (p.len() as u16).to_le_bytes()).collect();
    (lengths, parameters.concat())
}

/// An open with what a live source knew of it, and the name at its entry where that differs.
struct Open<'a> {
    name: &'a [u8],
    enter: Option<&'a [u8]>,
    live: LiveValues<'a>,
}

fn write(writer: &mut Writer<Vec<u8>>, open: &Open<'_>) {
    let (fd, folder, four, ino) = (3_i64.to_le_bytes(), (-100_i64).to_le_bytes(), [1; 4], [9; 8]);
    let (lengths, bytes) = parts(&[&fd, &folder, open.name, &four, &four, &four, &ino]);
    let (enter_lengths, enter_bytes) =
        parts(&[&folder, open.enter.unwrap_or_default(), &four, &four]);
    let kind = event_type(types::OPENAT_2_X).unwrap();
    let enter = Values::new(event_type(types::OPENAT_2_E).unwrap(), &enter_lengths, &enter_bytes);
    let event = Event {
        number: 0,
        raw_number: 0,
        ts_ns: 5,
        tid: 7,
        cpu: 1,
        flags: 0,
        values: Values::new(kind, &lengths, &bytes),
        enter: open.enter.map(|_| enter),
        live: open.live,
    };
    writer.event(&event).unwrap();
}

/// For each event after merging: name, name at the entry, outcome, the kernel's path.
type Row = (String, Option<String>, Option<Toctou>, String);

fn read(file: &[u8]) -> (Vec<Row>, u64) {
    let mut reader = Reader::new(Cursor::new(file.to_vec())).unwrap();
    let (mut merger, mut rows, mut raw) = (Merger::new(), Vec::new(), 0);
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Event(event) = item else { continue };
        raw += 1;
        let Some(event) = merger.merge(&event) else { continue };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = text(event.param_named("name").unwrap().as_text().unwrap());
        let enter = event.enter.map(|enter| text(enter.param(1).unwrap().as_text().unwrap()));
        rows.push((name, enter, event.live.toctou, text(event.live.opened)));
        assert_eq!((event.flags, event.tid, event.cpu), (0, 7, 1));
    }
    merger.finish();
    merger.counts().ledger.balance().unwrap();
    (rows, raw)
}

fn live(toctou: Toctou, opened: &[u8]) -> LiveValues<'_> {
    LiveValues { toctou: Some(toctou), opened, netns: 0 }
}

fn made() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let verified = live(Toctou::Verified, b"/a");
    let rows = [
        Open { name: b"/a\0", enter: None, live: verified },
        Open { name: b"b\0", enter: None, live: live(Toctou::Verified, b"/a/b") },
        Open { name: b"/l\0", enter: None, live: live(Toctou::Linked, b"/target") },
        Open { name: b"/exit\0", enter: Some(b"/enter\0"), live: live(Toctou::Mismatch, b"/exit") },
        Open { name: b"/32\0", enter: None, live: live(Toctou::ExitOnly(Cause::Ia32), b"") },
        Open { name: b"/plain\0", enter: None, live: LiveValues::default() },
    ];
    rows.iter().for_each(|open| write(&mut writer, open));
    writer.finish().unwrap()
}

#[test]
fn what_a_live_source_knew_survives_its_file() {
    let (rows, raw) = read(&made());
    let row = |name: &str, enter: Option<&str>, toctou, opened: &str| {
        (name.to_owned(), enter.map(str::to_owned), toctou, opened.to_owned())
    };
    let wanted = [
        // The kernel opened what the name says: the path would be written twice.
        row("/a", None, Some(Toctou::Verified), ""),
        row("b", None, Some(Toctou::Verified), "/a/b"),
        row("/l", None, Some(Toctou::Linked), "/target"),
        row("/exit", Some("/enter"), Some(Toctou::Mismatch), "/exit"),
        row("/32", None, Some(Toctou::ExitOnly(Cause::Ia32)), ""),
        row("/plain", None, None, ""),
    ];
    assert_eq!(rows, wanted);
    assert_eq!(raw, 6 + 3 + 1, "six calls, three paths, one name at the entry");
}

#[test]
fn the_network_namespace_of_a_call_survives_its_file() {
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    // The first namespace, another one, one that has no space in a file, and none.
    let all = [0xf000_0000, 0xf012_3456, 0xffff_ffff, 5, 0];
    for netns in all {
        for toctou in [Some(Toctou::Verified), Some(Toctou::ExitOnly(Cause::Ia32)), None] {
            let live = LiveValues { toctou, opened: b"", netns };
            write(&mut writer, &Open { name: b"/a\0", enter: None, live });
        }
    }
    let mut reader = Reader::new(Cursor::new(writer.finish().unwrap())).unwrap();
    let mut found = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Event(event) = item {
            found.push((event.flags, event.live.toctou.is_some(), event.live.netns));
        }
    }
    let kept = |netns: u32| [(0, true, netns), (0, true, netns), (0, false, netns)];
    assert_eq!(found, [0xf000_0000, 0xf012_3456, 0, 0, 0].map(kept).concat());
}

#[test]
fn rewriting_keeps_what_a_live_source_knew() {
    let rewrite = |file: &[u8]| {
        let mut reader = Reader::new(Cursor::new(file.to_vec())).unwrap();
        let (mut merger, mut writer) = (Merger::new(), Writer::new(Vec::new()));
        convert(&mut reader, &mut merger, &mut writer).unwrap();
        writer.finish().unwrap()
    };
    let first = rewrite(&made());
    let (rows, _) = read(&first);
    let outcomes: Vec<_> = rows.iter().map(|row| row.2).collect();
    assert_eq!(outcomes, read(&made()).0.iter().map(|row| row.2).collect::<Vec<_>>());
    assert_eq!(rows[3].0, "/enter", "the value that Falco prefers");
    assert_eq!(rows[3].3, "/exit", "the file that the kernel opened");
    assert_eq!(rewrite(&first), first);
}

/// A note whose call is missing is shed: it belongs to the next call of its thread or to none.
#[test]
fn a_note_without_its_call_is_shed() {
    let file = made();
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    let mut notes = 0;
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Event(event) = item else { continue };
        if event.kind().number == types::NOTIFICATION_E {
            notes += 1;
            writer.event(&event).unwrap();
            let (lengths, bytes) = parts(&[&[0; 8], &[3; 8]]);
            let close = event_type(types::CLOSE_X).unwrap();
            let values = Values::new(close, &lengths, &bytes);
            writer.event(&Event { values, ..event }).unwrap();
        }
    }
    let mut reader = Reader::new(Cursor::new(writer.finish().unwrap())).unwrap();
    let (mut merger, mut passed) = (Merger::new(), 0);
    while let Some(item) = reader.next_item().unwrap() {
        let Item::Event(event) = item else { continue };
        if let Some(event) = merger.merge(&event) {
            assert_eq!((event.kind().number, event.live.opened), (types::CLOSE_X, &b""[..]));
            passed += 1;
        }
    }
    merger.finish();
    let ledger = &merger.counts().ledger;
    assert_eq!((notes, passed), (3, 3));
    assert_eq!(ledger.received().items, ledger.passed().items + 3);
    ledger.balance().unwrap();
}

/// A path is as long as the kernel's paths at most, in a file too.
#[test]
fn a_long_path_of_the_kernels_file_is_cut_and_counted() {
    let path = [b'/'; 5_000];
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    write(&mut writer, &Open { name: b"/a\0", enter: None, live: live(Toctou::Linked, &path) });
    let file = writer.finish().unwrap();
    assert_eq!(read(&file).0[0].3.len(), 4_096);
    // One that another program wrote.
    let mut writer = Writer::new(Vec::new());
    writer.section().unwrap();
    let note = [&path[..], b"\0"].concat();
    let (lengths, bytes) = parts(&[b"gabion.opened\0", &note]);
    let kind = event_type(types::NOTIFICATION_E).unwrap();
    let values = Values::new(kind, &lengths, &bytes);
    let (number, live) = (0, LiveValues::default());
    let note = Event {
        number,
        raw_number: 0,
        ts_ns: 5,
        tid: 7,
        cpu: 1,
        flags: 0,
        values,
        enter: None,
        live,
    };
    writer.event(&note).unwrap();
    write(&mut writer, &Open { name: b"/a\0", enter: None, live: self::live(Toctou::Linked, b"") });
    let file = writer.finish().unwrap();
    let _ = gabion_record::limits::take_reached();
    assert_eq!(read(&file).0[0].3.len(), 4_096);
    let reached = gabion_record::limits::take_reached();
    let limit = &gabion_scap::limits::reached::OPENED_PATH_MAX;
    assert_eq!(
        (limit.full_name().as_str(), reached.times_reached(limit)),
        ("scap.opened_path_max", 1)
    );
}

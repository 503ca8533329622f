//! Every variant of the formats, valid and invalid. Expected values are derived from the drafts
//! (draft-ietf-opsawg-pcap, -pcapng), and for contradictory files from libpcap's behavior.

mod build;

use std::io::{self, Read, Write};

use build::{Bytes, Order};
use gabion_capture::{
    CaptureBytes, Format, FrameRef, OpenOptions, PcapWriter, Resolution, Source, fuzz_entry,
};
use gabion_record::ledger::{ShedReason, Tally};

const S: u64 = 1_000_000_000;
const US: u32 = 0xa1b2_c3d4;
const NS: u32 = 0xa1b2_3c4d;
const MODIFIED: u32 = 0xa1b2_cd34;

/// Time, wire length, link, interface, data.
type Seen = (u64, u32, u16, u16, Vec<u8>);

fn drain(source: &mut Source, frames_max: usize) -> Vec<Seen> {
    let (mut refs, mut seen): (Vec<FrameRef>, _) = (Vec::new(), Vec::new());
    while let Some(block) = source.next_block(frames_max, &mut refs) {
        seen.extend(refs.drain(..).map(|r| {
            let f = r.frame(&block.bytes);
            (f.ts_ns, f.wire_len, f.link, f.interface, f.data.to_vec())
        }));
    }
    source.ledger().balance().unwrap();
    seen
}

/// Reads whole, and checks that reading in pieces has the same result.
fn read(bytes: &[u8]) -> (Vec<Seen>, Source) {
    fuzz_entry(bytes).unwrap();
    let mut source = Source::from_bytes(CaptureBytes::from_vec(bytes.to_vec())).unwrap();
    let seen = drain(&mut source, 100);
    (seen, source)
}

fn refusal(bytes: &[u8]) -> String {
    match Source::from_reader(Box::new(io::Cursor::new(bytes.to_vec()))) {
        Ok(_) => "accepted".to_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn pcap_in_all_variants() {
    for order in [Order::Little, Order::Big] {
        for (magic, format, unit) in [
            (US, Format::Pcap, 1000),
            (NS, Format::PcapNs, 1),
            (MODIFIED, Format::PcapModified, 1000),
        ] {
            let mut b = Bytes::new(order);
            // The upper half of the link field describes frame check sequences.
            b.pcap_header(magic, (2, 4), 65535, 0x2400_0000 | 113);
            for (n, data) in [&b"one"[..], b"", b"three"].iter().enumerate() {
                b.u32(n as u32 + 1).u32(7).u32(data.len() as u32).u32(60);
                if magic == MODIFIED {
                    b.u32(2).u16(0x800).raw(&[0, 0]);
                }
                b.raw(data);
            }
            let (seen, source) = read(&b.out);
            assert_eq!((source.format(), source.link()), (Some(format), Some(113)));
            assert_eq!(seen[0], (S + 7 * unit, 60, 113, 0, b"one".to_vec()));
            assert_eq!(seen[1].4, b"");
            assert_eq!(seen[2], (3 * S + 7 * unit, 60, 113, 0, b"three".to_vec()));
            assert_eq!(source.cut_total(), 3);
            assert_eq!(source.ledger().received(), Tally::new(3, 180));
            assert_eq!(source.ledger().passed(), Tally::new(3, 8));
            assert_eq!(source.ledger().shed_for(ShedReason::SnapCut), Tally::new(0, 172));
        }
    }
}

/// libpcap: before 2.3 the wire length came first; in 2.3 both orders occur.
#[test]
fn pcap_of_old_versions_has_its_lengths_swapped() {
    for (version, first, second) in
        [((2, 2), 9, 2), ((2, 3), 9, 2), ((2, 3), 2, 9), ((543, 0), 9, 2), ((2, 4), 2, 9)]
    {
        let mut b = Bytes::new(Order::Big);
        b.pcap_header(US, version, 100, 1).u32(0).u32(0).u32(first).u32(second).raw(b"ab");
        let (seen, _) = read(&b.out);
        assert_eq!(seen, [(0, 9, 1, 0, b"ab".to_vec())], "{version:?}");
    }
    for version in [(1, 4), (3, 0), (0, 0)] {
        let mut b = Bytes::new(Order::Little);
        b.pcap_header(US, version, 100, 1);
        let want = format!("unsupported capture: pcap version {}.{}", version.0, version.1);
        assert_eq!(refusal(&b.out), want);
    }
}

#[test]
fn pcap_records_beyond_the_snap_length_are_cut_to_it() {
    let mut b = Bytes::new(Order::Little);
    b.pcap_header(US, (2, 4), 4, 1).record(0, 0, 6, b"abcdef").record(1, 0, 2, b"gh");
    let (seen, source) = read(&b.out);
    assert_eq!(seen, [(0, 6, 1, 0, b"abcd".to_vec()), (S, 2, 1, 0, b"gh".to_vec())]);
    assert_eq!(source.ledger().shed_for(ShedReason::SnapCut), Tally::new(0, 2));
    // A snap length of 0, or one that is negative as a signed number, means none.
    for snaplen in [0, u32::MAX] {
        let mut b = Bytes::new(Order::Little);
        b.pcap_header(US, (2, 4), snaplen, 1).record(0, 0, 6, b"abcdef");
        assert_eq!(read(&b.out).0[0].4, b"abcdef");
    }
}

#[test]
fn invalid_records_end_the_reading_and_are_counted() {
    let start = || {
        let mut b = Bytes::new(Order::Little);
        b.pcap_header(US, (2, 4), 65535, 1).record(0, 0, 3, b"abc");
        b
    };
    // Truncated in the record's header, in its data, and not at all.
    for (cut, torn) in [(5, 5), (16, 16), (17, 17), (0, 0)] {
        let mut b = start();
        let mut record = Bytes::new(Order::Little);
        record.record(1, 0, 3, b"def");
        b.raw(&record.out[..cut]);
        let (seen, source) = read(&b.out);
        assert_eq!(seen.len(), 1);
        let want = Tally::new(u64::from(torn > 0), torn);
        assert_eq!(source.ledger().shed_for(ShedReason::TornFile), want);
        assert_eq!(source.notes().len(), usize::from(torn > 0));
    }
    // Lengths that are too large: one more than is allowed, and the most that 32 bits hold.
    for len in [262_145, u32::MAX] {
        let mut b = start();
        b.u32(0).u32(0).u32(len).u32(len).raw(&[0; 100]);
        let (seen, source) = read(&b.out);
        assert_eq!(seen.len(), 1);
        assert_eq!(source.ledger().shed_for(ShedReason::UnreadableRecord), Tally::new(1, 0));
        assert_eq!(source.notes()[0].offset, 43);
        assert_eq!(
            source.notes()[0].text,
            "bad record: its captured length is too large; the rest is not read"
        );
    }
    // USB links allow this length: here the file is only truncated.
    let mut b = Bytes::new(Order::Little);
    b.pcap_header(US, (2, 4), 0, 249).u32(0).u32(0).u32(262_145).u32(262_145);
    assert_eq!(read(&b.out).1.ledger().shed_for(ShedReason::TornFile), Tally::new(1, 16));
}

#[test]
fn captures_without_frames_are_valid() {
    let mut pcap = Bytes::new(Order::Little);
    pcap.pcap_header(US, (2, 4), 65535, 1);
    let mut section = Bytes::new(Order::Big);
    section.section();
    let mut interface = Bytes::new(Order::Big);
    interface.section().interface(1, 0, &[]);
    for b in [pcap, section, interface] {
        let (seen, source) = read(&b.out);
        assert!(seen.is_empty() && source.notes().is_empty());
        assert!(source.ledger().is_complete());
    }
}

#[test]
fn other_files_are_refused_in_one_line() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "empty file: no capture header"),
        (b"ab", "not a capture: only 2 bytes"),
        (b"{\"ts\":1}\n", "not a capture: it looks like text"),
        (
            b"\x00\x01\x02\x03",
            "not a capture: it begins with 00 01 02 03, which is neither pcap nor pcapng",
        ),
        (
            b"\xd4\xc3\xb2\xa1\x02\x00",
            "unreadable: the capture's header is truncated after 6 bytes",
        ),
        (
            b"\x0a\x0d\x0d\x0a\x1c\0\0\0",
            "unreadable: the capture's header is truncated after 8 bytes",
        ),
        (
            b"\x0a\x0d\x0d\x0a\x1c\0\0\0....",
            "not a capture: a pcapng section without a byte-order mark",
        ),
        (
            b"snoop\0\0\0\0\0\0\x02",
            "not a capture: a snoop capture, which is not supported: convert it with editcap -F pcap",
        ),
        (b"PK\x03\x04....", "not a capture: a zip file: unpack it first"),
    ];
    for (bytes, want) in cases {
        assert_eq!(refusal(bytes), *want);
        assert!(fuzz_entry(bytes).is_err());
    }
    assert!(refusal(b"\x28\xb5\x2f\xfd garbage").starts_with("unreadable: "));
    assert!(refusal(b"\x1f\x8b garbage garbage").starts_with("unreadable: "));
    let folder = Source::from_file(std::fs::File::open("/").unwrap()).err().unwrap();
    assert_eq!(folder.to_string(), "not a capture: it is a folder");
}

#[test]
fn pcapng_times_follow_resolution_and_offset() {
    // if_tsresol, timestamp, if_tsoffset, nanoseconds.
    let cases: &[(Option<u8>, u64, Option<i64>, u64)] = &[
        (None, 1_500_000, None, S * 3 / 2),
        (Some(6), 1_500_000, None, S * 3 / 2),
        (Some(9), S + 7, None, S + 7),
        (Some(0), 4, None, 4 * S),
        (Some(3), 4001, None, 4 * S + 1_000_000),
        (Some(12), 1_234_567, None, 1234),
        (Some(0x80 | 1), 3, None, S * 3 / 2),
        (Some(0x80 | 32), 1 << 33, None, 2 * S),
        (Some(0x80), 5, None, 5 * S),
        (None, 0, Some(100), 100 * S),
        (None, 5_000_000, Some(-3), 2 * S),
        (None, 5_000_000, Some(-30), 0),
        (Some(0), u64::MAX, Some(i64::MAX), u64::MAX),
        (Some(0x80 | 63), u64::MAX, None, 2 * S - 1),
    ];
    for order in [Order::Little, Order::Big] {
        for (resolution, ts, offset, want) in cases {
            let value = offset
                .map(|o| if order == Order::Little { o.to_le_bytes() } else { o.to_be_bytes() });
            let resolution = resolution.map(|r| [r]);
            let mut options: Vec<(u16, &[u8])> = vec![(2, b"eth0")];
            options.extend(resolution.iter().map(|r| (9, &r[..])));
            options.extend(value.iter().map(|v| (14, &v[..])));
            let mut b = Bytes::new(order);
            b.section().interface(1, 0, &options).enhanced(0, *ts, 2, b"ab");
            let (seen, _) = read(&b.out);
            assert_eq!(seen, [(*want, 2, 1, 0, b"ab".to_vec())], "{resolution:?} {offset:?}");
        }
    }
    // 10^-20 s does not fit into 64 bits: noted, and read as microseconds.
    let mut b = Bytes::new(Order::Little);
    b.section().interface(1, 0, &[(9, &[20])]).enhanced(0, 1, 2, b"ab");
    let (seen, source) = read(&b.out);
    assert_eq!(seen[0].0, 1000);
    assert_eq!(source.ledger().shed_for(ShedReason::UnreadableRecord).items, 1);
}

#[test]
fn pcapng_blocks_interfaces_and_sections() {
    let mut b = Bytes::new(Order::Little);
    b.section().interface(1, 3, &[]).interface(101, 0, &[]);
    b.simple(9, b"abc").simple(2, b"xy").enhanced(1, 2_000_000, 4, b"raw4");
    b.obsolete(1, 3_000_000, 5, b"five5").block(10, &|b| {
        b.raw(b"secrets");
    });
    // A new section has its own byte order and interfaces.
    b.order = Order::Big;
    b.section().interface(113, 0, &[(9, &[9])]).enhanced(0, 42, 1, b"z");
    b.enhanced(1, 0, 1, b"!");
    let (seen, source) = read(&b.out);
    assert_eq!(
        seen,
        [
            (0, 9, 1, 0, b"abc".to_vec()),
            (0, 2, 1, 0, b"xy".to_vec()),
            (2 * S, 4, 101, 1, b"raw4".to_vec()),
            (3 * S, 5, 101, 1, b"five5".to_vec()),
            (42, 1, 113, 0, b"z".to_vec()),
        ]
    );
    let bad = source.ledger().shed_for(ShedReason::UnreadableRecord);
    assert_eq!(bad, Tally::new(1, 36));
    assert_eq!(
        source.notes()[0].text,
        "bad record: its interface was not described; it is skipped"
    );
}

/// A scap file of system calls begins as pcapng does. Without this its blocks would be skipped, and the capture would be
/// complete with 0 packets.
#[test]
fn a_scap_file_is_no_capture_of_packets() {
    let mut b = Bytes::new(Order::Little);
    b.section().block(0x201, &|b| {
        b.raw(&[0; 180]);
    });
    let (frames, source) = read(&b.out);
    assert!(frames.is_empty());
    assert!(source.notes()[0].text.contains("system calls (scap)"), "{:?}", source.notes());
    assert!(!source.ledger().is_complete(), "{}", source.ledger());
    // After an interface the block is one of pcapng, which local use may have.
    let mut b = Bytes::new(Order::Little);
    b.section().interface(1, 0, &[]).block(0x201, &|b| {
        b.raw(&[0; 180]);
    });
    let (_, source) = read(&b.out);
    assert!(source.notes().is_empty() && source.ledger().is_complete());
}

#[test]
fn pcapng_statistics_report_drops() {
    let mut b = Bytes::new(Order::Little);
    b.section().interface(1, 0, &[]).interface(1, 0, &[]);
    // Statistics are totals: the last one of an interface counts.
    b.statistics(0, &[(4, 1000), (5, 3)]).statistics(0, &[(5, 5), (7, 2)]);
    b.statistics(1, &[(7, 10)]).enhanced(0, 0, 1, b"a");
    b.section().interface(1, 0, &[]).statistics(0, &[(5, 100)]);
    let (seen, source) = read(&b.out);
    assert_eq!(seen.len(), 1);
    assert_eq!(source.ledger().shed_for(ShedReason::KernelDrop), Tally::new(117, 0));
    assert_eq!(source.notes()[0].text, "its statistics report 117 frames dropped while capturing");
}

#[test]
fn pcapng_blocks_that_contradict_themselves() {
    let start = || {
        let mut b = Bytes::new(Order::Little);
        b.section().interface(1, 0, &[]).enhanced(0, 0, 1, b"a");
        b
    };
    let packet = |words: &'static [u32]| {
        move |b: &mut Bytes| {
            for w in words {
                b.u32(*w);
            }
        }
    };
    // (block, its note, whether the following block is still read)
    type Case = (Box<dyn Fn(&mut Bytes)>, &'static str, bool);
    let mut cases: Vec<Case> = vec![
        (
            Box::new(move |b| {
                b.block(6, &packet(&[0, 0, 0, 5, 5, 0]));
            }),
            "its captured length is beyond its block",
            true,
        ),
        (
            Box::new(move |b| {
                b.block(6, &packet(&[0, 0, 0, u32::MAX, 5, 0]));
            }),
            "its captured length is too large",
            true,
        ),
        (
            Box::new(move |b| {
                b.block(6, &packet(&[0, 0]));
            }),
            "its packet block is too short",
            true,
        ),
        (
            Box::new(move |b| {
                b.block(3, &packet(&[9]));
            }),
            "its captured length is beyond its block",
            true,
        ),
        (
            Box::new(move |b| {
                b.block(1, &packet(&[1]));
            }),
            "its interface description is too short",
            true,
        ),
        (
            Box::new(|b| {
                b.u32(6).u32(16).u32(0).u32(20);
            }),
            "its two block lengths differ",
            false,
        ),
        (
            Box::new(|b| {
                b.u32(6).u32(u32::MAX - 3).raw(&[0; 40]);
            }),
            "its block length is too large",
            false,
        ),
    ];
    for len in [0_u32, 8, 11, 13, 30] {
        cases.push((
            Box::new(move |b| {
                b.u32(6).u32(len).raw(&[0; 40]);
            }),
            "its block length is impossible",
            false,
        ));
    }
    for (block, why, continues) in &cases {
        let mut b = start();
        block(&mut b);
        b.enhanced(0, 0, 1, b"b");
        let (seen, source) = read(&b.out);
        assert_eq!(seen.len(), if *continues { 2 } else { 1 }, "{why}");
        assert_eq!(source.ledger().shed_for(ShedReason::UnreadableRecord).items, 1, "{why}");
        let what = if *continues { "it is skipped" } else { "the rest is not read" };
        assert_eq!(source.notes()[0].text, format!("bad record: {why}; {what}"));
    }
}

/// Returns two pieces, then fails or ends.
struct Split {
    pieces: Vec<Vec<u8>>,
    fails: bool,
}

impl Read for Split {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.pieces.first().is_some_and(Vec::is_empty) {
            self.pieces.remove(0);
        }
        match self.pieces.first_mut() {
            Some(piece) => {
                let len = piece.len().min(out.len());
                out[..len].copy_from_slice(&piece[..len]);
                piece.drain(..len);
                Ok(len)
            }
            None if self.fails => Err(io::Error::other("the cable is out")),
            None => Ok(0),
        }
    }
}

#[test]
fn any_split_of_the_input_returns_the_same_frames() {
    for (name, bytes) in build::samples() {
        let (want, whole) = read(&bytes);
        for at in 0..=bytes.len() {
            for (is_live, block_len) in [(true, 64), (false, 64), (true, 1 << 20)] {
                let pieces = vec![bytes[..at].to_vec(), bytes[at..].to_vec()];
                let reader = Box::new(Split { pieces, fails: false });
                let options = OpenOptions { block_len };
                let mut source = Source::from_reader_with(reader, is_live, options).unwrap();
                assert_eq!(drain(&mut source, 2), want, "{name}, split at {at}");
                assert_eq!(source.ledger(), whole.ledger(), "{name}, split at {at}");
                assert_eq!(source.notes(), whole.notes(), "{name}, split at {at}");
            }
        }
    }
}

/// A capture cut at any offset returns the frames before the cut, or is refused if its header is
/// cut.
#[test]
fn any_cut_returns_a_prefix_of_the_frames() {
    for (name, bytes) in build::samples() {
        let (want, _) = read(&bytes);
        for at in 0..bytes.len() {
            if fuzz_entry(&bytes[..at]).is_err() {
                assert!(at < 24, "{name}, cut at {at}");
                continue;
            }
            let (seen, source) = read(&bytes[..at]);
            assert!(want.starts_with(&seen), "{name}, cut at {at}");
            assert!(source.ledger().shed_for(ShedReason::TornFile).items <= 1);
        }
    }
}

#[test]
fn a_stream_that_breaks_is_noted_and_counted() {
    let (_, bytes) = build::samples().swap_remove(0);
    let reader = Box::new(Split { pieces: vec![bytes], fails: true });
    let mut source = Source::from_reader_with(reader, true, OpenOptions::default()).unwrap();
    assert_eq!(drain(&mut source, 100).len(), 3);
    assert_eq!(source.notes()[0].text, "unreadable from this offset on: the cable is out");
    assert_eq!(source.ledger().shed_for(ShedReason::TornFile), Tally::new(1, 0));
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzEncoder::new(bytes, flate2::Compression::fast()).read_to_end(&mut out).unwrap();
    out
}

#[test]
fn packed_captures_are_read_transparently() {
    for (name, bytes) in build::samples() {
        let (want, whole) = read(&bytes);
        for packed in [zstd::encode_all(&bytes[..], 1).unwrap(), gzip(&bytes)] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), &packed).unwrap();
            let mut source = Source::from_file(std::fs::File::open(file.path()).unwrap()).unwrap();
            assert_eq!(drain(&mut source, 2), want, "{name}");
            assert_eq!(source.ledger(), whole.ledger(), "{name}");
        }
    }
}

/// A truncated packed file returns the frames that could be unpacked.
#[test]
fn a_truncated_packed_capture_returns_its_beginning() {
    let mut b = Bytes::new(Order::Little);
    b.pcap_header(US, (2, 4), 65535, 1);
    for n in 0..20_000_u32 {
        b.record(n, 0, 60, &[(n.wrapping_mul(2_654_435_761) >> 24) as u8; 60]);
    }
    for mut packed in [zstd::encode_all(&b.out[..], 1).unwrap(), gzip(&b.out)] {
        packed.truncate(packed.len() * 2 / 3);
        let mut source = Source::from_reader(Box::new(io::Cursor::new(packed))).unwrap();
        let seen = drain(&mut source, 1000);
        assert!(seen.len() > 1000 && seen.len() < 20_000, "{}", seen.len());
        assert_eq!(source.ledger().shed_for(ShedReason::TornFile).items, 1);
        assert!(source.notes()[0].text.starts_with("unreadable from this offset on: "));
    }
}

/// Blocks do not change while a consumer holds them, and are reused otherwise.
#[test]
fn blocks_that_are_held_do_not_change() {
    let mut b = Bytes::new(Order::Little);
    b.pcap_header(US, (2, 4), 65535, 1);
    for n in 0..500_u32 {
        b.record(n, 0, 40, &[n as u8; 40]);
    }
    let options = OpenOptions { block_len: 256 };
    let reader = Box::new(io::Cursor::new(b.out));
    let mut source = Source::from_reader_with(reader, false, options).unwrap();
    let mut held = Vec::new();
    let mut refs = Vec::new();
    while let Some(block) = source.next_block(3, &mut refs) {
        held.push((block, std::mem::take(&mut refs)));
    }
    let mut n = 0_u32;
    for (block, refs) in &held {
        for r in refs {
            assert_eq!(r.frame(&block.bytes).data, [n as u8; 40]);
            n += 1;
        }
    }
    assert_eq!(n, 500);
}

/// A capture that another program shortens while it is read is one that is cut: nothing read so far is lost.
#[test]
fn a_file_that_becomes_shorter_ends_like_a_cut_one() {
    const FRAMES: usize = 4_000;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut writer = PcapWriter::new(Vec::new(), 1, Resolution::Nano, 0, u64::MAX).unwrap();
    for n in 0..FRAMES {
        let _ = writer.write(n as u64, 1, 1_000, &[7; 1_000]).unwrap();
    }
    file.write_all(&writer.finish().unwrap()).unwrap();
    let mut source = Source::from_file(file.reopen().unwrap()).unwrap();
    assert_eq!(source.len_bytes(), Some(24 + FRAMES as u64 * 1_016));
    let (mut frames, mut count) = (Vec::new(), 0);
    while let Some(block) = source.next_block(64, &mut frames) {
        if count == 0 {
            file.as_file().set_len(1 << 20).unwrap();
        }
        count += frames.drain(..).filter(|r| r.frame(&block.bytes).data == [7; 1_000]).count();
    }
    assert_eq!(count, (1 << 20) / 1_016);
    assert_eq!(source.notes_total(), 1, "{:?}", source.notes());
    source.ledger().balance().unwrap();
}

/// Two threads walk one capture independently.
#[test]
fn threads_walk_shared_bytes_with_their_own_cursors() {
    let (_, bytes) = build::samples().swap_remove(0);
    let source = Source::from_bytes(CaptureBytes::from_vec(bytes)).unwrap();
    let (bytes, cursor) = source.shared_bytes().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (bytes, mut cursor) = (std::sync::Arc::clone(bytes), cursor.clone());
            scope.spawn(move || {
                let mut frames = 0;
                while let gabion_capture::Next::Frame(_) = cursor.next(&bytes) {
                    frames += 1;
                }
                assert_eq!(frames, 3);
            });
        }
    });
}

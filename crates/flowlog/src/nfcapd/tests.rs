//! Files made here byte by byte, of both layouts, whole and damaged.

use super::*;
use crate::source::{LineRead, Lines};
use std::io::Cursor;

/// Rows of a file that comes in pieces of this many bytes, and what ended the reading.
fn rows(file: &[u8], piece: usize) -> (Vec<String>, Option<String>) {
    struct Pieces(Cursor<Vec<u8>>, usize);
    impl Read for Pieces {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let len = self.1.min(into.len());
            self.0.read(&mut into[..len])
        }
    }
    let mut lines = Lines::unpacked(Box::new(Pieces(Cursor::new(file.to_vec()), piece)));
    let mut found = Vec::new();
    loop {
        match lines.next_line() {
            LineRead::Line(from, to) => {
                found.push(String::from_utf8_lossy(&lines.text()[from..to]).into_owned());
            }
            LineRead::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(found.remove(0).as_bytes(), HEADER);
    (found, lines.error().map(ToString::to_string))
}

fn header(packing: u8) -> Vec<u8> {
    let mut file = vec![0x0c, 0xa5, 2, 0];
    file.resize(40, 0);
    file[16] = packing;
    file
}

fn block(records: u32, kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut block = records.to_le_bytes().to_vec();
    block.extend_from_slice(&u32::try_from(body.len()).unwrap().to_le_bytes());
    block.extend_from_slice(&kind.to_le_bytes());
    block.extend_from_slice(&flags.to_le_bytes());
    block.extend_from_slice(body);
    block
}

fn part(kind: u16, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len() + 4).unwrap();
    [&kind.to_le_bytes()[..], &len.to_le_bytes(), body].concat()
}

fn longs(all: &[u64]) -> Vec<u8> {
    all.iter().flat_map(|n| n.to_le_bytes()).collect()
}

/// What all flows have, of layout 2.
fn generic(first: u64, proto: u8, ports: [u16; 2], flags: u8, counts: [u64; 2]) -> Vec<u8> {
    let mut body = longs(&[first, first + 250, first + 900, counts[0], counts[1]]);
    body.extend(ports.iter().flat_map(|p| p.to_le_bytes()));
    body.extend_from_slice(&[proto, flags, 0, 0]);
    part(1, &body)
}

fn v4_part() -> Vec<u8> {
    part(2, &[2, 1, 0, 10, 4, 3, 2, 1])
}

fn record(flags: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    let body = parts.concat();
    let mut record = vec![11, 0];
    record.extend_from_slice(&u16::try_from(12 + body.len()).unwrap().to_le_bytes());
    record.extend_from_slice(&u16::try_from(parts.len()).unwrap().to_le_bytes());
    record.extend_from_slice(&[0, 0, 0, 0, flags, 1]);
    record.extend_from_slice(&body);
    record
}

const FIRST: u64 = 1_700_000_000_123;

/// Records of TCP, UDP over IPv6 with both directions and counts of 64 bits, and ICMP.
fn three() -> Vec<u8> {
    let v6 = part(3, &longs(&[0x2001_0db8_0000_0000, 1, 0x2001_0db8_0000_0000, 0xffff]));
    let back = part(5, &longs(&[1, 7, 1 << 40]));
    [
        record(0, &[generic(FIRST, 6, [4000, 443], 0x1b, [5, 600]), v4_part()]),
        record(0, &[back, v6, generic(FIRST, 17, [53, 5353], 0, [1 << 33, u64::MAX])]),
        record(0, &[generic(FIRST, 1, [0, 8 << 8 | 3], 0, [1, 84]), v4_part()]),
    ]
    .concat()
}

const ROWS: [&str; 3] = [
    "1700000000123000000,250000000,6,10.0.1.2,4000,1.2.3.4,443,...AP.SF,5,600,,",
    "1700000000123000000,250000000,17,2001:db8::1,53,2001:db8::ffff,5353,........,8589934592,9223372036854775807,7,1099511627776",
    "1700000000123000000,250000000,1,10.0.1.2,8,1.2.3.4,3,........,1,84,,",
];

#[test]
fn records_of_layout_2_in_any_packing_and_any_pieces() {
    let body = three();
    let lz4 = lz4_flex::block::compress(&body);
    let zstd = ::zstd::encode_all(body.as_slice(), 3).unwrap();
    // One run of bytes as they are.
    let mut lzo = vec![0];
    let run = body.len() - 18;
    lzo.extend(std::iter::repeat_n(0, (run - 1) / 255));
    lzo.push(u8::try_from((run - 1) % 255 + 1).unwrap());
    lzo.extend_from_slice(&body);
    lzo.extend_from_slice(&[17, 0, 0]);
    for (packing, packed) in [(0, body.clone()), (1, lzo), (3, lz4), (4, zstd)] {
        let file = [header(packing), block(3, 3, 0, &packed), block(3, 3, 1, &body)].concat();
        let wanted: Vec<String> = ROWS.iter().chain(&ROWS).map(|r| (*r).to_owned()).collect();
        for piece in [1, 7, 100_000] {
            assert_eq!(rows(&file, piece), (wanted.clone(), None), "packing {packing}");
        }
        // Cut off anywhere: whole records are there, and the rest is reported.
        for cut in 4..file.len() {
            let (found, error) = rows(&file[..cut], 1000);
            let is_between = cut == 40 || cut == 40 + 12 + packed.len();
            assert_eq!(error.is_none(), is_between, "{packing} {cut}: {error:?}");
            assert!(
                found.iter().all(|r| ROWS.contains(&r.as_str()) || r == "!bad_block"),
                "{found:?}"
            );
        }
    }
}

#[test]
fn rows_become_records() {
    for (row, (src, dst_port, orig, resp, is_established)) in ROWS.iter().zip([
        ("10.0.1.2", 443, 5, 0, true),
        ("2001:db8::1", 5353, 8_589_934_592, 7, true),
        ("10.0.1.2", 3, 1, 0, true),
    ]) {
        let r = super::record(row.as_bytes()).unwrap();
        let Body::Conn(conn) = r.body else { panic!("no flow") };
        assert_eq!(r.ts, TimeNs(1_700_000_000_123_000_000));
        assert_eq!((r.src.to_string().as_str(), r.dst_port), (src, dst_port));
        assert_eq!((conn.orig_pkts, conn.resp_pkts, conn.duration_ns), (orig, resp, 250_000_000));
        assert_eq!(conn.is_established, is_established);
        for cut in 0..row.len() {
            let _ = super::record(&row.as_bytes()[..cut]);
        }
    }
    assert_eq!(super::record(b"!no_map").unwrap_err(), Skip::NoMap);
    assert_eq!(super::record(b"!anything").unwrap_err(), Skip::NotALog);
}

/// Each record that can't be read is counted by its reason, and those around it are read.
#[test]
fn what_can_not_be_read_is_named() {
    let flow = || generic(FIRST, 6, [1, 2], 2, [1, 40]);
    let unknown_part = part(99, &[1, 2, 3, 4]);
    let beyond = [5, 0, 200, 0];
    for (bad, wanted) in [
        (record(0, &[flow()]), "!no_address"),
        (record(0, &[v4_part()]), "!no_time"),
        (record(1, &[v4_part()]), "!unused_event"),
        (record(0, &[generic(0, 6, [1, 2], 2, [1, 40]), v4_part()]), "!no_time"),
        (record(0, &[part(1, &[0; 20]), v4_part()]), "!bad_record"),
        (record(0, &[flow(), beyond.to_vec()]), "!bad_record"),
        (vec![77, 0, 8, 0, 1, 2, 3, 4], "!unknown_record"),
        (vec![10, 0, 40, 0].into_iter().chain([0; 36]).collect(), "!no_map"),
    ] {
        let body = [bad, three()].concat();
        let (found, error) = rows(&[header(0), block(4, 3, 0, &body)].concat(), 1000);
        assert_eq!((found[0].as_str(), error), (wanted, None));
        assert_eq!(found[1..], ROWS, "{wanted}");
    }
    // A part that nobody knows: the record is read without it, and it is counted.
    let body =
        record(0, &[unknown_part, generic(FIRST, 6, [4000, 443], 0x1b, [5, 600]), v4_part()]);
    let (found, _) = rows(&[header(0), block(1, 3, 0, &body)].concat(), 1000);
    assert_eq!(found, [ROWS[0], "!unknown_extension"]);
    // After a record with a length of zero the start of the next one is unknown.
    let body = [three(), vec![11, 0, 2, 0], three()].concat();
    let (found, error) =
        rows(&[header(0), block(7, 3, 0, &body), block(3, 3, 0, &three())].concat(), 99);
    assert_eq!((found.len(), error), (3 + 4 + 3, None));
    assert_eq!(found[3..7], ["!bad_record"; 4]);
}

/// A block that can't be unpacked costs its own records, whatever the packing.
#[test]
fn a_damaged_block_leaves_the_next_one() {
    for packing in 1..=4 {
        let file =
            [header(packing), block(5, 3, 0, b"nonsense"), block(3, 3, 1, &three())].concat();
        let (found, error) = rows(&file, 1000);
        assert_eq!((found.len(), error), (8, None), "{packing}");
        assert_eq!(found[..5], ["!bad_block"; 5]);
        assert_eq!(found[5..], ROWS);
    }
    let file =
        [header(0), block(2, 9, 0, b"other"), block(9, 4, 0, b"table"), block(3, 3, 0, &three())]
            .concat();
    let (found, _) = rows(&file, 1000);
    assert_eq!(found[..2], ["!unknown_block"; 2]);
    assert_eq!(found[2..], ROWS);
    // How many there were is only claimed.
    let (found, error) = rows(&[header(1), block(u32::MAX, 3, 0, &[b'x'; 100_000])].concat(), 1000);
    assert_eq!((found.len(), error), (UNREAD_RECORDS_MAX as usize, None));
    let (found, error) = rows(&[header(1), block(u32::MAX, 3, 0, b"xyz")].concat(), 1000);
    assert_eq!((found.len(), error), (3, None));
}

#[test]
fn files_that_are_not_read_say_what_to_do() {
    let mut encrypted = header(0);
    encrypted[17] = 1;
    let mut huge = [header(0), block(1, 3, 0, b"")].concat();
    huge[44..48].copy_from_slice(&u32::MAX.to_le_bytes());
    for (file, word) in [
        (vec![0x0c, 0xa5, 3, 0, 0, 0], "of layout 3"),
        (vec![0xa5, 0x0c, 0, 1, 0, 0], "in the other order"),
        (encrypted, "encrypted"),
        (header(9), "not known"),
        (huge, "it is damaged"),
        (header(0)[..20].to_vec(), "ends too early"),
    ] {
        let (_, error) = rows(&file, 1000);
        let error = error.unwrap_or_default();
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// A record of layout 1: the map first, then one of the older kind or the newer.
fn of_layout_1(
    kind: u16,
    flags: u16,
    extensions: &[u16],
    addresses: &[u8],
    counts: &[u8],
    more: &[u8],
) -> Vec<u8> {
    let mut map = vec![2, 0];
    map.extend_from_slice(&u16::try_from(8 + 2 * extensions.len() + 4).unwrap().to_le_bytes());
    map.extend_from_slice(&[5, 0, 0, 0]);
    map.extend(extensions.iter().flat_map(|e| e.to_le_bytes()));
    map.extend_from_slice(&[0; 4]);
    let fixed = if kind == 10 { 32 } else { 28 };
    let mut record = vec![0; fixed];
    record[..2].copy_from_slice(&kind.to_le_bytes());
    let len = u16::try_from(fixed + addresses.len() + counts.len() + more.len()).unwrap();
    record[2..4].copy_from_slice(&len.to_le_bytes());
    record[4..6].copy_from_slice(&flags.to_le_bytes());
    record[6] = 5;
    record[8..10].copy_from_slice(&123_u16.to_le_bytes());
    record[10..12].copy_from_slice(&373_u16.to_le_bytes());
    for at in [12, 16] {
        record[at..at + 4].copy_from_slice(&1_700_000_000_u32.to_le_bytes());
    }
    (record[21], record[22]) = (0x1b, 6);
    record[24..26].copy_from_slice(&4000_u16.to_le_bytes());
    record[26..28].copy_from_slice(&443_u16.to_le_bytes());
    [&map, &record, addresses, counts, more].concat()
}

#[test]
fn records_of_layout_1_by_their_maps() {
    let mut head = vec![0x0c, 0xa5, 1, 0];
    head.resize(276, 0);
    let v4 = [2, 1, 0, 10, 4, 3, 2, 1];
    let short_counts = [5, 0, 0, 0, 88, 2, 0, 0];
    for kind in [1, 10] {
        let plain = of_layout_1(kind, 0, &[], &v4, &short_counts, &[]);
        // Interfaces, numbers of systems and a next hop come before the counts of the other direction.
        let more =
            [&[9; 4 + 8 + 16][..], &7_u32.to_le_bytes(), &(1_u64 << 40).to_le_bytes(), &[9; 16]]
                .concat();
        let both = of_layout_1(kind, 6, &[4, 7, 10, 14, 17, 20], &v4, &longs(&[5, 600]), &more);
        let v6 = longs(&[0x2001_0db8_0000_0000, 1, 0x2001_0db8_0000_0000, 2]);
        let six = of_layout_1(kind, 1, &[99], &v6, &short_counts, &[0; 4]);
        let body = [plain, both, six].concat();
        let (found, error) = rows(&[head.clone(), block(6, 2, 0, &body)].concat(), 33);
        assert_eq!(error, None);
        assert_eq!(
            found,
            [
                ROWS[0],
                "1700000000123000000,250000000,6,10.0.1.2,4000,1.2.3.4,443,...AP.SF,5,600,7,1099511627776",
                "1700000000123000000,250000000,6,2001:db8::1,4000,2001:db8::2,443,...AP.SF,5,600,,",
                "!unknown_extension",
            ],
            "kind {kind}"
        );
        let cut = &body[..body.len() - 1];
        assert_eq!(
            rows(&[&head[..], &block(6, 2, 0, cut)].concat(), 99).0.last().unwrap(),
            "!bad_record"
        );
    }
    // Flags of the file: LZO, bzip2, LZ4.
    let body = of_layout_1(10, 0, &[], &v4, &short_counts, &[]);
    head[4] = 0x10;
    let packed = lz4_flex::block::compress(&body);
    assert_eq!(rows(&[&head[..], &block(2, 2, 2, &packed)].concat(), 99).0, [ROWS[0]]);
    assert_eq!(rows(&[&head[..], &block(2, 2, 1, &body)].concat(), 99).0, [ROWS[0]]);
}

/// Beyond the limits of maps, and of extensions in one, records are skipped or lack what comes after.
#[test]
fn maps_beyond_their_limits_are_counted() {
    use crate::limits::{EXTENSION_MAPS_MAX, EXTENSIONS_MAX, reached};
    let mut maps = Maps::default();
    let map = |number: usize, extensions: usize| {
        let mut record = vec![2, 0, 0, 0];
        record.extend_from_slice(&u16::try_from(number).unwrap().to_le_bytes());
        record.extend_from_slice(&[0, 0]);
        record.extend((0..extensions).flat_map(|_| [8, 0]));
        record
    };
    for number in 0..EXTENSION_MAPS_MAX + 3 {
        assert_eq!(record::parse_record(&map(number, 1), &mut maps), (Found::Nothing, false));
    }
    assert_eq!(
        gabion_record::limits::take_reached().times_reached(&reached::EXTENSION_MAPS_MAX),
        3
    );
    record::parse_record(&map(0, EXTENSIONS_MAX + 1), &mut maps);
    assert_eq!(gabion_record::limits::take_reached().times_reached(&reached::EXTENSIONS_MAX), 1);
}

/// What nfdump 1.7.1 wrote of the demonstration's capture, compressed in each of its ways, is the same.
#[test]
fn files_that_nfdump_packed_hold_the_same() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/nfcapd");
    let read = |name: &str| rows(&std::fs::read(folder.join(name)).unwrap(), 4096);
    let [lzo, bz2, lz4] = ["demo.lzo", "demo.bz2", "demo.lz4"].map(read);
    assert_eq!((lzo.0.len(), &lzo.1), (431, &None));
    assert_eq!(lzo.0[0], "1795260390865000000,0,1,10.20.0.50,8,10.20.0.10,0,........,1,84,,");
    assert!(lzo.0.iter().all(|row| super::record(row.as_bytes()).is_ok()));
    assert_eq!(bz2, lzo);
    assert_eq!(lz4, lzo);
}

/// Of a flow whose packing says more than any block may hold, nothing is kept.
#[test]
fn a_block_that_unpacks_to_too_much_is_refused() {
    let much = vec![0; BLOCK_MAX + 1];
    let zstd = ::zstd::encode_all(much.as_slice(), 3).unwrap();
    let lz4 = lz4_flex::block::compress(&much);
    for (packing, packed) in [(4, zstd), (3, lz4)] {
        let (found, error) = rows(&[header(packing), block(1, 3, 0, &packed)].concat(), 1 << 20);
        assert_eq!((found, error), (vec!["!bad_block".to_owned()], None), "{packing}");
    }
}

//! Tests of the reader and the writer of recordings.

use super::*;
use proptest::prelude::*;

const TEXT: &str = "# budget_percent=30\nt_ms,cpu,rx_us,strange,user_gap_us\n0,0,12,9,\n0,1,1300,9,700\n\
                    4,0,x,9,\n4,1\n4,1,1,2,3,4\n";

fn read_recording(files: &[&[u8]], piece: usize) -> Result<Recording, Error> {
    let mut reader = Reader::new();
    for file in files {
        for part in file.chunks(piece.max(1)) {
            reader.feed(part)?;
        }
        reader.end_file()?;
    }
    reader.finish()
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut packer = Packer::new().unwrap();
    packer.pack(text, &mut out).unwrap();
    packer.finish(&mut out).unwrap();
    out
}

#[test]
fn columns_are_found_by_name_and_wrong_lines_are_counted() {
    let recording = read_recording(&[TEXT.as_bytes()], 1000).unwrap();
    assert_eq!(recording.head_value("budget_percent"), Some("30"));
    assert_eq!((recording.buckets.len(), recording.lines_skipped), (3, 2));
    assert!(!recording.is_torn);
    let row = recording.buckets[1];
    assert_eq!(
        (row.cpu, row.get(Column::RxUs), row.get(Column::UserGapUs)),
        (1, Some(1300), Some(700))
    );
    assert_eq!(recording.buckets[0].get(Column::UserGapUs), None, "an empty cell is no value");
    assert!(recording.columns.has(Column::RxUs) && !recording.columns.has(Column::TxUs));
}

/// Nothing measures 2^32 microseconds of work in a bucket; such a row would name a cause by itself.
#[test]
fn numbers_that_do_not_fit_make_no_row() {
    let text = "t_ms,cpu,rx_us\n0,0,4000\n4,0,4294967296\n8,0,99999999999999999999\n\
        99999999999999999999,0,1\n12,0,7\n";
    let recording = read_recording(&[text.as_bytes()], 1000).unwrap();
    assert_eq!((recording.buckets.len(), recording.lines_skipped), (2, 3));
    assert_eq!(recording.buckets[1].get(Column::RxUs), Some(7));
    let xdp = "t_ms,pass\n4,99999999999999999999\n8,9\n";
    let recording = read_recording(&[text.as_bytes(), xdp.as_bytes()], 1000).unwrap();
    assert_eq!((recording.xdp.len(), recording.lines_skipped), (1, 4));
}

#[test]
fn a_pair_of_files_is_one_recording() {
    let xdp = "t_ms,pass,new_flows\n2.98,5,1\n12.1,9,1\n";
    let recording = read_recording(&[TEXT.as_bytes(), &packed(xdp.as_bytes())], 7).unwrap();
    assert_eq!(recording.xdp.len(), 2);
    assert_eq!(recording.xdp[0].at_us, 2980);
    let since = recording.xdp[1].since(recording.xdp.first(), XdpColumn::Pass);
    assert_eq!(since, 4);
    assert!(recording.xdp_columns.has(XdpColumn::NewFlows));
}

#[test]
fn a_torn_file_is_read_up_to_there() {
    let rows: String = (0..60_000).map(|n| format!("{},0,{}\n", n * 4, n % 977)).collect();
    let text = format!("t_ms,cpu,rx_us\n{rows}");
    let whole = packed(text.as_bytes());
    let torn = &whole[..whole.len() - 20];
    let recording = read_recording(&[torn], 1000).unwrap();
    assert!(recording.is_torn);
    assert!((10_000..60_000).contains(&recording.buckets.len()), "{}", recording.buckets.len());
    let recording = read_recording(&[&text.as_bytes()[..text.len() - 2]], 1000).unwrap();
    assert_eq!((recording.is_torn, recording.buckets.len()), (true, 59_999));
    let mut broken = whole.clone();
    let middle = broken.len() - 30;
    broken[middle..].fill(0xff);
    assert!(read_recording(&[&broken], 1000).unwrap().is_torn);
}

/// However a damaged file is cut, the same rows are read of it: two frames of several blocks each, and bytes that are wrong
/// anywhere in them.
#[test]
fn a_damaged_file_is_the_same_in_any_pieces() {
    let rows = |from: u64| -> String {
        (from..from + 20_000).map(|n| format!("{},0,{}\n", n * 4, n * 7_919 % 9_973)).collect()
    };
    let first = packed(format!("t_ms,cpu,rx_us\n{}", rows(0)).as_bytes());
    let whole = [&first[..], &packed(rows(20_000).as_bytes())].concat();
    let buckets = |file: &[u8], piece: usize| {
        read_recording(&[file], piece).ok().map(|r| (r.buckets.len(), r.is_torn))
    };
    assert_eq!(buckets(&whole, whole.len()), Some((40_000, false)));
    let mut kept = Vec::new();
    for part in 0..12 {
        let mut broken = whole.clone();
        let at = part * whole.len() / 12 + 5;
        broken[at] ^= 0x55;
        let read = buckets(&broken, broken.len());
        for piece in [1, 41, 70_000] {
            assert_eq!(buckets(&broken, piece), read, "byte {at} in pieces of {piece}");
        }
        kept.extend(read);
    }
    assert!(kept.iter().any(|(rows, is_torn)| *is_torn && (1..20_000).contains(rows)));
}

#[test]
fn what_is_no_recording_is_refused() {
    assert!(matches!(read_recording(&[b"a,b\n1,2\n"], 9), Err(Error::NoColumns)));
    assert!(matches!(read_recording(&[b""], 9), Err(Error::NoColumns)));
    assert!(matches!(read_recording(&[b"t_ms,cpu\n"], 9), Err(Error::Empty)));
    let mut wrong = [0xff; 40];
    wrong[..4].copy_from_slice(&[0x28, 0xb5, 0x2f, 0xfd]);
    assert!(matches!(read_recording(&[&wrong], 9), Err(Error::Packed(_))));
    assert!(matches!(read_recording(&[&[b'a'; 9000]], 9000), Err(Error::NoColumns)));
}

#[test]
fn a_window_beyond_the_limit_is_refused() {
    // A frame header that asks for a window of 2 GB (RFC 8878, 3.1.1.1.2).
    let frame = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00];
    assert!(matches!(read_recording(&[&frame], 9), Err(Error::Packed(_))));
}

#[test]
fn limits_are_counted() {
    let _ = gabion_record::limits::take_reached();
    let long = "1".repeat(LONG);
    let many: String = (0..70).map(|n| format!(",c{n}")).collect();
    let heads: String = (0..70).map(|n| format!("# k{n}=1\n")).collect();
    let text = format!("{heads}t_ms,cpu{many}\n0,0,{long}\n0,9000{}\n", ",1".repeat(70));
    let recording = read_recording(&[text.as_bytes()], 100);
    assert!(matches!(recording, Err(Error::Empty)));
    let counts = gabion_record::limits::take_reached();
    assert_eq!(counts.times_reached(&reached::LINE_MAX), 1);
    assert_eq!(counts.times_reached(&reached::COLUMNS_MAX), 8);
    assert_eq!(counts.times_reached(&reached::HEAD_LINES_MAX), 6);
    assert_eq!(counts.times_reached(&reached::CPUS_MAX), 1);
}

const LONG: usize = crate::limits::LINE_MAX + 1;

#[test]
fn rows_beyond_the_limits_are_counted_and_shed() {
    let _ = gabion_record::limits::take_reached();
    let mut recording = Recording::default();
    for n in 0..=ROWS_MAX as u64 {
        recording.push_bucket(Bucket::new(n * 4000, 0));
    }
    for n in 0..=XDP_ROWS_MAX as u64 {
        recording.push_xdp(XdpRow::new(n * 8000));
    }
    assert_eq!((recording.buckets.len(), recording.xdp.len()), CAPACITY);
    assert_eq!(recording.rows_shed, 2);
    let counts = gabion_record::limits::take_reached();
    assert_eq!(
        (counts.times_reached(&reached::ROWS_MAX), counts.times_reached(&reached::XDP_ROWS_MAX)),
        (1, 1)
    );
}

fn any_bucket() -> impl Strategy<Value = Bucket> {
    let values = prop::collection::vec(prop::option::of(any::<u32>()), Column::ALL.len());
    (0u64..1 << 50, 0u16..8000, values).prop_map(|(at_us, cpu, values)| {
        let mut row = Bucket::new(at_us, cpu);
        for (column, value) in Column::ALL.iter().zip(values) {
            if let Some(value) = value {
                row.set(*column, value);
            }
        }
        row
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_whatever_the_pieces(
        rows in prop::collection::vec(any_bucket(), 1..40),
        piece in 1usize..300,
        is_packed: bool,
    ) {
        let mut columns = Columns::default();
        Column::ALL.iter().for_each(|column| columns.insert(*column));
        let mut text = Vec::new();
        write_head(&[("interface", "eth0")], &mut text);
        write_bucket_columns(columns, &mut text);
        rows.iter().for_each(|row| write_bucket(row, columns, &mut text));
        let bytes = if is_packed { packed(&text) } else { text };
        let got = read_recording(&[&bytes], piece).unwrap();
        let mut expected = Recording { buckets: rows, columns, ..Recording::default() };
        expected.head.push(("interface".to_owned(), "eth0".to_owned()));
        expected.sort();
        prop_assert_eq!(got, expected);
    }

    #[test]
    fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), piece in 1usize..100) {
        let _ = read_recording(&[&bytes], piece);
        let mut text = b"t_ms,cpu,rx_us,user_gap_us\n".to_vec();
        text.extend_from_slice(&bytes);
        let _ = read_recording(&[&text], piece);
    }
}

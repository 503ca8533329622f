//! Tests of header compression.

use super::*;

fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> Vec<(String, String)> {
    let mut list = HeaderList::default();
    decoder.decode_block(block, &mut list).unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    list.iter().map(|(_, name, value)| (text(name), text(value))).collect()
}

/// RFC 7541 C.1.
#[test]
fn integers_are_decoded() {
    for (bytes, bits, expected) in [
        (&b"\x0a"[..], 5, Some(10)),
        (b"\x1f\x9a\x0a", 5, Some(1337)),
        (b"\x2a", 8, Some(42)),
        (b"\x1f", 5, None),
        (b"\x1f\xff", 5, None),
        (b"\x1f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 5, Some(0)),
        (b"\x1f\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 5, Some(31)),
    ] {
        assert_eq!(decode_integer(&mut &bytes[..], bits), expected, "{bytes:x?}");
    }
}

/// RFC 7541 C.4: three requests of one connection.
#[test]
fn requests_of_a_connection_share_a_table() {
    let mut d = HpackDecoder::new(65_536);
    let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
    };
    let host = (":authority", "www.example.com");
    let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    let common = [(":method", "GET"), (":scheme", "http"), (":path", "/"), host];
    assert_eq!(decoded(&mut d, first), of(&common));
    assert_eq!(d.held, 57);
    let second = b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf";
    let cache = ("cache-control", "no-cache");
    assert_eq!(decoded(&mut d, second), of(&[&common[..], &[cache]].concat()));
    let third = b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
    let expected = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        host,
        ("custom-key", "custom-value"),
    ];
    assert_eq!(decoded(&mut d, third), of(&expected));
    assert_eq!(d.held, 164);
    // RFC 7541 6.3: a size of 0 empties the table.
    decoded(&mut d, b"\x20");
    assert_eq!((d.held, d.entries.len()), (0, 0));
}

/// What Suricata 8.0.7 logs of a block with such fields.
#[test]
fn faults_are_fields() {
    let mut d = HpackDecoder::new(65_536);
    let mut list = HeaderList::default();
    let faults = d.decode_block(b"\x80\xff\x01\x7f\x20\x01v\x3f\xd1\xa2\x04", &mut list);
    assert_eq!(faults.unwrap().bad_indices, 2);
    let kinds: Vec<FieldKind> = list.iter().map(|f| f.0).collect();
    let expected = [
        FieldKind::Error(IndexError::Zero),
        FieldKind::Error(IndexError::NotIndexed),
        FieldKind::Named,
        FieldKind::SizeUpdate(70_000),
    ];
    assert_eq!(kinds, expected);
    assert_eq!((d.capacity, d.overflow), (70_000, Overflow::Possible));
    assert_eq!(list.nth(2).unwrap().2, b"v");
    assert_eq!(d.decode_block(b"\x82\0\x05ab", &mut list), Err(CutBlock));
    assert_eq!(list.fields.len(), 4);
}

/// A field of 200 bytes in the table, which is added to it.
fn field(name: u32) -> Vec<u8> {
    [format!("\x40\x05{name:05}\x7f\x24").as_bytes(), &[b'v'; 163]].concat()
}

/// The first entries of a table that is larger than what is kept stay (measured with Suricata 8.0.7).
#[test]
fn first_entries_of_a_table_that_is_too_large_stay() {
    let mut d = HpackDecoder::new(1000);
    let mut overflows = |block: &[u8]| {
        let faults = d.decode_block(block, &mut HeaderList::default()).unwrap();
        let at = |d: &HpackDecoder, n| {
            d.entry(n).map(|(_, name, _)| String::from_utf8(name.to_vec()).unwrap())
        };
        (faults.has_overflowed, at(&d, 62), d.entries.len(), d.counted)
    };
    let fields = |numbers: std::ops::Range<u32>| numbers.flat_map(field).collect::<Vec<u8>>();
    let size_3000 = b"\x3f\x99\x17";
    let five = [&size_3000[..], &fields(0..5)].concat();
    assert_eq!(overflows(&five), (false, Some("00004".into()), 5, 1000));
    assert_eq!(overflows(&fields(5..7)), (true, Some("00004".into()), 5, 1400));
    // It is an event once, and entries that are not kept still make others leave.
    assert_eq!(overflows(&fields(7..16)), (false, Some("00004".into()), 4, 3000));
    assert_eq!(overflows(&fields(16..30)), (false, None, 0, 5000));
    // The table has no place as long as the sender's has more than the new size.
    let size_1000 = b"\x3f\xc9\x07";
    assert_eq!(overflows(&[&size_1000[..], &fields(30..33)].concat()), (false, None, 0, 5000));
}

/// What a block that is passed over leaves in the table is what a decoded one does, whole, cut or wrong.
#[test]
fn passed_over_blocks_leave_the_same_table() {
    let mut state = 7_u64;
    let mut random = move |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for capacity in [0, 100, 4096] {
        let (mut decoded, mut passed) = (HpackDecoder::new(capacity), HpackDecoder::new(capacity));
        for _ in 0..3000 {
            let mut block = Vec::new();
            for _ in 0..random(6) {
                match random(6) {
                    0 => block.push(0x80 | random(128) as u8),
                    1 => block.push(0x20 | random(32) as u8),
                    2 => block.extend([0x3f, random(256) as u8, random(128) as u8]),
                    3 => block.extend([0x40 | random(64) as u8, 2, b'a', b'b', 1, b'c']),
                    4 => block.extend([random(16) as u8, 0x82, 0xff, random(256) as u8, 0]),
                    _ => block.extend([0x40, 1, b'a' + random(20) as u8, 3, b'x', b'y', b'z']),
                }
            }
            block.truncate(random(40) as usize);
            let made = decoded.made;
            let _ = decoded.decode_block(&block, &mut HeaderList::default());
            decoded.made = made;
            passed.pass_over(&block);
            let table = |d: &HpackDecoder| {
                let entries = d.entries.iter().map(|e| (e.id, e.name.clone(), e.value.clone()));
                (entries.collect::<Vec<_>>(), d.next_id, d.held, d.capacity, d.made)
            };
            assert_eq!(table(&decoded), table(&passed), "{block:x?}");
        }
    }
}

/// Suricata 8.0.7 logs a name of the dynamic table once, whatever its values.
#[test]
fn names_of_the_table_are_logged_once() {
    let mut d = HpackDecoder::new(65_536);
    let mut list = HeaderList::default();
    d.decode_block(b"\x40\x01k\x011\xbe\x7e\x012\x82\x82", &mut list).unwrap();
    let all: Vec<&[u8]> = list.iter().map(|f| f.2).collect();
    assert_eq!(all, [&b"1"[..], b"1", b"2", b"GET", b"GET"]);
    let once: Vec<&[u8]> = list.iter_once().map(|f| f.2).collect();
    assert_eq!(once, [&b"1"[..], b"GET", b"GET"]);
}

/// An entry of a whole table, named by a byte each time: it is held once, and what it stands for is bounded.
#[test]
fn a_bomb_is_bounded() {
    let mut d = HpackDecoder::new(65_536);
    let mut block = b"\x40\x01n\x7f\xff\x1d".to_vec();
    block.extend([b'v'; 3966]);
    block.extend([0xbe; 90_000]);
    d.allow_for(block.len() as u64);
    let mut list = HeaderList::default();
    d.decode_block(&block, &mut list).unwrap();
    // A record has the name once.
    assert_eq!(list.iter_once().count(), 1);
    let bound = DECODED_BYTES_MAX + DECODED_BYTES_FROM_ONE * block.len() as u64 + 4000;
    let shown: usize = list.iter().map(|f| f.1.len() + f.2.len()).sum();
    assert_eq!(shown, list.text_len());
    assert!((500_000..bound).contains(&(shown as u64)), "{shown}");
    assert!(list.bytes_held() < 20_000, "{}", list.bytes_held());
    assert!(gabion_record::limits::take_reached().times_reached(&reached::DECODED_BYTES_MAX) > 0);
    // What is not decoded is not known as an error either, and a block that is passed over costs nothing.
    let mut rest = HeaderList::default();
    assert_eq!(d.decode_block(b"\xbe", &mut rest), Ok(BlockFaults::default()));
    assert!(rest.is_empty());
    d.allow_for(2 * block.len() as u64);
    let made = d.made;
    d.pass_over(&[0xbe; 100]);
    assert_eq!(d.made, made);
    d.decode_block(b"\xbe", &mut rest).unwrap();
    assert_eq!(rest.nth(0).map(|f| f.2.len()), Some(3966));
}

/// Whatever takes a byte is held in a few.
#[test]
fn fields_of_a_byte_are_held_in_a_few() {
    for byte in [0x80_u8, 0x82, 0xbd, 0xbe, 0xbf, 0xc0, 0xfe, 0x20, 0x3e] {
        let mut d = HpackDecoder::new(65_536);
        d.allow_for(1 << 20);
        let mut list = HeaderList::default();
        d.decode_block(b"\x40\x01a\x01b\x40\x01c\x01d", &mut list).unwrap();
        d.decode_block(&[byte; 50_000], &mut list).unwrap();
        assert_eq!(list.len(), 50_002);
        assert!(list.bytes_held() < 700_000, "{byte:x} {}", list.bytes_held());
        let last =
            |n: usize| list.nth(n).map(|(kind, name, value)| (kind, name.to_vec(), value.to_vec()));
        assert_eq!(last(2), last(50_001), "{byte:x}");
    }
}

/// Fields are found by their names, whether or not the names are indexed, and those of a block that is cut are
/// not found.
#[test]
fn fields_are_found_by_name() {
    let mut decoder = HpackDecoder::new(4096);
    let mut list = HeaderList::default();
    // :method GET, :path /, then host and an own name, both as literals.
    let block = b"\x82\x84\x00\x04host\x01a\x00\x01x\x01y";
    for n in 0..50 {
        let cut = [&block[..], b"\x00\x04host\x09b"].concat();
        assert_eq!(decoder.decode_block(&cut, &mut list), Err(CutBlock));
        assert!(decoder.decode_block(block, &mut list).is_ok());
        assert_eq!(list.len(), 4 * (n + 1));
        // Size updates and errors have no name.
        list.push(FieldKind::SizeUpdate(1), b"", b"");
        let mut before = list.extent();
        before.places[0] -= 1;
        before.places[1] -= 1;
        list.truncate(before);
        for (name, value) in [(":method", "GET"), (":path", "/"), ("host", "a"), ("x", "y")] {
            let values: Vec<&[u8]> = list.values(name.as_bytes()).collect();
            assert_eq!(values, vec![value.as_bytes(); n + 1], "{name}");
            assert_eq!(list.first(name.as_bytes()), Some(value.as_bytes()));
        }
        assert_eq!(list.first(b"cookie"), None);
        assert_eq!(list.first(b""), None);
        let before = list.len() - 4;
        assert_eq!(list.has_first_from(before, &[b"host", b"cookie"]), n == 0);
    }
    list.push(FieldKind::Named, b"cookie", b"c");
    assert!(list.has_first_from(200, &[b"host", b"cookie"]));
    assert_eq!(list.first(b"cookie"), Some(&b"c"[..]));
}

//! Attacks on the files, by anybody who can write to the disk.

use super::support::{Log, SECOND};
use super::{Threat, judged};
use gabion_seal::format::Builder;
use gabion_seal::format::chunk::{self, FLAG_CLEAR, Manner, Place, Sealer, flipped_field};
use gabion_seal::format::data_key::ClassKeys;
use gabion_seal::format::index;
use gabion_seal::format::tree::sha256;
use gabion_seal::format::walk::Item;
use gabion_seal::storage::Storage;
use gabion_seal::verify::Report;
use gabion_seal::verify::Verdict::{Incomplete, Tampered, TornTail, Unanchored, Unsupported};
use gabion_seal::{Flags, Kind, Record, Source, Transport};

pub(crate) fn rows() -> Vec<Threat> {
    vec![
        Threat {
            number: 1,
            attack: "flip any bit of a signed chunk's content",
            by: "D",
            verdict: "TAMPERED",
            place: "segment, byte, chunk, records; other chunks stay readable",
            exit: "20",
            residual: "",
            run: flipped_content,
        },
        Threat {
            number: 2,
            attack: "flip any bit of a chunk's head",
            by: "D",
            verdict: "TAMPERED",
            place: "chunk, and the field",
            exit: "20",
            residual: "",
            run: flipped_head,
        },
        Threat {
            number: 3,
            attack: "flip any bit of a segment's header, with and without correcting its own hash",
            by: "D",
            verdict: "TAMPERED; another version with its hash corrected: UNSUPPORTED",
            place: "segment",
            exit: "20 (25)",
            residual: "",
            run: flipped_header,
        },
        Threat {
            number: 4,
            attack: "cut a chunk out, bytes closed up",
            by: "D",
            verdict: "TAMPERED",
            place: "first missing chunk and its records",
            exit: "20",
            residual: "",
            run: cut_out,
        },
        Threat {
            number: 5,
            attack: "swap two chunks; repeat a chunk",
            by: "D",
            verdict: "TAMPERED",
            place: "first wrong chunk",
            exit: "20",
            residual: "",
            run: swapped,
        },
        Threat {
            number: 6,
            attack: "put in a chunk of another segment, or of another log with the same readers",
            by: "D, P",
            verdict: "TAMPERED",
            place: "chunk",
            exit: "20",
            residual: "",
            run: foreign,
        },
        Threat {
            number: 7,
            attack: "insert a self-made chunk under the real data key; append one and let the writer start; the same with garbage and a right check value",
            by: "P; D",
            verdict: "TAMPERED; appended: TORN-TAIL, and recovery cuts it instead of signing it",
            place: "chunk",
            exit: "20 / 12",
            residual: "",
            run: self_made,
        },
        Threat {
            number: 8,
            attack: "edit a record, encrypt it again and correct the head",
            by: "P",
            verdict: "TAMPERED",
            place: "chunk",
            exit: "20",
            residual: "",
            run: edited,
        },
        Threat {
            number: 9,
            attack: "delete a middle segment",
            by: "D",
            verdict: "INCOMPLETE",
            place: "chunks and records that are missing",
            exit: "23",
            residual: "",
            run: middle_deleted,
        },
        Threat {
            number: 10,
            attack: "give a segment another number; copy one under two",
            by: "D",
            verdict: "TAMPERED",
            place: "file",
            exit: "20",
            residual: "",
            run: renamed,
        },
        Threat {
            number: 30,
            attack: "decompression bomb, false plain length, varints without end, 65,535 sources",
            by: "P, S",
            verdict: "TAMPERED, in bounded memory",
            place: "chunk",
            exit: "20",
            residual: "",
            run: bombs,
        },
        Threat {
            number: 34,
            attack: "damage the index at a segment's end; forge one under the real key that hides chunks",
            by: "D; P",
            verdict: "OK and a warning, results unchanged; forged: a warning with a reader's key",
            place: "segment, byte, first chunk left out",
            exit: "0",
            residual: "without a key only the form of an index is seen: a bit flipped in its encrypted part is not",
            run: forged_index,
        },
        Threat {
            number: 37,
            attack: "a version or flag of the future",
            by: "D",
            verdict: "UNSUPPORTED, never OK",
            place: "file",
            exit: "25",
            residual: "",
            run: future,
        },
        Threat {
            number: 40,
            attack: "offer an unsigned folder, or one of another program, as a log",
            by: "O, D",
            verdict: "INCOMPLETE, never OK",
            place: "log.id",
            exit: "23",
            residual: "",
            run: no_log,
        },
    ]
}

fn flipped_content() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let chunks = log.chunks(&name);
    let (range, header) =
        chunks.iter().find(|(_, h)| !h.is_clear() && h.records > 1).unwrap().clone();
    for at in (range.start + chunk::HEADER_LEN..range.end).step_by(97).chain([range.end - 1]) {
        let log = log.copy();
        log.change(&name, |b| b[at] ^= 0x10);
        let chunk = format!("chunk {}", header.index);
        let records = format!("records {} to {}", header.first_record, header.next_record() - 1);
        judged(&log.verify(), Tampered, 20, &[&name, &chunk, &records]);
        // With the key, everything else is opened still.
        let report = log.verify_open();
        judged(&report, Tampered, 20, &[&name, &chunk]);
        assert_eq!(report.opened_records, report.records - u64::from(header.records));
    }
}

fn flipped_head() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let (range, header) = log.chunks(&name)[2].clone();
    let bytes = log.get(&name);
    // Every byte, a bit of each.
    for bit in (0..chunk::HEADER_LEN).map(|byte| byte * 8 + byte % 8) {
        let log = log.copy();
        let mut bytes = bytes.clone();
        bytes[range.start + bit / 8] ^= 1 << (bit % 8);
        let head = bytes[range.start..range.start + chunk::HEADER_LEN].to_vec();
        log.put(&name, &bytes);
        let report = log.verify();
        let chunk = format!("chunk {}", header.index);
        // A flipped magic is no chunk at all; a flipped body hash is a body that differs from it; any
        // other field is named.
        let names = match flipped_field(&head) {
            Some("magic") | None => vec![name.as_str(), &chunk],
            Some(field) => vec![name.as_str(), &chunk, field],
        };
        judged(&report, Tampered, 20, &names);
    }
}

fn flipped_header() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let bytes = log.get(&name);
    for at in 0..200 {
        for is_corrected in [false, true] {
            let log = log.copy();
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x20;
            if is_corrected {
                let own = sha256(&bytes[..168]);
                bytes[168..200].copy_from_slice(&own);
            }
            log.put(&name, &bytes);
            let report = log.verify();
            let is_choice = is_corrected && matches!(at, 8 | 9 | 12..=15 | 96..=103);
            if is_corrected && at >= 168 {
                judged(&report, Unanchored, 10, &[]);
            } else if is_choice {
                let verdict =
                    if report.verdicts.contains(&Unsupported) { Unsupported } else { Tampered };
                judged(&report, verdict, verdict.code(), &[&name]);
            } else {
                judged(&report, Tampered, 20, &[]);
            }
        }
    }
    // A major version with its hash corrected is another format, not damage.
    let log = log.copy();
    log.change(&name, |b| {
        b[9] = 2;
        let own = sha256(&b[..168]);
        b[168..200].copy_from_slice(&own);
    });
    judged(&log.verify(), Unsupported, 25, &[&name, "version 2"]);
}

fn cut_out() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let chunks = log.chunks(&name);
    let (range, header) = chunks[2].clone();
    log.change(&name, |b| drop(b.drain(range)));
    let chunk = format!("chunk {}", header.index);
    let records = format!("record{}", if header.records == 1 { "" } else { "s" });
    judged(
        &log.verify(),
        Tampered,
        20,
        &[&name, &chunk, &records, &header.first_record.to_string()],
    );
}

fn swapped() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    // Two neighbours without a mark between them, and any two.
    let chunks = log.chunks(&name);
    for (a, b) in [(1, 2), (2, 5)] {
        let log = log.copy();
        let (one, other) = (chunks[a].0.clone(), chunks[b].0.clone());
        log.change(&name, |bytes| {
            let mut out = bytes[..one.start].to_vec();
            out.extend_from_slice(&bytes[other.clone()]);
            out.extend_from_slice(&bytes[one.end..other.start]);
            out.extend_from_slice(&bytes[one.clone()]);
            out.extend_from_slice(&bytes[other.end..]);
            *bytes = out;
        });
        judged(&log.verify(), Tampered, 20, &[&format!("chunk {}", chunks[a].1.index)]);
    }
    let one = chunks[3].0.clone();
    log.change(&name, |bytes| {
        let repeated = bytes[one.clone()].to_vec();
        bytes.splice(one.end..one.end, repeated);
    });
    judged(&log.verify(), Tampered, 20, &[&format!("chunk {}", chunks[3].1.index + 1)]);
}

fn foreign() {
    let log = Log::filled();
    let names = log.segments();
    let target = log.chunks(&names[0])[2].clone();
    let of_another_segment = {
        let other = log.chunks(&names[1]);
        let (range, _) = other.iter().find(|(_, h)| !h.is_clear()).unwrap().clone();
        log.get(&names[1])[range].to_vec()
    };
    // The same place in another log: index and record numbers fit, the log does not.
    let mut other = Log::named("log.example/other");
    other.keys = [gabion_seal::SecretKey::parse_file(&log.keys[0].to_text().unwrap()).unwrap()];
    let mut writer = other.open();
    other.fill(&mut writer, 200);
    writer.close(other.now).unwrap();
    let of_another_log = {
        let name = other.segments()[0].clone();
        let (range, _) = other.chunks(&name)[2].clone();
        other.get(&name)[range].to_vec()
    };
    for chunk in [of_another_segment, of_another_log] {
        let log = log.copy();
        log.change(&names[0], |b| drop(b.splice(target.0.clone(), chunk.clone())));
        judged(&log.verify(), Tampered, 20, &[&format!("chunk {}", target.1.index)]);
        judged(&log.verify_open(), Tampered, 20, &[&format!("chunk {}", target.1.index)]);
    }
}

/// A chunk as the writer would make it, by one who has the data key.
fn forged(log: &Log, name: &str, place: &Place, text: &[u8]) -> Vec<u8> {
    let header = log.header(name);
    let keys = ClassKeys::of_segment(&header, &log.data_key(name)).unwrap();
    let mut builder = Builder::new();
    let source = Source::new(Transport::Tcp, 1, "192.0.2.66:1", "");
    let record =
        Record { time_ns: log.now, kind: Kind::Message, flags: Flags::default(), bytes: text };
    builder.push(&record, &source).unwrap();
    let mut sealer =
        Sealer::new(Manner { level: Some(-1), is_padded: false, is_rounded: false }).unwrap();
    let mut out = Vec::new();
    sealer.seal(&builder, place, &keys, &sha256(&header.encode()), &mut out).unwrap();
    out
}

fn self_made() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let (range, header) = log.chunks(&name)[3].clone();
    let place =
        Place { index: header.index, first_record: header.first_record, ..Place::default() };
    let chunk = forged(&log, &name, &place, b"made by the attacker");
    let inserted = log.copy();
    inserted.change(&name, |b| drop(b.splice(range.start..range.start, chunk.clone())));
    judged(&inserted.verify(), Tampered, 20, &[&format!("chunk {}", header.index + 1)]);
    judged(&inserted.verify_open(), Tampered, 20, &[&format!("chunk {}", header.index + 1)]);
    // At the end: as good as the writer's own, but no commit mark covers it.
    let mut log = Log::new();
    let mut writer = log.open();
    log.fill(&mut writer, 100);
    drop(writer);
    let name = log.segments()[0].clone();
    let last = log.chunks(&name).pop().unwrap().1;
    let place =
        Place { index: last.index + 1, first_record: last.next_record(), ..Place::default() };
    let garbage = {
        let mut header =
            chunk::Header { body_len: 100, plain_len: 500, records: 1, ..last.clone() };
        (header.index, header.first_record) = (place.index, place.first_record);
        let mut bytes = header.encode().to_vec();
        bytes.extend_from_slice(&[0x5a; 100]);
        bytes
    };
    for chunk in [forged(&log, &name, &place, b"made by the attacker"), garbage] {
        let log = log.copy();
        log.change(&name, |b| b.extend_from_slice(&chunk));
        judged(&log.verify(), TornTail, 12, &[&name]);
        let writer = log.open();
        writer.close(log.now + SECOND).unwrap();
        let report = log.verify_open();
        judged(&report, Unanchored, 10, &[]);
        assert!(
            report.notes.iter().any(|n| n.contains("cut off after a crash")),
            "{:?}",
            report.notes
        );
        let bytes = log.get(&name);
        assert!(!bytes.windows(chunk.len()).any(|w| w == chunk), "cut off, not signed");
    }
}

fn edited() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let (range, header) = log.chunks(&name)[3].clone();
    let place = Place {
        index: header.index,
        first_record: header.first_record,
        epoch: u64::from(header.epoch),
        checkpoint: header.checkpoint,
        ..Place::default()
    };
    let mut chunk = forged(&log, &name, &place, b"edited");
    // The head repeats what the old one held about its records, as far as it can.
    assert!(chunk.len() < range.len());
    log.change(&name, |b| drop(b.splice(range, chunk.drain(..))));
    let chunk = format!("chunk {}", header.index);
    let report = log.verify();
    judged(&report, Tampered, 20, &[]);
    let all: Vec<String> = report.places.iter().map(|(_, p)| p.describe()).collect();
    assert!(
        all.iter().any(|p| p.contains(&chunk)
            || p.contains(&format!("chunk {}", header.index + 1))
            || p.contains("chunks ")),
        "{all:?}"
    );
    judged(&log.verify_open(), Tampered, 20, &[]);
}

/// A log of three segments.
fn three() -> Log {
    let mut log = Log::filled();
    let mut writer = log.open();
    log.fill(&mut writer, 50);
    writer.close(log.now).unwrap();
    log
}

fn middle_deleted() {
    let log = three();
    let names = log.segments();
    let (middle, after) = (log.header(&names[1]), log.header(&names[2]));
    log.log.delete(&names[1]);
    let chunks = format!("chunks {} to {}", middle.first_chunk, after.first_chunk - 1);
    let records = format!("records {} to {}", middle.first_record, after.first_record - 1);
    judged(&log.verify(), Incomplete, 23, &[&chunks, &records]);
}

fn renamed() {
    let log = three();
    let names = log.segments();
    let bytes = log.get(&names[1]);
    let other = "seg-00000000000000009999.gsl";
    let copied = log.copy();
    copied.put(other, &bytes);
    judged(&copied.verify(), Tampered, 20, &[other]);
    log.log.delete(&names[1]);
    log.put(other, &bytes);
    judged(&log.verify(), Tampered, 20, &[other]);
}

fn bombs() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let (range, header) = log.chunks(&name)[3].clone();
    let keys = ClassKeys::of_segment(&log.header(&name), &log.data_key(&name)).unwrap();
    let segment_hash = sha256(&log.header(&name).encode());
    let zeros = zstd::bulk::compress(&vec![0; 64 << 20], 1).unwrap();
    let many_sources = {
        let mut plain = Vec::new();
        gabion_seal::format::wire::put_varint(&mut plain, 65_535);
        (0..65_535).for_each(|_| plain.extend_from_slice(&[1, 0, 0, 0, 0]));
        plain
    };
    let cases: [(Vec<u8>, u32, u32, u8); 6] = [
        (zeros.clone(), 16 << 20, 1, chunk::FLAG_COMPRESSED),
        (zeros, 100, 1, chunk::FLAG_COMPRESSED),
        (zstd::bulk::compress(b"short", 1).unwrap(), 16 << 20, 65_536, chunk::FLAG_COMPRESSED),
        (vec![0xff; 1_000], 1_000, 1, 0),
        (many_sources.clone(), many_sources.len() as u32, 1, 0),
        (vec![1, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], 16, 1, 0),
    ];
    for (mut packed, plain_len, records, flags) in cases {
        let log = log.copy();
        let mut head = chunk::Header {
            plain_len,
            records,
            flags,
            body_len: (packed.len() + chunk::NONCE_LEN + chunk::TAG_LEN) as u32,
            ..header.clone()
        };
        let bound = head.encode()[..chunk::BOUND_LEN].to_vec();
        let nonce = keys.nonce(&bound, &sha256(&packed));
        let tag = keys.seal(nonce, &[&bound[..], &segment_hash].concat(), &mut packed).unwrap();
        let body = [&nonce[..], &packed, &tag].concat();
        head.body_hash = sha256(&body);
        let mut forged = head.encode().to_vec();
        forged.extend_from_slice(&body);
        log.change(&name, |b| drop(b.splice(range.clone(), forged)));
        judged(&log.verify_open(), Tampered, 20, &[&format!("chunk {}", header.index)]);
    }
}

fn forged_index() {
    let mut log = Log::filled();
    let name = log.segments()[0].clone();
    let (at, len) = log
        .items(&name)
        .into_iter()
        .find_map(|(at, item)| matches!(item, Item::Index(_)).then(|| (at, item.len() as usize)))
        .unwrap();
    let records = read_all(&log);
    for change in 0..5 {
        let log = log.copy();
        log.change(&name, |b| match change {
            // One entry less, its form right.
            4 => {
                let (fewer, end) = (len - 64, at + len - 64);
                b.drain(at + 40..at + 104);
                b[at + 4..at + 8].copy_from_slice(&(fewer as u32).to_be_bytes());
                assert_eq!(b.len(), end);
            }
            0 => b[at + 40] ^= 1,
            1 => b[at + 8..at + len - 16].fill(0),
            2 => b[at + len - 12] ^= 1,
            _ => b.truncate(at),
        });
        judged(&log.verify_anchored(&log.copy()), gabion_seal::verify::Verdict::Ok, 0, &[]);
        assert_eq!(read_all(&log), records);
        // Its end is in clear, its content is not.
        let warned = |report: &Report| {
            report.warnings.iter().any(|w| w.contains(&format!("{name} at byte {at}: the index")))
        };
        assert!(warned(&log.verify_open()), "{change}");
        assert_eq!(warned(&log.verify()), change >= 2);
        assert_eq!(log.verify().warnings.len(), usize::from(change >= 2));
    }
    // Who has read the data key makes one that opens, and leaves the first messages out of it.
    let key = log.data_key(&name);
    let header = log.header(&name);
    let keys = ClassKeys::derive(&key, &header.salt, &header.log_id, header.number, 0, header.aead);
    let (keys, hash) = (keys.unwrap(), sha256(&log.get(&name)[..200]));
    let entries = index::decode(&log.get(&name)[at..at + len], &keys, &hash).unwrap();
    let is_hidden = |i: usize| i == 1;
    let fewer: Vec<index::Entry> =
        entries.iter().enumerate().filter(|(i, _)| !is_hidden(*i)).map(|(_, e)| *e).collect();
    let mut blurred = entries.clone();
    blurred[1].sources = index::Sources::default();
    for (forged, is_seen) in [(&entries, false), (&fewer, true), (&blurred, true)] {
        let log = log.copy();
        let bytes = index::encode(forged, at as u64, &keys, &hash).unwrap();
        log.change(&name, |b| b.splice(at..at + len, bytes).for_each(drop));
        let report = log.verify_open();
        judged(&report, gabion_seal::verify::Verdict::Unanchored, 10, &[]);
        let first = log.chunks(&name)[1].1.index;
        let said = format!("{name} at byte {at}: the index is wrong from chunk {first} on");
        assert_eq!(report.warnings.iter().any(|w| w.contains(&said)), is_seen);
    }
    log.now += SECOND;
    log.open().close(log.now).unwrap();
}

/// Numbers of all records of the last tenth of time, by an option that uses the index.
fn read_all(log: &Log) -> Vec<u64> {
    use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
    struct Numbers(Vec<u64>);
    impl Sink for Numbers {
        fn record(&mut self, found: &Found<'_>) -> bool {
            self.0.push(found.number);
            true
        }
        fn unreadable(&mut self, what: &str) {
            panic!("{what}");
        }
    }
    let mut all = Numbers(Vec::new());
    let mut reader = Reader::open(&log.log, &log.keys).unwrap();
    let selection = Selection { source: Some(b"192.0.2.1".to_vec()), ..Selection::default() };
    reader.scan(Cursor::default(), &selection, &mut all).unwrap();
    assert!(all.0.len() > 300);
    all.0
}

fn future() {
    let log = Log::filled();
    let name = log.segments()[1].clone();
    log.change(&name, |b| {
        b[12..16].copy_from_slice(&0x8000_0001u32.to_be_bytes());
        let own = sha256(&b[..168]);
        b[168..200].copy_from_slice(&own);
    });
    judged(&log.verify(), Unsupported, 25, &[&name]);
    // A flag of a chunk, its check value right.
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let (range, mut header) = log.chunks(&name)[3].clone();
    header.flags |= 0x80;
    log.change(&name, |b| {
        b[range.start..range.start + chunk::HEADER_LEN].copy_from_slice(&header.encode())
    });
    judged(&log.verify(), Unsupported, 25, &[&name]);
    assert_ne!(header.flags & FLAG_CLEAR, FLAG_CLEAR);
}

fn no_log() {
    let log = Log::filled();
    log.log.delete("log.id");
    judged(&log.verify(), Incomplete, 23, &["log.id"]);
    let mut empty = Log::new();
    empty.log = gabion_seal::storage::Memory::new();
    empty.log.create("messages", b"<13>a line\n").unwrap();
    judged(&empty.verify(), Incomplete, 23, &["log.id"]);
}

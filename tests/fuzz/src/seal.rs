//! The sealed log's readers: any bytes as a segment, a note, a proof, or a file of slog.

use crate::seeds::Seeds;
use gabion_seal::Stanza;
use gabion_seal::Statement;
use gabion_seal::checkpoints::{Checkpoint, Note, Vkey};
use gabion_seal::format::chunk::{BOUND_LEN, FLAG_COMPRESSED, Header, NONCE_LEN, Opener, TAG_LEN};
use gabion_seal::format::data_key::ClassKeys;
use gabion_seal::format::retain::Stub;
use gabion_seal::format::segment::{Aead, Parsed};
use gabion_seal::format::tree::sha256;
use gabion_seal::format::walk::{Item, Walk, read_header};
use gabion_seal::format::{Builder, Decoded};
use gabion_seal::proof::Proof;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::slog::Import;
use gabion_seal::storage::{Memory, Storage};
use gabion_seal::verify::{Anchor, Options, Verdict, verify};
use gabion_seal::{Flags, Init, Kind, Policy, Record, SecretKey, Source, Transport, Writer};
use std::sync::OnceLock;

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_700_000_000 * SECOND;

/// A small log and the key that reads it.
struct Small {
    log: Memory,
    keys: [SecretKey; 1],
    segment: String,
}

fn small() -> &'static Small {
    static SMALL: OnceLock<Small> = OnceLock::new();
    SMALL.get_or_init(|| {
        let (mut log, state) = (Memory::new(), Memory::new());
        Init::new("log.example/fuzz", NOW).create(&mut log, state.clone()).expect("a log");
        let keys = [SecretKey::generate().expect("a key")];
        let policy = Policy { chunk_plain: 500, ..Policy::default() };
        let recipients = vec![keys[0].recipient().clone()];
        let mut writer =
            Writer::open(log.clone(), state, recipients, policy, NOW).expect("opens").0;
        let source = Source::new(Transport::Udp, 1, "192.0.2.1:514", "");
        for n in 0..30u64 {
            let text = format!("<13>record {n}");
            let record = Record {
                time_ns: NOW + n,
                kind: Kind::Message,
                flags: Flags::default(),
                bytes: text.as_bytes(),
            };
            writer.append(&record, &source).expect("appends");
        }
        writer.switch_epoch_now(NOW + SECOND).expect("switches");
        writer.close(NOW + 2 * SECOND).expect("closes");
        let names = log.list().expect("lists");
        let segment = names.into_iter().find(|n| n.ends_with(".gsl")).expect("a segment");
        Small { log, keys, segment }
    })
}

struct Nothing;

impl Sink for Nothing {
    fn record(&mut self, _: &Found<'_>) -> bool {
        true
    }
    fn unreadable(&mut self, _: &str) {}
}

/// Overwrites a segment with bytes at an offset, then verifies and reads it with and without key.
/// Only the original records may ever be valid.
pub fn segment(data: &[u8]) {
    let small = small();
    let Some((at, data)) = data.split_first_chunk::<2>() else { return };
    let mut bytes = small.log.get(&small.segment).unwrap_or_default();
    let before = bytes.clone();
    let at = usize::from(u16::from_be_bytes(*at)) % (bytes.len() + 1);
    let end = (at + data.len()).min(bytes.len());
    bytes.splice(at..end, data.iter().copied());
    let log = small.log.snapshot();
    log.put(&small.segment, &bytes);
    for keys in [&small.keys[..], &[]] {
        let options = Options { keys, jobs: 1, is_deep: true, ..Options::default() };
        let report = verify(&log, &options, &mut |_, _| {}).expect("the log is in memory");
        let is_index = bytes.len() >= before.len() && at > before.len() / 2;
        if bytes != before && !is_index {
            assert_ne!(report.verdict(), Verdict::Ok);
        }
        let _ = report.to_json(0.0);
        let mut reader = Reader::open(&log, keys).expect("log.id is valid");
        for source in [None, Some(b"192.0.2.1".to_vec())] {
            let _ = reader.scan(
                Cursor::default(),
                &Selection { source, ..Selection::default() },
                &mut Nothing,
            );
        }
    }
    forged_index(small, data);
    let _ = Stub::of_segment(&log, &small.segment);
    let _ = Stub::parse(data);
    let _ = Stanza::parse_all(data);
}

/// Uses bytes as the content of a forged index that decrypts, as a recipient of the log could
/// create it: signed records stay valid, and reading by the index ends.
fn forged_index(small: &Small, data: &[u8]) {
    let mut bytes = small.log.get(&small.segment).unwrap_or_default();
    let mut walk = Walk::new(&small.log, &small.segment).expect("the log is in memory");
    let mut index = None;
    while let Ok(Some((at, item))) = walk.step() {
        if matches!(item, Item::Index(_)) {
            index = Some(at);
        }
    }
    let at = index.expect("the segment ended properly");
    let Ok((Parsed::Known(header), hash)) = read_header(&small.log, &small.segment) else { return };
    let stanzas = small.log.get(&small.segment.replace(".gsl", ".keys")).unwrap_or_default();
    let stanzas = Stanza::parse_all(&stanzas).expect("its own");
    let key = stanzas[0].unwrap(&small.keys[0], &header).expect("its reader");
    let keys = ClassKeys::derive(&key, &header.salt, &header.log_id, header.number, 0, header.aead);
    let keys = keys.expect("keys");
    let mut inside = data.to_vec();
    let (nonce, tag) = keys.seal_index(&hash, &mut inside).expect("seals");
    let len = (4 + 4 + nonce.len() + inside.len() + tag.len() + 16) as u32;
    bytes.truncate(at as usize);
    for part in [&b"GFTR"[..], &len.to_be_bytes(), &nonce, &inside, &tag] {
        bytes.extend_from_slice(part);
    }
    bytes.extend_from_slice(&at.to_be_bytes());
    bytes.extend_from_slice(b"GSEAEND1");
    let log = small.log.snapshot();
    log.put(&small.segment, &bytes);
    let options = Options { keys: &small.keys, jobs: 1, ..Options::default() };
    let report = verify(&log, &options, &mut |_, _| {}).expect("the log is in memory");
    assert_eq!(report.verdict(), Verdict::Unanchored, "{:?}", report.places);
    let mut reader = Reader::open(&log, &small.keys).expect("log.id is valid");
    let selection = Selection { records: Some((3, 9)), ..Selection::default() };
    let _ = reader.scan(Cursor::default(), &selection, &mut Nothing);
}

/// Uses bytes as the content of a chunk with a valid key, compressed or not. Decoded content can be
/// encoded again.
pub fn chunk(data: &[u8]) {
    static KEYS: OnceLock<ClassKeys> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        ClassKeys::derive(&[1; 32], &[2; 32], &[3; 16], 0, 0, Aead::Aes256Gcm).expect("keys")
    });
    let _ = Header::parse(data);
    let Some((head, data)) = data.split_first_chunk::<4>() else { return };
    let records = u32::from(head[1]);
    let mut packed = data.to_vec();
    let header = Header {
        flags: if head[0] & 1 == 1 { FLAG_COMPRESSED } else { 0 },
        records,
        plain_len: u32::from(u16::from_be_bytes([head[2], head[3]])),
        body_len: (packed.len() + NONCE_LEN + TAG_LEN) as u32,
        ..Header::default()
    };
    let bound = header.encode()[..BOUND_LEN].to_vec();
    let nonce = keys.nonce(&bound, &sha256(&packed));
    let aad = [&bound[..], &[0; 32]].concat();
    let tag = keys.seal(nonce, &aad, &mut packed).expect("seals");
    let body = [&nonce[..], &packed, &tag].concat();
    let mut opener = Opener::new().expect("contexts");
    for is_padded in [false, true] {
        if opener.open(&header, &body, Some(keys), &[0; 32], is_padded).is_ok() {
            let _ = opener.check_root(&header, Some(keys));
        }
    }
    let Ok(decoded) = Decoded::from_plain(data, records, 5) else { return };
    let mut builder = Builder::new();
    for (record, source) in &decoded.records {
        let view = decoded.source(*source).expect("checked while decoding");
        if view.transport.is_none() || view.peer.len() + view.identity.len() > 300 {
            return;
        }
        let (Ok(peer), Ok(identity)) =
            (std::str::from_utf8(view.peer), std::str::from_utf8(view.identity))
        else {
            return;
        };
        let transport = view.transport.expect("asked above");
        builder
            .push(record, &Source::new(transport, view.listener, peer, identity))
            .expect("a record");
    }
    let mut plain = Vec::new();
    builder.write_plain(5, &mut plain);
    let again = Decoded::from_plain(&plain, records, 5).expect("written bytes can be read");
    let texts =
        |d: &Decoded<'_>| d.records.iter().map(|(r, _)| r.bytes.to_vec()).collect::<Vec<_>>();
    assert_eq!(texts(&again), texts(&decoded));
}

/// Parses text as a note, a checkpoint, a key, a proof, an anchor file and a statement.
pub fn checkpoint(data: &[u8]) {
    if let Ok(note) = Note::parse(data) {
        let again = Note::parse(note.to_string().as_bytes()).expect("written bytes can be read");
        assert_eq!(again, note);
        if let Ok(checkpoint) = Checkpoint::parse(&note.text) {
            assert!(note.text.starts_with(&checkpoint.text()));
        }
        let vkey = gabion_seal::Identity::parse(&small().log.get("log.id").unwrap_or_default());
        let _ = note.verify(&[vkey.expect("its own").vkey]);
    }
    if let Ok(proof) = Proof::parse(data) {
        let id = small().log.get("log.id").unwrap_or_default();
        let _ = proof.check(&gabion_seal::Identity::parse(&id).expect("its own").vkey);
    }
    let _ = Anchor::parse_file("fuzz", data);
    let _ = Statement::parse(data);
    let _ = gabion_seal::Identity::parse(data);
    if let Ok(key) = Vkey::parse(&String::from_utf8_lossy(data)) {
        assert_eq!(Vkey::parse(&key.to_string()).expect("written bytes can be read"), key);
    }
}

/// Reads bytes as lines of slog's file. Without its RSA key nothing opens, but every step before
/// that is tested.
pub fn slog_file(data: &[u8]) {
    let keys = &small().keys;
    let mut import = Import::new(&keys[0], None, false);
    for line in data.split(|c| *c == b'\n') {
        let read = import.line(line);
        assert!(read.record.is_none());
    }
    let _ = gabion_seal::slog::unix_ns(&String::from_utf8_lossy(data));
    let _ = gabion_seal::slog::open_blob(data, b"password");
}

/// Pieces of the small log.
pub fn segment_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let bytes = small().log.get(&small().segment).unwrap_or_default();
    let mut all: Vec<Vec<u8>> = (0..bytes.len())
        .step_by(97)
        .map(|at| {
            let mut seed = (at as u16).to_be_bytes().to_vec();
            seed.extend_from_slice(&bytes[at..(at + 64).min(bytes.len())]);
            seed
        })
        .collect();
    all.push(vec![0, 0]);
    all
}

/// Plain bytes of records, compressed and not.
pub fn chunk_seeds(_: &Seeds) -> Vec<Vec<u8>> {
    let mut builder = Builder::new();
    let source = Source::new(Transport::Tls, 1, "192.0.2.1:514", "client.example");
    for text in ["<13>one", "", "three"] {
        let record = Record {
            time_ns: 7,
            kind: Kind::Message,
            flags: Flags::NOT_UTF8,
            bytes: text.as_bytes(),
        };
        builder.push(&record, &source).expect("a record");
    }
    let mut plain = Vec::new();
    builder.write_plain(5, &mut plain);
    let len = (plain.len() as u16).to_be_bytes();
    let packed = zstd::bulk::compress(&plain, 1).unwrap_or_default();
    let head = |flag: u8| vec![flag, 3, len[0], len[1]];
    vec![[head(0), plain].concat(), [head(1), packed].concat()]
}

/// Notes, proofs and keys of the small log and of the corpus.
pub fn checkpoint_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let small = small();
    let mut all = vec![
        small.log.get("log.id").unwrap_or_default(),
        small.log.get(gabion_seal::checkpoints::FILE).unwrap_or_default(),
        br#"{"type":"epoch","epoch":1,"key":"","end":3}"#.to_vec(),
        br#"{"type":"recipients","segment":0,"keys":"","ids":[],"classes":[]}"#.to_vec(),
    ];
    let mut reader = Reader::open(&small.log, &small.keys).expect("opens");
    let proof = reader.locate(3, |found| {
        gabion_seal::proof::prove(&small.log, found, "log.example/fuzz", Default::default())
    });
    all.extend(proof.map(String::into_bytes));
    if let Some(corpus) = &seeds.corpus {
        let text = std::fs::read_to_string(corpus.join("sealed/crypto/checkpoints.json"))
            .unwrap_or_default();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        for list in ["checkpoints", "proofs", "invalid"] {
            for vector in json[list].as_array().into_iter().flatten() {
                let texts =
                    vector.as_object().into_iter().flatten().filter_map(|(_, v)| v.as_str());
                all.extend(texts.filter(|t| t.contains('\n')).map(|t| t.as_bytes().to_vec()));
            }
        }
    }
    all
}

/// Lines of the corpus.
pub fn slog_file_seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let mut all = vec![
        b"00112233445566778899aabbccddeeff,AAAA".to_vec(),
        b"2021-01-15T20:22:07.5000+01,1,false,4,1,AAAA,0011".to_vec(),
    ];
    if let Some(corpus) = &seeds.corpus {
        let folder = corpus.join("sealed/slog");
        let lines = std::fs::read(folder.join("good.slog")).unwrap_or_default();
        all.extend(lines.split(|c| *c == b'\n').take(2).map(<[u8]>::to_vec));
    }
    all
}

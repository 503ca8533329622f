//! Speed of the sealed log beside the limits of this machine, measured in the same run.
//!
//! Records are lines of real logs (the corpus' `sealed/text`), each once a pass, with times that go on, and
//! padded to nothing: 166 bytes is what such a record weighs with its time, number and source. Time is
//! the process' CPU time, so that a loaded machine changes little; the median of five rounds.

use gabion_seal::chunk::{Manner, Opener, Place, Sealer};
use gabion_seal::data_key::ClassKeys;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::record::Builder;
use gabion_seal::segment::Aead;
use gabion_seal::storage::{Files, Memory};
use gabion_seal::tree::{Range, sha256};
use gabion_seal::verify::{Options, verify};
use gabion_seal::{Flags, Init, Kind, Policy, Record, SecretKey, Source, Transport, Writer};
use rustix::time::{ClockId, clock_gettime};
use std::path::PathBuf;

const ROUNDS: usize = 5;
const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_700_000_000 * SECOND;
const RECORDS: usize = 1_000_000;

fn cpu() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn wall() -> f64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Median CPU seconds of a piece of work.
fn median(mut work: impl FnMut()) -> f64 {
    let mut all: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = cpu();
            work();
            cpu() - start
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[ROUNDS / 2]
}

fn lines() -> Vec<Vec<u8>> {
    let root = std::env::var_os("GABION_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus"),
        PathBuf::from,
    );
    let mut all = Vec::new();
    for name in ["Linux", "OpenSSH", "Mac", "Thunderbird"] {
        let path = root.join(format!("sealed/text/{name}_2k.log.zst"));
        let Ok(file) = std::fs::File::open(&path) else { continue };
        let text = zstd::stream::decode_all(file).expect("the corpus unpacks");
        all.extend(
            text.split(|c| *c == b'\n')
                .map(|l| l.strip_suffix(b"\r").unwrap_or(l).to_vec())
                .filter(|l| !l.is_empty()),
        );
    }
    all
}

/// Calls with every record: its time and text.
fn each(lines: &[Vec<u8>], count: usize, mut f: impl FnMut(Record<'_>)) {
    for (i, line) in lines.iter().cycle().take(count).enumerate() {
        let time_ns = NOW + i as u64 * 10_000 + (i as u64 * 7_919) % 3_000;
        f(Record { time_ns, kind: Kind::Message, flags: Flags::default(), bytes: line });
    }
}

fn limits() {
    let block = vec![7u8; 64 << 10];
    let sha = median(|| {
        (0..2_000).for_each(|_| {
            std::hint::black_box(sha256(&block));
        })
    });
    println!("limit  SHA-256 of 64 KiB             {:7.2} GB/s", 2_000.0 * 65_536.0 / sha / 1e9);
    let small = vec![7u8; 166];
    let sha = median(|| {
        (0..500_000).for_each(|_| {
            std::hint::black_box(sha256(&small));
        })
    });
    println!("limit  SHA-256 of 166 bytes          {:7.2} M/s", 0.5 / sha);
    let keys =
        ClassKeys::derive(&[1; 32], &[2; 32], &[3; 16], 0, 0, Aead::Aes256Gcm).expect("keys");
    let mut sealed = block.clone();
    let gcm = median(|| {
        (0..4_000).for_each(|_| drop(std::hint::black_box(keys.seal([0; 12], b"", &mut sealed))))
    });
    println!("limit  AES-256-GCM of 64 KiB         {:7.2} GB/s", 4_000.0 * 65_536.0 / gcm / 1e9);
}

fn seal_in_memory(lines: &[Vec<u8>]) -> f64 {
    let keys =
        ClassKeys::derive(&[1; 32], &[2; 32], &[3; 16], 0, 0, Aead::Aes256Gcm).expect("keys");
    let source = Source::new(Transport::Tcp, 1, "192.0.2.1:51423", "");
    let mut out = Vec::new();
    let mut stored = 0;
    let took = median(|| {
        stored = 0;
        let mut sealer =
            Sealer::new(Manner { level: Some(-1), is_padded: false, is_rounded: false })
                .expect("sealer");
        let (mut builder, mut range, mut place) = (Builder::new(), Range::new(), Place::default());
        let mut flush = |builder: &mut Builder| {
            out.clear();
            let header = sealer.seal(builder, &place, 0, &keys, &[9; 32], &mut out).expect("seals");
            place.index += 1;
            place.first_record = header.next_record();
            range.push(header.leaf(&[9; 32]));
            stored += out.len();
            builder.clear();
        };
        each(lines, RECORDS, |record| {
            if builder.is_full(record.bytes.len(), 256 << 10) {
                flush(&mut builder);
            }
            builder.push(&record, &source).expect("a record");
        });
        flush(&mut builder);
    });
    let rate = RECORDS as f64 / took;
    println!(
        "seal   in memory                     {:7.2} M records/s/core   {:.1} bytes a record",
        rate / 1e6,
        stored as f64 / RECORDS as f64
    );
    rate
}

fn open(log: Memory, state: Memory, key: &SecretKey) -> Writer<Memory> {
    Writer::open(log, state, vec![key.recipient().clone()], Policy::default(), NOW)
        .expect("opens")
        .0
}

fn write<S: gabion_seal::storage::Storage>(writer: &mut Writer<S>, lines: &[Vec<u8>]) {
    let source = Source::new(Transport::Tcp, 1, "192.0.2.1:51423", "");
    let mut now = NOW;
    each(lines, RECORDS, |record| {
        now = record.time_ns;
        writer.append(&record, &source).expect("appends");
        if now % (50 * 1_000_000) < 10_000 {
            writer.tick(now).expect("ticks");
        }
    });
    writer.commit(now).expect("commits");
}

struct Count(u64);

impl Sink for Count {
    fn record(&mut self, found: &Found<'_>) -> bool {
        self.0 += found.record.bytes.len() as u64;
        true
    }
    fn unreadable(&mut self, what: &str) {
        panic!("{what}");
    }
}

fn main() {
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let lines = lines();
    if lines.is_empty() {
        eprintln!("skipped: no corpus: set GABION_CORPUS");
        return;
    }
    let mean = lines.iter().map(Vec::len).sum::<usize>() as f64 / lines.len() as f64;
    println!(
        "{} lines of {mean:.0} bytes, {RECORDS} records a round, median of {ROUNDS} rounds of CPU time",
        lines.len()
    );
    limits();
    seal_in_memory(&lines);

    let folder = tempfile::tempdir().expect("a folder");
    let key = SecretKey::generate().expect("a key");
    let mut number = 0;
    let took = median(|| {
        number += 1;
        let (log, state) = (
            folder.path().join(format!("log{number}")),
            folder.path().join(format!("state{number}")),
        );
        let mut files = Files::create_folder(&log).expect("a folder");
        Init::new("bench.example/log", NOW)
            .create(&mut files, Files::create_folder(&state).expect("a folder"))
            .expect("init");
        let recipients = vec![key.recipient().clone()];
        let state = Files::open(&state).expect("a folder");
        let mut writer =
            Writer::open(files, state, recipients, Policy::default(), NOW).expect("opens").0;
        write(&mut writer, &lines);
        writer.close(NOW + 100 * SECOND).expect("closes");
    });
    println!(
        "seal   to files, durable             {:7.2} M records/s/core",
        RECORDS as f64 / took / 1e6
    );

    let (mut log, state) = (Memory::new(), Memory::new());
    Init::new("bench.example/log", NOW).create(&mut log, state.clone()).expect("init");
    let mut writer = open(log.clone(), state.clone(), &key);
    for _ in 0..5 {
        write(&mut writer, &lines);
    }
    writer.close(NOW + 100 * SECOND).expect("closes");
    let bytes = log.total_len() as f64;
    let keys = [key];
    let all = 5.0 * RECORDS as f64;
    let took = median(|| {
        let report =
            verify(&log, &Options { jobs: 1, keys: &keys, ..Options::default() }, &mut |_, _| {})
                .expect("verifies");
        assert_eq!(report.verdict().code(), 10, "{:?}", report.places);
    });
    println!("verify with key                      {:7.2} M records/s/core", all / took / 1e6);
    let took = median(|| {
        let report = verify(&log, &Options { jobs: 1, ..Options::default() }, &mut |_, _| {})
            .expect("verifies");
        assert_eq!(report.verdict().code(), 10);
    });
    println!(
        "verify without key                   {:7.2} GB/s/core   {:.0} M records/s",
        bytes / took / 1e9,
        all / took / 1e6
    );
    for jobs in [1, 2] {
        let start = wall();
        verify(&log, &Options { jobs, keys: &keys, ..Options::default() }, &mut |_, _| {})
            .expect("verifies");
        println!("verify with key, {jobs} threads, by the clock {:5.2} s", wall() - start);
    }
    let took = median(|| {
        let mut reader = Reader::open(&log, &keys).expect("opens");
        reader.scan(Cursor::default(), &Selection::default(), &mut Count(0)).expect("reads");
    });
    println!("read   all records                   {:7.2} M records/s/core", all / took / 1e6);
    let took = median(|| {
        for n in 0..100 {
            let mut reader = Reader::open(&log, &keys).expect("opens");
            let selection =
                Selection { records: Some((n * 49_000, n * 49_000)), ..Selection::default() };
            reader.scan(Cursor::default(), &selection, &mut Count(0)).expect("reads");
        }
    });
    println!("read   one record by number          {:7.2} ms", took * 10.0);
    let _ = Opener::new();
}

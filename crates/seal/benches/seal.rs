//! Speed of the sealed log compared with the limits of this machine, measured in the same run.
//!
//! Records are lines of real logs (the corpus' `sealed/text`), each once a pass, with times that advance, and
//! padded to nothing: 166 bytes is what such a record weighs with its time, number and source. Time is
//! the process' CPU time, so that a loaded machine changes little; the median of five rounds.
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]

use gabion_seal::format::Builder;
use gabion_seal::format::chunk::{Manner, Opener, Place, Sealer};
use gabion_seal::format::data_key::ClassKeys;
use gabion_seal::format::segment::Aead;
use gabion_seal::format::tree::{Range, sha256};
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::storage::{Files, Memory};
use gabion_seal::verify::{Options, verify};
use gabion_seal::{Flags, Init, Kind, Policy, Record, SecretKey, Source, Transport, Writer};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 5;
const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_700_000_000 * SECOND;
const RECORDS: usize = 1_000_000;
/// Real logs; speed is that of the first four.
const TEXTS: [&str; 7] = ["Linux", "OpenSSH", "Mac", "Thunderbird", "Apache", "HDFS", "BGL"];

fn cpu() -> f64 {
    let t = clock_gettime(ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

fn wall() -> f64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Median seconds of a piece of work, by this clock.
fn median_of(clock: fn() -> f64, mut work: impl FnMut()) -> f64 {
    let mut all: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = clock();
            work();
            clock() - start
        })
        .collect();
    all.sort_by(f64::total_cmp);
    all[ROUNDS / 2]
}

/// Median CPU seconds of a piece of work.
fn median(work: impl FnMut()) -> f64 {
    median_of(cpu, work)
}

/// A figure and what it must be; whether it is.
fn row(what: &str, figure: f64, unit: &str, must: Option<f64>, more: &str) {
    let is_time_or_size = unit == "ms" || unit.starts_with("bytes");
    let judged = must.map_or(String::new(), |must| {
        let is_met = if is_time_or_size { figure <= must } else { figure >= must };
        format!("must {must:<5} {}", if is_met { "met" } else { "MISSED" })
    });
    println!("{what:40} {figure:8.2} {unit:18} {judged:18} {more}");
}

/// Lines of these texts.
fn lines_of(names: &[&str]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for name in names {
        let below = format!("sealed/text/{name}_2k.log.zst");
        let Some(text) = gabion_corpus::read("seal", &below) else { continue };
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

/// What this machine can do at most, in the same run.
fn limits(lines: &[Vec<u8>]) {
    let block = vec![7u8; 64 << 10];
    let sha = median(|| {
        (0..2_000).for_each(|_| {
            std::hint::black_box(sha256(&block));
        })
    });
    row("limit: SHA-256 of 64 KiB", 2_000.0 * 65_536.0 / sha / 1e9, "GB/s", None, "");
    let small = vec![7u8; 166];
    let sha = median(|| {
        (0..500_000).for_each(|_| {
            std::hint::black_box(sha256(&small));
        })
    });
    row("limit: SHA-256 of 166 bytes", 0.5 / sha, "M/s", None, "");
    let keys =
        ClassKeys::derive(&[1; 32], &[2; 32], &[3; 16], 0, 0, Aead::Aes256Gcm).expect("keys");
    let mut sealed = block.clone();
    let gcm = median(|| {
        (0..4_000).for_each(|_| drop(std::hint::black_box(keys.seal([0; 12], b"", &mut sealed))))
    });
    row("limit: AES-256-GCM of 64 KiB", 4_000.0 * 65_536.0 / gcm / 1e9, "GB/s", None, "");
    let text: Vec<u8> = lines.iter().flatten().copied().collect();
    let mut compressor = zstd::bulk::Compressor::new(-1).expect("zstd");
    let mut packed = 0;
    let took = median(|| {
        packed = 0;
        for _ in 0..20 {
            for chunk in text.chunks(256 << 10) {
                packed += compressor.compress(chunk).expect("compresses").len();
            }
        }
    });
    let all = 20.0 * text.len() as f64;
    let ratio = format!("to 1/{:.1}", all / packed as f64);
    row("limit: zstd -1 of 256 KiB of text", all / took / 1e6, "MB/s", None, &ratio);
    let (rsa, _) = SecretKey::generate_rsa().expect("a key");
    // A number below the modulus that is no wrapped password costs the same operation.
    let wrapped: Vec<u8> = (0..512_usize).map(|i| (i % 127) as u8).collect();
    let took = median(|| {
        (0..20).for_each(|_| drop(std::hint::black_box(rsa.decrypt_oaep_sha512(&wrapped))))
    });
    row("limit: RSA-4096, private", took / 20.0 * 1e3, "ms", None, "");
    let mut file = tempfile::tempfile().expect("a file");
    let mebibyte = vec![9u8; 1 << 20];
    let mut syncs: Vec<f64> = (0..15)
        .map(|_| {
            let start = wall();
            std::io::Write::write_all(&mut file, &mebibyte).expect("written");
            file.sync_data().expect("synced");
            wall() - start
        })
        .collect();
    syncs.sort_by(f64::total_cmp);
    let slow = format!("slowest of 15: {:.1}", syncs[14] * 1e3);
    row("limit: write and fdatasync of 1 MiB", syncs[7] * 1e3, "ms", None, &slow);
}

/// Bytes that a record takes in all files of a log, where n records come a second and chunks are forced
/// this often.
fn stored(lines: &[Vec<u8>], key: &SecretKey, rate: u64, every_ns: Option<u64>) -> f64 {
    let (mut log, state) = (Memory::new(), Memory::new());
    Init::new("bench.example/log", NOW).create(&mut log, state.clone()).expect("init");
    let mut writer = open(log.clone(), state, key);
    let source = Source::new(Transport::Relp, 1, "192.0.2.1:51423", "");
    // A minute, or as many records as are enough for a steady state.
    let count = (60 * rate).min(1_000_000);
    let mut due = NOW;
    for (i, line) in lines.iter().cycle().take(count as usize).enumerate() {
        let now = NOW + i as u64 * (SECOND / rate);
        let record =
            Record { time_ns: now, kind: Kind::Message, flags: Flags::default(), bytes: line };
        writer.append(&record, &source).expect("appends");
        if now >= due {
            due = now + every_ns.unwrap_or(SECOND / 20);
            if every_ns.is_some() {
                writer.commit(now).expect("commits");
            }
            writer.tick(now).expect("ticks");
        }
    }
    writer.close(NOW + count * (SECOND / rate)).expect("closes");
    log.total_len() as f64 / count as f64
}

fn sizes(key: &SecretKey) {
    let mut lines = lines_of(&TEXTS);
    lines.retain(|l| (92..=132).contains(&l.len()));
    let mean = lines.iter().map(Vec::len).sum::<usize>() as f64 / lines.len() as f64;
    let text = format!("real text of {mean:.0} bytes a record");
    row(
        "stored, steady load",
        stored(&lines, key, 50_000, None),
        "bytes a record",
        Some(26.0),
        &text,
    );
    for (rate, must) in [(10_000, 28.0), (1_000, 45.0)] {
        let what = format!("stored, {rate}/s, chunks every 50 ms");
        let bytes = stored(&lines, key, rate, Some(SECOND / 20));
        row(&what, bytes, "bytes a record", Some(must), "");
    }
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
            let header = sealer.seal(builder, &place, &keys, &[9; 32], &mut out).expect("seals");
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
    let more = format!("{:.1} bytes a record", stored as f64 / RECORDS as f64);
    row("seal in memory", rate / 1e6, "M records/s/core", Some(1.7), &more);
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
    let lines = lines_of(&TEXTS[..4]);
    if lines.is_empty() {
        eprintln!("skipped: no corpus: set GABION_CORPUS");
        return;
    }
    let mean = lines.iter().map(Vec::len).sum::<usize>() as f64 / lines.len() as f64;
    println!(
        "{} lines of {mean:.0} bytes (166 with time, number and source), {RECORDS} records a round, median of {ROUNDS} rounds of CPU time",
        lines.len()
    );
    limits(&lines);
    seal_in_memory(&lines);

    let folder = tempfile::tempdir().expect("a folder");
    let key = SecretKey::generate().expect("a key");
    let opener = gabion_runtime::files::direct_opener();
    let mut number = 0;
    let took = median(|| {
        number += 1;
        let (log, state) = (
            folder.path().join(format!("log{number}")),
            folder.path().join(format!("state{number}")),
        );
        let mut files = Files::create_folder(&opener, &log).expect("a folder");
        Init::new("bench.example/log", NOW)
            .create(&mut files, Files::create_folder(&opener, &state).expect("a folder"))
            .expect("init");
        let recipients = vec![key.recipient().clone()];
        let state = Files::open(&opener, &state).expect("a folder");
        let mut writer =
            Writer::open(files, state, recipients, Policy::default(), NOW).expect("opens").0;
        write(&mut writer, &lines);
        writer.close(NOW + 100 * SECOND).expect("closes");
    });
    row("seal to files, durable", RECORDS as f64 / took / 1e6, "M records/s/core", Some(1.2), "");
    sizes(&key);

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
    row("verify with key", all / took / 1e6, "M records/s/core", Some(2.4), "");
    let took = median(|| {
        let report = verify(&log, &Options { jobs: 1, ..Options::default() }, &mut |_, _| {})
            .expect("verifies");
        assert_eq!(report.verdict().code(), 10);
    });
    let more = format!("{:.0} M records/s", all / took / 1e6);
    row("verify without key", bytes / took / 1e9, "GB/s/core", Some(1.2), &more);
    let by_clock = [1, 2].map(|jobs| {
        median_of(wall, || {
            verify(&log, &Options { jobs, keys: &keys, ..Options::default() }, &mut |_, _| {})
                .expect("verifies");
        })
    });
    let pair = median_of(wall, || {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    verify(
                        &log,
                        &Options { jobs: 1, keys: &keys, ..Options::default() },
                        &mut |_, _| {},
                    )
                    .expect("verifies");
                });
            }
        });
    });
    row("limit: two verifications at once", 2.0 * by_clock[0] / pair, "times", None, "");
    let more = format!("{:.2} s and {:.2} s by the clock", by_clock[0], by_clock[1]);
    row(
        "verify with key, 2 threads against 1",
        by_clock[0] / by_clock[1],
        "times",
        Some(1.9),
        &more,
    );
    let took = median(|| {
        let mut reader = Reader::open(&log, &keys).expect("opens");
        reader.scan(Cursor::default(), &Selection::default(), &mut Count(0)).expect("reads");
    });
    row("read all records", all / took / 1e6, "M records/s/core", None, "");
    let took = median(|| {
        for n in 0..100 {
            let mut reader = Reader::open(&log, &keys).expect("opens");
            let selection =
                Selection { records: Some((n * 49_000, n * 49_000)), ..Selection::default() };
            reader.scan(Cursor::default(), &selection, &mut Count(0)).expect("reads");
        }
    });
    row("read one record by number", took * 10.0, "ms", None, "");
    let _ = Opener::new();
}

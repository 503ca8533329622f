//! Attacks on the end of a log, on its checkpoints and on what retention leaves.

use super::support::{Log, NOW, SECOND};
use super::{Threat, judged};
use gabion_seal::checkpoints;
use gabion_seal::files::segments;
use gabion_seal::format::retain::Stub;
use gabion_seal::verify::Options;
use gabion_seal::verify::Verdict::{
    Incomplete, Ok, Rollback, Stale, Tampered, TornTail, Unanchored,
};

pub(crate) fn rows() -> Vec<Threat> {
    vec![
        Threat {
            number: 11,
            attack: "delete the newest segments, leave `checkpoints`",
            by: "D",
            verdict: "ROLLBACK",
            place: "signed size, present size",
            exit: "21",
            residual: "",
            run: newest_deleted,
        },
        Threat {
            number: 12,
            attack: "the same and cut `checkpoints` back to fit",
            by: "D",
            verdict: "OK-UNANCHORED → ROLLBACK",
            place: "anchor's size, log's size",
            exit: "10 → 21",
            residual: "without an anchor only `--max-age`; the host's own signer refuses to continue",
            run: newest_deleted_to_fit,
        },
        Threat {
            number: 13,
            attack: "restore the whole folder from yesterday's backup",
            by: "O, D",
            verdict: "OK-UNANCHORED → ROLLBACK",
            place: "sizes",
            exit: "10 → 21",
            residual: "as 12; with the signer's state restored too, only the anchor",
            run: restored,
        },
        Threat {
            number: 14,
            attack: "cut chunks after the last checkpoint: whole ones with their marks; inside one",
            by: "D",
            verdict: "OK, \"not closed cleanly\" / TORN-TAIL",
            place: "chunks that no checkpoint holds, with N and T",
            exit: "0 / 12",
            residual: "what no checkpoint held: up to N chunks or T seconds",
            run: tail_cut,
        },
        Threat {
            number: 15,
            attack: "delete the last checkpoints, keep their chunks",
            by: "D",
            verdict: "INCOMPLETE",
            place: "first unsigned size",
            exit: "23",
            residual: "N chunks",
            run: last_checkpoints_deleted,
        },
        Threat {
            number: 16,
            attack: "delete `checkpoints`, or empty it",
            by: "D",
            verdict: "INCOMPLETE",
            place: "size 0",
            exit: "23",
            residual: "",
            run: checkpoints_deleted,
        },
        Threat {
            number: 35,
            attack: "delete a segment and put a self-made stub in its place",
            by: "D",
            verdict: "INCOMPLETE, no prune record covers it",
            place: "records",
            exit: "23",
            residual: "with S a prune record can be written: prunes are always listed",
            run: own_stub,
        },
        Threat {
            number: 36,
            attack: "damage a note; a wrong signature of a known key; unknown extra signatures",
            by: "D",
            verdict: "TAMPERED; TAMPERED; ignored",
            place: "note",
            exit: "20 / 20 / 0",
            residual: "",
            run: damaged_notes,
        },
        Threat {
            number: 39,
            attack: "the logger is killed, the host silent",
            by: "S",
            verdict: "STALE",
            place: "newest signed time",
            exit: "11",
            residual: "the gap until it is noticed",
            run: stale,
        },
        Threat {
            number: 41,
            attack: "verify while another thread writes, rotates and prunes the log, in a real folder",
            by: "–",
            verdict: "OK for what was signed; no false alarm in 1,000 looks",
            place: "size",
            exit: "0 / 10",
            residual: "",
            run: while_written,
        },
        Threat {
            number: 51,
            attack: "alter a commit mark's signature below a checkpoint; after the last one",
            by: "D",
            verdict: "OK and a warning, with `--deep`; TAMPERED, or TORN-TAIL in the last group",
            place: "segment, byte",
            exit: "0; 20 / 12",
            residual: "",
            run: altered_marks,
        },
        Threat {
            number: 52,
            attack: "bring an anchor of another log, and one whose size is after damage",
            by: "–",
            verdict: "the anchor is named with its outcome; no OK by it",
            place: "anchor, size",
            exit: "10; 20",
            residual: "",
            run: anchors_of_no_use,
        },
        Threat {
            number: 49,
            attack: "prune in order: records are gone, everything else is provable",
            by: "O",
            verdict: "OK, the prune is listed",
            place: "records, and the record that says so",
            exit: "0",
            residual: "",
            run: pruned_in_order,
        },
    ]
}

fn newest_deleted() {
    let log = Log::filled();
    let names = log.segments();
    let first = log.header(&names[1]).first_chunk;
    log.log.delete(&names[1]);
    let signed = log.anchor().checkpoint.size;
    judged(
        &log.verify(),
        Rollback,
        21,
        &[&format!("{signed} chunks were signed, {first} are there")],
    );
}

fn newest_deleted_to_fit() {
    let log = Log::filled();
    let cut = log.copy();
    let names = log.segments();
    let first = log.header(&names[1]).first_chunk;
    cut.log.delete(&names[1]);
    cut.log.delete(&names[1].replace("gsl", "keys"));
    cut.cut_checkpoints(first);
    judged(&cut.verify(), Unanchored, 10, &[]);
    judged(&cut.verify_anchored(&log), Rollback, 21, &["chunks were signed"]);
    // The signer remembers.
    let refused = cut.try_open().unwrap_err().to_string();
    assert!(refused.contains("INCOMPLETE") || refused.contains("ROLLBACK"), "{refused}");
}

fn restored() {
    let mut log = Log::filled();
    let backup = log.copy();
    let mut writer = log.open();
    log.fill(&mut writer, 100);
    writer.close(log.now).unwrap();
    let restored = Log { state: log.state.clone(), ..backup.copy() };
    judged(&restored.verify(), Unanchored, 10, &[]);
    judged(&restored.verify_anchored(&log), Rollback, 21, &["chunks were signed"]);
    assert!(restored.try_open().is_err(), "the signer is ahead of the log");
    judged(&backup.verify_anchored(&log), Rollback, 21, &[]);
}

/// A log whose writer was killed, with groups of chunks after its last checkpoint.
fn unsigned_tail() -> Log {
    let mut log = Log::new();
    let mut writer = log.open();
    log.fill(&mut writer, 100);
    writer.sign_checkpoint(log.now).unwrap();
    log.fill(&mut writer, 150);
    drop(writer);
    log
}

fn tail_cut() {
    let log = unsigned_tail();
    let name = log.segments()[0].clone();
    let marks = log.marks(&name);
    let whole = log.copy();
    whole.change(&name, |b| {
        b.truncate(marks[marks.len() - 2].0 + gabion_seal::format::chunk::MARK_LEN)
    });
    for log in [&log, &whole] {
        let report = log.verify();
        judged(&report, Unanchored, 10, &[]);
        judged(&log.verify_anchored(log), Ok, 0, &[]);
        assert!(report.notes.iter().any(|n| n.contains("not closed cleanly")));
        assert!(report.notes.iter().any(|n| n.contains("64 chunks or 10 s")), "{:?}", report.notes);
        assert!(report.unsigned_chunks > 0 && report.unsigned_records > 0);
    }
    let inside = log.copy();
    inside.change(&name, |b| b.truncate(marks[marks.len() - 1].0 - 10));
    judged(&inside.verify(), TornTail, 12, &[&name]);
    inside.open().close(inside.now).unwrap();
    judged(&inside.verify(), Unanchored, 10, &[]);
}

fn last_checkpoints_deleted() {
    // A chunk names the checkpoint that is gone.
    let log = Log::filled();
    let cut = log.copy();
    let size = log.header(&log.segments()[1]).first_chunk;
    cut.cut_checkpoints(size - 1);
    judged(&cut.verify(), Incomplete, 23, &["a chunk names a checkpoint"]);
    // Or there are more chunks than a log has without one.
    let mut log = Log::new();
    let mut writer = log.open();
    let before = log.anchor().checkpoint.size;
    (0..140).for_each(|_| log.fill(&mut writer, 1));
    drop(writer);
    log.cut_checkpoints(before);
    judged(&log.verify(), Incomplete, 23, &["after the last checkpoint"]);
}

fn checkpoints_deleted() {
    let log = Log::filled();
    let gone = log.copy();
    gone.log.delete(checkpoints::FILE);
    judged(&gone.verify(), Incomplete, 23, &["size 0"]);
    log.put(checkpoints::FILE, b"");
    judged(&log.verify(), Incomplete, 23, &["size 0"]);
}

fn own_stub() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let stub = Stub::of_segment(&log.log, &name).unwrap();
    let header = log.header(&name);
    log.log.delete(&name);
    log.put(&name.replace("gsl", "pruned"), &stub);
    let last = log.header(&log.segments()[0]).first_record - 1;
    let records = format!("records {} to {last}", header.first_record);
    judged(&log.verify(), Incomplete, 23, &["no prune record covers it", &records]);
}

fn pruned_in_order() {
    let mut log = Log::filled();
    for _ in 0..2 {
        let mut writer = log.open();
        log.fill(&mut writer, 10);
        writer.close(log.now).unwrap();
    }
    let before = log.anchor();
    let all: Vec<u64> = segments(&log.log).unwrap().iter().map(|s| s.first_chunk).collect();
    let mut writer = log.open();
    writer.hold_segments(&all[1..2], true, log.now).unwrap();
    assert!(writer.prune(&all[1..2], log.now).is_err(), "on hold");
    writer.prune(&[all[0], all[2]], log.now).unwrap();
    log.fill(&mut writer, 50);
    writer.switch_epoch_now(log.now).unwrap();
    writer.close(log.now).unwrap();
    // Anchors from before, and of sizes inside the pruned part, are compared still.
    let inside = log.notes().iter().map(|(_, c)| c.size).find(|s| *s > 2).unwrap();
    assert!(inside < all[1]);
    let mut options = Options { anchors: vec![before, log.anchor()], ..Options::default() };
    let report = log.verify_with(&options);
    judged(&report, Ok, 0, &[]);
    assert_eq!((report.pruned.len(), report.pruned[0].first, report.epochs), (2, 0, 3));
    options.keys = &log.keys;
    judged(&log.verify_with(&options), Ok, 0, &[]);
    // A stub that was altered is seen, also with its own hash corrected.
    let name = "seg-00000000000000000000.pruned";
    for at in [20, 240, 300] {
        let log = log.copy();
        log.change(name, |b| {
            b[at] ^= 1;
            let end = b.len() - 32;
            let own = gabion_seal::format::tree::sha256(&b[..end]);
            b[end..].copy_from_slice(&own);
        });
        assert!(matches!(log.verify().verdict(), Tampered | Incomplete), "byte {at}");
    }
}

fn damaged_notes() {
    let log = Log::filled();
    let notes = log.notes();
    let (range, _) = notes[2].clone();
    // A bit of size, root, signature; and of the length before it.
    for at in [range.start + 9 + 18, range.start + 9 + 25, range.end - 20, range.start + 3] {
        let log = log.copy();
        log.change(checkpoints::FILE, |b| b[at] ^= 1);
        judged(&log.verify(), Tampered, 20, &["checkpoints"]);
    }
    // Signatures of keys that are not known say nothing.
    let mut log = log;
    let mut all = Vec::new();
    let mut reader = checkpoints::Reader::new(&log.log).unwrap().unwrap();
    while let checkpoints::Next::Entry(entry) = reader.step().unwrap() {
        let other = gabion_seal::format::epoch::EpochKey::generate().unwrap();
        let note = format!("{}{}", entry.note, other.sign_checkpoint(&entry.checkpoint, 1)[0]);
        all.extend_from_slice(&checkpoints::frame(&note));
    }
    drop(reader);
    log.put(checkpoints::FILE, &all);
    judged(&log.verify_anchored(&log.copy()), Ok, 0, &[]);
    log.now += SECOND;
}

fn stale() {
    let log = Log::filled();
    let options = |age: u64| Options {
        max_age: Some((age * SECOND, log.now + 100 * SECOND)),
        anchors: vec![log.anchor()],
        ..Options::default()
    };
    judged(&log.verify_with(&options(50)), Stale, 11, &["newest signed time"]);
    judged(&log.verify_with(&options(200)), Ok, 0, &[]);
}

fn while_written() {
    let mut log = Log::new();
    log.policy.segment_bytes = 20_000;
    log.policy.epoch_chunks = 60;
    let mut writer = log.open();
    let mut looks = 0;
    for n in 0..400u64 {
        log.now += SECOND / 4;
        super::support::append(
            &mut writer,
            log.now,
            &format!("<13>Nov 14 22:13:20 host app: {}", "x".repeat(n as usize % 200)),
        );
        writer.tick(log.now).unwrap();
        if n % 3 == 0 {
            writer.commit(log.now).unwrap();
        }
        if n == 350 {
            let first = segments(&log.log).unwrap()[0].first_chunk;
            writer.prune(&[first], log.now).unwrap();
        }
        if n % 5 == 0 {
            looks += 1;
            let report = log.verify();
            assert_eq!(report.verdicts, [Unanchored], "{n}: {:?}", report.places);
        }
    }
    writer.close(log.now).unwrap();
    let report = log.verify_anchored(&log.copy());
    judged(&report, Ok, 0, &[]);
    assert!(looks == 80 && report.epochs > 1 && report.pruned.len() == 1, "{report:?}");
    looks_during_writing();
}

/// The same with a writer that nobody stops while it is looked at: 40 looks, 1,000 when all are asked for.
fn looks_during_writing() {
    use gabion_seal::storage::Files;
    use gabion_seal::verify::{Options, verify};
    use gabion_seal::{Init, Policy, SecretKey, Writer};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    let folder = tempfile::tempdir().unwrap();
    let (path, state) = (folder.path().join("log"), folder.path().join("state"));
    let files = gabion_runtime::files::direct_opener();
    let open = |path: &std::path::Path| Files::create_folder(&files, path).unwrap();
    Init::new("log.example/writing", NOW).create(&mut open(&path), open(&state)).unwrap();
    let keys = [SecretKey::generate().unwrap()];
    let policy = Policy { segment_bytes: 6_000, epoch_chunks: 60, ..Policy::default() };
    let readers = vec![keys[0].recipient().clone()];
    let (mut writer, _) = Writer::open(open(&path), open(&state), readers, policy, NOW).unwrap();
    let wanted = if std::env::var_os("GABION_EXHAUSTIVE").is_some() { 1_000 } else { 40 };
    let is_over = AtomicBool::new(false);
    let (mut rotations, mut prunes) = (0, 0);
    std::thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let log = open(&path);
            let mut sizes: Vec<u64> = Vec::new();
            // Until the writer has come to do something, too.
            for look in 0.. {
                if look >= wanted && sizes.first() < sizes.last() {
                    break;
                }
                let keys = if look % 4 == 0 { &keys[..] } else { &[] };
                let options = Options { keys, jobs: 1 + look % 2, ..Options::default() };
                let report = verify(&log, &options, &mut |_, _| {}).unwrap();
                let places: Vec<_> = report.places.iter().map(|(_, p)| p.describe()).collect();
                if report.verdicts != [Unanchored] {
                    is_over.store(true, Relaxed);
                }
                assert_eq!(report.verdicts, [Unanchored], "look {look}: {places:#?}");
                sizes.push(report.signed_size);
            }
            is_over.store(true, Relaxed);
            sizes
        });
        let mut now = NOW;
        for n in 0u64.. {
            now += SECOND / 8;
            super::support::append_to(
                &mut writer,
                now,
                &format!("<13>Nov 14 22:13:20 host app: {n} {}", "x".repeat(n as usize % 200)),
            );
            writer.tick(now).unwrap();
            if n % 7 == 0 {
                writer.commit(now).unwrap();
            }
            if n % 16 == 0 {
                let there = segments(writer.log()).unwrap();
                rotations = rotations.max(there.last().map_or(0, |s| s.first_chunk));
                if there.len() > 2 {
                    writer.prune(&[there[0].first_chunk], now).unwrap();
                    prunes += 1;
                    // Often, but not without a pause that a whole look fits in.
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
            }
            if is_over.load(Relaxed) && (prunes > 0 || n > 10_000) {
                break;
            }
        }
        let sizes = looking.join().unwrap();
        assert!(sizes.is_sorted() && sizes.first() < sizes.last(), "{sizes:?}");
    });
    writer.close(NOW + 1_000_000 * SECOND).unwrap();
    assert!(rotations > 0 && prunes > 0, "{rotations} {prunes}");
    eprintln!("  {wanted} looks during writing, {prunes} prunes");
}

fn altered_marks() {
    let log = Log::filled();
    let name = log.segments()[0].clone();
    let marks = log.marks(&name);
    let (at, _) = marks[marks.len() / 2];
    log.change(&name, |b| b[at + 100] ^= 1);
    let deep = log.verify_with(&Options { is_deep: true, ..Options::default() });
    judged(&deep, Unanchored, 10, &[]);
    let json = String::from_utf8(deep.to_json(0.0)).unwrap();
    let said = format!("{name} at byte {at}");
    assert!(json.contains(&said) && json.contains("commit mark with a wrong signature"), "{json}");
    judged(&log.verify(), Unanchored, 10, &[]);
    // After the last checkpoint: in the last group as a crash leaves it, before it as no crash does.
    let mut log = Log::new();
    let mut writer = log.open();
    for _ in 0..3 {
        log.now += SECOND / 100;
        super::support::append(&mut writer, log.now, "<13>after the last checkpoint");
        writer.commit(log.now).unwrap();
    }
    drop(writer);
    let marks = log.marks(&log.segments()[0]);
    for (from_end, verdict, exit) in [(1, TornTail, 12), (3, Tampered, 20)] {
        let log = log.copy();
        let name = log.segments()[0].clone();
        let at = marks[marks.len() - from_end].0;
        log.change(&name, |b| b[at + 100] ^= 1);
        judged(&log.verify(), verdict, exit, &[&format!("{name} at byte {at}")]);
    }
}

fn anchors_of_no_use() {
    let (log, other) = (Log::filled(), Log::filled());
    let mut foreign = Log::named("log.example/foreign");
    let mut writer = foreign.open();
    foreign.fill(&mut writer, 10);
    writer.close(foreign.now).unwrap();
    let outcome = |log: &Log, anchor: &Log| {
        let report = log.verify_anchored(anchor);
        let json = String::from_utf8(report.to_json(0.0)).unwrap();
        assert!(json.contains(&report.anchors[0].outcome), "{json}");
        (report.verdict().code(), report.anchors[0].outcome.clone())
    };
    assert_eq!(outcome(&log, &foreign), (10, "of another log".to_owned()));
    // Of the same name, and signed by another key.
    assert_eq!(outcome(&log, &other).0, 10);
    // Damage below its size: the roots that it would be compared with can't be computed.
    let name = log.segments()[0].clone();
    let (range, _) = log.chunks(&name)[2].clone();
    let damaged = log.copy();
    damaged.change(&name, |b| b[range.start] ^= 0xff);
    assert_eq!(outcome(&damaged, &log), (20, "could not be compared".to_owned()));
}

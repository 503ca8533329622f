//! What crashes leave, and damage that only looks like it.

use super::support::{Log, NOW, SECOND, append};
use super::{Threat, judged};
use gabion_seal::checkpoints;
use gabion_seal::storage::{Files, Storage};
use gabion_seal::verify::Verdict::{Tampered, TornTail, Unanchored};
use gabion_seal::{Error, Mismatch};

pub(crate) fn rows() -> Vec<Threat> {
    vec![
        Threat {
            number: 31,
            attack: "partial chunk, zero-filled end, file longer than written, end of an older file, torn chunk with a whole one after it, torn last note",
            by: "C",
            verdict: "TORN-TAIL; after `recover`: OK and a recovery record",
            place: "byte, bytes dropped",
            exit: "12 → 0",
            residual: "",
            run: torn,
        },
        Threat {
            number: 32,
            attack: "power cut right after an acknowledgement",
            by: "C",
            verdict: "the record is there",
            place: "",
            exit: "0",
            residual: "a disk that lies about its cache",
            run: acknowledged,
        },
        Threat {
            number: 33,
            attack: "the damage of 31 below a checkpoint, or before a valid commit mark",
            by: "D",
            verdict: "TAMPERED, and recovery refuses",
            place: "chunk",
            exit: "20",
            residual: "",
            run: not_torn,
        },
        Threat {
            number: 48,
            attack: "a symbolic link or device planted in the log before root recovers it",
            by: "D",
            verdict: "refused",
            place: "path",
            exit: "3",
            residual: "",
            run: planted,
        },
    ]
}

/// A log whose writer was killed after a commit; where its last group begins.
fn killed() -> (Log, String, usize) {
    let mut log = Log::new();
    let mut writer = log.open();
    log.fill(&mut writer, 100);
    let name = log.segments()[0].clone();
    let good = log.get(&name).len();
    for n in 0..200 {
        append(
            &mut writer,
            log.now,
            &format!("<13>Nov 14 22:13:20 host app: in the last group, number {n}"),
        );
    }
    writer.commit(log.now).unwrap();
    drop(writer);
    (log, name, good)
}

fn torn() {
    let (log, name, good) = killed();
    let whole = log.get(&name);
    let first = whole[good..].len() / 3;
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("partial chunk", whole[..good + first].to_vec()),
        ("head alone", whole[..good + 64].to_vec()),
        ("zero-filled end", [&whole[..good + first], &vec![0; 500]].concat()),
        ("zeros alone", [&whole[..good], &vec![0; 4_096]].concat()),
        ("longer than written", [&whole[..], &[0xaa; 300]].concat()),
        ("end of an older file", [&whole[..good + first], &whole[300..900]].concat()),
        ("torn chunk, a whole one after it", {
            let mut bytes = whole.clone();
            bytes[good + 140..good + 200].fill(0);
            bytes.truncate(whole.len() - gabion_seal::format::chunk::MARK_LEN);
            bytes
        }),
        ("no mark", whole[..whole.len() - gabion_seal::format::chunk::MARK_LEN].to_vec()),
        ("half a mark", whole[..whole.len() - 60].to_vec()),
    ];
    for (what, bytes) in cases {
        let log = log.copy();
        log.put(&name, &bytes);
        eprintln!("  {what}");
        judged(&log.verify(), TornTail, 12, &[&name]);
        log.open().close(log.now + SECOND).unwrap();
        let report = log.verify_open();
        judged(&report, Unanchored, 10, &[]);
        assert!(report.notes.iter().any(|n| n.contains("cut off after a crash")), "{what}");
    }
    // The last note of the file of checkpoints.
    let notes = log.get(checkpoints::FILE);
    for end in [notes.len() - 1, notes.len() - 100, notes.len() - 200] {
        let log = log.copy();
        let mut bytes = notes.clone();
        bytes.extend_from_slice(&notes[..50]);
        log.put(checkpoints::FILE, &bytes);
        judged(&log.verify(), TornTail, 12, &["checkpoints"]);
        log.open().close(log.now + SECOND).unwrap();
        judged(&log.verify(), Unanchored, 10, &[]);
        assert!(end < notes.len());
    }
}

fn acknowledged() {
    use gabion_seal::storage::Left;
    let mut log = Log::new();
    let mut writer = log.open();
    log.fill(&mut writer, 30);
    append(&mut writer, log.now, "acknowledged");
    writer.commit(log.now).unwrap();
    let left = log.log.after_crash(Left::Lost);
    drop(writer);
    let after = Log { log: left, ..log.copy() };
    after.open().close(after.now).unwrap();
    let report = after.verify_open();
    judged(&report, Unanchored, 10, &[]);
    assert!(report.opened_records >= 31);
}

fn not_torn() {
    let (log, name, good) = killed();
    // Below a checkpoint.
    let chunks = log.chunks(&name);
    let signed = log.anchor().checkpoint.size;
    let below = chunks.iter().find(|(_, h)| h.index + 1 == signed).unwrap().0.clone();
    let cut = log.copy();
    cut.change(&name, |b| b[below.end - 5..below.end].fill(0));
    judged(&cut.verify(), Tampered, 20, &[&name]);
    // Before a valid mark: the group before the last.
    let before = chunks.iter().rfind(|(r, _)| r.end < good).unwrap().clone();
    assert!(before.1.index >= signed);
    for end in [before.0.start + 10, before.0.end] {
        let log = log.copy();
        log.change(&name, |b| b[end - 5..end].fill(0));
        judged(&log.verify(), Tampered, 20, &[&name]);
        let refused = log.try_open().unwrap_err();
        assert!(matches!(refused, Error::Mismatch(Mismatch::Damage { .. })), "{refused}");
    }
}

fn planted() {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::open(&gabion_runtime::files::direct_opener(), folder.path()).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("seg-00000000000000000000.gsl"))
        .unwrap();
    assert!(files.list().unwrap_err().to_string().contains("not a regular file"));
    assert!(files.len("seg-00000000000000000000.gsl").is_err());
    let mut buffer = [0; 4];
    assert!(files.read_at("seg-00000000000000000000.gsl", 0, &mut buffer).is_err());
    assert_eq!(NOW % SECOND, 0);
}

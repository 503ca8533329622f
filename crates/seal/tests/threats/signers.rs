//! Attacks with signing keys, and forks.

use super::support::{Log, NOW, SECOND};
use super::{Threat, judged};
use gabion_seal::checkpoints;
use gabion_seal::checkpoints::{Note, Vkey};
use gabion_seal::format::epoch::{EpochKey, mark_text};
use gabion_seal::format::signer::SignerState;
use gabion_seal::storage::Memory;
use gabion_seal::verify::Options;
use gabion_seal::verify::Verdict::{Fork, Ok, Tampered, Unanchored};
use gabion_seal::{Error, Identity, Init};

pub(crate) fn rows() -> Vec<Threat> {
    vec![
        Threat {
            number: 17,
            attack: "a new log of the same origin under the attacker's own keys",
            by: "D",
            verdict: "OK-UNANCHORED → TAMPERED, \"not signed by the pinned key\"",
            place: "log.id",
            exit: "10 → 20",
            residual: "needs the pinned key",
            run: other_keys,
        },
        Threat {
            number: 18,
            attack: "rewrite an old epoch's record and sign everything again with the current key (CVE-2023-31439)",
            by: "S",
            verdict: "TAMPERED, \"key of epoch k+n on a size of epoch k\"",
            place: "first wrong note",
            exit: "20",
            residual: "",
            run: old_epoch_rewritten,
        },
        Threat {
            number: 19,
            attack: "cut back to an older epoch and continue under the current key (CVE-2023-31438)",
            by: "S",
            verdict: "TAMPERED",
            place: "epoch",
            exit: "20",
            residual: "",
            run: epoch_gap,
        },
        Threat {
            number: 20,
            attack: "hide records inside the current epoch and sign again",
            by: "S",
            verdict: "OK-UNANCHORED → FORK",
            place: "anchor's size",
            exit: "10 → 22",
            residual: "what was sealed after the last anchor",
            run: current_epoch_rewritten,
        },
        Threat {
            number: 21,
            attack: "continue from an old signer state: another, valid future",
            by: "S0",
            verdict: "OK-UNANCHORED → FORK",
            place: "first differing size",
            exit: "10 → 22",
            residual: "",
            run: other_future,
        },
        Threat {
            number: 22,
            attack: "show two auditors two logs",
            by: "S",
            verdict: "FORK, when their checkpoints meet",
            place: "the two notes",
            exit: "22",
            residual: "witnesses remove it",
            run: two_auditors,
        },
        Threat {
            number: 23,
            attack: "continue from a machine's snapshot, or from a restored backup",
            by: "O",
            verdict: "OK-UNANCHORED → FORK; no nonce is used twice",
            place: "first differing size",
            exit: "10 → 22",
            residual: "",
            run: snapshot,
        },
        Threat {
            number: 24,
            attack: "a second writer; the lock bypassed",
            by: "O",
            verdict: "LOCKED; FORK or TAMPERED",
            place: "chunk",
            exit: "26 / 22, 20",
            residual: "network file systems",
            run: two_writers,
        },
        Threat {
            number: 38,
            attack: "the clock is set back; times of checkpoints not in order",
            by: "O, S",
            verdict: "a `clock` record: OK; none: TAMPERED",
            place: "note",
            exit: "0 / 20",
            residual: "S can write the record",
            run: clock,
        },
        Threat {
            number: 50,
            attack: "open a log whose signer's state is another's, or older than the log",
            by: "O",
            verdict: "refused",
            place: "sizes, epochs",
            exit: "22, 3",
            residual: "",
            run: mismatched,
        },
    ]
}

fn other_keys() {
    let (log, theirs) = (Log::filled(), Log::filled());
    let pinned = Identity::parse(&log.get("log.id")).unwrap().vkey;
    judged(&theirs.verify(), Unanchored, 10, &[]);
    let options = Options { vkey: Some(pinned), ..Options::default() };
    judged(&theirs.verify_with(&options), Tampered, 20, &["not signed by the pinned key"]);
    judged(&log.verify_with(&options), Unanchored, 10, &[]);
    // One key of the old log in the new one's log.id does not help.
    let mixed = theirs.copy();
    mixed.put("log.id", &log.get("log.id"));
    assert_eq!(mixed.verify_with(&options).verdict().code(), 20);
}

/// Signs checkpoints and marks of a log again with one key, wherever `rewrites` says so.
fn sign_again(log: &Log, key: &EpochKey, rewrites: impl Fn(u64) -> bool) {
    let id = Identity::parse(&log.get("log.id")).unwrap().log_id();
    let mut range = gabion_seal::format::tree::Range::new();
    let mut roots = vec![range.root()];
    for name in log.segments() {
        let hash = gabion_seal::format::tree::sha256(&log.get(&name)[..200]);
        for (_, header) in log.chunks(&name) {
            range.push(header.leaf(&hash));
            roots.push(range.root());
        }
        for (at, mut mark) in log.marks(&name) {
            if rewrites(mark.size) {
                mark.root = roots[mark.size as usize];
                mark.signature = key.sign(&mark_text(&id, mark.size, &mark.root));
                log.change(&name, |b| {
                    b[at..at + gabion_seal::format::chunk::MARK_LEN].copy_from_slice(&mark.encode())
                });
            }
        }
    }
    let mut out = Vec::new();
    let mut reader = checkpoints::Reader::new(&log.log).unwrap().unwrap();
    while let checkpoints::Next::Entry(entry) = reader.step().unwrap() {
        let (mut note, mut checkpoint) = (entry.note, entry.checkpoint);
        if rewrites(checkpoint.size) {
            checkpoint.root = roots[checkpoint.size as usize];
            let time = note.signatures.iter().find_map(|s| s.time()).unwrap();
            note = Note {
                text: checkpoint.text(),
                signatures: key.sign_checkpoint(&checkpoint, time).to_vec(),
            };
        }
        out.extend_from_slice(&checkpoints::frame(&note.to_string()));
    }
    log.put(checkpoints::FILE, &out);
}

/// Changes a chunk of the log so that it is consistent in itself: body, its hash in the head.
fn rewrite_chunk(log: &Log, name: &str, index: usize) -> u64 {
    let (range, mut header) = log.chunks(name)[index].clone();
    log.change(name, |b| {
        b[range.end - 1] ^= 1;
        header.body_hash = gabion_seal::format::tree::sha256(&b[range.start + 128..range.end]);
        b[range.start..range.start + 128].copy_from_slice(&header.encode());
    });
    header.index
}

fn current(log: &Log) -> EpochKey {
    let id = Identity::parse(&log.get("log.id")).unwrap().log_id();
    let state = SignerState::open(log.state.clone(), id).unwrap();
    let key = &state.keys[0].key;
    EpochKey::from_seed(key.number(), zeroize::Zeroizing::new(*key.seed())).unwrap()
}

fn old_epoch_rewritten() {
    let log = Log::filled();
    let key = current(&log);
    assert_eq!(key.number(), 1);
    let name = log.segments()[0].clone();
    rewrite_chunk(&log, &name, 2);
    // The segment that follows is bound to the old root; S corrects that too.
    let bad = log.copy();
    sign_again(&bad, &key, |_| true);
    judged(&bad.verify(), Tampered, 20, &["key of epoch 1 on size", "of epoch 0"]);
}

fn epoch_gap() {
    let log = Log::filled();
    let key = current(&log);
    // Everything after the first checkpoints of epoch 0 is cut; the current key signs on from there.
    let name = log.segments()[0].clone();
    let marks = log.marks(&name);
    let size = marks[2].1.size;
    log.log.delete(&log.segments()[1]);
    log.change(&name, |b| b.truncate(marks[2].0 + gabion_seal::format::chunk::MARK_LEN));
    log.cut_checkpoints(size);
    sign_again(&log, &key, |s| s == size);
    let checkpoint = gabion_seal::checkpoints::Checkpoint {
        size,
        root: marks[2].1.root,
        ..log.anchor().checkpoint
    };
    let note = Note {
        text: checkpoint.text(),
        signatures: key.sign_checkpoint(&checkpoint, NOW / SECOND + 500).to_vec(),
    };
    log.change(checkpoints::FILE, |b| b.extend_from_slice(&checkpoints::frame(&note.to_string())));
    judged(&log.verify(), Tampered, 20, &["not signed by the key of its epoch 0"]);
}

fn current_epoch_rewritten() {
    let log = Log::filled();
    let bad = log.copy();
    let key = current(&log);
    let names = log.segments();
    let chunks = log.chunks(&names[1]).len();
    let changed = rewrite_chunk(&bad, &names[1], chunks - 2);
    sign_again(&bad, &key, |s| s > changed);
    judged(&bad.verify(), Unanchored, 10, &[]);
    judged(&bad.verify_anchored(&log), Fork, 22, &["anchor"]);
    assert_eq!(bad.verify_anchored(&log).evidence.len(), 2, "both notes are the evidence");
}

fn other_future() {
    let mut log = Log::filled();
    let mut old = log.copy();
    let mut writer = log.open();
    log.fill(&mut writer, 100);
    writer.close(log.now).unwrap();
    // An attacker with the old state and the old folder writes another future, as long as the real one.
    let mut writer = old.open();
    old.fill(&mut writer, 100);
    writer.close(old.now).unwrap();
    judged(&old.verify(), Unanchored, 10, &[]);
    judged(&old.verify_anchored(&log), Fork, 22, &["another root"]);
}

fn two_auditors() {
    let mut log = Log::filled();
    let mut other = log.copy();
    for log in [&mut log, &mut other] {
        let mut writer = log.open();
        log.fill(&mut writer, 20);
        writer.close(log.now).unwrap();
    }
    let (a, b) = (log.anchor(), other.anchor());
    assert_eq!(a.checkpoint.size, b.checkpoint.size);
    let report = log.verify_with(&Options { anchors: vec![a, b], ..Options::default() });
    judged(&report, Fork, 22, &["two signed roots"]);
    assert_eq!(report.evidence.len(), 2);
}

fn snapshot() {
    let mut log = Log::new();
    let mut writer = log.open();
    log.fill(&mut writer, 60);
    drop(writer);
    let mut resumed = log.copy();
    for log in [&mut log, &mut resumed] {
        let mut writer = log.open();
        log.fill(&mut writer, 60);
        writer.close(log.now).unwrap();
    }
    let nonces = |log: &Log| -> Vec<Vec<u8>> {
        let names = log.segments();
        let name = names.last().unwrap();
        let bytes = log.get(name);
        let chunks = log.chunks(name).into_iter().filter(|(_, h)| !h.is_clear());
        chunks.map(|(r, _)| bytes[r.start + 128..r.start + 140].to_vec()).collect()
    };
    let (a, b) = (nonces(&log), nonces(&resumed));
    assert!(!a.is_empty() && a.iter().all(|n| !b.contains(n)), "the same records, other nonces");
    judged(&resumed.verify(), Unanchored, 10, &[]);
    judged(&resumed.verify_anchored(&log), Fork, 22, &[]);
}

fn two_writers() {
    let mut log = Log::new();
    let mut writer = log.open();
    assert!(matches!(log.try_open(), Err(Error::Locked { .. })));
    log.fill(&mut writer, 20);
    writer.close(log.now).unwrap();
    // Both folders as a broken lock gives them: each writes its own, then one's files lie over the other's.
    let mut other = log.copy();
    for log in [&mut log, &mut other] {
        let mut writer = log.open();
        log.fill(&mut writer, 20);
        writer.close(log.now).unwrap();
    }
    let mut notes = log.get(checkpoints::FILE);
    let theirs = other.notes().pop().unwrap().0;
    notes.extend_from_slice(&other.get(checkpoints::FILE)[theirs]);
    log.put(checkpoints::FILE, &notes);
    let report = log.verify();
    judged(&report, Fork, 22, &["two signed roots"]);
    assert_eq!(report.evidence.len(), 2);
}

fn clock() {
    let mut log = Log::new();
    let mut writer = log.open();
    log.fill(&mut writer, 20);
    writer.sign_checkpoint(log.now).unwrap();
    log.now -= 3_600 * SECOND;
    writer.tick(log.now).unwrap();
    log.fill(&mut writer, 20);
    writer.close(log.now).unwrap();
    let report = log.verify_anchored(&log.copy());
    judged(&report, Ok, 0, &[]);
    assert!(report.notes.iter().any(|n| n.contains("clock was set")), "{:?}", report.notes);
    // The same times without the record.
    let log = Log::filled();
    let key = current(&log);
    let last = log.anchor();
    let note = Note {
        text: last.checkpoint.text(),
        signatures: key.sign_checkpoint(&last.checkpoint, NOW / SECOND - 5).to_vec(),
    };
    log.change(checkpoints::FILE, |b| b.extend_from_slice(&checkpoints::frame(&note.to_string())));
    judged(&log.verify(), Tampered, 20, &["no record says that the clock was set"]);
}

fn mismatched() {
    let mut log = Log::filled();
    let old_state = log.state.snapshot();
    let mut writer = log.open();
    log.fill(&mut writer, 20);
    writer.switch_epoch_now(log.now).unwrap();
    writer.close(log.now).unwrap();
    let old = Log { state: old_state, ..log.copy() };
    let refused = old.try_open().unwrap_err();
    assert!(matches!(refused, Error::Mismatch(_)), "{refused}");
    let other = Log { state: Log::named("log.example/other").state, ..log.copy() };
    assert!(matches!(other.try_open(), Err(Error::Mismatch(gabion_seal::Mismatch::OtherLog))));
    let none = Log { state: Memory::new(), ..log.copy() };
    assert!(matches!(none.try_open(), Err(Error::Key { .. })));
    assert!(
        Init::new("log.example/test", NOW).create(&mut log.log.clone(), Memory::new()).is_err()
    );
    let vkey: Vkey = Identity::parse(&log.get("log.id")).unwrap().vkey;
    assert_eq!(Vkey::parse(&vkey.to_string()).unwrap(), vkey);
}

//! Changes that alter and hide no record: to the file of checkpoints, to indexes and commit marks, and files
//! put next to a log's own. Each is a warning with its place, and none costs more work than it is long.

use super::support::{Log, SECOND};
use super::{Threat, judged};
use gabion_seal::checkpoints;
use gabion_seal::format::walk::Item;
use gabion_seal::storage::Storage;
use gabion_seal::verify::Verdict::{Ok, Tampered};
use gabion_seal::verify::{Options, Report};

pub(crate) fn rows() -> Vec<Threat> {
    vec![
        Threat {
            number: 53,
            attack: "take a signed checkpoint out of the middle; the first one",
            by: "D",
            verdict: "OK and a warning",
            place: "its size, and the chunk that names it",
            exit: "0",
            residual: "",
            run: checkpoint_taken_out,
        },
        Threat {
            number: 54,
            attack: "repeat a checkpoint 20,000 times, with lines of unknown keys too; add wrong notes without end",
            by: "D",
            verdict: "OK and a warning; TAMPERED",
            place: "note, and how often; bounded work",
            exit: "0; 20",
            residual: "",
            run: checkpoints_repeated,
        },
        Threat {
            number: 55,
            attack: "cut off the index of a middle segment, of the last; put a second one in; one where the segment does not end",
            by: "D",
            verdict: "OK and a warning, results unchanged",
            place: "segment, byte",
            exit: "0",
            residual: "",
            run: indexes,
        },
        Threat {
            number: 56,
            attack: "put files into the log's folder: a segment's name that none can have, keys of no segment, a stub next to its segment",
            by: "D",
            verdict: "OK and a warning",
            place: "file",
            exit: "0",
            residual: "",
            run: strange_files,
        },
        Threat {
            number: 57,
            attack: "repeat a commit mark 5,000 times, below a checkpoint and after it; put thousands of false ones after damage",
            by: "D",
            verdict: "OK and a warning; TAMPERED",
            place: "segment, byte; bounded work",
            exit: "0; 20",
            residual: "",
            run: marks_repeated,
        },
        Threat {
            number: 58,
            attack: "take checkpoints out of a pruned part",
            by: "D",
            verdict: "OK and a warning, where a kept chunk names one or more than 2 N + 2 chunks lie between two",
            place: "sizes",
            exit: "0",
            residual: "fewer than that are no proof",
            run: pruned_checkpoints,
        },
        Threat {
            number: 59,
            attack: "delete the last checkpoints where fewer than N chunks follow, over more than T seconds and an idle mark",
            by: "D",
            verdict: "OK and a warning",
            place: "size, seconds",
            exit: "0",
            residual: "the last T seconds",
            run: late_tail,
        },
    ]
}

/// A log of three segments with many checkpoints, the last of them kept off the host.
fn log() -> (Log, Log) {
    let mut log = Log::filled();
    let mut writer = log.open();
    for _ in 0..6 {
        log.fill(&mut writer, 50);
        log.now += 11 * SECOND;
        writer.tick(log.now).unwrap();
    }
    writer.close(log.now).unwrap();
    let anchor = log.copy();
    let report = log.verify_anchored(&anchor);
    judged(&report, Ok, 0, &[]);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    (log, anchor)
}

/// Exactly one warning, which names these; the verdict is as if nothing had been done.
fn warned(log: &Log, anchor: &Log, names: &[&str]) -> Report {
    for keys in [&[][..], &log.keys] {
        let given = Options { anchors: vec![anchor.anchor()], keys, ..Options::default() };
        let report = log.verify_with(&given);
        judged(&report, Ok, 0, &[]);
        let [warning] = report.warnings.as_slice() else { panic!("{:?}", report.warnings) };
        assert!(names.iter().all(|n| warning.contains(n)), "{warning}: {names:?}");
    }
    log.verify_anchored(anchor)
}

fn checkpoint_taken_out() {
    let (log, anchor) = log();
    let notes = log.notes();
    for (at, (range, checkpoint)) in notes.iter().enumerate().take(notes.len() - 1) {
        if notes.iter().filter(|(_, c)| c.size == checkpoint.size).count() > 1 {
            continue;
        }
        let log = log.copy();
        log.change(checkpoints::FILE, |b| drop(b.drain(range.clone())));
        let size = checkpoint.size;
        let is_epochs_end = anchor.notes()[at].1.size == epoch_end(&anchor);
        if is_epochs_end {
            // Row 18's rule: an epoch's end is signed by both keys, or the log is not whole.
            assert_eq!(log.verify_anchored(&anchor).verdict(), Tampered);
            continue;
        }
        let named = [&format!("the checkpoint of {size} chunks is missing")[..], "names it (seg-"];
        warned(&log, &anchor, &named);
    }
    // Two that lie apart are two warnings.
    let two = log.copy();
    let last = notes.len() - 1;
    two.change(checkpoints::FILE, |b| {
        b.drain(notes[last - 1].0.clone());
        b.drain(notes[last - 3].0.clone());
    });
    assert_eq!(two.verify_anchored(&anchor).warnings.len(), 2);
}

/// Size at which the first epoch of the log ended.
fn epoch_end(log: &Log) -> u64 {
    let both = log.notes().into_iter().find(|(range, _)| {
        let text = String::from_utf8(log.get(checkpoints::FILE)[range.clone()].to_vec()).unwrap();
        text.matches('\u{2014}').count() == 4
    });
    both.unwrap().1.size
}

fn checkpoints_repeated() {
    checkpoints_of_nobody();
    let (log, anchor) = log();
    let before = log.verify_anchored(&anchor).checked_signatures;
    let notes = log.notes();
    let bytes = log.get(checkpoints::FILE);
    let last = &bytes[notes.last().unwrap().0.clone()];
    // Where it stands, and how often.
    let number = notes.len().to_string();
    let many = log.copy();
    many.change(checkpoints::FILE, |b| (0..20_000).for_each(|_| b.extend_from_slice(last)));
    let named = [&format!("note {number}")[..], "again, 20000 times more"];
    let report = warned(&many, &anchor, &named);
    assert_eq!(report.checked_signatures, before);
    // The same with a line of a key that nobody knows, each time another.
    let text = String::from_utf8(last[9..].to_vec()).unwrap();
    let many = log.copy();
    many.change(checkpoints::FILE, |b| {
        for n in 0..5_000u32 {
            let id = gabion_record::base64::to_base64(&[&n.to_be_bytes()[..], &[7; 64]].concat());
            b.extend(checkpoints::frame(&format!("{text}\u{2014} nobody {id}\n")));
        }
    });
    let report = warned(&many, &anchor, &["again, 5000 times more"]);
    assert_eq!(report.checked_signatures, before);
    // One in the middle, after itself.
    let once = log.copy();
    let middle = notes[notes.len() - 3].0.clone();
    let copy = bytes[middle.clone()].to_vec();
    once.change(checkpoints::FILE, |b| drop(b.splice(middle.end..middle.end, copy)));
    warned(&once, &anchor, &["again, once more"]);
    // Wrong signatures, and older notes by turns: tampering, found in bounded work.
    for is_wrong in [true, false] {
        let many = log.copy();
        let older = bytes[notes[2].0.clone()].to_vec();
        let note = &text[..text.find("\n\n").unwrap()];
        many.change(checkpoints::FILE, |b| {
            for n in 0..5_000u64 {
                if !is_wrong {
                    b.extend_from_slice(&older);
                    b.extend_from_slice(last);
                    continue;
                }
                // Another root under the signatures of this one.
                let root = gabion_record::base64::to_base64(&gabion_seal::format::tree::sha256(
                    &n.to_be_bytes(),
                ));
                let mut lines: Vec<&str> = note.lines().collect();
                lines[2] = &root;
                let rest = &text[note.len()..];
                b.extend(checkpoints::frame(&format!("{}{rest}", lines.join("\n"))));
            }
        });
        let report = many.verify_anchored(&anchor);
        judged(&report, Tampered, 20, &["checkpoints"]);
        assert!(report.checked_signatures < before + 200, "{}", report.checked_signatures);
        assert!(report.warnings.iter().any(|w| w.contains("were not looked at")), "{report:?}");
    }
}

/// Notes by keys that nobody knows: the first are named, and that there are more is reported once.
fn checkpoints_of_nobody() {
    let (log, anchor) = log();
    let last = log.notes().last().unwrap().0.clone();
    let text = String::from_utf8(log.get(checkpoints::FILE)[last.clone()][9..].to_vec()).unwrap();
    let (body, _) = text.split_once("\n\n").unwrap();
    let origin = body.lines().next().unwrap();
    let most = gabion_seal::limits::REPORT_LINES_MAX as u32;
    log.change(checkpoints::FILE, |b| {
        b.drain(last);
        for n in 1..=most + 500 {
            let id = gabion_record::base64::to_base64(&[&n.to_be_bytes()[..], &[7; 64]].concat());
            b.extend(checkpoints::frame(&format!("{body}\n\n\u{2014} {origin} {id}\n")));
        }
    });
    let report = log.verify_anchored(&anchor);
    let said = "checkpoints by keys that are not known: no more of them are judged";
    let times = report.warnings.iter().filter(|w| *w == said).count();
    assert_eq!(times, 1, "{:?} {}", report.verdicts, report.warnings.len());
    judged(&report, Tampered, 20, &["is not signed by the key of its epoch"]);
}

fn indexes() {
    let (log, anchor) = log();
    let names = log.segments();
    let index = |name: &String| {
        let is_index = |(_, item): &(usize, Item)| matches!(item, Item::Index(_));
        log.items(name).into_iter().find(is_index).unwrap().0
    };
    for name in [&names[1], &names[0], names.last().unwrap()] {
        let (log, at) = (log.copy(), index(name));
        log.change(name, |b| b.truncate(at));
        warned(&log, &anchor, &[name, &format!("at byte {at}"), "the index is missing"]);
    }
    // A second one, and one after another chunk. Its end says where it begins: its form is right.
    let at = index(&names[1]);
    let bytes = log.get(&names[1])[at..].to_vec();
    let put = |log: &Log, to: usize| {
        let mut bytes = bytes.clone();
        let end = bytes.len() - 16;
        bytes[end..end + 8].copy_from_slice(&(to as u64).to_be_bytes());
        log.change(&names[1], |b| drop(b.splice(to..to, bytes)));
    };
    let twice = log.copy();
    let len = log.get(&names[1]).len();
    put(&twice, len);
    let place = format!("at byte {len}: a second index");
    assert!(twice.verify_anchored(&anchor).warnings.iter().any(|w| w.contains(&place)));
    let early = log.copy();
    let (mark, _) = log.marks(&names[1])[0].clone();
    let to = mark + gabion_seal::format::chunk::MARK_LEN;
    put(&early, to);
    let report = early.verify_anchored(&anchor);
    judged(&report, Ok, 0, &[]);
    let place = format!("at byte {to}: an index where the segment does not end");
    assert!(report.warnings.iter().any(|w| w.contains(&place)), "{:?}", report.warnings);
}

fn strange_files() {
    let (log, anchor) = log();
    let segment = log.get(&log.segments()[1]);
    for name in ["seg-99999999999999999999.gsl", "seg-7.gsl", "seg-00000000000000000003.bak"] {
        let log = log.copy();
        log.put(name, &segment);
        warned(&log, &anchor, &[name]);
    }
    let keys = log.copy();
    keys.put("seg-00000000000000000001.keys", b"GABKEYS1");
    warned(&keys, &anchor, &["seg-00000000000000000001.keys", "no segment"]);
    let stub = log.copy();
    stub.put("seg-00000000000000000000.pruned", b"GABPRUN1");
    warned(&stub, &anchor, &["seg-00000000000000000000.pruned", "no prune record covers it"]);
    // What a crash leaves before a segment is begun is removed at the next start: no warning.
    let crashed = log.copy();
    crashed.put("seg-00000000000000009999.keys", b"GABKEYS1");
    crashed.put("seg-00000000000000009999.gsl.tmp", b"GABSEAL1");
    assert!(crashed.verify_anchored(&anchor).warnings.is_empty());
}

fn marks_repeated() {
    let (log, anchor) = log();
    let name = log.segments()[1].clone();
    let before = log.verify_anchored(&anchor).checked_signatures;
    let at = log.marks(&name)[1].0;
    let mark = log.get(&name)[at..at + gabion_seal::format::chunk::MARK_LEN].to_vec();
    let end = at + mark.len();
    let many = log.copy();
    many.change(&name, |b| drop(b.splice(end..end, mark.repeat(5_000))));
    for is_deep in [false, true] {
        let given = Options { anchors: vec![anchor.anchor()], is_deep, ..Options::default() };
        let deep = log.verify_with(&given).checked_signatures;
        let report = many.verify_with(&given);
        judged(&report, Ok, 0, &[]);
        // The index says where it stands, which is no longer so.
        let [warning, index] = report.warnings.as_slice() else { panic!("{:?}", report.warnings) };
        assert!(warning.contains(&format!("{name} at byte {end}")) && warning.contains("again"));
        assert!(index.contains("the index is damaged"), "{index}");
        assert_eq!(report.checked_signatures, deep);
    }
    // False marks after damage: the last of the segment are looked at, and no more.
    let cut = log.copy();
    let start = log.chunks(&name)[1].0.start;
    let false_mark = [&mark[..60], &[7; 64]].concat();
    cut.change(&name, |b| {
        b.truncate(start);
        b.extend(b"no chunk");
        b.extend(false_mark.repeat(20_000));
    });
    let report = cut.verify_anchored(&anchor);
    judged(&report, Tampered, 20, &[&name]);
    assert!(report.checked_signatures < before + 1_200, "{}", report.checked_signatures);
    let more = 20_000 - gabion_seal::limits::MARKS_BEHIND_MAX;
    let said = format!("{name}: {more} further commit marks after damage were not checked");
    assert!(report.warnings.contains(&said), "{:?}", report.warnings);
}

fn pruned_checkpoints() {
    let (mut log, _) = log();
    // Many chunks without a statement among them, signed as `log.id` says.
    let mut writer = log.open();
    for _ in 0..400 {
        log.fill(&mut writer, 1);
        writer.tick(log.now).unwrap();
    }
    writer.close(log.now).unwrap();
    let mut writer = log.open();
    let all = gabion_seal::files::segments(writer.log()).unwrap();
    let firsts: Vec<u64> = all.iter().map(|s| s.first_chunk).collect();
    writer.prune(&firsts[..firsts.len() - 1], log.now).unwrap();
    writer.close(log.now).unwrap();
    let anchor = log.copy();
    let report = log.verify_anchored(&anchor);
    judged(&report, Ok, 0, &[]);
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    let notes = log.notes();
    let first = firsts[firsts.len() - 2];
    let inside: Vec<usize> =
        (0..notes.len()).filter(|n| (first + 2..first + 400).contains(&notes[*n].1.size)).collect();
    assert!(inside.len() >= 5, "{inside:?}");
    // All of them but the last.
    let gone = &inside[..inside.len() - 1];
    log.change(checkpoints::FILE, |b| {
        gone.iter().rev().for_each(|n| drop(b.drain(notes[*n].0.clone())));
    });
    warned(&log, &anchor, &["no checkpoint between", "one is signed every 64"]);
}

fn late_tail() {
    let mut log = Log::filled();
    let mut writer = log.open();
    let signed = log.notes().len();
    for _ in 0..4 {
        log.fill(&mut writer, 5);
        log.now += 30 * SECOND;
        writer.tick(log.now).unwrap();
    }
    drop(writer);
    assert!(log.log.is_locked().is_ok_and(|l| !l));
    assert!(log.verify().warnings.is_empty());
    // The chunks after the cut name the checkpoints; a log whose chunks name none is made by dropping ticks.
    let mut quiet = Log::filled();
    let mut writer = quiet.open();
    for _ in 0..4 {
        quiet.fill(&mut writer, 5);
        quiet.now += 30 * SECOND;
    }
    drop(writer);
    let report = quiet.verify();
    let [warning] = report.warnings.as_slice() else { panic!("{:?}", report.warnings) };
    assert!(warning.contains("span 9") && warning.contains("every 10 s"), "{warning}");
    assert!(signed < log.notes().len());
}

//! A scripted session with checkpoints, epoch switches, rotation, retention and recovery, in which the
//! storage fails at operation k, for every k, in three ways, with five things a crash may leave of
//! writes that were not synced. After each: reopen, recover, verify. Every acknowledged record is
//! there, no verdict is worse than TORN-TAIL before recovery, and after it the log is whole.

mod support;

use gabion_seal::files::segments;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::storage::{Fault, Left, Memory, Storage};
use gabion_seal::verify::{Options, Verdict, verify};
use gabion_seal::{Init, Policy, Result, SecretKey, Writer};
use std::collections::HashSet;
use support::{NOW, SECOND, append};

/// Records acknowledged so far.
#[derive(Default)]
struct Acknowledged(Vec<String>);

fn policy() -> Policy {
    Policy { chunk_plain: 400, segment_bytes: 5_000, epoch_chunks: 25, ..Policy::default() }
}

/// The session. Whatever it acknowledged before it failed is in `acknowledged`.
fn session(
    log: &Memory,
    state: &Memory,
    key: &SecretKey,
    acknowledged: &mut Acknowledged,
) -> Result<()> {
    let recipients = vec![key.recipient().clone()];
    let mut now = NOW + SECOND;
    let mut number = 0;
    for part in 0..3 {
        let (mut writer, _) =
            Writer::open(log.clone(), state.clone(), recipients.clone(), policy(), now)?;
        for _ in 0..6 {
            let mut group = Vec::new();
            for _ in 0..5 {
                let text = format!("<13>record number {number}");
                append_or(&mut writer, now, &text)?;
                group.push(text);
                number += 1;
            }
            now += 4 * SECOND;
            writer.commit(now)?;
            acknowledged.0.extend(group);
            writer.tick(now)?;
        }
        if part == 1 {
            writer.switch_epoch_now(now)?;
            let first = segments(writer.log())?[0].first_chunk;
            writer.hold_segments(&[first], true, now)?;
            writer.hold_segments(&[first], false, now)?;
        }
        if part == 2 {
            // Withdrawn records count as acknowledged no more.
            let all: Vec<u64> = segments(writer.log())?.iter().map(|s| s.first_chunk).collect();
            let gone = gone_with(log, key, &all[..2]);
            acknowledged.0.retain(|r| !gone.contains(r));
            writer.prune(&all[..1], now)?;
            writer.shred(&all[1..2], None, now)?;
        }
        // The middle session is killed, the others end in order.
        if part != 1 {
            writer.close(now)?;
        }
    }
    Ok(())
}

fn append_or(writer: &mut Writer<Memory>, now: u64, text: &str) -> Result<()> {
    use gabion_seal::{Flags, Kind, Record, Source, Transport};
    let source = Source::new(Transport::Relp, 1, "192.0.2.1:2514", "");
    let record = Record {
        time_ns: now,
        kind: Kind::Message,
        flags: Flags::default(),
        bytes: text.as_bytes(),
    };
    writer.append(&record, &source).map(|_| ())
}

struct Texts(HashSet<String>);

impl Sink for Texts {
    fn record(&mut self, found: &Found<'_>) -> bool {
        self.0.insert(String::from_utf8_lossy(found.record.bytes).into_owned());
        true
    }
    fn unreadable(&mut self, _: &str) {}
}

fn texts(log: &Memory, key: &SecretKey) -> HashSet<String> {
    let mut texts = Texts(HashSet::new());
    let keys = [SecretKey::parse_file(&key.to_text().unwrap()).unwrap()];
    let mut reader = Reader::open(log, &keys).unwrap();
    reader.scan(Cursor::default(), &Selection::default(), &mut texts).unwrap();
    texts.0
}

/// Records of these segments.
fn gone_with(log: &Memory, key: &SecretKey, firsts: &[u64]) -> HashSet<String> {
    let only = log.snapshot();
    for segment in segments(&only).unwrap() {
        if !firsts.contains(&segment.first_chunk) {
            only.delete(&gabion_seal::format::segment::file_name(segment.first_chunk, "gsl"));
        }
    }
    texts(&only, key)
}

fn fresh() -> (Memory, Memory) {
    let (mut log, state) = (Memory::new(), Memory::new());
    Init::new("log.example/crash", NOW).create(&mut log, state.clone()).unwrap();
    (log, state)
}

/// Looks at what a crash left, recovers, and looks again.
fn examine(log: &Memory, state: &Memory, key: &SecretKey, acknowledged: &Acknowledged, what: &str) {
    let options = || Options { jobs: 1, ..Options::default() };
    let before = verify(log, &options(), &mut |_, _| {}).unwrap();
    let worst = before.verdict();
    assert!(
        matches!(worst, Verdict::Unanchored | Verdict::TornTail),
        "{what}: before recovery {:?}: {:?}",
        before.verdicts,
        before.places
    );
    let now = NOW + 1_000 * SECOND;
    let opened =
        Writer::open(log.clone(), state.clone(), vec![key.recipient().clone()], policy(), now);
    let (mut writer, _) = opened.unwrap_or_else(|e| panic!("{what}: does not open: {e}"));
    append(&mut writer, now, "<13>behind the crash");
    writer.close(now + SECOND).unwrap_or_else(|e| panic!("{what}: {e}"));
    let keys = [SecretKey::parse_file(&key.to_text().unwrap()).unwrap()];
    let after = verify(log, &Options { is_deep: true, ..options() }, &mut |_, _| {}).unwrap();
    assert_eq!(after.verdicts, [Verdict::Unanchored], "{what}: after recovery: {:?}", after.places);
    drop(keys);
    // An index that a crash tore or kept from being written is the only thing that leaves a trace.
    let other = after.warnings.iter().find(|w| !w.contains("the index"));
    assert_eq!(other, None, "{what}");
    let there = texts(log, key);
    let missing: Vec<_> = acknowledged.0.iter().filter(|r| !there.contains(*r)).collect();
    assert!(missing.is_empty(), "{what}: acknowledged and gone: {missing:?}");
    assert!(there.contains("<13>behind the crash"), "{what}");
}

#[test]
fn every_operation_may_be_the_last() {
    let key = SecretKey::generate().unwrap();
    let (log, state) = fresh();
    session(&log, &state, &key, &mut Acknowledged::default()).unwrap();
    let (of_log, of_state) = (log.operations(), state.operations());
    assert!(of_log > 120 && of_state > 30, "{of_log} {of_state}");
    // Each operation fails in one of three ways by turns; in all three when asked for.
    let is_exhaustive = std::env::var_os("GABION_EXHAUSTIVE").is_some();
    let mut work = Vec::new();
    // Operations of the log's folder and of the signer's state; those of `init` are not counted again.
    for (is_state, first, last) in [(false, 9, of_log), (true, 5, of_state)] {
        for k in first..=last {
            let all = [Fault::Nothing, Fault::Half, Fault::After];
            let faults = if is_exhaustive { &all[..] } else { &all[k as usize % 3..][..1] };
            work.extend(faults.iter().map(|fault| (is_state, k, *fault)));
        }
    }
    let cases = work.len() * Left::ALL.len();
    std::thread::scope(|scope| {
        for part in work.chunks(work.len().div_ceil(2)) {
            let key = SecretKey::parse_file(&key.to_text().unwrap()).unwrap();
            scope.spawn(move || part.iter().for_each(|(s, k, fault)| crash(&key, *s, *k, *fault)));
        }
    });
    eprintln!("{cases} crashes, {of_log} operations of the log, {of_state} of the signer");
    assert!(log.list().unwrap().iter().any(|n| n.ends_with(".pruned")));
}

/// Runs the session into the failure and looks at everything it may leave.
fn crash(key: &SecretKey, is_state: bool, k: u64, fault: Fault) {
    let (log, state) = fresh();
    let broken = if is_state { &state } else { &log };
    broken.fail_at(k, fault);
    let mut acknowledged = Acknowledged::default();
    let ended = session(&log, &state, key, &mut acknowledged);
    assert!(ended.is_err() || !broken.is_gone(), "k {k}: the failure was not noticed");
    for left in Left::ALL {
        let folder = if is_state { "state" } else { "log" };
        let what = format!("{folder} operation {k}, {fault:?}, {left:?}");
        let (log, state) = (log.after_crash(left), state.after_crash(left));
        examine(&log, &state, key, &acknowledged, &what);
    }
}

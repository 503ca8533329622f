//! The behaviour engine on several threads.
//!
//! A reader thread ([`reader`]) reads, passes the site stage and puts each record as a parcel into the
//! batch of the worker that holds its shard; it waits when a worker is some batches behind. Workers
//! ([`holder`]) give what they find back a batch at a time; this thread merges it by place ([`writer`]),
//! so that evidence is byte for byte what one worker says, accumulates and writes. How many of the
//! workers hold shards follows how much the reader has to wait for them; a shard moves between two
//! batches, and its new holder waits for it.
//!
//! A worker that panics is reported at once, one that stalls within two seconds; when it does not come
//! back it is abandoned. What it was working on and what waited for it is shed as `worker_lost`, and so
//! are the sources it held: a profile is nowhere else, so it can't be restored, only started again. Its
//! shards go to the workers that are left, evidence says from then on that a worker was lost, and the run
//! ends with an error.

#[cfg(test)]
mod acted_fault;
mod holder;
mod messages;
mod reader;
mod writer;

use super::outcome::{TeamEnd, Whitelisted};
use super::sink::Sink;
use super::source::Source;
use crate::Error;
use gabion_behavior::stages::{Back, Front, Shards, whitelisted};
use gabion_behavior::{Counts, Settings};
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_runtime::channel::Empty;
use gabion_runtime::fanout::{Change, Fanout, Losses};
#[cfg(not(test))]
pub(super) use gabion_runtime::limits::STALL_GRACE;
use gabion_runtime::{Capacity, Edge, EventKind, Receiver, Sender, channel, clock};
use holder::Holder;
pub(crate) use messages::Plan;
use messages::{Given, LOOK, Part, SharedSide, Spare, SpareFound, Work, Workers};
use reader::{Reader, Reading, read_source};
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use writer::Writer;

/// Findings under way from all workers.
const FROM_WORKERS: Capacity = Capacity { items: 1 << 16, bytes: 2 << 20 };
/// How long a failed worker's message is waited for at the end.
const LAST_WORD: Duration = Duration::from_secs(2);
/// What was found is written when nothing more comes at the moment, and at least so often.
const WRITE_EVERY: Duration = Duration::from_millis(50);
#[cfg(test)]
pub(super) const STALL_GRACE: Duration = Duration::from_secs(1);

/// A run that came to its end.
pub(crate) struct Done<S> {
    /// What read.
    pub(crate) source: S,
    pub(crate) counts: Counts,
    /// Sources: come, gone, folded, lost with their worker, held.
    pub(crate) sources: Ledger,
    /// Bytes of profiles at the end.
    pub(crate) used: usize,
    pub(crate) team: TeamEnd,
    pub(crate) whitelisted: Vec<Whitelisted>,
}

/// Runs a source through this many workers.
///
/// # Errors
/// If threads can't be started, or the reader fails.
#[expect(clippy::too_many_arguments, reason = "each part of a run is made by its caller")]
pub(crate) fn run<S: Source + 'static>(
    source: S,
    front: Front,
    mut back: Back,
    settings: &Arc<Settings>,
    mut plan: Plan,
    sink: &mut Sink,
    say: &mut dyn FnMut(String),
) -> Result<Done<S>, Error> {
    gabion_runtime::allocator::give_back_soon();
    let known = Arc::new(Workers::new(Losses::new(plan.workers)));
    let mut fanout =
        Fanout::start("behavior", known.losses.clone(), STALL_GRACE).map_err(Error::Threads)?;
    let (spare, spare_found) = (Spare::new(usize::MAX), SpareFound::new(usize::MAX));
    let (senders, found) =
        holders(&mut fanout, settings, &mut plan, &known, (&spare, &spare_found))
            .map_err(Error::Threads)?;
    let edges: Vec<Arc<Edge>> = senders.iter().map(|s| Arc::clone(s.edge())).collect();
    let count = Shards::new(Arc::clone(settings), plan.budget).count();
    let past = SharedSide::default();
    let aside = (Arc::clone(&past), spare);
    let reader = Reader::new(front, senders, Arc::clone(&known), count, &plan, aside);
    let reader = fanout
        .spawn_other("reader", move |pulse| read_source(source, reader, pulse))
        .map_err(Error::Threads)?;
    let mut writer = Writer::new(Arc::clone(&known), count, Arc::clone(&past), spare_found);
    let mut watch = Watch { fanout, failed_reader: None, say };
    write(&found, &past, &mut writer, &mut watch, &mut back, sink);
    // What waits is reported by the run that continues from the checkpoint.
    if !past.lock().unwrap_or_else(PoisonError::into_inner).is_saved {
        back.finish(&mut |finding| sink.take_finding(finding));
    }
    let Some((source, reading)) = reader.join() else {
        while watch.fanout.poll().is_some() {}
        watch.hear_reader();
        let message = watch.failed_reader.unwrap_or_default();
        return Err(Error::Reader { message });
    };
    let Reading { front, changes, restarted } = reading;
    let mut counts = front.counts();
    let (mut sources, mut used) = (Ledger::new(), 0);
    let parcels = Ledger::new();
    let mut team = TeamEnd { parcels, lost: 0, lost_records: 0, restarted, changes };
    for (at, (given, edge)) in watch.fanout.join().into_iter().zip(&edges).enumerate() {
        let mut ledger = edge.ledger();
        match given {
            Some(given) => {
                counts.enter(&given.counts);
                sources.merge(&given.sources);
                used += given.used;
            }
            None => {
                team.lost += 1;
                if let Some(known) = known.get(at) {
                    team.lost_records += known.held.load(Relaxed);
                    let given = known.given();
                    counts.enter(&given.counts);
                    sources.merge(&given.sources);
                }
                // What waits for a worker that never comes back is lost with it.
                let left = ledger.in_flight();
                ledger.set_in_flight(0, 0);
                ledger.shed(ShedReason::WorkerLost, left.items, left.bytes);
            }
        }
        team.parcels.merge(&ledger);
    }
    back.enter(&mut counts);
    let whitelisted = Whitelisted::all(whitelisted(&front, &back));
    Ok(Done { source, counts, sources, used, team, whitelisted })
}

/// Ways to the workers, and what they find.
type Started = (Vec<Sender<Work>>, Receiver<Part>);

/// Starts the workers.
fn holders(
    fanout: &mut Fanout<Given>,
    settings: &Arc<Settings>,
    plan: &mut Plan,
    known: &Arc<Workers>,
    (spare, spare_found): (&Spare, &SpareFound),
) -> io::Result<Started> {
    let (out, found, _) = channel::<Part>("shards>writer", FROM_WORKERS);
    let mut senders = Vec::new();
    for worker in 0..plan.workers {
        let capacity = Capacity { items: u64::MAX >> 1, bytes: u64::MAX >> 1 };
        let (sender, inbox, edge) = channel::<Work>("reader>shards", capacity);
        // The first worker holds all of them when a run without an end begins.
        let earlier = plan.shards.take();
        let mut shards = earlier.unwrap_or_else(|| Shards::new(Arc::clone(settings), plan.budget));
        if plan.keeps_windows {
            shards.keep_windows();
        }
        let holder = Holder {
            worker,
            shards,
            inbox,
            out: out.clone(),
            known: Arc::clone(known),
            spare: spare.clone(),
            spare_found: spare_found.clone(),
            room: 0,
            #[cfg(test)]
            fault: plan.fault.filter(|f| f.worker == worker),
        };
        fanout.spawn(Some(edge), move |pulse| holder.run(pulse))?;
        senders.push(sender);
    }
    Ok((senders, found))
}

/// Takes what workers find until all that are left came to their end, and sees who is lost.
fn write(
    found: &Receiver<Part>,
    past: &SharedSide,
    writer: &mut Writer,
    watch: &mut Watch<'_>,
    back: &mut Back,
    sink: &mut Sink,
) {
    let mut written = clock::now();
    loop {
        let next = found.try_recv().or_else(|empty| match empty {
            Empty::Ended => Err(Empty::Ended),
            Empty::Yet => {
                sink.idle();
                written = clock::now();
                found.recv_timeout(LOOK)
            }
        });
        match next {
            Ok(part) => {
                let said = past.lock().unwrap_or_else(PoisonError::into_inner).state.take();
                if let Some(said) = said.filter(|_| !writer.has_lost()) {
                    back.set_input_state(said);
                }
                writer.write_part(part, back, sink);
                if written.elapsed() >= WRITE_EVERY {
                    sink.idle();
                    written = clock::now();
                }
            }
            Err(Empty::Ended) => break,
            Err(Empty::Yet) => {}
        }
        while let Some((at, change)) = watch.fanout.poll() {
            if watch.hear(at, change) {
                writer.lose(at, back, sink);
            }
        }
        watch.hear_reader();
        for lost in watch.abandon_stalled() {
            writer.lose(lost, back, sink);
        }
        if writer.is_done() && writer.has_lost() {
            break;
        }
    }
    // A worker that failed at the very end is heard of only now: its thread reports when it has let all go.
    for at in writer.unfinished() {
        loop {
            match watch.fanout.next(LAST_WORD) {
                Some((who, change)) => {
                    if watch.hear(who, change) {
                        writer.lose(who, back, sink);
                    }
                    if who == at || watch.failed_reader.is_some() {
                        break;
                    }
                }
                None if watch.hear_reader() => {
                    if watch.failed_reader.is_some() {
                        break;
                    }
                }
                None => {
                    (watch.say)(format!("{}: failed: {LOST}", watch.fanout.name_of(at)));
                    writer.lose(at, back, sink);
                    break;
                }
            }
        }
    }
}

/// The workers, and what is heard of them.
struct Watch<'s> {
    fanout: Fanout<Given>,
    /// Why the reader failed.
    failed_reader: Option<String>,
    say: &'s mut dyn FnMut(String),
}

impl Watch<'_> {
    /// Reports what happened to a worker; whether it is lost by it.
    fn hear(&mut self, at: usize, change: Change) -> bool {
        let who = self.fanout.name_of(at);
        match change {
            Change::Finished => false,
            Change::Failed(message) => {
                (self.say)(format!("{who}: failed: {message}: {LOST}"));
                self.fanout.lose(at);
                true
            }
            Change::Stalled(message) => {
                (self.say)(format!("{who}: stalled: {message}: waiting for it"));
                false
            }
            Change::Recovered(message) => {
                (self.say)(format!("{who}: recovered: {message}"));
                false
            }
        }
    }

    /// Takes what happened to the reader, if anything did. It waits for its input as long as that takes: only its
    /// failure is news.
    fn hear_reader(&mut self) -> bool {
        let events = self.fanout.take_others();
        let failed = events.iter().find(|e| e.kind == EventKind::Panicked);
        if let Some(event) = failed {
            self.failed_reader = Some(event.message.clone());
        }
        !events.is_empty()
    }

    /// Workers that have been waited for long enough.
    fn abandon_stalled(&mut self) -> Vec<usize> {
        let all = self.fanout.overdue();
        for at in &all {
            self.fanout.lose(*at);
            let who = self.fanout.name_of(*at);
            (self.say)(format!("{who}: abandoned: it made no progress: {LOST}"));
        }
        all
    }
}

/// What follows from the loss of a worker.
const LOST: &str = "its records are shed and its hosts start again with the others, report this";

#[cfg(test)]
mod tests {
    use super::acted_fault::{Fault, FaultKind};
    use super::messages::BATCH_RECORDS;
    use super::*;
    use crate::flows::source::Seen;
    use gabion_behavior::{Engine, Output};
    use gabion_outputs::Outputs;
    use gabion_record::Ip;
    use gabion_record::logs::{Body, Conn, ConnState, Label, Proto, Record, SECOND, TimeNs};
    use gabion_runtime::files::direct_opener;
    use gabion_runtime::output::Existing;
    use std::ops::ControlFlow;

    /// Hosts that scan, beacon, are refused and are spoofed, over three windows.
    struct Made(u32);

    impl Source for Made {
        fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>) {
            for n in 0..self.0 {
                let kind = n % 5;
                let (src, dst, port) = match kind {
                    0 => (0x0a00_0001, 0x0505_0000 + n, 23),
                    1 => (0x0a00_0002, 0x0606_0606, (n / 5) as u16),
                    2 => (0x0a00_0100 + n / 5 % 300, 0x0707_0707, 4444),
                    3 => (0x2000_0000 + n.wrapping_mul(2_654_435_761) % (1 << 28), 0x0808_0808, 80),
                    _ => (0x0a00_0003, 0x0909_0909, 443),
                };
                let flow = Conn {
                    knows_service: true,
                    is_established: kind == 4,
                    orig_bytes: 100,
                    orig_pkts: 2,
                    state: ConnState::from_text(if kind == 2 { b"REJ" } else { b"S0" }),
                    ..Conn::default()
                };
                let r = Record {
                    ts: TimeNs(
                        1_700_000_000 * SECOND
                            + i64::from(n) * 3 * 3600 * SECOND / i64::from(self.0),
                    ),
                    src: Ip::v4(src),
                    dst: Ip::v4(dst),
                    src_port: 40_000,
                    dst_port: port,
                    proto: Proto::Tcp,
                    uid: b"C",
                    label: Label::None,
                    is_late: n % 97 == 0 && n > 0,
                    body: Body::Conn(flow),
                };
                if each(Seen::Records(&[r])).is_break() {
                    return;
                }
            }
        }
    }

    const BUDGET: usize = 8 << 20;

    /// All lines of a run in a folder's files, creation times aside.
    fn lines(run: impl FnOnce(&mut Sink) -> Counts) -> (Vec<String>, Counts) {
        let folder = tempfile::tempdir().unwrap();
        let mut sink = Sink {
            outputs: Outputs::for_findings(&direct_opener(), folder.path(), Existing::Truncate)
                .unwrap(),
            ..Sink::default()
        };
        let counts = run(&mut sink);
        sink.outputs.flush().unwrap();
        let text = std::fs::read_to_string(folder.path().join("alerts.json")).unwrap();
        let cut = |line: &str| {
            let at = line.find("\"CreateTime\"").unwrap_or(line.len());
            let end = line[at..].find(',').map_or(line.len(), |n| at + n);
            format!("{}{}", &line[..at], &line[end..])
        };
        (text.lines().map(cut).collect(), counts)
    }

    fn plan(workers: usize) -> Plan {
        Plan {
            workers,
            budget: BUDGET,
            is_finite: true,
            keeps_windows: false,
            shards: None,
            changes: Vec::new(),
            fault: None,
        }
    }

    fn team(records: u32, plan: Plan, sink: &mut Sink, said: &mut Vec<String>) -> Done<Made> {
        heard(records, plan, sink, &mut |line| said.push(line))
    }

    fn heard(records: u32, plan: Plan, sink: &mut Sink, say: &mut dyn FnMut(String)) -> Done<Made> {
        let settings = Arc::new(Settings::default());
        let front = Front::new(Arc::clone(&settings), None);
        let back = Back::new(Arc::clone(&settings));
        match run(Made(records), front, back, &settings, plan, sink, say) {
            Ok(done) => done,
            Err(_) => panic!("no run"),
        }
    }

    /// One worker, two, three, and a number that changes all the time: the same bytes in the same order.
    #[test]
    fn any_number_of_workers_says_the_same() {
        const RECORDS: u32 = 60_000;
        let (alone, counts) = alone(RECORDS);
        assert!(alone.len() > 100, "{}", alone.len());
        for (workers, changes) in
            [(1, vec![]), (2, vec![]), (3, vec![(1, 1), (2, 3), (3, 2), (4, 1), (5, 3), (6, 2)])]
        {
            let mut said = Vec::new();
            let (got, theirs) = lines(|sink| {
                let done = team(
                    RECORDS,
                    Plan { changes: changes.clone(), ..plan(workers) },
                    sink,
                    &mut said,
                );
                done.sources.balance().unwrap();
                done.team.parcels.balance().unwrap();
                assert_eq!(done.team.parcels.passed().items, u64::from(RECORDS));
                assert!(done.team.changes >= changes.len() as u64 && done.team.lost == 0);
                done.counts
            });
            assert!(got == alone, "{workers} workers: {} lines for {}", got.len(), alone.len());
            assert_eq!(theirs, counts, "{workers}");
            assert!(said.is_empty(), "{said:?}");
        }
    }

    /// However little room there is for a flood, and with any number of workers: profiles that are looked at to
    /// make room stay below two a record, and are the same ones.
    #[test]
    fn a_flood_costs_no_more_looks_than_records() {
        const RECORDS: u32 = 60_000;
        for part in [16, 4, 1] {
            let runs: Vec<Counts> = [1, 2, 4]
                .map(|workers| {
                    let plan = Plan { budget: BUDGET / part, ..plan(workers) };
                    team(RECORDS, plan, &mut Sink::default(), &mut Vec::new()).counts
                })
                .into();
            let looks = runs.first().map_or(0, |counts| counts.fold_looks);
            assert!(looks <= 2 * u64::from(RECORDS), "{part}: {looks} looks");
            assert!(part == 1 || looks > 0, "{part}");
            assert!(runs.iter().all(|counts| *counts == runs[0]), "{part}: {runs:?}");
        }
    }

    /// The engine on one thread: its lines, and what it counted.
    fn alone(records: u32) -> (Vec<String>, Counts) {
        lines(|sink| {
            let mut engine = Engine::with_budget(Settings::default(), None, BUDGET);
            let mut take = |f: Output<'_>| sink.take_finding(f);
            Made(records).run(&mut |seen| {
                if let Seen::Records(records) = seen {
                    engine.records(records, &mut take);
                }
                ControlFlow::Continue(())
            });
            engine.finish(&mut take);
            engine.counts()
        })
    }

    /// A worker that panics, and one that makes no progress: reported, counted, its shards start again with the
    /// other, what comes after it is found, and the run ends.
    #[test]
    fn a_lost_worker_is_reported_and_counted_and_its_shards_start_again() {
        const RECORDS: u32 = 200_000;
        let kinds = [(FaultKind::Panics, "failed: acted fault"), (FaultKind::Stalls, "abandoned")];
        for (kind, word) in kinds {
            let mut said = Vec::new();
            let mut sink = Sink::default();
            let fault = Some(Fault { worker: 1, batch: 2, kind });
            let started = clock::now();
            let done = heard(RECORDS, Plan { fault, ..plan(2) }, &mut sink, &mut |line| {
                if said.is_empty() {
                    // The fault comes with the second of some thirty batches.
                    let after = started.elapsed().as_secs_f64();
                    println!("{kind:?}: reported {after:.2} s after the run began");
                }
                said.push(line);
            });
            assert!(said.iter().any(|l| l.contains("behavior 1") && l.contains(word)), "{said:?}");
            assert!(started.elapsed() < Duration::from_secs(60));
            let TeamEnd { parcels, lost, lost_records, restarted, .. } = done.team;
            parcels.balance().unwrap();
            done.sources.balance().unwrap();
            assert_eq!(lost, 1);
            // The batch it was at, and those that waited for it: not more than may wait and one more.
            assert!(lost_records > 0 && lost_records <= BATCH_RECORDS, "{lost_records}");
            let shed = parcels.shed_for(ShedReason::WorkerLost).items;
            assert!(shed <= (crate::limits::RECORD_BATCHES_MAX + 2) * BATCH_RECORDS, "{shed}");
            assert_eq!(parcels.received().items, u64::from(RECORDS));
            // Half of the shards, with the sources they held after two batches.
            let shards = Shards::new(Arc::new(Settings::default()), BUDGET).count() as u64;
            assert_eq!(restarted, shards / 2);
            assert!(done.sources.shed_for(ShedReason::WorkerLost).items > 0);
            // Each of the hosts that do something is found by those that continue, wherever its shard was.
            let all: Vec<Ip> = sink.found.hosts.keys().copied().collect();
            for host in [0x0a00_0001, 0x0a00_0002] {
                assert!(all.contains(&Ip::v4(host)), "{kind:?}: {host:x}");
            }
        }
    }

    /// All workers lost: the run ends at once and says so.
    #[test]
    fn with_no_worker_left_the_run_ends() {
        let mut said = Vec::new();
        let fault = Some(Fault { worker: 0, batch: 1, kind: FaultKind::Panics });
        let done = team(200_000, Plan { fault, ..plan(1) }, &mut Sink::default(), &mut said);
        done.team.parcels.balance().unwrap();
        assert!(done.team.lost == 1 && said.len() == 1, "{said:?}");
        assert!(done.counts.records < 200_000);
    }

    /// Without an end to the input the run begins with one worker. Slow ones are joined by others, fast
    /// ones are sent home, and what is found is what one worker finds.
    #[test]
    fn the_number_of_workers_follows_what_comes() {
        const RECORDS: u32 = 200_000;
        let (want, counts) = alone(RECORDS);
        let mut said = Vec::new();
        let mut changes = 0;
        let (got, theirs) = lines(|sink| {
            let kind = FaultKind::IsSlow(60);
            let fault = Some(Fault { worker: 0, batch: 14, kind });
            let done = team(RECORDS, Plan { fault, is_finite: false, ..plan(3) }, sink, &mut said);
            done.sources.balance().unwrap();
            changes = done.team.changes;
            done.counts
        });
        assert!(changes > 0);
        assert!(got == want, "{} lines for {}", got.len(), want.len());
        assert_eq!(theirs, counts);
        assert!(said.is_empty(), "{said:?}");
    }
}

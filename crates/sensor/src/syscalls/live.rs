//! The calls of this host as a source: attached programs, their rings, and what existed before the first event.

use super::account::LiveAccount;
use super::calls::Moment;
use super::statistics::LiveStatistics;
use crate::Error;
use gabion_probe::host::{self, Before, HostCounts};
use gabion_probe::syscalls::{Interest, Session, Settings};
use gabion_runtime::StopFlag;
use gabion_runtime::clock;
use gabion_runtime::supervisor::Pulse;
use gabion_scap::table::{calls, event_types};
use gabion_scap::{Event, Item, types};
use gabion_syscall::State;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the reader sleeps when all rings are empty: doubled from the first to the last while nothing comes, so that a
/// host at rest costs little and an alert is late by the last at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(8));

/// Entries of `/proc` that are read before the rings are emptied again.
const ENTRIES_TOGETHER: u64 = 16;

/// Readings of the rings at the end, before records that are missing are left in flight: a program in the kernel
/// finishes a record within microseconds.
const READS_AT_END: u32 = 100;

/// What is recorded of this host.
pub(crate) struct LiveSettings {
    /// The calls, and the memory of the rings.
    pub(crate) session: Settings,
    /// Where `proc` and `etc` of the host are.
    pub(crate) root: PathBuf,
}

/// Attached programs with what was read of them.
pub(crate) struct LiveCalls {
    session: Session,
    root: PathBuf,
    before: HostCounts,
    read: u64,
    counted: Counted,
}

/// What is counted for the statistics at the end.
struct Counted {
    begin: Instant,
    readings: u64,
    empty_readings: u64,
    /// Events by the number of their type.
    by_type: Vec<u64>,
    /// Those without a type of their own, by the code of their call.
    by_code: Vec<u64>,
}

impl Counted {
    fn new() -> Counted {
        let (by_type, by_code) = (vec![0; event_types().len()], vec![0; calls().len()]);
        Counted { begin: clock::now(), readings: 0, empty_readings: 0, by_type, by_code }
    }

    fn event(&mut self, event: &Event<'_>) {
        let kind = event.kind().number;
        let count = if kind == types::GENERIC_X {
            let code = event.param(0).and_then(|code| code.as_i64());
            code.and_then(|code| self.by_code.get_mut(usize::try_from(code).ok()?))
        } else {
            self.by_type.get_mut(usize::from(kind))
        };
        if let Some(count) = count {
            *count += 1;
        }
    }

    fn by_name(&self) -> Vec<(&'static str, u64)> {
        let types = event_types().iter().map(|kind| kind.name).zip(&self.by_type);
        let codes = calls().iter().map(|call| call.name).zip(&self.by_code);
        let mut all: Vec<(&str, u64)> =
            types.chain(codes).map(|(name, count)| (name, *count)).collect();
        all.retain(|(_, count)| *count > 0);
        all.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
        all
    }
}

impl LiveCalls {
    pub(super) fn start(settings: &LiveSettings) -> Result<LiveCalls, Error> {
        let session = Session::start(&settings.session)?;
        let (root, before) = (settings.root.clone(), HostCounts::default());
        Ok(LiveCalls { session, root, before, read: 0, counted: Counted::new() })
    }

    /// Hands on what existed before the first event.
    pub(super) fn list_host(&mut self, sink: &mut dyn FnMut(Item<'static>)) {
        self.before = read_host(&mut self.session, &self.root, &mut |before| {
            sink(match before {
                Before::Machine(machine) => Item::Machine(machine),
                Before::Thread(entry) => Item::Process(entry),
                Before::Fd(entry) => Item::Fd(entry),
                Before::Interface(entry) => Item::Interface(entry),
                Before::User(entry) => Item::User(entry),
            });
        });
    }

    /// Describes all threads and descriptors of the host again, as after a loss nobody knows whose they were.
    fn list_again(&mut self, state: &mut State) {
        state.begin_list();
        read_host(&mut self.session, &self.root, &mut |before| match before {
            Before::Thread(entry) => state.add_process(&entry),
            Before::Fd(entry) => state.add_fd(&entry),
            Before::Machine(_) | Before::Interface(_) | Before::User(_) => {}
        });
    }

    /// From now on these calls are recorded.
    pub(super) fn set_interest(&self, interest: &Interest) {
        self.session.set_interest(interest);
    }

    /// What this kernel refused, a line each.
    pub(super) fn absent(&self) -> Vec<String> {
        self.session.absent().iter().map(ToString::to_string).collect()
    }

    /// What programs do that is not seen, once it was noticed.
    pub(super) fn unseen(&self) -> Option<&'static str> {
        self.session.unseen()
    }

    pub(super) fn account(&self) -> LiveAccount {
        LiveAccount {
            counts: self.session.counts(),
            by_cpu: self.session.counts_by_cpu(),
            read: self.read,
            before: self.before,
        }
    }

    /// What was counted from the start until now.
    pub(super) fn statistics(&self) -> LiveStatistics {
        LiveStatistics {
            account: self.account(),
            elapsed: self.counted.begin.elapsed(),
            runs: self.session.runs(),
            readings: self.counted.readings,
            empty_readings: self.counted.empty_readings,
            calls: self.counted.by_name(),
        }
    }

    /// Reads what is in the rings, once; how many records there were.
    pub(super) fn poll(
        &mut self,
        then: &mut dyn FnMut(&gabion_probe::syscalls::Call<'_>),
    ) -> usize {
        let Self { session, read, counted, .. } = self;
        let before = *read;
        let records = session.poll(&mut |call| {
            *read += 1;
            counted.event(&call.event);
            then(call);
        });
        counted.readings += 1;
        counted.empty_readings += u64::from(*read == before);
        records
    }

    /// Whether the last reading left records in a ring.
    pub(super) const fn is_behind(&self) -> bool {
        self.session.is_behind()
    }

    /// No further call is recorded; what was recorded before is read to its end.
    pub(super) fn end(&mut self, then: &mut dyn FnMut(&gabion_probe::syscalls::Call<'_>)) {
        self.session.set_interest(&Interest::none());
        for _ in 0..READS_AT_END {
            // A program that was in the middle of a record finishes it.
            std::thread::sleep(PAUSES.0);
            let Self { session, read, counted, .. } = &mut *self;
            session.drain(&mut |call| {
                *read += 1;
                counted.event(&call.event);
                then(call);
            });
            if self.account().waiting() == 0 {
                break;
            }
        }
    }

    pub(super) fn run(
        &mut self,
        state: &mut State,
        stop: &StopFlag,
        pulse: &Pulse,
        then: &mut dyn FnMut(Moment<'_>) -> ControlFlow<()>,
    ) {
        let root = self.root.clone();
        let mut pause = PAUSES.0;
        let mut is_over = false;
        loop {
            let records = self.poll(&mut |call| {
                apply(state, &root, call);
                is_over |= then(Moment::Event(state, &call.event)).is_break();
            });
            if state.wants_list() {
                // It lasts long on a large host, which is no stall.
                pulse.rest(|| self.list_again(state));
            }
            is_over |= then(Moment::CaughtUp(&self.latest(state))).is_break() || stop.is_set();
            if is_over {
                break;
            }
            pulse.beat();
            // Records come together meanwhile: reading each on its own costs several times as much, on a CPU that the
            // programs want which make the calls.
            pause = if records == 0 { (pause * 2).min(PAUSES.1) } else { PAUSES.0 };
            if !self.is_behind() {
                pulse.rest(|| std::thread::sleep(pause));
            }
        }
        self.end(&mut |call| {
            apply(state, &root, call);
            let _ = then(Moment::Event(state, &call.event));
        });
        let _ = then(Moment::CaughtUp(&self.latest(state)));
    }
}

/// Applies a call. A thread that nothing describes is looked up before.
fn apply(state: &mut State, root: &Path, call: &gabion_probe::syscalls::Call<'_>) {
    if let Some(tid) = state.wants_look_up(&call.event) {
        match host::look_up(root, tid) {
            Some(found) => state.add_looked_up(&found.threads, &found.fds),
            None => state.look_up_failed(tid),
        }
    }
    state.apply_numbered(&call.event, call.numbers);
}

/// Reads what `/proc` says of the host. The rings are emptied into memory meanwhile: on a busy host they fill before the
/// last process is read.
fn read_host(session: &mut Session, root: &Path, sink: &mut dyn FnMut(Before)) -> HostCounts {
    let mut entries = 0_u64;
    host::read_host(root, &mut |before| {
        entries += 1;
        if entries.is_multiple_of(ENTRIES_TOGETHER) {
            session.hold_records();
        }
        sink(before);
    })
}

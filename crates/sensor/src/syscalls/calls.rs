//! Events of system calls one after the other, from a scap file or from this host's kernel, with the state of threads and
//! descriptors after each: the one loop of all commands about system calls.

use super::account::{CallAccount, ScapAccount};
use super::input;
use super::live::{LiveCalls, LiveSettings};
use super::statistics::LiveStatistics;
use crate::Error;
use crate::limits;
use crate::packets::InputOpener;
use gabion_probe::syscalls::Interest;
use gabion_record::budget::{BudgetPool, BudgetReport};
use gabion_runtime::StopFlag;
use gabion_runtime::memory::MemoryState;
use gabion_runtime::supervisor::Pulse;
use gabion_scap::{Event, Item, Merger, Reader};
use gabion_syscall::{Options, State};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two calls of the taker where there are no events at all.
const LOOK: Duration = Duration::from_millis(100);

/// Events of system calls, from their source to their end.
pub(crate) struct Calls {
    source: Source,
    state: State,
    budget: BudgetPool,
    stop: StopFlag,
}

enum Source {
    File { path: PathBuf, reader: Box<Reader>, merger: Box<Merger> },
    Live(Box<LiveCalls>),
    Nothing,
}

/// What the loop hands to its taker.
pub(crate) enum Moment<'a> {
    /// An event that waits for no other, with the state after it.
    Event(&'a State, &'a Event<'a>),
    /// All events that have come were handed over. Only sources without an end have such moments.
    CaughtUp(&'a Latest<'a>),
}

/// What a source without an end counted until now, and which of its calls are recorded from now on; and the state.
pub(crate) struct Latest<'a>(Option<&'a LiveCalls>, &'a State);

impl Latest<'_> {
    /// What was read until now.
    pub(crate) fn account(&self) -> Option<CallAccount> {
        self.0.map(|live| CallAccount::Live(Box::new(live.account())))
    }

    /// The state after the last event.
    pub(crate) fn state(&self) -> &State {
        self.1
    }

    /// What programs do that is not seen, once it was noticed.
    pub(crate) fn unseen(&self) -> Option<&'static str> {
        self.0?.unseen()
    }

    /// From now on these calls are recorded.
    pub(crate) fn set_interest(&self, interest: &Interest) {
        if let Some(live) = self.0 {
            live.set_interest(interest);
        }
    }
}

impl Calls {
    /// Opens an input: a file, a pipe, or `-` for standard input. The state has `options` and the usual budget.
    /// `opener` may hold the beginning of a pipe.
    pub(crate) fn open(
        path: &Path,
        opener: &InputOpener,
        options: Options,
        stop: &StopFlag,
    ) -> Result<Calls, Error> {
        let reader = Box::new(input::open(path, opener, stop)?);
        let source = Source::File { path: path.to_owned(), reader, merger: Box::default() };
        Ok(Calls::from_source(source, options, stop))
    }

    /// Records the calls of this host. What existed before is read from `/proc` after the programs are attached, so that
    /// no thread is missed in between.
    pub(crate) fn live(
        settings: &LiveSettings,
        options: Options,
        stop: &StopFlag,
    ) -> Result<Calls, Error> {
        let mut live = Box::new(LiveCalls::start(settings)?);
        let mut calls = Calls::from_source(Source::Nothing, options, stop);
        live.list_host(&mut |item| calls.state.add(item));
        calls.source = Source::Live(live);
        Ok(calls)
    }

    /// No events: the taker is asked now and then whether the run continues.
    pub(crate) fn nothing(stop: &StopFlag) -> Calls {
        Calls::from_source(Source::Nothing, Options::default(), stop)
    }

    fn from_source(source: Source, options: Options, stop: &StopFlag) -> Calls {
        // In a small control group the state has its share, so that the kernel does not end the process.
        let share = MemoryState::current().default_budget();
        let budget = BudgetPool::root("syscalls", limits::SYSCALL_STATE_BYTES.min(share));
        let state = State::new(options, budget.leaf("threads", None));
        Calls { source, state, budget, stop: stop.clone() }
    }

    /// The state after the last event.
    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// What was counted so far.
    pub(crate) fn account(&self) -> CallAccount {
        match &self.source {
            Source::File { reader, merger, .. } => CallAccount::File(Box::new(ScapAccount {
                read: reader.counts().clone(),
                merged: Some(merger.counts().clone()),
            })),
            Source::Live(live) => CallAccount::Live(Box::new(live.account())),
            Source::Nothing => CallAccount::File(Box::default()),
        }
    }

    /// What a live source counted from its start until now.
    pub(crate) fn statistics(&self) -> Option<LiveStatistics> {
        match &self.source {
            Source::Live(live) => Some(live.statistics()),
            Source::File { .. } | Source::Nothing => None,
        }
    }

    /// The memory of the state.
    pub(crate) fn memory(&self) -> BudgetReport {
        self.budget.report()
    }

    /// What this kernel refused of a live source, a line each.
    pub(crate) fn absent(&self) -> Vec<String> {
        match &self.source {
            Source::Live(live) => live.absent(),
            Source::File { .. } | Source::Nothing => Vec::new(),
        }
    }

    /// Hands events to `then` until the source ends, `then` breaks or a request to stop is heard. A live source that is
    /// ended records no further call, and hands over what was recorded before.
    pub(crate) fn run(
        &mut self,
        pulse: &Pulse,
        mut then: impl FnMut(Moment<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        let (state, stop) = (&mut self.state, &self.stop);
        match &mut self.source {
            Source::File { path, reader, merger } => {
                run_file(reader, merger, state, stop, pulse, &mut then)
                    .map_err(|source| Error::Scap { path: path.clone(), source })
            }
            Source::Live(live) => {
                live.run(state, stop, pulse, &mut then);
                Ok(())
            }
            Source::Nothing => {
                while then(Moment::CaughtUp(&Latest(None, state))).is_continue() && !stop.is_set() {
                    pulse.rest(|| std::thread::sleep(LOOK));
                }
                Ok(())
            }
        }
    }

    /// The same for takers of events alone, without a supervisor.
    pub(crate) fn for_each(
        &mut self,
        mut then: impl FnMut(&State, &Event<'_>) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        self.run(&Pulse::unwatched(), |moment| match moment {
            Moment::Event(state, event) => then(state, event),
            Moment::CaughtUp(_) => ControlFlow::Continue(()),
        })
    }
}

impl LiveCalls {
    /// What this source shows of itself while it runs.
    pub(super) fn latest<'a>(&'a self, state: &'a State) -> Latest<'a> {
        Latest(Some(self), state)
    }
}

fn run_file(
    reader: &mut Reader,
    merger: &mut Merger,
    state: &mut State,
    stop: &StopFlag,
    pulse: &Pulse,
    then: &mut dyn FnMut(Moment<'_>) -> ControlFlow<()>,
) -> Result<(), gabion_scap::Error> {
    // A pipe may bring nothing for long, which is no stall.
    while let Some(item) = pulse.rest(|| reader.next_item())? {
        match item {
            Item::Section { .. } => {
                merger.finish();
                state.clear();
            }
            Item::Event(event) => {
                let Some(event) = merger.merge(&event) else { continue };
                state.apply(&event);
                if then(Moment::Event(state, &event)).is_break() {
                    break;
                }
            }
            item => state.add(item),
        }
        if stop.is_set() {
            break;
        }
    }
    merger.finish();
    Ok(())
}

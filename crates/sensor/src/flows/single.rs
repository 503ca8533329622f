//! The behaviour engine on one thread, and a second thread that watches whether it makes progress.
//!
//! Waiting for input or for a disk is no stall, however long it takes; no progress for two seconds while there is
//! work is a stall, and is reported. A worker without progress for a while longer is abandoned:
//! what was found until then is written, and the run ends with an error.

use super::checkpoint::Tag;
use super::outcome::Ran;
use super::parallel::STALL_GRACE;
use super::sink::Sink;
use super::source::{Seen, Source};
use crate::Error;
use gabion_behavior::Engine;
use gabion_runtime::fanout::{Change, SingleEnd, watch_single};
use gabion_runtime::{Pulse, Supervisor, Worker};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// How long one look at the worker waits.
const LOOK: Duration = Duration::from_millis(100);

/// Runs an engine over a source. When it fails, what was found until then stays.
///
/// # Errors
/// When its thread can't be started, or makes no progress.
pub(super) fn run<S: Source + 'static>(
    source: S,
    mut engine: Engine,
    state: String,
    budget: usize,
    sink: &mut Sink,
    say: &mut dyn FnMut(String),
) -> Result<(S, Ran), Error> {
    engine.set_input_state(state);
    if sink.keeps_windows() {
        engine.keep_windows();
    }
    let fault = |source| Error::Thread { name: NAME, source };
    let supervisor = Supervisor::start().map_err(fault)?;
    let shared = Arc::new(Mutex::new(std::mem::take(sink)));
    let theirs = Arc::clone(&shared);
    let worker = supervisor
        .spawn(NAME, None, move |pulse| work(source, engine, budget, &theirs, pulse))
        .map_err(fault)?;
    let done = watched(&supervisor, worker, say);
    // A worker that was abandoned may hold it for ever: then what is in it can't be had.
    match shared.try_lock() {
        Ok(mut shared) => *sink = std::mem::take(&mut shared),
        Err(TryLockError::Poisoned(shared)) => *sink = std::mem::take(&mut shared.into_inner()),
        Err(TryLockError::WouldBlock) => {}
    }
    if done.is_err()
        && let Err(e) = sink.outputs.flush()
    {
        say(e.to_string());
    }
    done
}

const NAME: &str = "behavior";

/// What the thread does.
fn work<S: Source>(
    mut source: S,
    mut engine: Engine,
    budget: usize,
    sink: &Mutex<Sink>,
    pulse: &Pulse,
) -> (S, Ran) {
    let done = pulse.guard(|| {
        let mut is_saved = false;
        pulse.rest(|| {
            source.run(&mut |seen| {
                is_saved |= matches!(seen, Seen::Checkpoint(_, true));
                pulse.busy(|| take_records(seen, &mut engine, sink, pulse))
            });
        });
        // What waits is decided by the run that continues from the checkpoint.
        if !is_saved {
            engine.finish(&mut |finding| pulse.rest(|| lock(sink).take_finding(finding)));
            engine.keep_rest(&mut |kept| pulse.rest(|| lock(sink).keep(kept)));
        }
    });
    let ran = Ran { failed: done.err(), ..Ran::from_engine(&engine, budget) };
    (source, ran)
}

#[inline]
fn take_records(
    seen: Seen<'_, '_>,
    engine: &mut Engine,
    sink: &Mutex<Sink>,
    pulse: &Pulse,
) -> ControlFlow<()> {
    match seen {
        Seen::Records(records) => {
            engine.records(records, &mut |finding| pulse.rest(|| lock(sink).take_finding(finding)));
            if engine.has_kept() {
                pulse.rest(|| lock(sink).keep(engine.take_kept()));
            }
        }
        Seen::Lists(intel) => engine.set_intel(intel),
        Seen::State(state) => engine.set_input_state(state),
        Seen::Idle => pulse.rest(|| lock(sink).idle()),
        Seen::Checkpoint(source, _) => pulse.rest(|| {
            let mut sink = lock(sink);
            sink.begin_save();
            sink.save(Tag::Source, &source);
            engine.save(&mut |section, bytes| sink.save(Tag::Engine(section), &bytes));
            sink.keep(engine.take_kept());
            sink.end_save();
        }),
    }
    ControlFlow::Continue(())
}

fn lock(sink: &Mutex<Sink>) -> MutexGuard<'_, Sink> {
    sink.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a worker's end and reports when it makes no progress; why there is no end.
fn watched<T>(
    supervisor: &Supervisor,
    worker: Worker<T>,
    say: &mut dyn FnMut(String),
) -> Result<T, Error> {
    let end = watch_single(supervisor, LOOK, STALL_GRACE, &mut |change| match change {
        Some(Change::Stalled(message)) => {
            say(format!("{NAME}: stalled: {message}: waiting for it"))
        }
        Some(Change::Recovered(message)) => say(format!("{NAME}: recovered: {message}")),
        Some(Change::Finished | Change::Failed(_)) | None => {}
    });
    match end {
        SingleEnd::Finished { .. } => worker.join().ok_or(Error::Gone { who: NAME }),
        SingleEnd::Failed(message) => Err(Error::Panicked { who: NAME.to_owned(), message }),
        SingleEnd::Overdue => Err(Error::Abandoned { who: NAME }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Notices;
    use crate::flows::lists::{ListFiles, Lists};
    use crate::flows::source::LogSource;
    use gabion_behavior::Settings;
    use gabion_flowlog::{Feed, Options};
    use gabion_runtime::files::direct_opener;
    use gabion_runtime::{Patience, StopFlag};
    use std::sync::mpsc;

    fn quick() -> Supervisor {
        Supervisor::start_with(Patience {
            stall_after: Duration::from_millis(40),
            check_every: Duration::from_millis(5),
        })
        .unwrap()
    }

    /// Waiting is no stall; working without an end is one, and is over when it continues.
    #[test]
    fn a_stall_is_reported_and_its_end_too() {
        let supervisor = quick();
        let (go, wait) = mpsc::channel::<()>();
        let worker = supervisor.spawn(NAME, None, move |pulse| {
            pulse.rest(|| {
                std::thread::sleep(Duration::from_millis(200));
                pulse.busy(|| wait.recv()).is_ok()
            })
        });
        let mut said = Vec::new();
        let done = watched(&supervisor, worker.unwrap(), &mut |line| {
            if line.contains("stalled") {
                go.send(()).unwrap();
            }
            said.push(line);
        });
        assert!(matches!(done, Ok(true)));
        assert!(said[0].starts_with("behavior: stalled: has work but did not beat"), "{said:?}");
    }

    #[test]
    fn a_worker_without_progress_is_abandoned() {
        let supervisor = quick();
        let (go, wait) = mpsc::channel::<()>();
        let worker = supervisor.spawn(NAME, None, move |_| wait.recv().is_ok()).unwrap();
        let mut said = Vec::new();
        let done = watched(&supervisor, worker, &mut |line| said.push(line));
        assert!(done.is_err_and(|e| e.to_string().contains("abandoned")));
        assert_eq!(said.len(), 1, "{said:?}");
        drop(go);
    }

    /// Fails in the middle of a log.
    struct Failing(Feed);

    impl Source for Failing {
        fn run(&mut self, each: &mut dyn FnMut(Seen<'_, '_>) -> ControlFlow<()>) {
            let mut feed = LogSource {
                feed: std::mem::replace(
                    &mut self.0,
                    Feed::survey(&direct_opener(), &[], Options::default()),
                ),
                stop: StopFlag::new(),
                lists: Lists::watch(ListFiles::default(), None, Notices::default()),
                is_stopped: false,
            };
            let mut records = 0;
            feed.run(&mut |seen| {
                records += usize::from(matches!(seen, Seen::Records(_)));
                let flow = each(seen);
                assert!(records < 2, "acted fault");
                flow
            });
        }
    }

    /// An engine that fails is reported with its reason, and what was found until then is not lost.
    #[test]
    fn an_engine_that_fails_ends_with_what_it_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conn.log");
        let line = |n: u32| {
            format!(
                "{{\"ts\":{n}.0,\"uid\":\"C{n}\",\"id.orig_h\":\"8.8.8.8\",\"id.resp_h\":\"9.9.{}.{}\",\"id.resp_p\":23,\
                 \"proto\":\"tcp\",\"conn_state\":\"S0\"}}\n",
                n >> 8,
                n & 255
            )
        };
        std::fs::write(&path, (0..40_000).map(line).collect::<String>()).unwrap();
        let source = Failing(Feed::survey(&direct_opener(), &[path], Options::default()));
        let mut sink = Sink::default();
        let engine = Engine::with_budget(Settings::default(), None, 1 << 20);
        let done = run(source, engine, String::new(), 1 << 20, &mut sink, &mut |_| {});
        let Ok((_, ran)) = done else { panic!("no end") };
        assert!(
            ran.failed.as_ref().is_some_and(|why| why.message.contains("acted fault")),
            "{:?}",
            ran.failed
        );
        assert!(ran.is_cut(1) && ran.counts.records > 0 && ran.counts.records < 40_000);
        assert!(!sink.found.evidence.is_empty());
        ran.sources.balance().unwrap();
    }
}

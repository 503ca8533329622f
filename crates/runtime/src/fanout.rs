//! Several workers of one stage under a supervisor: which are lost, which stall and for how long, and the
//! buffers that pass between them and are used again.
//!
//! A [`Fanout`] starts workers and names them. Its owner asks it what happened ([`Fanout::poll`]) and which
//! workers have stalled for too long ([`Fanout::overdue`]), and decides what follows; a worker that it loses
//! ([`Fanout::lose`]) is never joined. The thread that feeds the workers shares [`Losses`] and waits for none that
//! is lost ([`Losses::await_room`]). What workers return comes together in rounds ([`Rounds`]), and of a round in the
//! order of places ([`merge`]), so that it is what one worker alone would have returned. A worker that is the only one is
//! watched by [`watch_single`].
//!
//! ```
//! use gabion_runtime::fanout::{Change, Fanout, Losses};
//! use std::time::Duration;
//!
//! let mut squares = Fanout::start("square", Losses::new(3), Duration::from_secs(10))?;
//! for n in 0..3u64 {
//!     squares.spawn(None, move |_pulse| n * n)?;
//! }
//! let mut finished = 0;
//! while finished < 3 {
//!     if let Some((_, change)) = squares.next(Duration::from_secs(1)) {
//!         finished += usize::from(matches!(change, Change::Finished));
//!     }
//! }
//! assert!(squares.have_ended());
//! let all: Vec<Option<u64>> = squares.join();
//! assert_eq!(all, [Some(0), Some(1), Some(4)]);
//! # Ok::<(), std::io::Error>(())
//! ```

use crate::channel::{Edge, Load, Sender};
use crate::clock::now;
use crate::supervisor::{Event, EventKind, Pulse, Supervisor, Worker};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Which workers are lost: known to their owner and to who feeds them.
#[derive(Clone, Debug)]
pub struct Losses(Arc<[AtomicBool]>);

impl Losses {
    /// None of this many.
    pub fn new(workers: usize) -> Losses {
        Losses((0..workers).map(|_| AtomicBool::new(false)).collect())
    }

    /// Enters a worker as lost.
    pub fn lose(&self, worker: usize) {
        if let Some(lost) = self.0.get(worker) {
            lost.store(true, Relaxed);
        }
    }

    /// Whether a worker is lost.
    #[inline]
    pub fn is_lost(&self, worker: usize) -> bool {
        self.0.get(worker).is_some_and(|lost| lost.load(Relaxed))
    }

    /// How many are lost.
    pub fn count(&self) -> usize {
        self.0.iter().filter(|lost| lost.load(Relaxed)).count()
    }

    /// How many workers there are, lost or not.
    pub fn workers(&self) -> usize {
        self.0.len()
    }

    /// Waits for space on the way to a worker, with at most n messages there; false when the worker is lost.
    pub fn await_room<T: Load>(
        &self,
        worker: usize,
        to: &Sender<T>,
        (items, bytes): (u64, u64),
        messages_max: u64,
    ) -> bool {
        /// How long one wait lasts before it is looked whether the worker was lost.
        const LOOK: Duration = Duration::from_millis(50);
        while !self.is_lost(worker) {
            if to.await_room(items, bytes, messages_max, LOOK) {
                return true;
            }
        }
        false
    }
}

/// Buffers that were used and wait to be used again: a buffer that is freed and allocated again costs more than
/// what is put into it.
#[derive(Debug)]
pub struct Spares<T> {
    all: Arc<Mutex<Vec<T>>>,
    most: usize,
}

impl<T> Clone for Spares<T> {
    fn clone(&self) -> Spares<T> {
        Spares { all: Arc::clone(&self.all), most: self.most }
    }
}

impl<T> Spares<T> {
    /// None yet, and never more than this many.
    pub fn new(most: usize) -> Spares<T> {
        Spares { all: Arc::default(), most }
    }

    /// One of them.
    pub fn take_spare(&self) -> Option<T> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps these as far as there is room; the others are freed.
    pub fn put(&self, spares: impl IntoIterator<Item = T>) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.most.saturating_sub(all.len());
        all.extend(spares.into_iter().take(room));
    }
}

/// Since when workers have been stalled.
#[derive(Clone, Debug)]
pub struct Stalls {
    since: Vec<Option<Instant>>,
    grace: Duration,
}

impl Stalls {
    /// None of this many; one that stalls for longer than `grace` is overdue.
    pub fn new(workers: usize, grace: Duration) -> Stalls {
        Stalls { since: vec![None; workers], grace }
    }

    /// Takes what happened to a worker; whether it was stalled before.
    pub fn note_event(&mut self, worker: usize, kind: EventKind) -> bool {
        let Some(since) = self.since.get_mut(worker) else { return false };
        let was = since.is_some();
        *since = match kind {
            EventKind::Stalled => Some(now()),
            EventKind::Recovered | EventKind::Finished | EventKind::Panicked => None,
        };
        was
    }

    /// Whether a worker has been stalled for too long.
    pub fn is_overdue(&self, worker: usize) -> bool {
        let since = self.since.get(worker).copied().flatten();
        since.is_some_and(|since| since.elapsed() >= self.grace)
    }

    /// Gives all that are stalled the whole time again: one that they waited for is gone.
    pub fn begin_again(&mut self) {
        for since in self.since.iter_mut().flatten() {
            *since = now();
        }
    }

    /// A worker that is waited for no more.
    pub fn forget(&mut self, worker: usize) {
        if let Some(since) = self.since.get_mut(worker) {
            *since = None;
        }
    }
}

/// What happened to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It returned.
    Finished,
    /// It panicked, with this message.
    Failed(String),
    /// It has work and does not beat.
    Stalled(String),
    /// It beats again.
    Recovered(String),
}

/// How a worker that is the only one of its stage ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SingleEnd {
    /// It returned; whether it had stalled until then.
    Finished {
        /// Nothing was reported of its continuing.
        was_stalled: bool,
    },
    /// It panicked, with this message.
    Failed(String),
    /// It has stalled for too long. Its thread is not waited for.
    Overdue,
}

/// Watches over the only worker of a supervisor until it ends, or has stalled for longer than `grace`. `each` is called after
/// each look of at most `look`, with the stall that was found or that is over.
pub fn watch_single(
    supervisor: &Supervisor,
    look: Duration,
    grace: Duration,
    each: &mut dyn FnMut(Option<Change>),
) -> SingleEnd {
    let mut stalls = Stalls::new(1, grace);
    loop {
        let change = match supervisor.next_event(look) {
            None => None,
            Some(event) => {
                let was_stalled = stalls.note_event(0, event.kind);
                match event.kind {
                    EventKind::Finished => return SingleEnd::Finished { was_stalled },
                    EventKind::Panicked => return SingleEnd::Failed(event.message),
                    EventKind::Stalled => Some(Change::Stalled(event.message)),
                    EventKind::Recovered => Some(Change::Recovered(event.message)),
                }
            }
        };
        each(change);
        if stalls.is_overdue(0) {
            return SingleEnd::Overdue;
        }
    }
}

/// The workers of one stage.
pub struct Fanout<T> {
    supervisor: Supervisor,
    name: &'static str,
    losses: Losses,
    stalls: Stalls,
    threads: Vec<Worker<T>>,
    /// Which of them have said that they ended.
    ended: Vec<bool>,
    /// Events of threads that are no workers of this stage.
    others: Vec<Event>,
}

impl<T: Send + 'static> Fanout<T> {
    /// A stage without workers yet: as many as `losses` counts will be called `NAME 0`, `NAME 1` and so on. One
    /// that stalls for longer than `grace` is overdue.
    ///
    /// # Errors
    /// If the supervisor's thread can't be started.
    pub fn start(name: &'static str, losses: Losses, grace: Duration) -> io::Result<Fanout<T>> {
        let stalls = Stalls::new(losses.workers(), grace);
        let supervisor = Supervisor::start()?;
        Ok(Fanout {
            supervisor,
            name,
            losses,
            stalls,
            threads: Vec::new(),
            ended: Vec::new(),
            others: Vec::new(),
        })
    }

    /// Starts the next worker. Messages that wait on `input` are work.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn spawn(
        &mut self,
        input: Option<Arc<Edge>>,
        work: impl FnOnce(&Pulse) -> T + Send + 'static,
    ) -> io::Result<()> {
        let name = self.name_of(self.threads.len());
        self.threads.push(self.supervisor.spawn(&name, input, work)?);
        self.ended.push(false);
        Ok(())
    }

    /// Starts a thread in addition to the workers, which is watched too: what happens to it comes from
    /// [`Fanout::take_others`].
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn spawn_other<R: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&Pulse) -> R + Send + 'static,
    ) -> io::Result<Worker<R>> {
        self.supervisor.spawn(name, None, work)
    }

    /// A worker's name.
    pub fn name_of(&self, worker: usize) -> String {
        format!("{} {worker}", self.name)
    }

    /// Which are lost.
    pub fn losses(&self) -> &Losses {
        &self.losses
    }

    /// What happened to a worker since it was last asked, if anything did.
    pub fn poll(&mut self) -> Option<(usize, Change)> {
        while let Some(event) = self.supervisor.poll_event() {
            if let Some(change) = self.apply_event(event) {
                return Some(change);
            }
        }
        None
    }

    /// The same, waited for at most so long; nothing also when it happened to another thread.
    pub fn next(&mut self, longest: Duration) -> Option<(usize, Change)> {
        let event = self.supervisor.next_event(longest)?;
        self.apply_event(event)
    }

    fn apply_event(&mut self, event: Event) -> Option<(usize, Change)> {
        let at = self.threads.iter().position(|thread| thread.id() == event.worker);
        let Some(at) = at else {
            self.others.push(event);
            return None;
        };
        self.stalls.note_event(at, event.kind);
        if let (EventKind::Finished | EventKind::Panicked, Some(has_ended)) =
            (event.kind, self.ended.get_mut(at))
        {
            *has_ended = true;
        }
        let change = match event.kind {
            EventKind::Finished => Change::Finished,
            EventKind::Panicked => Change::Failed(event.message),
            EventKind::Stalled => Change::Stalled(event.message),
            EventKind::Recovered => Change::Recovered(event.message),
        };
        Some((at, change))
    }

    /// What happened to the other threads.
    pub fn take_others(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.others)
    }

    /// Whether a worker has been stalled for too long.
    pub fn is_overdue(&self, worker: usize) -> bool {
        self.stalls.is_overdue(worker)
    }

    /// Whether all workers that are not lost have said that they ended, one way or the other.
    pub fn have_ended(&self) -> bool {
        self.ended.iter().enumerate().all(|(at, has_ended)| *has_ended || self.losses.is_lost(at))
    }

    /// Workers that have been stalled for too long.
    pub fn overdue(&self) -> Vec<usize> {
        (0..self.threads.len()).filter(|at| self.is_overdue(*at)).collect()
    }

    /// Abandons a worker: it is not waited for any more.
    pub fn lose(&mut self, worker: usize) {
        self.losses.lose(worker);
        self.stalls.forget(worker);
    }

    /// Gives all that are stalled the whole time again, where they may have waited for one that is lost.
    pub fn begin_again(&mut self) {
        self.stalls.begin_again();
    }

    /// Waits for all that are not lost; gives what each returned.
    pub fn join(self) -> Vec<Option<T>> {
        let Fanout { losses, threads, .. } = self;
        let all = threads.into_iter().enumerate();
        all.map(|(at, thread)| if losses.is_lost(at) { None } else { thread.join() }).collect()
    }
}

/// What workers return, put together round by round: a round is whole when no worker can add to it any more.
///
/// Each worker returns its parts in order of their rounds, and may leave rounds out.
#[derive(Debug)]
pub struct Rounds<T> {
    losses: Losses,
    /// Parts of rounds that are not whole yet, in the order in which they came.
    waiting: BTreeMap<u64, Vec<T>>,
    /// The round after that of each worker's last part.
    past: Vec<u64>,
    has_ended: Vec<bool>,
    next: u64,
}

impl<T> Rounds<T> {
    /// No round yet. A worker that is lost is waited for no more; what it returned before counts.
    pub fn new(losses: Losses) -> Rounds<T> {
        let workers = losses.workers();
        Rounds {
            losses,
            waiting: BTreeMap::new(),
            past: vec![0; workers],
            has_ended: vec![false; workers],
            next: 0,
        }
    }

    /// Takes a worker's part of a round.
    pub fn put(&mut self, worker: usize, round: u64, part: T) {
        if let Some(past) = self.past.get_mut(worker) {
            *past = round.saturating_add(1);
        }
        self.waiting.entry(round).or_default().push(part);
    }

    /// Takes a worker's part of the round after its last one.
    pub fn put_next(&mut self, worker: usize, part: T) {
        let round = self.past.get(worker).copied().unwrap_or_default();
        self.put(worker, round, part);
    }

    /// Takes that a worker will return nothing more.
    pub fn end(&mut self, worker: usize) {
        if let Some(has_ended) = self.has_ended.get_mut(worker) {
            *has_ended = true;
        }
    }

    /// Workers that are not lost and have not come to their end.
    pub fn unfinished(&self) -> impl Iterator<Item = usize> {
        let is_open = |(at, has_ended): &(usize, &bool)| !**has_ended && !self.losses.is_lost(*at);
        self.has_ended.iter().enumerate().filter(is_open).map(|(at, _)| at)
    }

    /// The first worker that may still add to the next round; none when the round is whole.
    pub fn missing(&self) -> Option<usize> {
        self.unfinished().find(|at| self.past.get(*at).is_some_and(|past| *past <= self.next))
    }

    /// The next round that has parts, if it is whole, with its number.
    pub fn take_whole(&mut self) -> Option<(u64, Vec<T>)> {
        while self.missing().is_none() {
            let round = self.next;
            match self.waiting.remove(&round) {
                Some(parts) => {
                    self.next += 1;
                    return Some((round, parts));
                }
                None if self.waiting.is_empty() => return None,
                None => self.next += 1,
            }
        }
        None
    }
}

/// Merges parts that are in order each: takes from the part whose next item has the least place, of equal ones from
/// the first. `place` returns none when nothing is left of a part, and `take` takes at least one item of that place.
pub fn merge<T, P: Ord>(
    parts: &mut [T],
    place: impl Fn(&T) -> Option<P>,
    mut take: impl FnMut(&mut T, P),
) {
    loop {
        let mut least: Option<(P, usize)> = None;
        for (at, part) in parts.iter().enumerate() {
            if let Some(place) = place(part)
                && least.as_ref().is_none_or(|(least, _)| place < *least)
            {
                least = Some((place, at));
            }
        }
        let Some((place, at)) = least else { return };
        let Some(part) = parts.get_mut(at) else { return };
        take(part, place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::supervisor::Patience;
    use std::sync::mpsc;

    #[test]
    fn a_worker_that_panics_is_reported_and_the_others_are_joined() {
        let mut all = Fanout::start("w", Losses::new(2), Duration::from_secs(60)).unwrap();
        all.spawn(None, |_| 7).unwrap();
        all.spawn(None, |_| -> i32 { panic!("acted fault") }).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            seen.extend(all.next(Duration::from_secs(5)));
        }
        seen.sort_by_key(|(at, _)| *at);
        assert_eq!(seen[0], (0, Change::Finished));
        assert!(matches!(&seen[1], (1, Change::Failed(why)) if why.contains("acted fault")));
        all.lose(1);
        assert_eq!((all.losses().count(), all.join()), (1, vec![Some(7), None]));
    }

    #[test]
    fn a_worker_that_stalls_is_overdue_after_the_grace() {
        let mut all = Fanout::start("w", Losses::new(1), Duration::ZERO).unwrap();
        let (go, wait) = mpsc::channel::<()>();
        all.spawn(None, move |_| wait.recv().is_ok()).unwrap();
        assert!(all.overdue().is_empty());
        let change = std::iter::from_fn(|| Some(all.next(Duration::from_secs(5)))).flatten().next();
        assert!(matches!(change, Some((0, Change::Stalled(_)))));
        assert_eq!(all.overdue(), [0]);
        all.lose(0);
        assert!(all.overdue().is_empty());
        drop(go);
        assert_eq!(all.join(), [None]);
    }

    fn watch(grace: Duration, work: impl FnOnce() + Send + 'static) -> (SingleEnd, Vec<Change>) {
        let supervisor = Supervisor::start_with(Patience {
            stall_after: Duration::from_millis(20),
            check_every: Duration::from_millis(5),
        })
        .unwrap();
        supervisor.spawn("w", None, move |_| work()).unwrap();
        let mut changes = Vec::new();
        let look = Duration::from_millis(10);
        let end = watch_single(&supervisor, look, grace, &mut |change| changes.extend(change));
        (end, changes)
    }

    #[test]
    fn a_single_worker_is_watched_until_it_ends() {
        let (end, changes) = watch(Duration::MAX, || {});
        assert!(matches!(end, SingleEnd::Finished { was_stalled: false }), "{end:?}");
        assert_eq!(changes, []);
        let (end, _) = watch(Duration::MAX, || panic!("acted fault"));
        assert!(matches!(&end, SingleEnd::Failed(why) if why.contains("acted fault")), "{end:?}");
        let (go, wait) = mpsc::channel::<()>();
        let (end, changes) = watch(Duration::ZERO, move || assert!(wait.recv().is_err()));
        assert_eq!(end, SingleEnd::Overdue);
        assert!(matches!(changes.as_slice(), [Change::Stalled(_)]), "{changes:?}");
        drop(go);
    }

    #[test]
    fn a_round_is_whole_when_nobody_can_add_to_it() {
        let losses = Losses::new(3);
        let mut rounds = Rounds::new(losses.clone());
        rounds.put_next(0, "a0");
        rounds.put(2, 4, "c4");
        assert_eq!((rounds.missing(), rounds.take_whole()), (Some(1), None));
        // One that leaves rounds out adds nothing to them.
        rounds.put(1, 3, "b3");
        assert_eq!(rounds.take_whole(), Some((0, vec!["a0"])));
        assert_eq!((rounds.missing(), rounds.take_whole()), (Some(0), None));
        rounds.end(0);
        assert_eq!(rounds.take_whole(), Some((3, vec!["b3"])));
        assert_eq!(rounds.missing(), Some(1));
        assert_eq!(rounds.unfinished().collect::<Vec<_>>(), [1, 2]);
        losses.lose(1);
        assert_eq!(rounds.take_whole(), Some((4, vec!["c4"])));
        rounds.end(2);
        assert_eq!((rounds.missing(), rounds.take_whole()), (None, None));
    }

    #[test]
    fn parts_are_merged_by_place_and_of_equal_ones_the_first_leads() {
        let mut parts = [(0, vec![1, 4, 4]), (1, vec![]), (2, vec![2, 4, 5])];
        let mut seen = Vec::new();
        let place = |(_, items): &(i32, Vec<i32>)| items.first().copied();
        merge(&mut parts, place, |(part, items), at| {
            assert_eq!(items.remove(0), at);
            seen.push((at, *part));
        });
        assert_eq!(seen, [(1, 0), (2, 2), (4, 0), (4, 0), (4, 2), (5, 2)]);
    }

    #[test]
    fn spares_are_bounded() {
        let spares = Spares::new(2);
        spares.put([vec![1], vec![2], vec![3]]);
        assert_eq!(
            [spares.take_spare(), spares.take_spare(), spares.take_spare()],
            [Some(vec![2]), Some(vec![1]), None]
        );
    }
}

//! Work that other threads hand to workers: it is done between two batches, so that nothing of it is seen in the middle
//! of one.

use crate::limits::reached;
use gabion_net::Worker;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Something to do with a worker.
pub(crate) type Task = Box<dyn FnOnce(&mut Worker) + Send>;

#[derive(Default)]
struct Inbox {
    /// Something is in it, for a look without a lock.
    is_any: AtomicBool,
    tasks: Mutex<VecDeque<Task>>,
}

/// An inbox for each worker of a run.
pub struct Tasks(Vec<Inbox>);

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("workers", &self.0.len()).finish()
    }
}

impl Tasks {
    /// For this many workers.
    pub fn new(workers: usize) -> Tasks {
        Tasks((0..workers.max(1)).map(|_| Inbox::default()).collect())
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> usize {
        self.0.len()
    }

    /// Hands a task to a worker. False: there is no such worker, or it has too much to do; the task is dropped.
    pub(crate) fn post(&self, worker: usize, task: Task) -> bool {
        let Some(inbox) = self.0.get(worker) else { return false };
        let mut tasks = inbox.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        if !reached::TASKS_MAX.has_room(tasks.len()) {
            return false;
        }
        tasks.push_back(task);
        inbox.is_any.store(true, Relaxed);
        true
    }

    /// Does what was handed to this worker.
    #[inline]
    pub(crate) fn carry_out(&self, n: usize, worker: &mut Worker) {
        if let Some(inbox) = self.0.get(n).filter(|inbox| inbox.is_any.load(Relaxed)) {
            inbox.carry_out(worker);
        }
    }
}

impl Inbox {
    #[cold]
    fn carry_out(&self, worker: &mut Worker) {
        let tasks = {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            self.is_any.store(false, Relaxed);
            std::mem::take(&mut *tasks)
        };
        tasks.into_iter().for_each(|task| task(worker));
    }
}

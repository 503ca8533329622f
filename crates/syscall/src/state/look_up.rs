//! Look-ups of threads that a live source names and nothing describes.
//!
//! The engine reads no `/proc` itself. [`State::wants_look_up`] names the thread of an event before it is applied; the
//! caller looks it up and says what it found. Each thread is looked up once, and a storm of unknown threads is bounded.

use gabion_scap::host::{FdEntry, ProcessEntry};
use gabion_scap::table::{Sources, TypeFlags};
use gabion_scap::{Event, types};

use super::{Current, State};
use crate::limits::{LISTS_APART_NS, LOOK_UPS_PER_SECOND, LOSS_OPEN_NS_MAX, reached};
use crate::thread::Thread;

/// Look-ups of threads: `wanted = found + failed`, unless the caller did not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LookUpCounts {
    /// Threads that the caller was asked to look up.
    pub wanted: u64,
    /// Threads that were found.
    pub found: u64,
    /// Threads that were gone.
    pub failed: u64,
    /// Threads that were not looked up, as there were too many in that second.
    pub refused: u64,
}

/// Look-ups of the current second of event time.
#[derive(Debug, Default)]
pub(crate) struct LookUps {
    second: u64,
    in_second: usize,
    pub(crate) counts: LookUpCounts,
}

impl State {
    /// The thread of an event that was not applied yet, if nothing describes it and it may be looked up. Answer with
    /// [`State::add_looked_up`] or [`State::look_up_failed`]. Events that describe their thread themselves want none.
    pub fn wants_look_up(&mut self, event: &Event<'_>) -> Option<i64> {
        let kind = event.kind();
        let is_of_thread =
            kind.sources.has(Sources::SYSCALL) && !kind.flags.has(TypeFlags::SKIPPARSERESET);
        if !is_of_thread || event.tid <= 0 || self.threads.find(event.tid).is_some() {
            return None;
        }
        let result = event.param(0).and_then(|result| result.as_i64());
        let describes_itself = match kind.number {
            types::CLONE_20_X | types::CLONE3_X | types::FORK_20_X | types::VFORK_20_X => true,
            types::EXECVE_19_X | types::EXECVEAT_X => result == Some(0),
            kind => kind == types::PROCEXIT_1_E,
        };
        if describes_itself {
            return None;
        }
        let second = event.ts_ns / 1_000_000_000;
        let look_ups = &mut self.look_ups;
        if look_ups.second != second {
            (look_ups.second, look_ups.in_second) = (second, 0);
        }
        if !reached::LOOK_UPS_PER_SECOND.has_room(look_ups.in_second) {
            look_ups.counts.refused = look_ups.counts.refused.saturating_add(1);
            return None;
        }
        look_ups.in_second = (look_ups.in_second + 1).min(LOOK_UPS_PER_SECOND);
        look_ups.counts.wanted = look_ups.counts.wanted.saturating_add(1);
        Some(event.tid)
    }

    /// Adds a thread that was looked up; the descriptors are those of its process.
    pub fn add_looked_up(&mut self, entries: &[ProcessEntry], fds: &[FdEntry]) {
        self.look_ups.counts.found = self.look_ups.counts.found.saturating_add(1);
        for entry in entries {
            if self.threads.find(entry.tid).is_none() {
                let thread = Thread::of_list(entry, &self.threads.texts);
                if let Some(slot) = self.threads.insert(thread) {
                    self.threads.link_parent(slot);
                    self.threads.settle(Some(slot));
                }
            }
        }
        fds.iter().for_each(|fd| self.add_fd(fd));
    }

    /// Says that a thread could not be looked up: it is gone, or may not be read. Its fields say so.
    pub fn look_up_failed(&mut self, tid: i64) {
        self.look_ups.counts.failed = self.look_ups.counts.failed.saturating_add(1);
        if self.threads.find(tid).is_none() {
            let mut thread = Thread::unseen(tid);
            thread.is_doubtful = self.threads.is_shed(tid) || self.loss.is_any();
            thread.is_look_up_failed = true;
            let slot = self.threads.insert(thread);
            self.threads.settle(slot);
        }
    }

    /// Whether so much is unsure since a loss that all processes should be described again: events of a thread that
    /// never came back are missing for some time, and whatever depends on other threads is reported as shed meanwhile.
    /// Answer with [`State::begin_list`] and all processes and descriptors of the host.
    pub fn wants_list(&self) -> bool {
        let waited_ns = |since: Option<u64>| since.map(|ns| self.last_ns.saturating_sub(ns));
        self.loss.is_open()
            && waited_ns(self.open_since_ns).is_some_and(|ns| ns >= LOSS_OPEN_NS_MAX)
            && waited_ns(self.last_list_ns).is_none_or(|ns| ns >= LISTS_APART_NS)
    }

    /// Forgets all threads and what was lost: [`State::add_process`] and [`State::add_fd`] describe the host again. Users
    /// and containers stay.
    pub fn begin_list(&mut self) {
        self.threads.clear();
        self.connections.clear();
        self.threads.extra_held = 0;
        self.current = Current::default();
        self.closed = None;
        self.loss.settle();
        (self.open_since_ns, self.last_list_ns) = (None, Some(self.last_ns));
    }

    /// What was looked up.
    pub fn look_ups(&self) -> &LookUpCounts {
        &self.look_ups.counts
    }
}

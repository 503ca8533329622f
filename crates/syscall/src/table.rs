//! The table of threads: entries by number, groups of threads, parents and children, and the order of last use.
//!
//! The table has a limit of entries and a budget in bytes. When one is reached the dead leave first, then the thread
//! that was idle longest; each is counted, and remembered so that its fields can say that they were shed.

use foldhash::fast::RandomState;
use gabion_record::budget::Budget;
use hashbrown::{HashMap, HashSet};

use crate::fd::FdPool;
use crate::limits::SHED_TIDS_KEPT;
use crate::text::Texts;
use crate::thread::{Links, NONE, Thread};

/// The place of a thread in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// The number of a parent that is another one than before and not known.
pub(crate) const LOST_PARENT: i64 = -2;

/// The bytes of a thread's entry: itself, its place in the maps of numbers and of groups.
const THREAD_COST: u64 = size_of::<Thread>() as u64 + 96;

/// Places of threads that are remembered: more than threads that run at the same time.
const RECENT: usize = 1024;

/// The threads of one process.
#[derive(Clone, Copy, Debug)]
struct Group {
    first: u32,
    /// How many of them run.
    alive: u32,
    /// Orphans below it become its children (`PR_SET_CHILD_SUBREAPER`, or the first of a namespace).
    is_reaper: bool,
}

/// What the table did and shed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Entries added.
    pub added: u64,
    /// Entries removed because their thread ended.
    pub ended: u64,
    /// Entries that another description of the same number replaced.
    pub replaced: u64,
    /// Dead entries removed early because the table or its budget was full.
    pub shed_dead: u64,
    /// Idle entries removed because the table or its budget was full.
    pub shed_idle: u64,
    /// Descriptors that were forgotten because one process alone used up the budget.
    pub shed_fds: u64,
    /// Threads that were not added because nothing was left to remove.
    pub refused: u64,
}

/// All threads that are known.
pub struct Threads {
    slots: Vec<Option<Thread>>,
    free: Vec<u32>,
    by_tid: HashMap<i64, u32, RandomState>,
    /// Where threads were found last, by the lower bits of their numbers: a thread that calls will call again.
    recent: Box<[u32; RECENT]>,
    groups: HashMap<i64, Group, RandomState>,
    newest: u32,
    oldest: u32,
    /// Threads that ended and whose entries wait for the next event.
    dead: Vec<i64>,
    shed: HashSet<i64, RandomState>,
    threads_max: usize,
    budget: Budget,
    /// Bytes reserved from the budget.
    reserved: u64,
    /// Bytes that other tables of the state hold of the same budget.
    pub(crate) extra_held: u64,
    /// Counts since the start.
    pub counts: TableCounts,
    /// Strings of all threads.
    pub texts: Texts,
    /// Memory of file descriptors.
    pub fd_pool: FdPool,
}

impl Threads {
    /// An empty table of at most `threads_max` threads whose memory is taken from `budget`.
    pub fn new(threads_max: usize, budget: Budget) -> Threads {
        Threads {
            slots: Vec::new(),
            free: Vec::new(),
            by_tid: HashMap::default(),
            recent: Box::new([NONE; RECENT]),
            groups: HashMap::default(),
            newest: NONE,
            oldest: NONE,
            dead: Vec::new(),
            shed: HashSet::default(),
            threads_max: threads_max.max(1),
            budget,
            reserved: 0,
            extra_held: 0,
            counts: TableCounts::default(),
            texts: Texts::default(),
            fd_pool: FdPool::default(),
        }
    }

    /// How many threads are known.
    pub fn len(&self) -> usize {
        self.by_tid.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.by_tid.is_empty()
    }

    /// Bytes that the table, its strings and file descriptors hold.
    pub fn held(&self) -> u64 {
        (self.by_tid.len() as u64)
            .saturating_mul(THREAD_COST)
            .saturating_add(self.texts.held())
            .saturating_add(self.fd_pool.held())
            .saturating_add(self.extra_held)
    }

    /// Most bytes that may be reserved.
    pub(crate) fn limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Most bytes ever reserved.
    pub fn peak(&self) -> u64 {
        self.budget.peak()
    }

    /// The place of a thread.
    #[inline]
    pub fn find(&self, tid: i64) -> Option<Slot> {
        self.by_tid.get(&tid).map(|slot| Slot(*slot))
    }

    /// The place of a thread that calls, as [`find`](Threads::find); it is remembered for its next call.
    #[inline]
    pub fn find_caller(&mut self, tid: i64) -> Option<Slot> {
        let recent = self.recent.get(tid as usize % RECENT).copied().unwrap_or(NONE);
        if self.at(Slot(recent)).is_some_and(|thread| thread.tid == tid) {
            return Some(Slot(recent));
        }
        let slot = self.find(tid)?;
        if let Some(recent) = self.recent.get_mut(tid as usize % RECENT) {
            *recent = slot.0;
        }
        Some(slot)
    }

    /// A thread by its place; `None` if it has ended since.
    #[inline]
    pub fn at(&self, slot: Slot) -> Option<&Thread> {
        self.slots.get(slot.0 as usize)?.as_ref()
    }

    /// A thread by its place, to change what is not its number or its process.
    #[inline]
    pub fn at_mut(&mut self, slot: Slot) -> Option<&mut Thread> {
        self.slots.get_mut(slot.0 as usize)?.as_mut()
    }

    /// A thread, and what is needed to change its strings and file descriptors.
    #[inline]
    pub fn parts(&mut self, slot: Slot) -> Option<(&mut Thread, &Texts, &mut FdPool)> {
        let thread = self.slots.get_mut(slot.0 as usize)?.as_mut()?;
        Some((thread, &self.texts, &mut self.fd_pool))
    }

    /// A thread by its number.
    #[inline]
    pub fn get(&self, tid: i64) -> Option<&Thread> {
        self.find(tid).and_then(|slot| self.at(slot))
    }

    /// Whether the thread was known and was removed to save memory.
    pub fn is_shed(&self, tid: i64) -> bool {
        self.shed.contains(&tid)
    }

    /// The main thread of a thread's process; the thread itself if it is that one, or if its process is not known.
    #[inline]
    pub fn main_of(&self, slot: Slot) -> Option<Slot> {
        let thread = self.at(slot)?;
        if thread.is_main() || thread.is_unseen() { Some(slot) } else { self.find(thread.pid) }
    }

    /// The same; the place is remembered with the thread, whose process rarely becomes another one.
    #[inline]
    pub fn main_of_caller(&mut self, slot: Slot) -> Option<Slot> {
        let thread = self.at(slot)?;
        if thread.is_main() || thread.is_unseen() {
            return Some(slot);
        }
        let (pid, known) = (thread.pid, Slot(thread.links.main));
        if self.at(known).is_some_and(|main| main.tid == pid) {
            return Some(known);
        }
        let main = self.find(pid)?;
        self.change_links(slot.0, |links| links.main = main.0);
        Some(main)
    }

    /// How many threads of a process run.
    pub fn alive_in(&self, pid: i64) -> u32 {
        self.groups.get(&pid).map_or(0, |group| group.alive)
    }

    /// All threads, in no certain order.
    pub fn iter(&self) -> impl Iterator<Item = &Thread> {
        self.slots.iter().flatten()
    }

    /// Notes that a thread was used.
    #[inline]
    pub fn touch(&mut self, slot: Slot) {
        if self.newest != slot.0 {
            self.unlink_use(slot.0);
            self.link_newest(slot.0);
        }
    }

    /// Adds a thread, or replaces the one of its number. `None` if there is no space and nothing to remove.
    pub fn insert(&mut self, thread: Thread) -> Option<Slot> {
        let (tid, pid, is_dead, is_reaper) =
            (thread.tid, thread.pid, thread.is_dead, thread.is_main() && thread.vpid == 1);
        if let Some(old) = self.find(tid) {
            self.replace(old);
        }
        while self.by_tid.len() >= self.threads_max {
            if !self.shed_one(None) {
                self.counts.refused = self.counts.refused.saturating_add(1);
                return None;
            }
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(None);
                u32::try_from(self.slots.len() - 1).ok().filter(|slot| *slot != NONE)?
            }
        };
        let mut thread = thread;
        thread.links = Links::default();
        *self.slots.get_mut(slot as usize)? = Some(thread);
        self.by_tid.insert(tid, slot);
        self.shed.remove(&tid);
        self.link_newest(slot);
        let group =
            self.groups.entry(pid).or_insert(Group { first: NONE, alive: 0, is_reaper: false });
        group.is_reaper |= is_reaper;
        group.alive = group.alive.saturating_add(u32::from(!is_dead));
        let first = std::mem::replace(&mut group.first, slot);
        self.change_links(slot, |links| links.next_member = first);
        self.change_links(first, |links| links.previous_member = slot);
        self.counts.added = self.counts.added.saturating_add(1);
        Some(Slot(slot))
    }

    /// Removes all threads.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
        self.by_tid.clear();
        self.groups.clear();
        self.newest = NONE;
        self.oldest = NONE;
        self.dead.clear();
        self.shed.clear();
        self.settle(None);
    }

    /// Makes a thread the child of its parent, if that one is known; else it has no parent.
    pub fn link_parent(&mut self, slot: Slot) {
        let Some(ptid) = self.at(slot).map(|thread| thread.ptid) else { return };
        let parent = self
            .find(ptid)
            .filter(|parent| *parent != slot && self.at(*parent).is_some_and(|p| !p.is_unseen()));
        match parent {
            Some(parent) => self.adopt(slot.0, parent.0),
            None => {
                if let Some(thread) = self.at_mut(slot) {
                    thread.ptid = 0;
                }
            }
        }
    }

    /// Makes the process of this thread one that orphans below it belong to, or no longer.
    pub fn set_reaper(&mut self, pid: i64, is_reaper: bool) {
        if let Some(group) = self.groups.get_mut(&pid) {
            group.is_reaper = is_reaper;
        }
    }

    /// Marks a thread as ended. Its children get another parent; its entry is removed at the next event.
    ///
    /// Without the number of a reaper it is looked for; where events were lost, it may be another one by then, and the
    /// children have a parent that is not known.
    pub fn end(&mut self, slot: Slot, reaper_tid: Option<i64>, is_any_lost: bool) {
        let Some(thread) = self.at(slot).filter(|thread| !thread.is_dead) else { return };
        let (tid, pid) = (thread.tid, thread.pid);
        let reaper = reaper_tid
            .filter(|tid| *tid > 0)
            .and_then(|tid| self.find(tid))
            .filter(|reaper| *reaper != slot)
            .or_else(|| if is_any_lost { None } else { self.find_reaper(slot) });
        if let Some(thread) = self.at_mut(slot) {
            thread.is_dead = true;
        }
        if let Some(group) = self.groups.get_mut(&pid) {
            group.alive = group.alive.saturating_sub(1);
        }
        if is_any_lost && reaper.is_none() {
            let mut child = self.links(slot.0).first_child;
            while let Some(thread) = self.at_mut(Slot(child)) {
                thread.ptid = LOST_PARENT;
                child = thread.links.next_sibling;
            }
        }
        self.give_children(slot.0, reaper);
        self.dead.push(tid);
    }

    /// Marks all threads of a process as doubtful: one of them did what was not seen.
    pub fn doubt_process(&mut self, slot: Slot) {
        let Some(pid) = self.at(slot).map(|thread| thread.pid) else { return };
        let mut member = self.groups.get(&pid).map_or(NONE, |group| group.first);
        while let Some(thread) = self.at_mut(Slot(member)) {
            thread.is_doubtful = true;
            thread.is_rest_doubtful = true;
            thread.fds.clear();
            member = thread.links.next_member;
        }
    }

    /// Marks the other threads of a process as ended: one of them executed a program.
    pub fn end_others(&mut self, slot: Slot) {
        let Some(pid) = self.at(slot).map(|thread| thread.pid) else { return };
        let mut member = self.groups.get(&pid).map_or(NONE, |group| group.first);
        while let Some(thread) = self.at(Slot(member)) {
            let next = thread.links.next_member;
            if member != slot.0 && !thread.is_dead && !thread.is_main() {
                let reaper = self.at(slot).map(|thread| thread.tid);
                self.end(Slot(member), reaper, false);
            }
            member = next;
        }
    }

    /// Removes the entries of threads that ended. Main threads stay while others of their process run.
    pub fn remove_dead(&mut self) {
        if self.dead.is_empty() {
            return;
        }
        let mut dead = std::mem::take(&mut self.dead);
        for tid in dead.drain(..) {
            let Some(slot) = self.find(tid) else { continue };
            let Some((pid, is_main)) =
                self.at(slot).filter(|t| t.is_dead).map(|t| (t.pid, t.is_main()))
            else {
                continue;
            };
            if is_main && self.alive_in(pid) > 0 {
                continue;
            }
            self.remove(slot);
            self.counts.ended = self.counts.ended.saturating_add(1);
            // The last other thread ended: the main thread's entry was kept for it.
            if !is_main
                && self.alive_in(pid) == 0
                && let Some(main) = self.find(pid)
                && self.at(main).is_some_and(|thread| thread.is_dead)
            {
                self.remove(main);
                self.counts.ended = self.counts.ended.saturating_add(1);
            }
        }
        self.dead = dead;
    }

    /// Takes from the budget what the state has grown by; sheds threads until it fits. `kept` stays.
    pub fn settle(&mut self, kept: Option<Slot>) {
        loop {
            let held = self.held();
            if held == self.reserved || self.budget.try_resize(self.reserved, held) {
                self.reserved = held;
                return;
            }
            if !self.shed_one(kept) && !self.shed_fds(kept) {
                return;
            }
        }
    }

    /// Forgets the descriptors of the only thread that is left: one process may open more than the budget holds.
    fn shed_fds(&mut self, kept: Option<Slot>) -> bool {
        let Some(thread) = kept.and_then(|slot| self.at_mut(slot)) else { return false };
        let count = thread.fds.len() as u64;
        thread.fds.clear();
        thread.is_rest_doubtful |= count > 0;
        self.fd_pool.clear();
        self.counts.shed_fds = self.counts.shed_fds.saturating_add(count);
        count > 0
    }

    /// Removes the entry that is missed least: a dead one, else the one idle longest.
    fn shed_one(&mut self, kept: Option<Slot>) -> bool {
        while let Some(tid) = self.dead.pop() {
            if let Some(slot) = self.find(tid).filter(|slot| {
                kept != Some(*slot) && self.at(*slot).is_some_and(|thread| thread.is_dead)
            }) {
                self.remove(slot);
                self.counts.shed_dead = self.counts.shed_dead.saturating_add(1);
                return true;
            }
        }
        let mut victim = self.oldest;
        if kept == Some(Slot(victim)) {
            victim = self.at(Slot(victim)).map_or(NONE, |thread| thread.links.newer);
        }
        let Some((tid, is_dead)) = self.at(Slot(victim)).map(|t| (t.tid, t.is_dead)) else {
            return false;
        };
        self.remove(Slot(victim));
        if is_dead {
            self.counts.shed_dead = self.counts.shed_dead.saturating_add(1);
        } else {
            self.counts.shed_idle = self.counts.shed_idle.saturating_add(1);
        }
        if self.shed.len() >= SHED_TIDS_KEPT {
            self.shed.clear();
        }
        self.shed.insert(tid);
        true
    }

    /// Removes an entry for another one of its number.
    pub fn replace(&mut self, slot: Slot) {
        self.remove(slot);
        self.counts.replaced = self.counts.replaced.saturating_add(1);
    }

    /// Removes an entry and all links to it. Children that it still has lose their parent.
    pub fn remove(&mut self, slot: Slot) {
        self.give_children(slot.0, None);
        self.unlink_use(slot.0);
        self.leave_parent(slot.0);
        self.leave_group(slot.0);
        let Some(thread) = self.slots.get_mut(slot.0 as usize).and_then(Option::take) else {
            return;
        };
        self.by_tid.remove(&thread.tid);
        self.free.push(slot.0);
    }

    /// Changes a thread's process and parent, with its place in groups and among children.
    pub fn move_to(&mut self, slot: Slot, pid: i64, ptid: i64) {
        let Some((old_pid, old_ptid)) = self.at(slot).map(|t| (t.pid, t.ptid)) else { return };
        if old_pid != pid {
            let is_dead = self.at(slot).is_some_and(|thread| thread.is_dead);
            self.leave_group(slot.0);
            let group =
                self.groups.entry(pid).or_insert(Group { first: NONE, alive: 0, is_reaper: false });
            group.alive = group.alive.saturating_add(u32::from(!is_dead));
            let first = std::mem::replace(&mut group.first, slot.0);
            self.change_links(slot.0, |links| links.next_member = first);
            self.change_links(first, |links| links.previous_member = slot.0);
            if let Some(thread) = self.at_mut(slot) {
                thread.pid = pid;
            }
        }
        if old_ptid != ptid {
            self.leave_parent(slot.0);
            if let Some(thread) = self.at_mut(slot) {
                thread.ptid = ptid;
            }
            self.link_parent(slot);
        }
    }

    /// The process that orphans of this thread belong to: another running thread of its process, else the nearest
    /// ancestor that is a reaper, else process 1.
    fn find_reaper(&self, slot: Slot) -> Option<Slot> {
        let thread = self.at(slot)?;
        let mut member = self.groups.get(&thread.pid).map_or(NONE, |group| group.first);
        while let Some(other) = self.at(Slot(member)) {
            if member != slot.0 && !other.is_dead {
                return Some(Slot(member));
            }
            member = other.links.next_member;
        }
        let mut at = thread.ptid;
        for _ in 0..crate::limits::ANCESTORS_MAX {
            let Some(ancestor) = self.find(at) else { break };
            let Some(thread) = self.at(ancestor) else { break };
            let is_reaper = self.groups.get(&thread.pid).is_some_and(|group| group.is_reaper);
            if is_reaper && !thread.is_dead {
                return Some(ancestor);
            }
            at = thread.ptid;
        }
        self.find(1).filter(|init| *init != slot)
    }

    fn change_links(&mut self, slot: u32, change: impl FnOnce(&mut Links)) {
        if let Some(thread) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) {
            change(&mut thread.links);
        }
    }

    fn links(&self, slot: u32) -> Links {
        let thread = self.slots.get(slot as usize).and_then(Option::as_ref);
        thread.map_or_else(Links::default, |thread| thread.links)
    }

    fn link_newest(&mut self, slot: u32) {
        let newest = std::mem::replace(&mut self.newest, slot);
        self.change_links(slot, |links| {
            links.older = newest;
            links.newer = NONE;
        });
        self.change_links(newest, |links| links.newer = slot);
        if self.oldest == NONE {
            self.oldest = slot;
        }
    }

    fn unlink_use(&mut self, slot: u32) {
        let Links { newer, older, .. } = self.links(slot);
        self.change_links(newer, |links| links.older = older);
        self.change_links(older, |links| links.newer = newer);
        if self.newest == slot {
            self.newest = older;
        }
        if self.oldest == slot {
            self.oldest = newer;
        }
    }

    fn leave_group(&mut self, slot: u32) {
        let Some((pid, is_dead)) = self.at(Slot(slot)).map(|t| (t.pid, t.is_dead)) else { return };
        let Links { next_member, previous_member, .. } = self.links(slot);
        self.change_links(next_member, |links| links.previous_member = previous_member);
        self.change_links(previous_member, |links| links.next_member = next_member);
        self.change_links(slot, |links| {
            links.next_member = NONE;
            links.previous_member = NONE;
        });
        let Some(group) = self.groups.get_mut(&pid) else { return };
        group.alive = group.alive.saturating_sub(u32::from(!is_dead));
        if group.first == slot {
            group.first = next_member;
        }
        if group.first == NONE {
            self.groups.remove(&pid);
        }
    }

    fn adopt(&mut self, child: u32, parent: u32) {
        self.leave_parent(child);
        let first = self.links(parent).first_child;
        self.change_links(child, |links| {
            links.parent = parent;
            links.next_sibling = first;
        });
        self.change_links(first, |links| links.previous_sibling = child);
        self.change_links(parent, |links| links.first_child = child);
    }

    fn leave_parent(&mut self, child: u32) {
        let Links { parent, next_sibling, previous_sibling, .. } = self.links(child);
        self.change_links(next_sibling, |links| links.previous_sibling = previous_sibling);
        self.change_links(previous_sibling, |links| links.next_sibling = next_sibling);
        if previous_sibling == NONE {
            self.change_links(parent, |links| {
                if links.first_child == child {
                    links.first_child = next_sibling;
                }
            });
        }
        self.change_links(child, |links| {
            links.parent = NONE;
            links.next_sibling = NONE;
            links.previous_sibling = NONE;
        });
    }

    /// Gives all children of a thread to another. Without one they keep the number of their parent, whose entry is
    /// gone or may come back.
    fn give_children(&mut self, from: u32, to: Option<Slot>) {
        let to_tid = to.and_then(|slot| self.at(slot)).map(|thread| thread.tid);
        loop {
            let child = self.links(from).first_child;
            if child == NONE {
                return;
            }
            self.leave_parent(child);
            if let (Some(to), Some(tid)) = (to, to_tid)
                && child != to.0
            {
                if let Some(thread) = self.at_mut(Slot(child)) {
                    thread.ptid = tid;
                }
                self.adopt(child, to.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::Origin;

    fn table(threads_max: usize, bytes: u64) -> Threads {
        Threads::new(threads_max, Budget::standalone("threads", bytes))
    }

    fn add(threads: &mut Threads, tid: i64, pid: i64, ptid: i64) -> Slot {
        let thread = Thread { tid, pid, ptid, vpid: 5, origin: Origin::Event, ..Thread::default() };
        let slot = threads.insert(thread).unwrap();
        threads.link_parent(slot);
        slot
    }

    #[test]
    fn orphans_go_to_a_thread_of_the_process_then_to_a_reaper_then_to_process_1() {
        let mut threads = table(100, 1 << 20);
        let init = add(&mut threads, 1, 1, 0);
        threads.set_reaper(1, true);
        add(&mut threads, 10, 10, 1);
        threads.set_reaper(10, true);
        let shell = add(&mut threads, 20, 20, 10);
        let second = add(&mut threads, 21, 20, 10);
        add(&mut threads, 30, 30, 20);
        threads.end(shell, None, false);
        assert_eq!(threads.get(30).unwrap().ptid, 21);
        threads.remove_dead();
        assert!(threads.get(20).is_some(), "a main thread stays while others of it run");
        threads.end(second, None, false);
        assert_eq!(threads.get(30).unwrap().ptid, 10);
        threads.remove_dead();
        assert!(threads.get(20).is_none() && threads.get(21).is_none());
        threads.end(threads.find(10).unwrap(), None, false);
        assert_eq!(threads.get(30).unwrap().ptid, 1);
        let named = add(&mut threads, 40, 40, 1);
        threads.end(threads.find(30).unwrap(), Some(40), false);
        threads.remove_dead();
        assert_eq!(threads.counts.ended, 4);
        threads.remove(named);
        threads.remove(init);
        assert!(threads.is_empty() && threads.groups.is_empty());
        assert_eq!((threads.newest, threads.oldest), (NONE, NONE));
    }

    #[test]
    fn a_full_table_removes_the_dead_first_and_then_the_longest_idle() {
        let mut threads = table(3, 1 << 20);
        let first = add(&mut threads, 1, 1, 0);
        add(&mut threads, 2, 2, 1);
        let third = add(&mut threads, 3, 3, 1);
        threads.end(third, None, false);
        add(&mut threads, 4, 4, 1);
        assert!(threads.get(3).is_none() && threads.counts.shed_dead == 1);
        threads.touch(first);
        add(&mut threads, 5, 5, 1);
        assert!(threads.get(2).is_none() && threads.get(1).is_some() && threads.is_shed(2));
        assert_eq!((threads.counts.shed_idle, threads.len()), (1, 3));
        add(&mut threads, 2, 2, 1);
        assert!(!threads.is_shed(2), "a thread that is known again is not shed");
    }

    #[test]
    fn the_budget_bounds_the_bytes_and_nothing_stays_reserved() {
        let mut threads = table(1_000, 64 * 1024);
        for tid in 1..=500 {
            let slot = add(&mut threads, tid, tid, 0);
            let comm = threads.texts.make(&[b'x'; 100]);
            threads.at_mut(slot).unwrap().comm = comm;
            threads.settle(Some(slot));
            assert!(threads.held() <= 64 * 1024);
            assert!(threads.get(tid).is_some());
        }
        assert!(threads.counts.shed_idle > 0);
        assert_eq!(threads.counts.added, 500);
        assert_eq!(threads.len() as u64 + threads.counts.shed_idle, 500);
    }
}

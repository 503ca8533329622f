//! Enter events that wait for the exit event of their thread: at most one for each thread, in bounded space that is
//! reused. When there is no more space, the thread at the hand of a clock loses its event, which is counted.

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::event::Values;
use crate::limits;
use crate::made::Made;
use crate::table::EventType;

/// The place of a thread, whose event waits or not.
#[derive(Debug)]
struct Slot {
    tid: i64,
    /// None if no event waits.
    kind: Option<&'static EventType>,
    /// Whether the event is counted here: one that waits in two tables is counted in one of them.
    is_counted: bool,
    /// It is in the list of places that other threads may take.
    is_listed: bool,
    lengths_len: usize,
    /// The lengths, then the parameters.
    data: Vec<u8>,
}

/// See the opening of this file. A thread keeps its place, since it will need it again soon; others take it when there
/// are no new ones.
#[derive(Debug)]
pub(crate) struct Waiting {
    by_tid: HashMap<i64, usize, FixedState>,
    slots: Vec<Slot>,
    /// Places without an event, and some that have one again.
    free: Vec<usize>,
    /// Where threads were found last, by the lower bits of their numbers: a thread that calls will call again.
    recent: Box<[u32; RECENT]>,
    hand: usize,
    bytes: usize,
    /// How many events wait.
    len: usize,
    counted: u64,
}

/// Places of threads that are remembered: more than threads that run at the same time.
const RECENT: usize = 1024;

/// What left the table, if it is counted there: 1 or 0 events.
pub(crate) type Left = u64;

impl Waiting {
    pub(crate) fn new() -> Waiting {
        Waiting {
            by_tid: HashMap::with_hasher(FixedState::default()),
            slots: Vec::new(),
            free: Vec::new(),
            recent: Box::new([u32::MAX; RECENT]),
            hand: 0,
            bytes: 0,
            len: 0,
            counted: 0,
        }
    }

    /// The number of events that wait and are counted here.
    #[inline]
    pub(crate) const fn counted(&self) -> u64 {
        self.counted
    }

    /// The type of the event that waits for this thread.
    #[inline]
    pub(crate) fn kind(&mut self, tid: i64) -> Option<&'static EventType> {
        if self.len == 0 {
            return None;
        }
        let place = self.find(tid)?;
        self.slots.get(place)?.kind
    }

    /// The place of a thread.
    #[inline]
    fn find(&mut self, tid: i64) -> Option<usize> {
        let recent = self.recent.get_mut(tid as usize % RECENT)?;
        if self.slots.get(*recent as usize).is_some_and(|slot| slot.tid == tid) {
            return Some(*recent as usize);
        }
        let place = *self.by_tid.get(&tid)?;
        *recent = place as u32;
        Some(place)
    }

    /// The event that waits for this thread.
    #[inline]
    pub(crate) fn get(&mut self, tid: i64) -> Option<Values<'_>> {
        let place = self.find(tid)?;
        let slot = self.slots.get(place)?;
        let (lengths, bytes) = slot.data.split_at_checked(slot.lengths_len)?;
        Some(Values::new(slot.kind?, lengths, bytes))
    }

    /// The event that waits for this thread, with its place, if it is of this type.
    #[inline]
    pub(crate) fn of_type(&mut self, tid: i64, number: u16) -> Option<(usize, Values<'_>)> {
        if self.len == 0 {
            return None;
        }
        let place = self.find(tid)?;
        let slot = self.slots.get(place)?;
        let kind = slot.kind.filter(|kind| kind.number == number)?;
        let (lengths, bytes) = slot.data.split_at_checked(slot.lengths_len)?;
        Some((place, Values::new(kind, lengths, bytes)))
    }

    /// Lets an event wait. Returns whether an earlier event of the thread was replaced, and how many others had to
    /// leave for lack of space.
    pub(crate) fn put(&mut self, tid: i64, values: &Values<'_>, is_counted: bool) -> (Left, Left) {
        let (place, replaced) = match self.find(tid) {
            Some(place) => (Some(place), self.release(place)),
            None => (None, 0),
        };
        let mut evicted = 0;
        let len = values.lengths().len() + values.bytes().len();
        while self.len >= limits::WAITING_MAX
            || (self.bytes + len > limits::WAITING_BYTES_MAX && self.len > 0)
        {
            evicted += self.evict();
        }
        let place = place.unwrap_or_else(|| self.make_place(tid));
        let Some(slot) = self.slots.get_mut(place) else { return (replaced, evicted) };
        (slot.kind, slot.is_counted) = (Some(values.kind()), is_counted);
        slot.lengths_len = values.lengths().len();
        slot.data.clear();
        slot.data.extend_from_slice(values.lengths());
        slot.data.extend_from_slice(values.bytes());
        self.bytes += len;
        self.len += 1;
        self.counted += u64::from(is_counted);
        (replaced, evicted)
    }

    /// A place for a thread that has none.
    fn make_place(&mut self, tid: i64) -> usize {
        let place =
            if self.slots.len() < limits::SPARE_BUFFERS_MAX { None } else { self.take_free() };
        let place = match place.and_then(|place| Some((place, self.slots.get_mut(place)?))) {
            Some((place, slot)) => {
                self.by_tid.remove(&slot.tid);
                slot.tid = tid;
                place
            }
            None => {
                self.slots.push(Slot {
                    tid,
                    kind: None,
                    is_counted: false,
                    is_listed: false,
                    lengths_len: 0,
                    data: Vec::new(),
                });
                self.slots.len() - 1
            }
        };
        self.by_tid.insert(tid, place);
        place
    }

    /// A place without an event, which its thread loses.
    fn take_free(&mut self) -> Option<usize> {
        while let Some(place) = self.free.pop() {
            let Some(slot) = self.slots.get_mut(place) else { continue };
            slot.is_listed = false;
            if slot.kind.is_none() {
                return Some(place);
            }
        }
        None
    }

    /// Removes the event of a thread.
    #[inline]
    pub(crate) fn remove(&mut self, tid: i64) -> Left {
        if self.len == 0 {
            return 0;
        }
        self.find(tid).map_or(0, |place| self.release(place))
    }

    /// Removes the event of a thread and copies it.
    pub(crate) fn take_thread(&mut self, tid: i64, to: &mut Made) -> Left {
        if let Some(values) = self.get(tid) {
            to.copy(&values);
        }
        self.remove(tid)
    }

    /// Removes all events.
    pub(crate) fn clear(&mut self) -> Left {
        let counted = self.counted;
        *self = Waiting::new();
        counted
    }

    /// Bytes of memory of the table and its buffers.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        let buffers: usize = self.slots.iter().map(|slot| slot.data.capacity()).sum();
        buffers + self.slots.capacity() + self.free.capacity() + self.by_tid.capacity()
    }

    fn evict(&mut self) -> Left {
        limits::reached::WAITING_MAX.count();
        for _ in 0..self.slots.len() {
            self.hand = if self.hand + 1 < self.slots.len() { self.hand + 1 } else { 0 };
            if self.slots.get(self.hand).is_some_and(|slot| slot.kind.is_some()) {
                return self.release(self.hand);
            }
        }
        0
    }

    /// Removes the event of a place, if there is one.
    #[inline]
    pub(crate) fn release(&mut self, place: usize) -> Left {
        let is_spare = self.slots.len() - self.len < limits::SPARE_BUFFERS_MAX;
        let Some(slot) = self.slots.get_mut(place).filter(|slot| slot.kind.is_some()) else {
            return 0;
        };
        self.bytes = self.bytes.saturating_sub(slot.data.len());
        self.len -= 1;
        slot.kind = None;
        if !is_spare || slot.data.capacity() > limits::SPARE_BUFFER_LEN_MAX {
            slot.data = Vec::new();
        }
        let counted = u64::from(slot.is_counted);
        self.counted -= counted;
        if !slot.is_listed {
            slot.is_listed = true;
            self.free.push(place);
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{event_type, types};

    #[test]
    fn a_full_table_loses_one_event_for_each_new_one_and_counts_it() {
        let kind = event_type(types::CLOSE_E).unwrap();
        let values = Values::new(kind, &[1, 0], &[7]);
        let mut waiting = Waiting::new();
        let _ = gabion_record::limits::take_reached();
        for tid in 0..limits::WAITING_MAX as i64 {
            assert_eq!(waiting.put(tid, &values, true), (0, 0));
        }
        assert_eq!(waiting.put(-1, &values, true), (0, 1));
        assert_eq!(waiting.put(-1, &values, true), (1, 0), "the thread's own event is replaced");
        assert_eq!(waiting.counted(), limits::WAITING_MAX as u64);
        let reached = gabion_record::limits::take_reached();
        assert_eq!(reached.times_reached(&limits::reached::WAITING_MAX), 1);
        assert_eq!(waiting.get(-1).unwrap().raw(0), Some(&[7][..]));
        assert_eq!(waiting.clear(), limits::WAITING_MAX as u64);
        assert_eq!(waiting.kind(5).map(|k| k.number), None);
    }

    #[test]
    fn large_events_leave_room_for_no_more_than_the_bound() {
        let kind = event_type(types::WRITE_X).unwrap();
        let bytes = vec![1; 60_000];
        let values = Values::new(kind, &[0x60, 0xea], &bytes);
        let mut waiting = Waiting::new();
        let mut evicted = 0;
        for tid in 0..1000 {
            evicted += waiting.put(tid, &values, true).1;
        }
        assert!(evicted > 0 && waiting.bytes <= limits::WAITING_BYTES_MAX);
        assert_eq!(waiting.counted() + evicted, 1000);
    }
}

//! Puts the records of several rings into the order of time.
//!
//! Records of a ring are nearly in order: two CPUs that share it take the time before they write. They are taken from
//! all rings, and those before the *horizon* leave, the oldest first, by a heap with one entry for each ring. No ring can
//! have a record from before the horizon any more: it is some time before the moment at which the reading began. A record
//! that a program in the kernel wrote later than that is passed on at once and counted as late.
//!
//! There is no clock and no ring in here, so that made rings show the order and its cost.

use crate::limits::HELD_BYTES_PER_RING;

/// A record that waits: its time, its place and its length in the bytes of its ring.
type Waiting = (u64, u32, u32);

/// The records of one ring that were taken from it and did not leave yet.
#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    order: Vec<Waiting>,
    /// The first of `order` that did not leave.
    next: usize,
    /// Whether a record came that is older than the one before it.
    is_unsorted: bool,
}

impl Queue {
    fn time(&self) -> Option<u64> {
        self.order.get(self.next).map(|(ts, ..)| *ts)
    }

    /// Forgets what has left.
    fn compact(&mut self) {
        if self.next == self.order.len() {
            self.order.clear();
            self.bytes.clear();
        } else if self.next > 0 {
            self.order.drain(..self.next);
            let start = self.order.iter().map(|(_, at, _)| *at).min().unwrap_or(0);
            self.bytes.drain(..(start as usize).min(self.bytes.len()));
            self.order.iter_mut().for_each(|(_, at, _)| *at -= start);
        }
        self.next = 0;
    }
}

/// See the opening of this file.
pub(crate) struct Order {
    queues: Vec<Queue>,
    /// The time of the next record of each ring that has one, with the ring; the oldest is first.
    heap: Vec<(u64, u32)>,
    /// The time of the last record that left.
    last_ts: u64,
    late: u64,
    steps: u64,
}

impl Order {
    /// For a number of rings.
    pub(crate) fn new(rings: usize) -> Self {
        Self {
            queues: (0..rings).map(|_| Queue::default()).collect(),
            heap: Vec::with_capacity(rings),
            last_ts: 0,
            late: 0,
            steps: 0,
        }
    }

    /// Whether a ring's space has capacity for another record of this length.
    pub(crate) fn has_space(&self, ring: usize) -> bool {
        self.held_by(ring) < HELD_BYTES_PER_RING
    }

    /// Bytes of records of a ring that wait; the most there can be, if there is no such ring.
    pub(crate) fn held_by(&self, ring: usize) -> usize {
        self.queues.get(ring).map_or(usize::MAX, |queue| queue.bytes.len())
    }

    /// Takes a record of a ring.
    pub(crate) fn push(&mut self, ring: usize, ts: u64, record: &[u8]) {
        let Some(queue) = self.queues.get_mut(ring) else { return };
        let (Ok(at), Ok(length)) = (u32::try_from(queue.bytes.len()), u32::try_from(record.len()))
        else {
            return;
        };
        self.steps += 1;
        queue.bytes.extend_from_slice(record);
        queue.is_unsorted |= queue.order.last().is_some_and(|(last, ..)| *last > ts);
        queue.order.push((ts, at, length));
    }

    /// How many records have not left yet.
    pub(crate) fn held(&self) -> usize {
        self.queues.iter().map(|queue| queue.order.len() - queue.next).sum()
    }

    /// Records that came later than the horizon allowed.
    pub(crate) const fn late(&self) -> u64 {
        self.late
    }

    /// Records taken, records given and comparisons of the heap.
    #[cfg(test)]
    pub(crate) const fn steps(&self) -> u64 {
        self.steps
    }

    /// Gives all records up to the horizon to `sink`, in the order of time. Returns how many there were.
    pub(crate) fn release(&mut self, horizon: u64, sink: &mut dyn FnMut(&[u8])) -> usize {
        self.heap.clear();
        for (ring, queue) in self.queues.iter_mut().enumerate() {
            if queue.is_unsorted {
                queue.order.sort_by_key(|(ts, ..)| *ts);
                queue.is_unsorted = false;
            }
            if let (Some(ts), Ok(ring)) = (queue.time(), u32::try_from(ring)) {
                self.heap.push((ts, ring));
            }
        }
        for at in (0..self.heap.len() / 2).rev() {
            self.sift_down(at);
        }
        let mut given = 0;
        while let Some((ts, ring)) = self.heap.first().copied().filter(|(ts, _)| *ts <= horizon) {
            // The ring with the oldest record gives records for as long as it has the oldest.
            let second = self.second();
            let Some(queue) = self.queues.get_mut(ring as usize) else { break };
            let mut time = Some(ts);
            while let Some(ts) = time.filter(|ts| *ts <= horizon && *ts <= second) {
                let Some((_, at, length)) = queue.order.get(queue.next).copied() else { break };
                let (at, length) = (at as usize, length as usize);
                self.late += u64::from(ts < self.last_ts);
                self.last_ts = self.last_ts.max(ts);
                sink(queue.bytes.get(at..at + length).unwrap_or_default());
                queue.next += 1;
                given += 1;
                self.steps += 2;
                time = queue.time();
            }
            match time {
                Some(ts) => {
                    if let Some(first) = self.heap.first_mut() {
                        *first = (ts, ring);
                    }
                }
                None => {
                    self.heap.swap_remove(0);
                }
            }
            self.sift_down(0);
        }
        self.queues.iter_mut().for_each(Queue::compact);
        given
    }

    /// The time of the oldest record of all rings but the first of the heap.
    fn second(&self) -> u64 {
        let time = |at: usize| self.heap.get(at).map_or(u64::MAX, |(ts, _)| *ts);
        time(1).min(time(2))
    }

    /// Moves an entry of the heap down to its place: first to the end of the path of smaller entries, then up again. An
    /// entry that comes back is usually among the youngest, so that this takes one comparison for each level.
    fn sift_down(&mut self, top: usize) {
        let len = self.heap.len();
        let mut at = top;
        while 2 * at + 1 < len {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            self.steps += 1;
            let child =
                if right < len && self.heap[right] < self.heap[left] { right } else { left };
            self.heap.swap(at, child);
            at = child;
        }
        while at > top {
            let above = (at - 1) / 2;
            self.steps += 1;
            if self.heap[above] <= self.heap[at] {
                break;
            }
            self.heap.swap(at, above);
            at = above;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random, the same in each run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }
    }

    fn record(ts: u64) -> [u8; 8] {
        ts.to_le_bytes()
    }

    fn taken(order: &mut Order, horizon: u64) -> Vec<u64> {
        let mut times = Vec::new();
        order.release(horizon, &mut |record| {
            times.push(record.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)));
        });
        times
    }

    #[test]
    fn records_leave_in_the_order_of_time_and_not_before_the_horizon() {
        let mut order = Order::new(3);
        for (ring, times) in [(0, [1, 4, 9]), (1, [2, 3, 5]), (2, [7, 6, 8])] {
            times.iter().for_each(|ts| order.push(ring, *ts, &record(*ts)));
        }
        assert_eq!(taken(&mut order, 5), [1, 2, 3, 4, 5]);
        assert_eq!((order.held(), order.late()), (4, 0));
        order.push(1, 10, &record(10));
        assert_eq!(taken(&mut order, 9), [6, 7, 8, 9]);
        order.push(0, 8, &record(8));
        assert_eq!(taken(&mut order, u64::MAX), [8, 10]);
        assert_eq!((order.held(), order.late()), (0, 1), "a record from before the horizon");
        order.push(99, 1, &record(1));
        assert_eq!(taken(&mut order, u64::MAX), []);
    }

    /// Rings in any number and records in any order within a bound leave as one sort of all would have them.
    #[test]
    fn any_rings_leave_as_one_sort_would_have_them() {
        let mut random = Random(7);
        for rings in [1, 2, 3, 17, 128] {
            let mut order = Order::new(rings);
            let (mut all, mut got, mut now) = (Vec::new(), Vec::new(), 1_000);
            for _ in 0..50 {
                for _ in 0..random.below(200) {
                    now += random.below(3);
                    let ts = now - random.below(20);
                    all.push(ts);
                    let ring = random.below(rings as u64) as usize;
                    order.push(ring, ts, &record(ts));
                }
                got.extend(taken(&mut order, now.saturating_sub(40)));
            }
            got.extend(taken(&mut order, u64::MAX));
            all.sort_unstable();
            assert_eq!((got, order.late()), (all, 0), "{rings} rings");
        }
    }

    /// Comparisons of the heap for each event with 128 rings: a path of seven levels and back.
    #[test]
    fn the_heap_compares_as_often_as_it_has_levels() {
        const RINGS: u64 = 128;
        let (mut order, mut random) = (Order::new(RINGS as usize), Random(3));
        let (mut now, mut events) = (0, 0_u64);
        for _ in 0..100 {
            for _ in 0..1_000 {
                now += 1 + random.below(100);
                order.push(random.below(RINGS) as usize, now, &record(now));
                events += 1;
            }
            order.release(now, &mut |_| {});
        }
        let comparisons = (order.steps() - 3 * events) as f64 / events as f64;
        assert!(comparisons <= 10.0, "{comparisons:.1} comparisons for each event");
    }
}

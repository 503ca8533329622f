//! A queue in which no source pushes out another's messages: each source has its own line, lines take
//! turns by bytes (deficit round robin), and when the whole is full the newest of the longest line goes.
//!
//! One flooding address then loses its own messages and nobody else's. The number of lines is bounded:
//! sources beyond it (forged addresses cost nothing) share one line, which is as long as they make it.
//!
//! While the queue is full, lines stand in order of their length, so that the longest is found without a look at
//! all; once half of it is free the order is dropped, and as long as there is space it costs nothing.

use crate::limits::{QUEUE_QUANTUM, QUEUE_SOURCES_MAX};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

#[derive(Debug)]
struct Line<K, T> {
    /// `None` for the line that many share.
    key: Option<K>,
    items: VecDeque<(K, usize, T)>,
    bytes: usize,
    deficit: usize,
    /// It stands among those that take turns: one that was emptied for want of room still does.
    has_turn: bool,
}

/// The queue. `K` is the key of a source.
#[derive(Debug)]
pub struct FairQueue<K, T> {
    lines: Vec<Line<K, T>>,
    /// Lines without items, to be used again.
    idle: Vec<usize>,
    places: HashMap<K, usize>,
    shared: Option<usize>,
    turn: VecDeque<usize>,
    /// Bytes and place of each line that has some, while the queue is full.
    by_length: Option<BTreeSet<(usize, usize)>>,
    /// Lines that were looked at to find the longest.
    looks: u64,
    bytes: usize,
    items: usize,
    bytes_max: usize,
}

impl<K: Hash + Eq + Clone, T> FairQueue<K, T> {
    /// Holds at most this many bytes.
    pub fn new(bytes_max: usize) -> FairQueue<K, T> {
        FairQueue {
            lines: Vec::new(),
            idle: Vec::new(),
            places: HashMap::new(),
            shared: None,
            turn: VecDeque::new(),
            by_length: None,
            looks: 0,
            bytes: 0,
            items: 0,
            bytes_max,
        }
    }

    /// Items held.
    pub const fn len(&self) -> usize {
        self.items
    }

    /// Whether nothing is held.
    pub const fn is_empty(&self) -> bool {
        self.items == 0
    }

    /// Bytes held.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether an item of this size would push out nothing.
    pub const fn has_room(&self, bytes: usize) -> bool {
        self.items == 0 || self.bytes.saturating_add(bytes) <= self.bytes_max
    }

    /// Puts an item at the end of its source's line. Each item that must go for it (it may be this
    /// one) is handed to `shed` with its source and size.
    pub fn push(&mut self, key: K, bytes: usize, item: T, shed: &mut impl FnMut(K, usize, T)) {
        let place = self.place(&key);
        let line = &mut self.lines[place];
        if !line.has_turn {
            line.has_turn = true;
            self.turn.push_back(place);
        }
        line.items.push_back((key, bytes, item));
        self.weigh(place, bytes, true);
        self.items += 1;
        while self.bytes > self.bytes_max && self.items > 1 {
            let longest = self.longest();
            let Some((key, bytes, item)) = self.lines[longest].items.pop_back() else { return };
            self.weigh(longest, bytes, false);
            self.items -= 1;
            if self.lines[longest].items.is_empty() {
                self.retire(longest);
            }
            shed(key, bytes, item);
        }
    }

    /// The place of the longest line; of several the one that was made last.
    fn longest(&mut self) -> usize {
        let (lines, turn, looks) = (&self.lines, &self.turn, &mut self.looks);
        *looks += 1;
        let by_length = self.by_length.get_or_insert_with(|| {
            *looks += turn.len() as u64;
            let waiting = turn.iter().filter(|place| !lines[**place].items.is_empty());
            waiting.map(|place| (lines[*place].bytes, *place)).collect()
        });
        by_length.last().map_or(0, |(_, place)| *place)
    }

    /// An item of this many bytes was added to a line, or removed from it.
    fn weigh(&mut self, place: usize, bytes: usize, is_more: bool) {
        let line = &mut self.lines[place];
        let before = line.bytes;
        let held = line.items.len();
        if is_more {
            line.bytes += bytes;
            self.bytes += bytes;
        } else {
            line.bytes -= bytes;
            self.bytes -= bytes;
        }
        let after = line.bytes;
        if let Some(by_length) = &mut self.by_length {
            by_length.remove(&(before, place));
            if held > 0 {
                by_length.insert((after, place));
            }
        }
    }

    /// Takes the next item by turns.
    pub fn pop(&mut self) -> Option<(K, usize, T)> {
        loop {
            let place = *self.turn.front()?;
            let line = &mut self.lines[place];
            let Some(next) = line.items.front().map(|i| i.1) else {
                line.has_turn = false;
                self.turn.pop_front();
                continue;
            };
            if next > line.deficit {
                line.deficit += QUEUE_QUANTUM;
                self.turn.rotate_left(1);
                continue;
            }
            let item = line.items.pop_front()?;
            line.deficit -= item.1;
            self.weigh(place, item.1, false);
            self.items -= 1;
            if self.lines[place].items.is_empty() {
                self.lines[place].has_turn = false;
                self.turn.pop_front();
                self.retire(place);
            }
            if self.bytes <= self.bytes_max / 2 {
                self.by_length = None;
            }
            return Some(item);
        }
    }

    fn place(&mut self, key: &K) -> usize {
        if let Some(place) = self.places.get(key) {
            return *place;
        }
        if self.places.len() >= QUEUE_SOURCES_MAX {
            let place = match self.shared {
                Some(place) => place,
                None => self.new_line(None),
            };
            self.shared = Some(place);
            return place;
        }
        let place = self.new_line(Some(key.clone()));
        self.places.insert(key.clone(), place);
        place
    }

    fn new_line(&mut self, key: Option<K>) -> usize {
        if let Some(place) = self.idle.pop() {
            self.lines[place].key = key;
            return place;
        }
        self.lines.push(Line {
            key,
            items: VecDeque::new(),
            bytes: 0,
            deficit: 0,
            has_turn: false,
        });
        self.lines.len() - 1
    }

    fn retire(&mut self, place: usize) {
        let line = &mut self.lines[place];
        line.deficit = 0;
        match line.key.take() {
            Some(key) => {
                self.places.remove(&key);
            }
            None => self.shared = None,
        }
        self.idle.push(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_loses_its_own() {
        let mut queue = FairQueue::new(1000);
        let mut shed = HashMap::new();
        queue.push("quiet", 100, 0, &mut |_, _, _| {});
        for n in 0..100 {
            queue.push("flood", 100, n, &mut |k, _, _| *shed.entry(k).or_insert(0) += 1);
        }
        queue.push("quiet", 100, 1, &mut |k, _, _| *shed.entry(k).or_insert(0) += 1);
        assert_eq!(shed, HashMap::from([("flood", 92)]));
        assert_eq!(queue.len(), 10);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order.iter().filter(|i| i.0 == "quiet").count(), 2);
        assert_eq!(
            order.iter().filter(|i| i.0 == "flood").map(|i| i.2).collect::<Vec<_>>(),
            (0..8).collect::<Vec<_>>()
        );
        assert!(queue.is_empty() && queue.bytes() == 0);
    }

    #[test]
    fn turns_go_by_bytes() {
        let mut queue = FairQueue::new(usize::MAX);
        for n in 0..64 {
            queue.push(1, QUEUE_QUANTUM, n, &mut |_, _, _| {});
            queue.push(2, QUEUE_QUANTUM / 4, n, &mut |_, _, _| {});
        }
        let first: Vec<i32> = (0..40).filter_map(|_| queue.pop()).map(|i| i.0).collect();
        let large = first.iter().filter(|k| **k == 1).count();
        assert!((7..=9).contains(&large), "{first:?}");
    }

    /// A flood from however many addresses, with however little space there is: looks for the longest line
    /// stay below two an item. What is held is what a queue without an order would hold.
    #[test]
    fn a_flood_costs_no_more_looks_than_messages() {
        const ROOM: usize = 1 << 20;
        for (part, sources) in
            [(16, 1), (16, 100_000), (4, 300), (4, 100_000), (1, 3_000), (1, 100_000)]
        {
            let mut queue = FairQueue::new(ROOM / part);
            let (mut pushed, mut shed, mut popped) = (0_u64, 0_u64, 0_u64);
            for n in 0..100_000_usize {
                queue.push(n * 7_919 % sources, 100 + n % 7 * 100, n, &mut |_, _, _| shed += 1);
                pushed += 1;
                // The reader takes one in three, and now and then all that there is.
                if n % 3 == 0 {
                    popped += u64::from(queue.pop().is_some());
                }
                if n % 40_000 == 39_999 {
                    popped += std::iter::from_fn(|| queue.pop()).count() as u64;
                }
                assert!(queue.bytes() <= ROOM / part && queue.turn.len() <= queue.lines.len());
            }
            assert!(shed > 1_000, "{part} {sources}");
            assert!(queue.looks <= 2 * pushed, "{part} {sources}: {} looks", queue.looks);
            assert_eq!(pushed, popped + shed + queue.len() as u64, "{part} {sources}");
            popped = std::iter::from_fn(|| queue.pop()).count() as u64;
            assert!(popped > 0 && queue.is_empty() && queue.bytes() == 0);
            assert_eq!(queue.places.len(), 0);
        }
    }

    #[test]
    fn sources_without_number_share_a_line() {
        let mut queue = FairQueue::new(1 << 30);
        for n in 0..QUEUE_SOURCES_MAX + 1000 {
            queue.push(n, 1, n, &mut |_, _, _| {});
        }
        assert!(queue.lines.len() <= QUEUE_SOURCES_MAX + 1);
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), QUEUE_SOURCES_MAX + 1000);
    }
}

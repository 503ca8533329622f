//! A queue that grows by parts of one size.
//!
//! A queue in one piece moves all it holds into twice the memory when it is full. A flow may hold thousands of
//! transactions, so that would be memory that is cleared, copied and half unused; parts stay where they are.

use std::collections::VecDeque;

/// Elements of a part.
const PART: usize = 64;

/// A queue of which only the ends change, but for [`PartedQueue::retain`] and [`PartedQueue::remove`].
#[derive(Debug)]
pub(crate) struct PartedQueue<E> {
    /// The first ones, at most as many as a part has.
    head: VecDeque<E>,
    /// Those behind them: parts that are full, and a last one that is not empty.
    tail: VecDeque<Vec<E>>,
}

impl<E> Default for PartedQueue<E> {
    fn default() -> PartedQueue<E> {
        PartedQueue { head: VecDeque::new(), tail: VecDeque::new() }
    }
}

impl<E> PartedQueue<E> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self.tail.back() {
            Some(last) => self.head.len() + (self.tail.len() - 1) * PART + last.len(),
            None => self.head.len(),
        }
    }

    /// Bytes of the queue itself, whatever its elements hold.
    pub(crate) fn bytes_held(&self) -> usize {
        let parts = self.tail.iter().map(Vec::capacity).sum::<usize>();
        (self.head.capacity() + parts) * size_of::<E>() + self.tail.capacity() * size_of::<Vec<E>>()
    }

    #[inline]
    pub(crate) fn push_back(&mut self, e: E) {
        if self.tail.is_empty() && self.head.len() < PART {
            if self.head.capacity() == 0 {
                // Most flows never hold a second one.
                self.head.reserve_exact(1);
            }
            self.head.push_back(e);
            return;
        }
        self.push_behind(e);
    }

    #[cold]
    fn push_behind(&mut self, e: E) {
        match self.tail.back_mut() {
            Some(last) if last.len() < PART => last.push(e),
            _ => {
                let mut part = Vec::with_capacity(PART);
                part.push(e);
                self.tail.push_back(part);
            }
        }
    }

    #[inline]
    pub(crate) fn pop_front(&mut self) -> Option<E> {
        let first = self.head.pop_front();
        if !self.tail.is_empty() && self.head.is_empty() {
            self.head = self.tail.pop_front().unwrap_or_default().into();
        }
        first
    }

    #[inline]
    pub(crate) fn pop_back(&mut self) -> Option<E> {
        let Some(last) = self.tail.back_mut() else { return self.head.pop_back() };
        let e = last.pop();
        if last.is_empty() {
            self.tail.pop_back();
        }
        e
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&E> {
        self.head.front()
    }

    #[inline]
    pub(crate) fn back(&self) -> Option<&E> {
        match self.tail.back() {
            Some(last) => last.last(),
            None => self.head.back(),
        }
    }

    #[inline]
    pub(crate) fn back_mut(&mut self) -> Option<&mut E> {
        match self.tail.back_mut() {
            Some(last) => last.last_mut(),
            None => self.head.back_mut(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&E> {
        match at.checked_sub(self.head.len()) {
            None => self.head.get(at),
            Some(behind) => self.tail.get(behind / PART)?.get(behind % PART),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut E> {
        match at.checked_sub(self.head.len()) {
            None => self.head.get_mut(at),
            Some(behind) => self.tail.get_mut(behind / PART)?.get_mut(behind % PART),
        }
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &E> {
        self.iter_from(0)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut E> {
        self.head.iter_mut().chain(self.tail.iter_mut().flatten())
    }

    /// Calls a function with each: faster than the iterator, as most queues have one part.
    #[inline]
    pub(crate) fn for_each_mut(&mut self, mut f: impl FnMut(&mut E)) {
        self.head.iter_mut().for_each(&mut f);
        for part in &mut self.tail {
            part.iter_mut().for_each(&mut f);
        }
    }

    /// Those from a place on. Places are looked up one by one: most queues have one or two elements, for which iterators
    /// over parts take longer.
    #[inline]
    pub(crate) fn iter_from(&self, at: usize) -> impl DoubleEndedIterator<Item = &E> {
        (at..self.len()).filter_map(|at| self.get(at))
    }

    /// The first place for which this is false, where those before it have it true and no others.
    pub(crate) fn partition_point(&self, mut is_before: impl FnMut(&E) -> bool) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle).is_some_and(&mut is_before) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Keeps those for which this is true.
    pub(crate) fn retain(&mut self, mut is_kept: impl FnMut(&E) -> bool) {
        self.head.retain(&mut is_kept);
        let tail = std::mem::take(&mut self.tail);
        tail.into_iter().flatten().filter(is_kept).for_each(|e| self.push_back(e));
    }

    /// Takes one out, in time that grows with those behind it.
    pub(crate) fn remove(&mut self, at: usize) -> Option<E> {
        let behind = self.len().checked_sub(at + 1)?;
        let mut later: Vec<E> = (0..behind).filter_map(|_| self.pop_back()).collect();
        let e = self.pop_back();
        while let Some(e) = later.pop() {
            self.push_back(e);
        }
        e
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It answers as a queue in one piece does, whatever is done to it.
    #[test]
    fn it_is_a_queue() {
        let (mut parted, mut plain) = (PartedQueue::default(), VecDeque::new());
        let mut state = 1_u64;
        for n in 0..20_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Grows to some hundred, shrinks, and grows again.
            let is_growing = n % 2_000 < 1_200;
            match (state >> 33) % 16 {
                0..=9 if is_growing => {
                    parted.push_back(n);
                    plain.push_back(n);
                }
                0..=6 => assert_eq!(parted.pop_front(), plain.pop_front()),
                7..=12 => assert_eq!(parted.pop_back(), plain.pop_back()),
                13 => {
                    let at = (state >> 40) as usize % (plain.len() + 1);
                    assert_eq!(parted.remove(at), plain.remove(at));
                }
                14 if n % 7 == 0 => {
                    parted.retain(|e| e % 5 != 0);
                    plain.retain(|e| e % 5 != 0);
                }
                _ => {
                    if let (Some(a), Some(b)) = (parted.back_mut(), plain.back_mut()) {
                        (*a, *b) = (n, n);
                    }
                }
            }
            assert_eq!(parted.len(), plain.len());
            assert_eq!((parted.front(), parted.back()), (plain.front(), plain.back()));
            let at = (state >> 20) as usize % (plain.len() + 2);
            assert_eq!(parted.get(at), plain.get(at));
            assert_eq!(parted.get_mut(at), plain.get_mut(at));
            if n % 16 == 0 {
                assert!(parted.iter().eq(&plain) && parted.iter().rev().eq(plain.iter().rev()));
                assert!(parted.iter_mut().eq(&mut plain.clone()));
                assert!(parted.iter_from(at).eq(plain.iter().skip(at)));
                let middle = plain.get(at).copied().unwrap_or(u64::MAX);
                let found = parted.partition_point(|e| *e < middle);
                assert!(
                    !plain.iter().is_sorted() || found == plain.partition_point(|e| *e < middle)
                );
            }
        }
    }

    /// What it holds is at most a part more than what is in it.
    #[test]
    fn it_holds_little_more_than_what_is_in_it() {
        let mut queue = PartedQueue::default();
        for n in 1..10_000_usize {
            queue.push_back(n);
            let of_parts = (n / PART + 4) * 2 * size_of::<Vec<usize>>();
            assert!(queue.bytes_held() <= (n + PART) * size_of::<usize>() + of_parts, "{n}");
        }
    }
}

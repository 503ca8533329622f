//! What a live source lost: how many events that change state are missing, and whose they were.
//!
//! A probe numbers the events that change state twice: among all of the source and among those of their thread. A gap
//! in the first says at once that something is missing, a gap in the second says whose state is doubtful. In between,
//! whatever depends on another thread is not given: a name that was true before the loss may be wrong now. A thread
//! that is found later, by its next event, becomes doubtful with its whole process until an `execve` or a list describes
//! it again. Files have no numbers and lose nothing.

use gabion_scap::Numbers;

/// Counts of events that change state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossCounts {
    /// Events that arrived.
    pub received: u64,
    /// Events that did not arrive.
    pub lost: u64,
    /// Lost events whose thread is known by now.
    pub attributed: u64,
    /// Lost events from before the last list of processes, which described everything again.
    pub settled: u64,
}

impl LossCounts {
    /// Counts an event that arrived.
    pub(crate) fn receive(&mut self, numbers: Numbers, changes_state: bool) {
        self.received = self.received.saturating_add(u64::from(changes_state));
        self.lost = self.lost.max(numbers.of_source.saturating_sub(self.received));
    }

    /// Counts lost events whose thread is known now; no more than are open.
    pub(crate) fn attribute(&mut self, events: u64) {
        let open = self.lost.saturating_sub(self.attributed);
        self.attributed = self.attributed.saturating_add(events.min(open));
    }

    /// Settles all that was lost: a list describes every process again.
    pub(crate) fn settle(&mut self) {
        (self.attributed, self.settled) = (self.lost, self.lost);
    }

    /// Whether anything was lost since the last list.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.lost > self.settled
    }

    /// Whether events were lost whose thread is not known.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.lost > self.attributed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_stays_open_until_its_thread_is_known() {
        let mut counts = LossCounts::default();
        let numbers = |of_source| Numbers { of_source, of_thread: 0 };
        counts.receive(numbers(1), true);
        counts.receive(numbers(1), false);
        assert!(!counts.is_any() && !counts.is_open());
        counts.receive(numbers(4), true);
        assert_eq!((counts.lost, counts.is_open()), (2, true));
        counts.attribute(7);
        assert_eq!(counts.attributed, 2, "no more than were lost");
        counts.receive(numbers(5), true);
        assert!(counts.is_any() && !counts.is_open());
        counts.receive(numbers(9), true);
        assert!(counts.is_open());
        counts.settle();
        counts.receive(numbers(10), true);
        assert_eq!((counts.lost, counts.is_any(), counts.is_open()), (5, false, false));
    }
}

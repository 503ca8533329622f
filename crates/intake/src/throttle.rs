//! How often something that keeps happening is reported.

use std::time::{Duration, Instant};

/// Lets something be reported at most once in a time, with how often it happened.
#[derive(Debug)]
pub(crate) struct Throttle {
    every: Duration,
    reported: Option<Instant>,
    since: u64,
}

impl Throttle {
    pub(crate) fn new(every: Duration) -> Throttle {
        Throttle { every, reported: None, since: 0 }
    }

    /// It happened; how often since it was last reported, if it is to be reported now.
    pub(crate) fn happened(&mut self) -> Option<u64> {
        self.since += 1;
        if self.reported.is_some_and(|s| s.elapsed() < self.every) {
            return None;
        }
        self.reported = Some(Instant::now());
        Some(std::mem::take(&mut self.since))
    }
}

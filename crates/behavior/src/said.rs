//! The last report of something that continues to grow: the number, the window, and the level. Its final report says
//! what it has come to since.

use crate::state::{Most, state};
use gabion_record::evidence::ThreatLevel;

state! {
    /// The last reported values.
    #[derive(Clone, Copy)]
    pub struct Said {
        number: Most<u64>,
        window: Most<i64>,
        level: Most<u8>,
    }
}

impl Said {
    /// Remembers a report.
    pub(crate) fn note(&mut self, number: u64, window: i64, level: ThreatLevel) {
        (self.number, self.window) = (Most(number), Most(window));
        self.level = Most(level as u8);
    }

    /// Whether it was reported and has grown since.
    pub(crate) fn is_less(&self, number: u64) -> bool {
        self.number.0 > 0 && number > self.number.0
    }

    /// Whether it was reported.
    pub(crate) fn is_reported(&self) -> bool {
        self.number.0 > 0
    }

    /// The window of its last report.
    pub(crate) fn window(&self) -> i64 {
        self.window.0
    }

    /// How bad it was.
    pub(crate) fn level(&self) -> ThreatLevel {
        ThreatLevel::ALL.get(usize::from(self.level.0)).copied().unwrap_or_default()
    }
}

//! What a format of logs is: how its lines are known, and what moment and record each one is.

use crate::skip::Skip;
use gabion_record::logs::{LogKind, Record, TimeNs};
use gabion_record::saved::Saved;
use std::fmt::Debug;

/// A line that does not continue under the columns so far, with what else is known of its log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    /// The line, without its end.
    pub(crate) line: &'a [u8],
    /// The format that the user named, by its name.
    pub(crate) chosen: Option<&'static str>,
    /// The kind of Zeek's log by its file name or its header.
    pub(crate) named: Option<LogKind>,
}

impl Seen<'_> {
    /// Whether the user named that format, or none.
    pub(crate) fn may_be(&self, name: &str) -> bool {
        self.chosen.is_none_or(|chosen| chosen == name)
    }
}

/// A format: how its lines are known, and what they are under one header.
pub(crate) trait LogFormat: Clone + Debug + Eq + Saved {
    /// Its name as users write it.
    const NAME: &'static str;
    /// What it is called in messages.
    const TITLE: &'static str;

    /// By a line that names columns and is no record itself.
    fn from_header(line: &[u8]) -> Option<Self> {
        let _ = line;
        None
    }

    /// By a line that is a record though there is no header before it.
    fn from_record(seen: Seen<'_>) -> Option<Self> {
        let _ = seen;
        None
    }

    /// The moment of a line that follows, where it is cheaper to find for one that is like those before; `None` has
    /// the line looked at in full.
    #[inline]
    fn quick_time(&self, line: &[u8]) -> Option<Result<TimeNs, Skip>> {
        let _ = line;
        None
    }

    /// The moment of a line.
    ///
    /// # Errors
    /// When there is none.
    fn time(&self, line: &[u8]) -> Result<TimeNs, Skip>;

    /// The record of a line. `scratch` is lent for texts with escapes.
    ///
    /// # Errors
    /// What is wrong with it.
    fn record<'a>(&self, line: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Record<'a>, Skip>;

    /// Which log of Zeek it is.
    fn kind(&self) -> Option<LogKind> {
        None
    }
}

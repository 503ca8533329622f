//! Why a line was skipped, how often, and where: what a person needs to find it.

use crate::limits::SKIP_LINES_KEPT;
use gabion_record::saved;
use gabion_record::saved::Saved;

macro_rules! skips {
    ($($skip:ident, $name:literal, $why:literal;)+) => {
        /// Why a line gives no record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Skip {
            $(#[doc = $why] $skip,)+
        }

        impl Skip {
            /// All reasons.
            pub const ALL: &'static [Skip] = &[$(Skip::$skip,)+];

            /// Its name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Skip::$skip => $name,)+ }
            }

            /// One line for people.
            pub const fn description(self) -> &'static str {
                match self { $(Skip::$skip => $why,)+ }
            }
        }
    };
}

skips! {
    NoAddress, "no_address", "source or destination is not an IP address";
    NoTime, "no_time", "no time stamp that can be read";
    CutShort, "cut_short", "fewer columns than the header names, or JSON without its end";
    NoHeader, "no_header", "no `#fields` header before the line";
    NotALog, "not_a_log", "not in a known log format";
    TooLong, "too_long", "longer than a line may be";
    UnusedEvent, "unused_event", "an event of a kind that is not used";
    TooManyHeaders, "too_many_headers", "after more headers than are kept";
    BadBlock, "bad_block", "in a block of a binary file that can't be unpacked, or is cut off";
    UnknownBlock, "unknown_block", "in a block of a binary file of a kind that is not known";
    BadRecord, "bad_record", "a binary record whose parts do not fit into it, or those after it in its block";
    UnknownRecord, "unknown_record", "a binary record of a kind that is not known";
    UnknownExtension, "unknown_extension", "a part of a binary record of a kind that is not known; the record is read without it";
    NoMap, "no_map", "a binary record that refers to a map of its parts that was not there";
}

impl std::fmt::Display for Skip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.description())
    }
}

impl std::error::Error for Skip {}

/// Lines skipped, by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    entries: Vec<(Skip, u64, Vec<u64>)>,
}

impl Saved for Skip {
    fn save(&self, out: &mut Vec<u8>) {
        self.name().to_owned().save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let name = String::load(from)?;
        Skip::ALL.iter().copied().find(|skip| skip.name() == name)
    }
}

saved! { Skips { entries } }

impl Skips {
    /// Counts one; `line` is its number from 1.
    pub fn add(&mut self, skip: Skip, line: u64) {
        let at = match self.entries.iter().position(|e| e.0 == skip) {
            Some(at) => at,
            None => {
                self.entries.push((skip, 0, Vec::new()));
                self.entries.len() - 1
            }
        };
        if let Some((_, count, lines)) = self.entries.get_mut(at) {
            *count += 1;
            if lines.len() < SKIP_LINES_KEPT {
                lines.push(line);
            }
        }
    }

    /// Adds those of an earlier log, without their lines.
    pub fn merge(&mut self, other: &Skips) {
        for (skip, count, _) in &other.entries {
            match self.entries.iter_mut().find(|e| e.0 == *skip) {
                Some(entry) => entry.1 += count,
                None => self.entries.push((*skip, *count, Vec::new())),
            }
        }
    }

    /// All in the order they came up: reason, count, first line numbers.
    pub fn iter(&self) -> impl Iterator<Item = (Skip, u64, &[u64])> {
        self.entries.iter().map(|(skip, count, lines)| (*skip, *count, lines.as_slice()))
    }

    /// How many lines in all.
    pub fn total(&self) -> u64 {
        self.entries.iter().map(|e| e.1).sum()
    }
}

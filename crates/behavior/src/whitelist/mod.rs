//! What a user does not want to be reported: addresses, ranges, names, organizations, hardware addresses
//! and autonomous systems, each with a direction and with what is ignored; and how often each entry
//! did so, so that a person sees why something was not reported.
//!
//! Names are compared label by label: `sub.example.com` covers itself and what is below it and says
//! nothing of `example.com`. An organization is what its lists say, and only where a user listed it.
//!
//! Unlike in Slips an entry may also be about a type of findings or a pair of hosts, and may be narrowed to a type
//! and to the time before a moment. That moment is compared with the time of what is read, never with the clock: the
//! same input gives the same findings whenever it is read.

mod applied;
mod read;

use crate::intel::ranges::Ranges;
use crate::limits::NAME_BYTES_MAX;
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{Indicator, Party};
use gabion_record::logs::{Mac, TimeNs};
use hashbrown::HashMap;

pub use applied::Learned;
pub(crate) use applied::{Passed, Withheld};
pub use read::{EntryError, WrongLine, known_type};

/// Which end of a flow an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Src,
    Dst,
    Both,
}

/// One entry.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its line in the file.
    pub line: u32,
    /// As it stands there.
    pub text: String,
    side: Side,
    ignores_flows: bool,
    ignores_alerts: bool,
    /// Only evidence of this type.
    kind: Option<String>,
    /// Only what is before this moment.
    until: Option<TimeNs>,
    /// An entry before this one with the same value: it counts where this one is narrowed and does not fit.
    older: Option<u32>,
}

impl Entry {
    fn is_narrowed(&self) -> bool {
        self.kind.is_some() || self.until.is_some()
    }
}

/// What is to be decided of one end of a record or of evidence.
#[derive(Clone, Copy)]
struct Asked<'a> {
    side: Side,
    /// The type of evidence; `None` for a record.
    kind: Option<&'a str>,
    ts: TimeNs,
}

type Map<K> = HashMap<K, u32, FixedState>;

/// All entries.
#[derive(Debug, Default)]
pub struct Whitelist {
    entries: Vec<Entry>,
    ips: Map<Ip>,
    ranges: Ranges,
    names: Map<Box<[u8]>>,
    macs: Map<Mac>,
    asns: Map<u32>,
    /// Networks of entries that are narrowed: those of others are found by [`Ranges`], of which one answers.
    narrow_ranges: Vec<(Ip, Ip, u32)>,
    /// Types of evidence.
    kinds: Map<Box<str>>,
    /// From an address to another.
    pairs: Map<(Ip, Ip)>,
    /// From an address to a name.
    pairs_by_name: Map<(Ip, Box<[u8]>)>,
}

impl Whitelist {
    /// Whether there is nothing in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The entry that covers an address and applies.
    fn ip(&self, ip: Ip, asked: Asked<'_>) -> Option<u32> {
        let exact = self.ips.get(&ip).and_then(|n| self.applying(*n, asked));
        let within = |(first, last, n): &(Ip, Ip, u32)| {
            if (*first..=*last).contains(&ip) { self.applying(*n, asked) } else { None }
        };
        exact
            .or_else(|| self.narrow_ranges.iter().find_map(within))
            .or_else(|| self.ranges.get(ip).and_then(|n| self.applying(n, asked)))
    }

    /// The entry for a name or for the nearest one above it.
    fn name(&self, name: &[u8]) -> Option<u32> {
        if self.names.is_empty() {
            return None;
        }
        labels(name, |rest| self.names.get(rest).copied())
    }

    /// The entry for a name that applies; one that is narrowed and does not fit leaves it to those above.
    fn of_name(&self, name: &[u8], asked: Asked<'_>) -> Option<u32> {
        if self.names.is_empty() {
            return None;
        }
        let nearest = labels(name, |rest| {
            let entry = *self.names.get(rest)?;
            let is_narrowed = self.entries.get(entry as usize).is_some_and(Entry::is_narrowed);
            if is_narrowed { self.applying(entry, asked) } else { Some(entry) }
        });
        nearest.and_then(|entry| self.applying(entry, asked))
    }

    /// Of an entry and those before it with the same value the one that applies.
    fn applying(&self, entry: u32, asked: Asked<'_>) -> Option<u32> {
        let mut at = Some(entry);
        // Each is older than the one before, so this ends.
        while let Some(number) = at {
            let e = self.entries.get(number as usize)?;
            let is_side = e.side == Side::Both || asked.side == Side::Both || e.side == asked.side;
            let is_ignored = if asked.kind.is_some() { e.ignores_alerts } else { e.ignores_flows };
            let is_kind = e.kind.as_deref().is_none_or(|kind| asked.kind == Some(kind));
            let is_now = e.until.is_none_or(|until| asked.ts < until);
            if is_side && is_ignored && is_kind && is_now {
                return Some(number);
            }
            at = e.older;
        }
        None
    }

    /// The entry for flows from an address to an address or name; the entry's direction `src` is about flows from its
    /// first end to its second, `dst` about those that the second began.
    fn pair(&self, from: End<'_>, to: End<'_>, asked: Asked<'_>) -> Option<u32> {
        if self.pairs.is_empty() && self.pairs_by_name.is_empty() {
            return None;
        }
        let one = |first: End<'_>, second: End<'_>, side: Side| {
            let first = first.ip?;
            let asked = Asked { side, ..asked };
            let by_ip = second.ip.and_then(|second| self.pairs.get(&(first, second)).copied());
            let by_ip = by_ip.and_then(|n| self.applying(n, asked));
            by_ip.or_else(|| {
                if self.pairs_by_name.is_empty() {
                    return None;
                }
                let found = labels(second.name, |rest| {
                    let key: Box<[u8]> = rest.into();
                    self.pairs_by_name.get(&(first, key)).copied()
                });
                found.and_then(|n| self.applying(n, asked))
            })
        };
        one(from, to, Side::Src).or_else(|| one(to, from, Side::Dst))
    }

    /// Whether evidence of a type is ignored that a source causes at a moment, with a target that is an address or a
    /// name: the answer for a reported finding, without what was learned from records.
    pub fn ignores(&self, kind: &str, source: &str, target: &str, ts: TimeNs) -> bool {
        let asked = Asked { side: Side::Both, kind: Some(kind), ts };
        if self.kinds.get(kind).and_then(|n| self.applying(*n, asked)).is_some() {
            return true;
        }
        let of = |end: End<'_>, side: Side| {
            let asked = Asked { side, ..asked };
            match end.ip {
                Some(ip) => self.ip(ip, asked),
                None => self.of_name(end.name, asked),
            }
        };
        let (from, to) = (End::from_text(source), End::from_text(target));
        of(from, Side::Src).or_else(|| of(to, Side::Dst)).is_some()
            || self.pair(from, to, asked).is_some()
    }
}

/// An end of a pair: an address, or a name.
#[derive(Clone, Copy)]
struct End<'a> {
    ip: Option<Ip>,
    name: &'a [u8],
}

impl<'a> End<'a> {
    /// Of a text: an address, a name, or what begins with a name.
    fn from_text(text: &'a str) -> End<'a> {
        match Ip::parse(text.as_bytes()) {
            Some(ip) => End { ip: Some(ip), name: b"" },
            None => {
                End { ip: None, name: text.split(['/', ':']).next().unwrap_or_default().as_bytes() }
            }
        }
    }

    fn of_party(party: &'a Party) -> End<'a> {
        match &party.what {
            Indicator::Ip(ip) => End { ip: Some(*ip), name: b"" },
            Indicator::Domain(text) | Indicator::Url(text) => {
                End { ip: None, ..End::from_text(text) }
            }
            Indicator::Md5(_) => End { ip: None, name: b"" },
        }
    }
}

/// The first answer for a name in lower case or for one above it, the longest first.
fn labels(name: &[u8], find: impl Fn(&[u8]) -> Option<u32>) -> Option<u32> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    let mut rest: &[u8] = lower.strip_suffix(b".").unwrap_or(lower);
    loop {
        if let Some(entry) = find(rest) {
            return Some(entry);
        }
        rest = rest.get(rest.iter().position(|b| *b == b'.')? + 1..)?;
    }
}

#[cfg(test)]
mod tests;

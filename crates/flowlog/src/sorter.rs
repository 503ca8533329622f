//! Lines of one log put into order of time through a buffer of seconds.
//!
//! Logs are written when a flow ends and stamped with its begin, so they are not in order. Lines
//! wait in slices of one second until the log is `horizon` ahead of them; a slice is sorted when it
//! leaves: by time, then by the text of the line, so that what leaves does not depend on the order
//! of lines of one moment. Memory is bounded: when it is full, the oldest slice leaves early and
//! that is counted.
//!
//! A moment more than an hour ahead of its own log moves nothing until eight further lines confirm
//! it, or one line of the year 2100 would make all after it late.

use crate::reader::LayoutId;
use gabion_record::logs::{SECOND, TimeNs};
use gabion_record::saved;
use std::collections::BTreeMap;

/// A jump ahead of more than this has to be confirmed.
const JUMP: i64 = 3600 * SECOND;
/// Lines that confirm a jump.
const CONFIRMING: u32 = 8;

/// The clock of one log: its latest believed moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LogClock {
    latest: Option<TimeNs>,
    ahead: u32,
    /// Jumps ahead that were met.
    pub jumps: u64,
}

impl LogClock {
    /// Takes a moment in; returns how far it lies before the latest one.
    #[inline]
    pub(crate) fn take_time(&mut self, ts: TimeNs) -> i64 {
        let Some(latest) = self.latest else {
            self.latest = Some(ts);
            return 0;
        };
        let ahead = ts.since(latest);
        if ahead <= JUMP {
            if ahead > 0 {
                self.latest = Some(ts);
                return 0;
            }
            return -ahead;
        }
        if self.ahead == 0 {
            self.jumps += 1;
        }
        self.ahead += 1;
        if self.ahead > CONFIRMING {
            self.latest = Some(ts);
            self.ahead = 0;
        }
        0
    }

    /// Continues with what another clock saw next, all of it, without a jump: as if it had come here, first
    /// and least being the first and the least moment of it. Returns how far that lies before what was
    /// latest here; `None` if something of it would have been a jump.
    pub(crate) fn continue_with(
        &mut self,
        next: &LogClock,
        first: TimeNs,
        least: TimeNs,
    ) -> Option<i64> {
        let latest = self.latest?;
        if next.jumps > 0 || first.since(latest) > JUMP {
            return None;
        }
        self.latest = self.latest.max(next.latest);
        Some(latest.since(least).max(0))
    }

    /// The latest moment believed.
    pub(crate) fn latest(&self) -> Option<TimeNs> {
        self.latest
    }
}

/// Where a line waits.
#[derive(Clone, Copy, Debug)]
struct Entry {
    ts: TimeNs,
    start: u32,
    len: u32,
    layout: LayoutId,
    number: u64,
}

#[derive(Debug, Default)]
struct Slice {
    text: Vec<u8>,
    entries: Vec<Entry>,
}

saved! {
    LogClock { latest, ahead, jumps }
    Entry { ts, start, len, layout, number }
    Slice { text, entries }
    Sorter { slices, leaving, next, horizon_ns, bytes, bytes_max, clock, cut; spare = Vec::new() }
}

impl Slice {
    fn line(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        self.text.get(start..start + entry.len as usize).unwrap_or_default()
    }

    fn bytes(&self) -> usize {
        self.text.len() + self.entries.len() * size_of::<Entry>()
    }

    fn sort(&mut self) {
        let text = std::mem::take(&mut self.text);
        let line = |e: &Entry| {
            text.get(e.start as usize..e.start as usize + e.len as usize).unwrap_or_default()
        };
        self.entries.sort_unstable_by(|a, b| {
            a.ts.cmp(&b.ts).then_with(|| line(a).cmp(line(b))).then(a.number.cmp(&b.number))
        });
        self.text = text;
    }
}

/// The buffer.
#[derive(Debug)]
pub(crate) struct Sorter {
    slices: BTreeMap<i64, Slice>,
    leaving: Slice,
    /// Next entry of `leaving`.
    next: usize,
    horizon_ns: i64,
    bytes: usize,
    bytes_max: usize,
    clock: LogClock,
    spare: Vec<Slice>,
    /// Slices that left before their time for want of room.
    pub cut: u64,
}

/// A line that leaves: its moment, its text, its header, its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaving<'a> {
    /// When.
    pub ts: TimeNs,
    /// The line.
    pub line: &'a [u8],
    /// Its header.
    pub layout: LayoutId,
    /// Its number in the file.
    pub number: u64,
}

impl Sorter {
    /// A buffer that waits for this long and holds this many bytes.
    pub(crate) fn new(horizon_ns: i64, bytes_max: usize) -> Sorter {
        Sorter {
            slices: BTreeMap::new(),
            leaving: Slice::default(),
            next: 0,
            horizon_ns,
            bytes: 0,
            // Offsets within a slice are of 32 bits.
            bytes_max: bytes_max.min(1 << 30),
            clock: LogClock::default(),
            spare: Vec::new(),
            cut: 0,
        }
    }

    /// Takes a line in.
    pub(crate) fn push(&mut self, ts: TimeNs, line: &[u8], layout: LayoutId, number: u64) {
        self.clock.take_time(ts);
        let spare = &mut self.spare;
        let slice =
            self.slices.entry(ts.seconds()).or_insert_with(|| spare.pop().unwrap_or_default());
        let (Ok(start), Ok(len)) = (u32::try_from(slice.text.len()), u32::try_from(line.len()))
        else {
            return;
        };
        slice.text.extend_from_slice(line);
        slice.entries.push(Entry { ts, start, len, layout, number });
        self.bytes += line.len() + size_of::<Entry>();
    }

    /// Makes the next slice ready when its time has come; `is_at_end` when no line will follow.
    /// False when more lines are wanted first.
    pub(crate) fn advance(&mut self, is_at_end: bool) -> bool {
        if self.next < self.leaving.entries.len() {
            return true;
        }
        let Some((&second, _)) = self.slices.first_key_value() else { return false };
        let limit = self.clock.latest().map_or(i64::MIN, |l| l.plus(-self.horizon_ns).seconds());
        let is_due = is_at_end || second < limit || (self.horizon_ns == 0 && second <= limit);
        if !is_due && self.bytes < self.bytes_max {
            return false;
        }
        if !is_due {
            self.cut += 1;
        }
        let Some(mut slice) = self.slices.remove(&second) else { return false };
        slice.sort();
        self.bytes = self.bytes.saturating_sub(slice.bytes());
        let mut used = std::mem::replace(&mut self.leaving, slice);
        used.text.clear();
        used.entries.clear();
        if self.spare.len() < 64 {
            self.spare.push(used);
        }
        self.next = 0;
        true
    }

    /// The line at the head.
    #[inline]
    pub(crate) fn head(&self) -> Option<Leaving<'_>> {
        self.heads().next()
    }

    /// The lines that leave one after another, from the head on.
    #[inline]
    pub(crate) fn heads(&self) -> impl Iterator<Item = Leaving<'_>> {
        let entries = self.leaving.entries.get(self.next..).unwrap_or_default();
        entries.iter().map(|entry| Leaving {
            ts: entry.ts,
            line: self.leaving.line(entry),
            layout: entry.layout,
            number: entry.number,
        })
    }

    /// Skips this many from the head on.
    #[inline]
    pub(crate) fn pop(&mut self, lines: usize) {
        self.next += lines;
    }

    /// Lines wait for this long from now on, in this many bytes.
    pub(crate) fn set_horizon(&mut self, horizon_ns: i64, bytes_max: usize) {
        (self.horizon_ns, self.bytes_max) = (horizon_ns, bytes_max.min(1 << 30));
    }

    /// Releases unused memory: the log rests.
    pub(crate) fn rest(&mut self) {
        self.spare = Vec::new();
        if self.next >= self.leaving.entries.len() {
            (self.leaving, self.next) = (Slice::default(), 0);
        }
    }

    /// Jumps ahead that were met.
    pub(crate) fn jumps(&self) -> u64 {
        self.clock.jumps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(times: &[i64], horizon: i64, bytes_max: usize) -> (Vec<i64>, u64) {
        let mut sorter = Sorter::new(horizon * SECOND, bytes_max);
        let mut out = Vec::new();
        let drain = |sorter: &mut Sorter, end, out: &mut Vec<i64>| {
            while sorter.advance(end) {
                out.push(sorter.head().unwrap().ts.seconds());
                sorter.pop(1);
            }
        };
        for (n, t) in times.iter().enumerate() {
            sorter.push(TimeNs(t * SECOND), b"line", LayoutId::default(), n as u64);
            drain(&mut sorter, false, &mut out);
        }
        drain(&mut sorter, true, &mut out);
        (out, sorter.cut)
    }

    #[test]
    fn lines_leave_in_order_within_the_horizon() {
        let (out, cut) = order(&[10, 5, 12, 8, 80, 70, 30, 200], 60, 1 << 20);
        assert_eq!(out, [5, 8, 10, 12, 30, 70, 80, 200]);
        assert_eq!(cut, 0);
        // Beyond it they come late.
        assert_eq!(order(&[100, 170, 5], 60, 1 << 20).0, [100, 5, 170]);
        // Without room they leave early, counted.
        assert!(order(&[3, 2, 1, 4, 0], 60, 100).1 > 0);
    }

    #[test]
    fn one_line_of_the_future_delays_nobody() {
        let mut times: Vec<i64> = (0..200).collect();
        times.insert(5, 4_000_000_000);
        let (out, _) = order(&times, 60, 1 << 20);
        assert!(out.is_sorted());
        // A jump that continues is believed.
        let times: Vec<i64> = (0..100).chain(1_000_000_000..1_000_000_100).collect();
        assert_eq!(order(&times, 60, 1 << 20).0, times);
    }

    /// However little room there is, and in whatever order lines come: each waits once, in one slice, and slices
    /// that leave are no more than lines.
    #[test]
    fn a_flood_of_moments_costs_no_more_slices_than_lines() {
        const ROOM: usize = 1 << 20;
        const LINES: i64 = 60_000;
        let moments: [fn(i64) -> i64; 4] =
            [|n| n, |n| LINES - n, |n| n * 7_919 % LINES, |n| n % 2 * 3_000 + n / 100];
        for (at, moment) in moments.into_iter().enumerate() {
            for part in [16, 4, 1] {
                let mut sorter = Sorter::new(7_200 * SECOND, ROOM / part);
                let (mut slices, mut left) = (0_i64, 0_i64);
                for n in 0..=LINES {
                    let is_end = n == LINES;
                    if !is_end {
                        sorter.push(
                            TimeNs(moment(n) * SECOND),
                            &[b'x'; 80],
                            LayoutId::default(),
                            0,
                        );
                    }
                    while sorter.advance(is_end) {
                        slices += i64::from(sorter.next == 0);
                        left += sorter.heads().count() as i64;
                        sorter.pop(sorter.heads().count());
                    }
                    assert!(sorter.bytes <= ROOM / part);
                }
                assert_eq!(left, LINES, "{at} {part}");
                assert!(slices <= LINES && sorter.spare.len() <= 64, "{at} {part}: {slices}");
                assert!(sorter.cut as i64 <= slices);
            }
        }
    }

    #[test]
    fn equal_moments_are_in_order_of_their_text() {
        for lines in [["b", "a", "c"], ["c", "b", "a"], ["a", "c", "b"]] {
            let mut sorter = Sorter::new(0, 1 << 20);
            for line in lines {
                sorter.push(TimeNs(5), line.as_bytes(), LayoutId::default(), 0);
            }
            let mut out = Vec::new();
            while sorter.advance(true) {
                out.push(sorter.head().unwrap().line.to_vec());
                sorter.pop(1);
            }
            assert_eq!(out, [b"a", b"b", b"c"]);
        }
    }
}

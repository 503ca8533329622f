//! The time that frames of captures agree on.
//!
//! A frame's own time may be wrong: a clock was off, captures were merged, a record is damaged. If
//! flows timed out by it, one frame far ahead would end all of them. So flows follow a clock that
//! never goes back and that a single frame can't move far: a frame ahead of the clock is accepted
//! if the frames after it are ahead too. In a capture whose times are in order every frame is
//! accepted, and the clock shows exactly the frame's time, however long the pause before it was.
//!
//! Captures with several clocks: a frame far in the past is accepted in the same way, and from then
//! on the offset of those frames from the first clock is known. The clock does not jump when the
//! two alternate.
//!
//! The result depends only on the sequence of frames, not on how it is cut into blocks.

use crate::limits::{
    AGREEING_FRAMES, CLOCKS_KNOWN, LATE_NS, LEAP_NS, LIVE_AHEAD_NS, LIVE_BEFORE_STEP_NS,
    LIVE_BEHIND_NS, STEP_NS,
};

/// The clock at a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Nanoseconds on the scale of the first frame's time; never less than before.
    pub ns: u64,
    /// Whether it advanced by [`LEAP_NS`] or more at this frame.
    pub is_leap: bool,
}

/// Counts of irregular times of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockCounts {
    /// How often the clock advanced by [`LEAP_NS`] or more at once, because later frames agreed.
    pub leaps: u64,
    /// Frames whose time did not agree with any other: the clock did not follow them.
    pub strays: u64,
    /// How often frames agreed on a time far in the past: another clock, or an earlier capture.
    pub steps_back: u64,
}

impl ClockCounts {
    /// Adds the counts of another clock.
    pub fn merge(&mut self, other: &ClockCounts) {
        self.leaps += other.leaps;
        self.strays += other.strays;
        self.steps_back += other.steps_back;
    }
}

/// Number of consecutive frames that are far off in one direction and not accepted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Off {
    Ahead(u64),
    Behind(u64),
}

/// The times of an interface, by the machine's clock, which may be set while it is read.
#[derive(Clone, Debug, Default)]
struct LiveTimes {
    steady_ns: Option<u64>,
    /// What the first time was ahead of the steady clock.
    ahead: Option<i64>,
    /// To be added to times since the machine's clock was set.
    offset: i64,
    /// What was added before it was set, and until when, by the steady clock, frames of that time may still come.
    before: Option<(i64, u64)>,
    step: Option<i64>,
}

impl LiveTimes {
    /// The time of a frame on the scale of the first one's.
    #[inline]
    fn place(&mut self, ts_ns: u64) -> u64 {
        let place = ts_ns.saturating_add_signed(self.offset);
        let Some(steady) = self.steady_ns else { return place };
        let difference = |a: u64, b: u64| i64::try_from(i128::from(a) - i128::from(b)).unwrap_or(0);
        let ahead = *self.ahead.get_or_insert_with(|| difference(ts_ns, steady));
        let expected = steady.saturating_add_signed(ahead);
        let fits = |place: u64| {
            place <= expected.saturating_add(LIVE_AHEAD_NS)
                && place.saturating_add(LIVE_BEHIND_NS) >= expected
        };
        if fits(place) {
            return place;
        }
        // Frames that came before it was set may still wait in a ring: each would else count as a step back.
        if let Some((offset, until)) = self.before
            && steady <= until
            && fits(ts_ns.saturating_add_signed(offset))
        {
            return ts_ns.saturating_add_signed(offset);
        }
        // The machine's clock shows another time than the one that has passed.
        self.step = Some(difference(place, expected));
        self.before = Some((self.offset, steady.saturating_add(LIVE_BEFORE_STEP_NS)));
        self.offset = difference(expected, ts_ns);
        expected
    }
}

/// The clock of all frames of a run, in their order.
#[derive(Clone, Debug, Default)]
pub struct AgreedClock {
    now: Option<u64>,
    /// Offset to add to the times of each known clock, the latest in use first.
    offsets: [i64; CLOCKS_KNOWN],
    clocks: usize,
    waiting: Option<Off>,
    counts: ClockCounts,
    live: LiveTimes,
}

impl AgreedClock {
    /// The irregularities so far.
    pub fn counts(&self) -> ClockCounts {
        let mut counts = self.counts;
        if let Some(Off::Ahead(n) | Off::Behind(n)) = self.waiting {
            counts.strays += n;
        }
        counts
    }

    /// The clock at the last frame, if there was one.
    pub fn latest(&self) -> Option<Agreed> {
        Some(Agreed { ns: self.now?, is_leap: false })
    }

    /// Says what a clock shows that nobody sets, in nanoseconds since any moment: by it a step of the machine's own
    /// clock is distinguished from time that passes.
    pub fn set_steady(&mut self, steady_ns: u64) {
        self.live.steady_ns = Some(steady_ns);
    }

    /// By how much the machine's clock was set since the last question, in nanoseconds, if so.
    pub fn take_step(&mut self) -> Option<i64> {
        self.live.step.take()
    }

    /// The clock at a frame of an interface: the kernel's own time, which needs no other frame to agree, but never
    /// goes back. Where the machine's clock was set, it continues as if that had not been.
    #[inline]
    pub fn at_live(&mut self, ts_ns: u64) -> Agreed {
        let now = self.now.unwrap_or(0);
        let ns = now.max(self.live.place(ts_ns));
        self.now = Some(ns);
        self.clocks = self.clocks.max(1);
        Agreed { ns, is_leap: false }
    }

    /// The time that the machine's clock means, on the scale of [`AgreedClock::at_live`]; the clock stays.
    pub fn live_time(&mut self, ts_ns: u64) -> u64 {
        self.live.place(ts_ns)
    }

    /// The clock at the next frame, whose own time is `ts_ns`. `later` has the known times of the
    /// frames after it; `is_all` means that nothing comes after them. Returns `None` if more of
    /// them must be known: call it again then.
    #[inline]
    pub fn at(
        &mut self,
        ts_ns: u64,
        later: impl Iterator<Item = u64>,
        is_all: bool,
    ) -> Option<Agreed> {
        if let Some(now) = self.now
            && self.waiting.is_none()
            && let Some(place) = ts_ns.checked_add_signed(self.offsets[0])
            && fits(now, place)
        {
            let now = now.max(place);
            self.now = Some(now);
            return Some(Agreed { ns: now, is_leap: false });
        }
        self.decide(ts_ns, later, is_all)
    }

    fn decide(
        &mut self,
        ts_ns: u64,
        later: impl Iterator<Item = u64>,
        is_all: bool,
    ) -> Option<Agreed> {
        let Some(now) = self.now else {
            self.now = Some(ts_ns);
            self.clocks = 1;
            return Some(Agreed { ns: ts_ns, is_leap: false });
        };
        if let Some(place) = self.follow(now, ts_ns) {
            self.reject_waiting();
            let now = now.max(place);
            self.now = Some(now);
            return Some(Agreed { ns: now, is_leap: false });
        }
        let is_ahead = self.is_ahead(now, ts_ns);
        let before = match self.waiting {
            Some(Off::Ahead(n)) if is_ahead => n,
            Some(Off::Behind(n)) if !is_ahead => n,
            _ => 0,
        };
        if before == 0 {
            self.reject_waiting();
        }
        // Exactly `wanted` frames are examined, so that further known frames do not change the
        // result.
        let wanted = AGREEING_FRAMES.saturating_sub(before as usize);
        let (mut agree, mut earliest) = (0, ts_ns);
        for other in later.take(wanted) {
            let is_off = self.place(now, other).is_none();
            if !is_off
                || self.is_ahead(now, other) != is_ahead
                || other < ts_ns.saturating_sub(LATE_NS)
            {
                self.reject_waiting();
                self.counts.strays += 1;
                return Some(Agreed { ns: now, is_leap: false });
            }
            agree += 1;
            earliest = earliest.min(other);
        }
        if agree < wanted && !is_all {
            return None;
        }
        // At the end of the input fewer frames are enough, but at least one must agree.
        if agree == 0 && before == 0 {
            self.waiting = Some(if is_ahead { Off::Ahead(1) } else { Off::Behind(1) });
            return Some(Agreed { ns: now, is_leap: false });
        }
        self.waiting = None;
        if is_ahead {
            let place = earliest.saturating_add_signed(self.offsets[0]).max(now);
            let is_leap = place - now >= LEAP_NS;
            self.counts.leaps += u64::from(is_leap);
            self.now = Some(place);
            return Some(Agreed { ns: place, is_leap });
        }
        self.counts.steps_back += 1;
        self.clocks = (self.clocks + 1).min(CLOCKS_KNOWN);
        self.offsets.rotate_right(1);
        self.offsets[0] = i64::try_from(i128::from(now) - i128::from(earliest)).unwrap_or(i64::MAX);
        Some(Agreed { ns: now, is_leap: false })
    }

    /// The time of a frame by a known clock, if it fits; that clock comes first from now on.
    fn follow(&mut self, now: u64, ts_ns: u64) -> Option<u64> {
        let (clock, place) = self.place(now, ts_ns)?;
        self.offsets[..=clock].rotate_right(1);
        Some(place)
    }

    /// The first known clock by which a frame fits, and its time by that clock.
    fn place(&self, now: u64, ts_ns: u64) -> Option<(usize, u64)> {
        let clocks = self.offsets.iter().take(self.clocks).enumerate();
        clocks
            .filter_map(|(n, offset)| Some((n, ts_ns.checked_add_signed(*offset)?)))
            .find(|(_, place)| fits(now, *place))
    }

    fn is_ahead(&self, now: u64, ts_ns: u64) -> bool {
        ts_ns.saturating_add_signed(self.offsets[0]) > now
    }

    /// Counts the frames that waited for agreement as stray.
    fn reject_waiting(&mut self) {
        if let Some(Off::Ahead(n) | Off::Behind(n)) = self.waiting.take() {
            self.counts.strays += n;
        }
    }
}

/// Whether a frame at this time is accepted without the agreement of others.
#[inline]
fn fits(now: u64, place: u64) -> bool {
    place <= now.saturating_add(STEP_NS) && place >= now.saturating_sub(LATE_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// A clock that is set by an hour, in either direction, moves no timer; frames of before that come after it neither.
    #[test]
    fn the_machines_clock_may_be_set_while_an_interface_is_read() {
        const HOUR: i64 = 3600 * S as i64;
        for step in [HOUR, -HOUR] {
            let mut clock = AgreedClock::default();
            let start = 1_700_000_000 * S;
            let mut at = |steady: u64, set: i64| {
                clock.set_steady(steady);
                let ts = (start + steady).saturating_add_signed(set);
                (clock.at_live(ts).ns - start, clock.take_step())
            };
            assert_eq!(at(0, 0), (0, None));
            assert_eq!(at(5 * S, 0), (5 * S, None));
            assert_eq!(at(6 * S, step), (6 * S, Some(step)));
            assert_eq!(at(7 * S, step), (7 * S, None));
            // Frames that were still in the ring, next to the machine's new time: it was set once.
            for steady in [8 * S, 9 * S] {
                assert_eq!(at(steady, 0), (steady, None));
                assert_eq!(at(steady, step), (steady, None));
            }
            // Later it may be set back, which is another step.
            assert_eq!(at(30 * S, 0), (30 * S, Some(-step)));
            assert_eq!(at(31 * S, 0), (31 * S, None));
        }
        // Frames that waited while the program was stopped are no step.
        let mut clock = AgreedClock::default();
        clock.set_steady(0);
        clock.at_live(100 * S);
        clock.set_steady(30 * S);
        assert_eq!((clock.at_live(101 * S).ns, clock.take_step()), (101 * S, None));
        assert_eq!(clock.at_live(130 * S).ns, 130 * S);
    }

    /// The clock at each frame, with the frames in blocks of these lengths in turn.
    fn clock(times: &[u64], blocks: &[usize]) -> (Vec<Agreed>, ClockCounts) {
        let mut clock = AgreedClock::default();
        let mut out = Vec::new();
        let mut known = 0;
        let mut lengths = blocks.iter().cycle();
        for (n, ts) in times.iter().enumerate() {
            known = known.max(n + 1);
            let agreed = loop {
                let later = times[n + 1..known].iter().copied();
                match clock.at(*ts, later, known == times.len()) {
                    Some(agreed) => break agreed,
                    None => known = (known + lengths.next().unwrap()).min(times.len()),
                }
            };
            out.push(agreed);
        }
        (out, clock.counts())
    }

    fn shown(times: &[u64]) -> Vec<u64> {
        let (whole, counts) = clock(times, &[usize::MAX / 2]);
        for blocks in [&[1][..], &[2], &[3, 1]] {
            assert_eq!(clock(times, blocks), (whole.clone(), counts), "{times:?}");
        }
        assert!(whole.is_sorted_by_key(|a| a.ns));
        whole.iter().map(|a| a.ns).collect()
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040);
            (self.0 >> 33) % n
        }

        /// Times in order, with pauses of up to hours.
        fn times(&mut self, n: usize) -> Vec<u64> {
            let mut now = 1_700_000_000 * S;
            (0..n)
                .map(|_| {
                    now += match self.below(8) {
                        0 => self.below(20_000) * S,
                        1 => self.below(3 * S),
                        _ => self.below(S / 100),
                    };
                    now
                })
                .collect()
        }
    }

    #[test]
    fn times_in_order_are_shown_as_they_are() {
        let mut random = Random(1);
        for _ in 0..200 {
            let mut times = random.times(60);
            // No frame agrees with a last frame after a pause.
            times.push(times[59]);
            assert_eq!(shown(&times), times);
        }
    }

    #[test]
    fn a_frame_with_a_wrong_time_does_not_move_the_clock() {
        let mut random = Random(2);
        for _ in 0..2_000 {
            let times = random.times(40);
            let at = 1 + random.below(38) as usize;
            let size = random.below(30);
            let off = 2 + random.below(1 << size);
            let stray = match random.below(2) {
                0 => times[at] + off * S,
                _ => times[at].saturating_sub(off * S),
            };
            let mut with = times.clone();
            with.insert(at, stray);
            let mut clock = shown(&with);
            let at_stray = clock.remove(at);
            // The wrong time may be inside a pause that follows, where it is as plausible as any
            // other.
            if stray > times[at] {
                assert_eq!(clock, shown(&times), "{stray} at {at} of {times:?}");
                assert!(at_stray <= times[at]);
            }
        }
    }

    #[test]
    fn the_last_frame_alone_is_not_accepted_and_the_next_capture_may_agree() {
        assert_eq!(shown(&[S, S + 5, 700 * S]), [S, S + 5, S + 5]);
        let mut clock = AgreedClock::default();
        let mut one = |s: u64| clock.at(s * S, std::iter::empty(), true).unwrap();
        // Captures of one frame each: each agrees with the one before.
        assert_eq!(one(100).ns, 100 * S);
        assert_eq!(one(800), Agreed { ns: 100 * S, is_leap: false });
        assert_eq!(one(801), Agreed { ns: 801 * S, is_leap: true });
        assert_eq!(one(2_000).ns, 801 * S);
        assert_eq!(one(802).ns, 802 * S, "the frame was stray");
        assert_eq!(clock.counts(), ClockCounts { leaps: 1, strays: 1, steps_back: 0 });
    }

    #[test]
    fn two_alternating_clocks_leap_once() {
        let mut times = Vec::new();
        for n in 0..200 {
            let other = if n / 10 % 2 == 0 { 0 } else { 700 * S };
            times.push(1_000 * S + other + n * S / 10);
        }
        times.extend([1_021 * S, 1_022 * S]);
        let (agreed, counts) = clock(&times, &[7]);
        assert_eq!(counts, ClockCounts { leaps: 1, strays: 0, steps_back: 1 });
        // Twenty seconds passed, and the leap, which looks like a pause.
        assert!((720 * S..723 * S).contains(&(agreed.last().unwrap().ns - 1_000 * S)));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let mut random = Random(3);
        let extremes = [0, 1, S, u64::MAX, u64::MAX - 1, i64::MAX as u64, 1 << 63];
        for _ in 0..5_000 {
            let times: Vec<u64> = (0..12)
                .map(|_| match random.below(2) {
                    0 => extremes[random.below(extremes.len() as u64) as usize],
                    _ => random.below(10) * 20 * S,
                })
                .collect();
            shown(&times);
        }
    }
}

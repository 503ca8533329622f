//! A virtual shard: the profiles of a fixed part of all addresses, with a budget of its own.
//!
//! Budgets belong to shards and not to threads, and a shard sees its records in the order of all, so
//! what is folded or reported does not depend on how many threads hold shards, nor on which shard is
//! where. A shard moves as a whole.

use crate::fold_order::{FoldOrder, Folded, NotableFolded, Shown};
use crate::limits::{FOLD_LOOKS, QUIET_KEPT_BYTES, SHARD_BYTES_LEAST, SHARDS_MAX, reached};
use crate::outlet::{Mode, Outlet, Whole};
use crate::prevalence::Prevalence;
use crate::profile::{NEVER, Profile, close, first, step, wake};
use crate::seeds::{Seed, Seeds};
use crate::settings::Settings;
use crate::site::{Facts, window_of};
use crate::sketch::{hash_ip, mix};
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, ReportReason};
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::logs::{Body, Record, TimeNs};
use gabion_record::saved;
use hashbrown::HashMap;
use std::collections::VecDeque;

/// How many shards a budget is parted into: a power of two, so that each has space for what a profile
/// at its largest needs.
pub(crate) fn shards_of(bytes: usize) -> usize {
    let most = (bytes / SHARD_BYTES_LEAST).clamp(1, SHARDS_MAX);
    if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 }
}

/// The shard of an address among `shards`.
#[inline]
pub fn shard_of(ip: Ip, shards: usize) -> usize {
    // The high half: seeds take their place by the low one.
    (mix(hash_ip(ip)) >> 32) as usize % shards.max(1)
}

/// What shards count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardCounts {
    /// Profiles made: sources of flows and other records.
    pub profiles: u64,
    /// Sources of flows.
    pub sources: u64,
    /// Evidence at first records of constantly changing sources that was only counted.
    pub crowded: u64,
    /// Sources folded into a sketch for want of room.
    pub folded: u64,
    /// Of these, profiles of the site's own addresses and of addresses that were active over minutes.
    pub folded_notable: NotableFolded,
    /// Profiles that were looked at to find those to fold: work that a flood causes.
    pub fold_looks: u64,
}

/// The shard.
#[derive(Debug)]
pub struct Shard {
    profiles: HashMap<Ip, Box<Profile>, FixedState>,
    /// The order of eviction.
    order: FoldOrder,
    /// Bytes of all profiles, as weighed.
    weight: usize,
    weight_max: usize,
    seeds: Seeds,
    /// What was found.
    out: Outlet,
    /// Sources: come, gone with their windows, folded, held.
    ledger: Ledger,
    counts: ShardCounts,
    swept: i64,
    /// Profiles to be handed over as they were at the end of their windows, if they are still here.
    waiting: VecDeque<Ip>,
    /// And who went with its window.
    #[expect(clippy::vec_box, reason = "they leave the table as they stand in it")]
    gone: Vec<Box<Profile>>,
    /// Handed over.
    kept: Vec<Kept>,
}

/// A profile that leaves with its window, or is to be kept as it is at a window's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Whose it is.
    pub ip: Ip,
    /// Its window then.
    pub window: i64,
    /// Its encoding.
    pub bytes: Vec<u8>,
}

saved! { ShardCounts { profiles, sources, crowded, folded, folded_notable, fold_looks } }

saved! {
    Shard {
        profiles, order, weight, weight_max, seeds, out, ledger, counts, swept;
        waiting = VecDeque::new(), gone = Vec::new(), kept = Vec::new(),
    }
}

impl Shard {
    /// Makes a shard of a checkpoint fit the room that `fresh` was made with: what another budget had more
    /// room for is folded.
    pub(crate) fn fit(&mut self, fresh: Shard) {
        self.weight_max = fresh.weight_max;
        self.out.fit(&fresh.out);
        if !self.seeds.bounded_as(&fresh.seeds) {
            let seeds = std::mem::replace(&mut self.seeds, fresh.seeds);
            seeds.each().for_each(|seed| self.put_seed(seed));
        }
        while self.weight > self.weight_max && self.fold_one(&mut |_| {}) {}
    }

    /// Takes what another shard counted, and gives what it held: for shards of another number.
    #[expect(clippy::vec_box, reason = "they leave the table as they stand in it")]
    pub(crate) fn take_over(
        &mut self,
        other: Shard,
    ) -> (Vec<Box<Profile>>, impl Iterator<Item = Seed> + use<>) {
        self.ledger.merge(&other.ledger);
        self.counts.merge(&other.counts);
        self.out.crowd.unreported += other.out.crowd.unreported;
        self.swept = self.swept.max(other.swept);
        let mut profiles = other.profiles;
        let held = other.order.each().filter_map(|(_, ip)| profiles.remove(&ip)).collect();
        let seeds: Vec<Seed> = other.seeds.each().collect();
        (held, seeds.into_iter())
    }

    /// Takes in a profile of a shard of another number of shards.
    pub(crate) fn take_profile(&mut self, profile: Box<Profile>) {
        self.weight += profile.weighed;
        self.order.push(profile.tier, profile.ip(), profile.weighed);
        self.profiles.insert(profile.ip(), profile);
        while self.weight > self.weight_max && self.fold_one(&mut |_| {}) {}
    }

    /// The latest window that has begun.
    pub(crate) fn window(&self) -> i64 {
        self.swept
    }

    /// Takes in a seed; what it pushes out is folded.
    pub(crate) fn put_seed(&mut self, seed: Seed) {
        if self.seeds.put(seed) {
            self.counts.folded += 1;
            self.ledger.shed(ShedReason::ProfileFolded, 1, 0);
        }
    }

    /// One of a number of shards, with its bytes for seeds (at most half of them) and profiles, made in a window.
    pub fn new(shards: usize, bytes: usize, window: i64) -> Shard {
        Shard {
            profiles: HashMap::default(),
            order: FoldOrder::default(),
            weight: 0,
            weight_max: bytes / 2,
            seeds: Seeds::new(bytes / 2),
            out: Outlet::of_shards(shards),
            ledger: Ledger::new(),
            counts: ShardCounts::default(),
            swept: window,
            waiting: VecDeque::new(),
            gone: Vec::new(),
            kept: Vec::new(),
        }
    }

    /// Prefetches where an address without a profile has its seed.
    #[inline]
    pub fn prefetch(&self, ip: Ip) -> usize {
        self.seeds.prefetch(ip)
    }

    /// Gives a record to an address's profile. The moment it wants to be asked, when that is new.
    #[inline]
    pub fn give_record(
        &mut self,
        ip: Ip,
        r: &Record<'_>,
        facts: &Facts,
        settings: &Settings,
    ) -> Option<TimeNs> {
        self.out.begin(settings);
        let Some(profile) = self.profiles.get_mut(&ip) else {
            return self.first(ip, r, facts, settings);
        };
        if profile.flows() == 0 && matches!(r.body, Body::Conn(_)) {
            self.counts.sources += 1;
        }
        hand_over(profile, &mut self.kept);
        let before = profile.timer();
        let after = step(profile, &[(r, facts)], settings, &mut self.out);
        if profile.is_to_weigh() {
            let bytes = profile.bytes();
            let weighed = std::mem::replace(&mut profile.weighed, bytes);
            self.order.reweigh(profile.tier, weighed, bytes);
            self.weight = self.weight + bytes - weighed;
        }
        self.make_room(facts.watermark, settings);
        (after < before).then_some(after)
    }

    /// A record of an address without a profile: it becomes a seed, or a profile when it has been
    /// seen before, says more than a seed can hold, or something was found that may be reported: a reader of
    /// that report then asks what else the source did.
    fn first(
        &mut self,
        ip: Ip,
        r: &Record<'_>,
        facts: &Facts,
        settings: &Settings,
    ) -> Option<TimeNs> {
        let seed = if ip == r.src { self.seeds.take_seed(ip) } else { None };
        if seed.is_none() {
            self.ledger.receive(1, 0);
            self.counts.profiles += 1;
            self.counts.sources += u64::from(matches!(r.body, Body::Conn(_)));
        }
        let is_again = seed.is_some() || self.seeds.was_folded(ip);
        let packed = if !is_again && ip == r.src { Seed::from_record(r) } else { None };
        self.out.mode = if is_again { Mode::All } else { Mode::First };
        let before = self.out.found.len();
        if let Some(flow) = packed
            && !facts.is_answer
            && !facts.is_routine
        {
            let mut small = Profile::new(ip);
            let timer = first(&mut small, (r, facts), settings, &mut self.out);
            self.out.mode = Mode::All;
            if timer == NEVER && !self.out.has_whole(before) {
                self.put_seed(flow);
                return None;
            }
            small.remember(flow);
            self.add(Box::new(small), facts, settings);
            return (timer != NEVER).then_some(timer);
        }
        let mut profile = Box::new(Profile::new(ip));
        if let Some(seed) = &seed {
            let earlier = seed.record();
            let window = window_of(facts.start, earlier.ts, settings);
            if window >= facts.window - 1 {
                // Its evidence was reported when the record came.
                let facts = Facts { window, prevalence: Prevalence::default(), ..*facts };
                let mode = std::mem::replace(&mut self.out.mode, Mode::Muted);
                step(&mut profile, &[(&earlier, &facts)], settings, &mut self.out);
                self.out.mode = mode;
            }
        }
        let timer = step(&mut profile, &[(r, facts)], settings, &mut self.out);
        self.out.mode = Mode::All;
        if timer == NEVER
            && let Some(flow) = packed
            && !self.out.has_whole(before)
        {
            self.put_seed(flow);
            return None;
        }
        self.add(profile, facts, settings);
        (timer != NEVER).then_some(timer)
    }

    /// Puts in a profile that was not there.
    fn add(&mut self, mut profile: Box<Profile>, facts: &Facts, settings: &Settings) {
        // Room for one that comes is made by one that has gone, however many come before their turn.
        if let Some(mut gone) = self.gone.pop() {
            hand_over(&mut gone, &mut self.kept);
        }
        let ip = profile.ip();
        profile.weighed = profile.bytes();
        self.weight += profile.weighed;
        profile.is_own = settings.is_own(ip);
        profile.tier = shown(&profile).tier();
        self.order.push(profile.tier, ip, profile.weighed);
        self.profiles.insert(ip, profile);
        self.make_room(facts.watermark, settings);
    }

    /// Folds profiles while there are too many.
    #[inline]
    fn make_room(&mut self, now: TimeNs, settings: &Settings) {
        if self.weight > self.weight_max {
            let (mut found, mut whole) = (self.out.drain_evidence(), Whole::default());
            self.out.swap_whole(&mut whole);
            let last = &mut |p: &mut Profile| last_numbers(p, now, settings, (&whole, &mut found));
            while self.weight > self.weight_max && self.fold_one(last) {}
            self.out.swap_whole(&mut whole);
            self.out.found = found;
        }
    }

    /// Folds a profile of the lowest tier that has more than its share: of a few that have waited longest, the
    /// one that has shown least. Those of them that have come to a higher tier go there. `false` when
    /// there is none. What it has found grows no more: `last` says its last numbers.
    fn fold_one(&mut self, last: &mut dyn FnMut(&mut Profile)) -> bool {
        let Some(tier) = self.order.next_tier(self.weight_max) else { return false };
        let mut least: Option<(u64, TimeNs, Ip)> = None;
        for _ in 0..FOLD_LOOKS {
            let Some(ip) = self.order.pop(tier) else { break };
            self.counts.fold_looks += 1;
            let Some(profile) = self.profiles.get_mut(&ip) else { continue };
            let now = shown(profile).tier();
            if now != tier {
                self.order.reweigh(tier, profile.weighed, 0);
                profile.tier = now;
                self.order.push(now, ip, profile.weighed);
                continue;
            }
            let its = (profile.shown(), profile.last(), ip);
            match least {
                Some(l) if (l.0, l.1) <= (its.0, its.1) => self.order.put_back(tier, ip),
                _ => {
                    if let Some((_, _, other)) = least.replace(its) {
                        self.order.put_back(tier, other);
                    }
                }
            }
        }
        if let Some((_, _, ip)) = least
            && let Some(mut profile) = self.profiles.remove(&ip)
        {
            self.weight = self.weight.saturating_sub(profile.weighed);
            self.order.reweigh(tier, profile.weighed, 0);
            hand_over(&mut profile, &mut self.kept);
            if shown(&profile).is_notable() {
                self.counts.folded_notable.add(Folded { shown: profile.shown(), ip });
            }
            last(profile.as_mut());
            self.seeds.fold(ip);
            self.counts.folded += 1;
            self.ledger.shed(ShedReason::ProfileFolded, 1, 0);
        }
        true
    }

    /// Adds what was found here to `found`.
    #[inline]
    pub fn take_found(&mut self, found: &mut Vec<Evidence>) {
        if !self.out.found.is_empty() {
            self.state();
            if found.is_empty() {
                std::mem::swap(found, &mut self.out.found)
            } else {
                found.append(&mut self.out.found)
            }
        }
    }

    /// Notes in the findings how much had been evicted by then.
    fn state(&mut self) {
        if self.counts.folded > 0 {
            let (folded, notable) = (self.counts.folded, self.counts.folded_notable.count);
            for e in self.out.found.iter_mut().filter(|e| e.why != ReportReason::Counted) {
                e.input_state = match notable {
                    0 => format!("{folded} sources of its shard folded"),
                    _ => format!(
                        "{folded} sources of its shard folded, {notable} of them own or active over minutes"
                    ),
                };
            }
        }
    }

    /// Asks a profile whose moment has come; the next one.
    pub fn wake(
        &mut self,
        ip: Ip,
        second: i64,
        now: TimeNs,
        is_end: bool,
        settings: &Settings,
    ) -> Option<TimeNs> {
        self.out.begin(settings);
        let profile = self.profiles.get_mut(&ip)?;
        if !is_end && profile.timer().seconds() > second {
            return None;
        }
        hand_over(profile, &mut self.kept);
        let next = wake(profile, now, is_end, settings, &mut self.out);
        (next != NEVER && !is_end).then_some(next)
    }

    /// Windows are over, or the input is: reports the last numbers of what has grown in them, from the oldest window on
    /// that is still reported. Profiles that were not seen since window `gone` are evicted next
    /// ([`Shard::sweep`]): theirs are the last for good.
    pub fn close(
        &mut self,
        (oldest, gone): (i64, i64),
        now: TimeNs,
        is_end: bool,
        settings: &Settings,
        found: &mut Vec<Evidence>,
    ) {
        let whole = self.out.whole();
        for profile in self.profiles.values_mut().filter(|p| p.findings() > 0) {
            let goes = profile.window() < gone && profile.timer() == NEVER;
            close(profile, (oldest, now), is_end || goes, settings, (whole, found));
        }
    }

    /// A later window has begun: evicts profiles that have not been seen in it and the one
    /// before. With `keeps`, what profiles are at the end of their windows is to be handed over
    /// ([`Shard::hand_over`]).
    pub fn sweep(&mut self, window: i64, keeps: bool) {
        if window <= self.swept {
            return;
        }
        while self.hand_over() {}
        if keeps {
            for ip in self.chosen() {
                if let Some(profile) = self.profiles.get_mut(&ip) {
                    profile.is_to_keep = true;
                    self.waiting.push_back(ip);
                }
            }
        }
        if window > self.swept + 1 {
            let gone = self.seeds.clear();
            self.ledger.pass(gone, 0);
        }
        self.swept = window;
        let before = self.profiles.len();
        let (weight, gone, order) = (&mut self.weight, &mut self.gone, &mut self.order);
        let leave = |p: &Profile| p.window() < window - 1 && p.timer() == NEVER;
        for (_, profile) in self.profiles.extract_if(|_, p| leave(p)) {
            *weight = weight.saturating_sub(profile.weighed);
            order.reweigh(profile.tier, profile.weighed, 0);
            if profile.is_to_keep {
                gone.push(profile);
            }
        }
        // In an order that does not hang on where they stood.
        gone.sort_unstable_by_key(|p| p.ip());
        let profiles = &self.profiles;
        self.order.retain(|ip| profiles.contains_key(ip));
        self.ledger.pass((before - self.profiles.len()) as u64, 0);
    }

    /// Profiles to be kept as they are now, in order of addresses: all with findings, and of the others
    /// that were seen in the latest window as many as there is room for, those who did most first. Not
    /// again who did nothing since it was kept.
    fn chosen(&self) -> Vec<Ip> {
        let (mut chosen, mut quiet) = (Vec::new(), Vec::new());
        for (ip, profile) in self.profiles.iter().filter(|(_, p)| p.shown() != p.kept_at) {
            if profile.findings() > 0 {
                chosen.push(*ip);
            } else if profile.window() >= self.swept {
                quiet.push((std::cmp::Reverse(profile.records()), *ip));
            }
        }
        quiet.sort_unstable();
        let mut room = QUIET_KEPT_BYTES;
        let mut bytes = Vec::new();
        let all = quiet.len();
        for (at, (_, ip)) in quiet.into_iter().enumerate() {
            let Some(profile) = self.profile(ip) else { continue };
            bytes.clear();
            profile.encode(&mut bytes);
            let Some(left) = room.checked_sub(bytes.len()) else {
                reached::QUIET_KEPT_BYTES.count_times((all - at) as u64);
                break;
            };
            room = left;
            chosen.push(ip);
        }
        chosen.sort_unstable();
        chosen
    }

    /// Hands the next profile over that waits for it; `false` when none does. So few at a time that
    /// the profiles of a window are never held twice; a profile that gets a record before is handed over first.
    pub fn hand_over(&mut self) -> bool {
        if let Some(mut profile) = self.gone.pop() {
            hand_over(&mut profile, &mut self.kept);
            return true;
        }
        let Some(ip) = self.waiting.pop_front() else { return false };
        if let Some(profile) = self.profiles.get_mut(&ip) {
            hand_over(profile, &mut self.kept);
        }
        true
    }

    /// Hands all over that waits, and what profiles are at the end of the run.
    pub fn keep_rest(&mut self) {
        while self.hand_over() {}
        for ip in self.chosen() {
            if let Some(profile) = self.profiles.get_mut(&ip) {
                profile.is_to_keep = true;
                hand_over(profile, &mut self.kept);
            }
        }
    }

    /// Whether something was handed over.
    #[inline]
    pub fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Takes what was handed over.
    #[inline]
    pub fn take_kept(&mut self, to: &mut Vec<Kept>) {
        to.append(&mut self.kept);
    }

    /// What was counted so far.
    pub fn counts(&self) -> ShardCounts {
        ShardCounts { crowded: self.out.crowd.unreported, ..self.counts }
    }

    /// Sources: come, gone with their windows, folded, held now.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        ledger.set_in_flight(self.profiles.len() as u64 + self.seeds.held(), 0);
        ledger
    }

    /// A profile, to look at.
    pub fn profile(&self, ip: Ip) -> Option<&Profile> {
        self.profiles.get(&ip).map(|p| &**p)
    }

    /// All profiles, in no order.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values().map(|p| &**p)
    }

    /// Bytes of profiles, as weighed.
    pub fn weight(&self) -> usize {
        self.weight
    }
}

/// What decides when a profile is folded.
fn shown(profile: &Profile) -> Shown {
    let (is_own, findings) = (profile.is_own, profile.findings());
    Shown { is_own, active_minutes: profile.active_minutes(), findings }
}

/// Says the last numbers of what a profile that goes has found.
fn last_numbers(
    profile: &mut Profile,
    now: TimeNs,
    settings: &Settings,
    found: (&Whole, &mut Vec<Evidence>),
) {
    if profile.findings() > 0 {
        close(profile, (i64::MIN, now), true, settings, found);
    }
}

/// Encodes a profile that is to be kept, once.
#[inline]
fn hand_over(profile: &mut Profile, kept: &mut Vec<Kept>) {
    if profile.is_to_keep {
        kept.push(encoded(profile));
    }
}

#[cold]
fn encoded(profile: &mut Profile) -> Kept {
    profile.is_to_keep = false;
    profile.kept_at = profile.shown();
    let mut bytes = Vec::new();
    profile.encode(&mut bytes);
    Kept { ip: profile.ip(), window: profile.window(), bytes }
}

//! Shards that one thread holds, and the moments their profiles want to be asked.
//!
//! What is found carries its place in the order of all findings ([`Place`]), so that findings of
//! several holders are merged to what one holder alone would have said, in the same order.

use crate::ahead::Ahead;
use crate::intel::Intel;
use crate::limits::{KEEP_EVERY, KEPT_TOGETHER_BYTES, TOGETHER};
use crate::profile::Profile;
use crate::settings::Settings;
use crate::shard::{Kept, Shard, ShardCounts, shard_of, shards_of};
use crate::site::Facts;
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, FindingId};
use gabion_record::ledger::Ledger;
use gabion_record::logs::{Record, SECOND, TimeNs};
use gabion_record::saved::Saved;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a finding stands among all: by the watermark's second, there findings of moments that have
/// come before those of records, then the record's number, then the finding's own time and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    second: i64,
    record: u64,
    /// The last numbers of windows that are over come before what the record says.
    is_found: bool,
    ts: TimeNs,
    id: FindingId,
}

impl Place {
    /// Of a finding: after that record, or among what was asked for before that second.
    pub(crate) fn from_evidence(second: i64, record: u64, e: &Evidence) -> Place {
        let is_found = !e.why.is_last();
        Place { second, record, is_found, ts: e.ts, id: e.report_id }
    }

    /// Whether it comes after the last numbers of windows that ended with that record.
    pub(crate) fn is_behind(&self, record: (i64, u64)) -> bool {
        (self.second, self.record, self.is_found) > (record.0, record.1, false)
    }

    /// Whether nothing comes after it.
    pub(crate) fn is_end(&self) -> bool {
        self.second == i64::MAX
    }

    /// The last record that it may know of: the watermark's second there, and the record's number.
    pub(crate) fn behind(&self) -> (i64, u64) {
        (self.second, self.record)
    }
}

/// A finding on its way.
#[derive(Clone, Debug)]
pub struct Placed {
    /// Where it stands.
    pub place: Place,
    /// What it says.
    pub evidence: Evidence,
}

/// Which ends of a record have their profile here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// The end that began it.
    Source,
    /// The other end.
    Destination,
    /// Both.
    Both,
}

/// The shards.
#[derive(Debug)]
pub struct Shards {
    settings: Arc<Settings>,
    /// Made when first needed.
    held: Vec<Option<Box<Shard>>>,
    bytes_each: usize,
    /// Profiles that want to be asked, by second.
    timers: BTreeMap<i64, Vec<Ip>>,
    found: Vec<Evidence>,
    /// The latest window that has begun.
    window: i64,
    /// Profiles at the end of their windows, when they are to be kept.
    keeping: Option<Keeping>,
}

/// Profiles of windows that have ended, on their way out.
#[derive(Debug, Default)]
struct Keeping {
    kept: Vec<Kept>,
    bytes: usize,
    /// The shard whose profiles are handed over next; after the last one when none waits.
    next: usize,
    /// Records since the run began, while profiles waited.
    records: u64,
}

impl Shards {
    /// All shards of a budget of this many bytes.
    pub fn new(settings: Arc<Settings>, bytes: usize) -> Shards {
        let count = shards_of(bytes);
        Shards {
            settings,
            held: (0..count).map(|_| None).collect(),
            bytes_each: bytes / count,
            timers: BTreeMap::new(),
            found: Vec::new(),
            window: 0,
            keeping: None,
        }
    }

    /// Puts other lists of what is bad in the place of those before.
    pub fn set_intel(&mut self, intel: Arc<Intel>) {
        Arc::make_mut(&mut self.settings).intel = intel;
    }

    /// Keeps what profiles are at the end of their windows for [`Shards::take_kept`].
    pub fn keep_windows(&mut self) {
        let next = self.held.len();
        self.keeping = Some(Keeping { next, ..Keeping::default() });
    }

    /// Whether enough profiles wait to be worth taking, or no more will come.
    #[inline]
    pub fn has_kept(&self) -> bool {
        self.keeping.as_ref().is_some_and(|keeping| {
            keeping.bytes >= KEPT_TOGETHER_BYTES
                || (keeping.bytes > 0 && keeping.next >= self.held.len())
        })
    }

    /// Profiles of windows that have ended since the last call, as far as their turn has come.
    pub fn take_kept(&mut self) -> Vec<Kept> {
        self.keeping.as_mut().map(Keeping::take_kept).unwrap_or_default()
    }

    /// A record more: now and then one more profile of windows that have ended is handed over.
    #[inline]
    fn hand_over(&mut self) {
        if let Some(keeping) = &mut self.keeping
            && keeping.next < self.held.len()
        {
            keeping.records += 1;
            if keeping.records.is_multiple_of(KEEP_EVERY) {
                keeping.hand_over(&mut self.held);
            }
        }
    }

    /// How many shards there are, held here or elsewhere.
    pub fn count(&self) -> usize {
        self.held.len()
    }

    /// Takes a record in.
    #[inline]
    pub fn record(
        &mut self,
        number: u64,
        r: &Record<'_>,
        facts: &Facts,
        ends: Ends,
        out: &mut Vec<Placed>,
    ) {
        self.begin(facts.newest, number, facts.watermark, out);
        if ends != Ends::Destination {
            self.give(r.src, r, facts);
        }
        if ends != Ends::Source {
            self.give(r.dst, r, facts);
        }
        self.place(facts.watermark.seconds(), number, out);
        self.hand_over();
    }

    /// Prefetches the profiles of records that come next, of at most [`TOGETHER`], before any is worked on:
    /// what is not in the cache is fetched for all at once rather than for one after the other.
    #[inline]
    pub fn prefetch(&self, records: impl Iterator<Item = Ahead>) {
        let mut near: [Option<(&Profile, Ahead)>; TOGETHER] = [None; TOGETHER];
        let mut seeds = 0;
        for (place, ahead) in near.iter_mut().zip(records) {
            let shard = self.held.get(shard_of(ahead.src, self.held.len()));
            let Some(Some(shard)) = shard else { continue };
            *place = shard.profile(ahead.src).map(|profile| (profile, ahead));
            if place.is_none() {
                seeds ^= shard.prefetch(ahead.src);
            }
        }
        std::hint::black_box(seeds);
        // The second look needs what the first has fetched.
        let places = near.iter().flatten().fold(0, |sum, (p, _)| sum ^ p.prefetch_places());
        std::hint::black_box(places);
        let touched = near.iter().flatten().fold(0, |sum, (p, _)| sum ^ p.prefetch_states());
        std::hint::black_box(touched);
        let changed = near.iter().flatten().fold(0, |sum, (p, ahead)| sum ^ p.prefetch_flow(ahead));
        std::hint::black_box(changed);
    }

    #[inline]
    fn give(&mut self, ip: Ip, r: &Record<'_>, facts: &Facts) {
        let (count, bytes, window) = (self.held.len(), self.bytes_each, self.window);
        let Some(shard) = self.held.get_mut(shard_of(ip, count)) else { return };
        let shard = shard.get_or_insert_with(|| Box::new(Shard::new(count, bytes, window)));
        let at = shard.give_record(ip, r, facts, &self.settings);
        shard.take_found(&mut self.found);
        if let Some(keeping) = &mut self.keeping {
            keeping.take_from(shard);
        }
        if let Some(at) = at {
            // What is asked for too late is asked for with the next second.
            let second = at.seconds().max(facts.watermark.seconds());
            self.timers.entry(second).or_default().push(ip);
        }
    }

    /// A record with that watermark comes: asks whose moment has come before, and begins its window where
    /// that is a later one.
    #[inline]
    pub fn begin(&mut self, newest: i64, number: u64, watermark: TimeNs, out: &mut Vec<Placed>) {
        if newest > self.window {
            self.turn(newest, number, watermark, out);
        }
        self.fire(watermark, out);
    }

    /// A later window has begun, with that record and watermark. Profiles that are due before it are
    /// asked first, here as with the worker that holds the record's source, so that the same profiles are evicted;
    /// then findings that have grown in the windows before report their last numbers.
    pub fn turn(&mut self, window: i64, number: u64, watermark: TimeNs, out: &mut Vec<Placed>) {
        self.fire(watermark, out);
        // After a checkpoint the window may be the one that was.
        if window <= self.window {
            return;
        }
        self.window = window;
        for shard in self.held.iter_mut().flatten() {
            shard.close(
                (window.saturating_sub(2), window.saturating_sub(1)),
                watermark,
                false,
                &self.settings,
                &mut self.found,
            );
        }
        self.place(watermark.seconds(), number, out);
        for shard in self.held.iter_mut().flatten() {
            shard.sweep(window, self.keeping.is_some());
            if let Some(keeping) = &mut self.keeping {
                keeping.take_from(shard);
            }
        }
        if let Some(keeping) = &mut self.keeping {
            keeping.next = 0;
        }
    }

    /// Asks the profiles whose moment has come before `now`.
    #[inline]
    pub fn fire(&mut self, now: TimeNs, out: &mut Vec<Placed>) {
        while let Some((&second, _)) = self.timers.first_key_value() {
            if second >= now.seconds() {
                return;
            }
            let behind = TimeNs(second.saturating_add(1).saturating_mul(SECOND));
            self.ask(second, behind, false, out);
        }
    }

    /// Asks the profiles of one second.
    fn ask(&mut self, second: i64, now: TimeNs, is_end: bool, out: &mut Vec<Placed>) {
        let Some(mut due) = self.timers.remove(&second) else { return };
        due.sort_unstable();
        due.dedup();
        let count = self.held.len();
        for ip in due {
            let Some(Some(shard)) = self.held.get_mut(shard_of(ip, count)) else { continue };
            let next = shard.wake(ip, second, now, is_end, &self.settings);
            shard.take_found(&mut self.found);
            if let Some(keeping) = &mut self.keeping {
                keeping.take_from(shard);
            }
            if let Some(next) = next {
                self.timers.entry(next.seconds().max(second + 1)).or_default().push(ip);
            }
        }
        self.place(second.saturating_add(1), 0, out);
    }

    /// Ends: all that waits is decided, and what was found goes to `each`, in order. Nearly every profile has
    /// last numbers to say now: they are handed over one by one, and are never here twice.
    pub fn finish(&mut self, end: TimeNs, each: &mut dyn FnMut(Placed)) {
        let mut out = Vec::new();
        while let Some((&second, _)) = self.timers.first_key_value() {
            self.ask(second, end, true, &mut out);
            out.drain(..).for_each(&mut *each);
        }
        for shard in self.held.iter_mut().flatten() {
            shard.close((i64::MIN, i64::MIN), end, true, &self.settings, &mut self.found);
        }
        let found = std::mem::take(&mut self.found);
        let places = found.iter().map(|e| Place::from_evidence(i64::MAX, 0, e)).enumerate();
        let mut order: Vec<(Place, usize)> = places.map(|(at, place)| (place, at)).collect();
        order.sort_unstable();
        let mut found: Vec<Option<Evidence>> = found.into_iter().map(Some).collect();
        for (place, at) in order {
            if let Some(evidence) = found.get_mut(at).and_then(Option::take) {
                each(Placed { place, evidence });
            }
        }
    }

    /// What the profiles of one shard are at the end of the run, when windows are kept: a shard at a time,
    /// so that they are not all held twice.
    pub fn keep_rest(&mut self, shard: usize) -> Vec<Kept> {
        let (Some(keeping), Some(Some(shard))) = (&mut self.keeping, self.held.get_mut(shard))
        else {
            return Vec::new();
        };
        shard.keep_rest();
        keeping.take_from(shard);
        keeping.take_kept()
    }

    /// Gives what was found its place.
    #[inline]
    fn place(&mut self, second: i64, record: u64, out: &mut Vec<Placed>) {
        if self.found.is_empty() {
            return;
        }
        if self.found.len() > 1 {
            self.found.sort_by_key(|e| (!e.why.is_last(), e.ts, e.report_id));
        }
        out.extend(self.found.drain(..).map(|evidence| Placed {
            place: Place::from_evidence(second, record, &evidence),
            evidence,
        }));
    }

    /// Hands over all profiles of windows that have ended: what is saved of shards then is all there is.
    pub fn settle_kept(&mut self) {
        if let Some(keeping) = &mut self.keeping {
            while keeping.next < self.held.len() {
                keeping.hand_over(&mut self.held);
            }
        }
    }

    /// What each shard that is held here is, with its number, for a checkpoint; [`Shards::settle_kept`]
    /// first. A shard at a time, so that they are not all held twice.
    pub fn save(&self, each: &mut dyn FnMut(usize, Vec<u8>)) {
        let count = self.held.len();
        let mut timers: Vec<Vec<(i64, Ip)>> = vec![Vec::new(); count];
        for (second, ips) in &self.timers {
            for ip in ips {
                if let Some(of_shard) = timers.get_mut(shard_of(*ip, count)) {
                    of_shard.push((*second, *ip));
                }
            }
        }
        for (at, (shard, timers)) in self.held.iter().zip(&timers).enumerate() {
            let Some(shard) = shard else { continue };
            let mut out = Vec::new();
            count.save(&mut out);
            shard.save(&mut out);
            timers.save(&mut out);
            each(at, out);
        }
    }

    /// Takes in what [`Shards::save`] gave of a shard; `None` when it is none. With another number of shards
    /// than there was then, its profiles go to the shards that are theirs now.
    pub fn restore(&mut self, number: usize, saved: &[u8]) -> Option<()> {
        let from = &mut { saved };
        let (count, mut shard) = (usize::load(from)?, Box::<Shard>::load(from)?);
        let timers = Vec::<(i64, Ip)>::load(from)?;
        if !from.is_empty() || number >= count {
            return None;
        }
        self.window = self.window.max(shard.window());
        let fresh = Shard::new(self.held.len(), self.bytes_each, self.window);
        if count == self.held.len() {
            shard.fit(fresh);
            *self.held.get_mut(number)? = Some(shard);
        } else {
            let (profiles, seeds) = self.shard(number % self.held.len()).take_over(*shard);
            for profile in profiles {
                self.shard_of(profile.ip()).take_profile(profile);
            }
            seeds.for_each(|seed| self.shard_of(seed.src()).put_seed(seed));
        }
        for (second, ip) in timers {
            self.timers.entry(second).or_default().push(ip);
        }
        Some(())
    }

    fn shard_of(&mut self, ip: Ip) -> &mut Shard {
        self.shard(shard_of(ip, self.held.len()))
    }

    fn shard(&mut self, number: usize) -> &mut Shard {
        let (count, bytes, window) = (self.held.len(), self.bytes_each, self.window);
        self.held[number].get_or_insert_with(|| Box::new(Shard::new(count, bytes, window)))
    }

    /// Takes a shard out, to be held elsewhere, with the moments of its profiles.
    pub fn release(&mut self, shard: usize) -> (Option<Box<Shard>>, Vec<(i64, Ip)>) {
        let count = self.held.len();
        let mut timers = Vec::new();
        self.timers.retain(|second, ips| {
            ips.retain(|ip| {
                let goes = shard_of(*ip, count) == shard;
                if goes {
                    timers.push((*second, *ip));
                }
                !goes
            });
            !ips.is_empty()
        });
        (self.held.get_mut(shard).and_then(Option::take), timers)
    }

    /// Takes in a shard that was held elsewhere.
    pub fn adopt(&mut self, shard: usize, held: Option<Box<Shard>>, timers: Vec<(i64, Ip)>) {
        if let Some(place) = self.held.get_mut(shard) {
            *place = held;
        }
        if let Some(keeping) = &mut self.keeping {
            // Its profiles may wait to be handed over.
            keeping.next = keeping.next.min(shard);
        }
        for (second, ip) in timers {
            self.timers.entry(second).or_default().push(ip);
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> ShardCounts {
        let mut sum = ShardCounts::default();
        for c in self.held.iter().flatten().map(|s| s.counts()) {
            sum.merge(&c);
        }
        sum
    }

    /// Sources: come, gone with their windows, folded, held now.
    pub fn ledger(&self) -> Ledger {
        let mut sum = Ledger::new();
        self.held.iter().flatten().for_each(|shard| sum.merge(&shard.ledger()));
        sum
    }

    /// A profile, to look at.
    pub fn profile(&self, ip: Ip) -> Option<&Profile> {
        self.held.get(shard_of(ip, self.held.len()))?.as_ref()?.profile(ip)
    }

    /// All profiles, in no order.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.held.iter().flatten().flat_map(|shard| shard.profiles())
    }

    /// Bytes of profiles, as weighed.
    pub fn weight(&self) -> usize {
        self.held.iter().flatten().map(|shard| shard.weight()).sum()
    }
}

impl Keeping {
    /// Takes what a shard has handed over.
    #[inline]
    fn take_from(&mut self, shard: &mut Shard) {
        if shard.has_kept() {
            let before = self.kept.len();
            shard.take_kept(&mut self.kept);
            let new = self.kept.get(before..).unwrap_or_default();
            self.bytes += new.iter().map(|k| k.bytes.len()).sum::<usize>();
        }
    }

    /// Lets the next shard that has one hand over a profile.
    #[cold]
    fn hand_over(&mut self, held: &mut [Option<Box<Shard>>]) {
        while let Some(place) = held.get_mut(self.next) {
            if let Some(shard) = place
                && shard.hand_over()
            {
                self.take_from(shard);
                return;
            }
            self.next += 1;
        }
    }

    fn take_kept(&mut self) -> Vec<Kept> {
        self.bytes = 0;
        std::mem::take(&mut self.kept)
    }
}

impl ShardCounts {
    /// Adds what another counted.
    pub fn merge(&mut self, other: &ShardCounts) {
        self.profiles += other.profiles;
        self.sources += other.sources;
        self.crowded += other.crowded;
        self.fold_looks += other.fold_looks;
        self.folded_notable.merge(&other.folded_notable);
        self.folded += other.folded;
    }
}

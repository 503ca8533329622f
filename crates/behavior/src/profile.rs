//! A profile: what one address has done, in the current time window and the past one.
//!
//! [`step`] is the whole engine for one profile: records and what the site knows in, evidence and
//! the next moment to be asked out. It reads no clock, waits for nothing and knows no other profile,
//! so that it runs here, in another thread, or keyed by address inside a stream engine. A profile
//! encodes (with its version first), decodes and merges.

use crate::ahead::Ahead;
use crate::context::{Closing, Context, Waking};
use crate::detect::{self, KeptStates, WindowStates};
use crate::evidence::EvidenceBuilder;
use crate::outlet::{Outlet, Whole};
use crate::prevalence::Prevalence;
use crate::repeats::{REPEATED, Repeats};
use crate::seeds::Seed;
use crate::settings::Settings;
use crate::site::Facts;
use crate::sketch::{hash_ip, mix};
use crate::state::{Decoder, Most, State, state};
use gabion_record::Ip;
use gabion_record::evidence::Evidence;
use gabion_record::logs::{Body, Record, TimeNs};
use gabion_record::saved::{Saved, load_bytes, save_bytes};

/// Version of the encoding; it changes with the states of detectors. From the first release on older
/// ones are to decode for ever; until then another version is refused.
const VERSION: u16 = 9;

/// No timer.
pub(crate) const NEVER: TimeNs = TimeNs(i64::MAX);

state! {
    /// What was seen in one window.
    pub struct Window {
        /// Its number; only windows of one number are merged.
        number: Most<i64>,
        is_scanner: bool,
        /// Something was found in it.
        has_reported: bool,
        repeats: Repeats,
        states: WindowStates,
    }
}

impl Window {
    fn numbered(number: i64) -> Window {
        Window { number: Most(number), ..Window::default() }
    }
}

/// One address's profile.
#[derive(Debug, Default)]
pub struct Profile {
    ip: Ip,
    records: u64,
    flows: u64,
    /// Bytes it sent in them.
    sent: u64,
    findings: u64,
    last: TimeNs,
    /// Minutes in which it was active, and the latest of them since 1970.
    active_minutes: u32,
    minute: Most<u32>,
    timer: Option<TimeNs>,
    current: Window,
    past: Option<Box<Window>>,
    kept: KeptStates,
    /// Its first flow, as long as only those detectors have seen it that may say something of one flow; of a
    /// profile that was merged, of each part.
    first_flows: Vec<Seed>,
    /// Bytes as last weighed, for the owner's budget; no part of the encoding, as what follows.
    pub(crate) weighed: usize,
    /// Its tier in the order of folding, as it was queued.
    pub(crate) tier: usize,
    /// Its address is one of the site's own.
    pub(crate) is_own: bool,
    /// It is to be handed over as it is, before it changes.
    pub(crate) is_to_keep: bool,
    /// What it had shown when it was handed over last, 0 when never.
    pub(crate) kept_at: u64,
}

impl Profile {
    /// The profile of an address that nothing is known of.
    pub fn new(ip: Ip) -> Profile {
        Profile { ip, current: Window::numbered(i64::MIN), ..Profile::default() }
    }

    /// Whose it is.
    pub fn ip(&self) -> Ip {
        self.ip
    }

    /// Records it has seen.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Flows among them.
    pub fn flows(&self) -> u64 {
        self.flows
    }

    /// Bytes it has sent in them.
    pub fn bytes_sent(&self) -> u64 {
        self.sent
    }

    /// Evidence it has given.
    pub fn findings(&self) -> u64 {
        self.findings
    }

    /// Records and findings: grows with whatever it does.
    pub(crate) fn shown(&self) -> u64 {
        self.records.saturating_add(self.findings)
    }

    /// When it was last seen.
    pub fn last(&self) -> TimeNs {
        self.last
    }

    /// Minutes of event time in which it was active.
    pub fn active_minutes(&self) -> u32 {
        self.active_minutes
    }

    /// The number of its current window.
    pub fn window(&self) -> i64 {
        self.current.number.0
    }

    /// When it wants to be asked, `NEVER` when not.
    pub fn timer(&self) -> TimeNs {
        self.timer.unwrap_or(NEVER)
    }

    /// Destinations and names whose flows of the last day are kept exactly.
    pub fn pairs(&self) -> impl Iterator<Item = detect::beacon::Calls<'_>> {
        detect::pairs(&self.kept)
    }

    /// Destinations and ports of its current window with the letters of their flows.
    pub fn tuples(&self) -> impl Iterator<Item = detect::command_control::Tuple<'_>> {
        detect::tuples(&self.current.states)
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let past = self.past.as_ref().map_or(0, |p| size_of::<Window>() + p.heap());
        let first = self.first_flows.heap();
        size_of::<Profile>() + self.current.heap() + self.kept.heap() + past + first
    }

    /// Of these, bytes of what is kept of pairs: flows of beacons, letters.
    pub fn pair_bytes(&self) -> usize {
        let windows = [Some(&self.current), self.past.as_deref()];
        let letters: usize =
            windows.into_iter().flatten().map(|w| detect::letter_bytes(&w.states)).sum();
        letters + detect::flow_bytes(&self.kept)
    }

    /// Its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        // Every field by name: one that is added is written here too, or left out on purpose.
        let Profile {
            ip,
            records,
            flows,
            sent,
            findings,
            last,
            active_minutes,
            minute,
            timer,
            current,
            past,
            kept,
            first_flows,
            weighed: _,
            tier: _,
            is_own: _,
            is_to_keep: _,
            kept_at: _,
        } = self;
        VERSION.encode(out);
        ip.encode(out);
        records.encode(out);
        flows.encode(out);
        sent.encode(out);
        findings.encode(out);
        last.encode(out);
        active_minutes.encode(out);
        minute.encode(out);
        timer.encode(out);
        current.encode(out);
        past.is_some().encode(out);
        if let Some(past) = past {
            past.encode(out);
        }
        kept.encode(out);
        first_flows.encode(out);
    }

    /// Prefetches where its states are: see [`State::prefetch`].
    #[inline]
    pub(crate) fn prefetch_places(&self) -> usize {
        detect::prefetch_places(&self.current.states, &self.kept)
    }

    /// Prefetches what a flow changes first of its states.
    #[inline]
    pub(crate) fn prefetch_states(&self) -> usize {
        detect::prefetch_states(&self.current.states, &self.kept) ^ self.current.repeats.prefetch()
    }

    /// Prefetches what this flow changes of them.
    #[inline]
    pub(crate) fn prefetch_flow(&self, ahead: &Ahead) -> usize {
        detect::prefetch_flow(&self.current.states, &self.kept, ahead)
    }

    /// Whether it is time to weigh it again: often while it is young, then at every 32nd record.
    pub(crate) fn is_to_weigh(&self) -> bool {
        self.records.is_power_of_two() || self.records & 31 == 0
    }

    /// Reads an encoding; `None` when it is none.
    pub fn decode(bytes: &[u8]) -> Option<Profile> {
        let mut from = Decoder(bytes);
        if u16::decode(&mut from)? != VERSION {
            return None;
        }
        let mut profile = Profile {
            ip: State::decode(&mut from)?,
            records: State::decode(&mut from)?,
            flows: State::decode(&mut from)?,
            sent: State::decode(&mut from)?,
            findings: State::decode(&mut from)?,
            last: State::decode(&mut from)?,
            active_minutes: State::decode(&mut from)?,
            minute: State::decode(&mut from)?,
            timer: State::decode(&mut from)?,
            current: State::decode(&mut from)?,
            ..Profile::default()
        };
        if bool::decode(&mut from)? {
            profile.past = Some(Box::new(State::decode(&mut from)?));
        }
        profile.kept = State::decode(&mut from)?;
        profile.first_flows = State::decode(&mut from)?;
        from.0.is_empty().then_some(profile)
    }

    /// Takes in what another part of the same address's profile saw.
    pub fn merge(&mut self, mut other: Profile) {
        self.records = self.records.saturating_add(other.records);
        self.flows = self.flows.saturating_add(other.flows);
        self.sent = self.sent.saturating_add(other.sent);
        self.findings = self.findings.saturating_add(other.findings);
        self.last = self.last.max(other.last);
        self.active_minutes.merge(other.active_minutes);
        self.minute.merge(other.minute);
        self.timer = match (self.timer, other.timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.kept.merge(other.kept);
        self.first_flows.merge(other.first_flows);
        if other.current.number.0 > self.current.number.0 {
            std::mem::swap(&mut self.current, &mut other.current);
            std::mem::swap(&mut self.past, &mut other.past);
        }
        let newest = self.current.number.0;
        for window in [Some(other.current), other.past.map(|w| *w)].into_iter().flatten() {
            if window.number.0 == newest {
                self.current.merge(window);
            } else if window.number.0 == newest.saturating_sub(1) {
                match &mut self.past {
                    Some(past) if past.number.0 == window.number.0 => past.merge(window),
                    past => *past = Some(Box::new(window)),
                }
            }
        }
    }

    /// Remembers its first flow for the detectors that [`first`] did not ask.
    pub(crate) fn remember(&mut self, flow: Seed) {
        self.first_flows.reserve_exact(1);
        self.first_flows.push(flow);
    }

    /// Gives its first flow to the detectors that have not seen it. `facts` are those of a later record.
    #[cold]
    pub fn complete(&mut self, facts: &Facts, settings: &Settings) {
        // Its evidence was reported when the record came.
        let (mut muted, mut timer) = (Outlet::muted(), NEVER);
        let window = &mut self.current;
        let (number, prevalence) = (window.number.0, Prevalence::default());
        let facts =
            Facts { window: number, prevalence, is_answer: false, is_routine: false, ..*facts };
        for flow in std::mem::take(&mut self.first_flows) {
            let mut context = Context {
                record: &flow.record(),
                facts: &facts,
                settings,
                profile: self.ip,
                repeats: &mut window.repeats,
                is_scanner: &mut window.is_scanner,
                signature: None,
                timer: &mut timer,
                out: &mut muted,
            };
            detect::after_first(&mut window.states, &mut self.kept, &mut context);
        }
    }

    /// Moves on to a later window.
    fn turn(&mut self, number: i64) {
        let was = std::mem::replace(&mut self.current, Window::numbered(number));
        self.past = (was.number.0 == number.saturating_sub(1)).then(|| Box::new(was));
    }
}

/// In a checkpoint a profile goes with what its encoding leaves out. Whether it waits to be handed over is
/// not kept: all that waits is handed over first.
impl Saved for Profile {
    fn save(&self, out: &mut Vec<u8>) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        save_bytes(&bytes, out);
        (self.weighed, self.kept_at).save(out);
        (self.tier, self.is_own).save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let mut profile = Profile::decode(load_bytes(from)?)?;
        (profile.weighed, profile.kept_at) = Saved::load(from)?;
        (profile.tier, profile.is_own) = Saved::load(from)?;
        Some(profile)
    }
}

/// One record with what the site knows at it.
pub(crate) type Seen<'a, 'r> = (&'a Record<'r>, &'a Facts);

/// Takes records of one profile in, in order; says what was found and gives the next moment to be
/// asked by `wake`.
pub fn step(
    profile: &mut Profile,
    records: &[Seen<'_, '_>],
    settings: &Settings,
    out: &mut Outlet,
) -> TimeNs {
    for (record, facts) in records {
        let before = out.made();
        one(profile, record, facts, settings, out, detect::record);
        profile.findings += out.made() - before;
    }
    profile.timer()
}

/// Takes the first flow of a profile in where it fits a seed: the same evidence and the same moment as of [`step`],
/// but detectors that say nothing of a first flow are not given it. Who keeps the profile lets it
/// [`Profile::remember`] the flow.
pub(crate) fn first(
    profile: &mut Profile,
    (record, facts): Seen<'_, '_>,
    settings: &Settings,
    out: &mut Outlet,
) -> TimeNs {
    let before = out.made();
    one(profile, record, facts, settings, out, detect::first);
    profile.findings += out.made() - before;
    profile.timer()
}

#[inline]
fn one(
    profile: &mut Profile,
    record: &Record<'_>,
    facts: &Facts,
    settings: &Settings,
    out: &mut Outlet,
    give: impl FnOnce(&mut WindowStates, &mut KeptStates, &mut Context<'_, '_>),
) {
    if !profile.first_flows.is_empty() {
        profile.complete(facts, settings);
    }
    profile.records += 1;
    if let Body::Conn(c) = &record.body {
        profile.flows += 1;
        let sent = if profile.ip == record.src { c.orig_bytes } else { c.resp_bytes };
        profile.sent = profile.sent.saturating_add(sent);
    }
    if !record.is_late {
        profile.last = profile.last.max(record.ts);
        let minute = u32::try_from(record.ts.seconds() / 60).unwrap_or(0);
        if minute != profile.minute.0 {
            profile.active_minutes = profile.active_minutes.saturating_add(1);
            profile.minute = Most(minute);
        }
    }
    // A late record moves no window on, but it may be the first of its source.
    let is_first = profile.current.number.0 == i64::MIN;
    if facts.window > profile.current.number.0 && (is_first || !record.is_late) {
        profile.turn(facts.window);
    }
    // A record of a window that is gone is still looked at by itself, with no window before it.
    let mut gone = None;
    let number = profile.current.number.0;
    let window = match &mut profile.past {
        _ if facts.window == number => &mut profile.current,
        Some(past) if past.number.0 == facts.window => past,
        past if facts.window == number.saturating_sub(1) => {
            past.insert(Box::new(Window::numbered(facts.window))).as_mut()
        }
        _ => gone.insert(Window::numbered(facts.window)),
    };
    let mut timer = profile.timer.unwrap_or(NEVER);
    let before = out.made();
    let mut context = Context {
        record,
        facts,
        settings,
        profile: profile.ip,
        repeats: &mut window.repeats,
        is_scanner: &mut window.is_scanner,
        signature: None,
        timer: &mut timer,
        out,
    };
    give(&mut window.states, &mut profile.kept, &mut context);
    window.has_reported |= context.out.made() > before;
    profile.timer = (timer != NEVER).then_some(timer);
}

/// Reports the last numbers of findings of windows that are over, if they were made whole and have grown since they
/// were reported.
pub(crate) fn close(
    profile: &mut Profile,
    (oldest, now): (i64, TimeNs),
    is_end: bool,
    settings: &Settings,
    (whole, out): (&Whole, &mut Vec<Evidence>),
) {
    // One record was reported as it is.
    if profile.records <= 1 {
        return;
    }
    let ip = profile.ip;
    let windows = [profile.past.as_deref_mut(), Some(&mut profile.current)];
    for window in windows.into_iter().flatten().filter(|w| w.has_reported && w.number.0 >= oldest) {
        let number = window.number.0;
        let mut closing = Closing { now, is_end, window: number, settings, profile: ip, out };
        detect::close_window(&mut window.states, &mut closing);
        for (key, times) in window.repeats.grown() {
            let repeat = mix(key ^ hash_ip(ip));
            if !whole.has(repeat) {
                continue;
            }
            // Only how often it was seen is known here: the stage that reports it has the rest.
            let mut finding = EvidenceBuilder::new(&REPEATED, ip, profile.last, number).at_last();
            (finding.0.times, finding.0.repeat) = (times, repeat);
            finding.finish(closing.out);
        }
    }
    let number = profile.current.number.0;
    let mut closing = Closing { now, is_end, window: number, settings, profile: ip, out };
    detect::close_kept(&mut profile.kept, &mut closing);
}

/// Asks what waits whether its time has come; gives the next such moment.
pub(crate) fn wake(
    profile: &mut Profile,
    now: TimeNs,
    is_end: bool,
    settings: &Settings,
    out: &mut Outlet,
) -> TimeNs {
    let before = out.made();
    let mut timer = NEVER;
    let mut waking = Waking { now, is_end, settings, profile: profile.ip, timer: &mut timer, out };
    detect::wake(&mut profile.kept, &mut waking);
    profile.timer = (timer != NEVER).then_some(timer);
    profile.findings += out.made() - before;
    timer
}

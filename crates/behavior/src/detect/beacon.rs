//! The same two hosts at regular intervals: a beacon, scored as RITA does, with the parts of the score
//! in the evidence.
//!
//! A pair is a source and its destination: a name where a request has one (TLS's server name, HTTP's `Host`, what
//! `CONNECT` asks a proxy for), else an address, as in RITA 5. A connection that is a name's is not counted for its
//! address.
//!
//! From the fourth flow of a pair on its times and sizes are kept exactly for a day (at most
//! `FLOWS_MAX`; of what is more is counted when it came, and the finding says so). Once an hour of event time, and at the end, the day is scored:
//! how alike intervals are (skew and spread of their quartiles), how alike sizes are, how evenly flows
//! fill the 24 parts of the day, and how much of the day they cover.

use super::{About, Detector, bit};
use crate::ahead::Ahead;
use crate::called::{Called, called};
use crate::context::Context;
use crate::context::{Closing, Waking};
use crate::evidence::EvidenceBuilder;
use crate::limits::{
    FLOWS_MAX, NAMES_MAX, RECENT_MAX, REGULAR_MAX as PAIRS_MAX, UIDS_MAX, reached,
};
use crate::regularity::{Score, score};
use crate::rita::{self, PairModifiers};
use crate::said::Said;
use crate::settings::Settings;
use crate::sketch::{Keyed, hash_ip, hash_text};
use crate::state::{Most, Slot, state};
use crate::steps;
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{CallKind, EvidenceType, Indicator, Party, Role, ThreatLevel, Topic};
use gabion_record::logs::{Body, Conn, LogKind, Proto, Record, SECOND, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType =
    EvidenceType::new("BEACON", "T1071").about(Topic::Call(CallKind::Beacon));

/// The detector.
#[derive(Debug)]
pub(crate) struct Beacon;

/// Flows before a pair is kept.
const BEGINNING: u8 = 3;
/// Cells that count flows before that.
const CELLS: usize = 64;
/// What is scored.
const DAY: i64 = 86_400;
/// Distance of scorings.
const HOUR: i64 = 3_600;
/// Silence up to which a pair is scored on, seconds.
const SILENT: i64 = 2 * HOUR - 1;
/// Flows from which on a pair is reported; fewer are regular by chance.
const FLOWS_REPORTED: usize = 16;
/// Seconds within which a request names its connection.
const NAMED_WITHIN: u32 = 1;
/// Flows after which ids are kept, so that there are enough of them when a pair is first reported.
const IDS_FROM: usize = FLOWS_REPORTED - UIDS_MAX / 2;
/// Seconds of the slots that distinguish repeated calls from many calls at once.
const SLOT: u32 = 1_800;
/// Seconds of the slots that count flows beyond the table's capacity.
const LATER: u32 = 120;
/// The least time that a pair's flows cover before they are reported while the input continues.
const SPAN_LEAST: i64 = 6 * HOUR;
/// Scores (thousandths) that are reported, and the level from each on: RITA's medium and high.
const REPORTED: [(u16, ThreatLevel); 2] = [(900, ThreatLevel::High), (800, ThreatLevel::Medium)];

state! {
    /// Pairs of one source.
    pub struct Pairs {
        /// Flows by hash of the destination, until they are worth a pair: see [`Cell`].
        seen: Vec<u16>,
        pairs: Keyed<Ip, Pair, PAIRS_MAX>,
        /// By hash of the name.
        names: Keyed<u64, Pair, NAMES_MAX>,
        /// Connections that a request may still name.
        recent: Vec<Recent>,
        first: Most<u32>,
        scored: TimeNs,
    }
}

state! {
    /// One destination, or one name. There are many, and a flow looks at one: what few have stands elsewhere.
    pub struct Pair {
        /// Second and bytes, in order.
        flows: Vec<(u32, u32)>,
        /// Second of the last of them.
        last: Most<u32>,
        /// Flows before those that are kept.
        before: u32,
        /// Flows before this second were dropped.
        forgot: Most<u32>,
        /// Half hours in which there were flows, and the last of them: a pair that comes again and again stays.
        slots: u32,
        slot: Most<u32>,
        port: Most<u16>,
        /// Connections, and those of them that nobody answered and that went to another port than the one before.
        connections: u32,
        probes: u32,
        reported: Most<u16>,
        window: Most<u32>,
        modifiers: PairModifiers,
        rest: Slot<Rest>,
    }
}

state! {
    /// What is known of a name, of a proxy, and of a pair that may be reported.
    pub struct Rest {
        /// The name, empty where the pair is one of addresses.
        name: String,
        /// Where flows of a name went last.
        to: Ip,
        is_proxied: bool,
        /// Flows of the day that did not fit: second in which a slot of [`LATER`] begins, and how many it has.
        later: Vec<(u32, u32)>,
        /// The first ids of its flows since it may be reported, a line each.
        uids: String,
        /// How many those are.
        ids: u8,
        /// The last report of it.
        said: Said,
        /// When the day of the last report is over; 0 if nothing was reported.
        day_end: Most<u32>,
        /// Nothing is reported before, since the flows until then belong to a day that was reported.
        quiet_until: Most<u32>,
    }
}

state! {
    /// A connection of the last moments.
    pub struct Recent {
        uid: u64,
        second: u32,
        bytes: u32,
        /// A request named its destination.
        is_named: bool,
    }
}

/// A pair whose flows are kept exactly.
#[derive(Clone, Copy, Debug)]
pub struct Calls<'a> {
    /// The other end, or the proxy before it.
    pub to: Ip,
    /// Its port.
    pub port: u16,
    /// The name that is called, empty where it is not known or the address is called by many names.
    pub name: &'a str,
    /// The other end is reached through the proxy [`Calls::to`].
    pub is_proxied: bool,
    /// Second and bytes of each flow.
    pub flows: &'a [(u32, u32)],
    /// Further flows of the day that did not fit there.
    pub more: u64,
}

impl Calls<'_> {
    /// The name of the called host, where there is one, else its address.
    pub fn callee(&self) -> String {
        match self.name {
            "" => self.to.to_string(),
            name => name.to_owned(),
        }
    }
}

/// Flows to the destinations of one hash: how many (up to [`BEGINNING`]), how many of them in a row went to the last
/// of these, and twelve bits of its hash.
struct Cell {
    flows: u8,
    own: u8,
    tag: u16,
}

impl Cell {
    fn from_packed(packed: u16) -> Cell {
        Cell { flows: (packed & 3) as u8, own: (packed >> 2 & 3) as u8, tag: packed >> 4 }
    }

    fn packed(&self) -> u16 {
        u16::from(self.flows) | u16::from(self.own) << 2 | self.tag << 4
    }

    /// Takes a flow in: `None` until there are enough, then the flows to this destination before.
    fn take_by_hash(&mut self, hash: u64) -> Option<u32> {
        let tag = (hash >> 52) as u16;
        let is_own = self.tag == tag;
        if self.flows >= BEGINNING {
            let before = if is_own { self.own } else { 0 };
            (self.own, self.tag) = (0, 0);
            return Some(u32::from(before));
        }
        self.flows += 1;
        self.own = if is_own { self.own + 1 } else { 1 };
        self.tag = tag;
        None
    }
}

impl Pairs {
    /// Pairs whose flows are kept exactly, by address and by name.
    pub(crate) fn each(&self) -> impl Iterator<Item = Calls<'_>> {
        let addresses = self.pairs.iter().map(|(ip, pair)| pair.calls(*ip));
        addresses.chain(self.names.iter().map(|(_, pair)| pair.calls(pair.named_at())))
    }

    /// A connection, by its address.
    fn connect(&mut self, c: &Conn<'_>, second: u32, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let bytes = if c.orig_ip_bytes > 0 { c.orig_ip_bytes } else { c.orig_bytes };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if cx.facts.has_other_logs && !r.uid.is_empty() {
            let uid = hash_text(r.uid);
            // In a live run the request may come first: it has counted the connection.
            if self.recent.iter().any(|c| c.uid == uid && c.is_named) {
                return;
            }
            self.remember(Recent { uid, second, bytes, is_named: false });
        }
        if self.seen.is_empty() {
            self.seen = vec![0; CELLS];
        }
        let is_probe = |pair: &Pair| !c.is_established && pair.port.0 != r.dst_port;
        let pair = match self.pairs.place(r.dst) {
            Some(place) => self.pairs.at(place),
            None => {
                let hash = hash_ip(r.dst);
                let Some(packed) = self.seen.get_mut(hash as usize % CELLS) else { return };
                let mut cell = Cell::from_packed(*packed);
                let taken = cell.take_by_hash(hash);
                *packed = cell.packed();
                let Some(before) = taken else { return };
                let limit = &reached::REGULAR_MAX;
                let (pair, gone) = self.pairs.get_or_replace(r.dst, limit, Pair::worth);
                pair.before = before;
                if let Some((to, gone)) = gone {
                    gone.let_go(to, self.first.0, cx);
                }
                Some(pair)
            }
        };
        let Some(pair) = pair else { return };
        pair.connections = pair.connections.saturating_add(1);
        pair.probes = pair.probes.saturating_add(u32::from(is_probe(pair)));
        pair.set_proxied(cx.facts.is_proxy);
        pair.take_flow(second, bytes, cx);
        pair.modifiers.see(c, r.ts, &cx.facts.prevalence);
        self.begin(cx);
    }

    /// A request or a handshake: the connection is the name's, and not the address'.
    fn name(&mut self, named: &Called<'_>, second: u32, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let asked = if let Body::Http(h) = &r.body {
            h.request_len.saturating_add(h.uri.len() as u64)
        } else {
            0
        };
        let (mut second, mut bytes) = (second, u32::try_from(asked).unwrap_or(u32::MAX));
        let uid = hash_text(r.uid);
        let known = self.recent.iter_mut().find(|c| c.uid == uid && !r.uid.is_empty());
        let mut is_again = false;
        match known {
            Some(c) if c.is_named => is_again = true,
            Some(c) => {
                c.is_named = true;
                (second, bytes) = (c.second, c.bytes);
                if let Some(pair) = self.pairs.get(r.dst) {
                    pair.give_back(second, bytes);
                }
            }
            None => self.remember(Recent { uid, second, bytes, is_named: true }),
        }
        // The handshake inside of a tunnel that `CONNECT` made is the same call.
        if is_again && matches!(r.body, Body::Ssl(_)) {
            return;
        }
        let hash = named.hash();
        let limit = &reached::NAMES_MAX;
        let (pair, gone) = self.names.get_or_replace(hash, limit, Pair::worth);
        if let Some((_, gone)) = gone {
            gone.let_go(gone.named_at(), self.first.0, cx);
        }
        // A page asks for many things at once.
        if is_again && pair.last.0 >= second {
            return;
        }
        let rest = pair.rest.make();
        if rest.name.is_empty() {
            rest.name = text(named.name).to_ascii_lowercase();
        }
        (rest.to, rest.is_proxied) = (r.dst, named.is_proxied);
        pair.take_flow(second, bytes, cx);
        if named.is_proxied {
            // The flow's own port is the proxy's.
            pair.port = Most(named.port);
        }
        let sent = Conn { orig_ip_bytes: bytes.into(), ..Conn::default() };
        pair.modifiers.see(&sent, r.ts, &cx.facts.prevalence);
        pair.modifiers.ask(r, cx.signature);
        self.begin(cx);
    }

    fn remember(&mut self, c: Recent) {
        if self.recent.len() >= RECENT_MAX {
            let oldest = self.recent.remove(0);
            if !oldest.is_named && c.second.saturating_sub(oldest.second) <= NAMED_WITHIN {
                reached::RECENT_MAX.count();
            }
        }
        self.recent.push(c);
    }

    fn begin(&mut self, cx: &mut Context<'_, '_>) {
        self.first = Most(u32::try_from(cx.facts.start.seconds()).unwrap_or(0));
        cx.wake(cx.record.ts.plus(HOUR * SECOND));
    }
}

impl Pair {
    /// What a full table keeps first: reported pairs, then those that came again and again, then the latest.
    fn worth<K>(_: &K, pair: &Pair) -> (u16, u32, u32) {
        (pair.reported.0, pair.slots, pair.last.0)
    }

    fn take_flow(&mut self, second: u32, bytes: u32, cx: &Context<'_, '_>) {
        if self.flows.len() >= FLOWS_MAX {
            forget(self, second);
        }
        self.last = Most(self.last.0.max(second));
        if self.flows.len() >= FLOWS_MAX {
            self.rest.make().count_later(second);
        } else {
            // Room for half as many again would be waste: most pairs end soon.
            if self.flows.len() == self.flows.capacity() {
                self.flows.reserve_exact((self.flows.len() / 4).max(4));
            }
            self.flows.push((second, bytes));
            // A request may name a connection of the day before: it goes when flows are looked at again.
            if second < self.forgot.0 {
                self.forgot = Most(0);
            }
        }
        let slot = second / SLOT + 1;
        self.slots += u32::from(slot > self.slot.0);
        self.slot = Most(self.slot.0.max(slot));
        if self.flows.len() > IDS_FROM && !cx.record.uid.is_empty() {
            self.rest.make().keep_id(cx.record.uid);
        }
        self.port = Most(cx.record.dst_port);
        self.window = Most(u32::try_from(cx.facts.window).unwrap_or(0));
    }

    #[inline]
    fn set_proxied(&mut self, is_proxied: bool) {
        if is_proxied {
            self.rest.make().is_proxied = true;
        } else if let Some(rest) = self.rest.get() {
            rest.is_proxied = false;
        }
    }

    /// Where flows of a name went last.
    fn named_at(&self) -> Ip {
        self.rest.peek().map_or(Ip::default(), |rest| rest.to)
    }

    fn calls(&self, to: Ip) -> Calls<'_> {
        let rest = self.rest.peek();
        Calls {
            to,
            port: self.port.0,
            name: rest.map_or("", |rest| &rest.name),
            is_proxied: rest.is_some_and(|rest| rest.is_proxied),
            flows: &self.flows,
            more: self.more(),
        }
    }

    /// A flow turned out to be a name's.
    fn give_back(&mut self, second: u32, bytes: u32) {
        let lately = self.flows.len().saturating_sub(RECENT_MAX);
        let tail = self.flows.get(lately..).unwrap_or_default();
        match tail.iter().rposition(|f| *f == (second, bytes)) {
            Some(at) => drop(self.flows.remove(lately + at)),
            None => self.before = self.before.saturating_sub(1),
        }
    }

    /// Flows of the day, as far as they were counted.
    fn count(&self) -> usize {
        self.flows.len() + self.before as usize + self.more() as usize
    }

    /// Flows of the day that did not fit, by their slots.
    fn later(&self) -> &[(u32, u32)] {
        self.rest.peek().map_or(&[], |rest| &rest.later)
    }

    /// How many those are.
    fn more(&self) -> u64 {
        self.later().iter().map(|(_, n)| u64::from(*n)).sum()
    }

    /// Second of the latest flow of the day.
    fn latest(&self) -> Option<u32> {
        let last = self.flows.last().map(|f| f.0)?;
        Some(if self.later().is_empty() { last } else { self.last.0.max(last) })
    }
}

impl Rest {
    /// Counts a flow that does not fit.
    #[inline]
    fn count_later(&mut self, second: u32) {
        reached::FLOWS_MAX.count();
        let begin = second - second % LATER;
        // Those of a day, and what a flow out of order may add.
        let is_full = self.later.len() > 2 * (DAY / i64::from(LATER)) as usize;
        match self.later.last_mut() {
            Some((slot, n)) if *slot == begin || is_full => *n = n.saturating_add(1),
            _ => self.later.push((begin, 1)),
        }
    }

    #[inline]
    fn keep_id(&mut self, uid: &[u8]) {
        if usize::from(self.ids) >= UIDS_MAX / 2 {
            return;
        }
        let uid = text(uid);
        self.uids.reserve_exact(uid.len() + 1);
        self.uids.push_str(&uid);
        self.uids.push('\n');
        self.ids += 1;
    }
}

impl Detector for Beacon {
    type Window = ();
    type Kept = Pairs;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "RITA's beacon score of a pair's flows of the last 24 h reaches 0.8, or 0.9: the mean \
            of the regularity of intervals, of sizes, of the histogram of the day and of its coverage; \
            a pair is a source and a name (TLS's server name, HTTP's Host, or what CONNECT asks a proxy \
            for), or an address where connections carry no name; not DNS to an address that resolves names \
            of several domains, polls of a clock (NTP) that three hosts poll or that have NTP's own sizes, messages of ICMP about packets, nor answers, nor unanswered flows to constantly changing ports; at least 16 flows, over 6 h; scored once an hour, and at the \
            end over whatever there is; the \
            text names RITA's threat score as well, which knows how many of the site's hosts talk with \
            the other end, since when, whether lists name it and how much went there, whether requests \
            name a host, whether answers are what their paths say, and whether the user agent or JA3 is \
            used for that end only",
        level: "from 0.9 on high, from 0.8 medium; the score",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn) | bit(LogKind::Http) | bit(LogKind::Ssl);

    /// It says nothing of fewer than 16 flows, and waits for nothing before the fourth.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    #[inline]
    fn prefetch(_: &Slot<()>, kept: &Slot<Pairs>, ahead: &Ahead) -> usize {
        let Some(pairs) = kept.peek() else { return 0 };
        let cell =
            pairs.seen.get(hash_ip(ahead.dst) as usize % CELLS).map_or(0, |c| usize::from(*c));
        let last = |p: &Pair| p.flows.last().map_or(0, |f| f.0 as usize);
        cell ^ pairs
            .pairs
            .prefetch(ahead.dst, |p| p.last.0 as usize ^ last(p) ^ p.modifiers.prefetch())
    }

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Pairs>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        if r.is_late || !r.dst.can_send() {
            return;
        }
        let Ok(second) = u32::try_from(r.ts.seconds()) else { return };
        match &r.body {
            Body::Conn(_) if cx.facts.is_answer || is_complaint(r) => {}
            Body::Conn(_) if cx.facts.is_routine => {
                // Before it was known to resolve names, its flows may have begun a pair.
                if let Some(pairs) = kept.get()
                    && pairs.pairs.get(r.dst).is_some_and(|pair| pair.port.0 == r.dst_port)
                {
                    pairs.pairs.remove(r.dst);
                }
            }
            Body::Conn(c) => kept.make().connect(c, second, cx),
            Body::Http(_) | Body::Ssl(_) => {
                if let Some(named) = called(&r.body)
                    && cx.profile == r.src
                {
                    kept.make().name(&named, second, cx);
                }
                if let Some(pair) = kept.get().and_then(|pairs| pairs.pairs.get(r.dst)) {
                    pair.modifiers.ask(r, cx.signature);
                }
            }
            _ => {}
        }
    }

    fn wake(kept: &mut Slot<Pairs>, waking: &mut Waking<'_>) {
        let Some(pairs) = kept.get() else { return };
        let hour = HOUR * SECOND;
        if pairs.pairs.is_empty() && pairs.names.is_empty() {
            return;
        }
        let since = waking.now.since(pairs.scored);
        if !waking.is_end && pairs.scored != TimeNs::default() && (0..hour).contains(&since) {
            *waking.timer = (*waking.timer).min(pairs.scored.plus(hour));
            return;
        }
        pairs.scored = waking.now;
        let Ok(now) = u32::try_from(waking.now.seconds()) else { return };
        let first = pairs.first.0;
        let mut is_left = |pair: &mut Pair, to: Ip| {
            forget(pair, now);
            end_day(pair, to, (first, now), waking);
            judge(pair, to, (first, now), waking);
            fall_silent(pair, to, (first, now), waking);
            !pair.flows.is_empty()
        };
        pairs.pairs.retain(|to, pair| is_left(pair, *to));
        pairs.names.retain(|_, pair| is_left(pair, pair.named_at()));
        // A pair that falls silent is evicted with its profile. One flow of the future is no reason to ask
        // every hour until then.
        let all = pairs.pairs.iter().map(|p| &p.1).chain(pairs.names.iter().map(|p| &p.1));
        let latest = all.filter_map(Pair::latest).max();
        let next = latest.and_then(|l| match i64::from(now) - i64::from(l) {
            ..0 => Some(TimeNs(i64::from(l) * SECOND).plus(hour)),
            0..=SILENT => Some(waking.now.plus(hour)),
            _ => None,
        });
        if let Some(next) = next {
            *waking.timer = (*waking.timer).min(next);
        }
    }

    fn close_kept(kept: &mut Slot<Pairs>, closing: &mut Closing<'_>) {
        let Some(pairs) = kept.peek() else { return };
        let addresses = pairs.pairs.iter().map(|(to, pair)| (*to, pair));
        let all = addresses.chain(pairs.names.iter().map(|(_, pair)| (pair.named_at(), pair)));
        for (to, pair) in all.filter(|(_, pair)| pair.has_grown()) {
            if let Some((score, ts)) = pair.score_of_last(pairs.first.0) {
                let finding = closing.find(&TYPE, pair.said().window(), ts);
                closing.say(pair.says(finding, to, &score, closing.settings));
            }
        }
    }
}

/// Whether it is a message of ICMP about somebody's packet (RFC 792, RFC 4443): it answers, and calls nobody. Its
/// type takes the place of the source's port.
fn is_complaint(r: &Record<'_>) -> bool {
    match r.proto {
        Proto::Icmp => matches!(r.src_port, 3 | 4 | 5 | 11 | 12),
        Proto::IcmpV6 => (1..=4).contains(&r.src_port),
        Proto::Tcp
        | Proto::Udp
        | Proto::Igmp
        | Proto::Arp
        | Proto::Sctp
        | Proto::Gre
        | Proto::Other => false,
    }
}

/// Lets go of what is older than a day; the begin is rounded down to the hour, so that flows are looked at once an
/// hour, however many come.
fn forget(pair: &mut Pair, now: u32) {
    let begin = i64::from(now) - DAY;
    let begin = u32::try_from(begin - begin.rem_euclid(HOUR)).unwrap_or(0);
    if begin <= pair.forgot.0 {
        return;
    }
    pair.forgot = Most(begin);
    let were = pair.flows.len();
    steps::add(were);
    pair.flows.retain(|(second, _)| *second >= begin);
    if let Some(rest) = pair.rest.get() {
        rest.later.retain(|(slot, _)| *slot >= begin);
    }
    if pair.flows.len() < were {
        pair.before = 0;
    }
}

const SAYS: &str =
    "Beacon from {profile} to {dst}{3}, {count} connections. Score: {score} ({0}). Threat {1}.{2}";

fn judge(pair: &mut Pair, dst: Ip, (first, now): (u32, u32), waking: &mut Waking<'_>) {
    if pair.count() < FLOWS_REPORTED || pair.is_scan() {
        return;
    }
    let covered = pair.latest().zip(pair.flows.first()).map_or(0, |(l, f)| l - f.0.min(l));
    if !waking.is_end && i64::from(covered) < SPAN_LEAST {
        return;
    }
    let begin = i64::from(first).max(i64::from(now) - DAY);
    let Some(score) = score(&pair.flows, pair.later(), begin, i64::from(now)) else { return };
    let thousandths = (score.all * 1000.0).round() as u16;
    let Some((step, level)) = REPORTED.iter().find(|(least, _)| thousandths >= *least) else {
        return;
    };
    let begun = pair.flows.first().map_or(now, |f| f.0);
    let ts = TimeNs(i64::from(pair.latest().unwrap_or(now)) * SECOND);
    let (mut window, mut level) = (i64::from(pair.window.0), *level);
    let (count, has_grown) = (pair.count() as u64, pair.has_grown());
    let rest = pair.rest.make();
    // A day is reported once, and again if it is worse than before. Its last numbers follow when it is over, and at
    // the end of the input; there the last 24 hours are reported if they are no such day.
    let is_known = pair.reported.0 >= *step && rest.said.is_reported();
    let is_quiet = pair.reported.0 >= *step && now < rest.quiet_until.0;
    if (is_known || is_quiet) && !waking.is_end || is_known && !has_grown {
        return;
    }
    if is_known {
        (window, level) = (rest.said.window(), rest.said.level());
    } else {
        pair.reported = Most(*step);
        if !rest.said.is_reported() {
            rest.day_end = Most(begun.saturating_add(DAY as u32));
        }
    }
    rest.said.note(count, window, level);
    let finding = waking.find(&TYPE, ts, window);
    let finding = if is_known { finding.for_good() } else { finding };
    waking.say(pair.says(finding, dst, &score, waking.settings));
}

/// The day of the last report is over: reports its last numbers. A pair that continues is reported again after
/// another day of flows.
fn end_day(pair: &mut Pair, dst: Ip, (first, now): (u32, u32), waking: &mut Waking<'_>) {
    let end = pair.rest.peek().map_or(0, |rest| rest.day_end.0);
    // The end of the input may come before the hour in which the day's end is seen.
    let seen = if waking.is_end { end.saturating_add(HOUR as u32) } else { end };
    if end == 0 || now < seen {
        return;
    }
    if pair.has_grown()
        && let Some((score, ts)) = pair.score_of_last(first)
    {
        let finding = waking.find(&TYPE, ts, pair.said().window()).for_good();
        waking.say(pair.says(finding, dst, &score, waking.settings));
    }
    let rest = pair.rest.make();
    (rest.said, rest.day_end) = (Said::default(), Most(0));
    rest.quiet_until = Most(end.max(now).saturating_add((DAY - HOUR) as u32));
    (rest.uids, rest.ids) = (String::new(), 0);
}

/// A pair that has fallen silent says what it came to.
fn fall_silent(pair: &mut Pair, dst: Ip, (first, now): (u32, u32), waking: &mut Waking<'_>) {
    let silent = i64::from(now) - i64::from(pair.last.0);
    if silent <= SILENT || !pair.has_grown() {
        return;
    }
    let Some((score, ts)) = pair.score_of_last(first) else { return };
    let (window, level, count) = (pair.said().window(), pair.said().level(), pair.count() as u64);
    let finding = waking.find(&TYPE, ts, window).for_good();
    let finding = pair.says(finding, dst, &score, waking.settings);
    pair.rest.make().said.note(count, window, level);
    waking.say(finding);
}

impl Pair {
    /// Whether its source tries one port after the other: that is reported as a scan, and is no beacon.
    fn is_scan(&self) -> bool {
        u64::from(self.probes) * 2 > u64::from(self.connections)
    }

    /// The last report of it.
    fn said(&self) -> Said {
        self.rest.peek().map_or(Said::default(), |rest| rest.said)
    }

    /// Whether it has grown since it was reported.
    fn has_grown(&self) -> bool {
        self.rest.peek().is_some_and(|rest| rest.said.is_less(self.count() as u64))
    }

    /// It is evicted: reports what it came to.
    fn let_go(&self, to: Ip, first: u32, cx: &mut Context<'_, '_>) {
        if self.has_grown()
            && let Some((score, ts)) = self.score_of_last(first)
        {
            let finding = cx.find_last(&TYPE, self.said().window(), ts);
            cx.say(self.says(finding, to, &score, cx.settings));
        }
    }

    /// The score of its day up to its last flow, and the moment of that.
    fn score_of_last(&self, first: u32) -> Option<(Score, TimeNs)> {
        let last = i64::from(self.latest()?);
        let begin = i64::from(first).max(last - DAY);
        Some((score(&self.flows, self.later(), begin, last)?, TimeNs(last * SECOND)))
    }

    fn says(
        &self,
        finding: EvidenceBuilder,
        dst: Ip,
        score: &Score,
        settings: &Settings,
    ) -> EvidenceBuilder {
        let nothing = Rest::default();
        let Rest { name, is_proxied, uids, .. } = self.rest.peek().unwrap_or(&nothing);
        let ts = finding.0.ts;
        let more = match self.more() {
            0 => String::new(),
            _ => format!(" Intervals and sizes are those of {} of them.", self.flows.len()),
        };
        let count = self.count() as u64;
        let address = match (name.is_empty(), is_proxied) {
            (true, false) => String::new(),
            (true, true) => " (a proxy)".to_owned(),
            (false, false) => format!(" ({dst})"),
            (false, true) => format!(" behind the proxy {dst}"),
        };
        let base = rita::bucket(score.all * 100.0, rita::BEACON);
        let threat = self.modifiers.score(base, dst, ts, settings);
        let since = self.flows.first().map_or(ts, |f| TimeNs(i64::from(f.0) * SECOND));
        let mut finding = finding
            .level(self.said().level(), score.all)
            .port_now(self.port.0)
            .since(since, count)
            .flows(uids.lines().map(str::to_owned).collect(), count)
            .score(score.all)
            .threat(threat.threat())
            .by("Statistical")
            .says(SAYS)
            .word(format!(
                "intervals {:.3}, sizes {:.3}, histogram {:.3} of {:.3} and {:.3}, coverage {:.3}",
                score.intervals,
                score.sizes,
                score.histogram(),
                score.evenness,
                score.bimodal,
                score.coverage
            ))
            .word(threat.words())
            .word(more)
            .word(address);
        finding.0.victim = Some(if name.is_empty() {
            Party::destination(dst)
        } else {
            Party { role: Role::Destination, what: Indicator::Domain(name.clone()) }
        });
        finding
    }
}

#[cfg(test)]
mod tests;

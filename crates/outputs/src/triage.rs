//! Which hosts to inspect first: findings of a run in two tables.
//!
//! *Calls out* has a row for each pair of a host and a destination: beacons, command-and-control channels, long
//! connections, uploads, tunnels. They are in order of RITA's threat, which knows more than the level does: how
//! regular, how long, how many of the site's hosts talk with the other end, since when, and what lists say. *Hosts*
//! has a row for each host: the worst that was found about it by level times confidence, then how many kinds of things
//! were. What is found again is found once.
//!
//! The same tables are on the terminal at the end of a run, on the page, and in `gabion behavior list`.

use crate::idmef::round;
use crate::limits::{RANK_ROWS_MAX, RANKED_KINDS_MAX};
use foldhash::fast::RandomState;
use gabion_record::evidence::{CallKind, ThreatLevel, Topic};
use gabion_record::saved::Saved;
use gabion_record::{Ip, saved};
use hashbrown::HashMap;
use std::cmp::Ordering;
use std::ops::{Deref, DerefMut};

/// Confidence below which a command-and-control channel is in JSON and no table:
/// fewer flows than that have letters that look like anything (a hundredth of a letter each).
pub const CHANNEL_SURE: f64 = 0.15;

/// Whether a finding is in JSON only: a command-and-control channel of less than [`CHANNEL_SURE`].
#[must_use]
pub fn is_faint(topic: Topic, confidence: f64) -> bool {
    topic == Topic::Call(CallKind::CommandAndControl) && confidence < CHANNEL_SURE
}

/// The destination that a host calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalleeRef<'a> {
    /// An address.
    Ip(Ip),
    /// A name.
    Name(&'a str),
}

impl<'a> CalleeRef<'a> {
    /// Of a text: an address, where it is one.
    #[must_use]
    pub fn from_text(text: &'a str) -> CalleeRef<'a> {
        Ip::parse(text.as_bytes()).map_or(CalleeRef::Name(text), CalleeRef::Ip)
    }
}

/// [`CalleeRef`] as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Callee {
    Ip(Ip),
    Name(String),
}

impl Callee {
    fn from_ref(dst: CalleeRef<'_>) -> Callee {
        match dst {
            CalleeRef::Ip(ip) => Callee::Ip(ip),
            CalleeRef::Name(name) => Callee::Name(name.to_owned()),
        }
    }
}

/// A finding, as far as its rank depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// Its type.
    pub kind: &'a str,
    /// What the type is about.
    pub topic: Topic,
    /// How bad.
    pub level: ThreatLevel,
    /// How sure, 0 to 1.
    pub confidence: f64,
    /// Whose.
    pub host: Ip,
    /// The flow's source, where it has one.
    pub src: Option<Ip>,
    /// The flow's destination or the name that was called, where it has one.
    pub dst: Option<CalleeRef<'a>>,
    /// Destination port, 0 for none.
    pub port: u16,
    /// RITA's threat, 0 where it has none.
    pub threat: f64,
    /// How many of what it counts.
    pub count: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Seconds it lasted.
    pub seconds: f64,
    /// First and last moment, seconds since 1970.
    pub span: (i64, i64),
}

impl Seen<'_> {
    /// Whether tables leave it out: it is in JSON only.
    #[must_use]
    pub fn is_faint(&self) -> bool {
        is_faint(self.topic, self.confidence)
    }

    /// Level times confidence, as `run.json` has it.
    fn weight(&self) -> f64 {
        round(self.level.weight() * self.confidence)
    }
}

/// The word for what a pair does, as rows of *calls out* have it.
#[must_use]
pub fn call_word(word: &str) -> Option<&'static str> {
    CallKind::ALL.into_iter().map(CallKind::word).find(|known| *known == word)
}

/// What a pair does, by the words of [`call_word`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallWords(Vec<&'static str>);

impl Deref for CallWords {
    type Target = Vec<&'static str>;
    fn deref(&self) -> &Vec<&'static str> {
        &self.0
    }
}

impl DerefMut for CallWords {
    fn deref_mut(&mut self) -> &mut Vec<&'static str> {
        &mut self.0
    }
}

impl FromIterator<&'static str> for CallWords {
    fn from_iter<I: IntoIterator<Item = &'static str>>(words: I) -> CallWords {
        CallWords(words.into_iter().collect())
    }
}

impl Saved for CallWords {
    fn save(&self, out: &mut Vec<u8>) {
        (self.len() as u64).save(out);
        self.iter().for_each(|word| (*word).to_owned().save(out));
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let words = Vec::<String>::load(from)?;
        // A word that this version does not know any more is left out.
        Some(words.iter().filter_map(|word| call_word(word)).collect())
    }
}

/// A host and a destination that it calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Call {
    /// The host that calls.
    pub src: Ip,
    /// The destination: a name or an address.
    pub dst: String,
    /// Its port, 0 for none.
    pub port: u16,
    /// RITA's threat, the largest that was reported.
    pub threat: f64,
    /// What it does: `beacon`, `long` …
    pub kinds: CallWords,
    /// The worst level.
    pub level: ThreatLevel,
    /// Flows, the largest count that was reported.
    pub count: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Seconds connected.
    pub seconds: f64,
    /// First and last moment.
    pub span: (i64, i64),
    /// Level times confidence, the largest.
    pub weight: f64,
    /// It is no more than a channel of little confidence.
    pub is_faint: bool,
}

/// A host with what was found about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranked {
    /// Its address.
    pub host: Ip,
    /// Level times confidence of the worst finding.
    pub worst: f64,
    /// The worst finding's type.
    pub kind: String,
    /// Its level.
    pub level: ThreatLevel,
    /// Kinds of findings above info.
    pub kinds: usize,
    /// Findings by level, from info to critical, each kind of a level once for every report.
    pub levels: [u64; 5],
    /// Sum of the worst of each kind: between hosts with equal kinds.
    pub sum: f64,
    /// Level times confidence of the worst finding of each kind, by the place of its name in a table of
    /// names; empty in a row that was read again.
    pub by_kind: Vec<(u16, f64)>,
}

/// Both tables while they grow. Most of what comes changes nothing, so that looking is to be cheap.
#[derive(Clone, Debug, Default)]
pub struct Rank {
    calls: HashMap<(Ip, Callee), Call, RandomState>,
    hosts: HashMap<Ip, Ranked, RandomState>,
    /// Kinds of findings met.
    names: Vec<String>,
    /// Rows that were dropped for lack of space, the last of their table.
    pub dropped: u64,
}

saved! { Ranked { host, worst, kind, level, kinds, levels, sum, by_kind } }

/// Rows in order of their hosts, so that the same tables are the same bytes.
impl Saved for Rank {
    fn save(&self, out: &mut Vec<u8>) {
        let Rank { calls, hosts, names, dropped } = self;
        let mut calls: Vec<Call> = calls.values().cloned().collect();
        calls.sort_by(|a, b| (a.src, &a.dst).cmp(&(b.src, &b.dst)));
        let mut hosts: Vec<Ranked> = hosts.values().cloned().collect();
        hosts.sort_by_key(|h| h.host);
        calls.save(out);
        hosts.save(out);
        names.save(out);
        dropped.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        let (calls, hosts) = (Vec::<Call>::load(from)?, Vec::<Ranked>::load(from)?);
        let names = Saved::load(from)?;
        let dropped = Saved::load(from)?;
        let calls = calls.into_iter().map(|c| (c.key(), c)).collect();
        let hosts = hosts.into_iter().map(|h| (h.host, h)).collect();
        Some(Rank { calls, hosts, names, dropped })
    }
}

impl Ranked {
    /// Its place among hosts: the least is first.
    fn order(&self, other: &Ranked) -> Ordering {
        let (a, b) = (self, other);
        b.worst
            .total_cmp(&a.worst)
            .then(b.kinds.cmp(&a.kinds))
            .then(b.sum.total_cmp(&a.sum))
            .then_with(|| a.host.cmp(&b.host))
    }
}

impl Call {
    /// Its place among calls: the least is first.
    fn order(&self, other: &Call) -> Ordering {
        let (a, b) = (self, other);
        b.threat
            .total_cmp(&a.threat)
            .then(b.weight.total_cmp(&a.weight))
            .then(b.count.cmp(&a.count))
            .then_with(|| (&a.src, &a.dst).cmp(&(&b.src, &b.dst)))
    }

    fn key(&self) -> (Ip, Callee) {
        (self.src, Callee::from_ref(CalleeRef::from_text(&self.dst)))
    }
}

saved! { Call { src, dst, port, threat, kinds, level, count, bytes, seconds, span, weight, is_faint } }

impl Rank {
    /// Takes a finding in.
    pub fn rank_finding(&mut self, f: &Seen<'_>) {
        if !f.is_faint() {
            self.host(f);
        }
        let Topic::Call(kind) = f.topic else { return };
        let word = kind.word();
        let dst = f.dst.filter(|dst| *dst != CalleeRef::Name(""));
        let Some((src, dst)) = f.src.zip(dst) else { return };
        let call = self.calls.entry((src, Callee::from_ref(dst))).or_default();
        if call.dst.is_empty() {
            (call.src, call.span) = (src, f.span);
            call.dst = match dst {
                CalleeRef::Ip(ip) => ip.to_string(),
                CalleeRef::Name(name) => name.to_owned(),
            };
            call.is_faint = true;
        }
        if !call.kinds.contains(&word) {
            call.kinds.push(word);
            call.kinds.sort_unstable();
        }
        call.port = if f.port > 0 { f.port } else { call.port };
        call.is_faint &= f.is_faint();
        call.threat = call.threat.max(f.threat);
        call.level = call.level.max(f.level);
        call.weight = call.weight.max(f.weight());
        call.count = call.count.max(f.count);
        call.bytes = call.bytes.max(f.bytes);
        call.seconds = call.seconds.max(f.seconds);
        call.span = (call.span.0.min(f.span.0), call.span.1.max(f.span.1));
        if self.calls.len() > 2 * RANK_ROWS_MAX {
            self.thin_calls();
        }
    }

    fn host(&mut self, f: &Seen<'_>) {
        let kind = self.place_of(f.kind);
        let host = self.hosts.entry(f.host).or_default();
        host.host = f.host;
        if let Some(n) = host.levels.get_mut(f.level as usize) {
            *n += 1;
        }
        let weight = f.weight();
        if weight > 0.0
            && let Some(kind) = kind
        {
            match host.by_kind.iter_mut().find(|(of, _)| *of == kind) {
                Some((_, worst)) => {
                    host.sum = round(host.sum + (weight - *worst).max(0.0));
                    *worst = worst.max(weight);
                }
                None => {
                    host.by_kind.reserve_exact(1);
                    host.by_kind.push((kind, weight));
                    host.sum = round(host.sum + weight);
                }
            }
            host.kinds = host.by_kind.len();
        }
        if weight > host.worst || host.kind.is_empty() {
            (host.worst, host.level) = (weight, f.level);
            host.kind = f.kind.to_owned();
        }
        if self.hosts.len() > 2 * RANK_ROWS_MAX {
            self.thin_hosts();
        }
    }

    /// Takes a row of another table of the same findings in: what was larger stays.
    pub fn join_call(&mut self, row: Call) {
        let call = self.calls.entry(row.key()).or_insert_with(|| Call {
            is_faint: true,
            span: row.span,
            ..Call::default()
        });
        let mut kinds = std::mem::take(&mut call.kinds);
        kinds.extend(row.kinds.iter());
        kinds.sort_unstable();
        kinds.dedup();
        *call = Call {
            kinds,
            port: if row.port > 0 { row.port } else { call.port },
            threat: row.threat.max(call.threat),
            level: row.level.max(call.level),
            count: row.count.max(call.count),
            bytes: row.bytes.max(call.bytes),
            seconds: row.seconds.max(call.seconds),
            span: (row.span.0.min(call.span.0), row.span.1.max(call.span.1)),
            weight: row.weight.max(call.weight),
            is_faint: row.is_faint && call.is_faint,
            ..row
        };
    }

    /// The same of a row of *hosts*.
    pub fn join_host(&mut self, row: Ranked) {
        let host = self
            .hosts
            .entry(row.host)
            .or_insert_with(|| Ranked { host: row.host, ..Ranked::default() });
        if row.worst > host.worst || host.kind.is_empty() {
            (host.worst, host.level) = (row.worst, row.level);
            host.kind = row.kind;
        }
        host.kinds = host.kinds.max(row.kinds);
        host.sum = host.sum.max(row.sum);
    }

    /// Drops the calls that are last. The others stay where they are: a flood makes this happen again and again.
    #[cold]
    fn thin_calls(&mut self) {
        let mut listed: Vec<&Call> = self.calls.values().filter(|c| !c.is_faint).collect();
        let last = last_of(&mut listed, Call::order).cloned();
        let before = self.calls.len();
        self.calls
            .retain(|_, c| !c.is_faint && last.as_ref().is_none_or(|last| c.order(last).is_le()));
        self.dropped += (before - self.calls.len()) as u64;
    }

    /// The same of hosts.
    #[cold]
    fn thin_hosts(&mut self) {
        let mut listed: Vec<&Ranked> = self.hosts.values().filter(|h| h.worst > 0.0).collect();
        let last = last_of(&mut listed, Ranked::order).cloned();
        let before = self.hosts.len();
        self.hosts
            .retain(|_, h| h.worst > 0.0 && last.as_ref().is_none_or(|last| h.order(last).is_le()));
        self.dropped += (before - self.hosts.len()) as u64;
    }

    /// The place of a kind's name; none when there are more kinds than can be counted apart.
    fn place_of(&mut self, kind: &str) -> Option<u16> {
        let known = self.names.iter().position(|name| name == kind);
        let place = known.or_else(|| {
            let has_room = self.names.len() < RANKED_KINDS_MAX;
            has_room.then(|| self.names.push(kind.to_owned()))?;
            Some(self.names.len() - 1)
        });
        place.and_then(|place| u16::try_from(place).ok())
    }

    /// *Calls out*: by threat, then by level times confidence, then by count.
    #[must_use]
    pub fn calls(&self) -> Vec<&Call> {
        let mut all: Vec<&Call> = self.calls.values().filter(|c| !c.is_faint).collect();
        all.sort_by(|a, b| a.order(b));
        all
    }

    /// *Hosts*: by the worst level times confidence, then by kinds. A host with nothing above info is none.
    #[must_use]
    pub fn hosts(&self) -> Vec<&Ranked> {
        let mut all: Vec<&Ranked> = self.hosts.values().collect();
        all.retain(|h| h.worst > 0.0);
        all.sort_by(|a, b| a.order(b));
        all
    }
}

/// The last row that is kept, where there are more.
fn last_of<'a, T>(rows: &mut [&'a T], order: impl Fn(&T, &T) -> Ordering) -> Option<&'a T> {
    let last = RANK_ROWS_MAX - 1;
    (rows.len() > last).then(|| *rows.select_nth_unstable_by(last, |a, b| order(a, b)).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ip: &str) -> Ip {
        Ip::parse(ip.as_bytes()).unwrap()
    }

    fn seen<'a>(kind: &'a str, host: &str, dst: &'a str) -> Seen<'a> {
        let topic = match kind {
            "BEACON" => Topic::Call(CallKind::Beacon),
            "COMMAND_AND_CONTROL_CHANNEL" => Topic::Call(CallKind::CommandAndControl),
            "DATA_UPLOAD" => Topic::Call(CallKind::Upload),
            "LONG_TOTAL_CONNECTION" => Topic::Call(CallKind::Long),
            _ => Topic::Other,
        };
        Seen {
            kind,
            topic,
            level: ThreatLevel::High,
            confidence: 1.0,
            host: at(host),
            src: Some(at(host)),
            dst: Some(CalleeRef::from_text(dst)),
            port: 443,
            threat: 0.5,
            count: 10,
            bytes: 1,
            seconds: 1.0,
            span: (10, 20),
        }
    }

    /// One pair is one row however often and by however many kinds it was reported, and the threat decides where.
    #[test]
    fn calls_stand_by_threat_a_row_a_pair() {
        let mut rank = Rank::default();
        for n in 0..50 {
            rank.rank_finding(&Seen {
                count: n,
                ..seen("LONG_TOTAL_CONNECTION", "10.0.0.9", "5.5.5.5")
            });
        }
        rank.rank_finding(&Seen {
            threat: 0.9,
            level: ThreatLevel::Medium,
            ..seen("BEACON", "10.0.0.1", "c2.example")
        });
        rank.rank_finding(&Seen { span: (5, 90), ..seen("DATA_UPLOAD", "10.0.0.1", "c2.example") });
        rank.rank_finding(&seen("UNKNOWN_PORT", "10.0.0.2", "5.5.5.5"));
        let calls = rank.calls();
        let rows: Vec<_> =
            calls.iter().map(|c| (c.dst.as_str(), c.count, c.kinds.join(" "))).collect();
        let all =
            [("c2.example", 10, "beacon upload".to_owned()), ("5.5.5.5", 49, "long".to_owned())];
        assert_eq!(rows, all);
        assert_eq!((calls[0].span, calls[0].level), ((5, 90), ThreatLevel::High));
    }

    /// A hundred repeats weigh as one; two kinds weigh more than one.
    #[test]
    fn hosts_stand_by_their_worst_and_then_by_kinds() {
        let mut rank = Rank::default();
        for _ in 0..100 {
            rank.rank_finding(&seen("UNKNOWN_PORT", "10.0.0.1", "5.5.5.5"));
        }
        rank.rank_finding(&seen("UNKNOWN_PORT", "10.0.0.2", "5.5.5.5"));
        rank.rank_finding(&seen("VERTICAL_PORT_SCAN", "10.0.0.2", "5.5.5.5"));
        rank.rank_finding(&Seen {
            level: ThreatLevel::Info,
            ..seen("HTTP_TRAFFIC", "10.0.0.3", "5.5.5.5")
        });
        rank.rank_finding(&Seen {
            level: ThreatLevel::Critical,
            confidence: 0.2,
            ..seen("MITM_ARP_ATTACK", "10.0.0.4", "x")
        });
        let order: Vec<_> = rank.hosts().iter().map(|h| h.host).collect();
        assert_eq!(order, [at("10.0.0.2"), at("10.0.0.1"), at("10.0.0.4")]);
    }

    #[test]
    fn a_faint_channel_is_in_no_table() {
        let mut rank = Rank::default();
        let faint =
            Seen { confidence: 0.09, ..seen("COMMAND_AND_CONTROL_CHANNEL", "10.0.0.1", "1.2.3.4") };
        rank.rank_finding(&faint);
        assert_eq!((rank.calls().len(), rank.hosts().len()), (0, 0));
        rank.rank_finding(&seen("UNKNOWN_PORT", "10.0.0.1", "5.5.5.5"));
        assert_eq!((rank.calls().len(), rank.hosts().len()), (0, 1));
        rank.rank_finding(&Seen { confidence: CHANNEL_SURE, ..faint });
        assert_eq!((rank.calls().len(), rank.hosts().len()), (1, 1));
    }

    /// Tables that are saved and loaded continue as they were: the same rows, whether called by name or address.
    #[test]
    fn tables_continue_where_they_were_kept() {
        let mut rank = Rank::default();
        let give = |rank: &mut Rank| {
            for (host, dst) in
                [("10.0.0.1", "c2.example"), ("10.0.0.2", "5.5.5.5"), ("10.0.0.2", "::7")]
            {
                rank.rank_finding(&seen("BEACON", host, dst));
                rank.rank_finding(&seen("UNKNOWN_PORT", host, dst));
            }
        };
        give(&mut rank);
        let (mut bytes, mut again) = (Vec::new(), Vec::new());
        rank.save(&mut bytes);
        let mut back = Rank::load(&mut &bytes[..]).unwrap();
        back.save(&mut again);
        assert_eq!(bytes, again);
        give(&mut back);
        give(&mut rank);
        assert_eq!((back.calls(), back.hosts()), (rank.calls(), rank.hosts()));
        assert_eq!((back.calls().len(), back.hosts()[0].kinds), (3, 2));
    }

    /// However often rows were dropped, those that are left are the first of all.
    #[test]
    fn rows_that_are_left_are_the_first_of_all() {
        let mut rank = Rank::default();
        let threat = |n: u32| f64::from(n.wrapping_mul(2_654_435_761) >> 8);
        for n in 0..60_000u32 {
            let host = format!("10.{}.{}.{}", n / 40_000, n / 200 % 200, n % 200);
            let confidence = threat(n) / 1e8;
            rank.rank_finding(&Seen {
                threat: threat(n),
                confidence,
                ..seen("BEACON", &host, "5.5.5.5")
            });
        }
        let mut all: Vec<f64> = (0..60_000).map(threat).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        let first = |got: Vec<f64>| {
            got.into_iter().take(RANK_ROWS_MAX).eq(all[..RANK_ROWS_MAX].iter().copied())
        };
        assert!(first(rank.calls().iter().map(|c| c.threat).collect()));
        let worst: Vec<f64> = rank.hosts().iter().map(|h| h.worst).collect();
        assert!(worst.is_sorted_by(|a, b| a >= b) && worst.len() >= RANK_ROWS_MAX);
        assert!((worst[RANK_ROWS_MAX - 1] - all[RANK_ROWS_MAX - 1] / 1e8 * 0.8).abs() < 1e-6);
        assert!(rank.dropped > 2 * 40_000, "{}", rank.dropped);
    }

    #[test]
    fn a_flood_of_pairs_is_bounded_and_hides_no_worse_one() {
        let mut rank = Rank::default();
        rank.rank_finding(&Seen { threat: 0.9, ..seen("BEACON", "10.0.0.1", "c2.example") });
        for n in 0..40_000 {
            rank.rank_finding(&seen("BEACON", &format!("10.{}.{}.1", n / 200, n % 200), "5.5.5.5"));
        }
        assert!(rank.calls.len() <= 2 * RANK_ROWS_MAX && rank.dropped > 0);
        assert_eq!(rank.calls()[0].dst, "c2.example");
    }
}

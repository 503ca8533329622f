//! What a user does not want to hear of: addresses, ranges, names, organizations, hardware addresses
//! and autonomous systems, each with a direction and with what is ignored; and how often each entry
//! did so, so that a person sees why something was not told.
//!
//! Names are compared label by label: `sub.example.com` covers itself and what is below it and says
//! nothing of `example.com`. An organization is what its lists say, and only where a user listed it.
//!
//! Beside what Slips knows an entry may be about a type of findings or a pair of hosts, and may be narrowed to a type
//! and to the time before a moment. That moment is compared with the time of what is read, never with the clock: the
//! same input gives the same findings whenever it is read.

use crate::detect::ORGANIZATIONS;
use crate::intel::indicator::bare;
use crate::intel::ranges::{Ranges, bounds};
use crate::limits::{NAME_BYTES_MAX, WHITELIST_ENTRIES_MAX, WHITELIST_NARROW_RANGES_MAX, reached};
use crate::settings::Settings;
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, Indicator, Party, Role};
use gabion_record::logs::{Body, Mac, Record, SECOND, TimeNs, days};
use gabion_record::saved;
use gabion_record::saved::Saved;
use hashbrown::HashMap;
use std::collections::VecDeque;

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

/// The columns of a line behind the four that Slips knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Further {
    kind: Option<String>,
    until: Option<TimeNs>,
}

impl Whitelist {
    /// Reads Slips' format (`type,value,direction,ignore`) with what is Gabion's own behind it (`type=`, `until=`,
    /// `because=`); `lists` gives the text of an organization's list by its name (`google_domains`). Also what could
    /// not be used.
    pub fn read(text: &str, lists: &dyn Fn(&str) -> Option<String>) -> (Whitelist, Vec<String>) {
        let mut made = Whitelist::default();
        let mut wrong = Vec::new();
        let mut organizations = Vec::new();
        for (at, raw) in text.lines().enumerate() {
            let line = raw.trim();
            // `#` switches an entry off, `;` is a comment.
            if line.is_empty() || line.starts_with(['#', ';']) || line.contains("IoCType") {
                continue;
            }
            let columns: Vec<&str> =
                line.splitn(5, ',').map(|c| c.trim().trim_matches('"').trim()).collect();
            let [kind, value, side, ignore, rest @ ..] = columns.as_slice() else {
                wrong.push(format!(
                    "line {}: not four columns: write type,value,direction,ignore",
                    at + 1
                ));
                continue;
            };
            let (Some(side), Some((flows, alerts))) = (side_of(side), ignored(ignore)) else {
                wrong.push(format!(
                    "line {}: direction must be src, dst or both; ignore must be flows, alerts or both",
                    at + 1
                ));
                continue;
            };
            let further = match further(rest.first().copied().unwrap_or_default()) {
                Ok(further) => further,
                Err(why) => {
                    wrong.push(format!("line {}: {why}", at + 1));
                    continue;
                }
            };
            let is_of_evidence = *kind == "evidence" || further.kind.is_some();
            if flows && is_of_evidence {
                wrong.push(format!(
                    "line {}: flows have no type: write alerts in the fourth column",
                    at + 1
                ));
                continue;
            }
            if made.entries.len() >= WHITELIST_ENTRIES_MAX {
                wrong.push(format!("line {}: too many entries", at + 1));
                break;
            }
            let number = made.entries.len() as u32;
            made.entries.push(Entry {
                line: at as u32 + 1,
                text: crate::finding::text(line.as_bytes()),
                side,
                ignores_flows: flows,
                ignores_alerts: alerts,
                kind: further.kind,
                until: further.until,
                older: None,
            });
            if *kind == "organization" {
                organizations.push((number, value.to_ascii_lowercase()));
            } else if let Err(why) = made.one(kind, value, number) {
                made.entries.pop();
                wrong.push(format!("line {}: {why}", at + 1));
            }
        }
        for (number, name) in organizations {
            if !made.organization(&name, number, lists) {
                let line = made.entries.get(number as usize).map_or(0, |e| e.line);
                wrong.push(format!("line {line}: nothing is known of the organization `{name}`"));
            }
        }
        made.ranges.close();
        (made, wrong)
    }

    /// Enters what an entry is about. Of entries with the same value the last one counts; before one that is narrowed
    /// the others still do.
    fn one(&mut self, kind: &str, value: &str, number: u32) -> Result<(), String> {
        let is_narrowed = self.entries.get(number as usize).is_some_and(Entry::is_narrowed);
        let no = |what: &str| Err(format!("`{value}` is no {what}"));
        let older = match kind {
            "ip" | "range" => match bounds(value.as_bytes()) {
                Some((first, last)) if first == last => self.ips.insert(first, number),
                Some((first, last)) if is_narrowed => {
                    if self.narrow_ranges.len() >= WHITELIST_NARROW_RANGES_MAX {
                        return Err(format!(
                            "more than {WHITELIST_NARROW_RANGES_MAX} networks with a type or an end"
                        ));
                    }
                    self.narrow_ranges.push((first, last, number));
                    None
                }
                Some((first, last)) => {
                    self.ranges.add(first, last, number);
                    None
                }
                None => return no("address, network or range"),
            },
            "domain" => match name_of(value) {
                Some(name) => self.names.insert(name, number),
                None => return no("name"),
            },
            "mac" => match Mac::parse(value.as_bytes()) {
                Some(mac) => self.macs.insert(mac, number),
                None => return no("hardware address"),
            },
            "asn" => match value.trim_start_matches(['A', 'S', 'a', 's']).parse() {
                Ok(asn) => self.asns.insert(asn, number),
                Err(_) => return no("number of an autonomous system"),
            },
            "evidence" => match known_type(value) {
                Some(name) => self.kinds.insert(name.into(), number),
                None => return no("type of findings: docs/detections.md has them all"),
            },
            "pair" => {
                let mut ends = value.split_ascii_whitespace();
                let (from, to, rest) = (ends.next(), ends.next(), ends.next());
                let from = from.and_then(|ip| Ip::parse(ip.as_bytes()));
                match (from, to, rest) {
                    (Some(from), Some(to), None) => match Ip::parse(to.as_bytes()) {
                        Some(to) => self.pairs.insert((from, to), number),
                        None => match name_of(to) {
                            Some(name) => self.pairs_by_name.insert((from, name), number),
                            None => {
                                return no(
                                    "pair: write an address, a blank, and an address or a name",
                                );
                            }
                        },
                    },
                    _ => return no("pair: write an address, a blank, and an address or a name"),
                }
            }
            _ => {
                return Err(format!(
                    "unknown type `{kind}`: write ip, domain, mac, asn, organization, evidence or pair"
                ));
            }
        };
        if let Some(entry) = self.entries.get_mut(number as usize).filter(|_| is_narrowed) {
            entry.older = older;
        }
        Ok(())
    }

    /// What an organization's lists name, where no entry of its own does.
    fn organization(
        &mut self,
        name: &str,
        number: u32,
        lists: &dyn Fn(&str) -> Option<String>,
    ) -> bool {
        let mut is_known = false;
        let own = ORGANIZATIONS.iter().find(|(n, _)| *n == name).map_or(&[][..], |o| o.1);
        for domain in own {
            self.names.entry(domain.as_bytes().into()).or_insert(number);
            is_known = true;
        }
        let each = |list: &str, take: &mut dyn FnMut(&[u8])| {
            let Some(text) = lists(&format!("{name}_{list}")) else { return false };
            let lines = text.lines().map(|l| bare(l.as_bytes()));
            lines.filter(|l| !l.is_empty() && !l.starts_with(b"#")).for_each(take);
            true
        };
        is_known |= each("domains", &mut |l| {
            let name = l.to_ascii_lowercase();
            if name.contains(&b'.') {
                self.names.entry(name.into()).or_insert(number);
            }
        });
        is_known |= each("ip_ranges", &mut |l| {
            if let Some((first, last)) = bounds(l) {
                self.ranges.add(first, last, number);
            }
        });
        is_known |= each("asn", &mut |l| {
            let digits = l.strip_prefix(b"AS").unwrap_or(l);
            if let Some(asn) = crate::intel::indicator::number(digits) {
                self.asns.entry(asn).or_insert(number);
            }
        });
        is_known
    }

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

    /// Whether evidence of a type is ignored that a source gives at a moment, to a target that is an address or a
    /// name: what can be said of a finding that was told, without what was learned from records.
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
        let (from, to) = (End::of(source), End::of(target));
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
    fn of(text: &'a str) -> End<'a> {
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
            Indicator::Domain(text) | Indicator::Url(text) => End { ip: None, ..End::of(text) },
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

/// A name as it is compared.
fn name_of(text: &str) -> Option<Box<[u8]>> {
    let name = text.strip_prefix("*.").unwrap_or(text).trim_end_matches('.');
    let is_name = !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(' ');
    is_name.then(|| name.to_ascii_lowercase().into_bytes().into())
}

/// The name of a type of findings, in whatever case it is written.
pub fn known_type(text: &str) -> Option<&'static str> {
    let all = crate::detect::ALL.iter().flat_map(|(_, about)| about.types);
    all.map(|kind| kind.name).find(|name| name.eq_ignore_ascii_case(text))
}

/// Reads `type=TYPE`, `until=MOMENT` and `because=TEXT`, of which the last takes all that follows.
fn further(mut rest: &str) -> Result<Further, String> {
    let mut made = Further::default();
    while !rest.trim().is_empty() {
        if rest.trim_start().starts_with("because=") {
            break;
        }
        let (column, behind) = rest.split_once(',').unwrap_or((rest, ""));
        rest = behind;
        match column.trim().split_once('=') {
            Some(("type", name)) => {
                let known = known_type(name.trim());
                let known = known.ok_or_else(|| {
                    format!("type={name}: no type of findings: docs/detections.md has them all")
                })?;
                made.kind = Some(known.to_owned());
            }
            Some(("until", moment)) => {
                let known = second_of(moment.trim()).map(|s| TimeNs(s.saturating_mul(SECOND)));
                made.until = Some(known.ok_or_else(|| {
                    format!("until={moment}: no moment: write it as 2026-11-30T12:00:00Z")
                })?);
            }
            _ => {
                return Err(format!(
                    "column `{}`: write type=TYPE, until=MOMENT or because=TEXT, or leave it out",
                    column.trim()
                ));
            }
        }
    }
    Ok(made)
}

/// Seconds since 1970 of a moment as `2026-11-30T12:00:00Z`, or of a day's begin (RFC 3339, in UTC).
fn second_of(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00Z"));
    let numbers = |text: &str, mark: char| -> Option<[i64; 3]> {
        let parts: Vec<&str> = text.split(mark).collect();
        let [a, b, c] = parts.as_slice() else { return None };
        let is_number = |t: &&str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let all = [a, b, c];
        if !all.iter().all(|t| is_number(t) && t.len() <= 4) {
            return None;
        }
        Some([a.parse().ok()?, b.parse().ok()?, c.parse().ok()?])
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time.strip_suffix('Z')?, ':')?;
    let days_of = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let is_date =
        (1970..=2200).contains(&year) && (1..=12).contains(&month) && (1..=days_of).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 61;
    (is_date && is_time)
        .then(|| days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn side_of(text: &str) -> Option<Side> {
    match text {
        "src" => Some(Side::Src),
        "dst" => Some(Side::Dst),
        "both" => Some(Side::Both),
        _ => None,
    }
}

fn ignored(text: &str) -> Option<(bool, bool)> {
    match text {
        "flows" => Some((true, false)),
        "alerts" => Some((false, true)),
        "both" => Some((true, true)),
        _ => None,
    }
}

/// Addresses known by a listed name or hardware address, IPv4 and IPv6 alike.
#[derive(Debug, Default)]
struct Known(Map<Ip>);

impl Saved for Known {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Saved::load(from).map(Known)
    }
}

impl Saved for Hits {
    fn save(&self, out: &mut Vec<u8>) {
        self.0.save(out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Saved::load(from).map(Hits)
    }
}

saved! {
    Learned { behind, ip, entry }
    Passed { known, hits, news }
    Withheld { known, hits, waiting }
}

impl Known {
    fn get(&self, ip: Ip) -> Option<u32> {
        self.0.get(&ip).copied()
    }

    /// Whether that was news.
    fn set(&mut self, ip: Ip, entry: u32) -> bool {
        let has_room = self.0.contains_key(&ip) || reached::SITE_ENTRIES_MAX.has_room(self.0.len());
        has_room && self.0.insert(ip, entry) != Some(entry)
    }
}

/// How often entries were the reason.
#[derive(Debug, Default)]
struct Hits(Vec<u64>);

impl Hits {
    fn count(&mut self, entry: u32) {
        let at = entry as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        if let Some(hits) = self.0.get_mut(at) {
            *hits += 1;
        }
    }

    fn of(&self, entry: usize) -> u64 {
        self.0.get(entry).copied().unwrap_or_default()
    }
}

/// An address that an entry covers from a record on, because of a name or hardware address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The watermark's second at the record, and its number: what stands behind them knows it.
    pub(crate) behind: (i64, u64),
    ip: Ip,
    entry: u32,
}

/// The site's side: what it has learned about entries, and records that they hide.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    known: Known,
    hits: Hits,
    news: Vec<(Ip, u32)>,
}

impl Passed {
    /// How many records an entry hid.
    pub(crate) fn hits(&self, entry: usize) -> u64 {
        self.hits.of(entry)
    }

    /// What the last record taught, to be known at evidence from there on.
    #[inline]
    pub(crate) fn take_news(
        &mut self,
        second: i64,
        record: u64,
    ) -> impl Iterator<Item = Learned> + '_ {
        let news = self.news.drain(..);
        news.map(move |(ip, entry)| Learned { behind: (second, record), ip, entry })
    }

    fn know(&mut self, ip: Ip, entry: Option<u32>) {
        if let Some(entry) = entry
            && self.known.set(ip, entry)
        {
            self.news.push((ip, entry));
        }
    }

    /// Takes a record in: learns from it, and says whether it is to be ignored.
    pub(crate) fn hides_record(&mut self, r: &Record<'_>, settings: &Settings) -> bool {
        let list = &settings.whitelist;
        let asked = |side| Asked { side, kind: None, ts: r.ts };
        let mut of_record = None;
        let mut of_answer = None;
        let mut macs = (None, None);
        match &r.body {
            Body::Dns(d) => {
                of_record = list.name(d.query);
                for ip in d.answers.iter().filter_map(Ip::parse) {
                    of_answer = of_answer.or_else(|| list.ip(ip, asked(Side::Dst)));
                    self.know(ip, of_record);
                }
            }
            Body::Ssl(s) => {
                of_record = list.name(s.server_name);
                self.know(r.dst, of_record);
            }
            Body::Http(h) => {
                of_record = list.name(h.host);
                self.know(r.dst, of_record);
            }
            Body::Conn(c) => macs = (c.src_mac, c.dst_mac),
            Body::Arp(a) => macs = (a.src_mac.or(a.src_hw), None),
            Body::Dhcp(d) => macs = (d.mac, None),
            _ => {}
        }
        let of_mac = |mac: Option<Mac>| mac.and_then(|m| list.macs.get(&m).copied());
        let macs = (of_mac(macs.0), of_mac(macs.1));
        self.know(r.src, macs.0);
        let of_asn = |ip: Ip| {
            if list.asns.is_empty() {
                return None;
            }
            list.asns.get(&settings.intel.asn_of(ip)?.0).copied()
        };
        let known = |ip: Ip| self.known.get(ip);
        let found = [
            (of_record, Side::Dst),
            (known(r.dst), Side::Dst),
            (known(r.src), Side::Src),
            (list.ip(r.src, asked(Side::Src)), Side::Src),
            (list.ip(r.dst, asked(Side::Dst)), Side::Dst),
            (of_answer, Side::Dst),
            (macs.0, Side::Src),
            (macs.1, Side::Dst),
            (of_asn(r.src), Side::Src),
            (of_asn(r.dst), Side::Dst),
        ]
        .into_iter()
        .find_map(|(entry, side)| list.applying(entry?, asked(side)))
        .or_else(|| {
            let (from, name) = (End { ip: Some(r.src), name: b"" }, name_in(&r.body));
            list.pair(from, End { ip: Some(r.dst), name }, asked(Side::Both))
        });
        if let Some(entry) = found {
            self.hits.count(entry);
        }
        found.is_some()
    }
}

/// The name that a record calls its destination by.
fn name_in<'a>(body: &Body<'a>) -> &'a [u8] {
    match body {
        Body::Ssl(s) => s.server_name,
        Body::Http(h) => h.host,
        _ => b"",
    }
}

/// The side behind profiles: evidence that entries hide, by what was learned before its place.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    known: Known,
    hits: Hits,
    /// Learned, but perhaps behind evidence that is still to come.
    waiting: VecDeque<Learned>,
}

impl Withheld {
    /// How many pieces of evidence an entry hid.
    pub(crate) fn hits(&self, entry: usize) -> u64 {
        self.hits.of(entry)
    }

    /// Takes in what the site learned, in its order.
    pub(crate) fn learn(&mut self, news: impl IntoIterator<Item = Learned>) {
        self.waiting.extend(news);
    }

    /// All evidence of before has been asked for: what was learned until then is known from now on.
    pub(crate) fn catch_up(&mut self) {
        for learned in self.waiting.drain(..) {
            self.known.set(learned.ip, learned.entry);
        }
    }

    /// Whether evidence at a place is to be ignored: by its attacker or its victim.
    pub(crate) fn hides(&mut self, e: &Evidence, at: (i64, u64), settings: &Settings) -> bool {
        let list = &settings.whitelist;
        if list.is_empty() {
            return false;
        }
        while let Some(learned) = self.waiting.pop_front_if(|learned| learned.behind <= at) {
            self.known.set(learned.ip, learned.entry);
        }
        let asked = |side| Asked { side, kind: Some(e.kind.name), ts: e.ts };
        let of = |party: &Party| {
            let side = if party.role == Role::Source { Side::Src } else { Side::Dst };
            let by_name = |name: &str| list.of_name(name.as_bytes(), asked(Side::Dst));
            match &party.what {
                Indicator::Ip(ip) => {
                    let asn = settings.intel.asn_of(*ip).and_then(|(n, _)| list.asns.get(&n));
                    let learned = [self.known.get(*ip), asn.copied()];
                    let learned = || {
                        let mut all = learned.into_iter().flatten();
                        all.find_map(|n| list.applying(n, asked(side)))
                    };
                    list.ip(*ip, asked(side)).or_else(learned)
                }
                Indicator::Domain(name) => by_name(name),
                Indicator::Url(url) => by_name(url.split(['/', ':']).next().unwrap_or_default()),
                Indicator::Md5(_) => None,
            }
        };
        let of_kind = || {
            let entry = list.kinds.get(e.kind.name);
            entry.and_then(|n| list.applying(*n, asked(Side::Both)))
        };
        let of_pair = || {
            let (from, to) = (e.party(Role::Source)?, e.party(Role::Destination)?);
            list.pair(End::of_party(from), End::of_party(to), asked(Side::Both))
        };
        let found = of(&e.attacker).or_else(|| e.victim.as_ref().and_then(of));
        let found = found.or_else(of_kind).or_else(of_pair);
        if let Some(entry) = found {
            self.hits.count(entry);
        }
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{http_traffic, long_connection};
    use crate::intel::Purpose;
    use crate::intel::tests::intel;
    use crate::trial::{Flow, Trial, conn, log};
    use gabion_record::logs::{Dns, Http, List};
    use std::sync::Arc;

    fn trial(text: &str) -> Trial {
        let lists = |name: &str| match name {
            "google_ip_ranges" => Some("8.8.8.0/24\n".to_owned()),
            "google_domains" => Some("gstatic.example\n".to_owned()),
            _ => None,
        };
        let (whitelist, wrong) = Whitelist::read(text, &lists);
        assert!(wrong.is_empty(), "{wrong:?}");
        let table = intel(&[("t", Purpose::Systems, "6.6.0.0/16,64500,TEAM apple")], 9);
        Trial::with(Settings {
            whitelist: Arc::new(whitelist),
            intel: Arc::new(table),
            ..Settings::default()
        })
    }

    fn long(src: &str, dst: &str) -> Flow {
        conn(0, src, dst, 443).lasting(5000.0)
    }

    fn told(text: &str, flows: &[Flow]) -> usize {
        let mut trial = trial(text);
        flows.iter().for_each(|f| trial.give(f));
        trial.of(&long_connection::TYPE).len()
    }

    #[test]
    fn addresses_ranges_systems_and_hardware_are_ignored() {
        let flow = [long("10.0.0.1", "6.6.6.6")];
        for (text, count) in [
            ("", 1),
            ("ip,6.6.6.6,both,alerts", 0),
            ("ip,6.6.6.6,dst,flows", 0),
            ("ip,6.6.6.6,src,both", 1),
            ("ip,10.0.0.1,src,alerts", 0),
            ("ip,10.0.0.1,dst,both", 1),
            ("ip,6.6.0.0/16,dst,alerts", 0),
            ("ip,6.7.0.0/16,dst,alerts", 1),
            ("asn,AS64500,both,both", 0),
            ("asn,64501,both,both", 1),
            // D23 of the peer: a system's name that has an organization's in it means nothing.
            ("organization,apple,both,both", 1),
            (
                "#ip,6.6.6.6,both,both\n; a comment\n\"IoCType\",\"IoCValue\",\"Direction\",\"IgnoreType\"",
                1,
            ),
            // The last line of a value counts.
            ("ip,6.6.6.6,both,both\nip,6.6.6.6,src,alerts", 1),
        ] {
            assert_eq!(told(text, &flow), count, "{text}");
        }
        let mut by_mac = long("10.0.0.1", "6.6.6.6");
        by_mac.src_mac = Mac::parse(b"b1:b1:b1:c1:c2:c3");
        assert_eq!(told("mac,b1:b1:b1:c1:c2:c3,both,alerts", &[by_mac.clone()]), 0);
        assert_eq!(told("mac,b1:b1:b1:c1:c2:c4,both,alerts", &[by_mac]), 1);
    }

    /// D24 of the peer: label by label, and a name below says nothing of the one above.
    #[test]
    fn names_are_compared_by_label() {
        let visit = |host: &str, text: &str| {
            let mut trial = trial(text);
            let h = Http { host: host.as_bytes(), ..Http::default() };
            trial.record(&log(0, "10.0.0.1", "6.6.6.6", Body::Http(h)));
            trial.of(&http_traffic::TRAFFIC).len()
        };
        for (host, text, count) in [
            ("example.com", "domain,example.com,both,both", 0),
            ("a.b.EXAMPLE.com", "domain,example.com,dst,flows", 0),
            ("a.example.com", "domain,sub.example.com,both,both", 1),
            ("example.com", "domain,sub.example.com,both,both", 1),
            ("notexample.com", "domain,example.com,both,both", 1),
            ("mail.google.com", "organization,google,both,both", 0),
            ("evilgoogle.com", "organization,google,both,both", 1),
            ("x.gstatic.example", "organization,google,both,both", 0),
            ("example.com", "domain,example.com,src,both", 1),
        ] {
            assert_eq!(visit(host, text), count, "{host} {text}");
        }
    }

    #[test]
    fn an_address_is_known_by_the_name_it_was_answered_for() {
        let mut trial = trial("domain,example.com,both,alerts");
        let answers = List { raw: b"6.6.6.6", is_json: false };
        let d = Dns { query: b"www.example.com", answers, ..Dns::default() };
        trial.record(&log(0, "10.0.0.1", "10.0.0.2", Body::Dns(d)));
        trial.give(&long("10.0.0.1", "6.6.6.6"));
        trial.give(&long("10.0.0.1", "6.6.6.7"));
        assert_eq!(trial.of(&long_connection::TYPE).len(), 1);
        let why = trial.engine.whitelisted();
        assert_eq!(why.len(), 1);
        assert_eq!((why[0].0.line, why[0].0.text.as_str()), (1, "domain,example.com,both,alerts"));
        assert!(why[0].2 >= 1);
    }

    /// Types and pairs are Gabion's own; an entry narrowed to a type or a time leaves the rest to those before it.
    #[test]
    fn types_pairs_and_ends_narrow_an_entry() {
        let flow = [long("10.0.0.1", "6.6.6.6")];
        // The flow is of 1970-01-01; it is told when it is over.
        for (text, count) in [
            ("evidence,long_connection,both,alerts", 0),
            ("evidence,BEACON,both,alerts", 1),
            ("pair,10.0.0.1 6.6.6.6,both,alerts", 0),
            ("pair,10.0.0.1 6.6.6.6,both,flows", 0),
            ("pair,6.6.6.6 10.0.0.1,both,alerts", 0),
            ("pair,6.6.6.6 10.0.0.1,dst,alerts", 0),
            ("pair,6.6.6.6 10.0.0.1,src,alerts", 1),
            ("pair,10.0.0.1 6.6.6.6,src,flows", 0),
            ("pair,10.0.0.1 6.6.6.6,dst,flows", 1),
            ("pair,10.0.0.1 6.6.6.7,both,alerts", 1),
            ("ip,6.6.6.6,both,alerts,type=LONG_CONNECTION", 0),
            ("ip,6.6.6.6,both,alerts,type=BEACON", 1),
            ("ip,6.6.6.6,both,alerts,until=2200-01-01T00:00:00Z", 0),
            ("ip,6.6.6.6,both,alerts,until=1970-01-01T00:00:00Z,because=it, ended", 1),
            ("ip,6.6.6.6,both,alerts,because=a backup, until=never", 0),
            ("ip,6.6.0.0/16,dst,alerts,type=LONG_CONNECTION", 0),
            ("ip,6.6.0.0/16,src,alerts,type=LONG_CONNECTION", 1),
            // One that is narrowed does not stand in the way of the one before it, another one does.
            ("ip,6.6.6.6,both,alerts\nip,6.6.6.6,both,alerts,type=BEACON", 0),
            ("ip,6.6.6.6,both,alerts\nip,6.6.6.6,src,alerts", 1),
            ("ip,6.6.6.6,both,alerts,type=LONG_CONNECTION\nip,6.6.6.6,both,alerts,type=BEACON", 0),
        ] {
            assert_eq!(told(text, &flow), count, "{text}");
        }
        let (list, _) = Whitelist::read("pair,10.0.0.1 evil.example,both,alerts", &|_| None);
        for (target, hidden) in [
            ("evil.example", true),
            ("a.evil.example", true),
            ("a.evil.example/x", true),
            ("example", false),
        ] {
            assert_eq!(list.ignores("BEACON", "10.0.0.1", target, TimeNs(0)), hidden, "{target}");
            assert!(!list.ignores("BEACON", "10.0.0.2", target, TimeNs(0)), "{target}");
        }
    }

    #[test]
    fn moments_are_read() {
        for (text, second) in [
            ("1970-01-01", Some(0)),
            ("2026-11-30T12:00:05Z", Some(1_796_040_005)),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800)),
            ("2023-02-29T00:00:00Z", None),
            ("2026-11-30T12:00:05", None),
            ("2026-11-30 12:00:05Z", None),
            ("2026-13-01", None),
            ("20260-1-1", None),
            ("2026--1-01", None),
            ("", None),
        ] {
            assert_eq!(second_of(text), second, "{text}");
        }
    }

    #[test]
    fn what_is_no_entry_is_said() {
        let text = "ip,1.2.3,both,both\nip,1.2.3.4,up,both\nip,1.2.3.4,both\nmac,zz,both,both\n\
            organization,nobody,both,both\nthing,x,both,both\nasn,AS,src,flows\n\
            evidence,NOTHING,both,alerts\nevidence,BEACON,both,flows\npair,10.0.0.1,both,alerts\n\
            ip,1.2.3.4,both,alerts,until=soon\nip,1.2.3.4,both,alerts,type=NOTHING\nip,1.2.3.4,both,alerts,x";
        let (list, wrong) = Whitelist::read(text, &|_| None);
        assert_eq!((wrong.len(), list.entries().len()), (13, 1), "{wrong:?}");
        assert!(wrong[0].starts_with("line 1"));
    }
}

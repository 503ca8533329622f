//! What a user does not want to hear of: addresses, ranges, names, organizations, hardware addresses
//! and autonomous systems, each with a direction and with what is ignored; and how often each entry
//! did so, so that a person sees why something was not told.
//!
//! Names are compared label by label: `sub.example.com` covers itself and what is below it and says
//! nothing of `example.com`. An organization is what its lists say, and only where a user listed it.

use crate::detect::ORGANIZATIONS;
use crate::intel::indicator::bare;
use crate::intel::ranges::{Ranges, bounds};
use crate::limits::{NAME_BYTES_MAX, WHITELIST_ENTRIES_MAX, reached};
use crate::settings::Settings;
use foldhash::fast::FixedState;
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, Indicator, Party, Role};
use gabion_record::logs::{Body, Mac, Record};
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
}

impl Whitelist {
    /// Reads the peer's format (`type,value,direction,ignore`); `lists` gives the text of an
    /// organization's list by its name (`google_domains`). Also what could not be used.
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
                line.split(',').map(|c| c.trim().trim_matches('"').trim()).collect();
            let [kind, value, side, ignore] = columns.as_slice() else {
                wrong.push(format!("line {}: not four columns", at + 1));
                continue;
            };
            let (Some(side), Some((flows, alerts))) = (side_of(side), ignored(ignore)) else {
                wrong.push(format!("line {}: direction or what is ignored", at + 1));
                continue;
            };
            if made.entries.len() >= WHITELIST_ENTRIES_MAX {
                wrong.push(format!("line {}: too many entries", at + 1));
                break;
            }
            let number = made.entries.len() as u32;
            let is_read = made.one(kind, value, number);
            if *kind == "organization" {
                organizations.push((number, value.to_ascii_lowercase()));
            } else if !is_read {
                wrong.push(format!("line {}: `{value}` is no {kind}", at + 1));
                continue;
            }
            made.entries.push(Entry {
                line: at as u32 + 1,
                text: crate::finding::text(line.as_bytes()),
                side,
                ignores_flows: flows,
                ignores_alerts: alerts,
            });
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

    /// Of entries with the same value the last one counts.
    fn one(&mut self, kind: &str, value: &str, number: u32) -> bool {
        match kind {
            "ip" | "range" => match bounds(value.as_bytes()) {
                Some((first, last)) => {
                    if first == last {
                        self.ips.insert(first, number);
                    } else {
                        self.ranges.add(first, last, number);
                    }
                    true
                }
                None => false,
            },
            "domain" => {
                let name = value.strip_prefix("*.").unwrap_or(value).trim_end_matches('.');
                let is_name =
                    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(' ');
                if is_name {
                    self.names.insert(name.to_ascii_lowercase().into_bytes().into(), number);
                }
                is_name
            }
            "mac" => match Mac::parse(value.as_bytes()) {
                Some(mac) => {
                    self.macs.insert(mac, number);
                    true
                }
                None => false,
            },
            "asn" => match value.trim_start_matches(['A', 'S', 'a', 's']).parse() {
                Ok(asn) => {
                    self.asns.insert(asn, number);
                    true
                }
                Err(_) => false,
            },
            _ => false,
        }
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

    fn ip(&self, ip: Ip) -> Option<u32> {
        self.ips.get(&ip).copied().or_else(|| self.ranges.get(ip))
    }

    /// The entry for a name or for the nearest one above it.
    fn name(&self, name: &[u8]) -> Option<u32> {
        if self.names.is_empty() || name.is_empty() || name.len() > NAME_BYTES_MAX {
            return None;
        }
        let mut lower = [0; NAME_BYTES_MAX];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let mut rest: &[u8] = lower.strip_suffix(b".").unwrap_or(lower);
        loop {
            if let Some(entry) = self.names.get(rest) {
                return Some(*entry);
            }
            rest = rest.get(rest.iter().position(|b| *b == b'.')? + 1..)?;
        }
    }

    fn applies(&self, entry: u32, side: Side, flows: bool) -> bool {
        self.entries.get(entry as usize).is_some_and(|e| {
            (e.side == Side::Both || e.side == side)
                && if flows { e.ignores_flows } else { e.ignores_alerts }
        })
    }
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
        let mut of_record = None;
        let mut of_answer = None;
        let mut macs = (None, None);
        match &r.body {
            Body::Dns(d) => {
                of_record = list.name(d.query);
                for ip in d.answers.iter().filter_map(Ip::parse) {
                    of_answer = of_answer.or_else(|| list.ip(ip));
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
            (list.ip(r.src), Side::Src),
            (list.ip(r.dst), Side::Dst),
            (of_answer, Side::Dst),
            (macs.0, Side::Src),
            (macs.1, Side::Dst),
            (of_asn(r.src), Side::Src),
            (of_asn(r.dst), Side::Dst),
        ]
        .into_iter()
        .filter_map(|(entry, side)| Some((entry?, side)))
        .find(|(entry, side)| list.applies(*entry, *side, true));
        if let Some((entry, _)) = found {
            self.hits.count(entry);
        }
        found.is_some()
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
        let of = |party: &Party| {
            let side = if party.role == Role::Source { Side::Src } else { Side::Dst };
            let (entry, side) = match &party.what {
                Indicator::Ip(ip) => {
                    let asn = settings.intel.asn_of(*ip).and_then(|(n, _)| list.asns.get(&n));
                    let entries = [list.ip(*ip), self.known.get(*ip), asn.copied()];
                    let found =
                        entries.into_iter().flatten().find(|n| list.applies(*n, side, false));
                    (found, side)
                }
                Indicator::Domain(name) => (list.name(name.as_bytes()), Side::Dst),
                Indicator::Url(url) => {
                    let host = url.split(['/', ':']).next().unwrap_or_default();
                    (list.name(host.as_bytes()), Side::Dst)
                }
                Indicator::Md5(_) => (None, side),
            };
            entry.filter(|entry| list.applies(*entry, side, false))
        };
        let found = of(&e.attacker).or_else(|| e.victim.as_ref().and_then(of));
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

    #[test]
    fn what_is_no_entry_is_said() {
        let text = "ip,1.2.3,both,both\nip,1.2.3.4,up,both\nip,1.2.3.4,both\nmac,zz,both,both\n\
            organization,nobody,both,both\nthing,x,both,both\nasn,AS,src,flows";
        let (list, wrong) = Whitelist::read(text, &|_| None);
        assert_eq!((wrong.len(), list.entries().len()), (7, 1));
        assert!(wrong[0].starts_with("line 1"));
    }
}

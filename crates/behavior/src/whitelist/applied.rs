//! What entries of a whitelist did in a run: what was learned about them from records, which records and which evidence
//! they hide, and how often.

use super::{Asked, End, Map, Side};
use crate::limits::reached;
use crate::settings::Settings;
use gabion_record::Ip;
use gabion_record::evidence::{Evidence, Indicator, Party, Role};
use gabion_record::logs::{Body, Mac, Record};
use gabion_record::saved;
use gabion_record::saved::Saved;
use std::collections::VecDeque;

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

    fn hits_of(&self, entry: usize) -> u64 {
        self.0.get(entry).copied().unwrap_or_default()
    }
}

/// An address that an entry covers from a record on, because of a name or hardware address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Learned {
    /// The watermark's second at the record, and its number: records after them know it.
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
        self.hits.hits_of(entry)
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

/// The side after profiles: evidence that entries hide, by what was learned before its place.
#[derive(Debug, Default)]
pub(crate) struct Withheld {
    known: Known,
    hits: Hits,
    /// Learned, but perhaps after evidence that is still to come.
    waiting: VecDeque<Learned>,
}

impl Withheld {
    /// How much evidence an entry hid.
    pub(crate) fn hits(&self, entry: usize) -> u64 {
        self.hits.hits_of(entry)
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

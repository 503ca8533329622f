//! Threat intelligence from files: what is listed as bad, asked for each record.
//!
//! Files of lines and of JSON are taken in as bytes ([`Builder`]); what remains of an indicator is a
//! fingerprint and where it stands. Its text is fetched again through [`Texts`] when evidence is
//! written, which also proves that the fingerprint was no chance. An [`Intel`] never changes: new files
//! make a new one, which is put in the old one's place while the engine runs.

pub(crate) mod ages;
pub(crate) mod asn;
mod builder;
mod filter;
pub(crate) mod index;
pub(crate) mod indicator;
pub(crate) mod line;
mod memory;
pub(crate) mod objects;
pub(crate) mod ranges;

pub use ages::{Ages, Maker, Makers};
pub use asn::AsnTable;
pub use builder::{Builder, FileCounts, Purpose};
pub use indicator::Indicator;

use crate::limits::{LIST_LINE_MAX, NAME_BYTES_MAX, OBJECT_MAX};
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::{Mac, TimeNs};
use index::{Found, Index, Place};
use indicator::{Class, Fnv};
use ranges::Ranges;
use std::fmt;

/// Reads the files again that an [`Intel`] was made of.
pub trait Texts: Send + Sync {
    /// At most `len` bytes of a file from `offset` on; `None` when they cannot be had.
    fn read_text(&self, file: usize, offset: u64, len: usize) -> Option<Vec<u8>>;
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name, which evidence names as the source.
    pub name: String,
    /// Level of entries that have none of their own.
    pub level: ThreatLevel,
    /// What was read and what not.
    pub counts: FileCounts,
    is_json: bool,
    header: Option<Box<[u8]>>,
}

/// All that is listed.
#[derive(Default)]
pub struct Intel {
    index: Index,
    ranges: Ranges,
    range_places: Vec<Place>,
    asns: AsnTable,
    ages: Ages,
    makers: Makers,
    sources: Vec<Source>,
    texts: Option<Box<dyn Texts>>,
    has: u8,
}

impl fmt::Debug for Intel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Intel of {} indicators, {} ranges", self.index.len(), self.range_places.len())
    }
}

/// What names something listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listed {
    /// Its fingerprint.
    Found(Found),
    /// A range.
    Range(Place),
}

/// Something listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    listed: Listed,
    /// How bad its list says it is.
    pub level: ThreatLevel,
    /// Not the name itself is listed, but one above it.
    pub is_parent: bool,
}

/// What a list says of an entry.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    /// What it is.
    pub description: String,
    /// The list.
    pub source: String,
    /// Tags.
    pub tags: String,
    /// How sure the list is, 0 to 1; 1 where it does not say.
    pub confidence: f64,
}

fn level_of(n: u8) -> ThreatLevel {
    ThreatLevel::ALL.get(usize::from(n)).copied().unwrap_or(ThreatLevel::Medium)
}

impl Intel {
    /// Whether anything is listed at all.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.has == 0 && self.ranges.is_empty()
    }

    fn has(&self, class: Class) -> bool {
        self.has & 1 << class as u8 != 0
    }

    fn find(&self, hash: u64) -> Option<Match> {
        self.index.get(hash).map(|found| Match::from_found(found, false))
    }

    /// The address, or the narrowest range that holds it.
    #[inline]
    pub fn ip(&self, ip: Ip) -> Option<Match> {
        let exact =
            if self.has(Class::Ip) { self.find(indicator::of_ip(Class::Ip, ip)) } else { None };
        exact.or_else(|| {
            let place = self.range_places.get(self.ranges.get(ip)? as usize)?;
            let level = level_of(place.level());
            Some(Match { listed: Listed::Range(*place), level, is_parent: false })
        })
    }

    /// The name, or the nearest one above it that is listed.
    ///
    /// Most names end as no listed one does, and the most of those that remain are listed themselves.
    #[inline]
    pub fn domain(&self, name: &[u8]) -> Option<Match> {
        if !self.has(Class::Domain) || name.len() > NAME_BYTES_MAX {
            return None;
        }
        if name.last() == Some(&b'.') { self.rooted(name) } else { self.name(name) }
    }

    /// A name with the dot that stands for the root.
    #[cold]
    #[inline(never)]
    fn rooted(&self, name: &[u8]) -> Option<Match> {
        self.name(name.strip_suffix(b".")?)
    }

    #[inline]
    fn name(&self, name: &[u8]) -> Option<Match> {
        if !self.index.has_end(indicator::of_end(name)) {
            return None;
        }
        match self.index.get(indicator::of_name(name)) {
            Some(found) => Some(Match::from_found(found, false)),
            None => self.parent(name),
        }
    }

    /// The nearest name above a name that is listed, the longest first.
    #[inline(never)]
    fn parent(&self, name: &[u8]) -> Option<Match> {
        let mut name = indicator::above(name)?;
        // One label alone is a top-level domain, which no list names.
        while let Some(next) = indicator::above(name) {
            if let Some(found) = self.index.get(indicator::of_name(name)) {
                return Some(Match::from_found(found, true));
            }
            name = next;
        }
        None
    }

    /// A URL by its host and what follows it.
    pub fn url(&self, host: &[u8], path: &[u8]) -> Option<Match> {
        if !self.has(Class::Url) || host.is_empty() {
            return None;
        }
        let mut h = Fnv::new(Class::Url);
        host.iter().chain(path).for_each(|b| h.add(*b));
        self.find(h.hash())
    }

    /// A hash in hex: of a file, a certificate, JA3 or JA3S.
    pub fn hash(&self, hex: &[u8]) -> Option<Match> {
        if !self.has(Class::Hash) || hex.len() < 32 {
            return None;
        }
        self.find(indicator::of_text(Class::Hash, hex))
            .filter(|_| !self.has(Class::Harmless) || !self.is_harmless(hex))
    }

    /// Whether a file is known as harmless though lists name it.
    pub fn is_harmless(&self, hex: &[u8]) -> bool {
        self.find(indicator::of_text(Class::Harmless, hex)).is_some()
    }

    /// An autonomous system.
    pub fn asn(&self, number: u32) -> Option<Match> {
        if !self.has(Class::Asn) {
            return None;
        }
        self.find(indicator::of_number(Class::Asn, number))
    }

    /// The system that an address belongs to, where a table says so.
    #[inline]
    pub fn asn_of(&self, ip: Ip) -> Option<(u32, &str)> {
        if self.asns.is_empty() { None } else { self.asns.get(ip) }
    }

    /// The country of an address, where the table of systems says so: two letters.
    pub fn country_of(&self, ip: Ip) -> Option<&str> {
        self.asns.country(ip)
    }

    /// When domains were registered.
    pub fn ages(&self) -> &Ages {
        &self.ages
    }

    /// Whether there is a table of makers.
    #[inline]
    pub fn has_makers(&self) -> bool {
        !self.makers.is_empty()
    }

    /// Whose hardware an address is of.
    pub fn maker(&self, mac: Mac) -> Option<Maker> {
        self.makers.get(mac)
    }

    /// Whether the address is a relay that traffic leaves Tor by.
    #[inline]
    pub fn is_tor_exit(&self, ip: Ip) -> bool {
        self.has(Class::TorExit) && self.find(indicator::of_ip(Class::TorExit, ip)).is_some()
    }

    /// What the list says of it; `None` when the list says that it does not hold at `now`, or when
    /// it says something else there (a fingerprint met by chance).
    pub fn entry(&self, found: &Match, asked: &Indicator<'_>, now: TimeNs) -> Option<Entry> {
        let place = match found.listed {
            Listed::Found(found) => self.index.place(found)?,
            Listed::Range(place) => place,
        };
        let source = self.sources.get(place.file())?;
        let mut entry = Entry { source: source.name.clone(), confidence: 1.0, ..Entry::default() };
        let len = if source.is_json { OBJECT_MAX } else { LIST_LINE_MAX };
        let text = self.texts.as_ref();
        let text = text.and_then(|t| t.read_text(place.file(), place.offset(), len));
        // A file that is gone says nothing more, but it was listed.
        let Some(text) = text else { return Some(entry) };
        if source.is_json {
            let mut object = None;
            objects::Objects::default().push(&text, &mut |at, bytes| {
                if at == 0 {
                    object = objects::read_object(bytes);
                }
            });
            let Some(object) = object else { return Some(entry) };
            let is_it = object.indicators.iter().any(|i| holds(i.as_bytes(), asked));
            if !is_it && !object.indicators.is_empty() {
                return None;
            }
            if object.from.is_some_and(|t| now < t) || object.until.is_some_and(|t| now >= t) {
                return None;
            }
            entry.description = crate::text::text(object.description.as_bytes());
            entry.tags = crate::text::text(object.tags.as_bytes());
            entry.confidence = object.confidence.map_or(1.0, |c| f64::from(c) / 100.0);
            return Some(entry);
        }
        let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
        if let line::Line::Entry(found, _) = line::parse_line(line)
            && !is_within(&found, asked)
        {
            return None;
        }
        (entry.description, entry.tags) = line::details(line, source.header.as_deref());
        Some(entry)
    }

    /// The files it was made of.
    pub fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// Indicators: fingerprints and ranges.
    pub fn len(&self) -> usize {
        self.index.len() + self.range_places.len()
    }

    /// Bytes it takes.
    pub fn bytes(&self) -> usize {
        let ranges = self.ranges.bytes() + self.range_places.capacity() * 8;
        self.index.bytes() + ranges + self.asns.bytes()
    }
}

impl Match {
    fn from_found(found: Found, is_parent: bool) -> Match {
        Match { listed: Listed::Found(found), level: level_of(found.level), is_parent }
    }
}

fn holds(text: &[u8], asked: &Indicator<'_>) -> bool {
    Indicator::parse(text).is_some_and(|found| is_within(&found, asked))
}

/// Whether an entry covers what was asked.
fn is_within(entry: &Indicator<'_>, asked: &Indicator<'_>) -> bool {
    match (entry, asked) {
        (Indicator::Range(first, last), Indicator::Ip(ip)) => first <= ip && ip <= last,
        (Indicator::Domain(listed), Indicator::Domain(name)) => {
            crate::names::is_below(name, &listed.to_ascii_lowercase())
        }
        (a, b) => a.is_same(b),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sketch::mix;
    use std::collections::HashSet;

    /// Files kept in memory.
    pub(crate) struct Kept(pub(crate) Vec<Vec<u8>>);

    impl Texts for Kept {
        fn read_text(&self, file: usize, offset: u64, len: usize) -> Option<Vec<u8>> {
            let text = self.0.get(file)?.get(offset as usize..)?;
            text.get(..len.min(text.len())).map(<[u8]>::to_vec)
        }
    }

    /// An [`Intel`] of these files, taken in by pieces of `step` bytes.
    pub(crate) fn intel(files: &[(&str, Purpose, &str)], step: usize) -> Intel {
        let mut builder = Builder::default();
        for (name, purpose, text) in files {
            assert!(builder.file(name, ThreatLevel::Medium, *purpose));
            text.as_bytes().chunks(step).for_each(|part| builder.push(part));
        }
        let texts = files.iter().map(|(_, _, text)| text.as_bytes().to_vec()).collect();
        builder.finish(Some(Box::new(Kept(texts))))
    }

    /// The beginning of a file shows what it is, in whatever pieces it arrives: byte by byte a list of JSON
    /// was taken for lines.
    #[test]
    fn pieces_of_any_size_make_the_same_list() {
        let files = [
            "\u{feff} [ {\"DomainAddress\":\"bad.example\",\"InsertDate\":\"2024-01-01 00:00:00\"} ]",
            "\n\n{\"pattern\":\"[ipv4-addr:value = '8.8.4.4']\"}",
            "[2001:db8::1]\n8.8.8.8,high,x\n",
            "8.8.8.8",
            "",
        ];
        for text in files {
            let read = |step| intel(&[("x", Purpose::Indicators, text)], step);
            let whole = read(1 << 20);
            for step in 1..text.len().max(2) {
                let parts = read(step);
                assert_eq!(parts.sources()[0].counts, whole.sources()[0].counts, "{step}: {text}");
                assert_eq!(
                    (parts.len(), parts.sources()[0].is_json),
                    (whole.len(), whole.sources()[0].is_json)
                );
            }
        }
    }

    fn ip(text: &str) -> Ip {
        Ip::parse(text.as_bytes()).unwrap()
    }

    const LIST: &str = "# ioc, level, description\n1.2.3.4, high, Simda CC\nevil.example, critical, E, t1\n\
        8.8.0.0/16,low,range\nAS64500,high,bad host\nbad line here\n10.0.0.1,high,private\n\
        e7d705a3286e19ea42f587b344ee6865,medium,tor client\nhttp://u.example/a,high,u\nlast.example,low,no end";

    /// However the file is cut, the same is read; the first line counts (D17 of Slips).
    #[test]
    fn any_pieces_make_the_same() {
        for step in 1..LIST.len() {
            let intel = intel(&[("own", Purpose::Indicators, LIST)], step);
            let counts = &intel.sources()[0].counts;
            assert_eq!((counts.indicators, counts.private), (7, 1), "{step}");
            assert_eq!(counts.wrong_lines, [6]);
            let now = TimeNs::default();
            let of = |found: Match, asked: Indicator<'_>| intel.entry(&found, &asked, now).unwrap();
            let found = intel.ip(ip("1.2.3.4")).unwrap();
            assert_eq!(found.level, ThreatLevel::High);
            assert_eq!(of(found, Indicator::Ip(ip("1.2.3.4"))).description, "Simda CC");
            let found = intel.domain(b"a.B.evil.example.").unwrap();
            assert!(found.is_parent && found.level == ThreatLevel::Critical);
            let entry = of(found, Indicator::Domain(b"a.b.evil.example"));
            assert_eq!((entry.description.as_str(), entry.tags.as_str()), ("E", "t1"));
            assert!(!intel.domain(b"EVIL.example").unwrap().is_parent);
            let found = intel.ip(ip("8.8.4.4")).unwrap();
            assert_eq!(of(found, Indicator::Ip(ip("8.8.4.4"))).description, "range");
            assert!(
                intel.domain(b"notevil.example").is_none() && intel.domain(b"example").is_none()
            );
            assert!(intel.ip(ip("9.8.4.4")).is_none());
            assert!(
                intel.url(b"u.example", b"/a").is_some()
                    && intel.url(b"u.example", b"/b").is_none()
            );
            assert!(intel.hash(b"E7D705A3286E19EA42F587B344EE6865").is_some());
            assert!(intel.asn(64_500).is_some() && intel.asn(1).is_none());
            assert!(intel.domain(b"last.example").is_some());
        }
    }

    #[test]
    fn a_bundle_of_stix_holds_while_it_says_so() {
        let bundle = r#"{"type":"bundle","id":"bundle--1","objects":[
            {"type":"identity","id":"identity--1","name":"who.example"},
            {"type":"indicator","id":"indicator--1","pattern_type":"stix","name":"N",
             "kill_chain_phases":[{"phase_name":"x"}],
             "pattern":"[ipv4-addr:value = '198.51.100.1' OR domain-name:value = 'e.example']",
             "valid_from":"1970-01-01T00:10:00Z","valid_until":"1970-01-01T00:20:00Z","confidence":60},
            {"type":"indicator","id":"indicator--2","pattern_type":"stix","revoked":true,
             "pattern":"[domain-name:value = 'gone.example']"},
            {"type":"indicator","id":"indicator--3","pattern_type":"yara","pattern":"rule x"}]}"#;
        let intel = intel(&[("feed.json", Purpose::Indicators, bundle)], 17);
        let found = intel.domain(b"e.example").unwrap();
        let asked = Indicator::Domain(b"e.example");
        let at = |s: i64| intel.entry(&found, &asked, TimeNs(s * gabion_record::logs::SECOND));
        assert_eq!((at(0), at(1200)), (None, None));
        let entry = at(700).unwrap();
        assert_eq!((entry.description.as_str(), entry.confidence), ("N", 0.6));
        // 198.51.100.0/24 is for documents and no host's.
        assert!(intel.ip(ip("198.51.100.1")).is_none());
        assert!(intel.domain(b"gone.example").is_none() && intel.domain(b"who.example").is_none());
        assert_eq!(intel.sources()[0].counts.unsupported, 1);
    }

    /// Of names below one another the longest that is listed answers, however many lie between, and
    /// however their last two labels are written.
    #[test]
    fn the_longest_listed_name_answers() {
        let long =
            "a-label-of-many-letters.another-of-many-letters.example-of-many-letters.international";
        let list = format!("t.co,low\nb.t.co,high\nx.a.b.t.co,critical\n{long},high\nc.museum,low");
        let intel = intel(&[("own", Purpose::Indicators, &list)], 100);
        let asked = |name: &str| intel.domain(name.as_bytes()).map(|m| (m.level, m.is_parent));
        let (low, high) = (ThreatLevel::Low, ThreatLevel::High);
        for (name, found) in [
            ("t.co", Some((low, false))),
            ("T.CO.", Some((low, false))),
            ("www.t.co", Some((low, true))),
            ("b.t.co", Some((high, false))),
            ("z.y.w.v.u.a.b.t.co", Some((high, true))),
            ("1.2.3.4.5.6.7.8.9.10.11.12.b.t.co", Some((high, true))),
            ("1.2.3.4.5.6.7.8.9.10.11.12.t.co", Some((low, true))),
            ("x.a.b.t.co", Some((ThreatLevel::Critical, false))),
            ("at.co", None),
            ("co", None),
            ("", None),
            (".", None),
            ("..", None),
            ("t.co..", None),
            (".t.co", Some((low, true))),
            ("example-of-many-letters.international", None),
            (long, Some((high, false))),
            (&format!("w.{long}"), Some((high, true))),
            ("d.c.museum", Some((low, true))),
            ("museum", None),
        ] {
            assert_eq!(asked(name), found, "{name}");
        }
    }

    /// Names of one to ten labels that often share their ends: what is found is what walking up finds.
    #[test]
    fn names_are_found_as_by_walking_up() {
        let mut seed = 7;
        let mut name = |most: u64| {
            let mut next = || {
                seed = mix(seed);
                seed
            };
            let labels: Vec<String> =
                (0..1 + next() % most).map(|_| "ghijkl".repeat(1 + next() as usize % 2)).collect();
            labels.iter().map(|l| &l[next() as usize % 5..]).collect::<Vec<_>>().join(".")
        };
        let listed: HashSet<String> =
            (0..3_000).map(|_| name(10)).filter(|n| n.contains('.')).collect();
        let list: String = listed.iter().map(|n| format!("{n},high\n")).collect();
        let intel = intel(&[("own", Purpose::Indicators, &list)], 1 << 12);
        assert_eq!(intel.len(), listed.len());
        let (mut found, mut above) = (0, 0);
        for _ in 0..30_000 {
            let asked = name(12);
            let mut rest = asked.as_str();
            let wanted = loop {
                if listed.contains(rest) {
                    break Some(rest.len() < asked.len());
                }
                match rest.split_once('.') {
                    Some((_, up)) => rest = up,
                    None => break None,
                }
            };
            assert_eq!(intel.domain(asked.as_bytes()).map(|m| m.is_parent), wanted, "{asked}");
            found += usize::from(wanted.is_some());
            above += usize::from(wanted == Some(true));
        }
        assert!(above > 1_000 && found < 29_000, "{above} {found}");
    }

    /// A provider of names whose customers are listed: each is found, what is not listed is not, and no
    /// more memory is taken than for other names.
    #[test]
    fn a_million_names_below_one_are_found() {
        const COUNT: u64 = 1_000_000;
        let mut builder = Builder::default();
        builder.file("own", ThreatLevel::High, Purpose::Indicators);
        for n in 0..COUNT {
            builder.push(format!("n{n}.dyn.example\n").as_bytes());
        }
        let intel = builder.finish(None);
        assert_eq!(intel.len() as u64, COUNT);
        assert!(intel.bytes() < 21 << 20, "{}", intel.bytes());
        for n in (0..COUNT).step_by(7) {
            let found = |name: String| intel.domain(name.as_bytes()).map(|m| m.is_parent);
            assert_eq!(found(format!("n{n}.dyn.example")), Some(false));
            assert_eq!(found(format!("www.n{n}.dyn.example")), Some(true));
            assert_eq!(found(format!("m{n}.dyn.example")), None);
        }
        assert_eq!((intel.domain(b"dyn.example"), intel.domain(b"example")), (None, None));
    }

    /// The entry at a fingerprint's place is read before anything is reported about it.
    #[test]
    fn a_fingerprint_by_chance_is_not_believed() {
        let intel = intel(&[("own", Purpose::Indicators, LIST)], 99);
        let found = intel.ip(ip("1.2.3.4")).unwrap();
        let now = TimeNs::default();
        assert_eq!(intel.entry(&found, &Indicator::Ip(ip("1.2.3.5")), now), None);
        assert_eq!(intel.entry(&found, &Indicator::Domain(b"x.example"), now), None);
    }

    #[test]
    fn harmless_files_relays_and_systems_have_lists_of_their_own() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        let other = "d41d8cd98f00b204e9800998ecf8427f";
        let hashes = format!("{md5},high,empty\n{other},high,x");
        let intel = intel(
            &[
                ("hashes", Purpose::Indicators, &hashes),
                ("harmless", Purpose::Harmless, &format!("\"a file\", {md5}")),
                ("tor", Purpose::TorExits, "# relays\n5.6.7.8\n"),
                ("asn", Purpose::Systems, "5.6.0.0/16,64500,EXAMPLE\n"),
            ],
            1000,
        );
        // D20 of Slips: a hash is looked up, and only a harmless one is not reported.
        assert!(intel.hash(md5.as_bytes()).is_none() && intel.hash(other.as_bytes()).is_some());
        assert!(intel.is_tor_exit(ip("5.6.7.8")) && !intel.is_tor_exit(ip("5.6.7.9")));
        assert!(intel.ip(ip("5.6.7.8")).is_none());
        assert_eq!(intel.asn_of(ip("5.6.9.9")), Some((64_500, "EXAMPLE")));
    }

    /// Whatever a file holds, it is read to its end and asked without harm.
    #[test]
    fn any_bytes_are_read() {
        let parts: [&[u8]; 16] = [
            b"{",
            b"}",
            b"[",
            b"]",
            b"\"",
            b"\\",
            b"\n",
            b",",
            b"1.2.3.4",
            b"/33",
            b"AS1",
            b"evil.example",
            b"\xff\x00",
            b"'objects':",
            b"\"objects\":",
            b"high",
        ];
        let mut seed = 1u64;
        for round in 0..400 {
            let mut text = Vec::new();
            for _ in 0..200 {
                seed = crate::sketch::mix(seed);
                text.extend_from_slice(parts[(seed % 16) as usize]);
            }
            let purpose = [Purpose::Indicators, Purpose::Systems, Purpose::Ages, Purpose::Makers];
            let mut builder = Builder::default();
            builder.file("any", ThreatLevel::Low, purpose[round % 4]);
            text.chunks(1 + round % 97).for_each(|part| builder.push(part));
            let intel = builder.finish(Some(Box::new(Kept(vec![text]))));
            if let Some(found) = intel.ip(ip("1.2.3.4")) {
                intel.entry(&found, &Indicator::Ip(ip("1.2.3.4")), TimeNs(0));
            }
        }
    }
}

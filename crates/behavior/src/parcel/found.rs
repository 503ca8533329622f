//! Findings as bytes: on their way from who holds shards to who writes.
//!
//! A finding has texts of its own. Freed by another thread than made them they cost both more than all
//! else of the way, and their room comes back late; so the texts stay where they were made, and who writes
//! reads each finding into the room of the one before.

use super::len_of;
use crate::room_saved::reason_of;
use crate::shards::{Place, Placed};
use crate::state::Decoder;
use gabion_record::Ip;
use gabion_record::evidence::{
    Evidence, EvidenceType, FindingId, Indicator, Measures, Party, Role, ThreatLevel,
};
use gabion_record::fixed;
use gabion_record::fixed::Fixed;
use gabion_record::logs::{Proto, TimeNs};
use std::borrow::Cow;

/// Findings of one holder of shards, to be read in the order of their places.
#[derive(Debug, Default)]
pub struct Found {
    bytes: Vec<u8>,
    count: u64,
    /// What findings name that lives as long as the program.
    kinds: Vec<&'static EvidenceType>,
    methods: Vec<&'static str>,
    sentences: Vec<Cow<'static, str>>,
    last: Option<Place>,
    is_out_of_order: bool,
}

/// What a finding has in addition to its texts.
struct FoundHead {
    second: i64,
    record: u64,
    id: FindingId,
    report_id: FindingId,
    why: u8,
    kind: u16,
    method: u16,
    says: u16,
    level: ThreatLevel,
    confidence: f64,
    profile: Ip,
    window: i64,
    ts: TimeNs,
    count: u64,
    hosts: u64,
    ports: u64,
    packets: u64,
    bytes: u64,
    duration_ns: i64,
    score: f64,
    threat: f64,
    first: TimeNs,
    last: TimeNs,
    about: u64,
    repeat: u64,
    times: u64,
    proto: Proto,
    src_port: Option<u16>,
    dst_port: Option<u16>,
    attacker: PartyHead,
    victim: PartyHead,
    words: u32,
    uids: u32,
    related: u32,
    state_len: u32,
}

/// An attacker or victim: which end and what sort it is, its address or how long its text is.
struct PartyHead {
    tag: u8,
    ip: Ip,
    len: u32,
}

fixed! {
    FoundHead {
        second: i64, record: u64, id: FindingId, report_id: FindingId, why: u8, kind: u16,
        method: u16, says: u16, level: ThreatLevel, confidence: f64, profile: Ip, window: i64, ts: TimeNs,
        count: u64, hosts: u64, ports: u64, packets: u64, bytes: u64, duration_ns: i64, score: f64,
        threat: f64,
        first: TimeNs, last: TimeNs, about: u64, repeat: u64, times: u64, proto: Proto,
        src_port: Option<u16>, dst_port: Option<u16>, attacker: PartyHead, victim: PartyHead, words: u32,
        uids: u32, related: u32, state_len: u32,
    }
    PartyHead { tag: u8, ip: Ip, len: u32, }
}

/// There is no such party.
const NONE: u8 = 0xff;
/// Set where it is a destination.
const DESTINATION: u8 = 0x80;

impl PartyHead {
    fn from_party(party: Option<&Party>) -> PartyHead {
        let Some(party) = party else {
            return PartyHead { tag: NONE, ip: Ip::default(), len: 0 };
        };
        let end = if party.role == Role::Destination { DESTINATION } else { 0 };
        let (sort, ip) = match &party.what {
            Indicator::Ip(ip) => (0, *ip),
            Indicator::Domain(_) => (1, Ip::default()),
            Indicator::Url(_) => (2, Ip::default()),
            Indicator::Md5(_) => (3, Ip::default()),
        };
        PartyHead { tag: end | sort, ip, len: len_of(text_of(Some(party))) }
    }

    fn party(&self, from: &mut Decoder<'_>) -> Option<Option<Party>> {
        if self.tag == NONE {
            return Some(None);
        }
        let role = if self.tag & DESTINATION != 0 { Role::Destination } else { Role::Source };
        let what = match self.tag & !DESTINATION {
            0 => Indicator::Ip(self.ip),
            sort => {
                let text = text(from, self.len)?.to_owned();
                match sort {
                    1 => Indicator::Domain(text),
                    2 => Indicator::Url(text),
                    3 => Indicator::Md5(text),
                    _ => return None,
                }
            }
        };
        Some(Some(Party { role, what }))
    }
}

fn text_of(party: Option<&Party>) -> &[u8] {
    match party.map(|p| &p.what) {
        Some(Indicator::Domain(text) | Indicator::Url(text) | Indicator::Md5(text)) => {
            text.as_bytes()
        }
        _ => &[],
    }
}

#[inline]
fn text<'a>(from: &mut Decoder<'a>, len: u32) -> Option<&'a str> {
    std::str::from_utf8(from.take_bytes(len as usize)?).ok()
}

impl Found {
    /// None yet, with capacity for `bytes` bytes.
    pub fn with_room(bytes: usize) -> Found {
        Found { bytes: Vec::with_capacity(bytes), ..Found::default() }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Bytes they take.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes they have room for.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Adds one. One that comes out of its order makes the reader sort them all.
    pub fn put(&mut self, placed: &Placed) {
        let Placed { place, evidence: e } = placed;
        self.count += 1;
        self.is_out_of_order |= self.last.is_some_and(|last| last > *place);
        self.last = Some(*place);
        let (second, record) = place.behind();
        let m = &e.measures;
        let head = FoundHead {
            second,
            record,
            id: e.id,
            report_id: e.report_id,
            why: e.why as u8,
            kind: place_in(&mut self.kinds, e.kind),
            method: place_in(&mut self.methods, e.method),
            says: place_of(&mut self.sentences, &e.says),
            level: e.level,
            confidence: e.confidence,
            profile: e.profile,
            window: e.window,
            ts: e.ts,
            count: m.count,
            hosts: m.hosts,
            ports: m.ports,
            packets: m.packets,
            bytes: m.bytes,
            duration_ns: m.duration_ns,
            score: m.score,
            threat: m.threat,
            first: m.first,
            last: m.last,
            about: e.about,
            repeat: e.repeat,
            times: e.times,
            proto: e.proto,
            src_port: e.src_port,
            dst_port: e.dst_port,
            attacker: PartyHead::from_party(Some(&e.attacker)),
            victim: PartyHead::from_party(e.victim.as_ref()),
            words: len_of(&e.words),
            uids: len_of(&e.uids),
            related: len_of(&e.related),
            state_len: len_of(e.input_state.as_bytes()),
        };
        let out = &mut self.bytes;
        head.append::<{ FoundHead::LEN }>(out);
        out.extend_from_slice(text_of(Some(&e.attacker)));
        out.extend_from_slice(text_of(e.victim.as_ref()));
        for text in e.words.iter().chain(&e.uids) {
            out.extend_from_slice(&len_of(text.as_bytes()).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        e.related.iter().for_each(|id| out.extend_from_slice(&id.0));
        out.extend_from_slice(e.input_state.as_bytes());
    }

    /// Forgets all and keeps the room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        (self.count, self.last, self.is_out_of_order) = (0, None, false);
    }

    /// Reads the finding at `at` into the room of another; what follows it. `None` at the end.
    fn read_placed(&self, at: usize, into: &mut Option<Placed>) -> Option<usize> {
        let bytes = self.bytes.get(at..)?;
        let head = FoundHead::read_fixed(bytes.get(..FoundHead::LEN)?)?;
        let mut from = Decoder(bytes.get(FoundHead::LEN..)?);
        let kind = *self.kinds.get(usize::from(head.kind))?;
        let method = *self.methods.get(usize::from(head.method))?;
        let says = self.sentences.get(usize::from(head.says))?.clone();
        let attacker = head.attacker.party(&mut from)??;
        let victim = head.victim.party(&mut from)?;
        // The room of the texts before.
        let (mut words, mut uids, mut related, mut input_state) = match into.take() {
            Some(Placed { evidence: e, .. }) => (e.words, e.uids, e.related, e.input_state),
            None => Default::default(),
        };
        for (texts, many) in [(&mut words, head.words), (&mut uids, head.uids)] {
            let many = many as usize;
            if many > from.0.len() {
                return None;
            }
            texts.resize_with(many, String::new);
            for room in texts {
                let len = u32::from_le_bytes(from.take_bytes(4)?.try_into().ok()?);
                refill(room, text(&mut from, len)?);
            }
        }
        related.clear();
        for _ in 0..head.related {
            related.push(FindingId(from.take_bytes(16)?.try_into().ok()?));
        }
        refill(&mut input_state, text(&mut from, head.state_len)?);
        let evidence = Evidence {
            id: head.id,
            report_id: head.report_id,
            why: reason_of(head.why)?,
            kind,
            says,
            words,
            measures: Measures {
                count: head.count,
                hosts: head.hosts,
                ports: head.ports,
                packets: head.packets,
                bytes: head.bytes,
                duration_ns: head.duration_ns,
                score: head.score,
                threat: head.threat,
                first: head.first,
                last: head.last,
            },
            about: head.about,
            repeat: head.repeat,
            attacker,
            victim,
            level: head.level,
            confidence: head.confidence,
            profile: head.profile,
            window: head.window,
            ts: head.ts,
            uids,
            proto: head.proto,
            src_port: head.src_port,
            dst_port: head.dst_port,
            method,
            related,
            times: head.times,
            // Findings that stand for many are made after this.
            others: Vec::new(),
            input_state,
        };
        *into = Some(Placed {
            place: Place::from_evidence(head.second, head.record, &evidence),
            evidence,
        });
        Some(self.bytes.len() - from.0.len())
    }
}

fn refill(room: &mut String, text: &str) {
    room.clear();
    room.push_str(text);
}

/// The place of one of a few things that live as long as the program.
fn place_in<T: ?Sized>(things: &mut Vec<&'static T>, thing: &'static T) -> u16 {
    let at = things.iter().position(|t| std::ptr::eq(*t, thing)).unwrap_or_else(|| {
        things.push(thing);
        things.len() - 1
    });
    u16::try_from(at).unwrap_or(u16::MAX)
}

/// The same of a sentence, which is known by where it stands.
#[expect(clippy::ptr_arg, reason = "a sentence that is borrowed is cloned as what it is")]
fn place_of(sentences: &mut Vec<Cow<'static, str>>, says: &Cow<'static, str>) -> u16 {
    let at = sentences.iter().position(|s| std::ptr::eq(&raw const **s, &raw const **says));
    let at = at.unwrap_or_else(|| {
        sentences.push(says.clone());
        sentences.len() - 1
    });
    u16::try_from(at).unwrap_or(u16::MAX)
}

/// Findings being read, one after the other, in the order of their places.
#[derive(Debug)]
pub struct Opened {
    found: Found,
    at: usize,
    next: Option<Placed>,
}

impl Opened {
    /// Begins to read, in the room of a finding read before.
    pub fn new(mut found: Found, room: Option<Placed>) -> Opened {
        if found.is_out_of_order {
            found = sorted(found);
        }
        let mut opened = Opened { found, at: 0, next: room };
        opened.advance();
        opened
    }

    /// Where the next one stands; `None` at the end.
    #[inline]
    pub fn place(&self) -> Option<Place> {
        self.next.as_ref().filter(|_| self.at != END).map(|p| p.place)
    }

    /// The next one.
    pub fn current(&mut self) -> Option<&mut Placed> {
        self.next.as_mut().filter(|_| self.at != END)
    }

    /// Continues with the next one.
    pub fn advance(&mut self) {
        let room = self.next.take();
        let mut next = room;
        self.at = self.found.read_placed(self.at, &mut next).unwrap_or(END);
        self.next = next;
    }

    /// The room of what was read, to be used again.
    pub fn into_room(mut self) -> (Found, Option<Placed>) {
        self.found.clear();
        (self.found, self.next)
    }
}

/// Behind the last finding.
const END: usize = usize::MAX;

#[cold]
fn sorted(found: Found) -> Found {
    let mut all = Vec::new();
    let (mut at, mut next) = (0, None);
    while let Some(behind) = found.read_placed(at, &mut next) {
        all.extend(next.take());
        at = behind;
    }
    all.sort_by_key(|p| p.place);
    let mut sorted = found;
    sorted.clear();
    all.iter().for_each(|placed| sorted.put(placed));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, at, conn};

    fn placed() -> Vec<Placed> {
        let mut trial = Trial::new();
        for n in 0..40 {
            trial.give(&conn(n, "10.0.0.1", &format!("1.2.3.{n}"), 23).refused());
            trial.give(&conn(n, "10.0.0.2", "1.2.3.4", 4000 + n as u16).refused());
        }
        trial.end();
        let mut said = trial.said;
        assert!(said.len() > 5, "{}", said.len());
        // One with all there may be.
        let mut whole = said[0].clone();
        whole.uids = vec!["C1".to_owned(), String::new(), "C\u{e4}".to_owned()];
        whole.related = vec![FindingId([7; 16]), FindingId([9; 16])];
        whole.input_state = "1 file skipped".to_owned();
        whole.attacker =
            Party { role: Role::Destination, what: Indicator::Url("http://a/".into()) };
        whole.victim =
            Some(Party { role: Role::Source, what: Indicator::Domain("a.example".into()) });
        whole.src_port = Some(53);
        said.insert(2, whole);
        said[3].victim = None;
        said[4].victim = Some(Party { role: Role::Destination, what: Indicator::Md5("0a".into()) });
        said[4].profile = at("2001:db8::1");
        let place = |(n, evidence): (usize, Evidence)| {
            let place = Place::from_evidence(n as i64 / 3, n as u64, &evidence);
            Placed { place, evidence }
        };
        said.into_iter().enumerate().map(place).collect()
    }

    fn open_all(found: Found) -> Vec<String> {
        let mut opened = Opened::new(found, None);
        let mut read = Vec::new();
        while let Some(placed) = opened.current() {
            read.push(format!("{placed:?}"));
            assert_eq!(opened.place().is_some(), opened.current().is_some());
            opened.advance();
        }
        read
    }

    #[test]
    fn findings_come_out_as_they_went_in_and_in_order() {
        let placed = placed();
        let expected: Vec<String> = placed.iter().map(|p| format!("{p:?}")).collect();
        let mut found = Found::default();
        placed.iter().for_each(|p| found.put(p));
        assert_eq!(found.count(), placed.len() as u64);
        assert_eq!(open_all(found), expected);
        let mut found = Found::default();
        placed.iter().rev().for_each(|p| found.put(p));
        assert_eq!(open_all(found), expected);
        assert!(open_all(Found::default()).is_empty());
    }

    #[test]
    fn cut_anywhere_it_is_no_panic() {
        let mut found = Found::default();
        placed().iter().take(6).for_each(|p| found.put(p));
        let whole = found.bytes.clone();
        for cut in 0..whole.len() {
            found.bytes = whole[..cut].to_vec();
            let (mut at, mut next) = (0, None);
            while let Some(behind) = found.read_placed(at, &mut next) {
                at = behind;
            }
            assert!(at <= cut);
            found.bytes = whole.clone();
            found.bytes[cut] ^= 0xff;
            let _ = found.read_placed(0, &mut None);
        }
    }
}

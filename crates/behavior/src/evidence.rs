//! Evidence in the making, and the ids that it gets.

use crate::limits::UIDS_MAX;
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{
    Evidence, EvidenceType, FindingId, Indicator, Measures, Party, ReportReason, Role, ThreatLevel,
};
use gabion_record::logs::{Proto, TimeNs};
use sha2::{Digest, Sha256};
use std::borrow::Cow;

/// Version of what an id is made of.
const ID_VERSION: u8 = 2;

/// How often a thing was seen, and where that is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// How often, this time included.
    pub count: u64,
    /// The hash under which the profile counts it.
    pub repeat: u64,
}

/// Evidence being made.
pub(crate) struct EvidenceBuilder(pub Evidence, pub(crate) About);

/// What a finding is about in addition to its type, profile and window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// Its target is part of it.
    pub(crate) victim: bool,
    /// The port is part of it.
    pub(crate) port: bool,
    /// It is about the flow of its record.
    pub(crate) has_flow: bool,
}

impl EvidenceBuilder {
    /// Evidence about a profile, at a moment of a window.
    pub(crate) fn new(
        kind: &'static EvidenceType,
        profile: Ip,
        ts: TimeNs,
        window: i64,
    ) -> EvidenceBuilder {
        let evidence = Evidence {
            id: FindingId::default(),
            report_id: FindingId::default(),
            why: ReportReason::Threshold,
            kind,
            says: Cow::Borrowed(""),
            words: Vec::new(),
            measures: Measures { count: 1, first: ts, last: ts, ..Measures::default() },
            about: 0,
            repeat: 0,
            attacker: Party::source(profile),
            victim: None,
            level: ThreatLevel::Info,
            confidence: 1.0,
            profile,
            window,
            ts,
            uids: Vec::new(),
            proto: Proto::Tcp,
            src_port: None,
            dst_port: None,
            method: "Heuristic",
            related: Vec::new(),
            times: 1,
            others: Vec::new(),
            input_state: String::new(),
        };
        EvidenceBuilder(evidence, About { victim: true, port: true, has_flow: false })
    }

    /// Completes it and adds it, unless it names an address that can't send.
    pub(crate) fn finish(self, out: &mut Vec<Evidence>) {
        let evidence = self.sure().done();
        if can_attack(&evidence) {
            out.push(evidence);
        }
    }

    /// Its confidence within bounds.
    pub(crate) fn sure(mut self) -> EvidenceBuilder {
        self.0.confidence = self.0.confidence.clamp(0.0, 1.0);
        self
    }

    /// With the id of the flow that it is about.
    pub(crate) fn with_flow(mut self, uid: &[u8]) -> EvidenceBuilder {
        if self.1.has_flow && !uid.is_empty() {
            self.0.uids.push(text(uid));
        }
        self
    }

    /// Completes it: its ids are functions of all the rest.
    pub(crate) fn done(mut self) -> Evidence {
        self.0.id = id_of(&self.0, self.1);
        self.0.report_id = report_id_of(&self.0);
        self.0
    }

    /// The pair of an observation: of `profile` as the source, and of the other end, named by `attacker`, in
    /// the profile of `ip`. Each names the other's report.
    pub(crate) fn pair(
        self,
        profile: Ip,
        attacker: Party,
        ip: Ip,
        level: ThreatLevel,
    ) -> (Evidence, Evidence) {
        let (src, other) = self.sure().ends(profile, attacker, ip, level);
        let (mut src, mut other) = (src.done(), other.done());
        src.related = vec![other.report_id];
        other.related = vec![src.report_id];
        (src, other)
    }

    /// Both before they are completed.
    pub(crate) fn ends(
        self,
        profile: Ip,
        attacker: Party,
        ip: Ip,
        level: ThreatLevel,
    ) -> (EvidenceBuilder, EvidenceBuilder) {
        let EvidenceBuilder(mut src, about) = self;
        let mut other = src.clone();
        src.attacker = Party::source(profile);
        src.victim = Some(attacker.clone());
        other.attacker = attacker;
        other.victim = Some(Party::source(profile));
        (other.profile, other.level) = (ip, level);
        (EvidenceBuilder(src, about), EvidenceBuilder(other, about))
    }

    /// Its window is over: these are its last numbers.
    pub(crate) fn at_last(mut self) -> EvidenceBuilder {
        self.0.why = ReportReason::Final;
        self
    }

    /// These are its last numbers, and nothing will follow.
    pub(crate) fn for_good(mut self) -> EvidenceBuilder {
        self.0.why = ReportReason::Ended;
        self
    }

    /// How often it was seen.
    pub(crate) fn seen(mut self, times: Times) -> EvidenceBuilder {
        (self.0.times, self.0.repeat) = (times.count, times.repeat);
        self.0.measures.count = self.0.measures.count.max(times.count);
        self
    }

    /// How bad and how sure.
    pub(crate) fn level(mut self, level: ThreatLevel, confidence: f64) -> EvidenceBuilder {
        self.0.level = level;
        self.0.confidence = confidence;
        self
    }

    /// The sentence, with places for numbers and words ([`Evidence::put_description`]); the level is added
    /// where it is written.
    pub(crate) fn says(mut self, sentence: &'static str) -> EvidenceBuilder {
        self.0.says = Cow::Borrowed(sentence);
        self
    }

    /// The next word of the sentence: `{0}`, then `{1}` …
    pub(crate) fn word(mut self, word: impl Into<String>) -> EvidenceBuilder {
        self.0.words.push(word.into());
        self
    }

    /// What it is about in addition to parties and port: a name, for example, by its hash.
    pub(crate) fn about(mut self, what: u64) -> EvidenceBuilder {
        self.0.about = what;
        self
    }

    /// Measures hosts.
    pub(crate) fn hosts(mut self, hosts: u64) -> EvidenceBuilder {
        self.0.measures.hosts = hosts;
        self
    }

    /// Measures ports.
    pub(crate) fn ports(mut self, ports: u64) -> EvidenceBuilder {
        self.0.measures.ports = ports;
        self
    }

    /// Measures packets.
    pub(crate) fn packets(mut self, packets: u64) -> EvidenceBuilder {
        self.0.measures.packets = packets;
        self
    }

    /// Measures bytes.
    pub(crate) fn bytes(mut self, bytes: u64) -> EvidenceBuilder {
        self.0.measures.bytes = bytes;
        self
    }

    /// Measures how long it lasted.
    pub(crate) fn lasting(mut self, ns: i64) -> EvidenceBuilder {
        self.0.measures.duration_ns = ns;
        self
    }

    /// Measures RITA's threat.
    pub(crate) fn threat(mut self, threat: f64) -> EvidenceBuilder {
        self.0.measures.threat = threat;
        self
    }

    /// Measures a score.
    pub(crate) fn score(mut self, score: f64) -> EvidenceBuilder {
        self.0.measures.score = score;
        self
    }

    /// The target at this moment; the finding is the same when the next target is another.
    pub(crate) fn victim_now(mut self, ip: Ip) -> EvidenceBuilder {
        self.1.victim = false;
        self.victim(ip)
    }

    /// The target: the flow's other end.
    pub(crate) fn victim(mut self, ip: Ip) -> EvidenceBuilder {
        self.0.victim = Some(Party::destination(ip));
        self
    }

    /// The target: a name.
    pub(crate) fn victim_domain(mut self, name: String) -> EvidenceBuilder {
        self.0.victim = Some(Party { role: Role::Destination, what: Indicator::Domain(name) });
        self
    }

    /// The destination is the attacker and the source the victim.
    pub(crate) fn by_destination(mut self, dst: Ip) -> EvidenceBuilder {
        self.0.victim = Some(Party::source(self.0.profile));
        self.0.attacker = Party::destination(dst);
        self.0.profile = dst;
        self
    }

    /// The destination port matters.
    pub(crate) fn destination_port(mut self, port: u16) -> EvidenceBuilder {
        self.0.dst_port = Some(port);
        self
    }

    /// The destination port at this moment; the finding is the same when the next one is another.
    pub(crate) fn port_now(mut self, port: u16) -> EvidenceBuilder {
        self.1.port = false;
        self.destination_port(port)
    }

    /// The finding is the same whatever the port.
    pub(crate) fn any_port(mut self) -> EvidenceBuilder {
        self.1.port = false;
        self
    }

    /// The source port matters.
    pub(crate) fn source_port(mut self, port: u16) -> EvidenceBuilder {
        self.0.src_port = Some(port);
        self
    }

    /// Of that protocol.
    pub(crate) fn protocol(mut self, proto: Proto) -> EvidenceBuilder {
        self.0.proto = proto;
        self
    }

    /// When it began, and the number counted since.
    pub(crate) fn since(mut self, first: TimeNs, count: u64) -> EvidenceBuilder {
        self.0.measures.first = first;
        self.0.measures.count = count;
        self
    }

    /// IDMEF's method.
    pub(crate) fn by(mut self, method: &'static str) -> EvidenceBuilder {
        self.0.method = method;
        self
    }

    /// The flows it is about, the first few.
    pub(crate) fn flows(mut self, uids: Vec<String>, count: u64) -> EvidenceBuilder {
        self.1.has_flow = false;
        self.0.uids = uids;
        self.0.uids.truncate(UIDS_MAX);
        self.0.measures.count = count;
        self
    }
}

/// Whether the attacker that evidence names can have done it: nobody sends from a broadcast address, a group or
/// 0.0.0.0. Flows from such an address (a host that asks for its first address) belong to nobody.
pub(crate) fn can_attack(e: &Evidence) -> bool {
    e.attacker.ip().is_none_or(Ip::can_send)
}

/// The id of a finding: a hash of its type, profile, window and what it is about. Its growing numbers, its
/// level and the words of its report are no part of it.
fn id_of(e: &Evidence, about: About) -> FindingId {
    let mut bytes = Vec::with_capacity(160);
    bytes.extend_from_slice(&[ID_VERSION, e.proto as u8]);
    bytes.extend_from_slice(e.kind.name.as_bytes());
    put_party(Some(&e.attacker), &mut bytes);
    put_party(e.victim.as_ref().filter(|_| about.victim), &mut bytes);
    bytes.extend_from_slice(&e.profile.to_bytes());
    bytes.extend_from_slice(&e.window.to_le_bytes());
    let port = e.dst_port.filter(|_| about.port).unwrap_or(0);
    bytes.extend_from_slice(&port.to_le_bytes());
    bytes.extend_from_slice(&e.about.to_le_bytes());
    short(Sha256::new_with_prefix(bytes))
}

/// A party, so that no two are the same bytes.
pub(crate) fn put_party(party: Option<&Party>, out: &mut Vec<u8>) {
    let Some(party) = party else { return out.push(0xff) };
    out.push(party.role as u8);
    let (sort, text) = match &party.what {
        Indicator::Ip(ip) => {
            out.push(0);
            return out.extend_from_slice(&ip.to_bytes());
        }
        Indicator::Domain(text) => (1, text),
        Indicator::Url(text) => (2, text),
        Indicator::Md5(text) => (3, text),
    };
    out.push(sort);
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The id of a report: a hash of the finding's id, the numbers, the flows and the ends of this report. The sentence
/// and its words are no part of it, so that they can be changed.
pub(crate) fn report_id_of(e: &Evidence) -> FindingId {
    let mut bytes = Vec::with_capacity(256);
    bytes.extend_from_slice(&e.id.0);
    bytes.extend_from_slice(&[ID_VERSION, e.level as u8, e.why as u8]);
    let m = &e.measures;
    for number in [
        e.ts.0 as u64,
        e.times,
        e.confidence.to_bits(),
        m.count,
        m.hosts,
        m.ports,
        m.packets,
        m.bytes,
        m.duration_ns as u64,
        m.score.to_bits(),
        m.threat.to_bits(),
        m.first.0 as u64,
        m.last.0 as u64,
        e.others.len() as u64,
    ] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    for text in &e.uids {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(&e.src_port.unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(&e.dst_port.unwrap_or(0).to_le_bytes());
    if let Some(victim) = &e.victim {
        put_party(Some(victim), &mut bytes);
    }
    short(Sha256::new_with_prefix(bytes))
}

/// The first half of a digest.
pub(crate) fn short(hash: Sha256) -> FindingId {
    let digest = hash.finalize();
    let mut id = [0; 16];
    id.iter_mut().zip(digest.iter()).for_each(|(a, b)| *a = *b);
    FindingId(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::{dga, horizontal_scan, unknown_port};
    use crate::trial::{Trial, conn};

    /// A finding's id is the same while it grows and another for another target, port, source and window;
    /// each report has an id of its own.
    #[test]
    fn an_id_is_made_of_what_does_not_grow() {
        let mut trial = Trial::new();
        for n in 0..100u32 {
            for port in [23, 80] {
                let dst = format!("1.2.{}.{}", n / 50, n % 50);
                trial.give(&conn(n.into(), "10.0.0.1", &dst, port).refused());
            }
        }
        let found = trial.evidence_of(&horizontal_scan::TYPE);
        let of = |port| found.iter().filter(move |e| e.dst_port == Some(port));
        let ids: Vec<FindingId> = of(23).map(|e| e.id).collect();
        assert_eq!(ids.len(), 2);
        assert_eq!(ids[0], ids[1]);
        assert!(of(80).all(|e| e.id != ids[0]));
        let mut report_ids: Vec<FindingId> = found.iter().map(|e| e.report_id).collect();
        report_ids.sort_unstable();
        report_ids.dedup();
        assert_eq!(report_ids.len(), 4);

        let base = || {
            EvidenceBuilder::new(&unknown_port::TYPE, crate::trial::at("10.0.0.1"), TimeNs(5), 1)
        };
        let id = |finding: EvidenceBuilder| finding.sure().done().id;
        let same = id(base().destination_port(7).victim(crate::trial::at("1.2.3.4")));
        let of_later =
            base().destination_port(7).victim(crate::trial::at("1.2.3.4")).source_port(9);
        let of_later =
            of_later.since(TimeNs(1), 50).level(ThreatLevel::High, 0.7).says("x").word("y");
        assert_eq!(same, id(of_later));
        let report = |finding: EvidenceBuilder| finding.sure().done().report_id;
        let first = base().destination_port(7).says("{0} on a port").word("an English word");
        let reworded =
            base().destination_port(7).says("A port: {1}, {0}").word("other").word("words");
        assert_eq!(report(first), report(reworded), "a sentence can be reworded");
        assert_ne!(report(base()), report(base().packets(1)));
        assert_ne!(report(base()), report(base().source_port(1)));

        for other in [
            base().destination_port(8).victim(crate::trial::at("1.2.3.4")),
            base().destination_port(7).victim(crate::trial::at("1.2.3.5")),
            base().destination_port(7).victim_domain("1.2.3.4".into()),
            base().destination_port(7).victim(crate::trial::at("1.2.3.4")).about(1),
            base().destination_port(7).victim(crate::trial::at("1.2.3.4")).protocol(Proto::Udp),
            EvidenceBuilder::new(&dga::TYPE, crate::trial::at("10.0.0.1"), TimeNs(5), 1)
                .destination_port(7),
            EvidenceBuilder::new(&unknown_port::TYPE, crate::trial::at("10.0.0.1"), TimeNs(5), 2)
                .destination_port(7)
                .victim(crate::trial::at("1.2.3.4")),
        ] {
            assert_ne!(same, id(other));
        }
    }

    /// Nobody sends from a broadcast address, a group or 0.0.0.0: none of them is an attacker, the other end of the
    /// same observation still may be.
    #[test]
    fn addresses_that_cannot_send_are_no_attackers() {
        let mut trial = Trial::new();
        for n in 0..200 {
            trial.give(&conn(n, "192.168.1.1", "169.254.255.255", 138).udp());
            trial.give(&conn(n, "192.168.1.1", "169.254.255.255", 9999).sending(600_000_000));
            trial.give(&conn(n, "0.0.0.0", &format!("10.0.0.{n}"), 67).udp().refused());
            trial.give(&conn(n, "224.0.0.5", "10.0.0.1", 2000 + n as u16).refused());
        }
        trial.end();
        let attackers: Vec<_> = trial.said.iter().filter_map(|e| e.attacker.ip()).collect();
        assert!(attackers.iter().all(|ip| ip.can_send()), "{attackers:?}");
        assert!(!attackers.is_empty());
    }
}

//! How detectors say what they found.

use crate::limits::{TEXT_MAX, UIDS_MAX};
use crate::profile::Repeats;
use crate::rita::Signature;
use crate::settings::Settings;
use crate::site::Facts;
use gabion_record::Ip;
use gabion_record::evidence::{
    Evidence, EvidenceType, FindingId, Indicator, Party, Role, ThreatLevel,
};
use gabion_record::logs::{Proto, Record, TimeNs};
use sha2::{Digest, Sha256};

/// Version of what an id is made of.
const ID_VERSION: u8 = 1;

/// What a detector sees at one record, and where it says what it found.
pub struct Context<'a, 'r> {
    /// The record.
    pub record: &'a Record<'r>,
    /// What the site knows.
    pub facts: &'a Facts,
    /// Thresholds.
    pub settings: &'a Settings,
    /// Whose profile this is.
    pub profile: Ip,
    /// Repeats of this window.
    pub repeats: &'a mut Repeats,
    /// The source has been found to scan ports in this window.
    pub is_scanner: &'a mut bool,
    /// What the record says of the signature of its source's program, where it says something.
    pub signature: Option<Signature>,
    /// The earliest moment a detector wants to be asked again.
    pub timer: &'a mut TimeNs,
    /// What was found.
    pub out: &'a mut Vec<Evidence>,
}

/// A text from outside, bounded, with what is no text replaced.
pub fn text(bytes: &[u8]) -> String {
    let cut = bytes.get(..bytes.len().min(TEXT_MAX)).unwrap_or_default();
    let mut text = String::from_utf8_lossy(cut).into_owned();
    text.retain(|c| !c.is_control());
    text
}

impl Context<'_, '_> {
    /// Asks for [`crate::detect::Detector::wake`] at that moment.
    pub fn wake(&mut self, at: TimeNs) {
        *self.timer = (*self.timer).min(at);
    }

    /// Begins evidence about the record's source, at the record's moment.
    pub fn find(&self, kind: &'static EvidenceType) -> Finding {
        let r = self.record;
        let mut finding = Finding::new(kind, self.profile, r.ts, self.facts.window);
        finding.0.proto = r.proto;
        if !r.uid.is_empty() {
            finding.0.uids.push(text(r.uid));
        }
        finding
    }

    /// Says it.
    pub fn say(&mut self, finding: Finding) -> FindingId {
        finding.finish(self.out)
    }

    /// Says it at the 1st, 10th, 100th … time in this window; `what` tells one thing from
    /// another of the same type.
    pub fn say_damped(&mut self, what: u64, make: impl FnOnce(&Self) -> Finding) {
        let finding = make(self);
        self.damp(what, finding);
    }

    fn damp(&mut self, what: u64, mut finding: Finding) {
        if let Some(times) = self.repeats.count(finding.0.kind, what) {
            finding.0.times = times;
            finding.finish(self.out);
        }
    }

    /// Counts a repeat; the times so far when it is to be said. Cheaper than making evidence that
    /// is not said.
    pub fn is_due(&mut self, kind: &'static EvidenceType, what: u64) -> Option<u64> {
        self.repeats.count(kind, what)
    }

    /// The pair of an observation: evidence of the source, and of the other end named by `attacker`
    /// in the profile of `ip`.
    pub fn say_pair(&mut self, src: Finding, attacker: Party, ip: Ip, level: ThreatLevel) {
        let mut of_src = src.0;
        let mut of_other = of_src.clone();
        of_src.attacker = Party::source(self.profile);
        of_src.victim = Some(attacker.clone());
        of_other.attacker = attacker;
        of_other.victim = Some(Party::source(self.profile));
        (of_other.profile, of_other.level) = (ip, level);
        of_src.id = id_of(&of_src);
        of_other.id = id_of(&of_other);
        of_src.related = vec![of_other.id];
        of_other.related = vec![of_src.id];
        self.out.push(of_other);
        self.out.push(of_src);
    }

    /// Says evidence twice: of the source as attacker, and of the destination as attacker, each
    /// with its level and naming the other.
    pub fn say_both(&mut self, mut finding: Finding, src: ThreatLevel, dst: ThreatLevel) {
        let peer = self.record.dst;
        finding.0.level = src;
        self.say_pair(finding, Party::destination(peer), peer, dst);
    }
}

/// Evidence being made.
pub struct Finding(pub Evidence);

impl Finding {
    /// Evidence about a profile, at a moment of a window.
    pub fn new(kind: &'static EvidenceType, profile: Ip, ts: TimeNs, window: i64) -> Finding {
        Finding(Evidence {
            id: FindingId::default(),
            kind,
            description: String::new(),
            attacker: Party::source(profile),
            victim: None,
            level: ThreatLevel::Info,
            confidence: 1.0,
            profile,
            window,
            ts,
            start: ts,
            uids: Vec::new(),
            flows: 1,
            proto: Proto::Tcp,
            src_port: None,
            dst_port: None,
            method: "Heuristic",
            related: Vec::new(),
            times: 1,
            input_state: String::new(),
        })
    }

    /// Completes it: its id is a function of all the rest.
    pub fn finish(mut self, out: &mut Vec<Evidence>) -> FindingId {
        self.0.confidence = self.0.confidence.clamp(0.0, 1.0);
        self.0.id = id_of(&self.0);
        let id = self.0.id;
        out.push(self.0);
        id
    }

    /// How bad and how sure.
    pub fn level(mut self, level: ThreatLevel, confidence: f64) -> Finding {
        self.0.level = level;
        self.0.confidence = confidence;
        self
    }

    /// In words; the level is added where it is written.
    pub fn says(mut self, text: String) -> Finding {
        self.0.description = text;
        self
    }

    /// To whom: the flow's other end.
    pub fn victim(mut self, ip: Ip) -> Finding {
        self.0.victim = Some(Party::destination(ip));
        self
    }

    /// To whom: a name.
    pub fn victim_domain(mut self, name: String) -> Finding {
        self.0.victim = Some(Party { role: Role::Destination, what: Indicator::Domain(name) });
        self
    }

    /// The destination is the attacker and the source the victim.
    pub fn by_destination(mut self, dst: Ip) -> Finding {
        self.0.victim = Some(Party::source(self.0.profile));
        self.0.attacker = Party::destination(dst);
        self.0.profile = dst;
        self
    }

    /// The destination port matters.
    pub fn to_port(mut self, port: u16) -> Finding {
        self.0.dst_port = Some(port);
        self
    }

    /// The source port matters.
    pub fn from_port(mut self, port: u16) -> Finding {
        self.0.src_port = Some(port);
        self
    }

    /// Of that protocol.
    pub fn of(mut self, proto: Proto) -> Finding {
        self.0.proto = proto;
        self
    }

    /// It began then, with so many flows.
    pub fn since(mut self, start: TimeNs, flows: u64) -> Finding {
        self.0.start = start;
        self.0.flows = flows;
        self
    }

    /// IDMEF's method.
    pub fn by(mut self, method: &'static str) -> Finding {
        self.0.method = method;
        self
    }

    /// The flows it is about, the first few.
    pub fn flows(mut self, uids: Vec<String>, count: u64) -> Finding {
        self.0.uids = uids;
        self.0.uids.truncate(UIDS_MAX);
        self.0.flows = count;
        self
    }
}

/// The id of evidence: a hash of all that it asserts, and of nothing else.
pub fn id_of(e: &Evidence) -> FindingId {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    part(&[ID_VERSION, e.level as u8, e.proto as u8]);
    part(e.kind.name.as_bytes());
    part(e.description.as_bytes());
    for party in [Some(&e.attacker), e.victim.as_ref()].into_iter().flatten() {
        part(&[party.role as u8]);
        part(party.what.to_string().as_bytes());
    }
    part(&e.profile.to_bytes());
    part(&e.window.to_le_bytes());
    part(&e.ts.0.to_le_bytes());
    part(&e.src_port.unwrap_or(0).to_le_bytes());
    part(&e.dst_port.unwrap_or(0).to_le_bytes());
    for uid in &e.uids {
        part(uid.as_bytes());
    }
    short(hash)
}

/// The first half of a digest.
pub(crate) fn short(hash: Sha256) -> FindingId {
    let digest = hash.finalize();
    let mut id = [0; 16];
    id.iter_mut().zip(digest.iter()).for_each(|(a, b)| *a = *b);
    FindingId(id)
}

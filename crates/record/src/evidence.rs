//! What the behaviour engine finds: evidence about a host, and alerts made of evidence. Plain types
//! for the outputs that write them; the engine decides, nothing here does.

use crate::fnv;
use crate::hex;
use crate::ip::Ip;
use crate::logs::{Proto, TimeNs};
use std::borrow::Cow;
use std::fmt;

/// How bad an observation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ThreatLevel {
    /// Worth knowing
    #[default]
    Info,
    /// 0.2
    Low,
    /// 0.5
    Medium,
    /// 0.8
    High,
    /// 1
    Critical,
}

impl ThreatLevel {
    /// All levels, lowest first.
    pub const ALL: [ThreatLevel; 5] = [
        ThreatLevel::Info,
        ThreatLevel::Low,
        ThreatLevel::Medium,
        ThreatLevel::High,
        ThreatLevel::Critical,
    ];

    /// Its weight in sums, after Slips.
    pub const fn weight(self) -> f64 {
        match self {
            ThreatLevel::Info => 0.0,
            ThreatLevel::Low => 0.2,
            ThreatLevel::Medium => 0.5,
            ThreatLevel::High => 0.8,
            ThreatLevel::Critical => 1.0,
        }
    }

    /// The smallest level that weighs as much as `score`.
    pub fn of_score(score: f64) -> ThreatLevel {
        let found = Self::ALL.into_iter().find(|level| level.weight() >= score);
        found.unwrap_or(ThreatLevel::Critical)
    }

    /// The name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            ThreatLevel::Info => "info",
            ThreatLevel::Low => "low",
            ThreatLevel::Medium => "medium",
            ThreatLevel::High => "high",
            ThreatLevel::Critical => "critical",
        }
    }

    /// The level of that name, in any case, with blanks around it.
    pub fn from_name(name: &[u8]) -> Option<ThreatLevel> {
        let name = name.trim_ascii();
        Self::ALL.into_iter().find(|l| name.eq_ignore_ascii_case(l.name().as_bytes()))
    }
}

impl fmt::Display for ThreatLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kind of evidence: its name, which users' filters know, and what it means.
#[derive(Debug, PartialEq, Eq)]
pub struct EvidenceType {
    /// `VERTICAL_PORT_SCAN`
    pub name: &'static str,
    /// Technique of MITRE ATT&CK, `T1046`
    pub technique: &'static str,
    /// What it is about.
    pub topic: Topic,
    /// A hash of the name, the same in every process.
    pub hash: u64,
}

/// What a type of evidence is about, for tables and charts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Topic {
    /// Nothing that has a table or chart of its own.
    #[default]
    Other,
    /// A host that calls a destination.
    Call(CallKind),
    /// A scan of many ports of one host.
    VerticalScan,
    /// A scan of one port of many hosts.
    HorizontalScan,
}

impl Topic {
    /// Whether it is about a host's calls to a destination.
    #[must_use]
    pub const fn is_call(self) -> bool {
        matches!(self, Topic::Call(_))
    }
}

/// How a host calls a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Again and again, at regular times.
    Beacon,
    /// As a channel of command and control.
    CommandAndControl,
    /// For a long time.
    Long,
    /// Very often.
    Strobe,
    /// It uploads much.
    Upload,
    /// With data in the names that it asks for.
    DnsTunnel,
}

impl CallKind {
    /// All of them.
    pub const ALL: [CallKind; 6] = [
        CallKind::Beacon,
        CallKind::CommandAndControl,
        CallKind::Long,
        CallKind::Strobe,
        CallKind::Upload,
        CallKind::DnsTunnel,
    ];

    /// The word in the tables of *calls out*.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            CallKind::Beacon => "beacon",
            CallKind::CommandAndControl => "C&C",
            CallKind::Long => "long",
            CallKind::Strobe => "strobe",
            CallKind::Upload => "upload",
            CallKind::DnsTunnel => "DNS tunnel",
        }
    }
}

impl EvidenceType {
    /// A type of that name and technique.
    #[must_use]
    pub const fn new(name: &'static str, technique: &'static str) -> EvidenceType {
        let hash = fnv::add_all(fnv::BASIS, name.as_bytes());
        EvidenceType { name, technique, topic: Topic::Other, hash }
    }

    /// The same about something that has a table or chart of its own.
    #[must_use]
    pub const fn about(self, topic: Topic) -> EvidenceType {
        EvidenceType { topic, ..self }
    }
}

/// Which end of a flow something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// The host that began the flow
    Source,
    /// The host it talked with
    Destination,
}

/// Something that evidence names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Indicator {
    /// An address
    Ip(Ip),
    /// A name
    Domain(String),
    /// A URL
    Url(String),
    /// A file by its MD5
    Md5(String),
}

impl fmt::Display for Indicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Indicator::Ip(ip) => fmt::Display::fmt(ip, f),
            Indicator::Domain(text) | Indicator::Url(text) | Indicator::Md5(text) => f.pad(text),
        }
    }
}

/// An attacker or a victim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Its end of the flow.
    pub role: Role,
    /// What it is.
    pub what: Indicator,
}

impl Party {
    /// The source of a flow.
    pub fn source(ip: Ip) -> Party {
        Party { role: Role::Source, what: Indicator::Ip(ip) }
    }

    /// The destination of a flow.
    pub fn destination(ip: Ip) -> Party {
        Party { role: Role::Destination, what: Indicator::Ip(ip) }
    }

    /// Its address, when it is one.
    pub fn ip(&self) -> Option<Ip> {
        match self.what {
            Indicator::Ip(ip) => Some(ip),
            _ => None,
        }
    }
}

/// An id that is a function of the content: the same finding twice has the same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FindingId(pub [u8; 16]);

impl FindingId {
    /// In the form of a UUID, version 8 (RFC 9562).
    pub fn text(self) -> [u8; 36] {
        let mut text = [b'-'; 36];
        let mut places = text.iter_mut();
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                places.next();
            }
            let byte = match at {
                6 => byte & 0x0f | 0x80,
                8 => byte & 0x3f | 0x80,
                _ => *byte,
            };
            for (place, digit) in places.by_ref().take(2).zip(hex::digits(byte)) {
                *place = digit;
            }
        }
        text
    }
}

/// See [`FindingId::text`].
impl fmt::Display for FindingId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

/// What a finding measures. What a type does not measure stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// How many of what the type counts: flows, attempts, names, requests.
    pub count: u64,
    /// Distinct hosts.
    pub hosts: u64,
    /// Distinct ports.
    pub ports: u64,
    /// Packets sent.
    pub packets: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// How long it lasted, nanoseconds.
    pub duration_ns: i64,
    /// A score, 0 to 1.
    pub score: f64,
    /// RITA's threat of a host and its destination, 0 to 1: the order of tables.
    pub threat: f64,
    /// When what was found began.
    pub first: TimeNs,
    /// When it was seen last.
    pub last: TimeNs,
}

impl Measures {
    /// Whether one of the numbers is larger than it was.
    pub fn has_grown(&self, before: &Measures) -> bool {
        self.count > before.count
            || self.hosts > before.hosts
            || self.ports > before.ports
            || self.packets > before.packets
            || self.bytes > before.bytes
            || self.duration_ns > before.duration_ns
            || self.score > before.score
    }

    /// Keeps what was larger before, for a reader that sees a finding again after part of it was forgotten: what was
    /// seen once stays seen. The score is that of now, since the sentence says how it came about.
    pub fn keep_most(&mut self, before: &Measures) {
        self.count = self.count.max(before.count);
        self.hosts = self.hosts.max(before.hosts);
        self.ports = self.ports.max(before.ports);
        self.packets = self.packets.max(before.packets);
        self.bytes = self.bytes.max(before.bytes);
        self.duration_ns = self.duration_ns.max(before.duration_ns);
        self.threat = self.threat.max(before.threat);
        self.first = self.first.min(before.first);
        self.last = self.last.max(before.last);
    }
}

/// Why a finding is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum ReportReason {
    /// It reached a threshold.
    #[default]
    Threshold,
    /// Its window is over and it has grown since it was reported. What continues over a day is reported again later.
    Final,
    /// It is not reported by itself, but counted in a finding that stands for many. It has no [`Evidence::id`], no
    /// [`Evidence::words`] and no [`Evidence::uids`].
    Counted,
    /// As [`ReportReason::Final`], and nothing will follow: what it is about is freed.
    Ended,
}

impl ReportReason {
    /// Whether these are last numbers, of a window or for good.
    pub fn is_last(self) -> bool {
        matches!(self, ReportReason::Final | ReportReason::Ended)
    }

    /// Whether these are the last numbers of the finding, once and for all.
    pub fn is_end(self) -> bool {
        self == ReportReason::Ended
    }
}

/// One observation about a host, as it is reported once. A finding may be reported several times while it grows:
/// [`Evidence::id`] stays the same, [`Evidence::report_id`] is another one each time.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The finding: a function of its type, profile, window and what it is about, not of numbers or words.
    pub id: FindingId,
    /// This report of it: a function of the finding, its numbers, flows and ends, not of words.
    pub report_id: FindingId,
    /// Why it is reported.
    pub why: ReportReason,
    /// What was seen.
    pub kind: &'static EvidenceType,
    /// The sentence, with places for what is measured: see [`Evidence::description`].
    pub says: Cow<'static, str>,
    /// Names and the like that the sentence has in addition to its numbers: `{0}`, `{1}` …
    pub words: Vec<String>,
    /// The numbers at the moment of the report.
    pub measures: Measures,
    /// What distinguishes things of the same type with the same parties and port: a hash, 0 for nothing.
    pub about: u64,
    /// Where the profile counts how often this was seen: a hash, 0 where it does not.
    pub repeat: u64,
    /// The host that did it.
    pub attacker: Party,
    /// The host it was done to.
    pub victim: Option<Party>,
    /// How bad.
    pub level: ThreatLevel,
    /// How sure, 0 to 1.
    pub confidence: f64,
    /// Whose profile it belongs to: the attacker's address where it has one.
    pub profile: Ip,
    /// Number of the time window, 1 is the first.
    pub window: i64,
    /// When it was found.
    pub ts: TimeNs,
    /// Ids of the flows, the first few; how many there were in all is in [`Measures::count`].
    pub uids: Vec<String>,
    /// Protocol.
    pub proto: Proto,
    /// Source port where one is meant.
    pub src_port: Option<u16>,
    /// Destination port where one is meant.
    pub dst_port: Option<u16>,
    /// `Heuristic`, `AI`, …: IDMEF's method.
    pub method: &'static str,
    /// Tellings of other evidence of the same observation.
    pub related: Vec<FindingId>,
    /// How often the same was seen in this window, this time included; between 1, 10, 100 … it
    /// is not reported again before the window's end.
    pub times: u64,
    /// Other hosts that did the same, the weightiest first, where one finding stands for many.
    pub others: Vec<Ip>,
    /// State of the input's ledger at that moment (`complete`).
    pub input_state: String,
}

impl Evidence {
    /// The end of the flow that has this role.
    pub fn party(&self, role: Role) -> Option<&Party> {
        [Some(&self.attacker), self.victim.as_ref()].into_iter().flatten().find(|p| p.role == role)
    }

    /// What was found, in words, without the level.
    pub fn description(&self) -> String {
        let mut out = Vec::new();
        self.put_description(&mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Appends [`Evidence::description`]: the sentence with its places filled.
    ///
    /// `{src}` and `{dst}` are the ends, `{profile}` the profile, `{port}`, `{sport}`, `{proto}` and
    /// `{PROTO}` of the flow, `{count}`, `{hosts}`, `{ports}`, `{packets}`, `{bytes}`, `{mb}` (millions of
    /// bytes), `{mins}` (minutes, with fractions), `{minutes}` (whole ones), `{score}`, `{score4}` and
    /// `{times}` are numbers, `{confidence}` and `{sure}` (two digits) how sure it is, `{0}` … are words.
    pub fn put_description(&self, out: &mut Vec<u8>) {
        let mut rest = &*self.says;
        while let Some((before, behind)) = rest.split_once('{') {
            out.extend_from_slice(before.as_bytes());
            let Some((name, behind)) = behind.split_once('}') else { break };
            self.put(name, out);
            rest = behind;
        }
        out.extend_from_slice(rest.as_bytes());
    }

    fn put(&self, name: &str, out: &mut Vec<u8>) {
        use std::io::Write;
        let m = &self.measures;
        // Writing to memory cannot fail.
        let _ = match name {
            "src" | "dst" => {
                let role = if name == "src" { Role::Source } else { Role::Destination };
                match self.party(role).map(|p| &p.what) {
                    Some(Indicator::Ip(ip)) => ip.put_text(out),
                    Some(what) => return drop(write!(out, "{what}")),
                    None => self.profile.put_text(out),
                }
                Ok(())
            }
            "profile" => {
                self.profile.put_text(out);
                Ok(())
            }
            "port" => write!(out, "{}", self.dst_port.unwrap_or(0)),
            "sport" => write!(out, "{}", self.src_port.unwrap_or(0)),
            "proto" => out.write_all(self.proto.name().as_bytes()),
            "PROTO" => out.write_all(self.proto.name().to_uppercase().as_bytes()),
            "count" => write!(out, "{}", m.count),
            "hosts" => write!(out, "{}", m.hosts),
            "ports" => write!(out, "{}", m.ports),
            "packets" => write!(out, "{}", m.packets),
            "bytes" => write!(out, "{}", m.bytes),
            "mb" => write!(out, "{:.2}", m.bytes as f64 / 1e6),
            "mins" => write!(out, "{}", (m.duration_ns as f64 / 6e8).round() / 100.0),
            "minutes" => write!(out, "{}", m.duration_ns / 60_000_000_000),
            "score" => write!(out, "{:.3}", m.score),
            "score4" => write!(out, "{:.4}", m.score),
            "times" => write!(out, "{}", self.times),
            "confidence" => write!(out, "{}", self.confidence),
            "sure" => write!(out, "{:.2}", self.confidence),
            number => match number.parse().ok().and_then(|n: usize| self.words.get(n)) {
                Some(word) => out.write_all(word.as_bytes()),
                None => Ok(()),
            },
        };
    }
}

/// A host whose evidence in one window crossed the threshold.
#[derive(Clone, Debug)]
pub struct Alert {
    /// Function of its content.
    pub id: FindingId,
    /// The host.
    pub profile: Ip,
    /// Number of the time window.
    pub window: i64,
    /// Begin of the window.
    pub window_start: TimeNs,
    /// End of the window.
    pub window_end: TimeNs,
    /// The moment of the evidence that crossed it.
    pub ts: TimeNs,
    /// The sum reached.
    pub accumulated: f64,
    /// How sure.
    pub confidence: f64,
    /// The report_ids of evidence that it sums up, in order.
    pub evidence: Vec<FindingId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each place of a sentence is filled once; what a word holds is not examined again.
    #[test]
    fn a_sentence_is_made_of_its_numbers_and_words() {
        static KIND: EvidenceType = EvidenceType::new("A", "T1");
        let ip = |text: &[u8]| Ip::parse(text).unwrap();
        let e = Evidence {
            id: FindingId::default(),
            report_id: FindingId::default(),
            why: ReportReason::Final,
            kind: &KIND,
            says: "{dst}:{port}/{PROTO} by {src}: {hosts} of {ports} in {mins} or {minutes} min, {mb} MB, \
                {0} {1}{2} {confidence} {score4}"
                .into(),
            words: vec!["{hosts}".into(), "b".into()],
            measures: Measures {
                hosts: 101,
                ports: 7,
                bytes: 1_234_567,
                duration_ns: 100_500_000_000,
                score: 0.5,
                ..Measures::default()
            },
            about: 0,
            repeat: 0,
            attacker: Party::destination(ip(b"1.2.3.4")),
            victim: Some(Party::source(ip(b"10.0.0.1"))),
            level: ThreatLevel::High,
            confidence: 0.3,
            profile: ip(b"1.2.3.4"),
            window: 1,
            ts: TimeNs(0),
            uids: Vec::new(),
            proto: Proto::Udp,
            src_port: None,
            dst_port: Some(53),
            method: "Heuristic",
            related: Vec::new(),
            times: 1,
            others: Vec::new(),
            input_state: String::new(),
        };
        assert_eq!(
            e.description(),
            "1.2.3.4:53/UDP by 10.0.0.1: 101 of 7 in 1.68 or 1 min, 1.23 MB, {hosts} b 0.3 0.5000"
        );
        let later = Measures { hosts: 102, ..e.measures };
        assert!(later.has_grown(&e.measures) && !e.measures.has_grown(&later));
    }

    #[test]
    fn levels_and_ids_have_the_forms_of_slips() {
        assert_eq!(ThreatLevel::of_score(0.3), ThreatLevel::Medium);
        assert_eq!(ThreatLevel::of_score(0.0), ThreatLevel::Info);
        assert_eq!(ThreatLevel::from_name(b" high"), Some(ThreatLevel::High));
        let id = FindingId([0xff; 16]).to_string();
        assert_eq!(id, "ffffffff-ffff-8fff-bfff-ffffffffffff");
    }
}

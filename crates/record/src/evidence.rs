//! What the behaviour engine finds: evidence about a host, and alerts made of evidence. Plain types
//! for the outputs that write them; the engine decides, nothing here does.

use crate::ip::Ip;
use crate::logs::{Proto, TimeNs};
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

    /// Its weight in sums, after the peer.
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
}

/// Which end of a flow something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Role {
    /// Who began the flow
    Source,
    /// With whom
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

/// An id that is a function of what is said: the same finding twice has the same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FindingId(pub [u8; 16]);

impl FindingId {
    /// In the form of a UUID, version 8 (RFC 9562).
    pub fn text(self) -> [u8; 36] {
        const HEX: &[u8; 16] = b"0123456789abcdef";
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
            for nibble in [byte >> 4, byte & 15] {
                if let (Some(place), Some(digit)) = (places.next(), HEX.get(usize::from(nibble))) {
                    *place = *digit;
                }
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

/// One observation about a host.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Function of its content.
    pub id: FindingId,
    /// What was seen.
    pub kind: &'static EvidenceType,
    /// The same for people, with the numbers at the moment of the crossing.
    pub description: String,
    /// Who did it.
    pub attacker: Party,
    /// To whom.
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
    /// When what was found began.
    pub start: TimeNs,
    /// Ids of the flows, the first few.
    pub uids: Vec<String>,
    /// How many flows there were in all.
    pub flows: u64,
    /// Protocol.
    pub proto: Proto,
    /// Source port where one is meant.
    pub src_port: Option<u16>,
    /// Destination port where one is meant.
    pub dst_port: Option<u16>,
    /// `Heuristic`, `AI`, …: IDMEF's method.
    pub method: &'static str,
    /// Other evidence of the same observation.
    pub related: Vec<FindingId>,
    /// How often the same was seen in this window, this time included; between 1, 10, 100 … it
    /// is not said again.
    pub times: u64,
    /// State of the input's ledger at that moment (`complete`).
    pub input_state: String,
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
    /// The evidence that it sums up, in order.
    pub evidence: Vec<FindingId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_ids_have_the_peers_forms() {
        assert_eq!(ThreatLevel::of_score(0.3), ThreatLevel::Medium);
        assert_eq!(ThreatLevel::of_score(0.0), ThreatLevel::Info);
        assert_eq!(ThreatLevel::from_name(b" high"), Some(ThreatLevel::High));
        let id = FindingId([0xff; 16]).to_string();
        assert_eq!(id, "ffffffff-ffff-8fff-bfff-ffffffffffff");
    }
}

//! Protocol detection: content patterns first, then probing by port.
//!
//! Detection looks at the first bytes of each direction. A pattern is a literal at a fixed place; a
//! probe is a small function that looks at the bytes and answers yes, no or not enough. Probes run
//! for flows to or from their ports only (Suricata's rule), patterns everywhere.

use gabion_record::Direction;
use gabion_record::applayer::Transport;

/// A literal that identifies a protocol.
#[derive(Clone, Copy, Debug)]
pub struct ProbePattern {
    /// Direction in which it occurs.
    pub direction: Direction,
    /// The bytes.
    pub bytes: &'static [u8],
    /// Letters match in either case.
    pub nocase: bool,
    /// First position it may start at.
    pub offset: u16,
    /// Position it must have ended at.
    pub depth: u16,
    /// Looks at the bytes too, when the literal alone proves too little.
    pub check: Option<fn(bytes: &[u8], direction: Direction) -> Probe>,
}

impl ProbePattern {
    /// A literal at the beginning of its direction, its letters as written.
    pub const fn at_start(direction: Direction, bytes: &'static [u8]) -> ProbePattern {
        ProbePattern::at(direction, 0, bytes)
    }

    /// A literal at that place of its direction, its letters as written.
    pub const fn at(direction: Direction, offset: u16, bytes: &'static [u8]) -> ProbePattern {
        let depth = offset + bytes.len() as u16;
        ProbePattern { direction, bytes, nocase: false, offset, depth, check: None }
    }

    /// The same, its letters in either case.
    pub const fn in_any_case(self) -> ProbePattern {
        ProbePattern { nocase: true, ..self }
    }

    /// Whether these first bytes of its direction have the literal at its place, and the check says yes.
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.has_literal(bytes)
            && self.check.is_none_or(|check| check(bytes, self.direction) == Probe::Yes)
    }

    /// Whether these first bytes of its direction have the literal at its place, and the check wants more of them.
    pub fn awaits_more(&self, bytes: &[u8]) -> bool {
        self.check.is_some_and(|check| check(bytes, self.direction) == Probe::More)
            && self.has_literal(bytes)
    }

    /// Whether these first bytes of its direction have the literal at its place.
    fn has_literal(&self, bytes: &[u8]) -> bool {
        let end = usize::from(self.depth).min(bytes.len());
        let Some(window) = bytes.get(usize::from(self.offset)..end) else { return false };
        if self.bytes.is_empty() || window.len() < self.bytes.len() {
            return false;
        }
        window
            .windows(self.bytes.len())
            .any(|w| if self.nocase { w.eq_ignore_ascii_case(self.bytes) } else { w == self.bytes })
    }
}

/// Answer of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// It is this protocol.
    Yes,
    /// It is this protocol, with client and server the other way round.
    YesReversed,
    /// It is this protocol if the other direction is; else not.
    YesIfOther,
    /// It is not.
    No,
    /// More bytes are needed to decide.
    More,
}

/// A probing parser bound to ports.
#[derive(Clone, Copy, Debug)]
pub struct PortProbe {
    /// Transport.
    pub transport: Transport,
    /// Default ports in Suricata's notation (`53`, `[443,8443]`); the configuration may change them.
    pub ports: &'static str,
    /// Least and most bytes the probe looks at (0: no limit).
    pub min_bytes: u16,
    /// See `min_bytes`.
    pub max_bytes: u16,
    /// The probe. `direction` is that of the bytes.
    pub probe: fn(bytes: &[u8], direction: Direction) -> Probe,
}

//! Detection of a flow's protocol: content patterns first, then probes by port, for each direction.
//!
//! Semantics follow Suricata's `AppLayerProtoDetect`: a pattern decides for its direction;
//! otherwise probes bound to the flow's destination port, then its source port, are asked until all
//! of them have answered no. A direction is *done* when no further byte can change its answer.

use gabion_proto::Protocol;
use gabion_proto::detect::{Probe, ProbePattern};
use gabion_proto::registry::protocol;
use gabion_record::applayer::{ProtoId, Transport};
use gabion_record::{Direction, Tree};

/// Answer for one direction of a flow, from its bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This protocol; the flow's sides are reversed if `reversed`.
    Found { proto: ProtoId, reversed: bool },
    /// More bytes may decide it.
    Open,
    /// No further bytes of this direction can decide it.
    Done,
}

/// What is known about a direction whose protocol is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) transport: Transport,
    pub(crate) direction: Direction,
    /// Source and destination port of bytes in that direction.
    pub(crate) ports: (u16, u16),
    /// The protocol of the other direction, or the one that a change has announced: its own probes are called for any
    /// port.
    pub(crate) other: ProtoId,
    /// The bytes may be of the other direction.
    pub(crate) may_turn: bool,
}

/// The patterns of one transport and direction, in the order in which they are asked.
#[derive(Debug, Default)]
struct Patterns {
    all: Vec<(ProtoId, ProbePattern)>,
    /// Places of those that may match, by the first byte: most patterns are of the first bytes, so that few are left.
    by_first: Vec<Vec<u16>>,
}

impl Patterns {
    /// Orders the patterns, once all are there.
    fn settle(&mut self) {
        // A literal with a check of the following bytes is more specific than a literal alone (`OPTIONS` of
        // SIP, and of HTTP).
        self.all.sort_by_key(|(_, p)| p.check.is_none());
        let places_of = |first: u8| {
            let fitting = self.all.iter().zip(0..).filter(|((_, p), _)| may_begin_with(p, first));
            fitting.map(|(_, place)| place).collect()
        };
        self.by_first = (0..=u8::MAX).map(places_of).collect();
    }

    /// Those that may match these bytes.
    fn fitting(&self, bytes: &[u8]) -> impl Iterator<Item = &(ProtoId, ProbePattern)> {
        let places = bytes.first().and_then(|first| self.by_first.get(usize::from(*first)));
        places.into_iter().flatten().filter_map(|place| self.all.get(usize::from(*place)))
    }
}

/// Whether the pattern may match bytes whose first one is this.
fn may_begin_with(p: &ProbePattern, first: u8) -> bool {
    let is_at_start = p.offset == 0 && usize::from(p.depth) == p.bytes.len();
    !is_at_start
        || p.bytes
            .first()
            .is_some_and(|b| *b == first || p.nocase && b.eq_ignore_ascii_case(&first))
}

/// All patterns and probes of the enabled protocols.
#[derive(Debug)]
pub(crate) struct Detection {
    patterns: [Patterns; 4],
    probes: Vec<PortEntry>,
    /// A flow's first datagram may be what the server said: `stream.midstream`, which in Suricata holds over UDP, too.
    may_begin_with_server: bool,
}

#[derive(Debug)]
struct PortEntry {
    proto: ProtoId,
    transport: Transport,
    ports: Vec<(u16, u16)>,
    /// Ports of the side that sends the first datagram from which the protocol is found, too.
    source_ports: Vec<(u16, u16)>,
    min_bytes: usize,
    max_bytes: usize,
    probe: fn(&[u8], Direction) -> Probe,
}

/// Bytes after which no pattern is awaited any more: Suricata's patterns reach this far over TCP, to the
/// server and to the client (measured: it reports that no protocol, or only one direction's, was found from
/// 17 bytes to the server and 10 bytes to the client on).
const PATTERN_DEPTH: [usize; 4] = [17, 10, 0, 0];

fn slot(transport: Transport, direction: Direction) -> usize {
    direction.index() + if transport == Transport::Udp { 2 } else { 0 }
}

impl Detection {
    /// The patterns and probes of these protocols (registry order), as configured.
    pub(crate) fn new(registry: &[&'static Protocol], config: &Tree) -> Detection {
        let mut d = Detection {
            patterns: Default::default(),
            probes: Vec::new(),
            may_begin_with_server: config.flag("stream.midstream") == Some(true),
        };
        for (i, p) in registry.iter().enumerate() {
            let proto = ProtoId(i as u8 + 1);
            let base = format!("app-layer.protocols.{}", p.config_name);
            for transport in p.table.transports.iter().copied() {
                if !is_detected(p, config, transport) {
                    continue;
                }
                let of_datagrams = p.datagram_patterns.filter(|_| transport == Transport::Udp);
                for pattern in of_datagrams.unwrap_or(p.patterns) {
                    let s = slot(transport, pattern.direction);
                    d.patterns[s].all.push((proto, *pattern));
                }
            }
            for probe in p.probes {
                if !is_detected(p, config, probe.transport) {
                    continue;
                }
                let by_transport = probe.transport.name();
                // Ports for either transport come first (Suricata's order).
                let configured = |key: &str| {
                    config.text(&format!("{base}.detection-ports.{key}")).or_else(|| {
                        config.text(&format!("{base}.{by_transport}.detection-ports.{key}"))
                    })
                };
                d.probes.push(PortEntry {
                    proto,
                    transport: probe.transport,
                    ports: parse_ports(configured("dp").unwrap_or(probe.ports)),
                    source_ports: parse_ports(configured("sp").unwrap_or_default()),
                    min_bytes: usize::from(probe.min_bytes),
                    max_bytes: usize::from(probe.max_bytes),
                    probe: probe.probe,
                });
            }
        }
        d.patterns.iter_mut().for_each(Patterns::settle);
        d
    }

    /// Whether a protocol has patterns or probes by which it can be found.
    pub(crate) fn finds(&self, proto: ProtoId) -> bool {
        self.probes.iter().any(|e| e.proto == proto)
            || self.patterns.iter().flat_map(|p| &p.all).any(|(p, _)| *p == proto)
    }

    /// Whether bytes that either side may send are the server's, as their ports show.
    fn is_of_server(&self, proto: ProtoId, question: &Question, bytes: &[u8]) -> bool {
        let Some(port) = protocol(proto).and_then(|p| p.home_port) else { return false };
        let back = slot(question.transport, question.direction.opposite());
        question.ports.0 == port
            && question.ports.1 != port
            && self.patterns[back]
                .fitting(bytes)
                .any(|(p, pattern)| *p == proto && pattern.matches(bytes))
    }

    /// Looks for a protocol in the first bytes of a direction.
    pub(crate) fn detect_protocol(&self, question: &Question, bytes: &[u8]) -> Answer {
        let Question { transport, direction, ports, other, may_turn } = *question;
        let s = slot(transport, direction);
        for (proto, p) in self.patterns[s].fitting(bytes) {
            if p.matches(bytes) {
                // A pattern alone is not proof when the protocol has a probe for this port.
                let reversed = may_turn && self.is_of_server(*proto, question, bytes);
                return Answer::Found { proto: *proto, reversed };
            }
        }
        if may_turn {
            let back = slot(transport, direction.opposite());
            let mut fitting = self.patterns[back].fitting(bytes);
            if let Some((proto, _)) = fitting.find(|(_, p)| p.matches(bytes)) {
                return Answer::Found { proto: *proto, reversed: true };
            }
        }
        let is_awaited = || self.patterns[s].fitting(bytes).any(|(_, p)| p.awaits_more(bytes));
        let mut open =
            transport == Transport::Tcp && (bytes.len() < PATTERN_DEPTH[s] || is_awaited());
        if other.is_known() {
            for e in self.probes.iter().filter(|e| e.transport == transport && e.proto == other) {
                let answer = (e.probe)(bytes, direction);
                if bytes.len() >= e.min_bytes && matches!(answer, Probe::Yes | Probe::YesIfOther) {
                    return Answer::Found { proto: other, reversed: false };
                }
            }
        }
        // The server's port counts; the client's only where it is not known which one is the server, and over UDP for
        // what a server says first, where flows may be seen from their middle on or the port is one of `sp`.
        let (server, client) = match direction {
            Direction::ToServer => (ports.1, ports.0),
            Direction::ToClient => ports,
        };
        let is_udp = transport == Transport::Udp;
        let may_be_server = may_turn || is_udp && self.may_begin_with_server;
        for (port, is_client) in [(server, false), (client, true)] {
            if is_client && !may_be_server && !is_udp {
                continue;
            }
            for e in self.probes.iter().filter(|e| e.transport == transport) {
                let holds =
                    |list: &[(u16, u16)]| list.iter().any(|&(a, b)| (a..=b).contains(&port));
                let by_either = !is_client || may_be_server;
                if !(by_either && holds(&e.ports) || is_client && is_udp && holds(&e.source_ports))
                {
                    continue;
                }
                if bytes.len() < e.min_bytes {
                    open |= transport == Transport::Tcp;
                    continue;
                }
                match (e.probe)(bytes, direction) {
                    Probe::Yes => return Answer::Found { proto: e.proto, reversed: false },
                    Probe::YesReversed => return Answer::Found { proto: e.proto, reversed: true },
                    Probe::More if e.max_bytes == 0 || bytes.len() < e.max_bytes => {
                        open |= transport == Transport::Tcp;
                    }
                    Probe::More | Probe::YesIfOther | Probe::No => {}
                }
            }
        }
        if open { Answer::Open } else { Answer::Done }
    }
}

/// Whether a protocol is detected: unless its `enabled` (or that of the transport below it) is `no`.
pub fn is_detected(p: &Protocol, config: &Tree, transport: Transport) -> bool {
    state_of(p, config, transport) != State::Off
}

/// Whether a protocol is parsed: unless `enabled` is `no` or `detection-only`.
pub fn is_parsed(p: &Protocol, config: &Tree, transport: Transport) -> bool {
    state_of(p, config, transport) == State::On
}

#[derive(PartialEq, Eq)]
enum State {
    On,
    DetectionOnly,
    Off,
}

fn state_of(p: &Protocol, config: &Tree, transport: Transport) -> State {
    let base = format!("app-layer.protocols.{}", p.config_name);
    let by_transport = transport.name();
    let text = config
        .text(&format!("{base}.enabled"))
        .or_else(|| config.text(&format!("{base}.{by_transport}.enabled")));
    match text {
        Some("detection-only") => State::DetectionOnly,
        Some(t) => match gabion_record::config::truth(t) {
            Some(true) => State::On,
            Some(false) => State::Off,
            None => State::On,
        },
        None if p.is_default_on => State::On,
        None => State::Off,
    }
}

/// `53`, `[443, 8443]`, `80-90,1024:2000`, `any`.
pub(crate) fn parse_ports(text: &str) -> Vec<(u16, u16)> {
    let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
    let mut out = Vec::new();
    for part in inner.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        if part.eq_ignore_ascii_case("any") {
            out.push((0, u16::MAX));
            continue;
        }
        let (a, b) = part.split_once(['-', ':']).unwrap_or((part, part));
        let low = if a.is_empty() { Ok(0) } else { a.trim().parse() };
        let high = if b.is_empty() { Ok(u16::MAX) } else { b.trim().parse() };
        if let (Ok(low), Ok(high)) = (low, high) {
            out.push((low, high));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_lists() {
        assert_eq!(parse_ports("[443, 8443]"), [(443, 443), (8443, 8443)]);
        assert_eq!(parse_ports("80-90,1024:"), [(80, 90), (1024, 65535)]);
    }

    /// What comes first from a port of Suricata 8.0.7's protocols over UDP is found by that port alone with
    /// `stream.midstream`, and with the port under `sp`.
    #[test]
    fn the_first_datagram_may_come_from_the_port() {
        let found = |keys: &[(&str, &str)], port: u16, bytes: &[u8]| {
            let mut config = Tree::default();
            for (key, value) in keys {
                config.set(key, value);
            }
            let detection = Detection::new(gabion_proto::registry(), &config);
            let question = Question {
                transport: Transport::Udp,
                direction: Direction::ToServer,
                ports: (port, 40_000),
                other: ProtoId::UNKNOWN,
                may_turn: false,
            };
            match detection.detect_protocol(&question, bytes) {
                Answer::Found { proto, reversed } => {
                    Some((protocol(proto).unwrap().table.name, reversed))
                }
                Answer::Open | Answer::Done => None,
            }
        };
        let query = b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x01a\0\0\x01\0\x01";
        let mut answer = query.to_vec();
        answer[2] = 0x81;
        let ntp = [&b"\x23"[..], &[0; 47]].concat();
        let list: Vec<u8> = [&b"\x63"[..], &[0; 23]].concat();
        let midstream = [("stream.midstream", "yes")];
        assert_eq!(found(&midstream, 53, query), Some(("dns", false)));
        assert_eq!(found(&midstream, 53, &answer), Some(("dns", true)));
        assert_eq!(found(&midstream, 123, &ntp), Some(("ntp", false)));
        for (port, bytes) in [(53, &query[..]), (53, &answer), (123, &ntp)] {
            assert_eq!(found(&[], port, bytes), None);
        }
        let ports = |key| [("app-layer.protocols.enip.enabled", "yes"), (key, "44818")];
        let (dp, sp) = (
            ports("app-layer.protocols.enip.detection-ports.dp"),
            ports("app-layer.protocols.enip.detection-ports.sp"),
        );
        assert_eq!(found(&sp, 44_818, &list), Some(("enip", false)));
        assert_eq!(found(&dp, 44_818, &list), None);
        let both = [&dp[..], &midstream[..]].concat();
        assert_eq!(found(&both, 44_818, &list), Some(("enip", false)));
    }

    /// No pattern of any protocol is left out for the first byte of what it matches.
    #[test]
    fn patterns_that_match_are_asked() {
        let detection = Detection::new(gabion_proto::registry(), &Tree::default());
        let mut asked = 0;
        for patterns in &detection.patterns {
            for (at, (_, p)) in patterns.all.iter().enumerate() {
                for is_turned in [false, true] {
                    for room in [0, 1] {
                        let turn = |b: &u8| {
                            if b.is_ascii_lowercase() {
                                b.to_ascii_uppercase()
                            } else {
                                b.to_ascii_lowercase()
                            }
                        };
                        let literal = p
                            .bytes
                            .iter()
                            .map(|b| if is_turned && p.nocase { turn(b) } else { *b });
                        let mut bytes = vec![b'.'; usize::from(p.offset)];
                        bytes.extend(std::iter::repeat_n(b'.', room));
                        bytes.extend(literal);
                        let without_check = ProbePattern { check: None, ..*p };
                        if !without_check.matches(&bytes) {
                            continue;
                        }
                        asked += 1;
                        let is_asked = patterns
                            .fitting(&bytes)
                            .any(|(_, q)| std::ptr::eq(q, &patterns.all[at].1));
                        assert!(is_asked, "{p:?}");
                    }
                }
            }
            let most = patterns.by_first.iter().map(Vec::len).max();
            assert!(patterns.all.len() < 8 || most < Some(patterns.all.len()));
        }
        assert!(asked > 50, "{asked}");
    }

    #[test]
    fn patterns_have_a_place() {
        let p = ProbePattern {
            direction: Direction::ToServer,
            bytes: b"GET ",
            nocase: false,
            offset: 0,
            depth: 4,
            check: None,
        };
        assert!(p.matches(b"GET / HTTP/1.0"));
        assert!(!p.matches(b" GET / HTTP/1.0"));
        assert!(!p.matches(b"GE"));
    }
}

//! Packet logs: which frames go into a capture file, and the ring that keeps those that may yet be
//! wanted.
//!
//! An alert is told of a packet; what led to it came before. A ring of the last frames, bounded in
//! bytes, is searched for the alert's flow, and what follows of the flow is written too. What falls
//! out of the ring unseen is counted as evicted. Frames leave as encoded lines (see [`FrameLine`]), so
//! that those of several workers can be put in order like all other output.

use crate::limits::reached;
use gabion_record::Tree;
use gabion_record::eve::WireRecord;
use gabion_record::ledger::{Ledger, ShedReason};
use std::collections::{HashMap, VecDeque};

/// Bytes of the ring, unless configured.
pub const RING_BYTES: u64 = 16 << 20;
/// Packets written after an alert, unless configured.
pub const PACKETS_AFTER: u32 = 100;

/// Which frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketChoice {
    /// All.
    All,
    /// Those of flows with alerts from the alert on, and the TCP segments before it (the peer's
    /// `conditional: alerts`).
    Alerts,
    /// Those that rules tag, and the TCP segments before (the peer's `conditional: tag`).
    Tagged,
    /// All of a flow with an alert: what the ring holds of it, and so many packets after.
    Flows {
        /// Packets after the last alert.
        after: u32,
    },
}

/// What a packet log was configured to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketLogSettings {
    /// Which frames.
    pub choice: PacketChoice,
    /// Bytes of frames kept for alerts to come.
    pub ring_bytes: u64,
    /// Packets of flows that a pass rule let go are left out.
    pub honor_pass: bool,
    /// Packets beyond the reassembly depth are left out.
    pub use_depth: bool,
}

impl PacketLogSettings {
    /// Reads the node of a `pcap-log` output.
    pub fn pcap_log(node: &Tree) -> Result<PacketLogSettings, String> {
        let choice = match node.text("conditional").unwrap_or("all") {
            "all" => PacketChoice::All,
            "alerts" => PacketChoice::Alerts,
            "tag" => PacketChoice::Tagged,
            other => return Err(format!("pcap-log.conditional: {other}: all, alerts or tag")),
        };
        Ok(PacketLogSettings {
            choice,
            ring_bytes: RING_BYTES,
            honor_pass: node.flag("honor-pass-rules").unwrap_or(false),
            use_depth: node.flag("use-stream-depth").unwrap_or(false),
        })
    }

    /// Reads the node of an `alert-pcap` output.
    pub fn alert_pcap(node: &Tree) -> PacketLogSettings {
        let after = node.number("after").and_then(|n| u32::try_from(n).ok());
        PacketLogSettings {
            choice: PacketChoice::Flows { after: after.unwrap_or(PACKETS_AFTER) },
            ring_bytes: node.size("ring").unwrap_or(RING_BYTES),
            honor_pass: false,
            use_depth: false,
        }
    }
}

/// A frame as a line of an output: its time, link type, length on the wire, then its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLine<'a> {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// LINKTYPE.
    pub link: u16,
    /// Length before a snap length cut it.
    pub wire_len: u32,
    /// The bytes.
    pub data: &'a [u8],
}

const HEAD: usize = 14;

impl<'a> FrameLine<'a> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.ts_ns.to_le_bytes());
        out.extend_from_slice(&self.link.to_le_bytes());
        out.extend_from_slice(&self.wire_len.to_le_bytes());
        out.extend_from_slice(self.data);
    }

    /// Reads a line back.
    pub fn decode(line: &'a [u8]) -> Option<FrameLine<'a>> {
        let (ts, rest) = line.split_first_chunk::<8>()?;
        let (link, rest) = rest.split_first_chunk::<2>()?;
        let (wire_len, data) = rest.split_first_chunk::<4>()?;
        Some(FrameLine {
            ts_ns: u64::from_le_bytes(*ts),
            link: u16::from_le_bytes(*link),
            wire_len: u32::from_le_bytes(*wire_len),
            data,
        })
    }
}

/// A frame in the ring.
#[derive(Clone, Copy, Debug)]
struct Held {
    flow: u64,
    len: u32,
    is_written: bool,
}

/// The frames that came last, oldest first.
#[derive(Debug, Default)]
struct Ring {
    bytes: VecDeque<u8>,
    held: VecDeque<Held>,
}

/// One worker's packet log.
#[derive(Debug)]
pub(crate) struct PacketLog {
    pub(crate) settings: PacketLogSettings,
    ring: Ring,
    /// Packets still to be written, by flow.
    followed: HashMap<u64, u32>,
    line: Vec<u8>,
    ledger: Ledger,
    /// Frames of flows with an alert that were not in the ring any more.
    pub(crate) missing: u64,
}

impl PacketLog {
    pub(crate) fn new(settings: PacketLogSettings) -> PacketLog {
        PacketLog {
            settings,
            ring: Ring::default(),
            followed: HashMap::new(),
            line: Vec::new(),
            ledger: Ledger::default(),
            missing: 0,
        }
    }

    /// What became of the frames. At rest those still in the ring had no alert.
    pub(crate) fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        let (received, passed, shed) = (ledger.received(), ledger.passed(), ledger.shed_total());
        let left = |all: u64, a: u64, b: u64| all.saturating_sub(a).saturating_sub(b);
        let items = left(received.items, passed.items, shed.items);
        let bytes = left(received.bytes, passed.bytes, shed.bytes);
        ledger.shed(ShedReason::NoAlert, items, bytes);
        ledger
    }

    /// Takes a frame; `write` is given the lines that are due, oldest first.
    pub(crate) fn take(&mut self, r: &WireRecord<'_>, write: &mut dyn FnMut(&[u8])) {
        let (s, facts, len) = (self.settings, r.facts, r.data.len() as u64);
        if (s.honor_pass && facts.is_passed) || (s.use_depth && facts.is_beyond_depth) {
            return;
        }
        let line = FrameLine { ts_ns: r.ts_ns, link: r.link, wire_len: r.wire_len, data: r.data };
        line.encode(&mut self.line);
        self.ledger.receive(1, len);
        let is_due = match s.choice {
            PacketChoice::All => true,
            PacketChoice::Alerts => facts.has_alert || facts.flow_has_alert,
            PacketChoice::Tagged => facts.is_tagged,
            PacketChoice::Flows { after } => self.follows(facts.flow, facts.has_alert, after),
        };
        if !is_due {
            let may_be_wanted = match s.choice {
                PacketChoice::Flows { .. } => true,
                _ => facts.has_segment,
            };
            match facts.flow.filter(|_| may_be_wanted) {
                Some(flow) => self.hold(flow),
                None => self.ledger.shed(ShedReason::NoAlert, 1, len),
            }
            return;
        }
        if let (Some(flow), false) = (facts.flow, s.choice == PacketChoice::All) {
            let found = self.release(flow, write);
            if facts.has_alert && matches!(s.choice, PacketChoice::Flows { .. }) && found > 0 {
                let before = facts.flow_packets.saturating_sub(1);
                self.missing += before.saturating_sub(found);
            }
        }
        write(&self.line);
        self.ledger.pass(1, len);
    }

    /// An alert whose frame is gone (the flow has ended): its flow's frames are due.
    pub(crate) fn alert(&mut self, flow: Option<u64>, write: &mut dyn FnMut(&[u8])) {
        if let (Some(flow), true) = (flow, self.settings.choice != PacketChoice::All) {
            self.release(flow, write);
        }
    }

    fn follows(&mut self, flow: Option<u64>, has_alert: bool, after: u32) -> bool {
        let Some(flow) = flow else { return has_alert };
        if has_alert {
            if self.followed.contains_key(&flow)
                || reached::FOLLOWED_FLOWS_MAX.has_room(self.followed.len())
            {
                self.followed.insert(flow, after);
            }
            return true;
        }
        match self.followed.get_mut(&flow) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Keeps the encoded frame; the oldest ones make room.
    fn hold(&mut self, flow: u64) {
        let len = self.line.len() as u64;
        let data = |held: &Held| u64::from(held.len).saturating_sub(HEAD as u64);
        if len > self.settings.ring_bytes {
            self.ledger.shed(ShedReason::RingEvicted, 1, len - HEAD as u64);
            return;
        }
        while self.ring.bytes.len() as u64 + len > self.settings.ring_bytes {
            let Some(old) = self.ring.held.pop_front() else { break };
            self.ring.bytes.drain(..old.len as usize);
            if !old.is_written {
                self.ledger.shed(ShedReason::RingEvicted, 1, data(&old));
            }
        }
        self.ring.bytes.extend(&self.line);
        self.ring.held.push_back(Held { flow, len: len as u32, is_written: false });
    }

    /// Writes what the ring holds of a flow; how many frames.
    fn release(&mut self, flow: u64, write: &mut dyn FnMut(&[u8])) -> u64 {
        let (mut at, mut found) = (0, 0);
        let (a, b) = self.ring.bytes.as_slices();
        let mut joined = Vec::new();
        for held in &mut self.ring.held {
            let end = at + held.len as usize;
            if held.flow == flow && !held.is_written {
                let line = match (a.get(at..end), at.checked_sub(a.len())) {
                    (Some(line), _) => line,
                    (None, Some(from)) => b.get(from..from + held.len as usize).unwrap_or(&[]),
                    (None, None) => {
                        joined.clear();
                        joined.extend_from_slice(a.get(at..).unwrap_or(&[]));
                        let rest = end.saturating_sub(a.len());
                        joined.extend_from_slice(b.get(..rest).unwrap_or(&[]));
                        &joined
                    }
                };
                write(line);
                held.is_written = true;
                found += 1;
                self.ledger.pass(1, u64::from(held.len).saturating_sub(HEAD as u64));
            }
            at = end;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::eve::WireFacts;

    fn record(data: &[u8], facts: WireFacts) -> WireRecord<'_> {
        WireRecord { ts_ns: 5, link: 1, wire_len: data.len() as u32, data, facts }
    }

    fn settings(choice: PacketChoice, ring_bytes: u64) -> PacketLogSettings {
        PacketLogSettings { choice, ring_bytes, honor_pass: true, use_depth: false }
    }

    fn of(flow: u64) -> WireFacts {
        WireFacts { flow: Some(flow), has_segment: true, ..WireFacts::default() }
    }

    /// Gives frames of one byte each (their number) and gathers what is written.
    fn run(log: &mut PacketLog, facts: &[WireFacts]) -> Vec<u8> {
        let mut out = Vec::new();
        for (n, f) in facts.iter().enumerate() {
            log.take(&record(&[n as u8], *f), &mut |line| {
                out.push(FrameLine::decode(line).unwrap().data[0]);
            });
        }
        log.ledger().balance().unwrap();
        out
    }

    #[test]
    fn a_flow_with_an_alert_is_written_from_its_start() {
        let alert = WireFacts { has_alert: true, flow_has_alert: true, flow_packets: 3, ..of(1) };
        let mut log = PacketLog::new(settings(PacketChoice::Flows { after: 1 }, 1 << 20));
        let out = run(&mut log, &[of(1), of(2), of(1), alert, of(2), of(1), of(1)]);
        assert_eq!(out, [0, 2, 3, 5]);
        assert_eq!(log.missing, 0);
        assert_eq!(log.ledger().shed_for(ShedReason::NoAlert).items, 3);
    }

    #[test]
    fn flows_beyond_the_limit_are_not_followed_and_counted() {
        let mut log = PacketLog::new(settings(PacketChoice::Flows { after: 1 }, 1 << 20));
        for flow in 0..crate::limits::FOLLOWED_FLOWS_MAX as u64 + 3 {
            log.follows(Some(flow), true, 1);
            log.follows(Some(0), true, 1);
        }
        assert_eq!(gabion_record::limits::take().of(&reached::FOLLOWED_FLOWS_MAX), 3);
    }

    #[test]
    fn a_ring_too_small_says_what_it_lost() {
        let alert = WireFacts { has_alert: true, flow_has_alert: true, flow_packets: 5, ..of(1) };
        // Room for two frames of one byte.
        let mut log = PacketLog::new(settings(PacketChoice::Flows { after: 0 }, 2 * 15));
        let out = run(&mut log, &[of(1), of(1), of(1), of(1), alert]);
        assert_eq!(out, [2, 3, 4]);
        assert_eq!(log.missing, 2);
        assert_eq!(log.ledger().shed_for(ShedReason::RingEvicted).items, 2);
    }

    #[test]
    fn conditions_of_the_peer() {
        let none = WireFacts { has_segment: false, ..of(1) };
        let alert = WireFacts { has_alert: true, flow_has_alert: true, ..none };
        let after = WireFacts { flow_has_alert: true, ..none };
        let mut log = PacketLog::new(settings(PacketChoice::Alerts, 1 << 20));
        assert_eq!(run(&mut log, &[none, of(1), none, alert, after]), [1, 3, 4]);
        let tagged = WireFacts { is_tagged: true, ..none };
        let mut log = PacketLog::new(settings(PacketChoice::Tagged, 1 << 20));
        assert_eq!(run(&mut log, &[of(1), tagged, after]), [0, 1]);
        let passed = WireFacts { is_passed: true, ..none };
        let mut log = PacketLog::new(settings(PacketChoice::All, 0));
        assert_eq!(run(&mut log, &[none, passed, WireFacts::default()]), [0, 2]);
    }

    #[test]
    fn the_ring_may_wrap_anywhere() {
        for bytes in 15..200 {
            let mut log = PacketLog::new(settings(PacketChoice::Flows { after: 0 }, bytes));
            let mut facts = vec![of(1); 40];
            facts.push(WireFacts { has_alert: true, flow_packets: 41, ..of(1) });
            let out = run(&mut log, &facts);
            let kept = bytes / 15;
            assert_eq!(out, (40 - kept as u8..41).collect::<Vec<_>>(), "{bytes}");
        }
    }
}

//! Packet logs: which frames go into a capture file, and the ring that keeps those that may yet be
//! wanted.
//!
//! An alert is about one packet; the packets that led to it came before. A ring of the last frames, bounded in
//! bytes, is searched for the alert's flow, and what follows of the flow is written too. What falls
//! out of the ring unseen is counted as evicted.

use crate::error::OutputError;
use crate::event_counts::EventCounts;
use crate::limits::reached;
use crate::output::{Destination, Format, FrameHead, Output, Piece, PieceKind, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use gabion_record::eve::{Wants, WireRecord};
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::{PacketSource, Tree};
use std::collections::{HashMap, VecDeque};

/// Bytes of the ring, unless configured.
pub const RING_BYTES: u64 = 16 << 20;
/// Packets written after an alert, unless configured.
pub const PACKETS_AFTER: u32 = 100;

pub(crate) const PCAP_LOG: OutputKind = OutputKind::new("pcap-log", open_pcap_log);
pub(crate) const ALERT_PCAP: OutputKind = OutputKind::new("alert-pcap", open_alert_pcap);

fn open_pcap_log(o: &mut Opening<'_>) -> Opened {
    open(PacketLogSettings::pcap_log(o.node)?, o)
}

fn open_alert_pcap(o: &mut Opening<'_>) -> Opened {
    open(PacketLogSettings::alert_pcap(o.node), o)
}

fn open(settings: PacketLogSettings, o: &mut Opening<'_>) -> Opened {
    // Without an alert written there is none to the packet.
    let wants = Wants { wire: true, alerts: true, ..Wants::default() };
    let (format, to) = (PacketLog::new(settings, wants), (o.frames)(o.name, o.node)?);
    Ok(Some(Output { format: Box::new(format), to }))
}

/// A packet log in addition to those of the configuration. It knows the alerts that other outputs have written.
pub fn output(settings: PacketLogSettings, to: Box<dyn Destination>) -> Output {
    let wants = Wants { wire: true, ..Wants::default() };
    Output { format: Box::new(PacketLog::new(settings, wants)), to }
}

/// Which frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketChoice {
    /// All.
    All,
    /// Those of flows with alerts from the alert on, and the TCP segments before it (Suricata's
    /// `conditional: alerts`).
    Alerts,
    /// Those that rules tag, and the TCP segments before (Suricata's `conditional: tag`).
    Tagged,
    /// All of a flow with an alert: the frames in the ring, and a number of packets after the alert.
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
    /// Packets of flows that a pass rule passed are left out.
    pub honor_pass: bool,
    /// Packets beyond the reassembly depth are left out.
    pub use_depth: bool,
}

impl PacketLogSettings {
    /// Reads the node of a `pcap-log` output.
    pub fn pcap_log(node: &Tree) -> Result<PacketLogSettings, OutputError> {
        let choice = match node.text("conditional").unwrap_or("all") {
            "all" => PacketChoice::All,
            "alerts" => PacketChoice::Alerts,
            "tag" => PacketChoice::Tagged,
            other => return Err(OutputError::PacketChoice(other.to_owned())),
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

/// Bytes of the ring that a frame takes in addition to its own.
const HEAD: u64 = 14;

/// A frame in the ring.
#[derive(Clone, Copy, Debug)]
struct Held {
    flow: u64,
    head: FrameHead,
    len: u32,
    is_written: bool,
}

/// The frames that came last, oldest first.
#[derive(Debug, Default)]
struct Ring {
    bytes: VecDeque<u8>,
    held: VecDeque<Held>,
}

impl Ring {
    /// Bytes that count against its bound.
    fn size(&self) -> u64 {
        self.bytes.len() as u64 + HEAD * self.held.len() as u64
    }
}

/// One worker's packet log.
#[derive(Debug)]
pub(crate) struct PacketLog {
    settings: PacketLogSettings,
    wants: Wants,
    ring: Ring,
    /// Packets still to be written, by flow.
    followed: HashMap<u64, u32>,
    ledger: Ledger,
    /// Frames of flows with an alert that were not in the ring any more.
    missing: u64,
}

impl PacketLog {
    fn new(settings: PacketLogSettings, wants: Wants) -> PacketLog {
        PacketLog {
            settings,
            wants,
            ring: Ring::default(),
            followed: HashMap::new(),
            ledger: Ledger::default(),
            missing: 0,
        }
    }

    /// The outcomes of the frames. At the end, those still in the ring had no alert.
    fn ledger(&self) -> Ledger {
        let mut ledger = self.ledger.clone();
        let (received, passed, shed) = (ledger.received(), ledger.passed(), ledger.shed_total());
        let left = |all: u64, a: u64, b: u64| all.saturating_sub(a).saturating_sub(b);
        let items = left(received.items, passed.items, shed.items);
        let bytes = left(received.bytes, passed.bytes, shed.bytes);
        ledger.shed(ShedReason::NoAlert, items, bytes);
        ledger
    }

    /// Takes a frame; `to` is given the frames that are due, oldest first.
    fn take_frame(&mut self, r: &WireRecord<'_>, to: &mut dyn Pieces) {
        let (s, facts, len) = (self.settings, r.facts, r.data.len() as u64);
        if (s.honor_pass && facts.is_passed) || (s.use_depth && facts.is_beyond_depth) {
            return;
        }
        let head = FrameHead { ts_ns: r.ts_ns, link: r.link, wire_len: r.wire_len };
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
                Some(flow) => self.hold(flow, head, r.data),
                None => self.ledger.shed(ShedReason::NoAlert, 1, len),
            }
            return;
        }
        if let (Some(flow), false) = (facts.flow, s.choice == PacketChoice::All) {
            let found = self.release(flow, to);
            if facts.has_alert && matches!(s.choice, PacketChoice::Flows { .. }) && found > 0 {
                let before = facts.flow_packets.saturating_sub(1);
                self.missing += before.saturating_sub(found);
            }
        }
        to.put(frame(head, r.data));
        self.ledger.pass(1, len);
    }

    /// An alert whose frame is gone (the flow has ended): its flow's frames are due.
    fn take_late_alert(&mut self, flow: Option<u64>, to: &mut dyn Pieces) {
        if let (Some(flow), true) = (flow, self.settings.choice != PacketChoice::All) {
            self.release(flow, to);
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

    /// Keeps a frame; the oldest ones are evicted.
    fn hold(&mut self, flow: u64, head: FrameHead, data: &[u8]) {
        let len = data.len() as u64;
        if len + HEAD > self.settings.ring_bytes {
            self.ledger.shed(ShedReason::RingEvicted, 1, len);
            return;
        }
        while self.ring.size() + len + HEAD > self.settings.ring_bytes {
            let Some(old) = self.ring.held.pop_front() else { break };
            self.ring.bytes.drain(..old.len as usize);
            if !old.is_written {
                self.ledger.shed(ShedReason::RingEvicted, 1, u64::from(old.len));
            }
        }
        self.ring.bytes.extend(data);
        self.ring.held.push_back(Held { flow, head, len: len as u32, is_written: false });
    }

    /// Writes what the ring holds of a flow; how many frames.
    fn release(&mut self, flow: u64, to: &mut dyn Pieces) -> u64 {
        let (mut at, mut found) = (0, 0);
        let (a, b) = self.ring.bytes.as_slices();
        let mut joined = Vec::new();
        for held in &mut self.ring.held {
            let end = at + held.len as usize;
            if held.flow == flow && !held.is_written {
                let data = match (a.get(at..end), at.checked_sub(a.len())) {
                    (Some(data), _) => data,
                    (None, Some(from)) => b.get(from..from + held.len as usize).unwrap_or(&[]),
                    (None, None) => {
                        joined.clear();
                        joined.extend_from_slice(a.get(at..).unwrap_or(&[]));
                        let rest = end.saturating_sub(a.len());
                        joined.extend_from_slice(b.get(..rest).unwrap_or(&[]));
                        &joined
                    }
                };
                to.put(frame(held.head, data));
                held.is_written = true;
                found += 1;
                self.ledger.pass(1, u64::from(held.len));
            }
            at = end;
        }
        found
    }
}

fn frame(head: FrameHead, data: &[u8]) -> Piece<'_> {
    Piece { kind: PieceKind::Frame(head), bytes: data, later: &[] }
}

impl Format for PacketLog {
    fn wants(&self) -> Wants {
        self.wants
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        match record {
            Record::Wire(r) => self.take_frame(r, to),
            Record::Alert(r) if r.header.pkt_src == Some(PacketSource::FlowEnd) => {
                self.take_late_alert(r.header.flow_id, to);
            }
            Record::Alert(_)
            | Record::App(_)
            | Record::File(_)
            | Record::FileChunk(_)
            | Record::Flow(_)
            | Record::Netflow(..)
            | Record::Anomaly(_)
            | Record::Drop(_)
            | Record::Packet(_)
            | Record::Frame(_)
            | Record::Stream(_)
            | Record::AlertedPacket(_)
            | Record::StreamData(_)
            | Record::Certificates(_)
            | Record::Metadata(_)
            | Record::Arp(..)
            | Record::Stats(..)
            | Record::Evidence(_)
            | Record::HostAlert(_)
            | Record::Guard(_)
            | Record::SyscallAlert(_) => {}
        }
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(PacketLog::new(self.settings, self.wants))
    }

    fn add_counts(&self, counts: &mut EventCounts) {
        counts.packet_log.merge(&self.ledger());
        counts.packet_log_missing += self.missing;
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

    fn facts_of(flow: u64) -> WireFacts {
        WireFacts { flow: Some(flow), has_segment: true, ..WireFacts::default() }
    }

    /// Gives frames of one byte each (their number) and gathers what is written.
    fn run(log: &mut PacketLog, facts: &[WireFacts]) -> Vec<u8> {
        let mut out = FirstBytes::default();
        for (n, f) in facts.iter().enumerate() {
            log.take_frame(&record(&[n as u8], *f), &mut out);
        }
        log.ledger().balance().unwrap();
        out.0
    }

    /// The first byte of each frame.
    #[derive(Default)]
    struct FirstBytes(Vec<u8>);

    impl Pieces for FirstBytes {
        fn put(&mut self, piece: Piece<'_>) {
            let head = FrameHead { ts_ns: 5, link: 1, wire_len: 1 };
            assert_eq!(piece.kind, PieceKind::Frame(head));
            self.0.push(piece.bytes[0]);
        }
    }

    fn packet_log(settings: PacketLogSettings) -> PacketLog {
        PacketLog::new(settings, Wants::default())
    }

    #[test]
    fn a_flow_with_an_alert_is_written_from_its_start() {
        let alert =
            WireFacts { has_alert: true, flow_has_alert: true, flow_packets: 3, ..facts_of(1) };
        let mut log = packet_log(settings(PacketChoice::Flows { after: 1 }, 1 << 20));
        let out = run(
            &mut log,
            &[facts_of(1), facts_of(2), facts_of(1), alert, facts_of(2), facts_of(1), facts_of(1)],
        );
        assert_eq!(out, [0, 2, 3, 5]);
        assert_eq!(log.missing, 0);
        assert_eq!(log.ledger().shed_for(ShedReason::NoAlert).items, 3);
    }

    #[test]
    fn flows_beyond_the_limit_are_not_followed_and_counted() {
        let mut log = packet_log(settings(PacketChoice::Flows { after: 1 }, 1 << 20));
        for flow in 0..crate::limits::FOLLOWED_FLOWS_MAX as u64 + 3 {
            log.follows(Some(flow), true, 1);
            log.follows(Some(0), true, 1);
        }
        assert_eq!(
            gabion_record::limits::take_reached().times_reached(&reached::FOLLOWED_FLOWS_MAX),
            3
        );
    }

    #[test]
    fn a_ring_too_small_says_what_it_lost() {
        let alert =
            WireFacts { has_alert: true, flow_has_alert: true, flow_packets: 5, ..facts_of(1) };
        // Room for two frames of one byte.
        let mut log = packet_log(settings(PacketChoice::Flows { after: 0 }, 2 * 15));
        let out = run(&mut log, &[facts_of(1), facts_of(1), facts_of(1), facts_of(1), alert]);
        assert_eq!(out, [2, 3, 4]);
        assert_eq!(log.missing, 2);
        assert_eq!(log.ledger().shed_for(ShedReason::RingEvicted).items, 2);
    }

    #[test]
    fn conditions_of_suricata() {
        let none = WireFacts { has_segment: false, ..facts_of(1) };
        let alert = WireFacts { has_alert: true, flow_has_alert: true, ..none };
        let after = WireFacts { flow_has_alert: true, ..none };
        let mut log = packet_log(settings(PacketChoice::Alerts, 1 << 20));
        assert_eq!(run(&mut log, &[none, facts_of(1), none, alert, after]), [1, 3, 4]);
        let tagged = WireFacts { is_tagged: true, ..none };
        let mut log = packet_log(settings(PacketChoice::Tagged, 1 << 20));
        assert_eq!(run(&mut log, &[facts_of(1), tagged, after]), [0, 1]);
        let passed = WireFacts { is_passed: true, ..none };
        let mut log = packet_log(settings(PacketChoice::All, 0));
        assert_eq!(run(&mut log, &[none, passed, WireFacts::default()]), [0, 2]);
    }

    #[test]
    fn the_ring_may_wrap_anywhere() {
        for bytes in 15..200 {
            let mut log = packet_log(settings(PacketChoice::Flows { after: 0 }, bytes));
            let mut facts = vec![facts_of(1); 40];
            facts.push(WireFacts { has_alert: true, flow_packets: 41, ..facts_of(1) });
            let out = run(&mut log, &facts);
            let kept = bytes / 15;
            assert_eq!(out, (40 - kept as u8..41).collect::<Vec<_>>(), "{bytes}");
        }
    }
}

//! One flow: its two sides, times, tallies, state, and the state that other crates attach to it.

use super::key::{FlowKey, PacketKey};
use crate::policy::ExceptionTrigger;
use crate::tcp::TcpSession;
use gabion_record::flow_state::FlowState;
use gabion_record::{Addr, Direction, IpProto};

/// One side of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Side {
    /// Address.
    pub addr: Addr,
    /// Port; 0 without ports.
    pub port: u16,
}

/// Totals of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DirectionTally {
    /// Packets.
    pub pkts: u64,
    /// Bytes of these packets as the caller counts them (Suricata counts frame lengths).
    pub bytes: u64,
    /// Smallest TTL or hop limit; 0 before the first packet.
    pub min_ttl: u8,
    /// Largest TTL or hop limit.
    pub max_ttl: u8,
}

/// Type and code of an ICMP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpKind {
    /// Type.
    pub icmp_type: u8,
    /// Code.
    pub code: u8,
}

/// A flow. `T` is the engine's own state.
#[derive(Debug)]
pub struct Flow<T> {
    /// Id of the flow: a function of its key and start, below 2^53.
    pub id: u64,
    /// The side that opened it.
    pub client: Side,
    /// The other side.
    pub server: Side,
    /// IP protocol.
    pub proto: IpProto,
    /// 4 or 6.
    pub ip_version: u8,
    /// Layers of encapsulation.
    pub recursion: u8,
    /// The interface of the first packet, 0 for the first.
    pub device: u16,
    /// VLAN tags as in [`crate::PacketKey`].
    pub vlan: [u16; 3],
    /// Event time of the first packet, nanoseconds since 1970.
    pub start_ns: u64,
    /// Event time of the last packet.
    pub last_ns: u64,
    /// The clock at the last packet: timeouts count from it.
    pub seen_ns: u64,
    /// Number of the first packet in the input.
    pub first_number: u64,
    /// Totals by [`Direction::index`].
    pub seen: [DirectionTally; 2],
    /// The flow's state.
    pub state: FlowState,
    /// Set by the engine when it bypasses the flow; the state then stays [`FlowState::Bypassed`].
    pub icmp_request: Option<IcmpKind>,
    /// The answer's type and code.
    pub icmp_response: Option<IcmpKind>,
    /// Flow of the tunnel packet that contained this flow's first packet.
    pub parent_id: Option<u64>,
    /// Limits reached on this flow: bits of [`ExceptionTrigger::bit`].
    pub exceptions: u8,
    /// Directions in which the sender itself was seen, by [`Direction::index`]; ICMP errors are
    /// counted in `seen` but do not show that a side is active.
    pub alive: [bool; 2],
    /// Client and server were swapped after the first packet.
    pub is_reversed: bool,
    /// The TCP session, once the tracker has created one.
    pub tcp: Option<Box<TcpSession>>,
    /// The engine's own state.
    pub ext: T,
    pub(crate) key: FlowKey,
    pub(crate) hash: u64,
    pub(crate) client_is_high: bool,
}

impl<T> Flow<T> {
    /// Whether packets of both directions were seen.
    #[inline]
    pub fn is_two_way(&self) -> bool {
        self.alive[0] && self.alive[1]
    }

    /// Whether the sender of a direction was seen.
    #[inline]
    pub fn has_seen(&self, dir: Direction) -> bool {
        self.alive[dir.index()]
    }

    /// The security parameter index of an ESP flow.
    pub fn spi(&self) -> Option<u32> {
        (self.proto == IpProto::ESP).then(|| self.key.spi(self.client_is_high))
    }

    /// The sending side of a direction.
    pub fn source(&self, dir: Direction) -> Side {
        match dir {
            Direction::ToServer => self.client,
            Direction::ToClient => self.server,
        }
    }

    /// Notes that a limit was reached on this flow.
    pub fn note_exception(&mut self, trigger: ExceptionTrigger) {
        self.exceptions |= trigger.bit();
    }

    /// Whether a limit was reached on this flow.
    pub fn has_exception(&self, trigger: ExceptionTrigger) -> bool {
        self.exceptions & trigger.bit() != 0
    }

    /// Swaps client and server and all that is counted by direction: a flow picked up in the middle
    /// turned out to run the other way. The TCP session is swapped too.
    pub fn swap_directions(&mut self) {
        std::mem::swap(&mut self.client, &mut self.server);
        self.seen.swap(0, 1);
        self.alive.swap(0, 1);
        self.client_is_high = !self.client_is_high;
        self.is_reversed = !self.is_reversed;
        if let Some(tcp) = &mut self.tcp {
            tcp.swap_directions();
        }
    }

    /// Event time since the start, whole seconds.
    pub fn age_s(&self) -> u64 {
        (self.last_ns / 1_000_000_000).saturating_sub(self.start_ns / 1_000_000_000)
    }

    pub(crate) fn new(
        key: &PacketKey,
        canonical: (FlowKey, bool),
        hash: u64,
        first: &super::PacketFacts,
        salt: u64,
        ext: T,
    ) -> Flow<T> {
        let (flow_key, swapped) = canonical;
        let is_icmp = matches!(key.proto, IpProto::ICMP | IpProto::ICMPV6);
        let port = |p: u16| if key.has_ports() { p } else { 0 };
        Flow {
            id: flow_key.id(first.ts_ns, swapped, salt),
            client: Side { addr: key.src, port: port(key.sport) },
            server: Side { addr: key.dst, port: port(key.dport) },
            proto: key.proto,
            ip_version: key.ip_version,
            recursion: key.recursion,
            device: key.device,
            vlan: key.vlan,
            start_ns: first.ts_ns,
            last_ns: first.ts_ns,
            seen_ns: first.clock_ns,
            first_number: first.number,
            seen: [DirectionTally::default(); 2],
            state: FlowState::New,
            icmp_request: is_icmp.then(|| icmp_kind(key)),
            icmp_response: None,
            parent_id: None,
            exceptions: 0,
            alive: [false; 2],
            is_reversed: false,
            tcp: None,
            ext,
            key: flow_key,
            hash,
            client_is_high: swapped,
        }
    }

    /// Its VLAN ids, outermost first, and how many of them there are.
    pub fn vlan_ids(&self) -> ([u16; 3], usize) {
        let count = self.vlan.iter().filter(|tag| **tag != 0).count();
        (self.vlan.map(|tag| tag & !crate::packet_key::VLAN_TAG), count)
    }

    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&mut self, dir: Direction, key: &PacketKey, packet: &super::PacketFacts) {
        self.last_ns = self.last_ns.max(packet.ts_ns);
        self.seen_ns = self.seen_ns.max(packet.clock_ns);
        let seen = &mut self.seen[dir.index()];
        if seen.pkts == 0 {
            seen.min_ttl = packet.ttl;
            seen.max_ttl = packet.ttl;
        } else {
            seen.min_ttl = seen.min_ttl.min(packet.ttl);
            seen.max_ttl = seen.max_ttl.max(packet.ttl);
        }
        seen.pkts += 1;
        seen.bytes += u64::from(packet.bytes);
        if key.is_icmp_error() {
            return;
        }
        if dir == Direction::ToClient && self.icmp_request.is_some() && !self.alive[1] {
            self.icmp_response = Some(icmp_kind(key));
        }
        self.alive[dir.index()] = true;
        if self.state == FlowState::New && self.proto != IpProto::TCP && self.is_two_way() {
            self.state = FlowState::Established;
        }
    }
}

fn icmp_kind(key: &PacketKey) -> IcmpKind {
    IcmpKind { icmp_type: key.icmp_type(), code: key.icmp_code() }
}

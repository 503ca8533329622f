//! Conditions on the packet and its flow.

use crate::flow_state::NetFlow;
use crate::state::SharedState;
use crate::view::PacketView;
use gabion_flow::{Flow, TcpSession};
use gabion_packet::{
    Decoded, ExtHeaders, Flags, IpOptions, Network, TcpOptions, TransportHeader, checksum,
};
use gabion_record::Direction;
use gabion_record::applayer::ProtoId;
use gabion_rules::compiled::buffer::IntegerMatch;
use gabion_rules::compiled::packet::*;

/// The one ICMPv6 type with an MTU (RFC 4443 section 3.2).
const PACKET_TOO_BIG: u8 = 2;

fn bits(value: u8, wanted: u8, op: BitsOp) -> bool {
    match op {
        BitsOp::Exactly => value == wanted,
        BitsOp::AtLeast => value & wanted == wanted,
        BitsOp::AnyOf => value & wanted != 0,
        BitsOp::NotThese => value & wanted != wanted,
    }
}

/// Whether `flow:` conditions hold.
pub(crate) fn flow_matches(t: &FlowTest, p: &PacketView<'_>, has_flow: bool) -> bool {
    if t.established && !p.is_established || t.not_established && p.is_established {
        return false;
    }
    // Suricata 8.0.7 never finds both at once.
    if t.not_established && t.stateless {
        return false;
    }
    // A packet without a flow counts as one to the server.
    let direction = p.direction.unwrap_or(Direction::ToServer);
    if (t.to_server && direction != Direction::ToServer)
        || (t.to_client && direction != Direction::ToClient)
    {
        return false;
    }
    if (t.established || t.not_established || t.stateless || t.no_frag) && !has_flow {
        return false;
    }
    let is_rebuilt = p.headers.flags.has(Flags::REASSEMBLED);
    !(t.only_frag && !is_rebuilt || t.no_frag && is_rebuilt)
}

/// Whether the variable was captured, and holds what it must.
pub(crate) fn variable_matches(t: &VariableTest, captured: &[(u32, Vec<u8>)]) -> bool {
    let mut of_name = captured.iter().filter(|(name, _)| *name == t.name);
    of_name.any(|(_, text)| memchr::memmem::find(text, &t.value).is_some())
}

/// Whether one condition holds.
pub(crate) fn matches(
    c: &PacketCondition,
    p: &PacketView<'_>,
    flow: Option<&Flow<NetFlow>>,
    session: Option<&TcpSession>,
    shared: &SharedState,
) -> bool {
    let h = p.headers;
    let tcp = || h.transport.tcp();
    let icmp = || h.transport.icmp();
    match c {
        PacketCondition::Flow(t) => flow_matches(t, p, flow.is_some()),
        PacketCondition::TcpFlags(t) => {
            tcp().is_some_and(|x| bits(x.flags & !t.ignored, t.flags & !t.ignored, t.op))
        }
        PacketCondition::TcpSeq(n) => tcp().is_some_and(|x| x.seq == *n),
        PacketCondition::TcpAck(n) => tcp().is_some_and(|x| x.ack == *n),
        PacketCondition::TcpWindow { size, negated } => {
            tcp().is_some_and(|x| (x.window == *size) != *negated)
        }
        PacketCondition::TcpMss(m) => tcp()
            .is_some_and(|x| x.options.has(TcpOptions::MSS) && m.matches(u64::from(x.options.mss))),
        PacketCondition::TcpWscale(m) => tcp().is_some_and(|x| {
            x.options.has(TcpOptions::WINDOW_SCALE) && m.matches(u64::from(x.options.window_scale))
        }),
        PacketCondition::TcpSession(phases) => tcp_session(phases, session),
        PacketCondition::Ttl(m) => h.is_ip() && m.matches(u64::from(h.ttl)),
        PacketCondition::Tos { value, negated } => {
            h.network == Network::Ipv4 && (h.tos == *value) != *negated
        }
        PacketCondition::IpId(n) => h.network == Network::Ipv4 && h.ip_id == u32::from(*n),
        PacketCondition::IpOption(o) => {
            h.network == Network::Ipv4 && h.ip_options.any_of(ip_option(*o))
        }
        PacketCondition::FragBits(t) => {
            let mut v = 0;
            for (flag, bit) in [
                (Flags::RESERVED_FRAGMENT_BIT, 4),
                (Flags::DONT_FRAGMENT, 2),
                (Flags::MORE_FRAGMENTS, 1),
            ] {
                if h.flags.has(flag) {
                    v |= bit;
                }
            }
            h.network == Network::Ipv4 && bits(v, t.bits, t.op)
        }
        PacketCondition::FragOffset { op, value } => {
            // Suricata 8.0.7 compares units of eight bytes in IPv4, bytes in IPv6, where the header of fragments must be there.
            let (is_there, v) = match p.version() {
                6 => (h.ext.has(ExtHeaders::FRAGMENT), h.fragment_offset),
                _ => (h.is_ip(), h.fragment_offset / 8),
            };
            is_there
                && match op {
                    FragOffsetOp::Equal => v == *value,
                    FragOffsetOp::Less => v < *value,
                    FragOffsetOp::Greater => v > *value,
                }
        }
        PacketCondition::SameIp => h.is_ip() && h.src == h.dst,
        PacketCondition::IpProto { op, proto } => {
            h.is_ip()
                && match op {
                    IpProtoOp::Equal => h.proto.0 == *proto,
                    IpProtoOp::Differs => h.proto.0 != *proto,
                    IpProtoOp::Less => h.proto.0 < *proto,
                    IpProtoOp::Greater => h.proto.0 > *proto,
                }
        }
        PacketCondition::L3Proto(l) => match l {
            L3Proto::Ipv4 => p.version() == 4,
            L3Proto::Ipv6 => p.version() == 6,
            L3Proto::Ip => h.is_ip(),
        },
        PacketCondition::IcmpType(m) => icmp().is_some_and(|i| m.matches(u64::from(i.kind))),
        PacketCondition::IcmpCode(m) => icmp().is_some_and(|i| m.matches(u64::from(i.code))),
        PacketCondition::IcmpId(n) => icmp().is_some_and(|i| i.has_id && i.id == *n),
        PacketCondition::IcmpSeq(n) => icmp().is_some_and(|i| i.has_id && i.seq == *n),
        PacketCondition::Icmpv6Mtu(m) => {
            matches!(&h.transport, TransportHeader::Icmpv6(i)
                if i.kind == PACKET_TOO_BIG && m.matches(u64::from(i.mtu)))
        }
        PacketCondition::Dsize(m) => !p.is_pseudo && m.matches(p.payload.len() as u64),
        PacketCondition::VlanId { layer, id } => vlan_id(h.vlan_ids(), *layer, *id),
        PacketCondition::VlanLayers(m) => m.matches(u64::from(h.vlan_count)),
        PacketCondition::StreamSize { side, size } => stream_size(*side, *size, session),
        PacketCondition::FlowAge(m) => flow.is_some_and(|f| m.matches(f.age_s())),
        PacketCondition::FlowPackets(side, m) => {
            flow.is_some_and(|f| sided(*side, *m, [f.seen[0].pkts, f.seen[1].pkts]))
        }
        PacketCondition::FlowBytes(side, m) => {
            flow.is_some_and(|f| sided(*side, *m, [f.seen[0].bytes, f.seen[1].bytes]))
        }
        PacketCondition::Flowbits(t) => {
            // One of several is enough for `isnotset`, too (Suricata 8.0.7).
            flow.is_some_and(|f| t.bits.iter().any(|b| f.ext.vars.has_bit(*b) == t.isset))
        }
        PacketCondition::Flowint(t) => flow.is_some_and(|f| f.ext.vars.flowint_matches(t)),
        PacketCondition::Xbits(t) => shared.xbit_matches(t, h, p.ts_ns),
        PacketCondition::Hostbits(t) => shared.hostbit_matches(t, h, p.ts_ns),
        PacketCondition::IpReputation(t) => shared.reputation_matches(t, h),
        PacketCondition::Rpc(t) => rpc(t, h, p.payload),
        PacketCondition::AppProtocol(t) => flow.is_some_and(|f| app_protocol(t, f, p.direction)),
        PacketCondition::DecodeEvent(event) => h.events.contains(*event),
        PacketCondition::StreamEvent(event) => p.stream_events.contains(event),
        // Suricata does not look at those of its pseudo packets.
        PacketCondition::DetectionEvent(event) => {
            !p.is_pseudo && p.detection_events.contains(event)
        }
        PacketCondition::Checksum { of, valid } => !p.is_pseudo && checksum_matches(*of, *valid, p),
        PacketCondition::GeoIp(t) => shared.country_matches(t, h),
        PacketCondition::Variable(t) => {
            let texts = flow.map_or(&[][..], |f| &f.ext.vars.texts);
            !t.of_packet && variable_matches(t, texts)
        }
        // Scripts run after all other conditions hold.
        PacketCondition::Lua { .. } => true,
    }
}

fn tcp_session(phases: &TcpPhases, session: Option<&TcpSession>) -> bool {
    use gabion_flow::TcpState as S;
    let Some(tcp) = session else { return phases.setup };
    match tcp.state() {
        S::None | S::SynSent | S::SynRecv => phases.setup,
        S::Established => phases.established,
        _ => phases.closing,
    }
}

fn ip_option(o: IpOption) -> IpOptions {
    match o {
        IpOption::RecordRoute => IpOptions::RECORD_ROUTE,
        IpOption::LooseSourceRoute | IpOption::LooseSourceRouteExtended => IpOptions::LOOSE_ROUTE,
        IpOption::EndOfList => IpOptions::EOL,
        IpOption::Nop => IpOptions::NOP,
        IpOption::Timestamp => IpOptions::TIMESTAMP,
        IpOption::Security => IpOptions::SECURITY,
        IpOption::StrictSourceRoute => IpOptions::STRICT_ROUTE,
        IpOption::StreamId => IpOptions::STREAM_ID,
        IpOption::ExtendedSecurity => IpOptions::EXTENDED_SECURITY,
        IpOption::Cipso => IpOptions::CIPSO,
        IpOption::QuickStart => IpOptions::QUICK_START,
        IpOption::RouterAlert => IpOptions::ROUTER_ALERT,
        IpOption::Any => IpOptions(0xffff),
    }
}

fn vlan_id(ids: &[u16], layer: VlanLayer, m: IntegerMatch) -> bool {
    match layer {
        VlanLayer::Any => ids.iter().any(|v| m.matches(u64::from(*v))),
        VlanLayer::All => !ids.is_empty() && ids.iter().all(|v| m.matches(u64::from(*v))),
        VlanLayer::At(n) => {
            let at = if n < 0 { ids.len() as i64 + i64::from(n) } else { i64::from(n) };
            usize::try_from(at)
                .ok()
                .and_then(|i| ids.get(i))
                .is_some_and(|v| m.matches(u64::from(*v)))
        }
    }
}

fn stream_size(side: StreamSide, m: IntegerMatch, session: Option<&TcpSession>) -> bool {
    let Some(tcp) = session else { return false };
    let client = m.matches(tcp.stream(Direction::ToServer).used_numbers());
    let server = m.matches(tcp.stream(Direction::ToClient).used_numbers());
    match side {
        StreamSide::Client => client,
        StreamSide::Server => server,
        StreamSide::Both => client && server,
        StreamSide::Either => client || server,
    }
}

fn sided(side: FlowSide, m: IntegerMatch, v: [u64; 2]) -> bool {
    match side {
        FlowSide::ToServer => m.matches(v[0]),
        FlowSide::ToClient => m.matches(v[1]),
        FlowSide::Either => m.matches(v[0]) || m.matches(v[1]),
    }
}

/// `rpc`: program, version and procedure of an ONC RPC call (RFC 5531) in the payload.
fn rpc(t: &RpcTest, h: &Decoded, payload: &[u8]) -> bool {
    // Over TCP a record mark of four bytes precedes the message.
    let at = if matches!(h.transport, TransportHeader::Tcp(_)) { 4 } else { 0 };
    let word = |i: usize| -> Option<u32> {
        payload.get(at + 4 * i..)?.first_chunk::<4>().map(|b| u32::from_be_bytes(*b))
    };
    if word(1) != Some(0) || word(2) != Some(2) {
        return false;
    }
    let is = |wanted: Option<u32>, got: Option<u32>| wanted.is_none() || wanted == got;
    is(t.program, word(3)) && is(t.version, word(4)) && is(t.procedure, word(5))
}

fn app_protocol(t: &AppProtocolTest, f: &Flow<NetFlow>, dir: Option<Direction>) -> bool {
    let app = &f.ext.app;
    let has = |p: ProtoId| t.protocols.contains(&p);
    // While no protocol is known only `unknown` matches, and `!unknown` never does.
    let ask = |p: ProtoId| match p {
        ProtoId::UNKNOWN => has(p) && !t.negated,
        p => has(p) != t.negated && !(t.negated && has(ProtoId::UNKNOWN)),
    };
    match t.mode {
        AppProtocolMode::Direction => match dir {
            Some(d) => ask(app.proto_in(d)),
            None => ask(app.proto),
        },
        AppProtocolMode::Final => ask(app.proto),
        AppProtocolMode::Original => ask(app.original),
        AppProtocolMode::Either => {
            let sides = Direction::BOTH.map(|d| app.proto_in(d));
            let is_one_known = sides.iter().any(|p| *p != ProtoId::UNKNOWN);
            if t.negated {
                is_one_known && !has(ProtoId::UNKNOWN) && !sides.iter().any(|p| has(*p))
            } else {
                sides.iter().any(|p| has(*p))
            }
        }
        AppProtocolMode::ToServer => ask(app.proto_in(Direction::ToServer)),
        AppProtocolMode::ToClient => ask(app.proto_in(Direction::ToClient)),
    }
}

fn checksum_matches(of: ChecksumOf, valid: bool, p: &PacketView<'_>) -> bool {
    let (h, frame) = (p.headers, p.frame);
    let v = h.ip_version();
    let ok = match of {
        ChecksumOf::Ipv4 => checksum::ipv4_ok(h, frame),
        ChecksumOf::TcpV4 if v == 4 => checksum::tcp_ok(h, frame),
        ChecksumOf::TcpV6 if v == 6 => checksum::tcp_ok(h, frame),
        ChecksumOf::UdpV4 if v == 4 => checksum::udp_ok(h, frame),
        ChecksumOf::UdpV6 if v == 6 => checksum::udp_ok(h, frame),
        ChecksumOf::IcmpV4 => checksum::icmpv4_ok(h, frame),
        ChecksumOf::IcmpV6 => checksum::icmpv6_ok(h, frame),
        ChecksumOf::TcpV4 | ChecksumOf::TcpV6 | ChecksumOf::UdpV4 | ChecksumOf::UdpV6 => None,
    };
    ok.is_some_and(|ok| (ok || p.ignores_checksums) == valid)
}

//! A packet in the words of the room of flows: the key it is looked up by, the ends of its flow, the
//! segment that its TCP header makes.

use crate::flow_state::NetFlow;
use crate::view::PacketView;
use gabion_flow::{Flow, PacketKey, TcpOptions as SegmentOptions, TcpSegment};
use gabion_packet::{Decoded, TcpOptions, Transport, checksum};
use gabion_proto::Endpoints;

/// What a packet is looked up by.
pub fn packet_key(d: &Decoded) -> PacketKey {
    let key = PacketKey {
        src: d.src,
        dst: d.dst,
        sport: d.sp,
        dport: d.dp,
        proto: d.proto,
        ip_version: d.ip_version(),
        vlan: d.vlans,
        recursion: d.depth,
    };
    match &d.transport {
        Transport::Icmpv4(i) | Transport::Icmpv6(i) => key.with_icmp(i.kind, i.code),
        Transport::Esp(esp) => key.with_spi(esp.spi),
        _ => key,
    }
}

/// What the packet that an ICMP error quotes is looked up by.
pub(crate) fn quoted_key(d: &Decoded, q: &gabion_packet::Quoted) -> PacketKey {
    let key = PacketKey {
        src: q.src,
        dst: q.dst,
        sport: q.sp,
        dport: q.dp,
        proto: q.proto,
        ip_version: q.version,
        vlan: d.vlans,
        recursion: d.depth,
    };
    if matches!(q.proto, 1 | 58) { key.with_icmp(q.icmp[0], q.icmp[1]) } else { key }
}

/// The ends of a flow as parsers know them.
pub(crate) fn endpoints(flow: &Flow<NetFlow>) -> Endpoints {
    Endpoints {
        ip_version: flow.ip_version,
        client: flow.client.addr,
        server: flow.server.addr,
        client_port: flow.client.port,
        server_port: flow.server.port,
        is_tcp: flow.proto == 6,
    }
}

/// A TCP packet as the tracker wants it.
pub(crate) fn segment<'a>(view: &PacketView<'a>, checksums: bool) -> Option<TcpSegment<'a>> {
    let d = view.headers;
    let t = d.transport.tcp()?;
    let header = d.transport_header(view.frame);
    let sack = match t.options.has(TcpOptions::SACK) {
        true => {
            let at = usize::from(t.options.sack_at);
            header.get(at..at + 8 * usize::from(t.options.sack_blocks)).unwrap_or(&[])
        }
        false => &[],
    };
    Some(TcpSegment {
        seq: t.seq,
        ack: t.ack,
        flags: t.flags,
        window: t.window,
        urgent_pointer: t.urgent,
        options: SegmentOptions {
            ts_val: t.options.has(TcpOptions::TIMESTAMP).then_some(t.options.ts_value),
            ts_ecr: t.options.ts_echo,
            wscale: t.options.has(TcpOptions::WINDOW_SCALE).then_some(t.options.window_scale),
            sack_ok: t.options.has(TcpOptions::SACK_OK),
            sack,
            fast_open: t.options.has(TcpOptions::FAST_OPEN),
            signed: t.options.has(TcpOptions::MD5) || t.options.has(TcpOptions::AUTH),
        },
        payload: view.payload,
        ts_ns: view.ts_ns,
        checksum_ok: !checksums
            || view.ignores_checksums
            || checksum::tcp_ok(d, view.frame) != Some(false),
        src: d.src,
        dst: d.dst,
        ip_version: d.ip_version(),
        number: view.number,
    })
}

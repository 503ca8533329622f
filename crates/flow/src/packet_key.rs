//! The key by which a decoded packet is looked up.

use crate::PacketKey;
use gabion_packet::{Decoded, Quoted, TransportHeader};
use gabion_record::IpProto;

/// Marks the id of a VLAN tag that is there: a flow is logged with the tags of its first packet, though packets with the
/// id 0 and those without a tag belong to the same one.
pub(crate) const VLAN_TAG: u16 = 0x8000;

#[inline]
fn vlan_tags(d: &Decoded) -> [u16; 3] {
    let mut tags = [0; 3];
    for (tag, id) in tags.iter_mut().zip(d.vlan_ids()) {
        *tag = VLAN_TAG | id;
    }
    tags
}

/// What a packet is looked up by; its interface is not known here.
#[inline]
#[must_use]
pub fn packet_key(d: &Decoded) -> PacketKey {
    let key = PacketKey {
        src: d.src,
        dst: d.dst,
        sport: d.sp,
        dport: d.dp,
        proto: d.proto,
        ip_version: d.ip_version(),
        vlan: vlan_tags(d),
        recursion: d.depth,
        device: 0,
    };
    match &d.transport {
        TransportHeader::Icmpv4(i) | TransportHeader::Icmpv6(i) => key.with_icmp(i.kind, i.code),
        TransportHeader::Esp(esp) => key.with_spi(esp.spi),
        TransportHeader::None
        | TransportHeader::Tcp(_)
        | TransportHeader::Udp(_)
        | TransportHeader::Sctp(_)
        | TransportHeader::Gre(_) => key,
    }
}

/// What the packet that an ICMP error quotes is looked up by; its interface is not known here.
#[must_use]
pub fn quoted_key(d: &Decoded, q: &Quoted) -> PacketKey {
    let key = PacketKey {
        src: q.src,
        dst: q.dst,
        sport: q.sp,
        dport: q.dp,
        proto: q.proto,
        ip_version: q.version,
        vlan: vlan_tags(d),
        recursion: d.depth,
        device: 0,
    };
    if matches!(q.proto, IpProto::ICMP | IpProto::ICMPV6) {
        key.with_icmp(q.icmp[0], q.icmp[1])
    } else {
        key
    }
}

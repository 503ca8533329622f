//! GRE, version 0 (RFC 1701, RFC 2784, RFC 2890) and version 1 (RFC 2637, PPTP).

use crate::counters::Counter;
use crate::decode::{Payload, Run};
use crate::decoded::{Decoded, PacketSource};
use crate::ethernet::ethertype;
use crate::layer::Layer;
use crate::transport::{Gre, TransportHeader};
use gabion_record::DecoderEvent;
use gabion_record::IpProto;

const MIN_LEN: usize = 4;
const PPP: u16 = 0x880b;

/// Bits of the first two bytes.
mod flag {
    pub(super) const CHECKSUM: u16 = 0x8000;
    pub(super) const ROUTING: u16 = 0x4000;
    pub(super) const KEY: u16 = 0x2000;
    pub(super) const SEQUENCE: u16 = 0x1000;
    pub(super) const STRICT_ROUTE: u16 = 0x0800;
    pub(super) const RECURSION: u16 = 0x0700;
    pub(super) const RESERVED_V0: u16 = 0x00f8;
    pub(super) const ACK_V1: u16 = 0x0080;
    pub(super) const RESERVED_V1: u16 = 0x0078;
}

pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    run.counters.count(Counter::Gre);
    p.proto = IpProto::GRE;
    if layer.len() < MIN_LEN {
        p.invalid(DecoderEvent::GrePacketTooSmall);
        return;
    }
    if run.enter_layer(p).is_err() {
        return;
    }
    let mut gre = Gre { flags: layer.be16(0), protocol: layer.be16(2), key: 0 };
    let inside = layer.after(MIN_LEN);
    p.l4 = layer.at;
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    let len = match gre.version() {
        0 => header_len_v0(&gre, layer),
        1 => header_len_v1(&gre, layer),
        _ => Err(DecoderEvent::GreWrongVersion),
    };
    let len = match len {
        Ok(len) => len,
        Err(event) => {
            p.transport = TransportHeader::Gre(gre);
            p.invalid(event);
            return;
        }
    };
    if gre.flags & flag::KEY != 0 {
        let optional = gre.flags & (flag::CHECKSUM | flag::ROUTING) != 0;
        gre.key = layer.be32(if optional { 8 } else { 4 });
    }
    let inside = layer.after(len);
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    p.transport = TransportHeader::Gre(gre);
    let payload = match gre.protocol {
        ethertype::IPV4 => Payload::Ipv4,
        ethertype::IPV6 => Payload::Ipv6,
        ethertype::VLAN => Payload::Vlan,
        ethertype::BRIDGE => Payload::Ethernet,
        ethertype::ARP => Payload::Arp,
        // Type II announces itself by a sequence number; type I has no header of its own.
        ethertype::ERSPAN if gre.flags & flag::SEQUENCE != 0 => Payload::ErspanII,
        ethertype::ERSPAN => Payload::ErspanI,
        PPP => Payload::Ppp,
        _ => return,
    };
    run.tunnel(p, inside, payload, PacketSource::Gre);
}

fn header_len_v0(gre: &Gre, layer: Layer<'_>) -> Result<usize, DecoderEvent> {
    if gre.flags & flag::RECURSION != 0 {
        return Err(DecoderEvent::GreV0Recursion);
    }
    if gre.flags & flag::RESERVED_V0 != 0 {
        return Err(DecoderEvent::GreV0Flags);
    }
    let mut len = MIN_LEN;
    for optional in [flag::KEY, flag::SEQUENCE, flag::CHECKSUM | flag::ROUTING] {
        if gre.flags & optional != 0 {
            len += 4;
        }
    }
    if len > layer.len() {
        return Err(DecoderEvent::GreV0HeaderTooBig);
    }
    if gre.flags & flag::ROUTING != 0 {
        // Route entries: two bytes of address family, an offset, a length; an empty one ends them.
        loop {
            let entry = layer.after(len);
            if entry.len() < 4 {
                return Err(DecoderEvent::GreV0MalformedRoute);
            }
            len += 4;
            if entry.be16(0) == 0 && entry.u8(3) == 0 {
                break;
            }
            len += usize::from(entry.u8(3));
            if len > layer.len() {
                return Err(DecoderEvent::GreV0MalformedRoute);
            }
        }
    }
    Ok(len)
}

fn header_len_v1(gre: &Gre, layer: Layer<'_>) -> Result<usize, DecoderEvent> {
    let refused = [
        (flag::CHECKSUM, DecoderEvent::GreV1Checksum),
        (flag::ROUTING, DecoderEvent::GreV1Route),
        (flag::STRICT_ROUTE, DecoderEvent::GreV1StrictRoute),
        (flag::RECURSION, DecoderEvent::GreV1Recursion),
        (flag::RESERVED_V1, DecoderEvent::GreV1Flags),
    ];
    for (bits, event) in refused {
        if gre.flags & bits != 0 {
            return Err(event);
        }
    }
    if gre.protocol != PPP {
        return Err(DecoderEvent::GreV1WrongProtocol);
    }
    if gre.flags & flag::KEY == 0 {
        return Err(DecoderEvent::GreV1NoKey);
    }
    let mut len = MIN_LEN + 4;
    for optional in [flag::SEQUENCE, flag::ACK_V1] {
        if gre.flags & optional != 0 {
            len += 4;
        }
    }
    if len > layer.len() {
        return Err(DecoderEvent::GreV1HeaderTooBig);
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, events, join};
    use crate::link::Link;

    fn gre(flags: u16, kind: u16, rest: &[u8]) -> Vec<u8> {
        build::ipv4(47, &[], &join(&[&flags.to_be_bytes(), &kind.to_be_bytes(), rest]))
    }

    #[test]
    fn every_payload_is_a_packet_of_its_own() {
        let ip = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let ip6 = build::ipv6(17, &build::udp(1, 2, b"x"));
        let wire = build::ethernet(0x0800, &ip);
        let tagged = join(&[&[0, 5, 8, 0], &ip]);
        let ppp = join(&[&[0xff, 3, 0, 0x21], &ip]);
        let erspan = join(&[&[0x10, 5, 0, 0, 0, 0, 0, 0], &wire]);
        let word = [0u8; 4];
        let route = join(&[&word, &[0, 9, 0, 4, 1, 2, 3, 4, 0, 0, 0, 0], &ip]);
        let cases: Vec<(u16, u16, Vec<u8>, &[u16])> = vec![
            (0, 0x0800, ip.clone(), &[]),
            (0, 0x86dd, ip6, &[]),
            (0x2000, 0x0800, join(&[&word, &ip]), &[]),
            (0x8000, 0x0800, join(&[&word, &ip]), &[]),
            (0xb000, 0x0800, join(&[&word, &word, &word, &ip]), &[]),
            (0x4000, 0x0800, route, &[]),
            (0, 0x8100, tagged, &[5]),
            (0, 0x6558, wire.clone(), &[]),
            (0, 0x88be, wire, &[]),
            (0x1000, 0x88be, join(&[&word, &erspan]), &[5]),
            (0x2001, 0x880b, join(&[&word, &ppp]), &[]),
            (0x3081, 0x880b, join(&[&word, &word, &word, &ppp]), &[]),
        ];
        for (flags, kind, rest, vlans) in cases {
            let packet = gre(flags, kind, &rest);
            let (set, _) = build::run(Link::Raw, &packet);
            let [inner] = set.inner() else { panic!("{flags:x} {kind:x}: one packet inside") };
            assert_eq!(inner.payload(&packet), b"x", "{flags:x} {kind:x}");
            assert_eq!((inner.source.name(), inner.vlan_ids()), ("gre tunnel", vlans));
            assert!(matches!(set.root().transport, TransportHeader::Gre(_)));
        }
    }

    #[test]
    fn odd_headers_raise_events() {
        let cases: Vec<(Vec<u8>, &str)> = vec![
            (build::ipv4(47, &[], &[0; 3]), "gre.pkt_too_small"),
            (gre(2, 0x0800, &[]), "gre.wrong_version"),
            (gre(0x0100, 0x0800, &[]), "gre.version0_recur"),
            (gre(0x0008, 0x0800, &[]), "gre.version0_flags"),
            (gre(0x2000, 0x0800, &[0; 3]), "gre.version0_hdr_too_big"),
            (gre(0x4000, 0x0800, &[0; 7]), "gre.version0_malformed_sre_hdr"),
            (gre(0x4000, 0x0800, &[0, 0, 0, 0, 0, 1, 0, 9]), "gre.version0_malformed_sre_hdr"),
            (gre(0xa001, 0x880b, &[0; 4]), "gre.version1_chksum"),
            (gre(0x6001, 0x880b, &[0; 4]), "gre.version1_route"),
            (gre(0x2801, 0x880b, &[0; 4]), "gre.version1_ssr"),
            (gre(0x2101, 0x880b, &[0; 4]), "gre.version1_recur"),
            (gre(0x2009, 0x880b, &[0; 4]), "gre.version1_flags"),
            (gre(0x2001, 0x0800, &[0; 4]), "gre.version1_wrong_protocol"),
            (gre(0x0001, 0x880b, &[0; 4]), "gre.version1_no_key"),
            (gre(0x3001, 0x880b, &[0; 4]), "gre.version1_hdr_too_big"),
        ];
        for (packet, event) in cases {
            let p = build::raw(&packet);
            assert_eq!(events(&p), [event]);
            assert_eq!(p.proto, IpProto::GRE);
        }
    }
}

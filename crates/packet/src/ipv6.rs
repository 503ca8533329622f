//! IPv6 (RFC 8200): header, extension headers, and what they lead to.

use crate::counters::Counter;
use crate::decode::{Outcome, Payload, Reject, Run};
use crate::decoded::{Decoded, ExtHeaders, Flags, Network, PacketSource};
use crate::ipv4;
use crate::layer::Layer;
use crate::limits::MAX_IP_LEN;
use crate::{gre, icmp, tcp, udp};
use gabion_record::DecoderEvent;
use gabion_record::{Addr, IpProto};

/// Bytes of the fixed header.
pub(crate) const HEADER_LEN: usize = 40;

/// The header, then extension headers and what they carry; a fragment ends here.
#[inline]
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Ipv6);
    run.enter_layer(p)?;
    let inside = decode_header(p, layer)?;
    match p.proto {
        IpProto::TCP => tcp::decode(run, p, inside),
        IpProto::UDP => udp::decode(run, p, inside),
        IpProto::ICMPV6 => icmp::decode_v6(run, p, inside),
        IpProto::SCTP => udp::decode_sctp(run, p, inside),
        IpProto::GRE => gre::decode(run, p, inside),
        IpProto::IPV4 => decode_ipv4_inside(run, p, inside),
        IpProto::IPV6 => decode_ipv6_inside(run, p, inside),
        IpProto::ICMP => p.event(DecoderEvent::Ipv6Icmpv4),
        IpProto::HOP_BY_HOP
        | IpProto::ROUTING
        | IpProto::FRAGMENT
        | IpProto::NONE
        | IpProto::DESTINATION
        | IpProto::AUTH
        | IpProto::ESP
        | IpProto::MOBILITY
        | IpProto::HIP
        | IpProto::SHIM6 => decode_extensions(run, p, inside),
        _ => p.event(DecoderEvent::Ipv6UnknownNextHeader),
    }
    Ok(())
}

#[inline]
fn decode_header<'a>(p: &mut Decoded, layer: Layer<'a>) -> Result<Layer<'a>, Reject> {
    let Some(header) = layer.data.first_chunk::<HEADER_LEN>() else {
        // Suricata raises no event here: `ipv6.pkt_too_small` never occurs.
        return Err(Reject);
    };
    if header[0] >> 4 != 6 {
        p.invalid(DecoderEvent::Ipv6WrongVersion);
        return Err(Reject);
    }
    let payload_len = u16::from_be_bytes([header[4], header[5]]);
    let inside = layer.after(HEADER_LEN);
    if inside.len() < usize::from(payload_len) {
        p.invalid(DecoderEvent::Ipv6Truncated);
        return Err(Reject);
    }
    let is_jumbo = payload_len == 0 && inside.len() > MAX_IP_LEN;
    let inside = if is_jumbo { inside } else { inside.first(usize::from(payload_len)) };
    let (src, dst) = header[8..].split_at(16);
    p.network = Network::Ipv6;
    p.l3 = layer.at;
    p.tos = header[0] << 4 | header[1] >> 4;
    p.ip_len = payload_len;
    p.ip_header_len = HEADER_LEN as u16;
    p.proto = IpProto(header[6]);
    p.ttl = header[7];
    p.src = address(src);
    p.dst = address(dst);
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    Ok(inside)
}

fn address(bytes: &[u8]) -> Addr {
    bytes.first_chunk::<16>().map_or(Addr([0; 16]), |bytes| Addr::v6(*bytes))
}

fn decode_ipv4_inside(run: &mut Run<'_>, p: &mut Decoded, inside: Layer<'_>) {
    p.flags.set(Flags::WANTS_FLOW);
    if inside.len() < ipv4::MIN_LEN {
        p.invalid(DecoderEvent::Ipv4InIpv6TooSmall);
    } else if inside.u8(0) >> 4 != 4 {
        p.event(DecoderEvent::Ipv4InIpv6WrongVersion);
    } else if run.tunnel(p, inside, Payload::Ipv4, PacketSource::Ipv6) {
        run.counters.count(Counter::Ipv4InIpv6);
    }
}

fn decode_ipv6_inside(run: &mut Run<'_>, p: &mut Decoded, inside: Layer<'_>) {
    p.flags.set(Flags::WANTS_FLOW);
    if inside.len() < HEADER_LEN {
        p.invalid(DecoderEvent::Ipv6InIpv6TooSmall);
    } else if inside.u8(0) >> 4 != 6 {
        p.event(DecoderEvent::Ipv6InIpv6WrongVersion);
    } else if run.tunnel(p, inside, Payload::Ipv6, PacketSource::Ipv6) {
        run.counters.count(Counter::Ipv6InIpv6);
    }
}

/// Walks the extension headers from the one `p.proto` names. The walk moves at least eight bytes
/// each time, so it ends with the packet. The payload begins after the last header walked;
/// `p.proto` keeps the value of the fixed header unless a transport is found, as in Suricata.
#[cold]
fn decode_extensions(run: &mut Run<'_>, p: &mut Decoded, inside: Layer<'_>) {
    let mut rest = inside;
    let mut next = p.proto;
    // Offset of the byte that held `next`: in the fixed header at first.
    let mut next_at = p.l3.wrapping_add(6);
    let mut seen = Seen::default();
    loop {
        p.ip_header_len = (HEADER_LEN + (inside.len() - rest.len())) as u16;
        p.payload = rest.at;
        p.payload_len = rest.len() as u32;
        if next == IpProto::NONE {
            if rest.len() > 0 {
                p.event(DecoderEvent::Ipv6DataAfterNone);
            }
            return;
        }
        if rest.len() < 2 {
            p.invalid(DecoderEvent::Ipv6ExtTruncated);
            return;
        }
        let len = match next {
            IpProto::ROUTING | IpProto::MOBILITY | IpProto::HIP | IpProto::SHIM6 => {
                8 + usize::from(rest.u8(1)) * 8
            }
            IpProto::HOP_BY_HOP | IpProto::DESTINATION => (usize::from(rest.u8(1)) + 1) * 8,
            IpProto::FRAGMENT | IpProto::ESP => 8,
            IpProto::AUTH => 12 + usize::from(rest.u8(1)).saturating_sub(1) * 4,
            other => return decode_after_extensions(run, p, rest, other),
        };
        if len > rest.len() {
            p.invalid(DecoderEvent::Ipv6ExtTruncated);
            return;
        }
        let header = rest.first(len);
        let follows = header.u8(0);
        match next {
            IpProto::ROUTING => note_routing(p, header, &mut seen),
            IpProto::HOP_BY_HOP => {
                if seen.hop_by_hop {
                    p.event(DecoderEvent::Ipv6DuplHopByHop);
                } else {
                    seen.hop_by_hop = true;
                    p.ext.add(ExtHeaders::HOP_BY_HOP);
                    walk_options(p, header, true);
                }
            }
            IpProto::DESTINATION => {
                if seen.destination >= 2 {
                    p.event(DecoderEvent::Ipv6DuplDestination);
                } else {
                    seen.destination += 1;
                    p.ext.add(ExtHeaders::DESTINATION);
                    walk_options(p, header, false);
                }
            }
            IpProto::FRAGMENT => {
                if note_fragment(p, header, next_at, rest) {
                    return;
                }
            }
            IpProto::AUTH => note_auth(p, header),
            IpProto::ESP => {
                p.ext.add(ExtHeaders::ESP);
                return udp::decode_esp(run, p, rest);
            }
            _ => p.ext.add(ExtHeaders::OTHER),
        }
        next = IpProto(follows);
        next_at = rest.at;
        rest = rest.after(len);
    }
}

/// Headers counted while walking, for duplicates.
#[derive(Default)]
struct Seen {
    hop_by_hop: bool,
    destination: u8,
}

/// Decodes what follows the extension headers: a transport, a tunnel, or nothing that is decoded.
fn decode_after_extensions(run: &mut Run<'_>, p: &mut Decoded, rest: Layer<'_>, next: IpProto) {
    match next {
        IpProto::TCP => tcp::decode(run, p, rest),
        IpProto::UDP => udp::decode(run, p, rest),
        IpProto::ICMPV6 => icmp::decode_v6(run, p, rest),
        IpProto::SCTP => udp::decode_sctp(run, p, rest),
        IpProto::IPV4 => decode_ipv4_inside(run, p, rest),
        IpProto::IPV6 => decode_ipv6_inside(run, p, rest),
        IpProto::GRE => gre::decode(run, p, rest),
        IpProto::ICMP => p.event(DecoderEvent::Ipv6Icmpv4),
        _ => p.event(DecoderEvent::Ipv6UnknownNextHeader),
    }
}

fn note_routing(p: &mut Decoded, header: Layer<'_>, _seen: &mut Seen) {
    if p.ext.has(ExtHeaders::ROUTING) {
        p.event(DecoderEvent::Ipv6DuplRouting);
        return;
    }
    p.ext.add(ExtHeaders::ROUTING);
    p.ext.routing_type = header.u8(2);
    if header.u8(2) == 0 {
        p.event(DecoderEvent::Ipv6RoutingType0);
    }
}

fn note_auth(p: &mut Decoded, header: Layer<'_>) {
    if header.be16(2) != 0 {
        p.event(DecoderEvent::Ipv6AuthReserved);
    }
    if p.ext.has(ExtHeaders::AUTH) {
        p.event(DecoderEvent::Ipv6DuplAuth);
    }
    p.ext.add(ExtHeaders::AUTH);
}

/// Returns true if the packet is a fragment: the walk then ends. A fragment header on an
/// unfragmented packet is useless; the walk continues after it.
fn note_fragment(p: &mut Decoded, header: Layer<'_>, next_at: u32, rest: Layer<'_>) -> bool {
    if header.u8(1) != 0 {
        p.event(DecoderEvent::Ipv6FragmentReserved);
    }
    if p.ext.has(ExtHeaders::FRAGMENT) {
        p.event(DecoderEvent::Ipv6DuplFragment);
        return false;
    }
    p.ext.add(ExtHeaders::FRAGMENT);
    let field = header.be16(2);
    p.fragment_offset = field & 0xfff8;
    p.ip_id = header.be32(4);
    p.ext.fragment_next = header.u8(0);
    p.ext.fragment_prev = next_at;
    p.ext.fragment_at = header.at;
    if field & 1 != 0 {
        p.flags.set(Flags::MORE_FRAGMENTS);
    }
    if field & 0xfff9 == 0 {
        p.event(DecoderEvent::Ipv6UselessFragment);
        return false;
    }
    let fragment = rest.after(header.len());
    p.flags.set(Flags::FRAGMENT);
    p.payload = fragment.at;
    p.payload_len = fragment.len() as u32;
    p.ip_header_len = p.ip_header_len.wrapping_add(header.len() as u16);
    if p.flags.has(Flags::MORE_FRAGMENTS) && !fragment.len().is_multiple_of(8) {
        p.event(DecoderEvent::Ipv6FragInvalidLen);
    }
    true
}

/// Options of a hop-by-hop or destination header (RFC 8200 section 4.2).
fn walk_options(p: &mut Decoded, header: Layer<'_>, hop_by_hop: bool) {
    let mut rest = header.data.get(2..).unwrap_or(&[]);
    let mut padding = 0u16;
    let mut others = 0u16;
    while let Some(&kind) = rest.first() {
        if kind == 0 {
            padding += 1;
            rest = rest.get(1..).unwrap_or(&[]);
            continue;
        }
        let Some(&len) = rest.get(1) else {
            p.invalid(DecoderEvent::Ipv6OptInvalidLen);
            break;
        };
        let len = usize::from(len);
        // Suricata lets an option reach one byte beyond the header.
        if len + 1 > rest.len() {
            p.invalid(DecoderEvent::Ipv6OptInvalidLen);
            break;
        }
        // Router alert, jumbo payload, home address: long enough for their value.
        let needed = match kind {
            1 => {
                padding += 1;
                if len == 0 {
                    p.event(DecoderEvent::Ipv6ZeroLenPadN);
                }
                0
            }
            0x05 => 2,
            0xc2 => 4,
            0xc9 => 16,
            _ => {
                p.event(if hop_by_hop {
                    DecoderEvent::Ipv6HopUnknownOpt
                } else {
                    DecoderEvent::Ipv6DstUnknownOpt
                });
                0
            }
        };
        if len < needed {
            p.invalid(DecoderEvent::Ipv6OptInvalidLen);
            break;
        }
        if kind != 1 {
            others += 1;
        }
        rest = rest.get(len + 2..).unwrap_or(&[]);
    }
    if padding > 0 && others == 0 {
        p.event(if hop_by_hop {
            DecoderEvent::Ipv6HopOnlyPadding
        } else {
            DecoderEvent::Ipv6DstOnlyPadding
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, events, join};
    use crate::transport::TransportHeader;

    const UDP: u8 = 17;
    const PAD: [u8; 8] = [0; 8];

    fn udp() -> Vec<u8> {
        build::udp(53, 4000, b"hello")
    }

    #[test]
    fn fields_of_the_header_are_read() {
        let packet = build::ipv6(UDP, &udp());
        let p = build::raw(&packet);
        assert_eq!(p.src.text(6), "fd00:0000:0000:0000:0000:0000:0000:0001");
        assert_eq!((p.ip_len, p.ip_header_len, p.ttl, p.proto.0), (13, 40, 64, UDP));
        assert_eq!((p.sp, p.dp, p.payload(&packet)), (53, 4000, b"hello".as_slice()));
    }

    #[test]
    fn broken_headers_raise_one_event() {
        let good = build::ipv6(UDP, &udp());
        let mut version = good.clone();
        version[0] = 0x70;
        let cases: [(&[u8], &[&str]); 3] = [
            // Suricata raises no event for these.
            (&good[..39], &[]),
            (&version, &["ipv6.wrong_ip_version"]),
            (&good[..50], &["ipv6.trunc_pkt"]),
        ];
        for (packet, expected) in cases {
            let (set, _) = build::run(crate::Link::Ethernet, &build::ethernet(0x86dd, packet));
            assert_eq!(events(set.root()), expected);
            assert_eq!(set.root().network, Network::None);
        }
    }

    /// Extension headers with the events that Suricata raises for each.
    #[test]
    fn extension_headers_are_walked() {
        let next = |kind: u8, rest: &[u8]| join(&[&[kind], rest]);
        let hop = |kind: u8| next(kind, &[0, 5, 2, 0, 0, 0, 0]);
        let routing = |kind: u8, of: u8| next(kind, &[0, of, 0, 0, 0, 0, 0]);
        let auth = |kind: u8| next(kind, &[1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
        let fragment = |kind: u8, reserved: u8| next(kind, &[reserved, 0, 0, 0, 0, 0, 9]);
        let dst = |kind: u8| next(kind, &[0, 201, 0, 0, 0, 0, 0]);
        let cases: Vec<(u8, Vec<u8>, Vec<&str>, bool)> = vec![
            (0, join(&[&hop(UDP), &udp()]), vec![], true),
            (0, join(&[&hop(0), &hop(UDP), &udp()]), vec!["ipv6.exthdr_dupl_hh"], true),
            (43, join(&[&routing(UDP, 2), &udp()]), vec![], true),
            (43, join(&[&routing(UDP, 0), &udp()]), vec!["ipv6.rh_type_0"], true),
            (
                43,
                join(&[&routing(43, 2), &routing(UDP, 2), &udp()]),
                vec!["ipv6.exthdr_dupl_rh"],
                true,
            ),
            (51, join(&[&auth(UDP), &udp()]), vec![], true),
            (51, join(&[&auth(51), &auth(UDP), &udp()]), vec!["ipv6.exthdr_dupl_ah"], true),
            (44, join(&[&fragment(UDP, 0), &udp()]), vec!["ipv6.exthdr_useless_fh"], true),
            (
                44,
                join(&[&fragment(UDP, 1), &udp()]),
                vec!["ipv6.fh_non_zero_reserved_field", "ipv6.exthdr_useless_fh"],
                true,
            ),
            (
                44,
                join(&[&fragment(44, 0), &fragment(UDP, 0), &udp()]),
                vec!["ipv6.exthdr_useless_fh", "ipv6.exthdr_dupl_fh"],
                true,
            ),
            (60, join(&[&dst(UDP), &udp()]), vec!["ipv6.exthdr_invalid_optlen"], true),
            (59, b"data".to_vec(), vec!["ipv6.data_after_none_header"], false),
            (59, vec![], vec![], false),
            (0, hop(UDP), vec!["ipv6.trunc_exthdr"], false),
            (0, vec![UDP, 1, 0, 0, 0, 0, 0, 0], vec!["ipv6.trunc_exthdr"], false),
            (1, b"icmpv4 ?".to_vec(), vec!["ipv6.icmpv4"], false),
            (99, b"unknown".to_vec(), vec!["ipv6.unknown_next_header"], false),
        ];
        for (first, inside, expected, has_udp) in cases {
            let p = build::raw(&build::ipv6(first, &inside));
            assert_eq!(events(&p), expected, "{first} {inside:?}");
            assert_eq!(
                matches!(p.transport, TransportHeader::Udp(_)),
                has_udp,
                "{first} {inside:?}"
            );
        }
    }

    #[test]
    fn options_are_checked() {
        let option = |bytes: &[u8]| {
            let mut header = join(&[&[UDP, 0], bytes]);
            header.resize(8, 0);
            header
        };
        let cases: [(&[u8], &[&str], &[&str]); 6] = [
            (&[], &["ipv6.hopopts_only_padding"], &["ipv6.dstopts_only_padding"]),
            (&[1, 4], &["ipv6.hopopts_only_padding"], &["ipv6.dstopts_only_padding"]),
            (
                &[1, 0, 1, 2],
                &["ipv6.zero_len_padn", "ipv6.hopopts_only_padding"],
                &["ipv6.zero_len_padn", "ipv6.dstopts_only_padding"],
            ),
            (&[0x1e, 4], &["ipv6.hopopts_unknown_opt"], &["ipv6.dstopts_unknown_opt"]),
            (&[5, 1, 0, 1, 1], &["ipv6.exthdr_invalid_optlen"], &["ipv6.exthdr_invalid_optlen"]),
            (&[1, 9], &["ipv6.exthdr_invalid_optlen"], &["ipv6.exthdr_invalid_optlen"]),
        ];
        for (bytes, hop, dst) in cases {
            for (first, expected) in [(0, hop), (60, dst)] {
                let packet = build::ipv6(first, &join(&[&option(bytes), &udp()]));
                assert_eq!(events(&build::raw(&packet)), expected, "{first} {bytes:?}");
            }
        }
    }

    #[test]
    fn fragments_have_what_reassembly_needs() {
        let hop = [44, 0, 5, 2, 0, 0, 1, 0];
        let fragment = [UDP, 0, 0x00, 0x11, 0, 0, 0x12, 0x34];
        let packet = build::ipv6(0, &join(&[&hop, &fragment, &PAD]));
        let p = build::raw(&packet);
        assert!(p.flags.has(Flags::FRAGMENT) && p.flags.has(Flags::MORE_FRAGMENTS));
        assert_eq!((p.fragment_offset, p.ip_id, p.proto.0), (16, 0x1234, 0));
        assert_eq!((p.ext.fragment_prev, p.ext.fragment_at, p.ext.fragment_next), (40, 48, UDP));
        assert_eq!((p.payload, p.payload_len, p.ip_header_len), (56, 8, 56));
        assert!(!p.transport.is_some());
    }

    #[test]
    fn tunnels_become_packets_of_their_own() {
        let inner4 = build::ipv4(UDP, &[], &udp());
        let inner6 = build::ipv6(UDP, &udp());
        for (proto, inside, counter) in
            [(4, &inner4, Counter::Ipv4InIpv6), (41, &inner6, Counter::Ipv6InIpv6)]
        {
            let (set, counters) = build::run(crate::Link::Raw, &build::ipv6(proto, inside));
            assert_eq!((set.count(), counters.get(counter)), (2, 1));
            assert_eq!(set.inner()[0].source.name(), "ipv6 tunnel");
        }
        let cases: [(u8, &[u8], &str); 4] = [
            (4, &inner4[..19], "ipv6.ipv4_in_ipv6_too_small"),
            (4, &inner6, "ipv6.ipv4_in_ipv6_wrong_version"),
            (41, &inner6[..39], "ipv6.ipv6_in_ipv6_too_small"),
            (41, &[0x40; 40], "ipv6.ipv6_in_ipv6_wrong_version"),
        ];
        for (proto, inside, event) in cases {
            assert_eq!(events(&build::raw(&build::ipv6(proto, inside))), [event]);
        }
    }
}

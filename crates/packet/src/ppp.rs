//! PPP (RFC 1661, RFC 1662) and PPPoE (RFC 2516).

use crate::counters::Counter;
use crate::decode::{Outcome, Reject, Run};
use crate::decoded::{Decoded, Flags};
use crate::layer::Layer;
use crate::{ipv4, ipv6};
use gabion_record::DecoderEvent;

/// PPP protocol numbers (IANA) that are decoded.
mod protocol {
    pub(super) const IPV4: u16 = 0x0021;
    pub(super) const VJ_UNCOMPRESSED: u16 = 0x002f;
    pub(super) const IPV6: u16 = 0x0057;

    /// Network layer protocols that are known and not decoded: they raise an event of their own.
    pub(super) const NOT_DECODED: &[u16] = &[
        0x0023, // OSI network layer
        0x0025, // XNS IDP
        0x0027, // DECnet phase IV
        0x0029, // AppleTalk
        0x002b, // Novell IPX
        0x002d, // VJ compressed TCP
        0x0031, // bridging
        0x0033, // stream protocol
        0x0035, // Banyan Vines
        0x003d, // multilink
        0x0201, // 802.1D hello
        0x0231, // Luxcom
        0x0233, // Sigma network systems
        0x0281, // MPLS unicast
        0x0283, // MPLS multicast
    ];

    /// Control protocols that are known: they carry no packets, and nothing is wrong with them.
    pub(super) const CONTROL: &[u16] = &[
        0x8021, // IPv4
        0x8023, // OSI network layer
        0x8025, // XNS IDP
        0x8027, // DECnet
        0x8029, // AppleTalk
        0x802b, // IPX
        0x8031, // bridging
        0x8033, // stream protocol
        0x8035, // Banyan Vines
        0x8057, // IPv6
        0x80fd, // compression
        0x8281, // MPLS
        0xc021, // link control
        0xc023, // password authentication
        0xc025, // link quality
        0xc029, // callback
        0xc223, // challenge handshake
    ];
}

/// PPP, with or without address and control bytes, with a protocol field of one byte or two.
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Ppp);
    if layer.len() < 4 {
        p.invalid(DecoderEvent::PppPacketTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    match (layer.u8(0), layer.u8(1)) {
        (0xff, 0x03) => decode_protocol(run, p, layer.after(2)),
        // Another control byte: frames of a kind that is not decoded (RFC 1662 section 3.1).
        (0xff, _) => Ok(()),
        _ => decode_protocol(run, p, layer),
    }
}

/// The protocol field and the layer that it names.
fn decode_protocol(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    let first = layer.u8(0);
    // The low bit ends the protocol field: if it is set in the first byte, the field has only that
    // byte.
    let (kind, inside) = if first & 1 != 0 {
        (u16::from(first), layer.after(1))
    } else if layer.len() >= 2 {
        (layer.be16(0), layer.after(2))
    } else {
        p.invalid(DecoderEvent::PppPacketTooSmall);
        return Err(Reject);
    };
    match kind {
        protocol::IPV4 => {
            if inside.len() < ipv4::MIN_LEN {
                p.invalid(DecoderEvent::PppIpv4TooSmall);
                return Err(Reject);
            }
            ipv4::decode(run, p, inside)
        }
        protocol::IPV6 => {
            if inside.len() < ipv6::HEADER_LEN {
                p.invalid(DecoderEvent::PppIpv6TooSmall);
                return Err(Reject);
            }
            ipv6::decode(run, p, inside)
        }
        protocol::VJ_UNCOMPRESSED => {
            if inside.len() < ipv4::MIN_LEN {
                p.invalid(DecoderEvent::PppVjuTooSmall);
                return Err(Reject);
            }
            if inside.u8(0) >> 4 != 4 {
                return Err(Reject);
            }
            p.flags.set(Flags::VJ_UNCOMPRESSED);
            ipv4::decode(run, p, inside)
        }
        other if protocol::NOT_DECODED.contains(&other) => {
            p.event(DecoderEvent::PppUnsupportedProto);
            Ok(())
        }
        other if protocol::CONTROL.contains(&other) => Ok(()),
        _ => {
            p.invalid(DecoderEvent::PppWrongType);
            Ok(())
        }
    }
}

/// PPPoE as a link: the code distinguishes a session (0) from discovery.
pub(crate) fn decode_pppoe(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    if layer.u8(1) == 0 {
        decode_pppoe_session(run, p, layer)
    } else {
        decode_pppoe_discovery(run, p, layer)
    }
}

/// A PPPoE session: six bytes of header, then PPP without address and control.
pub(crate) fn decode_pppoe_session(
    run: &mut Run<'_>,
    p: &mut Decoded,
    layer: Layer<'_>,
) -> Outcome {
    const HEADER_LEN: usize = 6;
    run.counters.count(Counter::Pppoe);
    if layer.len() <= HEADER_LEN {
        p.invalid(DecoderEvent::PppoePacketTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    if layer.be16(4) == 0 {
        return Ok(());
    }
    decode_protocol(run, p, layer.after(HEADER_LEN))
}

/// PPPoE discovery: a code and tags.
pub(crate) fn decode_pppoe_discovery(
    run: &mut Run<'_>,
    p: &mut Decoded,
    layer: Layer<'_>,
) -> Outcome {
    const HEADER_LEN: usize = 6;
    run.counters.count(Counter::Pppoe);
    if layer.len() < HEADER_LEN {
        p.invalid(DecoderEvent::PppoePacketTooSmall);
        return Err(Reject);
    }
    // PADI, PADO, PADR, PADS, PADT
    if !matches!(layer.u8(1), 0x09 | 0x07 | 0x19 | 0x65 | 0xa7) {
        p.invalid(DecoderEvent::PppoeWrongCode);
        return Ok(());
    }
    let announced = usize::from(layer.be16(4));
    if announced > layer.len() - HEADER_LEN {
        p.invalid(DecoderEvent::PppoeMalformedTags);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, events, join};
    use crate::link::Link;

    fn inside() -> Vec<u8> {
        build::ipv4(17, &[], &build::udp(1, 2, b"x"))
    }

    #[test]
    fn every_form_of_the_header_leads_to_ip() {
        let ip = inside();
        for head in [[0xff, 3, 0, 0x21].as_slice(), &[0, 0x21], &[0x21], &[0xff, 3, 0x21]] {
            let frame = join(&[head, &ip]);
            let (set, counters) = build::run(Link::Ppp, &frame);
            assert_eq!(set.root().payload(&frame), b"x", "{head:?}");
            assert_eq!(counters.get(Counter::Ppp), 1);
        }
        let session = join(&[&[0x11, 0, 0, 1, 0, 31, 0, 0x21], &ip]);
        assert_eq!(build::run(Link::Pppoe, &session).0.root().payload(&session), b"x");
        let frame = build::ethernet(0x8864, &session);
        let (set, counters) = build::run(Link::Ethernet, &frame);
        assert_eq!(set.root().payload(&frame), b"x");
        assert_eq!((counters.get(Counter::Pppoe), counters.get(Counter::Ppp)), (1, 0));
    }

    /// A slot number replaces the protocol number, which is always TCP (RFC 1144).
    #[test]
    fn uncompressed_vj_is_tcp() {
        let frame = join(&[&[0xff, 3, 0, 0x2f], &build::ipv4(0, &[], &build::tcp(&[], b"x"))]);
        let (set, _) = build::run(Link::Ppp, &frame);
        assert_eq!((set.root().dp, set.root().proto.0), (80, 6));
    }

    #[test]
    fn odd_frames_raise_events() {
        let cases: [(&[u8], &[&str]); 9] = [
            (&[0xff, 3, 0], &["ppp.pkt_too_small"]),
            (&[0xff, 3, 0, 0x21, 0x45], &["ppp.ip4_pkt_too_small"]),
            (&[0xff, 3, 0, 0x57, 0x60], &["ppp.ip6_pkt_too_small"]),
            (&[0xff, 3, 0, 0x2f, 0x45], &["ppp.vju_pkt_too_small"]),
            (&[0xff, 3, 0x02, 0x81], &["ppp.unsup_proto"]),
            (&[0xff, 3, 0x3d, 0x30], &["ppp.unsup_proto"]),
            (&[0xff, 3, 0xc0, 0x21], &[]),
            (&[0x80, 0x21, 3, 0x80], &[]),
            (&[0xff, 3, 0x7e, 0x80], &["ppp.wrong_type"]),
        ];
        for (frame, expected) in cases {
            let (set, _) = build::run(Link::Ppp, frame);
            assert_eq!(events(set.root()), expected, "{frame:?}");
        }
    }

    #[test]
    fn pppoe_discovery_is_checked() {
        let cases: [(&[u8], &[&str]); 5] = [
            (&[0x11, 9, 0, 0, 0], &["pppoe.pkt_too_small"]),
            (&[0x11, 9, 0, 0, 0, 0], &[]),
            (&[0x11, 0x55, 0, 0, 0, 0], &["pppoe.wrong_code"]),
            (&[0x11, 9, 0, 0, 0, 4, 1, 1, 0, 0], &[]),
            (&[0x11, 9, 0, 0, 0, 5, 1, 1, 0, 0], &["pppoe.malformed_tags"]),
        ];
        for (inside, expected) in cases {
            let (set, _) = build::run(Link::Ethernet, &build::ethernet(0x8863, inside));
            assert_eq!(events(set.root()), expected, "{inside:?}");
        }
        let (set, _) = build::run(Link::Ethernet, &build::ethernet(0x8864, &[0x11, 0, 0, 1, 0, 1]));
        assert_eq!(events(set.root()), ["pppoe.pkt_too_small"]);
    }
}

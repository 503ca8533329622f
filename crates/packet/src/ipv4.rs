//! IPv4 (RFC 791): header, options, and what it carries.

use crate::counters::Counter;
use crate::decode::{Outcome, Payload, Reject, Run};
use crate::decoded::{Decoded, Flags, IpOptions, Network, PacketSource};
use crate::layer::Layer;
use crate::limits::MAX_IP_LEN;
use crate::{gre, icmp, tcp, udp};
use gabion_record::DecoderEvent;
use gabion_record::{Addr, IpProto};

/// Bytes of a header without options.
pub(crate) const MIN_LEN: usize = 20;

/// The header, then what it carries; a fragment ends here.
#[inline]
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Ipv4);
    run.enter_layer(p)?;
    let inside = decode_header(p, layer)?;
    if p.flags.has(Flags::FRAGMENT) {
        return Ok(());
    }
    match p.proto {
        IpProto::TCP => tcp::decode(run, p, inside),
        IpProto::UDP => udp::decode(run, p, inside),
        IpProto::ICMP => icmp::decode_v4(run, p, inside),
        other => decode_rare(run, p, inside, other),
    }
    Ok(())
}

/// Decodes rare protocols, out of line so that the common ones stay fast.
fn decode_rare(run: &mut Run<'_>, p: &mut Decoded, inside: Layer<'_>, proto: IpProto) {
    match proto {
        IpProto::GRE => gre::decode(run, p, inside),
        IpProto::SCTP => udp::decode_sctp(run, p, inside),
        IpProto::ESP => udp::decode_esp(run, p, inside),
        IpProto::IPV4 => {
            p.flags.set(Flags::WANTS_FLOW);
            if run.tunnel(p, inside, Payload::Ipv4, PacketSource::Ipv4) {
                run.counters.count(Counter::Ipv4InIpv4);
            }
        }
        IpProto::IPV6 => {
            p.flags.set(Flags::WANTS_FLOW);
            if run.tunnel(p, inside, Payload::Ipv6, PacketSource::Ipv4) {
                run.counters.count(Counter::Ipv6InIpv4);
            }
        }
        IpProto::HOP_BY_HOP if p.flags.has(Flags::VJ_UNCOMPRESSED) => tcp::decode(run, p, inside),
        IpProto::ICMPV6 => p.invalid(DecoderEvent::Ipv4Icmpv6),
        _ => {}
    }
}

#[inline]
fn decode_header<'a>(p: &mut Decoded, layer: Layer<'a>) -> Result<Layer<'a>, Reject> {
    let Some(header) = layer.data.first_chunk::<MIN_LEN>() else {
        p.invalid(DecoderEvent::Ipv4PacketTooSmall);
        return Err(Reject);
    };
    if header[0] >> 4 != 4 {
        p.invalid(DecoderEvent::Ipv4WrongVersion);
        return Err(Reject);
    }
    let header_len = usize::from(header[0] & 15) * 4;
    if header_len < MIN_LEN {
        p.invalid(DecoderEvent::Ipv4HeaderTooSmall);
        return Err(Reject);
    }
    let len_field = u16::from_be_bytes([header[2], header[3]]);
    let is_jumbo = len_field == 0 && layer.len() > MAX_IP_LEN;
    let total = if is_jumbo { layer.len() } else { usize::from(len_field) };
    if total < header_len {
        p.invalid(DecoderEvent::Ipv4LenBelowHeader);
        return Err(Reject);
    }
    if layer.len() < total {
        p.invalid(DecoderEvent::Ipv4Truncated);
        return Err(Reject);
    }
    p.tos = header[1];
    p.ip_len = len_field;
    p.ip_header_len = header_len as u16;
    p.ip_id = u32::from(u16::from_be_bytes([header[4], header[5]]));
    p.ttl = header[8];
    p.proto = IpProto(header[9]);
    p.src = Addr::v4([header[12], header[13], header[14], header[15]]);
    p.dst = Addr::v4([header[16], header[17], header[18], header[19]]);
    let fragment = u16::from_be_bytes([header[6], header[7]]);
    if fragment != 0 {
        note_fragment(p, fragment);
    }
    if header_len > MIN_LEN {
        let options = layer.first(header_len).after(MIN_LEN);
        if decode_options(p, options.data).is_err() {
            // A second event for the header as a whole, as in Suricata.
            p.invalid(DecoderEvent::Ipv4OptInvalidLen);
            return Err(Reject);
        }
    }
    p.network = Network::Ipv4;
    p.l3 = layer.at;
    let inside = layer.first(total).after(header_len);
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    Ok(inside)
}

fn note_fragment(p: &mut Decoded, field: u16) {
    p.fragment_offset = (field & 0x1fff) << 3;
    if field & 0x8000 != 0 {
        p.flags.set(Flags::RESERVED_FRAGMENT_BIT);
    }
    if field & 0x4000 != 0 {
        p.flags.set(Flags::DONT_FRAGMENT);
    }
    if field & 0x2000 != 0 {
        p.flags.set(Flags::MORE_FRAGMENTS);
    }
    if field & 0x3fff != 0 {
        p.flags.set(Flags::FRAGMENT);
    }
}

/// Walks the options. After a broken option nothing in the packet is trusted.
#[cold]
fn decode_options(p: &mut Decoded, mut rest: &[u8]) -> Outcome {
    if !rest.len().is_multiple_of(8) {
        p.event(DecoderEvent::Ipv4OptPadRequired);
    }
    let mut seen = IpOptions(0);
    while let Some(&kind) = rest.first() {
        match kind {
            0 => {
                p.ip_options.0 |= IpOptions::EOL.0;
                return Ok(());
            }
            1 => {
                p.ip_options.0 |= IpOptions::NOP.0;
                rest = rest.get(1..).unwrap_or(&[]);
                continue;
            }
            _ => {}
        }
        let Some(&len) = rest.get(1) else {
            p.event(DecoderEvent::Ipv4OptEolRequired);
            return Ok(());
        };
        let len = usize::from(len);
        let Some(option) = rest.get(..len).filter(|_| len >= 2) else {
            p.invalid(DecoderEvent::Ipv4OptInvalidLen);
            return Err(Reject);
        };
        match option_bit(kind) {
            Some(bit) => {
                if seen.any_of(bit) {
                    p.event(DecoderEvent::Ipv4OptDuplicate);
                } else if let Err(event) = check_option(bit, option) {
                    p.invalid(event);
                    return Err(Reject);
                }
                seen.0 |= bit.0;
                p.ip_options.0 |= bit.0;
            }
            None => p.event(DecoderEvent::Ipv4OptInvalid),
        }
        rest = rest.get(len..).unwrap_or(&[]);
    }
    Ok(())
}

/// The bit of an option type with a length; `None` for an unknown type.
fn option_bit(kind: u8) -> Option<IpOptions> {
    Some(match kind {
        7 => IpOptions::RECORD_ROUTE,
        25 => IpOptions::QUICK_START,
        68 => IpOptions::TIMESTAMP,
        130 => IpOptions::SECURITY,
        131 => IpOptions::LOOSE_ROUTE,
        133 => IpOptions::EXTENDED_SECURITY,
        134 => IpOptions::CIPSO,
        136 => IpOptions::STREAM_ID,
        137 => IpOptions::STRICT_ROUTE,
        148 => IpOptions::ROUTER_ALERT,
        _ => return None,
    })
}

/// Whether an option (type, length and content) follows its rules.
fn check_option(bit: IpOptions, option: &[u8]) -> Result<(), DecoderEvent> {
    let len = option.len();
    let len_is = |good: bool| if good { Ok(()) } else { Err(DecoderEvent::Ipv4OptInvalidLen) };
    match bit {
        IpOptions::QUICK_START => len_is(len >= 8),
        IpOptions::SECURITY => len_is(len == 11),
        IpOptions::EXTENDED_SECURITY => len_is(len >= 3),
        IpOptions::STREAM_ID | IpOptions::ROUTER_ALERT => len_is(len == 4),
        IpOptions::TIMESTAMP => check_timestamp(option),
        IpOptions::CIPSO => check_cipso(option),
        _ => check_route(option),
    }
}

/// The pointer counts from one, points after its own four bytes and moves in steps of an address.
fn check_route(option: &[u8]) -> Result<(), DecoderEvent> {
    let [_, _, pointer, ..] = *option else {
        return Err(DecoderEvent::Ipv4OptInvalidLen);
    };
    let pointer = usize::from(pointer);
    if pointer < 4 || pointer % 4 != 0 || pointer > option.len() + 1 {
        return Err(DecoderEvent::Ipv4OptMalformed);
    }
    Ok(())
}

/// As in a route, but in steps of four bytes, or of eight with addresses (flags 1 and 3).
fn check_timestamp(option: &[u8]) -> Result<(), DecoderEvent> {
    let [_, _, pointer, flags, _, ..] = *option else {
        return Err(DecoderEvent::Ipv4OptInvalidLen);
    };
    let pointer = usize::from(pointer);
    let step = if matches!(flags & 15, 1 | 3) { 8 } else { 4 };
    if pointer < 5 || (pointer - 5) % step != 0 || pointer > option.len() + 1 {
        return Err(DecoderEvent::Ipv4OptMalformed);
    }
    Ok(())
}

/// Domain of interpretation, then tags with type and length (draft-ietf-cipso-ipsecurity-01).
fn check_cipso(option: &[u8]) -> Result<(), DecoderEvent> {
    if option.len() < 10 {
        return Err(DecoderEvent::Ipv4OptInvalidLen);
    }
    if option.get(2..6).is_none_or(|domain| domain == [0; 4]) {
        return Err(DecoderEvent::Ipv4OptMalformed);
    }
    let mut tags = option.get(6..).unwrap_or(&[]);
    while !tags.is_empty() {
        let [kind, len, align, ..] = *tags else {
            return Err(DecoderEvent::Ipv4OptMalformed);
        };
        let known = matches!(kind, 1 | 2 | 5 | 6 | 7);
        let Some(rest) = tags.get(usize::from(len)..).filter(|_| known && len >= 4) else {
            return Err(DecoderEvent::Ipv4OptMalformed);
        };
        if kind != 7 && align != 0 {
            return Err(DecoderEvent::Ipv4OptMalformed);
        }
        tags = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, events};
    use crate::transport::TransportHeader;

    /// Decodes a UDP packet with these IP options.
    fn with(options: &[u8]) -> Decoded {
        build::raw(&build::ipv4(17, options, &build::udp(1, 2, b"x")))
    }

    #[test]
    fn fields_of_the_header_are_read() {
        let packet = build::ipv4(17, &[], &build::udp(53, 4000, b"hello"));
        let padded = [packet.as_slice(), &[0; 6]].concat();
        let p = build::raw(&padded);
        assert_eq!((p.src.text(4), p.dst.text(4)), ("10.0.0.1".into(), "10.0.0.2".into()));
        assert_eq!(
            (p.ip_len, p.ip_header_len, p.ttl, p.proto.0, p.ip_id),
            (33, 20, 64, 17, 0x1234)
        );
        assert_eq!((p.sp, p.dp, p.payload(&padded)), (53, 4000, b"hello".as_slice()));
        assert_eq!(p.segment(&padded).len(), 13, "padding of the link is left out");
        assert!(p.events.is_empty());
    }

    /// The header's checks in Suricata's order: one event each, and nothing else is decoded.
    #[test]
    fn broken_headers_raise_one_event() {
        let good = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let change = |at: usize, to: u8| {
            let mut packet = good.clone();
            packet[at] = to;
            build::ethernet(0x0800, &packet)
        };
        let cases: [(Vec<u8>, &str); 5] = [
            (build::ethernet(0x0800, &good[..19]), "ipv4.pkt_too_small"),
            (change(0, 0x55), "ipv4.wrong_ip_version"),
            (change(0, 0x44), "ipv4.hlen_too_small"),
            (change(3, 19), "ipv4.iplen_smaller_than_hlen"),
            (change(3, 30), "ipv4.trunc_pkt"),
        ];
        for (frame, event) in cases {
            let (set, _) = build::run(crate::Link::Ethernet, &frame);
            let p = set.root();
            assert_eq!(events(p), [event]);
            assert!(p.flags.has(Flags::INVALID) && p.network == Network::None, "{event}");
        }
    }

    /// As in Suricata, a fragment goes to reassembly and its transport is not decoded, even for the
    /// first.
    #[test]
    fn fragments_end_at_the_ip_layer() {
        for (field, offset, more) in [(0x2000u16, 0, true), (0x2003, 24, true), (0x0003, 24, false)]
        {
            let packet = build::ipv4_fragment(17, &[], field, &build::udp(1, 2, b"data"));
            let p = build::raw(&packet);
            assert!(p.flags.has(Flags::FRAGMENT));
            assert_eq!(p.flags.has(Flags::MORE_FRAGMENTS), more);
            assert_eq!((p.fragment_offset, p.payload_len), (offset, 12));
            assert!(!p.transport.is_some());
        }
        let p = build::raw(&build::ipv4_fragment(17, &[], 0x4000, &build::udp(1, 2, b"data")));
        assert!(p.flags.has(Flags::DONT_FRAGMENT) && !p.flags.has(Flags::FRAGMENT));
    }

    #[test]
    fn options_are_noted_by_kind() {
        let cases: [(&[u8], IpOptions); 12] = [
            (&[0, 0, 0, 0, 0, 0, 0, 0], IpOptions::EOL),
            (&[1, 1, 1, 1, 1, 1, 1, 1], IpOptions::NOP),
            (&[7, 7, 4, 1, 2, 3, 4, 1], IpOptions::RECORD_ROUTE),
            (&[68, 8, 5, 0, 0, 0, 0, 0], IpOptions::TIMESTAMP),
            (&[25, 8, 0, 0, 0, 0, 0, 0], IpOptions::QUICK_START),
            (&[130, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], IpOptions::SECURITY),
            (&[131, 7, 4, 1, 2, 3, 4, 1], IpOptions::LOOSE_ROUTE),
            (&[133, 3, 0, 1, 1, 1, 1, 1], IpOptions::EXTENDED_SECURITY),
            (&[134, 10, 0, 0, 0, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0], IpOptions::CIPSO),
            (&[136, 4, 0, 0, 1, 1, 1, 1], IpOptions::STREAM_ID),
            (&[137, 7, 4, 1, 2, 3, 4, 1], IpOptions::STRICT_ROUTE),
            (&[148, 4, 0, 0, 1, 1, 1, 1], IpOptions::ROUTER_ALERT),
        ];
        for (options, bit) in cases {
            let p = with(options);
            assert!(p.ip_options.any_of(bit), "{options:?}");
            assert_eq!(events(&p), [""; 0], "{options:?}");
            assert!(matches!(p.transport, TransportHeader::Udp(_)));
        }
    }

    /// Warnings leave the packet usable; a broken option does not, and Suricata then raises a
    /// second event, an invalid length.
    #[test]
    fn odd_options_raise_events() {
        let warnings: [(&[u8], &[&str]); 4] = [
            (&[0; 4], &["ipv4.opt_pad_required"]),
            (&[1, 1, 1, 1, 1, 1, 1, 7], &["ipv4.opt_eol_required"]),
            (&[200, 4, 0, 0, 0, 0, 0, 0], &["ipv4.opt_invalid"]),
            (&[148, 4, 0, 0, 148, 4, 0, 0], &["ipv4.opt_duplicate"]),
        ];
        for (options, expected) in warnings {
            let p = with(options);
            assert_eq!(events(&p), expected, "{options:?}");
            assert!(p.transport.is_some() && !p.flags.has(Flags::INVALID));
        }
        let broken: [(&[u8], &str); 10] = [
            (&[7, 9, 4, 0, 0, 0, 0, 0], "ipv4.opt_invalid_len"),
            (&[7, 1, 4, 0, 0, 0, 0, 0], "ipv4.opt_invalid_len"),
            (&[7, 2, 0, 0, 0, 0, 0, 0], "ipv4.opt_invalid_len"),
            (&[130, 8, 0, 0, 0, 0, 0, 0], "ipv4.opt_invalid_len"),
            (&[148, 3, 0, 0, 0, 0, 0, 0], "ipv4.opt_invalid_len"),
            (&[7, 7, 5, 0, 0, 0, 0, 0], "ipv4.opt_malformed"),
            (&[7, 7, 12, 0, 0, 0, 0, 0], "ipv4.opt_malformed"),
            (&[68, 8, 6, 0, 0, 0, 0, 0], "ipv4.opt_malformed"),
            (&[68, 8, 9, 1, 0, 0, 0, 0], "ipv4.opt_malformed"),
            (&[134, 10, 0, 0, 0, 0, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0], "ipv4.opt_malformed"),
        ];
        for (options, event) in broken {
            let p = with(options);
            assert_eq!(events(&p), [event, "ipv4.opt_invalid_len"], "{options:?}");
            assert!(p.network == Network::None && p.flags.has(Flags::INVALID));
        }
    }

    /// Hardware offload creates packets whose length does not fit its field, which then is zero.
    #[test]
    fn a_length_of_zero_is_all_of_a_large_buffer() {
        let mut large = build::ipv4(6, &[], &build::tcp(&[], b""));
        large.resize(70_000, 0);
        large[2..4].copy_from_slice(&[0, 0]);
        let p = build::raw(&large);
        assert_eq!(p.payload_len, 70_000 - 40);
        assert!(p.events.is_empty());
        let p = build::raw(&large[..1000]);
        assert_eq!(events(&p), ["ipv4.iplen_smaller_than_hlen"]);
    }

    #[test]
    fn tunnels_become_packets_of_their_own() {
        let inner = build::ipv4(17, &[], &build::udp(7, 8, b"inner"));
        let inner6 = build::ipv6(17, &build::udp(7, 8, b"inner"));
        for (proto, inside, version) in [(4, &inner, 4), (41, &inner6, 6)] {
            let frame = build::ethernet(0x0800, &build::ipv4(proto, &[], inside));
            let (set, _) = build::run(crate::Link::Ethernet, &frame);
            let [packet] = set.inner() else { panic!("one packet inside") };
            assert_eq!((packet.depth, packet.start, packet.ip_version()), (1, 34, version));
            assert_eq!((packet.sp, packet.payload(&frame)), (7, b"inner".as_slice()));
            assert_eq!(packet.source.name(), "ipv4 tunnel");
            assert!(set.root().flags.has(Flags::HAS_INNER));
            let order: Vec<u8> = set.in_processing_order().map(|p| p.depth).collect();
            assert_eq!(order, [1, 0]);
        }
        // Content that is not a packet leaves no trace.
        let frame = build::ipv4(4, &[], b"not a packet but twenty");
        let (set, counters) = build::run(crate::Link::Raw, &frame);
        assert_eq!((set.count(), counters.get(Counter::Ipv4InIpv4)), (1, 0));
        assert!(set.root().events.is_empty());
        assert_eq!(events(&build::raw(&build::ipv4(58, &[], b"icmpv6"))), ["ipv4.icmpv6"]);
    }

    /// Suricata's default of 16 layers: the packet beyond them is not decoded.
    #[test]
    fn nesting_is_bounded() {
        let mut packet = build::ipv4(17, &[], &build::udp(7, 8, b"core"));
        for _ in 0..40 {
            packet = build::ipv4(4, &[], &packet);
        }
        let (set, _) = build::run(crate::Link::Raw, &packet);
        assert!(set.count() < 16);
        let last = set.iter().next_back().expect("the root at least");
        assert_eq!(events(last), ["too_many_layers"]);
    }
}

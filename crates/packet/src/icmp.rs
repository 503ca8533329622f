//! ICMP (RFC 792) and ICMPv6 (RFC 4443), and the packet that an error message quotes.

use crate::counters::Counter;
use crate::decode::Run;
use crate::decoded::{Decoded, Flags, Network};
use crate::ipv4;
use crate::ipv6;
use crate::layer::Layer;
use crate::transport::{Icmp, Quoted, TransportHeader};
use gabion_record::DecoderEvent;
use gabion_record::{Addr, IpProto};

/// Bytes of the header with the word that depends on the type.
const HEADER_LEN: usize = 8;
/// Bytes of the three times of a timestamp message (RFC 792).
const TIMESTAMPS_LEN: usize = 12;

/// What a type requires of code and content.
enum Kind {
    /// An error message that quotes a packet; the codes up to this one are known.
    Error { last_code: u8 },
    /// Only code 0; carries identifier and sequence number.
    Echo,
    /// Only code 0.
    Plain,
    /// Addresses of routers, after their number and size.
    RouterAdvert,
    /// Only code 0 and a hop limit of 1.
    Listener,
    /// Codes up to this one, and 255 if the flag is set.
    Codes { last: u8, or_255: bool },
    /// Any code.
    Any,
    /// An unknown type.
    Unknown(DecoderEvent),
}

/// ICMP in IPv4.
pub(crate) fn decode_v4(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    run.counters.count(Counter::Icmpv4);
    let Some(mut icmp) = header(p, layer) else {
        p.invalid(DecoderEvent::Icmpv4PacketTooSmall);
        return;
    };
    let kind = match icmp.kind {
        0 | 8 | 13 | 14 | 15 | 16 | 17 | 18 => Kind::Echo,
        3 => Kind::Error { last_code: 15 },
        4 => Kind::Error { last_code: 0 },
        5 => Kind::Error { last_code: 3 },
        // Router solicitation (10) is missing here as it is in Suricata.
        9 => Kind::RouterAdvert,
        11 => Kind::Error { last_code: 1 },
        12 => Kind::Error { last_code: 2 },
        _ => Kind::Unknown(DecoderEvent::Icmpv4UnknownType),
    };
    let unknown_code = DecoderEvent::Icmpv4UnknownCode;
    match kind {
        Kind::Error { last_code } => {
            if icmp.code > last_code {
                p.event(unknown_code);
            } else if layer.len() > HEADER_LEN {
                if icmp.kind == 3 && icmp.code == 4 {
                    icmp.mtu = u32::from(layer.be16(6));
                }
                icmp.quoted = quoted_v4(p, layer.after(HEADER_LEN));
            }
        }
        Kind::RouterAdvert => {
            let announced = usize::from(layer.u8(4)) * usize::from(layer.u8(5)) * 4;
            if announced > layer.len() - HEADER_LEN {
                p.event(unknown_code);
            } else {
                payload_after(p, layer, HEADER_LEN + announced);
            }
        }
        other => {
            let is_timestamp = matches!(icmp.kind, 13 | 14);
            check_code(p, &mut icmp, other, layer, unknown_code);
            if is_timestamp && layer.len() >= HEADER_LEN + TIMESTAMPS_LEN {
                payload_after(p, layer, HEADER_LEN + TIMESTAMPS_LEN);
            }
        }
    }
    p.transport = TransportHeader::Icmpv4(icmp);
}

/// ICMPv6.
pub(crate) fn decode_v6(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    run.counters.count(Counter::Icmpv6);
    p.proto = IpProto::ICMPV6;
    let Some(mut icmp) = header(p, layer) else {
        p.invalid(DecoderEvent::Icmpv6PacketTooSmall);
        return;
    };
    let kind = match icmp.kind {
        1 => Kind::Error { last_code: 6 },
        2 => Kind::Error { last_code: 0 },
        3 => Kind::Error { last_code: 1 },
        4 => Kind::Error { last_code: 2 },
        128 | 129 => Kind::Echo,
        130..=132 | 143 => Kind::Listener,
        133..=137 | 141 | 142 => Kind::Plain,
        138 => Kind::Codes { last: 2, or_255: true },
        139 | 140 => Kind::Codes { last: 2, or_255: false },
        144..=159 => Kind::Any,
        100 | 101 | 200 | 201 => Kind::Unknown(DecoderEvent::Icmpv6ExperimentationType),
        5..=99 | 102..=126 | 160..=199 => Kind::Unknown(DecoderEvent::Icmpv6UnassignedType),
        _ => Kind::Unknown(DecoderEvent::Icmpv6UnknownType),
    };
    let unknown_code = DecoderEvent::Icmpv6UnknownCode;
    let mut short_header = true;
    match kind {
        Kind::Error { last_code } => {
            if icmp.code > last_code {
                p.event(unknown_code);
            } else {
                short_header = false;
                if icmp.kind == 2 {
                    icmp.mtu = layer.be32(4);
                }
                icmp.quoted = quoted_v6(p, layer.after(HEADER_LEN));
            }
        }
        other => {
            check_code(p, &mut icmp, other, layer, unknown_code);
            short_header = !icmp.has_id;
        }
    }
    // The second word is part of the header of errors and echoes only; in other messages it is
    // content. Suricata 8.0.7 counts the whole header all the same: the last eight bytes are not looked at.
    if short_header {
        let inside = layer.after(4);
        p.payload = inside.at;
        icmp.left_out = inside.len().min(HEADER_LEN) as u8;
        p.payload_len = (inside.len() - usize::from(icmp.left_out)) as u32;
    }
    p.transport = TransportHeader::Icmpv6(icmp);
}

/// Begins the message's payload after the header, whose length is that of Suricata 8.0.7.
fn payload_after(p: &mut Decoded, layer: Layer<'_>, header_len: usize) {
    let inside = layer.after(header_len);
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
}

/// The fields every message has.
fn header(p: &mut Decoded, layer: Layer<'_>) -> Option<Icmp> {
    let header = layer.data.first_chunk::<HEADER_LEN>()?;
    let inside = layer.after(HEADER_LEN);
    p.l4 = layer.at;
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    p.flags.set(Flags::WANTS_FLOW);
    Some(Icmp {
        kind: header[0],
        code: header[1],
        checksum: u16::from_be_bytes([header[2], header[3]]),
        ..Icmp::default()
    })
}

fn check_code(
    p: &mut Decoded,
    icmp: &mut Icmp,
    kind: Kind,
    layer: Layer<'_>,
    unknown_code: DecoderEvent,
) {
    let known = match kind {
        Kind::Echo => {
            // Suricata parses them for ICMPv4, whatever the code.
            icmp.has_id = icmp.code == 0 || p.network == Network::Ipv4;
            icmp.id = layer.be16(4);
            icmp.seq = layer.be16(6);
            icmp.code == 0
        }
        Kind::Plain => icmp.code == 0,
        Kind::Listener => {
            if icmp.code == 0 && p.ttl != 1 {
                p.event(DecoderEvent::Icmpv6MldHopLimit);
            }
            icmp.code == 0
        }
        Kind::Codes { last, or_255 } => icmp.code <= last || (or_255 && icmp.code == 255),
        Kind::Any | Kind::RouterAdvert | Kind::Error { .. } => true,
        Kind::Unknown(event) => {
            p.event(event);
            true
        }
    };
    if !known {
        p.event(unknown_code);
    }
}

fn quoted_v4(p: &mut Decoded, quote: Layer<'_>) -> Option<Quoted> {
    let Some(header) = quote.data.first_chunk::<{ ipv4::MIN_LEN }>() else {
        p.invalid(DecoderEvent::Icmpv4QuotedTruncated);
        return None;
    };
    if header[0] >> 4 != 4 {
        p.invalid(DecoderEvent::Icmpv4QuotedVersion);
        return None;
    }
    let header_len = usize::from(header[0] & 15) * 4;
    let mut quoted = Quoted {
        src: Addr::v4([header[12], header[13], header[14], header[15]]),
        dst: Addr::v4([header[16], header[17], header[18], header[19]]),
        at: quote.at,
        version: 4,
        proto: IpProto(header[9]),
        ..Quoted::default()
    };
    quoted_ports(&mut quoted, quote.after(header_len.max(ipv4::MIN_LEN)), IpProto::ICMP);
    Some(quoted)
}

fn quoted_v6(p: &mut Decoded, quote: Layer<'_>) -> Option<Quoted> {
    let Some(header) = quote.data.first_chunk::<{ ipv6::HEADER_LEN }>() else {
        p.invalid(DecoderEvent::Icmpv6QuotedTruncated);
        return None;
    };
    if header[0] >> 4 != 6 {
        p.invalid(DecoderEvent::Icmpv6QuotedVersion);
        return None;
    }
    let address = |from: usize| {
        header
            .get(from..)
            .and_then(|bytes| bytes.first_chunk::<16>())
            .map_or(Addr::default(), |bytes| Addr::v6(*bytes))
    };
    let mut quoted = Quoted {
        src: address(8),
        dst: address(24),
        at: quote.at,
        version: 6,
        proto: IpProto(header[6]),
        ..Quoted::default()
    };
    quoted_ports(&mut quoted, quote.after(ipv6::HEADER_LEN), IpProto::ICMPV6);
    Some(quoted)
}

/// The first four bytes after the quoted IP header.
fn quoted_ports(quoted: &mut Quoted, inside: Layer<'_>, icmp: IpProto) {
    if inside.len() < 4 {
        return;
    }
    match quoted.proto {
        IpProto::TCP | IpProto::UDP | IpProto::SCTP => {
            quoted.has_ports = true;
            quoted.sp = inside.be16(0);
            quoted.dp = inside.be16(2);
        }
        other if other == icmp => {
            quoted.has_ports = true;
            quoted.icmp = [inside.u8(0), inside.u8(1)];
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::{self, events, join};

    fn v4(kind: u8, code: u8, rest: &[u8]) -> Decoded {
        let message = join(&[&[kind, code, 0, 0, 0x12, 0x34, 0, 9], rest]);
        build::raw(&build::ipv4(1, &[], &message))
    }

    fn v6(hop_limit: u8, kind: u8, code: u8, rest: &[u8]) -> Decoded {
        let message = join(&[&[kind, code, 0, 0, 0x12, 0x34, 0, 9], rest]);
        build::raw(&build::ipv6_with(58, hop_limit, &message))
    }

    // Lengths of headers as 8.0.7 shows them to rules with `icmpv4.hdr` and `bsize`.
    #[test]
    fn some_messages_have_longer_headers() {
        let header_len = |d: &Decoded| d.payload - d.l4;
        assert_eq!(header_len(&v4(8, 0, &[0; 20])), 8);
        assert_eq!(header_len(&v4(13, 0, &[0; 20])), 20);
        assert_eq!(header_len(&v4(17, 0, &[0; 20])), 8);
        let advert = [9, 0, 0, 0, 1, 2, 0, 10, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(header_len(&build::raw(&build::ipv4(1, &[], &advert))), 16);
    }

    #[test]
    fn types_and_codes_are_checked_as_in_suricata() {
        let code: &[&str] = &["icmpv4.unknown_code"];
        let kind: &[&str] = &["icmpv4.unknown_type"];
        let cases: [(u8, u8, &[&str]); 14] = [
            (8, 0, &[]),
            (0, 0, &[]),
            (8, 1, code),
            (3, 16, code),
            (4, 1, code),
            (5, 4, code),
            (11, 2, code),
            (12, 3, code),
            (13, 0, &[]),
            (17, 1, code),
            (9, 0, code),
            (10, 0, kind),
            (42, 0, kind),
            (3, 15, &[]),
        ];
        for (number, code, expected) in cases {
            assert_eq!(events(&v4(number, code, &[])), expected, "{number} {code}");
        }
        let code: &[&str] = &["icmpv6.unknown_code"];
        let cases: [(u8, u8, u8, &[&str]); 14] = [
            (64, 128, 0, &[]),
            (64, 129, 1, code),
            (64, 1, 7, code),
            (64, 130, 0, &["icmpv6.mld_message_with_invalid_hl"]),
            (1, 143, 0, &[]),
            (255, 133, 1, code),
            (255, 138, 255, &[]),
            (255, 138, 3, code),
            (255, 139, 3, code),
            (255, 155, 77, &[]),
            (255, 5, 0, &["icmpv6.unassigned_type"]),
            (255, 100, 0, &["icmpv6.experimentation_type"]),
            (255, 201, 0, &["icmpv6.experimentation_type"]),
            (255, 255, 0, &["icmpv6.unknown_type"]),
        ];
        for (hop_limit, number, code, expected) in cases {
            assert_eq!(events(&v6(hop_limit, number, code, &[])), expected, "{number} {code}");
        }
        let short = build::ipv4(1, &[], &[8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(events(&build::raw(&short)), ["icmpv4.pkt_too_small"]);
        let short = build::ipv6(58, &[128, 0, 0, 0, 0, 0, 0]);
        assert_eq!(events(&build::raw(&short)), ["icmpv6.pkt_too_small"]);
    }

    #[test]
    fn echoes_carry_identifier_and_sequence() {
        for p in [v4(8, 0, b"x"), v6(64, 128, 0, b"x")] {
            let icmp = p.transport.icmp().expect("icmp");
            assert_eq!((icmp.has_id, icmp.id, icmp.seq), (true, 0x1234, 9));
            assert_eq!(p.payload_len, 1);
        }
        // In other ICMPv6 messages the header has only four bytes, and the last eight are left out.
        assert_eq!(v6(255, 133, 0, b"").payload_len, 0);
        assert_eq!(v6(255, 135, 0, &[7; 24]).payload_len, 20);
    }

    #[test]
    fn errors_show_the_quoted_packet() {
        let udp = build::udp(53, 4000, b"");
        let p = v4(3, 4, &build::ipv4(17, &[1, 1, 1, 0], &udp));
        let icmp = p.transport.icmp().expect("icmp");
        let quoted = icmp.quoted.expect("a quoted packet");
        assert_eq!(
            (quoted.src.text(4), quoted.dst.text(4)),
            ("10.0.0.1".into(), "10.0.0.2".into())
        );
        assert_eq!((quoted.sp, quoted.dp, quoted.proto.0, quoted.version), (53, 4000, 17, 4));
        assert!(quoted.has_ports && quoted.at == 28 && icmp.mtu == 9);

        let p = v6(64, 2, 0, &build::ipv6(17, &udp));
        let quoted = p.transport.icmp().and_then(|icmp| icmp.quoted).expect("a quoted packet");
        assert_eq!((quoted.sp, quoted.dp, quoted.proto.0, quoted.version), (53, 4000, 17, 6));

        let p = v4(11, 0, &build::ipv4(1, &[], &[8, 0, 0, 0, 0, 0, 0, 0]));
        let quoted = p.transport.icmp().and_then(|icmp| icmp.quoted).expect("a quoted packet");
        assert_eq!(quoted.icmp, [8, 0]);

        let cases = [
            (v4(3, 1, &[0x45; 19]), "icmpv4.ipv4_trunc_pkt"),
            (v4(3, 1, &[0x65; 20]), "icmpv4.ipv4_unknown_ver"),
            (v6(64, 1, 0, &[0x60; 39]), "icmpv6.ipv6_trunc_pkt"),
            (v6(64, 1, 0, &[0x40; 40]), "icmpv6.ipv6_unknown_version"),
        ];
        for (p, event) in cases {
            assert_eq!(events(&p), [event]);
            assert!(p.transport.icmp().is_some_and(|icmp| icmp.quoted.is_none()));
        }
    }
}

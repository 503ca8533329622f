//! UDP (RFC 768), SCTP (RFC 9260) and ESP (RFC 4303) headers.

use crate::counters::Counter;
use crate::decode::Run;
use crate::decoded::{Decoded, Flags};
use crate::layer::Layer;
use crate::limits::MAX_IP_LEN;
use crate::overlay;
use crate::transport::{Esp, Sctp, TransportHeader, Udp};
use gabion_record::DecoderEvent;
use gabion_record::IpProto;

/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

#[inline]
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    run.counters.count(Counter::Udp);
    p.proto = IpProto::UDP;
    let Some(header) = layer.data.first_chunk::<UDP_LEN>() else {
        p.invalid(DecoderEvent::UdpHeaderTooSmall);
        return;
    };
    let len = u16::from_be_bytes([header[4], header[5]]);
    if usize::from(len) > layer.len() {
        p.invalid(DecoderEvent::UdpPacketTooSmall);
        return;
    }
    // Zero is the length of a datagram beyond 65,535 bytes (RFC 2675).
    let total = if len == 0 && layer.len() > MAX_IP_LEN { layer.len() } else { usize::from(len) };
    if total < UDP_LEN {
        p.invalid(DecoderEvent::UdpLenInvalid);
        return;
    }
    let inside = layer.first(total).after(UDP_LEN);
    p.sp = u16::from_be_bytes([header[0], header[1]]);
    p.dp = u16::from_be_bytes([header[2], header[3]]);
    p.l4 = layer.at;
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    p.transport =
        TransportHeader::Udp(Udp { len, checksum: u16::from_be_bytes([header[6], header[7]]) });
    p.flags.set(Flags::WANTS_FLOW);
    let config = run.config;
    if (config.teredo.has(p.sp) || config.teredo.has(p.dp))
        && overlay::decode_teredo(run, p, inside)
    {
        return;
    }
    if (config.geneve.has(p.sp) || config.geneve.has(p.dp))
        && overlay::decode_geneve(run, p, inside)
    {
        return;
    }
    if config.vxlan.has(p.dp) {
        overlay::decode_vxlan(run, p, inside);
    }
}

pub(crate) fn decode_sctp(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    const LEN: usize = 12;
    run.counters.count(Counter::Sctp);
    p.proto = IpProto::SCTP;
    if layer.len() < LEN {
        p.invalid(DecoderEvent::SctpPacketTooSmall);
        return;
    }
    let inside = layer.after(LEN);
    p.sp = layer.be16(0);
    p.dp = layer.be16(2);
    p.l4 = layer.at;
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    p.transport = TransportHeader::Sctp(Sctp { tag: layer.be32(4), checksum: layer.be32(8) });
    p.flags.set(Flags::WANTS_FLOW);
}

pub(crate) fn decode_esp(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    const LEN: usize = 8;
    run.counters.count(Counter::Esp);
    p.proto = IpProto::ESP;
    if layer.len() < LEN {
        p.invalid(DecoderEvent::EspPacketTooSmall);
        return;
    }
    let inside = layer.after(LEN);
    p.l4 = layer.at;
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    p.transport = TransportHeader::Esp(Esp { spi: layer.be32(0), seq: layer.be32(4) });
    p.flags.set(Flags::WANTS_FLOW);
}

#[cfg(test)]
mod tests {
    use crate::build::{self, events, join};
    use crate::decoded::Flags;
    use crate::transport::TransportHeader;

    #[test]
    fn lengths_are_checked() {
        let with_len = |len: u8| join(&[&[0, 1, 0, 2, 0, len, 0, 0], b"data"]);
        let cases: [(Vec<u8>, &[&str]); 5] = [
            (with_len(12), &[]),
            // Shorter than the captured bytes: the rest is padding.
            (with_len(10), &[]),
            (with_len(13), &["udp.pkt_too_small"]),
            (with_len(7), &["udp.len_invalid"]),
            (with_len(12)[..7].to_vec(), &["udp.hlen_too_small"]),
        ];
        for (datagram, expected) in cases {
            let p = build::raw(&build::ipv4(17, &[], &datagram));
            assert_eq!(events(&p), expected, "{datagram:?}");
            assert_eq!(p.transport.is_some(), expected.is_empty());
            assert_eq!(p.flags.has(Flags::INVALID), !expected.is_empty());
            // Suricata names the protocol in records even if the header is broken.
            assert_eq!(p.proto, gabion_record::IpProto::UDP);
        }
        assert_eq!(build::raw(&build::ipv4(17, &[], &with_len(10))).payload_len, 2);
    }

    #[test]
    fn sctp_and_esp_are_read() {
        let sctp = [0, 1, 0, 2, 0, 0, 0, 9, 0, 0, 0, 7, 1, 2, 3];
        let p = build::raw(&build::ipv4(132, &[], &sctp));
        let TransportHeader::Sctp(header) = p.transport else { panic!("sctp") };
        assert_eq!((p.sp, p.dp, header.tag, header.checksum, p.payload_len), (1, 2, 9, 7, 3));
        assert_eq!(
            events(&build::raw(&build::ipv4(132, &[], &sctp[..11]))),
            ["sctp.pkt_too_small"]
        );

        let chunks = [&sctp[..12], &[1, 0, 0, 6, 9, 9, 0, 0, 3, 0, 0, 4, 0, 0, 0, 3]].concat();
        let packet = build::ipv4(132, &[], &chunks);
        assert_eq!(build::raw(&packet).sctp_chunk_count(&packet), 2);

        let esp = [0, 0, 0, 5, 0, 0, 0, 6, 1, 2];
        for packet in [build::ipv4(50, &[], &esp), build::ipv6(50, &esp)] {
            let p = build::raw(&packet);
            let TransportHeader::Esp(header) = p.transport else { panic!("esp") };
            assert_eq!((header.spi, header.seq, p.payload_len), (5, 6, 2));
        }
        assert_eq!(events(&build::raw(&build::ipv4(50, &[], &esp[..7]))), ["esp.pkt_too_small"]);
    }
}

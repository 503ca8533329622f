//! Overlay networks in UDP and GRE: Teredo (RFC 4380), Geneve (RFC 8926), VXLAN (RFC 7348), ERSPAN.
//!
//! None of them can be distinguished from other traffic on its port with certainty, so each decoder
//! refuses bytes that do not fit and raises no event; the packet is then plain UDP.

use crate::counters::Counter;
use crate::decode::{Outcome, Payload, Reject, Run};
use crate::decoded::{Decoded, PacketSource};
use crate::ethernet::{self, ETHERNET_LEN, ethertype};
use crate::ipv6;
use crate::layer::Layer;
use gabion_record::DecoderEvent;

/// IPv6 in UDP, perhaps after an origin indication of eight bytes. Returns true if it was Teredo.
#[cold]
pub(crate) fn decode_teredo(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> bool {
    if layer.len() < ipv6::HEADER_LEN {
        return false;
    }
    // Zero is the first byte of an indication: origin (0), or authentication (1), which is
    // negotiation and not yet a tunnel.
    let inside = match (layer.u8(0), layer.u8(1)) {
        (0, 0) => layer.after(8),
        (0, _) => return false,
        _ => layer,
    };
    if inside.len() < ipv6::HEADER_LEN || inside.u8(0) >> 4 != 6 {
        return false;
    }
    let payload_len = usize::from(inside.be16(4));
    let (next, hop_limit) = (inside.u8(6), inside.u8(7));
    if hop_limit == 0 || (next == 0 && payload_len < 8) {
        return false;
    }
    if inside.len() != ipv6::HEADER_LEN + payload_len {
        return false;
    }
    if !run.tunnel(p, inside, Payload::Teredo, PacketSource::Teredo) {
        return false;
    }
    run.counters.count(Counter::Teredo);
    true
}

/// Geneve. Returns true if it was Geneve.
#[cold]
pub(crate) fn decode_geneve(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> bool {
    const MIN_LEN: usize = 8;
    if layer.len() < MIN_LEN || layer.u8(0) >> 6 != 0 {
        return false;
    }
    let len = MIN_LEN + usize::from(layer.u8(0) & 0x3f) * 4;
    if len > layer.len() || !geneve_options_fit(layer.first(len).after(MIN_LEN)) {
        return false;
    }
    run.counters.count(Counter::Geneve);
    let inside = layer.after(len);
    let payload = match layer.be16(2) {
        ethertype::IPV4 => Payload::Ipv4,
        ethertype::IPV6 => Payload::Ipv6,
        ethertype::BRIDGE => Payload::Ethernet,
        ethertype::ARP => return true,
        _ => {
            p.invalid(DecoderEvent::GeneveUnknownPayload);
            return true;
        }
    };
    run.tunnel(p, inside, payload, PacketSource::Geneve);
    true
}

/// Whether the options (class, type, length in words) fill their length exactly.
fn geneve_options_fit(mut options: Layer<'_>) -> bool {
    while options.len() > 0 {
        let len = 4 + usize::from(options.u8(3) & 0x1f) * 4;
        if options.len() < len {
            return false;
        }
        options = options.after(len);
    }
    true
}

/// VXLAN. Returns true if it was VXLAN.
#[cold]
pub(crate) fn decode_vxlan(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> bool {
    const LEN: usize = 8;
    if layer.len() < LEN + ETHERNET_LEN {
        return false;
    }
    // The flag that announces a network identifier; the last byte is reserved.
    if layer.u8(0) & 0x08 == 0 || layer.u8(7) != 0 {
        return false;
    }
    run.counters.count(Counter::Vxlan);
    let frame = layer.after(LEN);
    let payload = match frame.be16(12) {
        ethertype::IPV4 => Payload::Ipv4,
        ethertype::IPV6 => Payload::Ipv6,
        ethertype::VLAN | ethertype::PROVIDER_BRIDGE => Payload::Vlan,
        ethertype::ARP => return true,
        _ => {
            p.invalid(DecoderEvent::VxlanUnknownPayload);
            return true;
        }
    };
    run.tunnel(p, frame.after(ETHERNET_LEN), payload, PacketSource::Vxlan);
    true
}

/// ERSPAN type I: an Ethernet frame without a header of its own.
pub(crate) fn decode_erspan_i(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    run.counters.count(Counter::Erspan);
    ethernet::decode(run, p, layer)
}

/// ERSPAN type II: version, VLAN and session, then an Ethernet frame.
pub(crate) fn decode_erspan_ii(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> Outcome {
    const LEN: usize = 8;
    run.counters.count(Counter::Erspan);
    if layer.len() < LEN {
        p.invalid(DecoderEvent::ErspanHeaderTooSmall);
        return Err(Reject);
    }
    run.enter_layer(p)?;
    let first = layer.be16(0);
    if first >> 12 != 1 {
        p.invalid(DecoderEvent::ErspanUnsupportedVersion);
        return Err(Reject);
    }
    let vlan = first & 0x0fff;
    if vlan > 0 && !ethernet::push_vlan(p, vlan) {
        p.invalid(DecoderEvent::ErspanTooManyVlans);
        return Err(Reject);
    }
    ethernet::decode(run, p, layer.after(LEN))
}

#[cfg(test)]
mod tests {
    use crate::build::{self, events, join};
    use crate::link::Link;

    const GENEVE: u16 = 6081;
    const VXLAN: u16 = 4789;
    const TEREDO: u16 = 3544;

    fn over_udp(sp: u16, dp: u16, content: &[u8]) -> Vec<u8> {
        build::ipv4(17, &[], &build::udp(sp, dp, content))
    }

    #[test]
    fn what_fits_is_a_packet_of_its_own() {
        let ip = build::ipv4(17, &[], &build::udp(1, 2, b"x"));
        let ip6 = build::ipv6(17, &build::udp(1, 2, b"x"));
        let wire = build::ethernet(0x0800, &ip);
        let tagged = build::ethernet_tagged(&[0x81, 0, 0, 5, 8, 0], &ip);
        let vxlan = |inside: &[u8]| join(&[&[8, 0, 0, 0, 0, 0, 9, 0], inside]);
        let geneve = |kind: [u8; 2], inside: &[u8]| join(&[&[0, 0], &kind, &[0; 4], inside]);
        let option = join(&[&[2, 0, 8, 0, 0, 0, 0, 0], &[1, 2, 3, 1, 0, 0, 0, 0], &ip]);
        let cases: Vec<(u16, u16, Vec<u8>, &str)> = vec![
            (1, VXLAN, vxlan(&wire), "vxlan encapsulation"),
            (1, VXLAN, vxlan(&tagged), "vxlan encapsulation"),
            (1, GENEVE, geneve([8, 0], &ip), "geneve encapsulation"),
            (GENEVE, 1, geneve([0x86, 0xdd], &ip6), "geneve encapsulation"),
            (1, GENEVE, geneve([0x65, 0x58], &wire), "geneve encapsulation"),
            (1, GENEVE, option, "geneve encapsulation"),
            (1, TEREDO, ip6.clone(), "teredo tunnel"),
            (TEREDO, 1, join(&[&[0; 8], &ip6]), "teredo tunnel"),
        ];
        for (sp, dp, content, source) in cases {
            let packet = over_udp(sp, dp, &content);
            let (set, _) = build::run(Link::Raw, &packet);
            let [inner] = set.inner() else { panic!("{source}: one packet inside") };
            assert_eq!((inner.payload(&packet), inner.source.name()), (b"x".as_slice(), source));
            assert_eq!((set.root().sp, set.root().dp), (sp, dp));
        }
    }

    /// Suricata decodes these as plain UDP, except for the payloads that it names by an event.
    #[test]
    fn what_does_not_fit_stays_udp() {
        let ip6 = build::ipv6(17, &build::udp(1, 2, b"x"));
        let hop_limit_zero = build::ipv6_with(17, 0, &build::udp(1, 2, b"x"));
        let cut = &ip6[..ip6.len() - 1];
        let frame = build::ethernet(0x9999, &[0; 20]);
        let cases: Vec<(u16, u16, Vec<u8>, &[&str])> = vec![
            (1, TEREDO, cut.to_vec(), &[]),
            (1, TEREDO, hop_limit_zero, &[]),
            (1, TEREDO, join(&[&[0, 1, 0, 0, 0, 0, 0, 0], &ip6]), &[]),
            (1, TEREDO, build::ipv6(0, &[17, 9, 0, 0, 0, 0, 0, 0]), &[]),
            (1, 3545, ip6, &[]),
            (VXLAN, 1, join(&[&[8, 0, 0, 0, 0, 0, 9, 0], &frame]), &[]),
            (1, VXLAN, join(&[&[0, 0, 0, 0, 0, 0, 9, 0], &frame]), &[]),
            (1, VXLAN, vec![8, 0, 0, 0, 0, 0, 9, 0], &[]),
            (1, VXLAN, join(&[&[8, 0, 0, 0, 0, 0, 9, 0], &frame]), &["vxlan.unknown_payload_type"]),
            (1, GENEVE, vec![0x40, 0, 8, 0, 0, 0, 0, 0], &[]),
            (1, GENEVE, vec![2, 0, 8, 0, 0, 0, 0, 0], &[]),
            (1, GENEVE, join(&[&[1, 0, 8, 0, 0, 0, 0, 0], &[0, 0, 0, 1]]), &[]),
            (1, GENEVE, vec![0, 0, 0x99, 0x99, 0, 0, 0, 0], &["geneve.unknown_payload_type"]),
        ];
        for (sp, dp, content, expected) in cases {
            let (set, _) = build::run(Link::Raw, &over_udp(sp, dp, &content));
            assert_eq!(set.count(), 1, "{content:?}");
            assert_eq!(events(set.root()), expected, "{content:?}");
        }
    }
}

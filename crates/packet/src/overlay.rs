//! Networks laid over UDP and GRE: Teredo (RFC 4380), Geneve (RFC 8926), VXLAN (RFC 7348), ERSPAN.
//!
//! None of them can be told from other traffic on its port with certainty, so each refuses what
//! does not fit rather than raise events; the packet then is plain UDP.

use crate::counters::Counter;
use crate::decode::{Outcome, Payload, Reject, Run};
use crate::decoded::{Decoded, PacketSource};
use crate::ethernet::{self, ETHERNET_LEN, ethertype};
use crate::event::DecoderEvent;
use crate::ipv6;
use crate::layer::Layer;

/// IPv6 in UDP, perhaps behind an origin indication of eight bytes. True when it was that.
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

/// Geneve. True when it was that.
#[cold]
pub(crate) fn decode_geneve(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> bool {
    const MIN_LEN: usize = 8;
    if layer.len() < MIN_LEN || layer.u8(0) >> 6 != 0 {
        return false;
    }
    let len = MIN_LEN + usize::from(layer.u8(0) & 0x3f) * 4;
    if len > layer.len() || !geneve_options_fit(layer.take(len).after(MIN_LEN)) {
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

/// Whether the options (class, type, length in words) fill their room exactly.
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

/// VXLAN. True when it was that.
#[cold]
pub(crate) fn decode_vxlan(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) -> bool {
    const LEN: usize = 8;
    if layer.len() < LEN + ETHERNET_LEN {
        return false;
    }
    // The flag that says there is a network identifier; the last byte is reserved.
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
    run.enter(p)?;
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

//! UDP (RFC 768), SCTP (RFC 9260) and ESP (RFC 4303) headers.

use crate::counters::Counter;
use crate::decode::Run;
use crate::decoded::{Decoded, Flags};
use crate::event::DecoderEvent;
use crate::ipv4::protocol;
use crate::layer::Layer;
use crate::limits::MAX_IP_LEN;
use crate::overlay;
use crate::transport::{Esp, Sctp, Transport, Udp};

/// Bytes of a UDP header.
const UDP_LEN: usize = 8;

#[inline]
pub(crate) fn decode(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    run.counters.count(Counter::Udp);
    p.proto = protocol::UDP;
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
    let inside = layer.take(total).after(UDP_LEN);
    p.sp = u16::from_be_bytes([header[0], header[1]]);
    p.dp = u16::from_be_bytes([header[2], header[3]]);
    p.l4 = layer.at;
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    p.transport = Transport::Udp(Udp { len, checksum: u16::from_be_bytes([header[6], header[7]]) });
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
    p.proto = protocol::SCTP;
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
    p.transport = Transport::Sctp(Sctp { tag: layer.be32(4), checksum: layer.be32(8) });
    p.flags.set(Flags::WANTS_FLOW);
}

pub(crate) fn decode_esp(run: &mut Run<'_>, p: &mut Decoded, layer: Layer<'_>) {
    const LEN: usize = 8;
    run.counters.count(Counter::Esp);
    p.proto = protocol::ESP;
    if layer.len() < LEN {
        p.invalid(DecoderEvent::EspPacketTooSmall);
        return;
    }
    let inside = layer.after(LEN);
    p.l4 = layer.at;
    p.payload = inside.at;
    p.payload_len = inside.len() as u32;
    p.transport = Transport::Esp(Esp { spi: layer.be32(0), seq: layer.be32(4) });
    p.flags.set(Flags::WANTS_FLOW);
}

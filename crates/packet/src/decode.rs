//! Entry points, which decode a frame or a reassembled IP packet into a set of packets.
//!
//! Contract of the hot path: no allocation, no lock, no log, no `dyn`; every layer reads only its
//! own header; checksums are computed only on request ([`crate::checksum`]). Recursion is bounded
//! by [`DecodeConfig::max_layers`]: each header that can contain another of its kind passes
//! [`Run::enter_layer`].
//!
//! Each decoder returns `Ok` or [`Reject`]. It returns `Reject` if its own header cannot be used: a
//! packet in a tunnel is then discarded with its events (as in Suricata), while the root stays and
//! keeps its events.

use crate::config::DecodeConfig;
use crate::counters::{Counter, DecodeCounters};
use crate::decoded::{Decoded, Flags, Network, PacketSet, PacketSource};
use crate::layer::Layer;
use crate::link::Link;
use crate::{ethernet, ipv4, ipv6, overlay, ppp};
use gabion_record::DecoderEvent;

/// The header at the start cannot be used.
pub(crate) struct Reject;

/// What a decoder returns.
pub(crate) type Outcome = Result<(), Reject>;

/// The protocol that a tunnel declares for its content.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    Ipv4,
    Ipv6,
    /// IPv6 in Teredo: discarded without an event if anything is wrong with it.
    Teredo,
    Ethernet,
    Vlan,
    Ppp,
    ErspanI,
    ErspanII,
    Arp,
}

/// Everything decoders share while one frame is decoded.
pub(crate) struct Run<'r> {
    pub(crate) config: &'r DecodeConfig,
    pub(crate) counters: &'r mut DecodeCounters,
    /// Slots for packets found inside the one being decoded.
    slots: &'r mut [Decoded],
    /// Packets found inside so far.
    found: u8,
}

impl Run<'_> {
    /// Counts one more layer; fails (with an event) when there are too many.
    #[inline]
    pub(crate) fn enter_layer(&mut self, p: &mut Decoded) -> Outcome {
        p.layers = p.layers.saturating_add(1);
        if p.layers >= self.config.max_layers {
            p.invalid(DecoderEvent::TooManyLayers);
            return Err(Reject);
        }
        Ok(())
    }

    /// Decodes what a tunnel of `parent` carries as a packet of its own. Returns false if it is
    /// none.
    pub(crate) fn tunnel(
        &mut self,
        parent: &mut Decoded,
        inside: Layer<'_>,
        payload: Payload,
        source: PacketSource,
    ) -> bool {
        if parent.layers.saturating_add(1) >= self.config.max_layers {
            parent.invalid(DecoderEvent::TooManyLayers);
            return false;
        }
        let Some((child, rest)) = self.slots.split_first_mut() else {
            parent.invalid(DecoderEvent::TooManyLayers);
            return false;
        };
        child.reset();
        child.start = inside.at;
        child.len = inside.len() as u32;
        child.depth = parent.depth.saturating_add(1);
        child.layers = parent.layers + 1;
        child.source = source;
        if parent.flags.has(Flags::REASSEMBLED) {
            child.flags.set(Flags::REASSEMBLED);
        }
        let mut run =
            Run { config: self.config, counters: &mut *self.counters, slots: rest, found: 0 };
        let outcome = match payload {
            Payload::Ipv4 => ipv4::decode(&mut run, child, inside),
            Payload::Ipv6 | Payload::Teredo => ipv6::decode(&mut run, child, inside),
            Payload::Ethernet => ethernet::decode(&mut run, child, inside),
            Payload::Vlan => ethernet::decode_vlan(&mut run, child, inside),
            Payload::Ppp => ppp::decode(&mut run, child, inside),
            Payload::ErspanI => overlay::decode_erspan_i(&mut run, child, inside),
            Payload::ErspanII => overlay::decode_erspan_ii(&mut run, child, inside),
            Payload::Arp => ethernet::decode_arp(&mut run, child, inside),
        };
        let found = run.found;
        let broken = child.flags.has(Flags::INVALID);
        if outcome.is_err() || (payload == Payload::Teredo && broken) {
            // The packet is discarded with its events, but this event is about the frame.
            if child.events.contains(DecoderEvent::TooManyLayers) {
                parent.invalid(DecoderEvent::TooManyLayers);
            }
            return false;
        }
        self.found = found.saturating_add(1);
        parent.flags.set(Flags::HAS_INNER);
        true
    }
}

/// Decodes one frame of `link` into `set`, which is emptied first. Events are not counted here: the
/// engine does it with [`DecodeCounters::count_events`] for each packet that it works on, after
/// reassembly has added its own. `frame` is what was captured; if it was cut short, the layer whose
/// bytes are missing raises an event.
pub fn decode(
    set: &mut PacketSet,
    counters: &mut DecodeCounters,
    config: &DecodeConfig,
    link: Link,
    frame: &[u8],
) {
    let frame = frame.get(..u32::MAX as usize).unwrap_or(frame);
    let root = &mut set.root;
    root.reset();
    root.len = frame.len() as u32;
    counters.count_frame(frame.len() as u64);
    let mut run = Run { config, counters, slots: &mut set.inner, found: 0 };
    let layer = Layer::new(frame, 0);
    let _ = match link {
        Link::Ethernet => ethernet::decode(&mut run, root, layer),
        Link::Null => ethernet::decode_null(&mut run, root, layer),
        Link::Raw | Link::Ipv4 | Link::Ipv6 => ethernet::decode_raw(&mut run, root, layer),
        Link::Ppp => ppp::decode(&mut run, root, layer),
        Link::Pppoe => ppp::decode_pppoe(&mut run, root, layer),
        Link::CiscoHdlc => ethernet::decode_cisco_hdlc(&mut run, root, layer),
        Link::LinuxCooked => ethernet::decode_linux_cooked(&mut run, root, layer),
        Link::LinuxCooked2 => ethernet::decode_linux_cooked2(&mut run, root, layer),
    };
    set.inner_count = run.found;
    if set.root.flags.has(Flags::INVALID) {
        counters.count(Counter::Invalid);
    }
}

/// Decodes an IP packet that was put together from fragments into `set`, which is emptied first.
/// `packet` begins with the IP header; offsets count from its start. VLANs, tunnel depth and layers
/// are taken from `fragment`, the fragment that completed it. Returns false if it is not a usable
/// packet: it is then discarded with its events, as in Suricata.
pub fn decode_ip_reassembled(
    set: &mut PacketSet,
    counters: &mut DecodeCounters,
    config: &DecodeConfig,
    fragment: &Decoded,
    packet: &[u8],
) -> bool {
    let root = &mut set.root;
    root.reset();
    root.len = packet.len() as u32;
    root.vlans = fragment.vlans;
    root.vlan_count = fragment.vlan_count;
    root.depth = fragment.depth;
    root.layers = fragment.layers;
    root.source = PacketSource::Defrag;
    root.flags.set(Flags::REASSEMBLED);
    let mut run = Run { config, counters, slots: &mut set.inner, found: 0 };
    let layer = Layer::new(packet, 0);
    let outcome = match fragment.network {
        Network::Ipv4 => ipv4::decode(&mut run, root, layer),
        Network::Ipv6 => ipv6::decode(&mut run, root, layer),
        Network::None | Network::Arp => Err(Reject),
    };
    set.inner_count = run.found;
    if outcome.is_err() {
        set.inner_count = 0;
        return false;
    }
    true
}

//! The headers of a frame for filters: parsed as deep as in libpcap.

use super::Layer;
use gabion_record::IpProto;

pub(super) const ETHER_IP: u16 = 0x0800;
pub(super) const ETHER_IP6: u16 = 0x86dd;
pub(super) const ETHER_ARP: u16 = 0x0806;
pub(super) const ETHER_RARP: u16 = 0x8035;
pub(super) const ETHER_TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];

/// Offsets of the layers in a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headers<'a> {
    frame: &'a [u8],
    /// Ethertype after the skipped tags; 0 if unknown.
    pub(super) ether_type: u16,
    /// Start of the network layer.
    net: usize,
    /// Start of the transport layer.
    transport: usize,
    /// Transport protocol: of IPv4, or of IPv6 without extension headers.
    pub(super) protocol: Option<IpProto>,
    /// Protocol after an IPv6 fragment header.
    fragmented_protocol: Option<IpProto>,
    is_later_fragment: bool,
}

fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk::<2>().map(|b| u16::from_be_bytes(*b))
}

/// Start of the network layer and its ethertype, without skipping tags.
fn network(link: u16, frame: &[u8]) -> Option<(usize, u16)> {
    let by_version = |at: usize| match frame.get(at)? >> 4 {
        4 => Some((at, ETHER_IP)),
        6 => Some((at, ETHER_IP6)),
        _ => None,
    };
    match link {
        1 => Some((14, word(frame, 12)?)),
        113 => Some((16, word(frame, 14)?)),
        276 => Some((20, word(frame, 0)?)),
        9 | 50 | 51 => {
            let framed = frame.starts_with(&[0xff, 3]);
            let at = if framed { 2 } else { 0 };
            let kind = match word(frame, at)? {
                0x21 => ETHER_IP,
                0x57 => ETHER_IP6,
                other => other,
            };
            Some((at + 2, kind))
        }
        0 | 108 => by_version(4),
        12 | 14 | 101 | 228 | 229 => by_version(0),
        _ => None,
    }
}

/// The id of the tag after the first `tags`.
pub(super) fn vlan_tag(link: u16, frame: &[u8], tags: u8) -> Option<u16> {
    let (at, kind) = after_tags(link, frame, tags)?;
    ETHER_TAGS.contains(&kind).then_some(())?;
    word(frame, at).map(|tag| tag & 0x0fff)
}

fn after_tags(link: u16, frame: &[u8], tags: u8) -> Option<(usize, u16)> {
    let (mut at, mut kind) = network(link, frame)?;
    for _ in 0..tags {
        ETHER_TAGS.contains(&kind).then_some(())?;
        kind = word(frame, at + 2)?;
        at += 4;
    }
    Some((at, kind))
}

impl<'a> Headers<'a> {
    /// The headers of a frame after the first `tags` tags; `None` if it has fewer.
    pub(super) fn parse(link: u16, frame: &'a [u8], tags: u8) -> Option<Headers<'a>> {
        let (net, ether_type) = after_tags(link, frame, tags)?;
        let mut h = Headers {
            frame,
            ether_type,
            net,
            transport: net,
            protocol: None,
            fragmented_protocol: None,
            is_later_fragment: false,
        };
        match ether_type {
            ETHER_IP => {
                h.protocol = frame.get(net + 9).copied().map(IpProto);
                h.transport = net + usize::from(frame.get(net)? & 0x0f) * 4;
                h.is_later_fragment = word(frame, net + 6).is_some_and(|w| w & 0x1fff != 0);
            }
            ETHER_IP6 => {
                h.protocol = frame.get(net + 6).copied().map(IpProto);
                h.transport = net + 40;
                if h.protocol == Some(IpProto::FRAGMENT) {
                    h.fragmented_protocol = frame.get(net + 40).copied().map(IpProto);
                }
            }
            _ => {}
        }
        Some(h)
    }

    pub(super) fn has(&self, layer: Layer) -> bool {
        match layer {
            Layer::Link => true,
            Layer::Ip => self.ether_type == ETHER_IP,
            Layer::Ip6 => self.ether_type == ETHER_IP6,
            Layer::Arp => self.ether_type == ETHER_ARP,
            Layer::Rarp => self.ether_type == ETHER_RARP,
            Layer::Transport(p) => {
                // Each version of ICMP belongs to one version of IP.
                let version = match p {
                    IpProto::ICMP | IpProto::IGMP => self.ether_type == ETHER_IP,
                    IpProto::ICMPV6 => self.ether_type == ETHER_IP6,
                    _ => true,
                };
                version && self.protocols().contains(&Some(p))
            }
        }
    }

    /// Transport protocols the frame counts as.
    pub(super) fn protocols(&self) -> [Option<IpProto>; 2] {
        [self.protocol, self.fragmented_protocol]
    }

    pub(super) fn has_ports(&self) -> bool {
        self.protocol.is_some_and(IpProto::has_ports)
    }

    pub(super) fn ports(&self) -> Option<(u16, u16)> {
        if self.is_later_fragment {
            return None;
        }
        Some((word(self.frame, self.transport)?, word(self.frame, self.transport + 2)?))
    }

    /// Source and destination of IP, or of ARP's sender and target.
    pub(super) fn addresses(&self, is_v6: bool) -> Option<(&'a [u8], &'a [u8])> {
        let (src, dst, len) = match (self.ether_type, is_v6) {
            (ETHER_IP, false) => (12, 16, 4),
            (ETHER_IP6, true) => (8, 24, 16),
            (ETHER_ARP | ETHER_RARP, false) => (14, 24, 4),
            _ => return None,
        };
        let part = |at: usize| self.frame.get(self.net + at..self.net + at + len);
        Some((part(src)?, part(dst)?))
    }

    pub(super) fn link_bytes(&self, at: usize, len: usize) -> Option<&'a [u8]> {
        self.frame.get(at..at.checked_add(len)?)
    }

    /// Bytes of a layer, if it is present.
    pub(super) fn layer_bytes(&self, layer: Layer, at: usize, len: usize) -> Option<&'a [u8]> {
        let start = match layer {
            Layer::Link => 0,
            // As in libpcap: bytes of transport headers over IPv4, of ICMPv6 over IPv6.
            Layer::Transport(p) => {
                let over = if p == IpProto::ICMPV6 { ETHER_IP6 } else { ETHER_IP };
                let is_there = self.has(layer) && self.ether_type == over;
                (is_there && !self.is_later_fragment).then_some(self.transport)?
            }
            Layer::Ip | Layer::Ip6 | Layer::Arp | Layer::Rarp => {
                self.has(layer).then_some(self.net)?
            }
        };
        let from = start.checked_add(at)?;
        self.frame.get(from..from.checked_add(len)?)
    }
}

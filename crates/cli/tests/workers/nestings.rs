//! Conversations whose packets come in constantly changing wrappings, with fragments inside and outside.
//!
//! The sender of packets chooses how they are wrapped. Whatever the decoder sees through, frames must
//! be spread by what is inside, or a flow is cut in two where there are several workers.

use super::program::packets::{CLIENT, SERVER, ipv4, tcp, udp};

/// Numbers that look random and are the same in each run (Vigna's xorshift64*).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What a layer is put around, and what it gives.
#[derive(Clone)]
enum Unit {
    Ip(Vec<u8>),
    Ethernet(Vec<u8>),
}

/// One layer of a wrapping. The numbers of tags and labels, ports and addresses of tunnels are drawn
/// once, so that all packets of one wrapping go the same way.
#[derive(Clone)]
enum Layer {
    /// IP in IP of this version, after these extension headers.
    Ip(u8, Vec<u8>, Ends),
    /// GRE with these optional words, in IP of this version; as Ethernet, as what it is, or in ERSPAN.
    Gre(u8, u16, Gre, Ends),
    /// Teredo, VXLAN or Geneve, in IP of this version.
    Overlay(u8, Overlay, Ends),
    /// Tags, labels and headers between an Ethernet header and IP or Ethernet.
    Link(Vec<Tag>),
}

type Ends = [u8; 2];

#[derive(Clone, Copy)]
enum Gre {
    Plain,
    Bridge,
    Vlan,
    Ppp,
    ErspanI,
    ErspanII,
}

#[derive(Clone, Copy)]
enum Overlay {
    Teredo,
    Vxlan,
    Geneve,
    /// A tunnel's header on a port where none is looked for.
    Unknown,
}

#[derive(Clone, Copy)]
enum Tag {
    Vlan(u16),
    Vntag,
    Etag,
    Backbone,
    Dce,
    Pppoe,
    Mpls(usize),
    PseudoWire(usize),
    Nsh(u8),
}

/// How a conversation's packets come: layers from the inside out.
pub(crate) struct Wrapping(Vec<Layer>);

const TUNNEL_PORTS: [[u16; 2]; 4] = [[3544, 40_000], [50_000, 4789], [6081, 6081], [50_000, 8472]];

impl Wrapping {
    /// A wrapping of up to five layers, each of any kind.
    pub(crate) fn random(r: &mut Random) -> Wrapping {
        Wrapping((0..r.below(6)).map(|_| Layer::random(r)).collect())
    }

    /// The packet in its wrapping as frames of Ethernet: several where it was cut into fragments.
    pub(crate) fn frames(&self, packet: &[u8], id: u16, r: &mut Random) -> Vec<Vec<u8>> {
        let mut units = vec![Unit::Ip(packet.to_vec())];
        for layer in &self.0 {
            let mut next = Vec::new();
            for unit in units {
                for piece in cut(unit, id.wrapping_add(next.len() as u16), r) {
                    next.push(layer.around(piece));
                }
            }
            units = next;
            if units.len() > 12 {
                break;
            }
        }
        let cut = units.into_iter().flat_map(|unit| cut(unit, id ^ 0x5555, r));
        cut.map(|unit| match unit {
            Unit::Ip(ip) => ethernet(ethertype(&ip), &ip),
            Unit::Ethernet(frame) => frame,
        })
        .collect()
    }
}

impl Layer {
    fn random(r: &mut Random) -> Layer {
        let version = if r.one_in(2) { 4 } else { 6 };
        // Few hosts keep tunnels, so that their flows meet.
        let ends = [r.below(3) as u8, r.below(3) as u8 + 3];
        match r.below(7) {
            0 | 1 => {
                let headers = if version == 6 { extension_headers(r) } else { Vec::new() };
                Layer::Ip(version, headers, ends)
            }
            2 | 3 => {
                let kinds =
                    [Gre::Plain, Gre::Bridge, Gre::Vlan, Gre::Ppp, Gre::ErspanI, Gre::ErspanII];
                let flags = [0, 0x2000, 0x8000, 0xb000][r.below(4)];
                Layer::Gre(version, flags, kinds[r.below(6)], ends)
            }
            4 => {
                let kinds = [Overlay::Teredo, Overlay::Vxlan, Overlay::Geneve, Overlay::Unknown];
                Layer::Overlay(version, kinds[r.below(4)], ends)
            }
            _ => Layer::Link((0..=r.below(3)).map(|_| Tag::random(r)).collect()),
        }
    }

    fn around(&self, unit: Unit) -> Unit {
        let frame = |unit: &Unit| match unit {
            Unit::Ip(ip) => ethernet(ethertype(ip), ip),
            Unit::Ethernet(frame) => frame.clone(),
        };
        match self {
            Layer::Ip(version, headers, ends) => match unit {
                Unit::Ip(inner) => Unit::Ip(ip_in_ip(*version, headers, *ends, &inner)),
                other => other,
            },
            Layer::Gre(version, flags, kind, ends) => {
                let (kind, inside) = match (kind, &unit) {
                    (Gre::Plain, Unit::Ip(ip)) => (ethertype(ip), ip.clone()),
                    (Gre::Vlan, Unit::Ip(ip)) => {
                        (0x8100, join(&[&[0, 5], &ethertype(ip).to_be_bytes(), ip]))
                    }
                    (Gre::Ppp, Unit::Ip(ip)) => {
                        let ppp = if ip[0] >> 4 == 4 { 0x21 } else { 0x57 };
                        (0x880b, join(&[&[0xff, 3, 0, ppp], ip]))
                    }
                    (Gre::ErspanI, unit) => (0x88be, frame(unit)),
                    (Gre::ErspanII, unit) => {
                        (0x88be, join(&[&[0x10, 5, 0, 0, 0, 0, 0, 0], &frame(unit)]))
                    }
                    (_, unit) => (0x6558, frame(unit)),
                };
                let sequence = kind == 0x88be && matches!(self, Layer::Gre(_, _, Gre::ErspanII, _));
                let mut flags = if kind == 0x88be { flags & !0x1000 } else { *flags };
                if sequence {
                    flags |= 0x1000;
                }
                if kind == 0x880b {
                    flags = 0x2001;
                }
                let words = [0x8000u16, 0x2000, 0x1000].iter().filter(|f| flags & **f != 0).count();
                let words = vec![0; words * 4];
                let gre = join(&[&flags.to_be_bytes(), &kind.to_be_bytes(), &words, &inside]);
                Unit::Ip(ip(*version, 47, *ends, &gre))
            }
            Layer::Overlay(version, kind, ends) => {
                let (at, inside) = match (kind, &unit) {
                    (Overlay::Teredo, Unit::Ip(ip)) if ip[0] >> 4 == 6 => (0, ip.clone()),
                    (Overlay::Geneve, Unit::Ip(ip)) => {
                        (2, join(&[&[0, 0], &ethertype(ip).to_be_bytes(), &[0; 4], ip]))
                    }
                    (Overlay::Geneve, Unit::Ethernet(frame)) => {
                        (2, join(&[&[1, 0, 0x65, 0x58], &[0; 4], &[0; 4], frame]))
                    }
                    (Overlay::Unknown, unit) => {
                        (3, join(&[&[8, 0, 0, 0, 0, 0, 1, 0], &frame(unit)]))
                    }
                    (_, unit) => (1, join(&[&[8, 0, 0, 0, 0, 0, 1, 0], &frame(unit)])),
                };
                Unit::Ip(ip(*version, 17, *ends, &udp(TUNNEL_PORTS[at], &inside)))
            }
            Layer::Link(tags) => {
                let (mut kind, mut inside) = match unit {
                    Unit::Ip(ip) => (ethertype(&ip), ip),
                    Unit::Ethernet(frame) => match tags.first() {
                        // What is in a frame already needs a tag that carries frames.
                        Some(Tag::Nsh(_)) => (0x894f, join(&[&[0, 2, 2, 3, 0, 0, 1, 0], &frame])),
                        _ => (0x8847, join(&[&[0, 1, 1, 9, 0, 0, 0, 0], &frame])),
                    },
                };
                for tag in tags {
                    (kind, inside) = tag.around(kind, inside);
                }
                Unit::Ethernet(ethernet(kind, &inside))
            }
        }
    }
}

impl Tag {
    fn random(r: &mut Random) -> Tag {
        match r.below(10) {
            0 | 1 => Tag::Vlan([0x8100, 0x88a8, 0x9100][r.below(3)]),
            2 => Tag::Vntag,
            3 => Tag::Etag,
            4 => Tag::Backbone,
            5 => Tag::Dce,
            6 => Tag::Pppoe,
            7 => Tag::Mpls(r.below(20)),
            8 => Tag::PseudoWire(r.below(12)),
            _ => Tag::Nsh([1, 3, 5][r.below(3)]),
        }
    }

    /// Puts the tag before what is named by an ethertype.
    fn around(self, kind: u16, inside: Vec<u8>) -> (u16, Vec<u8>) {
        let is_ip = matches!(kind, 0x0800 | 0x86dd);
        let named = kind.to_be_bytes();
        let labels = |n: usize| join(&[&[0, 1, 0, 9].repeat(n), &[0, 1, 1, 9]]);
        match self {
            Tag::Vlan(tag) => (tag, join(&[&[0, 5], &named, &inside])),
            Tag::Vntag => (0x8926, join(&[&[0; 4], &named, &inside])),
            // IEEE 802.1BR: no decoder looks into it.
            Tag::Etag => (0x893f, join(&[&[0; 6], &named, &inside])),
            Tag::Backbone => (0x88e7, join(&[&[0; 16], &named, &inside])),
            Tag::Dce => (0x8903, join(&[&[0, 1], &[0; 12], &named, &inside])),
            Tag::Pppoe if is_ip => {
                let ppp = if kind == 0x0800 { [0, 0x21] } else { [0, 0x57] };
                let len = (inside.len() as u16 + 2).to_be_bytes();
                (0x8864, join(&[&[0x11, 0, 0, 1], &len, &ppp, &inside]))
            }
            Tag::Mpls(n) if is_ip => (0x8847, join(&[&labels(n), &inside])),
            Tag::PseudoWire(n) => (0x8848, join(&[&labels(n), &[0; 4], &ethernet(kind, &inside)])),
            Tag::Nsh(next) => {
                let (next, inside) = match next {
                    1 if is_ip => (if kind == 0x0800 { 1 } else { 2 }, inside),
                    5 if is_ip => (5, join(&[&labels(9), &inside])),
                    _ => (3, ethernet(kind, &inside)),
                };
                (0x894f, join(&[&[0, 2, 2, next, 0, 0, 1, 0], &inside]))
            }
            Tag::Pppoe | Tag::Mpls(_) => (kind, inside),
        }
    }
}

/// Up to thirteen extension headers; the last names nothing yet.
fn extension_headers(r: &mut Random) -> Vec<u8> {
    let mut kinds = vec![60; [0, 0, 1, 8, 9, 12][r.below(6)]];
    if r.one_in(3) {
        kinds.push(51);
    }
    if r.one_in(4) {
        kinds.insert(0, 43);
    }
    kinds
}

/// IP in IP; `headers` are the kinds of the extension headers between.
fn ip_in_ip(version: u8, headers: &[u8], ends: Ends, inner: &[u8]) -> Vec<u8> {
    let mut next = if inner[0] >> 4 == 4 { 4 } else { 41 };
    let mut inside = inner.to_vec();
    for kind in headers.iter().rev() {
        let header: &[u8] = match kind {
            51 => &[4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            43 => &[0, 2, 0, 0, 0, 0, 0],
            _ => &[0, 1, 4, 0, 0, 0, 0],
        };
        inside = join(&[&[next], header, &inside]);
        next = *kind;
    }
    ip(version, next, ends, &inside)
}

/// An outer packet between two of the few hosts that keep tunnels.
fn ip(version: u8, proto: u8, [src, dst]: Ends, inside: &[u8]) -> Vec<u8> {
    if version == 4 {
        return ipv4(proto, 0, 0, [[10, 9, 0, src], [10, 9, 0, dst]], inside);
    }
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((inside.len() as u16).to_be_bytes());
    packet.extend([proto, 64]);
    for end in [src, dst] {
        packet.extend([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, end]);
    }
    packet.extend(inside);
    packet
}

/// A datagram whose fragments come in tunnels, each in fragments of its own.
pub(crate) fn fragments_in_fragments() -> Vec<Vec<u8>> {
    let whole = ipv4(17, 7, 0, [CLIENT, SERVER], &udp([9, 9_000], b"an EVIL datagram that asks"));
    let halves = |packet: Vec<u8>, id: u16| {
        let (header, data) = packet.split_at(20);
        let (proto, ends) = (header[9], [end(header, 12), end(header, 16)]);
        [(0x2000, &data[..16]), (2, &data[16..])]
            .map(|(field, part)| ipv4(proto, id, field, ends, part))
    };
    let mut frames = Vec::new();
    for (n, inner) in halves(whole, 7).into_iter().enumerate() {
        let tunnel = ip(4, 4, [0, 3], &inner);
        frames.extend(halves(tunnel, n as u16).map(|outer| ethernet(0x0800, &outer)));
    }
    frames
}

fn end(header: &[u8], at: usize) -> [u8; 4] {
    [header[at], header[at + 1], header[at + 2], header[at + 3]]
}

/// Cuts an IP packet into fragments at times, and seldom sends them the last first.
fn cut(unit: Unit, id: u16, r: &mut Random) -> Vec<Unit> {
    let packet = match unit {
        Unit::Ip(packet) if r.one_in(4) => packet,
        whole => return vec![whole],
    };
    let v4 = packet[0] >> 4 == 4;
    let header_len = if v4 { usize::from(packet[0] & 15) * 4 } else { 40 };
    let (header, data) = packet.split_at(header_len);
    let step = 8 * (1 + r.below(data.len() / 16 + 1));
    if data.len() <= step || (v4 && header[6] & 0x3f | header[7] != 0) || (!v4 && header[6] == 44) {
        return vec![Unit::Ip(packet)];
    }
    let last = (data.len() - 1) / step;
    let mut pieces: Vec<Unit> = data
        .chunks(step)
        .enumerate()
        .map(|(n, part)| {
            let more = n < last;
            let at = (n * step) as u16;
            let mut head = header.to_vec();
            if v4 {
                let field = (at / 8) | if more { 0x2000 } else { 0 };
                head[2..4].copy_from_slice(&((header_len + part.len()) as u16).to_be_bytes());
                head[4..6].copy_from_slice(&id.to_be_bytes());
                head[6..8].copy_from_slice(&field.to_be_bytes());
                head[10..12].copy_from_slice(&[0, 0]);
                let sum = checksum(&head);
                head[10..12].copy_from_slice(&sum);
                return Unit::Ip(join(&[&head, part]));
            }
            head[4..6].copy_from_slice(&(part.len() as u16 + 8).to_be_bytes());
            head[6] = 44;
            let field = (at | u16::from(more)).to_be_bytes();
            let id = u32::from(id).to_be_bytes();
            Unit::Ip(join(&[&head, &[header[6], 0], &field, &id, part]))
        })
        .collect();
    if r.one_in(3) {
        pieces.reverse();
    }
    pieces
}

fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn ethertype(ip: &[u8]) -> u16 {
    if ip[0] >> 4 == 4 { 0x0800 } else { 0x86dd }
}

fn ethernet(kind: u16, inside: &[u8]) -> Vec<u8> {
    join(&[&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &kind.to_be_bytes(), inside])
}

fn checksum(header: &[u8]) -> [u8; 2] {
    let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = words.sum::<u32>();
    let sum = (sum & 0xffff) + (sum >> 16);
    (!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes()
}

/// What one conversation says, as packets without wrapping: a web request with a bad word that two
/// segments share, a datagram and its answer, or an ICMP error about it.
pub(crate) fn conversation(n: usize, r: &mut Random) -> Vec<Vec<u8>> {
    let v6 = r.one_in(3);
    let (a, b) = ((n % 251) as u8, (n / 251) as u8);
    let wrap = |proto: u8, to_server: bool, inside: &[u8]| {
        if v6 {
            let mut packet = ip(6, proto, [0, 0], inside);
            for (at, end) in [(8, !to_server), (24, to_server)] {
                let host = if end { [0xdd, 1, b, 1] } else { [0xcc, a, b, 2] };
                packet[at + 12..at + 16].copy_from_slice(&host);
            }
            return packet;
        }
        let ends = [[10, a, b, 1], [192, 0, 2, a]];
        ipv4(proto, n as u16, 0, if to_server { ends } else { [ends[1], ends[0]] }, inside)
    };
    let port = 10_000 + (n % 50_000) as u16;
    if r.one_in(3) {
        let ask = wrap(17, true, &udp([port, 9_000], b"an EVIL datagram that asks for something"));
        let say = wrap(17, false, &udp([9_000, port], b"and its answer, which says little"));
        let mut packets = vec![ask.clone(), say];
        if !v6 {
            packets.push(wrap(1, false, &join(&[&[3, 3, 0, 0, 0, 0, 0, 0], &ask])));
        }
        packets.push(ask);
        return packets;
    }
    let (there, back) = ([port, 80], [80, port]);
    let (x, y) = (b"GET /EVILPAY".as_slice(), b"LOAD HTTP/1.1\r\nHost: a\r\n\r\n".as_slice());
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nworld";
    let (mid, end) = (1_001 + x.len() as u32, 1_001 + (x.len() + y.len()) as u32);
    vec![
        wrap(6, true, &tcp(1_000, 0, 2, there, &[])),
        wrap(6, false, &tcp(5_000, 1_001, 0x12, back, &[])),
        wrap(6, true, &tcp(1_001, 5_001, 0x10, there, &[])),
        wrap(6, true, &tcp(1_001, 5_001, 0x18, there, x)),
        wrap(6, true, &tcp(mid, 5_001, 0x18, there, y)),
        wrap(6, false, &tcp(5_001, end, 0x18, back, answer)),
        wrap(6, true, &tcp(end, 5_001 + answer.len() as u32, 0x10, there, &[])),
    ]
}

//! Community flow id, version 1 (corelight/community-id-spec): SHA-1 over seed, ordered addresses,
//! protocol and ports, in base64.

use gabion_record::eve::Header;
use gabion_record::json::base64_into;
use sha1::{Digest, Sha1};

/// Appends the id of the flow that `h` names (`1:…`).
pub(crate) fn write(h: &Header<'_>, seed: u16, out: &mut Vec<u8>) {
    let n = if h.ip_version == 6 { 16 } else { 4 };
    let (mut a, mut b) = (&h.src.0[..n], &h.dst.0[..n]);
    let mut ports = match (h.ports, h.icmp) {
        (Some(p), _) => Some(p),
        (None, Some((t, c))) => Some(icmp_ports(h.ip_version, t, c)),
        (None, None) => None,
    };
    let one_way = h.icmp.is_some_and(|(t, _)| icmp_is_one_way(h.ip_version, t));
    let (sp, dp) = ports.unwrap_or((0, 0));
    if !one_way && (a, sp) > (b, dp) {
        (a, b) = (b, a);
        ports = ports.map(|(s, d)| (d, s));
    }
    let mut hash = Sha1::new();
    hash.update(seed.to_be_bytes());
    hash.update(a);
    hash.update(b);
    hash.update([h.ip_proto.0, 0]);
    if let Some((s, d)) = ports {
        hash.update(s.to_be_bytes());
        hash.update(d.to_be_bytes());
    }
    out.extend_from_slice(b"1:");
    base64_into(&hash.finalize(), out);
}

/// The spec maps a request type to its answer and back, so that both sides give one id.
fn icmp_ports(version: u8, icmp_type: u8, code: u8) -> (u16, u16) {
    let answer = icmp_answer(version, icmp_type).map_or(u16::from(code), u16::from);
    (u16::from(icmp_type), answer)
}

fn icmp_is_one_way(version: u8, icmp_type: u8) -> bool {
    icmp_answer(version, icmp_type).is_none()
}

fn icmp_answer(version: u8, icmp_type: u8) -> Option<u8> {
    const V4: [(u8, u8); 5] = [(8, 0), (13, 14), (15, 16), (17, 18), (10, 9)];
    const V6: [(u8, u8); 6] =
        [(128, 129), (133, 134), (135, 136), (130, 131), (144, 145), (139, 140)];
    let pairs: &[(u8, u8)] = if version == 6 { &V6 } else { &V4 };
    pairs.iter().find_map(|&(q, r)| match icmp_type {
        t if t == q => Some(r),
        t if t == r => Some(q),
        _ => None,
    })
}

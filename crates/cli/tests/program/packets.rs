//! Packets made by hand, and captures of them.

use std::path::Path;

/// Writes a capture of raw IP packets, a millisecond apart.
pub fn capture(folder: &Path, name: &str, packets: &[Vec<u8>]) -> String {
    capture_of(101, folder, name, packets)
}

/// Writes a capture of frames of this link type, a millisecond apart.
pub fn capture_of(link: u8, folder: &Path, name: &str, packets: &[Vec<u8>]) -> String {
    let times = (0..).map(|n| 1_700_000_000_000 + n);
    capture_at(link, folder, name, times.zip(packets.iter().cloned()))
}

/// Writes a capture of frames of this link type at these times in milliseconds.
pub fn capture_at(
    link: u8,
    folder: &Path,
    name: &str,
    packets: impl IntoIterator<Item = (u64, Vec<u8>)>,
) -> String {
    let mut out = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    out.extend_from_slice(&[0, 0, 4, 0, link, 0, 0, 0]);
    for (ms, packet) in packets {
        let len = packet.len() as u32;
        for word in [(ms / 1_000) as u32, (ms % 1_000 * 1_000) as u32, len, len] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out.extend_from_slice(&packet);
    }
    let path = folder.join(name);
    std::fs::write(&path, out).unwrap();
    path.display().to_string()
}

/// An IPv4 packet with a good checksum (RFC 1071).
pub fn ipv4(proto: u8, id: u16, fragment: u16, ends: [[u8; 4]; 2], payload: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 64, proto, 0, 0];
    ends.iter().for_each(|end| p.extend_from_slice(end));
    p[2..4].copy_from_slice(&((20 + payload.len()) as u16).to_be_bytes());
    p[4..6].copy_from_slice(&id.to_be_bytes());
    p[6..8].copy_from_slice(&fragment.to_be_bytes());
    let sum: u32 = p.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend_from_slice(payload);
    p
}

/// Who asks.
pub const CLIENT: [u8; 4] = [10, 0, 0, 1];
/// Who answers.
pub const SERVER: [u8; 4] = [192, 0, 2, 1];

/// A UDP header without checksum, and its payload.
pub fn udp(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut u = Vec::new();
    ports.iter().for_each(|p| u.extend_from_slice(&p.to_be_bytes()));
    u.extend_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
    u.extend_from_slice(&[0, 0]);
    u.extend_from_slice(payload);
    u
}

/// A TCP header without options and checksum, and its payload.
pub fn tcp(seq: u32, ack: u32, flags: u8, ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let mut t = Vec::new();
    ports.iter().for_each(|p| t.extend_from_slice(&p.to_be_bytes()));
    t.extend_from_slice(&seq.to_be_bytes());
    t.extend_from_slice(&ack.to_be_bytes());
    t.extend_from_slice(&[0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    t.extend_from_slice(payload);
    t
}

/// A connection on which the client sends these segments one after the other, each acknowledged.
pub fn connection(port: u16, said: &[Vec<u8>]) -> Vec<Vec<u8>> {
    connection_to(80, port, said)
}

/// The same to another port of the server than that of HTTP.
pub fn connection_to(server: u16, port: u16, said: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (there, back) = ([CLIENT, SERVER], [SERVER, CLIENT]);
    let (to, from) = ([port, server], [server, port]);
    let mut packets = vec![
        ipv4(6, 1, 0, there, &tcp(0, 0, 2, to, &[])),
        ipv4(6, 1, 0, back, &tcp(0, 1, 0x12, from, &[])),
        ipv4(6, 1, 0, there, &tcp(1, 1, 0x10, to, &[])),
    ];
    let mut seq = 1;
    for part in said {
        packets.push(ipv4(6, 1, 0, there, &tcp(seq, 1, 0x18, to, part)));
        seq += part.len() as u32;
        packets.push(ipv4(6, 1, 0, back, &tcp(1, seq, 0x10, from, &[])));
    }
    packets
}

/// The frames of the demonstration's capture.
pub fn demonstration() -> Vec<Vec<u8>> {
    let file = std::fs::File::open(super::demo()).unwrap();
    let mut source = gabion_capture::Source::from_file(file).unwrap();
    let (mut refs, mut frames) = (Vec::new(), Vec::new());
    while let Some(block) = source.next_block(256, &mut refs) {
        frames.extend(refs.drain(..).map(|r| r.frame(&block.bytes).data.to_vec()));
    }
    frames
}

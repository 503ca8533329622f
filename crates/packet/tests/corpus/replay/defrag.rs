//! Reassembles IP fragments in the simplest way, for tests that need the datagrams.

use gabion_packet::{Decoded, Flags, Network};
use gabion_record::Addr;
use std::collections::BTreeMap;

type Key = (Addr, Addr, u32, u8, u8);

#[derive(Default)]
struct Pieces {
    /// Unfragmentable part of the packet, of the fragment with offset 0.
    head: Vec<u8>,
    pieces: BTreeMap<usize, Vec<u8>>,
    end: Option<usize>,
}

/// Fragments waiting for others.
#[derive(Default)]
pub(crate) struct Defrag {
    waiting: BTreeMap<Key, Pieces>,
}

impl Defrag {
    /// Adds a fragment; returns the packet it completed, with the fragment.
    pub(crate) fn add(&mut self, p: &Decoded, bytes: &[u8]) -> Option<(Decoded, Vec<u8>)> {
        if !p.flags.has(Flags::FRAGMENT) {
            return None;
        }
        let key = (p.src, p.dst, p.ip_id, if p.ip_version() == 4 { p.proto.0 } else { 0 }, p.depth);
        let pieces = self.waiting.entry(key).or_default();
        let at = usize::from(p.fragment_offset);
        let data = p.payload(bytes);
        pieces.pieces.entry(at).or_insert_with(|| data.to_vec());
        if at == 0 {
            pieces.head = match p.network {
                Network::Ipv4 => p.ip_header(bytes).to_vec(),
                _ => {
                    let mut head = bytes[p.l3 as usize..p.ext.fragment_at as usize].to_vec();
                    head[(p.ext.fragment_prev - p.l3) as usize] = p.ext.fragment_next;
                    head
                }
            };
        }
        if !p.flags.has(Flags::MORE_FRAGMENTS) {
            pieces.end = Some(at + data.len());
        }
        let mut whole = Vec::new();
        for (at, piece) in &pieces.pieces {
            if *at > whole.len() {
                return None;
            }
            let known = whole.len() - at;
            whole.extend_from_slice(piece.get(known..).unwrap_or(&[]));
        }
        if pieces.head.is_empty() || pieces.end.is_none_or(|end| whole.len() < end) {
            return None;
        }
        let mut packet = std::mem::take(&mut pieces.head);
        self.waiting.remove(&key);
        packet.extend_from_slice(&whole);
        if p.ip_version() == 4 {
            let len = u16::try_from(packet.len()).ok()?.to_be_bytes();
            packet[2..4].copy_from_slice(&len);
            packet[6..8].copy_from_slice(&[0, 0]);
            packet[10..12].copy_from_slice(&[0, 0]);
            let header = usize::from(packet[0] & 15) * 4;
            let sum: u32 = packet[..header]
                .chunks(2)
                .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
                .sum();
            let folded = (sum & 0xffff) + (sum >> 16);
            let folded = (folded & 0xffff) + (folded >> 16);
            packet[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
        } else {
            let len = u16::try_from(packet.len() - 40).ok()?.to_be_bytes();
            packet[4..6].copy_from_slice(&len);
        }
        Some((*p, packet))
    }
}

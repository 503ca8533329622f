//! The layout of a block of a TPACKET_V3 ring, as the kernel fills it (Documentation/networking/packet_mmap.rst and
//! linux/if_packet.h): a header, then packets, each with a header that names the next.
//!
//! This file reads and edits plain bytes; sharing them with the kernel is `ring`'s work.

use crate::bytes::FrameRef;

/// Offset of a block's status word.
pub(super) const STATUS: usize = 8;
/// Status: the block belongs to the program.
pub(super) const STATUS_USER: u32 = 1;
/// Status of a block: its timeout ended it.
#[cfg(test)]
const STATUS_TIMED_OUT: u32 = 1 << 5;
/// Offset of the number of packets.
pub(super) const PACKETS: usize = 12;
/// Offset of the offset of the first packet.
const FIRST: usize = 16;
/// Bytes of a packet's header.
const PACKET_HEADER: usize = 48;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// Bytes of the two addresses of an Ethernet frame, after which a tag has its place.
const ADDRESSES: usize = 12;
/// TPID of a tag when the kernel does not name it: 802.1Q.
const TPID_8021Q: u16 = 0x8100;

/// Bits of a packet's status (`TP_STATUS_*`).
mod status {
    /// The checksum of the transport header is not filled in: the sender is on this host.
    pub(super) const CHECKSUM_NOT_READY: u32 = 1 << 3;
    /// Frames were dropped since the counts were last asked for.
    pub(super) const LOSING: u32 = 1 << 2;
    /// A VLAN tag was taken out of the frame.
    pub(super) const VLAN_VALID: u32 = 1 << 4;
    /// Its TPID is named.
    pub(super) const VLAN_TPID_VALID: u32 = 1 << 6;
}

/// What was unusual about the packets of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockFacts {
    /// Frames whose VLAN tag was put back.
    pub tags: u64,
    /// Headers that name a place outside of the block: the rest of its packets is lost.
    pub broken: u64,
    /// Length of the largest frame on the wire, in bytes.
    pub largest: u32,
    /// Frames that were cut, since they do not fit into a block.
    pub cut: u64,
    /// Length of the largest of them on the wire, in bytes.
    pub largest_cut: u32,
    /// The kernel dropped frames before one of these.
    pub is_losing: bool,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    let half = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_ne_bytes(half.try_into().ok()?))
}

/// A packet's header, as far as it is used.
struct Header {
    /// Offset of the next packet's header from this one.
    next: usize,
    frame: FrameRef,
    status: u32,
    tci: u16,
    tpid: u16,
}

fn header(block: &[u8], at: usize) -> Option<Header> {
    let bytes = block.get(at..at.checked_add(PACKET_HEADER)?)?;
    let (len, mac) = (word(bytes, 12)?, usize::from(half(bytes, 24)?));
    let start = at.checked_add(mac)?;
    block.get(start..start.checked_add(len as usize)?)?;
    let ts_ns = u64::from(word(bytes, 4)?) * 1_000_000_000 + u64::from(word(bytes, 8)?);
    let status = word(bytes, 20)?;
    Some(Header {
        next: word(bytes, 0)? as usize,
        frame: FrameRef {
            ts_ns,
            offset: start as u64,
            len,
            wire_len: word(bytes, 16)?.max(len),
            has_no_checksums: status & status::CHECKSUM_NOT_READY != 0,
            ..FrameRef::default()
        },
        status,
        tci: word(bytes, 32)? as u16,
        tpid: half(bytes, 36)?,
    })
}

/// Puts back the tag that the kernel or the interface took out of a frame: the addresses move into the room before
/// the frame, which holds nothing that is needed (`sockaddr_ll`).
fn insert_tag(block: &mut [u8], frame: &mut FrameRef, (tpid, tci): (u16, u16)) -> Option<()> {
    let start = usize::try_from(frame.offset).ok()?;
    let moved = start.checked_sub(TAG)?;
    if (frame.len as usize) < ADDRESSES {
        return None;
    }
    block.copy_within(start..start.checked_add(ADDRESSES)?, moved);
    let tag = block.get_mut(moved + ADDRESSES..start + ADDRESSES)?;
    tag.copy_from_slice(&[tpid.to_be_bytes(), tci.to_be_bytes()].concat());
    frame.offset = moved as u64;
    frame.len = frame.len.checked_add(TAG as u32)?;
    frame.wire_len = frame.wire_len.checked_add(TAG as u32)?;
    Some(())
}

/// The packets of a block, each with the tag that was taken out of it; `frames` is appended to.
pub(super) fn read_packets(block: &mut [u8], link: u16, frames: &mut Vec<FrameRef>) -> BlockFacts {
    let mut facts = BlockFacts::default();
    let packets = word(block, PACKETS).unwrap_or(0);
    let mut at = word(block, FIRST).unwrap_or(0) as usize;
    for n in 0..packets {
        let Some(mut h) = header(block, at) else {
            facts.broken += u64::from(packets - n);
            break;
        };
        h.frame.link = link;
        if h.status & status::VLAN_VALID != 0 {
            let has_tpid = h.status & status::VLAN_TPID_VALID != 0;
            let tpid = if has_tpid { h.tpid } else { TPID_8021Q };
            // The room before the frame is large enough: its header and an address are there.
            if insert_tag(block, &mut h.frame, (tpid, h.tci)).is_some() {
                facts.tags += 1;
            }
        }
        facts.is_losing |= h.status & status::LOSING != 0;
        facts.largest = facts.largest.max(h.frame.wire_len);
        if h.frame.cut() > 0 {
            facts.cut += 1;
            facts.largest_cut = facts.largest_cut.max(h.frame.wire_len);
        }
        frames.push(h.frame);
        // The last one names none; another without a next would be read for ever.
        if h.next == 0 {
            facts.broken += u64::from(packets - n - 1);
            break;
        }
        at = at.saturating_add(h.next);
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block with these packets: status, tag and bytes.
    fn block(packets: &[(u32, (u16, u16), &[u8])]) -> Vec<u8> {
        let mut block = vec![0; 48];
        block[STATUS..STATUS + 4].copy_from_slice(&(STATUS_USER | STATUS_TIMED_OUT).to_ne_bytes());
        block[PACKETS..PACKETS + 4].copy_from_slice(&(packets.len() as u32).to_ne_bytes());
        block[FIRST..FIRST + 4].copy_from_slice(&48_u32.to_ne_bytes());
        for (n, (status, (tci, tpid), frame)) in packets.iter().enumerate() {
            let mac = 48 + 20 + 14;
            let len = (mac + frame.len()).next_multiple_of(16);
            let next = if n + 1 == packets.len() { 0 } else { len as u32 };
            let mut packet = vec![0; len];
            for (at, value) in [
                (0, next),
                (4, 1_700_000_000 + n as u32),
                (8, 5),
                (12, frame.len() as u32),
                (16, frame.len() as u32 + 1000 * n as u32),
                (20, *status),
                (32, u32::from(*tci)),
            ] {
                packet[at..at + 4].copy_from_slice(&value.to_ne_bytes());
            }
            packet[24..26].copy_from_slice(&(mac as u16).to_ne_bytes());
            packet[36..38].copy_from_slice(&tpid.to_ne_bytes());
            packet[mac..mac + frame.len()].copy_from_slice(frame);
            block.extend(packet);
        }
        block
    }

    const FRAME: &[u8] = b"ddddddssssss\x08\x00rest";

    fn all(block: &mut [u8]) -> (Vec<Vec<u8>>, Vec<FrameRef>, BlockFacts) {
        let mut frames = Vec::new();
        let facts = read_packets(block, 1, &mut frames);
        let bytes = frames.iter().map(|r| r.frame(block).data.to_vec()).collect();
        (bytes, frames, facts)
    }

    #[test]
    fn packets_are_found_with_time_lengths_and_what_is_missing() {
        let last = status::CHECKSUM_NOT_READY | status::LOSING;
        let mut block = block(&[(0, (0, 0), FRAME), (last, (0, 0), b"ab")]);
        let (bytes, frames, facts) = all(&mut block);
        assert_eq!(bytes, [FRAME.to_vec(), b"ab".to_vec()]);
        assert_eq!(frames[0].ts_ns, 1_700_000_000_000_000_005);
        assert_eq!((frames[1].len, frames[1].wire_len, frames[1].cut()), (2, 1002, 1000));
        assert!(frames[1].has_no_checksums && !frames[0].has_no_checksums);
        let cut = BlockFacts { cut: 1, largest_cut: 1002, ..BlockFacts::default() };
        assert_eq!(facts, BlockFacts { largest: 1002, is_losing: true, ..cut });
    }

    #[test]
    fn tags_are_put_back_with_their_tpid() {
        let named = status::VLAN_VALID | status::VLAN_TPID_VALID;
        let mut block =
            block(&[(status::VLAN_VALID, (0x2064, 0), FRAME), (named, (7, 0x88a8), FRAME)]);
        let (bytes, frames, facts) = all(&mut block);
        assert_eq!(bytes[0], b"ddddddssssss\x81\x00\x20\x64\x08\x00rest");
        assert_eq!(bytes[1], b"ddddddssssss\x88\xa8\x00\x07\x08\x00rest");
        assert_eq!((frames[0].len, frames[0].wire_len, facts.tags), (22, 22, 2));
    }

    #[test]
    fn no_header_leads_out_of_the_block() {
        let whole = block(&[(0, (0, 0), FRAME), (0, (0, 0), FRAME)]);
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut broken = whole.clone();
                broken[at] = value;
                let (bytes, _, facts) = all(&mut broken);
                assert!(bytes.len() <= 2 || facts.broken > 0, "{at} {value}");
            }
        }
        for len in 0..whole.len() {
            let (bytes, _, facts) = all(&mut whole[..len].to_vec());
            assert!(bytes.len() as u64 + facts.broken <= 2);
        }
    }
}

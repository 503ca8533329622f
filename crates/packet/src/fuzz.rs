//! Entry point for fuzzers and tests: decodes arbitrary bytes and checks what must always hold.

use crate::checksum;
use crate::config::DecodeConfig;
use crate::counters::DecodeCounters;
use crate::decode::decode;
use crate::decoded::{Decoded, PacketSet};
use crate::ethernet::Arp;
use crate::link::Link;
use crate::partition::{decoded_key, shortcut_agrees};

/// What is wrong with a decoded frame.
#[derive(Clone, Debug)]
#[doc(hidden)]
pub enum DecodeFault {
    /// A packet's offsets do not fit the frame.
    DoesNotFit(Box<Decoded>),
    /// A packet reaches out of the one around it.
    ReachesOut(Box<Decoded>),
    /// The key of the frame is not that of its packets.
    OtherKey,
}

/// Decodes `frame` into `set` and returns the first violation: an offset beyond the frame, a view
/// that can't be taken, a packet that is not within the one around it.
pub(crate) fn decode_and_check(
    set: &mut PacketSet,
    counters: &mut DecodeCounters,
    link: Link,
    frame: &[u8],
) -> Result<(), DecodeFault> {
    decode(set, counters, &DecodeConfig::DEFAULT, link, frame);
    let mut around = 0..frame.len() as u64;
    for p in set.iter() {
        if !check(p, frame) {
            return Err(DecodeFault::DoesNotFit(Box::new(*p)));
        }
        let own = u64::from(p.start)..u64::from(p.start) + u64::from(p.len);
        if own.start < around.start || own.end > around.end {
            return Err(DecodeFault::ReachesOut(Box::new(*p)));
        }
        around = own;
    }
    let _ = decoded_key(&DecodeConfig::DEFAULT, set);
    if !shortcut_agrees(&DecodeConfig::DEFAULT, link, frame, set) {
        return Err(DecodeFault::OtherKey);
    }
    Ok(())
}

fn check(p: &Decoded, frame: &[u8]) -> bool {
    let len = frame.len() as u64;
    let end = |from: u32, len: u32| u64::from(from) + u64::from(len);
    let _ = (checksum::ipv4_ok(p, frame), checksum::transport_ok(p, frame));
    let _ = (p.src_mac(frame), p.dst_mac(frame), Arp::parse(p, frame), p.sctp_chunk_count(frame));
    end(p.start, p.len) <= len
        && end(p.payload, p.payload_len) <= len
        && u64::from(p.l3) <= len
        && u64::from(p.l4) <= len
        && p.payload(frame).len() == p.payload_len as usize
        && p.bytes(frame).len() == p.len as usize
        && (!p.transport.is_some() || !p.transport_header(frame).is_empty())
        && (!p.is_ip() || p.ip_header(frame).len() >= 20)
}

//! Frames: decodes any bytes with any link type.

use crate::seeds::Seeds;
use gabion_packet::{DecodeCounters, Link, PacketSet};
use std::cell::RefCell;

/// Link types by the first byte of the input.
const LINKS: &[u16] = &[1, 0, 12, 228, 229, 9, 51, 104, 113, 276];

thread_local! {
    static ROOM: RefCell<(PacketSet, DecodeCounters)> =
        RefCell::new((PacketSet::new(), DecodeCounters::default()));
}

/// The first byte selects the link, the rest is the frame. The set is reused, so that any state
/// that one frame leaves would show in the next.
pub fn decode(data: &[u8]) {
    let Some((first, frame)) = data.split_first() else { return };
    let number = LINKS.get(usize::from(*first) % LINKS.len()).copied().unwrap_or(1);
    let Some(link) = Link::from_linktype(number.into()) else { return };
    ROOM.with_borrow_mut(|(set, counters)| {
        gabion_packet::fuzz_entry(set, counters, link, frame)
            .expect("decoded offsets are within the frame");
    });
}

/// Every 7th frame: enough kinds, few repeats.
pub fn seeds(seeds: &Seeds) -> Vec<Vec<u8>> {
    let frames = seeds.frames.iter().flat_map(|frames| frames.iter().step_by(7).take(6));
    frames
        .filter_map(|frame| {
            let place = LINKS.iter().position(|link| *link == frame.link)?;
            let mut out = vec![u8::try_from(place).ok()?];
            out.extend_from_slice(&frame.data);
            Some(out)
        })
        .collect()
}

//! Runs a capture of the corpus through the decoders and reassembles its fragments, for tests that
//! compare with Suricata.

mod defrag;

use defrag::Defrag;
use gabion_capture::Source;
use gabion_packet::{
    DecodeConfig, DecodeCounters, Decoded, Link, PacketSet, decode, decode_ip_reassembled,
};
use std::path::Path;

/// Suricata leaves out frames that are longer than an IP packet with a link header.
const PEER_FRAME_MAX: usize = 65_604;

/// Decodes every frame that Suricata would read and passes each packet on, with the bytes that its
/// offsets count from. Returns false if the capture can't be read or its link type is unknown.
pub(crate) fn replay(
    path: &Path,
    config: &DecodeConfig,
    counters: &mut DecodeCounters,
    mut look: impl FnMut(&Decoded, &[u8]),
) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let Ok(mut source) = Source::from_file(file) else {
        return false;
    };
    let (mut set, mut inside) = (PacketSet::new(), PacketSet::new());
    let mut defrag = Defrag::default();
    let mut refs = Vec::new();
    let mut link_first = None;
    while let Some(block) = source.next_block(256, &mut refs) {
        for frame in &refs {
            let frame = frame.frame(&block.bytes);
            // Suricata's reader ends at a second link type.
            if *link_first.get_or_insert(frame.link) != frame.link {
                return true;
            }
            let Some(link) = Link::from_linktype(u32::from(frame.link)) else {
                return false;
            };
            if frame.data.len() > PEER_FRAME_MAX {
                continue;
            }
            decode(&mut set, counters, config, link, frame.data);
            let mut whole = Vec::new();
            for p in set.iter() {
                counters.count_events(&p.events);
                look(p, frame.data);
                whole.extend(defrag.add(p, frame.data));
            }
            // A reassembled packet may hold a fragment itself.
            while let Some((fragment, bytes)) = whole.pop() {
                if !decode_ip_reassembled(&mut inside, counters, config, &fragment, &bytes) {
                    continue;
                }
                for p in inside.iter() {
                    counters.count_events(&p.events);
                    look(p, &bytes);
                    whole.extend(defrag.add(p, &bytes));
                }
            }
        }
        refs.clear();
    }
    true
}

//! The cost of decoding a frame, compared with the least possible cost: reading its first bytes
//! once.
//!
//! `cargo bench -p gabion-packet`. The frames are those of the bench capture of the corpus
//! (`GABION_CORPUS`), or a few generated ones if it is absent. The ratio of `decode` to `touch` is
//! what to watch: both run over the same frames in the same order.

use divan::{Bencher, counter::ItemsCount};
use gabion_packet::{DecodeConfig, DecodeCounters, Link, PacketSet, decode, ordinary_key};

/// Frames of one round: their headers fit the second-level cache.
const FRAMES: usize = 8_192;

fn main() {
    divan::main();
}

fn frames() -> Vec<(Link, Vec<u8>)> {
    let folder = gabion_corpus::root();
    let mut frames = Vec::new();
    if let Ok(file) = std::fs::File::open(folder.join("bench/mixed.pcap.zst"))
        && let Ok(mut source) = gabion_capture::Source::from_file(file)
    {
        let mut refs = Vec::new();
        while frames.len() < FRAMES
            && let Some(block) = source.next_block(FRAMES, &mut refs)
        {
            frames.extend(refs.drain(..).filter_map(|frame| {
                let frame = frame.frame(&block.bytes);
                Some((Link::from_linktype(u32::from(frame.link))?, frame.data.to_vec()))
            }));
        }
    }
    if frames.is_empty() {
        let mut frame = vec![0u8; 200];
        frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 186, 0, 0, 0, 0, 64, 6]);
        frame[46] = 0x50;
        frames.resize(FRAMES, (Link::Ethernet, frame));
    }
    frames.truncate(FRAMES);
    frames
}

/// One pass over all frames per iteration.
fn each(bencher: Bencher<'_, '_>, mut work: impl FnMut(Link, &[u8]) -> u64) {
    let frames = frames();
    bencher.counter(ItemsCount::new(frames.len())).bench_local(|| {
        frames.iter().fold(0, |sum: u64, (link, frame)| sum.wrapping_add(work(*link, frame)))
    });
}

#[divan::bench]
fn touch(bencher: Bencher<'_, '_>) {
    each(bencher, |_, frame| {
        let (words, _) = frame.get(..64).unwrap_or(frame).as_chunks::<8>();
        words.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word))
    });
}

#[divan::bench]
fn partition(bencher: Bencher<'_, '_>) {
    each(bencher, |link, frame| {
        u64::from(ordinary_key(&DecodeConfig::DEFAULT, link, frame).unwrap_or(0))
    });
}

#[divan::bench(name = "decode")]
fn decode_frames(bencher: Bencher<'_, '_>) {
    let (mut set, mut counters) = (PacketSet::new(), DecodeCounters::new());
    each(bencher, |link, frame| {
        decode(&mut set, &mut counters, &DecodeConfig::DEFAULT, link, frame);
        u64::from(set.root().payload_len)
    });
}

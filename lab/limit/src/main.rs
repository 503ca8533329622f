//! `gabion-limit CAPTURE`: what no sensor built of these rooms can be faster than. Reads a capture,
//! decodes every frame and looks its flow up, and does nothing with any of it: no reassembly, no
//! parser, no rule, no record. `make bench` runs it beside the whole program.
//!
//! Exit codes: 0 done, 2 usage, 3 the capture can't be read.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use gabion_capture::Source;
use gabion_flow::{FlowConfig, FlowTable, PacketFacts};
use gabion_net::packet_key;
use gabion_packet::{DecodeConfig, DecodeCounters, Link, PacketSet};
use gabion_record::budget::Budget;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Frames of a block, as the program reads them.
const BATCH: usize = 256;

fn main() -> ExitCode {
    let captures: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [capture] = captures.as_slice() else {
        eprintln!("gabion-limit: usage: gabion-limit CAPTURE");
        return ExitCode::from(2);
    };
    match walk(capture) {
        Ok((frames, packets, flows)) => {
            println!("{frames} frames, {packets} packets, {flows} flows");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("gabion-limit: {}: {fault}", capture.display());
            ExitCode::from(3)
        }
    }
}

fn walk(capture: &std::path::Path) -> Result<(u64, u64, u64), gabion_capture::Error> {
    let mut source = Source::open(capture)?;
    let mut flows: FlowTable<()> =
        FlowTable::new(FlowConfig::default(), Budget::standalone("flow", 1 << 30), 1, false);
    let (mut set, mut counters) = (PacketSet::new(), DecodeCounters::default());
    let (mut number, mut packets, mut ended) = (0, 0, 0);
    let mut refs = Vec::new();
    while let Some(block) = source.next_block(BATCH, &mut refs) {
        for r in refs.drain(..) {
            number += 1;
            let frame = r.frame(&block.bytes);
            let Some(link) = Link::from_linktype(frame.link.into()) else { continue };
            gabion_packet::decode(
                &mut set,
                &mut counters,
                &DecodeConfig::DEFAULT,
                link,
                frame.data,
            );
            for d in set.iter() {
                packets += 1;
                let facts = PacketFacts {
                    ts_ns: frame.ts_ns,
                    bytes: d.len,
                    ttl: d.ttl,
                    tcp: d.transport.tcp().map(|t| (t.flags, t.seq)),
                    quoted: None,
                    number,
                };
                let _ = flows.packet(&packet_key(d), &facts);
                while flows.pop_displaced().is_some() {
                    ended += 1;
                }
            }
            while flows.pop_ended(frame.ts_ns).is_some() {
                ended += 1;
            }
        }
    }
    Ok((number, packets, ended + flows.len() as u64))
}

//! `gabion-limit CAPTURE` measures the lower bound of a sensor's time: it reads a capture, decodes every
//! frame and looks up its flow, and does nothing else: no reassembly, no parser, no rule, no record.
//! `make bench` runs it together with the whole program.
//!
//! `gabion-limit --rsa KEY` measures how many private operations a second one core does with this key
//! (PEM) and the same cryptography: the upper bound of a receiver of envelopes.
//!
//! `gabion-limit --scap CAPTURE` reads a capture of system calls and looks at each parameter of each event: no merger, no
//! state, no filter.
//!
//! Exit codes: 0 done, 2 usage, 3 the capture or key can't be read.
#![allow(clippy::print_stdout, reason = "its results are for a terminal")]
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use gabion_capture::Source;
use gabion_flow::{FlowConfig, FlowTable, PacketFacts, packet_key};
use gabion_packet::{DecodeConfig, DecodeCounters, Link, PacketSet};
use gabion_record::budget::Budget;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Frames of a block, as the program reads them.
const BATCH: usize = 256;

fn main() -> ExitCode {
    let captures: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let capture = match captures.as_slice() {
        [flag, key] if flag.as_os_str() == "--rsa" => return rsa(key),
        [flag, capture] if flag.as_os_str() == "--scap" => return calls(capture),
        [capture] => capture,
        _ => {
            eprintln!("gabion-limit: usage: gabion-limit CAPTURE, --scap CAPTURE, or --rsa KEY");
            return ExitCode::from(2);
        }
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

/// Reads a capture of system calls, and looks at each parameter.
fn calls(path: &std::path::Path) -> ExitCode {
    use gabion_scap::Error;
    let open = |path| std::fs::File::open(path).map_err(|e| Error::Unreadable(e.to_string()));
    let read = || -> Result<(u64, u64), Error> {
        let mut reader = gabion_scap::Reader::new(open(path)?)?;
        let (mut events, mut bytes) = (0, 0);
        while let Some(item) = reader.next_item()? {
            if let gabion_scap::Item::Event(event) = item {
                events += 1;
                bytes += event.values.iter().map(|raw| raw.len() as u64).sum::<u64>();
            }
        }
        Ok((events, bytes))
    };
    match read() {
        Ok((events, bytes)) => {
            println!("{events} events, {bytes} bytes of parameters");
            ExitCode::SUCCESS
        }
        Err(fault) => {
            eprintln!("gabion-limit: {}: {fault}", path.display());
            ExitCode::from(3)
        }
    }
}

/// Unwraps one password repeatedly for a second of processor time.
fn rsa(path: &std::path::Path) -> ExitCode {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let Ok(key) = gabion_seal::SecretKey::parse_file(&text) else {
        eprintln!("gabion-limit: {}: not a private RSA key", path.display());
        return ExitCode::from(3);
    };
    // A number below the modulus that is no wrapped password costs the same operation.
    let len = match &key {
        gabion_seal::SecretKey::Rsa(key, _) => key.key_size_bytes(),
        gabion_seal::SecretKey::X25519(..) => 0,
    };
    let wrapped: Vec<u8> = (0..len).map(|i| (i % 127) as u8).collect();
    let (began, mut done) = (gabion_runtime::clock::thread_cpu(), 0u32);
    let mut spent = std::time::Duration::ZERO;
    while spent.as_secs() < 1 {
        for _ in 0..32 {
            let _ = std::hint::black_box(key.decrypt_oaep_sha512(&wrapped));
        }
        done += 32;
        spent = gabion_runtime::clock::thread_cpu().saturating_sub(began);
    }
    println!("{:.0} operations a second", f64::from(done) / spent.as_secs_f64());
    ExitCode::SUCCESS
}

fn walk(capture: &std::path::Path) -> Result<(u64, u64, u64), gabion_capture::Error> {
    let mut source = Source::from_file(std::fs::File::open(capture)?)?;
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
                    clock_ns: frame.ts_ns,
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

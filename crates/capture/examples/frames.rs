//! Prints the frames of captures, and what could not be read: `frames a.pcap b.pcapng.zst`.

#![allow(clippy::print_stdout, reason = "the results are printed to a terminal")]

use gabion_capture::{Error, Source};
use std::fs::File;
use std::path::Path;

/// Most frames of one block.
const FRAMES: usize = 256;

fn print(path: &Path) -> Result<(), Error> {
    let mut source = Source::from_file(File::open(path)?)?;
    let mut frames = Vec::new();
    while let Some(block) = source.next_block(FRAMES, &mut frames) {
        for frame in frames.drain(..) {
            let f = frame.frame(&block.bytes);
            let (seconds, ns) = (f.ts_ns / 1_000_000_000, f.ts_ns % 1_000_000_000);
            println!("{seconds}.{ns:09} link {} {} of {} bytes", f.link, f.data.len(), f.wire_len);
        }
    }
    eprintln!("{}: {} frames, {}", path.display(), source.frames_total(), source.ledger());
    Ok(())
}

fn main() {
    for path in std::env::args_os().skip(1) {
        let path = Path::new(&path);
        if let Err(e) = print(path) {
            eprintln!("{}: {e}", path.display());
        }
    }
}

//! Reads captures and prints the number of frames and the CPU time for each: `cargo run --release
//! -p gabion-capture --example read_speed -- batches|cursor FILE…`. `batches` opens the file and
//! takes batches of 128 references, as the program does; `cursor` walks bytes that are in memory
//! already.
#![allow(clippy::print_stdout, reason = "the results are printed to a terminal")]

use std::fs::File;
use std::time::Duration;

use gabion_capture::{CaptureBytes, Cursor, Error, Next, Source};

fn main() {
    let mut args = std::env::args().skip(1);
    let read = match args.next().as_deref() {
        Some("batches") => batches,
        Some("cursor") => frames,
        _ => return eprintln!("usage: read_speed batches|cursor FILE…"),
    };
    args.for_each(|path| (0..3).for_each(|_| read(&path)));
}

/// As in the program: batches of references; the first bytes of each frame are read.
fn batches(path: &str) {
    let started = cpu_time();
    let mut source = match File::open(path).map_err(Error::from).and_then(Source::from_file) {
        Ok(source) => source,
        Err(error) => return eprintln!("{path}: {error}"),
    };
    let (mut refs, mut sum) = (Vec::new(), 0_u64);
    while let Some(block) = source.next_block(128, &mut refs) {
        for r in refs.drain(..) {
            let frame = r.frame(&block.bytes);
            sum = sum.wrapping_add(u64::from(frame.data.first().copied().unwrap_or(0)));
        }
    }
    let frames = source.frames_total().max(1);
    let ns = (cpu_time() - started).as_nanos() as f64 / frames as f64;
    println!("{path}: batches: {frames} frames, {ns:.1} ns each, {} (sum {sum})", source.ledger());
}

/// The bare cursor over bytes in memory.
fn frames(path: &str) {
    let Ok(bytes) = std::fs::read(path) else { return };
    let Ok(source) = Source::from_bytes(CaptureBytes::from_vec(bytes)) else { return };
    let Some((bytes, cursor)) = source.shared_bytes() else { return };
    let bytes: &[u8] = bytes;
    for _ in 0..2 {
        let mut cursor: Cursor = cursor.clone();
        let started = cpu_time();
        let (mut frames, mut sum) = (0_u64, 0_u64);
        loop {
            match cursor.next(bytes) {
                Next::Frame(frame) => {
                    frames += 1;
                    sum = sum.wrapping_add(frame.ts_ns ^ frame.data.len() as u64);
                }
                Next::Bad(bad) if !bad.ends => {}
                Next::End | Next::Torn(_) | Next::Bad(_) => break,
            }
        }
        let ns = (cpu_time() - started).as_nanos() as f64 / frames.max(1) as f64;
        println!("{path}: bare cursor: {frames} frames, {ns:.1} ns each (sum {sum})");
    }
}

/// CPU time of this thread, including system time: wall time is meaningless on a busy machine.
fn cpu_time() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.unsigned_abs(), t.tv_nsec.unsigned_abs() as u32)
}

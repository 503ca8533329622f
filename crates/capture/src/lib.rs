//! Captures: reads frames from files, folders, pipes, standard input and interfaces, and writes pcap files.
//!
//! * Input: pcap (microseconds, nanoseconds, both byte orders, the header of Kuznetsov's patch) and
//!   pcapng (any sections, interfaces, resolutions), plain or inside zstd or gzip.
//! * Output: [`Frame`]s borrowed from a block of the file or stream, or lists of
//!   [`FrameRef`]s over a shared [`CaptureBytes`], which is how a reader thread hands work to
//!   others without copying; and a [`Ledger`](gabion_record::ledger::Ledger) that counts all
//!   that could not be read, by reason.
//! * Main types: [`Cursor`], the parser's state, free of I/O; [`Source`], which feeds it from a
//!   file or a stream; [`AgreedClock`], the time that frames agree on; [`list`], which expands
//!   folders; [`PcapWriter`] and [`RotatingPcap`].
//!
//! ```
//! use gabion_capture::{PcapWriter, Resolution, Source};
//!
//! const ETHERNET: u16 = 1;
//! let mut writer = PcapWriter::new(Vec::new(), ETHERNET, Resolution::Nano, 0, u64::MAX)?;
//! writer.write(1_700_000_000_000_000_000, ETHERNET, 60, &[0; 60])?;
//! let capture = writer.finish()?;
//!
//! let mut source = Source::from_reader(Box::new(std::io::Cursor::new(capture)))?;
//! let (mut frames, mut bytes) = (Vec::new(), 0);
//! while let Some(block) = source.next_block(256, &mut frames) {
//!     for frame in frames.drain(..) {
//!         bytes += frame.frame(&block.bytes).data.len();
//!     }
//! }
//! assert_eq!((source.frames_total(), bytes), (1, 60));
//! # Ok::<(), gabion_capture::Error>(())
//! ```
//!
//! `examples/frames.rs` reads files, which its caller opens. The crate has no features: each of its dependencies is a form
//! that captures come in.
//!
//! The content of a file is never trusted: lengths are bounded (`limits`), a truncated or
//! contradictory record ends the reading with one [`Note`] and an entry in the ledger, and all
//! frames before it are valid. A capture without frames is a valid capture.
//!
//! `unsafe` code is in `bytes` (cache prefetching) and in `live::ring` (memory
//! shared with the kernel) only.

mod bytes;
mod clock;
mod cursor;
mod error;
pub mod filter;
mod fuzz;
pub mod limits;
mod listing;
pub mod live;
mod packed;
mod pcap;
mod pcapng;
mod source;
mod step;
mod stream;
mod writer;

pub use bytes::{CaptureBytes, Frame, FrameRef};
pub use clock::{Agreed, AgreedClock, ClockCounts};
pub use cursor::{Bad, Cursor, Next, Stop, Torn};
pub use error::Error;
pub use listing::{list, list_recursive};
pub use packed::Packing;
pub use source::{Block, Note, OpenOptions, Source};
pub use step::Format;
pub use writer::{FileNames, PcapWriter, Resolution, RotatingPcap, RotationLimits, Written};

/// Reads arbitrary bytes as a capture, whole and in pieces, and checks that both agree. For fuzzers
/// and tests.
#[doc(hidden)]
pub fn fuzz_entry(data: &[u8]) -> Result<usize, Error> {
    fuzz::read_both_ways(data)
}

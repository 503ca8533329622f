//! What the parsers of the formats have in common: which format it is, and what stands at a place.

use crate::bytes::FrameRef;

/// The file formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Classic pcap with microseconds.
    Pcap,
    /// Classic pcap with nanoseconds.
    PcapNs,
    /// Classic pcap with the longer record header of Kuznetsov's patch.
    PcapModified,
    /// pcapng.
    Pcapng,
}

/// One step of a format's parser: the record at `pos`.
pub(crate) enum Step {
    Frame(FrameRef, usize),
    /// Not a frame; go on there.
    Skip(usize),
    Need(usize),
    /// Pass over to there.
    BadSkip(usize, &'static str),
    BadEnd(&'static str),
}

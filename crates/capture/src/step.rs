//! Types that the parsers of the formats share: the format, and one step at an offset.

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
    /// Not a frame; continue at this offset.
    Skip(usize),
    Need(usize),
    /// Skip to this offset.
    BadSkip(usize, &'static str),
    BadEnd(&'static str),
}

//! Classic pcap (draft-ietf-opsawg-pcap): a header of 24 bytes, then records of 16 bytes and data.
//!
//! Variants read: microseconds 0xa1b2c3d4, nanoseconds 0xa1b23c4d, the modified format of
//! Kuznetsov's patch 0xa1b2cd34 (records of 24 bytes), each in both byte orders; the swapped length
//! fields of versions before 2.4. Contradictory files are read as by libpcap: a record beyond the
//! file's snap length is cut to it, one beyond `limits` is garbage.

use crate::bytes::FrameRef;
use crate::error::Error;
use crate::limits;
use crate::step::{Format, Step};

pub(crate) const MAGIC_US: u32 = 0xa1b2_c3d4;
pub(crate) const MAGIC_NS: u32 = 0xa1b2_3c4d;
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;
pub(crate) const FILE_HEADER: usize = 24;
pub(crate) const RECORD_HEADER: usize = 16;
const RECORD_HEADER_MODIFIED: usize = 24;

/// Which of a record's two length fields is the captured one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    CapturedFirst,
    /// Before version 2.3.
    CapturedSecond,
    /// Version 2.3: whichever is smaller.
    SmallerCaptured,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pcap {
    is_swapped: bool,
    format: Format,
    lengths: Lengths,
    link: u16,
    fraction_ns: u32,
    snaplen: u32,
    caplen_max: u32,
    header_len: usize,
}

impl Pcap {
    /// `None` if the magic number is another format's; otherwise the state and where records begin.
    pub(crate) fn open(magic: [u8; 4], bytes: &[u8]) -> Result<Option<(Pcap, usize)>, Error> {
        let (little, big) = (u32::from_le_bytes(magic), u32::from_be_bytes(magic));
        let known = |m: u32| match m {
            MAGIC_US => Some(Format::Pcap),
            MAGIC_NS => Some(Format::PcapNs),
            MAGIC_MODIFIED => Some(Format::PcapModified),
            _ => None,
        };
        let (format, is_swapped) = match (known(little), known(big)) {
            (Some(format), _) => (format, false),
            (None, Some(format)) => (format, true),
            (None, None) => return Ok(None),
        };
        let Some(header) = bytes.first_chunk::<FILE_HEADER>() else {
            return Err(Error::TornHeader(bytes.len()));
        };
        let [_, versions, _, _, snaplen, link] = words(header, is_swapped);
        // Two 16-bit fields: the first one is the lower half after reading in file order.
        let (major, minor) = if is_swapped {
            (versions >> 16, versions & 0xffff)
        } else {
            (versions & 0xffff, versions >> 16)
        };
        let lengths = match (major, minor) {
            (2, 0..=2) | (543, _) => Lengths::CapturedSecond,
            (2, 3) => Lengths::SmallerCaptured,
            (2, _) => Lengths::CapturedFirst,
            _ => {
                return Err(Error::Unsupported(format!("pcap version {major}.{minor}")));
            }
        };
        // The upper bits describe frame check sequences.
        let link = (link & 0xffff) as u16;
        let caplen_max = limits::caplen_max(link);
        let pcap = Pcap {
            is_swapped,
            format,
            lengths,
            link,
            fraction_ns: if format == Format::PcapNs { 1 } else { 1000 },
            snaplen: if snaplen == 0 || snaplen > i32::MAX as u32 { caplen_max } else { snaplen },
            caplen_max,
            header_len: match format {
                Format::PcapModified => RECORD_HEADER_MODIFIED,
                Format::Pcap | Format::PcapNs | Format::Pcapng => RECORD_HEADER,
            },
        };
        Ok(Some((pcap, FILE_HEADER)))
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    pub(crate) fn link(&self) -> u16 {
        self.link
    }

    #[inline]
    pub(crate) fn step(&self, bytes: &[u8], pos: usize) -> Step {
        let Some(header) = bytes.get(pos..).and_then(|b| b.first_chunk::<RECORD_HEADER>()) else {
            return Step::Need(self.header_len);
        };
        let [seconds, fraction, first, second] = words(header, self.is_swapped);
        let (caplen, wire_len) = match self.lengths {
            Lengths::CapturedFirst => (first, second),
            Lengths::CapturedSecond => (second, first),
            Lengths::SmallerCaptured => (first.min(second), first.max(second)),
        };
        if caplen > self.caplen_max {
            return Step::BadEnd("its captured length is too large");
        }
        let need = self.header_len.saturating_add(caplen as usize);
        let next = pos.saturating_add(need);
        if next > bytes.len() {
            return Step::Need(need);
        }
        let frame = FrameRef {
            ts_ns: u64::from(seconds)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(u64::from(fraction).wrapping_mul(u64::from(self.fraction_ns))),
            offset: (pos + self.header_len) as u64,
            len: caplen.min(self.snaplen),
            wire_len,
            link: self.link,
            interface: 0,
            has_no_checksums: false,
        };
        Step::Frame(frame, next)
    }
}

/// Reads consecutive 32-bit words in the file's byte order.
#[inline]
fn words<const BYTES: usize, const WORDS: usize>(
    bytes: &[u8; BYTES],
    is_swapped: bool,
) -> [u32; WORDS] {
    let mut out = [0; WORDS];
    for (word, chunk) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
        let little = u32::from_le_bytes(*chunk);
        *word = if is_swapped { little.swap_bytes() } else { little };
    }
    out
}

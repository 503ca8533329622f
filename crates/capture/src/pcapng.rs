//! pcapng (draft-ietf-opsawg-pcapng): blocks of type, length, body, and the length again.
//!
//! Read: section headers (each sets the byte order and clears the interfaces), interface
//! descriptions with `if_tsresol` and `if_tsoffset`, enhanced, simple and obsolete packets, and of
//! interface statistics the drops. All other blocks are skipped by their length. A block with valid
//! lengths but invalid content is skipped and counted; one with invalid lengths ends the reading,
//! as the start of the next block is unknown. Suricata's reader (libpcap) ends at the first of
//! either, and at a second interface with another link type or snap length (measured); this reader
//! continues.

use crate::bytes::FrameRef;
use crate::error::Error;
use crate::limits;
use crate::step::Step;

const SECTION: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED: u32 = 6;
/// The machine's description in a scap file, which has the same first block as pcapng and no packets.
const SCAP_MACHINE: u32 = 0x201;

const OPT_END: u16 = 0;
const OPT_TSRESOL: u16 = 9;
const OPT_TSOFFSET: u16 = 14;
const OPT_IFDROP: u16 = 5;
const OPT_OSDROP: u16 = 7;

/// Why a scap file is not read as pcapng.
const NO_PACKETS: &str =
    "it holds system calls (scap) and no packets: name it alone, or see gabion events";

/// Type and length before the body, and the length after it.
const HEAD: usize = 8;
const FRAME: usize = 12;

/// Why a block with valid lengths is skipped, or ends the reading if it begins a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BadBlock {
    ShortPacket,
    UnknownInterface,
    LargeFrame,
    FrameBeyondBlock,
    ShortSection,
    UnknownVersion,
    ShortInterface,
    TooManyInterfaces,
    ImpossibleResolution,
    ShortStatistics,
}

impl BadBlock {
    /// The reason as messages have it, after the name of the file.
    const fn text(self) -> &'static str {
        match self {
            BadBlock::ShortPacket => "its packet block is too short",
            BadBlock::UnknownInterface => "its interface was not described",
            BadBlock::LargeFrame => "its captured length is too large",
            BadBlock::FrameBeyondBlock => "its captured length is beyond its block",
            BadBlock::ShortSection => "its section header is too short",
            BadBlock::UnknownVersion => "its section has an unknown version",
            BadBlock::ShortInterface => "its interface description is too short",
            BadBlock::TooManyInterfaces => "its section has too many interfaces",
            BadBlock::ImpossibleResolution => "its interface has an impossible time resolution",
            BadBlock::ShortStatistics => "its statistics are too short",
        }
    }
}

/// How a timestamp is converted to nanoseconds.
#[derive(Clone, Copy, Debug)]
enum Scale {
    Times(u64),
    Over(u64),
    /// Units of 2^-n seconds.
    Shift(u8),
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    scale: Scale,
    offset_ns: i64,
    snaplen: u32,
    link: u16,
    /// Drops of its last statistics.
    drops: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Pcapng {
    is_swapped: bool,
    block_max: u32,
    interfaces: Vec<Interface>,
    /// Drops of interfaces of earlier sections.
    drops_before: u64,
}

impl Pcapng {
    /// `None` if the magic number is another format's.
    pub(crate) fn open(magic: [u8; 4], bytes: &[u8]) -> Result<Option<Pcapng>, Error> {
        if u32::from_le_bytes(magic) != SECTION {
            return Ok(None);
        }
        let Some(head) = bytes.first_chunk::<FRAME>() else {
            return Err(Error::TornHeader(bytes.len()));
        };
        let is_swapped = section_order(head).ok_or_else(|| {
            Error::NotACapture("a pcapng section without a byte-order mark".to_owned())
        })?;
        Ok(Some(Pcapng {
            is_swapped,
            block_max: limits::NG_BLOCK_MAX,
            interfaces: Vec::new(),
            drops_before: 0,
        }))
    }

    pub(crate) fn first_link(&self) -> Option<u16> {
        self.interfaces.first().map(|i| i.link)
    }

    pub(crate) fn reported_drops(&self) -> u64 {
        self.interfaces.iter().fold(self.drops_before, |sum, i| sum.saturating_add(i.drops))
    }

    #[inline]
    pub(crate) fn step(&mut self, bytes: &[u8], pos: usize) -> Step {
        let rest = bytes.get(pos..).unwrap_or_default();
        let Some(head) = rest.first_chunk::<FRAME>() else { return Step::Need(FRAME) };
        let mut kind = self.u32_at(head, 0);
        if kind == SECTION {
            match section_order(head) {
                Some(is_swapped) => self.is_swapped = is_swapped,
                None => return Step::BadEnd("its section has no byte-order mark"),
            }
            kind = SECTION;
        }
        let len = self.u32_at(head, 4);
        if len < FRAME as u32 || !len.is_multiple_of(4) {
            return Step::BadEnd("its block length is impossible");
        }
        if len > self.block_max {
            return Step::BadEnd("its block length is too large");
        }
        let len = len as usize;
        let Some(block) = rest.get(..len) else { return Step::Need(len) };
        if self.u32_at(block, len - 4) != self.u32_at(head, 4) {
            return Step::BadEnd("its two block lengths differ");
        }
        let next = pos.saturating_add(len);
        let body = block.get(HEAD..len - 4).unwrap_or_default();
        let read = match kind {
            ENHANCED => self.enhanced(body),
            PACKET => self.obsolete(body),
            SIMPLE => self.simple(body),
            INTERFACE => self.interface(body).map(|()| None),
            SECTION => match self.section(body) {
                Ok(()) => Ok(None),
                Err(why) => return Step::BadEnd(why.text()),
            },
            STATISTICS => self.statistics(body).map(|()| None),
            SCAP_MACHINE if self.interfaces.is_empty() => return Step::BadEnd(NO_PACKETS),
            _ => Ok(None),
        };
        match read {
            Ok(Some(mut frame)) => {
                frame.offset = frame.offset.saturating_add((pos + HEAD) as u64);
                Step::Frame(frame, next)
            }
            Ok(None) => Step::Skip(next),
            Err(why) => Step::BadSkip(next, why.text()),
        }
    }

    fn enhanced(&self, body: &[u8]) -> Result<Option<FrameRef>, BadBlock> {
        let Some(fixed) = body.first_chunk::<20>() else {
            return Err(BadBlock::ShortPacket);
        };
        let interface = self.u32_at(fixed, 0);
        let words = [4, 8, 12, 16].map(|at| self.u32_at(fixed, at));
        self.packet(body, interface, words)
    }

    fn obsolete(&self, body: &[u8]) -> Result<Option<FrameRef>, BadBlock> {
        let Some(fixed) = body.first_chunk::<20>() else {
            return Err(BadBlock::ShortPacket);
        };
        // Interface and drop count share the first word.
        let interface = u32::from(self.u16_at(fixed, 0));
        let words = [4, 8, 12, 16].map(|at| self.u32_at(fixed, at));
        self.packet(body, interface, words)
    }

    /// The common part of both packet blocks: time (two words), captured and wire length, data.
    #[inline]
    fn packet(
        &self,
        body: &[u8],
        interface: u32,
        [high, low, caplen, wire_len]: [u32; 4],
    ) -> Result<Option<FrameRef>, BadBlock> {
        let Some(from) = self.interfaces.get(interface as usize) else {
            return Err(BadBlock::UnknownInterface);
        };
        if caplen > limits::caplen_max(from.link) {
            return Err(BadBlock::LargeFrame);
        }
        if caplen as usize > body.len() - 20 {
            return Err(BadBlock::FrameBeyondBlock);
        }
        Ok(Some(FrameRef {
            ts_ns: from.nanoseconds(u64::from(high) << 32 | u64::from(low)),
            offset: 20,
            len: caplen,
            wire_len,
            link: from.link,
            interface: interface as u16,
            has_no_checksums: false,
        }))
    }

    /// A simple packet has neither time nor captured length: the snap length of the first interface
    /// determines how many bytes it has.
    fn simple(&self, body: &[u8]) -> Result<Option<FrameRef>, BadBlock> {
        let Some(fixed) = body.first_chunk::<4>() else {
            return Err(BadBlock::ShortPacket);
        };
        let Some(from) = self.interfaces.first() else {
            return Err(BadBlock::UnknownInterface);
        };
        let wire_len = self.u32_at(fixed, 0);
        let caplen = if from.snaplen == 0 { wire_len } else { wire_len.min(from.snaplen) };
        if caplen as usize > body.len() - 4 {
            return Err(BadBlock::FrameBeyondBlock);
        }
        Ok(Some(FrameRef {
            ts_ns: 0,
            offset: 4,
            len: caplen,
            wire_len,
            link: from.link,
            interface: 0,
            has_no_checksums: false,
        }))
    }

    fn section(&mut self, body: &[u8]) -> Result<(), BadBlock> {
        if body.len() < 16 {
            return Err(BadBlock::ShortSection);
        }
        if self.u16_at(body, 4) != 1 {
            return Err(BadBlock::UnknownVersion);
        }
        self.drops_before = self.reported_drops();
        self.interfaces.clear();
        Ok(())
    }

    /// An interface whose options can't be read is kept with the defaults, so that the numbers of
    /// those after it stay correct.
    fn interface(&mut self, body: &[u8]) -> Result<(), BadBlock> {
        if body.len() < 8 {
            return Err(BadBlock::ShortInterface);
        }
        if self.interfaces.len() >= limits::NG_INTERFACES_MAX {
            return Err(BadBlock::TooManyInterfaces);
        }
        let mut interface = Interface {
            scale: Scale::Times(1000),
            offset_ns: 0,
            snaplen: self.u32_at(body, 4),
            link: self.u16_at(body, 0),
            drops: 0,
        };
        let mut read = Ok(());
        for (code, value) in self.options(body.get(8..).unwrap_or_default()) {
            match (code, value) {
                (OPT_TSRESOL, [resolution, ..]) => match Scale::from_resolution(*resolution) {
                    Some(scale) => interface.scale = scale,
                    None => read = Err(BadBlock::ImpossibleResolution),
                },
                (OPT_TSOFFSET, value) if value.len() >= 8 => {
                    let seconds = self.u64_at(value, 0) as i64;
                    interface.offset_ns = seconds.saturating_mul(1_000_000_000);
                }
                _ => {}
            }
        }
        let caplen_max = limits::caplen_max(interface.link);
        // Space for the options of a packet in addition to its largest frame.
        self.block_max = self.block_max.max(caplen_max.saturating_add(1 << 20));
        self.interfaces.push(interface);
        read
    }

    fn statistics(&mut self, body: &[u8]) -> Result<(), BadBlock> {
        if body.len() < 12 {
            return Err(BadBlock::ShortStatistics);
        }
        let id = self.u32_at(body, 0) as usize;
        let mut drops = None;
        for (code, value) in self.options(body.get(12..).unwrap_or_default()) {
            if matches!(code, OPT_IFDROP | OPT_OSDROP) && value.len() >= 8 {
                drops = Some(self.u64_at(value, 0).saturating_add(drops.unwrap_or(0)));
            }
        }
        match (self.interfaces.get_mut(id), drops) {
            (None, _) => Err(BadBlock::UnknownInterface),
            (Some(interface), Some(drops)) => {
                interface.drops = drops;
                Ok(())
            }
            (Some(_), None) => Ok(()),
        }
    }

    /// Code and value of each option; ends at the end mark or at an option beyond the block.
    fn options<'a>(&self, mut rest: &'a [u8]) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let is_swapped = self.is_swapped;
        std::iter::from_fn(move || {
            let head = rest.first_chunk::<4>()?;
            let code = u16_at(head, 0, is_swapped);
            let len = usize::from(u16_at(head, 2, is_swapped));
            if code == OPT_END {
                return None;
            }
            let value = rest.get(4..4 + len)?;
            rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
            Some((code, value))
        })
    }

    #[inline]
    fn u32_at(&self, bytes: &[u8], at: usize) -> u32 {
        u32_at(bytes, at, self.is_swapped)
    }

    #[inline]
    fn u16_at(&self, bytes: &[u8], at: usize) -> u16 {
        u16_at(bytes, at, self.is_swapped)
    }

    fn u64_at(&self, bytes: &[u8], at: usize) -> u64 {
        let value = bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
        if self.is_swapped { u64::from_be_bytes(value) } else { u64::from_le_bytes(value) }
    }
}

impl Scale {
    /// `if_tsresol`: the highest bit chooses powers of 2 or of 10; libpcap's bounds (what fits
    /// into 64 bits).
    fn from_resolution(resolution: u8) -> Option<Scale> {
        let power = resolution & 0x7f;
        if resolution & 0x80 != 0 {
            return (power < 64).then_some(Scale::Shift(power));
        }
        if power <= 9 {
            Some(Scale::Times(10_u64.pow(u32::from(9 - power))))
        } else {
            10_u64.checked_pow(u32::from(power - 9)).filter(|_| power <= 19).map(Scale::Over)
        }
    }
}

impl Interface {
    #[inline]
    fn nanoseconds(&self, ts: u64) -> u64 {
        let ns = match self.scale {
            Scale::Times(factor) => ts.saturating_mul(factor),
            Scale::Over(divisor) => ts / divisor.max(1),
            Scale::Shift(bits) => {
                u64::try_from((u128::from(ts) * 1_000_000_000) >> bits).unwrap_or(u64::MAX)
            }
        };
        ns.saturating_add_signed(self.offset_ns)
    }
}

/// The byte order of a section from its first 12 bytes: whether it is swapped (big endian).
fn section_order(head: &[u8; FRAME]) -> Option<bool> {
    match u32_at(head, 8, false) {
        BYTE_ORDER => Some(false),
        mark if mark.swap_bytes() == BYTE_ORDER => Some(true),
        _ => None,
    }
}

#[inline]
fn u32_at(bytes: &[u8], at: usize, is_swapped: bool) -> u32 {
    let value = bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
    if is_swapped { u32::from_be_bytes(value) } else { u32::from_le_bytes(value) }
}

#[inline]
fn u16_at(bytes: &[u8], at: usize, is_swapped: bool) -> u16 {
    let value = bytes.get(at..).and_then(|b| b.first_chunk()).copied().unwrap_or_default();
    if is_swapped { u16::from_be_bytes(value) } else { u16::from_le_bytes(value) }
}

//! Blocks of a scap file: their numbers, and what is between their two lengths.
//!
//! `u32 type, u32 length, body, padding to 4 bytes, u32 length`, in the byte order of the machine, which is always
//! little-endian. The length counts everything.

use crate::lists::ListKind;

/// Bytes before the body.
pub(crate) const HEAD_LEN: usize = 8;
/// Bytes of a block without its body.
pub(crate) const FRAME_LEN: usize = 12;
/// The number of a section's header.
pub(crate) const SECTION: u32 = 0x0a0d_0d0a;
/// The number of the machine's description, as files have it today.
pub(crate) const MACHINE: u32 = 0x201;
/// The word in a section's header that shows the byte order.
pub(crate) const MAGIC: u32 = 0x1a2b_3c4d;
/// The major version of the format.
pub(crate) const MAJOR: u16 = 1;
/// Bytes of the fixed part of a section's body.
pub(crate) const SECTION_BODY_LEN: usize = 16;

/// How an event is stored in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventBlock {
    /// Whether the number of parameters is in the event.
    pub(crate) has_count: bool,
    /// Whether there are flags before the event.
    pub(crate) has_flags: bool,
    /// Whether the block is for events with lengths of 32 bits.
    pub(crate) is_large: bool,
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Section,
    Machine,
    List(ListKind),
    Event(EventBlock),
    Unknown,
}

/// How an event is stored in a block of this number, for the numbers of today's and yesterday's writers whose events are
/// not large: nearly all blocks of a file.
#[inline]
pub(crate) const fn usual_event(number: u32) -> Option<EventBlock> {
    let (has_count, has_flags) = match number {
        0x204 => (false, false),
        0x208 => (false, true),
        0x216 => (true, false),
        0x217 => (true, true),
        _ => return None,
    };
    Some(EventBlock { has_count, has_flags, is_large: false })
}

/// What a block of this number holds; numbers of unreleased versions included.
pub(crate) fn kind(number: u32) -> BlockKind {
    let event = |has_count, has_flags, is_large| {
        BlockKind::Event(EventBlock { has_count, has_flags, is_large })
    };
    let list = BlockKind::List;
    match number {
        SECTION => BlockKind::Section,
        MACHINE | 0x8002_abcd => BlockKind::Machine,
        0x202 | 0x8000_abcd => list(ListKind::Processes(1)),
        0x207 | 0x8013_abcd => list(ListKind::Processes(2)),
        0x209 | 0x8014_abcd => list(ListKind::Processes(3)),
        0x210 => list(ListKind::Processes(4)),
        0x211 => list(ListKind::Processes(5)),
        0x212 => list(ListKind::Processes(6)),
        0x213 => list(ListKind::Processes(7)),
        0x214 => list(ListKind::Processes(8)),
        0x215 => list(ListKind::Processes(9)),
        0x203 | 0x8001_abcd => list(ListKind::Fds(1)),
        0x218 => list(ListKind::Fds(2)),
        0x205 | 0x8011_abcd => list(ListKind::Interfaces(1)),
        0x219 => list(ListKind::Interfaces(2)),
        0x206 | 0x8012_abcd => list(ListKind::Users(1)),
        0x220 => list(ListKind::Users(2)),
        0x204 | 0x8010_abcd => event(false, false, false),
        0x208 => event(false, true, false),
        0x216 => event(true, false, false),
        0x217 => event(true, true, false),
        0x221 => event(true, false, true),
        0x222 => event(true, true, true),
        _ => BlockKind::Unknown,
    }
}

/// Whether a block of this number, as the first one after the header, is that of a pcapng file: the description of an
/// interface, a packet, a packet without one, names, statistics.
pub(crate) const fn is_of_packets(number: u32) -> bool {
    matches!(number, 1..=6)
}

/// Whether a file that begins with these bytes is a scap file and no pcapng file: both have the same first block, but
/// the second block of a scap file is the machine's description. `false` also if there are too few bytes to decide.
#[must_use]
pub fn is_scap(beginning: &[u8]) -> bool {
    let word = |at: usize| {
        beginning.get(at..).and_then(|rest| rest.first_chunk()).map(|b| u32::from_le_bytes(*b))
    };
    let (Some(SECTION), Some(len), Some(MAGIC)) = (word(0), word(4), word(8)) else {
        return false;
    };
    word(len as usize).is_some_and(|number| {
        let known = kind(number);
        known != BlockKind::Unknown && known != BlockKind::Section
    })
}

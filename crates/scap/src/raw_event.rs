//! One event from the body of its block: where its parts are, and whether they contradict each other.

use crate::block::EventBlock;
use crate::table::{EventType, event_type, types};

/// Bytes of an event's head with the number of its parameters.
const HEAD_LEN: usize = 26;
/// Bytes of an event's head in old blocks.
const OLD_HEAD_LEN: usize = 22;

/// An event as places in the body of its block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEvent {
    pub(crate) cpu: u16,
    pub(crate) flags: u32,
    pub(crate) ts_ns: u64,
    pub(crate) tid: i64,
    pub(crate) kind: &'static EventType,
    /// Where the lengths of the parameters begin.
    pub(crate) lengths_at: usize,
    /// Where the lengths end and the parameters begin.
    pub(crate) values_at: usize,
    /// Where the event ends.
    pub(crate) end: usize,
}

/// Why a block holds no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoEvent {
    /// The event table has no such type.
    UnknownType(u16),
    /// The body is too short for a head.
    NoHead(usize),
    /// The event says a length that its head does not fit into.
    TooShort { len: usize, head: usize },
    /// The event says a length that its block does not have.
    TooLong { len: usize, available: usize },
    /// The event has more parameters than its bytes can describe.
    Count { count: u32, len: usize },
    /// A parameter ends after the event.
    Parameter { place: usize, param_len: usize, len: usize },
    /// No number of parameters gives the length that an old event says.
    OldCount { len: usize },
}

impl std::fmt::Display for NoEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            NoEvent::UnknownType(kind) => write!(f, "unknown event type {kind}"),
            NoEvent::NoHead(len) => write!(f, "invalid event: no head in {len} bytes"),
            NoEvent::TooShort { len, head } => {
                write!(f, "invalid event: len {len} is smaller than the event header size {head}")
            }
            NoEvent::TooLong { len, available } => write!(
                f,
                "invalid event: len {len} is larger than the {available} bytes available in the block"
            ),
            NoEvent::Count { count, len } => {
                write!(f, "invalid event: nparams {count} does not fit in event len {len}")
            }
            NoEvent::Parameter { place, param_len, len } => {
                write!(f, "invalid event: param {place} len {param_len} exceeds event len {len}")
            }
            NoEvent::OldCount { len } => {
                write!(f, "invalid event: no number of parameters gives event len {len}")
            }
        }
    }
}

/// Finds the parts of the event in the body of a block.
#[inline]
pub(crate) fn decode(body: &[u8], block: EventBlock) -> Result<RawEvent, NoEvent> {
    let no_head = || NoEvent::NoHead(body.len());
    let cpu = body.first_chunk().map(|b| u16::from_le_bytes(*b)).ok_or_else(no_head)?;
    let at = if block.has_flags { 6 } else { 2 };
    let flags = if block.has_flags {
        let bytes = body.get(2..).and_then(|rest| rest.first_chunk()).ok_or_else(no_head)?;
        u32::from_le_bytes(*bytes)
    } else {
        0
    };
    let event = body.get(at..).unwrap_or_default();
    let head: &[u8; OLD_HEAD_LEN] = event.first_chunk().ok_or_else(no_head)?;
    let word = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&head[from..from + 8]);
        u64::from_le_bytes(bytes)
    };
    let (ts_ns, tid) = (word(0), word(8) as i64);
    let mut len = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
    let number = u16::from_le_bytes([head[20], head[21]]);
    let Some(kind) = event_type(number) else {
        return Err(NoEvent::UnknownType(number));
    };
    if !block.has_count && matches!(number, types::NOTIFICATION_E | types::INFRASTRUCTURE_EVENT_E) {
        // Old writers counted three bytes too many for these.
        len = len.saturating_sub(3);
    }
    let head_len = if block.has_count { HEAD_LEN } else { OLD_HEAD_LEN };
    if len < head_len {
        return Err(NoEvent::TooShort { len, head: head_len });
    }
    let Some(event) = event.get(..len) else {
        return Err(NoEvent::TooLong { len, available: event.len() });
    };
    let table = event.get(head_len..).unwrap_or_default();
    let lengths_len = if block.has_count {
        let count = event.get(OLD_HEAD_LEN..).and_then(|rest| rest.first_chunk());
        checked_lengths(table, kind, u32::from_le_bytes(*count.ok_or_else(no_head)?), len)?
    } else {
        old_lengths(table, kind).ok_or(NoEvent::OldCount { len })?
    };
    let lengths_at = at + head_len;
    let values_at = lengths_at + lengths_len;
    Ok(RawEvent { cpu, flags, ts_ns, tid, kind, lengths_at, values_at, end: at + len })
}

/// Bytes of all lengths of an event that says how many there are. Each parameter must end inside of the event.
#[inline]
fn checked_lengths(
    table: &[u8],
    kind: &EventType,
    count: u32,
    len: usize,
) -> Result<usize, NoEvent> {
    let width = if kind.is_large() { 4 } else { 2 };
    let lengths_len = (count as usize).saturating_mul(width);
    let Some((lengths, values)) = table.split_at_checked(lengths_len) else {
        return Err(NoEvent::Count { count, len });
    };
    let mut sum = 0usize;
    for (place, param_len) in each_length(lengths, width).enumerate() {
        sum = sum.saturating_add(param_len);
        if sum > values.len() {
            return Err(NoEvent::Parameter { place, param_len, len });
        }
    }
    Ok(lengths_len)
}

/// Bytes of all lengths of an event of an old block: the number of parameters is the one, at most that of the table,
/// with which lengths and parameters fill the event exactly.
fn old_lengths(table: &[u8], kind: &EventType) -> Option<usize> {
    let width = if kind.is_large() { 4 } else { 2 };
    let mut sum = 0usize;
    let mut lengths = each_length(table, width);
    for count in 0..=kind.parameters.len() {
        let filled = (count * width).saturating_add(sum);
        if filled >= table.len() {
            return (filled == table.len()).then_some(count * width);
        }
        sum = sum.saturating_add(lengths.next()?);
    }
    None
}

#[inline]
fn each_length(lengths: &[u8], width: usize) -> impl Iterator<Item = usize> + '_ {
    lengths.chunks_exact(width).map(|bytes| match *bytes {
        [a, b] => usize::from(u16::from_le_bytes([a, b])),
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]) as usize,
        _ => 0,
    })
}

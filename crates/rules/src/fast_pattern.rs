//! Choice of the one content that is given to the matcher.
//!
//! `fast_pattern` decides; else the buffer with the best priority, in it the longest content, then
//! the strongest, then the buffer that comes first in the order of ties, then the leftmost. The
//! order of ties is Suricata's (measured there pair by pair), so that both choose the same.

use crate::compiler::Compiler;
use crate::content::{BufferCondition, Content, ContentFlags};
use crate::draft::{Draft, DraftBuffer};
use crate::signature::{BufferRef, FastPattern, RuleHook};
use gabion_record::Direction;

/// Priority of the raw payload among buffers (most are 2).
const PAYLOAD_PRIORITY: u8 = 3;
/// Priority of packet headers and frames.
const PACKET_PRIORITY: u8 = 2;

/// Buffers whose contents are equal in all else: earlier ones win. Names are Suricata's internal
/// ones; those that are not here come after, in the catalog's order from its end.
const TIE_ORDER: &[&str] = &[
    "http_uri",
    "http_raw_uri",
    "http_request_line",
    "http_client_body",
    "http_response_line",
    "http_header",
    "http_response_header",
    "http_request_header",
    "http_header_names",
    "http_accept",
    "http_accept_enc",
    "http_accept_lang",
    "http_referer",
    "http_connection",
    "http_content_len",
    "http_content_type",
    "http_server",
    "http_location",
    "http_protocol",
    "http_start",
    "http_raw_header",
    "http_cookie",
    "http_stat_msg",
    "http_user_agent",
    "http_host",
    "http_raw_host",
    "file_data",
    "file.name",
];

/// Chooses the content and marks it.
pub(crate) fn select(c: &Compiler<'_>, d: &mut Draft<'_>) -> Option<FastPattern> {
    // a keyword that was asked to be the prefilter takes the place of the pattern
    if d.prefilter.is_some() {
        return None;
    }
    // a hook up to a state is examined in each of them, buffer there or not
    if matches!(d.hook, Some(RuleHook::App { up_to: true, .. })) {
        return None;
    }
    let chosen = explicit(d).or_else(|| best(c, d))?;
    let list = d.buffers.get_mut(chosen.0)?;
    if let BufferCondition::Content(content) = &mut list.conditions.get_mut(chosen.1)?.condition {
        content.flags.set(ContentFlags::IS_FAST_PATTERN);
        if is_conclusive(content) {
            content.flags.set(ContentFlags::NO_DOUBLE_INSPECT);
        }
    }
    Some(FastPattern {
        inspection: u16::try_from(chosen.0).ok()?,
        condition: u16::try_from(chosen.1).ok()?,
    })
}

/// Finding the pattern in the buffer says as much as inspecting the content would.
fn is_conclusive(content: &Content) -> bool {
    !content.is_relative()
        && content.offset.is_none()
        && content.depth.is_none()
        && !content.has_relative_next()
        && !content.flags.has(ContentFlags::FAST_PATTERN_CHOP)
        && !content.is_negated()
}

fn explicit(d: &Draft<'_>) -> Option<(usize, usize)> {
    d.buffers.iter().enumerate().find_map(|(n, b)| {
        let at = b.conditions.iter().position(|x| {
            matches!(&x.condition, BufferCondition::Content(content)
                if content.flags.has(ContentFlags::FAST_PATTERN))
        })?;
        Some((n, at))
    })
}

/// A content that may be chosen.
struct Candidate {
    place: (usize, usize),
    priority: u8,
    len: usize,
    strength: u32,
    tie: usize,
}

fn best(c: &Compiler<'_>, d: &Draft<'_>) -> Option<(usize, usize)> {
    let any_positive = d
        .buffers
        .iter()
        .any(|b| can_serve(b) && contents(b).any(|(_, content)| !content.is_negated()));
    // A transactional rule is found by its request when that has anything to be found by.
    let by_request = d.header.transactional
        && d.buffers.iter().any(|b| {
            can_serve(b)
                && is_of_request(c, b)
                && contents(b).any(|(_, content)| !content.is_negated())
        });
    let may_serve = |b: &DraftBuffer| can_serve(b) && (!by_request || is_of_request(c, b));
    let mut best: Option<Candidate> = None;
    for (n, b) in d.buffers.iter().enumerate().filter(|(_, b)| may_serve(b)) {
        let (priority, tie) = rank(c, b);
        for (at, content) in contents(b) {
            if any_positive && content.is_negated() {
                continue;
            }
            let candidate = Candidate {
                place: (n, at),
                priority,
                len: content.bytes.len(),
                strength: strength(&content.bytes),
                tie,
            };
            if best.as_ref().is_none_or(|b| is_better(&candidate, b)) {
                best = Some(candidate);
            }
        }
    }
    best.map(|b| b.place)
}

fn is_better(a: &Candidate, b: &Candidate) -> bool {
    if a.priority != b.priority {
        return a.priority < b.priority;
    }
    (a.len, a.strength) > (b.len, b.strength)
        || (a.len, a.strength) == (b.len, b.strength) && a.tie < b.tie
}

/// A buffer that may be absent can't be the one whose pattern must be seen first.
fn can_serve(b: &DraftBuffer) -> bool {
    b.buffer.is_some()
        && !b.conditions.iter().any(|x| matches!(x.condition, BufferCondition::Absent { .. }))
}

fn is_of_request(c: &Compiler<'_>, b: &DraftBuffer) -> bool {
    let Some(BufferRef::App(id)) = b.buffer else { return false };
    c.catalog
        .buffer(id)
        .is_some_and(|b| b.def.hooks.iter().any(|h| h.direction == Direction::ToServer))
}

fn contents(b: &DraftBuffer) -> impl Iterator<Item = (usize, &Content)> {
    b.conditions.iter().enumerate().filter_map(|(at, x)| Some((at, x.condition.content()?)))
}

fn rank(c: &Compiler<'_>, b: &DraftBuffer) -> (u8, usize) {
    match b.buffer {
        Some(BufferRef::App(id)) => {
            let Some(buffer) = c.catalog.buffer(id) else { return (u8::MAX, usize::MAX) };
            let known = TIE_ORDER.iter().position(|n| *n == buffer.def.internal);
            let tie = known.unwrap_or(TIE_ORDER.len() + usize::from(u16::MAX - id.0));
            (buffer.def.priority, tie)
        }
        Some(BufferRef::Payload) => (PAYLOAD_PRIORITY, usize::MAX),
        Some(BufferRef::Packet(_) | BufferRef::Frame(_)) => (PACKET_PRIORITY, usize::MAX - 1),
        None => (u8::MAX, usize::MAX),
    }
}

/// How selective a pattern is: rare bytes count more, repeated ones little.
pub(crate) fn strength(pattern: &[u8]) -> u32 {
    let mut seen = [false; 256];
    let mut sum: u32 = 0;
    for b in pattern {
        let slot = &mut seen[usize::from(*b)];
        sum = sum.saturating_add(if *slot {
            1
        } else if b.is_ascii_alphabetic() {
            3
        } else if b.is_ascii_graphic() || *b == b' ' || matches!(b, 0 | 1 | 0xff) {
            4
        } else {
            6
        });
        *slot = true;
    }
    sum
}

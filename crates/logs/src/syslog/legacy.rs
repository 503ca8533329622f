//! RFC 3164 and what goes by that name: `[time] [host] tag[pid]: text`, any part of which may be
//! missing. Order of attempts and what counts as a host follow what rsyslog and syslog-ng both do.

use super::time;
use super::{Message, Notes, Received};
use std::net::IpAddr;

/// Reads what follows the priority.
pub(super) fn parse<'a>(rest: &'a [u8], received: &Received, message: &mut Message<'a>) {
    let mut text = skip_spaces(rest);
    if matches!(text.first(), Some(b'{' | b'[')) {
        message.notes.set(Notes::NO_TIME);
        message.msg = text;
        return;
    }
    if let Some((sequence, behind)) = cisco_sequence(text) {
        message.sequence = Some(sequence);
        text = behind;
    }
    // `*` and `.` say that the router's clock is not to be trusted.
    let clock = match text.first() {
        Some(b'*' | b'.') => &text[1..],
        _ => text,
    };
    let sure = |(stamp, len)| (Some(stamp), len);
    let found = time::bsd(clock, received)
        .or_else(|| time::iso(clock).map(sure))
        .or_else(|| time::sql(clock, received).map(sure));
    let found = found.filter(|(_, len)| matches!(clock.get(*len), None | Some(b' ' | b':')));
    let Some((stamp, len)) = found else {
        message.notes.set(Notes::NO_TIME);
        tag(text, message);
        return;
    };
    message.time = stamp;
    if stamp.is_none() {
        message.notes.set(Notes::BAD_TIME);
    }
    let mut text = &clock[len..];
    text = skip_spaces(text.strip_prefix(b":").unwrap_or(text));
    if is_repetition(text) {
        message.notes.set(Notes::REPEATED);
        message.msg = text;
        return;
    }
    if let Some(behind) = text.strip_prefix(b"Message forwarded from ")
        && let Some(end) = memchr::memchr(b':', behind)
    {
        message.host = Some(&behind[..end]);
        tag(skip_spaces(&behind[end + 1..]), message);
        return;
    }
    text = host(text, message);
    tag(text, message);
}

/// `123: `, as Cisco's routers number messages.
fn cisco_sequence(text: &[u8]) -> Option<(u64, &[u8])> {
    let len = text.iter().take(20).take_while(|b| b.is_ascii_digit()).count();
    let number = std::str::from_utf8(text.get(..len)?).ok()?.parse().ok()?;
    let behind = text.get(len..)?.strip_prefix(b":")?;
    (behind.first() == Some(&b' ')).then(|| (number, skip_spaces(behind)))
}

/// `last message repeated 3 times`.
fn is_repetition(text: &[u8]) -> bool {
    text.strip_prefix(b"last message repeated ").is_some_and(|behind| {
        let digits = behind.iter().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && behind[digits..].starts_with(b" times")
    })
}

/// Takes the host, if the next word can be one; gives what follows.
fn host<'a>(text: &'a [u8], message: &mut Message<'a>) -> &'a [u8] {
    let len = memchr::memchr(b' ', text).unwrap_or(text.len());
    let word = &text[..len];
    let behind = skip_spaces(&text[len..]);
    if let Some(address) = address(word) {
        message.host = Some(address);
        return behind;
    }
    // With a colon or a bracket it is the tag, with a slash or quote at its beginning no name at all.
    let is_host = !word.is_empty() && !word.iter().any(|b| matches!(b, b':' | b'[' | b'{' | b'"'));
    if !is_host {
        return text;
    }
    // The last word is the program where it can be no name of a host.
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || b"._-".contains(b);
    if len == text.len() && !word.iter().all(is_name) {
        return text;
    }
    message.host = Some(word);
    behind
}

/// The address of a word that is one: of IPv6 bare, of either kind in brackets.
fn address(word: &[u8]) -> Option<&[u8]> {
    let inside = word.strip_prefix(b"[").and_then(|w| w.strip_suffix(b"]"));
    let bare = inside.unwrap_or(word);
    if inside.is_none() && memchr::memchr(b':', bare).is_none() {
        return None;
    }
    std::str::from_utf8(bare).ok()?.parse::<IpAddr>().is_ok().then_some(bare)
}

/// Reads `program[pid]: text`; without a colon the program ends at the space. `[Mon Dec 05 …` is a text, where both
/// programs would lose its first word; `[audit] …` is a tag without a program, as both read it.
fn tag<'a>(text: &'a [u8], message: &mut Message<'a>) {
    let is_tag = |inside: &[u8]| {
        memchr::memchr3(b']', b' ', b':', inside).is_some_and(|end| {
            end > 0 && inside[end] == b']' && matches!(inside.get(end + 1), Some(b' ' | b':'))
        })
    };
    if text.strip_prefix(b"[").is_some_and(|inside| !is_tag(inside)) {
        message.msg = text;
        return;
    }
    let len = text.iter().take_while(|b| !matches!(b, b' ' | b':' | b'[')).count();
    message.app = (len > 0).then_some(&text[..len]);
    let mut rest = &text[len..];
    if let Some(inside) = rest.strip_prefix(b"[") {
        // A bracket that nobody closes ends where a tag ends, and holds no process.
        let end = memchr::memchr3(b']', b' ', b':', inside).unwrap_or(inside.len());
        let is_closed = inside.get(end) == Some(&b']');
        message.pid = (is_closed && end > 0).then_some(&inside[..end]);
        rest = &inside[end + usize::from(is_closed)..];
    }
    rest = rest.strip_prefix(b":").unwrap_or(rest);
    message.msg = skip_spaces(rest);
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|b| **b == b' ').count();
    &text[spaces..]
}

//! RFC 3164 and what goes by that name: `[time] [host] tag[pid]: text`, any part of which may be
//! missing. Order of attempts and what counts as a host follow what both peers do.

use super::time;
use super::{Message, Notes, Received};
use std::net::Ipv6Addr;

/// Reads what follows the priority.
pub(super) fn read<'a>(rest: &'a [u8], received: &Received, message: &mut Message<'a>) {
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
    let found = time::bsd(clock, received)
        .or_else(|| time::iso(clock))
        .or_else(|| time::sql(clock, received));
    let found = found.filter(|(_, len)| matches!(clock.get(*len), None | Some(b' ' | b':')));
    let Some((stamp, len)) = found else {
        message.notes.set(Notes::NO_TIME);
        tag(text, message);
        return;
    };
    message.time = Some(stamp);
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
    (behind.is_empty() || behind[0] == b' ').then(|| (number, skip_spaces(behind)))
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
    if let Some(address) = ipv6(word) {
        message.host = Some(address);
        return behind;
    }
    // With a colon or a bracket it is the tag, with a slash or quote at its beginning no name at all.
    let is_host = !word.is_empty() && !word.iter().any(|b| matches!(b, b':' | b'[' | b'{' | b'"'));
    if !is_host {
        return text;
    }
    message.host = Some(word);
    behind
}

/// The address of a word that is one, bare or in brackets.
fn ipv6(word: &[u8]) -> Option<&[u8]> {
    let bare = word.strip_prefix(b"[").and_then(|w| w.strip_suffix(b"]")).unwrap_or(word);
    let text = std::str::from_utf8(bare).ok()?;
    (text.contains(':') && text.parse::<Ipv6Addr>().is_ok()).then_some(bare)
}

/// Reads `program[pid]: text`; without a colon the program ends at the space.
fn tag<'a>(text: &'a [u8], message: &mut Message<'a>) {
    if text.first() == Some(&b'[') {
        message.msg = text;
        return;
    }
    let len = text.iter().take_while(|b| !matches!(b, b' ' | b':' | b'[')).count();
    message.app = (len > 0).then_some(&text[..len]);
    let mut rest = &text[len..];
    if let Some(inside) = rest.strip_prefix(b"[")
        && let Some(end) = memchr::memchr2(b']', b' ', inside)
        && inside[end] == b']'
    {
        message.pid = (end > 0).then_some(&inside[..end]);
        rest = &inside[end + 1..];
    }
    rest = rest.strip_prefix(b":").unwrap_or(rest);
    message.msg = skip_spaces(rest);
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    let spaces = text.iter().take_while(|b| **b == b' ').count();
    &text[spaces..]
}

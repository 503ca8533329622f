//! RFC 5424 after its version. A field that is no good costs that field: a wrong time (hour 24) is noted and the
//! others are read on, structured data that is none stays in the text. Where no time stands at all, nothing else is
//! taken for a field: all is text.

use super::structured;
use super::time;
use super::{Message, Notes};

/// Reads what follows `1 `.
pub(super) fn parse<'a>(rest: &'a [u8], message: &mut Message<'a>) {
    let all = rest;
    let mut rest = rest;
    // One space too many before the time: seen, and unmistakable.
    rest = rest.strip_prefix(b" ").unwrap_or(rest);
    match field(&mut rest) {
        Some(b"-") => message.notes.set(Notes::NO_TIME),
        Some(text) => match time::iso(text) {
            Some((stamp, len)) if len == text.len() => message.time = Some(stamp),
            _ => {
                message.notes.set(Notes::BAD_TIME);
                if !time::is_built_as_iso(text) {
                    message.msg = all;
                    return;
                }
            }
        },
        None => {}
    }
    for place in 0..4 {
        let Some(text) = field(&mut rest) else { break };
        let value = (text != b"-" && !text.is_empty()).then_some(text);
        match place {
            0 => message.host = value,
            1 => message.app = value,
            2 => message.pid = value,
            _ => message.msgid = value,
        }
    }
    if rest.is_empty() {
        message.notes.set(Notes::CUT_SHORT);
        return;
    }
    let behind = match rest.first() {
        Some(b'-') if matches!(rest.get(1), None | Some(b' ')) => &rest[1..],
        Some(b'[') => match structured::end(rest) {
            Some(end) => {
                message.sd = Some(&rest[..end]);
                &rest[end..]
            }
            None => {
                message.notes.set(Notes::BAD_SD);
                rest
            }
        },
        _ => {
            message.notes.set(Notes::BAD_SD);
            rest
        }
    };
    let text = behind.strip_prefix(b" ").unwrap_or(behind);
    message.msg = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
}

/// The next field; the rest begins after its space.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.is_empty() {
        return None;
    }
    match memchr::memchr(b' ', rest) {
        Some(end) => {
            let (text, behind) = rest.split_at(end);
            *rest = &behind[1..];
            Some(text)
        }
        None => Some(std::mem::take(rest)),
    }
}

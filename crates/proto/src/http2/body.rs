//! Bodies: the data of a direction's DATA frames, unpacked, as a file.
//!
//! Suricata names no file of HTTP/2, unpacks `gzip`, `br` and bare `deflate`, and abandons a frame that
//! unpacks to more than a limit: the bytes after it are taken as they are (measured with 8.0.7).

use super::settings::Settings;
use super::side::{BodyState, Side};
use crate::files::{File, FileState, FileWants};
use crate::http1::content_range;
use crate::http1::decoder::{Bounds, Decoder, Encoding, Fed, Unpacking};
use gabion_record::Direction;

/// What went wrong with a piece of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// It is not packed as its fields say.
    Failed,
    /// It unpacks to too much.
    Bomb,
}

/// What a flow has for the bodies in it.
#[derive(Debug, Default)]
pub(crate) struct BodyContext {
    pub(crate) wants: FileWants,
    /// Nobody looks into bodies.
    pub(crate) is_unseen: bool,
    /// Number of the flow's last file.
    pub(crate) last_file: u32,
    pub(crate) unpacking: Unpacking,
}

/// The encoding that a direction's fields name, if it is one that is undone.
fn encoding_of(side: &Side) -> Option<Encoding> {
    Some(match side.header(b"content-encoding")? {
        b"gzip" => Encoding::Gzip,
        b"br" => Encoding::Brotli,
        b"deflate" => Encoding::Deflate,
        _ => return None,
    })
}

/// Takes a piece of a body. `is_end`: it is the last one.
pub(crate) fn take_data(
    side: &mut Side,
    direction: Direction,
    data: &[u8],
    is_end: bool,
    (cx, settings): (&mut BodyContext, &Settings),
) -> Option<BodyFault> {
    if cx.is_unseen {
        return None;
    }
    if matches!(side.body, BodyState::NotBegun) {
        side.body = match encoding_of(side) {
            Some(encoding) => {
                let mut decoder = Decoder::default();
                decoder.add(encoding, Bounds { is_strict: true, ..Bounds::default() });
                cx.unpacking.hold(decoder.bytes_held());
                BodyState::Packed(Box::new(decoder))
            }
            None => BodyState::Plain,
        };
    }
    let mut fault = None;
    match std::mem::take(&mut side.body) {
        BodyState::NotBegun | BodyState::Plain => {
            side.body = BodyState::Plain;
            append_data(side, direction, data, cx);
        }
        BodyState::Packed(mut decoder) => {
            cx.unpacking.send(data.len());
            let mut made = Vec::new();
            let mut is_bomb = false;
            let mut sink = |piece: &[u8]| {
                is_bomb = made.len().saturating_add(piece.len()) as u64 > settings.bomb_bytes_max;
                if !is_bomb {
                    made.extend_from_slice(piece);
                }
                !is_bomb
            };
            let fed = decoder.feed(data, &cx.unpacking, &mut sink);
            if decoder.has_failed() {
                fault = Some(BodyFault::Failed);
                side.body = BodyState::Plain;
            } else if is_bomb || fed == Fed::Exhausted {
                fault = Some(BodyFault::Bomb);
                side.body = BodyState::Plain;
            } else {
                side.body = BodyState::Packed(decoder);
                append_data(side, direction, &made, cx);
            }
        }
    }
    if is_end && let Some(file) = side.files.current() {
        file.close(FileState::Closed);
    }
    fault
}

/// The part of a larger file that a response says it is: first byte, last byte, bytes of the file.
pub(crate) fn part_of(side: &Side) -> Option<(u64, u64, u64)> {
    let range = content_range(side.header(b"content-range")?)?;
    let (first, last) = range.file_range().filter(|_| range.is_part())?;
    Some((first, last, range.size?))
}

/// Whether a `content-range` is wrong, as Suricata 8.0.7 reads it: a word, blanks, the first byte, the last one and all
/// bytes. Of what follows nothing counts.
pub(crate) fn is_wrong_range(value: &[u8]) -> bool {
    let blanks = |bytes: &[u8]| bytes.iter().take_while(|b| **b == b' ').count();
    let value = value.get(blanks(value)..).unwrap_or_default();
    let Some(end) = memchr::memchr(b' ', value) else { return true };
    let rest = value.get(end + blanks(&value[end..])..).unwrap_or_default();
    if let Some(size) = rest.strip_prefix(b"*/") {
        return leading_number(size).is_none();
    }
    let Some((first, rest)) = leading_number(rest) else { return true };
    let Some((last, rest)) = rest.strip_prefix(b"-").and_then(leading_number) else { return true };
    match rest.strip_prefix(b"/") {
        Some(size) if size.starts_with(b"*") => false,
        Some(size) => match leading_number(size) {
            // Nothing is asked of an empty file.
            Some((size, _)) => last > 0 && size > 0 && (first > last || last >= size),
            None => true,
        },
        None => true,
    }
}

/// The number that these bytes begin with, and what follows it.
fn leading_number(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at_checked(digits)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

fn append_data(side: &mut Side, direction: Direction, data: &[u8], cx: &mut BodyContext) {
    // A frame without data is a body, too.
    if side.files.files.is_empty() {
        cx.last_file = cx.last_file.wrapping_add(1);
        let mut file = File::open(cx.last_file, b"", direction, cx.wants);
        if direction == Direction::ToClient && part_of(side).is_some() {
            // Other ranges may complete it.
            file.keep_content(true);
        }
        side.files.files.push(file);
    }
    if let Some(file) = side.files.current() {
        file.append(data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranges of which Suricata 8.0.7 raises `invalid_range`, and others.
    #[test]
    fn wrong_ranges_are_known() {
        for wrong in [
            "x",
            "",
            "bytes",
            "bytes x",
            "bytes 1-",
            "bytes 1-2",
            "bytes 5-2/3",
            "bytes a-2/3",
            "bytes 1-2/x",
            "bytes=1-2/3",
            " 1-2/3",
            "bytes 1-5/3",
            "bytes 1-3/3",
            "bytes 1-2/",
            "bytes -2/3",
            "x 5",
            "bytes */*",
            "bytes */x",
            "bytes */",
            "bytes 1 -2/3",
            "bytes\t1-2/3",
            "bytes 1-99999999999999999999/3",
        ] {
            assert!(is_wrong_range(wrong.as_bytes()), "{wrong}");
        }
        for right in [
            "bytes 1-2/3",
            "bytes */5",
            "bytes 1-2/*",
            "bits 1-2/3",
            "bytes  1-2/3",
            " bytes 1-2/3",
            "bytes 2-2/3",
            "bytes 1-2/3x",
            "bytes 0-0/0",
        ] {
            assert!(!is_wrong_range(right.as_bytes()), "{right}");
        }
    }
}

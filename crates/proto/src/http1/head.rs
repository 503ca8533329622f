//! Reading header blocks into a message, and what they say of the body's encoding.

use super::decoder::{Bounds, Decoder, Encoding};
use super::events::Event;
use super::headers::{Added, Field, Scan, Side, scan, scan_first};
use super::limits::{self, ENCODING_LAYERS_MAX};
use super::message::Packing;
use super::parser::{Cursor, Halt, Http1};
use super::request::oddity;
use super::text::{contains_nocase, eq_nocase_nozero};
use gabion_record::Direction;

/// Outcome of reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadStep {
    /// The block is over.
    End,
    /// More bytes are needed.
    More,
    /// The direction was closed inside of it.
    Cut,
}

impl Side {
    pub(crate) const fn direction(self) -> Direction {
        match self {
            Side::Request => Direction::ToServer,
            Side::Response => Direction::ToClient,
        }
    }
}

/// Events of a side, by kind.
struct Kinds {
    too_long: Event,
    too_many: Event,
    repetition: Event,
    duplicate_length: Event,
    space_after_name: Event,
    folding: Event,
    not_token: Event,
    missing_colon: Event,
}

const REQUEST_KINDS: Kinds = Kinds {
    too_long: Event::RequestFieldTooLong,
    too_many: Event::RequestTooManyHeaders,
    repetition: Event::RequestHeaderRepetition,
    duplicate_length: Event::DuplicateContentLengthInRequest,
    space_after_name: Event::RequestInvalidLwsAfterName,
    folding: Event::InvalidRequestFieldFolding,
    not_token: Event::RequestHeaderInvalid,
    missing_colon: Event::RequestFieldMissingColon,
};

const RESPONSE_KINDS: Kinds = Kinds {
    too_long: Event::ResponseFieldTooLong,
    too_many: Event::ResponseTooManyHeaders,
    repetition: Event::ResponseHeaderRepetition,
    duplicate_length: Event::DuplicateContentLengthInResponse,
    space_after_name: Event::ResponseInvalidLwsAfterName,
    folding: Event::InvalidResponseFieldFolding,
    not_token: Event::ResponseHeaderNameNotToken,
    missing_colon: Event::ResponseFieldMissingColon,
};

const fn kinds(side: Side) -> &'static Kinds {
    match side {
        Side::Request => &REQUEST_KINDS,
        Side::Response => &RESPONSE_KINDS,
    }
}

/// Reads as much of the header block as is there.
pub(crate) fn read_head(
    http: &mut Http1,
    side: Side,
    input: &mut Cursor<'_>,
) -> Result<HeadStep, Halt> {
    let direction = side.direction();
    let is_closed = http.stream(direction).is_closed;
    // Lines taken before the next look: where one does not do, more and more, so that a field of
    // many lines is not walked once for each of them.
    let mut lines = 1;
    let mut has_end = true;
    loop {
        let tx = http.tx_at(direction)?;
        let field_limit = tx.config.field_limit;
        let m = tx.message_mut(direction);
        let unread = m.headers.raw().get(m.scanned()..).unwrap_or_default();
        let mut looked = m.looked.saturating_sub(m.scanned) as usize;
        let is_last = is_closed && input.is_empty();
        let scan = match m.scanned {
            // What an LF stands for depends on whether more follows.
            0 if unread == b"\n" && !input.is_empty() => Scan::More,
            0 => scan_first(side, unread, is_last, &mut looked),
            _ => scan(side, unread, is_last, &mut looked),
        };
        m.looked = m.scanned + looked as u32;
        match scan {
            Scan::Field(field) => {
                lines = 1;
                add_field(http, side, &field)?;
                continue;
            }
            Scan::End(n) => {
                let end = m.scanned() + n;
                m.scanned = end as u32;
                // Browsers take LF CR for a line end: a CR after a lone LF is no body.
                let lone_lf = n == 1 && unread.first() == Some(&b'\n');
                give_back(http, direction, end, input);
                http.stream(direction).skips_cr = lone_lf && side == Side::Response;
                return Ok(HeadStep::End);
            }
            Scan::More => {}
        }
        let unread_len = unread.len();
        if input.is_empty() {
            return Ok(if is_closed { HeadStep::Cut } else { HeadStep::More });
        }
        let rest = input.rest();
        // Up to the empty line when it is there, else some lines: the body isn't copied.
        let end = if has_end { memchr::memmem::find(rest, b"\n\r\n") } else { None };
        has_end = end.is_some();
        let n = match end {
            Some(at) => at + 3,
            None => memchr::memchr_iter(b'\n', rest).nth(lines - 1).map_or(rest.len(), |at| at + 1),
        };
        lines = (lines * 2).min(limits::LINES_AT_ONCE_MAX);
        let n = n.min(field_limit + 1);
        let too_long = unread_len + n > field_limit
            && memchr::memchr(b'\n', &rest[..n]).is_none_or(|at| unread_len + at > field_limit);
        let m = http.tx_at(direction)?.message_mut(direction);
        if too_long || m.headers.raw().len() + n > limits::HEADER_BLOCK_BYTES_MAX {
            http.warn(direction, kinds(side).too_long);
            return Err(Halt::Fail);
        }
        m.headers.raw_mut().extend_from_slice(input.take_bytes(n));
    }
}

/// Returns to the input what was read after the block's end.
fn give_back(http: &mut Http1, direction: Direction, end: usize, input: &mut Cursor<'_>) {
    let Some(tx) = http.current(direction) else { return };
    let raw = tx.message_mut(direction).headers.raw_mut();
    let surplus = raw.len().saturating_sub(end);
    let from_input = surplus.min(input.at);
    let older = raw.get(end..end + surplus - from_input).unwrap_or_default().to_vec();
    raw.truncate(end);
    input.at -= from_input;
    if !older.is_empty() {
        http.stream(direction).carry = older;
    }
}

/// Adds a field to the message and reports what is odd about it.
fn add_field(http: &mut Http1, side: Side, field: &Field) -> Result<(), Halt> {
    let direction = side.direction();
    let kinds = kinds(side);
    let tx = http.tx_at(direction)?;
    let headers_limit = tx.config.headers_limit;
    let m = tx.message_mut(direction);
    let base = m.scanned();
    m.scanned += field.len as u32;
    if m.headers.len() > headers_limit {
        http.warn(direction, kinds.too_many);
        return Err(Halt::Fail);
    }
    let (added, lengths_differ) = m.headers.add(base, field);
    let odd = field.odd;
    let mut report = |is: bool, kind: u16, event: Event| {
        // Each kind is reported once a transaction.
        if is && http.current(direction).is_some_and(|tx| tx.first_time(kind)) {
            http.warn(direction, event);
        }
    };
    report(odd.space_after_name, oddity::FIELD_INVALID, kinds.space_after_name);
    report(odd.space_before_name, oddity::INVALID_FOLDING, kinds.folding);
    report(odd.name_not_token, oddity::FIELD_INVALID, kinds.not_token);
    // Suricata reports a field without a name as one without a colon.
    let no_name = odd.missing_colon || odd.empty_name;
    report(no_name, oddity::FIELD_UNPARSEABLE, kinds.missing_colon);
    if odd.deformed_eol && side == Side::Response {
        http.warn(direction, Event::DeformedEol);
    }
    if lengths_differ {
        http.warn(direction, kinds.duplicate_length);
    }
    if added == Added::Second {
        http.warn(direction, kinds.repetition);
    }
    Ok(())
}

/// Sets up the decoders that `Content-Encoding` asks for.
pub(crate) fn content_encodings(http: &mut Http1, side: Side) -> Result<(), Halt> {
    let direction = side.direction();
    let bombs = http.bombs;
    let bodies_unseen = http.bodies_unseen;
    let tx = http.tx_at(direction)?;
    let config = std::sync::Arc::clone(&tx.config);
    let wanted = tx.limits(direction).limit;
    let bounds = Bounds {
        is_strict: false,
        lzma_memlimit: config.lzma_memlimit,
        free: if wanted == 0 { config.bomb_limit } else { wanted.min(config.bomb_limit) },
        wanted,
    };
    let Some(value) = tx.message(direction).headers.get(b"content-encoding") else {
        return Ok(());
    };
    let mut decoder = Decoder::default();
    let mut events = Vec::new();
    if let Some(single) = known_encoding(value) {
        if let Some(encoding) = single {
            decoder.add(encoding, bounds);
        }
    } else {
        let too_many_lzma = match side {
            Side::Request => Event::RequestTooManyLzmaLayers,
            Side::Response => Event::ResponseTooManyLzmaLayers,
        };
        let (mut layers, mut lzma_layers) = (0u32, 0u32);
        for name in value.split(|b| *b == b',' || *b == b' ').filter(|n| !n.is_empty()) {
            layers += 1;
            if layers > config.layers_max.unwrap_or(u32::MAX).min(ENCODING_LAYERS_MAX) {
                events.push(Event::TooManyEncodingLayers);
                break;
            }
            let encoding = listed_encoding(name, &mut events);
            if encoding == Some(Encoding::Lzma) {
                lzma_layers += 1;
                if config.lzma_layers_max.is_some_and(|max| lzma_layers > max) {
                    events.push(too_many_lzma);
                    break;
                }
            }
            if let Some(encoding) = encoding {
                decoder.add(encoding, bounds);
            }
        }
    }
    let is_packed = !decoder.is_empty() && bombs < config.bombs_max;
    if is_packed {
        tx.message_mut(direction).packing = Packing::Packed;
    }
    if is_packed && !bodies_unseen {
        let held = decoder.bytes_held();
        tx.message_mut(direction).decoder = Some(Box::new(decoder));
        http.unpacking.hold(held);
    }
    for event in events {
        http.warn(direction, event);
    }
    Ok(())
}

/// An encoding that stands alone; `None`: not a name that is known.
fn known_encoding(name: &[u8]) -> Option<Option<Encoding>> {
    let is = |names: &[&[u8]]| names.iter().any(|n| eq_nocase_nozero(name, n));
    if is(&[b"gzip", b"x-gzip"]) {
        Some(Some(Encoding::Gzip))
    } else if is(&[b"deflate", b"x-deflate"]) {
        Some(Some(Encoding::Deflate))
    } else if is(&[b"lzma"]) {
        Some(Some(Encoding::Lzma))
    } else if is(&[b"br"]) {
        Some(Some(Encoding::Brotli))
    } else if is(&[b"inflate", b"none"]) {
        Some(None)
    } else {
        None
    }
}

/// An encoding of a list: read as loosely as browsers do.
fn listed_encoding(name: &[u8], events: &mut Vec<Event>) -> Option<Encoding> {
    if contains_nocase(name, b"gzip", false) {
        if name != b"gzip" && name != b"x-gzip" {
            events.push(Event::AbnormalCeHeader);
        }
        return Some(Encoding::Gzip);
    }
    if contains_nocase(name, b"deflate", false) {
        if name != b"deflate" && name != b"x-deflate" {
            events.push(Event::AbnormalCeHeader);
        }
        return Some(Encoding::Deflate);
    }
    match name {
        b"lzma" => Some(Encoding::Lzma),
        b"inflate" | b"none" | b"identity" => None,
        _ => {
            events.push(Event::AbnormalCeHeader);
            None
        }
    }
}

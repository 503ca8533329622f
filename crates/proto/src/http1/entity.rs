//! What happens to body bytes: they are decoded, kept for rules, written into files.

use super::decoder::Fed;
use super::events::Event;
use super::limits::{BOMB_RATIO_MAX, FILE_NAME_BYTES_MAX, reached};
use super::message::{FileContext, Packing, RequestBody, Tx};
use super::multipart::{Multipart, Part, file_name};
use super::parser::{Halt, Http1};
use super::settings::BodyLimits;
use crate::files::FileState;
use crate::{FilePiece, ParseContext};
use gabion_record::Direction;

/// Takes body bytes as they were sent (chunk framing taken off); `None`: the body is over. Fails if
/// they can't be decoded since bytes before them are lost.
pub(crate) fn decode_entity(
    http: &mut Http1,
    cx: &mut ParseContext<'_>,
    direction: Direction,
    data: Option<&[u8]>,
) -> Result<(), Halt> {
    if let (Some(tx), Some(data)) = (http.current(direction), data) {
        let m = tx.message_mut(direction);
        if m.packing == Packing::Lost {
            m.message_len = m.message_len.saturating_add(data.len() as u64);
            return Err(Halt::Fail);
        }
    }
    if http.bodies_unseen {
        if let (Some(tx), Some(data)) = (http.current(direction), data) {
            let m = tx.message_mut(direction);
            m.message_len = m.message_len.saturating_add(data.len() as u64);
            let is_due = m.message_len >= tx.limits(direction).inspect_min;
            cx.trigger_raw[direction.index()] |= is_due;
        }
        return Ok(());
    }
    let mut files = http.files;
    let mut bombs = http.bombs;
    let mut unpacking = std::mem::take(&mut http.unpacking);
    let mut events = Vec::new();
    if let Some(tx) = http.current(direction) {
        let m = tx.message_mut(direction);
        m.message_len = m.message_len.saturating_add(data.map_or(0, |d| d.len() as u64));
        match (m.decoder.take(), data) {
            (None, Some(data)) => {
                m.entity_len = m.entity_len.saturating_add(data.len() as u64);
                take_entity(tx, direction, data, &mut files, &mut events);
            }
            (None, None) => {}
            (Some(mut decoder), data) => {
                let is_over = data.is_none();
                unpacking.send(data.map_or(0, <[u8]>::len));
                let mut sink = |piece: &[u8]| {
                    take_decoded(tx, direction, piece, &mut files, &mut bombs, &mut events)
                };
                let fed = match data {
                    Some(data) => decoder.feed(data, &unpacking, &mut sink),
                    None => decoder.finish(&unpacking, &mut sink),
                };
                if fed == Fed::Exhausted {
                    exhausted(tx, direction, &files, &mut bombs, &mut events);
                }
                if is_over {
                    // What may still come is no part of the encoded stream.
                    *decoder = super::decoder::Decoder::ended();
                }
                tx.message_mut(direction).decoder = Some(decoder);
            }
        }
        // Suricata inspects the stream with each piece of a body that is long enough to be inspected.
        let is_due = tx.message(direction).entity_len >= tx.limits(direction).inspect_min;
        cx.trigger_raw[direction.index()] |= is_due && data.is_some();
    }
    http.files = files;
    http.bombs = bombs;
    http.unpacking = unpacking;
    for event in events {
        http.warn(direction, event);
    }
    Ok(())
}

/// Takes a decoded piece; false ends the decoding.
fn take_decoded(
    tx: &mut Tx,
    direction: Direction,
    piece: &[u8],
    files: &mut FileContext,
    bombs: &mut u8,
    events: &mut Vec<Event>,
) -> bool {
    let limit = tx.config.bomb_limit;
    let m = tx.message_mut(direction);
    m.entity_len = m.entity_len.saturating_add(piece.len() as u64);
    let (made, sent) = (m.entity_len, m.message_len);
    take_entity(tx, direction, piece, files, events);
    let is_bomb = made > sent.saturating_mul(BOMB_RATIO_MAX);
    if made <= limit {
        // It may become a bomb yet, which is then reported.
        return is_bomb || !tx.message(direction).body.is_cut();
    }
    if is_bomb {
        report_bomb(tx, bombs, events);
        return false;
    }
    is_seen(tx, direction, files)
}

/// Whether what comes is inspected or stored: past the body's limit decoding would be work for nothing.
fn is_seen(tx: &Tx, direction: Direction, files: &FileContext) -> bool {
    let body_limit = limits(tx, direction, files).limit;
    body_limit == 0 || tx.message(direction).body.total() < body_limit
}

fn report_bomb(tx: &Tx, bombs: &mut u8, events: &mut Vec<Event>) {
    events.push(Event::CompressionBomb);
    *bombs = bombs.saturating_add(1);
    if *bombs == tx.config.bombs_max {
        events.push(Event::CompressionBombLimitReached);
    }
}

/// The flow may have no more unpacked: what was made of so few bytes is a bomb even before its limit,
/// and content that rules or outputs would have inspected is shed.
fn exhausted(
    tx: &mut Tx,
    direction: Direction,
    files: &FileContext,
    bombs: &mut u8,
    events: &mut Vec<Event>,
) {
    let m = tx.message(direction);
    if m.entity_len > m.message_len.saturating_mul(BOMB_RATIO_MAX) {
        report_bomb(tx, bombs, events);
    }
    if is_seen(tx, direction, files) {
        reached::UNPACKED_BYTES_MAX.count();
        tx.message_mut(direction).close_file(FileState::Truncated);
    }
}

/// Takes a piece of the decoded body.
fn take_entity(
    tx: &mut Tx,
    direction: Direction,
    piece: &[u8],
    files: &mut FileContext,
    events: &mut Vec<Event>,
) {
    if piece.is_empty() {
        return;
    }
    let limits = limits(tx, direction, files);
    let taken = tx.message_mut(direction).body.append(piece, &limits);
    let kept = piece.get(..taken).unwrap_or_default();
    if kept.is_empty() {
        // A file that ends with the piece that reached the limit counts as closed, as Suricata
        // has it: only a further piece shows that something is missing.
        tx.message_mut(direction).close_file(FileState::Truncated);
        return;
    }
    match direction {
        Direction::ToServer => request_files(tx, kept, files, events),
        Direction::ToClient => response_file(tx, kept, files, events),
    }
}

/// Limits of a body: a file that a rule has asked for is taken as far as the store wants it. One that is stored
/// because all are is not (Suricata 8.0.7).
fn limits(tx: &Tx, direction: Direction, files: &FileContext) -> BodyLimits {
    let mut limits = *tx.limits(direction);
    let last = tx.message(direction).file_list().last();
    let is_asked =
        last.is_some_and(|f| f.store && !f.sids.is_empty() && f.state == FileState::Open);
    if is_asked && limits.limit != 0 {
        limits.limit = files.store_depth;
    }
    limits
}

/// What a request body is taken for.
fn kind_of_request(tx: &Tx) -> RequestBody {
    if tx.is_method(b"POST") {
        let parts = tx.request.headers.get(b"content-type").and_then(Multipart::new);
        parts.map_or(RequestBody::File, |m| RequestBody::Multipart(Box::new(m)))
    } else if tx.is_method(b"PUT") {
        RequestBody::File
    } else {
        RequestBody::Plain
    }
}

fn request_files(tx: &mut Tx, data: &[u8], files: &mut FileContext, events: &mut Vec<Event>) {
    if matches!(tx.request_body, RequestBody::Unknown) {
        tx.request_body = kind_of_request(tx);
    }
    match std::mem::take(&mut tx.request_body) {
        RequestBody::Multipart(mut parts) => {
            parts.feed(data, &mut |part| take_part(tx, part, files, events));
            tx.request_body = RequestBody::Multipart(parts);
        }
        RequestBody::File => {
            tx.request_body = RequestBody::File;
            if !tx.request.is_file_done {
                tx.request.is_file_done = true;
                if let Some(path) = tx.path.take() {
                    let name = bounded_name(&path, events);
                    tx.request.open_file(name, Direction::ToServer, files);
                    tx.path = Some(path);
                }
            }
            if let Some(file) = tx.request.current_file() {
                file.append(data);
            }
        }
        other => tx.request_body = other,
    }
}

fn take_part(tx: &mut Tx, part: Part<'_>, files: &mut FileContext, events: &mut Vec<Event>) {
    match part {
        Part::Open(name) => {
            tx.request.close_file(FileState::Truncated);
            tx.request.open_file(name, Direction::ToServer, files);
        }
        Part::Data(data) => {
            if let Some(file) = tx.request.current_file() {
                file.append(data);
            }
        }
        Part::Close => tx.request.close_file(FileState::Closed),
        Part::InvalidHeader => events.push(Event::MultipartInvalidHeader),
        Part::NoData => events.push(Event::MultipartNoFiledata),
    }
}

fn bounded_name<'a>(name: &'a [u8], events: &mut Vec<Event>) -> &'a [u8] {
    if name.len() > FILE_NAME_BYTES_MAX {
        events.push(Event::FileNameTooLong);
    }
    &name[..name.len().min(FILE_NAME_BYTES_MAX)]
}

/// A response's body is a file, named by the server or else by the path asked for.
fn response_file(tx: &mut Tx, data: &[u8], files: &mut FileContext, events: &mut Vec<Event>) {
    if !tx.response.is_file_done {
        tx.response.is_file_done = true;
        let disposition = tx.response.headers.get(b"content-disposition");
        let unseen = tx.is_request_unseen.then(|| super::message::UNSEEN_TARGET.to_vec());
        let name = disposition
            .and_then(file_name)
            .or_else(|| tx.path.as_deref().map(<[u8]>::to_vec))
            .or(unseen);
        if let Some(name) = name {
            let range = tx.response.headers.get(b"content-range").map(content_range);
            if range == Some(None) {
                events.push(Event::RangeInvalid);
            }
            let name = bounded_name(&name, events);
            let file = tx.response.open_file(name, Direction::ToClient, files);
            if let (Some(file), Some(Some(range))) = (file, range) {
                file.range = range.file_range();
                if range.is_part() {
                    // Other ranges may complete it.
                    file.keep_content(true);
                }
            }
        }
    }
    if let Some(file) = tx.response.current_file() {
        file.append(data);
    }
}

/// The body is over: so are its files.
pub(crate) fn close_entity(http: &mut Http1, direction: Direction) {
    let mut files = http.files;
    let mut events = Vec::new();
    if let Some(tx) = http.current(direction) {
        if direction == Direction::ToServer
            && let RequestBody::Multipart(mut parts) = std::mem::take(&mut tx.request_body)
        {
            parts.finish(&mut |part| take_part(tx, part, &mut files, &mut events));
        }
        tx.message_mut(direction).close_file(FileState::Closed);
        if direction == Direction::ToClient
            && let Some(piece) = piece(tx)
        {
            http.pieces.push(piece);
        }
    }
    http.files = files;
    for event in events {
        http.warn(direction, event);
    }
}

/// The range that a response's file is, when all of it came.
fn piece(tx: &Tx) -> Option<FilePiece> {
    let file = tx.response.file_list().last().filter(|f| f.state == FileState::Closed)?;
    let (first, last) = file.range?;
    let range = content_range(tx.response.headers.get(b"content-range")?)?;
    let (bytes, at) = file.content();
    let is_all = at == 0 && last.checked_sub(first) == (bytes.len() as u64).checked_sub(1);
    let key = [tx.host.as_deref()?, &file.name].concat();
    (is_all && range.is_part()).then(|| FilePiece {
        tx: tx.id,
        key,
        name: file.name.clone(),
        start: first,
        whole: range.size.unwrap_or(0),
        bytes: bytes.to_vec(),
    })
}

/// Bytes of a body are lost.
pub(crate) fn gap_entity(http: &mut Http1, direction: Direction, len: u64) {
    let mut files = http.files;
    let bodies_unseen = http.bodies_unseen;
    if let Some(tx) = http.current(direction) {
        let m = tx.message_mut(direction);
        if m.packing != Packing::None {
            // What follows can't be decoded any more.
            m.packing = Packing::Lost;
            m.decoder = None;
            return;
        }
        m.message_len = m.message_len.saturating_add(len);
        if bodies_unseen || len == 0 {
            return;
        }
        m.entity_len = m.entity_len.saturating_add(len);
        // Rules see the body as if nothing were missing (as in Suricata); the file knows.
        let limits = limits(tx, direction, &files);
        let room = usize::try_from(len).unwrap_or(usize::MAX);
        let taken = tx.message(direction).body.room(room, &limits) as u64;
        let m = tx.message_mut(direction);
        if m.current_file().is_none() && !m.is_file_done && direction == Direction::ToClient {
            response_file(tx, &[], &mut files, &mut Vec::new());
        }
        let m = tx.message_mut(direction);
        if let Some(file) = m.current_file() {
            file.gap(taken);
        }
        if taken == 0 {
            m.close_file(FileState::Truncated);
        }
    }
    http.files = files;
}

/// A `Content-Range` (RFC 9110 14.4): `bytes first-last/size`, each part absent as `*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ContentRange {
    pub(crate) bounds: Option<(u64, u64)>,
    pub(crate) size: Option<u64>,
}

impl ContentRange {
    /// The part of a larger file this is.
    pub(crate) fn file_range(&self) -> Option<(u64, u64)> {
        let (first, last) = self.bounds?;
        (first <= last).then_some((first, last))
    }

    /// It is a part of a file whose size is known, not all of it.
    pub(crate) fn is_part(&self) -> bool {
        self.file_range().zip(self.size).is_some_and(|((first, last), size)| {
            last < size && (first > 0 || last.saturating_add(1) < size)
        })
    }
}

/// Reads a `Content-Range`.
pub(crate) fn content_range(value: &[u8]) -> Option<ContentRange> {
    let blank = |b: u8| b == b' ' || b == b'\t';
    let (_, rest) = super::text::split_prefix(value, blank);
    let rest = rest.strip_prefix(b"bytes")?;
    let (_, rest) = super::text::split_prefix(rest, blank);
    let slash = memchr::memchr(b'/', rest)?;
    let (bounds, size) = (&rest[..slash], &rest[slash + 1..]);
    let bounds = if bounds == b"*" {
        None
    } else {
        let hyphen = memchr::memchr(b'-', bounds)?;
        let first = super::text::decimal(&bounds[..hyphen])?;
        Some((first, super::text::decimal(&bounds[hyphen + 1..])?))
    };
    let size =
        if size == b"*" { None } else { Some(super::text::decimal(super::text::trim(size))?) };
    (bounds.is_some() || size.is_some()).then_some(ContentRange { bounds, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 14.4.
    #[test]
    fn ranges_are_read() {
        for (text, expected) in [
            ("bytes 42-1233/1234", Some((Some((42, 1233)), Some(1234)))),
            ("bytes 42-1233/*", Some((Some((42, 1233)), None))),
            ("bytes */1234", Some((None, Some(1234)))),
            ("bytes 1233", None),
            ("items 1-2/3", None),
        ] {
            let got = content_range(text.as_bytes()).map(|r| (r.bounds, r.size));
            assert_eq!(got, expected, "{text}");
        }
    }
}

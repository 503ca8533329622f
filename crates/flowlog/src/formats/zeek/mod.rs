//! Zeek's logs, as TSV and as JSON.
//!
//! A TSV header may change in the middle of a file (rotated parts put together) and its columns may
//! come in any order; lines are therefore read by the layout in force where they were, which
//! travels with them when they are put into order. Some old logs separate columns by two or more
//! spaces. JSON lines may be in a file that begins with a TSV header.

pub(crate) mod build;
pub(crate) mod columns;
mod header;
mod kind;

use crate::format::{LogFormat, Seen};
use crate::formats::eve;
use crate::json::{self, Value};
use crate::skip::Skip;
use columns::{NONE, Slots};
use gabion_record::logs::{LogKind, Record, TimeNs};
use gabion_record::saved;
use gabion_record::saved::Saved;
pub(crate) use header::{Comment, Header};
pub use kind::kind_of;

/// What separates columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// One byte, a tab as a rule.
    Byte(u8),
    /// Two or more spaces.
    Spaces,
}

/// Columns of a TSV header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Which log.
    pub kind: LogKind,
    /// Between columns.
    pub separator: Separator,
    /// The place of each column.
    places: Vec<u8>,
    /// Columns a line must have; labels after them may be missing.
    needed: usize,
    ts_column: usize,
    knows_service: bool,
    unset: Vec<u8>,
}

/// A log: lines under a header, or JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Columns of a header.
    Tsv(Layout),
    /// A line of JSON a record.
    Json(LogKind),
}

impl LogFormat for Log {
    const NAME: &'static str = "zeek";
    const TITLE: &'static str = "Zeek";

    fn from_record(seen: Seen<'_>) -> Option<Log> {
        // Whatever the user named: an event of EVE is none of Zeek's lines.
        if !seen.may_be(Self::NAME) || seen.line.first() != Some(&b'{') || eve::is_eve(seen.line) {
            return None;
        }
        seen.named.or_else(|| kind::json_kind(seen.line)).map(Log::Json)
    }

    #[inline]
    fn quick_time(&self, line: &[u8]) -> Option<Result<TimeNs, Skip>> {
        match self {
            Log::Tsv(layout) => leading_time(line, layout.leads_with_time()?).map(Ok),
            Log::Json(_) => (line.first() == Some(&b'{')).then(|| json_time(line)),
        }
    }

    fn time(&self, line: &[u8]) -> Result<TimeNs, Skip> {
        match self {
            // Text among columns is no line with a bad time.
            Log::Tsv(layout) => layout
                .time(line)
                .map_err(|skip| if line.contains(&b'\t') { skip } else { Skip::NotALog }),
            Log::Json(_) if line.first() == Some(&b'{') => json_time(line),
            Log::Json(_) => Err(Skip::NotALog),
        }
    }

    #[inline]
    fn record<'a>(&self, line: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Record<'a>, Skip> {
        match self {
            Log::Tsv(layout) => layout.record(line),
            Log::Json(kind) => json_record(*kind, line, scratch),
        }
    }

    fn kind(&self) -> Option<LogKind> {
        Some(match self {
            Log::Tsv(layout) => layout.kind,
            Log::Json(kind) => *kind,
        })
    }
}

impl Saved for Log {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Log::Tsv(layout) => {
                out.push(0);
                layout.save(out);
            }
            Log::Json(kind) => {
                out.push(1);
                kind.save(out);
            }
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::load(from)? {
            0 => Log::Tsv(Saved::load(from)?),
            1 => Log::Json(Saved::load(from)?),
            _ => return None,
        })
    }
}

/// A byte, or none of the 256.
impl Saved for Separator {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Separator::Byte(byte) => u16::from(*byte).save(out),
            Separator::Spaces => u16::MAX.save(out),
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        match u16::load(from)? {
            u16::MAX => Some(Separator::Spaces),
            byte => u8::try_from(byte).ok().map(Separator::Byte),
        }
    }
}

saved! { Layout { kind, separator, places, needed, ts_column, knows_service, unset } }

impl Layout {
    /// From the names after `#fields`.
    ///
    /// # Errors
    /// When there is no column of times.
    pub(crate) fn new(
        kind: LogKind,
        separator: Separator,
        names: &[u8],
        unset: &[u8],
    ) -> Result<Layout, Skip> {
        let columns: Vec<&[u8]> = crate::columns::columns(split(names, separator));
        let mut places: Vec<u8> = Vec::with_capacity(columns.len());
        for name in &columns {
            // Of columns of one name the first counts.
            let place = columns::place(kind, name);
            places.push(if places.contains(&place) { NONE } else { place });
        }
        let ts_column = places.iter().position(|p| *p == 0).ok_or(Skip::NoHeader)?;
        let labels = columns.iter().rev().take_while(|c| c.ends_with(b"label")).count();
        let knows_service = columns.iter().any(|c| *c == b"service");
        let needed = columns.len() - labels;
        let unset = unset.to_vec();
        Ok(Layout { kind, separator, places, needed, ts_column, knows_service, unset })
    }

    /// The moment of a line.
    ///
    /// # Errors
    /// When there is none.
    #[inline]
    pub(crate) fn time(&self, line: &[u8]) -> Result<TimeNs, Skip> {
        let text = split(line, self.separator).nth(self.ts_column).ok_or(Skip::CutShort)?;
        crate::field::moment(text).ok_or(Skip::NoTime)
    }

    /// The record of a line.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub(crate) fn record<'a>(&self, line: &'a [u8]) -> Result<Record<'a>, Skip> {
        let mut slots: Slots<'a> = [&[]; columns::SLOTS];
        let mut found = 0;
        let mut put = |at: usize, text: &'a [u8]| {
            let place = self.places.get(at).copied().unwrap_or(NONE);
            if let Some(slot) = slots.get_mut(usize::from(place))
                && !is_unset(text, &self.unset)
            {
                *slot = text;
            }
            found = at + 1;
        };
        match self.separator {
            // The common case by hand: one pass over the tabs.
            Separator::Byte(byte) => {
                let mut from = 0;
                let mut at = 0;
                each_place(line, byte, |tab| {
                    put(at, line.get(from..tab).unwrap_or_default());
                    at += 1;
                    from = tab + 1;
                });
                put(at, line.get(from..).unwrap_or_default());
            }
            Separator::Spaces => {
                for (at, text) in split(line, self.separator).enumerate() {
                    put(at, text);
                }
            }
        }
        if found < self.needed {
            return Err(Skip::CutShort);
        }
        let knows_service = self.knows_service;
        build::record(build::Line { kind: self.kind, is_json: false, knows_service }, &slots)
    }
}

/// Every place of a byte in a text, eight bytes at a time: columns are so short that a call for each
/// would cost more than finding it.
#[inline]
fn each_place(text: &[u8], byte: u8, mut each: impl FnMut(usize)) {
    const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    let wanted = u64::from_le_bytes([byte; 8]);
    let (eights, rest) = text.as_chunks::<8>();
    let mut base = 0;
    for eight in eights {
        let other = u64::from_le_bytes(*eight) ^ wanted;
        // The highest bit of each byte that is none of another.
        let mut found = !(((other & LOW) + LOW) | other | LOW);
        while found != 0 {
            each(base + found.trailing_zeros() as usize / 8);
            found &= found - 1;
        }
        base += 8;
    }
    for (at, _) in rest.iter().enumerate().filter(|(_, b)| **b == byte) {
        each(base + at);
    }
}

#[inline]
fn is_unset(text: &[u8], unset: &[u8]) -> bool {
    let is_same = match (text, unset) {
        // As a rule both are one byte, which is compared without a call.
        ([a], [b]) => a == b,
        _ => text == unset,
    };
    is_same || (text.first() == Some(&b'(') && text == b"(empty)")
}

fn split(line: &[u8], separator: Separator) -> Box<dyn Iterator<Item = &[u8]> + '_> {
    match separator {
        Separator::Byte(byte) => Box::new(line.split(move |b| *b == byte)),
        Separator::Spaces => Box::new(spaced(line)),
    }
}

/// Columns between runs of two or more spaces.
fn spaced(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(line.trim_ascii());
    std::iter::from_fn(move || {
        let text = rest?;
        match text.windows(2).position(|w| w == b"  ") {
            Some(at) => {
                rest = Some(text.get(at..)?.trim_ascii_start());
                text.get(..at)
            }
            None => rest.take(),
        }
    })
}

/// The moment of a TSV line whose time stands first, without looking at the rest.
#[inline]
pub(crate) fn leading_time(line: &[u8], byte: u8) -> Option<TimeNs> {
    if let Some((text, rest)) = line.split_first_chunk::<17>()
        && rest.first() == Some(&byte)
        && let Some(ns) = crate::field::micros(text)
    {
        return Some(TimeNs(ns));
    }
    let end = memchr::memchr(byte, line.get(..line.len().min(40))?)?;
    crate::field::moment(line.get(..end)?)
}

impl Layout {
    /// The byte between columns when the time is in the first of them.
    #[inline]
    pub(crate) fn leads_with_time(&self) -> Option<u8> {
        match self.separator {
            Separator::Byte(byte) => (self.ts_column == 0).then_some(byte),
            Separator::Spaces => None,
        }
    }
}

/// The moment of a JSON line.
///
/// # Errors
/// When there is none.
pub(crate) fn json_time(line: &[u8]) -> Result<TimeNs, Skip> {
    // Zeek writes the time first.
    if let Some(rest) = line.strip_prefix(b"{\"ts\":") {
        let rest = rest.trim_ascii_start();
        let end = rest.iter().position(|b| matches!(b, b',' | b'}')).ok_or(Skip::CutShort)?;
        let text = rest.get(..end).unwrap_or_default();
        let text = text.strip_prefix(b"\"").unwrap_or(text);
        let text = text.strip_suffix(b"\"").unwrap_or(text);
        return crate::field::moment(text).ok_or(Skip::NoTime);
    }
    let mut found: &[u8] = &[];
    json::members(line, |key, value| {
        if key == b"ts" && found.is_empty() {
            found = value.raw();
        }
    })
    .ok_or(Skip::CutShort)?;
    crate::field::moment(found).ok_or(Skip::NoTime)
}

/// The record of a JSON line. `scratch` is lent for texts with escapes.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn json_record<'a>(
    kind: LogKind,
    line: &'a [u8],
    scratch: &'a mut Vec<u8>,
) -> Result<Record<'a>, Skip> {
    let mut slots: Slots<'a> = [&[]; columns::SLOTS];
    let mut escaped = 0u32;
    // Zeek writes columns in the order of its table: the next name is tried first.
    let own = columns::own(kind);
    let mut next = 0usize;
    json::members(line, |key, value| {
        let ahead = columns::ALL.get(next).or_else(|| own.get(next.wrapping_sub(columns::OWN)));
        let place = match ahead {
            Some(name) if name.as_bytes() == key => next,
            _ => usize::from(columns::place(kind, key)),
        };
        let Some(slot) = slots.get_mut(place) else { return };
        next = place + 1;
        if !slot.is_empty() {
            return;
        }
        *slot = value.raw();
        if let Value::Text(_, true) = value {
            escaped |= 1 << place;
        }
    })
    .ok_or(Skip::CutShort)?;
    if escaped != 0 {
        let mut ends = [0usize; columns::SLOTS];
        scratch.clear();
        for (place, slot) in slots.iter().enumerate() {
            if escaped & (1 << place) != 0 {
                json::unescape(slot, scratch);
            }
            if let Some(end) = ends.get_mut(place) {
                *end = scratch.len();
            }
        }
        let mut from = 0;
        let scratch: &'a [u8] = scratch;
        for (place, slot) in slots.iter_mut().enumerate() {
            let end = ends.get(place).copied().unwrap_or(from);
            if escaped & (1 << place) != 0 {
                *slot = scratch.get(from..end).unwrap_or_default();
            }
            from = end;
        }
    }
    build::record(build::Line { kind, is_json: true, knows_service: true }, &slots)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::logs::{Body, Label, Proto, Service};

    const FIELDS: &[u8] = b"ts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\tservice\t\
        duration\torig_bytes\tresp_bytes\tconn_state\tlocal_orig\tlocal_resp\tmissed_bytes\thistory\t\
        orig_pkts\torig_ip_bytes\tresp_pkts\tresp_ip_bytes\ttunnel_parents\tlabel\tdetailedlabel";
    const LINE: &[u8] =
        b"1677024003.714845\tC6SgKom3WB2KEL2ae\t192.168.1.107\t65164\t66.63.168.35\t\
        5888\ttcp\t-\t0.037629\t0\t7\tREJ\tT\tF\t0\tSr\t2\t104\t2\t80\t-\tMalicious\tFrom_x";

    fn conn<'a>(r: &Record<'a>) -> gabion_record::logs::Conn<'a> {
        match r.body {
            Body::Conn(c) => c,
            _ => panic!("not a conn"),
        }
    }

    #[test]
    fn a_line_of_conn_log() {
        let layout = Layout::new(LogKind::Conn, Separator::Byte(b'\t'), FIELDS, b"-").unwrap();
        let r = layout.record(LINE).unwrap();
        assert_eq!(r.ts.0, 1_677_024_003_714_845_000);
        assert_eq!((r.src.to_string(), r.dst_port), ("192.168.1.107".to_owned(), 5888));
        assert_eq!((r.proto, r.label), (Proto::Tcp, Label::Malicious));
        let c = conn(&r);
        assert_eq!((c.service, c.duration_ns, c.resp_bytes), (Service::Unknown, 37_629_000, 7));
        assert!(!c.is_established && c.knows_service && c.history == b"Sr");
        assert_eq!(layout.time(LINE), Ok(r.ts));
        assert_eq!(leading_time(LINE, b'\t'), Some(r.ts));
        for cut in 0..LINE.len() {
            let _ = layout.record(&LINE[..cut]);
        }
        let short = LINE.split(|b| *b == b'\t').take(12).collect::<Vec<_>>().join(&b'\t');
        assert_eq!(layout.record(&short).err(), Some(Skip::CutShort));
    }

    #[test]
    fn every_place_of_a_byte_is_found() {
        for len in 0..40usize {
            for pattern in 0..200u64 {
                let mix = pattern.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let text: Vec<u8> = (0..len)
                    .map(|at| [b'\t', b'\n', 0x89, 0, b'\t' | 0x80, b'a'][(mix >> at) as usize % 6])
                    .collect();
                let mut found = Vec::new();
                each_place(&text, b'\t', |at| found.push(at));
                assert_eq!(found, memchr::memchr_iter(b'\t', &text).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn columns_by_spaces() {
        let fields = FIELDS.split(|b| *b == b'\t').collect::<Vec<_>>().join(&b"   "[..]);
        let line = LINE.split(|b| *b == b'\t').collect::<Vec<_>>().join(&b"  "[..]);
        let layout = Layout::new(LogKind::Conn, Separator::Spaces, &fields, b"-").unwrap();
        assert_eq!(layout.record(&line).unwrap().dst_port, 5888);
    }

    #[test]
    fn json_with_escapes_and_in_any_order() {
        let mut scratch = Vec::new();
        let line =
            br#"{"id.orig_h":"10.0.0.1","ts":5.25,"x":[1,{"ts":9}],"host":"a\"b","uri":"/\u00e9",
            "id.resp_h":"10.0.0.2","user_agent":"plain","resp_mime_types":["a/b","c"]}"#;
        let r = json_record(LogKind::Http, line, &mut scratch).unwrap();
        let Body::Http(h) = r.body else { panic!("not http") };
        assert_eq!((h.host, h.uri), (&b"a\"b"[..], "/é".as_bytes()));
        assert_eq!((h.user_agent, h.resp_mime_types.iter().count()), (&b"plain"[..], 2));
        assert_eq!((r.ts.0, json_time(line)), (5_250_000_000, Ok(r.ts)));
        for cut in 0..line.len() {
            assert!(json_record(LogKind::Http, &line[..cut], &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn states_of_zeek() {
        // Table 1.1 of Slips' rules, with RSTR fixed.
        for state in ["S1", "SF", "S2", "S3", "RSTO", "RSTP", "OTH", "RSTR"] {
            assert!(build::is_established(state.as_bytes()), "{state}");
        }
        for state in ["S0", "REJ", "RSTOS0", "RSTRH", "SH", "SHR", "", "new"] {
            assert!(!build::is_established(state.as_bytes()), "{state}");
        }
    }
}

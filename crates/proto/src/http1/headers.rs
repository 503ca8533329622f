//! Header blocks: where fields begin and end, and the table of them.
//!
//! A block is kept once, as sent; a field is a pair of ranges into it. Only values that are folded
//! over lines or joined from repetitions are copied, after the block's own bytes. The scanner
//! reads one field at a time and says when it needs more bytes, so that a block may arrive in any
//! pieces.
//!
//! Line ends are where evasions live. Servers take `\n` and `\r\n`, browsers also `\r` and `\n\r`;
//! both have habits with broken mixtures. The two sides are therefore read by different rules,
//! which are those of Suricata's HTTP library (they were found by trying browsers, see the
//! "http-evader" captures).

use super::limits::{FOLDS_MAX, reached};
use super::names::{self, Names};
use super::text::{eq_nocase_nozero, is_space, is_token, prefix};
use std::ops::Range;

#[cfg(test)]
thread_local! {
    /// Bytes of blocks that were examined.
    pub(crate) static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Bytes of a block are examined.
fn count_steps(bytes: usize) {
    #[cfg(test)]
    STEPS.set(STEPS.get() + bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

/// The side that wrote the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// The client: read as servers do.
    Request,
    /// The server: read as browsers do.
    Response,
}

/// What is odd about a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Oddities {
    pub(crate) missing_colon: bool,
    pub(crate) empty_name: bool,
    pub(crate) space_before_name: bool,
    pub(crate) space_after_name: bool,
    pub(crate) name_not_token: bool,
    pub(crate) deformed_eol: bool,
}

/// A value: as it is in the block, or put together from its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// It is in the block.
    At(Range<usize>),
    /// It was folded.
    Folded(Vec<u8>),
}

/// A field found by the scanner; ranges are relative to the scanned bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Range<usize>,
    pub(crate) value: Value,
    pub(crate) odd: Oddities,
    /// Bytes of it, line end included.
    pub(crate) len: usize,
}

impl Field {
    /// A line end that stands for a field.
    fn without_name() -> Field {
        let odd = Oddities { missing_colon: true, ..Oddities::default() };
        Field { name: 0..0, value: Value::At(0..0), odd, len: 1 }
    }
}

/// What the scanner found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scan {
    /// A field.
    Field(Field),
    /// The end of the block, that many bytes long.
    End(usize),
    /// More bytes are needed to decide.
    More,
}

/// The same as [`scan`] at the beginning of the block. There CR LF is the empty line that ends it, and an LF after
/// which nothing is there yet; a lone LF before more, or a lone CR of a response, is a field without name and colon
/// (Suricata 8.0.7).
pub(crate) fn scan_first(side: Side, data: &[u8], is_last: bool, looked: &mut usize) -> Scan {
    match (data, side) {
        ([b'\n', _, ..], _) => Scan::Field(Field::without_name()),
        ([b'\r', next, ..], Side::Response) if *next != b'\n' => Scan::Field(Field::without_name()),
        _ => scan(side, data, is_last, looked),
    }
}

/// Reads the next field at the head of `data`. `is_last` says that no more bytes will come. Before
/// `looked`, an earlier scan of this block has found neither colon nor end of line; how far this one
/// has looked is left there. So a block without either is walked once, not once for each of its
/// fields and pieces.
pub(crate) fn scan(side: Side, data: &[u8], is_last: bool, looked: &mut usize) -> Scan {
    match end_of_block(side, data, is_last) {
        Step::Yes(n) => return Scan::End(n),
        Step::More => return Scan::More,
        Step::No => {}
    }
    let from = *looked;
    let name = find_name(side, data, looked);
    count_steps(looked.saturating_sub(from) + 1);
    let (name, odd) = match name {
        Step::Yes(colon) => describe_name(data, colon),
        Step::More => return Scan::More,
        Step::No => {
            let odd = Oddities { missing_colon: true, ..Oddities::default() };
            return match scan_value(side, data, 0, is_last) {
                Some((value, end, deformed)) => Scan::Field(Field {
                    name: 0..0,
                    value,
                    odd: Oddities { deformed_eol: deformed, ..odd },
                    len: end,
                }),
                None => Scan::More,
            };
        }
    };
    let colon = data[name.end..].iter().position(|b| *b == b':').unwrap_or(0) + name.end;
    let from = colon + 1 + prefix(&data[colon + 1..], |b| b == b' ' || b == b'\t');
    match scan_value(side, data, from, is_last) {
        Some((value, len, deformed)) => {
            Scan::Field(Field { name, value, odd: Oddities { deformed_eol: deformed, ..odd }, len })
        }
        None => Scan::More,
    }
}

/// Answer of a partial scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Yes(usize),
    No,
    More,
}

/// The empty line that ends the block. A lone LF ends it at once: a CR after it (browsers take
/// LF CR for a line end) is left to the caller.
fn end_of_block(side: Side, data: &[u8], is_last: bool) -> Step {
    match (data, side) {
        ([], _) => Step::More,
        ([b'\n', ..], _) => Step::Yes(1),
        ([b'\r', b'\n', ..], _) => Step::Yes(2),
        ([b'\r'], _) if !is_last => Step::More,
        ([b'\r', ..], Side::Response) => Step::Yes(1),
        _ => Step::No,
    }
}

/// Position of the colon after the name, or `No` when the line ends before one. A line end with a
/// space after it does not end the line.
fn find_name(side: Side, data: &[u8], looked: &mut usize) -> Step {
    let mut at = *looked;
    loop {
        *looked = at;
        match data.get(at) {
            None => return Step::More,
            Some(b':') => return Step::Yes(at),
            Some(b'\n') => {}
            Some(b'\r') if side == Side::Response => {
                if data.get(at + 1) == Some(&b'\n') {
                    at += 1;
                }
            }
            Some(_) => {
                at += 1;
                continue;
            }
        }
        match data.get(at + 1) {
            None => return Step::More,
            Some(b' ') => at += 2,
            Some(b'\n') if data[at] == b'\r' => at += 1,
            Some(_) => return Step::No,
        }
    }
}

/// The name before the colon, trimmed, and what is odd about it.
fn describe_name(data: &[u8], colon: usize) -> (Range<usize>, Oddities) {
    let written = &data[..colon];
    let mut odd = Oddities::default();
    let Some((first, last)) = written.first().zip(written.last()) else {
        odd.empty_name = true;
        return (0..0, odd);
    };
    let blank = |b: u8| b == b' ' || b == b'\t';
    odd.space_before_name = blank(*first);
    odd.space_after_name = blank(*last);
    let from = prefix(written, blank);
    let token = from + prefix(&written[from..], is_token);
    odd.name_not_token = token + prefix(&written[token..], blank) < written.len();
    let start = prefix(written, is_space);
    let end = written.iter().rposition(|b| !is_space(*b)).map_or(start, |i| i + 1);
    (start..end.max(start), odd)
}

/// Reads a value at `from`: the value, the position after its line end, and whether that was
/// deformed. `None`: more bytes are needed.
fn scan_value(side: Side, data: &[u8], from: usize, is_last: bool) -> Option<(Value, usize, bool)> {
    let (text, mut line) = scan_line(side, data, from, is_last)?;
    let mut deformed = line.is_deformed;
    let Some(mut fold) = line.fold else {
        return Some((Value::At(trim_range(data, text)), line.end, deformed));
    };
    let mut value = data[text].to_vec();
    let mut rest = line.end;
    for _ in 0..FOLDS_MAX {
        // Browsers read "\r\n Name: value" as a field of its own.
        if side == Side::Response {
            match is_field_start(data, line.end) {
                Step::Yes(_) => {
                    rest = line.end;
                    break;
                }
                Step::More => return None,
                Step::No => {}
            }
        }
        let (text, next) = scan_line(side, data, line.end, is_last)?;
        deformed |= next.is_deformed;
        if !value.is_empty() {
            value.push(fold);
        }
        let is_blank = text.is_empty();
        if !is_blank || next.eol_len > 1 {
            value.extend_from_slice(&data[text]);
            rest = next.end;
        } else if data.get(next.end) == Some(&b'\n') {
            rest = next.end;
        }
        line = next;
        match line.fold {
            Some(f) => fold = f,
            None => break,
        }
    }
    let trimmed = super::text::trim(&value).to_vec();
    Some((Value::Folded(trimmed), rest, deformed))
}

/// How a line of a value ended.
struct LineEnd {
    /// Position after the line end (and after the one byte of folding space).
    end: usize,
    eol_len: usize,
    /// The space byte after it: the value continues.
    fold: Option<u8>,
    is_deformed: bool,
}

/// Reads one line of a value.
fn scan_line(
    side: Side,
    data: &[u8],
    from: usize,
    is_last: bool,
) -> Option<(Range<usize>, LineEnd)> {
    let tail = data.get(from..)?;
    let stop = match side {
        Side::Request => memchr::memchr(b'\n', tail),
        Side::Response => memchr::memchr2(b'\n', b'\r', tail),
    };
    count_steps(stop.unwrap_or(tail.len()) + 1);
    let mut stop = from + stop?;
    if side == Side::Request && stop > from && data[stop - 1] == b'\r' {
        stop -= 1;
    }
    let regular = eol(side, &data[stop..], is_last)?;
    let deformed = deformed_eol(side, &data[stop..], is_last)?;
    let folding = |len: usize| match data.get(stop + len) {
        None => (!is_last).then_some(None),
        Some(b @ (b' ' | b'\t' | 0)) => Some(Some(*b)),
        Some(_) => Some(None),
    };
    // A fold: after any line end in requests, after a regular one in responses.
    let before_fold = if side == Side::Request && deformed > 0 { deformed } else { regular };
    let is_open = data.len() <= stop + before_fold && !is_last;
    if is_open {
        return None;
    }
    if let Some(Some(space)) = folding(before_fold) {
        let is_deformed = before_fold == deformed && deformed > 0;
        let end = stop + before_fold + 1;
        let line = LineEnd { end, eol_len: before_fold, fold: Some(space), is_deformed };
        return Some((from..stop, line));
    }
    let len = if deformed > 0 { deformed } else { regular };
    if deformed > 0 && data.len() <= stop + len && !is_last {
        return None;
    }
    let line = LineEnd { end: stop + len, eol_len: len, fold: None, is_deformed: deformed > 0 };
    Some((from..stop, line))
}

/// Length of the regular line end at the head of `data`; `None`: more bytes are needed.
fn eol(side: Side, data: &[u8], is_last: bool) -> Option<usize> {
    match (data, side) {
        ([b'\r', b'\n', ..], _) => Some(2),
        ([b'\n', b'\r', ..], Side::Response) => Some(2),
        ([b'\r' | b'\n'], _) if !is_last => None,
        _ => Some(1),
    }
}

/// Length of a deformed line end at the head of `data`, 0 when it is none; `None`: more bytes are
/// needed.
fn deformed_eol(side: Side, data: &[u8], is_last: bool) -> Option<usize> {
    let open = |n| if is_last { Some(n) } else { None };
    match (data, side) {
        // LF CR CR LF before another line end is one line end.
        ([b'\n', b'\r', b'\r', b'\n', b'\n', ..], _)
        | ([b'\n', b'\r', b'\r', b'\n', b'\r', b'\n', ..], _) => Some(4),
        ([b'\n', b'\r', b'\r', b'\n'] | [b'\n', b'\r', b'\r', b'\n', b'\r'], _) => {
            open(if side == Side::Request { 2 } else { 0 })
        }
        // Servers skip the stray CR in LF CR CR LF.
        ([b'\n', b'\r', b'\r', b'\n', ..], Side::Request) => Some(2),
        ([b'\n', b'\r'] | [b'\n', b'\r', b'\r'], _) => open(0),
        // Browsers take CR LF CR and further CRs and blanks for one.
        ([b'\r', b'\n', b'\r', tail @ ..], Side::Response) => {
            let n = prefix(tail, |b| matches!(b, b'\r' | b' ' | b'\t'));
            match tail.get(n..) {
                _ if n == 0 && !tail.is_empty() => Some(0),
                Some([]) | None => open(if n > 0 { 3 + n } else { 0 }),
                Some([b'\n']) => open(4 + n),
                Some([b'\n', b'\r']) if !is_last => None,
                Some([b'\n', b'\n', ..] | [b'\n', b'\r', b'\n', ..]) => Some(0),
                Some([b'\n', ..]) => Some(4 + n),
                Some(_) => Some(3 + n),
            }
        }
        _ => Some(0),
    }
}

/// Whether a `name:` is at `from`, blanks around the name allowed.
fn is_field_start(data: &[u8], from: usize) -> Step {
    let Some(text) = data.get(from..) else { return Step::More };
    let blank = |b: u8| b == b' ' || b == b'\t';
    let start = prefix(text, blank);
    let end = start + prefix(&text[start..], is_token);
    let colon = end + prefix(&text[end..], blank);
    count_steps(colon + 1);
    match text.get(colon) {
        None => Step::More,
        Some(b':') if end > start => Step::Yes(colon),
        Some(_) => Step::No,
    }
}

fn trim_range(data: &[u8], range: Range<usize>) -> Range<usize> {
    let text = &data[range.clone()];
    let start = prefix(text, is_space);
    let end = text.iter().rposition(|b| !is_space(*b)).map_or(start, |i| i + 1);
    range.start + start..range.start + end
}

/// A field of the table: ranges into its text.
#[derive(Clone, Debug)]
struct Entry {
    /// Of the name in lower case: it distinguishes most names.
    hash: u32,
    name: Range<u32>,
    value: Range<u32>,
    is_repeated: bool,
}

/// The outcome of a field given to the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Added {
    /// It is new.
    New,
    /// The second of its name: joined.
    Second,
    /// A further one: joined, or ignored past the limit.
    Further,
}

/// The fields of a message: the block as sent, then what had to be put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Headers {
    /// The block as sent, trailers included.
    raw: Vec<u8>,
    list: Vec<Entry>,
    /// What most blocks have no use for.
    rare: Option<Box<Rare>>,
    /// Lengths of their names, a bit each: most fields that rules ask for are in few messages.
    lengths: u32,
    repetitions: u16,
}

/// What of a table only blocks with folded or repeated fields, or with many, have.
#[derive(Clone, Debug, Default)]
struct Rare {
    /// Folded and joined values.
    joined: Vec<u8>,
    /// Where the fields are, by name.
    names: Names,
}

/// The bit of a name with that many bytes that are not NUL.
fn length_bit(len: usize) -> u32 {
    1 << (len % 32)
}

/// FNV-1a (Fowler, Noll, Vo) of a name in lower case without NUL bytes.
fn name_hash(name: &[u8]) -> u32 {
    let step = |h: u32, b: &u8| (h ^ u32::from(b.to_ascii_lowercase())).wrapping_mul(0x0100_0193);
    name.iter().filter(|b| **b != 0).fold(0x811c_9dc5, step)
}

/// Ranges at and above this position are in `joined`.
const JOINED: u32 = 1 << 31;

impl Headers {
    /// The block as sent.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// The block, to be appended to (bytes already scanned may not change).
    pub(crate) fn raw_mut(&mut self) -> &mut Vec<u8> {
        &mut self.raw
    }

    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Forgets everything, the block as well, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.list.clear();
        self.raw.clear();
        if let Some(rare) = &mut self.rare {
            rare.names.clear();
            rare.joined.clear();
        }
        self.lengths = 0;
        self.repetitions = 0;
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        let rare = self
            .rare
            .as_ref()
            .map_or(0, |rare| size_of::<Rare>() + rare.joined.capacity() + rare.names.bytes_held());
        self.raw.capacity() + self.list.capacity() * size_of::<Entry>() + rare
    }

    fn text(&self, range: &Range<u32>) -> &[u8] {
        let (text, base) = match &self.rare {
            Some(rare) if range.start >= JOINED => (&rare.joined, JOINED),
            _ => (&self.raw, 0),
        };
        text.get((range.start - base) as usize..(range.end - base) as usize).unwrap_or_default()
    }

    /// Names and values in order.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.list.iter().map(|e| (self.text(&e.name), self.text(&e.value)))
    }

    /// The value of a field; `name` in lower case. NUL bytes in the name on the wire don't count.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&[u8]> {
        if self.lengths & length_bit(name.len()) == 0 {
            return None;
        }
        let hash = name_hash(name);
        let at = self.find(hash, name, |text| eq_nocase_nozero(text, name))?;
        Some(self.text(&self.list.get(at)?.value))
    }

    /// The first field of that hash whose name is it.
    fn find(&self, hash: u32, name: &[u8], is_it: impl Fn(&[u8]) -> bool) -> Option<usize> {
        let is_it = |at| {
            let entry: Option<&Entry> = self.list.get(at);
            entry.is_some_and(|e| e.hash == hash && is_it(self.text(&e.name)))
        };
        match &self.rare {
            Some(rare) => rare.names.find(name, self.list.len(), is_it),
            None => names::find_among(self.list.len(), is_it),
        }
    }

    /// Where a field of that very name (case aside) is.
    fn position(&self, hash: u32, name: &[u8]) -> Option<usize> {
        self.find(hash, name, |text| text.eq_ignore_ascii_case(name))
    }

    /// Adds a field whose ranges are relative to position `base` of the block. A second one of its
    /// name is joined to the first with `, `, except `Content-Length`, of which the first counts;
    /// the answer's second part is true when two of those differ.
    pub(crate) fn add(&mut self, base: usize, field: &Field) -> (Added, bool) {
        let place = |r: &Range<usize>| (base + r.start) as u32..(base + r.end) as u32;
        let name = place(&field.name);
        let hash = name_hash(self.text(&name));
        let Some(at) = self.position(hash, self.text(&name)) else {
            let value = match &field.value {
                Value::At(range) => place(range),
                Value::Folded(text) => self.keep(text),
            };
            self.lengths |= length_bit(self.text(&name).iter().filter(|b| **b != 0).count());
            if self.list.capacity() == 0 {
                // Requests of one field are those of which a client can send most.
                self.list.reserve_exact(1);
            }
            self.list.push(Entry { hash, name, value, is_repeated: false });
            if names::are_many(self.list.len()) {
                self.note_last_name();
            }
            return (Added::New, false);
        };
        let mut added = Added::Second;
        if self.list[at].is_repeated {
            if !reached::REPETITIONS_MAX.has_room(self.repetitions.into()) {
                return (Added::Further, false);
            }
            self.repetitions += 1;
            added = Added::Further;
        }
        self.list[at].is_repeated = true;
        let new = match &field.value {
            Value::At(range) => self.text(&place(range)).to_vec(),
            Value::Folded(text) => text.clone(),
        };
        let old = self.list[at].value.clone();
        if self.text(&name).eq_ignore_ascii_case(b"content-length") {
            let number = |text| super::text::content_length(text).map(|l| l.0);
            let (a, b) = (number(self.text(&old)), number(&new));
            return (added, a.is_none() || a != b);
        }
        let mut value = self.text(&old).to_vec();
        value.extend_from_slice(b", ");
        value.extend_from_slice(&new);
        self.list[at].value = self.keep(&value);
        (added, false)
    }

    /// Notes where the last field is, in a block of many.
    #[cold]
    fn note_last_name(&mut self) {
        let mut names = std::mem::take(&mut self.rare.get_or_insert_default().names);
        names.add(self.list.len(), |at| {
            self.list.get(at).map(|e| self.text(&e.name)).unwrap_or_default()
        });
        self.rare.get_or_insert_default().names = names;
    }

    fn keep(&mut self, text: &[u8]) -> Range<u32> {
        let joined = &mut self.rare.get_or_insert_default().joined;
        let from = JOINED + joined.len() as u32;
        joined.extend_from_slice(text);
        from..JOINED + joined.len() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All fields of a block as `name=value`, what is after its end, or "more".
    fn scan_fields(side: Side, data: &[u8]) -> String {
        let mut at = 0;
        let mut out = String::new();
        loop {
            match scan(side, &data[at..], false, &mut 0) {
                Scan::Field(f) => {
                    let value = match &f.value {
                        Value::At(r) => data[at..][r.clone()].to_vec(),
                        Value::Folded(v) => v.clone(),
                    };
                    let name = &data[at..][f.name.clone()];
                    out += &format!("{}={};", name.escape_ascii(), value.escape_ascii());
                    at += f.len;
                }
                Scan::End(n) => return out + "end+" + &data[at + n..].escape_ascii().to_string(),
                Scan::More => return out + "more+" + &data[at..].escape_ascii().to_string(),
            }
        }
    }

    /// Vectors of Suricata's HTTP library: block, as request, as response.
    #[test]
    fn blocks_are_read_as_suricata_reads_them() {
        for (block, request, response) in [
            (
                &b"k1:v1\r\nk2:v2 before\0v2 after\r\n\r\n"[..],
                "k1=v1;k2=v2 before\\x00v2 after;end+",
                "",
            ),
            (
                b"k1:v1\r\n:v2\r\n v2+\r\nk3: v3\r\nk4 v4\r\nk\r5:v\r5\n\rmore\r\n\r\n",
                "k1=v1;=v2 v2+;k3=v3;=k4 v4;k\\r5=v\\r5;=more;end+",
                "k1=v1;=v2 v2+;k3=v3;=k4 v4;=k;5=v;=5;=more;end+",
            ),
            (b"k1:v1\r\nk2:v2\r", "k1=v1;more+k2:v2\\r", ""),
            (
                b"N1: V1\nN2:V2\nN3: Val\n ue3\nN4: V4\n V4.1\n V4.2\n\n",
                "N1=V1;N2=V2;N3=Val ue3;N4=V4 V4.1 V4.2;end+",
                "",
            ),
            (
                b"N1: V1\rN2:V2\rN3: Val\r\n ue3\r\nN4: V4\r\n V4.1\n V4.2\r\n\n",
                "N1=V1\\rN2:V2\\rN3: Val ue3;N4=V4 V4.1 V4.2;end+",
                "N1=V1;N2=V2;N3=Val ue3;N4=V4 V4.1 V4.2;end+",
            ),
            (
                b"N1: V1\r\nN2:V2\nN3: Val\n\r ue3\n\rN4: V4\r\n V4.1\n V4.2\r\n\n",
                "N1=V1;N2=V2;N3=Val;=ue3;N4=V4 V4.1 V4.2;end+",
                "N1=V1;N2=V2;N3=Val ue3;N4=V4 V4.1 V4.2;end+",
            ),
            (
                b"K:deformed folded\n\r V\n\r\r\n\nx",
                "K=deformed folded;=V;end+x",
                "K=deformed folded V;end+x",
            ),
            (b"K\r \r :\r V\r\n\r\n", "K=V;end+", ""),
            (
                b"Host:www.google.com\rName: Value\r\n\r\n",
                "Host=www.google.com\\rName: Value;end+",
                "Host=www.google.com;Name=Value;end+",
            ),
            (b"\r\nbody", "end+body", ""),
            (b"A: b\r\n C: d\r\n\r\n", "A=b C: d;end+", "A=b;C=d;end+"),
        ] {
            let response = if response.is_empty() { request } else { response };
            assert_eq!(scan_fields(Side::Request, block), request, "{}", block.escape_ascii());
            assert_eq!(scan_fields(Side::Response, block), response, "{}", block.escape_ascii());
        }
    }

    /// A scan that asks for more with a prefix must come to the same field with all of it.
    #[test]
    fn more_bytes_never_change_a_decision() {
        let blocks: [&[u8]; 8] = [
            b"A: b\r\nC:d\r\n e\r\n\r\nxx",
            b"A: b\n\r\r\n\nxx",
            b"A: b\r\n\r \r\nC: d\r\n\r\n",
            b"A: b\r\n D: e\r\n\r\n",
            b"A\r \r:\r V\r\r\n",
            b"A b\r\n \r\n\r\nxx",
            b"A: b\n \nC: d\n\n",
            b"A: b\r\n\r\r\r\nxx",
        ];
        for side in [Side::Request, Side::Response] {
            for block in blocks {
                let whole = scan(side, block, false, &mut 0);
                let mut looked = 0;
                for n in 0..block.len() {
                    let part = scan(side, &block[..n], false, &mut 0);
                    let again = scan(side, &block[..n], false, &mut looked);
                    assert_eq!(again, part, "{side:?} {} at {n}", block.escape_ascii());
                    assert!(
                        part == Scan::More || part == whole,
                        "{side:?} {} at {n}: {part:?} {whole:?}",
                        block.escape_ascii()
                    );
                }
            }
        }
    }

    #[test]
    fn repetitions_are_joined_and_lengths_compared() {
        let block = b"A: 1\r\nContent-Length: 3\r\na: 2\r\ncontent-length: 4\r\nA: 3\r\n\r\n";
        let mut h = Headers::default();
        h.raw_mut().extend_from_slice(block);
        let mut at = 0;
        let mut seen = Vec::new();
        while let Scan::Field(f) = scan(Side::Request, &block[at..], false, &mut 0) {
            seen.push(h.add(at, &f));
            at += f.len;
        }
        use Added::*;
        assert_eq!(
            seen,
            [(New, false), (New, false), (Second, false), (Second, true), (Further, false)]
        );
        assert_eq!(h.get(b"a"), Some(&b"1, 2, 3"[..]));
        assert_eq!(h.get(b"content-length"), Some(&b"3"[..]));
        assert_eq!(h.len(), 2);
    }

    /// A block of this many fields, each of a name of its own: they are added, and each is asked for once.
    fn steps_of_names(count: usize) -> u64 {
        names::STEPS.set(0);
        let mut h = Headers::default();
        for n in 0..count {
            let line = format!("{}n{n}:{n}\r\n", if n % 3 == 0 { "\0" } else { "" });
            let base = h.raw().len();
            h.raw_mut().extend_from_slice(line.as_bytes());
            let Scan::Field(f) = scan(Side::Request, line.as_bytes(), true, &mut 0) else {
                panic!("{line:?}");
            };
            assert_eq!(h.add(base, &f), (Added::New, false));
        }
        for n in 0..count {
            assert_eq!(h.get(format!("n{n}").as_bytes()), Some(n.to_string().as_bytes()));
        }
        assert_eq!(h.get(b"n"), None);
        names::STEPS.get()
    }

    /// However many fields a block has, one more is as cheap as the ones before, and so is finding it.
    #[test]
    fn names_are_found_in_as_many_steps_in_large_blocks_as_in_small_ones() {
        let few = steps_of_names(32) as f64 / 32.0;
        for count in [33, 100, 500, 1_000, 1_024, 2_000, 12_000, 25_000] {
            let each = steps_of_names(count) as f64 / count as f64;
            assert!(each <= 2.0 * few, "{count} fields: {each} steps for each, {few} of 32");
        }
    }

    /// Names that differ in NUL bytes and case alone are of one field for a caller, the first one.
    #[test]
    fn of_equal_names_the_first_is_found() {
        for others in [0, 1_000] {
            let mut h = Headers::default();
            let add = |h: &mut Headers, line: &str| {
                let base = h.raw().len();
                h.raw_mut().extend_from_slice(line.as_bytes());
                match scan(Side::Request, line.as_bytes(), true, &mut 0) {
                    Scan::Field(f) => h.add(base, &f).0,
                    other => panic!("{line:?}: {other:?}"),
                }
            };
            (0..others).for_each(|n| assert_eq!(add(&mut h, &format!("x{n}:0\n")), Added::New));
            assert_eq!(add(&mut h, "H\0ost: first\n"), Added::New);
            (0..others).for_each(|n| assert_eq!(add(&mut h, &format!("y{n}:0\n")), Added::New));
            assert_eq!(add(&mut h, "Host: second\n"), Added::New);
            assert_eq!(add(&mut h, "hOST: third\n"), Added::Second);
            assert_eq!(h.get(b"host"), Some(&b"first"[..]));
            assert_eq!(h.len(), 2 * others + 2);
        }
    }
}

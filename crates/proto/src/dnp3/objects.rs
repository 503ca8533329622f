//! Objects of a message (IEEE 1815-2012 4.2.2.7, 11): headers, and points after them.
//!
//! Nothing is kept of points: [`walk_objects`] reads a message each time that somebody wants them. What
//! it takes for a point, and where it ends, is Suricata's (8.0.7), its packed points of two bits included.

use super::layouts::{Field, Layout, find_layout};
use super::limits::REST_TEXT_MAX;
use super::settings::Bounds;

/// Header of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectHeader {
    /// Group.
    pub group: u8,
    /// Variation; 0 is any.
    pub variation: u8,
    /// How points are counted and what is in front of each.
    pub qualifier: u8,
    /// Index of the first point, if the header has one.
    pub start: u32,
    /// Index of the last point, if the header has one.
    pub stop: u32,
    /// Points.
    pub count: u32,
}

impl ObjectHeader {
    /// What is in front of each point: 1 to 3 an index, 4 to 6 a size.
    pub fn prefix_code(self) -> u8 {
        self.qualifier >> 4 & 7
    }

    /// How points are counted.
    pub fn range_code(self) -> u8 {
        self.qualifier & 0x0f
    }
}

/// A value of a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// A whole number. Those with a sign are extended to 64 bits, as Suricata writes them.
    Number(u64),
    /// A float.
    Float(f64),
    /// A text.
    Text(&'a [u8]),
    /// Bytes.
    Data(&'a [u8]),
}

/// A point of an object.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    /// What was in front of it, 0 if nothing was.
    pub prefix: u32,
    /// Its index.
    pub index: u32,
    /// Its size, if that was in front of it.
    pub size: Option<u32>,
    body: Body<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    Bits(&'static str, u8),
    Fields(&'static [Field], &'a [u8], usize),
}

/// What a walk comes across.
#[derive(Clone, Copy, Debug)]
pub enum Part<'a> {
    /// An object.
    Object(ObjectHeader),
    /// A point of the last object.
    Point(Point<'a>),
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// With the message.
    Complete,
    /// In the middle of a header, or with one that says nothing.
    Cut,
    /// With points of an unknown layout, or that are not all there.
    UnknownObject,
    /// With more points than a message may have.
    TooManyPoints,
    /// With more objects than a message may have.
    TooManyObjects,
}

/// Bytes, taken from the front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn next_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    /// A number of at most eight bytes, the lowest first.
    fn next_number(&mut self, len: usize) -> Option<u64> {
        self.next_bytes(len).map(little_endian)
    }

    fn next_u32(&mut self, len: usize) -> Option<u32> {
        self.next_number(len).and_then(|n| u32::try_from(n).ok())
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b))
}

/// The number with the sign of its highest bit.
fn extend_sign(n: u64, bits: u32) -> u64 {
    let unused = u64::BITS.saturating_sub(bits);
    (n.wrapping_shl(unused) as i64).wrapping_shr(unused) as u64
}

/// What is done with the objects of a message.
trait Visit {
    fn take_object(&mut self, header: ObjectHeader);

    /// Reads the points of an object; `None`: they are not all there.
    fn take_points(&mut self, header: ObjectHeader, r: &mut Reader<'_>) -> Option<()>;
}

/// Hands out objects and points.
struct Giver<'g> {
    give: &'g mut dyn FnMut(Part<'_>),
    /// Points that are still wanted.
    left: u64,
}

impl Visit for Giver<'_> {
    fn take_object(&mut self, header: ObjectHeader) {
        (self.give)(Part::Object(header));
    }

    fn take_points(&mut self, header: ObjectHeader, r: &mut Reader<'_>) -> Option<()> {
        let wanted = u32::try_from(self.left).unwrap_or(u32::MAX).min(header.count);
        self.left -= u64::from(wanted);
        walk_points(header, r, wanted, self.give)
    }
}

/// Counts points without looking at what is packed.
struct Counter<'g> {
    give: &'g mut dyn FnMut(ObjectHeader),
    points: u64,
}

impl Visit for Counter<'_> {
    fn take_object(&mut self, header: ObjectHeader) {
        (self.give)(header);
    }

    fn take_points(&mut self, header: ObjectHeader, r: &mut Reader<'_>) -> Option<()> {
        let Layout::Packed(_, bits) = find_layout(header.group, header.variation)? else {
            let points = &mut self.points;
            return walk_points(header, r, u32::MAX, &mut |_| *points += 1);
        };
        let unit = Prefix::from_code(header.prefix_code()).len + 1;
        let octets = header.count as usize / 8 + 1;
        let there = octets.min(r.rest.len() / unit);
        let in_octet = 8usize.div_ceil(usize::from(bits.max(1)));
        self.points += u64::from(header.count).min((there * in_octet) as u64);
        r.next_bytes(octets.checked_mul(unit)?).map(|_| ())
    }
}

/// Reads the objects of a message and hands out what it comes across: all objects, and the first `points_wanted` of their points.
pub fn walk_objects(
    bytes: &[u8],
    bounds: Bounds,
    points_wanted: u64,
    give: &mut dyn FnMut(Part<'_>),
) -> Ending {
    visit(bytes, bounds, &mut Giver { give, left: points_wanted })
}

/// Reads the objects of a message, hands out their headers, and says how many points [`walk_objects`] hands out.
pub(super) fn count_points(
    bytes: &[u8],
    bounds: Bounds,
    give: &mut dyn FnMut(ObjectHeader),
) -> (Ending, u64) {
    let mut counter = Counter { give, points: 0 };
    let ending = visit(bytes, bounds, &mut counter);
    (ending, counter.points)
}

fn visit(bytes: &[u8], bounds: Bounds, visitor: &mut dyn Visit) -> Ending {
    let mut r = Reader { rest: bytes };
    let (mut objects, mut points) = (0, 0u64);
    while !r.rest.is_empty() {
        let Some(&[group, variation, qualifier]) = r.next_bytes(3) else { return Ending::Cut };
        if objects >= bounds.objects_max {
            return Ending::TooManyObjects;
        }
        objects += 1;
        let mut header = ObjectHeader { group, variation, qualifier, ..ObjectHeader::default() };
        let has_range = read_range(&mut header, &mut r).is_some();
        visitor.take_object(header);
        if !has_range {
            return Ending::Cut;
        }
        if header.variation == 0 || header.count == 0 {
            continue;
        }
        points = points.saturating_add(header.count.into());
        if points > bounds.points_max {
            return Ending::TooManyPoints;
        }
        if visitor.take_points(header, &mut r).is_none() {
            return Ending::UnknownObject;
        }
    }
    Ending::Complete
}

/// Reads the range of a header; `None`: it is not all there, or there is no such range.
fn read_range(header: &mut ObjectHeader, r: &mut Reader<'_>) -> Option<()> {
    let mut range = |len: usize| {
        let (start, stop) = (r.next_u32(len)?, r.next_u32(len)?);
        Some((start, stop, stop.wrapping_sub(start).wrapping_add(1)))
    };
    (header.start, header.stop, header.count) = match header.range_code() {
        0 | 3 => range(1)?,
        1 | 4 => range(2)?,
        2 | 5 => range(4)?,
        6 => (0, 0, 0),
        7 | 0x0b => (0, 0, r.next_u32(1)?),
        8 => (0, 0, r.next_u32(2)?),
        9 => (0, 0, r.next_u32(4)?),
        _ => return None,
    };
    Some(())
}

/// What is in front of the points of an object.
#[derive(Clone, Copy)]
struct Prefix {
    len: usize,
    is_index: bool,
    is_size: bool,
}

impl Prefix {
    fn from_code(code: u8) -> Prefix {
        let len = match code {
            1 | 4 => 1,
            2 | 5 => 2,
            3 | 6 => 4,
            _ => 0,
        };
        Prefix { len, is_index: matches!(code, 1..=3), is_size: matches!(code, 4..=6) }
    }

    /// A point without its values; `at` is its number in the object.
    fn point<'a>(self, prefix: u32, header: ObjectHeader, at: u32, body: Body<'a>) -> Point<'a> {
        let index = if self.is_index { prefix } else { header.start.wrapping_add(at) };
        Point { prefix, index, size: self.is_size.then_some(prefix), body }
    }
}

/// Reads the points of an object and hands out the first of them that are `wanted`; `None`: they are not all there.
fn walk_points(
    header: ObjectHeader,
    r: &mut Reader<'_>,
    wanted: u32,
    give: &mut dyn FnMut(Part<'_>),
) -> Option<()> {
    let prefix = Prefix::from_code(header.prefix_code());
    let fields = match find_layout(header.group, header.variation)? {
        Layout::Packed(name, bits) => {
            let mut at = 0;
            let wanted = wanted.min(header.count);
            // Suricata counts octets as if every point were one bit, and one more.
            for _ in 0..=header.count / 8 {
                let before = r.next_u32(prefix.len)?;
                let octet = *r.next_bytes(1)?.first()?;
                if at == wanted {
                    continue;
                }
                for shift in (0..8).step_by(usize::from(bits.max(1))) {
                    if at < wanted {
                        let value = octet >> shift & (1u8 << bits).wrapping_sub(1);
                        let body = Body::Bits(name, value);
                        give(Part::Point(prefix.point(before, header, at, body)));
                        at += 1;
                    }
                }
            }
            return Some(());
        }
        Layout::Sized(_) if !prefix.is_size => return None,
        Layout::Fields(fields) | Layout::Sized(fields) => fields,
    };
    if (header.count / 8) as usize > r.rest.len() {
        return None;
    }
    for at in 0..header.count {
        let before = r.next_u32(prefix.len)?;
        let size = usize::try_from(before).unwrap_or(usize::MAX);
        let len = point_len(fields, r.rest, size)?;
        let body = Body::Fields(fields, r.next_bytes(len)?, size);
        if at < wanted {
            give(Part::Point(prefix.point(before, header, at, body)));
        }
    }
    Some(())
}

/// Lengths that fields gave for later ones.
const LENS: usize = 3;

/// Bytes of a point at the beginning of `bytes`; `size` is what was in front of it.
fn point_len(fields: &[Field], bytes: &[u8], size: usize) -> Option<usize> {
    let (mut at, mut lens) = (0usize, [0usize; LENS]);
    for field in fields {
        at = at.checked_add(field_len(field, at, &lens, size)?)?;
        if at > bytes.len() {
            return None;
        }
        if let Field::Len(_, slot) = field {
            *lens.get_mut(*slot)? = little_endian(bytes.get(at - 2..at)?) as usize;
        }
    }
    Some(at)
}

/// Bytes of a field that begins `at` bytes after the beginning of its point.
fn field_len(field: &Field, at: usize, lens: &[usize; LENS], size: usize) -> Option<usize> {
    Some(match field {
        Field::Flags(_) | Field::U8(_) => 1,
        Field::U16(_) | Field::I16(_) | Field::Len(..) => 2,
        Field::U24(_) => 3,
        Field::U32(_) | Field::I32(_) | Field::F32(_) | Field::Code(_) => 4,
        Field::U48(_) => 6,
        Field::F64(_) => 8,
        Field::Text(_, slot) | Field::Data(_, slot) => *lens.get(*slot)?,
        Field::RestText(_) => size.checked_sub(at).filter(|len| *len <= REST_TEXT_MAX)?,
        Field::RestData(_) => size.checked_sub(at)?,
    })
}

impl Point<'_> {
    /// Hands out its values with their names. Bytes that are not there have none.
    pub fn values(&self, give: &mut dyn FnMut(&'static str, Value<'_>)) {
        match self.body {
            Body::Bits(name, value) => give(name, Value::Number(value.into())),
            Body::Fields(fields, bytes, size) => {
                let _ = field_values(fields, bytes, size, give);
            }
        }
    }
}

fn field_values(
    fields: &[Field],
    bytes: &[u8],
    size: usize,
    give: &mut dyn FnMut(&'static str, Value<'_>),
) -> Option<()> {
    let (mut at, mut lens) = (0usize, [0usize; LENS]);
    for field in fields {
        let end = at.checked_add(field_len(field, at, &lens, size)?)?;
        let bytes = bytes.get(at..end)?;
        at = end;
        let number = little_endian(bytes.get(..bytes.len().min(8))?);
        match *field {
            Field::Flags(bits) => {
                let mut rest = number;
                for (name, width) in bits {
                    let mask = 1u64.wrapping_shl(u32::from(*width)).wrapping_sub(1);
                    give(name, Value::Number(rest & mask));
                    rest >>= width;
                }
            }
            Field::U8(name)
            | Field::U16(name)
            | Field::U24(name)
            | Field::U32(name)
            | Field::U48(name) => give(name, Value::Number(number)),
            Field::I16(name) => give(name, Value::Number(extend_sign(number, 16))),
            Field::I32(name) => give(name, Value::Number(extend_sign(number, 32))),
            Field::F32(name) => {
                give(name, Value::Float(f32::from_bits(number as u32).into()));
            }
            Field::F64(name) => give(name, Value::Float(f64::from_bits(number))),
            Field::Len(name, slot) => {
                *lens.get_mut(slot)? = number as usize;
                give(name, Value::Number(number));
            }
            Field::Text(name, _) | Field::RestText(name) => give(name, Value::Text(bytes)),
            Field::Data(name, _) | Field::RestData(name) => {
                if !bytes.is_empty() {
                    give(name, Value::Data(bytes));
                }
            }
            Field::Code(name) => {
                let text = bytes.split(|b| *b == 0).next().unwrap_or_default();
                if std::str::from_utf8(text).is_ok() {
                    give(name, Value::Text(text));
                }
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Objects with their points, and the ending.
    fn walked(bytes: &[u8]) -> (String, Ending) {
        let mut text = String::new();
        let ending = walk_objects(bytes, Bounds::default(), u64::MAX, &mut |part| match part {
            Part::Object(h) => text += &format!("{}.{}*{}", h.group, h.variation, h.count),
            Part::Point(p) => {
                text += &format!(" [{}", p.index);
                p.values(&mut |_, value| {
                    text += &match value {
                        Value::Number(n) => format!(",{n}"),
                        Value::Float(x) => format!(",{x}"),
                        Value::Text(t) | Value::Data(t) => format!(",{}", t.escape_ascii()),
                    };
                });
                text.push(']');
            }
        });
        (text, ending)
    }

    /// All of it as Suricata 8.0.7 writes it for the same bytes.
    #[test]
    fn points() {
        use Ending::{Complete, Cut, TooManyPoints, UnknownObject};
        let cases: [(&[u8], &str, Ending); 16] = [
            (b"\x3c\x02\x06", "60.2*0", Complete),
            (b"\x01\x01\x07\x03\xa5", "1.1*3 [0,1] [1,0] [2,1]", Complete),
            // Octets are counted as if each point were one bit.
            (b"\x03\x01\x07\x05\xe4", "3.1*5 [0,0] [1,1] [2,2] [3,3]", Complete),
            (b"\x01\x01\x17\x02\x07\x01\x08\x01", "1.1*2 [7,1] [7,0]", Cut),
            (b"\x34\x02\x07\x03\x01\x00\x02\x00", "52.2*3 [0,1] [1,2]", UnknownObject),
            (b"\x1e\x04\x07\x01\xfe\xff", "30.4*1 [0,18446744073709551614]", Complete),
            (b"\x22\x03\x07\x01\x00\x00\xc0\x3f", "34.3*1 [0,1.5]", Complete),
            (b"\x34\x02\x28\x01\x00\x09\x00\x02\x00", "52.2*1 [9,2]", Complete),
            (b"\x46\x08\x5b\x01\x05\x00abcde", "70.8*1 [0,abcde]", Complete),
            (b"\x46\x08\x07\x01abcde", "70.8*1", UnknownObject),
            (b"\x78\x09\x5b\x01\x00\x00", "120.9*1 [0]", Complete),
            (b"\x53\x01\x07\x01ve\0d\x01\x02\x03\0abc", "83.1*1 [0,ve,513,3,abc]", Complete),
            (b"\x53\x01\x07\x01ve\0d\x01\x02\x09\0abc", "83.1*1", UnknownObject),
            (b"\x01\x02\x08\x01\x40\x01", "1.2*16385", TooManyPoints),
            (b"\x01\x00\x08\x01\x40\x3c\x02\x06", "1.0*1638560.2*0", Complete),
            (b"\x01\x02\x08\x18\x00\x81\x81", "1.2*24", UnknownObject),
        ];
        for (bytes, text, ending) in cases {
            assert_eq!(walked(bytes), (text.to_owned(), ending), "{bytes:x?}");
            for end in 0..=bytes.len() {
                let (text, ending) = walked(&bytes[..end]);
                let points = text.matches('[').count() as u64;
                let counted = count_points(&bytes[..end], Bounds::default(), &mut |_| {});
                assert_eq!(counted, (ending, points), "{bytes:x?} {end}");
            }
        }
    }

    /// Fewer points are handed out than there are, over several objects; objects, and what is wrong with them, stay the same.
    #[test]
    fn fewer_points_are_wanted() {
        let messages: [&[u8]; 4] = [
            b"\x01\x01\x07\x03\xa5\x3c\x02\x06\x03\x01\x07\x05\xe4",
            b"\x01\x01\x17\x02\x07\x01\x08\x01",
            b"\x34\x02\x07\x03\x01\x00\x02\x00",
            b"\x34\x02\x28\x02\x00\x09\x00\x02\x00\x0a\x00\x03\x00\x01\x01\x07\x14\xff\xff\xff",
        ];
        let parts = |bytes: &[u8], wanted: u64| {
            let (mut objects, mut points) = (Vec::new(), Vec::new());
            let ending = walk_objects(bytes, Bounds::default(), wanted, &mut |part| match part {
                Part::Object(header) => objects.push(format!("{header:?}")),
                Part::Point(point) => points.push(format!("{} {point:?}", objects.len())),
            });
            (ending, objects, points)
        };
        for bytes in messages {
            let (ending, objects, all) = parts(bytes, u64::MAX);
            for wanted in 0..=all.len() {
                let first = all.get(..wanted).unwrap_or_default().to_vec();
                assert_eq!(
                    parts(bytes, wanted as u64),
                    (ending, objects.clone(), first),
                    "{bytes:x?} {wanted}"
                );
            }
        }
    }

    #[test]
    fn headers_that_are_cut() {
        for bytes in
            [&b"\x3c"[..], b"\x3c\x02", b"\x3c\x02\x07", b"\x3c\x02\x00\x01", b"\x3c\x02\x0a"]
        {
            assert_eq!(walked(bytes).1, Ending::Cut, "{bytes:x?}");
        }
        let many = b"\x3c\x02\x06".repeat(Bounds::default().objects_max as usize + 1);
        assert_eq!(walked(&many).1, Ending::TooManyObjects);
        assert_eq!(walked(&many[3..]).1, Ending::Complete);
    }

    /// No layout and no length leads to more points than a message may have.
    #[test]
    fn work_is_bounded() {
        let bounds = Bounds { points_max: 1000, ..Bounds::default() };
        for group in 0..=u8::MAX {
            for qualifier in [0x02, 0x07, 0x09, 0x19, 0x59, 0x0b] {
                let mut bytes = vec![group, 1, qualifier];
                bytes.extend([0xff; 600]);
                let mut parts = 0;
                walk_objects(&bytes, bounds, u64::MAX, &mut |_| parts += 1);
                assert!(parts <= 1000 + bytes.len(), "{group} {qualifier}: {parts}");
            }
        }
    }
}

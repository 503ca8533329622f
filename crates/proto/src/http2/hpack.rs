//! HPACK (RFC 7541): header blocks to fields, with the dynamic table of a direction.
//!
//! A block is decoded as Suricata 8.0.7 decodes it: an index that leads nowhere is a field of its own that
//! names the error, an integer that is too large counts as 0, and a block that is cut inside a field gives
//! no field at all. What a flow may have decoded is bounded by what it has sent, since one byte may stand
//! for an entry of the whole table.

use super::huffman::decode_huffman;
use super::limits::{DECODED_BYTES_FROM_ONE, DECODED_BYTES_MAX, reached};
use std::collections::{HashSet, VecDeque};
use std::num::NonZeroU64;

/// The static table (RFC 7541 appendix A).
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// What an entry of the dynamic table counts in addition to its bytes (RFC 7541 4.1).
const ENTRY_BYTES: usize = 32;

/// Bytes of a dynamic table to begin with (RFC 9113 6.5.2).
const TABLE_BYTES: usize = 4096;

/// The kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// A name with a value.
    Named,
    /// No field: the dynamic table's new size.
    SizeUpdate(u64),
    /// An index that leads nowhere, in Suricata's words.
    Error(&'static str),
}

/// Names whose fields are found in a step each, however many fields there are: those that rules have buffers for, and
/// those that the parser asks for with each header block.
const INDEXED: [&[u8]; 19] = [
    b":method",
    b":path",
    b":authority",
    b":status",
    b"host",
    b"user-agent",
    b"cookie",
    b"set-cookie",
    b"location",
    b"server",
    b"content-type",
    b"content-length",
    b"connection",
    b"referer",
    b"accept-language",
    b"accept-encoding",
    b"accept",
    b"content-encoding",
    b"content-range",
];

/// The number of a name in [`INDEXED`].
fn indexed(name: &[u8]) -> Option<usize> {
    INDEXED.iter().position(|n| *n == name)
}

/// Fields of a message up to which one of them is looked for in all.
const FEW_FIELDS: usize = 16;

/// A field of a header list.
#[derive(Clone, Debug)]
struct Field {
    kind: FieldKind,
    /// The entry of the dynamic table from which its name is, or to which it came.
    entry: Option<NonZeroU64>,
    /// Where its name begins in the list's text, where its value begins, and where that ends.
    places: [u32; 3],
    /// The next field of the same name, if the name is one of [`INDEXED`] and there are many fields; 0: there is none.
    next: u32,
}

/// The first and the last field of each of [`INDEXED`], counted from 1; 0: there is none.
type Ends = [(u32, u32); INDEXED.len()];

/// The fields of a message, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderList {
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Kept once there are more than [`FEW_FIELDS`].
    ends: Option<Box<Ends>>,
}

impl HeaderList {
    /// Adds a field.
    pub(crate) fn push(&mut self, kind: FieldKind, name: &[u8], value: &[u8]) {
        let before = self.fields.len();
        self.append(kind, None, name, value);
        self.index_from(before);
    }

    /// Makes the fields from this place on known by their names.
    fn index_from(&mut self, from: usize) {
        if self.fields.len() <= FEW_FIELDS {
            return;
        }
        // Until there were many none was known.
        let from = if self.ends.is_some() { from } else { 0 };
        let ends = self.ends.get_or_insert_default();
        for at in from..self.fields.len() {
            let Some(f) = self.fields.get(at).filter(|f| f.kind == FieldKind::Named) else {
                continue;
            };
            let (Some(n), Ok(counted)) = (indexed(f.name(&self.text)), u32::try_from(at + 1))
            else {
                continue;
            };
            let Some(ends) = ends.get_mut(n) else { continue };
            let last = std::mem::replace(&mut ends.1, counted);
            match last.checked_sub(1).and_then(|last| self.fields.get_mut(last as usize)) {
                Some(last) => last.next = counted - 1,
                None => ends.0 = counted,
            }
        }
    }

    /// Adds a field that is not known by its name yet, see [`HeaderList::index_from`]. What no longer fits into 4 GiB of
    /// text is empty: no budget allows as much.
    fn append(&mut self, kind: FieldKind, entry: Option<NonZeroU64>, name: &[u8], value: &[u8]) {
        let from = self.text.len();
        let fits = u32::try_from(from + name.len() + value.len()).is_ok();
        let (name, value) = if fits { (name, value) } else { (&[][..], &[][..]) };
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        let place = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let places = [from, from + name.len(), self.text.len()].map(place);
        self.fields.push(Field { kind, entry, places, next: 0 });
    }

    /// Kinds, names and values; size updates and errors have neither.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FieldKind, &[u8], &[u8])> {
        self.fields.iter().map(|f| (f.kind, f.name(&self.text), f.value(&self.text)))
    }

    /// The same without those whose name an entry of the dynamic table had given before: a byte stands for each,
    /// and Suricata logs them once.
    pub(crate) fn iter_once(&self) -> impl Iterator<Item = (FieldKind, &[u8], &[u8])> {
        let mut seen = HashSet::new();
        let fields = self.fields.iter().filter(move |f| f.entry.is_none_or(|id| seen.insert(id)));
        fields.map(|f| (f.kind, f.name(&self.text), f.value(&self.text)))
    }

    /// One of them.
    pub(crate) fn nth(&self, index: usize) -> Option<(FieldKind, &[u8], &[u8])> {
        let f = self.fields.get(index)?;
        Some((f.kind, f.name(&self.text), f.value(&self.text)))
    }

    /// Values of the fields with this name, which is compared as sent (names are in lower case, RFC 9113
    /// 8.2.1).
    pub(crate) fn values(&self, name: &[u8]) -> impl Iterator<Item = &[u8]> {
        let known = self.ends.as_deref().and_then(|ends| Some((ends, indexed(name)?)));
        let mut next = match known {
            Some((ends, n)) => first_of(ends, n),
            None => self.find_from(0, name),
        };
        std::iter::from_fn(move || {
            let at = next?;
            let field = self.fields.get(at)?;
            next = match known {
                Some(_) => Some(field.next as usize).filter(|next| *next > 0),
                None => self.find_from(at + 1, name),
            };
            Some(field.value(&self.text))
        })
    }

    /// The first field of a name from this place on, looked for in all of them.
    fn find_from(&self, from: usize, name: &[u8]) -> Option<usize> {
        let is_it = |f: &Field| f.kind == FieldKind::Named && f.name(&self.text) == name;
        Some(from + self.fields.get(from..)?.iter().position(is_it)?)
    }

    /// The place of the first field of a name, which has to be one of those that are indexed.
    fn first_place(&self, name: &[u8]) -> Option<usize> {
        match self.ends.as_deref() {
            Some(ends) => first_of(ends, indexed(name)?),
            None => self.find_from(0, name),
        }
    }

    /// Whether the first field of one of these names, all indexed, is at this place or later.
    pub(crate) fn has_first_from(&self, from: usize, names: &[&[u8]]) -> bool {
        names.iter().any(|name| self.first_place(name).is_some_and(|at| at >= from))
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The first value of a name.
    pub(crate) fn first(&self, name: &[u8]) -> Option<&[u8]> {
        self.values(name).next()
    }

    /// There are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Bytes of all names and values.
    pub(crate) fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        let fields = self.fields.capacity() * size_of::<Field>();
        let ends = self.ends.as_ref().map_or(0, |ends| size_of_val(&**ends));
        size_of::<HeaderList>() + self.text.capacity() + fields + ends
    }

    fn truncate(&mut self, to: (usize, usize)) {
        self.fields.truncate(to.0);
        self.text.truncate(to.1);
    }
}

impl Field {
    /// Its name in the list's text; that of a size update or an error is empty.
    fn name<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let [from, middle, _] = self.places;
        text.get(from as usize..middle as usize).unwrap_or_default()
    }

    /// Its value in the list's text.
    fn value<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let [_, middle, end] = self.places;
        text.get(middle as usize..end as usize).unwrap_or_default()
    }
}

/// The place of the first field of one of [`INDEXED`].
fn first_of(ends: &Ends, name: usize) -> Option<usize> {
    ends.get(name)?.0.checked_sub(1).map(|at| at as usize)
}

/// A block that ends inside a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutBlock;

/// What was odd about a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockFaults {
    /// An index led nowhere.
    pub(crate) has_bad_index: bool,
}

/// An entry of the dynamic table.
#[derive(Debug)]
struct Entry {
    /// Number of its name: that of the entry which it is from.
    id: NonZeroU64,
    name: Vec<u8>,
    value: Vec<u8>,
}

/// The decoder of a direction.
#[derive(Debug)]
pub(crate) struct HpackDecoder {
    /// The newest first.
    entries: VecDeque<Entry>,
    /// Number of the next name that comes to the table.
    next_id: NonZeroU64,
    /// Bytes of the table, by the rule of RFC 7541 4.1.
    held: usize,
    capacity: usize,
    /// What an update may set at most.
    capacity_max: usize,
    sent: u64,
    made: u64,
}

impl HpackDecoder {
    /// A decoder whose table may have this many bytes at most.
    pub(crate) fn new(capacity_max: usize) -> HpackDecoder {
        HpackDecoder {
            entries: VecDeque::new(),
            next_id: NonZeroU64::MIN,
            held: 0,
            capacity: TABLE_BYTES,
            capacity_max,
            sent: 0,
            made: 0,
        }
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        self.held
    }

    /// Decodes a whole block and appends its fields.
    pub(crate) fn decode_block(
        &mut self,
        block: &[u8],
        list: &mut HeaderList,
    ) -> Result<BlockFaults, CutBlock> {
        self.sent = self.sent.saturating_add(block.len() as u64);
        let before = (list.fields.len(), list.text.len());
        // Fields of a block that is cut are dropped again, so they are indexed once all of it was read.
        let mut faults = BlockFaults::default();
        let mut rest = block;
        while !rest.is_empty() {
            if self.decode_field(&mut rest, list, &mut faults).is_none() {
                list.truncate(before);
                return Err(CutBlock);
            }
        }
        list.index_from(before.0);
        Ok(faults)
    }

    fn decode_field(
        &mut self,
        rest: &mut &[u8],
        list: &mut HeaderList,
        faults: &mut BlockFaults,
    ) -> Option<()> {
        let first = *rest.first()?;
        if first & 0x80 != 0 {
            let index = decode_integer(rest, 7)?;
            match self.entry(index) {
                Some((id, name, value)) => {
                    let len = name.len() + value.len();
                    if room(self.sent, self.made, len) {
                        list.append(FieldKind::Named, id, name, value)
                    } else {
                        // It is of the same name still, so that records do not have it once more.
                        list.append(FieldKind::Named, id, b"", b"")
                    }
                    self.made = self.made.saturating_add(len as u64);
                }
                None => {
                    faults.has_bad_index = true;
                    let error = match index {
                        0 => "HTTP2HeaderDecodeIndex0",
                        _ => "HTTP2HeaderDecodeNotIndexed",
                    };
                    list.append(FieldKind::Error(error), None, b"", b"");
                }
            }
            return Some(());
        }
        if first & 0xe0 == 0x20 {
            let size = decode_integer(rest, 5)?;
            list.append(FieldKind::SizeUpdate(size), None, b"", b"");
            if let Some(size) = usize::try_from(size).ok().filter(|n| *n <= self.capacity_max) {
                self.capacity = size;
                self.evict();
            }
            return Some(());
        }
        let is_kept = first & 0xc0 == 0x40;
        let index = decode_integer(rest, if is_kept { 6 } else { 4 })?;
        let mut origin = None;
        let name = match index {
            0 => self.decode_string(rest)?,
            // An index that leads nowhere is a field without name, and no event (as Suricata has it).
            _ => match self.entry(index).map(|(id, name, _)| (id, name.to_vec())) {
                Some((id, name)) if room(self.sent, self.made, name.len()) => {
                    origin = id;
                    self.made = self.made.saturating_add(name.len() as u64);
                    name
                }
                _ => Vec::new(),
            },
        };
        let value = self.decode_string(rest)?;
        if is_kept && origin.is_none() {
            origin = Some(self.next_id);
            self.next_id = self.next_id.saturating_add(1);
        }
        list.append(FieldKind::Named, origin, &name, &value);
        if let Some(id) = origin.filter(|_| is_kept) {
            self.keep(Entry { id, name, value });
        }
        Some(())
    }

    fn entry(&self, index: u64) -> Option<(Option<NonZeroU64>, &[u8], &[u8])> {
        let at = usize::try_from(index).ok()?.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(at) {
            return Some((None, name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(at - STATIC.len())?;
        Some((Some(entry.id), &entry.name, &entry.value))
    }

    fn decode_string(&mut self, rest: &mut &[u8]) -> Option<Vec<u8>> {
        let is_packed = rest.first()? & 0x80 != 0;
        let len = usize::try_from(decode_integer(rest, 7)?).ok()?;
        let (bytes, after) = rest.split_at_checked(len)?;
        *rest = after;
        if !is_packed {
            return Some(bytes.to_vec());
        }
        let mut text = Vec::new();
        decode_huffman(bytes, &mut text);
        Some(text)
    }

    /// Adds an entry to the table; older ones make place for it.
    fn keep(&mut self, entry: Entry) {
        self.held += entry.name.len() + entry.value.len() + ENTRY_BYTES;
        self.entries.push_front(entry);
        self.evict();
    }

    fn evict(&mut self) {
        while self.held > self.capacity {
            let Some(entry) = self.entries.pop_back() else { break };
            self.held -= entry.name.len() + entry.value.len() + ENTRY_BYTES;
        }
    }
}

/// Whether this many bytes may be made of an index yet.
fn room(sent: u64, made: u64, len: usize) -> bool {
    let earned = sent.saturating_mul(DECODED_BYTES_FROM_ONE);
    let has_room = made.saturating_add(len as u64) <= earned.saturating_add(DECODED_BYTES_MAX);
    if !has_room {
        reached::DECODED_BYTES_MAX.count();
    }
    has_room
}

/// Reads an integer with a prefix of this many bits (RFC 7541 5.1). `None`: it is cut.
fn decode_integer(rest: &mut &[u8], prefix_bits: u32) -> Option<u64> {
    let (first, mut after) = rest.split_first()?;
    let mask = (1_u64 << prefix_bits) - 1;
    let mut value = u64::from(*first) & mask;
    if value == mask {
        let mut shift = 0_u32;
        let mut is_too_large = false;
        loop {
            let (byte, tail) = after.split_first()?;
            after = tail;
            let part = u64::from(byte & 0x7f);
            match part.checked_shl(shift).filter(|v| v >> shift == part) {
                Some(part) if !is_too_large => match value.checked_add(part) {
                    Some(sum) => value = sum,
                    None => is_too_large = true,
                },
                _ => is_too_large |= part != 0,
            }
            shift = shift.saturating_add(7);
            if byte & 0x80 == 0 {
                break;
            }
        }
        if is_too_large {
            value = 0;
        }
    }
    *rest = after;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> Vec<(String, String)> {
        let mut list = HeaderList::default();
        decoder.decode_block(block, &mut list).unwrap();
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        list.iter().map(|(_, name, value)| (text(name), text(value))).collect()
    }

    /// RFC 7541 C.1.
    #[test]
    fn integers_are_decoded() {
        for (bytes, bits, expected) in [
            (&b"\x0a"[..], 5, Some(10)),
            (b"\x1f\x9a\x0a", 5, Some(1337)),
            (b"\x2a", 8, Some(42)),
            (b"\x1f", 5, None),
            (b"\x1f\xff", 5, None),
            (b"\x1f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 5, Some(0)),
            (b"\x1f\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 5, Some(31)),
        ] {
            assert_eq!(decode_integer(&mut &bytes[..], bits), expected, "{bytes:x?}");
        }
    }

    /// RFC 7541 C.4: three requests of one connection.
    #[test]
    fn requests_of_a_connection_share_a_table() {
        let mut d = HpackDecoder::new(65_536);
        let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
        };
        let host = (":authority", "www.example.com");
        let first = b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
        let common = [(":method", "GET"), (":scheme", "http"), (":path", "/"), host];
        assert_eq!(decoded(&mut d, first), of(&common));
        assert_eq!(d.held, 57);
        let second = b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf";
        let cache = ("cache-control", "no-cache");
        assert_eq!(decoded(&mut d, second), of(&[&common[..], &[cache]].concat()));
        let third = b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf";
        let expected = [
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            host,
            ("custom-key", "custom-value"),
        ];
        assert_eq!(decoded(&mut d, third), of(&expected));
        assert_eq!(d.held, 164);
        // RFC 7541 6.3: a size of 0 empties the table.
        decoded(&mut d, b"\x20");
        assert_eq!((d.held, d.entries.len()), (0, 0));
    }

    /// What Suricata 8.0.7 logs of a block with such fields.
    #[test]
    fn faults_are_fields() {
        let mut d = HpackDecoder::new(65_536);
        let mut list = HeaderList::default();
        let faults = d.decode_block(b"\x80\xff\x01\x7f\x20\x01v\x3f\xd1\xa2\x04", &mut list);
        assert!(faults.unwrap().has_bad_index);
        let kinds: Vec<FieldKind> = list.iter().map(|f| f.0).collect();
        let expected = [
            FieldKind::Error("HTTP2HeaderDecodeIndex0"),
            FieldKind::Error("HTTP2HeaderDecodeNotIndexed"),
            FieldKind::Named,
            FieldKind::SizeUpdate(70_000),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(d.capacity, TABLE_BYTES);
        assert_eq!(list.nth(2).unwrap().2, b"v");
        assert_eq!(d.decode_block(b"\x82\0\x05ab", &mut list), Err(CutBlock));
        assert_eq!(list.fields.len(), 4);
    }

    /// Suricata 8.0.7 logs a name of the dynamic table once, whatever its values.
    #[test]
    fn names_of_the_table_are_logged_once() {
        let mut d = HpackDecoder::new(65_536);
        let mut list = HeaderList::default();
        d.decode_block(b"\x40\x01k\x011\xbe\x7e\x012\x82\x82", &mut list).unwrap();
        let all: Vec<&[u8]> = list.iter().map(|f| f.2).collect();
        assert_eq!(all, [&b"1"[..], b"1", b"2", b"GET", b"GET"]);
        let once: Vec<&[u8]> = list.iter_once().map(|f| f.2).collect();
        assert_eq!(once, [&b"1"[..], b"GET", b"GET"]);
    }

    /// An entry of a whole table, named by a byte each time.
    #[test]
    fn a_bomb_is_bounded() {
        let mut d = HpackDecoder::new(65_536);
        let mut block = b"\x40\x01n\x7f\xff\x1d".to_vec();
        block.extend([b'v'; 3966]);
        block.extend([0xbe; 90_000]);
        let mut list = HeaderList::default();
        d.decode_block(&block, &mut list).unwrap();
        assert_eq!(list.fields.len(), 90_001);
        // A record has the name once.
        assert_eq!(list.iter_once().count(), 1);
        let bound = DECODED_BYTES_MAX + DECODED_BYTES_FROM_ONE * block.len() as u64 + 4000;
        assert!((list.text_len() as u64) < bound, "{}", list.text_len());
        assert!(
            gabion_record::limits::take_reached().times_reached(&reached::DECODED_BYTES_MAX) > 0
        );
    }

    /// Fields are found by their names, whether or not the names are indexed, and those of a block that is cut are
    /// not found.
    #[test]
    fn fields_are_found_by_name() {
        let mut decoder = HpackDecoder::new(4096);
        let mut list = HeaderList::default();
        // :method GET, :path /, then host and an own name, both as literals.
        let block = b"\x82\x84\x00\x04host\x01a\x00\x01x\x01y";
        for n in 0..50 {
            let cut = [&block[..], b"\x00\x04host\x09b"].concat();
            assert_eq!(decoder.decode_block(&cut, &mut list), Err(CutBlock));
            assert!(decoder.decode_block(block, &mut list).is_ok());
            assert_eq!(list.len(), 4 * (n + 1));
            // Size updates and errors have no name.
            list.push(FieldKind::SizeUpdate(1), b"", b"");
            list.truncate((list.fields.len() - 1, list.text.len()));
            for (name, value) in [(":method", "GET"), (":path", "/"), ("host", "a"), ("x", "y")] {
                let values: Vec<&[u8]> = list.values(name.as_bytes()).collect();
                assert_eq!(values, vec![value.as_bytes(); n + 1], "{name}");
                assert_eq!(list.first(name.as_bytes()), Some(value.as_bytes()));
            }
            assert_eq!(list.first(b"cookie"), None);
            assert_eq!(list.first(b""), None);
            let before = list.len() - 4;
            assert_eq!(list.has_first_from(before, &[b"host", b"cookie"]), n == 0);
        }
        list.push(FieldKind::Named, b"cookie", b"c");
        assert!(list.has_first_from(200, &[b"host", b"cookie"]));
        assert_eq!(list.first(b"cookie"), Some(&b"c"[..]));
    }
}

//! HPACK (RFC 7541): header blocks to fields, with the dynamic table of a direction.
//!
//! A block is decoded as Suricata 8.0.7 decodes it: an index that leads nowhere is a field of its own that
//! names the error, an integer that is too large counts as 0, and a block that is cut inside a field gives
//! no field at all. What a flow may have decoded is bounded by the bytes of its frames, since one byte may stand
//! for an entry of the whole table; an entry that a message names many times is held once.

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
const TABLE_BYTES: u64 = 4096;

/// The kind of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldKind {
    /// A name with a value.
    Named,
    /// No field: the dynamic table's new size.
    SizeUpdate(u64),
    /// An index that leads nowhere.
    Error(IndexError),
}

/// Why an index leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexError {
    /// It is 0.
    Zero,
    /// Neither table has it.
    NotIndexed,
}

impl IndexError {
    /// As Suricata logs it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            IndexError::Zero => "HTTP2HeaderDecodeIndex0",
            IndexError::NotIndexed => "HTTP2HeaderDecodeNotIndexed",
        }
    }
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

/// The bit of a name in [`HeaderList::names`]: those of [`INDEXED`] and what else requests have mostly differ.
#[inline]
fn name_bit(name: &[u8]) -> u64 {
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return 1 };
    let mixed = name.len() + usize::from(*first) * 13 + usize::from(*last) * 7;
    1 << (mixed & 63)
}

/// The number of a name in [`INDEXED`].
fn indexed(name: &[u8]) -> Option<usize> {
    INDEXED.iter().position(|n| *n == name)
}

/// Fields of a message up to which one of them is looked for in all.
const FEW_FIELDS: usize = 16;

/// Bytes that a block's names and values get from the beginning, in addition to as many of its own: a request of three
/// bytes, all of the static table, has 28.
const FIRST_BYTES: usize = 32;

/// A field of a header list: which of its texts, and the next field of the same name.
#[derive(Clone, Copy, Debug)]
struct Field {
    text: u32,
    /// The next field of the same name, if the name is one of [`INDEXED`] and there are many fields; 0: there is none.
    next: u32,
}

/// What one or more fields of a list say: a byte may stand for an entry of the table, and a message may name it thousands
/// of times.
#[derive(Clone, Copy, Debug)]
struct FieldText {
    kind: FieldKind,
    /// The entry of the dynamic table from which its name is, or to which it came.
    entry: Option<NonZeroU64>,
    /// Where its name begins and ends in the list's text.
    name: [u32; 2],
    /// Where its value begins and ends there.
    value: [u32; 2],
}

impl FieldText {
    /// One without a name and a value.
    const fn bare(kind: FieldKind) -> FieldText {
        FieldText { kind, entry: None, name: [0; 2], value: [0; 2] }
    }
}

/// The first and the last field of each of [`INDEXED`], counted from 1; 0: there is none.
type Ends = [(u32, u32); INDEXED.len()];

/// The fields of a message, in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeaderList {
    /// Names and values.
    bytes: Vec<u8>,
    /// What fields say.
    texts: Vec<FieldText>,
    fields: Vec<Field>,
    /// Bytes of the names and values of all fields.
    shown: u64,
    /// Bits of the names that a field may have, see [`name_bit`]: rules ask for many names that few messages have.
    names: u64,
    /// Kept once there are more than [`FEW_FIELDS`].
    ends: Option<Box<Ends>>,
}

impl HeaderList {
    /// Adds a field.
    pub(crate) fn push(&mut self, kind: FieldKind, name: &[u8], value: &[u8]) {
        let before = self.fields.len();
        let name = self.add_bytes(name);
        let value = self.add_bytes(value);
        self.append(FieldText { kind, entry: None, name, value });
        self.index_from(before);
    }

    /// Makes the fields from this place on known by their names.
    fn index_from(&mut self, from: usize) {
        if self.fields.len() <= FEW_FIELDS {
            return;
        }
        // Until there were many none was known.
        let from = if self.ends.is_some() { from } else { 0 };
        self.ends.get_or_insert_default();
        for at in from..self.fields.len() {
            let Some((FieldKind::Named, name, _)) = self.nth(at) else { continue };
            let (Some(n), Ok(counted)) = (indexed(name), u32::try_from(at + 1)) else { continue };
            let Some(ends) = self.ends.as_mut().and_then(|ends| ends.get_mut(n)) else { return };
            let last = std::mem::replace(&mut ends.1, counted);
            match last.checked_sub(1).and_then(|last| self.fields.get_mut(last as usize)) {
                Some(last) => last.next = counted - 1,
                None => ends.0 = counted,
            }
        }
    }

    /// Adds bytes of a name or a value; where they are. What no longer fits into 4 GiB is empty: no budget allows as much.
    fn add_bytes(&mut self, bytes: &[u8]) -> [u32; 2] {
        let from = self.bytes.len();
        match (u32::try_from(from), u32::try_from(from + bytes.len())) {
            (Ok(from), Ok(to)) => {
                self.bytes.extend_from_slice(bytes);
                [from, to]
            }
            _ => [0; 2],
        }
    }

    /// Adds a field that is not known by its name yet, see [`HeaderList::index_from`]; the place of its text.
    fn append(&mut self, text: FieldText) -> u32 {
        let at = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        let [from, to] = text.name;
        self.names |= self.bytes.get(from as usize..to as usize).map_or(0, name_bit);
        self.texts.push(text);
        self.append_again(at);
        at
    }

    /// Adds a field that says what one before it says.
    fn append_again(&mut self, text: u32) {
        self.fields.push(Field { text, next: 0 });
        let len = |[from, to]: [u32; 2]| u64::from(to - from);
        self.shown += self.texts.get(text as usize).map_or(0, |t| len(t.name) + len(t.value));
    }

    /// Kinds, names and values; size updates and errors have neither.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FieldKind, &[u8], &[u8])> {
        self.fields.iter().filter_map(|f| self.text(f.text))
    }

    /// Those from this place on.
    pub(crate) fn iter_from(&self, from: usize) -> impl Iterator<Item = (FieldKind, &[u8], &[u8])> {
        self.fields.get(from..).unwrap_or_default().iter().filter_map(|f| self.text(f.text))
    }

    /// The same without those whose name an entry of the dynamic table had given before: a byte stands for each,
    /// and Suricata logs them once.
    pub(crate) fn iter_once(&self) -> impl Iterator<Item = (FieldKind, &[u8], &[u8])> {
        let mut seen = HashSet::new();
        let mut is_new = move |text: &FieldText| text.entry.is_none_or(|id| seen.insert(id));
        self.fields.iter().filter_map(move |f| {
            let text = self.texts.get(f.text as usize)?;
            if is_new(text) { self.text(f.text) } else { None }
        })
    }

    /// One of them.
    pub(crate) fn nth(&self, index: usize) -> Option<(FieldKind, &[u8], &[u8])> {
        self.text(self.fields.get(index)?.text)
    }

    /// A text: its kind, name and value.
    fn text(&self, at: u32) -> Option<(FieldKind, &[u8], &[u8])> {
        let text = self.texts.get(at as usize)?;
        let bytes = |[from, to]: [u32; 2]| self.bytes.get(from as usize..to as usize);
        Some((text.kind, bytes(text.name)?, bytes(text.value)?))
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
            Some(self.text(field.text)?.2)
        })
    }

    /// The first field of a name from this place on, looked for in all of them.
    fn find_from(&self, from: usize, name: &[u8]) -> Option<usize> {
        if self.names & name_bit(name) == 0 {
            return None;
        }
        let has_length = |text: &FieldText| (text.name[1] - text.name[0]) as usize == name.len();
        let is_it = |f: &Field| {
            self.texts.get(f.text as usize).is_some_and(has_length)
                && matches!(self.text(f.text), Some((FieldKind::Named, n, _)) if n == name)
        };
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
        usize::try_from(self.shown).unwrap_or(usize::MAX)
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        let fields = self.fields.capacity() * size_of::<Field>();
        let texts = self.texts.capacity() * size_of::<FieldText>();
        let ends = self.ends.as_ref().map_or(0, |ends| size_of_val(&**ends));
        size_of::<HeaderList>() + self.bytes.capacity() + fields + texts + ends
    }

    /// How far it is, for [`HeaderList::truncate`].
    fn extent(&self) -> Extent {
        let places = [self.fields.len(), self.texts.len(), self.bytes.len()];
        Extent { places, shown: self.shown }
    }

    fn truncate(&mut self, to: Extent) {
        let [fields, texts, bytes] = to.places;
        self.fields.truncate(fields);
        self.texts.truncate(texts);
        self.bytes.truncate(bytes);
        self.shown = to.shown;
    }
}

/// How many fields, texts and bytes a list has, and how many bytes all fields say.
#[derive(Clone, Copy, Debug)]
struct Extent {
    places: [usize; 3],
    shown: u64,
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
    /// How many indices led nowhere.
    pub(crate) bad_indices: usize,
    /// Entries came to the table that are not kept, see [`Overflow`].
    pub(crate) has_overflowed: bool,
}

/// State of a table whose sender may use more than is kept of one. The first entries stay then, as in Suricata 8.0.7:
/// where those after them are is no longer known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    /// The sender may use no more than is kept.
    Impossible,
    /// All entries were kept so far.
    Possible,
    /// One was not kept, and no other is before the sender announces another size.
    Happened,
    /// The same, and a block has its event.
    Reported,
}

/// An entry of the dynamic table.
#[derive(Debug)]
struct Entry {
    /// Number of its name: that of the entry which it is from.
    id: NonZeroU64,
    name: Vec<u8>,
    value: Vec<u8>,
    /// Where the list of the block at hand has it.
    put: Put,
}

impl Entry {
    /// What it counts in the table (RFC 7541 4.1).
    fn table_bytes(&self) -> usize {
        self.name.len() + self.value.len() + ENTRY_BYTES
    }
}

/// The block for whose list an entry was put down last, and the place of its text there.
#[derive(Clone, Copy, Debug, Default)]
struct Put {
    block: u64,
    text: u32,
}

impl Put {
    /// The place of the text, if it is in the list of this block.
    fn of_block(self, block: u64) -> Option<u32> {
        (self.block == block).then_some(self.text)
    }
}

/// The slot of an index that leads nowhere.
const NOT_INDEXED: usize = 1 + STATIC.len();

/// The first slot of sizes of the table, and how many of them take a single byte.
const SIZES: usize = NOT_INDEXED + 1;
const SHORT_SIZES: usize = 31;

/// All slots.
const SLOTS: usize = SIZES + SHORT_SIZES;

/// The decoder of a direction.
#[derive(Debug)]
pub(crate) struct HpackDecoder {
    /// The newest first.
    entries: VecDeque<Entry>,
    /// Number of the next name that comes to the table.
    next_id: NonZeroU64,
    /// Bytes of the entries here, by the rule of RFC 7541 4.1.
    held: usize,
    /// The same of all entries that the sender's table is taken to have, kept or not.
    counted: u64,
    /// Bytes that the sender's table may have.
    capacity: u64,
    /// Bytes of entries that are kept.
    kept_max: u64,
    overflow: Overflow,
    /// Blocks so far.
    blocks: u64,
    /// The same as [`Entry::put`] for what else may take a single byte, once a block has many fields. The slots are the
    /// indices of the static table, with 0 for an index of 0, and then the numbers below.
    fixed_puts: Vec<Put>,
    /// Bytes that may have been made of indices, and that have been.
    allowed: u64,
    made: u64,
}

impl HpackDecoder {
    /// A decoder that keeps this many bytes of a table at most.
    pub(crate) fn new(kept_max: u64) -> HpackDecoder {
        HpackDecoder {
            entries: VecDeque::new(),
            next_id: NonZeroU64::MIN,
            held: 0,
            counted: 0,
            capacity: TABLE_BYTES,
            kept_max,
            overflow: Overflow::Impossible,
            blocks: 0,
            fixed_puts: Vec::new(),
            allowed: DECODED_BYTES_MAX,
            made: 0,
        }
    }

    /// Says how many bytes of frames the connection has had so far: more may be made of indices.
    pub(crate) fn allow_for(&mut self, frame_bytes: u64) {
        let earned = frame_bytes.saturating_mul(DECODED_BYTES_FROM_ONE);
        self.allowed = earned.saturating_add(DECODED_BYTES_MAX);
    }

    /// Bytes held.
    pub(crate) fn bytes_held(&self) -> usize {
        self.held + self.fixed_puts.capacity() * size_of::<Put>()
    }

    /// Decodes a whole block and appends its fields.
    pub(crate) fn decode_block(
        &mut self,
        block: &[u8],
        list: &mut HeaderList,
    ) -> Result<BlockFaults, CutBlock> {
        self.blocks += 1;
        list.bytes.reserve(FIRST_BYTES + block.len().min(FIRST_BYTES));
        let before = list.extent();
        // Fields of a block that is cut are dropped again, so they are indexed once all of it was read.
        let mut faults = BlockFaults::default();
        let mut rest = block;
        while !rest.is_empty() {
            if self.decode_field(&mut rest, list, &mut faults).is_none() {
                list.truncate(before);
                return Err(CutBlock);
            }
        }
        list.index_from(before.places[0]);
        if self.overflow == Overflow::Happened {
            self.overflow = Overflow::Reported;
            faults.has_overflowed = true;
        }
        Ok(faults)
    }

    /// Decodes a block for what it adds to the table alone: no list is made.
    pub(crate) fn pass_over(&mut self, block: &[u8]) {
        let made = self.made;
        let mut rest = block;
        // What is wrong with it concerns no transaction, and a block that is cut adds what came before the cut.
        while !rest.is_empty() && self.pass_over_field(&mut rest).is_some() {}
        self.made = made;
    }

    /// The same as [`HpackDecoder::decode_field`], without a list.
    fn pass_over_field(&mut self, rest: &mut &[u8]) -> Option<()> {
        let first = *rest.first()?;
        if first & 0x80 != 0 {
            let index = decode_integer(rest, 7)?;
            if let Some(len) = self.entry(index).map(|(_, name, value)| name.len() + value.len()) {
                self.has_room(len);
            }
            return Some(());
        }
        if first & 0xe0 == 0x20 {
            let size = decode_integer(rest, 5)?;
            self.resize(size);
            return Some(());
        }
        if first & 0xc0 == 0x40 {
            let (id, name, value) = self.decode_literal(rest, true)?;
            if let Some(id) = id {
                self.keep(Entry { id, name, value, put: Put::default() });
            }
            return Some(());
        }
        let index = decode_integer(rest, 4)?;
        if index == 0 {
            take_string(rest)?;
        } else if let Some(len) = self.entry(index).map(|(_, name, _)| name.len()) {
            self.has_room(len);
        }
        take_string(rest)?;
        Some(())
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
            if !self.put_entry(index, list) {
                faults.bad_indices += 1;
                let (slot, error) = match index {
                    0 => (0, IndexError::Zero),
                    _ => (NOT_INDEXED, IndexError::NotIndexed),
                };
                self.put_bare(Some(slot), FieldKind::Error(error), list);
            }
            return Some(());
        }
        if first & 0xe0 == 0x20 {
            let size = decode_integer(rest, 5)?;
            let slot = usize::try_from(size).ok().filter(|size| *size < SHORT_SIZES);
            self.put_bare(slot.map(|n| SIZES + n), FieldKind::SizeUpdate(size), list);
            self.resize(size);
            return Some(());
        }
        let is_kept = first & 0xc0 == 0x40;
        let (origin, name, value) = self.decode_literal(rest, is_kept)?;
        let places = [list.add_bytes(&name), list.add_bytes(&value)];
        let text =
            FieldText { kind: FieldKind::Named, entry: origin, name: places[0], value: places[1] };
        let text = list.append(text);
        if let Some(id) = origin.filter(|_| is_kept) {
            self.keep(Entry { id, name, value, put: Put { block: self.blocks, text } });
        }
        Some(())
    }

    /// Decodes a field that is not in a table as a whole: the entry that its name is from or that it becomes, its name and
    /// value.
    fn decode_literal(
        &mut self,
        rest: &mut &[u8],
        is_kept: bool,
    ) -> Option<(Option<NonZeroU64>, Vec<u8>, Vec<u8>)> {
        let index = decode_integer(rest, if is_kept { 6 } else { 4 })?;
        let mut origin = None;
        let name = match index {
            0 => decode_string(rest)?,
            // An index that leads nowhere is a field without name, and no event (as Suricata has it).
            _ => match self.entry(index).map(|(id, name, _)| (id, name.to_vec())) {
                Some((id, name)) if self.has_room(name.len()) => {
                    origin = id;
                    name
                }
                _ => Vec::new(),
            },
        };
        let value = decode_string(rest)?;
        if is_kept && origin.is_none() {
            origin = Some(self.next_id);
            self.next_id = self.next_id.saturating_add(1);
        }
        Some((origin, name, value))
    }

    /// Takes a new size of the table from the sender.
    fn resize(&mut self, size: u64) {
        let (before, overflow) = (self.capacity, self.overflow);
        self.set_capacity(size);
        // A smaller one that is still too large begins nothing again (as in Suricata 8.0.7).
        if size < before && size > self.kept_max && overflow != Overflow::Impossible {
            self.overflow = overflow;
        }
        self.evict();
    }

    /// Takes the size of the table that the receiver allows the sender. Suricata 8.0.7 takes it for the size that the sender
    /// uses from its next entry on; by RFC 7541 4.2 the sender says so first.
    pub(crate) fn set_capacity(&mut self, size: u64) {
        self.capacity = size;
        self.overflow =
            if size > self.kept_max { Overflow::Possible } else { Overflow::Impossible };
    }

    /// Adds the field that an index stands for, unless more was made of indices than there may be. False: it leads nowhere.
    fn put_entry(&mut self, index: u64, list: &mut HeaderList) -> bool {
        let Some((_, name, value)) = self.entry(index) else { return false };
        if !self.has_room(name.len() + value.len()) {
            return true;
        }
        let block = self.blocks;
        if let Some(text) = self.put_of(index, list).and_then(|put| put.of_block(block)) {
            list.append_again(text);
            return true;
        }
        let Some((entry, name, value)) = self.entry(index) else { return false };
        let (name, value) = (list.add_bytes(name), list.add_bytes(value));
        let text = list.append(FieldText { kind: FieldKind::Named, entry, name, value });
        if let Some(put) = self.put_of(index, list) {
            *put = Put { block, text };
        }
        true
    }

    /// Adds a field that has neither name nor value; its slot, if it is one that may take a single byte.
    fn put_bare(&mut self, slot: Option<usize>, kind: FieldKind, list: &mut HeaderList) {
        let block = self.blocks;
        match slot.and_then(|slot| self.put_of_slot(slot, list)) {
            Some(put) => match put.of_block(block) {
                Some(text) => list.append_again(text),
                None => *put = Put { block, text: list.append(FieldText::bare(kind)) },
            },
            None => {
                list.append(FieldText::bare(kind));
            }
        }
    }

    /// Where it is noted where a list has an entry.
    fn put_of(&mut self, index: u64, list: &HeaderList) -> Option<&mut Put> {
        let at = usize::try_from(index).ok()?;
        match at.checked_sub(1 + STATIC.len()) {
            Some(at) => self.entries.get_mut(at).map(|entry| &mut entry.put),
            None => self.put_of_slot(at, list),
        }
    }

    /// The same for what is not in the dynamic table: only while blocks have many fields.
    fn put_of_slot(&mut self, slot: usize, list: &HeaderList) -> Option<&mut Put> {
        if list.len() < FEW_FIELDS {
            return None;
        }
        if self.fixed_puts.is_empty() {
            self.fixed_puts = vec![Put::default(); SLOTS];
        }
        self.fixed_puts.get_mut(slot)
    }

    /// Whether a field whose index gives this many bytes may be made yet. Each counts 32 bytes more (RFC 9113 6.5.2).
    fn has_room(&mut self, len: usize) -> bool {
        let made = self.made.saturating_add((len + ENTRY_BYTES) as u64);
        if made > self.allowed {
            reached::DECODED_BYTES_MAX.count();
            return false;
        }
        self.made = made;
        true
    }

    fn entry(&self, index: u64) -> Option<(Option<NonZeroU64>, &[u8], &[u8])> {
        let at = usize::try_from(index).ok()?.checked_sub(1)?;
        if let Some((name, value)) = STATIC.get(at) {
            return Some((None, name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(at - STATIC.len())?;
        Some((Some(entry.id), &entry.name, &entry.value))
    }

    /// Adds an entry to the table; older ones make place for it.
    fn keep(&mut self, entry: Entry) {
        let bytes = entry.table_bytes();
        self.counted = self.counted.saturating_add(bytes as u64);
        let is_kept = match self.overflow {
            Overflow::Impossible => true,
            Overflow::Possible => self.counted <= self.kept_max,
            Overflow::Happened | Overflow::Reported => false,
        };
        if is_kept {
            self.held += bytes;
            self.entries.push_front(entry);
        } else {
            reached::TABLE_BYTES_MAX.count();
            if self.overflow == Overflow::Possible {
                self.overflow = Overflow::Happened;
            }
        }
        self.evict();
    }

    fn evict(&mut self) {
        while self.counted > self.capacity {
            let Some(entry) = self.entries.pop_back() else { break };
            let bytes = entry.table_bytes();
            self.held -= bytes;
            self.counted = self.counted.saturating_sub(bytes as u64);
        }
    }
}

/// Takes the bytes of a string as they were sent, and whether they are Huffman-coded (RFC 7541 5.2). `None`: it is cut.
fn take_string<'a>(rest: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    let is_packed = rest.first()? & 0x80 != 0;
    let len = usize::try_from(decode_integer(rest, 7)?).ok()?;
    let (bytes, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some((is_packed, bytes))
}

fn decode_string(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let (is_packed, bytes) = take_string(rest)?;
    if !is_packed {
        return Some(bytes.to_vec());
    }
    let mut text = Vec::new();
    decode_huffman(bytes, &mut text);
    Some(text)
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
mod tests;

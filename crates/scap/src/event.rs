//! An event as it is in its file or buffer, without a copy: head, type and parameters as bytes.

use crate::limits;
use crate::live::LiveValues;
use crate::parameter::Param;
use crate::table::{EventType, types};

/// One event.
///
/// Values are those of Falco's libs, schema 4.5.1. The parameters are borrowed; a parameter without bytes is *unknown*,
/// never 0.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Its number as Falco counts (`evt.num`), from 1. Numbers have gaps: Falco counts enter events that are merged
    /// here. An event that was not merged has the same number as in `raw_number`.
    pub number: u64,
    /// Its number among all events of the input, from 1, enter events included.
    pub raw_number: u64,
    /// Nanoseconds since 1970.
    pub ts_ns: u64,
    /// The thread; -1 if there is none.
    pub tid: i64,
    /// The processor.
    pub cpu: u16,
    /// Flags of its block in the file; bit 1 means that the user asked for it.
    pub flags: u32,
    /// Its type and parameters.
    pub values: Values<'a>,
    /// What the enter event of the same call said, where Falco's engine would see the enter event of its own: the
    /// calls open, creat, openat, openat2, connect, execve, execveat.
    pub enter: Option<Values<'a>>,
    /// What a live source knew of the call besides.
    pub live: LiveValues<'a>,
}

impl<'a> Event<'a> {
    /// Its row in the event table.
    #[inline]
    #[must_use]
    pub const fn kind(&self) -> &'static EventType {
        self.values.kind
    }

    /// The parameter with this place; none if the event has no such parameter.
    #[inline]
    #[must_use]
    pub fn param(&self, place: usize) -> Option<Param<'a>> {
        self.values.param(place)
    }

    /// The bytes of the parameter with this place; none if the event has no such parameter.
    #[inline]
    #[must_use]
    pub fn raw(&self, place: usize) -> Option<&'a [u8]> {
        self.values.raw(place)
    }

    /// The parameter with this name.
    #[must_use]
    pub fn param_named(&self, name: &str) -> Option<Param<'a>> {
        self.values.param(self.kind().parameter(name)?)
    }
}

/// The type of an event and its parameters.
#[derive(Clone, Copy)]
pub struct Values<'a> {
    kind: &'static EventType,
    /// The lengths of all parameters, 2 or 4 bytes each as the type says.
    lengths: &'a [u8],
    /// The parameters one after the other.
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    /// Values of a type. All lengths must end inside of `bytes`; what does not is unknown.
    #[must_use]
    pub const fn new(kind: &'static EventType, lengths: &'a [u8], bytes: &'a [u8]) -> Values<'a> {
        Values { kind, lengths, bytes }
    }

    /// The row of the event table.
    #[inline]
    #[must_use]
    pub const fn kind(&self) -> &'static EventType {
        self.kind
    }

    /// The number of parameters, which may differ from that of the table in events of old files.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.lengths.len() / self.width()
    }

    /// Whether there are no parameters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The lengths as they are in the file.
    pub(crate) const fn lengths(&self) -> &'a [u8] {
        self.lengths
    }

    /// The parameters as they are in the file.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether the event does not fit into a block.
    pub(crate) const fn is_too_long(&self) -> bool {
        !self.kind.is_large()
            && self.lengths.len() + self.bytes.len() + 26 > limits::CONVERTED_LEN_MAX
    }

    const fn width(&self) -> usize {
        if self.kind.is_large() { 4 } else { 2 }
    }

    /// The bytes of each parameter.
    #[inline]
    #[must_use]
    pub fn iter(&self) -> Raws<'a> {
        Raws { lengths: self.lengths, bytes: self.bytes, is_large: self.kind.is_large() }
    }

    /// The bytes of the parameter with this place; none if there is no such parameter. No bytes mean that the value
    /// is unknown.
    #[inline]
    #[must_use]
    pub fn raw(&self, place: usize) -> Option<&'a [u8]> {
        if self.kind.is_large() {
            return self.iter().nth(place);
        }
        let (before, rest) = self.lengths.split_at_checked(place.checked_mul(2)?)?;
        let len = usize::from(u16::from_le_bytes(*rest.first_chunk()?));
        let start = sum_of(before).min(self.bytes.len());
        let end = start.saturating_add(len).min(self.bytes.len());
        self.bytes.get(start..end)
    }

    /// The parameter with this place, read as the table says. Further parameters than the table has are bytes.
    #[inline]
    #[must_use]
    pub fn param(&self, place: usize) -> Option<Param<'a>> {
        let raw = self.raw(place)?;
        Some(match self.kind.parameters.get(place) {
            Some(parameter) => Param::decode(parameter, raw),
            None => Param::Bytes(raw),
        })
    }
}

/// The sum of lengths of 16 bits.
#[inline]
pub(crate) fn sum_of(lengths: &[u8]) -> usize {
    let each = lengths.chunks_exact(2);
    each.map(|len| len.first_chunk().map_or(0, |b| usize::from(u16::from_le_bytes(*b)))).sum()
}

impl<'a> IntoIterator for Values<'a> {
    type Item = &'a [u8];
    type IntoIter = Raws<'a>;

    fn into_iter(self) -> Raws<'a> {
        self.iter()
    }
}

impl std::fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.kind.constant)?;
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The bytes of each parameter of an event.
#[derive(Clone, Debug)]
pub struct Raws<'a> {
    lengths: &'a [u8],
    bytes: &'a [u8],
    is_large: bool,
}

impl<'a> Iterator for Raws<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let len = if self.is_large {
            let (len, rest) = self.lengths.split_first_chunk::<4>()?;
            self.lengths = rest;
            u32::from_le_bytes(*len) as usize
        } else {
            let (len, rest) = self.lengths.split_first_chunk::<2>()?;
            self.lengths = rest;
            usize::from(u16::from_le_bytes(*len))
        };
        let (value, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        Some(value)
    }
}

/// Whether Falco's converter lets enter events of this type through to the engine, which keeps their values for the
/// exit event. Here they never leave the merger.
#[must_use]
pub const fn is_enter_of_falco(kind: u16) -> bool {
    matches!(
        kind,
        types::OPEN_E
            | types::CREAT_E
            | types::OPENAT_2_E
            | types::OPENAT2_E
            | types::CONNECT_E
            | types::EXECVE_19_E
            | types::EXECVEAT_E
    )
}

//! State that encodes, decodes and merges: what profiles are made of.
//!
//! Every type of a detector's state says how two of its values become one (counts add, first times
//! take the least, sets unite), so that a profile can be put together from parts wherever it was
//! kept. The encoding is little-endian, without names; a version comes before a whole profile.

use gabion_record::Ip;
use gabion_record::logs::{Proto, TimeNs};
use gabion_record::saved::Saved;

/// Reads an encoding; ends in `None` rather than in wrong values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    /// The next bytes.
    pub(crate) fn take_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    /// A count of things that each take at least `least` bytes: a wrong one is found before
    /// memory is asked for.
    pub(crate) fn count(&mut self, least: usize) -> Option<usize> {
        let n = u32::decode(self)? as usize;
        (n.checked_mul(least.max(1))? <= self.0.len()).then_some(n)
    }
}

/// A part of a profile.
pub(crate) trait State: Default + Sized {
    /// Appends its encoding.
    fn encode(&self, out: &mut Vec<u8>);
    /// Reads it back.
    fn decode(from: &mut Decoder<'_>) -> Option<Self>;
    /// Takes in what another part saw.
    fn merge(&mut self, other: Self);
    /// Bytes it holds outside itself.
    fn heap(&self) -> usize {
        0
    }
    /// Prefetches: reads what an update reads first, so that it is in the cache when its turn comes. The result only
    /// keeps the reads from being left out.
    #[inline]
    fn prefetch(&self) -> usize {
        0
    }
}

macro_rules! numbers {
    ($($t:ty),+) => {$(
        /// A count: merging adds.
        impl State for $t {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn decode(from: &mut Decoder<'_>) -> Option<Self> {
                Some(<$t>::from_le_bytes(from.take_bytes(size_of::<$t>())?.try_into().ok()?))
            }
            fn merge(&mut self, other: Self) {
                *self = self.saturating_add(other);
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64, i64);

/// Something that is or is not: merging is or.
impl State for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        match u8::decode(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    fn merge(&mut self, other: Self) {
        *self |= other;
    }
}

/// No state.
impl State for () {
    fn encode(&self, _: &mut Vec<u8>) {}
    fn decode(_: &mut Decoder<'_>) -> Option<Self> {
        Some(())
    }
    fn merge(&mut self, (): Self) {}
}

/// The largest value seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Most<T>(pub T);

impl<T: State + Ord> State for Most<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        T::decode(from).map(Most)
    }
    fn merge(&mut self, other: Self) {
        if other.0 > self.0 {
            self.0 = other.0;
        }
    }
}

/// The first moment something was seen; none yet at the end of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct First(pub TimeNs);

impl Default for First {
    fn default() -> First {
        First(TimeNs(i64::MAX))
    }
}

impl First {
    /// Takes a moment in.
    #[inline]
    pub(crate) fn see(&mut self, ts: TimeNs) {
        self.0 = self.0.min(ts);
    }
}

impl State for First {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.0.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        i64::decode(from).map(|ns| First(TimeNs(ns)))
    }
    fn merge(&mut self, other: Self) {
        self.see(other.0);
    }
}

/// The last moment something was seen.
impl State for TimeNs {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        i64::decode(from).map(TimeNs)
    }
    fn merge(&mut self, other: Self) {
        *self = (*self).max(other);
    }
}

/// An address that names what its state is about; merging keeps it.
impl State for Ip {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some(Ip::from_bytes(from.take_bytes(16)?.try_into().ok()?))
    }
    fn merge(&mut self, _: Self) {}
}

/// A protocol that names what its state is about.
impl State for Proto {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Proto::from_kept(u8::decode(from)?)
    }
    fn merge(&mut self, _: Self) {}
}

/// A text; merging keeps what was there first.
impl State for String {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).encode(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let len = from.count(1)?;
        String::from_utf8(from.take_bytes(len)?.to_vec()).ok()
    }
    fn merge(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        }
    }
    fn heap(&self) -> usize {
        self.capacity()
    }
}

impl<T: State> State for Option<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.is_some().encode(out);
        if let Some(value) = self {
            value.encode(out);
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        if bool::decode(from)? { T::decode(from).map(Some) } else { Some(None) }
    }
    fn merge(&mut self, other: Self) {
        match (self, other) {
            (_, None) => {}
            (Some(mine), Some(theirs)) => mine.merge(theirs),
            (mine @ None, theirs) => *mine = theirs,
        }
    }
    fn heap(&self) -> usize {
        self.as_ref().map_or(0, State::heap)
    }
}

impl<A: State, B: State> State for (A, B) {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
        self.1.encode(out);
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        Some((A::decode(from)?, B::decode(from)?))
    }
    fn merge(&mut self, other: Self) {
        self.0.merge(other.0);
        self.1.merge(other.1);
    }
    fn heap(&self) -> usize {
        self.0.heap() + self.1.heap()
    }
}

/// A list; merging appends.
impl<T: State> State for Vec<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).encode(out);
        self.iter().for_each(|item| item.encode(out));
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let count = from.count(1)?;
        (0..count).map(|_| T::decode(from)).collect()
    }
    fn merge(&mut self, other: Self) {
        self.extend(other);
    }
    fn heap(&self) -> usize {
        self.capacity() * size_of::<T>() + self.iter().map(State::heap).sum::<usize>()
    }
}

/// What a [`Slot`] keeps its state in: a box, or nothing at all where a detector has no state, as most have of
/// one of the two sorts.
pub(crate) trait Stored: Sized {
    /// The place, empty at first.
    type Place: Default + std::fmt::Debug;
    /// A place with a state in it.
    fn put(self) -> Self::Place;
    /// The state, made now if there is none.
    fn make(place: &mut Self::Place) -> &mut Self;
    /// The state, if there is any.
    fn get(place: &mut Self::Place) -> Option<&mut Self>;
    /// The state, if there is any, to look at.
    fn peek(place: &Self::Place) -> Option<&Self>;
    /// Takes the state out.
    fn from_place(place: Self::Place) -> Option<Self>;
}

/// State in a box of its own.
pub(crate) trait Boxed: Default + std::fmt::Debug {}

impl<T: Boxed> Stored for T {
    type Place = Option<Box<T>>;
    fn put(self) -> Self::Place {
        Some(Box::new(self))
    }
    #[inline]
    fn make(place: &mut Self::Place) -> &mut Self {
        place.get_or_insert_default()
    }
    #[inline]
    fn get(place: &mut Self::Place) -> Option<&mut Self> {
        place.as_deref_mut()
    }
    #[inline]
    fn peek(place: &Self::Place) -> Option<&Self> {
        place.as_deref()
    }
    fn from_place(place: Self::Place) -> Option<Self> {
        place.map(|state| *state)
    }
}

impl Stored for () {
    type Place = ();
    fn put(self) {}
    #[inline]
    fn make(place: &mut ()) -> &mut () {
        place
    }
    #[inline]
    fn get((): &mut ()) -> Option<&mut ()> {
        None
    }
    #[inline]
    fn peek((): &()) -> Option<&()> {
        None
    }
    fn from_place((): ()) -> Option<()> {
        None
    }
}

/// State that most profiles never have: nothing until it is first asked for.
#[derive(Debug)]
pub(crate) struct Slot<T: Stored>(T::Place);

impl<T: Stored> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot(T::Place::default())
    }
}

impl<T: Stored> Slot<T> {
    /// The state, made now if there is none.
    #[inline]
    pub(crate) fn make(&mut self) -> &mut T {
        T::make(&mut self.0)
    }

    /// The state, if there is any.
    #[inline]
    pub(crate) fn get(&mut self) -> Option<&mut T> {
        T::get(&mut self.0)
    }

    /// The state, if there is any, to look at.
    #[inline]
    pub(crate) fn peek(&self) -> Option<&T> {
        T::peek(&self.0)
    }

    /// Prefetches where the state is: see [`State::prefetch`].
    #[inline]
    pub(crate) fn prefetch_place(&self) -> usize {
        self.peek().map_or(0, |state| std::ptr::from_ref(state).addr())
    }
}

impl<T: State + Stored> State for Slot<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.peek().is_some().encode(out);
        if let Some(state) = self.peek() {
            state.encode(out);
        }
    }
    fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        if !bool::decode(from)? {
            return Some(Slot::default());
        }
        T::decode(from).map(|state| Slot(state.put()))
    }
    fn merge(&mut self, other: Self) {
        let Some(theirs) = T::from_place(other.0) else { return };
        match self.get() {
            Some(mine) => mine.merge(theirs),
            None => self.0 = theirs.put(),
        }
    }
    fn heap(&self) -> usize {
        self.peek().map_or(0, |state| size_of::<T>() + state.heap())
    }
    #[inline]
    fn prefetch(&self) -> usize {
        self.peek().map_or(0, State::prefetch)
    }
}

/// Reads a state out of a checkpoint.
pub(crate) fn load_state<T: State>(from: &mut &[u8]) -> Option<T> {
    let mut decoder = Decoder(from);
    let state = T::decode(&mut decoder)?;
    *from = decoder.0;
    Some(state)
}

macro_rules! saved_states {
    ($($t:ty),+) => {$(
        impl Saved for $t {
            fn save(&self, out: &mut Vec<u8>) {
                State::encode(self, out);
            }
            fn load(from: &mut &[u8]) -> Option<Self> {
                load_state(from)
            }
        }
    )+};
}

saved_states!(crate::sketch::Hosts);

impl<K: crate::sketch::keyed::Key, V: State, const MAX: usize> Saved
    for crate::sketch::Keyed<K, V, MAX>
{
    fn save(&self, out: &mut Vec<u8>) {
        State::encode(self, out);
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        load_state(from)
    }
}

/// A struct whose fields are states: it encodes, decodes and merges field by field.
macro_rules! state {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$field_doc:meta])* $field:ident: $t:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(crate) struct $name { $($(#[$field_doc])* $field: $t,)* }

        impl $crate::state::Boxed for $name {}

        impl $crate::state::State for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                let _ = &out;
                $($crate::state::State::encode(&self.$field, out);)*
            }
            fn decode(from: &mut $crate::state::Decoder<'_>) -> Option<Self> {
                let _ = &from;
                Some($name { $($field: $crate::state::State::decode(from)?,)* })
            }
            fn merge(&mut self, other: Self) {
                $($crate::state::State::merge(&mut self.$field, other.$field);)*
            }
            fn heap(&self) -> usize {
                0 $(+ $crate::state::State::heap(&self.$field))*
            }
            #[inline]
            fn prefetch(&self) -> usize {
                0 $(^ $crate::state::State::prefetch(&self.$field))*
            }
        }
    };
}
pub(crate) use state;

//! Numbers and texts of an event's parameters. A parameter without bytes is unknown and never 0.

use gabion_scap::{Event, Values};

/// The parameters of an event. They are looked for when they are asked for: most events change nothing, and most of the
/// others ask for two or three of the first ones.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a>(Values<'a>);

impl<'a> Raw<'a> {
    /// The parameters of an event.
    #[inline]
    pub(crate) fn from_event(event: &Event<'a>) -> Raw<'a> {
        Raw::of_values(&event.values)
    }

    /// The parameters among values.
    #[inline]
    pub(crate) fn of_values(values: &Values<'a>) -> Raw<'a> {
        Raw(*values)
    }

    /// The bytes of a parameter; `None` if it is unknown.
    #[inline]
    pub(crate) fn raw(&self, place: usize) -> Option<&'a [u8]> {
        self.0.raw(place).filter(|bytes| !bytes.is_empty())
    }

    /// A signed number of any width.
    #[inline]
    pub(crate) fn number(&self, place: usize) -> Option<i64> {
        self.raw(place).and_then(number)
    }

    /// A number of 32 bits without sign.
    #[inline]
    pub(crate) fn u32(&self, place: usize) -> Option<u32> {
        self.raw(place)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// A number of 64 bits without sign.
    #[inline]
    pub(crate) fn u64(&self, place: usize) -> Option<u64> {
        self.raw(place)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
    }

    /// A text without its zero byte.
    #[inline]
    pub(crate) fn text(&self, place: usize) -> Option<&'a [u8]> {
        self.raw(place).map(text)
    }
}

/// The signed number of 1, 2, 4 or 8 bytes.
#[inline]
pub(crate) fn number(raw: &[u8]) -> Option<i64> {
    Some(match raw.len() {
        8 => i64::from_le_bytes(*raw.first_chunk()?),
        4 => i64::from(i32::from_le_bytes(*raw.first_chunk()?)),
        2 => i64::from(i16::from_le_bytes(*raw.first_chunk()?)),
        1 => i64::from(*raw.first()? as i8),
        _ => return None,
    })
}

/// The bytes before the first zero byte.
#[inline]
pub(crate) fn text(raw: &[u8]) -> &[u8] {
    raw.split(|byte| *byte == 0).next().unwrap_or_default()
}

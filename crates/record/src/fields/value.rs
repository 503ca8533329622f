//! Values of fields, their arguments, and the reasons why a value is absent.

use crate::Ip;

/// What a rule writes in brackets after a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument<'a> {
    /// Nothing, as in `proc.name`.
    None,
    /// A number, as in `proc.aname[2]`.
    Index(u32),
    /// A name, as in `evt.arg.flags`, `evt.arg[flags]` or `proc.env[HOME]`.
    Key(&'a str),
}

/// Why an event has no value for a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Missing {
    /// The sensor never saw what the field would show: a process that started before it, a parameter that the kernel could
    /// not read.
    NeverSeen,
    /// The sensor had the value and removed it to stay within its budget.
    Shed,
    /// A look-up (of a user, a container, an address) returned nothing.
    LookupFailed,
    /// The field does not apply to this event: `fd.name` of an event without a file descriptor.
    NotApplicable,
}

impl Missing {
    /// All reasons.
    pub const ALL: [Missing; 4] =
        [Missing::NeverSeen, Missing::Shed, Missing::LookupFailed, Missing::NotApplicable];

    /// The reason as `evt.missing` prints it.
    pub const fn name(self) -> &'static str {
        match self {
            Missing::NeverSeen => "never-seen",
            Missing::Shed => "shed",
            Missing::LookupFailed => "look-up-failed",
            Missing::NotApplicable => "not-applicable",
        }
    }
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text as the kernel gave it, without a trailing NUL. It need not be UTF-8.
    Text(&'a [u8]),
    /// A buffer of data, such as `evt.buffer`.
    Bytes(&'a [u8]),
    /// A number without sign.
    Unsigned(u64),
    /// A number with sign.
    Signed(i64),
    /// A share or percentage, such as `thread.cpu`.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// An address.
    Ip(Ip),
    /// The two ends of a connection, either of which a rule may name: `fd.ip`, `fd.net`.
    EitherIp(Ip, Ip),
    /// A port in host order.
    Port(u16),
    /// The ports of both ends, either of which a rule may name: `fd.port`, `fd.proto`.
    EitherPort(u16, u16),
    /// A point in time in nanoseconds since 1970.
    Time(u64),
    /// A span of time in nanoseconds.
    Duration(u64),
    /// Several texts: the names of all ancestors, the paths of a list of file descriptors.
    List(List<'a>),
}

/// Several texts, stored one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct List<'a> {
    bytes: &'a [u8],
    ends: &'a [u32],
}

impl<'a> List<'a> {
    /// The number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The texts in order.
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = self.bytes;
        let mut start = 0usize;
        self.ends.iter().map(move |&end| {
            let text = bytes.get(start..end as usize).unwrap_or_default();
            start = end as usize;
            text
        })
    }
}

/// Space in which an engine puts a value together. It keeps its capacity from event to event.
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Scratch {
    /// Empty space.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// Removes what the last field left and returns the buffer for a text.
    pub fn text(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        self.ends.clear();
        &mut self.bytes
    }

    /// What was put together in the buffer.
    pub fn as_text(&self) -> Value<'_> {
        Value::Text(&self.bytes)
    }

    /// Adds a text to the list that is put together; call [`Scratch::text`] before the first.
    pub fn push(&mut self, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.end_item();
    }

    /// Ends an item of the list whose bytes were written to the buffer.
    pub fn end_item(&mut self) {
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    /// The buffer as it is, for another item of a list.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// The list that was put together.
    pub fn as_list(&self) -> Value<'_> {
        Value::List(List { bytes: &self.bytes, ends: &self.ends })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_returns_its_texts_in_order() {
        let mut scratch = Scratch::new();
        scratch.text();
        scratch.push(b"bash");
        scratch.push(b"");
        scratch.buffer().extend_from_slice(b"systemd");
        scratch.end_item();
        let Value::List(list) = scratch.as_list() else { panic!("a list") };
        assert_eq!(list.iter().collect::<Vec<_>>(), [&b"bash"[..], b"", b"systemd"]);
        assert_eq!(list.len(), 3);
        scratch.text();
        let Value::List(list) = scratch.as_list() else { panic!("a list") };
        assert!(list.is_empty());
    }
}

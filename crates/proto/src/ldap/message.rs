//! Reads LDAP messages (RFC 4511 4.1.1 and appendix B). What a message holds is kept as places in its own bytes,
//! so that a message takes a few times its bytes at most, whatever it says.

use super::limits::reached;
use crate::ber::{Element, Header, Reader, Start, tag};

/// Why a message can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It ends before an element that it must have.
    Missing,
    /// An element is none of those that may be there.
    Wrong,
}

type Found<T> = Result<T, Fault>;

/// A place in the bytes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    len: u32,
}

/// An attribute with its values (RFC 4511 4.1.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its type.
    pub name: Span,
    /// Its values.
    pub values: Box<[Span]>,
}

/// A change of an entry (RFC 4511 4.6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// 0 adds, 1 deletes, 2 replaces, 3 increments.
    pub operation: u32,
    /// The attribute.
    pub attribute: Attribute,
}

/// The result of an operation (RFC 4511 4.1.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LdapResult {
    /// Its code.
    pub code: u32,
    /// The name that matched.
    pub matched_dn: Span,
    /// A text for people.
    pub message: Span,
}

/// What a message asks or answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Authentication: version, name, and the mechanism of SASL with its credentials.
    Bind {
        /// Version of the protocol.
        version: u32,
        /// Who binds.
        name: Span,
        /// Mechanism and credentials.
        sasl: Option<(Span, Option<Span>)>,
    },
    /// The end of the session.
    Unbind,
    /// A search.
    Search(Box<Search>),
    /// Changes of an entry.
    Modify {
        /// The entry.
        object: Span,
        /// What is changed.
        changes: Box<[Change]>,
    },
    /// A new entry.
    Add {
        /// Its name.
        entry: Span,
        /// Its attributes.
        attributes: Box<[Attribute]>,
    },
    /// The deletion of an entry.
    Delete(Span),
    /// A new name of an entry.
    ModifyDn {
        /// Its present name.
        entry: Span,
        /// The last part of its new name.
        new_rdn: Span,
        /// The old part is no longer an attribute.
        deletes_old: bool,
        /// Where it moves.
        new_superior: Option<Span>,
    },
    /// A comparison.
    Compare {
        /// The entry.
        entry: Span,
        /// The attribute.
        attribute: Span,
        /// The value.
        value: Span,
    },
    /// The operation of that message is not to be continued.
    Abandon(u32),
    /// An extension.
    Extended {
        /// Its identifier.
        name: Span,
        /// Its value.
        value: Option<Span>,
    },
    /// An answer that is a result and no more.
    Result(LdapResult),
    /// The answer to [`Operation::Bind`].
    BindResult(LdapResult, Option<Span>),
    /// The answer to [`Operation::Extended`], or a notice of the server.
    ExtendedResult {
        /// The result.
        result: LdapResult,
        /// Identifier.
        name: Option<Span>,
        /// Value.
        value: Option<Span>,
    },
    /// An entry that was found.
    Entry {
        /// Its name.
        name: Span,
        /// Its attributes.
        attributes: Box<[Attribute]>,
    },
    /// Where to continue a search.
    Reference(Box<[Span]>),
    /// An answer before the last.
    Intermediate {
        /// Identifier.
        name: Option<Span>,
        /// Value.
        value: Option<Span>,
    },
}

/// A control of a message (RFC 4511 4.1.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its identifier.
    pub kind: Span,
    /// The operation depends on it.
    pub is_critical: bool,
    /// Its value.
    pub value: Option<Span>,
}

/// A search (RFC 4511 4.5.1). Of filters, only one that asks for the presence of an attribute is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// Where it begins.
    pub base: Span,
    /// 0 the entry, 1 those below it, 2 all below it.
    pub scope: u32,
    /// Which aliases are followed.
    pub deref_aliases: u32,
    /// Entries at most.
    pub size_limit: u32,
    /// Seconds at most.
    pub time_limit: u32,
    /// Types without values are wanted.
    pub types_only: bool,
    /// The attribute that an entry must have, if the filter is that and no more.
    pub present: Option<Span>,
    /// The attributes that are wanted.
    pub attributes: Box<[Span]>,
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number.
    pub id: u32,
    /// The number of its operation: the tag (RFC 4511 appendix B).
    pub code: u8,
    /// Its operation.
    pub operation: Operation,
    /// Its controls, if it has a list of them.
    pub controls: Option<Box<[Control]>>,
    bytes: Box<[u8]>,
}

/// The length of the message at the beginning of `bytes`; `None`: more is needed to know.
pub(super) fn message_len(bytes: &[u8]) -> Found<Option<usize>> {
    match Header::from_bytes(bytes) {
        Start::Header(header) => Ok(Some(header.total_len())),
        Start::More => Ok(None),
        Start::Wrong => Err(Fault::Wrong),
    }
}

impl Message {
    /// Reads a message that is the whole of `bytes`.
    ///
    /// # Errors
    /// It is no message.
    pub fn parse(bytes: &[u8]) -> Result<Message, Fault> {
        let mut outer = Reader::new(bytes);
        let mut inner = Reader::new(expect(&mut outer, tag::SEQUENCE)?);
        let id = unsigned(expect(&mut inner, tag::INTEGER)?)?;
        let element = inner.next().ok_or(Fault::Missing)?;
        let places = Places(bytes);
        let operation = places.operation(element)?;
        let controls = match inner.next_if(0xa0) {
            Some(list) => Some(places.controls(list)?),
            None => None,
        };
        Ok(Message { id, code: element.tag & 0x1f, operation, controls, bytes: bytes.into() })
    }

    /// The bytes of a place in it.
    pub fn bytes(&self, span: Span) -> &[u8] {
        let start = span.start as usize;
        self.bytes.get(start..start + span.len as usize).unwrap_or_default()
    }

    /// Whether it is one of a client.
    pub fn is_request(&self) -> bool {
        matches!(
            self.operation,
            Operation::Bind { .. }
                | Operation::Unbind
                | Operation::Search(_)
                | Operation::Modify { .. }
                | Operation::Add { .. }
                | Operation::Delete(_)
                | Operation::ModifyDn { .. }
                | Operation::Compare { .. }
                | Operation::Abandon(_)
                | Operation::Extended { .. }
        )
    }

    /// Whether other answers to the same request follow.
    pub fn is_continued(&self) -> bool {
        matches!(
            self.operation,
            Operation::Entry { .. } | Operation::Reference(_) | Operation::Intermediate { .. }
        )
    }

    /// Its result, if it is an answer with one.
    pub fn result(&self) -> Option<&LdapResult> {
        if let Operation::Result(result)
        | Operation::BindResult(result, _)
        | Operation::ExtendedResult { result, .. } = &self.operation
        {
            return Some(result);
        }
        None
    }

    /// Its attributes.
    pub fn attributes(&self) -> &[Attribute] {
        if let Operation::Add { attributes, .. } | Operation::Entry { attributes, .. } =
            &self.operation
        {
            return attributes;
        }
        &[]
    }

    /// Bytes held.
    pub fn cost(&self) -> usize {
        let of_attribute = |a: &Attribute| size_of::<Attribute>() + size_of_val(&*a.values);
        let mut lists: usize = self.attributes().iter().map(of_attribute).sum();
        if let Operation::Search(search) = &self.operation {
            lists += size_of::<Search>() + size_of_val(&*search.attributes);
        } else if let Operation::Modify { changes, .. } = &self.operation {
            let of_change = |c: &Change| size_of::<u64>() + of_attribute(&c.attribute);
            lists += changes.iter().map(of_change).sum::<usize>();
        } else if let Operation::Reference(uris) = &self.operation {
            lists += size_of_val(&**uris);
        }
        let controls = self.controls.as_ref().map_or(0, |c| size_of_val(&**c));
        size_of::<Message>() + self.bytes.len() + lists + controls
    }
}

/// The next element's value, which must have that tag.
fn expect<'a>(r: &mut Reader<'a>, tag: u8) -> Found<&'a [u8]> {
    let element = r.next().ok_or(Fault::Missing)?;
    if element.tag == tag { Ok(element.value) } else { Err(Fault::Wrong) }
}

/// A number of at most 32 bits.
fn unsigned(value: &[u8]) -> Found<u32> {
    crate::ber::number(value).ok_or(Fault::Wrong)
}

/// An enumerated value, whose sign Suricata does not look at.
fn enumerated(value: &[u8]) -> Found<u32> {
    match value {
        [] => Err(Fault::Wrong),
        [0, rest @ ..] if rest.len() > 4 => Err(Fault::Wrong),
        _ if value.len() > 5 => Err(Fault::Wrong),
        _ => Ok(value.iter().fold(0, |n, b| n << 8 | u32::from(*b))),
    }
}

fn boolean(value: &[u8]) -> Found<bool> {
    match value {
        [b] => Ok(*b != 0),
        _ => Err(Fault::Wrong),
    }
}

/// A text that must be UTF-8: names and messages are (RFC 4511 4.1.2), values need not be.
fn utf8(value: &[u8]) -> Found<&[u8]> {
    if std::str::from_utf8(value).is_ok() { Ok(value) } else { Err(Fault::Wrong) }
}

/// Turns elements of a message into places in it.
#[derive(Clone, Copy)]
struct Places<'a>(&'a [u8]);

impl<'a> Places<'a> {
    /// The place of a part of the message.
    fn span(self, part: &'a [u8]) -> Found<Span> {
        let start = part.as_ptr().addr().wrapping_sub(self.0.as_ptr().addr());
        let place = |n: usize| u32::try_from(n).map_err(|_| Fault::Wrong);
        Ok(Span { start: place(start)?, len: place(part.len())? })
    }

    fn octets(self, r: &mut Reader<'a>) -> Found<Span> {
        self.span(expect(r, tag::OCTETS)?)
    }

    fn text(self, r: &mut Reader<'a>) -> Found<Span> {
        self.span(utf8(expect(r, tag::OCTETS)?)?)
    }

    /// An element with that tag, if it is the next one.
    fn optional(self, r: &mut Reader<'a>, tag: u8) -> Found<Option<Span>> {
        r.next_if(tag).map(|value| self.span(value)).transpose()
    }

    /// The items of a list up to the first that is none of them, as Suricata reads lists.
    fn items<T>(
        self,
        list: &'a [u8],
        item: impl Fn(&mut Reader<'a>) -> Found<T>,
    ) -> Found<Box<[T]>> {
        let (mut r, mut items) = (Reader::new(list), Vec::new());
        while !r.is_empty() {
            match item(&mut r) {
                Ok(found) => items.push(found),
                Err(Fault::Wrong) => break,
                Err(Fault::Missing) => return Err(Fault::Missing),
            }
        }
        Ok(items.into())
    }

    /// The same of a list that must have one.
    fn some_items<T>(
        self,
        list: &'a [u8],
        item: impl Fn(&mut Reader<'a>) -> Found<T>,
    ) -> Found<Box<[T]>> {
        let items = self.items(list, item)?;
        if items.is_empty() { Err(Fault::Wrong) } else { Ok(items) }
    }

    fn attribute(self, value: &'a [u8]) -> Found<Attribute> {
        let mut r = Reader::new(value);
        let name = self.text(&mut r)?;
        let values = self.items(expect(&mut r, tag::SET)?, |r| self.octets(r))?;
        Ok(Attribute { name, values })
    }

    fn attributes(self, r: &mut Reader<'a>) -> Found<Box<[Attribute]>> {
        let list = expect(r, tag::SEQUENCE)?;
        self.items(list, |r| self.attribute(expect(r, tag::SEQUENCE)?))
    }

    /// The same where each attribute must have a value.
    fn new_attributes(self, r: &mut Reader<'a>) -> Found<Box<[Attribute]>> {
        self.items(expect(r, tag::SEQUENCE)?, |r| {
            let attribute = self.attribute(expect(r, tag::SEQUENCE)?)?;
            if attribute.values.is_empty() { Err(Fault::Wrong) } else { Ok(attribute) }
        })
    }

    fn controls(self, list: &'a [u8]) -> Found<Box<[Control]>> {
        self.items(list, |r| {
            let mut r = Reader::new(expect(r, tag::SEQUENCE)?);
            let kind = self.text(&mut r)?;
            let is_critical = r.next_if(tag::BOOLEAN).map(boolean).transpose()?.unwrap_or(false);
            Ok(Control { kind, is_critical, value: self.optional(&mut r, tag::OCTETS)? })
        })
    }

    fn result(self, r: &mut Reader<'a>) -> Found<LdapResult> {
        let code = enumerated(expect(r, tag::ENUMERATED)?)?;
        let (matched_dn, message) = (self.text(r)?, self.text(r)?);
        // A referral (RFC 4511 4.1.10) is not logged.
        r.next_if(0xa3);
        Ok(LdapResult { code, matched_dn, message })
    }

    fn operation(self, element: Element<'a>) -> Found<Operation> {
        let r = &mut Reader::new(element.value);
        Ok(match element.tag {
            0x60 => self.bind(r)?,
            0x61 => Operation::BindResult(self.result(r)?, self.optional(r, 0x87)?),
            0x42 | 0x62 if element.value.is_empty() => Operation::Unbind,
            0x63 => Operation::Search(Box::new(self.search(r)?)),
            0x64 => Operation::Entry { name: self.text(r)?, attributes: self.attributes(r)? },
            0x65 | 0x67 | 0x69 | 0x6b | 0x6d | 0x6f => Operation::Result(self.result(r)?),
            0x66 => self.modify(r)?,
            0x68 => Operation::Add { entry: self.text(r)?, attributes: self.new_attributes(r)? },
            0x4a => Operation::Delete(self.span(utf8(element.value)?)?),
            0x6c => Operation::ModifyDn {
                entry: self.text(r)?,
                new_rdn: self.text(r)?,
                deletes_old: boolean(expect(r, tag::BOOLEAN)?)?,
                new_superior: self.optional(r, 0x80)?,
            },
            0x6e => {
                let entry = self.text(r)?;
                let mut r = Reader::new(expect(r, tag::SEQUENCE)?);
                let (attribute, value) = (self.text(&mut r)?, self.octets(&mut r)?);
                Operation::Compare { entry, attribute, value }
            }
            0x50 => Operation::Abandon(unsigned(element.value)?),
            0x73 => Operation::Reference(self.some_items(element.value, |r| self.text(r))?),
            0x77 => Operation::Extended {
                name: self.span(utf8(expect(r, 0x80)?)?)?,
                value: self.optional(r, 0x81)?,
            },
            0x78 => Operation::ExtendedResult {
                result: self.result(r)?,
                name: self.optional(r, 0x8a)?,
                value: self.optional(r, 0x8b)?,
            },
            0x79 => Operation::Intermediate {
                name: self.optional(r, 0x80)?,
                value: self.optional(r, 0x81)?,
            },
            _ => return Err(Fault::Wrong),
        })
    }

    fn bind(self, r: &mut Reader<'a>) -> Found<Operation> {
        let version = unsigned(expect(r, tag::INTEGER)?)?;
        if version > u32::from(u8::MAX) {
            return Err(Fault::Wrong);
        }
        let name = self.text(r)?;
        let choice = r.next().ok_or(Fault::Missing)?;
        let sasl = match choice.tag {
            0x80 => None,
            0xa3 => {
                let mut r = Reader::new(choice.value);
                Some((self.text(&mut r)?, self.optional(&mut r, tag::OCTETS)?))
            }
            _ => return Err(Fault::Wrong),
        };
        Ok(Operation::Bind { version, name, sasl })
    }

    fn search(self, r: &mut Reader<'a>) -> Found<Search> {
        let search = Search {
            base: self.text(r)?,
            scope: enumerated(expect(r, tag::ENUMERATED)?)?,
            deref_aliases: enumerated(expect(r, tag::ENUMERATED)?)?,
            size_limit: unsigned(expect(r, tag::INTEGER)?)?,
            time_limit: unsigned(expect(r, tag::INTEGER)?)?,
            types_only: boolean(expect(r, tag::BOOLEAN)?)?,
            present: None,
            attributes: Box::default(),
        };
        let filter = r.next().ok_or(Fault::Missing)?;
        check_filter(filter)?;
        let present = (filter.tag == PRESENT).then(|| self.span(filter.value)).transpose()?;
        let attributes = self.items(expect(r, tag::SEQUENCE)?, |r| self.text(r))?;
        Ok(Search { present, attributes, ..search })
    }

    fn modify(self, r: &mut Reader<'a>) -> Found<Operation> {
        let object = self.text(r)?;
        let changes = self.some_items(expect(r, tag::SEQUENCE)?, |r| {
            let mut r = Reader::new(expect(r, tag::SEQUENCE)?);
            let operation = enumerated(expect(&mut r, tag::ENUMERATED)?)?;
            let attribute = self.attribute(expect(&mut r, tag::SEQUENCE)?)?;
            Ok(Change { operation, attribute })
        })?;
        Ok(Operation::Modify { object, changes })
    }
}

/// Tag of a filter that asks for the presence of an attribute.
const PRESENT: u8 = 0x87;

/// Checks that an element is a filter (RFC 4511 4.5.1.7), with filters within filters down to
/// [`super::limits::FILTER_DEPTH_MAX`].
fn check_filter(filter: Element<'_>) -> Found<()> {
    // Lists that are not read to their end, the innermost last, and whether it may have one filter only: no
    // recursion, whatever the depth.
    let mut open: Vec<(Reader<'_>, bool)> = Vec::new();
    let mut next = filter;
    loop {
        let mut r = Reader::new(next.value);
        match next.tag {
            0xa0..=0xa2 => {
                if !reached::FILTER_DEPTH_MAX.has_room(open.len()) {
                    return Err(Fault::Wrong);
                }
                let is_not = next.tag == 0xa2;
                // What follows in a negation is not looked at.
                next = r.next().ok_or(if is_not { Fault::Missing } else { Fault::Wrong })?;
                open.push((r, is_not));
                continue;
            }
            0xa3 | 0xa5 | 0xa6 | 0xa8 => {
                utf8(expect(&mut r, tag::OCTETS)?)?;
                expect(&mut r, tag::OCTETS)?;
            }
            0xa4 => check_substrings(&mut r)?,
            PRESENT => drop(utf8(next.value)?),
            0xa9 => check_extensible(&mut r)?,
            _ => return Err(Fault::Wrong),
        }
        while open.last().is_some_and(|(list, is_not)| *is_not || list.is_empty()) {
            open.pop();
        }
        let Some((list, _)) = open.last_mut() else { return Ok(()) };
        next = list.next().ok_or(Fault::Missing)?;
    }
}

fn check_substrings(r: &mut Reader<'_>) -> Found<()> {
    utf8(expect(r, tag::OCTETS)?)?;
    let first = Reader::new(expect(r, tag::SEQUENCE)?).next();
    if first.is_some_and(|e| (0x80..=0x82).contains(&e.tag)) { Ok(()) } else { Err(Fault::Wrong) }
}

fn check_extensible(r: &mut Reader<'_>) -> Found<()> {
    r.next_if(0x81);
    r.next_if(0x82);
    expect(r, 0x83).map(drop)
}

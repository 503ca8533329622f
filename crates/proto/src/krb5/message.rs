//! Messages of Kerberos 5 (RFC 4120 5): requests, replies and errors, as far as rules and records need them.
//!
//! Fields must be there in their order, with the types of the standard, or the message is none (as in Suricata 8.0.7).

use super::limits::reached;
use crate::ber::Reader;

/// Types of messages that are read, by their application tags.
pub(super) mod kind {
    pub(crate) const AS_REQ: u8 = 10;
    pub(crate) const AS_REP: u8 = 11;
    pub(crate) const TGS_REQ: u8 = 12;
    pub(crate) const TGS_REP: u8 = 13;
    pub(crate) const AP_REQ: u8 = 14;
    pub(crate) const AP_REP: u8 = 15;
    pub(crate) const ERROR: u8 = 30;
}

/// Universal tags that only Kerberos uses here.
mod tag {
    pub(super) const INTEGER: u8 = 0x02;
    pub(super) const BIT_STRING: u8 = 0x03;
    pub(super) const OCTETS: u8 = 0x04;
    pub(super) const GENERAL_STRING: u8 = 0x1b;
    pub(super) const TIME: u8 = 0x18;
    pub(super) const SEQUENCE: u8 = 0x30;
    pub(super) const TICKET: u8 = 0x61;
}

/// Parts of a principal's name.
pub(super) type Name = Vec<Box<[u8]>>;

/// A message.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) kind: u8,
    /// Name of the client, of the service, and realm.
    pub(super) client: Option<Name>,
    pub(super) service: Option<Name>,
    pub(super) realm: Option<Box<[u8]>>,
    /// Encryption of a reply and of the ticket in it.
    pub(super) encryption: Option<i32>,
    pub(super) ticket_encryption: Option<i32>,
    pub(super) error: Option<i32>,
}

/// The application tag of a message.
pub(super) fn kind_of_message(bytes: &[u8]) -> Option<u8> {
    let first = *bytes.first()?;
    (first & 0xc0 == 0x40).then_some(first & 0x1f)
}

/// Reads a request, a reply or an error. `None`: it is none of these, or not as the standard has it.
pub(super) fn read_message(bytes: &[u8]) -> Option<Message> {
    let kind = kind_of_message(bytes)?;
    let mut outer = Reader::new(bytes);
    let mut content = Reader::new(outer.next()?.value);
    let mut fields = Reader::new(content.expect(tag::SEQUENCE)?);
    let mut message = Message { kind, ..Message::default() };
    match kind {
        kind::AS_REQ | kind::TGS_REQ => read_request(&mut fields, &mut message)?,
        kind::AS_REP | kind::TGS_REP => read_reply(&mut fields, &mut message)?,
        kind::ERROR => read_error(&mut fields, &mut message)?,
        _ => return None,
    }
    Some(message)
}

fn read_request(fields: &mut Reader<'_>, message: &mut Message) -> Option<()> {
    number(field(fields, 1, tag::INTEGER)?)?;
    number(field(fields, 2, tag::INTEGER)?)?;
    fields.next_if(0xa3);
    let mut body = Reader::new(field(fields, 4, tag::SEQUENCE)?);
    field(&mut body, 0, tag::BIT_STRING)?;
    message.client = optional_name(&mut body, 1)?;
    message.realm = Some(text(field(&mut body, 2, tag::GENERAL_STRING)?)?.into());
    message.service = optional_name(&mut body, 3)?;
    optional_time(&mut body, 4)?;
    time(field(&mut body, 5, tag::TIME)?)?;
    optional_time(&mut body, 6)?;
    field(&mut body, 7, tag::INTEGER)?;
    let mut types = Reader::new(field(&mut body, 8, tag::SEQUENCE)?);
    while let Some(element) = types.next() {
        Some(element).filter(|e| e.tag == tag::INTEGER).and_then(|e| number(e.value))?;
    }
    Some(())
}

fn read_reply(fields: &mut Reader<'_>, message: &mut Message) -> Option<()> {
    number(field(fields, 0, tag::INTEGER)?)?;
    number(field(fields, 1, tag::INTEGER)?)?;
    fields.next_if(0xa2);
    message.realm = Some(text(field(fields, 3, tag::GENERAL_STRING)?)?.into());
    message.client = Some(read_name(field(fields, 4, tag::SEQUENCE)?)?);
    let mut ticket = Reader::new(field(fields, 5, tag::TICKET)?);
    let mut ticket = Reader::new(ticket.expect(tag::SEQUENCE)?);
    number(field(&mut ticket, 0, tag::INTEGER)?)?;
    text(field(&mut ticket, 1, tag::GENERAL_STRING)?)?;
    message.service = Some(read_name(field(&mut ticket, 2, tag::SEQUENCE)?)?);
    message.ticket_encryption = Some(read_encryption(field(&mut ticket, 3, tag::SEQUENCE)?)?);
    message.encryption = Some(read_encryption(field(fields, 6, tag::SEQUENCE)?)?);
    Some(())
}

fn read_error(fields: &mut Reader<'_>, message: &mut Message) -> Option<()> {
    number(field(fields, 0, tag::INTEGER)?)?;
    number(field(fields, 1, tag::INTEGER)?)?;
    optional_time(fields, 2)?;
    fields.next_if(0xa3);
    time(field(fields, 4, tag::TIME)?)?;
    number(field(fields, 5, tag::INTEGER)?)?;
    message.error = Some(number(field(fields, 6, tag::INTEGER)?)?);
    if let Some(realm) = fields.next_if(0xa7) {
        message.realm = Some(text(Reader::new(realm).expect(tag::GENERAL_STRING)?)?.into());
    }
    message.client = optional_name(fields, 8)?;
    text(field(fields, 9, tag::GENERAL_STRING)?)?;
    message.service = Some(read_name(field(fields, 10, tag::SEQUENCE)?)?);
    Some(())
}

/// The value of a field with that number, of that type.
fn field<'a>(fields: &mut Reader<'a>, number: u8, kind: u8) -> Option<&'a [u8]> {
    Reader::new(fields.next_if(0xa0 | number)?).expect(kind)
}

/// A name that may be missing; `None`: it is there and is none.
fn optional_name(fields: &mut Reader<'_>, number: u8) -> Option<Option<Name>> {
    match fields.next_if(0xa0 | number) {
        None => Some(None),
        Some(value) => read_name(Reader::new(value).expect(tag::SEQUENCE)?).map(Some),
    }
}

/// A time that may be missing.
fn optional_time(fields: &mut Reader<'_>, number: u8) -> Option<()> {
    match fields.next_if(0xa0 | number) {
        None => Some(()),
        Some(value) => time(Reader::new(value).expect(tag::TIME)?),
    }
}

/// A principal's name (5.2.2): type, and parts.
pub(super) fn read_name(value: &[u8]) -> Option<Name> {
    let mut fields = Reader::new(value);
    number(field(&mut fields, 0, tag::INTEGER)?)?;
    let mut parts = Reader::new(field(&mut fields, 1, tag::SEQUENCE)?);
    let mut name = Name::new();
    while !parts.is_empty() {
        let part = text(parts.expect(tag::GENERAL_STRING)?)?;
        if reached::NAME_PARTS_MAX.has_room(name.len()) {
            name.push(part.into());
        }
    }
    Some(name)
}

/// Encrypted data (5.2.9): the type of its encryption.
fn read_encryption(value: &[u8]) -> Option<i32> {
    let mut fields = Reader::new(value);
    let kind = number(field(&mut fields, 0, tag::INTEGER)?)?;
    fields.next_if(0xa1);
    field(&mut fields, 2, tag::OCTETS)?;
    Some(kind)
}

/// Strings are ASCII (5.2.1).
fn text(value: &[u8]) -> Option<&[u8]> {
    value.is_ascii().then_some(value)
}

/// `20240101000000Z` (5.2.3).
fn time(value: &[u8]) -> Option<()> {
    let digits = value.strip_suffix(b"Z")?;
    (digits.len() >= 12 && digits.iter().all(|b| b.is_ascii_digit() || *b == b'.')).then_some(())
}

/// A number in its shortest form (X.690 8.3.2) that fits 32 bits.
fn number(value: &[u8]) -> Option<i32> {
    match value {
        [0, second, ..] if second & 0x80 == 0 => None,
        [0xff, second, ..] if second & 0x80 != 0 => None,
        [0, rest @ ..] if rest.len() == 4 => {
            Some(u32::from_be_bytes(rest.try_into().ok()?).cast_signed())
        }
        [first, ..] if value.len() <= 4 => {
            let start = if first & 0x80 == 0 { 0 } else { -1 };
            Some(value.iter().fold(start, |n: i32, b| n << 8 | i32::from(*b)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_their_shortest_form() {
        for (bytes, expected) in [
            (&b"\x17"[..], Some(23)),
            (b"\xff\x7b", Some(-133)),
            (b"\x80", Some(-128)),
            (b"\xff\x80", None),
            (b"\0\x17", None),
            (b"\x7f\xff\xff\xff", Some(i32::MAX)),
            (b"\x01\0\0\0\0", None),
            (b"", None),
        ] {
            assert_eq!(number(bytes), expected, "{bytes:?}");
        }
    }
}

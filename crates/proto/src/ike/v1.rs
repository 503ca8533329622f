//! Payloads of IKE 1: proposals with the attributes of their transforms (RFC 2408 3.3 to 3.6, RFC 2409 appendix A).

use super::limits::reached;
use super::message::{End, Payload, read_payload, walk_payloads};
use super::names;

/// Payloads that are looked into.
pub(super) mod payload {
    pub(crate) const SA: u8 = 1;
    pub(crate) const PROPOSAL: u8 = 2;
    pub(crate) const TRANSFORM: u8 = 3;
    pub(crate) const KEY_EXCHANGE: u8 = 4;
    pub(crate) const NONCE: u8 = 10;
    pub(crate) const VENDOR: u8 = 13;
}

/// An attribute of a transform.
#[derive(Clone, Debug)]
pub(super) struct Attribute {
    pub(super) kind: u16,
    /// Name of its value: of one that has more than two bytes it is that of their number, as in Suricata 8.0.7.
    pub(super) name: &'static str,
    pub(super) value: Value,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Number(u32),
    Bytes(Box<[u8]>),
}

/// Attributes of a transform, each kind once.
pub(super) type Transform = Vec<Attribute>;

/// What the payloads of a message say.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Types of its payloads, each once, in the order in which they came first.
    pub(super) kinds: Vec<u8>,
    pub(super) doi: Option<u32>,
    pub(super) transforms: Vec<Transform>,
    pub(super) key_exchange: Box<[u8]>,
    pub(super) nonce: Box<[u8]>,
    pub(super) vendors: Vec<Box<[u8]>>,
}

impl Found {
    fn note_kind(&mut self, kind: u8) {
        if !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    /// `None`: it can't be read.
    fn take_payload(&mut self, payload: Payload<'_>) -> Option<()> {
        self.note_kind(payload.kind);
        match payload.kind {
            payload::SA => self.take_sa(payload.body)?,
            payload::KEY_EXCHANGE => self.key_exchange = payload.body.into(),
            payload::NONCE => self.nonce = payload.body.into(),
            payload::VENDOR => self.vendors.push(payload.body.into()),
            _ => {}
        }
        Some(())
    }

    /// Domain of interpretation, situation, proposals. Those of other domains are not known.
    fn take_sa(&mut self, body: &[u8]) -> Option<()> {
        let (&[a, b, c, d, ..], proposals) = body.split_first_chunk::<8>()?;
        let doi = u32::from_be_bytes([a, b, c, d]);
        self.doi = Some(doi);
        if doi != 1 {
            return Some(());
        }
        let mut is_good = true;
        walk_payloads(payload::PROPOSAL, proposals, |proposal| {
            self.note_kind(payload::PROPOSAL);
            is_good &= self.take_proposal(proposal.body).is_some();
        });
        is_good.then_some(())
    }

    /// Number, protocol, length of the SPI, count of transforms (which does not count), SPI, transforms.
    fn take_proposal(&mut self, body: &[u8]) -> Option<()> {
        let (&[_, _, spi_len, _], rest) = body.split_first_chunk::<4>()?;
        let transforms = rest.get(usize::from(spi_len)..)?;
        walk_payloads(payload::TRANSFORM, transforms, |transform| {
            self.note_kind(payload::TRANSFORM);
            let Some(attributes) = transform.body.get(4..) else { return };
            let attributes = read_attributes(attributes);
            if reached::TRANSFORMS_MAX.has_room(self.transforms.len()) {
                self.transforms.push(attributes);
            }
        });
        Some(())
    }
}

/// Reads the payloads of a message that is not encrypted, also what is after the last one: a payload without a kind.
/// `None`: they can't be read.
pub(super) fn read_payloads(first: u8, mut rest: &[u8]) -> Option<Found> {
    let mut found = Found::default();
    found.note_kind(first);
    let mut kind = first;
    for count in 0.. {
        match read_payload(kind, rest) {
            Ok(_) if !reached::PAYLOADS_MAX.has_room(count) => break,
            Ok((payload, tail)) => {
                (kind, rest) = (payload.next, tail);
                found.take_payload(payload)?;
            }
            Err(End::Broken) => {
                found.take_payload(Payload { kind, next: 0, body: &[] })?;
                break;
            }
            Err(End::Whole | End::Left | End::Missing | End::Short) => break,
        }
    }
    Some(found)
}

fn read_attributes(mut rest: &[u8]) -> Transform {
    let mut attributes = Transform::new();
    while let Some((&[a, b, c, d], tail)) = rest.split_first_chunk::<4>() {
        let (kind, number) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let (value, tail) = if kind & 0x8000 != 0 {
            (Value::Number(number.into()), tail)
        } else {
            let Some((bytes, tail)) = tail.split_at_checked(number.into()) else { break };
            let value = match *bytes {
                [a, b, c, d] => Value::Number(u32::from_be_bytes([a, b, c, d])),
                _ => Value::Bytes(bytes.into()),
            };
            (value, tail)
        };
        rest = tail;
        let kind = kind & 0x7fff;
        let key = names::attribute_key(kind);
        let is_new = attributes.iter().all(|known| names::attribute_key(known.kind) != key);
        // So there are no more than kinds of them.
        if is_new {
            let name = names::attribute_value(kind, number);
            attributes.push(Attribute { kind, name, value });
        }
    }
    attributes
}

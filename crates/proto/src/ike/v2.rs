//! Payloads of IKE 2: proposals with their transforms, and notifications (RFC 7296 3.2 to 3.10).

use super::limits::reached;
use super::message::{End, walk_payloads};
use super::tables::event;
use crate::transaction::EventList;

/// Payloads that are looked into.
mod payload {
    pub(super) const SA: u8 = 33;
    pub(super) const KEY_EXCHANGE: u8 = 34;
    pub(super) const ID_INITIATOR: u8 = 35;
    pub(super) const ID_RESPONDER: u8 = 36;
    pub(super) const CERTIFICATE: u8 = 37;
    pub(super) const CERTIFICATE_REQUEST: u8 = 38;
    pub(super) const AUTHENTICATION: u8 = 39;
    pub(super) const NOTIFY: u8 = 41;
    pub(super) const DELETE: u8 = 42;
    pub(super) const VENDOR: u8 = 43;
    pub(super) const SELECTORS_INITIATOR: u8 = 44;
    pub(super) const SELECTORS_RESPONDER: u8 = 45;
}

/// Types of transforms (RFC 7296 3.3.2).
mod transform {
    pub(super) const ENCRYPTION: u8 = 1;
    pub(super) const PRF: u8 = 2;
    pub(super) const INTEGRITY: u8 = 3;
    pub(super) const GROUP: u8 = 4;
    pub(super) const SEQUENCE: u8 = 5;
}

/// The protocol that authenticates without encryption.
const PROTOCOL_AH: u8 = 2;

/// What a responder chose; 0 (and 11, no encryption) stand for nothing chosen yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) encryption: u16,
    pub(super) prf: u16,
    pub(super) integrity: u16,
    pub(super) group: u16,
    pub(super) sequence: u16,
}

impl Default for Choice {
    fn default() -> Choice {
        Choice { encryption: 11, prf: 0, integrity: 0, group: 0, sequence: 0 }
    }
}

/// What the payloads of a message say.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The type that the header names, then those that payloads name as the next, 0 at the end; none where a payload
    /// can't be read. What an encrypted payload names is inside of it.
    pub(super) kinds: Vec<u8>,
    pub(super) notifications: Vec<u16>,
    /// The message has a security association, of which this is chosen.
    pub(super) choice: Option<Choice>,
}

/// Reads the payloads of a message.
pub(super) fn read_payloads(first: u8, rest: &[u8], events: &mut EventList) -> Found {
    let mut found = Found::default();
    let mut is_good = true;
    let mut raised = Vec::new();
    found.kinds.push(first);
    let end = walk_payloads(first, rest, |payload| {
        found.kinds.push(payload.next);
        let body = payload.body;
        is_good &= match payload.kind {
            payload::SA => {
                let choice = found.choice.get_or_insert_default();
                take_proposals(body, choice, &mut raised).is_some()
            }
            payload::KEY_EXCHANGE
            | payload::ID_INITIATOR
            | payload::ID_RESPONDER
            | payload::AUTHENTICATION => body.len() >= 4,
            payload::CERTIFICATE | payload::CERTIFICATE_REQUEST => !body.is_empty(),
            payload::NOTIFY => match body {
                [_, spi_len, high, low, rest @ ..] if rest.len() >= usize::from(*spi_len) => {
                    found.notifications.push(u16::from_be_bytes([*high, *low]));
                    true
                }
                _ => false,
            },
            // Suricata 8.0.7 reads none that is shorter.
            payload::DELETE | payload::VENDOR => body.len() >= 8,
            payload::SELECTORS_INITIATOR | payload::SELECTORS_RESPONDER => has_selectors(body),
            _ => true,
        };
    });
    if !is_good || !matches!(end, End::Whole | End::Missing) {
        return Found::default();
    }
    raised.into_iter().for_each(|code| events.add(code));
    found
}

/// As many traffic selectors as are announced, and nothing else.
fn has_selectors(body: &[u8]) -> bool {
    let (Some(&count), Some(mut rest)) = (body.first(), body.get(4..)) else { return false };
    for _ in 0..count {
        let Some((&[_, _, high, low], _)) = rest.split_first_chunk::<4>() else { return false };
        let len = usize::from(u16::from_be_bytes([high, low])).max(8);
        let Some(tail) = rest.get(len..) else { return false };
        rest = tail;
    }
    rest.is_empty()
}

/// A proposal.
struct Proposal<'a> {
    protocol: u8,
    /// Types and numbers.
    transforms: Vec<(u8, u16)>,
    has_next: bool,
    /// What is after it.
    rest: &'a [u8],
}

/// Reads a proposal: of its transforms as many as it announces.
fn read_proposal(bytes: &[u8]) -> Option<Proposal<'_>> {
    let (&[next, _, high, low], _) = bytes.split_first_chunk::<4>()?;
    let (proposal, rest) = bytes.split_at_checked(u16::from_be_bytes([high, low]).into())?;
    let (&[_, protocol, spi_len, count], body) = proposal.get(4..)?.split_first_chunk::<4>()?;
    let mut from = body.get(usize::from(spi_len)..)?;
    let mut transforms = Vec::new();
    for _ in 0..count {
        let (&[_, _, high, low, kind, _, a, b], _) = from.split_first_chunk::<8>()?;
        from = from.get(usize::from(u16::from_be_bytes([high, low])).max(8)..)?;
        transforms.push((kind, u16::from_be_bytes([a, b])));
    }
    Some(Proposal { protocol, transforms, has_next: next != 0, rest })
}

/// Reads proposals up to one that can't be read: the last transform of each type is the one chosen. `None`: the first
/// one can't be read.
fn take_proposals(bytes: &[u8], choice: &mut Choice, events: &mut Vec<u16>) -> Option<()> {
    let mut count = 0;
    let mut proposal = read_proposal(bytes)?;
    loop {
        let (mut has_group, mut has_integrity, mut is_combined) = (false, false, false);
        if proposal.protocol == PROTOCOL_AH {
            events.push(event::NO_ENCRYPTION);
        }
        for (kind, id) in proposal.transforms {
            if !reached::TRANSFORMS_MAX.has_room(count) {
                break;
            }
            count += 1;
            match kind {
                transform::ENCRYPTION => {
                    choice.encryption = id;
                    is_combined |= matches!(id, 14..=16 | 18..=20 | 25..=28);
                    events.extend(matches!(id, 1..=9 | 11).then_some(event::WEAK_CRYPTO_ENC));
                }
                transform::PRF => {
                    choice.prf = id;
                    match id {
                        0 => events.push(event::INVALID_PROPOSAL),
                        1 | 2 => events.push(event::WEAK_CRYPTO_PRF),
                        _ => {}
                    }
                }
                transform::INTEGRITY => {
                    choice.integrity = id;
                    has_integrity |= id != 0;
                    events.extend(matches!(id, 1..=7).then_some(event::WEAK_CRYPTO_AUTH));
                }
                transform::GROUP => {
                    choice.group = id;
                    has_group = true;
                    match id {
                        0 => events.push(event::INVALID_PROPOSAL),
                        1 | 2 | 5 | 22 => events.push(event::WEAK_CRYPTO_DH),
                        _ => {}
                    }
                }
                transform::SEQUENCE => choice.sequence = id,
                _ => events.push(event::UNKNOWN_PROPOSAL),
            }
        }
        if !has_group {
            events.push(event::WEAK_CRYPTO_NO_DH);
        }
        if !has_integrity && !is_combined {
            events.push(event::WEAK_CRYPTO_NO_AUTH);
        }
        let next = read_proposal(proposal.rest).filter(|_| proposal.has_next);
        let Some(next) = next else { return Some(()) };
        proposal = next;
    }
}

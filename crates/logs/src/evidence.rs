//! How what came in an envelope stands in a record. The original bytes are the evidence: of an opened
//! envelope both are kept, its inside first, then a NUL, then the envelope as it came (which holds no
//! NUL, else it would not have opened). Of one that stays closed, its bytes, and the reason as a number
//! in the upper four bits of the record's flags.

use crate::envelope::Suspicion;

/// The bytes of a record of an opened envelope.
pub fn of_opened(inner: &[u8], wire: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(inner.len() + 1 + wire.len());
    body.extend_from_slice(inner);
    body.push(0);
    body.extend_from_slice(wire);
    body
}

/// Inside and envelope of such a record.
pub fn opened(body: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memrchr(0, body) {
        Some(at) => (&body[..at], Some(&body[at + 1..])),
        None => (body, None),
    }
}

/// The reason in the upper four bits of a record's flags; number 0 stands for none.
pub const fn suspicion_bits(why: Suspicion) -> u16 {
    (why as u16 + 1) << 12
}

/// The reason out of a record's flags.
pub fn suspicion(flags: u16) -> Option<Suspicion> {
    Suspicion::ALL.get(usize::from(flags >> 12).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_come_back() {
        let body = of_opened(b"a\0b", b"ab,cd");
        assert_eq!(opened(&body), (&b"a\0b"[..], Some(&b"ab,cd"[..])));
        assert!(Suspicion::ALL.len() < 16);
        for why in Suspicion::ALL {
            assert_eq!(suspicion(suspicion_bits(*why)), Some(*why));
        }
        assert_eq!(suspicion(0), None);
    }
}

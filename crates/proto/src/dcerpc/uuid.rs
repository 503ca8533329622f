//! Identifiers of interfaces and activities (C706 appendix A): their bytes on the wire, and their text.

use gabion_record::hex::to_hex;
use std::fmt;

/// An identifier, its bytes in the order of its text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Uuid(pub [u8; 16]);

/// Bytes of an identifier.
pub const UUID_BYTES: usize = 16;

impl Uuid {
    /// From the wire: the first three fields are numbers in the message's byte order (C706 14.1).
    pub fn from_wire(mut bytes: [u8; 16], is_little: bool) -> Uuid {
        if is_little {
            for field in [0..4, 4..6, 6..8] {
                bytes[field].reverse();
            }
        }
        Uuid(bytes)
    }

    /// From its text: 32 hex digits in groups of 8, 4, 4, 4 and 12.
    pub fn from_text(text: &str) -> Option<Uuid> {
        let text = text.as_bytes();
        if text.len() != 36 {
            return None;
        }
        let (mut bytes, mut digits) = ([0u8; 16], 0usize);
        for (at, b) in text.iter().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                if *b != b'-' {
                    return None;
                }
                continue;
            }
            let digit = char::from(*b).to_digit(16)? as u8;
            let byte = bytes.get_mut(digits / 2)?;
            *byte = *byte << 4 | digit;
            digits += 1;
        }
        Some(Uuid(bytes))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = &self.0;
        let groups = [&b[..4], &b[4..6], &b[6..8], &b[8..10], &b[10..]].map(to_hex);
        f.write_str(&groups.join("-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The endpoint mapper's identifier (C706 appendix O), and its bytes in both orders by 14.1.
    #[test]
    fn text_and_wire() {
        let text = "e1af8308-5d1f-11c9-91a4-08002b14a0fa";
        let uuid = Uuid::from_text(text).unwrap();
        assert_eq!(uuid.to_string(), text);
        assert_eq!(Uuid::from_text(&text.to_uppercase()), Some(uuid));
        let big = *b"\xe1\xaf\x83\x08\x5d\x1f\x11\xc9\x91\xa4\x08\x00\x2b\x14\xa0\xfa";
        let little = *b"\x08\x83\xaf\xe1\x1f\x5d\xc9\x11\x91\xa4\x08\x00\x2b\x14\xa0\xfa";
        assert_eq!(Uuid::from_wire(big, false), uuid);
        assert_eq!(Uuid::from_wire(little, true), uuid);
        for wrong in ["", "e1af8308", "e1af8308-5d1f-11c9-91a4_08002b14a0fa", &"é".repeat(18)] {
            assert_eq!(Uuid::from_text(wrong), None);
        }
    }
}

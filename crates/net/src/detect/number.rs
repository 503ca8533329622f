//! Numbers out of bytes, for `byte_test`, `byte_jump`, `byte_extract` and `byte_math`.

use gabion_rules::compiled::buffer::{ByteOrder, TextBase};

/// Reads `n` bytes at `at`: as a number in that order, or as text in that base. `None` when they are
/// not all there or the text is no number. `dce_little` is the order of the current DCERPC message.
pub(crate) fn parse_number(
    buf: &[u8],
    at: usize,
    n: usize,
    order: ByteOrder,
    text: Option<TextBase>,
    dce_little: bool,
) -> Option<u64> {
    match text {
        Some(base) => {
            if n > 23 {
                return None;
            }
            // No length: as far as the digits go.
            let n = if n == 0 { buf.len().saturating_sub(at).min(23) } else { n };
            let end = at.checked_add(n)?.min(buf.len());
            read_text(buf.get(at..end)?, base, end - at == n)
        }
        None => {
            if n == 0 || n > 8 {
                return None;
            }
            let bytes = buf.get(at..at.checked_add(n)?)?;
            let little = match order {
                ByteOrder::Big => false,
                ByteOrder::Little => true,
                ByteOrder::Dce => dce_little,
            };
            let fold = |v: u64, b: &u8| (v << 8) | u64::from(*b);
            Some(if little { bytes.iter().rev().fold(0, fold) } else { bytes.iter().fold(0, fold) })
        }
    }
}

fn read_text(bytes: &[u8], base: TextBase, whole: bool) -> Option<u64> {
    if !whole {
        return None;
    }
    // As strtoull: leading white space, a sign, a prefix, then digits up to the first other byte.
    let s = bytes.trim_ascii_start();
    let (negative, s) = match s.first() {
        Some(b'-') => (true, &s[1..]),
        Some(b'+') => (false, &s[1..]),
        _ => (false, s),
    };
    let has_hex = s.len() > 2 && s[0] == b'0' && (s[1] | 0x20) == b'x';
    let (radix, digits): (u32, &[u8]) = match base {
        TextBase::Hex => (16, if has_hex { &s[2..] } else { s }),
        TextBase::Dec => (10, s),
        TextBase::Oct => (8, s),
        TextBase::Unset if has_hex => (16, &s[2..]),
        TextBase::Unset if s.first() == Some(&b'0') => (8, s),
        TextBase::Unset => (10, s),
    };
    let mut value: u64 = 0;
    let mut any = false;
    for b in digits {
        let Some(d) = char::from(*b).to_digit(radix) else { break };
        any = true;
        value = value.checked_mul(u64::from(radix))?.checked_add(u64::from(d))?;
    }
    any.then(|| if negative { value.wrapping_neg() } else { value })
}

/// Applies a `bitmask` and the shift that belongs to it.
pub(crate) fn masked(value: u64, bitmask: Option<(u32, u8)>) -> u64 {
    match bitmask {
        Some((mask, shift)) => (value & u64::from(mask)).checked_shr(u32::from(shift)).unwrap_or(0),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_texts() {
        let b = b"\x01\x02\x03\x04 0x1f 017 -1";
        assert_eq!(parse_number(b, 0, 2, ByteOrder::Big, None, false), Some(0x0102));
        assert_eq!(parse_number(b, 0, 4, ByteOrder::Little, None, false), Some(0x0403_0201));
        assert_eq!(parse_number(b, 0, 2, ByteOrder::Dce, None, true), Some(0x0201));
        assert_eq!(parse_number(b, 4, 5, ByteOrder::Big, Some(TextBase::Hex), false), Some(0x1f));
        assert_eq!(parse_number(b, 10, 3, ByteOrder::Big, Some(TextBase::Dec), false), Some(17));
        assert_eq!(parse_number(b, 10, 3, ByteOrder::Big, Some(TextBase::Oct), false), Some(15));
        assert_eq!(parse_number(b, 14, 4, ByteOrder::Big, None, false), None);
    }
}

//! Comparisons of whole numbers as rules write them (`ttl:<10`, `dsize:100<>200`, `&0x40=0x40`).
//!
//! One form serves every integer keyword: the text is read once with the width of its field, so
//! that a comparison which can never hold (or always holds) is refused at load.

use gabion_record::applayer::IntegerWidth;

/// A comparison with constant operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IntegerMatch {
    /// Equal.
    Equal(u64),
    /// Different.
    Differs(u64),
    /// Less.
    Less(u64),
    /// Less or equal.
    LessOrEqual(u64),
    /// Greater.
    Greater(u64),
    /// Greater or equal.
    GreaterOrEqual(u64),
    /// Strictly between the two.
    Between(u64, u64),
    /// Not strictly between the two.
    Outside(u64, u64),
    /// `value & mask == wanted`.
    Mask {
        /// Bits examined.
        mask: u64,
        /// What they must be.
        wanted: u64,
    },
    /// `value & mask != unwanted`.
    NotMask {
        /// Bits examined.
        mask: u64,
        /// What they must not be.
        unwanted: u64,
    },
}

impl IntegerMatch {
    /// Whether the comparison holds for the value.
    #[inline]
    pub fn matches(self, value: u64) -> bool {
        match self {
            IntegerMatch::Equal(n) => value == n,
            IntegerMatch::Differs(n) => value != n,
            IntegerMatch::Less(n) => value < n,
            IntegerMatch::LessOrEqual(n) => value <= n,
            IntegerMatch::Greater(n) => value > n,
            IntegerMatch::GreaterOrEqual(n) => value >= n,
            IntegerMatch::Between(a, b) => value > a && value < b,
            IntegerMatch::Outside(a, b) => value <= a || value >= b,
            IntegerMatch::Mask { mask, wanted } => value & mask == wanted,
            IntegerMatch::NotMask { mask, unwanted } => value & mask != unwanted,
        }
    }

    /// Reads the text after an integer keyword. `names` may stand for values.
    ///
    /// `None` when it is no comparison, when a number does not fit the width, when a range holds
    /// nothing (`5-6`), or when it can never hold (`<0`).
    pub fn parse(text: &str, width: IntegerWidth, names: &[(&str, u64)]) -> Option<IntegerMatch> {
        let max = max_of(width);
        let t = text.trim();
        let number = |s: &str| number_with_unit(s.trim()).filter(|n| *n <= max);
        if let Some(rest) = t.strip_prefix("&") {
            return mask(rest, &number);
        }
        if let Some(rest) = t.strip_prefix(">=") {
            return number(rest).filter(|n| *n > 0).map(IntegerMatch::GreaterOrEqual);
        }
        if let Some(rest) = t.strip_prefix("<=") {
            return number(rest).filter(|n| *n < max).map(IntegerMatch::LessOrEqual);
        }
        if let Some(rest) = t.strip_prefix('>') {
            return number(rest).filter(|n| *n < max).map(IntegerMatch::Greater);
        }
        if let Some(rest) = t.strip_prefix('<') {
            return number(rest).filter(|n| *n > 0).map(IntegerMatch::Less);
        }
        if let Some(rest) = t.strip_prefix("!=") {
            return number(rest).map(IntegerMatch::Differs);
        }
        if let Some(rest) = t.strip_prefix('=') {
            return number(rest).map(IntegerMatch::Equal);
        }
        let (negated, written) = match t.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, t),
        };
        let rest = written.trim();
        // A name may stand alone and behind `!`, and in no other comparison.
        if let Some(n) = operand(rest.trim(), max, names) {
            return Some(if negated { IntegerMatch::Differs(n) } else { IntegerMatch::Equal(n) });
        }
        let (a, b) = rest.split_once("<>").or_else(|| rest.split_once('-'))?;
        let (a, b) = (number(a)?, number(b)?);
        // nothing lies strictly between neighbors, and a range follows its `!` at once
        if b <= a || b - a <= 1 || (negated && written.starts_with(' ')) {
            return None;
        }
        Some(if negated { IntegerMatch::Outside(a, b) } else { IntegerMatch::Between(a, b) })
    }
}

impl IntegerMatch {
    /// Reads the text after a keyword whose value is a set of flags: a comparison of the number, or
    /// flags by name with commas between them, each with `!` before it when it must not be set.
    ///
    /// Commas may be left out, as in Suricata 8.0.7.
    pub fn parse_flags(
        text: &str,
        width: IntegerWidth,
        bits: &[(&str, u64)],
    ) -> Option<IntegerMatch> {
        if let Some(number) = IntegerMatch::parse(text, width, &[]) {
            return Some(number);
        }
        let (mut mask, mut wanted) = (0, 0);
        let mut rest = text.trim_start();
        loop {
            let (negated, name) = match rest.strip_prefix('!') {
                Some(name) => (true, name),
                None => (false, rest),
            };
            let begins = bits.iter().filter(|(flag, _)| name.starts_with(flag));
            let (flag, bit) = begins.max_by_key(|(flag, _)| flag.len())?;
            let behind = name.get(flag.len()..)?.trim_start();
            if mask & bit != 0 {
                return None;
            }
            mask |= bit;
            wanted |= if negated { 0 } else { *bit };
            rest = behind.strip_prefix(',').unwrap_or(behind).trim_start();
            if rest.is_empty() {
                return Some(IntegerMatch::Mask { mask, wanted });
            }
        }
    }
}

/// The largest value of a width.
pub(crate) fn max_of(width: IntegerWidth) -> u64 {
    match width {
        IntegerWidth::U8 => u64::from(u8::MAX),
        IntegerWidth::U16 => u64::from(u16::MAX),
        IntegerWidth::U32 => u64::from(u32::MAX),
        IntegerWidth::U64 => u64::MAX,
    }
}

fn mask(rest: &str, number: &impl Fn(&str) -> Option<u64>) -> Option<IntegerMatch> {
    let (is_negated, parts) = match rest.split_once("!=") {
        Some(parts) => (true, parts),
        None => (false, rest.split_once('=')?),
    };
    let (mask, value) = (number(parts.0)?, number(parts.1)?);
    // Bits outside the mask are never set.
    if value & !mask != 0 {
        return None;
    }
    Some(if is_negated {
        IntegerMatch::NotMask { mask, unwanted: value }
    } else {
        IntegerMatch::Mask { mask, wanted: value }
    })
}

fn operand(text: &str, max: u64, names: &[(&str, u64)]) -> Option<u64> {
    if let Some(n) = number_with_unit(text) {
        return (n <= max).then_some(n);
    }
    names.iter().find(|(name, _)| name.eq_ignore_ascii_case(text)).map(|(_, n)| *n)
}

/// A decimal or `0x` number, or a decimal one with a unit of size (`kb`, `MiB`).
pub(crate) fn number_with_unit(text: &str) -> Option<u64> {
    if let Some(hex) = text.strip_prefix("0x") {
        if hex.is_empty() || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        return u64::from_str_radix(hex, 16).ok();
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (n, unit) = text.split_at_checked(digits)?;
    let n: u64 = n.parse().ok()?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "kb" | "kib" => 1 << 10,
        "mb" | "mib" => 1 << 20,
        "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    n.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The forms are those of Suricata's flow.age test (rules/flow_age) and its documentation.
    #[test]
    fn every_written_form_is_read() {
        use IntegerMatch::*;
        for (text, wanted) in [
            ("5", Some(Equal(5))),
            ("=5", Some(Equal(5))),
            ("!5", Some(Differs(5))),
            ("!=5", Some(Differs(5))),
            ("<5", Some(Less(5))),
            ("<=5", Some(LessOrEqual(5))),
            (">5", Some(Greater(5))),
            (">= 5", Some(GreaterOrEqual(5))),
            ("1-5", Some(Between(1, 5))),
            ("1<>5", Some(Between(1, 5))),
            ("!1-5", Some(Outside(1, 5))),
            ("&0x40=64", Some(Mask { mask: 64, wanted: 64 })),
            ("&0x40!=64", Some(NotMask { mask: 64, unwanted: 64 })),
            ("0x10", Some(Equal(16))),
            ("1MiB", Some(Equal(1 << 20))),
            ("4-5", None),
            ("<0", None),
            ("seven", None),
        ] {
            assert_eq!(IntegerMatch::parse(text, IntegerWidth::U32, &[]), wanted, "{text}");
        }
        assert_eq!(IntegerMatch::parse("256", IntegerWidth::U8, &[]), None);
        assert_eq!(
            IntegerMatch::parse("!query", IntegerWidth::U8, &[("QUERY", 0)]),
            Some(Differs(0))
        );
    }

    #[test]
    fn flags_are_listed_by_name() {
        use IntegerMatch::*;
        let bits = [("dup", 8), ("retain", 1)];
        // Each as Suricata 8.0.7 takes or refuses it for mqtt.flags.
        for (text, wanted) in [
            ("dup", Some(Mask { mask: 8, wanted: 8 })),
            (" !dup", Some(Mask { mask: 8, wanted: 0 })),
            ("retain , !dup", Some(Mask { mask: 9, wanted: 1 })),
            ("dup,", Some(Mask { mask: 8, wanted: 8 })),
            ("dup retain", Some(Mask { mask: 9, wanted: 9 })),
            ("!retain!dup", Some(Mask { mask: 9, wanted: 0 })),
            ("&1=1", Some(Mask { mask: 1, wanted: 1 })),
            (">0", Some(Greater(0))),
            ("0x1", Some(Equal(1))),
            ("DUP", None),
            ("dup!", None),
            ("dup,any", None),
            ("! dup", None),
            ("!", None),
            ("dup|retain", None),
            ("dup,dup", None),
            ("300", None),
        ] {
            assert_eq!(IntegerMatch::parse_flags(text, IntegerWidth::U8, &bits), wanted, "{text}");
        }
    }

    #[test]
    fn bounds_are_exclusive() {
        let m = IntegerMatch::parse("10<>13", IntegerWidth::U32, &[]).unwrap();
        assert_eq!([10, 11, 12, 13].map(|n| m.matches(n)), [false, true, true, false]);
    }
}

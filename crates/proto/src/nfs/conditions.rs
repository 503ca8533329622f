//! Conditions that rules may set on calls: comparisons of the procedure's number and of the version. Unlike
//! those of other keywords, their ranges include both ends (Suricata 8.0.7).

use super::procedure::rule_number;
use super::tx::NfsTx;
use gabion_record::Direction::{self, ToServer};
use gabion_record::applayer::{ConditionDef, ConditionError, Hook, TxCondition};
use std::any::Any;
use std::sync::Arc;

const REQUESTS: &[Hook] = &[Hook::new(ToServer, 0, 0)];

/// The keywords.
pub(super) const CONDITIONS: &[ConditionDef] = &[
    ConditionDef { name: "nfs_procedure", aliases: &[], parse: parse_procedure, hooks: REQUESTS },
    ConditionDef {
        name: "nfs.version",
        aliases: &["nfs_version"],
        parse: parse_version,
        hooks: REQUESTS,
    },
];

/// A number of a call lies between these, or does not.
#[derive(Debug)]
struct NumberTest {
    of: fn(&NfsTx) -> u32,
    first: u32,
    last: u32,
    is_negated: bool,
}

impl TxCondition for NumberTest {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let Some(tx) = tx.downcast_ref::<NfsTx>() else { return false };
        (self.first..=self.last).contains(&(self.of)(tx)) != self.is_negated
    }
}

fn parse_procedure(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    parse_test("nfs_procedure", value, |tx| rule_number(tx.version, tx.procedure))
}

fn parse_version(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    parse_test("nfs.version", value, |tx| tx.version)
}

fn parse_test(
    keyword: &'static str,
    value: Option<&str>,
    of: fn(&NfsTx) -> u32,
) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = value.ok_or(ConditionError::NeedsValue { keyword })?.trim();
    let (is_negated, first, last) = parse_range(text).ok_or(ConditionError::NotANumber)?;
    if first > last {
        return Err(ConditionError::EmptyRange);
    }
    Ok(Arc::new(NumberTest { of, first, last, is_negated }))
}

/// Whether it is negated, and the first and last number that meet a comparison.
fn parse_range(text: &str) -> Option<(bool, u32, u32)> {
    for (sign, is_less, has_end) in
        [("<=", true, true), (">=", false, true), ("<", true, false), (">", false, false)]
    {
        let Some(rest) = text.strip_prefix(sign) else { continue };
        let n = parse_number(rest)?;
        return Some(match (is_less, has_end) {
            (true, true) => (false, 0, n),
            (true, false) => (false, 0, n.checked_sub(1)?),
            (false, true) => (false, n, u32::MAX),
            (false, false) => (false, n.checked_add(1)?, u32::MAX),
        });
    }
    let (is_negated, rest) = match text.strip_prefix('!') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    let rest = rest.strip_prefix('=').unwrap_or(rest);
    if let Some((first, last)) = rest.split_once("<>").or_else(|| rest.split_once('-')) {
        return Some((is_negated, parse_number(first)?, parse_number(last)?));
    }
    let n = parse_number(rest)?;
    Some((is_negated, n, n))
}

fn parse_number(text: &str) -> Option<u32> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok().filter(|_| !text.starts_with('+')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the procedures 0 to 7 meet a comparison, as Suricata 8.0.7 alerts.
    #[test]
    fn ranges_include_their_ends() {
        let cases: [(&str, &[u32]); 9] = [
            ("2<>5", &[2, 3, 4, 5]),
            ("2-5", &[2, 3, 4, 5]),
            ("4<>5", &[4, 5]),
            ("!2<>5", &[0, 1, 6, 7]),
            ("<3", &[0, 1, 2]),
            ("<=3", &[0, 1, 2, 3]),
            (">5", &[6, 7]),
            ("!5", &[0, 1, 2, 3, 4, 6, 7]),
            ("0x05", &[5]),
        ];
        for (text, expected) in cases {
            let test = parse_procedure(Some(text)).unwrap();
            let meets = |n: &u32| test.matches(&NfsTx::new(0, 0, 3, *n), ToServer);
            assert_eq!((0..8).filter(meets).collect::<Vec<_>>(), expected, "{text}");
        }
        assert!(["5<>2", "", "READ", "<0"].iter().all(|t| parse_procedure(Some(t)).is_err()));
        assert!(parse_version(None).is_err());
    }
}

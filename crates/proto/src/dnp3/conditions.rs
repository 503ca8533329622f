//! Conditions that rules may set on DNP3's messages.

use super::tables::{FUNCTION_NAMES, INDICATION_NAMES, ON_BOTH};
use super::tx::Dnp3Tx;
use gabion_record::Direction;
use gabion_record::applayer::{ConditionDef, ConditionError, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// The keywords.
pub(super) const CONDITIONS: &[ConditionDef] = &[
    ConditionDef {
        name: "dnp3_func",
        aliases: &["dnp3.func"],
        parse: parse_function,
        hooks: ON_BOTH,
    },
    ConditionDef {
        name: "dnp3_ind",
        aliases: &["dnp3.ind"],
        parse: parse_indications,
        hooks: ON_BOTH,
    },
    ConditionDef { name: "dnp3_obj", aliases: &["dnp3.obj"], parse: parse_object, hooks: ON_BOTH },
];

/// Indications that Suricata 8.0.7 compares: not the upper half of the second octet.
const COMPARED: u16 = 0xff0f;

#[derive(Debug)]
enum Condition {
    Function(u8),
    /// Some of these is set.
    Indications(u16),
    Object(u8, u8),
}

impl TxCondition for Condition {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let Some(tx) = tx.downcast_ref::<Dnp3Tx>() else { return false };
        match *self {
            Condition::Function(code) => tx.function() == Some(code),
            Condition::Indications(bits) => {
                tx.indications().is_some_and(|set| set & bits & COMPARED != 0)
            }
            Condition::Object(group, variation) => tx.objects.contains(&(group, variation)),
        }
    }
}

fn text<'a>(keyword: &'static str, value: Option<&'a str>) -> Result<&'a str, ConditionError> {
    value.map(str::trim).filter(|v| !v.is_empty()).ok_or(ConditionError::NeedsValue { keyword })
}

fn parse_function(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = text("dnp3_func", value)?;
    let named = FUNCTION_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
    let code = match named {
        Some((_, code)) => *code,
        None => text.parse().map_err(|_| ConditionError::NotOneOf {
            keyword: "dnp3_func",
            text: text.to_owned(),
            expected: "a function code of DNP3",
        })?,
    };
    Ok(Arc::new(Condition::Function(code)))
}

/// A number in decimal or, after `0x`, in hexadecimal.
fn parse_number(text: &str) -> Option<u16> {
    match text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        Some(hex) => u16::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn parse_indications(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = text("dnp3_ind", value)?;
    if let Some(bits) = parse_number(text) {
        return Ok(Arc::new(Condition::Indications(bits)));
    }
    let mut bits = 0;
    for word in text.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        let found = INDICATION_NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
        let Some((_, bit)) = found else {
            return Err(ConditionError::NotOneOf {
                keyword: "dnp3_ind",
                text: word.to_owned(),
                expected: "an internal indication of DNP3",
            });
        };
        bits |= bit;
    }
    Ok(Arc::new(Condition::Indications(bits)))
}

fn parse_object(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = text("dnp3_obj", value)?;
    let both = text.split_once(',').and_then(|(group, variation)| {
        Some((group.trim().parse().ok()?, variation.trim().parse().ok()?))
    });
    // Suricata 8.0.7 reports an error and takes the rule without this condition.
    let (group, variation) = both.ok_or_else(|| ConditionError::NotOneOf {
        keyword: "dnp3_obj",
        text: text.to_owned(),
        expected: "GROUP,VARIATION",
    })?;
    Ok(Arc::new(Condition::Object(group, variation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which values Suricata 8.0.7 takes; it drops a wrong `dnp3_obj` where this refuses the rule.
    #[test]
    fn values() {
        for good in ["read", "READ", " read ", "1", "0", "255", "authenticate_resp"] {
            assert!(parse_function(Some(good)).is_ok(), "{good}");
        }
        for bad in ["256", "-1", "0x1", "foo", "read,write", ""] {
            assert!(parse_function(Some(bad)).is_err(), "{bad}");
        }
        for good in ["0x10", "65535", "need_time", "CLASS_1_EVENTS", "need_time,,class_1_events"] {
            assert!(parse_indications(Some(good)).is_ok(), "{good}");
        }
        for bad in ["65536", "foo", "need_time,foo", "1,2", ""] {
            assert!(parse_indications(Some(bad)).is_err(), "{bad}");
        }
        assert!(parse_object(Some(" 1 , 2 ")).is_ok());
        for bad in ["1", "256,1", "a,b", "1,"] {
            assert!(parse_object(Some(bad)).is_err(), "{bad}");
        }
        assert!(parse_object(None).is_err());
    }
}

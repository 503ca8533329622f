//! Keywords of Kerberos that are not buffers: types of messages, errors, encryption of tickets.

use super::names::{encryption_by_name, is_weak};
use super::tx::KrbTx;
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{ConditionDef, ConditionError, ConditionParser, Hook, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// The keywords.
pub(super) const CONDITIONS: &[ConditionDef] = &[
    condition("krb5_msg_type", msg_type),
    condition("krb5_err_code", err_code),
    condition("krb5.ticket_encryption", ticket_encryption),
];

const BOTH: &[Hook] = &[Hook::new(ToServer, 1, 0), Hook::new(ToClient, 1, 0)];

const fn condition(name: &'static str, parse: ConditionParser) -> ConditionDef {
    ConditionDef { name, aliases: &[], parse, hooks: BOTH }
}

type Parsed = Result<Arc<dyn TxCondition>, ConditionError>;

/// A condition on a message.
#[derive(Debug)]
enum Condition {
    MessageType(u8),
    Error(i32),
    /// The ticket's encryption is weak, or is not.
    Weak(bool),
    OneOf(Vec<i32>),
}

impl TxCondition for Condition {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let Some(message) = tx.downcast_ref::<KrbTx>().map(|tx| &tx.message) else { return false };
        match self {
            Condition::MessageType(wanted) => message.kind == *wanted,
            Condition::Error(wanted) => message.error == Some(*wanted),
            Condition::Weak(wanted) => {
                message.ticket_encryption.is_some_and(|kind| is_weak(kind) == *wanted)
            }
            Condition::OneOf(wanted) => {
                message.ticket_encryption.is_some_and(|kind| wanted.contains(&kind))
            }
        }
    }
}

/// Digits and nothing else, spaces around them aside.
fn digits<T: std::str::FromStr>(
    value: Option<&str>,
    keyword: &'static str,
) -> Result<T, ConditionError> {
    let text = value.map(str::trim).ok_or(ConditionError::NeedsValue { keyword })?;
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or(ConditionError::NotANumber)
}

/// `krb5_msg_type:10`.
fn msg_type(value: Option<&str>) -> Parsed {
    Ok(Arc::new(Condition::MessageType(digits(value, "krb5_msg_type")?)))
}

/// `krb5_err_code:25`. Suricata 8.0.7 takes three letters, digits, points or signs at most, and passes over what follows
/// the digits at the beginning.
fn err_code(value: Option<&str>) -> Parsed {
    let keyword = "krb5_err_code";
    let text = value.map(str::trim).ok_or(ConditionError::NeedsValue { keyword })?;
    let counts = |b: u8| b.is_ascii_alphanumeric() || b".[\\]^_`".contains(&b);
    if text.len() > 3 || !text.bytes().all(counts) {
        return Err(ConditionError::NotANumber);
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number = text.get(..end).and_then(|digits| digits.parse().ok());
    Ok(Arc::new(Condition::Error(number.ok_or(ConditionError::NotANumber)?)))
}

/// `krb5.ticket_encryption:weak`, `!weak`, or a list of numbers and names.
fn ticket_encryption(value: Option<&str>) -> Parsed {
    let keyword = "krb5.ticket_encryption";
    let text = value.map(str::trim).filter(|t| !t.is_empty());
    let text = text.ok_or(ConditionError::NeedsValue { keyword })?;
    match text {
        "weak" => return Ok(Arc::new(Condition::Weak(true))),
        "!weak" => return Ok(Arc::new(Condition::Weak(false))),
        _ => {}
    }
    let mut wanted = Vec::new();
    for item in text.split([',', ' ']).filter(|item| !item.is_empty()) {
        let number = item.parse().ok().filter(|_| !item.starts_with('+'));
        let number = number.or_else(|| encryption_by_name(item));
        wanted.push(number.ok_or_else(|| ConditionError::NotOneOf {
            keyword,
            text: item.to_owned(),
            expected: "a type of encryption",
        })?);
    }
    Ok(Arc::new(Condition::OneOf(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Suricata 8.0.7 takes and refuses.
    #[test]
    fn values_of_the_keywords() {
        for text in ["weak", "!weak", "rc4-hmac,23 18", "-133", "23 , 18"] {
            assert!(ticket_encryption(Some(text)).is_ok(), "{text}");
        }
        for text in ["!rc4-hmac", "foo", "RC4-HMAC", "weak,23", ""] {
            assert!(ticket_encryption(Some(text)).is_err(), "{text}");
        }
        for text in ["10", " 10 "] {
            assert!(msg_type(Some(text)).is_ok() && err_code(Some(text)).is_ok());
        }
        for text in ["abc", "10-12", "0x0a", "300", ">10", "10abc", "-1", ""] {
            assert!(msg_type(Some(text)).is_err(), "{text}");
        }
        assert!(
            err_code(Some("300")).is_ok()
                && err_code(Some("!0")).is_err()
                && err_code(None).is_err()
        );
    }
}

//! Conditions that rules may set on frames: their kinds, errors and settings.
//!
//! What Suricata 8.0.7 takes and refuses was measured: kinds by the standard's names without `_` or by number,
//! errors by the standard's names or by number, settings by the standard's names alone.

use super::frame::{self, kind};
use super::tx::Http2Tx;
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{ConditionDef, ConditionError, Hook, TxCondition};
use std::any::Any;
use std::sync::Arc;

const BOTH: &[Hook] = &[Hook::new(ToServer, 0, 0), Hook::new(ToClient, 0, 0)];

/// The keywords.
pub(crate) const CONDITIONS: &[ConditionDef] = &[
    ConditionDef { name: "http2.frametype", aliases: &[], parse: parse_frametype, hooks: BOTH },
    ConditionDef { name: "http2.errorcode", aliases: &[], parse: parse_errorcode, hooks: BOTH },
    ConditionDef { name: "http2.settings", aliases: &[], parse: parse_settings, hooks: BOTH },
];

/// A frame of this kind came.
#[derive(Debug)]
struct HasKind(u8);

impl TxCondition for HasKind {
    fn matches(&self, tx: &dyn Any, direction: Direction) -> bool {
        let tx = tx.downcast_ref::<Http2Tx>();
        tx.is_some_and(|tx| tx.side(direction).has_kind(self.0))
    }
}

/// A frame reset the stream or ended the connection with this error.
#[derive(Debug)]
struct HasError(u32);

impl TxCondition for HasError {
    fn matches(&self, tx: &dyn Any, direction: Direction) -> bool {
        let Some(tx) = tx.downcast_ref::<Http2Tx>() else { return false };
        let side = tx.side(direction);
        let first = side.error().into_iter().map(|(code, _)| code);
        let others = side.more().iter().filter(|(from, _)| *from != kind::PRIORITY).map(|m| m.1);
        first.chain(others).any(|code| code == self.0)
    }
}

/// A setting is in this range.
#[derive(Debug)]
struct HasSetting {
    id: u16,
    least: u64,
    most: u64,
}

impl TxCondition for HasSetting {
    fn matches(&self, tx: &dyn Any, direction: Direction) -> bool {
        let Some(tx) = tx.downcast_ref::<Http2Tx>() else { return false };
        let mut settings = tx.side(direction).settings().into_iter().flatten();
        settings.any(|(id, value)| {
            *id == self.id && (self.least..=self.most).contains(&u64::from(*value))
        })
    }
}

fn text_of<'t>(keyword: &'static str, value: Option<&'t str>) -> Result<&'t str, ConditionError> {
    value.map(str::trim).filter(|v| !v.is_empty()).ok_or(ConditionError::NeedsValue { keyword })
}

fn parse_frametype(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = text_of("http2.frametype", value)?;
    let is_it = |name: &&str| name.replace('_', "").eq_ignore_ascii_case(text);
    let named = kind::NAMES.iter().position(is_it).and_then(|at| u8::try_from(at).ok());
    let kind = named.or_else(|| text.parse().ok()).ok_or_else(|| ConditionError::NotOneOf {
        keyword: "http2.frametype",
        text: text.to_owned(),
        expected: "a kind of frame",
    })?;
    Ok(Arc::new(HasKind(kind)))
}

fn parse_errorcode(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = text_of("http2.errorcode", value)?;
    let code = frame::error_code(text).or_else(|| text.parse().ok());
    let code = code.ok_or_else(|| ConditionError::NotOneOf {
        keyword: "http2.errorcode",
        text: text.to_owned(),
        expected: "a code of an error",
    })?;
    Ok(Arc::new(HasError(code)))
}

fn parse_settings(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = text_of("http2.settings", value)?;
    let refused = || ConditionError::NotOneOf {
        keyword: "http2.settings",
        text: text.to_owned(),
        expected: "a setting, or a setting with a comparison",
    };
    let end = text.find(|c: char| !(c.is_ascii_alphabetic() || c == '_')).unwrap_or(text.len());
    let (name, comparison) = text.split_at(end);
    let known = frame::SETTINGS.iter().find(|(_, known)| known.eq_ignore_ascii_case(name));
    let (id, _) = known.ok_or_else(refused)?;
    // Suricata 8.0.7 passes over what follows a number, and over all after a sign that no number follows.
    let comparison = comparison.trim();
    let end = comparison.find(|c: char| !(c.is_ascii_digit() || "<>=- ".contains(c)));
    if end == Some(0) {
        return Err(refused());
    }
    let begun = comparison.get(..end.unwrap_or(comparison.len())).unwrap_or_default();
    let found = parse_comparison(begun.trim_end());
    let is_sign = comparison.starts_with(['<', '>']);
    let (least, most) =
        found.or_else(|| is_sign.then(|| (0, u64::from(u32::MAX)))).ok_or_else(refused)?;
    Ok(Arc::new(HasSetting { id: *id, least, most }))
}

/// The least and the largest number that meet a comparison; none: all do.
fn parse_comparison(text: &str) -> Option<(u64, u64)> {
    let most = u64::from(u32::MAX);
    let number = |t: &str| t.trim().parse::<u32>().ok().map(u64::from);
    if text.is_empty() {
        return Some((0, most));
    }
    if let Some((low, high)) = text.split_once("<>").or_else(|| text.split_once('-')) {
        let (low, high) = (number(low)?, number(high)?);
        return (low + 1 < high).then(|| (low + 1, high - 1));
    }
    if let Some(rest) = text.strip_prefix(">=") {
        return Some((number(rest)?, most));
    }
    if let Some(rest) = text.strip_prefix("<=") {
        return Some((0, number(rest)?));
    }
    if let Some(rest) = text.strip_prefix('>') {
        return Some((number(rest)? + 1, most));
    }
    if let Some(rest) = text.strip_prefix('<') {
        return Some((0, number(rest)?.checked_sub(1)?));
    }
    let n = number(text.strip_prefix('=').unwrap_or(text))?;
    Some((n, n))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a run of Suricata 8.0.7 loaded and refused.
    #[test]
    fn values_are_taken_as_by_suricata() {
        for (text, is_good) in [
            ("rststream", true),
            ("WINDOWUPDATE", true),
            ("3", true),
            ("RST_STREAM", false),
            (">3", false),
            ("!DATA", false),
            ("300", false),
        ] {
            assert_eq!(parse_frametype(Some(text)).is_ok(), is_good, "{text}");
        }
        for (text, is_good) in [
            ("internal_error", true),
            ("2", true),
            ("HTTP_1_1_REQUIRED", true),
            ("INTERNALERROR", false),
            ("!2", false),
        ] {
            assert_eq!(parse_errorcode(Some(text)).is_ok(), is_good, "{text}");
        }
        for (text, is_good) in [
            ("SETTINGS_ENABLE_PUSH=0", true),
            ("SETTINGS_ENABLE_PUSH 0", true),
            ("settings_enable_push", true),
            ("SETTINGS_MAX_HEADER_LIST_SIZE >1024", true),
            ("SETTINGSENABLEPUSH=0", false),
            ("ENABLE_PUSH=0", false),
            ("3>50", false),
            ("SETTINGS_ENABLE_PUSH!=0", false),
        ] {
            assert_eq!(parse_settings(Some(text)).is_ok(), is_good, "{text}");
        }
        assert_eq!(parse_comparison("50-200"), Some((51, 199)));
        assert_eq!(parse_comparison("50<>200"), Some((51, 199)));
    }
}

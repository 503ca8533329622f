//! `ike.chosen_sa_attribute`: an attribute of what a responder chose.

use super::tx::IkeTx;
use gabion_record::Direction;
use gabion_record::applayer::{ConditionDef, ConditionError, Hook, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// Attributes that rules may name.
const KEYS: &[&str] = &[
    "alg_enc",
    "alg_hash",
    "alg_prf",
    "alg_auth",
    "alg_dh",
    "sa_group_type",
    "sa_life_type",
    "sa_life_duration",
    "sa_key_length",
    "sa_field_size",
];

/// The keyword.
pub(super) const CONDITIONS: &[ConditionDef] = &[ConditionDef {
    name: "ike.chosen_sa_attribute",
    aliases: &[],
    parse: chosen_sa_attribute,
    hooks: &[Hook::new(Direction::ToClient, 1, 0)],
}];

#[derive(Debug)]
struct Chosen {
    key: &'static str,
    value: u32,
}

impl TxCondition for Chosen {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let Some(tx) = tx.downcast_ref::<IkeTx>() else { return false };
        tx.chosen.iter().any(|(key, value)| *key == self.key && *value == self.value)
    }
}

/// `ike.chosen_sa_attribute:alg_enc=7`.
fn chosen_sa_attribute(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let keyword = "ike.chosen_sa_attribute";
    let text = value.ok_or(ConditionError::NeedsValue { keyword })?;
    let wrong = || ConditionError::NotOneOf {
        keyword,
        text: text.to_owned(),
        expected: "an attribute, `=` and a number",
    };
    let (key, number) = text.split_once('=').ok_or_else(wrong)?;
    let key = KEYS.iter().find(|k| **k == key.trim()).ok_or_else(wrong)?;
    let number = number.trim();
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let value = number.parse().map_err(|_| wrong())?;
    Ok(Arc::new(Chosen { key, value }))
}

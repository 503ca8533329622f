//! The condition that rules may set on services of the Common Industrial Protocol.

use super::tables::both;
use super::tx::EnipTx;
use gabion_record::Direction;
use gabion_record::applayer::{ConditionDef, ConditionError, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// The keyword.
pub(super) const CONDITIONS: &[ConditionDef] =
    &[ConditionDef { name: "cip_service", aliases: &[], parse: parse_service, hooks: &both(0) }];

#[derive(Debug)]
struct Service {
    number: u8,
    class: Option<u32>,
    attribute: Option<u32>,
}

impl TxCondition for Service {
    fn matches(&self, tx: &dyn Any, direction: Direction) -> bool {
        let tx = tx.downcast_ref::<EnipTx>();
        tx.is_some_and(|tx| tx.has_service(direction, self.number, self.class, self.attribute))
    }
}

/// `cip_service:16,246,6`: a service, and perhaps a class and an attribute.
fn parse_service(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let keyword = "cip_service";
    let text = value.ok_or(ConditionError::NeedsValue { keyword })?;
    let wrong = || ConditionError::NotOneOf {
        keyword,
        text: text.to_owned(),
        expected: "SERVICE, SERVICE,CLASS or SERVICE,CLASS,ATTRIBUTE",
    };
    let mut numbers = text.split(',').map(|n| n.trim().parse::<u32>().map_err(|_| wrong()));
    let first = numbers.next().ok_or_else(wrong)??;
    let number = i8::try_from(first).map_err(|_| wrong())?.unsigned_abs();
    let (class, attribute) = (numbers.next().transpose()?, numbers.next().transpose()?);
    if numbers.next().is_some() {
        return Err(wrong());
    }
    Ok(Arc::new(Service { number, class, attribute }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which values Suricata 8.0.7 takes.
    #[test]
    fn values() {
        for good in ["75", "16,246,6", " 1 , 2 ", "127", "1,4294967295", "1,2,65536"] {
            assert!(parse_service(Some(good)).is_ok(), "{good}");
        }
        for bad in ["128", "256", "1,2,3,4", "0x10", "1,,", "a", ">5", "1-5", "!1", "Reset", ""] {
            assert!(parse_service(Some(bad)).is_err(), "{bad}");
        }
    }
}

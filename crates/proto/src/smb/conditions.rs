//! The condition that rules may set on SMB's transactions.

use super::tx::SmbTx;
use crate::dcerpc::conditions::{interface, operation};
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{ConditionDef, ConditionError, Hook, TxCondition};
use std::any::Any;
use std::sync::Arc;

const BOTH: &[Hook] = &[Hook::new(ToServer, 0, 0), Hook::new(ToClient, 0, 0)];

/// The keywords.
pub(super) const CONDITIONS: &[ConditionDef] = &[
    ConditionDef { name: "smb.version", aliases: &[], parse: version, hooks: BOTH },
    interface(BOTH),
    operation(BOTH),
];

#[derive(Debug)]
struct Version(u8);

impl TxCondition for Version {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        tx.downcast_ref::<SmbTx>().is_some_and(|tx| tx.version == self.0)
    }

    fn is_single(&self) -> bool {
        true
    }
}

fn version(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    match value.unwrap_or_default().trim() {
        "1" => Ok(Arc::new(Version(1))),
        "2" => Ok(Arc::new(Version(2))),
        text => Err(ConditionError::NotOneOf {
            keyword: "smb.version",
            text: text.to_owned(),
            expected: "1 or 2",
        }),
    }
}

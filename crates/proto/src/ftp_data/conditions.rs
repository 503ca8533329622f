//! The condition that rules may set on a data connection.

use super::parser::FtpDataTx;
use super::tables::on_data;
use crate::ftp::command::Transfer;
use gabion_record::Direction;
use gabion_record::applayer::{ConditionDef, ConditionError, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// The keyword.
pub(super) const CONDITIONS: &[ConditionDef] = &[ConditionDef {
    name: "ftpdata_command",
    aliases: &[],
    parse: data_command,
    hooks: &on_data(0),
}];

#[derive(Debug)]
struct DataCommand(Transfer);

impl TxCondition for DataCommand {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        tx.downcast_ref::<FtpDataTx>().is_some_and(|tx| tx.command() == Some(self.0))
    }
}

/// Names in lower case only, as in Suricata.
fn data_command(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = value.unwrap_or_default();
    let is_it = |t: &Transfer| t.name().to_ascii_lowercase() == text;
    match Transfer::ALL.into_iter().find(is_it) {
        Some(transfer) => Ok(Arc::new(DataCommand(transfer))),
        None => Err(ConditionError::NotACommand),
    }
}

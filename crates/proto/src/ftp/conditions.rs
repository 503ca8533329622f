//! Conditions that rules may set on FTP's transactions.

use super::tables::ON_BOTH;
use super::tx::FtpTx;
use gabion_record::Direction::{self, ToClient, ToServer};
use gabion_record::applayer::{ConditionDef, ConditionError, Hook, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// The keywords.
pub(super) const CONDITIONS: &[ConditionDef] = &[
    ConditionDef { name: "ftp.mode", aliases: &[], parse: mode, hooks: ON_BOTH },
    ConditionDef {
        name: "ftp.reply_received",
        aliases: &[],
        parse: reply_received,
        // Whether one came is known when none can come any more.
        hooks: &[Hook::new(ToClient, 1, 0)],
    },
    ConditionDef {
        name: "ftpbounce",
        aliases: &[],
        parse: bounce,
        hooks: &[Hook::new(ToServer, 1, 0)],
    },
];

#[derive(Debug)]
struct Mode {
    is_active: bool,
}

impl TxCondition for Mode {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let Some(tx) = tx.downcast_ref::<FtpTx>() else { return false };
        tx.dynamic_port.is_some() && tx.is_active == self.is_active
    }
}

fn mode(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let text = value.unwrap_or_default().trim();
    let is_active = match text {
        _ if text.eq_ignore_ascii_case("active") => true,
        _ if text.eq_ignore_ascii_case("passive") => false,
        _ => return Err(ConditionError::NotACommand),
    };
    Ok(Arc::new(Mode { is_active }))
}

#[derive(Debug)]
struct Bounce;

impl TxCondition for Bounce {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        tx.downcast_ref::<FtpTx>().is_some_and(|tx| tx.is_bounce)
    }
}

fn bounce(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    match value {
        None => Ok(Arc::new(Bounce)),
        Some(_) => Err(ConditionError::TakesNoValue),
    }
}

#[derive(Debug)]
struct ReplyReceived(bool);

impl TxCondition for ReplyReceived {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        tx.downcast_ref::<FtpTx>().is_some_and(|tx| tx.command.is_some() && tx.is_replied == self.0)
    }
}

fn reply_received(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let truth = gabion_record::config::truth(value.unwrap_or_default());
    match truth {
        Some(yes) => Ok(Arc::new(ReplyReceived(yes))),
        None => Err(ConditionError::NotATruth),
    }
}

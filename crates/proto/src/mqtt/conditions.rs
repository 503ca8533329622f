//! Conditions that rules may set on MQTT's transactions.

use super::tables::{integer, to_client, to_server};
use super::tx::MqttTx;
use gabion_record::Direction;
use gabion_record::applayer::{ConditionDef, ConditionError, TxCondition};
use std::any::Any;
use std::sync::Arc;

/// The keywords.
pub(super) const CONDITIONS: &[ConditionDef] = &[
    ConditionDef { name: "mqtt.qos", aliases: &[], parse: qos, hooks: &to_server(0) },
    ConditionDef {
        name: "mqtt.connack.session_present",
        aliases: &[],
        parse: session_present,
        hooks: &to_client(0),
    },
];

/// Some message has the value: Suricata takes a plain number here, no comparison.
#[derive(Debug)]
struct SomeValue {
    local: u16,
    wanted: u64,
}

impl TxCondition for SomeValue {
    fn matches(&self, tx: &dyn Any, _: Direction) -> bool {
        let Some(tx) = tx.downcast_ref::<MqttTx>() else { return false };
        tx.values(self.local).any(|v| v == self.wanted)
    }
}

fn plain_number(value: Option<&str>) -> Result<u8, ConditionError> {
    value.unwrap_or_default().trim().parse().map_err(|_| ConditionError::NotANumber)
}

fn qos(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let wanted = plain_number(value)?;
    if wanted > 2 {
        return Err(ConditionError::OutOfRange { what: "quality of service", range: "0, 1 or 2" });
    }
    Ok(Arc::new(SomeValue { local: integer::QOS, wanted: wanted.into() }))
}

fn session_present(value: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    let wanted = u64::from(plain_number(value)? != 0);
    Ok(Arc::new(SomeValue { local: integer::SESSION_PRESENT, wanted }))
}

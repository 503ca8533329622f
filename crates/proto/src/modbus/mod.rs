//! Modbus over TCP (MODBUS Application Protocol Specification V1.1b3): the protocol of programmable controllers.
//!
//! `message` reads messages by the functions in `function`, `parser` joins requests and responses to
//! transactions, `conditions` is the keyword `modbus`, `log` writes EVE.

mod conditions;
mod function;
pub mod limits;
mod log;
mod message;
mod parser;
mod settings;
mod tables;
mod tx;

pub use parser::ModbusParser;
pub use settings::Settings;
pub use tx::ModbusTx;

use crate::detect::PortProbe;
use crate::protocol::Protocol;
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// Modbus in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    is_default_on: false,
    is_logged: false,
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "502",
        min_bytes: 0,
        max_bytes: 0,
        probe: parser::probe,
    }],
    stream_depth: Some(0),
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(ModbusParser::new(settings))
    },
    ..Protocol::plain(TABLE)
};

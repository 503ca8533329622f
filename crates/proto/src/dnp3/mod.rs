//! DNP3 over TCP (IEEE 1815-2012): the protocol of telecontrol systems.
//!
//! `link` reads frames, `parser` puts messages together from them, `objects` reads the objects of a
//! message by the table in `layouts`. Each message is a transaction of its own, requests and responses
//! alike (as in Suricata).

mod conditions;
mod layouts;
pub mod limits;
mod link;
mod log;
mod objects;
mod parser;
mod settings;
mod tables;
mod tx;

pub use link::LinkHeader;
pub use objects::{Ending, ObjectHeader, Part, Point, Value, walk_objects};
pub use parser::Dnp3Parser;
pub use settings::{Bounds, Settings};
pub use tx::Dnp3Tx;

use crate::detect::PortProbe;
use crate::protocol::Protocol;
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// DNP3 in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    is_default_on: false,
    is_logged: false,
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "20000",
        min_bytes: 0,
        max_bytes: 0,
        probe: parser::probe,
    }],
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(Dnp3Parser::new(settings))
    },
    ..Protocol::plain(TABLE)
};

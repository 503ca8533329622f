//! MQTT over TCP: 3.1, 3.1.1 and 5 (OASIS mqtt-v3.1.1, mqtt-v5.0).
//!
//! A request with its answers (CONNECT and CONNACK, PUBLISH and its acknowledgements, SUBSCRIBE
//! and SUBACK) is one transaction of the direction in which it began; all other messages are each a
//! transaction of their own. [`message`] reads messages, [`property`] the properties of MQTT 5,
//! [`parser`] joins messages into transactions, [`tables`] says what rules may ask for, [`log`]
//! writes EVE.

mod conditions;
pub mod limits;
pub mod log;
pub mod message;
pub mod parser;
pub mod property;
mod settings;
pub mod tables;
mod tx;

pub use message::{Body, Header, Message};
pub use parser::MqttParser;
pub use settings::Settings;
pub use tx::MqttTx;

use crate::detect::PortProbe;
use crate::protocol::Protocol;
use gabion_record::applayer::{ProtoTable, Transport};
use std::sync::Arc;

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// MQTT in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    probes: &[PortProbe {
        transport: Transport::Tcp,
        ports: "1883",
        min_bytes: 0,
        max_bytes: 16,
        probe: message::probe,
    }],
    eve_logger: "output-json-mqtt",
    eve_sizes: &["string-log-limit"],
    configure: |config| Ok(Arc::new(Settings::from_config(config))),
    open: |settings, _| {
        let settings = settings.downcast_ref::<Settings>().copied().unwrap_or_default();
        Box::new(MqttParser::new(settings))
    },
    ..Protocol::plain(TABLE)
};

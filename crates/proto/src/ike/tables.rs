//! What IKE offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, EventDef, Hook, IntegerDef, IntegerWidth, ProtoTable, Transport,
};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const INIT_SPI: u16 = 0;
    pub(crate) const RESP_SPI: u16 = 1;
    pub(crate) const VENDOR: u16 = 2;
    pub(crate) const KEY_EXCHANGE: u16 = 3;
    pub(crate) const NONCE: u16 = 4;
}

/// Integers by their numbers.
pub(super) mod integer {
    pub(crate) const EXCHANGE: u16 = 0;
    pub(crate) const KEY_EXCHANGE_LEN: u16 = 1;
    pub(crate) const NONCE_LEN: u16 = 2;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const MALFORMED_DATA: u16 = 0;
    pub(crate) const NO_ENCRYPTION: u16 = 1;
    pub(crate) const WEAK_CRYPTO_ENC: u16 = 2;
    pub(crate) const WEAK_CRYPTO_PRF: u16 = 3;
    pub(crate) const WEAK_CRYPTO_DH: u16 = 4;
    pub(crate) const WEAK_CRYPTO_AUTH: u16 = 5;
    pub(crate) const WEAK_CRYPTO_NO_DH: u16 = 6;
    pub(crate) const WEAK_CRYPTO_NO_AUTH: u16 = 7;
    pub(crate) const INVALID_PROPOSAL: u16 = 8;
    pub(crate) const UNKNOWN_PROPOSAL: u16 = 9;
    pub(crate) const MULTIPLE_SERVER_PROPOSAL: u16 = 10;
    /// Rules may name it; nothing raises it, nor did Suricata 8.0.7 for any message that was tried.
    pub(crate) const PAYLOAD_EXTRA_DATA: u16 = 11;
}

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 1, local), Hook::new(ToClient, 1, local)]
}

const fn bytes(name: &'static str, description: &'static str, hooks: &'static [Hook]) -> BufferDef {
    BufferDef { name, internal: name, description, priority: 1, hooks, ..BufferDef::PLAIN }
}

const fn number(name: &'static str, width: IntegerWidth, hooks: &'static [Hook]) -> IntegerDef {
    IntegerDef { name, width, hooks, ..IntegerDef::PLAIN }
}

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

/// What IKE offers but its condition.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["ike", "ikev2"],
    buffers: &[
        bytes("ike.init_spi", "ike init spi", &[Hook::new(ToServer, 1, buffer::INIT_SPI)]),
        bytes("ike.resp_spi", "ike resp spi", &[Hook::new(ToClient, 1, buffer::RESP_SPI)]),
        BufferDef {
            multi: true,
            ..bytes("ike.vendor", "ike vendor", &[Hook::new(ToServer, 1, buffer::VENDOR)])
        },
        bytes("ike.key_exchange_payload", "ike key_exchange payload", &both(buffer::KEY_EXCHANGE)),
        bytes("ike.nonce_payload", "ike nonce payload", &both(buffer::NONCE)),
    ],
    integers: &[
        number("ike.exchtype", IntegerWidth::U8, &both(integer::EXCHANGE)),
        number(
            "ike.key_exchange_payload_length",
            IntegerWidth::U32,
            &both(integer::KEY_EXCHANGE_LEN),
        ),
        number("ike.nonce_payload_length", IntegerWidth::U32, &both(integer::NONCE_LEN)),
    ],
    events: &[
        named("malformed_data", event::MALFORMED_DATA),
        named("no_encryption", event::NO_ENCRYPTION),
        named("weak_crypto_enc", event::WEAK_CRYPTO_ENC),
        named("weak_crypto_prf", event::WEAK_CRYPTO_PRF),
        named("weak_crypto_dh", event::WEAK_CRYPTO_DH),
        named("weak_crypto_auth", event::WEAK_CRYPTO_AUTH),
        named("weak_crypto_no_dh", event::WEAK_CRYPTO_NO_DH),
        named("weak_crypto_no_auth", event::WEAK_CRYPTO_NO_AUTH),
        named("invalid_proposal", event::INVALID_PROPOSAL),
        named("unknown_proposal", event::UNKNOWN_PROPOSAL),
        named("multiple_server_proposal", event::MULTIPLE_SERVER_PROPOSAL),
        named("payload_extra_data", event::PAYLOAD_EXTRA_DATA),
    ],
    ..ProtoTable::of_requests("ike", &[Transport::Udp])
};

//! What DCE/RPC offers to rules but its conditions, which know its transactions.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, Hook, ProtoTable, Transport};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const STUB_DATA: u16 = 0;
}

/// Frames by their numbers.
pub(super) mod frame {
    pub(crate) const PDU: u8 = 0;
    pub(crate) const HEADER: u8 = 1;
    pub(crate) const DATA: u8 = 2;
}

/// In both directions, from the beginning on.
pub(super) const BOTH: &[Hook] = &[Hook::new(ToServer, 0, 0), Hook::new(ToClient, 0, 0)];

/// `dcerpc.stub_data` of a protocol that carries calls.
pub const fn stub_data(hooks: &'static [Hook]) -> BufferDef {
    BufferDef {
        name: "dcerpc.stub_data",
        internal: "dce_stub_data",
        description: "dce_stub_data",
        aliases: &["dce_stub_data"],
        hooks,
        ..BufferDef::PLAIN
    }
}

/// What DCE/RPC offers but its conditions.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["dcerpc"],
    other_keywords: &["dce"],
    is_counted_by_transport: true,
    has_uncounted_txs: false,
    buffers: &[stub_data(&[
        Hook::new(ToServer, 0, buffer::STUB_DATA),
        Hook::new(ToClient, 0, buffer::STUB_DATA),
    ])],
    frames: &["pdu", "hdr", "data"],
    ..ProtoTable::of_requests("dcerpc", &[Transport::Tcp, Transport::Udp])
};

//! What NFS offers to rules but its conditions, which know its transactions.

use crate::files;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, ProtoTable, Transport};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const FILE_NAME: u16 = 0;
    pub(crate) const FILE_MAGIC: u16 = 1;
    pub(crate) const FILE_DATA: u16 = 2;
}

/// Events by their codes.
pub(super) mod event {
    pub(crate) const MALFORMED_DATA: u16 = 0;
    pub(crate) const NON_EXISTING_VERSION: u16 = 1;
    pub(crate) const UNSUPPORTED_VERSION: u16 = 2;
    pub(crate) const TOO_MANY_TRANSACTIONS: u16 = 3;
    pub(crate) const READ_QUEUE_SIZE_EXCEEDED: u16 = 4;
    pub(crate) const READ_QUEUE_CNT_EXCEEDED: u16 = 5;
    pub(crate) const WRITE_QUEUE_SIZE_EXCEEDED: u16 = 6;
    pub(crate) const WRITE_QUEUE_CNT_EXCEEDED: u16 = 7;
    pub(crate) const READ_RESPONSE_TOO_LARGE: u16 = 8;
    pub(crate) const WRITE_REQUEST_TOO_LARGE: u16 = 9;
    /// Rules may name it. Suricata raises it if more waits for lost bytes than may wait; here no more ever waits.
    pub(crate) const TRUNCATED_FILE_DATA: u16 = 10;
}

/// Frames by their positions.
pub(super) mod frame {
    pub(crate) const RPC_PDU: u8 = 0;
    pub(crate) const RPC_HDR: u8 = 1;
    pub(crate) const RPC_DATA: u8 = 2;
    pub(crate) const RPC_CREDS: u8 = 3;
    pub(crate) const NFS_PDU: u8 = 4;
    pub(crate) const NFS_STATUS: u8 = 5;
    pub(crate) const NFS4_PDU: u8 = 6;
    pub(crate) const NFS4_HDR: u8 = 7;
    pub(crate) const NFS4_OPS: u8 = 8;
    pub(crate) const NFS4_STATUS: u8 = 9;
}

/// Their names, in Suricata's order.
const FRAMES: &[&str] = &[
    "rpc.pdu",
    "rpc.hdr",
    "rpc.data",
    "rpc.creds",
    "nfs.pdu",
    "nfs.status",
    "nfs4.pdu",
    "nfs4.hdr",
    "nfs4.ops",
    "nfs4.status",
];

const fn both(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local), Hook::new(ToClient, 0, local)]
}

const BUFFERS: &[BufferDef] = &[
    files::name_buffer(&both(buffer::FILE_NAME)),
    files::magic_buffer(&both(buffer::FILE_MAGIC)),
    files::data_buffer(&both(buffer::FILE_DATA)),
];

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

/// What NFS offers but its conditions.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["nfs"],
    buffers: BUFFERS,
    frames: FRAMES,
    events: &[
        named("malformed_data", event::MALFORMED_DATA),
        named("non_existing_version", event::NON_EXISTING_VERSION),
        named("unsupported_version", event::UNSUPPORTED_VERSION),
        named("too_many_transactions", event::TOO_MANY_TRANSACTIONS),
        named("read_queue_size_exceeded", event::READ_QUEUE_SIZE_EXCEEDED),
        named("read_queue_cnt_exceeded", event::READ_QUEUE_CNT_EXCEEDED),
        named("write_queue_size_exceeded", event::WRITE_QUEUE_SIZE_EXCEEDED),
        named("write_queue_cnt_exceeded", event::WRITE_QUEUE_CNT_EXCEEDED),
        named("read_response_too_large", event::READ_RESPONSE_TOO_LARGE),
        named("write_request_too_large", event::WRITE_REQUEST_TOO_LARGE),
        named("truncated_file_data", event::TRUNCATED_FILE_DATA),
    ],
    ..ProtoTable::of_requests("nfs", &[Transport::Tcp, Transport::Udp])
};

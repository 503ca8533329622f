//! What data connections offer to rules but their condition, which knows their transaction.

use crate::files;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, Hook, ProtoTable, Transport};

/// Buffers by their numbers.
pub(super) mod buffer {
    pub(crate) const FILE_NAME: u16 = 0;
    pub(crate) const FILE_MAGIC: u16 = 1;
    pub(crate) const FILE_DATA: u16 = 2;
}

/// Either direction, from the beginning on.
pub(super) const fn on_data(local: u16) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local), Hook::new(ToClient, 0, local)]
}

const BUFFERS: &[BufferDef] = &[
    files::name_buffer(&on_data(buffer::FILE_NAME)),
    files::magic_buffer(&on_data(buffer::FILE_MAGIC)),
    files::data_buffer(&on_data(buffer::FILE_DATA)),
];

/// What data connections offer but their condition.
pub(super) const TABLE: ProtoTable = ProtoTable {
    rule_names: &["ftp-data"],
    buffers: BUFFERS,
    has_uncounted_txs: true,
    ..ProtoTable::of_requests("ftp-data", &[Transport::Tcp])
};

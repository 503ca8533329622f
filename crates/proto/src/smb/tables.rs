//! What SMB offers to rules but its conditions, which know its transactions.

use crate::buffer::local_buffers;
use crate::dcerpc::tables::stub_data;
use crate::files;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{BufferDef, EventDef, Hook, ProtoTable, Transport};

local_buffers! {
    NamedPipe,
    Share,
    NtlmsspUser,
    NtlmsspDomain,
    FileName,
    FileMagic,
    FileData,
    StubData,
}

/// Events by their codes.
pub mod event {
    #![allow(missing_docs)]
    pub const INTERNAL_ERROR: u16 = 0;
    pub const MALFORMED_DATA: u16 = 1;
    pub const RECORD_OVERFLOW: u16 = 2;
    pub const MALFORMED_NTLMSSP_REQUEST: u16 = 3;
    pub const MALFORMED_NTLMSSP_RESPONSE: u16 = 4;
    pub const DUPLICATE_NEGOTIATE: u16 = 5;
    pub const NEGOTIATE_MALFORMED_DIALECTS: u16 = 6;
    pub const FILE_OVERLAP: u16 = 7;
    pub const REQUEST_TO_CLIENT: u16 = 8;
    pub const RESPONSE_TO_SERVER: u16 = 9;
    pub const NEGOTIATED_READ_SIZE_TOO_LARGE: u16 = 10;
    pub const NEGOTIATED_WRITE_SIZE_TOO_LARGE: u16 = 11;
    pub const READ_REQUEST_TOO_LARGE: u16 = 12;
    pub const READ_RESPONSE_TOO_LARGE: u16 = 13;
    pub const READ_QUEUE_SIZE_EXCEEDED: u16 = 14;
    pub const READ_QUEUE_CNT_EXCEEDED: u16 = 15;
    pub const WRITE_REQUEST_TOO_LARGE: u16 = 16;
    pub const WRITE_QUEUE_SIZE_EXCEEDED: u16 = 17;
    pub const WRITE_QUEUE_CNT_EXCEEDED: u16 = 18;
    pub const TOO_MANY_TRANSACTIONS: u16 = 19;
    pub const UNUSUAL_NTLMSSP_ORDER: u16 = 20;
    // Rules may name it. Suricata raises it if more waits for lost bytes than may wait; here no more ever waits.
    pub const TRUNCATED_FILE_DATA: u16 = 21;
}

const fn named(name: &'static str, code: u16) -> EventDef {
    EventDef { name, code }
}

const EVENTS: &[EventDef] = &[
    named("internal_error", event::INTERNAL_ERROR),
    named("malformed_data", event::MALFORMED_DATA),
    named("record_overflow", event::RECORD_OVERFLOW),
    named("malformed_ntlmssp_request", event::MALFORMED_NTLMSSP_REQUEST),
    named("malformed_ntlmssp_response", event::MALFORMED_NTLMSSP_RESPONSE),
    named("duplicate_negotiate", event::DUPLICATE_NEGOTIATE),
    named("negotiate_malformed_dialects", event::NEGOTIATE_MALFORMED_DIALECTS),
    named("file_overlap", event::FILE_OVERLAP),
    named("request_to_client", event::REQUEST_TO_CLIENT),
    named("response_to_server", event::RESPONSE_TO_SERVER),
    named("negotiate_max_read_size_too_large", event::NEGOTIATED_READ_SIZE_TOO_LARGE),
    named("negotiate_max_write_size_too_large", event::NEGOTIATED_WRITE_SIZE_TOO_LARGE),
    named("read_request_too_large", event::READ_REQUEST_TOO_LARGE),
    named("read_response_too_large", event::READ_RESPONSE_TOO_LARGE),
    named("read_queue_size_exceeded", event::READ_QUEUE_SIZE_EXCEEDED),
    named("read_queue_cnt_exceeded", event::READ_QUEUE_CNT_EXCEEDED),
    named("write_request_too_large", event::WRITE_REQUEST_TOO_LARGE),
    named("write_queue_size_exceeded", event::WRITE_QUEUE_SIZE_EXCEEDED),
    named("write_queue_cnt_exceeded", event::WRITE_QUEUE_CNT_EXCEEDED),
    named("too_many_transactions", event::TOO_MANY_TRANSACTIONS),
    named("unusual_ntlmssp_order", event::UNUSUAL_NTLMSSP_ORDER),
    named("truncated_file_data", event::TRUNCATED_FILE_DATA),
];

/// App-layer frames by their numbers: of each kind the whole, the header and what follows it.
pub(super) mod frame {
    pub(crate) const NBSS: u8 = 0;
    pub(crate) const SMB1: u8 = 3;
    pub(crate) const SMB2: u8 = 6;
    pub(crate) const SMB3: u8 = 9;
    /// Added to the number of the whole.
    pub(crate) const HEADER: u8 = 1;
    /// Added to the number of the whole.
    pub(crate) const DATA: u8 = 2;
}

const FRAMES: &[&str] = &[
    "nbss.pdu",
    "nbss.hdr",
    "nbss.data",
    "smb1.pdu",
    "smb1.hdr",
    "smb1.data",
    "smb2.pdu",
    "smb2.hdr",
    "smb2.data",
    "smb3.pdu",
    "smb3.hdr",
    "smb3.data",
];

/// What a request says, once it is there.
const fn on_request(local: Local) -> [Hook; 1] {
    [Hook::new(ToServer, 0, local as u16)]
}

/// Files and calls travel both ways.
const fn on_files(local: Local) -> [Hook; 2] {
    [Hook::new(ToServer, 0, local as u16), Hook::new(ToClient, 0, local as u16)]
}

const BUFFERS: &[BufferDef] = &[
    BufferDef {
        name: "smb.named_pipe",
        internal: "smb_named_pipe",
        description: "smb named pipe",
        aliases: &["smb_named_pipe"],
        hooks: &on_request(Local::NamedPipe),
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "smb.share",
        internal: "smb_share",
        description: "smb share",
        aliases: &["smb_share"],
        hooks: &on_request(Local::Share),
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "smb.ntlmssp_user",
        internal: "smb_ntlmssp_user",
        description: "smb ntlmssp user",
        hooks: &on_request(Local::NtlmsspUser),
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "smb.ntlmssp_domain",
        internal: "smb_ntlmssp_domain",
        description: "smb ntlmssp domain",
        hooks: &on_request(Local::NtlmsspDomain),
        ..BufferDef::PLAIN
    },
    files::name_buffer(&on_files(Local::FileName)),
    files::magic_buffer(&on_files(Local::FileMagic)),
    files::data_buffer(&on_files(Local::FileData)),
    stub_data(&on_files(Local::StubData)),
];

/// What SMB offers but its conditions.
pub(super) const TABLE: ProtoTable = ProtoTable {
    // Rules for DCE/RPC are for that in pipes too.
    rule_names: &["smb", "dcerpc"],
    other_keywords: &["dce"],
    buffers: BUFFERS,
    events: EVENTS,
    frames: FRAMES,
    ..ProtoTable::of_requests("smb", &[Transport::Tcp])
};

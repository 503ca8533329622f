//! What SSH offers to rules.

use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::applayer::{
    BufferDef, BufferNeed, ConditionDef, ConditionError, EventDef, Hook, LiteralForm, OwnOutputs,
    ProtoTable, Transport, TxCondition,
};
use std::sync::Arc;

/// Progress of either side.
pub mod state {
    #![allow(missing_docs)]
    pub const BANNER_WAIT_EOL: u8 = 1;
    pub const BANNER_DONE: u8 = 2;
    pub const FINISHED: u8 = 3;
}

/// Buffers by their numbers.
pub mod buffer {
    #![allow(missing_docs)]
    pub const PROTO: u16 = 0;
    pub const SOFTWARE: u16 = 1;
    pub const HASSH: u16 = 2;
    pub const HASSH_STRING: u16 = 3;
}

/// Events by their codes.
pub mod event {
    #![allow(missing_docs)]
    pub const INVALID_BANNER: u16 = 0;
    pub const LONG_BANNER: u16 = 1;
    pub const INVALID_RECORD: u16 = 2;
    pub const LONG_KEX_RECORD: u16 = 3;
}

const fn at(direction: gabion_record::Direction, local: u16) -> Hook {
    Hook::new(direction, state::BANNER_DONE, local)
}

const BUFFERS: &[BufferDef] = &[
    BufferDef {
        name: "ssh.proto",
        internal: "ssh.proto",
        description: "ssh protocol version field",
        aliases: &["ssh_proto"],
        hooks: &[at(ToServer, buffer::PROTO), at(ToClient, buffer::PROTO)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ssh.software",
        internal: "ssh_software",
        description: "ssh software field",
        aliases: &["ssh_software"],
        hooks: &[at(ToServer, buffer::SOFTWARE), at(ToClient, buffer::SOFTWARE)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ssh.hassh",
        internal: "ssh.hassh",
        description: "Ssh Client Fingerprinting For Ssh Clients ",
        need: BufferNeed::Hassh,
        form: LiteralForm::Md5,
        hooks: &[at(ToServer, buffer::HASSH)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ssh.hassh.server",
        internal: "ssh.hassh.server",
        description: "Ssh Client Fingerprinting For Ssh Servers ",
        need: BufferNeed::Hassh,
        form: LiteralForm::Md5,
        hooks: &[at(ToClient, buffer::HASSH)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ssh.hassh.string",
        internal: "ssh.hassh.string",
        description: "Ssh Client Key Exchange methods For ssh Clients ",
        need: BufferNeed::Hassh,
        hooks: &[at(ToServer, buffer::HASSH_STRING)],
        ..BufferDef::PLAIN
    },
    BufferDef {
        name: "ssh.hassh.server.string",
        internal: "ssh.hassh.server.string",
        description: "Ssh Client Key Exchange methods For ssh Servers ",
        need: BufferNeed::Hassh,
        hooks: &[at(ToClient, buffer::HASSH_STRING)],
        ..BufferDef::PLAIN
    },
];

const EVENTS: &[EventDef] = &[
    EventDef { name: "invalid_banner", code: event::INVALID_BANNER },
    EventDef { name: "long_banner", code: event::LONG_BANNER },
    EventDef { name: "invalid_record", code: event::INVALID_RECORD },
    EventDef { name: "long_kex_record", code: event::LONG_KEX_RECORD },
];

fn protoversion(_: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    Err(ConditionError::Obsolete { keyword: "ssh.protoversion", instead: "ssh.proto" })
}

fn softwareversion(_: Option<&str>) -> Result<Arc<dyn TxCondition>, ConditionError> {
    Err(ConditionError::Obsolete { keyword: "ssh.softwareversion", instead: "ssh.software" })
}

const CONDITIONS: &[ConditionDef] = &[
    ConditionDef { name: "ssh.protoversion", aliases: &[], parse: protoversion, hooks: &[] },
    ConditionDef { name: "ssh.softwareversion", aliases: &[], parse: softwareversion, hooks: &[] },
];

/// Frames, in the order of their numbers.
pub mod frame {
    /// Length, padding and message number of a record.
    pub const HDR: u8 = 0;
    /// The rest of a record.
    pub const DATA: u8 = 1;
    /// A record.
    pub const PDU: u8 = 2;
}

const FRAMES: &[&str] = &["record.hdr", "record.data", "record.pdu"];

/// What SSH offers.
pub const TABLE: ProtoTable = ProtoTable {
    name: "ssh",
    eve_name: "ssh",
    rule_names: &["ssh"],
    transports: &[Transport::Tcp],
    is_counted_by_transport: false,
    has_uncounted_txs: true,
    states_to_server: &[
        "request_in_progress",
        "request_banner_wait_eol",
        "request_banner_done",
        "request_finished",
    ],
    states_to_client: &[
        "response_in_progress",
        "response_banner_wait_eol",
        "response_banner_done",
        "response_finished",
    ],
    buffers: BUFFERS,
    integers: &[],
    conditions: CONDITIONS,
    events: EVENTS,
    events_from: [0; 2],
    events_in_capitals: false,
    frames: FRAMES,
    any_version: None,
    own_outputs: OwnOutputs::SCRIPTS,
    advises_modifiers: false,
    has_memory_counters: false,
    other_keywords: &[],
    refuses_file_names: false,
};

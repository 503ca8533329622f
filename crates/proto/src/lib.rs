//! # proto: application protocols
//!
//! **In**: the bytes of each direction of a flow, in order, with event time. **Out**: transactions
//! that carry typed buffers, numbers, files, events and their own log record. **Holds**: one parser
//! per flow ([`Parser`]), made by the protocol that detection found.
//!
//! A protocol is one folder (`mod.rs`, parser, buffers, log) and its line below (`protocols!`). It knows
//! nothing of rules, flows or outputs: rules reach its buffers by the tables in
//! `record::applayer`, and its log record is written into a JSON object that the caller has opened.
//!
//! Parsers are incremental (any split of the input gives the same transactions), bounded (every
//! table has a limit in [`limits`]) and never panic on input.
#![forbid(unsafe_code)]

/// The protocols: each line names a folder, declares its module, and lists what the folder has for
/// the registry, in the order of the protocols' ids.
macro_rules! protocols {
    ($($folder:ident: $($constant:ident),+;)+) => {
        $(pub mod $folder;)+

        const PROTOCOLS: &[&Protocol] = &[$($($folder::$constant,)+)+];
    };
}

mod ber;
mod buffer;
mod cache;
mod chunks;
pub mod datagrams;
pub mod detect;
pub mod files;
pub mod frames;
pub mod limits;
pub mod magic;
pub mod parser;
mod parted_queue;
pub mod protocol;
mod recognized;
pub mod registry;
mod requirements;
mod settings_error;
pub mod transaction;
pub mod tx_list;
pub mod tx_settings;

protocols! {
    http1: PROTOCOL;
    ftp: PROTOCOL;
    smtp: PROTOCOL;
    tls: PROTOCOL;
    ssh: PROTOCOL;
    ftp_data: PROTOCOL;
    dns: PROTOCOL;
    mqtt: PROTOCOL;
    sip: PROTOCOL;
    snmp: PROTOCOL;
    ntp: PROTOCOL;
    tftp: PROTOCOL;
    dhcp: PROTOCOL;
    mdns: PROTOCOL;
    detected: IMAP;
    dcerpc: PROTOCOL;
    dnp3: PROTOCOL;
    http2: PROTOCOL;
    doh2: PROTOCOL;
    websocket: PROTOCOL;
    ldap: PROTOCOL;
    pgsql: PROTOCOL;
    quic: PROTOCOL;
    smb: PROTOCOL;
    rdp: PROTOCOL;
    telnet: PROTOCOL;
    template: PROTOCOL;
    rfb: PROTOCOL;
    pop3: PROTOCOL;
    nfs: PROTOCOL;
    bittorrent_dht: PROTOCOL;
    krb5: PROTOCOL;
    ike: PROTOCOL;
    enip: PROTOCOL;
    modbus: PROTOCOL;
}

pub use buffer::{Buffer, Inspect};
pub use parser::{
    Endpoints, Expectation, FilePiece, Input, Outcome, ParseContext, Parser, ProtocolChange,
};
pub use protocol::{Protocol, Settings};
pub use registry::registry;
pub use requirements::Requirements;
pub use settings_error::SettingsError;
pub use transaction::{CertificateChain, EventList, LogOptions, Sparing, Standing, Transaction};

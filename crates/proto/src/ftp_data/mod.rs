//! The data connections of FTP: known by their announcement on a control connection only
//! ([`crate::ftp`]), one transaction and one file each.

mod conditions;
mod parser;
mod tables;

pub(crate) use parser::Announcement;
pub use parser::{FtpData, FtpDataTx};

use crate::protocol::Protocol;
use gabion_record::applayer::ProtoTable;

const TABLE: ProtoTable = ProtoTable { conditions: conditions::CONDITIONS, ..tables::TABLE };

/// Data connections in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    accepts_gaps: true,
    auto_trigger_raw: false,
    config_name: "ftp",
    event_type: "ftp_data",
    eve_type: "ftp",
    open: |_, _| Box::new(FtpData::default()),
    ..Protocol::plain(TABLE)
};

//! The stage of all records except alerts: transactions, files, flows, streams, anomalies, drops.

mod flows;
mod frames;
mod header;
mod packets;
mod scripts;
mod streams;
mod transactions;

pub(crate) use frames::frame_json;
pub(crate) use header::{
    app_names, flow_header, header, link_of, metadata, signature_members, summary, tunnel, verdict,
};
pub(crate) use transactions::{FilesObject, TxObject, files_of};

use crate::script::OutputScripts;
use gabion_record::eve::WireFacts;

/// What a worker keeps for its records.
pub(crate) struct RecordStage {
    /// Scripts that are outputs.
    pub(crate) outputs: OutputScripts,
    /// Facts about the current frame, maintained only for packet logs.
    wire: WireFacts,
}

impl RecordStage {
    /// A stage with these scripts as outputs.
    pub(crate) fn new(outputs: OutputScripts) -> RecordStage {
        RecordStage { outputs, wire: WireFacts::default() }
    }

    /// Returns the facts about a frame that is finished.
    pub(crate) fn take_wire(&mut self) -> WireFacts {
        std::mem::take(&mut self.wire)
    }
}

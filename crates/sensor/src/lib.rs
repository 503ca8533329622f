//! # Runs
//!
//! What a run of the engines consists of, from its sources to its outputs, with all its threads. Captures go
//! through the network engine by [`PacketRun`], logs of flows through the behaviour engine by [`FlowRun`].
//! Every front door makes its runs of these; the answer does not depend on the number of workers.
#![forbid(unsafe_code)]

mod error;
mod flows;
pub mod limits;
mod notices;
mod packets;
mod sealed_findings;

pub use error::Error;
pub use flows::{
    AddressBook, CaptureTap, Checkpoint, FindingOutputs, FindingsDone, FlowInputs, FlowRun,
    FlowsDone, Found, GatheredPage, ListFiles, Lists, Ran, Resumed, Sink, TappedDone, TeamEnd,
    Whitelisted, are_captures, callee_name, has_checkpoint, is_capture, list_logs, load_whitelist,
    settle_sealed_ids,
};
pub use notices::{Notice, Notices};
pub use packets::costs::{
    COSTLY_RULES_SHOWN, format_rule_id, rule_cost_table, write_rule_costs, write_rule_costs_json,
};
pub use packets::{
    Arrivals, Done as PacketsDone, Incident, Input, InputDone, NO_CAPTURE, OpenedOnce,
    PacketLogCounts, RELOAD, Run as PacketRun, Trouble, Unwatched, Watch, check_balance,
    finish_packets, has_capture_name, ledger_in_short, list_captures, needs_one_worker,
    open_alert_packet_log, open_packet_log, read_capture,
};
pub use sealed_findings::{FindingLog, OpenedLog, Sealer};

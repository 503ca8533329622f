//! Packet runs: captures through the network engine into outputs.

#[cfg(test)]
mod acted_fault;
mod alert_counts;
mod arrivals;
mod capture;
mod ending;
mod incidents;
mod input;
mod opened_once;
mod packet_log;
mod parallel;
mod reader;
mod run;
mod single;
mod stats;

pub use alert_counts::AlertCounts;
pub use arrivals::Arrivals;
pub use capture::NO_CAPTURE;
pub use ending::{check_balance, finish_packets, ledger_in_short};
pub use incidents::{Incident, RELOAD, Trouble, Unwatched, Watch};
pub use input::{Input, InputDone, has_capture_name, list_captures};
pub use opened_once::OpenedOnce;
pub use packet_log::{PacketLogCounts, open_alert_packet_log, open_packet_log};
pub use parallel::needs_one_worker;
pub use run::{Done, Run, read_capture};

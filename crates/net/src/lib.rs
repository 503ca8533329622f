//! # net: the network engine
//!
//! **In**: frames with event time and number, a rule set, a configuration tree. **Out**: alerts,
//! protocol records, files, flows, anomalies and drops, through [`gabion_record::eve::NetSink`].
//! **Holds**: per worker the flow table, defragmentation, streams, parsers and everything detection
//! remembers.
//!
//! The engine is sans-I/O: it reads no clock and no file. One [`Engine`] is shared read-only, each
//! [`Worker`] owns the flows whose packets it receives; a [`Dealer`] chooses the worker of a packet.
//! `worker` connects the crates below: packet → flow → proto → rules.
#![forbid(unsafe_code)]

mod account;
mod alert;
mod app;
mod application;
mod bits;
mod checksum_sample;
mod context;
mod counters;
mod countries;
mod dataset_file;
mod dataset_save;
mod datasets;
mod dealer;
mod decode;
mod detect;
mod engine;
mod error;
mod exception;
mod expectation;
mod firewall;
#[cfg(test)]
mod flood;
mod flow_end;
mod flow_state;
mod frame_in;
mod frames;
mod group;
mod inspection;
mod lapsing;
mod ledgers;
pub mod limits;
mod loss;
mod memory;
mod operator;
mod ordered;
mod pressure;
mod ranges;
mod records;
pub mod script;
mod state;
mod tags;
mod tcp_segment;
mod threshold;
mod tracking;
mod verdicts;
mod view;
mod worker;

pub use app::{AppCounters, Protocols, is_detected, is_parsed};
pub use checksum_sample::{CaptureChecksums, ChecksumSample};
pub use counters::NetCounters;
pub use countries::Countries;
pub use dataset_file::{DatasetFault, DatasetNote};
pub use datasets::Datasets;
pub use dealer::{Dealer, Dealt};
pub use detect::{Detector, Expressions, FirewallPolicies, RuleCost, RuleCosts};
pub use engine::{Engine, EngineOptions, Policies, RuleText, RuleTexts};
pub use error::{ConfigError, CountriesError, ScriptError};
pub use flow_state::NetFlow;
pub use frame_in::{FragmentOutcome, FrameIn};
pub use group::{WorkerGroup, WorkerSlot};
pub use ledgers::WorkerLedgers;
pub use limits::WORKERS_MAX;
pub use memory::{MemoryPressure, WorkerBudgets};
pub use ranges::RangeOptions;
pub use state::Reputation;
pub use verdicts::Verdicts;
pub use worker::Worker;

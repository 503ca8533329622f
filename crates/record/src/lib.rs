//! # record: the plain types that pass between the crates of the sensor
//!
//! Every engine, reader and output depends on this crate and on no other crate to exchange data with its
//! neighbours: addresses, directions, the ledger, budgets, the tables by which protocols declare to the
//! rule language what they offer, the resolved configuration tree, the append-only JSON writer,
//! the records an engine hands to outputs, the records of flow logs, evidence and alerts, and what opens
//! files for sources and outputs. Types only, with the arithmetic and formatting that
//! belongs to them; nothing here reads, waits or decides.
#![forbid(unsafe_code)]

pub mod addr;
pub mod alerted;
pub mod applayer;
pub mod base64;
pub mod budget;
pub mod calendar;
pub mod config;
mod decoder_event;
mod direction;
mod drop_reason;
pub mod eve;
pub mod evidence;
pub mod exception;
pub mod fields;
pub mod files;
pub mod fixed;
pub mod flow_state;
pub mod fnv;
pub mod hex;
pub mod ip;
mod ip_proto;
pub mod json;
pub mod ledger;
pub mod limits;
pub mod logs;
pub mod near;
pub mod packed;
mod packet_source;
mod pressure;
pub mod saved;
mod stream_event;
pub mod syscall;
pub mod thousands;
mod transport;
mod tx_report;
mod tx_text;

pub use addr::Addr;
pub use config::Tree;
pub use decoder_event::DecoderEvent;
pub use direction::Direction;
pub use drop_reason::DropReason;
pub use ip::{Ip, Net};
pub use ip_proto::IpProto;
pub use packet_source::PacketSource;
pub use pressure::Pressure;
pub use stream_event::StreamEvent;
pub use tx_report::{TakeReport, TxReport};
pub use tx_text::{TakeText, TxText};

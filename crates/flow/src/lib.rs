//! # flow: assembles fragments into datagrams, packets into flows and segments into streams
//!
//! **In**: plain facts about packets ([`PacketKey`], [`PacketFacts`], [`TcpSegment`],
//! [`Fragment`]) with event time. **Out**: which flow a packet belongs to and which flows have
//! ended ([`FlowTable`]), what a TCP packet means ([`TcpVerdict`]), stream bytes for parsers and
//! payload rules ([`Stream`]), reassembled datagrams ([`Defragmenter`]).
//!
//! **State**: all state between packets below the application layer, each table under a byte
//! budget. Nothing here does input or output, waits, or knows protocols and rules. Behavior follows
//! Suricata 8.0; where reaching a limit calls for an exception policy, the [`ExceptionTrigger`] is
//! reported and the engine decides.
#![deny(unsafe_code)]

mod config;
mod counters;
mod defrag;
mod error;
mod events;
pub mod limits;
mod packet_key;
mod policy;
mod prefetch;
mod stream;
mod table;
pub mod tcp;

pub use config::{DefragConfig, FlowConfig, StreamConfig};
pub use counters::{DefragCounters, FlowCounters, TcpCounters};
pub use defrag::{DefragOutcome, Defragmenter, FragEvent, Fragment};
pub use error::ConfigError;
pub use events::{EventList, StreamEvent};
pub use packet_key::{packet_key, quoted_key};
pub use policy::{ExceptionPolicy, ExceptionTrigger, HostOsPolicy, OsPolicy};
pub use stream::{AppChunk, RawView, RawViews, Stream};
pub use table::{EndReason, Flow, FlowIdx, FlowState, FlowTable, Lookup, PacketFacts, PacketKey};
pub use tcp::{
    SideFacts, TcpOptions, TcpSegment, TcpSession, TcpState, TcpTracker, TcpVerdict, Update,
};

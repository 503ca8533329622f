//! What a compiled signature consists of: its engines and conditions, as an engine evaluates them, and
//! what it does when it matches. The names come from many files of this crate; here they stand in one place, by topic.

pub mod actions;
pub mod buffer;
pub mod packet;

pub use crate::address::{AddressId, AddressSet};
pub use crate::names::Names;
pub use crate::port::{PortId, PortSet};
pub use crate::ruleset::{
    DatasetDef, DatasetFormat, DatasetType, FrameRef, ScriptFacts, ScriptRef,
};
pub use crate::signature::{
    ActionScope, BufferInspection, BufferRef, Engine, EngineRun, FastPattern, FirewallPart, Header,
    IpProtos, PacketBuffer, RuleHook, RuleNetwork, TxInspection, TxTest,
};
pub use crate::text::{Text, TextArena, TextReader};

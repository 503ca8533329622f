//! Packet runs: captures through the network engine into outputs.

#[cfg(test)]
mod acted_fault;
mod adoption;
mod alert_counts;
mod arrivals;
mod before_socket;
mod board;
mod capture;
mod ending;
mod exposed;
mod handles;
mod incidents;
mod input;
mod input_opener;
mod interface;
mod interface_health;
mod packet_log;
mod parallel;
mod reader;
mod reload;
mod ring_group;
mod rings;
mod rule_loader;
mod run;
mod shedding;
mod single;
mod stats;
mod tasks;
#[cfg(test)]
mod test_engine;
mod wire;

pub use alert_counts::AlertCounts;
pub use arrivals::Arrivals;
pub use before_socket::BeforeSocket;
pub use board::{Board, InterfaceCounts};
pub use ending::Unwritten;
pub use exposed::PacketMetrics;
pub use handles::RunHandles;
pub use incidents::{Incident, Trouble, Unwatched, Watch};
pub use input::{HandedOver, Input, InputDone, KernelCounts};
pub use input_opener::InputOpener;
pub use interface_health::InterfaceHealth;
pub use packet_log::{LostFrames, PacketLogCounts};
pub use reload::{
    LoadError, LoadOutcome, LoadRequest, LoadRules, LoadedEngine, OnLoaded, Reloads, RuleFacts,
    RunningEngine,
};
pub use rule_loader::{ReadConfiguration, RuleLoader};
#[cfg(test)]
pub(crate) use run::read_capture;
pub use run::{Done as PacketsDone, Run as PacketRun};
pub(crate) use stats::{WorkerStats, json as statistics};
pub use tasks::Tasks;

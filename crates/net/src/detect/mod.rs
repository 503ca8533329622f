//! Detection: which rules match this packet, its stream and its transactions.
//!
//! Contract of this folder: once warm nothing here allocates per packet, takes a lock or writes a
//! log. Candidates come from matchers and lists ([`compiled`]), are checked in rule order, cheapest
//! condition first, and leave [`Hit`]s for the alert queue.

mod address_index;
pub(crate) mod asn1;
pub(crate) mod base64;
mod buffer_facts;
mod compiled;
mod content;
mod filter;
mod firewall;
mod fitting;
mod frame;
mod gates;
mod grams;
mod literal;
mod number;
pub(crate) mod offer;
pub(crate) mod packet;
mod profile;
mod resources;
mod run;
mod transform;
mod tx;

pub use compiled::Detector;
pub(crate) use filter::Filtered;
pub use firewall::FirewallPolicies;
pub(crate) use firewall::{Firewall, has_named_states, hook_name, policy_text};
pub use profile::{RuleCost, RuleCosts};
pub use resources::Expressions;
pub(crate) use resources::Resources;
pub(crate) use run::{Findings, Hit, Run, Scratch, StreamData};
pub(crate) use tx::TxDetect;

use std::sync::Arc;

/// What detection remembers of a flow.
#[derive(Debug, Default)]
pub(crate) struct FlowDetect {
    /// Address sets that hold the client and the server, once looked up.
    pub(crate) rows: Option<[address_index::Row; 2]>,
    /// Rules on addresses only were checked, by direction.
    pub(crate) ip_only_done: [bool; 2],
    /// Rules on the protocol only were checked, by direction.
    pub(crate) pd_done: [bool; 2],
    /// Packet rules without a pattern whose addresses and ports fit, by direction: these do not
    /// change while the flow lives, so that the long lists are gone through once.
    pub(crate) plain: [Option<Arc<[u32]>>; 2],
}

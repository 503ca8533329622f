//! Detection: which rules match this packet, its stream and its transactions.
//!
//! Contract of this folder: once warm nothing here allocates per packet, takes a lock or writes a
//! log. Candidates come from matchers and lists ([`compiled`]), are checked in rule order, cheapest
//! condition first, and leave [`Hit`]s for the alert queue.

mod address_index;
pub(crate) mod asn1;
pub(crate) mod base64;
mod buffer_facts;
mod by_rule;
mod compiled;
mod content;
mod expressions;
mod filter;
mod firewall;
mod fitting;
mod frame;
mod gates;
mod grams;
mod hot;
mod literal;
mod number;
pub(crate) mod offer;
pub(crate) mod packet;
mod pattern_set;
mod profile;
mod recent_scans;
mod resources;
mod run;
mod split;
mod stream_ports;
mod transform;
mod tx;
mod tx_memory;

pub use compiled::Detector;
pub use expressions::Expressions;
pub(crate) use filter::Filtered;
pub use firewall::FirewallPolicies;
pub(crate) use firewall::{Firewall, has_named_states, hook_name, policy_text};
pub use profile::{RuleCost, RuleCosts};
pub(crate) use resources::Resources;
pub(crate) use run::{Findings, Hit, Lent, Material, Run, Scratch, StreamData};
pub(crate) use tx_memory::TxDetect;

use crate::app::AppLayer;
use gabion_record::Direction;
use gabion_record::applayer::ProtoId;
use std::sync::Arc;

/// When rules on the protocol only are asked: with the packet that ends looking for it in the packet's
/// direction, and once on the next packet of a direction before which it had ended (`docs/semantics.md`,
/// "Rules on the protocol only").
#[derive(Debug, Default)]
pub(crate) struct ProtocolRules {
    sides: [ProtocolRulesSide; 2],
    /// The flow's protocol was known, or known not to be, before the packet.
    was_known: bool,
}

/// The same of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct ProtocolRulesSide {
    /// The rules were asked.
    are_asked: bool,
    /// Looking for the protocol had ended before the packet, and how often.
    was_decided: bool,
    decisions: u8,
}

impl ProtocolRules {
    /// Whether they are asked on a packet of this direction.
    pub(crate) fn take_due(&mut self, app: &AppLayer, d: Direction) -> bool {
        let is_known = app.proto_for_rules() != ProtoId::UNKNOWN;
        let is_new = Direction::BOTH.map(|d| app.decisions(d) != self.sides[d.index()].decisions);
        for (side, is_new) in self.sides.iter_mut().zip(is_new) {
            side.are_asked &= !is_new;
        }
        let side = &mut self.sides[d.index()];
        let is_first = self.was_known && side.was_decided && !side.are_asked;
        let has_ended_now = is_new[d.index()] && app.is_detected(d);
        side.are_asked |= is_first && !has_ended_now;
        for (side, d) in self.sides.iter_mut().zip(Direction::BOTH) {
            (side.was_decided, side.decisions) = (app.is_detected(d), app.decisions(d));
        }
        self.was_known = is_known;
        is_known && (has_ended_now || is_first)
    }
}

/// What detection remembers of a flow.
#[derive(Debug, Default)]
pub(crate) struct FlowDetect {
    /// The engine whose rules this is about, see [`Engine::generation`](crate::Engine).
    pub(crate) generation: u32,
    /// Address sets that hold the client and the server, once looked up.
    pub(crate) rows: Option<[address_index::Row; 2]>,
    /// Rules on addresses only were checked, by direction.
    pub(crate) ip_only_done: [bool; 2],
    /// When rules on the protocol only are asked.
    pub(crate) pd: ProtocolRules,
    /// Packet rules without a pattern whose addresses and ports fit, by direction: these do not
    /// change while the flow lives, so that the long lists are gone through once.
    pub(crate) plain: [Option<Arc<[fitting::Fit]>>; 2],
}

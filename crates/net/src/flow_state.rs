//! What the engine keeps with each flow: its protocol, its variables, what detection remembers.

use crate::app::AppLayer;
use crate::bits::Bits;
use crate::detect::FlowDetect;
use crate::engine::Engine;
use crate::ledgers::ShedSoFar;
use gabion_flow::{ExceptionPolicy, ExceptionTrigger, Flow};
use gabion_proto::Endpoints;
use gabion_record::budget::Budget;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::{DropReason, IpProto};
use gabion_rules::compiled::actions::{BitCommand, FlowintCommand};
use gabion_rules::compiled::packet::{FlowintOp, FlowintTest, FlowintValue};
use smallvec::SmallVec;

/// Hardware addresses seen of one side.
pub(crate) type Macs = SmallVec<[[u8; 6]; 2]>;

/// The engine's own state of a flow.
#[derive(Default)]
pub struct NetFlow {
    pub(crate) app: AppLayer,
    pub(crate) vars: FlowVars,
    pub(crate) detect: FlowDetect,
    pub(crate) flags: FlowFlags,
    /// How far scripts have logged its streams.
    pub(crate) logged: Option<Box<crate::script::StreamLogs>>,
    /// Flow that announced this one.
    pub(crate) announced_by: Option<u64>,
    pub(crate) exceptions: SmallVec<[(ExceptionTrigger, ExceptionPolicy); 1]>,
    /// What was shed of it.
    pub(crate) lost: Option<Box<Ledger>>,
    /// What its worker had shed when the flow began.
    pub(crate) shed_at_start: ShedSoFar,
    pub(crate) macs: Option<Box<[Macs; 2]>>,
}

impl NetFlow {
    /// Rules were loaded since the flow's last packet: what was found out about it for the rules before is forgotten.
    /// Its protocol, its bits and variables, and what was decided about it stay.
    #[inline]
    pub(crate) fn meet_rules(&mut self, engine: &Engine) {
        if self.detect.generation != engine.generation {
            self.forget_rules(engine);
        }
    }

    #[cold]
    fn forget_rules(&mut self, engine: &Engine) {
        // As in Suricata 8.0.7, rules on addresses or on the protocol alone are not checked again.
        let FlowDetect { ip_only_done, pd, .. } = std::mem::take(&mut self.detect);
        let generation = engine.generation;
        self.detect = FlowDetect { generation, ip_only_done, pd, ..FlowDetect::default() };
        self.app.forget_rules(&engine.protocols);
        self.flags.is_pinned = None;
    }

    /// Its sides turned out to be reversed: what was found out for rules is of the wrong side.
    pub(crate) fn forget_sides(&mut self) {
        self.detect = FlowDetect { generation: self.detect.generation, ..FlowDetect::default() };
    }

    /// Counts something of the flow that was shed.
    pub(crate) fn lose(&mut self, reason: ShedReason, items: u64, bytes: u64) {
        self.lost.get_or_insert_default().shed(reason, items, bytes);
    }
}

impl std::fmt::Debug for NetFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NetFlow").field("vars", &self.vars).finish_non_exhaustive()
    }
}

/// The ends of a flow as parsers know them.
pub(crate) fn endpoints(flow: &Flow<NetFlow>) -> Endpoints {
    Endpoints {
        ip_version: flow.ip_version,
        client: flow.client.addr,
        server: flow.server.addr,
        client_port: flow.client.port,
        server_port: flow.server.port,
        is_tcp: flow.proto == IpProto::TCP,
    }
}

/// Yes/no facts of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowFlags {
    /// An alert was written.
    pub(crate) alerted: bool,
    /// An alert was handed on that may be written.
    pub(crate) alert_asked: bool,
    /// Packets are dropped.
    pub(crate) dropped: bool,
    /// Dropped because of an exception policy: its reason.
    pub(crate) drop_reason: Option<DropReason>,
    /// Packets pass without inspection.
    pub(crate) passed: bool,
    /// A rule drops or rejects the flow where nothing is dropped: its later packets are not inspected (Suricata
    /// 8.0.7).
    pub(crate) refused: bool,
    /// The firewall lets all packets through.
    pub(crate) accepted: bool,
    /// Payload is not inspected (encrypted).
    pub(crate) no_payload: bool,
    /// Its rest is bypassed since a ring ran full.
    pub(crate) is_shed: bool,
    /// A rule that is pinned may match on it; None: this was not asked yet of these rules.
    pub(crate) is_pinned: Option<bool>,
    /// Nothing of its protocol is logged (`config` rule).
    pub(crate) no_app_log: bool,
    /// Its own record is not logged (`config` rule).
    pub(crate) no_flow_log: bool,
    /// Facts of the directions to server and to client.
    pub(crate) sides: [SideFlags; 2],
}

/// Yes/no facts of one direction of a flow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SideFlags {
    /// A drop record was written for one of its packets.
    pub(crate) is_drop_logged: bool,
    /// All its files are stored.
    pub(crate) store_files: bool,
}

impl FlowFlags {
    /// Whether rules are not asked about the flow's packets any more.
    #[inline]
    pub(crate) fn skips_detection(&self) -> bool {
        self.passed || self.refused
    }
}

/// Bits, integers and texts that rules set.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlowVars {
    bits: Bits,
    ints: Vec<(u32, u32)>,
    /// Bytes of texts that the application layer's budget was charged for.
    charged: u64,
    /// The texts are charged for.
    is_weighed: bool,
    /// Captured texts: name and value.
    pub(crate) texts: Vec<(u32, Vec<u8>)>,
    /// Entropies by the name of their buffer.
    pub(crate) entropies: Vec<(&'static str, f64)>,
    /// A rule counts its alerts by flow: records have `metadata` then, which may be empty (Suricata 8.0.7).
    pub(crate) is_counted: bool,
}

impl FlowVars {
    pub(crate) fn has_bit(&self, bit: u32) -> bool {
        self.bits.has(bit)
    }

    pub(crate) fn bits(&self) -> &[u32] {
        self.bits.as_slice()
    }

    pub(crate) fn ints(&self) -> &[(u32, u32)] {
        &self.ints
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bits.as_slice().is_empty()
            && self.ints.is_empty()
            && self.texts.is_empty()
            && self.entropies.is_empty()
            && !self.is_counted
    }

    pub(crate) fn set_entropy(&mut self, buffer: &'static str, value: f64) {
        match self.entropies.iter().position(|(name, _)| *name == buffer) {
            Some(at) => self.entropies[at].1 = value,
            None => self.entropies.push((buffer, value)),
        }
    }

    pub(crate) fn apply_bit(&mut self, bit: u32, command: BitCommand) {
        self.bits.apply(bit, command);
    }

    fn int(&self, variable: u32) -> Option<u32> {
        self.ints.iter().find(|(v, _)| *v == variable).map(|(_, n)| *n)
    }

    fn operand(&self, value: FlowintValue) -> Option<u32> {
        match value {
            FlowintValue::Number(n) => Some(n),
            FlowintValue::Variable(v) => self.int(v),
        }
    }

    pub(crate) fn flowint_matches(&self, t: &FlowintTest) -> bool {
        let Some(v) = self.int(t.variable) else { return t.op == FlowintOp::IsNotSet };
        if t.op == FlowintOp::IsSet {
            return true;
        }
        let Some(n) = self.operand(t.value) else { return false };
        match t.op {
            FlowintOp::Less => v < n,
            FlowintOp::LessOrEqual => v <= n,
            FlowintOp::Equal => v == n,
            FlowintOp::Differs => v != n,
            FlowintOp::GreaterOrEqual => v >= n,
            FlowintOp::Greater => v > n,
            FlowintOp::IsSet | FlowintOp::IsNotSet => false,
        }
    }

    pub(crate) fn apply_int(
        &mut self,
        variable: u32,
        command: FlowintCommand,
        value: FlowintValue,
    ) {
        let Some(n) = self.operand(value) else { return };
        let old = self.int(variable);
        let new = match (command, old) {
            (FlowintCommand::Set, _) => n,
            (FlowintCommand::Add, old) => old.unwrap_or(0).wrapping_add(n),
            // An integer that was never set can't be made smaller.
            (FlowintCommand::Subtract, Some(old)) => old.wrapping_sub(n),
            (FlowintCommand::Subtract, None) => return,
        };
        match self.ints.iter().position(|(v, _)| *v == variable) {
            Some(at) => self.ints[at].1 = new,
            None => self.ints.push((variable, new)),
        }
    }

    pub(crate) fn set_text(&mut self, name: u32, value: Vec<u8>) {
        self.is_weighed = false;
        match self.texts.iter().position(|(n, _)| *n == name) {
            Some(at) => self.texts[at].1 = value,
            None => self.texts.push((name, value)),
        }
    }

    /// Charges the flow for its texts; those that the budget does not allow are shed, the last first.
    /// Returns their number and bytes.
    pub(crate) fn settle(&mut self, budget: &Budget) -> (u64, u64) {
        let mut shed = (0, 0);
        if self.is_weighed {
            return shed;
        }
        self.is_weighed = true;
        loop {
            let held = self.texts.iter().map(|(_, value)| value.len() as u64).sum();
            if budget.try_resize(self.charged, held) {
                self.charged = held;
                return shed;
            }
            let Some((_, value)) = self.texts.pop() else { return shed };
            shed = (shed.0 + 1, shed.1 + value.len() as u64);
        }
    }

    /// Returns to the budget what the flow was charged for.
    pub(crate) fn release(&mut self, budget: &Budget) {
        budget.release(std::mem::take(&mut self.charged));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_charged_and_those_beyond_the_budget_are_shed() {
        let budget = Budget::standalone("app-layer", 100_000);
        let mut v = FlowVars::default();
        for name in 0..300 {
            v.set_text(name, vec![b'x'; 200]);
            assert_eq!(v.settle(&budget), (0, 0));
        }
        assert_eq!((v.texts.len(), budget.used()), (300, 60_000));
        v.set_text(7, vec![b'y'; 50_000]);
        assert_eq!(v.settle(&budget), (49, 9_800));
        assert_eq!((v.texts.len(), v.texts[7].1.len()), (251, 50_000));
        assert_eq!(v.settle(&budget), (0, 0));
        v.release(&budget);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn bits_and_integers() {
        let mut v = FlowVars::default();
        v.apply_bit(3, BitCommand::Toggle);
        assert!(v.has_bit(3));
        v.apply_bit(3, BitCommand::Unset);
        assert!(!v.has_bit(3));
        v.apply_int(1, FlowintCommand::Subtract, FlowintValue::Number(1));
        assert_eq!(v.ints(), []);
        v.apply_int(1, FlowintCommand::Add, FlowintValue::Number(2));
        let test =
            FlowintTest { variable: 1, op: FlowintOp::Greater, value: FlowintValue::Number(1) };
        assert!(v.flowint_matches(&test));
    }
}

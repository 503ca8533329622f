//! Exception policies: what happens to a packet and its flow if a limit or an error prevents the
//! engine from following them.

use crate::context::PacketOutcome;
use crate::engine::{Engine, Policies};
use crate::flow_state::NetFlow;
use gabion_flow::{ExceptionPolicy, ExceptionTrigger, Flow, FlowState};
use gabion_record::DropReason;

/// A policy to carry out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exception {
    policy: ExceptionPolicy,
    trigger: ExceptionTrigger,
    /// The drop reason of its packets.
    reason: DropReason,
}

impl Exception {
    /// The policy for a trigger.
    pub(crate) fn from_policies(policies: &Policies, trigger: ExceptionTrigger) -> Exception {
        let (policy, reason) = match trigger {
            ExceptionTrigger::DefragMemcap => (policies.defrag_memcap, DropReason::DefragMemcap),
            ExceptionTrigger::FlowMemcap => (policies.flow_memcap, DropReason::FlowMemcap),
            ExceptionTrigger::StreamMemcap => (policies.stream_memcap, DropReason::StreamMemcap),
            ExceptionTrigger::ReassemblyMemcap => {
                (policies.reassembly_memcap, DropReason::StreamReassembly)
            }
            ExceptionTrigger::Midstream => (policies.midstream, DropReason::StreamMidstream),
            ExceptionTrigger::AppLayerError => (policies.app_error, DropReason::AppLayerError),
        };
        Exception { policy, trigger, reason }
    }

    /// The trigger and the policy as they are counted.
    pub(crate) fn cause(&self) -> (ExceptionTrigger, ExceptionPolicy) {
        (self.trigger, self.policy)
    }

    /// Carries it out on a flow and its packet.
    pub(crate) fn on_flow(
        &self,
        engine: &Engine,
        flow: &mut Flow<NetFlow>,
        outcome: &mut PacketOutcome,
    ) {
        let list = &mut flow.ext.exceptions;
        if !list.iter().any(|(t, _)| *t == self.trigger) {
            list.push(self.cause());
        }
        match self.policy {
            ExceptionPolicy::DropFlow | ExceptionPolicy::Reject => {
                flow.ext.flags.dropped = true;
                flow.ext.flags.drop_reason = Some(DropReason::PolicyFlowDrop);
            }
            ExceptionPolicy::PassFlow => flow.ext.flags.passed = true,
            ExceptionPolicy::Bypass => {
                flow.state = FlowState::Bypassed;
                flow.ext.flags.passed = true;
            }
            ExceptionPolicy::DropPacket
            | ExceptionPolicy::PassPacket
            | ExceptionPolicy::Ignore
            | ExceptionPolicy::Auto => {}
        }
        self.on_packet(engine, outcome);
    }

    /// Carries out the part that concerns only the packet.
    pub(crate) fn on_packet(&self, engine: &Engine, outcome: &mut PacketOutcome) {
        match self.policy {
            ExceptionPolicy::DropFlow | ExceptionPolicy::DropPacket => {
                if engine.options.inline {
                    outcome.drop.get_or_insert(self.reason);
                }
                outcome.skip_detection = true;
            }
            ExceptionPolicy::Reject => {
                if engine.options.inline {
                    outcome.drop.get_or_insert(self.reason);
                }
                outcome.reject = Some(gabion_rules::Action::RejectSource);
                outcome.skip_detection = true;
            }
            ExceptionPolicy::Bypass | ExceptionPolicy::PassFlow | ExceptionPolicy::PassPacket => {
                outcome.skip_detection = true;
            }
            ExceptionPolicy::Ignore | ExceptionPolicy::Auto => {}
        }
    }
}

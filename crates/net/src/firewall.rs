//! Firewall mode around detection: the hooks before flow and stream, and the effect of the firewall's
//! verdict on packet and flow.

use crate::context::{PacketContext, PacketOutcome};
use crate::detect::{Detector, Filtered, Firewall, Hit, Material, Run};
use crate::flow_state::NetFlow;
use crate::inspection::InspectionStage;
use gabion_flow::Flow;
use gabion_record::DropReason;
use gabion_record::budget::Budget;
use gabion_rules::compiled::actions::{ConfigSubsystem, PostMatch};

/// Evaluates one of the firewall's tables.
type Ask = fn(&mut Run<'_>, &Firewall);

impl InspectionStage {
    /// Evaluates the firewall before the packet's flow is looked up. False: the packet gets no flow.
    pub(crate) fn before_flow(&mut self, cx: &mut PacketContext<'_>, budget: &Budget) -> bool {
        let Some(detector) = &cx.engine.detector else { return true };
        let Some(firewall) = &detector.firewall else { return true };
        if firewall.pre_flow.is_empty() {
            return true;
        }
        self.ask_early(cx, (detector, firewall), budget, |run, firewall| {
            let policy = firewall.pre_flow_policy;
            run.early_table(&firewall.pre_flow, policy, DropReason::FirewallPreFlow);
        });
        let untracked = |action: &PostMatch| matches!(action, PostMatch::Config(c) if c.subsystem == ConfigSubsystem::TrackingDisable);
        let is_untracked = cx.findings.deferred.iter().any(|(sig, _)| {
            detector.set.signatures[*sig as usize].post_match.iter().any(untracked)
        });
        cx.outcome.drop.is_none() && !is_untracked
    }

    /// Evaluates the firewall before the packet reaches its stream.
    pub(crate) fn before_stream(&mut self, cx: &mut PacketContext<'_>, budget: &Budget) {
        let Some(detector) = &cx.engine.detector else { return };
        let Some(firewall) = &detector.firewall else { return };
        if firewall.pre_stream.is_empty() {
            return;
        }
        self.ask_early(cx, (detector, firewall), budget, |run, firewall| {
            let policy = firewall.pre_stream_policy;
            run.early_table(&firewall.pre_stream, policy, DropReason::FirewallPreStream);
        });
    }

    /// Evaluates one table with only the packet and its flow, and carries out its decision; hits wait in
    /// the outcome.
    fn ask_early(
        &mut self,
        cx: &mut PacketContext<'_>,
        (detector, firewall): (&Detector, &Firewall),
        budget: &Budget,
        ask: Ask,
    ) {
        let session = cx.flow.as_deref_mut().and_then(|f| f.tcp.take());
        let material = Material { tcp: session.as_deref(), ..Material::default() };
        let mut run = self.run(cx, detector, budget, material);
        ask(&mut run, firewall);
        let filtered = run.filtered;
        if let Some(f) = cx.flow.as_deref_mut() {
            f.tcp = session;
        }
        cx.outcome.early.append(&mut cx.findings.hits);
        carry_out(filtered, cx.outcome, cx.flow.as_deref_mut());
    }
}

/// Applies the firewall's decision to packet and flow.
pub(crate) fn carry_out(
    filtered: Filtered,
    outcome: &mut PacketOutcome,
    flow: Option<&mut Flow<NetFlow>>,
) {
    if let Some(reason) = filtered.drop {
        outcome.drop.get_or_insert(reason);
        outcome.reject = outcome.reject.or(filtered.reject);
        outcome.skip_detection = true;
    }
    let Some(flow) = flow else { return };
    let flags = &mut flow.ext.flags;
    if filtered.drop.is_some() && filtered.drop_flow && !flags.dropped {
        flags.dropped = true;
        flags.drop_reason = Some(DropReason::FirewallFlowDrop);
    }
    flags.accepted |= filtered.accept_flow;
    flags.passed |= filtered.pass_flow;
}

/// Order of a packet's hits in the alert queue: those of the firewall first, as they came; then by
/// rule and, for one rule, the newest transaction first.
pub(crate) fn order(detector: &Detector, a: &Hit, b: &Hit) -> std::cmp::Ordering {
    match (is_of_firewall(detector, a), is_of_firewall(detector, b)) {
        (true, true) => std::cmp::Ordering::Equal,
        (true, false) => std::cmp::Ordering::Less,
        (false, true) => std::cmp::Ordering::Greater,
        (false, false) => a.sig.cmp(&b.sig).then(b.tx.cmp(&a.tx)),
    }
}

/// Whether a hit is the firewall's own.
pub(crate) fn is_of_firewall(detector: &Detector, hit: &Hit) -> bool {
    let flag = gabion_rules::SignatureFlags::FIREWALL;
    hit.policy.is_some()
        || detector.set.signatures.get(hit.sig as usize).is_some_and(|s| s.flags.has(flag))
}

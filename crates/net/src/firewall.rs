//! Firewall mode around detection: the hooks in front of flow and stream, and what the firewall's
//! verdict does to packet and flow.

use crate::detect::{Detector, Filtered, Hit, Resources, Run};
use crate::flow_state::NetFlow;
use crate::view::PacketView;
use crate::worker::{Core, Fate};
use gabion_flow::Flow;
use gabion_rules::post::{ConfigSubsystem, PostMatch};

/// Drop reason of the packets of a flow that the firewall drops.
pub(crate) const FLOW_DROP: &str = "firewall flow drop";

/// Whether it was the firewall that dropped a packet for this reason.
pub(crate) fn is_reason(reason: &str) -> bool {
    reason.starts_with("firewall ")
}

impl Core {
    /// Asks the firewall before the packet's flow is looked up. False: it gets no flow.
    pub(crate) fn before_flow(&mut self, view: &PacketView<'_>, fate: &mut Fate) -> bool {
        let engine = std::sync::Arc::clone(&self.engine);
        let Some(detector) = &engine.detector else { return true };
        let Some(firewall) = &detector.firewall else { return true };
        if firewall.pre_flow.is_empty() {
            return true;
        }
        let filtered = self.early(detector, view, None, fate, &|run| {
            let policy = firewall.pre_flow_policy;
            run.early_table(&firewall.pre_flow, policy, "firewall pre flow hook");
        });
        self.verdict(filtered, fate, None);
        let untracked = |action: &PostMatch| matches!(action, PostMatch::Config(c) if c.subsystem == ConfigSubsystem::TrackingDisable);
        let deferred = &self.scratch.deferred;
        let is_untracked = deferred.iter().any(|(sig, _)| {
            detector.set.signatures[*sig as usize].post_match.iter().any(untracked)
        });
        fate.drop.is_none() && !is_untracked
    }

    /// Asks the firewall before the packet meets its stream.
    pub(crate) fn before_stream(
        &mut self,
        view: &PacketView<'_>,
        flow: &mut Flow<NetFlow>,
        fate: &mut Fate,
    ) {
        let engine = std::sync::Arc::clone(&self.engine);
        let Some(detector) = &engine.detector else { return };
        let Some(firewall) = &detector.firewall else { return };
        if firewall.pre_stream.is_empty() {
            return;
        }
        let filtered = self.early(detector, view, Some(&mut *flow), fate, &|run| {
            let policy = firewall.pre_stream_policy;
            run.early_table(&firewall.pre_stream, policy, "firewall pre stream hook");
        });
        self.verdict(filtered, fate, Some(flow));
    }

    /// Asks one table, with nothing at hand but the packet and its flow; hits wait in the fate.
    fn early(
        &mut self,
        detector: &Detector,
        view: &PacketView<'_>,
        flow: Option<&mut Flow<NetFlow>>,
        fate: &mut Fate,
        ask: &dyn Fn(&mut Run<'_, '_, '_>),
    ) -> Filtered {
        let mut run = Run {
            det: detector,
            p: view,
            flow,
            tcp: None,
            parser: None,
            shared: &mut self.shared,
            budget: &self.app,
            resources: Resources {
                expressions: &detector.expressions,
                regex: &mut self.regex,
                datasets: &detector.datasets,
                turn: self.turn.as_ref(),
                scripts: &mut self.scripts,
                catalog: &self.engine.catalog,
            },
            scratch: &mut self.scratch,
            stream: None,
            not_in_stream: true,
            at_end: false,
            inline: self.engine.options.stream.inline,
            detects: false,
            filters: false,
            fed: false,
            tx: None,
            filtered: Filtered::default(),
        };
        ask(&mut run);
        let filtered = run.filtered;
        fate.early.append(&mut self.scratch.hits);
        filtered
    }

    /// Carries out on packet and flow what the firewall decided.
    pub(crate) fn verdict(
        &mut self,
        filtered: Filtered,
        fate: &mut Fate,
        flow: Option<&mut Flow<NetFlow>>,
    ) {
        if let Some(reason) = filtered.drop {
            fate.drop.get_or_insert(reason);
            fate.reject = fate.reject.or(filtered.reject);
            fate.skip_detection = true;
        }
        let Some(flow) = flow else { return };
        let flags = &mut flow.ext.flags;
        if filtered.drop.is_some() && filtered.drop_flow && !flags.dropped {
            flags.dropped = true;
            flags.drop_reason = Some(FLOW_DROP);
        }
        flags.accepted |= filtered.accept_flow;
        flags.passed |= filtered.pass_flow;
    }

    /// The alerts of hooks that were asked before, of a packet that goes no further.
    pub(crate) fn early_alerts(&mut self, fate: &mut Fate) {
        self.scratch.begin_packet();
        self.scratch.hits.append(&mut fate.early);
    }
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

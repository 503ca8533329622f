//! Firewall mode at work: a packet and its transactions against the tables of [`Firewall`].
//!
//! The first rule that matches and decides ends its table; the end of a table is its
//! policy. A packet that the firewall drops is not looked at any further; threat detection sees only
//! what the firewall accepted. Measured with Suricata 8.0.7: a transaction is filtered again from the
//! state it was last seen in, whenever its parser took bytes in this direction. A flow's end is not
//! filtered: it carries nothing that could still be withheld.

use super::firewall::{AppTables, Firewall, Policy};
use super::frame;
use super::run::{Hit, Run};
use super::tx;
use super::tx_memory::{TxFilter, TxNotes};
use gabion_proto::Transaction;
use gabion_record::applayer::ProtoId;
use gabion_record::{Direction, DropReason};
use gabion_rules::compiled::{ActionScope, BufferRef, FirewallPart, RuleHook};
use gabion_rules::{Action, Signature};

/// What the firewall decided about a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Filtered {
    /// Dropped, with the reason.
    pub(crate) drop: Option<DropReason>,
    /// The drop is of the whole flow.
    pub(crate) drop_flow: bool,
    /// Rejected, with the action.
    pub(crate) reject: Option<Action>,
    /// The flow is accepted: its packets are not filtered any more.
    pub(crate) accept_flow: bool,
    /// The packet is accepted: its transactions are not filtered.
    pub(crate) accept_packet: bool,
    /// No threat detection on the packet.
    pub(crate) pass: bool,
    /// No threat detection on its flow.
    pub(crate) pass_flow: bool,
}

/// What follows in a table after a rule or policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The next rule.
    Rule,
    /// The next table.
    Table,
    /// This transaction is accepted.
    Transaction,
    /// Packet or flow is accepted or dropped.
    End,
}

impl Filtered {
    fn apply(&mut self, action: Action, part: &FirewallPart, reason: DropReason) -> Next {
        if let Some(scope) = part.passes {
            self.pass = true;
            self.pass_flow |= scope == ActionScope::Flow;
        }
        match (action, part.scope) {
            (Action::Accept, ActionScope::Hook) => Next::Table,
            (Action::Accept, ActionScope::Transaction) => Next::Transaction,
            (Action::Accept, ActionScope::Flow | ActionScope::FlowIfStateful) => {
                self.accept_flow = true;
                Next::End
            }
            (Action::Accept, ActionScope::Packet) => {
                self.accept_packet = true;
                Next::End
            }
            (action, scope) if action.drops() => {
                self.drop = Some(reason);
                self.drop_flow = scope == ActionScope::Flow;
                self.reject = action.rejects().then_some(action);
                Next::End
            }
            (
                Action::Alert
                | Action::Pass
                | Action::Drop
                | Action::RejectSource
                | Action::RejectDestination
                | Action::RejectBoth
                | Action::Config,
                _,
            ) => Next::Rule,
        }
    }
}

impl Run<'_> {
    /// Runs firewall and other rules; `detects`: threat detection is wanted. Hits and what the
    /// firewall decided are in the scratch and in `filtered`.
    pub(crate) fn behind_firewall(&mut self, firewall: &Firewall, detects: bool) {
        self.begin_packet();
        let mut detects = detects;
        let accepted = self.flow.as_ref().is_some_and(|f| f.ext.flags.accepted);
        if !accepted {
            self.packet_table(firewall);
            if self.filtered.drop.is_some() {
                return;
            }
        }
        detects &= !self.filtered.pass;
        let mut filters = !accepted && !self.filtered.accept_flow && !self.filtered.accept_packet;
        if detects {
            let before = self.hits().len();
            self.collect_packet_candidates();
            self.inspect_packet_candidates();
            let rules = &self.det.set.signatures;
            let hits = self.hits().get(before..).unwrap_or(&[]);
            // A packet that a rule drops is not filtered further.
            filters &= !hits.iter().any(|h| rules[h.sig as usize].action.drops());
        } else {
            self.scratch.payload_tx.clear();
        }
        self.txs.detects = detects;
        self.txs.filters = filters;
        if self.flow.is_some() && self.parser().is_some() {
            if detects {
                frame::inspect(self);
            }
            tx::inspect(self);
        }
    }

    fn packet_table(&mut self, firewall: &Firewall) {
        if firewall.accept_arp && self.p.headers.network == gabion_packet::Network::Arp {
            self.filtered.accept_packet = true;
            return;
        }
        for sig in &firewall.packet {
            if self.packet_verdict(*sig, DropReason::FirewallRules) != Next::Rule {
                return;
            }
        }
        self.filtered.apply(
            firewall.packet_policy.action,
            &firewall.packet_policy.part,
            DropReason::FirewallPacketPolicy,
        );
        self.policy_alert(0, firewall.packet_policy, RuleHook::AllPackets, None);
    }

    /// Evaluates the rules of a hook before flow or stream. The packet is to be dropped if
    /// `filtered` has a drop.
    pub(crate) fn early_table(&mut self, rules: &[u32], policy: Policy, reason: DropReason) {
        self.begin_packet();
        for sig in rules {
            if self.packet_verdict(*sig, reason) != Next::Rule {
                return;
            }
        }
        self.filtered.apply(policy.action, &policy.part, reason);
    }

    fn packet_verdict(&mut self, sig: u32, reason: DropReason) -> Next {
        let det = self.det;
        let (Some(hot), Some(s)) =
            (det.hot.get(sig as usize), det.set.signatures.get(sig as usize))
        else {
            return Next::Rule;
        };
        let since = self.costs.now();
        let matched = self.packet_rule(sig, hot);
        self.costs.add(sig, since, matched.is_some());
        let Some(in_stream) = matched else { return Next::Rule };
        self.matched(sig, None, in_stream, false);
        match &s.firewall {
            Some(part) => self.filtered.apply(s.action, part, reason),
            None => Next::Rule,
        }
    }

    /// Queues the alert of a policy that asks for one.
    fn policy_alert(&mut self, which: usize, policy: Policy, hook: RuleHook, tx: Option<u64>) {
        if !policy.part.alerts {
            return;
        }
        if let Some(sig) = self.det.policy_rules.get(which).copied().flatten() {
            self.hits().push(Hit {
                sig,
                tx,
                in_state: tx.is_some(),
                policy: Some((policy, hook)),
                ..Hit::default()
            });
        }
    }

    /// Evaluates the tables of a transaction's states. False: its packet is dropped. `known` is what the
    /// firewall knows of the transaction, `notes` what the rules have seen of it.
    #[expect(
        clippy::too_many_arguments,
        reason = "a struct of borrowed parts would be built for each transaction"
    )]
    pub(super) fn tx_tables(
        &mut self,
        firewall: &Firewall,
        tx: &dyn Transaction,
        proto: ProtoId,
        direction: Direction,
        known: &mut Option<Box<TxFilter>>,
        notes: &TxNotes,
    ) -> bool {
        let Some(tables) = firewall.app(proto, direction) else { return true };
        let Some(last) = tables.states.len().checked_sub(1) else { return true };
        let progress = tx.progress(direction).min(u8::try_from(last).unwrap_or(u8::MAX));
        if !(self.is_fed() || self.p.is_pseudo) {
            return true;
        }
        let mut filter = known.take().unwrap_or_default();
        if filter.is_accepted {
            *known = Some(filter);
            return true;
        }
        let from = std::mem::replace(&mut filter.progress, progress);
        let mut continues = true;
        for state in from..=progress {
            let at = State { proto, direction, state, progress, last: last as u8 };
            match self.state_table(tables, tx, &at, notes, &mut filter) {
                Next::Transaction => {
                    filter.is_accepted = true;
                    let other = direction.opposite();
                    if let Some(m) = self.app().and_then(|a| a.tx_detect(tx.id(), other)) {
                        m.filter.get_or_insert_default().is_accepted = true;
                    }
                    break;
                }
                Next::End => {
                    continues = self.filtered.drop.is_none();
                    break;
                }
                Next::Rule | Next::Table => {}
            }
        }
        *known = Some(filter);
        continues
    }

    fn state_table(
        &mut self,
        tables: &AppTables,
        tx: &dyn Transaction,
        at: &State,
        notes: &TxNotes,
        filter: &mut TxFilter,
    ) -> Next {
        let det = self.det;
        let Some(table) = tables.states.get(usize::from(at.state)) else { return Next::Table };
        for sig in &table.rules {
            let s = &det.set.signatures[*sig as usize];
            let since = self.costs.now();
            let is_known = filter.matched.contains(sig);
            let fits = is_known || self.fits(*sig, s);
            let matched = is_known || (fits && self.engines_match(tx, s, at, notes));
            self.costs.add(*sig, since, matched);
            if !matched {
                // A rule for all states up to this one may still match while the state lasts.
                let lasts = at.state == at.progress && at.progress < at.last;
                let waits = matches!(s.hook, Some(RuleHook::App { up_to: true, .. }));
                if fits && lasts && waits {
                    return Next::Table;
                }
                continue;
            }
            if !is_known {
                self.matched(*sig, Some(tx.id()), false, true);
                if s.engines.iter().any(|e| !e.is_hook) {
                    filter.matched.push(*sig);
                }
            }
            let Some(part) = &s.firewall else { continue };
            let next = self.filtered.apply(s.action, part, DropReason::FirewallRules);
            if next != Next::Rule {
                return next;
            }
        }
        for (up_to, sig) in &tables.up_to {
            if at.state < *up_to && self.fits(*sig, &det.set.signatures[*sig as usize]) {
                return Next::Table;
            }
        }
        let policy = table.policy;
        let reason = DropReason::FirewallAppPolicy;
        let next = self.filtered.apply(policy.action, &policy.part, reason);
        let (proto, direction, progress) = (at.proto, at.direction, at.state);
        let hook = RuleHook::App { proto, direction, progress, up_to: false };
        self.policy_alert(1, policy, hook, Some(tx.id()));
        next
    }

    /// Header and conditions that do not concern the transaction.
    fn fits(&mut self, sig: u32, s: &Signature) -> bool {
        let Some(hot) = self.det.hot.get(sig as usize) else { return false };
        self.header(hot) && self.packet_conditions(s)
    }

    fn engines_match(
        &mut self,
        tx: &dyn Transaction,
        s: &Signature,
        at: &State,
        notes: &TxNotes,
    ) -> bool {
        self.scratch.notes.captured.clear();
        self.scratch.notes.context_json.clear();
        for b in s.buffers.iter() {
            let holds = match b.buffer {
                BufferRef::Payload => self.payload(s, b).is_some(),
                BufferRef::Packet(which) => self.packet_buffer(s, b, which).is_some(),
                BufferRef::App(_) => true,
                BufferRef::Frame(_) => false,
            };
            if !holds {
                return false;
            }
        }
        s.engines
            .iter()
            .filter(|e| e.direction == at.direction)
            .filter(|e| e.proto == at.proto || e.proto == ProtoId::UNKNOWN)
            .all(|e| e.progress <= at.progress && tx::engine_holds(self, tx, s, e, notes))
    }
}

/// The state whose table is evaluated.
struct State {
    proto: ProtoId,
    direction: Direction,
    state: u8,
    /// State the transaction is in.
    progress: u8,
    /// Its last one.
    last: u8,
}

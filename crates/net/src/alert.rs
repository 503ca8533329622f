//! The stage of alerts: the queue of a packet, its order, thresholds, actions, records.
//!
//! Hits come in any order; they are sorted by signature (internal order) and, for one signature,
//! newest transaction first. A `pass` ends the queue, a drop outranks a later pass, thresholds decide
//! about each hit, and the number of alerts that one packet may write is limited.

use crate::context::PacketContext;
use crate::detect::{Detector, Hit, has_named_states, hook_name, policy_text};
use crate::engine::Engine;
use crate::flow_state::NetFlow;
use crate::loss::loss;
use crate::ordered::{Ordered, Turn};
use crate::records::{
    FilesObject, RecordStage, TxObject, app_names, files_of, flow_header, frame_json, header,
    link_of, metadata, signature_members, summary, tunnel, verdict,
};
use crate::script::OutputKind;
use crate::tags::{HostTags, Tags};
use crate::threshold::{Decision, RuleSlot, Subject, Thresholds};
use crate::verdicts::can_wait;
use crate::view::PacketView;
use crate::{firewall, frames};
use gabion_flow::Flow;
use gabion_proto::registry::protocol;
use gabion_proto::{Protocol, Transaction};
use gabion_record::alerted::{AlertedPacketRecord, FoundIn, PacketAlert};
use gabion_record::eve::*;
use gabion_record::ledger::ShedReason;
use gabion_record::{Addr, Direction, DropReason, IpProto};
use gabion_rules::compiled::ActionScope;
use gabion_rules::compiled::actions::{
    ConfigKind, ConfigScope, ConfigSubsystem, FilestoreDirection, FilestoreScope, PostMatch,
    Target, ThresholdTrack,
};
use gabion_rules::{Action, Signature, SignatureFlags};
use smallvec::SmallVec;

/// What a worker's alerts depend on, in addition to their packet.
pub(crate) struct AlertStage {
    thresholds: Ordered<Thresholds>,
    /// Flows and hosts whose packets are logged.
    pub(crate) tags: Tags,
    turn: Option<Turn>,
    /// Packets with alerts so far.
    packets_alerted: u64,
}

/// An alert that is to be written.
struct Queued {
    /// Place among the packet's hits.
    at: usize,
    action: Action,
    /// The action is that of a rate filter.
    is_changed: bool,
    /// Its threshold is asked where it is written.
    is_asked: bool,
}

type Queue = SmallVec<[Queued; 8]>;

/// An alert as it is written.
struct Alert<'a> {
    detector: &'a Detector,
    signature: &'a Signature,
    hit: &'a Hit,
    action: Action,
    /// The action is that of a rate filter.
    is_changed: bool,
    question: Option<Question>,
    /// Bytes of the packet's stream.
    stream: &'a [u8],
}

impl AlertStage {
    /// A stage with these thresholds and tags of hosts.
    pub(crate) fn new(
        thresholds: Ordered<Thresholds>,
        host_tags: Ordered<HostTags>,
        turn: Option<Turn>,
    ) -> AlertStage {
        AlertStage { thresholds, tags: Tags::new(host_tags), turn, packets_alerted: 0 }
    }

    /// What follows the rules' run on a packet: deferred actions, the queue, records.
    #[inline]
    pub(crate) fn alert(
        &mut self,
        cx: &mut PacketContext<'_>,
        records: &RecordStage,
        stream: &[u8],
    ) {
        // Most packets have none.
        if !cx.findings.hits.is_empty() {
            self.alert_hits(cx, records, stream);
        }
    }

    fn alert_hits(&mut self, cx: &mut PacketContext<'_>, records: &RecordStage, stream: &[u8]) {
        let Some(detector) = &cx.engine.detector else { return };
        let deferred = std::mem::take(&mut cx.findings.deferred);
        for (sig, tx) in &deferred {
            self.act_deferred(cx, &detector.set.signatures[*sig as usize], *tx);
        }
        cx.findings.deferred = deferred;
        let mut hits = std::mem::take(&mut cx.findings.hits);
        if detector.firewall.is_some() {
            hits.sort_by(|a, b| firewall::order(detector, a, b));
        } else {
            hits.sort_by(|a, b| a.sig.cmp(&b.sig).then(b.tx.cmp(&a.tx)));
        }
        self.packets_alerted = self.packets_alerted.wrapping_add(1);
        // The decisions about the packet come first, so that every record shows the final ones.
        let queue = self.queue(cx, detector, &mut hits);
        let sure = queue.iter().filter(|q| !q.is_asked).count();
        cx.account.counters.alerts += sure as u64;
        cx.outcome.has_alert |= !queue.is_empty();
        if let Some(f) = cx.flow.as_deref_mut() {
            f.ext.flags.alerted |= sure > 0;
            f.ext.flags.alert_asked |= sure < queue.len();
        }
        for q in &queue {
            hits[q.at].guessed_tx = guess_transaction(cx, &hits[q.at]);
            let hit = &hits[q.at];
            let signature = &detector.set.signatures[hit.sig as usize];
            let question = q.is_asked.then(|| self.question(cx, signature));
            let Queued { action, is_changed, .. } = *q;
            let alert = Alert { detector, signature, hit, action, is_changed, question, stream };
            alert.write(cx);
            if !records.outputs.is_empty() {
                records.script_packet(cx, OutputKind::Alert, Some(signature));
            }
        }
        if cx.engine.options.wants.alerted_packets {
            let alerts = queue.iter().map(|q| &hits[q.at]);
            log_alerted_packet(cx, detector, alerts, stream);
        }
        cx.findings.hits = hits;
        log_with_alerts(cx, detector);
    }

    /// Applies the thresholds to each hit, carries out its action and queues its alert.
    fn queue(
        &mut self,
        cx: &mut PacketContext<'_>,
        detector: &Detector,
        hits: &mut [Hit],
    ) -> Queue {
        let (engine, alerts_max) = (cx.engine, cx.engine.options.alerts_max);
        let all_asked = self.turn.is_some() && must_ask_all(engine, detector, hits);
        let mut queue = Queue::new();
        for (at, hit) in hits.iter_mut().enumerate() {
            let s = &detector.set.signatures[hit.sig as usize];
            let thresholds = [&s.threshold, &s.detection_filter, &s.rate_filter];
            if thresholds.into_iter().flatten().any(|t| t.track == ThresholdTrack::Flow)
                && let Some(f) = cx.flow.as_deref_mut()
            {
                f.ext.vars.is_counted = true;
            }
            let (decision, changed) = self.decide(cx, detector, s);
            if decision == Decision::Nothing {
                cx.account.counters.alerts_suppressed += 1;
                continue;
            }
            let action = match hit.policy {
                Some((policy, _)) => policy.action,
                None => changed.unwrap_or(s.action),
            };
            // Past its limit a rule still drops, but does not pass.
            if decision == Decision::Silent && action == Action::Pass {
                cx.account.counters.alerts_suppressed += 1;
                continue;
            }
            let is_filtered = hit.policy.is_some() || s.flags.has(SignatureFlags::FIREWALL);
            hit.action = Some(action);
            let is_changed = changed.is_some() && hit.policy.is_none();
            if !is_filtered {
                let reason = match changed {
                    Some(_) => DropReason::DetectionFilter,
                    None => DropReason::Rules,
                };
                act(cx, s, hit, (action, reason));
            }
            // A pass rule is silent unless it says `alert`; nothing after it counts.
            let ends = action == Action::Pass;
            let is_passed = ends && changed.is_some();
            if decision == Decision::Silent || is_passed || s.flags.has(SignatureFlags::NOALERT) {
                cx.account.counters.alerts_suppressed += u64::from(decision == Decision::Silent);
            } else if decision == Decision::Asked || all_asked {
                queue.push(Queued { at, action, is_changed, is_asked: true });
            } else {
                let ledger = &mut cx.account.ledgers.alerts;
                ledger.receive(1, 0);
                if queue.len() >= alerts_max {
                    ledger.shed(ShedReason::AlertQueue, 1, 0);
                    cx.account.counters.alert_queue_overflow += 1;
                } else {
                    ledger.pass(1, 0);
                    queue.push(Queued { at, action, is_changed, is_asked: false });
                }
            }
            if ends {
                break;
            }
        }
        queue
    }

    fn question(&self, cx: &PacketContext<'_>, s: &Signature) -> Question {
        let h = cx.view.headers;
        let worker = self.turn.as_ref().map_or(0, Turn::worker) as u64;
        Question {
            rule: s.index,
            packet: (worker << 56) | self.packets_alerted,
            src: h.src,
            dst: h.dst,
            ip_version: h.ip_version(),
            flow: cx.flow.as_deref().map(|f| f.id),
            ts_ns: cx.view.ts_ns,
        }
    }

    fn decide(
        &mut self,
        cx: &PacketContext<'_>,
        detector: &Detector,
        s: &Signature,
    ) -> (Decision, Option<Action>) {
        let h = cx.view.headers;
        let version = h.ip_version();
        for sup in &s.suppressions {
            let contains = |a| match sup.addresses {
                Some(id) => detector.set.addresses[id.0 as usize].contains(version, a),
                None => true,
            };
            if sup.applies(h.src, h.dst, contains) {
                return (Decision::Silent, None);
            }
        }
        // Packets without addresses are not tracked (Suricata's rule): each of them alerts.
        if version == 0 {
            return (Decision::Alert, None);
        }
        if self.turn.is_some() && can_wait(cx.engine, s) {
            return (Decision::Asked, None);
        }
        let subject = Subject {
            src: h.src,
            dst: h.dst,
            version,
            flow: cx.flow.as_deref().map(|f| f.id),
            ts_ns: cx.view.ts_ns,
        };
        if let Some(t) = &s.detection_filter
            && self.thresholds.write(|all| all.decide(RuleSlot::from_rule(s, 0), t, &subject)).0
                == Decision::Nothing
        {
            return (Decision::Nothing, None);
        }
        let mut changed = None;
        if let Some(t) = &s.rate_filter {
            changed =
                self.thresholds.write(|all| all.decide(RuleSlot::from_rule(s, 1), t, &subject)).1;
        }
        match &s.threshold {
            Some(t) => (
                self.thresholds.write(|all| all.decide(RuleSlot::from_rule(s, 2), t, &subject)).0,
                changed,
            ),
            None => (Decision::Alert, changed),
        }
    }

    /// Actions that need more than the flow's variables.
    fn act_deferred(&mut self, cx: &mut PacketContext<'_>, s: &Signature, tx: Option<u64>) {
        for action in &s.post_match {
            match action {
                PostMatch::Tag(tag) => self.tags.tag(*tag, cx),
                PostMatch::Filestore { direction, scope } => {
                    if let Some(f) = cx.flow.as_deref_mut() {
                        filestore(s, (*direction, *scope), tx, cx.view.direction, f);
                    }
                }
                PostMatch::Config(c) if c.subsystem == ConfigSubsystem::LoggingDisable => {
                    let Some(f) = cx.flow.as_deref_mut() else { continue };
                    match (c.kind, c.scope) {
                        (ConfigKind::Flow, _) => f.ext.flags.no_flow_log = true,
                        (ConfigKind::Transaction, ConfigScope::Flow) => {
                            f.ext.flags.no_app_log = true;
                        }
                        // logging is of flows and transactions: nothing to change for a packet
                        (ConfigKind::Transaction, ConfigScope::Packet) => {}
                        (ConfigKind::Transaction, ConfigScope::Transaction) => {
                            if let Some(id) = tx {
                                f.ext.app.silence(id);
                            }
                        }
                    }
                }
                PostMatch::Bypass => {
                    if let Some(f) = cx.flow.as_deref_mut() {
                        f.state = gabion_flow::FlowState::Bypassed;
                    }
                }
                PostMatch::Config(_)
                | PostMatch::Flowbits { .. }
                | PostMatch::Flowint { .. }
                | PostMatch::Xbits { .. }
                | PostMatch::Hostbits { .. }
                | PostMatch::TlsStore
                | PostMatch::NfqSetMark { .. }
                | PostMatch::Replace { .. } => {}
            }
        }
    }
}

/// Whether the limit on alerts of a packet depends on thresholds that are applied later.
#[cold]
fn must_ask_all(engine: &Engine, detector: &Detector, hits: &[Hit]) -> bool {
    let can_wait = |hit: &Hit| can_wait(engine, &detector.set.signatures[hit.sig as usize]);
    hits.len() > engine.options.alerts_max && hits.iter().any(can_wait)
}

/// Applies the rule's action to packet and flow. The reason is that of a drop.
fn act(
    cx: &mut PacketContext<'_>,
    s: &Signature,
    hit: &Hit,
    (action, reason): (Action, DropReason),
) {
    let outcome = &mut *cx.outcome;
    let to_flow = match s.scope() {
        ActionScope::Flow => true,
        ActionScope::FlowIfStateful => hit.in_stream || hit.in_state,
        ActionScope::Packet | ActionScope::Hook | ActionScope::Transaction => false,
    };
    let flow = cx.flow.as_deref_mut().filter(|_| to_flow);
    if action == Action::Pass {
        if outcome.drop.is_none() {
            outcome.passed = true;
            if let Some(f) = flow {
                f.ext.flags.passed = true;
            }
        }
        return;
    }
    if action.rejects() {
        outcome.reject.get_or_insert(action);
    }
    if !action.drops() {
        return;
    }
    if cx.engine.options.inline {
        outcome.drop.get_or_insert(reason);
        if let Some(f) = flow {
            f.ext.flags.dropped = true;
        }
    } else if let Some(f) = flow {
        f.ext.flags.refused = true;
    }
}

/// Writes the record of a packet with all its alerts.
#[cold]
fn log_alerted_packet<'h>(
    cx: &mut PacketContext<'_>,
    detector: &Detector,
    hits: impl Iterator<Item = &'h Hit>,
    stream: &[u8],
) {
    let (engine, view, flow) = (cx.engine, cx.view, cx.flow.as_deref());
    let alerts: Vec<PacketAlert<'_>> = hits
        .map(|hit| {
            let s = &detector.set.signatures[hit.sig as usize];
            PacketAlert {
                signature: signature_members(detector, s, hit),
                found_in: match (hit.in_stream, hit.in_state) {
                    (_, true) => FoundIn::State,
                    (true, false) => FoundIn::Stream,
                    (false, false) => FoundIn::Packet,
                },
                tx_id: hit.tx,
            }
        })
        .collect();
    if alerts.is_empty() {
        return;
    }
    let meta = flow.map(|f| metadata(engine, f, &cx.findings.packet_variables));
    cx.sink.alerted_packet(&AlertedPacketRecord {
        header: header(view, flow, None),
        tcp: view.headers.transport.tcp().map(|t| (t.seq, t.ack)),
        direction: flow.and(view.direction),
        flow: flow.map(summary),
        is_flow_dropped: flow.is_some_and(|f| f.ext.flags.dropped),
        is_payload_over: flow.is_some_and(|f| f.ext.flags.no_payload),
        is_parsing_over: flow
            .and_then(|f| f.tcp.as_deref())
            .is_some_and(|tcp| Direction::BOTH.iter().all(|d| !tcp.stream(*d).is_app_enabled())),
        app_proto: flow.map_or_else(Default::default, |f| app_names(&engine.catalog, &f.ext.app)),
        variables: &|to| meta.iter().for_each(|meta| meta.each(to)),
        packet: if view.is_pseudo { &[] } else { view.headers.bytes(view.frame) },
        payload: view.payload,
        stream,
        alerts: &alerts,
    });
}

/// Certificates that rules asked for, and variables they captured.
fn log_with_alerts(cx: &mut PacketContext<'_>, detector: &Detector) {
    let (wants, view, flow) = (&cx.engine.options.wants, cx.view, cx.flow.as_deref());
    if wants.metadata && !cx.findings.packet_variables.is_empty() {
        let meta = flow.map(|f| metadata(cx.engine, f, &cx.findings.packet_variables));
        cx.sink.metadata(&header(view, flow, meta.as_ref().map(|m| m as &dyn WriteObject)));
    }
    let asks = |sig: u32| {
        let s = &detector.set.signatures[sig as usize];
        s.flags.has(SignatureFlags::TLS_STORE)
    };
    let (Some(f), Some(d)) = (flow, view.direction) else { return };
    if !wants.certificates || !cx.findings.deferred.iter().any(|(sig, _)| asks(*sig)) {
        return;
    }
    let tx = f.ext.app.parser.as_deref().and_then(|p| p.tx(p.first_tx_id()));
    let Some(c) = tx.and_then(|tx| tx.certificates(d)) else { return };
    cx.sink.certificates(&CertificateRecord {
        header: flow_header(view, f, Direction::ToServer),
        is_client: d == Direction::ToServer,
        chain: c.chain,
        subject: c.subject,
        issuer: c.issuer,
        fingerprint: c.fingerprint,
    });
}

/// The flow's only transaction, for a hit that has none: each is named by guess in a few alerts only.
fn guess_transaction(cx: &mut PacketContext<'_>, hit: &Hit) -> Option<u64> {
    let most = cx.engine.options.tx_guesses;
    if hit.tx.is_some() || most == 0 {
        return None;
    }
    let app = &mut cx.flow.as_deref_mut()?.ext.app;
    let id = app.only_live_tx(cx.view.direction)?;
    app.count_guess(id, most).then_some(id)
}

/// The transaction that an alert names, and whether it was guessed.
pub(crate) fn named_transaction(
    s: &Signature,
    hit: &Hit,
    view: &PacketView<'_>,
    flow: Option<&Flow<NetFlow>>,
) -> Option<(u64, bool)> {
    let tx = AlertTx::from_hit(s, hit, view, flow);
    tx.id.map(|id| (id, tx.is_guessed))
}

/// The transaction that an alert names.
struct AlertTx<'a> {
    id: Option<u64>,
    is_guessed: bool,
    tx: Option<&'a dyn Transaction>,
    protocol: Option<&'static Protocol>,
}

impl<'a> AlertTx<'a> {
    fn from_hit(
        s: &Signature,
        hit: &Hit,
        view: &PacketView<'_>,
        flow: Option<&'a Flow<NetFlow>>,
    ) -> AlertTx<'a> {
        let app = flow.map(|f| &f.ext.app);
        // A datagram is its own transaction, also for what looks at it as a packet.
        let of_datagram = flow
            .filter(|f| hit.tx.is_none() && f.proto == IpProto::UDP && !s.header.apps.is_empty())
            .and_then(|f| f.ext.app.newest_tx(view.direction?));
        let id = hit.tx.or(of_datagram).or(hit.guessed_tx);
        AlertTx {
            id,
            is_guessed: hit.guessed_tx.is_some(),
            tx: app.and_then(|a| a.parser.as_deref()?.tx(id?)),
            protocol: app.and_then(|a| protocol(a.proto)),
        }
    }

    /// The key of its object.
    fn key(&self) -> &'static str {
        match (self.tx, self.protocol) {
            (Some(tx), Some(p)) => tx.event_type().unwrap_or(p.event_type),
            _ => "",
        }
    }

    /// Names of its states, to server and to client.
    fn progress(&self) -> Option<(&'static str, &'static str)> {
        let (tx, p) = (self.tx?, self.protocol?);
        has_named_states(&p.table).then(|| {
            let name = |d: Direction| {
                let states = p.table.states(d);
                states
                    .get(usize::from(tx.parsed_progress(d)))
                    .or(states.last())
                    .copied()
                    .unwrap_or("")
            };
            (name(Direction::ToServer), name(Direction::ToClient))
        })
    }
}

impl Alert<'_> {
    /// Writes the record of the alert from all that is known of packet, flow and transaction.
    fn write(&self, cx: &mut PacketContext<'_>) {
        let (engine, view, flow) = (cx.engine, cx.view, cx.flow.as_deref());
        let Alert { signature: s, hit, action, is_changed, stream, .. } = *self;
        let app = flow.map(|f| &f.ext.app);
        let of = AlertTx::from_hit(s, hit, view, flow);
        let tx = of.tx;
        let object = tx.map(|tx| TxObject { tx });
        let files = tx.and_then(|tx| files_of(tx, view.direction));
        let id = flow.map_or(0, |f| f.id);
        let files =
            files.as_ref().map(|list| FilesObject { list, flow: id, tx: of.id.unwrap_or(0) });
        let meta = flow.map(|f| metadata(engine, f, &cx.findings.packet_variables));
        let meta = meta.as_ref().map(|m| m as &dyn WriteObject);
        let inline = engine.options.inline;
        let frame_json = match (&hit.frame, of.protocol, view.direction) {
            (Some(frame), Some(p), Some(d)) => {
                let tcp = flow.and_then(|f| f.tcp.as_deref());
                let over = frames::is_over(view, tcp);
                frame_json(frame, &p.table, d, tcp, view.payload, over)
            }
            _ => Vec::new(),
        };
        let is_stream = hit.in_stream || (hit.in_state && !stream.is_empty());
        let packet: std::borrow::Cow<'_, [u8]> = match (view.is_pseudo, view.prefix) {
            (true, _) => (&[][..]).into(),
            (false, []) => view.headers.bytes(view.frame).into(),
            (false, prefix) => [prefix, view.headers.bytes(view.frame)].concat().into(),
        };
        let forwarded_for = |name: &str, last: bool| tx.and_then(|tx| tx.forwarded_for(name, last));
        let loss = flow.and_then(|f| loss(&cx.account.ledgers, f));
        let policy = self.firewall_object(engine);
        cx.sink.alert(&AlertRecord {
            header: header(view, flow, meta),
            signature: self.signature_members(engine),
            firewall: policy
                .as_ref()
                .map(|(hook, policy)| FirewallObject { hook: hook.as_deref(), policy }),
            // Also a sensor says so of the action of a rate filter (Suricata 8.0.7).
            is_blocked: (action.drops() && (inline || is_changed)) || action.rejects(),
            is_reject: action.rejects(),
            drop_mark: (action.drops() && !view.is_pseudo && (inline || action == Action::Drop))
                .then_some(inline),
            source_target: source_target(s, view),
            context_json: &hit.context_json,
            tx_id: of.id,
            is_tx_guessed: of.is_guessed,
            progress: of.progress(),
            app: object.as_ref().map(|o| AppObject { key: of.key(), object: o }),
            files: files.as_ref().map(|f| f as &dyn WriteObject),
            app_proto: app.map_or_else(Default::default, |a| app_names(&engine.catalog, a)),
            direction: flow.and(view.direction),
            flow: flow.map(summary),
            payload: if is_stream { stream } else { view.payload },
            is_stream,
            payload_len: view.payload.len(),
            packet: &packet,
            link: link_of(view),
            tunnel: tunnel(view),
            frame_json: &frame_json,
            verdict: Some(verdict(cx.outcome, view)),
            forwarded_for: tx.is_some().then_some(&forwarded_for as ForwardedFor<'_>),
            loss: loss.as_ref(),
            question: self.question,
        });
    }

    fn signature_members<'a>(&'a self, engine: &'a Engine) -> AlertSignature<'a> {
        let (set, s) = (&self.detector.set, self.signature);
        let text = engine.rule_texts.get(set, s);
        AlertSignature {
            metadata_json: text.map_or(&[], |t| &t.metadata),
            confidence: text.map_or(&[], |t| &t.confidence),
            references_json: text.map_or(&[], |t| &t.references),
            rule: set.text(s.raw),
            ..signature_members(self.detector, s, self.hit)
        }
    }

    /// Table and policy of a hit of the firewall: of its rule or of the table itself.
    fn firewall_object(&self, engine: &Engine) -> Option<(Option<String>, String)> {
        let (catalog, hit, s) = (&engine.catalog, self.hit, self.signature);
        if let Some((policy, hook)) = hit.policy {
            let text = policy_text(policy.action, &policy.part, policy.part.alerts);
            return Some((hook_name(hook, catalog), text));
        }
        let part = s.firewall.as_ref().filter(|_| firewall::is_of_firewall(self.detector, hit))?;
        let alerts = !s.flags.has(SignatureFlags::NOALERT);
        let hook = s.hook.and_then(|h| hook_name(h, catalog));
        Some((hook, policy_text(s.action, part, alerts)))
    }
}

/// Source and target of the attack; the rule names the side that is the target.
fn source_target(s: &Signature, view: &PacketView<'_>) -> Option<((Addr, u16), (Addr, u16))> {
    let ends = view.headers;
    let (src, dst) = ((ends.src, ends.sp), (ends.dst, ends.dp));
    s.target.map(|t| if t == Target::Destination { (src, dst) } else { (dst, src) })
}

fn filestore(
    s: &Signature,
    (direction, scope): (FilestoreDirection, FilestoreScope),
    tx: Option<u64>,
    of_packet: Option<Direction>,
    flow: &mut Flow<NetFlow>,
) {
    let of_rule = of_packet.unwrap_or(Direction::ToServer);
    let directions: &[Direction] = match direction {
        FilestoreDirection::Default => &[of_rule],
        FilestoreDirection::ToServer => &[Direction::ToServer],
        FilestoreDirection::ToClient => &[Direction::ToClient],
        FilestoreDirection::Both => &Direction::BOTH,
    };
    for d in directions {
        if scope == FilestoreScope::Flow {
            flow.ext.flags.sides[d.index()].store_files = true;
        }
        let ids = flow.ext.app.tx_ids();
        for id in ids {
            if scope != FilestoreScope::Flow && tx != Some(id) {
                continue;
            }
            let Some(p) = flow.ext.app.parser.as_mut() else { return };
            let Some(list) = p.tx_mut(id).and_then(|t| t.files_mut(*d)) else { continue };
            for f in &mut list.files {
                f.store = true;
                if !f.sids.contains(&s.sid) {
                    f.sids.push(s.sid);
                }
            }
        }
    }
}

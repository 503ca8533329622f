//! The alert queue of a packet: order, thresholds, actions, records.
//!
//! Hits come in any order; they are sorted by signature (internal order) and, for one signature,
//! newest transaction first. A `pass` ends the queue, a drop outranks a later pass, thresholds decide
//! about each, and only so many alerts of one packet are written.

use crate::detect::{Detector, Hit, has_named_states, hook_name, policy_text};
use crate::firewall;
use crate::flow_state::NetFlow;
use crate::frames;
use crate::lapsing::Lapsing;
use crate::limits::{TAGS_MAX, reached};
use crate::log::{
    FilesObject, MetadataObject, TxObject, app_names, files_of, flow_header, header, summary,
};
use crate::ordered::Turn;
use crate::script::OutputKind;
use crate::threshold::{Decision, Subject};
use crate::verdicts::can_wait;
use crate::view::PacketView;
use crate::worker::{Core, Fate};
use gabion_flow::Flow;
use gabion_packet::{Flags, Transport};
use gabion_proto::registry::protocol;
use gabion_record::eve::*;
use gabion_record::ledger::ShedReason;
use gabion_record::{Addr, Direction};
use gabion_rules::post::{
    ConfigKind, ConfigScope, ConfigSubsystem, FilestoreDirection, FilestoreScope, PostMatch, Tag,
    TagMetric, TagScope, Target,
};
use gabion_rules::signature::ActionScope;
use gabion_rules::{Action, Signature, SignatureFlags};

/// Whom a tag follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Tagged {
    Flow(u64),
    Host(Addr),
}

#[derive(Clone, Copy, Debug)]
struct TagState {
    tag: Tag,
    start_ns: u64,
    packets: u64,
    bytes: u64,
    /// Number of the packet that set it: it is not logged itself.
    since: u64,
}

impl TagState {
    /// Whether its seconds are over.
    fn is_past(&self, now_ns: u64) -> bool {
        let lasts_ns = u64::from(self.tag.count) * 1_000_000_000;
        now_ns > self.start_ns.saturating_add(lasts_ns)
    }
}

/// Flows and hosts whose packets are logged.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    active: Lapsing<Tagged, TagState>,
}

impl Core {
    /// What follows the rules' run: deferred actions, the queue, records.
    pub(crate) fn after_detection(
        &mut self,
        detector: &Detector,
        view: &PacketView<'_>,
        mut flow: Option<&mut Flow<NetFlow>>,
        fate: &mut Fate,
        stream: &[u8],
        sink: &mut dyn NetSink,
    ) {
        if self.scratch.hits.is_empty() {
            return;
        }
        let deferred = std::mem::take(&mut self.scratch.deferred);
        for (sig, tx) in &deferred {
            let s = &detector.set.signatures[*sig as usize];
            self.deferred(s, *tx, view, flow.as_deref_mut());
        }
        self.scratch.deferred = deferred;
        let mut hits = std::mem::take(&mut self.scratch.hits);
        match detector.firewall.is_some() {
            true => hits.sort_by(|a, b| firewall::order(detector, a, b)),
            false => hits.sort_by(|a, b| a.sig.cmp(&b.sig).then(b.tx.cmp(&a.tx))),
        }
        let all_asked = self.turn.is_some() && self.must_ask_all(detector, &hits);
        self.packets_alerted = self.packets_alerted.wrapping_add(1);
        // First what becomes of the packet, so that every record tells the end of it.
        let mut queue: smallvec::SmallVec<[(usize, Action, bool); 8]> = smallvec::SmallVec::new();
        for (at, hit) in hits.iter_mut().enumerate() {
            let s = &detector.set.signatures[hit.sig as usize];
            let (decision, changed) = self.decide(detector, s, view, flow.as_deref());
            if decision == Decision::Nothing {
                self.counters.alerts_suppressed += 1;
                continue;
            }
            let action = match hit.policy {
                Some((policy, _)) => policy.action,
                None => changed.unwrap_or(s.action),
            };
            let is_filtered = hit.policy.is_some() || s.flags.has(SignatureFlags::FIREWALL);
            hit.action = Some(action);
            if !is_filtered {
                let reason = match changed {
                    Some(_) => "threshold detection_filter",
                    None => "rules",
                };
                self.act(s, action, reason, hit, flow.as_deref_mut(), fate);
            }
            // A pass rule is silent unless it says `alert`; nothing behind it counts.
            let ends = action == Action::Pass;
            let is_passed = ends && changed.is_some();
            if decision == Decision::Silent || is_passed || s.flags.has(SignatureFlags::NOALERT) {
                self.counters.alerts_suppressed += u64::from(decision == Decision::Silent);
            } else if decision == Decision::Asked || all_asked {
                queue.push((at, action, true));
            } else {
                self.ledgers.alerts.receive(1, 0);
                if queue.len() >= self.engine.options.alerts_max {
                    self.counters.alert_queue_overflow += 1;
                    self.ledgers.alerts.shed(ShedReason::AlertQueue, 1, 0);
                } else {
                    self.ledgers.alerts.pass(1, 0);
                    queue.push((at, action, false));
                }
            }
            if ends {
                break;
            }
        }
        let sure = queue.iter().filter(|(_, _, asked)| !asked).count();
        self.counters.alerts += sure as u64;
        self.wire.has_alert |= !queue.is_empty() && !view.is_pseudo;
        if let Some(f) = flow.as_deref_mut() {
            f.ext.flags.alerted |= sure > 0;
            f.ext.flags.alert_asked |= sure < queue.len();
        }
        for (at, action, asked) in queue {
            let hit = &hits[at];
            let s = &detector.set.signatures[hit.sig as usize];
            let flow = flow.as_deref();
            let question = asked.then(|| self.question(s, view, flow));
            self.write_alert(detector, s, action, hit, view, flow, fate, stream, question, sink);
            if !self.outputs.is_empty() {
                self.script_packet(OutputKind::Alert, view, flow, Some(s));
            }
        }
        self.scratch.hits = hits;
        self.beside_alerts(detector, view, flow.as_deref(), sink);
    }

    /// Certificates that rules asked for, and variables they captured.
    fn beside_alerts(
        &self,
        detector: &Detector,
        view: &PacketView<'_>,
        flow: Option<&Flow<NetFlow>>,
        sink: &mut dyn NetSink,
    ) {
        let wants = &self.engine.options.wants;
        if wants.metadata && !self.scratch.packet_variables.is_empty() {
            let meta = flow.map(|f| self.metadata(f));
            sink.metadata(&header(view, flow, meta.as_ref().map(|m| m as &dyn WriteObject)));
        }
        let asks = |sig: u32| {
            let s = &detector.set.signatures[sig as usize];
            s.flags.has(SignatureFlags::TLS_STORE)
        };
        let (Some(f), Some(d)) = (flow, view.direction) else { return };
        if !wants.certificates || !self.scratch.deferred.iter().any(|(sig, _)| asks(*sig)) {
            return;
        }
        let tx = f.ext.app.parser.as_deref().and_then(|p| p.tx(p.first_tx_id()));
        let Some(c) = tx.and_then(|tx| tx.certificates(d)) else { return };
        sink.certificates(&CertificateRecord {
            header: flow_header(view, f, Direction::ToServer),
            is_client: d == Direction::ToServer,
            chain: c.chain,
            subject: c.subject,
            issuer: c.issuer,
            fingerprint: c.fingerprint,
        });
    }

    /// Whether the limit on alerts of a packet hangs on thresholds that are asked later.
    #[cold]
    fn must_ask_all(&self, detector: &Detector, hits: &[Hit]) -> bool {
        let can_wait = |hit: &Hit| {
            let s = &detector.set.signatures[hit.sig as usize];
            can_wait(&self.engine, s)
        };
        hits.len() > self.engine.options.alerts_max && hits.iter().any(can_wait)
    }

    fn question(
        &self,
        s: &Signature,
        view: &PacketView<'_>,
        flow: Option<&Flow<NetFlow>>,
    ) -> Question {
        let h = view.headers;
        let worker = self.turn.as_ref().map_or(0, Turn::worker) as u64;
        Question {
            rule: s.index,
            packet: (worker << 56) | self.packets_alerted,
            src: h.src,
            dst: h.dst,
            ip_version: h.ip_version(),
            flow: flow.map(|f| f.id),
            ts_ns: view.ts_ns,
        }
    }

    fn decide(
        &mut self,
        detector: &Detector,
        s: &Signature,
        view: &PacketView<'_>,
        flow: Option<&Flow<NetFlow>>,
    ) -> (Decision, Option<Action>) {
        let h = view.headers;
        let version = h.ip_version();
        for sup in &s.suppressions {
            let contains = |a: Addr| match sup.addresses {
                Some(id) => detector.set.addresses[id.0 as usize].contains(version, a),
                None => true,
            };
            if sup.applies(h.src, h.dst, contains) {
                return (Decision::Silent, None);
            }
        }
        // Packets without addresses are not tracked (the peer's rule): each of them alerts.
        if version == 0 {
            return (Decision::Alert, None);
        }
        if self.turn.is_some() && can_wait(&self.engine, s) {
            return (Decision::Asked, None);
        }
        let subject = Subject {
            src: h.src,
            dst: h.dst,
            version,
            flow: flow.map(|f| f.id),
            ts_ns: view.ts_ns,
        };
        if let Some(t) = &s.detection_filter
            && self.thresholds.write(|all| all.decide(s.index, 0, t, &subject)).0
                == Decision::Nothing
        {
            return (Decision::Nothing, None);
        }
        let mut changed = None;
        if let Some(t) = &s.rate_filter {
            changed = self.thresholds.write(|all| all.decide(s.index, 1, t, &subject)).1;
        }
        match &s.threshold {
            Some(t) => {
                (self.thresholds.write(|all| all.decide(s.index, 2, t, &subject)).0, changed)
            }
            None => (Decision::Alert, changed),
        }
    }

    /// What the rule's action does to packet and flow.
    fn act(
        &mut self,
        s: &Signature,
        action: Action,
        reason: &'static str,
        hit: &Hit,
        flow: Option<&mut Flow<NetFlow>>,
        fate: &mut Fate,
    ) {
        let to_flow = match s.scope() {
            ActionScope::Flow => true,
            ActionScope::FlowIfStateful => hit.in_stream || hit.in_state,
            _ => false,
        };
        if action == Action::Pass {
            if fate.drop.is_none() {
                fate.passed = true;
                if to_flow && let Some(f) = flow {
                    f.ext.flags.passed = true;
                }
            }
            return;
        }
        if action.rejects() {
            fate.reject.get_or_insert(action);
        }
        if action.drops() && self.engine.options.inline {
            fate.drop.get_or_insert(reason);
            if to_flow && let Some(f) = flow {
                f.ext.flags.dropped = true;
            }
        }
    }

    /// Actions that need more than the flow's variables.
    fn deferred(
        &mut self,
        s: &Signature,
        tx: Option<u64>,
        view: &PacketView<'_>,
        mut flow: Option<&mut Flow<NetFlow>>,
    ) {
        for action in &s.post_match {
            match action {
                PostMatch::Tag(tag) => self.tag(*tag, view, flow.as_deref()),
                PostMatch::Filestore { direction, scope } => {
                    if let Some(f) = flow.as_deref_mut() {
                        filestore(s, *direction, *scope, tx, view, f);
                    }
                }
                PostMatch::Config(c) if c.subsystem == ConfigSubsystem::LoggingDisable => {
                    let Some(f) = flow.as_deref_mut() else { continue };
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
                    if let Some(f) = flow.as_deref_mut() {
                        f.state = gabion_flow::FlowState::Bypassed;
                    }
                }
                _ => {}
            }
        }
    }

    /// A flow has ended: its packets are not logged any more.
    pub(crate) fn untag(&mut self, flow: u64) {
        if !self.tags.active.is_empty() {
            self.tags.active.remove(&Tagged::Flow(flow));
        }
    }

    fn tag(&mut self, tag: Tag, view: &PacketView<'_>, flow: Option<&Flow<NetFlow>>) {
        let key = match (tag.scope, flow) {
            (TagScope::Session, Some(f)) => Tagged::Flow(f.id),
            (TagScope::Session, None) => return,
            (TagScope::HostSource, _) => Tagged::Host(view.headers.src),
            (TagScope::HostDestination, _) => Tagged::Host(view.headers.dst),
        };
        let now_ns = self.clock_ns;
        let state = TagState {
            tag,
            start_ns: self.clock_ns,
            packets: 1,
            bytes: u64::from(view.headers.len),
            since: view.number,
        };
        // Those that count packets or bytes wait for them; flows take theirs with them.
        let is_over = |t: &TagState| t.tag.metric == TagMetric::Seconds && t.is_past(now_ns);
        if self.tags.active.entry(key, TAGS_MAX, is_over, || state).is_none() {
            reached::TAGS_MAX.count();
        }
    }

    /// Logs the packet when its flow or one of its hosts is tagged.
    pub(crate) fn tagged(
        &mut self,
        view: &PacketView<'_>,
        flow: Option<&Flow<NetFlow>>,
        sink: &mut dyn NetSink,
    ) {
        if self.tags.active.is_empty() || view.is_pseudo {
            return;
        }
        let keys = [
            flow.map(|f| Tagged::Flow(f.id)),
            Some(Tagged::Host(view.headers.src)),
            Some(Tagged::Host(view.headers.dst)),
        ];
        let mut log = false;
        for key in keys.into_iter().flatten() {
            let Some(t) = self.tags.active.get_mut(&key) else { continue };
            self.wire.is_tagged = true;
            if t.since == view.number {
                continue;
            }
            t.packets += 1;
            t.bytes += u64::from(view.headers.len);
            let over = match t.tag.metric {
                TagMetric::Packets => t.packets > u64::from(t.tag.count),
                TagMetric::Bytes => t.bytes > u64::from(t.tag.count),
                TagMetric::Seconds => t.is_past(self.clock_ns),
            };
            if over {
                self.wire.is_tagged = false;
                self.tags.active.remove(&key);
            } else {
                log = true;
            }
        }
        if log {
            let meta = flow.map(|f| self.metadata(f));
            let mut h = header(view, flow, meta.as_ref().map(|m| m as &dyn WriteObject));
            h.metadata = None;
            sink.packet(&PacketRecord {
                header: h,
                packet: view.headers.bytes(view.frame),
                link: self.link_of(view),
            });
        }
    }

    /// Table and policy of a hit of the firewall: of its rule or of the table itself.
    fn firewall_object(
        &self,
        detector: &Detector,
        s: &Signature,
        hit: &Hit,
    ) -> Option<(Option<String>, String)> {
        let catalog = &self.engine.catalog;
        if let Some((policy, hook)) = hit.policy {
            let text = policy_text(policy.action, &policy.part, policy.part.alerts);
            return Some((hook_name(hook, catalog), text));
        }
        let part = s.firewall.as_ref().filter(|_| firewall::is_of_firewall(detector, hit))?;
        let alerts = !s.flags.has(SignatureFlags::NOALERT);
        let hook = s.hook.and_then(|h| hook_name(h, catalog));
        Some((hook, policy_text(s.action, part, alerts)))
    }

    pub(crate) fn link_of(&self, view: &PacketView<'_>) -> u16 {
        let h = view.headers;
        if h.depth > 0
            || (h.flags.has(Flags::REASSEMBLED) && view.prefix.is_empty() && self.link == 1)
        {
            12
        } else {
            self.link
        }
    }

    pub(crate) fn metadata<'a>(&'a self, flow: &'a Flow<NetFlow>) -> MetadataObject<'a> {
        MetadataObject {
            set: self.engine.detector.as_ref().map(|d| &d.set),
            vars: &flow.ext.vars,
            packet: &self.scratch.packet_variables,
        }
    }

    #[expect(clippy::too_many_arguments, reason = "gathers one record from everything at hand")]
    fn write_alert(
        &self,
        detector: &Detector,
        s: &Signature,
        action: Action,
        hit: &Hit,
        view: &PacketView<'_>,
        flow: Option<&Flow<NetFlow>>,
        fate: &Fate,
        stream: &[u8],
        question: Option<Question>,
        sink: &mut dyn NetSink,
    ) {
        let set = &detector.set;
        let app = flow.map(|f| &f.ext.app);
        let guessed = match (hit.tx, app) {
            (None, Some(a)) if self.engine.options.guess_tx => a.only_live_tx(),
            _ => None,
        };
        // A datagram is its own transaction, also for what looks at it as a packet.
        let of_datagram = flow
            .filter(|f| hit.tx.is_none() && f.proto == 17 && !s.header.apps.is_empty())
            .and_then(|f| f.ext.app.newest_tx(view.direction?));
        let tx_id = hit.tx.or(of_datagram).or(guessed);
        let tx = app.and_then(|a| a.parser.as_deref()?.tx(tx_id?));
        let table = app.and_then(|a| protocol(a.proto));
        let object = tx.map(|tx| TxObject { tx });
        let key = match (tx, table) {
            (Some(tx), Some(p)) => tx.event_type().unwrap_or(p.event_type),
            _ => "",
        };
        let progress = match (tx, table) {
            (Some(tx), Some(p)) if has_named_states(&p.table) => {
                let name = |d: Direction| {
                    let states = p.table.states(d);
                    states.get(usize::from(tx.progress(d))).or(states.last()).copied().unwrap_or("")
                };
                Some((name(Direction::ToServer), name(Direction::ToClient)))
            }
            _ => None,
        };
        let files = tx.and_then(|tx| files_of(tx, view.direction));
        let id = flow.map_or(0, |f| f.id);
        let files =
            files.as_ref().map(|list| FilesObject { list, flow: id, tx: tx_id.unwrap_or(0) });
        let meta = flow.map(|f| self.metadata(f));
        let meta = meta.as_ref().map(|m| m as &dyn WriteObject);
        let text = self.engine.rule_texts.get(set, s);
        let blocked = (action.drops() && self.engine.options.inline) || action.rejects();
        let ends = view.headers;
        let side = |a: Addr, p: u16| (a, p);
        let source_target = s.target.map(|t| {
            let (src, dst) = (side(ends.src, ends.sp), side(ends.dst, ends.dp));
            if t == Target::Destination { (src, dst) } else { (dst, src) }
        });
        let frame_json = match (&hit.frame, table, view.direction) {
            (Some(frame), Some(p), Some(d)) => {
                let tcp = flow.and_then(|f| f.tcp.as_deref());
                let over = frames::is_over(view, tcp);
                frames::json(frame, &p.table, d, tcp, view.payload, over)
            }
            _ => Vec::new(),
        };
        let is_stream = hit.in_stream || (hit.in_state && !stream.is_empty());
        let payload = if is_stream { stream } else { view.payload };
        let packet: std::borrow::Cow<'_, [u8]> = match (view.is_pseudo, view.prefix) {
            (true, _) => (&[][..]).into(),
            (false, []) => view.headers.bytes(view.frame).into(),
            (false, prefix) => [prefix, view.headers.bytes(view.frame)].concat().into(),
        };
        let forwarded_for = |name: &str, last: bool| tx.and_then(|tx| tx.forwarded_for(name, last));
        let loss = flow.and_then(|f| self.loss(f));
        let h = header(view, flow, meta);
        let policy = self.firewall_object(detector, s, hit);
        let record = AlertRecord {
            header: h,
            signature: AlertSignature {
                gid: s.gid,
                sid: s.sid,
                rev: s.rev,
                msg: set.msg(s),
                has_msg: s.msg.is_some(),
                category: set.category(s),
                severity: s.priority,
                metadata_json: text.map_or(&[], |t| &t.metadata),
                references_json: text.map_or(&[], |t| &t.references),
                rule: set.text(s.raw),
                engine: engine_name(detector, hit),
            },
            firewall: policy
                .as_ref()
                .map(|(hook, policy)| FirewallObject { hook: hook.as_deref(), policy }),
            is_blocked: blocked,
            is_reject: action.rejects(),
            drop_mark: (action.drops()
                && !view.is_pseudo
                && (self.engine.options.inline || action == Action::Drop))
                .then_some(self.engine.options.inline),
            source_target,
            context_json: &hit.context_json,
            tx_id,
            is_tx_guessed: guessed.is_some(),
            progress,
            app: object.as_ref().map(|o| AppObject { key, object: o }),
            files: files.as_ref().map(|f| f as &dyn WriteObject),
            app_proto: app.map_or_else(Default::default, |a| app_names(&self.engine.catalog, a)),
            direction: flow.and(view.direction),
            flow: flow.map(summary),
            payload,
            is_stream,
            payload_len: view.payload.len(),
            packet: &packet,
            link: self.link_of(view),
            tunnel: tunnel(view),
            frame_json: &frame_json,
            verdict: Some(verdict(fate, view)),
            forwarded_for: tx.is_some().then_some(&forwarded_for as ForwardedFor<'_>),
            loss: loss.as_ref(),
            question,
        };
        sink.alert(&record);
    }
}

/// Which part of the engine a hit is of, where there are two: `fw` and `td` (threat detection).
pub(crate) fn engine_name(detector: &Detector, hit: &Hit) -> Option<&'static str> {
    detector.firewall.as_ref()?;
    Some(if firewall::is_of_firewall(detector, hit) { "fw" } else { "td" })
}

/// Outer packet of a packet found in a tunnel.
pub(crate) fn tunnel(view: &PacketView<'_>) -> Option<Tunnel> {
    let o = view.outer?;
    if !o.is_ip() {
        return None;
    }
    Some(Tunnel {
        ip_version: o.ip_version(),
        src: o.src,
        dst: o.dst,
        ports: (o.sp, o.dp),
        ip_proto: o.proto,
        depth: view.headers.depth,
        pcap_cnt: Some(view.frame_number),
        pkt_src: view.root.source.name(),
    })
}

/// What became of the packet, for `verdict`.
pub(crate) fn verdict(fate: &Fate, view: &PacketView<'_>) -> VerdictRecord {
    let action = if fate.drop.is_some() {
        Verdict::Drop
    } else if fate.is_firewalled {
        Verdict::Accept
    } else if fate.passed {
        Verdict::Pass
    } else {
        Verdict::Alert
    };
    let is_tcp = matches!(view.headers.transport, Transport::Tcp(_));
    let reject_target = fate.reject.map(|a| match a {
        Action::RejectDestination => "to_server",
        Action::RejectBoth => "both",
        _ => "to_client",
    });
    let reject: &'static [&'static str] = if is_tcp { &["tcp-reset"] } else { &["icmp-prohib"] };
    VerdictRecord { action, reject_target, reject }
}

fn filestore(
    s: &Signature,
    direction: FilestoreDirection,
    scope: FilestoreScope,
    tx: Option<u64>,
    view: &PacketView<'_>,
    flow: &mut Flow<NetFlow>,
) {
    let of_rule = view.direction.unwrap_or(Direction::ToServer);
    let directions: &[Direction] = match direction {
        FilestoreDirection::Default => &[of_rule],
        FilestoreDirection::ToServer => &[Direction::ToServer],
        FilestoreDirection::ToClient => &[Direction::ToClient],
        FilestoreDirection::Both => &Direction::BOTH,
    };
    for d in directions {
        if scope == FilestoreScope::Flow {
            flow.ext.flags.store_files[d.index()] = true;
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

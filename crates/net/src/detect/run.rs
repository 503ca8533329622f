//! One packet against the rules.

use super::address_index::Row;
use super::compiled::{Class, Detector, Group};
use super::content::{self, ByteVariables, Captured, MatchNotes, Piece};
use super::filter::Filtered;
use super::firewall::Policy;
use super::fitting::{Fit, Fitting, Question};
use super::grams::Bitmaps;
use super::hot::Hot;
use super::offer::Offer;
use super::profile::RuleCosts;
use super::recent_scans::RecentScans;
use super::split::Asked;
use super::tx_memory::TxNotes;
use super::{Resources, frame, packet, tx};
use crate::app::AppLayer;
use crate::flow_state::NetFlow;
use crate::frames::Frame;
use crate::limits::SPARE_NOTES_MAX;
use crate::script::{FlowAt, Scene};
use crate::state::{BitChange, SharedState};
use crate::view::PacketView;
use gabion_flow::{Flow, TcpSession};
use gabion_packet::{Decoded, Flags, Network};
use gabion_proto::Parser;
use gabion_record::applayer::ProtoId;
use gabion_record::budget::Budget;
use gabion_record::{Direction, IpProto};
use gabion_rules::compiled::actions::PostMatch;
use gabion_rules::compiled::buffer::{BufferCondition, CaptureTarget, ChainId};
use gabion_rules::compiled::packet::{PacketCondition, XbitsTrack};
use gabion_rules::compiled::{
    AddressId, BufferInspection, BufferRef, PacketBuffer, PortId, RuleHook, RuleNetwork,
};
use gabion_rules::{Action, Signature, SignatureFlags};
use std::sync::Arc;

/// Number of the first of the lists of rules on addresses only, which follow those by class and direction.
const IP_ONLY: u8 = 8;

/// Whether rules may look at the packet's ports.
fn has_ports(h: &Decoded) -> bool {
    !h.flags.has(Flags::FRAGMENT) && h.proto.has_ports()
}

/// The rules of a list that are asked on a packet with this offer.
#[inline]
fn offered(list: &[Fit], offer: Offer) -> impl Iterator<Item = u32> {
    list.iter().filter(move |fit| offer.meets(fit.flags)).map(|fit| fit.sig)
}

/// A rule that matched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hit {
    /// Signature.
    pub(crate) sig: u32,
    /// Transaction it matched in.
    pub(crate) tx: Option<u64>,
    /// Transaction that its alert names by guess.
    pub(crate) guessed_tx: Option<u64>,
    /// It matched in stream data.
    pub(crate) in_stream: bool,
    /// It matched by state of the flow (transactions).
    pub(crate) in_state: bool,
    /// Members of `context`.
    pub(crate) context_json: Vec<u8>,
    /// Frame it matched in.
    pub(crate) frame: Option<Box<Frame>>,
    /// What was done, once decided.
    pub(crate) action: Option<Action>,
    /// It represents the policy of this table of the firewall.
    pub(crate) policy: Option<(Policy, RuleHook)>,
}

/// Stream bytes due for inspection with the current packet, without a hole.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StreamData<'a> {
    pub(crate) bytes: &'a [u8],
}

/// What detection has found about the current packet.
#[derive(Default)]
pub(crate) struct Findings {
    pub(crate) hits: Vec<Hit>,
    /// Captured for the packet (`pktvars`).
    pub(crate) packet_variables: Vec<(u32, Vec<u8>)>,
    /// `config`, `filestore` and other actions that need more than the flow.
    pub(crate) deferred: Vec<(u32, Option<u64>)>,
}

impl Findings {
    /// Forgets the packet before.
    pub(crate) fn clear(&mut self) {
        self.hits.clear();
        self.packet_variables.clear();
        self.deferred.clear();
    }
}

/// What one worker's detection reuses from packet to packet.
#[derive(Default)]
pub(crate) struct Scratch {
    pub(crate) mpm: gabion_matcher::Scratch,
    pub(crate) recent_scans: RecentScans,
    pub(crate) candidates: Vec<u32>,
    /// Rules on addresses alone.
    pub(crate) address_rules: Vec<u32>,
    pub(crate) tx_candidates: Vec<u32>,
    /// Rules on transactions whose pattern was found in payload or stream.
    pub(crate) payload_tx: Vec<u32>,
    pub(crate) variables: ByteVariables,
    pub(crate) transformed: (Vec<u8>, Vec<u8>),
    pub(crate) notes: MatchNotes,
    /// Grams of the transaction's buffers.
    pub(crate) bitmaps: Bitmaps,
    /// Rules without a pattern that fit.
    pub(crate) fitting: Fitting,
    /// Rules that a transaction could not remember within the budget.
    pub(crate) forgotten: u64,
    /// Notes of transactions that are done, for the next ones.
    #[expect(clippy::vec_box, reason = "they move to transactions and back as they are")]
    pub(crate) spare_notes: Vec<Box<TxNotes>>,
}

impl Scratch {
    /// Keeps notes that are not needed any more for the next transaction.
    pub(super) fn spare(&mut self, mut notes: Box<TxNotes>) {
        if self.spare_notes.len() < SPARE_NOTES_MAX {
            notes.clear();
            self.spare_notes.push(notes);
        }
    }
}

/// What a run of rules looks at in addition to the packet and its flow.
#[derive(Default)]
pub(crate) struct Material<'a> {
    /// The flow's TCP session and parser, moved out of it while stream data and transactions are
    /// inspected.
    pub(crate) tcp: Option<&'a TcpSession>,
    pub(crate) parser: Option<&'a dyn Parser>,
    /// Stream data that is due, without holes in each.
    pub(crate) stream: &'a [StreamData<'a>],
    /// It counts as one with which stream data is inspected, without any: the stream's inspection has ended,
    /// and this packet has its first data since; or inspection is due, and its data is not acknowledged.
    pub(crate) counts_as_release: bool,
    /// The packet's payload was added to the stream; else it is inspected in the stream's place.
    pub(crate) is_in_stream: bool,
    /// Transactions are inspected by rules that are not the firewall's.
    pub(crate) detects: bool,
    /// The parser took bytes of this direction with this packet.
    pub(crate) fed: bool,
}

/// What a worker lends to the run of rules on a packet.
pub(crate) struct Lent<'r> {
    pub(crate) shared: &'r mut SharedState,
    /// The budget for what is kept with transactions.
    pub(crate) budget: &'r Budget,
    pub(crate) resources: Resources<'r>,
    pub(crate) scratch: &'r mut Scratch,
    pub(crate) findings: &'r mut Findings,
    pub(crate) costs: &'r mut RuleCosts,
}

/// How the flow's transactions are inspected with a packet.
pub(crate) struct TxRun {
    /// Nothing more will come in this direction.
    pub(crate) at_end: bool,
    /// Inline mode.
    pub(crate) inline: bool,
    /// They are inspected by rules that are not the firewall's.
    pub(crate) detects: bool,
    /// They are filtered by the firewall.
    pub(crate) filters: bool,
    /// The one that is looked at.
    pub(crate) current: Option<u64>,
}

/// Everything a packet's detection works with.
pub(crate) struct Run<'r> {
    pub(crate) det: &'r Detector,
    pub(crate) p: &'r PacketView<'r>,
    pub(crate) flow: Option<&'r mut Flow<NetFlow>>,
    pub(crate) resources: Resources<'r>,
    pub(crate) scratch: &'r mut Scratch,
    pub(crate) costs: &'r mut RuleCosts,
    pub(crate) txs: TxRun,
    /// What the firewall decided.
    pub(crate) filtered: Filtered,
    material: Material<'r>,
    findings: &'r mut Findings,
    shared: &'r mut SharedState,
    budget: &'r Budget,
    /// What the packet offers of what rules require.
    offer: Offer,
}

impl<'r> Run<'r> {
    /// A run of rules on a packet.
    #[inline]
    pub(crate) fn new(
        det: &'r Detector,
        (p, flow): (&'r PacketView<'r>, Option<&'r mut Flow<NetFlow>>),
        lent: Lent<'r>,
        material: Material<'r>,
        inline: bool,
    ) -> Run<'r> {
        let releases_data = (!material.stream.is_empty() || material.counts_as_release)
            && p.direction.is_some_and(|d| {
                let port = if d == Direction::ToServer { p.headers.dp } else { p.headers.sp };
                det.stream_ports[d.index()].holds(port)
            });
        let Lent { shared, budget, resources, scratch, findings, costs } = lent;
        Run {
            det,
            p,
            flow,
            resources,
            scratch,
            costs,
            txs: TxRun {
                at_end: p.is_pseudo && material.detects,
                inline,
                detects: material.detects,
                filters: false,
                current: None,
            },
            filtered: Filtered::default(),
            offer: Offer::new(p, releases_data),
            material,
            findings,
            shared,
            budget,
        }
    }

    /// The flow's TCP session.
    #[inline]
    pub(super) fn tcp(&self) -> Option<&'r TcpSession> {
        self.material.tcp
    }

    /// The flow's parser.
    #[inline]
    pub(super) fn parser(&self) -> Option<&'r dyn Parser> {
        self.material.parser
    }

    /// Whether the parser took bytes of this direction with this packet.
    #[inline]
    pub(super) fn is_fed(&self) -> bool {
        self.material.fed
    }

    /// The rules that have matched so far.
    #[inline]
    pub(super) fn hits(&mut self) -> &mut Vec<Hit> {
        &mut self.findings.hits
    }
}

impl Run<'_> {
    /// Forgets the packet before.
    pub(super) fn begin_packet(&mut self) {
        self.findings.clear();
        self.costs.begin_packet();
    }

    /// Runs all rules; hits are in the findings, in no particular order.
    pub(crate) fn all(&mut self) {
        self.begin_packet();
        self.resources.scripts.begin_packet();
        self.collect_packet_candidates();
        self.inspect_packet_candidates();
        if self.flow.is_some() && self.material.parser.is_some() {
            frame::inspect(self);
            tx::inspect(self);
        }
    }

    pub(super) fn collect_packet_candidates(&mut self) {
        let det = self.det;
        let h = self.p.headers;
        let s = &mut *self.scratch;
        s.candidates.clear();
        s.address_rules.clear();
        s.payload_tx.clear();
        for e in h.events.as_slice() {
            if let Some(l) = det.decoder_events.get(e) {
                s.candidates.extend_from_slice(l);
            }
        }
        for e in self.p.stream_events {
            if let Some(l) = det.stream_events.get(e) {
                s.candidates.extend_from_slice(l);
            }
        }
        for e in self.p.detection_events {
            if let Some(l) = det.detection_events.get(e) {
                s.candidates.extend_from_slice(l);
            }
        }
        if !det.headless.is_empty() && !self.p.is_flow_end() {
            s.candidates.extend_from_slice(&det.headless);
        }
        if !h.is_ip() {
            return;
        }
        let class = Class::from_proto(h.proto) as usize;
        let before = self.scratch.candidates.len();
        self.collect_plain(class);
        if self.p.is_flow_end() {
            self.drop_packet_rules(before);
        }
        let asked = Asked {
            ports: has_ports(h).then_some((h.sp, h.dp)),
            app: self.flow.as_ref().map_or(ProtoId::UNKNOWN, |f| f.ext.app.proto_for_rules()),
        };
        let s = &mut *self.scratch;
        let both = [Direction::ToServer, Direction::ToClient];
        let directions: &[Direction] = match self.p.direction {
            Some(Direction::ToServer) => &both[..1],
            Some(Direction::ToClient) => &both[1..],
            None => &both,
        };
        for d in directions {
            let d = d.index();
            if !self.p.payload.is_empty() && !self.p.no_payload && !self.p.is_pseudo {
                let since = self.costs.now();
                let candidates = &mut s.candidates;
                if let Some(set) = det.payload[class][d].for_packet(asked) {
                    set.scan(self.p.payload, &mut s.mpm, |sig| candidates.push(sig));
                }
                self.costs.add_prefilter(1, since);
            }
        }
        if class == Class::Tcp as usize
            && let Some(d) = self.p.direction
            && !self.p.no_payload
        {
            let since = self.costs.now();
            let candidates = &mut s.candidates;
            // A segment that is no part of the stream is asked where no stream data is.
            let is_segment_asked =
                self.material.stream.is_empty() && !self.material.is_in_stream && !self.p.is_pseudo;
            if (!self.material.stream.is_empty() || is_segment_asked)
                && let Some(set) = det.stream[d.index()].for_packet(asked)
            {
                for piece in self.material.stream {
                    set.scan(piece.bytes, &mut s.mpm, |sig| candidates.push(sig));
                }
                if is_segment_asked {
                    set.scan(self.p.payload, &mut s.mpm, |sig| candidates.push(sig));
                }
            }
            self.costs.add_prefilter(0, since);
        }
        if self.p.is_flow_end() {
            self.collect_by_protocol();
            self.drop_rules_on_state();
        } else {
            self.collect_by_flow(class);
        }
    }

    /// Drops the candidates from this place on that do not look at streams: at a flow's end Suricata
    /// asks only rules on protocols, streams, frames and transactions.
    fn drop_packet_rules(&mut self, from: usize) {
        let (hot, candidates) = (&self.det.hot, &mut self.scratch.candidates);
        let wanted = SignatureFlags(SignatureFlags::NEED_STREAM.0 | SignatureFlags::PAYLOAD.0);
        let looks = |s: u32| hot.get(s as usize).is_some_and(|h| h.flags.has(wanted));
        let mut kept = from;
        for at in from..candidates.len() {
            if let Some(s) = candidates.get(at).copied().filter(|s| looks(*s)) {
                candidates[kept] = s;
                kept += 1;
            }
        }
        candidates.truncate(kept);
    }

    /// Adds the rules of the groups whose addresses fit the packet.
    fn add_groups(&mut self, groups: &[Group]) {
        if groups.is_empty() {
            return;
        }
        let (src, dst) = self.rows();
        let index = &self.det.index;
        for g in groups {
            if index.holds(src, g.src) && index.holds(dst, g.dst) {
                self.scratch.candidates.extend_from_slice(&g.sigs);
            }
        }
    }

    /// Packet rules without a pattern. Rules name their own destination port, whichever way the
    /// packet goes.
    fn collect_plain(&mut self, class: usize) {
        let (det, h) = (self.det, self.p.headers);
        let flow_in = self.p.direction.filter(|_| self.flow.is_some());
        // An error message of ICMP belongs to the flow that it is about, which has rules of another protocol.
        let keeps = self.flow.as_ref().is_some_and(|f| f.proto == h.proto);
        let known = |d: Direction| self.flow.as_ref()?.ext.detect.plain[d.index()].as_ref();
        if let Some(list) = flow_in.filter(|_| keeps).and_then(known) {
            self.scratch.candidates.extend(offered(list, self.offer));
            return;
        }
        let rows = self.rows();
        for d in Direction::BOTH.into_iter().filter(|d| flow_in.is_none_or(|f| f == *d)) {
            let lists = &det.plain[class][d.index()];
            let question = Question {
                lists: (class * 2 + d.index()) as u8,
                has_ports: has_ports(h),
                ports: (lists.place(h.dp), lists.source_place(h.sp)),
                rows,
            };
            let list = self.fitting(question, lists.at(question.ports.0), true);
            self.scratch.candidates.extend(offered(&list, self.offer));
            if keeps
                && flow_in.is_some()
                && let Some(f) = self.flow.as_mut()
            {
                f.ext.detect.plain[d.index()] = Some(list);
            }
        }
    }

    /// The rules of these groups whose addresses, and on request ports, fit the packet.
    fn fitting(&mut self, question: Question, groups: &[Group], by_ports: bool) -> Arc<[Fit]> {
        if let Some(list) = self.scratch.fitting.get(&question) {
            return list;
        }
        let before = self.scratch.candidates.len();
        self.add_groups(groups);
        let mut fitting = self.scratch.candidates.split_off(before);
        if by_ports {
            fitting.retain(|s| self.ports(&self.det.hot[*s as usize]));
        }
        fitting.sort_unstable();
        let hot = &self.det.hot;
        let fits = fitting.iter().filter_map(|s| hot.get(*s as usize).map(|h| (*s, h.flags)));
        let fits: Vec<Fit> = fits.map(|(sig, flags)| Fit { sig, flags }).collect();
        self.scratch.fitting.insert(question, &fits)
    }

    /// Rules on addresses only.
    fn collect_ip_only(&mut self, class: usize) {
        let det = self.det;
        let question = Question {
            lists: IP_ONLY + class as u8,
            has_ports: false,
            ports: (0, 0),
            rows: self.rows(),
        };
        let list = self.fitting(question, &det.ip_only[class], false);
        self.scratch.address_rules.extend(offered(&list, self.offer));
    }

    fn collect_by_flow(&mut self, class: usize) {
        let det = self.det;
        let Some(d) = self.p.direction else { return self.collect_ip_only(class) };
        let Some(flow) = self.flow.as_mut() else { return self.collect_ip_only(class) };
        if !flow.ext.detect.ip_only_done[d.index()] {
            flow.ext.detect.ip_only_done[d.index()] = true;
            self.collect_ip_only(class);
        }
        let Some(flow) = self.flow.as_mut() else { return };
        let may_ask = !self.p.is_pseudo && !det.pd_only.is_empty();
        if may_ask && flow.ext.detect.pd.take_due(&flow.ext.app, d) {
            self.scratch.candidates.extend_from_slice(&det.pd_only);
        }
        if !self.p.is_refused {
            self.collect_by_protocol();
        }
    }

    /// Rules on the flow's protocol alone.
    fn collect_by_protocol(&mut self) {
        let det = self.det;
        let Some(app) = self.flow.as_ref().map(|f| f.ext.app.proto_for_rules()) else { return };
        if app.is_known() {
            self.scratch.candidates.extend_from_slice(&det.app_only[0]);
            if let Some(l) = det.app_only.get(usize::from(app.0)) {
                self.scratch.candidates.extend_from_slice(l);
            }
        }
    }

    /// Drops candidates that do not look at streams and ask for a state of the flow.
    fn drop_rules_on_state(&mut self) {
        let (hot, signatures) = (&self.det.hot, &self.det.set.signatures);
        self.scratch.candidates.retain(|s| {
            let at = *s as usize;
            hot.get(at).is_some_and(|h| h.flags.has(SignatureFlags::NEED_STREAM))
                || signatures.get(at).is_some_and(|s| !s.header.flow.has_state())
        });
    }

    pub(super) fn inspect_packet_candidates(&mut self) {
        // Rules on addresses alone come first: what they set, all other rules see.
        if !self.scratch.address_rules.is_empty() {
            let mut rules = std::mem::take(&mut self.scratch.address_rules);
            self.inspect_packet_rules(&mut rules);
            self.scratch.address_rules = rules;
        }
        if !self.scratch.candidates.is_empty() {
            let mut rules = std::mem::take(&mut self.scratch.candidates);
            self.inspect_packet_rules(&mut rules);
            self.scratch.candidates = rules;
        }
    }

    /// Asks these rules in their order, each once.
    fn inspect_packet_rules(&mut self, rules: &mut Vec<u32>) {
        if rules.len() > 1 {
            rules.sort_unstable();
            rules.dedup();
        }
        for sig in rules.iter() {
            let Some(hot) = self.det.hot.get(*sig as usize) else { continue };
            if hot.in_tx {
                self.scratch.payload_tx.push(*sig);
                continue;
            }
            if !self.offer.meets(hot.flags) {
                continue;
            }
            let since = self.costs.now();
            let matched = self.packet_rule(*sig, hot);
            self.costs.add(*sig, since, matched.is_some());
            if let Some(in_stream) = matched {
                self.matched(*sig, None, in_stream, false);
            }
        }
    }

    /// Whether a packet rule matches; the value is true where it matched in stream data.
    pub(super) fn packet_rule(&mut self, sig: u32, hot: &Hot) -> Option<bool> {
        let det = self.det;
        let s = &det.set.signatures[sig as usize];
        if !self.header(hot) || !self.packet_conditions(s) {
            return None;
        }
        self.scratch.notes.captured.clear();
        self.scratch.notes.context_json.clear();
        let mut in_stream = false;
        for b in s.buffers.iter() {
            match b.buffer {
                BufferRef::Payload => in_stream |= self.payload(s, b)?,
                BufferRef::Packet(which) => self.packet_buffer(s, b, which)?,
                BufferRef::App(_) | BufferRef::Frame(_) => return None,
            }
        }
        if !self.packet_scripts(s) {
            return None;
        }
        Some(in_stream)
    }

    /// Addresses, ports, protocols, direction.
    pub(crate) fn header(&mut self, hot: &Hot) -> bool {
        let h = self.p.headers;
        if hot.inert {
            return false;
        }
        if hot.pkthdr {
            return true;
        }
        match hot.network {
            RuleNetwork::Ether => return !h.is_ip() || self.p.headers.flags.has(Flags::ETHERNET),
            RuleNetwork::Arp => return h.network == Network::Arp,
            RuleNetwork::Ipv4 if h.network != Network::Ipv4 => return false,
            RuleNetwork::Ipv6 if h.network != Network::Ipv6 => return false,
            RuleNetwork::Any | RuleNetwork::Ipv4 | RuleNetwork::Ipv6 => {}
        }
        // Without an IP header there are no addresses to compare.
        if !h.is_ip() {
            return hot.any_event;
        }
        if !self.det.protos[usize::from(hot.protos)].contains(h.proto) {
            return false;
        }
        if let Some(d) = self.p.direction {
            let wanted = match d {
                Direction::ToServer => SignatureFlags::TO_SERVER,
                Direction::ToClient => SignatureFlags::TO_CLIENT,
            };
            if !hot.flags.has(wanted) {
                return false;
            }
        }
        if hot.apps != 0 {
            let Some(flow) = self.flow.as_ref().filter(|_| !self.p.is_refused) else {
                return false;
            };
            let app = flow.ext.app.proto_for_rules();
            if 1u128.checked_shl(app.0.into()).unwrap_or(0) & hot.apps == 0 {
                return false;
            }
        }
        self.ports(hot) && self.addresses(hot)
    }

    fn ports(&self, hot: &Hot) -> bool {
        if hot.sp == PortId::ANY && hot.dp == PortId::ANY {
            return true;
        }
        let h = self.p.headers;
        if !has_ports(h) {
            return false;
        }
        let ports = &self.det.set.ports;
        let holds =
            |id: PortId, port: u16| id == PortId::ANY || ports[id.0 as usize].contains(port);
        holds(hot.dp, h.dp) && holds(hot.sp, h.sp)
    }

    /// Rows of the address index for source and destination, looked up once per flow.
    fn rows(&mut self) -> (Row, Row) {
        let h = self.p.headers;
        let (det, version) = (self.det, h.ip_version());
        let look = || (det.index.row(version, h.src), det.index.row(version, h.dst));
        // A router that reports an error is neither of the flow's sides.
        let own = self.flow.as_mut().filter(|f| f.proto == h.proto);
        let (Some(flow), Some(d)) = (own, self.p.direction) else { return look() };
        let to_server = d == Direction::ToServer;
        let [client, server] = *flow.ext.detect.rows.get_or_insert_with(|| {
            let (src, dst) = look();
            if to_server { [src, dst] } else { [dst, src] }
        });
        if to_server { (client, server) } else { (server, client) }
    }

    fn addresses(&mut self, hot: &Hot) -> bool {
        if hot.src == AddressId::ANY && hot.dst == AddressId::ANY {
            return true;
        }
        let (src, dst) = self.rows();
        self.det.index.holds(src, hot.src) && self.det.index.holds(dst, hot.dst)
    }

    /// All conditions on packet, flow and shared state.
    pub(crate) fn packet_conditions(&self, s: &Signature) -> bool {
        let has_flow = self.flow.is_some();
        if s.header.flow != Default::default()
            && !packet::flow_matches(&s.header.flow, self.p, has_flow)
        {
            return false;
        }
        if let Some(hook) = s.hook
            && !self.hook(hook)
        {
            return false;
        }
        if s.flags.has(SignatureFlags::REAL_PACKET) && self.p.is_pseudo {
            return false;
        }
        let flow = self.flow.as_deref();
        s.packet.iter().all(|c| match c {
            PacketCondition::Flow(_) => true,
            PacketCondition::Xbits(t) if t.track == XbitsTrack::Transaction => {
                self.tx_bit(t.bit) == t.isset
            }
            PacketCondition::Variable(t) if t.of_packet => {
                packet::variable_matches(t, &self.findings.packet_variables)
            }
            c => packet::matches(c, self.p, flow, self.material.tcp, self.shared),
        })
    }

    /// Whether a bit of the current transaction is set.
    fn tx_bit(&self, bit: u32) -> bool {
        let memory =
            self.flow.as_ref().zip(self.txs.current).and_then(|(f, id)| f.ext.app.tx_known(id));
        memory.and_then(|m| m.bits.as_ref()).is_some_and(|bits| bits.has(bit))
    }

    fn hook(&self, hook: RuleHook) -> bool {
        match hook {
            RuleHook::FlowStart => self
                .flow
                .as_ref()
                .is_some_and(|f| self.p.direction.is_some_and(|d| f.seen[d.index()].pkts == 1)),
            RuleHook::PreFlow | RuleHook::PreStream | RuleHook::AllPackets => true,
            RuleHook::App { .. } => true,
        }
    }

    /// Stream data first, then the packet, as the rule's flags say. `Some(true)`: in the stream.
    pub(crate) fn payload(&mut self, s: &Signature, b: &BufferInspection) -> Option<bool> {
        let needs_stream = s.flags.has(SignatureFlags::NEED_STREAM);
        let needs_packet = s.flags.has(SignatureFlags::NEED_PACKET);
        let is_tcp = self.p.headers.proto == IpProto::TCP;
        if is_tcp && needs_stream {
            if self.material.stream.iter().any(|piece| {
                let piece = Piece { bytes: piece.bytes, start: 0, is_last: true, dce_little: true };
                self.conditions(s, &b.conditions, piece)
            }) {
                return Some(true);
            }
            if !needs_packet && self.material.is_in_stream {
                return None;
            }
            if s.header.flow.only_stream {
                return None;
            }
        }
        if !is_tcp && s.header.flow.only_stream {
            return None;
        }
        let releases_data = !self.material.stream.is_empty() || self.material.counts_as_release;
        if self.p.is_pseudo || (self.p.no_payload && !releases_data) {
            return None;
        }
        self.conditions(s, &b.conditions, Piece::whole(self.p.payload)).then_some(false)
    }

    pub(crate) fn packet_buffer(
        &mut self,
        s: &Signature,
        b: &BufferInspection,
        which: PacketBuffer,
    ) -> Option<()> {
        let (h, frame) = (self.p.headers, self.p.frame);
        let address;
        let bytes: &[u8] = match which {
            PacketBuffer::IpSource | PacketBuffer::IpDestination => {
                address = if which == PacketBuffer::IpSource { h.src } else { h.dst };
                match h.ip_version() {
                    4 => &address.0[..4],
                    6 => &address.0[..],
                    _ => return None,
                }
            }
            PacketBuffer::Ipv4Header if h.network == Network::Ipv4 => h.ip_header(frame),
            // With its extension headers, up to the transport.
            PacketBuffer::Ipv6Header if h.network == Network::Ipv6 => {
                let at = h.l3 as usize;
                frame.get(at..at + usize::from(h.ip_header_len).max(40)).unwrap_or(&[])
            }
            PacketBuffer::TcpHeader if h.proto == IpProto::TCP => h.transport_header(frame),
            PacketBuffer::UdpHeader if h.proto == IpProto::UDP => h.transport_header(frame),
            PacketBuffer::Icmpv4Header if h.proto == IpProto::ICMP => h.transport_header(frame),
            PacketBuffer::Icmpv6Header if h.proto == IpProto::ICMPV6 => {
                // Eight bytes of any type, as in Suricata.
                let segment = h.segment(frame);
                segment.get(..8).unwrap_or(segment)
            }
            PacketBuffer::Ipv4Header
            | PacketBuffer::Ipv6Header
            | PacketBuffer::TcpHeader
            | PacketBuffer::UdpHeader
            | PacketBuffer::Icmpv4Header
            | PacketBuffer::Icmpv6Header => return None,
        };
        if bytes.is_empty() {
            return None;
        }
        if b.chain != ChainId::NONE {
            let mut held = std::mem::take(&mut self.scratch.transformed);
            let chain = &self.det.set.chains[usize::from(b.chain.0)];
            let ok = super::transform::apply(
                chain,
                bytes,
                &mut held.0,
                &mut held.1,
                &mut self.resources,
            ) && self.conditions(s, &b.conditions, Piece::whole(&held.0));
            self.scratch.transformed = held;
            return ok.then_some(());
        }
        self.conditions(s, &b.conditions, Piece::whole(bytes)).then_some(())
    }

    pub(crate) fn conditions(
        &mut self,
        s: &Signature,
        conditions: &[BufferCondition],
        piece: Piece<'_>,
    ) -> bool {
        let matched = content::inspect(
            &self.det.set,
            s,
            conditions,
            piece,
            &mut self.scratch.variables,
            &mut self.resources,
            &mut self.scratch.notes,
        );
        if !self.scratch.notes.entropies.is_empty() {
            self.keep_entropy(s, conditions);
        }
        if self.scratch.notes.scripts.is_empty() {
            return matched;
        }
        let scripts = std::mem::take(&mut self.scratch.notes.scripts);
        matched && scripts.iter().all(|(script, negated)| self.script(s, *script, *negated))
    }

    /// The last entropy computed of a buffer is in the flow's records, under the buffer's name.
    #[cold]
    fn keep_entropy(&mut self, s: &Signature, conditions: &[BufferCondition]) {
        let mut buffers = s.buffers.iter();
        let of = buffers.find(|b| std::ptr::eq(b.conditions.as_ref(), conditions));
        let app = of.and_then(|b| self.resources.catalog.buffer(b.buffer.app()?));
        let name = app.map_or("content", |b| b.def.internal);
        if let Some(value) = self.scratch.notes.entropies.drain(..).next_back()
            && let Some(f) = self.flow.as_mut()
        {
            f.ext.vars.set_entropy(name, value);
        }
    }

    /// The scripts that are run on packets, once all else of the rule holds.
    pub(crate) fn packet_scripts(&mut self, s: &Signature) -> bool {
        s.packet.iter().all(|c| {
            let PacketCondition::Lua { script, negated } = c else { return true };
            self.script(s, *script, *negated)
        })
    }

    /// Whether a script matches (or does not, when negated); a script that fails does neither.
    pub(crate) fn script(&mut self, s: &Signature, script: u32, negated: bool) -> bool {
        let det = self.det;
        let facts = det.set.scripts.get(script as usize);
        if facts.is_some_and(|f| f.facts.needs_payload) && self.p.payload.is_empty() {
            return false;
        }
        let tx = self.txs.current.and_then(|id| self.material.parser.and_then(|p| p.tx(id)));
        let scene = Scene {
            packet: Some(self.p),
            flow: self.flow.as_deref_mut().map(FlowAt::Write),
            parser: self.material.parser,
            tx,
            file: None,
            set: Some(&det.set),
            rule: Some(s),
            script: facts,
            byte_variables: &self.scratch.variables,
            datasets: Some(self.resources.datasets),
            catalog: Some(self.resources.catalog),
        };
        self.resources.scripts.matches(script, scene).is_some_and(|answer| answer != negated)
    }

    /// The rule matched: what it changes takes effect at once, the alert is queued.
    pub(crate) fn matched(&mut self, sig: u32, tx: Option<u64>, in_stream: bool, in_state: bool) {
        let det = self.det;
        let s = &det.set.signatures[sig as usize];
        let captured = std::mem::take(&mut self.scratch.notes.captured);
        let mut context = std::mem::take(&mut self.scratch.notes.context_json);
        self.keep_captured(captured, &mut context);
        for action in &s.post_match {
            self.post_match(action, sig, tx);
        }
        self.findings.hits.push(Hit {
            sig,
            tx,
            in_stream,
            in_state,
            context_json: context,
            ..Hit::default()
        });
    }

    fn keep_captured(&mut self, captured: Vec<Captured>, context: &mut Vec<u8>) {
        for c in captured {
            match c.target {
                CaptureTarget::Flow => {
                    if let Some(f) = self.flow.as_mut() {
                        f.ext.vars.set_text(c.name, c.value);
                    }
                }
                CaptureTarget::Packet => self.findings.packet_variables.push((c.name, c.value)),
                CaptureTarget::Alert => {
                    let mut json = gabion_record::json::Json::new();
                    json.field(self.det.set.variables.get(c.name), &c.value);
                    if !context.is_empty() {
                        context.push(b',');
                    }
                    context.extend_from_slice(json.bytes());
                }
            }
        }
    }

    fn post_match(&mut self, action: &PostMatch, sig: u32, tx: Option<u64>) {
        let (h, now) = (self.p.headers, self.p.ts_ns);
        match action {
            PostMatch::Flowbits { bit, command } => {
                if let Some(f) = self.flow.as_mut() {
                    f.ext.vars.apply_bit(*bit, *command);
                }
            }
            PostMatch::Flowint { variable, command, value } => {
                if let Some(f) = self.flow.as_mut() {
                    f.ext.vars.apply_int(*variable, *command, *value);
                }
            }
            PostMatch::Xbits { bit, command, track: XbitsTrack::Transaction, .. } => {
                let memory = tx.and_then(|id| self.app()?.tx_memory(id));
                if let Some(memory) = memory {
                    memory.bits.get_or_insert_default().apply(*bit, *command);
                }
            }
            PostMatch::Xbits { bit, command, track, expire_s } => {
                let change = BitChange { bit: *bit, command: *command, expire_s: *expire_s };
                self.shared.set_xbit(change, *track, h, now);
            }
            PostMatch::Hostbits { bit, command, track, expire_s } => {
                let change = BitChange { bit: *bit, command: *command, expire_s: *expire_s };
                self.shared.set_hostbit(change, *track, h, now);
            }
            PostMatch::Tag(_)
            | PostMatch::Filestore { .. }
            | PostMatch::Config(_)
            | PostMatch::Bypass
            | PostMatch::TlsStore => {
                if self.findings.deferred.last() != Some(&(sig, tx)) {
                    self.findings.deferred.push((sig, tx));
                }
            }
            PostMatch::NfqSetMark { .. } | PostMatch::Replace { .. } => {}
        }
    }

    /// The flow's application layer.
    pub(crate) fn app(&mut self) -> Option<&mut AppLayer> {
        self.flow.as_mut().map(|f| &mut f.ext.app)
    }

    /// Charges the budget for what is to be remembered with the flow's transactions. False: the budget
    /// does not allow it.
    pub(crate) fn reserve(&mut self, bytes: usize) -> bool {
        let budget = self.budget;
        self.app().is_some_and(|app| app.reserve(bytes, budget))
    }
}

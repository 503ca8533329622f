//! The detector: a rule set compiled into a form in which packets are checked quickly.
//!
//! For each place where bytes appear (packet payloads by protocol and direction, the stream by
//! direction, each buffer of each protocol with each chain of transforms) there is one multi-pattern
//! matcher over the fast patterns of all its rules. Rules without a pattern are in lists that are
//! as narrow as possible: by event, by protocol and port, by application protocol. A hit is checked
//! against the rule's header ([`Hot`]) before anything else is looked at.

use super::address_index::AddressIndex;
use super::buffer_facts::BufferFacts;
use super::expressions::Expressions;
use super::firewall::{Firewall, FirewallPolicies};
use super::gates::{self, Gates};
use super::grams::{self, RuleGrams};
use super::hot::{Hot, asks_any_event, tags_hosts};
use super::pattern_set::{Matchers, PatternSet};
use super::split::SplitSet;
use super::stream_ports::StreamPorts;
use crate::datasets::Datasets;
use foldhash::fast::FixedState;
use gabion_flow::StreamEvent;
use gabion_matcher::{Anchor, BufferMatcher, Pattern};
use gabion_packet::DecoderEvent;
use gabion_record::applayer::{Catalog, DetectionEvent, ProtoId};
use gabion_record::{Direction, IpProto};
use gabion_rules::compiled::buffer::{
    BufferCondition, ChainId, Content, ContentFlags, Operand, Transform,
};
use gabion_rules::compiled::packet::PacketCondition;
use gabion_rules::compiled::{
    AddressId, BufferRef, EngineRun, IpProtos, PortId, RuleHook, RuleNetwork, TxTest,
};
use gabion_rules::{RuleType, Ruleset, Signature, SignatureFlags};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Signature ids under which Suricata reports that a policy decided: about packets, about transactions.
const POLICY_SIDS: [u32; 2] = [2_201_000, 2_201_001];

/// One buffer of a protocol and direction, with the rules whose fast pattern it holds.
#[derive(Debug)]
pub(crate) struct TxBuffer {
    pub(crate) local: u16,
    pub(crate) chain: ChainId,
    pub(crate) progress: u8,
    pub(crate) multi: bool,
    pub(crate) streaming: bool,
    pub(crate) patterns: PatternSet,
    /// Its number among all buffers of the rule set.
    pub(crate) number: usize,
}

/// All that is inspected in transactions of one protocol in one direction.
#[derive(Debug, Default)]
pub(crate) struct TxProgram {
    /// Buffers with fast patterns, by progress.
    pub(crate) buffers: Vec<TxBuffer>,
    /// Rules without a pattern, with the progress at which they are first looked at.
    pub(crate) plain: Vec<(u8, u32)>,
    /// Rules on events.
    pub(crate) events: HashMap<u16, Vec<u32>, FixedState>,
    /// Conditions that many of the rules share.
    pub(crate) gates: Gates,
    /// What rules want besides their fast patterns.
    pub(crate) grams: RuleGrams,
    /// Whether any rule inspects transactions here at all.
    pub(crate) is_empty: bool,
}

/// Rules on one kind of frame in one direction.
#[derive(Debug, Default)]
pub(crate) struct FrameProgram {
    /// Their fast patterns, by chain of transforms.
    pub(crate) buffers: Vec<(ChainId, PatternSet)>,
    /// Those without.
    pub(crate) plain: Vec<u32>,
}

/// Protocol, kind and direction of frames.
type FrameKey = (ProtoId, u8, Direction);

/// Rules on single packets without a pattern, by where the packet goes.
#[derive(Debug, Default)]
pub(crate) struct PortLists {
    /// Start of each interval of destination ports, ascending from 0.
    starts: Vec<u16>,
    lists: Vec<Box<[Group]>>,
    /// Start of each interval of source ports that all rules see alike, ascending from 0.
    sources: Vec<u16>,
}

/// Rules of a list that name the same addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) src: AddressId,
    pub(crate) dst: AddressId,
    pub(crate) sigs: Box<[u32]>,
}

/// Groups rules by the addresses they name.
fn grouped(set: &Ruleset, sigs: impl Iterator<Item = u32>) -> Box<[Group]> {
    let mut sigs: Vec<(AddressId, AddressId, u32)> = sigs
        .map(|s| {
            let h = &set.signatures[s as usize].header;
            (h.src, h.dst, s)
        })
        .collect();
    sigs.sort_unstable_by_key(|(a, b, s)| (a.0, b.0, *s));
    sigs.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1))
        .map(|c| Group { src: c[0].0, dst: c[0].1, sigs: c.iter().map(|x| x.2).collect() })
        .collect()
}

/// Bytes held by such groups.
fn groups_bytes(groups: &[Group]) -> usize {
    groups.iter().map(|group| size_of::<Group>() + 4 * group.sigs.len()).sum()
}

impl PortLists {
    fn build(set: &Ruleset, sigs: &[u32]) -> PortLists {
        let header = |s: &u32| &set.signatures[*s as usize].header;
        let cuts = Self::cuts(set, sigs.iter().map(|s| header(s).dst_ports));
        let list = |port: u16| -> Box<[Group]> {
            let fits = sigs.iter().copied().filter(|s| {
                let id = set.signatures[*s as usize].header.dst_ports;
                id == PortId::ANY || set.ports[id.0 as usize].contains(port)
            });
            grouped(set, fits)
        };
        let sources = Self::cuts(set, sigs.iter().map(|s| header(s).src_ports));
        let mut lists = PortLists { sources, ..PortLists::default() };
        for cut in cuts {
            let l = list(cut);
            if lists.lists.last() != Some(&l) {
                lists.starts.push(cut);
                lists.lists.push(l);
            }
        }
        lists
    }

    /// Where the intervals begin that sets of ports cut all ports into.
    fn cuts(set: &Ruleset, ids: impl Iterator<Item = PortId>) -> Vec<u16> {
        let mut cuts = vec![0u16];
        for id in ids {
            for (a, b) in &set.ports[id.0 as usize].ranges {
                cuts.push(*a);
                if let Some(next) = b.checked_add(1) {
                    cuts.push(next);
                }
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// Number of the interval that a destination port is in.
    pub(crate) fn place(&self, port: u16) -> u32 {
        self.starts.partition_point(|s| *s <= port).saturating_sub(1) as u32
    }

    /// Number of the interval that a source port is in.
    pub(crate) fn source_place(&self, port: u16) -> u32 {
        self.sources.partition_point(|s| *s <= port).saturating_sub(1) as u32
    }

    /// Bytes held.
    fn memory_bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|groups| groups_bytes(groups)).sum();
        let list = size_of::<Box<[Group]>>();
        2 * (self.starts.capacity() + self.sources.capacity())
            + list * self.lists.capacity()
            + lists
    }

    pub(crate) fn at(&self, place: u32) -> &[Group] {
        self.lists.get(place as usize).map_or(&[], |l| l)
    }
}

/// Transport classes that payload matchers and lists are split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Class {
    Tcp = 0,
    Udp = 1,
    Icmp = 2,
    Other = 3,
}

impl Class {
    pub(crate) fn from_proto(proto: IpProto) -> Class {
        match proto {
            IpProto::TCP => Class::Tcp,
            IpProto::UDP => Class::Udp,
            IpProto::ICMP | IpProto::ICMPV6 => Class::Icmp,
            _ => Class::Other,
        }
    }

    fn holds(self, protos: &IpProtos) -> bool {
        match self {
            Class::Tcp => protos.contains(IpProto::TCP),
            Class::Udp => protos.contains(IpProto::UDP),
            Class::Icmp => protos.contains(IpProto::ICMP) || protos.contains(IpProto::ICMPV6),
            Class::Other => {
                let named = [IpProto::TCP, IpProto::UDP, IpProto::ICMP, IpProto::ICMPV6]
                    .iter()
                    .filter(|p| protos.contains(**p))
                    .count() as u32;
                protos.0.iter().map(|w| w.count_ones()).sum::<u32>() > named
            }
        }
    }

    const ALL: [Class; 4] = [Class::Tcp, Class::Udp, Class::Icmp, Class::Other];
}

/// A compiled rule set. Workers share it read-only.
#[derive(Debug)]
pub struct Detector {
    /// The rules.
    pub set: Ruleset,
    pub(crate) hot: Vec<Hot>,
    pub(crate) protos: Vec<IpProtos>,
    pub(crate) expressions: Expressions,
    /// Datasets of the rules.
    pub datasets: Datasets,
    /// Stream data, by direction.
    pub(crate) stream: [SplitSet; 2],
    /// Ports of the server for which some rule looks at streams, by direction.
    pub(crate) stream_ports: [StreamPorts; 2],
    /// Packet payloads, by class and direction.
    pub(crate) payload: [[SplitSet; 2]; 4],
    /// Packet rules without pattern, by class and direction.
    pub(crate) plain: [[PortLists; 2]; 4],
    /// Packet rules for packets without an IP layer or with a broken one.
    pub(crate) headless: Vec<u32>,
    pub(crate) ip_only: [Box<[Group]>; 4],
    pub(crate) decoder_events: HashMap<DecoderEvent, Vec<u32>, FixedState>,
    pub(crate) stream_events: HashMap<StreamEvent, Vec<u32>, FixedState>,
    pub(crate) detection_events: HashMap<DetectionEvent, Vec<u32>, FixedState>,
    /// Rules on the flow's protocol alone, by protocol (0: any protocol).
    pub(crate) app_only: Vec<Vec<u32>>,
    /// Rules of `app-layer-protocol` alone.
    pub(crate) pd_only: Vec<u32>,
    /// By protocol id, then direction.
    pub(crate) tx: Vec<[TxProgram; 2]>,
    /// Rules on frames.
    pub(crate) frames: HashMap<FrameKey, FrameProgram, FixedState>,
    /// Which sets hold an address.
    pub(crate) index: AddressIndex,
    /// By buffer id.
    pub(crate) buffer_facts: Vec<BufferFacts>,
    /// Rules without any prefilter, which every packet or transaction of their kind meets.
    pub costly: Vec<u32>,
    /// A rule tags hosts.
    pub(crate) tags_hosts: bool,
    /// Tables of firewall mode.
    pub(crate) firewall: Option<Box<Firewall>>,
    /// Rules that represent the policies of packets and of transactions in alerts.
    pub(crate) policy_rules: [Option<u32>; 2],
}

fn direction_allowed(s: &Signature, d: Direction) -> bool {
    s.inspects(d)
}

/// The fast pattern in the matcher's form. `positions`: offsets and depths hold in the bytes
/// scanned; `sized`: the inspection has a `bsize` equal to the content.
fn pattern_of(
    c: &Content,
    conditions: &[BufferCondition],
    chain: &[Transform],
    positions: bool,
) -> Pattern {
    let bytes = c.fast_pattern_bytes();
    let mut p = Pattern::new(0, bytes, c.is_nocase());
    let chopped = c.flags.has(ContentFlags::FAST_PATTERN_CHOP);
    if chopped || !positions || c.is_relative() {
        return p;
    }
    if chain == [Transform::DotPrefix] {
        // Scanned without the dot in front: what is anchored to a label start becomes a name.
        if let Some(rest) = bytes.strip_prefix(b".")
            && c.ends_with()
            && !rest.is_empty()
        {
            let nocase = c.is_nocase();
            return Pattern::new(0, rest, nocase).anchored(Anchor::Label);
        }
        return p;
    }
    let number = |o: Option<Operand<i32>>| match o {
        Some(Operand::Number(n)) => u32::try_from(n).ok(),
        _ => None,
    };
    if let Some(depth) = number(c.depth)
        && depth > 0
        && !matches!(c.offset, Some(Operand::Variable(_)))
    {
        p.max_end = depth;
    }
    if let Some(offset) = number(c.offset) {
        p.min_start = offset;
    }
    let exact = conditions.iter().any(|k| {
        matches!(k, BufferCondition::Bsize(gabion_rules::compiled::buffer::IntegerMatch::Equal(n))
            if *n == bytes.len() as u64)
    });
    let at_start = c.starts_with() || (p.min_start == 0 && p.max_end as usize == bytes.len());
    p.anchor = match (at_start, c.ends_with()) {
        _ if exact => Anchor::Exact,
        (true, true) => Anchor::Exact,
        (true, false) => Anchor::Start,
        (false, true) => Anchor::End,
        (false, false) => Anchor::None,
    };
    p
}

/// A buffer of a protocol and direction after its transforms.
type BufferKey = (ProtoId, Direction, u16, ChainId);

#[derive(Default)]
struct Collector {
    ip_only: [Vec<u32>; 4],
    stream: [Vec<(Pattern, u32)>; 2],
    payload: [[Vec<(Pattern, u32)>; 2]; 4],
    plain: [[Vec<u32>; 2]; 4],
    buffers: HashMap<BufferKey, Vec<(Pattern, u32)>, FixedState>,
    progress: HashMap<BufferKey, u8, FixedState>,
    frames: HashMap<(FrameKey, ChainId), Vec<(Pattern, u32)>, FixedState>,
}

impl Detector {
    /// Compiles a rule set.
    pub fn new(
        set: Ruleset,
        catalog: &Catalog,
        expressions: Expressions,
        datasets: Datasets,
    ) -> Detector {
        let detector = Detector::compile(&set, catalog, &mut Matchers::default());
        detector.completed(set, expressions, datasets)
    }

    /// [`Detector::new`], but `expressions` compiles the regular expressions at the same time as the rest is compiled.
    /// `at_once` runs jobs in parallel; a job that it can't run is done here.
    pub fn with_expressions(
        set: Ruleset,
        catalog: &Catalog,
        datasets: Datasets,
        expressions: impl Fn(&Ruleset) -> Expressions + Sync,
        at_once: impl Fn(Vec<Box<dyn FnOnce() + Send + '_>>),
    ) -> Detector {
        let (mut compiled, mut placed) = (None, None);
        at_once(vec![
            Box::new(|| compiled = Some(expressions(&set))),
            Box::new(|| {
                placed = Some(Detector::compile(&set, catalog, &mut Matchers::default()));
            }),
        ]);
        // There may have been no thread for a job.
        let compiled = compiled.unwrap_or_else(|| expressions(&set));
        let detector =
            placed.unwrap_or_else(|| Detector::compile(&set, catalog, &mut Matchers::default()));
        detector.completed(set, compiled, datasets)
    }

    /// Compiles a rule set that follows another in a run: matchers of the same patterns are shared with it.
    pub fn following(
        before: &Detector,
        set: Ruleset,
        catalog: &Catalog,
        expressions: Expressions,
        datasets: Datasets,
    ) -> Detector {
        let mut matchers = Matchers::from_sets(before.pattern_sets());
        let detector = Detector::compile(&set, catalog, &mut matchers);
        detector.completed(set, expressions, datasets)
    }

    /// Adds the rules, and what else belongs to them.
    fn completed(self, set: Ruleset, expressions: Expressions, mut datasets: Datasets) -> Detector {
        datasets.note_writers(&set);
        Detector { set, expressions, datasets, ..self }
    }

    /// Compiles all but expressions and datasets.
    fn compile(set: &Ruleset, catalog: &Catalog, matchers: &mut Matchers) -> Detector {
        let mut d = Detector {
            hot: Vec::with_capacity(set.signatures.len()),
            protos: Vec::new(),
            expressions: Expressions::default(),
            datasets: Datasets::default(),
            stream: Default::default(),
            stream_ports: Default::default(),
            payload: Default::default(),
            plain: Default::default(),
            headless: Vec::new(),
            ip_only: Default::default(),
            decoder_events: HashMap::default(),
            stream_events: HashMap::default(),
            detection_events: HashMap::default(),
            app_only: vec![Vec::new(); catalog.protocols.len() + 1],
            pd_only: Vec::new(),
            tx: (0..=catalog.protocols.len()).map(|_| Default::default()).collect(),
            frames: HashMap::default(),
            index: AddressIndex::new(&set.addresses),
            buffer_facts: catalog.buffers.iter().map(|b| BufferFacts::from_def(&b.def)).collect(),
            costly: Vec::new(),
            firewall: None,
            tags_hosts: tags_hosts(set),
            policy_rules: [None; 2],
            set: Ruleset::default(),
        };
        d.stream_ports = Direction::BOTH.map(|direction| StreamPorts::collect(set, direction));
        let mut c = Collector::default();
        for (i, s) in set.signatures.iter().enumerate() {
            d.add_hot(s);
            if s.inert.is_none() {
                d.place(set, catalog, i as u32, s, &mut c);
            }
        }
        d.finish(set, catalog, c, matchers);
        for ((proto, direction), gates) in gates::collect(set, &d.buffer_facts) {
            if let Some(programs) = d.tx.get_mut(usize::from(proto.0)) {
                programs[direction.index()].gates = gates;
            }
        }
        for ((proto, direction), grams) in grams::collect(set, &d.buffer_facts) {
            if let Some(programs) = d.tx.get_mut(usize::from(proto.0)) {
                programs[direction.index()].grams = grams;
            }
        }
        d
    }

    /// Adds a firewall in front of the rules: the rules of its tables, and these policies.
    pub fn with_firewall(mut self, policies: FirewallPolicies) -> Detector {
        self.firewall = Some(Box::new(Firewall::new(&self.set, policies)));
        self.policy_rules = POLICY_SIDS.map(|sid| {
            let at = self.set.signatures.iter().position(|s| s.sid == sid && s.inert.is_some());
            at.and_then(|at| u32::try_from(at).ok())
        });
        self
    }

    fn add_hot(&mut self, s: &Signature) {
        let at = match self.protos.iter().position(|p| *p == s.header.protos) {
            Some(at) => at,
            None => {
                self.protos.push(s.header.protos);
                self.protos.len() - 1
            }
        };
        let apps =
            s.header.apps.iter().fold(0u128, |b, p| b | 1u128.checked_shl(p.0.into()).unwrap_or(0));
        self.hot.push(Hot {
            src: s.header.src,
            dst: s.header.dst,
            sp: s.header.src_ports,
            dp: s.header.dst_ports,
            protos: at as u16,
            network: s.header.network,
            flags: s.flags,
            pkthdr: s.header.pkthdr,
            any_event: asks_any_event(s),
            apps,
            inert: s.inert.is_some(),
            in_tx: s.kind == RuleType::AppTx || !s.engines.is_empty(),
        });
    }

    fn place(
        &mut self,
        set: &Ruleset,
        catalog: &Catalog,
        at: u32,
        s: &Signature,
        c: &mut Collector,
    ) {
        if s.flags.has(SignatureFlags::FIREWALL) {
            return;
        }
        if s.buffers.iter().any(|b| matches!(b.buffer, BufferRef::Frame(_))) {
            self.place_frame(set, catalog, at, s, c);
            return;
        }
        let mut by_event = false;
        for condition in s.packet.iter() {
            match condition {
                PacketCondition::DecodeEvent(event) => {
                    self.decoder_events.entry(*event).or_default().push(at);
                    by_event = true;
                }
                PacketCondition::StreamEvent(event) => {
                    self.stream_events.entry(*event).or_default().push(at);
                    by_event = true;
                }
                PacketCondition::DetectionEvent(event) => {
                    self.detection_events.entry(*event).or_default().push(at);
                    by_event = true;
                }
                _ => {}
            }
            if by_event {
                return;
            }
        }
        match s.kind {
            _ if s.kind == RuleType::AppTx || !s.engines.is_empty() => {
                self.place_tx(set, at, s, c);
            }
            RuleType::IpOnly => {
                for class in Class::ALL.into_iter().filter(|k| k.holds(&s.header.protos)) {
                    c.ip_only[class as usize].push(at);
                }
            }
            RuleType::PdOnly => self.pd_only.push(at),
            RuleType::AppLayer => {
                if s.header.apps.is_empty() {
                    self.app_only[0].push(at);
                }
                for p in &s.header.apps {
                    if let Some(list) = self.app_only.get_mut(usize::from(p.0)) {
                        list.push(at);
                    }
                }
            }
            RuleType::NotSet
            | RuleType::LikeIpOnly
            | RuleType::DeOnly
            | RuleType::Pkt
            | RuleType::PktStream
            | RuleType::Stream
            | RuleType::AppTx => self.place_packet(set, at, s, c),
        }
    }

    fn place_payload(&mut self, set: &Ruleset, at: u32, s: &Signature, c: &mut Collector) -> bool {
        let Some((content, conditions, buffer)) = fast_content(s) else { return false };
        if buffer != BufferRef::Payload {
            return false;
        }
        let _ = set;
        let needs_stream = s.flags.has(SignatureFlags::NEED_STREAM);
        let needs_packet = s.flags.has(SignatureFlags::NEED_PACKET);
        for d in Direction::BOTH.into_iter().filter(|d| direction_allowed(s, *d)) {
            if needs_stream && s.header.protos.contains(IpProto::TCP) {
                c.stream[d.index()].push((pattern_of(content, conditions, &[], false), at));
            }
            for class in Class::ALL.into_iter().filter(|k| k.holds(&s.header.protos)) {
                // TCP payloads are scanned for packet rules only; those for the stream meet them
                // through the stream matcher when the segment was not added.
                if class != Class::Tcp || needs_packet {
                    let p = pattern_of(content, conditions, &[], true);
                    c.payload[class as usize][d.index()].push((p, at));
                }
            }
        }
        true
    }

    fn place_packet(&mut self, set: &Ruleset, at: u32, s: &Signature, c: &mut Collector) {
        if self.place_payload(set, at, s, c) {
            return;
        }
        if s.header.pkthdr || matches!(s.header.network, RuleNetwork::Ether | RuleNetwork::Arp) {
            self.headless.push(at);
        }
        if matches!(s.header.network, RuleNetwork::Ether | RuleNetwork::Arp) {
            return;
        }
        self.costly.push(at);
        for class in Class::ALL.into_iter().filter(|k| k.holds(&s.header.protos)) {
            for d in Direction::BOTH.into_iter().filter(|d| direction_allowed(s, *d)) {
                c.plain[class as usize][d.index()].push(at);
            }
        }
    }

    /// A rule on frames: it is listed with the kind of frame it names; one that names several kinds
    /// never matches.
    fn place_frame(
        &mut self,
        set: &Ruleset,
        catalog: &Catalog,
        at: u32,
        s: &Signature,
        c: &mut Collector,
    ) {
        let mut named = s.buffers.iter().filter_map(|b| match b.buffer {
            BufferRef::Frame(n) => set.frames.get(usize::from(n)),
            BufferRef::Payload | BufferRef::Packet(_) | BufferRef::App(_) => None,
        });
        let Some(frame) = named.next().filter(|f| named.all(|o| o == *f)) else { return };
        let Some((id, table)) = frame.proto.and_then(|id| Some((id, catalog.table(id)?))) else {
            return;
        };
        let name = frame.name.strip_prefix(table.name).and_then(|n| n.strip_prefix('.'));
        let Some(kind) = name.and_then(|n| table.frame(n)) else { return };
        let fast = s.fast_pattern.and_then(|f| {
            let i = s.buffers.get(usize::from(f.inspection))?;
            match i.conditions.get(usize::from(f.condition)) {
                Some(BufferCondition::Content(x)) if !x.is_negated() => Some((i, x)),
                _ => None,
            }
        });
        for d in Direction::BOTH.into_iter().filter(|d| direction_allowed(s, *d)) {
            let key = (id, kind, d);
            let program = self.frames.entry(key).or_default();
            match fast {
                Some((i, x)) if matches!(i.buffer, BufferRef::Frame(_)) => {
                    let p = Pattern::new(0, x.fast_pattern_bytes(), x.is_nocase());
                    c.frames.entry((key, i.chain)).or_default().push((p, at));
                }
                _ => program.plain.push(at),
            }
        }
    }

    fn place_tx(&mut self, set: &Ruleset, at: u32, s: &Signature, c: &mut Collector) {
        let fast = s.fast_pattern.and_then(|f| {
            let i = s.buffers.get(usize::from(f.inspection))?;
            match i.conditions.get(usize::from(f.condition)) {
                // A negated content can't be searched for.
                Some(BufferCondition::Content(content)) if !content.is_negated() => {
                    Some((f.inspection, i, content))
                }
                _ => None,
            }
        });
        if let Some((_, inspection, _)) = fast
            && inspection.buffer == BufferRef::Payload
        {
            self.place_payload(set, at, s, c);
            return;
        }
        let mut placed = false;
        for e in s.engines.iter() {
            if let (EngineRun::Buffer(b), Some((f, inspection, content))) = (e.run, fast)
                && b == f
            {
                let chain = inspection.chain;
                let steps = &set.chains[usize::from(chain.0)];
                let streaming = false;
                let p = pattern_of(content, &inspection.conditions, steps, !streaming);
                // A name anchored after a dot needs no transform to be found.
                let scanned = if p.anchor == Anchor::Label { ChainId::NONE } else { chain };
                let key = (e.proto, e.direction, e.local, scanned);
                c.buffers.entry(key).or_default().push((p, at));
                let least = c.progress.entry(key).or_insert(u8::MAX);
                *least = (*least).min(e.progress);
                placed = true;
            }
        }
        if placed {
            if s.header.transactional {
                self.place_other_side(s, at, fast.map(|(f, ..)| f));
            }
            return;
        }
        // No pattern: by event if there is one, else for every transaction.
        let mut event_placed = false;
        for e in s.engines.iter() {
            if let EngineRun::Tx(t) = e.run
                && let Some(TxTest::Event(code)) = s.tx.get(usize::from(t)).map(|t| &t.test)
                && let Some(programs) = self.tx.get_mut(usize::from(e.proto.0))
            {
                let list = programs[e.direction.index()].events.entry(*code).or_default();
                if list.last() != Some(&at) {
                    list.push(at);
                }
                event_placed = true;
            }
        }
        if event_placed {
            return;
        }
        self.costly.push(at);
        let mut seen: Vec<(ProtoId, Direction)> = Vec::new();
        for e in s.engines.iter() {
            let protos: Vec<ProtoId> = if e.proto == ProtoId::UNKNOWN {
                if s.header.apps.is_empty() {
                    (1..self.tx.len()).map(|i| ProtoId(i as u8)).collect()
                } else {
                    s.header.apps.to_vec()
                }
            } else {
                vec![e.proto]
            };
            for p in protos {
                if seen.contains(&(p, e.direction)) {
                    continue;
                }
                seen.push((p, e.direction));
                if let Some(programs) = self.tx.get_mut(usize::from(p.0)) {
                    programs[e.direction.index()].plain.push((e.progress, at));
                }
            }
        }
        if s.engines.is_empty()
            && let Some(RuleHook::App { proto, direction, progress, .. }) = s.hook
            && let Some(programs) = self.tx.get_mut(usize::from(proto.0))
        {
            programs[direction.index()].plain.push((progress, at));
        }
    }

    /// A rule on both sides of a transaction is looked at without a pattern in the direction that
    /// does not hold its fast pattern.
    fn place_other_side(&mut self, s: &Signature, at: u32, fast: Option<u16>) {
        let is_fast = |e: &gabion_rules::compiled::Engine| match e.run {
            EngineRun::Buffer(b) => fast == Some(b),
            EngineRun::Tx(_) => false,
        };
        for d in Direction::BOTH {
            let engines = s.engines.iter().filter(|e| e.direction == d);
            if engines.clone().any(is_fast) {
                continue;
            }
            // They come by progress; each protocol has its own.
            let mut placed: Vec<ProtoId> = Vec::new();
            for e in engines {
                if !placed.contains(&e.proto)
                    && let Some(programs) = self.tx.get_mut(usize::from(e.proto.0))
                {
                    placed.push(e.proto);
                    programs[d.index()].plain.push((e.progress, at));
                }
            }
        }
    }

    fn finish(&mut self, set: &Ruleset, catalog: &Catalog, c: Collector, matchers: &mut Matchers) {
        for (slot, entries) in self.stream.iter_mut().zip(c.stream) {
            *slot = SplitSet::build(entries, &self.hot, set, true, matchers);
        }
        for (slots, lists) in self.payload.iter_mut().zip(c.payload) {
            for (slot, entries) in slots.iter_mut().zip(lists) {
                *slot = SplitSet::build(entries, &self.hot, set, false, matchers);
            }
        }
        for (slots, lists) in self.plain.iter_mut().zip(&c.plain) {
            for (slot, sigs) in slots.iter_mut().zip(lists) {
                *slot = PortLists::build(set, sigs);
            }
        }
        for (slot, sigs) in self.ip_only.iter_mut().zip(&c.ip_only) {
            *slot = grouped(set, sigs.iter().copied());
        }
        for ((key, chain), entries) in c.frames {
            let program = self.frames.entry(key).or_default();
            program.buffers.push((chain, PatternSet::build(entries, matchers)));
        }
        let mut buffers: Vec<_> = c.buffers.into_iter().collect();
        buffers.sort_by_key(|(k, _)| (k.0, k.1, c.progress.get(k).copied(), k.2, k.3));
        for (number, (key, entries)) in buffers.into_iter().enumerate() {
            let (proto, direction, local, chain) = key;
            let def = catalog.buffers.iter().find(|b| {
                b.hooks
                    .iter()
                    .any(|(p, h)| *p == proto && h.direction == direction && h.local == local)
            });
            let Some(programs) = self.tx.get_mut(usize::from(proto.0)) else { continue };
            let streaming = def.is_some_and(|b| b.def.streaming);
            let entries = if streaming {
                // Windows of a growing buffer do not begin at its start.
                entries.into_iter().map(|(p, s)| (Pattern::new(0, p.bytes, p.nocase), s)).collect()
            } else {
                entries
            };
            programs[direction.index()].buffers.push(TxBuffer {
                local,
                chain,
                progress: c.progress.get(&key).copied().unwrap_or(0),
                multi: def.is_some_and(|b| b.def.multi),
                streaming,
                patterns: PatternSet::build(entries, matchers),
                number,
            });
        }
        for programs in &mut self.tx {
            for p in programs {
                p.plain.sort_unstable();
                p.plain.dedup();
                p.is_empty = p.buffers.is_empty() && p.plain.is_empty() && p.events.is_empty();
            }
        }
    }

    /// Its regular expressions.
    pub fn expressions(&self) -> &Expressions {
        &self.expressions
    }

    /// Kinds of frames that rules name, one bit each, by protocol id.
    pub fn frame_kinds(&self) -> Vec<u32> {
        let mut kinds = vec![0u32; self.tx.len()];
        for (id, kind, _) in self.frames.keys() {
            if let Some(slot) = kinds.get_mut(usize::from(id.0)) {
                *slot |= 1u32.checked_shl(u32::from(*kind)).unwrap_or(0);
            }
        }
        kinds
    }

    /// Protocols, by id, whose transactions no rule looks at: neither at what they hold nor at what was
    /// found in the payload with them.
    pub fn unlooked(&self) -> Vec<bool> {
        let mut unlooked: Vec<bool> = self
            .tx
            .iter()
            .map(|p| self.firewall.is_none() && p.iter().all(|p| p.is_empty))
            .collect();
        let mut looks_at = |p: ProtoId| match unlooked.get_mut(usize::from(p.0)) {
            Some(slot) if p != ProtoId::UNKNOWN => *slot = false,
            _ => unlooked.fill(false),
        };
        for s in self.set.signatures.iter().filter(|s| s.inert.is_none()) {
            if s.kind != RuleType::AppTx && s.engines.is_empty() {
                continue;
            }
            // A rule that is bound to protocols never reaches the transactions of others, whatever else
            // it inspects in the payload.
            match (&*s.header.apps, &*s.engines) {
                ([], []) => looks_at(ProtoId::UNKNOWN),
                ([], engines) => engines.iter().for_each(|e| looks_at(e.proto)),
                (apps, _) => apps.iter().for_each(|p| looks_at(*p)),
            }
        }
        unlooked
    }

    /// The patterns of all places.
    fn pattern_sets(&self) -> impl Iterator<Item = &PatternSet> {
        let tx = self.tx.iter().flatten().flat_map(|p| &p.buffers).map(|b| &b.patterns);
        let frames = self.frames.values().flat_map(|f| &f.buffers).map(|(_, patterns)| patterns);
        let payload = self.payload.iter().flatten().chain(&self.stream).flat_map(SplitSet::sets);
        tx.chain(frames).chain(payload)
    }

    /// Bytes held by matchers and by all else that finds rules for packets and transactions. A matcher that several
    /// places share is counted once.
    pub fn matcher_bytes(&self) -> usize {
        use gabion_matcher::Matcher;
        let mut counted: HashSet<*const BufferMatcher, FixedState> = HashSet::default();
        let matchers = self.pattern_sets().filter_map(|set| set.matcher.as_ref());
        let own = matchers.filter(|m| counted.insert(Arc::as_ptr(m))).map(|m| m.memory_bytes());
        let lists = self.pattern_sets().map(PatternSet::own_bytes);
        let programs = self.tx.iter().flatten();
        let asked = programs.map(|p| p.gates.memory_bytes() + p.grams.memory_bytes());
        let plain = self.plain.iter().flatten().map(PortLists::memory_bytes);
        let groups = self.ip_only.iter().map(|groups| groups_bytes(groups));
        let tables = size_of::<Hot>() * self.hot.capacity() + self.index.memory_bytes();
        let parts = own.chain(lists).chain(asked).chain(plain).chain(groups).chain([tables]);
        parts.sum::<usize>() + self.expressions.memory_bytes()
    }
}

/// The signature is found by its fast pattern.
pub(crate) fn is_scanned(s: &Signature) -> bool {
    fast_content(s).is_some()
}

/// The fast-pattern content of a signature with its inspection's conditions and buffer; none when
/// all contents are negated, as such a rule has nothing to be found by.
pub(crate) fn fast_content(s: &Signature) -> Option<(&Content, &[BufferCondition], BufferRef)> {
    let f = s.fast_pattern?;
    let i = s.buffers.get(usize::from(f.inspection))?;
    let content = i.conditions.get(usize::from(f.condition))?.content();
    content.filter(|c| !c.is_negated()).map(|c| (c, &*i.conditions, i.buffer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_rules::{LoadOptions, RuleSource, RuleVars};

    fn set_of(text: &str) -> Ruleset {
        let catalog = gabion_proto::registry::catalog();
        let source = RuleSource { name: "x.rules", text, is_firewall: false };
        let (set, said) =
            Ruleset::load(&[source], &catalog, &RuleVars::default(), &LoadOptions::default());
        assert!(said.is_empty(), "{said:?}");
        set
    }

    /// Places with the same patterns share a matcher, and so does a rule set with the one before it; where a pattern is
    /// another one, so is the matcher. The rules are those of the set.
    #[test]
    fn matchers_of_the_same_patterns_are_shared() {
        let catalog = gabion_proto::registry::catalog();
        let rules = |agents: &str| {
            format!(
                "alert http any any -> any any (http.uri; content:\"/one\"; sid:1;)\n\
                 alert http any any -> any any (http.user_agent; content:\"{agents}\"; sid:2;)\n\
                 alert udp any any -> any 53 (content:\"three\"; pcre:\"/three[0-9]+/\"; sid:3;)\n"
            )
        };
        let shared = |d: &Detector| -> Vec<Arc<BufferMatcher>> {
            d.pattern_sets().filter_map(|set| set.matcher.clone()).collect()
        };
        let distinct = |all: &[Arc<BufferMatcher>]| {
            all.iter().map(Arc::as_ptr).collect::<HashSet<_, FixedState>>().len()
        };
        let compile = |before: Option<&Detector>, text: &str| {
            let set = set_of(text);
            let none = Expressions::default();
            let known = before.map_or(&none, Detector::expressions);
            let (expressions, failed) = known.compile_next(&set, Default::default(), true);
            assert!(failed.is_empty(), "{failed:?}");
            match before {
                None => Detector::new(set, &catalog, expressions, Datasets::default()),
                Some(before) => {
                    Detector::following(before, set, &catalog, expressions, Datasets::default())
                }
            }
        };
        let first = compile(None, &rules("two"));
        // of HTTP/1 and HTTP/2, and of UDP both ways
        let all = shared(&first);
        assert_eq!((all.len(), distinct(&all)), (6, 3), "{all:?}");
        let same = compile(Some(&first), &rules("two"));
        let both = [all.clone(), shared(&same)].concat();
        assert_eq!((both.len(), distinct(&both)), (12, 3));
        assert_eq!(first.matcher_bytes(), same.matcher_bytes());
        assert!(Expressions::share_all(&first.expressions, &same.expressions));
        let other = compile(Some(&same), &format!("# more\n\n{}", rules("zwei")));
        let both = [all, shared(&other)].concat();
        assert_eq!((both.len(), distinct(&both)), (12, 4));
        let mut found = Vec::new();
        let mut scratch = gabion_matcher::Scratch::new();
        for patterns in other.pattern_sets() {
            patterns.scan(b"/one two zwei three", &mut scratch, |at| {
                found.push(other.set.signatures[at as usize].sid);
            });
        }
        found.sort_unstable();
        assert_eq!(found, [1, 1, 2, 2, 3, 3]);
    }

    /// Names of the protocols whose transactions these rules look at.
    fn looked_at(text: &str) -> Vec<&'static str> {
        let (set, catalog) = (set_of(text), gabion_proto::registry::catalog());
        let detector = Detector::new(set, &catalog, Expressions::default(), Datasets::default());
        let all = detector.unlooked().into_iter().skip(1).zip(gabion_proto::registry());
        all.filter(|(unlooked, _)| !unlooked).map(|(_, p)| p.table.name).collect()
    }

    /// A rule looks at the protocols that its header or a keyword names, even if it inspects the payload
    /// too; a rule that names none looks at the protocols that have the buffers it inspects.
    #[test]
    fn rules_look_at_what_they_are_bound_to() {
        let rule = |what: &str| looked_at(&format!("alert {what} sid:1;)\n"));
        assert_eq!(rule("tcp any any -> any any (content:\"a\";"), Vec::<&str>::new());
        assert_eq!(rule("mqtt any any -> any any (content:\"a\";"), Vec::<&str>::new());
        assert_eq!(rule("tcp any any -> any any (http.uri; content:\"a\";"), ["http1", "http2"]);
        let mixed = "(content:\"a\"; http.uri; content:\"b\";";
        assert_eq!(rule(&format!("tcp any any -> any any {mixed}")), ["http1", "http2"]);
        assert_eq!(rule(&format!("http any any -> any any {mixed}")), ["http1", "http2"]);
        let files = rule("tcp any any -> any any (file.data; content:\"a\";");
        assert!(files.contains(&"smtp") && !files.contains(&"mqtt"), "{files:?}");
        let any = rule("tcp any any -> any any (content:\"b\"; file.data; content:\"a\";");
        assert!(any.contains(&"mqtt"), "{any:?}");
    }
}

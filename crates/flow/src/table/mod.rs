//! The flow table of one worker.
//!
//! An open-addressed index of 8-byte entries (32 bits of hash, 32 bits of slab position) points
//! into a slab of flows. Eight entries share a cache line and 32 bits of hash distinguish nearly
//! all keys, so a lookup reads one line of the index and one of the flow. The hash is keyed with a
//! seed that differs from process to process; no output depends on it.
//!
//! Flows end in four ways: their timeout passes (timing wheel, event time), a packet finds them
//! past their timeout, a new connection reuses their key, or space is needed.
//! [`FlowTable::pop_ended`] returns all of them; the engine empties it before it continues with the
//! packet. Flows that time out together are returned in the order of their first packets, so that
//! flows spread over several tables end in the same order as in one.
//!
//! Emergency mode (the budget is used up) shortens timeouts and evicts the flows that would end
//! first. It never walks the table: for each new flow a few others get their shorter deadlines, the
//! first flows in the wheel are evicted, and the mode ends only when a good part of the budget is
//! free again, so that it does not begin again at the next packet.
//!
//! Timeouts follow a clock that callers pass with each packet (`clock_ns`), not the packet's own
//! time, which may be wrong; the times in records are those of the packets.
//!
//! Hot path contract: `packet` allocates only when index, slab or wheel grow.

mod flow;
pub(crate) mod key;
mod slab;
mod wheel;

pub use flow::Flow;
pub use gabion_record::flow_state::{EndReason, FlowState};
pub use key::PacketKey;

use crate::config::{FlowConfig, Timeouts};
use crate::counters::FlowCounters;
use crate::limits::{EVICT_PER_PACKET, SHORTEN_PER_FLOW};
use crate::policy::ExceptionTrigger;
use crate::prefetch;
use crate::tcp::{TcpState, flags};
use gabion_record::budget::Budget;
use gabion_record::{Direction, IpProto};
use key::FlowKey;
use slab::Slab;
use std::collections::VecDeque;
use wheel::Wheel;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// Position of a flow in the table, valid until the flow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowIdx(u32);

/// The facts about a packet that the table needs.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketFacts {
    /// Event time, nanoseconds since 1970.
    pub ts_ns: u64,
    /// The clock by which flows time out, nanoseconds; never less than before. It is the event time
    /// unless that is far off.
    pub clock_ns: u64,
    /// Bytes to count (Suricata counts the frame).
    pub bytes: u32,
    /// TTL or hop limit.
    pub ttl: u8,
    /// TCP flags and sequence number.
    pub tcp: Option<(u8, u32)>,
    /// Key of the quoted packet, for ICMP errors.
    pub quoted: Option<PacketKey>,
    /// Number of the packet in the input: flows that end together do so in the order of their first
    /// packets' numbers, and a full table is simulated at one.
    pub number: u64,
}

/// The outcome of a packet's lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// It belongs to this flow.
    Flow {
        /// The flow's position.
        idx: FlowIdx,
        /// The packet's direction in it.
        dir: Direction,
        /// Whether the flow was created for this packet.
        is_new: bool,
    },
    /// Such packets have no flow of their own: ICMP errors about an unknown flow.
    None,
    /// A TCP packet that opens no connection, in emergency mode: its flow is not known, and none is
    /// opened for it, as in Suricata (`FlowCreateCheck`). No exception policy is asked.
    Unopened,
    /// There should be a flow, but the budget is used up.
    Refused(ExceptionTrigger),
}

/// The table. `T` is the engine's state in each flow.
#[derive(Debug)]
pub struct FlowTable<T> {
    /// (hash >> 32) << 32 | position + 1; 0 = empty.
    index: Vec<u64>,
    slab: Slab<T>,
    free: Vec<u32>,
    len: usize,
    wheel: Wheel,
    ended: VecDeque<(Flow<T>, EndReason)>,
    /// Flows past their timeout, still in the table: number of the first packet, id, position. The
    /// earliest is last.
    due: Vec<(u64, u64, u32)>,
    /// Whether all flows end, whatever their timeout.
    is_closing: bool,
    cfg: FlowConfig,
    budget: Budget,
    seed: [u64; 4],
    in_emergency: bool,
    /// In emergency mode: flows before this position have its timeouts in the wheel.
    shortened: usize,
    /// Work done to find, create and end flows; the wheel counts its insertions itself.
    steps: u64,
    /// Whether a SYN/ACK may open a connection too (midstream, async).
    synack_opens: bool,
    counters: FlowCounters,
}

impl<T: Default> FlowTable<T> {
    /// An empty table. `seed` should be random per process; `synack_opens` is
    /// `midstream || async_oneside` of the stream configuration.
    pub fn new(cfg: FlowConfig, budget: Budget, seed: u64, synack_opens: bool) -> FlowTable<T> {
        let mut words = [0_u64; 4];
        let mut s = seed;
        for w in &mut words {
            s = s.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *w = s | 1;
        }
        let capacity = cfg.prealloc.clamp(64, 1 << 20);
        FlowTable {
            index: vec![0; (capacity * 2).next_power_of_two()],
            slab: Slab::new(),
            free: Vec::new(),
            len: 0,
            wheel: Wheel::new(),
            ended: VecDeque::new(),
            due: Vec::new(),
            is_closing: false,
            cfg,
            budget,
            seed: words,
            in_emergency: false,
            shortened: 0,
            steps: 0,
            synack_opens,
            counters: FlowCounters::default(),
        }
    }

    /// Flows in the table.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the table has no flows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the table is in emergency mode: the budget was used up and timeouts are short.
    pub fn is_in_emergency(&self) -> bool {
        self.in_emergency
    }

    /// The budget of the table.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Work done so far: lookups, flows examined, insertions into the wheel and removals. Tests set
    /// a bound to it instead of measuring time.
    pub fn steps(&self) -> u64 {
        self.steps + self.wheel.insertions()
    }

    /// The counters as of now.
    pub fn counters(&self) -> FlowCounters {
        let mut c = self.counters.clone();
        c.active = self.len as u64;
        c.memuse = self.budget.used();
        c
    }

    /// The flow at a position.
    #[inline]
    pub fn get(&self, idx: FlowIdx) -> Option<&Flow<T>> {
        self.slab.get(idx.0)
    }

    /// The flow at a position.
    #[inline]
    pub fn get_mut(&mut self, idx: FlowIdx) -> Option<&mut Flow<T>> {
        self.slab.get_mut(idx.0)
    }

    /// Finds or creates the flow of a packet and counts the packet in it.
    pub fn packet(&mut self, key: &PacketKey, packet: &PacketFacts) -> Lookup {
        let mut key = *key;
        let (vlan, device) = (key.vlan, key.device);
        let mut quoted = packet.quoted;
        if !self.cfg.vlan_tracking {
            key.vlan = [0; 3];
            quoted = quoted.map(|q| PacketKey { vlan: [0; 3], ..q });
        }
        if !self.cfg.recursion_tracking {
            key.recursion = 0;
            quoted = quoted.map(|q| PacketKey { recursion: 0, ..q });
        }
        if !self.cfg.device_tracking {
            key.device = 0;
            quoted = quoted.map(|q| PacketKey { device: 0, ..q });
        }
        if key.is_icmp_error() {
            return self.icmp_error(&key, quoted.as_ref(), packet);
        }
        let canonical = key.canonical();
        let hash = canonical.0.hash(&self.seed);
        self.steps += 1;
        let mut salt = 0;
        if let Some((at, idx)) = self.find(hash, &canonical.0) {
            let Some(flow) = self.slab.get_mut(idx) else {
                return Lookup::None;
            };
            if let Some(tcp) = &flow.tcp {
                prefetch::lines(&**tcp);
            }
            let dir = if key.is_directed() {
                direction(canonical.1, flow.client_is_high)
            } else {
                Direction::ToServer
            };
            match end_before(flow, dir, packet, &self.cfg, self.in_emergency, self.synack_opens) {
                None => {
                    flow.count(dir, &key, packet);
                    return Lookup::Flow { idx: FlowIdx(idx), dir, is_new: false };
                }
                Some(reason) => {
                    if flow.start_ns == packet.ts_ns {
                        salt = flow.id;
                    }
                    self.take_out(at, idx, reason);
                }
            }
        }
        let lookup = self.open(&key, canonical, hash, salt, packet);
        // Records show the VLAN and the interface although the key leaves them out.
        if !(self.cfg.vlan_tracking && self.cfg.device_tracking)
            && let Lookup::Flow { idx, .. } = lookup
            && let Some(flow) = self.get_mut(idx)
        {
            (flow.vlan, flow.device) = (vlan, device);
        }
        lookup
    }

    /// Moves a flow to another state; the wheel follows if it may now end earlier.
    pub fn set_state(&mut self, idx: FlowIdx, state: FlowState) {
        let Some(flow) = self.slab.get_mut(idx.0) else { return };
        if flow.state == state || flow.state == FlowState::Bypassed {
            return;
        }
        flow.state = state;
        let due = deadline_ns(flow, &self.cfg, self.in_emergency) / SECOND;
        if self.wheel.due_second(idx.0).is_none_or(|old| due < old) {
            self.wheel.insert(idx.0, due);
        }
    }

    /// The next flow that has ended: replaced by a new connection, evicted, or past its timeout at
    /// `now_ns` of the clock. Empty it before you continue with a packet that was looked up.
    #[inline]
    pub fn pop_ended(&mut self, now_ns: u64) -> Option<(Flow<T>, EndReason)> {
        // Most packets come when no slot of the wheel is due.
        if now_ns < self.next_expiry() && !self.in_emergency {
            return None;
        }
        self.next_ended(now_ns)
    }

    fn next_ended(&mut self, now_ns: u64) -> Option<(Flow<T>, EndReason)> {
        if self.ended.is_empty() {
            if self.due.is_empty() {
                self.collect_due(now_ns);
            }
            self.take_out_due();
        }
        self.ended.pop_front()
    }

    /// Time of the clock (ns) before which [`FlowTable::pop_ended`] returns nothing; 0 if a flow
    /// has ended.
    #[inline]
    pub fn next_expiry(&self) -> u64 {
        if self.ended.is_empty() && self.due.is_empty() {
            self.wheel.next_visit_s().saturating_mul(SECOND)
        } else {
            0
        }
    }

    /// Like [`FlowTable::pop_ended`], but only for flows that ended because of a lookup; it does
    /// not advance the wheel.
    #[inline]
    pub fn pop_displaced(&mut self) -> Option<(Flow<T>, EndReason)> {
        self.ended.pop_front()
    }

    /// The input has ended: [`FlowTable::pop_ended`] then returns all flows in the order of their
    /// first packets.
    pub fn close(&mut self) {
        self.is_closing = true;
        self.due = self.slab.iter().map(|(at, f)| (f.first_number, f.id, at)).collect();
        self.due.sort_unstable_by(|a, b| b.cmp(a));
    }

    /// Ends all flows, as [`FlowTable::close`] orders them.
    pub fn drain(&mut self, f: &mut dyn FnMut(Flow<T>, EndReason)) {
        self.close();
        while let Some((flow, reason)) = self.pop_ended(0) {
            f(flow, reason);
        }
    }

    /// Ends one flow now.
    pub fn end(&mut self, idx: FlowIdx, reason: EndReason) {
        let hash_key = self.get(idx).map(|w| (w.hash, w.key));
        if let Some((at, idx)) = hash_key.and_then(|(hash, key)| self.find(hash, &key)) {
            self.take_out(at, idx, reason);
        }
    }

    /// All flows, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Flow<T>> {
        self.slab.iter().map(|(_, flow)| flow)
    }

    /// Finds the flow of the packet that an ICMP error quotes; an error creates no flow.
    fn icmp_error(
        &mut self,
        key: &PacketKey,
        quoted: Option<&PacketKey>,
        packet: &PacketFacts,
    ) -> Lookup {
        let Some(quoted) = quoted.filter(|_| key.icmp_type() == 3) else { return Lookup::None };
        let (flow_key, _) = quoted.canonical();
        let Some((_, idx)) = self.find(flow_key.hash(&self.seed), &flow_key) else {
            return Lookup::None;
        };
        let Some(flow) = self.slab.get_mut(idx) else {
            return Lookup::None;
        };
        let dir =
            if flow.client.addr == key.src { Direction::ToServer } else { Direction::ToClient };
        flow.count(dir, key, packet);
        Lookup::Flow { idx: FlowIdx(idx), dir, is_new: false }
    }

    /// Creates a flow for a packet that has none.
    fn open(
        &mut self,
        key: &PacketKey,
        canonical: (FlowKey, bool),
        hash: u64,
        salt: u64,
        packet: &PacketFacts,
    ) -> Lookup {
        if self.in_emergency && packet.tcp.is_some_and(|(f, _)| !is_pure_syn(f)) {
            return Lookup::Unopened;
        }
        let simulated =
            self.cfg.simulate_memcap_at != 0 && packet.number == self.cfg.simulate_memcap_at;
        if simulated || !self.reserve_flow() {
            self.counters.memcap += 1;
            return Lookup::Refused(ExceptionTrigger::FlowMemcap);
        }
        let mut flow = Flow::new(key, canonical, hash, packet, salt, T::default());
        flow.count(Direction::ToServer, key, packet);
        self.count_opened(key);
        let due = deadline_ns(&flow, &self.cfg, self.in_emergency) / SECOND;
        let idx = match self.free.pop() {
            Some(idx) => {
                self.slab.put(idx, flow);
                idx
            }
            None => self.slab.push(flow),
        };
        self.len += 1;
        if self.len * 2 > self.index.len() {
            self.grow();
        } else {
            self.enter_index(hash, idx);
        }
        self.wheel.begin(packet.clock_ns / SECOND);
        self.wheel.insert(idx, due);
        Lookup::Flow { idx: FlowIdx(idx), dir: Direction::ToServer, is_new: true }
    }

    fn count_opened(&mut self, key: &PacketKey) {
        self.counters.total += 1;
        match key.proto {
            IpProto::TCP => self.counters.tcp += 1,
            IpProto::UDP => self.counters.udp += 1,
            IpProto::ICMP => self.counters.icmpv4 += 1,
            IpProto::ICMPV6 => self.counters.icmpv6 += 1,
            _ => {}
        }
    }

    /// Reserves the memory of a flow; if the budget is used up, enters emergency mode and evicts
    /// the flow that would time out first.
    fn reserve_flow(&mut self) -> bool {
        let cost = self.flow_cost();
        if self.in_emergency {
            self.shorten_some_timeouts();
        }
        if self.budget.try_reserve(cost) {
            return true;
        }
        if !self.in_emergency {
            self.in_emergency = true;
            self.shortened = 0;
            self.counters.emerg_mode_entered += 1;
        }
        for attempt in 1..=EVICT_PER_PACKET {
            self.steps += 1;
            self.counters.get_used_eval += 1;
            let Some(idx) = self.wheel.first() else { return false };
            if attempt < EVICT_PER_PACKET && self.refresh_deadline(idx) {
                continue;
            }
            self.counters.get_used += 1;
            self.end(FlowIdx(idx), EndReason::Forced);
            if self.budget.try_reserve(cost) {
                return true;
            }
        }
        false
    }

    /// Inserts a flow into the wheel again if packets have moved its deadline since the last time.
    fn refresh_deadline(&mut self, idx: u32) -> bool {
        let Some(flow) = self.slab.get(idx) else { return false };
        let due = deadline_ns(flow, &self.cfg, self.in_emergency) / SECOND;
        let is_later = self.wheel.due_second(idx).is_some_and(|old| due > old);
        if is_later {
            self.wheel.insert(idx, due);
        }
        is_later
    }

    /// Bytes charged for a flow and its entries in slab, index (half full) and wheel.
    fn flow_cost(&self) -> u64 {
        (std::mem::size_of::<Option<Flow<T>>>() + 2 * 8 + 24) as u64
    }

    /// Gives some more flows the timeouts of emergency mode.
    fn shorten_some_timeouts(&mut self) {
        let to = self.slab.len().min(self.shortened + SHORTEN_PER_FLOW);
        for at in self.shortened as u32..to as u32 {
            self.steps += 1;
            let Some(flow) = self.slab.get(at) else { continue };
            let due = deadline_ns(flow, &self.cfg, true) / SECOND;
            if self.wheel.due_second(at).is_none_or(|old| due < old) {
                self.wheel.insert(at, due);
            }
        }
        self.shortened = to;
    }

    /// Collects the flows past their timeout.
    fn collect_due(&mut self, now_ns: u64) {
        let now_s = now_ns / SECOND;
        // The wheel does not begin at the first flow: tables that share packets must visit the same
        // seconds.
        self.wheel.begin(now_s);
        while let Some(idx) = self.wheel.pop_due(now_s) {
            self.counters.mgr_flows_checked += 1;
            self.steps += 1;
            let Some(flow) = self.slab.get(idx) else { continue };
            let due = deadline_ns(flow, &self.cfg, self.in_emergency);
            if due < now_ns {
                self.counters.mgr_flows_timeout += 1;
                self.counters.mgr_flows_evicted += 1;
                self.due.push((flow.first_number, flow.id, idx));
            } else {
                self.counters.mgr_flows_notimeout += 1;
                self.wheel.insert(idx, due / SECOND);
            }
        }
        if self.due.len() > 1 {
            self.due.sort_unstable_by(|a, b| b.cmp(a));
        }
        if self.in_emergency {
            let needed =
                self.budget.limit() / 100 * u64::from(self.cfg.emergency_recovery.min(100));
            if self.budget.available() >= needed {
                self.in_emergency = false;
                self.counters.emerg_mode_over += 1;
            }
        }
    }

    /// Moves the first of the flows that are due to the queue.
    fn take_out_due(&mut self) {
        while let Some((_, id, idx)) = self.due.pop() {
            // The flow may have ended another way, and another one may have its position.
            let flow = self.slab.get(idx);
            let Some((hash, key)) = flow.filter(|f| f.id == id).map(|f| (f.hash, f.key)) else {
                continue;
            };
            if let Some((at, idx)) = self.find(hash, &key) {
                let reason = if self.is_closing { EndReason::Shutdown } else { EndReason::Timeout };
                self.take_out(at, idx, reason);
                return;
            }
        }
    }

    /// Moves a flow from the table to the queue of ended flows.
    fn take_out(&mut self, at: usize, idx: u32, reason: EndReason) {
        self.steps += 1;
        self.vacate(at);
        self.wheel.remove(idx);
        let Some(flow) = self.slab.take_flow(idx) else { return };
        self.free.push(idx);
        self.len -= 1;
        self.budget.release(self.flow_cost());
        self.count_ended(&flow, reason);
        self.ended.push_back((flow, reason));
    }

    fn count_ended(&mut self, flow: &Flow<T>, reason: EndReason) {
        let c = &mut self.counters;
        c.tcp_reuse += u64::from(reason == EndReason::TcpReuse);
        *match flow.state {
            FlowState::New => &mut c.end_new,
            FlowState::Established => &mut c.end_established,
            FlowState::Closed => &mut c.end_closed,
            FlowState::Bypassed => &mut c.end_bypassed,
        } += 1;
        let Some(tcp) = &flow.tcp else { return };
        *match tcp.state() {
            TcpState::None => &mut c.end_tcp_none,
            TcpState::SynSent => &mut c.end_tcp_syn_sent,
            TcpState::SynRecv => &mut c.end_tcp_syn_recv,
            TcpState::Established => &mut c.end_tcp_established,
            TcpState::FinWait1 => &mut c.end_tcp_fin_wait1,
            TcpState::FinWait2 => &mut c.end_tcp_fin_wait2,
            TcpState::TimeWait => &mut c.end_tcp_time_wait,
            TcpState::LastAck => &mut c.end_tcp_last_ack,
            TcpState::CloseWait => &mut c.end_tcp_close_wait,
            TcpState::Closing => &mut c.end_tcp_closing,
            TcpState::Closed => &mut c.end_tcp_closed,
        } += 1;
        c.end_tcp_liberal += u64::from(tcp.is_liberal());
    }

    /// Position of a key's flow in the index and in the slab.
    #[inline]
    fn find(&self, hash: u64, key: &FlowKey) -> Option<(usize, u32)> {
        let mask = self.index.len() - 1;
        let tag = hash & 0xffff_ffff_0000_0000;
        let mut at = hash as usize & mask;
        loop {
            let entry = self.index[at];
            if entry == 0 {
                return None;
            }
            if entry & 0xffff_ffff_0000_0000 == tag {
                let idx = (entry as u32) - 1;
                self.slab.prefetch(idx);
                if self.slab.get(idx).is_some_and(|w| w.key == *key) {
                    return Some((at, idx));
                }
            }
            at = (at + 1) & mask;
        }
    }

    fn enter_index(&mut self, hash: u64, idx: u32) {
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        while self.index[at] != 0 {
            at = (at + 1) & mask;
        }
        self.index[at] = (hash & 0xffff_ffff_0000_0000) | u64::from(idx + 1);
    }

    /// Empties an entry and moves the entries after it up, so that no tombstones accumulate.
    fn vacate(&mut self, mut hole: usize) {
        let mask = self.index.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let entry = self.index[at];
            if entry == 0 {
                break;
            }
            let home = self.slab.get(entry as u32 - 1).map_or(at, |w| w.hash as usize & mask);
            // The entry may move up to the hole if its home position is not between the two.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.index[hole] = entry;
                hole = at;
            }
        }
        self.index[hole] = 0;
    }

    fn grow(&mut self) {
        let size = self.index.len() * 2;
        self.index.clear();
        self.index.resize(size, 0);
        for at in 0..self.slab.len() as u32 {
            if let Some(hash) = self.slab.get(at).map(|w| w.hash) {
                self.enter_index(hash, at);
            }
        }
    }
}

/// Direction of a packet, from whether its source and the flow's client are the second side of the
/// key.
#[inline]
fn direction(source_is_high: bool, client_is_high: bool) -> Direction {
    if source_is_high == client_is_high { Direction::ToServer } else { Direction::ToClient }
}

/// The flags that decide whether a packet opens a connection.
const OPENING: u8 = flags::SYN | flags::ACK | flags::FIN | flags::RST;

fn is_pure_syn(f: u8) -> bool {
    f & OPENING == flags::SYN
}

/// Whether the flow ends before this packet: it is past its timeout, or a new connection replaces
/// it.
fn end_before<T>(
    flow: &Flow<T>,
    dir: Direction,
    packet: &PacketFacts,
    cfg: &FlowConfig,
    in_emergency: bool,
    synack_opens: bool,
) -> Option<EndReason> {
    let now_ns = packet.clock_ns;
    if now_ns > flow.seen_ns && deadline_ns(flow, cfg, in_emergency) < now_ns {
        return Some(EndReason::Timeout);
    }
    let (f, seq) = packet.tcp?;
    let reuse = match &flow.tcp {
        Some(tcp) => {
            let opens = is_pure_syn(f) || (synack_opens && f & OPENING == flags::SYN | flags::ACK);
            opens && tcp.is_over_for(dir, f, seq)
        }
        // Without a session there is no earlier connection that the packet could belong to.
        None => {
            let synack = f & OPENING == flags::SYN | flags::ACK;
            is_pure_syn(f) || synack_opens && synack && dir == Direction::ToServer
        }
    };
    reuse.then_some(EndReason::TcpReuse)
}

/// The clock at the last packet plus the timeout of protocol and state.
#[inline]
fn deadline_ns<T>(flow: &Flow<T>, cfg: &FlowConfig, in_emergency: bool) -> u64 {
    let row = match flow.proto {
        IpProto::TCP => 1,
        IpProto::UDP => 2,
        IpProto::ICMP | IpProto::ICMPV6 => 3,
        _ => 0,
    };
    let t: &Timeouts = if in_emergency {
        &cfg.emergency[row]
    } else {
        [&cfg.other, &cfg.tcp, &cfg.udp, &cfg.icmp][row]
    };
    let seconds = match flow.state {
        FlowState::New => t.new,
        FlowState::Established => t.established,
        FlowState::Closed => t.closed,
        FlowState::Bypassed => t.bypassed,
    };
    flow.seen_ns.saturating_add(u64::from(seconds) * SECOND)
}

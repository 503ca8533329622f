//! Reassembles IP fragments into datagrams.
//!
//! There is one tracker per datagram, keyed by addresses, identification, protocol, VLANs and
//! layers of encapsulation. Its fragments are kept as pieces that do not overlap: where a new
//! fragment overlaps an earlier piece, the policy of the receiving host decides which bytes stay,
//! and pieces are cut accordingly. The datagram is complete when the pieces reach from 0 to the end
//! of the last fragment without a hole.
//!
//! Event time drives the timeout: a tracker past its timeout is removed when its own next fragment
//! arrives, or when space is needed, oldest first.

mod pieces;

use crate::config::DefragConfig;
use crate::counters::DefragCounters;
use crate::limits::{DATAGRAM_MAX, reached};
use crate::policy::{ExceptionTrigger, OsPolicy};
use foldhash::fast::RandomState;
use gabion_record::budget::Budget;
use gabion_record::{Addr, IpProto};
use pieces::Pieces;
use std::collections::{HashMap, VecDeque};

/// A fragment, as the decoder found it.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    /// Source address.
    pub src: Addr,
    /// Destination address: its stack reassembles the fragments.
    pub dst: Addr,
    /// 4 or 6.
    pub ip_version: u8,
    /// IPv4 protocol, or the next header of the IPv6 fragment header.
    pub proto: IpProto,
    /// Identification.
    pub id: u32,
    /// VLAN ids.
    pub vlan: [u16; 3],
    /// Layers of encapsulation.
    pub recursion: u8,
    /// Offset of the payload in the datagram's payload, bytes.
    pub offset: u32,
    /// More fragments follow.
    pub more: bool,
    /// The headers that come before the payload in the reassembled datagram. IPv4: the header;
    /// IPv6: the fixed header and the extension headers before the fragment header, with the last
    /// next-header field (see `next_header_at`) still naming the fragment header.
    pub header: &'a [u8],
    /// IPv6: offset in `header` of the next-header field that must name what follows.
    pub next_header_at: usize,
    /// The payload.
    pub payload: &'a [u8],
    /// The clock by which trackers time out, nanoseconds: the event time unless that is stray.
    pub ts_ns: u64,
    /// Number of the packet in the input, for the simulation of a full table.
    pub number: u64,
}

/// Irregularities of fragments; the decoder's event is named by version and this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragEvent {
    /// `frag_pkt_too_large`: would be longer than a datagram can be.
    TooLarge,
    /// `frag_overlap`: covers bytes of an earlier fragment.
    Overlap,
    /// `frag_ignored`: a limit was reached.
    Ignored,
}

impl FragEvent {
    /// The event's name without version.
    pub const fn name(self) -> &'static str {
        match self {
            FragEvent::TooLarge => "frag_pkt_too_large",
            FragEvent::Overlap => "frag_overlap",
            FragEvent::Ignored => "frag_ignored",
        }
    }
}

/// The outcome for a fragment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DefragOutcome {
    /// An irregularity.
    pub event: Option<FragEvent>,
    /// The datagram is complete: [`Defragmenter::datagram`].
    pub is_complete: bool,
    /// A limit was reached.
    pub exception: Option<ExceptionTrigger>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Key {
    src: Addr,
    dst: Addr,
    id: u32,
    vlan: [u16; 3],
    proto: IpProto,
    ip_version: u8,
    recursion: u8,
}

#[derive(Debug)]
struct Tracker {
    policy: OsPolicy,
    /// Time in nanoseconds at which the tracker times out.
    expires_ns: u64,
    timeout_s: u32,
    pieces: Pieces,
    fragments: u32,
    /// Whether the last fragment has arrived.
    has_last: bool,
    header: Vec<u8>,
    next_header_at: usize,
    next_header: u8,
    /// Distinguishes this tracker from an earlier one with the same key in the queue of ages.
    serial: u64,
    charged: u64,
}

/// Reassembles fragments.
#[derive(Debug)]
pub struct Defragmenter {
    cfg: DefragConfig,
    trackers: HashMap<Key, Tracker, RandomState>,
    /// Trackers by the time of their creation, oldest first; entries of finished ones are skipped.
    ages: VecDeque<(Key, u64)>,
    serial: u64,
    fragments: usize,
    steps: u64,
    budget: Budget,
    counters: DefragCounters,
    datagram: Vec<u8>,
}

/// Bytes charged for a tracker and for a fragment besides its payload.
const TRACKER_COST: u64 = std::mem::size_of::<(Key, Tracker)>() as u64 + 64;
const FRAGMENT_COST: u64 = 32;

impl Defragmenter {
    /// A defragmenter with the budget of `defrag.memcap`.
    pub fn new(cfg: DefragConfig, budget: Budget) -> Defragmenter {
        Defragmenter {
            cfg,
            trackers: HashMap::default(),
            ages: VecDeque::new(),
            serial: 0,
            fragments: 0,
            steps: 0,
            budget,
            counters: DefragCounters::default(),
            datagram: Vec::new(),
        }
    }

    /// The counters as of now.
    pub fn counters(&self) -> DefragCounters {
        let mut c = self.counters.clone();
        c.memuse = self.budget.used();
        c
    }

    /// Work done so far: fragments processed, trackers examined and removed. Tests set a bound to
    /// it instead of measuring time.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The datagram that the last fragment completed: header and payload, lengths and next header
    /// set, fragment fields and IPv4 checksum as an unfragmented datagram has them.
    pub fn datagram(&self) -> &[u8] {
        &self.datagram
    }

    /// Processes a fragment.
    pub fn fragment(&mut self, f: &Fragment<'_>) -> DefragOutcome {
        let mut out = DefragOutcome::default();
        if !self.cfg.enabled {
            return out;
        }
        self.steps += 1;
        let v6 = f.ip_version == 6;
        if v6 {
            self.counters.ipv6_fragments += 1;
        } else {
            self.counters.ipv4_fragments += 1;
        }
        let end = f.offset as usize + f.payload.len();
        let header = if v6 { f.header.len().saturating_sub(40) } else { f.header.len() };
        if header + end > DATAGRAM_MAX {
            out.event = Some(FragEvent::TooLarge);
            return out;
        }
        if f.payload.is_empty() {
            return out;
        }
        let key = Key {
            src: f.src,
            dst: f.dst,
            id: f.id,
            vlan: f.vlan,
            proto: f.proto,
            ip_version: f.ip_version,
            recursion: f.recursion,
        };
        if self.trackers.get(&key).is_some_and(|t| t.expires_ns < f.ts_ns) {
            self.count_timeout(v6);
            self.counters.wrk_tracker_timeout += 1;
            self.remove_tracker(&key);
        }
        let simulated = self.cfg.simulate_memcap_at != 0 && f.number == self.cfg.simulate_memcap_at;
        if simulated || !self.make_room(&key, f) {
            out.event = Some(FragEvent::Ignored);
            out.exception = Some(ExceptionTrigger::DefragMemcap);
            return out;
        }
        self.insert(&key, f, &mut out);
        out
    }

    /// Reserves memory for a fragment and creates its tracker.
    fn make_room(&mut self, key: &Key, f: &Fragment<'_>) -> bool {
        let is_new = !self.trackers.contains_key(key);
        let charge = f.payload.len() as u64 + FRAGMENT_COST + if is_new { TRACKER_COST } else { 0 };
        if is_new && self.trackers.len() >= self.cfg.trackers && !self.evict(f.ts_ns, key) {
            self.counters.max_trackers_reached += 1;
            return false;
        }
        if self.fragments >= self.cfg.max_frags && !self.evict(f.ts_ns, key) {
            self.counters.max_frags_reached += 1;
            return false;
        }
        while !self.budget.try_reserve(charge) {
            if !self.evict(f.ts_ns, key) {
                return false;
            }
        }
        if is_new {
            self.steps += 1;
            let timeout_s = self.timeout_for(f);
            self.serial += 1;
            self.ages.push_back((*key, self.serial));
            let tracker = Tracker {
                policy: self.cfg.hosts.lookup(f.dst, f.ip_version),
                expires_ns: 0,
                timeout_s,
                pieces: Pieces::default(),
                fragments: 0,
                has_last: false,
                header: Vec::new(),
                next_header_at: 0,
                next_header: f.proto.0,
                serial: self.serial,
                charged: 0,
            };
            self.trackers.insert(*key, tracker);
        }
        if let Some(t) = self.trackers.get_mut(key) {
            t.charged += charge;
        }
        true
    }

    /// Removes the oldest tracker that is past its timeout. Returns false if there is none.
    fn evict(&mut self, now_ns: u64, not: &Key) -> bool {
        while let Some((key, serial)) = self.ages.front().copied() {
            self.steps += 1;
            let Some(t) = self.trackers.get(&key).filter(|t| t.serial == serial) else {
                self.ages.pop_front();
                continue;
            };
            if key == *not || t.expires_ns >= now_ns {
                return false;
            }
            self.ages.pop_front();
            self.count_timeout(key.ip_version == 6);
            self.counters.tracker_hard_reuse += 1;
            self.remove_tracker(&key);
            return true;
        }
        false
    }

    fn insert(&mut self, key: &Key, f: &Fragment<'_>, out: &mut DefragOutcome) {
        let Some(t) = self.trackers.get_mut(key) else { return };
        t.expires_ns = f.ts_ns.saturating_add(u64::from(t.timeout_s) * 1_000_000_000);
        t.fragments += 1;
        self.fragments += 1;
        if !reached::FRAGMENTS_PER_DATAGRAM.holds(t.fragments as usize) {
            out.event = Some(FragEvent::Ignored);
            return;
        }
        if t.pieces.insert(f.offset, f.payload, !f.more, t.policy) {
            out.event = Some(FragEvent::Overlap);
        }
        if f.offset == 0 {
            t.header.clear();
            t.header.extend_from_slice(f.header);
            t.next_header_at = f.next_header_at;
            t.next_header = f.proto.0;
        }
        t.has_last |= !f.more;
        if !t.has_last || t.header.is_empty() || !t.pieces.is_complete() {
            return;
        }
        build(&mut self.datagram, t, key.ip_version);
        out.is_complete = true;
        if key.ip_version == 6 {
            self.counters.ipv6_reassembled += 1;
        } else {
            self.counters.ipv4_reassembled += 1;
        }
        self.remove_tracker(key);
    }

    fn remove_tracker(&mut self, key: &Key) {
        let Some(t) = self.trackers.remove(key) else { return };
        self.steps += 1;
        self.fragments = self.fragments.saturating_sub(t.fragments as usize);
        self.budget.release(t.charged);
        // The queue of ages holds one stale entry for each finished tracker at most.
        if self.ages.len() > 2 * self.trackers.len() + 64 {
            let trackers = &self.trackers;
            self.steps += self.ages.len() as u64;
            self.ages.retain(|(k, s)| trackers.get(k).is_some_and(|t| t.serial == *s));
        }
    }

    fn count_timeout(&mut self, v6: bool) {
        if v6 {
            self.counters.ipv6_timeouts += 1;
        } else {
            self.counters.ipv4_timeouts += 1;
        }
    }

    fn timeout_for(&self, f: &Fragment<'_>) -> u32 {
        let n = f.dst.as_u128();
        let within = |a: &Addr, bits: u8| {
            bits == 0 || (n ^ a.as_u128()) >> (128 - u32::from(bits.min(128))) == 0
        };
        self.cfg
            .host_timeouts
            .iter()
            .find(|(a, version, bits, _)| *version == f.ip_version && within(a, *bits))
            .map_or(self.cfg.timeout, |(.., seconds)| *seconds)
    }
}

/// Writes header and payload as one datagram.
fn build(out: &mut Vec<u8>, t: &Tracker, ip_version: u8) {
    out.clear();
    out.extend_from_slice(&t.header);
    t.pieces.lay_out(out);
    let total = out.len();
    if ip_version == 6 {
        let len = u16::try_from(total.saturating_sub(40)).unwrap_or(u16::MAX);
        if let Some(field) = out.get_mut(4..6) {
            field.copy_from_slice(&len.to_be_bytes());
        }
        if let Some(next) = out.get_mut(t.next_header_at) {
            *next = t.next_header;
        }
        return;
    }
    let len = u16::try_from(total).unwrap_or(u16::MAX);
    for (at, value) in [(2, len), (6, 0), (10, 0)] {
        if let Some(field) = out.get_mut(at..at + 2) {
            field.copy_from_slice(&u16::to_be_bytes(value));
        }
    }
    let header = out.get(..t.header.len()).unwrap_or_default();
    let sum = header_checksum(header);
    if let Some(field) = out.get_mut(10..12) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}

/// RFC 1071.
fn header_checksum(header: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in header.chunks(2) {
        let word = [pair[0], pair.get(1).copied().unwrap_or(0)];
        sum = sum.wrapping_add(u32::from(u16::from_be_bytes(word)));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

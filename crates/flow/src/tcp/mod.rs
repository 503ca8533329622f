//! TCP: from packets to sessions.
//!
//! [`TcpTracker`] is what a worker owns: configuration, budgets, counters and the free list. It
//! takes one [`TcpSegment`] at a time and returns a [`TcpVerdict`]; the session and its streams
//! belong to the flow. The state machine is Suricata's (RFC 793 as an observer in the middle sees
//! it, tolerant of loss): `handshake` up to established, `transfer` while established, `closing`
//! after the first FIN, `reset` for RSTs, `checks` for acknowledgments, timestamps and the packets
//! that need no state. `reassemble` puts data into the streams.
//!
//! Hot path contract: no allocation once sessions and buffers are warm.

mod checks;
mod closing;
mod facts;
mod handshake;
mod reassemble;
mod reset;
mod segment;
mod session;
mod timestamps;
mod transfer;

pub use facts::{MarkNames, SideFacts};
pub use segment::{TcpOptions, TcpSegment, TcpState, TcpVerdict, Update, UrgentPolicy, flags};
pub use session::TcpSession;

use crate::config::StreamConfig;
use crate::counters::TcpCounters;
use crate::events::StreamEvent;
use crate::limits::KEPT_SESSIONS;
use crate::policy::ExceptionTrigger;
use crate::stream::BufferPool;
use gabion_record::budget::Budget;
use gabion_record::{Direction, DropReason};
use session::{Invalid, Outcome, Step};

/// The TCP side of a worker.
#[derive(Debug)]
pub struct TcpTracker {
    cfg: StreamConfig,
    counters: TcpCounters,
    ssn_budget: Budget,
    data_budget: Budget,
    /// Free sessions, boxed as in flows, so that taking one moves only a pointer.
    #[allow(clippy::vec_box)]
    free: Vec<Box<TcpSession>>,
    pool: BufferPool,
    /// Packets handled, sessions created, refused and recycled.
    steps: u64,
}

impl TcpTracker {
    /// Creates a tracker. The budgets are those of `stream.memcap` and `stream.reassembly.memcap`.
    pub fn new(cfg: StreamConfig, ssn_budget: Budget, data_budget: Budget) -> TcpTracker {
        TcpTracker {
            cfg,
            counters: TcpCounters::default(),
            ssn_budget,
            data_budget,
            free: Vec::new(),
            pool: BufferPool::default(),
            steps: 0,
        }
    }

    /// The tracker's configuration.
    pub fn config(&self) -> &StreamConfig {
        &self.cfg
    }

    /// Whether data that comes again with other bytes is an event from now on.
    pub fn compare_overlaps(&mut self, compares: bool) {
        self.cfg.compares_overlaps = compares;
    }

    /// The tracker's budgets: of sessions and of stream data.
    pub fn budgets(&self) -> [&Budget; 2] {
        [&self.ssn_budget, &self.data_budget]
    }

    /// Work done so far: packets handled, sessions created and recycled, segments and islands
    /// examined to insert others.
    pub fn steps(&self) -> u64 {
        self.steps + self.pool.steps()
    }

    /// The counters as of now.
    pub fn counters(&self) -> TcpCounters {
        let mut c = self.counters.clone();
        c.memuse = self.ssn_budget.used();
        c.reassembly_memuse = self.data_budget.used();
        c
    }

    /// Handles a packet of a flow, in the direction that the flow table found. Creates a session in
    /// `slot` if the packet opens one.
    #[inline]
    pub fn handle(
        &mut self,
        slot: &mut Option<Box<TcpSession>>,
        seg: &TcpSegment<'_>,
        dir: Direction,
    ) -> TcpVerdict {
        self.steps += 1;
        self.count_flags(seg);
        if !seg.checksum_ok && self.cfg.checksum_validation {
            self.counters.invalid_checksum += 1;
            return TcpVerdict { is_bad_checksum: true, ..TcpVerdict::default() };
        }
        let mut verdict = TcpVerdict::default();
        if seg.ack != 0 && !seg.has(flags::ACK) {
            verdict.event(StreamEvent::PktBrokenAck);
        }
        if slot.is_none() {
            if !handshake::opens_session(seg, &self.cfg, &mut verdict) {
                verdict.is_invalid = !verdict.events.is_empty() && verdict.is_invalid;
                self.drop_if_invalid(&mut verdict);
                return verdict;
            }
            *slot = self.new_session(seg, dir);
            if slot.is_none() {
                verdict.is_invalid = true;
                verdict.exception = Some(ExceptionTrigger::StreamMemcap);
                return verdict;
            }
            verdict.is_new_session = true;
        }
        let Some(ssn) = slot.as_deref_mut() else { return verdict };
        let mut step = Step {
            seg,
            dir,
            cfg: &self.cfg,
            counters: &mut self.counters,
            budget: &self.data_budget,
            pool: &mut self.pool,
            verdict,
        };
        if ssn.packet(&mut step).is_err() {
            step.verdict.is_invalid = true;
        }
        let mut verdict = step.verdict;
        verdict.is_established = ssn.state >= TcpState::Established;
        verdict.wants_bypass = ssn.marks.bypass;
        self.drop_if_invalid(&mut verdict);
        verdict
    }

    /// Drops bytes of the packet's direction that are no longer needed. Call it once after a
    /// packet's inspection. The other direction is trimmed after its own next packet: until then
    /// that packet can still be compared with the stored bytes.
    #[inline]
    pub fn trim(&mut self, ssn: &mut TcpSession, dir: Direction) {
        // Inline, the bytes before a packet are inspected with it.
        let window = match (self.cfg.inline, dir) {
            (false, _) => 0,
            (true, Direction::ToServer) => self.cfg.toserver_chunk,
            (true, Direction::ToClient) => self.cfg.toclient_chunk,
        };
        let is_app_over = ssn.marks.app_disabled;
        let stream = ssn.stream_mut(dir);
        // Suricata 8.0.7 keeps nothing of such a stream, and moves its beginning no further: what is sent again then is
        // examined as if it had come for the first time.
        if is_app_over && stream.is_raw_over() {
            stream.abandon(&self.data_budget, &mut self.pool);
        } else {
            stream.trim(window.into(), &self.data_budget, &mut self.pool);
        }
    }

    /// Recycles a session whose flow has ended.
    pub fn recycle(&mut self, ssn: Option<Box<TcpSession>>) {
        let Some(mut ssn) = ssn else { return };
        self.steps += 1;
        ssn.reset(&self.data_budget, &mut self.pool);
        self.counters.active_sessions = self.counters.active_sessions.saturating_sub(1);
        self.ssn_budget.release(SESSION_COST);
        if self.free.len() < KEPT_SESSIONS {
            self.free.push(ssn);
        }
    }

    /// Counts a gap that was passed to the application layer.
    pub fn count_gap(&mut self) {
        self.counters.reassembly_gap += 1;
    }

    /// Counts an inspection of remaining data at the end of a flow.
    pub fn count_pseudo(&mut self) {
        self.counters.pseudo += 1;
    }

    fn new_session(&mut self, seg: &TcpSegment<'_>, dir: Direction) -> Option<Box<TcpSession>> {
        self.steps += 1;
        let simulated =
            self.cfg.simulate_ssn_memcap_at != 0 && seg.number == self.cfg.simulate_ssn_memcap_at;
        if simulated || !self.ssn_budget.try_reserve(SESSION_COST) {
            self.counters.ssn_memcap_drop += 1;
            return None;
        }
        let mut ssn = match self.free.pop() {
            Some(ssn) => {
                self.counters.ssn_from_cache += 1;
                ssn
            }
            None => {
                self.counters.ssn_from_pool += 1;
                Box::default()
            }
        };
        self.counters.sessions += 1;
        self.counters.active_sessions += 1;
        let receivers = [seg.dst, seg.src];
        for (n, receiver) in receivers.iter().enumerate() {
            let to = if n == 0 { dir } else { dir.opposite() };
            let stream = ssn.stream_mut(to);
            stream.set_policy(self.cfg.hosts.lookup(*receiver, seg.ip_version));
            stream.marks.inline = self.cfg.inline;
            stream.marks.no_raw = !self.cfg.raw;
            stream.set_depth(u64::from(self.cfg.depth));
        }
        Some(ssn)
    }

    fn count_flags(&mut self, seg: &TcpSegment<'_>) {
        if !seg.has(flags::SYN | flags::RST | flags::URG) {
            return;
        }
        match (seg.has(flags::SYN), seg.has(flags::ACK)) {
            (true, true) => self.counters.synack += 1,
            (true, false) => self.counters.syn += 1,
            (false, _) => {}
        }
        self.counters.rst += u64::from(seg.has(flags::RST));
        self.counters.urg += u64::from(seg.has(flags::URG));
    }

    fn drop_if_invalid(&self, verdict: &mut TcpVerdict) {
        if verdict.is_invalid && self.cfg.inline && self.cfg.drop_invalid && verdict.drop.is_none()
        {
            verdict.drop = Some(DropReason::StreamError);
        }
    }
}

/// Bytes charged for a session.
const SESSION_COST: u64 = std::mem::size_of::<TcpSession>() as u64;

impl TcpSession {
    /// Processes a packet in its session.
    fn packet(&mut self, step: &mut Step<'_>) -> Outcome {
        self.streams[step.dir.index()].add_tcp_flags(step.seg.flags);
        if self.marks.is_async && self.streams.iter().all(|s| s.tcp_flags() != 0) {
            self.marks.is_async = false;
        }
        if self.state == TcpState::None {
            return self.open(step);
        }
        if !self.is_stateless(step) {
            self.handle_by_state(step)?;
        }
        self.note_life_after_reset(step);
        Ok(())
    }

    /// The state machine. Closed sessions handle packets in the state before if the reset that
    /// closed them may have been ignored.
    pub(crate) fn handle_by_state(&mut self, step: &mut Step<'_>) -> Outcome {
        match self.state {
            TcpState::None => self.open(step),
            TcpState::SynSent => self.in_syn_sent(step),
            TcpState::SynRecv => self.in_syn_recv(step),
            TcpState::Established => self.in_established(step),
            TcpState::FinWait1
            | TcpState::FinWait2
            | TcpState::TimeWait
            | TcpState::LastAck
            | TcpState::CloseWait
            | TcpState::Closing => self.in_closing(step),
            TcpState::Closed => self.in_closed(step),
        }
    }

    fn in_closed(&mut self, step: &mut Step<'_>) -> Outcome {
        if step.seg.has(flags::RST) {
            return Ok(());
        }
        if !self.streams[step.dir.opposite().index()].marks.reset {
            return Ok(());
        }
        let closed = std::mem::replace(&mut self.state, self.previous);
        if closed == self.state {
            return Err(Invalid);
        }
        self.handle_by_state(step)
    }
}

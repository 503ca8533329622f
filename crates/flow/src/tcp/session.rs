//! The TCP session: state, both streams, and what the handshake negotiated.

use super::segment::{TcpSegment, TcpState, TcpVerdict, flags};
use crate::config::StreamConfig;
use crate::counters::TcpCounters;
use crate::events::StreamEvent;
use crate::stream::{BufferPool, Stream};
use gabion_record::Direction;
use gabion_record::budget::Budget;
use smallvec::SmallVec;

/// Sequence number comparisons (RFC 793 3.3: modulo 2^32).
pub(crate) mod seq {
    #[inline]
    pub(crate) fn lt(a: u32, b: u32) -> bool {
        (a.wrapping_sub(b) as i32) < 0
    }
    #[inline]
    pub(crate) fn leq(a: u32, b: u32) -> bool {
        (a.wrapping_sub(b) as i32) <= 0
    }
    #[inline]
    pub(crate) fn gt(a: u32, b: u32) -> bool {
        (a.wrapping_sub(b) as i32) > 0
    }
    #[inline]
    pub(crate) fn geq(a: u32, b: u32) -> bool {
        (a.wrapping_sub(b) as i32) >= 0
    }
}

/// A SYN or SYN/ACK that differs from the one the session follows, kept until the handshake shows
/// which one the other side accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueuedSyn {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    pub(crate) ts_val: Option<u32>,
    pub(crate) pkt_s: u32,
    pub(crate) wscale: Option<u8>,
    pub(crate) sack_ok: bool,
}

impl QueuedSyn {
    pub(crate) fn from_segment(seg: &TcpSegment<'_>) -> QueuedSyn {
        QueuedSyn {
            seq: seg.seq,
            ack: seg.ack,
            window: seg.window,
            ts_val: seg.options.ts_val,
            pkt_s: seg.seconds(),
            wscale: seg.options.wscale,
            sack_ok: seg.options.sack_ok,
        }
    }
}

/// Flags of a session.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SessionMarks {
    pub(crate) midstream: bool,
    pub(crate) midstream_established: bool,
    pub(crate) midstream_synack: bool,
    pub(crate) is_async: bool,
    /// Both sides use timestamps.
    pub(crate) timestamps: bool,
    /// The SYN offered window scaling.
    pub(crate) wscale_offered: bool,
    pub(crate) sack_offered: bool,
    pub(crate) sack: bool,
    pub(crate) four_way: bool,
    /// The handshake's ACK was wrong in a way that only some hosts answer.
    pub(crate) evasion: bool,
    pub(crate) fast_open: bool,
    pub(crate) fast_open_data_ignored: bool,
    /// The server has acknowledged something after the handshake.
    pub(crate) handshake_confirmed: bool,
    /// Data was lost to a limit.
    pub(crate) liberal: bool,
    pub(crate) bypass: bool,
    /// A reset has ended it.
    pub(crate) closed_by_reset: bool,
    /// Neither parsers nor raw inspection process the session any more.
    pub(crate) app_disabled: bool,
}

/// A TCP session.
#[derive(Debug, Default)]
pub struct TcpSession {
    pub(crate) state: TcpState,
    /// The state before this one.
    pub(crate) previous: TcpState,
    /// Data to the server, data to the client: indexed by [`Direction::index`].
    pub(crate) streams: [Stream; 2],
    pub(crate) marks: SessionMarks,
    pub(crate) queue: SmallVec<[QueuedSyn; 1]>,
}

impl TcpSession {
    /// The state.
    pub fn state(&self) -> TcpState {
        self.state
    }

    /// The stream of a direction.
    #[inline]
    pub fn stream(&self, dir: Direction) -> &Stream {
        &self.streams[dir.index()]
    }

    /// The stream of a direction.
    #[inline]
    pub fn stream_mut(&mut self, dir: Direction) -> &mut Stream {
        &mut self.streams[dir.index()]
    }

    /// TCP flags of both directions, or-ed.
    pub fn tcp_flags(&self) -> u8 {
        self.streams[0].tcp_flags() | self.streams[1].tcp_flags()
    }

    /// Adds the flags of a packet that the session does not process.
    pub fn note_flags(&mut self, direction: Direction, flags: u8) {
        self.stream_mut(direction).add_tcp_flags(flags);
    }

    /// Whether the session was picked up in the middle.
    pub fn is_midstream(&self) -> bool {
        self.marks.midstream
    }

    /// Whether only one direction is seen.
    pub fn is_async(&self) -> bool {
        self.marks.is_async
    }

    /// The one direction that is seen, of a one-sided session.
    pub fn only_direction(&self) -> Option<Direction> {
        if !self.marks.is_async {
            return None;
        }
        Direction::BOTH.into_iter().find(|d| self.stream(*d).tcp_flags() != 0)
    }

    /// Whether data is missing: resets are then accepted whatever their numbers.
    pub fn is_liberal(&self) -> bool {
        self.marks.liberal || self.streams.iter().any(|s| s.gaps().0 > 0)
    }

    /// Swaps client and server.
    pub fn swap_directions(&mut self) {
        self.streams.swap(0, 1);
    }

    /// Ends parsing of both directions.
    pub fn disable_app(&mut self) {
        self.marks.app_disabled = true;
        for s in &mut self.streams {
            s.disable_app();
        }
    }

    /// Sets how many bytes of each direction are reassembled; 0 = all.
    pub fn set_depth(&mut self, bytes: u64) {
        for s in &mut self.streams {
            s.set_depth(bytes);
        }
    }

    /// The flow has ended: all data is inspected, acknowledged or not. Returns the directions with
    /// data that parsers or raw inspection have not yet seen, to the server first.
    pub fn finish(&mut self) -> impl Iterator<Item = Direction> + use<> {
        for s in &mut self.streams {
            s.finish();
        }
        let pending = [self.streams[0].has_pending(), self.streams[1].has_pending()];
        Direction::BOTH.into_iter().filter(move |d| pending[d.index()])
    }

    /// Whether a packet that opens a connection opens a new one: this one has ended, and the packet
    /// is not its own first.
    pub(crate) fn is_over_for(&self, dir: Direction, tcp_flags: u8, seq: u32) -> bool {
        // The server has ignored the data of the SYN: whichever SYN comes next opens a connection of its own.
        if dir == Direction::ToServer
            && tcp_flags & flags::ACK == 0
            && self.marks.fast_open_data_ignored
        {
            return true;
        }
        if dir == Direction::ToServer
            && tcp_flags & flags::ACK == 0
            && self.streams[0].isn == seq
            && self.state != TcpState::None
        {
            return false;
        }
        if dir == Direction::ToClient && tcp_flags & flags::ACK != 0 && self.streams[1].isn == seq {
            return false;
        }
        self.state >= TcpState::LastAck || self.state == TcpState::None
    }

    /// Resets all state.
    pub(crate) fn reset(&mut self, budget: &Budget, pool: &mut BufferPool) {
        for s in &mut self.streams {
            s.reset(budget, pool);
        }
        self.state = TcpState::None;
        self.previous = TcpState::None;
        self.marks = SessionMarks::default();
        self.queue.clear();
    }
}

/// The state that the functions of the state machine share while they process one packet.
pub(crate) struct Step<'a> {
    pub(crate) seg: &'a TcpSegment<'a>,
    pub(crate) dir: Direction,
    pub(crate) cfg: &'a StreamConfig,
    pub(crate) counters: &'a mut TcpCounters,
    pub(crate) budget: &'a Budget,
    pub(crate) pool: &'a mut BufferPool,
    pub(crate) verdict: TcpVerdict,
}

/// The packet breaks the rules; it changes nothing.
#[derive(Debug)]
pub(crate) struct Invalid;

/// Outcome of a step of the state machine.
pub(crate) type Outcome = Result<(), Invalid>;

impl Step<'_> {
    #[inline]
    pub(crate) fn to_server(&self) -> bool {
        self.dir == Direction::ToServer
    }

    pub(crate) fn event(&mut self, event: StreamEvent) {
        self.verdict.event(event);
    }

    pub(crate) fn invalid(&mut self, event: StreamEvent) -> Outcome {
        self.verdict.event(event);
        Err(Invalid)
    }

    /// The same for a packet with which Suricata still inspects what is due.
    pub(crate) fn invalid_but_inspected(&mut self, event: StreamEvent) -> Outcome {
        self.verdict.is_still_inspected = true;
        self.invalid(event)
    }
}

impl TcpSession {
    /// The sender's stream and the other one.
    #[inline]
    pub(crate) fn pair(&mut self, dir: Direction) -> (&mut Stream, &mut Stream) {
        let [to_server, to_client] = &mut self.streams;
        match dir {
            Direction::ToServer => (to_server, to_client),
            Direction::ToClient => (to_client, to_server),
        }
    }

    pub(crate) fn set_state(&mut self, step: &mut Step<'_>, state: TcpState) {
        if self.state == state {
            return;
        }
        self.previous = self.state;
        self.state = state;
        step.verdict.is_state_changed = true;
        if let Some(flow_state) = state.flow_state() {
            step.verdict.flow_state = Some(flow_state);
        }
    }
}

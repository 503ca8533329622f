//! Checks that several states share: acknowledgments, retransmissions, and the packets that do not
//! affect the state (keep-alives, outdated acknowledgments, odd window updates).

use super::segment::{TcpState, flags};
use super::session::{Invalid, Outcome, Step, TcpSession, seq};
use crate::events::StreamEvent;
use crate::stream::Stream;

const CONTROL: u8 = flags::SYN | flags::FIN | flags::RST;

impl TcpSession {
    /// Moves the acknowledgment of a stream forward.
    #[inline]
    pub(crate) fn advance_ack(stream: &mut Stream, ack: u32) {
        if seq::gt(ack, stream.last_ack) {
            stream.last_ack = ack;
        }
    }

    /// Moves the right edge of a stream's window forward.
    #[inline]
    pub(crate) fn advance_window(stream: &mut Stream, edge: u32) {
        if seq::gt(edge, stream.next_win) {
            stream.next_win = edge;
        }
    }

    /// Whether the packet's acknowledgment of the other stream makes sense.
    #[inline]
    pub(crate) fn validate_ack(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if !seg.has(flags::ACK) {
            return Ok(());
        }
        let state = self.state;
        let is_async = self.marks.is_async;
        let (_, other) = self.pair(step.dir);
        let ack = seg.ack;
        if seq::gt(ack, other.last_ack) && seq::leq(ack, other.next_win) || ack == other.last_ack {
            return Ok(());
        }
        if seq::lt(ack, other.last_ack) {
            // Older than anything the window can hold. With a window of 0 there is no left edge.
            let too_old =
                other.window != 0 && seq::lt(ack, other.last_ack.wrapping_sub(other.window));
            return if too_old { step.invalid(StreamEvent::PktInvalidAck) } else { Ok(()) };
        }
        if is_async {
            return Ok(());
        }
        if state > TcpState::SynSent && seq::gt(ack, other.next_win) {
            return step.invalid(StreamEvent::PktInvalidAck);
        }
        // The reset that answers a SYN.
        let refuses = state == TcpState::SynSent
            && !step.to_server()
            && seg.has(flags::RST)
            && ack == other.isn.wrapping_add(1);
        if refuses { Ok(()) } else { step.invalid(StreamEvent::PktInvalidAck) }
    }

    /// Whether the payload was sent before; adds the event.
    pub(crate) fn is_retransmission(&mut self, step: &mut Step<'_>) -> bool {
        let seg = step.seg;
        if seg.is_empty() {
            return false;
        }
        let (own, _) = self.pair(step.dir);
        let end = seg.end();
        let partly_acked = seq::lt(seg.seq, own.last_ack) && seq::gt(end, own.last_ack);
        if !partly_acked && !seq::leq(end, own.last_ack) && !seq::leq(end, own.next_seq) {
            return false;
        }
        step.event(StreamEvent::PktRetransmission);
        step.verdict.is_retransmission = true;
        true
    }

    /// Handles packets that do not depend on the state. Returns true if the packet was one.
    #[inline]
    pub(crate) fn is_stateless(&mut self, step: &mut Step<'_>) -> bool {
        let seg = step.seg;
        let state = self.state;
        let (own, other) = self.pair(step.dir);
        let small = seg.payload.len() <= 1 && !seg.has(CONTROL);
        if small && own.next_seq == seg.seq.wrapping_add(1) && other.last_ack == seg.ack {
            own.marks.keepalive = true;
            step.verdict.is_keepalive = true;
            return true;
        }
        let window = u32::from(seg.window) << other.wscale;
        if other.marks.keepalive
            && seg.is_empty()
            && !seg.has(CONTROL)
            && window == other.window
            && seg.ack == other.last_ack
            && seg.seq == own.next_seq
        {
            other.marks.keepalive = false;
            step.verdict.is_keepalive = true;
            return true;
        }
        own.marks.keepalive = false;
        if !seg.is_empty() {
            // All of it was stored and is no longer needed; or it was acknowledged and may still be
            // compared with the bytes that arrived first.
            let is_done = seq::leq(seg.end(), own.base_seq());
            if is_done || seq::leq(seg.end(), own.last_ack) {
                step.event(StreamEvent::PktSpuriousRetransmission);
                step.verdict.is_retransmission = true;
            }
            if is_done {
                return true;
            }
        }
        if state < TcpState::Established {
            return false;
        }
        let ends = matches!(state, TcpState::TimeWait | TcpState::CloseWait | TcpState::LastAck);
        // The ACK of a FIN.
        if ends
            && seg.flags == flags::ACK
            && seg.is_empty()
            && seg.seq == own.next_seq.wrapping_add(1)
            && seg.ack == other.next_seq.wrapping_add(1)
        {
            return false;
        }
        if seg.has(CONTROL) {
            return false;
        }
        let is_update = seg.is_empty()
            && window != other.window
            && seg.ack == other.last_ack
            && seg.seq == own.next_seq;
        if is_update {
            step.verdict.is_window_update = true;
            return false;
        }
        if Self::is_bad_window_update(own, other, step, window, state) {
            step.event(StreamEvent::PktBadWindowUpdate);
            return true;
        }
        if seg.is_empty() && seg.seq == own.next_seq {
            if seq::lt(seg.ack, other.last_ack) {
                return true;
            }
            step.verdict.is_dup_ack = seg.ack == other.last_ack && window == other.window;
        }
        false
    }

    /// A window that shrinks by more than the data in between explains.
    fn is_bad_window_update(
        own: &Stream,
        other: &Stream,
        step: &Step<'_>,
        window: u32,
        state: TcpState,
    ) -> bool {
        let seg = step.seg;
        if state == TcpState::Closed || window >= other.window {
            return false;
        }
        let shrinks = other.window - window;
        if shrinks <= seg.len()
            || !seq::gt(seg.ack, other.next_seq)
            || !seq::gt(seg.seq, own.next_seq)
        {
            return false;
        }
        let acked = u64::from(seg.ack.wrapping_sub(other.last_ack));
        let factor = if window > 1024 { 32 } else { 2 };
        u64::from(shrinks) > acked * factor
    }

    /// The sender of a reset continues to send: the reset was ignored.
    pub(crate) fn note_life_after_reset(&mut self, step: &mut Step<'_>) {
        if step.seg.has(flags::RST) {
            return;
        }
        let (_, other) = self.pair(step.dir);
        if std::mem::take(&mut other.marks.reset) {
            step.event(StreamEvent::SuspectedRstInject);
        }
    }

    /// Fails with the state's own event if the acknowledgment is invalid.
    pub(crate) fn require_ack(&mut self, step: &mut Step<'_>, event: StreamEvent) -> Outcome {
        match self.validate_ack(step) {
            Ok(()) => Ok(()),
            Err(Invalid) => step.invalid(event),
        }
    }
}

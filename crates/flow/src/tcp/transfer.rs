//! The established state, and the FIN that ends it.

use super::segment::{TcpState, flags};
use super::session::{Invalid, Outcome, Step, TcpSession, seq};
use crate::events::StreamEvent;
use gabion_record::Direction;

impl TcpSession {
    #[inline]
    pub(crate) fn in_established(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if !seg.has(flags::RST | flags::FIN | flags::SYN) {
            if !seg.has(flags::ACK) {
                return Ok(());
            }
            if self.marks.timestamps && !self.timestamp_is_valid(step) {
                return Err(Invalid);
            }
            return self.established_data(step);
        }
        if seg.has(flags::RST) {
            return self.reset_connection(step);
        }
        if seg.has(flags::FIN) {
            if self.marks.timestamps && !self.timestamp_is_valid(step) {
                return Err(Invalid);
            }
            return self.fin(step);
        }
        self.syn_in_established(step)
    }

    fn syn_in_established(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        let [client, server] = &self.streams;
        if !seg.has(flags::ACK) {
            // Suricata does not distinguish a repeated SYN from a different one here.
            return step.invalid(if step.to_server() {
                StreamEvent::EstSynResendDiffSeq
            } else {
                StreamEvent::EstSynToClient
            });
        }
        if step.to_server() {
            return step.invalid(StreamEvent::EstSynAckToServer);
        }
        if seg.ack != client.last_ack {
            return step.invalid(StreamEvent::EstSynAckResendDiffAck);
        }
        if seg.seq != server.isn {
            return step.invalid(StreamEvent::EstSynAckResendDiffSeq);
        }
        if self.marks.handshake_confirmed {
            return step.invalid(StreamEvent::EstSynAckResend);
        }
        // The server has not received the handshake's ACK yet.
        Ok(())
    }

    /// Data or acknowledgment of an established connection.
    fn established_data(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if self.validate_ack(step).is_err() {
            return step.invalid(StreamEvent::EstInvalidAck);
        }
        let (is_async, midstream) = (self.marks.is_async, self.marks.midstream);
        self.marks.handshake_confirmed |= !step.to_server();
        let (own, _) = self.pair(step.dir);
        let end = seg.end();
        let garbage = seg.payload.len() <= 1 && seg.seq == own.next_seq.wrapping_sub(1);
        if !garbage && seq::lt(end, own.last_ack) {
            // All of it was acknowledged before.
            if is_async || (own.next_seq == seg.seq && midstream && step.cfg.async_oneside) {
                own.last_ack = end;
            } else if !(seq::gt(own.last_ack, own.next_seq) && seq::gt(end, own.next_seq)) {
                return step.invalid_but_inspected(StreamEvent::EstPktBeforeLastAck);
            }
        }
        let probe = seg.payload.len() == 1 && seg.seq == own.next_seq && own.window == 0;
        if probe {
            own.marks.window_probe = true;
        } else if seq::gt(end, own.next_seq) {
            // In order, or earlier bytes are missing; when they arrive, they are an older segment.
            own.next_seq = end;
        }
        if is_async && seq::gt(end, own.last_ack) {
            own.last_ack = end;
        }
        if self.marks.midstream_established && !step.to_server() {
            // The first packet of the side that did not open the connection carries its window.
            self.marks.midstream_established = false;
            let server = &mut self.streams[1];
            server.window = u32::from(seg.window) << server.wscale;
            server.next_win = server.last_ack.wrapping_add(server.window);
        }
        let (own, _) = self.pair(step.dir);
        let in_window = probe || seq::leq(end, own.next_win) || midstream || is_async;
        if !in_window {
            return step.invalid_but_inspected(StreamEvent::EstPacketOutOfWindow);
        }
        // A probe's acknowledgment and window are ignored.
        if !probe {
            let (_, other) = self.pair(step.dir);
            step.counters.ack_unseen_data += u64::from(seq::gt(seg.ack, other.next_seq));
            Self::advance_ack(other, seg.ack);
            other.window = u32::from(seg.window) << other.wscale;
            let edge = other.last_ack.wrapping_add(other.window);
            Self::advance_window(other, edge);
        }
        self.note_timestamp(step);
        self.take_data(step);
        Ok(())
    }

    /// The first FIN.
    pub(crate) fn fin(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        self.require_ack(step, StreamEvent::FinInvalidAck)?;
        let (own, _) = self.pair(step.dir);
        if seq::lt(seg.seq, own.last_ack) || seq::gt(seg.end(), own.next_win) {
            return step.invalid(StreamEvent::FinOutOfWindow);
        }
        if seg.has(flags::SYN) && step.to_server() {
            return step.invalid(StreamEvent::FinSyn);
        }
        let state = match step.dir {
            Direction::ToServer => TcpState::CloseWait,
            Direction::ToClient => TcpState::FinWait1,
        };
        self.set_state(step, state);
        let (own, other) = self.pair(step.dir);
        own.next_seq = seg.end();
        if state == TcpState::FinWait1 {
            // Only here the number expected next includes the FIN.
            own.next_seq = own.next_seq.wrapping_add(1);
        }
        own.note_fin(seg.end());
        other.window = u32::from(seg.window) << other.wscale;
        if seg.has(flags::ACK) {
            Self::advance_ack(other, seg.ack);
        }
        // Data may be missing that the other side has.
        if seq::lt(other.next_seq, seg.ack) {
            other.next_seq = seg.ack;
        }
        self.note_timestamp(step);
        self.take_data(step);
        Ok(())
    }
}

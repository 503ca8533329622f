//! The states after the first FIN.
//!
//! The six states differ in where they expect a packet, in which order they check position and
//! acknowledgment, which events they add and which state follows; the rest is the same, so each is
//! a row of rules. The rows were found by sending Suricata every combination of direction, flags
//! and shifted numbers in each state and comparing events and following states.

use super::segment::{TcpState, flags};
use super::session::{Invalid, Outcome, Step, TcpSession, seq};
use crate::events::StreamEvent as E;
use gabion_record::Direction;

/// The sequence numbers at which a state expects a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the window's edge, as in data transfer.
    BelowEdge,
    /// As `BelowEdge`, but only an acknowledgment of the FIN is considered.
    BelowEdgeIfAcksFin,
    /// Exactly at the number expected next, even if it is a retransmission.
    NextStrictly,
    /// At the number expected next, or one more.
    NextOrFin,
    /// From the number expected next to the window's edge, wherever the packet ends.
    Fin,
    /// As `Fin`, or one before.
    FinOrBefore,
    /// Not beyond the window, and not acknowledged before.
    CloseWait,
}

/// Rules of one kind of packet in one state.
struct Rule {
    place: Place,
    /// Whether the acknowledgment is checked before the position.
    ack_first: bool,
    wrong_place: E,
    invalid_ack: E,
    next: Option<TcpState>,
}

impl TcpSession {
    pub(crate) fn in_closing(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if seg.has(flags::RST) {
            return self.reset_connection(step);
        }
        if seg.has(flags::SYN) && (!seg.has(flags::FIN) || self.state == TcpState::Closing) {
            return step.invalid(E::ShutdownSynResend);
        }
        if !seg.has(flags::FIN | flags::ACK) {
            return Ok(());
        }
        let rule = self.rule(step);
        let is_looked_at =
            rule.is_some() || self.state == TcpState::LastAck && !seg.has(flags::FIN);
        if is_looked_at && self.marks.timestamps && !self.timestamp_is_valid(step) {
            return Err(Invalid);
        }
        let Some(rule) = rule else { return Ok(()) };
        let fin_repeated = self.is_fin_repeated(step);
        // FIN_WAIT_2 recognizes its FIN by number before it checks the payload.
        let by_number = fin_repeated && self.state == TcpState::FinWait2;
        let again = by_number || self.is_retransmission(step) || fin_repeated;
        if rule.ack_first {
            self.require_ack(step, rule.invalid_ack)?;
        }
        if self.state == TcpState::LastAck && self.is_old(step) {
            return Ok(());
        }
        let exempt = again && rule.place != Place::NextStrictly;
        if !exempt && !self.is_in_place(step, rule.place) {
            return step.invalid(rule.wrong_place);
        }
        if rule.place == Place::CloseWait {
            let (own, _) = self.pair(step.dir);
            if !seg.is_empty() && seq::leq(seg.end(), own.last_ack) {
                return step.invalid(E::CloseWaitPktBeforeLastAck);
            }
        }
        if !rule.ack_first {
            self.require_ack(step, rule.invalid_ack)?;
        }
        self.closing_accepted(step, &rule, again);
        Ok(())
    }

    /// Applies an accepted packet's numbers to the session.
    fn closing_accepted(&mut self, step: &mut Step<'_>, rule: &Rule, again: bool) {
        let seg = step.seg;
        // In FIN_WAIT_1 the next packet is compared with the number before the FIN, which the
        // server's side counts already.
        let before_fin =
            self.state == TcpState::FinWait1 && (!step.to_server() || !seg.has(flags::ACK));
        let widens =
            !seg.has(flags::FIN) && matches!(self.state, TcpState::FinWait1 | TcpState::FinWait2);
        if !again {
            if let Some(next) = self.next_state(step, rule) {
                self.set_state(step, next);
            }
            let (own, other) = self.pair(step.dir);
            if rule.place != Place::BelowEdgeIfAcksFin || seg.ack == other.next_seq {
                other.window = u32::from(seg.window) << other.wscale;
            }
            if seg.has(flags::FIN) {
                own.note_fin(seg.end());
            }
        }
        let (own, other) = self.pair(step.dir);
        let continues = seg.seq == own.next_seq.wrapping_sub(u32::from(before_fin));
        if continues && !(again && before_fin) {
            own.next_seq = seg.end();
        }
        if seg.has(flags::ACK) {
            Self::advance_ack(other, seg.ack);
        }
        if seq::lt(other.next_seq, seg.ack) {
            other.next_seq = seg.ack;
        }
        if widens {
            let edge = other.last_ack.wrapping_add(other.window);
            Self::advance_window(other, edge);
        }
        self.note_timestamp(step);
        self.take_data(step);
    }

    /// The rule for a FIN or a plain ACK in this state; `None` if the packet has no effect.
    fn rule(&self, step: &Step<'_>) -> Option<Rule> {
        use TcpState as S;
        let fin = step.seg.has(flags::FIN);
        let rule = |place, ack_first, wrong_place, invalid_ack, next| {
            Some(Rule { place, ack_first, wrong_place, invalid_ack, next })
        };
        match (self.state, fin) {
            (S::FinWait1, true) => {
                let acks = step.seg.has(flags::ACK);
                let next = Some(if acks { S::TimeWait } else { S::Closing });
                rule(Place::FinOrBefore, false, E::Fin1FinWrongSeq, E::Fin1InvalidAck, next)
            }
            (S::FinWait1, false) => {
                let place = match step.dir {
                    Direction::ToServer => Place::BelowEdgeIfAcksFin,
                    Direction::ToClient => Place::BelowEdge,
                };
                rule(place, true, E::Fin1AckWrongSeq, E::Fin1InvalidAck, Some(S::FinWait2))
            }
            (S::FinWait2, true) => {
                let next = Some(S::TimeWait);
                rule(Place::Fin, false, E::Fin2FinWrongSeq, E::Fin2InvalidAck, next)
            }
            (S::FinWait2, false) => {
                rule(Place::BelowEdge, true, E::Fin2AckWrongSeq, E::Fin2InvalidAck, None)
            }
            (S::Closing, _) if step.seg.has(flags::ACK) => {
                let next = Some(S::TimeWait);
                rule(Place::NextStrictly, false, E::ClosingAckWrongSeq, E::ClosingInvalidAck, next)
            }
            (S::CloseWait, true) => {
                let next = (step.dir == Direction::ToClient).then_some(S::LastAck);
                rule(Place::Fin, false, E::CloseWaitFinOutOfWindow, E::CloseWaitInvalidAck, next)
            }
            (S::CloseWait, false) => rule(
                Place::CloseWait,
                false,
                E::CloseWaitAckOutOfWindow,
                E::CloseWaitInvalidAck,
                None,
            ),
            (S::LastAck, false) if step.to_server() => {
                let next = Some(S::Closed);
                rule(Place::NextOrFin, true, E::LastAckAckWrongSeq, E::LastAckInvalidAck, next)
            }
            (S::TimeWait, false) => {
                let next = Some(S::Closed);
                rule(Place::NextOrFin, false, E::TimeWaitAckWrongSeq, E::TimeWaitInvalidAck, next)
            }
            (S::Closing | S::LastAck | S::TimeWait, _) => None,
            (S::None | S::SynSent | S::SynRecv | S::Established | S::Closed, _) => None,
        }
    }

    fn is_in_place(&mut self, step: &Step<'_>, place: Place) -> bool {
        let seg = step.seg;
        let loose = self.marks.midstream || self.marks.is_async;
        let state = self.state;
        let (own, other) = self.pair(step.dir);
        let right = own.last_ack.wrapping_add(own.window);
        // The server's FIN is counted already.
        let counted = u32::from(state == TcpState::TimeWait && step.dir == Direction::ToClient);
        match place {
            Place::Fin => seq::geq(seg.seq, own.next_seq) && seq::leq(seg.seq, right),
            Place::FinOrBefore => {
                seq::geq(seg.seq, own.next_seq.wrapping_sub(1)) && seq::leq(seg.seq, right)
            }
            Place::BelowEdge => loose || seq::leq(seg.end(), own.next_win),
            Place::BelowEdgeIfAcksFin => {
                loose || seg.ack != other.next_seq || seq::leq(seg.end(), own.next_win)
            }
            Place::NextStrictly => seg.seq == own.next_seq,
            Place::NextOrFin => {
                let next = own.next_seq.wrapping_sub(counted);
                seg.seq == next || seg.seq == next.wrapping_add(1)
            }
            Place::CloseWait => seq::leq(seg.seq, right),
        }
    }

    fn is_old(&mut self, step: &Step<'_>) -> bool {
        let (own, _) = self.pair(step.dir);
        seq::lt(step.seg.seq, own.next_seq)
    }

    /// Whether this is a FIN that was seen already.
    fn is_fin_repeated(&mut self, step: &Step<'_>) -> bool {
        let seg = step.seg;
        let state = self.state;
        let (own, other) = self.pair(step.dir);
        let counted = match state {
            TcpState::FinWait1 => step.dir == Direction::ToClient && seg.has(flags::ACK),
            TcpState::FinWait2 => true,
            TcpState::None
            | TcpState::SynSent
            | TcpState::SynRecv
            | TcpState::Established
            | TcpState::TimeWait
            | TcpState::LastAck
            | TcpState::CloseWait
            | TcpState::Closing
            | TcpState::Closed => false,
        };
        counted
            && seg.has(flags::FIN)
            && seg.seq == own.next_seq.wrapping_sub(1)
            && seg.ack == other.last_ack
    }

    fn next_state(&mut self, step: &Step<'_>, rule: &Rule) -> Option<TcpState> {
        let next = rule.next?;
        if next != TcpState::FinWait2 {
            return Some(next);
        }
        let (own, other) = self.pair(step.dir);
        let moves = match step.dir {
            Direction::ToServer => step.seg.seq == own.next_seq && step.seg.ack == other.next_seq,
            Direction::ToClient => step.seg.seq == own.next_seq.wrapping_sub(1),
        };
        moves.then_some(next)
    }
}

//! The states after the first FIN.
//!
//! The six states differ in what they call a wrong sequence number, which events they note and
//! where they lead; the rest is the same, so each is a row of rules.

use super::segment::{TcpState, flags};
use super::session::{Invalid, Outcome, Step, TcpSession, seq};
use crate::events::StreamEvent as E;
use gabion_record::Direction;

/// How a state judges the place of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Between what is expected next and the window's edge.
    Window,
    /// Before the window's edge (payload rules of data transfer).
    BelowEdge,
    /// Exactly what is expected next.
    Next,
    /// That, or one more (the FIN counts one).
    NextOrFin,
    /// Not acknowledged before, and not beyond the window.
    CloseWait,
}

/// Rules of one kind of packet in one state.
struct Rule {
    place: Place,
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
        if seg.has(flags::SYN) {
            return step.invalid(E::ShutdownSynResend);
        }
        if !seg.has(flags::FIN | flags::ACK) {
            return Ok(());
        }
        let Some(rule) = self.rule(step) else { return Ok(()) };
        if self.marks.timestamps && !self.timestamp_is_valid(step) {
            return Err(Invalid);
        }
        let again = self.is_retransmission(step) || self.is_fin_again(step);
        if !again && !self.is_in_place(step, rule.place) {
            return step.invalid(rule.wrong_place);
        }
        if rule.place == Place::CloseWait {
            let (own, _) = self.pair(step.dir);
            if !seg.is_empty() && seq::leq(seg.end(), own.last_ack) {
                return step.invalid(E::CloseWaitPktBeforeLastAck);
            }
        }
        self.require_ack(step, rule.invalid_ack)?;
        if !again {
            if let Some(next) = self.next_state(step, &rule) {
                self.set_state(step, next);
            }
            let (own, other) = self.pair(step.dir);
            other.window = u32::from(seg.window) << other.wscale;
            if seg.has(flags::FIN) {
                own.note_fin(seg.end());
            }
        }
        let (own, other) = self.pair(step.dir);
        if seg.seq == own.next_seq {
            own.next_seq = seg.end();
        }
        if seg.has(flags::ACK) {
            Self::advance_ack(other, seg.ack);
            if seq::lt(other.next_seq, seg.ack) {
                other.next_seq = seg.ack;
            }
        }
        let edge = other.last_ack.wrapping_add(other.window);
        Self::advance_window(other, edge);
        self.note_timestamp(step);
        self.take_data(step);
        Ok(())
    }

    /// The rule for a FIN or a plain ACK in this state; none where the packet means nothing.
    fn rule(&self, step: &Step<'_>) -> Option<Rule> {
        use TcpState as S;
        let fin = step.seg.has(flags::FIN);
        let both = step.seg.has_all(flags::FIN | flags::ACK);
        let rule = |place, wrong_place, invalid_ack, next| {
            Some(Rule { place, wrong_place, invalid_ack, next })
        };
        match (self.state, fin) {
            (S::FinWait1, true) => {
                let next = if both { S::TimeWait } else { S::Closing };
                rule(Place::Window, E::Fin1FinWrongSeq, E::Fin1InvalidAck, Some(next))
            }
            (S::FinWait1, false) => {
                rule(Place::BelowEdge, E::Fin1AckWrongSeq, E::Fin1InvalidAck, Some(S::FinWait2))
            }
            (S::FinWait2, true) => {
                rule(Place::Window, E::Fin2FinWrongSeq, E::Fin2InvalidAck, Some(S::TimeWait))
            }
            (S::FinWait2, false) => {
                rule(Place::BelowEdge, E::Fin2AckWrongSeq, E::Fin2InvalidAck, None)
            }
            (S::Closing, true) => None,
            (S::Closing, false) => {
                rule(Place::Next, E::ClosingAckWrongSeq, E::ClosingInvalidAck, Some(S::TimeWait))
            }
            (S::CloseWait, true) => {
                let next = (step.dir == Direction::ToClient).then_some(S::LastAck);
                rule(Place::Window, E::CloseWaitFinOutOfWindow, E::CloseWaitInvalidAck, next)
            }
            (S::CloseWait, false) => {
                rule(Place::CloseWait, E::CloseWaitAckOutOfWindow, E::CloseWaitInvalidAck, None)
            }
            (S::LastAck, false) if step.to_server() => {
                rule(Place::NextOrFin, E::LastAckAckWrongSeq, E::LastAckInvalidAck, Some(S::Closed))
            }
            (S::LastAck, _) => None,
            (S::TimeWait, false) => rule(
                Place::NextOrFin,
                E::TimeWaitAckWrongSeq,
                E::TimeWaitInvalidAck,
                Some(S::Closed),
            ),
            (S::TimeWait, true) => None,
            (S::None | S::SynSent | S::SynRecv | S::Established | S::Closed, _) => None,
        }
    }

    fn is_in_place(&mut self, step: &Step<'_>, place: Place) -> bool {
        let seg = step.seg;
        let loose = self.marks.midstream || self.marks.is_async;
        let (own, _) = self.pair(step.dir);
        let edge = own.last_ack.wrapping_add(own.window);
        match place {
            Place::Window => seq::geq(seg.seq, own.next_seq) && seq::leq(seg.end(), edge),
            Place::BelowEdge => loose || seq::leq(seg.end(), own.next_win),
            Place::Next => seg.seq == own.next_seq,
            Place::NextOrFin => seg.seq == own.next_seq || seg.seq == own.next_seq.wrapping_add(1),
            Place::CloseWait => seq::leq(seg.seq, edge),
        }
    }

    /// The FIN that was seen already.
    fn is_fin_again(&mut self, step: &Step<'_>) -> bool {
        let seg = step.seg;
        let state = self.state;
        let (own, other) = self.pair(step.dir);
        state == TcpState::FinWait2
            && seg.has(flags::FIN)
            && seg.seq == own.next_seq.wrapping_sub(1)
            && seg.ack == other.last_ack
    }

    fn next_state(&mut self, step: &Step<'_>, rule: &Rule) -> Option<TcpState> {
        let next = rule.next?;
        if next == TcpState::FinWait2 {
            let (own, _) = self.pair(step.dir);
            return (step.seg.seq == own.next_seq).then_some(next);
        }
        Some(next)
    }
}

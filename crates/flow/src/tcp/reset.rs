//! Resets: whether the receiving host would accept one, and what follows.

use super::segment::{TcpState, flags};
use super::session::{Invalid, Outcome, Step, TcpSession, seq};
use crate::events::StreamEvent;
use crate::policy::OsPolicy;

impl TcpSession {
    /// Whether the receiver's stack would accept this reset.
    fn reset_is_valid(&mut self, step: &mut Step<'_>) -> bool {
        let seg = step.seg;
        if self.marks.timestamps && !self.timestamp_is_valid(step) {
            return false;
        }
        // If data is missing, our numbers cannot be trusted.
        if self.is_liberal() {
            let _: Outcome = self.validate_ack(step);
            return true;
        }
        if !seg.is_empty() {
            step.event(StreamEvent::RstWithData);
        }
        if seg.has(flags::ACK) && seg.ack != 0 && self.validate_ack(step).is_err() {
            step.event(StreamEvent::RstInvalidAck);
            return false;
        }
        let is_async = self.marks.is_async;
        let (own, other) = self.pair(step.dir);
        // Signed packets cannot be checked; if the receiver continues, it did not accept the reset.
        if seg.options.signed {
            other.marks.reset = true;
        }
        if is_async {
            return seq::geq(seg.seq, own.next_seq);
        }
        match own.policy() {
            OsPolicy::Hpux11 => seq::geq(seg.seq, own.next_seq),
            OsPolicy::OldLinux | OsPolicy::Linux | OsPolicy::Solaris | OsPolicy::OldSolaris => {
                seq::geq(seg.end(), own.last_ack)
                    && seq::leq(seg.seq, own.next_seq.wrapping_add(own.window))
            }
            OsPolicy::First
            | OsPolicy::Last
            | OsPolicy::Bsd
            | OsPolicy::BsdRight
            | OsPolicy::Hpux10
            | OsPolicy::Irix
            | OsPolicy::Macos
            | OsPolicy::Windows
            | OsPolicy::Vista
            | OsPolicy::Windows2k3 => seg.seq == own.next_seq,
        }
    }

    pub(crate) fn reset_in_syn_sent(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if !self.reset_is_valid(step) {
            return Err(Invalid);
        }
        let isn = self.streams[0].isn;
        if step.to_server() {
            let takes_back = seg.seq == isn && seg.window == 0 && seg.ack == isn.wrapping_add(1);
            if !takes_back {
                return Ok(());
            }
        }
        let (_, other) = self.pair(step.dir);
        other.marks.reset = true;
        self.set_state(step, TcpState::Closed);
        self.marks.closed_by_reset = true;
        step.verdict.is_reset = true;
        Ok(())
    }

    pub(crate) fn reset_in_syn_recv(&mut self, step: &mut Step<'_>) -> Outcome {
        if !self.reset_is_valid(step) {
            return Err(Invalid);
        }
        let (own, _) = self.pair(step.dir);
        // These stacks treat the reset that follows a wrong handshake ACK as a stray one.
        let stray = matches!(
            own.policy(),
            OsPolicy::Linux | OsPolicy::OldLinux | OsPolicy::Solaris | OsPolicy::OldSolaris
        );
        if !(self.marks.evasion && stray) {
            self.set_state(step, TcpState::Closed);
            self.marks.closed_by_reset = true;
            step.verdict.is_reset = true;
        }
        Ok(())
    }

    /// A reset of an established or closing connection.
    pub(crate) fn reset_connection(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if !self.reset_is_valid(step) {
            return Err(Invalid);
        }
        self.set_state(step, TcpState::Closed);
        self.marks.closed_by_reset = true;
        step.verdict.is_reset = true;
        let (own, other) = self.pair(step.dir);
        if seg.has(flags::ACK) {
            // The stored bytes count as received: nothing more will be acknowledged.
            let most = if seq::gt(other.end_seq(), seg.ack) { other.end_seq() } else { seg.ack };
            other.next_seq = seg.ack;
            Self::advance_ack(other, seg.ack);
            other.keep_acked_before_reset();
            Self::advance_ack(other, most);
        }
        own.next_seq = seg.end();
        let most = if seq::gt(own.end_seq(), seg.seq) { own.end_seq() } else { seg.seq };
        own.keep_acked_before_reset();
        Self::advance_ack(own, most);
        self.note_timestamp(step);
        self.take_data(step);
        Ok(())
    }
}

//! Adds a packet's payload to its stream: depth, urgent data, memory, overlaps.

use super::segment::{TcpState, UrgentPolicy, flags};
use super::session::{Step, TcpSession, seq};
use crate::config::OobLimitPolicy;
use crate::events::StreamEvent;
use crate::policy::ExceptionTrigger;
use crate::stream::Stored;
use gabion_record::DropReason;

impl TcpSession {
    /// Stores the payload of an accepted packet and sets the directions whose application layer is
    /// due.
    #[inline]
    pub(crate) fn take_data(&mut self, step: &mut Step<'_>) {
        step.verdict.update = self.due_directions(step);
        self.note_ends(step);
        // The payload of a reset is a message about it, not part of the stream.
        if !step.seg.is_empty() && !step.seg.has(flags::RST) {
            let seq = step.seg.seq;
            self.add_payload_at(step, seq);
        }
    }

    /// Marks the end of the streams when nothing more will arrive.
    fn note_ends(&mut self, step: &Step<'_>) {
        if self.state >= TcpState::Closing {
            for s in &mut self.streams {
                s.marks.eof_due = true;
            }
        }
        // From the client's FIN on, if it is the first, what both sides have sent is due for inspection with each
        // packet; the server's FIN does not make it so.
        let is_after_fin = matches!(self.state, TcpState::CloseWait | TcpState::LastAck);
        let is_over = self.state == TcpState::Closed || step.seg.has(flags::RST);
        if is_over || is_after_fin {
            for s in &mut self.streams {
                s.trigger_raw();
            }
        }
    }

    /// Stores the packet's payload at sequence number `at`.
    pub(crate) fn add_payload_at(&mut self, step: &mut Step<'_>, at: u32) {
        let seg = step.seg;
        let bypass = step.cfg.bypass;
        let (own, other) = self.pair(step.dir);
        if own.marks.stopped || (own.marks.no_app && own.marks.no_raw) {
            return;
        }
        if own.marks.abandoned {
            // What comes again is of no use to rules that were loaded after it came first.
            if own.is_raw_over() || !seq::leq(own.last_ack, at) {
                return;
            }
            own.resume_at(at, step.budget, step.pool);
        }
        let was_reached = own.marks.depth_reached;
        let len = own.within_depth(at, seg.payload.len());
        if own.marks.depth_reached && !was_reached {
            step.verdict.events.push(StreamEvent::DepthReached);
            step.counters.stream_depth_reached += 1;
            let both = other.marks.depth_reached;
            self.marks.bypass |= bypass && both;
        }
        let Some(mut payload) = seg.payload.get(..len).filter(|p| !p.is_empty()) else { return };
        if seg.has(flags::URG) && seg.urgent_pointer != 0 {
            match self.urgent(step, at, payload) {
                Some(rest) => payload = rest,
                None => return,
            }
        }
        let simulated = step.cfg.simulate_reassembly_memcap_at != 0
            && seg.number == step.cfg.simulate_reassembly_memcap_at;
        let (own, _) = self.pair(step.dir);
        let stored = if simulated {
            Stored::NoMemory
        } else if payload.is_empty() {
            Stored::Kept { overlap: false, differs: false, lost: false }
        } else {
            own.store(at, payload, step.cfg.max_regions, step.budget, step.pool)
        };
        self.note_stored(step, stored, at, payload.len());
    }

    fn note_stored(&mut self, step: &mut Step<'_>, stored: Stored, at: u32, len: usize) {
        let inline = step.cfg.inline;
        match stored {
            Stored::Kept { overlap, differs, lost } => {
                let (own, _) = self.pair(step.dir);
                step.verdict.is_stream_added = true;
                step.verdict.stream_offset = own.offset_of(at).unwrap_or(0);
                step.verdict.stream_len = len as u32;
                step.verdict.must_rewrite = inline && lost;
                step.counters.overlap += u64::from(overlap);
                if differs && step.cfg.compares_overlaps {
                    step.counters.overlap_diff_data += 1;
                    step.event(StreamEvent::OverlapDifferentData);
                }
            }
            Stored::Before => step.event(StreamEvent::SegmentBeforeBaseSeq),
            Stored::NoMemory => {
                step.counters.segment_memcap_drop += 1;
                self.marks.liberal = true;
                step.event(StreamEvent::InsertMemcap);
                step.verdict.exception = Some(ExceptionTrigger::ReassemblyMemcap);
            }
            Stored::TooMany { overlap } => {
                let counters = &mut *step.counters;
                if overlap {
                    counters.insert_data_overlap_fail += 1;
                } else {
                    counters.insert_data_normal_fail += 1;
                }
                self.marks.liberal = true;
                step.event(StreamEvent::InsertLimit);
            }
        }
    }

    /// The part of an urgent segment that belongs to the stream; `None` if none does.
    fn urgent<'p>(&mut self, step: &mut Step<'_>, at: u32, payload: &'p [u8]) -> Option<&'p [u8]> {
        match step.cfg.urgent_policy {
            UrgentPolicy::Inline => return Some(payload),
            UrgentPolicy::Gap => return None,
            UrgentPolicy::Drop => {
                step.verdict.drop = Some(DropReason::StreamUrgent);
                return None;
            }
            UrgentPolicy::Oob => {}
        }
        let (rest, _) = payload.split_at(payload.len() - 1);
        let (own, _) = self.pair(step.dir);
        if own.take_out_urgent(at.wrapping_add(rest.len() as u32)) {
            step.counters.urgent_oob_data += 1;
            return Some(rest);
        }
        step.event(StreamEvent::UrgentOobLimit);
        match step.cfg.oob_limit_policy {
            OobLimitPolicy::Inline => Some(payload),
            OobLimitPolicy::Gap => None,
            OobLimitPolicy::Drop => {
                step.verdict.drop = Some(DropReason::StreamUrgent);
                None
            }
        }
    }
}

//! From the first packet to the established state: three-way and simultaneous opening, TCP Fast
//! Open, one-sided (async) sessions, and sessions picked up in the middle.

use super::segment::{TcpSegment, TcpState, TcpVerdict, Update, flags};
use super::session::{Invalid, Outcome, QueuedSyn, Step, TcpSession, seq};
use crate::config::StreamConfig;
use crate::events::StreamEvent;
use crate::limits::WSCALE_MAX;
use crate::policy::ExceptionTrigger;
use crate::stream::Stream;

const SYN_ACK: u8 = flags::SYN | flags::ACK;

/// Whether a packet without a session creates one. If not, sets the reason in the verdict.
pub(crate) fn opens_session(
    seg: &TcpSegment<'_>,
    cfg: &StreamConfig,
    verdict: &mut TcpVerdict,
) -> bool {
    if seg.has(flags::RST) {
        verdict.event(StreamEvent::RstButNoSession);
        verdict.is_invalid = true;
        return false;
    }
    if seg.has(flags::FIN) {
        verdict.exception = Some(ExceptionTrigger::Midstream);
        if !cfg.midstream || seg.is_empty() {
            verdict.event(StreamEvent::FinButNoSession);
            verdict.is_invalid = true;
            return false;
        }
        return true;
    }
    if seg.has_all(SYN_ACK) {
        verdict.exception = Some(ExceptionTrigger::Midstream);
        return cfg.midstream || cfg.async_oneside;
    }
    if seg.has(flags::SYN) {
        return true;
    }
    if seg.has(flags::ACK) {
        verdict.exception = Some(ExceptionTrigger::Midstream);
        return cfg.midstream;
    }
    false
}

/// The effective window scale.
fn scale(wscale: Option<u8>) -> u8 {
    wscale.unwrap_or(0).min(WSCALE_MAX)
}

/// Stores the timestamp of a SYN or SYN/ACK. Returns true if it has one.
fn take_timestamp(stream: &mut Stream, ts_val: Option<u32>, pkt_s: u32) -> bool {
    let Some(ts) = ts_val else { return false };
    stream.clock.ts = ts;
    stream.marks.zero_timestamp = ts == 0;
    stream.clock.pkt_s = pkt_s;
    stream.marks.timestamps = true;
    true
}

impl TcpSession {
    /// The first packet of a session; `opens_session` has let it through.
    pub(crate) fn open(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if seg.has(flags::RST) {
            return Err(Invalid);
        }
        if seg.has_all(SYN_ACK) && !seg.has(flags::FIN) {
            self.open_midstream_synack(step);
        } else if seg.has(flags::SYN) && !seg.has(flags::FIN) {
            self.open_by_syn(step);
        } else if seg.has(flags::ACK | flags::FIN) {
            self.open_midstream(step);
        }
        Ok(())
    }

    fn open_by_syn(&mut self, step: &mut Step<'_>) {
        let seg = step.seg;
        self.set_state(step, TcpState::SynSent);
        self.marks.is_async = step.cfg.async_oneside;
        let wscale_offered = seg.options.wscale.is_some();
        let (own, other) = self.pair(step.dir);
        own.isn = seg.seq;
        own.next_seq = seg.seq.wrapping_add(1);
        own.start_at(own.next_seq);
        take_timestamp(own, seg.options.ts_val, seg.seconds());
        other.window = u32::from(seg.window);
        other.wscale = scale(seg.options.wscale);
        self.marks.wscale_offered = wscale_offered;
        self.marks.sack_offered = seg.options.sack_ok;
        if seg.options.fast_open {
            self.marks.fast_open = true;
            if !seg.is_empty() {
                let (own, _) = self.pair(step.dir);
                own.next_seq = own.next_seq.wrapping_add(seg.len());
                let first = own.isn.wrapping_add(1);
                self.add_payload_at(step, first);
                if step.cfg.inline {
                    step.verdict.update = Update::Packet;
                }
            }
        }
    }

    fn open_midstream_synack(&mut self, step: &mut Step<'_>) {
        let seg = step.seg;
        step.counters.midstream_pickups += 1;
        self.set_state(step, TcpState::SynRecv);
        self.marks.midstream = true;
        self.marks.midstream_synack = true;
        self.marks.is_async = step.cfg.async_oneside;
        // The flow took the sender for the client; it is the server.
        step.verdict.must_swap = step.to_server();
        let (server, client) = self.pair(step.dir);
        server.isn = seg.seq;
        server.next_seq = seg.seq.wrapping_add(1);
        server.start_at(server.next_seq);
        server.last_ack = server.isn;
        client.isn = seg.ack.wrapping_sub(1);
        client.next_seq = seg.ack;
        client.start_at(client.next_seq);
        client.last_ack = seg.ack;
        client.window = u32::from(seg.window);
        server.window = client.window;
        if seg.options.wscale.is_some() {
            client.wscale = scale(seg.options.wscale);
            server.wscale = WSCALE_MAX;
        }
        // The client's window is not known yet: nothing fits into it.
        client.next_win = client.last_ack.wrapping_sub(1);
        server.next_win = server.last_ack.wrapping_add(server.window);
        if take_timestamp(server, seg.options.ts_val, seg.seconds()) {
            client.clock.ts = seg.options.ts_ecr;
            client.marks.timestamps = true;
            self.marks.timestamps = true;
        }
        self.marks.sack = seg.options.sack_ok;
    }

    fn open_midstream(&mut self, step: &mut Step<'_>) {
        let seg = step.seg;
        step.counters.midstream_pickups += 1;
        let state = if seg.has(flags::FIN) { TcpState::FinWait1 } else { TcpState::Established };
        self.set_state(step, state);
        self.marks.midstream = true;
        self.marks.midstream_established = true;
        self.marks.is_async = step.cfg.async_oneside;
        let (own, other) = self.pair(step.dir);
        // Scaling is not known: assume the most, so that nothing valid is refused.
        own.wscale = WSCALE_MAX;
        other.wscale = WSCALE_MAX;
        own.isn = seg.seq.wrapping_sub(1);
        own.start_at(seg.seq);
        own.next_seq = seg.end().wrapping_add(u32::from(seg.has(flags::FIN)));
        own.window = u32::from(seg.window) << own.wscale;
        own.last_ack = seg.seq;
        own.next_win = own.last_ack.wrapping_add(own.window);
        other.isn = seg.ack.wrapping_sub(1);
        other.start_at(seg.ack);
        other.next_seq = seg.ack;
        other.last_ack = seg.ack;
        other.next_win = seg.ack;
        if take_timestamp(own, seg.options.ts_val, seg.seconds()) {
            // It echoes the last timestamp of the other side.
            other.clock.ts = seg.options.ts_ecr;
            other.clock.pkt_s = seg.seconds();
            self.marks.timestamps = true;
        }
        self.marks.sack = true;
        self.take_data(step);
    }

    pub(crate) fn in_syn_sent(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if !step.to_server() && !seg.has_all(SYN_ACK) && !self.echo_is_valid(step) {
            return step.invalid(StreamEvent::PktInvalidTimestamp);
        }
        if seg.has(flags::RST) {
            return self.reset_in_syn_sent(step);
        }
        if seg.has_all(SYN_ACK) {
            if self.marks.four_way && step.to_server() {
                return self.four_way_synack(step);
            }
            if step.to_server() {
                return step.invalid(StreamEvent::HsSynAckInWrongDir);
            }
            return self.synack(step);
        }
        if seg.has(flags::SYN) {
            return self.second_syn(step);
        }
        if seg.has(flags::ACK) && !seg.has(flags::FIN) && step.cfg.async_oneside {
            return self.async_ack(step);
        }
        Ok(())
    }

    /// Before its SYN/ACK a server can only echo the SYN's timestamp.
    fn echo_is_valid(&self, step: &Step<'_>) -> bool {
        let options = &step.seg.options;
        let client = &self.streams[0];
        if options.ts_val.is_none() || options.ts_ecr == 0 {
            return true;
        }
        if client.marks.timestamps {
            client.clock.ts == 0 || options.ts_ecr == client.clock.ts
        } else {
            false
        }
    }

    /// Handles the SYN/ACK that answers the SYN (or one of the SYNs).
    fn synack(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        let client = &mut self.streams[0];
        let after_syn = client.isn.wrapping_add(1);
        if seg.ack == client.next_seq {
            // The usual case: it answers the last SYN.
        } else if seg.ack == after_syn {
            // Fast Open: the server accepted only the SYN, not its data.
            self.marks.fast_open_data_ignored = true;
            client.next_seq = after_syn;
            step.event(StreamEvent::HsTfoDataIgnored);
        } else {
            // It answers an earlier SYN: found by number and, with timestamps, by the echoed one.
            let echoed = seg.options.ts_val.map(|_| seg.options.ts_ecr);
            let answers = |q: &&QueuedSyn| {
                q.seq.wrapping_add(1) == seg.ack && (echoed.is_none() || echoed == q.ts_val)
            };
            let Some(q) = self.queue.iter().find(answers).copied() else {
                return step.invalid(StreamEvent::HsSynAckWrongAck);
            };
            self.take_syn(&q);
        }
        self.queue.clear();
        self.synack_accepted(step, &QueuedSyn::from_segment(seg));
        Ok(())
    }

    /// Makes another SYN the one that the session follows.
    fn take_syn(&mut self, q: &QueuedSyn) {
        let [client, server] = &mut self.streams;
        client.isn = q.seq;
        client.next_seq = q.seq.wrapping_add(1);
        client.start_at(client.next_seq);
        client.marks.timestamps = false;
        client.clock.ts = 0;
        take_timestamp(client, q.ts_val, q.pkt_s);
        server.window = u32::from(q.window);
        server.wscale = scale(q.wscale);
        self.marks.wscale_offered = q.wscale.is_some();
        self.marks.sack_offered = q.sack_ok;
    }

    /// Sets both sides from a SYN/ACK and changes to SYN_RECV.
    fn synack_accepted(&mut self, step: &mut Step<'_>, q: &QueuedSyn) {
        if self.state != TcpState::SynRecv {
            self.set_state(step, TcpState::SynRecv);
        }
        let wscale_offered = self.marks.wscale_offered;
        let [client, server] = &mut self.streams;
        server.isn = q.seq;
        server.next_seq = q.seq.wrapping_add(1);
        server.start_at(server.next_seq);
        client.window = u32::from(q.window);
        server.marks.timestamps = false;
        self.marks.timestamps = if q.ts_val.is_some() && client.marks.timestamps {
            take_timestamp(server, q.ts_val, q.pkt_s)
        } else {
            client.clock.ts = 0;
            server.clock.ts = 0;
            client.marks.zero_timestamp = false;
            server.marks.zero_timestamp = false;
            false
        };
        client.last_ack = q.ack;
        server.last_ack = server.isn.wrapping_add(1);
        // Windows of the client are scaled by the option of its SYN, if the server scales too.
        if wscale_offered && q.wscale.is_some() {
            client.wscale = scale(q.wscale);
        } else {
            client.wscale = 0;
            server.wscale = 0;
        }
        self.marks.sack = self.marks.sack_offered && q.sack_ok;
        client.next_win = client.last_ack.wrapping_add(client.window);
        server.next_win = server.last_ack.wrapping_add(server.window);
        self.marks.four_way = false;
    }

    /// Handles a SYN while the first is unanswered: from the other side it is a simultaneous open,
    /// from the same side perhaps another connection attempt.
    fn second_syn(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if step.to_server() {
            // The session follows the last SYN; earlier ones are kept, as the server may answer
            // any.
            let client = &self.streams[0];
            let last = QueuedSyn {
                seq: client.isn,
                ack: 0,
                window: self.streams[1].window.min(u32::from(u16::MAX)) as u16,
                ts_val: client.marks.timestamps.then_some(client.clock.ts),
                pkt_s: client.clock.pkt_s,
                wscale: self.marks.wscale_offered.then_some(self.streams[1].wscale),
                sack_ok: self.marks.sack_offered,
            };
            let full = self.queue.len() >= usize::from(step.cfg.max_syn_queued);
            if full && !self.queue.is_empty() {
                self.queue.remove(0);
            }
            self.queue.push(last);
            self.take_syn(&QueuedSyn::from_segment(seg));
            if full {
                // An event, but not a reason to drop the packet.
                step.event(StreamEvent::HsSynFlood);
            }
            return Ok(());
        }
        self.marks.four_way = true;
        let [client, server] = &mut self.streams;
        server.isn = seg.seq;
        server.next_seq = seg.seq.wrapping_add(1);
        server.start_at(server.next_seq);
        if !take_timestamp(server, seg.options.ts_val, seg.seconds()) {
            server.marks.timestamps = false;
        }
        // Suricata opens no window for the client here; its data before the end of the handshake is
        // out of window.
        server.window = u32::from(seg.window);
        client.wscale = scale(seg.options.wscale);
        self.marks.wscale_offered &= seg.options.wscale.is_some();
        self.marks.sack_offered &= seg.options.sack_ok;
        Ok(())
    }

    /// Simultaneous open: the client's SYN/ACK for the server's SYN.
    fn four_way_synack(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        let [client, server] = &mut self.streams;
        if seg.ack != server.isn.wrapping_add(1) {
            return step.invalid(StreamEvent::SimSynAckWrongAck);
        }
        if seg.seq != client.isn {
            return step.invalid(StreamEvent::SimSynAckWrongSyn);
        }
        client.isn = seg.seq;
        client.next_seq = seg.seq.wrapping_add(1);
        server.window = u32::from(seg.window);
        self.marks.timestamps = if seg.options.ts_val.is_some() && server.marks.timestamps {
            take_timestamp(client, seg.options.ts_val, seg.seconds())
        } else {
            false
        };
        server.last_ack = seg.ack;
        client.last_ack = client.isn.wrapping_add(1);
        if self.marks.wscale_offered && seg.options.wscale.is_some() {
            server.wscale = scale(seg.options.wscale);
        } else {
            client.wscale = 0;
            server.wscale = 0;
        }
        self.marks.sack = self.marks.sack_offered && seg.options.sack_ok;
        client.next_win = client.last_ack.wrapping_add(client.window);
        server.next_win = server.last_ack.wrapping_add(server.window);
        self.set_state(step, TcpState::SynRecv);
        Ok(())
    }

    /// One-sided: the client continues although no answer to its SYN was seen.
    fn async_ack(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        let (own, other) = self.pair(step.dir);
        if seg.seq != own.next_seq {
            return step.invalid(StreamEvent::HsAsyncWrongSeq);
        }
        own.window = u32::from(seg.window);
        own.last_ack = seg.seq;
        own.next_win = own.last_ack.wrapping_add(own.window);
        other.isn = seg.ack.wrapping_sub(1);
        other.next_seq = seg.ack;
        other.start_at(seg.ack);
        other.last_ack = seg.ack;
        other.next_win = seg.ack;
        let timestamps = own.marks.timestamps && seg.options.ts_val.is_some();
        if timestamps {
            take_timestamp(own, seg.options.ts_val, seg.seconds());
        }
        self.marks.timestamps = timestamps;
        if self.marks.wscale_offered {
            let (own, _) = self.pair(step.dir);
            own.wscale = WSCALE_MAX;
        }
        self.marks.is_async = true;
        self.marks.sack = self.marks.sack_offered;
        self.set_state(step, TcpState::Established);
        self.take_data(step);
        Ok(())
    }

    pub(crate) fn in_syn_recv(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if seg.has(flags::RST) {
            return self.reset_in_syn_recv(step);
        }
        if seg.has(flags::FIN) {
            return self.fin(step);
        }
        if seg.has_all(SYN_ACK) {
            return self.second_synack(step);
        }
        if seg.has(flags::SYN) {
            if !step.to_server() {
                return step.invalid(StreamEvent::HsSynToClient);
            }
            if seg.seq != self.streams[0].isn {
                return step.invalid(StreamEvent::HsSynResendDiffSeq);
            }
            return Ok(());
        }
        if seg.has(flags::ACK) {
            return self.handshake_ack(step);
        }
        Ok(())
    }

    fn second_synack(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if step.to_server() {
            return step.invalid(StreamEvent::HsSynAckToServer);
        }
        let [client, server] = &self.streams;
        if seg.ack != client.last_ack {
            return step.invalid(StreamEvent::HsSynAckResendDiffAck);
        }
        if seg.seq == server.isn {
            return Ok(());
        }
        let q = QueuedSyn::from_segment(seg);
        if self.queue.contains(&q) {
            return Ok(());
        }
        // One entry is for the SYN/ACK that the session follows, which is kept too.
        if self.queue.len() > usize::from(step.cfg.max_synack_queued) {
            return step.invalid(StreamEvent::HsSynAckFlood);
        }
        if self.queue.is_empty() {
            let kept = QueuedSyn {
                seq: server.isn,
                ack: client.last_ack,
                window: client.window.min(u32::from(u16::MAX)) as u16,
                ts_val: server.marks.timestamps.then_some(server.clock.ts),
                pkt_s: server.clock.pkt_s,
                wscale: (client.wscale != 0).then_some(client.wscale),
                sack_ok: self.marks.sack,
            };
            self.queue.push(kept);
        }
        self.queue.push(q);
        Ok(())
    }

    /// Handles the ACK that completes the handshake, or the packet that arrives instead of it.
    fn handshake_ack(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if !self.queue.is_empty() {
            let answered = self
                .queue
                .iter()
                .find(|q| step.to_server() && q.seq.wrapping_add(1) == seg.ack)
                .copied();
            if let Some(q) = answered.filter(|q| q.seq != self.streams[1].isn) {
                self.synack_accepted(step, &q);
            }
            self.queue.clear();
        }
        if self.marks.timestamps && !self.timestamp_is_valid(step) {
            return Err(Invalid);
        }
        if self.marks.four_way && !step.to_server() {
            return self.four_way_ack(step);
        }
        let to_client = !step.to_server();
        if to_client && step.cfg.inline && !self.marks.midstream_synack && !self.marks.fast_open {
            // If no packets are missing, the client's ACK comes first; this one may be injected.
            let [client, server] = &self.streams;
            let fits = seg.ack == client.last_ack && seg.seq == server.next_seq;
            return step.invalid(if fits && !seg.is_empty() {
                StreamEvent::HsAckDataInject
            } else {
                StreamEvent::HsAckInWrongDir
            });
        }
        self.judge_handshake_ack(step)
    }

    /// Decides how this packet completes the handshake, if it does. Like Suricata it compares with
    /// the client's numbers, whichever side sent the packet.
    fn judge_handshake_ack(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        let to_client = !step.to_server();
        let [client, server] = &self.streams;
        if seg.seq == client.next_seq && seg.ack == server.next_seq {
            return self.handshake_done(step);
        }
        if step.cfg.async_oneside && seg.seq == server.next_seq {
            return self.handshake_done_one_sided(step);
        }
        if seg.seq == client.next_seq {
            self.marks.evasion = true;
            return step.invalid(StreamEvent::HsRightSeqWrongAck);
        }
        // The server continues and acknowledges data that was not seen: packets are missing.
        let server_continues = to_client
            && !step.cfg.inline
            && seq::gt(seg.seq, client.next_seq)
            && seq::gt(seg.ack, client.last_ack);
        // The handshake's ACK is missing; this is a later packet of the client.
        let client_continues = seq::gt(seg.seq, client.next_seq)
            && seq::leq(seg.seq, client.next_win)
            && seg.ack == server.next_seq;
        // The server speaks first, and the client's ACK is missing.
        let server_first = (to_client && !self.marks.midstream_synack || self.marks.fast_open)
            && seg.ack == client.last_ack
            && seg.seq == server.next_seq;
        if server_continues || client_continues {
            return self.handshake_done_loosely(step);
        }
        if server_first {
            return self.handshake_done_by_server(step);
        }
        step.invalid(StreamEvent::HsWrongSeqWrongAck)
    }

    fn four_way_ack(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        if seg.seq != self.streams[1].next_seq {
            return step.invalid(StreamEvent::SimWrongSeq);
        }
        self.require_ack(step, StreamEvent::SimInvalidAck)?;
        let client = &mut self.streams[0];
        client.window = u32::from(seg.window) << client.wscale;
        client.next_win = client.last_ack.wrapping_add(client.window);
        self.note_timestamp(step);
        self.set_state(step, TcpState::Established);
        self.take_data(step);
        Ok(())
    }

    fn handshake_done(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        let midstream = self.marks.midstream;
        let (own, other) = self.pair(step.dir);
        other.window = u32::from(seg.window) << other.wscale;
        own.next_seq = seg.end();
        other.next_win = other.last_ack.wrapping_add(other.window);
        if midstream {
            // The SYN was not seen: take its side's window from here and assume the largest scale.
            own.window = u32::from(seg.window) << own.wscale;
            own.next_win = own.last_ack.wrapping_add(own.window);
            own.wscale = WSCALE_MAX;
            other.wscale = WSCALE_MAX;
            self.marks.sack = true;
        }
        self.note_timestamp(step);
        self.marks.handshake_confirmed |= !step.to_server();
        self.set_state(step, TcpState::Established);
        self.take_data(step);
        Ok(())
    }

    /// The handshake's last packet was not seen, or only one side is visible: uses this packet's
    /// numbers.
    fn handshake_done_loosely(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        let (own, other) = self.pair(step.dir);
        other.window = u32::from(seg.window) << other.wscale;
        own.next_seq = seg.end();
        Self::advance_ack(other, seg.ack);
        other.next_win = other.last_ack.wrapping_add(other.window);
        self.note_timestamp(step);
        self.set_state(step, TcpState::Established);
        self.take_data(step);
        Ok(())
    }

    /// The server sends before the client's ACK was seen. Like Suricata this applies its window to
    /// its own stream.
    fn handshake_done_by_server(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        let (own, _) = self.pair(step.dir);
        own.next_seq = seg.end();
        own.window = u32::from(seg.window) << own.wscale;
        own.next_win = own.last_ack.wrapping_add(own.window);
        self.note_timestamp(step);
        self.set_state(step, TcpState::Established);
        self.take_data(step);
        Ok(())
    }

    /// Only one side is seen: its own packets count as acknowledged.
    fn handshake_done_one_sided(&mut self, step: &mut Step<'_>) -> Outcome {
        let seg = step.seg;
        self.marks.is_async = true;
        let (own, other) = self.pair(step.dir);
        own.next_seq = own.next_seq.wrapping_add(seg.len());
        own.last_ack = seg.seq;
        other.window = u32::from(seg.window) << other.wscale;
        other.last_ack = seg.ack;
        self.note_timestamp(step);
        self.set_state(step, TcpState::Established);
        self.take_data(step);
        Ok(())
    }

    /// The directions that are due for packets after the FIN and repeated ones: see `Update`.
    pub(crate) fn due_directions(&self, step: &Step<'_>) -> Update {
        if step.cfg.inline {
            return Update::Packet;
        }
        if step.seg.has(flags::RST) {
            return Update::Packet;
        }
        if step.seg.has(flags::FIN) && self.state > TcpState::TimeWait {
            return if step.seg.has(flags::ACK) { Update::Both } else { Update::Packet };
        }
        if self.state == TcpState::Closed {
            Update::Both
        } else if self.marks.is_async {
            // With only one side visible no acknowledgments are seen.
            Update::Packet
        } else {
            Update::Opposing
        }
    }
}

//! Stream events: the named irregularities of TCP that rules and anomaly records refer to. One
//! table drives the enum, the names and the lookup.

macro_rules! events {
    ($($variant:ident = $name:literal, $doc:literal;)*) => {
        /// An irregularity of a TCP packet or stream.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum StreamEvent { $(#[doc = $doc] $variant,)* }

        impl StreamEvent {
            /// All events, in id order.
            pub const ALL: &'static [StreamEvent] = &[$(StreamEvent::$variant,)*];

            /// The name after `stream-event:` in a rule and after `stream.` in records.
            pub const fn name(self) -> &'static str {
                match self { $(StreamEvent::$variant => $name,)* }
            }

            /// A one-line description of the irregularity.
            pub const fn description(self) -> &'static str {
                match self { $(StreamEvent::$variant => $doc,)* }
            }
        }
    };
}

events! {
    HsAckInWrongDir = "3whs_ack_in_wrong_dir", "The handshake's last ACK came from the server.";
    HsAsyncWrongSeq = "3whs_async_wrong_seq", "One-sided handshake: the ACK does not follow the SYN.";
    HsRightSeqWrongAck = "3whs_right_seq_wrong_ack_evasion", "The handshake's ACK does not acknowledge the SYN/ACK.";
    HsSynAckInWrongDir = "3whs_synack_in_wrong_direction", "SYN/ACK from the side that sent the SYN.";
    HsSynAckResendDiffAck = "3whs_synack_resend_with_diff_ack", "Second SYN/ACK with another acknowledgment.";
    HsSynAckResendDiffSeq = "3whs_synack_resend_with_diff_seq", "Second SYN/ACK with another sequence number.";
    HsSynAckToServer = "3whs_synack_toserver_on_syn_recv", "SYN/ACK from the client after the server's.";
    HsSynAckWrongAck = "3whs_synack_with_wrong_ack", "SYN/ACK that does not acknowledge the SYN.";
    HsSynAckFlood = "3whs_synack_flood", "More different SYN/ACKs than are kept.";
    HsSynResendDiffSeq = "3whs_syn_resend_diff_seq_on_syn_recv", "SYN with another sequence number after the SYN/ACK.";
    HsSynToClient = "3whs_syn_toclient_on_syn_recv", "SYN from the server after its SYN/ACK.";
    HsWrongSeqWrongAck = "3whs_wrong_seq_wrong_ack", "The handshake's ACK fits neither side.";
    HsAckDataInject = "3whs_ack_data_inject", "Inline: data from the server before the handshake's last ACK.";
    HsSynFlood = "3whs_syn_flood", "More different SYNs than are kept.";
    HsTfoDataIgnored = "3whs_synack_tfo_data_ignored", "The server did not accept the data in the SYN.";
    SimSynAckWrongAck = "4whs_synack_with_wrong_ack", "Simultaneous open: SYN/ACK does not acknowledge the other SYN.";
    SimSynAckWrongSyn = "4whs_synack_with_wrong_syn", "Simultaneous open: SYN/ACK with another sequence number than its SYN.";
    SimWrongSeq = "4whs_wrong_seq", "Simultaneous open: wrong sequence number.";
    SimInvalidAck = "4whs_invalid_ack", "Simultaneous open: invalid acknowledgment.";
    CloseWaitAckOutOfWindow = "closewait_ack_out_of_window", "CLOSE_WAIT: ACK out of window.";
    CloseWaitFinOutOfWindow = "closewait_fin_out_of_window", "CLOSE_WAIT: FIN out of window.";
    CloseWaitPktBeforeLastAck = "closewait_pkt_before_last_ack", "CLOSE_WAIT: data that was acknowledged before.";
    CloseWaitInvalidAck = "closewait_invalid_ack", "CLOSE_WAIT: invalid acknowledgment.";
    ClosingAckWrongSeq = "closing_ack_wrong_seq", "CLOSING: wrong sequence number.";
    ClosingInvalidAck = "closing_invalid_ack", "CLOSING: invalid acknowledgment.";
    EstPacketOutOfWindow = "est_packet_out_of_window", "ESTABLISHED: packet out of window.";
    EstPktBeforeLastAck = "est_pkt_before_last_ack", "ESTABLISHED: data that was acknowledged before.";
    EstSynAckResend = "est_synack_resend", "ESTABLISHED: the SYN/ACK again.";
    EstSynAckResendDiffAck = "est_synack_resend_with_diff_ack", "ESTABLISHED: SYN/ACK with another acknowledgment.";
    EstSynAckResendDiffSeq = "est_synack_resend_with_diff_seq", "ESTABLISHED: SYN/ACK with another sequence number.";
    EstSynAckToServer = "est_synack_toserver", "ESTABLISHED: SYN/ACK from the client.";
    EstSynResend = "est_syn_resend", "ESTABLISHED: the SYN again.";
    EstSynResendDiffSeq = "est_syn_resend_diff_seq", "ESTABLISHED: SYN with another sequence number.";
    EstSynToClient = "est_syn_toclient", "ESTABLISHED: SYN from the server.";
    EstInvalidAck = "est_invalid_ack", "ESTABLISHED: invalid acknowledgment.";
    EstAckZwpData = "est_ack_zwp_data", "ESTABLISHED: a zero window probe's byte was acknowledged.";
    FinInvalidAck = "fin_invalid_ack", "FIN with an invalid acknowledgment.";
    Fin1AckWrongSeq = "fin1_ack_wrong_seq", "FIN_WAIT_1: ACK with a wrong sequence number.";
    Fin1FinWrongSeq = "fin1_fin_wrong_seq", "FIN_WAIT_1: FIN with a wrong sequence number.";
    Fin1InvalidAck = "fin1_invalid_ack", "FIN_WAIT_1: invalid acknowledgment.";
    Fin2AckWrongSeq = "fin2_ack_wrong_seq", "FIN_WAIT_2: ACK with a wrong sequence number.";
    Fin2FinWrongSeq = "fin2_fin_wrong_seq", "FIN_WAIT_2: FIN with a wrong sequence number.";
    Fin2InvalidAck = "fin2_invalid_ack", "FIN_WAIT_2: invalid acknowledgment.";
    FinButNoSession = "fin_but_no_session", "FIN without a session.";
    FinOutOfWindow = "fin_out_of_window", "FIN out of window.";
    FinSyn = "fin_syn", "FIN and SYN together.";
    LastAckAckWrongSeq = "lastack_ack_wrong_seq", "LAST_ACK: ACK with a wrong sequence number.";
    LastAckInvalidAck = "lastack_invalid_ack", "LAST_ACK: invalid acknowledgment.";
    RstButNoSession = "rst_but_no_session", "RST without a session.";
    TimeWaitAckWrongSeq = "timewait_ack_wrong_seq", "TIME_WAIT: ACK with a wrong sequence number.";
    TimeWaitInvalidAck = "timewait_invalid_ack", "TIME_WAIT: invalid acknowledgment.";
    ShutdownSynResend = "shutdown_syn_resend", "SYN while the connection ends.";
    PktInvalidTimestamp = "pkt_invalid_timestamp", "The timestamp option is older than one seen before.";
    PktInvalidAck = "pkt_invalid_ack", "Acknowledges what was never in the window.";
    PktBrokenAck = "pkt_broken_ack", "Acknowledgment number without the ACK flag.";
    RstWithData = "rst_with_data", "RST with a payload.";
    RstInvalidAck = "rst_invalid_ack", "RST with an invalid acknowledgment.";
    PktRetransmission = "pkt_retransmission", "Data that was seen before.";
    PktSpuriousRetransmission = "pkt_spurious_retransmission", "Data that was acknowledged before.";
    PktBadWindowUpdate = "pkt_bad_window_update", "The window shrinks more than data explains.";
    SegmentBeforeBaseSeq = "reassembly_segment_before_base_seq", "Data before what is still kept.";
    NoSegment = "reassembly_no_segment", "A segment could not be kept.";
    SeqGap = "reassembly_seq_gap", "Data that never came.";
    OverlapDifferentData = "reassembly_overlap_different_data", "Data that was seen before with other bytes.";
    DepthReached = "reassembly_depth_reached", "The stream is longer than the reassembly depth.";
    InsertMemcap = "reassembly_insert_memcap", "No memory left for a segment.";
    InsertLimit = "reassembly_insert_limit", "Too many segments kept for a stream.";
    InsertInvalid = "reassembly_insert_invalid", "A segment that cannot be placed.";
    UrgentOobLimit = "reassembly_urgent_oob_limit_reached", "More urgent bytes than can be removed from the stream.";
    SuspectedRstInject = "suspected_rst_inject", "The sender of a RST continues to send.";
    WrongThread = "wrong_thread", "The flow belongs to another worker.";
}

/// Names that Suricata's own event rules use, besides those that its records have (Suricata 8.0.7).
const RULE_NAMES: [(&str, StreamEvent); 2] = [
    ("3whs_synack_resend_with_different_ack", StreamEvent::HsSynAckResendDiffAck),
    ("est_synack_resend_with_different_ack", StreamEvent::EstSynAckResendDiffAck),
];

impl StreamEvent {
    /// The event of a name, without `stream.` before it. Two events have another name in rules, too.
    pub fn from_name(name: &str) -> Option<StreamEvent> {
        let is = |known: &str| known.eq_ignore_ascii_case(name);
        let named = StreamEvent::ALL.iter().copied().find(|e| is(e.name()));
        named.or_else(|| RULE_NAMES.iter().find(|(known, _)| is(known)).map(|(_, event)| *event))
    }

    /// The event's number: its index in [`StreamEvent::ALL`].
    pub const fn id(self) -> u8 {
        self as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_round_trip() {
        for (n, event) in StreamEvent::ALL.iter().enumerate() {
            assert_eq!(usize::from(event.id()), n);
            assert_eq!(StreamEvent::from_name(event.name()), Some(*event));
        }
        for (name, event) in RULE_NAMES {
            assert_eq!(StreamEvent::from_name(name), Some(event));
        }
    }
}

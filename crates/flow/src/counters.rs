//! Counters with the names of Suricata's `stats` record. Each is a plain field of the worker's own
//! struct; `each` lists them with their dotted names for the `stats` output.

macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: u64,)* }

        impl $name {
            /// Calls `f` with each counter's name in the `stats` record and its value.
            pub fn each(&self, f: &mut dyn FnMut(&'static str, u64)) {
                $(f($text, self.$field);)*
            }

            /// Adds another worker's counters.
            pub fn merge(&mut self, other: &$name) {
                $(self.$field = self.$field.wrapping_add(other.$field);)*
            }
        }
    };
}

counters! {
    /// Counters of the flow table.
    FlowCounters {
        /// Flows currently in the table.
        active = "flow.active",
        /// Flows created.
        total = "flow.total",
        /// TCP flows created.
        tcp = "flow.tcp",
        /// UDP flows created.
        udp = "flow.udp",
        /// ICMPv4 flows created.
        icmpv4 = "flow.icmpv4",
        /// ICMPv6 flows created.
        icmpv6 = "flow.icmpv6",
        /// Flows ended because a new connection reused their key.
        tcp_reuse = "flow.tcp_reuse",
        /// Packets for which no flow could be created.
        memcap = "flow.memcap",
        /// Bytes reserved.
        memuse = "flow.memuse",
        /// Flows evicted to free space.
        get_used = "flow.get_used",
        /// Flows examined for eviction.
        get_used_eval = "flow.get_used_eval",
        /// How often emergency mode began.
        emerg_mode_entered = "flow.emerg_mode_entered",
        /// How often emergency mode ended.
        emerg_mode_over = "flow.emerg_mode_over",
        /// Flows whose timeout was checked.
        mgr_flows_checked = "flow.mgr.flows_checked",
        /// Checked flows that were not due.
        mgr_flows_notimeout = "flow.mgr.flows_notimeout",
        /// Checked flows that were due.
        mgr_flows_timeout = "flow.mgr.flows_timeout",
        /// Flows that ended by timeout.
        mgr_flows_evicted = "flow.mgr.flows_evicted",
        /// Flows that ended while new.
        end_new = "flow.end.state.new",
        /// Flows that ended while established.
        end_established = "flow.end.state.established",
        /// Flows that ended closed.
        end_closed = "flow.end.state.closed",
        /// Flows that ended bypassed.
        end_bypassed = "flow.end.state.local_bypassed",
        /// Sessions by their last state.
        end_tcp_none = "flow.end.tcp_state.none",
        /// Sessions in SYN_SENT.
        end_tcp_syn_sent = "flow.end.tcp_state.syn_sent",
        /// Sessions in SYN_RECV.
        end_tcp_syn_recv = "flow.end.tcp_state.syn_recv",
        /// Sessions in ESTABLISHED.
        end_tcp_established = "flow.end.tcp_state.established",
        /// Sessions in FIN_WAIT_1.
        end_tcp_fin_wait1 = "flow.end.tcp_state.fin_wait1",
        /// Sessions in FIN_WAIT_2.
        end_tcp_fin_wait2 = "flow.end.tcp_state.fin_wait2",
        /// Sessions in TIME_WAIT.
        end_tcp_time_wait = "flow.end.tcp_state.time_wait",
        /// Sessions in LAST_ACK.
        end_tcp_last_ack = "flow.end.tcp_state.last_ack",
        /// Sessions in CLOSE_WAIT.
        end_tcp_close_wait = "flow.end.tcp_state.close_wait",
        /// Sessions in CLOSING.
        end_tcp_closing = "flow.end.tcp_state.closing",
        /// Sessions in CLOSED.
        end_tcp_closed = "flow.end.tcp_state.closed",
        /// Sessions that lost data to a limit and were followed loosely from then on.
        end_tcp_liberal = "flow.end.tcp_liberal",
    }
}

counters! {
    /// Counters of the TCP tracker.
    TcpCounters {
        /// SYN packets.
        syn = "tcp.syn",
        /// SYN/ACK packets.
        synack = "tcp.synack",
        /// RST packets.
        rst = "tcp.rst",
        /// Packets with the urgent flag.
        urg = "tcp.urg",
        /// Sessions created.
        sessions = "tcp.sessions",
        /// Current sessions.
        active_sessions = "tcp.active_sessions",
        /// Sessions that could not be created.
        ssn_memcap_drop = "tcp.ssn_memcap_drop",
        /// Sessions taken from the free list.
        ssn_from_cache = "tcp.ssn_from_cache",
        /// Sessions allocated.
        ssn_from_pool = "tcp.ssn_from_pool",
        /// Inspections of remaining data at the end of flows.
        pseudo = "tcp.pseudo",
        /// Packets ignored because of a wrong checksum.
        invalid_checksum = "tcp.invalid_checksum",
        /// Sessions picked up in the middle.
        midstream_pickups = "tcp.midstream_pickups",
        /// Segments not kept.
        segment_memcap_drop = "tcp.segment_memcap_drop",
        /// Directions that reached the depth.
        stream_depth_reached = "tcp.stream_depth_reached",
        /// Gaps.
        reassembly_gap = "tcp.reassembly_gap",
        /// Segments that overlapped others.
        overlap = "tcp.overlap",
        /// Segments that overlapped others with different bytes.
        overlap_diff_data = "tcp.overlap_diff_data",
        /// Segments refused because too many are kept already.
        insert_data_normal_fail = "tcp.insert_data_normal_fail",
        /// Overlapping segments refused because too many are kept already.
        insert_data_overlap_fail = "tcp.insert_data_overlap_fail",
        /// ACKs for data that was not seen.
        ack_unseen_data = "tcp.ack_unseen_data",
        /// Urgent bytes removed from streams.
        urgent_oob_data = "tcp.urgent_oob_data",
        /// Bytes reserved for sessions.
        memuse = "tcp.memuse",
        /// Bytes reserved for stream data.
        reassembly_memuse = "tcp.reassembly_memuse",
    }
}

counters! {
    /// Counters of the defragmenter.
    DefragCounters {
        /// IPv4 fragments.
        ipv4_fragments = "defrag.ipv4.fragments",
        /// Reassembled IPv4 datagrams.
        ipv4_reassembled = "defrag.ipv4.reassembled",
        /// IPv4 datagrams that timed out.
        ipv4_timeouts = "defrag.ipv4.timeouts",
        /// IPv6 fragments.
        ipv6_fragments = "defrag.ipv6.fragments",
        /// Reassembled IPv6 datagrams.
        ipv6_reassembled = "defrag.ipv6.reassembled",
        /// IPv6 datagrams that timed out.
        ipv6_timeouts = "defrag.ipv6.timeouts",
        /// Fragments refused by `max-frags`.
        max_frags_reached = "defrag.max_frags_reached",
        /// Datagrams refused by `trackers`.
        max_trackers_reached = "defrag.max_trackers_reached",
        /// Incomplete datagrams evicted for a new one.
        tracker_hard_reuse = "defrag.tracker_hard_reuse",
        /// Finished trackers that were reused.
        tracker_soft_reuse = "defrag.tracker_soft_reuse",
        /// Trackers found timed out when a packet arrived.
        wrk_tracker_timeout = "defrag.wrk.tracker_timeout",
        /// Bytes reserved.
        memuse = "defrag.memuse",
    }
}

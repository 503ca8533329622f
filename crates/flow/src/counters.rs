//! Counters under the names of the peer's `stats` record. Each is a plain field of the worker's
//! own struct; `each` lists them with their dotted names for whoever writes them down.

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
    /// The flow table's.
    FlowCounters {
        /// Flows in the table now.
        active = "flow.active",
        /// Flows made.
        total = "flow.total",
        /// TCP flows made.
        tcp = "flow.tcp",
        /// UDP flows made.
        udp = "flow.udp",
        /// ICMPv4 flows made.
        icmpv4 = "flow.icmpv4",
        /// ICMPv6 flows made.
        icmpv6 = "flow.icmpv6",
        /// Flows ended because a new connection took their key.
        tcp_reuse = "flow.tcp_reuse",
        /// Packets for which no flow could be made.
        memcap = "flow.memcap",
        /// Bytes reserved.
        memuse = "flow.memuse",
        /// Flows given up to make room.
        get_used = "flow.get_used",
        /// Flows looked at for that.
        get_used_eval = "flow.get_used_eval",
        /// Times emergency mode began.
        emerg_mode_entered = "flow.emerg_mode_entered",
        /// Times emergency mode ended.
        emerg_mode_over = "flow.emerg_mode_over",
        /// Flows whose timeout was looked at.
        mgr_flows_checked = "flow.mgr.flows_checked",
        /// Of those, not due.
        mgr_flows_notimeout = "flow.mgr.flows_notimeout",
        /// Of those, due.
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
        /// In SYN_SENT.
        end_tcp_syn_sent = "flow.end.tcp_state.syn_sent",
        /// In SYN_RECV.
        end_tcp_syn_recv = "flow.end.tcp_state.syn_recv",
        /// In ESTABLISHED.
        end_tcp_established = "flow.end.tcp_state.established",
        /// In FIN_WAIT_1.
        end_tcp_fin_wait1 = "flow.end.tcp_state.fin_wait1",
        /// In FIN_WAIT_2.
        end_tcp_fin_wait2 = "flow.end.tcp_state.fin_wait2",
        /// In TIME_WAIT.
        end_tcp_time_wait = "flow.end.tcp_state.time_wait",
        /// In LAST_ACK.
        end_tcp_last_ack = "flow.end.tcp_state.last_ack",
        /// In CLOSE_WAIT.
        end_tcp_close_wait = "flow.end.tcp_state.close_wait",
        /// In CLOSING.
        end_tcp_closing = "flow.end.tcp_state.closing",
        /// In CLOSED.
        end_tcp_closed = "flow.end.tcp_state.closed",
        /// Sessions that lost data to a limit and were followed loosely from then on.
        end_tcp_liberal = "flow.end.tcp_liberal",
    }
}

counters! {
    /// The TCP tracker's.
    TcpCounters {
        /// SYN packets.
        syn = "tcp.syn",
        /// SYN/ACK packets.
        synack = "tcp.synack",
        /// RST packets.
        rst = "tcp.rst",
        /// Packets with the urgent flag.
        urg = "tcp.urg",
        /// Sessions made.
        sessions = "tcp.sessions",
        /// Sessions now.
        active_sessions = "tcp.active_sessions",
        /// Sessions that could not be made.
        ssn_memcap_drop = "tcp.ssn_memcap_drop",
        /// Sessions taken from the free list.
        ssn_from_cache = "tcp.ssn_from_cache",
        /// Sessions allocated.
        ssn_from_pool = "tcp.ssn_from_pool",
        /// End-of-flow rounds with data left to inspect.
        pseudo = "tcp.pseudo",
        /// Packets not tracked for their checksum.
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
        /// Of those, with other bytes.
        overlap_diff_data = "tcp.overlap_diff_data",
        /// Segments refused because too many pieces are kept.
        insert_data_normal_fail = "tcp.insert_data_normal_fail",
        /// The same for segments that overlap.
        insert_data_overlap_fail = "tcp.insert_data_overlap_fail",
        /// ACKs for data that was not seen.
        ack_unseen_data = "tcp.ack_unseen_data",
        /// Bytes taken out of streams as urgent.
        urgent_oob_data = "tcp.urgent_oob_data",
        /// Bytes reserved for sessions.
        memuse = "tcp.memuse",
        /// Bytes reserved for stream data.
        reassembly_memuse = "tcp.reassembly_memuse",
    }
}

counters! {
    /// The defragmenter's.
    DefragCounters {
        /// IPv4 fragments.
        ipv4_fragments = "defrag.ipv4.fragments",
        /// IPv4 datagrams put together.
        ipv4_reassembled = "defrag.ipv4.reassembled",
        /// IPv4 datagrams given up by time.
        ipv4_timeouts = "defrag.ipv4.timeouts",
        /// IPv6 fragments.
        ipv6_fragments = "defrag.ipv6.fragments",
        /// IPv6 datagrams put together.
        ipv6_reassembled = "defrag.ipv6.reassembled",
        /// IPv6 datagrams given up by time.
        ipv6_timeouts = "defrag.ipv6.timeouts",
        /// Fragments refused by `max-frags`.
        max_frags_reached = "defrag.max_frags_reached",
        /// Datagrams refused by `trackers`.
        max_trackers_reached = "defrag.max_trackers_reached",
        /// Incomplete datagrams given up for a new one.
        tracker_hard_reuse = "defrag.tracker_hard_reuse",
        /// Finished trackers used again.
        tracker_soft_reuse = "defrag.tracker_soft_reuse",
        /// Trackers that timed out when a packet came by.
        wrk_tracker_timeout = "defrag.wrk.tracker_timeout",
        /// Bytes reserved.
        memuse = "defrag.memuse",
    }
}

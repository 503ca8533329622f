//! Why packets are dropped, or would be inline.

macro_rules! drop_reasons {
    ($($variant:ident = $name:literal, $by:ident $counter:literal, $doc:literal;)+) => {
        /// Why a packet is dropped. The names are Suricata's.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum DropReason {
            $(#[doc = $doc] $variant,)+
        }

        impl DropReason {
            /// All, in the order of their counters in Suricata's statistics.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)+];

            /// Its name in EVE.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)+ }
            }

            /// Its counter below `ips.drop_reason` or, if it is the firewall's, below `firewall.drop_reason`.
            pub const fn counter(self) -> &'static str {
                match self { $(DropReason::$variant => $counter,)+ }
            }

            const fn by(self) -> By {
                match self { $(DropReason::$variant => By::$by,)+ }
            }
        }
    };
}

/// The part of the engine that drops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Ips,
    Firewall,
}

drop_reasons! {
    DefragMemcap = "defrag memcap", Ips "defrag_memcap", "Fragments take all of their memory.";
    FlowMemcap = "flow memcap", Ips "flow_memcap", "Flows take all of their memory.";
    FlowDrop = "flow drop", Ips "flow_drop", "The packet is of a flow that a rule dropped.";
    AppLayerError = "applayer error", Ips "applayer_error", "A parser of the application layer failed.";
    Rules = "rules", Ips "rules", "A rule dropped the packet.";
    DetectionFilter = "threshold detection_filter", Ips "threshold_detection_filter", "A threshold changed a rule's action.";
    StreamError = "stream error", Ips "stream_error", "The packet breaks the rules of TCP.";
    StreamMemcap = "stream memcap", Ips "stream_memcap", "TCP sessions take all of their memory.";
    StreamMidstream = "stream midstream", Ips "stream_midstream", "The begin of the TCP session was not seen.";
    StreamUrgent = "stream urgent", Ips "stream_urgent", "The packet has urgent data.";
    StreamReassembly = "stream reassembly", Ips "stream_reassembly", "Segments take all of their memory.";
    PolicyFlowDrop = "exception policy flow drop", Ips "exception_policy_flow_drop", "The packet is of a flow that an exception policy dropped.";
    FirewallRules = "firewall rules", Firewall "rules", "A rule of the firewall dropped the packet.";
    FirewallPacketPolicy = "firewall default packet policy", Firewall "default_packet_policy", "No rule of the firewall accepted the packet.";
    FirewallAppPolicy = "firewall default app policy", Firewall "default_app_policy", "No rule of the firewall accepted the transaction.";
    FirewallPreStream = "firewall pre stream hook", Firewall "pre_stream_hook", "The firewall dropped the packet before its stream.";
    FirewallPreFlow = "firewall pre flow hook", Firewall "pre_flow_hook", "The firewall dropped the packet before its flow.";
    FirewallFlowDrop = "firewall flow drop", Firewall "flow_drop", "The packet is of a flow that the firewall dropped.";
}

impl DropReason {
    /// Whether the firewall drops for this reason.
    pub const fn is_of_firewall(self) -> bool {
        matches!(self.by(), By::Firewall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_the_names_in_other_letters() {
        for reason in DropReason::ALL {
            let name = if reason.is_of_firewall() {
                reason.name().strip_prefix("firewall ").unwrap()
            } else {
                reason.name()
            };
            assert_eq!(name.replace(' ', "_"), reason.counter());
        }
    }
}

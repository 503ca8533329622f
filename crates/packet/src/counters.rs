//! Statistics of the decoders: one table of counters with Suricata's names, one of events.
//!
//! A worker owns its [`DecodeCounters`]; a reader adds them up with [`DecodeCounters::merge`].

use crate::event::EventList;
use gabion_record::DecoderEvent;

macro_rules! counters {
    ($($variant:ident = $name:literal;)+) => {
        /// A counter below `decoder.` in statistics.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the names in the table are the documentation")]
        pub enum Counter { $($variant,)+ }

        impl Counter {
            /// Every counter, in Suricata's order.
            pub const ALL: &'static [Counter] = &[$(Counter::$variant,)+];

            /// The name below `decoder.`.
            pub const fn name(self) -> &'static str {
                match self { $(Counter::$variant => $name,)+ }
            }
        }
    };
}

counters! {
    Packets = "pkts";
    Bytes = "bytes";
    Invalid = "invalid";
    Ipv4 = "ipv4";
    Ipv6 = "ipv6";
    Ethernet = "ethernet";
    Arp = "arp";
    UnknownEthertype = "unknown_ethertype";
    CiscoHdlc = "chdlc";
    Raw = "raw";
    Null = "null";
    Sll = "sll";
    Sll2 = "sll2";
    Tcp = "tcp";
    Udp = "udp";
    Sctp = "sctp";
    Esp = "esp";
    Icmpv4 = "icmpv4";
    Icmpv6 = "icmpv6";
    Ppp = "ppp";
    Pppoe = "pppoe";
    Geneve = "geneve";
    Gre = "gre";
    Vlan = "vlan";
    VlanQinQ = "vlan_qinq";
    VlanQinQinQ = "vlan_qinqinq";
    Vxlan = "vxlan";
    Vntag = "vntag";
    Ieee8021ah = "ieee8021ah";
    Teredo = "teredo";
    Ipv4InIpv4 = "ipv4_in_ipv4";
    Ipv6InIpv4 = "ipv6_in_ipv4";
    Ipv4InIpv6 = "ipv4_in_ipv6";
    Ipv6InIpv6 = "ipv6_in_ipv6";
    Mpls = "mpls";
    AvgPacketSize = "avg_pkt_size";
    MaxPacketSize = "max_pkt_size";
    MaxMacAddrsSrc = "max_mac_addrs_src";
    MaxMacAddrsDst = "max_mac_addrs_dst";
    Erspan = "erspan";
    Nsh = "nsh";
}

impl Counter {
    /// How many counters there are.
    pub const COUNT: usize = Self::ALL.len();
}

/// The counters of one worker.
#[derive(Clone, Debug)]
pub struct DecodeCounters {
    values: [u64; Counter::COUNT],
    events: [u64; DecoderEvent::COUNT],
    events_lost: u64,
}

impl DecodeCounters {
    /// All at zero.
    pub const fn new() -> DecodeCounters {
        DecodeCounters {
            values: [0; Counter::COUNT],
            events: [0; DecoderEvent::COUNT],
            events_lost: 0,
        }
    }

    /// Adds one.
    #[inline]
    pub fn count(&mut self, counter: Counter) {
        self.values[counter as usize] += 1;
    }

    /// Counts one frame of `len` bytes.
    #[inline]
    pub fn count_frame(&mut self, len: u64) {
        self.values[Counter::Packets as usize] += 1;
        self.values[Counter::Bytes as usize] += len;
        let max = &mut self.values[Counter::MaxPacketSize as usize];
        *max = (*max).max(len);
    }

    /// Counts the events of a packet: once for each packet that is processed (root, inner and
    /// reassembled ones), after reassembly has added its own. Suricata leaves out those of packets
    /// that a firewall hook before the flow has dropped.
    #[inline]
    pub fn count_events(&mut self, events: &EventList) {
        if events.is_empty() {
            return;
        }
        for event in events.as_slice() {
            self.events[event.index()] += 1;
        }
        self.events_lost += u64::from(events.lost());
    }

    /// Raises a maximum (of MAC addresses, which the flow side learns).
    pub fn raise(&mut self, counter: Counter, value: u64) {
        let max = &mut self.values[counter as usize];
        *max = (*max).max(value);
    }

    /// One counter; the average is computed.
    pub fn get(&self, counter: Counter) -> u64 {
        if counter == Counter::AvgPacketSize {
            let packets = self.values[Counter::Packets as usize];
            return self.values[Counter::Bytes as usize].checked_div(packets).unwrap_or(0);
        }
        self.values[counter as usize]
    }

    /// How often an event was raised.
    pub fn event(&self, event: DecoderEvent) -> u64 {
        self.events[event.index()]
    }

    /// Events that were not kept because their packet's list was full.
    pub fn events_lost(&self) -> u64 {
        self.events_lost
    }

    /// Adds another worker's counters; maxima stay maxima.
    pub fn merge(&mut self, other: &DecodeCounters) {
        for counter in Counter::ALL {
            let (mine, theirs) =
                (&mut self.values[*counter as usize], other.values[*counter as usize]);
            let is_maximum = matches!(
                counter,
                Counter::MaxPacketSize | Counter::MaxMacAddrsSrc | Counter::MaxMacAddrsDst
            );
            *mine = if is_maximum { (*mine).max(theirs) } else { *mine + theirs };
        }
        for (mine, theirs) in self.events.iter_mut().zip(other.events) {
            *mine += theirs;
        }
        self.events_lost += other.events_lost;
    }
}

impl Default for DecodeCounters {
    fn default() -> DecodeCounters {
        DecodeCounters::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn average_and_maximum_follow_the_frames() {
        let mut one = DecodeCounters::new();
        one.count_frame(60);
        one.count_frame(100);
        let mut two = DecodeCounters::new();
        two.count_frame(1500);
        let mut events = EventList::new();
        events.push(DecoderEvent::TooManyLayers);
        two.count_events(&events);
        one.merge(&two);
        assert_eq!(one.get(Counter::Packets), 3);
        assert_eq!(one.get(Counter::AvgPacketSize), 553);
        assert_eq!(one.get(Counter::MaxPacketSize), 1500);
        assert_eq!(one.event(DecoderEvent::TooManyLayers), 1);
        assert_eq!(DecodeCounters::new().get(Counter::AvgPacketSize), 0);
    }
}

//! Configuration of this crate, read from the resolved tree. The keys are Suricata's, and the
//! defaults are the built-in values of Suricata 8.0, not those of the YAML file it ships.

use crate::error::{Result, refused};
use crate::policy::{ExceptionPolicy, HostOsPolicy};
use crate::tcp::UrgentPolicy;
use gabion_record::{Addr, Tree};

/// Timeouts in seconds of one protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Seen in one direction only, or handshake not complete.
    pub new: u32,
    /// Seen in both directions, or handshake complete.
    pub established: u32,
    /// After the end of a TCP connection.
    pub closed: u32,
    /// Bypassed.
    pub bypassed: u32,
}

/// `flow.*`, `flow-timeouts.*`, `vlan.use-for-tracking`, `livedev.use-for-tracking`.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowConfig {
    /// Bytes all flows of one table may take; the engine divides it between workers.
    pub memcap: u64,
    /// What to do with a packet for which no flow can be made.
    pub memcap_policy: ExceptionPolicy,
    /// Percent of the budget that must be free for emergency mode to end.
    pub emergency_recovery: u8,
    /// Flows to allocate space for at start (per table).
    pub prealloc: usize,
    /// Whether VLAN ids are part of the key.
    pub vlan_tracking: bool,
    /// Packets of different encapsulation depth are different flows.
    pub recursion_tracking: bool,
    /// Packets of different interfaces are different flows.
    pub device_tracking: bool,
    /// `flow-timeouts.default`: other IP protocols.
    pub other: Timeouts,
    /// `flow-timeouts.tcp`.
    pub tcp: Timeouts,
    /// `flow-timeouts.udp`.
    pub udp: Timeouts,
    /// `flow-timeouts.icmp`.
    pub icmp: Timeouts,
    /// The four timeouts of emergency mode: other, tcp, udp, icmp.
    pub emergency: [Timeouts; 4],
    /// Packet number for which a new flow is refused (simulation); 0 = none.
    pub simulate_memcap_at: u64,
}

impl Default for FlowConfig {
    fn default() -> FlowConfig {
        let t =
            |new, established, closed, bypassed| Timeouts { new, established, closed, bypassed };
        FlowConfig {
            memcap: 128 << 20,
            memcap_policy: ExceptionPolicy::Auto,
            emergency_recovery: 30,
            prealloc: 10_000,
            vlan_tracking: true,
            recursion_tracking: true,
            device_tracking: true,
            other: t(30, 300, 0, 100),
            tcp: t(30, 300, 10, 100),
            udp: t(30, 300, 0, 100),
            icmp: t(30, 300, 0, 100),
            emergency: [t(10, 100, 0, 50), t(10, 100, 5, 50), t(10, 100, 0, 50), t(10, 100, 0, 50)],
            simulate_memcap_at: 0,
        }
    }
}

impl FlowConfig {
    /// Reads the tree; an absent key keeps its default.
    ///
    /// # Errors
    /// The key whose value cannot be used.
    pub fn from_tree(tree: &Tree) -> Result<FlowConfig> {
        let mut c = FlowConfig::default();
        let get = Reader(tree);
        get.size("flow.memcap", &mut c.memcap)?;
        c.memcap_policy = get.exception("flow.memcap-policy")?;
        let mut recovery = u64::from(c.emergency_recovery);
        get.number("flow.emergency-recovery", &mut recovery)?;
        // It is a percentage; the default holds for others.
        if let (1..=100, Ok(recovery)) = (recovery, u8::try_from(recovery)) {
            c.emergency_recovery = recovery;
        }
        get.number("flow.prealloc", &mut c.prealloc)?;
        get.flag("vlan.use-for-tracking", &mut c.vlan_tracking)?;
        get.flag("decoder.recursion-level.use-for-tracking", &mut c.recursion_tracking)?;
        get.flag("livedev.use-for-tracking", &mut c.device_tracking)?;
        let protos = [
            ("default", &mut c.other),
            ("tcp", &mut c.tcp),
            ("udp", &mut c.udp),
            ("icmp", &mut c.icmp),
        ];
        for ((name, timeouts), emergency) in protos.into_iter().zip(c.emergency.iter_mut()) {
            for (prefix, t) in [("", timeouts), ("emergency-", emergency)] {
                for (state, seconds) in [
                    ("new", &mut t.new),
                    ("established", &mut t.established),
                    ("closed", &mut t.closed),
                    ("bypassed", &mut t.bypassed),
                ] {
                    get.number(&format!("flow-timeouts.{name}.{prefix}{state}"), seconds)?;
                }
            }
        }
        Ok(c)
    }
}

/// What to do with out-of-band bytes beyond the limit a stream can track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OobLimitPolicy {
    /// Drop the packet.
    #[default]
    Drop,
    /// Leave the byte in the stream.
    Inline,
    /// Leave a gap.
    Gap,
}

/// `stream.*`.
#[derive(Clone, Debug)]
pub struct StreamConfig {
    /// Bytes the sessions of one tracker may take.
    pub memcap: u64,
    /// What to do when no session can be made.
    pub memcap_policy: ExceptionPolicy,
    /// Bytes that the stored stream data of one tracker may take.
    pub reassembly_memcap: u64,
    /// What to do when a segment cannot be kept.
    pub reassembly_memcap_policy: ExceptionPolicy,
    /// Whether connections whose start was not seen are picked up.
    pub midstream: bool,
    /// What to do with packets of such connections.
    pub midstream_policy: ExceptionPolicy,
    /// Whether connections are followed of which only one direction is seen.
    pub async_oneside: bool,
    /// Packets can be dropped and rewritten: data counts at once, first data wins.
    pub inline: bool,
    /// Inline: packets that break the rules of TCP are dropped.
    pub drop_invalid: bool,
    /// Whether segments with a wrong checksum are ignored.
    pub checksum_validation: bool,
    /// Whether tracking stops (bypass) when both directions are past the depth.
    pub bypass: bool,
    /// Timestamps may be off by one for every host, not for Linux only.
    pub liberal_timestamps: bool,
    /// Different SYNs kept for a connection that is opening.
    pub max_syn_queued: u8,
    /// Different SYN/ACKs kept for a connection that is opening.
    pub max_synack_queued: u8,
    /// Bytes of one direction that are reassembled; 0 = all.
    pub depth: u32,
    /// Acknowledged bytes to the server that trigger raw inspection.
    pub toserver_chunk: u32,
    /// Acknowledged bytes to the client that trigger raw inspection.
    pub toclient_chunk: u32,
    /// Whether payload rules inspect reassembled data at all (`stream.reassembly.raw`).
    pub raw: bool,
    /// Data that comes again with other bytes is an event.
    pub compares_overlaps: bool,
    /// Number of regions of data far apart that one direction may keep.
    pub max_regions: u8,
    /// How urgent data is handled.
    pub urgent_policy: UrgentPolicy,
    /// What happens to urgent data beyond what can be tracked.
    pub oob_limit_policy: OobLimitPolicy,
    /// TCP/IP stacks of the monitored hosts.
    pub hosts: HostOsPolicy,
    /// Packet number for which a new session is refused (simulation); 0 = none.
    pub simulate_ssn_memcap_at: u64,
    /// Packet number whose segment is refused (simulation); 0 = none.
    pub simulate_reassembly_memcap_at: u64,
}

impl Default for StreamConfig {
    fn default() -> StreamConfig {
        StreamConfig {
            memcap: 64 << 20,
            memcap_policy: ExceptionPolicy::Auto,
            reassembly_memcap: 256 << 20,
            reassembly_memcap_policy: ExceptionPolicy::Auto,
            midstream: false,
            midstream_policy: ExceptionPolicy::Auto,
            async_oneside: false,
            inline: false,
            drop_invalid: true,
            checksum_validation: true,
            bypass: false,
            liberal_timestamps: true,
            max_syn_queued: 10,
            max_synack_queued: 5,
            depth: 1 << 20,
            toserver_chunk: 2_560,
            toclient_chunk: 2_560,
            raw: true,
            compares_overlaps: true,
            max_regions: 8,
            urgent_policy: UrgentPolicy::Oob,
            oob_limit_policy: OobLimitPolicy::Drop,
            hosts: HostOsPolicy::new(),
            simulate_ssn_memcap_at: 0,
            simulate_reassembly_memcap_at: 0,
        }
    }
}

impl StreamConfig {
    /// Reads the tree; an absent key keeps its default. `ips` is whether packets can be dropped,
    /// which `stream.inline: auto` depends on.
    ///
    /// `randomize-chunk-size` is read and has no effect: chunk sizes are exact, so that equal input
    /// gives equal findings.
    ///
    /// # Errors
    /// The key whose value cannot be used.
    pub fn from_tree(tree: &Tree, ips: bool) -> Result<StreamConfig> {
        let get = Reader(tree);
        let mut c = StreamConfig { inline: ips, ..StreamConfig::default() };
        get.size("stream.memcap", &mut c.memcap)?;
        c.memcap_policy = get.exception("stream.memcap-policy")?;
        get.size("stream.reassembly.memcap", &mut c.reassembly_memcap)?;
        c.reassembly_memcap_policy = get.exception("stream.reassembly.memcap-policy")?;
        get.flag("stream.midstream", &mut c.midstream)?;
        c.midstream_policy = get.exception("stream.midstream-policy")?;
        get.flag("stream.async-oneside", &mut c.async_oneside)?;
        match get.text("stream.inline") {
            None | Some("auto") => {}
            Some(_) => get.flag("stream.inline", &mut c.inline)?,
        }
        get.flag("stream.drop-invalid", &mut c.drop_invalid)?;
        get.flag("stream.checksum-validation", &mut c.checksum_validation)?;
        get.flag("stream.bypass", &mut c.bypass)?;
        get.flag("stream.liberal-timestamps", &mut c.liberal_timestamps)?;
        get.number("stream.max-syn-queued", &mut c.max_syn_queued)?;
        get.number("stream.max-synack-queued", &mut c.max_synack_queued)?;
        get.size32("stream.reassembly.depth", &mut c.depth)?;
        get.size32("stream.reassembly.toserver-chunk-size", &mut c.toserver_chunk)?;
        get.size32("stream.reassembly.toclient-chunk-size", &mut c.toclient_chunk)?;
        get.flag("stream.reassembly.raw", &mut c.raw)?;
        get.number("stream.reassembly.max-regions", &mut c.max_regions)?;
        c.urgent_policy = match get.text("stream.reassembly.urgent.policy") {
            None | Some("oob") => UrgentPolicy::Oob,
            Some("inline") => UrgentPolicy::Inline,
            Some("drop") => UrgentPolicy::Drop,
            Some("gap") => UrgentPolicy::Gap,
            Some(other) => return Err(refused("stream.reassembly.urgent.policy", other)),
        };
        c.oob_limit_policy = match get.text("stream.reassembly.urgent.oob-limit-policy") {
            None | Some("drop") => OobLimitPolicy::Drop,
            Some("inline") => OobLimitPolicy::Inline,
            Some("gap") => OobLimitPolicy::Gap,
            Some(other) => {
                return Err(refused("stream.reassembly.urgent.oob-limit-policy", other));
            }
        };
        c.hosts = HostOsPolicy::from_tree(tree.get("host-os-policy"))?;
        Ok(c)
    }
}

/// `defrag.*`.
#[derive(Clone, Debug)]
pub struct DefragConfig {
    /// Whether fragments are reassembled at all.
    pub enabled: bool,
    /// Bytes that kept fragments may take.
    pub memcap: u64,
    /// What to do when a fragment cannot be kept.
    pub memcap_policy: ExceptionPolicy,
    /// Incomplete datagrams kept at once.
    pub trackers: usize,
    /// Fragments kept at once.
    pub max_frags: usize,
    /// Seconds after which an incomplete datagram times out.
    pub timeout: u32,
    /// `defrag.host-config`: networks with a timeout of their own; the first match wins.
    pub host_timeouts: Vec<(Addr, u8, u8, u32)>,
    /// TCP/IP stacks of the monitored hosts.
    pub hosts: HostOsPolicy,
    /// Packet number whose fragment is refused (simulation); 0 = none.
    pub simulate_memcap_at: u64,
}

impl Default for DefragConfig {
    fn default() -> DefragConfig {
        DefragConfig {
            enabled: true,
            memcap: 32 << 20,
            memcap_policy: ExceptionPolicy::Auto,
            trackers: 65_535,
            max_frags: 65_535,
            timeout: 60,
            host_timeouts: Vec::new(),
            hosts: HostOsPolicy::new(),
            simulate_memcap_at: 0,
        }
    }
}

impl DefragConfig {
    /// Reads the tree; an absent key keeps its default.
    ///
    /// # Errors
    /// The key whose value cannot be used.
    pub fn from_tree(tree: &Tree) -> Result<DefragConfig> {
        let get = Reader(tree);
        let mut c = DefragConfig::default();
        get.flag("defrag.enabled", &mut c.enabled)?;
        get.size("defrag.memcap", &mut c.memcap)?;
        c.memcap_policy = get.exception("defrag.memcap-policy")?;
        get.number("defrag.trackers", &mut c.trackers)?;
        get.number("defrag.max-frags", &mut c.max_frags)?;
        get.number("defrag.timeout", &mut c.timeout)?;
        if c.timeout == 0 {
            return Err(refused("defrag.timeout", "0"));
        }
        c.hosts = HostOsPolicy::from_tree(tree.get("host-os-policy"))?;
        if let Some(list) = tree.get("defrag.host-config") {
            c.read_host_timeouts(list)?;
        }
        Ok(c)
    }

    /// `host-config: - name: timeout: 30, address: [10.0.0.0/8]`.
    fn read_host_timeouts(&mut self, list: &Tree) -> Result<()> {
        const KEY: &str = "defrag.host-config";
        let entries = list.children.iter().flat_map(|(_, item)| &item.children);
        for (_, entry) in entries {
            let Some(seconds) = entry.number("timeout") else { continue };
            let seconds = u32::try_from(seconds).map_err(|e| refused(KEY, &e.to_string()))?;
            for (_, address) in entry.get("address").map(|t| &t.children[..]).unwrap_or_default() {
                let text = address.value.as_deref().unwrap_or_default();
                let (ip, bits) = text.split_once('/').unwrap_or((text, ""));
                let ip: std::net::IpAddr = ip.parse().map_err(|_| refused(KEY, text))?;
                let most = if ip.is_ipv4() { 32 } else { 128 };
                let bits = if bits.is_empty() { Ok(most) } else { bits.parse() };
                let bits = bits.ok().filter(|b| *b <= most).ok_or_else(|| refused(KEY, text))?;
                let version = if ip.is_ipv4() { 4 } else { 6 };
                self.host_timeouts.push((Addr::from_ip(ip), version, bits, seconds));
            }
        }
        Ok(())
    }
}

/// Reads single values, naming the key when one cannot be used.
struct Reader<'a>(&'a Tree);

impl Reader<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.text(key).map(str::trim)
    }

    fn size(&self, key: &str, to: &mut u64) -> Result<()> {
        if let Some(text) = self.text(key) {
            *to = gabion_record::config::parse_size(text).ok_or_else(|| refused(key, text))?;
        }
        Ok(())
    }

    fn size32(&self, key: &str, to: &mut u32) -> Result<()> {
        let mut wide = u64::from(*to);
        self.size(key, &mut wide)?;
        *to = u32::try_from(wide).map_err(|_| refused(key, "more than 4 GiB"))?;
        Ok(())
    }

    fn number<T: TryFrom<u64>>(&self, key: &str, to: &mut T) -> Result<()> {
        if let Some(text) = self.text(key) {
            *to = self
                .0
                .number(key)
                .and_then(|n| T::try_from(n).ok())
                .ok_or_else(|| refused(key, text))?;
        }
        Ok(())
    }

    fn flag(&self, key: &str, to: &mut bool) -> Result<()> {
        if let Some(text) = self.text(key) {
            *to = self.0.flag(key).ok_or_else(|| refused(key, text))?;
        }
        Ok(())
    }

    /// The policy at `key`, else the master switch `exception-policy`, else auto.
    fn exception(&self, key: &str) -> Result<ExceptionPolicy> {
        for key in [key, "exception-policy"] {
            if let Some(text) = self.text(key) {
                return ExceptionPolicy::from_name(text).ok_or_else(|| refused(key, text));
            }
        }
        Ok(ExceptionPolicy::Auto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Suricata 8.0.7: "flow.emergency-recovery must be in the range of 1 and 100 (as percentage)", and it continues.
    #[test]
    fn a_recovery_that_is_no_percentage_is_the_default() {
        for (value, recovery) in [("0", 30), ("1", 1), ("100", 100), ("101", 30), ("300", 30)] {
            let mut t = Tree::default();
            t.set("flow.emergency-recovery", value);
            assert_eq!(FlowConfig::from_tree(&t).unwrap().emergency_recovery, recovery, "{value}");
        }
    }

    #[test]
    fn the_keys_of_suricata_are_read() {
        let mut t = Tree::default();
        for (key, value) in [
            ("flow.memcap", "1mb"),
            ("flow-timeouts.tcp.emergency-closed", "7"),
            ("stream.midstream", "true"),
            ("stream.midstream-policy", "pass-flow"),
            ("stream.inline", "auto"),
            ("stream.reassembly.depth", "64kb"),
            ("stream.reassembly.urgent.policy", "gap"),
            ("exception-policy", "ignore"),
            ("defrag.timeout", "5"),
            ("host-os-policy.linux.0", "0.0.0.0/0"),
        ] {
            t.set(key, value);
        }
        let flow = FlowConfig::from_tree(&t).unwrap();
        assert_eq!((flow.memcap, flow.emergency[1].closed), (1 << 20, 7));
        assert_eq!(flow.memcap_policy, ExceptionPolicy::Ignore);
        let stream = StreamConfig::from_tree(&t, true).unwrap();
        assert!(stream.midstream && stream.inline);
        assert_eq!(stream.midstream_policy, ExceptionPolicy::PassFlow);
        assert_eq!((stream.depth, stream.urgent_policy), (65_536, UrgentPolicy::Gap));
        assert_eq!(DefragConfig::from_tree(&t).unwrap().timeout, 5);
    }

    #[test]
    fn a_bad_value_names_its_key() {
        for (key, value) in [
            ("stream.midstream-policy", "maybe"),
            ("stream.reassembly.urgent.policy", "first"),
            ("stream.max-syn-queued", "300"),
        ] {
            let mut t = Tree::default();
            t.set(key, value);
            let message = StreamConfig::from_tree(&t, false).unwrap_err();
            assert_eq!(message.to_string(), format!("{key}: \"{value}\" cannot be used here"));
        }
    }
}

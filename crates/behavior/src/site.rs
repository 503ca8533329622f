//! What no single profile can see: the site stage, which every record passes in the total order
//! before the profiles are parted.
//!
//! It keeps a few bounded tables (where windows begin, the local network, the gateway, which
//! hardware address belongs to which address, DHCP servers, ports of FTP data) and
//! writes what `step` needs beside the record as [`Facts`].

use crate::limits::SITE_ENTRIES_MAX;
use crate::prevalence::{Outsides, Prevalence};
use crate::settings::Settings;
use crate::whitelist::Passed;
use foldhash::fast::FixedState;
use gabion_record::logs::{Body, LogKind, Mac, Record, TimeNs};
use gabion_record::{Ip, Net, saved};
use hashbrown::{HashMap, HashSet};

/// What the site knows at the moment of one record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// The record's time window, 1 is the first.
    pub window: i64,
    /// The latest window that has begun.
    pub newest: i64,
    /// The moment everything before has been seen, records late or not.
    pub watermark: TimeNs,
    /// Where windows begin.
    pub start: TimeNs,
    /// The local network.
    pub local: Option<Net>,
    /// The gateway's address.
    pub gateway: Option<Ip>,
    /// Another address that the source's hardware address belonged to first.
    pub mac_owner: Option<Ip>,
    /// The source's hardware address is seen for the first time with this address.
    pub is_mac_new: bool,
    /// The source's hardware address, where one was seen and a table of makers asks for it.
    pub src_mac: Option<Mac>,
    /// The destination answers DHCP.
    pub is_dhcp_server: bool,
    /// The destination port is one that FTP data was announced for.
    pub is_ftp_data: bool,
    /// The destination's address was an answer to a query within the last day.
    pub is_resolved: bool,
    /// The whitelist says to pass it over.
    pub is_ignored: bool,
    /// There is more than one log, so that the lack of something in another means something.
    pub has_other_logs: bool,
    /// How many of the site's hosts talk with the flow's end outside.
    pub prevalence: Prevalence,
}

/// The number of the window that holds a moment, of windows that begin at `start`.
#[inline]
pub fn window_of(start: TimeNs, ts: TimeNs, settings: &Settings) -> i64 {
    if settings.is_one_window {
        return 1;
    }
    ts.since(start).div_euclid(settings.window_ns) + 1
}

/// Begin and end of a window, of windows that begin at `start`.
pub fn bounds_of(start: TimeNs, window: i64, settings: &Settings) -> (TimeNs, TimeNs) {
    if settings.is_one_window {
        let century = 100 * 365 * 24 * 3600 * gabion_record::logs::SECOND;
        return (start.plus(-century), start.plus(century));
    }
    let begin = start.plus(settings.window_ns.saturating_mul(window - 1));
    (begin, begin.plus(settings.window_ns))
}

/// Longest that an answer counts as the reason of a connection.
const RESOLVED_NS: i64 = 24 * 3600 * gabion_record::logs::SECOND;

type Map<K, V> = HashMap<K, V, FixedState>;

/// The stage.
#[derive(Debug, Default)]
pub struct Site {
    start: Option<TimeNs>,
    local: Option<Net>,
    gateway_mac: Option<Mac>,
    gateway: Option<Ip>,
    /// Who had a hardware address first, IPv4 only.
    owners: Map<Mac, Ip>,
    /// Hardware addresses by address, where a table of makers asks for them.
    hardware: Map<Ip, Mac>,
    dhcp_servers: HashSet<Ip, FixedState>,
    ftp_ports: HashSet<u16, FixedState>,
    resolved: Map<Ip, TimeNs>,
    outsides: Outsides,
    logs: u32,
    newest: i64,
    /// The moment everything before has been seen, records late or not.
    pub watermark: TimeNs,
    /// Private flows among themselves.
    pub private_pairs: u64,
    /// What the whitelist passes over.
    pub(crate) passed: Passed,
}

saved! {
    Site {
        start, local, gateway_mac, gateway, owners, hardware, dhcp_servers, ftp_ports, resolved, outsides,
        logs, newest, watermark, private_pairs, passed,
    }
}

impl Site {
    /// A site whose windows begin at `start`, or with the first record.
    pub fn new(start: Option<TimeNs>, settings: &Settings) -> Site {
        let local = settings.client_ips.iter().copied().find(|net| net.base().is_private());
        let watermark = TimeNs(i64::MIN);
        Site { start, local, watermark, ..Site::default() }
    }

    /// Where windows begin.
    pub fn start(&self) -> TimeNs {
        self.start.unwrap_or_default()
    }

    /// The number of the window that holds a moment.
    pub fn window(&self, ts: TimeNs, settings: &Settings) -> i64 {
        window_of(self.start(), ts, settings)
    }

    /// Looks at what a flow to this address changes; what it gives means nothing.
    #[inline]
    pub fn near(&self, dst: Ip) -> usize {
        self.outsides.near(dst)
    }

    /// Takes a record in and says what is known at it.
    #[inline]
    pub fn see(&mut self, r: &Record<'_>, settings: &Settings) -> Facts {
        self.start.get_or_insert(r.ts);
        self.watermark = self.watermark.max(r.ts);
        // Flows that are still open are flows, not another log.
        let kind = match r.body.kind() {
            LogKind::OpenConn => LogKind::Conn,
            kind => kind,
        };
        self.logs |= 1 << kind as u32;
        if self.local.is_none() && r.src.is_private() {
            self.local = r.src.rfc1918();
        }
        let window = self.window(r.ts, settings);
        self.newest = self.newest.max(window);
        let mut facts = Facts {
            window,
            newest: self.newest,
            watermark: self.watermark,
            start: self.start(),
            local: self.local,
            is_ftp_data: !self.ftp_ports.is_empty() && self.ftp_ports.contains(&r.dst_port),
            is_dhcp_server: self.dhcp_servers.contains(&r.dst),
            has_other_logs: self.logs.count_ones() > 1,
            ..Facts::default()
        };
        match &r.body {
            Body::Conn(c) => {
                if r.src.is_private() && r.dst.is_private() {
                    self.private_pairs += 1;
                }
                self.macs(r, c.src_mac, c.dst_mac, &mut facts);
                if c.is_established {
                    facts.prevalence = self.talk(r, settings);
                }
                if !self.resolved.is_empty() {
                    let at = self.resolved.get(&r.dst);
                    facts.is_resolved = at.is_some_and(|at| r.ts.since(*at) <= RESOLVED_NS);
                }
            }
            Body::OpenConn(open) if open.so_far.is_established => {
                facts.prevalence = self.talk(r, settings);
            }
            Body::Arp(a) => self.macs(r, a.src_mac.or(a.src_hw), None, &mut facts),
            Body::Dns(d) => {
                for answer in d.answers.iter() {
                    if let Some(ip) = Ip::parse(answer) {
                        self.resolve(ip, r.ts);
                    }
                }
            }
            Body::Ftp(f) if f.data_port != 0 => {
                self.ftp_ports.insert(f.data_port);
            }
            Body::Dhcp(d) => {
                if let Some(server) = d.server
                    && self.dhcp_servers.len() < SITE_ENTRIES_MAX
                {
                    self.dhcp_servers.insert(server);
                }
            }
            Body::Notice(n) => {
                if let Some(text) = n.msg.strip_prefix(b"Gateway address identified: ") {
                    self.gateway = self.gateway.or_else(|| Ip::parse(text.trim_ascii()));
                }
            }
            _ => {}
        }
        facts.gateway = self.gateway;
        if settings.intel.has_makers() {
            self.hardware(r, &mut facts);
        }
        if !settings.whitelist.is_empty() {
            facts.is_ignored = self.passed.hides_record(r, settings);
        }
        facts
    }

    /// Counts a flow where both sides talked, when one of them is the site's and one is not.
    fn talk(&mut self, r: &Record<'_>, settings: &Settings) -> Prevalence {
        let is_host = |ip: Ip| !ip.is_multicast() && !ip.is_broadcast() && !ip.is_unspecified();
        if !is_host(r.src) || !is_host(r.dst) {
            return Prevalence::default();
        }
        match (settings.is_own(r.src), settings.is_own(r.dst)) {
            (true, false) => self.outsides.see(r.src, r.dst, r.ts),
            (false, true) => self.outsides.see(r.dst, r.src, r.ts),
            _ => Prevalence::default(),
        }
    }

    /// Learns which hardware an address is of, and says it of the source.
    fn hardware(&mut self, r: &Record<'_>, facts: &mut Facts) {
        let mac = match &r.body {
            Body::Conn(c) => c.src_mac,
            Body::Arp(a) => a.src_mac.or(a.src_hw),
            Body::Dhcp(d) => d.mac,
            _ => None,
        };
        if let Some(mac) = mac
            && (self.hardware.len() < SITE_ENTRIES_MAX || self.hardware.contains_key(&r.src))
        {
            self.hardware.insert(r.src, mac);
        }
        facts.src_mac = self.hardware.get(&r.src).copied();
    }

    fn resolve(&mut self, ip: Ip, ts: TimeNs) {
        if self.resolved.len() >= SITE_ENTRIES_MAX && !self.resolved.contains_key(&ip) {
            // What is a day old is of no use; when all is younger, all is let go.
            self.resolved.retain(|_, at| ts.since(*at) <= RESOLVED_NS);
            if self.resolved.len() >= SITE_ENTRIES_MAX {
                self.resolved.clear();
            }
        }
        self.resolved.insert(ip, ts);
    }

    /// Learns the gateway and who has which hardware address.
    fn macs(&mut self, r: &Record<'_>, src: Option<Mac>, dst: Option<Mac>, facts: &mut Facts) {
        if let Some(mac) = dst
            && self.gateway_mac.is_none()
            && r.src.is_private()
            && !r.dst.is_ignored()
            && mac != Mac::BROADCAST
        {
            self.gateway_mac = Some(mac);
        }
        let Some(mac) = src else { return };
        if self.gateway_mac == Some(mac) && self.gateway.is_none() && r.src.rfc1918().is_some() {
            self.gateway = Some(r.src);
        }
        let is_usual = r.src.is_v4()
            && r.src.is_private()
            && !r.src.is_unspecified()
            && !r.src.is_broadcast()
            && !r.src.is_link_local();
        if !is_usual || mac == Mac::ZERO || mac == Mac::BROADCAST {
            return;
        }
        match self.owners.get(&mac) {
            Some(owner) if *owner != r.src => facts.mac_owner = Some(*owner),
            Some(_) => {}
            None if self.owners.len() < SITE_ENTRIES_MAX => {
                self.owners.insert(mac, r.src);
                facts.is_mac_new = true;
            }
            None => {}
        }
    }
}

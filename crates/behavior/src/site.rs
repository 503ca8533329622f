//! What no single profile can see: the site stage, which every record passes in the total order
//! before the profiles are parted.
//!
//! It keeps a few bounded tables (where windows begin, the local network, the gateway, which
//! hardware address belongs to which address, DHCP servers, which host asked which, resolvers, proxies) and
//! writes what `step` needs in addition to the record as [`Facts`].

use crate::ahead::Ahead;
use crate::asked::Asked;
use crate::called::{Called, called};
use crate::limits::{CLOCK_HOSTS, RESOLVER_DOMAINS, SITE_ENTRIES_MAX, reached};
use crate::names::registered;
use crate::prevalence::{Outsides, Prevalence};
use crate::settings::Settings;
use crate::sketch::hash_text;
use crate::steps;
use crate::whitelist::Passed;
use foldhash::fast::FixedState;
use gabion_record::logs::{Body, Conn, Dns, LogKind, Mac, Proto, Record, Service, TimeNs};
use gabion_record::{Ip, Net, saved};
use hashbrown::{HashMap, HashSet};
use std::collections::VecDeque;

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
    /// An application layer announced that these two hosts would talk at this port (data of FTP).
    pub is_announced: bool,
    /// It goes back to who asked for it.
    pub is_answer: bool,
    /// It is what every host does all day: DNS to an address that resolves names for the site, or a poll of a clock
    /// that several of its hosts poll.
    pub is_routine: bool,
    /// The destination is a proxy.
    pub is_proxy: bool,
    /// The destination's address was an answer to a query within the last day.
    pub is_resolved: bool,
    /// The whitelist says to pass it over.
    pub is_ignored: bool,
    /// There is more than one log, so that the lack of something in another means something.
    pub has_other_logs: bool,
    /// How many of the site's hosts talk with the flow's end outside, or with the name of a request.
    pub prevalence: Prevalence,
}

/// Questions and answers of NTP without extensions, in which there is room for nothing else: 48 bytes each (RFC 5905,
/// 7.3).
fn is_bare_ntp(c: &Conn<'_>) -> bool {
    let is_whole = |bytes: u64| bytes > 0 && bytes.is_multiple_of(48);
    is_whole(c.orig_bytes) && is_whole(c.resp_bytes)
}

/// Whether a flow polls a clock (NTP, by the application where the input names it) that several of the site's hosts
/// poll, or that is the site's own, or that is asked and answers by nothing but NTP's own fields. What is regular by
/// its protocol means nothing; a channel at that port that is no NTP, or that carries more and few hosts know, is
/// none of these.
fn is_clock(r: &Record<'_>, c: &Conn<'_>, known: &Prevalence, settings: &Settings) -> bool {
    r.dst_port == 123
        && r.proto == Proto::Udp
        && (c.service == Service::Ntp || !c.knows_service)
        && (known.hosts >= CLOCK_HOSTS || settings.is_own(r.dst) || is_bare_ntp(c))
}

/// The number of the window that holds a moment, of windows that begin at `start`.
#[inline]
pub(crate) fn window_of(start: TimeNs, ts: TimeNs, settings: &Settings) -> i64 {
    if settings.is_one_window {
        return 1;
    }
    ts.since(start).div_euclid(settings.window_ns) + 1
}

/// Begin and end of a window, of windows that begin at `start`.
pub(crate) fn bounds_of(start: TimeNs, window: i64, settings: &Settings) -> (TimeNs, TimeNs) {
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
pub(crate) struct Site {
    start: Option<TimeNs>,
    local: Option<Net>,
    gateway_mac: Option<Mac>,
    gateway: Option<Ip>,
    /// Who had a hardware address first, IPv4 only.
    owners: Map<Mac, Ip>,
    /// Hardware addresses by address, where a table of makers asks for them.
    hardware: Map<Ip, Mac>,
    dhcp_servers: HashSet<Ip, FixedState>,
    /// Which host asked which, and ports that were announced.
    pub(crate) asked: Asked,
    /// Addresses that answer queries, with the registered domains they did it for.
    resolvers: Map<Ip, [u64; RESOLVER_DOMAINS]>,
    proxies: HashSet<Ip, FixedState>,
    /// As `outsides`, by name.
    named: Outsides,
    resolved: Map<Ip, TimeNs>,
    /// All of them with a moment of theirs: the first one was resolved longest ago, or was resolved again.
    resolved_order: VecDeque<(Ip, TimeNs)>,
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
        start, local, gateway_mac, gateway, owners, hardware, dhcp_servers, asked, resolvers, proxies, named,
        resolved, resolved_order, outsides, logs, newest, watermark, private_pairs, passed,
    }
}

impl Site {
    /// A site whose windows begin at `start`, or with the first record.
    pub(crate) fn new(start: Option<TimeNs>, settings: &Settings) -> Site {
        let local = settings.client_ips.iter().copied().find(|net| net.base().is_private());
        let watermark = TimeNs(i64::MIN);
        Site { start, local, watermark, ..Site::default() }
    }

    /// Where windows begin.
    pub(crate) fn start(&self) -> TimeNs {
        self.start.unwrap_or_default()
    }

    /// The number of the window that holds a moment.
    pub(crate) fn window(&self, ts: TimeNs, settings: &Settings) -> i64 {
        window_of(self.start(), ts, settings)
    }

    /// Prefetches what this flow changes: the result only keeps the reads from being left out.
    #[inline]
    pub(crate) fn prefetch(&self, ahead: &Ahead) -> usize {
        self.outsides.prefetch(ahead.dst) ^ self.asked.prefetch(ahead)
    }

    /// Takes a record in and says what is known at it.
    #[inline]
    pub(crate) fn see(&mut self, r: &Record<'_>, settings: &Settings) -> Facts {
        self.start.get_or_insert(r.ts);
        self.watermark = self.watermark.max(r.ts);
        // Flows that are still open are flows, not another log.
        let kind = match r.body.kind() {
            LogKind::OpenConn => LogKind::Conn,
            kind => kind,
        };
        // Rules change nothing about what a sensor's logs say and don't say.
        if kind != LogKind::RuleAlert {
            self.logs |= 1 << kind as u32;
        }
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
            is_announced: self.asked.is_announced(r.src, r.dst, r.dst_port, r.ts),
            is_proxy: !self.proxies.is_empty() && self.proxies.contains(&r.dst),
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
                facts.is_answer = self.asked.see(r, c);
                if c.is_established {
                    facts.prevalence = self.talk(r, settings);
                }
                facts.is_routine =
                    self.is_resolving(r, c) || is_clock(r, c, &facts.prevalence, settings);
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
                self.resolver(r, d);
                for answer in d.answers.iter() {
                    if let Some(ip) = Ip::parse(answer) {
                        self.resolve(ip, r.ts);
                    }
                }
            }
            Body::Ftp(f) if f.data_port != 0 => {
                self.asked.announce(r.src, r.dst, f.data_port, r.ts);
            }
            Body::Http(_) | Body::Ssl(_) => {
                if let Some(named) = called(&r.body) {
                    facts.prevalence = self.call(r, &named, settings);
                    facts.is_proxy |= named.is_proxied;
                }
            }
            Body::Dhcp(d) => {
                if let Some(server) = d.server
                    && !self.dhcp_servers.contains(&server)
                    && reached::SITE_ENTRIES_MAX.has_room(self.dhcp_servers.len())
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

    /// Counts a request of one of the site's hosts by the name it is for.
    fn call(&mut self, r: &Record<'_>, named: &Called<'_>, settings: &Settings) -> Prevalence {
        // A scan for proxies makes none: an address is one if the site's own hosts got through it.
        let is_open = matches!(&r.body, Body::Http(h) if (200..300).contains(&h.status));
        let is_used = named.is_proxied && is_open && settings.is_own(r.src);
        if is_used
            && !self.proxies.contains(&r.dst)
            && reached::PROXIES_MAX.has_room(self.proxies.len())
        {
            self.proxies.insert(r.dst);
        }
        if settings.is_own(r.src) && (named.is_proxied || !settings.is_own(r.dst)) {
            self.named.see(r.src, named.as_ip(), r.ts)
        } else {
            Prevalence::default()
        }
    }

    /// Learns that an address answered a query, until it has for several registered domains.
    fn resolver(&mut self, r: &Record<'_>, d: &Dns<'_>) {
        if d.answers.is_empty() && d.rcode.is_empty() {
            return;
        }
        let held = self.resolvers.len();
        let domains = match self.resolvers.get_mut(&r.dst) {
            Some(domains) => domains,
            None if reached::RESOLVERS_MAX.has_room(held) => {
                self.resolvers.entry(r.dst).or_default()
            }
            None => return,
        };
        let Some(free) = domains.iter().position(|hash| *hash == 0) else { return };
        let lower = d.query.to_ascii_lowercase();
        let Some(hash) = registered(&lower).map(|domain| hash_text(domain).max(1)) else { return };
        if !domains.contains(&hash)
            && let Some(place) = domains.get_mut(free)
        {
            *place = hash;
        }
    }

    /// Whether a flow is DNS to an address that resolves names of several domains. Without a log of
    /// names a resolver cannot be distinguished from another end, and DNS is taken for what it claims to be.
    fn is_resolving(&self, r: &Record<'_>, c: &Conn<'_>) -> bool {
        if r.dst_port != 53 || !matches!(c.service, Service::Unknown | Service::Dns) {
            return false;
        }
        if self.logs & 1 << LogKind::Dns as u32 == 0 {
            return true;
        }
        self.resolvers.get(&r.dst).is_some_and(|domains| domains.iter().all(|hash| *hash != 0))
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
            && (self.hardware.contains_key(&r.src)
                || reached::SITE_ENTRIES_MAX.has_room(self.hardware.len()))
        {
            self.hardware.insert(r.src, mac);
        }
        facts.src_mac = self.hardware.get(&r.src).copied();
    }

    fn resolve(&mut self, ip: Ip, ts: TimeNs) {
        if let Some(at) = self.resolved.get_mut(&ip) {
            *at = ts;
            return;
        }
        if self.resolved.len() >= SITE_ENTRIES_MAX {
            self.forget_resolved(ts);
        }
        self.resolved.insert(ip, ts);
        self.resolved_order.push_back((ip, ts));
    }

    /// Evicts one that was resolved longest ago. An address that was resolved again since it was put into the order
    /// goes to its end first, so that a look is paid for by an answer, or by one that goes.
    fn forget_resolved(&mut self, ts: TimeNs) {
        while let Some((ip, then)) = self.resolved_order.pop_front() {
            steps::add(1);
            match self.resolved.get(&ip) {
                Some(at) if *at > then => self.resolved_order.push_back((ip, *at)),
                _ => {
                    if ts.since(then) <= RESOLVED_NS {
                        reached::SITE_ENTRIES_MAX.count();
                    }
                    self.resolved.remove(&ip);
                    return;
                }
            }
        }
    }

    /// Learns the gateway and which host has which hardware address.
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
            None if reached::SITE_ENTRIES_MAX.has_room(self.owners.len()) => {
                self.owners.insert(mac, r.src);
                facts.is_mac_new = true;
            }
            None => {}
        }
    }
}

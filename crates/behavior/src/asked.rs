//! A bounded memory of which host asked which, so that answers are not taken for attempts.
//!
//! Some flows answer the host that asked for them: a device answers a search by multicast (SSDP), a TFTP server
//! answers from a port of its own, and exporters of one-way flows report each half of a conversation by itself.
//! Taken alone such a flow goes to a port without a service and nobody answers it. The source port is no
//! evidence of it, since a scanner chooses its own (`nmap -g 53`); that the destination asked before is.
//!
//! The site stage keeps this table, because the one who asked and the one who answers have profiles of their own.
//! It has a fixed size: four entries a set, the one that ends first goes. Losing an entry can make an answer look
//! like an attempt; it never hides an attempt. [`Asked::forgotten`] counts the entries that went before their time.

use crate::ahead::Ahead;
use crate::limits::{ANSWER_S, ASKED_SETS, reached};
use crate::sketch::{hash_ip, mix};
use crate::steps;
use gabion_record::Ip;
use gabion_record::logs::{Conn, Proto, Record, SECOND, TimeNs};
use gabion_record::saved;

/// Entries of a set.
const WAYS: usize = 4;
/// Who asked a group instead of a host.
const GROUP: u64 = 0x6772_6f75_7021_a5c3;
/// Distinguishes announced ports from questions.
const ANNOUNCED: u64 = 0x616e_6e6f_756e_6365;

/// One question: a part of its hash, and the second up to which it may be answered (0: none).
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    tag: u32,
    until: u32,
}

/// The table.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    sets: Vec<[Entry; WAYS]>,
    /// Something asked a group: only then is it looked for.
    has_groups: bool,
    /// A port was announced: only then is it looked for.
    has_announced: bool,
    /// Questions that had to go while they could still be answered.
    pub forgotten: u64,
}

saved! { Entry { tag, until } Asked { sets, has_groups, has_announced, forgotten } }

/// Nothing came back within the flow itself.
#[inline]
fn is_one_way(c: &Conn<'_>) -> bool {
    c.resp_pkts == 0 && c.resp_bytes == 0 && c.resp_ip_bytes == 0
}

/// A flow of TCP that begins with a SYN: whatever port it comes from, it is no answer.
fn is_attempt(c: &Conn<'_>) -> bool {
    let has = |text: &[u8], flag: u8| text.contains(&flag);
    let state = c.state.text();
    match c.history.first() {
        Some(first) => *first == b'S',
        // Flags as nfdump writes them; without any nothing is known but whether both sides talked.
        None if has(state, b'.') => has(state, b'S') && !has(state, b'A'),
        None => !c.is_established,
    }
}

#[inline]
fn key(asker: Ip, port: u16, target: u64, proto: Proto) -> u64 {
    mix(mix(hash_ip(asker) ^ u64::from(port) << 8 ^ proto as u64).wrapping_add(target))
}

/// Of TCP the answer comes from the port that was asked, of UDP it may come from any.
#[inline]
fn target_hash(ip: Ip, port: u16, proto: Proto) -> u64 {
    if proto == Proto::Tcp { hash_ip(ip) ^ u64::from(port) << 40 } else { hash_ip(ip) }
}

/// The pair of two hosts in either direction, with a port of one of them.
fn announced(a: Ip, b: Ip, port: u16) -> u64 {
    mix(hash_ip(a).wrapping_add(hash_ip(b)) ^ u64::from(port) << 24 ^ ANNOUNCED)
}

fn second(ts: TimeNs) -> u32 {
    u32::try_from(ts.seconds().max(1)).unwrap_or(u32::MAX)
}

impl Asked {
    /// Prefetches where a datagram's question and answer stand.
    #[inline]
    pub(crate) fn prefetch(&self, ahead: &Ahead) -> usize {
        if ahead.proto != Proto::Udp {
            return 0;
        }
        let asks = key(ahead.src, ahead.src_port, hash_ip(ahead.dst), Proto::Udp);
        let answers = key(ahead.dst, ahead.dst_port, hash_ip(ahead.src), Proto::Udp);
        let at = |key: u64| self.sets.get(key as usize % ASKED_SETS).map_or(0, |set| set[0].tag);
        (at(asks) ^ at(answers)) as usize
    }

    /// Takes a flow in; whether it answers one that the table knows. A flow that answers asks nothing.
    #[inline]
    pub(crate) fn see(&mut self, r: &Record<'_>, c: &Conn<'_>) -> bool {
        let is_meant = match r.proto {
            Proto::Udp => !c.has_no_ports,
            Proto::Tcp => is_one_way(c),
            Proto::Icmp
            | Proto::IcmpV6
            | Proto::Igmp
            | Proto::Arp
            | Proto::Sctp
            | Proto::Gre
            | Proto::Other => false,
        };
        if !is_meant {
            return false;
        }
        let now = second(r.ts);
        if self.is_answer(r, c, now) {
            return true;
        }
        let lasted = u32::try_from(c.duration_ns.max(0) / SECOND).unwrap_or(u32::MAX);
        let until = now.saturating_add(lasted).saturating_add(ANSWER_S);
        let is_group = r.dst.is_multicast() || r.dst.is_broadcast();
        self.has_groups |= is_group;
        let to = if is_group { GROUP } else { target_hash(r.dst, r.dst_port, r.proto) };
        self.put(key(r.src, r.src_port, to, r.proto), now, until);
        false
    }

    /// Whether the destination asked the source, or a group, from the port that this flow goes to.
    fn is_answer(&self, r: &Record<'_>, c: &Conn<'_>, now: u32) -> bool {
        if r.proto == Proto::Tcp && is_attempt(c) {
            return false;
        }
        let from = target_hash(r.src, r.src_port, r.proto);
        self.has(key(r.dst, r.dst_port, from, r.proto), now)
            || self.has_groups
                && r.proto == Proto::Udp
                && self.has(key(r.dst, r.dst_port, GROUP, r.proto), now)
    }

    /// An application layer announced that these two will talk at this port.
    pub(crate) fn announce(&mut self, a: Ip, b: Ip, port: u16, ts: TimeNs) {
        self.has_announced = true;
        let now = second(ts);
        self.put(announced(a, b, port), now, now.saturating_add(ANSWER_S));
    }

    /// Whether these two were announced to talk at this port.
    #[inline]
    pub(crate) fn is_announced(&self, a: Ip, b: Ip, port: u16, ts: TimeNs) -> bool {
        self.has_announced && self.has(announced(a, b, port), second(ts))
    }

    fn has(&self, key: u64, now: u32) -> bool {
        let Some(set) = self.sets.get(key as usize % ASKED_SETS) else { return false };
        set.iter().any(|e| e.tag == (key >> 32) as u32 && e.until >= now)
    }

    fn put(&mut self, key: u64, now: u32, until: u32) {
        if self.sets.is_empty() {
            self.sets = vec![[Entry::default(); WAYS]; ASKED_SETS];
        }
        steps::add(1);
        let Some(set) = self.sets.get_mut(key as usize % ASKED_SETS) else { return };
        let tag = (key >> 32) as u32;
        if let Some(entry) = set.iter_mut().find(|e| e.tag == tag && e.until > 0) {
            entry.until = entry.until.max(until);
            return;
        }
        let Some(entry) = set.iter_mut().min_by_key(|e| e.until) else { return };
        steps::add(1);
        if entry.until >= now {
            self.forgotten += 1;
            reached::ASKED_SETS.count();
        }
        *entry = Entry { tag, until };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Flow, conn};
    use gabion_record::logs::Body;

    fn flow(second: i64, src: &str, src_port: u16, dst: &str, dst_port: u16) -> Flow {
        let mut c = conn(second, src, dst, dst_port).udp().refused();
        c.src_port = src_port;
        c
    }

    fn see(asked: &mut Asked, c: &Flow) -> bool {
        let r = c.record();
        let Body::Conn(c) = &r.body else { return false };
        asked.see(&r, c)
    }

    #[test]
    fn answers_are_known_by_their_question() {
        let mut asked = Asked::default();
        // A search by multicast, and a request of TFTP, are answered from any port.
        assert!(!see(&mut asked, &flow(0, "10.0.0.1", 50_000, "239.255.255.250", 1900)));
        assert!(see(&mut asked, &flow(2, "10.0.0.9", 40_123, "10.0.0.1", 50_000)));
        assert!(!see(&mut asked, &flow(0, "10.0.0.1", 50_001, "10.0.0.7", 69)));
        assert!(see(&mut asked, &flow(1, "10.0.0.7", 33_333, "10.0.0.1", 50_001)));
        // Another host was not asked, nor was this one from another port, nor for ever.
        assert!(!see(&mut asked, &flow(1, "10.0.0.8", 33_333, "10.0.0.1", 50_001)));
        assert!(!see(&mut asked, &flow(1, "10.0.0.7", 33_333, "10.0.0.1", 50_002)));
        let late = i64::from(ANSWER_S) + 2;
        assert!(!see(&mut asked, &flow(late, "10.0.0.7", 44_444, "10.0.0.1", 50_001)));
        assert_eq!(asked.forgotten, 0);
    }

    /// A scanner that sends from port 53 was never asked; of TCP nothing that begins with a SYN is an answer.
    #[test]
    fn the_source_port_makes_no_answer() {
        let mut asked = Asked::default();
        for port in 1000..1100 {
            assert!(!see(&mut asked, &flow(0, "10.6.6.6", 53, "10.0.0.1", port)));
            let mut syn = flow(0, "10.6.6.6", 53, "10.0.0.1", port);
            syn.proto = Proto::Tcp;
            assert!(!see(&mut asked, &syn));
            // Its victim's resets are answers.
            let mut reset = flow(1, "10.0.0.1", port, "10.6.6.6", 53);
            (reset.proto, reset.history, reset.state) = (Proto::Tcp, "", "...R..");
            assert!(see(&mut asked, &reset), "{port}");
            assert!(!see(&mut asked, &syn), "asked from there or not, a SYN asks");
        }
    }

    #[test]
    fn what_was_announced_is_for_two_hosts_in_either_direction() {
        let at = |ip: &str| crate::trial::at(ip);
        let mut asked = Asked::default();
        let (a, b) = (at("10.0.0.1"), at("10.0.0.2"));
        asked.announce(a, b, 60_061, TimeNs(0));
        assert!(asked.is_announced(b, a, 60_061, TimeNs(SECOND)));
        assert!(!asked.is_announced(a, at("10.0.0.3"), 60_061, TimeNs(0)));
        assert!(!asked.is_announced(a, b, 60_062, TimeNs(0)));
        assert!(!asked.is_announced(a, b, 60_061, TimeNs(1000 * SECOND)));
    }

    /// A flood of questions in one moment: the table keeps its size, and what went is counted.
    #[test]
    fn a_flood_is_bounded_and_counted() {
        let mut asked = Asked::default();
        for n in 0..200_000u32 {
            let mut c = flow(0, "10.0.0.1", (n % 60_000) as u16, "10.0.0.1", 53);
            c.dst = Ip::v4(0x2000_0000 + n);
            see(&mut asked, &c);
        }
        assert_eq!(asked.sets.len(), ASKED_SETS);
        assert!(asked.forgotten > 100_000, "{}", asked.forgotten);
        let mut odd = flow(0, "10.0.0.1", 1, "10.0.0.2", 2);
        for ts in [i64::MIN, -1, i64::MAX] {
            odd.ts = ts;
            see(&mut asked, &odd);
        }
    }
}

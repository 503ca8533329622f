//! A port without a known service.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::limits::{PEERS_MAX, reached};
use crate::settings::Settings;
use crate::sketch::{Hosts, Keyed, hash_ip};
use crate::state::{Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, Conn, LogKind, Proto, Record, Service};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("UNKNOWN_PORT", "T1571");

/// The detector.
#[derive(Debug)]
pub(crate) struct UnknownPort;

/// Above this, UDP may be peer-to-peer.
const P2P_PORT: u16 = 30_000;
/// Flows to one destination before it counts as a peer.
const P2P_FLOWS: u8 = 6;
/// Distinct destinations that make a profile a peer of a network.
const P2P_PEERS: u64 = 5;

state! {
    /// Destinations of UDP to high ports.
    pub struct Peers {
        all: Hosts,
        flows: Keyed<Ip, u8, PEERS_MAX>,
    }
}

impl Peers {
    /// Takes a flow in; whether it is one of many as peer-to-peer programs make them.
    fn is_p2p(&mut self, dst: Ip) -> bool {
        let is_known = self.flows.get(dst).is_some_and(|n| *n >= P2P_FLOWS);
        let is_peer = self.all.len() >= P2P_PEERS;
        if let Some(n) = self.flows.get_or_add(dst, &reached::PEERS_MAX) {
            *n = n.saturating_add(1);
        }
        if !is_peer {
            self.all.insert(dst);
        }
        is_known || is_peer
    }
}

/// The half of a conversation that goes back to the host that began it, in formats without a field for the application
/// (NetFlow, nfdump): they report the two halves in any order, and often of the same moment, so that the answer may
/// come before its question. An attempt of TCP is none, whatever port it is made from.
fn is_back(r: &Record<'_>, c: &Conn<'_>, settings: &Settings) -> bool {
    let is_one_way = c.resp_pkts == 0 && c.resp_bytes == 0 && c.resp_ip_bytes == 0;
    let is_begun = r.proto == Proto::Udp || c.is_established;
    !c.knows_service && is_one_way && is_begun && settings.services.knows(r.src_port, r.proto)
}

impl Detector for UnknownPort {
    type Window = ();
    type Kept = Peers;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a flow to a port without a known service; not of a source found to scan ports \
            in this window, not ICMP, not a port that an application layer announced to these two \
            (data of FTP), not an answer to a host that asked for it from that port (SSDP, TFTP), not UDP above \
            30,000 of a profile that talks to 5 such peers or 6 times to one; of formats without a field for \
            the application not what comes from a port with a service one-way, unless it is an attempt of \
            TCP; at the 1st, 10th, 100th … time",
        level: "established high, else medium; 1",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Peers>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        if r.dst_port == 0
            || c.has_no_ports
            || *cx.is_scanner
            || !matches!(r.proto, Proto::Tcp | Proto::Udp | Proto::Sctp)
            || cx.settings.services.knows(r.dst_port, r.proto)
            || cx.facts.is_announced
            || cx.facts.is_answer
            || c.service == Service::FtpData
            || is_back(r, c, cx.settings)
        {
            return;
        }
        if r.proto == Proto::Udp && r.dst_port > P2P_PORT && kept.make().is_p2p(r.dst) {
            return;
        }
        let what = hash_ip(r.dst) ^ u64::from(r.dst_port) << 8 ^ r.proto as u64;
        let Some(times) = cx.is_due(&TYPE, what) else { return };
        let level = if c.is_established { ThreatLevel::High } else { ThreatLevel::Medium };
        let finding = cx
            .find(&TYPE)
            .level(level, 1.0)
            .victim(r.dst)
            .source_port(r.src_port)
            .destination_port(r.dst_port)
            .says("Connection to unknown destination port {port}/{PROTO} destination IP {dst}.")
            .seen(times);
        cx.say(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn};

    /// D9 and D28 of Slips: 90 flows are evidence 90 times there; here only the 1st and
    /// the 10th are.
    #[test]
    fn an_unknown_port_is_reported_at_growing_intervals() {
        let mut trial = Trial::new();
        for n in 0..90 {
            trial.give(&conn(n * 20, "10.0.0.1", "1.2.3.4", 9999));
        }
        let found = trial.evidence_of(&TYPE);
        let times: Vec<u64> = found.iter().map(|e| e.times).collect();
        assert_eq!((times, found[0].level), (vec![1, 10], ThreatLevel::High));
    }

    #[test]
    fn known_ports_and_scanners_are_not_reported() {
        let mut trial = Trial::new();
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 443));
        assert!(trial.evidence_of(&TYPE).is_empty());
        for port in 0..30 {
            trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 2200 + port).refused());
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 9);
    }

    /// D27 of Slips: what one profile does excuses no other.
    #[test]
    fn peers_are_those_of_one_profile() {
        let mut trial = Trial::new();
        for n in 0..20 {
            trial.give(&conn(n, "10.0.0.1", &format!("1.2.3.{n}"), 40_000).udp());
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 5);
        trial.give(&conn(30, "10.0.0.2", "1.2.3.4", 40_000).udp());
        assert_eq!(trial.evidence_of(&TYPE).len(), 6);
    }

    /// What comes back from a service is no flow to a port of its own where the format has no field for the
    /// application; an attempt from such a port, a conversation, and an answer from nowhere are.
    #[test]
    fn answers_are_not_reported() {
        for (src_port, is_tcp, is_established, reply_bytes, count) in [
            (53, false, true, 0, 0),
            (1900, false, false, 0, 0),
            (443, true, true, 0, 0),
            (443, true, false, 0, 1),
            (53, false, true, 100, 1),
            (44_444, false, true, 0, 1),
        ] {
            let mut trial = Trial::new();
            let mut c = conn(0, "8.8.8.8", "10.0.0.1", 4444);
            c = if is_tcp { c } else { c.udp() };
            (c.src_port, c.is_established, c.reply_bytes) = (src_port, is_established, reply_bytes);
            let mut r = c.record();
            if let Body::Conn(c) = &mut r.body {
                c.resp_pkts = u64::from(reply_bytes > 0);
                c.knows_service = false;
            }
            trial.record(&r);
            assert_eq!(
                trial.evidence_of(&TYPE).len(),
                count,
                "{src_port} {is_tcp} {is_established}"
            );
        }
    }

    fn udp(second: i64, src: &str, src_port: u16, dst: &str, dst_port: u16) -> crate::trial::Flow {
        let mut c = conn(second, src, dst, dst_port).udp().refused();
        c.src_port = src_port;
        c
    }

    /// A television set answers a search for devices from a new port each time, and a TFTP server from one of its
    /// own; the same without a question is reported, from a port with a service too.
    #[test]
    fn who_asked_is_answered() {
        for (is_asked, count) in [(true, 0), (false, 5)] {
            let mut trial = Trial::new();
            if is_asked {
                trial.give(&udp(0, "10.0.0.1", 50_000, "239.255.255.250", 1900));
                trial.give(&udp(0, "10.0.0.1", 50_001, "10.0.0.3", 69));
            }
            for n in 0..4 {
                trial.give(&udp(
                    1,
                    "10.0.0.9",
                    38_000 + n,
                    "10.0.0.1",
                    50_000 - u16::from(!is_asked) * n,
                ));
            }
            trial.give(&udp(1, "10.0.0.3", 53, "10.0.0.1", 50_001));
            let reported =
                trial.evidence_of(&TYPE).iter().filter(|e| e.dst_port != Some(1900)).count();
            assert_eq!(reported, count, "{is_asked}");
        }
    }

    /// What FTP announced to two hosts, and what the network engine or Zeek calls its data, is known; the same
    /// port of another host is not.
    #[test]
    fn announced_ports_are_known() {
        let mut trial = Trial::new();
        let ftp = gabion_record::logs::Ftp { data_port: 60_061, command: b"PASV" };
        trial.record(&crate::trial::log(0, "10.0.0.1", "1.2.3.4", Body::Ftp(ftp)));
        trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 60_061));
        let mut data = conn(1, "10.0.0.1", "1.2.3.4", 61_954);
        data.service = "ftp-data";
        trial.give(&data);
        assert!(trial.evidence_of(&TYPE).is_empty());
        trial.give(&conn(1, "10.0.0.1", "1.2.3.5", 60_061));
        trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 4444));
        assert_eq!(trial.evidence_of(&TYPE).len(), 2);
    }
}

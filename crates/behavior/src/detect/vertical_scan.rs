//! Many ports of one host.

use super::scan::{bucket, confidence, counts};
use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{TARGETS_MAX, reached};
use crate::sketch::keyed::Key;
use crate::sketch::{Keyed, Ports, Sieve, mix};
use crate::state::{First, Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel, Topic};
use gabion_record::logs::{Body, LogKind, Proto, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType =
    EvidenceType::new("VERTICAL_PORT_SCAN", "T1046").about(Topic::VerticalScan);

const SAYS: &str = "new vertical port scan to IP {dst} from {profile}. Total {ports} {PROTO} ports were \
    scanned. Total packets sent to all ports: {packets}. Confidence: {confidence}. by Gabion";

/// The detector.
#[derive(Debug)]
pub(crate) struct VerticalScan;

state! {
    /// Targets of one window.
    pub struct Targets {
        /// By destination and protocol.
        entries: Keyed<(Ip, u32), Target, TARGETS_MAX>,
        /// Before the table when it is full.
        sieve: Sieve,
    }
}

state! {
    /// One destination.
    pub struct Target {
        ports: Ports,
        packets: u64,
        first: First,
        last: TimeNs,
        reported: Most<u8>,
    }
}

impl Detector for VerticalScan {
    type Window = Targets;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "not-established TCP or UDP flows to 10, 100, 1,000 … distinct ports of one \
            destination in a window",
        level: "high; confidence from packets sent: none 0.3, up to 10 a tenth each, more 1",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    /// It says nothing of fewer than 10 ports.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    #[inline]
    fn record(window: &mut Slot<Targets>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        if !counts(r, c, cx.facts) {
            return;
        }
        let targets = window.make();
        let key = (r.dst, r.proto as u32);
        // The entry that has shown least is evicted.
        let target = targets.entries.get_or_admit(
            key,
            &reached::TARGETS_MAX,
            |_| targets.sieve.passes(key.hash(), mix(u64::from(r.dst_port))),
            |_, t| t.ports.len(),
        );
        let Some(target) = target else { return };
        target.packets = target.packets.saturating_add(c.orig_pkts);
        target.first.see(r.ts);
        target.last = target.last.max(r.ts);
        if !target.ports.insert(r.dst_port) {
            return;
        }
        let count = u64::from(target.ports.len());
        if bucket(count) <= target.reported.0 {
            return;
        }
        target.reported = Most(bucket(count));
        let finding = target.says(cx.find(&TYPE), r.dst);
        *cx.is_scanner = true;
        cx.say(finding);
    }

    fn close_window(window: &mut Slot<Targets>, closing: &mut Closing<'_>) {
        let Some(targets) = window.peek() else { return };
        for ((dst, proto), target) in targets.entries.iter().filter(|t| t.1.reported.0 > 0) {
            let finding = closing.find(&TYPE, closing.window, target.last);
            let proto = Proto::from_kept(*proto as u8).unwrap_or_default();
            closing.say(target.says(finding, *dst).protocol(proto));
        }
    }
}

impl Target {
    fn says(&self, finding: EvidenceBuilder, dst: Ip) -> EvidenceBuilder {
        let count = u64::from(self.ports.len());
        finding
            .level(ThreatLevel::High, confidence(self.packets))
            .victim(dst)
            .since(self.first.0, count)
            .ports(count)
            .packets(self.packets)
            .says(SAYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values};

    fn scan(ports: u16) -> Vec<gabion_record::evidence::Evidence> {
        let mut trial = Trial::new();
        for port in 0..ports {
            trial.give(&conn(i64::from(port), "10.0.0.1", "1.2.3.4", 2000 + port).refused());
        }
        trial.evidence_of(&TYPE)
    }

    #[test]
    fn ten_ports_are_a_scan() {
        let found = scan(25);
        assert_eq!(found.len(), 1);
        assert!(has_values(&found[0], &["10", "TCP"]), "{}", found[0].description());
        assert_eq!((found[0].level, found[0].confidence), (ThreatLevel::High, 1.0));
    }

    #[test]
    fn nine_ports_are_none() {
        assert!(scan(9).is_empty());
    }

    /// Repeats, both directions of time, 65,536 ports, and a thousand other hosts before.
    #[test]
    fn it_is_found_amid_noise_and_reported_at_powers_of_ten() {
        let mut trial = Trial::new();
        for n in 0..1000u32 {
            let dst = format!("9.{}.{}.1", n / 250, n % 250);
            trial.give(&conn(1, "10.0.0.1", &dst, 23).refused());
        }
        for port in 0..=u16::MAX {
            let c = conn(2 + i64::from(port) / 20, "10.0.0.1", "1.2.3.4", port).refused();
            trial.give(&c);
            trial.give(&c);
        }
        let reported: Vec<String> =
            trial.evidence_of(&TYPE).iter().map(|e| e.description()).collect();
        assert_eq!(reported.len(), 4, "{reported:?}");
        assert!(trial.profile_bytes("10.0.0.1") < 64 << 10);
    }

    /// Answers to a search for devices, each to the port that asked, are no scan; attempts from port 53 or 1900
    /// at as many ports are one, of UDP and of TCP.
    #[test]
    fn answers_are_no_scan_and_a_source_port_is_no_excuse() {
        for (is_asked, is_tcp, port, count) in [
            (true, false, 1900, 0),
            (false, false, 1900, 1),
            (false, false, 53, 1),
            (false, true, 53, 1),
        ] {
            let mut trial = Trial::new();
            for n in 0..43 {
                let mut search = conn(n, "10.0.0.1", "239.255.255.250", 1900).udp().refused();
                search.src_port = 50_000 + n as u16;
                if is_asked {
                    trial.give(&search);
                }
                let mut answer = conn(n, "10.0.0.9", "10.0.0.1", 50_000 + n as u16).refused();
                answer.src_port = port;
                trial.give(&if is_tcp { answer } else { answer.udp() });
            }
            assert_eq!(trial.evidence_of(&TYPE).len(), count, "{is_asked} {is_tcp} {port}");
        }
    }
}

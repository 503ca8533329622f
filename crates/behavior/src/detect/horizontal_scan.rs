//! One port of many hosts.

use super::scan::{bucket, confidence, counts};
use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{PORTS_MAX, reached};
use crate::settings::Settings;
use crate::sketch::{Hosts, Keyed, Sieve, hash_ip, mix};
use crate::state::{First, Most, Slot, state};
use gabion_record::evidence::{EvidenceType, ThreatLevel, Topic};
use gabion_record::logs::{Body, LogKind, Proto, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType =
    EvidenceType::new("HORIZONTAL_PORT_SCAN", "T1046").about(Topic::HorizontalScan);

const SAYS: &str = "Horizontal port scan to port {0}{port}/{proto}. From {profile} to {1}{hosts} unique \
    destination IPs. Total packets sent: {packets}. Confidence: {confidence}. by Gabion";

/// The detector.
#[derive(Debug)]
pub(crate) struct HorizontalScan;

state! {
    /// Ports of one window.
    pub struct Swept {
        /// By port and protocol.
        entries: Keyed<u64, Port, PORTS_MAX>,
        /// Before the table when it is full.
        sieve: Sieve,
    }
}

state! {
    /// One port.
    pub struct Port {
        hosts: Hosts,
        packets: u64,
        first: First,
        last: TimeNs,
        reported: Most<u8>,
    }
}

#[inline]
fn key(port: u16, proto: Proto) -> u64 {
    u64::from(port) | (proto as u64) << 16
}

impl Detector for HorizontalScan {
    type Window = Swept;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "not-established TCP or UDP flows to one port of 10, 100, 1,000 … distinct \
            destinations in a window; not where Zeek turned the flow round (`^` in its history)",
        level: "high; confidence from packets sent: none 0.3, up to 10 a tenth each, more 1",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    /// It says nothing of fewer than 10 hosts.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    #[inline]
    fn record(window: &mut Slot<Swept>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        if !counts(r, c, cx.facts) || c.history.contains(&b'^') {
            return;
        }
        let swept = window.make();
        let key = key(r.dst_port, r.proto);
        let port = swept.entries.get_or_admit(
            key,
            &reached::PORTS_MAX,
            |_| swept.sieve.passes(mix(key), hash_ip(r.dst)),
            |_, p| p.hosts.len(),
        );
        let Some(port) = port else { return };
        port.packets = port.packets.saturating_add(c.orig_pkts);
        port.first.see(r.ts);
        port.last = port.last.max(r.ts);
        if !port.hosts.insert(r.dst) {
            return;
        }
        let count = port.hosts.len();
        if bucket(count) <= port.reported.0 {
            return;
        }
        port.reported = Most(bucket(count));
        let finding = port.says(cx.find(&TYPE), r.dst_port, r.proto, cx.settings);
        *cx.is_scanner = true;
        cx.say(finding);
    }

    fn close_window(window: &mut Slot<Swept>, closing: &mut Closing<'_>) {
        let Some(swept) = window.peek() else { return };
        for (key, port) in swept.entries.iter().filter(|p| p.1.reported.0 > 0) {
            let finding = closing.find(&TYPE, closing.window, port.last);
            let proto = Proto::from_kept((key >> 16) as u8).unwrap_or_default();
            closing.say(port.says(finding, *key as u16, proto, closing.settings).protocol(proto));
        }
    }
}

impl Port {
    fn says(
        &self,
        finding: EvidenceBuilder,
        port: u16,
        proto: Proto,
        settings: &Settings,
    ) -> EvidenceBuilder {
        let count = self.hosts.len();
        let name = settings.services.name(port, proto);
        finding
            .level(ThreatLevel::High, confidence(self.packets))
            .since(self.first.0, count)
            .hosts(count)
            .packets(self.packets)
            .destination_port(port)
            .says(SAYS)
            .word(name.map(|n| format!("{n} ")).unwrap_or_default())
            .word(if self.hosts.is_estimate() { "about " } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values};

    fn sweep(hosts: u32) -> (Trial, Vec<gabion_record::evidence::Evidence>) {
        let mut trial = Trial::new();
        for n in 0..hosts {
            let dst = format!("1.{}.{}.{}", n >> 16, n >> 8 & 255, n & 255);
            trial.give(&conn(i64::from(n / 100), "10.0.0.1", &dst, 23).refused());
        }
        let found = trial.evidence_of(&TYPE);
        (trial, found)
    }

    #[test]
    fn ten_hosts_are_a_scan_and_nine_are_none() {
        let (_, found) = sweep(64);
        assert_eq!(found.len(), 1);
        let values = ["telnet", "23/tcp", "10.0.0.1", "10"];
        assert!(has_values(&found[0], &values), "{}", found[0].description());
        assert!(sweep(9).1.is_empty());
    }

    #[test]
    fn a_sweep_of_many_hosts_takes_little_room() {
        let (mut trial, found) = sweep(120_000);
        assert_eq!(found.len(), 5);
        assert!(trial.profile_bytes("10.0.0.1") < 32 << 10);
    }

    #[test]
    fn flows_that_zeek_turned_round_do_not_count() {
        let mut trial = Trial::new();
        for n in 0..30 {
            let mut c = conn(n, "10.0.0.1", &format!("1.1.1.{n}"), 23).refused();
            c.history = "^r";
            trial.give(&c);
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }
}

//! Several unknown ports of one host, all answered.

use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{NAMED_PORTS_MAX, VICTIMS_MAX, reached};
use crate::sketch::{Keyed, Ports};
use crate::state::{Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto, Service};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("CONNECTION_TO_MULTIPLE_PORTS", "T1046");

/// The detector.
#[derive(Debug)]
pub(crate) struct MultiplePorts;

state! {
    /// Of one window.
    pub struct Victims {
        ports: Keyed<Ip, Victim, VICTIMS_MAX>,
    }
}

state! {
    /// One destination.
    pub struct Victim {
        ports: Ports,
        reported: Most<u32>,
    }
}

impl Detector for MultiplePorts {
    type Window = Victims;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "established TCP to 2, 4, 8 … ports without a known service of one destination in \
            a window",
        level: "info; 0.5",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    /// It says nothing of one port.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    #[inline]
    fn record(window: &mut Slot<Victims>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        if r.proto != Proto::Tcp
            || !c.is_established
            || c.service != Service::Unknown
            || cx.settings.services.knows(r.dst_port, r.proto)
        {
            return;
        }
        let Some(victim) = window.make().ports.get_or_add(r.dst, &reached::VICTIMS_MAX) else {
            return;
        };
        if !victim.ports.insert(r.dst_port) {
            return;
        }
        let count = victim.ports.len();
        if !count.is_power_of_two() || count < 2 || count <= victim.reported.0 {
            return;
        }
        victim.reported = Most(count);
        let finding = victim.says(cx.find(&TYPE), r.dst);
        cx.say(finding);
    }

    fn close_window(window: &mut Slot<Victims>, closing: &mut Closing<'_>) {
        let Some(victims) = window.peek() else { return };
        for (dst, victim) in victims.ports.iter().filter(|v| v.1.ports.len() > v.1.reported.0) {
            if victim.reported.0 > 0 {
                let finding = closing.find(&TYPE, closing.window, closing.now);
                closing.say(victim.says(finding, *dst));
            }
        }
    }
}

impl Victim {
    fn says(&self, finding: EvidenceBuilder, dst: Ip) -> EvidenceBuilder {
        let count = self.ports.len();
        let list: Vec<String> =
            self.ports.sorted().iter().take(NAMED_PORTS_MAX).map(|p| format!("'{p}'")).collect();
        finding
            .level(ThreatLevel::Info, 0.5)
            .victim(dst)
            .ports(u64::from(count))
            .says("Connection to multiple ports [{0}{1}] from {profile} to {dst}. ")
            .word(list.join(", "))
            .word(if count as usize > NAMED_PORTS_MAX { ", …" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values};

    /// D40 of Slips: a second victim with fewer ports is reported too, and ports are in order.
    #[test]
    fn every_victim_counts_for_itself() {
        let mut trial = Trial::new();
        for port in [9005, 9001, 9003, 9004, 9002] {
            trial.give(&conn(0, "10.0.0.1", "1.2.3.4", port));
        }
        trial.give(&conn(1, "10.0.0.1", "1.2.3.5", 9006));
        assert_eq!(trial.evidence_of(&TYPE).len(), 2);
        trial.give(&conn(1, "10.0.0.1", "1.2.3.5", 9005));
        let found = trial.evidence_of(&TYPE);
        assert_eq!(found.len(), 3);
        assert!(has_values(&found[2], &["9005", "9006"]));
    }

    #[test]
    fn known_services_and_refusals_do_not_count() {
        let mut trial = Trial::new();
        for port in [22, 80, 443] {
            trial.give(&conn(0, "10.0.0.1", "1.2.3.4", port));
            trial.give(&conn(0, "10.0.0.1", "1.2.3.4", port + 9000).refused());
        }
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 9999));
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn all_ports_take_little_room() {
        let mut trial = Trial::new();
        for port in 1..=u16::MAX {
            trial.give(&conn(0, "10.0.0.1", "1.2.3.4", port));
        }
        assert!(trial.evidence_of(&TYPE).len() < 17 && trial.profile_bytes("10.0.0.1") < 32 << 10);
    }
}

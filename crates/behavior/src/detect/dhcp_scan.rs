//! Many addresses asked for by one host.

use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::sketch::Hosts;
use crate::state::{First, Most, Slot, state};
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("DHCP_SCAN", "T1018");

/// The detector.
#[derive(Debug)]
pub(crate) struct DhcpScan;

/// Addresses to the next report, at first.
const STEP: u64 = 4;
const SAYS: &str = "Performing a DHCP scan by requesting {count} different IP addresses. Confidence: 0.8. by \
    Gabion";

state! {
    /// Addresses asked for in one window.
    pub struct Requested {
        addresses: Hosts,
        first: First,
        reported: Most<u64>,
    }
}

impl Detector for DhcpScan {
    type Window = Requested;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "4, 8, 12 … distinct addresses asked for by DHCP in a window (beyond 40, at every \
            tenth part more)",
        level: "medium; 0.8",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Dhcp);

    fn record(window: &mut Slot<Requested>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Dhcp(d) = &r.body else { return };
        let Some(requested) = d.requested else { return };
        let state = window.make();
        state.first.see(r.ts);
        if !state.addresses.insert(requested) {
            return;
        }
        let count = state.addresses.len();
        let reported = state.reported.0;
        if count < reported + STEP.max(reported / 10) {
            return;
        }
        state.reported = Most(count);
        let finding = state.says(cx.find(&TYPE));
        cx.say(finding);
    }

    fn close_window(window: &mut Slot<Requested>, closing: &mut Closing<'_>) {
        let Some(state) = window.peek().filter(|s| s.reported.0 > 0) else { return };
        let finding = state.says(closing.find(&TYPE, closing.window, closing.now));
        closing.say(finding);
    }
}

impl Requested {
    fn says(&self, finding: EvidenceBuilder) -> EvidenceBuilder {
        let count = self.addresses.len();
        finding
            .protocol(Proto::Udp)
            .level(ThreatLevel::Medium, 0.8)
            .since(self.first.0, count)
            .hosts(count)
            .says(SAYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::Ip;
    use gabion_record::logs::Dhcp;

    fn ask(trial: &mut Trial, second: i64, address: u32) {
        let body = Dhcp { requested: Some(Ip::v4(0x0a00_0000 + address)), ..Dhcp::default() };
        trial.record(&log(second, "10.0.0.1", "10.0.0.254", Body::Dhcp(body)));
    }

    #[test]
    fn every_four_addresses() {
        let mut trial = Trial::new();
        (0..13).for_each(|n| ask(&mut trial, i64::from(n), n));
        assert_eq!(trial.evidence_of(&TYPE).len(), 3);
    }

    #[test]
    fn three_addresses_many_times_are_none() {
        let mut trial = Trial::new();
        (0..300).for_each(|n| ask(&mut trial, i64::from(n), n % 3));
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn starvation_is_reported_seldom_and_takes_little_memory() {
        let mut trial = Trial::new();
        (0..100_000).for_each(|n| ask(&mut trial, i64::from(n / 100), n));
        assert!(trial.evidence_of(&TYPE).len() < 120);
        assert!(trial.profile_bytes("10.0.0.1") < 16 << 10);
    }
}

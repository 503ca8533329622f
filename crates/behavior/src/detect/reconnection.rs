//! The same door knocked at again and again.

use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{PAIRS_MAX, reached};
use crate::sketch::Keyed;
use crate::state::{First, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, ConnState, LogKind, Proto, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("MULTIPLE_RECONNECTION_ATTEMPTS", "T1110");

/// The detector.
#[derive(Debug)]
pub(crate) struct Reconnection;

/// Refusals by one port of one host.
const REFUSALS: u64 = 5;
/// Telnet connections that came to nothing, with one host.
const TELNET: u64 = 4;
/// Stands for "any telnet port" in a key.
const ANY_TELNET: u32 = 1 << 16;
/// Distinguishes evidence of telnet from that of a port.
const TELNETS: u64 = 1;

state! {
    /// Counts of one window.
    pub struct Counts {
        pairs: Keyed<(Ip, u32), Tries, PAIRS_MAX>,
    }
}

state! {
    /// Of one port of a host, or of all telnet ports.
    pub struct Tries {
        count: u64,
        first: First,
        last: TimeNs,
    }
}

impl Counts {
    /// Counts one; how many there were and since when, at every so manyth.
    fn add(&mut self, key: (Ip, u32), now: TimeNs, each: u64) -> Option<(u64, TimeNs)> {
        let tries = self.pairs.get_or_admit(key, &reached::PAIRS_MAX, |_| true, |_, t| t.count)?;
        tries.count = tries.count.saturating_add(1);
        tries.first.see(now);
        tries.last = tries.last.max(now);
        tries.count.is_multiple_of(each).then_some((tries.count, tries.first.0))
    }
}

impl Detector for Reconnection {
    type Window = Counts;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "every 5th connection that one port of a host refuses (REJ), and every 4th telnet \
            connection to a host that came to nothing, in a window",
        level: "medium; 0.5",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    /// It says nothing of fewer than 4 flows.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    #[inline]
    fn record(window: &mut Slot<Counts>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        if c.state == ConnState::Refused
            && let Some((count, first)) =
                window.make().add((r.dst, u32::from(r.dst_port)), r.ts, REFUSALS)
        {
            let finding = says(cx.find(&TYPE), r.dst, u32::from(r.dst_port), (count, first));
            cx.say(finding);
        }
        let is_telnet = r.proto == Proto::Tcp && matches!(r.dst_port, 23 | 2323);
        if is_telnet
            && !c.is_established
            && let Some((count, first)) = window.make().add((r.dst, ANY_TELNET), r.ts, TELNET)
        {
            let finding = says(cx.find(&TYPE), r.dst, ANY_TELNET, (count, first));
            cx.say(finding.port_now(r.dst_port));
        }
    }

    fn close_window(window: &mut Slot<Counts>, closing: &mut Closing<'_>) {
        let Some(counts) = window.peek() else { return };
        for ((dst, port), tries) in counts.pairs.iter() {
            let each = if *port == ANY_TELNET { TELNET } else { REFUSALS };
            if tries.count > each {
                let finding = closing.find(&TYPE, closing.window, tries.last);
                closing.say(says(finding, *dst, *port, (tries.count, tries.first.0)));
            }
        }
    }
}

fn says(
    finding: EvidenceBuilder,
    dst: Ip,
    port: u32,
    (count, first): (u64, TimeNs),
) -> EvidenceBuilder {
    let finding = finding
        .protocol(Proto::Tcp)
        .level(ThreatLevel::Medium, 0.5)
        .victim(dst)
        .since(first, count);
    match u16::try_from(port) {
        Ok(port) => finding.destination_port(port).says(
            "Multiple reconnection attempts from IP: {profile} to destination IP: {dst} reconnections: \
             {count}.",
        ),
        Err(_) => finding.about(TELNETS).says(
            "Multiple Telnet reconnection attempts from IP: {profile} to Destination IP: {dst}  \
             reconnections: {count}",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn};
    use gabion_record::logs::SECOND;

    fn refused(count: i64, port: u16) -> usize {
        let mut trial = Trial::new();
        for n in 0..count {
            let mut c = conn(n, "10.0.0.1", "1.2.3.4", port).refused();
            c.state = "REJ";
            trial.give(&c);
        }
        trial.evidence_of(&TYPE).len()
    }

    #[test]
    fn every_fifth_refusal_is_reported() {
        for (count, found) in [(4, 0), (5, 1), (9, 1), (10, 2), (25, 5)] {
            assert_eq!(refused(count, 80), found, "{count}");
        }
        // 20 of telnet: four times five refusals and five times four attempts.
        assert_eq!(refused(20, 23), 9);
    }

    #[test]
    fn many_other_doors_do_not_hide_one() {
        let mut trial = Trial::new();
        for round in 0..5 {
            for n in 0..200 {
                let mut c = conn(round, "10.0.0.1", &format!("9.9.{round}.{n}"), 80).refused();
                c.state = "REJ";
                trial.give(&c);
            }
            for _ in 0..3 {
                let mut c = conn(round, "10.0.0.1", "1.2.3.4", 80).refused();
                c.state = "REJ";
                trial.give(&c);
            }
        }
        assert!(!trial.evidence_of(&TYPE).is_empty());
    }

    /// Late refusals, refusals of spoofed sources and a clock that jumps: those of one source and window
    /// count, nobody else's, and counting begins again after a jump.
    #[test]
    fn refusals_of_others_and_other_times_do_not_add_up() {
        let mut trial = Trial::new();
        let give = |trial: &mut Trial, second: i64, src: &str, is_late: bool| {
            let mut c = conn(second, src, "1.2.3.4", 80).refused();
            (c.state, c.is_late) = ("REJ", is_late);
            trial.give(&c);
        };
        for n in 0..2000 {
            give(&mut trial, n % 60, &format!("10.{}.{}.1", n / 250, n % 250), false);
        }
        for n in 0..4 {
            give(&mut trial, 60 + n, "10.9.9.9", false);
        }
        for n in 0..4 {
            give(&mut trial, 50 * 365 * 86_400 + n, "10.9.9.9", false);
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
        give(&mut trial, 50 * 365 * 86_400, "10.9.9.9", true);
        assert_eq!(trial.evidence_of(&TYPE).len(), 1);
        give(&mut trial, i64::MAX / SECOND, "10.9.9.9", false);
        assert_eq!(trial.evidence_of(&TYPE).len(), 1);
    }
}

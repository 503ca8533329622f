//! Addresses outside that nobody of the site talked with before, and addresses that hardly anybody but
//! one host keeps talking with (RITA's first-seen and prevalence).

use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{RARE_MAX, reached};
use crate::prevalence::Prevalence;
use crate::said::Said;
use crate::sketch::Keyed;
use crate::state::{First, Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto, SECOND, TimeNs};

/// Nobody of the site talked with it before.
pub(crate) static NEW: EvidenceType = EvidenceType::new("FIRST_SEEN_DESTINATION", "T1071");
/// Hardly anybody else talks with it.
pub(crate) static RARE: EvidenceType = EvidenceType::new("RARE_DESTINATION", "T1071");

/// The detector.
#[derive(Debug)]
pub(crate) struct RareDestination;

/// How long the site has been watched before an address can be new to it.
const WATCHED: i64 = 24 * 3600 * SECOND;
/// Hosts that make a share mean something, and the share that is rare.
const HOSTS_LEAST: u32 = 50;
const SHARE: f64 = 0.02;
/// Flows before a destination is reported, and the least time that they cover.
const FLOWS: u32 = 10;
const SPAN: i64 = 3600 * SECOND;

state! {
    /// Of one source.
    pub struct Rare {
        pairs: Keyed<Ip, Use, RARE_MAX>,
    }
}

state! {
    /// One rare destination.
    pub struct Use {
        flows: u32,
        first: First,
        last: TimeNs,
        said: Said,
        proto: Most<u8>,
        /// The site's hosts that talk with it, and all its hosts, as last reported.
        hosts: Most<u32>,
        of: Most<u32>,
    }
}

impl Use {
    /// Whether it was reported and came again since.
    fn has_grown(&self) -> bool {
        self.said.is_less(self.flows.into())
    }

    /// Its last numbers.
    fn says_last(&self, finding: EvidenceBuilder, dst: Ip) -> EvidenceBuilder {
        let proto = Proto::from_kept(self.proto.0).unwrap_or_default();
        self.says(finding.protocol(proto), dst).any_port()
    }

    fn says(&self, finding: EvidenceBuilder, dst: Ip) -> EvidenceBuilder {
        finding
            .level(ThreatLevel::Low, 0.5)
            .victim(dst)
            .since(self.first.0, self.flows.into())
            .says(
                "Rare destination. {src} talked {count} times with {dst}, with which {0} of {1} hosts \
                 talk.",
            )
            .word(self.hosts.0.to_string())
            .word(self.of.0.to_string())
    }

    fn see(&mut self, known: &Prevalence) {
        (self.hosts, self.of) = (Most(known.hosts), Most(known.of));
    }
}

impl Detector for RareDestination {
    type Window = ();
    type Kept = Rare;
    const ABOUT: About = About {
        types: &[&NEW, &RARE],
        condition: "the first flow, answered, of any of the site's hosts with an address outside, once \
            the site has been watched for a day (at the 1st, 10th, 100th … such address of a source in a \
            window); ten answered flows over an hour or more of one host with an address outside that at \
            most 2 % of the site's hosts, of which there are 50 or more, talk with",
        level: "FIRST_SEEN_DESTINATION info, 0.5; RARE_DESTINATION low, 0.5",
        settings: &["parameters.client_ips"],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Rare>, cx: &mut Context<'_, '_>) {
        let known = &cx.facts.prevalence;
        let r = cx.record;
        let Body::Conn(_) = &r.body else { return };
        let Some(share) = known.share() else { return };
        if r.is_late || cx.profile != r.src || cx.settings.is_own(r.dst) {
            return;
        }
        let is_first = known.hosts == 1 && known.first == r.ts;
        if is_first && r.ts.since(cx.facts.start) >= WATCHED {
            cx.say_damped(0, |cx| {
                cx.find(&NEW)
                    .level(ThreatLevel::Info, 0.5)
                    .victim(r.dst)
                    .destination_port(r.dst_port)
                    .says(
                        "First seen destination. {src} is the first of {0} hosts to talk with {dst}.",
                    )
                    .word(cx.facts.prevalence.of.to_string())
            });
        }
        if known.of < HOSTS_LEAST || share > SHARE {
            return;
        }
        let least = |_: &Ip, u: &Use| (u.said.is_reported(), u.flows, u.first);
        let pairs = &mut kept.make().pairs;
        let limit = &reached::RARE_MAX;
        let (pair, gone) = pairs.get_or_replace(r.dst, limit, least);
        if let Some((dst, gone)) = gone.filter(|(_, gone)| gone.has_grown()) {
            let finding = cx.find_last(&RARE, gone.said.window(), gone.last);
            cx.say(gone.says_last(finding, dst));
        }
        pair.flows = pair.flows.saturating_add(1);
        pair.first.see(r.ts);
        pair.last = r.ts;
        if pair.said.is_reported() {
            pair.see(known);
        }
        let is_due = pair.flows >= FLOWS && r.ts.since(pair.first.0) >= SPAN;
        if pair.said.is_reported() || !is_due {
            return;
        }
        pair.see(known);
        pair.said.note(pair.flows.into(), cx.facts.window, ThreatLevel::Low);
        pair.proto = Most(r.proto as u8);
        cx.say(pair.says(cx.find(&RARE), r.dst).port_now(r.dst_port));
    }

    fn close_kept(kept: &mut Slot<Rare>, closing: &mut Closing<'_>) {
        let Some(rare) = kept.peek() else { return };
        for (dst, pair) in rare.pairs.iter().filter(|(_, pair)| pair.has_grown()) {
            let finding = closing.find(&RARE, pair.said.window(), pair.last);
            closing.say(pair.says_last(finding, *dst));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Flow, Trial, conn, has_values};

    const HOUR: i64 = 3600;

    /// A site of `hosts` hosts that talk with one server; then one host talks with another, several times.
    fn site(hosts: i64, flows: i64, every: i64) -> Trial {
        let mut trial = Trial::new();
        for n in 0..hosts {
            trial.give(&conn(n, &format!("10.0.1.{n}"), "1.2.3.4", 443));
        }
        for n in 0..flows {
            trial.give(&conn(1000 + n * every, "10.0.0.1", "9.9.9.9", 443));
        }
        trial
    }

    /// A table full of rare destinations: the one that has to go says its last number.
    #[test]
    fn a_destination_without_room_says_its_last_number() {
        let mut trial = site(60, 30, 400);
        for dst in 0..RARE_MAX as i64 {
            for n in 0..40 {
                trial.give(&conn(13_000 + n * 400 + dst, "10.0.0.1", &format!("9.9.8.{dst}"), 443));
            }
        }
        trial.give(&conn(40_000, "10.0.0.1", "9.9.7.1", 443));
        let found = trial.reported_of(&RARE);
        let mut first = found.iter().rev().filter(|e| has_values(e, &["9.9.9.9"]));
        assert_eq!(first.next().map(|e| e.measures.count), Some(30), "{found:?}");
    }

    #[test]
    fn a_destination_of_one_host_is_reported_once() {
        let found = site(60, 30, 400).evidence_of(&RARE);
        assert_eq!(found.len(), 1);
        let values = ["10.0.0.1", "10", "9.9.9.9", "1", "61"];
        assert!(has_values(&found[0], &values), "{}", found[0].description());
    }

    #[test]
    fn few_hosts_few_flows_a_short_time_or_a_second_talker_are_none() {
        assert!(site(40, 30, 400).evidence_of(&RARE).is_empty());
        assert!(site(60, 9, 400).evidence_of(&RARE).is_empty());
        assert!(site(60, 30, 100).evidence_of(&RARE).is_empty());
        let mut trial = site(60, 1, 400);
        for n in 0..30 {
            trial.give(&conn(2000 + n * 400, "10.0.0.1", "9.9.9.9", 443));
            trial.give(&conn(2000 + n * 400, "10.0.0.2", "9.9.9.9", 443));
        }
        assert!(trial.evidence_of(&RARE).is_empty());
    }

    #[test]
    fn the_first_host_to_talk_with_an_address_is_reported_after_a_day() {
        let first = |second: i64, change: fn(Flow) -> Flow| {
            let mut trial = Trial::new();
            trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 443));
            trial.give(&change(conn(second, "10.0.0.1", "9.9.9.9", 443)));
            trial.give(&conn(second + 1, "10.0.0.1", "9.9.9.9", 443));
            trial.give(&conn(second + 2, "10.0.0.2", "9.9.9.9", 443));
            trial.evidence_of(&NEW)
        };
        let found = first(24 * HOUR, |f| f);
        assert_eq!(found.len(), 1);
        let values = ["10.0.0.1", "1", "9.9.9.9"];
        assert!(has_values(&found[0], &values), "{}", found[0].description());
        assert!(first(24 * HOUR - 10, |f| f).is_empty());
        // A scan talks with nobody: the flow after it is the first.
        assert_eq!(first(24 * HOUR, Flow::refused).len(), 1);
        assert!(first(24 * HOUR, Flow::refused)[0].ts > found[0].ts);
    }

    /// Records of the past and the future and a flood of addresses: bounded, and the rare one is found.
    #[test]
    fn odd_times_and_many_addresses_break_nothing() {
        let mut trial = site(60, 0, 1);
        for n in 0..20_000i64 {
            let dst = format!("9.{}.{}.{}", n / 40_000, n / 200 % 200, n % 200);
            trial.give(&conn(1000 + n / 2, "10.0.0.1", &dst, 443));
            if n % 5 == 0 {
                trial.give(&conn(1000 + n / 2, "10.0.0.1", "8.8.8.8", 443));
            }
        }
        let mut late = conn(5, "10.0.0.1", "8.8.8.8", 443);
        late.is_late = true;
        trial.give(&late);
        trial.give(&conn(i64::MAX / SECOND, "10.0.0.1", "8.8.8.8", 443));
        trial.end();
        let found = trial.evidence_of(&RARE);
        assert!(found.iter().any(|e| has_values(e, &["8.8.8.8"])), "{}", found.len());
        assert!(trial.evidence_of(&NEW).len() < 50);
    }
}

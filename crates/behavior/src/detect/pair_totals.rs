//! What a source and one destination amount to over a day: how long they were connected in all, and how
//! often (RITA's long connections and strobes).

use super::{About, Detector, bit};
use crate::ahead::Ahead;
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{OPEN_FLOWS_MAX, SUMMED_PAIRS_MAX, reached};
use crate::rita::{self, PairModifiers, Score};
use crate::said::Said;
use crate::settings::Settings;
use crate::sketch::{Keyed, hash_text, mix};
use crate::state::{First, Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{CallKind, EvidenceType, ThreatLevel, Topic};
use gabion_record::logs::{Body, Conn, LogKind, Proto, SECOND, TimeNs};

/// Connected for long, in one connection or in many.
pub(crate) static LONG: EvidenceType =
    EvidenceType::new("LONG_TOTAL_CONNECTION", "T1071").about(Topic::Call(CallKind::Long));
/// Connections without end.
pub(crate) static STROBE: EvidenceType =
    EvidenceType::new("STROBE", "T1499").about(Topic::Call(CallKind::Strobe));

const LONG_SAYS: &str = "Long total connection. {count} connections from {src} to {dst} took {minutes} mins \
    in all. Threat {0}.";
const STROBE_SAYS: &str = "Strobe. {count} connections from {src} to {dst} in a day. Threat {0}.";

/// The detector.
#[derive(Debug)]
pub(crate) struct PairTotals;

/// Total seconds of a day and the level from each on: RITA's low, medium and high.
const LONG_S: [(u32, ThreatLevel); 3] =
    [(43_200, ThreatLevel::High), (28_800, ThreatLevel::Medium), (14_400, ThreatLevel::Low)];
/// Connections of a day that are a strobe: one each second.
const STROBES: u64 = 86_400;
/// Flows shorter than this begin a sum only at one in 64, which a strobe meets within minutes.
const WORTH_NS: i64 = 60 * SECOND;
const DAY: i64 = 24 * 3600 * SECOND;

state! {
    /// Of one source.
    pub struct Totals {
        pairs: Keyed<Ip, Total, SUMMED_PAIRS_MAX>,
    }
}

state! {
    /// One destination.
    pub struct Total {
        nanos: u64,
        flows: u64,
        first: First,
        reported: Most<u32>,
        last: TimeNs,
        then: Slot<Then>,
        modifiers: PairModifiers,
        /// Flows that had not ended when they were seen, and how long they had lasted then.
        open: Slot<Open>,
    }
}

state! {
    /// The last report of a pair; few pairs are reported.
    pub struct Then {
        /// The seconds.
        said: Said,
        /// The flows of a strobe.
        strobe: Said,
    }
}

state! {
    /// Open flows of a pair.
    pub struct Open {
        flows: Keyed<u64, u64, OPEN_FLOWS_MAX>,
    }
}

impl Total {
    /// A flow of a pair that has open ones: how many flows and how much time it adds to what was counted
    /// of it before.
    fn open_or_closed(&mut self, uid: u64, lasted: u64, is_open: bool) -> (u64, u64) {
        let open = &mut self.open.make().flows;
        match open.get(uid) {
            Some(counted) => {
                let more = lasted.saturating_sub(*counted);
                *counted = lasted.max(*counted);
                if !is_open {
                    open.remove(uid);
                }
                (0, more)
            }
            None => {
                if is_open {
                    let limit = &reached::OPEN_FLOWS_MAX;
                    *open.get_or_renew(uid, limit, |_| true, |_, n| *n) = lasted;
                }
                (1, lasted)
            }
        }
    }

    /// Seconds connected in all.
    #[inline]
    fn seconds(&self) -> u64 {
        self.nanos / SECOND as u64
    }
}

impl Total {
    /// The finding, and the word that its sentence lacks.
    fn says(
        &self,
        finding: EvidenceBuilder,
        dst: Ip,
        now: TimeNs,
        settings: &Settings,
    ) -> (EvidenceBuilder, Score) {
        let base = rita::bucket(self.seconds() as f64, rita::LONG);
        let score = self.modifiers.score(base, dst, now, settings);
        // Whatever protocols its connections are of.
        let finding = finding
            .protocol(Proto::Tcp)
            .victim(dst)
            .since(self.first.0, self.flows)
            .lasting(i64::try_from(self.nanos).unwrap_or(i64::MAX))
            .says(LONG_SAYS)
            .threat(score.threat());
        (finding, score)
    }

    fn says_strobe(
        &self,
        finding: EvidenceBuilder,
        dst: Ip,
        now: TimeNs,
        settings: &Settings,
    ) -> EvidenceBuilder {
        let score = self.modifiers.score(rita::HIGH, dst, now, settings);
        finding
            .protocol(Proto::Tcp)
            .level(ThreatLevel::High, 0.8)
            .victim(dst)
            .since(self.first.0, self.flows)
            .says(STROBE_SAYS)
            .threat(score.threat())
            .word(score.words())
    }

    /// The last numbers of a pair that has grown since it was reported.
    fn last(
        &self,
        find: &dyn Fn(&'static EvidenceType, i64, TimeNs) -> EvidenceBuilder,
        dst: Ip,
        settings: &Settings,
    ) -> [Option<EvidenceBuilder>; 2] {
        let Some(Then { said, strobe }) = self.then.peek() else { return [None, None] };
        let long = said.is_less(self.seconds()).then(|| {
            let finding = find(&LONG, said.window(), self.last);
            let (finding, score) = self.says(finding, dst, self.last, settings);
            finding
                .word(score.words())
                .level(said.level(), self.seconds() as f64 / 86_400.0)
                .any_port()
        });
        let strobe = strobe.is_less(self.flows).then(|| {
            let finding = find(&STROBE, strobe.window(), self.last);
            self.says_strobe(finding, dst, self.last, settings).any_port()
        });
        [long, strobe]
    }
}

impl Detector for PairTotals {
    type Window = ();
    type Kept = Totals;
    const ABOUT: About = About {
        types: &[&LONG, &STROBE],
        condition: "the connections of a pair within a day, open ones too, last 4, 8, 12 hours in all \
            (LONG_TOTAL_CONNECTION); 86,400 connections of a pair within a day (STROBE); of a source the eight pairs that are connected longest and most often are summed, so the reported number is a lower bound; the text names RITA's threat score as well",
        level: "LONG_TOTAL_CONNECTION from 12 h on high, 8 h medium, 4 h low; its share of a day; \
            STROBE high, 0.8",
        settings: &[],
    };
    const KINDS: u32 =
        bit(LogKind::Conn) | bit(LogKind::Http) | bit(LogKind::Ssl) | bit(LogKind::OpenConn);

    /// It says nothing of less than 4 hours, or fewer than 86,400 flows.
    #[inline]
    fn speaks_first(cx: &Context<'_, '_>) -> bool {
        let least = LONG_S.iter().map(|(least, _)| i64::from(*least)).min().unwrap_or(0) * SECOND;
        matches!(&cx.record.body, Body::Conn(c) if c.duration_ns >= least)
    }

    #[inline]
    fn prefetch(_: &Slot<()>, kept: &Slot<Totals>, ahead: &Ahead) -> usize {
        let look = |t: &Total| t.flows as usize ^ t.modifiers.prefetch();
        kept.peek().map_or(0, |totals| totals.pairs.prefetch(ahead.dst, look))
    }

    #[inline]
    fn record(_: &mut Slot<()>, kept: &mut Slot<Totals>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let (c, is_open) = match &r.body {
            Body::Conn(c) => (c, false),
            Body::OpenConn(open) => (&open.so_far, true),
            Body::Http(_) | Body::Ssl(_) if cx.profile == r.src => {
                if let Some(total) = kept.get().and_then(|totals| totals.pairs.get(r.dst)) {
                    total.modifiers.ask(r, cx.signature);
                }
                return;
            }
            _ => return,
        };
        if cx.profile != r.src || r.dst.is_multicast() || r.dst.is_broadcast() {
            return;
        }
        // Short flows to many hosts are skipped, unless the pair already has a sum.
        let is_worth = c.duration_ns >= WORTH_NS || mix(r.ts.0 as u64) & 63 == 0;
        if !is_worth && kept.peek().is_none() {
            return;
        }
        let totals = kept.make();
        let least = |_: &Ip, t: &Total| t.flows.max(t.seconds() / 60);
        let limit = &reached::SUMMED_PAIRS_MAX;
        let (total, mut gone) = if is_worth {
            totals.pairs.get_or_replace(r.dst, limit, least)
        } else {
            match totals.pairs.get(r.dst) {
                Some(total) => (total, None),
                None => return,
            }
        };
        if r.ts.since(total.first.0) > DAY {
            gone = Some((r.dst, std::mem::take(total)));
        }
        // Its day is over, or it is evicted.
        if let Some((dst, gone)) = gone {
            let find = |kind, window, last| cx.find_last(kind, window, last);
            for finding in gone.last(&find, dst, cx.settings).into_iter().flatten() {
                cx.say(finding);
            }
        }
        total.first.see(r.ts);
        let lasted = u64::try_from(c.duration_ns).unwrap_or(0);
        let (flows, more) = if is_open || total.open.peek().is_some() {
            total.open_or_closed(hash_text(r.uid), lasted, is_open)
        } else {
            (1, lasted)
        };
        // A flow that is open counts its bytes when it has ended.
        let ended = if is_open { &Conn::default() } else { c };
        total.modifiers.see(ended, r.ts, &cx.facts.prevalence);
        total.flows += flows;
        total.last = total.last.max(r.ts);
        total.nanos = total.nanos.saturating_add(more);
        let (seconds, flows) = (total.seconds(), total.flows);
        // Until the day is over only a worse level is reported.
        let long = LONG_S.iter().find(|(least, _)| seconds >= u64::from(*least));
        if let Some((least, level)) = long
            && total.reported.0 < *least
        {
            total.reported = Most(*least);
            total.then.make().said.note(seconds, cx.facts.window, *level);
            let (finding, score) = total.says(cx.find(&LONG), r.dst, r.ts, cx.settings);
            let finding = finding.level(*level, seconds as f64 / 86_400.0).port_now(r.dst_port);
            cx.say_in_words(finding, |finding| finding.word(score.words()));
        }
        if flows >= STROBES && !total.then.peek().is_some_and(|then| then.strobe.is_reported()) {
            total.then.make().strobe.note(flows, cx.facts.window, ThreatLevel::High);
            let finding = total.says_strobe(cx.find(&STROBE), r.dst, r.ts, cx.settings);
            cx.say(finding.port_now(r.dst_port));
        }
    }

    fn close_kept(kept: &mut Slot<Totals>, closing: &mut Closing<'_>) {
        let Some(totals) = kept.peek() else { return };
        let find = |kind, window, last| closing.find(kind, window, last);
        let last = |(dst, total): &(Ip, Total)| total.last(&find, *dst, closing.settings);
        let grown: Vec<EvidenceBuilder> = totals.pairs.iter().flat_map(last).flatten().collect();
        grown.into_iter().for_each(|finding| closing.say(finding));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values};
    use gabion_record::evidence::{Evidence, Party};
    use gabion_record::logs::OpenConn;

    /// A pair that was reported at twelve hours is reported again as it grows, and with its last sum at the end: one
    /// finding.
    #[test]
    fn a_sum_that_grows_is_reported_with_its_last_number() {
        let mut trial = Trial::new();
        for n in 0..6 {
            trial.give(&conn(n * 3600, "10.0.0.1", "1.2.3.4", 443).lasting(45_000.0));
        }
        trial.end();
        let reported: Vec<_> = trial.reported.iter().filter(|e| e.kind == &LONG).collect();
        let last = reported.last().unwrap();
        assert!(has_values(last, &["6", "10.0.0.1", "1.2.3.4", "4500"]));
        assert!(reported.iter().all(|e| e.id == last.id), "{reported:?}");
        assert!((3..=5).contains(&reported.len()), "{}", reported.len());
        // Sums go by what crossed a threshold.
        assert_eq!(trial.evidence_of(&LONG).len(), 1);
    }

    /// A pair that longer ones push out of the table reports its sum so far.
    #[test]
    fn a_sum_that_has_no_room_any_more_says_its_last_number() {
        let mut trial = Trial::new();
        for n in 0..7 {
            for pair in 0..=SUMMED_PAIRS_MAX as i64 {
                let flow = conn(n * 3600 + pair, "10.0.0.1", &format!("1.2.3.{pair}"), 443);
                // The first ends at 350 minutes; the last comes when all the others have more.
                if (pair > 0 || n < 6) && (pair < SUMMED_PAIRS_MAX as i64 || n == 6) {
                    trial.give(&flow.lasting(3500.0 + pair as f64));
                }
            }
        }
        let first = Some(crate::trial::at("1.2.3.0"));
        let of_first = |e: &&Evidence| e.victim.as_ref().and_then(Party::ip) == first;
        let reported = trial.reported.iter().filter(|e| e.kind == &LONG).rfind(of_first).unwrap();
        assert_eq!((reported.measures.count, reported.measures.duration_ns / SECOND), (6, 21_000));
    }

    #[test]
    fn the_sum_of_a_days_connections_is_reported() {
        let mut trial = Trial::new();
        for n in 0..14 {
            trial.give(&conn(n * 3600, "10.0.0.1", "1.2.3.4", 443).lasting(3500.0));
        }
        let found = trial.evidence_of(&LONG);
        let levels: Vec<_> = found.iter().map(|e| e.level).collect();
        assert_eq!(levels, [ThreatLevel::Low, ThreatLevel::Medium, ThreatLevel::High]);
        let values = ["5", "10.0.0.1", "1.2.3.4", "291", "0.443", "1", "-0.15", "0", "0.15"];
        assert!(has_values(&found[0], &values), "{}", found[0].description());
    }

    /// A flow that is seen open three times and then closed counts once, with what it lasted.
    #[test]
    fn open_flows_count_once() {
        let mut trial = Trial::new();
        for (n, hours) in [(0, 1.0), (1, 2.0), (2, 3.9), (3, 3.95), (4, 0.1)] {
            let mut flow = conn(n, "10.0.0.1", "1.2.3.4", 443).lasting(hours * 3600.0);
            flow.uid = if n < 4 { "Copen".into() } else { "Cother".into() };
            let mut r = flow.record();
            if let (Body::Conn(c), true) = (r.body, n < 3) {
                r.body = Body::OpenConn(OpenConn { so_far: c });
            }
            trial.record(&r);
        }
        let found = trial.evidence_of(&LONG);
        assert_eq!(found.len(), 1);
        assert!(has_values(&found[0], &["2", "243"]), "{}", found[0].description());
    }

    #[test]
    fn less_or_over_more_than_a_day_is_not() {
        let mut trial = Trial::new();
        for n in 0..4 {
            trial.give(&conn(n * 3600, "10.0.0.1", "1.2.3.4", 443).lasting(3500.0));
            trial.give(&conn(n * 30_000, "10.0.0.2", "1.2.3.4", 443).lasting(4000.0));
        }
        assert!(trial.evidence_of(&LONG).is_empty());
    }

    #[test]
    fn a_strobe_is_reported_once_among_many_destinations() {
        let mut trial = Trial::new();
        for n in 0..87_000i64 {
            let mut flow = conn(0, "10.0.0.1", "1.2.3.4", 443);
            flow.ts = n * SECOND * 9 / 10;
            trial.give(&flow);
            if n % 50 == 0 {
                let dst = format!("9.9.{}.{}", n / 50 / 200, n / 50 % 200);
                trial.give(&conn(n * 9 / 10, "10.0.0.1", &dst, 443).lasting(61.0));
            }
        }
        let found = trial.evidence_of(&STROBE);
        assert_eq!(found.len(), 1);
        assert!(has_values(&found[0], &["86400"]));
        let mut far = conn(0, "10.0.0.1", "1.2.3.4", 443).lasting(1e12);
        far.ts = i64::MAX / SECOND * SECOND;
        trial.give(&far);
        trial.end();
    }
}

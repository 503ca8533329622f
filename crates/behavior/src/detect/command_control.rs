//! Pairs whose flows are like those of a program that calls its controller: scored by their letters.
//!
//! `docs/command-and-control.md` says what the score is made of and what it is worth.

use super::{About, Detector, bit};
use crate::ahead::Ahead;
use crate::command_and_control::Score;
use crate::command_and_control::features::GROUPS;
use crate::command_and_control::letters;
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{LETTERED_PAIRS_MAX, LETTERS_MAX, reached};
use crate::prevalence::Prevalence;
use crate::rita;
use crate::said::Said;
use crate::settings::Settings;
use crate::sketch::Keyed;
use crate::state::{First, Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{CallKind, EvidenceType, Party, ThreatLevel, Topic};
use gabion_record::logs::{Body, LogKind, Proto, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("COMMAND_AND_CONTROL_CHANNEL", "T1071")
    .about(Topic::Call(CallKind::CommandAndControl));

/// The detector.
#[derive(Debug)]
pub(crate) struct CommandControl;

/// Flows before a pair is scored the first time.
pub const FIRST: u32 = 5;

state! {
    /// Pairs of one window.
    pub struct Pairs {
        pairs: Keyed<(Ip, u32), Pair, LETTERED_PAIRS_MAX>,
    }
}

state! {
    /// One destination and port. There are many, and each flow looks at several: what few have stands elsewhere.
    pub struct Pair {
        letters: Vec<u8>,
        last: TimeNs,
        gap: i64,
        flows: u32,
        asked: u32,
        reported: u8,
        then: Slot<Then>,
    }
}

state! {
    /// The last report of a pair, and what the site knew of the other end then.
    pub struct Then {
        said: Said,
        /// The other end is a proxy.
        is_proxy: bool,
        hosts: Most<u32>,
        of: Most<u32>,
        known_since: First,
    }
}

/// A destination and port of a window, to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple<'a> {
    /// The destination.
    pub to: Ip,
    /// Its port, of TCP.
    pub port: u16,
    /// Flows seen.
    pub flows: u32,
    /// What they look like, by `letters`.
    pub letters: &'a [u8],
}

impl Pairs {
    /// All of them.
    pub(crate) fn each(&self) -> impl Iterator<Item = Tuple<'_>> {
        self.pairs.iter().map(|((to, port), pair)| Tuple {
            to: *to,
            port: *port as u16,
            flows: pair.flows,
            letters: &pair.letters,
        })
    }
}

impl Detector for CommandControl {
    type Window = Pairs;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "the letters of a TCP pair's flows in a window (regularity, size, duration, gaps) \
            score like those of malware that calls its controller; scored at 5, 6, 8, 10, 12, 15 … \
            flows when both sides talk",
        level: "both ends high above the first threshold of the model, medium above the second; the \
            length of the string in hundredths",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    /// It says nothing of fewer than 5 flows.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    #[inline]
    fn prefetch(window: &Slot<Pairs>, _: &Slot<()>, ahead: &Ahead) -> usize {
        let Some(pairs) = window.peek() else { return 0 };
        let last = |p: &Pair| p.letters.last().map_or(0, |l| usize::from(*l));
        pairs.pairs.prefetch((ahead.dst, u32::from(ahead.dst_port)), |p| p.flows as usize ^ last(p))
    }

    #[inline]
    fn record(window: &mut Slot<Pairs>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        if cx.facts.is_answer || cx.facts.is_routine {
            return;
        }
        // Whose order is not known enters no string.
        if r.proto != Proto::Tcp || r.is_late || r.dst.is_multicast() || cx.profile != r.src {
            return;
        }
        let pairs = &mut window.make().pairs;
        let least = |_: &(Ip, u32), p: &Pair| (p.flows, p.last);
        let key = (r.dst, u32::from(r.dst_port));
        let limit = &reached::LETTERED_PAIRS_MAX;
        let (pair, gone) = pairs.get_or_replace(key, limit, least);
        if let Some((key, gone)) = gone
            && let Some(finding) =
                gone.last(key, cx.settings, || cx.find_last(&TYPE, cx.facts.window, gone.last))
        {
            let level = finding.0.level;
            let (src, other) = finding.ends(r.src, Party::destination(key.0), key.0, level);
            cx.say(other);
            cx.say(src);
        }
        let gap = (pair.flows > 0).then(|| r.ts.since(pair.last).max(0));
        let before = (pair.flows > 1).then_some(pair.gap);
        if pair.letters.len() < LETTERS_MAX {
            let bytes = c.orig_bytes.saturating_add(c.resp_bytes);
            letters::push(&mut pair.letters, gap, before, bytes, c.duration_ns);
        }
        (pair.last, pair.gap) = (r.ts, gap.unwrap_or(0));
        pair.flows = pair.flows.saturating_add(1);
        let is_due = pair.flows >= FIRST && pair.flows >= pair.asked;
        // A connection that carried nothing (a probe of a port, say) gives no orders: the next is asked.
        let is_empty = c.orig_bytes == 0 && c.resp_bytes == 0;
        if !is_due || is_empty || !c.is_established || pair.reported >= 2 {
            return;
        }
        pair.asked = pair.flows + (pair.flows / 4).max(1);
        judge(pair, cx);
    }

    fn close_window(window: &mut Slot<Pairs>, closing: &mut Closing<'_>) {
        let Some(pairs) = window.peek() else { return };
        for (key, pair) in pairs.pairs.iter() {
            let find = || closing.find(&TYPE, closing.window, pair.last);
            let Some(finding) = pair.last(*key, closing.settings, find) else { continue };
            let level = finding.0.level;
            closing.say_pair(finding, Party::destination(key.0), key.0, level);
        }
    }
}

fn judge(pair: &mut Pair, cx: &mut Context<'_, '_>) {
    let r = cx.record;
    let model = &cx.settings.command_and_control;
    let Some(found) = model.score(&pair.letters) else { return };
    let [high, medium] = model.levels;
    let (step, level) = match found.score {
        s if s >= high => (2, ThreatLevel::High),
        s if s >= medium => (1, ThreatLevel::Medium),
        _ => return,
    };
    if pair.reported >= step {
        return;
    }
    pair.reported = step;
    let known = &cx.facts.prevalence;
    let (hosts, of) = (Most(known.hosts), Most(known.of));
    let (said, is_proxy) = (Said::default(), cx.facts.is_proxy);
    let mut then = Then { said, is_proxy, hosts, of, known_since: First(known.first) };
    then.said.note(pair.flows.into(), cx.facts.window, level);
    let finding = pair.says(cx.find(&TYPE), &then, &found, (r.dst, r.dst_port), cx.settings);
    if cx.say_both(finding, level, level) {
        *pair.then.make() = then;
    }
}

impl Pair {
    /// Its last numbers, if it has grown since it was reported.
    fn last(
        &self,
        (dst, port): (Ip, u32),
        settings: &Settings,
        find: impl FnOnce() -> EvidenceBuilder,
    ) -> Option<EvidenceBuilder> {
        let then = self.then.peek().filter(|t| t.said.is_less(self.flows.into()))?;
        let found = settings.command_and_control.score(&self.letters)?;
        Some(self.says(find(), then, &found, (dst, port as u16), settings))
    }

    fn says(
        &self,
        finding: EvidenceBuilder,
        then: &Then,
        found: &Score,
        (dst, port): (Ip, u16),
        settings: &Settings,
    ) -> EvidenceBuilder {
        let named = match settings.services.name(port, Proto::Tcp) {
            Some(name) => format!("{name} {port}/tcp"),
            None => format!("{port}/tcp"),
        };
        let parts = GROUPS.iter().zip(found.parts).map(|(name, part)| format!("{name} {part:+.2}"));
        let parts: Vec<String> = parts.collect();
        let sure = (self.letters.len() as f64 / 100.0).min(1.0);
        let known = Prevalence { hosts: then.hosts.0, of: then.of.0, first: then.known_since.0 };
        let base = rita::HIGH * found.score * sure;
        let threat = rita::of_flow(base, &known, dst, self.last, settings);
        let mut finding = finding
            .level(then.said.level(), sure)
            .destination_port(port)
            .by("AI")
            .score(found.score)
            .says(
                "C&C channel, client IP: {src} server IP: {dst} port: {0} score: {score4}. {count} flows; {1}.{2}",
            )
            .word(named)
            .word(parts.join(", "))
            .word(if then.is_proxy { " The server is a proxy." } else { "" })
            .threat(threat);
        finding.0.measures.count = u64::from(self.flows);
        finding
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_and_control::Model;
    use crate::trial::{Trial, conn, has_values};
    use gabion_record::evidence::Evidence;
    use gabion_record::logs::SECOND;

    /// A table full of pairs: the channel that has to go says its last number, of both ends.
    #[test]
    fn a_channel_without_room_says_its_last_number() {
        let mut trial = Trial::new();
        for call in 0..12 {
            let second = call / 2 * 290 + call % 2 * 4;
            trial.give(&conn(second, "10.0.0.1", "1.2.3.4", 443).sending(600).lasting(0.5));
        }
        for other in 0..LETTERED_PAIRS_MAX {
            for n in 0..20 {
                trial.give(&conn(1_800 + n, "10.0.0.1", &format!("9.9.9.{other}"), 443));
            }
        }
        trial.end();
        let found = trial.reported_of(&TYPE);
        for profile in ["10.0.0.1", "1.2.3.4"] {
            let is_it = |e: &&Evidence| {
                e.profile == crate::trial::at(profile) && has_values(e, &["1.2.3.4"])
            };
            let counts: Vec<_> = found.iter().filter(is_it).map(|e| e.measures.count).collect();
            assert_eq!(counts.last(), Some(&12), "{profile}: {counts:?}");
        }
    }

    /// D9 of Slips: its model never runs for Zeek, whose states are no words.
    #[test]
    fn a_channel_is_reported_whatever_its_state_is_called() {
        let mut trial = Trial::new();
        for n in 0..40 {
            // Two calls of one size, then five minutes of silence: what Dridex does.
            let second = n / 2 * 290 + n % 2 * 4;
            let mut flow = conn(second, "10.0.0.1", "1.2.3.4", 443).sending(600).lasting(0.5);
            flow.state = "SF";
            trial.give(&flow);
        }
        let found = trial.evidence_of(&TYPE);
        assert!(found.len() >= 2, "{}", found.len());
        assert!(has_values(&found[0], &["1.2.3.4", "https", "443/tcp"]));
        for part in GROUPS {
            let values: Vec<&str> = part.split_whitespace().collect();
            assert!(has_values(&found[0], &values), "{part}: {}", found[0].description());
        }
    }

    /// Behind a proxy the channel is somebody else's: the finding says that its server is one.
    #[test]
    fn a_proxy_is_named_as_such() {
        use crate::trial::log;
        use gabion_record::logs::Http;
        let mut texts = Vec::new();
        for proxied in [false, true] {
            let mut trial = Trial::new();
            if proxied {
                let uri = b"a.example:443";
                let h = Http { method: b"CONNECT", uri, status: 200, ..Http::default() };
                trial.record(&log(0, "10.0.0.9", "10.0.0.250", Body::Http(h)));
            }
            for n in 0..40 {
                let mut flow = conn(n / 2 * 290 + n % 2 * 4, "10.0.0.1", "10.0.0.250", 3128);
                flow = flow.sending(600).lasting(0.5);
                trial.give(&flow);
            }
            let found: Vec<_> = trial.evidence_of(&TYPE).iter().map(|e| e.description()).collect();
            assert!(!found.is_empty());
            texts.push(found);
        }
        let (plain, proxied) = (&texts[0], &texts[1]);
        assert_eq!(plain.len(), proxied.len());
        for (plain, proxied) in plain.iter().zip(proxied) {
            assert!(proxied.len() > plain.len(), "{plain}: {proxied}");
        }
    }

    #[test]
    fn few_flows_udp_and_flows_without_answer_are_not_judged() {
        let mut trial = Trial::new();
        for n in 0..40 {
            trial.give(&conn(n * 20, "10.0.0.2", "1.2.3.4", 443).udp());
            trial.give(&conn(n * 20, "10.0.0.3", "1.2.3.4", 443).refused());
            if n < 4 {
                trial.give(&conn(n * 20, "10.0.0.4", "1.2.3.4", 443));
            }
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    /// Records of the past and the future, a flood of pairs: bounded, and the channel among them
    /// keeps its letters.
    #[test]
    fn odd_times_and_many_pairs_break_nothing() {
        let mut trial = Trial::new();
        for n in 0..2000i64 {
            let dst = format!("9.9.{}.{}", n / 200, n % 200);
            trial.give(&conn(n, "10.0.0.1", &dst, 443));
            if n % 100 == 0 {
                trial.give(&conn(n, "10.0.0.1", "1.2.3.4", 443));
            }
        }
        let mut late = conn(5, "10.0.0.1", "1.2.3.4", 443);
        late.is_late = true;
        trial.give(&late);
        let mut far = conn(0, "10.0.0.1", "1.2.3.4", 443);
        far.ts = i64::MAX / SECOND * SECOND;
        trial.give(&far);
        assert!(trial.profile_bytes("10.0.0.1") < 40 << 10);
        assert!(Model::default().levels[0] > Model::default().levels[1]);
    }
}

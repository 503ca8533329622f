//! A name resolved and then not used.
//!
//! Whether it is used shows within half an hour of event time; nothing waits longer than that, and
//! nothing waits at all in wall time. Without a log of flows the question makes no sense and is not
//! asked.

use super::{About, Detector, bit};
use crate::block_list;
use crate::context::Context;
use crate::context::Waking;
use crate::limits::{NAME_ANSWERS_MAX, VISITED_MAX, WAITING_MAX, reached};
use crate::names::is_below;
use crate::sketch::{Keyed, hash_ip, hash_text};
use crate::state::{Slot, state};
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, Indicator, Party, Role, ThreatLevel};
use gabion_record::logs::{Body, Dns, LogKind, SECOND, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("DNS_WITHOUT_CONNECTION", "T1071.004");

/// The detector.
#[derive(Debug)]
pub(crate) struct DnsWithoutConnection;

/// How long a connection may come after its name.
const PATIENCE: i64 = 1800 * SECOND;

state! {
    /// What a profile asked for, and where it went.
    pub struct Asked {
        waiting: Keyed<u64, Name, WAITING_MAX>,
        /// Where it went lately: hashes of addresses, and when.
        visited: Keyed<u64, TimeNs, VISITED_MAX>,
    }
}

state! {
    /// One name that waits.
    pub struct Name {
        name: String,
        uid: String,
        at: TimeNs,
        window: i64,
        answers: Vec<u64>,
    }
}

impl Detector for DnsWithoutConnection {
    type Window = ();
    type Kept = Asked;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "an A or AAAA query is answered by addresses and the source connects to none of \
            them within 30 min before or after; not names below arpa, local or cymru.com, nor what a \
            block list answers (127/8), nor names \
            without a dot or with a star; a name is reported once while it waits",
        level: "info; 0.8",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Dns) | bit(LogKind::Conn);

    /// It waits for names only.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    fn record(_: &mut Slot<()>, kept: &mut Slot<Asked>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        if r.is_late {
            return;
        }
        match &r.body {
            Body::Conn(_) => {
                // Only hosts that ask for names need to be remembered.
                let Some(asked) = kept.get() else { return };
                let to = hash_ip(r.dst);
                let is_lately = |ts: &TimeNs| r.ts.since(*ts) <= PATIENCE;
                let limit = &reached::VISITED_MAX;
                *asked.visited.get_or_renew(to, limit, is_lately, |_, ts| *ts) = r.ts;
                asked.waiting.retain(|_, name| !name.answers.contains(&to));
            }
            Body::Dns(d) => {
                let is_meant = matches!(d.qtype, b"A" | b"AAAA")
                    && (d.rcode == b"NOERROR" || d.rcode.is_empty())
                    && d.query.contains(&b'.')
                    && !d.query.contains(&b'*')
                    && !is_verdict(d)
                    && !["arpa", "local", "cymru.com"]
                        .iter()
                        .any(|parent| is_below(d.query, parent.as_bytes()));
                if !is_meant {
                    return;
                }
                let mut all = d.answers.iter().filter_map(Ip::parse).map(hash_ip);
                let answers: Vec<u64> = all.by_ref().take(NAME_ANSWERS_MAX).collect();
                if all.next().is_some() {
                    reached::NAME_ANSWERS_MAX.count();
                }
                if answers.is_empty() {
                    return;
                }
                let asked = kept.make();
                let was_visited = answers
                    .iter()
                    .any(|to| asked.visited.get(*to).is_some_and(|ts| r.ts.since(*ts) <= PATIENCE));
                let key = hash_text(&d.query.to_ascii_lowercase());
                if was_visited {
                    asked.waiting.remove(key);
                    return;
                }
                if let Some(name) = asked.waiting.get(key) {
                    for answer in answers {
                        if !name.answers.contains(&answer)
                            && reached::NAME_ADDRESSES_MAX.has_room(name.answers.len())
                        {
                            name.answers.push(answer);
                        }
                    }
                    return;
                }
                let name = Name {
                    name: text(d.query),
                    uid: text(r.uid),
                    at: r.ts,
                    window: cx.facts.window,
                    answers,
                };
                if asked.waiting.add(key, name, &reached::WAITING_MAX).is_some() {
                    cx.wake(r.ts.plus(PATIENCE));
                }
            }
            _ => {}
        }
    }

    fn wake(kept: &mut Slot<Asked>, waking: &mut Waking<'_>) {
        let Some(asked) = kept.get() else { return };
        let mut due = Vec::new();
        let mut next = None::<TimeNs>;
        asked.waiting.retain(|_, name| {
            let at = name.at.plus(PATIENCE);
            if !waking.is_end && at > waking.now {
                next = Some(next.map_or(at, |n| n.min(at)));
                return true;
            }
            due.push(std::mem::take(name));
            false
        });
        if let Some(next) = next {
            *waking.timer = (*waking.timer).min(next);
        }
        for name in due {
            let what = name.name;
            let mut finding = waking.find(&TYPE, name.at, name.window);
            finding.0.victim =
                Some(Party { role: Role::Destination, what: Indicator::Domain(what) });
            if !name.uid.is_empty() {
                finding.0.uids.push(name.uid);
            }
            waking.say(
                finding
                    .level(ThreatLevel::Info, 0.8)
                    .says("domain {dst} resolved with no connection"),
            );
        }
    }
}

/// Whether a block list answered, so that there is nothing to be connected to.
fn is_verdict(d: &Dns<'_>) -> bool {
    let mut answers = d.answers.iter().filter_map(Ip::parse);
    block_list::zone(d.query).is_some() && answers.all(block_list::is_verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values, log};
    use gabion_record::logs::{Dns, List};

    fn ask(trial: &mut Trial, second: i64, query: &str, answers: &str) {
        let answers = List { raw: answers.as_bytes(), is_json: false };
        let (qtype, rcode) = (&b"A"[..], &b"NOERROR"[..]);
        let body = Dns { query: query.as_bytes(), qtype, rcode, answers, ..Dns::default() };
        trial.record(&log(second, "10.0.0.1", "8.8.8.8", Body::Dns(body)));
    }

    #[test]
    fn a_name_without_use_is_reported_after_half_an_hour_of_event_time() {
        let mut trial = Trial::new();
        ask(&mut trial, 0, "a.example", "1.2.3.4");
        trial.give(&conn(1700, "10.0.0.1", "9.9.9.9", 443));
        assert!(trial.evidence_of(&TYPE).is_empty());
        trial.give(&conn(1900, "10.0.0.1", "9.9.9.9", 443));
        let found = trial.evidence_of(&TYPE);
        assert_eq!(found.len(), 1);
        assert!(has_values(&found[0], &["a.example"]), "{}", found[0].description());
    }

    #[test]
    fn a_connection_before_or_after_answers() {
        let mut trial = Trial::new();
        ask(&mut trial, 0, "z.example", "3.3.3.3");
        trial.give(&conn(1, "10.0.0.1", "3.3.3.3", 443));
        trial.give(&conn(2, "10.0.0.1", "1.2.3.4", 443));
        ask(&mut trial, 3, "a.example", "1.2.3.4,5.6.7.8");
        ask(&mut trial, 4, "b.example", "5.6.7.9");
        trial.give(&conn(1700, "10.0.0.1", "5.6.7.9", 443));
        for query in ["host.local", "nodot", "*.example", "1.0.0.127.in-addr.arpa"] {
            ask(&mut trial, 5, query, "4.4.4.4");
        }
        trial.end();
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn a_flood_of_names_is_bounded_and_the_end_decides() {
        let mut trial = Trial::new();
        for n in 0..10_000 {
            ask(&mut trial, n / 100, &format!("n{n}.example"), "1.2.3.4");
        }
        assert!(trial.profile_bytes("10.0.0.1") < 64 << 10);
        trial.end();
        assert_eq!(trial.evidence_of(&TYPE).len(), WAITING_MAX);
    }
}

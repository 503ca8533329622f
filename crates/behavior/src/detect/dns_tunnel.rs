//! Many distinct names below one registered domain: data that leaves by queries (RITA's C2 over DNS).

use super::{About, Detector, bit};
use crate::block_list;
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{TUNNEL_DOMAINS_MAX, reached};
use crate::names::{is_below, registered};
use crate::rita;
use crate::said::Said;
use crate::settings::Settings;
use crate::sketch::{Hosts, Keyed, hash_text};
use crate::state::{First, Most, Slot, state};
use crate::text::text;
use gabion_record::evidence::{CallKind, EvidenceType, ThreatLevel, Topic};
use gabion_record::logs::{Body, LogKind, Proto, SECOND, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType =
    EvidenceType::new("DNS_TUNNEL", "T1071.004").about(Topic::Call(CallKind::DnsTunnel));

const SAYS: &str = "possible DNS tunnel. {profile} asked for about {count} distinct names below {dst} in \
    {minutes} minutes. Threat {0}.";

/// The detector.
#[derive(Debug)]
pub(crate) struct DnsTunnel;

/// Names of a day and the level from each on: RITA's low, medium and high.
const NAMES: [(u64, ThreatLevel); 3] =
    [(1000, ThreatLevel::High), (800, ThreatLevel::Medium), (500, ThreatLevel::Low)];
/// Names from which on it matters whether anything below the domain is connected to: RITA's base.
const WATCHED: u64 = 100;
const DAY: i64 = 24 * 3600 * SECOND;

state! {
    /// Of one source.
    pub struct Asked {
        domains: Keyed<u64, Names, TUNNEL_DOMAINS_MAX>,
        /// The input has logs that name the destinations of connections.
        has_named: bool,
    }
}

state! {
    /// Below one registered domain.
    pub struct Names {
        names: Hosts,
        first: First,
        last: TimeNs,
        reported: Most<u64>,
        said: Said,
        proto: Most<u8>,
        /// The domain, once it was reported.
        domain: String,
        /// Connections to names below it since there were `WATCHED`.
        connections: u64,
    }
}

impl Names {
    fn says(
        &self,
        finding: EvidenceBuilder,
        has_named: bool,
        now: TimeNs,
        settings: &Settings,
    ) -> EvidenceBuilder {
        let (count, connections) = (self.names.len(), has_named.then_some(self.connections));
        let score = rita::of_names(count, connections, self.domain.as_bytes(), now, settings);
        finding
            .level(self.said.level(), 0.8)
            .victim_domain(self.domain.clone())
            .since(self.first.0, count)
            .lasting(self.last.since(self.first.0))
            .says(SAYS)
            .threat(score.threat())
            .word(score.words())
    }
}

impl Asked {
    /// Takes in that a connection is for a name.
    fn connected(&mut self, name: &[u8]) {
        self.has_named = true;
        if self.domains.iter().all(|(_, names)| names.names.len() < WATCHED) {
            return;
        }
        let lower = name.to_ascii_lowercase();
        if let Some(names) = registered(&lower).and_then(|d| self.domains.get(hash_text(d))) {
            names.connections += u64::from(names.names.len() >= WATCHED);
        }
    }
}

impl Detector for DnsTunnel {
    type Window = ();
    type Kept = Asked;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "500, 800, 1,000 distinct names below one registered domain (by the list of public \
            suffixes) asked for within a day; not below arpa or local, nor look-ups \
            at known operators of block lists; the text names RITA's threat score, \
            which knows whether lists name the domain, and, where the input has logs that show it, whether anything below it was connected to",
        level: "from 1,000 on high, 800 medium, 500 low; 0.8",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Dns) | bit(LogKind::Http) | bit(LogKind::Ssl);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Asked>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let d = match &r.body {
            Body::Dns(d) => d,
            Body::Http(h) => {
                return kept.get().into_iter().for_each(|asked| asked.connected(h.host));
            }
            Body::Ssl(s) => {
                return kept.get().into_iter().for_each(|asked| asked.connected(s.server_name));
            }
            _ => return,
        };
        if r.is_late || is_below(d.query, b"arpa") || is_below(d.query, b"local") {
            return;
        }
        let lower = d.query.to_ascii_lowercase();
        let Some(domain) = registered(&lower) else { return };
        if domain.len() >= lower.len() || block_list::operator(&lower).is_some() {
            return;
        }
        let least = |_: &u64, n: &Names| (n.names.len(), n.last);
        let asked = kept.make();
        let has_named = asked.has_named;
        let domains = &mut asked.domains;
        let (key, limit) = (hash_text(domain), &reached::TUNNEL_DOMAINS_MAX);
        let (names, gone) = domains.get_or_replace(key, limit, least);
        let mut gone = gone.map(|(_, gone)| gone);
        if r.ts.since(names.first.0) > DAY {
            gone = Some(std::mem::take(names));
        }
        // Its day is over, or it is evicted.
        if let Some(gone) = gone.filter(|gone| gone.said.is_less(gone.names.len())) {
            let finding = cx.find_last(&TYPE, gone.said.window(), gone.last);
            let proto = Proto::from_kept(gone.proto.0).unwrap_or_default();
            cx.say(gone.says(finding.protocol(proto), has_named, gone.last, cx.settings));
        }
        names.first.see(r.ts);
        names.last = r.ts;
        if !names.names.insert_hash(hash_text(&lower)) {
            return;
        }
        let count = names.names.len();
        let Some((least, level)) = NAMES.iter().find(|(least, _)| count >= *least) else { return };
        if names.reported.0 >= *least {
            return;
        }
        names.reported = Most(*least);
        names.said.note(count, cx.facts.window, *level);
        names.proto = Most(r.proto as u8);
        if names.domain.is_empty() {
            names.domain = text(domain);
        }
        let finding = names.says(cx.find(&TYPE), has_named, r.ts, cx.settings);
        cx.say(finding);
    }

    fn close_kept(kept: &mut Slot<Asked>, closing: &mut Closing<'_>) {
        let Some(asked) = kept.peek() else { return };
        for (_, names) in asked.domains.iter().filter(|(_, n)| n.said.is_less(n.names.len())) {
            let proto = Proto::from_kept(names.proto.0).unwrap_or_default();
            let finding = closing.find(&TYPE, names.said.window(), names.last).protocol(proto);
            closing.say(names.says(finding, asked.has_named, names.last, closing.settings));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, has_values, log};
    use gabion_record::evidence::Evidence;
    use gabion_record::logs::{Dns, Http, Ssl};

    fn ask(trial: &mut Trial, second: i64, name: &str) {
        let d = Dns { query: name.as_bytes(), ..Dns::default() };
        trial.record(&log(second, "10.0.0.1", "8.8.8.8", Body::Dns(d)));
    }

    #[test]
    fn names_below_a_registered_domain_are_counted() {
        let mut trial = Trial::new();
        for n in 0..1200 {
            ask(&mut trial, n, &format!("{n:x}.data.Tunnel.co.uk"));
        }
        let levels: Vec<_> = trial.evidence_of(&TYPE).iter().map(|e| e.level).collect();
        assert_eq!(levels, [ThreatLevel::Low, ThreatLevel::Medium, ThreatLevel::High]);
        assert!(has_values(&trial.evidence_of(&TYPE)[0], &["tunnel.co.uk"]));
    }

    /// A tunnel that domains with more names push out of the table reports its number of names so far.
    #[test]
    fn a_tunnel_that_has_no_room_any_more_says_its_last_number() {
        let mut trial = Trial::new();
        (0..600).for_each(|n| ask(&mut trial, n, &format!("{n:x}.first.example")));
        for n in 0..800 {
            for domain in 1..TUNNEL_DOMAINS_MAX {
                ask(&mut trial, 600 + n, &format!("{n:x}.other{domain}.example"));
            }
        }
        ask(&mut trial, 1500, "one.more.last.example");
        trial.end();
        let is_first = |e: &&Evidence| has_values(e, &["first.example"]);
        let reported = trial.reported.iter().rfind(is_first).unwrap();
        assert!(reported.measures.count.abs_diff(600) < 12, "{}", reported.measures.count);
    }

    #[test]
    fn repeats_and_other_domains_are_no_tunnel() {
        let mut trial = Trial::new();
        for n in 0..3000 {
            ask(&mut trial, n, &format!("{}.tunnel.example", n % 400));
            ask(&mut trial, n, &format!("host.site{n}.example"));
            ask(&mut trial, n, &format!("{n}.1.168.192.in-addr.arpa"));
            ask(&mut trial, n, &format!("shop{n}.co.uk"));
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    fn connect(trial: &mut Trial, second: i64, name: &str) {
        let s = Ssl { server_name: name.as_bytes(), ..Ssl::default() };
        trial.record(&log(second, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
        let h = Http { host: name.as_bytes(), ..Http::default() };
        trial.record(&log(second, "10.0.0.1", "1.2.3.4", Body::Http(h)));
    }

    /// It adds to the score that nothing below the domain is connected to, if the input would show it: a connection
    /// below it, even one, takes that away, one before a hundred names does not.
    #[test]
    fn a_domain_that_is_only_asked_for_is_worth_more() {
        let is_more = |elsewhere: &str, at: i64| {
            let mut trial = Trial::new();
            for n in 0..600 {
                ask(&mut trial, n, &format!("{n:x}.data.tunnel.example"));
                if n == at {
                    connect(&mut trial, n, elsewhere);
                }
            }
            has_values(&trial.evidence_of(&TYPE)[0], &["0.15"])
        };
        assert!(is_more("www.example", 200));
        assert!(is_more("", 200));
        assert!(is_more("tunnel.example", 50));
        assert!(!is_more("WWW.Tunnel.example", 200));
        assert!(!is_more("", 1000));
    }

    /// Odd names, many domains and odd times: bounded, and days are counted apart.
    #[test]
    fn odd_names_break_nothing() {
        let mut trial = Trial::new();
        for n in 0..400i64 {
            ask(&mut trial, n, &format!("{n}.a.tunnel.example"));
            ask(&mut trial, 90_000 + n, &format!("x{n}.a.tunnel.example"));
        }
        for name in ["", ".", "..", "a..b.c", "\u{e9}.\u{e9}", &"a.".repeat(200)] {
            ask(&mut trial, 100_000, name);
            connect(&mut trial, 100_000, name);
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
        assert!(trial.profile_bytes("10.0.0.1") < 16 << 10);
    }
}

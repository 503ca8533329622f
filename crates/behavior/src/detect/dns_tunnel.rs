//! Many distinct names below one registered domain: data that leaves by queries (RITA's C2 over DNS).

use super::dga::is_below;
use super::{About, Detector, bit};
use crate::finding::{Context, text};
use crate::sketch::{Hosts, Keyed, hash_text};
use crate::state::{First, Most, Slot, state};
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, SECOND, TimeNs};

/// Its evidence.
pub static TYPE: EvidenceType = EvidenceType { name: "DNS_TUNNEL", technique: "T1071.004" };

/// The detector.
#[derive(Debug)]
pub struct DnsTunnel;

/// Registered domains of a source, by how many names below them it asked for.
const DOMAINS_MAX: usize = 8;
/// Names of a day and the level from each on: RITA's low, medium and high.
const NAMES: [(u64, ThreatLevel); 3] =
    [(1000, ThreatLevel::High), (800, ThreatLevel::Medium), (500, ThreatLevel::Low)];
const DAY: i64 = 24 * 3600 * SECOND;

state! {
    /// Of one source.
    pub struct Asked {
        domains: Keyed<u64, Names, DOMAINS_MAX>,
    }
}

state! {
    /// Below one registered domain.
    pub struct Names {
        names: Hosts,
        first: First,
        last: TimeNs,
        told: Most<u64>,
    }
}

/// The part of a name that is registered, by the list of public suffixes.
pub(crate) fn registered(name: &[u8]) -> Option<&[u8]> {
    let name = name.strip_suffix(b".").unwrap_or(name);
    psl::domain(name).map(|d| d.as_bytes())
}

impl Detector for DnsTunnel {
    type Window = ();
    type Kept = Asked;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "500, 800, 1,000 distinct names below one registered domain (by the list of public \
            suffixes) asked for within a day; not below arpa or local",
        level: "from 1,000 on high, 800 medium, 500 low; 0.8",
        settings: &[],
    };
    const KINDS: u16 = bit(LogKind::Dns);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Asked>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Dns(d) = &r.body else { return };
        if r.is_late || is_below(d.query, b"arpa") || is_below(d.query, b"local") {
            return;
        }
        let lower = d.query.to_ascii_lowercase();
        let Some(domain) = registered(&lower) else { return };
        if domain.len() >= lower.len() {
            return;
        }
        let least = |_: &u64, n: &Names| (n.names.len(), n.last);
        let domains = &mut kept.make().domains;
        let Some(names) = domains.get_or_admit(hash_text(domain), |_| true, least) else { return };
        if r.ts.since(names.first.0) > DAY {
            *names = Names::default();
        }
        names.first.see(r.ts);
        names.last = r.ts;
        if !names.names.insert_hash(hash_text(&lower)) {
            return;
        }
        let count = names.names.len();
        let Some((least, level)) = NAMES.iter().find(|(least, _)| count >= *least) else { return };
        if names.told.0 >= *least {
            return;
        }
        names.told = Most(*least);
        let first = names.first.0;
        let finding = cx
            .find(&TYPE)
            .level(*level, 0.8)
            .victim_domain(text(domain))
            .since(first, count)
            .says(format!(
                "possible DNS tunnel. {} asked for about {count} distinct names below {} in {} \
                 minutes.",
                cx.profile,
                text(domain),
                r.ts.since(first) / SECOND / 60
            ));
        cx.say(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Dns;

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
        let levels: Vec<_> = trial.of(&TYPE).iter().map(|e| e.level).collect();
        assert_eq!(levels, [ThreatLevel::Low, ThreatLevel::Medium, ThreatLevel::High]);
        assert!(trial.of(&TYPE)[0].description.contains("below tunnel.co.uk in"));
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
        assert!(trial.of(&TYPE).is_empty());
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
        }
        assert!(trial.of(&TYPE).is_empty());
        assert!(trial.profile_bytes("10.0.0.1") < 16 << 10);
    }
}

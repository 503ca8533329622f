//! Domains that were registered lately, by a table from a file.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::names::registered;
use crate::sketch::hash_text;
use crate::state::Slot;
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, Indicator, Party, Role, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("YOUNG_DOMAIN", "T1583.001");

/// The detector.
#[derive(Debug)]
pub(crate) struct YoungDomain;

/// Days that a domain is young.
const YOUNG: i64 = 60;

impl Detector for YoungDomain {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a name below a domain that was registered less than 60 days before, by the table of \
            `gabion.domain_ages` (nothing is asked over the network); at the 1st, 10th, 100th … time",
        level: "low for the domain, info for the source; 1",
        settings: &["gabion.domain_ages"],
    };
    const KINDS: u32 = bit(LogKind::Dns) | bit(LogKind::Ssl) | bit(LogKind::Http);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let ages = cx.settings.intel.ages();
        if ages.is_empty() || cx.profile != r.src {
            return;
        }
        let (name, at) = match &r.body {
            Body::Dns(d) => (d.query, d.answers.iter().find_map(Ip::parse)),
            Body::Ssl(s) => (s.server_name, Some(r.dst)),
            Body::Http(h) => (h.host, Some(r.dst)),
            _ => return,
        };
        let lower = name.to_ascii_lowercase();
        let Some(domain) = registered(&lower) else { return };
        let Some(day) = ages.get(domain) else { return };
        let age = r.ts.seconds().div_euclid(86_400) - day;
        if !(0..YOUNG).contains(&age) {
            return;
        }
        let Some(times) = cx.is_due(&TYPE, hash_text(domain)) else { return };
        let mut finding = cx
            .find(&TYPE)
            .level(ThreatLevel::Info, 1.0)
            .says("connection to a young domain: {0} registered {1} days ago.")
            .word(text(name))
            .word(age.to_string())
            .seen(times);
        let party = Party { role: Role::Destination, what: Indicator::Domain(text(name)) };
        match at {
            Some(ip) => {
                cx.say_pair(finding, party, ip, ThreatLevel::Low);
            }
            None => {
                finding.0.victim = Some(party);
                cx.say(finding);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::Purpose;
    use crate::intel::tests::intel;
    use crate::settings::Settings;
    use crate::trial::{Trial, has_values, log};
    use gabion_record::logs::Ssl;
    use std::sync::Arc;

    fn visit(day: i64, name: &str, times: i64) -> Vec<gabion_record::evidence::Evidence> {
        let table = "new.co.uk,1970-04-11\n";
        let intel = intel(&[("ages", Purpose::Ages, table)], 7);
        let mut trial = Trial::with(Settings { intel: Arc::new(intel), ..Settings::default() });
        for n in 0..times {
            let s = Ssl { server_name: name.as_bytes(), ..Ssl::default() };
            trial.record(&log(day * 86_400 + n, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
        }
        trial.evidence_of(&TYPE)
    }

    #[test]
    fn sixty_days_are_young() {
        // The hundredth day of 1970 is the eleventh of April.
        let found = visit(100, "www.New.co.uk", 1);
        assert_eq!(found.len(), 2);
        assert!(has_values(&found[0], &["www.New.co.uk", "0"]));
        assert_eq!(visit(159, "new.co.uk", 9).len(), 2);
        assert!(visit(160, "new.co.uk", 9).is_empty());
    }

    #[test]
    fn before_its_time_and_odd_names_are_not() {
        assert!(visit(99, "new.co.uk", 1).is_empty());
        for name in ["", ".", "co.uk", "notnew.co.uk", "new.co.uk.example"] {
            assert!(visit(100, name, 3).is_empty(), "{name}");
        }
        assert!(visit(i64::MAX / 86_400 / 1_000_000_000, "new.co.uk", 1).is_empty());
    }

    /// Many sources, late and repeated visits, each name at each of its parents: once for each source and
    /// name, in bounded state.
    #[test]
    fn repeats_late_and_many_are_reported_once_each() {
        let intel = intel(&[("ages", Purpose::Ages, "new.co.uk,1970-04-11\n")], 7);
        let mut trial = Trial::with(Settings { intel: Arc::new(intel), ..Settings::default() });
        for n in 0..3000i64 {
            let src = format!("10.0.{}.1", n % 3);
            let name = format!("n{}.new.co.uk", n % 2);
            let s = Ssl { server_name: name.as_bytes(), ..Ssl::default() };
            let second = 100 * 86_400 + (n * 7919) % 600;
            let mut r = log(second, &src, "1.2.3.4", Body::Ssl(s));
            r.is_late = n % 5 == 0;
            trial.record(&r);
        }
        let found = trial.evidence_of(&TYPE);
        assert!(!found.is_empty());
        let mut ids: Vec<String> = found.iter().map(|e| e.report_id.to_string()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), found.len());
        assert!(found.len() <= 2 * 3 * 2 * 4, "{}", found.len());
        assert!(trial.profile_bytes("10.0.0.1") < 4 << 10);
    }
}

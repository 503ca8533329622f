//! A name that is answered by a private address.

use super::{About, Detector, bit};
use crate::block_list;
use crate::context::Context;
use crate::names::is_below;
use crate::sketch::hash_text;
use crate::state::Slot;
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("INVALID_DNS_RESOLUTION", "T1584.002");

/// The detector.
#[derive(Debug)]
pub(crate) struct InvalidDns;

impl Detector for InvalidDns {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "an answer is a private address; not for localhost or names below local or arpa, \
            nor the verdict (127/8) of a block list; \
            at the 1st, 10th, 100th … time by name",
        level: "info; 0.8",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Dns);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Dns(d) = &r.body else { return };
        if d.query == b"localhost" || is_below(d.query, b"local") || is_below(d.query, b"arpa") {
            return;
        }
        let is_listed = block_list::zone(d.query).is_some();
        let is_odd = |ip: &Ip| ip.is_private() && !(is_listed && block_list::is_verdict(*ip));
        let Some(answer) = d.answers.iter().filter_map(Ip::parse).find(is_odd) else { return };
        cx.say_damped(hash_text(d.query), |cx| {
            cx.find(&TYPE)
                .level(ThreatLevel::Info, 0.8)
                .victim_domain(text(d.query))
                .says("Invalid DNS answer. The DNS query {dst} was resolved to the private IP: {0}")
                .word(answer.to_string())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::{Dns, List};

    fn found(query: &str, answers: &str, times: i64) -> usize {
        let mut trial = Trial::new();
        for n in 0..times {
            let answers = List { raw: answers.as_bytes(), is_json: false };
            let body = Dns { query: query.as_bytes(), answers, ..Dns::default() };
            trial.record(&log(n, "10.0.0.1", "8.8.8.8", Body::Dns(body)));
        }
        trial.evidence_of(&TYPE).len()
    }

    #[test]
    fn private_answers_are_reported() {
        assert_eq!(found("a.example", "8.8.4.4,192.168.1.1", 1), 1);
    }

    #[test]
    fn public_answers_and_local_names_are_not() {
        assert_eq!(found("a.example", "8.8.4.4", 1), 0);
        assert_eq!(found("printer.local", "192.168.1.1", 1), 0);
        assert_eq!(found("localhost", "127.0.0.1", 1), 0);
        assert_eq!(found("1.2.3.4.zen.spamhaus.org", "127.0.0.11", 1), 0);
        assert_eq!(found("1.2.3.4.zen.spamhaus.org", "192.168.1.1", 1), 1);
        assert_eq!(found("a.example", "127.0.0.11", 1), 1);
    }

    #[test]
    fn repeats_are_damped() {
        assert_eq!(found("a.example", "10.0.0.1", 99), 2);
    }
}

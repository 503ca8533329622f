//! Many names that do not exist.

use super::{About, Detector, bit};
use crate::block_list;
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::names::is_below;
use crate::sketch::{Hosts, hash_text};
use crate::state::{First, Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("DGA_NXDOMAINS", "T1568.002");

const SAYS: &str =
    "Possible DGA or domain scanning. {profile} failed to resolve {count} different domains";

/// The detector.
#[derive(Debug)]
pub(crate) struct Dga;

/// Names that make it, and the distance to the next report at first.
const NAMES: u64 = 10;

state! {
    /// Names of one window that do not exist.
    pub struct Missing {
        names: Hosts,
        first: First,
        last: TimeNs,
        reported: Most<u64>,
        /// The servers that were asked when it was last reported.
        server: Ip,
    }
}

impl Detector for Dga {
    type Window = Missing;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "NXDOMAIN for 10 distinct names in a window, then at every 5 up to 100 and every \
            tenth part more beyond; not names below arpa or local; all look-ups below one block list (a \
            reversed address before its zone, or a known operator of lists) are one name",
        level: "high; a hundredth for each name",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Dns);

    fn record(window: &mut Slot<Missing>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Dns(d) = &r.body else { return };
        if !contains(d.rcode, b"NXDOMAIN")
            || is_below(d.query, b"arpa")
            || is_below(d.query, b"local")
        {
            return;
        }
        let missing = window.make();
        missing.first.see(r.ts);
        missing.last = missing.last.max(r.ts);
        let lower = d.query.to_ascii_lowercase();
        let name = block_list::zone(&lower).unwrap_or(&lower);
        if !missing.names.insert_hash(hash_text(name)) {
            return;
        }
        let count = missing.names.len();
        let next = match missing.reported.0 {
            0 => NAMES,
            reported => reported + (reported / 10).max(5),
        };
        if count < next {
            return;
        }
        missing.reported = Most(count);
        missing.server = r.dst;
        let finding = missing.says(cx.find(&TYPE));
        cx.say(finding);
    }

    fn close_window(window: &mut Slot<Missing>, closing: &mut Closing<'_>) {
        let Some(missing) = window.peek().filter(|m| m.reported.0 > 0) else { return };
        let finding = missing.says(closing.find(&TYPE, closing.window, missing.last));
        closing.say(finding);
    }
}

impl Missing {
    fn says(&self, finding: EvidenceBuilder) -> EvidenceBuilder {
        let count = self.names.len();
        finding
            .protocol(Proto::Udp)
            .level(ThreatLevel::High, (count as f64 / 100.0).min(1.0))
            .victim_now(self.server)
            .since(self.first.0, count)
            .says(SAYS)
    }
}

/// Whether a text contains a word, as it is written.
pub(crate) fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|w| w == word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Dns;

    fn ask(trial: &mut Trial, second: i64, name: &str) {
        let body = Dns { query: name.as_bytes(), rcode: b"NXDOMAIN", ..Dns::default() };
        trial.record(&log(second, "10.0.0.1", "8.8.8.8", Body::Dns(body)));
    }

    #[test]
    fn ten_names_and_every_five_more() {
        let mut trial = Trial::new();
        for n in 0..21 {
            ask(&mut trial, n, &format!("x{n}.example"));
            let count = match n {
                0..9 => 0,
                9..14 => 1,
                14..19 => 2,
                _ => 3,
            };
            assert_eq!(trial.evidence_of(&TYPE).len(), count, "{n}");
        }
        let found = trial.evidence_of(&TYPE);
        assert_eq!((found[0].confidence, found[2].confidence), (0.1, 0.2));
    }

    /// D6 of Slips: one name asked for again and again is one name.
    #[test]
    fn one_name_is_one_name() {
        let mut trial = Trial::new();
        for n in 0..100 {
            ask(&mut trial, n, if n % 2 == 0 { "isatap.example" } else { "ISATAP.example" });
            ask(&mut trial, n, &format!("{n}.2.0.192.in-addr.arpa"));
            ask(&mut trial, n, &format!("p{n}.local"));
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    /// A mail server asks block lists about a new address each time: one name a list. As many zones are as many names.
    #[test]
    fn look_ups_below_a_block_list_are_one_name() {
        let mut trial = Trial::new();
        for n in 0..200 {
            ask(&mut trial, n, &format!("{}.{n}.31.83.zen.spamhaus.org", n % 7));
            ask(&mut trial, n, &format!("7.{n}.31.83.list.example"));
            ask(&mut trial, n, &format!("host{n}.example.multi.surbl.org"));
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
        for n in 0..10 {
            ask(&mut trial, 300, &format!("7.6.31.83.list{n}.example"));
        }
        assert_eq!(trial.evidence_of(&TYPE).len(), 1);
    }

    #[test]
    fn a_flood_of_names_is_reported_seldom_and_takes_little_memory() {
        let mut trial = Trial::new();
        for n in 0..100_000 {
            ask(&mut trial, n / 50, &format!("x{n}.example"));
        }
        assert!(trial.evidence_of(&TYPE).len() < 120, "{}", trial.evidence_of(&TYPE).len());
        assert!(trial.profile_bytes("10.0.0.1") < 16 << 10);
    }
}

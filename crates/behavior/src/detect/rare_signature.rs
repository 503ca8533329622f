//! A user agent or JA3 that a source uses for one destination only, in addition to others that it uses more
//! widely (RITA's rare signatures): a program of its own that talks to one server.

use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{SIGNATURES_MAX, reached};
use crate::rita;
use crate::said::Said;
use crate::sketch::{Keyed, hash_ip, hash_text};
use crate::state::{First, Most, Slot, state};
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto, SECOND, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("RARE_SIGNATURE", "T1071.001");

/// The detector.
#[derive(Debug)]
pub(crate) struct RareSignature;

/// Uses before it is reported, and the least time that they cover.
const USES: u32 = 10;
const SPAN: i64 = 3600 * SECOND;

state! {
    /// Of one source.
    pub struct Signatures {
        by_hash: Keyed<u64, Signature, SIGNATURES_MAX>,
    }
}

state! {
    /// One agent or JA3.
    pub struct Signature {
        dst: u64,
        is_wide: bool,
        uses: u32,
        first: First,
        last: TimeNs,
        said: Said,
        /// Once it was reported: its destination, whether it is a JA3, and the signature.
        to: Ip,
        proto: Most<u8>,
        is_ja3: bool,
        text: String,
    }
}

impl Signature {
    /// Whether it was reported and used again since. One that went to another destination too is no longer rare, and
    /// its last report is final.
    fn has_grown(&self) -> bool {
        !self.is_wide && self.said.is_less(self.uses.into())
    }

    /// Its last numbers.
    fn says_last(&self, finding: EvidenceBuilder, key: u64) -> EvidenceBuilder {
        let proto = Proto::from_kept(self.proto.0).unwrap_or_default();
        self.says(finding.protocol(proto), key).any_port()
    }

    fn says(&self, finding: EvidenceBuilder, key: u64) -> EvidenceBuilder {
        finding
            .level(ThreatLevel::Low, 0.5)
            .victim(self.to)
            .about(key)
            .since(self.first.0, self.uses.into())
            .says("Rare signature. {src} uses the {0} {1} for {dst} only, {count} times.")
            .word(if self.is_ja3 { "JA3" } else { "user agent" })
            .word(self.text.clone())
    }
}

impl Detector for RareSignature {
    type Window = ();
    type Kept = Signatures;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a user agent or JA3 is used ten times over an hour or more for one destination \
            only, by a source that uses another one for several",
        level: "low; 0.5",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Http) | bit(LogKind::Ssl);

    fn record(_: &mut Slot<()>, kept: &mut Slot<Signatures>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let (is_ja3, signature) = match &r.body {
            Body::Http(h) => (false, h.user_agent),
            Body::Ssl(s) => (true, s.ja3),
            _ => return,
        };
        if signature.is_empty() || r.is_late || cx.profile != r.src {
            return;
        }
        let all = &mut kept.make().by_hash;
        let least = |_: &u64, s: &Signature| (s.is_wide, s.uses, s.last);
        let key = hash_text(signature);
        let limit = &reached::SIGNATURES_MAX;
        let (one, gone) = all.get_or_replace(key, limit, least);
        if let Some((key, gone)) = gone.filter(|(_, gone)| gone.has_grown()) {
            let finding = cx.find_last(&TYPE, gone.said.window(), gone.last);
            cx.say(gone.says_last(finding, key));
        }
        let dst = hash_ip(r.dst);
        one.is_wide |= one.uses > 0 && one.dst != dst;
        one.dst = dst;
        one.uses = one.uses.saturating_add(1);
        one.first.see(r.ts);
        one.last = r.ts;
        let is_wide = one.is_wide;
        let is_due = one.uses >= USES && r.ts.since(one.first.0) >= SPAN && !one.said.is_reported();
        // The only signature of a source is no other than all of its traffic.
        let is_own = !is_wide && all.iter().any(|(_, s)| s.is_wide);
        cx.signature = Some(rita::Signature { hash: key, is_own });
        if !is_due || !is_own {
            return;
        }
        let Some(one) = all.get(key) else { return };
        one.said.note(one.uses.into(), cx.facts.window, ThreatLevel::Low);
        (one.to, one.is_ja3, one.text) = (r.dst, is_ja3, text(signature));
        one.proto = Most(r.proto as u8);
        cx.say(one.says(cx.find(&TYPE), key).port_now(r.dst_port));
    }

    fn close_kept(kept: &mut Slot<Signatures>, closing: &mut Closing<'_>) {
        let Some(signatures) = kept.peek() else { return };
        for (key, one) in signatures.by_hash.iter().filter(|(_, one)| one.has_grown()) {
            let finding = closing.find(&TYPE, one.said.window(), one.last);
            closing.say(one.says_last(finding, *key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, has_values, log};
    use gabion_record::logs::Http;

    fn get(trial: &mut Trial, second: i64, agent: &str, dst: &str) {
        let h = Http { user_agent: agent.as_bytes(), ..Http::default() };
        trial.record(&log(second, "10.0.0.1", dst, Body::Http(h)));
    }

    /// A table full of signatures: the one that has to go says its last number.
    #[test]
    fn a_signature_without_room_says_its_last_number() {
        let mut trial = Trial::new();
        for n in 0..30 {
            get(&mut trial, n * 400, "Firefox", &format!("1.2.3.{n}"));
            get(&mut trial, n * 400, "Modzilla/0.0001", "9.9.9.9");
        }
        for other in 0..SIGNATURES_MAX as i64 {
            for n in 0..40 {
                get(
                    &mut trial,
                    12_000 + n * 400 + other,
                    &format!("Own/{other}"),
                    &format!("9.9.8.{other}"),
                );
            }
        }
        let found = trial.reported_of(&TYPE);
        let mut first = found.iter().rev().filter(|e| has_values(e, &["Modzilla/0.0001"]));
        assert_eq!(first.next().map(|e| e.measures.count), Some(30), "{found:?}");
    }

    #[test]
    fn one_agent_for_one_server_is_reported_once() {
        let mut trial = Trial::new();
        for n in 0..30 {
            get(&mut trial, n * 400, "Firefox", &format!("1.2.3.{n}"));
            get(&mut trial, n * 400, "Modzilla/0.0001", "9.9.9.9");
        }
        let found = trial.evidence_of(&TYPE);
        assert_eq!(found.len(), 1);
        assert!(has_values(&found[0], &["Modzilla/0.0001", "9.9.9.9", "10"]));
    }

    #[test]
    fn the_only_agent_a_few_uses_or_two_servers_are_none() {
        let mut trial = Trial::new();
        for n in 0..30 {
            get(&mut trial, n * 400, "Modzilla/0.0001", "9.9.9.9");
        }
        for n in 0..9 {
            get(&mut trial, 20_000 + n * 400, "curl", "9.9.9.9");
            get(&mut trial, 20_000 + n * 400, "wget", &format!("1.2.3.{}", n % 2));
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    /// An agent for each request, times that jump: bounded and silent.
    #[test]
    fn agents_without_end_break_nothing() {
        let mut trial = Trial::new();
        for n in 0..3000 {
            get(&mut trial, n, &format!("agent {n}"), "9.9.9.9");
        }
        get(&mut trial, i64::MAX / SECOND, "agent 1", "9.9.9.9");
        assert!(trial.evidence_of(&TYPE).is_empty());
        assert!(trial.profile_bytes("10.0.0.1") < 16 << 10);
    }
}

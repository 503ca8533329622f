//! A browser of one maker's system on another maker's hardware.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::intel::Maker;
use crate::sketch::hash_text;
use crate::state::Slot;
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("INCOMPATIBLE_USER_AGENT", "T1071.001");

/// The detector.
#[derive(Debug)]
pub(crate) struct UserAgentMaker;

/// Words of agents, in lower case, and whose systems they name.
const SYSTEMS: [(&str, Maker); 8] = [
    ("iphone", Maker::Apple),
    ("ipad", Maker::Apple),
    ("mac os", Maker::Apple),
    ("macintosh", Maker::Apple),
    ("darwin", Maker::Apple),
    ("windows nt", Maker::Microsoft),
    ("microsoft", Maker::Microsoft),
    ("android", Maker::Google),
];

impl Detector for UserAgentMaker {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "by the table of `gabion.mac_vendors`: Safari on hardware that is not Apple's, or an \
            agent of Apple's, Microsoft's or Google's system on hardware of another of these; not where \
            the hardware address is made up; at the 1st, 10th, 100th … time by agent",
        level: "high; 1",
        settings: &["gabion.mac_vendors"],
    };
    const KINDS: u32 = bit(LogKind::Http);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Http(h) = &r.body else { return };
        let Some(mac) = cx.facts.src_mac else { return };
        let Some(maker) = cx.settings.intel.maker(mac) else { return };
        let agent = h.user_agent.to_ascii_lowercase();
        let has = |word: &str| contains(&agent, word.as_bytes());
        let system = SYSTEMS.iter().find(|(word, _)| has(word)).map(|(_, system)| *system);
        // Chrome and others call themselves Safari too.
        let is_safari = has("safari") && !has("chrome") && !has("chromium") && !has("android");
        let is_odd = match system {
            Some(system) if maker != Maker::Other => system != maker,
            _ => is_safari && maker != Maker::Apple,
        };
        if !is_odd {
            return;
        }
        cx.say_damped(hash_text(&agent), |cx| {
            cx.find(&TYPE)
                .level(ThreatLevel::High, 1.0)
                .victim_now(r.dst)
                .about(hash_text(&agent))
                .says(
                    "using incompatible user-agent ({0}) that belongs to OS: {1}. IP has MAC vendor: {2} \
                     while connecting to {3}{4}.",
                )
                .word(text(h.user_agent))
                .word(system.map_or_else(|| "Apple".to_owned(), |s| format!("{s:?}")))
                .word(format!("{maker:?}"))
                .word(text(h.host))
                .word(text(h.uri))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::Purpose;
    use crate::intel::tests::intel;
    use crate::settings::Settings;
    use crate::trial::{Trial, conn, log};
    use gabion_record::logs::{Http, Mac};
    use std::sync::Arc;

    fn reported(mac: &str, agent: &str) -> usize {
        let table = "00:1B:63,Apple\n00:15:5D,Microsoft Corporation\n3C:5A:B4,Google\n08:00:27,PCS";
        let intel = intel(&[("vendors", Purpose::Makers, table)], 13);
        let mut trial = Trial::with(Settings { intel: Arc::new(intel), ..Settings::default() });
        let mut flow = conn(0, "10.0.0.1", "1.2.3.4", 80);
        flow.src_mac = Mac::parse(mac.as_bytes());
        trial.give(&flow);
        for n in 1..9 {
            let h = Http { user_agent: agent.as_bytes(), ..Http::default() };
            trial.record(&log(n, "10.0.0.1", "1.2.3.4", Body::Http(h)));
        }
        trial.evidence_of(&TYPE).len()
    }

    const SAFARI: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605 Version/17 Safari/605";
    const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537 Chrome/120 Safari/537";
    const WINDOWS: &str = "Mozilla/5.0 (Windows NT 10.0) Firefox/120";

    #[test]
    fn systems_on_others_hardware_are_reported() {
        assert_eq!(reported("00:1b:63:00:00:01", WINDOWS), 1);
        assert_eq!(reported("00:15:5d:00:00:01", "curl (Macintosh)"), 1);
        assert_eq!(reported("08:00:27:00:00:01", SAFARI), 1);
    }

    #[test]
    fn what_fits_or_is_not_known_is_not() {
        for (mac, agent) in [
            ("00:15:5d:00:00:01", WINDOWS),
            ("08:00:27:00:00:01", WINDOWS),
            ("08:00:27:00:00:01", CHROME),
            ("00:1b:63:00:00:01", SAFARI),
            // Made up by the system, as phones do.
            ("02:1b:63:00:00:01", WINDOWS),
            ("00:00:01:00:00:01", WINDOWS),
            ("00:1b:63:00:00:01", ""),
        ] {
            assert_eq!(reported(mac, agent), 0, "{mac} {agent}");
        }
    }

    #[test]
    fn long_agents_break_nothing() {
        assert_eq!(reported("00:1b:63:00:00:01", &"windows nt ".repeat(10_000)), 1);
    }
}

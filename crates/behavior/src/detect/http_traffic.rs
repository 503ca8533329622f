//! HTTP: unencrypted at all, odd agents, empty requests, programs fetched, weird methods.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::{hash_ip, hash_text};
use crate::state::{Slot, state};
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, Http, LogKind};

/// Every request.
pub(crate) static TRAFFIC: EvidenceType = EvidenceType::new("HTTP_TRAFFIC", "T1071.001");
/// An agent that malware uses.
pub(crate) static SUSPICIOUS: EvidenceType =
    EvidenceType::new("SUSPICIOUS_USER_AGENT", "T1071.001");
/// Requests for nothing.
pub(crate) static EMPTY: EvidenceType = EvidenceType::new("EMPTY_CONNECTIONS", "T1016.001");
/// An agent of another system than before.
pub(crate) static MULTIPLE: EvidenceType = EvidenceType::new("MULTIPLE_USER_AGENT", "T1071.001");
/// A program.
pub(crate) static EXECUTABLE: EvidenceType = EvidenceType::new("EXECUTABLE_MIME_TYPE", "T1105");

/// The detector.
#[derive(Debug)]
pub(crate) struct HttpTraffic;

/// Parts of agents, in lower case.
const AGENTS: [&str; 5] = ["httpsend", "chm_msdn", "pb", "jndi", "tesseract"];
/// Hosts that are asked for nothing to see whether there is a way out.
const PROBED: [&str; 6] =
    ["bing.com", "google.com", "yandex.com", "yahoo.com", "duckduckgo.com", "gmail.com"];
/// Such requests from which on evidence is reported.
const PROBES: u32 = 4;
/// Types of programs, after `application/`.
const PROGRAMS: [&str; 9] = [
    "x-msdownload",
    "x-ms-dos-executable",
    "x-ms-exe",
    "x-exe",
    "x-winexe",
    "x-winhlp",
    "x-winhelp",
    "octet-stream",
    "x-dosexec",
];
/// Systems an agent may name, in lower case.
const SYSTEMS: [&str; 9] =
    ["windows", "android", "iphone", "ipad", "mac os", "macintosh", "linux", "cros", "freebsd"];

state! {
    /// Of one window.
    pub struct Requests {
        /// Requests for nothing, by host of [`PROBED`].
        empty: Vec<u32>,
    }
}

state! {
    /// Across windows.
    pub struct Agents {
        /// The last agent that named a system.
        last: String,
        system: u8,
    }
}

impl Detector for HttpTraffic {
    type Window = Requests;
    type Kept = Agents;
    const ABOUT: About = About {
        types: &[&TRAFFIC, &SUSPICIOUS, &EMPTY, &MULTIPLE, &EXECUTABLE],
        condition: "every HTTP request (HTTP_TRAFFIC; at the 1st, 10th, 100th … time by destination); \
            an agent with httpsend, chm_msdn, pb, jndi or tesseract in it; four requests of `/` \
            without a body of one well-known host in a window; an agent of another system than the \
            last; a response of a program's type",
        level: "HTTP_TRAFFIC info, 1; SUSPICIOUS_USER_AGENT high, 1; EMPTY_CONNECTIONS medium, 1; \
            MULTIPLE_USER_AGENT info, 1; EXECUTABLE_MIME_TYPE both ends low, 1",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Http);

    fn record(window: &mut Slot<Requests>, kept: &mut Slot<Agents>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Http(h) = &r.body else { return };
        cx.say_damped(hash_ip(r.dst), |cx| {
            cx.find(&TRAFFIC)
                .level(ThreatLevel::Info, 1.0)
                .victim(r.dst)
                .port_now(r.dst_port)
                .says("Unencrypted HTTP traffic from {profile} to {dst}.")
        });
        agents(h, kept, cx);
        empty(h, window, cx);
        programs(h, cx);
    }
}

fn agents(h: &Http<'_>, kept: &mut Slot<Agents>, cx: &mut Context<'_, '_>) {
    if h.user_agent.is_empty() {
        return;
    }
    let lower = h.user_agent.to_ascii_lowercase();
    if AGENTS.iter().any(|part| contains(&lower, part.as_bytes())) {
        cx.say_damped(hash_text(&lower), |cx| {
            cx.find(&SUSPICIOUS)
                .level(ThreatLevel::High, 1.0)
                .victim_now(cx.record.dst)
                .about(hash_text(&lower))
                .says("Suspicious user-agent: {0} while connecting to {1}{2}")
                .word(text(h.user_agent))
                .word(text(h.host))
                .word(text(h.uri))
        });
    }
    let system = SYSTEMS.iter().position(|s| contains(&lower, s.as_bytes()));
    let Some(system) = system.and_then(|s| u8::try_from(s + 1).ok()) else { return };
    let agents = kept.make();
    let before = std::mem::replace(&mut agents.system, system);
    let last = std::mem::replace(&mut agents.last, text(h.user_agent));
    if before != 0 && before != system {
        cx.say_damped(u64::from(before) << 8 | u64::from(system), |cx| {
            cx.find(&MULTIPLE)
                .level(ThreatLevel::Info, 1.0)
                .victim_now(cx.record.dst)
                .about(u64::from(before) << 8 | u64::from(system))
                .says("Using multiple user-agents: \"{0}\" then \"{1}\"")
                .word(last.clone())
                .word(text(h.user_agent))
        });
    }
}

fn empty(h: &Http<'_>, window: &mut Slot<Requests>, cx: &mut Context<'_, '_>) {
    if h.uri != b"/" || h.request_len != 0 {
        return;
    }
    let host = h.host.strip_prefix(b"www.").unwrap_or(h.host);
    let Some(at) = PROBED.iter().position(|p| host.eq_ignore_ascii_case(p.as_bytes())) else {
        return;
    };
    let counts = &mut window.make().empty;
    counts.resize(PROBED.len(), 0);
    let Some(count) = counts.get_mut(at) else { return };
    *count += 1;
    if *count < PROBES {
        return;
    }
    *count = 0;
    cx.say_damped(at as u64, |cx| {
        cx.find(&EMPTY)
            .level(ThreatLevel::Medium, 1.0)
            .victim_now(cx.record.dst)
            .about(at as u64 + 1)
            .says("Multiple empty HTTP connections to {0}")
            .word(text(h.host))
    });
}

fn programs(h: &Http<'_>, cx: &mut Context<'_, '_>) {
    let r = cx.record;
    for kind in h.resp_mime_types.iter() {
        let Some(inner) = kind.strip_prefix(b"application/") else { continue };
        if !PROGRAMS.iter().any(|p| p.as_bytes() == inner) {
            continue;
        }
        let what = hash_text(h.uri);
        let Some(times) = cx.is_due(&EXECUTABLE, hash_ip(r.dst) ^ what) else { continue };
        let finding = cx
            .find(&EXECUTABLE)
            .level(ThreatLevel::Low, 1.0)
            .port_now(r.dst_port)
            .about(what)
            .says("Download of an executable with MIME type: {0} by {src} from {dst}.")
            .word(text(kind))
            .seen(times);
        cx.say_both(finding, ThreatLevel::Low, ThreatLevel::Low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::List;

    fn get(trial: &mut Trial, second: i64, src: &str, h: Http<'_>) {
        trial.record(&log(second, src, "1.2.3.4", Body::Http(h)));
    }

    #[test]
    fn agents_of_malware_and_of_other_systems() {
        let mut trial = Trial::new();
        let agent = |a: &'static [u8]| Http { user_agent: a, uri: b"/x", ..Http::default() };
        get(&mut trial, 0, "10.0.0.1", agent(b"${JNDI:ldap://x}"));
        get(&mut trial, 1, "10.0.0.1", agent(b"Mozilla/5.0 (Windows NT 10.0)"));
        get(&mut trial, 2, "10.0.0.1", agent(b"Mozilla/5.0 (Windows NT 6.1)"));
        assert_eq!(
            (trial.evidence_of(&SUSPICIOUS).len(), trial.evidence_of(&MULTIPLE).len()),
            (1, 0)
        );
        get(&mut trial, 3, "10.0.0.1", agent(b"Mozilla/5.0 (X11; Linux x86_64)"));
        assert_eq!(trial.evidence_of(&MULTIPLE).len(), 1);
    }

    /// D25 of Slips: four of one source are four, four of four sources are none.
    #[test]
    fn empty_requests_are_counted_by_source() {
        let mut trial = Trial::new();
        let h = Http { host: b"www.google.com", uri: b"/", ..Http::default() };
        for n in 1..=4 {
            get(&mut trial, n, &format!("10.0.0.{n}"), h);
        }
        assert!(trial.evidence_of(&EMPTY).is_empty());
        for n in 5..8 {
            get(&mut trial, n, "10.0.0.1", h);
        }
        assert_eq!(trial.evidence_of(&EMPTY).len(), 1);
        get(&mut trial, 9, "10.0.0.1", Http { request_len: 5, ..h });
        assert_eq!(trial.evidence_of(&EMPTY).len(), 1);
    }

    #[test]
    fn programs_by_their_type_in_tsv_and_json() {
        let mut trial = Trial::new();
        for (raw, is_json) in
            [("application/x-dosexec", false), ("[\"text/plain\",\"application/x-exe\"]", true)]
        {
            let types = List { raw: raw.as_bytes(), is_json };
            let uri = raw.as_bytes();
            get(&mut trial, 1, "10.0.0.1", Http { resp_mime_types: types, uri, ..Http::default() });
        }
        assert_eq!(trial.evidence_of(&EXECUTABLE).len(), 4);
    }

    /// D28 of Slips: a line of evidence for each request.
    #[test]
    fn requests_are_reported_at_growing_intervals() {
        let mut trial = Trial::new();
        for n in 0..512 {
            get(&mut trial, n, "10.0.0.1", Http::default());
        }
        assert_eq!(trial.evidence_of(&TRAFFIC).len(), 3);
    }
}

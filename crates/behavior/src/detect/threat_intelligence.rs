//! Addresses, names, URLs, networks and files that lists name as bad.
//!
//! Every end of every flow, every query, answer, server name, URL and hash is looked up; a listed
//! one is reported by profile, so that a second victim is seen like the first. The text of an entry is
//! read only when evidence is written.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::evidence::{EvidenceBuilder, Times};
use crate::intel::indicator::Indicator as Listed;
use crate::intel::{Entry, Match};
use crate::limits::{LISTED_ANSWERS_MAX, reached};
use crate::names::is_below;
use crate::sketch::{hash_ip, hash_text, mix};
use crate::state::Slot;
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, Indicator, Party, Role, ThreatLevel};
use gabion_record::logs::{Body, Dns, Files, Http, LogKind};

/// A connection to a listed address.
pub(crate) static TO_IP: EvidenceType =
    EvidenceType::new("THREAT_INTELLIGENCE_TO_BLACKLISTED_IP", "T1583");
/// A connection from one.
pub(crate) static FROM_IP: EvidenceType =
    EvidenceType::new("THREAT_INTELLIGENCE_FROM_BLACKLISTED_IP", "T1583");
/// A network that is listed as a whole.
pub(crate) static ASN: EvidenceType =
    EvidenceType::new("THREAT_INTELLIGENCE_BLACKLISTED_ASN", "T1583");
/// An answer that is listed.
pub(crate) static DNS_ANSWER: EvidenceType =
    EvidenceType::new("THREAT_INTELLIGENCE_BLACKLISTED_DNS_ANSWER", "T1584");
/// A name that is listed.
pub(crate) static DOMAIN: EvidenceType =
    EvidenceType::new("THREAT_INTELLIGENCE_BLACKLISTED_DOMAIN", "T1583.001");
/// What a listed name was answered with.
pub(crate) static ANSWER_OF_QUERY: EvidenceType =
    EvidenceType::new("THREAT_INTELLIGENCE_ANSWER_OF_BLACKLISTED_QUERY", "T1584");
/// A URL that is listed.
pub(crate) static URL: EvidenceType =
    EvidenceType::new("THREAT_INTELLIGENCE_MALICIOUS_URL", "T1583");
/// A file that is listed.
pub(crate) static FILE: EvidenceType = EvidenceType::new("MALICIOUS_DOWNLOADED_FILE", "T1105");
/// A relay of Tor.
pub(crate) static TOR: EvidenceType = EvidenceType::new("TOR_EXIT_NODE", "T1090.003");

/// The detector.
#[derive(Debug)]
pub(crate) struct ThreatIntelligence;

impl Detector for ThreatIntelligence {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TO_IP, &FROM_IP, &ASN, &DNS_ANSWER, &DOMAIN, &ANSWER_OF_QUERY, &URL, &FILE, &TOR],
        condition: "lists from files name the destination or the source of a flow (the address, the \
            narrowest range that holds it, or its autonomous system), a name that is asked for, \
            connected to or answered (the name or one above it), an address that is answered, a URL, \
            or a file by its MD5 or SHA-1 unless it is known to be harmless; a flow to an exit of \
            Tor; each entry is reported for each profile at the 1st, 10th, 100th … time in a window",
        level: "the list's, medium if it has none, and low for the source that connects; 1 \
            (STIX: the indicator's confidence), an autonomous system 0.8, a name above the one seen \
            0.7; TOR_EXIT_NODE info",
        settings: &[
            "threatintelligence.local_threat_intelligence_files",
            "threatintelligence.download_path_for_remote_threat_intelligence",
            "threatintelligence.ti_files",
            "threatintelligence.ja3_feeds",
            "threatintelligence.ssl_feeds",
            "gabion.tor_exit_nodes",
            "gabion.harmless_files",
            "gabion.autonomous_systems",
        ],
    };
    const KINDS: u32 = bit(LogKind::Conn)
        | bit(LogKind::Dns)
        | bit(LogKind::Http)
        | bit(LogKind::Ssl)
        | bit(LogKind::Files);

    #[inline]
    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        // The destination's own profile, if it has one, gets no second report.
        if cx.settings.intel.is_empty() || cx.profile != cx.record.src {
            return;
        }
        match cx.record.body {
            Body::Conn(_) => ends(cx),
            Body::Dns(d) => query(&d, cx),
            Body::Http(h) => {
                url(&h, cx);
                name(h.host, cx);
            }
            Body::Ssl(s) => name(s.server_name, cx),
            Body::Files(f) => file(&f, cx),
            _ => {}
        }
    }
}

/// Evidence, if this is to be reported, with what the list says.
fn reported(
    kind: &'static EvidenceType,
    what: u64,
    found: &Match,
    asked: &Listed<'_>,
    cx: &mut Context<'_, '_>,
) -> Option<(Entry, Times)> {
    // Asked first, so that an entry whose time is over counts nothing.
    let times = cx.is_due(kind, what)?;
    let entry = cx.settings.intel.entry(found, asked, cx.record.ts)?;
    Some((entry, times))
}

fn source(e: &Entry) -> String {
    let description = if e.description.is_empty() { "-" } else { &e.description };
    let tags = if e.tags.is_empty() { String::new() } else { format!(" tags: {}", e.tags) };
    format!("Description: {description}. Source: {}.{tags}", e.source)
}

fn ends(cx: &mut Context<'_, '_>) {
    let r = cx.record;
    let settings = cx.settings;
    let intel = &settings.intel;
    if !r.dst.is_ignored() {
        if !r.proto.is_icmp()
            && let Some(found) = intel.ip(r.dst)
            && let Some((e, times)) =
                reported(&TO_IP, hash_ip(r.dst), &found, &Listed::Ip(r.dst), cx)
        {
            let finding = cx
                .find(&TO_IP)
                .level(ThreatLevel::Low, e.confidence)
                .port_now(r.dst_port)
                .says("connection to blacklisted IP: {dst} from {src}. {0}")
                .word(source(&e))
                .seen(times);
            cx.say_both(finding, ThreatLevel::Low, found.level);
        }
        if let Some((number, of)) = intel.asn_of(r.dst)
            && let Some(found) = intel.asn(number)
            && let Some((e, times)) =
                reported(&ASN, u64::from(number), &found, &Listed::Asn(number), cx)
        {
            let finding = cx
                .find(&ASN)
                .level(ThreatLevel::Low, 0.8 * e.confidence)
                .port_now(r.dst_port)
                .says("Connection to IP: {dst} with blacklisted ASN: {0} {1} {2}")
                .word(number.to_string())
                .word(of.to_string())
                .word(source(&e))
                .seen(times);
            cx.say_both(finding, ThreatLevel::Low, found.level);
        }
        if intel.is_tor_exit(r.dst) {
            cx.say_damped(mix(hash_ip(r.dst)), |cx| {
                cx.find(&TOR)
                    .level(ThreatLevel::Info, 1.0)
                    .by_destination(r.dst)
                    .port_now(r.dst_port)
                    .says("A connection to TOR exit node {dst}.")
            });
        }
    }
    if !r.src.is_ignored()
        && let Some(found) = intel.ip(r.src)
        && let Some((e, times)) = reported(&FROM_IP, hash_ip(r.dst), &found, &Listed::Ip(r.src), cx)
    {
        let finding = cx
            .find(&FROM_IP)
            .level(found.level, e.confidence)
            .victim(r.dst)
            .port_now(r.dst_port)
            .says("connection from blacklisted IP: {src} to {dst}. {0}")
            .word(source(&e));
        cx.say(finding.seen(times));
    }
}

fn is_outside_lists(name: &[u8]) -> bool {
    name.is_empty() || is_below(name, b"arpa") || is_below(name, b"local")
}

/// A name with what it was answered, or connected to.
fn listed_name(
    kind: &'static EvidenceType,
    asked: &[u8],
    at: Option<Ip>,
    cx: &mut Context<'_, '_>,
    says: impl FnOnce(&Entry, f64, EvidenceBuilder) -> EvidenceBuilder,
) -> Option<Match> {
    if is_outside_lists(asked) {
        return None;
    }
    let found = cx.settings.intel.domain(asked)?;
    let what = hash_text(&asked.to_ascii_lowercase());
    let (e, times) = reported(kind, what, &found, &Listed::Domain(asked), cx)?;
    let confidence = e.confidence * if found.is_parent { 0.7 } else { 1.0 };
    let finding = cx.find(kind).level(ThreatLevel::Low, confidence).about(what).seen(times);
    let mut finding = says(&e, confidence, finding);
    let party = Party { role: Role::Destination, what: Indicator::Domain(text(asked)) };
    match at {
        Some(ip) => {
            cx.say_pair(finding, party, ip, found.level);
        }
        None => {
            // Nobody answered for it: the one that asked is all there is.
            finding.0.victim = Some(party);
            cx.say(finding);
        }
    }
    Some(found)
}

fn name(name: &[u8], cx: &mut Context<'_, '_>) {
    let dst = cx.record.dst;
    let host = name.split(|b| *b == b':').next().unwrap_or_default();
    listed_name(&DOMAIN, host, Some(dst), cx, |e, confidence, finding| {
        said_of_name(host, e, confidence, finding)
    });
}

fn said_of_name(
    name: &[u8],
    e: &Entry,
    confidence: f64,
    finding: EvidenceBuilder,
) -> EvidenceBuilder {
    let tags = if e.tags.is_empty() { String::new() } else { format!("with tags: {}. ", e.tags) };
    let description = if e.description.is_empty() { "-" } else { &e.description };
    finding
        .says(
            "connection to a blacklisted domain {0}. Description: {1}, Found in feed: {2}, Confidence: {3}. \
             {4}",
        )
        .word(text(name))
        .word(description)
        .word(e.source.to_string())
        .word(confidence.to_string())
        .word(tags)
}

fn query(d: &Dns<'_>, cx: &mut Context<'_, '_>) {
    let mut all = d.answers.iter();
    let answers: Vec<&[u8]> = all.by_ref().take(LISTED_ANSWERS_MAX).collect();
    if all.next().is_some() {
        reached::LISTED_ANSWERS_MAX.count();
    }
    let first = answers.iter().find_map(|a| Ip::parse(a));
    let is_listed = cx.settings.intel.domain(d.query).is_some() && !is_outside_lists(d.query);
    listed_name(&DOMAIN, d.query, first, cx, |e, confidence, finding| {
        said_of_name(d.query, e, confidence, finding)
    });
    for answer in answers {
        match Ip::parse(answer) {
            Some(ip) => {
                if is_listed {
                    answer_of(d, ip, cx);
                }
                listed_answer(d, ip, cx);
            }
            None => {
                listed_name(&DNS_ANSWER, answer, first, cx, |e, _, finding| {
                    finding
                        .says("blacklisted CNAME: {0} when resolving {1} {2}")
                        .word(text(answer))
                        .word(text(d.query))
                        .word(source(e))
                });
            }
        }
    }
}

/// An address that a listed name stands for.
fn answer_of(d: &Dns<'_>, ip: Ip, cx: &mut Context<'_, '_>) {
    let Some(found) = cx.settings.intel.domain(d.query) else { return };
    let what = hash_ip(ip) ^ hash_text(d.query);
    let Some((e, times)) = reported(&ANSWER_OF_QUERY, what, &found, &Listed::Domain(d.query), cx)
    else {
        return;
    };
    let confidence = e.confidence * if found.is_parent { 0.7 } else { 1.0 };
    let finding = cx
        .find(&ANSWER_OF_QUERY)
        .level(ThreatLevel::Low, confidence)
        .about(hash_text(d.query))
        .says("DNS answer of a blacklisted query. Query: {0}. Answer: {1}, {2}")
        .word(text(d.query))
        .word(ip.to_string())
        .word(source(&e));
    cx.say_pair(finding.seen(times), Party::destination(ip), ip, found.level);
}

fn listed_answer(d: &Dns<'_>, ip: Ip, cx: &mut Context<'_, '_>) {
    if ip.is_ignored() {
        return;
    }
    let Some(found) = cx.settings.intel.ip(ip) else { return };
    let Some((e, times)) = reported(&DNS_ANSWER, hash_ip(ip), &found, &Listed::Ip(ip), cx) else {
        return;
    };
    let finding = cx
        .find(&DNS_ANSWER)
        .level(ThreatLevel::Low, e.confidence)
        .says("DNS answer with a blacklisted IP: {0} for query: {1} {2}")
        .word(ip.to_string())
        .word(text(d.query))
        .word(source(&e));
    cx.say_pair(finding.seen(times), Party::destination(ip), ip, found.level);
}

fn url(h: &Http<'_>, cx: &mut Context<'_, '_>) {
    let Some(found) = cx.settings.intel.url(h.host, h.uri) else { return };
    let whole = [h.host, h.uri].concat();
    let Some((e, times)) = reported(&URL, hash_text(&whole), &found, &Listed::Url(&whole), cx)
    else {
        return;
    };
    let finding = cx
        .find(&URL)
        .level(ThreatLevel::Low, e.confidence)
        .port_now(cx.record.dst_port)
        .about(hash_text(&whole))
        .says("connection to a malicious URL {0}. {1}")
        .word(text(&whole))
        .word(source(&e))
        .seen(times);
    let party = Party { role: Role::Destination, what: Indicator::Url(text(&whole)) };
    cx.say_pair(finding, party, cx.record.dst, found.level);
}

/// A file: the record's source sent it, its destination has it now.
fn file(f: &Files<'_>, cx: &mut Context<'_, '_>) {
    if f.source == b"SSL" {
        return;
    }
    let Some((hex, found)) =
        [f.md5, f.sha1].into_iter().find_map(|h| Some((h, cx.settings.intel.hash(h)?)))
    else {
        return;
    };
    let r = cx.record;
    let what = hash_text(hex) ^ hash_ip(r.dst);
    let Some((e, times)) = reported(&FILE, what, &found, &Listed::Hash(hex), cx) else { return };
    // The sender is where it came from, but the receiver is the host to look after.
    let mut finding = cx
        .find(&FILE)
        .level(found.level, e.confidence)
        .bytes(f.total_bytes)
        .says(
            "Malicious downloaded file {0}. size: {bytes} bytes. File was downloaded from server: {1}. \
             Detected by: {2}. Confidence: {confidence}. Description: {3}.",
        )
        .word(text(hex))
        .word(r.src.to_string())
        .word(e.source.to_string())
        .word(if e.description.is_empty() { "-" } else { &e.description })
        .seen(times);
    finding.0.attacker = Party { role: Role::Source, what: Indicator::Md5(text(hex)) };
    finding.0.victim = Some(Party::destination(r.dst));
    finding.0.profile = r.dst;
    cx.say(finding);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::tests::intel;
    use crate::intel::{Builder, Purpose, Texts};
    use crate::settings::Settings;
    use crate::trial::{Trial, at, conn, has_values, log};
    use gabion_record::logs::List;
    use std::sync::Arc;

    const OWN: &str = "23.253.126.58,high,Simda CC\nbncv00.no-ip.info, critical, Variant.Zusy\n\
        54.192.0.0/16, high, range\nAS39770, high, ELITETEAM\nhttp://u.example/a.exe,high,dropper\n\
        d41d8cd98f00b204e9800998ecf8427f,high,a worm\n9.9.9.9,medium,relayed";

    fn trial() -> Trial {
        let files = [
            ("own", Purpose::Indicators, OWN),
            ("tor", Purpose::TorExits, "7.7.7.7"),
            ("asn", Purpose::Systems, "6.6.0.0/16,39770,TEAM"),
        ];
        Trial::with(Settings { intel: Arc::new(intel(&files, 11)), ..Settings::default() })
    }

    /// D17, D18 and D21 of Slips: the first line counts, a level after a blank is one, addresses
    /// of flows are looked up, and a second victim is reported as the first was.
    #[test]
    fn listed_addresses_are_found_for_each_victim() {
        let mut trial = trial();
        for n in 0..12 {
            trial.give(&conn(n, "10.0.0.1", "23.253.126.58", 80));
        }
        trial.give(&conn(20, "10.0.0.2", "23.253.126.58", 80));
        trial.give(&conn(21, "10.0.0.2", "54.192.46.116", 80));
        let found = trial.evidence_of(&TO_IP);
        let sources: Vec<_> = found.iter().filter(|e| e.attacker.role == Role::Source).collect();
        // At the 1st and the 10th time, then the other victim twice.
        assert_eq!(sources.len(), 4);
        assert_eq!(sources.iter().map(|e| e.times).collect::<Vec<_>>(), [1, 10, 1, 1]);
        assert_eq!(found.len(), 8);
        let values = ["23.253.126.58", "10.0.0.1", "Simda", "own"];
        assert!(has_values(sources[0], &values), "{}", sources[0].description());
        let of_dst = found.iter().find(|e| e.profile == at("54.192.46.116")).unwrap();
        assert_eq!(of_dst.level, ThreatLevel::High);
        assert!(sources[0].related.len() == 1 && sources[0].level == ThreatLevel::Low);
    }

    /// D22 of Slips: from is not to. And a neighbour of what is listed is not listed.
    #[test]
    fn a_listed_source_has_its_own_type() {
        let mut trial = trial();
        trial.give(&conn(0, "23.253.126.58", "10.0.0.1", 80));
        trial.give(&conn(1, "23.253.126.57", "10.0.0.1", 80));
        trial.give(&conn(2, "10.0.0.1", "23.253.126.59", 80));
        trial.give(&conn(3, "10.0.0.1", "54.193.0.0", 80));
        assert_eq!((trial.evidence_of(&FROM_IP).len(), trial.evidence_of(&TO_IP).len()), (1, 0));
        assert_eq!(trial.evidence_of(&FROM_IP)[0].level, ThreatLevel::High);
    }

    /// D19 of Slips: systems are looked up by the address.
    #[test]
    fn systems_and_relays_are_found() {
        let mut trial = trial();
        trial.give(&conn(0, "10.0.0.1", "6.6.1.2", 80));
        trial.give(&conn(1, "10.0.0.1", "6.7.1.2", 80));
        trial.give(&conn(2, "10.0.0.1", "7.7.7.7", 9001));
        assert_eq!(trial.evidence_of(&ASN).len(), 2);
        assert_eq!(trial.evidence_of(&ASN)[0].confidence, 0.8);
        assert_eq!(trial.evidence_of(&TOR).len(), 1);
    }

    fn ask(trial: &mut Trial, second: i64, name: &str, answers: &str) {
        let d = Dns {
            query: name.as_bytes(),
            answers: List { raw: answers.as_bytes(), is_json: false },
            ..Dns::default()
        };
        trial.record(&log(second, "10.0.0.1", "8.8.8.8", Body::Dns(d)));
    }

    #[test]
    fn names_and_answers_are_found_with_those_below() {
        let mut trial = trial();
        ask(&mut trial, 0, "a.BNCV00.no-ip.info", "5.5.5.5");
        ask(&mut trial, 1, "xbncv00.no-ip.info", "5.5.5.5");
        ask(&mut trial, 2, "no-ip.info", "5.5.5.5");
        ask(&mut trial, 3, "fine.example", "bncv00.no-ip.info,54.192.1.1");
        assert_eq!(trial.evidence_of(&DOMAIN).len(), 2);
        assert_eq!(trial.evidence_of(&DOMAIN)[0].confidence, 0.7);
        assert_eq!(trial.evidence_of(&ANSWER_OF_QUERY).len(), 2);
        // A CNAME and an address, each for both ends.
        assert_eq!(trial.evidence_of(&DNS_ANSWER).len(), 4);
    }

    /// D20 of Slips: hashes are looked up.
    #[test]
    fn urls_and_files_are_found() {
        let mut trial = trial();
        for uri in [&b"/a.exe"[..], b"/b.exe"] {
            let h = Http { host: b"u.example", uri, ..Http::default() };
            trial.record(&log(0, "10.0.0.1", "5.5.5.5", Body::Http(h)));
        }
        assert_eq!(trial.evidence_of(&URL).len(), 2);
        for md5 in [&b"d41d8cd98f00b204e9800998ecf8427f"[..], b"d41d8cd98f00b204e9800998ecf8427e"] {
            let f = Files { md5, total_bytes: 5, ..Files::default() };
            trial.record(&log(0, "5.5.5.5", "10.0.0.1", Body::Files(f)));
        }
        let found = trial.evidence_of(&FILE);
        assert_eq!((found.len(), found[0].profile), (1, at("10.0.0.1")));
    }

    /// Lists change while the engine runs; a file that is gone takes its words with it only.
    #[test]
    fn lists_are_swapped_while_running() {
        struct Gone;
        impl Texts for Gone {
            fn read_text(&self, _: usize, _: u64, _: usize) -> Option<Vec<u8>> {
                None
            }
        }
        let mut trial = trial();
        trial.give(&conn(0, "10.0.0.1", "1.2.3.4", 80));
        assert!(trial.evidence_of(&TO_IP).is_empty());
        let mut builder = Builder::default();
        builder.file("new", ThreatLevel::High, Purpose::Indicators);
        builder.push(b"1.2.3.4");
        trial.engine.set_intel(Arc::new(builder.finish(Some(Box::new(Gone)))));
        trial.give(&conn(1, "10.0.0.1", "1.2.3.4", 80));
        trial.give(&conn(2, "10.0.0.1", "23.253.126.58", 80));
        let found = trial.evidence_of(&TO_IP);
        assert_eq!(found.len(), 2);
        assert!(has_values(&found[0], &["-", "new"]));
    }
}

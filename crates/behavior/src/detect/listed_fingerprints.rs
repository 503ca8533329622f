//! Fingerprints of TLS that lists name: of clients (JA3), of servers (JA3S), of certificates.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::evidence::Times;
use crate::intel::Entry;
use crate::intel::indicator::Indicator;
use crate::limits::{CHAIN_MAX, reached};
use crate::sketch::{hash_ip, hash_text};
use crate::state::Slot;
use crate::text::text;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Of a client.
pub(crate) static JA3: EvidenceType = EvidenceType::new("MALICIOUS_JA3", "T1071.001");
/// Of a server.
pub(crate) static JA3S: EvidenceType = EvidenceType::new("MALICIOUS_JA3S", "T1071.001");
/// Of a certificate.
pub(crate) static CERTIFICATE: EvidenceType = EvidenceType::new("MALICIOUS_SSL_CERT", "T1587.003");

/// The detector.
#[derive(Debug)]
pub(crate) struct ListedFingerprints;

impl Detector for ListedFingerprints {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&JA3, &JA3S, &CERTIFICATE],
        condition: "lists from files name the JA3 of a client, the JA3S of a server, or a certificate \
            by its SHA-1 (SHA-256 where a log has it); at the 1st, 10th, 100th … time by server",
        level: "the list's; of JA3S and certificates low for the source; 1",
        settings: &["threatintelligence.ja3_feeds", "threatintelligence.ssl_feeds"],
    };
    const KINDS: u32 = bit(LogKind::Ssl) | bit(LogKind::Files);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        if cx.settings.intel.is_empty() || cx.profile != cx.record.src {
            return;
        }
        match cx.record.body {
            Body::Ssl(s) => {
                client(s.ja3, cx);
                server(s.ja3s, cx);
                let mut all = s.cert_fps.iter();
                all.by_ref().take(CHAIN_MAX).for_each(|hex| certificate(hex, cx));
                if all.next().is_some() {
                    reached::CHAIN_MAX.count();
                }
            }
            Body::Files(f) if f.source == b"SSL" => certificate(f.sha1, cx),
            _ => {}
        }
    }
}

fn said(e: &Entry) -> String {
    let description = match e.description.as_str() {
        "" => String::new(),
        text => format!(" description: {text}."),
    };
    let tags = if e.tags.is_empty() { String::new() } else { format!(" tags: {}", e.tags) };
    format!("{description}{tags}")
}

fn listed(
    kind: &'static EvidenceType,
    hex: &[u8],
    cx: &mut Context<'_, '_>,
) -> Option<(ThreatLevel, Entry, Times)> {
    let found = cx.settings.intel.hash(hex)?;
    let times = cx.is_due(kind, hash_text(hex) ^ hash_ip(cx.record.dst))?;
    let e = cx.settings.intel.entry(&found, &Indicator::Hash(hex), cx.record.ts)?;
    Some((found.level, e, times))
}

fn client(hex: &[u8], cx: &mut Context<'_, '_>) {
    let Some((level, e, times)) = listed(&JA3, hex, cx) else { return };
    let r = cx.record;
    let finding = cx
        .find(&JA3)
        .level(level, e.confidence)
        .victim(r.dst)
        .port_now(r.dst_port)
        .about(hash_text(hex))
        .says("Malicious JA3: {0} from source address {src} to {dst}.{1}")
        .word(text(hex))
        .word(said(&e))
        .seen(times);
    cx.say(finding);
}

fn server(hex: &[u8], cx: &mut Context<'_, '_>) {
    let Some((level, e, times)) = listed(&JA3S, hex, cx) else { return };
    let finding = cx
        .find(&JA3S)
        .level(ThreatLevel::Low, e.confidence)
        .port_now(cx.record.dst_port)
        .about(hash_text(hex))
        .says("Malicious JA3s: (possible C&C server): {0} to server {dst}.{1}")
        .word(text(hex))
        .word(said(&e))
        .seen(times);
    cx.say_both(finding, ThreatLevel::Low, level);
}

/// A certificate; in a log of files its source is the server.
fn certificate(hex: &[u8], cx: &mut Context<'_, '_>) {
    let Some((level, e, times)) = listed(&CERTIFICATE, hex, cx) else { return };
    let r = cx.record;
    let server = if matches!(r.body, Body::Files(_)) { r.src } else { r.dst };
    let finding = cx
        .find(&CERTIFICATE)
        .level(level, e.confidence)
        .about(hash_text(hex))
        .says("Malicious SSL certificate to server {0}.{1}")
        .word(server.to_string())
        .word(said(&e))
        .seen(times);
    if server == r.src {
        cx.say(finding.victim(r.dst));
    } else {
        cx.say_both(finding.port_now(r.dst_port), ThreatLevel::Low, level);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::Purpose;
    use crate::intel::tests::intel;
    use crate::settings::Settings;
    use crate::trial::{Trial, has_values, log};
    use gabion_record::logs::{Files, List, Ssl};
    use std::sync::Arc;

    const TOR: &[u8] = b"e7d705a3286e19ea42f587b344ee6865";
    const CERT: &[u8] = b"0123456789abcdef0123456789abcdef01234567";

    fn trial() -> Trial {
        let list = "# hash, level, description\n\"e7d705a3286e19ea42f587b344ee6865\",\"medium\",\
            \"Standard tor client\"\n0123456789ABCDEF0123456789ABCDEF01234567,high,a loader\n";
        let intel = intel(&[("ja3", Purpose::Indicators, list)], 5);
        Trial::with(Settings { intel: Arc::new(intel), ..Settings::default() })
    }

    #[test]
    fn listed_fingerprints_are_reported() {
        let mut trial = trial();
        let s = Ssl {
            ja3: TOR,
            ja3s: TOR,
            cert_fps: List { raw: CERT, is_json: false },
            ..Ssl::default()
        };
        for n in 0..9 {
            trial.record(&log(n, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
        }
        let client = trial.evidence_of(&JA3);
        assert_eq!((client.len(), client[0].level), (1, ThreatLevel::Medium));
        let values = ["JA3", "e7d705a3286e19ea42f587b344ee6865", "10.0.0.1", "1.2.3.4", "tor"];
        assert!(has_values(&client[0], &values), "{}", client[0].description());
        let mut server: Vec<_> = trial.evidence_of(&JA3S).iter().map(|e| e.level).collect();
        server.sort_unstable();
        assert_eq!(server, [ThreatLevel::Low, ThreatLevel::Medium]);
        assert_eq!(trial.evidence_of(&CERTIFICATE).len(), 2);
    }

    #[test]
    fn others_and_odd_ones_are_not() {
        let mut trial = trial();
        for ja3 in [&b"e7d705a3286e19ea42f587b344ee6866"[..], b"", b"zz", &[0xff; 40]] {
            let s = Ssl { ja3, ja3s: ja3, ..Ssl::default() };
            trial.record(&log(0, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
        }
        assert!(trial.said.is_empty());
    }

    #[test]
    fn a_certificate_in_a_log_of_files_is_the_servers() {
        let mut trial = trial();
        let f = Files { source: b"SSL", sha1: CERT, ..Files::default() };
        trial.record(&log(0, "1.2.3.4", "10.0.0.1", Body::Files(f)));
        trial.record(&log(1, "1.2.3.4", "10.0.0.1", Body::Files(Files { source: b"HTTP", ..f })));
        let found = trial.evidence_of(&CERTIFICATE);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].level, ThreatLevel::High);
    }
}

//! Something fetched from a paste site.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::limits::{PASTE_SERVERS_MAX, reached};
use crate::sketch::hash_ip;
use crate::state::{Slot, state};
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("PASTEBIN_DOWNLOAD", "T1105");

/// The detector.
#[derive(Debug)]
pub(crate) struct PasteSite;

state! {
    /// Servers known by their name.
    pub struct Servers {
        known: crate::sketch::Keyed<Ip, u64, PASTE_SERVERS_MAX>,
    }
}

impl Detector for PasteSite {
    type Window = ();
    type Kept = Servers;
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "more than 700 bytes come from a server whose name contains pastebin: by HTTP (GET), \
            or by a flow to the server of a TLS handshake with such a name; at the 1st, 10th, 100th … \
            time",
        level: "info; 1",
        settings: &["flow_alerts.pastebin_download_threshold"],
    };
    const KINDS: u32 = bit(LogKind::Conn) | bit(LogKind::Http) | bit(LogKind::Ssl);

    /// It says nothing of a server of which no handshake was seen.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    fn record(_: &mut Slot<()>, kept: &mut Slot<Servers>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let least = cx.settings.pastebin_bytes;
        let is_paste = |name: &[u8]| contains(&name.to_ascii_lowercase(), b"pastebin");
        let bytes = match &r.body {
            Body::Http(h) if h.method == b"GET" && h.response_len > least && is_paste(h.host) => {
                h.response_len
            }
            Body::Conn(c) if c.resp_bytes > least && r.dst_port == 443 => {
                let is_known = kept.get().is_some_and(|s| s.known.get(r.dst).is_some());
                if !is_known {
                    return;
                }
                c.resp_bytes
            }
            Body::Ssl(s) if !s.server_name.is_empty() && is_paste(s.server_name) => {
                kept.make().known.get_or_admit(
                    r.dst,
                    &reached::PASTE_SERVERS_MAX,
                    |_| true,
                    |_, n| *n,
                );
                return;
            }
            _ => return,
        };
        cx.say_damped(hash_ip(r.dst), |cx| {
            let name =
                if let Body::Http(h) = &r.body { text(h.host) } else { "pastebin.com".to_owned() };
            cx.find(&TYPE)
                .level(ThreatLevel::Info, 1.0)
                .victim(r.dst)
                .bytes(bytes)
                .says("A downloaded file from {0}. Size: {1} MBs")
                .word(name)
                .word(format!("{:.6}", bytes as f64 / 1e6))
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, log};
    use gabion_record::logs::{Http, Ssl};

    fn get(trial: &mut Trial, host: &str, bytes: u64) {
        let h =
            Http { method: b"GET", host: host.as_bytes(), response_len: bytes, ..Http::default() };
        trial.record(&log(0, "10.0.0.1", "1.2.3.4", Body::Http(h)));
    }

    #[test]
    fn above_the_threshold_from_a_paste_site() {
        let mut trial = Trial::new();
        get(&mut trial, "pastebin.com", 700);
        get(&mut trial, "example.com", 7000);
        assert!(trial.evidence_of(&TYPE).is_empty());
        get(&mut trial, "pastebin.com", 701);
        assert_eq!(trial.evidence_of(&TYPE).len(), 1);
    }

    #[test]
    fn by_the_name_of_a_handshake() {
        let mut trial = Trial::new();
        let mut c = conn(5, "10.0.0.1", "1.2.3.4", 443);
        c.reply_bytes = 5000;
        trial.give(&c);
        assert!(trial.evidence_of(&TYPE).is_empty());
        let s = Ssl { server_name: b"pastebin.com", ..Ssl::default() };
        trial.record(&log(6, "10.0.0.1", "1.2.3.4", Body::Ssl(s)));
        c.ts += 10_000_000_000;
        trial.give(&c);
        assert_eq!(trial.evidence_of(&TYPE).len(), 1);
    }

    #[test]
    fn a_flood_of_servers_is_bounded() {
        let mut trial = Trial::new();
        for n in 0..1000 {
            let s = Ssl { server_name: b"pastebin.com", ..Ssl::default() };
            trial.record(&log(
                n,
                "10.0.0.1",
                &format!("1.2.{}.{}", n / 250, n % 250),
                Body::Ssl(s),
            ));
        }
        assert!(trial.profile_bytes("10.0.0.1") < 16 << 10);
    }
}

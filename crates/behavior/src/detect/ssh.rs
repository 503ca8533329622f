//! SSH: logins that worked and passwords guessed.

use super::dga::contains;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::context::{Closing, Waking};
use crate::evidence::EvidenceBuilder;
use crate::limits::{PAIRS_MAX, SSH_JOINS_MAX, reached};
use crate::sketch::{Keyed, hash_ip, hash_text};
use crate::state::{First, Most, Slot, state};
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, Party, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Proto, SECOND, Service, Ssh as SshLog, TimeNs};

/// A login that worked.
pub(crate) static SUCCESSFUL: EvidenceType = EvidenceType::new("SSH_SUCCESSFUL", "T1021.004");
/// Passwords guessed.
pub(crate) static GUESSING: EvidenceType = EvidenceType::new("PASSWORD_GUESSING", "T1110.001");

const GUESSES: &str = "SSH brute force detector from {profile} to {dst} on ssh {port}/tcp. Attempts \
    observed: {count}.{0} Confidence: {sure}. by Gabion";

/// The detector.
#[derive(Debug)]
pub(crate) struct Ssh;

/// The flow's record may come after or before that of its handshake.
const PATIENCE: i64 = 15 * SECOND;
/// Attempts at which there is no doubt.
const SURE: u32 = 30;

state! {
    /// Servers tried in one window, by address and port.
    pub struct Campaigns {
        servers: Keyed<(Ip, u32), Campaign, PAIRS_MAX>,
    }
}

state! {
    /// One of them.
    pub struct Campaign {
        attempts: u32,
        reported: Most<u8>,
        first: First,
        last: TimeNs,
        client: String,
    }
}

state! {
    /// Flows and handshakes that wait for each other, by flow id.
    pub struct Joins {
        flows: Keyed<u64, Flow, SSH_JOINS_MAX>,
        handshakes: Keyed<u64, Handshake, SSH_JOINS_MAX>,
    }
}

state! {
    /// A flow to an SSH server.
    pub struct Flow {
        bytes: u64,
        at: TimeNs,
    }
}

state! {
    /// A handshake without verdict.
    pub struct Handshake {
        at: TimeNs,
        server: Ip,
        window: i64,
        uid: String,
    }
}

impl Detector for Ssh {
    type Window = Campaigns;
    type Kept = Joins;
    const ABOUT: About = About {
        types: &[&SUCCESSFUL, &GUESSING],
        condition: "Zeek says that a login worked, or the flow of a handshake without verdict has more \
            than 4,290 bytes; 9, 10, 12, 16, 24 … failed attempts at one server in a window",
        level: "SSH_SUCCESSFUL info, 0.8; PASSWORD_GUESSING medium; 1 from 30 attempts on, before 0.5 \
            and up to 0.4 by their number and 0.1 by the client's banner",
        settings: &[
            "flow_alerts.ssh_succesful_detection_threshold",
            "brute_force_detector.ssh_attempt_threshold",
        ],
    };
    const KINDS: u32 = bit(LogKind::Ssh) | bit(LogKind::Conn);

    /// Flows of SSH fit no seed.
    #[inline]
    fn speaks_first(_: &Context<'_, '_>) -> bool {
        false
    }

    fn record(window: &mut Slot<Campaigns>, kept: &mut Slot<Joins>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        match &r.body {
            Body::Conn(c) if r.dst_port == 22 || c.service == Service::Ssh => {
                if r.uid.is_empty() {
                    return;
                }
                let bytes = c.orig_bytes.saturating_add(c.resp_bytes);
                let key = hash_text(r.uid);
                let joins = kept.make();
                if let Some(handshake) = joins.handshakes.remove(key) {
                    worked(cx, handshake.server, bytes);
                    return;
                }
                let waits = |f: &Flow| r.ts.since(f.at) <= PATIENCE;
                let limit = &reached::SSH_JOINS_MAX;
                let flow = joins.flows.get_or_renew(key, limit, waits, |_, f| f.at);
                *flow = Flow { bytes, at: r.ts };
            }
            Body::Ssh(s) => {
                match s.auth_success {
                    Some(true) => say_success(cx, r.dst, None),
                    _ if r.uid.is_empty() => {}
                    verdict => join(cx, kept, verdict),
                }
                campaign(cx, window, s);
            }
            _ => {}
        }
    }

    fn close_window(window: &mut Slot<Campaigns>, closing: &mut Closing<'_>) {
        let Some(campaigns) = window.peek() else { return };
        for ((dst, port), c) in campaigns.servers.iter().filter(|c| c.1.reported.0 > 0) {
            let finding = closing.find(&GUESSING, closing.window, c.last);
            closing.say(c.says(finding, *dst, *port as u16, closing.settings.ssh_attempts));
        }
    }

    fn wake(kept: &mut Slot<Joins>, waking: &mut Waking<'_>) {
        let Some(joins) = kept.get() else { return };
        let now = waking.now;
        let is_end = waking.is_end;
        let mut next = None::<TimeNs>;
        joins.handshakes.retain(|_, h| {
            let at = h.at.plus(PATIENCE);
            let stays = !is_end && at > now;
            if stays {
                next = Some(next.map_or(at, |n| n.min(at)));
            }
            stays
        });
        if let Some(next) = next {
            *waking.timer = (*waking.timer).min(next);
        }
    }
}

/// A handshake without verdict waits for its flow, or finds it.
fn join(cx: &mut Context<'_, '_>, kept: &mut Slot<Joins>, verdict: Option<bool>) {
    let r = cx.record;
    if verdict == Some(false) {
        return;
    }
    let key = hash_text(r.uid);
    let joins = kept.make();
    if let Some(flow) = joins.flows.remove(key) {
        worked(cx, r.dst, flow.bytes);
        return;
    }
    let handshake =
        Handshake { at: r.ts, server: r.dst, window: cx.facts.window, uid: text(r.uid) };
    let limit = &reached::SSH_JOINS_MAX;
    *joins.handshakes.get_or_renew(key, limit, |_| true, |_, h| h.at) = handshake;
    cx.wake(r.ts.plus(PATIENCE));
}

fn worked(cx: &mut Context<'_, '_>, server: Ip, bytes: u64) {
    if bytes > cx.settings.ssh_success_bytes {
        say_success(cx, server, Some(bytes));
    }
}

fn say_success(cx: &mut Context<'_, '_>, server: Ip, bytes: Option<u64>) {
    let who = if bytes.is_some() { "Gabion" } else { "Zeek" };
    let sent = bytes.unwrap_or(0);
    cx.say_damped(hash_ip(server), |cx| {
        let mut finding = cx
            .find(&SUCCESSFUL)
            .level(ThreatLevel::Info, 0.8)
            .bytes(sent)
            .says(
                "SSH successful to IP {dst}. From IP {profile}. Sent bytes: {bytes}. Detection model {0}. \
                 Confidence 0.8",
            )
            .word(who);
        finding.0.victim = Some(Party::destination(server));
        finding
    });
}

fn campaign(cx: &mut Context<'_, '_>, window: &mut Slot<Campaigns>, s: &SshLog<'_>) {
    let r = cx.record;
    let added = match s.auth_success {
        Some(true) => 0,
        _ => s.auth_attempts.max(1),
    };
    let threshold = cx.settings.ssh_attempts;
    let key = (r.dst, u32::from(r.dst_port));
    let servers = &mut window.make().servers;
    let limit = &reached::PAIRS_MAX;
    let Some(c) = servers.get_or_admit(key, limit, |_| true, |_, c| c.attempts) else { return };
    c.attempts = c.attempts.saturating_add(added);
    c.first.see(r.ts);
    c.last = c.last.max(r.ts);
    let n = c.attempts;
    if n < threshold || added == 0 {
        return;
    }
    let bucket = (n - threshold + 1).ilog2() as u8 + 1;
    if bucket <= c.reported.0 {
        return;
    }
    c.reported = Most(bucket);
    c.client = text(s.client);
    let finding = c.says(cx.find(&GUESSING), r.dst, r.dst_port, threshold);
    cx.say(finding);
}

impl Campaign {
    fn says(
        &self,
        finding: EvidenceBuilder,
        dst: Ip,
        port: u16,
        threshold: u32,
    ) -> EvidenceBuilder {
        let banner = match self.client.as_str() {
            "" => String::new(),
            client => format!(" Client banner: {client}."),
        };
        finding
            .protocol(Proto::Tcp)
            .level(
                ThreatLevel::Medium,
                confidence(self.attempts, threshold, self.client.as_bytes()),
            )
            .victim(dst)
            .destination_port(port)
            .since(self.first.0, u64::from(self.attempts))
            .says(GUESSES)
            .word(banner)
    }
}

/// By the number of attempts and what the client calls itself.
fn confidence(n: u32, threshold: u32, client: &[u8]) -> f64 {
    const TOOLS: [&str; 10] = [
        "libssh", "paramiko", "hydra", "medusa", "ncrack", "net::ssh", "net-ssh", "asyncssh",
        "jsch", "sshj",
    ];
    const PROGRAMS: [&str; 4] = ["openssh", "putty", "dropbear", "winscp"];
    let sure = SURE.max(threshold);
    if n >= sure {
        return 1.0;
    }
    let lower = client.to_ascii_lowercase();
    let names = |list: &[&str]| list.iter().any(|name| contains(&lower, name.as_bytes()));
    let bonus = match (names(&TOOLS), names(&PROGRAMS)) {
        (true, _) => 0.07,
        (_, true) => 0.02,
        _ => 0.0,
    };
    let part = f64::from(n - threshold.min(n)) / f64::from((sure - threshold).max(1));
    (0.5 + 0.4 * part + bonus).min(0.99)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values, log};

    fn login(trial: &mut Trial, second: i64, s: SshLog<'_>, uid: &str) {
        let mut r = log(second, "10.0.0.1", "1.2.3.4", Body::Ssh(s));
        r.dst_port = 22;
        r.uid = uid.as_bytes();
        trial.record(&r);
    }

    /// 9, 10, 12, 16, 24: the buckets of attempts (facts 2.4).
    #[test]
    fn guesses_are_reported_in_growing_steps() {
        let mut trial = Trial::new();
        let failed = SshLog { auth_success: Some(false), auth_attempts: 1, ..SshLog::default() };
        for n in 0..30 {
            login(&mut trial, n, failed, "C");
        }
        let found = trial.evidence_of(&GUESSING);
        let counts: Vec<u64> = found.iter().map(|e| e.measures.count).collect();
        assert_eq!(counts, [9, 10, 12, 16, 24]);
    }

    #[test]
    fn eight_guesses_and_successes_are_none() {
        let mut trial = Trial::new();
        for n in 0..8 {
            login(&mut trial, n, SshLog { auth_attempts: 1, ..SshLog::default() }, "C");
        }
        for n in 0..50 {
            login(&mut trial, n, SshLog { auth_success: Some(true), ..SshLog::default() }, "C");
        }
        assert!(trial.evidence_of(&GUESSING).is_empty());
    }

    /// The flow has the earlier time and may have the later line: both orders join.
    #[test]
    fn a_login_is_known_by_the_bytes_of_its_flow() {
        for is_flow_first in [true, false] {
            let mut trial = Trial::new();
            let mut c = conn(if is_flow_first { 0 } else { 5 }, "10.0.0.1", "1.2.3.4", 22);
            c.uid = "Cx".into();
            (c.bytes, c.reply_bytes) = (3000, 1291);
            if is_flow_first {
                trial.give(&c);
            }
            login(&mut trial, 1, SshLog::default(), "Cx");
            if !is_flow_first {
                trial.give(&c);
            }
            trial.end();
            let found = trial.evidence_of(&SUCCESSFUL);
            assert_eq!(found.len(), 1, "{is_flow_first}");
            assert!(has_values(&found[0], &["4291"]));
        }
    }

    #[test]
    fn confidence_grows_with_attempts_and_tools() {
        assert_eq!(confidence(9, 9, b""), 0.5);
        assert!((confidence(9, 9, b"SSH-2.0-libssh2_1.4") - 0.57).abs() < 1e-9);
        assert_eq!(confidence(30, 9, b""), 1.0);
    }
}

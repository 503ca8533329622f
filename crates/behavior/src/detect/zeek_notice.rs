//! What Zeek itself found, and what it calls weird.

use super::dga::contains;
use super::horizontal_scan::TYPE as HORIZONTAL;
use super::ssh::GUESSING;
use super::vertical_scan::TYPE as VERTICAL;
use super::{About, Detector, bit};
use crate::context::Context;
use crate::sketch::{hash_ip, hash_text};
use crate::state::Slot;
use crate::text::text;
use gabion_record::Ip;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind, Notice, Proto};

/// Hosts asked for by ICMP.
pub(crate) static ICMP_ADDRESS: EvidenceType = EvidenceType::new("ICMP_ADDRESS_SCAN", "T1018");
/// Clocks asked for by ICMP.
pub(crate) static ICMP_TIMESTAMP: EvidenceType = EvidenceType::new("ICMP_TIMESTAMP_SCAN", "T1018");
/// Masks asked for by ICMP.
pub(crate) static ICMP_MASK: EvidenceType = EvidenceType::new("ICMP_ADDRESS_MASK_SCAN", "T1018");
/// An HTTP method that is none.
pub(crate) static WEIRD_METHOD: EvidenceType = EvidenceType::new("WEIRD_HTTP_METHOD", "T1071.001");

/// The detector.
#[derive(Debug)]
pub(crate) struct ZeekNotice;

impl Detector for ZeekNotice {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&ICMP_ADDRESS, &ICMP_TIMESTAMP, &ICMP_MASK, &WEIRD_METHOD],
        condition: "notice.log has Port_Scan, Address_Scan (as VERTICAL_ and HORIZONTAL_PORT_SCAN), \
            Password_Guessing (as PASSWORD_GUESSING), ICMPAddressScan, TimestampScan or \
            AddressMaskScan; weird.log has unknown_HTTP_method; at the 1st, 10th, 100th … time of the \
            same text",
        level: "scans of ports high, 1; PASSWORD_GUESSING medium, 1; ICMP medium, by hosts: \
            (hosts − 255) / 250 + 1; WEIRD_HTTP_METHOD medium, 0.9",
        settings: &[],
    };
    const KINDS: u32 = bit(LogKind::Notice) | bit(LogKind::Weird);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        match &r.body {
            Body::Notice(n) => notice(n, cx),
            Body::Weird(w) if contains(w.name, b"unknown_HTTP_method") => {
                cx.say_damped(hash_ip(r.dst) ^ hash_text(w.addl), |cx| {
                    cx.find(&WEIRD_METHOD)
                        .level(ThreatLevel::Medium, 0.9)
                        .victim(r.dst)
                        .about(hash_text(w.addl))
                        .says("Weird HTTP method {0} to IP: {dst}. by Zeek.")
                        .word(text(w.addl))
                });
            }
            _ => {}
        }
    }
}

fn notice(n: &Notice<'_>, cx: &mut Context<'_, '_>) {
    let r = cx.record;
    let has = |word: &str| contains(n.note, word.as_bytes());
    let what = hash_text(n.msg);
    let msg = text(n.msg);
    if has("Port_Scan") {
        *cx.is_scanner = true;
        let victim = between(n.msg, b"ports of host ", b" in").and_then(Ip::parse);
        cx.say_damped(what, |cx| {
            let finding = cx
                .find(&VERTICAL)
                .level(ThreatLevel::High, 1.0)
                .about(what)
                .says("vertical port scan by Zeek engine. {0}")
                .word(msg.clone());
            match victim {
                Some(ip) => finding.victim(ip),
                None => finding,
            }
        });
    } else if has("Address_Scan") {
        *cx.is_scanner = true;
        cx.say_damped(what, |cx| {
            cx.find(&HORIZONTAL)
                .level(ThreatLevel::High, 1.0)
                .destination_port(r.dst_port)
                .about(what)
                .says("horizontal port scan by Zeek engine. {0}")
                .word(msg.clone())
        });
    } else if has("Password_Guessing") {
        cx.say_damped(0, |cx| {
            cx.find(&GUESSING)
                .level(ThreatLevel::Medium, 1.0)
                .says(
                    "SSH brute force detector. {0}. Confirmed by Zeek notice.log. Confidence: 1.0. by \
                     Zeek",
                )
                .word(msg.clone())
        });
    }
    let icmp = match () {
        () if has("TimestampScan") => &ICMP_TIMESTAMP,
        () if has("ICMPAddressScan") => &ICMP_ADDRESS,
        () if has("AddressMaskScan") => &ICMP_MASK,
        () => return,
    };
    let hosts = between(n.msg, b" on ", b" hosts").and_then(number).unwrap_or(0.0);
    let sure = ((hosts - 255.0) / 250.0 + 1.0).clamp(0.0, 1.0);
    cx.say_damped(what, |cx| {
        cx.find(icmp)
            .level(ThreatLevel::Medium, sure)
            .protocol(Proto::Icmp)
            .about(what)
            .hosts(hosts as u64)
            .says("{0}")
            .word(msg.clone())
    });
}

/// The text between two others.
fn between<'a>(text: &'a [u8], before: &[u8], after: &[u8]) -> Option<&'a [u8]> {
    let find = |text: &[u8], word: &[u8]| text.windows(word.len()).position(|w| w == word);
    let rest = text.get(find(text, before)? + before.len()..)?;
    rest.get(..find(rest, after)?)
}

fn number(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.trim().parse().ok().filter(|n: &f64| n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, log};
    use gabion_record::logs::Weird;

    fn say(trial: &mut Trial, second: i64, note: &str, msg: &str) {
        let body = Notice { note: note.as_bytes(), msg: msg.as_bytes(), sub: b"" };
        trial.record(&log(second, "10.0.0.1", "10.0.0.1", Body::Notice(body)));
    }

    #[test]
    fn notices_become_evidence() {
        let mut trial = Trial::new();
        say(
            &mut trial,
            0,
            "Scan::Port_Scan",
            "10.0.0.1 scanned at least 15 unique ports of host 1.2.3.4 in 0m10s",
        );
        say(
            &mut trial,
            1,
            "Scan::Address_Scan",
            "10.0.0.1 scanned at least 25 unique hosts on port 23/tcp in 1m14s",
        );
        say(
            &mut trial,
            2,
            "SSH::Password_Guessing",
            "10.0.0.1 appears to be guessing SSH passwords (seen in 30 connections).",
        );
        say(
            &mut trial,
            3,
            "ICMP::ICMPAddressScan",
            "192.168.1.15 performed ICMP address scan on 230 hosts",
        );
        let victim = trial.evidence_of(&VERTICAL)[0].victim.as_ref().and_then(|v| v.ip());
        assert_eq!(victim, Ip::parse(b"1.2.3.4"));
        assert_eq!(
            (trial.evidence_of(&HORIZONTAL).len(), trial.evidence_of(&GUESSING).len()),
            (1, 1)
        );
        assert_eq!(trial.evidence_of(&ICMP_ADDRESS)[0].confidence, 0.9);
    }

    #[test]
    fn other_notices_are_none() {
        let mut trial = Trial::new();
        say(&mut trial, 0, "CaptureLoss::Too_Little_Traffic", "Only observed 0 TCP ACKs");
        say(&mut trial, 1, "", "");
        assert!(trial.said.is_empty());
    }

    #[test]
    fn repeats_and_broken_texts() {
        let mut trial = Trial::new();
        for n in 0..50 {
            say(&mut trial, n, "ICMP::TimestampScan", "x on hosts");
            let body = Weird { name: b"unknown_HTTP_method", addl: b"FOO" };
            trial.record(&log(n, "10.0.0.1", "1.2.3.4", Body::Weird(body)));
        }
        assert_eq!(
            (trial.evidence_of(&ICMP_TIMESTAMP).len(), trial.evidence_of(&WEIRD_METHOD).len()),
            (2, 2)
        );
    }
}

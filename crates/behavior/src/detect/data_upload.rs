//! Much sent to one place.

use super::{About, Detector, bit};
use crate::context::Closing;
use crate::context::Context;
use crate::evidence::EvidenceBuilder;
use crate::limits::{UPLOADS_MAX, reached};
use crate::rita;
use crate::sketch::Keyed;
use crate::state::{First, Most, Slot, state};
use gabion_record::Ip;
use gabion_record::evidence::{CallKind, EvidenceType, Party, ThreatLevel, Topic};
use gabion_record::logs::{Body, LogKind, Proto, TimeNs};

/// Its evidence.
pub(crate) static TYPE: EvidenceType =
    EvidenceType::new("DATA_UPLOAD", "T1048").about(Topic::Call(CallKind::Upload));

/// The detector.
#[derive(Debug)]
pub(crate) struct DataUpload;

/// Bytes of one flow that are much.
const FLOW_BYTES: u64 = 100_000_000;
/// Megabytes between which the threat of an upload rises as RITA's threats do: from one great flow to a disk.
const MUCH: [f64; 4] = [100.0, 500.0, 2_000.0, 10_000.0];
/// Slips' megabyte.
const MEGABYTE: u64 = 1_000_000;
/// Flows smaller than this join the table only while it has space, and when the window has seen some.
const SMALL: u64 = 1 << 16;
/// The part of the limit that small flows of a window may have before they are counted by destination: most hosts
/// never send that much and need no table. The reported number is a lower bound.
const UNTOLD: u64 = 50;

state! {
    /// Bytes by destination in one window: the heaviest (space-saving, Metwally et al. 2005).
    pub struct Uploads {
        heavy: Keyed<Ip, Sent, UPLOADS_MAX>,
        /// Bytes to all.
        all: u64,
    }
}

state! {
    /// One destination.
    pub struct Sent {
        bytes: u64,
        flows: u64,
        first: First,
        last: TimeNs,
        reported: Most<u8>,
        is_reported: bool,
        port: u16,
    }
}

impl Detector for DataUpload {
    type Window = Uploads;
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "one flow sends 100 MB, or all flows of a window send 500 MB to one destination \
            (then at every tenfold); not to the gateway, multicast, link-local or reserved addresses",
        level: "the source info, the destination high; 0.6",
        settings: &["flow_alerts.data_exfiltration_threshold"],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    /// It says nothing of one flow of less than 100 MB, unless less is much by the settings.
    #[inline]
    fn speaks_first(cx: &Context<'_, '_>) -> bool {
        let least = cx.settings.upload_mb.saturating_mul(MEGABYTE).min(FLOW_BYTES);
        matches!(&cx.record.body, Body::Conn(c) if c.orig_bytes >= least)
    }

    #[inline]
    fn record(window: &mut Slot<Uploads>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        let bytes = c.orig_bytes;
        if bytes == 0
            || cx.facts.gateway == Some(r.dst)
            || r.dst.is_multicast()
            || r.dst.is_link_local()
            || r.dst.is_reserved()
        {
            return;
        }
        let limit = cx.settings.upload_mb.saturating_mul(MEGABYTE);
        let uploads = window.make();
        uploads.all = uploads.all.saturating_add(bytes);
        if bytes < SMALL && uploads.heavy.get(r.dst).is_none() {
            let is_full = uploads.heavy.is_full();
            if is_full {
                reached::UPLOADS_MAX.count();
            }
            if is_full || uploads.all < limit / UNTOLD {
                return;
            }
        }
        // The lightest goes, unless it is heavier than this flow.
        let sent = uploads.heavy.get_or_admit(
            r.dst,
            &reached::UPLOADS_MAX,
            |heavy| heavy.iter().map(|(_, s)| s.bytes).min().is_none_or(|least| bytes > least),
            |_, s| s.bytes,
        );
        let mut crossed = None;
        if let Some(sent) = sent {
            sent.is_reported |= bytes >= FLOW_BYTES;
            sent.port = r.dst_port;
            sent.last = sent.last.max(r.ts);
            sent.bytes = sent.bytes.saturating_add(bytes);
            sent.flows += 1;
            sent.first.see(r.ts);
            let times = sent.bytes.checked_div(limit).unwrap_or(0);
            let step = times.checked_ilog10().map_or(0, |log| log as u8 + 1);
            if step > sent.reported.0 {
                sent.reported = Most(step);
                sent.is_reported = true;
                crossed = Some((sent.bytes, sent.first.0, sent.flows));
            }
        }
        if bytes >= FLOW_BYTES {
            say(cx, bytes, r.ts, 1);
        } else if let Some((bytes, first, flows)) = crossed {
            say(cx, bytes, first, flows);
        }
    }

    fn close_window(window: &mut Slot<Uploads>, closing: &mut Closing<'_>) {
        let Some(uploads) = window.peek() else { return };
        for (dst, sent) in uploads.heavy.iter().filter(|s| s.1.is_reported && s.1.flows > 1) {
            let finding = closing.find(&TYPE, closing.window, sent.last);
            let finding = says(finding, sent.port, sent.bytes, (sent.first.0, sent.flows));
            closing.say_pair(finding, Party::destination(*dst), *dst, ThreatLevel::High);
        }
    }
}

fn say(cx: &mut Context<'_, '_>, bytes: u64, first: TimeNs, flows: u64) {
    let finding = says(cx.find(&TYPE), cx.record.dst_port, bytes, (first, flows));
    cx.say_both(finding, ThreatLevel::Info, ThreatLevel::High);
}

fn says(
    finding: EvidenceBuilder,
    port: u16,
    bytes: u64,
    (first, flows): (TimeNs, u64),
) -> EvidenceBuilder {
    // Whatever protocols its flows are of.
    finding
        .protocol(Proto::Tcp)
        .level(ThreatLevel::Info, 0.6)
        .port_now(port)
        .since(first, flows)
        .bytes(bytes)
        .threat(rita::bucket(bytes as f64 / MEGABYTE as f64, MUCH))
        .says("Large data upload. {mb} MBs sent to {dst}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn, has_values};

    fn sent(bytes: u64, flows: i64) -> Vec<gabion_record::evidence::Evidence> {
        let mut trial = Trial::new();
        for n in 0..flows {
            trial.give(&conn(n, "10.0.0.1", "1.2.3.4", 443).sending(bytes));
        }
        trial.evidence_of(&TYPE)
    }

    #[test]
    fn one_great_flow_or_many_small_ones() {
        assert!(sent(99_999_999, 1).is_empty());
        assert_eq!(sent(100_000_000, 1).len(), 2);
        assert!(sent(99_000_000, 5).is_empty());
        let found = sent(99_000_000, 6);
        assert_eq!(found.len(), 2);
        assert!(has_values(&found[0], &["594.00", "1.2.3.4"]), "{}", found[0].description());
        assert_eq!(found[0].related, [found[1].report_id]);
    }

    /// D15 of Slips: windows are not added up.
    #[test]
    fn a_window_counts_for_itself() {
        let mut trial = Trial::new();
        for n in 0..20 {
            trial.give(&conn(n * 1800, "10.0.0.1", "1.2.3.4", 443).sending(99_000_000));
        }
        assert!(trial.evidence_of(&TYPE).is_empty());
    }

    #[test]
    fn many_small_destinations_do_not_hide_a_heavy_one() {
        let mut trial = Trial::new();
        for n in 0..6000u32 {
            let dst = format!("9.9.{}.{}", n / 250, n % 250);
            trial.give(&conn(n.into(), "10.0.0.1", &dst, 443).sending(90_000));
            if n % 100 == 0 {
                trial.give(&conn(n.into(), "10.0.0.1", "1.2.3.4", 443).sending(20_000_000));
            }
        }
        assert!(!trial.evidence_of(&TYPE).is_empty());
    }
}

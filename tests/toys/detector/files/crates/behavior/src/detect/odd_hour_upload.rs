//! Much that leaves the site at an hour when people sleep.

use super::{About, Detector, bit};
use crate::context::Context;
use crate::state::Slot;
use gabion_record::evidence::{EvidenceType, ThreatLevel};
use gabion_record::logs::{Body, LogKind};

/// Its evidence.
pub(crate) static TYPE: EvidenceType = EvidenceType::new("ODD_HOUR_UPLOAD", "T1048");

/// Hours of the day, in UTC, from the first to before the last.
const HOURS: std::ops::Range<i64> = 1..5;

/// The detector.
#[derive(Debug)]
pub(crate) struct OddHourUpload;

impl Detector for OddHourUpload {
    type Window = ();
    type Kept = ();
    const ABOUT: About = About {
        types: &[&TYPE],
        condition: "a flow to an address outside that begins between 1:00 and 5:00 UTC sends 100 MB",
        level: "medium; 0.5",
        settings: &["gabion.odd_hour_upload_mb"],
    };
    const KINDS: u32 = bit(LogKind::Conn);

    fn record(_: &mut Slot<()>, _: &mut Slot<()>, cx: &mut Context<'_, '_>) {
        let r = cx.record;
        let Body::Conn(c) = &r.body else { return };
        let hour = r.ts.seconds().rem_euclid(86_400) / 3_600;
        let least = cx.settings.odd_hour_upload_mb.saturating_mul(1_000_000);
        if !HOURS.contains(&hour) || c.orig_bytes < least || cx.settings.is_own(r.dst) {
            return;
        }
        let finding = cx
            .find(&TYPE)
            .level(ThreatLevel::Medium, 0.5)
            .victim(r.dst)
            .destination_port(r.dst_port)
            .bytes(c.orig_bytes)
            .says("Upload at an odd hour from {profile} to {dst}");
        cx.say(finding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{Trial, conn};

    fn found(second: i64, dst: &str, bytes: u64) -> usize {
        let mut trial = Trial::new();
        trial.give(&conn(second, "10.0.0.1", dst, 443).sending(bytes));
        trial.evidence_of(&TYPE).len()
    }

    #[test]
    fn an_upload_at_night_is_found() {
        assert_eq!(found(2 * 3_600, "1.2.3.4", 100_000_000), 1);
        assert_eq!(found(-23 * 3_600, "1.2.3.4", 100_000_000), 1);
    }

    #[test]
    fn one_byte_less_an_hour_off_or_inside_is_none() {
        assert_eq!(found(2 * 3_600, "1.2.3.4", 99_999_999), 0);
        assert_eq!(found(5 * 3_600, "1.2.3.4", 100_000_000), 0);
        assert_eq!(found(2 * 3_600, "10.0.0.9", 100_000_000), 0);
    }

    #[test]
    fn counts_that_lie_break_nothing() {
        assert_eq!(found(2 * 3_600, "1.2.3.4", u64::MAX), 1);
    }
}

//! TCP timestamps: protection against wrapped sequence numbers (PAWS, RFC 7323 5), with the
//! differences of the receiving host's stack.

use super::session::{Step, TcpSession};
use crate::events::StreamEvent;
use crate::policy::OsPolicy;

/// After 24 days a timestamp is meaningless (RFC 7323 5.5).
const PAWS_24_DAYS_S: u32 = 24 * 24 * 60 * 60;

impl TcpSession {
    /// Whether the receiver would accept the packet's timestamp; adds the event if not.
    pub(crate) fn timestamp_is_valid(&mut self, step: &mut Step<'_>) -> bool {
        let valid = self.check_timestamp(step);
        if !valid {
            step.event(StreamEvent::PktInvalidTimestamp);
        }
        valid
    }

    /// The check itself. It also decides what a timestamp of 0 in the handshake meant.
    fn check_timestamp(&mut self, step: &Step<'_>) -> bool {
        let seg = step.seg;
        let Some(ts) = seg.options.ts_val else { return true };
        let now = seg.seconds();
        let midstream = self.marks.midstream;
        let liberal = step.cfg.liberal_timestamps;
        let (own, _) = self.pair(step.dir);
        let policy = own.policy();
        let mut must_check = true;
        let mut last_ts = own.clock.ts;
        if own.marks.zero_timestamp {
            match policy {
                // These stacks treat 0 in the handshake as "no timestamps".
                OsPolicy::Linux | OsPolicy::Windows2k3 => {
                    self.marks.timestamps = false;
                    must_check = false;
                }
                OsPolicy::OldLinux | OsPolicy::Windows | OsPolicy::Vista => {
                    own.marks.zero_timestamp = false;
                    if own.next_seq == seg.seq {
                        last_ts = ts;
                        must_check = false;
                    }
                }
                OsPolicy::First
                | OsPolicy::Last
                | OsPolicy::Bsd
                | OsPolicy::BsdRight
                | OsPolicy::OldSolaris
                | OsPolicy::Solaris
                | OsPolicy::Hpux10
                | OsPolicy::Hpux11
                | OsPolicy::Irix
                | OsPolicy::Macos => {}
            }
        }
        let (own, _) = self.pair(step.dir);
        if policy == OsPolicy::Hpux11 && own.next_seq != seg.seq {
            must_check = false;
        }
        if ts == 0 {
            let takes_zero = matches!(
                policy,
                OsPolicy::OldLinux
                    | OsPolicy::Windows
                    | OsPolicy::Windows2k3
                    | OsPolicy::Vista
                    | OsPolicy::Solaris
                    | OsPolicy::OldSolaris
            );
            if !takes_zero {
                return false;
            }
        }
        if !must_check {
            return true;
        }
        let off_by_one = policy == OsPolicy::Linux || liberal;
        let ahead = ts.wrapping_sub(last_ts).wrapping_add(u32::from(off_by_one)) as i32;
        let last_pkt = if own.clock.pkt_s == 0 && midstream { now } else { own.clock.pkt_s };
        let stale = now > last_pkt.saturating_add(PAWS_24_DAYS_S);
        if ahead >= 0 && !(last_ts != 0 && stale) {
            return true;
        }
        // An old state must not lock the connection out.
        own.next_seq == seg.seq && stale
    }

    /// Stores the timestamp of an accepted packet.
    #[inline]
    pub(crate) fn note_timestamp(&mut self, step: &Step<'_>) {
        if !self.marks.timestamps {
            return;
        }
        let seg = step.seg;
        let now = seg.seconds();
        let (own, _) = self.pair(step.dir);
        match seg.options.ts_val {
            Some(ts) => {
                if own.next_seq == seg.seq || own.marks.zero_timestamp {
                    own.clock.ts = ts;
                }
                own.clock.pkt_s = now;
            }
            // Solaris stops using timestamps after a packet without one.
            None if matches!(own.policy(), OsPolicy::Solaris | OsPolicy::OldSolaris) => {
                self.marks.timestamps = false;
            }
            None => {}
        }
    }
}

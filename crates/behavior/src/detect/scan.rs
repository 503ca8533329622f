//! What both kinds of port scans share: which flows count, when a count is reported, and with which confidence.

use crate::site::Facts;
use gabion_record::logs::{Conn, Proto, Record};

/// Whether a flow counts towards scans: TCP or UDP, not established, to a host that could answer and did not
/// ask for it.
#[inline]
pub(super) fn counts(r: &Record<'_>, c: &Conn<'_>, facts: &Facts) -> bool {
    let d = r.dst;
    !c.is_established
        && !facts.is_answer
        && matches!(r.proto, Proto::Tcp | Proto::Udp)
        && !d.is_multicast()
        && !d.is_link_local()
        && !d.is_loopback()
        && !d.is_reserved()
}

/// The bucket that a count is in: reported when it grows, so at 10, 100, 1,000 … (never at 5 or fewer).
#[inline]
pub(super) fn bucket(count: u64) -> u8 {
    match count {
        0..=9 => 0,
        n => n.ilog10() as u8,
    }
}

/// How sure, by packets sent.
pub(super) fn confidence(packets: u64) -> f64 {
    match packets {
        0 => 0.3,
        1..=10 => packets as f64 / 10.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_grow_at_powers_of_ten() {
        for (count, b) in [(1, 0), (9, 0), (10, 1), (99, 1), (100, 2), (1000, 3), (65_536, 4)] {
            assert_eq!(bucket(count), b, "{count}");
        }
        assert_eq!((confidence(0), confidence(5), confidence(11)), (0.3, 0.5, 1.0));
    }
}

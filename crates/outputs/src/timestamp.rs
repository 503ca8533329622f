//! Time stamps as the peer's outputs write them, in local time, with the text of the current second
//! kept: hundreds of thousands of records a second fall into few seconds.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Formats event times. One per output, not shared.
#[derive(Debug, Clone)]
pub struct Stamp {
    zone: TimeZone,
    second: i64,
    iso: Vec<u8>,
    iso_zone: Vec<u8>,
    fast: Vec<u8>,
}

impl Default for Stamp {
    fn default() -> Stamp {
        Stamp::new()
    }
}

impl Stamp {
    /// Formats in the system's zone (`TZ` is honored).
    pub fn new() -> Stamp {
        Stamp {
            zone: TimeZone::system(),
            second: i64::MIN,
            iso: Vec::new(),
            iso_zone: Vec::new(),
            fast: Vec::new(),
        }
    }

    fn refresh(&mut self, second: i64) {
        if second == self.second {
            return;
        }
        self.second = second;
        let at = Timestamp::from_second(second).unwrap_or(Timestamp::UNIX_EPOCH);
        let z = at.to_zoned(self.zone.clone());
        self.iso = z.strftime("%Y-%m-%dT%H:%M:%S.").to_string().into_bytes();
        self.iso_zone = z.strftime("%z").to_string().into_bytes();
        self.fast = z.strftime("%m/%d/%Y-%H:%M:%S.").to_string().into_bytes();
    }

    /// `2016-07-13T22:42:07.573103+0000`
    pub fn iso(&mut self, ts_ns: u64, out: &mut Vec<u8>) {
        self.refresh((ts_ns / 1_000_000_000) as i64);
        out.extend_from_slice(&self.iso);
        micros(ts_ns, out);
        out.extend_from_slice(&self.iso_zone);
    }

    /// `07/13/2016-22:42:07.573103`
    pub fn fast(&mut self, ts_ns: u64, out: &mut Vec<u8>) {
        self.refresh((ts_ns / 1_000_000_000) as i64);
        out.extend_from_slice(&self.fast);
        micros(ts_ns, out);
    }
}

fn micros(ts_ns: u64, out: &mut Vec<u8>) {
    let mut us = (ts_ns % 1_000_000_000) / 1000;
    let mut digits = [b'0'; 6];
    for d in digits.iter_mut().rev() {
        *d = b'0' + (us % 10) as u8;
        us /= 10;
    }
    out.extend_from_slice(&digits);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_have_six_digits_and_a_zone() {
        let mut s = Stamp { zone: TimeZone::UTC, ..Stamp::new() };
        let mut out = Vec::new();
        s.iso(1_468_449_727_573_103_999, &mut out);
        assert_eq!(out, b"2016-07-13T22:42:07.573103+0000");
        out.clear();
        s.fast(1_468_449_727_000_007_000, &mut out);
        assert_eq!(out, b"07/13/2016-22:42:07.000007");
    }
}

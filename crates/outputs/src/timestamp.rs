//! Time stamps as Suricata's outputs write them, in local time.
//!
//! Records of one packet share a second, records of a flow's end come from few; so the texts of some
//! seconds are kept. The zone is asked for its offset only when a second is new, and the rest is
//! arithmetic.

use gabion_record::calendar::date_from_days;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Seconds whose texts are kept, each in the place that its last bits name.
const KEPT: usize = 64;

/// The text of one second.
#[derive(Debug, Clone)]
struct Second {
    second: u64,
    /// `2016-07-13T22:42:07.`
    iso: [u8; 20],
    /// `07/13/2016-22:42:07.`
    fast: [u8; 20],
    /// `+0000`, and for zones of long ago the seconds after it.
    zone: [u8; 7],
    zone_len: u8,
}

/// Seconds by which local time is ahead of UTC at this time, in nanoseconds since 1970.
pub fn utc_offset_s(ts_ns: u64) -> i32 {
    let second = i64::try_from(ts_ns / 1_000_000_000).unwrap_or_default();
    let at = Timestamp::from_second(second).unwrap_or_default();
    TimeZone::system().to_offset(at).seconds()
}

/// Formats event times. One per output, not shared.
#[derive(Debug, Clone)]
pub struct Stamp {
    zone: TimeZone,
    kept: Vec<Second>,
}

impl Default for Stamp {
    fn default() -> Stamp {
        Stamp::new()
    }
}

impl Stamp {
    /// Formats in the system's zone (`TZ` is honored).
    pub fn new() -> Stamp {
        Stamp { zone: TimeZone::system(), kept: Vec::new() }
    }

    fn at(&mut self, ts_ns: u64) -> &Second {
        let second = ts_ns / 1_000_000_000;
        if self.kept.is_empty() {
            self.kept = vec![Second::in_zone(0, &self.zone); KEPT];
        }
        let slot = &mut self.kept[second as usize % KEPT];
        if slot.second != second {
            *slot = Second::in_zone(second, &self.zone);
        }
        slot
    }

    /// `2016-07-13T22:42:07.573103+0000`
    pub fn iso(&mut self, ts_ns: u64, out: &mut Vec<u8>) {
        let at = self.at(ts_ns);
        out.extend_from_slice(&at.iso);
        micros(ts_ns, out);
        out.extend_from_slice(at.zone.get(..usize::from(at.zone_len)).unwrap_or_default());
    }

    /// `07/13/2016-22:42:07.573103`
    pub fn fast(&mut self, ts_ns: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.at(ts_ns).fast);
        micros(ts_ns, out);
    }

    /// The time in a format of strftime(3), to the second; `-` for a format that is none.
    pub fn in_format(&self, ts_ns: u64, format: &str) -> String {
        let second = i64::try_from(ts_ns / 1_000_000_000).unwrap_or_default();
        let at = Timestamp::from_second(second).unwrap_or_default().to_zoned(self.zone.clone());
        jiff::fmt::strtime::format(format, &at).unwrap_or_else(|_| "-".to_owned())
    }
}

impl Second {
    fn in_zone(second: u64, zone: &TimeZone) -> Second {
        let at = i64::try_from(second).ok().and_then(|s| Timestamp::from_second(s).ok());
        let at = at.unwrap_or(Timestamp::UNIX_EPOCH);
        let offset = i64::from(zone.to_offset(at).seconds());
        let local = at.as_second() + offset;
        let (year, month, day) = date_from_days(local.div_euclid(86_400));
        let of_day = local.rem_euclid(86_400);
        let (hour, minute, sec) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        let mut iso = *b"0000-00-00T00:00:00.";
        let mut fast = *b"00/00/0000-00:00:00.";
        for (at, value) in [(0, year / 100), (2, year % 100), (5, month), (8, day)] {
            two(&mut iso, at, value);
        }
        for (at, value) in [(0, month), (3, day), (6, year / 100), (8, year % 100)] {
            two(&mut fast, at, value);
        }
        for (at, value) in [(11, hour), (14, minute), (17, sec)] {
            two(&mut iso, at, value);
            two(&mut fast, at, value);
        }
        let mut zone = *b"+000000";
        if offset < 0 {
            zone[0] = b'-';
        }
        let ahead = offset.abs();
        for (at, value) in [(1, ahead / 3600), (3, ahead / 60 % 60), (5, ahead % 60)] {
            two(&mut zone, at, value);
        }
        let zone_len = if ahead % 60 == 0 { 5 } else { 7 };
        Second { second, iso, fast, zone, zone_len }
    }
}

/// Two digits of a number below 100.
fn two(text: &mut [u8], at: usize, value: i64) {
    if let Some(place) = text.get_mut(at..at + 2) {
        place.copy_from_slice(&[b'0' + (value / 10 % 10) as u8, b'0' + (value % 10) as u8]);
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
        out.clear();
        s.iso(0, &mut out);
        assert_eq!(out, b"1970-01-01T00:00:00.000000+0000");
    }

    /// As the library formats them, whatever the zone: days around ends of months, years and
    /// centuries, offsets on either side, with minutes and with seconds.
    #[test]
    fn stamps_are_those_of_the_calendar() {
        let zone = |seconds| TimeZone::fixed(jiff::tz::Offset::from_seconds(seconds).unwrap());
        for zone in [0, 3600, -3600, 19_800, -34_200, 50_400, -43_200, 1172].map(zone) {
            let mut s = Stamp { zone: zone.clone(), ..Stamp::new() };
            for day in (0..213_000_u64).step_by(17).chain(10_950..12_100) {
                let second = day * 86_400 + day * 7919 % 86_400;
                let z = Timestamp::from_second(second as i64).unwrap().to_zoned(zone.clone());
                let (mut iso, mut fast) = (Vec::new(), Vec::new());
                s.iso(second * 1_000_000_000, &mut iso);
                s.fast(second * 1_000_000_000, &mut fast);
                let wanted = z.strftime("%Y-%m-%dT%H:%M:%S.000000%z").to_string();
                assert_eq!(String::from_utf8(iso).unwrap(), wanted);
                let wanted = z.strftime("%m/%d/%Y-%H:%M:%S.000000").to_string();
                assert_eq!(String::from_utf8(fast).unwrap(), wanted);
            }
        }
    }
}

//! Times of messages: RFC 3339, RFC 3164's without year and zone, and their relatives.

use super::Received;
use gabion_record::calendar::{date_from_days, days_from_date, days_of_month};

/// A point in time as a message states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Seconds since 1970, UTC.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
    /// The zone it was stated in, seconds east of UTC; stated or assumed.
    pub zone_seconds: i32,
}

const MONTHS: [&[u8; 3]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// A number of `least` to `most` digits.
    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.text.get(self.at..)?;
        let len = digits.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
        if len < least {
            return None;
        }
        let value = digits[..len].iter().fold(0i64, |n, d| n * 10 + i64::from(d - b'0'));
        self.at += len;
        Some(value)
    }

    /// `hh:mm:ss` and a fraction, in seconds and nanoseconds. No leap second: RFC 5424 forbids it.
    fn clock(&mut self) -> Option<(i64, u32)> {
        let hour = self.number(2, 2).filter(|n| *n < 24)?;
        self.skip(b':')?;
        let minute = self.number(2, 2).filter(|n| *n < 60)?;
        self.skip(b':')?;
        let second = self.number(2, 2).filter(|n| *n < 60)?;
        let mut nanos = 0;
        if matches!(self.peek(), Some(b'.' | b','))
            && self.text.get(self.at + 1).is_some_and(u8::is_ascii_digit)
        {
            self.at += 1;
            let digits = &self.text[self.at..];
            let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
            // Further digits than nine are cut, never rounded: no carry.
            let kept = digits[..len].iter().map(|d| u32::from(d - b'0'));
            nanos = kept.chain(std::iter::repeat(0)).take(9).fold(0, |n, d| n * 10 + d);
            self.at += len;
        }
        Some((hour * 3600 + minute * 60 + second, nanos))
    }
}

/// `2003-10-11T22:14:15.003Z` or with an offset; the stamp and its length.
pub(super) fn iso(text: &[u8]) -> Option<(Stamp, usize)> {
    let mut cursor = Cursor { text, at: 0 };
    let days = iso_date(&mut cursor)?;
    cursor.skip(b'T')?;
    let (seconds, nanos) = cursor.clock()?;
    let zone_seconds = match cursor.peek()? {
        b'Z' => {
            cursor.at += 1;
            0
        }
        sign @ (b'+' | b'-') => {
            cursor.at += 1;
            let hours = cursor.number(2, 2).filter(|n| *n < 24)?;
            cursor.skip(b':')?;
            let minutes = cursor.number(2, 2).filter(|n| *n < 60)?;
            let zone = (hours * 3600 + minutes * 60) as i32;
            if sign == b'-' { -zone } else { zone }
        }
        _ => return None,
    };
    let seconds = days * 86_400 + seconds - i64::from(zone_seconds);
    Some((Stamp { seconds, nanos, zone_seconds }, cursor.at))
}

/// Whether a word is built as a time of RFC 3339, be it one (hour 24, second 60) or not.
pub(super) fn is_built_as_iso(word: &[u8]) -> bool {
    let shape = b"0000-00-00T00:00:00";
    let is_like = |(byte, like): (&u8, &u8)| match like {
        b'0' => byte.is_ascii_digit(),
        _ => byte.eq_ignore_ascii_case(like),
    };
    let Some((moment, mut zone)) = word.split_at_checked(shape.len()) else { return false };
    if let Some(fraction) = zone.strip_prefix(b".") {
        zone = &fraction[fraction.iter().take_while(|b| b.is_ascii_digit()).count()..];
    }
    let is_zone = match zone {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', zone @ ..] => zone.len() == 5 && zone.iter().zip(b"00:00").all(is_like),
        _ => false,
    };
    is_zone && moment.iter().zip(shape).all(is_like)
}

/// `2020-01-01 00:00:00`, in the assumed zone.
pub(super) fn sql(text: &[u8], received: &Received) -> Option<(Stamp, usize)> {
    let mut cursor = Cursor { text, at: 0 };
    let days = iso_date(&mut cursor)?;
    cursor.skip(b' ')?;
    let (seconds, nanos) = cursor.clock()?;
    Some((stamp(days * 86_400 + seconds, nanos, received), cursor.at))
}

fn iso_date(cursor: &mut Cursor<'_>) -> Option<i64> {
    let year = cursor.number(4, 4)?;
    cursor.skip(b'-')?;
    let month = cursor.number(2, 2)?;
    cursor.skip(b'-')?;
    let day = cursor.number(2, 2)?;
    days(year, month, day)
}

/// `Oct 11 22:14:15`, with one space or two before the day, a year in the middle or at the end, a fraction. No
/// stamp where the month has no such day: the time is none then, and what follows it stands where it does after any.
pub(super) fn bsd(text: &[u8], received: &Received) -> Option<(Option<Stamp>, usize)> {
    let name: [u8; 3] = text.get(..3)?.to_ascii_lowercase().try_into().ok()?;
    let month = MONTHS.iter().position(|m| **m == name)? as i64 + 1;
    let mut cursor = Cursor { text, at: 3 };
    cursor.skip(b' ')?;
    let _ = cursor.skip(b' ');
    let day = cursor.number(1, 2).filter(|day| (1..=31).contains(day))?;
    cursor.skip(b' ')?;
    let before = cursor.at;
    let mut year = cursor.number(4, 4).filter(|_| cursor.peek() == Some(b' '));
    match year {
        Some(_) => cursor.skip(b' ')?,
        None => cursor.at = before,
    }
    let (seconds, nanos) = cursor.clock()?;
    if year.is_none() {
        let before = cursor.at;
        year = cursor
            .skip(b' ')
            .and_then(|()| cursor.number(4, 4))
            // `2001:db8::1` is an address.
            .filter(|y| (1970..2100).contains(y))
            .filter(|_| match cursor.peek() {
                Some(b':') => matches!(cursor.text.get(cursor.at + 1), None | Some(b' ')),
                next => next == Some(b' '),
            });
        if year.is_none() {
            cursor.at = before;
        }
    }
    let year = match year {
        Some(year) => year,
        None => assumed_year(month, received),
    };
    let stamp = days(year, month, day).map(|days| stamp(days * 86_400 + seconds, nanos, received));
    Some((stamp, cursor.at))
}

fn stamp(local: i64, nanos: u32, received: &Received) -> Stamp {
    let zone_seconds = received.zone_seconds;
    Stamp { seconds: local - i64::from(zone_seconds), nanos, zone_seconds }
}

/// The year of receipt; around New Year the one that fits.
fn assumed_year(month: i64, received: &Received) -> i64 {
    let now = (received.time_ns / 1_000_000_000) as i64 + i64::from(received.zone_seconds);
    let (year, now_month, _) = date_from_days(now.div_euclid(86_400));
    match (now_month, month) {
        (1, 12) => year - 1,
        (12, 1) => year + 1,
        _ => year,
    }
}

/// Days since 1970 of a date; `None` when there is no such day.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let longest = days_of_month(year, month)?;
    (1..=longest).contains(&day).then(|| days_from_date(year, month, day))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_their_years() {
        // date -u -d 2026-11-20 +%s = 1795132800
        assert_eq!(days(2026, 11, 20), Some(1_795_132_800 / 86_400));
        assert_eq!(days(1970, 1, 1), Some(0));
        assert_eq!(days(2100, 2, 29), None);
        for day in [0, 59, 60, 10_956, 20_777, 47_541] {
            let (year, month, _) = date_from_days(day);
            let first = days(year, month, 1).expect("a month");
            assert!((0..31).contains(&(day - first)), "{day}");
        }
    }

    #[test]
    fn the_year_around_new_year() {
        let at = |seconds: u64| Received { time_ns: seconds * 1_000_000_000, zone_seconds: 0 };
        // date -u -d 2027-01-01T00:00:10 +%s = 1798761610
        let january = at(1_798_761_610);
        let (stamp, _) = bsd(b"Dec 31 23:59:59", &january).expect("a time");
        assert_eq!(stamp.expect("a day").seconds, 1_798_761_599);
        let december = at(1_798_761_590);
        let (stamp, _) = bsd(b"Jan  1 00:00:00", &december).expect("a time");
        assert_eq!(stamp.expect("a day").seconds, 1_798_761_600);
    }

    #[test]
    fn fractions_are_cut_and_zones_count() {
        let (stamp, len) = iso(b"2003-08-24T05:14:15.0000034567-07:00 x").expect("a time");
        // date -u -d 2003-08-24T12:14:15Z +%s = 1061727255
        assert_eq!(
            (stamp.seconds, stamp.nanos, stamp.zone_seconds, len),
            (1_061_727_255, 3_456, -25_200, 36)
        );
        for bad in [
            "2020-13-01T00:00:00Z",
            "2020-01-01T24:00:00Z",
            "2020-01-01T00:00:60Z",
            "2020-01-01t00:00:00Z",
        ] {
            assert_eq!(iso(bad.as_bytes()), None, "{bad}");
        }
    }
}

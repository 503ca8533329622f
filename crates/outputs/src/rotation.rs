//! When the clock makes a file of lines be opened again: Suricata's `rotate-interval`.
//!
//! As in Suricata it is the machine's clock that counts, not the time of packets: also a capture that is read from a
//! file is written into the file of the moment at which it is read. `minute`, `hour` and `day` end where they end in
//! local time; a number counts from the moment at which the file was opened.

use crate::error::SettingError;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How long a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interval {
    /// To the end of the minute.
    Minute,
    /// To the end of the hour.
    Hour,
    /// To the end of the local day.
    Day,
    /// A number of seconds.
    Seconds(u64),
}

/// The moments at which a file is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rotation {
    interval: Interval,
    /// Seconds since the epoch.
    next: u64,
}

impl Rotation {
    /// From the value of `rotate-interval`: `minute`, `hour`, `day`, or a number with `s`, `m`, `h`, `d` or `w` after
    /// it (seconds without). `now` is when the file is opened, in seconds since the epoch.
    ///
    /// # Errors
    /// Texts that are allowed there.
    pub(crate) fn parse(text: &str, now: u64) -> Result<Rotation, SettingError> {
        let interval = match text {
            "minute" => Interval::Minute,
            "hour" => Interval::Hour,
            "day" => Interval::Day,
            _ => Interval::Seconds(
                seconds(text).ok_or_else(|| SettingError::RotateInterval(text.to_owned()))?,
            ),
        };
        Ok(Rotation { interval, next: interval.end(now) })
    }

    /// Whether the file is to be opened again before more is written. The next time is then an interval later.
    pub(crate) fn is_due(&mut self, now: u64) -> bool {
        if now < self.next {
            return false;
        }
        self.next = self.interval.end(now);
        true
    }
}

impl Interval {
    /// When an interval ends that is under way now.
    fn end(self, now: u64) -> u64 {
        let by_seconds = |all: u64| now.saturating_add(all);
        let local = || {
            let seconds = i64::try_from(now).ok()?;
            Some(Timestamp::from_second(seconds).ok()?.to_zoned(TimeZone::system()))
        };
        let within = |part: i8| u64::try_from(part).unwrap_or(0);
        match self {
            Interval::Seconds(all) => by_seconds(all),
            Interval::Minute => {
                let gone = local().map_or(now % 60, |z| within(z.second()));
                by_seconds(60_u64.saturating_sub(gone).max(1))
            }
            Interval::Hour => {
                let gone =
                    local().map_or(now % 3600, |z| within(z.minute()) * 60 + within(z.second()));
                by_seconds(3600_u64.saturating_sub(gone).max(1))
            }
            // A day has 23 or 25 hours where clocks are changed.
            Interval::Day => local()
                .and_then(|z| z.tomorrow().ok()?.start_of_day().ok())
                .and_then(|z| u64::try_from(z.timestamp().as_second()).ok())
                .filter(|end| *end > now)
                .unwrap_or_else(|| by_seconds(86_400 - now % 86_400)),
        }
    }
}

/// A number of seconds with a unit; none where it is no number, or nothing.
fn seconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = match text.char_indices().last()? {
        (at, 's') => (text.get(..at)?, 1),
        (at, 'm') => (text.get(..at)?, 60),
        (at, 'h') => (text.get(..at)?, 60 * 60),
        (at, 'd') => (text.get(..at)?, 24 * 60 * 60),
        (at, 'w') => (text.get(..at)?, 7 * 24 * 60 * 60),
        _ => (text, 1),
    };
    number.trim_end().parse::<u64>().ok()?.checked_mul(unit).filter(|all| *all > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2024-07-09 10:15:30 UTC.
    const NOW: u64 = 1_720_520_130;

    #[test]
    fn intervals_are_read_as_suricata_reads_them() {
        for (text, wanted) in [
            ("30", 30),
            ("30s", 30),
            ("5m", 300),
            ("2h", 7200),
            ("1d", 86_400),
            ("1w", 604_800),
            ("10 s", 10),
        ] {
            let mut rotation = Rotation::parse(text, NOW).unwrap();
            assert!(!rotation.is_due(NOW + wanted - 1), "{text}");
            assert!(rotation.is_due(NOW + wanted), "{text}");
            assert!(!rotation.is_due(NOW + 2 * wanted - 1), "{text}");
        }
        for text in
            ["", "0", "0s", "banana", "minutes", "-1s", "1.5h", "s", "5y", "99999999999999999999d"]
        {
            let said = Rotation::parse(text, NOW).unwrap_err().to_string();
            assert!(said.contains("write minute, hour, day"), "{said}");
        }
    }

    /// The first file ends with the minute, the hour, the day that it was opened in, wherever in them that was, and so
    /// does each that follows.
    #[test]
    fn named_intervals_end_where_they_end_on_the_clock() {
        for (text, length) in [("minute", 60_u64), ("hour", 3600)] {
            for opened in [NOW, NOW + 1, NOW + 29, NOW + 30, NOW + 3599] {
                let mut rotation = Rotation::parse(text, opened).unwrap();
                let end = opened + length - opened % length;
                assert!(!rotation.is_due(end - 1), "{text} {opened}");
                // The first line after it comes late, the next file ends in time all the same.
                assert!(rotation.is_due(end + 7), "{text} {opened}");
                assert!(!rotation.is_due(end + length - 1), "{text} {opened}");
                assert!(rotation.is_due(end + length), "{text} {opened}");
            }
        }
        let mut rotation = Rotation::parse("day", NOW).unwrap();
        let zoned = Timestamp::from_second(NOW.cast_signed()).unwrap().to_zoned(TimeZone::system());
        let end = zoned.tomorrow().unwrap().start_of_day().unwrap().timestamp().as_second();
        assert!(!rotation.is_due(end.cast_unsigned() - 1));
        assert!(rotation.is_due(end.cast_unsigned()));
    }
}

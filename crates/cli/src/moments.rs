//! Moments on the command line, in the forms that journalctl takes; times without a zone are UTC.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

/// What can be written, for messages.
pub(crate) const FORMS: &str = "write 2026-11-23, '2026-11-23 04:00', 2026-11-23T04:00:00Z, 04:00, yesterday, today, @SECONDS or an age such as 2h";

/// The moment that a text names, in seconds since 1970, when it is now at `now`.
pub(crate) fn moment(text: &str, now: Timestamp) -> Option<i64> {
    let text = text.trim();
    let today = now.to_zoned(TimeZone::UTC).date();
    let begin = |date: Date| Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second());
    match text {
        "now" => return Some(now.as_second()),
        "today" => return begin(today),
        "yesterday" => return begin(today.yesterday().ok()?),
        "tomorrow" => return begin(today.tomorrow().ok()?),
        _ => {}
    }
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds = seconds.parse().ok()?;
        return Timestamp::from_second(seconds).ok().map(Timestamp::as_second);
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment.as_second());
    }
    if let Some(age) = age(text) {
        return Some(now.checked_sub(age.seconds()).ok()?.as_second());
    }
    let utc = |moment: DateTime| Some(moment.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second());
    // A time without a date is one of today; a zone, which the parser would ignore, is refused.
    let is_plain = text.bytes().all(|b| b.is_ascii_digit() || b"-:. T".contains(&b));
    if !is_plain || !text.contains(['-', ':']) {
        return None;
    }
    if text.contains('-') {
        utc(text.parse().ok()?)
    } else {
        utc(today.to_datetime(text.parse::<Time>().ok()?))
    }
}

/// An age in seconds: numbers with units, as `2h`, `-2h`, `1h30m`, `2 hours ago`.
pub(crate) fn age(text: &str) -> Option<i64> {
    let text = text.strip_prefix('-').unwrap_or(text);
    let mut rest = text.strip_suffix("ago").unwrap_or(text).trim();
    let mut seconds = 0i64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, behind) = rest.split_at(digits);
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let unit = match unit {
            "s" | "sec" | "second" | "seconds" => 1,
            "m" | "min" | "minute" | "minutes" => 60,
            "h" | "hr" | "hour" | "hours" => 3_600,
            "d" | "day" | "days" => 86_400,
            "w" | "week" | "weeks" => 604_800,
            _ => return None,
        };
        seconds = seconds.checked_add(number.parse::<i64>().ok()?.checked_mul(unit)?)?;
        rest = behind.trim_start();
    }
    Some(seconds)
}

#[cfg(test)]
mod tests;

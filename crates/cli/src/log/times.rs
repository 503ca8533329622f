//! Times and ages on the command line.

use crate::moments;

const SECOND: u64 = 1_000_000_000;

/// Now, nanoseconds since 1970.
pub(super) use gabion_runtime::clock::epoch_ns as now_ns;

/// An age in nanoseconds: a number followed by `s`, `m`, `h`, `d` or `w`.
pub(super) fn age(text: &str) -> Result<u64, String> {
    let wrong = || "not an age: write 90s, 15m, 2h, 7d or 4w".to_owned();
    let unit = match text.chars().last() {
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        Some('w') => 604_800,
        _ => return Err(wrong()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(unit * SECOND).ok_or_else(wrong)
}

/// A time: RFC 3339 to the nanosecond, seconds since 1970, or what journalctl takes ([`moments`]); ns.
pub(super) fn time(text: &str) -> Result<u64, String> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(seconds.saturating_mul(SECOND));
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(u64::try_from(time.as_nanosecond()).unwrap_or(0));
    }
    let now = now_ns();
    let seconds = jiff::Timestamp::from_nanosecond(now.into())
        .ok()
        .and_then(|now| moments::moment(text, now))
        .ok_or_else(|| format!("not a time: {}", moments::FORMS))?;
    Ok(u64::try_from(seconds).unwrap_or(0).saturating_mul(SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_ages_are_read() {
        assert_eq!(age("90s").unwrap(), 90 * SECOND);
        assert_eq!(age("2h").unwrap(), 7_200 * SECOND);
        for wrong in ["", "s", "2", "2y", "-1s", "99999999999999999w"] {
            assert!(age(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time("1970-01-01T00:00:02Z").unwrap(), 2 * SECOND);
        assert_eq!(time("2").unwrap(), 2 * SECOND);
        for known in ["yesterday", "2026-11-23", "2026-11-23 04:00", "2h30m", "now", "@2"] {
            assert!(time(known).is_ok(), "{known}");
        }
        assert!(time("soon").is_err() && time("yesterday").unwrap() < now_ns());
    }
}

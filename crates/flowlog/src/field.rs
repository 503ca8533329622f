//! Numbers and times out of text, without allocation. Wrong text gives `None`, never a panic.

use gabion_record::calendar::days_from_date;
use gabion_record::logs::{SECOND, TimeNs};

/// A whole number; `None` when empty, not digits, or too large.
#[inline]
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let mut n = 0u64;
    for &b in text {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        n = n * 10 + u64::from(digit);
    }
    Some(n)
}

/// Eight digits as a number, all at once: neighbours become numbers of two digits, of four, of eight.
#[inline]
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    const HIGH: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    let word = u64::from_le_bytes(text);
    // A digit's high half is 3, and still is with 6 added.
    if word & HIGH != ZEROS || word.wrapping_add(0x0606_0606_0606_0606) & HIGH != ZEROS {
        return None;
    }
    let ones = word ^ ZEROS;
    let twos = (ones.wrapping_mul(10 << 8 | 1) >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos.wrapping_mul(100 << 16 | 1) >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000 << 32 | 1) >> 32)
}

/// Seconds with microseconds as Zeek writes them, `1677024003.714845`, as nanoseconds.
#[inline]
pub(crate) fn micros(text: &[u8; 17]) -> Option<i64> {
    let [a, b, c, d, e, f, g, h, i, j, b'.', fraction @ ..] = *text else { return None };
    let [k, l, m, n, o, p] = fraction;
    let tens = [i, j].map(|digit| digit.wrapping_sub(b'0'));
    if tens.iter().any(|digit| *digit > 9) {
        return None;
    }
    let high = eight_digits([a, b, c, d, e, f, g, h])?;
    let low = eight_digits([b'0', b'0', k, l, m, n, o, p])?;
    let seconds = high * 100 + u64::from(tens[0]) * 10 + u64::from(tens[1]);
    Some((seconds as i64).saturating_mul(SECOND).saturating_add(low as i64 * 1000))
}

/// A count that may be written as a number with a fraction (`26.0`), 0 when it is none.
#[inline]
pub(crate) fn count(text: &[u8]) -> u64 {
    match number(text) {
        Some(n) => n,
        None if text.is_empty() => 0,
        None => float(text).filter(|x| *x >= 0.0).map_or(0, |x| x as u64),
    }
}

/// A port, 0 when it is none.
#[inline]
pub(crate) fn port(text: &[u8]) -> u16 {
    number(text).and_then(|n| u16::try_from(n).ok()).unwrap_or(0)
}

/// A number with a fraction or an exponent.
pub(crate) fn float(text: &[u8]) -> Option<f64> {
    let x: f64 = std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()?;
    x.is_finite().then_some(x)
}

/// Seconds with a fraction as nanoseconds: `1677024003.714845`, `9e-05`, `-0.5`.
#[inline]
pub(crate) fn seconds(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return None;
    }
    let (mut whole, mut at) = (0i64, 0);
    while let Some(digit) = text.get(at).map(|b| b.wrapping_sub(b'0')).filter(|d| *d <= 9) {
        // Ten digits of seconds reach the year 2286; what is longer goes the slow way.
        if at == 10 {
            return slow_seconds(text);
        }
        whole = whole * 10 + i64::from(digit);
        at += 1;
    }
    let fraction = match text.get(at) {
        None => &[][..],
        Some(b'.') if at > 0 => text.get(at + 1..)?,
        Some(_) => return slow_seconds(text),
    };
    let (mut ns, mut unit) = (0i64, SECOND / 10);
    for &b in fraction {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return slow_seconds(text);
        }
        ns += i64::from(digit) * unit;
        unit /= 10;
    }
    Some(whole.saturating_mul(SECOND).saturating_add(ns))
}

fn slow_seconds(text: &[u8]) -> Option<i64> {
    let x = float(text)?;
    // Beyond what nanoseconds since 1970 can say is no moment of a log.
    let ns = (x * 1e6).round() * 1e3;
    (ns.abs() < 9.2e18).then_some(ns as i64)
}

/// A moment: seconds since 1970, ISO 8601, or `2015/07/27 09:51:54.611390`. Without a zone it is
/// taken as UTC.
#[inline]
pub(crate) fn moment(text: &[u8]) -> Option<TimeNs> {
    if let Ok(text) = text.try_into()
        && let Some(ns) = micros(text)
    {
        return Some(TimeNs(ns));
    }
    let text = text.trim_ascii();
    match text.get(4) {
        Some(b'-' | b'/') => calendar(text),
        _ => seconds(text).map(TimeNs),
    }
}

/// `YYYY-MM-DD hh:mm:ss[.ffffff][Z|±hh[:]mm]`, with `/` and `T` allowed.
fn calendar(text: &[u8]) -> Option<TimeNs> {
    let two = |at: usize| number(text.get(at..at + 2)?).map(|n| n as i64);
    let year = number(text.get(..4)?)? as i64;
    let (month, day) = (two(5)?, two(8)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || year < 1900 {
        return None;
    }
    let mut at = days_from_date(year, month, day).checked_mul(86_400)?;
    let mut ns = 0;
    if text.len() > 10 {
        let (hour, minute, second) = (two(11)?, two(14)?, two(17)?);
        at += hour * 3600 + minute * 60 + second;
        let rest = text.get(19..)?;
        let (fraction, zone) = match rest.strip_prefix(b".") {
            Some(rest) => {
                let end = rest.iter().position(|b| !b.is_ascii_digit()).unwrap_or(rest.len());
                rest.split_at(end)
            }
            None => (&[][..], rest),
        };
        let mut unit = SECOND / 10;
        for b in fraction {
            ns += i64::from(b - b'0') * unit;
            unit /= 10;
        }
        at -= zone_seconds(zone)?;
    }
    at.checked_mul(SECOND)?.checked_add(ns).map(TimeNs)
}

/// Seconds that a zone is ahead of UTC.
fn zone_seconds(zone: &[u8]) -> Option<i64> {
    let (sign, digits) = match zone.split_first() {
        None | Some((b'Z', [])) => return Some(0),
        Some((b'+', digits)) => (1, digits),
        Some((b'-', digits)) => (-1, digits),
        Some(_) => return None,
    };
    let hours = number(digits.get(..2)?)? as i64;
    let rest = digits.get(2..)?;
    let minutes = number(rest.strip_prefix(b":").unwrap_or(rest)).unwrap_or(0) as i64;
    Some(sign * (hours * 3600 + minutes * 60))
}

/// `T`, `true`, `1` and their opposites.
pub(crate) fn truth(text: &[u8]) -> Option<bool> {
    match text {
        b"T" | b"true" | b"True" | b"1" => Some(true),
        b"F" | b"false" | b"False" | b"0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_all_forms_of_the_logs() {
        for (text, ns) in [
            ("1677024003.714845", Some(1_677_024_003_714_845_000)),
            ("26.457743", Some(26_457_743_000)),
            ("9e-05", Some(90_000)),
            ("-0.5", Some(-500_000_000)),
            ("63.02690299999995", Some(63_026_902_999)),
            ("2021-06-06T15:59:46.457984+0200", Some(1_622_987_986_457_984_000)),
            ("2015/07/27 09:51:54.611390", Some(1_437_990_714_611_390_000)),
            ("2018-01-12 15:37:47", Some(1_515_771_467_000_000_000)),
            ("2015-07-27T09:51:54Z", Some(1_437_990_714_000_000_000)),
            ("", None),
            ("-", None),
            ("ts", None),
            ("1e40", None),
            ("2018-13-12 15:37:47", None),
            ("1800-01-01 00:00:00", None),
        ] {
            assert_eq!(moment(text.as_bytes()).map(|t| t.0), ns, "{text}");
        }
        // The quick way and the slow one say the same, and what is no digit is none in either.
        for text in ["1677024003.714845", "0000000000.000000", "9999999999.999999"] {
            for at in 0..text.len() {
                for byte in 0..=u8::MAX {
                    let mut text: [u8; 17] = text.as_bytes().try_into().unwrap();
                    text[at] = byte;
                    let is_right = text
                        .iter()
                        .enumerate()
                        .all(|(at, b)| if at == 10 { *b == b'.' } else { b.is_ascii_digit() });
                    assert_eq!(micros(&text), is_right.then(|| seconds(&text).unwrap()));
                }
            }
        }
        for cut in 0..31 {
            let _ = moment(&b"2021-06-06T15:59:46.457984+0200"[..cut]);
        }
    }
}

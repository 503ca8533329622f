//! Moments of records as text, RFC 3339 in UTC.

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// RFC 3339 in UTC, to the microsecond: what RFC 5424 has room for.
pub(super) fn rfc3339_us(ns: u64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(time) => format!("{time:.6}"),
        Err(_) => "-".to_owned(),
    }
}

/// RFC 3339 in UTC, to the nanosecond.
pub fn rfc3339(ns: u64) -> String {
    match jiff::Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(time) => format!("{time:.9}"),
        Err(_) => ns.to_string(),
    }
}

/// Writes many moments: those of one second share most of its text.
#[derive(Debug, Default)]
pub(super) struct Moments {
    second: u64,
    /// The last one.
    text: String,
}

impl Moments {
    /// The same as [`rfc3339`] of one moment.
    pub(super) fn text(&mut self, ns: u64) -> &str {
        const BEHIND: usize = ".000000000Z".len();
        let second = ns / SECOND;
        if self.text.is_empty() || second != self.second {
            self.second = second;
            self.text = rfc3339(ns);
            return &self.text;
        }
        self.text.truncate(self.text.len().saturating_sub(BEHIND));
        self.text.push('.');
        let mut unit = SECOND;
        for _ in 0..9 {
            unit /= 10;
            self.text.push(char::from(b'0' + (ns / unit % 10) as u8));
        }
        self.text.push('Z');
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_nanoseconds() {
        assert_eq!(rfc3339(1_500_000_000), "1970-01-01T00:00:01.500000000Z");
        assert_eq!(rfc3339_us(1_500_000_000), "1970-01-01T00:00:01.500000Z");
    }

    #[test]
    fn many_moments_are_written_as_each_alone() {
        let mut moments = Moments::default();
        let day = 86_400 * SECOND;
        for ns in [0, 1, 999_999_999, SECOND, SECOND + 20, day - 1, day, 7, 951_782_400 * SECOND]
            .into_iter()
            .chain((0..200).map(|n| n * 92_233_720_368_547_758))
        {
            assert_eq!(moments.text(ns), rfc3339(ns));
        }
    }
}

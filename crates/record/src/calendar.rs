//! The calendar: dates of days since 1970 and days of dates, in the Gregorian calendar without leap seconds, as POSIX
//! counts them. It stands here once, because logs, alerts, certificates and rule files all write or read dates.

/// Seconds of a day.
pub const DAY_SECONDS: i64 = 86_400;

/// Days of an era of 400 years. Years begin in March here, so that the day that leap years have more is the last one
/// (after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
const ERA_DAYS: i64 = 146_097;

/// Days from 0000-03-01, where an era begins, to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// Year, month (1 to 12) and day of the month (1 to 31) of a day since 1970-01-01.
#[inline]
#[must_use]
pub const fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days.saturating_add(EPOCH_DAYS);
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Days since 1970-01-01 of a date. A day that its month does not have counts on into the next month.
#[inline]
#[must_use]
pub const fn days_from_date(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year.saturating_sub(1) } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let march_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era.saturating_mul(ERA_DAYS).saturating_add(day_of_era - EPOCH_DAYS)
}

/// Days of a month (1 to 12) of a year; `None` for another month.
#[must_use]
pub const fn days_of_month(year: i64, month: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => Some(if is_leap { 29 } else { 28 }),
        4 | 6 | 9 | 11 => Some(30),
        1..=12 => Some(31),
        _ => None,
    }
}

/// `2016-12-29T15:26:53` of a second since 1970, in UTC.
#[must_use]
pub fn iso_second(seconds: i64) -> String {
    let (year, month, day) = date_from_days(seconds.div_euclid(DAY_SECONDS));
    let of_day = seconds.rem_euclid(DAY_SECONDS);
    let (h, m, s) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `date -u -d @SECONDS +%FT%T` of GNU writes them.
    #[test]
    fn seconds_have_their_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00"),
            (-1, "1969-12-31T23:59:59"),
            (951_827_696, "2000-02-29T12:34:56"),
            (1_482_938_813, "2016-12-28T15:26:53"),
            (1_798_761_599, "2026-12-31T23:59:59"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (253_402_300_799, "9999-12-31T23:59:59"),
        ] {
            assert_eq!(iso_second(seconds), text);
        }
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (-800_000..800_000).step_by(17).chain([-1, 0, 58, 59, 60, 11_016, 47_541]) {
            let (year, month, day) = date_from_days(days);
            assert_eq!(days_from_date(year, month, day), days);
            let longest = days_of_month(year, month).expect("a month");
            assert!((1..=longest).contains(&day), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn a_month_has_its_days() {
        let february = |year| days_of_month(year, 2);
        assert_eq!(
            [1900, 2000, 2023, 2024].map(february),
            [Some(28), Some(29), Some(28), Some(29)]
        );
        assert_eq!((days_of_month(2024, 4), days_of_month(2024, 13)), (Some(30), None));
        assert_eq!(days_of_month(2024, 0), None);
    }

    #[test]
    fn no_number_panics() {
        for n in [i64::MIN, i64::MIN / 86_400, i64::MAX / 86_400, i64::MAX] {
            let (year, month, day) = date_from_days(n);
            let _ = days_from_date(year, month, day);
            let _ = iso_second(n);
            let _ = days_from_date(n, 3, 1);
        }
    }
}

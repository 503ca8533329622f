//! Times as text: of the day, with date, and ISO 8601. The zone is a fixed offset that the caller chooses.

use gabion_record::fields::{FieldId, Missing, Scratch, Value, ids};
use gabion_scap::types;

use super::{Field, View, text};

const NS: u64 = 1_000_000_000;
const DAY_S: i64 = 86_400;

/// Year, month and day of a number of days since 1970 (the algorithm is that of proleptic Gregorian eras).
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Writes a time: with its date, with nanoseconds, with the offset of its zone.
fn put_time(to: &mut Vec<u8>, ns: u64, offset_s: i64, has_date: bool, has_ns: bool) {
    use std::io::Write as _;
    let seconds = i64::try_from(ns / NS).unwrap_or(i64::MAX).saturating_add(offset_s);
    let (days, second) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    // Writing to a vector never fails.
    if has_date {
        let (year, month, day) = date(days);
        let _ = write!(to, "{year:04}-{month:02}-{day:02} ");
    }
    let _ = write!(to, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60);
    if has_ns {
        let _ = write!(to, ".{:09}", ns % NS);
    }
}

impl View<'_> {
    /// Fields that events of all sources have.
    pub(super) fn common_field<'a>(
        &'a self,
        field: FieldId,
        scratch: &'a mut Scratch,
    ) -> Field<'a> {
        let ns = self.event.ts_ns;
        let since_start = ns.saturating_sub(self.state.first_ns().unwrap_or(ns));
        let offset_s = i64::from(self.state.options.utc_offset_s);
        let is_async = self.event.kind().number == types::ASYNCEVENT_E;
        match field {
            ids::EVT_NUM => Ok(Value::Unsigned(self.event.number)),
            ids::EVT_TIME => text(scratch, |to| put_time(to, ns, offset_s, false, true)),
            ids::EVT_TIME_S => text(scratch, |to| put_time(to, ns, offset_s, false, false)),
            ids::EVT_TIME_ISO8601 => text(scratch, |to| {
                put_time(to, ns, 0, true, true);
                if let Some(blank) = to.iter_mut().find(|byte| **byte == b' ') {
                    *blank = b'T';
                }
                to.extend_from_slice(b"+0000");
            }),
            ids::EVT_DATETIME => text(scratch, |to| put_time(to, ns, offset_s, true, true)),
            ids::EVT_DATETIME_S => text(scratch, |to| put_time(to, ns, offset_s, true, false)),
            ids::EVT_RAWTIME => Ok(Value::Time(ns)),
            ids::EVT_RAWTIME_S => Ok(Value::Time(ns / NS)),
            ids::EVT_RAWTIME_NS => Ok(Value::Time(ns % NS)),
            ids::EVT_RELTIME => Ok(Value::Duration(since_start)),
            ids::EVT_RELTIME_S => Ok(Value::Duration(since_start / NS)),
            ids::EVT_RELTIME_NS => Ok(Value::Duration(since_start % NS)),
            ids::EVT_SOURCE => Ok(Value::Text(b"syscall")),
            ids::EVT_IS_ASYNC => Ok(Value::Bool(is_async)),
            ids::EVT_ASYNCTYPE if is_async => match self.event.param(1).and_then(|p| p.as_text()) {
                Some(name) => Ok(Value::Text(name)),
                None => Err(Missing::NeverSeen),
            },
            ids::EVT_HOSTNAME if !self.state.hostname().is_empty() => {
                Ok(Value::Text(self.state.hostname()))
            }
            ids::EVT_HOSTNAME => Err(Missing::NeverSeen),
            _ => Err(Missing::NotApplicable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_date_zone_and_nanoseconds() {
        let written = |ns: u64, offset_s: i64, has_date: bool, has_ns: bool| {
            let mut to = Vec::new();
            put_time(&mut to, ns, offset_s, has_date, has_ns);
            String::from_utf8(to).unwrap()
        };
        // 2016-08-04T16:17:57.881781397Z is the example of Falco's documents.
        let ns = 1_470_327_477_881_781_397;
        assert_eq!(written(ns, 0, true, true), "2016-08-04 16:17:57.881781397");
        assert_eq!(written(ns, 8 * 3600, true, false), "2016-08-05 00:17:57");
        assert_eq!(written(ns, -17 * 3600, false, false), "23:17:57");
        assert_eq!(written(0, 0, true, true), "1970-01-01 00:00:00.000000000");
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(written(u64::MAX, 0, false, true), "23:34:33.709551615");
    }
}

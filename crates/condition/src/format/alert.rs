//! Alerts as text and as JSON, in Falco's form.

use gabion_record::json::Json;
use std::fmt::Write;

/// The value of a field in an alert.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputValue {
    /// Text.
    Text(Vec<u8>),
    /// A number without sign.
    Unsigned(u64),
    /// A number with sign.
    Signed(i64),
    /// A number with a fraction.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// The event has no such value.
    Absent,
}

/// A field of an alert.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputField {
    /// The name as the template writes it.
    pub name: String,
    /// Its value.
    pub value: OutputValue,
}

/// How the time of an alert is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `HH:MM:SS.nnnnnnnnn` in local time, this number of seconds east of UTC.
    Local(i32),
    /// `2016-08-04T16:17:57.881781397+0000`.
    Iso8601,
}

impl Clock {
    /// The field that stands for this time in `output_fields`.
    pub const fn field(self) -> &'static str {
        match self {
            Clock::Local(_) => "evt.time",
            Clock::Iso8601 => "evt.time.iso8601",
        }
    }

    /// Writes a time in nanoseconds since 1970.
    fn write(self, time_ns: u64, out: &mut String) {
        let (seconds, fraction) = (time_ns / 1_000_000_000, time_ns % 1_000_000_000);
        match self {
            Clock::Local(offset) => {
                let day = (seconds as i64).saturating_add(offset.into()).rem_euclid(86_400);
                let (h, m, s) = (day / 3_600, day / 60 % 60, day % 60);
                let _ = write!(out, "{h:02}:{m:02}:{s:02}.{fraction:09}");
            }
            Clock::Iso8601 => {
                write_date(seconds, out);
                let _ = write!(out, ".{fraction:09}+0000");
            }
        }
    }
}

/// Writes `2016-08-04T16:17:57` in UTC, by the algorithm for days of the proleptic Gregorian calendar.
fn write_date(seconds: u64, out: &mut String) {
    let days = (seconds / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let rest = seconds % 86_400;
    let (h, m, s) = (rest / 3_600, rest / 60 % 60, rest % 60);
    let _ = write!(out, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}");
}

/// An alert whose message is written.
#[derive(Clone, Copy, Debug)]
pub struct AlertStyle<'a> {
    /// When, in nanoseconds since 1970.
    pub time_ns: u64,
    /// The priority in full: `Warning`.
    pub priority: &'a str,
    /// The rule.
    pub rule: &'a str,
    /// The source of the event: `syscall`, `internal`.
    pub source: &'a str,
    /// The rule's tags.
    pub tags: &'a [String],
    /// The message without time and priority.
    pub message: &'a [u8],
    /// The fields of the message.
    pub fields: &'a [OutputField],
    /// The host.
    pub hostname: &'a str,
    /// How the time is written.
    pub clock: Clock,
    /// Whether JSON has `output`.
    pub has_output: bool,
    /// Whether JSON has `message`.
    pub has_message: bool,
    /// Whether JSON has `output_fields`.
    pub has_fields: bool,
    /// Whether JSON has `tags`.
    pub has_tags: bool,
}

/// The alert as one line of text, without line end. Control characters are escaped as in JSON, so that a file's name can't
/// make a second line.
pub fn alert_text(alert: &AlertStyle<'_>) -> String {
    let mut out = String::with_capacity(alert.message.len() + 64);
    if alert.source != "internal" || alert.time_ns > 0 {
        alert.clock.write(alert.time_ns, &mut out);
        out.push_str(": ");
    }
    out.push_str(alert.priority);
    out.push(' ');
    for c in String::from_utf8_lossy(alert.message).chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out
}

/// The alert as one line of JSON, without line end; its keys are sorted.
pub fn alert_json(alert: &AlertStyle<'_>) -> String {
    let mut json = Json::with_capacity(512);
    json.open();
    json.field("hostname", alert.hostname);
    if alert.has_message {
        json.field("message", lossy(alert.message));
    }
    if alert.has_output {
        let mut prefix = String::new();
        alert.clock.write(alert.time_ns, &mut prefix);
        let message = String::from_utf8_lossy(alert.message);
        json.field("output", format!("{prefix}: {} {message}", alert.priority));
    }
    if alert.has_fields {
        json.open_key("output_fields");
        let mut fields: Vec<&OutputField> = alert.fields.iter().collect();
        fields.sort_by(|a, b| a.name.cmp(&b.name));
        fields.into_iter().for_each(|field| write_field(field, &mut json));
        json.close();
    }
    json.field("priority", alert.priority);
    json.field("rule", alert.rule);
    json.field("source", alert.source);
    if alert.has_tags {
        let mut tags: Vec<&String> = alert.tags.iter().collect();
        tags.sort();
        tags.dedup();
        json.open_array_key("tags");
        tags.into_iter().for_each(|tag| json.item(tag));
        json.close_array();
    }
    let mut time = String::new();
    write_date(alert.time_ns / 1_000_000_000, &mut time);
    let _ = write!(time, ".{:09}Z", alert.time_ns % 1_000_000_000);
    json.field("time", &time);
    json.close();
    crate::without_line_end(json)
}

fn write_field(field: &OutputField, json: &mut Json) {
    match &field.value {
        OutputValue::Text(text) => json.field(&field.name, lossy(text)),
        OutputValue::Unsigned(n) => json.number(&field.name, *n),
        OutputValue::Signed(n) => json.number(&field.name, *n),
        OutputValue::Float(n) => json.float(&field.name, *n),
        OutputValue::Bool(b) => json.boolean(&field.name, *b),
        OutputValue::Absent => json.raw(&field.name, b"null"),
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert<'a>(message: &'a [u8], fields: &'a [OutputField], clock: Clock) -> AlertStyle<'a> {
        AlertStyle {
            time_ns: 1_470_327_477_881_785_348,
            priority: "Warning",
            rule: "open_from_cat",
            source: "syscall",
            tags: &[],
            message,
            fields,
            hostname: "host",
            clock,
            has_output: true,
            has_message: false,
            has_fields: true,
            has_tags: true,
        }
    }

    /// The expected lines have the form of `single_rule_with_cat_write.txt` and `.json` of Falco's tests.
    #[test]
    fn alerts_are_written_as_falco_writes_them() {
        let text = alert_text(&alert(b"An open was seen (command=cat)", &[], Clock::Iso8601));
        assert_eq!(
            text,
            "2016-08-04T16:17:57.881785348+0000: Warning An open was seen (command=cat)"
        );
        let text = alert_text(&alert(b"a\nb\xff", &[], Clock::Local(7_200)));
        assert_eq!(text, "18:17:57.881785348: Warning a\\nb\u{fffd}");
        let fields = [OutputField { name: "proc.tty".into(), value: OutputValue::Absent }];
        let json = alert_json(&alert(b"m", &fields, Clock::Iso8601));
        assert_eq!(
            json,
            "{\"hostname\":\"host\",\"output\":\"2016-08-04T16:17:57.881785348+0000: Warning m\",\
             \"output_fields\":{\"proc.tty\":null},\"priority\":\"Warning\",\"rule\":\"open_from_cat\",\
             \"source\":\"syscall\",\"tags\":[],\"time\":\"2016-08-04T16:17:57.881785348Z\"}"
        );
    }

    #[test]
    fn dates_follow_the_calendar() {
        let date = |seconds| {
            let mut out = String::new();
            write_date(seconds, &mut out);
            out
        };
        assert_eq!(date(0), "1970-01-01T00:00:00");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00");
        assert_eq!(date(4_107_542_400), "2100-03-01T00:00:00");
    }
}

//! Falco's alerts about system calls, as lines of text or of JSON: `falco.log` and `falco.json`, and whatever else
//! `falco.yaml` sends them to.

use crate::error::OutputError;
use crate::line_file::LineFile;
use crate::output::{Destination, Format, Output, Piece, Pieces, Record};
use gabion_record::calendar::iso_second;
use gabion_record::eve::Wants;
use gabion_record::files::FileOpener;
use gabion_record::json::Json;
use gabion_record::syscall::{AlertField, AlertValue, SyscallAlert};
use gabion_runtime::output::Existing;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
                let second = iso_second(seconds as i64);
                let _ = write!(out, "{second}.{fraction:09}+0000");
            }
        }
    }
}

/// How alerts are written.
#[derive(Clone, Debug)]
pub struct FalcoStyle {
    /// As JSON, not as text.
    pub is_json: bool,
    /// The host.
    pub hostname: Arc<str>,
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
    /// Whether JSON has `event`, the number of the event, and `processes`, which Falco's has not.
    pub has_context: bool,
}

/// The files of alerts in a folder: JSON, and text for people.
const FILES: [(&str, bool); 2] = [("falco.json", true), ("falco.log", false)];

/// The files of alerts in a folder.
pub fn paths_in(folder: &Path) -> Vec<PathBuf> {
    FILES.iter().map(|(name, _)| folder.join(name)).collect()
}

/// Opens the files of alerts in a folder, in the form of `style`.
///
/// # Errors
/// A file can't be written.
pub fn open_files(
    files: &FileOpener,
    folder: &Path,
    existing: Existing,
    style: &FalcoStyle,
) -> Result<Vec<Output>, OutputError> {
    let open = |(name, is_json): &(&str, bool)| {
        let style = FalcoStyle { is_json: *is_json, ..style.clone() };
        Ok(output(style, LineFile::create(files, &folder.join(name), existing)?))
    };
    FILES.iter().map(open).collect()
}

/// Alerts in Falco's form into a destination.
pub fn output(style: FalcoStyle, to: impl Destination + 'static) -> Output {
    Output::new(FalcoFormat { style, is_for_syslog: false, line: Vec::new() }, to)
}

/// Alerts as messages of syslog, whose severity is the priority of the rule.
pub fn syslog_output(style: FalcoStyle, to: impl Destination + 'static) -> Output {
    Output::new(FalcoFormat { style, is_for_syslog: true, line: Vec::new() }, to)
}

/// Writes each alert as one line.
struct FalcoFormat {
    style: FalcoStyle,
    /// Whether the line is a message of syslog.
    is_for_syslog: bool,
    line: Vec<u8>,
}

/// What a message of syslog begins with (RFC 3164; the system's log adds the time): the facility "user" with a severity,
/// and the program.
fn syslog_head(priority: &str) -> String {
    const USER: usize = 1 << 3;
    const NOTICE: usize = 5;
    // Falco's priorities are the severities of syslog, in their order.
    const PRIORITIES: [&str; 8] =
        ["Emergency", "Alert", "Critical", "Error", "Warning", "Notice", "Informational", "Debug"];
    let severity = PRIORITIES.iter().position(|name| *name == priority).unwrap_or(NOTICE);
    format!("<{}>falco: ", USER | severity)
}

impl Format for FalcoFormat {
    fn wants(&self) -> Wants {
        Wants { alerts: true, ..Wants::default() }
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        let Record::SyscallAlert(alert) = record else { return false };
        self.line.clear();
        if self.is_for_syslog {
            self.line.extend_from_slice(syslog_head(alert.priority).as_bytes());
        }
        let line = if self.style.is_json {
            self.style.alert_json(alert)
        } else {
            self.style.alert_text(alert)
        };
        self.line.extend_from_slice(line.as_bytes());
        self.line.push(b'\n');
        to.put(Piece::line(&self.line));
        true
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        let (style, is_for_syslog) = (self.style.clone(), self.is_for_syslog);
        Box::new(FalcoFormat { style, is_for_syslog, line: Vec::new() })
    }
}

impl FalcoStyle {
    /// The alert as one line of text, without line end. Control characters are escaped as in JSON, so that the name of a
    /// file can't make a second line.
    pub fn alert_text(&self, alert: &SyscallAlert<'_>) -> String {
        let mut out = String::with_capacity(alert.message.len() + 64);
        self.clock.write(alert.time_ns, &mut out);
        out.push_str(": ");
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
    pub fn alert_json(&self, alert: &SyscallAlert<'_>) -> String {
        let mut json = Json::with_capacity(512);
        json.open();
        if alert.is_partial {
            json.field_plain("context", "partial");
        }
        if self.has_context && alert.number > 0 {
            json.number("event", alert.number);
        }
        match alert.host {
            b"" => json.field("hostname", self.hostname.as_ref()),
            host => json.field("hostname", lossy(host)),
        }
        if self.has_message {
            json.field("message", lossy(alert.message));
        }
        if self.has_output {
            let mut prefix = String::new();
            self.clock.write(alert.time_ns, &mut prefix);
            let message = String::from_utf8_lossy(alert.message);
            json.field("output", format!("{prefix}: {} {message}", alert.priority));
        }
        if self.has_fields {
            json.open_key("output_fields");
            let time = AlertField {
                name: self.clock.field().to_string(),
                value: AlertValue::Unsigned(alert.time_ns),
            };
            let is_own =
                alert.source == "internal" || alert.fields.iter().any(|f| f.name == time.name);
            let mut fields: Vec<&AlertField> = alert.fields.iter().collect();
            // The time in the line's beginning is a field of the template like those of the rule.
            fields.extend((!is_own).then_some(&time));
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            fields.into_iter().for_each(|field| write_field(field, &mut json));
            json.close();
        }
        json.field("priority", alert.priority);
        if self.has_context && !alert.processes.is_empty() {
            json.open_array_key("processes");
            for process in alert.processes {
                json.open();
                json.field("cmdline", lossy(&process.command));
                json.field("name", lossy(&process.name));
                json.number("pid", process.pid);
                json.close();
            }
            json.close_array();
        }
        json.field("rule", alert.rule);
        json.field("source", alert.source);
        if self.has_tags {
            let mut tags: Vec<&String> = alert.tags.iter().collect();
            tags.sort();
            tags.dedup();
            json.open_array_key("tags");
            tags.into_iter().for_each(|tag| json.item(tag));
            json.close_array();
        }
        let mut time = iso_second((alert.time_ns / 1_000_000_000) as i64);
        let _ = write!(time, ".{:09}Z", alert.time_ns % 1_000_000_000);
        json.field("time", &time);
        json.close();
        let mut line = json.into_line();
        line.truncate(line.trim_end_matches('\n').len());
        line
    }
}

fn write_field(field: &AlertField, json: &mut Json) {
    match &field.value {
        AlertValue::Text(text) => json.field(&field.name, lossy(text)),
        AlertValue::Unsigned(n) => json.number(&field.name, *n),
        AlertValue::Signed(n) => json.number(&field.name, *n),
        AlertValue::Float(n) => json.float(&field.name, *n),
        AlertValue::Bool(b) => json.boolean(&field.name, *b),
        AlertValue::Absent => json.raw(&field.name, b"null"),
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::syscall::ProcessLine;

    fn style(clock: Clock) -> FalcoStyle {
        FalcoStyle {
            is_json: true,
            hostname: "host".into(),
            clock,
            has_output: true,
            has_message: false,
            has_fields: true,
            has_tags: true,
            has_context: false,
        }
    }

    fn alert<'a>(message: &'a [u8], fields: &'a [AlertField]) -> SyscallAlert<'a> {
        SyscallAlert {
            time_ns: 1_470_327_477_881_785_348,
            priority: "Warning",
            rule: "open_from_cat",
            source: "syscall",
            tags: &[],
            message,
            fields,
            ..SyscallAlert::default()
        }
    }

    /// The expected lines have the form of `single_rule_with_cat_write.txt` and `.json` of Falco's tests.
    #[test]
    fn alerts_are_written_as_falco_writes_them() {
        let text = style(Clock::Iso8601).alert_text(&alert(b"An open was seen (command=cat)", &[]));
        assert_eq!(
            text,
            "2016-08-04T16:17:57.881785348+0000: Warning An open was seen (command=cat)"
        );
        let text = style(Clock::Local(7_200)).alert_text(&alert(b"a\nb\xff", &[]));
        assert_eq!(text, "18:17:57.881785348: Warning a\\nb\u{fffd}");
        let fields = [AlertField { name: "proc.tty".into(), value: AlertValue::Absent }];
        let json = style(Clock::Iso8601).alert_json(&alert(b"m", &fields));
        assert_eq!(
            json,
            "{\"hostname\":\"host\",\"output\":\"2016-08-04T16:17:57.881785348+0000: Warning m\",\
             \"output_fields\":{\"evt.time.iso8601\":1470327477881785348,\"proc.tty\":null},\
             \"priority\":\"Warning\",\"rule\":\"open_from_cat\",\"source\":\"syscall\",\"tags\":[],\
             \"time\":\"2016-08-04T16:17:57.881785348Z\"}"
        );
    }

    /// Keeps the lines of a format.
    struct Lines(Vec<String>);

    impl Pieces for Lines {
        fn put(&mut self, piece: Piece<'_>) {
            self.0.push(String::from_utf8_lossy(piece.bytes).into_owned());
        }
    }

    #[test]
    fn the_severity_of_a_syslog_message_is_the_priority_of_its_rule() {
        let style = FalcoStyle { is_json: false, ..style(Clock::Iso8601) };
        let mut format = FalcoFormat { style, is_for_syslog: true, line: Vec::new() };
        let mut lines = Lines(Vec::new());
        let priorities = [
            ("Emergency", 8),
            ("Critical", 10),
            ("Notice", 13),
            ("Informational", 14),
            ("Debug", 15),
        ];
        for (priority, _) in priorities {
            let alert = SyscallAlert { priority, ..alert(b"m", &[]) };
            assert!(format.write_record(&Record::SyscallAlert(&alert), &mut lines));
        }
        for (line, (priority, number)) in lines.0.iter().zip(priorities) {
            let head = format!("<{number}>falco: 2016-08-04T16:17:57.881785348+0000: {priority} m");
            assert_eq!(line.trim_end_matches('\n'), head);
        }
        assert_eq!(lines.0.len(), priorities.len());
        assert_eq!(syslog_head("Unheard"), "<13>falco: ");
        format.is_for_syslog = false;
        let alert = alert(b"m", &[]);
        assert!(format.write_record(&Record::SyscallAlert(&alert), &mut lines));
        assert!(lines.0.last().is_some_and(|line| line.starts_with("2016-")), "{:?}", lines.0);
    }

    #[test]
    fn what_is_not_falcos_is_written_where_it_is_asked_for() {
        let processes = [ProcessLine { pid: 7, name: b"sh".to_vec(), command: b"sh -i".to_vec() }];
        let alert = SyscallAlert {
            number: 12,
            host: b"web1",
            processes: &processes,
            is_partial: true,
            ..alert(b"m", &[])
        };
        let ours = FalcoStyle { has_context: true, has_fields: false, ..style(Clock::Iso8601) };
        let line = ours.alert_json(&alert);
        assert!(
            line.starts_with("{\"context\":\"partial\",\"event\":12,\"hostname\":\"web1\","),
            "{line}"
        );
        let process = "\"processes\":[{\"cmdline\":\"sh -i\",\"name\":\"sh\",\"pid\":7}]";
        assert!(line.contains(process), "{line}");
        let falcos = style(Clock::Iso8601).alert_json(&alert);
        assert!(!falcos.contains("processes") && !falcos.contains("event"), "{falcos}");
    }
}

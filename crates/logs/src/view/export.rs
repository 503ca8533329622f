//! The writer of messages for another program: systemd's journal, or a receiver of syslog.

use super::filter::MessageFilter;
use super::is_plain;
use super::times::{rfc3339, rfc3339_us};
use crate::journal::{Entry, Fields, put_field};
use crate::syslog::{self, Received};
use gabion_seal::reader::{Found, Sink};
use gabion_seal::{Kind, Transport};
use std::io::Write;

/// Writes messages alone, in a form of their own: entries of the journal, or messages of syslog after their lengths.
pub struct MessageExporter<'a, W> {
    out: W,
    is_journal: bool,
    filter: &'a MessageFilter,
    /// A message as it is written.
    text: Vec<u8>,
    is_closed: bool,
    complain: &'a mut dyn FnMut(&str),
}

impl<'a, W: Write> MessageExporter<'a, W> {
    /// Writes the messages that a filter takes; `complain` receives what could not be read.
    pub fn new(
        out: W,
        is_journal: bool,
        filter: &'a MessageFilter,
        complain: &'a mut dyn FnMut(&str),
    ) -> MessageExporter<'a, W> {
        let text = Vec::new();
        MessageExporter { out, is_journal, filter, text, is_closed: false, complain }
    }

    fn write(&mut self, found: &Found<'_>) -> std::io::Result<()> {
        self.text.clear();
        let is_entry = found.source.transport == Some(Transport::Journal);
        match (self.is_journal, is_entry) {
            // As it came.
            (true, true) => self.text.extend_from_slice(found.record.bytes),
            (true, false) => journal_entry(found, &mut self.text),
            (false, true) => {
                syslog_message(&Entry(found.record.bytes).read_fields(), &mut self.text)
            }
            (false, false) => self.text.extend_from_slice(found.record.bytes),
        }
        // Octet counting keeps line ends inside messages apart from those between them.
        if !self.is_journal {
            write!(self.out, "{} ", self.text.len())?;
        }
        self.out.write_all(&self.text)?;
        self.out.write_all(b"\n")
    }
}

/// A message of syslog as an entry of the journal, with the names that journald gives its fields.
fn journal_entry(found: &Found<'_>, out: &mut Vec<u8>) {
    let record = found.record;
    put_field("__REALTIME_TIMESTAMP", (record.time_ns / 1_000).to_string().as_bytes(), out);
    put_field("_TRANSPORT", b"syslog", out);
    put_field("GABION_TRANSPORT", found.source.transport_name().as_bytes(), out);
    put_field("GABION_RECORD", found.number.to_string().as_bytes(), out);
    put_field("GABION_TIME", rfc3339(record.time_ns).as_bytes(), out);
    put_field("GABION_SOURCE", found.source.peer, out);
    let bytes = syslog::unpacked(record.bytes);
    let message = syslog::parse(&bytes, &Received { time_ns: record.time_ns, zone_seconds: 0 });
    if is_plain(found, &message) {
        put_field("MESSAGE", record.bytes, out);
        return;
    }
    put_field("PRIORITY", message.severity().to_string().as_bytes(), out);
    put_field("SYSLOG_FACILITY", message.facility().to_string().as_bytes(), out);
    for (name, value) in [
        ("_HOSTNAME", message.host),
        ("SYSLOG_IDENTIFIER", message.app),
        ("SYSLOG_PID", message.pid),
    ] {
        if let Some(value) = value {
            put_field(name, value, out);
        }
    }
    if let Some(stated) = message.time {
        let us = stated
            .seconds
            .saturating_mul(1_000_000)
            .saturating_add(i64::from(stated.nanos / 1_000));
        put_field("_SOURCE_REALTIME_TIMESTAMP", us.to_string().as_bytes(), out);
    }
    put_field("MESSAGE", message.msg, out);
    put_field("SYSLOG_RAW", record.bytes, out);
}

/// An entry of the journal as a message of RFC 5424: what that has no place for is left out.
fn syslog_message(entry: &Fields<'_>, out: &mut Vec<u8>) {
    // The default is a notice of facility user, as with journald.
    let pri =
        u16::from(entry.facility().unwrap_or(1)) * 8 + u16::from(entry.priority().unwrap_or(5));
    out.extend_from_slice(format!("<{pri}>1 ").as_bytes());
    let time = entry.time_us().and_then(|us| us.checked_mul(1_000));
    out.extend_from_slice(time.map_or_else(|| "-".to_owned(), rfc3339_us).as_bytes());
    // Lengths are those of RFC 5424; letters outside of its names become underlines.
    for (value, most) in [(entry.host(), 255), (entry.program(), 48), (entry.process(), 128)] {
        out.push(b' ');
        let value = value.unwrap_or_default();
        if value.is_empty() {
            out.push(b'-');
        }
        out.extend(value.iter().take(most).map(|b| if b.is_ascii_graphic() { *b } else { b'_' }));
    }
    out.extend_from_slice(b" - - ");
    let message = entry.get("MESSAGE").unwrap_or_default();
    if std::str::from_utf8(message).is_ok() && !message.is_ascii() {
        out.extend_from_slice("\u{feff}".as_bytes());
    }
    out.extend_from_slice(message);
}

impl<W: Write> Sink for MessageExporter<'_, W> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        if found.record.kind == Kind::Message && self.filter.takes(found) {
            self.is_closed = self.write(found).is_err();
        }
        !self.is_closed
    }

    fn unreadable(&mut self, what: &str) {
        (self.complain)(what);
    }
}

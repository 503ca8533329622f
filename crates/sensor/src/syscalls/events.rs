//! Prints events of scap files, one line each, as text or JSON.

use super::calls::Calls;
use super::{ScapAccount, input};
use crate::Error;
use crate::packets::InputOpener;
use gabion_condition::compile::Filter;
use gabion_condition::format::Format;
use gabion_record::fields::Scratch;
use gabion_record::json::Json;
use gabion_record::logs::TimeNs;
use gabion_runtime::StopFlag;
use gabion_scap::{Event, Item};
use gabion_syscall::{Options, State};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

/// The line of an event where nobody asks for another: what sysdig prints, with date and time in UTC.
const LINE: &str =
    "%evt.num %evt.time.iso8601 %evt.cpu %proc.name (%thread.tid) %evt.dir %evt.type %evt.args";

/// Which events are printed, and how.
#[derive(Debug)]
pub struct EventStyle {
    json: bool,
    raw: bool,
    format: Format,
    filter: Option<Filter>,
}

impl EventStyle {
    /// Events as they are in the file, enter events included, without the state of threads.
    #[must_use]
    pub fn raw(json: bool) -> EventStyle {
        EventStyle { json, raw: true, format: Format::default(), filter: None }
    }

    /// Merged events for which the condition `filter` holds, all if it is empty; as JSON or by the template `format` in
    /// the language of Falco's outputs. sysdig's asterisk before a template, by which absent values do not hide the
    /// event, is accepted: they never do here.
    ///
    /// # Errors
    /// The condition or the template is wrong.
    pub fn merged(json: bool, filter: &str, format: Option<&str>) -> Result<EventStyle, Error> {
        let template = format.unwrap_or(LINE);
        let format = Format::new(template.strip_prefix('*').unwrap_or(template))
            .map_err(|source| Error::Format { text: template.to_owned(), source })?;
        let filter = match filter.trim() {
            "" => None,
            text => Some(
                Filter::new(text)
                    .map_err(|source| Error::Filter { text: text.to_owned(), source })?,
            ),
        };
        Ok(EventStyle { json, raw: false, format, filter })
    }
}

/// Prints the events of one input after the other.
#[derive(Debug)]
pub struct EventPrinter<W> {
    to: W,
    style: EventStyle,
    line: Vec<u8>,
    json: Json,
    text: Vec<u8>,
    scratch: Scratch,
    /// The template of the process's name.
    name: Format,
}

impl<W: Write> EventPrinter<W> {
    /// Prints to `to`.
    pub fn new(to: W, style: EventStyle) -> EventPrinter<W> {
        let (line, text) = (Vec::new(), Vec::new());
        // The template is right; without it the name would be missing.
        let name = Format::new("%proc.name").unwrap_or_default();
        EventPrinter { to, style, line, json: Json::new(), text, scratch: Scratch::new(), name }
    }

    /// Prints all events of an input, which `opener` opens, and returns its account. A reader of the lines that goes away ends the printing.
    ///
    /// # Errors
    /// The input cannot be read as scap.
    pub fn print(
        &mut self,
        path: &Path,
        opener: &InputOpener,
        stop: &StopFlag,
    ) -> Result<ScapAccount, Error> {
        if self.style.raw {
            return self.print_raw(path, opener, stop);
        }
        let mut calls = Calls::open(path, opener, Options::default(), stop)?;
        calls.for_each(|state, event| self.event(state, event))?;
        let _ = self.to.flush();
        Ok(calls.account().into_file())
    }

    fn print_raw(
        &mut self,
        path: &Path,
        opener: &InputOpener,
        stop: &StopFlag,
    ) -> Result<ScapAccount, Error> {
        let mut reader = input::open(path, opener, stop)?;
        let scap = |source| Error::Scap { path: path.to_owned(), source };
        while let Some(item) = reader.next_item().map_err(scap)? {
            if let Item::Event(event) = item
                && self.raw_event(&event).is_break()
            {
                break;
            }
            if stop.is_set() {
                break;
            }
        }
        let _ = self.to.flush();
        Ok(ScapAccount { read: reader.counts().clone(), merged: None })
    }

    /// Prints an event with the state after it, if the filter lets it through.
    fn event(&mut self, state: &State, event: &Event<'_>) -> ControlFlow<()> {
        let view = state.view(event);
        if let Some(filter) = &mut self.style.filter
            && !filter.matches(&view)
        {
            return ControlFlow::Continue(());
        }
        self.line.clear();
        if self.style.json {
            self.text.clear();
            self.name.write(&view, &mut self.scratch, &mut self.text);
            let name = std::mem::take(&mut self.text);
            self.json_line(event, event.number, Some(&name));
            self.text = name;
        } else {
            self.text.clear();
            self.style.format.write(&view, &mut self.scratch, &mut self.text);
            push_printable(&mut self.line, &self.text);
        }
        self.end_line()
    }

    /// Prints an event as it is in the file.
    fn raw_event(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        self.line.clear();
        if self.style.json {
            self.json_line(event, event.raw_number, None)
        } else {
            self.raw_line(event)
        }
        self.end_line()
    }

    fn end_line(&mut self) -> ControlFlow<()> {
        self.line.push(b'\n');
        match self.to.write_all(&self.line) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// Number, time, processor, thread, direction, type and parameters.
    fn raw_line(&mut self, event: &Event<'_>) {
        let (line, kind) = (&mut self.line, event.kind());
        let direction = if kind.is_exit() { '<' } else { '>' };
        let _ = write!(line, "{} {} {}", event.raw_number, time(event.ts_ns), event.cpu);
        let _ = write!(line, " ({}) {direction} {}", event.tid, kind.name);
        for (name, place) in kind.parameters.iter().map(|p| p.name).zip(0..) {
            let Some(param) = event.param(place) else { continue };
            let _ = write!(line, " {name}=");
            if !param.write_text(line) {
                line.extend_from_slice(b"<NA>");
            }
        }
    }

    fn json_line(&mut self, event: &Event<'_>, number: u64, name: Option<&[u8]>) {
        let (json, kind) = (&mut self.json, event.kind());
        json.clear();
        json.open();
        json.number("evt.num", number);
        json.number("evt.rawtime", event.ts_ns);
        json.number("evt.cpu", event.cpu);
        json.number("thread.tid", event.tid);
        match name {
            Some(b"<NA>") => json.raw("proc.name", b"null"),
            Some(name) => json.field("proc.name", name),
            None => {}
        }
        json.field_plain("evt.dir", if kind.is_exit() { "<" } else { ">" });
        json.field_plain("evt.type", kind.name);
        json.open_key("evt.arg");
        for (name, place) in kind.parameters.iter().map(|p| p.name).zip(0..) {
            let Some(param) = event.param(place) else { continue };
            self.text.clear();
            match param.as_i64() {
                Some(n) => json.number(name, n),
                None if param.write_text(&mut self.text) => json.field(name, &self.text),
                // An unknown value is no empty one.
                None => json.raw(name, b"null"),
            }
        }
        json.close();
        json.close();
        self.line.extend_from_slice(json.bytes());
    }
}

/// The time of an event with nanoseconds, in UTC.
fn time(ns: u64) -> String {
    let seconds = TimeNs(i64::try_from(ns).unwrap_or(i64::MAX)).iso().to_string();
    let seconds = seconds.get(..19).unwrap_or_default();
    format!("{seconds}.{:09}Z", ns % 1_000_000_000)
}

fn push_printable(line: &mut Vec<u8>, text: &[u8]) {
    line.extend(text.iter().map(|byte| if byte.is_ascii_control() { b'.' } else { *byte }));
}

//! The writer of records as lines.

use super::cross_records::CrossRecords;
use super::filter::MessageFilter;
use super::line::{json_line, text_line};
use super::times::Moments;
use gabion_record::json::Json;
use gabion_seal::reader::{Found, Sink};
use std::io::Write;

/// Things that could not be read and are reported one by one.
const COMPLAINTS_REPORTED: u64 = 20;

/// Writes records, one a line.
pub struct RecordPrinter<'a, W> {
    /// Where to.
    pub out: W,
    json: Json,
    moments: Moments,
    across: CrossRecords,
    filter: &'a MessageFilter,
    is_text: bool,
    /// How many were written.
    pub shown: u64,
    /// Nothing can be written any more.
    pub is_closed: bool,
    complaints: u64,
    complain: &'a mut dyn FnMut(&str),
}

impl<'a, W: Write> RecordPrinter<'a, W> {
    /// Writes what a filter takes, as text or as JSON; `complain` receives what could not be read, the first few times.
    pub fn new(
        out: W,
        filter: &'a MessageFilter,
        is_text: bool,
        complain: &'a mut dyn FnMut(&str),
    ) -> RecordPrinter<'a, W> {
        RecordPrinter {
            out,
            json: Json::new(),
            moments: Moments::default(),
            across: CrossRecords::default(),
            filter,
            is_text,
            shown: 0,
            is_closed: false,
            complaints: 0,
            complain,
        }
    }

    /// Forgets what several records together show: the next record does not follow the last one.
    pub(super) fn interrupted(&mut self) {
        self.across.interrupted();
    }

    fn write(
        &mut self,
        found: &Found<'_>,
        missing: u32,
        first: Option<u64>,
    ) -> std::io::Result<()> {
        self.json.clear();
        if self.is_text {
            if missing > 0 {
                self.json.push(
                    format!("# {missing} messages of this sender are missing here\n").as_bytes(),
                );
            }
            text_line(&mut self.json, &mut self.moments, found);
        } else {
            json_line(&mut self.json, &mut self.moments, found, (missing, first));
        }
        self.json.push(b"\n");
        self.out.write_all(self.json.bytes())
    }
}

impl<W: Write> Sink for RecordPrinter<'_, W> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        let (missing, first) = (self.across.missing(found), self.across.first(found));
        if !self.filter.takes(found) {
            return true;
        }
        self.shown += 1;
        self.is_closed = self.write(found, missing, first).is_err();
        !self.is_closed
    }

    fn unreadable(&mut self, what: &str) {
        self.across.interrupted();
        self.complaints += 1;
        if self.complaints <= COMPLAINTS_REPORTED {
            (self.complain)(what);
        }
    }
}

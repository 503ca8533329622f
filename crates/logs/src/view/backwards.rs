//! The last records of a log, and records from the last to the first: the log is read in ranges of numbers from its
//! end, so that what is asked for of a large log takes the time of what is shown.

use super::filter::MessageFilter;
use super::printer::RecordPrinter;
use crate::limits::RANGE_BYTES_MAX;
use gabion_seal::Result;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use std::io::Write;

/// Records of a range.
const RANGE: u64 = 8192;

/// Numbers of a range that are wanted.
struct Numbers<'a> {
    filter: &'a MessageFilter,
    found: Vec<u64>,
}

impl Sink for Numbers<'_> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        if self.filter.takes(found) {
            self.found.push(found.number);
        }
        true
    }

    /// It is reported when the range is shown.
    fn unreadable(&mut self, _: &str) {}
}

/// Lines of a range.
struct Lines<'a> {
    printer: RecordPrinter<'a, Vec<u8>>,
    /// Where each of them ends.
    ends: Vec<usize>,
    is_too_much: bool,
}

impl Sink for Lines<'_> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        let shown = self.printer.shown;
        self.printer.record(found);
        if self.printer.shown > shown {
            self.ends.push(self.printer.out.len());
        }
        self.is_too_much = self.printer.out.len() > RANGE_BYTES_MAX && self.ends.len() > 1;
        !self.is_too_much
    }

    fn unreadable(&mut self, what: &str) {
        self.printer.unreadable(what);
    }
}

/// The first number that can be requested, and the one after the last.
fn bounds(reader: &Reader<'_>, selection: &Selection) -> Result<(u64, u64)> {
    let next = reader.next_record()?;
    let (first, last) = selection.records.unwrap_or((0, u64::MAX));
    Ok((first, last.saturating_add(1).min(next)))
}

/// The number of the first of the last `lines` records that a filter takes.
///
/// # Errors
/// When the log can't be read.
pub fn first_of_last(
    reader: &mut Reader<'_>,
    selection: &Selection,
    filter: &MessageFilter,
    lines: u64,
) -> Result<u64> {
    let (first, mut end) = bounds(reader, selection)?;
    let mut left = lines;
    while left > 0 && end > first {
        let begin = end.saturating_sub(RANGE).max(first);
        let mut numbers = Numbers { filter, found: Vec::new() };
        let range = Selection { records: Some((begin, end - 1)), ..selection.clone() };
        reader.scan(Cursor::default(), &range, &mut numbers)?;
        let found = numbers.found.len() as u64;
        if found >= left {
            let at = usize::try_from(found - left).unwrap_or(0);
            return Ok(numbers.found.get(at).copied().unwrap_or(begin));
        }
        (left, end) = (left - found, begin);
    }
    // When no lines are requested, only later records are shown.
    Ok(if lines == 0 { end } else { first })
}

/// How records are written from the last to the first.
pub struct Backwards<'a> {
    /// Which of them.
    pub filter: &'a MessageFilter,
    /// As text, not as JSON.
    pub is_text: bool,
    /// How many at most.
    pub most: u64,
    /// Receives what could not be read, the first few times.
    pub complain: &'a mut dyn FnMut(&str),
}

/// Writes records from the last to the first. Returns how many were written, and whether the output was closed.
///
/// # Errors
/// When the log can't be read.
pub fn write_backwards(
    reader: &mut Reader<'_>,
    selection: &Selection,
    how: Backwards<'_>,
    out: &mut dyn Write,
) -> Result<(u64, bool)> {
    let (first, mut end) = bounds(reader, selection)?;
    let most = how.most;
    let printer = RecordPrinter::new(Vec::new(), how.filter, how.is_text, how.complain);
    let mut lines = Lines { printer, ends: Vec::new(), is_too_much: false };
    let mut shown = 0;
    let mut step = RANGE;
    while shown < most && end > first {
        let begin = end.saturating_sub(step).max(first);
        lines.printer.out.clear();
        lines.ends.clear();
        // Messages of a sender that are missing are known within a range.
        lines.printer.interrupted();
        let range = Selection { records: Some((begin, end - 1)), ..selection.clone() };
        reader.scan(Cursor::default(), &range, &mut lines)?;
        if lines.is_too_much {
            step = (step / 2).max(1);
            continue;
        }
        let begins = std::iter::once(0).chain(lines.ends.iter().copied());
        let spans: Vec<(usize, usize)> = begins.zip(lines.ends.iter().copied()).collect();
        for (from, to) in spans.into_iter().rev() {
            if shown == most {
                break;
            }
            if out.write_all(lines.printer.out.get(from..to).unwrap_or_default()).is_err() {
                return Ok((shown, true));
            }
            shown += 1;
        }
        end = begin;
    }
    Ok((shown, out.flush().is_err()))
}

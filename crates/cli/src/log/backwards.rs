//! The last records of a log, and records from the last to the first: the log is read in ranges of numbers from its
//! end, so that what is asked for of a large log takes the time of what is shown.

use super::LogFault;
use super::show::Printer;
use super::wanted::Wanted;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use std::io::Write;

/// Records of a range.
const RANGE: u64 = 8192;
/// Bytes of lines that a range may come to: one of more is read again in halves.
const RANGE_BYTES: usize = 64 << 20;

/// Numbers of a range that are wanted.
struct Numbers<'a> {
    wanted: &'a Wanted,
    found: Vec<u64>,
}

impl Sink for Numbers<'_> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        if self.wanted.takes(found) {
            self.found.push(found.number);
        }
        true
    }

    /// It is reported when the range is shown.
    fn unreadable(&mut self, _: &str) {}
}

/// Lines of a range.
struct Lines {
    printer: Printer<Vec<u8>>,
    /// Where each of them ends.
    ends: Vec<usize>,
    is_too_much: bool,
}

impl Sink for Lines {
    fn record(&mut self, found: &Found<'_>) -> bool {
        let shown = self.printer.shown;
        self.printer.record(found);
        if self.printer.shown > shown {
            self.ends.push(self.printer.out.len());
        }
        self.is_too_much = self.printer.out.len() > RANGE_BYTES && self.ends.len() > 1;
        !self.is_too_much
    }

    fn unreadable(&mut self, what: &str) {
        self.printer.unreadable(what);
    }
}

/// The first number that can be requested, and the one after the last.
fn bounds(reader: &Reader<'_>, selection: &Selection) -> Result<(u64, u64), LogFault> {
    let next = reader.next_record()?;
    let (first, last) = selection.records.unwrap_or((0, u64::MAX));
    Ok((first, last.saturating_add(1).min(next)))
}

/// Number of the first of the last `n` wanted records.
pub(super) fn first_of_last(
    reader: &mut Reader<'_>,
    selection: &Selection,
    wanted: &Wanted,
    lines: u64,
) -> Result<u64, LogFault> {
    let (first, mut end) = bounds(reader, selection)?;
    let mut left = lines;
    while left > 0 && end > first {
        let begin = end.saturating_sub(RANGE).max(first);
        let mut numbers = Numbers { wanted, found: Vec::new() };
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

/// Shows up to a number of wanted records, from the last to the first. Returns how many were shown, and whether the
/// output was closed.
pub(super) fn show(
    reader: &mut Reader<'_>,
    selection: &Selection,
    (wanted, is_text): (Wanted, bool),
    most: u64,
    out: &mut dyn Write,
) -> Result<(u64, bool), LogFault> {
    let (first, mut end) = bounds(reader, selection)?;
    let printer = Printer::new(Vec::new(), wanted, is_text);
    let mut lines = Lines { printer, ends: Vec::new(), is_too_much: false };
    let mut shown = 0;
    let mut step = RANGE;
    while shown < most && end > first {
        let begin = end.saturating_sub(step).max(first);
        lines.printer.out.clear();
        lines.ends.clear();
        // Messages of a sender that are missing are known within a range.
        lines.printer.across.interrupted();
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

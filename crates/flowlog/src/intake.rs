//! Lines that are handed over one by one, as records in order of time: what is read while it is made.
//!
//! Nothing is known of such a log before it is read. Its lines wait for earlier ones as long as the
//! horizon says and room allows; what comes later still is given out late.

use crate::feed::{InputReport, shed};
use crate::formats::Format;
use crate::reader::{LayoutId, Line, Reader};
use crate::sorter::{Leaving, Sorter};
use gabion_record::logs::{LogKind, Record, TimeNs};
use gabion_record::saved;
use std::ops::ControlFlow;
use std::path::Path;

/// What takes records; it may break off.
pub type Each<'e> = &'e mut dyn FnMut(&Record<'_>) -> ControlFlow<()>;

/// One such log.
pub struct Intake {
    reader: Reader,
    sorter: Sorter,
    report: InputReport,
    /// Moment of the last record given out.
    given: Option<TimeNs>,
    scratch: Vec<u8>,
    lines: u64,
}

saved! {
    Intake { reader, sorter, report, given, lines; scratch = Vec::new() }
}

impl Intake {
    /// A log of that name whose lines wait for this long, in this many bytes.
    pub fn new(path: &Path, format: Option<Format>, horizon_ns: i64, bytes_max: usize) -> Intake {
        Intake {
            reader: Reader::new(&path.to_string_lossy(), format),
            sorter: Sorter::new(horizon_ns, bytes_max),
            report: InputReport::new(path),
            given: None,
            scratch: Vec::new(),
            lines: 0,
        }
    }

    /// Takes the next line in, without its end; records whose time has come go to `each`.
    pub fn line(&mut self, line: &[u8], each: Each<'_>) -> ControlFlow<()> {
        match self.begin_line(line) {
            Some((ts, layout)) => self.push(ts, layout, line, each),
            None => ControlFlow::Continue(()),
        }
    }

    /// Looks at the next line: the moment of its record, for [`Intake::push`]. What is none is done with.
    pub fn begin_line(&mut self, line: &[u8]) -> Option<(TimeNs, LayoutId)> {
        self.lines += 1;
        match self.reader.line(line) {
            Line::Quiet => None,
            Line::Record(ts, layout) => Some((ts, layout)),
            Line::Skip(skip) => {
                let bytes = line.len() as u64;
                self.report.ledger.receive(1, bytes);
                shed(&mut self.report, skip, bytes, self.lines);
                None
            }
        }
    }

    /// Forgets that the last line was looked at: it will come again.
    pub fn unlook(&mut self) {
        self.lines = self.lines.saturating_sub(1);
    }

    /// Takes in the line that [`Intake::begin_line`] found a record in; records whose time has come go to `each`.
    pub fn push(
        &mut self,
        ts: TimeNs,
        layout: LayoutId,
        line: &[u8],
        each: Each<'_>,
    ) -> ControlFlow<()> {
        self.report.ledger.receive(1, line.len() as u64);
        self.sorter.push(ts, line, layout, self.lines);
        self.drain(false, each)
    }

    /// Passes over a line that was read before: what it says of those that follow is learnt.
    pub fn pass_over(&mut self, line: &[u8]) {
        self.lines += 1;
        let _ = self.reader.line(line);
    }

    /// The order of this log's records among records of the same moment.
    pub fn order(&self) -> LogKind {
        self.reader.order()
    }

    /// Nothing comes at the moment: memory is released.
    pub fn rest(&mut self) {
        self.sorter.rest();
        self.scratch = Vec::new();
    }

    /// Lines wait so long from now on.
    pub fn set_horizon(&mut self, horizon_ns: i64, bytes_max: usize) {
        self.sorter.set_horizon(horizon_ns, bytes_max);
    }

    /// The log was truncated and begins again in its place: lines are counted from its beginning.
    pub fn restart(&mut self) {
        self.lines = 0;
        self.report.restarts += 1;
    }

    /// It is found under that name now.
    pub fn rename(&mut self, path: &Path) {
        self.report.path = path.to_owned();
    }

    /// A line of this many bytes, longer than lines may be.
    pub fn too_long(&mut self, bytes: u64) {
        self.lines += 1;
        self.report.ledger.receive(1, bytes);
        shed(&mut self.report, crate::skip::Skip::TooLong, bytes, self.lines);
    }

    /// No line will follow: what waits goes out.
    pub fn finish(&mut self, each: Each<'_>) -> ControlFlow<()> {
        self.drain(true, each)
    }

    fn drain(&mut self, is_at_end: bool, each: Each<'_>) -> ControlFlow<()> {
        let Intake { reader, sorter, report, given, scratch, .. } = self;
        drain_sorted(sorter, report, is_at_end, |head, report| {
            let bytes = head.line.len() as u64;
            match reader.record(head.layout, head.line, scratch) {
                Ok(record) => give_out(record, bytes, report, given, &mut *each),
                Err(skip) => {
                    shed(report, skip, bytes, head.number);
                    ControlFlow::Continue(())
                }
            }
        })?;
        self.report.kind = self.reader.kind().or(self.report.kind);
        ControlFlow::Continue(())
    }

    /// Its outcome so far.
    pub fn report(&self) -> &InputReport {
        &self.report
    }
}

/// Gives what waited long enough, or at the end all that waits, to `each` in order of time.
pub(crate) fn drain_sorted(
    sorter: &mut Sorter,
    report: &mut InputReport,
    is_at_end: bool,
    mut each: impl FnMut(&Leaving<'_>, &mut InputReport) -> ControlFlow<()>,
) -> ControlFlow<()> {
    while sorter.advance(is_at_end) {
        let Some(head) = sorter.head() else { break };
        let flow = each(&head, report);
        sorter.pop(1);
        flow?;
    }
    report.cut = sorter.cut;
    report.jumps = sorter.jumps();
    ControlFlow::Continue(())
}

/// Gives a record out that took this many bytes; `given` is the moment of the last one that was not late.
pub(crate) fn give_out(
    mut record: Record<'_>,
    bytes: u64,
    report: &mut InputReport,
    given: &mut Option<TimeNs>,
    each: Each<'_>,
) -> ControlFlow<()> {
    report.ledger.pass(1, bytes);
    record.is_late = given.is_some_and(|given| record.ts < given);
    if record.is_late {
        report.late += 1;
    } else {
        *given = Some(record.ts);
    }
    each(&record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::logs::SECOND;

    #[test]
    fn lines_come_out_in_order_and_the_ledgers_balance() {
        let mut intake = Intake::new(Path::new("eve"), Some(Format::Eve), 60 * SECOND, 1 << 20);
        let mut out = Vec::new();
        let mut each = |r: &Record<'_>| {
            out.push((r.ts.seconds() % 1000, r.is_late));
            ControlFlow::Continue(())
        };
        for second in [3, 1, 2, 200, 90, 5] {
            let line = format!(
                r#"{{"timestamp":"2021-06-06T15:00:00Z","event_type":"flow","src_ip":"10.0.0.1","dest_ip":"10.0.0.2","proto":"ICMP","flow":{{"start":"2021-06-06T15:{:02}:{:02}Z"}}}}"#,
                second / 60,
                second % 60
            );
            assert!(intake.line(line.as_bytes(), &mut each).is_continue());
        }
        assert!(intake.line(b"no line", &mut each).is_continue());
        assert!(intake.finish(&mut each).is_continue());
        let base = 1_622_991_600 % 1000;
        let at = |s: i64| (base + s) % 1000;
        let expected = [(at(1), false), (at(2), false), (at(3), false), (at(5), false)];
        assert_eq!(out[..3], expected[..3]);
        assert_eq!(out.len(), 6);
        intake.report().ledger.balance().unwrap();
        assert_eq!((intake.report().skips.total(), intake.report().late), (1, 1));
    }
}

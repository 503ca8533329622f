//! Records that are handed over one by one while they are made, in order of time: those of a capture.
//!
//! They wait for earlier ones as lines of a log do ([`crate::Intake`]), packed ([`gabion_record::packed`]). Bytes
//! before each record decide the order of records of one moment.

use crate::feed::{InputReport, shed};
use crate::intake::{Each, drain_sorted, give_out};
use crate::limits::LINE_MAX;
use crate::reader::LayoutId;
use crate::skip::Skip;
use crate::sorter::Sorter;
use gabion_record::logs::TimeNs;
use gabion_record::packed::take_record;
use std::ops::ControlFlow;
use std::path::Path;

/// The records of one input.
pub struct RecordIntake {
    order_len: usize,
    sorter: Sorter,
    report: InputReport,
    /// Moment of the last record given out.
    given: Option<TimeNs>,
    records: u64,
}

impl RecordIntake {
    /// An input of that name, whose records wait for this long, in this many bytes. Each has `order_len` bytes before
    /// it that decide its order among records of its moment.
    pub fn new(path: &Path, order_len: usize, horizon_ns: i64, bytes_max: usize) -> RecordIntake {
        RecordIntake {
            order_len,
            sorter: Sorter::new(horizon_ns, bytes_max),
            report: InputReport::new(path),
            given: None,
            records: 0,
        }
    }

    /// Takes in a packed record of that moment; records whose time has come go to `each`.
    pub fn take_record(&mut self, ts: TimeNs, packed: &[u8], each: Each<'_>) -> ControlFlow<()> {
        if packed.len() > LINE_MAX {
            self.skip(Skip::TooLong, packed.len() as u64);
            return ControlFlow::Continue(());
        }
        self.records += 1;
        self.report.ledger.receive(1, packed.len() as u64);
        self.sorter.push(ts, packed, LayoutId::default(), self.records);
        self.drain(false, each)
    }

    /// Counts what could not be made a record of.
    pub fn skip(&mut self, skip: Skip, bytes: u64) {
        self.records += 1;
        self.report.ledger.receive(1, bytes);
        shed(&mut self.report, skip, bytes, self.records);
    }

    /// No record will follow: those that wait go out.
    pub fn finish(&mut self, each: Each<'_>) -> ControlFlow<()> {
        self.drain(true, each)
    }

    fn drain(&mut self, is_at_end: bool, each: Each<'_>) -> ControlFlow<()> {
        let RecordIntake { order_len, sorter, report, given, .. } = self;
        drain_sorted(sorter, report, is_at_end, |head, report| {
            let bytes = head.line.len() as u64;
            let mut packed = head.line.get(*order_len..).unwrap_or_default();
            match take_record(&mut packed) {
                Some(record) => give_out(record, bytes, report, given, &mut *each),
                None => {
                    shed(report, Skip::BadRecord, bytes, head.number);
                    ControlFlow::Continue(())
                }
            }
        })
    }

    /// Its outcome so far.
    pub fn report(&self) -> &InputReport {
        &self.report
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_record::Ip;
    use gabion_record::logs::{Body, Ftp, Label, Proto, Record, SECOND};
    use gabion_record::packed::put_record;

    fn packed(second: i64, order: u8, port: u16) -> (TimeNs, Vec<u8>) {
        let record = Record {
            ts: TimeNs(second * SECOND),
            src: Ip::v4(1),
            dst: Ip::v4(2),
            src_port: port,
            dst_port: 21,
            proto: Proto::Tcp,
            uid: b"7",
            label: Label::None,
            is_late: false,
            body: Body::Ftp(Ftp::default()),
        };
        let mut bytes = vec![order];
        put_record(&record, &mut bytes);
        (record.ts, bytes)
    }

    #[test]
    fn records_come_out_by_time_then_by_their_order_and_the_ledger_balances() {
        let mut intake = RecordIntake::new(Path::new("x.pcap"), 1, 60 * SECOND, 1 << 20);
        let mut out = Vec::new();
        let mut each = |r: &Record<'_>| {
            out.push((r.ts.seconds(), r.src_port, r.is_late));
            ControlFlow::Continue(())
        };
        for (second, order, port) in
            [(3, 0, 1), (1, 2, 2), (1, 1, 3), (1, 1, 4), (200, 0, 5), (9, 0, 6)]
        {
            let (ts, bytes) = packed(second, order, port);
            assert!(intake.take_record(ts, &bytes, &mut each).is_continue());
        }
        intake.skip(Skip::NoAddress, 0);
        assert!(intake.take_record(TimeNs(201 * SECOND), &[0, 1, 2], &mut each).is_continue());
        assert!(
            intake
                .take_record(TimeNs(202 * SECOND), &vec![0; LINE_MAX + 1], &mut each)
                .is_continue()
        );
        assert!(intake.finish(&mut each).is_continue());
        // The second 9 came when the second 3 had been given out, but nothing later than it: it is in order.
        let ports: Vec<u16> = out.iter().map(|(_, port, _)| *port).collect();
        assert_eq!(ports, [3, 4, 2, 1, 6, 5]);
        assert!(out.iter().all(|(_, _, is_late)| !is_late));
        let report = intake.report();
        report.ledger.balance().unwrap();
        let skips: Vec<(Skip, u64)> = report.skips.iter().map(|(skip, n, _)| (skip, n)).collect();
        assert_eq!(skips, [(Skip::NoAddress, 1), (Skip::TooLong, 1), (Skip::BadRecord, 1)]);
    }
}

//! `alerts.csv`: time, signature and addresses of each alert of a rule, for a spreadsheet.

use crate::output::{Format, Output, Piece, Pieces, Record};
use crate::output_kind::{Opened, Opening, OutputKind};
use gabion_record::eve::{AlertRecord, Wants};
use std::io::Write;

pub(crate) const KIND: OutputKind = OutputKind::new("alerts-csv", open).with_file("alerts.csv");

fn open(o: &mut Opening<'_>) -> Opened {
    Ok(Some(Output::new(AlertsCsv::default(), o.line_file("alerts.csv")?)))
}

/// Writes the lines.
#[derive(Default)]
struct AlertsCsv {
    line: Vec<u8>,
}

impl AlertsCsv {
    fn line(&mut self, r: &AlertRecord<'_>) -> &[u8] {
        let (h, sid) = (&r.header, r.signature.sid);
        self.line.clear();
        // A vector takes all that is written into it.
        let _ = write!(self.line, "{},{sid},", h.ts_ns / 1_000_000_000);
        h.src.write(h.ip_version, &mut self.line);
        self.line.push(b',');
        h.dst.write(h.ip_version, &mut self.line);
        self.line.push(b'\n');
        &self.line
    }
}

impl Format for AlertsCsv {
    fn wants(&self) -> Wants {
        Wants { alerts: true, ..Wants::default() }
    }

    fn write_record(&mut self, record: &Record<'_>, to: &mut dyn Pieces) -> bool {
        let Record::Alert(r) = record else { return false };
        to.put(Piece::line(self.line(r)));
        false
    }

    fn clone_for_worker(&self) -> Box<dyn Format> {
        Box::new(AlertsCsv::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wants_alerts_alone() {
        assert_eq!(AlertsCsv::default().wants(), Wants { alerts: true, ..Wants::default() });
    }
}

//! Brief CSV: `begin,seconds,from,to,port,protocol,sent,received`, columns in any order.

use crate::columns::Columns;
use crate::field;
use crate::format::LogFormat;
use crate::skip::Skip;
use gabion_record::Ip;
use gabion_record::logs::{Body, Conn, Label, Proto, Record, TimeNs};
use gabion_record::saved;
use gabion_record::saved::Saved;

/// Names of columns, at their numbers.
const NAMES: [&str; 8] = ["begin", "seconds", "from", "to", "port", "protocol", "sent", "received"];

/// The format: the places of the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Brief {
    columns: Columns,
}

saved! { Brief { columns } }

impl LogFormat for Brief {
    const NAME: &'static str = "brief";
    const TITLE: &'static str = "brief CSV";

    fn from_header(line: &[u8]) -> Option<Brief> {
        let columns = Columns::from_header(line, b',', |name, _| {
            let at = NAMES.iter().position(|n| n.as_bytes() == name)?;
            u8::try_from(at).ok()
        });
        [0, 2, 3].into_iter().all(|n| columns.has(n)).then_some(Brief { columns })
    }

    fn time(&self, line: &[u8]) -> Result<TimeNs, Skip> {
        let text = self.columns.text(line, 0).ok_or(Skip::CutShort)?;
        field::moment(text).ok_or(Skip::NoTime)
    }

    fn record<'a>(&self, line: &'a [u8], _: &'a mut Vec<u8>) -> Result<Record<'a>, Skip> {
        let [_, seconds, from, to, port, proto, sent, received]: [&[u8]; 8] =
            self.columns.texts(line);
        let (orig_bytes, resp_bytes) = (field::count(sent), field::count(received));
        let conn = Conn {
            duration_ns: field::seconds(seconds).unwrap_or(0).max(0),
            orig_bytes,
            resp_bytes,
            is_established: resp_bytes > 0,
            ..Conn::default()
        };
        Ok(Record {
            ts: self.time(line)?,
            src: Ip::parse(from).ok_or(Skip::NoAddress)?,
            dst: Ip::parse(to).ok_or(Skip::NoAddress)?,
            src_port: 0,
            dst_port: field::port(port),
            proto: Proto::from_name(proto),
            uid: &[],
            label: Label::None,
            is_late: false,
            body: Body::Conn(conn),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_record_and_no_cut_of_it_panics() {
        let brief = Brief::from_header(b"to,from,begin,port,protocol,sent,received").unwrap();
        let line = b"192.0.2.7,10.0.0.1,1700000000.5,443,tcp,10,20";
        let mut scratch = Vec::new();
        let r = brief.record(line, &mut scratch).unwrap();
        assert_eq!((r.dst_port, r.ts), (443, TimeNs(1_700_000_000_500_000_000)));
        assert_eq!(brief.time(line), Ok(r.ts));
        for cut in 0..line.len() {
            let _ = brief.record(&line[..cut], &mut Vec::new());
        }
        assert_eq!(Brief::from_header(b"begin,from"), None);
    }
}

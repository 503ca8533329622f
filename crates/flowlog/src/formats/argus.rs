//! Argus's bidirectional flows (`.binetflow`): comma or tab, columns named by a header in any case.
//!
//! Rows that are no IP flows (`llc`, `man`, ARP by hardware address) are skipped and say so. ICMP
//! has its type and code where ports stand, in hex.

use crate::columns::Columns;
use crate::field;
use crate::format::LogFormat;
use crate::formats::zeek::build;
use crate::skip::Skip;
use gabion_record::Ip;
use gabion_record::logs::{Body, Conn, ConnState, Label, Proto, Record, Service, TimeNs};
use gabion_record::saved;

/// Columns read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Start,
    Duration,
    Proto,
    Src,
    SrcPort,
    Dst,
    DstPort,
    State,
    Packets,
    Bytes,
    SrcBytes,
    DstBytes,
    SrcPackets,
    DstPackets,
    App,
    Label,
}

const COLUMNS: usize = 16;

/// Name in lower case and the column; the first that the header's name contains counts. Longer
/// ones come before those they contain.
const NAMES: &[(&str, Column)] = &[
    ("time", Column::Start),
    ("dur", Column::Duration),
    ("proto", Column::Proto),
    ("srca", Column::Src),
    ("sport", Column::SrcPort),
    ("dsta", Column::Dst),
    ("dport", Column::DstPort),
    ("state", Column::State),
    ("totpkts", Column::Packets),
    ("totbytes", Column::Bytes),
    ("srcbytes", Column::SrcBytes),
    ("dstbytes", Column::DstBytes),
    ("srcpkts", Column::SrcPackets),
    ("dstpkts", Column::DstPackets),
    ("label", Column::Label),
];

/// Where each column stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    columns: Columns,
    has_app: bool,
}

saved! { Layout { columns, has_app } }

/// The column of a name.
fn column_of(name: &[u8], before: &[Option<u8>]) -> Option<u8> {
    // `appproto` contains `proto` too.
    if name.windows(8).any(|w| w == b"appproto") {
        return Some(Column::App as u8);
    }
    let known = NAMES.iter().find(|(part, column)| {
        name.windows(part.len()).any(|w| w == part.as_bytes())
            && !before.contains(&Some(*column as u8))
    });
    known.map(|(_, column)| *column as u8)
}

impl LogFormat for Layout {
    const NAME: &'static str = "argus";
    const TITLE: &'static str = "Argus";

    fn from_header(line: &[u8]) -> Option<Layout> {
        let commas = line.iter().filter(|b| **b == b',').count();
        let separator = if commas > 5 { b',' } else { b'\t' };
        let columns = Columns::from_header(line, separator, column_of);
        let has = |column: Column| columns.has(column as u8);
        let is_header = has(Column::Start) && has(Column::Src) && has(Column::Dst);
        let has_app = has(Column::App);
        is_header.then_some(Layout { columns, has_app })
    }

    fn time(&self, line: &[u8]) -> Result<TimeNs, Skip> {
        let text = self.columns.text(line, Column::Start as u8).ok_or(Skip::CutShort)?;
        field::moment(text).ok_or(Skip::NoTime)
    }

    fn record<'a>(&self, line: &'a [u8], _: &'a mut Vec<u8>) -> Result<Record<'a>, Skip> {
        let texts: [&'a [u8]; COLUMNS] = self.columns.texts(line);
        let get = |column: Column| texts.get(column as usize).copied().unwrap_or_default();
        let ts = field::moment(get(Column::Start)).ok_or(Skip::NoTime)?;
        let src = Ip::parse(get(Column::Src)).ok_or(Skip::NoAddress)?;
        let dst = Ip::parse(get(Column::Dst)).ok_or(Skip::NoAddress)?;
        let proto = Proto::from_name(get(Column::Proto));
        let packets = field::count(get(Column::Packets));
        let bytes = field::count(get(Column::Bytes));
        // One side may be left out and follows from the total.
        let (orig_bytes, resp_bytes) = sides(bytes, get(Column::SrcBytes), get(Column::DstBytes));
        let (orig_pkts, resp_pkts) = match (get(Column::SrcPackets), get(Column::DstPackets)) {
            ([], []) => (packets, 0),
            (s, d) => sides(packets, s, d),
        };
        let (src_port, dst_port) = (get(Column::SrcPort), get(Column::DstPort));
        let has_no_ports = src_port.starts_with(b"0x") || dst_port.starts_with(b"0x");
        let conn = Conn {
            service: Service::from_name(get(Column::App)),
            knows_service: self.has_app,
            duration_ns: field::seconds(get(Column::Duration)).unwrap_or(0).max(0),
            orig_bytes,
            resp_bytes,
            orig_pkts,
            resp_pkts,
            state: ConnState::from_text(get(Column::State)),
            is_established: is_established(get(Column::State), packets),
            has_no_ports,
            ..Conn::default()
        };
        Ok(Record {
            ts,
            src,
            dst,
            src_port: port(src_port),
            dst_port: port(dst_port),
            proto,
            uid: &[],
            label: label(get(Column::Label)),
            is_late: false,
            body: Body::Conn(conn),
        })
    }
}

fn sides(total: u64, src: &[u8], dst: &[u8]) -> (u64, u64) {
    match (field::number(src), field::number(dst)) {
        (Some(s), Some(d)) => (s, d),
        (Some(s), None) => (s, total.saturating_sub(s)),
        (None, Some(d)) => (total.saturating_sub(d), d),
        (None, None) => (total, 0),
    }
}

/// A port in decimal or, of ICMP, in hex.
fn port(text: &[u8]) -> u16 {
    match text.strip_prefix(b"0x") {
        Some(hex) => {
            std::str::from_utf8(hex).ok().and_then(|t| u16::from_str_radix(t, 16).ok()).unwrap_or(0)
        }
        None => field::port(text),
    }
}

fn label(text: &[u8]) -> Label {
    build::label(text)
}

/// Whether a state means that both sides talked: a pair of flags `a_b` when both have SYN and ACK or
/// both have PSH and ACK, in whatever order; else by Argus's words.
pub(crate) fn is_established(state: &[u8], packets: u64) -> bool {
    if let Some(bar) = state.iter().position(|b| *b == b'_') {
        let (a, b) = state.split_at(bar);
        let both = |x: u8, y: u8| [a, b].iter().all(|s| s.contains(&x) && s.contains(&y));
        return both(b'S', b'A') || both(b'P', b'A');
    }
    match state {
        b"CON" | b"EST" | b"ECO" | b"UNK" => true,
        b"RST" | b"FIN" => packets > 3,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"StartTime,Dur,Proto,SrcAddr,Sport,Dir,DstAddr,Dport,State,sTos,dTos,\
        TotPkts,TotBytes,SrcBytes,SrcPkts,Label";

    #[test]
    fn a_row_of_slips_data() {
        let layout = Layout::from_header(HEADER).unwrap();
        let (mut scratch, mut other) = (Vec::new(), Vec::new());
        let line =
            b"2018/12/18 14:00:00.527012,0.699716,tcp,216.73.23.146,52798,   ->,147.32.81.58,\
            445,S_RA,0,0,2,134,70,1,flow=From-Botnet-V1";
        let r = layout.record(line, &mut scratch).unwrap();
        let Body::Conn(c) = r.body else { panic!("not a conn") };
        assert_eq!((c.orig_bytes, c.resp_bytes, c.orig_pkts, c.resp_pkts), (70, 64, 1, 1));
        assert!(!c.is_established && !c.knows_service);
        assert_eq!((r.dst_port, r.label), (445, Label::Malicious));
        assert_eq!(layout.time(line), Ok(r.ts));
        for cut in 0..line.len() {
            let _ = layout.record(&line[..cut], &mut other);
        }
        let llc = b"1970/01/01 01:00:00.0,0.0,llc,00:00:00:00:00:00,0,->,00:00:00:00:00:00,0,INT,,,1,60,60,,";
        assert_eq!(layout.record(llc, &mut other).err(), Some(Skip::NoAddress));
        assert_eq!(Layout::from_header(b"a,b,c"), None);
    }

    #[test]
    fn columns_are_found_by_part_of_their_names() {
        let header = String::from_utf8_lossy(HEADER).replace(',', "\t") + "\tAppProto";
        let layout = Layout::from_header(header.as_bytes()).unwrap();
        assert!(layout.has_app);
        assert_eq!(layout.columns.text(b"a\tb\ttcp", Column::Proto as u8), Some(&b"tcp"[..]));
    }

    /// Counted by Slips' rules over its test4 and test5 (facts 1.1): 122 of 394, 283 of 298.
    #[test]
    fn states_of_argus() {
        for (state, packets, established) in [
            ("CON", 2, true),
            ("ECO", 1, true),
            ("INT", 9, false),
            ("RST", 4, true),
            ("FIN", 3, false),
            ("FSA_SRA", 5, true),
            ("PA_PA", 5, true),
            ("S_RA", 2, false),
            ("SRPA_", 2, false),
            ("FA_FA", 2, false),
            ("S0", 31, false),
            ("", 1, false),
        ] {
            assert_eq!(is_established(state.as_bytes(), packets), established, "{state}");
        }
    }
}

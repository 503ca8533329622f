//! nfdump's output: CSV by its header (whose columns changed in 1.7.3) and its text for people.
//!
//! Times have no zone and are taken as UTC. A row is one direction unless it has columns for the
//! other (`opkt`). TCP counts as established when an ACK was among its flags; of other protocols a
//! one-way row cannot show it, and its source is not blamed. Instead of ICMP's port the row has type and code: as
//! `8.0`, or as one number. Binary files are in `nfcapd`.

use crate::columns::Columns;
use crate::field;
use crate::format::{LogFormat, Seen};
use crate::formats::zeek::build;
use crate::nfcapd::{self, is_refused};
use crate::skip::Skip;
use gabion_record::logs::{Body, Conn, ConnState, Label, Proto, Record, TimeNs};
use gabion_record::saved::Saved;
use gabion_record::{Ip, IpProto};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Start,
    Duration,
    Src,
    Dst,
    SrcPort,
    DstPort,
    Proto,
    Flags,
    InPackets,
    InBytes,
    OutPackets,
    OutBytes,
    Label,
}

const COLUMNS: usize = 13;

/// Names of old and new CSV.
const NAMES: &[(&str, Column)] = &[
    ("ts", Column::Start),
    ("firstseen", Column::Start),
    ("td", Column::Duration),
    ("duration", Column::Duration),
    ("sa", Column::Src),
    ("srcaddr", Column::Src),
    ("da", Column::Dst),
    ("dstaddr", Column::Dst),
    ("sp", Column::SrcPort),
    ("srcport", Column::SrcPort),
    ("dp", Column::DstPort),
    ("dstport", Column::DstPort),
    ("pr", Column::Proto),
    ("proto", Column::Proto),
    ("flg", Column::Flags),
    ("flags", Column::Flags),
    ("ipkt", Column::InPackets),
    ("packets", Column::InPackets),
    ("ibyt", Column::InBytes),
    ("bytes", Column::InBytes),
    ("opkt", Column::OutPackets),
    ("obyt", Column::OutBytes),
    ("label", Column::Label),
];

/// How rows are laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Columns by name.
    Csv(Columns),
    /// Words between blanks: date, time, duration, protocol, address:port, `->`, address:port,
    /// flags, type of service, packets, bytes, flows, perhaps a label.
    Text,
    /// Rows of a binary file ([`crate::nfcapd`]).
    Binary,
}

impl Saved for Layout {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Layout::Csv(columns) => {
                out.push(0);
                columns.save(out);
            }
            Layout::Text => out.push(1),
            Layout::Binary => out.push(2),
        }
    }
    fn load(from: &mut &[u8]) -> Option<Self> {
        Some(match u8::load(from)? {
            0 => Layout::Csv(Saved::load(from)?),
            1 => Layout::Text,
            2 => Layout::Binary,
            _ => return None,
        })
    }
}

impl LogFormat for Layout {
    const NAME: &'static str = "nfdump";
    const TITLE: &'static str = "nfdump";

    fn from_header(line: &[u8]) -> Option<Layout> {
        if line == nfcapd::HEADER {
            return Some(Layout::Binary);
        }
        if line.starts_with(b"Date flow start") || line.starts_with(b"Date first seen") {
            return Some(Layout::Text);
        }
        let columns = Columns::from_header(line, b',', |name, _| {
            NAMES.iter().find(|(n, _)| n.as_bytes() == name).map(|(_, column)| *column as u8)
        });
        let has = |column: Column| columns.has(column as u8);
        let is_header = has(Column::Start) && has(Column::Src) && has(Column::Dst);
        is_header.then_some(Layout::Csv(columns))
    }

    /// Text may come without a header.
    fn from_record(seen: Seen<'_>) -> Option<Layout> {
        let is_row = seen.line.first() != Some(&b'{') && text_row(seen.line).is_ok();
        (seen.may_be(Self::NAME) && is_row).then_some(Layout::Text)
    }

    fn time(&self, line: &[u8]) -> Result<TimeNs, Skip> {
        match self {
            Layout::Binary => nfcapd::time(line),
            Layout::Csv(_) | Layout::Text => {
                let texts = self.texts(line)?;
                field::moment(texts[Column::Start as usize]).ok_or(Skip::NoTime)
            }
        }
    }

    fn record<'a>(&self, line: &'a [u8], _: &'a mut Vec<u8>) -> Result<Record<'a>, Skip> {
        match self {
            Layout::Binary => nfcapd::record(line),
            Layout::Csv(_) | Layout::Text => self.row(line),
        }
    }
}

impl Layout {
    fn texts<'a>(&self, line: &'a [u8]) -> Result<Texts<'a>, Skip> {
        match self {
            Layout::Csv(columns) => Ok(columns.texts(line)),
            Layout::Text | Layout::Binary => text_row(line),
        }
    }

    fn row<'a>(&self, line: &'a [u8]) -> Result<Record<'a>, Skip> {
        let texts = self.texts(line)?;
        let get = |column: Column| texts.get(column as usize).copied().unwrap_or_default();
        let ts = field::moment(get(Column::Start)).ok_or(Skip::NoTime)?;
        let proto = proto_of(get(Column::Proto));
        let (src_port, dst_port) = if proto.is_icmp() {
            type_and_code(get(Column::DstPort))
        } else {
            (field::port(get(Column::SrcPort)), field::port(get(Column::DstPort)))
        };
        let has_both_sides = matches!(self, Layout::Csv(c) if c.has(Column::OutPackets as u8));
        let orig_pkts = scaled(get(Column::InPackets));
        let resp_pkts = scaled(get(Column::OutPackets));
        let flags = get(Column::Flags);
        let is_established = if proto == Proto::Tcp {
            flags.contains(&b'A') && !is_refused(flags)
        } else {
            !has_both_sides || resp_pkts > 0
        };
        let conn = Conn {
            duration_ns: field::seconds(get(Column::Duration)).unwrap_or(0).max(0),
            orig_bytes: scaled(get(Column::InBytes)),
            resp_bytes: scaled(get(Column::OutBytes)),
            orig_pkts,
            resp_pkts,
            state: ConnState::from_text(flags),
            is_established,
            ..Conn::default()
        };
        Ok(Record {
            ts,
            src: Ip::parse(get(Column::Src)).ok_or(Skip::NoAddress)?,
            dst: Ip::parse(get(Column::Dst)).ok_or(Skip::NoAddress)?,
            src_port,
            dst_port,
            proto,
            uid: &[],
            label: label(get(Column::Label)),
            is_late: false,
            body: Body::Conn(conn),
        })
    }
}

type Texts<'a> = [&'a [u8]; COLUMNS];

fn label(text: &[u8]) -> Label {
    build::label(text)
}

/// By its name or, if nfdump was set not to look up names, its number.
fn proto_of(text: &[u8]) -> Proto {
    match field::number(text) {
        Some(n) => u8::try_from(n).map_or(Proto::Other, |n| Proto::from_ip(IpProto(n))),
        None => Proto::from_name(text),
    }
}

/// What takes the place of ICMP's port: `8.0` or 2048.
fn type_and_code(text: &[u8]) -> (u16, u16) {
    let mut parts = text.splitn(2, |b| *b == b'.');
    match (parts.next(), parts.next()) {
        (Some(kind), Some(code)) => (field::port(kind), field::port(code)),
        _ => {
            let both = field::port(text);
            (both >> 8, both & 0xff)
        }
    }
}

/// A count, which nfdump may write as `1.2M`.
fn scaled(text: &[u8]) -> u64 {
    let factor = match text.last() {
        Some(b'K' | b'k') => 1e3,
        Some(b'M') => 1e6,
        Some(b'G') => 1e9,
        _ => return field::count(text),
    };
    let digits = text.get(..text.len() - 1).unwrap_or_default();
    field::float(digits).filter(|x| *x >= 0.0).map_or(0, |x| (x * factor) as u64)
}

fn text_row(line: &[u8]) -> Result<Texts<'_>, Skip> {
    let mut texts: Texts<'_> = [&[]; COLUMNS];
    let mut words = line.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
    let date = words.next().ok_or(Skip::CutShort)?;
    let time = words.next().ok_or(Skip::CutShort)?;
    if date.len() != 10 || date.get(4) != Some(&b'-') {
        return Err(Skip::NotALog);
    }
    // Date and time as one text: they are in one line, a blank or a tab between them.
    let start = offset(line, date);
    let end = offset(line, time) + time.len();
    let mut set = |column: Column, text| texts[column as usize] = text;
    set(Column::Start, line.get(start..end).ok_or(Skip::NoTime)?);
    set(Column::Duration, words.next().ok_or(Skip::CutShort)?);
    let proto = words.next().ok_or(Skip::CutShort)?;
    set(Column::Proto, proto);
    let src = words.next().ok_or(Skip::CutShort)?;
    if words.next() != Some(b"->") {
        return Err(Skip::NotALog);
    }
    let dst = words.next().ok_or(Skip::CutShort)?;
    let (src, src_port) = endpoint(src);
    let is_icmp6 = proto_of(proto) == Proto::IcmpV6 && dst.contains(&b'.');
    let (dst, dst_port) = if is_icmp6 { icmp6_endpoint(dst) } else { endpoint(dst) };
    set(Column::Src, src);
    set(Column::SrcPort, src_port);
    set(Column::Dst, dst);
    set(Column::DstPort, dst_port);
    set(Column::Flags, words.next().ok_or(Skip::CutShort)?);
    let _type_of_service = words.next();
    set(Column::InPackets, words.next().ok_or(Skip::CutShort)?);
    set(Column::InBytes, words.next().ok_or(Skip::CutShort)?);
    let _flows = words.next();
    set(Column::Label, words.next().unwrap_or_default());
    Ok(texts)
}

/// Where `part`, which was cut out of `whole`, begins in it.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(whole.as_ptr() as usize)
}

/// `address:port`; with IPv6 the port comes after a dot.
fn endpoint(text: &[u8]) -> (&[u8], &[u8]) {
    let colons = text.iter().filter(|b| **b == b':').count();
    let mark = if colons > 1 { b'.' } else { b':' };
    match text.iter().rposition(|b| *b == mark) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default()),
        None => (text, &[]),
    }
}

/// `address.type.code`.
fn icmp6_endpoint(text: &[u8]) -> (&[u8], &[u8]) {
    let mut dots = text.iter().enumerate().rev().filter(|(_, b)| **b == b'.').map(|(at, _)| at);
    match (dots.next(), dots.next()) {
        (Some(_), Some(at)) => {
            (text.get(..at).unwrap_or_default(), text.get(at + 1..).unwrap_or_default())
        }
        _ => endpoint(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_line(line: &[u8]) -> Option<Layout> {
        Layout::from_record(Seen { line, chosen: None, named: None })
    }

    fn read_line(layout: &Layout, line: &str) -> Result<(String, u16, u64, u64, bool), Skip> {
        let mut scratch = Vec::new();
        let r = layout.record(line.as_bytes(), &mut scratch)?;
        let Body::Conn(c) = r.body else { panic!("not a conn") };
        Ok((
            r.src.to_string(),
            r.dst_port,
            c.orig_pkts + c.resp_pkts,
            c.orig_bytes,
            c.is_established,
        ))
    }

    /// D4 of Slips: packets are numbers, 5 and 0 are 5 and not 50.
    #[test]
    fn csv_counts_are_numbers() {
        let header = b"ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out";
        let layout = Layout::from_header(header).unwrap();
        let row = "2018-01-12 15:37:47,2018-01-12 15:37:48,1.000,10.0.0.1,10.0.0.2,5,80,TCP,......S.,0,0,5,300,0,0,0,0";
        assert_eq!(read_line(&layout, row), Ok(("10.0.0.1".into(), 80, 5, 300, false)));
        let newer = b"firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flags";
        let layout = Layout::from_header(newer).unwrap();
        let row = "2018-01-12 15:37:47.5,1.0,6,10.0.0.1,5,10.0.0.2,80,1.5K,300,.AP.SF";
        assert_eq!(read_line(&layout, row), Ok(("10.0.0.1".into(), 80, 1500, 300, true)));
    }

    /// Type and code of ICMP take the place of the port, in each of nfdump's ways.
    #[test]
    fn icmp_has_type_and_code() {
        let header = b"ts,te,td,sa,da,sp,dp,pr,flg,ipkt,ibyt";
        let csv = Layout::from_header(header).unwrap();
        let row = |proto: &str| {
            format!("2018-01-12 15:37:47,x,0.0,fe80::1,fe80::2,0,34304,{proto},.,1,48")
        };
        let text = |proto: &str, dst: &str| {
            format!(
                "2018-01-12 15:37:47.000     0.000 {proto}   fe80::1.0  -> {dst}  ......   0  1  48 1"
            )
        };
        for (layout, line, wanted) in [
            (&csv, row("ICMP6"), ("fe80::2", 134, 0)),
            (&csv, row("58"), ("fe80::2", 134, 0)),
            (&Layout::Text, text("ICMP6", "fe80::2.134.0"), ("fe80::2", 134, 0)),
            (&Layout::Text, text("58", "fe80::2.134.0"), ("fe80::2", 134, 0)),
            (&Layout::Text, text("ICMP", "10.0.0.2:3.1"), ("10.0.0.2", 3, 1)),
            (&Layout::Text, text("TCP", "fe80::2.443"), ("fe80::2", 0, 443)),
        ] {
            let mut scratch = Vec::new();
            let r = layout.record(line.as_bytes(), &mut scratch).unwrap();
            assert_eq!((&*r.dst.to_string(), r.src_port, r.dst_port), wanted, "{line}");
        }
    }

    #[test]
    fn text_for_people_with_tabs_or_blanks() {
        for line in [
            "2013-07-09\t01:00:23.040\t0.028\tUDP\t8.8.8.8:53\t->\t10.0.0.150:49058\t......\t0\t1\t126\t1",
            "2013-07-09 01:00:23.040     0.028 UDP   8.8.8.8:53  -> 10.0.0.150:49058        ......   0  1  126 1 Background",
        ] {
            let layout = first_line(line.as_bytes()).unwrap();
            assert_eq!(read_line(&layout, line), Ok(("8.8.8.8".into(), 49058, 1, 126, true)));
            assert_eq!(layout.time(line.as_bytes()).unwrap().0, 1_373_331_623_040_000_000);
            for cut in 0..line.len() {
                let _ = read_line(&layout, &line[..cut]);
            }
        }
        assert_eq!(first_line(b"Summary: total flows: 3"), None);
    }
}

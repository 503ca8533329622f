//! NetFlow version 5, version 9 and IPFIX: datagrams of exporters to records of flows.
//!
//! Versions 9 and 10 describe their records by templates, sent now and then; what comes before its
//! template is counted and passed over. What is kept of an exporter is bounded by its address (`kept`), so
//! that no stranger pushes it out. Gaps in the exporters' sequence numbers are counted as lost.
//!
//! A flow of NetFlow is one direction as a rule: TCP counts as established when an ACK was among its
//! flags and it was no bare refusal, others are not held against their source, as with nfdump.
//! After RFC 3954 (version 9), RFC 7011 and the registry of IPFIX elements, RFC 5103 (both directions
//! in one record).

pub mod fields;
mod kept;

use crate::limits::TEMPLATE_FIELDS_MAX;
use fields::{Field, Flow, spec};
use gabion_record::Ip;
use gabion_record::logs::{Record, TimeNs};
use kept::{Kept, Next, Template};

/// What was met in datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams.
    pub datagrams: u64,
    /// Records of flows given out.
    pub flows: u64,
    /// Records without the addresses or times of a flow, options among them.
    pub no_flows: u64,
    /// Sets of records whose template has not come yet.
    pub without_template: u64,
    /// Records in those sets, as far as the exporter reports their number; else one a set.
    pub records_without_template: u64,
    /// Datagrams that are no NetFlow, or end before they should.
    pub malformed: u64,
    /// Flows (IPFIX, version 5) or datagrams (version 9) missing by sequence numbers.
    pub lost: u64,
    /// Templates evicted from a full table.
    pub templates_dropped: u64,
    /// Domains whose sequence numbers were evicted from a full table.
    pub domains_dropped: u64,
}

/// A sender: address, and domain or source id or engine.
type Exporter = (Ip, u32);

/// What takes records.
pub type Each<'e> = &'e mut dyn FnMut(&Record<'_>);

/// Decodes datagrams.
#[derive(Debug, Default)]
pub struct Collector {
    kept: Kept,
    uid: String,
    /// What was met so far.
    pub counts: Counts,
}

/// What there was in the sets of a datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    records: u32,
    templates: u32,
    /// Sets without a template, and their bytes.
    unread_sets: u32,
    unread: u32,
}

/// The exporter of a datagram of sets, its time, and its sequence number.
#[derive(Clone, Copy, Debug)]
struct Datagram {
    exporter: Exporter,
    clock: Clock,
    number: u32,
    /// IPFIX, not version 9.
    is_ipfix: bool,
}

/// The clock of a datagram.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// When it was exported, nanoseconds since 1970.
    pub exported_ns: i64,
    /// Milliseconds since the exporter began, then.
    pub uptime_ms: Option<u32>,
}

/// Bytes, read from left to right.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take_bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }
    pub(crate) fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take_bytes(2)?.try_into().ok()?))
    }
    pub(crate) fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take_bytes(4)?.try_into().ok()?))
    }
}

impl Collector {
    /// Takes a datagram of an exporter; its flows go to `each`.
    pub fn datagram(&mut self, from: Ip, bytes: &[u8], each: Each<'_>) {
        self.counts.datagrams += 1;
        let read = match bytes.first_chunk::<2>() {
            Some([0, 5]) => self.five(from, bytes, each),
            Some([0, 9]) => self.nine(from, bytes, each),
            Some([0, 10]) => self.ipfix(from, bytes, each),
            _ => None,
        };
        if read.is_none() {
            self.counts.malformed += 1;
        }
        self.counts.templates_dropped = self.kept.templates_dropped;
        self.counts.domains_dropped = self.kept.domains_dropped;
    }

    /// Compares an exporter's sequence number with the one that should have come. Records that could not be
    /// read are not missing: the exporter counts them, and the gap after them says how many there were.
    fn sequence(&mut self, exporter: Exporter, number: u32, next: Next) {
        let Some(expected) = self.kept.next(exporter, next) else { return };
        let gap = number.wrapping_sub(expected.number);
        // Lower than expected: out of order, or the exporter began again.
        if gap >= 1 << 31 {
            return;
        }
        if gap <= expected.unread {
            let more = gap.saturating_sub(expected.unread_sets);
            self.counts.records_without_template += u64::from(more);
        } else {
            self.counts.lost += u64::from(gap);
        }
    }

    fn five(&mut self, from: Ip, bytes: &[u8], each: Each<'_>) -> Option<()> {
        let mut b = Bytes(bytes);
        let _version = b.u16()?;
        let count = b.u16()?;
        let uptime_ms = Some(b.u32()?);
        let (seconds, ns) = (b.u32()?, b.u32()?);
        let number = b.u32()?;
        let engine = b.u16()?;
        let _sampling = b.u16()?;
        let clock =
            Clock { exported_ns: i64::from(seconds) * 1_000_000_000 + i64::from(ns), uptime_ms };
        let next = Next::from_number(number.wrapping_add(u32::from(count)));
        self.sequence((from, u32::from(engine)), number, next);
        for at in 0..count {
            let row = b.take_bytes(48)?;
            let mut flow = Flow::default();
            let mut rest = Bytes(row);
            for (id, len) in fields::FIVE {
                flow.take_field(
                    Field { id: *id, len: *len, enterprise: 0 },
                    rest.take_bytes(usize::from(*len))?,
                );
            }
            self.give(&flow, clock, number.wrapping_add(u32::from(at)), each);
        }
        Some(())
    }

    fn nine(&mut self, from: Ip, bytes: &[u8], each: Each<'_>) -> Option<()> {
        let mut b = Bytes(bytes);
        let _version = b.u16()?;
        let count = u32::from(b.u16()?);
        let uptime_ms = Some(b.u32()?);
        let seconds = b.u32()?;
        let number = b.u32()?;
        let exporter = (from, b.u32()?);
        let clock = Clock { exported_ns: i64::from(seconds) * 1_000_000_000, uptime_ms };
        self.sequence(exporter, number, Next::from_number(number.wrapping_add(1)));
        let datagram = Datagram { exporter, clock, number, is_ipfix: false };
        let seen = self.sets(datagram, b, each)?;
        // The header counts records and templates; some exporters count sets there, and a record takes a
        // byte at least.
        let claimed = count.saturating_sub(seen.records).saturating_sub(seen.templates);
        let more = claimed.min(seen.unread).saturating_sub(seen.unread_sets);
        self.counts.records_without_template += u64::from(more);
        Some(())
    }

    fn ipfix(&mut self, from: Ip, bytes: &[u8], each: Each<'_>) -> Option<()> {
        let mut b = Bytes(bytes);
        let _version = b.u16()?;
        let len = usize::from(b.u16()?);
        let seconds = b.u32()?;
        let number = b.u32()?;
        let exporter = (from, b.u32()?);
        let body = Bytes(b.take_bytes(len.checked_sub(16)?)?);
        let clock = Clock { exported_ns: i64::from(seconds) * 1_000_000_000, uptime_ms: None };
        let datagram = Datagram { exporter, clock, number, is_ipfix: true };
        let seen = self.sets(datagram, body, each);
        let known = seen.unwrap_or_default();
        let next = Next {
            number: number.wrapping_add(known.records),
            unread: known.unread,
            unread_sets: known.unread_sets,
        };
        self.sequence(exporter, number, next);
        seen.map(|_| ())
    }

    /// The sets of a datagram; what there was in them.
    fn sets(&mut self, datagram: Datagram, mut b: Bytes<'_>, each: Each<'_>) -> Option<Seen> {
        let Datagram { exporter, clock, number, is_ipfix } = datagram;
        // Which sets are templates of flows and of options.
        let (templates, options) = if is_ipfix { (2, 3) } else { (0, 1) };
        let mut seen = Seen::default();
        while b.0.len() >= 4 {
            let id = b.u16()?;
            let len = usize::from(b.u16()?).checked_sub(4)?;
            let mut set = Bytes(b.take_bytes(len)?);
            if id == templates {
                seen.templates += self.templates(exporter, &mut set, is_ipfix)?;
            } else if id == options {
                seen.templates += self.options(exporter, &mut set, is_ipfix)?;
            } else if id >= 256 {
                let Some(template) = self.kept.template(exporter, id) else {
                    self.counts.without_template += 1;
                    self.counts.records_without_template += 1;
                    seen.unread_sets += 1;
                    seen.unread = seen.unread.saturating_add(len as u32);
                    continue;
                };
                while set.0.len() >= template.least.max(1) {
                    let mut flow = Flow::default();
                    let before = set.0.len();
                    let whole = template.fields.iter().try_for_each(|field| {
                        let value = field.value(&mut set)?;
                        flow.take_field(*field, value);
                        Some(())
                    });
                    // A template of fields without length would be filled without end.
                    if whole.is_none() || set.0.len() == before {
                        self.counts.malformed += 1;
                        break;
                    }
                    seen.records += 1;
                    if template.is_options {
                        self.counts.no_flows += 1
                    } else {
                        self.give(&flow, clock, number.wrapping_add(seen.records), each)
                    }
                }
            }
        }
        Some(seen)
    }

    /// Takes templates; how many there were.
    fn templates(
        &mut self,
        exporter: Exporter,
        set: &mut Bytes<'_>,
        is_ipfix: bool,
    ) -> Option<u32> {
        let mut seen = 0;
        // Fewer than four bytes left are padding.
        while set.0.len() >= 4 {
            let (id, count) = (set.u16()?, usize::from(set.u16()?));
            if count == 0 && is_ipfix {
                // A withdrawal (RFC 7011, 8.1).
                self.kept.put(exporter, id, None);
                continue;
            }
            if id < 256 {
                // Padding of zeros.
                return Some(seen);
            }
            let fields = Self::fields(set, count, is_ipfix)?;
            self.keep(exporter, id, fields, false);
            seen += 1;
        }
        Some(seen)
    }

    /// Takes templates of options; how many there were.
    fn options(&mut self, exporter: Exporter, set: &mut Bytes<'_>, is_ipfix: bool) -> Option<u32> {
        let mut seen = 0;
        while set.0.len() >= 6 {
            let id = set.u16()?;
            let (a, b) = (usize::from(set.u16()?), usize::from(set.u16()?));
            // Version 9 has the bytes of scopes and options, IPFIX the counts of all and of scopes.
            let count = if is_ipfix { a } else { (a + b) / 4 };
            if id < 256 {
                return Some(seen);
            }
            let fields = Self::fields(set, count, is_ipfix)?;
            self.keep(exporter, id, fields, true);
            seen += 1;
        }
        Some(seen)
    }

    fn fields(set: &mut Bytes<'_>, count: usize, is_ipfix: bool) -> Option<Vec<Field>> {
        if count > TEMPLATE_FIELDS_MAX {
            return None;
        }
        (0..count).map(|_| spec(set, is_ipfix)).collect()
    }

    fn keep(&mut self, exporter: Exporter, id: u16, fields: Vec<Field>, is_options: bool) {
        let least = fields.iter().map(|f| f.least()).sum();
        self.kept.put(exporter, id, Some(Template { fields, least, is_options }));
    }

    fn give(&mut self, flow: &Flow, clock: Clock, number: u32, each: Each<'_>) {
        use std::fmt::Write;
        self.uid.clear();
        let _ = write!(self.uid, "N{number:08x}");
        match flow.record(clock, self.uid.as_bytes()) {
            Some(record) => {
                self.counts.flows += 1;
                each(&record);
            }
            None => self.counts.no_flows += 1,
        }
    }

    /// Templates kept now.
    pub fn templates_held(&self) -> usize {
        self.kept.templates()
    }
}

impl Clock {
    /// A moment of the exporter's uptime.
    pub fn uptime(self, ms: u64) -> Option<TimeNs> {
        let now = i64::from(self.uptime_ms?);
        // The uptime turns over after 49 days: what lies far ahead was before it did.
        let ago = now - i64::try_from(ms).ok()?;
        let ago = if ago < -(1 << 31) { ago + (1 << 32) } else { ago };
        Some(TimeNs(self.exported_ns.saturating_sub(ago.saturating_mul(1_000_000))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{
        DOMAINS_PER_ADDRESS, EXPORTERS_MAX, FIELDS_PER_ADDRESS, TEMPLATES_MAX, reached,
    };
    use gabion_record::logs::{Body, Proto};

    fn exporter() -> Ip {
        Ip::parse(b"192.0.2.1").unwrap()
    }

    fn collect_lines(collector: &mut Collector, bytes: &[u8]) -> Vec<String> {
        let mut out = Vec::new();
        collector.datagram(exporter(), bytes, &mut |r| {
            let Body::Conn(c) = r.body else { panic!("not a flow") };
            out.push(format!(
                "{} {} {}:{} > {}:{} {} {}+{} B {}+{} p {} ms {}",
                r.ts.0,
                String::from_utf8_lossy(r.uid),
                r.src,
                r.src_port,
                r.dst,
                r.dst_port,
                r.proto.name(),
                c.orig_bytes,
                c.resp_bytes,
                c.orig_pkts,
                c.resp_pkts,
                c.duration_ns / 1_000_000,
                c.is_established
            ));
        });
        out
    }

    /// The layout of version 5 (Cisco): header of 24 bytes, records of 48.
    fn five(sequence: u32, flags: u8) -> Vec<u8> {
        let mut d = Vec::new();
        for n in [5u16, 1] {
            d.extend(n.to_be_bytes());
        }
        // Uptime 10,000 ms, exported at 1,700,000,000.5.
        for n in [10_000u32, 1_700_000_000, 500_000_000, sequence] {
            d.extend(n.to_be_bytes());
        }
        d.extend([0; 4]);
        d.extend([10, 0, 0, 1, 192, 0, 2, 9, 0, 0, 0, 0]);
        d.extend([0; 4]);
        for n in [7u32, 900, 4_000, 6_500] {
            d.extend(n.to_be_bytes());
        }
        for n in [50_000u16, 443] {
            d.extend(n.to_be_bytes());
        }
        d.extend([0, flags, 6, 0]);
        d.extend([0; 8]);
        d
    }

    #[test]
    fn version_5() {
        let mut c = Collector::default();
        // Began 6 s before the export.
        let flow = "1699999994500000000 N00000064 10.0.0.1:50000 > 192.0.2.9:443 tcp 900+0 B 7+0 p 2500 ms true";
        assert_eq!(collect_lines(&mut c, &five(100, 0x1b)), [flow]);
        let refused = collect_lines(&mut c, &five(104, 0x14));
        assert!(refused[0].ends_with("false"), "{refused:?}");
        assert_eq!((c.counts.flows, c.counts.lost), (2, 3));
        assert!(collect_lines(&mut c, &five(105, 0)[..60]).is_empty());
        assert_eq!(c.counts.malformed, 1);
    }

    fn set(id: u16, body: &[u8]) -> Vec<u8> {
        let mut s = id.to_be_bytes().to_vec();
        s.extend((body.len() as u16 + 4).to_be_bytes());
        s.extend(body);
        s
    }

    fn shorts(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
    }

    fn nine(sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
        let mut d = shorts(&[9, sets.len() as u16]);
        for n in [10_000u32, 1_700_000_000, sequence, 7] {
            d.extend(n.to_be_bytes());
        }
        sets.iter().for_each(|s| d.extend(s));
        d
    }

    fn ipfix(sequence: u32, sets: &[Vec<u8>]) -> Vec<u8> {
        let len = 16 + sets.iter().map(Vec::len).sum::<usize>();
        let mut d = shorts(&[10, len as u16]);
        for n in [1_700_000_000u32, sequence, 9] {
            d.extend(n.to_be_bytes());
        }
        sets.iter().for_each(|s| d.extend(s));
        d
    }

    #[test]
    fn version_9_by_its_template() {
        // IPV6_SRC, IPV6_DST, ports, protocol, bytes of 8, packets of 2, first, last.
        let template =
            shorts(&[300, 9, 27, 16, 28, 16, 7, 2, 11, 2, 4, 1, 1, 8, 2, 2, 22, 4, 21, 4]);
        let mut row = vec![0x20, 1, 0xd, 0xb8];
        row.extend([0; 11]);
        row.push(1);
        row.extend([0x20, 1, 0xd, 0xb8]);
        row.extend([0; 11]);
        row.push(2);
        row.extend(shorts(&[1234, 53]));
        row.push(17);
        row.extend(5_000_000_000u64.to_be_bytes());
        row.extend(shorts(&[3]));
        row.extend(9_000u32.to_be_bytes());
        row.extend(9_250u32.to_be_bytes());
        let mut c = Collector::default();
        // Before the template has come there is nothing to read it by.
        assert!(collect_lines(&mut c, &nine(1, &[set(300, &row)])).is_empty());
        assert_eq!(c.counts.without_template, 1);
        row.extend([0, 0, 0]);
        let flow = "1699999999000000000 N00000003 2001:db8::1:1234 > 2001:db8::2:53 udp 5000000000+0 B 3+0 p 250 ms true";
        let d = nine(2, &[set(0, &template), set(300, &row)]);
        assert_eq!(collect_lines(&mut c, &d), [flow]);
        assert_eq!(c.counts.lost, 0);
        for cut in 0..d.len() {
            let mut c = Collector::default();
            collect_lines(&mut c, &d[..cut]);
        }
    }

    #[test]
    fn ipfix_of_both_directions_and_of_variable_length() {
        // Addresses, ports, protocol, bytes, reverse bytes (RFC 5103), a text of variable length,
        // start and end in milliseconds, reverse packets.
        let mut template = shorts(&[400, 11, 8, 4, 12, 4, 7, 2, 11, 2, 4, 1, 6, 1, 1, 4]);
        template.extend(shorts(&[0x8001, 4]));
        template.extend(29_305u32.to_be_bytes());
        template.extend(shorts(&[82, 65_535, 152, 8, 153, 8]));
        let mut row = vec![10, 0, 0, 1, 10, 0, 0, 2];
        row.extend(shorts(&[1024, 80]));
        row.extend([6, 0x02]);
        row.extend(600u32.to_be_bytes());
        row.extend(70u32.to_be_bytes());
        row.extend(b"\x04eth0");
        row.extend(1_700_000_000_250u64.to_be_bytes());
        row.extend(1_700_000_001_000u64.to_be_bytes());
        let mut c = Collector::default();
        let d = ipfix(5, &[set(2, &template), set(400, &row), set(401, &row)]);
        let flow = "1700000000250000000 N00000006 10.0.0.1:1024 > 10.0.0.2:80 tcp 600+70 B 0+0 p 750 ms true";
        assert_eq!(collect_lines(&mut c, &d), [flow]);
        assert_eq!((c.counts.without_template, c.templates_held()), (1, 1));
        // Withdrawn, it is known no more.
        collect_lines(&mut c, &ipfix(6, &[set(2, &shorts(&[400, 0]))]));
        assert_eq!(c.templates_held(), 0);
        for cut in 0..d.len() {
            let mut c = Collector::default();
            collect_lines(&mut c, &d[..cut]);
            let mut bad = d.clone();
            bad[cut] ^= 0xff;
            collect_lines(&mut c, &bad);
        }
    }

    /// An exporter that makes up templates costs a bounded number of them, and bounded work.
    #[test]
    fn templates_are_bounded() {
        let mut c = Collector::default();
        let mut sent = 0u64;
        for n in 0..30_000u32 {
            let mut d = ipfix(n, &[set(2, &shorts(&[256 + (n % 60_000) as u16, 1, 8, 4]))]);
            // Each of a domain of its own.
            d[12..16].copy_from_slice(&n.to_be_bytes());
            collect_lines(&mut c, &d);
            sent += 1;
        }
        let room = (FIELDS_PER_ADDRESS - 8 * DOMAINS_PER_ADDRESS) / 9;
        assert_eq!(c.templates_held(), room);
        assert_eq!(c.counts.templates_dropped, sent - room as u64);
        assert_eq!(c.counts.domains_dropped, sent - DOMAINS_PER_ADDRESS as u64);
        assert!(c.kept.looks <= 4 * sent, "{}", c.kept.looks);
        let counts = gabion_record::limits::take_reached();
        assert_eq!(counts.times_reached(&reached::FIELDS_PER_ADDRESS), c.counts.templates_dropped);
        assert_eq!(counts.times_reached(&reached::DOMAINS_PER_ADDRESS), c.counts.domains_dropped);
        // From addresses made up, too.
        for n in 0..30_000u32 {
            let d = ipfix(0, &[set(2, &shorts(&[256, 1, 8, 4]))]);
            let from = Ip::v4(0x0b00_0000 + n);
            c.datagram(from, &d, &mut |_| {});
            sent += 1;
        }
        assert!(c.templates_held() <= EXPORTERS_MAX + room, "{}", c.templates_held());
        assert!(c.kept.looks <= 4 * sent, "{}", c.kept.looks);
        assert!(
            gabion_record::limits::take_reached().times_reached(&reached::EXPORTERS_MAX) > 20_000
        );
        // One that says of itself that it has more fields than any is refused.
        let before = c.counts.malformed;
        collect_lines(&mut c, &ipfix(0, &[set(2, &shorts(&[256, 60_000, 8, 4]))]));
        assert_eq!(c.counts.malformed, before + 1);
        assert_eq!(Proto::from_ip(gabion_record::IpProto::TCP), Proto::Tcp);
    }

    /// Addresses that each fill their own room push out no more than fits into that of all.
    #[test]
    fn rooms_of_all_addresses_are_bounded_together() {
        let mut c = Collector::default();
        let fields = TEMPLATE_FIELDS_MAX as u16;
        for n in 0..5_000u32 {
            let mut template = vec![256 + n as u16 % 80, fields];
            (0..fields).for_each(|at| template.extend([1 + at % 200, 4]));
            let from = Ip::v4(0x0b00_0000 + n / 60);
            c.datagram(from, &ipfix(0, &[set(2, &shorts(&template))]), &mut |_| {});
            assert!(c.templates_held() <= TEMPLATES_MAX);
        }
        let counts = gabion_record::limits::take_reached();
        assert!(counts.times_reached(&reached::FIELDS_MAX) > 0, "{counts:?}");
        assert_eq!(counts.total(), c.counts.templates_dropped + c.counts.domains_dropped);
        assert!(c.kept.looks <= 10_000, "{}", c.kept.looks);
    }

    /// A flow of 10.0.0.1, and its template: addresses, bytes, packets, first and last.
    fn flow_set() -> (Vec<u8>, Vec<u8>) {
        let template = shorts(&[300, 6, 8, 4, 12, 4, 1, 4, 2, 4, 22, 4, 21, 4]);
        let mut row = vec![10, 0, 0, 1, 10, 0, 0, 2];
        [500u32, 5, 9_000, 9_250].iter().for_each(|n| row.extend(n.to_be_bytes()));
        (set(0, &template), row)
    }

    /// Strangers with any number of addresses, domains and templates take nothing from an exporter whose
    /// templates are used, nor does the exporter's own least used go before its most used.
    #[test]
    fn no_stranger_pushes_out_an_exporters_templates() {
        let (template, row) = flow_set();
        let mut c = Collector::default();
        collect_lines(&mut c, &nine(0, std::slice::from_ref(&template)));
        let mut flows = 0;
        for n in 0..6_000u32 {
            flows += collect_lines(&mut c, &nine(n + 1, &[set(300, &row)])).len();
            for k in 0..4 {
                let from = Ip::v4(0x0b00_0000 + n * 4 + k);
                let mut d = nine(0, &[template.clone(), set(300, &row)]);
                d[16..20].copy_from_slice(&n.to_be_bytes());
                c.datagram(from, &d, &mut |_| {});
            }
            // And its own templates, made up and never used.
            let id = 1_000 + (n % 50_000) as u16;
            collect_lines(&mut c, &nine(n + 2, &[set(0, &shorts(&[id, 1, 8, 4]))]));
        }
        assert_eq!((flows, c.counts.without_template), (6_000, 0));
        assert!(c.counts.templates_dropped > 10_000);
        assert!(c.kept.looks < 10 * c.counts.datagrams, "{}", c.kept.looks);
    }

    /// Records whose template has not come are counted as far as the exporter says how many there are: by
    /// version 9's header, by the gap in IPFIX's numbers, else one a set.
    #[test]
    fn records_without_a_template_are_counted() {
        let (template, row) = flow_set();
        let rows = set(300, &row.repeat(20));
        let mut c = Collector::default();
        let mut miscounted = nine(1, &[rows.clone(), template.clone()]);
        miscounted[2..4].copy_from_slice(&21u16.to_be_bytes());
        collect_lines(&mut c, &miscounted);
        assert_eq!((c.counts.without_template, c.counts.records_without_template), (1, 20));
        // A header that counts sets says no more than the sets do; one that lies is bounded by bytes.
        let mut c = Collector::default();
        collect_lines(&mut c, &nine(1, &[rows.clone(), rows.clone()]));
        assert_eq!(c.counts.records_without_template, 2);
        let mut lies = nine(2, &[set(301, &[0; 8])]);
        lies[2..4].copy_from_slice(&60_000u16.to_be_bytes());
        collect_lines(&mut c, &lies);
        assert_eq!(c.counts.records_without_template, 2 + 8);
        let mut c = Collector::default();
        collect_lines(&mut c, &ipfix(100, std::slice::from_ref(&rows)));
        collect_lines(&mut c, &ipfix(120, &[rows]));
        assert_eq!((c.counts.records_without_template, c.counts.lost), (20 + 1, 0));
        // More than could have been in it is missing.
        collect_lines(&mut c, &ipfix(100_000, &[]));
        assert_eq!(c.counts.lost, 100_000 - 120);
    }
}

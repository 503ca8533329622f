//! A record with what the site knows at it, as bytes: on its way to the worker that holds its shard, on this
//! machine or in a stream engine.
//!
//! A parcel is `[u32 length][bytes]`, little-endian. What has one size stands first, each field at its
//! place, so that a record is written and read in a few moves rather than field by field; what has many
//! follows, in the order of its struct. Texts are borrowed from the parcel when it is read. Parcels of one
//! batch follow one another. Their reader and their writer were built together (`VERSION` is checked
//! where that is not so).

mod fixed;
mod found;

pub use found::{Found, Opened};

use crate::ahead::Ahead;
use crate::prevalence::Prevalence;
use crate::shards::Ends;
use crate::site::Facts;
use crate::state::Decoder;
use fixed::{Fixed, fixed};
use gabion_record::logs::{
    Arp, Body, Conn, Dhcp, Dns, Files, Ftp, Http, Label, List, LogKind, Login, Mac, Notice,
    OpenConn, Proto, Record, RuleAlert, Smtp, Software, Ssh, Ssl, TimeNs, Tunnel, Weird,
};
use gabion_record::{Ip, Net};

/// What is on its way.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one call")]
pub enum Parcel<'a> {
    /// A record with its number.
    Record(u64, Ends, Record<'a>, Facts),
    /// A later window has begun, with a record of that number and watermark.
    Turn(i64, u64, TimeNs),
}

/// Appends a record.
pub fn put_record(number: u64, ends: Ends, r: &Record<'_>, facts: &Facts, out: &mut Vec<u8>) {
    framed(out, |out| {
        let head = Head {
            ends: ends as u8,
            number,
            ts: r.ts,
            src: r.src,
            dst: r.dst,
            src_port: r.src_port,
            dst_port: r.dst_port,
            proto: r.proto,
            label: r.label,
            is_late: r.is_late,
            uid_len: len_of(r.uid),
            facts: *facts,
        };
        head.append::<{ Head::LEN }>(out);
        out.extend_from_slice(r.uid);
        r.body.put(out);
    });
}

/// Appends that a later window has begun.
pub fn put_turn(window: i64, number: u64, watermark: TimeNs, out: &mut Vec<u8>) {
    framed(out, |out| {
        out.push(TURN);
        window.put(out);
        number.put(out);
        watermark.put(out);
    });
}

const TURN: u8 = 0xff;

#[inline]
fn framed(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    write(out);
    let len = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&len.to_le_bytes());
    }
}

/// The next parcel of a batch, and what follows it; `None` at the end and for what is none.
#[inline]
pub fn take(batch: &[u8]) -> Option<(Parcel<'_>, &[u8])> {
    let (len, rest) = batch.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let mut from = Decoder(bytes);
    let parcel = match u8::get(&mut from)? {
        TURN => Parcel::Turn(
            window(i64::get(&mut from)?)?,
            u64::get(&mut from)?,
            TimeNs::get(&mut from)?,
        ),
        ends => {
            let ends = match ends {
                0 => Ends::Source,
                1 => Ends::Destination,
                2 => Ends::Both,
                _ => return None,
            };
            // The lengths that give the ends are a part of the head.
            let head = Head::read(bytes.get(..Head::LEN)?)?;
            window(head.facts.window).and(window(head.facts.newest))?;
            from = Decoder(bytes.get(Head::LEN..)?);
            let record = Record {
                ts: head.ts,
                src: head.src,
                dst: head.dst,
                src_port: head.src_port,
                dst_port: head.dst_port,
                proto: head.proto,
                uid: from.take(head.uid_len as usize)?,
                label: head.label,
                is_late: head.is_late,
                body: Body::get(&mut from)?,
            };
            Parcel::Record(head.number, ends, record, head.facts)
        }
    };
    Some((parcel, rest))
}

/// The number of a window, where it may be one: no run has as many.
fn window(number: i64) -> Option<i64> {
    (number.unsigned_abs() < 1 << 56).then_some(number)
}

/// The ends of the next parcel's record, without reading the rest of it, and what follows the parcel;
/// none when it holds no record.
#[inline]
pub fn ahead(batch: &[u8]) -> Option<(Option<Ahead>, &[u8])> {
    let (len, rest) = batch.split_first_chunk::<4>()?;
    let (bytes, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    let mut from = Decoder(bytes);
    if u8::get(&mut from)? == TURN {
        return Some((None, rest));
    }
    let Head { src, dst, src_port, dst_port, proto, .. } = Head::read(bytes.get(..Head::LEN)?)?;
    Some((Some(Ahead { src, dst, src_port, dst_port, proto }), rest))
}

/// What each record has, and what the site knows at it.
struct Head {
    ends: u8,
    number: u64,
    ts: TimeNs,
    src: Ip,
    dst: Ip,
    src_port: u16,
    dst_port: u16,
    proto: Proto,
    label: Label,
    is_late: bool,
    uid_len: u32,
    facts: Facts,
}

/// What a flow has in addition to its texts; their lengths are here.
struct ConnHead {
    knows_service: bool,
    duration_ns: i64,
    orig_bytes: u64,
    resp_bytes: u64,
    orig_ip_bytes: u64,
    resp_ip_bytes: u64,
    orig_pkts: u64,
    resp_pkts: u64,
    is_established: bool,
    src_mac: Option<Mac>,
    dst_mac: Option<Mac>,
    has_no_ports: bool,
    service_len: u32,
    state_len: u32,
    history_len: u32,
}

/// A network as its base and length.
struct NetParts {
    base: Ip,
    len: u8,
}

impl Fixed for Net {
    const LEN: usize = NetParts::LEN;
    #[inline(always)]
    fn write<'p>(&self, place: &'p mut [u8]) -> &'p mut [u8] {
        NetParts { base: self.base(), len: self.len_mapped() }.write(place)
    }
    #[inline(always)]
    fn read(from: &[u8]) -> Option<Self> {
        NetParts::read(from).map(|net| Net::new(net.base, net.len))
    }
}

fixed! {
    Head {
        ends: u8, number: u64, ts: TimeNs, src: Ip, dst: Ip, src_port: u16, dst_port: u16, proto: Proto,
        label: Label, is_late: bool, uid_len: u32, facts: Facts,
    }
    Facts {
        window: i64, newest: i64, watermark: TimeNs, start: TimeNs, local: Option<Net>,
        gateway: Option<Ip>, mac_owner: Option<Ip>, is_mac_new: bool, src_mac: Option<Mac>,
        is_dhcp_server: bool, is_announced: bool, is_answer: bool, is_routine: bool, is_proxy: bool,
        is_resolved: bool, is_ignored: bool,
        has_other_logs: bool, prevalence: Prevalence,
    }
    Prevalence { hosts: u32, of: u32, first: TimeNs, }
    NetParts { base: Ip, len: u8, }
    ConnHead {
        knows_service: bool, duration_ns: i64, orig_bytes: u64, resp_bytes: u64, orig_ip_bytes: u64,
        resp_ip_bytes: u64, orig_pkts: u64, resp_pkts: u64, is_established: bool, src_mac: Option<Mac>,
        dst_mac: Option<Mac>, has_no_ports: bool, service_len: u32, state_len: u32, history_len: u32,
    }
}

/// Their number, as it is written before them.
#[inline]
fn len_of<T>(many: &[T]) -> u32 {
    u32::try_from(many.len()).unwrap_or(u32::MAX)
}

/// Something that goes into a parcel.
trait Part<'a>: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(from: &mut Decoder<'a>) -> Option<Self>;
}

macro_rules! numbers {
    ($($t:ty),+) => {$(
        impl<'a> Part<'a> for $t {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn get(from: &mut Decoder<'a>) -> Option<Self> {
                Some(<$t>::from_le_bytes(from.take(size_of::<$t>())?.try_into().ok()?))
            }
        }
    )+};
}

numbers!(u8, u16, u32, u64, i64);

impl<'a> Part<'a> for bool {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    #[inline]
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        u8::get(from).map(|b| b != 0)
    }
}

impl<'a> Part<'a> for &'a [u8] {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        out.extend_from_slice(self);
    }
    #[inline]
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        let len = u32::get(from)? as usize;
        from.take(len)
    }
}

impl<'a, T: Part<'a>> Part<'a> for Option<T> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    #[inline]
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        if bool::get(from)? { T::get(from).map(Some) } else { Some(None) }
    }
}

impl<'a> Part<'a> for TimeNs {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    #[inline]
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        i64::get(from).map(TimeNs)
    }
}

impl<'a> Part<'a> for Ip {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
    #[inline]
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        Some(Ip::from_bytes(from.take(16)?.try_into().ok()?))
    }
}

impl<'a> Part<'a> for Mac {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        Some(Mac(from.take(6)?.try_into().ok()?))
    }
}

impl<'a> Part<'a> for Proto {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    #[inline]
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        <Proto as crate::state::State>::decode(from)
    }
}

macro_rules! parts {
    ($($name:ty { $($field:ident,)+ })+) => {$(
        impl<'a> Part<'a> for $name {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)+
            }
            #[inline]
            fn get(from: &mut Decoder<'a>) -> Option<Self> {
                Some(Self { $($field: Part::get(from)?,)+ })
            }
        }
    )+};
}

parts! {
    List<'a> { raw, is_json, }
    Dns<'a> { query, qclass, qtype, rcode, answers, }
    Http<'a> { method, host, uri, user_agent, request_len, response_len, status, resp_mime_types, }
    Ssl<'a> {
        version, server_name, subject, issuer, validation_status, ja3, ja3s, cert_fps, is_doh,
        is_established,
    }
    Ssh<'a> { auth_success, auth_attempts, client, server, }
    Files<'a> { source, md5, sha1, total_bytes, mime_type, }
    Notice<'a> { note, msg, sub, }
    RuleAlert<'a> { signature, category, gid, sid, severity, confidence, }
    Software<'a> { software_type, name, major, minor, unparsed, }
    Weird<'a> { name, addl, }
    Tunnel<'a> { tunnel_type, action, }
    Smtp<'a> { last_reply, }
    Ftp<'a> { data_port, command, }
    Dhcp<'a> { requested, mac, host_name, server, }
    Arp<'a> { operation, src_mac, dst_mac, src_hw, dst_hw, }
    Login<'a> { service, is_success, is_confused, user, }
    OpenConn<'a> { so_far, }
}

impl<'a> Part<'a> for Conn<'a> {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        let head = ConnHead {
            knows_service: self.knows_service,
            duration_ns: self.duration_ns,
            orig_bytes: self.orig_bytes,
            resp_bytes: self.resp_bytes,
            orig_ip_bytes: self.orig_ip_bytes,
            resp_ip_bytes: self.resp_ip_bytes,
            orig_pkts: self.orig_pkts,
            resp_pkts: self.resp_pkts,
            is_established: self.is_established,
            src_mac: self.src_mac,
            dst_mac: self.dst_mac,
            has_no_ports: self.has_no_ports,
            service_len: len_of(self.service),
            state_len: len_of(self.state),
            history_len: len_of(self.history),
        };
        head.append::<{ ConnHead::LEN }>(out);
        out.extend_from_slice(self.service);
        out.extend_from_slice(self.state);
        out.extend_from_slice(self.history);
    }
    #[inline]
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        let head = ConnHead::read(from.take(ConnHead::LEN)?)?;
        Some(Conn {
            service: from.take(head.service_len as usize)?,
            knows_service: head.knows_service,
            duration_ns: head.duration_ns,
            orig_bytes: head.orig_bytes,
            resp_bytes: head.resp_bytes,
            orig_ip_bytes: head.orig_ip_bytes,
            resp_ip_bytes: head.resp_ip_bytes,
            orig_pkts: head.orig_pkts,
            resp_pkts: head.resp_pkts,
            state: from.take(head.state_len as usize)?,
            is_established: head.is_established,
            history: from.take(head.history_len as usize)?,
            src_mac: head.src_mac,
            dst_mac: head.dst_mac,
            has_no_ports: head.has_no_ports,
        })
    }
}

macro_rules! bodies {
    ($($kind:ident),+) => {
        impl<'a> Part<'a> for Body<'a> {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.push(self.kind() as u8);
                match self { $(Body::$kind(body) => body.put(out),)+ }
            }
            #[inline]
            fn get(from: &mut Decoder<'a>) -> Option<Self> {
                let kind = LogKind::ALL.get(usize::from(u8::get(from)?))?;
                Some(match kind { $(LogKind::$kind => Body::$kind(Part::get(from)?),)+ })
            }
        }
    };
}

bodies!(
    Conn, Dns, Http, Ssl, Ssh, Files, Notice, Software, Weird, Tunnel, Smtp, Ftp, Dhcp, Arp, Login,
    OpenConn, RuleAlert
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::{conn, log};

    #[test]
    fn what_is_put_in_comes_out_and_halves_are_refused() {
        let mut flow = conn(1_700_000_000, "10.0.0.1", "2001:db8::1", 443).sending(5000);
        flow.src_mac = Some(Mac([1, 2, 3, 4, 5, 6]));
        let dns = log(
            7,
            "10.0.0.1",
            "1.1.1.1",
            Body::Dns(Dns {
                query: b"a.example",
                answers: List { raw: b"[\"1.2.3.4\"]", is_json: true },
                ..Dns::default()
            }),
        );
        let facts = Facts {
            window: -3,
            newest: 4,
            local: Net::parse(b"10.0.0.0/8"),
            is_resolved: true,
            ..Facts::default()
        };
        let mut batch = Vec::new();
        put_record(7, Ends::Both, &flow.record(), &facts, &mut batch);
        put_turn(9, 8, TimeNs(11), &mut batch);
        put_record(8, Ends::Destination, &dns, &facts, &mut batch);
        let whole = batch.clone();
        let ends: Vec<_> = std::iter::successors(ahead(&batch), |(_, rest)| ahead(rest))
            .map(|(ends, _)| ends)
            .collect();
        assert_eq!(ends, [Some(Ahead::of(&flow.record())), None, Some(Ahead::of(&dns))]);
        let show = |r: &Record<'_>, f: &Facts| format!("{r:?} {f:?}");
        let (parcel, rest) = take(&batch).unwrap();
        let Parcel::Record(7, Ends::Both, r, f) = parcel else { panic!("{parcel:?}") };
        assert_eq!(show(&r, &f), show(&flow.record(), &facts));
        let (parcel, rest) = take(rest).unwrap();
        assert!(matches!(parcel, Parcel::Turn(9, 8, TimeNs(11))));
        let (parcel, rest) = take(rest).unwrap();
        let Parcel::Record(8, Ends::Destination, r, f) = parcel else { panic!("{parcel:?}") };
        assert_eq!(show(&r, &f), show(&dns, &facts));
        assert!(take(rest).is_none());
        // A number that can be no window makes no parcel: its neighbours could not be computed.
        for odd in [i64::MIN, i64::MAX] {
            let (mut turn, mut at) = (Vec::new(), Vec::new());
            put_turn(odd, 8, TimeNs(11), &mut turn);
            let facts = Facts { window: odd, ..Facts::default() };
            put_record(7, Ends::Source, &flow.record(), &facts, &mut at);
            assert!(take(&turn).is_none() && take(&at).is_none());
        }
        // Cut or changed anywhere it is no panic.
        for cut in 0..whole.len() {
            let _ = take(&whole[..cut]);
            batch.clone_from(&whole);
            batch[cut] ^= 0xff;
            let _ = take(&batch);
        }
    }
}

//! Records of flows as bytes: on their way from one thread to another, and while they wait for earlier ones.
//!
//! Values of one size are first, each at its place; texts follow and are borrowed from the bytes when the record
//! is read. The form is little-endian and without names. Its reader and its writer are built together.

use crate::Ip;
use crate::fixed;
use crate::fixed::Fixed;
use crate::logs::{
    Arp, Body, Conn, ConnState, Dhcp, Dns, Files, Ftp, Http, Label, List, LogKind, Login, Mac,
    Notice, OpenConn, Proto, Record, RuleAlert, Service, Smtp, Software, Ssh, Ssl, TimeNs, Tunnel,
    Weird,
};
use crate::saved::take_bytes;

/// Appends a record.
pub fn put_record(r: &Record<'_>, out: &mut Vec<u8>) {
    RecordHead::from_record(r).append::<{ RecordHead::LEN }>(out);
    out.extend_from_slice(r.uid);
    put_body(&r.body, out);
}

/// Reads a record that [`put_record`] wrote; none when the bytes hold no record.
pub fn take_record<'a>(from: &mut &'a [u8]) -> Option<Record<'a>> {
    let head = RecordHead::read_fixed(take_bytes(from, RecordHead::LEN)?)?;
    head.take_rest(from)
}

/// Appends what a record has by its kind.
#[inline]
pub fn put_body(body: &Body<'_>, out: &mut Vec<u8>) {
    body.put(out);
}

/// Reads what [`put_body`] wrote; none when the bytes hold no body.
#[inline]
pub fn take_body<'a>(from: &mut &'a [u8]) -> Option<Body<'a>> {
    Body::get(from)
}

/// What every record has, in bytes of one size.
#[derive(Clone, Copy, Debug)]
pub struct RecordHead {
    /// Its moment.
    pub ts: TimeNs,
    /// Source.
    pub src: Ip,
    /// Destination.
    pub dst: Ip,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Transport protocol.
    pub proto: Proto,
    label: Label,
    is_late: bool,
    uid_len: u32,
}

impl RecordHead {
    /// The head of a record; its `uid` and its body follow it.
    #[inline]
    pub fn from_record(r: &Record<'_>) -> RecordHead {
        RecordHead {
            ts: r.ts,
            src: r.src,
            dst: r.dst,
            src_port: r.src_port,
            dst_port: r.dst_port,
            proto: r.proto,
            label: r.label,
            is_late: r.is_late,
            uid_len: len_of(r.uid),
        }
    }

    /// The record, with `uid` and body from the bytes that follow; none when they hold no such thing.
    #[inline]
    pub fn take_rest<'a>(self, from: &mut &'a [u8]) -> Option<Record<'a>> {
        Some(Record {
            ts: self.ts,
            src: self.src,
            dst: self.dst,
            src_port: self.src_port,
            dst_port: self.dst_port,
            proto: self.proto,
            uid: take_bytes(from, self.uid_len as usize)?,
            label: self.label,
            is_late: self.is_late,
            body: take_body(from)?,
        })
    }
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

fixed! {
    RecordHead {
        ts: TimeNs, src: Ip, dst: Ip, src_port: u16, dst_port: u16, proto: Proto, label: Label, is_late: bool,
        uid_len: u32,
    }
    ConnHead {
        knows_service: bool, duration_ns: i64, orig_bytes: u64, resp_bytes: u64, orig_ip_bytes: u64,
        resp_ip_bytes: u64, orig_pkts: u64, resp_pkts: u64, is_established: bool, src_mac: Option<Mac>,
        dst_mac: Option<Mac>, has_no_ports: bool, service_len: u32, state_len: u32, history_len: u32,
    }
}

/// The length of a text, as it is written before it.
#[inline]
fn len_of(text: &[u8]) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

/// A part of a body.
trait Part<'a>: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(from: &mut &'a [u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($t:ty),+) => {$(
        impl<'a> Part<'a> for $t {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline]
            fn get(from: &mut &'a [u8]) -> Option<Self> {
                Some(<$t>::from_le_bytes(take_bytes(from, size_of::<$t>())?.try_into().ok()?))
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
    fn get(from: &mut &'a [u8]) -> Option<Self> {
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
    fn get(from: &mut &'a [u8]) -> Option<Self> {
        let len = u32::get(from)? as usize;
        take_bytes(from, len)
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
    fn get(from: &mut &'a [u8]) -> Option<Self> {
        if bool::get(from)? { T::get(from).map(Some) } else { Some(None) }
    }
}

impl<'a> Part<'a> for TimeNs {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    #[inline]
    fn get(from: &mut &'a [u8]) -> Option<Self> {
        i64::get(from).map(TimeNs)
    }
}

impl<'a> Part<'a> for Ip {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }
    #[inline]
    fn get(from: &mut &'a [u8]) -> Option<Self> {
        Some(Ip::from_bytes(take_bytes(from, 16)?.try_into().ok()?))
    }
}

impl<'a> Part<'a> for Mac {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn get(from: &mut &'a [u8]) -> Option<Self> {
        Some(Mac(take_bytes(from, 6)?.try_into().ok()?))
    }
}

impl<'a> Part<'a> for Proto {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    #[inline]
    fn get(from: &mut &'a [u8]) -> Option<Self> {
        Proto::from_kept(u8::get(from)?)
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
            fn get(from: &mut &'a [u8]) -> Option<Self> {
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
            service_len: len_of(self.service.name()),
            state_len: len_of(self.state.text()),
            history_len: len_of(self.history),
        };
        head.append::<{ ConnHead::LEN }>(out);
        out.extend_from_slice(self.service.name());
        out.extend_from_slice(self.state.text());
        out.extend_from_slice(self.history);
    }
    #[inline]
    fn get(from: &mut &'a [u8]) -> Option<Self> {
        let head = ConnHead::read_fixed(take_bytes(from, ConnHead::LEN)?)?;
        Some(Conn {
            service: Service::from_name(take_bytes(from, head.service_len as usize)?),
            knows_service: head.knows_service,
            duration_ns: head.duration_ns,
            orig_bytes: head.orig_bytes,
            resp_bytes: head.resp_bytes,
            orig_ip_bytes: head.orig_ip_bytes,
            resp_ip_bytes: head.resp_ip_bytes,
            orig_pkts: head.orig_pkts,
            resp_pkts: head.resp_pkts,
            state: ConnState::from_text(take_bytes(from, head.state_len as usize)?),
            is_established: head.is_established,
            history: take_bytes(from, head.history_len as usize)?,
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
            fn get(from: &mut &'a [u8]) -> Option<Self> {
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

    fn all() -> Vec<Record<'static>> {
        let texts = List { raw: b"[\"1.2.3.4\"]", is_json: true };
        let mac = Some(Mac([1, 2, 3, 4, 5, 6]));
        let bodies = [
            Body::Conn(Conn {
                service: Service::Ssl,
                state: ConnState::Other(b"SF"),
                src_mac: mac,
                ..Conn::default()
            }),
            Body::OpenConn(OpenConn { so_far: Conn { history: b"Sh", ..Conn::default() } }),
            Body::Dns(Dns { query: b"a.example", answers: texts, ..Dns::default() }),
            Body::Http(Http { host: b"a", uri: b"/b", status: 404, ..Http::default() }),
            Body::Ssh(Ssh { auth_success: Some(true), client: b"c", ..Ssh::default() }),
            Body::Dhcp(Dhcp { requested: Some(Ip::v4(7)), mac, ..Dhcp::default() }),
            Body::RuleAlert(RuleAlert { signature: b"s", sid: 7, ..RuleAlert::default() }),
        ];
        let record = |body| Record {
            ts: TimeNs(-5),
            src: Ip::v4(1),
            dst: Ip::v4(2),
            src_port: 3,
            dst_port: 4,
            proto: Proto::Udp,
            uid: b"C1",
            label: Label::Malicious,
            is_late: true,
            body,
        };
        bodies.into_iter().map(record).collect()
    }

    #[test]
    fn records_come_out_as_they_went_in_and_halves_are_refused() {
        for r in all() {
            let mut bytes = Vec::new();
            put_record(&r, &mut bytes);
            let mut from = bytes.as_slice();
            let read = take_record(&mut from).unwrap();
            assert_eq!(format!("{read:?}"), format!("{r:?}"));
            assert!(from.is_empty());
            for cut in 0..bytes.len() {
                assert!(take_record(&mut &bytes[..cut]).is_none(), "{cut}");
                let mut changed = bytes.clone();
                changed[cut] ^= 0xff;
                let _ = take_record(&mut changed.as_slice());
            }
        }
    }
}

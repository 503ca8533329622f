//! A record with what the site knows at it, as bytes: on its way to whoever holds its shard, on this
//! machine or in a stream engine.
//!
//! A parcel is `[u32 length][bytes]`, little-endian, fields in the order of their structs; texts are
//! borrowed from it when it is read. Parcels of one batch stand behind one another. Who reads them was
//! built with who wrote them ([`VERSION`] is checked where that is not so).

use crate::prevalence::Prevalence;
use crate::shards::{Ahead, Ends};
use crate::site::Facts;
use crate::state::Decoder;
use gabion_record::logs::{
    Arp, Body, Conn, Dhcp, Dns, Files, Ftp, Http, Label, List, LogKind, Login, Mac, Notice,
    OpenConn, Proto, Record, Smtp, Software, Ssh, Ssl, TimeNs, Tunnel, Weird,
};
use gabion_record::{Ip, Net};

/// Version of the form.
pub const VERSION: u16 = 2;

/// What is on its way.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::large_enum_variant, reason = "lives on the stack for one call")]
pub enum Parcel<'a> {
    /// A record with its number.
    Record(u64, Ends, Record<'a>, Facts),
    /// A later window has begun, at a record with that watermark.
    Turn(i64, TimeNs),
}

/// Appends a record.
pub fn put_record(number: u64, ends: Ends, r: &Record<'_>, facts: &Facts, out: &mut Vec<u8>) {
    framed(out, |out| {
        out.push(ends as u8);
        number.put(out);
        r.put(out);
        facts.put(out);
    });
}

/// Appends that a later window has begun.
pub fn put_turn(window: i64, watermark: TimeNs, out: &mut Vec<u8>) {
    framed(out, |out| {
        out.push(TURN);
        window.put(out);
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
        TURN => Parcel::Turn(i64::get(&mut from)?, TimeNs::get(&mut from)?),
        ends => {
            let ends = match ends {
                0 => Ends::Source,
                1 => Ends::Destination,
                2 => Ends::Both,
                _ => return None,
            };
            let number = u64::get(&mut from)?;
            Parcel::Record(number, ends, Record::get(&mut from)?, Facts::get(&mut from)?)
        }
    };
    Some((parcel, rest))
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
    // Its number and its moment stand before, the source port among them.
    from.take(16)?;
    let (src, dst, _) = (Ip::get(&mut from)?, Ip::get(&mut from)?, u16::get(&mut from)?);
    let (dst_port, proto) = (u16::get(&mut from)?, Proto::get(&mut from)?);
    Some((Some(Ahead { src, dst, dst_port, proto }), rest))
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

impl<'a> Part<'a> for Net {
    fn put(&self, out: &mut Vec<u8>) {
        self.base().put(out);
        self.len_mapped().put(out);
    }
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        let base = Ip::get(from)?;
        Some(Net::new(base, u8::get(from)?))
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

impl<'a> Part<'a> for Label {
    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
    #[inline]
    fn get(from: &mut Decoder<'a>) -> Option<Self> {
        [Label::None, Label::Benign, Label::Malicious].get(usize::from(u8::get(from)?)).copied()
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
    Record<'a> { ts, src, dst, src_port, dst_port, proto, uid, label, is_late, body, }
    Facts {
        window, newest, watermark, start, local, gateway, mac_owner, is_mac_new, src_mac, is_dhcp_server,
        is_ftp_data, is_resolved, is_ignored, has_other_logs, prevalence,
    }
    Prevalence { hosts, of, first, }
    List<'a> { raw, is_json, }
    Conn<'a> {
        service, knows_service, duration_ns, orig_bytes, resp_bytes, orig_ip_bytes, resp_ip_bytes,
        orig_pkts, resp_pkts, state, is_established, history, src_mac, dst_mac, has_no_ports,
    }
    Dns<'a> { query, qclass, qtype, rcode, answers, }
    Http<'a> { method, host, uri, user_agent, request_len, response_len, status, resp_mime_types, }
    Ssl<'a> {
        version, server_name, subject, issuer, validation_status, ja3, ja3s, cert_fps, is_doh,
        is_established,
    }
    Ssh<'a> { auth_success, auth_attempts, client, server, }
    Files<'a> { source, md5, sha1, total_bytes, mime_type, }
    Notice<'a> { note, msg, sub, }
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
    OpenConn
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
        put_turn(9, TimeNs(11), &mut batch);
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
        assert!(matches!(parcel, Parcel::Turn(9, TimeNs(11))));
        let (parcel, rest) = take(rest).unwrap();
        let Parcel::Record(8, Ends::Destination, r, f) = parcel else { panic!("{parcel:?}") };
        assert_eq!(show(&r, &f), show(&dns, &facts));
        assert!(take(rest).is_none());
        // Cut or changed anywhere it is no panic.
        for cut in 0..whole.len() {
            let _ = take(&whole[..cut]);
            batch.clone_from(&whole);
            batch[cut] ^= 0xff;
            let _ = take(&batch);
        }
    }
}

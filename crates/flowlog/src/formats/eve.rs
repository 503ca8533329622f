//! Suricata's EVE: flows and what the application layer said, out of one file of JSON lines.
//!
//! A flow counts as established when TCP's flags or packets of both sides say so, whatever its
//! `state`: a flow that was closed in order was established before (Slips reads `closed` as not
//! established).

use crate::field;
use crate::format::{LogFormat, Seen};
use crate::json::{self, Value};
use crate::skip::Skip;
use gabion_record::Ip;
use gabion_record::logs::{
    Arp, Body, Conn, ConnState, Dhcp, Dns, Files, Ftp, Http, Label, List, Mac, Proto, Record,
    RuleAlert, Service, Ssh, Ssl, TimeNs, have_both_talked,
};
use gabion_record::saved;

/// Places of an event's texts. Those of nested objects are their inner names.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Place {
    Timestamp,
    FlowId,
    Kind,
    Src,
    SrcPort,
    Dst,
    DstPort,
    Proto,
    AppProto,
    Start,
    End,
    PktsToServer,
    PktsToClient,
    BytesToServer,
    BytesToClient,
    State,
    TcpToServer,
    TcpToClient,
    Query,
    QueryType,
    Rcode,
    Answers,
    Host,
    Uri,
    UserAgent,
    Method,
    Status,
    Length,
    MimeType,
    Version,
    Subject,
    Issuer,
    Sni,
    Fingerprint,
    Ja3,
    Ja3s,
    Md5,
    Sha1,
    Size,
    ClientBanner,
    ServerBanner,
    DnsType,
    Age,
    SrcMacs,
    DstMacs,
    Operation,
    SrcMac,
    DstMac,
    FtpPort,
    FtpCommand,
    DhcpType,
    ClientMac,
    ClientIp,
    AssignedIp,
    RequestedIp,
    HostName,
    Direction,
    Signature,
    Category,
    Gid,
    Sid,
    Severity,
    Confidence,
    End0,
}

const PLACES: usize = Place::End0 as usize;
type Slots<'a> = [&'a [u8]; PLACES];

/// The format: an event a line, without a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Events;

saved! { Events {} }

impl LogFormat for Events {
    const NAME: &'static str = "eve";
    const TITLE: &'static str = "EVE";

    fn from_record(seen: Seen<'_>) -> Option<Events> {
        let is_event = match seen.chosen {
            Some(Self::NAME) => true,
            // Among Zeek's logs a file of EVE is still one.
            Some("zeek") | None => is_eve(seen.line),
            Some(_) => false,
        };
        (seen.line.first() == Some(&b'{') && is_event).then_some(Events)
    }

    fn quick_time(&self, line: &[u8]) -> Option<Result<TimeNs, Skip>> {
        if line.first() != Some(&b'{') {
            return None;
        }
        let slots = slots(line, &mut 0).ok()?;
        let is_event = slots.get(Place::Kind as usize).is_some_and(|kind| !kind.is_empty());
        is_event.then(|| moment(&slots))
    }

    fn time(&self, line: &[u8]) -> Result<TimeNs, Skip> {
        if line.first() == Some(&b'{') { time(line) } else { Err(Skip::NotALog) }
    }

    fn record<'a>(&self, line: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Record<'a>, Skip> {
        record(line, scratch)
    }
}

/// Whether a line of JSON is an event of EVE.
pub(crate) fn is_eve(line: &[u8]) -> bool {
    let mut found = false;
    let whole = json::members(line, |key, _| found |= key == b"event_type");
    whole.is_some() && found
}

/// The moment of an event: of a flow, its start.
///
/// # Errors
/// When there is none, or the event is of a kind that is not used.
pub(crate) fn time(line: &[u8]) -> Result<TimeNs, Skip> {
    let slots = slots(line, &mut 0)?;
    moment(&slots)
}

fn moment(slots: &Slots<'_>) -> Result<TimeNs, Skip> {
    let get = |place: Place| slots.get(place as usize).copied().unwrap_or_default();
    match get(Place::Kind) {
        b"flow" => {
            let start = field::moment(get(Place::Start));
            start.or_else(|| field::moment(get(Place::Timestamp))).ok_or(Skip::NoTime)
        }
        b"dns" | b"http" | b"tls" | b"fileinfo" | b"ssh" | b"arp" | b"dhcp" | b"ftp" | b"alert" => {
            field::moment(get(Place::Timestamp)).ok_or(Skip::NoTime)
        }
        _ => Err(Skip::UnusedEvent),
    }
}

fn slots<'a>(line: &'a [u8], escaped: &mut u64) -> Result<Slots<'a>, Skip> {
    let mut slots: Slots<'a> = [&[]; PLACES];
    let mut escapes = 0u64;
    let mut put = |place: Place, value: Value<'a>| {
        if let Some(slot) = slots.get_mut(place as usize) {
            *slot = value.raw();
            if let Value::Text(_, true) = value {
                escapes |= 1 << place as usize;
            }
        }
    };
    json::members(line, |key, value| match (key, value) {
        (b"timestamp", _) => put(Place::Timestamp, value),
        (b"flow_id", _) => put(Place::FlowId, value),
        (b"event_type", _) => put(Place::Kind, value),
        (b"src_ip", _) => put(Place::Src, value),
        (b"src_port", _) => put(Place::SrcPort, value),
        (b"dest_ip", _) => put(Place::Dst, value),
        (b"dest_port", _) => put(Place::DstPort, value),
        (b"proto", _) => put(Place::Proto, value),
        (b"app_proto", _) => put(Place::AppProto, value),
        (b"flow", Value::Object(inner)) => flow(inner, &mut put),
        (b"tcp", Value::Object(inner)) => tcp(inner, &mut put),
        (b"dns", Value::Object(inner)) => dns(inner, &mut put),
        (b"http", Value::Object(inner)) => http(inner, &mut put),
        (b"tls", Value::Object(inner)) => tls(inner, &mut put),
        (b"fileinfo", Value::Object(inner)) => file(inner, &mut put),
        (b"ssh", Value::Object(inner)) => ssh(inner, &mut put),
        (b"ether", Value::Object(inner)) => ether(inner, &mut put),
        (b"arp", Value::Object(inner)) => arp(inner, &mut put),
        (b"ftp", Value::Object(inner)) => ftp(inner, &mut put),
        (b"dhcp", Value::Object(inner)) => dhcp(inner, &mut put),
        (b"direction", _) => put(Place::Direction, value),
        (b"alert", Value::Object(inner)) => alert(inner, &mut put),
        _ => {}
    })
    .ok_or(Skip::CutShort)?;
    *escaped = escapes;
    Ok(slots)
}

type Put<'p, 'a> = &'p mut dyn FnMut(Place, Value<'a>);

fn flow<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match key {
        b"start" => put(Place::Start, value),
        b"end" => put(Place::End, value),
        b"age" => put(Place::Age, value),
        b"pkts_toserver" => put(Place::PktsToServer, value),
        b"pkts_toclient" => put(Place::PktsToClient, value),
        b"bytes_toserver" => put(Place::BytesToServer, value),
        b"bytes_toclient" => put(Place::BytesToClient, value),
        b"state" => put(Place::State, value),
        _ => {}
    });
}

fn tcp<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match key {
        b"tcp_flags_ts" => put(Place::TcpToServer, value),
        b"tcp_flags_tc" => put(Place::TcpToClient, value),
        _ => {}
    });
}

/// Of version 2 (`rrname`, `grouped`, `answers`) and 3 (`queries`).
fn dns<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match (key, value) {
        (b"type", _) => put(Place::DnsType, value),
        (b"rrname", _) => put(Place::Query, value),
        (b"rrtype", _) => put(Place::QueryType, value),
        (b"rcode", _) => put(Place::Rcode, value),
        (b"queries", Value::Array(list)) => {
            let first = list.get(1..).unwrap_or_default();
            let _ = json::members(first, |key, value| match key {
                b"rrname" => put(Place::Query, value),
                b"rrtype" => put(Place::QueryType, value),
                _ => {}
            });
        }
        (b"answers", _) => put(Place::Answers, value),
        (b"grouped", Value::Object(groups)) => {
            let _ = json::members(groups, |key, value| {
                if matches!(key, b"A" | b"AAAA") {
                    put(Place::Answers, value);
                }
            });
        }
        _ => {}
    });
}

fn http<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match key {
        b"hostname" => put(Place::Host, value),
        b"url" => put(Place::Uri, value),
        b"http_user_agent" => put(Place::UserAgent, value),
        b"http_method" => put(Place::Method, value),
        b"status" => put(Place::Status, value),
        b"length" => put(Place::Length, value),
        b"http_content_type" => put(Place::MimeType, value),
        _ => {}
    });
}

fn tls<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match (key, value) {
        (b"version", _) => put(Place::Version, value),
        (b"subject", _) => put(Place::Subject, value),
        (b"issuerdn", _) => put(Place::Issuer, value),
        (b"sni", _) => put(Place::Sni, value),
        (b"fingerprint", _) => put(Place::Fingerprint, value),
        (b"ja3", Value::Object(inner)) => hash(inner, Place::Ja3, put),
        (b"ja3s", Value::Object(inner)) => hash(inner, Place::Ja3s, put),
        _ => {}
    });
}

fn hash<'a>(inner: &'a [u8], place: Place, put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| {
        if key == b"hash" {
            put(place, value);
        }
    });
}

fn file<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match key {
        b"md5" => put(Place::Md5, value),
        b"sha1" => put(Place::Sha1, value),
        b"size" => put(Place::Size, value),
        _ => {}
    });
}

fn ssh<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| {
        let place = match key {
            b"client" => Place::ClientBanner,
            b"server" => Place::ServerBanner,
            _ => return,
        };
        if let Value::Object(side) = value {
            let _ = json::members(side, |key, value| {
                if key == b"software_version" {
                    put(place, value);
                }
            });
        }
    });
}

/// Hardware addresses of a flow, where the output writes them (`ethernet: yes`).
fn ether<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match key {
        b"src_macs" => put(Place::SrcMacs, value),
        b"dest_macs" => put(Place::DstMacs, value),
        _ => {}
    });
}

/// An ARP packet names its ends in its own object.
fn arp<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match key {
        b"opcode" => put(Place::Operation, value),
        b"src_mac" => put(Place::SrcMac, value),
        b"src_ip" => put(Place::Src, value),
        b"dest_mac" => put(Place::DstMac, value),
        b"dest_ip" => put(Place::Dst, value),
        _ => {}
    });
}

fn ftp<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match key {
        b"dynamic_port" => put(Place::FtpPort, value),
        b"command" => put(Place::FtpCommand, value),
        _ => {}
    });
}

fn dhcp<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match key {
        b"type" => put(Place::DhcpType, value),
        b"client_mac" => put(Place::ClientMac, value),
        b"client_ip" => put(Place::ClientIp, value),
        b"assigned_ip" => put(Place::AssignedIp, value),
        b"requested_ip" => put(Place::RequestedIp, value),
        b"hostname" => put(Place::HostName, value),
        _ => {}
    });
}

/// What a rule says of itself.
fn alert<'a>(inner: &'a [u8], put: Put<'_, 'a>) {
    let _ = json::members(inner, |key, value| match (key, value) {
        (b"signature", _) => put(Place::Signature, value),
        (b"category", _) => put(Place::Category, value),
        (b"gid", _) => put(Place::Gid, value),
        (b"signature_id", _) => put(Place::Sid, value),
        (b"severity", _) => put(Place::Severity, value),
        (b"metadata", Value::Object(rule)) => {
            let _ = json::members(rule, |key, value| {
                if key == b"confidence" {
                    put(Place::Confidence, value);
                }
            });
        }
        _ => {}
    });
}

/// The record of an event. `scratch` is lent for texts with escapes.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn record<'a>(line: &'a [u8], scratch: &'a mut Vec<u8>) -> Result<Record<'a>, Skip> {
    let mut escaped = 0u64;
    let mut slots = slots(line, &mut escaped)?;
    let ts = moment(&slots)?;
    let has_objects = is_array_of_objects(slots[Place::Answers as usize]);
    if escaped != 0 || has_objects {
        undo_escapes(&mut slots, escaped, scratch);
    }
    let get = |place: Place| slots.get(place as usize).copied().unwrap_or_default();
    let body = body(&get);
    let (mut src, mut dst) = (get(Place::Src), get(Place::Dst));
    let (mut sport, mut dport) = (get(Place::SrcPort), get(Place::DstPort));
    // An answer's source is the server: the record is the client's.
    if get(Place::Kind) == b"dns" && matches!(get(Place::DnsType), b"answer" | b"response") {
        let is_server = field::port(sport) == 53 && field::port(dport) != 53;
        if is_server {
            (src, dst, sport, dport) = (dst, src, dport, sport);
        }
    }
    // An alert's addresses are those of its packet: the record is the client's.
    if get(Place::Kind) == b"alert" && get(Place::Direction) == b"to_client" {
        (src, dst, sport, dport) = (dst, src, dport, sport);
    }
    if get(Place::Kind) == b"dhcp" {
        (src, dst) = dhcp_ends(&get, src, dst);
    }
    // Settings and other frames of HTTP/2 that belong to no request have records of their own.
    let of_request =
        [Place::Method, Place::Host, Place::Uri, Place::Status, Place::Length, Place::MimeType];
    if get(Place::Kind) == b"http" && of_request.iter().all(|place| get(*place).is_empty()) {
        return Err(Skip::UnusedEvent);
    }
    let is_arp = get(Place::Kind) == b"arp";
    Ok(Record {
        ts,
        src: Ip::parse(src).ok_or(Skip::NoAddress)?,
        dst: Ip::parse(dst).ok_or(Skip::NoAddress)?,
        src_port: field::port(sport),
        dst_port: field::port(dport),
        proto: if is_arp { Proto::Arp } else { Proto::from_name(get(Place::Proto)) },
        uid: get(Place::FlowId),
        label: Label::None,
        is_late: false,
        body,
    })
}

/// A DHCP record's source is the client, its destination the server; a client without an address
/// has the one that it is given, or keeps none.
fn dhcp_ends<'a>(
    get: &impl Fn(Place) -> &'a [u8],
    src: &'a [u8],
    dst: &'a [u8],
) -> (&'a [u8], &'a [u8]) {
    let (from, to) = if get(Place::DhcpType) == b"reply" { (dst, src) } else { (src, dst) };
    let known = |text: &[u8]| Ip::parse(text).is_some_and(|ip| !ip.is_unspecified());
    let own = [get(Place::ClientIp), get(Place::AssignedIp), from];
    (own.into_iter().find(|ip| known(ip)).unwrap_or(from), to)
}

/// Answers of version 3: objects with their type and data.
fn is_array_of_objects(raw: &[u8]) -> bool {
    raw.iter().take(4).any(|b| *b == b'{')
}

/// What such answers say, as an array of texts; a TXT record is written as Zeek writes it.
fn write_answers(raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw;
    out.push(b'[');
    let mut separator: &[u8] = b"";
    while let Some(at) = memchr::memchr(b'{', rest) {
        rest = rest.get(at..).unwrap_or_default();
        let (mut kind, mut data): (&[u8], &[u8]) = (&[], &[]);
        let whole = json::members(rest, |key, value| match key {
            b"rrtype" => kind = value.raw(),
            b"rdata" => data = value.raw(),
            _ => {}
        });
        let Some(len) = whole.and_then(|()| json::len(rest)) else { break };
        rest = rest.get(len..).unwrap_or_default();
        if data.is_empty() {
            continue;
        }
        out.extend_from_slice(separator);
        out.push(b'"');
        if kind == b"TXT" {
            out.extend_from_slice(format!("TXT {} ", data.len()).as_bytes());
        }
        out.extend_from_slice(data);
        out.push(b'"');
        separator = b",";
    }
    out.push(b']');
}

fn undo_escapes<'a>(slots: &mut Slots<'a>, escaped: u64, scratch: &'a mut Vec<u8>) {
    let mut ends = [0usize; PLACES];
    scratch.clear();
    let mut escaped = escaped;
    for (at, slot) in slots.iter().enumerate() {
        if at == Place::Answers as usize && is_array_of_objects(slot) {
            write_answers(slot, scratch);
            escaped |= 1 << at;
        } else if escaped & (1 << at) != 0 {
            json::unescape(slot, scratch);
        }
        if let Some(end) = ends.get_mut(at) {
            *end = scratch.len();
        }
    }
    let scratch: &'a [u8] = scratch;
    let mut from = 0;
    for (at, slot) in slots.iter_mut().enumerate() {
        let end = ends.get(at).copied().unwrap_or(from);
        if escaped & (1 << at) != 0 {
            *slot = scratch.get(from..end).unwrap_or_default();
        }
        from = end;
    }
}

fn body<'a>(get: &impl Fn(Place) -> &'a [u8]) -> Body<'a> {
    let single = |place: Place| List { raw: get(place), is_json: false };
    match get(Place::Kind) {
        b"dns" => Body::Dns(Dns {
            query: get(Place::Query),
            qclass: b"IN",
            qtype: get(Place::QueryType),
            rcode: get(Place::Rcode),
            answers: List { raw: get(Place::Answers), is_json: true },
        }),
        b"http" => Body::Http(Http {
            method: get(Place::Method),
            host: get(Place::Host),
            uri: get(Place::Uri),
            user_agent: get(Place::UserAgent),
            request_len: 0,
            response_len: field::count(get(Place::Length)),
            status: field::port(get(Place::Status)),
            resp_mime_types: single(Place::MimeType),
        }),
        b"tls" => Body::Ssl(Ssl {
            version: get(Place::Version),
            server_name: get(Place::Sni),
            subject: get(Place::Subject),
            issuer: get(Place::Issuer),
            ja3: get(Place::Ja3),
            ja3s: get(Place::Ja3s),
            cert_fps: single(Place::Fingerprint),
            is_established: true,
            ..Ssl::default()
        }),
        b"fileinfo" => Body::Files(Files {
            source: get(Place::AppProto),
            md5: get(Place::Md5),
            sha1: get(Place::Sha1),
            total_bytes: field::count(get(Place::Size)),
            mime_type: &[],
        }),
        b"alert" => Body::RuleAlert(RuleAlert {
            signature: get(Place::Signature),
            category: get(Place::Category),
            gid: field::count(get(Place::Gid)).max(1) as u32,
            sid: field::count(get(Place::Sid)) as u32,
            severity: u8::try_from(field::count(get(Place::Severity))).unwrap_or(u8::MAX),
            confidence: get(Place::Confidence),
        }),
        b"ssh" => Body::Ssh(Ssh {
            client: get(Place::ClientBanner),
            server: get(Place::ServerBanner),
            ..Ssh::default()
        }),
        b"arp" => Body::Arp(Arp {
            operation: get(Place::Operation),
            src_mac: Mac::parse(get(Place::SrcMac)),
            dst_mac: None,
            src_hw: Mac::parse(get(Place::SrcMac)),
            dst_hw: Mac::parse(get(Place::DstMac)),
        }),
        b"ftp" => Body::Ftp(Ftp {
            data_port: field::port(get(Place::FtpPort)),
            command: get(Place::FtpCommand),
        }),
        b"dhcp" => Body::Dhcp(Dhcp {
            requested: Ip::parse(get(Place::RequestedIp)),
            mac: Mac::parse(get(Place::ClientMac)),
            host_name: get(Place::HostName),
            server: match get(Place::DhcpType) {
                b"reply" => Ip::parse(get(Place::Src)),
                _ => None,
            },
        }),
        _ => Body::Conn(conn(get)),
    }
}

/// The first of a list of hardware addresses.
fn first_mac(raw: &[u8]) -> Option<Mac> {
    Mac::parse(List { raw, is_json: true }.iter().next()?)
}

fn conn<'a>(get: &impl Fn(Place) -> &'a [u8]) -> Conn<'a> {
    let (start, end) = (field::moment(get(Place::Start)), field::moment(get(Place::End)));
    let duration_ns = match (start, end) {
        (Some(start), Some(end)) => end.since(start).max(0),
        _ => field::seconds(get(Place::Age)).unwrap_or(0).max(0),
    };
    let orig_pkts = field::count(get(Place::PktsToServer));
    let resp_pkts = field::count(get(Place::PktsToClient));
    let service = Service::from_app_proto(get(Place::AppProto));
    let (state, packets) = (get(Place::State), (orig_pkts, resp_pkts));
    let is_tcp = Proto::from_name(get(Place::Proto)) == Proto::Tcp;
    let flags = tcp_flags(get(Place::TcpToServer), get(Place::TcpToClient));
    Conn {
        service,
        knows_service: true,
        duration_ns,
        orig_bytes: field::count(get(Place::BytesToServer)),
        resp_bytes: field::count(get(Place::BytesToClient)),
        orig_pkts,
        resp_pkts,
        state: ConnState::from_text(state),
        is_established: have_both_talked(is_tcp, flags, packets, state == b"established"),
        src_mac: first_mac(get(Place::SrcMacs)),
        dst_mac: first_mac(get(Place::DstMacs)),
        ..Conn::default()
    }
}

/// Flags of both directions, where both are written: two hex digits each.
fn tcp_flags(to_server: &[u8], to_client: &[u8]) -> Option<(u8, u8)> {
    let hex = |text| u8::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok();
    hex(to_server).zip(hex(to_client))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D3 of Slips: `closed` is no sign of an unanswered flow.
    #[test]
    fn a_closed_flow_was_established() {
        let flow = |state: &str, tc: &str, back: u32| {
            format!(
                r#"{{"timestamp":"2021-06-06T15:59:46.457984+0200","flow_id":5,"event_type":"flow",
                "src_ip":"10.0.0.1","src_port":1,"dest_ip":"10.0.0.2","dest_port":80,"proto":"TCP",
                "app_proto":"http","flow":{{"pkts_toserver":6,"pkts_toclient":{back},"bytes_toserver":5,
                "bytes_toclient":7,"start":"2021-06-06T15:59:40.0+0200","end":"2021-06-06T15:59:46.0+0200",
                "age":6,"state":"{state}"}},"tcp":{{"tcp_flags":"1b","tcp_flags_ts":"1b","tcp_flags_tc":"{tc}"}}}}"#
            )
        };
        for (state, tc, back, established) in [
            ("closed", "1b", 5, true),
            ("new", "00", 0, false),
            ("new", "14", 1, false),
            ("established", "12", 2, true),
        ] {
            let line = flow(state, tc, back);
            let mut scratch = Vec::new();
            let r = record(line.as_bytes(), &mut scratch).unwrap();
            let Body::Conn(c) = r.body else { panic!("not a conn") };
            assert_eq!(c.is_established, established, "{state} {tc}");
            assert_eq!((c.duration_ns, c.service), (6_000_000_000, Service::Http));
            assert_eq!(time(line.as_bytes()), Ok(r.ts));
        }
    }

    /// An alert is a record of the flow's client, whichever side's packet completed it.
    #[test]
    fn alerts_are_records_of_the_client() {
        let line = |direction: &str, ends: &str| {
            format!(
                r#"{{"timestamp":"2021-06-06T15:59:46.457984+0200","flow_id":5,"event_type":"alert",{ends},"proto":"TCP",
                "direction":"{direction}","alert":{{"action":"allowed","gid":1,"signature_id":2019401,"rev":3,
                "signature":"ET \"X\"","category":"Misc","severity":2,"metadata":{{"confidence":["High"]}}}},
                "http":{{"hostname":"a.b","url":"/"}},"flow":{{"pkts_toserver":6,"start":"2021-06-06T15:59:40.0+0200"}}}}"#
            )
        };
        let to_server = r#""src_ip":"10.0.0.1","src_port":4000,"dest_ip":"9.9.9.9","dest_port":80"#;
        let to_client = r#""src_ip":"9.9.9.9","src_port":80,"dest_ip":"10.0.0.1","dest_port":4000"#;
        for line in [line("to_server", to_server), line("to_client", to_client)] {
            let mut scratch = Vec::new();
            let r = record(line.as_bytes(), &mut scratch).unwrap();
            let Body::RuleAlert(a) = r.body else { panic!("not an alert") };
            assert_eq!(
                (a.signature, a.gid, a.sid, a.severity),
                (&b"ET \"X\""[..], 1, 2_019_401, 2)
            );
            assert_eq!(a.confidence, b"[\"High\"]");
            assert_eq!((r.src.to_string(), r.dst_port), ("10.0.0.1".into(), 80));
            // The moment of the packet, not of the flow's begin.
            assert_eq!(r.ts.0, 1_622_987_986_457_984_000);
            for cut in 0..line.len() {
                assert!(record(&line.as_bytes()[..cut], &mut Vec::new()).is_err());
            }
        }
    }

    /// D36 of Slips: ICMP events have no ports and are read all the same.
    #[test]
    fn icmp_has_no_ports() {
        let line = br#"{"timestamp":"2021-06-06T15:59:46.457984+0200","event_type":"flow","src_ip":"10.0.0.1",
            "dest_ip":"10.0.0.2","proto":"ICMP","flow":{"pkts_toserver":1,"pkts_toclient":1}}"#;
        let r = record(line, &mut Vec::new()).map(|r| (r.proto, r.dst_port, r.ts.0));
        assert_eq!(r, Ok((Proto::Icmp, 0, 1_622_987_986_457_984_000)));
        for cut in 0..line.len() {
            assert!(record(&line[..cut], &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn dns_of_both_versions() {
        let two = br#"{"timestamp":"2021-06-06T15:59:46+0200","event_type":"dns","src_ip":"9.9.9.9","src_port":53,
            "dest_ip":"10.0.0.2","dest_port":5000,"proto":"UDP","dns":{"version":2,"type":"answer","rrname":"a.b",
            "rrtype":"A","rcode":"NOERROR","grouped":{"A":["1.2.3.4","1.2.3.5"]}}}"#;
        let mut scratch = Vec::new();
        let r = record(two, &mut scratch).unwrap();
        let Body::Dns(d) = r.body else { panic!("not dns") };
        assert_eq!((d.query, d.answers.iter().count()), (&b"a.b"[..], 2));
        assert_eq!(r.src.to_string(), "10.0.0.2");
        // Version 3 as our own engine and Suricata 8.0 write it.
        let three = br#"{"timestamp":"2021-06-06T15:59:46+0200","event_type":"dns","src_ip":"10.0.0.2","src_port":5000,
            "dest_ip":"9.9.9.9","dest_port":53,"proto":"UDP","dns":{"version":3,"type":"response","rcode":"NOERROR",
            "queries":[{"rrname":"a.b","rrtype":"TXT"}],"answers":[{"rrname":"a.b","rrtype":"TXT","ttl":5,"rdata":"x]y}z"},
            {"rrname":"a.b","rrtype":"A","rdata":"1.2.3.4"},{"rrname":"a.b","rrtype":"SOA","soa":{"mname":"m"}}]}}"#;
        let mut scratch = Vec::new();
        let r = record(three, &mut scratch).unwrap();
        let Body::Dns(d) = r.body else { panic!("not dns") };
        let answers: Vec<&[u8]> = d.answers.iter().collect();
        assert_eq!((d.query, d.qtype), (&b"a.b"[..], &b"TXT"[..]));
        assert_eq!(answers, [&b"TXT 5 x]y}z"[..], b"1.2.3.4"]);
        for cut in 0..three.len() {
            assert!(record(&three[..cut], &mut Vec::new()).is_err());
        }
    }

    #[test]
    fn arp_dhcp_and_ftp_of_our_own_engine() {
        let arp = br#"{"timestamp":"2021-09-21T08:57:38.604726+0000","event_type":"arp","arp":{"hw_type":"ethernet",
            "proto_type":"ipv4","opcode":"request","src_mac":"02:00:00:00:00:01","src_ip":"10.0.0.1",
            "dest_mac":"00:00:00:00:00:00","dest_ip":"10.0.0.9"}}"#;
        let mut scratch = Vec::new();
        let r = record(arp, &mut scratch).unwrap();
        let Body::Arp(a) = r.body else { panic!("not arp") };
        assert_eq!((r.src.to_string(), r.dst.to_string()), ("10.0.0.1".into(), "10.0.0.9".into()));
        assert_eq!(
            (a.operation, a.dst_hw, r.proto),
            (&b"request"[..], Some(Mac::ZERO), Proto::Arp)
        );
        let dhcp = br#"{"timestamp":"2021-09-21T08:57:38+0000","event_type":"dhcp","src_ip":"0.0.0.0","src_port":68,
            "dest_ip":"255.255.255.255","dest_port":67,"proto":"UDP","dhcp":{"type":"request","client_mac":
            "02:00:00:00:00:01","dhcp_type":"request","requested_ip":"10.0.0.7","hostname":"h"}}"#;
        let mut scratch = Vec::new();
        let r = record(dhcp, &mut scratch).unwrap();
        let Body::Dhcp(d) = r.body else { panic!("not dhcp") };
        assert_eq!(d.requested.map(|ip| ip.to_string()).as_deref(), Some("10.0.0.7"));
        let flow = br#"{"timestamp":"2021-06-06T15:59:46+0000","event_type":"flow","src_ip":"10.0.0.1","dest_ip":
            "10.0.0.2","proto":"UDP","flow":{"pkts_toserver":1},"ether":{"dest_macs":["02:00:00:00:00:02"],
            "src_macs":["02:00:00:00:00:01","02:00:00:00:00:03"]}}"#;
        let mut scratch = Vec::new();
        let r = record(flow, &mut scratch).unwrap();
        let Body::Conn(c) = r.body else { panic!("not a conn") };
        assert_eq!(
            (c.src_mac, c.dst_mac),
            (Some(Mac([2, 0, 0, 0, 0, 1])), Some(Mac([2, 0, 0, 0, 0, 2])))
        );
    }
}

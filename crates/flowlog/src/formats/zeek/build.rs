//! Records out of a line's texts: what each Zeek log means.

use super::columns::{OWN, Slots};
use crate::field;
use crate::skip::Skip;
use gabion_record::Ip;
use gabion_record::logs::{
    Arp, Body, Conn, ConnState, Dhcp, Dns, Files, Ftp, Http, Label, List, LogKind, Login, Mac,
    Notice, OpenConn, Proto, Record, Service, Smtp, Software, Ssh, Ssl, TimeNs, Tunnel, Weird,
};

/// What a line is besides its texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// Which log.
    pub kind: LogKind,
    /// Lists are JSON arrays.
    pub is_json: bool,
    /// The log has a column for the service at all.
    pub knows_service: bool,
}

/// Makes the record.
///
/// # Errors
/// What is missing.
#[inline]
pub(crate) fn record<'a>(line: Line, slots: &Slots<'a>) -> Result<Record<'a>, Skip> {
    let own = |at: usize| slots.get(OWN + at).copied().unwrap_or_default();
    let list = |at: usize| List { raw: own(at), is_json: line.is_json };
    let ts = time(slots)?;
    let text = |ip: &[u8]| Ip::parse(ip);
    let first = |at: usize| list(at).iter().next().and_then(text);
    let (mut src, mut dst) = (text(slots[2]), text(slots[4]));
    let (mut uid, mut dst_port) = (slots[1], field::port(slots[5]));
    let mut src_port = field::port(slots[3]);
    let mut proto = match (line.kind, slots[6]) {
        (LogKind::Dhcp, []) => Proto::Udp,
        (LogKind::Arp, _) => Proto::Arp,
        (_, []) => Proto::Tcp,
        (_, name) => Proto::from_name(name),
    };
    let body = match line.kind {
        LogKind::Conn => {
            if proto == Proto::Icmp && !src.is_some_and(Ip::is_v4) {
                proto = Proto::IcmpV6;
            }
            Body::Conn(conn(line, &own))
        }
        LogKind::OpenConn => Body::OpenConn(OpenConn { so_far: conn(line, &own) }),
        LogKind::Dns => Body::Dns(Dns {
            query: own(0),
            qclass: own(1),
            qtype: own(2),
            rcode: own(3),
            answers: list(4),
        }),
        LogKind::Http => Body::Http(Http {
            method: own(0),
            host: own(1),
            uri: own(2),
            user_agent: own(3),
            request_len: field::count(own(4)),
            response_len: field::count(own(5)),
            status: field::port(own(6)),
            resp_mime_types: list(7),
        }),
        LogKind::Ssl => Body::Ssl(Ssl {
            version: own(0),
            server_name: own(1),
            subject: own(2),
            issuer: own(3),
            validation_status: own(4),
            ja3: own(5),
            ja3s: own(6),
            cert_fps: list(7),
            is_doh: field::truth(own(8)) == Some(true),
            is_established: field::truth(own(9)) == Some(true),
        }),
        LogKind::Ssh => Body::Ssh(Ssh {
            auth_success: field::truth(own(0)),
            auth_attempts: u32::try_from(field::count(own(1))).unwrap_or(u32::MAX),
            client: own(2),
            server: own(3),
        }),
        LogKind::Files => {
            src = src.or_else(|| first(0));
            dst = dst.or_else(|| first(1));
            if uid.is_empty() {
                uid = list(7).iter().next().unwrap_or_default();
            }
            Body::Files(Files {
                source: own(2),
                md5: own(3),
                sha1: own(4),
                total_bytes: field::count(own(5)),
                mime_type: own(6),
            })
        }
        LogKind::Notice => {
            src = src.or_else(|| text(own(3)));
            dst = dst.or_else(|| text(own(4))).or(src);
            if dst_port == 0 {
                dst_port = field::port(own(5));
            }
            Body::Notice(Notice { note: own(0), msg: own(1), sub: own(2) })
        }
        LogKind::Software => {
            src = src.or_else(|| text(own(0)));
            dst = dst.or(src);
            src_port = field::port(own(1));
            Body::Software(Software {
                software_type: own(2),
                name: own(3),
                major: own(4),
                minor: own(5),
                unparsed: own(6),
            })
        }
        LogKind::Weird => {
            dst = dst.or(src);
            Body::Weird(Weird { name: own(0), addl: own(1) })
        }
        LogKind::Tunnel => Body::Tunnel(Tunnel { tunnel_type: own(0), action: own(1) }),
        LogKind::Smtp => Body::Smtp(Smtp { last_reply: own(0) }),
        LogKind::Ftp => Body::Ftp(Ftp { data_port: field::port(own(0)), command: own(1) }),
        LogKind::Dhcp => {
            if uid.is_empty() {
                uid = list(0).iter().next().unwrap_or_default();
            }
            src = src.or_else(|| text(own(1)));
            dst = dst.or_else(|| text(own(2))).or(src);
            Body::Dhcp(Dhcp {
                requested: text(own(5)),
                mac: Mac::parse(own(3)),
                host_name: own(4),
                server: text(own(2)),
            })
        }
        LogKind::Arp => {
            src = src.or_else(|| text(own(3)));
            dst = dst.or_else(|| text(own(4)));
            Body::Arp(Arp {
                operation: own(0),
                src_mac: Mac::parse(own(1)),
                dst_mac: Mac::parse(own(2)),
                src_hw: Mac::parse(own(5)),
                dst_hw: Mac::parse(own(6)),
            })
        }
        LogKind::Login => Body::Login(Login {
            is_success: field::truth(own(0)) == Some(true),
            is_confused: field::truth(own(1)) == Some(true),
            user: own(2),
            service: own(3),
        }),
        LogKind::RuleAlert => return Err(Skip::UnusedEvent),
    };
    let src = src.ok_or(Skip::NoAddress)?;
    let dst = dst.ok_or(Skip::NoAddress)?;
    let label = label(slots[7]);
    Ok(Record { ts, src, dst, src_port, dst_port, proto, uid, label, is_late: false, body })
}

/// The moment of a line.
///
/// # Errors
/// When there is none.
pub(crate) fn time(slots: &Slots<'_>) -> Result<TimeNs, Skip> {
    field::moment(slots[0]).ok_or(Skip::NoTime)
}

fn conn<'a>(line: Line, own: &impl Fn(usize) -> &'a [u8]) -> Conn<'a> {
    Conn {
        service: Service::from_name(own(0)),
        knows_service: line.knows_service,
        duration_ns: field::seconds(own(1)).unwrap_or(0).max(0),
        orig_bytes: field::count(own(2)),
        resp_bytes: field::count(own(3)),
        state: ConnState::from_text(own(4)),
        is_established: is_established(own(4)),
        history: own(5),
        orig_pkts: field::count(own(6)),
        orig_ip_bytes: field::count(own(7)),
        resp_pkts: field::count(own(8)),
        resp_ip_bytes: field::count(own(9)),
        src_mac: Mac::parse(own(10)),
        dst_mac: Mac::parse(own(11)),
        has_no_ports: false,
    }
}

/// Whether a `conn_state` of Zeek means that both sides talked. RSTR (the responder reset what was
/// established) is among them, which Slips forgot.
#[inline]
pub(crate) fn is_established(state: &[u8]) -> bool {
    matches!(state, b"S1" | b"SF" | b"S2" | b"S3" | b"RSTO" | b"RSTP" | b"OTH" | b"RSTR")
}

/// The label of netflowlabeler or of CTU's data.
pub(crate) fn label(text: &[u8]) -> Label {
    let contains =
        |word: &[u8]| text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word));
    if text.is_empty() {
        Label::None
    } else if contains(b"malicious") || contains(b"botnet") || contains(b"malware") {
        Label::Malicious
    } else if contains(b"benign") || contains(b"normal") {
        Label::Benign
    } else {
        Label::None
    }
}

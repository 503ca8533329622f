//! Records of flows and of what was seen in them, whichever log they were read from: one plain type
//! for each kind of log.
//!
//! A [`Record`] borrows its texts from the line it was read from, so that reading allocates
//! nothing. Readers fill these types, the behaviour engine takes them; neither knows the other.
//! Texts that a log leaves out are empty.

use crate::calendar::date_from_days;
use crate::ip::Ip;
use crate::ip_proto::IpProto;
use std::fmt;

/// A moment of event time: nanoseconds since 1970 (UTC), from 1677 to 2262; arithmetic saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TimeNs(pub i64);

/// Nanoseconds in a second.
pub const SECOND: i64 = 1_000_000_000;

impl TimeNs {
    /// The moment that is this number of nanoseconds later (earlier when negative).
    #[inline]
    pub const fn plus(self, ns: i64) -> TimeNs {
        TimeNs(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to this moment.
    #[inline]
    pub const fn since(self, earlier: TimeNs) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Whole seconds since 1970, rounded down.
    #[inline]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(SECOND)
    }

    /// As ISO 8601 with microseconds in UTC: `2026-11-20T22:04:56.018376+00:00`.
    pub fn iso(self) -> Iso {
        Iso(self)
    }
}

/// See [`TimeNs::iso`].
#[derive(Clone, Copy, Debug)]
pub struct Iso(TimeNs);

/// Bytes of an [`Iso`] of a year of four digits.
const ISO_LEN: usize = 32;

impl Iso {
    /// The text of a year of four digits. By hand: every line of a log has one or more.
    #[inline]
    fn usual(self) -> Option<[u8; ISO_LEN]> {
        let seconds = self.0.seconds();
        let micros = self.0.0.rem_euclid(SECOND) as u32 / 1000;
        let (year, month, day) = date_from_days(seconds.div_euclid(86_400));
        let in_day = seconds.rem_euclid(86_400) as u32;
        let (h, m, s) = (in_day / 3600, in_day / 60 % 60, in_day % 60);
        let year = u32::try_from(year).ok().filter(|y| *y <= 9999)?;
        let mut text = *b"0000-00-00T00:00:00.000000+00:00";
        for (at, number) in [
            (0, year / 100),
            (2, year % 100),
            (5, month as u32),
            (8, day as u32),
            (11, h),
            (14, m),
            (17, s),
            (20, micros / 10_000),
            (22, micros / 100 % 100),
            (24, micros % 100),
        ] {
            text[at] = b'0' + (number / 10) as u8;
            text[at + 1] = b'0' + (number % 10) as u8;
        }
        Some(text)
    }

    /// Appends it.
    #[inline]
    pub fn put_text(self, out: &mut Vec<u8>) {
        match self.usual() {
            Some(text) => out.extend_from_slice(&text),
            None => out.extend_from_slice(self.to_string().as_bytes()),
        }
    }
}

impl fmt::Display for Iso {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = self.usual() {
            return f.write_str(std::str::from_utf8(&text).unwrap_or_default());
        }
        let seconds = self.0.seconds();
        let micros = self.0.0.rem_euclid(SECOND) / 1000;
        let (year, month, day) = date_from_days(seconds.div_euclid(86_400));
        let in_day = seconds.rem_euclid(86_400);
        let (h, m, s) = (in_day / 3600, in_day / 60 % 60, in_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{micros:06}+00:00")
    }
}

macro_rules! kinds {
    ($($kind:ident, $name:literal;)+) => {
        /// Which log a record is of. The order is the order of records of one moment.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum LogKind {
            $(#[doc = concat!("`", $name, ".log`")] $kind,)+
        }

        impl LogKind {
            /// All kinds in order.
            pub const ALL: &'static [LogKind] = &[$(LogKind::$kind,)+];

            /// The log's name without its suffix.
            pub const fn name(self) -> &'static str {
                match self { $(LogKind::$kind => $name,)+ }
            }
        }

        /// What a record says, by kind.
        #[derive(Clone, Copy, Debug)]
        pub enum Body<'a> {
            $(#[doc = concat!("Of `", $name, ".log`.")] $kind($kind<'a>),)+
        }

        impl Body<'_> {
            /// Its kind.
            pub const fn kind(&self) -> LogKind {
                match self { $(Body::$kind(_) => LogKind::$kind,)+ }
            }
        }
    };
}

kinds! {
    Conn, "conn";
    Dns, "dns";
    Http, "http";
    Ssl, "ssl";
    Ssh, "ssh";
    Files, "files";
    Notice, "notice";
    Software, "software";
    Weird, "weird";
    Tunnel, "tunnel";
    Smtp, "smtp";
    Ftp, "ftp";
    Dhcp, "dhcp";
    Arp, "arp";
    Login, "login";
    OpenConn, "open_conn";
    RuleAlert, "alert";
}

impl LogKind {
    /// The kind of that name.
    pub fn from_name(name: &[u8]) -> Option<LogKind> {
        Self::ALL.iter().copied().find(|k| k.name().as_bytes() == name)
    }
}

/// One line of a log, or one flow.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When it began.
    pub ts: TimeNs,
    /// The host that began it.
    pub src: Ip,
    /// The other end; equal to `src` where a log names only one.
    pub dst: Ip,
    /// Source port; for ICMP what the log has in its place.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Protocol above IP.
    pub proto: Proto,
    /// The flow's id in its log.
    pub uid: &'a [u8],
    /// What the log says it is, where it is labelled.
    pub label: Label,
    /// Older than records that have been seen before it: it enters no sequence.
    pub is_late: bool,
    /// The rest, by kind of log.
    pub body: Body<'a>,
}

/// The protocol above IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Proto {
    /// TCP
    Tcp,
    /// UDP
    Udp,
    /// ICMP
    Icmp,
    /// ICMP of IPv6
    IcmpV6,
    /// IGMP
    Igmp,
    /// ARP, which is not above IP but occurs in flow logs
    Arp,
    /// SCTP
    Sctp,
    /// GRE
    Gre,
    /// Any other
    #[default]
    Other,
}

impl Proto {
    /// All, by the number that is kept of each in state and on disk: new ones go to the end.
    pub const ALL: [Proto; 9] = [
        Proto::Tcp,
        Proto::Udp,
        Proto::Icmp,
        Proto::IcmpV6,
        Proto::Igmp,
        Proto::Arp,
        Proto::Sctp,
        Proto::Gre,
        Proto::Other,
    ];

    /// The one that is kept as this number (`as u8`).
    pub fn from_kept(number: u8) -> Option<Proto> {
        Proto::ALL.get(usize::from(number)).copied()
    }

    /// The name in logs and texts.
    pub const fn name(self) -> &'static str {
        match self {
            Proto::Tcp => "tcp",
            Proto::Udp => "udp",
            Proto::Icmp => "icmp",
            Proto::IcmpV6 => "ipv6-icmp",
            Proto::Igmp => "igmp",
            Proto::Arp => "arp",
            Proto::Sctp => "sctp",
            Proto::Gre => "gre",
            Proto::Other => "unknown",
        }
    }

    /// The protocol of that name, in any case.
    #[inline]
    pub fn from_name(name: &[u8]) -> Proto {
        let is = |text: &str| name.eq_ignore_ascii_case(text.as_bytes());
        match name.first().map(u8::to_ascii_lowercase) {
            Some(b't') if is("tcp") => Proto::Tcp,
            Some(b'u') if is("udp") => Proto::Udp,
            Some(b'i') if is("icmp") => Proto::Icmp,
            Some(b'i') if is("ipv6-icmp") || is("icmp6") || is("icmpv6") => Proto::IcmpV6,
            Some(b'i') if is("igmp") => Proto::Igmp,
            Some(b'a') if is("arp") => Proto::Arp,
            Some(b's') if is("sctp") => Proto::Sctp,
            Some(b'g') if is("gre") => Proto::Gre,
            _ => Proto::Other,
        }
    }

    /// The protocol of that number.
    pub const fn from_ip(number: IpProto) -> Proto {
        match number {
            IpProto::ICMP => Proto::Icmp,
            IpProto::IGMP => Proto::Igmp,
            IpProto::TCP => Proto::Tcp,
            IpProto::UDP => Proto::Udp,
            IpProto::GRE => Proto::Gre,
            IpProto::ICMPV6 => Proto::IcmpV6,
            IpProto::SCTP => Proto::Sctp,
            _ => Proto::Other,
        }
    }

    /// ICMP of either version.
    pub const fn is_icmp(self) -> bool {
        matches!(self, Proto::Icmp | Proto::IcmpV6)
    }
}

/// What a labelled log says of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Label {
    /// Nothing
    #[default]
    None,
    /// Harmless
    Benign,
    /// An attack or malware
    Malicious,
}

/// A hardware address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// `ff:ff:ff:ff:ff:ff`
    pub const BROADCAST: Mac = Mac([0xff; 6]);
    /// `00:00:00:00:00:00`
    pub const ZERO: Mac = Mac([0; 6]);

    /// Reads `aa:bb:cc:dd:ee:ff`.
    pub fn parse(text: &[u8]) -> Option<Mac> {
        let mut mac = [0; 6];
        let mut parts = text.split(|b| *b == b':' || *b == b'-');
        for byte in &mut mac {
            let part = parts.next().filter(|p| (1..=2).contains(&p.len()))?;
            for digit in part {
                *byte = *byte << 4 | u8::try_from((*digit as char).to_digit(16)?).ok()?;
            }
        }
        parts.next().is_none().then_some(Mac(mac))
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// Several values of one field, as they are in the line.
#[derive(Clone, Copy, Debug, Default)]
pub struct List<'a> {
    /// The text: values separated by commas, or the inside of a JSON array of strings.
    pub raw: &'a [u8],
    /// Whether it is JSON.
    pub is_json: bool,
}

impl<'a> List<'a> {
    /// Its values. In JSON, a value with escapes is given as it is in the line.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.raw;
        std::iter::from_fn(move || {
            if !self.is_json {
                if rest.is_empty() {
                    return None;
                }
                let end = rest.iter().position(|b| *b == b',').unwrap_or(rest.len());
                let value = rest.get(..end)?;
                rest = rest.get(end + 1..).unwrap_or_default();
                return Some(value);
            }
            let start = rest.iter().position(|b| !matches!(b, b',' | b' ' | b'[' | b']'))?;
            rest = rest.get(start..)?;
            let Some(inner) = rest.strip_prefix(b"\"") else {
                let end = rest.iter().position(|b| matches!(b, b',' | b']')).unwrap_or(rest.len());
                let value = rest.get(..end)?;
                rest = rest.get(end..)?;
                return Some(value.trim_ascii());
            };
            let mut end = 0;
            while let Some(b) = inner.get(end) {
                match b {
                    b'"' => break,
                    b'\\' => end += 2,
                    _ => end += 1,
                }
            }
            let end = end.min(inner.len());
            rest = inner.get(end + 1..).unwrap_or_default();
            inner.get(..end)
        })
    }

    /// Without values.
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }
}

/// The application protocol of a flow, by Zeek's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service<'a> {
    /// None is known.
    #[default]
    Unknown,
    /// DNS
    Dns,
    /// FTP
    Ftp,
    /// Data connections of FTP
    FtpData,
    /// HTTP
    Http,
    /// NTP
    Ntp,
    /// QUIC
    Quic,
    /// SMTP
    Smtp,
    /// SSH
    Ssh,
    /// TLS
    Ssl,
    /// Telnet
    Telnet,
    /// Another, or several with commas
    Other(&'a [u8]),
}

impl<'a> Service<'a> {
    /// The service that a log calls by this name.
    #[inline]
    pub fn from_name(name: &'a [u8]) -> Service<'a> {
        match name {
            b"" => Service::Unknown,
            b"dns" => Service::Dns,
            b"ftp" => Service::Ftp,
            b"ftp-data" => Service::FtpData,
            b"http" => Service::Http,
            b"ntp" => Service::Ntp,
            b"quic" => Service::Quic,
            b"smtp" => Service::Smtp,
            b"ssh" => Service::Ssh,
            b"ssl" => Service::Ssl,
            b"telnet" => Service::Telnet,
            other => Service::Other(other),
        }
    }

    /// The service that EVE's `app_proto` calls by this name.
    pub fn from_app_proto(app_proto: &'a [u8]) -> Service<'a> {
        match app_proto {
            b"failed" | b"unknown" => Service::Unknown,
            b"tls" => Service::Ssl,
            other => Service::from_name(other),
        }
    }

    /// Its name; empty if none is known.
    #[inline]
    pub fn name(self) -> &'a [u8] {
        match self {
            Service::Unknown => b"",
            Service::Dns => b"dns",
            Service::Ftp => b"ftp",
            Service::FtpData => b"ftp-data",
            Service::Http => b"http",
            Service::Ntp => b"ntp",
            Service::Quic => b"quic",
            Service::Smtp => b"smtp",
            Service::Ssh => b"ssh",
            Service::Ssl => b"ssl",
            Service::Telnet => b"telnet",
            Service::Other(name) => name,
        }
    }

    /// Whether it is this one, or this is one of several.
    pub fn includes(self, one: Service<'_>) -> bool {
        match self {
            Service::Other(names) => {
                names.split(|b| *b == b',').any(|name| Service::from_name(name) == one)
            }
            other => other == one,
        }
    }
}

/// The state of a flow at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnState<'a> {
    /// The responder refused it (Zeek's `REJ`).
    Refused,
    /// Another, as the format writes it; empty if the format has none.
    Other(&'a [u8]),
}

impl Default for ConnState<'_> {
    fn default() -> Self {
        ConnState::Other(b"")
    }
}

impl<'a> ConnState<'a> {
    /// The state that a format writes so.
    #[inline]
    pub fn from_text(text: &'a [u8]) -> ConnState<'a> {
        match text {
            b"REJ" => ConnState::Refused,
            other => ConnState::Other(other),
        }
    }

    /// As the format writes it.
    #[inline]
    pub fn text(self) -> &'a [u8] {
        match self {
            ConnState::Refused => b"REJ",
            ConnState::Other(text) => text,
        }
    }
}

/// A flow, as Zeek's `conn.log` and every flow format describes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conn<'a> {
    /// The application protocol.
    pub service: Service<'a>,
    /// Whether the input has a field for the application at all; without it its absence says
    /// nothing.
    pub knows_service: bool,
    /// Nanoseconds from first to last packet.
    pub duration_ns: i64,
    /// Payload bytes of the originator (bytes on the wire where a format has only those).
    pub orig_bytes: u64,
    /// Payload bytes of the responder.
    pub resp_bytes: u64,
    /// Bytes of the originator with headers, 0 when not reported.
    pub orig_ip_bytes: u64,
    /// Bytes of the responder with headers, 0 when not reported.
    pub resp_ip_bytes: u64,
    /// Packets of the originator.
    pub orig_pkts: u64,
    /// Packets of the responder.
    pub resp_pkts: u64,
    /// The state.
    pub state: ConnState<'a>,
    /// Whether that state means that both sides talked.
    pub is_established: bool,
    /// Letters of what happened, in Zeek's alphabet.
    pub history: &'a [u8],
    /// Hardware address of the originator.
    pub src_mac: Option<Mac>,
    /// Hardware address of the responder.
    pub dst_mac: Option<Mac>,
    /// Ports are no ports (ICMP's type and code of Argus, `0x…`).
    pub has_no_ports: bool,
}

/// Whether both sides of a flow of Suricata's kind talked. Of TCP: the responder acknowledged a SYN and did not just
/// reset; of others: both sent. `flags` are those of all packets to server and to client, where they are known;
/// `is_established` is what the flow's state says.
pub fn have_both_talked(
    is_tcp: bool,
    flags: Option<(u8, u8)>,
    packets: (u64, u64),
    is_established: bool,
) -> bool {
    const RST: u8 = 0x04;
    const SYN: u8 = 0x02;
    if !is_tcp {
        return packets.0 > 0 && packets.1 > 0;
    }
    match flags {
        Some((_, theirs)) if theirs & SYN != 0 => true,
        // A flow picked up in its middle has no SYN.
        Some((_, theirs)) => theirs != 0 && theirs & RST == 0 && packets.1 > 1,
        None => is_established || (packets.0 > 1 && packets.1 > 1),
    }
}

/// A flow that has not ended yet, as it was when `open_conn.log` was written; the same one is there
/// again until it ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenConn<'a> {
    /// The flow up to then.
    pub so_far: Conn<'a>,
}

/// A DNS query with its answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dns<'a> {
    /// The name asked for.
    pub query: &'a [u8],
    /// Class by name.
    pub qclass: &'a [u8],
    /// Type by name.
    pub qtype: &'a [u8],
    /// Result by name (`NOERROR`).
    pub rcode: &'a [u8],
    /// Addresses, names and texts answered.
    pub answers: List<'a>,
}

/// An HTTP request with its response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http<'a> {
    /// Method.
    pub method: &'a [u8],
    /// Host header.
    pub host: &'a [u8],
    /// URI.
    pub uri: &'a [u8],
    /// User-Agent header.
    pub user_agent: &'a [u8],
    /// Bytes of the request's body.
    pub request_len: u64,
    /// Bytes of the response's body.
    pub response_len: u64,
    /// Status code, 0 without a response.
    pub status: u16,
    /// Types of the response's bodies.
    pub resp_mime_types: List<'a>,
}

/// A TLS handshake.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ssl<'a> {
    /// Version.
    pub version: &'a [u8],
    /// Server name asked for.
    pub server_name: &'a [u8],
    /// Subject of the server's certificate.
    pub subject: &'a [u8],
    /// Its issuer.
    pub issuer: &'a [u8],
    /// What Zeek says of the certificate.
    pub validation_status: &'a [u8],
    /// JA3 of the client.
    pub ja3: &'a [u8],
    /// JA3S of the server.
    pub ja3s: &'a [u8],
    /// Fingerprints of the server's certificates.
    pub cert_fps: List<'a>,
    /// DNS over HTTPS, by a script of Slips.
    pub is_doh: bool,
    /// Whether the handshake ended well.
    pub is_established: bool,
}

/// An SSH connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ssh<'a> {
    /// Whether a login succeeded, where Zeek can say so.
    pub auth_success: Option<bool>,
    /// Attempts to log in.
    pub auth_attempts: u32,
    /// The client's banner.
    pub client: &'a [u8],
    /// The server's banner.
    pub server: &'a [u8],
}

/// A file that passed; the record's source sent it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// Protocol it came by.
    pub source: &'a [u8],
    /// MD5 in hex.
    pub md5: &'a [u8],
    /// SHA-1 in hex.
    pub sha1: &'a [u8],
    /// Bytes.
    pub total_bytes: u64,
    /// Type.
    pub mime_type: &'a [u8],
}

/// A notice of Zeek.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notice<'a> {
    /// Its kind (`Scan::Port_Scan`).
    pub note: &'a [u8],
    /// Its text.
    pub msg: &'a [u8],
    /// Further text.
    pub sub: &'a [u8],
}

/// An alert of a rule, as EVE's `alert` describes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleAlert<'a> {
    /// The rule's message.
    pub signature: &'a [u8],
    /// The rule's class of attack in words.
    pub category: &'a [u8],
    /// The rule's `gid`; 1 where it is not given.
    pub gid: u32,
    /// The rule's `sid`.
    pub sid: u32,
    /// Its priority: 1 is the worst, 0 is not known.
    pub severity: u8,
    /// What the rule's metadata says of how sure it is (`High`, `Medium`, `Low`).
    pub confidence: &'a [u8],
}

/// A program seen on a host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Software<'a> {
    /// Kind (`SSH::CLIENT`).
    pub software_type: &'a [u8],
    /// Name.
    pub name: &'a [u8],
    /// Major version.
    pub major: &'a [u8],
    /// Minor version.
    pub minor: &'a [u8],
    /// The text it announced itself by.
    pub unparsed: &'a [u8],
}

/// Something odd that Zeek saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weird<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// More about it.
    pub addl: &'a [u8],
}

/// A tunnel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tunnel<'a> {
    /// Kind (`Tunnel::GRE`).
    pub tunnel_type: &'a [u8],
    /// `Tunnel::DISCOVER`, `Tunnel::CLOSE`, `Tunnel::EXPIRE`.
    pub action: &'a [u8],
}

/// A mail handed over.
#[derive(Clone, Copy, Debug, Default)]
pub struct Smtp<'a> {
    /// The server's last words.
    pub last_reply: &'a [u8],
}

/// An FTP command; what matters is the port of its data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ftp<'a> {
    /// Port that the data will come to.
    pub data_port: u16,
    /// The command.
    pub command: &'a [u8],
}

/// An address lent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dhcp<'a> {
    /// The address asked for.
    pub requested: Option<Ip>,
    /// Hardware address of the host that asks.
    pub mac: Option<Mac>,
    /// Name of the host that asks.
    pub host_name: &'a [u8],
    /// The server's address.
    pub server: Option<Ip>,
}

/// An ARP packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arp<'a> {
    /// `request` or `reply`.
    pub operation: &'a [u8],
    /// Hardware address of the frame's sender.
    pub src_mac: Option<Mac>,
    /// Hardware address of the frame's receiver.
    pub dst_mac: Option<Mac>,
    /// Hardware address that the sender claims.
    pub src_hw: Option<Mac>,
    /// Hardware address of the target in the packet.
    pub dst_hw: Option<Mac>,
}

/// A login by telnet, rlogin or rsh. Passwords are not read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Login<'a> {
    /// The protocol.
    pub service: &'a [u8],
    /// Whether it succeeded.
    pub is_success: bool,
    /// Whether Zeek could not decide.
    pub is_confused: bool,
    /// The user who logged in.
    pub user: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_iso() {
        // The second is a line of Slips' alerts.json.
        for (ns, text) in [
            (0, "1970-01-01T00:00:00.000000+00:00"),
            (26_457_743_000, "1970-01-01T00:00:26.457743+00:00"),
            (1_709_210_096_018_376_000, "2024-02-29T12:34:56.018376+00:00"),
            (-1, "1969-12-31T23:59:59.999999+00:00"),
        ] {
            assert_eq!(TimeNs(ns).iso().to_string(), text);
        }
    }

    #[test]
    fn lists_give_their_values() {
        let values = |raw: &'static str, is_json| -> Vec<String> {
            let list = List { raw: raw.as_bytes(), is_json };
            list.iter().map(|v| String::from_utf8_lossy(v).into_owned()).collect()
        };
        assert_eq!(values("a,b", false), ["a", "b"]);
        assert!(values("", false).is_empty() && values("[]", true).is_empty());
        assert_eq!(values("[\"a,b\", \"c\\\"d\",5]", true), ["a,b", "c\\\"d", "5"]);
        assert_eq!(values("[\"never ends", true), ["never ends"]);
        assert_eq!(values("[\"ends with \\", true), ["ends with \\"]);
    }

    #[test]
    fn hardware_addresses_read_and_write() {
        let mac = Mac::parse(b"08:00:27:7f:09:e1").unwrap();
        assert_eq!(mac.to_string(), "08:00:27:7f:09:e1");
        assert_eq!(Mac::parse(b"08:00:27:7f:09"), None);
        assert_eq!(Mac::parse(b"08:00:27:7f:09:e1:00"), None);
    }
}

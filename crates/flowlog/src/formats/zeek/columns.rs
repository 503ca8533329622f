//! The table of columns: which fields of which Zeek log are read, and the place each has.
//!
//! Every line, TSV or JSON, becomes an array of texts at these places, out of which
//! [`super::build`] makes a record. A further field is one name here and one line there.

use gabion_record::logs::LogKind;

/// Places of a line's texts.
pub(crate) type Slots<'a> = [&'a [u8]; SLOTS];

/// How many places there are.
pub(crate) const SLOTS: usize = 22;

/// No place: the column is not read.
pub(crate) const NONE: u8 = u8::MAX;

/// Columns of all logs, at the first places.
pub(crate) const ALL: [&str; OWN] =
    ["ts", "uid", "id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto", "label"];

/// First place of a log's own columns.
pub(crate) const OWN: usize = 8;

/// Columns of one kind of log, at the places from [`OWN`] on.
pub(crate) const fn own(kind: LogKind) -> &'static [&'static str] {
    match kind {
        LogKind::Conn | LogKind::OpenConn => &[
            "service",
            "duration",
            "orig_bytes",
            "resp_bytes",
            "conn_state",
            "history",
            "orig_pkts",
            "orig_ip_bytes",
            "resp_pkts",
            "resp_ip_bytes",
            "orig_l2_addr",
            "resp_l2_addr",
        ],
        LogKind::Dns => &["query", "qclass_name", "qtype_name", "rcode_name", "answers"],
        LogKind::Http => &[
            "method",
            "host",
            "uri",
            "user_agent",
            "request_body_len",
            "response_body_len",
            "status_code",
            "resp_mime_types",
        ],
        LogKind::Ssl => &[
            "version",
            "server_name",
            "subject",
            "issuer",
            "validation_status",
            "ja3",
            "ja3s",
            "cert_chain_fps",
            "is_DoH",
            "established",
        ],
        LogKind::Ssh => &["auth_success", "auth_attempts", "client", "server"],
        LogKind::Files => &[
            "tx_hosts",
            "rx_hosts",
            "source",
            "md5",
            "sha1",
            "total_bytes",
            "mime_type",
            "conn_uids",
        ],
        LogKind::Notice => &["note", "msg", "sub", "src", "dst", "p"],
        LogKind::Software => &[
            "host",
            "host_p",
            "software_type",
            "name",
            "version.major",
            "version.minor",
            "unparsed_version",
        ],
        LogKind::Weird => &["name", "addl"],
        LogKind::Tunnel => &["tunnel_type", "action"],
        LogKind::Smtp => &["last_reply"],
        LogKind::Ftp => &["data_channel.resp_p", "command"],
        LogKind::Dhcp => {
            &["uids", "client_addr", "server_addr", "mac", "host_name", "requested_addr"]
        }
        LogKind::Arp => {
            &["operation", "src_mac", "dst_mac", "orig_h", "resp_h", "orig_hw", "resp_hw"]
        }
        // The password is not among them on purpose.
        LogKind::Login => &["success", "confused", "user", "service"],
        // Zeek has no such log.
        LogKind::RuleAlert => &[],
    }
}

/// The place of a column.
pub(crate) fn place(kind: LogKind, name: &[u8]) -> u8 {
    let find = |names: &[&str]| names.iter().position(|n| n.as_bytes() == name);
    let found = find(&ALL).or_else(|| find(own(kind)).map(|at| at + OWN));
    found.and_then(|at| u8::try_from(at).ok()).unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_place() {
        for kind in LogKind::ALL {
            assert!(OWN + own(*kind).len() <= SLOTS, "{}", kind.name());
            // Of alerts there is no log.
            let first = own(*kind).first().map(|name| usize::from(place(*kind, name.as_bytes())));
            let wanted = (*kind != LogKind::RuleAlert).then_some(OWN);
            assert_eq!(first, wanted, "{}", kind.name());
        }
        assert_eq!(place(LogKind::Login, b"password"), NONE);
    }
}

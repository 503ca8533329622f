//! Which of Zeek's logs one is: by its file name, by `#path`, or by columns that only one log has.

use gabion_record::logs::LogKind;

/// The kind that a file name says: `conn.log`, `conn.log.labeled`, `conn.00:00:00-01:00:00.log.gz`,
/// `conn_red.log`.
pub fn kind_of(name: &str) -> Option<LogKind> {
    let base = name.rsplit(['/', '\\']).next()?;
    if !base.contains(".log") {
        return None;
    }
    let stem = base.split(['.', '-']).next()?;
    open_or(stem.as_bytes(), stem.split('_').next()?.as_bytes())
}

/// The kind by a whole stem or by its first word: `open_conn` is a log of its own, `conn_red` is not.
fn open_or(stem: &[u8], word: &[u8]) -> Option<LogKind> {
    let found = LogKind::from_name(stem).or_else(|| LogKind::from_name(word));
    // Alerts come out of EVE, never as a log of their own.
    found.filter(|kind| *kind != LogKind::RuleAlert)
}

/// The kind that `#path` says.
pub(super) fn kind_of_path(path: &[u8]) -> Option<LogKind> {
    let stem = path.split(|b| matches!(b, b'-' | b'.')).next()?;
    open_or(stem, stem.split(|b| *b == b'_').next()?)
}

/// The kind of a JSON line by its `_path` or by columns that only one log has.
pub(super) fn json_kind(line: &[u8]) -> Option<LogKind> {
    let mut by_path = None;
    let mut by_column = None;
    crate::json::members(line, |key, value| {
        let kind = match key {
            b"_path" => {
                by_path = kind_of_path(value.raw());
                return;
            }
            b"conn_state" => LogKind::Conn,
            b"qtype_name" | b"rcode_name" => LogKind::Dns,
            b"status_code" | b"user_agent" => LogKind::Http,
            b"cipher" | b"validation_status" => LogKind::Ssl,
            b"auth_attempts" => LogKind::Ssh,
            b"tx_hosts" => LogKind::Files,
            b"note" => LogKind::Notice,
            b"software_type" => LogKind::Software,
            b"tunnel_type" => LogKind::Tunnel,
            b"last_reply" => LogKind::Smtp,
            b"requested_addr" | b"lease_time" => LogKind::Dhcp,
            b"operation" => LogKind::Arp,
            _ => return,
        };
        by_column = Some(kind);
    })?;
    by_path.or(by_column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_the_kind() {
        for (name, kind) in [
            ("a/conn.log", Some(LogKind::Conn)),
            ("conn.log.labeled", Some(LogKind::Conn)),
            ("dns.00:00:00-01:00:00.log.gz", Some(LogKind::Dns)),
            ("conn-summary.log", Some(LogKind::Conn)),
            ("open_conn.log", Some(LogKind::OpenConn)),
            ("open_conn.17_32_32-18_00_00.log.gz", Some(LogKind::OpenConn)),
            ("open_http.log", None),
            ("stats.log", None),
            ("x.pcap", None),
        ] {
            assert_eq!(kind_of(name), kind, "{name}");
        }
    }
}

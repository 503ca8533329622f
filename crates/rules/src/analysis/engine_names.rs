//! Names of the inspections that are neither of a buffer nor of events, as Suricata 8.0.7 writes them in `rules.json`:
//! mostly the keyword's, but some keywords share a list of conditions. Found by the analysis of one rule for each
//! keyword.

/// Keywords, and the list that holds their conditions.
const LISTS: &[(&str, &[&str])] = &[
    ("cip", &["cip_service"]),
    ("dce_generic", &["dcerpc.iface", "dcerpc.opnum"]),
    ("dhcp.rebinding-time", &["dhcp.rebinding_time"]),
    ("dnp3", &["dnp3_func", "dnp3_ind", "dnp3_obj"]),
    ("enip.command", &["enip_command"]),
    (
        "http2",
        &[
            "http2.errorcode",
            "http2.frametype",
            "http2.priority",
            "http2.settings",
            "http2.size_update",
            "http2.window",
        ],
    ),
    ("krb5_ticket_encryption", &["krb5.ticket_encryption"]),
    ("nfs_request", &["nfs.version", "nfs_procedure"]),
    ("ntp.generic", &["ntp.version"]),
    ("smb_version", &["smb.version"]),
    ("snmp.generic", &["snmp.pdu_type", "snmp.version"]),
    ("tls_generic", &["ssl_state", "ssl_version", "tls.version"]),
];

/// Keywords whose conditions are in the list of their state, which is named after protocol and state.
const OF_STATES: &[&str] = &[
    "app-layer-state",
    "ftpbounce",
    "lua",
    "tls.cert_chain_len",
    "tls_cert_expired",
    "tls_cert_notafter",
    "tls_cert_notbefore",
    "tls_cert_valid",
];

/// The name of the inspection that a keyword adds to; `None`: that of its state.
pub(super) fn engine_name(keyword: &'static str) -> Option<&'static str> {
    if OF_STATES.contains(&keyword) {
        return None;
    }
    let shared = LISTS.iter().find(|(_, keywords)| keywords.contains(&keyword));
    Some(shared.map_or(keyword, |(list, _)| list))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_share_lists() {
        for (keyword, name) in [
            ("dcerpc.opnum", Some("dce_generic")),
            ("ftp.mode", Some("ftp.mode")),
            ("ftpbounce", None),
            ("tls.version", Some("tls_generic")),
        ] {
            assert_eq!(engine_name(keyword), name);
        }
    }
}

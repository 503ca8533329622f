//! DNS over HTTP/2 (RFC 8484): a connection of HTTP/2 in which a DNS message was found.
//!
//! It is never found by its bytes: the parser of HTTP/2 renames the flow and reads it further.

use crate::protocol::Protocol;

/// DNS over HTTP/2 in the registry.
pub const PROTOCOL: &Protocol = &Protocol {
    auto_trigger_raw: false,
    event_type: "http",
    eve_type: "doh2",
    ..Protocol::plain(crate::http2::tables::DOH2_TABLE)
};

//! Limits that several protocols share; each protocol's own are in its folder.

use gabion_record::limits;

limits! { "proto";
    /// Bytes of unparsed input kept per direction while a parser waits for more (a TLS record is the
    /// largest unit anybody waits for whole: 16 KiB and its header, twice for safety).
    pub const PENDING_BYTES_MAX: usize = 64 * 1024,
        Loses("bytes of a message that came before what they wait for");

    /// Kinds of events kept of a transaction: more than any protocol has.
    pub const EVENTS_PER_TX_MAX: usize = 64,
        Loses("events of a transaction");

    /// Occurrences of events kept of a transaction by protocols that report each: Suricata's own (of a
    /// SMTP session without a greeting, 8.0.7 reports 255 of 2,000 lines).
    pub const EVENT_OCCURRENCES_PER_TX_MAX: usize = 255,
        Loses("further occurrences of events of a transaction");

    /// Files of a transaction. Suricata sets no bound of its own (8.0.7 keeps 1,300 of 1,300); each takes some bytes
    /// of the message, and what a flow holds is taken from the budget of the application layer.
    pub const FILES_PER_FLOW_MAX: usize = 65_536,
        Loses("files");

    /// Live transactions of a flow of datagrams: the engine frees one with the datagram it came in,
    /// unless its record waits for something.
    pub const DATAGRAM_TXS_MAX: usize = 1024,
        Loses("the oldest transaction of a flow");
}

/// The tables of all protocols, this one first.
pub fn tables() -> Vec<&'static [&'static limits::Limit]> {
    vec![
        TABLE,
        crate::bittorrent_dht::limits::TABLE,
        crate::dcerpc::limits::TABLE,
        crate::dnp3::limits::TABLE,
        crate::dns::limits::TABLE,
        crate::enip::limits::TABLE,
        crate::ftp::limits::TABLE,
        crate::http1::limits::TABLE,
        crate::http2::limits::TABLE,
        crate::ike::limits::TABLE,
        crate::krb5::limits::TABLE,
        crate::ldap::limits::TABLE,
        crate::modbus::limits::TABLE,
        crate::mqtt::limits::TABLE,
        crate::nfs::limits::TABLE,
        crate::pgsql::limits::TABLE,
        crate::quic::limits::TABLE,
        crate::rdp::limits::TABLE,
        crate::pop3::limits::TABLE,
        crate::rfb::limits::TABLE,
        crate::sip::limits::TABLE,
        crate::smb::limits::TABLE,
        crate::smtp::limits::TABLE,
        crate::snmp::limits::TABLE,
        crate::ssh::limits::TABLE,
        crate::template::limits::TABLE,
        crate::tls::limits::TABLE,
        crate::websocket::limits::TABLE,
    ]
}

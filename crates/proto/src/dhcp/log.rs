//! EVE records of DHCP: acknowledgements, or all messages when `extended`; and what the behaviour engine takes of a
//! message.

use super::{DhcpTx, option};
use crate::LogOptions;
use gabion_record::hex::to_hex_pairs;
use gabion_record::json::{Json, readable};
use gabion_record::logs::{Body, Dhcp, Mac};
use gabion_record::{Ip, TakeReport, TxReport};

/// Kinds of messages (RFC 2132 9.6, 3203, 4388).
const KINDS: &[&str] =
    &["discover", "offer", "request", "decline", "ack", "nak", "release", "inform"];

const ACK: u8 = 5;

/// Names of parameters that are asked for.
const PARAMETERS: &[(u8, &str)] = &[
    (1, "subnet_mask"),
    (3, "router"),
    (6, "dns_server"),
    (15, "domain"),
    (35, "arp_timeout"),
    (42, "ntp_server"),
    (66, "tftp_server_name"),
    (67, "boot_file_name"),
    (120, "sip_server"),
];

/// Writes the record. False when the message is not one that is logged.
pub(super) fn write(tx: &DhcpTx, json: &mut Json, how: LogOptions<'_>) -> bool {
    let is_extended = how.in_alert || how.config.and_then(|c| c.flag("extended")) == Some(true);
    if !is_extended && tx.kind() != Some(ACK) {
        return false;
    }
    let operation = tx.bytes.first().copied();
    json.field_plain(
        "type",
        match operation {
            Some(1) => "request",
            Some(2) => "reply",
            _ => "<unknown>",
        },
    );
    json.number("id", u32::from_be_bytes(tx.four(4)));
    let address_len = usize::from(tx.bytes.get(2).copied().unwrap_or(0)).min(16);
    json.field_plain("client_mac", &hex(tx.bytes.get(28..28 + address_len).unwrap_or_default()));
    json.field_plain("assigned_ip", &address(tx.four(16)));
    if is_extended {
        json.field_plain("client_ip", &address(tx.four(12)));
        if operation == Some(2) {
            json.field_plain("relay_ip", &address(tx.four(24)));
            json.field_plain("next_server_ip", &address(tx.four(20)));
        }
    }
    for (code, value) in tx.options() {
        write_option(code, value, is_extended, json);
    }
    true
}

/// Reports a message. Of an option that is there twice the last one counts.
pub(super) fn report(tx: &DhcpTx, to: TakeReport<'_>) {
    let options = || tx.options();
    let last = |wanted: u8| options().filter(|(code, _)| *code == wanted).map(|(_, v)| v).last();
    let four = |value: &[u8]| value.try_into().ok().map(|b| Ip::v4(u32::from_be_bytes(b)));
    let requested = options().filter(|(code, _)| *code == option::REQUESTED_IP);
    let mac = tx.bytes.get(28..34).filter(|_| tx.bytes.get(2) == Some(&6));
    let dhcp = Dhcp {
        requested: requested.filter_map(|(_, value)| four(value)).last(),
        mac: mac.and_then(|mac| mac.try_into().ok()).map(Mac),
        host_name: &readable(last(option::HOSTNAME).unwrap_or_default()),
        server: None,
    };
    to(&TxReport {
        is_response: tx.bytes.first() == Some(&2),
        client: [12, 16].map(|at| four(&tx.four(at))),
        ..TxReport::from_body(Body::Dhcp(dhcp))
    });
}

fn write_option(code: u8, value: &[u8], is_extended: bool, json: &mut Json) {
    let seconds = || value.try_into().map(u32::from_be_bytes);
    match code {
        option::TYPE => {
            let kind = value.first().and_then(|k| KINDS.get(usize::from(*k).checked_sub(1)?));
            json.field_plain("dhcp_type", kind.copied().unwrap_or("unknown"));
        }
        option::HOSTNAME => json.field("hostname", value),
        option::RENEWAL_TIME => _ = seconds().map(|n| json.number("renewal_time", n)),
        _ if !is_extended => {}
        option::REQUESTED_IP => one("requested_ip", value, json),
        option::SUBNET_MASK => one("subnet_mask", value, json),
        option::LEASE_TIME => _ = seconds().map(|n| json.number("lease_time", n)),
        option::REBINDING_TIME => _ = seconds().map(|n| json.number("rebinding_time", n)),
        option::ROUTERS => many("routers", value, json),
        option::DNS_SERVERS => many("dns_servers", value, json),
        option::VENDOR_CLASS => json.field("vendor_class_identifier", value),
        option::CLIENT_ID => {
            json.field_plain("client_id", &hex(value.get(1..).unwrap_or_default()));
        }
        option::PARAMETERS => {
            json.open_array_key("params");
            let names = value.iter().filter_map(|p| PARAMETERS.iter().find(|(n, _)| n == p));
            names.for_each(|(_, name)| json.item(name));
            json.close_array();
        }
        _ => {}
    }
}

fn one(key: &str, value: &[u8], json: &mut Json) {
    if let Ok(value) = value.try_into() {
        json.field_plain(key, &address(value));
    }
}

fn many(key: &str, value: &[u8], json: &mut Json) {
    json.open_array_key(key);
    for four in value.chunks_exact(4) {
        json.item(address(four.try_into().unwrap_or_default()));
    }
    json.close_array();
}

fn address([a, b, c, d]: [u8; 4]) -> String {
    format!("{a}.{b}.{c}.{d}")
}

fn hex(bytes: &[u8]) -> String {
    to_hex_pairs(bytes, ':')
}

//! EVE records of IKE.

use super::names;
use super::tx::{IkeTx, Part, Part1, Part2, SideKeys};
use super::v1::{Transform, Value};
use gabion_record::Direction;
use gabion_record::json::Json;

/// The sender began the exchange (RFC 7296 3.1).
const INITIATOR: u8 = 8;

/// Notifications below are errors (RFC 7296 3.10.1).
const FIRST_STATUS: u16 = 16_384;

/// Writes the record; alerts name the exchange too.
pub(super) fn write_record(tx: &IkeTx, json: &mut Json, in_alert: bool) {
    let header = &tx.header;
    json.number("version_major", header.version >> 4);
    json.number("version_minor", header.version & 15);
    json.field("init_spi", tx.init_spi);
    json.field("resp_spi", tx.resp_spi);
    json.number("message_id", header.message_id);
    json.number("exchange_type", header.exchange);
    match &tx.part {
        Part::One(part) => {
            if in_alert {
                let name = names::exchange_1(header.exchange).unwrap_or("Unknown Exchange Type");
                json.field_plain("exchange_type_verbose", name);
            }
            write_attributes(&part.chosen, json);
            if tx.direction == Direction::ToClient && part.transforms.len() > 1 {
                write_transforms("server_proposals", &part.transforms, json);
            }
            json.open_array_key("payload");
            tx.kinds.iter().filter_map(|kind| names::payload_1(*kind)).for_each(|k| json.item(k));
            json.close_array();
            write_part_1(tx, part, json);
        }
        Part::Two(part) => {
            let is_initiator = header.flags & INITIATOR != 0;
            let role = if is_initiator { "initiator" } else { "responder" };
            json.field_plain("role", role);
            if !is_initiator {
                write_choice(part, json);
            }
            json.open_array_key("payload");
            tx.kinds.iter().for_each(|kind| json.item(names::payload_2(*kind).as_bytes()));
            json.close_array();
            write_part_2(part, json);
        }
    }
}

fn write_attributes(transform: &Transform, json: &mut Json) {
    for attribute in transform {
        let key = names::attribute_key(attribute.kind);
        json.field_plain(key, attribute.name);
        let key = format!("{key}_raw");
        match &attribute.value {
            Value::Number(n) => json.number(&key, *n),
            Value::Bytes(bytes) => json.hex(&key, bytes),
        }
    }
}

fn write_transforms(key: &str, transforms: &[Transform], json: &mut Json) {
    json.open_array_key(key);
    for transform in transforms {
        json.open();
        write_attributes(transform, json);
        json.close();
    }
    json.close_array();
}

fn write_side(key: &str, side: &SideKeys, proposals: &[Transform], json: &mut Json) {
    json.open_key(key);
    if !side.key_exchange.is_empty() {
        json.hex("key_exchange_payload", &side.key_exchange);
        json.number("key_exchange_payload_length", side.key_exchange.len());
    }
    if !side.nonce.is_empty() {
        json.hex("nonce_payload", &side.nonce);
        json.number("nonce_payload_length", side.nonce.len());
    }
    if !proposals.is_empty() {
        write_transforms("proposals", proposals, json);
    }
    json.close();
}

fn write_part_1(tx: &IkeTx, part: &Part1, json: &mut Json) {
    json.open_key("ikev1");
    if let Some(doi) = part.doi {
        json.number("doi", doi);
    }
    json.boolean("encrypted_payloads", part.is_encrypted);
    if part.is_encrypted {
        return json.close();
    }
    let is_client = tx.direction == Direction::ToServer;
    let [client, server] = &part.sides;
    write_side("client", client, if is_client { &part.transforms } else { &[] }, json);
    write_side("server", server, &[], json);
    if !part.vendors.is_empty() {
        json.open_array_key("vendor_ids");
        part.vendor_texts.iter().for_each(|text| json.item(text));
        json.close_array();
    }
    json.close();
}

fn write_choice(part: &Part2, json: &mut Json) {
    let choice = part.choice;
    json.field_plain("alg_enc", &names::encryption_2(choice.encryption));
    json.field_plain("alg_auth", &names::integrity_2(choice.integrity));
    json.field_plain("alg_prf", &names::prf_2(choice.prf));
    json.field_plain("alg_dh", &names::group_2(choice.group));
    json.field_plain("alg_esn", &names::sequence_2(choice.sequence));
}

fn write_part_2(part: &Part2, json: &mut Json) {
    json.open_key("ikev2");
    json.number("errors", part.notifications.iter().filter(|n| **n < FIRST_STATUS).count());
    if !part.notifications.is_empty() {
        json.open_array_key("notify");
        for notification in &part.notifications {
            json.item(names::notification_2(*notification).as_bytes());
        }
        json.close_array();
    }
    json.close();
}

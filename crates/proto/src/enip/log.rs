//! EVE records of ENIP.

use super::cip::{ATTRIBUTE, Body, CLASS, Cip, INSTANCE, segments};
use super::message::{Data, Identity, Message};
use super::names::{
    CLASSES, DEVICE_TYPES, EXTENDED_STATUSES, SERVICES, STATUSES, name_of, vendor_name,
};
use super::tables::{COMMANDS, STATUSES as COMMAND_STATUSES, name_of as word_of};
use super::tx::EnipTx;
use gabion_record::json::Json;

/// Writes the members.
pub(super) fn write(tx: &EnipTx, json: &mut Json) {
    if let Some(request) = &tx.request {
        json.open_key("request");
        write_message(request, json);
        json.close();
    }
    if let Some(response) = &tx.response {
        json.open_key("response");
        write_message(response, json);
        match &response.data {
            Data::Identity(identity) => write_identity(identity, json),
            Data::Services(service) => {
                json.open_key("list_services");
                json.number("protocol_version", service.protocol_version);
                json.number("capabilities", service.capabilities);
                json.field("service_name", String::from_utf8_lossy(&service.name).as_bytes());
                json.close();
            }
            Data::Invalid | Data::Other | Data::Registration { .. } | Data::Items { .. } => {}
        }
        json.close();
    }
}

/// Writes a name, or the number where there is none.
fn write_name(key: &str, name: Option<&str>, number: u32, json: &mut Json) {
    match name {
        Some(name) => json.field(key, name),
        None => json.field(key, format!("unknown-{number}")),
    }
}

fn write_message(message: &Message, json: &mut Json) {
    let header = message.header;
    let command = word_of(COMMANDS, header.command.into());
    write_name("command", command, header.command.into(), json);
    let status = word_of(COMMAND_STATUSES, header.status.into());
    write_name("status", status, header.status, json);
    if header.options != 0 {
        json.number("options", header.options);
    }
    if let Data::Registration { protocol_version, options } = &message.data {
        json.open_key("register_session");
        json.number("protocol_version", *protocol_version);
        json.number("options", *options);
        json.close();
    }
    if let Some(cip) = message.cip().and_then(|data| data.message()) {
        json.open_key("cip");
        write_cip(cip, json);
        let mut nested = cip.nested.iter().peekable();
        if nested.peek().is_some() {
            json.open_array_key("multiple");
            for (_, cip) in nested {
                json.open();
                write_cip(cip, json);
                json.close();
            }
            json.close_array();
        }
        json.close();
    }
}

fn write_cip(cip: Cip<'_>, json: &mut Json) {
    let service = u32::from(cip.service);
    write_name("service", name_of(SERVICES, service), service, json);
    match cip.body {
        Body::Request { path, .. } => write_path(path, json),
        Body::Response { status, extended } => {
            write_name("status", name_of(STATUSES, status.into()), status.into(), json);
            if !extended.is_empty() {
                json.hex("status_extended", extended);
                let code = <[u8; 2]>::try_from(extended).ok().map(u16::from_le_bytes);
                if let Some(text) = code.and_then(|c| name_of(EXTENDED_STATUSES, c.into())) {
                    json.field_plain("status_extended_meaning", text);
                }
            }
        }
    }
}

fn write_path(path: &[u8], json: &mut Json) {
    if path.is_empty() {
        return;
    }
    let mut class = None;
    json.open_array_key("path");
    for segment in segments(path) {
        json.open();
        let name = match segment.kind() {
            CLASS => Some("class"),
            INSTANCE => Some("instance"),
            ATTRIBUTE => Some("attribute"),
            _ => None,
        };
        write_name("segment_type", name, segment.octet.into(), json);
        json.number("value", segment.value);
        json.close();
        if segment.kind() == CLASS {
            class = Some(segment.value);
        }
    }
    json.close_array();
    // The last one counts (Suricata 8.0.7).
    if let Some(class) = class {
        write_name("class_name", name_of(CLASSES, class), class, json);
    }
}

fn write_identity(identity: &Identity, json: &mut Json) {
    json.open_key("identity");
    json.number("protocol_version", identity.protocol_version);
    let [major, minor] = identity.revision;
    json.field("revision", format!("{major}.{minor}"));
    write_name("vendor_id", vendor_name(identity.vendor), identity.vendor.into(), json);
    let device_type = name_of(DEVICE_TYPES, identity.device_type.into());
    write_name("device_type", device_type, identity.device_type.into(), json);
    json.number("product_code", identity.product_code);
    json.number("status", identity.status);
    json.number("serial", identity.serial);
    json.field("product_name", String::from_utf8_lossy(&identity.name).as_bytes());
    json.number("state", identity.state);
    json.close();
}

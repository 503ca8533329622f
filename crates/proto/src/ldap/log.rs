//! EVE records of LDAP.

use super::message::{Attribute, Control, LdapResult, Message, Operation, Span};
use super::tables::{OPERATIONS, RESULT_CODES, name_of};
use super::tx::LdapTx;
use gabion_record::json::Json;

/// Writes the record.
pub(super) fn write(tx: &LdapTx, json: &mut Json) {
    if let Some(request) = &tx.request {
        json.open_key("request");
        json.number("message_id", request.id);
        write_operation(request, json, true);
        json.close();
    }
    if tx.responses.is_empty() {
        return;
    }
    json.open_array_key("responses");
    for response in &tx.responses {
        json.open();
        if tx.request.is_none() {
            json.number("message_id", response.id);
        }
        write_operation(response, json, false);
        json.close();
    }
    json.close_array();
}

/// Of a message that came from the wrong side only the operation's name is logged.
fn write_operation(message: &Message, json: &mut Json, is_of_client: bool) {
    let name = name_of(OPERATIONS, message.code.into()).unwrap_or_default();
    json.field_plain("operation", name);
    if message.is_request() == is_of_client {
        write_body(message, json, name);
    }
    if let Some(controls) = &message.controls {
        write_controls(message, json, controls);
    }
}

fn write_body(message: &Message, json: &mut Json, name: &str) {
    if matches!(
        message.operation,
        Operation::Unbind | Operation::Abandon(_) | Operation::Reference(_)
    ) {
        return;
    }
    let text = |json: &mut Json, key: &str, span: Span| json.field(key, message.bytes(span));
    let optional = |json: &mut Json, key: &str, span: Option<Span>| {
        if let Some(span) = span {
            json.field(key, message.bytes(span));
        }
    };
    json.open_key(name);
    match &message.operation {
        Operation::Unbind | Operation::Abandon(_) | Operation::Reference(_) => {}
        Operation::Bind { version, name, sasl } => {
            json.number("version", *version);
            text(json, "name", *name);
            if let Some((mechanism, credentials)) = sasl {
                json.open_key("sasl");
                text(json, "mechanism", *mechanism);
                if let Some(credentials) = credentials {
                    json.hex("credentials", message.bytes(*credentials));
                }
                json.close();
            }
        }
        Operation::Search(search) => {
            text(json, "base_object", search.base);
            json.number("scope", search.scope);
            json.number("deref_alias", search.deref_aliases);
            json.number("size_limit", search.size_limit);
            json.number("time_limit", search.time_limit);
            json.boolean("types_only", search.types_only);
            if let Some(present) = search.present {
                json.open_key("filter");
                json.field_plain("type", "present");
                text(json, "value", present);
                json.close();
            }
            write_texts(message, json, "attributes", &search.attributes);
        }
        Operation::Modify { object, changes } => {
            text(json, "object", *object);
            if !changes.is_empty() {
                json.open_array_key("changes");
                for change in changes {
                    json.open();
                    write_change_kind(change.operation, json);
                    json.open_key("modification");
                    text(json, "attribute_type", change.attribute.name);
                    write_texts(message, json, "attribute_values", &change.attribute.values);
                    json.close();
                    json.close();
                }
                json.close_array();
            }
        }
        Operation::Add { entry, attributes } => {
            text(json, "entry", *entry);
            write_attributes(message, json, "name", attributes);
        }
        Operation::Delete(dn) => text(json, "dn", *dn),
        Operation::ModifyDn { entry, new_rdn, deletes_old, new_superior } => {
            text(json, "entry", *entry);
            text(json, "new_rdn", *new_rdn);
            json.boolean("delete_old_rdn", *deletes_old);
            optional(json, "new_superior", *new_superior);
        }
        Operation::Compare { entry, attribute, value } => {
            text(json, "entry", *entry);
            json.open_key("attribute_value_assertion");
            text(json, "description", *attribute);
            text(json, "value", *value);
            json.close();
        }
        Operation::Extended { name, value } => {
            text(json, "name", *name);
            optional(json, "value", *value);
        }
        Operation::Result(result) => write_result(message, json, result),
        Operation::BindResult(result, credentials) => {
            write_result(message, json, result);
            if let Some(credentials) = credentials {
                json.hex("server_sasl_creds", message.bytes(*credentials));
            }
        }
        Operation::ExtendedResult { result, name, value } => {
            write_result(message, json, result);
            optional(json, "name", *name);
            optional(json, "value", *value);
        }
        Operation::Entry { name, attributes } => {
            text(json, "base_object", *name);
            write_attributes(message, json, "type", attributes);
        }
        Operation::Intermediate { name, value } => {
            optional(json, "name", *name);
            optional(json, "value", *value);
        }
    }
    json.close();
}

fn write_result(message: &Message, json: &mut Json, result: &LdapResult) {
    match name_of(RESULT_CODES, result.code.into()) {
        Some(name) => json.field_plain("result_code", name),
        None => json.field_plain("result_code", &format!("unknown-{}", result.code)),
    }
    json.field("matched_dn", message.bytes(result.matched_dn));
    json.field("message", message.bytes(result.message));
}

fn write_change_kind(kind: u32, json: &mut Json) {
    match ["add", "delete", "replace"].get(kind as usize) {
        Some(name) => json.field_plain("operation", name),
        None => json.field_plain("operation", itoa::Buffer::new().format(kind)),
    }
}

fn write_texts(message: &Message, json: &mut Json, key: &str, spans: &[Span]) {
    if !spans.is_empty() {
        json.open_array_key(key);
        spans.iter().for_each(|span| json.item(message.bytes(*span)));
        json.close_array();
    }
}

fn write_attributes(message: &Message, json: &mut Json, key: &str, attributes: &[Attribute]) {
    if !attributes.is_empty() {
        json.open_array_key("attributes");
        for attribute in attributes {
            json.open();
            json.field(key, message.bytes(attribute.name));
            write_texts(message, json, "values", &attribute.values);
            json.close();
        }
        json.close_array();
    }
}

fn write_controls(message: &Message, json: &mut Json, controls: &[Control]) {
    json.open_array_key("controls");
    for control in controls {
        json.open();
        json.field("control_type", message.bytes(control.kind));
        json.boolean("criticality", control.is_critical);
        if let Some(value) = control.value {
            json.hex("control_value", message.bytes(value));
        }
        json.close();
    }
    json.close_array();
}

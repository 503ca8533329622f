//! EVE records of Modbus.

use super::function::{
    ACCESS_NAMES, category_name, diagnostic_name, exception_name, interface_name,
};
use super::message::{Data, Message, Range, Write, fault};
use super::tx::ModbusTx;
use gabion_record::json::Json;

/// Names of faults in the order of a record.
const FAULT_NAMES: &[(&str, u8)] = &[
    ("DATA_VALUE", fault::VALUE),
    ("DATA_LENGTH", fault::LENGTH),
    ("EXC_CODE", fault::EXCEPTION_CODE),
    ("FUNC_CODE", fault::FUNCTION_CODE),
    ("PROTO_ID", fault::PROTOCOL),
];

/// Writes the members.
pub(super) fn write(tx: &ModbusTx, json: &mut Json) {
    json.number("id", tx.id + 1);
    for (key, message) in [("request", &tx.request), ("response", &tx.response)] {
        if let Some(message) = message {
            json.open_key(key);
            write_message(message, json);
            json.close();
        }
    }
}

/// Names of the bits that are set.
fn write_bits(json: &mut Json, key: &str, bits: u8, names: &[(&str, u8)]) {
    let mut text = String::new();
    for (name, _) in names.iter().filter(|(_, bit)| bits & bit == *bit) {
        if !text.is_empty() {
            text.push_str(" | ");
        }
        text.push_str(name);
    }
    json.field_plain(key, if text.is_empty() { "NONE" } else { &text });
}

fn write_message(message: &Message, json: &mut Json) {
    json.number("transaction_id", message.transaction);
    json.number("protocol_id", message.protocol);
    json.number("unit_id", message.unit);
    json.number("function_raw", message.code);
    json.field_plain("function_code", message.function().map_or("Unknown", |f| f.name));
    write_bits(json, "access_type", message.access(), ACCESS_NAMES);
    json.field_plain("category", category_name(message.category));
    write_bits(json, "error_flags", message.faults, FAULT_NAMES);
    match &message.data {
        Data::Empty => {}
        Data::Bytes(data) => json.field("data", data),
        Data::Exception(code) => {
            write_code(json, "exception", *code, exception_name(*code).unwrap_or("Unknown"), None);
        }
        Data::Diagnostic { code, data } => {
            let name = diagnostic_name(*code).unwrap_or("Reserved");
            write_code(json, "diagnostic", *code, name, Some(data));
        }
        Data::Interface { number, data } => {
            let name = interface_name(*number).unwrap_or("Unknown");
            write_code(json, "mei", *number, name, Some(data));
        }
        Data::Read(range) => write_read(*range, json),
        Data::Values(values) => {
            json.open_key("read");
            json.field("data", values);
            json.close();
        }
        Data::Write(write) => write_write(write, json),
        Data::ReadWrite(range, write) => {
            write_read(*range, json);
            write_write(write, json);
        }
    }
}

/// A number with its name, and data.
fn write_code(
    json: &mut Json,
    key: &str,
    raw: impl itoa::Integer,
    name: &str,
    data: Option<&[u8]>,
) {
    json.open_key(key);
    json.number("raw", raw);
    json.field_plain("code", name);
    if let Some(data) = data {
        json.field("data", data);
    }
    json.close();
}

fn write_read(range: Range, json: &mut Json) {
    json.open_key("read");
    json.number("address", range.address);
    json.number("quantity", range.quantity);
    json.close();
}

fn write_write(write: &Write, json: &mut Json) {
    json.open_key("write");
    match write {
        Write::One { address, value } => {
            json.number("address", *address);
            json.number("data", *value);
        }
        Write::Many { range, data } => {
            json.number("address", range.address);
            json.number("quantity", range.quantity);
            json.field("data", data);
        }
        Write::Mask { address, and_mask, or_mask } => {
            json.number("address", *address);
            json.number("and_mask", *and_mask);
            json.number("or_mask", *or_mask);
        }
    }
    json.close();
}

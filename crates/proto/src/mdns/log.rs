//! EVE records of multicast DNS.

use crate::dns::message::{Message, Rdata, Record};
use crate::dns::report::write_address;
use crate::dns::tables::{rrtype, rrtype_name};
use crate::dns::{Section, name::Name};
use gabion_record::hex::to_hex_pairs;
use gabion_record::json::Json;

/// Writes the record.
pub(super) fn write(m: &Message, json: &mut Json) {
    let header = m.header;
    json.field_plain("type", if header.is_response() { "response" } else { "request" });
    json.number("id", header.id);
    let names = [("aa", 10), ("tc", 9), ("rd", 8), ("ra", 7), ("z", 6), ("ad", 5), ("cd", 4)];
    let is_set = |bit: u32| header.flags >> bit & 1 == 1;
    if names.iter().any(|(_, bit)| is_set(*bit)) {
        json.open_array_key("flags");
        names.iter().filter(|(_, bit)| is_set(*bit)).for_each(|(name, _)| json.item(name));
        json.close_array();
    }
    json.number("opcode", header.opcode());
    json.number("rcode", header.rcode());
    if !m.queries.is_empty() {
        json.open_array_key("queries");
        for q in &m.queries {
            json.open();
            write_name(m, q.name, json);
            match rrtype_name(q.rrtype) {
                Some(name) => json.field_plain("rrtype", &name.to_ascii_lowercase()),
                None => json.field_plain("rrtype", itoa::Buffer::new().format(q.rrtype)),
            }
            json.close();
        }
        json.close_array();
    }
    for (key, section) in [
        ("answers", Section::Answers),
        ("authorities", Section::Authorities),
        ("additionals", Section::Additionals),
    ] {
        write_section(key, m, m.section(section), json);
    }
}

fn write_name(m: &Message, name: Name, json: &mut Json) {
    json.field("rrname", m.name(name));
    if name.is_truncated {
        json.boolean("rrname_truncated", true);
    }
}

fn write_section(key: &str, m: &Message, records: &[Record], json: &mut Json) {
    // Options of the transport have no name to write.
    let mut written = records.iter().filter(|r| r.rrtype != rrtype::OPT).peekable();
    if written.peek().is_none() {
        return;
    }
    json.open_array_key(key);
    for r in written {
        json.open();
        write_name(m, r.name, json);
        write_data(m, r, json);
        json.close();
    }
    json.close_array();
}

/// Data of a record, under the name of its type, or its number if the type has none (Suricata 8.0.7 writes the bytes of
/// types that it does not read).
fn write_data(m: &Message, r: &Record, json: &mut Json) {
    let name = rrtype_name(r.rrtype).map(str::to_ascii_lowercase);
    let key = name.unwrap_or_else(|| r.rrtype.to_string());
    match r.data {
        Rdata::Address(address) => {
            json.key(&key);
            write_address(m.bytes(address), json);
        }
        Rdata::Name(name) => json.field(&key, m.name(name)),
        Rdata::Text(bytes) | Rdata::Other(bytes) => json.field(&key, m.bytes(bytes)),
        Rdata::Texts { first, len } => {
            json.open_array_key(&key);
            m.strings_at(first, len).iter().for_each(|text| json.item(m.bytes(*text)));
            json.close_array();
        }
        Rdata::Soa { mname, rname, numbers } => {
            json.open_key(&key);
            json.field("mname", m.name(mname));
            json.field("rname", m.name(rname));
            let names = ["serial", "refresh", "retry", "expire", "minimum"];
            names.iter().zip(numbers).for_each(|(name, n)| json.number(name, n));
            json.close();
        }
        Rdata::Srv { priority, weight, port, target } => {
            json.open_key(&key);
            json.number("priority", priority);
            json.number("weight", weight);
            json.number("port", port);
            json.field("name", m.name(target));
            json.close();
        }
        Rdata::Sshfp { algorithm, kind, fingerprint } => {
            json.open_key(&key);
            json.field_plain("fingerprint", &to_hex_pairs(m.bytes(fingerprint), ':'));
            json.number("algo", algorithm);
            json.number("type", kind);
            json.close();
        }
        Rdata::Opt { .. } => {}
    }
}

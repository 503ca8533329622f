//! EVE records of multicast DNS.

use crate::dns::message::{Message, Rdata, Record};
use crate::dns::tables::{rrtype, rrtype_name};
use crate::dns::{Section, name::Name};
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
    for (key, section, has_data) in [
        ("answers", Section::Answers, true),
        ("authorities", Section::Authorities, false),
        ("additionals", Section::Additionals, true),
    ] {
        write_section(key, m, m.section(section), has_data, json);
    }
}

fn write_name(m: &Message, name: Name, json: &mut Json) {
    json.field("rrname", m.name(name));
    if name.is_truncated {
        json.boolean("rrname_truncated", true);
    }
}

fn write_section(key: &str, m: &Message, records: &[Record], has_data: bool, json: &mut Json) {
    // Options of the transport have no name to write.
    let mut written = records.iter().filter(|r| r.rrtype != rrtype::OPT).peekable();
    if written.peek().is_none() {
        return;
    }
    json.open_array_key(key);
    for r in written {
        json.open();
        write_name(m, r.name, json);
        match r.data {
            Rdata::Name(name) if has_data && r.rrtype == rrtype::PTR => {
                json.field("ptr", m.name(name));
            }
            Rdata::Texts { first, len } if has_data => {
                let range = first as usize..(first + len) as usize;
                json.open_array_key("txt");
                let strings = m.strings.get(range).unwrap_or_default();
                strings.iter().for_each(|text| json.item(m.bytes(*text)));
                json.close_array();
            }
            _ => {}
        }
        json.close();
    }
    json.close_array();
}

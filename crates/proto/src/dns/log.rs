//! EVE records of DNS: format 3 (all of a message in one record) and format 2 (one record a query).
//!
//! The order of members is that of Suricata 8.0.7, cut marks are where it puts them. `grouped` is
//! written in the order types first appear; Suricata's order is that of a hash table.

use super::message::{Message, Rdata, Record, Section};
use super::name::Name;
use super::parser::DnsTx;
use super::report::write_address;
use super::tables::{rcode_name, rrtype_name};
use crate::LogOptions;
use gabion_record::hex;
use gabion_record::json::Json;
use gabion_record::{Direction, Tree};
use smallvec::SmallVec;

/// Says what is wrong with the version that the options ask for, in Suricata's words.
pub fn check_options(options: &Tree, say: &mut dyn FnMut(&str)) {
    let Some(text) = options.text("version") else { return };
    let said = match text.trim().parse::<u8>() {
        Ok(2 | 3) => return,
        Ok(1) => "DNS EVE v1 logging has been removed, will use v2".to_string(),
        Ok(n) => format!("Invalid EVE DNS version {n}, will use v3"),
        Err(_) => format!("Failed to parse EVE DNS log version of \"{text}\""),
    };
    say(&said);
}

/// Writes the record's members. False when the configuration leaves this one out.
pub fn write(tx: &DnsTx, json: &mut Json, how: LogOptions<'_>) -> bool {
    let config = if how.in_alert { None } else { how.config };
    let m = &tx.message;
    if !how.in_alert && !is_wanted(tx, config) {
        return false;
    }
    if is_format_2(config) {
        return match tx.direction {
            Direction::ToServer => write_query_2(tx, json, how),
            Direction::ToClient => {
                write_answer_2(tx, json, Formats::from_config(config));
                true
            }
        };
    }
    json.number("version", 3u8);
    let is_query = tx.direction == Direction::ToServer;
    json.field_plain("type", if is_query { "request" } else { "response" });
    write_message(m, Some(tx.id), json, Formats::of_alert(how, config));
    true
}

/// Members of a whole message after `version` and `type`; mDNS and DNS over HTTPS log them too.
pub fn write_message(m: &Message, tx_id: Option<u64>, json: &mut Json, formats: Formats) {
    if let Some(id) = tx_id {
        json.number("tx_id", id);
    }
    json.number("id", m.header.id);
    write_flags(m, json);
    json.number("opcode", m.header.opcode());
    write_rcode(m, json);
    if !m.queries.is_empty() {
        json.open_array_key("queries");
        for q in &m.queries {
            json.open();
            json.field("rrname", m.name(q.name));
            write_rrtype(q.rrtype, json);
            write_truncated("rrname_truncated", q.name, json);
            json.close();
        }
        json.close_array();
    }
    write_answers(m, json, formats);
    write_section("authorities", m, m.section(Section::Authorities), json);
    write_additionals(m, json);
}

/// Records this transaction is logged as.
pub fn parts(tx: &DnsTx, how: LogOptions<'_>) -> usize {
    let is_request = tx.direction == Direction::ToServer;
    let is_by_query = is_request && !how.in_alert && is_format_2(how.config);
    if is_by_query { tx.message.queries.len() } else { 1 }
}

/// Format 2 has the client as `src` of answers too.
pub fn direction(tx: &DnsTx, how: LogOptions<'_>) -> Direction {
    if is_format_2(how.config) { Direction::ToServer } else { tx.direction }
}

/// Shapes answers are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    /// One object a record.
    pub detailed: bool,
    /// Data by type.
    pub grouped: bool,
}

impl Formats {
    /// Both, which is the default.
    pub const ALL: Formats = Formats { detailed: true, grouped: true };

    fn from_config(config: Option<&Tree>) -> Formats {
        let Some(list) = config.and_then(|c| c.child("formats")) else { return Formats::ALL };
        let has = |name: &str| list.children.iter().any(|(_, t)| t.value.as_deref() == Some(name));
        let formats = Formats { detailed: has("detailed"), grouped: has("grouped") };
        if formats.detailed || formats.grouped { formats } else { Formats::ALL }
    }

    /// Alerts carry no groups.
    fn of_alert(how: LogOptions<'_>, config: Option<&Tree>) -> Formats {
        if how.in_alert {
            Formats { detailed: true, grouped: false }
        } else {
            Formats::from_config(config)
        }
    }
}

fn is_format_2(config: Option<&Tree>) -> bool {
    config.and_then(|c| c.number("version")) == Some(2)
}

/// The kind of message is switched on, and it has a question of a type that is listed.
fn is_wanted(tx: &DnsTx, config: Option<&Tree>) -> bool {
    let switch = match tx.direction {
        Direction::ToServer => "requests",
        Direction::ToClient => "responses",
    };
    if config.and_then(|c| c.flag(switch)) == Some(false) {
        return false;
    }
    tx.message.queries.iter().any(|q| is_type_wanted(q.rrtype, config))
}

fn is_type_wanted(rrtype: u16, config: Option<&Tree>) -> bool {
    let Some(types) = config.and_then(|c| c.child("types")) else { return true };
    let Some(name) = rrtype_name(rrtype) else { return false };
    let mut wanted = types.children.iter().filter_map(|(_, t)| t.value.as_deref());
    wanted.any(|w| w.eq_ignore_ascii_case(name))
}

fn write_query_2(tx: &DnsTx, json: &mut Json, how: LogOptions<'_>) -> bool {
    let m = &tx.message;
    let Some(q) = m.queries.get(how.part).filter(|q| is_type_wanted(q.rrtype, how.config)) else {
        return false;
    };
    json.number("version", 2u8);
    json.field_plain("type", "query");
    json.number("id", m.header.id);
    json.field("rrname", m.name(q.name));
    write_truncated("rrname_truncated", q.name, json);
    write_rrtype(q.rrtype, json);
    json.number("tx_id", tx.id);
    if m.header.has_z() {
        json.boolean("z", true);
    }
    json.number("opcode", m.header.opcode());
    true
}

fn write_answer_2(tx: &DnsTx, json: &mut Json, formats: Formats) {
    let m = &tx.message;
    json.number("version", 2u8);
    json.field_plain("type", "answer");
    json.number("id", m.header.id);
    write_flags(m, json);
    json.number("opcode", m.header.opcode());
    if let Some(q) = m.queries.first() {
        json.field("rrname", m.name(q.name));
        write_truncated("rrname_truncated", q.name, json);
        write_rrtype(q.rrtype, json);
    }
    write_rcode(m, json);
    write_answers(m, json, formats);
    write_section("authorities", m, m.section(Section::Authorities), json);
    write_additionals(m, json);
}

fn write_flags(m: &Message, json: &mut Json) {
    let flags = m.header.flags;
    let digits = flags.to_be_bytes().map(hex::digits);
    let digits = digits.as_flattened();
    // The last digit is written even where it is a zero.
    let zeros = digits.iter().take(3).take_while(|digit| **digit == b'0').count();
    json.field("flags", &digits[zeros..]);
    for (bit, key) in [(15, "qr"), (10, "aa"), (9, "tc"), (8, "rd"), (7, "ra"), (6, "z")] {
        if flags >> bit & 1 == 1 {
            json.boolean(key, true);
        }
    }
}

fn write_rcode(m: &Message, json: &mut Json) {
    let rcode = m.header.rcode();
    match rcode_name(rcode) {
        Some(name) => json.field_plain("rcode", name),
        None => json.field("rcode", itoa::Buffer::new().format(rcode)),
    }
}

fn write_rrtype(rrtype: u16, json: &mut Json) {
    match rrtype_name(rrtype) {
        Some(name) => json.field_plain("rrtype", name),
        None => json.field("rrtype", itoa::Buffer::new().format(rrtype)),
    }
}

fn write_truncated(key: &str, name: Name, json: &mut Json) {
    if name.is_truncated {
        json.boolean(key, true);
    }
}

fn write_answers(m: &Message, json: &mut Json, formats: Formats) {
    let answers = m.section(Section::Answers);
    if answers.is_empty() {
        return;
    }
    if formats.detailed {
        write_section("answers", m, answers, json);
    }
    if formats.grouped {
        write_grouped(m, answers, json);
    }
}

fn write_section(key: &str, m: &Message, records: &[Record], json: &mut Json) {
    if records.is_empty() {
        return;
    }
    json.open_array_key(key);
    for r in records {
        write_record(m, r, json);
    }
    json.close_array();
}

fn write_additionals(m: &Message, json: &mut Json) {
    let additionals = m.section(Section::Additionals);
    if additionals.iter().all(is_bare_opt) {
        return;
    }
    json.open_array_key("additionals");
    for r in additionals.iter().filter(|r| !is_bare_opt(r)) {
        write_record(m, r, json);
    }
    json.close_array();
}

/// Every EDNS message has an OPT; one without options says nothing.
fn is_bare_opt(r: &Record) -> bool {
    matches!(r.data, Rdata::Opt { len: 0, .. })
}

/// One object, or one for each string of a TXT.
fn write_record(m: &Message, r: &Record, json: &mut Json) {
    let Rdata::Texts { first, len } = r.data else {
        write_head(m, r, json);
        write_data(m, r, json);
        return json.close();
    };
    for text in m.strings_at(first, len) {
        write_head(m, r, json);
        json.field("rdata", m.bytes(*text));
        json.close();
    }
}

fn write_head(m: &Message, r: &Record, json: &mut Json) {
    json.open();
    json.field("rrname", m.name(r.name));
    write_truncated("rrname_truncated", r.name, json);
    write_rrtype(r.rrtype, json);
    json.number("ttl", r.ttl);
}

fn write_data(m: &Message, r: &Record, json: &mut Json) {
    match r.data {
        Rdata::Address(span) => {
            json.key("rdata");
            write_address(m.bytes(span), json);
        }
        Rdata::Name(name) => {
            json.field("rdata", m.name(name));
            write_truncated("rdata_truncated", name, json);
        }
        Rdata::Text(span) => json.field("rdata", m.bytes(span)),
        Rdata::Soa { .. } => {
            json.open_key("soa");
            write_object(m, r, json);
        }
        Rdata::Srv { .. } => {
            json.open_key("srv");
            write_object(m, r, json);
        }
        Rdata::Sshfp { .. } => {
            json.open_key("sshfp");
            write_object(m, r, json);
        }
        Rdata::Opt { first, len } => {
            json.open_array_key("opt");
            let range = first as usize..(first + len) as usize;
            for option in m.options.get(range).unwrap_or_default() {
                json.open();
                json.number("code", option.code);
                json.hex("data", m.bytes(option.data));
                json.close();
            }
            json.close_array();
        }
        Rdata::Texts { .. } | Rdata::Other(_) => {}
    }
}

/// Members of SOA, SRV and SSHFP, and the closing brace.
fn write_object(m: &Message, r: &Record, json: &mut Json) {
    match r.data {
        Rdata::Soa { mname, rname, numbers } => {
            json.field("mname", m.name(mname));
            write_truncated("mname_truncated", mname, json);
            json.field("rname", m.name(rname));
            write_truncated("rname_truncated", rname, json);
            for (key, n) in ["serial", "refresh", "retry", "expire", "minimum"].iter().zip(numbers)
            {
                json.number(key, n);
            }
        }
        Rdata::Srv { priority, weight, port, target } => {
            json.number("priority", priority);
            json.number("weight", weight);
            json.number("port", port);
            json.field("name", m.name(target));
        }
        Rdata::Sshfp { algorithm, kind, fingerprint } => {
            json.key("fingerprint");
            json.push(b"\"");
            for (i, b) in m.bytes(fingerprint).iter().enumerate() {
                if i > 0 {
                    json.push(b":");
                }
                json.push(&hex::digits(*b));
            }
            json.push(b"\"");
            json.number("algo", algorithm);
            json.number("type", kind);
        }
        Rdata::Address(_)
        | Rdata::Name(_)
        | Rdata::Text(_)
        | Rdata::Texts { .. }
        | Rdata::Opt { .. }
        | Rdata::Other(_) => {}
    }
    json.close();
}

/// Types that are grouped, others are left out.
fn is_grouped(r: &Record) -> bool {
    !matches!(r.data, Rdata::Opt { .. } | Rdata::Other(_))
}

fn write_grouped(m: &Message, answers: &[Record], json: &mut Json) {
    json.open_key("grouped");
    let mut seen: SmallVec<[u16; 16]> = SmallVec::new();
    for (i, r) in answers.iter().enumerate() {
        // Only a dozen types have data that is grouped, so the list stays short.
        if !is_grouped(r) || seen.contains(&r.rrtype) {
            continue;
        }
        seen.push(r.rrtype);
        let Some(name) = rrtype_name(r.rrtype) else { continue };
        json.open_array_key(name);
        for same in answers.iter().skip(i).filter(|other| other.rrtype == r.rrtype) {
            write_grouped_item(m, same, json);
        }
        json.close_array();
    }
    json.close();
}

fn write_grouped_item(m: &Message, r: &Record, json: &mut Json) {
    match r.data {
        Rdata::Address(span) => {
            json.next_item();
            write_address(m.bytes(span), json);
        }
        Rdata::Name(name) => json.item(m.name(name)),
        Rdata::Text(span) => json.item(m.bytes(span)),
        Rdata::Texts { first, len } => {
            for text in m.strings_at(first, len) {
                json.item(m.bytes(*text));
            }
        }
        Rdata::Soa { .. } | Rdata::Srv { .. } | Rdata::Sshfp { .. } => {
            json.open();
            write_object(m, r, json);
        }
        Rdata::Opt { .. } | Rdata::Other(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logged(direction: Direction, m: &[u8], config: Option<&Tree>, part: usize) -> String {
        let tx = DnsTx::new(4, direction, Message::parse(m).unwrap());
        let mut json = Json::new();
        json.open();
        let how = LogOptions { config, part, ..LogOptions::default() };
        let is_logged = write(&tx, &mut json, how);
        json.close();
        let text = String::from_utf8(json.take_bytes()).unwrap();
        if is_logged { text } else { String::new() }
    }

    const TWO: &[u8] = b"\0\x02\x81\x80\0\x02\0\x02\0\0\0\0\x01a\x01b\0\0\x01\0\x01\x01c\0\0\x1c\0\x01\
        \xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x01\x02\x03\x04\x01t\0\0\x10\0\x01\0\0\0\x3c\0\x07\x03abc\x02de";

    #[test]
    fn format_3() {
        let expected = "{\"version\":3,\"type\":\"response\",\"tx_id\":4,\"id\":2,\"flags\":\"8180\",\
            \"qr\":true,\"rd\":true,\"ra\":true,\"opcode\":0,\"rcode\":\"NOERROR\",\"queries\":[\
            {\"rrname\":\"a.b\",\"rrtype\":\"A\"},{\"rrname\":\"c\",\"rrtype\":\"AAAA\"}],\"answers\":[\
            {\"rrname\":\"a.b\",\"rrtype\":\"A\",\"ttl\":60,\"rdata\":\"1.2.3.4\"},\
            {\"rrname\":\"t\",\"rrtype\":\"TXT\",\"ttl\":60,\"rdata\":\"abc\"},\
            {\"rrname\":\"t\",\"rrtype\":\"TXT\",\"ttl\":60,\"rdata\":\"de\"}],\
            \"grouped\":{\"A\":[\"1.2.3.4\"],\"TXT\":[\"abc\",\"de\"]}}";
        assert_eq!(logged(Direction::ToClient, TWO, None, 0), expected);
    }

    #[test]
    fn format_2_logs_each_query() {
        let mut config = Tree::default();
        config.set("version", "2");
        config.set("types.0", "aaaa");
        let mut query = TWO[..28].to_vec();
        query[2..8].copy_from_slice(&[1, 0, 0, 2, 0, 0]);
        assert_eq!(logged(Direction::ToServer, &query, Some(&config), 0), "");
        let expected = "{\"version\":2,\"type\":\"query\",\"id\":2,\"rrname\":\"c\",\"rrtype\":\"AAAA\",\
            \"tx_id\":4,\"opcode\":0}";
        assert_eq!(logged(Direction::ToServer, &query, Some(&config), 1), expected);
    }

    #[test]
    fn types_that_are_not_asked_for_are_left_out() {
        let mut config = Tree::default();
        config.set("types.0", "mx");
        assert_eq!(logged(Direction::ToClient, TWO, Some(&config), 0), "");
        config.set("types.1", "a");
        config.set("responses", "no");
        assert_eq!(logged(Direction::ToClient, TWO, Some(&config), 0), "");
    }
}

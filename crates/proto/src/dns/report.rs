//! What the behaviour engine takes of a message.

use super::message::{Message, Rdata, Record, Section};
use super::tables::{rcode_name, rrtype, rrtype_name};
use gabion_record::hex;
use gabion_record::json::{Json, readable};
use gabion_record::logs::{Body, Dns, List};
use gabion_record::{Direction, TakeReport, TxReport};

/// Reports a message that asks or answers a question, and goes in that direction.
pub(super) fn report(m: &Message, direction: Direction, to: TakeReport<'_>) {
    let Some(question) = m.queries.first() else { return };
    let (mut qtype, mut rcode) = (itoa::Buffer::new(), itoa::Buffer::new());
    let number = m.header.rcode();
    let answers = answers(m);
    let dns = Dns {
        query: &readable(m.name(question.name)),
        qclass: b"IN",
        qtype: match rrtype_name(question.rrtype) {
            Some(name) => name,
            None => qtype.format(question.rrtype),
        }
        .as_bytes(),
        rcode: match rcode_name(number) {
            Some(name) => name,
            None => rcode.format(number),
        }
        .as_bytes(),
        answers: List { raw: &answers, is_json: true },
    };
    let is_response = direction == Direction::ToClient;
    to(&TxReport { is_response, ..TxReport::from_body(Body::Dns(dns)) });
}

/// The addresses of an answer: those of the type, IPv4 or IPv6, that came last. Of an answer without addresses, all
/// that it says, a text as Zeek writes it.
fn answers(m: &Message) -> Vec<u8> {
    let records = m.section(Section::Answers);
    if records.is_empty() {
        return Vec::new();
    }
    let mut list = Json::new();
    list.open_array();
    let is_address = |r: &&Record| matches!(r.data, Rdata::Address(_));
    let first = |rrtype| records.iter().position(|r| is_address(&r) && r.rrtype == rrtype);
    match first(rrtype::A).max(first(rrtype::AAAA)).and_then(|at| records.get(at)) {
        Some(Record { rrtype, .. }) => {
            for r in records.iter().filter(|r| r.rrtype == *rrtype) {
                if let Rdata::Address(span) = r.data {
                    list.next_item();
                    write_address(m.bytes(span), &mut list);
                }
            }
        }
        None => records.iter().for_each(|r| write_data(m, r, &mut list)),
    }
    list.close_array();
    list.take_bytes()
}

fn write_data(m: &Message, r: &Record, list: &mut Json) {
    match r.data {
        Rdata::Name(name) => write_item(m.name(name), list),
        Rdata::Text(span) => write_item(m.bytes(span), list),
        Rdata::Texts { first, len } => {
            for text in m.strings_at(first, len) {
                write_text(m.bytes(*text), list);
            }
        }
        Rdata::Address(_)
        | Rdata::Soa { .. }
        | Rdata::Srv { .. }
        | Rdata::Sshfp { .. }
        | Rdata::Opt { .. }
        | Rdata::Other(_) => {}
    }
}

fn write_item(text: &[u8], list: &mut Json) {
    if !text.is_empty() {
        list.item(text);
    }
}

/// Zeek's `TXT LENGTH TEXT`.
fn write_text(text: &[u8], list: &mut Json) {
    let mut quoted = Json::new();
    quoted.quoted(text);
    let inner = quoted.bytes().get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if inner.is_empty() {
        return;
    }
    list.next_item();
    list.push(b"\"TXT ");
    list.push_number(inner.len());
    list.push(b" ");
    list.push(inner);
    list.push(b"\"");
}

/// An address as Suricata prints it: four bytes dotted, sixteen as full groups, else nothing.
pub(crate) fn write_address(bytes: &[u8], json: &mut Json) {
    json.push(b"\"");
    match bytes.len() {
        4 => {
            let mut n = itoa::Buffer::new();
            for (i, b) in bytes.iter().enumerate() {
                if i > 0 {
                    json.push(b".");
                }
                json.push(n.format(*b).as_bytes());
            }
        }
        16 => {
            for (i, b) in bytes.iter().enumerate() {
                if i > 0 && i % 2 == 0 {
                    json.push(b":");
                }
                json.push(&hex::digits(*b));
            }
        }
        _ => {}
    }
    json.push(b"\"");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(direction: Direction, m: &[u8]) -> Option<(String, bool)> {
        let mut found = None;
        report(&Message::parse(m).unwrap(), direction, &mut |r| {
            let Body::Dns(dns) = r.body else { panic!("not DNS") };
            let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
            let answers: Vec<String> = dns.answers.iter().map(text).collect();
            let parts = [text(dns.query), text(dns.qtype), text(dns.rcode), answers.join("|")];
            found = Some((parts.join(" "), r.is_response));
        });
        found
    }

    const HEAD: &[u8] = b"\0\x02\x81\x80\0\x01\0\x02\0\0\0\0\x01a\x01b\0";
    const FOUR: &[u8] = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x01\x02\x03\x04";
    const ALIAS: &[u8] = b"\xc0\x0c\0\x05\0\x01\0\0\0\x3c\0\x02\xc0\x0c";
    const TEXT: &[u8] = b"\xc0\x0c\0\x10\0\x01\0\0\0\x3c\0\x05\x04a\"bc";

    #[test]
    fn addresses_or_all_that_an_answer_says() {
        let ask = |answers: [&[u8]; 2]| [HEAD, b"\0\x01\0\x01", answers[0], answers[1]].concat();
        for (answers, expected) in [
            ([ALIAS, FOUR], "a.b A NOERROR 1.2.3.4"),
            ([FOUR, FOUR], "a.b A NOERROR 1.2.3.4|1.2.3.4"),
            ([ALIAS, TEXT], "a.b A NOERROR a.b|TXT 5 a\\\"bc"),
        ] {
            let found = reported(Direction::ToClient, &ask(answers));
            assert_eq!(found, Some((expected.to_owned(), true)));
        }
        let query = b"\0\x02\x01\x00\0\x01\0\0\0\0\0\0\x01a\0\xff\x01\0\x01";
        let found = reported(Direction::ToServer, query);
        assert_eq!(found, Some(("a 65281 NOERROR ".to_owned(), false)));
        let nothing = b"\0\x02\x01\x00\0\0\0\0\0\0\0\0";
        assert_eq!(reported(Direction::ToServer, nothing), None);
    }
}

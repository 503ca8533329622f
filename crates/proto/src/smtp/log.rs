//! EVE's `smtp` object and its companion `email`.
//!
//! The order of members is that of Suricata 8.0.7. Text that is not UTF-8 is left out of `smtp`, and
//! written with replacement characters in `email`, as there.

use super::mime::Mime;
use super::mime::header::addresses;
use super::tx::SmtpTx;
use crate::LogOptions;
use gabion_record::Tree;
use gabion_record::json::Json;
use md5::Digest;

/// Writes the members of `smtp`.
pub(super) fn write(tx: &SmtpTx, json: &mut Json) {
    let is_text = |b: &&[u8]| std::str::from_utf8(b).is_ok();
    if let Some(helo) = tx.helo.as_deref().filter(is_text) {
        json.field("helo", helo);
    }
    if let Some(from) = tx.mail_from.as_deref().filter(is_text) {
        json.field("mail_from", from);
    }
    if !tx.rcpt_to.is_empty() {
        json.open_array_key("rcpt_to");
        for r in tx.rcpt_to.iter().map(Vec::as_slice).filter(is_text) {
            json.item(r);
        }
        json.close_array();
    }
}

/// Writes the members of `email`.
pub(super) fn write_email(mime: &Mime, json: &mut Json, how: LogOptions<'_>) -> bool {
    if let Some(from) = mime.header("from") {
        json.field("from", lossy(from).as_ref());
    }
    for (name, header) in [("to", "to"), ("cc", "cc")] {
        write_addresses(mime, json, name, header);
    }
    json.field_plain("status", "PARSE_DONE");
    write_list(json, "attachment", mime.attachments().iter().map(Vec::as_slice));
    write_list(json, "url", mime.urls().latest_first());
    if let Some(config) = how.config.filter(|_| !how.in_alert) {
        write_custom(mime, json, config);
        write_sums(mime, json, config);
    }
    true
}

fn lossy(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

fn write_list<'a>(json: &mut Json, name: &str, list: impl Iterator<Item = &'a [u8]>) {
    let mark = json.mark();
    json.open_array_key(name);
    let mut is_empty = true;
    for item in list {
        json.item(lossy(item).as_ref());
        is_empty = false;
    }
    if is_empty {
        json.rewind(mark);
    } else {
        json.close_array();
    }
}

fn write_addresses(mime: &Mime, json: &mut Json, name: &str, header: &str) {
    if let Some(value) = mime.header(header) {
        write_list(json, name, addresses(value));
    }
}

/// How a field that the configuration may ask for is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    /// Items of its first occurrence.
    Addresses,
    /// All its occurrences.
    All,
}

/// Name in the configuration and in the mail, key, shape: in the order of Suricata's records.
const CUSTOM: &[(&str, &str, Shape)] = &[
    ("reply-to", "reply_to", Shape::Text),
    ("bcc", "bcc", Shape::Addresses),
    ("message-id", "message_id", Shape::Text),
    ("subject", "subject", Shape::Text),
    ("x-mailer", "x_mailer", Shape::Text),
    ("user-agent", "user_agent", Shape::Text),
    ("received", "received", Shape::All),
    ("x-originating-ip", "x_originating_ip", Shape::Text),
    ("in-reply-to", "in_reply_to", Shape::Text),
    ("references", "references", Shape::Text),
    ("importance", "importance", Shape::Text),
    ("priority", "priority", Shape::Text),
    ("sensitivity", "sensitivity", Shape::Text),
    ("organization", "organization", Shape::Text),
    ("content-md5", "content_md5", Shape::Text),
    ("date", "date", Shape::Text),
];

/// Fields listed under `custom`. `extended` alone adds nothing in Suricata either.
fn write_custom(mime: &Mime, json: &mut Json, config: &Tree) {
    for (name, key, shape) in CUSTOM {
        if !lists(config, "custom", name) {
            continue;
        }
        match shape {
            Shape::Text => {
                if let Some(value) = mime.header(name) {
                    json.field(key, lossy(value).as_ref());
                }
            }
            Shape::Addresses => write_addresses(mime, json, key, name),
            Shape::All => write_list(json, key, mime.all_headers(name)),
        }
    }
}

fn write_sums(mime: &Mime, json: &mut Json, config: &Tree) {
    if lists(config, "md5", "subject")
        && let Some(subject) = mime.header("subject")
    {
        json.hex("subject_md5", &md5::Md5::digest(subject));
    }
    if lists(config, "md5", "body")
        && let Some(sum) = mime.body_md5()
    {
        json.hex("body_md5", &sum);
    }
}

fn lists(config: &Tree, list: &str, name: &str) -> bool {
    let Some(list) = config.child(list) else { return false };
    let mut names = list.children.iter().filter_map(|(_, t)| t.value.as_deref());
    names.any(|n| n.eq_ignore_ascii_case(name))
}

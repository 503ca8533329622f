//! EVE records of SIP.

use super::message::{Span, StartLine};
use super::parser::SipTx;
use super::sdp::{Description, Section};
use gabion_record::json::Json;

/// Writes the record.
pub fn write(tx: &SipTx, json: &mut Json) {
    let m = &tx.message;
    match m.start {
        StartLine::Request { method, uri, version } => {
            json.field("method", m.bytes(method));
            json.field("uri", m.bytes(uri));
            json.field("version", m.bytes(version));
        }
        StartLine::Response { version, code, reason } => {
            json.field("version", m.bytes(version));
            json.field("code", m.bytes(code));
            json.field("reason", m.bytes(reason));
        }
    }
    if let Some(description) = &tx.description {
        json.open_key("sdp");
        write_description(description, json);
        json.close();
    }
    let key = match m.start {
        StartLine::Request { .. } => "request_line",
        StartLine::Response { .. } => "response_line",
    };
    json.field(key, m.bytes(m.line));
}

fn write_description(d: &Description, json: &mut Json) {
    json.field("origin", d.bytes(d.origin));
    json.field("session_name", d.bytes(d.session_name));
    one("session_info", d, d.session.information, json);
    one("uri", d, d.uri, json);
    one("email", d, d.email, json);
    one("phone_number", d, d.phone_number, json);
    one("connection_data", d, d.session.connection, json);
    many("bandwidths", d, &d.session.bandwidths, json);
    if !d.times.is_empty() {
        json.open_array_key("time_descriptions");
        for (time, repeat) in &d.times {
            json.open();
            json.field("time", d.bytes(*time));
            one("repeat_time", d, *repeat, json);
            json.close();
        }
        json.close_array();
    }
    one("timezone", d, d.timezone, json);
    write_end(d, &d.session, json);
    if d.media.is_empty() {
        return;
    }
    json.open_array_key("media_descriptions");
    for (media, section) in &d.media {
        json.open();
        json.field("media", d.bytes(*media));
        one("media_info", d, section.information, json);
        one("connection_data", d, section.connection, json);
        many("bandwidths", d, &section.bandwidths, json);
        write_end(d, section, json);
        json.close();
    }
    json.close_array();
}

fn write_end(d: &Description, section: &Section, json: &mut Json) {
    one("encryption_key", d, section.key, json);
    many("attributes", d, &section.attributes, json);
}

fn one(key: &str, d: &Description, span: Option<Span>, json: &mut Json) {
    if let Some(span) = span {
        json.field(key, d.bytes(span));
    }
}

fn many(key: &str, d: &Description, spans: &[Span], json: &mut Json) {
    if spans.is_empty() {
        return;
    }
    json.open_array_key(key);
    spans.iter().for_each(|span| json.item(d.bytes(*span)));
    json.close_array();
}

//! The EVE record of a transaction (object `http`), members as Suricata 8.0.7 writes them.

use super::frame::{self, kind};
use super::hpack::FieldKind;
use super::side::Side;
use super::tx::Http2Tx;
use crate::LogOptions;
use gabion_record::Direction::{ToClient, ToServer};
use gabion_record::json::{Json, readable};
use gabion_record::logs::{Body, Http, List};
use gabion_record::{TakeReport, TxReport};

/// Writes the members of the record. False: there is nothing to write but its stream.
pub(crate) fn write(tx: &Http2Tx, json: &mut Json, how: LogOptions<'_>) -> bool {
    let has_more = tx.sides.iter().any(|s| s.headers.is_some() || s.has_members());
    if !has_more && !how.in_alert {
        return false;
    }
    json.field_plain("version", "2");
    write_fields("request_headers", tx.side(ToServer), json);
    write_fields("response_headers", tx.side(ToClient), json);
    write_basic(tx, json);
    json.open_key("http2");
    json.number("stream_id", tx.stream);
    write_side("request", tx.side(ToServer), json);
    write_side("response", tx.side(ToClient), json);
    json.close();
    true
}

/// All fields of a direction.
fn write_fields(key: &str, side: &Side, json: &mut Json) {
    let Some(list) = &side.headers else { return };
    json.open_array_key(key);
    for (kind, name, value) in list.iter_once() {
        json.open();
        match kind {
            FieldKind::Named => {
                json.field("name", name);
                json.field("value", value);
            }
            FieldKind::SizeUpdate(size) => json.number("table_size_update", size),
            FieldKind::Error(error) => json.field_plain("error", error.name()),
        }
        json.close();
    }
    json.close_array();
}

/// What records of HTTP/1 have too: of a field that came more than once the last, its name in any case.
fn write_basic(tx: &Http2Tx, json: &mut Json) {
    // A stream that the server promised has the client's fields among the server's.
    let any = |name| last_value(tx.side(ToServer), name).or(last_value(tx.side(ToClient), name));
    if let Some(url) = any(b":path") {
        json.field("url", url);
    }
    if let Some(status) = last_value(tx.side(ToClient), b":status").and_then(decimal) {
        json.number("status", status);
    }
    if let Some(method) = any(b":method") {
        json.field("http_method", method);
    }
    if let Some(host) = any(b":authority").or(any(b"host")) {
        json.field("hostname", host);
    }
    if let Some(agent) = any(b"user-agent") {
        json.field("http_user_agent", agent);
    }
    let length = |side| last_value(tx.side(side), b"content-length").and_then(decimal);
    if let Some(length) = length(ToClient).or_else(|| length(ToServer)) {
        json.number("length", length);
    }
}

/// The last value of a field.
fn last_value<'a>(side: &'a Side, name: &[u8]) -> Option<&'a [u8]> {
    let fields = side.headers.as_ref()?.iter();
    fields.filter(|f| f.0 == FieldKind::Named && f.1.eq_ignore_ascii_case(name)).last().map(|f| f.2)
}

fn decimal(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// What a direction's frames carried in addition to fields and data.
fn write_side(key: &str, side: &Side, json: &mut Json) {
    if !side.has_members() {
        return;
    }
    json.open_key(key);
    if let Some(settings) = side.settings().filter(|all| !all.is_empty()) {
        json.open_array_key("settings");
        for (id, value) in settings {
            let known = frame::SETTINGS.iter().find(|(number, _)| number == id);
            json.open();
            json.field("settings_id", known.map_or("", |(_, name)| name).replace('_', ""));
            json.number("settings_value", *value);
            json.close();
        }
        json.close_array();
    }
    if let Some((code, from)) = side.error() {
        match frame::error_name(code, from == kind::GOAWAY) {
            Some(name) => json.field_plain("error_code", &name),
            None => json.field_plain("error_code", &code.to_string()),
        }
    }
    if let Some(weight) = side.priority() {
        json.number("priority", weight);
    }
    if let Some(member) = side.has_multiple() {
        json.field_plain("has_multiple", member);
    }
    json.close();
}

/// Reports a request with its response, as its record says it: hosts' behavior is the same from captures and from EVE.
pub(crate) fn report(tx: &Http2Tx, to: TakeReport<'_>) {
    let any = |name| last_value(tx.side(ToServer), name).or(last_value(tx.side(ToClient), name));
    let (method, uri) = (any(b":method"), any(b":path"));
    let host = any(b":authority").or(any(b"host"));
    let status = last_value(tx.side(ToClient), b":status").and_then(decimal);
    let length = |side| last_value(tx.side(side), b"content-length").and_then(decimal);
    let length = length(ToClient).or_else(|| length(ToServer));
    // Settings and other frames that belong to no request.
    if method.or(uri).or(host).is_none() && status.or(length).is_none() {
        return;
    }
    let http = Http {
        method: &readable(method.unwrap_or_default()),
        host: &readable(host.unwrap_or_default()),
        uri: &readable(uri.unwrap_or_default()),
        user_agent: &readable(any(b"user-agent").unwrap_or_default()),
        request_len: 0,
        response_len: length.unwrap_or(0),
        status: status.and_then(|status| u16::try_from(status).ok()).unwrap_or(0),
        resp_mime_types: List { raw: b"", is_json: false },
    };
    to(&TxReport::from_body(Body::Http(http)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(tx: &Http2Tx, in_alert: bool) -> Option<String> {
        let mut json = Json::new();
        json.open();
        let wrote = write(tx, &mut json, LogOptions { in_alert, ..LogOptions::default() });
        json.close();
        wrote.then(|| json.into_line())
    }

    /// Records of Suricata 8.0.7.
    #[test]
    fn frames_of_the_connection_are_logged() {
        let mut tx = Http2Tx::new(0, 0);
        assert_eq!(written(&tx, false), None);
        let alert = r#"{"version":"2","http2":{"stream_id":0}}"#;
        assert_eq!(written(&tx, true).unwrap().trim(), alert);
        tx.sides[0].note_settings([(3, 100), (2, 0)].into_iter());
        let settings = r#"{"version":"2","http2":{"stream_id":0,"request":{"settings":[{"settings_id":"SETTINGSMAXCONCURRENTSTREAMS","settings_value":100},{"settings_id":"SETTINGSENABLEPUSH","settings_value":0}]}}}"#;
        assert_eq!(written(&tx, false).unwrap().trim(), settings);
        let mut tx = Http2Tx::new(4, 5);
        tx.sides[0].note_priority(119);
        tx.sides[0].note_priority(120);
        tx.sides[1].note_error(5, kind::RST_STREAM);
        tx.sides[1].note_error(6, kind::RST_STREAM);
        tx.sides[1].headers = Some(Box::default());
        let twice = r#"{"version":"2","response_headers":[],"http2":{"stream_id":5,"request":{"priority":119,"has_multiple":"priority"},"response":{"error_code":"StreamClosed","has_multiple":"error_code"}}}"#;
        assert_eq!(written(&tx, false).unwrap().trim(), twice);
    }
}

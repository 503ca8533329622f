//! The EVE record of a transaction (object `http`), keys in Suricata's order, and what the behaviour engine takes of
//! it.

use super::message::Tx;
use super::text::{split_prefix, trim_end};
use crate::LogOptions;
use gabion_record::json::{Json, readable};
use gabion_record::logs::{Body, Http, List};
use gabion_record::{Direction, TakeReport, Tree, TxReport};

/// Fields that `custom:` may name: name in the configuration, key in EVE, header, side.
/// The list is Suricata's (`outputs.eve-log.types.http.custom`) without `content-range`, which is always
/// written as an object: Suricata writes that key twice then.
const CUSTOM: &[(&str, &str, &[u8], Direction)] = &[
    ("accept", "accept", b"accept", Direction::ToServer),
    ("accept-charset", "accept_charset", b"accept-charset", Direction::ToServer),
    ("accept-datetime", "accept_datetime", b"accept-datetime", Direction::ToServer),
    ("accept-encoding", "accept_encoding", b"accept-encoding", Direction::ToServer),
    ("accept-language", "accept_language", b"accept-language", Direction::ToServer),
    ("accept-range", "accept_range", b"accept-range", Direction::ToClient),
    ("age", "age", b"age", Direction::ToClient),
    ("allow", "allow", b"allow", Direction::ToClient),
    ("authorization", "authorization", b"authorization", Direction::ToServer),
    ("cache-control", "cache_control", b"cache-control", Direction::ToServer),
    ("connection", "connection", b"connection", Direction::ToClient),
    ("content-encoding", "content_encoding", b"content-encoding", Direction::ToClient),
    ("content-language", "content_language", b"content-language", Direction::ToClient),
    ("content-length", "content_length", b"content-length", Direction::ToClient),
    ("content-location", "content_location", b"content-location", Direction::ToClient),
    ("content-md5", "content_md5", b"content-md5", Direction::ToClient),
    ("content-type", "content_type", b"content-type", Direction::ToClient),
    ("cookie", "cookie", b"cookie", Direction::ToServer),
    ("date", "date", b"date", Direction::ToServer),
    ("dnt", "dnt", b"dnt", Direction::ToServer),
    ("etag", "etags", b"etag", Direction::ToClient),
    ("expires", "expires", b"expires", Direction::ToClient),
    ("from", "from", b"from", Direction::ToServer),
    ("last-modified", "last_modified", b"last-modified", Direction::ToClient),
    ("link", "link", b"link", Direction::ToClient),
    ("location", "location", b"location", Direction::ToClient),
    ("max-forwards", "max_forwards", b"max-forwards", Direction::ToServer),
    ("org-src-ip", "org_src_ip", b"org-src-ip", Direction::ToServer),
    ("origin", "origin", b"origin", Direction::ToServer),
    ("pragma", "pragma", b"pragma", Direction::ToServer),
    ("proxy-authenticate", "proxy_authenticate", b"proxy-authenticate", Direction::ToClient),
    ("proxy-authorization", "proxy_authorization", b"proxy-authorization", Direction::ToServer),
    ("range", "range", b"range", Direction::ToServer),
    ("referrer", "referrer", b"referrer", Direction::ToServer),
    ("refresh", "refresh", b"refresh", Direction::ToClient),
    ("retry-after", "retry_after", b"retry-after", Direction::ToClient),
    ("server", "server", b"server", Direction::ToClient),
    ("set-cookie", "set_cookie", b"set-cookie", Direction::ToClient),
    ("te", "te", b"te", Direction::ToServer),
    ("trailer", "trailer", b"trailer", Direction::ToClient),
    ("transfer-encoding", "transfer_encoding", b"transfer-encoding", Direction::ToClient),
    ("true-client-ip", "true_client_ip", b"true-client-ip", Direction::ToServer),
    ("upgrade", "upgrade", b"upgrade", Direction::ToClient),
    ("vary", "vary", b"vary", Direction::ToClient),
    ("via", "via", b"via", Direction::ToServer),
    ("warning", "warning", b"warning", Direction::ToClient),
    ("www-authenticate", "www_authenticate", b"www-authenticate", Direction::ToClient),
    ("x-authenticated-user", "x_authenticated_user", b"x-authenticated-user", Direction::ToServer),
    ("x-bluecoat-via", "x_bluecoat_via", b"x-bluecoat-via", Direction::ToServer),
    ("x-flash-version", "x_flash_version", b"x-flash-version", Direction::ToServer),
    ("x-forwarded-proto", "x_forwarded_proto", b"x-forwarded-proto", Direction::ToServer),
    ("x-requested-with", "x_requested_with", b"x-requested-with", Direction::ToServer),
];

/// Writes the members of the record. False: there is nothing to write.
pub(crate) fn write(tx: &Tx, json: &mut Json, how: LogOptions<'_>) -> bool {
    let before = json.mark();
    basic(tx, json);
    if how.in_alert {
        extended(tx, json);
        bodies(tx, json, how.config);
        return json.wrote_since(before);
    }
    let config = how.config;
    if let Some(custom) = config.and_then(|c| c.child("custom")) {
        custom_fields(tx, json, custom);
    }
    if config.and_then(|c| c.flag("extended")) == Some(true) {
        extended(tx, json);
    }
    let dump = config.and_then(|c| c.text("dump-all-headers")).unwrap_or("none");
    if matches!(dump, "both" | "request") {
        all_headers(tx, json, "request_headers", Direction::ToServer);
    }
    if matches!(dump, "both" | "response") {
        all_headers(tx, json, "response_headers", Direction::ToClient);
    }
    json.wrote_since(before)
}

/// Reports a request with its response.
pub(crate) fn report(tx: &Tx, to: TakeReport<'_>) {
    let agent = tx.request.headers.get(b"user-agent").unwrap_or_default();
    let kind = tx.response.headers.get(b"content-type").unwrap_or_default();
    let http = Http {
        method: &readable(tx.method().unwrap_or_default()),
        host: &readable(tx.host.as_deref().unwrap_or_default()),
        uri: &readable(tx.target().unwrap_or_default()),
        user_agent: &readable(agent),
        request_len: 0,
        response_len: tx.response.message_len,
        status: tx.status.unwrap_or(0),
        resp_mime_types: List {
            raw: &readable(split_prefix(kind, |b| b != b';').0),
            is_json: false,
        },
    };
    to(&TxReport::from_body(Body::Http(http)));
}

fn basic(tx: &Tx, json: &mut Json) {
    if let Some(host) = &tx.host {
        json.field("hostname", host);
    }
    if let Some(port) = tx.port {
        json.number("http_port", port);
    }
    if let Some(url) = tx.target() {
        json.field("url", url);
    }
    if let Some(agent) = tx.request.headers.get(b"user-agent") {
        json.field("http_user_agent", agent);
    }
    if let Some(kind) = tx.response.headers.get(b"content-type") {
        json.field("http_content_type", split_prefix(kind, |b| b != b';').0);
    }
    if let Some(range) = tx.response.headers.get(b"content-range") {
        json.open_key("content_range");
        json.field("raw", range);
        if let Some(r) = super::entity::content_range(range) {
            if let Some((first, last)) = r.bounds {
                json.number("start", first);
                json.number("end", last);
            }
            if let Some(size) = r.size {
                json.number("size", size);
            }
        }
        json.close();
    }
}

fn extended(tx: &Tx, json: &mut Json) {
    if let Some(referer) = tx.request.headers.get(b"referer") {
        json.field("http_refer", referer);
    }
    if let Some(method) = tx.method() {
        json.field("http_method", method);
    }
    if let Some(protocol) = tx.request.in_line(&tx.request.protocol) {
        json.field("protocol", protocol);
    }
    if let Some(status) = tx.status {
        json.number("status", status);
    } else if let Some(text) = tx.response.in_line(&tx.status_text) {
        json.field("status_string", trim_end(text));
    }
    if let Some(location) = tx.response.headers.get(b"location") {
        json.field("redirect", location);
    }
    json.number("length", tx.response.message_len);
}

fn custom_fields(tx: &Tx, json: &mut Json, custom: &Tree) {
    for (_, item) in &custom.children {
        let Some(name) = item.value.as_deref() else { continue };
        let name = name.to_ascii_lowercase().replace('_', "-");
        let Some((_, key, header, side)) = CUSTOM.iter().find(|c| c.0 == name) else { continue };
        if let Some(value) = tx.message(*side).headers.get(header) {
            json.field(key, value);
        }
    }
}

fn all_headers(tx: &Tx, json: &mut Json, key: &str, side: Direction) {
    json.open_array_key(key);
    for (name, value) in tx.message(side).headers.iter() {
        json.open();
        json.field("name", name);
        json.field("value", value);
        json.close();
    }
    json.close_array();
}

/// Bodies in alerts, as far as they are kept (`http-body`, `http-body-printable`).
fn bodies(tx: &Tx, json: &mut Json, config: Option<&Tree>) {
    let wants = |key| config.and_then(|c| c.flag(key)).unwrap_or(false);
    let bodies = [
        (tx.request.body.kept(), "http_request_body_printable", "http_request_body"),
        (tx.response.body.kept(), "http_response_body_printable", "http_response_body"),
    ];
    if wants("http-body-printable") {
        for (body, key, _) in bodies.iter().filter(|b| !b.0.is_empty()) {
            json.printable(key, body);
        }
    }
    if wants("http-body") {
        for (body, _, key) in bodies.iter().filter(|b| !b.0.is_empty()) {
            json.base64(key, body);
        }
    }
}

/// The client a proxy forwards for: the first (or last) address of a header like
/// `X-Forwarded-For: 10.2.2.2, 10.3.3.3`, a port and brackets taken off.
pub(crate) fn forwarded_for(tx: &Tx, header: &str, take_last: bool) -> Option<std::net::IpAddr> {
    forwarded_address(tx.request.headers.get(header.to_ascii_lowercase().as_bytes())?, take_last)
}

/// The same, of the field's value.
pub(crate) fn forwarded_address(value: &[u8], take_last: bool) -> Option<std::net::IpAddr> {
    let mut parts = value.split(|b| *b == b',');
    let part = if take_last { parts.next_back() } else { parts.next() }?;
    let text = std::str::from_utf8(part).ok()?.trim().trim_matches('"');
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split(']').next()?.parse().ok();
    }
    let text = match text.split_once(':') {
        Some((v4, port)) if !port.contains(':') => v4,
        _ => text,
    };
    text.parse().ok()
}

//! The EVE record of a transaction (object `http`), keys in Suricata's order, and what the behaviour engine takes of
//! it.

use super::message::{Message, Tx};
use super::text::{split_prefix, trim_end};
use crate::LogOptions;
use gabion_record::json::{Json, readable};
use gabion_record::logs::{Body, Http, List};
use gabion_record::{Direction, TakeReport, TakeText, Tree, TxReport, TxText};

/// Fields that `custom:` may name, with the side that sends them (`outputs.eve-log.types.http.custom`; the list is
/// Suricata's, which logs them as they came: measured with 8.0.7).
const CUSTOM: &[(&str, Direction)] = &[
    ("accept", Direction::ToServer),
    ("accept-charset", Direction::ToServer),
    ("accept-datetime", Direction::ToServer),
    ("accept-encoding", Direction::ToServer),
    ("accept-language", Direction::ToServer),
    ("accept-range", Direction::ToClient),
    ("age", Direction::ToClient),
    ("allow", Direction::ToClient),
    ("authorization", Direction::ToServer),
    ("cache-control", Direction::ToServer),
    ("connection", Direction::ToClient),
    ("content-encoding", Direction::ToClient),
    ("content-language", Direction::ToClient),
    ("content-length", Direction::ToClient),
    ("content-location", Direction::ToClient),
    ("content-md5", Direction::ToClient),
    ("content-range", Direction::ToClient),
    ("content-type", Direction::ToClient),
    ("cookie", Direction::ToServer),
    ("date", Direction::ToServer),
    ("dnt", Direction::ToServer),
    ("etag", Direction::ToClient),
    ("expires", Direction::ToClient),
    ("from", Direction::ToServer),
    ("last-modified", Direction::ToClient),
    ("link", Direction::ToClient),
    ("location", Direction::ToClient),
    ("max-forwards", Direction::ToServer),
    ("org-src-ip", Direction::ToServer),
    ("origin", Direction::ToServer),
    ("pragma", Direction::ToServer),
    ("proxy-authenticate", Direction::ToClient),
    ("proxy-authorization", Direction::ToServer),
    ("range", Direction::ToServer),
    ("referrer", Direction::ToServer),
    ("refresh", Direction::ToClient),
    ("retry-after", Direction::ToClient),
    ("server", Direction::ToClient),
    ("set-cookie", Direction::ToClient),
    ("te", Direction::ToServer),
    ("trailer", Direction::ToClient),
    ("transfer-encoding", Direction::ToClient),
    ("true-client-ip", Direction::ToServer),
    ("upgrade", Direction::ToClient),
    ("vary", Direction::ToClient),
    ("via", Direction::ToServer),
    ("warning", Direction::ToClient),
    ("www-authenticate", Direction::ToClient),
    ("x-authenticated-user", Direction::ToServer),
    ("x-bluecoat-via", Direction::ToServer),
    ("x-flash-version", Direction::ToServer),
    ("x-forwarded-proto", Direction::ToServer),
    ("x-requested-with", Direction::ToServer),
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
    if config.and_then(|c| c.flag("extended")) == Some(true) {
        extended(tx, json);
    }
    let dump = config.and_then(|c| c.text("dump-all-headers")).unwrap_or("none");
    let custom = config.and_then(|c| c.child("custom"));
    for (side, name, key) in [
        (Direction::ToServer, "request", "request_headers"),
        (Direction::ToClient, "response", "response_headers"),
    ] {
        if dump == "both" || dump == name {
            if tx.message(side).headers.iter().next().is_some() {
                write_headers(tx, json, key, side, |_| true);
            }
        } else if let Some(custom) = custom {
            let is_wanted = |field: &[u8]| is_custom(custom, field, side);
            if tx.message(side).headers.iter().any(|(name, _)| is_wanted(name)) {
                write_headers(tx, json, key, side, is_wanted);
            }
        }
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

/// Gives a part of a request with its response.
pub(crate) fn text(tx: &Tx, part: TxText<'_>, to: TakeText<'_>) {
    let number = |n: u64, to: TakeText<'_>| to(itoa::Buffer::new().format(n).as_bytes());
    let found = match part {
        TxText::Host => tx.host.as_deref(),
        TxText::Target => tx.target(),
        TxText::Method => tx.method(),
        TxText::Protocol => tx.request.in_line(tx.request.protocol),
        TxText::Status => tx.response.in_line(tx.status_text).map(trim_end),
        TxText::RequestLength => return number(tx.request.message_len, to),
        TxText::ResponseLength => return number(tx.response.message_len, to),
        TxText::RequestField(name) => field(&tx.request, name),
        TxText::ResponseField(name) => field(&tx.response, name),
        TxText::Version
        | TxText::ServerName
        | TxText::Subject
        | TxText::Issuer
        | TxText::Fingerprint
        | TxText::Serial
        | TxText::NotBefore
        | TxText::NotAfter
        | TxText::Resumed => None,
    };
    found.into_iter().for_each(to);
}

/// A field by its name in any case.
fn field<'a>(side: &'a Message, name: &str) -> Option<&'a [u8]> {
    side.headers.get(name.to_ascii_lowercase().as_bytes())
}

/// The value of a field, unless it is empty: Suricata logs no such member.
fn value<'a>(side: &'a Message, name: &[u8]) -> Option<&'a [u8]> {
    side.headers.get(name).filter(|value| !value.is_empty())
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
    if let Some(agent) = value(&tx.request, b"user-agent") {
        json.field("http_user_agent", agent);
    }
    if let Some(client) = value(&tx.request, b"x-forwarded-for") {
        json.field("xff", client);
    }
    let kind = value(&tx.response, b"content-type").map(|kind| split_prefix(kind, |b| b != b';').0);
    if let Some(kind) = kind.filter(|kind| !kind.is_empty()) {
        json.field("http_content_type", kind);
    }
    if let Some(range) = tx.response.headers.get(b"content-range") {
        json.open_key("content_range");
        if !range.is_empty() {
            json.field("raw", range);
        }
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
    if let Some(referer) = value(&tx.request, b"referer") {
        json.field("http_refer", referer);
    }
    if let Some(method) = tx.method() {
        json.field("http_method", method);
    }
    if let Some(protocol) = tx.request.in_line(tx.request.protocol) {
        json.field("protocol", protocol);
    }
    if let Some(status) = tx.status {
        json.number("status", status);
    } else if let Some(text) = tx.response.in_line(tx.status_text) {
        json.field("status_string", trim_end(text));
    }
    if let Some(location) = value(&tx.response, b"location") {
        json.field("redirect", location);
    }
    json.number("length", tx.response.message_len);
}

/// Whether the configuration names this field of a side.
fn is_custom(custom: &Tree, field: &[u8], side: Direction) -> bool {
    let named = CUSTOM.iter().find(|(n, d)| *d == side && field.eq_ignore_ascii_case(n.as_bytes()));
    let Some((name, _)) = named else { return false };
    let items = custom.children.iter().filter_map(|(_, item)| item.value.as_deref());
    items.into_iter().any(|item| item.replace('_', "-").eq_ignore_ascii_case(name))
}

fn write_headers(
    tx: &Tx,
    json: &mut Json,
    key: &str,
    side: Direction,
    is_wanted: impl Fn(&[u8]) -> bool,
) {
    json.open_array_key(key);
    for (name, value) in tx.message(side).headers.iter().filter(|(name, _)| is_wanted(name)) {
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

/// The same, of the field's value, as Suricata 8.0.7 reads it: the last address begins after the last space, a value
/// that is too short or too long names nobody, and nothing is trimmed.
pub(crate) fn forwarded_address(value: &[u8], take_last: bool) -> Option<std::net::IpAddr> {
    if !super::limits::FORWARDED_LEN.contains(&value.len()) {
        return None;
    }
    let mut parts = value.split(|b| *b == if take_last { b' ' } else { b',' });
    let part = if take_last { parts.next_back() } else { parts.next() }?;
    let text = std::str::from_utf8(part).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        return rest.split_once(']')?.0.parse().ok();
    }
    let count = |sign: u8| text.bytes().filter(|b| *b == sign).count();
    let text = match text.split_once(':') {
        Some((v4, _)) if (count(b'.'), count(b':')) == (3, 1) => v4,
        _ => text,
    };
    text.parse().ok()
}

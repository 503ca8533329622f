//! EVE records of TLS: the basic, extended and custom lists of members, in Suricata's order; and what the behaviour
//! engine takes of a session.

use super::certificate::Certificate;
use super::fingerprint::{Hello, Ja3};
use super::tx::{Bytes, Side, TlsTx};
use super::version;
use crate::LogOptions;
use gabion_record::calendar::iso_second;
use gabion_record::json::{Json, readable};
use gabion_record::logs::{Body, List, Ssl};
use gabion_record::{TakeReport, TakeText, Tree, TxReport, TxText};
use std::borrow::Cow;

/// Members as bits, in the order in which they are written.
mod member {
    pub(super) const SUBJECT: u32 = 1;
    pub(super) const ISSUER: u32 = 1 << 1;
    pub(super) const ALT_NAME: u32 = 1 << 2;
    pub(super) const RESUMED: u32 = 1 << 3;
    pub(super) const SERIAL: u32 = 1 << 4;
    pub(super) const FINGERPRINT: u32 = 1 << 5;
    pub(super) const SNI: u32 = 1 << 6;
    pub(super) const VERSION: u32 = 1 << 7;
    pub(super) const NOT_BEFORE: u32 = 1 << 8;
    pub(super) const NOT_AFTER: u32 = 1 << 9;
    pub(super) const CERTIFICATE: u32 = 1 << 10;
    pub(super) const CHAIN: u32 = 1 << 11;
    pub(super) const JA3: u32 = 1 << 12;
    pub(super) const JA3S: u32 = 1 << 13;
    pub(super) const JA4: u32 = 1 << 14;
    pub(super) const CLIENT_ALPNS: u32 = 1 << 15;
    pub(super) const SERVER_ALPNS: u32 = 1 << 16;
    pub(super) const CLIENT_HANDSHAKE: u32 = 1 << 17;
    pub(super) const SERVER_HANDSHAKE: u32 = 1 << 18;
    pub(super) const CLIENT: u32 = 1 << 19;
    pub(super) const CLIENT_CERTIFICATE: u32 = 1 << 20;
    pub(super) const CLIENT_CHAIN: u32 = 1 << 21;

    pub(super) const BASIC: u32 = SUBJECT | ISSUER | ALT_NAME;
    pub(super) const EXTENDED: u32 = BASIC
        | RESUMED
        | SERIAL
        | FINGERPRINT
        | SNI
        | VERSION
        | NOT_BEFORE
        | NOT_AFTER
        | JA3
        | JA3S
        | JA4
        | CLIENT_ALPNS
        | SERVER_ALPNS
        | CLIENT;

    /// Names in the configuration's `custom` list.
    pub(super) const NAMES: &[(&str, u32)] = &[
        ("subject", SUBJECT),
        ("issuer", ISSUER),
        ("subjectaltname", ALT_NAME),
        ("session_resumed", RESUMED),
        ("serial", SERIAL),
        ("fingerprint", FINGERPRINT),
        ("sni", SNI),
        ("version", VERSION),
        ("not_before", NOT_BEFORE),
        ("not_after", NOT_AFTER),
        ("certificate", CERTIFICATE),
        ("chain", CHAIN),
        ("ja3", JA3),
        ("ja3s", JA3S),
        ("ja4", JA4),
        ("client_alpns", CLIENT_ALPNS),
        ("server_alpns", SERVER_ALPNS),
        ("client_handshake", CLIENT_HANDSHAKE),
        ("server_handshake", SERVER_HANDSHAKE),
        ("client", CLIENT),
        ("client_certificate", CLIENT_CERTIFICATE),
        ("client_chain", CLIENT_CHAIN),
    ];
}

/// Names that the list `custom` of TLS records may hold.
pub fn custom_members() -> impl Iterator<Item = &'static str> {
    member::NAMES.iter().map(|(name, _)| *name)
}

/// Says what is wrong with the list `custom` of the options, in Suricata's words.
pub fn check_options(options: &Tree, say: &mut dyn FnMut(&str)) {
    let list = options.get("custom").map_or(&[][..], |list| &list.children);
    let names: Vec<&str> = list.iter().filter_map(|(_, item)| item.value.as_deref()).collect();
    for name in &names {
        if !custom_members().any(|known| known == *name) {
            say(&format!("eve.tls: unknown 'custom' field '{name}'"));
        }
    }
    for [one, all] in [["certificate", "chain"], ["client_certificate", "client_chain"]] {
        if names.contains(&one) && names.contains(&all) {
            say(&format!(
                "Both '{one}' and '{all}' contains the top certificate, so only one of them should \
                 be enabled at a time"
            ));
        }
    }
}

/// Which members the configuration asks for.
fn members(how: LogOptions<'_>) -> u32 {
    if how.in_alert {
        return member::EXTENDED & !member::RESUMED;
    }
    let Some(config) = how.config else { return member::BASIC };
    let mut wanted = match config.child("custom") {
        Some(list) => list
            .children
            .iter()
            .filter_map(|(_, item)| item.value.as_deref())
            .filter_map(|name| member::NAMES.iter().find(|(n, _)| *n == name))
            .fold(0, |all, (_, bit)| all | bit),
        None if config.flag("extended") == Some(true) => member::EXTENDED,
        None => member::BASIC,
    };
    if is_resumption_logged(Some(config)) {
        wanted |= member::RESUMED;
    } else {
        wanted &= !member::RESUMED;
    }
    wanted
}

/// Resumed sessions, which show no certificate, are logged unless switched off, or when the type
/// is in the list without any options.
fn is_resumption_logged(config: Option<&Tree>) -> bool {
    config.is_some_and(|c| !c.children.is_empty() && c.flag("session-resumption") != Some(false))
}

/// Writes the record. False for a session without certificate that is neither resumed nor TLS 1.3.
pub fn write(tx: &TlsTx, json: &mut Json, how: LogOptions<'_>) -> bool {
    let (client, server) = (tx.client(), tx.server());
    let certificate = tx.server_certificate();
    let is_13 = tx.hides_certificate;
    let is_resumed = is_resumed(tx);
    if !how.in_alert {
        let shows_resumed = tx.is_resumed && is_resumption_logged(how.config);
        if certificate.is_none() && !shows_resumed && !is_13 {
            return false;
        }
    }
    let wanted = members(how);
    let has = |bit: u32| wanted & bit != 0;
    write_names(certificate, wanted, json);
    if has(member::RESUMED) && is_resumed {
        json.boolean("session_resumed", true);
    }
    if let Some(c) = certificate {
        if has(member::SERIAL) {
            json.field("serial", &c.serial);
        }
        if has(member::FINGERPRINT) {
            json.field("fingerprint", &c.fingerprint);
        }
    }
    if let Some(sni) = client.sni.as_ref().filter(|_| has(member::SNI)) {
        json.field("sni", sni);
    }
    if has(member::VERSION) {
        json.field_plain("version", &shown_version(tx));
    }
    if let Some(c) = certificate {
        write_validity(c, has(member::NOT_BEFORE), has(member::NOT_AFTER), json);
    }
    write_chain(server, has(member::CERTIFICATE), has(member::CHAIN), json);
    if has(member::JA3) {
        write_ja3("ja3", client.ja3.as_ref(), json);
    }
    if has(member::JA3S) {
        write_ja3("ja3s", server.ja3.as_ref(), json);
    }
    if has(member::JA4) && tx.settings.ja4 {
        json.field("ja4", tx.ja4());
    }
    if has(member::CLIENT_ALPNS) {
        write_alpns("client_alpns", &client.alpns, json);
    }
    if has(member::SERVER_ALPNS) {
        write_alpns("server_alpns", &server.alpns, json);
    }
    if has(member::CLIENT_HANDSHAKE) {
        write_client_handshake(&client.hello, json);
    }
    if has(member::SERVER_HANDSHAKE) {
        write_server_handshake(&server.hello, json);
    }
    if has(member::CLIENT) {
        write_client(client, wanted, json);
    }
    if let Some(proto) = tx.from_proto {
        json.field_plain("from_proto", proto);
    }
    true
}

/// Whether the session continues an earlier one, as far as can be seen.
fn is_resumed(tx: &TlsTx) -> bool {
    let has_certificate = tx.server_certificate().is_some();
    tx.is_resumed && tx.server().has_hello && !tx.hides_certificate && !has_certificate
}

/// Reports a session with a certificate, one that is resumed, or one of TLS 1.3, which hides its certificate.
pub(super) fn report(tx: &TlsTx, to: TakeReport<'_>) {
    let (client, server, certificate) = (tx.client(), tx.server(), tx.server_certificate());
    if certificate.is_none() && !tx.is_resumed && !tx.hides_certificate {
        return;
    }
    let hash = |side: &Side| side.ja3.as_ref().and_then(|j| j.hash);
    let (ja3, ja3s) = (hash(client), hash(server));
    let part =
        |part: fn(&Certificate) -> &[u8]| readable(certificate.map(part).unwrap_or_default());
    let version = shown_version(tx);
    let ssl = Ssl {
        version: version.as_bytes(),
        server_name: &readable(client.sni.as_deref().unwrap_or_default()),
        subject: &part(|c| &c.subject),
        issuer: &part(|c| &c.issuer),
        ja3: ja3.as_ref().map_or(&[], |hash| hash.as_ref()),
        ja3s: ja3s.as_ref().map_or(&[], |hash| hash.as_ref()),
        cert_fps: List { raw: &part(|c| &c.fingerprint), is_json: false },
        is_established: true,
        ..Ssl::default()
    };
    to(&TxReport::from_body(Body::Ssl(ssl)));
}

/// Gives a part of a session, unless nothing of it was seen. One without a certificate gives the first second of 1970 for its validity, as Suricata does.
pub(super) fn text(tx: &TlsTx, part: TxText<'_>, to: TakeText<'_>) {
    let certificate = tx.server_certificate();
    if certificate.is_none() && !tx.is_resumed && !tx.hides_certificate {
        return;
    }
    let second = |of: fn(&Certificate) -> i64| iso_second(certificate.map_or(0, of));
    match part {
        TxText::Version => to(shown_version(tx).as_bytes()),
        TxText::ServerName => tx.client().sni.iter().for_each(|name| to(name)),
        TxText::Subject => certificate.into_iter().for_each(|c| to(&c.subject)),
        TxText::Issuer => certificate.into_iter().for_each(|c| to(&c.issuer)),
        TxText::Fingerprint => certificate.into_iter().for_each(|c| to(&c.fingerprint)),
        TxText::Serial => certificate.into_iter().for_each(|c| to(&c.serial)),
        TxText::NotBefore => to(second(|c| c.not_before).as_bytes()),
        TxText::NotAfter => to(second(|c| c.not_after).as_bytes()),
        TxText::Resumed if is_resumed(tx) => to(&[]),
        TxText::Resumed
        | TxText::Host
        | TxText::Target
        | TxText::Method
        | TxText::Protocol
        | TxText::Status
        | TxText::RequestLength
        | TxText::ResponseLength
        | TxText::RequestField(_)
        | TxText::ResponseField(_) => {}
    }
}

fn write_names(certificate: Option<&Certificate>, wanted: u32, json: &mut Json) {
    let Some(c) = certificate else { return };
    if wanted & member::SUBJECT != 0 {
        json.field("subject", &c.subject);
    }
    if wanted & member::ISSUER != 0 {
        json.field("issuerdn", &c.issuer);
    }
    if wanted & member::ALT_NAME != 0 && !c.alt_names.is_empty() {
        json.open_array_key("subjectaltname");
        for name in &c.alt_names {
            json.item(name);
        }
        json.close_array();
    }
}

/// The session's version; of a server that was never seen, what the client asked for.
fn shown_version(tx: &TlsTx) -> Cow<'static, str> {
    let (client, server) = (tx.client(), tx.server());
    let v = if server.version == 0 { client.version } else { server.version };
    match version::name(v) {
        Some(name) => name.into(),
        None if v == 0 => "UNDETERMINED".into(),
        None => v.to_string().into(),
    }
}

fn write_validity(c: &Certificate, before: bool, after: bool, json: &mut Json) {
    if before {
        json.field("notbefore", iso_second(c.not_before));
    }
    if after {
        json.field("notafter", iso_second(c.not_after));
    }
}

fn write_chain(side: &Side, first: bool, all: bool, json: &mut Json) {
    let Some(der) = side.chain.first() else { return };
    if first {
        json.base64("certificate", der);
    }
    if all {
        json.open_array_key("chain");
        let mut text = Vec::new();
        for der in &side.chain {
            text.clear();
            gabion_record::json::base64_into(der, &mut text);
            json.item(&text);
        }
        json.close_array();
    }
}

fn write_ja3(key: &str, ja3: Option<&Ja3>, json: &mut Json) {
    let Some(ja3) = ja3 else { return };
    json.open_key(key);
    if let Some(hash) = &ja3.hash {
        json.field("hash", hash);
    }
    json.field("string", &ja3.text);
    json.close();
}

fn write_alpns(key: &str, alpns: &[Bytes], json: &mut Json) {
    if alpns.is_empty() {
        return;
    }
    json.open_array_key(key);
    for protocol in alpns {
        json.item(protocol);
    }
    json.close_array();
}

fn write_numbers(key: &str, values: &[u16], json: &mut Json) {
    if values.is_empty() {
        return;
    }
    json.open_array_key(key);
    for v in values {
        json.item_number(*v);
    }
    json.close_array();
}

fn write_client_handshake(hello: &Hello, json: &mut Json) {
    if hello.is_empty() {
        return;
    }
    json.open_key("client_handshake");
    if let Some(name) = hello.version.filter(|v| version::is_known(*v)).and_then(version::name) {
        json.field_plain("version", name);
    }
    write_numbers("ciphers", &hello.ciphers, json);
    write_numbers("exts", &hello.extensions, json);
    write_numbers("sig_algs", &hello.algorithms, json);
    json.close();
}

fn write_server_handshake(hello: &Hello, json: &mut Json) {
    if hello.is_empty() {
        return;
    }
    json.open_key("server_handshake");
    if let Some(name) = hello.version.filter(|v| version::is_known(*v)).and_then(version::name) {
        json.field_plain("version", name);
    }
    json.number("cipher", hello.ciphers.first().copied().unwrap_or(0));
    write_numbers("exts", &hello.extensions, json);
    json.close();
}

fn write_client(client: &Side, wanted: u32, json: &mut Json) {
    let Some(c) = &client.certificate else { return };
    json.open_key("client");
    json.field("subject", &c.subject);
    json.field("issuerdn", &c.issuer);
    json.field("fingerprint", &c.fingerprint);
    json.field("serial", &c.serial);
    write_validity(c, true, true, json);
    let has = |bit: u32| wanted & bit != 0;
    write_chain(client, has(member::CLIENT_CERTIFICATE), has(member::CLIENT_CHAIN), json);
    json.close();
}

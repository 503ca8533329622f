//! EVE records of QUIC.

use super::google;
use super::hello::Extension;
use super::keys::VERSION_2;
use super::names::name_of_extension;
use super::tx::QuicTx;
use crate::tls::fingerprint::Ja3;
use gabion_record::Direction;
use gabion_record::json::Json;

/// Writes the record: version, names, CYU, JA3 or JA3S, JA4, extensions.
pub(super) fn write_record(tx: &QuicTx, json: &mut Json) {
    write_version(tx.version, json);
    if let Some(sni) = tx.sni() {
        json.field("sni", readable(sni).as_bytes());
    }
    if let Some(google) = &tx.google {
        if let Some(ua) = &google.ua {
            json.field("ua", readable(ua).as_bytes());
        }
        if !google.cyus.is_empty() {
            json.open_array_key("cyu");
            for cyu in &google.cyus {
                json.open();
                json.field("hash", cyu.hash);
                json.field("string", &cyu.text);
                json.close();
            }
            json.close_array();
        }
    }
    let Some(tls) = &tx.tls else { return };
    let key = if tx.direction == Direction::ToServer { "ja3" } else { "ja3s" };
    write_ja3(key, tls.ja3(), json);
    if let Some(ja4) = tls.ja4() {
        json.field("ja4", ja4);
    }
    let extensions = tls.extensions();
    if !extensions.is_empty() {
        json.open_array_key("extensions");
        extensions.iter().for_each(|extension| write_extension(extension, json));
        json.close_array();
    }
}

/// Some of Google's versions are texts, small numbers are decimal, others hexadecimal.
fn write_version(version: [u8; 4], json: &mut Json) {
    if google::is_named(version) {
        return json.field("version", version);
    }
    match u32::from_be_bytes(version) {
        VERSION_2 => json.field_plain("version", "v2"),
        n => json.field_plain("version", &format!("{n:x}")),
    }
}

fn write_ja3(key: &str, ja3: &Ja3, json: &mut Json) {
    json.open_key(key);
    if let Some(hash) = &ja3.hash {
        json.field("hash", hash);
    }
    json.field("string", &ja3.text);
    json.close();
}

fn write_extension(extension: &Extension, json: &mut Json) {
    json.open();
    if let Some(name) = name_of_extension(extension.kind) {
        json.field_plain("name", name);
    }
    json.number("type", extension.kind);
    if !extension.values.is_empty() {
        json.open_array_key("values");
        extension.values.iter().for_each(|value| json.item(readable(value).as_bytes()));
        json.close_array();
    }
    json.close();
}

/// Texts are written as UTF-8, with a replacement character for what is none.
fn readable(text: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(text)
}

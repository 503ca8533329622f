//! Reads the files of datasets: one value a line (strings in base64, hashes in hex, addresses as
//! text), perhaps with a reputation behind a comma.

use crate::datasets::Entry;
use gabion_record::json::Json;
use gabion_rules::ruleset::{DatasetDef, DatasetFormat, DatasetType};
use serde_json::Value;
use std::net::IpAddr;

/// Gives each value of the file to `add`. An error names the line.
pub(crate) fn parse(
    def: &DatasetDef,
    text: &[u8],
    add: &mut dyn FnMut(Box<[u8]>, Entry),
) -> Result<(), String> {
    match def.format {
        DatasetFormat::Csv => {}
        DatasetFormat::Json => {
            let all: Value =
                serde_json::from_slice(text).map_err(|e| format!("is no JSON: {e}"))?;
            let list = match &def.array_key {
                Some(key) => at_path(&all, key).ok_or_else(|| format!("has no array \"{key}\""))?,
                None => &all,
            };
            let items = list.as_array().ok_or("does not hold an array")?;
            return items.iter().try_for_each(|item| element(def, item, add));
        }
        DatasetFormat::NdJson => {
            for line in text.split(|b| *b == b'\n').filter(|l| !l.trim_ascii().is_empty()) {
                let item: Value =
                    serde_json::from_slice(line).map_err(|e| format!("is no JSON: {e}"))?;
                element(def, &item, add)?;
            }
            return Ok(());
        }
    }
    for (n, line) in text.split(|b| *b == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let mut parts = line.splitn(2, |b| *b == b',');
        let value = parts.next().unwrap_or(&[]);
        let score = match parts.next() {
            Some(s) if def.has_reputation => std::str::from_utf8(s)
                .ok()
                .and_then(|s| s.trim().parse().ok())
                .ok_or_else(|| format!("line {}: bad reputation", n + 1))?,
            _ => 0,
        };
        let value = decode(def.kind, value).ok_or_else(|| format!("line {}: bad value", n + 1))?;
        add(value, Entry { score, context_json: Box::default() });
    }
    Ok(())
}

/// The node at a dotted path.
fn at_path<'v>(v: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(v, |v, key| v.get(key))
}

/// Takes the node at a dotted path out.
fn remove_path(v: &mut Value, path: &str) {
    let (parent, key) = match path.rsplit_once('.') {
        Some((p, k)) => (p.split('.').try_fold(v, |v, key| v.get_mut(key)), k),
        None => (Some(v), path),
    };
    if let Some(map) = parent.and_then(Value::as_object_mut) {
        map.shift_remove(key);
    }
}

/// One entry of a JSON dataset: its value, and what it adds to alerts.
fn element(
    def: &DatasetDef,
    item: &Value,
    add: &mut dyn FnMut(Box<[u8]>, Entry),
) -> Result<(), String> {
    let key = def.value_key.as_deref().unwrap_or_default();
    let text = at_path(item, key)
        .and_then(Value::as_str)
        .ok_or("failed to get value because it is not a string")?;
    let value = match def.kind {
        DatasetType::String => Some(Box::from(text.as_bytes())),
        kind => decode(kind, text.as_bytes()),
    };
    let value = value.ok_or_else(|| format!("bad value \"{text}\""))?;
    let mut shown = item.clone();
    if def.remove_key {
        remove_path(&mut shown, key);
    }
    let mut j = Json::new();
    j.key_text(def.enrichment_key.as_deref().unwrap_or(&def.name).as_bytes());
    j.push(shown.to_string().as_bytes());
    add(value, Entry { score: 0, context_json: j.take().into() });
    Ok(())
}

/// A value in its text form.
pub(crate) fn decode(kind: DatasetType, text: &[u8]) -> Option<Box<[u8]>> {
    match kind {
        DatasetType::String => {
            let mut out = Vec::new();
            crate::detect::base64::decode_lenient(text, &mut out);
            (!out.is_empty()).then(|| out.into())
        }
        DatasetType::Md5 => hex(text, 16),
        DatasetType::Sha256 => hex(text, 32),
        DatasetType::Ipv4 | DatasetType::Ip => {
            match std::str::from_utf8(text).ok()?.trim().parse().ok()? {
                IpAddr::V4(a) => Some(a.octets().into()),
                IpAddr::V6(a) => match a.to_ipv4_mapped() {
                    Some(v4) => Some(v4.octets().into()),
                    None => Some(a.octets().into()),
                },
            }
        }
    }
}

fn hex(text: &[u8], n: usize) -> Option<Box<[u8]>> {
    if text.len() != 2 * n {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    text.chunks(2)
        .map(|p| u8::try_from(digit(p[0])? << 4 | digit(p[1])?).ok())
        .collect::<Option<Vec<u8>>>()
        .map(Into::into)
}

//! What an object of JSON says: an indicator of STIX 2.1 with its pattern, or the fields of feeds.

use super::Object;
use crate::intel::indicator::{Indicator, number};
use crate::limits::OF_PATTERN_MAX;
use gabion_record::calendar::days_from_date;
use gabion_record::evidence::ThreatLevel;
use gabion_record::logs::{SECOND, TimeNs};
use serde_json::Value;

/// Reads one object; `None` when it is no JSON object.
pub(crate) fn read_object(bytes: &[u8]) -> Option<Object> {
    let Ok(Value::Object(map)) = serde_json::from_slice::<Value>(bytes) else { return None };
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let is_stix = map.contains_key("spec_version") || map.contains_key("pattern");
    if is_stix || text("type").is_some_and(|t| t == "bundle" || map.contains_key("id")) {
        let mut o = stix(&map);
        if text("type") != Some("indicator") {
            (o.is_other, o.is_unsupported) = (true, false);
            o.indicators.clear();
        }
        return Some(o);
    }
    let mut o = Object {
        description: ["description", "malware", "source", "threat", "desc"]
            .iter()
            .find_map(|k| text(k))
            .unwrap_or_default()
            .to_owned(),
        level: text("threat_level")
            .or(text("level"))
            .and_then(|t| ThreatLevel::from_name(t.as_bytes())),
        ..Object::default()
    };
    let nested = |outer: &str, inner: &str| map.get(outer)?.get(inner)?.as_str();
    if o.description.is_empty() {
        o.description = nested("src", "name").unwrap_or_default().to_owned();
    }
    o.tags = nested("tags", "str").unwrap_or_default().to_owned();
    let first = nested("ip", "v4").or_else(|| nested("ip", "v6")).or_else(|| {
        map.values().filter_map(Value::as_str).find(|v| Indicator::parse(v.as_bytes()).is_some())
    });
    match first {
        Some(found) => o.indicators.push(found.to_owned()),
        None => o.is_other = true,
    }
    Some(o)
}

fn stix(map: &serde_json::Map<String, Value>) -> Object {
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    let list = |key: &str| -> Vec<&str> {
        map.get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let mut tags = list("labels");
    tags.extend(list("indicator_types"));
    let mut o = Object {
        is_other: map.get("revoked").and_then(Value::as_bool).unwrap_or(false),
        description: text("name").or(text("description")).unwrap_or_default().to_owned(),
        tags: tags.join(", "),
        from: text("valid_from").and_then(moment),
        until: text("valid_until").and_then(moment),
        confidence: map.get("confidence").and_then(Value::as_u64).map(|c| c.min(100) as u8),
        ..Object::default()
    };
    if text("pattern_type").is_some_and(|t| t != "stix") {
        o.is_unsupported = true;
        return o;
    }
    match pattern(text("pattern").unwrap_or_default()) {
        Some(found) => o.indicators = found,
        None => o.is_unsupported = true,
    }
    o
}

/// The indicators of a pattern of comparisons joined by OR; `None` when it asks for more.
pub(super) fn pattern(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    // Whether comparisons are joined by OR alone is seen between them.
    while !rest.is_empty() {
        rest = rest.trim_start_matches([' ', '\t', '\n', '\r', '[', '(', ']', ')']);
        if let Some(after) = rest.strip_prefix("OR") {
            rest = after;
            continue;
        }
        if rest.is_empty() {
            break;
        }
        rest = comparison(rest, &mut found)?;
        if found.len() > OF_PATTERN_MAX {
            return None;
        }
    }
    (!found.is_empty()).then_some(found)
}

/// One `path = value` or `path IN (…)`; gives what follows.
fn comparison<'a>(text: &'a str, found: &mut Vec<String>) -> Option<&'a str> {
    // A path may have a quoted part: file:hashes.'SHA-256'.
    let mut end = 0;
    let mut is_quoted = false;
    for (at, c) in text.char_indices() {
        is_quoted ^= c == '\'';
        end = at;
        if !is_quoted && matches!(c, ' ' | '=' | '\t' | '\n') {
            break;
        }
    }
    let (path, rest) = text.split_at_checked(end)?;
    let is_number = match path {
        "ipv4-addr:value" | "ipv6-addr:value" | "domain-name:value" | "url:value" => false,
        p if p.starts_with("file:hashes.") || p.starts_with("x509-certificate:hashes.") => false,
        "autonomous-system:number" => true,
        _ => return None,
    };
    let rest = rest.trim_start();
    let is_list = rest.starts_with("IN");
    let rest = rest.strip_prefix("IN").or_else(|| rest.strip_prefix('='))?;
    let mut rest = rest.trim_start();
    if is_list {
        rest = rest.strip_prefix('(')?.trim_start();
    }
    loop {
        let (value, after) = literal(rest)?;
        found.push(if is_number { format!("AS{value}") } else { value });
        rest = after.trim_start();
        if !is_list {
            return Some(rest);
        }
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None => return rest.strip_prefix(')'),
        }
        if found.len() > OF_PATTERN_MAX {
            return None;
        }
    }
}

fn literal(text: &str) -> Option<(String, &str)> {
    let Some(inner) = text.strip_prefix('\'') else {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let digits = text.get(..end)?;
        number(digits.as_bytes())?;
        return Some((digits.to_owned(), text.get(end..)?));
    };
    let mut value = String::new();
    let mut chars = inner.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\'' => return Some((value, inner.get(at + 1..)?)),
            '\\' => value.push(chars.next()?.1),
            c => value.push(c),
        }
    }
    None
}

/// Reads `2026-01-31T12:00:00.123Z`.
fn moment(text: &str) -> Option<TimeNs> {
    let part = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (part(0, 4)?, part(5, 7)?, part(8, 10)?);
    let (h, m, s) = (part(11, 13)?, part(14, 16)?, part(17, 19)?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    let seconds = days_from_date(year, month, day) * 86_400 + h * 3600 + m * 60 + s;
    (is_date && text.ends_with('Z')).then(|| TimeNs(seconds.saturating_mul(SECOND)))
}

//! One record as a JSON line, or as a line of text that is safe on a terminal.

use super::times::Moments;
use super::{finding_id, is_plain};
use crate::evidence;
use crate::journal::{Entry, Fields};
use crate::syslog::{self, Notes, Received};
use gabion_record::json::Json;
use gabion_seal::reader::Found;
use gabion_seal::{Flags, Kind, Record, Transport};
use std::collections::HashMap;

/// One object. `together`: how many messages of this sender are missing before it, and the record that first
/// held an envelope that came again.
pub(super) fn json_line(
    json: &mut Json,
    moments: &mut Moments,
    found: &Found<'_>,
    together: (u32, Option<u64>),
) {
    let (missing, first) = together;
    let record = found.record;
    json.open();
    json.number("n", found.number);
    moment(json, "time", moments, record.time_ns);
    json.field_plain("kind", record.kind.name());
    json.field_plain("transport", found.source.transport_name());
    if !found.source.peer.is_empty() {
        json.field("source", found.source.peer);
    }
    if !found.source.identity.is_empty() {
        json.field("identity", found.source.identity);
    }
    if record.flags.0 != 0 {
        json.open_array_key("flags");
        record.flags.names().for_each(|n| json.item(n));
        json.close_array();
    }
    if record.kind == Kind::Finding {
        json.field("id", finding_id(record.bytes));
    }
    if missing > 0 {
        json.number("missing_before", missing);
    }
    if let Some(first) = first {
        json.number("first", first);
    }
    if found.source.transport == Some(Transport::Journal) {
        entry_said(json, moments, &Entry(record.bytes).read_fields());
        return json.close();
    }
    match std::str::from_utf8(record.bytes) {
        Ok(text)
            if record.kind != Kind::Message
                && text.starts_with('{')
                && !text.contains(['\n', '\r'])
                && (record.kind == Kind::Finding
                    || serde_json::from_str::<serde_json::Value>(text).is_ok()) =>
        {
            json.raw("data", record.bytes);
        }
        Ok(_) => said(json, moments, found),
        Err(_) => {
            said(json, moments, found);
            json.base64("raw_b64", record.bytes);
        }
    }
    json.close();
}

/// A moment as a member.
fn moment(json: &mut Json, key: &str, moments: &mut Moments, ns: u64) {
    json.field_plain(key, moments.text(ns));
}

/// Text as a member; what is no UTF-8 of it is replaced.
fn lossy(json: &mut Json, key: &str, text: &[u8]) {
    match std::str::from_utf8(text) {
        Ok(text) => json.field(key, text),
        Err(_) => json.field(key, String::from_utf8_lossy(text).as_ref()),
    }
}

/// The fields of a message, parsed now: the log keeps only its bytes, which are in `raw`. The whole of a text
/// that is no syslog message is `msg`.
fn said(json: &mut Json, moments: &mut Moments, found: &Found<'_>) {
    let record = found.record;
    if record.flags.has(Flags::OPENED) {
        return said_inside(json, record);
    }
    if let Some(why) = evidence::suspicion(record.flags.0) {
        json.field("suspicious", why.name());
    }
    let bytes = syslog::unpacked(record.bytes);
    let message = syslog::parse(&bytes, &Received { time_ns: record.time_ns, zone_seconds: 0 });
    if record.kind != Kind::Message || is_plain(found, &message) {
        lossy(json, "msg", record.bytes);
        return;
    }
    json.number("pri", message.pri);
    json.number("facility", message.facility());
    json.number("severity", message.severity());
    if let Some(stated) = message.time {
        let ns = u64::try_from(stated.seconds).unwrap_or(0).saturating_mul(1_000_000_000);
        moment(json, "stated", moments, ns.saturating_add(u64::from(stated.nanos)));
    }
    for (key, text) in [
        ("host", message.host),
        ("app", message.app),
        ("pid", message.pid),
        ("msgid", message.msgid),
        ("sd", message.sd),
    ] {
        if let Some(text) = text {
            lossy(json, key, text);
        }
    }
    lossy(json, "msg", message.msg);
    lossy(json, "raw", record.bytes);
    if message.notes != Notes::default() {
        json.open_array_key("notes");
        message.notes.names().for_each(|n| json.item(n));
        json.close_array();
    }
}

/// The main fields of an entry of the journal, and all its fields: a repeated field is an array, a field that is not
/// UTF-8 is an object with its bytes in base64.
fn entry_said(json: &mut Json, moments: &mut Moments, entry: &Fields<'_>) {
    if let Some(us) = entry.time_us() {
        moment(json, "stated", moments, us.saturating_mul(1_000));
    }
    for (key, n) in [("severity", entry.priority()), ("facility", entry.facility())] {
        if let Some(n) = n {
            json.number(key, n);
        }
    }
    for (key, value) in [
        ("host", entry.host()),
        ("app", entry.program()),
        ("pid", entry.process()),
        ("unit", entry.first_of(&["_SYSTEMD_UNIT", "UNIT", "_SYSTEMD_USER_UNIT"])),
        ("msg", entry.get("MESSAGE")),
    ] {
        if let Some(value) = value {
            lossy(json, key, value);
        }
    }
    json.open_key("fields");
    let all = entry.all.as_slice();
    // Values of repeated fields by name; most entries have no such field.
    let mut repeated: HashMap<&[u8], Vec<&[u8]>> = HashMap::new();
    if may_repeat(all) {
        all.iter().for_each(|(name, value)| repeated.entry(name).or_default().push(value));
        repeated.retain(|_, values| values.len() > 1);
    }
    for (name, value) in all {
        // All values are written at the place of the first.
        match repeated.get_mut(name).map(std::mem::take) {
            Some(values) if values.is_empty() => {}
            Some(values) => {
                json.key_text(String::from_utf8_lossy(name).as_bytes());
                json.push(b"[");
                values.iter().for_each(|v| json.item(String::from_utf8_lossy(v).as_ref()));
                json.close_array();
            }
            None => {
                match std::str::from_utf8(name) {
                    Ok(name) => json.key_text(name.as_bytes()),
                    Err(_) => json.key_text(String::from_utf8_lossy(name).as_bytes()),
                }
                match std::str::from_utf8(value) {
                    Ok(text) => json.quoted(text.as_bytes()),
                    Err(_) => {
                        json.push(b"{");
                        json.base64("b64", value);
                        json.close();
                    }
                }
            }
        }
    }
    json.close();
}

/// Whether a name may come twice. Few bytes of each are looked at: only where two agree in these are all compared.
fn may_repeat(all: &[(&[u8], &[u8])]) -> bool {
    // Beyond that comparing would cost more than a table of names.
    if all.len() > 256 {
        return true;
    }
    let mut seen = [0_u64; 16];
    all.iter().enumerate().any(|(at, (name, _))| {
        let end = name.last_chunk::<8>().map_or(0, |end| u64::from_le_bytes(*end));
        let hash = (end ^ name.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54;
        let (word, bit) = ((hash >> 6) as usize, 1_u64 << (hash & 63));
        let before = seen.get_mut(word).map_or(u64::MAX, |seen| {
            let before = *seen;
            *seen |= bit;
            before
        });
        before & bit != 0 && all.iter().take(at).any(|(other, _)| other == name)
    })
}

/// The contents of an envelope of slog; the envelope itself follows in `raw`.
fn said_inside(json: &mut Json, record: &Record<'_>) {
    let (inner, _) = evidence::opened(record.bytes);
    let mut fields = inner.splitn(5, |b| *b == b',').map(String::from_utf8_lossy);
    for key in ["stated", "host", "file", "checksum", "msg"] {
        json.field(key, fields.next().unwrap_or_default().as_ref());
    }
    json.field("raw", String::from_utf8_lossy(record.bytes).as_ref());
}

/// One line: number, time, source, text; whatever a terminal would act on is written as `\xhh`.
pub(super) fn text_line(json: &mut Json, moments: &mut Moments, found: &Found<'_>) {
    let record = found.record;
    json.push_number(found.number);
    json.push(b" ");
    json.push(moments.text(record.time_ns).as_bytes());
    json.push(b" ");
    if found.source.transport == Some(Transport::Journal) {
        let entry = Entry(record.bytes).read_fields();
        put_safe(json, entry.host().unwrap_or(b"-"));
        json.push(b" ");
        put_safe(json, entry.program().unwrap_or(b"-"));
        if let Some(process) = entry.process() {
            json.push(b"[");
            put_safe(json, process);
            json.push(b"]");
        }
        json.push(b": ");
        return put_safe(json, entry.get("MESSAGE").unwrap_or_default());
    }
    let source = if found.source.peer.is_empty() {
        found.source.transport_name().as_bytes()
    } else {
        found.source.peer
    };
    put_safe(json, source);
    json.push(b" ");
    put_safe(json, record.bytes);
}

fn put_safe(json: &mut Json, bytes: &[u8]) {
    if bytes.iter().all(|b| matches!(b, b' '..=b'~')) {
        return json.push(bytes);
    }
    let mut safe = String::with_capacity(bytes.len());
    for part in bytes.utf8_chunks() {
        for c in part.valid().chars() {
            let is_bidi = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if c.is_control() || is_bidi {
                let mut buffer = [0; 4];
                c.encode_utf8(&mut buffer)
                    .bytes()
                    .for_each(|b| safe.push_str(&format!("\\x{b:02x}")));
            } else {
                safe.push(c);
            }
        }
        part.invalid().iter().for_each(|b| safe.push_str(&format!("\\x{b:02x}")));
    }
    json.push(safe.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_safe_on_a_terminal() {
        let mut json = Json::new();
        put_safe(&mut json, b"a\x1b[31mb\r\n\xff\xc2\x9b\xe2\x80\xaee \xc3\xa4");
        assert_eq!(
            json.bytes(),
            "a\\x1b[31mb\\x0d\\x0a\\xff\\xc2\\x9b\\xe2\\x80\\xaee ä".as_bytes()
        );
    }
}

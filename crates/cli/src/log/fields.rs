//! What a message says, in the JSON lines of `show`: fields are read out of the bytes each time, so a
//! better reader applies to old logs.

use super::times::rfc3339;
use gabion_logs::evidence;
use gabion_logs::syslog::{Format, Message, Received, elements, read, unpacked};
use gabion_record::json::Json;
use gabion_seal::{Flags, Record};

/// Writes the fields of a message, `msg` last.
pub(super) fn put(json: &mut Json, record: &Record<'_>) {
    let received = Received { time_ns: record.time_ns, zone_seconds: 0 };
    if let Some(why) = evidence::suspicion(record.flags.0) {
        json.field("suspicious", why.name());
        json.field("msg", String::from_utf8_lossy(record.bytes).as_ref());
        return;
    }
    if record.flags.has(Flags::OPENED) {
        let (inner, _) = evidence::opened(record.bytes);
        let mut fields = inner.splitn(5, |b| *b == b',');
        for name in ["stated", "host", "file"] {
            json.field(name, fields.next().unwrap_or_default());
        }
        let line = fields.nth(1).unwrap_or_default();
        let bytes = unpacked(line);
        let message = read(&bytes, &received);
        put_syslog(json, &Message { host: None, time: None, ..message });
        return;
    }
    let bytes = unpacked(record.bytes);
    put_syslog(json, &read(&bytes, &received));
}

fn put_syslog(json: &mut Json, message: &Message<'_>) {
    json.number("pri", message.pri);
    json.number("facility", message.facility());
    json.number("severity", message.severity());
    if let Some(time) = message.time
        && let Ok(seconds) = u64::try_from(time.seconds)
    {
        let ns = seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(time.nanos));
        json.field("stated", rfc3339(ns));
    }
    for (name, value) in [
        ("host", message.host),
        ("app", message.app),
        ("pid", message.pid),
        ("msgid", message.msgid),
    ] {
        if let Some(value) = value {
            json.field(name, String::from_utf8_lossy(value).as_ref());
        }
    }
    if let Some(sequence) = message.sequence {
        json.number("sequence", sequence);
    }
    if let Some(sd) = message.sd {
        json.open_key("sd");
        for element in elements(sd) {
            json.key_text(String::from_utf8_lossy(element.id).as_bytes());
            json.open();
            for (name, value) in element.params() {
                json.key_text(String::from_utf8_lossy(name).as_bytes());
                json.quoted(String::from_utf8_lossy(&unescaped(value)).as_bytes());
            }
            json.close();
        }
        json.close();
    }
    if message.format == Format::Rfc5424 {
        json.field_plain("format", message.format.name());
    }
    let mut notes = message.notes.names().peekable();
    if notes.peek().is_some() {
        json.open_array_key("notes");
        notes.for_each(|n| json.item(n));
        json.close_array();
    }
    json.field("msg", String::from_utf8_lossy(message.msg).as_ref());
}

/// A value without the backslashes that protect `"`, `\` and `]`; others stay.
fn unescaped(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.iter().peekable();
    while let Some(&b) = rest.next() {
        if b == b'\\'
            && let Some(&&next) = rest.peek()
            && matches!(next, b'"' | b'\\' | b']')
        {
            out.push(next);
            rest.next();
        } else {
            out.push(b);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_seal::Kind;

    fn json(bytes: &[u8], flags: Flags) -> String {
        let mut json = Json::new();
        json.open();
        put(
            &mut json,
            &Record { time_ns: 1_795_212_000_000_000_000, kind: Kind::Message, flags, bytes },
        );
        json.close();
        String::from_utf8_lossy(json.bytes()).into_owned()
    }

    #[test]
    fn fields_of_messages() {
        assert_eq!(
            json(
                b"<34>1 2003-10-11T22:14:15.003Z h su 7 ID [a@1 b=\"\\\"c\\n\"] x",
                Flags::default()
            ),
            r#"{"pri":34,"facility":4,"severity":2,"stated":"2003-10-11T22:14:15.003000000Z","host":"h","app":"su","pid":"7","msgid":"ID","sd":{"a@1":{"b":"\"c\\n"}},"format":"rfc5424","msg":"x"}"#
        );
        let opened = evidence::of_opened(b"t,h,/f,00,a, line", b"ab,cd");
        let text = json(&opened, Flags::OPENED);
        assert!(text.contains(r#""host":"h","file":"/f""#), "{text}");
        assert!(text.ends_with(r#""msg":"line"}"#), "{text}");
    }
}

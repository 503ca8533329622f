//! `gabion log show`: records as JSON lines, or as text that is safe on a terminal.

use super::cross_records::CrossRecords;
use super::options::{Select, Show};
use super::times::{Moments, rfc3339};
use super::wanted::Wanted;
use super::{Ended, LogFault, backwards, folders};
use crate::standard_output::StandardOutput;
use gabion_logs::evidence;
use gabion_logs::journal::{Entry, Fields};
use gabion_logs::syslog::{self, Message, Notes, Received};
use gabion_record::json::Json;
use gabion_seal::reader::{Cursor, Found, Reader, Selection, Sink};
use gabion_seal::text::hex;
use gabion_seal::tree::sha256;
use gabion_seal::verify::Verdict;
use gabion_seal::{Flags, Kind, Record, Transport};
use std::collections::HashMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// How long `--follow` waits between two looks.
const FOLLOW: Duration = Duration::from_millis(50);

/// First and last record.
pub(crate) type Records = (u64, u64);

/// Reads `--record`.
pub(super) fn records(text: &str) -> Result<Records, String> {
    let (a, b) = text.split_once('-').unwrap_or((text, text));
    let number = |t: &str| {
        t.parse::<u64>()
            .map_err(|_| "a record's number is wanted, or A-B, such as 7 or 10-20".to_owned())
    };
    let (first, last) = (number(a)?, if b.is_empty() { u64::MAX } else { number(b)? });
    if first > last {
        return Err("the first is after the last: write the smaller number first".to_owned());
    }
    Ok((first, last))
}

/// Reads `--kind`.
pub(super) fn kind(text: &str) -> Result<Kind, String> {
    let all = [Kind::Message, Kind::Finding, Kind::System];
    let name = crate::values::one_of(text, &all.map(Kind::name))?;
    all.into_iter().find(|kind| kind.name() == name).ok_or(name)
}

/// Reads the options that let whole chunks be skipped; [`Wanted`] looks at the contents of messages.
pub(super) fn selection(select: &Select) -> Result<Selection, LogFault> {
    let (since_ns, until_ns) = (select.since, select.until);
    if let (Some(since), Some(until)) = (since_ns, until_ns)
        && since >= until
    {
        let [since, until] = [since, until].map(rfc3339);
        let text =
            format!("--since {since} is not before --until {until}: no record can be between");
        return Err(LogFault::usage(text));
    }
    let source = select.source.as_ref().map(|s| s.clone().into_bytes());
    Ok(Selection { since_ns, until_ns, records: select.record, source, kind: select.kind })
}

/// Refuses a range of records that begins where the log has ended.
pub(super) fn not_behind_the_end(
    selection: &Selection,
    reader: &Reader<'_>,
    log: &Path,
) -> Result<(), LogFault> {
    let Some((first, last)) = selection.records else { return Ok(()) };
    let next = reader.next_record()?;
    if first < next {
        return Ok(());
    }
    let text = format!("no record {first} to {last}: the log holds {next}, from 0 on");
    Err(LogFault::input(text).about(log))
}

/// What a finding is called: the beginning of a hash of its bytes.
pub(crate) fn finding_id(bytes: &[u8]) -> String {
    hex(&sha256(bytes)[..8])
}

/// Writes records.
pub(super) struct Printer<W> {
    pub(super) out: W,
    json: Json,
    moments: Moments,
    pub(super) across: CrossRecords,
    wanted: Wanted,
    is_text: bool,
    pub(super) shown: u64,
    pub(super) is_closed: bool,
    complaints: u64,
}

impl<W: Write> Printer<W> {
    /// Onto this, only what is wanted.
    pub(super) fn new(out: W, wanted: Wanted, is_text: bool) -> Printer<W> {
        Printer {
            out,
            json: Json::new(),
            moments: Moments::default(),
            across: CrossRecords::default(),
            wanted,
            is_text,
            shown: 0,
            is_closed: false,
            complaints: 0,
        }
    }

    fn write(
        &mut self,
        found: &Found<'_>,
        missing: u32,
        first: Option<u64>,
    ) -> std::io::Result<()> {
        self.json.clear();
        if self.is_text {
            if missing > 0 {
                self.json.push(
                    format!("# {missing} messages of this sender are missing here\n").as_bytes(),
                );
            }
            text_line(&mut self.json, &mut self.moments, found);
        } else {
            json_line(&mut self.json, &mut self.moments, found, (missing, first));
        }
        self.json.push(b"\n");
        self.out.write_all(self.json.bytes())
    }
}

impl<W: Write> Sink for Printer<W> {
    fn record(&mut self, found: &Found<'_>) -> bool {
        let (missing, first) = (self.across.missing(found), self.across.first(found));
        if !self.wanted.takes(found) {
            return true;
        }
        self.shown += 1;
        self.is_closed = self.write(found, missing, first).is_err();
        !self.is_closed
    }

    fn unreadable(&mut self, what: &str) {
        self.across.interrupted();
        self.complaints += 1;
        if self.complaints <= 20 {
            eprintln!("gabion: {what}");
        }
    }
}

/// One object. `together`: how many messages of this sender are missing before it, and the record that first
/// held an envelope that came again.
fn json_line(
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
        entry_said(json, moments, &Entry(record.bytes).read());
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

/// Whether a record is a text without a header: neither a syslog message with a priority, nor one that only lacks it. A
/// line of standard input or of a file is a syslog message if it has a time; all that came by a syslog transport is one.
pub(super) fn is_plain(found: &Found<'_>, message: &Message<'_>) -> bool {
    let is_syslog = matches!(
        found.source.transport,
        Some(Transport::Udp | Transport::Tcp | Transport::Tls | Transport::Relp | Transport::Unix)
    );
    let has_header = is_syslog || message.time.is_some();
    message.notes.has(Notes::BAD_PRI) || message.notes.has(Notes::NO_PRI) && !has_header
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
    let message = syslog::read(&bytes, &Received { time_ns: record.time_ns, zone_seconds: 0 });
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
fn text_line(json: &mut Json, moments: &mut Moments, found: &Found<'_>) {
    let record = found.record;
    json.push_number(found.number);
    json.push(b" ");
    json.push(moments.text(record.time_ns).as_bytes());
    json.push(b" ");
    if found.source.transport == Some(Transport::Journal) {
        let entry = Entry(record.bytes).read();
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

pub(super) fn run(options: &Show) -> Ended {
    let mut selection = selection(&options.select)?;
    let wanted = Wanted::of(&options.select);
    let keys = folders::secret_keys(&options.reading.keys)?;
    let log = folders::open(&options.reading.log)?;
    folders::pinned(&options.reading.log, options.reading.vkey.as_deref())?;
    let mut reader =
        Reader::open(&log, &keys).map_err(|e| LogFault::from(e).about(&options.reading.log))?;
    let mut out = BufWriter::with_capacity(1 << 16, StandardOutput);
    let (shown, is_closed);
    if options.reverse {
        let most = options.lines.unwrap_or(u64::MAX);
        (shown, is_closed) =
            backwards::show(&mut reader, &selection, (wanted, options.text), most, &mut out)?;
    } else {
        if let Some(lines) = options.lines {
            let first = backwards::first_of_last(&mut reader, &selection, &wanted, lines)?;
            let (asked, last) = selection.records.unwrap_or((0, u64::MAX));
            selection.records = Some((asked.max(first), last));
        }
        let mut printer = Printer::new(out, wanted, options.text);
        let mut cursor = Cursor::default();
        loop {
            cursor = reader.scan(cursor, &selection, &mut printer)?;
            if printer.out.flush().is_err() || printer.is_closed || !options.follow {
                break;
            }
            std::thread::sleep(FOLLOW);
        }
        (shown, is_closed) = (printer.shown, printer.is_closed);
    }
    let has_nothing = shown == 0 || keys.is_empty();
    if reader.is_key_missing && has_nothing && !is_closed {
        let what = if !keys.is_empty() {
            "no key given opens what was asked for"
        } else if shown == 0 {
            "give a reader's key with --key"
        } else {
            "only the log's own statements are shown: give a reader's key with --key"
        };
        let text = format!("{}: {what}", options.reading.log.display());
        return Err(LogFault::verdict(Verdict::KeyError, text));
    }
    if shown == 0 && options.select.record.is_some() {
        not_behind_the_end(&selection, &reader, &options.reading.log)?;
    }
    Ok(if reader.is_key_missing && !keys.is_empty() { Verdict::KeyError.code() } else { 0 })
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

//! Random variations of real syslog messages compared with the fields on which rsyslog 8.2302 and syslog-ng 3.38 agree,
//! recorded from runs of both by `lab/log/variations.py --own --without-gabion --save FILE`. Another table, of the corpus's
//! messages say, is read with `GABION_VARIATIONS=FILE`.

use gabion_logs::syslog::{Format, Message, Notes, Received, parse, unpacked};
use gabion_record::base64::from_base64;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Of a thousand fields on which both agree, this many are read in the same way: of all messages, and of those that are
/// not read otherwise on purpose. They are only ever raised.
const FLOORS_PER_MILLE: [usize; 2] = [989, 998];

/// The number of differences of each kind that are printed.
const EXAMPLES: usize = 6;

/// Why a message is read otherwise on purpose, where it is: rows of the table in `docs/syslog-reading.md`.
fn on_purpose(raw: &[u8], m: &Message<'_>) -> Option<&'static str> {
    let host = String::from_utf8_lossy(m.host.unwrap_or_default());
    let bracketed = format!("[{host}]");
    let has_brackets = raw.windows(bracketed.len()).any(|w| w == bracketed.as_bytes());
    if has_brackets && host.parse::<std::net::IpAddr>().is_ok() {
        return Some("an address in brackets is a host");
    }
    if m.msg.starts_with(b"[") && m.app.is_none() {
        return Some("a text that begins with a bracket stays whole");
    }
    if m.format == Format::Rfc5424 && raw.windows(4).any(|w| w == b">1  ") {
        return Some("one space too many before the time of RFC 5424");
    }
    if m.format == Format::Rfc5424 && m.notes.has(Notes::BAD_TIME) && m.msg.len() + 40 < raw.len() {
        return Some("fields behind a time that can't be");
    }
    None
}

fn ours(m: &Message<'_>) -> BTreeMap<&'static str, Value> {
    let text = |f: Option<&[u8]>| {
        f.map(String::from_utf8_lossy).map_or(Value::Null, |t| t.as_ref().into())
    };
    // Spaces before it come and go with the programs' templates, line ends after it with the transport.
    let msg = String::from_utf8_lossy(m.msg);
    BTreeMap::from([
        ("facility", m.facility().into()),
        ("severity", m.severity().into()),
        ("time", m.time.map_or(Value::Null, |t| t.seconds.into())),
        ("host", text(m.host)),
        ("program", text(m.app)),
        ("pid", text(m.pid)),
        ("msg", msg.trim_start_matches(' ').trim_end_matches(['\r', '\n', '\0']).into()),
    ])
}

#[test]
fn fields_on_which_rsyslog_and_syslog_ng_agree() {
    let path = std::env::var_os("GABION_VARIATIONS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/variations.jsonl"),
        PathBuf::from,
    );
    let table = std::fs::read_to_string(path).expect("the table");
    // Field: how many, how many the same; then without those that are read otherwise on purpose.
    let mut fields: BTreeMap<String, [usize; 4]> = BTreeMap::new();
    let mut different: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in table.lines() {
        let case: Value = serde_json::from_str(line).expect("a row of JSON");
        let raw = from_base64(case["raw_b64"].as_str().expect("bytes").as_bytes()).expect("base64");
        let bytes = unpacked(&raw);
        let time_ns = case["received"].as_u64().expect("when it came") * 1_000_000_000;
        let message = parse(&bytes, &Received { time_ns, zone_seconds: 0 });
        let (mine, purpose) = (ours(&message), on_purpose(&bytes, &message));
        let (mut kind, mut shown) = (String::new(), String::new());
        for (field, theirs) in case["agreed"].as_object().expect("fields") {
            let counts = fields.entry(field.clone()).or_default();
            let mine = mine.get(field.as_str()).expect("a field");
            let same = usize::from(mine == theirs);
            let counted = usize::from(purpose.is_none());
            for (count, n) in counts.iter_mut().zip([1, same, counted, counted * same]) {
                *count += n;
            }
            if mine != theirs {
                kind += field;
                kind += " ";
                shown += &format!("    {field}: both {theirs:.60}, ours {mine:.60}\n");
            }
        }
        if !kind.is_empty() {
            let kind = purpose.map_or(kind, str::to_owned);
            let head = raw[..raw.len().min(140)].escape_ascii();
            different.entry(kind).or_default().push(format!("  {head}\n{shown}"));
        }
    }
    let mut report = String::new();
    let mut kinds: Vec<_> = different.iter().collect();
    kinds.sort_by_key(|(_, cases)| std::cmp::Reverse(cases.len()));
    for (kind, cases) in kinds {
        let examples = cases[..cases.len().min(EXAMPLES)].concat();
        report += &format!("{} times {kind}\n{examples}", cases.len());
    }
    let mut sums = [0; 4];
    for (field, counts) in &fields {
        report +=
            &format!("{field}: of {} {}; of {} {}\n", counts[0], counts[1], counts[2], counts[3]);
        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
    }
    assert!(sums[2] > 1_000, "a table of {sums:?} fields");
    for (floor, pair) in FLOORS_PER_MILLE.into_iter().zip(sums.chunks(2)) {
        let (all, same) = (pair[0], pair[1]);
        assert!(
            same * 1_000 >= all * floor,
            "{report}{same} of {all} are below {floor} of a thousand"
        );
    }
}

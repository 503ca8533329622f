//! `gabion behavior list`: the findings of a run, filtered and sorted, with the calls out of hosts and
//! the hosts to look at first.

use super::findings::{Line, read};
use super::{ranked, run_tables};
use crate::commands::terminal_width;
use crate::exit::{Exit, Fault};
use crate::{moments, values};
use clap::{Args, ValueEnum};
use gabion_behavior::catalog::ALL;
use gabion_outputs::idmef::round;
use gabion_outputs::table::{Align, Table};
use gabion_outputs::triage::{self, Rank};
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;
use gabion_record::json::Json;
use std::cmp::Reverse;
use std::fmt::Write;
use std::path::PathBuf;

/// Options of `behavior list`.
#[derive(Debug, Args)]
pub(crate) struct ListOptions {
    /// Folder that a run wrote (`gabion read --behavior -l OUTDIR`)
    #[arg(value_name = "OUTDIR")]
    folder: PathBuf,
    /// Only findings of this type (BEACON); may be given several times
    #[arg(long = "type", value_name = "TYPE", value_parser = kind)]
    kinds: Vec<String>,
    /// Only findings of this level or above: info, low, medium, high, critical
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    level: Option<ThreatLevel>,
    /// Only findings with this address or name at either end
    #[arg(long, value_name = "HOST", value_parser = host)]
    host: Option<String>,
    /// Only findings reported from this moment on (2026-11-23, '2026-11-23 04:00', yesterday, 2h)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = since)]
    since: Option<i64>,
    /// Order of findings [default: rank]
    #[arg(long, value_name = "ORDER", value_enum)]
    sort: Option<Order>,
    /// Rows of each table [default: 20]
    #[arg(long, value_name = "N", value_parser = crate::values::rows)]
    rows: Option<usize>,
    /// Print all findings as comma-separated values, but those of little confidence that are in --json only
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print one JSON object with both tables and all findings
    #[arg(long)]
    json: bool,
}

/// Order of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    /// Level times confidence, then threat
    #[default]
    Rank,
    /// The threat score
    Threat,
    /// The time
    Time,
    /// The host's address
    Host,
    /// The type
    Type,
    /// How many of what it counts
    Count,
}

/// *Calls out* and *hosts*, with how many rows are in neither.
struct Tables {
    rank: Rank,
    left: ranked::Left,
    /// They are made of some findings only.
    is_narrowed: bool,
}

/// Rows of a table by default.
const ROWS: usize = 20;

/// Runs the verb.
pub(crate) fn run(o: &ListOptions) -> Result<Exit, Fault> {
    let (level, since, host) = (o.level.unwrap_or(ThreatLevel::Info), o.since, &o.host);
    let is_type = |l: &Line| o.kinds.iter().any(|kind| l.kind.eq_ignore_ascii_case(kind));
    let is_asked_for = |l: &Line| {
        l.level >= level
            && (o.kinds.is_empty() || is_type(l))
            && host.as_deref().is_none_or(|host| has_end(l, host))
            && since.is_none_or(|since| super::findings::second(&l.when) >= since)
    };
    // A run ranks each report, and the largest numbers stay: this does the same.
    let mut rank = Rank::default();
    let mut all = read(&o.folder, &mut |l| {
        if is_asked_for(l)
            && let Some(seen) = l.seen()
        {
            rank.take(&seen);
        }
    })?;
    all.retain(is_asked_for);
    sort(&mut all, o.sort.unwrap_or_default());
    let is_narrowed = o.level.is_some() || !o.kinds.is_empty() || host.is_some() || since.is_some();
    let tables = match is_narrowed {
        // Made of the findings that match.
        true => Tables { rank, left: (0, 0), is_narrowed },
        // The run's own tables, which include findings that were only counted.
        false => {
            let left = run_tables::join(&o.folder, &mut rank);
            Tables { rank, left, is_narrowed }
        }
    };
    let said = match (o.csv, o.json) {
        (true, _) => csv(&all),
        (_, true) => as_json(&tables, &all),
        _ => text(&tables, &all, o.rows.unwrap_or(ROWS)),
    };
    crate::standard_output::text(&said);
    if all.is_empty() && (o.csv || o.json) {
        eprintln!("gabion: {}: no findings match", o.folder.display());
    }
    Ok(if all.is_empty() { Exit::No } else { Exit::Done })
}

/// The name of a type of findings.
pub(super) fn kind(text: &str) -> Result<String, String> {
    let kinds = kinds();
    let known = kinds.iter().find(|known| text.eq_ignore_ascii_case(known));
    known.map(|known| (*known).to_owned()).ok_or_else(|| {
        let near = values::meant(text, &kinds);
        format!("no type of findings: {near}see docs/detections.md, which has them all")
    })
}

/// All types of findings.
pub(super) fn kinds() -> Vec<&'static str> {
    ALL.iter().flat_map(|(_, about)| about.types).map(|kind| kind.name).collect()
}

/// A level of findings.
fn level(text: &str) -> Result<ThreatLevel, String> {
    let all = ["info", "low", "medium", "high", "critical"];
    ThreatLevel::from_name(values::one_of(text, &all)?.as_bytes())
        .ok_or_else(|| "no level".to_owned())
}

/// The moment that findings are wanted from.
fn since(text: &str) -> Result<i64, String> {
    let wrong = || format!("no time: {}", moments::FORMS);
    let now = jiff::Timestamp::from_nanosecond(gabion_runtime::clock::epoch_ns().into())
        .map_err(|_| wrong())?;
    moments::moment(text, now).ok_or_else(wrong)
}

/// A host as findings write it: an address in its own form, or a name.
fn host(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("the value is empty: write an address or a name".to_owned());
    }
    Ok(Ip::parse(text.trim().as_bytes())
        .map_or_else(|| text.trim().to_owned(), |ip| ip.to_string()))
}

fn has_end(line: &Line, host: &str) -> bool {
    let call = line.call.as_ref();
    line.source.eq_ignore_ascii_case(host)
        || line.target.eq_ignore_ascii_case(host)
        || line.others.iter().any(|other| other == host)
        || call.is_some_and(|c| c.1.eq_ignore_ascii_case(host) || c.0.to_string() == host)
}

fn sort(all: &mut [Line], order: Order) {
    let weight = |l: &Line| l.level.weight() * l.confidence;
    let by_rank = |a: &Line, b: &Line| {
        weight(b)
            .total_cmp(&weight(a))
            .then(b.threat.total_cmp(&a.threat))
            .then_with(|| (&a.when, &a.finding).cmp(&(&b.when, &b.finding)))
    };
    all.sort_by(|a, b| {
        let first = match order {
            Order::Rank => std::cmp::Ordering::Equal,
            Order::Threat => b.threat.total_cmp(&a.threat),
            Order::Time => a.when.cmp(&b.when),
            Order::Host => a.source.cmp(&b.source),
            Order::Type => a.kind.cmp(&b.kind),
            Order::Count => Reverse(a.count).cmp(&Reverse(b.count)),
        };
        first.then_with(|| by_rank(a, b))
    });
}

fn text(tables: &Tables, all: &[Line], rows: usize) -> String {
    let mut out = String::new();
    if all.is_empty() {
        out.push_str("No findings match.\n");
        return out;
    }
    if tables.is_narrowed {
        out.push_str("Both tables are made of the findings that match.\n");
    }
    ranked::text(&tables.rank, tables.left, rows, &mut out);
    let shown: Vec<&Line> = all.iter().filter(|l| !is_faint(l)).collect();
    let faint = all.len() - shown.len();
    let also = match faint {
        0 => String::new(),
        1 => "; 1 more of little confidence is in --json only".to_owned(),
        n => format!("; {n} more of little confidence are in --json only"),
    };
    let _ = writeln!(out, "\nFindings ({}{also})", shown.len());
    let right = Align::Right;
    let mut table = Table::new(&[
        ("WHEN", Align::Left),
        ("LEVEL", Align::Left),
        ("SURE", right),
        ("TYPE", Align::Left),
        ("IN WORDS", Align::Left),
    ]);
    for l in shown.iter().take(rows) {
        table.row([
            l.when.get(..19).unwrap_or(&l.when).replace('T', " "),
            l.level.to_string(),
            format!("{:.2}", l.confidence),
            l.kind.clone(),
            l.text.clone(),
        ]);
    }
    out.push_str(&table.render(terminal_width()));
    if shown.len() > rows {
        let _ = writeln!(out, "{} more: --rows N shows them", shown.len() - rows);
    }
    out
}

const COLUMNS: [&str; 15] = [
    "finding",
    "when",
    "type",
    "level",
    "confidence",
    "source",
    "target",
    "port",
    "threat",
    "count",
    "bytes",
    "seconds",
    "times",
    "uids",
    "description",
];

/// Comma-separated values after RFC 4180.
fn csv(all: &[Line]) -> String {
    let cell = |text: &str| match text.contains([',', '"', '\n', '\r']) {
        // A cell that begins like a formula is made text.
        _ if text.starts_with(['=', '+', '-', '@']) => {
            format!("\"'{}\"", text.replace('"', "\"\""))
        }
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    };
    let mut out = COLUMNS.join(",");
    out.push('\n');
    for l in all.iter().filter(|l| !is_faint(l)) {
        let numbers = [l.count, l.bytes].map(|n| n.to_string());
        let cells = [
            l.finding.clone(),
            l.when.clone(),
            l.kind.clone(),
            l.level.to_string(),
            round(l.confidence).to_string(),
            l.source.clone(),
            l.target.clone(),
            l.port.to_string(),
            round(l.threat).to_string(),
            numbers[0].clone(),
            numbers[1].clone(),
            round(l.seconds).to_string(),
            l.times.to_string(),
            l.uids.join(" "),
            l.text.clone(),
        ];
        let cells: Vec<String> = cells.iter().map(|c| cell(c)).collect();
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

/// Whether it is in JSON only.
fn is_faint(line: &Line) -> bool {
    triage::is_faint(&line.kind, line.confidence)
}

fn as_json(tables: &Tables, all: &[Line]) -> String {
    let mut j = Json::new();
    j.open();
    ranked::json(&tables.rank, tables.left, &mut j);
    j.open_array_key("findings");
    all.iter().for_each(|l| json_of(l, &mut j));
    j.close_array();
    j.close();
    j.into_line()
}

/// A finding as an object.
pub(super) fn json_of(l: &Line, j: &mut Json) {
    j.open();
    j.field("finding", &l.finding);
    j.field("when", &l.when);
    j.field("start", &l.start);
    j.field("type", &l.kind);
    j.field_plain("level", l.level.name());
    j.float("confidence", round(l.confidence));
    j.number("window", l.window);
    j.field("source", &l.source);
    j.field("target", &l.target);
    if l.port > 0 {
        j.number("port", l.port);
    }
    if l.threat > 0.0 {
        j.float("threat", round(l.threat));
    }
    for (name, n) in [("count", l.count), ("bytes", l.bytes), ("times", l.times)] {
        if n > 0 {
            j.number(name, n);
        }
    }
    if l.seconds > 0.0 {
        j.float("seconds", round(l.seconds));
    }
    j.open_array_key("uids");
    l.uids.iter().for_each(|uid| j.item(uid));
    j.close_array();
    j.field("description", &l.text);
    j.close();
}

//! The findings of a run, filtered and sorted, with the calls out of hosts and the hosts to look at first, for
//! `gabion behavior list`.

use crate::findings::{Line, read_findings, second};
use crate::{Error, ranked, run_tables};
use gabion_outputs::idmef::round;
use gabion_outputs::table::{Align, Table};
use gabion_outputs::triage::{self, Rank};
use gabion_record::evidence::ThreatLevel;
use gabion_record::json::Json;
use std::cmp::Reverse;
use std::fmt::Write;
use std::path::Path;

/// Which findings are listed.
#[derive(Clone, Debug, Default)]
pub struct FindingFilter {
    /// Of one of these types; all if there are none.
    pub kinds: Vec<String>,
    /// Of this level or above.
    pub level: Option<ThreatLevel>,
    /// With this address or name at either end.
    pub host: Option<String>,
    /// Reported from this moment on, in seconds since 1970.
    pub since: Option<i64>,
}

impl FindingFilter {
    fn is_narrow(&self) -> bool {
        self.level.is_some()
            || !self.kinds.is_empty()
            || self.host.is_some()
            || self.since.is_some()
    }

    fn takes(&self, l: &Line) -> bool {
        let is_type = || self.kinds.iter().any(|kind| l.kind.eq_ignore_ascii_case(kind));
        l.level >= self.level.unwrap_or(ThreatLevel::Info)
            && (self.kinds.is_empty() || is_type())
            && self.host.as_deref().is_none_or(|host| has_end(l, host))
            && self.since.is_none_or(|since| second(&l.when) >= since)
    }
}

/// Order of findings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FindingOrder {
    /// Level times confidence, then threat.
    #[default]
    Rank,
    /// The threat score.
    Threat,
    /// The time.
    Time,
    /// The host's address.
    Host,
    /// The type.
    Type,
    /// How many of what it counts.
    Count,
}

/// Findings with the tables *calls out* and *hosts*.
#[derive(Debug)]
pub struct FindingList {
    tables: Tables,
    all: Vec<Line>,
    warning: Option<String>,
}

impl FindingList {
    /// Reads the findings in a folder. The tables are made of those that the filter takes; without a filter they are
    /// the run's own, which include findings that were only counted.
    ///
    /// # Errors
    /// When the folder has no findings.
    pub fn read_folder(
        folder: &Path,
        filter: &FindingFilter,
        order: FindingOrder,
    ) -> Result<FindingList, Error> {
        // A run ranks each report, and the largest numbers stay: this does the same.
        let mut rank = Rank::default();
        let mut found = read_findings(folder, None, &mut |l| {
            if filter.takes(l)
                && let Some(seen) = l.seen()
            {
                rank.rank_finding(&seen);
            }
        })?;
        found.all.retain(|l| filter.takes(l));
        sort(&mut found.all, order);
        let is_narrowed = filter.is_narrow();
        let left = if is_narrowed { (0, 0) } else { run_tables::join(folder, &mut rank) };
        let tables = Tables { rank, left, is_narrowed };
        Ok(FindingList { tables, all: found.all, warning: found.warning })
    }

    /// What is wrong with the file of findings.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Whether no finding matches.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// For people: up to `rows` rows of each table. `width`: columns of the terminal, if it is one.
    pub fn text(&self, rows: usize, width: Option<u16>) -> String {
        text(&self.tables, &self.all, rows, width)
    }

    /// All findings as comma-separated values after RFC 4180, but those of little confidence.
    pub fn csv(&self) -> String {
        csv(&self.all)
    }

    /// One JSON object with both tables and all findings, with its line end.
    pub fn json(&self) -> String {
        as_json(&self.tables, &self.all)
    }
}

/// *Calls out* and *hosts*, with how many rows are in neither.
#[derive(Debug)]
struct Tables {
    rank: Rank,
    left: ranked::Left,
    /// They are made of some findings only.
    is_narrowed: bool,
}

fn has_end(line: &Line, host: &str) -> bool {
    let call = line.call.as_ref();
    line.source.eq_ignore_ascii_case(host)
        || line.target.eq_ignore_ascii_case(host)
        || line.others.iter().any(|other| other == host)
        || call.is_some_and(|c| c.1.eq_ignore_ascii_case(host) || c.0.to_string() == host)
}

fn sort(all: &mut [Line], order: FindingOrder) {
    let weight = |l: &Line| l.level.weight() * l.confidence;
    let by_rank = |a: &Line, b: &Line| {
        weight(b)
            .total_cmp(&weight(a))
            .then(b.threat.total_cmp(&a.threat))
            .then_with(|| (&a.when, &a.finding).cmp(&(&b.when, &b.finding)))
    };
    all.sort_by(|a, b| {
        let first = match order {
            FindingOrder::Rank => std::cmp::Ordering::Equal,
            FindingOrder::Threat => b.threat.total_cmp(&a.threat),
            FindingOrder::Time => a.when.cmp(&b.when),
            FindingOrder::Host => a.source.cmp(&b.source),
            FindingOrder::Type => a.kind.cmp(&b.kind),
            FindingOrder::Count => Reverse(a.count).cmp(&Reverse(b.count)),
        };
        first.then_with(|| by_rank(a, b))
    });
}

fn text(tables: &Tables, all: &[Line], rows: usize, width: Option<u16>) -> String {
    let mut out = String::new();
    if all.is_empty() {
        out.push_str("No findings match.\n");
        return out;
    }
    if tables.is_narrowed {
        out.push_str("Both tables are made of the findings that match.\n");
    }
    ranked::text(&tables.rank, tables.left, rows, width, &mut out);
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
    out.push_str(&table.render(width));
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
    let cell = |text: &str| {
        // A cell that begins like a formula is made text.
        if text.starts_with(['=', '+', '-', '@']) {
            format!("\"'{}\"", text.replace('"', "\"\""))
        } else if text.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
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
    triage::is_faint(line.topic, line.confidence)
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
pub(crate) fn json_of(l: &Line, j: &mut Json) {
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

//! `gabion behavior list`: the findings of a run, filtered and sorted, with the calls out of hosts and
//! the hosts to look at first.

use crate::exit::{Exit, Fault};
use crate::{moments, standard_output, terminal, values};
use clap::{Args, ValueEnum};
use gabion_behavior::catalog::ALL;
use gabion_record::Ip;
use gabion_record::evidence::ThreatLevel;
use gabion_reports::{FindingFilter, FindingList, FindingOrder};
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
    /// Print findings as comma-separated values, without those of little confidence (--json has them)
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
    /// The number of events that it counts
    Count,
}

impl Order {
    fn of_list(self) -> FindingOrder {
        match self {
            Order::Rank => FindingOrder::Rank,
            Order::Threat => FindingOrder::Threat,
            Order::Time => FindingOrder::Time,
            Order::Host => FindingOrder::Host,
            Order::Type => FindingOrder::Type,
            Order::Count => FindingOrder::Count,
        }
    }
}

/// Rows of a table by default.
const ROWS: usize = 20;

/// Runs the verb.
pub(crate) fn run(o: &ListOptions) -> Result<Exit, Fault> {
    let filter = FindingFilter {
        kinds: o.kinds.clone(),
        level: o.level,
        host: o.host.clone(),
        since: o.since,
    };
    let list = FindingList::read_folder(&o.folder, &filter, o.sort.unwrap_or_default().of_list())?;
    list.warning().iter().for_each(|warning| eprintln!("gabion: {warning}"));
    standard_output::text(match (o.csv, o.json) {
        (true, _) => list.csv(),
        (_, true) => list.json(),
        _ => list.text(o.rows.unwrap_or(ROWS), terminal::width()),
    });
    if list.is_empty() && (o.csv || o.json) {
        eprintln!("gabion: {}: no findings match", o.folder.display());
    }
    Ok(if list.is_empty() { Exit::No } else { Exit::Done })
}

/// The name of a type of findings.
pub(super) fn kind(text: &str) -> Result<String, String> {
    let kinds = kinds();
    let known = kinds.iter().find(|known| text.eq_ignore_ascii_case(known));
    known.map(|known| (*known).to_owned()).ok_or_else(|| {
        let near = values::meant(text, &kinds);
        format!("not a type of findings: {near}docs/detections.md lists them all")
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
    let wrong = || format!("not a time: {}", moments::FORMS);
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

//! What a run of the behaviour engine found, on one page or as one JSON object.

use crate::members::{json_limits, json_memory};
use crate::ranked;
use gabion_flowlog::InputReport;
use gabion_outputs::idmef::round;
use gabion_outputs::profile_store::Written;
use gabion_outputs::table::{Align, Table, thousands};
use gabion_record::json::Json;
use gabion_record::ledger::{Ledger, ShedReason};
use gabion_record::limits::Reached;
use gabion_sensor::flows::{Found, Ran};
use std::cmp::Reverse;
use std::fmt::Write;

/// A run of the behaviour engine that has ended.
pub struct FlowReport<'a> {
    /// What happened to each input.
    pub inputs: &'a [&'a InputReport],
    /// What the run left.
    pub ran: &'a Ran,
    /// What it found.
    pub found: &'a Found,
    /// The ledgers of all inputs together.
    pub ledger: Ledger,
    /// The network engine's own summary, a JSON object.
    pub network: Option<String>,
    /// Profiles in the folder's database.
    pub stored: Option<Written>,
    /// Fixed limits that were reached.
    pub limits: Reached,
}

impl FlowReport<'_> {
    /// For people. `width`: columns of the terminal, if it is one.
    pub fn text(&self, width: Option<u16>) -> String {
        text(self, width)
    }

    /// One JSON object, with its line end.
    pub fn json(&self) -> String {
        json(self)
    }
}

/// Rows of each table of what was found.
const HOSTS: usize = 10;
/// Limits named that were reached.
const LIMITS: usize = 5;

fn text(ended: &FlowReport<'_>, width: Option<u16>) -> String {
    let mut out = String::new();
    let c = &ended.ran.counts;
    let used = ended.inputs.iter().filter(|r| r.ledger.passed().items > 0).count();
    let _ = writeln!(
        out,
        "{} of {}: {} ({} established), {}, {}",
        many(c.records, "record"),
        many(used as u64, "log"),
        many(c.flows, "flow"),
        thousands(c.established),
        many(c.sources, "source"),
        many(c.windows, "window")
    );
    if ended.found.evidence.is_empty() {
        out.push_str("\nNo evidence.\n");
    } else {
        let _ = writeln!(
            out,
            "\nEvidence ({}, {} repeats suppressed; {} written)",
            thousands(c.evidence),
            thousands(c.repeats),
            many(c.findings, "finding")
        );
        let columns = [("TYPE", Align::Left), ("LEVEL", Align::Left), ("COUNT", Align::Right)];
        let mut table = Table::new(&columns);
        for (name, level, count) in ended.found.evidence.each() {
            table.row([name.to_owned(), level.to_string(), thousands(count)]);
        }
        out.push_str(&table.render(width));
    }
    ranked::text(&ended.found.rank, (0, 0), HOSTS, width, &mut out);
    if c.crowded > 0 {
        let n = thousands(c.crowded);
        let _ = writeln!(out, "\n{n} findings suppressed: flood of one-off sources");
    }
    if c.folded_notable.count > 0 {
        let _ = writeln!(
            out,
            "\n{} of own addresses and of addresses active over minutes had no room and {} dropped: raise \
             --budget. Most active of them: {}",
            many(c.folded_notable.count, "profile"),
            if c.folded_notable.count == 1 { "was" } else { "were" },
            c.folded_notable.each().map(|f| f.ip.to_string()).collect::<Vec<_>>().join(", ")
        );
    }
    if !ended.ran.whitelisted.is_empty() {
        out.push_str("\nWhitelisted\n");
        let right = Align::Right;
        let columns =
            [("LINE", right), ("ENTRY", Align::Left), ("RECORDS", right), ("EVIDENCE", right)];
        let mut table = Table::new(&columns);
        for w in &ended.ran.whitelisted {
            let text = w.text.clone();
            let (records, evidence) = (thousands(w.records), thousands(w.evidence));
            table.row([w.line.to_string(), text, records, evidence]);
        }
        out.push_str(&table.render(width));
    }
    limits(ended, width, &mut out);
    let is_complete = ended.ledger.is_complete()
        && ended.ran.sources.is_complete()
        && ended.limits.iter().next().is_none();
    let state = if is_complete { ": complete, all records accounted for, none shed" } else { "" };
    let _ = writeln!(
        out,
        "\nLedger{state}\n  logs     {}\n  sources  {}",
        ended.ledger, ended.ran.sources
    );
    if let Some(team) = &ended.ran.team {
        let _ = writeln!(out, "  workers  {}", team.parcels);
    }
    out
}

/// Limits that were reached, those reached most often first.
fn limits(ended: &FlowReport<'_>, width: Option<u16>, out: &mut String) {
    let mut all: Vec<_> = ended.limits.iter().collect();
    if all.is_empty() {
        return;
    }
    all.sort_by_key(|(_, times)| Reverse(*times));
    let beyond = all.len().saturating_sub(LIMITS);
    out.push_str("\nLimits that were reached\n");
    let mut table = Table::new(&[
        ("LIMIT", Align::Left),
        ("VALUE", Align::Right),
        ("TIMES", Align::Right),
        ("WHAT WAS SHED", Align::Left),
    ]);
    for (limit, times) in all.into_iter().take(LIMITS) {
        let shed = limit.meaning.text().to_owned();
        table.row([limit.full_name(), thousands(limit.value), thousands(times), shed]);
    }
    out.push_str(&table.render(width));
    if beyond > 0 {
        let _ = writeln!(
            out,
            "and {}: run.json and --json have all",
            many(beyond as u64, "more limit")
        );
    }
}

/// A number and a noun, in the plural where it needs one.
fn many(n: u64, of: &str) -> String {
    format!("{} {of}{}", thousands(n), if n == 1 { "" } else { "s" })
}

fn json(ended: &FlowReport<'_>) -> String {
    let mut j = Json::new();
    let c = &ended.ran.counts;
    j.open();
    j.open_key("counts");
    for (name, n) in [
        ("records", c.records),
        ("flows", c.flows),
        ("established", c.established),
        ("not_established", c.not_established),
        ("private_to_private", c.private_to_private),
        ("profiles", c.profiles),
        ("sources", c.sources),
        ("evidence", c.evidence),
        ("repeats", c.repeats),
        ("findings", c.findings),
        ("reports", c.reports),
        ("folded_evidence", c.folded_evidence),
        ("alerts", c.alerts),
        ("windows", c.windows),
        ("crowded", c.crowded),
        ("folded", c.folded),
        ("folded_notable", c.folded_notable.count),
        ("whitelisted", c.whitelisted),
        ("whitelisted_evidence", c.whitelisted_evidence),
    ] {
        j.number(name, n);
    }
    j.close();
    if c.records > 0 {
        j.moment("first", c.first);
        j.moment("last", c.last);
    }
    j.open_array_key("folded_notable");
    for folded in c.folded_notable.each() {
        j.open();
        j.field_plain("profile", &folded.ip.to_string());
        j.number("records_and_findings", folded.shown);
        j.close();
    }
    j.close_array();
    j.open_array_key("evidence");
    for (name, level, count) in ended.found.evidence.each() {
        j.open();
        j.field_plain("type", name);
        j.field_plain("level", level.name());
        j.number("count", count);
        j.close();
    }
    j.close_array();
    ranked::json(&ended.found.rank, (0, 0), &mut j);
    if let Some(lines) = &ended.found.lines {
        j.open_array_key("findings");
        let mut shown = 0;
        for object in lines.objects() {
            j.next_item();
            j.push(object);
            shown += 1;
        }
        j.close_array();
        j.number("findings_left", c.findings.saturating_sub(shown));
    }
    j.open_array_key("alerts");
    for (ip, window, sum) in &ended.found.alerts {
        j.open();
        j.field_plain("profile", &ip.to_string());
        j.number("window", *window);
        j.float("accumulated", round(*sum));
        j.close();
    }
    j.close_array();
    j.open_array_key("whitelisted");
    for w in &ended.ran.whitelisted {
        j.open();
        j.number("line", w.line);
        j.field("entry", &w.text);
        j.number("records", w.records);
        j.number("evidence", w.evidence);
        j.close();
    }
    j.close_array();
    j.open_array_key("inputs");
    for report in ended.inputs {
        j.open();
        j.field("path", report.path.to_string_lossy().as_bytes());
        if let Some(kind) = report.kind {
            j.field_plain("kind", kind.name());
        }
        let mut ledger = Vec::new();
        report.ledger.write_json_fields(&mut ledger);
        j.members(&ledger);
        j.open_key("skipped");
        for (skip, count, _) in report.skips.iter() {
            j.number(skip.name(), count);
        }
        j.close();
        j.number("late", report.late);
        j.number("reorder_cut", report.cut);
        j.number("clock_jumps", report.jumps);
        j.number("restarts", report.restarts);
        j.number("lost_ends", report.lost_ends);
        if let Some(error) = &report.error {
            j.field("error", error.to_string());
        }
        j.close();
    }
    j.close_array();
    j.open_key("ledger");
    let mut ledger = Vec::new();
    ended.ledger.write_json_fields(&mut ledger);
    j.members(&ledger);
    j.close();
    // Items shed by fixed limits: `limits` names them.
    j.open_key("limit_losses");
    let (mut losses, times) = (Ledger::new(), ended.limits.total());
    losses.receive(times, 0);
    losses.shed(ShedReason::LimitReached, times, 0);
    let mut ledger = Vec::new();
    losses.write_json_fields(&mut ledger);
    j.members(&ledger);
    j.close();
    json_limits(&ended.limits, &mut j);
    j.open_key("sources");
    let mut ledger = Vec::new();
    ended.ran.sources.write_json_fields(&mut ledger);
    j.members(&ledger);
    j.close();
    if let Some(why) = &ended.ran.failed {
        j.field("failed", &why.message);
    }
    if let Some(team) = &ended.ran.team {
        j.open_key("workers");
        let mut ledger = Vec::new();
        team.parcels.write_json_fields(&mut ledger);
        j.members(&ledger);
        j.number("lost", team.lost as u64);
        j.number("lost_records", team.lost_records);
        j.number("shards_restarted", team.restarted);
        j.number("changes", team.changes);
        j.close();
    }
    j.open_array_key("budgets");
    j.open();
    j.field_plain("budget", "behavior");
    j.number("limit", ended.ran.budget as u64);
    j.number("used", ended.ran.used as u64);
    // How often a source was folded for want of room.
    j.number("refused", c.folded);
    j.close();
    j.close_array();
    if let Some(stored) = &ended.stored {
        j.open_key("profiles");
        j.number("rows", stored.rows);
        j.number("windows_gone", stored.windows_gone);
        j.close();
    }
    json_memory(&mut j);
    if let Some(network) = &ended.network {
        j.raw("network", network.trim_ascii_end().as_bytes());
    }
    j.close();
    j.into_line()
}

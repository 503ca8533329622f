//! The two tables of a run, *calls out* and *hosts*, for people and for programs.

use crate::limits::RANKED_ROWS_MAX;
use gabion_outputs::idmef::round;
use gabion_outputs::table::{Align, Table, thousands};
use gabion_outputs::triage::{Call, Rank};
use gabion_record::budget::ByteSize;
use gabion_record::json::Json;
use gabion_record::logs::{SECOND, TimeNs};
use std::fmt::Write;

/// The destination that a pair calls, with the port.
pub(crate) fn callee(call: &Call) -> String {
    match call.port {
        0 => call.dst.clone(),
        port if call.dst.contains(':') => format!("[{}]:{port}", call.dst),
        port => format!("{}:{port}", call.dst),
    }
}

/// Rows that are in neither table any more: those of *calls out*, and of *hosts*.
pub(crate) type Left = (u64, u64);

/// For people: up to `rows` rows of each table.
pub(crate) fn text(rank: &Rank, left: Left, rows: usize, width: Option<u16>, out: &mut String) {
    let right = Align::Right;
    let calls = rank.calls();
    if !calls.is_empty() {
        let _ = writeln!(out, "\nCalls out, by threat{}", shown_part(rows, calls.len(), left.0));
        let mut table = Table::new(&[
            ("THREAT", right),
            ("FROM", Align::Left),
            ("TO", Align::Left),
            ("WHAT", Align::Left),
            ("FLOWS", right),
            ("SENT", right),
            ("LEVEL", Align::Left),
        ]);
        for c in calls.into_iter().take(rows) {
            table.row([
                format!("{:.3}", c.threat),
                c.src.to_string(),
                callee(c),
                c.kinds.join(", "),
                thousands(c.count),
                if c.bytes > 0 { ByteSize(c.bytes).to_string() } else { String::new() },
                c.level.to_string(),
            ]);
        }
        out.push_str(&table.render(width));
    }
    let hosts = rank.hosts();
    if !hosts.is_empty() {
        let _ = writeln!(
            out,
            "\nHosts, by their worst finding{}",
            shown_part(rows, hosts.len(), left.1)
        );
        let mut table = Table::new(&[
            ("HOST", Align::Left),
            ("WORST", right),
            ("BY", Align::Left),
            ("LEVEL", Align::Left),
            ("KINDS", right),
        ]);
        for h in hosts.into_iter().take(rows) {
            table.row([
                h.host.to_string(),
                format!("{:.2}", h.worst),
                h.kind.clone(),
                h.level.to_string(),
                h.kinds.to_string(),
            ]);
        }
        out.push_str(&table.render(width));
    }
    if rank.dropped > 0 {
        let _ = writeln!(
            out,
            "{} rows with lower scores were dropped: the tables are full",
            thousands(rank.dropped)
        );
    }
}

/// How many of how many are shown, where not all are.
fn shown_part(rows: usize, kept: usize, left: u64) -> String {
    if kept > rows || left > 0 {
        format!(" (the first {} of {})", rows.min(kept), thousands(kept as u64 + left))
    } else {
        String::new()
    }
}

/// For programs: members of an open object.
pub(crate) fn json(rank: &Rank, left: Left, j: &mut Json) {
    let moment = |second: i64| TimeNs(second.saturating_mul(SECOND));
    let (calls, hosts) = (rank.calls(), rank.hosts());
    let beyond = |all: usize| all.saturating_sub(RANKED_ROWS_MAX) as u64;
    j.number("calls_out_left", left.0 + beyond(calls.len()));
    j.number("hosts_left", left.1 + beyond(hosts.len()));
    // Rows of either table for which there was no space during the run.
    j.number("rows_dropped", rank.dropped);
    j.open_array_key("calls_out");
    for c in calls.into_iter().take(RANKED_ROWS_MAX) {
        j.open();
        j.ip("src", c.src);
        j.field("dst", &c.dst);
        if c.port > 0 {
            j.number("port", c.port);
        }
        j.float("threat", round(c.threat));
        j.open_array_key("what");
        c.kinds.iter().for_each(|kind| j.item(kind));
        j.close_array();
        j.field_plain("level", c.level.name());
        j.number("count", c.count);
        if c.bytes > 0 {
            j.number("bytes", c.bytes);
        }
        if c.seconds > 0.0 {
            j.float("seconds", round(c.seconds));
        }
        // Level times confidence: the order of rows of one threat.
        j.float("weight", round(c.weight));
        j.moment("first", moment(c.span.0));
        j.moment("last", moment(c.span.1));
        j.close();
    }
    j.close_array();
    j.open_array_key("hosts");
    for h in hosts.into_iter().take(RANKED_ROWS_MAX) {
        j.open();
        j.ip("host", h.host);
        j.float("worst", round(h.worst));
        j.field("type", &h.kind);
        j.field_plain("level", h.level.name());
        j.number("kinds", h.kinds as u64);
        // The worst of each kind together: the order of hosts of as many kinds.
        j.float("sum", round(h.sum));
        j.close();
    }
    j.close_array();
}

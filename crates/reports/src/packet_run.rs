//! The report at the end of a run: tables for people, or one JSON object for machines.

use crate::members::{json_budgets, json_limits, json_memory};
use crate::rule_costs::{COSTLY_RULES_SHOWN, rule_cost_table, write_rule_costs_json};
use gabion_net::Engine;
use gabion_outputs::table::{Align, Table, thousands};
use gabion_outputs::timestamp::Stamp;
use gabion_outputs::{AlertTally, Outputs};
use gabion_record::budget::{BudgetReport, ByteSize};
use gabion_record::json::Json;
use gabion_record::ledger::{StageLedger, stages};
use gabion_rules::format_rule_id;
use gabion_sensor::packets::{InputDone, PacketsDone};
use std::fmt::Write as _;

/// A run over captures that has ended.
pub struct PacketReport<'a> {
    /// What the run left.
    pub done: &'a PacketsDone,
    /// Its outputs, with what they counted.
    pub outputs: &'a Outputs,
    /// The engine that it ran.
    pub engine: &'a Engine,
    /// Use of memory was asked for.
    pub memory: bool,
    /// Costs of rules were asked for.
    pub costs: bool,
    /// The exit code of the program.
    pub exit: u8,
}

impl PacketReport<'_> {
    /// The tables. `width`: columns of the terminal, if it is one.
    pub fn text(&self, width: Option<u16>) -> String {
        text(self, width)
    }

    /// One JSON object, with its line end.
    pub fn json(&self) -> String {
        json(self)
    }

    /// Most severe first, then most frequent.
    fn findings(&self) -> Vec<&AlertTally> {
        let mut all: Vec<&AlertTally> = self.outputs.tally().alerts.iter().collect();
        all.sort_by_key(|a| (a.severity, std::cmp::Reverse(a.count), a.gid, a.sid));
        all
    }

    fn records(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<(&str, u64)> =
            self.outputs.tally().records.iter().map(|(n, c)| (n.as_str(), *c)).collect();
        all.sort();
        all
    }

    fn ledger(&self) -> Vec<StageLedger> {
        self.done.ledgers.by_stage()
    }
}

/// What a stage counts.
fn unit(stage: &str) -> &'static str {
    match stage {
        stages::READER
        | stages::ENGINE
        | stages::DECODE
        | stages::WORKER
        | stages::READER_TO_WORKER
        | stages::WORKER_TO_WORKER => "frames",
        stages::DEFRAG => "fragments",
        stages::FLOW => "packets",
        stages::FLOWS => "flows",
        stages::STREAM => "segments",
        stages::APP => "chunks",
        stages::ALERTS => "alerts",
        stages::LIMITS | stages::PRESSURE => "items",
        _ => "lines",
    }
}

fn text(r: &PacketReport<'_>, width: Option<u16>) -> String {
    let mut out = String::new();
    inputs(r, &mut out);
    findings(r, width, &mut out);
    records(r, width, &mut out);
    outputs(r, width, &mut out);
    if r.costs {
        let _ = writeln!(out, "\nCosts of rules");
        out.push_str(&rule_cost_table(&r.done.costs, r.engine, COSTLY_RULES_SHOWN, width));
    }
    if r.memory {
        budgets(r, width, &mut out);
    }
    ledger(r, width, &mut out);
    out
}

fn inputs(r: &PacketReport<'_>, out: &mut String) {
    let mut stamp = Stamp::new();
    let mut at = |ns: u64| {
        let mut text = Vec::new();
        stamp.iso(ns, &mut text);
        String::from_utf8_lossy(&text).into_owned()
    };
    let read: Vec<_> = r.done.inputs.iter().filter(|i| i.error.is_none()).collect();
    const SHOWN: usize = 10;
    for i in read.iter().take(SHOWN) {
        let (path, frames) = (i.path.display(), thousands(i.frames));
        let _ = write!(out, "{path}: {frames} packets, {}", ByteSize(i.bytes));
        if let Some((first, last)) = i.span_ns {
            let seconds = (last - first) as f64 / 1e9;
            let _ = write!(out, ", {seconds:.1} s from {}", at(first));
        }
        out.push('\n');
    }
    if read.len() > SHOWN {
        let rest = &read[SHOWN..];
        let frames: u64 = rest.iter().map(|i| i.frames).sum();
        let _ = writeln!(out, "and {} more: {} packets", rest.len(), thousands(frames));
    }
    times(r, out);
    if let Some(said) = wrong_checksums_line(r.done, "-k none") {
        let _ = writeln!(out, "checksums: {said}");
    }
    if r.done.is_stopped {
        out.push_str("stopped before the end\n");
    }
}

/// What was unusual about the times of packets.
fn times(r: &PacketReport<'_>, out: &mut String) {
    let (clock, ended) = (r.done.clock, r.done.counters.ended_by_leaps);
    match clock.strays {
        0 => {}
        1 => {
            out.push_str("times: 1 packet has a time that no other agrees with: it ended no flow\n")
        }
        n => {
            let n = thousands(n);
            let _ = writeln!(
                out,
                "times: {n} packets have times that no others agree with: they ended no flow"
            );
        }
    }
    if clock.steps_back > 0 {
        let _ = writeln!(
            out,
            "times: packets continued with an earlier time, {} in all: another clock, or captures out \
             of order",
            count(clock.steps_back, "time", "times")
        );
    }
    if ended > 0 {
        let _ = writeln!(
            out,
            "times: {} of {} s or more, which later packets agree with, ended {}",
            count(clock.leaps, "leap", "leaps"),
            gabion_capture::limits::LEAP_NS / 1_000_000_000,
            count(ended, "flow", "flows")
        );
    }
}

/// The line about packets with wrong checksums, if there were any; `how` is the option that accepts them.
pub fn wrong_checksums_line(done: &PacketsDone, how: &str) -> Option<String> {
    let n = done.wrong_checksums;
    if n == 0 {
        return None;
    }
    let packets = count(n, "TCP packet has a wrong checksum", "TCP packets have wrong checksums");
    let are = if n == 1 { "was" } else { "were" };
    let said = format!("{packets} and {are} not inspected as part of a stream");
    Some(match done.checksums_ignored_from {
        Some(from) => format!(
            "{said}; from packet {} on checksums were ignored, because more than a tenth were wrong: \
             {how} ignores all",
            thousands(from)
        ),
        None => format!(
            "{said}: if the capture was made on the host that sent them, whose network card computes \
             checksums, read it with {how}"
        ),
    })
}

/// A count with its unit.
fn count(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", thousands(n), if n == 1 { one } else { many })
}

fn findings(r: &PacketReport<'_>, width: Option<u16>, out: &mut String) {
    let all = r.findings();
    if r.engine.detector.is_none() {
        out.push_str("\nFindings: no rules were given (-S FILE)\n");
        return;
    }
    let total: u64 = all.iter().map(|a| a.count).sum();
    let _ = writeln!(
        out,
        "\nFindings: {} alerts of {} rules",
        thousands(total),
        thousands(all.len() as u64)
    );
    if all.is_empty() {
        return;
    }
    let mut t = Table::new(&[
        ("sid", Align::Right),
        ("priority", Align::Right),
        ("message", Align::Left),
        ("alerts", Align::Right),
        ("first", Align::Left),
    ]);
    for a in all {
        t.row([
            format_rule_id(a.gid, a.sid),
            a.severity.to_string(),
            a.msg.clone(),
            thousands(a.count),
            format!("{} -> {}", a.first.0, a.first.1),
        ]);
    }
    out.push_str(&t.render(width));
}

fn records(r: &PacketReport<'_>, width: Option<u16>, out: &mut String) {
    let all = r.records();
    if all.is_empty() {
        return;
    }
    out.push_str("\nRecords\n");
    let mut t = Table::new(&[("type", Align::Left), ("records", Align::Right)]);
    for (name, count) in all {
        t.row([name.to_string(), thousands(count)]);
    }
    out.push_str(&t.render(width));
}

fn outputs(r: &PacketReport<'_>, width: Option<u16>, out: &mut String) {
    let files = r.outputs.files();
    if files.is_empty() {
        out.push_str("\nOutputs: nothing was written (-l DIR writes EVE records)\n");
        return;
    }
    out.push_str("\nOutputs\n");
    let mut t =
        Table::new(&[("file", Align::Left), ("lines", Align::Right), ("bytes", Align::Right)]);
    for (path, ledger) in files {
        let passed = ledger.passed();
        t.row([
            path.display().to_string(),
            thousands(passed.items),
            ByteSize(passed.bytes).to_string(),
        ]);
    }
    out.push_str(&t.render(width));
}

fn budgets(r: &PacketReport<'_>, width: Option<u16>, out: &mut String) {
    out.push_str("\nMemory\n");
    let mut t = Table::new(&[
        ("budget", Align::Left),
        ("limit", Align::Right),
        ("used", Align::Right),
        ("peak", Align::Right),
        ("refused", Align::Right),
    ]);
    fn walk(b: &BudgetReport, depth: usize, t: &mut Table) {
        t.row([
            format!("{}{}", "  ".repeat(depth), b.name),
            ByteSize(b.limit).to_string(),
            ByteSize(b.used).to_string(),
            ByteSize(b.peak).to_string(),
            thousands(b.refused),
        ]);
        b.children.iter().for_each(|c| walk(c, depth + 1, t));
    }
    r.done.memory.iter().for_each(|b| walk(b, 0, &mut t));
    out.push_str(&t.render(width));
    if let Some(peak) = gabion_runtime::memory::resident_peak() {
        let _ = writeln!(out, "  resident at most: {}", ByteSize(peak));
    }
}

fn ledger(r: &PacketReport<'_>, width: Option<u16>, out: &mut String) {
    let entries = r.ledger();
    let balanced = entries.iter().all(|e| e.ledger.balance().is_ok());
    let complete = entries.iter().all(|e| e.ledger.is_complete());
    let state = match (balanced, complete) {
        (false, _) => "OUT OF BALANCE: a fault of gabion",
        _ if r.done.is_stopped => "of what was read until the run was stopped",
        (true, true) => "complete, all packets accounted for, none shed",
        (true, false) => "balanced; what was shed is listed with its reason",
    };
    let _ = writeln!(out, "\nLedger: {state}");
    let mut t = Table::new(&[
        ("stage", Align::Left),
        ("of", Align::Left),
        ("received", Align::Right),
        ("passed", Align::Right),
        ("shed", Align::Right),
        ("in flight", Align::Right),
        ("why", Align::Left),
    ]);
    // A stage that nothing came to has nothing to account for.
    for e in entries.iter().filter(|e| !e.ledger.received().is_zero()) {
        let l = &e.ledger;
        let why: Vec<String> = l.sheds().map(|(reason, n)| format!("{reason} {n}")).collect();
        t.row([
            e.stage.clone(),
            unit(&e.stage).to_string(),
            thousands(l.received().items),
            thousands(l.passed().items),
            thousands(l.shed_total().items),
            thousands(l.in_flight().items),
            why.join(", "),
        ]);
    }
    out.push_str(&t.render(width));
    limits(r, width, out);
}

/// The fixed limits that were reached: what the ledger sheds as `limit_reached`, by its cause.
fn limits(r: &PacketReport<'_>, width: Option<u16>, out: &mut String) {
    if r.done.limits.is_empty() {
        return;
    }
    out.push_str("\nLimits that were reached\n");
    let mut t = Table::new(&[
        ("limit", Align::Left),
        ("value", Align::Right),
        ("times", Align::Right),
        ("what was shed", Align::Left),
    ]);
    for (limit, times) in r.done.limits.iter() {
        t.row([
            limit.full_name(),
            thousands(limit.value),
            thousands(times),
            limit.meaning.text().to_owned(),
        ]);
    }
    out.push_str(&t.render(width));
}

fn json(r: &PacketReport<'_>) -> String {
    let mut j = Json::new();
    j.open();
    j.field_plain("version", env!("CARGO_PKG_VERSION"));
    j.number("exit", r.exit);
    j.open_array_key("inputs");
    for i in &r.done.inputs {
        j.open();
        j.field("path", i.path.display().to_string());
        j.number("packets", i.frames);
        j.number("bytes", i.bytes);
        if let Some((first, last)) = i.span_ns {
            j.number("first_ns", first);
            j.number("last_ns", last);
        }
        json_kernel(i, &mut j);
        if let Some(e) = &i.error {
            j.field("error", e);
        }
        if !i.notes.is_empty() {
            j.open_array_key("notes");
            i.notes.iter().for_each(|n| j.item(n));
            j.close_array();
        }
        j.close();
    }
    j.close_array();
    j.boolean("stopped", r.done.is_stopped);
    j.number("packets", r.done.counters.packets);
    j.number("bytes", r.done.counters.bytes);
    j.number("alerts", r.done.counters.alerts);
    if !r.done.threads.is_empty() {
        j.open_array_key("threads");
        for (name, cpu) in &r.done.threads {
            j.open();
            j.field("name", name);
            j.number("cpu_us", cpu.as_micros());
            j.close();
        }
        j.close_array();
        j.number("shared_state_uses", r.done.shared_uses.0);
        j.number("shared_state_waits", r.done.shared_uses.1);
        if let Some(handed) = &r.done.handed_over {
            j.number("frames_handed_over", handed.frames);
            j.number("frames_late", handed.late);
            j.number("shared_state_early", handed.early_uses);
        }
        j.number("queue_locks", r.done.queue_locks.0);
        j.number("queue_locks_contended", r.done.queue_locks.1);
        j.number("budget_moves", r.done.memory.first().map_or(0, |root| root.moves));
    }
    j.open_key("times");
    j.number("leaps", r.done.clock.leaps);
    j.number("flows_ended_by_leaps", r.done.counters.ended_by_leaps);
    j.number("stray_packets", r.done.clock.strays);
    j.number("steps_back", r.done.clock.steps_back);
    j.close();
    j.open_key("checksums");
    j.number("wrong", r.done.wrong_checksums);
    if let Some(from) = r.done.checksums_ignored_from {
        j.number("ignored_from", from);
    }
    j.close();
    j.number("workers_lost", r.done.lost_workers);
    if !r.done.incidents.is_empty() {
        j.open_array_key("incidents");
        for i in &r.done.incidents {
            j.open();
            j.field("worker", &i.worker);
            j.field_plain("kind", i.kind.name());
            j.field("message", &i.message);
            j.close();
        }
        j.close_array();
    }
    json_findings(r, &mut j);
    j.open_key("records");
    r.records().iter().for_each(|(name, count)| j.number(name, *count));
    j.close();
    j.open_array_key("outputs");
    for (path, ledger) in r.outputs.files() {
        j.open();
        j.field("path", path.display().to_string());
        j.number("lines", ledger.passed().items);
        j.number("bytes", ledger.passed().bytes);
        j.close();
    }
    j.close_array();
    if r.engine.detector.is_some() {
        let rows = if r.costs { usize::MAX } else { COSTLY_RULES_SHOWN };
        write_rule_costs_json(&r.done.costs, r.engine, rows, &mut j);
    }
    if r.memory {
        json_budgets(r.done.memory.iter(), &mut j);
        json_memory(&mut j);
    }
    j.open_array_key("ledger");
    for e in r.ledger() {
        j.open();
        j.field("stage", &e.stage);
        j.field_plain("unit", unit(&e.stage));
        let mut fields = Vec::new();
        e.ledger.write_json_fields(&mut fields);
        j.members(&fields);
        j.close();
    }
    j.close_array();
    json_limits(&r.done.limits, &mut j);
    j.close();
    j.into_line()
}

/// What the kernel counted of an interface.
fn json_kernel(i: &InputDone, j: &mut Json) {
    let Some(counts) = i.kernel else { return };
    j.open_key("kernel");
    j.number("offered", counts.offered);
    j.number("dropped", counts.dropped);
    j.number("backlog_drops", counts.before.backlog);
    j.number("interface_drops", counts.before.dropped);
    j.number("interface_missed", counts.before.missed);
    if !i.drops_by_second.is_empty() {
        j.open_array_key("dropped_by_second");
        for (second, dropped) in &i.drops_by_second {
            j.open();
            j.number("second", *second);
            j.number("dropped", *dropped);
            j.close();
        }
        j.close_array();
    }
    j.close();
}

fn json_findings(r: &PacketReport<'_>, j: &mut Json) {
    j.open_array_key("findings");
    for a in r.findings() {
        j.open();
        j.number("gid", a.gid);
        j.number("sid", a.sid);
        j.field("msg", &a.msg);
        j.number("priority", a.severity);
        j.number("count", a.count);
        j.open_key("first");
        j.field("src", &a.first.0);
        j.field("dst", &a.first.1);
        j.close();
        j.close();
    }
    j.close_array();
}

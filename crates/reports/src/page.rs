//! What the page about a run shows of each engine: counts, inputs, ledgers, alerts of rules and their hosts.

use crate::flow_run::FlowReport;
use gabion_outputs::page::{AlertFlow, AlertedHost, Page, RuleAlert};
use gabion_outputs::table::thousands;
use gabion_outputs::{AlertSeen, AlertTally, HostAlerts, Outputs};
use gabion_record::budget::ByteSize;
use gabion_record::logs::TimeNs;
use gabion_sensor::packets::{InputDone, PacketsDone};
use std::path::PathBuf;

/// What the page about a run shows of the network engine. `named`: the inputs as they were named.
pub fn packet_page(done: &PacketsDone, outputs: &Outputs, named: &[PathBuf]) -> Page {
    let tally = outputs.tally();
    let are_several = done.inputs.len() > 1;
    let flow = |seen: &AlertSeen| AlertFlow {
        ts: moment(seen.ts_ns),
        ends: seen.ends(),
        flow_id: seen.flow_id,
        packet: seen.packet,
        capture: seen.capture.as_deref().filter(|_| are_several).unwrap_or_default().to_owned(),
    };
    let mut rules: Vec<RuleAlert> = tally
        .alerts
        .iter()
        .map(|a| RuleAlert {
            gid: a.gid,
            sid: a.sid,
            msg: a.msg.clone(),
            severity: a.severity,
            count: a.count,
            flows: a.seen.iter().map(flow).collect(),
        })
        .collect();
    rules.sort_by(|a, b| (a.severity, b.count, a.sid).cmp(&(b.severity, a.count, b.sid)));
    let alerts = rules.iter().map(|r| r.count).sum();
    let stages = done.ledgers.by_stage();
    let hosts = tally.hosts();
    let read = || done.inputs.iter().filter(|i| i.error.is_none());
    let spans = || read().filter_map(|i| i.span_ns);
    let span = spans().map(|s| s.0).min().zip(spans().map(|s| s.1).max());
    Page {
        named: named.iter().map(|path| path.display().to_string()).collect(),
        span: span.map(|(first, last)| (moment(first), moment(last))),
        inputs: done.inputs.iter().map(input).collect(),
        counts: [
            ("packets", done.counters.packets, true),
            ("captures", read().count() as u64, are_several),
            ("alerts of rules", alerts, true),
        ]
        .into_iter()
        .filter(|(_, _, is_shown)| *is_shown)
        .map(|(name, n, _)| (name.to_owned(), n))
        .collect(),
        has_network: true,
        alerted_total: hosts.len() as u64,
        alerted: hosts
            .into_iter()
            .take(HOSTS_SHOWN)
            .map(|host| alerted(host, &tally.alerts, &flow))
            .collect(),
        rules,
        records: tally.records.clone(),
        ledger: stages.iter().map(|e| (e.stage.clone(), e.ledger.to_string())).collect(),
        ..Page::default()
    }
}

/// Hosts in alerts that the page shows, and rules of each.
const HOSTS_SHOWN: usize = 50;
const RULES_SHOWN: usize = 10;

/// A host with its rules, each with the first alert that it is an end of, where that is known.
fn alerted(
    host: HostAlerts,
    alerts: &[AlertTally],
    flow: &dyn Fn(&AlertSeen) -> AlertFlow,
) -> AlertedHost {
    let first = |gid: u32, sid: u32| {
        let rule = alerts.iter().find(|a| (a.gid, a.sid) == (gid, sid))?;
        rule.seen.iter().find(|seen| seen.has_end(&host.ip)).map(flow)
    };
    let rules = host.rules.iter().take(RULES_SHOWN);
    AlertedHost {
        rules: rules.map(|(gid, sid, n)| (*gid, *sid, *n, first(*gid, *sid))).collect(),
        alerts: host.count,
        severity: host.severity,
        ip: host.ip,
    }
}

/// A moment of a capture.
fn moment(ns: u64) -> TimeNs {
    TimeNs(i64::try_from(ns).unwrap_or(i64::MAX))
}

/// What happened to a capture.
fn input(done: &InputDone) -> (String, String) {
    let mut text = match &done.error {
        Some(e) => e.clone(),
        None => format!("{} packets, {}", thousands(done.frames), ByteSize(done.bytes)),
    };
    if let Some((first, last)) = done.span_ns {
        let at = |ns| moment(ns).iso().to_string().chars().take(19).collect::<String>();
        text = format!("{text}, {} to {} UTC", at(first), at(last)).replace('T', " ");
    }
    done.notes.iter().for_each(|note| text = format!("{text}; {note}"));
    (done.path.display().to_string(), text)
}

/// Adds what the behaviour engine counted, and its inputs and ledgers. `named`: the inputs as they were named.
pub fn add_flows_to_page(ended: &FlowReport<'_>, named: &[PathBuf], page: &mut Page) {
    let c = &ended.ran.counts;
    for (name, n) in [
        ("flows", c.flows),
        ("sources", c.sources),
        ("windows", c.windows),
        ("evidence", c.evidence),
        ("findings", c.findings),
        ("alerts of hosts", c.alerts),
    ] {
        page.counts.push((name.to_owned(), n));
    }
    for report in ended.inputs {
        let (path, ledger) = (report.path.display().to_string(), report.ledger.to_string());
        let error = report.error.as_ref().map_or_else(String::new, |e| format!(": {e}"));
        page.inputs.push((path, format!("{ledger}{error}")));
    }
    page.named = named.iter().map(|path| path.display().to_string()).collect();
    page.ledger.push(("records".to_owned(), ended.ledger.to_string()));
    page.ledger.push(("sources".to_owned(), ended.ran.sources.to_string()));
    page.findings_total = c.findings;
    let span = (c.records > 0).then_some((c.first, c.last));
    page.span = page.span.or(span);
}

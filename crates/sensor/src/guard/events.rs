//! Events of the guard as lines of JSON, each with an id that is a hash of what it says.

use aws_lc_rs::digest::{SHA256, digest};
use gabion_guard::{Action, Incident};
use gabion_outputs::{GuardRecord, Outputs};
use gabion_record::evidence::FindingId;
use gabion_record::json::Json;
use gabion_record::logs::TimeNs;

/// Nanoseconds in a millisecond.
const MILLISECOND: i64 = 1_000_000;

/// Writes events with what all of them have in common.
pub(super) struct Events<'a> {
    pub(super) to: &'a mut Outputs,
    /// When the recording or run began, where that is known.
    pub(super) started: Option<TimeNs>,
    /// The interface, where it is known.
    pub(super) interface: Option<&'a str>,
    pub(super) budget_percent: u8,
}

impl Events<'_> {
    /// A moment of the run as people read it.
    pub(super) fn moment(&self, at_ms: u64) -> String {
        match self.time(at_ms) {
            Some(time) => time.iso().to_string().get(11..23).unwrap_or_default().to_owned(),
            None => format!("{}.{:03} s", at_ms / 1000, at_ms % 1000),
        }
    }

    fn time(&self, at_ms: u64) -> Option<TimeNs> {
        let ns = i64::try_from(at_ms).ok()?.checked_mul(MILLISECOND)?;
        Some(TimeNs(self.started?.0.checked_add(ns)?))
    }

    /// The line of diagnosis of an incident.
    pub(super) fn line(&self, incident: &Incident) -> String {
        incident.line(&self.moment(incident.began_ms), self.interface, self.budget_percent)
    }

    /// An incident began: what is known at that moment.
    pub(super) fn begin(&mut self, incident: &Incident) {
        self.write("incident", incident.began_ms, |j| {
            j.number("incident", incident.number);
            j.field_plain("rung", incident.rung.name());
        });
    }

    /// Something happened between begin and end.
    pub(super) fn action(&mut self, at_ms: u64, action: &Action) {
        match action {
            Action::Begin(incident) => self.begin(incident),
            Action::End(incident) => self.end(incident),
            Action::Name(cause, incident) => {
                let line = self.line(incident);
                self.write("cause", at_ms, |j| {
                    j.number("incident", incident.number);
                    j.field_plain("cause", cause.name());
                    j.field("cause_text", cause.to_string());
                    j.field("line", line);
                });
            }
            Action::Change { from, to, why } => self.write("rung", at_ms, |j| {
                j.field_plain("from", from.name());
                j.field_plain("to", to.name());
                j.field_plain("reason", why);
            }),
            Action::CannotHold(why) => self.write("cannot-hold", at_ms, |j| {
                j.field_plain("reason", why);
            }),
        }
    }

    /// An incident ended: all that was measured.
    pub(super) fn end(&mut self, incident: &Incident) {
        let line = self.line(incident);
        let name = if incident.has_ended { "end" } else { "cut-off" };
        self.write(name, incident.last_ms, |j| {
            j.number("incident", incident.number);
            j.number("began_ms", incident.began_ms);
            j.number("lasted_ms", incident.lasted_ms());
            j.field_plain("verdict", incident.verdict().name());
            if let Some(cause) = incident.cause {
                j.field_plain("cause", cause.name());
            }
            if let Some(is_effective) = incident.is_effective {
                j.boolean("effective", is_effective);
            }
            j.field_plain("rung", incident.rung.name());
            j.number("packets_a_second", incident.packet_rate() as u64);
            j.open_array_key("cpus");
            for (cpu, totals) in &incident.totals.cpus {
                j.open();
                j.number("cpu", *cpu);
                j.float("packet_work", rounded(totals.share()));
                j.float("in_ksoftirqd", rounded(totals.ksoftirqd_share()));
                j.number("packets", totals.packets);
                j.number("largest_gap_us", totals.gap_us);
                j.number("backlog_dropped", totals.backlog_dropped);
                j.close();
            }
            j.close_array();
            let packets = &incident.totals.packets;
            if incident.totals.has_packets {
                j.open_key("packets");
                j.number("admitted", packets.admitted);
                j.number("allow_listed", packets.allowed);
                j.number("never_dropped", packets.exempt);
                j.number("dropped_by_budget", packets.dropped_budget);
                j.number("dropped_by_limit", packets.dropped_limit);
                j.number("of_new_flows", packets.new_flows);
                j.close();
            }
            if incident.totals.grace_us > 0 {
                j.number("longest_grace_period_us", incident.totals.grace_us);
            }
            j.field("line", line);
        });
    }

    /// Writes an event: what all events have, what this one has, and the id of all of it.
    fn write(&mut self, event: &str, at_ms: u64, members: impl FnOnce(&mut Json)) {
        let mut j = Json::new();
        j.open();
        j.field_plain("event", event);
        j.number("at_ms", at_ms);
        if let Some(time) = self.time(at_ms) {
            j.moment("time", time);
        }
        if let Some(interface) = self.interface {
            j.field("interface", interface);
        }
        members(&mut j);
        let id = id_of(j.bytes());
        j.field("id", id.text());
        j.close();
        j.push(b"\n");
        self.to.guard(&GuardRecord { id, json: j.bytes() });
    }
}

/// A share with four decimals.
fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}

/// The first half of the hash of what an event says.
fn id_of(bytes: &[u8]) -> FindingId {
    let hash = digest(&SHA256, bytes);
    let mut id = [0; 16];
    id.iter_mut().zip(hash.as_ref()).for_each(|(a, b)| *a = *b);
    FindingId(id)
}

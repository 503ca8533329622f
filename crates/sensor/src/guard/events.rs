//! Events of the guard as lines of JSON, each with an id that is a hash of what it says.

use super::writer::Writer;
use crate::Sealer;
use crate::error::Error;
use crate::limits::{GUARD_EVENTS_BYTES_MAX, GUARD_EVENTS_MAX};
use aws_lc_rs::digest::{SHA256, digest};
use gabion_guard::{Action, Incident};
use gabion_outputs::{GuardRecord, Outputs};
use gabion_record::evidence::FindingId;
use gabion_record::json::Json;
use gabion_record::logs::TimeNs;
use gabion_runtime::channel::{Capacity, Empty, Load, Receiver};
use std::time::Duration;

/// Nanoseconds in a millisecond.
const MILLISECOND: i64 = 1_000_000;

/// How long the thread of outputs waits for an event before it looks after those that were written.
const IDLE: Duration = Duration::from_secs(1);

/// An event as it is written.
pub(super) struct EventLine {
    id: FindingId,
    json: Vec<u8>,
}

impl EventLine {
    /// The event as outputs take it.
    pub(super) fn record(&self) -> GuardRecord<'_> {
        GuardRecord { id: self.id, json: &self.json }
    }
}

impl Load for EventLine {
    fn items(&self) -> u64 {
        1
    }

    fn bytes(&self) -> u64 {
        self.json.len() as u64
    }
}

/// Starts the thread that writes events to their outputs.
pub(super) fn start_writer(
    outputs: Outputs,
    sealer: Option<Sealer>,
) -> Result<Writer<EventLine>, Error> {
    let capacity = Capacity { items: GUARD_EVENTS_MAX, bytes: GUARD_EVENTS_BYTES_MAX };
    Writer::start("guard events", capacity, move |from| {
        write_events(from, outputs, sealer.as_ref())
    })
}

fn write_events(
    from: &Receiver<EventLine>,
    mut outputs: Outputs,
    sealer: Option<&Sealer>,
) -> Result<(), Error> {
    loop {
        match from.recv_timeout(IDLE) {
            Ok(event) => {
                outputs.guard(&event.record());
                outputs.flush_lines();
            }
            Err(Empty::Yet) => {}
            Err(Empty::Ended) => break,
        }
        if let Some(sealer) = sealer {
            sealer.idle();
        }
    }
    Ok(outputs.flush()?)
}

/// Makes events of what all of them have in common.
pub(super) struct Events<'a> {
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
    pub(super) fn begin(&self, incident: &Incident) -> EventLine {
        self.event("incident", incident.began_ms, |j| {
            j.number("incident", incident.number);
            j.field_plain("rung", incident.rung.name());
        })
    }

    /// Something happened between begin and end.
    pub(super) fn action(&self, at_ms: u64, action: &Action) -> EventLine {
        match action {
            Action::Begin(incident) => self.begin(incident),
            Action::End(incident) => self.end(incident),
            Action::Name(cause, incident) => {
                let line = self.line(incident);
                self.event("cause", at_ms, |j| {
                    j.number("incident", incident.number);
                    j.field_plain("cause", cause.name());
                    j.field("cause_text", cause.to_string());
                    j.field("line", line);
                })
            }
            Action::Change { from, to, why } => self.event("rung", at_ms, |j| {
                j.field_plain("from", from.name());
                j.field_plain("to", to.name());
                j.field_plain("reason", why);
            }),
            Action::CannotHold(why) => self.event("cannot-hold", at_ms, |j| {
                j.field_plain("reason", why);
            }),
        }
    }

    /// An incident ended: all that was measured.
    pub(super) fn end(&self, incident: &Incident) -> EventLine {
        let line = self.line(incident);
        let name = if incident.has_ended { "end" } else { "cut-off" };
        self.event(name, incident.last_ms, |j| {
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
        })
    }

    /// An event: what all events have, what this one has, and the id of all of it.
    fn event(&self, event: &str, at_ms: u64, members: impl FnOnce(&mut Json)) -> EventLine {
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
        EventLine { id, json: j.take_bytes() }
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

//! Counters of one worker, except those of decoders, flows and streams.

use crate::app::AppCounters;
use gabion_flow::{ExceptionPolicy, ExceptionTrigger, StreamEvent};
use gabion_record::DropReason;
use gabion_record::limits::Reached;

/// What detection and the worker counted.
#[derive(Clone, Debug, Default)]
pub struct NetCounters {
    /// Alerts written.
    pub alerts: u64,
    /// Matches that a threshold or suppression kept from alerting.
    pub alerts_suppressed: u64,
    /// Alerts beyond the limit of their packet.
    pub alert_queue_overflow: u64,
    /// Packets dropped (inline), accepted, rejected.
    pub ips_blocked: u64,
    /// See `ips_blocked`.
    pub ips_accepted: u64,
    /// See `ips_blocked`.
    pub ips_rejected: u64,
    /// Packets dropped by the firewall, those it rejected among them.
    pub firewall_blocked: u64,
    /// Packets rejected by the firewall.
    pub firewall_rejected: u64,
    /// Packets dropped by reason.
    pub drop_reasons: Vec<(DropReason, u64)>,
    /// Buffers whose traffic was made to hit the matcher.
    pub matcher_overload: u64,
    /// Application layer.
    pub app: AppCounters,
    /// Scripts.
    pub scripts: crate::script::ScriptCounters,
    /// Exception policies applied: trigger, policy, times.
    pub exceptions: Vec<(ExceptionTrigger, ExceptionPolicy, u64)>,
    /// Packets of flows that are not looked at any more.
    pub bypassed_packets: u64,
    /// Their bytes.
    pub bypassed_bytes: u64,
    /// Ranges of files that the budget did not allow.
    pub ranges_refused: u64,
    /// The most bytes that ranges of files took.
    pub ranges_peak: u64,
    /// Flows that timed out because the clock went far on at a frame.
    pub ended_by_leaps: u64,
    /// Fixed limits that were reached.
    pub limits: Reached,
    /// Packets with each stream event, by its number; empty while there was none.
    pub stream_events: Vec<u64>,
    /// Packets seen.
    pub packets: u64,
    /// Bytes seen.
    pub bytes: u64,
}

impl NetCounters {
    pub(crate) fn count_drop(&mut self, reason: DropReason) {
        if reason.is_of_firewall() {
            self.firewall_blocked += 1;
        } else {
            self.ips_blocked += 1;
        }
        match self.drop_reasons.iter_mut().find(|(r, _)| *r == reason) {
            Some(slot) => slot.1 += 1,
            None => self.drop_reasons.push((reason, 1)),
        }
    }

    /// Counts an exception policy that was carried out, with its trigger.
    pub(crate) fn count_exception(
        &mut self,
        (trigger, policy): (ExceptionTrigger, ExceptionPolicy),
    ) {
        match self.exceptions.iter_mut().find(|(t, p, _)| *t == trigger && *p == policy) {
            Some(slot) => slot.2 += 1,
            None => self.exceptions.push((trigger, policy, 1)),
        }
    }

    /// Counts packets with a stream event.
    pub(crate) fn count_stream_event(&mut self, event: StreamEvent, packets: u64) {
        self.stream_events.resize(StreamEvent::ALL.len(), 0);
        if let Some(n) = self.stream_events.get_mut(usize::from(event.id())) {
            *n += packets;
        }
    }

    /// Adds another worker's.
    pub fn merge(&mut self, o: &NetCounters) {
        self.alerts += o.alerts;
        self.alerts_suppressed += o.alerts_suppressed;
        self.alert_queue_overflow += o.alert_queue_overflow;
        self.ips_blocked += o.ips_blocked;
        self.ips_accepted += o.ips_accepted;
        self.ips_rejected += o.ips_rejected;
        self.firewall_blocked += o.firewall_blocked;
        self.firewall_rejected += o.firewall_rejected;
        self.matcher_overload += o.matcher_overload;
        self.bypassed_packets += o.bypassed_packets;
        self.bypassed_bytes += o.bypassed_bytes;
        self.ranges_refused += o.ranges_refused;
        self.ranges_peak = self.ranges_peak.max(o.ranges_peak);
        self.ended_by_leaps += o.ended_by_leaps;
        self.packets += o.packets;
        self.bytes += o.bytes;
        self.app.merge(&o.app);
        self.scripts.merge(&o.scripts);
        self.limits.merge(&o.limits);
        for (event, n) in StreamEvent::ALL.iter().zip(&o.stream_events) {
            self.count_stream_event(*event, *n);
        }
        for (r, n) in &o.drop_reasons {
            match self.drop_reasons.iter_mut().find(|(x, _)| x == r) {
                Some(slot) => slot.1 += n,
                None => self.drop_reasons.push((*r, *n)),
            }
        }
        for (t, p, n) in &o.exceptions {
            match self.exceptions.iter_mut().find(|(x, y, _)| x == t && y == p) {
                Some(slot) => slot.2 += n,
                None => self.exceptions.push((*t, *p, *n)),
            }
        }
    }
}

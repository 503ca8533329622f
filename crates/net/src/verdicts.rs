//! Thresholds applied in packet order, outside of the workers.
//!
//! A threshold counts matches of many flows, so several workers must ask it in packet order. Where the
//! answer only decides whether an alert is written, no worker waits for its turn: it hands the alert on
//! with a [`Question`], and the writer of the alerts asks it in packet order.

use crate::counters::NetCounters;
use crate::engine::Engine;
use crate::ledgers::WorkerLedgers;
use crate::threshold::{Decision, RuleSlot, Subject, Thresholds};
use gabion_record::eve::Question;
use gabion_record::ledger::ShedReason;
use gabion_rules::{Action, Signature, SignatureFlags};
use std::sync::Arc;

/// Whether an alert's threshold may be asked when the alert is written: its answer changes nothing
/// else (as which packets are logged, or pass).
pub(crate) fn can_wait(engine: &Engine, s: &Signature) -> bool {
    let acts = s.action != Action::Alert;
    let is_filtered = engine.detector.as_ref().is_some_and(|d| d.firewall.is_some());
    !acts
        && !engine.options.wants.wire
        && engine.scripts.outputs.is_empty()
        && !is_filtered
        && s.rate_filter.is_none()
        && (s.threshold.is_some() || s.detection_filter.is_some())
        && !s.flags.has(SignatureFlags::NOALERT)
}

/// Answers questions that come in packet order.
#[derive(Debug)]
pub struct Verdicts {
    engine: Arc<Engine>,
    thresholds: Thresholds,
    /// The packet last asked about, and its alerts so far.
    packet: (u64, usize),
    counters: NetCounters,
    ledgers: WorkerLedgers,
}

impl Verdicts {
    /// For questions of workers of this engine.
    pub fn new(engine: Arc<Engine>) -> Verdicts {
        Verdicts {
            engine,
            thresholds: Thresholds::default(),
            packet: (0, 0),
            counters: NetCounters::default(),
            ledgers: WorkerLedgers::default(),
        }
    }

    /// Later questions are about rules of this engine. What was counted for thresholds stays.
    pub fn adopt(&mut self, engine: Arc<Engine>) {
        self.engine = engine;
    }

    /// Whether the alert is written.
    pub fn ask(&mut self, q: &Question) -> bool {
        let rule = q.rule as usize;
        let signature = self.engine.detector.as_ref().and_then(|d| d.set.signatures.get(rule));
        let Some(s) = signature else { return false };
        if self.packet.0 != q.packet {
            self.packet = (q.packet, 0);
        }
        let subject =
            Subject { src: q.src, dst: q.dst, version: q.ip_version, flow: q.flow, ts_ns: q.ts_ns };
        let is_waiting = can_wait(&self.engine, s) && q.ip_version != 0;
        if is_waiting && decide(s, &mut self.thresholds, &subject) != Decision::Alert {
            self.counters.alerts_suppressed += 1;
            return false;
        }
        self.ledgers.alerts.receive(1, 0);
        if self.packet.1 >= self.engine.options.alerts_max {
            self.counters.alert_queue_overflow += 1;
            self.ledgers.alerts.shed(ShedReason::AlertQueue, 1, 0);
            return false;
        }
        self.packet.1 += 1;
        self.ledgers.alerts.pass(1, 0);
        self.counters.alerts += 1;
        true
    }

    /// What was counted.
    pub fn counters(&self) -> &NetCounters {
        &self.counters
    }

    /// Its ledger: alerts into outputs.
    pub fn ledgers(&self) -> &WorkerLedgers {
        &self.ledgers
    }
}

/// First the filter of matches, then the threshold.
fn decide(s: &Signature, all: &mut Thresholds, subject: &Subject) -> Decision {
    if let Some(t) = &s.detection_filter
        && all.decide(RuleSlot::from_rule(s, 0), t, subject).0 == Decision::Nothing
    {
        return Decision::Nothing;
    }
    match &s.threshold {
        Some(t) => all.decide(RuleSlot::from_rule(s, 2), t, subject).0,
        None => Decision::Alert,
    }
}

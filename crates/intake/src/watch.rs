//! How a server goes: what is reported now and then and at the end, which limits were reached, and whether the account
//! balances.

use crate::envelopes::Envelopes;
use crate::error::{Error, Result};
use crate::notice::{Notice, Report};
use gabion_logs::dialect::Dialect;
use gabion_record::ledger::{Ledger, ShedReason, StageLedgers};
use gabion_record::limits::{self, Reached};
use gabion_runtime::metrics::{LedgerSlot, Metrics};
use gabion_runtime::sockets;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the service manager is notified that all is well.
const BEAT: Duration = Duration::from_secs(5);

/// Reports now and then how it goes.
pub(crate) struct Watch<'a> {
    metrics: &'a Metrics,
    envelopes: Option<&'a Arc<Envelopes>>,
    report: &'a Report,
    every: Option<Duration>,
    reported: Instant,
    beat: Instant,
    limits: ReachedLimits,
}

impl<'a> Watch<'a> {
    /// Reports every so often, or never.
    pub(crate) fn new(
        metrics: &'a Metrics,
        envelopes: Option<&'a Arc<Envelopes>>,
        report: &'a Report,
        every: Option<Duration>,
    ) -> Watch<'a> {
        let now = Instant::now();
        let limits = ReachedLimits::new(metrics);
        Watch { metrics, envelopes, report, every, reported: now, beat: now, limits }
    }

    /// Does what is due by time.
    pub(crate) fn tick(&mut self) {
        if self.beat.elapsed() >= BEAT {
            self.beat = Instant::now();
            sockets::notify("WATCHDOG=1");
            self.limits.count_new();
        }
        let Some(every) = self.every else { return };
        if self.reported.elapsed() < every.max(Duration::from_secs(1)) {
            return;
        }
        self.reported = Instant::now();
        if let Some(envelopes) = self.envelopes {
            envelopes.publish();
        }
        (self.report)(&Notice::Progress(summary_line(&self.metrics.stage_ledgers())));
    }

    /// Reports what came in all; gives the account.
    pub(crate) fn finish(mut self) -> StageLedgers {
        self.limits.count_new();
        let ledgers = self.metrics.stage_ledgers();
        (self.report)(&Notice::Summary(summary_line(&ledgers)));
        self.limits.report(self.report);
        ledgers
    }
}

/// Fixed limits that threads have reached: a stage of the ledger, and named at the end.
struct ReachedLimits {
    reached: Reached,
    slot: LedgerSlot,
}

impl ReachedLimits {
    fn new(metrics: &Metrics) -> ReachedLimits {
        ReachedLimits { reached: Reached::new(), slot: metrics.ledger("limits", None) }
    }

    /// Takes up what threads have counted since.
    fn count_new(&mut self) {
        let new = limits::take_all();
        if new.is_empty() {
            return;
        }
        self.reached.merge(&new);
        let mut ledger = Ledger::new();
        ledger.receive(self.reached.total(), 0);
        ledger.shed(ShedReason::LimitReached, self.reached.total(), 0);
        self.slot.publish_last(&ledger);
    }

    fn report(&self, report: &Report) {
        for (limit, times) in self.reached.iter() {
            report(&Notice::LimitReached {
                name: limit.full_name(),
                value: limit.value,
                times,
                meaning: limit.meaning.text(),
            });
        }
    }
}

/// One line: what came, what was sealed, what was lost and why.
fn summary_line(ledgers: &StageLedgers) -> String {
    let mut line = String::new();
    for entry in ledgers.by_stage() {
        let ledger = &entry.ledger;
        if ledger.received().items == 0 {
            continue;
        }
        if !line.is_empty() {
            line.push_str("; ");
        }
        let _ = write!(
            line,
            "{}: {} received, {} passed",
            entry.stage,
            ledger.received().items,
            ledger.passed().items
        );
        for (reason, tally) in ledger.sheds() {
            let _ = write!(line, ", {} {}", tally.items, reason.name());
        }
    }
    if line.is_empty() { "nothing came".to_owned() } else { line }
}

/// Every stage balances, and what listeners handed on is what the sealer got; `lost` came when it was gone.
pub(crate) fn check_balance(ledgers: &StageLedgers, lost: u64) -> Result<()> {
    if let Err((stage, imbalance)) = ledgers.balance() {
        return Err(Error::Unbalanced { stage, imbalance });
    }
    let (mut clear, mut envelopes, mut sealed) = (0, 0, 0);
    let mut workers = (0, 0);
    for entry in ledgers.by_stage() {
        let (received, passed) = (entry.ledger.received().items, entry.ledger.passed().items);
        match entry.stage.as_str() {
            "seal" => sealed = received,
            "listen.envelopes" => workers = (received, passed),
            stage if is_enveloped(stage) => envelopes += passed,
            _ => clear += passed,
        }
    }
    if envelopes != workers.0 {
        return Err(Error::LostEnvelopes { handed_on: envelopes, received: workers.0 });
    }
    if clear + workers.1 != sealed + lost {
        return Err(Error::LostMessages { handed_on: clear + workers.1, received: sealed });
    }
    Ok(())
}

/// Whether the listener of a stage (`listen.DIALECT.NUMBER`) takes envelopes.
fn is_enveloped(stage: &str) -> bool {
    let dialect = stage.split('.').nth(1).and_then(Dialect::named);
    dialect.is_some_and(|dialect| dialect.is_enveloped)
}

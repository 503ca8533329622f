//! The registry of everything that can be read while the program runs: counters, gauges, ledgers,
//! edges, budgets; and the text that Prometheus scrapes.
//!
//! A [`Counter`] has one writer, its worker, and costs a load and a store; readers sum the
//! workers. Engines keep their plain [`Ledger`]s and copy them into a [`LedgerSlot`] now and then.
//! Names stand where a metric is registered, once, never where it is used.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use gabion_record::budget::{BudgetPool, BudgetReport};
use gabion_record::ledger::{Ledger, ShedReason, StageLedgers, Tally};

use crate::channel::Edge;

#[derive(Debug, Default)]
#[repr(align(64))]
struct Number(AtomicU64);

/// A number that grows. One writer: it can't be cloned.
#[derive(Debug)]
pub struct Counter(Arc<Number>);

impl Counter {
    /// Adds.
    #[inline]
    pub fn add(&self, n: u64) {
        // A plain add: nobody else writes.
        self.0.0.store(self.0.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Takes a sum that was counted elsewhere.
    #[inline]
    pub fn set(&self, sum: u64) {
        self.0.0.store(sum, Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.0.load(Relaxed)
    }
}

/// A number that comes and goes. One writer.
#[derive(Debug)]
pub struct Gauge(Arc<Number>);

impl Gauge {
    /// Sets.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.0.store(value, Relaxed);
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.0.load(Relaxed)
    }
}

/// Where a worker leaves a copy of its ledger for readers.
#[derive(Debug)]
pub struct LedgerSlot(Arc<Mutex<Ledger>>);

impl LedgerSlot {
    /// Leaves a copy. Never waits: if a reader is just reading, the copy before stays, and the
    /// next one will do. At the end of a run use [`LedgerSlot::publish_last`].
    pub fn publish(&self, ledger: &Ledger) {
        match self.0.try_lock() {
            Ok(mut slot) => slot.clone_from(ledger),
            Err(TryLockError::Poisoned(slot)) => slot.into_inner().clone_from(ledger),
            Err(TryLockError::WouldBlock) => {}
        }
    }

    /// Leaves the last copy, waiting for a reader if need be.
    pub fn publish_last(&self, ledger: &Ledger) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(ledger);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

#[derive(Debug)]
struct Family {
    name: &'static str,
    help: &'static str,
    kind: Kind,
    /// Labels as text, value.
    series: Vec<(String, Arc<Number>)>,
}

#[derive(Debug)]
struct Slot {
    stage: String,
    worker: Option<u16>,
    ledger: Arc<Mutex<Ledger>>,
}

#[derive(Debug, Default)]
struct Registered {
    families: Vec<Family>,
    slots: Vec<Slot>,
    edges: Vec<(Option<u16>, Arc<Edge>)>,
    budgets: Vec<BudgetPool>,
}

/// The registry; clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Metrics(Arc<Mutex<Registered>>);

impl Metrics {
    /// An empty registry.
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// A counter of that name (`gabion_…_total`) with labels of its own, as (name, value).
    pub fn counter(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
    ) -> Counter {
        Counter(self.number(name, help, Kind::Counter, labels))
    }

    /// A gauge.
    pub fn gauge(&self, name: &'static str, help: &'static str, labels: &[(&str, &str)]) -> Gauge {
        Gauge(self.number(name, help, Kind::Gauge, labels))
    }

    /// A place for the ledger of a stage of a worker.
    pub fn ledger(&self, stage: &str, worker: Option<u16>) -> LedgerSlot {
        let ledger: Arc<Mutex<Ledger>> = Arc::default();
        let slot = Slot { stage: stage.to_owned(), worker, ledger: Arc::clone(&ledger) };
        self.lock().slots.push(slot);
        LedgerSlot(ledger)
    }

    /// A channel's edge; `worker` is the one that receives.
    pub fn edge(&self, worker: Option<u16>, edge: &Arc<Edge>) {
        self.lock().edges.push((worker, Arc::clone(edge)));
    }

    /// A budget with all below it.
    pub fn budget(&self, pool: &BudgetPool) {
        self.lock().budgets.push(pool.clone());
    }

    /// The ledgers of all stages: slots first, then edges, each in the order of registration.
    pub fn stage_ledgers(&self) -> StageLedgers {
        let registered = self.lock();
        let mut ledgers = StageLedgers::new();
        for slot in &registered.slots {
            let ledger = slot.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledgers.add(&slot.stage, slot.worker, &ledger);
        }
        for (worker, edge) in &registered.edges {
            ledgers.add(edge.name(), *worker, &edge.ledger());
        }
        ledgers
    }

    /// Counts what a lost worker took with it: what it received by its edge but did not enter into
    /// its last published ledger, and what that ledger held, are shed as `worker_lost`. Gives
    /// the items and bytes written off. What it finished after its last copy is taken for lost
    /// too: nobody can know.
    pub fn write_off(&self, stage: &str, worker: Option<u16>, input: &Edge) -> Tally {
        let registered = self.lock();
        let mut lost = Tally::default();
        for slot in registered.slots.iter().filter(|s| s.stage == stage && s.worker == worker) {
            let mut ledger = slot.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            let (taken, entered) = (input.ledger().passed(), ledger.received());
            let missing = Tally::new(
                taken.items.saturating_sub(entered.items),
                taken.bytes.saturating_sub(entered.bytes),
            );
            let held = ledger.in_flight();
            ledger.receive(missing.items, missing.bytes);
            ledger.set_in_flight(0, 0);
            lost = missing;
            lost.add(held.items, held.bytes);
            ledger.shed(ShedReason::WorkerLost, lost.items, lost.bytes);
        }
        lost
    }

    /// Everything in Prometheus' text format 0.0.4.
    pub fn exposition(&self) -> String {
        let mut out = String::new();
        let ledgers = self.stage_ledgers();
        let registered = self.lock();
        for family in &registered.families {
            let kind = if family.kind == Kind::Counter { "counter" } else { "gauge" };
            head(&mut out, family.name, family.help, kind);
            for (labels, number) in &family.series {
                line(&mut out, family.name, labels, number.0.load(Relaxed));
            }
        }
        write_stages(&mut out, &ledgers);
        write_edges(&mut out, &registered.edges);
        write_budgets(&mut out, &registered.budgets);
        out
    }

    fn number(
        &self,
        name: &'static str,
        help: &'static str,
        kind: Kind,
        labels: &[(&str, &str)],
    ) -> Arc<Number> {
        let number: Arc<Number> = Arc::default();
        let series = (label_text(labels), Arc::clone(&number));
        let mut registered = self.lock();
        match registered.families.iter_mut().find(|f| f.name == name) {
            Some(family) => family.series.push(series),
            None => registered.families.push(Family { name, help, kind, series: vec![series] }),
        }
        number
    }

    fn lock(&self) -> MutexGuard<'_, Registered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn write_stages(out: &mut String, ledgers: &StageLedgers) {
    type Column = (&'static str, &'static str, &'static str, fn(&Ledger) -> u64);
    const COLUMNS: [Column; 6] = [
        ("gabion_stage_received_items_total", "Items that entered a stage", "counter", |l| {
            l.received().items
        }),
        ("gabion_stage_received_bytes_total", "Bytes that entered a stage", "counter", |l| {
            l.received().bytes
        }),
        (
            "gabion_stage_passed_items_total",
            "Items that were passed to the next stage",
            "counter",
            |l| l.passed().items,
        ),
        (
            "gabion_stage_passed_bytes_total",
            "Bytes that were passed to the next stage",
            "counter",
            |l| l.passed().bytes,
        ),
        ("gabion_stage_in_flight_items", "Items held", "gauge", |l| l.in_flight().items),
        ("gabion_stage_in_flight_bytes", "Bytes held", "gauge", |l| l.in_flight().bytes),
    ];
    if ledgers.entries().is_empty() {
        return;
    }
    let labels = |stage: &str, worker: Option<u16>| {
        let worker = worker.map(|w| w.to_string());
        let mut labels = vec![("stage", stage)];
        labels.extend(worker.iter().map(|w| ("worker", w.as_str())));
        label_text(&labels)
    };
    for (name, help, kind, value) in COLUMNS {
        head(out, name, help, kind);
        for entry in ledgers.entries() {
            line(out, name, &labels(&entry.stage, entry.worker), value(&entry.ledger));
        }
    }
    for (name, help, is_items) in [
        ("gabion_stage_shed_items_total", "Items shed, by reason", true),
        ("gabion_stage_shed_bytes_total", "Bytes shed, by reason", false),
    ] {
        head(out, name, help, "counter");
        for entry in ledgers.entries() {
            let labels = labels(&entry.stage, entry.worker);
            for (reason, tally) in entry.ledger.sheds() {
                let labels = format!("{labels},reason=\"{}\"", reason.name());
                line(out, name, &labels, if is_items { tally.items } else { tally.bytes });
            }
        }
    }
}

fn write_edges(out: &mut String, edges: &[(Option<u16>, Arc<Edge>)]) {
    if edges.is_empty() {
        return;
    }
    let name = "gabion_edge_waits_total";
    head(out, name, "How often a sender waited for room", "counter");
    for (worker, edge) in edges {
        let worker = worker.map(|w| w.to_string());
        let mut labels = vec![("stage", edge.name())];
        labels.extend(worker.iter().map(|w| ("worker", w.as_str())));
        line(out, name, &label_text(&labels), edge.waits());
    }
}

fn write_budgets(out: &mut String, budgets: &[BudgetPool]) {
    type Column = (&'static str, &'static str, &'static str, fn(&BudgetReport) -> u64);
    const COLUMNS: [Column; 4] = [
        ("gabion_budget_limit_bytes", "Limit of a budget", "gauge", |b| b.limit),
        ("gabion_budget_used_bytes", "Bytes taken of a budget", "gauge", |b| b.used),
        ("gabion_budget_peak_bytes", "Most bytes taken at once", "gauge", |b| b.peak),
        ("gabion_budget_refused_total", "Reservations refused", "counter", |b| b.refused),
    ];
    fn walk(report: &BudgetReport, above: &str, visit: &mut dyn FnMut(&str, &BudgetReport)) {
        let path =
            if above.is_empty() { report.name.clone() } else { format!("{above}/{}", report.name) };
        visit(&path, report);
        report.children.iter().for_each(|child| walk(child, &path, visit));
    }
    let reports: Vec<BudgetReport> = budgets.iter().map(BudgetPool::report).collect();
    if reports.is_empty() {
        return;
    }
    for (name, help, kind, value) in COLUMNS {
        head(out, name, help, kind);
        for report in &reports {
            walk(report, "", &mut |path, budget| {
                line(out, name, &label_text(&[("budget", path)]), value(budget));
            });
        }
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    // Writing to a string can't fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: u64) {
    let _ = if labels.is_empty() {
        writeln!(out, "{name} {value}")
    } else {
        writeln!(out, "{name}{{{labels}}} {value}")
    };
}

/// `a="1",b="2"` with the values escaped as the format demands.
fn label_text(labels: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (n, (name, value)) in labels.iter().enumerate() {
        if n > 0 {
            text.push(',');
        }
        text.push_str(name);
        text.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                c => text.push(c),
            }
        }
        text.push('"');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{Capacity, Load, channel};

    struct Batch(u64);
    impl Load for Batch {
        fn items(&self) -> u64 {
            self.0
        }
        fn bytes(&self) -> u64 {
            self.0 * 10
        }
    }

    /// The layout follows Prometheus' documentation of the text format.
    #[test]
    fn everything_is_exposed_as_text() {
        let metrics = Metrics::new();
        let alerts = ["0", "1"]
            .map(|w| metrics.counter("gabion_alerts_total", "Alerts raised", &[("worker", w)]));
        metrics.gauge("gabion_flows", "Flows in the table", &[]).set(7);
        alerts[0].add(2);
        alerts[1].add(3);
        metrics.counter("gabion_odd_total", "Odd", &[("path", "a\"b\\c\nd")]).add(1);
        let slot = metrics.ledger("capture", None);
        let mut ledger = Ledger::new();
        ledger.receive(5, 50);
        ledger.pass(4, 40);
        ledger.shed(ShedReason::TornFile, 1, 10);
        slot.publish(&ledger);
        let (tx, _rx, edge) = channel("reader>worker", Capacity { items: 9, bytes: 900 });
        metrics.edge(Some(0), &edge);
        tx.try_send(Batch(2)).unwrap();
        let pool = BudgetPool::root("process", 1 << 20);
        let leaf = pool.child("net", None).leaf("flow", Some(8192));
        assert!(leaf.try_reserve(10));
        metrics.budget(&pool);

        metrics.stage_ledgers().balance().unwrap();
        let text = metrics.exposition();
        for want in [
            "# HELP gabion_alerts_total Alerts raised\n# TYPE gabion_alerts_total counter\n\
             gabion_alerts_total{worker=\"0\"} 2\ngabion_alerts_total{worker=\"1\"} 3\n",
            "# TYPE gabion_flows gauge\ngabion_flows 7\n",
            "gabion_odd_total{path=\"a\\\"b\\\\c\\nd\"} 1\n",
            "gabion_stage_received_items_total{stage=\"capture\"} 5\n",
            "gabion_stage_shed_bytes_total{stage=\"capture\",reason=\"torn_file\"} 10\n",
            "gabion_stage_in_flight_bytes{stage=\"reader>worker\",worker=\"0\"} 20\n",
            "gabion_edge_waits_total{stage=\"reader>worker\",worker=\"0\"} 0\n",
            "gabion_budget_limit_bytes{budget=\"process/net/flow\"} 8192\n",
            "gabion_budget_used_bytes{budget=\"process\"} 4096\n",
        ] {
            assert!(text.contains(want), "{want}\nis not in\n{text}");
        }
        assert!(text.lines().all(|l| l.starts_with("# ") || l.starts_with("gabion_")));
    }

    #[test]
    fn an_empty_registry_exposes_nothing() {
        assert_eq!(Metrics::new().exposition(), "");
    }
}

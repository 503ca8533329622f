//! The metrics of a packet run for Prometheus: a thread asks the workers each second what they have counted, and another
//! one answers scrapes.
//!
//! Workers answer between two batches. One that has not answered is not asked again before it has.

use super::handles::RunHandles;
use super::reload::LoadCounts;
use super::stats::{WorkerStats, counters};
use crate::error::Error;
use crate::limits::{RULES_EXPOSED_AT_ONCE, RULES_EXPOSED_MAX};
use gabion_net::{Engine, RuleCost, Worker, WorkerLedgers};
use gabion_runtime::exposition::Exposition;
use gabion_runtime::metrics::LedgerSlot;
use gabion_runtime::{Counter, Gauge, Metrics, StopFlag, clock, memory};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often workers are asked.
const EVERY: Duration = Duration::from_secs(1);
/// How often answers, and the end, are looked for.
const LOOK: Duration = Duration::from_millis(50);

/// The listener of a run's metrics; it ends with the value.
pub struct PacketMetrics {
    metrics: Metrics,
    _exposition: Exposition,
    stop: StopFlag,
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for PacketMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PacketMetrics").finish_non_exhaustive()
    }
}

impl PacketMetrics {
    /// Answers those who connect to a socket, at once, with nothing yet.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn open(listener: TcpListener) -> Result<PacketMetrics, Error> {
        let metrics = Metrics::new();
        let exposition = Exposition::start(listener, &metrics)
            .map_err(|source| Error::Thread { name: "metrics", source })?;
        Ok(PacketMetrics { metrics, _exposition: exposition, stop: StopFlag::new(), thread: None })
    }

    /// Where the run registers what passes between its threads.
    pub fn registry(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Takes the metrics from there from now on.
    ///
    /// # Errors
    /// If the thread can't be started.
    pub fn begin(mut self, of: RunHandles) -> Result<PacketMetrics, Error> {
        let (metrics, stop) = (self.metrics.clone(), self.stop.clone());
        metrics.budget(&of.budget);
        metrics.budget(of.running.memory());
        let name = "metric counts";
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || Exposed::new(of, metrics).run(&stop));
        self.thread = Some(thread.map_err(|source| Error::Thread { name, source })?);
        Ok(self)
    }
}

impl Drop for PacketMetrics {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed; the run is over.
            let _ = thread.join();
        }
    }
}

/// What a worker answers.
struct Counted {
    stats: WorkerStats,
    ledgers: WorkerLedgers,
    /// The generation of its engine, the factor from sampled figures to totals, and the cost of each rule that cost
    /// something, by the rule's place.
    generation: u32,
    scale: u64,
    costs: Vec<(usize, RuleCost)>,
}

impl Counted {
    fn from_worker(worker: &Worker) -> Counted {
        let all = worker.costs();
        let costs = all.rules.iter().enumerate().filter(|(_, cost)| cost.checks > 0);
        Counted {
            stats: WorkerStats::from_worker(worker),
            ledgers: worker.ledgers().clone(),
            generation: worker.generation(),
            scale: all.scale(),
            costs: costs.map(|(place, cost)| (place, *cost)).collect(),
        }
    }
}

/// What is kept of a worker.
struct Known {
    is_asked: bool,
    last: Option<Counted>,
    packets: Counter,
    bytes: Counter,
    alerts: Counter,
    ledgers: BTreeMap<&'static str, LedgerSlot>,
}

impl Known {
    fn new(metrics: &Metrics, worker: usize) -> Known {
        let worker = worker.to_string();
        let labels = [("worker", worker.as_str())];
        let counter = |name, help| metrics.counter(name, help, &labels);
        Known {
            is_asked: false,
            last: None,
            packets: counter("gabion_packets_total", "Packets that a worker has inspected"),
            bytes: counter(
                "gabion_packet_bytes_total",
                "Bytes of the packets that a worker has inspected",
            ),
            alerts: counter("gabion_alerts_total", "Alerts of a worker"),
            ledgers: BTreeMap::new(),
        }
    }

    fn answer(&mut self, counted: Counted, metrics: &Metrics, worker: usize) {
        self.is_asked = false;
        let number = u16::try_from(worker).ok();
        counted.ledgers.each(&mut |stage, ledger| {
            let slot = self.ledgers.entry(stage);
            slot.or_insert_with(|| metrics.ledger(stage, number)).publish(ledger);
        });
        self.last = Some(counted);
    }

    fn show_totals(&self) {
        let Some(counted) = &self.last else { return };
        let net = &counted.stats.net;
        self.bytes.set(net.bytes);
        self.alerts.set(net.alerts);
        self.packets.set(net.packets);
    }
}

/// What an interface is shown by.
struct OfInterface {
    offered: Counter,
    dropped: Counter,
}

/// What a rule is shown by.
struct OfRule {
    checks: Counter,
    matches: Counter,
    ticks: Counter,
}

/// What loads of rules are shown by.
struct OfLoads {
    done: Counter,
    failed: Counter,
    refused: Counter,
    last_us: Gauge,
    longest_us: Gauge,
    pause_us: Gauge,
    loaded_at: Gauge,
    rules: [Gauge; 3],
}

impl OfLoads {
    fn new(metrics: &Metrics) -> OfLoads {
        let outcome = |outcome| {
            let help = "Loads of rules during the run, by outcome";
            metrics.counter("gabion_rule_loads_total", help, &[("outcome", outcome)])
        };
        let rules =
            |state| metrics.gauge("gabion_rules", "Rules by their outcome", &[("state", state)]);
        let gauge = |name, help| metrics.gauge(name, help, &[]);
        OfLoads {
            done: outcome("done"),
            failed: outcome("failed"),
            refused: outcome("refused"),
            last_us: gauge(
                "gabion_rule_load_last_microseconds",
                "How long the last load of rules during the run took",
            ),
            longest_us: gauge(
                "gabion_rule_load_longest_microseconds",
                "How long the longest load of rules during the run took",
            ),
            pause_us: gauge(
                "gabion_rule_load_pause_longest_microseconds",
                "The longest pause of a worker for a change of rules",
            ),
            loaded_at: gauge(
                "gabion_rules_loaded_at_seconds",
                "When the rules were loaded, in seconds since 1970",
            ),
            rules: ["loaded", "failed", "skipped"].map(rules),
        }
    }

    fn show(&self, of: &RunHandles) {
        // What a load has changed is taken after its count, and shown before it.
        let loads = of.reloads.as_ref().map(|reloads| reloads.counts());
        self.pause_us.set(micros(of.board.longest_adoption()));
        let facts = of.running.facts();
        self.loaded_at.set(facts.loaded_ns / 1_000_000_000);
        let counts = [facts.counts.loaded, facts.counts.failed, facts.counts.skipped];
        for (gauge, count) in self.rules.iter().zip(counts) {
            gauge.set(count as u64);
        }
        if let Some(LoadCounts { done, failed, refused, last, longest }) = loads {
            self.last_us.set(micros(last));
            self.longest_us.set(micros(longest));
            self.failed.set(failed);
            self.refused.set(refused);
            self.done.set(done);
        }
    }
}

fn micros(of: Duration) -> u64 {
    u64::try_from(of.as_micros()).unwrap_or(u64::MAX)
}

/// The thread that takes the metrics.
struct Exposed {
    of: RunHandles,
    metrics: Metrics,
    began: Instant,
    workers: Vec<Known>,
    answers: Receiver<(usize, Counted)>,
    answer_to: Sender<(usize, Counted)>,
    interfaces: BTreeMap<String, OfInterface>,
    /// Of the interfaces, what was lost before sockets: the host's backlog, dropped, missed.
    before: Option<[Counter; 3]>,
    records: LedgerSlot,
    /// Suricata's counters, by their names.
    stats: BTreeMap<String, Gauge>,
    rules: BTreeMap<(u32, u32), OfRule>,
    loads: OfLoads,
    uptime: Gauge,
    resident: Gauge,
}

impl Exposed {
    fn new(of: RunHandles, metrics: Metrics) -> Exposed {
        let (answer_to, answers) = channel();
        Exposed {
            began: clock::now(),
            workers: (0..of.tasks.workers()).map(|n| Known::new(&metrics, n)).collect(),
            answers,
            answer_to,
            interfaces: BTreeMap::new(),
            before: None,
            records: metrics.ledger("records", None),
            stats: BTreeMap::new(),
            rules: BTreeMap::new(),
            loads: OfLoads::new(&metrics),
            uptime: metrics.gauge("gabion_uptime_seconds", "Seconds since the run began", &[]),
            resident: metrics.gauge("gabion_resident_bytes", "Memory of the process", &[]),
            of,
            metrics,
        }
    }

    fn run(mut self, stop: &StopFlag) {
        let mut due = clock::now();
        while !stop.is_set() {
            let mut is_new = false;
            while let Ok((worker, counted)) = self.answers.try_recv() {
                if let Some(known) = self.workers.get_mut(worker) {
                    known.answer(counted, &self.metrics, worker);
                    is_new = true;
                }
            }
            if is_new {
                // Totals come last: who has seen them finds what belongs to them, whenever the scrape comes.
                self.show_counted();
                self.workers.iter().for_each(Known::show_totals);
            }
            if clock::now() >= due {
                due = clock::now() + EVERY;
                self.ask();
                self.show();
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Asks the workers that have answered so far.
    fn ask(&mut self) {
        for (n, known) in self.workers.iter_mut().enumerate().filter(|(_, known)| !known.is_asked) {
            let to = self.answer_to.clone();
            // A thread of metrics that is gone needs no counters.
            let count = move |worker: &mut Worker| {
                let _ = to.send((n, Counted::from_worker(worker)));
            };
            known.is_asked = self.of.tasks.post(n, Box::new(count));
        }
    }

    /// What is known without workers.
    fn show(&mut self) {
        self.uptime.set(self.began.elapsed().as_secs());
        self.resident.set(memory::resident_now().unwrap_or(0));
        self.loads.show(&self.of);
        let metrics = &self.metrics;
        for of in self.of.board.interfaces() {
            let shown = self.interfaces.entry(of.name).or_insert_with_key(|name| {
                let counter =
                    |family, help| metrics.counter(family, help, &[("interface", name.as_str())]);
                OfInterface {
                    offered: counter(
                        "gabion_kernel_packets_total",
                        "Frames that reached the sockets of an interface",
                    ),
                    dropped: counter(
                        "gabion_kernel_drops_total",
                        "Frames that the kernel dropped because the ring was full",
                    ),
                }
            });
            shown.offered.set(of.offered);
            shown.dropped.set(of.dropped);
        }
        if let Some(kernel) = self.of.board.kernel_counts() {
            let place = |place| {
                let help = "Frames that were lost before they reached a socket, by where";
                metrics.counter("gabion_before_socket_drops_total", help, &[("place", place)])
            };
            let all = ["backlog", "interface_dropped", "interface_missed"];
            let shown = self.before.get_or_insert_with(|| all.map(place));
            let before = kernel.before;
            for (counter, lost) in shown.iter().zip([before.backlog, before.dropped, before.missed])
            {
                counter.set(lost);
            }
        }
        self.records.publish(&self.of.board.records());
    }

    /// What workers have counted.
    fn show_counted(&mut self) {
        let engine = self.of.running.now();
        let all: Vec<&WorkerStats> =
            self.workers.iter().filter_map(|known| Some(&known.last.as_ref()?.stats)).collect();
        let metrics = &self.metrics;
        for (name, value) in counters(&all, &engine) {
            let gauge = self.stats.entry(name).or_insert_with_key(|name| {
                let help = "Counters of records of statistics, by Suricata's names";
                metrics.gauge("gabion_stats", help, &[("name", name.as_str())])
            });
            gauge.set(value);
        }
        self.show_costs(&engine);
    }

    /// The dearest rules, and those that were once among them.
    fn show_costs(&mut self, engine: &Engine) {
        let Some(detector) = &engine.detector else { return };
        let mut all: BTreeMap<(u32, u32), RuleCost> = BTreeMap::new();
        let mut scale = 1;
        for counted in self.workers.iter().filter_map(|known| known.last.as_ref()) {
            // Places are those of the rules that the worker had.
            if counted.generation != engine.generation {
                continue;
            }
            scale = counted.scale;
            for (place, cost) in &counted.costs {
                if let Some(rule) = detector.set.signatures.get(*place) {
                    all.entry((rule.gid, rule.sid)).or_default().merge(cost);
                }
            }
        }
        let mut dearest: Vec<(u64, (u32, u32))> =
            all.iter().map(|(rule, cost)| (cost.ticks(), *rule)).collect();
        dearest.sort_unstable_by(|a, b| b.cmp(a));
        for (_, rule) in dearest.into_iter().take(RULES_EXPOSED_AT_ONCE) {
            if self.rules.contains_key(&rule) || self.rules.len() >= RULES_EXPOSED_MAX {
                continue;
            }
            let (gid, sid) = (rule.0.to_string(), rule.1.to_string());
            let labels = [("gid", gid.as_str()), ("sid", sid.as_str())];
            let counter = |name, help| self.metrics.counter(name, help, &labels);
            let shown = OfRule {
                checks: counter(
                    "gabion_rule_checks_total",
                    "Inspections of a rule since it was loaded; of the most expensive rules",
                ),
                matches: counter("gabion_rule_matches_total", "Inspections of a rule that matched"),
                ticks: counter(
                    "gabion_rule_ticks_total",
                    "Ticks of the time stamp counter that inspections of a rule took",
                ),
            };
            self.rules.insert(rule, shown);
        }
        for (rule, shown) in &self.rules {
            let cost = all.get(rule).copied().unwrap_or_default();
            shown.checks.set(cost.checks.saturating_mul(scale));
            shown.matches.set(cost.matches.saturating_mul(scale));
            shown.ticks.set(cost.ticks().saturating_mul(scale));
        }
    }
}

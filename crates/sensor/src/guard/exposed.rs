//! The guard's metrics for Prometheus, and the thread that serves them.

use super::enforce::Enforcement;
use super::measuring::Measuring;
use super::second::GuardSecond;
use super::verdicts::ledger_of;
use crate::error::Error;
use gabion_guard::{Sample, Setpoint, Table};
use gabion_probe::throttle::Verdict;
use gabion_runtime::channel::Edge;
use gabion_runtime::metrics::LedgerSlot;
use gabion_runtime::{Counter, Gauge, Metrics, StopFlag, exposition};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The metrics, and their listener, which ends with the value.
pub(super) struct Exposed {
    metrics: Metrics,
    stop: StopFlag,
    thread: Option<JoinHandle<()>>,
    cpus: BTreeMap<u16, CpuMetrics>,
    incident: Gauge,
    incidents: Gauge,
    rung: Gauge,
    budget_ns: Gauge,
    cost_ns: Gauge,
    new_flow_limit: Gauge,
    grace_us: Gauge,
    own_us: Counter,
    own_programs_us: Counter,
    tables: BTreeMap<Table, (Gauge, Gauge)>,
    verdicts: Vec<(Verdict, Gauge)>,
    ledger: LedgerSlot,
}

struct CpuMetrics {
    work_us: Counter,
    ksoftirqd_us: Counter,
    thread_us: Counter,
    covered_us: Counter,
    packets: Counter,
    backlog_dropped: Counter,
    gap_us: Gauge,
}

impl CpuMetrics {
    fn new(metrics: &Metrics, cpu: u16) -> CpuMetrics {
        let cpu = cpu.to_string();
        let labels = [("cpu", cpu.as_str())];
        let counter = |name, help| metrics.counter(name, help, &labels);
        CpuMetrics {
            work_us: counter(
                "gabion_guard_packet_work_microseconds_total",
                "Time of packet work in softirqs and NAPI threads",
            ),
            ksoftirqd_us: counter(
                "gabion_guard_packet_work_in_ksoftirqd_microseconds_total",
                "The part of it in ksoftirqd",
            ),
            thread_us: counter(
                "gabion_guard_packet_work_in_threads_microseconds_total",
                "The part of it in NAPI threads",
            ),
            covered_us: counter(
                "gabion_guard_measured_microseconds_total",
                "Time in which packet work was measured",
            ),
            packets: counter("gabion_guard_packets_polled_total", "Packets of NAPI polls"),
            backlog_dropped: counter(
                "gabion_guard_backlog_dropped_total",
                "Packets that the backlog dropped",
            ),
            gap_us: metrics.gauge(
                "gabion_guard_gap_p99_microseconds",
                "99th percentile of the lateness of the gap probe in the last second",
                &labels,
            ),
        }
    }
}

impl Exposed {
    /// Answers those who connect to a socket, from a thread of its own.
    pub(super) fn open(listener: Arc<TcpListener>) -> Result<Exposed, Error> {
        let (metrics, stop) = (Metrics::new(), StopFlag::new());
        let (shown, stopped) = (metrics.clone(), stop.clone());
        let name = "metrics";
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || exposition::serve(&listener, &shown, &stopped))
            .map_err(|source| Error::Thread { name, source })?;
        let gauge = |name, help| metrics.gauge(name, help, &[]);
        Ok(Exposed {
            incident: gauge("gabion_guard_incident", "1 while an incident lasts"),
            incidents: gauge("gabion_guard_incidents", "Incidents since the start"),
            rung: gauge("gabion_guard_rung", "0 observe, 1 native, 2 generic, 3 advise"),
            budget_ns: gauge(
                "gabion_guard_budget_nanoseconds",
                "Packet work that is allowed in a window of 4 ms",
            ),
            cost_ns: gauge("gabion_guard_cost_nanoseconds", "What an admitted packet is charged"),
            new_flow_limit: gauge(
                "gabion_guard_new_flow_limit",
                "New flows that are admitted in a second; 0 for no limit",
            ),
            grace_us: gauge(
                "gabion_guard_grace_period_microseconds",
                "The longest grace period of the last second",
            ),
            own_us: metrics.counter(
                "gabion_guard_own_cpu_microseconds_total",
                "CPU time of this process",
                &[],
            ),
            own_programs_us: metrics.counter(
                "gabion_guard_own_programs_microseconds_total",
                "CPU time of the softirq programs: runs multiplied by a calibrated cost",
                &[],
            ),
            cpus: BTreeMap::new(),
            tables: BTreeMap::new(),
            verdicts: Vec::new(),
            ledger: metrics.ledger("throttle", None),
            thread: Some(thread),
            metrics,
            stop,
        })
    }

    /// Registers which instruments are there.
    pub(super) fn instruments(&mut self, measuring: &Measuring, has_heads: bool) {
        let absent: Vec<String> =
            measuring.softirqs.absent().iter().map(ToString::to_string).collect();
        let is_here = |name: &str| !absent.iter().any(|line| line.contains(name));
        for (name, is_here) in [
            ("softirq", true),
            ("napi_poll", is_here("napi_poll")),
            ("napi_threads", is_here("sched_switch")),
            ("gaps", measuring.gaps.iter().any(Option::is_some)),
            (
                "grace_periods",
                measuring.columns().has(gabion_guard::recording::Column::MembarrierUs),
            ),
            ("backlog", measuring.columns().has(gabion_guard::recording::Column::BacklogDropped)),
            ("conntrack", measuring.columns().has(gabion_guard::recording::Column::Conntrack)),
            ("neighbours", measuring.columns().has(gabion_guard::recording::Column::Neighbours)),
            ("steal", measuring.columns().has(gabion_guard::recording::Column::StealUs)),
            ("packet_heads", has_heads),
        ] {
            let help = "1 for an instrument that measures, 0 for one that is absent";
            let labels = [("instrument", name)];
            self.metrics.gauge("gabion_guard_instrument", help, &labels).set(is_here.into());
        }
    }

    /// Registers a stage between two threads.
    pub(super) fn edge(&self, edge: &Arc<Edge>) {
        self.metrics.edge(None, edge);
    }

    /// Takes a control period.
    pub(super) fn period(&mut self, sample: &Sample, setpoint: &Setpoint, is_incident: bool) {
        for cpu in &sample.cpus {
            let number = cpu.cpu;
            let known = self.cpus.entry(number);
            let to = known.or_insert_with(|| CpuMetrics::new(&self.metrics, number));
            if let Some(work) = cpu.work_us() {
                to.work_us.add(work);
                to.covered_us.add(cpu.covered_us.into());
            }
            to.ksoftirqd_us.add(cpu.ksoftirqd_us.into());
            to.thread_us.add(cpu.thread_us.into());
            to.packets.add(cpu.packets.unwrap_or(0));
            to.backlog_dropped.add(cpu.backlog_dropped);
        }
        for fill in &sample.tables {
            let labels = [("table", fill.table.name())];
            let (entries, max) = self.tables.entry(fill.table).or_insert_with(|| {
                let gauge = |name, help| self.metrics.gauge(name, help, &labels);
                (
                    gauge("gabion_guard_table_entries", "Entries of a table of the kernel"),
                    gauge("gabion_guard_table_max", "The most entries that it holds"),
                )
            });
            entries.set(fill.count);
            max.set(fill.max);
        }
        self.incident.set(is_incident.into());
        self.rung.set(setpoint.rung.number().into());
        self.budget_ns.set(setpoint.budget_ns);
        self.cost_ns.set(setpoint.cost_ns);
        self.new_flow_limit.set(setpoint.new_flows.unwrap_or(0));
    }

    /// Takes a second.
    pub(super) fn second(
        &mut self,
        second: &GuardSecond,
        incidents: u64,
        throttle: Option<&Enforcement>,
    ) {
        self.incidents.set(incidents);
        self.grace_us.set(second.grace_us.map_or(0, |(_, most, _)| most.into()));
        self.own_us.add((second.own_cost * 1e6) as u64);
        self.own_programs_us.add((second.program_cost * 1e6) as u64);
        for cpu in &second.cpus {
            if let (Some(to), Some((p99, _))) = (self.cpus.get(&cpu.cpu), cpu.gaps_us) {
                to.gap_us.set(p99.into());
            }
        }
        let Some(throttle) = throttle else { return };
        let verdicts = throttle.verdicts();
        if self.verdicts.is_empty() {
            let gauge = |verdict: Verdict| {
                let labels = [("verdict", verdict.name())];
                let help = "Packets by the throttle's verdict since it was attached";
                (verdict, self.metrics.gauge("gabion_guard_verdict_packets", help, &labels))
            };
            self.verdicts = Verdict::ALL.into_iter().map(gauge).collect();
        }
        for (verdict, gauge) in &self.verdicts {
            gauge.set(verdicts.count_of_verdict(*verdict));
        }
        self.ledger.publish(&ledger_of(&verdicts));
    }
}

impl Drop for Exposed {
    fn drop(&mut self) {
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

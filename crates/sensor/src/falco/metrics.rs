//! What a run measures of itself, once in an interval: as an alert, into a file, and for the listener.

use super::host_measures::{HostMeasure, boot_ns, host_measures};
use super::listing::version;
use super::rule_run::RuleRun;
use crate::syscalls::{CallAccount, LiveAccount};
use gabion_probe::syscalls::{Class, ClassCounts};
use gabion_record::files::{FileOpener, OpenMode};
use gabion_record::json::Json;
use gabion_record::syscall::{AlertField, AlertValue};
use gabion_runtime::clock;
use gabion_settings::falco::MetricSettings;
use gabion_syscall::State;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Falco's names for what was shed of each class of calls, in the order of [`Class::ALL`]. Falco has none for reads and
/// writes, which it does not count apart.
pub(super) const CLASS_NAMES: [&str; 7] = [
    "n_drops_buffer_io_exit",
    "n_drops_buffer_other_interest_exit",
    "n_drops_buffer_dir_file_exit",
    "n_drops_buffer_open_exit",
    "n_drops_buffer_connect_exit",
    "n_drops_buffer_close_exit",
    "n_drops_buffer_proc_exit",
];

/// What the kernel shed, by Falco's names.
pub(super) fn drop_counts(account: &LiveAccount) -> Vec<(&'static str, u64)> {
    let total = account.total();
    let mut all = vec![("n_drops_buffer_total", total.shed_ring)];
    for (class, name) in Class::ALL.into_iter().zip(CLASS_NAMES) {
        let counts = account.counts.classes.get(class as usize);
        all.push((name, counts.map_or(0, |counts| counts.shed_ring)));
    }
    all.push(("n_drops_scratch_map", total.shed_size));
    all.push(("n_drops_bug", account.counts.undecodable));
    all
}

/// What the kernel received and shed on each CPU, by Falco's names.
fn counts_by_cpu(account: &LiveAccount) -> Vec<(String, u64)> {
    let of = |(cpu, counts): (usize, &ClassCounts)| {
        let shed = counts.shed_ring + counts.shed_size;
        [
            (format!("scap.n_evts_cpu_{cpu}"), counts.received),
            (format!("scap.n_drops_cpu_{cpu}"), shed),
        ]
    };
    account.by_cpu.iter().enumerate().flat_map(of).collect()
}

/// The measures of a run until now; of each CPU where `are_cpus_counted`.
pub(super) fn measures(
    rules: &RuleRun,
    account: &CallAccount,
    lost_by_outputs: u64,
    are_cpus_counted: bool,
) -> Vec<AlertField> {
    let (received, dropped) = account.received_and_dropped();
    let number =
        |name: &str, n: u64| AlertField { name: name.to_owned(), value: AlertValue::Unsigned(n) };
    let mut fields = vec![
        number("falco.num_evts", rules.events),
        number("falco.outputs_queue_num_drops", lost_by_outputs),
        number("falco.rules.matches_total", rules.alerts.counts.total),
        number("scap.n_evts", received),
        number("scap.n_drops", dropped),
    ];
    if let CallAccount::Live(live) = account {
        let share = dropped as f64 * 100.0 / received.max(1) as f64;
        let value = AlertValue::Float(share);
        fields.push(AlertField { name: "scap.n_drops_perc".to_owned(), value });
        fields
            .extend(drop_counts(live).iter().map(|(name, n)| number(&format!("scap.{name}"), *n)));
        fields.push(number("scap.n_enter_storage_failed", live.counts.storage_failed));
        fields.push(number("scap.n_ia32_unmapped", live.counts.unmapped_ia32));
        if are_cpus_counted {
            fields.extend(counts_by_cpu(live).iter().map(|(name, n)| number(name, *n)));
        }
    }
    for (rule, count) in rules.rules().rules().iter().zip(rules.alerts.by_position()) {
        if *count > 0 {
            let plain = |c: char| if c.is_alphanumeric() { c } else { '_' };
            let name: String = rule.name.chars().map(plain).collect();
            fields.push(number(&format!("falco.rules.{name}"), *count));
        }
    }
    fields
}

/// What is known of threads and descriptors, and what it was shed for, by Falco's names.
pub(super) fn state_measures(state: &State) -> Vec<AlertField> {
    let (threads, look_ups) = (state.threads(), state.look_ups());
    let counts = threads.counts;
    let removed = counts.ended + counts.replaced + counts.shed_dead + counts.shed_idle;
    // A process has one table, which its threads share.
    let main = threads.iter().filter(|thread| thread.is_main());
    let fds: u64 = main.map(|thread| thread.fds.len() as u64).sum();
    let all = [
        ("scap.n_threads", threads.len() as u64),
        ("scap.n_fds", fds),
        ("scap.n_added_threads", counts.added),
        ("scap.n_removed_threads", removed),
        ("scap.n_noncached_thread_lookups", look_ups.wanted),
        ("scap.n_failed_thread_lookups", look_ups.failed + look_ups.refused),
        ("scap.n_drops_full_threadtable", counts.shed_idle + counts.refused),
    ];
    all.map(|(name, n)| AlertField { name: name.to_owned(), value: AlertValue::Unsigned(n) }).into()
}

/// A count of things in a time, for each second, with one decimal.
fn rate(things: u64, ns: u64) -> f64 {
    if ns == 0 {
        return 0.0;
    }
    (things as f64 * 1e10 / ns as f64).round() / 10.0
}

/// When measures are taken, and where they go.
pub(super) struct Metrics {
    opener: FileOpener,
    settings: Option<MetricSettings>,
    next_ns: u64,
    samples: u64,
    file: Option<File>,
    /// When the run began, and when its rules were loaded, in nanoseconds since 1970.
    began_ns: u64,
    loaded_ns: u64,
    /// Time, events, and calls that were received and dropped, of the last sample.
    last: (u64, u64, (u64, u64)),
}

impl Metrics {
    /// For a run that begins now; `opener` opens the file of the settings.
    pub(super) fn new(
        opener: FileOpener,
        settings: Option<MetricSettings>,
        now_ns: u64,
    ) -> Metrics {
        let (began_ns, loaded_ns) = (now_ns, now_ns);
        Metrics {
            opener,
            settings,
            next_ns: 0,
            samples: 0,
            file: None,
            began_ns,
            loaded_ns,
            last: (0, 0, (0, 0)),
        }
    }

    /// Continues with other settings, which were loaded now.
    pub(super) fn set_settings(&mut self, settings: Option<MetricSettings>, now_ns: u64) {
        self.settings = settings;
        (self.next_ns, self.file, self.loaded_ns) = (0, None, now_ns);
    }

    /// What this program is, how long it has run, and how many events a second came since the last sample.
    pub(super) fn since_the_last(
        &mut self,
        now_ns: u64,
        events: u64,
        account: &CallAccount,
    ) -> Vec<AlertField> {
        let (received, dropped) = account.received_and_dropped();
        let (before_ns, events_before, (received_before, dropped_before)) =
            std::mem::replace(&mut self.last, (now_ns, events, (received, dropped)));
        let since = now_ns.saturating_sub(before_ns);
        let of = |now: u64, before: u64| AlertValue::Float(rate(now.saturating_sub(before), since));
        let text = |text: &str| AlertValue::Text(text.as_bytes().to_vec());
        let uname = rustix::system::uname();
        let engine = match account {
            CallAccount::Live(_) => "modern_bpf",
            CallAccount::File(_) => "savefile",
        };
        let lasted_s = clock::epoch_ns().saturating_sub(self.began_ns) / 1_000_000_000;
        let mut all = vec![
            ("falco.version", text(version("falco_version"))),
            ("falco.start_ts", AlertValue::Unsigned(self.began_ns)),
            ("falco.reload_ts", AlertValue::Unsigned(self.loaded_ns)),
            ("falco.duration_sec", AlertValue::Unsigned(lasted_s)),
            ("falco.kernel_release", AlertValue::Text(uname.release().to_bytes().to_vec())),
            ("falco.num_evts_prev", AlertValue::Unsigned(events_before)),
            ("falco.evts_rate_sec", of(events, events_before)),
            ("scap.engine_name", text(engine)),
            ("scap.evts_rate_sec", of(received, received_before)),
            ("scap.evts_drop_rate_sec", of(dropped, dropped_before)),
        ];
        all.extend(
            boot_ns(Path::new("/")).map(|ns| ("falco.host_boot_ts", AlertValue::Unsigned(ns))),
        );
        let field = |(name, value): (&str, _)| AlertField { name: name.to_owned(), value };
        all.into_iter().map(field).collect()
    }

    /// Whether an interval is over.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        let Some(settings) = &self.settings else { return false };
        let interval_ns = settings.interval_s.saturating_mul(1_000_000_000);
        if self.next_ns == 0 {
            self.next_ns = now_ns.saturating_add(interval_ns);
            self.last.0 = now_ns;
        }
        if now_ns < self.next_ns {
            return false;
        }
        self.next_ns = now_ns.saturating_add(interval_ns);
        self.samples += 1;
        true
    }

    /// What the program and its host use, where the settings ask for it.
    pub(super) fn host(&self) -> Vec<AlertField> {
        let Some(settings) = self.settings.as_ref().filter(|settings| settings.has_host) else {
            return Vec::new();
        };
        let in_mb = |kb: u64| AlertValue::Float((kb as f64 / 102.4).round() / 10.0);
        let field = |measure| match measure {
            HostMeasure::Count(name, n) => (name.to_owned(), AlertValue::Unsigned(n)),
            HostMeasure::Percent(name, n) => (name.to_owned(), AlertValue::Float(n)),
            HostMeasure::Memory(name, kb) if settings.is_memory_in_mb => {
                (format!("{name}_mb"), in_mb(kb))
            }
            HostMeasure::Memory(name, kb) => (format!("{name}_kb"), AlertValue::Unsigned(kb)),
        };
        let all = host_measures(Path::new("/")).into_iter().map(field);
        all.map(|(name, value)| AlertField { name, value }).collect()
    }

    /// Whether the state of threads and descriptors is counted.
    pub(super) fn is_state_counted(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.has_state)
    }

    /// Whether each CPU is counted apart.
    pub(super) fn are_cpus_counted(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.has_cpus)
    }

    /// Whether they are alerts too.
    pub(super) fn are_alerts(&self) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.as_rule)
    }

    /// Appends them to the file of the settings, if there is one; what is wrong with it.
    pub(super) fn write_file(&mut self, fields: &[AlertField]) -> Option<String> {
        let path = self.settings.as_ref()?.file.clone()?;
        let mut json = Json::new();
        json.open();
        json.open_key("output_fields");
        for field in fields {
            match &field.value {
                AlertValue::Unsigned(n) => json.number(&field.name, *n),
                AlertValue::Float(n) => json.float(&field.name, *n),
                AlertValue::Text(text) => json.field(&field.name, &text[..]),
                AlertValue::Signed(_) | AlertValue::Bool(_) | AlertValue::Absent => {}
            }
        }
        json.close();
        json.number("sample", self.samples);
        json.close();
        let write = || {
            if self.file.is_none() {
                self.file = Some(self.opener.open(&path, OpenMode::AppendFollowing)?);
            }
            self.file.as_mut().map_or(Ok(()), |file| file.write_all(json.into_line().as_bytes()))
        };
        let failed = write().err();
        failed.map(|error| format!("metrics: {}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_probe::syscalls::Counts;
    use gabion_runtime::files::direct_opener;

    /// 100 writes of which 40 found no space, 10 programs of which one was too large, and two records that no recipe fits.
    fn account() -> LiveAccount {
        let mut counts = Counts { undecodable: 2, bytes: 4_000, ..Counts::default() };
        let set = |counts: &mut Counts, class: Class, of: ClassCounts| {
            if let Some(to) = counts.classes.get_mut(class as usize) {
                *to = of;
            }
        };
        let io = ClassCounts { received: 100, passed: 60, shed_ring: 40, shed_size: 0 };
        let proc = ClassCounts { received: 10, passed: 9, shed_ring: 0, shed_size: 1 };
        set(&mut counts, Class::Io, io);
        set(&mut counts, Class::Proc, proc);
        LiveAccount { counts, read: 60, ..LiveAccount::default() }
    }

    #[test]
    fn rates_are_those_since_the_last_sample() {
        let mut metrics = Metrics::new(direct_opener(), None, 1_000_000_000);
        let account = CallAccount::Live(Box::new(account()));
        let value = |fields: &[AlertField], name: &str| {
            fields.iter().find(|field| field.name == name).map(|field| field.value.clone())
        };
        metrics.last = (5_000_000_000, 20, (10, 3));
        let fields = metrics.since_the_last(7_000_000_000, 70, &account);
        assert_eq!(value(&fields, "falco.num_evts_prev"), Some(AlertValue::Unsigned(20)));
        assert_eq!(value(&fields, "falco.evts_rate_sec"), Some(AlertValue::Float(25.0)));
        assert_eq!(value(&fields, "scap.evts_rate_sec"), Some(AlertValue::Float(50.0)));
        assert_eq!(value(&fields, "scap.evts_drop_rate_sec"), Some(AlertValue::Float(20.0)));
        assert_eq!(value(&fields, "falco.start_ts"), Some(AlertValue::Unsigned(1_000_000_000)));
        let engine = value(&fields, "scap.engine_name");
        assert_eq!(engine, Some(AlertValue::Text(b"modern_bpf".to_vec())));
        // Nothing came since, and in no time there is no rate.
        let fields = metrics.since_the_last(7_000_000_000, 70, &account);
        assert_eq!(value(&fields, "falco.evts_rate_sec"), Some(AlertValue::Float(0.0)));
    }

    #[test]
    fn what_the_kernel_shed_is_in_ledger_and_measures_by_class() {
        let account = account();
        let ledgers = account.ledgers();
        assert!(ledgers.balance().is_ok());
        let stage = |name: &str| {
            ledgers.entries().iter().find(|entry| entry.stage == name).unwrap().ledger.clone()
        };
        assert_eq!(stage("kernel.io").shed_total().items, 40);
        assert_eq!(stage("kernel.proc").shed_total().items, 1);
        // Seven records wait in the rings.
        assert_eq!(stage("kernel>events").in_flight().items, 7);
        assert_eq!(CallAccount::Live(Box::new(account.clone())).received_and_dropped(), (110, 43));
        let counts = drop_counts(&account);
        for (name, n) in [
            ("n_drops_buffer_total", 40),
            ("n_drops_buffer_io_exit", 40),
            ("n_drops_buffer_proc_exit", 0),
            ("n_drops_scratch_map", 1),
            ("n_drops_bug", 2),
        ] {
            assert!(counts.contains(&(name, n)), "{name}: {counts:?}");
        }
        assert_eq!(account.shed_by_class().collect::<Vec<_>>(), [("io", 40), ("proc", 1)]);
        let one = ClassCounts { received: 90, passed: 60, shed_ring: 29, shed_size: 1 };
        let account = LiveAccount { by_cpu: vec![ClassCounts::default(), one], ..account };
        let counts = counts_by_cpu(&account);
        let of_second =
            [("scap.n_evts_cpu_1".to_owned(), 90), ("scap.n_drops_cpu_1".to_owned(), 30)];
        assert_eq!(counts[2..], of_second);
    }
}

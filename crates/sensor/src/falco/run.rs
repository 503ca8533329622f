//! One run of rules over system calls, from top to bottom: events, state, rules, alerts, and what is done on the way.
//!
//! A worker reads events and tries the rules, under a supervisor. The caller's thread watches files, signals and time, and
//! hands the worker new rules when files have changed: the source and the state of threads continue.

use super::alerts::AlertCounts;
use super::capture::Captures;
use super::destinations::{OutputCounts, open_outputs};
use super::drops::Drops;
use super::event_file::EventFile;
use super::metrics::{Metrics, drop_counts, measures, state_measures};
use super::plan::FalcoPlan;
use super::rule_run::RuleRun;
use super::watch::Watched;
use super::web::{Shown, Web};
use crate::Error;
use crate::packets::InputOpener;
use crate::syscalls::{CallAccount, Calls, Latest, LiveAccount, Moment, balanced};
use gabion_condition::rules::Priority;
use gabion_outputs::falco::{Clock, FalcoStyle};
use gabion_outputs::timestamp::utc_offset_s;
use gabion_record::ledger::{ShedReason, StageLedgers};
use gabion_record::syscall::{AlertField, AlertValue};
use gabion_record::thousands::thousands;
use gabion_runtime::fanout::{Change, SingleEnd, watch_single};
use gabion_runtime::supervisor::{Pulse, Supervisor};
use gabion_runtime::{Signals, StopFlag, clock};
use gabion_scap::Event;
use gabion_settings::falco::{EngineKind, FalcoSettings};
use gabion_syscall::{Options, State};
use std::fmt::Write;
use std::io;
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A run that is ready to begin.
pub struct FalcoRun<'a> {
    /// What opens captures and the files of outputs.
    pub opener: &'a InputOpener,
    /// Binds the listener of the web server to an address and a port, also after a change of settings.
    pub listen: &'a dyn Fn(&str, u16) -> io::Result<TcpListener>,
    /// Settings and rules.
    pub plan: Arc<FalcoPlan>,
    /// The files that they were made from: a change of one loads them again, if the settings say so.
    pub files: Vec<PathBuf>,
    /// The host's name in alerts.
    pub hostname: String,
    /// Seconds after which the run ends: of event time in a capture file, else of the machine's clock.
    pub seconds: Option<u64>,
    /// A new file for the events of a live source.
    pub recording: Option<PathBuf>,
    /// Count the runs of the kernel's programs, and leave the statistics of a live source.
    pub wants_statistics: bool,
    /// Take `container.id` as the reference alerts of the corpus do.
    pub container_stand_in: bool,
    /// The signals of the process.
    pub signals: &'a Signals,
    /// Loads settings and rules again; none where the files are wrong, which it has reported.
    pub reload: &'a mut dyn FnMut() -> Option<(FalcoPlan, Vec<PathBuf>)>,
    /// Takes lines for the program's log.
    pub log: &'a (dyn Fn(&str) + Sync),
}

/// Why a run ended.
#[derive(Debug)]
pub enum FalcoEnd {
    /// Its input ended, its time was up or it was asked to stop.
    Done,
    /// It can't continue.
    Failed(FalcoFault),
}

/// Why a run can't continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FalcoFault {
    /// An option is only for a source that is live.
    #[error(
        "{option} is for the calls of this host: leave it out where engine.kind is not modern_ebpf"
    )]
    NotLive {
        /// The option.
        option: &'static str,
    },
    /// A thread can't be started.
    #[error("threads: {0}")]
    Thread(#[source] io::Error),
    /// The source can't be opened or read, or the recording can't be written.
    #[error("{0}")]
    Run(#[from] Error),
    /// The settings ask to end when calls were dropped.
    #[error("{0}")]
    Drops(DroppedCalls),
    /// The worker panicked.
    #[error("system calls: failed: {message}: report it")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}

/// Calls that were dropped, in Falco's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Falco internal: syscall event drop. {0} system calls dropped in last second.")]
pub struct DroppedCalls(pub u64);

/// What a run left behind.
#[derive(Debug)]
pub struct FalcoDone {
    /// Why it ended.
    pub end: FalcoEnd,
    /// Events that rules were tried on.
    pub events: u64,
    /// Alerts of rules.
    pub alerts: u64,
    /// The counts of alerts, as lines of text.
    pub statistics: String,
    /// The counts of drops, as lines of text; empty if none was seen.
    pub drops: String,
    /// What could not be written on this host.
    pub faults: Vec<String>,
    /// What is worth reporting about the input.
    pub notes: Vec<String>,
    /// The account of every event.
    pub ledgers: StageLedgers,
    /// The account as a line of text, for a live source.
    pub account: Option<String>,
    /// What a live source counted, as a block of text; empty if it was not asked for.
    pub live_statistics: String,
}

impl FalcoDone {
    fn failed(why: FalcoFault) -> FalcoDone {
        FalcoDone {
            end: FalcoEnd::Failed(why),
            events: 0,
            alerts: 0,
            statistics: String::new(),
            drops: String::new(),
            faults: Vec::new(),
            notes: Vec::new(),
            ledgers: StageLedgers::new(),
            account: None,
            live_statistics: String::new(),
        }
    }

    /// A run whose worker panicked: what it had done, and the event that it was at.
    fn lost(panic: &str, shown: &Shown) -> FalcoDone {
        let (events, alerts) = (shown.tried.load(Relaxed), shown.alerts.load(Relaxed));
        let mut ledgers = StageLedgers::new();
        ledgers.add("events>rules", None, &shown.ledger(ShedReason::WorkerLost));
        let lost = thousands(shown.taken.load(Relaxed).saturating_sub(events));
        FalcoDone {
            events,
            alerts,
            statistics: format!("Events detected: {alerts}\n"),
            notes: vec![format!(
                "system calls: the worker was lost after {} events, with {lost} that it was at",
                thousands(events)
            )],
            ledgers,
            ..FalcoDone::failed(FalcoFault::Panicked { message: panic.to_owned() })
        }
    }
}

/// The worker's name.
const NAME: &str = "system calls";

/// Time between two looks at files, signals and the supervisor.
const LOOK: Duration = Duration::from_millis(100);

/// What the caller's thread asks of the worker.
#[derive(Debug, Default)]
struct Asked {
    end: AtomicBool,
    has_plan: AtomicBool,
    plan: Mutex<Option<Arc<FalcoPlan>>>,
}

impl Asked {
    fn put_plan(&self, plan: Arc<FalcoPlan>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = Some(plan);
        self.has_plan.store(true, Relaxed);
    }

    fn take_plan(&self) -> Option<Arc<FalcoPlan>> {
        if !self.has_plan.swap(false, Relaxed) {
            return None;
        }
        self.plan.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl FalcoRun<'_> {
    /// Runs to the end.
    pub fn run(mut self) -> FalcoDone {
        let is_live = self.plan.settings.engine == EngineKind::Live;
        let asked = [("--stats", self.wants_statistics), ("-w", self.recording.is_some())];
        if let Some((name, _)) = asked.iter().find(|(_, is_asked)| *is_asked && !is_live) {
            return FalcoDone::failed(FalcoFault::NotLive { option: name });
        }
        let supervisor = match Supervisor::start() {
            Ok(supervisor) => supervisor,
            Err(error) => return FalcoDone::failed(FalcoFault::Thread(error)),
        };
        let (asked, shown) = (Asked::default(), Arc::new(Shown::default()));
        let mut worker = Worker {
            opener: self.opener,
            plan: Arc::clone(&self.plan),
            hostname: std::mem::take(&mut self.hostname),
            seconds: self.seconds,
            recording: self.recording.take(),
            wants_statistics: self.wants_statistics,
            container_stand_in: self.container_stand_in,
            stop: self.signals.stop().clone(),
            asked: &asked,
            shown: Arc::clone(&shown),
            log: self.log,
        };
        std::thread::scope(|scope| {
            let started = supervisor.spawn_scoped(scope, NAME, move |pulse| worker.run(pulse));
            let thread = match started {
                Ok(thread) => thread,
                Err(error) => return FalcoDone::failed(FalcoFault::Thread(error)),
            };
            let panic = self.watch(&supervisor, &asked, &shown);
            let mut done = match thread.join() {
                Ok(Some(done)) => done,
                Ok(None) | Err(_) => FalcoDone::lost(&panic, &shown),
            };
            let stalls = shown.stalls.load(Relaxed);
            if stalls > 0 {
                done.notes.push(format!(
                    "system calls: the worker stalled {} times: an output that blocks holds up all events",
                    thousands(stalls)
                ));
            }
            done
        })
    }

    /// Looks at files, signals and time until the worker has ended; the message of its panic, if it ended by one.
    fn watch(&mut self, supervisor: &Supervisor, asked: &Asked, shown: &Arc<Shown>) -> String {
        let is_endless = !matches!(self.plan.settings.engine, EngineKind::Replay(_));
        let mut web = is_endless.then(|| self.open_web(shown)).flatten();
        let mut watched = Watched::new(if is_endless { self.watched_files() } else { &[] });
        let begin = clock::now();
        let end = watch_single(supervisor, LOOK, Duration::MAX, &mut |change| {
            if let Some(Change::Stalled(message) | Change::Recovered(message)) = &change {
                let is_stall = matches!(change, Some(Change::Stalled(_)));
                shown.stalls.fetch_add(u64::from(is_stall), Relaxed);
                (self.log)(&format!("{NAME}: {message}"));
            }
            if !is_endless {
                return;
            }
            if self.seconds.is_some_and(|seconds| begin.elapsed() >= Duration::from_secs(seconds)) {
                asked.end.store(true, Relaxed);
            }
            if !watched.has_changed() && !self.signals.take_reopen() {
                return;
            }
            (self.log)("SIGHUP received, restarting...");
            let Some((plan, files)) = (self.reload)() else { return };
            if plan.settings.engine != self.plan.settings.engine {
                (self.log)("engine: another source is used when the program is started again");
            }
            let is_other_web = plan.settings.web != self.plan.settings.web;
            (self.plan, self.files) = (Arc::new(plan), files);
            watched.follow(self.watched_files());
            if is_other_web {
                drop(web.take());
                web = self.open_web(shown);
            }
            asked.put_plan(Arc::clone(&self.plan));
        });
        match end {
            SingleEnd::Failed(message) => message,
            SingleEnd::Finished { .. } | SingleEnd::Overdue => String::new(),
        }
    }

    fn watched_files(&self) -> &[PathBuf] {
        if self.plan.settings.watches_files { &self.files } else { &[] }
    }

    fn open_web(&self, shown: &Arc<Shown>) -> Option<Web> {
        let web = self.plan.settings.web.as_ref()?;
        let started = (self.listen)(&web.address, web.port)
            .and_then(|listener| Web::start(listener, web, Arc::clone(shown)));
        started
            .map_err(|error| {
                (self.log)(&format!("webserver: {}:{}: {error}", web.address, web.port));
            })
            .ok()
    }
}

/// The thread that reads events and tries the rules.
struct Worker<'a> {
    opener: &'a InputOpener,
    plan: Arc<FalcoPlan>,
    hostname: String,
    seconds: Option<u64>,
    recording: Option<PathBuf>,
    wants_statistics: bool,
    container_stand_in: bool,
    stop: StopFlag,
    asked: &'a Asked,
    shown: Arc<Shown>,
    log: &'a (dyn Fn(&str) + Sync),
}

impl Worker<'_> {
    fn run(&mut self, pulse: &Pulse) -> FalcoDone {
        let settings = &self.plan.settings;
        let counts: Arc<OutputCounts> = Arc::default();
        let style = style(settings, &self.hostname);
        let outputs = open_outputs(self.opener.files(), settings, &style, &counts, self.log);
        let rules = RuleRun::new(
            Arc::clone(&self.plan.rules),
            settings.matching,
            outputs,
            settings.is_json,
        );
        // Programs take the verifier some time.
        let mut calls = match pulse.rest(|| self.open()) {
            Ok(calls) => calls,
            Err(error) => return FalcoDone::failed(error.into()),
        };
        let recording = match self.recording.take() {
            Some(path) => match EventFile::create(self.opener.files(), &path, calls.state()) {
                Ok(file) => Some(file),
                Err(error) => return FalcoDone::failed(error.into()),
            },
            None => None,
        };
        for line in calls.absent() {
            (self.log)(&format!("system calls: {line}"));
        }
        if settings.engine == EngineKind::Live {
            (self.log)("Opened 'syscall' source: the calls of this host are read");
        }
        self.show_left_out();
        let mut running = Running {
            metrics: Metrics::new(
                self.opener.files().clone(),
                settings.metrics.clone(),
                clock::epoch_ns(),
            ),
            captures: self.captures(settings),
            recording,
            drops: Drops::new(settings.drops.clone()),
            shown: Arc::clone(&self.shown),
            rules,
            counts,
            faults: Vec::new(),
            is_unseen_logged: false,
            failed: None,
        };
        running.shown.rules.store(self.plan.rules.enabled() as u64, Relaxed);
        let mut first_ns = None;
        let nothing = CallAccount::File(Box::default());
        let is_replay = matches!(settings.engine, EngineKind::Replay(_));
        let ran = calls.run(pulse, |moment| match moment {
            Moment::Event(state, event) => {
                running.event(state, event);
                let mut flow = ControlFlow::Continue(());
                if is_replay {
                    let first = *first_ns.get_or_insert(event.ts_ns);
                    let age_s = event.ts_ns.saturating_sub(first) / 1_000_000_000;
                    flow = running.second(event.ts_ns, state, &|| nothing.clone(), self.log);
                    if self.seconds.is_some_and(|seconds| age_s >= seconds) {
                        flow = ControlFlow::Break(());
                    }
                }
                running.shown.tried.store(running.rules.events, Relaxed);
                flow
            }
            Moment::CaughtUp(latest) => {
                if let Some(plan) = self.asked.take_plan() {
                    self.take_plan(plan, latest, &mut running);
                }
                if self.asked.end.load(Relaxed) {
                    return ControlFlow::Break(());
                }
                if !running.is_unseen_logged
                    && let Some(line) = latest.unseen()
                {
                    running.is_unseen_logged = true;
                    (self.log)(line);
                }
                let account = || latest.account().unwrap_or_else(|| nothing.clone());
                running.second(clock::epoch_ns(), latest.state(), &account, self.log)
            }
        });
        let end = match (ran, running.failed.take()) {
            (Err(error), _) => FalcoEnd::Failed(error.into()),
            (Ok(()), Some(dropped)) => FalcoEnd::Failed(FalcoFault::Drops(dropped)),
            (Ok(()), None) => FalcoEnd::Done,
        };
        let statistics = calls.statistics().filter(|_| self.wants_statistics);
        let done = running.done(end, &calls.account());
        FalcoDone {
            live_statistics: statistics.map_or_else(String::new, |counted| counted.text()),
            ..done
        }
    }

    fn open(&self) -> Result<Calls, Error> {
        let settings = &self.plan.settings;
        let options = Options {
            threads_max: settings.thread_table_size,
            container_stand_in: self.container_stand_in,
            utc_offset_s: if settings.is_iso_8601 { 0 } else { utc_offset_s(clock::epoch_ns()) },
            ..Options::default()
        };
        match &settings.engine {
            EngineKind::Replay(path) => Calls::open(path, self.opener, options, &self.stop),
            EngineKind::None => Ok(Calls::nothing(&self.stop)),
            EngineKind::Live => {
                let mut live = self.plan.live_settings();
                live.session.counts_runs = self.wants_statistics;
                Calls::live(&live, options, &self.stop)
            }
        }
    }

    /// The files of captures around alerts, where the settings ask for them.
    fn captures(&self, settings: &FalcoSettings) -> Option<Captures> {
        let wanted = settings.capture.clone();
        wanted.map(|wanted| Captures::new(self.opener.files().clone(), wanted))
    }

    fn show_left_out(&self) {
        let names = self.plan.left_out();
        if self.plan.settings.engine == EngineKind::Live && !names.is_empty() {
            (self.log)(&format!(
                "rules name calls that are not recorded without base_syscalls.all: {}",
                names.join(", ")
            ));
        }
    }

    /// Continues with other settings and rules.
    fn take_plan(&mut self, plan: Arc<FalcoPlan>, latest: &Latest<'_>, running: &mut Running) {
        let settings = &plan.settings;
        latest.set_interest(&plan.interest());
        let style = style(settings, &self.hostname);
        let files = self.opener.files();
        let outputs = open_outputs(files, settings, &style, &running.counts, self.log);
        running.rules.set_rules(Arc::clone(&plan.rules), settings.matching);
        running.rules.alerts.set_outputs(outputs, settings.is_json);
        running.metrics.set_settings(settings.metrics.clone(), clock::epoch_ns());
        if running.captures.is_none() {
            running.captures = self.captures(settings);
        }
        running.shown.rules.store(plan.rules.enabled() as u64, Relaxed);
        self.plan = plan;
        self.show_left_out();
    }
}

fn style(settings: &FalcoSettings, hostname: &str) -> FalcoStyle {
    FalcoStyle {
        is_json: settings.is_json,
        hostname: hostname.into(),
        clock: if settings.is_iso_8601 {
            Clock::Iso8601
        } else {
            Clock::Local(utc_offset_s(clock::epoch_ns()))
        },
        has_output: settings.has_output,
        has_message: settings.has_message,
        has_fields: settings.has_fields,
        has_tags: settings.has_tags,
        has_context: false,
    }
}

/// What changes while a run lasts.
struct Running {
    rules: RuleRun,
    metrics: Metrics,
    captures: Option<Captures>,
    recording: Option<EventFile>,
    drops: Drops,
    shown: Arc<Shown>,
    counts: Arc<OutputCounts>,
    faults: Vec<String>,
    is_unseen_logged: bool,
    /// The settings ask to end for these.
    failed: Option<DroppedCalls>,
}

impl Running {
    /// Tries the rules on an event, which is kept for captures of alerts where these are on.
    fn event(&mut self, state: &State, event: &Event<'_>) {
        // The supervisor of this thread knows where it was, should it come no further.
        self.shown.taken.store(self.rules.events + 1, Relaxed);
        if let Some(captures) = &mut self.captures {
            captures.keep(event);
        }
        if let Some(recording) = &mut self.recording {
            recording.add(event);
        }
        let found = self.rules.event(state, event);
        if found.is_any {
            self.shown.alerts.store(self.rules.alerts.counts.total, Relaxed);
        }
        if let Some(captures) = &mut self.captures {
            let for_all = (found.is_any && captures.are_for_all()).then_some(0);
            if let Some(duration_ms) = found.capture_ms.or(for_all) {
                captures.begin(state, event, duration_ms);
            }
        }
    }

    /// What is done once a second: metrics, and what the settings ask for when calls were dropped. `account` is asked for
    /// only then.
    fn second(
        &mut self,
        now_ns: u64,
        state: &State,
        account: &dyn Fn() -> CallAccount,
        log: &dyn Fn(&str),
    ) -> ControlFlow<()> {
        let are_metrics_due = self.metrics.is_due(now_ns);
        if !are_metrics_due && !self.drops.is_due(now_ns) {
            return ControlFlow::Continue(());
        }
        let account = account();
        let (received, dropped) = account.received_and_dropped();
        self.shown.events.store(self.rules.events, Relaxed);
        self.shown.alerts.store(self.rules.alerts.counts.total, Relaxed);
        self.shown.dropped.store(dropped, Relaxed);
        if let CallAccount::Live(live) = &account {
            for (to, counts) in self.shown.shed.iter().zip(&live.counts.classes) {
                to.store(counts.shed_ring, Relaxed);
            }
            self.shown.storage_failed.store(live.counts.storage_failed, Relaxed);
            self.shown.unmapped_ia32.store(live.counts.unmapped_ia32, Relaxed);
        }
        if are_metrics_due {
            self.write_metrics(now_ns, state, &account);
        }
        let events = if received > 0 { received } else { self.rules.events };
        let Some(asked) = self.drops.check(now_ns, events, dropped) else {
            return ControlFlow::Continue(());
        };
        let dropped = DroppedCalls(asked.dropped);
        let text = dropped.to_string();
        if asked.log {
            log(&text);
        }
        if asked.alert {
            let number = |name: &str, n: u64| AlertField {
                name: name.to_string(),
                value: AlertValue::Text(n.to_string().into_bytes()),
            };
            let mut fields = vec![number("n_evts", events), number("n_drops", asked.dropped)];
            if let CallAccount::Live(live) = &account {
                fields.push(number("ebpf_enabled", 1));
                fields.extend(drop_counts(live).iter().map(|(name, n)| number(name, *n)));
            }
            let rule = "Falco internal: syscall event drop";
            self.rules.alerts.internal(now_ns, rule, Priority::Debug, &text, &fields);
        }
        if asked.exit {
            log("Exiting.");
            self.failed = Some(dropped);
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn write_metrics(&mut self, now_ns: u64, state: &State, account: &CallAccount) {
        let undelivered = self.counts.undelivered.load(Relaxed);
        let are_cpus_counted = self.metrics.are_cpus_counted();
        let mut fields = measures(&self.rules, account, undelivered, are_cpus_counted);
        fields.extend(self.metrics.since_the_last(now_ns, self.rules.events, account));
        if self.metrics.is_state_counted() {
            fields.extend(state_measures(state));
        }
        fields.extend(self.metrics.host());
        if let Some(fault) = self.metrics.write_file(&fields)
            && !self.faults.contains(&fault)
        {
            self.faults.push(fault);
        }
        if self.metrics.are_alerts() {
            let rule = "Falco internal: metrics snapshot";
            let text = "Falco metrics snapshot";
            self.rules.alerts.internal(now_ns, rule, Priority::Informational, text, &fields);
        }
    }

    fn done(self, end: FalcoEnd, account: &CallAccount) -> FalcoDone {
        let events = self.rules.events;
        let mut alerts = self.rules.finish();
        // Receivers get what is in their queues.
        alerts.set_outputs(Vec::new(), false);
        let mut faults = self.faults;
        faults.extend(alerts.faults.iter().map(ToString::to_string));
        let mut notes = account.notes();
        // A receiver that is away is a fault of another host: it is reported, and no fault of this run.
        let undelivered = self.counts.undelivered.load(Relaxed);
        if undelivered > 0 {
            let refusal = self.counts.refusal.lock().unwrap_or_else(PoisonError::into_inner).take();
            let reason = refusal.map_or_else(String::new, |reason| format!(": {reason}"));
            let number = thousands(undelivered);
            notes.push(format!("http_output: {number} alerts were not taken{reason}"));
        }
        if self.counts.is_left_waiting.load(Relaxed) {
            notes.push("http_output: further alerts were on their way at the end".to_owned());
        }
        let (drops, mut ledgers) = (drop_text(&self.drops), account.ledgers());
        self.shown.taken.store(events, Relaxed);
        ledgers.add("events>rules", None, &self.shown.ledger(ShedReason::WorkerLost));
        faults.extend(self.recording.and_then(EventFile::finish));
        if let Some(captures) = self.captures {
            let (wrong, note) = captures.finish();
            faults.extend(wrong);
            notes.extend(note);
        }
        let end = match (end, balanced(&ledgers)) {
            (FalcoEnd::Done, Err(error)) => FalcoEnd::Failed(error.into()),
            (end, _) => end,
        };
        let mut line = None;
        match account {
            CallAccount::Live(live) => line = Some(account_line(live)),
            CallAccount::File(file) => {
                let is_read = file.merged.is_some() && matches!(end, FalcoEnd::Done);
                if is_read && file.read.events.received().items == 0 {
                    notes.push("the capture has no events".to_owned());
                }
            }
        }
        FalcoDone {
            end,
            events,
            alerts: alerts.counts.total,
            statistics: statistics(&alerts.counts),
            drops,
            faults,
            notes,
            ledgers,
            account: line,
            live_statistics: String::new(),
        }
    }
}

/// The account of a live source: what was shed with its classes.
fn account_line(live: &LiveAccount) -> String {
    let total = live.total();
    let mut line = format!(
        "system calls: {} received, {} passed, {} shed",
        thousands(total.received),
        thousands(live.read),
        thousands(live.dropped()),
    );
    for (n, (class, shed)) in live.shed_by_class().enumerate() {
        let sign = if n == 0 { ':' } else { ',' };
        let _ = write!(line, "{sign} {class} {}", thousands(shed));
    }
    for (what, count) in live.faults() {
        let _ = write!(line, "; {what}: {}", thousands(count));
    }
    line
}

fn statistics(counts: &AlertCounts) -> String {
    let mut text = format!("Events detected: {}\nRule counts by severity:\n", counts.total);
    for (priority, count) in Priority::ALL.iter().zip(counts.by_priority).filter(|(_, n)| *n > 0) {
        let _ = writeln!(text, "   {}: {count}", priority.short_name().to_uppercase());
    }
    text.push_str("Triggered rules by rule name:\n");
    for (rule, count) in &counts.by_rule {
        let _ = writeln!(text, "   {rule}: {count}");
    }
    text
}

fn drop_text(drops: &Drops) -> String {
    let (detected, acted) = (drops.detected, drops.acted);
    if detected == 0 {
        return String::new();
    }
    format!(
        "Syscall event drop monitoring:\n   - event drop detected: {detected} occurrences\n   - num times actions \
         taken: {acted}\n"
    )
}

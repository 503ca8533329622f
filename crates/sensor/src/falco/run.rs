//! One run of rules over system calls, from top to bottom: events, state, rules, alerts, and what is done on the way.

use super::alerts::Alerts;
use super::destinations::open_outputs;
use super::drops::Drops;
use super::watch::Watched;
use super::web::{Shown, Web};
use crate::limits::SYSCALL_STATE_BYTES;
use gabion_condition::rules::{Priority, RuleMatcher, RuleSet};
use gabion_outputs::falco::{Clock, FalcoStyle};
use gabion_outputs::timestamp::utc_offset_s;
use gabion_record::budget::Budget;
use gabion_record::fields::Fields;
use gabion_record::syscall::{AlertField, AlertValue};
use gabion_runtime::{Signals, clock};
use gabion_scap::{Item, Merger, Reader};
use gabion_settings::falco::{EngineKind, FalcoSettings};
use gabion_syscall::{Options, State};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A run that is ready to begin.
pub struct FalcoRun<'a> {
    /// The configuration.
    pub settings: &'a FalcoSettings,
    /// The rules.
    pub rules: &'a RuleSet,
    /// The files that it was made from: a change of one ends the run, if the settings say so.
    pub files: Vec<PathBuf>,
    /// The host's name in alerts.
    pub hostname: String,
    /// Seconds after which the run ends: of event time in a capture file, else of the machine's clock.
    pub seconds: Option<u64>,
    /// Take `container.id` as the reference alerts of the corpus do.
    pub container_stand_in: bool,
    /// The signals of the process.
    pub signals: &'a Signals,
    /// Takes lines for the program's log.
    pub log: &'a mut dyn FnMut(&str),
}

/// Why a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FalcoEnd {
    /// Its input ended, its time was up or it was asked to stop.
    Done,
    /// A file that it was made from has changed, or SIGHUP asked for it.
    Restart,
    /// It can't continue: why.
    Failed(String),
}

/// What a run left behind.
#[derive(Clone, Debug)]
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
    /// What could not be written.
    pub faults: Vec<String>,
    /// What is worth reporting about the input.
    pub notes: Vec<String>,
}

/// What changes while a run lasts.
struct Running<'a> {
    settings: &'a FalcoSettings,
    rules: &'a RuleSet,
    matcher: RuleMatcher,
    matched: Vec<u32>,
    alerts: Alerts,
    drops: Drops,
    shown: Arc<Shown>,
    events: u64,
    is_failed: bool,
    next_metrics_ns: u64,
    metrics_written: u64,
}

/// Time between two looks at files and signals, while no events come.
const LOOK: Duration = Duration::from_millis(100);

impl FalcoRun<'_> {
    /// Runs to the end.
    pub fn run(self) -> FalcoDone {
        let style = FalcoStyle {
            is_json: self.settings.is_json,
            hostname: self.hostname.as_str().into(),
            clock: match self.settings.is_iso_8601 {
                true => Clock::Iso8601,
                false => Clock::Local(utc_offset_s(clock::epoch_ns())),
            },
            has_output: self.settings.has_output,
            has_message: self.settings.has_message,
            has_fields: self.settings.has_fields,
            has_tags: self.settings.has_tags,
        };
        let outputs = open_outputs(self.settings, &style);
        let shown = Arc::new(Shown::default());
        shown.rules.store(self.rules.enabled() as u64, Relaxed);
        let mut running = Running {
            settings: self.settings,
            rules: self.rules,
            matcher: RuleMatcher::new(self.rules),
            matched: Vec::new(),
            alerts: Alerts::new(outputs, self.settings.is_json),
            drops: Drops::new(self.settings.drops.clone()),
            shown,
            events: 0,
            is_failed: false,
            next_metrics_ns: 0,
            metrics_written: 0,
        };
        let mut notes = Vec::new();
        let end = match self.settings.engine.clone() {
            EngineKind::Replay(path) => self.replay(&path, &mut running, &mut notes),
            EngineKind::None => self.wait(&mut running),
            EngineKind::Live => FalcoEnd::Failed(
                "live capture is not part of this build: set engine.kind=replay and engine.replay.capture_file"
                    .to_string(),
            ),
        };
        running.done(end, notes)
    }

    /// Reads a capture file.
    fn replay(self, path: &Path, running: &mut Running<'_>, notes: &mut Vec<String>) -> FalcoEnd {
        let failed = |why: String| FalcoEnd::Failed(format!("{}: {why}", path.display()));
        let file = match std::fs::File::open(path) {
            Ok(file) => file,
            Err(error) => return failed(error.to_string()),
        };
        let mut reader = match Reader::new(file) {
            Ok(reader) => reader,
            Err(error) => return failed(error.to_string()),
        };
        let budget = Budget::standalone("syscall state", SYSCALL_STATE_BYTES);
        let options = Options {
            threads_max: self.settings.thread_table_size,
            container_stand_in: self.container_stand_in,
            ..Options::default()
        };
        let mut state = State::new(options, budget);
        let mut merger = Merger::new();
        let mut first_ns = None;
        loop {
            let item = match reader.next_item() {
                Ok(Some(item)) => item,
                Ok(None) => break,
                Err(error) => return failed(error.to_string()),
            };
            match item {
                Item::Event(event) => {
                    let Some(event) = merger.merge(event) else { continue };
                    state.apply(&event);
                    if state.is_for_rules() {
                        running.event(&state.view(&event));
                    }
                    if let Some(end) = running.second(event.ts_ns, 0, self.log) {
                        return end;
                    }
                    let first = *first_ns.get_or_insert(event.ts_ns);
                    let age_s = event.ts_ns.saturating_sub(first) / 1_000_000_000;
                    if self.seconds.is_some_and(|seconds| age_s >= seconds)
                        || self.signals.stop().is_set()
                    {
                        break;
                    }
                }
                item => state.add(item),
            }
        }
        let ledger = &merger.counts().ledger;
        if let Err(error) = ledger.balance() {
            notes.push(error.to_string());
        }
        if running.events == 0 && merger.counts().ledger.received().items == 0 {
            notes.push(format!("{}: has no events", path.display()));
        }
        FalcoEnd::Done
    }

    /// Waits without events until the time is up, a file changes or somebody asks to stop.
    fn wait(self, running: &mut Running<'_>) -> FalcoEnd {
        let web = self.settings.web.as_ref().and_then(|web| {
            Web::start(web, running.shown.clone())
                .map_err(|error| {
                    (self.log)(&format!("webserver: {}:{}: {error}", web.address, web.port));
                })
                .ok()
        });
        let mut watched = Watched::new(if self.settings.watches_files { &self.files } else { &[] });
        let begin = clock::now();
        let end = loop {
            if self.signals.stop().is_set() {
                break FalcoEnd::Done;
            }
            if self.seconds.is_some_and(|seconds| begin.elapsed() >= Duration::from_secs(seconds)) {
                break FalcoEnd::Done;
            }
            if watched.has_changed() || self.signals.take_reopen() {
                break FalcoEnd::Restart;
            }
            if let Some(end) = running.second(clock::epoch_ns(), 0, self.log) {
                break end;
            }
            std::thread::sleep(LOOK);
        };
        drop(web);
        end
    }
}

impl Running<'_> {
    /// Tries the rules on an event.
    fn event(&mut self, fields: &dyn Fields) {
        self.events += 1;
        self.matcher.matches(self.rules, fields, self.settings.matching, &mut self.matched);
        for position in &self.matched {
            self.alerts.of_rule(self.rules, *position, fields);
        }
    }

    /// What is done once a second of event time: drops and metrics.
    fn second(&mut self, now_ns: u64, dropped: u64, log: &mut dyn FnMut(&str)) -> Option<FalcoEnd> {
        self.metrics(now_ns);
        let asked = self.drops.check(now_ns, self.events, dropped)?;
        self.shown.events.store(self.events, Relaxed);
        self.shown.alerts.store(self.alerts.counts.total, Relaxed);
        let text = format!(
            "Falco internal: syscall event drop. {} system calls dropped in last second.",
            asked.dropped
        );
        if asked.log {
            log(&text);
        }
        if asked.alert {
            let number = |name: &str, n: u64| AlertField {
                name: name.to_string(),
                value: AlertValue::Text(n.to_string().into_bytes()),
            };
            let fields = [number("n_evts", self.events), number("n_drops", asked.dropped)];
            let rule = "Falco internal: syscall event drop";
            self.alerts.internal(now_ns, rule, Priority::Debug, &text, &fields);
        }
        if asked.exit {
            log("Exiting.");
            self.is_failed = true;
            return Some(FalcoEnd::Failed(text));
        }
        None
    }

    fn metrics(&mut self, now_ns: u64) {
        let Some(metrics) = &self.settings.metrics else { return };
        let interval_ns = metrics.interval_s.saturating_mul(1_000_000_000);
        if self.next_metrics_ns == 0 {
            self.next_metrics_ns = now_ns.saturating_add(interval_ns);
        }
        if now_ns < self.next_metrics_ns {
            return;
        }
        self.next_metrics_ns = now_ns.saturating_add(interval_ns);
        self.metrics_written += 1;
        let number = |name: &str, n: u64| AlertField {
            name: name.to_string(),
            value: AlertValue::Unsigned(n),
        };
        let mut fields = vec![
            number("falco.num_evts", self.events),
            number("falco.rules.matches_total", self.alerts.counts.total),
            number("scap.n_evts", self.events),
            number("scap.n_drops", 0),
        ];
        for (rule, count) in self.rules.rules().iter().zip(&self.alerts.counts.by_rule) {
            if *count > 0 {
                let name: String =
                    rule.name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
                fields.push(number(&format!("falco.rules.{name}"), *count));
            }
        }
        if metrics.as_rule {
            let rule = "Falco internal: metrics snapshot";
            self.alerts.internal(
                now_ns,
                rule,
                Priority::Informational,
                "Falco metrics snapshot",
                &fields,
            );
        }
    }

    fn done(self, end: FalcoEnd, notes: Vec<String>) -> FalcoDone {
        let counts = &self.alerts.counts;
        let mut statistics =
            format!("Events detected: {}\nRule counts by severity:\n", counts.total);
        for (priority, count) in
            Priority::ALL.iter().zip(counts.by_priority).filter(|(_, n)| *n > 0)
        {
            let _ = writeln!(statistics, "   {}: {count}", priority.short_name().to_uppercase());
        }
        statistics.push_str("Triggered rules by rule name:\n");
        for (rule, count) in self.rules.rules().iter().zip(&counts.by_rule).filter(|(_, n)| **n > 0)
        {
            let _ = writeln!(statistics, "   {}: {count}", rule.name);
        }
        let mut drops = String::new();
        if self.drops.detected > 0 {
            let (detected, acted) = (self.drops.detected, self.drops.acted);
            drops = format!(
                "Syscall event drop monitoring:\n   - event drop detected: {detected} occurrences\n   - num times \
                 actions taken: {acted}\n"
            );
        }
        FalcoDone {
            end,
            events: self.events,
            alerts: counts.total,
            statistics,
            drops,
            faults: self.alerts.faults,
            notes,
        }
    }
}

//! `gabion guard watch` and `enforce`: reads the instruments each 8 ms, takes the controller's step, and reports once a
//! second.
//!
//! A watch changes nothing on the host: no throttle is attached. What an instrument can't measure here is one line, and
//! nothing is concluded from it.

use super::enforce::{Enforcement, GuardEnforce};
use super::events::{EventLine, Events, start_writer};
use super::exposed::Exposed;
use super::files::counters_of;
use super::heads::HeadSampler;
use super::host_counters::interface_index;
use super::measuring::Measuring;
use super::probes::now_us;
use super::recorder::{RecordInto, Recorder};
use super::refusal::GuardRefusal;
use super::second::{GuardSecond, SecondSums};
use super::verdicts::GuardVerdicts;
use super::writer::Writer;
use crate::Sealer;
use crate::error::Error;
use gabion_guard::settings::PERIOD_US;
use gabion_guard::{Action, Sample, Settings, State, step};
use gabion_outputs::Outputs;
use gabion_probe::namespace;
use gabion_record::files::FileOpener;
use gabion_record::ledger::StageLedgers;
use gabion_record::logs::TimeNs;
use gabion_runtime::output::{Existing, make_folder};
use gabion_runtime::{StopFlag, sockets};
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What `gabion guard watch` is asked for.
#[derive(Clone, Debug)]
pub struct GuardWatch {
    /// What opens files for outputs.
    pub files: FileOpener,
    /// The interface that advice names, and whose packet heads are sampled in an incident.
    pub interface: Option<String>,
    /// The budget that advice names, percent.
    pub budget_percent: u8,
    /// The folder of `guard.json`.
    pub folder: Option<PathBuf>,
    /// The sealed log that events go into.
    pub sealer: Option<Sealer>,
    /// The recording.
    pub record: Option<PathBuf>,
    /// The whole time is recorded, not only that around incidents.
    pub records_all: bool,
    /// The socket at which metrics for Prometheus are served.
    pub metrics: Option<Arc<TcpListener>>,
    /// The file of the network namespace whose counters are read.
    pub netns: Option<PathBuf>,
    /// Ends after this many seconds.
    pub seconds: Option<u64>,
    /// What is throttled; nothing where the guard only watches.
    pub enforce: Option<GuardEnforce>,
    /// Ends when this is set.
    pub stop: StopFlag,
}

/// What happened while the guard watches.
#[derive(Debug)]
pub enum GuardNews<'a> {
    /// An instrument that is absent, and why.
    Absent(&'a str),
    /// A line about an incident, the throttle or the host.
    Incident(&'a str),
    /// What the last second was.
    Second(&'a GuardSecond),
}

/// How the watch ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardWatched {
    /// Incidents that began.
    pub incidents: u64,
    /// Control periods that came too late, and were taken together.
    pub late_periods: u64,
    /// What the throttle did; none without one.
    pub verdicts: Option<GuardVerdicts>,
    /// The throttle's packets, the events and the rows of the recording, each as a stage of the ledger: they balance.
    pub stages: StageLedgers,
}

/// A watch that runs.
struct Live<'a> {
    of: &'a GuardWatch,
    /// The interface of the lines: that which was named, or that which most packets of an incident come over.
    interface: Option<String>,
    /// When it began, on the clock of the wall.
    started: TimeNs,
    measuring: Measuring,
    recorder: Recorder,
    events: Writer<EventLine>,
    /// An event found no place on its way to a slow disk.
    has_lost_events: bool,
    state: State,
    throttle: Option<Enforcement>,
    heads: HeadSampler,
    exposed: Option<Exposed>,
    sums: SecondSums,
    done: GuardWatched,
}

impl GuardWatch {
    /// Watches until it is stopped, or its seconds are over. `is_reload` says whether the allow-list is to be read again.
    ///
    /// # Errors
    /// There is no softirq instrument here, an output can't be written, or a change of the host can't be made or undone.
    pub fn run(
        &self,
        is_reload: &dyn Fn() -> bool,
        take: &mut dyn FnMut(GuardNews<'_>),
    ) -> Result<GuardWatched, Error> {
        let exposed = self.metrics.clone().map(Exposed::open).transpose()?;
        let shows_devices = match &self.netns {
            Some(path) => {
                let failed = |source| Error::Namespace { path: path.clone(), source };
                namespace::enter_network(path).map_err(failed)?;
                // What is changed on a device is below /sys; without it only `--also` is refused.
                namespace::show_devices().is_ok()
            }
            None => true,
        };
        if let Some(interface) = &self.interface
            && interface_index(interface).is_none()
        {
            let source = GuardRefusal::NoInterface;
            return Err(Error::Guarded { interface: interface.clone(), source });
        }
        let changes = match &self.enforce {
            Some(enforce) => {
                Some(enforce.prepare(shows_devices, &mut |line| take(GuardNews::Incident(line)))?)
            }
            None => None,
        };
        let mut live = Live::start(self, exposed, take)?;
        let begun = match (&self.enforce, changes) {
            (Some(enforce), Some(changes)) => live.attach(enforce, changes, take),
            _ => Ok(()),
        };
        let ran = begun.and_then(|()| live.run(is_reload, take));
        // What was attached and changed is undone, whatever happened before.
        let ended = live.end(take);
        ran?;
        ended
    }

    fn is_over(&self, begin_us: u64) -> bool {
        let seconds = |s: u64| now_us().saturating_sub(begin_us) >= s.saturating_mul(1_000_000);
        self.seconds.is_some_and(seconds)
    }

    fn start_recording(
        &self,
        recorder: &mut Recorder,
        measuring: &Measuring,
        started: TimeNs,
    ) -> Result<(), Error> {
        let Some(path) = &self.record else { return Ok(()) };
        let (seconds, ns) = (started.0 / 1_000_000_000, started.0 % 1_000_000_000);
        let (started, budget) = (format!("{seconds}.{ns:09}"), self.budget_percent.to_string());
        // Other programs of the host can put their measurements on this clock.
        let monotonic = (measuring.monotonic_ns(0) / 1000).to_string();
        let mut head = vec![
            ("started", started.as_str()),
            ("monotonic_us", monotonic.as_str()),
            ("budget_percent", budget.as_str()),
        ];
        head.extend(self.interface.as_deref().map(|name| ("interface", name)));
        let cpus: Vec<String> =
            self.enforce.iter().flat_map(|e| &e.cpus).map(ToString::to_string).collect();
        let cpus = cpus.join(",");
        if !cpus.is_empty() {
            head.push(("cpus", &cpus));
        }
        recorder.write_to(RecordInto {
            files: &self.files,
            path,
            head: &head,
            columns: measuring.columns(),
            xdp_path: self.enforce.as_ref().map(|_| counters_of(path)),
            is_always: self.records_all,
        })
    }

    fn outputs(&self) -> Result<Outputs, Error> {
        let mut outputs = match &self.folder {
            Some(folder) => {
                make_folder(folder)
                    .map_err(|source| Error::Folder { path: folder.clone(), source })?;
                Outputs::for_guard(&self.files, folder, Existing::Append)?
            }
            None => Outputs::default(),
        };
        if let Some(sealer) = &self.sealer {
            outputs.add(gabion_outputs::guard_events::output(sealer.clone()));
        }
        Ok(outputs)
    }
}

impl<'a> Live<'a> {
    /// Starts the instruments and opens the outputs.
    fn start(
        of: &'a GuardWatch,
        exposed: Option<Exposed>,
        take: &mut dyn FnMut(GuardNews<'_>),
    ) -> Result<Live<'a>, Error> {
        let mut absent = Vec::new();
        let measuring = Measuring::start(&mut absent)?;
        let interface = of.interface.as_deref().and_then(interface_index);
        let heads = HeadSampler::load(interface, &mut absent);
        absent.iter().for_each(|line| take(GuardNews::Absent(line)));
        let started =
            TimeNs(gabion_runtime::clock::since_epoch().as_nanos().try_into().unwrap_or(0));
        let mut recorder = Recorder::new(measuring.gaps.len());
        of.start_recording(&mut recorder, &measuring, started)?;
        let settings = match of.enforce {
            Some(_) => Settings::enforce(of.budget_percent),
            None => Settings { budget_percent: of.budget_percent, ..Settings::watch() },
        };
        let mut live = Live {
            of,
            interface: of.interface.clone(),
            started,
            measuring,
            recorder,
            events: start_writer(of.outputs()?, of.sealer.clone())?,
            has_lost_events: false,
            state: State::new(settings),
            throttle: None,
            heads,
            exposed,
            sums: SecondSums::default(),
            done: GuardWatched::default(),
        };
        if let Some(exposed) = &mut live.exposed {
            exposed.instruments(&live.measuring, live.heads.is_here());
            exposed.edge(live.events.edge());
            live.recorder.edge().into_iter().for_each(|edge| exposed.edge(edge));
        }
        Ok(live)
    }

    /// Attaches the throttle, makes the changes that were asked for, and gives the controller its priority.
    fn attach(
        &mut self,
        enforce: &GuardEnforce,
        changes: super::host_changes::HostChanges,
        take: &mut dyn FnMut(GuardNews<'_>),
    ) -> Result<(), Error> {
        let mut say = |line: &str| take(GuardNews::Incident(line));
        let throttle = Enforcement::start(enforce, changes, &self.measuring.softirqs, &mut say)?;
        self.state.take_rung(throttle.rung());
        say(match throttle.rung() {
            gabion_guard::Rung::Generic => {
                "the throttle is attached by generic XDP, which drops after the kernel has made a buffer of each packet: \
                 it may not hold the budget"
            }
            _ => "the throttle is attached by native XDP",
        });
        let throttle = self.throttle.insert(throttle);
        let made = throttle.change_host(enforce, &mut say);
        match gabion_probe::priority::become_real_time() {
            Ok(how) => throttle.scheduling = how.name(),
            Err(e) => say(&format!("{e}")),
        }
        made
    }

    fn events(&self) -> Events<'_> {
        Events {
            started: Some(self.started),
            interface: self.interface.as_deref(),
            budget_percent: self.of.budget_percent,
        }
    }

    /// Takes a control period each 8 ms until it is over.
    fn run(
        &mut self,
        is_reload: &dyn Fn() -> bool,
        take: &mut dyn FnMut(GuardNews<'_>),
    ) -> Result<(), Error> {
        sockets::notify("READY=1");
        let begin_us = now_us();
        let mut due_us = begin_us;
        while !self.of.stop.is_set() && !self.of.is_over(begin_us) {
            due_us = due_us.saturating_add(PERIOD_US);
            let wait = due_us.saturating_sub(now_us());
            std::thread::sleep(Duration::from_micros(wait));
            if let Some(throttle) = &mut self.throttle {
                throttle.heartbeat(now_us());
                if is_reload() {
                    let news = match throttle.read_allow_list() {
                        Ok(()) => "the allow-list was read again".to_owned(),
                        Err(e) => format!("{e}: the allow-list stays as it was"),
                    };
                    take(GuardNews::Incident(&news));
                }
            }
            for sample in self.measuring.read_samples(&mut self.recorder) {
                self.period(sample, take)?;
            }
            let late = now_us().saturating_sub(due_us) / PERIOD_US;
            self.done.late_periods += late;
            due_us = due_us.saturating_add(late * PERIOD_US);
        }
        Ok(())
    }

    /// Takes the sample of a control period.
    fn period(
        &mut self,
        mut sample: Sample,
        take: &mut dyn FnMut(GuardNews<'_>),
    ) -> Result<(), Error> {
        let mut row = self.throttle.as_mut().map(|throttle| throttle.measure(&mut sample));
        sample.heads =
            self.heads.follow_incident(self.state.incident().is_some(), now_us(), &mut |line| {
                take(GuardNews::Incident(line));
            });
        let (setpoint, actions, reason) = step(&sample, &mut self.state);
        if let (Some(throttle), Some(row)) = (&mut self.throttle, &mut row) {
            let began = self.state.incident().map(|i| self.measuring.monotonic_ns(i.began_ms));
            throttle.set(&setpoint, began, row);
            self.recorder.push_xdp(row);
        }
        for action in actions {
            if self.of.interface.is_none() && matches!(action, Action::Begin(_)) {
                self.find_interface();
            }
            if let (Some(throttle), Action::Change { to, .. }) = (&mut self.throttle, &action) {
                let mut say = |line: &str| take(GuardNews::Incident(line));
                if let Err(e) = throttle.change(*to, &mut say) {
                    self.state.take_rung(gabion_guard::Rung::Advise);
                    say(&format!("{e}: the guard only advises now"));
                }
            }
            self.done.incidents += u64::from(matches!(action, Action::Begin(_)));
            self.report(sample.at_ms, &action, take)?;
        }
        let is_incident = self.state.incident().is_some();
        self.recorder.advance(sample.at_ms * 1000, is_incident)?;
        if let Some(exposed) = &mut self.exposed {
            exposed.period(&sample, &setpoint, is_incident);
        }
        if let Some(mut second) = self.sums.add_sample(&sample, &self.measuring.host, is_incident) {
            second.throttle = self.throttle.as_ref().map(|t| t.second(&setpoint));
            second.reason = reason.to_string();
            let incident = self.state.incident().cloned();
            second.incident = incident.map(|incident| self.events().line(&incident));
            self.measuring.limit_detail(&mut second);
            self.measuring.host.name_devices(&self.measuring.softirqs, &mut second);
            if let Some(throttle) = self.throttle.as_ref().filter(|t| !t.is_attached()) {
                return Err(throttle.is_gone());
            }
            if let Some(exposed) = &mut self.exposed {
                exposed.second(&second, self.done.incidents, self.throttle.as_ref());
            }
            take(GuardNews::Second(&second));
            sockets::notify("WATCHDOG=1");
        }
        Ok(())
    }

    /// Finds the interface that an incident is about, where none was named.
    fn find_interface(&mut self) {
        let found = self.measuring.host.busiest_interface(&self.measuring.softirqs);
        if found.as_ref().map(|(_, name)| name) != self.interface.as_ref() {
            let index = found.as_ref().map(|(index, _)| *index);
            // Why heads can't be sampled is an attribute of the incident.
            self.heads = HeadSampler::load(index, &mut Vec::new());
            self.interface = found.map(|(_, name)| name);
        }
    }

    /// Writes an event, and prints what is new about an incident.
    fn report(
        &mut self,
        at_ms: u64,
        action: &Action,
        take: &mut dyn FnMut(GuardNews<'_>),
    ) -> Result<(), Error> {
        let events = self.events();
        let text = match action {
            Action::Begin(incident) => {
                let moment = events.moment(incident.began_ms);
                format!("incident {} began at {moment}", incident.number)
            }
            Action::Name(_, incident) => events.line(incident),
            Action::End(incident) => format!("ended: {}", events.line(incident)),
            Action::Change { from, to, why } => format!("rung {from} is left for {to}: {why}"),
            Action::CannotHold(why) => format!("the budget can't be held: {why}"),
        };
        let event = events.action(at_ms, action);
        take(GuardNews::Incident(&text));
        if !self.events.send(event)? && !self.has_lost_events {
            self.has_lost_events = true;
            let line = "events wait for a disk that takes none: further ones are counted and lost";
            take(GuardNews::Incident(line));
        }
        Ok(())
    }

    /// Ends the incident, undoes what was changed, detaches, and closes the files.
    fn end(mut self, take: &mut dyn FnMut(GuardNews<'_>)) -> Result<GuardWatched, Error> {
        let reported = match self.state.finish() {
            Some(incident) => self.report(0, &Action::End(incident), take),
            None => Ok(()),
        };
        let mut undone = Ok(());
        if let Some(throttle) = self.throttle.take() {
            let (verdicts, ledger, result) =
                throttle.finish(&mut |line| take(GuardNews::Incident(line)));
            self.done.verdicts = Some(verdicts);
            self.done.stages.add("throttle", None, &ledger);
            undone = result;
        }
        reported?;
        let written = self.recorder.finish()?;
        for (stage, ledger) in written.into_iter().chain([self.events.finish()?]) {
            let lost = ledger.shed_total().items;
            if lost > 0 {
                take(GuardNews::Incident(&format!("{stage}: {lost} are not written")));
            }
            self.done.stages.add(stage, None, &ledger);
        }
        undone?;
        self.done
            .stages
            .balance()
            .map_err(|(stage, e)| Error::Unbalanced { stage, what: e.into() })?;
        Ok(self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_watch_is_bounded() {
        let watch = GuardWatch {
            files: gabion_runtime::files::direct_opener(),
            interface: None,
            budget_percent: 30,
            folder: None,
            sealer: None,
            record: None,
            records_all: false,
            metrics: None,
            netns: None,
            enforce: None,
            seconds: Some(1),
            stop: StopFlag::new(),
        };
        assert!(!watch.is_over(now_us()));
        assert!(watch.is_over(0));
    }
}

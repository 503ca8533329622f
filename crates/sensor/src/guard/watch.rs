//! `gabion guard watch`: reads the instruments each 8 ms, takes the controller's step, and reports once a second.
//!
//! Nothing of it changes the host: no throttle is attached. What an instrument can't measure here is one line, and
//! nothing is concluded from it.

use super::enforce::{Enforcement, GuardEnforce, GuardVerdicts};
use super::events::Events;
use super::files::counters_of;
use super::host;
use super::host_counters::{HostCounters, interface_index};
use super::probes::{Measured, Probe, now_us, try_grace_period};
use super::recorder::Recorder;
use super::second::{GuardSecond, SecondSums};
use crate::error::Error;
use gabion_guard::recording::{Bucket, Column, Columns};
use gabion_guard::settings::{BUCKET_US, PERIOD_US};
use gabion_guard::{Action, CpuSample, Sample, Settings, State, step};
use gabion_outputs::Outputs;
use gabion_probe::softirq::{self, Instruments};
use gabion_record::logs::TimeNs;
use gabion_runtime::StopFlag;
use gabion_runtime::output::{Existing, make_folder};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Buckets between now and the newest that is read: a handler adds its time to the buckets that it crossed when it ends.
const LAG: u64 = 4;
/// Microseconds between two reads of the counters in /proc.
const HOST_EACH_US: u64 = 100_000;
/// Softirq runs a second on a CPU from which the detail costs too much, and below which it is put back.
const DETAIL_RUNS: (u64, u64) = (50_000, 25_000);

/// What `gabion guard watch` is asked for.
#[derive(Clone, Debug)]
pub struct GuardWatch {
    /// The interface that advice names.
    pub interface: Option<String>,
    /// The budget that advice names, percent.
    pub budget_percent: u8,
    /// The folder of `guard.json`.
    pub folder: Option<PathBuf>,
    /// The recording.
    pub record: Option<PathBuf>,
    /// The whole time is recorded, not only that around incidents.
    pub records_all: bool,
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
    /// A line about an incident: it began, its cause is known, it ended.
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
}

/// The instruments of a watch.
struct Measuring {
    softirqs: Instruments,
    gaps: Vec<Option<Probe>>,
    grace: Option<Probe>,
    host: HostCounters,
    /// The next bucket that is read, on the monotonic clock in buckets.
    next_epoch: u64,
    first_epoch: u64,
    host_read_us: u64,
    /// Softirq runs of each CPU a second ago, and whether its detail is off.
    runs: Vec<(u32, bool)>,
}

impl GuardWatch {
    /// Watches until it is stopped, or its seconds are over. `is_reload` says whether the allow-list is to be read again.
    ///
    /// # Errors
    /// There is no softirq instrument here, or an output can't be written.
    pub fn run(
        &self,
        is_reload: &dyn Fn() -> bool,
        take: &mut dyn FnMut(GuardNews<'_>),
    ) -> Result<GuardWatched, Error> {
        if let Some(path) = &self.netns {
            enter(path)?;
        }
        if let Some(interface) = &self.interface
            && interface_index(interface).is_none()
        {
            let why = "there is no such interface: ip link lists them".to_owned();
            return Err(Error::Guarded { interface: interface.clone(), why });
        }
        if let Some(enforce) = &self.enforce {
            Enforcement::check(enforce)?;
        }
        let mut absent = Vec::new();
        let mut measuring = Measuring::start(&mut absent)?;
        absent.iter().for_each(|line| take(GuardNews::Absent(line)));
        let started =
            TimeNs(gabion_runtime::clock::since_epoch().as_nanos().try_into().unwrap_or(0));
        let mut recorder = Recorder::new(measuring.gaps.len());
        self.start_recording(&mut recorder, &measuring, started)?;
        let mut outputs = match &self.folder {
            Some(folder) => {
                make_folder(folder)
                    .map_err(|source| Error::Folder { path: folder.clone(), source })?;
                Outputs::for_guard(folder, Existing::Append)?
            }
            None => Outputs::default(),
        };
        let mut events = Events {
            to: &mut outputs,
            started: Some(started),
            interface: self.interface.as_deref(),
            budget_percent: self.budget_percent,
        };
        let settings = match self.enforce {
            Some(_) => Settings::enforce(self.budget_percent),
            None => Settings { budget_percent: self.budget_percent, ..Settings::watch() },
        };
        let mut state = State::new(settings);
        let mut throttle = match &self.enforce {
            Some(enforce) => Some(Enforcement::start(enforce, &measuring.softirqs)?),
            None => None,
        };
        if let Some(throttle) = &throttle {
            state.take_rung(throttle.rung());
            take(GuardNews::Incident("the throttle is attached"));
        }
        let mut done = GuardWatched::default();
        let mut sums = SecondSums::default();
        let begin_us = now_us();
        let mut due_us = begin_us;
        while !self.stop.is_set() && !self.is_over(begin_us) {
            due_us = due_us.saturating_add(PERIOD_US);
            let wait = due_us.saturating_sub(now_us());
            std::thread::sleep(Duration::from_micros(wait));
            if let Some(throttle) = &mut throttle {
                throttle.heartbeat(now_us());
                if is_reload() {
                    let news = match throttle.read_allow_list() {
                        Ok(()) => "the allow-list was read again".to_owned(),
                        Err(e) => format!("{e}: the allow-list stays as it was"),
                    };
                    take(GuardNews::Incident(&news));
                }
            }
            for mut sample in measuring.read(&mut recorder) {
                let mut row = throttle.as_mut().map(|throttle| throttle.measure(&mut sample));
                let (setpoint, actions, reason) = step(&sample, &mut state);
                if let (Some(throttle), Some(row)) = (&mut throttle, &mut row) {
                    let began = state.incident().map(|i| measuring.monotonic_ns(i.began_ms));
                    throttle.set(&setpoint, began, row);
                    recorder.push_xdp(row);
                }
                for action in actions {
                    if let (Some(throttle), Action::Change { to, .. }) = (&mut throttle, &action)
                        && let Err(e) = throttle.change(*to)
                    {
                        state.take_rung(gabion_guard::Rung::Advise);
                        take(GuardNews::Incident(&format!("{e}: the guard only advises now")));
                    }
                    done.incidents += u64::from(matches!(action, Action::Begin(_)));
                    events.action(sample.at_ms, &action);
                    report(&action, &events, take);
                }
                recorder.advance(sample.at_ms * 1000, state.incident().is_some())?;
                if let Some(mut second) = sums.take(&sample, &measuring.host) {
                    second.throttle = throttle.as_ref().map(|t| t.line(&setpoint));
                    second.reason = reason.to_string();
                    second.incident = state.incident().map(|incident| events.line(incident));
                    measuring.limit_detail(&mut second);
                    measuring.host.name_devices(&measuring.softirqs, &mut second);
                    take(GuardNews::Second(&second));
                    events.to.flush_lines();
                }
            }
            let late = now_us().saturating_sub(due_us) / PERIOD_US;
            done.late_periods += late;
            due_us = due_us.saturating_add(late * PERIOD_US);
        }
        if let Some(incident) = state.finish() {
            let action = Action::End(incident);
            events.action(0, &action);
            report(&action, &events, take);
        }
        done.verdicts = throttle.map(Enforcement::finish);
        recorder.finish()?;
        outputs.flush()?;
        Ok(done)
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
        let monotonic = (measuring.first_epoch * BUCKET_US).to_string();
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
        recorder.write_to(path, &head, measuring.columns(), self.records_all)?;
        match &self.enforce {
            Some(_) => recorder.write_xdp_to(&counters_of(path)),
            None => Ok(()),
        }
    }
}

/// Moves this thread, and the threads that it starts, into a network namespace.
fn enter(path: &Path) -> Result<(), Error> {
    let moved = std::fs::File::open(path).and_then(|file| {
        Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
    });
    moved.map_err(|source| Error::Namespace { path: path.to_path_buf(), source })
}

/// Prints what is new about an incident.
fn report(action: &Action, events: &Events<'_>, take: &mut dyn FnMut(GuardNews<'_>)) {
    let text = match action {
        Action::Begin(incident) => {
            format!("incident {} began at {}", incident.number, events.moment(incident.began_ms))
        }
        Action::Name(_, incident) => events.line(incident),
        Action::End(incident) => format!("ended: {}", events.line(incident)),
        Action::Change { from, to, why } => format!("rung {from} is left for {to}: {why}"),
        Action::CannotHold(why) => format!("the budget can't be held: {why}"),
    };
    take(GuardNews::Incident(&text));
}

impl Measuring {
    fn start(absent: &mut Vec<String>) -> Result<Measuring, Error> {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let cpus = host::cpus(&online).unwrap_or(1);
        let softirqs = Instruments::attach(cpus)?;
        absent.extend(softirqs.absent().iter().map(ToString::to_string));
        let gaps = (0..softirqs.cpus())
            .map(|cpu| match Probe::of_gaps(cpu) {
                Ok(probe) => Some(probe),
                Err(e) => {
                    absent.push(format!("gaps of CPU {cpu}: {e}"));
                    None
                }
            })
            .collect();
        let grace = match try_grace_period() {
            Ok(()) => Some(Probe::of_grace_periods()?),
            Err(why) => {
                absent.push(why.to_string());
                None
            }
        };
        let first_epoch = softirq::epoch_now();
        let runs = (0..softirqs.cpus()).map(|cpu| (softirqs.runs(cpu), false)).collect();
        let host = HostCounters::open(absent);
        Ok(Measuring {
            softirqs,
            gaps,
            grace,
            host,
            next_epoch: first_epoch,
            first_epoch,
            host_read_us: 0,
            runs,
        })
    }

    /// The columns that a recording of these instruments has.
    fn columns(&self) -> Columns {
        let mut columns = Columns::default();
        let mut all = vec![
            Column::RxUs,
            Column::RxN,
            Column::RxKsdUs,
            Column::TxUs,
            Column::TimerUs,
            Column::TimerN,
            Column::SchedUs,
            Column::SchedN,
            Column::RcuUs,
            Column::RcuN,
            Column::BlockUs,
            Column::TaskletUs,
            Column::Packets,
            Column::Polls,
            Column::Full,
            Column::NapiThreadUs,
        ];
        if self.gaps.iter().any(Option::is_some) {
            all.push(Column::UserGapUs);
        }
        if self.grace.is_some() {
            all.push(Column::MembarrierUs);
        }
        all.extend(self.host.columns());
        all.into_iter().for_each(|column| columns.insert(column));
        columns
    }

    /// A moment of the watch on the monotonic clock.
    fn monotonic_ns(&self, at_ms: u64) -> u64 {
        (self.first_epoch * BUCKET_US).saturating_add(at_ms * 1000).saturating_mul(1000)
    }

    /// Reads all buckets whose time is over, as samples of control periods.
    fn read(&mut self, recorder: &mut Recorder) -> Vec<Sample> {
        let end = softirq::epoch_now().saturating_sub(LAG);
        // The ring of the programs holds a second: what is older is lost, as if its rows were missing.
        let oldest = end.saturating_sub(softirq::BUCKETS as u64 - 2 * LAG);
        self.next_epoch = self.next_epoch.max(oldest);
        let mut samples: Vec<Sample> = Vec::new();
        // A period has two buckets: an odd one waits for its pair.
        while self.next_epoch + 1 < end {
            let since = self.next_epoch.saturating_sub(self.first_epoch);
            let mut sample = Sample::at(since * BUCKET_US / 1000);
            self.add_measured(&mut sample, recorder);
            for epoch in self.next_epoch..self.next_epoch + 2 {
                self.add_rows(epoch, &mut sample, recorder);
            }
            self.next_epoch += 2;
            samples.push(sample);
        }
        samples
    }

    /// Adds the rows of a bucket.
    fn add_rows(&mut self, epoch: u64, sample: &mut Sample, recorder: &mut Recorder) {
        let at_us = epoch.saturating_sub(self.first_epoch) * BUCKET_US;
        let is_due = now_us().saturating_sub(self.host_read_us) >= HOST_EACH_US;
        for cpu in 0..self.gaps.len() {
            let Ok(number) = u16::try_from(cpu) else { continue };
            let mut row = Bucket::new(at_us, number);
            fill(&self.softirqs.bucket(cpu, epoch).unwrap_or_default(), &mut row);
            if self.gaps.get(cpu).is_some_and(Option::is_some) {
                row.set(Column::UserGapUs, 0);
            }
            if cpu == 0 && self.grace.is_some() {
                row.set(Column::MembarrierUs, 0);
            }
            self.host.add(&mut row, is_due);
            // A gap of 0 µs is no measurement of the controller: its probe reports gaps when they end.
            sample.add_bucket(&row);
            recorder.push(row);
        }
        sample.cpus.iter_mut().for_each(|cpu| cpu.gap_us = None);
        if is_due {
            self.host_read_us = now_us();
        }
    }

    /// Adds gaps and grace periods that ended since the last period.
    fn add_measured(&mut self, sample: &mut Sample, recorder: &mut Recorder) {
        let begin_us = self.first_epoch * BUCKET_US;
        let limit = |us: u64| u32::try_from(us).unwrap_or(u32::MAX);
        for (cpu, probe) in self.gaps.iter_mut().enumerate() {
            let mut largest: Option<u32> = None;
            let Some(probe) = probe else { continue };
            probe.take(&mut |Measured { began_us, us }| {
                largest = Some(largest.unwrap_or(0).max(limit(us)));
                if us > 500 {
                    let at = began_us.saturating_sub(begin_us);
                    recorder.amend(at, cpu, Column::UserGapUs, limit(us));
                }
            });
            if let Ok(cpu) = u16::try_from(cpu) {
                sample.cpus.push(CpuSample { cpu, ended_gap_us: largest, ..CpuSample::default() });
            }
        }
        if let Some(probe) = &mut self.grace {
            probe.take(&mut |Measured { began_us, us }| {
                sample.grace_us = Some(sample.grace_us.unwrap_or(0).max(limit(us)));
                let at = began_us.saturating_sub(begin_us);
                recorder.amend(at, 0, Column::MembarrierUs, limit(us));
            });
        }
    }

    /// Leaves the detail out on CPUs whose softirqs are so frequent that it costs too much, and puts it back.
    fn limit_detail(&mut self, second: &mut GuardSecond) {
        for (cpu, (before, is_off)) in self.runs.iter_mut().enumerate() {
            let now = self.softirqs.runs(cpu);
            let runs = u64::from(now.wrapping_sub(*before));
            *before = now;
            let wants_off = if *is_off { runs >= DETAIL_RUNS.1 } else { runs > DETAIL_RUNS.0 };
            if wants_off != *is_off {
                *is_off = wants_off;
                self.softirqs.set_detail(cpu, !wants_off);
            }
            if let Some(cpu) = second.cpus.iter_mut().find(|c| usize::from(c.cpu) == cpu) {
                cpu.runs = runs;
                cpu.is_without_detail = *is_off;
            }
        }
    }
}

/// Fills a row from a bucket of the programs.
fn fill(bucket: &softirq::Bucket, row: &mut Bucket) {
    // HI 0, TIMER 1, NET_TX 2, NET_RX 3, BLOCK 4, IRQ_POLL 5, TASKLET 6, SCHED 7, HRTIMER 8, RCU 9.
    let [_, timer, tx, rx, block, _, tasklet, sched, hrtimer, rcu] = bucket.time_ns;
    let [_, timer_n, _, rx_n, _, _, _, sched_n, _, rcu_n] = bucket.runs;
    for (column, value) in [
        (Column::RxUs, rx / 1000),
        (Column::RxN, rx_n),
        (Column::RxKsdUs, bucket.rx_ksoftirqd_ns / 1000),
        (Column::TxUs, tx / 1000),
        (Column::TimerUs, timer.saturating_add(hrtimer) / 1000),
        (Column::TimerN, timer_n),
        (Column::SchedUs, sched / 1000),
        (Column::SchedN, sched_n),
        (Column::RcuUs, rcu / 1000),
        (Column::RcuN, rcu_n),
        (Column::BlockUs, block / 1000),
        (Column::TaskletUs, tasklet / 1000),
        (Column::Packets, bucket.packets),
        (Column::Polls, bucket.polls),
        (Column::Full, bucket.full_polls),
        (Column::NapiThreadUs, bucket.napi_thread_ns / 1000),
    ] {
        row.set(column, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_what_the_programs_counted() {
        let bucket = softirq::Bucket {
            time_ns: [1, 2000, 3000, 4_000_000, 5000, 6, 7000, 8000, 9000, 10_000],
            runs: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
            packets: 64,
            ..Default::default()
        };
        let mut row = Bucket::new(0, 0);
        fill(&bucket, &mut row);
        let of = |column| row.get(column);
        assert_eq!((of(Column::RxUs), of(Column::RxN)), (Some(4000), Some(3)));
        assert_eq!((of(Column::TimerUs), of(Column::RcuUs)), (Some(11), Some(10)));
        assert_eq!((of(Column::Packets), of(Column::UserGapUs)), (Some(64), None));
    }

    #[test]
    fn the_time_of_a_watch_is_bounded() {
        let watch = GuardWatch {
            interface: None,
            budget_percent: 30,
            folder: None,
            record: None,
            records_all: false,
            netns: None,
            enforce: None,
            seconds: Some(1),
            stop: StopFlag::new(),
        };
        assert!(!watch.is_over(now_us()));
        assert!(watch.is_over(0));
    }
}

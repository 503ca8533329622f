//! `gabion guard enforce`: the throttle of an interface, set by the controller each 8 ms.
//!
//! Its program drops nothing 1 s after the last heartbeat, and ends with this process: its link has no other holder.

use super::allow_list::{AllowError, GuardAllowed, read_allow_file};
use super::device_counters::DeviceCounters;
use super::host_changes::{GuardAlso, HostChanges, wanted};
use super::host_counters::interface_index;
use super::refusal::GuardRefusal;
use super::verdicts::{GuardVerdicts, counted, ledger_of, row_of};
use crate::error::Error;
use gabion_guard::recording::{XdpColumn, XdpRow};
use gabion_guard::settings::PERIODS_A_SECOND;
use gabion_guard::{CpuPackets, PacketSample, Rung, Sample, Setpoint};
use gabion_probe::attach::XdpMode;
use gabion_probe::limits::VICTIMS_MAX;
use gabion_probe::softirq::Instruments;
use gabion_probe::throttle::{self, FlowLimit, HEARTBEAT_NS, Throttle, Verdicts};
use gabion_record::ledger::Ledger;
use rustix::thread::{MembarrierCommand, membarrier};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Bursts of new flows that a prefix, and the host, may have, in milliseconds of their limit.
const DEPTHS_MS: (u64, u64) = (20, 20);

/// What `gabion guard enforce` throttles.
#[derive(Clone, Debug)]
pub struct GuardEnforce {
    /// The interface.
    pub interface: String,
    /// What is never dropped.
    pub allowed: Vec<GuardAllowed>,
    /// A file with more of it, which is read again on SIGHUP.
    pub allow_file: Option<PathBuf>,
    /// The CPUs whose time the budget is about. If there is none, each CPU that packets come to has a budget of its own.
    pub cpus: Vec<u16>,
    /// Begins with generic XDP.
    pub is_generic: bool,
    /// The interface of the default route may be throttled.
    pub takes_default_route: bool,
    /// What is changed on the host in addition, and undone.
    pub also: Vec<GuardAlso>,
    /// The folder of the records by which it is undone.
    pub undo_folder: PathBuf,
}

impl GuardEnforce {
    /// Checks the interface and what is to be changed, and undoes what guards left that were killed.
    pub(super) fn prepare(
        &self,
        shows_devices: bool,
        say: &mut dyn FnMut(&str),
    ) -> Result<HostChanges, Error> {
        let interface = Enforcement::check(self)?;
        let changes = HostChanges::begin(&self.undo_folder, say)?;
        if self.also.is_empty() {
            return Ok(changes);
        }
        let refuse = |source| Error::Guarded { interface: self.interface.clone(), source };
        let shown = std::fs::read_to_string(format!("/sys/class/net/{}/ifindex", self.interface));
        let is_same = shown.is_ok_and(|text| text.trim().parse() == Ok(interface));
        if !shows_devices || !is_same {
            return Err(refuse(GuardRefusal::OtherNamespace));
        }
        changes.check(&self.wanted().map_err(refuse)?)?;
        Ok(changes)
    }

    /// The files that `--also` writes, and their values.
    fn wanted(&self) -> Result<Vec<(PathBuf, String)>, GuardRefusal> {
        let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        wanted(&self.also, &self.interface, &self.cpus, &super::host::listed_cpus(&text))
    }
}

/// The CPUs to which packets of an interface are steered (RPS); none where they are not, or where `/sys` shows another
/// network namespace.
fn steered(name: &str, index: u32) -> Vec<u16> {
    let folder = std::path::Path::new("/sys/class/net").join(name);
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    if read(folder.join("ifindex")).trim().parse() != Ok(index) {
        return Vec::new();
    }
    let queues = std::fs::read_dir(folder.join("queues")).into_iter().flatten();
    let masks = queues.filter_map(|entry| Some(read(entry.ok()?.path().join("rps_cpus"))));
    let mut cpus: Vec<u16> = masks.flat_map(|mask| super::undo_folder::cpus_of(&mask)).collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The line about more CPUs than one throttle may watch.
fn too_many(cpus: &[u16]) -> Option<String> {
    let most = VICTIMS_MAX;
    (cpus.len() > most).then(|| {
        format!(
            "packets are steered to {} CPUs: they share the budgets of the first {most}, and the time of these is measured; \
             --cpu names others",
            cpus.len()
        )
    })
}

/// Packets by CPU and by groups of prefixes, as they were when they were asked for last.
#[derive(Debug, Default)]
struct Before {
    /// Of each CPU: packets that arrived, and packets that passed.
    by_cpu: BTreeMap<u16, (u64, u64)>,
    of_prefixes: Vec<u64>,
    /// Periods of the second that has begun.
    periods: usize,
}

impl Before {
    /// What came to each CPU since then. Where CPUs share their budgets, each has a part of what was admitted: another CPU
    /// may have dropped the rest.
    fn grown(
        &mut self,
        now: impl Iterator<Item = (u16, u64, u64)>,
        sharing: &[u16],
    ) -> Vec<CpuPackets> {
        let mut all = Vec::new();
        for (cpu, offered, admitted) in now {
            let before = self.by_cpu.insert(cpu, (offered, admitted)).unwrap_or_default();
            let (offered, admitted) =
                (offered.wrapping_sub(before.0), admitted.wrapping_sub(before.1));
            all.push(CpuPackets { cpu, offered, admitted });
        }
        if sharing.is_empty() {
            return all;
        }
        let sum: u64 = all.iter().map(|of| of.admitted).fold(0, u64::wrapping_add);
        let part = sum / sharing.len().clamp(1, VICTIMS_MAX) as u64;
        let mut all: Vec<CpuPackets> = sharing
            .iter()
            .map(|cpu| CpuPackets { cpu: *cpu, offered: part, admitted: part })
            .collect();
        all.sort_unstable_by_key(|of| of.cpu);
        all
    }

    /// The most new flows that a group of prefixes began in the second that this period ends, if it ends one.
    fn busiest_prefix(&mut self, now: impl FnOnce() -> Vec<u64>) -> Option<u64> {
        self.periods += 1;
        if self.periods < PERIODS_A_SECOND {
            return None;
        }
        self.periods = 0;
        let before = std::mem::replace(&mut self.of_prefixes, now());
        let grown = self.of_prefixes.iter().zip(&before).map(|(now, was)| now.wrapping_sub(*was));
        grown.max()
    }
}

/// The throttle while it is attached.
pub(super) struct Enforcement {
    throttle: Throttle,
    name: String,
    interface: u32,
    /// The operator named the CPUs.
    is_named: bool,
    cpus: Vec<u16>,
    allow_file: Option<PathBuf>,
    given: Vec<GuardAllowed>,
    allowed: Vec<GuardAllowed>,
    before: Option<XdpRow>,
    counts_before: Before,
    /// When the incident began, on the monotonic clock in nanoseconds; 0 without one.
    incident_ns: u64,
    rung: Rung,
    changes: HostChanges,
    /// The device's own counters when the throttle was attached.
    device: DeviceCounters,
    /// The last heartbeat on the monotonic clock, and the longest time between two, in microseconds.
    beat_us: Option<u64>,
    longest_us: u64,
    /// How the kernel schedules the controller.
    pub(super) scheduling: &'static str,
}

impl Enforcement {
    /// The interface, where it is there and may be throttled. It is asked first, so that nothing is done in vain.
    pub(super) fn check(o: &GuardEnforce) -> Result<u32, Error> {
        let refuse = |source| Error::Guarded { interface: o.interface.clone(), source };
        let interface =
            interface_index(&o.interface).ok_or_else(|| refuse(GuardRefusal::NoInterface))?;
        if super::host::default_routes().contains(&o.interface) && !o.takes_default_route {
            return Err(refuse(GuardRefusal::DefaultRoute));
        }
        let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
        let online = super::host::listed_cpus(&text);
        if let Some(cpu) = o.cpus.iter().find(|cpu| !online.contains(cpu)) {
            return Err(refuse(GuardRefusal::OfflineCpu(*cpu)));
        }
        if o.cpus.len() > VICTIMS_MAX {
            return Err(refuse(GuardRefusal::TooManyCpus));
        }
        Ok(interface)
    }

    /// Loads and attaches the throttle. Nothing is dropped before the first heartbeat.
    pub(super) fn start(
        o: &GuardEnforce,
        changes: HostChanges,
        softirqs: &Instruments,
        say: &mut dyn FnMut(&str),
    ) -> Result<Enforcement, Error> {
        let interface = Enforcement::check(o)?;
        // Where packets are steered to other CPUs, those bear the work; else the CPU that sees a packet does.
        let cpus = if o.cpus.is_empty() && !o.is_generic {
            steered(&o.interface, interface)
        } else {
            o.cpus.clone()
        };
        too_many(&cpus).iter().for_each(|line| say(line));
        let mut all = Enforcement {
            throttle: Throttle::load(Some(softirqs), &cpus)?,
            name: o.interface.clone(),
            interface,
            is_named: !o.cpus.is_empty(),
            cpus,
            allow_file: o.allow_file.clone(),
            given: o.allowed.clone(),
            allowed: Vec::new(),
            before: None,
            counts_before: Before::default(),
            incident_ns: 0,
            rung: if o.is_generic { Rung::Generic } else { Rung::Native },
            changes,
            device: DeviceCounters::default(),
            beat_us: None,
            longest_us: 0,
            scheduling: "SCHED_OTHER",
        };
        all.read_allow_list()?;
        let mode = if o.is_generic { XdpMode::Generic } else { XdpMode::Native };
        all.throttle.attach(interface, mode)?;
        all.device = DeviceCounters::of_interface(&o.interface);
        Ok(all)
    }

    /// Makes the changes that were asked for. They come after the throttle, as `threaded` needs the NAPI that XDP brings.
    pub(super) fn change_host(
        &mut self,
        o: &GuardEnforce,
        say: &mut dyn FnMut(&str),
    ) -> Result<(), Error> {
        let refuse = |source| Error::Guarded { interface: o.interface.clone(), source };
        self.changes.after_attaching(say)?;
        Ok(self.changes.make(&o.wanted().map_err(refuse)?, say)?)
    }

    /// The rung at the start.
    pub(super) fn rung(&self) -> Rung {
        self.rung
    }

    /// Reads the allow-list again. A list that is empty or can't be read leaves the one in force.
    pub(super) fn read_allow_list(&mut self) -> Result<(), Error> {
        let mut wanted = self.given.clone();
        if let Some(path) = &self.allow_file {
            wanted.extend(read_allow_file(path)?);
        }
        if wanted.is_empty() {
            return Err(Error::AllowList(AllowError::Empty));
        }
        for entry in self.allowed.iter().filter(|entry| !wanted.contains(entry)) {
            self.throttle.forbid(entry.0);
        }
        for entry in wanted.iter().filter(|entry| !self.allowed.contains(entry)) {
            self.throttle.allow(entry.0)?;
        }
        self.allowed = wanted;
        Ok(())
    }

    /// Adds the throttle's counters to a sample, and leaves the CPUs out that the budget is not about.
    pub(super) fn measure(&mut self, sample: &mut Sample) -> XdpRow {
        if !self.cpus.is_empty() {
            sample.cpus.retain(|cpu| self.cpus.contains(&cpu.cpu));
        }
        let of_cpus: Vec<(u16, Verdicts)> = self.throttle.verdicts_by_cpu().collect();
        let mut all = Verdicts::default();
        of_cpus.iter().for_each(|(_, verdicts)| all.add(verdicts));
        let row = row_of(sample.at_ms * 1000, &all);
        let mut packets = PacketSample::between(self.before.as_ref(), &row);
        self.before = Some(row);
        let by_cpu = of_cpus.iter().map(|(cpu, verdicts)| {
            let (received, passed, _) = verdicts.received_passed_shed();
            (*cpu, received, passed)
        });
        packets.by_cpu = self.counts_before.grown(by_cpu, &self.cpus);
        let of_prefixes = || self.throttle.new_flows_by_prefixes().collect();
        packets.busiest_prefix = self.counts_before.busiest_prefix(of_prefixes);
        sample.packets = Some(packets);
        row
    }

    /// Puts the controller's set point into force. `incident_ns` is the begin of the incident on the monotonic clock.
    pub(super) fn set(&mut self, to: &Setpoint, incident_ns: Option<u64>, row: &mut XdpRow) {
        self.incident_ns = incident_ns.unwrap_or(0);
        let small = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
        let limit = |rate: Option<u64>, depth| rate.map(|rate| FlowLimit::per_second(rate, depth));
        // In an incident flows that are not known share half of the budget.
        let unknown = if self.incident_ns > 0 { to.budget_ns / 2 } else { to.budget_ns };
        self.throttle.set_point(&throttle::Setpoint {
            budget_ns: small(to.budget_ns),
            unknown_budget_ns: small(unknown),
            cost_ns: small(to.cost_ns),
            incident_ns: self.incident_ns,
            prefix_limit: limit(to.new_flows_of_prefix, DEPTHS_MS.0),
            flow_limit: limit(to.new_flows, DEPTHS_MS.1),
            ignores_exempt: to.ignores_exempt,
        });
        row.set(XdpColumn::CostNs, to.cost_ns);
        row.set(XdpColumn::Rung, to.rung.number().into());
        row.set(XdpColumn::NewFlowLimit, to.new_flows.unwrap_or(0));
    }

    /// Lets the program drop packets for another second.
    pub(super) fn heartbeat(&mut self, now_us: u64) {
        if self.rung == Rung::Advise {
            return;
        }
        let since = self.beat_us.map_or(0, |before| now_us.saturating_sub(before));
        self.longest_us = self.longest_us.max(since);
        self.beat_us = Some(now_us);
        self.throttle.heartbeat(now_us.saturating_mul(1000));
    }

    /// Takes another rung. Why it can't be taken, where it can't.
    pub(super) fn change(&mut self, to: Rung, say: &mut dyn FnMut(&str)) -> Result<(), Error> {
        if let Err(e) = self.changes.before_detaching(say) {
            say(&e.to_string());
        }
        self.throttle.detach();
        self.rung = Rung::Advise;
        // Without a throttle there are no heartbeats, and none is late.
        self.beat_us = None;
        let mode = match to {
            Rung::Observe | Rung::Advise => return Ok(()),
            Rung::Native => XdpMode::Native,
            Rung::Generic => XdpMode::Generic,
        };
        if !self.is_named {
            // Generic XDP runs after the steering, on the CPU that does the work.
            self.cpus = match to {
                Rung::Native => steered(&self.name, self.interface),
                Rung::Observe | Rung::Generic | Rung::Advise => Vec::new(),
            };
            if self.cpus.is_empty() {
                self.throttle.feed_own()
            } else {
                self.throttle.feed_victims(&self.cpus)
            }
        }
        self.throttle.attach(self.interface, mode)?;
        self.rung = to;
        Ok(())
    }

    /// Whether the kernel still has the throttle on the interface.
    pub(super) fn is_attached(&self) -> bool {
        self.rung == Rung::Advise
            || gabion_probe::attach::xdp_mode(self.interface).is_ok_and(|mode| mode.is_some())
    }

    /// The error where it has not.
    pub(super) fn is_gone(&self) -> Error {
        let is_there = interface_index(&self.name) == Some(self.interface);
        let source = if is_there { GuardRefusal::Detached } else { GuardRefusal::Removed };
        Error::Guarded { interface: self.name.clone(), source }
    }

    /// What the throttle did so far, and what it is set to.
    pub(super) fn second(&self, setpoint: &Setpoint) -> GuardVerdicts {
        GuardVerdicts {
            rung: self.rung.name(),
            budget_ns: setpoint.budget_ns,
            cost_ns: setpoint.cost_ns,
            new_flows: setpoint.new_flows,
            new_flows_of_prefix: setpoint.new_flows_of_prefix,
            longest_heartbeat_us: self.longest_us,
            scheduling: self.scheduling,
            ..counted(&self.throttle.verdicts())
        }
    }

    /// The verdicts so far.
    pub(super) fn verdicts(&self) -> Verdicts {
        self.throttle.verdicts()
    }

    /// Undoes the changes of the host and detaches the throttle. What it did with its packets, as a stage of the ledger
    /// too, and whether all was undone.
    pub(super) fn finish(
        mut self,
        say: &mut dyn FnMut(&str),
    ) -> (GuardVerdicts, Ledger, Result<(), Error>) {
        let first = self.changes.before_detaching(say);
        self.throttle.detach();
        let rest = self.changes.end(say);
        // A program that began before may still be running on another CPU: its counters are whole after a grace period.
        let _ = membarrier(MembarrierCommand::Global);
        let found = self.throttle.verdicts();
        let device = DeviceCounters::of_interface(&self.name).since(&self.device);
        let lapsed = self.longest_us.saturating_mul(1000) > HEARTBEAT_NS;
        if lapsed {
            say(&format!(
                "the throttle dropped nothing for a while, as its controller was {} ms late",
                self.longest_us / 1000
            ));
        }
        let verdicts = GuardVerdicts {
            rung: self.rung.name(),
            longest_heartbeat_us: self.longest_us,
            scheduling: self.scheduling,
            device_received: device.received,
            device_dropped: device.dropped,
            ..counted(&found)
        };
        (verdicts, ledger_of(&found), first.and(rest).map_err(Error::from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_cpus_than_a_throttle_may_watch_are_one_line() {
        let cpus: Vec<u16> = (0..17).collect();
        assert_eq!(too_many(&cpus[..16]), None);
        let line = too_many(&cpus).unwrap();
        assert!(line.contains("17 CPUs") && line.contains("first 16"), "{line}");
    }

    #[test]
    fn packets_grow_by_cpu_and_sharing_cpus_have_a_part_each() {
        let mut before = Before::default();
        let of = |cpu, offered, admitted| CpuPackets { cpu, offered, admitted };
        before.grown([(0, 100, 60)].into_iter(), &[]);
        let now = [(0, 150, 80), (2, 7, 7)];
        assert_eq!(before.grown(now.into_iter(), &[]), [of(0, 50, 20), of(2, 7, 7)]);
        let now = [(0, 160, 90), (2, 17, 17)];
        assert_eq!(before.grown(now.into_iter(), &[3, 1]), [of(1, 10, 10), of(3, 10, 10)]);
    }

    #[test]
    fn the_busiest_prefix_is_known_once_a_second() {
        let mut before = Before::default();
        let mut found = Vec::new();
        for n in 1..=3 * PERIODS_A_SECOND as u64 {
            found.extend(before.busiest_prefix(|| vec![n, 3 * n, 1]));
        }
        // What came before the first second is not known.
        assert_eq!(found, [375, 375]);
    }
}

//! `gabion guard enforce`: the throttle of an interface, set by the controller each 8 ms.
//!
//! Its program drops nothing 1 s after the last heartbeat, and ends with this process: its link has no other holder.

use super::allow_list::{AllowError, GuardAllowed, read_allow_file};
use super::host_counters::interface_index;
use crate::error::Error;
use gabion_guard::recording::{XdpColumn, XdpRow};
use gabion_guard::{PacketSample, Rung, Sample, Setpoint};
use gabion_probe::attach::XdpMode;
use gabion_probe::softirq::Instruments;
use gabion_probe::throttle::{self, FlowLimit, Throttle, Verdict, Verdicts};
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
    /// The CPUs whose time the budget is about; all of the first 16 if there is none.
    pub cpus: Vec<u16>,
    /// Begins with generic XDP.
    pub is_generic: bool,
    /// The interface of the default route may be throttled.
    pub takes_default_route: bool,
}

/// The throttle while it is attached.
pub(super) struct Enforcement {
    throttle: Throttle,
    interface: u32,
    cpus: Vec<u16>,
    allow_file: Option<PathBuf>,
    given: Vec<GuardAllowed>,
    allowed: Vec<GuardAllowed>,
    before: Option<XdpRow>,
    /// When the incident began, on the monotonic clock in nanoseconds; 0 without one.
    incident_ns: u64,
    rung: Rung,
}

impl Enforcement {
    /// The interface, where it is there and may be throttled. It is asked first, so that nothing is done in vain.
    pub(super) fn check(o: &GuardEnforce) -> Result<u32, Error> {
        let refuse =
            |why: &str| Error::Guarded { interface: o.interface.clone(), why: why.to_owned() };
        let interface = interface_index(&o.interface)
            .ok_or_else(|| refuse("there is no such interface: ip link lists them"))?;
        if super::host::default_routes().contains(&o.interface) && !o.takes_default_route {
            return Err(refuse(
                "the default route goes over it, and a mistake would cut this host off: add --even-default-route",
            ));
        }
        Ok(interface)
    }

    /// Loads and attaches the throttle. Nothing is dropped before the first heartbeat.
    pub(super) fn start(o: &GuardEnforce, softirqs: &Instruments) -> Result<Enforcement, Error> {
        let interface = Enforcement::check(o)?;
        let cpus = match o.cpus.is_empty() {
            true => (0..softirqs.cpus().min(throttle::VICTIMS_MAX) as u16).collect(),
            false => o.cpus.clone(),
        };
        let mut all = Enforcement {
            throttle: Throttle::load(Some(softirqs), &cpus)?,
            interface,
            cpus,
            allow_file: o.allow_file.clone(),
            given: o.allowed.clone(),
            allowed: Vec::new(),
            before: None,
            incident_ns: 0,
            rung: if o.is_generic { Rung::Generic } else { Rung::Native },
        };
        all.read_allow_list()?;
        let mode = if o.is_generic { XdpMode::Generic } else { XdpMode::Native };
        all.throttle.attach(interface, mode)?;
        Ok(all)
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
        sample.cpus.retain(|cpu| self.cpus.contains(&cpu.cpu));
        let row = row_of(sample.at_ms * 1000, &self.throttle.verdicts());
        sample.packets = Some(PacketSample::between(self.before.as_ref(), &row));
        self.before = Some(row);
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
        });
        row.set(XdpColumn::CostNs, to.cost_ns);
        row.set(XdpColumn::Rung, to.rung.number().into());
        row.set(XdpColumn::NewFlowLimit, to.new_flows.unwrap_or(0));
    }

    /// Lets the program drop packets for another second.
    pub(super) fn heartbeat(&self, now_us: u64) {
        if self.rung != Rung::Advise {
            self.throttle.heartbeat(now_us.saturating_mul(1000));
        }
    }

    /// Takes another rung. Why it can't be taken, where it can't.
    pub(super) fn change(&mut self, to: Rung) -> Result<(), Error> {
        self.throttle.detach();
        self.rung = Rung::Advise;
        if to == Rung::Generic {
            self.throttle.attach(self.interface, XdpMode::Generic)?;
            self.rung = to;
        }
        Ok(())
    }

    /// A line for the second that ended.
    pub(super) fn line(&self, setpoint: &Setpoint) -> String {
        let verdicts = self.throttle.verdicts();
        let (received, passed, shed) = verdicts.received_passed_shed();
        let mut line = format!(
            "throttle: {}, {received} packets: {passed} passed, {shed} dropped, charged {} ns each",
            self.rung, setpoint.cost_ns
        );
        if let Some(rate) = setpoint.new_flows {
            line.push_str(&format!(", {rate} new flows a second"));
        }
        line
    }

    /// Detaches the throttle. What it did with its packets.
    pub(super) fn finish(mut self) -> GuardVerdicts {
        self.throttle.detach();
        counted(&self.throttle.verdicts())
    }
}

/// What the throttle did with all packets of its interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardVerdicts {
    /// Packets that arrived.
    pub received: u64,
    /// Packets that passed.
    pub passed: u64,
    /// Packets that were dropped, by reason.
    pub dropped: Vec<(&'static str, u64)>,
}

/// A row of a recording from the throttle's verdicts.
fn row_of(at_us: u64, verdicts: &Verdicts) -> XdpRow {
    let sum = |of: &[Verdict]| of.iter().map(|v| verdicts.of(*v)).fold(0u64, u64::wrapping_add);
    let mut row = XdpRow::new(at_us);
    for (column, value) in [
        (XdpColumn::Pass, sum(&[Verdict::Known, Verdict::New, Verdict::Expired])),
        (XdpColumn::Allow, sum(&[Verdict::Allowed])),
        (XdpColumn::DropBudget, sum(&[Verdict::ShedMeasured])),
        (XdpColumn::DropCharge, sum(&[Verdict::ShedCharged])),
        (XdpColumn::DropPackets, 0),
        (XdpColumn::DropNew, sum(&[Verdict::ShedPrefix, Verdict::ShedAll])),
        (XdpColumn::NewFlows, verdicts.new_flows),
        (XdpColumn::Other, sum(&[Verdict::Unparsed])),
        (
            XdpColumn::Exempt,
            sum(&[Verdict::Arp, Verdict::NeighborDiscovery, Verdict::IcmpError, Verdict::Fragment]),
        ),
    ] {
        row.set(column, value);
    }
    row
}

fn counted(verdicts: &Verdicts) -> GuardVerdicts {
    let (received, passed, _) = verdicts.received_passed_shed();
    let dropped = Verdict::ALL.into_iter().filter(|verdict| verdict.is_shed());
    let dropped = dropped.map(|verdict| (verdict.name(), verdicts.of(verdict))).collect();
    GuardVerdicts { received, passed, dropped }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdicts() -> Verdicts {
        let mut verdicts = Verdicts { new_flows: 7, ..Verdicts::default() };
        for (n, packets) in verdicts.packets.iter_mut().enumerate() {
            *packets = 1 << n;
        }
        verdicts.bytes = verdicts.packets.map(|n| n * 60);
        verdicts
    }

    #[test]
    fn packets_that_arrived_passed_or_were_dropped_for_a_reason() {
        let all = counted(&verdicts());
        let dropped: u64 = all.dropped.iter().map(|(_, n)| n).sum();
        assert_eq!(all.received, all.passed + dropped);
        assert_eq!(all.dropped.last(), Some(&("budget_measured", 1 << 12)));
    }

    #[test]
    fn a_row_has_all_packets_once() {
        let row = row_of(0, &verdicts());
        let sample = PacketSample::between(None, &row);
        assert_eq!(sample.offered(), (1 << 13) - 1);
        assert_eq!(sample.dropped_limit, (1 << 9) + (1 << 10));
        assert_eq!((sample.allowed, sample.new_flows), (1 << 5, 7));
        assert_eq!(sample.exempt, 0b11111);
    }
}

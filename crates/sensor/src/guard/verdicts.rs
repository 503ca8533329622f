//! What the throttle decided about its packets: counts for people and programs, a row of a recording, and a stage of the
//! ledger.

use gabion_guard::recording::{XdpColumn, XdpRow};
use gabion_probe::throttle::{Verdict, Verdicts};
use gabion_record::json::Json;
use gabion_record::ledger::{Ledger, ShedReason};
use std::fmt;

/// What the throttle did with all packets of its interface, and what it is set to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardVerdicts {
    /// The rung: `native`, `generic` or `advise`.
    pub rung: &'static str,
    /// Packets that arrived.
    pub received: u64,
    /// Packets that passed.
    pub passed: u64,
    /// Packets that were dropped, by reason.
    pub dropped: Vec<(&'static str, u64)>,
    /// Packets that passed, by reason.
    pub admitted: Vec<(&'static str, u64)>,
    /// Packet work that is allowed in a window of 4 ms, in nanoseconds.
    pub budget_ns: u64,
    /// What each packet is charged, in nanoseconds.
    pub cost_ns: u64,
    /// The limit of new flows a second.
    pub new_flows: Option<u64>,
    /// The limit of new flows a second of each source prefix.
    pub new_flows_of_prefix: Option<u64>,
    /// Packets of flows that were not in the table of flows.
    pub of_new_flows: u64,
    /// The longest time between two heartbeats, in microseconds.
    pub longest_heartbeat_us: u64,
    /// How the kernel schedules the controller: `SCHED_FIFO`, `SCHED_DEADLINE`, or `SCHED_OTHER` like all programs.
    pub scheduling: &'static str,
    /// Packets that the device received since the throttle was attached; known at the end.
    pub device_received: u64,
    /// Packets that the device itself dropped since then; known at the end.
    pub device_dropped: u64,
}

impl GuardVerdicts {
    /// All packets that were dropped.
    #[must_use]
    pub fn all_dropped(&self) -> u64 {
        self.dropped.iter().map(|(_, n)| n).sum()
    }
}

impl GuardVerdicts {
    /// Writes them as the member `throttle`.
    pub(super) fn write_json(&self, j: &mut Json) {
        j.open_key("throttle");
        j.field_plain("rung", self.rung);
        j.number("received", self.received);
        j.number("passed", self.passed);
        for (name, all) in [("dropped", &self.dropped), ("admitted", &self.admitted)] {
            j.open_key(name);
            all.iter().for_each(|(verdict, n)| j.number(verdict, *n));
            j.close();
        }
        j.number("of_new_flows", self.of_new_flows);
        j.number("budget_ns", self.budget_ns);
        j.number("cost_ns", self.cost_ns);
        for (name, limit) in [
            ("new_flow_limit", self.new_flows),
            ("new_flow_limit_of_prefix", self.new_flows_of_prefix),
        ] {
            if let Some(rate) = limit {
                j.number(name, rate);
            }
        }
        j.number("longest_heartbeat_us", self.longest_heartbeat_us);
        j.field_plain("scheduling", self.scheduling);
        j.close();
    }

    /// All of it as it is at the end: two lines, or one object of JSON.
    #[must_use]
    pub fn end_text(&self, is_json: bool) -> String {
        if is_json {
            let mut j = Json::new();
            self.write_end(&mut j);
            return j.into_line();
        }
        let dropped: Vec<String> =
            self.dropped.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        format!(
            "detached: {} packets, {} passed, dropped: {}\ndevice: {} packets received since, {} dropped by itself\n",
            self.received,
            self.passed,
            dropped.join(", "),
            self.device_received,
            self.device_dropped
        )
    }

    fn write_end(&self, j: &mut Json) {
        j.open();
        j.field_plain("event", "detached");
        self.write_json(j);
        j.number("device_received", self.device_received);
        j.number("device_dropped", self.device_dropped);
        j.close();
    }
}

impl fmt::Display for GuardVerdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "throttle: {}, {} packets: {} passed, {} dropped, charged {} ns each",
            self.rung,
            self.received,
            self.passed,
            self.all_dropped(),
            self.cost_ns
        )?;
        match self.new_flows {
            Some(rate) => write!(f, ", {rate} new flows a second"),
            None => Ok(()),
        }
    }
}

/// A row of a recording from the throttle's verdicts.
pub(super) fn row_of(at_us: u64, verdicts: &Verdicts) -> XdpRow {
    let sum = |of: &[Verdict]| {
        of.iter().map(|v| verdicts.count_of_verdict(*v)).fold(0u64, u64::wrapping_add)
    };
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

/// The verdicts as counts by name.
pub(super) fn counted(verdicts: &Verdicts) -> GuardVerdicts {
    let (received, passed, _) = verdicts.received_passed_shed();
    let named = |verdict: Verdict| (verdict.name(), verdicts.count_of_verdict(verdict));
    let (dropped, admitted): (Vec<Verdict>, Vec<Verdict>) =
        Verdict::ALL.into_iter().partition(|verdict| verdict.is_shed());
    GuardVerdicts {
        received,
        passed,
        dropped: dropped.into_iter().map(named).collect(),
        admitted: admitted.into_iter().map(named).collect(),
        of_new_flows: verdicts.new_flows,
        ..GuardVerdicts::default()
    }
}

/// The reason for which a verdict sheds a packet; none for those that pass.
fn shed_reason(verdict: Verdict) -> Option<ShedReason> {
    Some(match verdict {
        Verdict::ShedPrefix => ShedReason::PrefixLimit,
        Verdict::ShedAll => ShedReason::NewFlowLimit,
        Verdict::ShedCharged => ShedReason::BudgetCharged,
        Verdict::ShedMeasured => ShedReason::BudgetMeasured,
        _ => return None,
    })
}

/// The verdicts as a stage of the ledger. The program decides about a packet at once, so none is in flight.
pub(super) fn ledger_of(verdicts: &Verdicts) -> Ledger {
    let mut ledger = Ledger::new();
    for (verdict, bytes) in Verdict::ALL.into_iter().zip(verdicts.bytes) {
        let packets = verdicts.count_of_verdict(verdict);
        ledger.receive(packets, bytes);
        match shed_reason(verdict) {
            Some(reason) => ledger.shed(reason, packets, bytes),
            None => ledger.pass(packets, bytes),
        }
    }
    ledger
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_guard::PacketSample;

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
        let ledger = ledger_of(&verdicts());
        assert!(ledger.balance().is_ok());
        assert_eq!(ledger.received().items, all.received);
        assert_eq!(ledger.shed_total().items, all.all_dropped());
        assert_eq!(ledger.shed_for(ShedReason::BudgetMeasured).bytes, (1 << 12) * 60);
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

//! What the operator decides, and the constants of the controller with the measurements that they come from.

/// A bucket of the instruments, and a window of the throttle, in microseconds: 4 ms, as in the measurements of 2004.
pub const BUCKET_US: u64 = 4000;
/// A control period, in microseconds: two buckets.
pub const PERIOD_US: u64 = 8000;
/// Control periods in a second.
pub const PERIODS_A_SECOND: usize = 125;

/// Share of a CPU in packet work from which it is hot. It was checked on recorded floods: an incident is declared 8 to
/// 32 ms after the first packet, and none in calm or guarded series.
pub const HOT: f64 = 0.5;
/// Periods that are looked at for heat, and how many of them have to be hot.
pub const HOT_PERIODS: (usize, usize) = (2, 3);
/// Share below which a CPU has cooled.
pub const COOL: f64 = 0.25;
/// Periods below it that end an incident: 0.5 s, so that bursts of 100 ms stay one incident.
pub const COOL_PERIODS: u32 = 63;

/// New flows per packet from which packets are a flood of new flows. A flood with one new flow in 10 packets reads 0.14
/// to 0.20, old flows 0.03, traffic of one flow below 0.001.
pub const NEW_FLOW_RATIO: f64 = 0.05;
/// The ratio below which a cause that was named so is taken back: half of it, so that it does not change with noise.
pub const NEW_FLOW_RATIO_LEFT: f64 = NEW_FLOW_RATIO / 2.0;
/// And how many times the calm rate the new flows have to be.
pub const NEW_FLOWS_TIMES_CALM: f64 = 4.0;
/// And how many there have to be a second.
pub const NEW_FLOWS_LEAST: f64 = 1000.0;
/// Share of one flow in the packets that makes it the cause.
pub const ONE_FLOW: f64 = 0.5;
/// Packet rate, as a multiple of the calm rate, up to which the packets are not more than usual.
pub const USUAL_RATE: f64 = 2.0;
/// Cost per packet, as a multiple of the calm cost, from which packets are dear.
pub const DEAR: f64 = 3.0;
/// Fill of a table from which it is looked at.
pub const TABLE_FILL: f64 = 0.5;
/// Seconds to a full table below which new flows are limited.
pub const TABLE_SECONDS: f64 = 10.0;
/// Seconds over which a table that is about to be full may fill at most.
pub const TABLE_SPREAD_S: u64 = 60;
/// Fill of a table from which new flows use it. A calm host has a dozen neighbours of 1,024.
pub const TABLE_IN_USE: f64 = 0.1;
/// Seconds over which a table in use may fill at most, always.
pub const TABLE_CEILING_S: u64 = 10;

/// Periods of an incident before evidence for its cause counts: the first 0.5 s, in which every flow is new to the
/// table of flows once.
pub const SETTLING_PERIODS: u64 = 62;
/// Periods over which evidence for a cause has to hold: 1 s.
pub const EVIDENCE_PERIODS: usize = PERIODS_A_SECOND;

/// Gap of a user program that harms it, in microseconds. Calm hosts and guarded floods show up to 15 ms.
pub const GAP_HARM_US: u32 = 20_000;
/// Such gaps within a second that make an incident: the third largest of 250 buckets is their 99th percentile.
pub const GAPS_HARMFUL: usize = 3;
/// Share of a vector, or of steal, in a second that is named as the cause of gaps.
pub const NAMED_SHARE: f64 = 0.10;

/// Packets from which the cost per packet is known.
pub const COST_PACKETS: u64 = 100;
/// Weight of the newest measurement in the estimate of the cost.
pub const COST_WEIGHT: f64 = 0.2;
/// The first estimate, in nanoseconds per packet.
pub const COST_START_NS: f64 = 2000.0;
/// The least and the largest estimate, in nanoseconds per packet. Measured: 900 to 3,400.
pub const COST_NS: (f64, f64) = (200.0, 50_000.0);

/// The least limit of new flows a second for a host, and for a source prefix.
pub const NEW_FLOW_LIMITS: (u64, u64) = (2000, 500);

/// Periods over which the effect of the throttle is judged, and how many of them have to be without effect. Asking for
/// consecutive periods misses a throttle by measured time alone, whose longest run is 17.
pub const EFFECT_PERIODS: (usize, usize) = (25, 50);
/// Periods of a moving mean: 40 ms.
pub const MEAN_PERIODS: usize = 5;
/// Packets offered in a period, as a mean, below which the effect is not judged.
pub const EFFECT_OFFERED: f64 = 200.0;
/// Points above the budget at which a throttle that drops half of the packets has no effect.
pub const EFFECT_POINTS: f64 = 0.10;
/// Share of the budget that the interface's own charge has to be for a CPU's packet work to be taken for its own: without
/// it a flood on another interface made the guarded one drop a third of its packets. The throttle has the same rule.
pub(crate) const OWN_CHARGE: f64 = 0.25;
/// Or share of the CPU's packets that came over the interface: packets that became expensive at once are charged too
/// little to be a quarter of the budget.
pub(crate) const OWN_PACKETS: f64 = 0.75;
/// Share of packets that the guard never drops from which it can't hold its budget.
pub const EXEMPT_SHARE: f64 = 0.5;
/// The share below which that flood is over.
pub(crate) const EXEMPT_LEFT: f64 = EXEMPT_SHARE / 2.0;
/// Share of the budget below which it has no use to drop what may be dropped in such a flood.
pub(crate) const OTHERS_SMALL: f64 = 0.5;
/// Seconds after which a rung that was left is tried again: of calm, or also of the same incident where the rung was left
/// for a flood of packets that are never dropped. Attaching interrupts some drivers, so a flood that comes and goes must
/// not do it each time.
pub const RETURN_AFTER_S: u64 = 10;

/// Periods with an offered load below the budget after which the limit of new flows recovers: 2 s.
pub const RECOVERY_PERIODS: u32 = 250;
/// Time constant of the calm baselines, in seconds.
pub const CALM_SECONDS: f64 = 60.0;
/// Seconds after an incident that do not count as calm.
pub const CALM_AFTER_S: u64 = 10;

/// Whether the guard only observes, or throttles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `gabion guard watch`: observes, and attaches no throttle.
    Watch,
    /// `gabion guard enforce`: throttles.
    Enforce,
}

/// What the operator decides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Whether the guard throttles.
    pub mode: Mode,
    /// Share of a CPU that packet work may use, percent: 5 to 90.
    pub budget_percent: u8,
}

impl Settings {
    /// Observes, with the default budget for advice.
    #[must_use]
    pub const fn watch() -> Settings {
        Settings { mode: Mode::Watch, budget_percent: 30 }
    }

    /// Throttles to this budget, in percent, which is brought into the range of 5 to 90.
    #[must_use]
    pub fn enforce(budget_percent: u8) -> Settings {
        Settings { mode: Mode::Enforce, budget_percent: budget_percent.clamp(5, 90) }
    }

    /// The budget as a share.
    #[must_use]
    pub fn budget(&self) -> f64 {
        f64::from(self.budget_percent) / 100.0
    }

    /// The budget of a window of 4 ms, in nanoseconds.
    #[must_use]
    pub fn budget_ns(&self) -> u64 {
        u64::from(self.budget_percent) * BUCKET_US * 10
    }
}

//! Decides what the guard does about a packet flood, and names the cause of softirq and RCU starvation.
//!
//! The input is samples of counters with their time; the output is set points, actions with their reasons, and one line
//! of diagnosis. The crate has no clock, no I/O and no unsafe code: the same samples give the same answers.
//!
//! ```
//! use gabion_guard::{Sample, Settings, State, step};
//! let mut state = State::new(Settings::watch());
//! let (setpoint, actions, reason) = step(&Sample::at(0), &mut state);
//! assert!(actions.is_empty(), "{reason}");
//! assert_eq!(setpoint.budget_ns, 1_200_000); // 30 % of 4 ms
//! ```
//!
//! * [`step()`] takes the [`Sample`] of a control period of 8 ms and returns the [`Setpoint`] of the throttle, the
//!   [`Action`]s and the reason.
//! * [`recording`] reads and writes recordings: rows of 4 ms, as CSV with a head, compressed with zstd.
//! * [`diagnose`] plays a recording through [`step()`] and returns its incidents with their causes.
//! * [`strips`] holds what a report draws, in bins on one axis of time.
//! * [`undo`] holds the records by which changes of the host are undone.
#![forbid(unsafe_code)]

mod baseline;
mod cause;
mod control;
mod cpu;
mod diagnosis;
mod evidence;
mod exempt;
mod heads;
mod incident;
mod ladder;
pub mod limits;
mod own;
mod periods;
pub mod recording;
mod sample;
pub mod settings;
mod step;
pub mod strips;
pub mod undo;

pub use cause::{Cause, Table, Vector};
pub use control::Setpoint;
pub use diagnosis::{Diagnosis, Gap, SetAt, diagnose, quantile};
pub use heads::PacketHead;
pub use incident::{CpuTotals, Incident, Totals, Verdict};
pub use ladder::Rung;
pub use periods::Periods;
pub use sample::{CpuPackets, CpuSample, Heads, PacketSample, Sample, TableFill};
pub use settings::{Mode, Settings};
pub use step::{Action, Reason, State, step};

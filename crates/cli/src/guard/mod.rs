//! `gabion guard`: what starves user programs on a CPU, and why.

mod enforce;
mod printer;
mod report;
mod status;
mod watch;

use crate::exit::{Exit, Fault};
use clap::Subcommand;

/// What to do about softirq and RCU starvation.
#[derive(Debug, Subcommand)]
pub(crate) enum GuardVerb {
    /// Show packet work, gaps of user programs and grace periods live, and name the cause of each incident
    Watch(watch::WatchOptions),
    /// Throttle packet work of an interface to a budget of CPU time; allowed and known senders are spared
    Enforce(enforce::EnforceOptions),
    /// Show the state of a running guard; without one, what the kernel holds and what is left to undo
    Status(status::StatusOptions),
    /// Read a recording: print a line for each incident, and write a page and guard.json
    Report(report::ReportOptions),
}

/// Runs the verb.
pub(crate) fn run(verb: &GuardVerb) -> Result<Exit, Fault> {
    match verb {
        GuardVerb::Watch(o) => watch::run(o),
        GuardVerb::Enforce(o) => enforce::run(o),
        GuardVerb::Status(o) => Ok(status::run(o)),
        GuardVerb::Report(o) => report::run(o),
    }
}

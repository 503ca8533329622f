//! `gabion guard`: what starves user programs on a CPU, and why.

mod report;

use crate::exit::{Exit, Fault};
use clap::Subcommand;

/// What to do about softirq and RCU starvation.
#[derive(Debug, Subcommand)]
pub(crate) enum GuardVerb {
    /// Read a recording: print a line for each incident, and write a page and guard.json
    Report(report::ReportOptions),
}

/// Runs the verb.
pub(crate) fn run(verb: &GuardVerb) -> Result<Exit, Fault> {
    match verb {
        GuardVerb::Report(o) => report::run(o),
    }
}

//! `gabion guard enforce`: packet work of an interface gets a part of a CPU, and the flood pays the rest.

use super::watch::{LiveOptions, show, signals};
use crate::exit::{Exit, Fault};
use crate::{standard_output, values};
use clap::Args;
use gabion_sensor::guard::{AllowError, GuardAllowed, GuardEnforce, GuardWatch};
use std::path::PathBuf;

/// Options of `guard enforce`.
#[derive(Debug, Args)]
pub(crate) struct EnforceOptions {
    /// The interface whose packets are throttled
    #[arg(long, value_name = "IF", value_parser = values::text())]
    interface: String,
    /// What is never dropped: an address, a prefix (10.0.0.0/8) or a port (tcp/22); repeatable
    #[arg(long, value_name = "WHAT", value_parser = allowed)]
    allow: Vec<GuardAllowed>,
    /// A file with more of it, one a line; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    allow_file: Option<PathBuf>,
    /// A CPU whose time the budget is about (repeatable); all of the first 16 if none is named
    #[arg(long = "cpu", value_name = "N", value_parser = values::number::<u16>(0, 65_535))]
    cpus: Vec<u16>,
    /// Use generic XDP from the start, which is half as effective and works on every interface
    #[arg(long)]
    generic: bool,
    /// Throttle the interface of the default route, too
    #[arg(long)]
    even_default_route: bool,
    #[command(flatten)]
    common: LiveOptions,
}

/// An entry of the allow-list.
fn allowed(text: &str) -> Result<GuardAllowed, AllowError> {
    text.parse()
}

/// Runs the verb.
pub(super) fn run(o: &EnforceOptions) -> Result<Exit, Fault> {
    if o.allow.is_empty() && o.allow_file.is_none() {
        return Err(Fault::usage(format!("guard enforce: {}", AllowError::Empty)));
    }
    let signals = signals()?;
    let watch = GuardWatch {
        interface: Some(o.interface.clone()),
        enforce: Some(GuardEnforce {
            interface: o.interface.clone(),
            allowed: o.allow.clone(),
            allow_file: o.allow_file.clone(),
            cpus: o.cpus.clone(),
            is_generic: o.generic,
            takes_default_route: o.even_default_route,
        }),
        ..o.common.watch(&signals)
    };
    let done = watch.run(&|| signals.take_reopen(), &mut |news| show(&news, o.common.json))?;
    if let Some(verdicts) = &done.verdicts
        && !o.common.json
    {
        let dropped: Vec<String> =
            verdicts.dropped.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
        standard_output::line(format_args!(
            "detached: {} packets, {} passed, dropped: {}",
            verdicts.received,
            verdicts.passed,
            dropped.join(", ")
        ));
    }
    Ok(Exit::Done)
}

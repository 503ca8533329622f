//! `gabion guard enforce`: packet work of an interface gets a part of a CPU, and the flood pays the rest.

use super::printer::Printer;
use super::watch::{LiveOptions, Printed, close, finish, show, signals};
use crate::exit::{Exit, Fault};
use crate::{standard_output, values};
use clap::Args;
use gabion_sensor::guard::{
    AllowError, GuardAllowed, GuardAlso, GuardEnforce, GuardStatus, GuardWatch,
};
use std::path::PathBuf;

/// Options of `guard enforce`.
#[derive(Debug, Args)]
pub(crate) struct EnforceOptions {
    /// The interface whose packets are throttled
    #[arg(long, value_name = "IF", value_parser = values::text())]
    interface: String,
    /// Never drop this (one is needed, here or in --allow-file): an address, a prefix (10.0.0.0/8), a port (tcp/22); repeatable
    #[arg(long, value_name = "WHAT", value_parser = allowed)]
    allow: Vec<GuardAllowed>,
    /// A file with more of these, one on each line; SIGHUP makes the guard read it again
    #[arg(long, value_name = "FILE")]
    allow_file: Option<PathBuf>,
    /// A CPU to which the budget applies (repeatable) [default: every CPU that receives packets]
    #[arg(long = "cpu", value_name = "N", value_parser = values::number::<u16>(0, 65_535))]
    cpus: Vec<u16>,
    /// Use generic XDP from the start, which is half as effective and works on every interface
    #[arg(long)]
    generic: bool,
    /// Throttle the interface of the default route, too
    #[arg(long)]
    even_default_route: bool,
    /// Change this setting of the host, too, while the guard runs: dev-weight, rps or threaded (repeatable); docs/guard.md says when it helps and what it costs
    #[arg(long, value_name = "NAME", value_parser = also)]
    also: Vec<GuardAlso>,
    /// Folder of the records by which these changes are undone, also after a crash
    #[arg(long, value_name = "DIR", default_value = GuardStatus::UNDO_FOLDER)]
    undo_dir: PathBuf,
    #[command(flatten)]
    common: LiveOptions,
}

/// A name of `--also`.
fn also(text: &str) -> Result<GuardAlso, String> {
    let name = values::one_of(text, &GuardAlso::ALL.map(|(name, _)| name))?;
    let found = GuardAlso::ALL.into_iter().find(|(known, _)| *known == name);
    found.map(|(_, also)| also).ok_or_else(|| format!("{name}: nothing of this name is changed"))
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
    let sealed = o.common.sealed()?;
    let watch = GuardWatch {
        interface: Some(o.interface.clone()),
        enforce: Some(GuardEnforce {
            interface: o.interface.clone(),
            allowed: o.allow.clone(),
            allow_file: o.allow_file.clone(),
            cpus: o.cpus.clone(),
            is_generic: o.generic,
            takes_default_route: o.even_default_route,
            also: o.also.clone(),
            undo_folder: o.undo_dir.clone(),
        }),
        ..o.common.watch(&signals, sealed.as_ref())?
    };
    let (printed, mut printer) = (o.common.printed(), Printer::start()?);
    let ran = watch.run(&|| signals.take_reopen(), &mut |news| {
        show(&news, printed, &mut printer);
    });
    finish(printer);
    drop(watch);
    close(sealed)?;
    let done = ran?;
    if let Some(verdicts) = &done.verdicts {
        standard_output::text(verdicts.end_text(printed == Printed::Json));
    }
    Ok(Exit::Done)
}

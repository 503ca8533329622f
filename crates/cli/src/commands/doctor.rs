//! `gabion doctor`: what a person would look up by hand when a sensor was killed or lost something.

use crate::exit::{Exit, Fault};
use crate::{standard_output, values};
use clap::Args;
use gabion_reports::HealthReport;
use gabion_seal::guard_secrets;
use gabion_sensor::packets::InterfaceHealth;
use std::path::PathBuf;

/// Options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// Folder that a run wrote (its run.json has what was shed, and how budgets were used)
    #[arg(value_name = "OUTDIR")]
    folder: Option<PathBuf>,
    /// Look at this interface too: its ring, queues, offloads, and what was lost before packets reached a socket
    /// (repeatable)
    #[arg(short = 'i', long = "interface", value_name = "NAME", value_parser = values::text())]
    interfaces: Vec<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// Look for proc and sys/fs/cgroup below this folder, as of another machine or container
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
}

/// Runs the verb. Exit code 1 when there is something to change.
pub(crate) fn run(o: &DoctorOptions) -> Result<Exit, Fault> {
    if !["proc", "sys/fs/cgroup"].iter().any(|below| o.root.join(below).is_dir()) {
        let said = "there is neither proc nor sys/fs/cgroup below it: name a folder that has them";
        return Err(Fault::input(format!("--root {}: {said}", o.root.display())));
    }
    let look_up = |name: &String| {
        InterfaceHealth::look_up(name).map_err(|e| {
            Fault::input(format!("--interface {name}: {e}: `ip link` lists those that are there"))
        })
    };
    let interfaces = o.interfaces.iter().map(look_up).collect::<Result<Vec<_>, Fault>>()?;
    let report = HealthReport::read_folder(&o.root, o.folder.as_deref())?;
    let report = report.with_interfaces(interfaces);
    // Tried, not guessed: limits and capabilities decide together.
    let locked = guard_secrets();
    standard_output::report(o.json, || report.json(locked), |width| report.text(locked, width));
    Ok(if report.is_good() { Exit::Done } else { Exit::No })
}

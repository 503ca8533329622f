//! `gabion guard status`: how a guard that runs is, and what is left to undo.

use crate::exit::Exit;
use crate::{standard_output, values};
use clap::Args;
use gabion_record::json::Json;
use gabion_sensor::guard::GuardStatus;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Options of `guard status`.
#[derive(Debug, Args)]
pub(crate) struct StatusOptions {
    /// The address of the guard's --metrics
    #[arg(long, value_name = "ADDR:PORT", value_parser = values::place, default_value_t = SocketAddr::from(([127, 0, 0, 1], GuardStatus::PORT)))]
    metrics: SocketAddr,
    /// Folder of the records by which changes of the host are undone
    #[arg(long, value_name = "DIR", default_value = GuardStatus::UNDO_FOLDER)]
    undo_dir: PathBuf,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the verb. Exit code 1 in an incident, or when something is left to undo.
pub(super) fn run(o: &StatusOptions) -> Exit {
    let status = GuardStatus {
        metrics: o.metrics,
        undo_folder: o.undo_dir.clone(),
        root: PathBuf::from("/"),
    };
    let found = status.read_state();
    standard_output::text(if o.json {
        let mut j = Json::new();
        found.write_json(&mut j);
        j.into_line()
    } else {
        found.text()
    });
    if found.is_incident() || found.is_left() || found.unreadable.is_some() {
        Exit::No
    } else {
        Exit::Done
    }
}

//! `gabion behavior show`: what a run knows of one address.

use crate::exit::{Exit, Fault};
use crate::standard_output;
use clap::Args;
use gabion_record::Ip;
use gabion_reports::HostReport;
use std::path::PathBuf;

/// Options of `behavior show`.
#[derive(Debug, Args)]
pub(crate) struct ShowOptions {
    /// Folder that a run wrote (`gabion read --behavior -l OUTDIR`)
    #[arg(value_name = "OUTDIR")]
    folder: PathBuf,
    /// The address
    #[arg(long, value_name = "IP", value_parser = address)]
    profile: Ip,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Rows of evidence shown, the latest [default: 100]
    #[arg(long, value_name = "N", value_parser = crate::values::rows)]
    rows: Option<usize>,
}

/// The address of a host.
fn address(text: &str) -> Result<Ip, String> {
    Ip::parse(text.trim().as_bytes())
        .ok_or_else(|| "not an address: write IPv4 or IPv6, such as 192.0.2.7".to_owned())
}

/// Runs the verb.
pub(crate) fn run(o: &ShowOptions) -> Result<Exit, Fault> {
    let host = HostReport::read_folder(&o.folder, o.profile)?;
    host.warning().iter().for_each(|warning| eprintln!("gabion: {warning}"));
    let text = |width| host.text(o.rows.unwrap_or(100), width);
    standard_output::report(o.json, || host.json(), text);
    // An address of which nothing is known is an answer too.
    Ok(if host.is_empty() { Exit::No } else { Exit::Done })
}

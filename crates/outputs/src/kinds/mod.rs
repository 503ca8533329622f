//! The table of outputs: what a configuration's `outputs` list can name, and the files of every run over
//! behaviour. A further output is a file of its own and a row here.

mod alert_debug;
mod certificate_store;
pub mod falco;
pub mod fast;
mod file_store;
pub mod finding_files;
pub mod guard_events;
mod hex_dump;
mod http_log;
pub mod packet_log;
mod stats_log;
mod stream_data;
mod text_format;
mod tls_log;

use crate::eve;
use crate::output_kind::OutputKind;
use gabion_record::Tree;
use std::path::{Path, PathBuf};

/// All outputs. Those that a configuration names are opened in its order, the others in this one.
pub static OUTPUTS: &[OutputKind] = &[
    eve::KIND,
    fast::KIND,
    file_store::KIND,
    certificate_store::KIND,
    packet_log::PCAP_LOG,
    packet_log::ALERT_PCAP,
    stats_log::KIND,
    alert_debug::KIND,
    http_log::KIND,
    tls_log::KIND,
    stream_data::TCP,
    stream_data::HTTP,
    // Scripts are run by the engine.
    OutputKind::new("lua", |_| Ok(None)),
    finding_files::ALERTS_JSON,
    finding_files::ALERTS_LOG,
];

/// The kind that a configuration calls so.
pub(crate) fn configured(name: &str) -> Option<&'static OutputKind> {
    OUTPUTS.iter().find(|kind| kind.name == name && !kind.is_for_findings)
}

/// The kinds that every run over behaviour has.
pub(crate) fn of_findings() -> impl Iterator<Item = &'static OutputKind> {
    OUTPUTS.iter().filter(|kind| kind.is_for_findings)
}

/// Names and nodes of the outputs that a configuration switches on.
pub(crate) fn switched_on(config: &Tree) -> impl Iterator<Item = (&str, &Tree)> {
    let items = config.get("outputs").map_or(&[][..], |list| &list.children);
    items.iter().filter_map(|(_, item)| {
        let (name, node) = item.children.first()?;
        let is_on = node.text("enabled").is_some() && node.flag("enabled") != Some(false);
        is_on.then_some((name.as_str(), node))
    })
}

/// The files of lines that a configuration's outputs go to in this folder.
pub fn configured_file_paths(config: &Tree, folder: &Path) -> Vec<PathBuf> {
    let named = switched_on(config).filter_map(|(name, node)| {
        let file = configured(name)?.file?;
        if crate::receiver::is_receiver(node.text("filetype").unwrap_or_default()) {
            return None;
        }
        Some(crate::dated(&folder.join(node.text("filename").unwrap_or(file))))
    });
    named.collect()
}

/// The files of lines that a run over behaviour writes into this folder.
pub fn finding_file_paths(folder: &Path) -> Vec<PathBuf> {
    of_findings().filter_map(|kind| Some(folder.join(kind.file?))).collect()
}

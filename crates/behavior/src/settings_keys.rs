//! Every key of a configuration of Slips and of ours, with its meaning here: `docs/slips-yaml.md` is made of
//! this, and a run names the keys that it does not know.
//!
//! Keys of thresholds are the rows of [`crate::settings`]; the others are here: those that name files, and those of
//! Slips that have no use here, with the reason.

use crate::settings::{HttpsSettings, Row, Settings};
use gabion_record::Tree;

/// What Gabion does with a key; a section ends with a dot and stands for all keys below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It is a threshold, with this default.
    Setting(Row),
    /// It names files or switches them, for this.
    Files(&'static str),
    /// It is not used, for this reason.
    Unused(&'static str),
}

use Use::{Files, Unused};

const NET: &str = "nothing is sent to other hosts or fetched from them";
const OTHER: &str = "another program's work: its part of Slips is not here";
const NO_POPUPS: &str = "there are no pop-ups: evidence and alerts are written to files";

/// Keys that are no thresholds.
const OTHERS: &[(&str, Use)] = &[
    ("parameters.verbose", Unused("--verbose and --quiet")),
    ("parameters.debug", Unused("--verbose")),
    ("parameters.pcapfilter", Unused("--filter, where captures are read")),
    ("parameters.tcp_inactivity_timeout", Unused("flows are read as their log has them")),
    ("parameters.deletePrevdb", Unused("there is no database of earlier runs")),
    ("parameters.label", Unused("labels are read where a log has them")),
    ("parameters.", Unused("about Zeek's files and Slips' folders, which are left alone")),
    ("detection.popup_alerts", Unused(NO_POPUPS)),
    ("threatintelligence.local_threat_intelligence_files", Files("folder of lists of one's own")),
    (
        "threatintelligence.download_path_for_remote_threat_intelligence",
        Files("folder of lists that were fetched"),
    ),
    (
        "threatintelligence.ti_files",
        Files("table of lists of addresses and names, with their levels"),
    ),
    ("threatintelligence.ja3_feeds", Files("table of lists of JA3")),
    ("threatintelligence.ssl_feeds", Files("table of lists of certificates")),
    ("threatintelligence.wait_for_TI_to_finish", Unused("lists are read before the first flow")),
    ("threatintelligence.mac_db", Unused("`gabion.mac_vendors` names a file")),
    ("threatintelligence.", Unused(NET)),
    ("whitelists.enable_local_whitelist", Files("whether the whitelist is read")),
    ("whitelists.local_whitelist_path", Files("file of what is not to be reported")),
    ("whitelists.", Unused(NET)),
    ("gabion.tor_exit_nodes", Files("addresses of relays that traffic leaves Tor by")),
    ("gabion.harmless_files", Files("hashes of files that are harmless though lists name them")),
    ("gabion.autonomous_systems", Files("table of autonomous systems by network")),
    ("geoip-database", Files("database of countries by address, for the page of --report")),
    ("gabion.domain_ages", Files("table of when domains were registered")),
    ("gabion.mac_vendors", Files("table of makers of hardware")),
    ("gabion.organizations", Files("folder of lists of organizations that a whitelist names")),
    (
        "anomaly_detection_https.",
        Unused("an hour is compared with the median of the hours kept, not with a moving mean"),
    ),
    ("flow_ml_detection.", Unused("too weak to alarm anybody: confidence 0.1 in Slips too")),
    ("modules.", Unused("detectors are switched off by DisabledAlerts.disabled_detections")),
    ("output.", Unused("-l names the folder")),
    ("update.", Unused(NET)),
    ("virustotal.", Unused(NET)),
    ("exporting_alerts.", Unused(NET)),
    ("cesnet.", Unused(NET)),
    ("global_p2p.", Unused(NET)),
    ("local_p2p.", Unused(NET)),
    ("Debug.", Unused(OTHER)),
    ("Docker.", Unused(OTHER)),
    ("Profiling.", Unused(OTHER)),
    ("web_interface.", Unused(OTHER)),
];

/// All keys with what Gabion does with them, thresholds first.
pub fn keys() -> impl Iterator<Item = (&'static str, Use)> {
    let rows = Settings::ROWS.iter().chain(HttpsSettings::ROWS);
    rows.map(|row| (row.key, Use::Setting(*row))).chain(OTHERS.iter().copied())
}

/// What Gabion does with a key; `None` for one that neither Slips nor we have.
pub fn use_of(key: &str) -> Option<Use> {
    let exact = keys().find(|(k, _)| *k == key);
    let section = || keys().find(|(k, _)| k.ends_with('.') && key.starts_with(k));
    exact.or_else(section).map(|(_, u)| u)
}

/// Keys of a configuration that are not used, with the reason, and keys that are not known.
pub fn not_used(tree: &Tree) -> (Vec<(String, &'static str)>, Vec<String>) {
    let mut keys = Vec::new();
    leaves(tree, "", &mut keys);
    let mut unused = Vec::new();
    let mut unknown = Vec::new();
    for key in keys {
        match use_of(&key) {
            Some(Use::Setting(_) | Files(_)) => {}
            Some(Unused(why)) => unused.push((key, why)),
            None => unknown.push(key),
        }
    }
    (unused, unknown)
}

fn leaves(tree: &Tree, path: &str, keys: &mut Vec<String>) {
    if tree.is_sequence || tree.children.is_empty() {
        if !path.is_empty() {
            keys.push(path.to_owned());
        }
        return;
    }
    for (name, child) in &tree.children {
        let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        leaves(child, &below, keys);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_honoured_named_or_unknown() {
        let mut tree = Tree::default();
        for key in ["parameters.client_ips", "virustotal.api_key_file", "flow_alerts.long", "x"] {
            tree.set(key, "1");
        }
        let (unused, unknown) = not_used(&tree);
        assert_eq!(unused, [("virustotal.api_key_file".to_owned(), NET)]);
        assert_eq!(unknown, ["flow_alerts.long", "x"]);
    }
}

//! Every key of the peer's configuration, with what becomes of it here: `docs/slips-yaml.md` is made of
//! this table, and a run names what it does not know.

use gabion_record::Tree;

/// What becomes of a key; a section ends with a dot and stands for all keys below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It does what it does there.
    Honoured,
    /// It is not used, for this reason.
    Unused(&'static str),
}

use Use::{Honoured, Unused};

const NET: &str = "nothing is fetched over the network";
const OTHER: &str = "another program's work: its part of the peer is not here";
const ALWAYS: &str = "always so: evidence and alerts are files, counts are on the page at the end";

/// The table.
pub const KEYS: &[(&str, Use)] = &[
    ("parameters.time_window_width", Honoured),
    ("parameters.analysis_direction", Honoured),
    ("parameters.client_ips", Honoured),
    ("parameters.verbose", Unused("--verbose and --quiet")),
    ("parameters.debug", Unused("--verbose")),
    ("parameters.pcapfilter", Unused("--filter, where captures are read")),
    ("parameters.tcp_inactivity_timeout", Unused("flows are read as their log has them")),
    ("parameters.deletePrevdb", Unused("there is no database of earlier runs")),
    ("parameters.label", Unused("labels are read where a log has them")),
    ("parameters.", Unused("about Zeek's files and the peer's folders, which are left alone")),
    ("detection.evidence_detection_threshold", Honoured),
    ("detection.popup_alerts", Unused(ALWAYS)),
    ("brute_force_detector.ssh_attempt_threshold", Honoured),
    ("flow_alerts.long_connection_threshold", Honoured),
    ("flow_alerts.ssh_succesful_detection_threshold", Honoured),
    ("flow_alerts.data_exfiltration_threshold", Honoured),
    ("flow_alerts.entropy_threshold", Honoured),
    ("flow_alerts.pastebin_download_threshold", Honoured),
    ("arp.arp_scan_threshold", Honoured),
    ("DisabledAlerts.disabled_detections", Honoured),
    ("threatintelligence.local_threat_intelligence_files", Honoured),
    ("threatintelligence.download_path_for_remote_threat_intelligence", Honoured),
    ("threatintelligence.ti_files", Honoured),
    ("threatintelligence.ja3_feeds", Honoured),
    ("threatintelligence.ssl_feeds", Honoured),
    ("threatintelligence.wait_for_TI_to_finish", Unused("lists are read before the first flow")),
    ("threatintelligence.mac_db", Unused("`gabion.mac_vendors` names a file")),
    ("threatintelligence.", Unused(NET)),
    ("whitelists.enable_local_whitelist", Honoured),
    ("whitelists.local_whitelist_path", Honoured),
    ("whitelists.", Unused(NET)),
    ("gabion.tor_exit_nodes", Honoured),
    ("gabion.harmless_files", Honoured),
    ("gabion.autonomous_systems", Honoured),
    ("geoip-database", Honoured),
    ("gabion.domain_ages", Honoured),
    ("gabion.mac_vendors", Honoured),
    ("gabion.organizations", Honoured),
    ("anomaly_detection_https.training_hours", Honoured),
    ("anomaly_detection_https.hourly_zscore_threshold", Honoured),
    ("anomaly_detection_https.flow_zscore_threshold", Honoured),
    ("anomaly_detection_https.adaptation_score_threshold", Honoured),
    ("anomaly_detection_https.min_baseline_points", Honoured),
    ("anomaly_detection_https.max_small_flow_anomalies", Honoured),
    ("anomaly_detection_https.use_adwin_drift", Honoured),
    ("anomaly_detection_https.adwin_delta", Honoured),
    ("anomaly_detection_https.adwin_min_window_length", Honoured),
    ("anomaly_detection_https.ja3_min_variants_per_server", Honoured),
    (
        "anomaly_detection_https.",
        Unused("medians of the hours kept are compared with, not moving means"),
    ),
    ("flow_ml_detection.", Unused("too weak to alarm anybody: confidence 0.1 in the peer too")),
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

/// What becomes of a key; `None` for one that neither the peer nor we have.
pub fn use_of(key: &str) -> Option<Use> {
    let exact = KEYS.iter().find(|(k, _)| *k == key);
    let section = || KEYS.iter().find(|(k, _)| k.ends_with('.') && key.starts_with(k));
    exact.or_else(section).map(|(_, u)| *u)
}

/// Keys of a configuration that are not used, with the reason, and keys that nobody knows.
pub fn not_used(tree: &Tree) -> (Vec<(String, &'static str)>, Vec<String>) {
    let mut keys = Vec::new();
    leaves(tree, "", &mut keys);
    let mut unused = Vec::new();
    let mut unknown = Vec::new();
    for key in keys {
        match use_of(&key) {
            Some(Honoured) => {}
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

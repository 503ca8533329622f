//! Thresholds, under the peer's names where it has them, with its defaults.
//!
//! A `slips.yaml` is read as a tree; what it does not say keeps its default. Names of ours stand
//! under `gabion`.

use crate::command_and_control::Model;
use crate::intel::Intel;
use crate::services::Services;
use crate::whitelist::Whitelist;
use gabion_record::logs::SECOND;
use gabion_record::{Ip, Net, Tree};
use std::sync::Arc;

/// Which ends of a flow get it into their profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The source's only
    #[default]
    Out,
    /// The destination's too
    All,
}

/// When a host's TLS is odd (`anomaly_detection_https`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HttpsSettings {
    /// Hours that are taken as usual whatever they are (`training_hours`).
    pub training_hours: u32,
    /// Deviations of an hour that are odd (`hourly_zscore_threshold`).
    pub hourly: f64,
    /// Of a flow (`flow_zscore_threshold`).
    pub flow: f64,
    /// Deviations up to which an hour becomes usual even with odd flows in it
    /// (`adaptation_score_threshold`).
    pub adapts: f64,
    /// Fewest hours to compare with (`min_baseline_points`).
    pub points: usize,
    /// Odd flows of an hour up to which it becomes usual when it is not odd itself
    /// (`max_small_flow_anomalies`).
    pub small_flows: u32,
    /// Whether what lasts becomes usual (`use_adwin_drift`).
    pub is_adaptive: bool,
    /// Chance of taking a lasting change for one (`adwin_delta`).
    pub delta: f64,
    /// Hours that last (`adwin_min_window_length`).
    pub window: usize,
    /// Changes of JA3 that count without training (`ja3_min_variants_per_server`).
    pub ja3_least: u64,
}

impl Default for HttpsSettings {
    fn default() -> HttpsSettings {
        HttpsSettings {
            training_hours: 2,
            hourly: 3.0,
            flow: 3.5,
            adapts: 2.0,
            points: 6,
            small_flows: 1,
            is_adaptive: true,
            delta: 0.01,
            window: 5,
            ja3_least: 3,
        }
    }
}

impl HttpsSettings {
    /// What a configuration says; `number` reads one.
    fn read(&mut self, tree: &Tree, number: &mut impl FnMut(&str) -> Option<f64>) {
        let mut get = |key: &str| number(&format!("anomaly_detection_https.{key}"));
        let mut real = |key: &str, into: &mut f64| *into = get(key).unwrap_or(*into);
        real("hourly_zscore_threshold", &mut self.hourly);
        real("flow_zscore_threshold", &mut self.flow);
        real("adaptation_score_threshold", &mut self.adapts);
        real("adwin_delta", &mut self.delta);
        let mut whole = |key: &str, before: u64| get(key).map_or(before, |n| n.min(1e6) as u64);
        self.training_hours = whole("training_hours", self.training_hours.into()) as u32;
        self.small_flows = whole("max_small_flow_anomalies", self.small_flows.into()) as u32;
        self.points = whole("min_baseline_points", self.points as u64) as usize;
        self.window = whole("adwin_min_window_length", self.window as u64).clamp(2, 64) as usize;
        self.ja3_least = whole("ja3_min_variants_per_server", self.ja3_least);
        if let Some(text) = tree.text("anomaly_detection_https.use_adwin_drift") {
            self.is_adaptive = !text.trim().eq_ignore_ascii_case("false");
        }
    }
}

/// All of them.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Width of a time window, nanoseconds (`parameters.time_window_width`, seconds).
    pub window_ns: i64,
    /// One window for everything (`only_one_tw`).
    pub is_one_window: bool,
    /// `parameters.analysis_direction`
    pub direction: Direction,
    /// The site's own addresses (`parameters.client_ips`).
    pub client_ips: Vec<Net>,
    /// Sum of a window's threat levels that makes an alert, for a window of a minute
    /// (`detection.evidence_detection_threshold`).
    pub alert_threshold: f64,
    /// Seconds a connection lasts to be long (`flow_alerts.long_connection_threshold`).
    pub long_connection_s: f64,
    /// Megabytes (10^6) to one destination in a window (`flow_alerts.data_exfiltration_threshold`).
    pub upload_mb: u64,
    /// Bytes of a login that worked (`flow_alerts.ssh_succesful_detection_threshold`).
    pub ssh_success_bytes: u64,
    /// Bits a character of a TXT answer (`flow_alerts.entropy_threshold`).
    pub entropy: f64,
    /// Bytes from a paste site (`flow_alerts.pastebin_download_threshold`).
    pub pastebin_bytes: u64,
    /// Attempts that make password guessing (`brute_force_detector.ssh_attempt_threshold`).
    pub ssh_attempts: u32,
    /// Hosts asked for by ARP within 30 s (`arp.arp_scan_threshold`).
    pub arp_scan: u32,
    /// Names of evidence that is not wanted (`DisabledAlerts.disabled_detections`).
    pub disabled: Vec<String>,
    /// What is odd about TLS (`anomaly_detection_https`).
    pub https: HttpsSettings,
    /// Ports with a service.
    pub services: Services,
    /// Scores pairs.
    pub command_and_control: Arc<Model>,
    /// What is listed as bad.
    pub intel: Arc<Intel>,
    /// What is not to be told (`whitelists.local_whitelist_path`).
    pub whitelist: Arc<Whitelist>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            window_ns: 3600 * SECOND,
            is_one_window: false,
            direction: Direction::Out,
            client_ips: Vec::new(),
            alert_threshold: 0.25,
            long_connection_s: 1500.0,
            upload_mb: 500,
            ssh_success_bytes: 4290,
            entropy: 5.0,
            pastebin_bytes: 700,
            ssh_attempts: 9,
            arp_scan: 5,
            disabled: Vec::new(),
            https: HttpsSettings::default(),
            services: Services::default(),
            command_and_control: Arc::default(),
            intel: Arc::default(),
            whitelist: Arc::default(),
        }
    }
}

impl Settings {
    /// Whether an address is one of the site's own.
    #[inline]
    pub fn is_own(&self, ip: Ip) -> bool {
        match self.client_ips.as_slice() {
            [] => ip.is_private(),
            own => own.iter().any(|net| net.contains(ip)),
        }
    }

    /// What a configuration says, with defaults for the rest; also what in it cannot be used.
    pub fn from_tree(tree: &Tree) -> (Settings, Vec<String>) {
        let mut s = Settings::default();
        let mut wrong = Vec::new();
        let mut number = |path: &str| -> Option<f64> {
            let text = tree.text(path)?;
            let n = text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
            if n.is_none() {
                wrong.push(format!("{path}: `{text}` is no number"));
            }
            n
        };
        match tree.text("parameters.time_window_width") {
            Some("only_one_tw") => s.is_one_window = true,
            _ => {
                if let Some(n) = number("parameters.time_window_width").filter(|n| *n >= 1.0) {
                    s.window_ns = (n.min(1e9) * SECOND as f64) as i64;
                }
            }
        }
        s.https.read(tree, &mut number);
        let mut set = |path: &str, into: &mut f64| {
            if let Some(n) = number(path) {
                *into = n;
            }
        };
        set("detection.evidence_detection_threshold", &mut s.alert_threshold);
        set("flow_alerts.long_connection_threshold", &mut s.long_connection_s);
        set("flow_alerts.entropy_threshold", &mut s.entropy);
        let mut whole = |path: &str, into: &mut u64| {
            let mut n = *into as f64;
            set(path, &mut n);
            *into = n as u64;
        };
        whole("flow_alerts.data_exfiltration_threshold", &mut s.upload_mb);
        whole("flow_alerts.ssh_succesful_detection_threshold", &mut s.ssh_success_bytes);
        whole("flow_alerts.pastebin_download_threshold", &mut s.pastebin_bytes);
        let mut attempts = u64::from(s.ssh_attempts);
        whole("brute_force_detector.ssh_attempt_threshold", &mut attempts);
        s.ssh_attempts = u32::try_from(attempts).unwrap_or(u32::MAX).max(1);
        let mut hosts = u64::from(s.arp_scan);
        whole("arp.arp_scan_threshold", &mut hosts);
        s.arp_scan = u32::try_from(hosts).unwrap_or(u32::MAX).max(1);
        if tree.text("parameters.analysis_direction") == Some("all") {
            s.direction = Direction::All;
        }
        for text in texts(tree, "parameters.client_ips") {
            match Net::parse(text.as_bytes()) {
                Some(net) => s.client_ips.push(net),
                None => wrong.push(format!("parameters.client_ips: `{text}` is no network")),
            }
        }
        s.disabled = texts(tree, "DisabledAlerts.disabled_detections");
        (s, wrong)
    }
}

/// The texts of a sequence, or of a flow sequence written as one text (`[a, b]`).
fn texts(tree: &Tree, path: &str) -> Vec<String> {
    let Some(node) = tree.get(path) else { return Vec::new() };
    let clean = |t: &str| t.trim().trim_matches(['\'', '"']).to_owned();
    let mut all: Vec<String> =
        node.children.iter().filter_map(|(_, t)| t.value.as_deref().map(clean)).collect();
    if let Some(text) = node.value.as_deref() {
        let inner = text.trim().trim_start_matches('[').trim_end_matches(']');
        all.extend(inner.split(',').map(clean));
    }
    all.retain(|t| !t.is_empty());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peers_names_are_read() {
        let mut tree = Tree::default();
        tree.set("parameters.time_window_width", "300");
        tree.set("flow_alerts.long_connection_threshold", "100");
        tree.set("detection.evidence_detection_threshold", "x");
        tree.set("parameters.client_ips", "[10.0.0.0/8, bad]");
        tree.set("anomaly_detection_https.hourly_zscore_threshold", "4.5");
        tree.set("anomaly_detection_https.training_hours", "0");
        tree.set("anomaly_detection_https.use_adwin_drift", "False");
        let (s, wrong) = Settings::from_tree(&tree);
        assert_eq!((s.window_ns, s.long_connection_s), (300 * SECOND, 100.0));
        assert_eq!((s.alert_threshold, s.client_ips.len(), wrong.len()), (0.25, 1, 2));
        let https = HttpsSettings {
            hourly: 4.5,
            training_hours: 0,
            is_adaptive: false,
            ..HttpsSettings::default()
        };
        assert_eq!(s.https, https);
    }
}

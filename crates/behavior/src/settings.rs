//! Thresholds, under Slips' names where it has them, with its defaults.
//!
//! A setting is one row of the tables below: its text, name, type, default as a configuration would write it, key and
//! parser. [`Settings::from_tree`], the defaults, the keys that a run knows ([`crate::settings_keys`]) and
//! `docs/slips-yaml.md` come from the row. A `slips.yaml` is read as a tree; what it does not have keeps its default.
//! Keys of ours stand below `gabion`.

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

/// A row of the table, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its key in a configuration.
    pub key: &'static str,
    /// Its value where a configuration has none.
    pub default: &'static str,
    /// What it is.
    pub text: &'static str,
}

/// A value of a configuration that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// It should be a number that is not negative.
    #[error("{key}: `{text}` is not a number")]
    NoNumber {
        /// Where it stands.
        key: &'static str,
        /// What stands there.
        text: String,
    },
    /// It should be a network.
    #[error("{key}: `{text}` is not a network")]
    NoNetwork {
        /// Where it stands.
        key: &'static str,
        /// What stands there.
        text: String,
    },
}

/// What a configuration has under a key, for a row's parser.
struct Given<'a> {
    tree: &'a Tree,
    key: &'static str,
    wrong: &'a mut Vec<SettingError>,
}

impl Given<'_> {
    fn text(&self) -> Option<&str> {
        self.tree.text(self.key)
    }

    fn number(&mut self) -> Option<f64> {
        let text = self.tree.text(self.key)?;
        let n = text.trim().parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
        if n.is_none() {
            self.wrong.push(SettingError::NoNumber { key: self.key, text: text.to_owned() });
        }
        n
    }
}

/// Makes a struct of settings from its table: the rows, and fields that no configuration has as they are.
macro_rules! settings {
    (
        $(#[$attribute:meta])* pub struct $name:ident {
            $($(#[doc = $text:literal])+ $field:ident: $t:ty = $default:literal, $key:literal, $parse:path;)+
        }
        $(and { $($(#[$other_doc:meta])* $other:ident: $other_t:ty,)* })?
    ) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[doc = $text])+ pub $field: $t,)+
            $($($(#[$other_doc])* pub $other: $other_t,)*)?
        }

        impl $name {
            /// Its table.
            pub const ROWS: &'static [Row] = &[
                $(Row { key: $key, default: $default, text: concat!($($text),+) },)+
            ];

            /// Takes in what a configuration has.
            fn read_tree(&mut self, tree: &Tree, wrong: &mut Vec<SettingError>) {
                $($parse(&mut Given { tree, key: $key, wrong }, &mut self.$field);)+
            }
        }

        impl Default for $name {
            fn default() -> $name {
                let mut made = $name {
                    $($field: Default::default(),)+
                    $($($other: Default::default(),)*)?
                };
                let mut tree = Tree::default();
                $(tree.set($key, $default);)+
                made.read_tree(&tree, &mut Vec::new());
                made
            }
        }
    };
}

settings! {
    /// When a host's TLS is odd (`anomaly_detection_https`).
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct HttpsSettings {
        /// Hours that are taken as usual whatever they are.
        training_hours: u32 = "2", "anomaly_detection_https.training_hours", few;
        /// Deviations of an hour that are odd.
        hourly: f64 = "3.0", "anomaly_detection_https.hourly_zscore_threshold", real;
        /// Deviations of a flow that are odd.
        flow: f64 = "3.5", "anomaly_detection_https.flow_zscore_threshold", real;
        /// Deviations up to which an hour becomes usual even with odd flows in it.
        adapts: f64 = "2.0", "anomaly_detection_https.adaptation_score_threshold", real;
        /// Fewest hours to compare with.
        points: usize = "6", "anomaly_detection_https.min_baseline_points", few;
        /// Odd flows of an hour up to which it becomes usual when it is not odd itself.
        small_flows: u32 = "1", "anomaly_detection_https.max_small_flow_anomalies", few;
        /// Whether what lasts becomes usual.
        is_adaptive: bool = "true", "anomaly_detection_https.use_adwin_drift", not_false;
        /// Chance of taking a change that does not last for one that does.
        delta: f64 = "0.01", "anomaly_detection_https.adwin_delta", real;
        /// Hours that a change lasts to become usual, 2 to 64.
        window: usize = "5", "anomaly_detection_https.adwin_min_window_length", hours_of_window;
        /// Changes of JA3 that count without training.
        ja3_least: u64 = "3", "anomaly_detection_https.ja3_min_variants_per_server", few;
    }
}

settings! {
    /// All of them.
    #[derive(Clone, Debug)]
    pub struct Settings {
        /// Width of a time window, seconds (kept in nanoseconds).
        window_ns: i64 = "3600", "parameters.time_window_width", width_of_window;
        /// With the word `only_one_tw` there is one window for everything.
        is_one_window: bool = "3600", "parameters.time_window_width", only_one_window;
        /// Whose profiles get a flow: `out` its source's, `all` its destination's too.
        direction: Direction = "out", "parameters.analysis_direction", direction;
        /// The site's own addresses and networks; without them the private ones.
        client_ips: Vec<Net> = "[]", "parameters.client_ips", networks;
        /// Sum of a window's threat levels that makes an alert, for a window of a minute.
        alert_threshold: f64 = "0.25", "detection.evidence_detection_threshold", real;
        /// Seconds that a connection lasts to be long.
        long_connection_s: f64 = "1500", "flow_alerts.long_connection_threshold", real;
        /// Megabytes (10^6) to one destination in a window.
        upload_mb: u64 = "500", "flow_alerts.data_exfiltration_threshold", whole;
        /// Bytes of a login that worked.
        ssh_success_bytes: u64 = "4290", "flow_alerts.ssh_succesful_detection_threshold", whole;
        /// Bits a character of a TXT answer.
        entropy: f64 = "5", "flow_alerts.entropy_threshold", real;
        /// Bytes from a paste site.
        pastebin_bytes: u64 = "700", "flow_alerts.pastebin_download_threshold", whole;
        /// Attempts that make password guessing.
        ssh_attempts: u32 = "9", "brute_force_detector.ssh_attempt_threshold", at_least_one;
        /// Hosts asked for by ARP within 30 s.
        arp_scan: u32 = "5", "arp.arp_scan_threshold", at_least_one;
        /// Names of evidence that is not wanted.
        disabled: Vec<String> = "[]", "DisabledAlerts.disabled_detections", texts;
    }
    and {
        /// What is odd about TLS (`anomaly_detection_https`).
        https: HttpsSettings,
        /// Ports with a service.
        services: Services,
        /// Scores pairs.
        command_and_control: Arc<Model>,
        /// What is listed as bad.
        intel: Arc<Intel>,
        /// What is not to be reported (`whitelists.local_whitelist_path`).
        whitelist: Arc<Whitelist>,
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

    /// What a configuration has, with defaults for the rest; also what in it cannot be used.
    pub fn from_tree(tree: &Tree) -> (Settings, Vec<SettingError>) {
        let mut s = Settings::default();
        let mut wrong = Vec::new();
        s.read_tree(tree, &mut wrong);
        s.https.read_tree(tree, &mut wrong);
        (s, wrong)
    }
}

// Parsers of rows: each leaves the place as it is where the configuration has nothing that can be used.

/// A number.
fn real(given: &mut Given<'_>, into: &mut f64) {
    *into = given.number().unwrap_or(*into);
}

/// A whole number.
fn whole(given: &mut Given<'_>, into: &mut u64) {
    *into = given.number().map_or(*into, |n| n as u64);
}

/// A whole number from 1.
fn at_least_one(given: &mut Given<'_>, into: &mut u32) {
    if let Some(n) = given.number() {
        *into = u32::try_from(n as u64).unwrap_or(u32::MAX).max(1);
    }
}

/// A whole number of things that are counted: a million at most.
fn few<T: TryFrom<u64>>(given: &mut Given<'_>, into: &mut T) {
    if let Some(n) = given.number().and_then(|n| T::try_from(n.min(1e6) as u64).ok()) {
        *into = n;
    }
}

fn hours_of_window(given: &mut Given<'_>, into: &mut usize) {
    few(given, into);
    *into = (*into).clamp(2, 64);
}

fn not_false(given: &mut Given<'_>, into: &mut bool) {
    if let Some(text) = given.text() {
        *into = !text.trim().eq_ignore_ascii_case("false");
    }
}

/// What may be given instead of a width.
const ONE_WINDOW: &str = "only_one_tw";

fn only_one_window(given: &mut Given<'_>, into: &mut bool) {
    *into = given.text() == Some(ONE_WINDOW);
}

fn width_of_window(given: &mut Given<'_>, into: &mut i64) {
    if given.text() == Some(ONE_WINDOW) {
        return;
    }
    if let Some(n) = given.number().filter(|n| *n >= 1.0) {
        *into = (n.min(1e9) * SECOND as f64) as i64;
    }
}

fn direction(given: &mut Given<'_>, into: &mut Direction) {
    if given.text() == Some("all") {
        *into = Direction::All;
    }
}

fn networks(given: &mut Given<'_>, into: &mut Vec<Net>) {
    for text in all_texts(given) {
        match Net::parse(text.as_bytes()) {
            Some(net) => into.push(net),
            None => given.wrong.push(SettingError::NoNetwork { key: given.key, text }),
        }
    }
}

fn texts(given: &mut Given<'_>, into: &mut Vec<String>) {
    *into = all_texts(given);
}

/// The texts of a sequence, or of a flow sequence written as one text (`[a, b]`).
fn all_texts(given: &Given<'_>) -> Vec<String> {
    let Some(node) = given.tree.get(given.key) else { return Vec::new() };
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

    /// Each default is a value that a configuration may have, and it has an effect where one has it.
    #[test]
    fn defaults_are_values_of_a_configuration() {
        let mut tree = Tree::default();
        for row in Settings::ROWS.iter().chain(HttpsSettings::ROWS) {
            tree.set(row.key, row.default);
            assert!(!row.text.trim().is_empty(), "{}", row.key);
        }
        let (s, wrong) = Settings::from_tree(&tree);
        assert_eq!(wrong, []);
        let default = Settings::default();
        assert_eq!((s.window_ns, s.is_one_window), (3600 * SECOND, false));
        assert_eq!((s.upload_mb, s.ssh_attempts, s.arp_scan), (500, 9, 5));
        assert_eq!((s.ssh_success_bytes, s.pastebin_bytes), (4290, 700));
        assert_eq!((s.alert_threshold, s.long_connection_s, s.entropy), (0.25, 1500.0, 5.0));
        assert!(s.client_ips.is_empty() && s.disabled.is_empty());
        assert_eq!(s.https, default.https);
        assert_eq!(
            s.https,
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
        );
    }

    #[test]
    fn slips_names_are_read() {
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
        let said: Vec<String> = wrong.iter().map(ToString::to_string).collect();
        assert!(said.contains(&"parameters.client_ips: `bad` is not a network".to_owned()));
        assert!(
            said.contains(
                &"detection.evidence_detection_threshold: `x` is not a number".to_owned()
            )
        );
        let https = HttpsSettings {
            hourly: 4.5,
            training_hours: 0,
            is_adaptive: false,
            ..HttpsSettings::default()
        };
        assert_eq!(s.https, https);
    }

    #[test]
    fn one_window_may_hold_everything() {
        let mut tree = Tree::default();
        tree.set("parameters.time_window_width", ONE_WINDOW);
        let (s, wrong) = Settings::from_tree(&tree);
        assert_eq!((s.window_ns, s.is_one_window, wrong.len()), (3600 * SECOND, true, 0));
    }
}

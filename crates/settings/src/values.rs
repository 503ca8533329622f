//! Values of settings that can't be used: Suricata 8.0.7 refuses them, and in which cases it ends was observed. One line
//! names the key, the value and what is allowed. Settings that an engine of ours refuses by itself are not listed.

use crate::messages::Messages;
use gabion_record::Tree;
use gabion_record::config::{parse_size, truth};
use gabion_rules::RuleVars;

/// What a value must be.
#[derive(Clone, Copy)]
enum Wanted {
    /// A size such as `64mb`.
    Size,
    /// A whole number from the first to the second.
    Number(u64, u64),
    /// The same, where another text than a number is a matter of a second entry.
    Range(u64, u64),
    /// One of these words, in small letters.
    Words(&'static [&'static str]),
    /// The same in any letters.
    AnyCase(&'static [&'static str]),
    /// Ports, as rules write them.
    Ports,
    /// Yes, no, or only the detection of the protocol.
    Parsing,
    /// Any text but none.
    Text,
}

use Wanted::{AnyCase, Number, Parsing, Ports, Range, Size, Text, Words};

/// A setting: its key, where `*` stands for every name, `.htp.` for settings of libhtp and `.parser.` for others of its protocol, what its value must be, and Suricata's module.
type Setting = (&'static str, Wanted, &'static str);

const ANY: u64 = u64::MAX;
const YES_NO: &[&str] = &["yes", "no", "true", "false", "on", "off", "1", "0"];
const LEVELS: &[&str] = &["error", "warning", "notice", "info", "perf", "config", "debug"];
const HTP: &str = "app-layer-htp";

/// Settings with which a run ends.
const ENDING: &[Setting] = &[
    ("app-layer.protocols.*.enabled", Parsing, "app-layer-detect-proto"),
    ("app-layer.protocols.*.tcp.enabled", Parsing, "app-layer-detect-proto"),
    ("app-layer.protocols.*.udp.enabled", Parsing, "app-layer-detect-proto"),
    (".parser.memcap", Size, "app-layer-htp-mem"),
    (".parser.byterange.memcap", Size, "app-layer-htp-range"),
    (".htp.randomize-inspection-range", Number(0, 100), HTP),
    (".htp.decompression-time-limit", Number(0, ANY), HTP),
    (".htp.swf-decompression.type", Words(&["deflate", "lzma", "both"]), HTP),
    (".htp.swf-decompression.compress-depth", Size, HTP),
    (".htp.swf-decompression.decompress-depth", Size, HTP),
    ("stream.reassembly.randomize-chunk-range", Number(0, 99), "stream-tcp"),
    ("detect.profile", Words(&["low", "medium", "high", "custom"]), "detect"),
    ("detect.sgh-mpm-context", Words(&["auto", "single", "full"]), "detect"),
    ("mpm-algo", Words(&["auto", "ac", "ac-bs", "ac-ks", "hs"]), "detect"),
    ("spm-algo", Words(&["auto", "bm", "hs"]), "spm"),
    (
        "autofp-scheduler",
        Words(&["hash", "ippair", "ftp-hash", "round-robin", "active-packets"]),
        "tmqh-flow",
    ),
    ("host.memcap", Size, "host"),
    ("ippair.memcap", Size, "ippair"),
    ("flow.hash-size", Number(1, u32::MAX as u64), "flow"),
    ("default-packet-size", Size, "suricata"),
    ("threading.stack-size", Size, "runmodes"),
    ("datasets.limits.total-hashsizes", Size, "datasets"),
    ("datasets.limits.single-hashsize", Size, "datasets"),
    ("max-pending-packets", Range(1, 1 << 31), "suricata"),
    ("default-log-dir", Text, "suricata"),
    ("detect.thresholds.memcap", Size, "detect"),
    ("detect.thresholds.hash-size", Number(256, i32::MAX as u64), "detect"),
    ("logging.default-log-level", AnyCase(LEVELS), "debug"),
];

/// Settings whose defaults hold then. Sizes that protocols list themselves are reported with these defaults.
const CONTINUING: &[Setting] = &[
    ("app-layer.protocols.*.detection-ports.dp", Ports, "detect"),
    ("app-layer.protocols.*.tcp.detection-ports.dp", Ports, "detect"),
    ("app-layer.protocols.*.udp.detection-ports.dp", Ports, "detect"),
    ("app-layer.protocols.*.max-tx", Size, "app-layer"),
    ("app-layer.protocols.*.max-streams", Size, "app-layer"),
    ("app-layer.protocols.*.max-table-size", Size, "app-layer"),
    ("app-layer.protocols.*.max-reassembly-size", Size, "app-layer"),
    ("app-layer.protocols.*.max-msg-length", Size, "app-layer"),
    ("app-layer.protocols.*.max-payload-size", Size, "app-layer"),
    ("app-layer.protocols.*.max-read-size", Size, "app-layer"),
    ("app-layer.protocols.*.max-write-size", Size, "app-layer"),
    ("app-layer.protocols.*.stream-depth", Size, "app-layer"),
    (".parser.byterange.timeout", Number(0, ANY), "app-layer-htp-range"),
    ("app-layer.protocols.*.inspected-tracker.content-limit", Size, "app-layer-smtp"),
    ("app-layer.protocols.*.inspected-tracker.content-inspect-min-size", Size, "app-layer-smtp"),
    ("app-layer.protocols.*.inspected-tracker.content-inspect-window", Size, "app-layer-smtp"),
    ("app-layer.protocols.*.mime.header-value-depth", Number(0, ANY), "conf"),
    (
        ".htp.personality",
        AnyCase(&[
            "minimal",
            "generic",
            "ids",
            "iis_5_1",
            "iis_6_0",
            "iis_7_0",
            "iis_7_5",
            "apache",
            "apache_2",
            "apache_2_2",
        ]),
        HTP,
    ),
    (
        ".htp.http-body-inline",
        AnyCase(&["auto", "yes", "no", "true", "false", "on", "off", "1", "0"]),
        HTP,
    ),
    ("decoder.vxlan.ports", Ports, "detect"),
    ("decoder.teredo.ports", Ports, "detect"),
    ("decoder.geneve.ports", Ports, "detect"),
    ("decoder.max-layers", Number(0, 255), "decode"),
    ("packet-alert-max", Number(1, 255), "decode"),
    ("pcre.match-limit", Number(0, u32::MAX as u64), "conf"),
    ("pcre.match-limit-recursion", Number(0, u32::MAX as u64), "conf"),
    ("detect.inspection-recursion-limit", Number(0, ANY), "conf"),
    ("detect.stream-tx-log-limit", Number(0, 255), "conf"),
    ("stream.prealloc-sessions", Number(0, ANY), "stream-tcp"),
    ("stream.reassembly.segment-prealloc", Number(0, ANY), "stream-tcp-reassemble"),
    ("flow.emergency-recovery", Number(1, 100), "flow"),
    ("flow.managers", Number(1, ANY), "conf"),
    ("flow.recyclers", Number(1, ANY), "conf"),
    ("defrag.hash-size", Number(1, ANY), "defrag-hash"),
    ("host.prealloc", Number(0, ANY), "host"),
    ("ippair.prealloc", Number(0, ANY), "ippair"),
    ("max-pending-packets", Number(0, ANY), "conf"),
    ("stats.interval", Number(0, ANY), "counters"),
    ("pcap-file.buffer-size", Size, "pcap"),
    ("host-mode", AnyCase(&["auto", "router", "sniffer-only"]), "suricata"),
];

/// Reports values that can't be used; false when the run ends for one.
pub(crate) fn check_values(config: &Tree, log: &mut Messages<'_>) -> bool {
    let mut is_good = has_action_order(config, log);
    for (table, is_ending) in [(ENDING, true), (CONTINUING, false)] {
        for setting in table {
            is_good &= check_setting(config, setting, is_ending, log);
        }
    }
    is_good
}

/// The keys of a setting of libhtp: that of all servers, and those of servers that are named.
fn htp_keys(config: &Tree, protocol: &str, last: &str) -> Vec<String> {
    let base = format!("app-layer.protocols.{protocol}.libhtp");
    let servers = config.get(&format!("{base}.server-config")).map_or(&[][..], |t| &t.children);
    let mut all = vec![format!("{base}.default-config.{last}")];
    for (at, server) in servers {
        let named = server.children.iter().map(|(name, _)| name);
        all.extend(named.map(|name| format!("{base}.server-config.{at}.{name}.{last}")));
    }
    all
}

/// The keys that a key of the tables stands for.
fn keys(config: &Tree, key: &str) -> Vec<String> {
    let names = || gabion_proto::registry().iter().map(|protocol| protocol.config_name);
    // What the parser of HTTP/1 is set by: it has libhtp's keys.
    let of_http = || {
        let has_libhtp = |key: &str| key.starts_with("libhtp");
        let protocols = gabion_proto::registry().iter();
        protocols.filter(move |p| p.free_key.is_some_and(has_libhtp)).map(|p| p.config_name)
    };
    if let Some(last) = key.strip_prefix(".htp.") {
        return of_http().flat_map(|name| htp_keys(config, name, last)).collect();
    }
    if let Some(last) = key.strip_prefix(".parser.") {
        return of_http().map(|name| format!("app-layer.protocols.{name}.{last}")).collect();
    }
    let Some((before, after)) = key.split_once('*') else { return vec![key.to_owned()] };
    names().map(|name| format!("{before}{name}{after}")).collect()
}

fn check_setting(
    config: &Tree,
    (key, wanted, module): &Setting,
    is_ending: bool,
    log: &mut Messages<'_>,
) -> bool {
    let mut is_good = true;
    for key in keys(config, key) {
        let Some(value) = config.text(&key) else { continue };
        let Some(allowed) = wanted.refuse(config, value) else { continue };
        if is_ending {
            is_good = false;
            log.error(module, &format!("Invalid value for {key}: \"{value}\": {allowed}"));
        } else if !is_listed_size(&key) {
            let said =
                format!("Invalid value for {key}: \"{value}\": {allowed}; the default holds");
            log.warning(module, &said);
        }
    }
    is_good
}

/// Whether the protocol lists this size itself.
fn is_listed_size(key: &str) -> bool {
    gabion_proto::registry().iter().any(|protocol| {
        let path = |size: &str| format!("app-layer.protocols.{}.{size}", protocol.config_name);
        protocol.sizes.iter().any(|(size, _)| path(size) == key)
    })
}

impl Wanted {
    /// What is allowed, for a value that is not.
    fn refuse(self, config: &Tree, value: &str) -> Option<String> {
        let value = value.trim();
        let words = |list: &[&str]| format!("write one of {}", list.join(", "));
        match self {
            Size if parse_size(value).is_some() => None,
            Size => Some(
                "Valid input is <number><unit>. Unit can be kb/KiB, mb/MiB or gb/GiB".to_owned(),
            ),
            Number(least, most) => {
                let is_one = whole_number(value).is_some_and(|n| (least..=most).contains(&n));
                (!is_one).then(|| numbers(least, most))
            }
            Range(least, most) => {
                let is_other = whole_number(value).is_some_and(|n| !(least..=most).contains(&n));
                is_other.then(|| numbers(least, most))
            }
            Words(list) => (!list.contains(&value)).then(|| words(list)),
            AnyCase(list) => {
                let is_one = list.iter().any(|word| word.eq_ignore_ascii_case(value));
                (!is_one).then(|| words(list))
            }
            Ports => {
                let why = port_fault(config, value)?;
                Some(format!("{}: write ports such as 443, [443, 8443] or any", why.trim()))
            }
            Parsing if truth(value).is_some() => None,
            Parsing if value.eq_ignore_ascii_case("detection-only") => None,
            Parsing => Some(format!("{} or detection-only", words(YES_NO))),
            Text => value.is_empty().then(|| "it is empty".to_owned()),
        }
    }
}

fn whole_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn numbers(least: u64, most: u64) -> String {
    match most {
        ANY => format!("write a whole number from {least} on"),
        most => format!("write a whole number from {least} to {most}"),
    }
}

/// What is wrong with a list of ports, which may name a variable.
fn port_fault(config: &Tree, text: &str) -> Option<String> {
    const NAME: &str = "OF_SETTING";
    let mut tree = Tree::default();
    if let Some(vars) = config.get("vars.port-groups") {
        for (name, value) in &vars.children {
            tree.set(&format!("vars.port-groups.{name}"), value.value.as_deref().unwrap_or(""));
        }
    }
    // Settings may list ports without brackets.
    let is_plain_list = text.contains(',') && !text.contains('[');
    let text = if is_plain_list { format!("[{text}]") } else { text.to_owned() };
    tree.set(&format!("vars.port-groups.{NAME}"), &text);
    let faults = RuleVars::from_config(&tree).faults();
    faults.into_iter().find(|fault| fault.name == NAME).map(|fault| fault.why.to_string())
}

/// `action-order` names each of the four actions once.
fn has_action_order(config: &Tree, log: &mut Messages<'_>) -> bool {
    const ACTIONS: [&str; 4] = ["pass", "drop", "alert", "reject"];
    let advice = "Please, use \"pass\",\"drop\",\"alert\",\"reject\". You have to specify all of them, \
                  without quotes and without capital letters";
    let Some(list) = config.get("action-order") else { return true };
    let mut named = Vec::new();
    for (_, item) in &list.children {
        let action = item.value.as_deref().unwrap_or("");
        let fault = match (ACTIONS.contains(&action), named.contains(&action)) {
            (false, _) => "invalid action",
            (true, true) => "action already set",
            (true, false) => {
                named.push(action);
                continue;
            }
        };
        log.error("action", &format!("action-order, {fault}: \"{action}\". {advice}"));
        return false;
    }
    if named.len() < ACTIONS.len() {
        let said = "action-order, the config didn't specify all of the actions";
        log.error("action", &format!("{said}. {advice}"));
    }
    named.len() == ACTIONS.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::built_in_configuration;

    /// Whether the run continues, and what is reported.
    fn checked(config: &Tree) -> (bool, Vec<String>) {
        let mut said = Vec::new();
        let mut report = |_, _: &str, text: &str| said.push(text.to_owned());
        let is_good = check_values(config, &mut Messages::new(&mut report));
        (is_good, said)
    }

    fn with(key: &str, value: &str) -> (bool, Vec<String>) {
        let mut config = built_in_configuration();
        config.set(key, value);
        checked(&config)
    }

    #[test]
    fn the_built_in_configuration_is_good() {
        assert_eq!(checked(&built_in_configuration()), (true, vec![]));
    }

    // Suricata 8.0.7 ends with each of these (`--set KEY=VALUE`, exit code 1).
    #[test]
    fn values_that_end_a_run_are_named() {
        for (key, value) in [
            ("app-layer.protocols.dns.enabled", "perhaps"),
            ("app-layer.protocols.http.enabled", "2"),
            ("app-layer.protocols.tls.enabled", ""),
            ("app-layer.protocols.dns.udp.enabled", "perhaps"),
            ("app-layer.protocols.http.memcap", "abc"),
            ("app-layer.protocols.http.libhtp.default-config.randomize-inspection-range", "200"),
            ("app-layer.protocols.http.libhtp.default-config.decompression-time-limit", "abc"),
            ("app-layer.protocols.http.libhtp.default-config.swf-decompression.type", "foo"),
            ("stream.reassembly.randomize-chunk-range", "200"),
            ("stream.reassembly.randomize-chunk-range", "100"),
            ("stream.reassembly.randomize-chunk-range", "abc"),
            ("detect.profile", "Low"),
            ("detect.sgh-mpm-context", "foo"),
            ("mpm-algo", "AC"),
            ("spm-algo", "foo"),
            ("autofp-scheduler", "foo"),
            ("host.memcap", "abc"),
            ("ippair.memcap", "abc"),
            ("flow.hash-size", "abc"),
            ("flow.hash-size", "0"),
            ("default-packet-size", "abc"),
            ("threading.stack-size", "abc"),
            ("datasets.limits.total-hashsizes", "abc"),
            ("datasets.limits.single-hashsize", "abc"),
            ("max-pending-packets", "0"),
            ("default-log-dir", ""),
            ("logging.default-log-level", "nope"),
            ("detect.thresholds.memcap", "abc"),
            ("detect.thresholds.hash-size", "7"),
        ] {
            let (is_good, said) = with(key, value);
            let line = format!("Invalid value for {key}: \"{value}\": ");
            let [one] = said.as_slice() else { panic!("{key}: {said:?}") };
            assert!(!is_good && one.starts_with(&line), "{key}: {one}");
        }
    }

    // Suricata 8.0.7 reports each of these and continues.
    #[test]
    fn values_whose_default_holds_are_named() {
        for (key, value) in [
            ("app-layer.protocols.dns.udp.detection-ports.dp", "abc"),
            ("app-layer.protocols.tls.detection-ports.dp", "99999"),
            ("app-layer.protocols.tls.detection-ports.dp", "[443"),
            ("app-layer.protocols.http.libhtp.default-config.personality", "FOO"),
            ("app-layer.protocols.http.byterange.timeout", "abc"),
            ("app-layer.protocols.smtp.inspected-tracker.content-limit", "abc"),
            ("app-layer.protocols.smtp.mime.header-value-depth", "abc"),
            ("app-layer.protocols.mqtt.max-msg-length", "abc"),
            ("app-layer.protocols.http2.max-streams", "abc"),
            ("app-layer.protocols.websocket.max-payload-size", "abc"),
            ("decoder.vxlan.ports", "abc"),
            ("decoder.teredo.ports", "abc"),
            ("decoder.geneve.ports", "99999"),
            ("decoder.max-layers", "abc"),
            ("decoder.max-layers", "300"),
            ("packet-alert-max", "abc"),
            ("packet-alert-max", "0"),
            ("packet-alert-max", "300"),
            ("pcre.match-limit", "abc"),
            ("flow.emergency-recovery", "200"),
            ("flow.emergency-recovery", "0"),
            ("defrag.hash-size", "abc"),
            ("host.prealloc", "abc"),
            ("max-pending-packets", "abc"),
            ("stats.interval", "abc"),
            ("pcap-file.buffer-size", "abc"),
            ("host-mode", "foo"),
        ] {
            let (is_good, said) = with(key, value);
            let line = format!("Invalid value for {key}: \"{value}\": ");
            let [one] = said.as_slice() else { panic!("{key}: {said:?}") };
            assert!(is_good && one.starts_with(&line), "{key}: {one}");
            assert!(one.ends_with("; the default holds"), "{one}");
        }
    }

    // Suricata 8.0.7 takes these without a word.
    #[test]
    fn values_that_are_good_are_not_named() {
        for (key, value) in [
            ("app-layer.protocols.dns.enabled", "YES"),
            ("app-layer.protocols.dns.enabled", "Detection-only"),
            ("app-layer.protocols.dns.enabled", "0"),
            ("mpm-algo", "ac-ks"),
            ("spm-algo", "bm"),
            ("autofp-scheduler", "ftp-hash"),
            ("logging.default-log-level", "Info"),
            ("app-layer.protocols.http.libhtp.default-config.swf-decompression.type", "both"),
            ("decoder.vxlan.ports", "[8472, 4789]"),
            ("app-layer.protocols.smb.detection-ports.dp", "139, 445"),
            ("host-mode", "sniffer-only"),
        ] {
            assert_eq!(with(key, value), (true, vec![]), "{key}");
        }
    }

    // The words are those of Suricata 8.0.7.
    #[test]
    fn an_order_of_actions_names_each_once() {
        for (items, said) in [
            (
                &["pass", "alert"][..],
                "action-order, the config didn't specify all of the actions. ",
            ),
            (&["pass", "drop", "reject", "foo"], "action-order, invalid action: \"foo\". "),
            (&["pass", "pass", "reject", "alert"], "action-order, action already set: \"pass\". "),
            (&["pass", "drop", "reject", "alert"], ""),
        ] {
            let mut config = Tree::default();
            for (at, item) in items.iter().enumerate() {
                config.set(&format!("action-order.{at}"), item);
            }
            let (is_good, lines) = checked(&config);
            assert_eq!(is_good, said.is_empty());
            assert!(
                lines.first().map_or(said.is_empty(), |line| line.starts_with(said)),
                "{lines:?}"
            );
        }
    }
}

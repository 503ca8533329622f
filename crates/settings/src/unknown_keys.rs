//! Keys of a configuration that nothing is made of: most are slips of the pen, which Suricata passes
//! over in silence. They are named once and end nothing.

use crate::limits::UNKNOWN_KEYS_NAMED_MAX;
use gabion_record::Tree;
use std::collections::HashSet;

/// Names of all keys Suricata has, by words; those of protocols are known from their registry too.
const KNOWN: &str = include_str!("known_keys.txt");

/// Sections whose keys are names that users choose.
const FREE: [&str; 4] = ["vars", "datasets", "host-os-policy", "firewall.policies"];

/// Sections that Suricata knows and that have no effect here, where they are enabled: rules of tenants are not loaded.
/// Users choose names in them.
const WITHOUT_EFFECT: &[&str] = &["multi-detect"];

/// One line that names them, if there are any.
pub fn unknown_keys_line(config: &Tree) -> Option<String> {
    let mut known: HashSet<&str> =
        KNOWN.lines().filter(|l| !l.starts_with('#')).flat_map(str::split_whitespace).collect();
    let mut free: Vec<String> = FREE.map(str::to_owned).into();
    for protocol in gabion_proto::registry() {
        known.extend([protocol.config_name, protocol.eve_type]);
        let name = protocol.config_name;
        free.extend(protocol.free_key.map(|key| format!("app-layer.protocols.{name}.{key}")));
    }
    let mut found = Vec::new();
    collect("", config, (&known, &free), &mut found);
    let more = found.len().saturating_sub(UNKNOWN_KEYS_NAMED_MAX);
    found.truncate(UNKNOWN_KEYS_NAMED_MAX);
    let list = found.join(", ");
    match (found.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(format!("unsupported settings, ignored: {list}")),
        (false, n) => Some(format!("unsupported settings, ignored: {list} and {n} more")),
    }
}

fn collect(
    prefix: &str,
    tree: &Tree,
    (known, free): (&HashSet<&str>, &[String]),
    found: &mut Vec<String>,
) {
    for (name, child) in &tree.children {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let is_place = tree.is_sequence || name.bytes().all(|b| b.is_ascii_digit());
        if WITHOUT_EFFECT.contains(&path.as_str()) {
            if child.flag("enabled") == Some(true) {
                found.push(path);
            }
            continue;
        }
        // A key may stand with all of its path before it.
        let is_known = is_place
            || name.split('.').all(|word| known.contains(word.replace('_', "-").as_str()))
            || known.contains(name.as_str())
            || free.iter().any(|free| path.starts_with(free.as_str()));
        if !is_known {
            if !found.contains(&path) {
                found.push(path);
            }
            continue;
        }
        if !free.contains(&path) {
            collect(&path, child, (known, free), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::configuration::built_in_configuration;
    use crate::yaml::read_yaml_text;

    /// Keys that parsers obey, most of which Suricata's own file does not show.
    #[test]
    fn keys_that_are_obeyed_are_known() {
        let mut config = Tree::default();
        for (protocol, keys) in [
            ("nfs", "max-tx max-read-size max-write-size max-read-queue-size max-write-queue-cnt"),
            ("smb", "max-read-queue-cnt max-write-queue-size max-write-size max-guid-cache-size"),
            ("smb", "max-read-offset-cache-size max-tree-cache-size max-dcerpc-frag-cache-size"),
            ("pgsql", "max-tx max-responses"),
            ("ldap", "max-responses"),
            ("mqtt", "max-msg-length max-tx max-messages subscribe-topic-match-limit"),
            ("http2", "max-streams max-table-size max-reassembly-size max-frames"),
            ("http2", "compression-bomb-limit"),
            ("dnp3", "max-tx max-points max-objects"),
            ("dcerpc", "max-stub-size max-tx"),
            ("websocket", "max-payload-size"),
            ("rfb", "max-string-length"),
            ("nfs", "max-names max-requests"),
        ] {
            for key in keys.split(' ') {
                config.set(&format!("app-layer.protocols.{protocol}.{key}"), "64");
            }
        }
        assert_eq!(unknown_keys_line(&config), None);
    }

    #[test]
    fn slips_are_named_and_names_of_users_are_not() {
        assert_eq!(unknown_keys_line(&built_in_configuration()), None);
        let text = "%YAML 1.1\n---\nvars: {address-groups: {MINE: '[1.2.3.4]'}}\n\
                    flow: {memcapp: 1mb, memcap: 1mb}\n\
                    outputs:\n  - eve-log: {enabled: yes, type: [alert], types: [http]}\n\
                    datasets: {seen-hosts: {type: string}}\nvlan.use-for-tracking: no\nnonsense: {a: b}\n";
        let config = read_yaml_text("test", text).unwrap();
        let tenants = |enabled: &str| {
            let mut config = config.clone();
            config.set("multi-detect.enabled", enabled);
            config.set("multi-detect.tenants.0.yaml", "t1.yaml");
            unknown_keys_line(&config).unwrap()
        };
        assert!(tenants("yes").ends_with(": flow.memcapp, nonsense, multi-detect"));
        assert!(tenants("no").ends_with(": flow.memcapp, nonsense"));
        let said = unknown_keys_line(&config).unwrap();
        assert_eq!(said, "unsupported settings, ignored: flow.memcapp, nonsense");
    }
}

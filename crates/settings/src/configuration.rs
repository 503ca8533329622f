//! The configuration of a run: the built-in one or a file, then `--set`, then flags.

use crate::error::{Error, Result};
use crate::yaml::{read_yaml_file, read_yaml_text};
use gabion_record::Tree;
use std::path::Path;

/// The built-in configuration as text.
const BUILT_IN: &str = include_str!("default.yaml");

/// The file's configuration or the built-in one, changed by `name=value` settings; `report` takes a line
/// for each key that the file gives more than once.
///
/// # Errors
/// When the file can't be read, or a setting has no value.
pub fn load_configuration(
    file: Option<&Path>,
    sets: &[String],
    report: &mut dyn FnMut(&str),
) -> Result<Tree> {
    let mut config = match file {
        Some(path) => read_yaml_file(path, report)?,
        None => built_in_configuration(),
    };
    for set in sets {
        let Some((name, value)) = set.split_once('=') else {
            return Err(Error::NoValue { setting: set.clone() });
        };
        config.set(name.trim(), value.trim());
    }
    Ok(config)
}

/// The built-in configuration. Its text is a constant, so a fault in it shows in the test below. The
/// types of EVE that are protocols' come from their registry.
pub fn built_in_configuration() -> Tree {
    let mut config = read_yaml_text("built-in configuration", BUILT_IN).unwrap_or_default();
    gabion_proto::registry::log_by_default(&mut config);
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_configuration_is_read_whole() {
        let config = read_yaml_text("built-in", BUILT_IN).unwrap();
        assert_eq!(config.text("vars.address-groups.EXTERNAL_NET"), Some("!$HOME_NET"));
        assert_eq!(config.size("stream.reassembly.memcap"), Some(256 << 20));
        assert_eq!(config.number("detect.prefilter.x"), None);
        assert_eq!(config.text("detect.prefilter.default"), Some("mpm"));
    }

    /// What Suricata's default configuration writes.
    #[test]
    fn records_of_protocols_are_written_by_default() {
        let config = built_in_configuration();
        let eve = config.get("outputs").and_then(|o| o.items("eve-log").next()).unwrap();
        let types = eve.get("types").unwrap();
        for name in "alert anomaly http dns mdns tls files smtp websocket ftp rdp nfs smb tftp ike \
                     dcerpc krb5 bittorrent-dht snmp rfb sip quic ldap pop3 dhcp ssh mqtt http2 doh2 \
                     stats flow"
            .split_whitespace()
        {
            assert!(types.item(name).is_some(), "{name}");
        }
    }

    /// What is set here is set as in Suricata's listing of its own defaults (`--dump-config`).
    #[test]
    fn the_built_in_configuration_means_what_the_one_of_suricata_means() {
        let test = "the_built_in_configuration_means_what_the_one_of_suricata_means";
        let path = "suricata-verify/peer/dump-config-default.txt";
        let Some(listing) = gabion_corpus::read_text(test, path) else { return };
        // On purpose different: records can be joined with other tools' by the community id.
        let ours = ["community-id"];
        let known: std::collections::HashMap<&str, &str> =
            listing.lines().filter_map(|l| l.split_once(" = ")).collect();
        let mut compared = 0;
        leaves("", &built_in_configuration(), &mut |path, value| {
            if path.starts_with("outputs.") || ours.iter().any(|o| path.ends_with(o)) {
                return;
            }
            assert_eq!(known.get(path), Some(&value), "{path}");
            compared += 1;
        });
        assert!(compared > 150, "{compared}");
    }

    fn leaves(prefix: &str, t: &Tree, visit: &mut dyn FnMut(&str, &str)) {
        for (name, child) in &t.children {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            if let Some(v) = &child.value {
                visit(&path, v);
            }
            leaves(&path, child, visit);
        }
    }
}

//! Interfaces to read from, as `af-packet` of Suricata's configuration describes them.
//!
//! An interface that has no entry of its own gets what the entry `default` says, as in Suricata; what neither says has
//! the defaults below.

use crate::limits::{RING_BLOCK_MAX, RING_BYTES_MAX};
use gabion_record::Tree;

/// Bytes of a block unless configured: thousands of packets, so that the kernel wakes the reader rarely under load.
const BLOCK_LEN: u64 = 256 << 10;
/// Bytes of a ring unless configured: an eighth of a second of a gigabit a second.
const RING_BYTES: u64 = 16 << 20;
/// Milliseconds after which a block that is not full is handed over: Suricata's default.
const BLOCK_TIMEOUT_MS: u64 = 10;
/// Bytes of a slot of Suricata's ring for a packet of the usual size, of which `ring-size` is the number.
const SLOT: u64 = 1600;
/// Fewer blocks leave the kernel none while one is read.
const BLOCKS_MIN: u64 = 4;

/// An interface to read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSettings {
    /// Its name.
    pub name: String,
    /// Bytes of a block of the ring: a power of two, a page at least.
    pub block_len: u32,
    /// Blocks of the ring.
    pub blocks: u32,
    /// Milliseconds after which a block that is not full is handed over.
    pub block_timeout_ms: u32,
    /// Frames that are addressed to others are asked for.
    pub is_promiscuous: bool,
    /// Which frames are read.
    pub filter: Option<String>,
}

/// The value of a key in the interface's own entry, else in the default one.
fn value<'a>(entries: [Option<&'a Tree>; 2], key: &str) -> Option<&'a Tree> {
    entries.into_iter().flatten().find_map(|entry| entry.get(key))
}

impl InterfaceSettings {
    /// The interface with this name, as the configuration describes it.
    pub fn from_config(config: &Tree, name: &str) -> InterfaceSettings {
        let entry = |wanted: &str| {
            let list = config.get("af-packet")?;
            let mut entries = list.children.iter().map(|(_, entry)| entry);
            entries.find(|entry| entry.text("interface") == Some(wanted))
        };
        let entries = [entry(name), entry("default")];
        let size = |key: &str| value(entries, key)?.size("").filter(|n| *n > 0);
        let block_len = size("block-size").unwrap_or(BLOCK_LEN);
        let block_len = block_len.next_power_of_two().clamp(4096, u64::from(RING_BLOCK_MAX));
        let bytes = size("ring-size").map_or(RING_BYTES, |slots| slots.saturating_mul(SLOT));
        let blocks = bytes.min(RING_BYTES_MAX).div_ceil(block_len).max(BLOCKS_MIN);
        let timeout = size("block-timeout").unwrap_or(BLOCK_TIMEOUT_MS).min(1000);
        let is_off = value(entries, "disable-promisc").and_then(|v| v.flag(""));
        InterfaceSettings {
            name: name.to_owned(),
            block_len: block_len as u32,
            blocks: blocks as u32,
            block_timeout_ms: timeout as u32,
            is_promiscuous: is_off != Some(true),
            filter: value(entries, "bpf-filter").and_then(|v| v.text("")).map(str::to_owned),
        }
    }

    /// The interfaces with these names, or, if none is named and `configured` is true, those of the configuration.
    pub fn select(config: &Tree, names: &[String], configured: bool) -> Vec<InterfaceSettings> {
        match configured && names.is_empty() {
            true => InterfaceSettings::all_from_config(config),
            false => names.iter().map(|n| InterfaceSettings::from_config(config, n)).collect(),
        }
    }

    /// The interfaces that the configuration names.
    pub fn all_from_config(config: &Tree) -> Vec<InterfaceSettings> {
        let Some(list) = config.get("af-packet") else { return Vec::new() };
        let names = list.children.iter().filter_map(|(_, entry)| entry.text("interface"));
        let names = names.filter(|name| *name != "default");
        names.map(|name| InterfaceSettings::from_config(config, name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml::read_yaml_text;

    const TEXT: &str = "%YAML 1.1\n---\naf-packet:\n  - interface: eth0\n    ring-size: 10000\n    block-size: 100000\n    disable-promisc: yes\n    bpf-filter: port 80\n  - interface: default\n    block-timeout: 25\n";

    #[test]
    fn an_interface_has_its_own_values_those_of_the_default_entry_and_the_defaults() {
        let config = read_yaml_text("test", TEXT).unwrap();
        let all = InterfaceSettings::all_from_config(&config);
        assert_eq!(all.len(), 1);
        let own = &all[0];
        assert_eq!((own.name.as_str(), own.block_len, own.block_timeout_ms), ("eth0", 1 << 17, 25));
        assert_eq!(own.blocks, 16_000_000_u32.div_ceil(1 << 17));
        assert_eq!((own.is_promiscuous, own.filter.as_deref()), (false, Some("port 80")));
        let other = InterfaceSettings::from_config(&config, "eth1");
        assert_eq!((other.block_len, other.blocks, other.block_timeout_ms), (256 << 10, 64, 25));
        assert!(other.is_promiscuous && other.filter.is_none());
    }
}

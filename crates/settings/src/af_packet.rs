//! Interfaces to read from, as `af-packet` of Suricata's configuration describes them.
//!
//! An interface that has no entry of its own gets what the entry `default` says, as in Suricata; what neither says has
//! the defaults below. A ring of the third version is always used, frames are always dealt by flow, and fragments are
//! put together after they were read: keys that ask for something else are named, without effect.

use crate::error::{Error, Result};
use crate::limits::{INTERFACES_MAX, RING_BLOCK_MAX, RING_BYTES_MAX};
use gabion_record::Tree;
use gabion_runtime::processors;
use std::time::Duration;

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

/// Keys about programs that Suricata loads into the kernel.
const EBPF_KEYS: [&str; 6] = [
    "xdp-mode",
    "xdp-filter-file",
    "xdp-cpu-redirect",
    "ebpf-filter-file",
    "ebpf-lb-file",
    "pinned-maps",
];

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
    /// The ring stays in memory, whatever the kernel would swap out.
    pub is_locked: bool,
    /// Frames that are addressed to others are asked for.
    pub is_promiscuous: bool,
    /// Whether checksums are looked at (`checksum-checks`); none: except where the kernel says that the interface is to
    /// fill them in.
    pub checksums: Option<bool>,
    /// They are not looked at any more once too many of the first were wrong (`checksum-checks: auto`).
    pub samples_checksums: bool,
    /// Threads that read it, where a number is configured; `auto` is one for each processor that the process may use.
    pub threads: Option<usize>,
    /// Which frames are read.
    pub filter: Option<String>,
    /// Keys of its entry that have no effect, a line each.
    pub idle: Vec<String>,
}

/// The value of a key in the interface's own entry, else in the default one.
fn value<'a>(entries: [Option<&'a Tree>; 2], key: &str) -> Option<&'a Tree> {
    entries.into_iter().flatten().find_map(|entry| entry.get(key))
}

/// The entries of a configuration: those of interfaces, and `default`.
fn entries(config: &Tree) -> impl Iterator<Item = &Tree> {
    config.get("af-packet").into_iter().flat_map(|list| list.children.iter().map(|(_, e)| e))
}

/// The threads that read an interface, where that is configured.
fn threads(entries: [Option<&Tree>; 2]) -> Option<usize> {
    let threads = value(entries, "threads")?;
    if threads.text("") == Some("auto") {
        return Some(processors::available());
    }
    threads.size("").filter(|n| *n > 0).and_then(|n| usize::try_from(n).ok())
}

/// Lines about keys that ask for what is not done here.
fn idle_keys(entries: [Option<&Tree>; 2]) -> Vec<String> {
    let text = |key: &str| value(entries, key).and_then(|v| v.text(""));
    let is_off = |key: &str| value(entries, key).and_then(|v| v.flag("")) == Some(false);
    let mut idle = Vec::new();
    if let Some(kind) = text("cluster-type").filter(|kind| *kind != "cluster_flow") {
        idle.push(format!("cluster-type: {kind}: frames are dealt by flow"));
    }
    if let Some(threads) = text("threads").filter(|_| threads(entries).is_none()) {
        idle.push(format!("threads: {threads}: neither a number above 0 nor auto"));
    }
    if is_off("defrag") {
        idle.push("defrag: no: fragments are put together after they were read".to_owned());
    }
    for key in ["use-mmap", "tpacket-v3"] {
        if is_off(key) {
            idle.push(format!("{key}: no: frames are read by mmap, from a ring of version 3"));
        }
    }
    for (key, why) in [
        ("rollover", "a full ring drops, and the drops are counted"),
        ("use-emergency-flush", "a full ring sheds by its own order"),
        ("bypass", "the kernel is not asked to leave out flows"),
    ] {
        if value(entries, key).and_then(|v| v.flag("")) == Some(true) {
            idle.push(format!("{key}: yes: {why}"));
        }
    }
    for (key, why) in [
        ("copy-mode", "frames are not passed on"),
        ("copy-iface", "frames are not passed on"),
        ("buffer-size", "frames wait in the ring, which ring-size sizes"),
    ] {
        if let Some(text) = text(key) {
            idle.push(format!("{key}: {text}: {why}"));
        }
    }
    for key in EBPF_KEYS {
        if value(entries, key).is_some() {
            idle.push(format!("{key}: programs for the interface are not loaded"));
        }
    }
    idle
}

impl InterfaceSettings {
    /// The interface with this name, as the configuration describes it.
    ///
    /// # Errors
    /// The entry asks for frames to be passed on, which a sensor does not do, or a value can't be.
    pub fn from_config(config: &Tree, name: &str) -> Result<InterfaceSettings> {
        let entry = |wanted: &str| entries(config).find(|e| e.text("interface") == Some(wanted));
        let entries = [entry(name), entry("default")];
        let size = |key: &str| value(entries, key)?.size("").filter(|n| *n > 0);
        let text = |key: &str| value(entries, key).and_then(|v| v.text(""));
        let is_on = |key: &str| value(entries, key).and_then(|v| v.flag("")) == Some(true);
        if let Some(mode @ ("ips" | "tap")) = text("copy-mode") {
            return Err(Error::CopyMode { name: name.to_owned(), mode: mode.to_owned() });
        }
        let block_len = size("block-size").unwrap_or(BLOCK_LEN);
        let block_len = block_len.next_power_of_two().clamp(4096, u64::from(RING_BLOCK_MAX));
        let bytes = size("ring-size").map_or(RING_BYTES, |slots| slots.saturating_mul(SLOT));
        let blocks = bytes.min(RING_BYTES_MAX).div_ceil(block_len).max(BLOCKS_MIN);
        let timeout = size("block-timeout").unwrap_or(BLOCK_TIMEOUT_MS).min(1000);
        let checks = text("checksum-checks").filter(|how| !matches!(*how, "kernel" | "auto"));
        let checksums = value(entries, "checksum-checks").and_then(|v| v.flag(""));
        if checks.is_some() && checksums.is_none() {
            return Err(Error::ChecksumChecks { name: name.to_owned() });
        }
        Ok(InterfaceSettings {
            name: name.to_owned(),
            block_len: block_len as u32,
            blocks: blocks as u32,
            block_timeout_ms: timeout as u32,
            is_locked: is_on("mmap-locked"),
            is_promiscuous: !is_on("disable-promisc"),
            checksums,
            samples_checksums: text("checksum-checks") == Some("auto"),
            threads: threads(entries),
            filter: text("bpf-filter").map(str::to_owned),
            idle: idle_keys(entries),
        })
    }

    /// The interfaces with these names, or, if none is named and `configured` is true, those of the configuration. One
    /// that is named twice is read once. `filter` is the command line's, which comes before that of an interface and
    /// of all (`bpf-filter`).
    ///
    /// # Errors
    /// As [`InterfaceSettings::from_config`], and too many of them.
    pub fn select(
        config: &Tree,
        names: &[String],
        configured: bool,
        filter: Option<&str>,
    ) -> Result<Vec<InterfaceSettings>> {
        let mut wanted: Vec<&str> = names.iter().map(String::as_str).collect();
        if configured && names.is_empty() {
            wanted.extend(entries(config).filter_map(|entry| entry.text("interface")));
            wanted.retain(|name| *name != "default");
        }
        let mut all: Vec<InterfaceSettings> = Vec::new();
        for name in wanted {
            if all.iter().any(|known| known.name == name) {
                continue;
            }
            if all.len() >= INTERFACES_MAX {
                return Err(Error::TooManyInterfaces { name: name.to_owned() });
            }
            let mut one = InterfaceSettings::from_config(config, name)?;
            let of_all = || config.text("bpf-filter").map(str::to_owned);
            one.filter = filter.map(str::to_owned).or(one.filter).or_else(of_all);
            all.push(one);
        }
        Ok(all)
    }

    /// The time between two records of statistics of a run over interfaces (`stats.interval`): 8 s unless configured, as
    /// in Suricata.
    pub fn statistics_interval(config: &Tree) -> Duration {
        Duration::from_secs(config.number("stats.interval").unwrap_or(8).max(1))
    }

    /// The threads that these interfaces are configured with, if so: the most of one.
    pub fn threads_of(all: &[InterfaceSettings]) -> Option<usize> {
        all.iter().filter_map(|interface| interface.threads).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unknown_keys::unknown_keys_line;
    use crate::yaml::read_yaml_text;

    const TEXT: &str = "%YAML 1.1\n---\naf-packet:\n  - interface: eth0\n    threads: 3\n    ring-size: 10000\n    block-size: 100000\n    disable-promisc: yes\n    mmap-locked: yes\n    checksum-checks: no\n    cluster-type: cluster_qm\n    bpf-filter: port 80\n  - interface: eth2\n    threads: auto\n  - interface: default\n    block-timeout: 25\n";

    #[test]
    fn an_interface_has_its_own_values_those_of_the_default_entry_and_the_defaults() {
        let config = read_yaml_text("test", TEXT).unwrap();
        let all = InterfaceSettings::select(&config, &[], true, None).unwrap();
        let own = &all[0];
        assert_eq!((own.name.as_str(), own.block_len, own.block_timeout_ms), ("eth0", 1 << 17, 25));
        assert_eq!(own.blocks, 16_000_000_u32.div_ceil(1 << 17));
        assert_eq!((own.is_promiscuous, own.filter.as_deref()), (false, Some("port 80")));
        assert_eq!((own.is_locked, own.checksums), (true, Some(false)));
        assert_eq!(own.idle, ["cluster-type: cluster_qm: frames are dealt by flow"]);
        assert_eq!(InterfaceSettings::threads_of(&all[..1]), Some(3));
        // As in Suricata: a thread for each processor.
        assert_eq!(all[1].threads, Some(processors::available()));
        let most = processors::available().max(3);
        assert_eq!(InterfaceSettings::threads_of(&all), Some(most));
        let names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
        assert_eq!(names, ["eth0", "eth2"]);
        let named = ["eth1", "eth0", "eth1"].map(String::from);
        let all = InterfaceSettings::select(&config, &named, true, Some("tcp")).unwrap();
        assert_eq!(all.len(), 2);
        let other = &all[0];
        assert_eq!((other.block_len, other.blocks, other.block_timeout_ms), (256 << 10, 64, 25));
        assert!(
            other.is_promiscuous && other.filter.as_deref() == Some("tcp") && other.idle.is_empty()
        );
        assert_eq!(InterfaceSettings::threads_of(&all[..1]), None);
    }

    /// Suricata's sample configurations say `use-mmap: yes`, which is what happens: only what has no effect is named, and once.
    #[test]
    fn keys_without_effect_are_named_once_and_keys_that_ask_for_what_happens_are_not() {
        let read = |keys: &str| {
            let text = format!("%YAML 1.1\n---\naf-packet:\n  - interface: eth0\n{keys}");
            let config = read_yaml_text("test", &text).unwrap();
            assert_eq!(unknown_keys_line(&config), None);
            InterfaceSettings::from_config(&config, "eth0").unwrap().idle
        };
        let usual = "    use-mmap: yes\n    tpacket-v3: yes\n    cluster-type: cluster_flow\n    rollover: no\n    threads: auto\n    defrag: yes\n    bypass: no\n";
        assert_eq!(read(usual), <[&str; 0]>::default());
        assert_eq!(
            read("    use-mmap: no\n    ebpf-lb-file: lb.bpf\n    rollover: yes\n"),
            [
                "use-mmap: no: frames are read by mmap, from a ring of version 3",
                "rollover: yes: a full ring drops, and the drops are counted",
                "ebpf-lb-file: programs for the interface are not loaded",
            ]
        );
        assert_eq!(
            read(
                "    defrag: no\n    bypass: yes\n    copy-mode: none\n    copy-iface: eth1\n    buffer-size: 32768\n    threads: many\n"
            ),
            [
                "threads: many: neither a number above 0 nor auto",
                "defrag: no: fragments are put together after they were read",
                "bypass: yes: the kernel is not asked to leave out flows",
                "copy-mode: none: frames are not passed on",
                "copy-iface: eth1: frames are not passed on",
                "buffer-size: 32768: frames wait in the ring, which ring-size sizes",
            ]
        );
    }

    #[test]
    fn what_no_sensor_does_is_refused() {
        for (key, part) in [
            ("copy-mode: ips", "eth0: copy-mode: ips: frames are read and not passed on"),
            ("checksum-checks: perhaps", "eth0: checksum-checks: write kernel"),
        ] {
            let text = format!("%YAML 1.1\n---\naf-packet:\n  - interface: eth0\n    {key}\n");
            let config = read_yaml_text("test", &text).unwrap();
            let refused =
                InterfaceSettings::select(&config, &[], true, None).unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
        }
    }
}

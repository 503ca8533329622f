//! Policies: how the monitored hosts treat overlaps (`host-os-policy`), and what to do when a limit
//! is reached (exception policies).
//!
//! This crate only reports that a limit was reached ([`ExceptionTrigger`]); the engine decides what
//! happens to the packet or flow, by the [`ExceptionPolicy`] of the configuration.

use crate::error::{ConfigError, Result};
use gabion_record::{Addr, Tree};
use std::net::IpAddr;

pub use gabion_record::exception::{ExceptionPolicy, ExceptionTrigger};

/// The TCP/IP stack of the receiving host, as far as reassembly depends on it. The names are those
/// of the configuration; the two without a name there are internal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum OsPolicy {
    /// First data wins (inline mode).
    First,
    /// Last data wins.
    Last,
    /// BSD, the built-in default.
    #[default]
    Bsd,
    /// BSD-right (defragmentation only).
    BsdRight,
    /// Linux before 2.2 ("old-linux").
    OldLinux,
    /// Linux.
    Linux,
    /// Old Solaris.
    OldSolaris,
    /// Solaris.
    Solaris,
    /// HP-UX 10.
    Hpux10,
    /// HP-UX 11.
    Hpux11,
    /// IRIX.
    Irix,
    /// macOS.
    Macos,
    /// Windows.
    Windows,
    /// Windows Vista and later.
    Vista,
    /// Windows Server 2003.
    Windows2k3,
}

/// The names of `host-os-policy`.
pub(crate) const OS_POLICY_NAMES: [(&str, OsPolicy); 13] = [
    ("windows", OsPolicy::Windows),
    ("bsd", OsPolicy::Bsd),
    ("bsd-right", OsPolicy::BsdRight),
    ("old-linux", OsPolicy::OldLinux),
    ("linux", OsPolicy::Linux),
    ("old-solaris", OsPolicy::OldSolaris),
    ("solaris", OsPolicy::Solaris),
    ("hpux10", OsPolicy::Hpux10),
    ("hpux11", OsPolicy::Hpux11),
    ("irix", OsPolicy::Irix),
    ("macos", OsPolicy::Macos),
    ("vista", OsPolicy::Vista),
    ("windows2k3", OsPolicy::Windows2k3),
];

impl OsPolicy {
    /// The policy of a configuration name.
    pub fn from_name(name: &str) -> Option<OsPolicy> {
        OS_POLICY_NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, p)| *p)
    }
}

/// The policy of each network: the longest prefix wins.
#[derive(Clone, Debug, Default)]
pub struct HostOsPolicy {
    /// Prefixes by version (0 = IPv4, 1 = IPv6), longest first.
    prefixes: [Vec<(u128, u8, OsPolicy)>; 2],
}

impl HostOsPolicy {
    /// No entries: every host is [`OsPolicy::Bsd`].
    pub fn new() -> HostOsPolicy {
        HostOsPolicy::default()
    }

    /// Reads the children of `host-os-policy`.
    ///
    /// # Errors
    /// The key with what is wrong: an unknown name or an invalid address.
    pub fn from_tree(node: Option<&Tree>) -> Result<HostOsPolicy> {
        let mut table = HostOsPolicy::new();
        for (name, list) in node.map(|n| n.children.as_slice()).unwrap_or_default() {
            let policy = OsPolicy::from_name(name)
                .ok_or_else(|| ConfigError::UnknownPolicy(name.clone()))?;
            let one = list.value.iter().map(String::as_str);
            let many = list.children.iter().filter_map(|(_, t)| t.value.as_deref());
            for text in one.chain(many).filter(|t| !t.trim().is_empty()) {
                table.add(text, policy).ok_or_else(|| ConfigError::NotANetwork {
                    policy: name.clone(),
                    text: text.to_owned(),
                })?;
            }
        }
        Ok(table)
    }

    /// Adds a network (`10.0.0.0/8`, an address, or `a.b.c.d/netmask`).
    fn add(&mut self, text: &str, policy: OsPolicy) -> Option<()> {
        let (ip, bits) = match text.trim().split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (text.trim(), None),
        };
        let ip: IpAddr = ip.trim().parse().ok()?;
        let most: u8 = if ip.is_ipv4() { 32 } else { 128 };
        let bits = match bits.map(str::trim) {
            None => most,
            Some(mask) if mask.contains('.') => {
                let mask: std::net::Ipv4Addr = mask.parse().ok()?;
                mask.to_bits().leading_ones() as u8
            }
            Some(bits) => bits.parse().ok().filter(|b| *b <= most)?,
        };
        let list = &mut self.prefixes[usize::from(ip.is_ipv6())];
        let prefix = masked(Addr::from_ip(ip).as_u128(), bits);
        match list.iter_mut().find(|e| (e.0, e.1) == (prefix, bits)) {
            Some(entry) => entry.2 = policy,
            None => {
                let at = list.partition_point(|e| e.1 >= bits);
                list.insert(at, (prefix, bits, policy));
            }
        }
        Some(())
    }

    /// The policy of a host. `ip_version` is 4 or 6.
    pub fn lookup(&self, addr: Addr, ip_version: u8) -> OsPolicy {
        let n = addr.as_u128();
        self.prefixes[usize::from(ip_version == 6)]
            .iter()
            .find(|(prefix, bits, _)| masked(n, *bits) == *prefix)
            .map_or(OsPolicy::default(), |(_, _, policy)| *policy)
    }
}

/// The first `bits` bits; an IPv4 address is in the upper 32.
fn masked(addr: u128, bits: u8) -> u128 {
    if bits == 0 { 0 } else { addr & (u128::MAX << (128 - u32::from(bits.min(128)))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_prefix_decides_and_bsd_is_the_default() {
        let mut t = Tree::default();
        t.set("linux.0", "10.0.0.0/8");
        t.set("windows.0", "10.1.0.0/255.255.0.0");
        t.set("solaris.0", "2001:db8::/32");
        t.set("macos", "192.0.2.7");
        t.set("vista", "");
        let hosts = HostOsPolicy::from_tree(Some(&t)).unwrap();
        let v4 = |a, b, c, d| hosts.lookup(Addr::v4([a, b, c, d]), 4);
        assert_eq!(v4(10, 2, 3, 4), OsPolicy::Linux);
        assert_eq!(v4(10, 1, 3, 4), OsPolicy::Windows);
        assert_eq!(v4(11, 1, 3, 4), OsPolicy::Bsd);
        assert_eq!(v4(192, 0, 2, 7), OsPolicy::Macos);
        let six: std::net::Ipv6Addr = "2001:db8::1".parse().unwrap();
        assert_eq!(hosts.lookup(Addr::v6(six.octets()), 6), OsPolicy::Solaris);
    }

    #[test]
    fn unknown_names_are_refused_with_their_key() {
        for (key, value, want) in [
            ("first.0", "10.0.0.0/8", "host-os-policy.first: no such policy"),
            ("bsd.0", "10.0.0.0/33", "host-os-policy.bsd: \"10.0.0.0/33\" is not a network"),
            ("bsd.0", "ten", "host-os-policy.bsd: \"ten\" is not a network"),
        ] {
            let mut t = Tree::default();
            t.set(key, value);
            assert_eq!(HostOsPolicy::from_tree(Some(&t)).unwrap_err().to_string(), want);
        }
    }
}

//! IP addresses as the packet path carries them: 16 bytes, whichever the version.

use crate::hex;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address in network byte order. An IPv4 address is in the first four bytes, followed by twelve
/// zero bytes; its version is kept next to it (packets, flows and rules know it), so
/// that comparing and hashing are one 16-byte operation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Addr(pub [u8; 16]);

impl Addr {
    /// The IPv4 address of these four bytes.
    #[inline]
    pub const fn v4(b: [u8; 4]) -> Addr {
        Addr([b[0], b[1], b[2], b[3], 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    /// The IPv6 address of these sixteen bytes.
    #[inline]
    pub const fn v6(b: [u8; 16]) -> Addr {
        Addr(b)
    }

    /// The first four bytes: the IPv4 address, when it is one.
    #[inline]
    pub const fn v4_bytes(self) -> [u8; 4] {
        [self.0[0], self.0[1], self.0[2], self.0[3]]
    }

    /// The IPv4 address as a number in host order.
    #[inline]
    pub const fn v4_u32(self) -> u32 {
        u32::from_be_bytes(self.v4_bytes())
    }

    /// The whole as a number in host order, for range comparisons within one version.
    #[inline]
    pub const fn as_u128(self) -> u128 {
        u128::from_be_bytes(self.0)
    }

    /// From the standard library's type.
    pub fn from_ip(ip: IpAddr) -> Addr {
        match ip {
            IpAddr::V4(a) => Addr::v4(a.octets()),
            IpAddr::V6(a) => Addr::v6(a.octets()),
        }
    }

    /// To the standard library's type; `version` is 4 or 6.
    pub fn to_ip(self, version: u8) -> IpAddr {
        if version == 6 {
            IpAddr::V6(Ipv6Addr::from(self.0))
        } else {
            IpAddr::V4(Ipv4Addr::from(self.v4_bytes()))
        }
    }

    /// Appends the address as EVE writes it: dotted decimal, or eight full groups of four hex
    /// digits (`2001:0db8:0000:…`, never shortened).
    pub fn write(self, version: u8, out: &mut Vec<u8>) {
        if version == 6 {
            for (i, b) in self.0.iter().enumerate() {
                if i > 0 && i % 2 == 0 {
                    out.push(b':');
                }
                out.extend_from_slice(&hex::digits(*b));
            }
        } else {
            let mut n = itoa::Buffer::new();
            for (i, b) in self.v4_bytes().iter().enumerate() {
                if i > 0 {
                    out.push(b'.');
                }
                out.extend_from_slice(n.format(*b).as_bytes());
            }
        }
    }

    /// The text of [`Addr::write`] as a string.
    pub fn text(self, version: u8) -> String {
        let mut v = Vec::with_capacity(40);
        self.write(version, &mut v);
        String::from_utf8(v).unwrap_or_default()
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.0[4..].iter().all(|b| *b == 0) { 4 } else { 6 };
        f.write_str(&self.text(version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_eve_writes_them() {
        assert_eq!(Addr::v4([10, 0, 200, 1]).text(4), "10.0.200.1");
        let six: Ipv6Addr = "fe80::4b6:2b35:b860:803f".parse().unwrap();
        assert_eq!(Addr::v6(six.octets()).text(6), "fe80:0000:0000:0000:04b6:2b35:b860:803f");
    }
}

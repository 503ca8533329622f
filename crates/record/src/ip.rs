//! IP addresses and networks as logs and profiles carry them: one key of sixteen bytes for both
//! versions, IPv4 mapped into IPv6 (`::ffff:a.b.c.d`), so that keyed state needs no version next to
//! it. The packet path has [`crate::Addr`] instead, whose version is in the packet.
//!
//! The questions asked of an address (private, multicast, …) answer as Python's `ipaddress` does,
//! which decides them for Slips, whose detections these types serve.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IP address of either version, IPv4 mapped.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ip {
    high: u64,
    low: u64,
}

/// The lower half of a mapped IPv4 address before its four bytes.
const MAPPED: u64 = 0x0000_ffff_0000_0000;

impl Ip {
    /// The IPv4 address of this number in host order.
    #[inline]
    pub const fn v4(n: u32) -> Ip {
        Ip { high: 0, low: MAPPED | n as u64 }
    }

    /// The address of sixteen bytes in network order (IPv4 mapped).
    #[inline]
    pub const fn from_bytes(b: [u8; 16]) -> Ip {
        let n = u128::from_be_bytes(b);
        Ip { high: (n >> 64) as u64, low: n as u64 }
    }

    /// Sixteen bytes in network order (IPv4 mapped).
    #[inline]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.number().to_be_bytes()
    }

    /// The whole as a number, for ranges.
    #[inline]
    pub const fn number(self) -> u128 {
        ((self.high as u128) << 64) | self.low as u128
    }

    /// Its two halves, high first, for hashing.
    #[inline]
    pub const fn halves(self) -> (u64, u64) {
        (self.high, self.low)
    }

    /// Whether it is an IPv4 address.
    #[inline]
    pub const fn is_v4(self) -> bool {
        self.high == 0 && self.low >> 32 == MAPPED >> 32
    }

    /// The IPv4 address as a number in host order.
    #[inline]
    pub const fn as_v4(self) -> Option<u32> {
        if self.is_v4() { Some(self.low as u32) } else { None }
    }

    /// Reads an address from text: dotted decimal without leading zeros' tricks, or IPv6 in any
    /// of its forms, with a zone (`%eth0`) ignored.
    #[inline]
    pub fn parse(text: &[u8]) -> Option<Ip> {
        match parse_v4(text) {
            Some(n) => Some(Ip::v4(n)),
            None => parse_v6(text),
        }
    }

    /// To the standard library's type.
    pub fn to_std(self) -> IpAddr {
        match self.as_v4() {
            Some(n) => IpAddr::V4(Ipv4Addr::from(n)),
            None => IpAddr::V6(Ipv6Addr::from(self.number())),
        }
    }

    /// Multicast.
    #[inline]
    pub fn is_multicast(self) -> bool {
        match self.as_v4() {
            Some(n) => n >> 28 == 0xe,
            None => self.high >> 56 == 0xff,
        }
    }

    /// Link-local: 169.254/16, fe80::/10.
    #[inline]
    pub fn is_link_local(self) -> bool {
        match self.as_v4() {
            Some(n) => n >> 16 == 0xa9fe,
            None => self.high >> 54 == 0xfe80 >> 6,
        }
    }

    /// Loopback.
    #[inline]
    pub fn is_loopback(self) -> bool {
        match self.as_v4() {
            Some(n) => n >> 24 == 127,
            None => self.high == 0 && self.low == 1,
        }
    }

    /// 0.0.0.0 or ::.
    #[inline]
    pub fn is_unspecified(self) -> bool {
        matches!(self.as_v4(), Some(0)) || self.number() == 0
    }

    /// 255.255.255.255.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self.as_v4() == Some(u32::MAX)
    }

    /// Whether a host can send from it: no group, nobody (0.0.0.0, ::), and no broadcast of all or of the
    /// link-local network (169.254.255.255).
    #[inline]
    pub fn can_send(self) -> bool {
        const LINK_LOCAL_ALL: u32 = 0xa9fe_ffff;
        !self.is_multicast()
            && !self.is_broadcast()
            && !self.is_unspecified()
            && self.as_v4() != Some(LINK_LOCAL_ALL)
    }

    /// Reserved by the IETF for later (240/4, and the unassigned eighths of IPv6).
    pub fn is_reserved(self) -> bool {
        if let Some(n) = self.as_v4() {
            return n >> 28 == 0xf;
        }
        // Length of the prefix and its value, after Python's list.
        const BLOCKS: [(u32, u128); 15] = [
            (8, 0x00),
            (8, 0x01),
            (7, 0x01),
            (6, 0x01),
            (5, 0x01),
            (4, 0x1),
            (3, 0b010),
            (3, 0b011),
            (3, 0b100),
            (3, 0b101),
            (3, 0b110),
            (4, 0xe),
            (5, 0b11110),
            (6, 0b111110),
            (9, 0b1_1111_1100),
        ];
        BLOCKS.iter().any(|(len, value)| self.number() >> (128 - len) == *value)
    }

    /// Private in the sense of Python 3.11's `ipaddress`: not globally reachable by assignment.
    pub fn is_private(self) -> bool {
        if let Some(n) = self.as_v4() {
            return matches!(n >> 24, 0 | 10 | 127 | 240..=255)
                || n >> 16 == 0xa9fe
                || n >> 20 == 0xac1
                || n >> 3 == 0xc000_0000 >> 3
                || n >> 1 == 0xc000_00aa >> 1
                || n >> 8 == 0xc0_0002
                || n >> 16 == 0xc0a8
                || n >> 17 == 0xc612 >> 1
                || matches!(n >> 8, 0xc6_3364 | 0xcb_0071);
        }
        let n = self.number();
        n <= 1
            || self.high == 0x0100_0000_0000_0000
            || n >> 105 == 0x2001_0000 >> 9
            || n >> 80 == 0x2001_0002_0000
            || n >> 96 == 0x2001_0db8
            || n >> 100 == 0x200_1001
            || n >> 121 == 0xfc >> 1
            || self.is_link_local()
    }

    /// The private block of RFC 1918 that holds it.
    pub fn rfc1918(self) -> Option<Net> {
        let n = self.as_v4()?;
        let (base, len) = match n {
            _ if n >> 24 == 10 => (0x0a00_0000, 8),
            _ if n >> 20 == 0xac1 => (0xac10_0000, 12),
            _ if n >> 16 == 0xc0a8 => (0xc0a8_0000, 16),
            _ => return None,
        };
        Some(Net::new(Ip::v4(base), len + 96))
    }

    /// An address that no reputation is asked of: multicast, private, link-local, loopback,
    /// reserved.
    pub fn is_ignored(self) -> bool {
        self.is_multicast() || self.is_private() || self.is_reserved()
    }
}

#[inline]
fn parse_v4(text: &[u8]) -> Option<u32> {
    if text.len() < 7 || text.len() > 15 {
        return None;
    }
    let (mut all, mut part, mut digits, mut dots) = (0u32, 0u32, 0u8, 0u8);
    for &b in text {
        match b {
            b'0'..=b'9' => {
                part = part * 10 + u32::from(b - b'0');
                digits += 1;
                if digits > 3 || part > 255 {
                    return None;
                }
            }
            b'.' if digits > 0 && dots < 3 => {
                all = all << 8 | part;
                (part, digits) = (0, 0);
                dots += 1;
            }
            _ => return None,
        }
    }
    (dots == 3 && digits > 0).then_some(all << 8 | part)
}

fn parse_v6(text: &[u8]) -> Option<Ip> {
    let text = text.split(|b| *b == b'%').next()?;
    if text.len() < 2 || text.len() > 45 || !text.contains(&b':') {
        return None;
    }
    let six: Ipv6Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(Ip::from_bytes(six.octets()))
}

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_v4() {
            Some(n) => {
                let mut text = [0; V4_TEXT_MAX];
                f.pad(v4_text(n, &mut text))
            }
            None => f.pad(&Ipv6Addr::from(self.number()).to_string()),
        }
    }
}

impl Ip {
    /// Appends its text.
    #[inline]
    pub fn put_text(self, out: &mut Vec<u8>) {
        match self.as_v4() {
            Some(n) => out.extend_from_slice(v4_text(n, &mut [0; V4_TEXT_MAX]).as_bytes()),
            None => out.extend_from_slice(self.to_string().as_bytes()),
        }
    }
}

/// Longest text of an IPv4 address.
const V4_TEXT_MAX: usize = 15;

/// The four numbers between dots. By hand: evidence names two addresses several times each.
fn v4_text(n: u32, text: &mut [u8; V4_TEXT_MAX]) -> &str {
    let mut len = 0;
    let mut push = |byte: u8| {
        if let Some(place) = text.get_mut(len) {
            *place = byte;
            len += 1;
        }
    };
    for (at, part) in n.to_be_bytes().into_iter().enumerate() {
        if at > 0 {
            push(b'.');
        }
        if part >= 100 {
            push(b'0' + part / 100);
        }
        if part >= 10 {
            push(b'0' + part / 10 % 10);
        }
        push(b'0' + part % 10);
    }
    text.get(..len).and_then(|t| std::str::from_utf8(t).ok()).unwrap_or_default()
}

impl fmt::Debug for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A network: addresses that share their first bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Net {
    base: Ip,
    /// Bits shared, of the mapped form: an IPv4 /8 has 104.
    len: u8,
}

impl Net {
    /// The network of `len` bits (of the mapped form, 0 to 128) that holds `ip`.
    pub const fn new(ip: Ip, len: u8) -> Net {
        let len = if len > 128 { 128 } else { len };
        let mask = if len == 0 { 0 } else { u128::MAX << (128 - len) };
        Net { base: Ip::from_bytes((ip.number() & mask).to_be_bytes()), len }
    }

    /// Reads `10.0.0.0/8`, `fd00::/8`, or a single address.
    pub fn parse(text: &[u8]) -> Option<Net> {
        let mut parts = text.splitn(2, |b| *b == b'/');
        let ip = Ip::parse(parts.next()?)?;
        let most: u8 = if ip.is_v4() { 32 } else { 128 };
        let len = match parts.next() {
            None => most,
            Some(digits) => {
                std::str::from_utf8(digits).ok()?.parse().ok().filter(|n| *n <= most)?
            }
        };
        Some(Net::new(ip, len + (128 - most)))
    }

    /// Whether it holds the address.
    #[inline]
    pub fn contains(self, ip: Ip) -> bool {
        self.len == 0 || (self.base.number() ^ ip.number()) >> (128 - self.len) == 0
    }

    /// Its first address.
    pub const fn base(self) -> Ip {
        self.base
    }

    /// Bits shared, of the mapped form.
    pub const fn len_mapped(self) -> u8 {
        self.len
    }
}

impl fmt::Display for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = if self.base.is_v4() { self.len.saturating_sub(96) } else { self.len };
        write!(f, "{}/{len}", self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Ip {
        Ip::parse(text.as_bytes()).unwrap()
    }

    /// Every text is read as one that is taken apart at its dots, with any byte at any place.
    #[test]
    fn addresses_are_read_as_four_numbers() {
        let simple = |text: &[u8]| -> Option<u32> {
            let parts: Vec<&[u8]> = text.split(|b| *b == b'.').collect();
            let number = |part: &&[u8]| -> Option<u32> {
                let is_short = (1..=3).contains(&part.len()) && part.iter().all(u8::is_ascii_digit);
                let n: u32 = std::str::from_utf8(part).ok().filter(|_| is_short)?.parse().ok()?;
                (n <= 255).then_some(n)
            };
            let numbers: Vec<u32> = parts.iter().map(number).collect::<Option<_>>()?;
            let four: [u32; 4] = numbers.try_into().ok()?;
            Some(four.iter().fold(0, |all, n| all << 8 | n))
        };
        let texts = [
            "1.2.3.4",
            "1.2.3.45",
            "10.2.3.45",
            "192.168.1.20",
            "255.255.255.255",
            "256.1.1.1",
            "1.999.1.1",
            "001.02.3.4",
            "0.0.0.0",
            "1..2.3",
            "1.2.3.",
            ".1.2.3.4",
            "1.2.3.4.5",
            "1.2.3",
            "1234.1.1.1",
            "11.22.33.44",
            "123.45.67.890",
            "99.100.101.9",
            "1.2.3.4567",
            "....",
            "........",
            "1.2.3.4.....",
            "255.255.255.2555",
            "12345678",
            "",
        ];
        for text in texts {
            assert_eq!(parse_v4(text.as_bytes()), simple(text.as_bytes()), "{text}");
            for at in 0..text.len() {
                for byte in 0..=u8::MAX {
                    let mut text = text.as_bytes().to_vec();
                    text[at] = byte;
                    assert_eq!(parse_v4(&text), simple(&text), "{text:?}");
                }
            }
        }
    }

    /// As the standard library writes them.
    #[test]
    fn addresses_are_written_as_usual_and_padded() {
        for n in [0u32, 0x0102_0304, 0xffff_ffff, 0x0a00_6409, 0x6363_0900, 0xc8c7_0b6e] {
            assert_eq!(Ip::v4(n).to_string(), Ipv4Addr::from(n).to_string());
        }
        assert_eq!(format!("{:9}|", ip("1.2.3.4")), "1.2.3.4  |");
        assert_eq!(format!("{:9}|", ip("fe80::1")), "fe80::1  |");
    }

    /// Expected values: Python 3.11's ipaddress.
    #[test]
    fn kinds_of_addresses_are_those_of_python() {
        for (text, private) in [
            ("10.1.2.3", true),
            ("172.31.0.1", true),
            ("172.32.0.1", false),
            ("192.0.0.7", true),
            ("192.0.0.8", false),
            ("198.19.255.1", true),
            ("100.64.0.1", false),
            ("203.0.113.9", true),
            ("250.1.1.1", true),
            ("8.8.8.8", false),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2001:db8::1", true),
            ("2001:0:1::", true),
            ("2a00::1", false),
            ("::1", true),
        ] {
            assert_eq!(ip(text).is_private(), private, "{text}");
        }
        assert!(ip("224.0.0.251").is_multicast() && ip("ff02::fb").is_multicast());
        assert!(ip("240.0.0.1").is_reserved() && ip("4000::1").is_reserved());
        assert!(!ip("2a00::1").is_reserved() && !ip("fd00::1").is_reserved());
    }

    #[test]
    fn addresses_and_networks_read_and_write() {
        for text in ["1.2.3.4", "fe80::1cf4:44d2:904a:14f7", "255.255.255.255", "::1"] {
            assert_eq!(ip(text).to_string(), text);
        }
        for text in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "00:00:00:00:00:00", "man", "1..2.3"] {
            assert_eq!(Ip::parse(text.as_bytes()), None, "{text}");
        }
        let net = Net::parse(b"192.168.7.9/16").unwrap();
        assert_eq!(net.to_string(), "192.168.0.0/16");
        assert!(net.contains(ip("192.168.255.1")) && !net.contains(ip("192.169.0.1")));
        assert_eq!(ip("172.20.1.1").rfc1918().unwrap().to_string(), "172.16.0.0/12");
        assert_eq!(Net::parse(b"1.2.3.4/33"), None);
    }
}

//! Link types of captures (the LINKTYPE numbers of the capture formats) that can be decoded.

/// What the bytes of a frame begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// Ethernet II (1).
    Ethernet,
    /// BSD loopback: a 32-bit address family in the writer's byte order (0) or network order (108).
    Null,
    /// IP without anything before it (12, 14, 101).
    Raw,
    /// IPv4 without anything before it (228).
    Ipv4,
    /// IPv6 without anything before it (229).
    Ipv6,
    /// PPP, with or without address and control (9, 50).
    Ppp,
    /// PPPoE without the Ethernet header before it (51).
    Pppoe,
    /// Cisco HDLC (104).
    CiscoHdlc,
    /// Linux cooked capture (113).
    LinuxCooked,
    /// Linux cooked capture, version 2 (276).
    LinuxCooked2,
}

impl Link {
    /// The link of a LINKTYPE number; `None` where it is not decoded.
    pub const fn from_linktype(number: u32) -> Option<Link> {
        Some(match number {
            1 => Link::Ethernet,
            0 | 108 => Link::Null,
            12 | 14 | 101 => Link::Raw,
            228 => Link::Ipv4,
            229 => Link::Ipv6,
            9 | 50 => Link::Ppp,
            51 => Link::Pppoe,
            104 => Link::CiscoHdlc,
            113 => Link::LinuxCooked,
            276 => Link::LinuxCooked2,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Link;

    #[test]
    fn only_known_numbers_are_links() {
        let known = [0, 1, 9, 12, 14, 50, 51, 101, 104, 108, 113, 228, 229, 276];
        for number in 0..400 {
            assert_eq!(Link::from_linktype(number).is_some(), known.contains(&number), "{number}");
        }
    }
}

//! The addresses of this host's interfaces, by which fields know the local end of a connection (`fd.lip`, `fd.rip`). They
//! are read from what the kernel shows of a network namespace below `/proc`: its routes and its IPv6 addresses.

use gabion_scap::host::{InterfaceAddress, InterfaceEntry};
use std::net::Ipv4Addr;

/// A route to a network without a gateway: the name of its interface, its first address and its mask.
type Route<'a> = (&'a str, u32, u32);

/// The interfaces by the texts of `net/fib_trie`, `net/route` and `net/if_inet6`. Those that can't be read are empty.
pub(crate) fn interfaces(trie: &str, routes: &str, inet6: &str) -> Vec<InterfaceEntry> {
    let routes: Vec<Route<'_>> = routes.lines().filter_map(direct_route).collect();
    let mut found: Vec<InterfaceEntry> =
        local_v4(trie).into_iter().map(|address| v4(address, &routes)).collect();
    found.extend(inet6.lines().filter_map(v6));
    found
}

/// The host's own addresses: leaves of the trie below which `/32 host LOCAL` stands. Each table of routes has them.
fn local_v4(trie: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut leaf = None;
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse::<Ipv4Addr>().ok().map(u32::from);
        } else if line == "/32 host LOCAL"
            && let Some(address) = leaf
            && !found.contains(&address)
        {
            found.push(address);
        }
    }
    found
}

/// A line of `net/route`: name, destination and gateway in the order of the machine's memory, …, mask as the 8th.
fn direct_route(line: &str) -> Option<Route<'_>> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let word = |at: usize| Some(u32::from_str_radix(fields.get(at)?, 16).ok()?.swap_bytes());
    let (network, gateway, mask) = (word(1)?, word(2)?, word(7)?);
    (gateway == 0 && mask != 0).then_some((fields.first()?, network, mask))
}

/// An address with name and mask of the narrowest network that it is in. The loopback has no route of its own.
fn v4(address: u32, routes: &[Route<'_>]) -> InterfaceEntry {
    let of = routes.iter().filter(|(_, network, mask)| address & mask == *network);
    let route = of.max_by_key(|(_, _, mask)| *mask);
    let (name, mask) = match route {
        Some((name, _, mask)) => (*name, *mask),
        None if address >> 24 == 127 => ("lo", 0xff00_0000),
        None => ("", u32::MAX),
    };
    InterfaceEntry {
        name: name.as_bytes().to_vec(),
        address: InterfaceAddress::V4 {
            address: address.to_be_bytes(),
            netmask: mask.to_be_bytes(),
            broadcast: (address | !mask).to_be_bytes(),
        },
        link_speed: 0,
    }
}

/// A line of `net/if_inet6`: address, number of the interface, bits of the prefix, …, name.
fn v6(line: &str) -> Option<InterfaceEntry> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let address = u128::from_str_radix(fields.first()?, 16).ok()?;
    let bits = u32::from_str_radix(fields.get(2)?, 16).ok()?;
    let mask = u128::MAX.checked_shl(128_u32.checked_sub(bits)?).unwrap_or(0);
    Some(InterfaceEntry {
        name: fields.get(5)?.as_bytes().to_vec(),
        address: InterfaceAddress::V6 {
            address: address.to_be_bytes(),
            netmask: mask.to_be_bytes(),
            broadcast: (address | !mask).to_be_bytes(),
        },
        link_speed: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIE: &str = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                        \x20    +-- 127.0.0.0/8 2 0 2\n           |-- 127.0.0.0\n              /8 host LOCAL\n\
                        \x20          |-- 127.0.0.1\n              /32 host LOCAL\n\
                        \x20          |-- 192.0.2.0\n              /24 link UNICAST\n\
                        \x20          |-- 192.0.2.2\n              /32 host LOCAL\n\
                        Local:\n           |-- 192.0.2.2\n              /32 host LOCAL\n";
    const ROUTES: &str = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n\
                          eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\n\
                          eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\n";

    #[test]
    fn addresses_have_the_name_and_the_mask_of_their_network() {
        let inet6 = "fe8000000000000000fc00fffe000001 04 40 20 80     eth0\nbroken\n";
        let found = interfaces(TRIE, ROUTES, inet6);
        let names: Vec<&[u8]> = found.iter().map(|entry| &*entry.name).collect();
        assert_eq!(names, [&b"lo"[..], b"eth0", b"eth0"]);
        let address = InterfaceAddress::V4 {
            address: [192, 0, 2, 2],
            netmask: [255, 255, 255, 0],
            broadcast: [192, 0, 2, 255],
        };
        assert_eq!(found[1].address, address);
        let InterfaceAddress::V6 { address, netmask, .. } = found[2].address else {
            panic!("{found:?}")
        };
        assert_eq!((address[0], netmask[7], netmask[8]), (0xfe, 0xff, 0));
        assert!(interfaces("", "", "").is_empty());
    }
}

//! Names of users and groups, and the host's own addresses: what a capture lists and events change.

use foldhash::fast::RandomState;
use gabion_record::Ip;
use gabion_scap::host::{InterfaceAddress, InterfaceEntry, UserEntry};
use hashbrown::HashMap;

use crate::limits::reached;

/// A user of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: Vec<u8>,
    /// Its home directory.
    pub home: Vec<u8>,
    /// Its shell.
    pub shell: Vec<u8>,
}

/// Users and groups by their numbers.
#[derive(Debug, Default)]
pub struct Accounts {
    users: HashMap<u32, User, RandomState>,
    groups: HashMap<u32, Vec<u8>, RandomState>,
}

impl Accounts {
    /// Adds an entry of a list, or replaces the one of its number.
    pub fn add(&mut self, entry: &UserEntry) {
        match entry {
            UserEntry::User { uid, name, home, shell, .. } => {
                let user = User { name: name.clone(), home: home.clone(), shell: shell.clone() };
                self.add_user(*uid, user);
            }
            UserEntry::Group { gid, name } => self.add_group(*gid, name),
        }
    }

    /// Hands all users and groups to `sink`, in the order of their numbers. The main group of a user is not known.
    pub(crate) fn list(&self, sink: &mut dyn FnMut(UserEntry)) {
        let mut users: Vec<_> = self.users.iter().collect();
        users.sort_by_key(|(uid, _)| **uid);
        for (uid, User { name, home, shell }) in users {
            let [name, home, shell] = [name, home, shell].map(Clone::clone);
            sink(UserEntry::User { uid: *uid, gid: u32::MAX, name, home, shell });
        }
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(gid, _)| **gid);
        for (gid, name) in groups {
            sink(UserEntry::Group { gid: *gid, name: name.clone() });
        }
    }

    /// Adds a user, or replaces the one of this number.
    pub fn add_user(&mut self, uid: u32, user: User) {
        if self.users.contains_key(&uid) || reached::ACCOUNTS_MAX.has_room(self.users.len()) {
            self.users.insert(uid, user);
        }
    }

    /// Adds a group, or replaces the one of this number.
    pub fn add_group(&mut self, gid: u32, name: &[u8]) {
        if self.groups.contains_key(&gid) || reached::ACCOUNTS_MAX.has_room(self.groups.len()) {
            self.groups.insert(gid, name.to_vec());
        }
    }

    /// Removes a user.
    pub fn remove_user(&mut self, uid: u32) {
        self.users.remove(&uid);
    }

    /// Removes a group.
    pub fn remove_group(&mut self, gid: u32) {
        self.groups.remove(&gid);
    }

    /// The user of a number.
    pub fn user(&self, uid: u32) -> Option<&User> {
        self.users.get(&uid)
    }

    /// The name of a group.
    pub fn group(&self, gid: u32) -> Option<&[u8]> {
        self.groups.get(&gid).map(Vec::as_slice)
    }
}

/// An IPv4 interface: address and mask in host order.
#[derive(Clone, Copy, Debug)]
struct V4 {
    address: u32,
    mask: u32,
}

/// An IPv6 interface.
#[derive(Clone, Copy, Debug)]
struct V6 {
    address: Ip,
    mask: u128,
}

/// The addresses of the host's interfaces.
#[derive(Debug, Default)]
pub struct Interfaces {
    v4: Vec<V4>,
    v6: Vec<V6>,
}

impl Interfaces {
    /// Adds an interface of a list.
    pub fn add(&mut self, entry: &InterfaceEntry) {
        if !reached::INTERFACES_MAX.has_room(self.v4.len() + self.v6.len()) {
            return;
        }
        match entry.address {
            InterfaceAddress::V4 { address, netmask, .. } => self.v4.push(V4 {
                address: u32::from_be_bytes(address),
                mask: u32::from_be_bytes(netmask),
            }),
            InterfaceAddress::V6 { address, netmask, .. } => self
                .v6
                .push(V6 { address: Ip::from_bytes(address), mask: u128::from_be_bytes(netmask) }),
        }
    }

    /// Whether the address is one of the host. Without a list it is not known, and the answer is no.
    pub fn is_local(&self, ip: Ip) -> bool {
        match ip.as_v4() {
            Some(number) => {
                number == LOOPBACK || self.v4.iter().any(|interface| interface.address == number)
            }
            None => self.v6.iter().any(|interface| interface.address == ip),
        }
    }

    /// The address from which the host probably reaches `dest`: of the interface in the same network, else of the
    /// first that is not the loopback.
    pub fn source_for(&self, dest: Ip) -> Option<Ip> {
        match dest.as_v4() {
            Some(number) => {
                let same = |i: &&V4| i.address & i.mask == number & i.mask;
                let found = self.v4.iter().find(same);
                let found = found.or_else(|| self.v4.iter().find(|i| i.address != LOOPBACK));
                found.map(|interface| Ip::v4(interface.address))
            }
            None => {
                let number = dest.number();
                let same = |i: &&V6| i.address.number() & i.mask == number & i.mask;
                let found = self.v6.iter().find(same);
                let found = found.or_else(|| self.v6.iter().find(|i| !i.address.is_loopback()));
                found.map(|interface| interface.address)
            }
        }
    }
}

/// 127.0.0.1 in host order.
const LOOPBACK: u32 = 0x7f00_0001;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{ACCOUNTS_MAX, INTERFACES_MAX};

    fn v4(address: [u8; 4], netmask: [u8; 4]) -> InterfaceEntry {
        InterfaceEntry {
            name: b"eth0".to_vec(),
            address: InterfaceAddress::V4 { address, netmask, broadcast: [0; 4] },
            link_speed: 0,
        }
    }

    #[test]
    fn accounts_and_interfaces_beyond_the_limits_are_counted() {
        let _ = gabion_record::limits::take_reached();
        let mut accounts = Accounts::default();
        for gid in 0..=ACCOUNTS_MAX as u32 {
            accounts.add_group(gid, b"g");
            accounts.add_user(gid, User::default());
        }
        let last = ACCOUNTS_MAX as u32;
        assert!(accounts.group(last - 1).is_some() && accounts.group(last).is_none());
        // One that is known is replaced.
        accounts.add_group(0, b"h");
        assert_eq!(accounts.group(0), Some(&b"h"[..]));
        let mut interfaces = Interfaces::default();
        for n in 0..=INTERFACES_MAX as u32 {
            interfaces.add(&v4((0x0a00_0000 + n).to_be_bytes(), [255; 4]));
        }
        assert!(!interfaces.is_local(Ip::v4(0x0a00_0000 + INTERFACES_MAX as u32)));
        let counted = gabion_record::limits::take_reached();
        assert_eq!(counted.times_reached(&reached::ACCOUNTS_MAX), 2);
        assert_eq!(counted.times_reached(&reached::INTERFACES_MAX), 1);
    }

    #[test]
    fn the_source_is_in_the_network_of_the_destination_if_one_is() {
        let mut interfaces = Interfaces::default();
        assert_eq!(interfaces.source_for(Ip::v4(1)), None);
        interfaces.add(&v4([127, 0, 0, 1], [255, 0, 0, 0]));
        interfaces.add(&v4([10, 0, 2, 15], [255, 255, 255, 0]));
        interfaces.add(&v4([172, 17, 0, 1], [255, 255, 0, 0]));
        let source = |a, b, c, d| {
            interfaces.source_for(Ip::v4(u32::from_be_bytes([a, b, c, d]))).unwrap().to_string()
        };
        assert_eq!(source(172, 17, 9, 9), "172.17.0.1");
        assert_eq!(source(8, 8, 8, 8), "10.0.2.15");
        assert!(interfaces.is_local(Ip::v4(0x0a00_020f)));
        assert!(!interfaces.is_local(Ip::v4(0x0a00_0210)));
    }

    #[test]
    fn accounts_are_added_replaced_and_removed() {
        let mut accounts = Accounts::default();
        accounts.add(&UserEntry::Group { gid: 0, name: b"wheel".to_vec() });
        accounts.add_group(0, b"root");
        assert_eq!(accounts.group(0), Some(&b"root"[..]));
        accounts.add_user(5, User { name: b"games".to_vec(), ..User::default() });
        assert_eq!(accounts.user(5).unwrap().name, b"games");
        accounts.remove_user(5);
        accounts.remove_group(0);
        assert!(accounts.user(5).is_none() && accounts.group(0).is_none());
    }
}
